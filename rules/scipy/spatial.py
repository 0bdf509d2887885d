"""Distances of ``scipy.spatial``: of two vectors, of all pairs of rows, and matrices of them in another form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import spatial
from scipy.spatial import distance

from yota_py.base.dispatch import original
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import Case, Cases, Sample, case, nondiff, primitive

from ..casting import item
from ..norms import size_power
from ..support import dtype_of, inexact, operand, shape_of, unsupported
from .spatial_metrics import COUNTS, METRICS, OF_FRACTIONS, cosine, dice_of_pairs, jensenshannon, minkowski

# ------------------------------------------------------------------------------------------ of two vectors


def _vectors(*xs: Any) -> list[Any]:
    xs = tuple(map(inexact, xs))
    if any(len(shape_of(x)) != 1 for x in xs):
        raise ValueError("Input vector should be 1-D.")
    return list(xs)


def _wide(x: Any) -> Any:
    """In double precision at least."""
    return np.multiply(np.float64(1), inexact(x))


def _pairs(*further: Any, weighted: bool = True) -> Cases:
    """Vectors of several sizes and dtypes, as lists and not contiguous, equal ones, and with weights."""

    def draw(s: Sample) -> Iterable[Case]:
        extra = [x(s) for x in further]
        yield case(s(2, 3)[0], s(6, high=4)[::2], *extra)
        yield case(s(3, dtype=np.float32), s(3, high=4, dtype=np.float32), *extra)
        yield case([1, 2, 5], s(3, low=3, high=6), *extra)
        if weighted:
            yield case(s(3), s(3, low=2, high=4), w=s(3, low=0.5, high=2))

    return draw


def _of_vectors(name: str, metric: Callable[..., Any], cases: Cases, wide: bool = False) -> None:
    """``wide`` if the result is of double precision whatever the vectors are."""

    @expanded(patch(distance, name), cases=cases)
    def body(u: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        u, v = _vectors(u, v)
        return metric(_wide(u) if wide else u, v, *args, **kwargs)


_of_vectors("sqeuclidean", METRICS["sqeuclidean"], _pairs())
_of_vectors("cityblock", METRICS["cityblock"], _pairs())
_of_vectors("chebyshev", lambda u, v, w=None: minkowski(u, v, np.inf, w), _pairs())
_of_vectors("canberra", METRICS["canberra"], _pairs(), wide=True)
_of_vectors("braycurtis", METRICS["braycurtis"], _pairs(), wide=True)


@expanded(patch(distance, "minkowski"), cases=lambda s: [
    *(case(s(3), s(3, low=2, high=4), p) for p in (1, 2, 1.5, np.inf)), case(s(3), s(3, high=4), p=3.0, w=[1, 0, 2]),
    *(case(s(3), s(3, low=2, high=4), p, s(3, low=0.5)) for p in (1, 2.5, np.inf)), case([1, 2], s(2, low=0)),
])  # fmt: skip
def _minkowski(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    """Of order 2 a number of Python's, as BLAS gives it, but not of integers."""
    numbers = w is not None or np.result_type(*(dtype_of(operand(x)) for x in (u, v))).kind in "fc"
    u, v = _vectors(u, v)
    y = minkowski(u, v, p, w)
    if p != 2:
        return y
    return item(_wide(y)) if numbers else _wide(y)


expanded(patch(distance, "euclidean"), cases=_pairs())(lambda u, v, w=None: _minkowski(u, v, 2, w))


@expanded(patch(distance, "correlation"), cases=lambda s: [
    *_pairs()(s), case(s(3), s(3), None, False), case(s(3), s(3), s(3, low=0), centered=False),
])  # fmt: skip
def _correlation(u: Any, v: Any, w: Any = None, centered: Any = True) -> Any:
    u, v = _vectors(u, v)
    if "c" in (dtype_of(u).kind, dtype_of(v).kind):
        raise TypeError("`u` and `v` must be real.")
    return cosine(u, v, w, bool(centered))


