"""The loop that NumPy runs for an elementwise operation: the dtypes in which its operands take part."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dispatch import original
from ...base.types import ArrayType
from ...registry.tangents import as_array, astype
from ...tape.operations import Call, Variable
from ...tape.tape import Tape

SUPPORTED = frozenset(["float64", "float32", "int64", "int32", "bool"])
# Elementwise functions that the maths builder writes for integers and booleans as well.
ON_INTEGERS: frozenset[Callable[..., Any]] = frozenset([
    np.add, np.subtract, np.multiply, np.negative, np.absolute, np.maximum, np.minimum, np.fmax, np.fmin, np.equal,
    np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, original(np.where), np.square, np.sign,
    np.bitwise_and,
    np.bitwise_or, np.bitwise_xor, np.logical_and, np.logical_or, np.logical_not, np.logical_xor, np.positive,
    np.invert, np.isnan, np.isinf, np.isfinite, np.floor, np.ceil, np.trunc, np.copy, np.zeros_like, np.ones_like,
    as_array, astype, operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs, operator.lt,
    operator.le, operator.gt, operator.ge, operator.eq, operator.ne, operator.and_, operator.or_, operator.xor,
    operator.invert,
])  # fmt: skip
_COMPARISONS: dict[Any, np.ufunc] = {
    operator.lt: np.less, operator.le: np.less_equal, operator.gt: np.greater, operator.ge: np.greater_equal,
    operator.eq: np.equal, operator.ne: np.not_equal,
}  # fmt: skip


def loop_of(tape: Tape, op: Call) -> list[str] | None:
    """A dtype for each operand; ``None`` if no kernel computes what NumPy does with these operands."""
    assert isinstance(op.type, ArrayType)
    types: list[ArrayType] = [tape.type_of(x) for x in op.args]
    dtypes = _loop_dtypes(op, types)
    if dtypes is None or not SUPPORTED.issuperset(dtypes):
        return None
    if op.fn not in ON_INTEGERS and not all(d.startswith("float") for d in dtypes):
        return None
    return dtypes if all(map(_fits, op.args, types, dtypes)) else None


def _loop_dtypes(op: Call, types: list[ArrayType]) -> list[str] | None:
    assert isinstance(op.type, ArrayType)
    ufunc = op.fn if isinstance(op.fn, np.ufunc) else _COMPARISONS.get(op.fn)
    if ufunc is not None:
        try:
            *dtypes, result = ufunc.resolve_dtypes((*map(_weakly, types), None))
        except TypeError:
            return None
        return [d.name for d in dtypes] if result == op.type.dtype else None
    if op.fn is original(np.where):
        return ["bool", op.type.dtype.name, op.type.dtype.name] if len(types) == 3 else None
    return [t.dtype.name if op.type.dtype.kind == "b" else op.type.dtype.name for t in types]


def _weakly(t: ArrayType) -> Any:
    """What NumPy's promotion is to know of an operand: Python's numbers have no size."""
    return {"f": float, "i": int}.get(t.dtype.kind, t.dtype) if t.kind == "python" else t.dtype


def _fits(x: Any, t: ArrayType, dtype: str) -> bool:
    """Whether a whole number of Python's is one of this dtype: else NumPy raises, or compares it as it is."""
    if t.kind != "python" or t.dtype.kind != "i" or not dtype.startswith("int"):
        return True
    if isinstance(x, Variable):
        return dtype == "int64"
    return bool(np.iinfo(dtype).min <= x <= np.iinfo(dtype).max)
