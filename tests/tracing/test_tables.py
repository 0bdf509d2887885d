"""Tables of other libraries that are made of traced values: of plain numbers, or refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

from yota_py import config, grad, gradient, jit, stop_gradient, value_and_grad
from yota_py.errors import LostDerivativeError

POINTS = [2.0, 0.5, 3.0, -1.5]


def _frame() -> pd.DataFrame:
    return pd.DataFrame({"a": [1.0, np.nan], "b": [3.0, 4.0]})


def _mean(frame: Any) -> Any:
    return frame.mean(numeric_only=True).sum()


def _written(table: Any, key: Any, value: Any, at: str = "") -> Any:
    where = getattr(table, at) if at else table
    where[key] = value
    return table


KEPT: dict[str, Callable[[Any], Any]] = {
    "DataFrame": lambda x: _mean(pd.DataFrame({"a": [x, 1.0], "b": [1.0, 2.0]})),
    "DataFrame by name": lambda x: _mean(pd.DataFrame(data={"a": [x, 1.0]})),
    "DataFrame of a number": lambda x: _mean(pd.DataFrame({"a": x}, index=[0, 1])),
    "records": lambda x: _mean(pd.DataFrame([{"a": x}, {"a": 1.0}])),
    "rows": lambda x: _mean(pd.DataFrame.from_records((x * i, i) for i in range(3))),
    "rounded": lambda x: pd.DataFrame({"a": [x + 0.123, 1.0]}).round(1)["a"].sum(),
    "numbers": lambda x: pd.DataFrame({"a": [x, 1.0], "b": ["c", "d"]}).select_dtypes("number").shape[1],
    "Series": lambda x: pd.Series([x, 1.0]).describe()["mean"],
    "type": lambda x: float(pd.Series([x, 1.0]).dtype == float),
    "type of objects": lambda x: float(pd.Series([x, 1.0], dtype=object).dtype == object),
    "integers": lambda x: float(pd.Series([np.argmin([x, 1.0]), 1]).dtype == int),
    "NaN": lambda x: pd.Series([x * np.nan, x]).sum(),
    "array": lambda x: pd.Series(np.array([x, 1.0])).sum(),
    "generator": lambda x: pd.Series(x * i for i in range(3)).describe()["max"],
    "Index": lambda x: float(pd.Index([x, 1.0]).dtype == float),
    "Index of a generator": lambda x: float(pd.Index(x * i for i in range(3)).dtype == float),
    "labels": lambda x: float(pd.Series([1, 2], index=[x, 1.0]).index.dtype == float),
    "levels": lambda x: float(pd.MultiIndex.from_tuples([(x, 1), (1.0, 2)]).levels[0].dtype == float),
    "column": lambda x: _mean(_written(_frame(), "c", [x, 1.0])),
    "column of a view": lambda x: _mean(_written(_frame(), "c", {0: x, 1: 2.0}.values())),
    "loc": lambda x: _mean(_written(_frame(), (0, "a"), x, "loc")),
    "iloc": lambda x: _mean(_written(_frame(), (0, 0), x, "iloc")),
    "at": lambda x: _mean(_written(_frame(), (0, "a"), x, "at")),
    "row": lambda x: _mean(_written(_frame(), 7, [x, 1.0], "loc")),
    "item": lambda x: _written(pd.Series([1.0, 2.0]), 0, x).sum(),
    "assign": lambda x: _mean(_frame().assign(c=lambda frame: [x, 1.0])),
    "concat": lambda x: pd.concat([pd.Series([1.0]), pd.Series([x])]).describe()["mean"],
    "fillna": lambda x: _frame().fillna({"a": x})["a"].sum(),
    "where": lambda x: pd.Series([1.0, 2.0]).where(pd.Series([True, False]), x).sum(),
    "clip": lambda x: pd.Series([1.0, 2.0]).clip(upper=x).sum(),
    "map": lambda x: pd.Series([1.0, 2.0]).map(lambda v: v * x).describe()["mean"],
    "map of a frame": lambda x: _mean(_frame().map(lambda v: v * x)),
    "apply": lambda x: _frame().apply(lambda row: row["b"] * x, axis=1).describe()["mean"],
    "groups": lambda x: _frame().groupby("b")["b"].agg(lambda g: g.sum() * x).describe()["mean"],
    "add": lambda x: pd.Series([1.0, 2.0]).add(x, fill_value=0.0).sum(),
    "cut": lambda x: pd.cut(np.array([x, 1.0, 2.5]), 2).codes.sum(),
    "Interval": lambda x: pd.Interval(-9.0, x).length,
    "Timedelta": lambda x: (pd.Timedelta(x, unit="s") * 2).total_seconds(),
    "product of a Timedelta": lambda x: (x * pd.Timedelta(1, unit="s") / 2).total_seconds(),
    "full_like": lambda x: float(xr.full_like(xr.DataArray([1.0, 2.0]), x).sum()),
    "JSON": lambda x: len(pd.DataFrame({"a": [x, 1.0]}).to_json()),
    "DataArray": lambda x: float(xr.DataArray([x, 1.0]).mean()),
    "DataArray of a number": lambda x: float(xr.DataArray(x)),
    "item of a DataArray": lambda x: float(_written(xr.DataArray([1.0, 2.0]), 0, x).sum()),
}  # fmt: skip

LOOKED_UP: dict[str, Callable[[Any], Any]] = {
    "get": lambda x: pd.Series([5.0, 6.0], index=[2.0, 3.0]).get(x, 7.0),
    "loc": lambda x: pd.Series([5.0, 6.0, 7.0, 8.0], index=sorted({*POINTS})).loc[x],
    "row": lambda x: pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]}, index=sorted({*POINTS})).loc[x, "a"],
    "in": lambda x: float(x in pd.Index([2.0, 3.0])),
    "isin": lambda x: pd.Series([1.0, 2.0]).isin([x]).sum(),
    "isna": lambda x: pd.isna(x) + pd.isna([x * np.nan, 1.0]).sum(),
    "searchsorted": lambda x: pd.Series([1.0, 2.5]).searchsorted(x),
}  # fmt: skip


@pytest.fixture(params=["auto", "always"])
def compiling(request: pytest.FixtureRequest) -> Iterator[None]:
    before, config.compile = config.compile, request.param
    yield
    config.compile = before


@pytest.mark.parametrize("name", KEPT)
def test_values_without_derivative_are_plain_numbers(name: str, compiling: None) -> None:
    def f(x: Any) -> Any:
        return KEPT[name](float(stop_gradient(x))) * x * x

    step, differentiate = jit(KEPT[name]), value_and_grad(f)
    for x in POINTS:
        want = KEPT[name](x)
        value, (g,) = grad(f, x)
        assert_allclose([value, g], [want * x * x, 2 * want * x])
        assert_allclose(differentiate(x), (want * x * x, 2 * want * x))
        assert_allclose(gradient(gradient(f))(x), 2 * want)
        assert_allclose(step(x), want)


@pytest.mark.parametrize("name", sorted(KEPT.keys() - {"integers"}))  # which have none
def test_values_with_a_derivative_are_refused(name: str) -> None:
    line = KEPT[name].__code__.co_firstlineno
    site = r"\d+" if "_written" in KEPT[name].__code__.co_names else line
    for x in POINTS[:2]:
        with pytest.raises(LostDerivativeError, match=rf"^test_tables.py:{site}: .*float\(stop_gradient"):
            grad(lambda x: KEPT[name](x) * x, x)


@pytest.mark.parametrize("name", LOOKED_UP)
def test_what_is_looked_up_needs_no_derivative(name: str, compiling: None) -> None:
    find = LOOKED_UP[name]
    for x in POINTS:
        value, (g,) = grad(lambda x: find(x) * x * x, x)
        assert_allclose([value, g], [find(x) * x * x, 2 * find(x) * x])
        assert_allclose(gradient(gradient(lambda x: find(x) * x * x))(x), 2 * find(x))


def test_what_is_found_instead_is_differentiated() -> None:
    def f(x: Any) -> Any:
        return pd.Series([5.0, 6.0], index=[2.0, 3.0]).get(x, x * x)

    for x in POINTS:
        value, (g,) = grad(f, x)
        assert_allclose([value, g], [f(x), 0.0 if x in (2.0, 3.0) else 2 * x])


@pytest.mark.parametrize(("name", "what"), [
    ("DataFrame", "pandas.DataFrame computes"), ("column", "an assignment to items of a pandas DataFrame"),
    ("loc", "an assignment to items of a pandas DataFrame"), ("item", "an assignment to items of a pandas Series"),
    ("cut", "pandas.cut computes"), ("clip", "pandas.Series.clip"),
])  # fmt: skip
def test_the_function_is_named(name: str, what: str) -> None:
    with pytest.raises(LostDerivativeError, match=re.escape(what)):
        grad(KEPT[name], 2.0)
