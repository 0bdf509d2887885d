"""`match` statements: what their patterns read is followed, and decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import config, explain, jit, value_and_grad

W = np.array([1.0, 2.0, -0.5])


@dataclass
class Circle:
    r: Any
    at: Any = 0.0


@dataclass
class Square(Circle):
    side: Any = 1.0


class Pair(NamedTuple):
    a: Any
    b: Any


class Plain:
    __match_args__ = ("v", "k")

    def __init__(self, v: Any, k: Any) -> None:
        self.v, self.k = v, k


SHAPES: list[Any] = [Circle(2.0), Square(1.0, side=3.0), Pair(1.0, 0.5), {"p": 3}, {"q": 1, "p": 2}, "l1", 2, 2.5, None,
                     (1.0, W), [W, 2.0], Plain(W, 2), Circle(W, at=1.0), {"p": W}, True]  # fmt: skip


def matched(w: Any, of: Any) -> Any:
    match of:
        case None:
            return np.sum(w)
        case bool():
            return -np.sum(w)
        case str(name):
            return np.sum(np.abs(w)) if name == "l1" else np.sum(w * w)
        case int(n) | float(n):
            return np.sum(w) * n
        case {"q": q, **rest}:
            return np.sum(w) * q + rest["p"]
        case {"p": p}:
            return np.sum(w * w * p)
        case Square(r=r, side=side):
            return np.sum(w) * r * side
        case Circle(r, at=at):
            return np.sum(w * r) + at
        case Pair(a, b):
            return np.sum(w * a) * b
        case Plain(v, k) if k > 1:
            return np.sum(w * v) * k
        case [first, second] | (first, second):
            return np.sum(w * first * second)
    raise AssertionError(of)


def of_traced(w: Any, of: Any) -> Any:
    """The subject is computed."""
    match np.sum(w), of:
        case [float() as s, Circle(r=r)]:
            return s * np.sum(r)
        case [s, str() | None]:
            return s * s
        case [np.ndarray(), _]:
            return np.sum(w)
        case [s, _]:
            return 3.0 * s
    raise AssertionError(of)


@pytest.mark.parametrize("f", [matched, of_traced])
@pytest.mark.usefixtures("every_policy")
def test_arguments(f: Callable[..., Any]) -> None:
    df = value_and_grad(f)
    for w in (W, 2 * W, W - 3.0):
        for of in SHAPES:
            y, dw = df(w, of)
            assert y == pytest.approx(f(w, of))
            assert_allclose(dw, [(f(w + e, of) - f(w - e, of)) / 2e-6 for e in 1e-6 * np.eye(3)], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_read(whole: bool) -> None:
    """Attributes, items and classes of what changes between the calls."""
    config.compile, config.check = "always", True
    model = SimpleNamespace(of=Circle(2.0))
    df = jit(lambda w: matched(w, model.of)) if whole else value_and_grad(lambda w: matched(w, model.of))

    def check() -> None:
        for k in range(3):
            have = df(W + k)
            assert (have if whole else have[0]) == pytest.approx(matched(W + k, model.of))

    check()
    for change in (lambda: setattr(model.of, "r", 5.0), lambda: setattr(model.of, "at", -1.0),
                   lambda: setattr(model.of, "r", W.copy()), lambda: model.of.r.__setitem__(0, 9.0)):  # fmt: skip
        change()
        check()
    for of in SHAPES * 2:
        model.of = of
        check()
    model.of = {"p": 1.0}
    check()
    model.of["q"] = 4.0
    check()
    del model.of["q"]
    check()
    assert sum(known.calls for known in explain(df)) > 20, explain(df)


def test_other_positions() -> None:
    config.compile = "always"
    model = SimpleNamespace(of=Plain(3.0, 5.0))
    df = value_and_grad(lambda w: matched(w, model.of))
    for args in (("v", "k"), ("k", "v"), ("v", "k")):
        Plain.__match_args__ = args
        for _ in range(3):
            assert df(W)[0] == pytest.approx(matched(W, model.of))


def test_classes_without_a_global_name() -> None:
    """By the positions of attributes they are not followed, and the message says what is."""

    class Local:
        __match_args__ = ("v",)
        v = 2.0

    def f(w: Any, of: Any) -> Any:
        match of:
            case Local(v):
                return np.sum(w) * v
        return np.sum(w)

    config.compile = "always"
    with pytest.warns(UserWarning, match="by the positions of attributes"):
        for _ in range(3):
            assert value_and_grad(f)(W, Local())[0] == 5.0
