"""An ``OrderedDict`` has its items in its own order: ``move_to_end`` leaves them elsewhere in the dict below."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from yota_py import check_grads, config, grad, jit, pullback, value_and_grad

pytestmark = pytest.mark.filterwarnings("ignore::yota_py.UncachedWarning")


def moved(*keys: str) -> OrderedDict[str, float]:
    """Items a: 1.0, b: 2.0, ... in the order of the keys, all of them moved there."""
    made = OrderedDict((key, float(ord(key) - ord("a") + 1)) for key in sorted(keys))
    for key in keys:
        made.move_to_end(key)
    return made


def weighted(d: OrderedDict[str, float]) -> Any:
    return sum(w * v * v for w, v in zip([1.0, 10.0, 100.0], d.values(), strict=False))


@pytest.mark.parametrize("policy", ["auto", "always"])
@pytest.mark.parametrize("nest", [lambda d: d, lambda d: [d, 1.0], lambda d: {"p": (d,)}, lambda d: OrderedDict(x=d)])
def test_values_and_gradients_are_in_its_order(policy: str, nest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", policy)

    def inside(tree: Any) -> Any:
        while not (isinstance(tree, OrderedDict) and "a" in tree):
            tree = next(iter(tree.values())) if isinstance(tree, dict) else tree[0]
        return tree

    def f(tree: Any) -> Any:
        return weighted(inside(tree))

    fast, plain = value_and_grad(f), jit(f)
    for keys in ("abc", "cab", "bca", "abc", "cba", "cab"):
        tree = nest(moved(*keys))
        want = {k: 2 * w * v for w, (k, v) in zip([1.0, 10.0, 100.0], moved(*keys).items(), strict=True)}
        for value, slope in (grad(f, tree), (fast(tree)[0], (fast(tree)[1],))):
            assert value == f(tree)
            assert list(inside(slope[0]).items()) == list(want.items())
        assert plain(tree) == f(tree)
        assert list(inside(pullback(f, tree)[1](1.0)[0])) == list(keys)
    check_grads(f, nest(moved("c", "a", "b")))


@pytest.mark.parametrize("policy", ["auto", "always"])
@pytest.mark.parametrize("held", ["argument", "attribute", "global"])
def test_a_step_that_moves_items(policy: str, held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", policy)

    class Recent:
        def __init__(self) -> None:
            self.items = moved("a", "b", "c")

        def use(self, key: str, x: float) -> Any:
            self.items.move_to_end(key)
            return x * self.items[key]

    def make() -> tuple[Any, OrderedDict[str, float]]:
        if held == "attribute":
            recent = Recent()
            return recent.use, recent.items
        items = moved("a", "b", "c")

        def use(items: OrderedDict[str, float], key: str, x: float) -> Any:
            items.move_to_end(key)
            return x * items[key]

        def use_it(key: str, x: float) -> Any:
            items.move_to_end(key)
            return x * items[key]

        return (use_it if held == "global" else lambda key, x: fast(items, key, x)), items

    def other(items: OrderedDict[str, float], key: str, x: float) -> Any:
        items.move_to_end(key)
        return x * items[key]

    fast = jit(other)
    call, items = make()
    if held != "argument":
        call = jit(call)
    plain = moved("a", "b", "c")
    rng = np.random.default_rng(0)
    for i in range(60):
        key = "c" if i < 10 else "abc"[rng.integers(3)]
        if i % 7 == 5:  # between the calls
            items.move_to_end("a", last=False)
            plain.move_to_end("a", last=False)
        plain.move_to_end(key)
        assert call(key, 2.0) == 2.0 * plain[key]
        assert list(items.items()) == list(plain.items())


def test_results_are_in_its_order() -> None:
    @jit
    def f(d: OrderedDict[str, float], x: float) -> OrderedDict[str, float]:
        new = OrderedDict((k, v * x) for k, v in d.items())
        new.move_to_end("a")
        return new

    for x in (1.0, 2.0, 3.0):
        assert list(f(moved("b", "a", "c"), x).items()) == [("b", 2 * x), ("c", 3 * x), ("a", x)]
