"""Masks decide shapes in inner derivatives too, and second derivatives of functions with masks are compiled."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import explain, gradient

times = np.array([3.0, 2.0, 2.0, 1.0])
weights = np.array([0.5, 1.5, -1.0, 2.0])


def of_a_captured_mask(x):
    return np.sum((weights * x)[times >= 2] ** 3)


def of_masks_in_a_loop(x):
    total = 0.0
    for t in np.unique(times):
        total = total + np.log(np.sum(np.exp((weights * x)[times >= t])))
    return total


def of_its_own_mask(x):
    y = weights * x
    return np.sum(y[y > 0] ** 3)


@pytest.mark.parametrize("f", [of_a_captured_mask, of_masks_in_a_loop, of_its_own_mask])
def test_second_derivative(f):
    slope = gradient(f)
    second = gradient(lambda x: slope(x))
    second.compile(0.7)
    for x in (0.7, 0.9, 1.3):
        h = 1e-5
        assert_allclose(second(x), (slope(x + h) - slope(x - h)) / (2 * h), rtol=1e-7)
    assert explain(second)[0].calls == 3
