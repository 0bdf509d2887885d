"""The loop that NumPy runs for an elementwise operation: the dtypes in which its operands take part."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...base.dispatch import original
from ...base.types import ArrayType
from ...registry.registry import primitive_of
from ...registry.tangents import chosen
from ...tape.operations import Call, Variable
from ...tape.tape import Tape

# The dtypes of the elements that kernels read and write; halves they move, and compute elementwise.
HALF = "float16"
COMPUTED = frozenset("float64 float32 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool".split())
SUPPORTED = COMPUTED | {HALF}


def loop_of(tape: Tape, op: Call, integers: bool) -> list[str] | None:
    """A dtype for each operand; ``None`` if no kernel computes what NumPy does with these operands.

    Without ``integers`` all of them are floating.
    """
    assert isinstance(op.type, ArrayType)
    types: list[ArrayType] = [tape.type_of(x) for x in op.args]
    dtypes = _loop_dtypes(op, types)
    if dtypes is None or not SUPPORTED.issuperset(dtypes):
        return None
    if not integers and not all(d.startswith("float") for d in dtypes):
        return None
    return dtypes if all(map(_fits, op.args, types, dtypes)) else None


def _loop_dtypes(op: Call, types: list[ArrayType]) -> list[str] | None:
    assert isinstance(op.type, ArrayType)
    entry = primitive_of(op.fn)
    ufunc = op.fn if entry is None else entry.fn  # np.less for operator.lt
    if isinstance(ufunc, np.ufunc):
        if ufunc is np.power and any(t.name == HALF for t in types):
            return None  # of some exponents NumPy takes roots, and squares
        dtypes, result = _resolved(ufunc, tuple([_weakly(t) for t in types]))
        return list(dtypes) if result == op.type.dtype else None
    if op.fn is original(np.where) or op.fn is chosen:
        return ["bool", op.type.name, op.type.name] if len(types) == 3 else None
    names = [t.name if op.type.dtype.kind == "b" else op.type.name for t in types]
    return None if HALF in names else names  # of several steps, which NumPy rounds one by one


@lru_cache(maxsize=1024)
def _resolved(ufunc: np.ufunc, given: tuple[Any, ...]) -> tuple[tuple[str, ...], Any]:
    """The dtypes of the operands of NumPy's loop, and of its result, which is ``None`` if there is no such loop."""
    try:
        *dtypes, result = ufunc.resolve_dtypes((*given, None))
    except TypeError:
        return (), None
    return tuple([d.name for d in dtypes]), result


def _weakly(t: ArrayType) -> Any:
    """What NumPy's promotion is to know of an operand: Python's numbers have no size."""
    return {"f": float, "i": int}.get(t.dtype.kind, t.dtype) if t.kind == "python" else t.dtype


def _fits(x: Any, t: ArrayType, dtype: str) -> bool:
    """Whether a whole number of Python's is one of this dtype: else NumPy raises, or compares it as it is."""
    if t.kind != "python" or t.dtype.kind != "i" or not dtype.startswith(("int", "uint")):
        return True
    if isinstance(x, Variable):
        return dtype == "int64"
    return bool(np.iinfo(dtype).min <= x <= np.iinfo(dtype).max)
