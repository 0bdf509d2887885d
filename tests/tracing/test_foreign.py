"""Traced values meet objects of other libraries: right, or refused, and never a derivative of zero in silence."""

from __future__ import annotations

import array
import operator
from collections import UserList, deque
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
from numpy.testing import assert_allclose

from yota_py import grad, primitive, rrule
from yota_py.errors import LostDerivativeError, MissingRuleError, MutationError, YotaError

Function = Callable[[Any], Any]

M = np.array([[1.0, 0.0, 2.0], [0.5, 3.0, 0.0]])
V = np.array([1.0, 2.0, 3.0])
SERIES = pd.Series(V, index=[7, 5, 6])
SINGLE = pd.Series(np.linspace(-1, 2, 1000), dtype=np.float32)
OTHER = pd.Series(V, index=[5, 6, 7])
FRAME = pd.DataFrame({"a": V, "b": [4.0, 5.0, 7.0], "c": [0.5, -1.0, 2.0]})
GAPS = pd.Series([1.0, np.nan, 3.0])
LABELLED = xr.DataArray(V, dims="x")
GRID = xr.DataArray(M, dims=("y", "x"))
TENSOR = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
CSR, CSC, COO = sp.csr_matrix(M), sp.csc_array(M), sp.coo_array(M)
MASKED = np.ma.array(V, mask=[False, True, False])
MATRIX = np.matrix(np.arange(9.0).reshape(3, 3))
POINTS = [np.array([0.3, 0.7, 1.1]), np.array([-0.2, 1.3, 0.4]), np.zeros(3), np.array([2.0, 0.1, -0.9])]


def _added(x: Any, y: Any) -> Any:
    x = x.copy()
    x += y
    return x


