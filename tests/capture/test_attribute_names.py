"""Attributes that are called like functions: what they hold counts, and not their names."""

from __future__ import annotations

import datetime
import operator
import os
import time
from typing import Any

import numpy as np
import pytest

from yota_py import config, explain, jit

NAMES = "vars dir locals globals getattr setattr hasattr delattr now today random attrgetter methodcaller Generator"


class Holder:
    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")


@pytest.mark.parametrize("name", NAMES.split())
def test_arrays_under_names_of_functions_are_compiled(name: str) -> None:
    found: dict[str, Any] = {"np": np}
    exec(f"def step(self, x):\n    self.{name} = self.{name} + x\n    return np.sum(self.{name})", found)
    fast, mine, plain = jit(found["step"]), Holder(**{name: np.ones(2)}), Holder(**{name: np.ones(2)})
    for x in (1.0, 2.0, 3.0, 4.0):
        assert fast(mine, x) == found["step"](plain, x)
        np.testing.assert_array_equal(getattr(mine, name), getattr(plain, name))
    assert explain(fast)[0].calls >= 3


class Asking:
    """Whose attributes are functions that find what nobody can follow."""

    y = 0.0

    def by_getattr(self, x: float) -> Any:
        return x * self.getattr(self, "y")

    def by_vars(self, x: float) -> Any:
        return x * self.vars(self)["y"]

    def by_attrgetter(self, x: float) -> Any:
        return x * self.attrgetter("y")(self)

    def by_now(self, x: float) -> Any:
        return x * self.now().microsecond

    def by_today(self, x: float) -> Any:
        return x * self.today().microsecond

    def by_random(self, x: float) -> Any:
        return x * self.random()

    def by_environ(self, x: float) -> Any:
        return x * float(self.environ["YOTA_TEST"])

    def by_getenv(self, x: float) -> Any:
        return x * float(self.getenv("YOTA_TEST"))


FUNCTIONS = {
    "getattr": getattr, "vars": vars, "attrgetter": operator.attrgetter, "now": datetime.datetime.now,
    "today": datetime.datetime.today, "random": np.random.random, "environ": os.environ, "getenv": os.getenv,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::yota_py.UncachedWarning")
def test_functions_under_such_names_are_asked_at_each_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, asking, seen = jit(getattr(Asking, f"by_{name}")), Asking(), []
    vars(asking)[name] = FUNCTIONS[name]
    for i in range(6):
        asking.y = float(i)
        monkeypatch.setenv("YOTA_TEST", str(i))
        time.sleep(1e-3)
        seen.append(fast(asking, 1.0))
    assert len(set(seen)) >= 5
    if name not in ("now", "today", "random"):
        assert seen == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_time_by_a_class_under_another_name() -> None:
    clock = datetime.datetime
    fast = jit(lambda x: x * clock.now().microsecond)
    with pytest.warns(match="asks for the time"):
        seen = [(fast(1), time.sleep(1e-3)) for _ in range(6)]
    assert len(set(seen)) >= 5
