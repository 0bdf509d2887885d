"""Arrays and sparse matrices that a function makes of numbers in its own lines are constants of its program."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import scipy.sparse
from caching import function
from numpy.testing import assert_allclose
from scipy.signal import windows

from yota_py import explain, grad, jit
from yota_py.errors import CompileError, MutationError, UncachedWarning

X = np.arange(1.0, 5.0)
MADE = [
    "np.diag([1.0, 2.0, 3.0, 4.0]) @ x", "np.diagflat([1.0, 2.0, 3, 4]) @ x", "np.outer([1, 2], [3.0, 4, 5, 6]) @ x",
    "np.multiply.outer([1, 2], [3.0, 4, 5, 6]) @ x", "np.kron([1.0, 2], [3.0, 4]) * x", "np.tile([1.0, 2], 2) * x",
    "np.repeat([1.0, 2], 2) * x", "np.concatenate([[1.0, 2], [3.0, 4]]) * x", "np.stack([1.0, 2, 3, 4]) * x",
    "np.r_[1.0, 2, 3:5] * x", "np.c_[[1.0, 2, 3, 4]].T * x", "np.mgrid[0:4] * x", "np.ogrid[0:2, 0:4][1] * x",
    "np.meshgrid([1.0, 2, 3, 4], [1.0, 2])[0] * x", "np.block([[1.0, 2], [3.0, 4]]).ravel() * x",
    "np.linalg.inv([[1.0, 2], [3.0, 5]]).ravel() * x", "np.linalg.eigh([[2.0, 1], [1.0, 2]]).eigenvectors @ x[:2]",
    "np.sqrt([1, 2, 3, 4]) * x", "np.add.accumulate([1, 2, 3, 4]) * x",
    "np.add.reduce([[1, 2, 3, 4], [5, 6, 7, 8]], axis=0) * x", "np.multiply.reduceat([1, 2, 3, 4], [0, 1, 2, 3]) * x",
    "np.concatenate([[], [1.0, 2.0], [], [3.0, 4.0]]) * x", "np.sum(np.diag([])) + x",
    "x[np.argsort([3, 1, 2])]", "np.where([True, False, True, False], 2.0, 1.0) * x", "np.poly([1.0, 2.0])[0] * x",
    "len(os.path.join('a', os.path.dirname('b/c'))) * x",
    "windows.hann(4) * x", "scipy.signal.windows.tukey(4, sym=False) * x", "np.hanning(6)[1:5] * x",
    "scipy.linalg.hilbert(4) @ x", "scipy.linalg.pascal(4) @ x", "(scipy.linalg.dft(4).real + 2) @ x",
    "scipy.linalg.hadamard(4, dtype=float) @ x", "scipy.sparse.eye(4) @ x", "scipy.sparse.identity(4) @ x",
    "scipy.sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(4, 4)) @ x", "x @ scipy.sparse.eye_array(4)",
    "scipy.sparse.csr_array(([1.0, 2.0], ([0, 1], [1, 2])), shape=(4, 4)) @ x",
    "scipy.sparse.csc_matrix([[1.0, 0, 0, 2], [0, 1, 0, 0]]) @ x",
]  # fmt: skip
WRITTEN = """def f(x):
    a = np.diag([1.0, 2.0, 3.0, 4.0])
    a[0, 1] = x[0]
    a += 0.5
    return np.sum(a @ x)"""
READ = ["np.diag(LIST) @ x", "np.stack([KEPT.list[0], *LIST[1:]]) * x", "np.repeat(LIST[0], 4) * x", "np.r_[LIST] * x",
        "windows.gaussian(4, LIST[0]) * x", "np.sqrt(KEPT.list) * x", "np.outer(LIST, KEPT.list) @ x",
        "scipy.sparse.diags(LIST) @ x", "scipy.sparse.csr_array([LIST, KEPT.list]) @ x"]  # fmt: skip
VARYING = [
    "np.diag([next(COUNT)] * 4) @ x", "np.stack([time.time_ns()] * 4) * x",
    "scipy.sparse.diags([float(next(COUNT))] * 4) @ x",
]  # fmt: skip
DRAWN = ["np.repeat(random.random(), 4) * x", "np.tile([RNG.random()], 4) * x"]


def summed(expression: str, **names: Any) -> Callable[..., Any]:
    known = {"np": np, "scipy": scipy, "windows": windows, "os": os, "random": random, "time": time}
    return function(f"def f(x):\n    return np.sum({expression})", **known, **names)


@pytest.mark.parametrize("expression", MADE)
def test_compiled(expression: str) -> None:
    f = summed(expression)
    grad.compile(f, X)
    step = jit(f)
    for i in range(3):
        value, (slope,) = grad(f, X + i)
        assert_allclose(value, f(X + i), rtol=1e-12)
        assert_allclose(slope, [f(np.eye(4)[k]) for k in range(4)], rtol=1e-12)
        assert_allclose(step(X * i), f(X * i), rtol=1e-12)


def test_written_into() -> None:
    f = function(WRITTEN, np=np)
    grad.compile(f, X)
    for i in range(3):
        value, (slope,) = grad(f, X + i)
        assert_allclose(value, f(X + i))
        assert_allclose(slope, np.array([3.0, 4.0, 5.0, 6.0]) + (X + i)[[1, 0, 0, 0]] * [1, 1, 0, 0])


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("expression", READ)
def test_lists_that_are_read(expression: str, every_policy: None) -> None:
    """Of a list that changes, the array is that of this call."""
    numbers, kept = [1.0, 2.0, 3.0, 4.0], SimpleNamespace(list=[2.0, 1.0, 4.0, 3.0])
    f = summed(expression, LIST=numbers, KEPT=kept)
    step = jit(f)
    for i in range(5):
        value, (slope,) = grad(f, X + i)
        assert_allclose(value, f(X + i), rtol=1e-12)
        assert_allclose(slope, [f(np.eye(4)[k]) for k in range(4)], rtol=1e-12)
        assert_allclose(step(X * i), f(X * i), rtol=1e-12)
        numbers[0] += i % 2
        if i == 2:
            kept.list = [5.0, 6.0, 7.0, 8.0]


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("expression", VARYING)
def test_numbers_that_vary(expression: str) -> None:
    """They are not the same next time, and nobody takes them for constants."""
    f = summed(expression, COUNT=itertools.count(1))
    with pytest.raises(CompileError):
        grad.compile(f, X)
    assert len({float(grad(f, X)[0]) for _ in range(4)}) == 4, explain(f)


@pytest.mark.parametrize("expression", DRAWN)
def test_numbers_that_are_drawn(expression: str) -> None:
    f = summed(expression, RNG=np.random.default_rng(0))
    grad.compile(f, X)
    assert len({float(grad(f, X)[0]) for _ in range(4)}) == 4, explain(f)
    assert explain(f)[0].calls == 4


def test_what_files_say(tmp_path: Path) -> None:
    """``os.path`` is followed where it looks at names, not where it looks at files."""
    path = tmp_path / "numbers"
    f = summed("np.tile([float(os.path.getsize(os.path.join(FOLDER, 'numbers')))], 4) * x", FOLDER=str(tmp_path))
    for i in range(3):
        path.write_text("1" * (i + 1))
        with pytest.warns(UncachedWarning) if i == 0 else nullcontext():
            assert grad(f, X)[0] == f(X) == (i + 1) * np.sum(X)


OTHERS = [
    "np.concatenate([weights, [3.0, 4.0]]) * x", "np.add.accumulate([1.0, 2.0, 3.0, 4.0], out=out) * weights[0] * x",
    "np.sqrt([1.0, 4.0, 9.0, 16.0], out) * weights[0] * x", "scipy.sparse.block_diag([matrix, matrix]) @ x",
    "scipy.sparse.csr_array(matrix) @ x[:2]", "np.r_[weights, 1.0, 2.0] * x",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("expression", OTHERS)
def test_arrays_of_others_are_no_numbers(expression: str) -> None:
    """What the function reads or is given to write into is followed as ever."""
    weights, matrix, out = np.array([1.0, 2.0]), scipy.sparse.csr_array(np.diag([1.0, 2.0])), np.zeros(4)
    f = summed(expression, weights=weights, matrix=matrix, out=out)
    for i in range(4):
        want = f(X)
        if "out" in expression:
            with pytest.raises(MutationError):
                grad(f, X)
        else:
            assert_allclose(grad(f, X)[0], want)
        assert_allclose(jit(f)(X), want)
        weights += 1.0
        matrix.data[0] += i + 1


STORED = [
    "kept.w = np.diag([1.0, 2.0])", "kept.w = np.meshgrid([1, 2], [3, 4])", "kept.w = scipy.sparse.eye(3).tocsr()",
    "kept.w = {int(k): v for k, v in zip(np.unique([1, 2, 1]), np.sqrt([4.0, 9.0]))}", "kept.w = f'{np.sqrt([1, 4])}'",
    "kept.w = {np.argsort([2, 1, 3])[0]: 'a'}", "kept.w = np.linalg.eigh([[2.0, 1.0], [1.0, 2.0]])",
    "kept.w = np.array_equal(np.sort([2, 1]), [1, 2])", "kept.w = json.dumps(np.cumsum([1, 2]).tolist())",
    "kept.w = pickle.loads(pickle.dumps(np.stack([1, 2])))", "kept.w = isinstance(np.sqrt([1]), np.ndarray)",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("statement", STORED)
def test_stored_by_steps(statement: str, every_policy: None) -> None:
    """What a step leaves behind is NumPy's own, as without us."""
    text = f"def f(x, kept):\n    {statement}\n    return np.sum(x)"
    f = function(text, np=np, scipy=scipy, json=json, pickle=pickle)
    step, ours, plain = jit(f), SimpleNamespace(w=None), SimpleNamespace(w=None)
    for i in range(4):
        assert step(X + i, ours) == f(X + i, plain)
        assert type(ours.w) is type(plain.w) and repr(ours.w) == repr(plain.w)
        if isinstance(plain.w, list | tuple):
            assert [*map(type, ours.w)] == [*map(type, plain.w)]
