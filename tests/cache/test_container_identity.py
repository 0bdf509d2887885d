"""Steps that know one list or dict by two names, or tell two of them apart, which changes between calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from steps import runs_as_plain


def points(i: int) -> tuple[Any, ...]:
    return (np.arange(3.0) + 0.25 * i,)


class Model:
    def __init__(self) -> None:
        self.scales = [1.0, 2.0]
        self.best: Any = self.scales
        self.losses: list[Any] = []
        self.kept = self.losses


def test_a_name_is_bound_to_what_it_holds() -> None:
    """The next call finds another list there, with the same items."""

    def make() -> Any:
        model = Model()

        def step(x: Any) -> Any:
            model.best = model.scales
            model.kept = model.losses
            model.losses.append(x[0])
            return x * model.scales[1]

        def args(i: int) -> Any:
            if i == 4:
                model.best = [1.0, 2.0]
            if i == 8:
                model.kept = []
            return points(i)

        def state() -> Any:
            return vars(model), model.best is model.scales, model.kept is model.losses

        return step, args, state

    runs_as_plain(make, 12, compiled=8)


def test_lists_told_apart() -> None:
    def make() -> Any:
        model = Model()

        def step(x: Any) -> Any:
            model.losses.append(np.sum(x))
            model.kept.append(x[0])
            return x * 2.0, model.scales is model.best, model.kept is not model.losses

        def args(i: int) -> Any:
            if i == 4:
                model.best = [1.0, 2.0]
            if i == 6:
                model.best = model.scales
            if i == 8:
                model.kept = []
            if i == 11:
                model.kept = model.losses
            return points(i)

        return step, args, lambda: vars(model)

    runs_as_plain(make, 15, compiled=9)


def test_arguments_told_apart() -> None:
    def make() -> Any:
        model, other = Model(), [1.5, 2.5]  # other numbers, which might be the same objects

        def step(x: Any, scales: Any) -> Any:
            return x * scales[0], scales is model.scales

        return step, lambda i: (*points(i), model.scales if i in (4, 5, 9) else other), lambda: vars(model)

    runs_as_plain(make, 12, compiled=6)
