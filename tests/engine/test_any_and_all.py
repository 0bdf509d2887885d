"""Reductions of truth values, which stop early where nothing else is left to be done."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from nests import Load, Nest, Store, guarded, run_all

from yota_py import config, gradient, jit
from yota_py.capture.recording import record_call
from yota_py.engine.compile import compile_recorded
from yota_py.engine.kernels.emit import NO_FAULT
from yota_py.engine.kernels.ir import Node
from yota_py.engine.kernels.reductions import stops_early

SHAPES = [(1,), (17,), (1003,), (5000,), (3, 5), (40, 3), (3, 130), (2, 3, 9), (3, 700)]
FUNCTIONS = {"any": np.any, "all": np.all}


def masks(shape: tuple[int, ...]) -> list[np.ndarray]:
    """All one truth value, and each with one element of the other in the first, a middle and the last place."""
    out = []
    for value, at in itertools.product((False, True), (None, 0, 0.6, 1)):
        x = np.full(shape, value)
        if at is not None:
            x.reshape(-1)[int(at * (x.size - 1))] ^= True
        out.append(x)
    return out


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("mode", FUNCTIONS)
def test_reductions(mode: str, wide: bool) -> None:
    """Over all axes and some, in C and Fortran order, of booleans and of what is compared in the loop."""
    nests, expected = [], []
    for shape in SHAPES:
        for reduced in itertools.product([False, True], repeat=len(shape)):
            if not any(reduced):
                continue
            axes = tuple(d for d, r in enumerate(reduced) if r)
            for x, layout, floats in itertools.product(masks(shape), "CF", (False, True)):
                want = np.asarray(FUNCTIONS[mode](x, axes))
                nodes = [Node("", (0,), "bool")] if floats else []
                operand = np.asarray(x * -0.5 if floats else x, order=layout)
                store = Store(len(nodes), guarded(np.zeros(want.shape, bool))[0], mode, reduced)
                nests.append(Nest(shape, [Load(operand)], nodes, [store], wide))
                expected.append(want)
    for nest, want, fault in zip(nests, expected, run_all(nests), strict=True):
        assert fault == NO_FAULT
        assert np.array_equal(nest.stores[0].array, want), nest.spec


def test_what_stops_early() -> None:
    x, one = np.zeros(9, bool), np.zeros((), bool)
    total, stored = Store(0, one, "any", (True,)), Store(0, np.zeros(9, bool))
    assert stops_early(Nest((9,), [Load(x)], [], [total]).spec)
    assert not stops_early(Nest((9,), [Load(x)], [], [total, stored]).spec)
    gathered = [Load(np.zeros(9, np.int64)), Load(x, "gather", indices=(0,))]
    assert not stops_early(Nest((9,), gathered, [], [Store(1, one, "any", (True,))]).spec)


def test_several_totals_in_one_loop() -> None:
    """One is decided long before the other."""
    f = jit(lambda x: (np.any(x > 0), np.all(x < 5), np.any(np.isnan(x))))
    for value, at in itertools.product((1.0, 7.0, np.nan), (0, 300, 4999)):
        x = np.zeros(5000)
        x[at] = value
        for _ in range(2):
            assert f(x) == (value > 0, value < 5, bool(np.isnan(value)))


def test_an_index_out_of_bounds_behind_the_first_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    f = jit(lambda x, i: np.any(x[i] > 0))
    x, good = np.ones(5), np.zeros(3000, np.int64)
    bad = np.where(np.arange(3000) == 2900, 5, 0)
    for _ in range(3):
        assert f(x, good)
        with pytest.raises(IndexError):
            f(x, bad)


def test_decisions_on_truths_of_arrays() -> None:
    """NaN is true, -0.0 is not; a decision is taken anew at each call."""
    g = gradient(lambda x: np.sum(x * x if np.any(x) else x * 3) + (x[0] if np.all(x, axis=(0,)) else 0))
    zeros, nan = np.array([0.0, -0.0]), np.array([np.nan, -0.0])
    for _ in range(3):
        assert g(zeros).tolist() == [3, 3]
        assert np.array_equal(g(nan), [np.nan, 0], equal_nan=True)
        assert g(np.array([1.0, 2.0])).tolist() == [3, 4]


def test_masks_axes_and_integers() -> None:
    x, where = np.arange(12).reshape(3, 4) % 5, np.arange(12).reshape(3, 4) % 3 > 0
    for fn in (np.any, np.all):
        for options in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)}, {"axis": ()}):
            f = jit(lambda x, w, fn=fn, o=options: (fn(x, **o), fn(x > 1, where=w, **o), fn(x, where=False, **o)))
            for shift in (0, 1, 2):
                for have, want in zip(f(x + shift, where), (
                    fn(x + shift, **options), fn(x + shift > 1, where=where, **options), fn(x, where=False, **options),
                ), strict=True):  # fmt: skip
                    assert type(have) is type(want) and np.array_equal(have, want), (fn, options)


NUMBERS = ["float64", "float32", "float16", "int64", "int32", "int8", "uint64", "uint8"]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_places_are_found_in_kernels(dtype: str) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype)
    f: Any = lambda x: [np.argmax(x), np.argmin(x, 0), x.argmax(-1, keepdims=True), np.argmin(x.T, 1)]  # noqa: E731
    assert not compile_recorded(record_call(f, (x,), {})).python_steps


@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_places_of_extrema(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of several, or of NaN; of rows, columns and transposes, long and short."""
    monkeypatch.setattr(config, "compile", "always")
    rng = np.random.default_rng(0)
    for shape in [(), (1,), (7,), (3000,), (5, 300), (300, 5), (3, 4, 50)]:
        for fn, axis in itertools.product((np.argmax, np.argmin), (None, *range(-len(shape), len(shape)))):
            f = jit(lambda x, fn=fn, axis=axis: (fn(x, axis=axis), fn(x.T, axis=axis), fn(x, axis)))
            for few in (3, 1000, 1):
                x = np.asarray(rng.integers(0, few, shape), dtype)
                if dtype.startswith("float") and few == 1000:
                    x = np.where(rng.uniform(size=shape) < 0.01, np.nan, x).astype(dtype)
                for have, want in zip(f(x), (fn(x, axis), fn(x.T, axis), fn(x, axis)), strict=True):
                    assert type(have) is type(want) and np.array_equal(have, want), (shape, fn, axis, few)


