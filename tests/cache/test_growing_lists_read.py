"""Steps that append to a list or deque outside and also read it, in each way there is: not wrong, whether compiled or
not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest
from steps import runs_as_plain


def points(i: int) -> tuple[Any, ...]:
    return (np.arange(3.0) + 0.25 * i,)


READS: dict[str, Callable[[list[Any]], Any]] = {
    "length": lambda history: len(history),
    "index": lambda history: history[-1],
    "slice": lambda history: sum(history[-2:]),
    "iteration": lambda history: [value * 2.0 for value in history][-1],
    "containment": lambda history: 5.0 if 1.0 in history else 2.0,
    "truth": lambda history: 2.0 if history else 1.0,
    "equality": lambda history: 2.0 if history == [1.0, 2.0] else 1.0,
    "array": lambda history: np.mean(np.array(history)),
    "function": lambda history: np.mean(history),
    "sum": lambda history: sum(history),
    "text": lambda history: len(f"{history}"),
    "sum of lists": lambda history: len(history + [2.0]) + len(np.ones(1).tolist() + history),  # noqa: RUF005
    "copy": lambda history: history.copy()[0],
    "pop": lambda history: history.pop(0),
    "insertion": lambda history: history.insert(0, 0.5) or 1.0,
    "type": lambda history: 2.0 if type(history) is list else 1.0,
    "instance": lambda history: 2.0 if isinstance(history, list) else 1.0,
    "identity": lambda history: 2.0 if id(history) else 1.0,
    "arguments": lambda history: max(*history),
    "star": lambda history: [*history][1],
    "sorted": lambda history: sorted(history)[0],
    "zip": lambda history: [a * b for a, b in zip(history, history, strict=True)][-1],
    "item": lambda history: history.__setitem__(0, 4.0) or 1.0,
    "arithmetic": lambda history: np.ones(1) * history[:1] + np.array(history[:1]),
    "containers": lambda history: len(optree.tree_leaves({"history": history})),
    "pattern": lambda history: pattern(history),
    "failure": lambda history: failure(history),
}


def pattern(history: Any) -> float:
    match history:
        case [_, _, *rest]:
            return 1.0 + len(rest)
        case _:
            return 0.5


def failure(history: Any) -> float:
    try:
        return history.no_attribute
    except AttributeError as error:
        return float(len(str(error)))


@pytest.mark.parametrize("how", READS)
def test_lists_that_are_read(how: str) -> None:
    def make() -> Any:
        history: list[Any] = [1.0, 2.0]

        def step(x: Any) -> Any:
            history.append(np.sum(x))
            return x * READS[how](history)

        return step, points, lambda: history

    runs_as_plain(make, 9)


def test_deques_that_are_read() -> None:
    def make() -> Any:
        buffer: deque[Any] = deque([1.0], maxlen=3)

        def step(x: Any) -> Any:
            buffer.append(np.sum(x))
            return x * sum(buffer) + len(buffer)

        return step, points, lambda: [*buffer]

    runs_as_plain(make, 9)
