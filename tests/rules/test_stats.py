"""Distributions and samples of ``scipy.stats`` as users write them: frozen, compiled, in all spellings, in models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.stats import gamma as gamma_distribution
from scipy.stats import multivariate_normal, norm, poisson
from scipy.stats._distr_params import distcont, distdiscrete
from sets import each

from yota_py import grad, gradient, jit, trace, value_and_grad
from yota_py.errors import YotaError
from yota_py.testing.checks import check_grads

X = np.array([0.3, 0.5, 1.7])
Y = np.array([1.0, 2.0, 0.4, 0.9])
Z = np.array([0.2, -1.0, 0.7, 1.5])
COV = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])


def slope_along(f: Callable[..., Any], args: tuple[Any, ...], direction: tuple[Any, ...], h: float) -> Any:
    def at(t: float) -> Any:
        return f(*(x + t * d for x, d in zip(args, direction, strict=True)))

    return (at(-2 * h) - 8 * at(-h) + 8 * at(h) - at(2 * h)) / (12 * h)


def check(f: Callable[..., Any], args: tuple[Any, ...], h: float = 1e-3) -> None:
    """The value and the derivative in one direction."""
    direction = tuple(0.1 * (1.0 + 0.3 * i) * np.maximum(1, abs(x) / 20) for i, x in enumerate(args))
    value, gradients = grad(f, *args)
    assert_allclose(value, f(*args), rtol=1e-9)
    along = sum(np.sum(g * d) for g, d in zip(gradients, direction, strict=True))
    assert_allclose(along, slope_along(f, args, direction, h), rtol=1e-4, atol=1e-7)


# -------------------------------------------------------------------------------------------- moments, discrete ones

MOMENTS: dict[str, Callable[..., Any]] = {
    "mean": lambda d, *a, **k: d.mean(*a, **k), "var": lambda d, *a, **k: d.var(*a, **k),
    "std": lambda d, *a, **k: d.std(*a, **k), "entropy": lambda d, *a, **k: d.entropy(*a, **k),
    "third": lambda d, *a, **k: d.moment(3, *a, **k), "shape": lambda d, *a, **k: sum(d.stats(*a, moments="sk", **k)),
}  # fmt: skip
# Integrals and searches without a formula, moments that are infinite, and (the last line) those by np.polyval.
WITHOUT: dict[str, str] = {
    **dict.fromkeys("""
        alpha argus crystalball exponpow exponweib foldcauchy genexpon genhyperbolic geninvgauss
        gompertz jf_skew_t johnsonsb kappa4 kappa3 ncf nct powerlognorm powernorm recipinvgauss
        skewcauchy tukeylambda levy_stable studentized_range ksone kstwo kstwobign landau gausshyper
        irwinhall
    """.split(), "mean var std entropy third shape"),
    **dict.fromkeys("""
        cauchy genhalflogistic halfgennorm halfcauchy levy levy_l lomax vonmises vonmises_line
        wrapcauchy
    """.split(), "mean var std third shape"),
    **dict.fromkeys("""
        betaprime burr burr12 exponnorm fatiguelife foldnorm invgauss mielke ncx2 norminvgauss
        pearson3 rdist rice skewnorm truncweibull_min
    """.split(), "entropy"),
    "chi": "shape", "fisk": "shape", "loglaplace": "shape", "dpareto_lognorm": "var std entropy third shape",
    "johnsonsu": "entropy third", "pareto": "third shape", "t": "third shape", "truncexpon": "third shape",
    "rel_breitwigner": "entropy third shape",
    **dict.fromkeys(["lognorm", "powerlaw"], "mean var std third shape"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "shapes"), distcont)
def test_moments_of_continuous_distributions(name: str, shapes: Any) -> None:
    dist = getattr(stats, name)
    some = [m for m in MOMENTS if m not in WITHOUT.get(name, "").split() and name != "erlang"]
    for moment in each(some, 3, first=len(name)):
        def f(loc: Any, scale: Any, *shapes: Any, moment: str = moment) -> Any:
            return MOMENTS[moment](dist, *shapes, loc=loc, scale=scale) + 0.0

        check(f, (0.4, 1.3, *map(float, shapes)))


@pytest.mark.parametrize(("name", "shapes"), [("exponweib", (1.2, 1.5)), ("gompertz", (0.9,)), ("powernorm", (2.4,))])
def test_integrals_over_plain_shapes_are_not_looked_into(name: str, shapes: Any) -> None:
    dist = getattr(stats, name)

    def f(loc: Any, scale: Any) -> Any:
        given = dist(*shapes, loc, scale)
        return given.mean() + given.std() * given.entropy()

    assert len(trace(f, 0.4, 1.3).ops) < 60
    mean, std, entropy = dist.mean(*shapes), dist.std(*shapes), dist.entropy(*shapes)
    for loc, scale in [(0.4, 1.3), (0.1, 2.0), (-0.3, 0.7)]:
        value, slopes = grad(f, loc, scale)
        at = entropy + np.log(scale)
        assert_allclose(value, loc + scale * (mean + std * at), rtol=1e-12)
        assert_allclose(slopes, (1.0, mean + std * (at + 1)), rtol=1e-12)


MASSES = "pmf logpmf cdf logcdf sf logsf"
DISCRETE: list[tuple[str, tuple[Any, ...], str]] = [  # floats are differentiated, integers are not
    ("bernoulli", (0.3,), "pmf logpmf mean var std entropy"), ("binom", (5, 0.4), f"{MASSES} mean var std entropy"),
    ("nbinom", (5, 0.5), f"{MASSES} mean var std"), ("geom", (0.5,), f"{MASSES} entropy"),
    ("poisson", (0.6,), f"{MASSES} mean var std"), ("boltzmann", (1.4, 19), f"{MASSES} mean var std"),
    ("dlaplace", (0.8,), f"{MASSES} mean var std entropy"), ("planck", (0.51,), f"{MASSES} mean var std entropy"),
    ("logser", (0.6,), "pmf logpmf sf mean var std"), ("yulesimon", (11.0,), f"{MASSES} mean var std"),
    ("betabinom", (5, 2.3, 0.63), "pmf logpmf mean var std"), ("nbinom", (5.5, 0.5), "pmf logpmf mean var std"),
    ("betanbinom", (5, 9.3, 1.0), "pmf logpmf mean var std"), ("zipf", (6.6,), "pmf logpmf"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "shapes", "methods"), DISCRETE)
def test_discrete_distributions(name: str, shapes: tuple[Any, ...], methods: str) -> None:
    dist, free = getattr(stats, name), tuple(s for s in shapes if type(s) is float)
    k = np.array([dist.ppf(0.3, *shapes), dist.ppf(0.8, *shapes)]) + 2
    for method in each(methods.split(), 3, first=len(name)):
        def f(*free: Any, method: str = method) -> Any:
            values = iter(free)
            given = [next(values) if type(s) is float else s for s in shapes]
            if method in MASSES.split():
                return np.sum(getattr(dist, method)(k, *given, loc=2) * np.array([1.0, 0.7]))
            return getattr(dist, method)(*given) + 0.0

        check(f, free)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["poisson", "binom", "geom", "nbinom", "bernoulli", "randint", "planck", "dlaplace"])
def test_values_of_discrete_distributions(name: str) -> None:
    shapes = dict(distdiscrete)[name]
    dist, k = getattr(stats, name), np.array([-np.inf, -1.0, 0.0, 1.0, 0.5, 3.0, 40.0, np.inf, np.nan])
    first = float(shapes[-1]) if name != "randint" else 31.0
    for method in each(MASSES.split(), 3, first=len(name)):
        for p in (first, np.array([[first], [-3.0]])):
            def f(p: Any, method: str = method) -> Any:
                return getattr(dist, method)(k, *shapes[:-1], p)

            want = f(p)
            value, _ = grad(f, p, seed=np.ones_like(want))
            assert_allclose(value, want, rtol=1e-11, err_msg=f"{name}.{method}")


# ------------------------------------------------------------------------------------------------ compiled, spellings

WEIGHTS = np.array([0.5, 1.0, 2.0])
OUTSIDE = stats.gumbel_r(0.3, scale=2.0)
KDE = stats.gaussian_kde(np.array([0.0, 1.0, 3.0, 4.5]))
COMPILED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "imported": (lambda x, m, s: np.sum(norm.logpdf(x, m, s)), (X, 0.3, 1.2)),
    "frozen": (lambda x, m, s: norm(m, s).logpdf(x).sum(), (X, 0.3, 1.2)),
    "frozen gamma": (lambda x, a, s: gamma_distribution(a, scale=s).logsf(x).sum(), (X, WEIGHTS, 1.2)),
    "frozen elsewhere": (lambda x: OUTSIDE.logcdf(x).sum(), (X,)),
    "mixture": (lambda x, w: np.log(w * stats.t.pdf(x, 4.0) + (1 - w) * stats.laplace.pdf(x)).sum(), (X, 0.3)),
    "quantile": (lambda q, a, b: stats.beta.ppf(q, a, b).sum(), (np.array([0.2, 0.5]), 2.0, 3.0)),
    "integral": (lambda x, m: stats.foldcauchy.cdf(x, 1.5, loc=m).sum(), (X, 0.1)),
    "poisson": (lambda mu: poisson.logpmf([1, 4, 2], mu).sum(), (WEIGHTS,)),
    "normal": (lambda m, c: multivariate_normal(m, c).logpdf(X), (WEIGHTS, COV)),
    "wishart": (lambda df, c: stats.wishart.logpdf(COV, df, c), (5.0, COV)),
    "kde": (lambda x: KDE.logpdf(x).sum(), (X,)),
    "kde of data": (lambda x, d: stats.gaussian_kde(d)(x).sum(), (X, Y)),
    "moments": (lambda m, s: norm(m, s).mean() * stats.gamma(s).std() + stats.expon(scale=m).entropy(), (0.7, 1.3)),
    "scores": (lambda x: np.sum(stats.zscore(x) ** 3) + stats.skew(x), (Y,)),
    "correlation": (lambda x, y: stats.pearsonr(x, y)[0] + stats.linregress(x, y).slope, (Y, Z)),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_gradients(name: str) -> None:
    f, args = COMPILED[name]
    grad.compile(f, *args)
    for shift in (0.0, 0.01, -0.02):
        given = tuple(np.asarray(x * (1 + shift))[()] for x in args)
        value, gradients = grad(f, *given)
        assert_allclose(value, f(*given), rtol=1e-10)
        fresh = grad(lambda *args: f(*args), *given)[1]
        for have, want in zip(gradients, fresh, strict=True):
            assert_allclose(have, want, rtol=1e-8, atol=1e-12)


def test_a_frozen_distribution_that_is_another_one() -> None:
    holder = [stats.norm(0.0, 2.0)]

    def f(x: Any) -> Any:
        return holder[0].logpdf(x).sum()

    grad.compile(f, X)
    for frozen in (stats.norm(0.0, 3.0), stats.gumbel_r(), stats.norm(0.0, 2.0)):
        holder[0] = frozen
        assert_allclose(grad(f, X)[0], frozen.logpdf(X).sum())
    holder[0].kwds["scale"], holder[0].args = 5.0, (1.0,)
    assert_allclose(grad(f, X)[0], stats.norm.logpdf(X, 1.0, 5.0).sum())


def test_other_ways_to_call() -> None:
    alias = stats.norm.logpdf
    frozen = stats.norm(1.0, scale=2.0).logpdf
    assert_allclose(gradient(lambda x: frozen(x))(2.0), -0.25)
    assert_allclose([gradient(alias)(0.5), gradient(frozen)(2.0)], [-0.5, -0.25])
    assert_allclose(gradient(lambda x: sum(map(norm.logpdf, [x, x])))(0.5), -1.0)
    assert_allclose(gradient(lambda x: norm.logpdf(x=x))(0.5), -0.5)
    assert_allclose(gradient(lambda x: alias(x, loc=1.0))(0.5), 0.5)
    assert_allclose(gradient(lambda x: np.sum(norm.logpdf([x, 2.0 * x])))(0.5), -2.5)
    assert_allclose(value_and_grad(lambda s: norm.cdf(0.5, scale=s))(2.0)[1], -0.125 * norm.pdf(0.25))
    assert_allclose(jit(lambda x: norm.sf(x))(X), norm.sf(X))
    assert norm.logpdf(0.5) == stats.norm.logpdf(0.5)  # as it was


def test_a_fit_by_maximum_likelihood() -> None:
    def loss(p: Any) -> Any:
        return -np.sum(stats.weibull_min.logpdf(Y, np.exp(p["shape"]), scale=np.exp(p["scale"])))

    p, step = {"shape": 0.0, "scale": 0.0}, value_and_grad(loss)
    for _ in range(300):
        _, g = step(p)
        p = {key: p[key] - 0.05 * g[key] for key in p}
    shape, _, scale = stats.weibull_min.fit(Y, floc=0)
    assert_allclose([np.exp(p["shape"]), np.exp(p["scale"])], [shape, scale], rtol=1e-3)


# ------------------------------------------------------------------------------- special points, higher derivatives


@pytest.mark.parametrize(("name", "at"), [("genpareto", 0.0), ("genextreme", 0.0), ("pearson3", 0.0), ("kappa4", 0.0)])
@pytest.mark.parametrize("method", ["logpdf", "cdf", "sf"])
def test_shapes_where_the_formula_changes(name: str, at: float, method: str) -> None:
    more = (0.0,) if name == "kappa4" else ()

    def f(c: Any) -> Any:
        return np.sum(getattr(getattr(stats, name), method)(X, c, *more))

    assert_allclose(gradient(f)(at), (f(at + 1e-3) - f(at - 1e-3)) / 2e-3, rtol=1e-4)


def test_second_derivatives() -> None:
    check_grads(lambda x, s: stats.foldcauchy.ppf(x, 1.5, scale=s), np.array([0.2, 0.7]), 1.3)
    check_grads(lambda q, a: stats.beta.ppf(q, a, 2.5), np.array([0.2, 0.7]), 1.5)
    check_grads(lambda x: stats.skewnorm.cdf(x, 2.0), X)
    check_grads(lambda x, a, b: stats.truncnorm.logpdf(x, a, b), X, -1.2, 2.5)
    check_grads(lambda p: stats.binom.cdf([1, 3], 5, p), 0.4)
    check_grads(lambda x, c: stats.genextreme.logpdf(x, c), X, 0.0)


def test_slopes_at_the_ends_of_the_support() -> None:
    assert gradient(lambda x: stats.expon.logpdf(x))(0.0) == -1.0
    assert gradient(lambda x: stats.uniform.cdf(x))(1.0) == 0.0
    assert gradient(lambda x: stats.expon.pdf(x))(-1.0) == 0.0
    assert gradient(lambda s: stats.expon.pdf(1.0, scale=s))(-1.0) == 0.0  # where the density is NaN


def test_objects_that_tests_give() -> None:
    check_grads(lambda x, y: stats.pearsonr(x, y).statistic * stats.pearsonr(x, y).pvalue, Y, Z)
    check_grads(lambda x: stats.ttest_1samp(x, 0.3, alternative="less").pvalue, Y)
    check_grads(lambda x, y: stats.ttest_ind(x, y).pvalue * stats.ttest_rel(x, y).statistic, Y, Z)
    check_grads(lambda x, y: stats.ttest_ind(x, y, equal_var=False).statistic, Y, Z)
    result = stats.linregress(Y, Z)
    for name in ("slope", "intercept", "rvalue", "pvalue", "stderr", "intercept_stderr"):
        def f(x: Any, y: Any, name: str = name) -> Any:
            return getattr(stats.linregress(x, y), name)

        assert_allclose(grad(f, Y, Z)[0], getattr(result, name), rtol=1e-10)
        check(f, (Y, Z), h=1e-4)


# -------------------------------------------------------------------------------------------- variates, what is refused


@pytest.mark.filterwarnings("ignore")
def test_variates_move_with_their_parameters() -> None:
    for f, args in (
        (lambda m, s: norm(m, s).rvs(3, random_state=1), (0.3, 2.0)),
        (lambda c: stats.weibull_min.rvs(c, size=3, random_state=2), (1.5,)),
        (lambda m: multivariate_normal(m, COV).rvs(2, random_state=3), (X,)),
        (lambda m, s: stats.logistic.rvs(m, s, random_state=4), (0.3, np.array([1.0, 2.0]))),
    ):
        check(lambda *args, f=f: np.sum(f(*args) ** 2), args, h=1e-4)
    draws = {grad(lambda m: norm.rvs(m), 0.0)[0] for _ in range(3)}
    assert len(draws) == 3


def test_variates_of_a_shape_are_quantiles() -> None:
    """The gamma distribution's variates are drawn in another way; they move as its quantiles do."""
    value, (slope,) = grad(lambda a: stats.gamma.rvs(a, random_state=0), 2.0)
    share = stats.gamma.cdf(value, 2.0)
    assert_allclose(slope, gradient(lambda a: stats.gamma.ppf(share, a))(2.0), rtol=1e-7)


