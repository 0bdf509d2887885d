"""Loops with something in them for which there is no kernel: a turn's kernels and NumPy's functions take turns."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from agreement import agree
from numpy.testing import assert_allclose
from scipy import special

from yota_py import config, explain, grad, gradient, jit, trace, value_and_grad
from yota_py.base.records import written
from yota_py.engine.plan.repeat import PythonTurns
from yota_py.tape.loop import as_loop
from yota_py.testing import check_grads

N, TURNS = 4, 40
BODIES: dict[str, Callable[..., Any]] = {
    "sort": lambda s, a, x, k: by_heaps(s + x),
    "picked": lambda s, a, x, k: (s + x)[np.argsort(x, kind="heapsort")],
    "median": lambda s, a, x, k: s - np.median(s + x),
    "quantile": lambda s, a, x, k: s - np.quantile(s * x, 0.3),
    "bins": lambda s, a, x, k: s + x[np.digitize(s, np.arange(3.0) - 1)],
    "eigh": lambda s, a, x, k: s * np.linalg.eigh(a + a.T + np.outer(x, x))[0],
    "svd": lambda s, a, x, k: s * np.linalg.svd(a + np.outer(x, s))[1],
    "qr": lambda s, a, x, k: np.diag(np.linalg.qr(a + np.outer(x, s) / 9)[1]) ** 2 + x,
    "expm": lambda s, a, x, k: scipy.linalg.expm(a * np.mean(x) / 9) @ s + x,
    "triangular": lambda s, a, x, k: scipy.linalg.solve_triangular(a + 9 * np.eye(N), s + x, unit_diagonal=True) / 9,
    "factor": lambda s, a, x, k: scipy.linalg.cho_solve(
        scipy.linalg.cho_factor(a @ a.T + 9 * np.eye(N), lower=True, check_finite=False), s + x, check_finite=False
    ),
    "upper": lambda s, a, x, k: _solved(a @ a.T + np.outer(x, x) + 9 * np.eye(N), s),
    "polygamma": lambda s, a, x, k: special.digamma(s**2 + 1) + x,
    "convolve": lambda s, a, x, k: np.convolve(s, x, "same"),
    "cumprod": lambda s, a, x, k: np.cumprod(s) + x,
    "two": lambda s, a, x, k: by_heaps(s)[::-1] + by_heaps(x * np.linalg.eigvalsh(a + a.T)[1] * s),
    "decided": lambda s, a, x, k: by_heaps(s + x) if s[0] > 0 else s - x,
    "nested": lambda s, a, x, k: _inner(s, x),
    "turned": lambda s, a, x, k: by_heaps(s * k / TURNS + x),
}


def by_heaps(x: Any) -> Any:
    """For which there is no kernel."""
    return np.sort(x, kind="heapsort")


def _solved(a: Any, s: Any) -> Any:
    factor = scipy.linalg.cho_factor(a, check_finite=False)
    return scipy.linalg.cho_solve(factor, s, check_finite=False) + np.log(np.diag(factor[0]))


def _inner(s: Any, x: Any) -> Any:
    for k in range(12):
        s = np.tanh(by_heaps(s) + 0.1 * k * x)
    return s


def loss_of(name: str) -> Callable[..., Any]:
    body = BODIES[name]

    def loss(s: Any, a: Any, data: Any) -> Any:
        total = 0.0
        for k in range(len(data)):
            s = np.tanh(body(s, a, data[k], k))
            total = total + np.sum(s**2)
        return total

    return loss


def arguments(seed: int, turns: int = TURNS, dtype: Any = float) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(dtype) for shape in [(N,), (N, N), (turns, N)]]


def steps_of(f: Any) -> set[str]:
    return {step.partition(" ")[0] for entry in explain(f)[0].entries for step in entry.python_steps}


@pytest.mark.parametrize("name", BODIES)
def test_turns(name: str) -> None:
    loss = loss_of(name)
    for seed in range(3):
        agree(loss, *arguments(seed))
    assert explain(loss)[0].calls >= 1 or name == "decided"  # each time otherwise
    assert steps_of(loss)
    small = [x[:12] if x.shape[0] == TURNS else x for x in arguments(0)]
    check_grads(loss, *small, second_order=name in ("sort", "eigh", "picked"))


@pytest.mark.parametrize("name", ["sort", "eigh", "convolve", "triangular", "upper"])
def test_such_a_loop_is_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    init = written(PythonTurns).__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        made.append(args)
        init(self, *args, **kwargs)

    loss, args = loss_of(name), arguments(0)
    jit(loss)(*args)
    monkeypatch.setattr(PythonTurns, "__init__", noted)
    grad(loss, *args)
    assert made


@pytest.mark.parametrize("name", ["sort", "svd", "two", "nested"])
def test_as_turns_that_stand_side_by_side(name: str) -> None:
    loss = loss_of(name)
    args = arguments(1, 40)
    value, slopes = value_and_grad(loss, (0, 1, 2))(*args)
    config.roll = False
    try:
        other = loss_of(name)
        want, expected = value_and_grad(lambda *args: other(*args), (0, 1, 2))(*args)
    finally:
        config.roll = True
    assert_allclose(value, want, rtol=1e-12)
    for have, slope in zip(slopes, expected, strict=True):
        assert_allclose(have, slope, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_arrays(dtype: Any) -> None:
    loss = loss_of("sort")
    s, a, data = arguments(2, dtype=dtype)
    for x in (data, data[::-1], np.asfortranarray(data), np.repeat(data, 2, axis=1)[:, ::2], data.astype(dtype)):
        agree(loss, s, a, x)
    x = data.copy()
    x.setflags(write=False)
    agree(loss, s, a, x)


def test_what_is_raised() -> None:
    def f(a: Any) -> Any:
        total = 0.0
        for k in range(len(a)):
            total = total + np.sum(np.linalg.qr(a[k])[1] ** 2) * np.linalg.svd(a[k])[1][0]
        return total

    a = np.random.default_rng(0).normal(size=(50, 3, 3))
    for _ in range(3):
        agree(f, a)
    bad = a.copy()
    bad[33, 0, 0] = np.nan
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError) as error:
            grad(f, bad)
        assert any(entry.path.name == "test_python_turns.py" and "svd" in str(entry.statement)
                   for entry in error.traceback)  # fmt: skip
        agree(f, a)


def test_decisions_in_a_turn() -> None:
    def f(x: Any, data: Any) -> Any:
        total = 0.0
        for row in data:
            y = by_heaps(row * x)
            total = total + y[-1] if y[0] > -2 else total - y[0] ** 2
        return total

    x, data = np.ones(3), np.random.default_rng(0).uniform(-1, 1, size=(60, 3))
    for k in (None, 7, 59, 0, None):
        given = data.copy()
        if k is not None:
            given[k, 1] = -3.0
        agree(f, x, given)


def test_threads() -> None:
    loss = loss_of("two")
    step = value_and_grad(loss, (0, 1, 2))
    inputs = [arguments(seed) for seed in range(6)]
    want = [step(*args) for args in inputs]
    with ThreadPoolExecutor(4) as pool:
        for (value, slopes), (expected, others) in zip(pool.map(lambda args: step(*args), inputs * 4), want * 4,
                                                       strict=True):  # fmt: skip
            assert_allclose(value, expected, rtol=1e-13)
            for have, slope in zip(slopes, others, strict=True):
                assert_allclose(have, slope, rtol=1e-10)


def test_second_derivatives() -> None:
    loss = loss_of("sort")
    s, a, data = arguments(3, 30)

    def length(s: Any) -> Any:
        return np.sum(gradient(loss)(s, a, data) ** 2)

    for seed in range(3):
        agree(length, s + seed, against=("plain", "fresh", "differences"))


def test_what_is_carried_may_be_large() -> None:
    def f(x: Any, data: Any) -> Any:
        for k in range(len(data)):
            x = 0.5 * by_heaps(x) + data[k]
        return np.sum(x**2)

    x, data = np.random.default_rng(0).normal(size=4000), np.linspace(0, 1, 120)
    for k in range(3):
        agree(f, x + k, data)
    assert any(as_loop(op) is not None for op in trace(f, x, data).ops)
