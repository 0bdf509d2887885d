"""What users ask of classes: ``type(x)`` of a traced value, and special methods that return Python's own types."""

from __future__ import annotations

import builtins
import cProfile
import enum
import functools
import math
import numbers
import statistics
import typing
from collections import abc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import agree
from caching import Box, follows, function
from numpy.testing import assert_allclose

from yota_py import grad, gradient, jit

ARGUMENTS = [2.0, np.float64(2.0), np.float32(2.0), np.array([1.0, 2.0]), np.ones(2, np.float32), 3.0, np.array(2.0)]


def by_is(x: Any) -> Any:
    """With a comparison by identity."""
    return 2 * x if type(x) is float else np.sum(3 * x)


def by_membership(x: Any) -> Any:
    """With ``in``."""
    return 2 * x if type(x) in (int, float) else np.sum(5 * x)


def by_equality(x: Any) -> Any:
    """With ``==``, in a comprehension."""
    return sum([7 * y if type(y) == np.float64 else 11 * np.sum(y) for y in (x, np.sum(x))])  # noqa: E721


def by_name(x: Any) -> Any:
    """With the class's name."""
    return np.sum(x) * len(type(x).__name__)


def by_table(x: Any) -> Any:
    """With a table of functions."""
    return {float: lambda x: x * 2, np.ndarray: np.sum}.get(type(x), lambda x: x * 13)(x)


def by_another_name(x: Any, kind: Any = type) -> Any:
    """With a default argument."""
    return x * 2 if kind(x) is float else np.sum(x)


def by_attribute(x: Any) -> Any:
    """With ``__class__``, and of a result."""
    return x * 2 if x.__class__ is float and type(x * x) is float else np.sum(x)


def by_helper(x: Any) -> Any:
    """In a function that another one calls."""
    return functools.reduce(lambda a, b: a + by_is(b), [x, x], 0.0)


def by_a_pair(x: Any) -> Any:
    """Compared with that of another value."""
    return np.sum(x) * (2 if type(x) is float else 3) * (5 if issubclass(type(x), np.generic) else 7)


@pytest.mark.parametrize(
    "f", [by_is, by_membership, by_equality, by_name, by_table, by_another_name, by_attribute, by_helper, by_a_pair]
)
def test_the_class_of_a_traced_value(f: Callable[[Any], Any]) -> None:
    for x in (*ARGUMENTS, *reversed(ARGUMENTS)):
        for _ in range(2):
            assert_allclose(grad(f, x)[0], f(x), rtol=1e-6)
            assert_allclose(jit(f)(x), f(x), rtol=1e-6)
    for x in (2.0, 3.0, 2.5):
        assert_allclose(gradient(f)(x), (f(x + 1) - f(x)))  # all are linear
        assert_allclose(grad(lambda y: gradient(lambda z: f(z) * z)(y), x)[1][0], 2 * (f(x + 1) - f(x)))


def test_the_class_of_a_traced_value_under_a_profiler() -> None:
    profile = cProfile.Profile()
    profile.enable()
    try:
        have = [grad(f, 2.0)[0] for f in (by_is, by_membership, by_another_name, by_helper)]
    finally:
        profile.disable()
    assert have == [f(2.0) for f in (by_is, by_membership, by_another_name, by_helper)]


ASKED = [
    abc.Hashable, abc.Iterable, abc.Sized, abc.Container, abc.Sequence, abc.Callable, typing.SupportsIndex,
    typing.SupportsInt, typing.SupportsFloat, typing.SupportsComplex, typing.SupportsRound, typing.SupportsAbs,
    numbers.Number, numbers.Complex, numbers.Real, numbers.Rational, numbers.Integral, float, complex, np.floating,
]  # fmt: skip


@pytest.mark.parametrize("x", [*ARGUMENTS, 1j, np.complex128(1j), np.array([1j])])
def test_abstract_classes(x: Any) -> None:
    def answers(x: Any) -> list[bool]:
        names = ("__index__", "__int__", "__float__", "__complex__", "__len__", "__iter__", "__round__", "__trunc__")
        return [*(isinstance(x, cls) for cls in ASKED), *(hasattr(x, name) for name in names), np.iterable(x)]

    def f(x: Any) -> Any:
        found.append(answers(x))
        return np.sum(np.abs(x))

    found: list[list[bool]] = []
    grad(f, x)
    assert found == [answers(x)]


def test_type_is_what_it_was() -> None:
    f = function("def f(x): return x * (2 if type(x) is float else 3)")
    follows(f)
    assert "type" not in f.__globals__ and builtins.type is type
    f.__globals__["type"] = lambda x: int  # the user's own
    follows(f)
    del f.__globals__["type"]
    follows(f)


def test_type_by_the_name_of_its_module() -> None:
    f = function("def f(x): return x * (2 if builtins.type(x) is float else 3) * builtins.abs(x)", builtins=builtins)
    follows(f)
    assert f.__globals__["builtins"] is builtins


@pytest.mark.parametrize("names", [vars(math), vars(builtins), {"__builtins__": vars(builtins), "sin": math.sin}])
def test_name_spaces_of_libraries_are_read(names: dict[str, Any]) -> None:
    """What ``exec`` puts into the dict that it is given is not the user's."""
    f = function("def f(x): return x * names['sin' if 'sin' in names else 'abs'](x)", names=names)
    follows(f)
    assert builtins.type is type and vars(math)["sin"] is math.sin


