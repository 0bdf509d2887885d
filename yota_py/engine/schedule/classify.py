"""What the engine can do with an operation: let it join a loop nest, be a step of its own, or stay Python."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dispatch import decided, original
from ...base.types import ArrayType, is_basic
from ...registry import kernels
from ...registry.registry import primitive_of
from ...registry.tangents import astype, getfield
from ...tape.loop import as_loop
from ...tape.operations import Call, Constant, Guard, Variable, operands
from ...tape.tape import Tape
from ..kernels.codegen import METHODS, sorting
from .indexing import box_of, picked, shape_of_indices
from .loops import COMPUTED, HALF, SUPPORTED, loop_of
from .special import kernel_of
from .steps import (
    Accumulate,
    Assign,
    Concatenate,
    Gather,
    Item,
    Join,
    Linear,
    Map,
    Matmul,
    Pad,
    Python,
    Reduce,
    Require,
    Scan,
    Scatter,
    Search,
    Sort,
)


def kernel_for(op: Call) -> kernels.Kernel | None:
    """What the engine may do with an operation."""
    entry = primitive_of(op.fn)
    if entry is None or entry.kernel is not None:
        return None if entry is None else entry.kernel
    in_double = isinstance(op.type, ArrayType) and op.type.dtype == np.float64  # SciPy's others round otherwise
    return kernel_of(entry.fn) if in_double else None


def view_base(tape: Tape, op: Call) -> Variable | None:
    """The variable whose memory an operation only looks at in another way."""
    kernel = kernel_for(op)
    if not op.args or not isinstance(op.args[0], Variable):
        return None
    indexed = isinstance(kernel, kernels.Index) and is_basic(op.args[1])
    if not indexed and not isinstance(kernel, kernels.View):
        return None
    if sum(1 for _ in operands(op)) != 1 or not isinstance(op.type, ArrayType):
        return None
    base = tape.type_of(op.args[0])
    if not isinstance(base, ArrayType) or (base.dtype != op.type.dtype and base.dtype.kind != "c"):
        return None
    return op.args[0] if indexed or _shares_memory(op, base) else None


def part_of_loop(tape: Tape, op: Call) -> Variable | None:
    """The loop of which an operation takes a result."""
    return op.args[0] if op.fn is getfield and as_loop(tape[op.args[0]]) is not None else None


def _shares_memory(op: Call, base: ArrayType) -> bool:
    """Whether the function looks at the memory of an array in C order rather than copies it."""
    array = np.empty(base.shape, base.dtype)
    view = op.fn(array, *op.args[1:], **op.kwargs)  # type: ignore[operator]
    return isinstance(view, np.ndarray) and (not view.size or np.may_share_memory(view, array))


@kernels.named
def _same_truth(k: Any, x: Any, expected: Any) -> Any:
    return k.logical_not(k.logical_xor(x, expected))


@kernels.named
def _true(k: Any, x: Any, expected: Any) -> Any:
    return k.truth(x)


@kernels.named
def _same_whole_part(k: Any, x: Any, expected: Any) -> Any:
    return k.eq(k.trunc(x), expected)


@kernels.named
def _same_number(k: Any, x: Any, expected: Any) -> Any:
    """Equal, and of the same sign: that of zeros counts."""
    return k.logical_and(k.eq(x, expected), k.logical_not(k.logical_xor(k.signbit(x), k.signbit(expected))))


# The tests of guards that kernels can check: masks of a value and what was expected.
_TESTS: dict[Any, str] = {
    bool: _same_truth, np.all: _true, int: _same_whole_part, float: _same_number, operator.index: "eq", decided: "eq",
}  # fmt: skip


def checkable(tape: Tape) -> bool:
    """Whether all guards of a lowered tape can be checked by kernels."""
    for var, op in tape:
        if isinstance(op, Guard) and require(tape, var, op) is None:
            return False
        if (loop := as_loop(op)) is not None and not checkable(loop.body):
            return False
    return True


def guarded(tape: Tape, var: Variable, op: Guard) -> Require:
    """The item of a guard that is known to be checkable."""
    item = require(tape, var, op)
    assert item is not None, f"a kernel cannot check {op}"
    return item


def require(tape: Tape, var: Variable, op: Guard) -> Require | None:
    """The item that checks a guard; ``None`` if no kernel can."""
    t = tape.type_of(op.var)
    if op.test not in _TESTS or not isinstance(t, ArrayType) or t.name not in COMPUTED or not t.size:
        return None
    if not isinstance(op.expected, bool | int | float | np.number | np.bool_):
        return None
    if op.test is not original(np.all) and t.shape != ():
        return None
    test = operator.index if op.test in (int, float) and t.dtype.kind in "biu" else op.test
    test = float if test is decided and t.dtype.kind == "f" else test
    return Require(var, ((op.var, t.name), (op.expected, t.name)), "bool", _TESTS[test])


# What may be done with halves: elementwise operations, and what moves them.
_OF_HALVES = (
    kernels.Map, kernels.Extremum, kernels.View, kernels.Concatenate, kernels.Index, kernels.Unindex, kernels.Assign,
    kernels.Sort,
)  # fmt: skip
_Found = Item | Matmul | Linear | Sort | Search | Concatenate | Assign | Accumulate


def classify(tape: Tape, var: Variable, op: Call) -> _Found | Python:
    kernel, otherwise = kernel_for(op), Python(var)
    if isinstance(kernel, kernels.Join):
        return _join(tape, var, op) or otherwise
    if kernel is None or not isinstance(op.type, ArrayType) or op.type.name not in SUPPORTED:
        return otherwise
    types = [tape.type_of(x) for x in operands(op)]
    known = SUPPORTED if isinstance(kernel, _OF_HALVES) else COMPUTED
    if not all(isinstance(t, ArrayType) and t.name in known for t in (op.type, *types)):
        return otherwise
    if op.type.size == 0 or any(t.size == 0 for t in types):
        return otherwise
    return _HANDLERS[type(kernel)](tape, var, op, kernel) or otherwise


def _map(tape: Tape, var: Variable, op: Call, kernel: kernels.Map) -> Map | None:
    assert isinstance(op.type, ArrayType)
    if op.fn is astype:
        source = tape.type_of(op.args[0]).dtype
        if source.name not in SUPPORTED:  # a number that is known
            return Map(var, ((astype(op.args[0], op.type.dtype), op.type.name),), op.type.name, kernel)
        if source.kind == "f" and op.type.dtype.kind in "iu":
            return None
        return Map(var, ((op.args[0], source.name),), op.type.name, kernel)
    if op.kwargs or not all(isinstance(x, Variable | bool | int | float | np.generic) for x in op.args):
        return None
    dtypes = loop_of(tape, op, kernel.integers)
    if dtypes is None:
        return None
    return Map(var, tuple(zip(op.args, dtypes, strict=True)), op.type.name, kernel)


def _axes_of(tape: Tape, op: Call, *others: str) -> tuple[int, ...] | None:
    """The axes that a call runs over, if it has no arguments but these, its operand and the ``others``."""
    ndim, axis = tape.type_of(op.args[0]).ndim, op.kwargs.get("axis", op.args[1] if len(op.args) == 2 else None)
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(op.args) > 2 or not {"axis", *others}.issuperset(op.kwargs) or not all(isinstance(a, int) for a in axes):
        return None
    return tuple(sorted(int(a) % ndim for a in axes)) if ndim else ()


def _reduce(tape: Tape, var: Variable, op: Call, kernel: kernels.Reduce) -> Reduce | None:
    assert isinstance(op.type, ArrayType)
    axes, dtype = _axes_of(tape, op, "keepdims"), op.type.name
    if axes is None or (dtype == "bool") != (kernel.mode in ("any", "all")):
        return None
    return Reduce(var, ((op.args[0], dtype),), dtype, kernel.mode, axes)


def _extremum(tape: Tape, var: Variable, op: Call, kernel: kernels.Extremum) -> Reduce | None:
    assert isinstance(op.type, ArrayType)
    axes, dtype = _axes_of(tape, op, "keepdims"), tape.type_of(op.args[0]).name
    if axes is None or len(axes) != 1 or dtype == "bool":
        return None
    return Reduce(var, ((op.args[0], "float32" if dtype == HALF else dtype),), op.type.name, kernel.mode, axes)


def _scan(tape: Tape, var: Variable, op: Call, kernel: kernels.Scan) -> Scan | None:
    assert isinstance(op.type, ArrayType)
    axes, dtype = _axes_of(tape, op), op.type.name
    if axes is None or len(axes) != 1 or dtype == "bool":
        return None
    return Scan(var, ((op.args[0], dtype),), dtype, kernel.mode, axes[0])


def _join(tape: Tape, var: Variable, op: Call) -> Join | None:
    assert isinstance(op.type, ArrayType)
    dtype = np.empty(0, op.type.dtype).real.dtype.name
    known = COMPUTED.issuperset([dtype, *(tape.type_of(x).name for x in operands(op))])
    return Join(var, tuple((part, dtype) for part in op.args), dtype) if known and op.type.size else None


def _matmul(tape: Tape, var: Variable, op: Call, kernel: kernels.Kernel) -> Matmul | None:
    assert isinstance(op.type, ArrayType)
    if op.kwargs or len(op.args) != 2 or not all(isinstance(x, Variable) for x in op.args):
        return None
    a, b = (tape.type_of(x) for x in op.args)
    if op.type.dtype.kind != "f" or not a.dtype == b.dtype == op.type.dtype:
        return None
    if op.fn is not np.matmul and not {a.ndim, b.ndim} <= {1, 2}:  # np.dot does something else with stacks
        return None
    return Matmul(var, *op.args) if max(a.ndim, b.ndim) == 2 or min(a.ndim, b.ndim) >= 2 else None


def _lapack(tape: Tape, var: Variable, op: Call, kernel: kernels.Lapack) -> Linear | None:
    assert isinstance(op.type, ArrayType)
    used = op.args[: 1 + (kernel.routine in ("solve", "triangular", "factored"))]
    given = op.args[len(used) :] if kernel.finite else ()  # of SciPy's functions, which have these last
    upper, finite = op.kwargs.get("upper", given[0] if given else False), kernel.finite and given[1:] != (False,)
    known = op.kwargs.keys() <= {"upper"} and isinstance(upper, bool) and all(isinstance(x, Variable) for x in used)
    types = [tape.type_of(x) for x in used]
    if not known or op.type.dtype.kind != "f" or any(t.dtype != op.type.dtype for t in types):
        return None
    a, *b = (t.shape for t in types)
    if b and not (a[:-2] == b[0][:-2] if len(b[0]) > 1 else len(a) == 2):  # stacks that are broadcast
        return None
    return Linear(var, kernel.routine, used[0], used[1] if b else None, upper, finite)


def _sort(tape: Tape, var: Variable, op: Call, kernel: kernels.Sort) -> Sort | None:
    x, axis = op.args[0], op.kwargs.get("axis", op.args[1] if len(op.args) > 1 else -1)
    stable, kind = op.kwargs.get("stable"), op.kwargs.get("kind", op.args[2] if len(op.args) > 2 else None)
    method = METHODS.get((kind, stable))
    known = isinstance(x, Variable) and isinstance(axis, int) and len(op.args) < 4 and "order" not in op.kwargs
    t = tape.type_of(x)
    if not known or not t.ndim or method is None or sorting(t.name, method, places=kernel.places) is None:
        return None
    return Sort(var, x, axis % t.ndim, method, kernel.places)


def _search(tape: Tape, var: Variable, op: Call, kernel: kernels.Search) -> Search | None:
    table, x = op.args[:2]
    side = op.kwargs.get("side", op.args[2] if len(op.args) > 2 else "left")
    if not isinstance(table, Variable) or not isinstance(x, Variable) or len(op.args) > 3 or "sorter" in op.kwargs:
        return None
    name = tape.type_of(table).name
    known = name != "bool" and name == tape.type_of(x).name and tape.type_of(table).ndim == 1
    value = getattr(tape[table], "value", None)
    if isinstance(value, np.ndarray) and not np.all(value[:-1] <= value[1:]):
        return None  # in no order: where NumPy comes to belongs to NumPy
    return Search(var, table, x, side == "right") if known and side in ("left", "right") else None


def _fill(tape: Tape, var: Variable, op: Call, kernel: kernels.Kernel) -> Map | None:
    """``np.broadcast_to`` of a number that is known: an array to be filled."""
    assert isinstance(op.type, ArrayType)
    if op.fn is not np.broadcast_to or not isinstance(op.args[0], bool | int | float | np.generic):
        return None
    return Map(var, ((op.args[0], op.type.name),), op.type.name, kernels.Map())


def _concatenate(tape: Tape, var: Variable, op: Call, kernel: kernels.Kernel) -> Concatenate | None:
    parts, axis = op.args[0], op.kwargs.get("axis", op.args[1] if len(op.args) > 1 else 0)
    assert isinstance(op.type, ArrayType)
    if not isinstance(parts, tuple | list) or not isinstance(axis, int) or not set(op.kwargs) <= {"axis"}:
        return None
    if not all(isinstance(p, Variable) and tape.type_of(p).dtype == op.type.dtype for p in parts):
        return None
    return Concatenate(var, tuple(parts), axis % op.type.ndim)


def _gather(tape: Tape, var: Variable, op: Call, kernel: kernels.Kernel) -> Gather | None:
    x, index = op.args
    found = picked(tape, index, tape.type_of(x).shape) if isinstance(x, Variable) else None
    if found is None:
        return None
    assert isinstance(op.type, ArrayType)
    indices, pick = found
    return Gather(var, ((x, op.type.name), *((i, "int64") for i in indices)), op.type.name, pick)


def _unindex(tape: Tape, var: Variable, op: Call, kernel: kernels.Kernel) -> Pad | Scatter | None:
    dy, index, shape = op.args
    assert isinstance(op.type, ArrayType)
    if is_basic(index):
        if not isinstance(dy, Variable):
            return None
        box = box_of(index, tuple(shape))
        return None if box is None else Pad(var, ((dy, op.type.name),), op.type.name, box, tape.type_of(dy).shape)
    return None if op.type.name == HALF else _scatter(tape, var, op.type, index, dy)  # no kernel sums up halves


def _scatter(
    tape: Tape, var: Variable, t: ArrayType, index: Any, value: Any, *, puts: bool = False
) -> Scatter | None:  # fmt: skip
    """A value that is added, or put, where an index says."""
    if (found := picked(tape, index, t.shape)) is None:
        return None
    indices, pick = found
    if tape.type_of(value).shape != pick.shape(shape_of_indices(tape, indices)):
        return None
    return Scatter(var, ((value, t.name), *((i, "int64") for i in indices)), t.name, pick, puts)


FEW_ROWS = 16  # that are written one by one


def _assign(tape: Tape, var: Variable, op: Call, kernel: kernels.Kernel) -> Assign | Accumulate | None:
    x, index, value = op.args
    return _assign_few(tape, var, op) or _scattered(tape, var, op, x, index, value, puts=True)


def _assign_few(tape: Tape, var: Variable, op: Call) -> Assign | None:
    x, index, value = op.args
    known = isinstance(x, Variable) and tape.type_of(x).dtype == tape.type_of(value).dtype == op.type.dtype  # type: ignore[union-attr]
    if not known and not (isinstance(x, Variable) and isinstance(value, int | float)):
        return None
    if is_basic(index):
        extent = np.empty(tape.type_of(x).shape)[index].ndim
        return Assign(var, x, value, ((index, None),)) if tape.type_of(value).ndim <= extent else None
    columns = [tape[p] for p in index if isinstance(p, Variable)] if isinstance(index, tuple) else []
    arrays = [op.value for op in columns if isinstance(op, Constant) and isinstance(op.value, np.ndarray)]
    if not arrays or len(arrays) < len(index) or any(a.ndim != 1 or len(a) > FEW_ROWS for a in arrays):
        return None
    rows = [*zip(*(a.tolist() for a in arrays), strict=True)]
    t = tape.type_of(value)
    if t.shape == ():
        return Assign(var, x, value, tuple((row, None) for row in rows))
    if not isinstance(value, Variable) or t.ndim != 1 + tape.type_of(x).ndim - len(arrays) or t.shape[0] != len(rows):
        return None
    return Assign(var, x, value, tuple((row, i) for i, row in enumerate(rows)))


def _accumulate(tape: Tape, var: Variable, op: Call, kernel: kernels.Kernel) -> Accumulate | None:
    ufunc, x, index, *values = op.args
    return _scattered(tape, var, op, x, index, *values) if ufunc is np.add else None


def _scattered(
    tape: Tape, var: Variable, op: Call, x: Any, index: Any, value: Any, *, puts: bool = False
) -> Accumulate | None:
    assert isinstance(op.type, ArrayType)
    if not isinstance(x, Variable) or tape.type_of(x) != op.type or is_basic(index):
        return None
    if tape.type_of(value).dtype != op.type.dtype:
        return None
    scatter = _scatter(tape, var, op.type, index, value, puts=puts)
    return None if scatter is None else Accumulate(var, x, scatter)


_HANDLERS: dict[type, Callable[..., _Found | None]] = {
    kernels.Map: _map, kernels.Reduce: _reduce, kernels.Extremum: _extremum, kernels.Scan: _scan, kernels.View: _fill,
    kernels.Product: _matmul, kernels.Concatenate: _concatenate, kernels.Index: _gather, kernels.Unindex: _unindex,
    kernels.Assign: _assign, kernels.Accumulate: _accumulate, kernels.Lapack: _lapack, kernels.Sort: _sort,
    kernels.Search: _search,
}  # fmt: skip
