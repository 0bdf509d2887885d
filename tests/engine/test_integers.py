"""Integers of all widths, with and without a sign, against NumPy: the same bits, and no step in Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import jit
from yota_py.capture.recording import record_call
from yota_py.engine.compile import compile_recorded

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = [*INTEGERS, "bool", "float16", "float32", "float64"]
BINARY = [
    np.add, np.subtract, np.multiply, np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal,
    np.maximum, np.minimum, np.fmax, np.fmin, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.logical_and,
    np.logical_or, np.logical_xor, np.divide, np.floor_divide, np.remainder, np.fmod, np.left_shift, np.right_shift,
]  # fmt: skip
UNARY = [
    np.negative, np.positive, np.absolute, np.sign, np.square, np.invert, np.logical_not, np.floor, np.ceil, np.trunc,
    np.isnan, np.isinf, np.isfinite,
]  # fmt: skip
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "no dimension": lambda x: x[:1].reshape(()),
    "empty": lambda x: x[:0],
    "one": lambda x: x[:1],
    "Fortran": lambda x: x[:120].reshape(8, 15).T,
    "every third": lambda x: x[::3],
    "backwards": lambda x: x[::-1],
    "columns": lambda x: x[:120].reshape(8, 15)[:, 2:7],
    "short rows": lambda x: x[:120].reshape(2, 20, 3),
}
pytestmark = pytest.mark.filterwarnings("ignore")


def draw(dtype: str, count: int = 203, seed: int = 0) -> np.ndarray:
    """Numbers of the whole range, among them many of its ends and near zero."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.uniform(size=count) < 0.5
    if dtype.startswith("float"):
        return np.asarray(rng.normal(scale=100, size=count), dtype)
    info = np.iinfo(dtype)
    anywhere = rng.integers(info.min, info.max, count, dtype, endpoint=True)
    ends = np.array([0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min, info.min + 1, info.max // 2], dtype)
    ends = np.concatenate([ends, -ends[1:6]])
    return np.where(rng.uniform(size=count) < 0.6, rng.choice(ends, count), anywhere)


def assert_same(have: Any, want: Any, what: Any) -> None:
    assert type(have) is type(want), what
    assert have.dtype == want.dtype, what
    assert have.shape == want.shape, what
    assert np.array_equal(have, want, equal_nan=want.dtype.kind == "f"), (what, have, want)


def agrees(fs: list[Callable[..., Any]], *args: Any, steps: int = 0) -> None:
    """What the functions give for these arguments, compiled as one program, is what NumPy gives."""
    program = compile_recorded(record_call(lambda *args: [f(*args) for f in fs], args, {}))
    assert len(program.python_steps) == steps
    for f, have in zip(fs, program(*args), strict=True):
        assert_same(have, f(*args), (f, *(getattr(x, "dtype", x) for x in args)))


def loops(ufuncs: list[np.ufunc], *dtypes: str) -> list[Callable[..., Any]]:
    """Those that NumPy has for these dtypes."""

    def known(ufunc: np.ufunc) -> bool:
        try:
            return bool(ufunc.resolve_dtypes((*map(np.dtype, dtypes), None)))
        except TypeError:
            return False

    return [ufunc for ufunc in ufuncs if known(ufunc)]


@pytest.mark.parametrize("second", INTEGERS)
@pytest.mark.parametrize("first", DTYPES)
def test_of_two(first: str, second: str) -> None:
    x, y = draw(first, seed=1), draw(second, seed=2)
    agrees(loops(BINARY, first, second), x, y)
    agrees(loops(BINARY, second, first), y, x)
    agrees([lambda x, y: np.where(y > x, x, y), lambda x, y: np.where(x, y, x)], x, y)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_of_one(dtype: str) -> None:
    agrees(loops(UNARY, dtype), draw(dtype))
    agrees([np.zeros_like, np.ones_like, np.copy], draw(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_all_quotients(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.arange(info.min, info.max + 1).astype(dtype)
    agrees([np.floor_divide, np.remainder, np.fmod, np.left_shift, np.right_shift], x[:, None], x)


@pytest.mark.parametrize("dtype", INTEGERS[1:])
def test_quotients_near_whole_numbers(dtype: str) -> None:
    """Products of two numbers and their neighbours, divided by one of them."""
    rng, info = np.random.default_rng(9), np.iinfo(dtype)
    b = 2 ** rng.uniform(0, np.log2(info.max), 20_000)
    a = b * np.floor(info.max / b * rng.choice([1, rng.uniform()], b.size))
    signs = rng.choice([-1, 1], (2, b.size)) if info.min else np.ones((2, b.size), int)
    a, b = (x.clip(0, info.max - 1024 * (info.bits == 64)).astype(dtype) for x in (a, b))
    a = a // b * b
    x, y = (s.astype(dtype) * v for s, v in zip(signs, (a, b), strict=True))
    for near in (x, x + np.array(1, dtype), x - np.array(1, dtype)):
        agrees([np.floor_divide, np.remainder, np.fmod], near, y)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_layouts(dtype: str, name: str) -> None:
    x, y = (LAYOUTS[name](draw(dtype, seed=seed)) for seed in (3, 4))
    fs = [np.add, np.multiply, np.less, np.maximum, lambda x, y: x - y * x]
    agrees(fs, x, y, steps=len(fs) + 1 if name == "empty" else 0)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_broadcasting(dtype: str) -> None:
    x = draw(dtype)[:195]
    for a, b in itertools.permutations([x.reshape(3, 65), x[:65], x[:3].reshape(3, 1), x[7:8].reshape(())], 2):
        agrees([np.add, np.multiply, np.less_equal, np.minimum], a, b)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 1000])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_ends_of_rows(dtype: str, count: int) -> None:
    x, y = draw(dtype, count, 5), draw(dtype, count, 6)
    fs = [np.subtract, np.greater, lambda x, y: np.sum(x), lambda x, y: np.max(y), lambda x, y: np.min(y)]
    agrees([*fs, lambda x, y: np.prod(x), lambda x, y: np.any(x > y), lambda x, y: np.all(x)], x, y)


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", [*INTEGERS, "bool"])
def test_casts(source: str, target: str) -> None:
    agrees([lambda x: x.astype(target), lambda x: x[::3].astype(target), lambda x: x[0].astype(target)], draw(source))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_reductions(dtype: str) -> None:
    x = draw(dtype)[:198].reshape(6, 33)
    for f in (np.sum, np.prod, np.max, np.min, np.any, np.all, np.argmax, np.argmin, np.ptp):
        agrees([f, lambda x, f=f: f(x, axis=0), lambda x, f=f: f(x, axis=1), lambda x, f=f: f(x.T[::-1], axis=0)], x)
    agrees([lambda x: np.cumsum(x, axis=0), lambda x: np.cumsum(x, axis=1), lambda x: np.cumprod(x, axis=1)], x)
    agrees([lambda x: np.sum(x, (0, 1), keepdims=True), lambda x: np.max(x, 0, keepdims=True)], x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_numbers(dtype: str) -> None:
    agrees([lambda x: x[0] + x[1], lambda x: x * x[2], lambda x: x < x[3], lambda x: np.maximum(x[4], x)], draw(dtype))
    g = jit(np.add)
    for number in draw(dtype, 9):
        x = draw(dtype, 5)
        assert_same(g(x, number), x + number, number)
        assert_same(g(number, number), number + number, number)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_numbers_of_python(dtype: str) -> None:
    x, info = draw(dtype), np.iinfo(dtype)
    for number in (0, 1, 3, int(info.max), int(info.min)):
        agrees([lambda x, n=number: x + n, lambda x, n=number: n - x, lambda x, n=number: x * n], x)
        agrees([lambda x, n=number: x < n, lambda x, n=number: n == x, lambda x, n=number: np.maximum(x, n)], x)
    agrees([lambda x: x < int(info.max) + 1, lambda x: x >= int(info.min) - 1], x, steps=2)
    agrees([lambda x: x * 1.5, lambda x: 0.1 - x], x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_indices(dtype: str) -> None:
    at, x = np.array([0, 3, 2, 2], dtype), np.arange(5.0)
    agrees([lambda at, x: x[at], lambda at, x: np.take(x, at), lambda at, x: at[at]], at, x)
    if dtype.startswith("int"):
        agrees([lambda at, x: x[at]], -at, x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_decisions(dtype: str) -> None:
    def f(x: Any) -> Any:
        y = x + x
        if x[0] > 3:
            y = y - 1
        return y * int(x[1])

    g = jit(f)
    for first, second in itertools.product([0, 3, 4, np.iinfo(dtype).max], [2, 2, np.iinfo(dtype).max]):
        x = np.array([first, second, 5], dtype)
        assert_same(g(x), f(x), (first, second))
