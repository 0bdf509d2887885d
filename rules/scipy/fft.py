"""``scipy.fft``: Fourier transforms, cosine and sine transforms, and the fast Hankel transform.

The rules are of the transforms along several axes; those along one are these. Matrices of cosine and sine transforms:
Wang, Fast algorithms for the discrete W transform (1984). Hankel transform: Hamilton, Uncorrelated modes of the
non-linear power spectrum (2000), appendix B.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np
from scipy import fft

from yota_py.base.dispatch import dispatching
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import Case, Sample, case, vjps
from yota_py.registry.tangents import MISSING, conj

from ..fourier import SWAPPED, frequencies, resized, weighted
from ..support import operand, shape_of


def _kept(name: str) -> Callable[..., Any]:
    """A primitive that leaves its argument as it is: tapes hold it."""
    fn = getattr(fft, name)
    parameters = inspect.signature(fn)

    @wraps(fn)
    def kept(*args: Any, **kwargs: Any) -> Any:
        given = parameters.bind(*args, **kwargs)
        given.arguments.pop("overwrite_x", None)
        return fn(*given.args, **given.kwargs)

    return patch(fft, name, dispatching(kept))


def _lines(complex: bool) -> Callable[[Sample], Iterable[Case]]:
    def draw(s: Sample) -> Iterable[Case]:
        z = np.complex128 if complex else np.float64
        yield from (case(s(n, dtype=z), norm=norm) for n in (4, 5) for norm in (None, "ortho", "forward"))
        yield from (case(s(4, 3, dtype=z), n, 0) for n in (3, 6, 7))
        yield from (case(s(4, dtype=np.complex64 if complex else np.float32)), case([1.0, 2.0, 4.0]))
        yield from (case(s(5), overwrite_x=True), case(s(2, 4, dtype=z).T, axis=-2, norm="backward", workers=1))

    return draw


def _grids(complex: bool) -> Callable[[Sample], Iterable[Case]]:
    def draw(s: Sample) -> Iterable[Case]:
        z = np.complex128 if complex else np.float64
        yield from (case(s(3, 4, dtype=z)), case(s(4, 3, dtype=z), (2, 5)), case(s(2, 3, 2, dtype=z), norm="ortho"))
        yield from (case(s(3, 2, 4, dtype=z), None, (2, 0), "forward"), case(s(2, 4, dtype=z).T, axes=[1, 0]))
        yield from (case(s(2, 3, dtype=np.complex64 if complex else np.float32)), case(s(0, 3, dtype=z), axes=(1,)))
        yield case(s(2, 3, 3, dtype=z), (2, -1), axes=(0, -1))

    return draw


def _axes(axes: Any, s: Any, x: Any) -> tuple[int, ...]:
    """The axes that are transformed; with ``s`` alone, the last ones."""
    if axes is not None:
        return tuple(map(int, np.atleast_1d(axes)))
    return tuple(range(-(len(shape_of(x)) if s is None else np.size(s)), 0))


# --------------------------------------------------------------------------------- Fourier transforms

fftn, ifftn, rfftn, irfftn = (_kept(name) for name in ("fftn", "ifftn", "rfftn", "irfftn"))


def _whole(fn: Any, other: Any) -> None:
    def formula(dy: Any, y: Any, x: Any, s: Any = None, axes: Any = None, norm: Any = None, *_: Any, **__: Any) -> Any:
        return resized(other(dy, None, _axes(axes, s, x), SWAPPED[norm]), x)

    vjps(fn, formula, cases=_grids(True))


_whole(fftn, ifftn)
_whole(ifftn, fftn)


def _rfftn(dy: Any, y: Any, x: Any, s: Any = None, axes: Any = None, norm: Any = None, *_: Any, **__: Any) -> Any:
    axes = _axes(axes, s, x)
    n = -1 if s is None else int(np.atleast_1d(s)[-1])
    n = shape_of(operand(x))[axes[-1]] if n == -1 else n
    sizes = (*(shape_of(y)[axis] for axis in axes[:-1]), n)
    return resized(irfftn(weighted(dy, n, axes[-1], 0.5), sizes, axes, SWAPPED[norm]), x)


def _irfftn(dy: Any, y: Any, x: Any, s: Any = None, axes: Any = None, norm: Any = None, *_: Any, **__: Any) -> Any:
    axes = _axes(axes, s, x)
    return resized(weighted(rfftn(dy, None, axes, SWAPPED[norm]), shape_of(y)[axes[-1]], axes[-1], 2), x)


vjps(rfftn, _rfftn, cases=_grids(False))
vjps(irfftn, _irfftn, cases=_grids(True))


def _variants(name: str, whole: Callable[..., Any], complex: bool) -> None:
    """The transforms along one axis and along the last two."""
    line, plane = patch(fft, name), patch(fft, f"{name}2")

    @expanded(line, cases=_lines(complex))
    def _line(x: Any, n: Any = None, axis: int = -1, norm: Any = None, *options: Any, **named: Any) -> Any:
        return whole(x, None if n is None else (n,), (axis,), norm, *options, **named)

    @expanded(plane, cases=_grids(complex))
    def _plane(x: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, *options: Any, **named: Any) -> Any:
        return whole(x, s, axes, norm, *options, **named)


def _hfftn(x: Any, s: Any = None, axes: Any = None, norm: Any = None, *options: Any, **named: Any) -> Any:
    """A spectrum that is Hermitian, transformed to what is real."""
    return irfftn(conj(operand(x)), s, axes, SWAPPED[norm], *options, **named)


def _ihfftn(x: Any, s: Any = None, axes: Any = None, norm: Any = None, *options: Any, **named: Any) -> Any:
    return conj(rfftn(x, s, axes, SWAPPED[norm], *options, **named))


expanded(patch(fft, "hfftn"), cases=_grids(True))(_hfftn)
expanded(patch(fft, "ihfftn"), cases=_grids(False))(_ihfftn)
for _name, _fn, _complex in (
    ("fft", fftn, True), ("ifft", ifftn, True), ("rfft", rfftn, False), ("irfft", irfftn, True),
    ("hfft", _hfftn, True), ("ihfft", _ihfftn, False),
):  # fmt: skip
    _variants(_name, _fn, _complex)


# ------------------------------------------------------------------------ cosine and sine transforms
# Orthogonalized, the matrices of types 1 and 4 are symmetric, and those of types 2 and 3 each other's transposes.
# Without that, an element at the ends counts for two: on entry for types 1 and 3, in the result for types 1 and 2.

_TRANSPOSED = {1: 1, 2: 3, 3: 2, 4: 4}


def _real_cases(s: Sample) -> Iterable[Case]:
    for kind in (1, 2, 3, 4):
        yield from (case(s(4), kind), case(s(3), kind, norm="ortho"), case(s(2, 3), kind, norm="forward"))
        yield case(s(3), kind, norm="ortho", orthogonalize=False)
        yield case(s(4), kind, orthogonalize=True)
    yield from (case(s(4)), case(s(3, dtype=np.float32)), case([1.0, 2.0, 4.0]), case(s(3, dtype=complex), 1))


def _real_grids(s: Sample) -> Iterable[Case]:
    yield from (case(s(3, 2), kind, (2, 3)) for kind in (1, 2, 3, 4))
    yield from (case(s(2, 3, 2), 2, None, (2, 0)), case(s(3, 2).T, 3, axes=[0], norm="ortho"), case(s(4), 1))
    yield case(s(2, 2), type=2, norm="ortho", orthogonalize=False)


def _scaled(x: Any, axes: tuple[int, ...], ends: tuple[int, ...], by: float) -> Any:
    """The elements at the ``ends`` of each of the axes times ``by``."""
    ndim = len(shape_of(x))
    for axis in axes:
        n = shape_of(x)[axis]
        factors = np.ones(n, np.float32)  # which promotes nothing
        factors[[*ends]] = by
        x = np.multiply(x, np.reshape(factors, tuple(n if i == axis % ndim else 1 for i in range(ndim))))
    return x


def _real_transform(name: str, end: int) -> None:
    """``dctn`` or ``dstn``, whose element at this end is the special one of types 2 and 3, and those made of it."""
    whole = _kept(name)
    both = (0, -1) if end == 0 else ()

    def formula(
        dy: Any, y: Any, x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None,
        overwrite_x: bool = False, workers: Any = None, *, orthogonalize: Any = None,
    ) -> Any:  # fmt: skip
        axes = _axes(axes, s, x)
        ends = () if type == 4 or (norm == "ortho" if orthogonalize is None else orthogonalize) else (
            both if type == 1 else (end,))  # fmt: skip
        dy = _scaled(dy, axes, ends, 2) if ends and type in (1, 2) else dy
        dx = whole(dy, _TRANSPOSED[type], None, axes, norm, orthogonalize=orthogonalize)
        return resized(_scaled(dx, axes, ends, 0.5) if ends and type in (1, 3) else dx, x)

    vjps(whole, formula, cases=_real_grids)

    def inverse(
        x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *options: Any, **named: Any
    ) -> Any:
        return whole(x, _TRANSPOSED[type], s, axes, SWAPPED[norm], *options[:2],
                     **({"orthogonalize": options[2]} if len(options) > 2 else {}), **named)  # fmt: skip

    expanded(patch(fft, f"i{name}"), cases=_real_grids)(inverse)
    for line, on_axes in ((name[:-1], whole), (f"i{name[:-1]}", inverse)):
        _line(line, on_axes)


def _line(name: str, on_axes: Callable[..., Any]) -> None:
    @expanded(patch(fft, name), cases=lambda s: [*_real_cases(s), case(s(4, 2), 2, 5, 0), case(s(2, 4), 3, 3)])
    def body(
        x: Any, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None, overwrite_x: bool = False,
        workers: Any = None, orthogonalize: Any = None,
    ) -> Any:  # fmt: skip
        size = None if n is None else (n,)
        return on_axes(x, type, size, (axis,), norm, overwrite_x, workers, orthogonalize=orthogonalize)


_real_transform("dctn", 0)
_real_transform("dstn", -1)


# -------------------------------------------------------------------------------------------- helpers


def _hankel(name: str) -> None:
    """The matrix is a circulant one with its columns in reverse order, between two equal diagonal ones: symmetric."""
    fn = patch(fft, name)
    vjps(fn, lambda dy, y, a, dln, mu, offset=0.0, bias=0.0: fn(dy, dln, mu, offset, bias), MISSING, MISSING, MISSING,
         MISSING, cases=lambda s: [
        case(s(4), dln=0.3, mu=1), case(s(5), dln=0.2, mu=0, offset=0.1),
        case([1.0, 2.0, 0.5], dln=0.25, mu=1.5, bias=-0.3),
        case(s(2, 4), dln=0.3, mu=2, offset=0.1, bias=0.2),
    ])  # fmt: skip


_hankel("fht")
_hankel("ifht")


def _shift(name: str) -> None:
    @expanded(patch(fft, name), cases=lambda s: [case(s(4)), case(s(2, 3), 1), case(s(3, 2), axes=(0,)), case(s(5))])
    def body(x: Any, axes: Any = None) -> Any:
        return getattr(np.fft, name)(x, axes)


_shift("fftshift")
_shift("ifftshift")


for _name in ("fftfreq", "rfftfreq"):
    patch(fft, _name, frequencies(getattr(fft, _name)))