@expanded(patch(distance, "cosine"), cases=_pairs())
def _cosine(u: Any, v: Any, w: Any = None) -> Any:
    return _correlation(u, v, w, False)


@expanded(patch(distance, "mahalanobis"), cases=_pairs(lambda s: np.eye(3) + s(3, 3, low=0, high=0.3), weighted=False))
def _mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    u, v = _vectors(u, v)
    return METRICS["mahalanobis"](u, v, np.atleast_2d(operand(VI)))


@expanded(patch(distance, "seuclidean"), cases=_pairs(lambda s: s(3, low=0.5), weighted=False))
def _seuclidean(u: Any, v: Any, V: Any) -> Any:
    u, v, V = _vectors(u, v, V)
    if not shape_of(V) == shape_of(u) == shape_of(v):
        raise TypeError("V must be a 1-D array of the same dimension as u and v.")
    return item(_wide(METRICS["seuclidean"](u, v, _wide(V))))


def _probabilities(s: Sample, *shape: int, dtype: Any = float) -> list[Any]:
    return [s(*shape, low=a, high=a + 1, dtype=dtype) + np.asarray([0, a, 3], dtype) for a in (0.2, 2)]


@expanded(patch(distance, "jensenshannon"), cases=lambda s: [
    case(*_probabilities(s, 3), 2.0), case(*_probabilities(s, 3, dtype=np.float32)), case([1, 2, 9], s(3, low=0.2)),
    case(*_probabilities(s, 2, 3), base=2), case(*_probabilities(s, 2, 3), axis=1, keepdims=True),
    case(s(3, low=0.2), s(2, 3, low=0.2), axis=-1),
])  # fmt: skip
def _jensenshannon(p: Any, q: Any, base: Any = None, *, axis: Any = 0, keepdims: Any = False) -> Any:
    return jensenshannon(inexact(p), inexact(q), base, axis, keepdims)


# ------------------------------------------- of vectors that are counted: steps, but for weights and fractions

def _fractions(s: Sample) -> list[Case]:
    return [case(s(4, low=0.1, high=0.9), s(4, low=0.1, high=0.9)), case(s.mask(4), s.mask(4), s(4, low=0.5)),
            case(np.array([True, False, True]), [0, 1, 1], w=s(3, low=0.5))]  # fmt: skip


def _as_number(metric: Callable[..., Any]) -> Callable[..., Any]:
    """A metric whose distance is a number of Python's."""
    return lambda *args, **kwargs: item(metric(*args, **kwargs))


for _name, _metric in COUNTS.items():
    if _name in ("dice", "rogerstanimoto", "yule"):
        _metric = _as_number(_metric)
    elif _name == "russellrao":
        _metric = lambda u, v, w=None, m=_metric: item(m(u, v)) if w is None else m(u, v, w)  # noqa: E731
    _of_vectors(_name, _metric, _fractions, wide=True)
nondiff(patch(distance, "is_valid_dm"), cases=lambda s: [case(s(3, 3)), case(np.zeros((2, 2)), tol=0.1)])
nondiff(patch(distance, "is_valid_y"), cases=lambda s: [case(s(3)), case(s(4))])
nondiff(patch(distance, "num_obs_y"), cases=lambda s: [case(s(3)), case(s(6))])
nondiff(patch(distance, "num_obs_dm"), cases=lambda s: [case(np.zeros((3, 3)))])

# ------------------------------------------------------------------------------------ of all pairs of rows

