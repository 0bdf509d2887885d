"""One convention for every tie and singular point, and the types that gradients have."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import exp as imported_exp
from typing import Any

import numpy as np
import optree
import pytest
import yota_py.rules
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

import yota_py
from yota_py.capture.recording import record_call
from yota_py.errors import LostDerivativeError
from yota_py.reverse.verbs import differentiate
from yota_py.tape.operations import Variable
from yota_py.testing.checks import check_grads

INF, NAN = math.inf, math.nan


def grad(f: Callable[..., Any], *args: Any, seed: Any = None) -> tuple[Any, tuple[Any, ...]]:
    """Value and gradients by the interpreter."""
    with np.errstate(all="ignore"):
        out = differentiate(record_call(f, args, {}), seed)
    results = [out[r] if isinstance(r, Variable) else r for r in out.tape.results]
    return optree.tree_unflatten(out.tape.out_spec, results)  # type: ignore[return-value]


def slopes(f: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The gradients of the sum of f, arrays or numbers."""
    return grad(lambda *xs: np.sum(f(*xs)), *args)[1]


# ---------------------------------------------------------------------------------------------------- ties


@pytest.mark.parametrize("fn", [np.maximum, np.minimum, np.fmax, np.fmin])
def test_ties_are_shared_equally(fn: Any) -> None:
    assert slopes(fn, 2.0, 2.0) == (0.5, 0.5)
    a, b = slopes(fn, np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0]))
    assert_array_equal(a + b, np.ones(3))
    assert_array_equal(a[1], 0.5)
    assert slopes(lambda x: fn(x, x), 2.0) == (1.0,)
    assert slopes(lambda x: fn(x, 0), 0.0) == (0.5,)  # ReLU at 0


def test_nan_loses_in_fmax() -> None:
    assert slopes(np.fmax, 1.0, NAN) == (1.0, 0.0)
    assert slopes(np.fmin, NAN, 1.0) == (0.0, 1.0)


def test_clip_at_a_bound() -> None:
    x = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    expected = [0.0, 0.5, 1.0, 0.5, 0.0]
    assert_array_equal(slopes(lambda x: np.clip(x, 0.0, 1.0), x)[0], expected)
    assert_array_equal(slopes(lambda x: x.clip(0, 1), x)[0], expected)
    assert_array_equal(slopes(lambda x: np.clip(x, a_min=0.0, a_max=1.0), x)[0], expected)
    assert_array_equal(slopes(lambda x: np.minimum(np.maximum(x, 0.0), 1.0), x)[0], expected)
    assert slopes(np.clip, 0.0, 0.0, 1.0) == (0.5, 0.5, 0.0)


def test_medians_and_quantiles_share_ties() -> None:
    x = np.array([1.0, 2.0, 2.0, 4.0])
    assert_array_equal(slopes(np.median, x)[0], [0.0, 0.5, 0.5, 0.0])
    assert_array_equal(slopes(np.median, np.array([3.0, 1.0, 2.0, 2.0, 2.0]))[0], [0.0, 0.0, 1 / 3, 1 / 3, 1 / 3])
    assert_array_equal(slopes(np.median, np.array([1.0, 1.0, 2.0, 2.0]))[0], [0.25, 0.25, 0.25, 0.25])
    assert_array_equal(slopes(lambda x: np.quantile(x, 0.5), x)[0], [0.0, 0.5, 0.5, 0.0])
    assert_array_equal(slopes(lambda x: np.median(x, axis=1), np.array([[1.0, 1.0, 0.0], [2.0, 0.0, 1.0]]))[0],
                       [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])  # fmt: skip


@pytest.mark.parametrize("fn", [abs, np.abs, np.fabs, lambda x: math.fabs(x)])
def test_abs_at_zero(fn: Any) -> None:
    assert slopes(fn, 0.0) == (0.0,)


