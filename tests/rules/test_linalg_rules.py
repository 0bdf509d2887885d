"""Rules of linear algebra and einsum: what the generic test cases do not show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_array_rules import gradient, lowered, pulled
from yota_py.rules.einsum import parse

from yota_py.errors import MissingRuleError
from yota_py.registry.kernels import Index, Map, Product, Reduce, View
from yota_py.registry.registry import primitive_of
from yota_py.testing.checks import check_grads

rng = np.random.default_rng(7)

# ------------------------------------------------------------------------------------------- products


def test_a_plain_matrix_on_the_left() -> None:
    A, x = rng.normal(size=(3, 4)), rng.normal(size=4)
    for f in (lambda v: A @ v, lambda v: np.dot(A, v), lambda v: np.matmul(A, v), lambda v: np.einsum("ij,j->i", A, v)):
        check_grads(f, x)
        for k in range(3):
            np.testing.assert_allclose(gradient(lambda v, k=k, f=f: f(v)[k], x), A[k])


def test_the_method_dot_of_a_plain_matrix() -> None:
    A = rng.normal(size=(3, 3))
    np.testing.assert_allclose(gradient(lambda x: np.sum(A.dot(x)), np.ones(3)), A.sum(axis=0))  # A is followed too


def test_products_of_vectors_and_matrices_lower_to_blas_shapes() -> None:
    A, B, x = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=4)
    for f, args in ((lambda a, b: np.sum(a @ b), (A, B)), (lambda a, v: np.sum(np.dot(a, v)), (A, x))):
        kinds = {fn.__name__: type(primitive_of(fn).kernel) for fn in lowered(f, *args)}
        assert set(kinds.values()) <= {Product, View, Reduce, Map, Index}, kinds
        assert "dot" not in kinds


def test_a_stack_times_a_matrix_is_one_tall_product() -> None:
    a, b = rng.normal(size=(5, 3, 4)), rng.normal(size=(4, 2))
    da, db = pulled(np.matmul, a, b, dy=np.ones((5, 3, 2)))
    np.testing.assert_allclose(db, np.einsum("bij,bik->jk", a, np.ones((5, 3, 2))))
    assert da.shape == a.shape


def test_products_keep_the_dtype_of_each_argument() -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.complex128)
    da, db = pulled(np.matmul, a, b, dy=np.full((2, 2), 1 + 1j))
    assert (da.dtype, db.dtype) == (np.float32, np.complex128)


def test_lists_as_matrices() -> None:
    x = rng.normal(size=2)
    check_grads(lambda v: np.dot([[1.0, 2.0], [3.0, 4.0]], v), x)
    check_grads(lambda v: np.dot([[v[0], 2.0], [3.0, v[1]]], v), x)
    check_grads(lambda v: np.average(v, weights=[1, 2]), x)
    check_grads(lambda v: np.linalg.multi_dot([np.eye(2), np.outer(v, v), v]), x)


@pytest.mark.parametrize("ord", [None, 1, 2, 3, 1.5, np.inf, -np.inf])
def test_norm_at_zero_is_flat(ord: Any) -> None:
    dx = gradient(lambda x: np.linalg.norm(x, ord), np.zeros(3))
    assert np.isfinite(dx).all() and abs(dx).sum() == 0


def test_norm_of_rows_where_one_is_zero() -> None:
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(gradient(lambda v: np.linalg.norm(v, axis=1).sum(), x), [[0.6, 0.8], [0, 0]])


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_decompositions_of_symmetric_matrices(dtype: Any) -> None:
    b = rng.normal(size=(3, 3)) + (1j * rng.normal(size=(3, 3)) if dtype == np.complex128 else 0)

    def positive(x: Any) -> Any:
        return x @ np.conj(x.T) + 2 * np.eye(3)

    check_grads(lambda x: np.linalg.cholesky(positive(x)), b)
    check_grads(lambda x: np.linalg.cholesky(positive(x), upper=True), b)
    check_grads(lambda x: np.linalg.eigvalsh(positive(x)), b)

    def projector(x: Any) -> Any:  # does not depend on the phases of the vectors
        w, v = np.linalg.eigh(positive(x))
        return np.exp(-w[0]) * np.outer(v[:, 0], np.conj(v[:, 0]))

    check_grads(projector, b)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_singular_vectors(shape: tuple[int, int], dtype: Any) -> None:
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == np.complex128 else 0)

    def parts(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return np.outer(u[:, 0], vh[0]), np.outer(u[:, 1], np.conj(u[:, 1])), np.outer(np.conj(vh[1]), vh[1]), s

    def spaces(a: Any) -> Any:  # of all vectors, and of those without a value
        u, s, vh = np.linalg.svd(a)
        q, r = np.linalg.qr(a, "complete")
        k = s.size
        return [m @ np.conj(m.T) for m in (u[:, k:], np.conj(vh[k:].T), q[:, k:], u[:, :1], r)]

    check_grads(parts, x, rtol=1e-5)
    check_grads(spaces, x, rtol=1e-5)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_gradients_lie_in_the_triangle_that_is_read(upper: bool, dtype: Any) -> None:
    a = np.array([[2.0, 0.7, 0.1], [0.5, 1.0, 0.3], [0.2, -0.4, 3.0]], dtype)
    other = np.tril(np.ones((3, 3)), -1) if upper else np.triu(np.ones((3, 3)), 1)
    a = a + 0.2j * np.ones((3, 3)) if dtype == np.complex128 else a  # also on the diagonal, where it is not read
    reads = [
        lambda x: np.sum(np.abs(np.linalg.cholesky(x, upper=upper))),
        lambda x: np.linalg.eigvalsh(x, "U" if upper else "L")[0],
        lambda x: np.exp(np.linalg.eigh(x, UPLO="U" if upper else "L")[0]).sum(),
    ]
    if not upper:
        reads.append(lambda x: np.sum(np.abs(np.linalg.pinv(x, hermitian=True)) ** 2))
    for f in reads:
        check_grads(f, a)
        for unread in (np.nan, 0.0):
            x = np.where(other, unread, a)
            dx = gradient(f, x)
            assert np.all(dx[other == 1] == 0) and np.all(np.imag(np.diagonal(dx)) == 0)
            np.testing.assert_allclose(dx, gradient(f, a))


def test_equal_eigenvalues_stay_finite() -> None:
    np.testing.assert_allclose(gradient(lambda x: np.sum(np.linalg.eigvalsh(x)), np.eye(3)), np.eye(3))
    assert np.isfinite(gradient(lambda x: np.sum(np.linalg.eigh(x)[1] ** 2), np.eye(3))).all()


def test_log_determinant_of_a_stack() -> None:
    x = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
    np.testing.assert_allclose(
        gradient(lambda a: np.sum(np.linalg.slogdet(a)[1]), x), np.swapaxes(np.linalg.inv(x), 1, 2), rtol=1e-10
    )
    check_grads(lambda a: np.linalg.slogdet(a), x + 1j * rng.normal(size=x.shape))


def test_decompositions_without_rule_name_the_way_out() -> None:
    with pytest.raises(MissingRuleError, match="'complete'"):
        gradient(lambda x: np.sum(np.linalg.qr(x, "raw")[0]), rng.normal(size=(2, 3)))
    with pytest.raises(np.linalg.LinAlgError):
        gradient(lambda x: np.linalg.slogdet(x)[1], np.zeros((2, 2)))


# --------------------------------------------------------------------------------------------- einsum


def test_labels() -> None:
    assert parse("ij,jk", [2, 2]) == ([("i", "j"), ("j", "k")], ("i", "k"))
    assert parse("ba", [2])[1] == ("a", "b")
    assert parse("...i,i", [3, 1]) == ([((".", 0), (".", 1), "i"), ("i",)], ((".", 0), (".", 1)))
    assert parse("...,...", [1, 2])[0] == [((".", 1),), ((".", 0), (".", 1))]


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "ij,kj->ki", "ij,j->i", "i,ij->j", "ijk,kl->ijl"])
def test_einsum_lowers_to_matrix_products(subscripts: str) -> None:
    sizes = {"i": 2, "j": 3, "k": 4, "l": 2}
    arrays = [rng.normal(size=[sizes[c] for c in term]) for term in subscripts.split("->")[0].split(",")]
    names = {fn.__name__ for fn in lowered(lambda *xs: np.sum(np.einsum(subscripts, *xs)), *arrays)}
    assert "matmul" in names and "einsum" not in names


def test_einsum_with_lists_of_labels() -> None:
    np.testing.assert_array_equal(gradient(lambda x: np.einsum(x, [0, 0], []), np.eye(2)), np.eye(2))
