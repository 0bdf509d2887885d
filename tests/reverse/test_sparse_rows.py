"""``sparse_rows=True``: the rows of a gradient are those of the dense one, whatever is done with the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sets import examples

from yota_py import Rows, config, explain, gradient, jit, value_and_grad

pytestmark = pytest.mark.usefixtures("every_policy")

BY_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "an array": lambda E, i: np.sum(np.sin(E[i])),
    "a matrix of indices": lambda E, i: np.sum(E[np.reshape(i, (2, 2))] ** 2),
    "a list": lambda E, i: np.sum(E[[1, -1]] ** 3),
    "a number": lambda E, i: np.sum(E[2] * E[-3]),
    "a computed number": lambda E, i: np.sum(E[i[0]] ** 2),
    "a tuple": lambda E, i: np.sum(E[(i,)]),
    "a slice": lambda E, i: np.sum(E[1:4] ** 2) + np.sum(E[::-2] ** 2),
    "several reads": lambda E, i: np.sum(E[i] * E[i[::-1]]) + E[0, 0] * 0 + np.sum(E[4]),
    "a read of a read": lambda E, i: E[i][0][1] ** 2,
    "what is read is not used": lambda E, i: np.sum(E[1] ** 2) + 0.0 * len(E[i]),
    "nothing": lambda E, i: np.sum(i * 1.0) + 0 * np.sum(E[i]),
    "shapes are no reads": lambda E, i: np.sum(E[i]) * len(E) * E.shape[1],
    "a decision": lambda E, i: np.sum(E[i]) if np.sum(E) > -1e9 else np.sum(E[0]),
    "in Python": lambda E, i: sum(np.sum(E[k] ** 2) for k in range(3)),
    "narrow indices": lambda E, i: np.sum(E[i.astype(np.int8)] ** 2),
}
DENSE: dict[str, Callable[[Any, Any], Any]] = {
    "elements": lambda E, i: np.sum(E[i, 0]),
    "a mask": lambda E, i: np.sum(E[E[:, 0] > 0] ** 2),
    "all of it": lambda E, i: np.sum(E) + np.sum(E[i]),
    "columns": lambda E, i: np.sum(E[:, 1]),
    "transposed": lambda E, i: np.sum(E.T[0] * 2),
    "a product": lambda E, i: np.sum(E[i] @ E.T),
}
BY_ROWS["several reads"] = lambda E, i: np.sum(E[i] * E[i[::-1]]) + np.sum(E[4])


def table(rng: np.random.Generator, dtype: Any = float) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(6, 2)).astype(dtype), rng.integers(-6, 6, 4)


@pytest.mark.parametrize("name", BY_ROWS)
def test_rows_are_those_of_the_gradient(name: str) -> None:
    f, rng = BY_ROWS[name], np.random.default_rng(0)
    for _ in range(4):
        E, i = table(rng)
        value, rows = value_and_grad(f, sparse_rows=True)(E, i)
        assert_allclose(value, f(E, i))
        assert isinstance(rows, Rows) and rows.count == 6
        assert rows.values.shape == (*rows.indices.shape, 2) and rows.indices.ndim == 1
        assert rows.indices.dtype.kind == "i" and np.all((rows.indices >= 0) & (rows.indices < 6))
        assert_allclose(rows.dense(), gradient(f)(E, i), atol=1e-14)


@pytest.mark.parametrize("name", DENSE)
def test_what_is_used_otherwise_has_an_array(name: str) -> None:
    f, rng = DENSE[name], np.random.default_rng(0)
    for _ in range(3):
        E, i = table(rng)
        dE = gradient(f, sparse_rows=True)(E, i)
        assert isinstance(dE, np.ndarray)
        assert_array_equal(dE, gradient(f)(E, i))


def test_containers_positions_and_dtypes() -> None:
    def f(x: Any, params: Any, i: Any) -> Any:
        return np.sum(params["E"][i] * x) + params["b"] ** 2, params["b"]

    rng = np.random.default_rng(1)
    for dtype in (np.float32, complex):
        for _ in range(3):
            E, i = table(rng, dtype)
            run = value_and_grad(lambda *args: tuple(map(np.real, f(*args))), (1, 0), has_aux=True, sparse_rows=True)
            (_, aux), (params, dx) = run(2.0, {"E": E, "b": 3.0, "n": 2}, i)
            assert aux == 3.0 and params["b"] == 6.0 and params["n"] is None
            assert params["E"].values.dtype == dtype
            assert_allclose(params["E"].dense(), np.bincount(i % 6, minlength=6)[:, None] * [2.0, 2.0])
            assert_allclose(dx, np.sum(E[i]).real, rtol=1e-5)


def test_vectors_and_empty_reads() -> None:
    none = np.array([], int)
    for _ in range(3):
        rows = gradient(lambda x: x[2] ** 2 + np.sum(x[none]) + np.sum(x[[0, 0]]), sparse_rows=True)(np.arange(4.0))
        assert_array_equal(rows.dense(), [2.0, 0.0, 4.0, 0.0])
        rows = gradient(lambda x, i: np.sum(x[i]), sparse_rows=True)(np.ones((3, 0)), np.array([1, 2]))
        assert rows.values.shape == (2, 0) and rows.dense().shape == (3, 0)
        rows = gradient(lambda x, i: np.sum(x[i]), sparse_rows=True)(np.ones((3, 2, 2)), np.array([1, 2]))
        assert_array_equal(rows.dense()[:, 0, 0], [0.0, 1.0, 1.0])


def test_a_step_by_rows() -> None:
    def loss(E: Any, i: Any) -> Any:
        return np.sum((E[i] - 1.0) ** 2)

    @jit
    def step(E: Any, i: Any) -> Any:
        value, rows = value_and_grad(loss, sparse_rows=True)(E, i)
        np.subtract.at(E, rows.indices, 0.1 * rows.values)
        return value, rows

    rng = np.random.default_rng(2)
    E, _ = table(rng)
    want = E.copy()
    for _ in range(5):
        i = rng.integers(-6, 6, 4)
        value, rows = step(E, i)
        assert type(rows) is Rows
        assert_allclose(value, loss(want, i))
        want -= 0.1 * gradient(loss)(want, i)
        assert_allclose(E, want)


def test_loops_and_what_is_derived_of_rows() -> None:
    def f(E: Any, i: Any) -> Any:
        h = np.zeros(2)
        for k in i:
            h = np.tanh(h + E[k])
        return np.sum(h)

    rng = np.random.default_rng(3)
    for n in (0, 3, 40):
        for _ in range(3):
            E, i = rng.normal(size=(6, 2)), rng.integers(0, 6, n)
            found = gradient(f, sparse_rows=True)(E, i)
            assert_allclose(found.dense() if isinstance(found, Rows) else found, gradient(f)(E, i), atol=1e-14)
            if n == 3:
                dense = gradient(lambda E, i=i: np.sum(gradient(f, sparse_rows=True)(E, i).dense() ** 2))(E)
                want = gradient(lambda E, i=i: np.sum(gradient(f)(E, i) ** 2))(E)
                assert_allclose(dense, want, rtol=1e-9, atol=1e-12)
                norm = gradient(lambda E, i=i: np.sum(gradient(f, sparse_rows=True)(E, i).values ** 2))(E)
                assert norm.shape == E.shape and np.all(np.isfinite(norm))


def test_wrong_uses() -> None:
    E = np.ones((3, 2))
    for transform in (value_and_grad, gradient):
        with pytest.raises(ValueError, match="sparse_rows is for arguments"):
            transform(lambda: np.sum(E[1]), wrt=E, sparse_rows=True)
    with pytest.raises(IndexError, match="out of bounds"):
        gradient(lambda E: np.sum(E[[7]]), sparse_rows=True)(E)


def test_it_says_what_it_is() -> None:
    config.compile = "always"
    f = value_and_grad(BY_ROWS["an array"], sparse_rows=True)
    for _ in range(3):
        f(*table(np.random.default_rng(0)))
    assert "value_and_grad(argnums=0, sparse_rows=True)" in str(explain(f))


@settings(max_examples=examples(4, share=10), deadline=None)
@given(st.integers(0, 2**31), st.lists(st.sampled_from(sorted(BY_ROWS)), min_size=1, max_size=4))
def test_sums_of_reads(seed: int, names: list[str]) -> None:
    rng = np.random.default_rng(seed)

    def f(E: Any, i: Any) -> Any:
        return sum(BY_ROWS[name](E, i) ** 2 for name in names)

    for _ in range(3):
        E, i = table(rng)
        assert_allclose(gradient(f, sparse_rows=True)(E, i).dense(), gradient(f)(E, i), atol=1e-10)
