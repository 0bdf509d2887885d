"""Fourier transforms of ``numpy.fft``, and what their rules share with those of ``scipy.fft``.

A transform is a matrix F with F F* = n: its adjoint is the other transform with the scale that ``norm`` names the other
way round. Transforms of real numbers leave out half of the spectrum, whose elements count twice but for the ends
(Frigo & Johnson, FFTW manual, 2.4: the half of an odd n has no last element of its own).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np
from numpy.fft._pocketfft import _cook_nd_args  # type: ignore[attr-defined]

from yota_py.base.dispatch import find_traced
from yota_py.registry.composites import composite
from yota_py.registry.patches import patch
from yota_py.registry.registry import Case, Sample, case, vjps
from yota_py.registry.tangents import conj

from .indices import unindex
from .support import dtype_of, operand, shape_of

SWAPPED: dict[Any, Any] = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def resized(dx: Any, x: Any) -> Any:
    """What ``n`` or ``s`` have cut off or added, undone: zeros stand for elements that were cut off."""
    have, want = shape_of(dx), shape_of(operand(x))
    if have == want:
        return dx
    both = tuple(slice(min(n, m)) for n, m in zip(have, want, strict=True))
    return unindex(dx[both], both, want)


def weighted(dy: Any, n: int, axis: int, inner: float) -> Any:
    """Half a spectrum of ``n`` elements with its elements times ``inner``, but for the ends."""
    m, ndim = n // 2 + 1, len(shape_of(dy))
    weights = np.full(m, inner, dtype_of(dy).char.lower())
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return np.multiply(dy, np.reshape(weights, tuple(m if i == axis % ndim else 1 for i in range(ndim))))


def _cases(complex: bool) -> Callable[[Sample], Iterable[Case]]:
    """Odd and even lengths, longer and shorter ones, all norms, both precisions."""

    def draw(s: Sample) -> Iterable[Case]:
        z = np.complex128 if complex else np.float64
        yield from (case(s(n, dtype=z), norm=norm) for n in (4, 5) for norm in (None, "ortho", "forward"))
        yield from (case(s(4, dtype=z), n) for n in (2, 3, 6, 7))
        yield from (case(s(4, 3, dtype=z), 3, 0), case(s(2, 4, dtype=z).T, axis=-2, norm="backward"))
        yield from (case(s(4, dtype=np.complex64 if complex else np.float32)), case(s(0, 3)))
        yield from (case(s(3, 2, dtype=z), None, 0, "ortho"), case(s(5)), case(s(2)), case(s.integers(4, high=5)))

    return draw


vjps(np.fft.fft, lambda dy, y, a, n=None, axis=-1, norm=None, out=None:
     resized(np.fft.ifft(dy, None, axis, SWAPPED[norm]), a), cases=_cases(True))  # fmt: skip
vjps(np.fft.ifft, lambda dy, y, a, n=None, axis=-1, norm=None, out=None:
     resized(np.fft.fft(dy, None, axis, SWAPPED[norm]), a), cases=_cases(True))  # fmt: skip


def _rfft(dy: Any, y: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: None = None) -> Any:
    n = shape_of(operand(a))[axis] if n is None else n
    return resized(np.fft.irfft(weighted(dy, n, axis, 0.5), n, axis, SWAPPED[norm]), a)


def _irfft(dy: Any, y: Any, a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: None = None) -> Any:
    n = shape_of(y)[axis]
    return resized(weighted(np.fft.rfft(dy, n, axis, SWAPPED[norm]), n, axis, 2), a)


vjps(np.fft.rfft, _rfft, cases=_cases(False))
vjps(np.fft.irfft, _irfft, cases=_cases(True))


@composite(np.fft.hfft, cases=_cases(True))
def _hfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: None = None) -> Any:
    """A spectrum that is Hermitian, transformed to what is real."""
    return np.fft.irfft(conj(operand(a)), n, axis, SWAPPED[norm])


@composite(np.fft.ihfft, cases=_cases(False))
def _ihfft(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: None = None) -> Any:
    return conj(np.fft.rfft(a, n, axis, SWAPPED[norm]))


# ------------------------------------------------------------------------------------- several axes


def _grid_cases(complex: bool, planar: bool) -> Callable[[Sample], Iterable[Case]]:
    def draw(s: Sample) -> Iterable[Case]:
        z = np.complex128 if complex else np.float64
        yield from (case(s(3, 4, dtype=z)), case(s(4, 3, dtype=z), (2, 5), (0, 1)), case(s(2, 3, 2, dtype=z)))
        yield from (case(s(3, 4, dtype=z), norm="ortho"), case(s(3, 2, 4, dtype=z), None, (2, 0), "forward"))
        yield from (case(s(2, 3, dtype=np.complex64 if complex else np.float32)), case(s(2, 4, dtype=z).T))
        yield case(s(2, 3, 3, dtype=z), (-1, 2), axes=(0, -1))
        if not planar:
            yield from (case(s(5, dtype=z)), case(s(3, 4, dtype=z), axes=(-1,)))

    return draw


def _on_axes(fn: Any, steps: Callable[..., Any], planar: bool, complex: bool, real: int) -> None:
    ahead = (-2, -1) if planar else None

    def body(a: Any, s: Any = None, axes: Any = ahead, norm: Any = None, out: None = None) -> Any:
        a = operand(a)
        return steps(a, *_cook_nd_args(np.broadcast_to(0.0, shape_of(a)), s, axes, real), norm)

    composite(fn, cases=_grid_cases(complex, planar))(body)


def _one_by_one(step: Any, last: Any, first: bool) -> Callable[[Any, Any, Any, Any], Any]:
    """A transform along each axis; that of the last axis is ``last``, the ``first`` or the last to come."""

    def steps(a: Any, s: Any, axes: Any, norm: Any) -> Any:
        lines = [(step, n, axis) for n, axis in zip(s[:-1], axes[:-1], strict=True)]
        if first:
            lines = [(last, s[-1], axes[-1]), *lines[::-1]]
        else:
            lines.append((last, s[-1], axes[-1]))
        for fn, n, axis in lines:
            a = fn(a, n, axis, norm)
        return a

    return steps


for _planar, _names in ((False, "fftn ifftn rfftn irfftn"), (True, "fft2 ifft2 rfft2 irfft2")):
    _fft, _ifft, _real, _from_real = (getattr(np.fft, name) for name in _names.split())
    _on_axes(_fft, _one_by_one(np.fft.fft, np.fft.fft, True), _planar, True, 0)
    _on_axes(_ifft, _one_by_one(np.fft.ifft, np.fft.ifft, True), _planar, True, 0)
    _on_axes(_real, _one_by_one(np.fft.fft, np.fft.rfft, True), _planar, False, 0)
    _on_axes(_from_real, _one_by_one(np.fft.ifft, np.fft.irfft, False), _planar, True, 1)


# -------------------------------------------------------------------------------------------- helpers


def _shift(fn: Any, sign: int) -> None:
    @composite(fn, cases=lambda s: [
        case(s(4)), case(s(5)), case(s(3, 4)), case(s(3, 4), 1), case(s(3, 2), axes=(0,)),
        case(s(3, dtype=complex)), case(s(4, 3).T, (1, 0)), case(s(0)),
    ])  # fmt: skip
    def body(x: Any, axes: Any = None) -> Any:
        x = operand(x)
        shape = shape_of(x)
        axes = tuple(range(len(shape))) if axes is None else (axes,) if isinstance(axes, int | np.integer) else axes
        return np.roll(x, tuple(sign * (shape[axis] // 2) for axis in axes), tuple(axes))


_shift(np.fft.fftshift, 1)
_shift(np.fft.ifftshift, -1)


def frequencies(plain: Any) -> Any:
    """A stand-in for ``fftfreq`` or ``rfftfreq``: whole numbers over the length of the window, which may be traced."""

    def stand_in(n: Any, d: Any = 1.0, **options: Any) -> Any:
        if find_traced((d,)) is None:
            return plain(n, d, **options)
        return np.multiply(np.rint(plain(n) * n), np.divide(1.0, n * d))

    return wraps(plain)(stand_in)


for _name in ("fftfreq", "rfftfreq"):
    patch(np.fft, _name, frequencies(getattr(np.fft, _name)))
