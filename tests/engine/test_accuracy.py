"""Compiled functions and their derivatives are as accurate as docs/accuracy.md says."""

from __future__ import annotations

import re
from functools import cache

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from benchmarks.accuracy import PAGE, ROWS, SUMS, Row, measure
from yota_py import gradient, jit

POINTS = 60


@cache
def documented() -> dict[str, list[float]]:
    """The numbers in the page's tables, by what stands in their first columns."""
    lines = re.findall(r"^\| (?!---)([^|]*) \| [^|]* \|([\d. |]*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name.strip("`"): [float(x) for x in numbers.split("|")] for name, numbers in lines}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_functions(row: Row) -> None:
    value, _, slope = documented()[row.name]
    found = measure(row, POINTS)
    assert found.value <= 1.1 * value + 0.2
    assert found.slope <= 1.1 * slope + 0.2


def test_the_page_is_complete_and_says_nothing_bad() -> None:
    known = documented()
    assert {row.name for row in ROWS} | SUMS.keys() == known.keys()
    for name, numbers in known.items():
        value, theirs, *slope = numbers
        assert value <= max(2 * theirs, 2.7), name
        assert not slope or slope[0] < 250, name


@pytest.mark.parametrize("x", [5.0, 30.0, -30.0, 300.0, -5.0, 0.0])
def test_slopes_of_what_is_nearly_one(x: float) -> None:
    """To third order, compiled and interpreted, of numbers and arrays."""
    exact = {
        np.tanh: mpmath.tanh, special.expit: lambda x: 1 / (1 + mpmath.exp(-x)),
        special.log_ndtr: lambda x: mpmath.log(mpmath.ncdf(x)),
    }  # fmt: skip
    for f, exactly in exact.items():
        with mpmath.workprec(2000):
            want = [float(mpmath.diff(exactly, mpmath.mpf(x), n)) for n in (1, 2, 3)]
        derivative = f
        for order in range(3):
            derivative = gradient(derivative)
            rtol = 1e-11 if f is special.log_ndtr else 1e-14 if order == 0 else 1e-12
            for _ in range(3):
                assert_allclose(derivative(x), want[order], rtol=rtol, atol=1e-300, err_msg=f"{f}, {order + 1}")


def test_logit_at_its_ends() -> None:
    f = jit(lambda x: special.logit(x))
    close = [np.nextafter(0.5, 1), np.nextafter(1, 0), 5e-324]
    x = np.array([0.0, 1.0, 0.5, -0.1, 1.1, np.nan, np.inf, 0.25, 0.75, *close])
    f(x)
    assert_allclose(f(x), special.logit(x), rtol=1e-15)
