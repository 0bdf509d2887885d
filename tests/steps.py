"""What tests of compiled steps share: a step with state beside the plain function with its own, call by call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from performing import assert_same, sharing

from yota_py import explain, jit

# Makes a function, its arguments at each call, and what shows its state; all of it anew at each time.
Make = Callable[[], tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], Callable[[], Any]]]


def outcome(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result, or the exception in words."""
    try:
        return f(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def runs_as_plain(make: Make, calls: int = 8, *, compiled: int | None = None) -> None:
    """Results and state are those of the plain function after each call; so many calls at least ran compiled code."""
    plain, its_args, its_state = make()
    f, args, state = make()
    step = jit(f)
    for i in range(calls):
        want, have = outcome(plain, its_args(i)), outcome(step, args(i))
        assert_same(have, want)
        assert_same(state(), its_state())
        assert sharing((have, state())) == sharing((want, its_state())), f"call {i}"
    if compiled is not None:
        told = explain(step)
        assert sum(entry.calls for entry in told) >= compiled, str(told)
