"""Half precision: conversions bit by bit, operations that are computed in single precision and rounded, as NumPy does,
and no step in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from emitted import Loops
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad, jit
from yota_py.capture.recording import record_call
from yota_py.engine.compile import compile_recorded
from yota_py.engine.maths.llvm import DOUBLE, FLOAT, HALF

ALL = np.arange(2**16, dtype=np.uint16).view(np.float16)
pytestmark = pytest.mark.filterwarnings("ignore")


def computed(f: Callable[..., Any], *args: Any, steps: int = 0) -> Any:
    program = compile_recorded(record_call(lambda *args: [f(*args)], args, {}))
    assert len(program.python_steps) == steps
    (value,) = program(*args)
    return value


def assert_same(have: np.ndarray, want: np.ndarray) -> None:
    assert have.dtype == want.dtype
    assert_array_equal(have, want)
    numbers = want == want
    assert_array_equal(np.signbit(have)[numbers], np.signbit(want)[numbers])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_halves_as_wider_floats(dtype: str) -> None:
    f: Callable[[Any], Any] = lambda x: -x.astype(dtype)  # noqa: E731
    assert_same(computed(f, ALL), f(ALL))


def between() -> np.ndarray:
    """Numbers between two halves, and next to them, on both sides."""
    middle = (ALL.astype(float) + np.nextafter(ALL, np.float16(np.inf)).astype(float)) / 2
    return np.concatenate([middle, *(np.nextafter(middle, end) for end in (np.inf, -np.inf)), middle * (1 + 1e-7)])


def anything(dtype: str) -> np.ndarray:
    """Numbers of all sizes."""
    rng = np.random.default_rng(0)
    if dtype.startswith("float"):
        bits = rng.integers(0, 2**63, 10**5, np.uint64) * np.uint64(2) + rng.integers(0, 2, 10**5, np.uint64)
        drawn = bits.view(float) if dtype == "float64" else bits.astype(np.uint32).view(np.float32)
        near = 10 ** rng.uniform(-9, 6, 10**5) * rng.choice([-1, 1], 10**5)
        return np.concatenate([drawn, between().astype(dtype), near.astype(dtype)])
    info = np.iinfo(dtype)
    small = np.arange(max(info.min, -70_000), min(info.max, 70_000) + 1)
    return np.concatenate([small.astype(dtype), rng.integers(info.min, info.max, 10**5, dtype, endpoint=True)])


@pytest.mark.parametrize("dtype", "float64 float32 int64 int32 int16 int8 uint64 uint32 uint8".split())
def test_other_numbers_as_halves(dtype: str) -> None:
    x, zero = anything(dtype), np.zeros(1, dtype)
    f: Callable[[Any, Any], Any] = lambda x, zero: (x - zero).astype(np.float16)  # noqa: E731
    assert_same(computed(f, x, zero), f(x, zero))


@pytest.mark.parametrize("width", ["scalar", "vector"])
def test_conversions_on_machines_without_instructions_for_them(width: str) -> None:
    to = {np.float64: DOUBLE, np.float32: FLOAT, np.float16: HALF}
    pairs: list[tuple[type, type]] = [(np.float16, np.float32), (np.float16, np.float64), (np.float32, np.float16),
                                      (np.float64, np.float16)]  # fmt: skip
    cases = [(f"{a.__name__}-{b.__name__}", lambda k, x, b=b: k.cast(x, to[b]), [a], b) for a, b in pairs]
    loops = Loops(cases, width)
    for a, b in pairs:
        x = ALL if a is np.float16 else anything(a.__name__)
        assert_same(loops(f"{a.__name__}-{b.__name__}", x), x.astype(b))


FUNCTIONS = [
    np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sqrt, np.cbrt, np.sin, np.cos, np.tan, np.arcsin,
    np.arccos, np.arctan, np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions(f: np.ufunc) -> None:
    """Of all halves they are rounded right, but for some that lie in the middle of two: NumPy 2.3 errs more often."""
    have, want = computed(f, ALL), f(ALL.astype(float)).astype(np.float16)
    assert have.dtype == np.float16
    assert np.count_nonzero((have != want) & (want == want)) < 50
    assert_allclose(have, want, rtol=1e-3, atol=6e-8)


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "sum of Python's number": lambda x, y: x * 3 + 0.1,
    "chain": lambda x, y: (x * y + x) / (y * y + np.float16(1)),
    "where": lambda x, y: np.where(x > y, x, y * y),
    "extrema": lambda x, y: np.maximum(np.minimum(x * y, np.float16(0)), -np.minimum(x * 0, y * 0)),
    "slices": lambda x, y: x[::3] * y[::-3],
    "transposed": lambda x, y: x.reshape(64, 4).T + y.reshape(4, 64),
    "gathered": lambda x, y: x[np.array([3, -1, 200, 3])] * y[:4],
    "written": lambda x, y: written(x, y),
    "concatenated": lambda x, y: np.concatenate([x, y * y, x[:3]]),
    "broadcast": lambda x, y: np.broadcast_to(x[3], (5, 7)) * y[:7],
    "sorted": lambda x, y: np.sort(x * y),
    "places": lambda x, y: np.argsort(x * y, kind="stable"),
    "mixed": lambda x, y: x * y.astype(np.float32) + np.arange(256, dtype=np.int8),
    "no dimension": lambda x, y: x[0] * y[1] + x[2],
}


@pytest.mark.parametrize("f", [np.maximum, np.minimum, np.fmax, np.fmin], ids=lambda f: f.__name__)
def test_zeros_and_nan_of_extrema(f: np.ufunc) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf], np.float16)
    for y in (x, x.astype(np.float32), np.array([0, 1, 200], np.uint8)):
        assert_same(computed(f, x[:, None], y), f(x[:, None], y))
        assert_same(computed(f, y, x[:, None]), f(y, x[:, None]))


def written(x: Any, y: Any) -> Any:
    z = x * y
    z[2:9] = y[2:9]
    z[np.array([0, 1, 100])] = x[:3]
    z[5] = 1.5
    return z


@pytest.mark.parametrize("f", MOVES.values(), ids=MOVES)
def test_programs(f: Callable[[Any, Any], Any]) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 256)).astype(np.float16)
    assert_same(np.asarray(computed(f, x, y)), np.asarray(f(x, y)))


@pytest.mark.parametrize("name", [n for n in MOVES if n not in ("places", "sorted")])
def test_derivatives(name: str) -> None:
    """They are those of the same program in double precision, rounded."""
    f, rng = MOVES[name], np.random.default_rng(2)
    x, y = rng.normal(size=(2, 256)).astype(np.float16)

    def loss(x: Any, y: Any) -> Any:
        return np.sum(f(x, y).astype(float) * 0.25)

    for _ in range(3):
        value, slopes = grad(loss, x, y)
        exact, wanted = grad(loss, x.astype(float), y.astype(float))
        assert_allclose(value, exact, rtol=3e-3, atol=3e-2)
        for have, want in zip(slopes, wanted, strict=True):
            assert have.dtype == np.float16
            assert_allclose(have, want, rtol=1e-2, atol=1e-2)


def test_what_is_summed_up_is_left_to_numpy() -> None:
    index = np.array([0, 1, 1, 2, 2, 2])

    def f(x: Any) -> Any:
        z = np.zeros(3, np.float16) * x[0]
        np.add.at(z, index, x)
        return np.concatenate([z, np.cumsum(x), np.sum(x.reshape(2, 3), axis=0)])

    x = np.linspace(0.1, 0.7, 6).astype(np.float16)
    assert_same(jit(f)(x), f(x))
    assert_same(grad(lambda x: np.sum(x[index].astype(float) * np.arange(6.0)), x[:3])[1][0],
                np.array([0, 3, 12], np.float16))  # fmt: skip


def test_turns_of_a_loop() -> None:
    def f(x: Any, a: Any) -> Any:
        for _ in range(40):
            x = x + a * (np.float16(1) - x)
        return x

    step = jit(f)
    for seed in range(3):
        x, a = np.random.default_rng(seed).uniform(0, 1, (2, 3)).astype(np.float16)
        assert_same(step(x, a), f(x, a))
        assert_same(step(x[0], a[0]), f(x[0], a[0]))
        value, slopes = grad(lambda x, a: np.sum(f(x, a).astype(float)), x, a)
        exact, wanted = grad(lambda x, a: np.sum(f(x, a)), x.astype(float), a.astype(float))
        assert_allclose(value, exact, rtol=2e-2)
        for have, want in zip(slopes, wanted, strict=True):
            assert have.dtype == np.float16
            assert_allclose(have, want, rtol=5e-2, atol=5e-2)