def test_other_uses_of_type() -> None:
    f = function(
        """
        def f(x):
            class Meta(type):
                def twice(cls):
                    return 2
            A = Meta("A", (), {})
            class B(metaclass=Meta):
                k = 3
            C = type("C", (B,), {"k": 5})
            assert isinstance(A, type) and isinstance(int, type) and not isinstance(x, type) and issubclass(Meta, type)
            assert type(A) is Meta and type(int) is type and type(type(x)) is type and type(C) is Meta
            assert type(3) is int and type("a") is str and type(None) is type(None) and type == type(int)
            assert type(type) is type and type(Meta) is type and {type(type): 1}[type] and type[int] == type[int]
            assert (type.__name__, type.__module__, repr(type)) == ("type", "builtins", "<class 'type'>")
            return x * A.twice() * B.k * C.k
        """
    )
    for x in (1.0, 2.0, 3.0):
        assert grad(f, x) == (30 * x, (30.0,))


# ------------------------------------------------------------------------------------------------ special methods


class Base:
    """Defines them."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __bool__(self) -> bool:
        return self.x > 1.5

    def __len__(self) -> int:
        return math.floor(self.x)

    def __index__(self) -> int:
        return int(self.x) * 1

    def __int__(self) -> int:
        return round(self.x)

    def __float__(self) -> float:
        return self.x * 2.0

    def __complex__(self) -> complex:
        return self.x + 0j

    def __hash__(self) -> int:
        return int(self.x) + 7

    def __eq__(self, other: object) -> Any:
        return isinstance(other, Base) and self.x == other.x

    def __contains__(self, item: Any) -> Any:
        return item < self.x


class Derived(Base):
    """Inherits them."""


@pytest.mark.parametrize("cls", [Base, Derived])
@pytest.mark.parametrize("use", [
    "3 if box else 5", "len(box)", "[1, 2, 3, 4, 5, 6][box]", "int(box)", "float(box)", "complex(box).real",
    "hash(box)", "2 if box == copy(box) else 3", "2 if 1.5 in box else 3", "sum([1 for _ in range(box)])",
    "(not box) + 2",
    "{box: 2}[box]", "all([box, box]) + 1", "2 if box and x > 0 else 3", "np.arange(7.0)[box]", "math.sqrt(box)",
])  # fmt: skip
def test_special_methods_of_objects_with_a_number_that_changes(cls: type[Base], use: str) -> None:
    box = cls(1.0)
    f = function(f"def f(x): return x * ({use})", box=box, copy=lambda box: type(box)(box.x))
    follows(f, *(functools.partial(setattr, box, "x", k) for k in (2.0, 1.25, 3.0, 1.75, 2.0)))
    step = jit(f)
    for k in (1.0, 2.0, 1.25, 1.0, 3.0, 2.0):
        box.x = k
        assert step(2.0) == f(2.0)


def test_special_methods_on_arguments() -> None:
    def f(x: float) -> float:
        return x * 2 if Derived(x) else x * x * (len(Base(x)) + 1)

    follows(f, x=1.0)
    follows(f, x=2.0)
    with pytest.raises(Exception, match=r"float\(x\) of a traced value"):
        grad(lambda x: x * float(Base(x)), 2.0)


def test_methods_are_put_back() -> None:
    method = Base.__bool__
    box = Box(flag=Base(1.0))
    for k in (1.0, 2.0, 1.0):
        box.flag.x = k
        agree(lambda x: x * 2 if box.flag else x * 3, 2.0)
        assert Base.__bool__ is method and "__bool__" not in vars(Derived)


def test_enumerations_and_what_they_return() -> None:
    class Level(enum.IntEnum):
        low, high = 1, 2

        def __bool__(self) -> bool:
            return self is Level.high

    box = Box(level=Level.low)
    follows(lambda x: x * 2 if box.level else x * int(box.level) * 5, lambda: setattr(box, "level", Level.high))


def test_numpys_booleans_are_refused_as_by_python() -> None:
    class Bad:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __bool__(self) -> Any:
            return np.sum(self.x) > 1

    def f(x: Any) -> Any:
        return np.sum(x) if Bad(x) else x[0]

    for way in (f, jit(f), gradient(f)):
        with pytest.raises(TypeError, match="__bool__ should return bool"):
            way(np.ones(2))


class Percent(float):
    """A number that computes in its own way on the right of an operator."""

    def __rmul__(self, other: Any) -> Any:
        return other * float(self) / 100

    def __gt__(self, other: Any) -> Any:
        return other < 10.0


def test_numbers_that_compute_in_their_own_way() -> None:
    rate = Percent(50.0)
    functions: list[Any] = [
        lambda x: x * rate, lambda x: rate * x, lambda x: x * 2 if x < rate else x * 3, lambda x: x + rate - rate,
    ]  # fmt: skip
    for f in functions:
        for x in (3.0, 4.0, 12.0, 3.0):
            assert grad(f, x)[0] == f(x) == jit(f)(x)
            assert_allclose(grad(f, x)[1][0], f(x + 1) - f(x))
    with pytest.raises(TypeError, match=r"a Percent, whose arithmetic differs from a number's; pass float\(...\)"):
        grad(lambda x: x * 2, rate)

    class OfNumPys(np.float64):
        def __mul__(self, other: Any) -> Any:
            return 100.0

    class Same(np.float64):
        pass

    with pytest.raises(TypeError, match=r"a OfNumPys, whose arithmetic differs from a number's; pass float\(...\)"):
        grad(lambda x: x * 2, OfNumPys(3.0))
    assert grad(lambda x: x * 2, Same(3.0)) == (6.0, (2.0,))


def test_a_library_that_wants_plain_numbers_gets_them_also_when_they_change() -> None:
    items = [1.0, 2.0]
    changes = [functools.partial(items.__setitem__, 0, k) for k in (5.0, 7.0, 1.0)]
    follows(lambda x: x * statistics.mean(items), *changes)
    follows(lambda x: x * items[0].as_integer_ratio()[0], *changes)
