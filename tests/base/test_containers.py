"""Containers as arguments and results of primitives: opened wherever they stand, and their cotangents added."""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest
from numpy.testing import assert_allclose

from yota_py import grad, gradient, jit, nondiff, primitive, rrule
from yota_py.base.containers import NAMESPACE, item, items_of, keys_of
from yota_py.errors import LostDerivativeError, RuleError
from yota_py.testing.checks import check_rrule


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Point:
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: Any


class Registered:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


optree.register_pytree_node(
    Registered, lambda r: ((r.a, r.b), None, None), lambda _, parts: Registered(*parts), namespace=NAMESPACE
)

MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "tuple": lambda a, b: (a, b),
    "list": lambda a, b: [a, b],
    "dict": lambda a, b: {"a": a, "b": b},
    "dict of numbers": lambda a, b: {3: a, 1: b},
    "OrderedDict": lambda a, b: collections.OrderedDict(a=a, b=b),
    "defaultdict": lambda a, b: collections.defaultdict(list, a=a, b=b),
    "deque": lambda a, b: collections.deque([a, b]),
    "namedtuple": Pair,
    "dataclass": Point,
    "frozen dataclass": Frozen,
    "registered class": Registered,
    "nested": lambda a, b: {"x": [Pair(a, None), Point((1, "text"), {"b": b})]},
}


def first(x: Any) -> Any:
    """The first of the two numbers in a container of the makers."""
    while (items := items_of(x)) is not None:
        x = items[0]
    return x


def second(x: Any) -> Any:
    while (items := items_of(x)) is not None:
        x = items[-1]
    return x


def zero_or(dx: Any) -> Any:
    return 0.0 if dx is None else dx


def maker(make: Callable[[Any, Any], Any]) -> Any:
    """A primitive that returns a container of sin(x) and x**2."""

    def value(x: Any) -> Any:
        return make(np.sin(x), x * x)

    fn = primitive(value)
    rrule(fn)(lambda x: (value(x), lambda dy: (zero_or(first(dy)) * np.cos(x) + zero_or(second(dy)) * 2 * x,)))
    return fn


def taker(make: Callable[[Any, Any], Any]) -> Any:
    """A primitive of a container: the first number times the square of the second."""

    def value(p: Any) -> Any:
        assert type(p) is type(make(1, 2))
        return first(p) * second(p) ** 2

    def rule(p: Any) -> Any:
        a, b = first(p), second(p)
        blank = optree.tree_map(lambda _: None, p, none_is_leaf=True, namespace=NAMESPACE)
        leaves, spec = optree.tree_flatten(blank, none_is_leaf=True, namespace=NAMESPACE)

        def back(dy: Any) -> Any:
            return (optree.tree_unflatten(spec, [dy * b * b, *leaves[1:-1], 2 * dy * a * b]),)

        return value(p), back

    fn = primitive(value)
    rrule(fn)(rule)
    return fn


@pytest.mark.parametrize("name", MAKERS)
def test_results(name: str) -> None:
    make = maker(MAKERS[name])
    slope = gradient(lambda x: first(make(x)) * second(make(x)) + first(make(x)))
    curve = gradient(slope)
    for x in (0.5, 1.5, -0.3, 0.5):
        assert_allclose(slope(x), math.cos(x) * x**2 + 2 * x * math.sin(x) + math.cos(x))
        assert_allclose(curve(x), (2 - x * x) * math.sin(x) + 4 * x * math.cos(x) - math.sin(x))


@pytest.mark.parametrize("name", MAKERS)
def test_arguments(name: str) -> None:
    make, take = MAKERS[name], taker(MAKERS[name])
    slope = gradient(lambda x: take(make(x, x * x)) + take(make(2.0, x)))
    curve = gradient(slope)
    for x in (0.5, 1.5, -0.3, 0.5):
        assert_allclose(slope(x), 5 * x**4 + 4 * x)
        assert_allclose(curve(x), 20 * x**3 + 4)


@pytest.mark.parametrize("name", MAKERS)
def test_a_container_from_one_primitive_into_another(name: str) -> None:
    make, take = maker(MAKERS[name]), taker(MAKERS[name])

    def f(x: Any) -> Any:
        p = make(x)
        return take(p) + take(p) + first(p)

    slope, value = gradient(f), jit(f)
    for x in (0.5, 1.5, -0.3):
        assert_allclose(slope(x), 2 * (math.cos(x) * x**4 + 4 * x**3 * math.sin(x)) + math.cos(x))
        assert_allclose(value(x), 2 * math.sin(x) * x**4 + math.sin(x))


@pytest.mark.parametrize("name", MAKERS)
def test_rules_of_containers_are_checked(name: str) -> None:
    check_rrule(maker(MAKERS[name]), 0.7)
    check_rrule(maker(MAKERS[name]), np.array([0.7, 1.0]))


def test_items() -> None:
    for make in MAKERS.values():
        x = make(1.0, 2.0)
        assert [item(x, key) for key in keys_of(x)] == list(items_of(x) or ())
    for leaf in (None, 1.0, "text", np.ones(2), {1, 2}, slice(3), len, Pair):
        assert items_of(leaf) is None


def test_a_dataclass_keeps_what_is_no_field() -> None:
    p = Point(1.0, 2.0)
    p.note = "kept"  # type: ignore[attr-defined]

    @primitive
    def noted(p: Any) -> Any:
        assert p.note == "kept"
        return p.a * p.b

    rrule(noted)(lambda p: (p.a * p.b, lambda dy: (Point(dy * p.b, dy * p.a),)))

    def f(x: Any) -> Any:
        q = Point(x, 3.0)
        q.note = "kept"  # type: ignore[attr-defined]
        return noted(q)

    assert gradient(f)(2.0) == 3.0


