"""Classes that users have registered with optree: containers to derivatives, and objects like any others to ``jit``."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import optree
import pytest
from numpy.testing import assert_allclose

from yota_py import config, explain, grad, gradient, jit, trace, value_and_grad


class Params:
    """Two leaves, and something that is none."""

    def __init__(self, a: Any, b: Any, name: str = "p") -> None:
        self.a, self.b, self.name = a, b, name

    def shift(self) -> None:
        self.a = self.a + 1.0


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


@dataclasses.dataclass
class Record:
    a: Any
    b: Any


class Table(dict[str, Any]):
    """A subclass of a container that optree knows."""


for cls in (Params, Slotted, Record):
    optree.register_pytree_node(
        cls, lambda p: ((p.a, p.b), None, None), lambda _, ab, cls=cls: cls(*ab), namespace="yota_py"
    )  # type: ignore[misc]
optree.register_pytree_node(
    Table, lambda t: (list(t.values()), list(t), None), lambda keys, values: Table(zip(keys, values, strict=True)),
    namespace="yota_py",
)  # fmt: skip
CLASSES = [Params, Slotted, Record]


@pytest.fixture(autouse=True, params=["auto", "always"])
def _policy(request: pytest.FixtureRequest) -> Iterator[None]:
    config.compile = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def _state(p: Any) -> Any:
    return p.a, np.array(p.b)


@pytest.mark.parametrize("cls", CLASSES)
def test_jit_reads_and_writes_their_attributes(cls: Any) -> None:
    def step(p: Any, x: Any) -> Any:
        p.b += x  # in place
        p.a = p.a * 2.0
        return cls(np.sum(p.b * x), p.b * p.a)

    fast, p, q = jit(step), cls(1.0, np.ones(3)), cls(1.0, np.ones(3))
    for i in range(5):
        x, b = np.arange(3.0) + i, p.b
        have, want = fast(p, x), step(q, x)
        assert type(have) is cls and p.b is b
        for mine, plain in ((have, want), (p, q)):
            for x, y in zip(_state(mine), _state(plain), strict=True):
                assert_allclose(x, y, rtol=1e-14)
    if config.compile == "always":
        assert explain(fast)[0].calls >= 2, str(explain(fast))


@pytest.mark.parametrize("cls", CLASSES)
def test_jit_of_others_in_containers_and_with_keywords(cls: Any) -> None:
    def loss(state: Any, *, extra: Any) -> Any:
        state["n"] += 1
        return np.sum(np.sin(state["p"][0].a * state["p"][0].b)) * extra.a + state["n"]

    fast = jit(loss)
    mine, plain = ({"n": 0, "p": [cls(0.5, np.arange(3.0))]} for _ in range(2))
    for i in range(6):
        have = fast(mine, extra=cls(float(i), 0.0))
        assert_allclose(have, loss(plain, extra=cls(float(i), 0.0)), rtol=1e-13)
        assert mine["n"] == plain["n"] == i + 1
        mine["p"][0].a = plain["p"][0].a = 0.5 + i


def test_jit_calls_their_methods_and_sees_what_is_no_leaf() -> None:
    def step(p: Any) -> Any:
        p.shift()
        return p.a if p.name == "p" else -p.a

    fast, p = jit(step), Params(1.0, 2.0)
    for i in range(6):
        p.name = "pq"[i % 2]
        assert fast(p) == (2.0 + i) * (1, -1)[i % 2]
        assert p.a == 2.0 + i


def test_jit_of_a_subclass_of_dict() -> None:
    def step(t: Any, x: Any) -> Any:
        t["w"] = t["w"] - 0.1 * x
        return Table(y=np.sum(t["w"]))

    fast, mine, plain = jit(step), Table(w=np.ones(3)), Table(w=np.ones(3))
    for i in range(5):
        have, want = fast(mine, np.arange(3.0) * i), step(plain, np.arange(3.0) * i)
        assert type(have) is Table and type(mine) is Table
        assert_allclose(have["y"], want["y"], rtol=1e-14)
        assert [*have] == ["y"] and [*mine] == ["w"]
        assert_allclose(mine["w"], plain["w"], rtol=1e-14)


@pytest.mark.parametrize("cls", CLASSES)
def test_steps_take_gradients_with_respect_to_them(cls: Any) -> None:
    def loss(p: Any, x: Any) -> Any:
        return np.sum((p.a * x - p.b) ** 2)

    def step(p: Any, x: Any) -> Any:
        value, dp = value_and_grad(loss)(p, x)
        p.a -= 0.01 * dp.a
        p.b -= 0.01 * dp.b
        return value

    fast, p, q = jit(step), cls(1.0, np.ones(3)), cls(1.0, np.ones(3))
    for i in range(5):
        x = np.arange(3.0) + 0.1 * i
        assert_allclose(fast(p, x), step(q, x), rtol=1e-13)
        assert_allclose(p.a, q.a, rtol=1e-13)
        assert_allclose(p.b, q.b, rtol=1e-13)


@pytest.mark.parametrize("cls", CLASSES)
def test_derivatives_through_jit_open_them(cls: Any) -> None:
    def loss(p: Any, x: Any) -> Any:
        return np.sum(np.sin(p.a * x) * p.b)

    fast = jit(loss)
    for i in range(4):
        p, x = cls(0.5 + i, np.ones(3)), np.arange(3.0)
        have, want = gradient(fast)(p, x), gradient(loss)(p, x)
        assert type(have) is cls
        assert_allclose(have.a, want.a, rtol=1e-14)
        assert_allclose(have.b, want.b, rtol=1e-14)
        assert_allclose(want.a, np.sum(np.cos(p.a * x) * x), rtol=1e-12)
        assert_allclose(grad(loss, p, x)[1][0].b, np.sin(p.a * x), rtol=1e-12)


def test_tapes_of_them_are_played() -> None:
    tape = trace(lambda p: p.a * p.b, Params(2.0, np.ones(3)))
    assert_allclose(tape.play(Params(3.0, np.arange(3.0))), 3.0 * np.arange(3.0))


@pytest.mark.parametrize("cls", CLASSES)
def test_the_same_object_twice(cls: Any) -> None:
    def step(p: Any, q: Any) -> Any:
        p.a = p.a + 1.0
        return p.a * q.a, p is q

    fast = jit(step)
    p, q = cls(1.0, 2.0), cls(1.0, 2.0)
    for i in range(4):
        assert fast(p, p) == ((2.0 + i) ** 2, True)
        assert fast(q, cls(3.0, 0.0)) == ((2.0 + i) * 3.0, False)


@pytest.mark.parametrize("cls", CLASSES)
def test_compiled_at_once(cls: Any) -> None:
    fast = jit(lambda p: p.a * np.sum(p.b))
    fast.compile(cls(2.0, np.ones(3)))
    for i in range(3):
        assert fast(cls(2.0, np.ones(3) * i)) == 6.0 * i
    assert explain(fast)[0].entries


class Everywhere(Slotted):
    """Known to optree in all namespaces."""

    __slots__ = ()


optree.register_pytree_node(
    Everywhere, lambda p: ((p.a, p.b), None, None), lambda _, ab: Everywhere(*ab),
    namespace=optree.registry.__GLOBAL_NAMESPACE,
)  # fmt: skip


def test_classes_of_all_namespaces_and_empty_arrays() -> None:
    def step(p: Any) -> Any:
        p.a = p.a + 1.0
        return np.sum(p.b) * p.a, p.b * p.a

    fast = jit(step)
    for size in (3, 0, 3, 0, 3):
        p, q = Everywhere(1.0, np.arange(float(size))), Everywhere(1.0, np.arange(float(size)))
        np.testing.assert_equal(fast(p), step(q))
        assert p.a == q.a == 2.0
    assert isinstance(gradient(lambda p: np.sum(p.b) * p.a)(Everywhere(1.0, np.ones(2))), Everywhere)
    if config.compile == "always":
        assert explain(fast)[0].calls
