"""Conditions on traced numbers of Python's that are compared by identity: ``x is True``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from steps import outcome, runs_as_plain

from yota_py import explain, grad, jit
from yota_py.tape.tape import Tape
from yota_py.tracing.traces import Trace


def by_name(x: Any) -> Any:
    flag = x > 3.5
    if flag is True:
        return x * 2
    return x * 3 if flag is False else x * 100


def not_by_name(x: Any) -> Any:
    flag = np.sum(np.ones(2) * x).item() > 7 if isinstance(x, np.ndarray) else x * 2 > 7
    return x * 2 if flag is not False else x * 3


def the_other_way_round(x: Any) -> Any:
    return x * 2 if True is (x > 3.5) else x * 3


def two_conditions(x: Any) -> Any:
    return x * 2 if (x > 3.5) is (x > 5.5) else x * 3


def matched(x: Any) -> Any:
    match x > 3.5:
        case True:
            return x * 2
        case False:
            return x * 3
    return x


def of_whole_numbers(x: Any) -> Any:
    return x * 2 if (int(x) % 2 == 0) is True else x * 3


def returned(x: Any) -> Any:
    flag = x > 3.5
    return flag, [flag, flag is None], x * flag


def in_a_function(x: Any) -> Any:
    return chosen(x > 3.5, x)


def chosen(flag: Any, x: Any) -> Any:
    return x * 2 if flag is True else x * 3


def in_a_gradient(x: Any) -> Any:
    return grad(lambda y: y * y if (y > 3.5) is True else y, x)


FUNCTIONS = [
    by_name, not_by_name, the_other_way_round, two_conditions, matched, of_whole_numbers, returned, in_a_function,
    in_a_gradient,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_under_jit(f: Any) -> None:
    runs_as_plain(lambda: (f, lambda i: (0.5 + (i * 5) % 9,), lambda: None), 12, compiled=6)


@pytest.mark.parametrize("f", FUNCTIONS[:-1], ids=lambda f: f.__name__)
def test_under_grad(f: Any) -> None:
    def g(x: Any) -> Any:
        result = f(x)
        return result[-1] if isinstance(result, tuple) else result

    for i in range(9):
        x = 0.5 + (i * 5) % 9
        value, (slope,) = grad(g, x)
        assert (value, slope) == (g(x), g(x) / x if g(x) else 0.0)


def test_code_that_turns_up_late() -> None:
    trace = Trace(Tape("f"))
    x = trace.tracer(trace.input(4.0, "x"))
    assert (x > 3.5) is not True and not trace.problems
    trace.heed_truths()
    assert trace.problems == ["it may ask a traced condition whether it is True itself (x is True)"]
    assert (x > 3.5) is True


def test_conditions_that_nobody_compares_so_are_computed() -> None:
    f = jit(lambda x: x * (x > 3.5))
    assert [outcome(f, (0.5 + i,)) for i in range(9)] == [(0.5 + i) * (0.5 + i > 3.5) for i in range(9)]
    assert "".join(entry.decisions[0] for entry in explain(f)[0].entries if entry.decisions) == ""