RIGHT: dict[str, Function] = {
    "data of a DataArray": lambda w: np.sum((LABELLED * w).data ** 2),
    "array * Series": lambda w: np.sum(w * SERIES),
    "Series * array": lambda w: np.sum(SERIES * w),
    "Series / array": lambda w: np.sum(SERIES / (w * w + 1)),
    "number * Series": lambda w: np.sum(np.exp(w[0] * SERIES)),
    "Series ** array": lambda w: np.sum(SERIES**w),
    "exp of -array * Series": lambda w: np.sum(np.exp(-w * SERIES)),
    "both Series": lambda w: np.sum((w * SERIES - 2.0) * SERIES),
    "residuals": lambda w: np.sum((FRAME[["b", "c"]] @ w[:2] - FRAME["a"]) ** 2),
    "mean of residuals": lambda w: ((FRAME[["b", "c"]].dot(w[:2]) - FRAME["a"]) ** 2).mean(),
    "array @ frame": lambda w: np.sum((w @ FRAME) ** 2),
    "array @ frame.T": lambda w: np.sum((w @ FRAME.T - SERIES.to_numpy()) ** 2),
    "frame * array": lambda w: np.sum(FRAME.to_numpy() * w) + (FRAME * w).to_numpy()[0, 1] ** 2,
    "values": lambda w: np.sum((w * SERIES).values ** 2),
    "np.asarray": lambda w: np.sum(np.asarray(w * SERIES) ** 2),
    "np.dot of a frame": lambda w: np.sum(np.dot(FRAME, w) ** 2),
    "dot of a Series": lambda w: SERIES.dot(w) ** 2,
    "np.where": lambda w: np.sum(np.where(SERIES > 1.5, w, 0.0) * w),
    "comparison": lambda w: np.sum(np.where(w > SERIES - 1.83, w, w * w)),
    "mask of a Series": lambda w: np.sum(w[SERIES > 1.5] ** 2),
    "index of a Series": lambda w: np.sum(w[pd.Series([2, 0])] ** 2),
    "np.concatenate": lambda w: np.sum(np.concatenate([SERIES, w]) ** 2),
    "np.stack": lambda w: np.sum(np.stack([w, SERIES]) ** 2),
    "array += Series": lambda w: np.sum(_added(w, SERIES) ** 2),
    "ufunc with a Series": lambda w: np.sum(np.logaddexp(SERIES, w)),
    "reduce": lambda w: np.add.reduce(w * SERIES) ** 2,
    "reduce of a tensor": lambda w: np.add.reduce(TENSOR * w) ** 2,
    "into an array": lambda w: np.sum(np.add(SERIES, w * w, out=np.zeros(3)) ** 2),
    "deque": lambda w: np.sum(np.concatenate([w, deque([1.0, 2.0])]) ** 2) + np.dot(deque(V), w) ** 2,
    "UserList": lambda w: np.sum(w * UserList([1.0, 2.0, 4.0])),
    "outer": lambda w: np.sum(np.multiply.outer(w, SERIES.to_numpy()) ** 2),
    "Series * list": lambda w: np.sum((w * SERIES) * [1.0, 2.0, 4.0]) + np.sum([w[0], 2.0, w[1]] * (w * SERIES)),
    "DataArray * list": lambda w: np.sum((w * LABELLED) * [1.0, 2.0, 4.0]),
    "Index": lambda w: np.sum(w * pd.Index([1.5, 2.0, 4.0])),
    "numbers that a Series gives": lambda w: sum(v * v for v in w * SERIES),
    "std with its degrees of freedom": lambda w: (w * SERIES + SERIES).std(ddof=0),
    "nullable": lambda w: np.sum(w * pd.Series([1.0, 2.0, 3.0], dtype="Float64")),
    "weighted mean": lambda w: ((w * w + 1) * LABELLED).sum() / np.sum(w * w + 1),
    "DataArray * array": lambda w: np.sum(LABELLED * w) ** 2,
    "DataArray - array": lambda w: ((GRID - w) ** 2).mean(),
    "ufunc of a DataArray": lambda w: np.sum(np.hypot(LABELLED, w)),
    "tensor * array": lambda w: np.sum((TENSOR * w).numpy() ** 2),
    "tensor as data": lambda w: np.sum((w - TENSOR.numpy()) ** 2),
    "array / tensor": lambda w: np.sum((w / TENSOR).numpy() ** 2),
    "sparse @ array": lambda w: np.sum((CSR @ w) ** 2),
    "sparse array @ array": lambda w: np.sum((CSC @ w) ** 2) + np.sum(np.exp(COO @ w)),
    "sparse matrix * array": lambda w: np.sum((CSR * w) ** 2),
    "sparse.dot": lambda w: np.sum(CSC.dot(w) ** 2),
    "array @ sparse": lambda w: np.sum((w[:2] @ CSR) ** 2) + np.sum(w @ CSC.T),
    "array * sparse matrix": lambda w: np.sum((w[:2] * CSR) ** 2),
    "sparse.T @ (sparse @ array)": lambda w: np.sum((CSR.T @ (CSR @ w)) ** 2),
    "sparse @ matrix": lambda w: np.sum((CSR @ np.outer(w, w)) ** 3),
    "matrix @ sparse": lambda w: np.sum((np.outer(w, w) @ CSC.T) ** 3),
    "sparse array * array": lambda w: (CSC * w).sum(),
    "sparse.multiply": lambda w: CSR.multiply(w).sum() ** 2,
    "sparse + array": lambda w: np.sum((CSC + np.outer(w[:2], w)) ** 2),
    "array - sparse": lambda w: np.sum((np.outer(w[:2], w) - CSC) ** 2),
    "number * sparse": lambda w: (w[0] * CSR).sum() ** 2,
    "sparse / array": lambda w: (CSR / (w + 3.0)).sum(),
    "dictionary of keys": lambda w: np.sum((sp.dok_matrix(M) @ w) ** 2) + np.sum((sp.lil_array(M) @ w) ** 2),
    "array * Fraction": lambda w: np.sum(w * Fraction(1, 3)),
    "number ** Fraction": lambda w: (1.5 + w[0] ** 2) ** Fraction(1, 3),
    "Fraction - number": lambda w: (Fraction(1, 3) - w[0].item()) ** 2,
    "range": lambda w: np.sum(w * range(3)),
    "array.array": lambda w: np.sum(w * array.array("d", [1.0, 2.0, 4.0])),
    "memoryview": lambda w: np.sum(w * memoryview(array.array("d", [1.0, 2.0, 4.0]))),
    "masked": lambda w: np.sum(w * MASKED),
    "masked on the left": lambda w: np.sum(MASKED * w),
    "ufunc of masked": lambda w: np.sum(np.multiply(w, MASKED)),
    "view of masked": lambda w: np.sum(np.multiply(w, MASKED).T) + w[0],
    "masked and numbers": lambda w: np.sum(np.multiply(w, MASKED).filled(0.0)),
    "mean of masked": lambda w: np.multiply(MASKED, w).mean(),
    "residuals of masked": lambda w: np.ma.sum((MASKED - w[0] * np.exp(w)) ** 2) + ((w - MASKED) ** 2).mean(),
    "powers of masked": lambda w: (MASKED ** w[0] / (w + 5.0)).std() + np.sum((np.sqrt(MASKED + 9.0) * w).compressed()),
    "isclose": lambda w: w[0] if np.isclose(w * SERIES, OTHER).any() else w[1],
}  # fmt: skip

