"""Searches that compare: the derivative of where they end is not that of their steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

from yota_py import LostDerivativeError, grad

SEARCHES: dict[str, Callable[[Any], Any]] = {
    "golden": lambda a: optimize.golden(lambda x: (x - a) ** 2, brack=(0, 3)),
    "brent": lambda a: optimize.brent(lambda x: (x - a) ** 4 + x, brack=(0, 3)),
    "fminbound": lambda a: optimize.fminbound(lambda x, a: (x - a) ** 2, 0, 3, args=(a,)),
    "minimize_scalar": lambda a: optimize.minimize_scalar(lambda x: (x - a) ** 2).x,
    "fmin": lambda a: optimize.fmin(lambda x: (x[0] - a) ** 2, 0.0, disp=False)[0],
    "brute": lambda a: optimize.brute(lambda x: np.sum((x - a) ** 2), ((0, 2),))[0],
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_over_traced_values_are_refused(name: str) -> None:
    with pytest.raises(LostDerivativeError, match=f"{name}.*implicit function theorem"):
        grad(SEARCHES[name], 1.0)


def test_searches_that_no_traced_value_meets_are_constants() -> None:
    value, (slope,) = grad(lambda a: a * optimize.golden(lambda x: (x - 1.0) ** 2, brack=(0, 3)), 2.0)
    assert_allclose([value, slope], [2.0, 1.0], rtol=1e-7)
