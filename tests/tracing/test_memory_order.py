"""In which order the axes of returned and stored arrays lie in memory: that which NumPy gives them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from yota_py import config, explain, grad, jit

pytestmark = pytest.mark.usefixtures("every_policy")

DATA = np.arange(20.0).reshape(5, 4) / 7

STEPS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda w: (w * 2, np.exp(w), w + w.T.T),
    "transposed": lambda w: (w.T * 2, w.T, np.exp(w.T)[:2]),
    "products": lambda w: (w.T @ w, (w @ DATA.T).T, np.outer(w[0], w[1])),
    "three axes": lambda w: ((np.ones((2, 3, 4)) * w).transpose(1, 2, 0) + 1, np.stack([w.T, w.T * 2])),
    "made like others": lambda w: (np.zeros_like(w) + w, np.copy(w), np.array(w.T), np.asfortranarray(w * 2)),
    "flattened": lambda w: ((w.T * 2).ravel("K"), (w.T * 2).reshape(-1), w.reshape(2, 6) * 2),
    "views of one array": lambda w: (lambda y: (y, y.T, y[1:], y.T.ravel()))(w.T * 2),
    "in containers": lambda w: SimpleNamespace(new=w.T * 2, both=[w * 3]),
    "of one column or none": lambda w: (w[:, :1] * 2, w[:0] * 2, w.T[:, :1] + 1),
    "a gradient": lambda w: grad(lambda w: np.sum((DATA @ w.T) ** 2), w)[1],
    "a step of descent": lambda w: w - 0.1 * grad(lambda w: np.sum((w @ DATA.T) ** 2), w)[1][0],
    "what a gradient gives": lambda w: [grad(lambda w: np.sum(np.sin(w.T)), w)[1][0].ravel() * 2],
}  # fmt: skip


def orders(value: Any) -> Any:
    """Of each array: how it steps through memory."""
    if isinstance(value, np.ndarray):
        ordered = tuple(axis for axis in np.argsort([-step for step in value.strides], kind="stable")
                        if value.shape[axis] > 1)
        return ordered, value.flags.c_contiguous
    items = vars(value).values() if isinstance(value, SimpleNamespace) else value
    return [orders(item) for item in items]


@pytest.mark.parametrize("name", STEPS)
def test_arguments_in_any_order(name: str) -> None:
    step, compiled = STEPS[name], jit(STEPS[name])
    given = [
        np.ones((3, 4)), np.asfortranarray(np.ones((3, 4))), np.ones((4, 3)).T, np.ones((3, 8))[:, ::2],
        np.ones((8, 3)).T[:, ::2], np.ones((3, 4))[::-1],
    ]  # fmt: skip
    for i in range(5):
        for w in given:
            w = w * (i + 1.0) if i == 3 else w
            assert orders(compiled(w)) == orders(step(w)), (i, w.strides)
    if config.compile == "always":
        assert sum(entry.calls for entry in explain(compiled)) >= 5


def test_new_arrays_own_their_memory() -> None:
    step = jit(lambda w: (w.T * 2, np.stack([w, w]).transpose(1, 2, 0) * 2))
    for _ in range(4):
        assert all(array.flags.owndata for array in step(np.ones((3, 4))))


def test_what_depends_on_the_order_in_the_next_call() -> None:
    """``reshape`` of a stored array is a view of it or a copy, into which the next call writes."""

    def run(wrap: Callable[..., Any]) -> list[Any]:
        state = SimpleNamespace(w=np.asfortranarray(np.arange(6.0).reshape(2, 3)))

        def step(x: Any) -> Any:
            state.w = state.w * x
            flat = state.w.reshape(-1)
            flat[0] = x
            return flat, state.w

        wrapped, seen = wrap(step), []
        for i in range(6):
            flat, w = wrapped(1.0 + i)
            w.reshape(-1)[1] = -1.0  # a copy, if the array is in another order
            seen += [flat.copy(), w.copy(), np.shares_memory(flat, w)]
            if i == 3:
                state.w = np.ascontiguousarray(state.w)
        return seen

    for have, want in zip(run(jit), run(lambda step: step), strict=True):
        np.testing.assert_array_equal(have, want)


def test_what_cannot_be_written_into() -> None:
    step = jit(lambda a: (np.diagonal(np.outer(a, a)), np.broadcast_to(a[:0], (2, 0)), a * 2, a.real))
    plain = step.__wrapped__
    for i in range(4):
        a = np.ones(2) + i
        for have, want in zip(step(a), plain(a), strict=True):
            assert have.flags.writeable == want.flags.writeable


def test_reshapes_that_copy_and_that_do_not() -> None:
    step = jit(lambda x: x.reshape(6))
    y = np.arange(12.0).reshape(3, 4)[:, ::2]
    for _ in range(3):
        for x in (y, y[::-1], np.asfortranarray(y), y.copy()):
            have, want = step(x), x.reshape(6)
            np.testing.assert_array_equal(have, want)
            assert np.shares_memory(have, x) == np.shares_memory(want, x)
            assert have.strides == want.strides
