"""Every distribution of ``scipy.stats`` with every method: value, derivatives, or a refusal that names the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.stats._distr_params import distcont
from sets import each

from yota_py import check_grads, config, grad
from yota_py.errors import YotaError

POINTS, SHARES = "pdf logpdf cdf logcdf sf logsf", "ppf isf"
METHODS = f"{POINTS} {SHARES}".split()
DENSITIES = "pdf logpdf"
INTEGRALS = f"cdf logcdf sf logsf {SHARES}"

# What has no derivative in the shape parameters, and what has none at all; all else has them in every argument.
IN_POINT: dict[str, str] = {
    "gausshyper": f"{DENSITIES} {INTEGRALS}", "genhyperbolic": f"{DENSITIES} {INTEGRALS}", "ksone": INTEGRALS,
    "geninvgauss": f"{DENSITIES} {INTEGRALS}", "irwinhall": INTEGRALS, "kstwo": INTEGRALS, "levy_stable": INTEGRALS,
    "ncf": INTEGRALS, "nct": INTEGRALS, "ncx2": f"{DENSITIES} {INTEGRALS}", "norminvgauss": INTEGRALS,
    "skewnorm": INTEGRALS, "studentized_range": INTEGRALS, "vonmises": INTEGRALS, "vonmises_line": INTEGRALS,
}  # fmt: skip
REFUSED: dict[str, str] = dict.fromkeys(
    ["irwinhall", "ksone", "kstwo", "kstwobign", "landau", "levy_stable", "ncf", "nct", "studentized_range"], DENSITIES
)
WHOLE = {"ksone", "kstwo", "irwinhall"}  # whose shape parameter is an integer


def slope_along(f: Callable[..., Any], args: tuple[Any, ...], direction: tuple[Any, ...], h: float = 1e-4) -> Any:
    def at(t: float) -> Any:
        return f(*(x + t * d for x, d in zip(args, direction, strict=True)))

    return (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h)


def check(f: Callable[..., Any], args: tuple[Any, ...], rng: np.random.Generator) -> None:
    direction = tuple(np.where(np.isfinite(x), 0.1, 0.0) * (1 + rng.random(np.shape(x))) * np.maximum(1, abs(x) / 20)
                      for x in args)  # fmt: skip
    value, gradients = grad(f, *args)
    assert_allclose(value, f(*args), rtol=1e-10)
    along = sum(np.sum(g * d) for g, d in zip(gradients, direction, strict=True))
    assert_allclose(along, slope_along(f, args, direction), rtol=2e-5, atol=1e-7)


CONTINUOUS = [pytest.param(i, name, shapes, id=f"{name}-{i}") for i, (name, shapes) in enumerate(distcont)]


def compiled(i: int, method: str) -> Any:
    """Of each distribution two methods at most are compiled, others of each; all are computed."""
    return "always" if method in ("logpdf", METHODS[i % len(METHODS)]) else "never"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("i", "name", "shapes"), CONTINUOUS)
def test_methods_of_continuous_distributions(i: int, name: str, shapes: Any) -> None:
    dist, rng, q = getattr(stats, name), np.random.default_rng(0), np.array([0.23, 0.61])
    x = 1.3 * dist.ppf(q, *shapes) + 0.4
    for method in each(METHODS, 3, first=i):
        config.compile = compiled(i, method)
        at = q if method in SHARES.split() else x
        in_point = name in WHOLE or method in IN_POINT.get(name, "").split()
        given = shapes if in_point else ()

        def f(x: Any, loc: Any, scale: Any, *free: Any, method: str = method, given: Any = given) -> Any:
            y = getattr(dist, method)(x, *given, *free, loc=loc, scale=scale)
            return np.sum(y * np.array([1.0, 0.7]))

        args = (at, 0.4, 1.3, *(() if in_point else map(float, shapes)))
        if method in REFUSED.get(name, "").split():
            with pytest.raises(YotaError, match="derivative"):
                grad(f, *args)
            continue
        try:
            check(f, args, rng)
        except (AssertionError, YotaError) as error:
            raise AssertionError(f"{name}.{method}: {error}") from error


def _where(dist: Any, shapes: Any, method: str) -> np.ndarray:
    if method in SHARES.split():
        return np.array([-0.5, 0.0, 0.02, 0.5, 0.98, 1.0, 1.5, np.nan])
    low, high = dist.support(*shapes)
    inner = dist.ppf([0.05, 0.5, 0.95], *shapes)
    return np.array([low, high, low - 1, high + 1, *inner, np.inf, -np.inf, np.nan])


# Slow ones, and one whose sf gives the first value for all points (SciPy 1.17).
UNUSUAL = ("levy_stable", "studentized_range", "norminvgauss")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("i", "name", "shapes"), [c for c in CONTINUOUS if c.values[1] not in UNUSUAL])
def test_values_outside_of_the_support(i: int, name: str, shapes: Any) -> None:
    dist = getattr(stats, name)
    for method in (m for m in each(METHODS, 3, first=i) if m not in REFUSED.get(name, "")):
        config.compile = compiled(i + 4, method)
        x = _where(dist, shapes, method)
        for scale in (np.float64(1.0), np.array([[1.0], [-1.0], [0.0]])):
            def f(x: Any, scale: Any, method: str = method) -> Any:
                return getattr(dist, method)(x, *shapes, scale=scale)

            want = f(x, scale)
            value, gradients = grad(f, x, scale, seed=np.ones_like(want))
            assert_allclose(value, want, rtol=1e-9, atol=1e-300, err_msg=f"{name}.{method}")
            assert value.dtype == want.dtype
            assert gradients[0].shape == x.shape


P = np.array([0.1, 0.6, 0.7, 0.8])


@pytest.mark.parametrize("f", [
    lambda p: stats.poisson_binom.pmf(1, p), lambda p: stats.poisson_binom.logpmf([1, 2, 0], p),
    lambda p: stats.poisson_binom.cdf([1, 2, -1, 9], p), lambda p: stats.poisson_binom(p).sf([[1], [2]]),
    lambda p: stats.poisson_binom(p).mean() * stats.poisson_binom(p).var(),
    lambda p: stats.poisson_binom.pmf([0, 3], np.stack([p, p[::-1]])),
])  # fmt: skip
def test_sums_of_trials(f: Any) -> None:
    for p in (P, P / 2, P[:3]):
        check_grads(f, p)


@pytest.mark.parametrize("name", ["logcdf", "logsf", "cdf", "logpmf"])
def test_counts_without_replacement_have_no_slope(name: str) -> None:
    def f(k: Any) -> Any:
        return getattr(stats.hypergeom, name)(k, 21, 18, 11)

    for k in (np.array([8.0, 9.0]), np.array([[10.0]]), 9.0):
        value, (dk,) = grad(lambda k: np.sum(f(k)), k)
        assert_allclose(value, np.sum(f(k)), rtol=1e-12)
        assert not np.any(dk)


def test_entropies_of_whole_parameters() -> None:
    check_grads(lambda scale: stats.truncpareto.entropy(-2, 5, 0.5, scale), 1.3)
    check_grads(lambda scale: stats.chi.entropy(78, 0.5, scale), 2.0)