def test_deep_and_cyclic_arguments() -> None:
    @primitive
    def innermost(x: Any) -> Any:
        while isinstance(x, list):
            x = x[0]
        return x * 2.0

    def rule(x: Any) -> Any:
        def back(dy: Any) -> Any:
            depth, y = 0, x
            while isinstance(y, list):
                depth, y = depth + 1, y[0]
            return (functools.reduce(lambda d, _: (d,), range(depth), dy * 2.0),)

        return innermost(x), back

    rrule(innermost)(rule)
    assert gradient(lambda x: innermost([[[[[[x]]]]]]))(1.0) == 2.0
    cyclic: list[Any] = [3.0]
    cyclic.append(cyclic)
    assert innermost(cyclic) == 6.0


# ------------------------------------------------------------------------------------------- what is refused


class Box:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, x: Any) -> Any:
        return self.value * x


@pytest.mark.parametrize("wrap", [
    Box, lambda x: (lambda: x), lambda x: [1.0, {"a": Box(x)}], lambda x: {1.0, float(x)},
])  # fmt: skip
def test_results_that_cannot_be_opened(wrap: Any) -> None:
    @primitive
    def boxed(x: Any) -> Any:
        return wrap(x)

    rrule(boxed)(lambda x: (wrap(x), lambda dy: (dy,)))
    with pytest.raises(LostDerivativeError, match=r"boxed returned an object of type \w+ made from traced values"):
        gradient(lambda x: x * (boxed(x) is not None))(2.0)
    nondiff(boxed)
    assert gradient(lambda x: x * (boxed(x) is not None))(2.0) == 1


@primitive
def applied(f: Any, x: Any) -> Any:
    return f(x)


rrule(applied)(lambda f, x: (f(x), lambda dy: (None, dy * (f(x + 1.0) - f(x)))))  # of a linear function


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a closure": lambda x: lambda t: x * t,
    "a default": lambda x: lambda t, x=x: x * t,
    "a partial": lambda x: functools.partial(np.multiply, x),
    "an object": Box,
    "a method": lambda x: Box(x).__call__,
    "an object in an object": lambda x: Box(Box(x)),
}


@pytest.mark.parametrize("name", HOLDERS)
@pytest.mark.parametrize("also", [True, False])
def test_functions_and_objects_that_hold_traced_values(name: str, also: bool) -> None:
    hold = HOLDERS[name]
    with pytest.raises(LostDerivativeError, match=r"argument 0 of applied is an? .* that holds a traced value"):
        gradient(lambda x: applied(hold(x), x if also else 2.0))(1.5)


def test_functions_that_hold_a_value_of_an_outer_trace() -> None:
    with pytest.raises(LostDerivativeError, match="argument 0 of applied is a function"):
        gradient(lambda a: gradient(lambda x: applied(lambda t: a * t, x))(2.0))(1.5)


def test_a_function_may_read_arrays_that_change() -> None:
    weights = np.array([1.0, 2.0])
    slope = gradient(lambda x: applied(lambda t: np.sum(weights) * t, x))
    for k in range(4):
        weights[0] = k
        assert slope(1.5) == k + 2


def test_rules_must_return_what_the_function_returns() -> None:
    @primitive
    def named(x: Any) -> Any:
        return {"a": x, "b": x}

    rrule(named)(lambda x: ((x, x), lambda dy: (dy[0],)))
    with pytest.raises(RuleError, match=r"the rule of named returned \(float64, float64\), the function itself dict"):
        gradient(lambda x: named(x)["a"])(1.0)


@pytest.mark.parametrize("wrong", [{"a": 1.0}, (1.0, 1.0), 1.0, Point(1.0, 1.0)])
def test_cotangents_must_have_the_structure_of_the_argument(wrong: Any) -> None:
    @primitive
    def summed(p: Any) -> Any:
        return p["a"] + p["c"]

    rrule(summed)(lambda p: (p["a"] + p["c"], lambda dy: (wrong,)))
    with pytest.raises(RuleError, match=r"the pullback of summed gave .* for an argument that has an item 'c'"):
        gradient(lambda x: summed({"a": 1.0, "c": x}))(1.0)


def test_unused_parts_have_cotangents_of_zero() -> None:
    Pair = collections.namedtuple("Pair", ["sine", "cosine"])

    @primitive
    def both(x: Any) -> Any:
        return Pair(np.sin(x), {"c": np.cos(x), "n": np.size(x)})

    @rrule(both)
    def _(x: Any) -> Any:
        return both(x), lambda d: (d.sine * np.cos(x) - d.cosine["c"] * np.sin(x),)

    for x in (1.0, np.ones(3), np.float32(0.5), np.ones(3) / 2, 2.0):
        assert_allclose(grad(lambda x: np.sum(both(x).sine), x)[1][0], np.cos(x), rtol=1e-6)
        assert_allclose(grad(lambda x: np.sum(both(x)[1]["c"]), x)[1][0], -np.sin(x), rtol=1e-6)
    second = gradient(gradient(lambda x: both(x).sine * x))
    for x in (0.5, 1.5, 2.5):
        assert_allclose(second(x), 2 * np.cos(x) - x * np.sin(x), rtol=1e-12)
