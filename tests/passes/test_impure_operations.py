"""Operations that run again at each call, in passes: they stay where they are, each by itself."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from yota_py import gradtape, trace
from yota_py.base.impure import Clock, Impure, Output
from yota_py.capture.recording import record_call
from yota_py.engine.schedule.fuse import fuse
from yota_py.engine.schedule.steps import Python
from yota_py.passes.lower import lower, lower_gradient, told_by
from yota_py.passes.pipeline import optimise
from yota_py.tape.loop import as_loop
from yota_py.tape.operations import Call
from yota_py.tape.tape import Tape
from yota_py.tape.verify import verify

pytestmark = pytest.mark.usefixtures("capsys")


def impure(tape: Tape) -> list[str]:
    return [op.fn.__name__ for op in tape.ops if isinstance(op, Call) and isinstance(op.fn, Impure)]


def loops(tape: Tape) -> int:
    return sum(as_loop(op) is not None for op in tape.ops)


def every_turn(x: Any) -> Any:
    for i in range(100):
        x = np.sin(x) * 1.5
        x = x + np.cos(x) * 0.5
        print(i, x)
    return x


def between(x: Any) -> Any:
    for _ in range(100):
        x = np.sin(x) * 1.5 + np.cos(x)
    print("between", x)
    for _ in range(100):
        x = np.sin(x) * 1.5 + np.cos(x)
    print("end", x)
    return x


def test_loops() -> None:
    tape = trace(every_turn, 1.0)
    assert loops(tape) == 0 and impure(tape) == ["print"] * 100
    tape = trace(between, 1.0)
    assert loops(tape) == 2 and impure(tape) == ["print"] * 2
    tape = gradtape(between, 1.0)
    assert impure(tape) == ["print"] * 2 and verify(tape)


def test_what_a_program_hands_out() -> None:
    def f(x: Any) -> Any:
        print("a", x, [x * 2.0, {"k": np.exp(x)}])
        return x * x

    source = record_call(f, (3.0,), {})
    assert [source[x] for x in told_by(source.tape)] == [3.0, 6.0, np.exp(3.0)]
    low = optimise(lower(source).tape, verify)
    assert impure(low) == [] and len(low.results) == 4
    gradient, low_gradient = lower_gradient(source)
    assert impure(gradient.tape) == ["print"] and len(gradient.tape.results) == 2
    assert len(optimise(low_gradient.tape, verify).results) == 5


def test_clocks_are_not_shared() -> None:
    def f(x: Any) -> Any:
        first, second = time.perf_counter(), time.perf_counter()
        y = np.sin(x)
        third, fourth = time.perf_counter(), time.perf_counter()
        return y, [first, second, third, fourth]

    source = record_call(f, (3.0,), {})
    clocks = [op.fn for op in source.tape.ops if isinstance(op, Call) and type(op.fn) is Clock]
    assert [clock.first for clock in clocks] == [True, True, False, False]
    low = optimise(lower(source).tape, verify)
    assert impure(low) == ["perf_counter"] * 2
    assert [type(step).__name__ for step in fuse(low).steps].count(Python.__name__) == 2


def test_what_is_timed_stays_between() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        start = time.perf_counter()
        z = np.cos(x)
        return y, z, start, time.perf_counter()

    low = optimise(lower(record_call(f, (np.ones(5),), {})).tape, verify)
    kinds = [type(step).__name__ for step in fuse(low).steps]
    assert kinds == ["Cluster", "Python", "Cluster", "Python"]


def test_played_again(capsys: pytest.CaptureFixture[str]) -> None:
    tape = trace(between, 1.0)
    said = capsys.readouterr().out
    tape.play(1.0)
    assert capsys.readouterr().out.split()[1] == said.split()[1]
    assert any(type(op.fn) is Output for op in tape.ops if isinstance(op, Call))
