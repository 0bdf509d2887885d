"""NumPy as it is typed: transforms, polynomials, quantiles, windows, histograms; compiled, and for other inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
from numpy.fft import rfft
from numpy.lib.stride_tricks import as_strided
from numpy.polynomial import Chebyshev, Polynomial
from numpy.polynomial import polynomial as series
from scipy.fft import dct, fftshift, idct

from yota_py import grad, gradient, jit, value_and_grad
from yota_py.errors import MissingRuleError

RNG = np.random.default_rng(7)
V, U = RNG.uniform(0.3, 2.0, 5), RNG.uniform(0.3, 2.0, 5)
A, Z = RNG.uniform(0.3, 2.0, (3, 4)), np.array([0.3, -1.2, 0.7, 1.9, -0.4])
GAPS = np.where(np.array([[1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]], bool), A, np.nan)
MASK = np.array([False, True, False, False, True])
squares = np.vectorize(lambda t: t * t)
LINE = Polynomial([1.0, -2.0, 0.5])
spectrum = np.fft.fft


def _parts(y: Any) -> list[Any]:
    return [part for item in y for part in _parts(item)] if isinstance(y, tuple | list) else [y]


def _loss(f: Callable[..., Any]) -> Callable[..., Any]:
    """A number that all parts of a result count in."""

    def loss(*args: Any) -> Any:
        total: Any = 0.0
        for k, y in enumerate(_parts(f(*args))):
            weights = np.reshape(np.cos(1.0 + k + np.arange(np.size(y))), np.shape(y))
            total = total + np.sum(weights * np.real(y)) + np.sum((weights + 0.3) * np.imag(y))
        return total

    return loss


def _padded(vector: Any, width: Any, axis: int, options: Any) -> None:
    vector[: width[0]] = 10.0
    vector[-width[1] :] = vector[-width[1] - 1]


def _shared(x: Any) -> Any:
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    return values * counts + x[first], values[inverse] * x


PROGRAMS: dict[str, tuple[Any, ...]] = {
    "low pass": (lambda x: np.fft.irfft(rfft(x) * np.exp(-np.fft.rfftfreq(5)), 5), V),
    "an alias": (lambda x: np.abs(spectrum(x, 8, norm="ortho")) ** 2, V),
    "a list": (lambda a, b: np.fft.fft([a, b, a * b]), 0.5, 0.3),
    "of complex numbers": (lambda x, y: np.fft.ifftn(np.fft.fft2(np.outer(x + 1j * y, y))), V, U),
    "out=": (lambda x: np.fft.fft(x, out=np.zeros(5, complex)), V),
    "centred": (lambda x: fftshift(scipy.fft.fft(x)) * scipy.fft.fftfreq(5, 0.1), V),
    "compressed": (lambda x: idct(dct(x, norm="ortho") * (np.arange(5) < 3), norm="ortho"), V),
    "a step of frequency": (lambda d: np.fft.fftfreq(5, d), 0.5),
    "smoothed": (lambda x, y: np.convolve(x, y[:3], "same") + np.correlate(x, y[:3], mode="same"), V, U),
    "slopes": (lambda x, y: np.gradient(x, np.cumsum(y), edge_order=2), V, U),
    "uniform places": (lambda x, h: np.gradient(x, h * np.arange(5.0)), V, 0.5),
    "covariances": (lambda a: (np.cov(a), np.corrcoef(a, rowvar=False), np.cov(a, aweights=[1.0, 2.0, 1.0, 0.5])), A),
    "chosen": (lambda x, y: np.select([x < 1, x > 1.5], [y, x * x], 0.5) + np.choose([0, 1, 1, 0, 1], [x, y]), V, U),
    "by pieces": (lambda x, c: np.piecewise(x, [x < 1, x >= 1], [lambda t: t * c, np.sqrt]), V, 2.0),
    "vectorized": (lambda x, c: squares(x) + np.vectorize(lambda t: math.exp(t) if t > 1 else c * t)(x), V, 0.7),
    "along an axis": (lambda a, c: np.apply_along_axis(lambda row: row * row.sum() * c, 1, a), A, 2.0),
    "windows": (lambda x: as_strided(x, shape=(3, 3), strides=x.strides * 2).mean(axis=1), V),
    "of a function": (lambda x: np.fromfunction(lambda i, j: x[i] * x[j] + i, (5, 5), dtype=int), V),
    "indices": (lambda a: a[np.triu_indices(3, 1)] * a[np.ix_([0, 1], [2, 0])][0, 0] + a[np.diag_indices(3)], A),
    "positions": (lambda x: x[np.nonzero(x > 1)[0]] * np.nonzero(x > 1)[0], V),
    "unique": (_shared, V),
    "histograms": (lambda w: np.histogram([1, 4, 5, 7, 9], 3, weights=w)[0] * np.bincount([0, 2, 1, 0, 2], w), V),
    "densities": (lambda x: np.histogram(x, 3, density=True), V),
    "quantiles": (lambda a, q: (np.quantile(a, q, axis=1, method="hazen"), np.nanpercentile(a, [20, 80])), A, 0.4),
    "gaps": (lambda a: (np.nanmedian(a, axis=1), np.nanquantile(a, 0.3), np.nanprod(a), np.nancumsum(a, 1)), GAPS),
    "ramps": (lambda a, e: np.pad(a, ((1, 2), (2, 1)), "linear_ramp", end_values=e), A, 1.5),
    "statistics around": (lambda a: np.pad(a, 2, "mean", stat_length=2), A),
    "odd reflections": (lambda a: np.pad(a, 2, "reflect", reflect_type="odd"), A),
    "medians around": (lambda a: (np.pad(a, 1, "median"), np.pad(a, 1, "maximum"), np.pad(a, 1, "minimum")), A),
    "a function around": (lambda a: np.pad(a, 2, _padded), A),
    "a period": (lambda x, p: np.interp(x * 9, [0.0, 0.4, 0.9, 1.7], x[:4], period=p), V, 2.0),
    "inserted": (lambda x, y: np.insert(x, [1, 3], y[:2]) * np.resize(y, 7), V, U),
    "powers": (lambda a, b: (np.logspace(a, b, 4, base=3.0), np.geomspace(a, b, 4)), 0.5, 1.5),
    "a step": (lambda a, b: np.linspace(a, b, 4, retstep=True), 0.5, 1.5),
    "unwrapped": (lambda x: np.unwrap(x * 5) + np.ediff1d(x, to_begin=x[0]), V),
    "a fit": (lambda x, y: np.polyval(np.polyfit(x, y, 2), 0.5) + np.poly1d(np.polyfit(x, y, 1))(3.0), V, U),
    "products": (lambda x, y: np.polymul(x, y) + (np.poly1d(x) * np.poly1d(y)).coeffs, V, U),
    "roots": (lambda c: np.roots(c), np.array([1.0, -6.0, 11.0, -6.0])),
    "series": (lambda c, x: (Chebyshev(c).deriv()(x), series.polyval(x, c), (Polynomial(c) ** 2 - 1)(x)), V, Z),
    "complex roots of reals": (lambda x: (np.emath.sqrt(x), np.emath.log(x), np.emath.arccos(2 * x)), Z),
    "numbers": (lambda x, y: math.frexp(x)[0] * math.remainder(x, y) + math.nextafter(x, 9) * np.frexp(y)[0], 5.3, 0.7),
    "masked": (lambda x: np.ma.masked_where(MASK, x).mean() + (np.ma.array(x, mask=MASK) * 2 - 1).compressed(), V),
    "masked rows": (lambda a: np.ma.masked_greater(a, 1.0).std(axis=0, ddof=1).filled(0.0), A),
    "masked by their domain": (lambda x: np.ma.log(x - 1).sum() + np.ma.masked_invalid(np.log(x - 1)).filled(0.0), V),
    "weights of masked": (lambda x, w: np.ma.average(np.ma.masked_less(x, 1.0), weights=w), V, U),
    "a path": (lambda a: np.einsum("ij,kj,kl->", a, a, a, optimize=np.einsum_path("ij,kj,kl->", a, a, a)[0]), A),
    "cumulative": (lambda a: (np.cumulative_sum(a, axis=1, include_initial=True), np.unstack(a)), A),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_programs_are_right_for_other_inputs(name: str) -> None:
    f, *args = PROGRAMS[name]
    loss = _loss(f)
    with np.errstate(all="ignore"):
        grad.compile(loss, *args)
    for scale in (1.0, 1.013, 0.99):
        given = [x * scale for x in args]
        with np.errstate(all="ignore"):
            value, slopes = grad(loss, *given)
            fresh = grad(_loss(f), *given)
            np.testing.assert_allclose(value, loss(*given), rtol=1e-10)
            for i, (x, slope) in enumerate(zip(given, slopes, strict=True)):
                np.testing.assert_allclose(slope, fresh[1][i], rtol=1e-8, atol=1e-10)
                v = np.asarray(np.cos(3.0 + np.arange(np.size(x)))).reshape(np.shape(x))
                v = float(v) if isinstance(x, float) else v

                def at(h: float, i: int = i, x: Any = x, v: Any = v, given: list[Any] = given) -> Any:
                    return loss(*given[:i], x + h * v, *given[i + 1 :])

                h = 1e-5
                finite = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
                np.testing.assert_allclose(np.sum(slope * v), finite, rtol=1e-5, atol=1e-7)


def test_two_transforms_one_after_the_other() -> None:
    for f in (np.fft.fft, np.fft.ifft, np.fft.fft):
        value, (slope,) = grad(_loss(f), V)
        np.testing.assert_allclose(slope, gradient(_loss(lambda x, f=f: f(x)))(V))
        np.testing.assert_allclose(value, _loss(f)(V))


def test_single_precision_and_memory_stay() -> None:
    x = V.astype(np.float32)
    x.flags.writeable = False
    for f in (np.fft.rfft, scipy.fft.dct, np.median, np.gradient, lambda t: np.quantile(t, np.float32(0.4))):
        assert gradient(_loss(f))(x).dtype == np.float32
    strided = np.asfortranarray(np.stack([V, U]))[:, ::-1]
    want = gradient(_loss(np.fft.fft2))(strided.copy())
    np.testing.assert_allclose(gradient(_loss(np.fft.fft2))(strided), want)


def test_ties_share() -> None:
    x = np.array([1.0, 2.0, 2.0, 3.0])
    for method in ("lower", "hazen", "nearest", "inverted_cdf"):
        np.testing.assert_allclose(gradient(lambda t, m=method: np.quantile(t, 0.5, method=m))(x), [0, 0.5, 0.5, 0])
    weighted = gradient(lambda t: np.quantile(t, 0.5, weights=[1.0, 1, 1, 1], method="inverted_cdf"))(x)
    np.testing.assert_allclose(weighted, [0, 0.5, 0.5, 0])


def test_sets_of_equal_numbers() -> None:
    x, y = np.array([1.0, 2.0, 1.0, 3.0]), np.array([2.0, 3.0, 7.0])
    for f in (np.union1d, np.setdiff1d, np.setxor1d, np.intersect1d):
        value, _ = value_and_grad(lambda a, b, f=f: np.sum(f(a, b) ** 2))(x, y)
        np.testing.assert_array_equal(value, np.sum(f(x, y) ** 2))
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 5.0]])
    step = jit(lambda a: np.unique(a, axis=0, return_inverse=True, return_counts=True))
    for have, want in zip(step(rows), np.unique(rows, axis=0, return_inverse=True, return_counts=True), strict=True):
        np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(gradient(lambda a: np.sum(np.trim_zeros(a)))(np.array([0.0, 1.0, 0.0])), [0, 1, 0])


def test_second_derivatives() -> None:
    turns = np.exp(-2j * np.pi / 5 * np.outer(np.arange(3), np.arange(5)))

    def curved(f: Callable[..., Any]) -> Any:
        slope = gradient(lambda t: np.sum(np.abs(f(t)) ** 4))
        return gradient(lambda x: np.sum(slope(x) ** 2))(V)

    np.testing.assert_allclose(curved(np.fft.rfft), curved(lambda t: turns @ t))


def test_what_objects_hold_is_read_again() -> None:
    line = Polynomial([1.0, 2.0, 3.0])
    for first in (1.0, 10.0, -2.0, -2.0):
        line.coef[0] = first
        np.testing.assert_allclose(grad(lambda x: np.sum(line(x)), V)[0], np.sum(line(V)))
        np.testing.assert_allclose(grad(lambda x: np.sum(LINE(x) * x), V)[0], np.sum(LINE(V) * V))


def test_bad_arguments_raise_what_numpy_raises() -> None:
    for f in (
        lambda x: np.fft.fft(x, axis=3), lambda x: np.fft.fft2(x), lambda x: np.gradient(x, edge_order=3),
        lambda x: np.select([x], [x]), lambda x: np.quantile(x, 1.5), lambda x: np.choose([5], [x, x]),
        lambda x: np.interp(x, x, x, period=0.0), lambda x: np.polyfit(x, x, -1), lambda x: np.convolve(x, x[:0]),
        lambda x: np.vectorize(lambda t: t)(x[:0]), lambda x: np.logspace(x, x[:2]),
    ):  # fmt: skip
        with pytest.raises(Exception) as plain:
            f(V)
        with pytest.raises(type(plain.value)):
            grad(_loss(f), V)
    with pytest.raises(MissingRuleError, match="as_strided"):
        grad(lambda x: np.sum(as_strided(x, (9,), (8,))), V)


def test_transforms_leave_their_arguments_as_they_are() -> None:
    for name in ("fft", "dct", "idct", "dst", "dctn", "ifftn"):
        x = np.array([1.0, 2.0, 4.0])
        transform = getattr(scipy.fft, name)

        def f(x: Any, transform: Any = transform) -> Any:
            return np.sum(np.abs(transform(x, overwrite_x=True)) ** 2)

        for _ in range(3):
            value, slopes = grad(f, x)[0], grad(f, x)[1][0]
            np.testing.assert_array_equal(x, [1.0, 2.0, 4.0])
            np.testing.assert_allclose(value, f(x.copy()), rtol=1e-12)
            np.testing.assert_allclose(np.sum(slopes * x), 2 * value, rtol=1e-12)
