"""Audits find programs that are wrong: faults are put in on purpose, and each is noticed within four calls."""

from __future__ import annotations

import copy
import dataclasses
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from performing import assert_same, sharing

import yota_py.effects
import yota_py.modes
import yota_py.step
from yota_py import explain, grad, jit
from yota_py.captures import Captures
from yota_py.errors import AuditWarning, CompileError
from yota_py.guards import Guards
from yota_py.operations import Call, Constant, Guard
from yota_py.passes import optimise
from yota_py.tape import Tape

pytestmark = pytest.mark.audited

Patch = pytest.MonkeyPatch


class Model:
    """State of all kinds."""

    count = 0

    def __init__(self) -> None:
        self.w, self.t, self.last = np.ones(3), 0, 0.0
        self.stats, self.sizes = {"n": 0, "loss": 1.0}, [1.0, 2.0]
        self.power = 2


def served(fault: Callable[[Patch], None], f: Any, plain: Any, state: Any, change: Callable[[Any], Any] = lambda s: s,
           *args: Any, calls: int = 4) -> str:  # fmt: skip
    """What an audit says of a function compiled with a fault; its results and its state are always those of the plain
    function."""
    own, said = copy.deepcopy(state), []
    for i in range(2 + calls):
        with Patch.context() as patch, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", AuditWarning)
            fault(patch)
            given, plain_given = copy.deepcopy(args), copy.deepcopy(args)
            have, want = outcome(f, own, *given), outcome(plain, state, *plain_given)
            said += [str(warning.message) for warning in caught]
        assert_same((have, given, own), (want, plain_given, state))
        assert sharing((have, given, own)) == sharing((want, plain_given, state))
        if i == 0:
            change(own), change(state)
    (text,) = said
    name = getattr(plain, "__name__", "")
    assert f"test_audit.py:{outcome.__code__.co_firstlineno + 3}: {name}: the compiled program is wrong: " in text
    (told,) = explain(f)
    assert not told.entries and text.partition("is wrong: ")[2].partition(". This call")[0] in told.problems[0]
    misses = told.misses
    with pytest.raises(CompileError, match="its program was wrong"):
        f.compile(own, *copy.deepcopy(args)) if hasattr(f, "compile") else grad.compile(plain, own, *args)
    assert explain(f)[0].misses == misses
    return text


def outcome(f: Any, *args: Any) -> Any:
    """The result of a call, or the exception that it raises."""
    try:
        return f(*args)
    except ValueError as error:
        return type(error), str(error)


# ----------------------------------------------------------------------------------------------- what the program reads


def numbers_are_not_guarded(patch: Patch) -> None:
    patch.setattr(Captures, "_immutable", lambda self, value, expression: value)


def nothing_is_guarded(patch: Patch) -> None:
    patch.setattr(Guards, "require", lambda *args, **kwargs: None)


def decisions_are_not_checked(patch: Patch) -> None:
    def unguarded(tape: Tape) -> Tape:
        low = optimise(tape)
        kept = [Constant(np.True_, op.type) if isinstance(op, Guard) else op for op in low.ops]
        return dataclasses.replace(low, ops=kept)

    patch.setattr(yota_py.step, "optimise", unguarded)
    patch.setattr(yota_py.modes, "optimise", unguarded)


POWER = 2


def test_a_captured_integer(monkeypatch: Patch) -> None:
    def change(state: Any) -> None:
        monkeypatch.setitem(globals(), "POWER", 3)

    def f(x: Any) -> Any:
        return np.sum(x**POWER)

    text = served(numbers_are_not_guarded, jit(f), f, np.arange(3.0), change)
    assert "the result is np.float64(5.0), and should be np.float64(9.0)" in text


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
    right = yota_py.step._Writer.body

    def body(self: Any) -> Any:
        written, stored, result = right(self)
        return written[not copies :], stored[not stores :], result

    return lambda patch: patch.setattr(yota_py.step._Writer, "body", body)


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
        right = yota_py.step._Writer.body
        patch.setattr(yota_py.step._Writer, "body", lambda self: (self.performance.changes.clear(), right(self))[1])
        patch.setattr(yota_py.effects, "_restructured", lambda performance: iter(()))

    compiled, model = jit(f), Model()
    with Patch.context() as patch:
        unnoticed(patch)
        compiled(model, np.ones(2))
    del model.extra
    with pytest.warns(AuditWarning, match=r"m\.extra is left nothing, and should be 1.0"):
        compiled(model, np.ones(2))
    assert model.extra == 1.0