def test_steps_have_slope_zero() -> None:
    x = np.array([-1.5, 0.0, 2.5])
    for fn in (np.floor, np.ceil, np.trunc, np.rint, np.round, np.sign, lambda x: x // 0.7, lambda x: x > 0):
        assert_array_equal(slopes(lambda x: fn(x) + 0 * x, x)[0], np.zeros(3))  # noqa: B023
    assert_array_equal(slopes(lambda x: np.heaviside(x, 0.5) + 0 * x, x)[0], np.zeros(3))
    assert slopes(lambda h: np.heaviside(0.0, h), 0.5) == (1.0,)
    assert_allclose(slopes(lambda x: x % 0.7, x)[0], np.ones(3))


# ------------------------------------------------------------------------------------------------ warnings


@pytest.mark.filterwarnings("error")
def test_pullbacks_do_not_warn() -> None:
    assert yota_py.grad(np.sqrt, 0.0)[1] == (INF,)
    assert yota_py.grad(lambda x: np.arcsin(x), 1.0)[1] == (INF,)
    _, back = yota_py.pullback(np.sqrt, np.zeros(2))
    assert_array_equal(back(np.ones(2))[0], [INF, INF])
    assert yota_py.grad(lambda x: np.sum(np.sqrt(x) * x), np.zeros(2))[0] == 0


def test_the_function_itself_warns_once() -> None:
    with pytest.warns(RuntimeWarning, match="divide by zero") as seen:
        _, (dx,) = yota_py.grad(lambda x: np.sum(np.where(x > 0, np.log(x), 0.0)), np.array([0.0, 2.0]))
    assert_array_equal(dx, [0.0, 0.5])
    assert len(seen) == 1


# ---------------------------------------------------------------------------------- where, and zero times infinity


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.where(x > 0, np.log(x), 0.0),
        lambda x: np.where(x > 0, np.sqrt(x), 0.0),
        lambda x: np.where(x > 0, 1 / x, 0.0),
        lambda x: np.where(x > 0, x**0.5, 0.0),
        lambda x: np.where(x > 0, x / np.abs(x), 0.0),
        lambda x: np.where(x > 0, np.arctan2(x, x), 0.0),
        lambda x: np.where(x > 0, special.xlogy(x, x), 0.0),
    ],
)
def test_where_does_not_leak(f: Any) -> None:
    (dx,) = slopes(f, np.array([-1.0, 0.0, 2.0]))
    assert_array_equal(dx[:2], 0.0)
    assert np.isfinite(dx[2])


@pytest.mark.parametrize("fn", [np.log, np.sqrt, np.reciprocal, lambda x: x**0.5])
def test_where_does_not_leak_in_second_derivatives(fn: Any) -> None:
    def slope(x: Any) -> Any:
        return slopes(lambda x: np.where(x > 0, fn(x), 0.0), x)[0]

    (second,) = slopes(slope, np.array([-1.0, 0.0, 2.0]))
    assert_array_equal(second[:2], 0.0)
    assert abs(second[2]) > 0.01


def test_where_with_nan_in_the_branch_not_taken() -> None:
    da, db = slopes(lambda a, b: np.where(np.array([True, False]), a, b), np.array([1.0, NAN]), np.array([NAN, 2.0]))
    assert_array_equal(da, [1.0, 0.0])
    assert_array_equal(db, [0.0, 1.0])


def test_sqrt_at_zero() -> None:
    assert slopes(np.sqrt, 0.0) == (INF,)
    assert slopes(lambda x: math.sqrt(x), 0.0) == (INF,)
    assert slopes(lambda x: 0.0 * np.sqrt(x), 0.0) == (0.0,)


def test_nan_to_num() -> None:
    assert_array_equal(slopes(np.nan_to_num, np.array([1.0, NAN, INF, -INF]))[0], [1.0, 0.0, 0.0, 0.0])


# -------------------------------------------------------------------------------------------------- powers


