"""Passes, scheduling and planning take time in proportion to the length of the tape: twice as long a tape, twice as
many of Python's instructions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

from yota_py.capture import bytecode
from yota_py.capture.recording import record_call
from yota_py.engine.plan.plan import make_plan
from yota_py.engine.schedule import fuse as fusion
from yota_py.engine.schedule.fuse import fuse
from yota_py.passes.lower import lower
from yota_py.passes.pipeline import PIPELINE, optimise
from yota_py.tape.tape import Tape

X = np.linspace(0.1, 1.0, 6)


def reductions(x: Any, n: int) -> Any:
    """Each needs a nest of its own."""
    for _ in range(n):
        x = x * np.tanh(np.sum(x))
    return x


def independent(x: Any, n: int) -> Any:
    """All may run in the first nest that has room."""
    return sum(np.sum(np.sin(x * float(i))) for i in range(n))


def products(x: Any, n: int) -> Any:
    """All results are alive at once."""
    x = x.reshape(2, 3)
    made = [x @ (x.T * float(i)) for i in range(n)]
    return sum(made[::-1])


def holes(x: Any, n: int) -> Any:
    """Buffers of all sizes die in another order than they are made in."""
    made = [np.cumsum(np.broadcast_to(x, (i + 1, 6))) for i in range(n)]
    return sum(np.sum(np.cumsum(y)) for y in made[::2] + made[1::2])


def views(x: Any, n: int) -> Any:
    """A view of a view of a view."""
    for _ in range(n):
        x = np.expand_dims(np.ravel(x), 0)
    return np.sin(x)


FUNCTIONS = [reductions, independent, products, holes, views]


def lowered(f: Callable[..., Any], n: int) -> Tape:
    return lower(record_call(lambda x: f(x, n), (X,), {})).tape


def instructions(run: Callable[[], Any]) -> int:
    """How many of Python's instructions are executed, when all that is kept from a first time is known."""
    count = 0

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return local

    def entered(frame: FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return local

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        run()
        count = 0
        run()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("apart", [10**6, -1])  # in loop nests, operation by operation
@pytest.mark.parametrize("f", FUNCTIONS)
def test_time_per_operation_does_not_grow(
    f: Callable[..., Any], apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusion, "APART", apart)
    short, long = lowered(f, 40), lowered(f, 120)
    steps: list[Callable[[Tape], Any]] = [*dict.fromkeys(PIPELINE), fuse, lambda tape: make_plan(fuse(tape))]
    for step in steps:
        per_operation = [instructions(lambda: step(tape)) / len(tape) for tape in (short, long)]  # noqa: B023
        assert per_operation[1] < 1.15 * per_operation[0], (step, per_operation)


@pytest.mark.parametrize("line", ["a = b * c + np.sin(a)", "a = np.maximum(a, b)", "a = hasattr(a, 'x') + c.d.e[0]",
                                  "a = b if isinstance(a, (float, int)) else c"])  # fmt: skip
def test_reading_code_does_not_grow(line: str) -> None:
    def read(lines: int) -> float:
        code = compile("def f(a, b, c):\n" + f"    {line}\n" * lines, "<user>", "exec").co_consts[0]
        return instructions(lambda: bytecode._read(code)) / lines

    assert read(900) < 1.1 * read(300)


class Line:
    def __init__(self, a: float) -> None:
        self.a = a

    def value(self, x: Any) -> Any:
        return self.a * x


def scaled(a: float) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        return np.cos(x) * a

    return f


TABLES: dict[str, Callable[[int], Any]] = {
    "functions": lambda n: [eval(f"lambda x: np.sin(x) * {i}.0", {"np": np}) for i in range(n)],
    "methods": lambda n: {i: Line(float(i)).value for i in range(n)},
    "functions within": lambda n: [scaled(float(i)) for i in range(n)],
}


@pytest.mark.parametrize("kind", TABLES)
def test_reading_what_a_function_finds_does_not_grow(kind: str) -> None:
    """Each function and object is looked at once, also if few of them are used."""
    def per_item(n: int) -> float:
        table = TABLES[kind](n)
        return instructions(lambda: record_call(lambda x: np.sum(x) if table is not None else x, (X,), {})) / n

    assert per_item(240) < 1.15 * per_item(80)


def test_a_long_chain_of_views() -> None:
    assert len(optimise(lowered(views, 1000))) > 1000
