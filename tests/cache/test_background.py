"""Calls go on while a thread compiles, and programs appear when they are ready."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from yota_py import config, explain, grad, jit, value_and_grad
from yota_py.cache import background, policy
from yota_py.cache import functions as cache
from yota_py.errors import CompileError, CompilerWarning

pytestmark = [pytest.mark.default_policy, pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")]
X = np.array([0.5, -1.0, 2.0])


class Gate:
    """What lets the compiler go on."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.threads: list[str] = []
        self.error: Exception | None = None

    def hold(self, compile: Callable[..., Any]) -> Callable[..., Any]:
        def held(self_: Any, make: Any) -> Any:
            self.threads.append(threading.current_thread().name)
            self.entered.set()
            assert self.opened.wait(30.0)
            if self.error is not None:
                raise self.error
            return compile(self_, make)

        return held

    def go_on(self) -> None:
        self.opened.set()
        background.wait()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The compiler waits for a gate; whatever was interpreted once is due."""
    gate = Gate()
    monkeypatch.setattr(cache.Variant, "compile", gate.hold(cache.Variant.compile))
    monkeypatch.setattr(policy.price, "of", lambda operations: 0.0)
    monkeypatch.setattr(config, "background", True)
    monkeypatch.setattr(background, "PATIENCE", 0.0)
    yield gate
    gate.go_on()


def right(df: Callable[..., Any], x: Any, f: Callable[..., Any]) -> None:
    value, slope = df(x)
    assert value == pytest.approx(f(x), rel=1e-13)
    np.testing.assert_allclose(slope, 2.0 * x * np.cos(x**2), rtol=1e-13)


def test_calls_go_on(gate: Gate) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x**2))

    df = value_and_grad(f)
    for i in range(4):
        right(df, X + i, f)
    assert gate.entered.wait(30.0)
    assert explain(df)[0].calls == 0 and "while a program is compiled" in str(explain(df))
    gate.go_on()
    for i in range(4):
        right(df, X - i, f)
    assert explain(df)[0].calls == 4 and explain(df)[0].misses == 4
    assert gate.threads == ["yota_py compiles"]
    assert "while a program is compiled" not in str(explain(df))


def test_other_shapes_and_paths_meanwhile(gate: Gate) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x**2)) if x[0] > 0 else np.sum(np.sin(x**2)) * 1.0

    df = value_and_grad(f)
    for x in (X, -X, X[:2], X, -X, X[:2]):
        right(df, x, f)
    gate.go_on()
    for _ in range(4):
        for x in (X, -X, X[:2]):
            right(df, x, f)
            background.wait()
    assert explain(df)[0].calls >= 6


def test_what_is_compiled_at_once(gate: Gate) -> None:
    gate.opened.set()
    for f in (jit(lambda x: np.sum(np.sin(x))), value_and_grad(lambda x: np.sum(np.sin(x)))):
        gate.threads.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config, "background", f.__yota_cache__.mode.effects)  # steps are not compiled by the thread
            for _ in range(3):
                f(X)
        assert gate.threads == [threading.current_thread().name]
    gate.threads.clear()
    config.compile = "always"
    value_and_grad(lambda x: np.sum(np.cos(x)))(X)
    assert gate.threads == [threading.current_thread().name]


def test_a_failure_is_told_at_the_next_call(gate: Gate) -> None:
    df = value_and_grad(lambda x: np.sum(np.sin(x)))
    gate.error = RuntimeError("no")
    df(X)
    gate.go_on()
    with pytest.warns(CompilerWarning, match="RuntimeError: no") as caught:
        df(X)
    assert [w.filename for w in caught] == [__file__]
    assert "RuntimeError: no" in explain(df)[0].problems[0]
    gate.error = None
    with warnings.catch_warnings():  # once only; it is tried again
        warnings.simplefilter("error")
        for _ in range(8):
            df(X)
            background.wait()
    assert explain(df)[0].calls > 0


def test_what_is_forgotten_meanwhile_is_not_kept(gate: Gate) -> None:
    df = value_and_grad(lambda x: np.sum(np.sin(x)))
    df(X)
    assert gate.entered.wait(30.0)
    forgetting = threading.Thread(target=cache.clear_caches)  # waits for the compiler
    forgetting.start()
    time.sleep(0.05)
    gate.go_on()
    forgetting.join()
    assert [known for known in explain(df) if known.entries] == []


def test_compile_meanwhile(gate: Gate) -> None:
    df = value_and_grad(lambda x: np.sum(np.sin(x)))
    df(X)
    assert gate.entered.wait(30.0)
    threading.Timer(0.05, gate.opened.set).start()
    df.compile(X)  # waits
    df(X)
    assert explain(df)[0].misses == 1 and len(gate.threads) == 1


def test_compile_before_it_is_begun(gate: Gate) -> None:
    first, second = (value_and_grad(f) for f in (lambda x: np.sum(np.sin(x)), lambda x: np.sum(np.cos(x))))
    first(X)
    assert gate.entered.wait(30.0)
    job = background.submit(lambda: ["never"])
    job.give_up()
    second(X)
    gate.go_on()
    assert job.result() == []
    second.compile(X)
    second(X)
    assert explain(second)[0].calls == 1


def test_what_cannot_be_compiled(gate: Gate) -> None:
    df = value_and_grad(lambda x: np.sum(np.sin(x)) * time.time_ns())
    with pytest.warns(match="traced afresh"):
        df(X)
        df(X)
    assert gate.threads == []
    with pytest.raises(CompileError):
        df.compile(X)


def test_calls_wait_a_little(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PATIENCE", 30.0)
    df = value_and_grad(lambda x: np.sum(np.sin(x)))
    threading.Timer(0.05, gate.opened.set).start()
    for _ in range(3):
        df(X)
    assert explain(df)[0].calls == 2 and explain(df)[0].misses == 1
    assert gate.threads == ["yota_py compiles"]
    gate.error = RuntimeError("no")
    other = value_and_grad(lambda x: np.sum(np.cos(x)))
    with pytest.warns(CompilerWarning, match="RuntimeError: no") as caught:  # at once
        other(X)
    assert [w.filename for w in caught] == [__file__]


def test_no_more_threads(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    gate.opened.set()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    df = value_and_grad(lambda x: np.sum(np.sin(x)))
    for _ in range(3):
        df(X)
    assert explain(df)[0].calls == 2 and gate.threads == [threading.current_thread().name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy.price, "of", lambda operations: 0.0)
    monkeypatch.setattr(config, "background", True)
    functions = [value_and_grad(eval(f"lambda x: np.sum(np.sin(x) * {i}.0)", {"np": np})) for i in range(8)]
    for df in functions:
        df(X)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for i, df in enumerate(functions):
                for _ in range(4):
                    value, _ = df(X)
                    assert abs(value - i * np.sum(np.sin(X))) < 1e-12
                    background.wait()
                assert explain(df)[0].calls > 0
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


SCRIPT = """
import numpy as np
from yota_py import config, value_and_grad
from yota_py.cache import policy
policy.price.of = lambda operations: 0.0
lines = "".join(f"    a = a + np.sin(b * 0.{i}) * {i % 7}.25\\n    b = b * 0.9 + np.tanh(a)\\n" for i in range(300))
names = {"np": np, "__name__": "user"}
exec(f"def f(x):\\n    a, b = x\\n{lines}    return a + b\\n", names)
df = value_and_grad(names["f"])
for _ in range(CALLS):
    print(df(np.array([0.1, 0.2]))[0])
