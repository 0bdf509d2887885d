"""Complex numbers in compiled programs: in terms of their parts, as NumPy computes them, at special values too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from caching import is_compiled
from numpy.testing import assert_allclose

from yota_py import explain, grad, gradient, jit, value_and_grad
from yota_py.cache.modes import Gradient, Request
from yota_py.capture.recording import record_call
from yota_py.engine.compile import compile_recorded

RNG = np.random.default_rng(2)


def real(*shape: int) -> Any:
    return RNG.normal(size=shape)


def full(*shape: int) -> Any:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


LOSSES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "waves": (lambda x: np.sum(np.abs(np.exp(1j * x) + x) ** 2), lambda: (real(20),)),
    "products": (lambda z, w: np.real(np.sum(z * w * np.conj(z))), lambda: (full(10), full(10))),
    "quotients": (lambda x, w: np.imag(np.sum(x / w + w / x)), lambda: (real(10), full(10))),
    "logarithms, roots": (lambda z: np.sum(np.abs(np.log(z) * np.sqrt(z))), lambda: (full(3, 4),)),
    "trigonometry": (lambda z: np.sum((np.sin(z) * np.cos(z) + np.sinh(z) - np.cosh(z)).real), lambda: (full(3, 4),)),
    "matrices": (lambda z, w, x: np.sum(np.abs(z @ w @ x)), lambda: (full(4, 5), full(5, 3), real(3, 2))),
    "stacks": (lambda z, w: np.sum(np.abs(z @ w)), lambda: (full(3, 4, 15), full(3, 15, 16))),
    "indices": (lambda z: np.sum(np.abs(z[1:] * z[:-1] + z[[0, 0, 2]])), lambda: (full(4),)),
    "shapes": (lambda z: np.sum(np.abs(z.reshape(2, 3).T * z.reshape(3, 2))), lambda: (full(6),)),
    "joining": (lambda z, w: np.sum(np.abs(np.concatenate([z, w]) * 2j) ** 3), lambda: (full(6), full(3))),
    "choices": (lambda z: np.sum(np.abs(np.where(z.real > 0, z, 1 / z))), lambda: (full(6),)),
    "means": (lambda z: abs(np.mean(z) - np.sum(z, axis=0)[1] * 2), lambda: (full(6, 3),)),
    "numbers": (lambda z: abs(z * z + 2.0) ** 2, lambda: (complex(*real(2)),)),
    "single precision": (lambda z: np.sum(np.abs(z * z * np.exp(z))), lambda: (full(6).astype(np.complex64),)),
    "variance": (lambda z: np.var(z), lambda: (full(6),)),
    "angles": (lambda z: np.sum(np.angle(z) + np.angle(z, deg=True)), lambda: (full(6),)),
    "powers": (lambda z: np.sum(np.abs(z**3 + z**-1 + z**2)), lambda: (full(6),)),
    "equality": (lambda z: np.sum(np.abs(z) * (z == z.conj()) + np.abs(z) * (z != 0)), lambda: (full(6),)),
    "casts": (lambda x: np.sum(np.abs(x.astype(complex) * 1j + x.astype(np.complex64))), lambda: (real(6),)),
    "assignments": (lambda z: np.sum(np.abs(assigned(z))), lambda: (full(6),)),
    "a transfer function": (lambda x: np.sum(np.abs(1 / (1 + 1j * x * np.linspace(0, 3, 9)[:, None])) ** 2),
                            lambda: (real(4),)),
}  # fmt: skip


def assigned(z: Any) -> Any:
    y = np.zeros(8, complex)
    y[1:7] = z * 1j
    y[0] = z[0] ** 2
    return y * y[::-1]


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_compiled(name: str) -> None:
    f, draw = LOSSES[name]
    compiled = value_and_grad(f, tuple(range(len(draw()))))
    compiled.compile(*draw())
    assert "NumPy" not in str(explain(compiled)[0].entries[-1])  # no step in Python
    tolerance = 1e-4 if name in ("single precision", "casts") else 1e-9
    for _ in range(3):
        args = draw()
        value, slopes = compiled(*args)
        fresh, want = grad(lambda *args: f(*args), *args)
        assert_allclose(value, fresh, rtol=tolerance)
        for have, slope in zip(slopes, want, strict=True):
            assert np.asarray(have).dtype == np.asarray(slope).dtype
            assert_allclose(have, slope, rtol=tolerance, atol=tolerance)


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e200, -1e-200, 20.0, -700.0]
POINTS = np.array([complex(a, b) for a in EDGES for b in EDGES])


def _run(f: Callable[..., Any], *args: Any) -> Any:
    program = compile_recorded(record_call(f, args, {}))
    assert not program.python_steps
    return program(*args)[0]


def _same(a: Any, b: Any) -> Any:
    """Equal up to rounding, zeros with their signs, NaN with NaN."""
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= 1e-13 * np.abs(b)
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b))) | (close & (b != 0))


BINARY = [np.add, np.subtract, np.multiply, np.divide]
UNARY = [np.exp, np.log, np.sqrt, np.sin, np.cos, np.sinh, np.cosh, np.square, np.reciprocal, np.negative, np.conj]


@pytest.mark.parametrize("fn", BINARY, ids=lambda fn: fn.__name__)
def test_arithmetic_at_the_edges(fn: Any) -> None:
    pairs = [np.meshgrid(POINTS, POINTS[::3]), np.meshgrid(EDGES, POINTS), np.meshgrid(POINTS, EDGES)]
    with np.errstate(all="ignore"):
        for a, b in pairs:
            have, want = _run(fn, a, b), fn(a, b)
            good = _same(have.real, want.real) & _same(have.imag, want.imag)
            assert good.all(), [*zip(a[~good], b[~good], have[~good], want[~good], strict=True)][:3]


@pytest.mark.parametrize("fn", UNARY, ids=lambda fn: fn.__name__)
def test_functions_at_the_edges(fn: Any) -> None:
    """Where both parts are infinite or NaN, C99 leaves much open."""
    with np.errstate(all="ignore"):
        z = POINTS[np.isfinite(POINTS.real) | np.isfinite(POINTS.imag)]
        have, want = _run(fn, z), fn(z)
    good = _same(have.real, want.real) & _same(have.imag, want.imag)
    if fn in (np.sin, np.cos, np.sinh, np.cosh):  # the sign of zero beside NaN
        good |= np.isnan(want.real) & (want.imag == 0) & np.isnan(have.real) & (have.imag == 0)
        good |= np.isnan(want.imag) & (want.real == 0) & np.isnan(have.imag) & (have.real == 0)
    if fn is np.square:  # of two products beyond the range one may not be rounded: their difference is any, or NaN
        with np.errstate(all="ignore"):
            good |= np.isinf(z.real * z.real) & np.isinf(z.imag * z.imag) & _same(have.imag, want.imag)
    assert good.all(), [*zip(z[~good], have[~good], want[~good], strict=True)]


def test_results_are_complex_numbers_and_arrays() -> None:
    z, w = full(3), complex(0.3, -1.2)
    for f, args in ((lambda z: (z * z, z.real, np.sum(z)), (z,)), (lambda w: (w * w, w.imag, w + 1), (w,))):
        program = compile_recorded(record_call(f, args, {}))
        for have, want in zip(program(*args), f(*args), strict=True):
            assert type(have) is type(want)
            assert_allclose(have, want)


@pytest.mark.parametrize("z", [1 + 2j, np.complex128(1 + 2j), np.complex64(1 + 2j), np.array(1 + 2j)], ids=repr)
def test_functions_of_one_number(z: Any) -> None:
    for fn in UNARY:
        slope = value_and_grad(lambda z, fn=fn: fn(z).real * 1.0)
        slope.compile(z)
        value, dz = slope(z)
        fresh, want = grad(lambda z, fn=fn: fn(z).real * 1.0, z)
        assert_allclose([value, dz], [fresh, want[0]], rtol=1e-5 if z.__class__ is np.complex64 else 1e-12)


def test_second_derivatives_through_a_number() -> None:
    def inner(z: Any) -> Any:
        return np.sum(np.real(gradient(lambda z: np.real(np.sum(z) ** 2))(z)))

    second = gradient(inner)
    second.compile(full(2))
    assert_allclose(second(full(2)), [4, 4])


@pytest.mark.parametrize("fn", [lambda x: x / 2j, lambda x: np.where(x > 0, x, 1j), lambda x: x / (1 + 1j)])
def test_numbers_of_python_are_weak(fn: Callable[[Any], Any]) -> None:
    x = np.array([1.0, -2.0], np.float32)
    have = _run(fn, x)
    assert have.dtype == fn(x).dtype == np.complex64
    assert_allclose(have, fn(x), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_roots_and_logarithms_of_large_numbers(dtype: Any) -> None:
    largest = np.finfo(dtype).max
    z = np.array([complex(largest, largest) * 0.8, complex(-largest, 1) * 0.9, complex(0, -largest)], dtype)
    for fn in (np.sqrt, np.log):
        assert_allclose(_run(fn, z), fn(z), rtol=1e-6)


def test_arrays_of_one_element_stay_arrays() -> None:
    def f(x: Any) -> Any:
        y = x[-1, ...].astype(complex) * 2.0
        return np.abs(np.broadcast_to(x[0, ...].astype(np.complex128), (3,)) * y).sum()

    grad.compile(f, np.array([2.0, 3.0]))
    for x in (np.array([2.0, 3.0]), np.array([0.5, 4.0]), np.array([1.0, 1.0])):
        value, (dx,) = grad(f, x)
        assert_allclose(value, 6 * x[0] * x[1])
        assert_allclose(dx, 6 * x[::-1])


SHAPES = [(), (0,), (1,), (7,), (8,), (17,), (33,), (1, 5), (5, 1), (3, 4), (5, 9), (2, 3, 17), (9, 1, 9), (129,)]
OF_LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "sums": lambda z, w: z + w,
    "products": lambda z, w: z * np.conj(w),
    "parts exchanged": lambda z, w: w.imag * z.real + 1j * w.real,
    "transposes": lambda z, w: z.T * w.T + 1,
    "one transpose": lambda z, w: z + np.reshape(w, z.shape[::-1]).T,
    "broadcast": lambda z, w: z * np.reshape(w, (-1,))[:1] if z.size else z,
    "repeated": lambda z, w: np.broadcast_to(z, (3, *z.shape)) * 1j,
    "backwards": lambda z, w: z[..., ::-1] * w if z.ndim else z,
    "every second": lambda z, w: z[..., ::2] * w[..., -1:] if z.ndim else z,
    "every second part": lambda z, w: z.real[..., ::2] + w.imag[..., ::2] if z.ndim else z,
    "outer": lambda z, w: z.real[..., None] + 1j * w.imag[..., None, :] if z.ndim else z,
    "totals": lambda z, w: np.sum(z * w),
    "totals of rows": lambda z, w: np.sum(z * w, axis=-1) if z.ndim else z,
    "totals of columns": lambda z, w: np.sum(z * w, axis=0) if z.ndim else z,
}


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", OF_LAYOUTS)
def test_parts_lie_in_memory_in_all_ways(name: str, dtype: Any) -> None:
    f = OF_LAYOUTS[name]
    for shape in SHAPES:
        z, w = (np.asarray(full(*shape)).astype(dtype) for _ in range(2))
        for order in (z, w), (np.asfortranarray(z), np.asfortranarray(w)):
            have, want = compile_recorded(record_call(f, order, {}))(*order)[0], f(*order)
            assert np.shape(have) == np.shape(want)
            assert np.asarray(have).dtype == np.asarray(want).dtype
            assert_allclose(have, want, rtol=1e-12 if dtype is np.complex128 else 1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "bool"])
def test_every_second_element(dtype: str) -> None:
    """Elements of even and of odd indices are read together, also where the last of them is the last in memory."""
    def f(x: Any, y: Any) -> Any:
        first, second = x[..., ::2], x[..., 1::2]
        return second + y, first + y, second * first, np.where(first > second, first, second), np.sum(second, axis=0)

    for shape in SHAPES[2:]:
        x = (10 * real(*shape[:-1], 2 * shape[-1])).astype(dtype)
        y = (10 * real(*shape)).astype(dtype)
        odd = x[..., :-1]
        for have, want in zip(compile_recorded(record_call(f, (x, y), {}))(x, y), f(x, y), strict=True):
            assert_allclose(have, want, rtol=1e-5, atol=1e-5)
        assert_allclose(_run(lambda x: x[..., ::2] * x[..., :1], odd), odd[..., ::2] * odd[..., :1], rtol=1e-6)


def test_absolute_values_at_the_edges() -> None:
    for dtype in (np.complex128, np.complex64):
        form = np.finfo(dtype)
        edges = [*EDGES, form.max, -form.max / 1.5, form.max / 1.4, form.tiny, form.smallest_subnormal]
        with np.errstate(all="ignore"):
            x, y = (part.astype(form.dtype) for part in np.meshgrid(edges, edges))
            z = np.empty(x.shape, dtype)
            z.real, z.imag = x, y
            for have in (_run(np.abs, z), _run(np.hypot, x, y)):
                assert_allclose(have, np.hypot(x, y), rtol=2 * form.eps, atol=form.smallest_subnormal)


WEAK = [
    lambda a: abs(complex(a, 1.0) * np.complex64(2)), lambda a: np.real((a + 2j) ** 2 * np.float32(1)),
    lambda a: ((a + 1j * a) * np.array([1, 2], np.complex64)).real.sum(), lambda a: (a * 1j).imag * np.float32(2),
    lambda a: np.abs(np.exp(1j * a) * np.complex64(1j)), lambda a: ((1 + a * 1j) / (2 - a * 1j)).real,
    lambda a: np.real(np.complex64(1) * (a + 1j * a)), lambda a: np.sum(np.abs(np.ones(2, np.float32) + 1j * a) ** 2),
]  # fmt: skip


@pytest.mark.parametrize("f", WEAK)
def test_pythons_complex_numbers_take_the_others_precision(f: Any) -> None:
    for a in (0.3, 1.2, -0.7):
        value, (gradient,) = grad(f, a)
        want, (wanted,) = Gradient().interpret(Request(f, (a,), {}))
        assert type(value) is type(want) and type(gradient) is type(wanted)
        assert_allclose([value, gradient], [want, wanted], rtol=1e-6, atol=1e-7)
        assert_allclose(value, f(a), rtol=1e-6)
    assert is_compiled(f)


@pytest.mark.parametrize("power", ["1", "2", "3", "4", "7", "2.0", "99", "-1", "0.5"])
def test_powers_of_pythons_numbers_to_the_sign_of_a_zero(power: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def f(z):\n    return z ** {power}\ndef g(z):\n    return z ** {power} - 1.0", space)
    zeros = [complex(x, y) for x in (-0.5, 0.5, -0.0, 0.0) for y in (0.0, -0.0, 0.5, -0.5)]
    for f in (space["f"], space["g"]):
        fast = jit(f)
        for z in [*zeros, complex(1.5, -2.0), complex(-1.25, 1.5)]:
            if z or float(power) > 0:
                have, want = fast(z), f(z)
                assert type(have) is type(want)
                assert [math.copysign(1, x) for x in (have.real, have.imag)] == [
                    math.copysign(1, x) for x in (want.real, want.imag)
                ], z
                assert_allclose(have, want, rtol=1e-13)


@pytest.mark.parametrize("power", ["1", "2", "4", "5", "99"])
def test_powers_of_arrays_to_the_sign_of_a_zero(power: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def f(z):\n    return z ** {power}", space)
    f, fast = space["f"], jit(space["f"])
    z = np.array([complex(x, y) for x in (-0.5, 0.5, 1.5) for y in (0.0, -0.0, 0.5, -0.5)])
    for _ in range(3):
        have, want = fast(z), f(z)
        np.testing.assert_array_equal(np.signbit(have.view(float)), np.signbit(want.view(float)))
        assert_allclose(have, want, rtol=1e-14)
