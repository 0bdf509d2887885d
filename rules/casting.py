"""Conversions and creation: ``astype``, ``np.array([...])`` of traced values, ``copy``, ``item``, ``full``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from yota_py.base.dispatch import find_traced, is_traced, shadow
from yota_py.base.types import resolved_dtype
from yota_py.errors import LostDerivativeError
from yota_py.registry.composites import composite, expanded
from yota_py.registry.kernels import Map, named
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, nondiff, primitive, rrule, vjps
from yota_py.registry.tangents import add, as_array, astype, stacked
from yota_py.registry.writes import asked, check_range, spare
from yota_py.tape.operations import user_site

from . import parts
from .flat import opened
from .layout import either_order, lies_in, order_of
from .support import Pullback, dtype_of, promoted, shape_of, unsupported

_plain_array, _plain_arange = np.array, np.arange

_templates = lambda s: [case(s(3, 4)), case(s(3, dtype=np.float32)), case(s.number())]  # noqa: E731
_zeros = named(lambda k, x: k.const(0, x))
nondiff(np.zeros_like, kernel=Map(_zeros, integers=True), cases=_templates)
nondiff(np.ones_like, kernel=Map(named(lambda k, x: k.const(1, x)), integers=True), cases=_templates)
nondiff(np.empty_like, kernel=_zeros)

# --------------------------------------------------------------------------------------- dtypes and kinds


@expanded(np.astype, cases=lambda s: [
    case(s(3), np.float32), case(s(2, 2), complex), case(s(3), np.float64, copy=False),
])  # fmt: skip
def _of_dtype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return x.astype(dtype, copy=copy)


def _real_astype(x: Any, dtype: Any) -> Any:
    """A cast that leaves out imaginary parts, of which NumPy has warned when it was recorded."""
    drops = dtype_of(x).kind == "c" and np.dtype(dtype).kind in "fiu"
    return astype(np.real(x), dtype) if drops else NotImplemented


def _astype_method(
    x: Any, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True
) -> Any:
    dtype = resolved_dtype(dtype)
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"cannot cast an array from {x.dtype} to {dtype} by the rule {casting!r}")
    wanted = order_of(order) or "K"
    if not isinstance(x, np.ndarray) or x.dtype != dtype:
        return _cast(x, dtype, wanted)
    if not copy and wanted == "A" and not (lies_in(x, "C") or lies_in(x, "F")):
        copy = True
    return _laid_out(x, wanted, True if copy else None)


@rrule(astype, kernel=Map(integers=True), lowering=_real_astype, parts=parts.as_dtype,
       method={"astype": _astype_method}, cases=lambda s: [
    case(s(3, 4), np.dtype(np.float32)), case(s(3, dtype=np.float32), np.dtype(np.float64)),
    case(s(2), np.dtype(complex)), case(s.number(), np.dtype(np.float32)),
    case(np.float64(s.number()), np.dtype(np.float32)), case(s(3), np.dtype(np.float64)),
    case(s(0), np.dtype(np.float32)), case(s(), np.dtype(np.complex64)),
])  # fmt: skip
def _astype(x: Any, dtype: Any) -> tuple[Any, Pullback]:
    y = _real_astype(x, dtype)
    y = astype(x, dtype) if y is NotImplemented else y
    return y, lambda dy: (dy,)


vjps(as_array, lambda dy, y, x: dy, kernel=Map(integers=True),
     cases=lambda s: [case(s.number()), case(np.float32(s.number())), case(s(3))])  # fmt: skip


def _copied(a: Any, *order: Any, **options: Any) -> Any:
    return np.copy(a) if order or options else NotImplemented


def _copy_method(x: Any, order: Any = "C") -> Any:
    return np.copy(x, order) if isinstance(x, np.ndarray) else np.positive(x)


vjps(np.copy, lambda dy, y, a, *order, **kwargs: np.reshape(dy, np.shape(a)),
     kernel=Map(integers=True), lowering=_copied, method={"copy": _copy_method},
     cases=lambda s: [case(s(3, 4)), case(s(3, dtype=np.float32), "C"), case(s())])  # fmt: skip


@primitive
def item(x: Any) -> Any:
    """The only element of an array, as a Python number; such a one is itself."""
    return x if type(x) in (bool, int, float, complex) else x.item()


def _item_lowering(x: Any) -> Any:
    return item(np.reshape(x, ())) if np.ndim(x) else NotImplemented


def _item_method(x: Any, *index: Any) -> Any:
    if not index:
        return item(x)
    if len(index) == 1 and not isinstance(index[0], tuple):
        return item(np.reshape(x, (-1,))[index[0]])
    return item(x[index[0] if len(index) == 1 else index])


def _tolist(x: Any) -> Any:
    return item(x) if np.ndim(x) == 0 else [_tolist(x[i]) for i in range(len(x))]


def _is_integer(x: Any) -> Any:
    return item(np.logical_and(np.isfinite(x), x == np.floor(x)))


vjps(item, lambda dy, y, x: np.reshape(dy, np.shape(x)), kernel=Map(), lowering=_item_lowering,
     method={"item": _item_method, "tolist": _tolist, "is_integer": _is_integer}, cases=lambda s: [
    case(s()), case(s(1, 1)), case(s(1, dtype=np.float32)), case(s(dtype=complex)), case(np.float64(s.number())),
])  # fmt: skip

# ----------------------------------------------------------------------------- arrays made of traced values


def assemble(x: Any) -> Any:
    """An array of a nested list of numbers and arrays, some of them traced; raises what NumPy raises."""
    if is_traced(x):
        return x if isinstance(x, np.ndarray) else as_array(x)
    try:
        return _assembled(x)
    except ValueError:  # rows of several shapes
        asked(_plain_array, (spare(x),), {})
        raise


def _assembled(x: Any) -> Any:
    if not isinstance(x, tuple | list) or find_traced(x) is None:
        return _of_numbers(_plain_array(x))
    return stacked([part if is_traced(part) else _assembled(part) for part in x])


def _of_numbers(y: Any) -> Any:
    if y.dtype.kind not in "fciub":
        raise _no_numbers(y.dtype)
    return y


def _no_numbers(dtype: Any) -> LostDerivativeError:
    return LostDerivativeError(f"{user_site()}: an array of dtype {dtype} would be made of traced values, where nobody "
                               "can follow them. Make an array of the numbers alone, or keep the values in a list")


def _converted(x: Any, dtype: Any = None, ndmin: int = 0, order: Any = None, copy: bool | None = None) -> Any:
    """``np.array`` of what holds traced numbers and arrays; an array itself, where nothing is to be done."""
    y, order = assemble(x), order_of(order) or "K"
    if dtype is not None and y.dtype != (dtype := resolved_dtype(dtype)):
        check_range(dtype, x)
        if dtype.kind not in "fciub" and find_traced((x,)) is not None:
            raise _no_numbers(dtype)
        y = _cast(y, dtype, "K" if order == "A" else order)
    elif y is not x and order == "F" and y.ndim > 1:
        y = np.copy(y, order="F")
    if y is x:
        y = _laid_out(x, order, copy)
    elif copy is False:
        raise ValueError(_NO_COPY)
    return np.reshape(y, (1,) * (ndmin - y.ndim) + y.shape) if y.ndim < ndmin else y


def _cast(x: Any, dtype: Any, order: str) -> Any:
    """An array or number of another dtype, in this order."""
    if dtype.subdtype is not None:
        raise unsupported(f"an array in which each element is one of dtype {dtype}", "Stack arrays")
    y = astype(x, dtype)
    if order == "K" or np.ndim(y) < 2:
        return y
    return np.copy(y, order=either_order(x) if order == "A" else order)  # type: ignore[arg-type]


def _laid_out(x: Any, order: str, copy: bool | None) -> Any:
    """An array in the order that is asked for: itself, unless it lies otherwise or is to be copied."""
    if copy:
        return np.copy(x, order=order)  # type: ignore[call-overload]
    if order in ("C", "F") and not lies_in(x, order):
        if copy is False:
            raise ValueError(_NO_COPY)
        return np.copy(x, order=order)  # type: ignore[call-overload]
    return x


try:
    np.array([0.0], copy=False)
except ValueError as _error:
    _NO_COPY = str(_error)


def _array(*args: Any, **kwargs: Any) -> Any:
    args, kwargs = opened(args), opened(kwargs)
    if find_traced((args, kwargs)) is None:
        return _plain_array(*args, **kwargs)

    def array(
        object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False,
        ndmin: int = 0, like: Any = None,
    ) -> Any:  # fmt: skip
        return _converted(object, dtype, ndmin, order, copy)

    return array(*args, **kwargs)


def _as_stand_in(original: Callable[..., Any], ndmin: int, wanted: str | None) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = opened(args), opened(kwargs)
        if find_traced((args, kwargs)) is None:
            return original(*args, **kwargs)

        def asarray(
            a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, device: Any = None, like: Any = None
        ) -> Any:
            return _converted(a, dtype, ndmin, wanted or order, copy)

        return asarray(*args, **kwargs)

    return stand_in


def _require(a: Any, dtype: Any = None, requirements: Any = None, **kwargs: Any) -> Any:
    wanted, a = {str(item).upper()[:1] for item in requirements or ()}, opened(a)
    if find_traced((a,)) is None:
        return _plain_require(a, dtype, requirements, **kwargs)
    if wanted == {"C", "F"}:
        return _plain_require(np.zeros(1), dtype, requirements)  # raises what NumPy raises
    if not wanted <= {"C", "F"}:
        raise unsupported(f"np.require with {requirements!r}", "Use np.ascontiguousarray(x) or x.copy()")
    return _stand_ins["asanyarray"](a, dtype, "".join(wanted) or None)


_plain_require = np.require
_stand_ins: dict[str, Callable[..., Any]] = {}
patch(np, "require", _require)
patch(np, "array", _array)
_AS: list[tuple[str, int, str | None]] = [
    ("asarray", 0, None), ("asanyarray", 0, None), ("ascontiguousarray", 1, "C"), ("asfortranarray", 1, "F"),
]  # fmt: skip
for _name, _ndmin, _order in _AS:
    _stand_ins[_name] = patch(np, _name, _as_stand_in(getattr(np, _name), _ndmin, _order))


def _asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Any:
    y = _stand_ins["asarray"](a, dtype, order)
    if is_traced(y) and y.dtype.kind in "fc" and not np.all(np.isfinite(y)):  # a decision
        y = np.full(1, np.nan)
    return y if is_traced(y) else _plain_chkfinite(y)


_plain_chkfinite = np.asarray_chkfinite
patch(np, "asarray_chkfinite", _asarray_chkfinite)

_plain_iterable = np.iterable
patch(np, "iterable", lambda y: np.ndim(y) > 0 if is_traced(y) else _plain_iterable(y))  # it asks iter, which tries


def _fromiter(iterable: Any, dtype: Any, count: int = -1, **kwargs: Any) -> Any:
    items = [item for item, _ in zip(iterable, range(count), strict=False)] if count >= 0 else list(iterable)
    return _converted(items, dtype, 1) if find_traced(items) is not None else _plain_fromiter(items, dtype, **kwargs)


_plain_fromiter = np.fromiter
patch(np, "fromiter", _fromiter)

# ------------------------------------------------------------------------------------------ filled arrays

full, full_like = patch(np, "full"), patch(np, "full_like")


def _full_lowering(shape: Any, fill_value: Any, dtype: Any = None, *rest: Any, **kwargs: Any) -> Any:
    y = np.broadcast_to(fill_value, shape)
    return y if dtype is None else astype(y, np.dtype(dtype))


vjps(full, None, lambda dy, y, shape, fill_value, *rest, **kwargs: dy, lowering=_full_lowering, cases=lambda s: [
    case((3, 4), s.number()), case(3, s()), case((2, 3), s(3)), case(2, s.number(), np.float32),
    case((0, 2), s.number()),
])  # fmt: skip


def _full_like_lowering(
    a: Any, fill_value: Any, dtype: Any = None, *rest: Any, shape: Any = None, **kwargs: Any
) -> Any:
    y = np.broadcast_to(fill_value, np.shape(a) if shape is None else shape)
    return astype(y, dtype_of(a) if dtype is None else np.dtype(dtype))


vjps(full_like, None, lambda dy, y, a, fill_value, *rest, **kwargs: dy, lowering=_full_like_lowering,
     aliases=(np.full_like,), cases=lambda s: [
    case(s(3, 4), s.number()), case(s(2, 3), s(3)), case(s(3, dtype=np.float32), s.number()), case(s(3), s()),
])  # fmt: skip


def _linspace_lowering(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> Any:
    """Equal steps from the start."""
    if retstep or find_traced((num,)) is not None:
        return NotImplemented
    if dtype is None:
        dtype = np.result_type(promoted(start, stop), 1.0)
    dtype, exact = np.dtype(dtype), np.result_type(promoted(start, stop), 1.0)
    places = (-1, *(1,) * len(np.broadcast_shapes(np.shape(start), np.shape(stop))))
    k, parts = np.reshape(np.arange(num).astype(exact), places), num - 1 if endpoint else num
    width = np.subtract(stop, np.multiply(start, 1.0))
    y = np.add(np.multiply(k, np.divide(width, max(parts, 1))), start)
    if endpoint and num > 1:  # the last is the end itself, whatever the start is
        y = np.where(np.equal(k, parts), stop, y)
    y = astype(np.floor(y) if dtype.kind in "iu" else y, dtype)
    return y if axis == 0 else np.moveaxis(y, 0, axis)


@rrule(np.linspace, lowering=_linspace_lowering, cases=lambda s: [
    case(s.number(), s.number(), 5), case(s(3), s(3), 4), case(s(3), s(2, 1), num=4),
    case(s.number(), 2.0, 4, endpoint=False), case(s(3), 1.0, 4, axis=-1), case(s(2), s(2), 3, False, True),
    case(s.number(), s.number(), 1), case(s.number(), s.number(), 0), case(s.number(), 1.0, 4, True, True),
    case(s.number(), 2.0, 3, True, False, np.float32), case(s(2, dtype=complex), 1.0, 3, True, False, None, 1),
])  # fmt: skip
def _linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0
) -> tuple[Any, Pullback]:
    """Means of the ends with weights that do not depend on them; the step is a part of their difference."""
    y = np.linspace(start, stop, num, endpoint, retstep, dtype, axis)  # type: ignore[call-overload]
    t, parts = np.linspace(0.0, 1.0, num, endpoint), num - 1 if endpoint else num

    def pullback(dy: Any) -> Sequence[Any]:
        dy, dstep = dy if retstep else (dy, None)
        ends = None, None
        if dy is not None:
            last = np.moveaxis(dy, axis, -1)
            ends = np.sum(last * (1 - t), axis=-1), np.sum(last * t, axis=-1)
        if dstep is not None:
            step = np.divide(dstep, parts or np.nan)  # of a single number there is none
            ends = add(ends[0], -step), add(ends[1], step)
        return ends

    return y, pullback


@composite(np.logspace, cases=lambda s: [
    case(s.number(0.0, 0.5), 1.0, 4), case(s(2), s(2), 3), case(0.5, s.number(), 3, False), case(0.0, 1.0, 3, base=2.0),
    case(0.5, 1.0, 3, True, s.number(1.5)), case(s(2), 1.0, 3, axis=1), case(s(2), s(2), 3, True, s(2, low=1.5)),
    case(0.5, 1.5, 3, dtype=np.float32), case(s(), 1.0, 1), case(s(2), 1.0, 2, True, s(2, low=1.5), None, -1),
])  # fmt: skip
def _logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    """Powers of a base, whose axes are those of the ends with one more for the numbers."""
    if ndim := len(shape_of(base)):
        ndim = len(np.broadcast_shapes(shape_of(start), shape_of(stop), shape_of(base)))
        start, stop, base = (np.reshape(x, (1,) * (ndim - len(shape_of(x))) + shape_of(x)) for x in (start, stop, base))
        base = np.expand_dims(base, axis)
    y = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else astype(y, np.dtype(dtype))


def _arange(*args: Any, **kwargs: Any) -> Any:
    """As many elements as NumPy's own arithmetic of the bounds says: a decision that Python takes, hence guarded."""
    if find_traced((args, kwargs)) is None:
        return _plain_arange(*args, **kwargs)
    dtype = asked(_plain_arange, shadow(args), shadow(kwargs)).dtype  # or raises
    named: dict[str, Any] = dict(zip(("start", "stop", "step", "dtype"), args, strict=False)) | kwargs
    start, stop, step = (named.get(name) for name in ("start", "stop", "step"))
    if stop is None or start is None:
        start, stop = 0, start if stop is None else stop
    count = _count(stop - start, step := 1 if step is None else step)
    low = np.reshape(astype(start, dtype), (1,))
    if count < 2:
        return low[:count]
    high = np.reshape(astype(start + step, dtype), (1,))
    if count == 2:
        return np.concatenate([low, high])
    k = _plain_arange(count).astype(np.float32 if dtype == np.float16 else dtype)
    steps = np.multiply(k, np.subtract(astype(high, k.dtype), astype(low, k.dtype)))
    return np.where(k == 1, high, astype(np.add(astype(low, k.dtype), steps), dtype))


def _count(width: Any, step: Any) -> int:
    """How many steps fit; the first one does also where the quotient underflows."""
    parts = width / step
    real = item(np.real(parts))
    count: int = math.ceil(real)
    if dtype_of(parts) == np.complex128:
        count = min(count, math.ceil(item(np.imag(parts))))
    elif not count and real == 0 and width != 0 and not np.signbit(real):
        count = 1
    return max(count, 0)


patch(np, "arange", _arange)
