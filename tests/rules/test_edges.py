"""Rules at points and with options where formulas have zeros over zeros, poles, cuts or edges of their own."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from scipy import interpolate, ndimage, sparse, special, stats
from scipy.spatial.transform import Rotation

from yota_py import MissingRuleError, grad, gradient, hessian, hvp, jit, value_and_grad


def differences(f: Callable[[Any], Any], x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The gradient by central differences, of real and imaginary parts."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
            e = np.zeros_like(x)
            e[i] = unit * step
            out[i] += unit * (f(x + e) - f(x - e)) / (2 * step)
    return out


def agree(f: Callable[[Any], Any], x: np.ndarray, tolerance: float = 1e-6) -> None:
    for _ in range(2):
        y, (dx,) = grad(f, x)
        assert y == pytest.approx(f(x), rel=1e-12)
        assert_allclose(dx, differences(f, x), atol=tolerance)


# ---------------------------------------------------------------------------- singular values that are cut off


def matrix(m: int, n: int, dtype: Any = float) -> np.ndarray:
    """With singular values 3, 2, 0.5 and 0.4."""
    rng = np.random.default_rng(m + 5 * n)

    def drawn(*shape: int) -> np.ndarray:
        return np.asarray(rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype is complex else 0.0))

    k = min(m, n)
    left, right = (np.linalg.qr(drawn(size, k))[0] for size in (m, n))
    return np.asarray(left * np.array([3.0, 2.0, 0.5, 0.4])[:k] @ right.conj().T)


B = np.array([1.0, -2.0, 0.5, 3.0])
CUTS: dict[str, Callable[[Any], Any]] = {
    "numpy.pinv": lambda a: np.linalg.pinv(a, rcond=0.3),
    "numpy.pinv, rtol": lambda a: np.linalg.pinv(a, rtol=0.3),
    "scipy.pinv, rtol": lambda a: scipy.linalg.pinv(a, rtol=0.3),
    "scipy.pinv, atol": lambda a: scipy.linalg.pinv(a, atol=0.7),
    "numpy.lstsq": lambda a: np.linalg.lstsq(a, B[: len(a)], rcond=0.3)[0],
    "scipy.lstsq": lambda a: scipy.linalg.lstsq(a, B[: len(a)], cond=0.3)[0],
    "null_space": lambda a: (n := scipy.linalg.null_space(a, rcond=0.3)) @ n.conj().T,
}


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4), (4, 4)])
@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("name", CUTS)
def test_cut_singular_values(name: str, shape: tuple[int, int], dtype: Any) -> None:
    a = matrix(*shape, dtype)
    weights = np.cos(np.arange(np.size(CUTS[name](a)))).reshape(np.shape(CUTS[name](a))) * (1 + 0.5j)
    agree(lambda a: np.sum(np.real(weights * CUTS[name](a))), a)


@pytest.mark.parametrize("f", [
    lambda a: np.linalg.pinv(a, rcond=0.3, hermitian=True), lambda a: scipy.linalg.pinvh(a, atol=0.7),
])  # fmt: skip
def test_cut_eigenvalues(f: Callable[[Any], Any]) -> None:
    q = np.linalg.qr(matrix(4, 4))[0]
    weights = np.cos(np.arange(16.0)).reshape(4, 4)
    agree(lambda a: np.sum(weights * f((a + a.T) / 2)), q * np.array([3.0, -2.0, 0.5, -0.4]) @ q.T)


def test_a_second_derivative_behind_a_cut() -> None:
    a, v = matrix(3, 3), np.cos(np.arange(9.0)).reshape(3, 3)
    f = gradient(lambda a: np.sum(v * np.linalg.pinv(a, rcond=0.3)))
    want = (f(a + 1e-5 * v) - f(a - 1e-5 * v)) / 2e-5
    assert_allclose(hvp(lambda a: np.sum(v * np.linalg.pinv(a, rcond=0.3)))(a, v), want, atol=1e-7)


@pytest.mark.parametrize("f", [
    np.linalg.pinv, lambda a, limit: scipy.linalg.pinv(a, rtol=limit),
    lambda a, limit: np.linalg.lstsq(a, B[:3], limit)[0],
])  # fmt: skip
@pytest.mark.usefixtures("every_policy")
def test_a_limit_that_varies(f: Callable[[Any, Any], Any]) -> None:
    """Programs hold for limits that cut nothing off, and for those that do."""
    a = matrix(3, 3)
    df = value_and_grad(lambda a, limit: np.sum(f(a, limit) ** 2))
    for limit in (1e-12, 1e-9, 0.0, 0.3, 0.25, 1e-10):
        y, da = df(a, limit)
        assert y == pytest.approx(np.sum(f(a, limit) ** 2))
        assert_allclose(da, differences(lambda a, limit=limit: np.sum(f(a, limit) ** 2), a), atol=1e-5)


def test_a_cut_by_pivots_has_no_rule() -> None:
    with pytest.raises(MissingRuleError, match="gelsd"):
        grad(lambda a: np.sum(scipy.linalg.lstsq(a, B[:3], cond=0.3, lapack_driver="gelsy")[0]), matrix(3, 3))


# ------------------------------------------------------------------------------------------------------ edges


@pytest.mark.parametrize("prefilter", [True, False])
@pytest.mark.parametrize("mode", ["nearest", "reflect", "mirror", "grid-wrap", "constant", "grid-constant"])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_samples_beyond_the_edges(order: int, mode: str, prefilter: bool) -> None:
    x, points = np.array([0.2, 1.0, -0.5, 0.7, 0.4, 2.0]), np.array([-40.3, -0.3, -1.7, 2.4, 5.2, 6.8, 50.2])
    weights = np.array([1.0, 2.0, 0.5, -1.0, 3.0, 0.7, -2.0])

    def f(x: Any, points: Any) -> Any:
        y = ndimage.map_coordinates(x, [points], order=order, mode=mode, prefilter=prefilter)
        return np.sum(weights * y)

    agree(lambda x: f(x, points), x)
    agree(lambda p: f(x, p), points, 1e-5)


@pytest.mark.parametrize("k", [0, 1, 2, 3])
@pytest.mark.parametrize("x", [-1.0, 0.0, 1.0, 2.5, 4.0, 4.5])
def test_splines_at_their_ends(k: int, x: float) -> None:
    agree(lambda y: np.sum(interpolate.make_interp_spline(np.arange(5.0), y, k=k)(x)), np.array([1.0, 2.0, 3, 4, 7]))


FOOTPRINT = np.array([[1, 0], [1, 1]])


@pytest.mark.parametrize("name", [
    "maximum_filter", "median_filter", "grey_dilation", "grey_closing", "white_tophat", "morphological_laplace",
])  # fmt: skip
def test_second_derivatives_of_footprints(name: str) -> None:
    x, v = np.arange(12.0).reshape(3, 4) ** 2, np.ones((3, 4))
    f = lambda x: np.sum(getattr(ndimage, name)(x, footprint=FOOTPRINT) ** 2)  # noqa: E731
    df = gradient(f)
    assert_allclose(hvp(f)(x, v), (df(x + 1e-3 * v) - df(x - 1e-3 * v)) / 2e-3, atol=1e-6)


# ------------------------------------------------------------------------------------------------ zeros and poles

FIRST: dict[str, tuple[Callable[[float], float], float, float]] = {
    "boxcox": (lambda p: special.boxcox(0.0, p), 2.0, 0.25),
    "boxcox1p": (lambda p: special.boxcox1p(-1.0, p), 2.0, 0.25),
    "powm1": (lambda x: special.powm1(x, 0.0), 0.0, 0.0),
    "agm": (lambda x: special.agm(0.0, x), 2.0, 0.0),
    "struve": (lambda x: special.struve(-1, x), 0.0, 0.0),
    "modstruve": (lambda x: special.modstruve(-1, x), 0.7, float(0.5 * (special.modstruve(0, 0.7) + special.modstruve(
        2, 0.7) + 0.35 / (np.sqrt(np.pi) * special.gamma(2.5))))),
    "nctdtr": (lambda t: special.nctdtr(2.0, 2.0, t), np.inf, 0.0),
    "nctdtr, far": (lambda t: special.nctdtr(2.0, 2.0, t), 1e6, 9.988e-18),
}  # fmt: skip
SECOND: dict[str, tuple[Callable[[float], float], float, float]] = {
    "poch 2": (lambda x: special.poch(x, 2.0), 0.0, 2.0),
    "poch 3": (lambda x: special.poch(x, 3.0), -1.0, 0.0),
    "binom at 0": (lambda x: special.binom(x, 3), 0.0, -1.0),
    "binom at 1": (lambda x: special.binom(x, 3), 1.0, 0.0),
    "binom at 2": (lambda n: special.binom(n, 3.0), 2.0, 1.0),
    "struve": (lambda x: special.struve(0, x), 0.0, 0.0),
    "pearson3": (lambda k: stats.pearson3.pdf(0.7, k), 0.0, 0.042643),
    "pearson3, near": (lambda k: stats.pearson3.pdf(0.7, k), 1e-3, 0.042604),
    "pearson3.cdf": (lambda k: stats.pearson3.cdf(0.7, k), 0.0, 0.0057979),
    "pearson3.cdf, near": (lambda k: stats.pearson3.cdf(0.7, k), 1e-3, 0.00579),
}


@pytest.mark.parametrize("name", FIRST)
def test_slopes(name: str) -> None:
    f, x, want = FIRST[name]
    for _ in range(2):
        assert gradient(f)(x) == pytest.approx(want, rel=1e-3, abs=1e-30)


@pytest.mark.parametrize("name", SECOND)
def test_curvatures(name: str) -> None:
    f, x, want = SECOND[name]
    for _ in range(2):
        assert hessian(f)(x) == pytest.approx(want, rel=2e-3, abs=1e-12)


@pytest.mark.parametrize("f", [
    lambda x: special.hyp1f1(1, 0, x), lambda x: special.hyp2f1(1.0, 1.0, 0.0, x), lambda x: special.stdtr(0, x),
    lambda x: special.fdtr(2.0, 2.0, x - 2), lambda x: special.fdtrc(2.0, x - 2, 1.0),
    lambda x: special.ncfdtr(2.0, 2.0, 2.0, x - 2), lambda x: special.nctdtrit(2.0, 0.5, x - 2),
    lambda x: special.nctdtr(2.0, 2.0, x * np.nan), lambda x: special.modstruve(2.0, x * 1e300),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_outside_of_a_domain_there_is_no_error(f: Callable[[Any], Any]) -> None:
    for x in (0.5, np.array(0.5)):
        assert np.shape(gradient(f)(x)) == ()


@pytest.mark.parametrize("z, want", [(-1 - 3j, 549.727 + 172.478j), (0.4 + 5j, 1419.03 - 2332.20j)])
def test_the_reciprocal_gamma_function_of_complex_numbers(z: complex, want: complex) -> None:
    assert grad(special.rgamma, z, seed=1.0)[1][0] == pytest.approx(want, rel=1e-5)


MIXED: dict[str, tuple[Callable[[Any], float], tuple[float, float], float]] = {
    "t.cdf at its centre": (lambda v: stats.t.cdf(1.0, v[0], v[1]), (3.0, 1.0), -0.0097330),
    "stdtr": (lambda v: special.stdtr(v[0], v[1]), (3.0, 0.0), 0.0097330),
    "stdtrit": (lambda v: special.stdtrit(v[0], v[1]), (3.0, 0.5), -0.072046),
    "powm1": (lambda v: special.powm1(v[0], v[1]), (2.0, 0.0), 0.5),
    "poch": (lambda v: special.poch(v[0], v[1]), (-1.0, 0.5), 0.1293536),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_derivatives(name: str) -> None:
    f, at, want = MIXED[name]
    for _ in range(2):
        have = hessian(f)(np.array(at))
        assert_allclose([have[0, 1], have[1, 0]], want, rtol=1e-4)


@pytest.mark.parametrize("name", ["pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"])
def test_infinite_degrees_of_freedom(name: str) -> None:
    for x in (0.4, 0.1, 0.5):
        have = gradient(lambda x: getattr(stats.t, name)(x, np.inf))(x)
        assert have == pytest.approx(gradient(lambda x: getattr(stats.norm, name)(x))(x), abs=1e-12)


def test_noncentral_chi_square() -> None:
    """Outside of its support, and where it is central."""
    f = lambda loc: np.sum(stats.ncx2.pdf(np.array([1.0, 2.0, 5.0]), 3.0, 1.5, loc))  # noqa: E731
    agree(f, np.array(1.5))
    assert gradient(lambda x: stats.ncx2.pdf(x, 3.0, 1.5))(-1.0) == 0
    assert hessian(lambda x: stats.ncx2.cdf(x, 3.0, 1.5))(-1.0) == 0
    agree(lambda x: stats.ncx2.pdf(x, 3.0, 0.0), np.array(2.0))
    want = (stats.ncx2.logpdf(2.0, 3.0, 1e-5) - stats.chi2.logpdf(2.0, 3.0)) / 1e-5
    assert gradient(lambda nc: stats.ncx2.logpdf(2.0, 3.0, nc))(0.0) == pytest.approx(want, rel=1e-3)
    assert hessian(lambda x: stats.pearson3.pdf(x, 0.1))(-20.5) == 0


def test_the_last_probability_is_what_the_others_leave() -> None:
    for p in (np.array([0.25, 0.5, 0.25]), np.array([0.25, 0.5, 0.2])):
        agree(lambda p: stats.multinomial.logpmf([1, 2, 3], 6, p), p, 1e-5)


def test_entropies_of_arrays_of_parameters() -> None:
    agree(lambda s: np.sum(stats.t.entropy(np.array([3.0, 4.0]), 0.0, s)), np.array(2.0))
    agree(lambda p: np.sum(stats.binom.entropy(5, p)), np.array([0.3, 0.4, 0.1, 0.6, 0.7, 0.2]))
    agree(lambda p: np.sum(stats.binom.entropy(np.array([5, 6]), p)), np.array(0.3))


# ----------------------------------------------------------------------------------------------------- others


def test_powers_of_long_doubles() -> None:
    x = np.array([-0.0, -np.inf, 4.0], np.longdouble)
    with np.errstate(all="ignore"):
        for f in (lambda x: x**0.5, lambda x: x**-1.0, lambda x: (x + 0j) ** -1.0, lambda x: (x + 0j) ** -1):
            have, want = jit(f)(x), f(x)
            assert have.dtype == want.dtype
            assert np.array_equal(have, want, equal_nan=True)
            assert np.array_equal(np.signbit(have.real), np.signbit(want.real))


def test_the_bessel_function_of_long_doubles() -> None:
    x = np.array([1.0, 2.0], np.longdouble)
    y, (dx,) = grad(lambda x: np.sum(np.i0(x)), x)
    assert y.dtype == dx.dtype == np.longdouble
    assert_allclose(dx, special.i1([1.0, 2.0]))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["ptp", "anom"])
def test_methods_of_masked_arrays(name: str, axis: int | None) -> None:
    mask = np.array([[False, True, False], [False, False, True]])
    f = lambda x: np.sum(getattr(np.ma.masked_array(x, mask), name)(axis=axis) ** 2)  # noqa: E731
    agree(f, np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 7.0]]), 1e-5)


# ------------------------------------------------------------------------------------------ singular covariances


@pytest.mark.usefixtures("every_policy")
def test_normal_densities_in_a_subspace() -> None:
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    cov, mean = q @ np.diag([3.0, 2.0, 1.0, 0.0]) @ q.T, np.zeros(4)
    normal, t, frozen = stats.multivariate_normal, stats.multivariate_t, stats.multivariate_normal(mean, cov, True)
    x, beside = q @ np.array([1.0, 2.0, 3.0, 0.0]), q @ np.array([1.0, 2.0, 3.0, 1.0])
    for f in (lambda x: normal.logpdf(x, mean, cov, allow_singular=True), frozen.logpdf,
              lambda x: normal(mean, cov, allow_singular=True).logpdf(x)):  # fmt: skip
        df = value_and_grad(f)
        for k in (1.0, 2.0, -0.5):
            y, dx = df(k * x)
            assert y == pytest.approx(f(k * x))
            assert_allclose(dx, -np.linalg.pinv(cov) @ x * k, rtol=1e-10)
        assert df(beside)[0] == -np.inf and frozen.pdf(beside) == 0.0
    whole = cov + np.eye(4)
    for f in (lambda s: normal.logpdf(x, s * mean, s * whole, allow_singular=True),
              lambda s: normal(mean, s * whole, allow_singular=True).pdf(x),
              lambda s: t(mean, s * whole, 3, allow_singular=True).logpdf(x),
              lambda s: t.pdf(x, mean, s * whole, 3, allow_singular=True)):  # fmt: skip
        agree(f, np.array(1.0), 1e-8)


# ---------------------------------------------------------------------------------- zeros among what is summed up


@pytest.mark.parametrize("others", [(), (np.ones(3),), (np.array([0.0, 1.0, 2.0]),)])
def test_entropy_of_a_zero(others: tuple[Any, ...]) -> None:
    """Its own slope may be infinite; those of the others are not."""

    def f(t: Any) -> Any:
        return stats.entropy(np.array([0.0, t, 2.0]), *others)

    agree(f, np.array(1.0))
    assert_allclose(hessian(f)(1.0), (gradient(f)(1.0 + 1e-6) - gradient(f)(1.0 - 1e-6)) / 2e-6, rtol=1e-6)
    rows = gradient(lambda a: np.sum(stats.entropy(a, axis=1, base=2)))(np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]]))
    assert rows[0, 0] == np.inf and np.all(np.isfinite(rows[0, 1:]))
    assert_allclose(rows[1], 0, atol=1e-15)


@pytest.mark.parametrize("ord", [1.2, 1.5, 1.9, 3, 2.5])
def test_second_derivatives_of_norms_beside_a_zero(ord: float) -> None:
    x = np.array([3.0, 0.0, -4.0])
    have = hessian(lambda x: np.linalg.norm(x, ord))(x)
    assert_allclose(have, have.T)
    for i in (0, 2):
        e = 1e-6 * np.eye(3)[i]
        df = gradient(lambda x: np.linalg.norm(x, ord))
        assert_allclose(have[i], (df(x + e) - df(x - e)) / 2e-6, atol=1e-8)


@pytest.mark.parametrize("size", [1e-120, 1e-3, 1e120])
@pytest.mark.parametrize("ord", [-2, -1.5, 0.5, 1.5, 2.5])
def test_norms_of_small_and_large_numbers(ord: float, size: float) -> None:
    """Slopes do not depend on the size."""
    x = np.array([3.0, 1.0, -4.0])
    want = gradient(lambda x: np.linalg.norm(x, ord))(x)
    assert_allclose(gradient(lambda x: np.linalg.norm(x, ord))(size * x), want)


@pytest.mark.parametrize("x", [np.full(3, 0.1), np.full(7, 1.1), np.full((2, 3), 1e5 / 3)])
def test_deviations_of_equal_numbers(x: np.ndarray) -> None:
    """Rounding of the mean gives them some in NumPy."""
    for f in (np.std, np.nanstd, lambda x: np.sum(stats.sem(x, axis=-1)), lambda x: np.sum(np.std(x, axis=-1, ddof=1)),
              lambda x: np.sum(np.std(x, axis=0, keepdims=True))):  # fmt: skip
        assert_allclose(gradient(f)(x), 0, atol=1e-15)
        assert_allclose(hessian(f)(x), 0, atol=1e-15)
    mixed = np.array([[0.1, 0.1, 0.1], [1.0, 2.0, 4.0]])
    agree(lambda s: np.sum(np.std(mixed + s * np.array([[0.0], [1.0]]) * mixed, axis=1)), np.array(1.0))


def test_spence_near_zero() -> None:
    for z in (1e-300, 1e-17, 1e-8, 0.2, 0.25, 0.3, 1.0, 7.0):
        want = -1.0 if z == 1 else np.log(z) / (1 - z)
        assert gradient(special.spence)(z) == pytest.approx(want, rel=1e-13)
    assert gradient(gradient(special.spence))(1e-17) == pytest.approx(1e17)


def test_angles_of_large_numbers() -> None:
    for f in (np.angle, cmath.phase):
        y, (dz,) = grad(f, 1e155 + 1e155j)
        assert y == pytest.approx(np.pi / 4) and abs(dz) < 1e-150


# -------------------------------------------------------------------------------------------------------- others


def test_means_of_rotations() -> None:
    """Also of one or two, whose other eigenvalues are equal."""
    one = np.array([[0.3, -0.5, 0.4]])
    rows = hessian(lambda v: Rotation.from_rotvec(v).mean().as_rotvec()[0])(one)
    assert_allclose(rows, 0, atol=1e-12)
    for u in (np.array([[0.3, -0.5, 0.4], [0.6, 0.0, 0.1]]), np.array([[0.3, -0.5, 0.4], [0.3, -0.5, 0.4]])):
        df = gradient(lambda u: Rotation.from_rotvec(u).mean(weights=[1.0, 2.0]).magnitude())
        have = hessian(lambda u: Rotation.from_rotvec(u).mean(weights=[1.0, 2.0]).magnitude())(u)
        e = np.zeros((2, 3))
        e[0, 1] = 1e-5
        assert_allclose(have[0, 1], (df(u + e) - df(u - e)) / 2e-5, atol=1e-8)
        agree(lambda u: Rotation.from_rotvec(u).mean().magnitude(), u)


def test_numbers_of_pythons_as_frozen_parameters() -> None:
    want = gradient(lambda k: stats.tukeylambda.pdf(0.7, k))(np.float64(0.0))
    assert gradient(lambda k: stats.tukeylambda(k).pdf(0.7))(0.0) == want


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_welchs_p_value(alternative: str) -> None:
    y = np.array([1.0, 2.0, 4.0])
    x = np.array([1.0, 3.0, 2.0, 5.0])
    agree(lambda x: stats.ttest_ind(x, y, equal_var=False, alternative=alternative).pvalue, x)


def test_sparse_vectors() -> None:
    b = np.arange(1.0, 5.0)
    assert_allclose(gradient(lambda b: np.sum(sparse.csr_matrix(b).toarray() ** 2))(b), 2 * b)
    for f in (lambda b: sparse.coo_array(b), lambda b: sparse.coo_array((b, ([0, 1, 2, 3],)), shape=(5,))):
        with pytest.raises(MissingRuleError, match="one axis"):
            grad(lambda b, f=f: np.sum(f(b).toarray()), b)