"""


@pytest.mark.parametrize("calls", [1, 2, 4])
def test_the_process_ends_while_it_compiles(calls: int) -> None:
    script = SCRIPT.replace("CALLS", str(calls))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120,
                         env=os.environ | {"YOTA_CACHE_DIR": ""})  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert len(set(run.stdout.split())) == 1 and len(run.stdout.split()) == calls


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
@pytest.mark.parametrize("seconds", [0.25, 0.3, 0.35, 0.4])
def test_the_process_is_ended_by_a_signal(seconds: float) -> None:
    alarm = f"import signal, sys\nsignal.signal(signal.SIGALRM, lambda *_: sys.exit(0))\n" \
            f"signal.setitimer(signal.ITIMER_REAL, {seconds})\n"  # fmt: skip
    script = alarm + SCRIPT.replace("CALLS", "10000")
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120,
                         env=os.environ | {"YOTA_CACHE_DIR": ""})  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")


def test_calls_at_the_end_of_the_process() -> None:
    later = "import atexit\natexit.register(lambda: print(df(np.array([0.1, 0.2]))[0]))\n"
    script = SCRIPT.replace("CALLS", "1") + later
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120,
                         env=os.environ | {"YOTA_CACHE_DIR": ""})  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    assert len(run.stdout.split()) == 2 and len(set(run.stdout.split())) == 1


def test_many_functions_from_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy.price, "of", lambda operations: 0.0)
    monkeypatch.setattr(config, "background", True)
    wrong: list[Any] = []

    def work(number: int) -> None:
        def f(x: Any) -> Any:
            return np.sum(np.sin(x) ** (1 + number % 3)) * number

        for i in range(12):
            x = X + 0.1 * i
            value, (slope,) = grad(f, x)
            power = 1 + number % 3
            want = number * power * np.sin(x) ** (power - 1) * np.cos(x)
            if not (np.isclose(value, f(x), rtol=1e-12) and np.allclose(slope, want, rtol=1e-12)):
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    background.wait()
    assert wrong == []
