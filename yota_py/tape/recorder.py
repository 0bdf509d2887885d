"""A tape being written together with its values: every operation is computed as it is appended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import optree
from numpy import ndarray

from ..base import dispatch
from ..base.types import OpaqueType, order_in_memory, typeof
from .operations import Call, Constant, Input, Operation, Site, Variable, arguments, substitute
from .tape import Tape

LARGE_BYTES = 2**20  # of a value that is not kept for longer than it must be


def is_large(value: Any) -> bool:
    """Whether a value takes much memory."""
    return type(value) is ndarray and value.nbytes > LARGE_BYTES


class Recorder:
    """A tape and, per variable, the value that the operation has for the current inputs (``None`` if it is large and
    can be computed again)."""

    __slots__ = ("tape", "values")

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.values: list[Any] = [None]

    def __getitem__(self, var: Variable) -> Any:
        return self.values[var.id]

    def returning(self, results: Sequence[Any], out_spec: optree.PyTreeSpec | None = None) -> Recorder:
        """The same operations and values with other results."""
        out = Recorder(replace(self.tape, results=[*results], out_spec=out_spec))
        out.values = self.values
        return out

    def append(self, op: Operation, value: Any) -> Variable:
        """Add an operation whose value is known."""
        self.values.append(value)
        return self.tape.append(op)

    def take(self, op: Operation, value: Any) -> Variable:
        """Add an operation of another recording, where it has this value; a call without one is computed."""
        if isinstance(op, Call) and value is None and not isinstance(op.type, OpaqueType):
            return self.call(op.fn, op.args, op.kwargs, site=op.site, note=op.note)
        return self.append(op, value)

    def call(
        self,
        fn: Callable[..., Any] | Variable,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None = None,
        *,
        site: Site | None = None,
        note: str = "",
    ) -> Variable:
        """Compute ``fn(*args, **kwargs)`` for arguments that contain variables, and add the call."""
        kwargs = kwargs or {}
        function = self[fn] if isinstance(fn, Variable) else fn
        keywords = substitute(dict(kwargs), self.__getitem__) if kwargs else {}
        value = dispatch.call(function, arguments(args, self.values), keywords)
        return self.append(Call(fn, args, kwargs, typeof(value), site, note), value)

    def constant(self, value: Any, note: str = "") -> Variable:
        """Add a constant."""
        return self.append(Constant(value, typeof(value), note), value)

    def input(self, value: Any, name: str, *, active: bool = True, note: str = "") -> Variable:
        """Add an input."""
        return self.append(Input(name, typeof(value), active, None, note, order_in_memory(value)), value)
