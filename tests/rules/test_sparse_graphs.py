"""Graphs with traced weights: their Laplacian, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numpy.testing import assert_allclose
from scipy.sparse import csgraph

from yota_py import MissingRuleError, check_grads, grad, stop_gradient

W = np.array([1.0, 2.0, 0.5, 3.0, 0.7, 1.3])
ROWS, COLS = np.array([0, 1, 2, 3, 0, 0]), np.array([1, 2, 0, 0, 2, 0])
X = np.array([0.3, -1.0, 2.0, 0.7, 0.1])


def graph(w: Any) -> Any:
    return sp.csr_array((w, (ROWS, COLS)), shape=(5, 5))  # the last one is alone


MAKE: dict[str, Any] = {
    "csr_array": graph, "csc_matrix": lambda w: sp.csc_matrix((w, (ROWS, COLS)), shape=(5, 5)),
    "coo_array": lambda w: sp.coo_array((w, (ROWS, COLS)), shape=(5, 5)), "dense": lambda w: graph(w).toarray(),
}  # fmt: skip


OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"normed": True}, {"use_out_degree": True}, {"symmetrized": True, "normed": True}, {"dtype": np.float32},
)  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("make", MAKE)
def test_laplacians(make: str, options: dict[str, Any]) -> None:
    def f(w: Any) -> Any:
        lap, d = csgraph.laplacian(MAKE[make](w), return_diag=True, **options)
        return lap @ X, d, lap.shape[0] * lap.diagonal()

    if "dtype" not in options:
        check_grads(f, W)
    for w in (W, 2 * W, W[::-1]):
        value = grad(lambda w: np.sum(f(w)[0] ** 2), w)[0]
        assert_allclose(value, np.sum(f(w)[0] ** 2), rtol=1e-6 if "dtype" in options else 1e-12)


def test_of_integers_and_of_a_known_graph() -> None:
    known = graph(np.array([1, 2, 3, 4, 5, 6]))
    for f in (
        lambda k: (csgraph.laplacian(known) * k).trace(), lambda k: csgraph.laplacian(known * k, normed=True).trace(),
        lambda k: (csgraph.laplacian(known, normed=True) * k).toarray(),
    ):  # fmt: skip
        check_grads(f, 1.5)


@pytest.mark.parametrize("name", [n for n in csgraph.__all__ if n not in ("laplacian", "NegativeCycleError")])
def test_what_is_refused(name: str) -> None:
    others = {"yen": (0, 1, 2), "maximum_flow": (0, 1), "reconstruct_path": (np.zeros(5),), "construct_dist_matrix": (
        np.zeros((5, 5)),), "breadth_first_order": (0,), "depth_first_order": (0,), "breadth_first_tree": (0,),
        "depth_first_tree": (0,)}.get(name, ())  # fmt: skip
    fn = getattr(csgraph, name)
    for make in (graph, lambda w: np.outer(w, w)):
        with pytest.raises(MissingRuleError, match=rf"csgraph.{name} of a graph with traced weights .*stop_gradient"):
            grad(lambda w, make=make: np.sum(fn(make(w), *others)), W)


def test_paths_of_weights_without_derivative() -> None:
    def length(w: Any) -> Any:
        known = sp.csr_matrix((stop_gradient(w).__array__(), (ROWS, COLS)), shape=(5, 5))
        return csgraph.dijkstra(known, indices=0)[2] * w[0]

    assert grad(lambda w: 2.0 * w[0], W)[0] == 2.0
    assert_allclose(length(W), 0.7)


@pytest.mark.parametrize("ord", [None, 2, 1])
@pytest.mark.parametrize("axis", [0, 1, -1, (0,)])
def test_norms_of_rows_and_columns(ord: Any, axis: Any) -> None:
    check_grads(lambda w: sla.norm(graph(w), ord, axis=axis), W, second_order=False)
    check_grads(lambda w: sla.norm(MAKE["csc_matrix"](w * (1 + 1j)), ord, axis), W, second_order=False)


def test_norms_of_places_that_are_there_twice() -> None:
    twice = lambda v: sp.coo_array((v, ([0, 0, 1], [1, 1, 0])), shape=(2, 2))  # noqa: E731
    check_grads(lambda v: sla.norm(twice(v)) + sla.norm(twice(v), 1) + twice(v).T.diagonal().sum(), W[:3])
    check_grads(lambda v: sp.coo_array((v, ([0, 0, 1], [0, 0, 1]))).diagonal(), W[:3])
