"""Where a tape repeats itself: runs of turns in which the same operations follow each other, whatever they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..base.impure import Impure
from ..base.types import ArrayType, TupleType
from ..registry.registry import primitive_of
from ..tape.loop import LONGEST, Loop, as_loop
from ..tape.operations import Call, Constant, Guard, Input, Operation, Variable
from ..tape.tape import ALL, Tape

LEAST_TURNS = 8
LEAST_SAVED = 200  # operations: fewer run better side by side than in a loop
MANY_OPERATIONS, LEAST_OF_MANY = 600, 100  # of a tape that is as long; it takes long to compile
MAX_PERIODS = 12  # that are tried, of two kinds
MAX_RUNS = 200
MIN_RECORDED = 2  # turns of a run of which the rest is said: what they read is found by comparison


class Run(NamedTuple):
    """So many ``turns`` of ``period`` operations each, of which the first is the one with the index ``start``.

    The last of them may have been ``said`` by a loop behind the others, which has not recorded them one by one
    (``loops/watching.py``); it and its results are so many operations ``behind`` them.
    """

    start: int
    period: int
    turns: int
    said: int = 0
    behind: int = 0

    @property
    def recorded(self) -> int:
        """The turns that are on the tape."""
        return self.turns - self.said

    @property
    def stop(self) -> int:
        """The index of the operation behind the last turn that is on the tape."""
        return self.start + self.period * self.recorded

    @property
    def end(self) -> int:
        """The index of the operation behind all."""
        return self.stop + self.behind


def runs(tape: Tape) -> Iterator[Run]:
    """Runs that may be loops, the longest first; they may overlap.

    An operation is known by its token, in which there is no operand. The distance between operations of one token
    proposes a period; where all tokens are as they were a period before, there is a run. Each period takes time in
    proportion to the length of the tape.
    """
    tokens = tokens_of(tape)
    said, found = [*_said(tape, tokens)], []
    for period in _periods(tokens):
        same = np.flatnonzero(np.diff(np.concatenate([[False], tokens[period:] == tokens[:-period], [False]])))
        for start, stop in zip(same[::2].tolist(), same[1::2].tolist(), strict=True):
            turns = (stop - start) // period + 1
            if pays(turns, period, len(tape)):
                found.append(Run(start, period, turns))
    found.sort(key=lambda run: (run.start - run.stop, run.period))
    around = [run for run in found if any(run.start <= part.start and part.end <= run.stop for part in said)]
    yield from around[:MAX_RUNS]  # what is in their turns is seen to when they are loops
    yield from said
    yield from [run for run in found if run not in around][:MAX_RUNS]


def _said(tape: Tape, tokens: np.ndarray) -> Iterator[Run]:
    """Runs whose last turns a loop has said."""
    for i, op in enumerate(tape.ops):
        loop = as_loop(op)
        if loop is None or loop.continues is None:
            continue
        period, between = loop.continues.period, loop.continues.between
        start = stop = i - between
        while start >= period and (tokens[start - period : start] == tokens[stop - period : stop]).all():
            start -= period
        if (recorded := (stop - start) // period) >= MIN_RECORDED:
            yield Run(start, period, recorded + loop.turns, loop.turns, between + 1 + len(loop.output_types))


def are_alike(tape: Tape, start: int) -> bool:
    """Whether the operations from ``start`` on are those that come before, whatever they read."""
    period, number = len(tape) - start, _Numbers()
    if period > start:
        return False
    return all(
        (token := _token(op, number)) is not None and token == _token(before, number)
        for op, before in zip(tape.ops[start:], tape.ops[start - period : start], strict=True)
    )


def saved_by_loops(tape: Tape) -> int:
    """About how many operations a tape has more than it would have with its runs as loops."""
    if len(tape) < LEAST_SAVED:
        return 0
    taken: list[Run] = []
    for run in runs(tape):
        if not any(run.start < other.end and other.start < run.end for other in taken):
            taken.append(run)
    return sum((run.recorded - 1) * run.period for run in taken)


def pays(turns: int, period: int, among: int) -> bool:
    """Whether a loop is better than its turns side by side, on a tape of so many operations."""
    least = min(LEAST_SAVED, LEAST_OF_MANY) if among >= MANY_OPERATIONS else LEAST_SAVED
    return turns >= LEAST_TURNS and (turns - 1) * period >= least


def _periods(tokens: np.ndarray) -> list[int]:
    """Distances of equal tokens that come often, or cover much."""
    order = np.argsort(tokens, kind="stable")
    distances = np.diff(order)[np.diff(tokens[order]) == 0]
    periods, counts = np.unique(distances, return_counts=True)
    chosen: dict[int, None] = {}
    for weights in (counts, counts * periods):
        chosen.update(dict.fromkeys(periods[np.argsort(-weights, kind="stable")[:MAX_PERIODS]].tolist()))
    return [*chosen]


def tokens_of(tape: Tape) -> np.ndarray:
    """A number per operation: that of its kind, or one of its own for what cannot be in a loop."""
    known: dict[Any, int] = {}
    number = _Numbers()
    again = [region for region in tape.regions if region.every == ALL]  # a turn has all of it, or nothing
    borders = dict.fromkeys((r.start for r in again), "begins") | dict.fromkeys((r.stop - 1 for r in again), "ends")
    out = np.empty(len(tape), np.int64)
    for i, op in enumerate(tape.ops):
        key = _token(op, number)
        key = key if (border := borders.get(i)) is None or key is None else (key, border)
        out[i] = -i - 1 if key is None else known.setdefault(key, len(known))
    return out


class _Numbers(dict[int, int]):
    """A number for each type and site, by the identity of the object, of which there are few: their hashes take
    long."""

    def __init__(self) -> None:
        super().__init__()
        self._equal: dict[Any, int] = {}

    def of(self, x: Any) -> int:
        """The same for what is equal."""
        known = self.get(id(x))
        if known is None:
            known = self[id(x)] = self._equal.setdefault(x, len(self._equal))
        return known


def _token(op: Operation, number: _Numbers) -> Any:
    if isinstance(op, Guard):
        return "guard", op.test, repr(op.expected), number.of(op.site)
    if isinstance(op, Constant) and op.captured is None:
        return "constant", number.of(op.type), number.of(op.site)
    if isinstance(op, Input | Constant) or isinstance(op.fn, Variable | Impure) or not is_of_numbers(op.type):
        return None
    if _becomes_complex(op):
        return None
    shapes = shape_of(op.args), shape_of(dict(op.kwargs)) if op.kwargs else None
    try:
        fn = op.fn if (loop := as_loop(op)) is None else _token_of_loop(loop, number)
        hash(key := (fn, number.of(op.type), number.of(op.site), *shapes))
    except TypeError:  # of a function, or an argument
        return None
    return key


def _becomes_complex(op: Call) -> bool:
    """Whether Python may have made a complex number of real ones, where NumPy makes NaN: (-1.0) ** 0.5."""
    t = op.type
    if not isinstance(t, ArrayType) or t.kind != "python" or t.dtype.kind != "c":
        return False
    entry = primitive_of(op.fn)
    return entry is not None and entry.decides is not None


def _token_of_loop(loop: Loop, number: _Numbers) -> Any:
    """The same for loops that do the same."""
    known: list[Any] = [(loop.carried, loop.stacked, loop.turns, loop.backward, loop.every, loop.until, loop.counted)]
    for op in loop.body.ops:
        if isinstance(op, Input):
            known.append((Input, number.of(op.type), op.active))
        elif isinstance(op, Constant):
            known.append((Constant, number.of(op.type), np.asarray(op.value).tobytes()))
        elif isinstance(op, Guard):
            known.append((_token(op, number), op.var, op.number))
        else:
            kwargs = leaves_of(dict(op.kwargs), []) if op.kwargs else []
            leaves = [x if isinstance(x, Variable) else (type(x), repr(x)) for x in leaves_of(op.args, kwargs)]
            known.append((_token(op, number) or id(op), *leaves))
    return Loop, *known, *loop.body.results


def is_of_numbers(t: Any) -> bool:
    """Whether a type is that of numbers and arrays of them, or a structure of such."""
    if isinstance(t, TupleType):
        return all(map(is_of_numbers, t.items))
    return isinstance(t, ArrayType) and t.dtype.kind in "fiubc"


def may_be_in_registers(t: Any) -> bool:
    """Whether a type is that of a real number, or of a short array of them."""
    return isinstance(t, ArrayType) and t.dtype.kind in "fiub" and t.size <= LONGEST


def shape_of(x: Any) -> Any:
    """A structure of arguments without its variables and numbers."""
    cls = type(x)
    if cls is Variable:
        return Variable
    if cls is tuple or cls is list:
        return cls, tuple([Variable if type(item) is Variable else shape_of(item) for item in x])
    if cls is dict:
        return dict, tuple([(key, shape_of(item)) for key, item in x.items()])
    if cls is slice:
        return slice, shape_of(x.start), shape_of(x.stop), shape_of(x.step)
    return cls if is_number(cls) else (cls, x)


def is_number(cls: type) -> bool:
    """Whether values of a class may be others in each turn."""
    return cls in (int, float) or (issubclass(cls, np.generic) and cls is not np.bool_)


CONTAINERS = frozenset([tuple, list, dict, slice])


def leaves_of(x: Any, out: list[Any]) -> list[Any]:
    """The variables, numbers and other leaves of a structure of arguments, in their order."""
    cls = type(x)
    if cls is tuple or cls is list:
        for item in x:
            leaves_of(item, out)
    elif cls is dict:
        for item in x.values():
            leaves_of(item, out)
    elif cls is slice:
        for part in (x.start, x.stop, x.step):
            leaves_of(part, out)
    else:
        out.append(x)
    return out


def with_leaves(op: Operation, leaves: Iterator[Any]) -> Operation:
    """An operation with other leaves."""
    if isinstance(op, Guard):
        return replace(op, var=next(leaves))
    if not isinstance(op, Call):
        return op
    args = refilled(op.args, leaves)
    return replace(op, args=args, kwargs=refilled(dict(op.kwargs), leaves) if op.kwargs else {})


def refilled(x: Any, leaves: Iterator[Any]) -> Any:
    """The same structure with other leaves."""
    cls = type(x)
    if cls is tuple or cls is list:
        return cls([refilled(item, leaves) for item in x])
    if cls is dict:
        return {key: refilled(item, leaves) for key, item in x.items()}
    if cls is slice:
        return slice(*[refilled(part, leaves) for part in (x.start, x.stop, x.step)])
    return next(leaves)
