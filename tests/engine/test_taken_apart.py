"""Much that is small and never comes again: each operation is a step, and what it gives is what loop nests give."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from caching import is_compiled
from hypothesis import HealthCheck, Phase, given, settings
from numpy.testing import assert_allclose
from programs import Program, programs
from sets import examples
from ways import CALLS, compiled, evaluate

from yota_py import config, explain, grad, jit
from yota_py.cache.modes import Gradient, Request
from yota_py.engine.kernels import store
from yota_py.engine.schedule import fuse
from yota_py.engine.schedule.steps import Cluster
from yota_py.tape.trees import flatten

FORMS = (
    "{} + {} * 0.5", "{} * {}", "np.sin({}) + {}", "np.tanh({} - {})", "{} / (1.5 + {} * {})",
    "np.where({} > {}, {}, 0.3)", "abs({}) ** 0.5 - {}", "np.exp(-abs({})) * {}", "np.maximum({}, {})",
    "({} > {}) * {} + 0.1",
)  # fmt: skip


def irregular(statements: int, seed: int, names: str = "abcdef", forms: tuple[str, ...] = FORMS) -> Callable[..., Any]:
    """A program of so many statements without structure on a few numbers or vectors."""
    rng = random.Random(seed)
    lines = [f"def f({', '.join(names)}):"]
    for k in range(statements):
        form = rng.choice(forms)
        lines.append(f"    {names[k % len(names)]} = " + form.format(*rng.choices(names, k=form.count("{}"))))
    lines.append(f"    return np.sum({' + '.join(names)})")
    space: dict[str, Any] = {"np": np}
    exec("\n".join(lines), space)
    return space["f"]  # type: ignore[no-any-return]


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is."""
    monkeypatch.setattr(fuse, "APART", -1)
    monkeypatch.setattr(fuse, "REPEATED", 10**9)


def same(have: Any, want: Any, rtol: float) -> None:
    """The same numbers, of the same classes and dtypes, in the same places."""
    for x, y in zip(flatten(have)[0], flatten(want)[0], strict=True):
        assert type(x) is type(y) and getattr(x, "dtype", None) == getattr(y, "dtype", None)
        if x is not None:
            assert_allclose(x, y, rtol=rtol, atol=rtol)