RAISES: dict[str, Function] = {
    "label": lambda w: (w * SERIES)[5],
    "position that is a label": lambda w: (w * pd.Series(V, index=[2, 0, 1]))[0],
    "loc": lambda w: (w * SERIES).loc[5],
    "iloc": lambda w: (w * SERIES).iloc[0],
    "column": lambda w: np.sum((w * FRAME)["a"]),
    "in": lambda w: w[0] if 5 in w * SERIES else w[1],
    "std": lambda w: (w * SERIES + 1.0).std(),
    "var": lambda w: (w * SERIES).var(),
    "std of bools": lambda w: np.sin(w * SERIES < 2.0).std() * w[0],
    "std of a few in single precision": lambda w: (w * SERIES).astype(np.float32).std(),
    "var of many in single precision": lambda w: (w.astype(np.float32)[0] * SINGLE).var(),
    "var of many in half precision": lambda w: (w.astype(np.float32)[0] * SINGLE).astype(np.float16).var(),
    "std of many complex numbers": lambda w: (w.astype(np.float32)[0] * (SINGLE + 1j * SINGLE)).std(),
    "std of a tensor": lambda w: (w.astype(np.float32)[0] * torch.linspace(-1, 2, 1000)).std().item(),
    "sum over gaps": lambda w: np.sum(w * GAPS),
    "sums of columns": lambda w: (w * FRAME).sum().sum(),
    "iteration over columns": lambda w: w[0] * len([name for name in w * FRAME]),  # noqa: C416
    "alignment": lambda w: np.sum((w * SERIES) * OTHER),
    "alignment of a difference": lambda w: ((w * SERIES - OTHER) ** 2).sum(),
    "dimensions": lambda w: np.sum((w * LABELLED) * xr.DataArray(V, dims="z")),
    "dimensions in another order": lambda w: np.sum(
        (np.outer(w, w) * xr.DataArray(np.eye(3) + 1, dims=("a", "b"))) * xr.DataArray(MATRIX.A, dims=("b", "a"))
    ),
    "matrix": lambda w: np.sum(w * MATRIX),
    "matrix on the left": lambda w: np.sum(MATRIX * np.outer(w, w)),
    "objects": lambda w: np.sum(w * np.array([1.0, 2.0, Fraction(3)], dtype=object)),
    "np.dot of objects": lambda w: np.dot(w, np.array([1.0, 2.0, 3.0], dtype=object)),
    "Series of objects": lambda w: np.sum(w * pd.Series([1.0, 2.0, None], dtype=object)),
    "missing values": lambda w: np.sum(w * pd.Series([1.0, 2.0, None], dtype="Float64")),
    "list of fractions": lambda w: np.sum(w * [Fraction(1, 2)] * 3),
    "sparse.maximum": lambda w: CSR.maximum(w[0]).sum(),
    "Series += array": lambda w: np.sum(_added(SERIES, w)),
    "DataArray += array": lambda w: np.sum(_added(LABELLED, w)),
    "result += array": lambda w: np.sum(_added(w * SERIES, w)),
    "item of a result": lambda w: (w * SERIES).__setitem__(5, 1.0),
    "torch's function": lambda w: torch.sum(TENSOR * w).item(),
    "Series of traced numbers": lambda w: np.sum(SERIES.apply(lambda v: v * w[0])) ** 2,
    "column of a frame": lambda w: np.sum(FRAME.assign(d=w)["d"]),
    "pd.Series": lambda w: pd.Series(w).sum() ** 2,
    "copy": lambda w: np.sum((w * SERIES).copy(deep=True).loc[5]),
}  # fmt: skip

# What plain code refuses, too: the library's own error.
PLAIN_ERRORS: dict[str, Function] = {
    "Decimal": lambda w: w[0] * Decimal("0.5"), "decimals": lambda w: np.sum(w * Decimal("0.5")),
    "shapes": lambda w: np.sum(w[:2] * SERIES), "product of shapes": lambda w: np.sum(CSR @ w[:2]),
    "truth of a Series": lambda w: w[0] if w * SERIES else w[1], "label": lambda w: (w * SERIES)[99],
    "array * tensor": lambda w: np.sum((w * TENSOR).numpy()),
    "two axes": lambda w: np.sum(np.outer(w, w)[None] * FRAME),
    "ufunc of a DataArray and a list": lambda w: np.sum(np.logaddexp(w * LABELLED, [1.0, 2.0, 4.0])),
    "float of a Series": lambda w: float(w * SERIES), "missing attribute": lambda w: (w * SERIES).nothing,
}  # fmt: skip


