"""What draws random numbers and reads clocks before a program runs, in the text of its entry (``entry.py``).

``d0``, ``d1``, … are what is drawn; ``a0``, … parameters that are computed for it; ``g0``, … generators that the
function makes; ``s0``, … states of those that are there before. A call that is refused leaves these as they were, and
nobody else draws meanwhile. Where a draw fails, or gives another type than was traced, the function may have taken
another way before it came there: the program is asked, with zeros in the place of what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..base.generators import NUMPYS, PYTHONS, WITHOUT_NORMALS, Draw, lock_of, put_back, state_of
from ..base.impure import Clock
from ..base.refusal import Raised
from ..base.types import LARGE, ArrayType
from ..engine.compile import UncompilableError
from ..tape.operations import Call, Constant, Variable, paths
from ..tracing.draws import MAKERS
from ..tracing.traces import Trace

_PYTHON = {"f": float, "i": int, "c": complex, "b": bool}  # types, by kinds of dtypes

_PROGRAM = "(apart if rehearsing else program)"


class Redrawing:
    """The draws of one trace, and the clocks that it reads first. ``names`` are those of what is drawn and read;
    ``roots`` those of what is known before; ``slot`` tells where a generator is found, and ``constant`` how a value is
    named."""

    def __init__(
        self, trace: Trace, roots: Mapping[Variable, str], slot: Callable[[Any], Any], constant: Callable[[Any], str]
    ) -> None:
        self._trace, self._roots, self._slot, self._constant = trace, roots, slot, constant
        self.names: dict[Variable, str] = {}
        self._computed: dict[Variable, str] = {}
        self._made: dict[Variable, str] = {}
        self._methods: dict[str, list[str]] = {}  # of a generator, by how it is found
        self._fixed = True  # whether parameters are the same at each call
        self._lines: list[str] = []
        self.times: tuple[int, ...] = ()  # the positions of times among what the program captures
        for var, op in trace.tape:
            if isinstance(op, Call) and type(op.fn) is Draw:
                self._draw(var, op, op.fn)
            elif isinstance(op, Call) and type(op.fn) is Clock and op.fn.first:
                self.times += (trace.captured + len(self.names),)
                name = self.names[var] = f"d{len(self.names)}"
                self._lines.append(f"{name} = {constant(op.fn.read)}()")

    # -- the draws

    def _draw(self, var: Variable, op: Call, fn: Draw) -> None:
        args = op.args if fn.of is not None else op.args[1:]
        self._fixed &= all(isinstance(self._trace.tape[x], Constant) and x not in self._roots
                           for _, x in paths((args, dict(op.kwargs))))  # fmt: skip
        given = [self._text(x) for x in args] + [f"{key}={self._text(x)}" for key, x in op.kwargs.items()]
        method = self._found(fn) if fn.of is not None else f"{self._made[op.args[0]]}.{fn.name}"
        call = f"{method}({', '.join(given)})"
        if fn.kind is not None:
            call = f"{self._constant(fn.kind)}({call})"
        if fn.of is MAKERS:
            name = self._made[var] = f"g{len(self._made)}"
        elif isinstance(op.type, ArrayType):
            name = self.names[var] = f"d{len(self.names)}"
        else:  # it is seeded
            name = "_"
        self._lines.append(f"{name} = {call}")

    def _found(self, fn: Draw) -> str:
        """What is called."""
        if fn.of is MAKERS:
            return self._constant(getattr(fn.of, fn.name))
        if fn.of in (NUMPYS, PYTHONS):
            code = self._constant(fn.of)
        elif (slot := self._slot(fn.of)) is not None:
            code = slot.code
        else:
            raise UncompilableError("it draws from a generator that is reached by a way that cannot be followed")
        self._methods.setdefault(code, []).append(fn.name)
        return f"{code}.{fn.name}"

    def _text(self, x: Any) -> str:
        """The expression of an argument."""
        if isinstance(x, Variable):
            return self._value(x)
        variables = dict.fromkeys(var for _, var in paths(x))
        if not variables:
            return self._constant(x)
        if isinstance(x, slice):
            return f"slice({', '.join(map(self._text, (x.start, x.stop, x.step)))})"
        if type(x) in (tuple, list):
            items = "".join(f"{self._text(item)}, " for item in x)
            return f"({items})" if type(x) is tuple else f"[{items}]"
        raise UncompilableError(f"it draws with a {type(x).__name__} that holds computed parameters")

    def _value(self, var: Variable) -> str:
        """The name of what is known by now; computed, if it is not."""
        for known in (self._roots, self.names, self._computed):
            if var in known:
                return known[var]
        op = self._trace.tape[var]
        if isinstance(op, Constant):
            return self._constant(self._trace[var])
        assert isinstance(op, Call)
        given = [self._text(x) for x in op.args] + [f"{key}={self._text(x)}" for key, x in op.kwargs.items()]
        name = self._computed[var] = f"a{len(self._computed)}"
        self._lines.append(f"{name} = {self._constant(op.fn)}({', '.join(given)})")
        return name

    # -- the program

    def running(self, program: Any, given: Sequence[str]) -> list[str]:
        """Lines that draw and run a program, whose result ``y`` is; ``given`` are its other inputs."""
        inputs = "".join(f"{x}, " for x in given)
        if not self._lines:
            return [f"y = {_PROGRAM}({inputs})", "if type(y) is not tuple: return y"]
        drawn, zeros = (f"{inputs}{', '.join(each)}" for each in (self.inputs(), self._zeros()))
        states, back = [], ["pass"]
        for i, (slot, methods) in enumerate(self._methods.items()):
            known = ", ".join(map(repr, dict.fromkeys(methods)))
            states.append(f"s{i} = None if certain else {self._constant(state_of)}({slot}, methods=({known},))")
            back.append(f"{self._constant(put_back)}({slot}, s{i})")
        undo = "; ".join(back)
        lock = f"{self._constant(lock_of)}({', '.join(self._methods)})" if self._methods else "free"
        return [
            f"certain = {self._certain(program)}",
            f"free = {self._constant(nullcontext())}",
            f"with free if certain else {lock}:",
            *(f" {line}" for line in states),
            " try:",
            *(f"  {line}" for line in self._lines),
            f"  odd = None if {' and '.join(self._types()) or 'True'} else MISFIT",
            f" except Exception: odd = {self._constant(Raised())}",
            " if odd is not None:",
            f"  {undo}",
            f"  y = apart({zeros})",
            "  return odd if type(y) is tuple else y",
            f" y = {_PROGRAM}({drawn})",
            f" if rehearsing or type(y) is not tuple: {undo}",
            "if type(y) is not tuple: return y",
        ]

    def _certain(self, program: Any) -> str:
        """The condition under which the program gives results, so that no state has to be taken down: that may take
        longer than all the rest."""
        soon = all(map(WITHOUT_NORMALS.issuperset, self._methods.values()))
        if soon or not (program.certain and self._fixed):
            return "False"
        types = (self._is_of(var, name) for var, name in self._roots.items())
        return " and ".join(["not rehearsing", f"not {self._constant(program)}.is_due", *types])

    def _types(self) -> Iterator[str]:
        """What is drawn is of the types that were drawn before."""
        return (self._is_of(var, name) for var, name in self.names.items())

    def _is_of(self, var: Variable, name: str) -> str:
        t = self._trace.tape[var].type
        if not isinstance(t, ArrayType):
            return "False"
        if t.kind == "array":
            dtype = self._constant(t.dtype)
            return f"type({name}) is ndarray and {name}.shape == {t.shape} and {name}.dtype is {dtype}"
        kind = _PYTHON[t.dtype.kind] if t.kind == "python" else t.dtype.type
        return f"type({name}) is {self._constant(kind)}" + (f" and -{LARGE} < {name} < {LARGE}" if kind is int else "")

    def inputs(self) -> list[str]:
        """What is drawn, as the program takes it."""
        return [f"int64({x})" if isinstance(self._trace[var], int) else x for var, x in self.names.items()]

    def _zeros(self) -> list[str]:
        return [self._constant(self._zero(var)) for var in self.names]

    def _zero(self, var: Variable) -> Any:
        t: Any = self._trace.tape[var].type
        zero = np.zeros(t.shape, t.dtype)
        return zero if t.kind == "array" else zero.item() if t.kind == "python" and t.dtype.kind == "f" else zero[()]