def check(f: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
    """The compiled gradient is the interpreter's, for several arguments."""
    for args in calls * 2:
        same(grad(f, *args), Gradient().interpret(Request(f, args, {})), 1e-9)
    assert is_compiled(f)


@pytest.mark.parametrize("seed", range(3))
def test_numbers(seed: int) -> None:
    f = irregular(500, seed)
    rng = np.random.default_rng(seed)
    check(f, *(tuple(map(float, rng.normal(size=6))) for _ in range(3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 16])
def test_vectors(size: int, dtype: str) -> None:
    f = irregular(150, size)
    rng = np.random.default_rng(size)
    for _ in range(3):
        args = tuple(rng.normal(size=size).astype(dtype) for _ in range(6))
        want = Gradient().interpret(Request(f, args, {}))
        same(grad(f, *args), want, 1e-9 if dtype == "float64" else 1e-3)
    assert is_compiled(f)


def test_few_structures(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many kernels as there are kinds of operations, and not as many as there are programs."""
    monkeypatch.setattr(config, "_cache_dir", None)
    monkeypatch.setattr(store, "compiled", {})
    for seed in range(3):
        grad(irregular(500, seed), *map(float, range(1, 7)))
    assert len(store.compiled) < 150
    sizes = [len(spec.nodes) for spec in store.compiled if hasattr(spec, "nodes")]
    assert max(sizes) <= 2


def test_a_guard_among_them() -> None:
    """A decision in the midst of a program is the first that fails, and nothing behind it counts."""

    def f(x: Any, y: Any) -> Any:
        for k in range(120):
            x = np.sin(x) * y + 0.1 * k * np.cos(y) - x * (0.01 * (k % 7)) / (1.0 + y * y)
            if k in (40, 80) and x > 0.5:
                y = y * 0.9
        return x * y

    check(f, (0.3, 0.7), (0.5, -0.8), (-2.0, 0.1), (1.5, 1.1), (-0.7, 2.0))


def test_integers_booleans_and_casts(apart: None) -> None:
    def f(x: Any, k: Any, m: Any) -> Any:
        y = x * k + (k // 2) * m - np.float32(0.5) * x
        return np.sum(np.where(m, y, k) * (k > 1)) + np.sum(k.astype(np.float64) * x) + (~m * x)[0]

    rng = np.random.default_rng(0)
    for dtype in ("int8", "uint8", "int32", "int64", "bool"):
        k = np.array([0, 1, 2]).astype(dtype) if dtype != "bool" else np.array([1, 0, 1], np.int16)
        check(f, *((rng.normal(size=3), k, rng.normal(size=3) > 0) for _ in range(3)))
    check(f, *((rng.normal(size=1), np.array([2]), np.array([True])) for _ in range(3)))


def test_views_broadcasts_and_orders(apart: None) -> None:
    def f(x: Any, y: Any) -> Any:
        z = x[::-1] * y + x[:1] * y[0] - x[1] * 2
        matrix = (x[:, None] * y[None, :]).T[1:, ::2] + z[:2, None]
        return np.sum(matrix * matrix) + x[0] * y[-1] + np.sum(np.broadcast_to(y[1], 3) * x)

    rng = np.random.default_rng(1)
    check(f, *((rng.normal(size=3), rng.normal(size=3)) for _ in range(3)))
    check(f, *((rng.normal(size=(6,))[::2], np.asfortranarray(rng.normal(size=3))) for _ in range(3)))


def test_complex_numbers(apart: None) -> None:
    def f(x: Any) -> Any:
        z = np.exp(1j * x) * x + 1j
        return np.sum(np.abs(z * z.conj()[::-1]) + z.real * z.imag) + abs(z[0]) ** 2

    check(f, *((x,) for x in np.random.default_rng(2).normal(size=(3, 3))))


def test_steps_in_python_between(apart: None) -> None:
    def f(x: Any) -> Any:
        a = x[0] * 2.0
        b = np.linalg.norm(np.sort(x)[1:]) * a
        return np.median(x) * b + np.partition(x, 1)[1] * a

    check(f, *((x,) for x in np.random.default_rng(3).normal(size=(4, 5))))


def test_results_are_fresh_numbers(apart: None) -> None:
    def step(x: Any, n: Any) -> Any:
        return {"same": x, "twice": x + x, "n": n + 1, "both": [x * n, x > 0, x * np.ones(2)]}

    stepped = jit(step)
    for x, n in ((1.5, 2), (-2.5, 7), (0.0, -1)) * 2:
        same(stepped(x, n), step(x, n), 1e-15)
        same(stepped(np.float32(x), n), step(np.float32(x), n), 1e-6)
    assert explain(stepped)[0].entries


def test_what_is_repeated_stays_together(monkeypatch: pytest.MonkeyPatch) -> None:
    schedules: list[Any] = []
    monkeypatch.setattr(config, "roll", False)
    taken = fuse._take_apart
    monkeypatch.setattr(fuse, "_take_apart", lambda schedule: (taken(schedule), schedules.append(schedule)))

    def f(x: Any) -> Any:
        total, s = 0.0, x[0]
        for _ in range(400):
            s = x[1] + x[2] * s + s * s * 0.1
            total = total + np.log(1.0 + s * s)
        return total

    grad(f, np.array([0.1, 0.2, 0.3]))
    sizes = [len(step.items) for schedule in schedules for step in schedule.steps if isinstance(step, Cluster)]
    assert max(sizes) == fuse.MAX_CLUSTER
    schedules.clear()
    grad(irregular(20, 0), *map(float, range(1, 7)))  # little enough to be one loop nest
    assert max(len(step.items) for schedule in schedules for step in schedule.steps) > 20


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(max_examples=examples(6, share=10), deadline=None, derandomize=True, database=None,
          suppress_health_check=QUIET, phases=[Phase.generate])  # fmt: skip
@given(programs())
def test_random_programs(f: Program) -> None:
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(fuse, "APART", -1)
        patch.setattr(fuse, "REPEATED", 10**9)
        patch.setattr(fuse, "SMALL", 10**6)
        ways, seeds = compiled(f, *f.draw(0))
        for call in range(CALLS):
            evaluate(ways, ways.fit([*f.draw(call), *seeds]), f.rtol)
