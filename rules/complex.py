"""Complex numbers: parts, conjugate, angle, and sign (which is a unit number in the complex plane).

For a real loss L the gradient of z is dL/dRe(z) + i dL/dIm(z), as in ChainRules and PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from yota_py.registry.registry import Case, Sample, case, methods, nondiff, properties, rrule
from yota_py.registry.tangents import conj

from .casting import item
from .support import Pullback, zero_over_zero


def _cases(s: Sample) -> Iterable[Case]:
    for dtype in (np.complex128, np.complex64, np.float64, np.float32):
        yield case(s(3, 4, dtype=dtype))
        yield case(s(dtype=dtype))
        yield case(s(dtype=dtype)[()])
    yield case(s(0, dtype=complex))
    yield case(complex(s.number(), s.number()))
    yield case(s.number())


nondiff(np.iscomplexobj, immediate=True, cases=_cases)
nondiff(np.isrealobj, immediate=True, cases=_cases)
nondiff(np.isreal, cases=_cases)
nondiff(np.iscomplex, cases=_cases)


@rrule(np.real, cases=_cases)
def _real(x: Any) -> tuple[Any, Pullback]:
    return np.real(x), lambda dy: (dy,)


@rrule(np.imag, cases=_cases)
def _imag(x: Any) -> tuple[Any, Pullback]:
    return np.imag(x), lambda dy: (1j * dy if np.iscomplexobj(x) else None,)


@rrule(np.conjugate, emit=lambda k, x: x, cases=_cases)
def _conjugate(x: Any) -> tuple[Any, Pullback]:
    return np.conjugate(x), lambda dy: (conj(dy),)


@rrule(np.angle, cases=lambda s: [*_cases(s), case(s(3, dtype=complex), True), case(s(3, dtype=complex), deg=True)])
def _angle(z: Any, *args: Any, deg: bool = False) -> tuple[Any, Pullback]:
    degrees = args[0] if args else deg
    unit = 180 / math.pi if degrees else 1.0

    def pullback(dy: Any) -> Sequence[Any]:
        if not np.iscomplexobj(z):
            return (None, None)
        square = np.real(z) ** 2 + np.imag(z) ** 2
        return dy * unit * 1j * zero_over_zero(z, square), None

    return np.angle(z, deg=degrees), pullback


@rrule(np.sign, emit="sign", cases=_cases)
def _sign(x: Any) -> tuple[Any, Pullback]:
    """u = x/|x|; its differential, du = (dx - u Re(conj(u) dx)) / |x|, is its own adjoint."""
    y = np.sign(x)
    if not np.iscomplexobj(x):
        return y, lambda dy: (None,)

    def pullback(dy: Any) -> Sequence[Any]:
        return (zero_over_zero(dy - y * np.real(np.conjugate(y) * dy), np.abs(x)),)

    return y, pullback


@rrule(np.real_if_close, cases=lambda s: [case(s(3)), case(s(3, dtype=complex))])
def _real_if_close(a: Any, tol: Any = 100) -> tuple[Any, Pullback]:
    return np.real_if_close(a, tol), lambda dy: (dy,)


def _is_integer(x: Any) -> Any:
    return item(np.logical_and(np.isfinite(x), x == np.floor(x)))


def _conj_method(x: Any) -> Any:
    """Of a real array, unlike ``np.conj`` the array itself; of Python's numbers one of Python's."""
    if not np.iscomplexobj(x):
        return x
    return np.conjugate(x) if isinstance(x, np.ndarray | np.generic) else item(np.conjugate(x))


properties.update(real=np.real, imag=np.imag)
methods.update(conj=_conj_method, conjugate=_conj_method, is_integer=_is_integer)
