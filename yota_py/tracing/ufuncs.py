"""Methods and keywords of ufuncs, opened into calls that have rules: ``where``, ``astype`` and assignments.

NumPy itself is asked first, with copies of the values: what it raises is raised, and what a call is opened into has to
have the dtype and shape of its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy._core import umath

from ..base.dispatch import decided, find_traced, is_traced, shadow
from ..base.signatures import signature_of
from ..base.types import resolved_dtype, typeof
from ..base.unwinding import Quiet
from ..registry.registry import ufunc_methods
from ..registry.tangents import astype
from ..registry.writes import asked, spare, ufunc_accumulate, ufunc_reduce, ufunc_reduceat
from ..tape.show import name_of
from .calls import elsewhere, record
from .foreign import Foreign, kind_of, meet
from .mutation import accumulate, write_result
from .tracer import tracers_in, unsupported

_CLIP: Any = umath.clip  # type: ignore[attr-defined]
CLIP = np.clip  # which has a stand-in while a trace runs
KEYWORDS = frozenset(["where", "dtype", "casting", "order", "subok", "signature", "sig"])


def apply(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``getattr(ufunc, method)(*inputs, **kwargs)`` with a traced value among the inputs or in ``out``."""
    if not any(tracer._is_here() for tracer in tracers_in((inputs, kwargs))):  # another thread's trace watches them
        return getattr(ufunc, method)(*elsewhere(inputs), **elsewhere(kwargs))
    if method == "at":
        return accumulate(ufunc, *inputs)
    if kwargs.get("out") is None and any(kind_of(type(x)) == "foreign" for x in inputs):
        return meet(getattr(ufunc, method), inputs, kwargs, name_of(ufunc))
    outs = kwargs.pop("out", None) or (None,) * ufunc.nout
    wanted = _asked(ufunc, method, inputs, kwargs, outs)
    if kwargs.get("dtype") is not None:
        kwargs["dtype"] = resolved_dtype(kwargs["dtype"])
    if method in ("reduce", "accumulate", "reduceat"):
        if kwargs.get("dtype") is None and outs[0] is not None:
            kwargs["dtype"] = _dtype_for(ufunc, inputs[0], outs[0])
        elif kwargs.get("dtype") is not None and is_traced(inputs[0]):
            inputs = (astype(inputs[0], kwargs["dtype"]), *inputs[1:])  # as NumPy does, whatever is lost
    where = kwargs.pop("where", True) if method in ("__call__", "outer") else True
    with Quiet():  # NumPy has warned
        results = _METHODS[method](ufunc, inputs, kwargs)
        given = [
            _given(result, want, where, kwargs.get("order"), f"{name_of(ufunc)}.{method}({', '.join(kwargs)})")
            if out is None else _written(result, out, where, method)
            for result, want, out in zip(results, wanted, outs, strict=True)
        ]  # fmt: skip
    return given[0] if len(given) == 1 else tuple(given)


def clip(
    a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None, out: Any, **kwargs: Any
) -> Any:
    """``np.clip`` with keywords of ufuncs."""
    lo, hi = (None if b is np._NoValue else b for b in (a_min, a_max))  # type: ignore[attr-defined]
    lo, hi = min if lo is None else lo, max if hi is None else hi
    if lo is None or hi is None:
        ufunc: Any = np.positive if lo is hi else np.minimum if lo is None else np.maximum
        inputs: tuple[Any, ...] = (a,) if lo is hi else (a, hi if lo is None else lo)
    else:
        ufunc, inputs = _CLIP, (a, lo, hi)
    return apply(ufunc, "__call__", inputs, {**kwargs, "out": None if out is None else (out,)})


def _asked(
    ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any], outs: Sequence[Any]
) -> list[Any]:
    """What NumPy gives for the values."""
    options = shadow(kwargs)
    if method in ("__call__", "outer") or outs[0] is not None:  # with out=None NumPy does not warn of where= alone
        options["out"] = spare(tuple(outs))
    answer = asked(getattr(ufunc, method), shadow(inputs), options)
    return [*answer] if isinstance(answer, tuple) else [answer]


