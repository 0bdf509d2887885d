"""``numpy.ma`` of traced values: arithmetic and reductions, in which masked elements have no part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np
import numpy.ma as ma

from yota_py.base.dispatch import decided, find_traced, shadow
from yota_py.registry.patches import meeting, patch, standing_for
from yota_py.registry.tangents import astype

from .support import dtype_of, operand, shape_of

_TINY = np.finfo(np.float64).tiny  # as much larger than a divisor a dividend may be


class Masked(np.lib.mixins.NDArrayOperatorsMixin):
    """What ``np.ma`` makes of traced values: numbers, and a mask of their shape that says which ones do not count."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: Any, mask: Any, fill_value: Any = None) -> None:
        self.data, self.fill_value = data, fill_value
        self.mask = np.broadcast_to(mask, shape_of(data))

    _mask = property(lambda self: shadow(self.mask))  # where np.ma.is_masked looks
    shape = property(lambda self: shape_of(self.data))
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: int(np.size(self.data)))
    dtype = property(lambda self: dtype_of(self.data))
    T = property(lambda self: Masked(np.transpose(self.data), np.transpose(self.mask)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or ufunc.nout > 1:
            return NotImplemented
        data, masks = [data_of(x) for x in inputs], [mask_of(x) for x in inputs]
        mask: Any = False
        for other in (*masks, _outside(ufunc, data)):
            mask = np.logical_or(mask, other)
        with np.errstate(all="ignore"):
            return result_of(ufunc(*data), mask)

    def __getitem__(self, index: Any) -> Any:
        return result_of(self.data[index], self.mask[index])

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def filled(self, fill_value: Any = None) -> Any:
        """The numbers, with one in the place of those that are masked."""
        value = self.fill_value if fill_value is None else fill_value
        return np.where(self.mask, ma.default_fill_value(self.dtype) if value is None else value, self.data)

    def compressed(self) -> Any:
        """The numbers that are not masked."""
        return np.ravel(self.data)[decided(np.logical_not(np.ravel(self.mask)))]

    def count(self, axis: Any = None) -> Any:
        """How many are not masked."""
        return np.sum(np.logical_not(self.mask), axis=axis)

    def reshape(self, *shape: Any) -> Any:
        """Of another shape."""
        return Masked(np.reshape(self.data, shape[0] if len(shape) == 1 else shape), np.reshape(self.mask, *shape))

    def ravel(self) -> Any:
        """In one line."""
        return Masked(np.ravel(self.data), np.ravel(self.mask))

    def average(self, axis: Any = None, weights: Any = None) -> Any:
        """The mean with weights."""
        if weights is None:
            return _reduction("mean", None)(self, axis)
        weighted = self * np.broadcast_to(weights, self.shape)
        total = np.sum(np.where(self.mask, 0, weights), axis=axis)
        return result_of(np.sum(np.where(self.mask, 0, weighted.data), axis=axis), np.equal(total, 0)) / total

    def ptp(self, axis: Any = None) -> Any:
        """From the least to the greatest."""
        return _reduction("max", -np.inf)(self, axis) - _reduction("min", np.inf)(self, axis)

    def anom(self, axis: Any = None) -> Any:
        """Differences from the mean."""
        m = _reduction("mean", None)(self, axis)
        return self - (Masked(np.expand_dims(m.data, axis), np.expand_dims(m.mask, axis)) if axis else m)

    def cumsum(self, axis: Any = None) -> Any:
        """Sums from the first on."""
        y = np.cumsum(np.where(self.mask, 0, self.data), axis=axis)
        return Masked(y, self.mask if shape_of(y) == self.shape else np.ravel(self.mask))


def _reduction(name: str, neutral: float | None) -> Callable[..., Any]:
    """A reduction of what is not masked; masked where nothing is left."""
    fn = getattr(np, name)

    def method(self: Masked, axis: Any = None, **options: Any) -> Any:
        kept = np.logical_not(self.mask)
        first = {} if neutral is None else {"initial": neutral}
        nothing = self.count(axis) <= options.get("ddof", 0)
        kept = np.logical_or(kept, nothing if axis is None else np.expand_dims(nothing, axis))  # finite, but masked
        with np.errstate(all="ignore"):
            return result_of(fn(self.data, axis=axis, where=kept, **first, **options), nothing)

    return method


def _of_numpy(masked: Masked, plain: Callable[[Any], Any]) -> Any:
    """The masked array itself, when its numbers are plain."""
    data, mask = plain(masked.data), plain(masked.mask)
    if find_traced((data, mask)) is not None:  # by another thread
        return masked
    return ma.masked_array(data, mask, fill_value=plain(masked.fill_value), copy=True)


standing_for[Masked] = _of_numpy

_REDUCTIONS = {"sum": None, "prod": None, "mean": None, "var": None, "std": None, "max": -np.inf, "min": np.inf}
for _name, _neutral in _REDUCTIONS.items():
    setattr(Masked, _name, _reduction(_name, _neutral))


def data_of(x: Any) -> Any:
    """The numbers alone."""
    return x.data if isinstance(x, Masked) else ma.getdata(x) if isinstance(x, ma.MaskedArray) else operand(x)


def _with_gaps(x: Any, constant: Callable[[np.ndarray], Any]) -> Masked | None:
    """An array that is not traced, if it has masked elements."""
    if x is ma.masked or not ma.is_masked(x):
        return None
    return Masked(constant(ma.getdata(x)), constant(ma.getmaskarray(x)), x.fill_value)


meeting[ma.MaskedArray] = _with_gaps


def mask_of(x: Any) -> Any:
    """Which of them are masked."""
    return x.mask if isinstance(x, Masked) else ma.getmask(x) if isinstance(x, ma.MaskedArray) else False


def result_of(data: Any, mask: Any) -> Any:
    """An array; or a number, or what NumPy has for a masked one: a decision."""
    if shape_of(data):
        return Masked(data, mask)
    return ma.masked if bool(mask) else data


def _outside(ufunc: Any, data: list[Any]) -> Any:
    """Where arguments are outside of the domain of a function, which masks the result."""
    if ufunc in (np.divide, np.floor_divide, np.remainder, np.fmod):
        return np.greater_equal(np.abs(data[0]) * _TINY, np.abs(data[1]))
    known = ma.core.ufunc_domain.get(ufunc)  # type: ignore[attr-defined]
    return False if known is None or len(data) > 1 else known(*data)


# ----------------------------------------------------------------------------------- functions of np.ma


def _counts(*args: Any) -> bool:
    return any(isinstance(x, Masked) for x in args) or find_traced(args) is not None


def _stand_in(name: str, body: Callable[..., Any]) -> None:
    plain = getattr(ma, name)

    @wraps(body)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return (body if _counts(*args, *kwargs.values()) else plain)(*args, **kwargs)

    patch(ma, name, stand_in)


def masked_array(
    data: Any, mask: Any = False, dtype: Any = None, copy: bool = False, fill_value: Any = None, keep_mask: bool = True,
    **options: Any,
) -> Any:  # fmt: skip
    """The constructor."""
    x = data_of(data)
    mask = np.logical_or(mask, mask_of(data)) if keep_mask else mask
    return Masked(x if dtype is None else astype(x, np.dtype(dtype)), mask, fill_value)


def masked_where(condition: Any, a: Any, copy: bool = True) -> Any:
    """Masked where a condition holds."""
    return Masked(data_of(a), np.logical_or(np.logical_or(data_of(condition), mask_of(condition)), mask_of(a)))


_stand_in("array", lambda data, dtype=None, copy=False, order=None, mask=False, **options: masked_array(
    data, mask, dtype, copy, **options))  # fmt: skip
_stand_in("masked_array", masked_array)
_stand_in("masked_where", masked_where)
_stand_in("masked_invalid", lambda a, copy=True: masked_where(np.logical_not(np.isfinite(data_of(a))), a))
for _name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"):
    _stand_in(f"masked_{_name}", lambda x, value, copy=True, name=_name: masked_where(
        getattr(np, name)(data_of(x), value), x))  # fmt: skip
_stand_in("masked_inside", lambda x, v1, v2, copy=True: masked_where(
    np.logical_and(data_of(x) >= min(v1, v2), data_of(x) <= max(v1, v2)), x))  # fmt: skip
_stand_in("masked_outside", lambda x, v1, v2, copy=True: masked_where(
    np.logical_or(data_of(x) < min(v1, v2), data_of(x) > max(v1, v2)), x))  # fmt: skip
_stand_in("getdata", lambda a, subok=True: data_of(a))
_stand_in("getmask", mask_of)
_stand_in("getmaskarray", lambda a: np.broadcast_to(mask_of(a), shape_of(data_of(a))))
for _name in ("filled", "compressed", "count", "ravel", "reshape", "average", "cumsum", *_REDUCTIONS):
    _stand_in(_name, lambda a, *args, name=_name, **kwargs: getattr(masked_array(a), name)(*args, **kwargs))
for _name, _fn in vars(ma).items():
    _ufunc = getattr(np, _name, None)
    if isinstance(_fn, ma.core._MaskedUFunc) and isinstance(_ufunc, np.ufunc):
        _stand_in(_name, lambda *args, ufunc=_ufunc: ufunc(*map(masked_array, args)))
