"""Large arrays: what a gradient takes beside its arguments, from the first call on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from caching import function, in_a_process, is_compiled
from numpy.testing import assert_allclose

import yota_py.tape.recorder
from yota_py import config, grad, gradtape, primitive, rrule
from yota_py.capture.recording import record_call
from yota_py.passes.lower import lower, lower_gradient
from yota_py.reverse.verbs import differentiate

FUNCTIONS = {
    "exponentials": "np.sum(np.exp(-x * x) * np.sin(x))",
    "neighbours": "np.sum((x[1:] - x[:-1] ** 2) ** 2)",
    "logistic": "np.mean(np.logaddexp(0, x)) + np.linalg.norm(x)",
    "a long chain": "np.sum(" + "np.tanh(1.1 * " * 10 + "x" + ")" * 10 + ")",
    "a product": "np.sum(np.exp(x.reshape(-1, 100) @ np.ones(100)))",
    "rows": "np.sum(np.log(np.sum(np.exp(x.reshape(-1, 100)), axis=1)))",
    "a decision": "np.sum(x * x if np.max(x) > 0 else x)",
    "several uses": "np.sum(x ** 3) * np.sum(np.sqrt(np.abs(x))) + np.var(x)",
}


@pytest.mark.parametrize("policy", ["always", "auto"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_peak(name: str, policy: str) -> None:
    in_a_process(f"""
        import resource
        import numpy as np
        from yota_py import config, grad
        config.compile = {policy!r}

        def f(x):
            return {FUNCTIONS[name]}

        def peak():
            return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        config.compile = "always"
        grad(f, np.ones(1000))
        grad(f, np.ones(1000))  # the compiler is loaded
        config.compile = {policy!r}
        x = np.random.default_rng(0).normal(size=7_500_000)
        before = peak()
        for _ in range(3):
            grad(f, x)
        growth = peak() - before
        assert growth <= 4 * x.nbytes + 20e6, f"{{growth / x.nbytes:.1f}} times the argument"
    """)


# ------------------------------------------------------------------- replays on stand-ins, of arrays of any size


@pytest.fixture
def _all_is_large() -> Iterator[None]:
    before = yota_py.tape.recorder.LARGE_BYTES
    yota_py.tape.recorder.LARGE_BYTES = 0
    yield
    yota_py.tape.recorder.LARGE_BYTES = before


@pytest.mark.usefixtures("_all_is_large")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_stand_ins_make_the_same_tape(name: str) -> None:
    f = function(f"def f(x): return {FUNCTIONS[name]}")
    x = np.random.default_rng(1).normal(size=200)
    source = record_call(f, (x,), {})
    gradient, low = lower_gradient(source)
    value, dx = gradtape(f, x).play(x)
    assert str(gradient.tape) == str(differentiate(source).tape)
    for tape in (gradient.tape, low.tape, lower(differentiate(source)).tape):
        for y in (x, x[::-1].copy()):
            have = tape.play_flat([y])
            value, (dx,) = gradtape(f, y).play(y)
            assert_allclose(have[0], value, rtol=1e-12)
            assert_allclose(have[1], dx, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("_all_is_large")
def test_the_first_result_is_a_program_s() -> None:
    f = function("def f(x): return np.sum(np.exp(x) * x)")
    for k in range(3):
        x = np.linspace(0, 1, 5) + k
        value, (dx,) = grad(f, x)
        assert_allclose(value, f(x), rtol=1e-14)
        assert_allclose(dx, np.exp(x) * (1 + x), rtol=1e-14)
    assert is_compiled(f)


@primitive
def smooth(x: Any) -> Any:
    return np.where(x > 0.5, x, np.exp(x))


@rrule(smooth)
def _smooth_rule(x: Any) -> Any:
    if np.all(x > 0.5):  # a decision of a rule
        return np.positive(x), lambda dy: (dy,)
    return smooth(x), lambda dy: (dy * np.where(x > 0.5, 1, np.exp(x)),)


@pytest.mark.usefixtures("_all_is_large")
def test_what_a_rule_decides_on_is_known() -> None:
    f = function("def f(x): return np.sum(smooth(x) * x)", smooth=smooth)
    for x in [np.array([0.6, 0.7]), np.array([0.9, 0.8]), np.array([0.9, 0.1]), np.array([0.1, 0.9])] * 2:
        value, (dx,) = grad(f, x)
        fresh, (fresh_dx,) = gradtape(f, x).play(x)
        assert_allclose(value, f(x), rtol=1e-14)
        assert_allclose((value, *dx), (fresh, *fresh_dx), rtol=1e-14)


@pytest.mark.usefixtures("_all_is_large")
def test_what_fails_on_stand_ins_is_done_with_values() -> None:
    f = function("def f(a): return np.sum(np.linalg.inv(a) ** 2) + np.sum(np.log(np.diag(np.linalg.cholesky(a))))")
    rng = np.random.default_rng(0)
    for _ in range(3):
        a = rng.normal(size=(4, 4))
        a = a @ a.T + np.eye(4)
        value, (da,) = grad(f, a)
        fresh, (fresh_da,) = gradtape(f, a).play(a)
        assert_allclose(value, fresh, rtol=1e-10)
        assert_allclose(da, fresh_da, rtol=1e-8)
    assert is_compiled(f)


def test_errors_are_raised_once_and_without_warnings() -> None:
    config.compile = "always"
    x = np.ones(300_000)
    with pytest.raises(yota_py.errors.NonScalarOutputError):
        grad(lambda x: np.exp(x), x)
    with pytest.raises(FloatingPointError, match="mine"):
        grad(_raising, x)


@primitive
def wrong(x: Any) -> Any:
    return x + 1


@rrule(wrong)
def _wrong_rule(x: Any) -> Any:
    raise FloatingPointError("mine")


def _raising(x: Any) -> Any:
    return np.sum(wrong(x))


def test_values_go_when_nobody_has_them() -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = np.sin(x)
        return np.sum(x)

    gc.collect()
    gc.disable()
    try:
        trace = record_call(f, (np.ones(300_000),), {})
        kept = sum(isinstance(value, np.ndarray) for value in trace.values)
    finally:
        gc.enable()
    assert kept == 1
