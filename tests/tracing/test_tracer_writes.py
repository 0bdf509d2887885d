"""Tracers: what would lose a derivative, and writes."""

from __future__ import annotations

import copy
import math
import pickle
import statistics
from typing import Any

import numpy as np
import pytest
from agreement import ALL, agree
from numpy.testing import assert_allclose, assert_array_equal
from tracing import ARRAYS, NUMBERS, Function, slope

from yota_py import grad
from yota_py.errors import LostDerivativeError, MissingRuleError, MutationError, YotaError

# ----------------------------------------------------------------------------------------- what would lose a derivative

ESCAPES: dict[str, Function] = {
    "float": lambda x: float(x[0]) * 2.0,
    "complex": lambda x: abs(complex(x[0])),
    "np.float64": lambda x: np.float64(x[0]) * x[0],
    "frombuffer": lambda x: np.frombuffer(memoryview(x), dtype=np.float64).sum(),
    "vectorize": lambda x: np.sum(np.vectorize(lambda v: v * v)(x)),
    "fromiter": lambda x: np.sum(np.fromiter((v * v for v in x), float)),
    "pickle": lambda x: np.sum(pickle.loads(pickle.dumps(x))),
    "deepcopy": lambda x: np.sum(copy.deepcopy(x) * x),
    "deepcopy of a dict": lambda x: np.sum(copy.deepcopy({"a": x})["a"]),
    "copy": lambda x: np.sum(copy.copy(x) * x),
    "object array": lambda x: np.array([x[0], None], dtype=object)[0] * 2.0,
    "array of objects": lambda x: np.array([x[0]], dtype=object)[0] * 2.0,
    "memoryview": lambda x: sum(memoryview(x)),
    "tobytes": lambda x: np.frombuffer(x.tobytes()).sum(),
    "math by hand": lambda x: math.frexp(x[0])[0] * 2.0,
    "statistics": lambda x: statistics.fmean(x),
    "apply_along_axis": lambda x: np.sum(np.apply_along_axis(np.cumsum, 0, x)),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_a_derivative_is_never_lost_in_silence(name: str) -> None:
    """Either the derivative is right or the call is refused."""
    f = ESCAPES[name]
    for x in ARRAYS:
        try:
            _, (g,) = grad(f, x)
        except TypeError:  # the errors of yota_py, and Python's own where C code asks for a buffer
            continue
        except MissingRuleError:
            continue
        assert_allclose(g, slope(f, x), rtol=1e-5, atol=1e-6)


def test_object_arrays_are_refused() -> None:
    with pytest.raises(LostDerivativeError, match="dtype=object"):
        grad(lambda x: np.sum(x), np.array([1.0, 2.0], dtype=object))

    def f(x: Any) -> Any:
        out = np.empty(1, dtype=object)
        out[0] = x
        return out[0] * 3.0

    for x in NUMBERS:
        try:
            assert grad(f, x) == (3.0 * x, (3.0,))
        except YotaError as error:
            assert "test_tracer_writes.py" in str(error)


def test_a_list_keeps_its_traced_items() -> None:
    def f(x: Any) -> Any:
        out = [0.0] * 3
        for i in range(3):
            out[i] = x[i] * (out[i - 1] + 1)
        total = {"y": 0.0}
        for v in out:
            total["y"] += v
        return total["y"] + np.sum(out)

    for x in ARRAYS:
        agree(f, x, against=ALL)


# ----------------------------------------------------------------------------------------- writes: right or refused


def _plus(x: Any) -> Any:
    y = x
    y += 1.0
    return np.sum(x * x)


def _times_view(x: Any) -> Any:
    y = x * 1.0
    z = y[1:]
    z *= 3.0
    return np.sum(y * y)


def _assign(x: Any) -> Any:
    y = np.zeros(3)
    for i in range(3):
        y[i] = x[i] ** 2
    return np.sum(y * [1.0, 2.0, 3.0])


def _shift(x: Any) -> Any:
    y = x.copy()
    y[1:] = y[:-1]
    return np.sum(y * [1.0, 2.0, 3.0])


def _swap(x: Any) -> Any:
    y = x.copy()
    y[0], y[1] = y[1], y[0]
    return np.sum(y * [1.0, 2.0, 3.0])


def _masked(x: Any) -> Any:
    y = x.copy()
    y[y > 1] = 0.0
    return np.sum(y * y)


def _zeroed_view(x: Any) -> Any:
    y = x * 2
    y[:2][0] = 0.0
    y.T[2] += x[0]
    return np.sum(y * y)


def _add_transposed(x: Any) -> Any:
    y = np.outer(x, x)
    y += y.T
    return np.sum(y * np.arange(9.0).reshape(3, 3))


def _filled(x: Any) -> Any:
    y = x * 2
    y.fill(3.0)
    return np.sum(y * x)


def _out(x: Any) -> Any:
    y = np.zeros(3)
    np.multiply(x, 2.0, out=y)
    return np.sum(y * y)


def _copyto(x: Any) -> Any:
    y = np.zeros(3)
    np.copyto(y, x)
    return np.sum(y * y)


def _add_at(x: Any) -> Any:
    y = np.zeros(3)
    np.add.at(y, [0, 0, 1], x)
    return np.sum(y * y)


def _sorted_in_place(x: Any) -> Any:
    y = x * 1.0
    y.sort()
    return np.sum(y * [1.0, 2.0, 3.0])


def _diagonal(x: Any) -> Any:
    y = np.outer(x, x)
    np.fill_diagonal(y, 1.0)
    return np.sum(y * y)


def _listed(x: Any) -> Any:
    rows = [x, x]
    rows[0] += 1.0
    return np.sum(rows[1] * x)


@pytest.mark.parametrize(
    "f",
    [
        _plus,
        _times_view,
        _assign,
        _shift,
        _swap,
        _masked,
        _zeroed_view,
        _add_transposed,
        _filled,
        _out,
        _copyto,
        _add_at,
        _sorted_in_place,
        _diagonal,
        _listed,
    ],
)
def test_writes_are_right_or_refused(f: Function) -> None:
    for x in ARRAYS:
        before = x.copy()
        try:
            value, (g,) = grad(f, x)
        except (MutationError, MissingRuleError, LostDerivativeError) as error:
            assert "test_tracer_writes.py" in str(error)
            continue
        finally:
            assert_array_equal(x, before)
        assert_allclose(value, f(x.copy()), rtol=1e-12)
        assert_allclose(g, slope(lambda x: f(x.copy()), x), rtol=1e-5, atol=1e-6)


def test_another_shape_is_bound_to_the_name() -> None:
    def f(x: Any) -> Any:
        y = x * x
        y.shape = (3, 1)
        return np.sum(y @ y.T)

    with pytest.raises(MissingRuleError, match=r"test_tracer_writes.py.*x.shape = .*view.*: x = x.reshape\(\(3, 1\)\)"):
        grad(f, ARRAYS[0])


def test_numbers_are_rebound_not_written() -> None:
    def f(x: Any) -> Any:
        y = x
        y += 1.0
        y *= x
        return y + x

    for x in NUMBERS:
        agree(f, x, against=ALL)
