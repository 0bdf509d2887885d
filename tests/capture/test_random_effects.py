"""Random functions that write through views and rebind places, traced and compiled, against themselves."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from performing import Jitted, assert_same, sharing

Random = np.random.RandomState
Step = tuple[str, int, Any, int]  # what is done, to which value, how, and a number for it

VIEWS: list[Callable[[Any, int], Any]] = [
    lambda v, k: v[k % len(v) :] if v.ndim and len(v) else v,
    lambda v, k: v[::-1] if v.ndim else v,
    lambda v, k: v[::2] if v.ndim else v,
    lambda v, k: v[..., 0] if v.ndim and v.shape[-1] else v,
    lambda v, k: v[np.roll(np.arange(len(v)), k).tolist()] if v.ndim else v,
    lambda v, k: np.split(v, [1])[1] if v.ndim else v,
    lambda v, k: v.swapaxes(0, -1) if v.ndim > 1 else v,
    lambda v, k: np.einsum("i...->...i", v) if v.ndim else v,
    lambda v, k: v.T, lambda v, k: v.reshape(-1), lambda v, k: v.ravel(), lambda v, k: v[None], lambda v, k: v[...],
    lambda v, k: np.squeeze(v), lambda v, k: np.asarray(v), lambda v, k: np.atleast_2d(v), lambda v, k: np.real(v),
    lambda v, k: v.copy(), lambda v, k: v * 1.5,
]  # fmt: skip


def scale(v: Any) -> None:
    v *= 1.1


def add_reversed(v: Any) -> None:
    v += v[::-1] if v.ndim else 1.0


def accumulate(v: Any) -> None:
    if v.ndim and v.size:
        v[...] = np.cumsum(v, axis=-1)


def first_from_last(v: Any) -> None:
    if v.ndim and len(v):
        v[0] = v[-1] * 0.5 + 1.0


def add_twice(v: Any) -> None:
    if v.ndim and len(v):
        np.add.at(v, [0, -1, 0], 0.5)


def put(v: Any) -> None:
    if v.size:
        np.put(v, [0, -1], [0.7, 0.8])


def sort(v: Any) -> None:
    if v.ndim:
        v.sort()


WRITES: list[Callable[[Any], Any]] = [
    scale, add_reversed, accumulate, first_from_last, add_twice, put, sort,
    lambda v: np.tanh(v, out=v), lambda v: v.fill(0.3), lambda v: np.copyto(v, -v, where=v > 0.9),
]  # fmt: skip


def draw(seed: int) -> tuple[list[Step], list[int]]:
    """The steps of a function, and which values it returns."""
    rng, count, steps = Random(seed), 4, []
    for _ in range(rng.randint(3, 10)):
        kind, at, k = rng.randint(3), rng.randint(count), rng.randint(1000)
        if kind == 0:
            steps.append(("view", at, VIEWS[rng.randint(len(VIEWS))], k))
            count += 1
        elif kind == 1:
            steps.append(("write", at, WRITES[rng.randint(len(WRITES))], k))
        else:
            steps.append(("store", at, ["a", "out", "c"][rng.randint(3)], k))
    return steps, [int(i) for i in rng.randint(count, size=3)]


def run(steps: list[Step], returned: list[int], state: Any, x: Any, y: Any) -> Any:
    """The function of these steps."""
    values = [x, y, state["a"], state["b"]["c"]]
    for kind, at, what, k in steps:
        if kind == "view":
            values.append(what(values[at], k))
        elif kind == "write":
            what(values[at])
        else:
            (state["b"] if what == "c" else state)[what] = values[at]
    return [values[i] for i in returned], values[-1]


def arguments(seed: int, call: int) -> tuple[Any, Any]:
    """A matrix in one of four memory orders, and a vector."""
    rng = Random(1000 * seed + call)
    x, y = rng.normal(size=(4, 4)), rng.normal(size=5)
    return [x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x[::-1]][seed % 4], y


def attempt(f: Callable[..., Any], *args: Any) -> Any:
    """The result, or the text of the error: an array may be read-only."""
    try:
        return f(*args)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_random_functions(seed: int, captured: bool) -> None:
    steps, returned = draw(seed)
    rng = Random(seed)
    state = {"a": rng.normal(size=(3, 4)), "b": {"c": rng.normal(size=4)}, "out": np.zeros(1)}
    plain_state = copy.deepcopy(state)
    jitted = Jitted()

    def of_captured(x: Any, y: Any) -> Any:
        return run(steps, returned, state, x, y)

    def of_arguments(given: Any, x: Any, y: Any) -> Any:
        return run(steps, returned, given, x, y)

    for call in range(5):
        x, y = arguments(seed, call)
        plain_x, plain_y = arguments(seed, call)
        want = attempt(run, steps, returned, plain_state, plain_x, plain_y)
        have = attempt(jitted, of_captured, x, y) if captured else attempt(jitted, of_arguments, state, x, y)
        assert_same(have, want)
        assert_same((state, x, y), (plain_state, plain_x, plain_y))
        assert sharing((have, state, x, y)) == sharing((want, plain_state, plain_x, plain_y))
