"""Distances, rotations and neighbours of scipy.spatial as users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import spatial
from scipy.spatial import distance
from scipy.spatial.distance import cdist, pdist
from scipy.spatial.transform import Rotation, Slerp

from yota_py import check_grads, grad, gradient, jit, value_and_grad
from yota_py.errors import LostDerivativeError, MissingRuleError

RNG = np.random.default_rng(7)
X, Y = RNG.normal(size=(4, 2)), RNG.normal(size=(3, 2))
V = RNG.normal(size=(4, 3))
FIXED = Rotation.from_rotvec([0.1, 0.2, 0.3])


def slope(f: Callable[..., Any], x: Any, v: Any) -> float:
    h = 1e-6
    return float((f(x + h * v) - f(x - h * v)) / (2 * h))


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "mahalanobis", "jensenshannon", "cityblock"])
def test_compiled_distances(metric: str) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.exp(-cdist(x, np.abs(Y) + 3, metric))) + np.sum(distance.pdist(x, metric=metric))

    x, v = np.abs(X) + 1, RNG.normal(size=X.shape)
    grad.compile(f, x)
    for shift in (0.0, 0.1, 0.2):
        y, (dx,) = grad(f, x + shift)
        assert_allclose(y, f(x + shift))
        assert_allclose(np.sum(dx * v), slope(f, x + shift, v), rtol=1e-5)


def test_two_metrics_after_each_other() -> None:
    for metric in ("cityblock", "sqeuclidean", "cityblock"):
        f = gradient(lambda x, m: np.sum(pdist(x, m)))
        assert_allclose(np.sum(f(X, metric) * X), slope(lambda t, m=metric: np.sum(pdist(t * X, m)), 1.0, 1.0), 1e-6)


DISTANCES: dict[str, Callable[..., Any]] = {
    "euclidean": lambda u, v: distance.euclidean(u, v),
    "minkowski": lambda u, v: distance.minkowski(u, v, 3),
    "weighted": lambda u, v: distance.minkowski(u, v, 3, [1, 2]),
    "cityblock": lambda u, v: distance.cityblock(u, v),
    "chebyshev": lambda u, v: distance.chebyshev(u, v),
    "mahalanobis": lambda u, v: distance.mahalanobis(u, v, np.eye(2)),
    "jensenshannon": lambda u, v: distance.jensenshannon(u, v),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_coinciding_points(name: str) -> None:
    u = np.array([0.2, 0.8])
    f = gradient(DISTANCES[name])
    assert_allclose(f(u, u.copy()), 0)
    assert_allclose(gradient(lambda x: np.sum(f(x, u.copy())))(u), 0)


def test_cosine_of_equal_directions_is_smooth() -> None:
    u = np.array([1.0, 2.0, 2.0])
    first = gradient(lambda u, v: distance.cosine(u, v))
    assert_allclose(first(u, 2 * u), 0, atol=1e-15)
    second = [gradient(lambda x, i=i: first(x, 2 * u)[i])(u) for i in range(3)]
    assert_allclose(second, (np.eye(3) - np.outer(u, u) / 9) / 9, atol=1e-15)


def test_probabilities_of_zero() -> None:
    p, q = np.array([0.1, 0.2, 0.7, 0.0, 0.0]), np.array([0.2, 0.0, 0.8, 0.0, 0.3])
    with np.errstate(all="ignore"):
        dp = gradient(lambda p: distance.jensenshannon(p, q))(p)
    assert dp[4] == -np.inf
    step = np.eye(5)[2]
    assert_allclose(dp[2], slope(lambda p: distance.jensenshannon(p, q), p, step), rtol=1e-6)


def test_distances_in_further_arguments() -> None:
    w = np.array([0.5, 2.0])
    check_grads(lambda w, p: cdist(X, Y, "minkowski", w=w, p=p), w, 2.5, second_order=False)
    check_grads(lambda V: distance.pdist(X, "seuclidean", V=V), w, second_order=False)
    out = np.zeros((4, 3))
    assert_allclose(grad(lambda x: np.sum(cdist(x, Y, out=np.zeros((4, 3)))), X)[0], np.sum(cdist(X, Y, out=out)))


def test_refusals_and_errors() -> None:
    for f in (spatial.ConvexHull, spatial.Delaunay, spatial.KDTree):
        with pytest.raises(LostDerivativeError, match="stop_gradient"):
            grad(lambda x, f=f: np.sum(f(x).points), X)
    for f in (lambda x: cdist(x, x[:, :1]), lambda x: pdist(x[0]), lambda x: pdist(x, "none"), lambda x: cdist(x, x, 3),
              lambda x: distance.minkowski(x[0], x[1], -1), lambda x: distance.squareform(x),
              lambda x: distance.euclidean(x[0], x[1], w=[-1, 1])):  # fmt: skip
        with pytest.raises((ValueError, TypeError)) as plain:
            f(X)
        with pytest.raises(type(plain.value)) as traced:
            grad(f, X)
        assert str(traced.value)[:20] == str(plain.value)[:20]


def test_neighbours() -> None:
    tree = spatial.KDTree(Y)
    d, (dx,) = value_and_grad(lambda x: np.sum(tree.query(x)[0]), argnums=(0,))(X)
    assert_allclose(d, np.sum(tree.query(X)[0]))
    assert_allclose(dx, (X - Y[tree.query(X)[1]]) / tree.query(X)[0][:, None])
    assert np.all(gradient(lambda x: tree.query(x, distance_upper_bound=1e-9)[0][0])(X) == 0)


def test_whole_functions() -> None:
    assert_allclose(jit(lambda x: cdist(x, Y))(X), cdist(X, Y))


def test_rotations_compiled() -> None:
    def f(v: Any, x: Any) -> Any:
        r, fixed = Rotation.from_rotvec(v), Rotation.from_euler("x", 0.3)
        return np.sum((r * fixed).inv().apply(x) ** 3) + r.magnitude() * np.sum(r.as_euler("zxy"))

    grad.compile(f, V[0], V)
    for shift in (0.0, 0.1, 0.2):
        y, (dv, dx) = grad(f, V[0] + shift, V)
        assert_allclose(y, f(V[0] + shift, V))
        assert_allclose(np.sum(dv), slope(lambda v: f(v, V), V[0] + shift, np.ones(3)), rtol=1e-6)
        assert_allclose(np.sum(dx), slope(lambda x, s=shift: f(V[0] + s, x), V, np.ones((4, 3))), rtol=1e-6)


ROTATIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "quaternions": (lambda q: Rotation(q).as_rotvec(), RNG.normal(size=(3, 4))),
    "scalar first": (lambda q: Rotation.from_quat(q, scalar_first=True).as_quat(canonical=True), RNG.normal(size=4)),
    "matrix": (lambda m: Rotation.from_matrix(m).as_rotvec(degrees=True), np.eye(3) + V[:3] / 9),
    "orthogonal": (lambda m: Rotation.from_matrix(m).as_quat(), np.stack([np.eye(3), FIXED.as_matrix()])),
    "intrinsic": (lambda a: Rotation.from_euler("ZX", a, degrees=True).as_euler("xyx"), V[:, :2] * 40),
    "one angle": (lambda a: Rotation.from_euler("y", a).as_matrix(), 0.3),
    "mrp": (lambda v: Rotation.from_mrp(v).as_mrp(), V),
    "davenport": (lambda v: Rotation.from_davenport(np.eye(3), "e", v).as_matrix(), V[0]),
    "power": (lambda v: (Rotation.from_rotvec(v) ** 1.5).as_rotvec(), V / 2),
    "mean": (lambda v: Rotation.from_rotvec(v).mean(weights=[1, 2, 3, 4]).as_matrix(), V / 2),
    "parts": (lambda v: sum(r.magnitude() for r in Rotation.concatenate([Rotation.from_rotvec(v)[1:], FIXED])), V),
    "aligned": (lambda v: Rotation.align_vectors(v, V[::-1])[0].as_matrix(), V),
    "residual": (lambda v: Rotation.align_vectors(v, V[::-1], weights=[1, 2, 1, 2])[1], V),
    "slerp": (lambda v: Slerp([0, 1, 2, 3], Rotation.from_rotvec(v))([0.0, 1.2, 2.5]).as_rotvec(), V),
    "times": (lambda t: Slerp([0, 1, 2, 3], Rotation.from_rotvec(V))(t).as_matrix(), np.array([0.3, 2.5])),
}


@pytest.mark.parametrize("name", ROTATIONS)
def test_rotations(name: str) -> None:
    f, x = ROTATIONS[name]
    weights = np.cos(np.arange(np.size(f(x)))).reshape(np.shape(f(x)))
    v = np.sin(np.arange(np.size(x))).reshape(np.shape(x)) + 0.1

    def loss(x: Any) -> Any:
        return np.sum(weights * f(x))

    y, (dx,) = grad(loss, x)
    assert_allclose(y, loss(x), rtol=1e-12)
    assert_allclose(np.sum(dx * v), slope(loss, x, v), rtol=2e-6)
    if name in ("quaternions", "orthogonal", "mrp", "aligned"):
        along = gradient(lambda t: np.sum(gradient(loss)(x + t * v) * v))(0.0)
        assert_allclose(along, slope(lambda t: np.sum(gradient(loss)(x + t * v) * v), 0.0, 1.0), rtol=1e-5)


def test_rotations_made_outside() -> None:
    check_grads(lambda x: FIXED.apply(x), V[0], second_order=False)
    check_grads(lambda v: (FIXED * Rotation.from_rotvec(v)).as_quat(), V[0], second_order=False)


def test_no_rotation_is_smooth() -> None:
    check_grads(lambda v: Rotation.from_rotvec(v).as_matrix(), np.zeros(3))
    assert_allclose(gradient(lambda v: Rotation.from_rotvec(v).magnitude())(np.zeros(3)), 0)


def test_what_rotations_refuse() -> None:
    def rotation(v: Any) -> Any:
        return Rotation.from_rotvec(v)

    for f in (lambda v: rotation(v).as_davenport(np.eye(3), "e"), lambda v: rotation(v).reduce(),
              lambda v: Rotation.align_vectors(v[0], v[1])):  # fmt: skip
        with pytest.raises(MissingRuleError, match=r"as_davenport|reduce|align_vectors"):
            grad(lambda v, f=f: np.sum(f(v)), V)
    for g in (lambda v: Rotation.from_rotvec(np.append(v, 1.0)), lambda v: Rotation.from_euler("xyy", v),
              lambda v: Rotation.from_quat(np.zeros(4) * v[0]), lambda v: Rotation.from_matrix(-np.eye(3) * v[0] ** 2),
              ):  # fmt: skip
        with pytest.raises(ValueError):
            grad(lambda v, g=g: np.sum(g(v).as_quat()), V[0])


def test_items_of_rotations_are_replaced() -> None:
    def f(v: Any) -> Any:
        r = Rotation.from_rotvec(V)
        r = r * Rotation.from_rotvec(np.zeros(3) * v)
        r[0] = Rotation.from_rotvec(v)
        return np.sum(r.as_rotvec())

    assert_allclose(grad(f, V[3])[1][0], 1)
