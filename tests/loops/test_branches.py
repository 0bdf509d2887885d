"""Loops whose turns decide otherwise: one program for all paths, wherever that is certain to be right."""

# ruff: noqa: SIM108 - branches are what this is about

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import compare
from sets import examples

from yota_py import config, explain, value_and_grad

Function = Callable[..., Any]
N = 48


def random_call(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return rng.normal(size=2), rng.normal(size=N), rng.normal(size=N)


def agree(f: Function, make: Callable[..., Any] = random_call, times: int = 7) -> list[Any]:
    """Compare calls that take other branches with what is interpreted; the programs."""
    rng = np.random.default_rng(0)
    return compare(f, (make(rng) for _ in range(times)))


# ------------------------------------------------------------------------------------------------ one for all paths


def two_ifs(p: Any, x: Any, y: Any) -> Any:
    s, m = p[0] * 0, p[1]
    for i in range(len(x)):
        if x[i] > s:
            s = s + p[0] * x[i]
        else:
            s = 0.9 * s
        if y[i] * s > 0:
            m = m + np.sin(y[i]) * s
        else:
            m = m * 0.5
    return m * s


def assigning(p: Any, x: Any, y: Any) -> Any:
    e = np.zeros(len(x))
    for i in range(len(x)):
        r = y[i] - p[0] * x[i]
        if np.abs(r) < p[1] ** 2:
            e[i] = r * r
        else:
            e[i] = 2 * np.abs(r) - 1
    return np.sum(e)


def going_on(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 0.1
    for i in range(len(x)):
        if x[i] < 0:
            continue
        s = s * 0.9 + p[1] * x[i]
    return s


def over_rows(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 0.1
    for a, b in zip(x, y, strict=True):
        if a > b:
            s = s * 0.9 + a
        else:
            s = s - b * p[1]
    return s


def of_vectors(p: Any, x: Any, y: Any) -> Any:
    v = p * 1.0
    for i in range(len(x)):
        if v[0] > v[1]:
            v = v * 0.9 + x[i] * np.array([0.1, 1.0])
        else:
            v = v[::-1] * 0.8 + y[i]
    return v @ v


def at_positions_beside(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 0.1
    for i in range(1, len(x) - 1):
        s = s * 0.5 + y[i - 1] * x[i + 1] if x[i] > 0.2 else s * 0.9 + x[i] * p[1] + y[0]
    return s


def naming_in_a_branch(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 0.1
    for i in range(len(x)):
        if x[i] > 0.5:
            twice = x[i] * 2
            s = s + twice
        else:
            s = s * 0.9
    return s


def without_a_value_elsewhere(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 1.0
    for i in range(len(x)):
        r = x[i] * p[0]
        if r > 0:
            s = s + np.sqrt(r) + np.log(r) + np.hypot(r, 0) + np.arctan2(r, y[i]) + r**0.3
        else:
            s = s + np.exp(r) / (1 - np.exp(r - 0.1)) * p[1] + np.logaddexp(r, s * 0.01)
    return s


def of_the_greatest(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 1.0
    for i in range(len(x)):
        s = max(s * 0.95, x[i] * p[1])
    return s


def of_a_function(p: Any, x: Any, y: Any) -> Any:
    def g(a: Any, b: Any) -> Any:
        return a * b if a > b else a - b

    s = p[0] * 1.0
    for i in range(len(x)):
        s = 0.9 * s + g(x[i], s * 0.1)
    return s


ONE = [two_ifs, assigning, going_on, over_rows, of_vectors, at_positions_beside, naming_in_a_branch,
       without_a_value_elsewhere, of_the_greatest, of_a_function]  # fmt: skip


@pytest.mark.parametrize("f", ONE)
def test_branches_are_chosen(f: Function) -> None:
    assert len(agree(f)) <= 2  # of the first path there may be one that has not seen all branches


def test_what_is_chosen_is_no_decision_of_a_program() -> None:
    gradients = value_and_grad(going_on)
    gradients(*random_call(np.random.default_rng(0)))
    (entry,) = explain(gradients)[0].entries
    assert entry.decisions == ()


def test_a_chosen_branch_is_in_a_loop() -> None:
    (program,) = agree(two_ifs)
    assert len(program.tape) < 60


def three(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 0.1
    for i in range(len(x)):
        r = x[i] - p[1] * s
        if r > 0.7:
            s = s + np.log(r)
        elif r < -0.7:
            s = s - np.sqrt(-r) * p[0]
        else:
            s = s * 0.9 + r**2
    return s


def rarely(p: Any, x: Any, y: Any) -> Any:
    s, t = p[0] * 0.1, p[1] * 0.5
    for i in range(len(x)):
        if x[i] > 2.0:
            t = s * 0.5
        elif x[i] < -2.0:
            s = t
        else:
            s = s * 0.9 + x[i] * p[1]
    return s + t


@pytest.mark.parametrize("f", [three, rarely])
def test_branches_that_a_call_has_not_taken_stay_decisions(f: Function) -> None:
    assert len(agree(f, times=10)) <= 8


def decided_behind(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 0.1
    for i in range(len(x)):
        s = s * 0.9 + x[i] if x[i] > 0 else s - x[i] * p[1]
        if s > 30 * p[1] ** 2 + 3:
            break
    return s * 2 if s > 2 else -s * 3


def test_decisions_behind_the_loop() -> None:
    agree(decided_behind, times=8)


# ------------------------------------------------------------------------------------------------ ends of their own


def accepting_steps(p: Any, start: Any) -> Any:
    t, y, v, h = p[0] * 0.0, start[0] * 1.0, start[1] * 1.0, p[1] * 0.0 + 0.3
    while t < 3.0:
        k1, l1 = v, -p[0] * y
        k2, l2 = v + h * l1, -p[0] * (y + h * k1)
        error = np.abs(h * (k2 - k1)) + np.abs(h * (l2 - l1))
        if error < 0.02:
            t, y, v, h = t + h, y + 0.5 * h * (k1 + k2), v + 0.5 * h * (l1 + l2), h * 1.3
        else:
            h = h * 0.5
    return y * y + v * p[1]


def test_an_integrator_that_rejects_steps_is_one_program() -> None:
    made = agree(accepting_steps, lambda rng: (np.abs(rng.normal(size=2)) + 0.5, rng.normal(size=2)))
    assert len(made) == 1
    assert len(made[0].tape) < 80


def leaving(p: Any, start: Any) -> Any:
    x = start[0] * 1.0
    s = x * 0
    while True:
        x = x * 0.9 if x > 0 else x * 0.8
        s = s + x * p[0]
        if np.abs(x) < 0.01:
            break
        x = -x + 0.001
    return s


def damped(p: Any, start: Any) -> Any:
    x = start[0] * 1.0
    f = x * x * x - p[0]
    while np.abs(f) > 1e-9:
        step = f / (3 * x * x + 1e-3)
        if np.abs(step) > 0.3:
            x = x - 0.3 * np.sign(step)
        else:
            x = x - step
        f = x * x * x - p[0]
    return x


@pytest.mark.parametrize("f", [leaving, damped])
def test_a_condition_ends_turns_that_decide_otherwise(f: Function) -> None:
    made = agree(f, lambda rng: (np.abs(rng.normal(size=1)) * 5 + 3, np.abs(rng.normal(size=1)) + 8))
    assert len(made) <= 3


# -------------------------------------------------------------------------------------- what nobody may tell as one


def flagging(p: Any, x: Any, y: Any) -> Any:
    s, seen = p[0] * 0.1, False
    for i in range(len(x)):
        if x[i] > 1.8:
            seen = True
            s = s + x[i]
        else:
            s = s * 0.9 + x[i] * p[1]
    return s * 2 if seen else -s


def flagging_in_a_dict(p: Any, x: Any, y: Any) -> Any:
    s, seen = p[0] * 0.1, {"it": 0}
    for i in range(len(x)):
        if x[i] > 1.8:
            seen["it"] = 1
            s = s + x[i]
        else:
            s = s * 0.9 + x[i] * p[1]
    return s * 2 if seen["it"] else -s


def flagging_in_a_set(p: Any, x: Any, y: Any) -> Any:
    s, seen = p[0] * 0.1, set()
    for i in range(len(x)):
        if x[i] > 1.8:
            seen.add(1)
            s = s + x[i]
        else:
            s = s * 0.9 + x[i] * p[1]
    return s * 2 if seen else -s


def flagging_in_a_cell(p: Any, x: Any, y: Any) -> Any:
    seen = False

    def note() -> None:
        nonlocal seen
        seen = True

    s = p[0] * 0.1
    for i in range(len(x)):
        if x[i] > 1.8:
            note()
            s = s + x[i]
        else:
            s = s * 0.9 + x[i] * p[1]
    return s * 2 if seen else -s


def comparing_identities(p: Any, x: Any, y: Any) -> Any:
    b = z = p[0] * 0.1
    n = b * 0
    for i in range(len(x)):
        if x[i] > 1.0:
            b = z * 0.9 + x[i]
        else:
            z = z * 0.9 + x[i] * p[1]
        if b is z:
            n = n + 1
    return b + z * n


def counting(p: Any, x: Any, y: Any) -> Any:
    s, n = p[0] * 1.0, 0
    for i in range(len(x)):
        if x[i] > 0:
            n += 1
            s = s + x[i]
    return s * n


_ORDER = [3, 1, 2, 0] * N


def in_an_order(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 0.1
    for i in range(len(x)):
        s = s + y[_ORDER[i]] if x[i] > 0.5 else s * 0.9 + x[i] * p[1]
    return s


def alternating(p: Any, x: Any, y: Any) -> Any:
    s = p[0] * 0.1
    for i in range(len(x)):
        s = s * (0.5 if i % 2 else 0.7) + y[i] if x[i] > 0.5 else s * 0.9 + x[i] * p[1]
    return s


def of_products(p: Any, x: Any, y: Any) -> Any:
    v, a = p * 1.0, np.array([[0.9, 0.1], [-0.1, 0.8]])
    for i in range(len(x)):
        v = a @ v + x[i] if x[i] > 0 else np.tanh(v) * y[i]
    return v @ v


def beginning_anew(p: Any, x: Any, y: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s = 0.0 if x[i] * p[0] > 0 else s + p[1] * x[i]
    return s + p[0]


def settling(p: Any, x: Any, y: Any) -> Any:
    s, seen = p[0] * 0.1, {}
    for i in range(len(x)):
        s = s * 0.9 + x[i] if x[i] > 0 else s * 0.9 - x[i] * (1.0 if seen else 10.0)
        other = seen
        other |= {1: 1}
    return s


def settling_in_a_default(p: Any, x: Any, y: Any) -> Any:
    def step(s: Any, x: Any, seen: Any = []) -> Any:  # noqa: B006 - it keeps what it has seen
        s = s * 0.9 + x if x > 0 else s * 0.9 - x * (1.0 if seen else 10.0)
        if not seen:
            seen += [1]
        return s

    s = p[0] * 0.1
    for i in range(len(x)):
        s = step(s, x[i])
    return s


def taking_what_was_there(p: Any, x: Any, y: Any) -> Any:
    first, best = p[0] + 1.5, p[1] * 1.0
    for i in range(len(x)):
        best = x[i] * 2.0 if x[i] > 0 else first
    return best


def swapping(p: Any, x: Any, y: Any) -> Any:
    a, b = p[0] * 1.5, p[1] * 2.5
    for i in range(len(x)):
        if x[i] > 0:
            a, b = b, a
    return a


def giving_what_was_there(p: Any, x: Any, y: Any) -> Any:
    first, s, before = p[0] * 1.5, np.zeros(N), p[1] * 1.0
    for i in range(N):
        s[i] = first if x[i] > 0 else x[i] * 2.0
        before = first if x[i] > 0 else x[i] * 1.0
    return np.sum(s**2) + first * 7 + before * s[N - 1]


def reading_what_was_assigned(p: Any, x: Any, y: Any) -> Any:
    s, before = np.zeros(N), p[0] * 1.0
    s[0] = p[0] * 1.0
    for i in range(1, N):
        if x[i] > 0:
            new = s[i - 1] * 0.9 + x[i]
            s[i] = new
            before = new
        else:
            s[i] = x[i] * 2.0
            before = x[i] * 3.0
    return before + np.sum(s)


@pytest.mark.parametrize("f", [
    settling, settling_in_a_default, taking_what_was_there, swapping, giving_what_was_there, reading_what_was_assigned,
    flagging, flagging_in_a_dict, flagging_in_a_set, flagging_in_a_cell, comparing_identities, counting, in_an_order,
    alternating, of_products, beginning_anew,
])  # fmt: skip
def test_what_else_a_turn_does_is_not_forgotten(f: Function) -> None:
    agree(f, times=4)


@pytest.mark.parametrize(("f", "signs"), [
    (reading_what_was_assigned, [np.arange(N) < N // 2, np.arange(N) % 3 > 0, np.arange(N) % 2 > 0]),
    (taking_what_was_there, [np.arange(N) % 2 > 0, np.arange(N) % 2 == 0]),
    (swapping, [np.arange(N) % 3 > 0, np.arange(N) % 2 > 0]), (settling, [np.arange(N) % 2 == 0, np.arange(N) % 2 > 0]),
    (settling_in_a_default, [np.arange(N) % 2 == 0, np.arange(N) % 2 > 0]),
])  # fmt: skip
def test_what_was_the_same_by_chance(f: Function, signs: list[np.ndarray]) -> None:
    """In the first call, variables have the same value wherever it matters."""
    calls = iter([(np.array([0.3, 0.7]), np.where(sign, 1, -1) * np.linspace(1, 2, N), np.ones(N)) for sign in signs])
    agree(f, lambda rng: next(calls), times=len(signs))


def leverage(p: Any, x: Any, y: Any) -> Any:
    s = np.zeros(N)
    s[0] = p[0] ** 2 + 1
    for t in range(1, N):
        if x[t - 1] > 0:
            s[t] = 0.1 + 0.2 * x[t - 1] ** 2 + 0.5 * s[t - 1]
        else:
            s[t] = 0.1 + p[1] ** 2 * x[t - 1] ** 2 + 0.4 * s[t - 1]
    return np.sum(np.log(s) + x**2 / s)


def test_elements_that_turns_have_assigned() -> None:
    assert len(agree(leverage)) == 1


def swapping_until(p: Any, start: Any) -> Any:
    a, b, x = p[0] * 1.0, p[1] * 2.0, start * 1.0
    while x > 0.1:
        if np.sin(17 * x) > 0:
            a, b = b, a
        x = x * 0.95
    return a


def test_values_from_before_a_loop_with_an_end_of_its_own() -> None:
    agree(swapping_until, lambda rng: (rng.normal(size=2), float(rng.uniform(5, 30))))


def test_loops_that_are_not_to_be_rolled_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "roll", False)
    assert len(agree(going_on, times=3)) == 3


# ------------------------------------------------------------------------------------------------ random programs

_CONDITIONS = ["a > {}", "b < a + {}", "x[i] > {}", "a * y[i] > {}", "np.abs(b) > {}", "x[i] > {} and b > 0"]
_STATEMENTS = [
    "a = 0.7 * a + x[i]", "b = b + 0.1 * a", "a, b = b, a", "a = np.sin(b) + p[0]", "b = 0.5 * b - y[i] * p[1]",
    "c = a", "b = np.sqrt(np.abs(c)) * 0.3", "a = a * 0.9", "c = c * 0.8 + x[i]", "b = max(a, b) * 0.5", "a = y[i - 1]",
]  # fmt: skip


_OF_TURNS = {"x[i]": "np.sin(7 * u)", "y[i - 1]": "np.cos(3 * u)", "y[i]": "np.cos(5 * u)"}  # where none is counted


@st.composite
def texts(draw: st.DrawFn) -> str:
    """The text of a function with a loop in which there are branches."""
    body = []
    for _ in range(draw(st.integers(1, 3))):
        condition = draw(st.sampled_from(_CONDITIONS)).format(draw(st.sampled_from([-0.3, 0.0, 0.4])))
        body += [f"if {condition}:"]
        body += [f"    {s}" for s in draw(st.lists(st.sampled_from(_STATEMENTS), min_size=1, max_size=3))]
        other = ["else:", f"    {draw(st.sampled_from(_STATEMENTS))}"]
        body += draw(st.sampled_from([[], [], ["    continue"], other]))
        body += draw(st.lists(st.sampled_from(_STATEMENTS), max_size=2))
    body += [*draw(st.sampled_from([[], [], ["if c > 3:", "    break"]])), "a = np.tanh(a)"]
    begin, head = ["a, b, c = p[0] * 1.0, p[1] * 1.0, p[0] * p[1]"], "for i in range(1, len(x)):"
    if draw(st.booleans()):
        begin, head, body = [*begin, "u = p[0] * 0 + 3"], "while u > 0.2:", ["a = np.tanh(a)", "u = u * 0.93", *body]
        for before, after in _OF_TURNS.items():
            body = [line.replace(before, after) for line in body]
    lines = [*begin, head, *(f"    {line}" for line in body), "return a + b * c"]
    return "\n".join(["def f(p, x, y):", *(f"    {line}" for line in lines)])


@given(texts())
@settings(max_examples=examples(4, share=10), deadline=None)
def test_random_loops(text: str) -> None:
    space: dict[str, Any] = {"np": np}
    exec(text, space)
    agree(space["f"], times=5)
