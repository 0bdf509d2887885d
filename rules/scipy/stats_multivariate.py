"""Multivariate distributions of ``scipy.stats``, also frozen. Covariances are read through their Cholesky factor, of
which NumPy reads the lower triangle as SciPy's eigenvectors do."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import special, stats
from scipy.stats import _multivariate as multivariate

from yota_py.base.dispatch import find_traced, is_traced, original, shadow
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch, states
from yota_py.registry.registry import Cases, case

from ..support import dtype_of, inexact, shape_of, unsupported
from .stats_private import known_as

LOG_2_PI, LOG_PI, LOG_2 = math.log(2 * math.pi), math.log(math.pi), math.log(2)


def _squeezed(y: Any) -> Any:
    return np.squeeze(y)[()]


def _wide(x: Any) -> Any:
    """A parameter in double precision, which the library takes them in."""
    return np.multiply(np.float64(1), inexact(x))


def _matrix(scale: Any, dim: int) -> Any:
    """A covariance that may be given by a number or a diagonal."""
    scale = _wide(1.0 if scale is None else scale)
    if not isinstance(shape_of(scale), tuple) or len(shape_of(scale)) > 2:
        raise unsupported("a covariance of more than two axes", "Take them one by one")
    if dim == 1:
        return np.reshape(scale, (1, 1))
    return scale * np.eye(dim) if not shape_of(scale) else np.diag(scale) if len(shape_of(scale)) == 1 else scale


def _parameters(mean: Any, cov: Any) -> tuple[int, Any, Any]:
    """The dimension, the mean as a vector, the covariance as a matrix."""
    if isinstance(cov, stats.Covariance):
        raise unsupported("a covariance of class Covariance", "Give the matrix")
    shape = () if cov is None else shape_of(cov)
    dim = math.prod(shape_of(mean)) if mean is not None else 1 if len(shape) < 2 else shape[0]
    mean, cov = np.zeros(dim) if mean is None else _wide(mean), _matrix(cov, dim)
    mean = np.reshape(mean, 1) if dim == 1 else mean
    if shape_of(mean) != (dim,) or shape_of(cov) != (dim, dim):
        stats.multivariate_normal._process_parameters_psd(None, *shadow((mean, cov)))  # which says what is wrong
    return dim, mean, cov


def _quantiles(x: Any, dim: int) -> Any:
    x = inexact(x)
    if dtype_of(x).kind == "c":
        raise unsupported("a density at complex numbers", "SciPy drops their imaginary parts: give it the real ones")
    if len(shape_of(x)) > 1:
        return x
    return np.reshape(x, (-1, 1) if dim == 1 and shape_of(x) else (1, -1) if shape_of(x) else (1,))


def _whitened(factor: Any, dev: Any) -> Any:
    """The solutions of a triangular system for vectors along the last axis."""
    flat = np.reshape(dev, (-1, shape_of(factor)[0]))
    return np.reshape(np.linalg.solve(factor, flat.T).T, shape_of(dev))


def _logdet(factor: Any) -> Any:
    return 2 * np.sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


def _multigammaln(a: Any, d: int) -> Any:
    """DLMF 35.3.4."""
    return d * (d - 1) / 4 * LOG_PI + sum(special.gammaln(a - j / 2) for j in range(d))


# --------------------------------------------------------------------------------- the methods, and those when frozen


def _frozen(cls: type, dist: type, names: str, methods: str, singular: str = "") -> None:
    """A frozen distribution keeps its parameters under these names, and asks the distribution with them; the methods in
    ``singular`` may be told to allow a singular matrix."""
    keys, plain = tuple(names.split()), vars(cls)["__init__"]

    def init(self: Any, *args: Any, **kwds: Any) -> None:
        given = dict(zip(keys, args, strict=False)) | kwds
        if find_traced(given.values()) is None:
            plain(self, *args, **kwds)
            return
        self._dist = dist(given.get("seed"))
        self.__dict__.update({key: given.get(key) for key in keys if key != "seed"})
        self.allow_singular = bool(given.get("allow_singular"))
        if cls is multivariate.multivariate_normal_frozen:
            self.__dict__.pop("cov")
            self.held, self.cov_object = given.get("cov"), SimpleNamespace(covariance=given.get("cov", 1))

    patch(cls, "__init__", init)
    states[cls] = lambda frozen: [frozen.cov if key == "cov" else getattr(frozen, key) for key in keys]
    for name in methods.split():
        _frozen_method(cls, name, keys, may_be_singular=name in singular.split())


def _frozen_method(cls: type, name: str, keys: tuple[str, ...], *, may_be_singular: bool) -> None:
    def body(self: Any, *args: Any, **kwds: Any) -> Any:
        given = {key: value for key in keys if (value := getattr(self, key)) is not None}
        if may_be_singular and getattr(self, "allow_singular", False):
            kwds |= {"allow_singular": True}
        if name == "rvs":
            args, kwds = (), kwds | dict(zip(("size", "random_state"), args, strict=False))
        return getattr(self._dist, name)(*args, **given, **kwds)

    patch(cls, name, body, holds=(*keys, "held"))


_NORMALS: Cases = lambda s: [  # noqa: E731
    case(stats.multivariate_normal, s(3, 2), s(2), _covariance(s, 2)), case(stats.multivariate_normal, s(2), s(2)),
    case(stats.multivariate_normal, s(4), None, s.number(0.5, 2.0)),
    case(stats.multivariate_normal, s(2), s(2), s(2, low=0.5)),
]  # fmt: skip


def _covariance(s: Any, n: int) -> Any:
    a = s(n, n)
    return a @ a.T + n * np.eye(n)


_normal = type(stats.multivariate_normal)
_DIGITS = {"f": 1e3, "d": 1e6}  # eigenvalues of so many roundings of the largest are zero in SciPy


def _least(s: Any) -> Any:
    """The size from which on eigenvalues count."""
    dtype = dtype_of(s)
    return _DIGITS[dtype.char] * np.finfo(dtype).eps * np.max(np.abs(s))


def _is_singular(matrix: Any) -> bool:
    s = np.linalg.eigvalsh(matrix)
    return bool(np.any(s <= _least(s)))


def _normal_in_a_subspace(dev: Any, cov: Any) -> Any:
    """By the eigenvectors whose eigenvalues are not zero; minus infinity beside the space of these."""
    multivariate._PSD(shadow(cov), allow_singular=True)  # raises what SciPy raises
    s, u = np.linalg.eigh(cov)
    low = s <= _least(s)
    kept = np.where(low, 1, s)
    maha = np.sum((dev @ (u * np.where(low, 0, 1 / np.sqrt(kept)))) ** 2, axis=-1)
    y = -0.5 * (np.sum(np.where(low, 0, LOG_2_PI + np.log(kept))) + maha)
    beside = np.sqrt(np.sum((dev @ (u * low)) ** 2, axis=-1))
    return np.where(beside < 1e3 * _least(s), y, -np.inf)


@expanded(patch(_normal, "logpdf"), cases=_NORMALS)
def _normal_logpdf(self: Any, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    dim, mean, cov = _parameters(mean, cov)
    dev = _quantiles(x, dim) - mean
    if allow_singular and _is_singular(cov):
        if is_traced(cov) and cov._carries():
            raise unsupported("a multivariate normal density in its singular covariance", "Give a matrix of full rank")
        return _squeezed(_normal_in_a_subspace(dev, cov))
    factor = np.linalg.cholesky(cov)
    maha = np.sum(_whitened(factor, dev) ** 2, axis=-1)
    return _squeezed(-0.5 * (dim * LOG_2_PI + _logdet(factor) + maha))


@expanded(patch(_normal, "pdf"), cases=lambda s: [case(stats.multivariate_normal, s(3, 2), s(2), _covariance(s, 2))])
def _normal_pdf(self: Any, *args: Any, **kwds: Any) -> Any:
    return np.exp(_normal_logpdf(self, *args, **kwds))


@expanded(patch(_normal, "entropy"), cases=lambda s: [case(stats.multivariate_normal, s(2), _covariance(s, 2))])
def _normal_entropy(self: Any, mean: Any = None, cov: Any = 1) -> Any:
    dim, mean, cov = _parameters(mean, cov)
    return 0.5 * (dim * (LOG_2_PI + 1) + _logdet(np.linalg.cholesky(cov)))


def _normal_rvs(self: Any, mean: Any = None, cov: Any = 1, size: Any = 1, random_state: Any = None) -> Any:
    """SciPy's draw, which moves with the mean and with the Cholesky factor of the covariance."""
    dim, mean, cov = _parameters(mean, cov)
    centre, spread = shadow(mean), np.linalg.cholesky(shadow(cov))
    y = original(_normal.rvs)(self, centre, shadow(cov), size, random_state)
    standard = _whitened(spread, np.reshape(y, (*np.shape(y), 1) if dim == 1 else np.shape(y)) - centre)
    return np.reshape(mean + standard @ np.linalg.cholesky(cov).T, np.shape(y))[()]