def _distances(points: tuple[Any, ...], u: Any, v: Any, metric: Any, kwargs: dict[str, Any]) -> Any:
    """Distances of ``u`` and ``v``, which broadcast, and whose scales are made of all ``points``."""
    if callable(metric):
        name = getattr(original(metric), "__name__", "")
        if original(vars(distance).get(name)) is not original(metric):
            shape = np.broadcast_shapes(shape_of(u)[:-1], shape_of(v)[:-1])
            u, v = (np.broadcast_to(x, (*shape, shape_of(x)[-1])) for x in (u, v))
            y = [metric(u[i], v[i], **kwargs) for i in np.ndindex(*shape)]
            return np.reshape(_wide(np.stack(y)), shape) if y else np.zeros(shape)
        metric = name
    if not isinstance(metric, str):
        raise TypeError("2nd argument metric must be a string identifier or a function.")
    info = distance._METRIC_ALIAS.get(metric.lower().removeprefix("test_"))
    if info is None:
        raise ValueError(f"Unknown Distance Metric: {metric.lower()}")
    name, u, v = info.canonical_name, _wide(u), _wide(v)
    if "c" in (dtype_of(u).kind, dtype_of(v).kind):
        raise ValueError("Unsupported dtype complex128")
    if name in COUNTS:
        if name == "dice" and kwargs.get("w") is not None:
            return dice_of_pairs(u, v, **kwargs)
        u, v = (x if name in OF_FRACTIONS else np.where(np.not_equal(x, 0), 1.0, 0.0) for x in (u, v))
        return COUNTS[name](u, v, **kwargs)
    if name not in METRICS:  # those that older versions of SciPy have
        raise unsupported(f"the metric {name}", "Call cdist with another one")
    return METRICS[name](u, v, **_scales(name, points, kwargs))


