"""Fusion: which operations of a lowered tape run in one loop nest.

Elementwise operations over one iteration space form a *cluster*, with the reductions of their results, and with the
gathers and boxes (adjoints of slices) that are read in that space. Steps are kept in an order that satisfies all
dependencies, so an operation joins the first cluster of its space that stands behind everything it reads.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ..dispatch import decided
from ..operations import Call, Guard, Variable, operands, paths
from ..registry import Primitive, primitive_of
from ..tangents import astype, strong_multiply
from ..tape import Tape
from ..types import ArrayType, typeof
from .rewrite import type_of

SUPPORTED = frozenset(["float64", "float32", "int64", "int32", "bool"])
MAX_CLUSTER = 200  # operations: beyond it a loop body runs out of registers, and LLVM out of patience
# Elementwise functions that the maths builder writes for integers as well.
_ON_INTEGERS = frozenset([
    np.add, np.subtract, np.multiply, np.negative, np.absolute, np.maximum, np.minimum, np.equal, np.not_equal, np.less,
    np.less_equal, np.greater, np.greater_equal, np.where, np.square, np.bitwise_and, np.bitwise_or, np.bitwise_xor,
    np.logical_and, np.logical_or, np.logical_not, np.logical_xor, np.positive, np.invert, astype,
])  # fmt: skip
_REDUCTIONS = {np.sum: "sum", np.prod: "prod", np.max: "max", np.min: "min"}


@dataclass(frozen=True, slots=True)
class Item:
    """One operation of a cluster.

    ``reads`` are its operands, each with the dtype it is cast to. A "pad" has its box as ``(first, extent)`` per
    dimension, a "reduce" its mode and the reduced axes; "gather" and "scatter" read data first, then the indices;
    "require" is a guard, whose ``emit`` gives a mask that must be true in all elements. A "pad" has the
    ``shape`` of its operand, and may have ``inner`` items, which compute the operand anew from what they read.
    """

    var: Variable
    kind: Literal["map", "pad", "gather", "reduce", "scatter", "require"]
    reads: tuple[tuple[Any, str], ...]
    dtype: str
    emit: Any = None
    box: tuple[tuple[int, int], ...] = ()
    mode: str = ""
    axes: tuple[int, ...] = ()
    inner: tuple[Item, ...] = ()
    shape: tuple[int, ...] = ()


@dataclass(slots=True)
class Cluster:
    """Operations that run in one loop nest over ``space``."""

    space: tuple[int, ...]
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Matmul:
    """A product of matrices or of a matrix and a vector, for BLAS."""

    var: Variable
    a: Variable
    b: Variable


@dataclass(frozen=True, slots=True)
class Concatenate:
    """Arrays copied behind each other along an axis."""

    var: Variable
    parts: tuple[Any, ...]
    axis: int


@dataclass(frozen=True, slots=True)
class Python:
    """An operation that no kernel covers: called as it is."""

    var: Variable


@dataclass(frozen=True, slots=True)
class PythonCopy:
    """A copy of values that no kernel handles (complex numbers, small integers), between two places."""

    source: Any
    target: Any


Step = Cluster | Matmul | Concatenate | Python


@dataclass(slots=True)
class Schedule:
    """The steps in order; ``views`` maps a view to the variable whose memory it shares (its first argument)."""

    tape: Tape
    steps: list[Step]
    views: dict[Variable, Variable]


def fuse(tape: Tape) -> Schedule:
    """Group the operations of a lowered tape into steps."""
    schedule = Schedule(tape, [], {})
    home: dict[Variable, int] = {}  # the step that computes a variable
    inside: dict[Variable, int] = {}  # the cluster that has it in registers, in its iteration space
    by_space: dict[tuple[int, ...], list[int]] = {}
    items: dict[Variable, Item] = {}
    only_padded = _only_padded(tape)
    for var, op in tape:
        if not isinstance(op, Call | Guard):
            continue
        behind = max((home[x] + 1 for x in operands(op) if x in home), default=0)
        if isinstance(op, Call) and (base := _view_base(tape, op)) is not None:
            schedule.views[var] = base
            home[var] = behind - 1
            continue
        classified = _require(tape, var, op) if isinstance(op, Guard) else _classify(tape, var, op)
        if not isinstance(classified, Item):
            home[var] = len(schedule.steps)
            schedule.steps.append(classified)
            continue
        if classified.kind == "pad" and classified.reads[0][0] in only_padded:
            classified = _recomputed(tape, classified, items)
        items[var] = classified
        space = _space(tape, classified)
        first = 0
        for x, _ in classified.reads:
            if isinstance(x, Variable) and x in home:
                fits = x in inside and classified.kind in ("map", "reduce", "require") and type_of(tape, x).shape == space
                first = max(first, inside[x] if fits else home[x] + 1)
        at = next((i for i in by_space.get(space, ()) if i >= first and _has_room(schedule.steps[i])), None)
        if classified.kind == "scatter" or at is None:
            at = len(schedule.steps)
            schedule.steps.append(Cluster(space))
            if classified.kind != "scatter":
                by_space.setdefault(space, []).append(at)
        cluster = schedule.steps[at]
        assert isinstance(cluster, Cluster)
        cluster.items.append(classified)
        home[var] = at
        if classified.kind in ("map", "pad", "gather"):
            inside[var] = at
    _drop_unused(schedule)
    return schedule


def _drop_unused(schedule: Schedule) -> None:
    """Take out elementwise operations whose results are computed anew wherever they are wanted."""
    used = {x for _, x in paths(schedule.tape.results)} | set(schedule.views.values())
    for step in reversed(schedule.steps):
        if not isinstance(step, Cluster):
            used.update(operands(schedule.tape[step.var]))
            continue
        kept = []
        for item in reversed(step.items):
            if item.var in used or item.kind == "require":
                kept.append(item)
                used.update(x for x, _ in item.reads if isinstance(x, Variable))
        step.items = kept[::-1]
    schedule.steps = [step for step in schedule.steps if not isinstance(step, Cluster) or step.items]


# Operations that cost about as much as a load: everything else counts as ten of them.
_LIGHT = _ON_INTEGERS | {np.divide, np.reciprocal, np.sqrt, strong_multiply}
_RECOMPUTED = 40


def _only_padded(tape: Tape) -> set[Variable]:
    """Elementwise results that nothing needs in memory but adjoints of slices."""
    stored = {x for _, x in paths(tape.results)}
    for _, op in tape:
        if not isinstance(op, Call) or (entry := primitive_of(op.fn)) is None or entry.kind not in ("map", "reduce", "unindex"):
            stored.update(operands(op))
        elif entry.kind == "map" and isinstance(op.type, ArrayType):
            stored.update(x for x in operands(op) if type_of(tape, x).shape != op.type.shape)
    return {var for var, _ in tape} - stored


def _recomputed(tape: Tape, pad: Item, items: dict[Variable, Item]) -> Item:
    """A pad that computes its operand where it is wanted, if that is cheaper than to write and read it."""
    source = pad.reads[0][0]
    shape = type_of(tape, source).shape
    inner: dict[Variable, Item] = {}
    leaves: dict[Variable, str] = {}
    pending, cost = [source], 0
    while pending:
        x = pending.pop()
        item = items.get(x)
        if x in inner:
            continue
        if item is None or item.kind != "map" or type_of(tape, x).shape != shape:
            if item is not None and item.kind in ("pad", "gather") or x == source:
                return pad
            leaves[x] = type_of(tape, x).dtype.name
            continue
        op = tape[x]
        cost += 1 if isinstance(op, Call) and op.fn in _LIGHT else 10
        if cost > _RECOMPUTED:
            return pad
        inner[x] = item
        pending.extend(y for y, _ in item.reads if isinstance(y, Variable))
    ordered = tuple(inner[x] for x in sorted(inner, key=lambda x: x.id))
    return replace(pad, reads=tuple(leaves.items()), inner=ordered)


def _has_room(step: Step) -> bool:
    return isinstance(step, Cluster) and len(step.items) < MAX_CLUSTER


def _space(tape: Tape, item: Item) -> tuple[int, ...]:
    x = item.reads[0][0] if item.kind in ("reduce", "scatter", "require") else item.var
    shape = type_of(tape, x).shape
    assert isinstance(shape, tuple)
    return shape


def _view_base(tape: Tape, op: Call) -> Variable | None:
    """The variable whose memory an operation only looks at in another way."""
    entry = primitive_of(op.fn)
    if entry is None or not op.args or not isinstance(op.args[0], Variable):
        return None
    if entry.kind != "view" and not (entry.kind == "index" and is_basic(op.args[1])):
        return None
    if sum(1 for _ in operands(op)) != 1 or not isinstance(op.type, ArrayType):
        return None
    base = type_of(tape, op.args[0])
    if not isinstance(base, ArrayType) or base.dtype != op.type.dtype:
        return None
    return op.args[0] if entry.kind == "index" or _shares_memory(op, base) else None


def _shares_memory(op: Call, base: ArrayType) -> bool:
    """Whether the function looks at the memory of an array in C order rather than copies it."""
    array = np.empty(base.shape, base.dtype)
    view = op.fn(array, *op.args[1:], **op.kwargs)  # type: ignore[operator]
    return isinstance(view, np.ndarray) and (not view.size or np.may_share_memory(view, array))


# The tests of guards that kernels can check: masks of a value and what was expected.
_TESTS: dict[Any, Callable[..., Any]] = {
    bool: lambda k, x, expected: k.logical_not(k.logical_xor(k.ne(x, k.const(0, x)), k.ne(expected, k.const(0, expected)))),
    np.all: lambda k, x, expected: k.ne(x, k.const(0, x)),
    int: lambda k, x, expected: k.eq(k.trunc(x), expected),
    operator.index: lambda k, x, expected: k.eq(x, expected),
    float: lambda k, x, expected: k.eq(x, expected),
    decided: lambda k, x, expected: k.eq(x, expected),
}  # fmt: skip


def checkable(tape: Tape) -> bool:
    """Whether all guards of a lowered tape can be checked by kernels."""
    return all(_require(tape, var, op) is not None for var, op in tape if isinstance(op, Guard))


def _require(tape: Tape, var: Variable, op: Guard) -> Item | None:
    t = type_of(tape, op.var)
    if op.test not in _TESTS or not isinstance(t, ArrayType) or t.dtype.name not in SUPPORTED or not t.size:
        return None
    if not isinstance(op.expected, bool | int | float | np.number | np.bool_) or (op.test is int and t.dtype.kind != "f"):
        if not (op.test is int and t.dtype.kind in "biu"):
            return None
    if op.test is not np.all and t.shape != ():
        return None
    test = operator.index if op.test is int and t.dtype.kind in "biu" else op.test
    return Item(var, "require", ((op.var, t.dtype.name), (op.expected, t.dtype.name)), "bool", _TESTS[test])


def _classify(tape: Tape, var: Variable, op: Call) -> Item | Matmul | Concatenate | Python:
    entry, otherwise = primitive_of(op.fn), Python(var)
    if entry is None or not isinstance(op.type, ArrayType) or op.type.dtype.name not in SUPPORTED:
        return otherwise
    types = [type_of(tape, x) for x in operands(op)]
    if not all(isinstance(t, ArrayType) and t.dtype.name in SUPPORTED for t in types):
        return otherwise
    if op.type.size == 0 or any(t.size == 0 for t in types):
        return otherwise
    handler = _HANDLERS.get(entry.kind)
    return (handler(tape, var, op, entry) if handler else None) or otherwise


def _map(tape: Tape, var: Variable, op: Call, entry: Primitive) -> Item | None:
    assert isinstance(op.type, ArrayType)
    if op.fn is astype:
        source = type_of(tape, op.args[0]).dtype
        if source.kind == "f" and op.type.dtype.kind in "iu":
            return None
        return Item(var, "map", ((op.args[0], source.name),), op.type.dtype.name)
    if op.kwargs or not all(isinstance(x, Variable | bool | int | float | np.generic) for x in op.args):
        return None
    dtypes = _loop_dtypes(tape, op)
    if dtypes is None or not all(d in SUPPORTED for d in dtypes):
        return None
    if not all(d == "bool" or d.startswith("float") for d in dtypes) and op.fn not in _ON_INTEGERS:
        return None
    return Item(var, "map", tuple(zip(op.args, dtypes, strict=True)), op.type.dtype.name, entry.emit)


def _loop_dtypes(tape: Tape, op: Call) -> list[str] | None:
    """The dtype in which each operand takes part, as NumPy's promotion has it."""
    assert isinstance(op.type, ArrayType)
    types = [type_of(tape, x) for x in op.args]
    weak = [type(x) if not isinstance(x, Variable) and not isinstance(x, np.generic) else None for x in op.args]
    if op.type.dtype.kind == "b":
        given = [_weak_type(t) if t.kind == "python" or w else t.dtype for t, w in zip(types, weak, strict=True)]
        if isinstance(op.fn, np.ufunc) or op.fn in _COMPARISONS:
            ufunc = op.fn if isinstance(op.fn, np.ufunc) else _COMPARISONS[op.fn]
            try:
                return [d.name for d in ufunc.resolve_dtypes((*given, None))[:-1]]
            except TypeError:
                return None
        return [t.dtype.name for t in types]
    if op.fn is np.where:
        return ["bool", op.type.dtype.name, op.type.dtype.name] if len(types) == 3 and types[0].dtype.kind == "b" else None
    return [op.type.dtype.name] * len(types)


