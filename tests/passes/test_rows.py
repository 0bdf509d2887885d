"""What is added to a few rows of an array, in programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sets import examples

from yota_py import gradient, jit
from yota_py.tape.operations import Call

RNG = np.random.default_rng(0)
N = 60


def random(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def words(*shape: int) -> np.ndarray:
    return RNG.integers(-N, N, size=shape)


def of_rows(table: Any, *indices: Any) -> Any:
    total = 0.0
    for index in indices:
        total = total + np.sum(np.sin(table[index])) * (1.0 + np.sum(table[index] ** 2))
    return total


def compared(f: Callable[..., Any], *calls: list[Any]) -> list[str]:
    """Compare a step with its compiled form in some calls; the operations of the last program."""
    compiled = jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for args in calls:
            plain = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
            before = args[0].copy()
            want, have = f(*plain), compiled(*args)
            error = 16 * np.finfo(args[0].dtype).eps if args[0].dtype.kind == "f" else 0
            changed = plain[0] != before
            rate = max([1.0, *(abs(x) for x in args if isinstance(x, float))])  # of which what cancels is a multiple
            assert_array_equal(args[0][~changed], before[~changed])
            assert_allclose(args[0][changed], plain[0][changed], rtol=error, atol=error * rate)
            assert want is None or assert_allclose(have, want, rtol=1e-6, atol=3 * N * error / 16) is None
    signatures = [signature for each in compiled.__yota_cache__.signatures.values() for signature in each]
    tape = signatures[-1].variants[-1].program.tape
    return [getattr(op.fn, "__name__", str(op.fn)) for op in tape.ops if isinstance(op, Call)]


def by_rate(table: Any, index: Any, rate: Any) -> None:
    table -= rate * gradient(of_rows, argnums=0)(table, index)


def by_a_quotient(table: Any, first: Any, second: Any, rate: Any) -> None:
    table += -(gradient(of_rows, argnums=0)(table, first, second) / rate)


def by_a_constant(table: Any, index: Any) -> None:
    table -= 0.1 * gradient(of_rows, argnums=0)(table, index)


def made_anew(table: Any, index: Any) -> Any:
    return table - 0.1 * gradient(of_rows, argnums=0)(table, index)


def of_one(table: Any) -> None:
    table -= 0.1 * gradient(of_rows, argnums=0)(table, 3)


def of_a_slice(table: Any) -> None:
    table += 0.1 * gradient(of_rows, argnums=0)(table, slice(3, 6))


def with_decay(table: Any, index: Any) -> None:
    dtable = gradient(of_rows, argnums=0)(table, index)
    table *= 0.99
    table -= 0.1 * dtable


SPARSE: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {
    "a rate": (by_rate, lambda: [random(N, 3), words(4), 0.1]),
    "a rate that is an array": (by_rate, lambda: [random(N, 3), words(4), np.array(0.1)]),
    "two dimensions": (by_rate, lambda: [random(N, 3), words(2, 2), 0.1]),
    "one dimension": (by_rate, lambda: [random(N), words(4), 0.1]),
    "a number": (by_rate, lambda: [random(N, 3), int(words()), 0.1]),
    "float32": (by_rate, lambda: [random(N, 3).astype(np.float32), words(4), np.float32(0.1)]),
    "int32": (by_rate, lambda: [random(N, 3), words(4).astype(np.int32), 0.1]),
    "a quotient": (by_a_quotient, lambda: [random(N, 3), words(3), words(3), 2.0]),
    "a constant": (by_a_constant, lambda: [random(N, 3), words(4)]),
    "a narrow index": (by_a_constant, lambda: [random(N, 3), words(4).astype(np.int8)]),
    "one row": (of_one, lambda: [random(N, 3)]),
    "a slice": (of_a_slice, lambda: [random(N, 3)]),
    "made anew": (made_anew, lambda: [random(N, 3), words(4)]),
    "decay": (with_decay, lambda: [random(N, 3), words(4)]),
}


@pytest.mark.parametrize("name", SPARSE)
def test_multiples_of_a_gradient_of_few_rows_are_added_to_these(name: str) -> None:
    f, make = SPARSE[name]
    found = compared(f, *(make() for _ in range(4)))
    assert "unindex" not in found
    assert {"accumulated", "setitem"} & {*found}


@pytest.mark.parametrize("rate", [0.0, np.inf, -np.inf, np.nan])
def test_what_is_no_zero_elsewhere_is_interpreted(rate: float) -> None:
    for f in (by_rate, by_a_quotient):
        indices = [words(3) for _ in range(1 + (f is by_a_quotient))]
        rates = (0.5, 0.25, 0.5, rate, 0.5)
        compared(f, *([random(N, 3), *indices, r] for r in rates))


@pytest.mark.parametrize("f", [by_rate, lambda table, index, rate: by_a_quotient(table, index, index, 1 / rate)])
def test_a_rate_is_rounded_to_the_precision_of_the_table(f: Any) -> None:
    compared(f, *([np.ones((N, 3), np.float32), words(3), rate] for rate in (0.5, 0.25, 1e39, 0.5)))


def constant(table: Any, index: Any) -> None:
    table -= 1e39 * gradient(of_rows, argnums=0)(table, index)


def test_a_constant_rate_as_well() -> None:
    compared(constant, *([np.ones((N, 3), np.float32), words(3)] for _ in range(2)))


def dense(table: Any, index: Any) -> Any:
    dtable = gradient(of_rows, argnums=0)(table, index)
    table -= 0.1 * dtable / np.sqrt(np.sum(dtable**2))
    return dtable


def shrunk(table: Any, index: Any) -> None:
    table -= 0.1 * (gradient(of_rows, argnums=0)(table, index) + table)


def by_row(table: Any, index: Any) -> None:
    table -= np.linspace(0.1, 0.2, len(table))[:, None] * gradient(of_rows, argnums=0)(table, index)


@pytest.mark.parametrize("f", [dense, shrunk, by_row])
def test_other_gradients_stay_what_they_are(f: Callable[..., Any]) -> None:
    compared(f, *([random(N, 3), words(4)] for _ in range(4)))


def test_many_rows_are_summed_up_first() -> None:
    assert "unindex" in compared(by_a_constant, *([random(N, 3), words(3 * N)] for _ in range(4)))


@given(st.lists(st.integers(-N, N - 1), min_size=1, max_size=8), st.sampled_from([0.1, -2.0, 1e-30, 1e30]))
@settings(max_examples=examples(5, share=10), deadline=None)
def test_repeated_rows(index: list[int], rate: float) -> None:
    compared(by_rate, *([random(N, 2), np.array(index), r] for r in (0.5, rate, rate)))


def test_an_index_out_of_bounds_raises_at_its_line() -> None:
    step = jit(by_rate)
    for _ in range(3):
        step(random(N, 3), words(4), 0.1)
    table = random(N, 3)
    before = table.copy()
    with pytest.raises(IndexError, match="index 60 is out of bounds"):
        step(table, np.array([1, 2, 3, N]), 0.1)
    assert_allclose(table, before, rtol=0)


def test_numpys_at_takes_few_rows() -> None:
    def step(x: Any, i: Any, v: Any) -> None:
        np.add.at(x, i, v)
        np.subtract.at(x, (i, 0), v[:, 1])

    assert "unindex" not in compared(step, *([random(N, 3), words(4), random(4, 3)] for _ in range(4)))


def test_computed_positions_are_assigned_by_kernels() -> None:
    def step(x: Any, i: Any, v: Any) -> Any:
        x[i] = v
        x[i[0]] = 1
        x[i, 1] = v[:, 0] * 2
        return np.sum(x)

    for dtype in (np.float64, np.float32, np.int64, np.uint8, np.bool_):
        def make(dtype: Any = dtype) -> list[Any]:
            return [random(N, 3).astype(dtype), words(4), (random(4, 3) > 0).astype(dtype)]

        assert "setitem" in compared(step, *(make() for _ in range(4)))