def _scales(name: str, points: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a metric, with variances or the inverse of the covariances of all points by default."""
    kwargs = {key: value for key, value in kwargs.items() if value is not None}
    if name in ("seuclidean", "mahalanobis") and not kwargs.keys() & {"V", "VI"}:
        X = _wide(np.concatenate(points) if len(points) > 1 else points[0])
        m, n = shape_of(X)
        if name == "seuclidean":
            return {"V": np.var(X, axis=0, ddof=1)}
        if m <= n:
            raise ValueError(f"The number of observations ({m}) is too small; the covariance matrix is singular. For "
                             f"observations with {n} dimensions, at least {n + 1} observations are required.")
        X = X - np.mean(X, axis=0)
        return {"VI": np.linalg.inv(X.T @ X / (m - 1))}
    return {key: _wide(value) if key in ("V", "VI") else value for key, value in kwargs.items()}


def _points(name: str, x: Any) -> Any:
    x = operand(x)
    if len(shape_of(x)) != 2:
        raise ValueError(f"{name} must be a 2-dimensional array.")
    return x


def _into(out: Any, y: Any) -> Any:
    if out is None:
        return y
    if out.shape != shape_of(y):
        raise ValueError("Output array has incorrect shape.")
    out[...] = y
    return out


def _keywords(s: Sample) -> list[tuple[Any, dict[str, Any]]]:
    """Metrics with their keywords."""
    V, VI, w = s(3, low=0.5), np.eye(3) + s(3, 3, low=0, high=0.3), s(3, low=0.5)
    return [
        *((name, {}) for name in METRICS), ("minkowski", {"p": 3}), ("minkowski", {"p": 1.5, "w": w}), ("yule", {}),
        ("cosine", {"w": w}), ("chebyshev", {"w": [1, 0, 2]}), ("seuclidean", {"V": V}), ("mahalanobis", {"VI": VI}),
        ("hamming", {"w": w}), ("jaccard", {"w": w}), ("dice", {}), ("dice", {"w": w}), (distance.cityblock, {}),
        (lambda u, v: np.sum(u - v), {}), ("test_euclidean", {"w": w}),
        (lambda u, v, w: np.sum(w * np.abs(u - v)), {"w": w}),
    ]  # fmt: skip


def _shapes(*shapes: tuple[int, ...], every: int = 1) -> Cases:
    """Metrics with their keywords, or some of them, and other shapes and dtypes."""

    def draw(s: Sample) -> Iterable[Case]:
        for metric, kwargs in _keywords(s)[::every]:
            yield case(*(s(*shape, low=0.2, high=3) for shape in shapes), metric, **kwargs)
        yield case(*(s(*shape, dtype=np.float32) for shape in shapes))
        yield case(*(s(*shape[::-1]).T.tolist() for shape in shapes), metric="sqe")
        yield case(*(s(1, 3) for _ in shapes))
        yield from (case(*(s(0, 3) for _ in shapes), metric) for metric in ("euclidean", np.dot))

    return draw


@expanded(patch(distance, "cdist"), cases=_shapes((5, 3), (2, 3)))
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    XA, XB = _points("XA", XA), _points("XB", XB)
    if shape_of(XA)[1] != shape_of(XB)[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    return _into(out, _distances((XA, XB), XA[:, None], XB[None], metric, kwargs))


@expanded(patch(distance, "pdist"), cases=_shapes((5, 3), every=4))
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    X = operand(X)
    if len(shape_of(X)) != 2:
        raise ValueError(f"A 2-dimensional array must be passed. (Shape was {shape_of(X)}).")
    i, j = np.triu_indices(shape_of(X)[0], 1)
    return _into(out, _distances((X,), X[i], X[j], metric, kwargs))


@expanded(patch(distance, "squareform"), cases=lambda s: [
    case(s(6)), case(s(1)), case(s(0)), case(s(3, dtype=np.float32), "tomatrix"), case([1.0, 2.0, 3.0]),
    case(s(3, 3), checks=False), case(s(1, 1), "no", False), case(s(4, 4).T, "tovector", False),
])  # fmt: skip
def squareform(X: Any, force: Any = "no", checks: Any = True) -> Any:
    """The matrix of condensed distances, or the other way, where the upper triangle is read."""
    X = operand(X)
    shape, force = shape_of(X), force.lower()
    if force == "tomatrix" and len(shape) != 1:
        raise ValueError("Forcing 'tomatrix' but input X is not a distance vector.")
    if force == "tovector" and len(shape) != 2:
        raise ValueError("Forcing 'tovector' but input X is not a distance matrix.")
    if len(shape) == 1:
        n = int(np.ceil(np.sqrt(shape[0] * 2))) or 1
        if n * (n - 1) != shape[0] * 2:
            raise ValueError("Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer "
                             "n >= 2.")
        places = np.zeros((n, n), np.intp)  # in X, where the zeros of the diagonal stand behind the distances
        places[np.triu_indices(n, 1)] = np.arange(shape[0])
        places = places + places.T + shape[0] * np.eye(n, dtype=np.intp)
        return np.concatenate([X, np.zeros(1, dtype_of(X))])[places]
    if len(shape) != 2:
        raise ValueError("The first argument must be one or two dimensional array. "
                         f"A {len(shape)}-dimensional array is not permitted")
    if shape[0] != shape[1]:
        raise ValueError("The matrix argument must be square.")
    if checks:
        if not np.all(np.equal(X, X.T)):
            raise ValueError("Distance matrix 'X' must be symmetric.")
        if np.any(np.not_equal(np.diagonal(X), 0)):
            raise ValueError("Distance matrix 'X' diagonal must be zero.")
    return X[np.triu_indices(shape[0], 1)]


@primitive
def _farthest(u: Any, v: Any, rng: Any) -> Any:
    return distance.directed_hausdorff(u, v, rng)[1:]


nondiff(_farthest, cases=lambda s: [case(s(4, 2), s(3, 2), 0)])


@expanded(patch(distance, "directed_hausdorff"),
          cases=lambda s: [case(s(4, 2), s(3, 2)), case(s(1, 3), s(2, 3), rng=1)])  # fmt: skip
def directed_hausdorff(u: Any, v: Any, rng: Any = 0, seed: Any = 0) -> Any:
    """The distance of the pair that is farthest from being near."""
    u, v = _wide(u), _wide(v)
    i, j = _farthest(u, v, rng or seed)
    return item(np.linalg.norm(u[i] - v[j])), i, j


# ---------------------------------------------------------------------------- on the last axis, of any shapes

_broadcast: Cases = lambda s: [  # noqa: E731
    *(case(s(3, 2), s(3, 2, low=2, high=4), p) for p in (1, 2, 3.0, 1.5, np.inf)), case(s(3, 1, 2), s(4, 2)),
    case(s(2), [1, 2]), case(s(3, dtype=np.float32), s(3)), case(s(0, 2), s(2)), case(s(2, dtype=complex), s(2)),
]  # fmt: skip


@expanded(patch(spatial, "minkowski_distance_p"), cases=_broadcast)
def minkowski_distance_p(x: Any, y: Any, p: Any = 2.0) -> Any:
    d = _wide(y) - _wide(x)
    if p in (1, np.inf):
        return np.linalg.norm(d, p, axis=-1)
    return np.sum(d * d if p == 2 and dtype_of(d).kind == "f" else size_power(d, p), axis=-1)


@expanded(patch(spatial, "minkowski_distance"), cases=_broadcast)
def minkowski_distance(x: Any, y: Any, p: Any = 2.0) -> Any:
    return minkowski(_wide(x), _wide(y), p)


@expanded(patch(spatial, "distance_matrix"), cases=lambda s: [
    *(case(s(3, 2), s(4, 2), p) for p in (1, 2, 3.0, np.inf)), case(s(2, 2).T, [[1.0, 2.0]]), case(s(0, 2), s(2, 2)),
    case(s(3, 2, dtype=np.float32), s(1, 2)),
])  # fmt: skip
def distance_matrix(x: Any, y: Any, p: Any = 2.0, threshold: Any = None) -> Any:
    x, y = operand(x), operand(y)
    (_, k), (_, kk) = shape_of(x), shape_of(y)
    if k != kk:
        raise ValueError(f"x contains {k}-dimensional vectors but y contains {kk}-dimensional vectors")
    return minkowski_distance(x[:, None], y[None], p)


# ---------------------------------------------------------------------------------------- nearest neighbours

@nondiff
@primitive
def _nearest(tree: Any, x: Any, *args: Any) -> Any:
    return tree.query(x, *args)[1]


@expanded(patch(spatial.KDTree, "query"), cases=lambda s: [
    case(spatial.KDTree(s(6, 2)), s(3, 2)), case(spatial.KDTree(s(6, 2)), s(2), 3, p=1),
    case(spatial.KDTree(s(4, 2)), s(3, 2), [1, 3]), case(spatial.KDTree(s(4, 2)), s(3, 2), distance_upper_bound=9),
    case(spatial.KDTree(s(4, 2, low=0), boxsize=3), s(3, 2), 2, p=np.inf), case(spatial.KDTree(s(3, 1)), s(0, 1)),
])  # fmt: skip
def query(self: Any, x: Any, k: Any = 1, eps: Any = 0.0, p: Any = 2.0, distance_upper_bound: Any = np.inf,
          workers: Any = 1) -> Any:  # fmt: skip
    """The points are constants, and which are nearest is a step; infinitely far is what is not found."""
    i = _nearest(self, x, k, eps, p, distance_upper_bound, workers)
    x, found = _wide(x), np.less(i, self.n)
    x = x if np.ndim(i) < np.ndim(x) else np.expand_dims(x, -2)
    d = x - np.asarray(self.data)[np.where(found, i, 0)]
    if self.boxsize is not None:
        box = np.where(self.boxsize > 0, self.boxsize, np.inf)
        d = d - np.where(self.boxsize > 0, self.boxsize, 0) * np.round(d / box)
    return np.where(found, minkowski(d, 0, p), np.inf)[()], i
