"""Functions of scipy.special: digits against mpmath, compiled gradients, special points, orders, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special as sc
from numpy.testing import assert_allclose
from scipy import special
from scipy.special import jv

from yota_py import grad, gradient, jit, value_and_grad
from yota_py.errors import MissingRuleError

# A function, the same of mpmath, the argument of the derivative, arguments.
_P = lambda a, x: mpmath.gammainc(a, 0, x, regularized=True)  # noqa: E731
_I = lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)  # noqa: E731
_t = lambda n, t: mpmath.mpf(1) - _I(n / 2, mpmath.mpf("0.5"), n / (n + t * t)) / 2  # noqa: E731
_DIGITS: list[tuple[str, Callable[..., Any], int, list[tuple[float, ...]]]] = [
    ("gammainc", _P, 0, [(0.01, 1e-5), (0.01, 0.5), (2.0, 1.0), (200.0, 190.0), (200.0, 230.0), (3.0, 60.0)]),
    ("gammainc", _P, 1, [(0.3, 1e-8), (20.0, 3.0), (1e4, 1.01e4)]),
    ("betainc", _I, 0, [(0.01, 3.0, 0.5), (3.0, 0.01, 0.5), (0.5, 0.5, 0.999), (200.0, 300.0, 0.39)]),
    ("betainc", _I, 1, [(2.0, 3.0, 1e-6), (50.0, 60.0, 0.5), (500.0, 2.0, 0.99)]),
    ("stdtr", _t, 0, [(3.0, 1e-3), (3.0, 5.0), (40.0, 0.8)]),
    ("ellipk", mpmath.ellipk, 0, [(1e-12,), (0.3,), (0.9999,), (-100.0,)]),
    ("ellipe", mpmath.ellipe, 0, [(1e-12,), (0.3,), (0.9999,), (-100.0,)]),
    ("ellipkinc", mpmath.ellipf, 1, [(0.5, 0.0), (5.0, 0.3), (1e-4, 0.2), (1.5, 0.99)]),
    ("elliprd", mpmath.elliprd, 0, [(1.0, 1.0, 1.0), (1e-6, 1.0, 2e5)]),
    ("elliprg", mpmath.elliprg, 2, [(0.0, 1.0, 2.0), (1.0, 1.0, 1.0)]),
    ("exprel", lambda x: mpmath.expm1(x) / x, 0, [(-30.0,), (1e-9,), (0.999,), (1.001,), (700.0,)]),
    ("zeta", mpmath.zeta, 0, [(-7.5,), (-2.0,), (0.5,), (1.01,), (30.0,)]),
    ("zeta", mpmath.zeta, 0, [(1.5, 0.3), (20.0, 2.0)]),
    ("binom", mpmath.binomial, 0, [(1.0, 2.0), (5.0, 7.0), (4.5, 2.2)]),
    ("poch", mpmath.rf, 0, [(-2.0, 1.0), (-2.0, 3.0), (3.0, 2.5)]),
    ("spence", lambda x: mpmath.polylog(2, 1 - x), 0, [(1.0 + 1e-9,), (0.3,), (1.9,)]),
    ("kve", lambda v, x: mpmath.besselk(v, x) * mpmath.exp(x), 1, [(2.0, 1e6), (2.0, 0.1)]),
    ("i0e", lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), 0, [(1e6,), (-1e3,), (30.0,), (0.3,)]),
    ("expn", mpmath.expint, 1, [(1.0, 0.3), (3.0, 1e-3)]),
    ("owens_t", lambda h, a: mpmath.quad(lambda t: mpmath.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a])
     / (2 * mpmath.pi), 1, [(0.5, 2.0)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "of_mpmath", "i", "points"), _DIGITS, ids=lambda x: x if isinstance(x, str) else "")
def test_digits(name: str, of_mpmath: Callable[..., Any], i: int, points: list[tuple[float, ...]]) -> None:
    fn = getattr(special, name)
    for args in points:
        at = [mpmath.mpf(x) for x in args]
        with mpmath.workdps(40):
            step = (abs(at[i]) or 1) * mpmath.mpf(10) ** -14
            want = float(mpmath.diff(lambda x, at=at: of_mpmath(*at[:i], x, *at[i + 1 :]), at[i], h=step))
        have = gradient(lambda x, args=args: fn(*args[:i], x, *args[i + 1 :]))(args[i])
        assert_allclose(have, want, rtol=1e-11, err_msg=f"{name}{args}")


@pytest.mark.parametrize(("f", "x", "want"), [
    (lambda x: special.j1(x) + jv(1, x), 0.0, [1.0, 0.0]),
    (lambda x: special.spherical_jn(1, x), 0.0, [1 / 3, 0.0]),
    (lambda x: special.spherical_jn(0, x), 0.0, [0.0, -1 / 3]),
    (lambda x: special.sici(x)[0], 0.0, [1.0, 0.0]),
    (lambda x: special.shichi(x)[0], 0.0, [1.0, 0.0]),
    (lambda x: special.beip(x), 0.0, [0.5, 0.0]),
    (lambda x: special.spence(x), 1.0, [-1.0, 0.5]),
    (lambda x: special.exprel(x), 0.0, [1 / 2, 1 / 3]),
    (lambda p: special.boxcox(2.0, p), 0.0, [math.log(2) ** 2 / 2, math.log(2) ** 3 / 3]),
    (lambda p: special.inv_boxcox(1.0, p), 0.0, [-math.e / 2, math.e * (2 / 3 + 1 / 4)]),
    (lambda x: special.lambertw(x).real, 0.0, [1.0, -2.0]),
    (lambda x: special.agm(x, 1.0), 1.0, [1 / 2, -1 / 8]),
    (lambda m: special.ellipk(m), 0.0, [math.pi / 8, math.pi * 9 / 64]),
    (lambda x: special.gammainc(2.0, x), 0.0, [0.0, 1.0]),
    (lambda x: special.betainc(2.0, 30.0, x), 0.0, [0.0, 930.0]),
    (lambda t: special.stdtr(3.0, t), 0.0, [2 / math.pi / math.sqrt(3), 0.0]),
    (lambda r: special.huber(1.0, r), 0.0, [0.0, 1.0]),
    (lambda d: special.pseudo_huber(d, 0.0), 1.0, [0.0, 0.0]),
    (lambda d: special.pseudo_huber(d, 3.0), 0.0, [3.0, -2.0]),
    (lambda x: special.it2struve0(x), 0.0, [-2 / math.pi, 0.0]),
    (lambda m: special.ellipkinc(0.3, m), 2.0, [0.005248011832424054, 0.0004914526718587031]),
    (lambda x: special.diric(x, 3), 0.0, [0.0, -2 / 3]),
    (lambda x: special.eval_legendre(0, x) + special.eval_hermite(1, x), 0.3, [2.0, 0.0]),
    (lambda x: special.i0e(x), 0.0, [0.0, 0.5]),
    (lambda x: special.voigt_profile(x, 0.0, 1.0), 0.0, [0.0, -2 / math.pi]),
])  # fmt: skip
def test_first_and_second_derivatives_at_special_points(f: Any, x: float, want: list[float]) -> None:
    assert_allclose([gradient(f)(x), gradient(gradient(f))(x)], want, rtol=1e-11, atol=1e-14)


_PROGRAMS: list[Callable[..., Any]] = [
    lambda x: np.sum(special.jv(0.5, x) * special.kv(1 / 3, x)),
    lambda x: np.sum(special.eval_legendre(np.arange(3)[:, None], x)),
    lambda x: np.sum(special.airy(x)[2] * special.fresnel(x)[0]),
    lambda x: np.sum(special.spherical_jn(2, x, derivative=True) + special.spherical_yn(np.array([0, 1, 2]), x)),
    lambda x: np.sum(special.gammainc(x, 0.7) + special.betainc(x, 2.0, 0.3)),
    lambda x: np.sum(special.stdtr(x, 1.5)) + special.chdtrc(3, x[0]),
    lambda x: np.sum(np.abs(special.sph_harm_y(2, [-1, 0, 1], x, 0.4)) ** 2),
    lambda x: np.sum(special.comb(4, [0, 1, 2]) * special.perm(x + 3, 2) * special.factorial(x)),
    lambda x: np.sum(special.zeta(x + 1.2) + special.multigammaln(x + 2, 3) * special.lambertw(x).real),
    lambda x: np.sum(special.ellipj(x, 0.4)[1] + special.elliprj(x, 1.0, 2.0, 0.5)),
    lambda x: np.sum(special.jn_zeros(0, 3) * special.y0(x)) + special.roots_legendre(3)[1] @ special.legendre(2)(x),
    lambda x: np.sum(special.legendre_p(3, x / 3) + special.assoc_laguerre(x, 2, 1) + special.softplus(x)),
    lambda x: np.sum(special.voigt_profile(x, x[::-1], 0.3) + special.owens_t(x, 0.5) + special.kolmogorov(x)),
]


@pytest.mark.parametrize("f", _PROGRAMS, ids=range(len(_PROGRAMS)))
def test_compiled_gradients(f: Callable[..., Any]) -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.uniform(0.4, 1.6, 3) for _ in range(3)]
    grad.compile(f, inputs[0])
    for x in [*inputs, inputs[0][::-1], np.require(inputs[1], requirements="O").astype(np.float32)]:
        x.flags.writeable = False
        value, (dx,) = grad(f, x)
        assert dx.dtype == x.dtype
        narrow = x.dtype == np.float32
        assert_allclose(value, f(x), rtol=1e-5 if narrow else 1e-12)
        assert_allclose(value_and_grad(f)(x)[1], dx, rtol=1e-5 if narrow else 1e-10)
        wide, h = x.astype(float), 1e-5
        finite = [(f(wide + h * e) - f(wide - h * e)) / (2 * h) for e in np.eye(3)]
        assert_allclose(dx, finite, rtol=1e-3 if narrow else 1e-6, atol=1e-4 if narrow else 1e-7)
    assert_allclose(jit(f)(inputs[0]), f(inputs[0]), rtol=1e-12)


def test_spellings_and_one_function_after_another() -> None:
    x, alias = np.array([0.4, 1.3]), special.spherical_jn
    want = special.spherical_jn(1, x, True)
    spellings = [lambda x: special.spherical_jn(1, x), lambda x: sc.spherical_jn(n=1, z=x), lambda x, f=alias: f(1, x)]
    for _ in range(2):
        for f in spellings:
            assert_allclose(gradient(lambda x, f=f: np.sum(f(x)))(x), want, rtol=1e-13)
        assert_allclose(gradient(lambda x: np.sum(special.jv(1, x)))(x), special.jvp(1, x), rtol=1e-13)
        assert_allclose(gradient(lambda x: np.sum(special.jv(2, x)))(x), special.jvp(2, x), rtol=1e-13)


@pytest.mark.parametrize("orders", [
    [0, 1, 2], np.arange(3, dtype=np.uint8), np.array([True, False, True]), 1, 2.0, np.int32(2),
])  # fmt: skip
def test_orders_of_any_kind(orders: Any) -> None:
    """Also unsigned ones, which cannot be counted down from zero."""
    x = np.array([0.4, 0.7, 1.2])
    names = ["jv", "yv", "kn", "eval_chebyt", "expn", "spherical_jn", "comb"]
    for fn in [getattr(special, name) for name in names[: 6 if isinstance(orders, float) else 7]]:
        n = np.asarray(orders, float) if fn in (special.jv, special.yv) else np.asarray(orders, int)
        h = 1e-6
        want = (fn(n, x + h) - fn(n, x - h)) / (2 * h)
        assert_allclose(gradient(lambda x, fn=fn: np.sum(fn(orders, x)))(x), want, rtol=1e-7, atol=1e-8)


def test_derivatives_in_parameters_without_formula_are_refused() -> None:
    of_order: list[Any] = [lambda v: special.jv(v, 0.3), lambda a: special.hyp1f1(a, 2.0, 0.3),
                           lambda n: special.chndtr(2.0, n, 1.0), lambda a: np.sum(special.roots_jacobi(3, a, 0.5)[0])]
    for f in of_order:
        with pytest.raises(MissingRuleError, match=r"has no derivative in its argument"):
            gradient(f)(1.5)
    with pytest.raises(MissingRuleError, match="diff_n=2"):
        gradient(lambda x: special.legendre_p(2, x, diff_n=2)[0])(0.3)
    with pytest.raises(ValueError, match="condition a"):  # SciPy's own
        gradient(lambda a: special.multigammaln(a, 3))(0.5)


def test_derivatives_of_legendre_functions_that_come_along() -> None:
    z = np.array([0.2, 0.6])
    got = gradient(lambda z: np.sum(special.legendre_p(3, z, diff_n=1)[1]))(z)
    assert_allclose(got, 15 * z, rtol=1e-13)


def test_distributions_against_their_densities() -> None:
    """The derivative in the last argument is the density, also with many degrees of freedom and far from the center."""
    for f, x, want in [
        (lambda t: special.nctdtr(300, 10.0, t), 9.0, 0.242300125648008),
        (lambda t: special.nctdtr(3, 1.0, t), 0.0, 0.3675525969478614 * math.exp(-0.5)),
        (lambda x: special.chndtr(x, 3, 1000.0), 1000.0, 0.006307831278),
        (lambda x: special.ncfdtr(3, 4, 100.0, x), 30.0, 0.017074199148),
        (lambda x: special.chdtr(3, x), 2.0, math.exp(-1) / math.sqrt(math.pi)),
        (lambda x: special.kolmogorov(x), 1.5, -0.1333072274198802), (lambda d: special.smirnov(5, d), 0.2, -2.456),
    ]:
        assert_allclose(gradient(f)(x), want, rtol=1e-8)


def test_ends_of_domains() -> None:
    """Derivatives in a parameter are zero where the function does not depend on it, and NaN outside."""
    for x, want in ((0.0, 0.0), (np.inf, 0.0), (-1.0, np.nan), (np.nan, np.nan)):
        assert_allclose(gradient(lambda a, x=x: special.gammainc(a, x))(1.5), want)
    for x, want in ((0.0, 0.0), (1.0, 0.0), (1.5, np.nan)):
        assert_allclose(gradient(lambda a, x=x: special.betainc(a, 2.0, x))(1.5), want)
    with np.errstate(all="ignore"):
        assert gradient(lambda x: special.gammainc(0.5, x))(0.0) == np.inf
        assert np.isnan(gradient(lambda x: special.elliprj(1.0, 2.0, x, -1.0))(1.0))  # a principal value
        assert np.isnan(gradient(lambda r: special.huber(-1.0, r))(3.0))
    assert gradient(lambda x: special.powm1(x, 3.0))(0.0) == gradient(lambda p: special.powm1(0.0, p))(3.0) == 0
    assert gradient(lambda n: special.perm(n, 2))(-1.0) == 0
    with pytest.raises(MissingRuleError, match="digamma of complex"):
        gradient(lambda z: special.digamma(z).real)(2.0 + 1j)
