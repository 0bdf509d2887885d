"""An exception between any two bytecodes leaves nothing behind: no traced values, no stand-ins, no locks; and what
comes after it is as in plain Python."""

from __future__ import annotations

import gc
import math
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from interrupts import CALLS, GRAD, JIT, Interrupter, LateError, bytecodes, play, x_of
from numpy.testing import assert_allclose
from sets import examples

from yota_py import config
from yota_py.base import locks
from yota_py.base.unwinding import Holding, Passing, state, unwinding
from yota_py.cache.functions import clear_caches
from yota_py.capture.recording import record_watched
from yota_py.capture.walk import Captures

ROUNDS = examples(40) // 8  # of each kind


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    """Objects of other modules' tests are not looked into."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.filterwarnings("ignore:.*because its compilation has failed with LateError")
@pytest.mark.parametrize("error", [KeyboardInterrupt, LateError])
@pytest.mark.parametrize("changing", [False, True], ids=["anywhere", "changing"])
@pytest.mark.parametrize("name", [*JIT, *GRAD])
def test_interrupted(name: str, changing: bool, error: type[BaseException]) -> None:
    kind = (JIT | GRAD)[name]
    config.audit = "always" if changing and error is KeyboardInterrupt else "off"  # others may be the function's own
    bytecodes(kind, changing=changing)  # what is loaded once is loaded now
    counts = bytecodes(kind, changing=changing)
    for k in range(ROUNDS):
        number, share = k % CALLS, (k // CALLS + 0.5) / -(-ROUNDS // CALLS)
        play(kind, number, Interrupter(int(counts[number] * share) + k % 7, error, changing=changing))


class Listener(Interrupter):
    """Raises an exception before or after the n-th time that a trace hears of a call, where no bytecodes are seen."""

    def __init__(self, at: int = 0, error: type[BaseException] = KeyboardInterrupt, *, after: bool = False) -> None:
        super().__init__(at, error)
        self._after, self._enter = after, Captures.enter

    def __enter__(self) -> None:
        enter = self._enter

        def heard(captures: Captures, frame: types.FrameType) -> None:
            self.seen += 1
            if self._after:
                enter(captures, frame)
            if self.seen == self.at:
                self.where = f"call of {frame.f_code.co_name}"
                raise self.error
            if not self._after:
                enter(captures, frame)

        Captures.enter = heard  # type: ignore[method-assign]

    def __exit__(self, *error: object) -> None:
        Captures.enter = self._enter  # type: ignore[method-assign]


@pytest.mark.filterwarnings("ignore:.*because its compilation has failed with LateError")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", [*JIT, *GRAD])
def test_interrupted_when_a_call_is_heard_of(name: str, after: bool) -> None:
    kind = (JIT | GRAD)[name]
    bytecodes(kind, changing=True)
    clear_caches()
    listener = Listener()
    with listener:
        kind.world().call(x_of(0))
    for k in range(ROUNDS):
        error = LateError if k % 2 else KeyboardInterrupt
        play(kind, 0, Listener(1 + listener.seen * k // ROUNDS, error, after=after))


class Change(Passing):
    """Is interrupted several times while it is made, or changed back."""

    def __init__(self, log: list[int], number: int, interrupts: int, *, at_begin: bool = False) -> None:
        self.log, self.number, self.interrupts, self.at_begin = log, number, interrupts, at_begin

    def begin(self) -> None:
        self.log.append(self.number)
        if self.at_begin:
            raise KeyboardInterrupt

    def end(self) -> None:
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        if self.number in self.log:
            self.log.remove(self.number)


@pytest.mark.parametrize("at_begin", [False, True])
@pytest.mark.parametrize("interrupts", [0, 1, 2, 5])
def test_changes_end_however_often_they_are_interrupted(interrupts: int, at_begin: bool) -> None:
    log: list[int] = []
    lock = locks.compiling

    @unwinding
    def change() -> None:
        with Change(log, 1, interrupts), Holding(lock), Change(log, 2, interrupts, at_begin=at_begin):
            assert log == [1, 2] and lock._is_owned()
            with Change(log, 3, interrupts):
                raise ValueError("in the block")

    for _ in range(2):
        with pytest.raises((ValueError, KeyboardInterrupt)):
            change()
        assert log == [] and not state.changes and not lock._is_owned()


def test_an_exception_that_is_caught_within_at_the_end_of_a_block() -> None:
    """Nothing tells whether the block has ended."""

    @unwinding
    def caught() -> str:
        with suppress(ValueError):
            state.suspended += 1
            raise ValueError
        return "done"

    assert caught() == "done" and state.suspended == 0


def test_who_holds_a_lock_keeps_it() -> None:
    @unwinding
    def inner() -> None:
        with Holding(locks.tracing, 0.0) as held:
            assert held
            raise KeyboardInterrupt

    @unwinding
    def outer() -> None:
        with Holding(locks.tracing):
            with pytest.raises(KeyboardInterrupt):
                inner()
            assert locks.held() == [locks.tracing]

    outer()
    assert locks.held() == []


def test_an_interrupt_that_the_function_catches_is_a_reason_not_to_compile() -> None:
    """Nobody knows what it has missed."""
    w, again = np.ones(3), [True]
    names: dict[str, Any] = {"__name__": "yota_py.disturbing", "state": state}
    # As if it had come at the end of a block of the library's.
    text = "def disturb():\n state.suspended += 1\n raise KeyboardInterrupt"
    exec(compile(text, unwinding.__code__.co_filename, "exec"), names)
    disturb = names["disturb"]

    def f(x: Any) -> Any:
        try:
            y = np.sin(x * w)
            if again[0]:
                disturb()
        except KeyboardInterrupt:
            y = np.cos(x)
        return np.sum(y * math.exp(0.5))

    for i in range(4):
        again[0] = i % 2 == 0
        trace, captures = record_watched(f, (x_of(i),), {}, lambda argnum: True)
        assert state.suspended == 0
        assert ("an exception has interrupted it" in captures.problems) == (i % 2 == 0)
        y = np.cos(x_of(i)) if i % 2 == 0 else np.sin(x_of(i))
        assert_allclose(trace.tape.play(x_of(i)), np.sum(y * math.exp(0.5)), rtol=1e-12)
