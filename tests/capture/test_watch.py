"""The hook of a trace hears of every function that runs, is gone afterwards, and leaves other tools alone."""

from __future__ import annotations

import cProfile
import io
import math
import os
import pstats
import random
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import grad, gradtape
from yota_py.base.unwinding import state
from yota_py.cache import policy
from yota_py.capture import hooks as watch
from yota_py.capture.recording import record_call, record_watched
from yota_py.capture.walk import Captures
from yota_py.tape.operations import Guard

WAYS = ["monitoring", "profile"] if hasattr(sys, "monitoring") else ["profile"]
TOOL_IDS = watch._TOOL_IDS


def needs_monitoring(test: Any) -> Any:
    """A test of what Python has since 3.12; there is none of it before."""
    test.__test__ = hasattr(sys, "monitoring")
    return test


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    """No trace leaves anything behind."""
    yield
    assert sys.getprofile() is None
    assert type(state.unwatched) is nullcontext
    if hasattr(sys, "monitoring"):
        assert [sys.monitoring.get_tool(tool) for tool in TOOL_IDS] == [None] * len(TOOL_IDS)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The two ways to watch a trace."""
    if request.param == "profile":
        monkeypatch.setattr(watch, "_TOOL_IDS", ())
    return request.param  # type: ignore[no-any-return]


def problems(f: Callable[..., Any], x: Any = 2.0) -> list[str]:
    """The reasons why ``f`` is not cached."""
    return record_watched(f, (x,), {}, lambda argnum: True)[1].problems


def decisions(f: Callable[..., Any]) -> list[Any]:
    """What Python has decided in a trace of ``f``."""
    return [op.expected for op in record_call(f, (2.0,), {}).tape.ops if isinstance(op, Guard)]


def hidden(*functions: Callable[..., Any]) -> frozenset[Callable[..., Any]]:
    """Functions in a place where only the call of them can be noticed."""
    return frozenset(functions)


# ---------------------------------------------------------------------------------------------- what the hook hears of

_SCALE = 3.0


def _scaled(x: Any) -> Any:
    return x * _SCALE


def _scaled_items(x: Any) -> Iterator[Any]:
    yield x * _SCALE


@pytest.mark.parametrize("place", [hidden(_scaled), hidden(lambda x: sum(_scaled_items(x)))], ids=["def", "generator"])
def test_functions_found_only_when_they_run(way: str, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        for g in place:
            x = g(x) * x
        return x

    assert problems(f) == []
    for scale in (3.0, 5.0, 7.0):
        monkeypatch.setattr(sys.modules[__name__], "_SCALE", scale)
        for i in range(4):
            x = 1.0 + i
            assert grad(f, x) == gradtape(f, x).play(x) == (scale * x * x, (2 * scale * x,))


def test_a_generator_that_runs_already(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers() -> Iterator[float]:
        while True:
            yield _SCALE

    running = numbers()
    next(running)
    place = hidden(running.__next__)  # type: ignore[arg-type]

    def f(x: Any) -> Any:
        for more in place:
            x = x * more()
        return x

    for scale in (3.0, 5.0):
        monkeypatch.setattr(sys.modules[__name__], "_SCALE", scale)
        for i in range(4):
            assert grad(f, 1.0 + i) == (scale * (1.0 + i), (scale,))


def test_closures_out_of_reach(way: str) -> None:
    scale = 2.0
    place = hidden(lambda x: x * scale)

    def f(x: Any) -> Any:
        for g in place:
            x = g(x)
        return x

    assert problems(f) == ["<lambda> was reached by a way that cannot be followed, and has a closure"]
    for i in range(4):
        scale = 2.0 + i
        assert grad(f, 1.0) == (scale, (scale,))


class _Text(io.StringIO):
    """A class of the user's on top of one in C."""