@pytest.mark.parametrize("power", [np.power, lambda x, p: x**p, np.float_power, lambda x, p: math.pow(x, p)])
def test_power_at_zero(power: Any) -> None:
    assert slopes(lambda x: power(x, 0), 0.0) == (0.0,)
    assert slopes(lambda x: power(x, 0.0), 0.0) == (0.0,)
    assert slopes(lambda x: power(x, 1), 0.0) == (1.0,)
    assert slopes(lambda x: power(x, 2), 0.0) == (0.0,)
    assert slopes(lambda x: power(x, 0.5), 0.0) == (INF,)
    assert slopes(power, 0.0, 2.0) == (0.0, 0.0)
    assert slopes(power, 0.0, 0.0) == (0.0, 0.0)


def test_arrays_of_powers() -> None:
    x, p = np.array([0.0, 0.0, 0.0, 2.0]), np.array([0.0, 1.0, 2.0, 0.0])
    dx, dp = slopes(np.power, x, p)
    assert_array_equal(dx, [0.0, 1.0, 0.0, 0.0])
    assert_allclose(dp, [0.0, 0.0, 0.0, math.log(2)])


def test_negative_base() -> None:
    x = np.array([-2.0, -1.0])
    assert_allclose(slopes(lambda x: x**3, x)[0], 3 * x**2)
    assert_allclose(slopes(lambda x: x**3.0, x)[0], 3 * x**2)
    assert_allclose(slopes(lambda x: x ** np.array([2.0, 3.0]), x)[0], [-4.0, 3.0])
    assert_allclose(slopes(lambda x: x**-1, x)[0], -(x**-2))
    dx, dp = slopes(np.power, x, np.array([2.0, 3.0]))
    assert_allclose(dx, [-4.0, 3.0])
    assert np.isnan(dp).all()  # not defined: said, not hidden


def test_second_derivative_of_powers_at_zero() -> None:
    def slope(x: Any) -> Any:
        return grad(lambda x: x**2, x)[1][0]

    assert slopes(slope, 0.0) == (2.0,)


# ---------------------------------------------------------------------------------------- other singular points


