"""Primitives of users whose results look at their arguments, which are then written into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from yota_py import grad, jit, primitive, rrule


class Pair(NamedTuple):
    low: Any
    high: Any


@dataclass
class Halves:
    low: Any
    rest: list[Any]


@primitive
def same(x: Any) -> Any:
    return x


@rrule(same)
def _same(x: Any) -> Any:
    return same(x), lambda dy: (dy,)


def _spread(x: Any, low: Any, total: Any) -> Any:
    dx = np.zeros(np.shape(x)) + (0.0 if total is None else total)
    if low is not None:
        dx[:2] += low
    return dx


@primitive
def in_a_dict(x: Any) -> Any:
    return {"low": x[:2], "total": np.sum(x)}


@rrule(in_a_dict)
def _in_a_dict(x: Any) -> Any:
    return in_a_dict(x), lambda dy: (_spread(x, dy["low"], dy["total"]),)


@primitive
def in_a_pair(x: Any) -> Any:
    return Pair(x[:2], np.sum(x))


@rrule(in_a_pair)
def _in_a_pair(x: Any) -> Any:
    return in_a_pair(x), lambda dy: (_spread(x, dy[0], dy[1]),)


@primitive
def deeper(x: Any) -> Any:
    return Halves(np.sum(x), [x[:2], (1.0,)])


@rrule(deeper)
def _deeper(x: Any) -> Any:
    return deeper(x), lambda dy: (_spread(x, dy.rest[0], dy.low),)


@primitive
def of_a_dict(parts: Any, scale: Any) -> Any:
    return parts["x"][:2]


@rrule(of_a_dict)
def _of_a_dict(parts: Any, scale: Any) -> Any:
    return of_a_dict(parts, scale), lambda dy: ({"x": _spread(parts["x"], dy, None), "y": None}, 0.0)


@primitive
def of_a_list(scale: Any, parts: Any) -> Any:
    return [parts[1][0]]


@rrule(of_a_list)
def _of_a_list(scale: Any, parts: Any) -> Any:
    return of_a_list(scale, parts), lambda dy: (0.0, [None, (dy[0],)])


LOOKS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: same(x),
    "in a dict": lambda x: in_a_dict(x)["low"],
    "in a namedtuple": lambda x: in_a_pair(x).low,
    "deeper": lambda x: deeper(x).rest[0],
    "of a dict": lambda x: of_a_dict({"y": 1.0, "x": x}, 2.0),
    "of a dict by name": lambda x: of_a_dict(parts={"y": x * 2.0, "x": x}, scale=x[0]),
    "of a list": lambda x: of_a_list(2.0, [1.0, (x,)])[0],
    "twice": lambda x: same(in_a_dict(same(x))["low"]),
}


@pytest.mark.parametrize("name", LOOKS)
def test_writes_through_results(name: str, every_policy: None) -> None:
    look = LOOKS[name]

    def through(x: Any) -> Any:
        x = x * 1.0
        z = look(x)
        z[0] = 5.0 * x[1]
        return np.sum(x * x) + np.sum(z)

    def behind(x: Any) -> Any:
        x = x * 1.0
        z = look(x)
        x[0] = 5.0 * x[1]
        return np.sum(x * x) + np.sum(z)

    for f in (through, behind):
        inside = jit(lambda x, f=f: grad(f, x * 1.0))
        step = jit(f)
        for i in range(3):
            x = np.arange(3.0) + i
            expected = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
            for value, (slope,) in (grad(f, x), inside(x)):
                assert value == f(x)
                np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-6)
            assert step(x) == f(x)


@pytest.mark.parametrize("name", LOOKS)
def test_arguments_that_steps_write_into(name: str, every_policy: None) -> None:
    look = LOOKS[name]

    def step(x: Any) -> Any:
        look(x)[0] += 1.0
        return grad(lambda y: np.sum(look(y) * y[:1]), x)

    compiled, x, plain = jit(step), np.arange(3.0), np.arange(3.0)
    for _ in range(4):
        value, (slope,) = compiled(x)
        expected, (other,) = step(plain)
        assert value == expected
        np.testing.assert_array_equal(slope, other)
        np.testing.assert_array_equal(x, plain)
