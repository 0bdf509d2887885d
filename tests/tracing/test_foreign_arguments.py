"""Objects of other libraries as arguments: refused where a derivative is wanted; otherwise data, read at each call."""

from __future__ import annotations

import array
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
import xarray as xr
from agreement import agree
from caching import entries, is_compiled
from numpy.testing import assert_allclose

from yota_py import grad, jit, pullback, value_and_grad
from yota_py.errors import NotDifferentiableError

W = np.array([0.3, 0.7])


class Parameters(dict):  # type: ignore[type-arg]
    """A container that nobody has registered."""


class Wrapped:
    """Gives an array when asked for one."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.ones(2)


WITH_FLOATS: dict[str, Any] = {
    "Series": pd.Series([1.0, 2.0]), "frame": pd.DataFrame({"a": [1.0], "name": ["b"]}), "Index": pd.Index([1.0, 2.0]),
    "nullable": pd.Series([1.0, None], dtype="Float64"), "DataArray": xr.DataArray([1.0, 2.0]),
    "Dataset": xr.Dataset({"a": ("x", [1.0, 2.0])}), "sparse": sp.csr_matrix(np.eye(2)),
    "dictionary of keys": sp.dok_array((2, 2)),
    "tensor": torch.ones(2), "parameter": torch.ones(2, requires_grad=True), "Fraction": Fraction(1, 2),
    "Decimal": Decimal("1.5"), "array.array": array.array("d", [1.0]), "memoryview": memoryview(np.ones(2)),
    "set": {1.0, 2.0}, "own dict": Parameters(a=1.0), "own array": Wrapped(),
}  # fmt: skip
WITHOUT_FLOATS: dict[str, Any] = {
    "integers": pd.Series([1, 2]), "names": pd.Series(["a", "b"]), "sparse": sp.csr_array(np.eye(2, dtype=int)),
    "frame": pd.DataFrame({"a": [1], "name": ["b"]}), "range": range(3), "dates": pd.date_range("2020", periods=2),
    "tensor": torch.arange(3), "set": {1, 2},
}  # fmt: skip


def _ignores(w: Any, data: Any) -> Any:
    return np.sum(w * w)


@pytest.mark.parametrize("name", WITH_FLOATS)
def test_a_gradient_that_would_be_of_another_librarys_type_is_refused(name: str) -> None:
    data = WITH_FLOATS[name]
    for differentiate in (grad, pullback):
        with pytest.raises(NotDifferentiableError, match=r"^test_foreign_arguments.py:\d+: .* data is .* Pass "):
            differentiate(_ignores, W, data)
        with pytest.raises(NotDifferentiableError, match=r"\['a'\]"):
            differentiate(_ignores, W, {"a": data})
    for _ in range(3):
        assert_allclose(value_and_grad(_ignores)(W, data)[1], 2 * W)
        assert_allclose(grad(_ignores, W, data=data)[1][0], 2 * W)


@pytest.mark.parametrize("name", WITHOUT_FLOATS)
def test_what_has_no_derivative_gets_none(name: str) -> None:
    for _ in range(3):
        _, (g, none) = grad(_ignores, W, WITHOUT_FLOATS[name])
        assert_allclose(g, 2 * W)
        assert none is None


def test_a_result_of_another_librarys_type_is_not_differentiated_in() -> None:
    series = pd.Series([1.0, 2.0])
    with pytest.raises(NotDifferentiableError, match=r"x is of type Series.* Pass x\.to_numpy\(\)"):
        grad(lambda w: grad(lambda x: np.sum(x), w * series)[0], W)


class Attributes(dict[str, Any]):
    __getattr__ = dict.__getitem__


def test_a_dict_whose_attributes_are_its_items() -> None:
    with pytest.raises(NotDifferentiableError, match=r"p is of type Attributes.* a list, tuple or dict of them"):
        grad(lambda p: np.sum(p.a**2), Attributes(a=W))


# ---------------------------------------------------------------------- data that changes between calls


def _frame(w: Any, data: Any) -> Any:
    return np.mean((data[["a", "b"]] @ w - data["y"]) ** 2)


def _array(w: Any, data: Any) -> Any:
    return np.sum((w * data) ** 2)


def _product(w: Any, data: Any) -> Any:
    return np.sum((data @ w) ** 2)


def _tensor(w: Any, data: Any) -> Any:
    return np.sum((w - data.numpy()) ** 2)


def _write_frame(data: Any, value: float) -> None:
    data.loc[0, "a"] = value


def _write_items(data: Any, value: float) -> None:
    data[0] = value


def _write_data(data: Any, value: float) -> None:
    data.data[0] = value


def _write_indices(data: Any, value: float) -> None:
    data.indices[:] = data.indices[::-1].copy()
    data.data[:] = value


DATA: dict[str, tuple[Callable[..., Any], Callable[[], Any], Callable[[Any, float], None]]] = {
    "frame": (_frame, lambda: pd.DataFrame({"a": [1.0, 2], "b": [3.0, 1], "y": [0.0, 1]}), _write_frame),
    "Series": (_array, lambda: pd.Series([1.0, 2.0]), _write_items),
    "DataArray": (_array, lambda: xr.DataArray([1.0, 2.0]), _write_items),
    "tensor": (_tensor, lambda: torch.tensor([1.0, 2.0]), _write_items),
    "sparse": (_product, lambda: sp.csr_matrix(np.array([[1.0, 2.0], [0.0, 3.0]])), _write_data),
    "sparse array": (_product, lambda: sp.coo_array(np.array([[1.0, 2.0], [0.0, 3.0]])), _write_data),
    "indices": (_product, lambda: sp.csc_matrix(np.array([[1.0, 0.0], [2.0, 3.0]])), _write_indices),
}  # fmt: skip


def _slope(f: Callable[..., Any], w: np.ndarray, data: Any, h: float = 1e-6) -> np.ndarray:
    return np.array([(f(w + h * e, data) - f(w - h * e, data)) / (2 * h) for e in np.eye(w.size)])


@pytest.mark.parametrize("name", DATA)
def test_data_that_is_changed_in_place_is_read_again(name: str) -> None:
    f, make, write = DATA[name]
    data, differentiate = make(), value_and_grad(f)
    captured, step = value_and_grad(lambda w: f(w, data)), jit(lambda w: f(w, data) * 2)
    for call in range(6):
        if call % 2:
            write(data, float(call))
        value, g = differentiate(W + call / 8, data)
        assert_allclose(value, f(W + call / 8, data))
        assert_allclose(g, _slope(f, W + call / 8, data), rtol=1e-5, atol=1e-6)
        value, g = captured(W + call / 8)
        assert_allclose(value, f(W + call / 8, data))
        assert_allclose(g, _slope(f, W + call / 8, data), rtol=1e-5, atol=1e-6)
        assert_allclose(step(W), 2 * f(W, data))
        differentiate(W, make())  # others in between


# ------------------------------------------------------------------------------------ compiled products


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.dia_matrix, sp.bsr_array])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_with_a_sparse_matrix_are_compiled(make: Callable[..., Any], transposed: bool) -> None:
    matrix = make(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.5]]))
    other, adjoint = make(np.eye(2)), matrix.T.copy()

    def f(w: Any, y: Any) -> Any:
        back = matrix.T if transposed else adjoint
        return np.sum((matrix @ w - y) ** 2) + np.sum((back @ y) * w) + np.sum(other @ y)

    x, y = np.array([0.3, 0.7, 1.1]), np.array([1.0, -2.0])
    for call in range(6):
        agree(f, x + call / 4, y * call)
        if call == 3:
            matrix.data[...] *= 2
    if not transposed or matrix.format not in ("dia", "bsr"):  # which are transposed by making another one
        assert is_compiled(f)
        assert sum(entry.program.calls for entry in entries(f)) > 3


def test_a_pullback_is_that_of_the_matrix_that_the_value_was_computed_with() -> None:
    matrix = sp.csr_matrix(np.eye(2))
    _, back = pullback(lambda w: matrix @ w, W)
    matrix.data[:] = 5.0
    assert_allclose(back(np.ones(2))[0], [1.0, 1.0])


@pytest.mark.parametrize("make", [
    lambda: sp.random(2, 2, density=1.0, rng=np.random.default_rng()), lambda: sp.diags_array(np.random.rand(2)),
])  # fmt: skip
def test_a_random_matrix_is_drawn_at_each_call(make: Callable[[], Any]) -> None:
    def f(w: Any) -> Any:
        return np.sum(make() @ w)

    assert len({float(grad(f, W)[0]) for _ in range(4)}) == 4


@pytest.mark.parametrize("draw", [
    lambda: pd.Series(np.arange(1000.0)).sample(1).sum(), lambda: torch.rand(1).item(),
    lambda: sp.random_array((4, 4), density=1.0).sum(),
])  # fmt: skip
def test_random_numbers_that_libraries_draw_are_drawn_at_each_call(draw: Callable[[], Any]) -> None:
    def f(w: Any) -> Any:
        return np.sum(w * draw())

    assert len({float(grad(f, W)[0]) for _ in range(4)}) > 1