def slope(f: Function, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """Central differences in every element."""
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size)])


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.filterwarnings("ignore:__array_wrap__ must accept context")  # PyTorch's
def test_numbers_of_other_libraries_are_arrays(name: str) -> None:
    f = RIGHT[name]
    for x in [POINTS[-1], *POINTS]:
        value, (g,) = grad(f, x)
        assert_allclose(value, f(x), rtol=1e-12)
        assert_allclose(g, slope(f, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", RAISES)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning", "ignore:__array_wrap__ must accept context")
def test_what_differs_from_an_array_is_refused(name: str) -> None:
    """Also where the values happen to be equal: at zero."""
    for x in POINTS:
        with pytest.raises((LostDerivativeError, MissingRuleError, MutationError)) as info:
            grad(RAISES[name], x)
        assert "test_foreign.py:" in str(info.value)


@pytest.mark.parametrize("how", [torch.tensor, torch.as_tensor, torch.from_numpy])
def test_tensors_are_not_made_of_traced_values(how: Function) -> None:
    for x in POINTS:
        with pytest.raises((LostDerivativeError, TypeError, RuntimeError)):
            grad(lambda w: how(w).sum().item(), x)


@pytest.mark.parametrize("name", PLAIN_ERRORS)
def test_errors_of_plain_code_are_raised(name: str) -> None:
    for x in POINTS:
        with pytest.raises((TypeError, ValueError, KeyError, AttributeError, NotImplementedError)) as plain:
            PLAIN_ERRORS[name](x)
        with pytest.raises(plain.type):
            grad(PLAIN_ERRORS[name], x)


def test_many_numbers_in_single_precision() -> None:
    def f(w: Any) -> Any:
        return (w[0] * SINGLE).sum() + (w[1] * SINGLE + SINGLE).std(ddof=0) + np.mean(w[2] * SINGLE)

    for w in (np.float32([2.0, 0.5, 1.0]), np.float32([0.0, 0.25, 3.0])):
        value, (g,) = grad(f, w)
        assert value.dtype == g.dtype == np.float32
        assert_allclose(value, f(w), rtol=1e-5)
        assert_allclose(g, [np.sum(SINGLE), np.std(SINGLE), np.mean(SINGLE)], rtol=1e-5)


def test_messages_name_the_type_the_operation_the_line_and_a_way_out() -> None:
    x = POINTS[0]
    with pytest.raises(LostDerivativeError, match=r"test_foreign.py:\d+: a pandas Series .*\.std.* x\.to_numpy\(\)"):
        grad(RAISES["std"], x)
    with pytest.raises(LostDerivativeError, match=r"test_foreign.py:\d+: \.iloc of a Series .* x\.to_numpy\(\)"):
        grad(RAISES["iloc"], x)
    with pytest.raises(MissingRuleError, match=r"test_foreign.py:\d+: csc_array\.maximum .* x\.toarray\(\)"):
        grad(lambda w: CSC.maximum(w[0]).sum(), x)
    with pytest.raises(LostDerivativeError, match=r"test_foreign.py:\d+: a torch Tensor .* x\.numpy\(\)"):
        grad(lambda w: torch.dot(TENSOR, w), x)
    with pytest.raises(MutationError, match=r"test_foreign.py:\d+: .* Series in place.* y = y \+ b"):
        grad(RAISES["Series += array"], x)


@primitive
def described(x: Any) -> Any:
    """Makes an object of a number."""
    return {1.0, x} if x > 0.5 else Fraction(float(x))


rrule(described)(lambda x: (described(x), lambda dy: (dy,)))


def test_an_object_that_an_operation_makes_of_traced_values_is_refused() -> None:
    for x in (0.25, 1.0, 2.0):
        with pytest.raises(LostDerivativeError, match=r"described returned an object of type (set|Fraction)"):
            grad(lambda w: w * len(str(described(w))), x)


def test_a_number_is_not_iterated_over() -> None:
    """Of what ends in one, such as an item."""
    for f in (lambda w: sum(w[0]), lambda w: np.mean(list((w * SERIES).to_numpy()[0])), lambda w: max(w[1])):
        for x in POINTS:
            with pytest.raises(TypeError, match="not iterable"):
                grad(f, x)


def test_a_number_times_a_list_repeats_it() -> None:
    def f(w: Any) -> Any:
        return sum(np.argmax(w) * [w[0], 2.0]) * w[1]

    for x in [point for point in [*POINTS, *POINTS] if point.any()]:  # elsewhere than at a tie
        value, (g,) = grad(f, x)
        assert_allclose(value, f(x))
        assert_allclose(g, slope(f, x), rtol=1e-5, atol=1e-6)
        for wrong in (lambda w: w[0] * [1.0, 2.0], lambda w: operator.add(w[0].item(), [1.0])):
            with pytest.raises(TypeError, match=r"non-int of type .*float64|integer|list"):
                grad(wrong, x)


def test_a_tensor_is_not_written_into() -> None:
    def f(w: Any) -> Any:
        t = TENSOR.clone()
        t += w
        return t.sum().item()

    for x in POINTS:
        with pytest.raises(YotaError, match=r"test_foreign.py:\d+: .* Tensor in place.* y = y \+ b"):
            grad(f, x)
