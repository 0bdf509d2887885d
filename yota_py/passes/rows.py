"""What is added to an array, and is zero outside of a few of its elements, is added to those alone.

The gradient of ``E[words]`` is zero in all other rows, and so are multiples and sums of such gradients: a step of
``E -= rate * gradient`` takes time in proportion to the rows that were read. A factor that is not known must be finite,
as zeros times infinity are none: where it is not, an index leaves its bounds, and the call is interpreted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import getitem
from typing import Any

import numpy as np

from ..base.records import record
from ..base.types import ArrayType, Type, is_basic
from ..base.unwinding import Quiet
from ..registry.kernels import Map, Unindex
from ..registry.registry import primitive_of
from ..registry.tangents import chosen
from ..registry.writes import accumulated, setitem
from ..tape.operations import Call, Operation, Variable, operands, paths, substitute
from ..tape.tape import Tape
from .dce import dce
from .rewrite import number_of

MAX_MET = 50  # operations of one update
FEW = 4  # an array has at least so many times more elements than are added: those are added one by one


@record()
class _Piece:
    """What stands at an index: a variable or number, and what is done with it: functions, each with a factor before or
    behind the operand, if it has one."""

    value: Any
    index: Any
    steps: tuple[tuple[Any, Any, bool], ...] = ()


@record()
class _Update:
    """An array and what is added to it."""

    x: Variable
    pieces: Sequence[_Piece]


def rows(tape: Tape) -> Tape:
    """Additions of what is zero but for few elements, written as such."""
    if not any(isinstance(op, Call) and _is_unindex(op) for op in tape.ops):
        return tape
    updates = _Search(tape).updates()
    if not updates:
        return tape
    at = iter(range(1, len(tape) + 1))
    env: dict[Variable, Any] = {}

    def visit(out: Tape, op: Operation) -> Any:
        var = Variable(next(at))
        new = _written(out, updates[var], env, op) if var in updates else out.append(op)
        env[var] = new
        return new

    return dce(tape.rewrite(visit))


def _is_unindex(op: Call) -> bool:
    entry = primitive_of(op.fn)
    return entry is not None and isinstance(entry.kernel, Unindex)


class _Search:
    """Looks for updates, from the last one on: what is part of one is none itself."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.uses = Counter(x for _, op in tape for x in operands(op)) + Counter(x for _, x in paths(tape.results))

    def updates(self) -> dict[Variable, _Update]:
        """By the variables that they compute."""
        found: dict[Variable, _Update] = {}
        inside: set[Variable] = set()
        for var, op in reversed([*self.tape]):
            if var not in inside and isinstance(op, Call) and (update := self._update(op, inside)) is not None:
                found[var] = update
        return found

    def _update(self, op: Call, inside: set[Variable]) -> _Update | None:
        does = _emits(op)
        if does not in ("add", "sub") or op.kwargs or len(op.args) != 2:
            return None
        x, w = op.args
        given = [(x, w, does == "sub")] + ([(w, x, False)] if does == "add" else [])
        for base, added, negated in given:
            if not isinstance(base, Variable) or self.tape.type_of(base) != op.type:
                continue
            met: list[Variable] = []
            pieces = self._pieces(added, op.type, met)  # type: ignore[arg-type]
            if pieces and FEW * sum(self.tape.type_of(p.value).size for p in pieces) <= op.type.size:  # type: ignore[union-attr]
                inside.update(met)
                return _Update(base, [_behind(p, np.negative) for p in pieces] if negated else pieces)
        return None

    def _pieces(self, x: Any, t: ArrayType, met: list[Variable]) -> list[_Piece]:
        """What is left of an array that is zero elsewhere; nothing if it is another, or wanted for something else."""
        op = self.tape[x] if isinstance(x, Variable) and self.uses[x] == 1 else None
        if not isinstance(op, Call) or op.kwargs or op.type != t or len(met) == MAX_MET:
            return []
        met.append(x)
        if _is_unindex(op):
            value, index, _ = op.args
            same = self.tape.type_of(value).dtype == t.dtype
            return [_Piece(value, index)] if same else []
        does = _emits(op)
        if does in ("add", "sub"):
            parts = [self._pieces(arg, t, met) for arg in op.args]
            second = [_behind(p, np.negative) for p in parts[1]] if does == "sub" else parts[1]
            return [*parts[0], *second] if all(parts) else []
        if does == "neg":
            return [_behind(p, np.negative) for p in self._pieces(op.args[0], t, met)]
        if does not in ("mul", "div"):
            return []
        for k in (0, 1) if does == "mul" else (0,):
            factor = op.args[1 - k]
            if self.tape.type_of(factor).shape == () and (pieces := self._pieces(op.args[k], t, met)):
                scaled = [_behind(p, op.fn, factor, first=k == 0) for p in pieces]
                return scaled if all(self._keeps_zeros(p) for p in scaled) else []
        return []

    def _keeps_zeros(self, piece: _Piece) -> bool:
        """Whether the last operation on a piece leaves zeros that are none, or can be seen to."""
        fn, factor, first = piece.steps[-1]
        if (number := number_of(self.tape, factor)) is not None:
            zero = self.tape.type_of(piece.value).dtype.type(0)  # of which a number of Python's takes the precision
            with Quiet():
                return bool((fn(zero, number) if first else fn(number, zero)) == 0)
        first = piece.index[0] if isinstance(piece.index, tuple) and piece.index else piece.index
        t = self.tape.type_of(first)
        return not is_basic(piece.index) and isinstance(t, ArrayType) and t.name in ("int32", "int64")


def _emits(op: Call) -> str:
    """The name of the kernel of an elementwise operation."""
    entry = primitive_of(op.fn)
    return entry.kernel.emit if entry is not None and isinstance(entry.kernel, Map) else ""


def _behind(piece: _Piece, fn: Any, factor: Any = None, *, first: bool = True) -> _Piece:
    return replace(piece, steps=(*piece.steps, (fn, factor, first)))


def _written(out: Tape, update: _Update, env: dict[Variable, Any], op: Operation) -> Variable:
    """An update on the new tape, and a look at the elements before where an index may leave its bounds."""

    def call(t: Type, fn: Any, *args: Any) -> Variable:
        return out.append(Call(fn, args, {}, t, op.site))

    x: Variable = env[update.x]
    y = x
    for piece in update.pieces:
        value, index = substitute(piece.value, env.__getitem__), substitute(piece.index, env.__getitem__)
        t, given = out.type_of(value), index
        for fn, factor, first in piece.steps:
            if factor is None:
                value = call(t, fn, value)
                continue
            factor = env[factor] if isinstance(factor, Variable) else factor
            if number_of(out, factor) is None:
                nothing = op.type.dtype.type(0)  # type: ignore[union-attr]
                zero = out.call(fn, *((nothing, factor) if first else (factor, nothing)))
                index = _within(out, index, out.call(np.equal, zero, 0.0), op.type.shape[0])  # type: ignore[union-attr]
            value = call(t, fn, *((value, factor) if first else (factor, value)))
        if is_basic(index):
            y = call(op.type, setitem, y, index, call(t, np.add, call(t, getitem, y, index), value))
            continue
        if index is not given:
            call(t, getitem, x, index)
        y = call(op.type, accumulated, np.add, y, index, value)
    return y


def _within(out: Tape, index: Any, good: Variable, extent: int) -> Any:
    """An index that is out of bounds if something is not as it must be."""
    first, rest = (index[0], index[1:]) if isinstance(index, tuple) else (index, None)
    first = out.append(Call(chosen, (good, first, extent), {}, out.type_of(first)))
    return first if rest is None else (first, *rest)
