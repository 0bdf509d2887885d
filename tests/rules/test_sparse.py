"""Sparse matrices with traced values: how they are made, what is done with them, and systems that are solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from scipy.sparse import csr_matrix, diags
from scipy.sparse.linalg import spsolve

from yota_py import LostDerivativeError, MissingRuleError, check_grads, grad, jit, value_and_grad

ROWS, COLS = np.array([0, 0, 1, 2, 2, 3, 1]), np.array([0, 2, 1, 2, 0, 3, 1])  # one place twice
V = np.array([2.0, 0.5, 1.5, 3.0, -0.7, 1.2, 0.9])
X = np.array([0.3, -1.0, 2.0, 0.7])
S = sp.csr_matrix(np.diag([1.0, 2.0, 3.0, 4.0]) + np.eye(4, k=1))
SA = sp.csr_array(S)
FULL = np.arange(16.0).reshape(4, 4)


def made(v: Any) -> Any:
    return sp.csr_matrix((v, (ROWS, COLS)), shape=(4, 4))


def array(v: Any) -> Any:
    return sp.csr_array((v, (ROWS, COLS)), shape=(4, 4))


MAKING: dict[str, Callable[[Any], Any]] = {
    "csr_matrix": lambda v: sp.csr_matrix((v, (ROWS, COLS)), shape=(4, 4)) @ X,
    "csc_matrix": lambda v: sp.csc_matrix((v, (ROWS, COLS)), shape=(4, 4)) @ X,
    "coo_matrix": lambda v: sp.coo_matrix((v, (ROWS, COLS)), shape=(4, 4)) @ X,
    "bsr_matrix": lambda v: sp.bsr_matrix((v, (ROWS, COLS)), shape=(4, 4)) @ X,
    "csr_array": lambda v: sp.csr_array((v, (ROWS, COLS))) @ X,
    "csc_array": lambda v: sp.csc_array((v, (ROWS, COLS)), shape=(4, 4)) @ X,
    "coo_array": lambda v: sp.coo_array((v, (ROWS, COLS)), shape=(4, 4)) @ X,
    "coo with one place twice": lambda v: sp.coo_matrix((v, (ROWS, COLS)), shape=(4, 4)).tocsc().T.data,
    "from an import": lambda v: csr_matrix((v, (ROWS, COLS)), shape=(4, 4)) @ X,
    "indptr": lambda v: sp.csr_matrix((v[:4], [0, 2, 1, 0], [0, 1, 2, 4]), shape=(3, 3)).toarray(),
    "dense": lambda v: sp.csr_matrix(np.reshape(v[:6], (2, 3))).toarray(),
    "of another": lambda v: sp.csc_matrix(made(v)).data,
    "dia": lambda v: sp.dia_array((np.reshape(v[:6], (2, 3)), [0, 1]), shape=(3, 3)).toarray(),
    "bsr blocks": lambda v: sp.bsr_array((np.reshape(v[:4], (1, 2, 2)), [0], [0, 1]), shape=(2, 2)).toarray(),
    "dtype": lambda v: sp.csr_array((v, (ROWS, COLS)), dtype=complex).toarray(),
    "diags": lambda v: sp.diags([v[:4], v[4:]], [0, 1]).toarray(),
    "diags of one": lambda v: sp.diags(v).toarray(),
    "diags of numbers": lambda v: sp.diags([v[0], v[1], v[0]], [-1, 0, 1], shape=(4, 4)) @ X,
    "diags by keywords": lambda v: diags([v[:3], v[3:]], offsets=[1, 0], shape=(4, 4), format="csr") @ X,
    "diags_array": lambda v: sp.diags_array([v[:4], v[4:]], offsets=[0, 1]) @ X,
    "spdiags": lambda v: sp.spdiags(np.stack([v[:4], v[3:]]), [0, 1], 4, 4).toarray(),
}
DOING: dict[str, Callable[[Any], Any]] = {
    "x @ A": lambda A: X @ A, "A @ X": lambda A: A @ FULL, "T": lambda A: A.T @ X, "dot": lambda A: A.dot(X),
    "scaled": lambda A: (2 * A / 3).toarray(), "A + S": lambda A: (A + S).toarray(),
    "S - A": lambda A: (S - A).toarray(),
    "A - A.T": lambda A: (A - A.T).toarray(), "eye + A": lambda A: (sp.eye(4) + A) @ X, "-A": lambda A: (-A) @ X,
    "A @ S": lambda A: (A @ S).toarray(), "S @ A": lambda A: (S @ A).toarray(),
    "A @ A.T": lambda A: (A @ A.T).toarray(),
    "A ** 2": lambda A: (A**2).toarray(), "sum": lambda A: A.sum(), "diagonal": lambda A: A.diagonal(),
    "trace": lambda A: A.trace(), "multiply": lambda A: A.multiply(A.T).toarray(),
    "times dense": lambda A: A.multiply(FULL).toarray(),
    "times a row": lambda A: A.multiply(X).toarray(), "power": lambda A: A.power(2).toarray(),
    "A[i, j]": lambda A: A[0, 2] * A[1, 1] + A[3, 0],
    "rows": lambda A: A[1:3].toarray(), "getrow": lambda A: A.getrow(2).toarray(), "data": lambda A: A.data,
    "tocsc": lambda A: A.tocsc().data,
    "abs, sqrt": lambda A: abs(A).sqrt().toarray(), "tanh": lambda A: A.tanh().toarray(),
    "hstack": lambda A: sp.hstack([A, S, A.T]).toarray(),
    "vstack": lambda A: sp.vstack([A, S]).tocsr()[2:6].toarray(),
    "block_diag": lambda A: sp.block_diag([A, S]).toarray(),
    "bmat": lambda A: sp.bmat([[A, None], [None, S]]).toarray(), "tril": lambda A: sp.tril(A).toarray(),
    "triu": lambda A: sp.triu(A, 1).toarray(),
    "kron": lambda A: sp.kron(A, S).toarray(),
    "kron of eye": lambda A: sp.kron(sp.eye(2), A, format="csr") @ np.arange(8.0),
    "spsolve": lambda A: sla.spsolve(A.tocsc(), X), "spsolve of columns": lambda A: sla.spsolve(A, np.eye(4)),
    "splu": lambda A: sla.splu(A.tocsc()).solve(X), "splu, transposed": lambda A: sla.splu(A.tocsc()).solve(X, "T"),
    "factorized": lambda A: sla.factorized(A.tocsc())(X), "cg": lambda A: sla.cg(A @ A.T + sp.eye(4), X, rtol=1e-13)[0],
    "gmres": lambda A: sla.gmres(A, X, rtol=1e-13)[0], "minres": lambda A: sla.minres(A + A.T, X, rtol=1e-14)[0],
    "spsolve_triangular": lambda A: sla.spsolve_triangular(sp.triu(A).tocsr(), X, lower=False),
    "norm": lambda A: sla.norm(A),
    "norm of columns": lambda A: sla.norm(A, 1), "norm of rows": lambda A: sla.norm(A, np.inf),
    "issparse": lambda A: A.sum() if sp.issparse(A) else 0.0,
    "coo and back": lambda A: A.tocoo().tocsr()[1].toarray(), "shape": lambda A: A.sum() * A.shape[0] * A.nnz,
}  # fmt: skip
ARRAYS: dict[str, Callable[[Any], Any]] = {
    "A * A": lambda A: (A * A).toarray(), "SA + A": lambda A: (SA + 2.0 * A).toarray(),
    "sum of rows": lambda A: A.sum(axis=1),
    "SA @ A": lambda A: (SA @ A).toarray(), "SA * A": lambda A: (SA * A).toarray(), "mean": lambda A: A.mean(axis=0),
    "A + dense": lambda A: A + FULL, "hstack": lambda A: sp.hstack([A, SA]).toarray(),
    "A / dense": lambda A: (A / (FULL + 1)).toarray(),
    "unit triangle": lambda A: sla.spsolve_triangular(sp.tril(A).tocsr(), X, unit_diagonal=True),
}  # fmt: skip
ALL = {
    **MAKING, **{f"matrix {name}": lambda v, f=f: f(made(v)) for name, f in DOING.items()},
    **{f"array {name}": lambda v, f=f: f(array(v)) for name, f in ARRAYS.items()},
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_values_and_gradients(name: str) -> None:
    check_grads(ALL[name], V, second_order=False)


def test_values_and_a_vector_together_to_second_order() -> None:
    check_grads(lambda v, x: made(v) @ x + x @ made(v), V, X)
    check_grads(lambda v, x: spsolve(made(v).tocsc(), x), V, X)


def test_a_constant_system_with_a_traced_right_side() -> None:
    check_grads(lambda x: sla.spsolve(S.tocsc(), x) + spsolve(S, x), X)
    check_grads(lambda x: sla.cg(S @ S.T, x, rtol=1e-13)[0], X, second_order=False)


def stiffness(k: Any) -> Any:
    """A rod of springs, assembled as in finite elements."""
    n = len(k)
    at = np.arange(n - 1)
    rows, cols = np.concatenate([at, at, at + 1, at + 1, [0]]), np.concatenate([at, at + 1, at, at + 1, [0]])
    return sp.coo_matrix((np.concatenate([k[1:], -k[1:], -k[1:], k[1:], k[:1]]), (rows, cols)), shape=(n, n)).tocsr()


def test_a_rod_of_springs_compiled() -> None:
    def loss(k: Any) -> Any:
        u = spsolve(stiffness(k), np.ones(len(k)))
        return np.sum(u**2)

    k = np.linspace(1.0, 2.0, 5)
    grad.compile(loss, k)
    for scale in (1.0, 1.5, 0.3):
        value, (dk,) = grad(loss, scale * k)
        dense = np.linalg.inv(stiffness(scale * k).toarray())
        assert np.isclose(value, np.sum((dense @ np.ones(5)) ** 2))
        h = 1e-6 * np.eye(5)
        assert np.allclose(dk, [(loss(scale * k + d) - loss(scale * k - d)) / 2e-6 for d in h], rtol=1e-6)
    assert np.isclose(jit(loss)(k), loss(k))
    assert np.isclose(value_and_grad(loss)(k)[0], loss(k))


def test_a_matrix_that_changes_between_calls() -> None:
    matrix = sp.csr_matrix(np.eye(3) * 2.0)
    f = lambda x: np.sum(sla.spsolve(matrix.tocsc(), x) ** 2)  # noqa: E731
    assert np.allclose(grad(f, np.ones(3))[1][0], 0.5)
    matrix.data[:] = 1.0
    assert np.allclose(grad(f, np.ones(3))[1][0], 2.0)


def test_float32_lists_and_complex() -> None:
    value, (dv,) = grad(lambda v: np.sum(made(v) @ X.astype("f4")), V.astype("f4"))
    assert value.dtype == dv.dtype == np.float32
    assert grad(lambda a: (sp.csr_array(([a, 2.0], ([0, 1], [0, 1]))) @ np.ones(2)).sum(), 3.0) == (5.0, (1.0,))
    check_grads(lambda v: made(v * 1j).conj() @ X, V)


def test_classes_and_errors_are_those_of_scipy() -> None:
    def f(v: Any) -> Any:
        assert isinstance(sp.eye(3), sp.spmatrix | sp.sparray)
        assert sp.csr_matrix((3, 3)).nnz == 0
        with pytest.raises(ValueError, match="dimension mismatch"):
            made(v) @ np.ones(3)
        with pytest.raises(AttributeError):
            made(v).nothing  # noqa: B018
        return made(v).sum()

    assert grad(f, V)[0] == V.sum()
    with pytest.raises(MissingRuleError, match="toarray"):
        grad(lambda v: made(v).max(), V)
    with pytest.raises((LostDerivativeError, MissingRuleError)):
        grad(lambda v: np.sum(sla.expm(made(v)).toarray()), V)


@pytest.mark.parametrize("f", [
    lambda a: sp.tril(a).sum(axis=None), lambda a: sp.triu(a, k=-1).toarray(),
    lambda a: sp.kron([a], np.eye(2)) @ np.ones(6),
])  # fmt: skip
def test_dense_vectors_are_read_as_matrices(f: Any) -> None:
    check_grads(f, np.array([1.0, 2.5, 4.0]))