def test_origin() -> None:
    assert slopes(np.arctan2, 0.0, 0.0) == (0.0, 0.0)
    assert slopes(lambda y, x: math.atan2(y, x), 0.0, 0.0) == (0.0, 0.0)
    assert slopes(np.hypot, 0.0, 0.0) == (0.0, 0.0)
    assert slopes(lambda *xs: math.hypot(*xs), 0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("fn", [np.logaddexp, np.logaddexp2])
def test_logaddexp_at_infinity(fn: Any) -> None:
    assert slopes(fn, -INF, -INF) == (0.5, 0.5)
    assert slopes(fn, INF, 1.0) == (1.0, 0.0)
    assert slopes(fn, -INF, 1.0) == (0.0, 1.0)


def test_logsumexp_at_infinity() -> None:
    assert_array_equal(slopes(lambda x: special.logsumexp(x), np.array([-INF, -INF]))[0], [0.5, 0.5])
    assert_array_equal(slopes(lambda x: special.logsumexp(x), np.array([-INF, 3.0]))[0], [0.0, 1.0])
    assert_array_equal(slopes(lambda x: special.logsumexp(x), np.array([1000.0, 1000.0]))[0], [0.5, 0.5])


def test_sinc_near_zero() -> None:
    x = np.array([0.0, 1e-12, 1e-5, 1e-2, 0.1])
    (dx,) = slopes(np.sinc, x)
    t = np.pi * x
    assert dx[0] == 0.0
    assert_allclose(dx[1:4], (-np.pi * t / 3 * (1 - t**2 / 10))[1:4], rtol=1e-6)
    assert_allclose(slopes(lambda x: slopes(np.sinc, x)[0], 0.0)[0], -(np.pi**2) / 3)


def test_large_arguments() -> None:
    assert slopes(special.expit, -1000.0) == (0.0,)
    assert slopes(special.log_expit, -1000.0) == (1.0,)
    assert_allclose(slopes(special.log_ndtr, -30.0)[0], 30.0332597, rtol=1e-8)
    assert slopes(np.tanh, 1000.0) == (0.0,)
    assert_allclose(slopes(np.expm1, -40.0)[0], math.exp(-40), rtol=1e-12)


def test_xlogy_at_zero() -> None:
    assert slopes(special.xlogy, 0.0, 2.0) == (math.log(2.0), 0.0)
    assert slopes(lambda y: special.xlogy(0.0, y), 0.0) == (0.0,)


# ------------------------------------------------------------------------------------------------- complex


def test_complex_convention() -> None:
    z = np.array([1 + 2j, -0.5j])
    assert_allclose(slopes(lambda z: np.abs(z) ** 2, z)[0], 2 * z)
    assert_allclose(slopes(lambda z: np.real(z), z)[0], np.ones(2))
    assert_allclose(slopes(lambda z: z.imag, z)[0], 1j * np.ones(2))
    assert_allclose(slopes(lambda z: (z * z.conj()).real, z)[0], 2 * z)
    assert slopes(np.abs, 0j) == (0j,)
    assert slopes(np.angle, 0j) == (0j,)
    assert slopes(lambda z: np.real(np.sign(z)), 0j) == (0j,)


def test_real_to_complex_and_back() -> None:
    x = np.array([0.3, -2.0])
    (dx,) = slopes(lambda x: np.abs(np.exp(1j * x) + 2), x)
    assert dx.dtype == np.float64
    check_grads(lambda x: np.abs(np.exp(1j * x) + 2), x)
    check_grads(lambda x: np.real(x * (1 + 2j)) + np.imag(np.sqrt(x + 0j)), x + 3)
    check_grads(lambda z: np.log(z) * np.conj(z) / (1 + z), np.array([1 + 1j, 2 - 0.5j]))


# --------------------------------------------------------------------------------------------------- types


def test_float32_stays() -> None:
    x = np.array([1.0, 2.0], np.float32)
    value, (dx,) = grad(lambda x: np.sum(x * 2.0 + np.sin(x) ** 2 / 3), x)
    assert value.dtype == np.float32 and dx.dtype == np.float32
    dx, dy = slopes(lambda x, y: x * y, x, 2.0)
    assert dx.dtype == np.float32
    assert_allclose(dy, 3.0)
    dx, dy = slopes(lambda x, y: x * y, x, np.ones(2))
    assert (dx.dtype, dy.dtype) == (np.float32, np.float64)


def test_integers_have_no_gradient() -> None:
    dx, dn = slopes(lambda x, n: x * n, np.ones(2), np.array([2, 3]))
    assert_array_equal(dx, [2.0, 3.0])
    assert dn is None


SHAPES = [((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (1, 4)), ((), (3,)), ((1,), (3,)), ((0,), (1,))]


@pytest.mark.parametrize("shapes", SHAPES)
def test_unbroadcasting(shapes: Any) -> None:
    a, b = (np.full(shape, 1.5) for shape in shapes)
    others = [lambda a, b: np.where(a > 0, a, b), lambda a, b: np.clip(a, b, 9)]
    for fn in (np.add, np.multiply, np.power, np.hypot, np.maximum, *others):
        da, db = slopes(fn, a, b)
        assert (da.shape, db.shape) == (a.shape, b.shape)


def test_zero_dimensional_and_empty() -> None:
    (dx,) = slopes(np.sin, np.array(2.0))
    assert dx.shape == ()
    (dx,) = slopes(np.sin, np.zeros((0, 3)))
    assert dx.shape == (0, 3)


# ------------------------------------------------------------------------------------- tracking is never dropped


def test_arrays_made_of_traced_values() -> None:
    x = np.array([1.0, 2.0, 3.0])
    assert_array_equal(slopes(lambda x: np.array([x[0], 2 * x[1], 3.0]), x)[0], [1.0, 2.0, 0.0])
    assert_array_equal(slopes(lambda x: np.array([[x[0], 1], [2, x[2]]]) ** 2, x)[0], [2.0, 0.0, 6.0])
    assert_array_equal(slopes(lambda x: np.asarray([xi * xi for xi in x]), x)[0], 2 * x)
    assert_array_equal(slopes(lambda x: np.asarray(x) * np.array(x), x)[0], 2 * x)
    assert_array_equal(slopes(lambda x: np.array(x, dtype=np.float32) ** 2, x)[0], 2 * x)
    assert_array_equal(slopes(lambda x: np.array([x[0]], ndmin=3) * 2, x)[0], [2.0, 0.0, 0.0])
    value, _ = grad(lambda a, b: np.sum(np.array([a, b])), 1.0, 2.0)
    assert value == 3.0


def test_numpy_calls_of_plain_values_stay_plain() -> None:
    def f(x: Any) -> Any:
        plain = np.array([1.0, 2.0])
        assert isinstance(plain, np.ndarray)
        return np.sum(plain * x) + math.sin(0.0)

    assert slopes(f, 2.0) == (3.0,)


def test_builtins() -> None:
    x = np.array([3.0, 1.0, 2.0])
    assert_array_equal(slopes(lambda x: sum(x), x)[0], np.ones(3))
    assert_array_equal(slopes(lambda x: max(x), x)[0], [1.0, 0.0, 0.0])
    assert_array_equal(slopes(lambda x: sorted(x)[0], x)[0], [0.0, 1.0, 0.0])
    assert_array_equal(slopes(lambda x: [v * v for v in x][1], x)[0], [0.0, 2.0, 0.0])
    assert slopes(lambda x: round(x, 1) + abs(x) + divmod(7, 2)[0], 1.23) == (1.0,)


def test_math_module() -> None:
    expected = math.exp(0.5) * (math.sin(0.5) + math.cos(0.5))
    assert_allclose(slopes(lambda x: math.sin(x) * imported_exp(x), 0.5)[0], expected)
    assert_allclose(slopes(lambda x: math.log(x, 2) + math.log(x), 3.0)[0], (1 / math.log(2) + 1) / 3)
    assert_allclose(slopes(lambda x, y: math.dist([x, 0.0], (0.0, y)), 3.0, 4.0), (0.6, 0.8))
    assert slopes(lambda x: math.fsum(x * k for k in range(4)), 2.0) == (6.0,)
    assert slopes(lambda x: math.prod([x, x, 3.0]), 2.0) == (12.0,)
    assert slopes(lambda x: math.floor(x) * x + math.ceil(x) * x + math.trunc(x), 2.5) == (5.0,)
    assert slopes(lambda x: x if math.isfinite(x) and not math.isnan(x) else 0.0, 2.5) == (1.0,)
    (dx,) = slopes(lambda x: math.sin(x), np.float32(0.5))
    assert dx.dtype == np.float32


def test_methods() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert_array_equal(slopes(lambda x: x.astype(np.float32) * 2, x)[0], np.full((2, 2), 2.0))
    assert_array_equal(slopes(lambda x: x.copy() * x.item(0), x)[0], [[11.0, 1.0], [1.0, 1.0]])
    assert_array_equal(slopes(lambda x: x.item(1, 1) + x[0, 0].item(), x)[0], [[1.0, 0.0], [0.0, 1.0]])
    assert_array_equal(slopes(lambda x: sum(map(sum, x.tolist())), x)[0], np.ones((2, 2)))
    assert_array_equal(slopes(lambda x: x.round(1) + x.conj().real, x)[0], np.ones((2, 2)))
    assert slopes(lambda x: x.real + x.conjugate(), 2.0) == (2.0,)


def test_filled_and_spaced() -> None:
    assert slopes(lambda x: np.full(3, x), 2.0) == (3.0,)
    assert slopes(lambda x: np.full_like(np.zeros((2, 2)), x), 2.0) == (4.0,)
    assert slopes(lambda x: np.zeros_like(x) + np.ones_like(x) * x, 2.0) == (1.0,)
    assert_allclose(slopes(lambda a, b: np.linspace(a, b, 5), 0.0, 1.0), (2.5, 2.5))
    assert slopes(lambda x: np.arange(x), 3.5) == (0.0,)
    assert slopes(lambda x: np.arange(x, x + 2), 3.5) == (2.0,)


def test_what_would_lose_the_derivative_raises() -> None:
    for f in (float, np.float64, complex):
        with pytest.raises(LostDerivativeError):
            grad(f, 2.0)
