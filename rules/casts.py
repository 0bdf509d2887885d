"""Casts of traced numbers where they are called (``np.float64(x)``, ``complex(a, b)``), and ``x.view()``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from yota_py.base.dispatch import decided, find_traced, is_traced
from yota_py.registry.patches import show
from yota_py.registry.registry import case, methods, primitive, readings, rrule
from yota_py.registry.tangents import astype, listed
from yota_py.registry.writes import check_range

from .lists import array_of
from .support import dtype_of, shape_of, unsupported


def _cast(cls: type[np.generic]) -> Callable[..., Any]:
    """The stand-in for a class of NumPy's numbers: it makes an array of one, and a number of one without axes."""
    dtype = np.dtype(cls)

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        args = listed(args)
        if find_traced(args) is None:
            return cls(*args, **kwargs)
        x = array_of(args[0])
        if len(args) > 1 or kwargs or not is_traced(x):
            raise unsupported(f"np.{cls.__name__} with these arguments", "Give it one number or array")
        if isinstance(x, complex) and not isinstance(x, np.generic) and dtype.kind in "fiu":
            cls(1j)  # type: ignore[call-arg]  # raises what NumPy raises
        if dtype.kind in "iu" and isinstance(x, int | float) and not isinstance(x, np.generic) and not np.isfinite(x):
            cls(float(np.inf if x == x else np.nan))  # type: ignore[call-arg]  # raises what NumPy raises
        check_range(dtype, x) if isinstance(x, int) else None
        y = astype(x, dtype)
        return y if shape_of(y) else y[()]

    return stand_in


_CLASSES = {cls for name in np.sctypeDict if (cls := np.sctypeDict[name]) and np.dtype(cls).kind in "fciub"}
for _cls in _CLASSES:
    show(_cls, _cast(_cls))


def _time(cls: Any) -> Callable[..., Any]:
    """The stand-in for a class of times, which are never traced: of numbers without derivative."""
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        given = [x for x in args if is_traced(x)]
        return cls(*args, **kwargs) if any(x._carries() for x in given) else cls(*decided(args), **kwargs)

    return stand_in


for _cls in (np.timedelta64, np.datetime64):
    show(_cls, _time(_cls))


# ------------------------------------------------------------------------------------------ Python's complex numbers


@primitive
def complex_of(a: Any, b: Any) -> complex:
    """``complex(a, b)`` of real numbers."""
    return complex(a, b)


@rrule(complex_of, cases=lambda s: [case(s.number(), s.number()), case(s.number(), 2), case(1, np.float32(s.number()))])
def _complex_of(a: Any, b: Any) -> tuple[Any, Callable[[Any], Sequence[Any]]]:
    return complex_of(a, b), lambda dy: (np.real(dy), np.imag(dy))


def to_complex(x: Any) -> Any:
    """A traced number as a complex one of Python's."""
    return methods["item"](astype(x, np.dtype(complex)))


def _complex(*args: Any, **kwargs: Any) -> Any:
    """The stand-in for ``complex``, in code that does nothing but call it."""
    given = dict(zip(("real", "imag"), args, strict=False)) | kwargs
    a, b = given.get("real", 0.0), given.get("imag")
    known = len(args) + len(kwargs) == len(given) and given.keys() <= {"real", "imag"}
    if not known or find_traced((a, b)) is None:
        return complex(*args, **kwargs)  # which refuses what it does not know
    if any(shape_of(x) for x in (a, b) if is_traced(x)):
        return complex(*args, **kwargs)
    if b is None:
        return to_complex(a)
    if np.iscomplexobj(a) or np.iscomplexobj(b):
        return a + 1j * b
    return complex_of(a, b)


show(complex, _complex)


def _view(x: Any, dtype: Any = None, type: Any = None) -> Any:
    """``x.view()``: another array of the same memory."""
    if isinstance(dtype, _TYPE) and issubclass(dtype, np.ndarray):
        dtype, type = None, dtype
    if (dtype is not None and np.dtype(dtype) != dtype_of(x)) or type not in (None, np.ndarray):
        if x._carries():
            raise unsupported("x.view of another dtype or class", "Use x.astype(dtype), or x.real and x.imag")
        x = readings["view"](x) if isinstance(x, np.ndarray) else decided(x).view
        return x(**{key: value for key, value in (("dtype", dtype), ("type", type)) if value is not None})
    return x[...] if isinstance(x, np.ndarray) else x


_TYPE = type
methods["view"] = _view
