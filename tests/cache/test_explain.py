"""``explain`` tells what is cached and why a call missed; ``config.check`` compares each cached call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yota_py import config, explain, grad, value_and_grad
from yota_py.cache import policy


class Model:
    def __init__(self) -> None:
        self.W, self.scale, self.layers = np.ones(3), 2.0, [np.ones(3), 1]


def helper(x: Any) -> Any:
    return x * x


model, rate, words, switch = Model(), 0.5, {"a": 1}, True


def loss(x: Any, n: int = 1) -> Any:
    y = helper(x) * model.W * rate + words["a"]
    if np.sum(y) > 0:
        y = np.sort(y, kind="heapsort")
    return np.sum(y) * model.scale * n if switch else np.sum(y)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"model": Model(), "rate": 0.5, "words": {"a": 1}, "switch": True, "helper": helper}.items():
        monkeypatch.setitem(globals(), name, value)


def last_miss() -> str:
    return explain(loss)[0].last_miss


def test_before_the_first_call() -> None:
    assert repr(explain(loss)) == "nothing is known: the function was not called yet"
    with pytest.raises(TypeError, match="explain wants a function; got float"):
        explain(2.0)  # type: ignore[arg-type]


def test_the_whole_text() -> None:
    for sign in (1, -1, 1, -1):
        grad(loss, sign * np.ones(3) * 1j.imag)
        grad(loss, np.full(3, -0.5), 2)
    text = repr(explain(loss))
    for part in (
        "loss (test_explain.py:", "by grad: 6 calls ran compiled code, 2 did not", "x float64[3]",
        "x float64[3], n = 2", "model.W float64[3] (test_explain.py:", "helper: function helper", "rate: 0.5",
        "words['a']: 1", "switch: True", "if np.sum(y) > 0:", "sort (test_explain.py:", "kB",
    ):  # fmt: skip
        assert part in text, f"{part} is not in\n{text}"


def test_each_purpose_by_itself() -> None:
    grad(loss, np.ones(3))
    first = value_and_grad(loss)
    for i in range(3):
        grad(loss, np.ones(3) + i)
        first(np.ones(3) + i)
    assert [told.purpose for told in explain(loss)] == ["grad", "value_and_grad(argnums=0)"]
    assert [told.purpose for told in explain(first)] == ["value_and_grad(argnums=0)"]
    assert [told.calls for told in explain(loss)] == [3, 2]


def change(name: str, value: Any) -> Any:
    return lambda: globals().__setitem__(name, value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (change("rate", 0.25), "rate was 0.5, and is 0.25"),
        (change("rate", 1), "rate was 0.5, and is 1"),
        (change("switch", False), "switch was True, and is False"),
        (change("helper", lambda x: x), "helper was function helper, and is function <lambda>"),
        (change("model", Model()), "model was an object of Model, and is another one"),
        (lambda: setattr(model, "scale", 3.0), "model.scale was 2.0, and is 3.0"),
        (lambda: setattr(model, "W", np.ones((2, 3))), "model.W was float64[3], and is float64[2,3]"),
        (lambda: setattr(model, "W", 1.0), "model.W was float64[3], and is float64"),
        (lambda: delattr(model, "scale"), "model.scale cannot be read any more"),
        (lambda: words.__setitem__("b", 1), "words was a dict of ('a',), and is {'a': 1, 'b': 1}"),
        (lambda: words.__setitem__("a", 2), "words['a'] was 1, and is 2"),
    ],
)
def test_the_reason_of_a_miss(change: Any, reason: str) -> None:
    for i in range(3):
        grad(loss, np.ones(3) + i)
    assert "no call with arguments of these types" in last_miss()
    change()
    try:
        grad(loss, np.ones(3))
    except AttributeError:
        assert "scale" in reason
    assert reason in last_miss()


def test_the_argument_that_differs() -> None:
    for i in range(3):
        grad(loss, np.ones(3) + i, 2)
    grad(loss, np.ones(3), 3)
    assert last_miss() == "it is compiled for n = 2, and here this argument is 3"
    grad(loss, np.ones((2, 3)), 3)
    assert last_miss() == "it is compiled for x float64[3], and here this argument is float64[2,3]"


def test_the_reason_is_that_of_the_program_used_last() -> None:
    for n in (2, 3, 2, 3, 2):
        grad(loss, np.ones(3), n)
    change("rate", "no number")()
    with pytest.raises(TypeError):
        grad(loss, np.ones(3), 2)
    assert "rate was 0.5, and is 'no number'" in last_miss()


@pytest.mark.default_policy
def test_what_is_spent_before_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy.price, "of", lambda operations: 10.0)
    grad(loss, np.ones(3))
    assert "interpreting has taken 0.0" in repr(explain(loss)) and "a program is made" in repr(explain(loss))
    grad.compile(loss, np.ones(3))
    assert "interpreting" not in repr(explain(loss))


def test_the_reason_of_another_path() -> None:
    for i in range(3):
        grad(loss, np.ones(3) + i)
    rate_before = rate
    change("rate", -5.0)()
    grad(loss, np.ones(3))
    change("rate", rate_before)()
    for _ in range(3):
        grad(loss, np.ones(3))
    assert "rate was 0.5, and is -5.0" in last_miss()

    def signed(x: Any) -> Any:
        return x if x > 0 else -x

    for x in (1.0, 2.0, 3.0, -1.0):
        grad(signed, x)
    assert "a decision came out as False, on a path that is not compiled" in explain(signed)[0].last_miss


def test_objects_are_not_kept_alive() -> None:
    import gc
    import weakref

    class Other(Model):
        def loss(self, x: Any) -> Any:
            return np.sum(self.W * x)

    other = Other()
    for i in range(3):
        grad(other.loss, np.ones(3) + i)
    array, itself = weakref.ref(other.W), weakref.ref(other)
    del other
    gc.collect()
    assert itself() is None and array() is None
    for i in range(3):
        value, (dx,) = grad(Other().loss, np.ones(3) + i)
        assert value == 3 + 3 * i and np.all(dx == 1)


# ----------------------------------------------------------------------------------------- config.check


def test_checked_calls_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "check", True)
    for x in (np.ones(3), -np.ones(3), np.ones(3, np.float32), np.ones((2, 3))):
        for i in range(4):
            value, (dx,) = grad(loss, x * x.dtype.type(1 + i))
            assert value.dtype == np.float64 and dx.dtype == x.dtype
    assert explain(loss)[0].calls > 8
