"""Emitted mathematics against mpmath and NumPy.

Every function is compiled into a loop over arrays, as vectors and as scalars, in float64 and float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from emitted import Loops, assert_same, method

FLOATS = [np.float64, np.float32]
WIDTHS = ["vector", "scalar"]

# name: the exact function, and the bound in ulp. The promise is 2; the bounds are the largest errors found
# among millions of float32 numbers, rounded up, so that a loss of accuracy shows.
ACCURACY: dict[str, tuple[Callable[[Any], Any], float]] = {
    "exp": (mpmath.exp, 1.1),
    "exp2": (lambda x: mpmath.mpf(2) ** x, 1.1),
    "expm1": (mpmath.expm1, 1.4),
    "log": (mpmath.log, 1.0),
    "log1p": (mpmath.log1p, 1.4),
    "log2": (lambda x: mpmath.log(x, 2), 1.5),
    "log10": (mpmath.log10, 1.7),
    "sinh": (mpmath.sinh, 1.6),
    "cosh": (mpmath.cosh, 1.6),
    "tanh": (mpmath.tanh, 1.3),
    "sin": (mpmath.sin, 0.8),
    "cos": (mpmath.cos, 0.8),
    "tan": (mpmath.tan, 1.4),
    "expit": (lambda x: 1 / (1 + mpmath.exp(-x)), 1.5),
    "log_expit": (lambda x: -mpmath.log1p(mpmath.exp(-x)), 1.7),
    "logit": (lambda x: mpmath.log(x / (1 - x)), 2.0),
    "arcsin": (mpmath.asin, 1.8),
    "arccos": (mpmath.acos, 1.2),
    "arctan": (mpmath.atan, 1.1),
    "arcsinh": (mpmath.asinh, 1.6),
    "arccosh": (mpmath.acosh, 1.5),
    "arctanh": (mpmath.atanh, 1.2),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), 0.6),
}
ACCURACY_2: dict[str, tuple[Callable[..., Any], float]] = {
    "arctan2": (mpmath.atan2, 1.6),
    "hypot": (mpmath.hypot, 0.75),
    "pow": (mpmath.power, 1.1),
}
_POSITIVE, _UNIT = (0.0, math.inf), (math.nextafter(-1, -2), math.nextafter(1, 2))
DOMAIN = {
    "logit": (0.0, 1.0), "log": _POSITIVE, "log2": _POSITIVE, "log10": _POSITIVE, "log1p": (-1.0, math.inf),
    "arcsin": _UNIT, "arccos": _UNIT, "arctanh": (-1.0, 1.0), "arccosh": (math.nextafter(1, 0), math.inf),
}  # fmt: skip

EXACT = ["abs", "sqrt", "floor", "ceil", "trunc", "rint", "sign", "square", "reciprocal", "neg"]
EXACT_2 = ["add", "sub", "mul", "div", "copysign", "maximum", "minimum", "fmax", "fmin"]
DIVISION = ["fmod", "remainder", "floor_divide"]
LIBM = ["erf", "erfc", "lgamma"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
CLASSES = ["isnan", "isinf", "isfinite", "signbit"]
NUMPY_NAMES = {
    "abs": np.abs, "neg": np.negative, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.divide, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal, "pow": np.power, "erf": scipy.special.erf, "erfc": scipy.special.erfc,
    "lgamma": scipy.special.gammaln, "expit": scipy.special.expit, "log_expit": scipy.special.log_expit,
    "logit": scipy.special.logit,
}  # fmt: skip


def numpy_function(name: str) -> Callable[..., np.ndarray]:
    return NUMPY_NAMES[name] if name in NUMPY_NAMES else getattr(np, name)


@functools.cache
def loops(dtype: type, width: str) -> Loops:
    """All functions of floats, in one module."""
    unary = [*ACCURACY, *EXACT, *LIBM]
    binary = [*EXACT_2, *DIVISION, *ACCURACY_2, "logaddexp", "logaddexp2"]
    cases = [(name, method(name), [dtype], dtype) for name in unary]
    cases += [(name, method(name), [dtype] * 2, dtype) for name in binary]
    cases += [(name, method(name), [dtype] * 2, np.bool_) for name in COMPARISONS]
    cases += [(name, method(name), [dtype], np.bool_) for name in CLASSES]
    cases += [("fma", method("fma"), [dtype] * 3, dtype)]
    cases += [("select", lambda m, a, b: m.select(m.lt(a, b), a, b), [dtype] * 2, dtype)]
    cases += [("const", lambda m, a: m.select(m.eq(a, a), m.const(-0.0, a), m.const(0.1, a)), [dtype], dtype)]
    return Loops(cases, width)


# -------------------------------------------------------------------- points and errors


def specials(dtype: type) -> np.ndarray:
    info = np.finfo(dtype)
    least = float(info.smallest_subnormal)
    positive = [0.0, least, 3 * least, float(info.tiny), 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0]
    positive += [1e30, float(info.max), np.inf]
    return np.array([*positive, *(-p for p in positive), np.nan], dtype)


@functools.cache
def points(dtype: type) -> np.ndarray:
    """Finite numbers of all sizes, and around the places where formulas change."""
    rng, info, n = np.random.default_rng(7), np.finfo(dtype), 300
    lowest = int(info.minexp) - info.nmant
    sized = np.ldexp(rng.uniform(0.5, 1, n), rng.integers(lowest, int(info.maxexp) + 1, n))
    middle = np.ldexp(rng.uniform(0.5, 1, n), rng.integers(-8, 8, n))
    quadrants = rng.integers(1, 600_000_000 if dtype is np.float64 else 20_000, n) * (np.pi / 2)
    far = np.exp2(rng.uniform(14, 60, n // 4))
    places = np.array(
        [0.25, 0.3465735902799727, 0.5, 0.625, 2**0.5, 0.5**0.5, 1.0, 1.0397207708399179, 2.0, np.pi / 2,
         np.pi, 10.0, 22.0, 28.0, 57.0, 2.0**15, 2.0**30, 2.0**-54, 2.0**-25, 87.33, 88.72, 89.4, 103.2,
         103.97, 126.0, 127.0, 128.0, 149.0, 150.0, 708.39, 709.782, 710.47, 744.44, 745.13, 1022.0, 1023.0,
         1024.0, 1074.0, 1075.0, info.tiny, info.max],
    )  # fmt: skip
    subnormal = rng.integers(1, 1000, 20) * float(info.smallest_subnormal)
    narrow = rng.uniform(0, 2, 2 * n)
    with np.errstate(all="ignore"):
        near = (places[:, None] * (1 + rng.uniform(-1, 1, (1, 12)) * 1e-3)).ravel()
        nearest = (places[:, None] * (1 + np.arange(-3, 4) * float(info.eps))).ravel()
        x = np.concatenate([sized, middle, quadrants, far, near, nearest, subnormal, narrow]).astype(dtype)
    x = x[np.isfinite(x)]
    return rng.permutation(np.concatenate([x, -x]))


@functools.cache
def reference(name: str, dtype: type) -> tuple[np.ndarray, list[Any]]:
    """The points in the domain of a function, and its exact values there."""
    x, (low, high) = points(dtype), DOMAIN.get(name, (-math.inf, math.inf))
    x = x[(x.astype(float) > low) & (x.astype(float) < high)]
    with mpmath.workprec(120):
        return x, [ACCURACY[name][0](mpmath.mpf(v)) for v in x.tolist()]


def ulp_errors(computed: np.ndarray, exact: list[Any]) -> np.ndarray:
    """Errors in units of the last place of the exact value rounded; where that is infinite, 0 or infinite."""
    dtype = computed.dtype.type
    with mpmath.workprec(120), np.errstate(all="ignore"):
        double = np.array([float(v) for v in exact])
        finite = np.where(np.isfinite(double), double, 0)
        rest = np.array([float(v - d) for v, d in zip(exact, finite.tolist(), strict=True)])
        nearest = double.astype(dtype)
        errors = np.abs((computed.astype(float) - double) - rest) / np.spacing(np.abs(nearest))
        return np.where(computed == nearest, np.minimum(np.nan_to_num(errors), 0.5), errors)


def pairs(dtype: type) -> list[np.ndarray]:
    """All pairs of special values, and random ones."""
    s = specials(dtype)
    a, b = np.repeat(s, s.size), np.tile(s, s.size)
    x = points(dtype)
    return [np.concatenate([a, x]), np.concatenate([b, np.roll(x, 1)])]


# -------------------------------------------------------------------- functions of floats


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ACCURACY)
def test_accuracy(name: str, dtype: type, width: str) -> None:
    x, exact = reference(name, dtype)
    errors = ulp_errors(loops(dtype, width)(name, x), exact)
    worst = int(np.argmax(np.nan_to_num(errors, nan=np.inf)))
    assert errors[worst] <= ACCURACY[name][1] <= 2, (x[worst], errors[worst])


@functools.cache
def reference_2(name: str, dtype: type) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """Pairs, also of large powers and of bases near one, and the exact values."""
    rng = np.random.default_rng(11)
    a, b = (x[np.isfinite(x) & (x != 0)] for x in pairs(dtype))
    n = min(a.size, b.size)
    a, b = a[:n], b[:n]
    if name == "pow":
        logs = np.concatenate([rng.uniform(-5, 5, 600), rng.uniform(-0.01, 0.01, 200), rng.uniform(-80, 80, 200)])
        results = rng.uniform(-1, 1, logs.size) * (740 if dtype is np.float64 else 100)
        a, b = np.exp(logs).astype(dtype), (results / logs).astype(dtype)
    else:
        ratios = np.exp(rng.uniform(-2, 2, 1000))
        b = np.concatenate([b, rng.uniform(-5, 5, 1000).astype(dtype)])
        a = np.concatenate([a, (b[-1000:] * ratios).astype(dtype)])
    with mpmath.workprec(400):
        numbers = [(mpmath.mpf(x), mpmath.mpf(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        return a, b, [ACCURACY_2[name][0](x, y) for x, y in numbers]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ACCURACY_2)
def test_accuracy_of_two(name: str, dtype: type, width: str) -> None:
    a, b, exact = reference_2(name, dtype)
    errors = ulp_errors(loops(dtype, width)(name, a, b), exact)
    worst = int(np.argmax(np.nan_to_num(errors, nan=np.inf)))
    assert errors[worst] <= ACCURACY_2[name][1] <= 2, (a[worst], b[worst], errors[worst])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ACCURACY_2)
def test_special_values_of_two(name: str, dtype: type, width: str) -> None:
    """Pairs of zeros, infinities, NaN, whole and halved numbers, the least and the largest ones."""
    n = len(specials(dtype)) ** 2
    a, b = (np.concatenate([x[:n], dtype([-1, -1, -2, -2, -0.0, -0.0, -np.inf, -8])]) for x in pairs(dtype))
    b[-8:] = [2.0**60, 2.0**25 + 3, 3, -3, 3, -3, 5, 2.0**53]
    computed = loops(dtype, width)(name, a, b)
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(a, b)
        near = np.abs(computed - expected) <= 3 * np.spacing(np.abs(expected))
    sharp = ~np.isfinite(expected) | np.isin(expected, [0, 1, -1])
    assert sharp.sum() > n / 10
    assert_same(computed[sharp], expected[sharp], a[sharp], b[sharp])
    assert (sharp | near).all(), (a[~near], b[~near])
    assert np.array_equal(np.signbit(computed)[near], np.signbit(expected)[near])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*ACCURACY, *LIBM])
def test_special_values(name: str, dtype: type, width: str) -> None:
    x = specials(dtype)
    computed = loops(dtype, width)(name, x)
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(x)
    # Only where both must hit the same number.
    sharp = ~np.isfinite(expected) | np.isin(expected, [0, 1, -1])
    if name == "lgamma":
        sharp &= (x != -np.inf) & ((np.abs(x) > 1e-30) | (x == 0))  # SciPy and the C standard differ
    if name == "log_expit":
        sharp &= expected != 0  # SciPy's own zero has either sign
    assert sharp.sum() >= 2
    assert_same(computed[sharp], expected[sharp].astype(dtype), x[sharp])


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_angles_in_some_lanes(dtype: type) -> None:
    x = np.array([0.5, 1e22, 1.0, -1e30, np.nan, 2.0**31, 3.0, -0.0] * 2, dtype)
    with mpmath.workprec(300):
        for name in ("sin", "cos", "tan"):
            computed = loops(dtype, "vector")(name, x)
            keep = ~np.isnan(x)
            exact = [ACCURACY[name][0](mpmath.mpf(v)) for v in x[keep].tolist()]
            assert ulp_errors(computed[keep], exact).max() <= 1.4
            assert np.isnan(computed[~keep]).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_the_base_are_exact(dtype: type) -> None:
    n = np.arange(-140, 127)
    powers = np.ldexp(dtype(1), n).astype(dtype)
    assert_same(loops(dtype, "vector")("exp2", n.astype(dtype)), powers)
    assert_same(loops(dtype, "vector")("log2", powers), n.astype(dtype))
    tens = np.arange(23 if dtype is np.float64 else 11)
    assert_same(loops(dtype, "vector")("log10", (10.0**tens).astype(dtype)), tens.astype(dtype))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp(name: str, dtype: type, width: str) -> None:
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(a.astype(np.longdouble), b.astype(np.longdouble)).astype(dtype)
        computed = loops(dtype, width)(name, a, b)
        # The formula's own errors: of a - b, amplified by exp, and of log1p; they show where the sum cancels.
        d = np.abs(a - b)
        tolerance = 2 * np.spacing(np.abs(expected)) + (3 + d) * np.exp(-d / 2) * np.finfo(dtype).eps
        good = (np.abs(computed - expected) <= tolerance) | (computed == expected)
        good |= np.isnan(computed) & np.isnan(expected)
    assert good.all(), (a[~good][:3], b[~good][:3], computed[~good][:3], expected[~good][:3])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", DIVISION)
def test_division(name: str, dtype: type, width: str) -> None:
    rng = np.random.default_rng(3)
    steps = rng.integers(-200, 200, 3000) / 10  # where a / b is often nearly an integer
    a, b = pairs(dtype)
    a, b = (np.concatenate([x, y.astype(dtype)]) for x, y in ((a, steps), (b, rng.permutation(steps))))
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(a, b)
    assert_same(loops(dtype, width)(name, a, b), expected, a, b)


def test_floor_divide_is_not_the_floor_of_a_quotient() -> None:
    a, b = np.array([1.0, 6.0, -1.0]), np.array([0.1, 0.1, 0.1])
    computed = loops(np.float64, "vector")("floor_divide", a, b)
    assert computed.tolist() == [9.0, 59.0, -10.0] != np.floor(a / b).tolist()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*EXACT, *EXACT_2, *COMPARISONS, *CLASSES])
def test_exact_like_numpy(name: str, dtype: type, width: str) -> None:
    args = pairs(dtype)[: 2 if name in EXACT_2 or name in COMPARISONS else 1]
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(*args)
    # NumPy leaves open which of two zeros is the larger.
    assert_same(
        loops(dtype, width)(name, *args), expected, *args,
        zero_sign=name not in ("maximum", "minimum", "fmax", "fmin"),
    )  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", LIBM)
def test_lane_by_lane(name: str, dtype: type, width: str) -> None:
    args = pairs(dtype)[:1]
    with np.errstate(all="ignore"):
        if name == "lgamma":  # near its zeros, libm and SciPy lose digits at different places
            args = [args[0][args[0] > 3]]
        # Computed in double for float32 too, where NumPy is no better than libm; SciPy's erfc loses digits.
        function = np.vectorize(math.erfc) if name == "erfc" else numpy_function(name)
        expected = function(*(a.astype(float) for a in args)).astype(dtype)
        computed = loops(dtype, width)(name, *args)
        error = np.abs(computed.astype(float) - expected.astype(float)) / np.spacing(np.abs(expected))
    good = (computed == expected) | (np.isnan(computed) & np.isnan(expected))
    good |= error <= (4 if name in ("erfc", "lgamma") else 2)
    bad = np.flatnonzero(~good)[:4]
    assert not bad.size, [(*(a[k] for a in args), computed[k], expected[k]) for k in bad]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_select_const(dtype: type, width: str) -> None:
    run, (a, b) = loops(dtype, width), pairs(dtype)
    assert_same(run("select", a, b), np.where(a < b, a, b))
    assert_same(run("const", a), np.where(a == a, dtype(-0.0), dtype(0.1)))
    small = np.arange(-30, 30).astype(dtype)
    assert_same(run("fma", small, small, small), small * small + small)


# -------------------------------------------------------------------- the checks themselves


def test_the_checks_notice_errors() -> None:
    x, exact = reference("exp", np.float64)
    good = loops(np.float64, "vector")("exp", x)
    middle = np.abs(x) < 700
    wrong = np.where(middle, np.nextafter(np.nextafter(good, np.inf), np.inf), good)
    assert np.mean(ulp_errors(wrong, exact)[middle] > ACCURACY["exp"][1]) > 0.5
    assert ulp_errors(np.full(2, np.inf), [mpmath.mpf(1), mpmath.mpf("1e400")]).tolist() == [np.inf, 0]
    for computed, expected in (([0.0], [-0.0]), ([1.0], [np.nan]), ([np.nan], [1.0]), ([1.0], [2.0])):
        with pytest.raises(AssertionError):
            assert_same(np.array(computed), np.array(expected))
