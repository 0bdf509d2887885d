"""Steps with weights that are tied by stored views (``self.out = self.emb.T``), one of which is written into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from steps import runs_as_plain

from yota_py import config, explain, jit, value_and_grad


def points(i: int) -> tuple[Any, ...]:
    return (np.cos(np.arange(4.0) + i),)


class Tied:
    def __init__(self) -> None:
        self.emb = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
        self.out = self.emb.T

    def loss(self, emb: Any, x: Any) -> Any:
        return np.sum(np.tanh(x @ emb @ self.out) ** 2)

    def step(self, x: Any) -> Any:
        value, grad = value_and_grad(self.loss)(self.emb, x)
        self.emb -= 0.1 * grad
        return value, self.out[0] * 1.0


def test_attributes() -> None:
    def make() -> Any:
        model = Tied()
        return model.step, points, lambda: vars(model)

    runs_as_plain(make, 9, compiled=8)


def test_gradients_are_those_of_the_argument() -> None:
    """A stored view is a constant of the function that is differentiated, although it looks at the argument."""
    model, w = Tied(), np.linspace(-1.0, 1.0, 12).reshape(4, 3)
    (x,) = points(0)

    def loss(emb: Any, out: Any) -> Any:
        return np.sum(np.tanh(x @ emb @ out) ** 2)

    _, grad = value_and_grad(loss)(w, w.T.copy())
    step = jit(model.step)
    step(x)
    assert np.allclose(model.emb, w - 0.1 * grad)
    _, grad = value_and_grad(loss)(model.emb.copy(), model.out.copy())
    w = model.emb - 0.1 * grad
    step(x)
    assert explain(step)[0].calls == 1 and np.allclose(model.emb, w)


VIEWS: dict[str, Any] = {
    "rows": lambda w: w[1:],
    "columns": lambda w: w[:, 1:3],
    "every other": lambda w: w[::2, ::-1],
    "a row": lambda w: w[2],
    "a column": lambda w: w[:, 1],
    "flat": lambda w: w.reshape(-1),
    "another shape": lambda w: w.reshape(3, 4),
    "rows in another shape": lambda w: w[1:3].reshape(3, 2),
    "transposed rows": lambda w: w[1:].T,
    "a new axis": lambda w: w[:, None, :],
    "an element": lambda w: w[1:2, 2:3],
    "all": lambda w: w[:],
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("how", VIEWS)
def test_views_in_containers(how: str, order: str) -> None:
    def make() -> Any:
        w = np.array(np.linspace(-1.0, 1.0, 12).reshape(4, 3), order=order)  # type: ignore[call-overload]
        model = {"w": w, "tied": VIEWS[how](w)}

        def step(x: Any) -> Any:
            before = np.sum(model["tied"] * 2.0)
            value, grad = value_and_grad(lambda w: np.sum(np.tanh(x @ w)))(model["w"])
            model["w"] -= 0.1 * grad
            return before, value, np.sum(model["tied"] ** 2), model["tied"]

        return step, points, lambda: model

    whole = how in ("flat", "another shape", "rows in another shape") and order == "F"
    runs_as_plain(make, 9, compiled=None if whole else 8)


def test_writes_through_the_view() -> None:
    def make() -> Any:
        model = Tied()

        def step(x: Any) -> Any:
            model.out += 0.1
            model.out[1] *= x
            model.emb[0] = 3.0 + x[0]
            return model.out, model.emb[1:], model.out.T

        return step, points, lambda: vars(model)

    runs_as_plain(make, 9, compiled=8)


def test_parts_of_one_buffer() -> None:
    """Nobody reads the buffer itself, and parts of it overlap."""

    def make() -> Any:
        buffer = np.linspace(-1.0, 1.0, 20)
        a, b, c = buffer[:12].reshape(4, 3), buffer[12:15], buffer[10:16]

        def step(x: Any) -> Any:
            nonlocal a
            _, (da, db) = value_and_grad(lambda a, b: np.sum(np.tanh(x @ a + b)), argnums=(0, 1))(a, b)
            a -= 0.1 * da
            b[:] = b - 0.1 * db
            return np.sum(c), c[0]

        return step, points, lambda: (buffer, a, b, c)

    runs_as_plain(make, 9, compiled=8)


def test_views_that_are_replaced() -> None:
    def make() -> Any:
        model = Tied()

        def args(i: int) -> Any:
            if i == 3:
                model.out = model.out.copy()
            if i == 6:
                model.out = model.emb.T
            if i == 8:
                model.emb = model.emb * 1.5
            if i == 10:
                model.out = np.ascontiguousarray(model.emb.T)
            if i == 12:
                model.emb = np.linspace(0.0, 1.0, 12).reshape(4, 3)
                model.out = model.emb.T
            if i == 14:
                model.out = model.emb[::-1].T
            return points(i)

        return model.step, args, lambda: vars(model)

    runs_as_plain(make, 18, compiled=8)


def test_views_that_look_elsewhere_later() -> None:
    def make() -> Any:
        w = np.linspace(-1.0, 1.0, 12)
        model = {"w": w, "part": w[2:6]}

        def step(x: Any) -> Any:
            model["w"] *= 0.9
            return model["part"] + x

        def args(i: int) -> Any:
            if i >= 5:
                model["part"] = w[i - 4 : i]
            return points(i)

        return step, args, lambda: model

    runs_as_plain(make, 12, compiled=5)


def test_views_that_cannot_be_written_through() -> None:
    def make() -> Any:
        model = Tied()

        def step(x: Any) -> Any:
            model.emb -= 0.1
            model.out[0] = x
            return model.out

        def args(i: int) -> Any:
            if i == 4:
                model.out.flags.writeable = False
            return points(i)

        return step, args, lambda: vars(model)

    runs_as_plain(make, 9, compiled=3)


def test_views_that_are_no_expressions() -> None:
    """Of other dtypes, of overlapping windows, and of an array of which somebody else holds the memory."""

    def make() -> Any:
        w = np.linspace(-1.0, 1.0, 12)
        model = {
            "w": w, "windows": np.lib.stride_tricks.sliding_window_view(w, 4), "bits": w.view(np.int64),
            "buffer": np.frombuffer(memoryview(w)),
        }  # fmt: skip

        def step(x: Any) -> Any:
            model["w"] *= 0.5
            return model["windows"] @ x, np.sum(model["buffer"]), model["bits"] >> 60

        return step, points, lambda: model

    runs_as_plain(make, 9)


def test_identities() -> None:
    def make() -> Any:
        model = Tied()
        model.other = model.out  # type: ignore[attr-defined]

        def step(x: Any) -> Any:
            model.emb += 0.1 * x[:, None]
            same = model.other is model.out  # type: ignore[attr-defined]
            model.last = model.out  # type: ignore[attr-defined]
            return same, model.out is model.emb, model.out

        def args(i: int) -> Any:
            model.last = None  # type: ignore[attr-defined]
            if i == 5:
                model.other = model.emb.T  # type: ignore[attr-defined]
            return points(i)

        return step, args, lambda: (vars(model), model.last is model.out)  # type: ignore[attr-defined]

    runs_as_plain(make, 12, compiled=9)


@pytest.mark.default_policy
def test_when_it_pays() -> None:
    model, plain = Tied(), Tied()
    step = jit(model.step)
    for i in range(10):
        assert np.allclose(step(*points(i))[1], plain.step(*points(i))[1])
    step.compile(*points(10))
    plain.step(*points(10))
    for i in range(11, 21):
        assert np.allclose(step(*points(i))[1], plain.step(*points(i))[1])
    assert np.array_equal(model.out, model.emb.T) and np.allclose(model.emb, plain.emb)
    assert explain(step)[0].calls >= 10


def test_audits() -> None:
    config.audit = "always"

    def make() -> Any:
        model = Tied()
        return model.step, points, lambda: vars(model)

    runs_as_plain(make, 10, compiled=9)
    assert explain(Tied().step)[0].entries[0].audits == 9