_COMPARISONS = {
    operator.lt: np.less, operator.le: np.less_equal, operator.gt: np.greater, operator.ge: np.greater_equal,
    operator.eq: np.equal, operator.ne: np.not_equal,
}  # fmt: skip


def _weak_type(t: ArrayType) -> Any:
    return {"f": float, "i": int, "b": np.dtype(bool)}[t.dtype.kind]


def _reduce(tape: Tape, var: Variable, op: Call, entry: Primitive) -> Item | None:
    mode = _REDUCTIONS.get(entry.fn)
    if mode is None or len(op.args) > 2 or not set(op.kwargs) <= {"axis", "keepdims"}:
        return None
    source, axis = type_of(tape, op.args[0]), op.kwargs.get("axis", op.args[1] if len(op.args) == 2 else None)
    assert isinstance(op.type, ArrayType)
    axes = range(source.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not all(isinstance(a, int) for a in axes) or op.type.dtype.name == "bool":
        return None
    normal = tuple(sorted(int(a) % source.ndim for a in axes))
    return Item(var, "reduce", ((op.args[0], op.type.dtype.name),), op.type.dtype.name, mode=mode, axes=normal)


def _matmul(tape: Tape, var: Variable, op: Call, entry: Primitive) -> Matmul | None:
    assert isinstance(op.type, ArrayType)
    if op.kwargs or len(op.args) != 2 or not all(isinstance(x, Variable) for x in op.args):
        return None
    a, b = (type_of(tape, x) for x in op.args)
    if op.type.dtype.kind != "f" or not a.dtype == b.dtype == op.type.dtype or not {a.ndim, b.ndim} <= {1, 2}:
        return None
    return Matmul(var, *op.args) if max(a.ndim, b.ndim) == 2 else None


def _concatenate(tape: Tape, var: Variable, op: Call, entry: Primitive) -> Concatenate | None:
    parts, axis = op.args[0], op.kwargs.get("axis", op.args[1] if len(op.args) > 1 else 0)
    assert isinstance(op.type, ArrayType)
    if not isinstance(parts, tuple | list) or not isinstance(axis, int) or not set(op.kwargs) <= {"axis"}:
        return None
    if not all(isinstance(p, Variable) and type_of(tape, p).dtype == op.type.dtype for p in parts):
        return None
    return Concatenate(var, tuple(parts), axis % op.type.ndim)


def is_basic(index: Any) -> bool:
    """Whether an index takes a view: made of integers, slices, ``None`` and ``...``."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        p is None or p is Ellipsis or isinstance(p, slice) or (isinstance(p, int | np.integer) and not isinstance(p, bool))
        for p in parts
    )


def _expanded(index: Any, ndim: int) -> list[Any] | None:
    """One part per dimension (and per ``None``): the ellipsis written out."""
    parts = list(index) if isinstance(index, tuple) else [index]
    used = sum(p is not None and p is not Ellipsis for p in parts)
    if not any(p is Ellipsis for p in parts):
        parts.append(Ellipsis)
    at = next(i for i, p in enumerate(parts) if p is Ellipsis)
    return parts[:at] + [slice(None)] * (ndim - used) + parts[at + 1 :]


def _gather(tape: Tape, var: Variable, op: Call, entry: Primitive) -> Item | None:
    x = op.args[0]
    indices = _leading_indices(tape, op.args[1], type_of(tape, x).ndim) if isinstance(x, Variable) else None
    if indices is None:
        return None
    assert isinstance(op.type, ArrayType)
    reads = ((x, op.type.dtype.name), *((i, "int64") for i in indices))
    return Item(var, "gather", reads, op.type.dtype.name)


def _leading_indices(tape: Tape, index: Any, ndim: int) -> list[Any] | None:
    """Integer arrays (or integers beside them) that index the first dimensions, all other dimensions whole."""
    parts = _expanded(index, ndim)
    if parts is None or any(p is None for p in parts):
        return None
    count = next((i for i, p in enumerate(parts) if isinstance(p, slice)), len(parts))
    leading, rest = parts[:count], parts[count:]
    if not leading or any(p != slice(None) for p in rest):
        return None
    for p in leading:
        t = type_of(tape, p)
        if not isinstance(p, Variable | int) or isinstance(p, bool) or t.dtype.name not in ("int64", "int32"):
            return None
    return leading if any(isinstance(p, Variable) for p in leading) else None


def _unindex(tape: Tape, var: Variable, op: Call, entry: Primitive) -> Item | None:
    dy, index, shape = op.args
    assert isinstance(op.type, ArrayType)
    if not isinstance(dy, Variable):
        return None
    dtype = op.type.dtype.name
    if is_basic(index):
        box = box_of(index, tuple(shape))
        return None if box is None else Item(var, "pad", ((dy, dtype),), dtype, box=box, shape=type_of(tape, dy).shape)
    indices = _leading_indices(tape, index, len(shape))
    if indices is None:
        return None
    return Item(var, "scatter", ((dy, dtype), *((i, "int64") for i in indices)), dtype)


def box_of(index: Any, shape: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    """First index and extent per dimension of a basic index; ``None`` if a step is not one."""
    parts = [p for p in _expanded(index, len(shape)) or () if p is not None]
    box = []
    for part, n in zip(parts, shape, strict=True):
        if isinstance(part, slice):
            start, stop, step = part.indices(n)
            if step != 1:
                return None
            box.append((start, max(0, stop - start)))
        else:
            box.append((int(part) % n, 1))
    return tuple(box)


_HANDLERS = {
    "map": _map, "reduce": _reduce, "matmul": _matmul, "concatenate": _concatenate, "index": _gather, "unindex": _unindex,
}  # fmt: skip

__all__ = ["Cluster", "Concatenate", "Item", "Matmul", "Python", "Schedule", "Step", "box_of", "fuse", "is_basic", "typeof"]
