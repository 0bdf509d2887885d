"""Values, dtypes, kinds and signs of zeros of functions, compiled, are those of NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from caching import function
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad, jit

A = np.array([[1.0, -2.5], [0.5, 3.0]])
M = np.array([True, False, True])
X = np.array([1.0, -2.0, 0.5])
NANS = np.array([1.0, np.nan, -2.0])
BIG = np.array([2**62, 2**62, 5])
ENDS = [np.array([np.nan, 2.0]), np.array([np.inf, 2.0]), np.array([0.5, -np.inf]), np.array([1.0, 2.0])]
CALLS: list[tuple[str, Any]] = [
    *((call, A) for call in (
        "np.matmul(x, x, axes=[(0, 1), (1, 0), (0, 1)])", "np.matmul(x, x, dtype=np.float32, casting='unsafe')",
        "np.take(x, [], axis=0)", "np.take(x, [[], []], axis=1)")),
    *((call, X) for call in (
        "np.take(x, [], axis=0)", "x.take([])", "np.take(x, [])",
        "np.einsum('i,i', x, x, dtype=np.float32, casting='unsafe')",
        "np.var(x, mean=np.mean(x, keepdims=True))", "np.std(x, mean=0.25)", "np.sum(x, where=False)",
        "np.max(-x * x, initial=False)", "np.prod(x, where=False)", "x.astype(str)", "x.astype('S5')",
        "x.astype(str)[0]", "np.char.upper(x.astype('U5'))", "np.char.mod('%g', x)", "x.astype(object)")),
    *((f"np.{name}(x, dtype={dtype})", X) for name in ("var", "std") for dtype in (
        "np.complex64", "bool", "int", "np.float32")),
    *((f"np.{name}(x, {keywords})", NANS) for name in ("nanmax", "nanmin") for keywords in (
        "initial=0.0", "initial=np.nan", "where=M, initial=-9.0", "axis=0, where=M, initial=9.0, keepdims=True")),
    *((f"np.{name}(x)", x) for name in ("nanmax", "nanmin", "nansum", "nanmean", "max", "median") for x in (
        np.array([3, 1]), np.array([True, False]), np.array([2, 3], np.uint8), np.array([2, 3], np.float32))),
    *(("np.nanmin(x, axis=0)", x) for x in (np.array([[3, 1]]), np.array([[True, False]]))),
    *((f"np.{call}", NANS) for call in (
        "nansum(x, where=M)", "nansum(x, initial=3.0)", "nanmean(x, where=x > 0)", "nansum(x, where=False)")),
    *((f"np.linspace({ends}, {rest})", x) for ends in ("x, 0.0", "0.25, x") for x in ENDS for rest in (
        "3", "4, endpoint=False", "1", "5, axis=-1")),
    ("np.linspace(x, 2, 6, dtype=int)", np.array(-3.5)), ("np.linspace(x, 1, 3)", np.float32(0.1)),
    *((f"np.{name}(x, out={out})", BIG) for name in ("cumsum", "cumprod") for out in (
        "np.zeros(3)", "np.zeros(3, int)", "np.zeros(3, complex)")),
    *((f"np.{call}", BIG) for call in (
        "sum(x, out=np.zeros(()))", "prod(x, None, None, np.zeros(()))", "cumsum(x, 0, None, np.zeros(3))")),
    *(("np.arange(x, 5)", x) for x in (
        np.array(0, np.uint32), np.array(1, np.uint64), np.float32(0.5), np.array(1, np.int8), np.array(0.5))),
    *(("np.arange(x)", x) for x in (np.uint8(3), np.array(3, np.int16), np.array(2.5, np.float32), 4)),
    *(("np.arange(x, 2)", x) for x in (np.uint8(5), np.int8(-3), -1.5)),
    *((f"np.median(x{axis})", x) for axis in ("", ", axis=0") for x in (
        np.array([-0.0]), np.array([-0.0, -0.0]), np.array([[-0.0, 1.0]]), np.array([-0.0], np.float32))),
    *((f"np.{call}", x) for call in (
        "dot(0.0, x)", "dot(x, 0.0)", "inner(np.array(0.0), x)", "inner(x, 2.0)", "dot(x, x)") for x in (
        np.array([-1, 2]), np.array([-1.0, 2.0]), np.array([-1.0, 2.0], np.float32), np.array([-1j, 2.0]))),
    ("np.dot(0.0, x)", -1.0), ("np.dot(0.0, x)", np.array(-1.0)),
    ("np.dot(x, 0.0)", np.array([[-1.0, 2.0], [1.0, 2.0]])),
    ("x.is_integer()", 1.5), ("x.is_integer()", 2.0), ("x.is_integer()", np.float64(2.0)),
]  # fmt: skip


def same(have: Any, want: Any) -> None:
    """Equal types, dtypes, shapes, values up to rounding, and signs of zeros."""
    assert type(have) is type(want)
    a, b = np.asarray(have), np.asarray(want)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    if a.dtype.kind not in "fc":
        assert_array_equal(a, b)
        return
    assert_allclose(a, b, rtol=4 * np.finfo(a.dtype).eps)
    for part in (np.real, np.imag):
        assert_array_equal(np.signbit(part(a)[a == 0]), np.signbit(part(b)[a == 0]))


@pytest.mark.parametrize(("call", "x"), CALLS)
def test_compiled(call: str, x: Any) -> None:
    f = function(f"def f(x): return {call}", M=M)
    compiled = jit(f)
    with np.errstate(all="ignore"):
        for _ in range(3):
            same(compiled(x), f(x))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_variances_of_complex_numbers_in_real_dtypes(dtype: Any) -> None:
    f = jit(lambda z: np.var(z, dtype=dtype))
    z = np.array([1.0 + 2j, 0.5 - 1j])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        for _ in range(3):
            same(f(z), np.var(z, dtype=dtype))


def test_the_width_of_text_may_change() -> None:
    f = jit(lambda x: np.char.mod("%g", x))
    for x in ([1.0, 2.0], [1.0, 3.0], [1.25, 2.0], [1.0, -2.5], [1.0, 3.0]):
        same(f(np.array(x)), np.char.mod("%g", x))


@pytest.mark.parametrize("call", [
    "np.sum(x, where=False)", "np.prod(x, where=False)", "np.max(-x * x, initial=False)", "np.sum(np.take(x, []))",
    "np.sum(np.take(x, [[]], axis=0))", "np.sum(np.take(x, ()))", "np.nansum(x, where=False)",
])  # fmt: skip
def test_nothing_flows(call: str) -> None:
    f = function(f"def f(x): return {call}")
    for k in range(3):
        value, (dx,) = grad(f, X + k)
        assert value == f(X + k)
        assert_array_equal(dx, np.zeros(3))


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "error::yota_py.AuditWarning")
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("f", [np.exp, np.exp2, np.sinh, np.cosh, np.expm1, lambda x: np.power(2.5, x)])
def test_what_overflows_meets_infinities(f: Any, sign: float) -> None:
    """Nothing is added to a part of an exponential."""

    def g(x: Any, y: Any) -> Any:
        return f(x * 1.0) + sign * y

    x, y = np.array([2000.0, 2000.0, 3.0, 710.0]), np.array([-np.inf, np.inf, 1.0, -np.inf])
    compiled = jit(g)
    with np.errstate(all="ignore"):
        for _ in range(4):
            assert_allclose(compiled(x, y), g(x, y), rtol=1e-14)
            for a, b in zip(x, y, strict=True):
                assert_allclose(compiled(a, b), g(a, b), rtol=1e-14)