_TEXT = _Text()
_UNIFORM = hidden(random.uniform)
_OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "a function": lambda x: x + time.time_ns(),
    "by other arguments": lambda x: x + time.clock_gettime(*[time.CLOCK_MONOTONIC]),
    "a method": lambda x: x + random.Random.random(*hidden(random._inst)),  # type: ignore[attr-defined]
    "in a library": lambda x: x + sum(g(1.0, 2.0) for g in _UNIFORM),
    "in a comprehension": lambda x: x + sum([time.time_ns() for _ in range(2)]),
    "in a function of ours": lambda x: x + grad(lambda y: y + time.time_ns(), x)[0],
    "after an operation": lambda x: x * x + np.sin(x) * time.time_ns(),
    "after a nested trace": lambda x: x + grad(lambda y: y * y, 3.0)[0] + time.time_ns(),
    "a method of a derived class": lambda x: x + _TEXT.write("text"),
    "by keyword": lambda x: x + os.stat(path=os.sep).st_size,
}


@pytest.mark.parametrize("name", _OUTSIDE)
def test_the_outside_world(way: str, name: str) -> None:
    assert any(p.startswith("it calls") and p.endswith("may differ next time") for p in problems(_OUTSIDE[name]))


def test_after_an_operation_that_fails(way: str) -> None:
    def f(x: Any) -> Any:
        try:
            np.linalg.inv(x)
        except np.linalg.LinAlgError:
            return np.sum(x) * time.time_ns()

    assert any("it calls time" in p for p in problems(f, np.zeros((2, 2))))