patch(_normal, "rvs", _normal_rvs)
_frozen(multivariate.multivariate_normal_frozen, _normal, "mean cov", "logpdf pdf entropy rvs", "logpdf pdf")

_t = type(stats.multivariate_t)


@expanded(patch(_t, "logpdf"), cases=lambda s: [
    case(stats.multivariate_t, s(3, 2), s(2), _covariance(s, 2), s.number(2.0, 5.0)), case(stats.multivariate_t, s(3)),
])  # fmt: skip
def _t_logpdf(self: Any, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1) -> Any:
    dim, loc, shape = _parameters(loc, shape)
    factor, df = np.linalg.cholesky(shape), 1 if df is None else df
    if find_traced((df,)) is None and df == np.inf:
        return _normal_logpdf(stats.multivariate_normal, x, loc, shape)
    maha = np.sum(_whitened(factor, _quantiles(x, dim) - loc) ** 2, axis=-1)
    t = 0.5 * (df + dim)
    const = special.gammaln(t) - special.gammaln(0.5 * df) - dim / 2 * np.log(df * math.pi) - 0.5 * _logdet(factor)
    return _squeezed(const - t * np.log1p(maha / df))


@expanded(patch(_t, "pdf"), cases=lambda s: [case(stats.multivariate_t, s(3, 2), s(2), 1.0, s.number(2.0, 5.0))])
def _t_pdf(self: Any, x: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: bool = False) -> Any:
    if allow_singular and _is_singular(_parameters(loc, shape)[2]):
        raise unsupported("a singular shape", "Give a matrix of full rank")
    return np.exp(_t_logpdf(self, x, loc, shape, df))


