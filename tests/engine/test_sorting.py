"""Sorting, searching and interpolating in machine code: what NumPy gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import agree
from numpy.testing import assert_allclose, assert_array_equal
from performing import assert_same

from yota_py import grad, jit
from yota_py.capture.recording import record_call
from yota_py.engine.kernels.codegen import numpys_function
from yota_py.engine.schedule.fuse import fuse
from yota_py.engine.schedule.steps import Python
from yota_py.passes.lower import lower
from yota_py.passes.pipeline import optimise
from yota_py.testing.checks import check_grads

DTYPES = "float64 float32 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool".split()
KINDS: dict[str, dict[str, Any]] = {
    "none": {}, "quicksort": {"kind": "quicksort"}, "heapsort": {"kind": "heapsort"}, "stable": {"kind": "stable"},
    "mergesort": {"kind": "mergesort"}, "kept": {"stable": True}, "as it comes": {"stable": False},
}  # fmt: skip
SHAPES: dict[str, Callable[[Any], Any]] = {
    "line": lambda x: x[:37], "one": lambda x: x[:1], "matrix": lambda x: x[:60].reshape(5, 12),
    "transposed": lambda x: x[:60].reshape(5, 12).T, "Fortran": lambda x: np.asfortranarray(x[:60].reshape(5, 12)),
    "every third": lambda x: x[::3], "backwards": lambda x: x[::-1], "three axes": lambda x: x[:60].reshape(3, 4, 5),
    "lines of one": lambda x: x[:7].reshape(7, 1),
}  # fmt: skip


def with_ties(dtype: str, seed: int = 0) -> Any:
    """Numbers many of which are equal; among those that float, NaN, infinities and both zeros."""
    x = np.random.default_rng(seed).integers(0, 20, 100)
    if not dtype.startswith("float"):
        return x.astype(dtype)
    y = (x - 9.5).astype(dtype)
    y[3::11] = [np.nan, -0.0, np.inf, 0.0, -np.inf, np.nan, -0.0, 0.0, -np.nan]
    return y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_are_numpys(dtype: str, shape: str, kind: str) -> None:
    given = KINDS[kind]
    for axis in range(SHAPES[shape](with_ties(dtype)).ndim):
        both = jit(lambda x: (np.sort(x, axis, **given), np.argsort(x, axis, **given)))  # noqa: B023
        for seed in range(3):
            x = SHAPES[shape](with_ties(dtype, seed))
            before = x.copy()
            assert_same(both(x), (np.sort(x, axis, **given), np.argsort(x, axis, **given)))
            assert_array_equal(x, before)


def test_the_place_of_one_number() -> None:
    f = jit(lambda x: np.argsort(np.asarray(x)[()]) + 1)
    for x in (1.0, 2.0, 0.0):
        assert_same(f(np.array(x)), np.argsort(np.array(x)) + 1)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_searches_are_numpys(dtype: str, side: Any) -> None:
    """For many numbers and one, in tables that end with NaN, of one number, and that are views."""
    search = jit(lambda table, x: (np.searchsorted(table, x, side), np.searchsorted(table, x[1], side) + 1))
    for seed in range(4):
        ordered, x = np.sort(with_ties(dtype, seed)), with_ties(dtype, seed + 9)
        for table in (ordered, ordered[:1], ordered[::3], np.sort(-ordered)[::-1] if dtype != "bool" else ordered):
            assert_same(search(table, x[::2]), (table.searchsorted(x[::2], side), table.searchsorted(x[2], side) + 1))
        columns = x[:60].reshape(5, 12).T
        assert_same(jit(lambda x: np.searchsorted(ordered, x, side=side) * 2)(columns),  # noqa: B023
                    np.searchsorted(ordered, columns, side=side) * 2)  # fmt: skip


@pytest.mark.parametrize("f", [
    lambda x: np.interp(x, [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]),
    lambda x: np.searchsorted(np.array([2.0, 0.0, 1.0, 9.0]), x),
])  # fmt: skip
def test_tables_in_no_order_are_left_to_numpy(f: Any) -> None:
    compiled = jit(f)
    for k in range(3):
        x = np.random.default_rng(k).uniform(0, 4, 8)
        assert_array_equal(compiled(x), f(x))


POINTS: dict[str, tuple[list[float], list[float]]] = {
    "some": ([-1.5, -0.2, 0.0, 0.4, 1.0, 2.5], [3.0, -1.0, 2.0, 2.0, 0.5, 4.0]), "one": ([0.3], [2.0]),
    "two": ([-1.0, 1.0], [0.0, 3.0]), "steps": ([0.0, 1.0, 1.0, 1.0, 2.0], [0.0, 1.0, 5.0, 7.0, 2.0]),
    "infinite": ([0.0, 1.0, 2.0], [0.0, np.inf, 2.0]), "unknown": ([0.0, 1.0, 2.0], [np.nan, 1.0, 2.0]),
    "from infinity": ([-np.inf, 0.0, np.inf], [1.0, 2.0, 3.0]), "level": ([-np.inf, 0.0, 1.0], [2.0, 2.0, 3.0]),
    "too large": ([0.0, 1e308, 1.7e308], [-1.7e308, 1.7e308, 1.7e308]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ends", [{}, {"left": -5.0}, {"right": 7}, {"left": np.nan, "right": np.inf}])
@pytest.mark.parametrize("points", POINTS)
def test_interpolation_is_numpys(points: str, ends: dict[str, Any]) -> None:
    xp, fp = map(np.array, POINTS[points])
    x = np.array([*POINTS[points][0], np.nan, np.inf, -np.inf, -0.0, 0.1, 0.5, 1.5, -3.0, 9.0, 1.2e308])
    many, one = (jit(lambda x, xp, fp, k=k: np.interp(x[k], xp, fp, **ends)) for k in (slice(None), 3))
    for k in range(3):
        at = np.roll(x, k)
        assert_allclose(many(at, xp, fp), np.interp(at, xp, fp, **ends), rtol=1e-14)
        have, want = one(at, xp, fp), np.interp(at[3], xp, fp, **ends)
        assert_allclose(have, want, rtol=1e-14)
        assert type(have) is type(want)
    whole = np.arange(-2, 4)
    assert_allclose(many(whole, xp, fp.astype(np.float32)), np.interp(whole, xp, fp.astype(np.float32), **ends))


def test_places_in_turns() -> None:
    def f(s: Any, x: Any) -> Any:
        for _ in range(40):
            s = 0.9 * s + x[np.minimum(np.searchsorted(np.arange(3.0) - 1, s), 3)] + np.prod(np.tanh(s * x))
        return np.sum(s)

    for seed in range(4):
        agree(f, *np.random.default_rng(seed).normal(size=(2, 4)), against=("plain", "fresh", "differences"))


def test_interpolation_in_turns() -> None:
    """A table that drives a differential equation."""
    times = np.linspace(0.0, 2.0, 12)

    def f(p: Any, table: Any) -> Any:
        y, dt = p[0], 0.02
        for k in range(90):
            y = y + dt * (np.interp(k * dt * p[1], times, table) - p[2] * y)
        return y

    for seed in range(3):
        p, table = np.random.default_rng(seed).uniform(0.5, 1.0, 3), np.random.default_rng(seed).normal(size=12)
        agree(f, p, table, against=("plain", "fresh", "differences"))
    check_grads(f, np.array([0.5, 0.91, 0.3]), np.cos(times))


@pytest.mark.parametrize("f", [
    lambda x: np.interp(x, np.arange(4.0), x[:4]), lambda x: np.searchsorted(np.arange(4.0), x),
    lambda x: x[np.searchsorted(np.arange(4.0), x[3])],
    lambda x: np.sort(x), lambda x: x[np.argsort(-x)], lambda x: np.sort(x.reshape(5, 6), axis=0),
    lambda x: np.argsort(x.astype(np.float32)), lambda x: np.sort(x > 0), lambda x: np.argsort(x, kind="stable"),
    lambda x: np.sort(np.sort(x.reshape(5, 6), axis=0), axis=1),
])  # fmt: skip
def test_no_python_steps(f: Any) -> None:
    tape = optimise(lower(record_call(f, (np.linspace(-1.0, 1.0, 30),), {})).tape)
    assert not [step for step in fuse(tape).steps if isinstance(step, Python)]


def in_place(x: Any) -> Any:
    x[:] = np.sort(x)
    x[1:] = x[np.argsort(-x[1:])]
    return x * 2


def of_itself(x: Any) -> Any:
    y = np.sort(x)
    y[0], z = -y[1], np.sort(y[::-1])
    return x, y, z


def as_method(x: Any) -> Any:
    y = x.copy()
    y.sort()
    return y, x.argsort(), x[::2]


def in_turns(x: Any) -> Any:
    y, total = x * 1.0, 0.0
    for i in range(60):
        y = np.sort(y * np.cos(x + i))
        total = total + y[0] * y[np.argsort(np.sin(y))[2]]
    return total


@pytest.mark.parametrize("f", [in_place, of_itself, as_method, in_turns])
def test_programs(f: Any) -> None:
    compiled = jit(f)
    for seed in range(4):
        x, y = (np.random.default_rng(seed).normal(size=9) for _ in range(2))
        want, have = f(x), compiled(y)
        assert_same((have, y), (want, x))


def test_derivatives() -> None:
    x = np.random.default_rng(0).permutation(12) / 3.0
    weights = np.arange(1.0, 13.0)
    for f in (lambda x: np.sort(x) ** 2 @ weights, lambda x: np.sum(np.sort(x.reshape(3, 4), axis=0)[1] ** 3),
              lambda x: x[np.argsort(x)[::2]] @ weights[:6], in_turns):  # fmt: skip
        check_grads(f, x)
    tied = np.array([1.0, 0.0, 1.0, 0.0, -0.0])
    value, (dx,) = grad(lambda x: np.sort(x, kind="stable") @ weights[:5], tied)
    assert value == 9.0
    assert_array_equal(dx, [4.0, 1.0, 5.0, 2.0, 3.0])


@pytest.mark.parametrize("name", ["float64", "int8", "complex128", "float16"])
def test_what_numpy_sorts_otherwise_is_left_to_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numpys_function.cache_clear()
    monkeypatch.setattr(np, "__version__", "3.0.0")
    f = jit(lambda x: np.sort(x))
    for seed in range(3):
        x = np.random.default_rng(seed).integers(0, 9, 20).astype(name)
        assert_array_equal(f(x), np.sort(x))
    monkeypatch.undo()
    numpys_function.cache_clear()


SCRIPT = """
import numpy as np, yota_py
yota_py.config.compile = "always"
f = yota_py.jit(lambda x: (np.sort(x), np.argsort(x, axis=0)))
x = np.random.default_rng(0).normal(size=(4, 5))
y, i = f(x)
assert (y == np.sort(x)).all() and (i == np.argsort(x, axis=0)).all()
print("fine")
"""


def test_machine_code_that_was_kept_finds_the_functions_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", SCRIPT], env={"YOTA_CACHE_DIR": str(tmp_path)}, check=True,
                              capture_output=True, text=True)  # fmt: skip
        assert done.stdout == "fine\n"
    assert [*tmp_path.rglob("*")]