@lru_cache
def _keywords(fn: Any) -> frozenset[str]:
    return frozenset(signature_of(fn).parameters)


def into(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of one of NumPy's functions that is to write into ``out``, with the dtype in which it computes."""
    ufunc = next((ufunc for (ufunc, _), known in ufunc_methods.items() if known is fn), None)
    if ufunc is None or out is None or "dtype" not in _keywords(fn):
        return args, kwargs
    wanted = args[2] if len(args) > 2 else kwargs.get("dtype")
    if wanted is not None or np.result_type(args[0]) == out.dtype:
        return args, kwargs
    dtype = _dtype_for(ufunc, args[0], out)
    if len(args) > 2:
        return (*args[:2], dtype, *args[3:]), kwargs
    return args, {**kwargs, "dtype": dtype}


def _dtype_for(ufunc: Any, x: Any, out: Any) -> Any:
    """The dtype in which NumPy computes a reduction into ``out``; ``None`` for that of the ufunc itself."""
    both = np.result_type(x, out)
    try:
        if ufunc.resolve_dtypes((both, both, None))[-1] != both:  # a logical one
            return None
    except TypeError:
        return None
    if not np.can_cast(both, out.dtype, "same_kind"):
        raise unsupported(f"a reduction by {name_of(ufunc)} of {np.result_type(x)} with out= of {out.dtype}")
    return both


def _given(result: Any, want: Any, where: Any, order: Any, name: str) -> Any:
    """A result of NumPy's kind. Of elements that ``where`` leaves out it says nothing: they are zeros."""
    if where is not True:
        result = np.where(where, result, np.result_type(result).type(0))
    if not isinstance(want, np.ndarray | np.generic):
        raise unsupported(f"{name} in a dtype of no numbers")
    if isinstance(want, np.ndarray) != (typeof(result).kind == "array"):  # type: ignore[union-attr]
        result = astype(result, want.dtype)[...] if isinstance(want, np.ndarray) else result[()]
    if (np.result_type(result), np.shape(result)) != (want.dtype, want.shape):
        raise unsupported(name)
    if order is None or want.ndim < 2 or not is_traced(result) or shadow(result).strides == want.strides:
        return result
    return np.copy(result, "C" if want.flags.c_contiguous else "F")


def _written(result: Any, out: Any, where: Any, method: str) -> Any:
    """``out``, into which a result is written where ``where`` says."""
    result = result._array if type(result) is Foreign else result
    if method not in ("__call__", "outer") and np.shape(result) != np.shape(out):
        raise unsupported(f"{method} of a ufunc with out= of another shape")  # of which NumPy writes a part
    if np.result_type(result) != out.dtype:
        result = astype(result, out.dtype)
    if where is not True:
        result = np.where(where, result, out)
    return write_result(out, result if np.shape(result) == out.shape else np.broadcast_to(result, out.shape))


# --------------------------------------------------------------------------------------------------------- the methods


def _call(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
    core = {key: value for key, value in kwargs.items() if key in ("axes", "axis", "keepdims")}
    signature = kwargs.get("signature", kwargs.get("sig"))
    if (dtype := kwargs.get("dtype")) is not None:
        signature = (None,) * ufunc.nin + (dtype,) * ufunc.nout
    if signature is not None:
        inputs = _cast(ufunc, inputs, signature)
    result = _recorded(CLIP if ufunc is _CLIP else ufunc, inputs, core)
    return result if isinstance(result, tuple) else [result]


def _recorded(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call; of plain values if traced is only where the result goes."""
    return fn(*args, **kwargs) if find_traced((args, kwargs)) is None else record(fn, args, kwargs)


def _cast(ufunc: Any, inputs: tuple[Any, ...], signature: Any) -> tuple[Any, ...]:
    """The inputs in the dtypes that a signature asks for."""
    outputs = (None,) * ufunc.nout
    types = [type(x) if type(x) in _NUMBERS[1:] else np.result_type(x) for x in shadow(inputs)]
    if isinstance(signature, str):
        signature = tuple(signature.replace("->", ""))
    signature = tuple(None if said is None else resolved_dtype(said) for said in signature)
    loop = ufunc.resolve_dtypes((*types, *outputs), signature=signature, casting="unsafe")[: ufunc.nin]
    cast = tuple(x if np.result_type(x) == dtype and type(x) not in _NUMBERS else astype(x, dtype)
                 for x, dtype in zip(inputs, loop, strict=True))
    if ufunc.resolve_dtypes((*loop, *outputs))[: ufunc.nin] != loop:
        raise unsupported(f"{name_of(ufunc)} with this dtype= or signature=")
    return cast


_NUMBERS = (bool, int, float, complex)


def _outer(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
    a, b = inputs
    return _call(ufunc, (np.reshape(a, np.shape(a) + (1,) * np.ndim(b)) if np.ndim(b) else a, b), kwargs)


def _reduce(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
    a, options = inputs[0], _telling(kwargs)
    axis = decided(kwargs.get("axis", 0)) if np.ndim(a) else None  # a number counts as one element along axis 0
    if (fn := ufunc_methods.get((ufunc, "reduce"))) is not None:
        if "dtype" not in _keywords(fn) and (dtype := options.pop("dtype", None)) is not None:
            a = astype(a, dtype)
        if _keywords(fn).issuperset(options):
            return [_recorded(fn, (a,), {"axis": axis, **options})]
    _check_order(ufunc, a)
    initial = kwargs.get("initial", np._NoValue)  # type: ignore[attr-defined]  # None says that there is none
    where, keepdims = kwargs.get("where", True), bool(kwargs.get("keepdims"))
    return [ufunc_reduce(ufunc, a, axis, kwargs.get("dtype"), keepdims, initial, where)]


def _accumulate(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
    a, axis, dtype = inputs[0], decided(kwargs.get("axis", 0)), kwargs.get("dtype")
    axes = tuple(range(np.ndim(a) or 1)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(axes) != 1:
        ufunc.accumulate(np.ones(np.shape(a)), axis)  # raises what NumPy raises
    axis = axes[0]
    if (fn := ufunc_methods.get((ufunc, "accumulate"))) is not None:
        return [_recorded(fn, (a,), {"axis": axis, **_telling({"dtype": dtype})})]
    return [ufunc_accumulate(ufunc, a, axis, dtype)]


def _reduceat(ufunc: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
    a, indices = inputs
    _check_order(ufunc, a)
    starts = [int(i) for i in np.ravel(decided(indices))]
    return [ufunc_reduceat(ufunc, a, starts, decided(kwargs.get("axis", 0)), kwargs.get("dtype"))]


def _check_order(ufunc: Any, a: Any) -> None:
    """NumPy's vectorized loops of some ufuncs (arctan2, power) mix up reductions, of which there is no derivative."""
    if is_traced(a) and a._carries() and not _is_in_order(ufunc, a.dtype):
        raise unsupported(f"np.{name_of(ufunc)}.reduce, which NumPy does not compute from left to right,")


@lru_cache
def _is_in_order(ufunc: Any, dtype: Any) -> bool:
    x = np.array([0.5, 1.5, 1.25, 0.75, 1.75, 0.25, 1.125, 0.625, 0.875], dtype)
    return bool(np.allclose(ufunc.reduce(x), ufunc.accumulate(x)[-1], 1e-2))


def _telling(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keywords of a reduction that say something else than their defaults do."""
    return {
        key: value for key, value in kwargs.items()
        if key != "axis" and value is not None and not (key == "keepdims" and not value)
        and not (key == "where" and value is True)
    }  # fmt: skip


_METHODS: dict[str, Callable[..., Sequence[Any]]] = {
    "__call__": _call, "outer": _outer, "reduce": _reduce, "accumulate": _accumulate, "reduceat": _reduceat,
}  # fmt: skip