_frozen(multivariate.multivariate_t_frozen, _t, "loc shape df", "logpdf pdf", "pdf")

# -------------------------------------------------------------------------------------------- on a simplex: Dirichlet

_dirichlet = type(stats.dirichlet)


def _checked(name: str, x: Any, alpha: Any) -> tuple[Any, Any]:
    """A point on the simplex, whose last coordinate may be left out; SciPy itself raises its errors."""
    x, alpha = inexact(x), inexact(alpha)
    if shape_of(x)[0] + 1 == shape_of(alpha)[0]:
        x = np.concatenate([x, 1 - np.sum(x, axis=0, keepdims=True)])
    inside = np.logical_and(np.min(x) >= 0, np.max(np.abs(np.sum(x, axis=0) - 1)) <= 1e-9)
    if shape_of(x)[:1] != shape_of(alpha) or not np.logical_and(inside, np.min(alpha) > 0):
        getattr(original(_dirichlet), name)(stats.dirichlet, *shadow((x, alpha)))
    return x, alpha


@expanded(patch(_dirichlet, "logpdf"), cases=lambda s: [
    case(stats.dirichlet, np.array([0.2, 0.3]), s(3, low=1.0)),
    case(stats.dirichlet, s(2, 4, low=0.1, high=0.4), s(3, low=1.0)),
])  # fmt: skip
def _dirichlet_logpdf(self: Any, x: Any, alpha: Any) -> Any:
    x, alpha = _checked("logpdf", x, alpha)
    norm = np.sum(special.gammaln(alpha)) - special.gammaln(np.sum(alpha))
    return _squeezed(np.sum(special.xlogy(alpha - 1, x.T), axis=-1) - norm)