def test_what_operations_do_is_not_the_functions_doing(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(Captures, "enter", lambda self, frame: heard.append(frame.f_code.co_name))
    problems(lambda x: np.sum(np.tanh(x) * x), np.ones(3))
    assert "<lambda>" in heard
    assert not {"_record", "append", "wrap"} & set(heard)


def _ask(clock: Callable[[], float] | None) -> float:
    return clock() if clock is not None else 0.0


def test_other_threads_are_not_heard(way: str) -> None:
    started, done = threading.Semaphore(0), threading.Lock()
    go, wait = hidden(started.release), hidden(done.acquire)
    scale = 2.0

    def f(x: Any) -> Any:
        _ask(None)
        for call in go:
            call()
        for call in wait:
            call(True, 30)
        return x * x

    def work() -> None:
        started.acquire()
        for g in hidden(lambda: scale * time.time_ns()):
            g()
        _ask(time.time_ns)
        done.release()

    for _ in range(3):
        done.acquire(blocking=False)
        thread = threading.Thread(target=work)
        thread.start()
        assert problems(f) == []
        thread.join()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_no_hook_stays_after_an_error(way: str, error: type[BaseException]) -> None:
    def f(x: Any, fail: bool) -> Any:
        y = grad(inner, x, fail)[0]
        if fail:
            raise error("outer")
        return x * y

    def inner(x: Any, fail: bool) -> Any:
        if fail:
            raise error("inner")
        return np.sin(x)

    for i in range(4):
        for function in (f, inner):
            with pytest.raises(error, match="inner"):
                grad(function, 1.0, True)
            assert sys.getprofile() is None and type(state.unwatched) is nullcontext
        x = 1.0 + i
        assert_allclose(grad(f, x, False)[1][0], math.sin(x) + x * math.cos(x), rtol=1e-12)


# --------------------------------------------------------------------------------------------------- beside other tools


@pytest.mark.default_policy
def test_a_profile_function_keeps_running(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy.price, "of", lambda operations: 1e9)  # the function itself runs at each call
    heard: list[str] = []

    def f(x: Any) -> Any:
        return x * x

    def profile(frame: types.FrameType, event: str, arg: Any) -> None:
        heard.append(frame.f_code.co_name if event == "call" else "")

    sys.setprofile(profile)
    try:
        found = problems(f)
        values = [grad(f, 1.0 + i)[0] for i in range(4)]
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert values == [1.0, 4.0, 9.0, 16.0]
    assert found == (["a profiler is active"] if way == "profile" else [])
    assert heard.count("f") == 5


def test_a_profiler_that_the_function_sets(way: str) -> None:
    profile = lambda *event: None  # noqa: E731

    def f(x: Any) -> Any:
        sys.setprofile(profile)
        return np.sum(x * x)

    try:
        found = problems(f, np.ones(3))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    assert ("it sets a profiler of its own" in found) == (way == "profile")


@pytest.mark.default_policy
def test_cprofile_keeps_running(way: str) -> None:
    def followed(x: Any) -> Any:
        return np.sum(np.tanh(x) * x)

    profiler = cProfile.Profile()
    profiler.enable()
    try:
        values = [grad(followed, np.full(2, 1.0 + i))[0] for i in range(4)]
    finally:
        profiler.disable()
    assert_allclose(values, [followed(np.full(2, 1.0 + i)) for i in range(4)], rtol=1e-12)
    calls = {name: stat[0] for (_, _, name), stat in pstats.Stats(profiler).stats.items()}  # type: ignore[attr-defined]
    assert calls["followed"] >= 2


def test_a_debugger_keeps_running(way: str) -> None:
    lines: list[int] = []

    def f(x: Any) -> Any:
        y = x * x
        for _ in range(2):
            y = y * np.sin(x)
        return y

    def trace(frame: types.FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is not f.__code__:
            return None
        if event == "line":
            lines.append(frame.f_lineno - f.__code__.co_firstlineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = [problems(f, 1.0 + i) for i in range(3)]
        assert sys.gettrace() is trace
        f(2.0)
    finally:
        sys.settrace(before)
    assert found == [[], [], []]
    assert lines == [1, 2, 3, 2, 3, 2, 4] * 4


@needs_monitoring
def test_another_monitoring_tool_keeps_running() -> None:
    monitoring, events = sys.monitoring, sys.monitoring.events  # type: ignore[attr-defined]
    tool = TOOL_IDS[0]
    started: list[str] = []
    lines: list[int] = []
    disabled: list[str] = []

    def f(x: Any) -> Any:
        y = x * x
        return once(y)

    def once(y: Any) -> Any:
        return y + time.time_ns()

    def start(code: types.CodeType, offset: int) -> None:
        started.append(code.co_name)

    def call(code: types.CodeType, offset: int, function: Any, first: Any) -> Any:
        disabled.append(function.__name__)
        return monitoring.DISABLE

    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, events.PY_START, start)
        monitoring.register_callback(tool, events.LINE, lambda code, line: lines.append(line))
        monitoring.register_callback(tool, events.CALL, call)
        monitoring.set_events(tool, events.PY_START)
        monitoring.set_local_events(tool, f.__code__, events.LINE)
        monitoring.set_local_events(tool, once.__code__, events.CALL)
        for i in range(4):
            assert any("it calls time" in p for p in problems(f, 1.0 + i))
        assert monitoring.get_tool(tool) == "test" and monitoring.get_tool(TOOL_IDS[1]) is None
        assert monitoring.get_events(tool) == events.PY_START
        assert monitoring.get_local_events(tool, f.__code__) == events.LINE
        assert monitoring.get_local_events(TOOL_IDS[1], f.__code__) == 0
        assert monitoring.get_local_events(TOOL_IDS[1], once.__code__) == 0
        f(3.0)
    finally:
        monitoring.set_events(tool, 0)
        monitoring.set_local_events(tool, f.__code__, 0)
        monitoring.set_local_events(tool, once.__code__, 0)
        for event in (events.PY_START, events.LINE, events.CALL):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
    assert started.count("f") == started.count("once") == 5
    first = f.__code__.co_firstlineno
    assert lines == [first + 1, first + 2] * 5
    assert disabled == ["time_ns"]


@needs_monitoring
def test_without_a_free_tool_id() -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    for tool in TOOL_IDS:
        monitoring.use_tool_id(tool, "test")
    try:
        assert problems(lambda x: x * x) == []
        assert any("it calls time" in p for p in problems(lambda x: x * time.time_ns()))
        assert [monitoring.get_tool(tool) for tool in TOOL_IDS] == ["test"] * len(TOOL_IDS)
    finally:
        for tool in TOOL_IDS:
            monitoring.free_tool_id(tool)


@needs_monitoring
def test_no_callback_stays() -> None:
    monitoring, events = sys.monitoring, sys.monitoring.events  # type: ignore[attr-defined]
    problems(_scaled)
    tool = TOOL_IDS[0]
    monitoring.use_tool_id(tool, "test")
    try:
        assert monitoring.get_events(tool) == 0
        for event in (events.PY_START, events.PY_RESUME, events.PY_THROW, events.CALL):
            assert monitoring.register_callback(tool, event, None) is None
    finally:
        monitoring.free_tool_id(tool)


# ------------------------------------------------------------------------------------------------- names of all kinds


def test_arrays_made_by_a_local_name(way: str) -> None:
    def f(x: Any) -> Any:
        ones = np.ones
        return x @ (x + ones(3)) + sum([x @ ones(3) for ones in [np.ones, np.ones]])

    x = np.arange(3.0)
    assert problems(f, x) == []
    for i in range(4):
        value, (g,) = grad(f, x + i)
        assert_allclose(value, f(x + i), rtol=1e-12)
        assert_allclose(g, 2 * (x + i) + 3, rtol=1e-12)


def test_names_in_the_body_of_a_class(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        class Local:
            values = [_SCALE * i for i in range(3)]  # noqa: RUF012
            one = _SCALE

        return x * sum(Local.values) + x * Local.one

    for scale in (3.0, 5.0):
        monkeypatch.setattr(sys.modules[__name__], "_SCALE", scale)
        for i in range(4):
            assert grad(f, 1.0 + i) == (4 * scale * (1.0 + i), (4 * scale,))


@needs_monitoring
def test_names_in_a_lazy_type(way: str) -> None:
    namespace: dict[str, Any] = {"scale": 3.0}
    exec("def f(x):\n class Local:\n  type Value = scale\n return x * Local.Value.__value__", namespace)
    f = namespace["f"]
    for scale in (3.0, 5.0):
        namespace["scale"] = scale
        for i in range(4):
            assert grad(f, 1.0 + i) == (scale * (1.0 + i), (scale,))


# ------------------------------------------------------------------------------------------------------------- printing


def test_a_printed_value(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        y = x * x
        print(y)
        print("y =", y, [y], sep=" ", end="!\n")
        return y

    for i in range(4):
        x = 1.0 + i
        assert grad(f, x) == (x * x, (2 * x,))
        assert capsys.readouterr().out == f"{x * x}\ny = {x * x} [{x * x}]!\n"


def test_a_printed_array(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(x, x[0], x.shape)
        return x @ x

    for i in range(4):
        grad(f, np.array([1.0, 2.0 + i]))
        assert capsys.readouterr().out == f"[1. {2 + i}.] 1.0 (2,)\n"


def test_a_text_of_a_value_stays_a_decision(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(str(x), f"{x}", repr(x), format(x, ".1f"))
        return x * x

    assert [p.partition(": ")[2][:25] for p in problems(f)] == ["it prints a text that is m"[:25]]
    assert capsys.readouterr().out == "2.0 2.0 2.0 2.0\n"
    assert decisions(f) == ["2.0"] * 3  # of the f-string, print makes another one at each call


def test_printing_is_no_decision(way: str) -> None:
    def f(x: Any) -> Any:
        print(x)
        return x * x

    assert decisions(f) == []
    assert problems(f) == []


def test_another_print_that_decides(way: str) -> None:
    def f(x: Any) -> Any:
        print = str
        return x if print(x).startswith("2.0") else x * x

    for x in (2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 2.0):
        assert grad(f, x)[0] == (x if x == 2.0 else x * x)


def test_every_call_prints(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("text")
        return inner(x)

    def inner(x: Any) -> Any:
        print("inner", file=sys.stdout)
        return x * x

    for i in range(4):
        x = 1.0 + i
        assert grad(f, x) == (x * x, (2 * x,))
        assert grad(inner, x) == (x * x, (2 * x,))
        assert capsys.readouterr().out == "text\ninner\ninner\n"


def test_asking_for_input(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = hidden(input)

    def f(x: Any) -> Any:
        for ask in place:
            x = x * float(ask())
        return x

    for answer in ("2", "3", "5", "7"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer + "\n"))
        assert grad(f, 3.0) == (3.0 * float(answer), (float(answer),))