ENDS: dict[str, list[float]] = {
    **{name: [np.inf, -np.inf, np.nan, 0.0, -0.0] for name in ("float64", "float32", "float16")},
    "int64": [2**63 - 1, -(2**63)], "int8": [127, -128], "uint64": [2**64 - 1, 0, 2**63],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ENDS)
def test_places_of_the_last_numbers(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search begins with is found as well, by itself and beside sums, in vectors that are whole and in parts."""
    monkeypatch.setattr(config, "compile", "always")
    rng = np.random.default_rng(1)
    plain: Any = lambda x: (  # noqa: E731
        np.argmax(x, 1), np.argmin(x, 1, keepdims=True), np.argmax(x, 0), np.argmin(x), np.sum(x / 3, 1))  # fmt: skip
    f = jit(plain)
    for n in (1, 2, 8, 31, 32, 33, 65, 257, 300):
        ends = np.array(ENDS[dtype], dtype)
        x = np.array([np.full(n, end) for end in ends] + [rng.choice(ends, n) for _ in range(9)])
        x[-3, : n // 2] = x[-2, n // 2 :] = 1
        with np.errstate(invalid="ignore"):
            *places, total = f(x)
            want = plain(x)
        for have, place in zip(places, want, strict=False):
            assert have.dtype == place.dtype and np.array_equal(have, place), n
        assert np.allclose(total, want[-1], equal_nan=True)