@expanded(patch(_dirichlet, "pdf"), cases=lambda s: [case(stats.dirichlet, np.array([0.2, 0.3]), s(3, low=1.0))])
def _dirichlet_pdf(self: Any, x: Any, alpha: Any) -> Any:
    return np.exp(_dirichlet_logpdf(self, x, alpha))


_concentrations: Cases = lambda s: [case(stats.dirichlet, s(3, low=0.5))]  # noqa: E731


@expanded(patch(_dirichlet, "mean"), cases=_concentrations)
def _dirichlet_mean(self: Any, alpha: Any) -> Any:
    alpha = inexact(alpha)
    return _squeezed(alpha / np.sum(alpha))


@expanded(patch(_dirichlet, "var"), cases=_concentrations)
def _dirichlet_var(self: Any, alpha: Any) -> Any:
    alpha = inexact(alpha)
    total = np.sum(alpha)
    return _squeezed(alpha * (total - alpha) / (total * total * (total + 1)))


@expanded(patch(_dirichlet, "entropy"), cases=_concentrations)
def _dirichlet_entropy(self: Any, alpha: Any) -> Any:
    alpha = inexact(alpha)
    total, k = np.sum(alpha), shape_of(alpha)[0]
    norm = np.sum(special.gammaln(alpha)) - special.gammaln(total)
    return norm + (total - k) * special.digamma(total) - np.sum((alpha - 1) * special.digamma(alpha))


_frozen(multivariate.dirichlet_frozen, _dirichlet, "alpha", "logpdf pdf mean var entropy")

# ----------------------------------------------------------------------------------------------- counts: multinomial

_multinomial = type(stats.multinomial)


@expanded(patch(_multinomial, "logpmf"), cases=lambda s: [
    case(stats.multinomial, [1, 2, 0], 3, s(3, low=0.1, high=0.3)),
    case(stats.multinomial, np.array([[1, 2], [3, 0]]), 3, s(2, low=0.1, high=0.5)),
])  # fmt: skip
def _multinomial_logpmf(self: Any, x: Any, n: Any, p: Any) -> Any:
    """The last probability is what the others leave, where they do not add up to one, and so beside where they do."""
    p = inexact(p)
    others = np.sum(p[..., :-1], axis=-1, keepdims=True)
    off = np.abs(1 - np.sum(p, axis=-1, keepdims=True)) > 10 * np.finfo(np.float64).eps
    rest = 1.0 - others
    p = np.concatenate([p[..., :-1], np.where(off, rest, known_as(p[..., -1:], rest))], axis=-1)
    x, n = np.asarray(shadow(x)), np.asarray(shadow(n))
    y = special.gammaln(n + 1) + np.sum(special.xlogy(x, p) - special.gammaln(x + 1), axis=-1)
    possible = np.all(x >= 0, axis=-1) & np.all(x == np.floor(x), axis=-1) & (np.sum(x, axis=-1) == n)
    valid = np.logical_and(np.logical_and(np.min(p, axis=-1) >= 0, np.max(p, axis=-1) <= 1), n >= 0)
    return np.where(valid, np.where(possible, y, -np.inf), np.nan)


@expanded(patch(_multinomial, "pmf"), cases=lambda s: [case(stats.multinomial, [1, 2], 3, s(2, low=0.1, high=0.5))])
def _multinomial_pmf(self: Any, x: Any, n: Any, p: Any) -> Any:
    return np.exp(_multinomial_logpmf(self, x, n, p))


# ------------------------------------------------------------------------------------------------------- of matrices

_wishart, _invwishart, _matrix_normal = map(type, (stats.wishart, stats.invwishart, stats.matrix_normal))


