"""What a program's call tells others (``print``), in the text of its entry (``entry.py``).

A program hands out, behind its results, the values that outputs want. They are told when it has run, in their order:
one that refuses a call has told nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..base.impure import Output, Text
from ..engine.compile import UncompilableError
from ..tape.operations import Call, Variable, operands, paths
from ..tracing.logs import LOGGERS
from ..tracing.traces import Trace


class Telling:
    """The outputs of one trace. ``slot`` tells where an object is found, and ``constant`` how a value is named."""

    def __init__(self, trace: Trace, slot: Callable[[Any], Any], constant: Callable[[Any], str]) -> None:
        self._slot, self._constant = slot, constant
        self._ops = [op for op in trace.tape.ops if isinstance(op, Call) and type(op.fn) is Output]
        self.count = sum(1 for op in self._ops for _ in operands(op))  # of values that they want

    def texts(self, names: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
        """Of each output: its function, to whom it tells something, and what (arguments and keywords); with the
        ``names`` of the values that they want."""
        values = iter(names)
        for op in self._ops:
            args = "".join(f"{self._text(x, values)}, " for x in op.args)
            kwargs = "".join(f"{key!r}: {self._text(x, values)}, " for key, x in op.kwargs.items())
            assert isinstance(op.fn, Output)
            yield self._constant(op.fn.tell), self._to(op.fn), f"({args})", f"{{{kwargs}}}"

    def _to(self, fn: Output) -> str:
        if isinstance(fn.of, str):
            return repr(fn.of)
        if (slot := self._slot(fn.of)) is None and isinstance(fn.of, LOGGERS):  # by its name, for good
            return self._constant(fn.of)
        if slot is None:
            raise UncompilableError(f"it calls {fn.name} of an object that is reached by a way that cannot be followed")
        return slot.code  # type: ignore[no-any-return]

    def _text(self, x: Any, values: Iterator[str]) -> str:
        """The expression of an argument."""
        if isinstance(x, Variable):
            return next(values)
        if not any(True for _ in paths(x)):
            return self._constant(x)
        if type(x) is dict:
            return f"{{{', '.join(f'{self._constant(key)}: {self._text(item, values)}' for key, item in x.items())}}}"
        items = "".join(f"{self._text(item, values)}, " for item in x)
        if type(x) is Text:
            return f"{self._constant(Text)}({items})"
        return f"({items})" if type(x) is tuple else f"[{items}]"
