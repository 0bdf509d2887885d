"""Steps that append to lists outside: exceptions on the way, and audits of their programs."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from steps import runs_as_plain
from test_growing_lists import Trainer, points

from yota_py import config, explain, jit
from yota_py.cache.step import _Writer
from yota_py.errors import AuditWarning


def test_exceptions_on_the_way() -> None:
    def make() -> Any:
        model = Trainer()

        def step(x: Any) -> Any:
            model.losses.append(np.sum(x))
            if x[0] > 1.0:
                model.losses.append("too large")
                raise ValueError("too large")
            model.losses.append("fine")
            return x * 2.0

        return step, lambda i: (np.array([0.5 + (i % 4 == 3), 1.0, 2.0]),), lambda: model.losses

    runs_as_plain(make, 12, compiled=7)


def test_exceptions_while_a_list_is_extended() -> None:
    def make() -> Any:
        model = Trainer()

        def values(x: Any) -> Any:
            yield x[0]
            if x[0] > 1.0:
                raise ValueError("no more")
            yield x[1]

        def step(x: Any) -> Any:
            try:
                model.losses.extend(values(x))
            except ValueError:
                model.losses.append("stopped")
            return x * 2.0

        return step, lambda i: (np.array([0.5 + (i % 4 == 3), 1.0, 2.0]),), lambda: model.losses

    runs_as_plain(make, 12)


def test_lists_that_are_defaults() -> None:
    """What a default is bound to when the function is called is the list itself."""

    def make() -> Any:
        model = Trainer()

        def note(value: Any, log: Any = model.losses) -> None:
            log.append(value)

        def step(x: Any) -> Any:
            model.losses.append(x[0])
            note(np.sum(x))
            return x * 2.0

        return step, points, lambda: vars(model)

    runs_as_plain(make, 9)


def test_audits() -> None:
    """A program that appends is compared with the function, and one that appends something else is found out."""
    config.audit = "always"

    def make() -> Any:
        trainer = Trainer()
        trainer.kept = deque([1.0, 2.0], maxlen=4)  # type: ignore[attr-defined]

        def step(x: Any) -> Any:
            trainer.kept.extend([np.sum(x), x * 2.0])  # type: ignore[attr-defined]
            trainer.kept.appendleft(trainer.w)  # type: ignore[attr-defined]
            return trainer.step(x)

        return step, points, lambda: [[*trainer.kept], vars(trainer)]  # type: ignore[attr-defined]

    runs_as_plain(make, 10)
    assert sum(entry.audits for entry in explain(make()[0])[0].entries) == 9


@pytest.mark.parametrize("fault", ["left out", "twice", "another"])
def test_audits_of_wrong_programs(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = _Writer.body

    def body(self: Any) -> Any:
        written, stored, grown, result = right(self)
        (of, method, _), *rest = grown
        wrong = {"left out": rest, "twice": [*grown, *grown], "another": [(of, method, "1.5"), *rest]}
        return written, stored, wrong[fault], result

    trainer = Trainer()
    step = jit(trainer.step)
    with monkeypatch.context() as patch:
        patch.setattr(_Writer, "body", body)
        step(*points(0))
    config.audit = "always"
    with pytest.warns(AuditWarning, match="losses"):
        step(*points(1))
    assert len(trainer.losses) == len(trainer.log["loss"]) == 2
