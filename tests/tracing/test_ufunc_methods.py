"""Methods and keywords of ufuncs as users write them: results, what is written into ``out=``, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from caching import function
from fresh import rounds
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad, gradient, jit
from yota_py.errors import MissingRuleError, YotaError

A = np.array([[0.5, -1.2, 2.0], [1.5, 0.3, -0.7]])
V = np.array([0.55, 1.6, -0.75, 2.1, 0.35])
MASK = np.array([True, False, True, True, False])
ROWS, COLUMNS, K = np.array([0, 1, 0]), np.array([2, 0, 2]), np.array([1, 3, 1])


def divided(x: Any) -> Any:
    """Where the divisor is not zero, and 9 elsewhere; without a warning."""
    return np.divide(x, np.round(x), out=np.full(5, 9.0), where=np.round(x) != 0)


def scattered(x: Any) -> Any:
    r = np.zeros((2, 3))
    np.add.at(r, (ROWS, COLUMNS), x[:3])
    np.subtract.at(r, (ROWS, COLUMNS), 2 * x[2:])
    return r


def largest(x: Any) -> Any:
    r = np.full(5, 0.4)
    np.maximum.at(r, K, x[:3])
    np.multiply.at(r, [1, 1, 4], x[2:])
    np.negative.at(r, slice(1, 3))
    return r


def both_parts(x: Any) -> Any:
    whole, rest = np.empty(5), np.empty(5)
    assert np.modf(x, rest, whole)[1] is whole
    return rest * x + whole


def remainders(x: Any) -> Any:
    rest = np.zeros(5)
    quotient, same = np.divmod(x, 0.4, out=(None, rest), where=MASK)
    assert same is rest
    return rest * x + np.where(MASK, quotient, 0)


_OF_VECTORS: dict[str, Callable[[Any], Any]] = {
    "where and out": divided,
    "where alone": lambda x: np.where(MASK, np.exp(x, where=MASK, out=None), 1.0) * x,
    "where of an operand": lambda x: np.multiply(x, x, out=x.copy(), where=x > 0.4),
    "where and out of several dimensions": lambda x: np.add(x, 1.0, out=np.zeros((2, 5)), where=MASK) * x,
    "comparison": lambda x: np.greater(x, 0.4, out=np.full(5, True), where=MASK) * x,
    "isnan": lambda x: np.isnan(x, out=np.full(5, True), where=x < 0.4) * x,
    "positional out": lambda x: np.add(x, x * x, np.empty(5)),
    "dtype": lambda x: np.multiply(x, 2, dtype=np.float32) * x,
    "signature": lambda x: np.multiply(x, 2, signature="ff->f", casting="same_kind") * x,
    "several outputs": both_parts,
    "one of several": remainders,
    "at": scattered,
    "at of others": largest,
    "reduceat": lambda x: np.add.reduceat(x * x, [0, 2, 1, 4]),
    "maximum.reduceat": lambda x: np.maximum.reduceat(x, np.array([0, 3])),
    "logaddexp": lambda x: np.logaddexp.reduce(x, initial=x[0], where=MASK),
    "hypot": lambda x: np.hypot.accumulate(x * x),
    "outer": lambda x: np.power.outer(np.abs(x), x, order="F"),
    "outer into": lambda x: np.subtract.outer(x, x[:2], out=np.ones((5, 2)), where=[True, False]) * x[0],
    "arctan2.outer": lambda x: np.arctan2.outer(x, 2 * x),
    "logical": lambda x: np.logical_and.reduce(x > 0, initial=True) + np.logical_or.reduce(x) + x,
    "bits": lambda x: np.bitwise_or.reduce(np.arange(5)) * x,
    "rounding": lambda x: np.trunc(x, out=np.zeros(5), where=MASK) * x,
}


@pytest.mark.parametrize("name", _OF_VECTORS)
def test_of_vectors(name: str) -> None:
    f = _OF_VECTORS[name]
    weights = np.arange(1.0, 26.0)

    def loss(x: Any) -> Any:
        y = f(x)
        return np.sum(y * weights[: np.size(y)].reshape(np.shape(y)))

    rounds(loss, V, V * 1.01, V - 0.01, smooth=name not in ("dtype", "signature"))


@pytest.mark.parametrize("axis", [None, 0, -1, (0,), (1, 0), ()])
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.fmin, np.hypot, np.logaddexp])
def test_axes_of_reductions(ufunc: Any, axis: Any) -> None:
    reduced = ufunc.reduce
    rounds(lambda x: np.sum(reduced(x, axis=axis) * (1.0 + np.arange(np.size(reduced(x, axis))).reshape(
        np.shape(reduced(x, axis, None, None, False))))), A, 1.1 * A)  # fmt: skip


def test_no_axis_is_all_axes() -> None:
    total = jit(lambda x: np.add.reduce(x, axis=None))
    for k in range(4):
        assert_allclose(total(A + k), np.add.reduce(A + k, axis=None), rtol=1e-15)


def test_writes_into_the_callers_arrays() -> None:
    @jit
    def step(r: Any, x: Any, seen: Any) -> Any:
        np.add.at(r, (ROWS, COLUMNS), x)
        np.greater(x, 0.4, out=seen, where=[True, False, True])
        return np.add.reduce(r, 1, None, x[:2])

    r, x, seen = np.zeros((2, 3)), np.array([0.5, 1.5, -0.7]), np.array([True, True, True])
    mine = [r.copy(), x.copy(), seen.copy()]
    for _ in range(4):
        result = step(r, x, seen)
        np.add.at(mine[0], (ROWS, COLUMNS), mine[1])
        np.greater(mine[1], 0.4, out=mine[2], where=[True, False, True])
        want = np.add.reduce(mine[0], 1, None, mine[1][:2])
        assert_array_equal(result, want)
        for a, b in zip((r, x, seen), mine, strict=True):
            assert_array_equal(a, b)


def test_plain_values_into_a_traced_array() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(2) * x
        np.multiply(2.0, 3.0, out=y, where=[True, False])
        return y @ np.array([x, x * x])

    for k in range(4):
        assert grad(f, 1.0 + k) == (6.0 * (1.0 + k), (6.0,))


def test_what_where_leaves_out_has_no_derivative() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x, where=x > 0, out=None))

    assert_array_equal(gradient(f)(np.array([2.0, -1.0, 0.0])), [0.5, 0.0, 0.0])


def test_no_warning_of_what_is_left_out() -> None:
    for k in range(4):
        value, (g,) = grad(lambda x: np.sum(np.divide(x, B, out=np.ones(3), where=B != 0)), np.ones(3) + k)
        assert value == 1.0 + 0.25 * (1.0 + k)
        assert_array_equal(g, [0.5, 0.0, -0.25])


B = np.array([2.0, 0.0, -4.0])


def test_values_that_numpy_would_have_to_repeat() -> None:
    """NumPy itself reads behind the end of the values here."""
    x = np.zeros(3)

    def f(v: Any) -> Any:
        y = x.copy()
        np.add.at(y, np.array([[0, 1], [1, 0]]), v)
        return y @ np.array([1.0, 10.0, 100.0])

    for k in range(3):
        value, (g,) = grad(f, np.array([1.0 + k, 5.0]))
        assert value == 11.0 * (6.0 + k)
        assert_array_equal(g, [11.0, 11.0])


_REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an array of integers": (lambda x: np.multiply.at(np.ones(5, int), K, x[:3]), "int64"),
    "axes": (lambda x: np.matmul(A, x[:3], axes=[(0, 1), (0,), (0,)]), "axes"),
    "a sum into other numbers": (lambda x: np.add.accumulate(x, out=np.zeros(5, int)), "int64"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_is_refused_is_named(name: str) -> None:
    f, text = _REFUSED[name]
    with pytest.raises(YotaError, match=text) as caught:
        grad(lambda x: np.sum(f(x)), V)
    assert "test_ufunc_methods.py" in str(caught.value)
    assert isinstance(caught.value, MissingRuleError) or "derivative" in str(caught.value)


def test_errors_are_those_of_numpy() -> None:
    for f in (
        lambda x: np.add(x, 1.0, out=np.zeros(4)),
        lambda x: np.maximum.reduce(x[:0]),
        lambda x: np.add(x, x, casting="no", dtype=np.float32),
        lambda x: np.subtract.reduce(np.outer(x, x), axis=(0, 1)),
        lambda x: np.exp(x, out=None, where=np.arange(5)),
    ):
        with pytest.raises((ValueError, TypeError)) as wanted:
            f(V)
        with pytest.raises(wanted.type) as caught:
            grad(lambda x, f=f: np.sum(f(x)), V)
        assert str(caught.value).split(":")[0] == str(wanted.value).split(":")[0]


_IN_ANOTHER_DTYPE = [
    "np.not_equal.reduce(x, dtype=bool, initial=False) * x[0]",
    "np.greater.reduceat(x, [0, 1], axis=1, dtype=bool) * x[:, :2]",
    "np.copysign.reduceat(x, [0, 1], dtype='f4')", "np.gcd.reduce(x, dtype=int) * x[0]",
    "np.maximum.reduce(x, dtype='f4')",
    "np.add.reduceat(x, [0, 1], 0, 'f4')", "np.multiply(True, x, dtype='f8')", "np.hypot(x, True, dtype=float)",
    "np.tanh(True, dtype=float) * x", "np.left_shift.reduce(np.abs(x), axis=1, dtype=int) * x[:, 0]",
]  # fmt: skip


@pytest.mark.parametrize("call", _IN_ANOTHER_DTYPE)
def test_in_another_dtype(call: str) -> None:
    f = function(f"def f(x): return {call}")
    compiled = jit(f)
    for x in (A, A * 1.5, A - 0.1):
        have, want = compiled(x), f(x)
        assert_array_equal(have, want)
        assert have.dtype == want.dtype
    if "f4" not in call:
        rounds(lambda x: np.sum(f(x)), A, 1.5 * A, smooth="int" not in call)


def test_out_of_another_shape_is_refused() -> None:
    by_numpy = np.lib.NumpyVersion(np.__version__) >= "2.5.0"
    error, said = (ValueError, "out is the wrong size") if by_numpy else (YotaError, "out= of another shape")
    with pytest.raises(error, match=said):
        grad(lambda x: np.sum(np.copysign.accumulate(K[:2], out=np.ones((2, 2))) * x[0, 0]), A)