# ---------------------------------------------------------------------------------------------------- what is computed


def results_narrowed(patch: Patch) -> None:
    right = yota_py.step._Writer.body

    def body(self: Any) -> Any:
        *effects, result = right(self)
        return *effects, f"{result}.astype('f4')"

    patch.setattr(yota_py.step._Writer, "body", body)


def constants_changed(patch: Patch) -> None:
    def wrong(tape: Tape) -> Tape:
        low = optimise(tape)
        ops = [dataclasses.replace(op, args=tuple(1.001 * a if type(a) is float else a for a in op.args))
               if isinstance(op, Call) else op for op in low.ops]
        return dataclasses.replace(low, ops=ops)

    patch.setattr(yota_py.step, "optimise", wrong)
    patch.setattr(yota_py.modes, "optimise", wrong)


def results_copied(patch: Patch) -> None:
    right = yota_py.step._Writer.text
    patch.setattr(
        yota_py.step._Writer, "text",
        lambda self, value: f"{right(self, value)}.copy()" if is_root(self, value) else right(self, value),
    )  # fmt: skip


def is_root(writer: Any, value: Any) -> bool:
    return id(value) in writer.tracers


def results_shared(patch: Patch) -> None:
    right = yota_py.step._Writer._traced
    patch.setattr(
        yota_py.step._Writer, "_traced",
        lambda self, tracer: "x0" if np.ndim(tracer.current()[1]) == 1 else right(self, tracer),
    )  # fmt: skip


def test_a_wrong_dtype() -> None:
    def f(w: Any) -> Any:
        return np.sin(w) * 2.0

    text = served(results_narrowed, jit(f), f, np.ones(3))
    assert "the result is float32[3], and should be float64[3]" in text


def test_a_wrong_constant() -> None:
    def f(w: Any) -> Any:
        w *= 1.5
        return np.sum(w) * 3.0

    assert "should be" in served(constants_changed, jit(f), f, np.ones(3))


def test_a_wrong_constant_beside_a_decision_on_equality() -> None:
    """Numbers that are moved for a probe take the other path there; rounding does not."""

    def f(x: Any, rate: Any) -> Any:
        return np.sum(x) * 3.0 if rate == 2 else np.sum(x) * 4.0

    assert "should be" in served(constants_changed, jit(f), f, np.ones(3), lambda s: s, 2.0)


def test_a_wrong_constant_under_a_gradient() -> None:
    def f(x: Any) -> Any:
        return np.sum(x * 2.0)

    with Patch.context() as patch:
        constants_changed(patch)
        grad(f, np.ones(3))
    with pytest.warns(AuditWarning, match=r"the result\[0\] is .*6.00(6|5).*, and should be .*6.0\)"):
        value, (dx,) = grad(f, np.ones(3))
    assert value == 6 and np.array_equal(dx, [2, 2, 2])


def test_a_copy_where_an_argument_is_returned() -> None:
    def f(w: Any) -> Any:
        w += 1.0
        return w

    text = served(results_copied, jit(f), f, np.ones(3))
    assert "the result is another object than it was before, and should be the same" in text


def test_an_argument_where_a_new_array_is_returned() -> None:
    def f(w: Any) -> Any:
        return w * 1.0

    text = served(results_shared, jit(f), f, np.ones(3))
    assert "the result is what another place holds, and should not be the same" in text


def test_a_fault_beside_other_threads() -> None:
    """While another thread lives, a difference has to come twice; each time, the caller gets the right result."""

    def f(x: Any) -> Any:
        return np.sum(x * 2.0)

    compiled, stop = jit(f), threading.Event()
    with Patch.context() as patch:
        constants_changed(patch)
        compiled(np.ones(3))
    idle = threading.Thread(target=stop.wait)
    idle.start()
    try:
        assert compiled(np.ones(3)) == 6.0
        with pytest.warns(AuditWarning, match="the result is"):
            assert compiled(np.ones(3)) == 6.0
        assert compiled(np.ones(3)) == 6.0
    finally:
        stop.set()
        idle.join()
