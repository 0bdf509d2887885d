"""Dataclasses that a step makes, copies and returns."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
from steps import agrees

pytestmark = pytest.mark.usefixtures("every_policy")


def numbers(i: int) -> tuple[Any, ...]:
    return (np.ones(2) * (1.0 + i),)


@dataclasses.dataclass
class Record:
    """With a default that is made, and an attribute that is no field."""

    w: Any
    history: list[Any] = dataclasses.field(default_factory=list)
    total: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.total = self.w.sum()
        self.doubled = self.w * 2


@dataclasses.dataclass(frozen=True, slots=True)
class Small:
    """Frozen, in slots."""

    w: Any
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    n: int = 0


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Frozen, with a dict."""

    w: Any
    n: int = 0


@pytest.mark.parametrize("cls", [Record, Small, Frozen])
def test_dataclasses(cls: Any) -> None:
    def make() -> Any:
        def step(x: Any) -> Any:
            made = cls(x * 2)
            return made, dataclasses.replace(made, w=x), [made]

        return step, numbers, lambda: None

    agrees(make, compiled=8)


@pytest.mark.parametrize("cls", [Record, Small, Frozen])
def test_copies_of_dataclasses_that_are_given(cls: Any) -> None:
    def make() -> Any:
        own = cls(np.ones(2))

        def step(given: Any, x: Any) -> Any:
            return copy.copy(given), x

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 5 and cls is not Small:
                own.__dict__["extra"] = np.ones(3)
            return own, *numbers(i)

        return step, arguments, lambda: own

    agrees(make, compiled=0 if cls is Record else 4)


@pytest.mark.parametrize("cls", [Record, Frozen])
def test_attributes_that_are_no_fields(cls: Any) -> None:
    def make() -> Any:
        own = cls(np.ones(2))

        def step(given: Any, x: Any) -> Any:
            object.__setattr__(given, "latest", x * 2)
            return given.latest * given.w

        return step, lambda i: (own, *numbers(i)), lambda: own

    agrees(make, compiled=0)
