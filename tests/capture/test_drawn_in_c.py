"""Random numbers that a library's C code draws, which nobody hears of: what is traced in vain draws no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

from yota_py import grad, jit

DATA = np.arange(5.0)


def _bootstrap(x: Any) -> Any:
    return x * stats.bootstrap((DATA,), np.mean, n_resamples=5).standard_error


def _permuted(x: Any) -> Any:
    found = stats.permutation_test((DATA, DATA**2), lambda a, b: np.mean(a) - np.mean(b), n_resamples=9)
    return x * (1 + found.pvalue)


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("f", [_bootstrap, _permuted])
def test_a_step_draws_what_the_function_draws(f: Any) -> None:
    drawn = []
    for step in (f, jit(f), lambda x: grad(f, x)[0]):
        np.random.seed(0)
        drawn.append([float(step(2.0)) for _ in range(4)] + [np.random.normal()])
    assert_array_equal(drawn[1], drawn[0])
    assert_array_equal(drawn[2], drawn[0])


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
def test_an_exception_of_the_function_leaves_what_it_has_drawn() -> None:
    def f(x: Any) -> Any:
        y = _bootstrap(x)
        if y < 1e9:
            raise LookupError
        return y

    ends = []
    for step in (f, jit(f)):
        np.random.seed(0)
        with pytest.raises(LookupError):
            step(2.0)
        ends.append(np.random.normal())
    assert ends[0] == ends[1]
