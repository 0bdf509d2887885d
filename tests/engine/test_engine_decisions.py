"""Programs that meet another decision than on their path say which, and what they met."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ways import CALLS, compiled, evaluate

import yota_py
from yota_py import jit
from yota_py.base.refusal import Decision, OutOfBounds, Refusal
from yota_py.base.types import typeof
from yota_py.engine.compile import compile_tape
from yota_py.tape.operations import Call, Guard, Input
from yota_py.tape.tape import Tape
from yota_py.tape.verify import verify

# ----------------------------------------------------------------------------------- decisions that differ


def _decide(x: Any, bound: Any) -> Any:
    """Three decisions, the later ones sooner to be checked than the first."""
    y = x * np.cosh(bound)  # a kernel of numbers, before that of arrays
    if np.sum(np.sin(x) ** 2) > bound:
        y = y + 1
    if x[0] > bound:
        y = y * 3
    if bound > 0:
        y = y - x
    return y


def test_the_first_decision_that_differs_is_named() -> None:
    """Each of the eight ways through it against the program of each other."""
    calls = [(np.array([a, b]), c) for a in (-1.5, 1.5) for b in (0.0, 1.0) for c in (-2.0, -0.5, 0.5, 1.9)]
    numbers = set()
    for first in calls[::3]:
        ways, seeds = compiled(_decide, *first)
        for args in calls * CALLS:
            refusal = ways.program(*args, *seeds)
            if evaluate(ways, [*args, *seeds]):
                assert not isinstance(refusal, Refusal)
            else:
                numbers.add(refusal.number)
        assert len(numbers) >= 2, "too few ways to differ"


def test_guards_are_numbered_in_the_order_of_the_function() -> None:
    def f(x: Any, k: Any) -> Any:
        if x[k[0]] > 0 and x[k[1]] > 0:
            return np.sum(x[k]) if np.all(x < 3) else x[0]
        return x[1]

    ways, seeds = compiled(f, np.ones(3), np.array([0, 1]))
    numbers = [op.number for op in ways.gradient.ops if isinstance(op, Guard)]
    assert numbers == [0, 1, 2]
    assert [op.number for op in ways.lowered.ops if isinstance(op, Guard)] == numbers
    for _ in range(CALLS):
        for x, number in (([1.0, -1, 9], 1), ([-1.0, -1, 9], 0), ([1.0, 1, 9], 2)):
            refusal = ways.program(np.array(x), np.array([0, 1]), *seeds)
            assert (refusal.number, refusal.value) == (number, False)


def test_decisions_of_rules_have_no_number() -> None:
    """What a rule asks about its arguments, between two decisions of the function."""
    @yota_py.primitive
    def halved(x: Any) -> Any:
        return x / 2

    @yota_py.rrule(halved)
    def _rule(x: Any) -> Any:
        return (np.divide(x, 2), lambda dy: (dy / 2,)) if x > 0 else (x * 0.5, lambda dy: (dy * 0.5,))

    def f(x: Any) -> Any:
        y = x if x < 9 else 2 * x
        z = halved(y)
        return z if z < 2 else 3 * z

    ways, seeds = compiled(f, 1.0)
    assert [op.number for op in ways.lowered.ops if isinstance(op, Guard)] == [0, -1, 1]
    for x, number in ((10.0, 0), (-1.0, -1), (5.0, 1)):
        for _ in range(CALLS):
            refusal = ways.program(*ways.fit([x, *seeds]))
            assert isinstance(refusal, Decision) and refusal.number == number
            assert evaluate(ways, ways.fit([abs(x) / 11, *seeds]))


@pytest.mark.parametrize("value", [True, 3, 2.5, np.bool_(False), np.int32(-7), np.int64(2**40), np.float32(0.1),
                                   np.float64(-0.0)])  # fmt: skip
def test_the_value_of_a_decision_keeps_its_type(value: Any) -> None:
    other = type(value)(1) if not value else type(value)(0)
    test = float if isinstance(value, float | np.floating) else int
    tape = Tape("f")
    x = tape.append(Input("x", typeof(np.ones(3))))
    box = tape.append(Input("v", typeof(np.array([value]))))
    v = tape.append(Call(operator.getitem, (box, 0), {}, typeof(value)))
    tape.append(Guard(v, test(other), test, typeof(test(other)), number=7))
    tape.append(Guard(v, other, bool, typeof(True), number=8))
    tape.leaves = tape.results = [x]
    program = compile_tape(verify(tape), [typeof(np.ones(3))])
    for _ in range(CALLS):
        refusal = program(np.ones(3), np.array([value]))
        assert (refusal.number, refusal.value, type(refusal.value)) == (7, value, type(value))
        assert refusal.value != other and np.array_equal(program(np.ones(3), np.array([other]))[0], np.ones(3))


def test_a_decision_before_an_index_counts_more() -> None:
    """Both in either order: behind a branch that is not taken, nothing is out of bounds."""
    def inside(x: Any, k: Any) -> Any:
        y = np.sin(x[:2])
        return y * x[k] if k[0] < 5 else y

    def outside(x: Any, k: Any) -> Any:
        y = np.sin(x[:2]) * x[k]
        return y * 2 if np.sum(y) < 99 else y

    def stepwise(x: Any, k: Any) -> Any:
        y = np.sort(x, kind="heapsort")[:2]  # in Python
        return y * x[k] if np.sum(y) < 99 else y

    x, good, bad = np.arange(5.0), np.array([0, 1]), np.array([7, 1])
    for f, huge, want in ((inside, x, 0), (outside, x, -1), (stepwise, x, -1), (stepwise, 100 + x, 0)):
        ways, seeds = compiled(f, x, good)
        for _ in range(CALLS):
            refusal = ways.program(huge, bad, *seeds)
            assert isinstance(refusal, OutOfBounds) if want < 0 else refusal.number == want
            assert evaluate(ways, [x, good, *seeds])


def test_a_decision_before_a_python_step() -> None:
    """The step is not called on a path that is not meant for it."""
    seen: list[float] = []

    @yota_py.primitive
    def root(x: Any) -> Any:
        seen.append(float(x))
        return math.sqrt(x)

    @yota_py.rrule(root)
    def _rule(x: Any) -> Any:
        return root(x), lambda dy: (dy / (2 * root(x)),)

    def f(x: Any, a: Any) -> Any:
        y = root(np.sum(x)) if np.sum(x) > 0 else -np.sum(x)
        return y * 2 if a * y < 3 else y

    ways, seeds = compiled(f, np.ones(3), 0.5)
    seen.clear()
    for _ in range(CALLS):
        assert ways.program(*ways.fit([-np.ones(3), 0.5, *seeds])).number == 0 and not seen
    for _ in range(CALLS):
        assert ways.program(*ways.fit([np.ones(3), 5.0, *seeds])).number == 1 and seen
        assert evaluate(ways, ways.fit([np.full(3, 2.0), 0.25, *seeds]))


@pytest.mark.parametrize("call", [float, math.frexp, lambda x: struct.pack("d", x), lambda x: [-float(x)]])
def test_zeros_are_told_apart_by_their_signs(call: Callable[[Any], Any]) -> None:
    given, computed = jit(lambda x: call(x)), jit(lambda x: (call(x * 2), call(1 * x - 0.0)))
    for kind in (float, np.float64):
        for x in map(kind, (0.5, -0.0, 0.0, -0.0, 0.25, 0.0, -0.0)):
            assert repr(given(x)) == repr(call(x))
            assert repr(computed(x)) == repr((call(x * 2), call(1 * x - 0.0)))
