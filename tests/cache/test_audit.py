"""Audits find programs that are wrong: faults are put in on purpose, and each is noticed within four calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from audits import Patch, decisions_are_not_checked, nothing_is_guarded, served
from performing import assert_same

import yota_py.cache.modes
import yota_py.cache.step
import yota_py.capture.effects
from yota_py import explain, grad, jit
from yota_py.capture.walk import Captures
from yota_py.errors import AuditWarning

pytestmark = pytest.mark.audited


class Model:
    """State of all kinds."""

    count = 0

    def __init__(self) -> None:
        self.w, self.t, self.last = np.ones(3), 0, 0.0
        self.stats, self.sizes = {"n": 0, "loss": 1.0}, [1.0, 2.0]
        self.power = 2


# ----------------------------------------------------------------------------------------------- what the program reads


def numbers_are_not_guarded(patch: Patch) -> None:
    patch.setattr(Captures, "_immutable", lambda self, value, expression: value)


POWER = 2


def test_a_captured_integer(monkeypatch: Patch) -> None:
    def change(state: Any) -> None:
        monkeypatch.setitem(globals(), "POWER", 3)

    def f(x: Any) -> Any:
        return np.sum(x**POWER)

    text = served(numbers_are_not_guarded, jit(f), f, np.arange(3.0), change)
    line = f.__code__.co_firstlineno + 1
    assert "the result is np.float64(5.0), and should be np.float64(9.0)" in text
    assert f"; it comes from sum (test_audit.py:{line})" in text


def test_a_captured_integer_under_a_gradient(monkeypatch: Patch) -> None:
    def f(x: Any) -> Any:
        return np.sum(x**POWER)

    x = np.arange(3.0)
    with Patch.context() as patch:
        numbers_are_not_guarded(patch)
        grad(f, x)
    monkeypatch.setitem(globals(), "POWER", 3)
    with pytest.warns(AuditWarning, match=r"(?s)the result\[0\].*5.0.*9.0.*does not know that POWER is 3 \(test_audit"):
        value, (dx,) = grad(f, x)
    assert value == 9 and np.array_equal(dx, 3 * x**2)
    value, (dx,) = grad(f, x)
    assert value == 9 and np.array_equal(dx, 3 * x**2)
    assert not explain(f)[0].entries and "its program was wrong" in explain(f)[0].problems[0]


def test_a_program_of_another_function() -> None:
    def made(inner: Any) -> Any:
        return lambda x: np.sum(inner(x))

    def double(x: Any) -> Any:
        return 2 * x

    def square(x: Any) -> Any:
        return x * x

    x = np.arange(3.0)
    with Patch.context() as patch:
        nothing_is_guarded(patch)
        grad(made(double), x)
    with pytest.warns(AuditWarning, match=r"(?s)\(6.0\), and should be np.float64\(5.0\).*know that inner is"):
        value, (dx,) = grad(made(square), x)
    assert value == 5 and np.array_equal(dx, 2 * x)
    value, (dx,) = grad(made(double), x)
    assert value == 6 and np.array_equal(dx, [2, 2, 2])


def test_a_decision_that_is_not_checked() -> None:
    def f(w: Any) -> Any:
        s = w[0]
        w[:] += 1.0
        return "big" if s > 1.5 else "small"

    text = served(decisions_are_not_checked, jit(f), f, np.zeros(3))
    assert "the result is 'small', and should be 'big'" in text


def test_an_exception_that_is_not_raised() -> None:
    def f(w: Any) -> Any:
        w[:] += 1.0
        if w.sum() > 10.0:
            raise ValueError("too large")
        return w.sum()

    text = served(decisions_are_not_checked, jit(f), f, np.ones(3))
    assert "the call returns np.float64(12.0), and should raise ValueError: too large" in text


# ---------------------------------------------------------------------------------------------------- what is left out


def step_of(stores: bool = True, copies: bool = True) -> Callable[[Patch], None]:
    """The fault of a step that leaves out the first of its stores, or of what it writes into arrays."""
    right = yota_py.cache.step._Writer.body

    def body(self: Any) -> Any:
        written, stored, grown, result = right(self)
        return written[not copies :], stored[not stores :], grown, result

    return lambda patch: patch.setattr(yota_py.cache.step._Writer, "body", body)


def count_attribute(m: Model, x: Any) -> Any:
    m.t += 1
    return np.sum(m.w * x)


def count_item(m: Model, x: Any) -> Any:
    m.stats["n"] += 1
    return np.sum(m.w * x)


def count_in_list(m: Model, x: Any) -> Any:
    m.sizes[1] = m.sizes[1] + 1.0
    return np.sum(m.w * x)


def count_argument(state: Any, x: Any) -> Any:
    state["loss"] = state["loss"] * 0.5 + np.sum(x)
    return state["loss"]


def count_in_class(m: Model, x: Any) -> Any:
    Model.count += 1
    return np.sum(m.w * x)


@pytest.mark.parametrize("f", [count_attribute, count_item, count_in_list], ids=lambda f: f.__name__)
def test_a_store_left_out(f: Any) -> None:
    text = served(step_of(stores=False), jit(f), f, Model(), lambda s: s, np.arange(3.0))
    where = {"count_attribute": "m.t", "count_item": "m.stats['n']", "count_in_list": "m.sizes[1]"}[f.__name__]
    assert f"wrong: {where} is left " in text


def test_a_store_into_an_argument_left_out() -> None:
    text = served(step_of(stores=False), jit(count_argument), count_argument, {"loss": 1.0}, lambda s: s, np.ones(2))
    assert "wrong: state['loss'] is left " in text


def test_a_store_into_a_class_left_out(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Model, "count", 0)
    f, model = jit(count_in_class), Model()
    with Patch.context() as patch:
        step_of(stores=False)(patch)
        f(model, np.ones(3))
    with pytest.warns(AuditWarning, match=r"Model\.count is left 1, and should be 2"):
        f(model, np.ones(3))
    for i in range(3):
        assert Model.count == 2 + i
        f(model, np.ones(3))


@pytest.mark.parametrize("left_out", [False, True])
def test_a_store_into_a_closure(left_out: bool) -> None:
    def made() -> Any:
        total = 0.0

        def f(x: Any) -> Any:
            nonlocal total
            total = total + np.sum(x)
            return total

        return f, lambda: total

    (f, state), (plain, plain_state) = made(), made()
    compiled = jit(f)
    with Patch.context() as patch, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", AuditWarning)
        if left_out:
            step_of(stores=False)(patch)
        for i in range(6):
            x = np.full(2, 1.0 + i)
            assert_same((compiled(x), state()), (plain(x), plain_state()))
    (told,) = explain(compiled)
    assert [str(w.message).partition("wrong: ")[2][:13] for w in said] == ["total is left"] * left_out
    assert bool(told.entries) != left_out and all(entry.audits >= 2 for entry in told.entries[-1:])


def test_a_write_left_out() -> None:
    def f(w: Any, x: Any) -> Any:
        w -= 0.1 * x
        return np.sum(x)

    text = served(step_of(copies=False), jit(f), f, np.ones(3), lambda s: s, np.arange(3.0))
    assert "wrong: w is left as it is, and should be written into" in text


def test_an_attribute_that_is_added() -> None:
    def f(m: Any, x: Any) -> Any:
        m.extra = 1.0
        return np.sum(x)

    def unnoticed(patch: Patch) -> None:
        right = yota_py.cache.step._Writer.body
        writer = yota_py.cache.step._Writer
        patch.setattr(writer, "body", lambda self: (self.performance.changes.clear(), right(self))[1])
        patch.setattr(yota_py.capture.effects, "_restructured", lambda performance: iter(()))

    compiled, model = jit(f), Model()
    with Patch.context() as patch:
        unnoticed(patch)
        compiled(model, np.ones(2))
    del model.extra
    with pytest.warns(AuditWarning, match=r"m\.extra is left nothing, and should be 1.0"):
        compiled(model, np.ones(2))
    assert model.extra == 1.0
