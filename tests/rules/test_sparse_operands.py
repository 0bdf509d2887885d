"""SciPy's own sparse matrices beside traced numbers, arrays and matrices: ``M + k * K`` of constant ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from caching import entries
from numpy.testing import assert_allclose
from sets import each

from yota_py import LostDerivativeError, MissingRuleError, check_grads, grad, jit, value_and_grad
from yota_py.errors import MutationError

BANDS = sp.diags([-np.ones(4), 3 * np.ones(5), -0.5 * np.ones(4)], [-1, 0, 1])
B = np.linspace(1.0, 2.0, 5)
FULL = np.arange(1.0, 26.0).reshape(5, 5)
FORMATS = ("csr", "csc", "coo", "dia", "bsr", "lil", "dok")
MAKE = {f"{form}_{kind}": getattr(sp, f"{form}_{kind}") for form in FORMATS for kind in ("matrix", "array")}

# Of a number k, two constant matrices K and M, and L = k * M.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "k * K": lambda k, K, M: k * K, "K * k": lambda k, K, M: K * k, "K / k": lambda k, K, M: K / k,
    "multiply by a number": lambda k, K, M: K.multiply(k), "M + k * K": lambda k, K, M: M + k * K,
    "M - k * K": lambda k, K, M: M - k * K, "k * K - M": lambda k, K, M: k * K - M,
    "K @ L": lambda k, K, M: K @ (k * M), "L @ K": lambda k, K, M: (k * M) @ K,
    "multiply by a vector": lambda k, K, M: K.multiply(k * B),
    "by a column": lambda k, K, M: K.multiply(k * B[:, None]),
    "by an array": lambda k, K, M: K.multiply(k * FULL), "by a matrix": lambda k, K, M: K.multiply(k * M),
    "of a matrix": lambda k, K, M: (k * K).multiply(M), "K / vector": lambda k, K, M: K / (k * B),
    "by one element": lambda k, K, M: K.multiply(k * np.ones((1, 1))), "-(k * K)": lambda k, K, M: -(k * K),
    "K ** 2": lambda k, K, M: (k * K) ** 2, "power": lambda k, K, M: abs(K).power(k),
    "sum of three": lambda k, K, M: sum([k * K, M, K]), "transposed": lambda k, K, M: k * K.T + M,
    "of numbers": lambda k, K, M: 2.0 * M + k * (K / 3.0), "converted": lambda k, K, M: M + k * K.tocsc(),
    "rows": lambda k, K, M: (k * K).tocsr()[1:3], "rows before": lambda k, K, M: k * K.tocsr()[1:3, 1:],
    "kron": lambda k, K, M: sp.kron(K, k * M), "hstack": lambda k, K, M: sp.hstack([K, k * M]),
}  # fmt: skip


def dense(x: Any) -> Any:
    return x.toarray()


def pair(make: Callable[..., Any]) -> tuple[Any, Any]:
    return make(BANDS), make(sp.eye(5) * 2.0 + sp.eye(5, k=2))


@pytest.mark.parametrize("cls", MAKE)
def test_all_operations_of_all_classes(cls: str) -> None:
    K, M = pair(MAKE[cls])
    numbers = 2.0, 1.5, np.float64(0.7), np.array(1.2)
    for i, (name, f) in enumerate(OPERATIONS.items()):
        seen: list[Any] = []

        def total(k: Any, f: Any = f, seen: Any = seen) -> Any:
            y = f(k, K, M)
            seen.append((y.shape, y.dtype, isinstance(y, sp.sparray), y.format))
            return np.sum(dense(y) * np.cos(np.arange(y.shape[0] * y.shape[1])).reshape(y.shape)) ** 2

        for k in each(numbers, 2, first=i + [*MAKE].index(cls)):
            want, slope = total(k), (total(k + 1e-6) - total(k - 1e-6)) / 2e-6
            plain = seen[-1]
            value, (dk,) = grad(total, k)
            assert seen[-1][:3] == plain[:3], name
            if K.format not in ("lil", "dok"):
                assert seen[-1] == plain, name
            assert_allclose(value, want, rtol=1e-12, err_msg=name)
            assert_allclose(dk, slope, rtol=1e-5, err_msg=name)
            assert type(dk) is type(k)


ENDS: dict[str, Callable[..., Any]] = {
    "finite elements": lambda k, K, M: sla.spsolve((M + k * K).tocsc(), B),
    "product": lambda k, K, M: (K * k) @ B, "product from left": lambda k, K, M: B @ (k * K),
    "sum": lambda k, K, M: (k * K).sum(), "splu": lambda k, K, M: sla.splu((M + k * K).tocsc()).solve(k * B),
    "steps": lambda k, K, M: steps(k, K, M), "sum with an array": lambda k, K, M: np.asarray((K @ np.eye(5)) * k),
}


def steps(k: Any, K: Any, M: Any) -> Any:
    u = k * B
    for _ in range(4):
        u = sla.spsolve((M + 0.1 * k * K).tocsc(), M @ u)
    return u


@pytest.mark.parametrize("cls", ["csr_matrix", "csc_array", "coo_matrix", "dia_array", "bsr_array", "lil_matrix"])
@pytest.mark.parametrize("name", ENDS)
def test_what_comes_of_them_is_compiled(name: str, cls: str) -> None:
    K, M = pair(MAKE[cls])

    def f(k: Any) -> Any:
        return np.sum(ENDS[name](k, K, M) ** 2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.SparseEfficiencyWarning)
        if K.format != "lil":
            check_grads(f, 1.3)
        for k in (2.0, 1.5, 0.7, 1.2):
            value, (dk,) = grad(f, k)
            assert_allclose(value, f(k), rtol=1e-12)
            assert_allclose(dk, (f(k + 1e-6) - f(k - 1e-6)) / 2e-6, rtol=1e-5)
            assert_allclose(jit(f)(k), f(k), rtol=1e-12)
    if K.format != "lil":  # whose contents are not compared
        assert [entry.program.calls > 2 for entry in entries(f)] == [True]


def test_dense_arrays() -> None:
    K, M = pair(sp.csr_array)
    x = FULL / 10
    for f in (
        lambda x: K + x, lambda x: x + K, lambda x: K - x, lambda x: x - K, lambda x: K + x[0],
        lambda x: (K * x).toarray(), lambda x: (x * K).toarray(), lambda x: (K / x).toarray(),
        lambda x: K @ x, lambda x: x @ K, lambda x: K.dot(x),
        lambda x: x[:, 0] @ K, lambda x: K @ [x[0, 0], x[0, 1], 1.0, 2.0, x[3, 3]],
        lambda x: K[:1].multiply(x).toarray(), lambda x: K[:, :1].multiply(x).toarray(),
        lambda x: (K[:1] * x[0, 0]).multiply(M).toarray(), lambda x: (K[:, :1] * x[0, 0]).multiply(M[:1]).toarray(),
        lambda x: (K * x[0, 0]).multiply(M[:, 1:2]).toarray(),
    ):  # fmt: skip
        check_grads(f, x, second_order=False)


def test_dtypes_are_those_of_scipy() -> None:
    for dtype in ("f4", "f8", "c16", "i4"):
        K = sp.csr_array(BANDS).astype(dtype)
        for k in (2.0, np.float32(2.0), np.array(2.0), np.array(2.0, "f4")):
            for f in (lambda k: k * K, lambda k: K / k, lambda k: K * np.ones(5) * k, lambda k: K.multiply(k)):  # noqa: B023
                seen: list[Any] = []

                def total(k: Any, f: Any = f, seen: Any = seen) -> Any:
                    seen.append(f(k).dtype)
                    return np.real(f(k).sum())

                total(k)
                grad(total, k)
                assert seen[0] == seen[1]


def test_places_that_are_there_twice() -> None:
    check_grads(lambda v: sp.coo_array((v, ([0, 0], [1, 1]))).power(2).toarray(), np.array([1.5, 2.0]))
    check_grads(lambda v: abs(sp.coo_array((v, ([0, 0], [1, 1]))).tanh()).toarray(), np.array([1.5, -2.0]))


def test_a_matrix_that_changes_between_calls() -> None:
    K, M = pair(sp.csr_matrix)
    f = lambda k: (M + k * (2.0 * K.T.tocsr()[1:])[:, :1].sum() * K).sum()  # noqa: E731
    for i in range(4):
        value, (dk,) = grad(f, 1.5)
        assert_allclose(value, f(1.5))
        assert_allclose(dk, f(1.5) - f(0.5))
        K.data[:] *= 1.5
        M.data[0] = i


REFUSED: dict[str, Callable[..., Any]] = {
    "maximum": lambda k, K: K.maximum(k).sum(), "less": lambda k, K: (k < K).sum(), "more": lambda k, K: (k > K).sum(),
    "equal": lambda k, K: (k == K).sum(), "unequal": lambda k, K: (k != K).sum(),
    "quotient": lambda k, K: (K / (k * K)).sum(),
    "pandas": lambda k, K: np.sum(K @ (k * pd.Series(B))), "in place": lambda k, K: in_place(K, k),
    "three axes": lambda k, K: np.sum(K @ (k * np.ones((2, 5, 5)))),
    "one axis": lambda k, K: (K[[0]].tocoo()[0] * k).sum(),
}  # fmt: skip


def in_place(K: Any, k: Any) -> Any:
    K *= k
    return K.sum()


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix, sp.lil_array])
def test_what_is_refused(make: Any, name: str) -> None:
    K = make(BANDS)
    if name == "one axis" and isinstance(K, sp.spmatrix):
        return
    with pytest.raises((LostDerivativeError, MissingRuleError, MutationError), match=r"test_sparse_operands\.py:\d+"):
        grad(lambda k: REFUSED[name](k, K), 2.0)
    assert_allclose(K.toarray(), BANDS.toarray())


@pytest.mark.parametrize("f", [
    lambda k, K: K @ k, lambda k, K: k @ K, lambda k, K: k / K, lambda k, K: K + k, lambda k, K: k - K,
    lambda k, K: K @ (k * np.ones(3)), lambda k, K: K + k * K[:2], lambda k, K: K.multiply(k * np.ones(3)),
    lambda k, K: K.power(k * np.ones(3)),
])  # fmt: skip
@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix])
def test_what_scipy_raises_is_raised(make: Any, f: Any) -> None:
    K = make(BANDS)
    with pytest.raises(Exception) as plain:
        f(2.0, K)
    with pytest.raises(type(plain.value)) as traced:
        grad(lambda k: f(k, K).sum(), 2.0)
    assert str(traced.value) == str(plain.value)


def test_by_value_and_grad_as_attributes_and_methods_taken_before() -> None:
    class Model:
        def __init__(self) -> None:
            self.K, self.M = pair(sp.csr_array)

        def energy(self, k: Any) -> Any:
            return ((self.M + k * self.K) @ B).sum()

    model, times = Model(), sp.csr_array(BANDS).multiply
    for k in (1.0, 2.0, 3.0):
        assert_allclose(value_and_grad(model.energy)(k), (model.energy(k), (BANDS @ B).sum()))
        assert_allclose(value_and_grad(lambda k: times(k).sum())(k), (k * BANDS.sum(), BANDS.sum()))
