"""Results that are written over the inputs that they replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import config, gradient, jit, value_and_grad

RNG = np.random.default_rng(0)
Step = Callable[..., Any]


def random(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def programs(step: Any) -> list[Any]:
    signatures = [signature for each in step.__yota_cache__.signatures.values() for signature in each]
    return [v.program for signature in signatures for v in signature.variants if v.program is not None]


def agree(f: Step, make: Callable[[], list[Any]], times: int = 4) -> list[dict[int, int]]:
    """Run a step and its compiled form on the same, also of other values; what the programs have written over."""
    step = jit(f)
    for _ in range(times):
        args = make()
        plain = [x.copy(order="K") if isinstance(x, np.ndarray) else x for x in args]
        want, have = f(*plain), step(*args)
        assert_allclose(np.array(args[0]), plain[0], rtol=1e-13, atol=1e-14)
        for x, y in zip(args[1:], plain[1:], strict=True):
            assert_allclose(x, y, rtol=1e-13, atol=1e-14)
        for x, y in zip(*((r if isinstance(r, tuple) else (r,)) for r in (have, want)), strict=True):
            assert (x is None and y is None) or assert_allclose(x, y, rtol=1e-13, atol=1e-14) is None
    return [program.plan.overwritten for program in programs(step)]


def loss(w: Any, x: Any) -> Any:
    return np.sum(np.tanh(x @ w) ** 2)


def descend(w: Any, x: Any) -> Any:
    value, dw = value_and_grad(loss, argnums=0)(w, x)
    w -= 0.1 * dw
    return value


def adam(w: Any, m: Any, v: Any, x: Any) -> Any:
    dw = gradient(loss, argnums=0)(w, x)
    m[...] = 0.9 * m + 0.1 * dw
    v[...] = 0.99 * v + 0.01 * dw**2
    w -= 0.1 * m / (np.sqrt(v) + 1e-8)


def both(x: Any, y: Any) -> None:
    total, difference = x + y, x - y
    x[...] = total
    y[...] = difference


def by_the_norm(x: Any) -> None:
    x /= np.sqrt(np.sum(x**2, axis=1, keepdims=True))


def handed_out(x: Any) -> Any:
    x *= 2
    return x, x[1:], x + 1


def few(x: Any, i: Any) -> Any:
    x[i] = x[i] * 0.5 + 1
    x[i] += x[i]
    np.add.at(x, i, 0.5)
    x[2] = 7
    return x[i]


OVER = {
    "descent": (descend, lambda: [random(5, 4), random(7, 5)], {0: 0}),
    "in Fortran's order": (descend, lambda: [np.asfortranarray(random(5, 4)), random(7, 5)], {0: 0}),
    "every other": (descend, lambda: [random(10, 8)[::2, ::2], random(7, 5)], {0: 0}),
    "the other byte order": (descend, lambda: [random(5, 4).astype(">f8"), random(7, 5)], {0: 0}),
    "adam": (adam, lambda: [random(5, 4), random(5, 4), random(5, 4) ** 2, random(7, 5)], {0: 0, 1: 1, 2: 2}),
    "both of two": (both, lambda: [random(5, 7), random(5, 7)], {0: 0, 1: 1}),
    "by a norm": (by_the_norm, lambda: [random(5, 7)], {0: 0}),
    "handed out": (handed_out, lambda: [random(5)], {0: 0}),
    "few": (few, lambda: [random(300), RNG.integers(-300, 300, 9)], {0: 0}),
    "float32": (both, lambda: [random(9).astype(np.float32), random(9).astype(np.float32)], {0: 0, 1: 1}),
}


@pytest.mark.parametrize("name", OVER)
def test_what_nothing_reads_afterwards_is_written_over(name: str) -> None:
    f, make, over = OVER[name]
    for found in agree(f, make):
        assert found == over


def swapped(x: Any, y: Any) -> None:
    before = x.copy()
    x[...] = y
    y[...] = before


def turned(x: Any) -> None:
    x[...] = x.T + 1


def backwards(x: Any) -> None:
    x[...] = x[::-1] * 2


def decided(x: Any, y: Any) -> None:
    x *= 2
    if np.sum(y) > 0:
        x += 1


def sorted_later(x: Any, y: Any) -> Any:
    x *= 2
    return np.sort(y, kind="heapsort")  # in Python


def solved_later(x: Any, y: Any) -> Any:
    x *= 2
    return np.linalg.solve(y + 3 * np.eye(len(y)), x)


def old_kept(x: Any) -> Any:
    before = x[1:] * 1.0
    x *= 2
    return before


def by_itself(x: Any) -> None:
    x[x] = x[::-1]


APART = {
    "swapped": (swapped, lambda: [random(9), random(9)]),
    "turned": (turned, lambda: [random(6, 6)]),
    "backwards": (backwards, lambda: [random(9)]),
    "a decision": (decided, lambda: [random(9), random(3)]),
    "a step in Python": (sorted_later, lambda: [random(9), random(9)]),
    "what may fail": (solved_later, lambda: [random(3), random(3, 3)]),
    "a part of the old": (old_kept, lambda: [random(9)]),
    "indices that are written": (by_itself, lambda: [RNG.permutation(9)]),
}


@pytest.mark.parametrize("name", APART)
def test_what_is_read_afterwards_or_before_something_fails_is_not(name: str) -> None:
    f, make = APART[name]
    found = agree(f, make, times=6)
    assert found and not any(found)


def test_a_refused_call_leaves_its_arguments_alone() -> None:
    def step(x: Any, i: Any, v: Any) -> None:
        x *= 2
        np.add.at(x, i, v)

    compiled = jit(step)
    for _ in range(3):
        compiled(random(50), np.array([1, 2, 2]), 1.0)
    x = random(50)
    plain = x.copy()
    for f, at in ((compiled, x), (step, plain)):  # NumPy has doubled it, and then raises
        with pytest.raises(IndexError, match="out of bounds"):
            f(at, np.array([1, 2, 50]), 1.0)
    assert_array_equal(x, plain)
    read_only = random(50)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled(read_only, np.array([1, 2, 2]), 1.0)
    memory = random(60)
    want = memory.copy()
    step(want[:50], np.array([1, 2, 2]), want[57:60])
    compiled(memory[:50], np.array([1, 2, 2]), memory[57:60])
    assert_array_equal(memory, want)


def test_overlapping_arguments_are_interpreted() -> None:
    def step(x: Any, y: Any) -> None:
        x += y

    compiled = jit(step)
    for _ in range(3):
        compiled(random(10), random(10))
    for first, second in ((slice(0, 10), slice(5, 15)), (slice(5, 15), slice(0, 10)), (slice(0, 10), slice(0, 10))):
        memory = random(20)
        want = memory.copy()
        step(want[first], want[second])
        compiled(memory[first], memory[second])
        assert_array_equal(memory, want)


def test_audits_see_what_would_be_written() -> None:
    compiled = jit(descend)
    config.audit = "always"
    for _ in range(4):
        w, x = random(5, 4), random(7, 5)
        plain = w.copy()
        descend(plain, x)
        compiled(w, x)
        assert_allclose(w, plain, rtol=1e-13)
    (program,) = programs(compiled)
    w, x = random(5, 4), random(7, 5)
    before, plain = w.copy(), w.copy()
    descend(plain, x)
    apart = program.apart(w, x)
    assert_array_equal(w, before)
    assert_allclose(apart[0], plain, rtol=1e-13)


def test_what_is_drawn_is_written_over() -> None:
    def step(w: Any, rng: Any) -> None:
        w -= 0.1 * rng.normal(size=w.shape)

    compiled = jit(step)
    for seed in range(4):
        w = random(5)
        plain = w.copy()
        compiled(w, np.random.default_rng(seed))
        step(plain, np.random.default_rng(seed))
        assert_allclose(w, plain, rtol=1e-13)


def test_attributes_and_captured_arrays_are_written_over() -> None:
    class Model:
        def __init__(self) -> None:
            self.w, self.seen = random(4), np.zeros(4)

    model, total = Model(), random(4)

    @jit
    def step(model: Any, x: Any) -> Any:
        model.w -= 0.1 * x
        model.seen += x**2
        total[...] = total * 0.9 + x
        return np.sum(model.w * total)

    for _ in range(4):
        x, w, seen, before = random(4), model.w.copy(), model.seen.copy(), total.copy()
        value = step(model, x)
        assert_allclose(model.w, w - 0.1 * x)
        assert_allclose(model.seen, seen + x**2)
        assert_allclose(total, before * 0.9 + x)
        assert_allclose(value, np.sum(model.w * total))
    assert [len(program.plan.overwritten) for program in programs(step)] == [3]
