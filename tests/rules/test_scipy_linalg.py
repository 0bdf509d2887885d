"""Programs with scipy.linalg as its users write them: compiled, with other inputs, in all spellings, at odd places."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.linalg as sla
from scipy.linalg import cho_factor, cho_solve, expm, lu_factor, lu_solve, solve_triangular

from yota_py import check_grads, grad, gradient, jit, value_and_grad
from yota_py.errors import LostDerivativeError, MissingRuleError

rng = np.random.default_rng(11)
X, Y, WEIGHTS = rng.normal(size=(5, 2)), rng.normal(size=5), np.arange(16.0).reshape(4, 4)


def kernel(p: Any) -> Any:
    squares = np.sum((X[:, None] - X[None]) ** 2, 2)
    return np.exp(-squares / (2 * p[0] ** 2)) * p[1] ** 2 + (p[2] ** 2 + 0.1) * np.eye(5)


def by_cho_solve(p: Any) -> Any:
    c = cho_factor(kernel(p), lower=True)
    return Y @ cho_solve(c, Y) / 2 + np.sum(np.log(np.diag(c[0])))


def by_triangles(p: Any) -> Any:
    L = scipy.linalg.cholesky(kernel(p), lower=True, overwrite_a=True, check_finite=False)
    a = solve_triangular(L.T, solve_triangular(L, Y, lower=True))
    return Y @ a / 2 + np.log(np.diag(L)).sum()


def by_lu(a: Any) -> Any:
    factors = lu_factor(a)
    return np.sum(lu_solve(factors, np.ones(3), trans=1) ** 2) + np.log(np.abs(np.prod(np.diag(factors[0]))))


def kalman(p: Any) -> Any:
    F, H = np.array([[1.0, p[0]], [0.0, 1.0]]), np.array([[1.0], [0.0]])
    return np.log(sla.det(sla.solve_discrete_are(F.T, H, np.eye(2) * p[1] ** 2, np.eye(1) * p[2] ** 2)))


def low_rank(a: Any) -> Any:
    u, s, vt = sla.svd(a, full_matrices=False)
    return np.sum((u[:, :2] * s[:2]) @ vt[:2] * WEIGHTS[:3, :3])


def of_vectors(a: Any) -> Any:
    w, v = sla.eigh(a + a.T)
    return np.sum(v @ np.diag(np.exp(-w)) @ v.T * WEIGHTS[:3, :3])


def null_projector(a: Any) -> Any:
    n = sla.null_space(a[:2])
    return np.sum(n @ n.T * WEIGHTS[:3, :3])


def near(*shape: int) -> Callable[[], Any]:
    return lambda: rng.normal(size=shape) / 2 + 3 * np.eye(*shape)


def anywhere(n: int) -> Callable[[], Any]:
    """Matrices with real, complex and negative eigenvalues."""
    return lambda: rng.normal(size=(n, n))


def positive() -> Any:
    return rng.uniform(0.5, 1.5, size=3)


PROGRAMS: list[tuple[Any, Callable[[], Any]]] = [
    (by_cho_solve, positive), (by_triangles, positive), (by_lu, near(3, 3)), (kalman, positive), (low_rank, near(3, 3)),
    (of_vectors, near(3, 3)), (null_projector, near(3, 3)),
    (lambda a: np.sum(sla.solve(a @ a.T, np.ones(3), assume_a="pos") ** 2), near(3, 3)),
    (lambda a: np.sum(expm(a / 9)) + sla.det(a) + sla.norm(a) + np.sum(sla.inv(a)), near(3, 3)),
    (lambda a: np.sum(np.abs(sla.eigvals(a)) ** 2), anywhere(3)),
    (lambda a: np.sum(np.abs(sla.eig(a)[1]) ** 4), anywhere(3)),
    (lambda a: np.max(np.abs(np.linalg.eigvals(a))), anywhere(3)),
    (lambda a: np.sum(np.abs(np.linalg.eig(a)[1]) ** 4), anywhere(3)),
    (lambda a: np.sum(np.abs(sla.sqrtm(a)) ** 2), anywhere(2)), (lambda a: np.sum(np.abs(sla.logm(a))), anywhere(2)),
    (lambda a: np.sum(np.abs(sla.fractional_matrix_power(a, 0.3))), anywhere(2)),
    (lambda a: np.sum(np.linalg.lstsq(a, np.arange(4.0), rcond=None)[0] ** 2), near(4, 3)),
    (lambda a: np.sum(sla.lstsq(a, np.arange(4.0))[1]), near(4, 3)),
    (lambda c: np.sum(sla.solve_toeplitz((c, c / 5), np.ones(3)) * sla.matmul_toeplitz(c, Y[:3])), positive),
    (lambda d: np.sum(sla.solveh_banded([np.ones(3) / 4, d], np.ones(3)) ** 2), positive),
    (lambda a: sla.solve_continuous_lyapunov(a, -a @ a.T)[0, 1], near(2, 2)),
    (lambda a: np.sum(sla.block_diag(a, 2 * a, [[1.0, 2.0]]) ** 2) + sla.circulant(a[0])[0] @ Y[:2], near(2, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("f", "draw"), PROGRAMS)
def test_compiled_programs_with_other_inputs(f: Any, draw: Callable[[], Any]) -> None:
    x = draw()
    grad.compile(f, x)
    for _ in range(4):
        value, (dx,) = grad(f, x)
        np.testing.assert_allclose(value, f(x), rtol=1e-9)
        np.testing.assert_allclose(dx, gradient(lambda z: f(z))(x), rtol=1e-7, atol=1e-9)
        slope = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(x.size).reshape(-1, *x.shape)]
        np.testing.assert_allclose(np.ravel(dx), slope, rtol=1e-4, atol=1e-4)
        x = draw()
    np.testing.assert_allclose(jit(f)(x), f(x), rtol=1e-9)


def test_spellings() -> None:
    a = near(3, 3)()
    inverse = sla.inv
    want = -np.linalg.inv(a).T @ np.ones((3, 3)) @ np.linalg.inv(a).T

    def with_default(x: Any, fn: Any = sla.inv) -> Any:
        return np.sum(fn(x))

    for f in (
        with_default, lambda x: np.sum(scipy.linalg.inv(x)), lambda x: np.sum(inverse(x)),
        lambda x: np.sum(sla.inv(a=x)), lambda x: np.sum([*map(sla.inv, [x])]),
        lambda x: np.sum(functools.partial(sla.inv, overwrite_a=True)(x)),
        lambda x: np.sum(sla.inv([list(row) for row in x])),
    ):  # fmt: skip
        np.testing.assert_allclose(value_and_grad(f)(a)[1], want)
    np.testing.assert_allclose(grad(lambda x: np.sum(sla.solve(b=np.ones(3), a=x)), a)[1][0],
                               grad(lambda x: np.sum(np.linalg.solve(x, np.ones(3))), a)[1][0])  # fmt: skip


def test_what_may_be_overwritten_is_not() -> None:
    a = near(3, 3)()
    a.flags.writeable = False
    kept = a.copy()

    def f(x: Any) -> Any:
        y = 2 * x
        c, _ = sla.cho_factor(y, overwrite_a=True)
        return np.sum(sla.inv(y, True)) + np.sum(c) + np.sum(y * y)

    def plain(x: Any) -> Any:
        y = 2 * x
        return np.sum(sla.inv(y)) + np.sum(sla.cho_factor(y)[0]) + np.sum(y * y)

    grad.compile(f, a)
    np.testing.assert_allclose(grad(f, a)[1][0], grad(plain, a)[1][0])
    np.testing.assert_array_equal(a, kept)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_dtypes_are_kept(dtype: Any) -> None:
    a = near(3, 3)().astype(dtype)
    for fn in (sla.inv, sla.expm, sla.cholesky, sla.sqrtm):
        assert grad(lambda x, fn=fn: np.sum(np.abs(fn(x))), a)[1][0].dtype == dtype


@pytest.mark.parametrize("call", [
    lambda x: sla.inv(x), lambda x: sla.cholesky(x), lambda x: sla.lu(x)[1], lambda x: sla.lu_factor(x)[0],
    lambda x: sla.qr(x)[0], lambda x: sla.svd(x)[1], lambda x: sla.eigh(x)[1], lambda x: sla.eigvals(x),
    lambda x: sla.expm(x), lambda x: sla.sqrtm(x), lambda x: sla.pinv(x), lambda x: sla.lstsq(x, np.zeros(0))[0],
    lambda x: sla.solve(x, np.zeros(0)), lambda x: sla.polar(x)[0], lambda x: sla.null_space(x), lambda x: sla.cosm(x),
    lambda x: sla.solve_sylvester(x, x, x), lambda x: np.linalg.eig(x)[1], lambda x: np.linalg.svd(x)[0],
])  # fmt: skip
def test_matrices_of_nothing(call: Any) -> None:
    assert grad(lambda x: np.sum(np.abs(call(x))), np.zeros((0, 0)))[1][0].shape == (0, 0)


@pytest.mark.parametrize(("call", "x"), [
    (lambda x: sla.inv(x), np.ones((2, 3))), (lambda x: sla.inv(x), np.ones((2, 2))),
    (lambda x: sla.cholesky(x), -np.eye(2)),
    (lambda x: sla.inv(x), np.full((2, 2), np.nan)), (lambda x: sla.norm(x), np.full(3, np.nan)),
    (lambda x: sla.solve(x, np.ones(4)), np.eye(3)), (lambda x: sla.solve(x, np.ones(3), assume_a="no"), np.eye(3)),
    (lambda x: sla.companion(x), np.zeros(3)), (lambda x: sla.cosm(x), np.ones((2, 3))),
    (lambda x: sla.polar(x, "no"), np.eye(2)),
    (lambda x: sla.solve_continuous_are(np.eye(2), np.eye(2), x, np.eye(2)), np.array([[1.0, 2.0], [0.0, 1.0]])),
])  # fmt: skip
def test_bad_input_raises_what_scipy_raises(call: Any, x: Any) -> None:
    with pytest.raises(Exception) as plain:
        call(x)
    with pytest.raises(type(plain.value)) as ours:
        grad(lambda x: np.sum(call(x)), x)
    assert str(ours.value) == str(plain.value)


def test_second_derivatives_where_values_are_equal() -> None:
    at = 2 * np.eye(2) + np.array([[0.0, 0.3], [0.3, 0.0]])

    def weighted(x: Any) -> Any:
        return np.sum((sla.expm(x) + sla.polar(x)[0] + sla.inv(x)) * WEIGHTS[:2, :2])

    for x in (np.eye(2), at):
        check_grads(gradient(weighted), x)
    np.testing.assert_allclose(gradient(lambda x: np.sum(sla.eigvalsh(x) ** 2))(np.eye(3)), 2 * np.eye(3))
    np.testing.assert_allclose(gradient(lambda x: np.sum(sla.svdvals(x)))(np.eye(3)), np.eye(3), atol=1e-12)


def test_structures_are_where_the_gradient_is() -> None:
    a = near(3, 3)()
    for name, outside in (
        ("pos", np.tril(a, -1)), ("lower triangular", np.triu(a, 1)), ("diagonal", a - np.diag(np.diag(a))),
    ):  # fmt: skip
        dx = gradient(lambda x, name=name: np.sum(sla.solve(x, np.ones(3), assume_a=name)))(a)
        assert np.all(dx[outside != 0] == 0) and np.any(dx)


def test_riccati_equations_in_what_has_to_be_symmetric() -> None:
    a, b, q, r = near(2, 2)() / 4, rng.normal(size=(2, 1)), np.eye(2), np.eye(1)

    def of_roots(solve: Any) -> Callable[..., Any]:
        return lambda q, r: solve(a, b, q @ q.T, r @ r.T) * WEIGHTS[:2, :2]

    check_grads(of_roots(lambda *args: sla.solve_continuous_are(*args)), q, r)
    check_grads(of_roots(lambda *args: sla.solve_discrete_are(*args)), q, r)


def test_without_a_formula() -> None:
    a = near(3, 3)()
    with pytest.raises(LostDerivativeError, match=r"scipy\.linalg\.hessenberg"):
        gradient(lambda x: np.sum(sla.hessenberg(x)))(a)
    with pytest.raises(MissingRuleError, match="subset_by_index"):
        gradient(lambda x: np.sum(sla.eigh(x, subset_by_value=(0, 9))[0]))(a)
    with pytest.raises(MissingRuleError, match="'economic'"):
        gradient(lambda x: np.sum(sla.qr(x, mode="raw")[0][0]))(a)


def test_constants_and_flags() -> None:
    total = np.sum(sla.hilbert(2))
    assert gradient(lambda x: x * total * sla.issymmetric(np.eye(2) * x))(2.0) == total
    assert sla.bandwidth(np.eye(2)) == (0, 0)


def matrices(n: int, seed: int) -> np.ndarray:
    """With eigenvalues that are real, or come in pairs."""
    return np.random.default_rng(seed).normal(size=(n, n))


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_schur_decompositions(seed: int, n: int) -> None:
    a, of_t, of_z = matrices(n, seed), *np.random.default_rng(seed).normal(size=(2, n, n))

    def real(a: Any) -> Any:
        t, z = sla.schur(a)
        return np.sum(t * of_t) + np.sum(z * of_z)

    def phaseless(a: Any) -> Any:
        t, z = sla.schur(a, output="complex")
        return np.sum(np.abs(t) ** 2 * of_t) + np.sum(np.abs(z) ** 2 * of_z)

    check_grads(real, a)
    check_grads(phaseless, a)
    check_grads(phaseless, a + 1j * matrices(n, seed + 9))


def test_schur_decompositions_of_other_structure_and_equal_eigenvalues() -> None:
    """Turns of a plane become real eigenvalues, and two equal ones: where something is determined, it is right."""
    step = value_and_grad(lambda a: np.sum(sla.schur(a)[0] ** 2))
    for middle in (-1.0, 4.0, 0.5, -2.0):
        a = np.array([[1.0, 2.0], [middle, 0.5]])
        value, slope = step(a)
        np.testing.assert_allclose(value, np.sum(a**2))
        np.testing.assert_allclose(slope, 2 * a, atol=1e-12)
    for a in (np.eye(3), np.diag([1.0, 1.0, 2.0]), np.zeros((2, 3, 3))):
        _, (slope,) = grad(lambda a: np.sum(np.trace(sla.schur(a)[0], axis1=-2, axis2=-1)), a)
        np.testing.assert_allclose(slope, np.broadcast_to(np.eye(3), a.shape), atol=1e-12)
    with pytest.raises(MissingRuleError, match="sort"):
        grad(lambda a: np.sum(sla.schur(a, sort="lhp")[0]), np.eye(2))