def _matrices(x: Any, scale: Any) -> tuple[int, Any, Any]:
    """The dimension, the matrices along the first axis, the scale."""
    shape, x = shape_of(scale), inexact(x)
    dim = shape[0] if shape else 1
    many = len(shape_of(x)) == 3 or (dim == 1 and len(shape_of(x)) == 1)
    if not many:
        x = np.reshape(_matrix(x, dim), (dim, dim, 1))
    return dim, np.moveaxis(np.reshape(x, (dim, dim, -1)), -1, 0), _matrix(scale, dim)


def _of_numbers(dist: Any) -> Cases:
    return lambda s: [case(dist, s.number(1.0, 2.0), s.number(3.0, 5.0), s.number(0.5, 2.0))]


def _of_matrices(dist: Any) -> Cases:
    return lambda s: [case(dist, _covariance(s, 2), s.number(3.0, 5.0), _covariance(s, 2)), *_of_numbers(dist)(s)]


@expanded(patch(_wishart, "logpdf"), cases=_of_matrices(stats.wishart))
def _wishart_logpdf(self: Any, x: Any, df: Any, scale: Any) -> Any:
    dim, x, scale = _matrices(x, scale)
    factor = np.linalg.cholesky(scale)
    logdet_x, logdet = _logdet(np.linalg.cholesky(x)), _logdet(factor)
    trace = np.trace(np.linalg.solve(factor.T, np.linalg.solve(factor, x)), axis1=-2, axis2=-1)
    y = 0.5 * (df - dim - 1) * logdet_x - 0.5 * trace
    return _squeezed(y - 0.5 * df * (dim * LOG_2 + logdet) - _multigammaln(0.5 * df, dim))


@expanded(patch(_invwishart, "logpdf"), cases=_of_matrices(stats.invwishart))
def _invwishart_logpdf(self: Any, x: Any, df: Any, scale: Any) -> Any:
    dim, x, scale = _matrices(x, scale)
    factor_x, factor = np.linalg.cholesky(x), np.linalg.cholesky(scale)
    logdet_x, logdet = _logdet(factor_x), _logdet(factor)
    trace = np.sum(np.linalg.solve(factor_x, factor) ** 2, axis=(-2, -1))
    y = 0.5 * df * (logdet - dim * LOG_2) - 0.5 * (df + dim + 1) * logdet_x
    return _squeezed(y - 0.5 * trace - _multigammaln(0.5 * df, dim))


def _exponential(cls: type, logpdf: Any, cases: Cases) -> None:
    @expanded(patch(cls, "pdf"), cases=cases)
    def body(self: Any, *args: Any, **kwds: Any) -> Any:
        return np.exp(logpdf(self, *args, **kwds))


_exponential(_wishart, _wishart_logpdf, _of_numbers(stats.wishart))
_exponential(_invwishart, _invwishart_logpdf, _of_numbers(stats.invwishart))
_frozen(multivariate.wishart_frozen, _wishart, "df scale", "logpdf pdf")
_frozen(multivariate.invwishart_frozen, _invwishart, "df scale", "logpdf pdf")


@expanded(patch(_matrix_normal, "logpdf"), cases=lambda s: [
    case(stats.matrix_normal, s(2, 3), s(2, 3), _covariance(s, 2), _covariance(s, 3)),
    case(stats.matrix_normal, s(4, 2, 3), s(2, 3), rowcov=2.0, colcov=s(3, low=0.5)),
])  # fmt: skip
def _matrix_normal_logpdf(self: Any, X: Any, mean: Any = None, rowcov: Any = 1, colcov: Any = 1) -> Any:
    X = inexact(X)
    rows, columns = shape_of(X)[-2:]
    left, right = (np.linalg.cholesky(_matrix(cov, n)) for cov, n in ((rowcov, rows), (colcov, columns)))
    dev = X if mean is None else X - _wide(mean)
    white = _whitened(right, np.swapaxes(_whitened(left, np.swapaxes(dev, -1, -2)), -1, -2))
    const = rows * columns * LOG_2_PI + columns * _logdet(left) + rows * _logdet(right)
    return _squeezed(-0.5 * (const + np.sum(white * white, axis=(-2, -1))))


_exponential(_matrix_normal, _matrix_normal_logpdf, lambda s: [case(stats.matrix_normal, s(2, 2), s(2, 2))])
