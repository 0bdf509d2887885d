"""Complex numbers: parts, conjugate, angle, and sign (which is a unit number in the complex plane).

For a real loss L the gradient of z is dL/dRe(z) + i dL/dIm(z), as in ChainRules and PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry.kernels import Join, Map, View
from yota_py.registry.registry import Case, Sample, case, nondiff, vjps
from yota_py.registry.tangents import conj, joined

from . import parts
from .casting import item
from .support import zero_over_zero


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


def _conj_method(x: Any, *out: Any) -> Any:
    """Of a real array, unlike ``np.conj`` the array itself; of Python's numbers one of Python's."""
    if out:
        return np.conjugate(x, *out)
    if not np.iscomplexobj(x):
        return x
    return np.conjugate(x) if isinstance(x, np.ndarray | np.generic) else item(np.conjugate(x))


vjps(np.real, lambda dy, y, x: dy, kernel=View(), attribute="real", cases=_cases)
vjps(np.imag, lambda dy, y, x: 1j * dy if np.iscomplexobj(x) else None, kernel=View(), attribute="imag", cases=_cases)
vjps(joined, lambda dy, y, re, im: np.real(dy), lambda dy, y, re, im: np.imag(dy), kernel=Join(), cases=lambda s: [
    case(s(3), s(3)), case(s(2, 3), s(3)), case(s(), s()), case(s(2, dtype=np.float32), s(2, dtype=np.float32)),
    case(s.number(), s.number()), case(s(3), 0.0),
])  # fmt: skip
vjps(np.conjugate, lambda dy, y, x: conj(dy), kernel=Map(), parts=parts.conjugate, cases=_cases,
     method={"conj": _conj_method, "conjugate": _conj_method})  # fmt: skip
vjps(np.real_if_close, lambda dy, y, a, tol=100: dy, cases=lambda s: [case(s(3)), case(s(3, dtype=complex))])


def _angle(dy: Any, y: Any, z: Any, deg: bool = False) -> Any:
    square = np.square(np.real(z)) + np.square(np.imag(z))
    return dy * (180 / math.pi if deg else 1.0) * 1j * zero_over_zero(z, square) if np.iscomplexobj(z) else None


def _sign(du: Any, u: Any, x: Any) -> Any:
    """u = x/|x|; its differential, du = (dx - u Re(conj(u) dx)) / |x|, is its own adjoint."""
    return zero_over_zero(du - u * np.real(np.conjugate(u) * du), np.abs(x)) if np.iscomplexobj(x) else None


vjps(np.angle, _angle, parts=parts.angle,
     cases=lambda s: [*_cases(s), case(s(3, dtype=complex), True), case(s(3, dtype=complex), deg=True)])  # fmt: skip
vjps(np.sign, _sign, kernel=Map("sign", integers=True), cases=_cases)
