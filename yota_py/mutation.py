"""Assignments to traced arrays, followed by what they do to values.

A tracer stands for a variable; ``x[i] = v`` records a copy with the new elements and lets the tracer stand for that.
A view of ``x`` (a slice, a transpose) remembers how it looks at ``x``: it is looked up again after ``x`` has changed,
and a write through it is written into ``x``. The caller's arrays are never touched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .dispatch import find_traced, is_traced
from .errors import LostDerivativeError, MutationError
from .functional import set_view, setitem
from .operations import user_site
from .tangents import astype
from .tracer import Tracer, guarded_masks, shadow
from .types import typeof


def assign(x: Tracer, index: Any, value: Any) -> None:
    """``x[index] = value``."""
    if not x.is_here():  # another thread writes into an array that a trace is watching
        shadow(x)[index] = value
        return
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{x.__class__.__name__!r} object does not support item assignment")
    if isinstance(value, list | tuple) and find_traced((value,)) is not None:
        value = np.stack(value)
    _check_dtype(x, value)
    install(x, setitem(x, guarded_masks(index), value))


def fill(x: Tracer, value: Any) -> None:
    """``x[...] = value``, broadcast."""
    _require_own(x)
    assign(x, ..., value)


def write_result(out: Any, result: Any) -> Any:
    """What ``out=`` does; returns ``out``."""
    _require_own(out)
    overwrite(out, result)
    return out


def overwrite(x: Tracer, value: Any) -> None:
    """What ``x += v`` does with its result: same shape, cast to the dtype of ``x``."""
    if not x.is_here():
        shadow(x)[...] = value
        return
    _check_dtype(x, value)
    shape, dtype = np.shape(value), np.result_type(value)
    if shape != x.shape:
        raise ValueError(f"non-broadcastable output operand with shape {x.shape} doesn't match the broadcast "
                         f"shape {shape}")
    if not np.can_cast(dtype, x.dtype, "same_kind"):
        raise TypeError(f"{user_site()}: cannot cast the result from {dtype} to {x.dtype} with casting rule "
                        "'same_kind'")
    install(x, astype(value, x.dtype) if dtype != x.dtype else np.positive(value))


def install(x: Tracer, new: Any) -> None:
    """Let ``x`` stand for a new value, in everything it is a view of."""
    if not shadow(x).flags.writeable:
        raise ValueError("assignment destination is read-only")
    if x.is_captured():
        raise MutationError(f"{user_site()}: this writes into an array that the function has not made itself but reads "
                            "from elsewhere. Return the new values instead, or work on a copy: y = x.copy()")
    if not is_traced(new) or new._trace is not x._trace:
        raise MutationError(f"{user_site()}: a value of an inner differentiation cannot be written into an array "
                            "outside of it; return it instead")
    if x._look is not None:
        parent, fn, args, kwargs = x._look
        install(parent, set_view(parent, new, fn, args, kwargs))
    else:
        x._version += 1
    x.point_to(new)


def _require_own(out: Any) -> None:
    if not is_traced(out):
        raise MutationError(f"{user_site()}: out= is an array that the function has not made itself (a {typeof(out)}), "
                            "into which a traced result cannot be written. Use the returned value: y = f(x)")


def _check_dtype(x: Tracer, value: Any) -> None:
    if isinstance(value, Tracer) and value.carries() and x.dtype.kind not in "fc":
        raise LostDerivativeError(f"{user_site()}: writing a traced {typeof(value)} into an array of dtype {x.dtype} "
                                  "would drop its derivative. Make the array with a floating dtype: np.zeros(n), not "
                                  f"np.zeros(n, {x.dtype})")
