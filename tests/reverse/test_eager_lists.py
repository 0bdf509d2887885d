"""Lists of numbers in which derivatives are wanted, as arguments of all functions: as with a trace."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from entries import OF_NUMPY, called

from yota_py.cache.modes import Gradient, Request
from yota_py.registry.registry import Primitive, Sample
from yota_py.reverse.eager import eagerly
from yota_py.tracing.stand_ins import Kept

MOST = 12  # elements


def total(y: Any) -> Any:
    """A number that depends on all that is inexact."""
    if isinstance(y, tuple | list):
        return sum((total(item) for item in y), 0.0)
    return np.sum(y * np.cos(np.arange(np.size(y))).reshape(np.shape(y))) if np.size(y) else 0.0


def taken_apart(x: Any) -> Any:
    return [taken_apart(row) for row in x] if len(np.shape(x)) > 1 else [x[i] for i in range(len(x))]


def is_of_numpys(entry: Primitive) -> bool:
    return isinstance(entry.fn, np.ufunc) or entry.fn.__module__.startswith("numpy")


@pytest.mark.parametrize("entry", [entry for entry in OF_NUMPY if entry.cases and is_of_numpys(entry)], ids=called)
def test_as_traced(entry: Primitive) -> None:
    """One argument is a list, and other arrays beside it."""
    with Kept(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in [case for draw in entry.cases for case in draw(Sample(0))]:
            arrays = [k for k, x in enumerate(case.args) if type(x) is np.ndarray and x.dtype == float and x.ndim]
            for k in arrays:
                if not 0 < case.args[k].size <= MOST or case.args[k].ndim > 2:
                    continue

                def f(*xs: Any, case: Any = case, k: int = k, arrays: Any = arrays) -> Any:
                    args: list[Any] = [*case.args]
                    for at, x in zip(arrays, xs, strict=True):
                        args[at] = taken_apart(x) if at == k else x
                    return total(entry.fn(*args, **case.kwargs)) + sum(0.0 * x.ravel()[0] for x in xs if np.size(x))

                xs = tuple(np.array(case.args[at]) for at in arrays)
                found = eagerly(f, xs, {}, None, adds=False, codes=())
                if found is None:
                    continue
                value, dxs = Gradient(None).reference(Request(f, xs, {}))[0]
                np.testing.assert_allclose(found[0][0], value, rtol=1e-12, atol=1e-300)
                for have, want in zip(found[0][1], dxs, strict=True):
                    np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.meshgrid([x[0], x[1]], x)[0] * 2), lambda x: np.sum(np.kron([x[0], x[1]], x)),
        lambda x: np.sum(np.append([x[0], x[1]], x) ** 2), lambda x: np.sum(np.outer([x[0], x[1]], x)),
        lambda x: np.dot([x[0], x[1]], x), lambda x: np.sum(np.convolve([x[0], x[1]], x) ** 2),
        lambda x: np.einsum("i,i", [x[0], x[1]], x), lambda x: np.sum(np.logspace([x[0], 1.0], x, 3)),
    ],
)  # fmt: skip
def test_these_need_no_trace(f: Any) -> None:
    for x in (np.array([1.0, 2.0]), np.array([0.3, -0.7])):
        found = Gradient(0).at_once(Request(f, (x,), {}))
        assert found is not None
        np.testing.assert_allclose(found[0][1], Gradient(0).reference(Request(f, (x,), {}))[0][1], rtol=1e-12)