@pytest.mark.parametrize("f", [
    lambda x: stats.norm.fit(x)[0], lambda x: stats.spearmanr(x, Z).statistic, lambda x: stats.Normal(mu=x[0]).pdf(1.0),
    lambda x: stats.skewnorm.entropy(x).sum(), lambda x: stats.landau.pdf(x).sum(), lambda x: stats.boxcox(x)[1],
    lambda x: stats.zscore(x, nan_policy="omit").sum(), lambda x: float(stats.poisson.rvs(x).sum()),
    lambda x: stats.multivariate_normal.cdf(x),
    lambda x: stats.multivariate_normal.logpdf(np.ones(2), cov=np.outer(x[:2], x[:2]), allow_singular=True),
])  # fmt: skip
def test_what_is_refused(f: Any) -> None:
    with pytest.raises(YotaError, match="derivative"):
        grad(f, Y)


def test_scipys_own_errors() -> None:
    with pytest.raises(ValueError, match="simplex"):
        grad(lambda a: stats.dirichlet.logpdf([0.2, 0.2, 0.2], a), X)
    with pytest.raises(np.linalg.LinAlgError):
        grad(lambda c: multivariate_normal.logpdf(X, X, c), -COV)
    with pytest.raises(ValueError, match="Dimension mismatch"):
        grad(lambda c: multivariate_normal.logpdf(X, np.zeros(2), c), COV)
    with pytest.raises(TypeError):
        grad(lambda x: norm.logpdf(x, 1.0, 2.0, 3.0), 0.5)


@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 3.0, 1.0])])
def test_the_covariance_of_a_density_estimate(weights: Any) -> None:
    samples = np.array([0.0, 1.0, 3.0, 4.5])

    def f(x: Any) -> Any:
        return stats.gaussian_kde(x, weights=weights).covariance[0, 0]

    assert_allclose(grad(f, samples)[0], f(samples), rtol=1e-12)
    check_grads(f, samples)
    of_numbers = grad(lambda x: x * stats.gaussian_kde(np.arange(5.0)).covariance[0, 0], 2.0)
    assert_allclose(of_numbers[1], stats.gaussian_kde(np.arange(5.0)).covariance[0], rtol=1e-12)
