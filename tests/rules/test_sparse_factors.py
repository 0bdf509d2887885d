"""Factors of constant sparse matrices, made outside of the function or inside, solve for traced right sides."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from caching import entries, is_compiled
from numpy.testing import assert_allclose
from scipy.sparse.linalg import factorized, splu

from yota_py import MissingRuleError, check_grads, grad, jit, pullback
from yota_py.errors import LostDerivativeError

A = sp.csc_array(np.diag([3.0, 2.5, 4.0, 3.0]) + np.diag([1.0, -0.5, 0.3], 1) + np.diag([0.2, 0.4], -2))
AC = sp.csc_array(A * (1 + 0.3j) + sp.eye_array(4, k=1) * 0.5j)
X = np.array([0.3, -1.0, 2.0, 0.7])
LU, LUC, SOLVE, ILU = splu(A), splu(AC), factorized(A), sla.spilu(A, drop_tol=0.2)
MODEL = SimpleNamespace(lu=LU, solve=LU.solve, all=[LU, LUC], named={"ilu": ILU})
solve_of_name = LU.solve


def steps(u: Any) -> Any:
    for _ in range(7):
        u = LU.solve(A @ u + 0.1 * np.sin(u))
    return u


def local() -> Callable[[Any], Any]:
    lu, solve = splu(A), splu(A).solve
    return lambda x: lu.solve(x) + solve(x, "T")


SOLVING: dict[str, Callable[[Any], Any]] = {
    "global": lambda x: LU.solve(x), "transposed": lambda x: LU.solve(x, "T"),
    "adjoint": lambda x: LU.solve(x, trans="H"),
    "by keyword": lambda x: LU.solve(rhs=x), "columns": lambda x: LU.solve(np.stack([x, x**2, np.sin(x)], 1)),
    "one column": lambda x: LU.solve(x[:, None]), "rows": lambda x: LU.solve(np.stack([x, x**2]).T, "T"),
    "incomplete": lambda x: ILU.solve(x), "incomplete, transposed": lambda x: ILU.solve(x, "T"),
    "factorized": lambda x: SOLVE(x), "method": lambda x: solve_of_name(x, "T"), "closure": local(),
    "attribute": lambda x: MODEL.lu.solve(x) + MODEL.solve(x), "list": lambda x: MODEL.all[0].solve(x),
    "dict": lambda x: MODEL.named["ilu"].solve(x), "steps": steps,
    "inside": lambda x: splu(A).solve(x), "inside, transposed": lambda x: sla.splu(A).solve(x, "T"),
    "factorized inside": lambda x: factorized(A)(x), "incomplete inside": lambda x: sla.spilu(A, drop_tol=0.2).solve(x),
    "of a sum": lambda x: splu((2.0 * A + sp.eye_array(4)).tocsc()).solve(x),
    "complex factors": lambda x: LUC.solve(x), "complex factors, T": lambda x: LUC.solve(x, "T"),
    "complex factors, H": lambda x: LUC.solve(x, "H"), "complex": lambda x: LUC.solve(x * (1 + 2j), "N"),
    "complex, T": lambda x: LUC.solve(x * (1 + 2j), "T"), "complex, H": lambda x: LUC.solve(x * (1 + 2j), "H"),
    "other values": lambda x: LU.perm_r * x + LU.shape[0] * x + LU.L @ x + LU.U @ LU.solve(x),
    "numbers": lambda x: LU.solve(np.ones(4)) * x, "integers": lambda x: LU.solve(np.arange(4)) * x,
}  # fmt: skip


@pytest.mark.parametrize("name", SOLVING)
def test_solutions(name: str) -> None:
    f = SOLVING[name]
    if name != "closure":  # which nobody sees who is not given the function itself
        check_grads(f, X)

    def total(x: Any) -> Any:
        return np.sum(np.abs(f(x)) ** 2)

    for x in (X, X + 1, X * 2, np.abs(X)):
        value, (dx,) = grad(total, x)
        assert_allclose(value, total(x), rtol=1e-12)
        assert_allclose(dx, [(total(x + e) - total(x - e)) / 2e-6 for e in 1e-6 * np.eye(4)], rtol=1e-5, atol=1e-7)
        assert_allclose(jit(f)(x), f(x), rtol=1e-12)
    assert is_compiled(total)
    assert len(entries(total)) == 1


def test_single_precision() -> None:
    lu = splu(A.astype("f4"))
    value, (dx,) = grad(lambda x: np.sum(lu.solve(x) ** 2), X.astype("f4"))
    assert value.dtype == dx.dtype == np.float32
    assert grad(lambda x: np.sum(LU.solve(x) ** 2), X.astype("f4"))[1][0].dtype == np.float32


def test_second_derivatives_of_steps() -> None:
    check_grads(lambda x: LU.solve(x * LU.solve(x * x)), X)


@pytest.mark.parametrize("f", [
    lambda x: LU.solve(x[:3]), lambda x: LU.solve(x * 1j), lambda x: LU.solve(x, "X"), lambda x: LU.solve([x[0]] * 4),
    lambda x: LU.solve(x[0]), lambda x: LU.nothing, lambda x: LU.solve(np.outer(x, x)[None]),
    lambda x: splu(A[:2]).solve(x), lambda x: splu(A * 0.0).solve(x),
])  # fmt: skip
def test_what_scipy_raises_is_raised(f: Any) -> None:
    with pytest.raises(Exception) as plain:
        f(X)
    with pytest.raises(type(plain.value)) as traced:
        grad(lambda x: np.sum(f(x)), X)
    assert str(traced.value).replace("Factored.", "") == str(plain.value) or "solve()" in str(plain.value)


def test_incomplete_factors_of_traced_values_are_refused() -> None:
    with pytest.raises((MissingRuleError, LostDerivativeError), match="spilu"):
        grad(lambda x: np.sum(sla.spilu(sp.csc_array(A * x[0])).solve(x)), X)


def test_a_name_that_is_bound_to_other_factors(every_policy: None) -> None:
    space = SimpleNamespace(lu=LU, solve=LU.solve)

    def loss(x: Any) -> Any:
        return np.sum(space.lu.solve(x) ** 2) + np.sum(space.solve(x))

    for k in (1.0, 2.0, 0.5, 3.0):
        space.lu, space.solve = splu(A * k), splu(A * k * 2.0).solve
        assert_allclose(grad(loss, X)[0], loss(X))
        dx = LU.solve(2 * LU.solve(X), "T") / k**2 + LU.solve(np.ones(4), "T") / (2 * k)
        assert_allclose(grad(loss, X)[1][0], dx)
    for lu in (LUC, splu(A.astype("f4")), splu(sp.csc_array(np.eye(4))), splu(sp.csc_array(np.eye(4) + 0.5j))):
        space.lu = lu
        x = X.astype("f4")
        value, (dx,) = grad(lambda x: np.real(loss(x)), x)
        assert_allclose(value, np.real(loss(x)), rtol=1e-5)
        assert dx.dtype == np.float32


def test_a_pullback_is_that_of_the_factors_that_the_value_was_computed_with() -> None:
    space = SimpleNamespace(lu=LU)
    for _ in range(3):
        space.lu = LU
        _, back = pullback(lambda x: space.lu.solve(x), X)
        space.lu = splu(5.0 * A)
        assert_allclose(back(np.ones(4))[0], LU.solve(np.ones(4), "T"))


def test_a_matrix_that_changes_between_calls() -> None:
    matrix = A.copy()
    f = lambda x: np.sum(splu(matrix).solve(x) + factorized(matrix)(x))  # noqa: E731
    for k in (1.0, 2.0, 0.5):
        matrix.data[:] = A.data * k
        assert_allclose(grad(f, X)[0], np.sum(LU.solve(X)) * 2 / k)


def test_they_are_what_they_are() -> None:
    def f(x: Any) -> Any:
        lu = MODEL.lu
        assert isinstance(lu, sla.SuperLU)
        assert lu is LU
        assert lu.shape == (4, 4)
        return np.sum(lu.solve(x)) * lu.nnz

    assert grad(f, X)[0] == f(X)
    assert type(MODEL.lu) is type(MODEL.all[0]) is sla.SuperLU
