"""Results that are computed wrongly on purpose: the audit sees each within four calls, and users get what is right."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
import pytest
from audits import Patch, served

import yota_py.cache.modes
import yota_py.cache.step
import yota_py.capture.effects
from yota_py import grad, jit
from yota_py.engine import compile
from yota_py.errors import AuditWarning
from yota_py.passes.pipeline import optimise
from yota_py.registry.registry import primitive_of
from yota_py.tape.operations import Call
from yota_py.tape.tape import Tape

pytestmark = pytest.mark.audited


def results_narrowed(patch: Patch) -> None:
    right = yota_py.cache.step._Writer.body

    def body(self: Any) -> Any:
        *effects, result = right(self)
        return *effects, f"{result}.astype('f4')"

    patch.setattr(yota_py.cache.step._Writer, "body", body)


def constants_changed(patch: Patch) -> None:
    def wrong(tape: Tape) -> Tape:
        low = optimise(tape)
        ops = [dataclasses.replace(op, args=tuple(1.001 * a if type(a) is float else a for a in op.args))
               if isinstance(op, Call) else op for op in low.ops]
        return dataclasses.replace(low, ops=ops)

    patch.setattr(compile, "optimise", wrong)


def results_copied(patch: Patch) -> None:
    right = yota_py.cache.step._Writer.text
    patch.setattr(
        yota_py.cache.step._Writer, "text",
        lambda self, value: f"{right(self, value)}.copy()" if is_root(self, value) else right(self, value),
    )  # fmt: skip


def is_root(writer: Any, value: Any) -> bool:
    return id(value) in writer.tracers


def results_shared(patch: Patch) -> None:
    right = yota_py.cache.step._Writer._traced
    patch.setattr(
        yota_py.cache.step._Writer, "_traced",
        lambda self, tracer: "x0" if np.ndim(tracer._current()[1]) == 1 else right(self, tracer),
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


def test_a_kernel_that_is_not_numpys(monkeypatch: Patch) -> None:
    """The operation is named that is computed wrongly, not those that use it."""

    def f(x: Any) -> Any:
        y = x * 2.0
        y = np.sin(y)
        return np.sum(y * y)

    monkeypatch.setattr(primitive_of(np.sin), "kernel", primitive_of(np.cos).kernel)
    compiled, line = jit(f), f.__code__.co_firstlineno + 2
    said = rf"; compiled, sin \(test_audit_results.py:{line}\) has another result than NumPy's"
    with pytest.warns(AuditWarning, match=said):
        for i in range(3):
            assert compiled(np.full(3, i + 0.5)) == f(np.full(3, i + 0.5))


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
