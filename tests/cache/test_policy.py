"""When functions are compiled, and what users may say about it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from agreement import agree

from yota_py import config, errors, explain, grad, gradient, jit, value_and_grad
from yota_py.base.shelf import Shelf
from yota_py.cache import functions as cache
from yota_py.cache import making, modes, policy
from yota_py.cache.functions import MAX_SIGNATURES, FunctionCache
from yota_py.cache.policy import Account
from yota_py.cache.variants import MAX_VARIANTS
from yota_py.tape.trees import flatten


def cache_of(f: Callable[..., Any]) -> FunctionCache:
    return cache.caches[id(f.__code__)]


def f(x: Any) -> Any:
    return np.sum(np.sin(x) * x)


@pytest.mark.default_policy
def test_compiled_when_interpreting_has_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy.price, "of", lambda operations: 5.0)
    seconds = iter(range(100))
    monkeypatch.setattr(cache, "perf_counter", lambda: next(seconds))
    for i in range(5):
        assert not cache_of(f).signatures if i else True
        agree(f, np.ones(3) + i)
    assert len(cache_of(f).signatures) == 1
    for i in range(4):
        agree(f, np.ones(3) * i)
    assert explain(f)[0].calls == 4 and explain(f)[0].misses == 5


@pytest.mark.default_policy
def test_lists_cost_what_their_items_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    prices: list[int] = []
    monkeypatch.setattr(policy.price, "of", lambda operations: prices.append(operations) or 5.0)  # type: ignore[func-returns-value]
    grad(lambda x: np.sum([x] * 300), 1.0)
    assert max(prices) > 300


@pytest.mark.default_policy
@pytest.mark.parametrize(("inputs", "paths"), [
    (list(range(30)), 4),  # none comes again: each program that was made in vain makes the next one twice as dear
    ([i // 5 for i in range(50)], 10),  # each comes again, and at the third time there is a program
])  # fmt: skip
def test_each_new_path_has_to_pay_for_itself(monkeypatch: pytest.MonkeyPatch, inputs: list[int], paths: int) -> None:
    def g(x: Any) -> Any:
        for _ in range(int(x)):
            x = x * 1.5
        return x

    monkeypatch.setattr(policy.price, "of", lambda operations: 1.5)
    seconds = iter(range(1000))
    monkeypatch.setattr(cache, "perf_counter", lambda: next(seconds))
    monkeypatch.setattr(policy, "perf_counter", iter(range(0, 30000, 3)).__next__)
    for i in inputs:
        agree(g, i + 0.5)
    assert sum(entry.paths for entry in explain(g)[0].entries) == paths


@pytest.mark.default_policy
def test_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "never")
    for i in range(4):
        agree(f, np.ones(3) + i)
    assert not cache_of(f).signatures


def test_always() -> None:
    for i in range(4):
        agree(f, np.ones(3) + i)
    assert explain(f)[0].misses == 1


@pytest.mark.default_policy
@pytest.mark.parametrize("wrap", [value_and_grad, gradient], ids=lambda w: w.__name__)
def test_compile_on_request(wrap: Any) -> None:
    grad.compile(f, np.ones(3))
    for i in range(4):
        agree(f, np.ones(3) + i)
    assert explain(f)[0].calls == 4
    g = wrap(f)
    g.compile(np.ones(3))
    g.compile(np.ones(3))
    for i in range(4):
        g(np.ones(3) + i)
    assert explain(g)[0].calls == 4 + (explain(g)[0].misses == 1)
    assert len(explain(f)) == 2


def test_what_cannot_be_compiled_says_why() -> None:
    def timed(x: Any) -> Any:
        return x * time.time_ns()

    with pytest.raises(errors.CompileError, match="time_ns, whose answer may differ next time"):
        grad.compile(timed, 2.0)


@pytest.mark.filterwarnings("default")
def test_what_cannot_be_cached_is_said_once() -> None:
    def timed(x: Any) -> Any:
        return x * time.time_ns()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = {grad(timed, 2.0)[0] for _ in range(4)}
    assert len(values) == 4
    assert [w.category for w in caught] == [errors.UncachedWarning] and caught[0].filename == __file__
    assert "timed is traced afresh at each call, because it calls time_ns" in str(caught[0].message)


@pytest.mark.default_policy
@pytest.mark.filterwarnings("default")
def test_calls_that_always_differ_are_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    def power(x: Any, name: str) -> Any:
        return x ** len(name)

    monkeypatch.setattr(policy.price, "of", lambda operations: 50.0)
    seconds = iter(range(10_000))
    monkeypatch.setattr(cache, "perf_counter", lambda: next(seconds))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(200):
            agree(power, 1.5, "a" * n)
    (message,) = (str(w.message) for w in caught)
    assert "its calls differ in shapes, in lengths of lists or in arguments like strings, in 64 ways" in message


@pytest.mark.default_policy
@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
def test_calls_that_always_differ_are_looked_at_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """And when they differ no more, they are compiled."""
    looked = []
    monkeypatch.setattr(modes, "flatten", lambda tree, **how: (looked.append(1), flatten(tree, **how))[1])
    monkeypatch.setattr(policy.price, "of", lambda operations: 50.0)
    monkeypatch.setattr(cache, "perf_counter", count().__next__)

    @jit
    def last(history: Any, x: Any) -> Any:
        return len(history) * x

    history: list[float] = []
    for i in range(2000):
        assert last(history, 0.5) == 0.5 * i
        history.append(0.5)
    assert 64 <= len(looked) <= 500
    for _ in range(2000):
        assert last(history, 0.5) == 1000.0
    assert explain(last)[0].calls > 500


@pytest.mark.parametrize(
    ("name", "value"), [("compile", "sometimes"), ("compile", True), ("check", 1), ("cache_bytes", -1), ("progress", 1)]
)
def test_settings_are_checked(name: str, value: Any) -> None:
    before = repr(config)
    with pytest.raises(ValueError, match=f"config.{name} is"):
        setattr(config, name, value)
    assert repr(config) == before


def test_unknown_settings() -> None:
    with pytest.raises(AttributeError):
        config.complie = "never"


def test_failures_are_retried_ever_later() -> None:
    account, tried = Account(), []
    for i in range(40):
        if account.due:
            tried.append(i)
            account.failed()
        else:
            account.interpreted(0.0)
    assert tried == [0, 3, 8, 17, 34]


# ---------------------------------------------------------------------------------------------- bounds


def test_hundreds_of_paths_beside_each_other() -> None:
    def steps(x: Any) -> Any:
        y, count = x, 0
        while y > 1:
            y, count = y / 1.25, count + 1  # what counts makes each turn another one
        return y * x

    inputs = [1.25**k * 0.9 for k in range(40)]
    for _ in range(3):
        for x in inputs + inputs[::-1]:
            agree(steps, x)
    (entry,) = explain(steps)[0].entries
    assert entry.paths == 40 and explain(steps)[0].misses == 40


def test_a_loop_in_which_nothing_else_changes_is_a_few() -> None:
    def steps(x: Any) -> Any:
        y = x
        while y > 1:
            y = y / 1.25
        return y * x

    inputs = [1.25**k * 0.9 for k in range(40)]
    for _ in range(3):
        for x in inputs + inputs[::-1]:
            agree(steps, x)
    (entry,) = explain(steps)[0].entries
    assert entry.paths == explain(steps)[0].misses == 5  # up to three turns, and more


def test_beyond_a_bound_the_function_is_interpreted_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "MAX_VARIANTS", 5)

    def power(x: Any, y: float = 1.0) -> Any:
        for _ in range(int(x)):
            y = y * x
        return y

    for _ in range(3):
        for n in range(8):
            agree(power, n + 0.5)
    told = explain(power)[0]
    assert told.entries[0].paths == 5 and told.misses == 5 + 3 * 3
    assert "it has taken" in told.problems[0]
    assert MAX_VARIANTS >= 200


def test_signatures_not_used_lately_give_way() -> None:
    def scaled(x: Any, name: str) -> Any:
        return np.sum(x) * len(name)

    for n in range(MAX_SIGNATURES + 5):
        agree(scaled, np.ones(2), "a" * n)
        agree(scaled, np.ones(2), "")
    entries = explain(scaled)[0].entries
    assert len(entries) == MAX_SIGNATURES and entries[0].calls > MAX_SIGNATURES  # used all the time, it stays
    agree(scaled, np.ones(2), "a")


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def chain(x: Any) -> Any:
        return np.sum(np.cumsum(np.cumsum(x) * x) * x)

    for n in [*range(1000, 1010)] * 2:
        agree(chain, np.ones(n))
    kept = [entry.nbytes for entry in explain(chain)[0].entries]
    assert len(kept) == 10 and min(kept) > 8000
    monkeypatch.setattr(config, "cache_bytes", sum(kept) // 2)
    for n in range(1010, 1013):
        agree(chain, np.ones(n))
    assert 3 <= len(explain(chain)[0].entries) < 10
    assert sum(entry.nbytes for entry in explain(chain)[0].entries) <= config.cache_bytes


class Item:
    def __init__(self, name: str) -> None:
        self.name, self.calls = name, 0


def test_second_chance() -> None:
    dropped: list[str] = []
    shelf: Shelf[Item] = Shelf(lambda item: 1, lambda: 3, lambda item: dropped.append(item.name))
    items = [Item(name) for name in "abcde"]
    for item in items[:3]:
        shelf.add(item)
    items[0].calls += 1
    shelf.add(items[3])
    assert dropped == ["b"] and shelf.total == 3
    shelf.add(items[4])
    assert dropped == ["b", "c"]
    shelf.remove(items[0])
    assert shelf.total == 2


def test_the_latest_is_kept() -> None:
    """Also where all others have been used since somebody looked."""
    dropped: list[str] = []
    shelf: Shelf[Item] = Shelf(lambda item: 1, lambda: 2, lambda item: dropped.append(item.name))
    items = [Item(name) for name in "abc"]
    for item in items:
        shelf.add(item)
        item.calls += 1
    assert dropped == ["a"]
    shelf.changed(items[1])
    assert shelf.total == 2 and dropped == ["a"]


def test_sizes_are_not_summed_for_each_of_many() -> None:
    asked: list[str] = []
    dropped: list[str] = []
    limit = [10_000]
    shelf: Shelf[Item] = Shelf(lambda item: asked.append(item.name) or 1, lambda: limit[0],  # type: ignore[func-returns-value]
                               lambda item: dropped.append(item.name))  # fmt: skip
    for n in range(1000):
        shelf.add(Item(str(n)))
    assert len(asked) < 20_000 and not dropped
    limit[0] = 100
    shelf.add(Item("last"))
    assert shelf.total == 100 and dropped == [str(n) for n in range(901)]
