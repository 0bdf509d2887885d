"""Attributes that a function assigns and then reads by code that shows when it is entered: properties, descriptors,
`getattr` with names that are computed, methods that come from elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from yota_py import config, explain, grad, gradient, jit, value_and_grad

W = np.array([1.0, 2.0, -0.5])


class Kept:
    """A descriptor that keeps its value under another name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return getattr(obj, self.name)

    def __set__(self, obj: Any, value: Any) -> None:
        setattr(obj, self.name, value * 2.0)


class Base:
    twice = Kept()

    def __init__(self) -> None:
        self.h = np.zeros(3)
        self._scale = 1.5
        self.on = True
        self.twice = np.ones(3)
        self.other: Any = None

    @property
    def energy(self) -> Any:
        return np.sum(self.h**2) * self._scale

    @property
    def scaled(self) -> Any:
        return self._scaled if hasattr(self, "_scaled") else self.h

    @scaled.setter
    def scaled(self, value: Any) -> None:
        self._scaled = value * self._scale


def by_property(m: Any, w: Any) -> Any:
    m.h = np.tanh(w)
    return m.energy


def by_setter(m: Any, w: Any) -> Any:
    m.scaled = w * w
    return np.sum(m.scaled) + m.energy


def by_name(m: Any, w: Any) -> Any:
    for name in ("h", "_scaled"):
        setattr(m, name, np.sin(w) * len(name))
    return sum(np.sum(getattr(m, name)) for name in ("h", "_scaled"))


def by_descriptor(m: Any, w: Any) -> Any:
    m.twice = w
    return np.sum(m.twice**2)


def sometimes(m: Any, w: Any) -> Any:
    """What the property reads is what was assigned, or what stood there before."""
    if m.on:
        m.h = w * 3.0
    return m.energy * np.sum(w)


def before_and_after(m: Any, w: Any) -> Any:
    e = m.energy
    m.h = np.sin(w + e * 0.1)
    return m.energy + e


def in_a_loop(m: Any, w: Any) -> Any:
    total = 0.0
    for k in range(3):
        total = total + m.energy * np.sum(w)
        m.h = w * k
    return total


def of_a_copy(m: Any, w: Any) -> Any:
    m.h = w * 2.0
    n = copy.copy(m)
    n.h = n.h + 1.0
    return m.energy + n.energy


def of_another(m: Any, w: Any) -> Any:
    m.other.h = w * w
    return m.energy * 0.5 + m.other.energy + np.sum(w)


PROGRAMS = [
    by_property, by_setter, by_name, by_descriptor, sometimes, before_and_after, in_a_loop, of_a_copy, of_another,
]  # fmt: skip


@dataclass
class Fields(Base):
    h: Any = field(default_factory=lambda: np.zeros(3))
    _scale: float = 1.5
    on: bool = True
    other: Any = None

    def __post_init__(self) -> None:
        self.twice = np.ones(3)


class Slotted:
    __slots__ = ("_scale", "_scaled", "_twice", "h", "on", "other")
    __init__ = Base.__init__
    twice, energy, scaled = Kept(), Base.energy, Base.scaled


def changes() -> list[Callable[[Any], None]]:
    def without(m: Any) -> None:
        if hasattr(m, "_scaled"):
            del m._scaled

    return [
        lambda m: None, lambda m: setattr(m, "h", np.arange(3.0)), lambda m: setattr(m, "_scale", 0.5),
        lambda m: setattr(m, "on", not m.on), without, lambda m: m.h.__setitem__(0, 7.0),
        lambda m: setattr(m, "other", type(m)()), lambda m: setattr(m, "h", 2.0 * m.h),
    ]  # fmt: skip


def state(m: Any) -> list[Any]:
    return [getattr(m, name, None) for name in ("h", "_scaled", "_twice", "_scale")]


@pytest.mark.parametrize("make", [Base, Fields, Slotted])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_plain_python(program: Callable[..., Any], whole: bool, make: Any) -> None:
    config.check = True
    mine, its = make(), make()
    mine.other, its.other = make(), make()
    df = jit(lambda w: program(mine, w)) if whole else value_and_grad(lambda w: program(mine, w))
    for change in changes() * 2:
        for k in range(3):
            w = W + k
            have, want = df(w), program(its, w)
            assert (have if whole else have[0]) == pytest.approx(want, rel=1e-12)
            for a, b in zip(state(mine) + state(mine.other), state(its) + state(its.other), strict=True):
                np.testing.assert_array_equal(a, b)
        change(mine)
        change(its)
    assert sum(known.calls for known in explain(df)) > 10, explain(df)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives(program: Callable[..., Any]) -> None:
    for mode in ("never", "always"):
        config.compile = mode
        m = Base()
        m.other = Base()
        df = gradient(lambda w, m=m: program(m, w))
        for k in range(3):
            m.h, want = np.zeros(3), []
            for i in range(3):
                e = 1e-6 * np.eye(3)[i]
                values = []
                for w in (W + k + e, W + k - e):
                    n = copy.deepcopy(m)
                    n.h = np.zeros(3)
                    values.append(program(n, w))
                want.append((values[0] - values[1]) / 2e-6)
            np.testing.assert_allclose(df(W + k), want, rtol=1e-6, atol=1e-6)


def test_objects_in_turn() -> None:
    """Of objects of one class, some without the attribute."""
    df = value_and_grad(by_property, 1)
    made = [Base() for _ in range(4)]
    del made[1].h
    for k, m in enumerate(made * 3):
        assert df(m, W * k)[0] == pytest.approx(1.5 * np.sum(np.tanh(W * k) ** 2))
        assert type(m.h) is np.ndarray
    assert sum(known.calls for known in explain(df)) > 5


def test_what_an_outer_function_has_computed_is_no_constant() -> None:
    """The inner function reads what the outer one has assigned."""

    def outer(v: Any) -> Any:
        m = Base()
        m.h = v * W
        return gradient(lambda t: m.energy * t * t)(2.0)

    for mode in ("never", "always"):
        config.compile = mode
        for v in (1.0, 2.0, 0.5):
            assert grad(outer, v)[1][0] == pytest.approx(2 * v * np.sum(W**2) * 1.5 * 4.0)
