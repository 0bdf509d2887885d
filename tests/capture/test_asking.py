"""Attributes read and assigned by names that are texts: ``getattr``, ``setattr``, ``vars``."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from yota_py import config, explain, grad, jit, value_and_grad

W = np.array([1.0, 2.0, 3.0])


class Params:
    scale = 2.0

    def __init__(self) -> None:
        self.a, self.b, self.n = np.array([1.0, 0.5, 2.0]), 3.0, 2
        self.inner = SimpleNamespace(a=np.ones(3), k=0.5)


class Slotted:
    __slots__ = ("a", "b", "inner", "n")
    scale = 2.0
    __init__ = Params.__init__


NAMES = ["a", "inner"]


def by_names(p: Any) -> Callable[[Any], Any]:
    return lambda w: sum(np.sum(w * getattr(p, name) if name == "a" else w * p.inner.a) for name in NAMES)


def with_default(p: Any) -> Callable[[Any], Any]:
    return lambda w: np.sum(w) * getattr(p, "missing", 4.0) * getattr(p, "scale", 1.0) * getattr(p, "b", 5.0)


def of_all(p: Any) -> Callable[[Any], Any]:
    return lambda w: sum(np.sum(w * x) for name, x in vars(p.inner).items()) + len(vars(p.inner))


def of_traced(p: Any) -> Callable[[Any], Any]:
    return lambda w: np.sum(getattr(w, "T") * getattr(np, "tanh")(w)) + getattr(w, "missing", p.b)  # noqa: B009


def assigned(p: Any) -> Callable[[Any], Any]:
    def f(w: Any) -> Any:
        setattr(p, "b", p.b * 1.5)  # noqa: B010
        for name in ("a", "n"):
            setattr(p.inner if name == "a" else p, name, w * 2.0 if name == "a" else p.n + 1)
        return np.sum(p.inner.a * w) * p.b * getattr(p, NAMES[0])[1]

    return f


def handed_on(p: Any) -> Callable[[Any], Any]:
    return lambda w: sum(np.sum(w * x) for x in map(getattr, [p, p.inner], ["a", "a"]))


def assigned_to_the_dict(p: Any) -> Callable[[Any], Any]:
    def f(w: Any) -> Any:
        vars(p.inner)["k"] = vars(p.inner)["k"] * 2.0
        return np.sum(w) * p.inner.k

    return f


PROGRAMS = [by_names, with_default, of_all, of_traced, assigned, handed_on, assigned_to_the_dict]
CHANGES: list[Callable[[Any], None]] = [
    lambda p: None, lambda p: setattr(p, "a", p.a * 2.0), lambda p: setattr(p, "b", 7.0),
    lambda p: setattr(p.inner, "k", 0.25), lambda p: setattr(p, "inner", SimpleNamespace(a=np.arange(3.0), k=1.5)),
    lambda p: setattr(p.inner, "more", 2.0), lambda p: setattr(p, "n", 9), lambda p: p.a.__setitem__(0, 5.0),
]  # fmt: skip


@pytest.mark.parametrize("make", [Params, Slotted])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_plain_python(program: Callable[[Any], Any], whole: bool, make: Any) -> None:
    config.check = True
    mine, its = make(), make()
    f, plain = program(mine), program(its)
    df = jit(f) if whole else value_and_grad(f)
    for change in CHANGES * 2:
        for _ in range(3):
            have, want = df(W), plain(W)
            assert (have if whole else have[0]) == pytest.approx(want, rel=1e-12)
            for name in ("a", "b", "n"):
                np.testing.assert_array_equal(getattr(mine, name), getattr(its, name))
            np.testing.assert_array_equal(mine.inner.a, its.inner.a)
            assert list(vars(mine.inner)) == list(vars(its.inner)) and mine.inner.k == its.inner.k
        change(mine)
        change(its)
    assert sum(known.calls for known in explain(df)) > 10, explain(df)


def test_missing_attributes() -> None:
    p = Params()
    for df in (value_and_grad(lambda w: np.sum(w) * getattr(p, "nothing")), jit(lambda w: getattr(p, "nothing"))):  # noqa: B009
        for _ in range(3):
            with pytest.raises(AttributeError, match="nothing"):
                df(W)


def test_an_attribute_that_comes_later() -> None:
    p = Params()
    df = value_and_grad(lambda w: np.sum(w) * getattr(p, "late", 1.0))
    assert [float(df(W)[0]) for _ in range(3)] == [6.0] * 3
    p.late = 2.0  # type: ignore[attr-defined]
    assert [float(df(W)[0]) for _ in range(3)] == [12.0] * 3
    Params.late = 5.0  # type: ignore[attr-defined]
    del p.late  # type: ignore[attr-defined]
    try:
        assert [float(df(W)[0]) for _ in range(3)] == [30.0] * 3
    finally:
        del Params.late  # type: ignore[attr-defined]
    assert [float(df(W)[0]) for _ in range(3)] == [6.0] * 3


def test_the_builtins_stay() -> None:
    kept: list[Any] = []

    def f(w: Any) -> Any:
        kept.append(getattr)
        return np.sum(w) * getattr(Params(), "b")  # noqa: B009

    for _ in range(3):
        grad(f, W)
    assert "getattr" not in f.__globals__
    assert kept[0](Params(), "b") == 3.0
