"""Functions with a memory (``functools.lru_cache``) that a compiled function calls: it gets what they remember."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from roads import Make, Program, agrees_under_grad, left_behind, served


def reads_what_has_changed_since(jit: Any) -> Program:
    table = {"a": 1.0}

    @functools.lru_cache
    def rate(key: str) -> Any:
        return table[key]

    return Program(lambda x: x * rate("a"), lambda i: (table.update(a=1.0 + i // 3), i == 5 and rate.cache_clear()))


def counts_its_calls(jit: Any) -> Program:
    n = [0]

    @functools.lru_cache
    def rate(a: int, b: float) -> float:
        n[0] += 1
        return 2.0 * n[0]

    return Program(lambda x: x * rate(1, 2.0), lambda i: i == 4 and rate.cache_clear(), lambda: n)


def counts_after_something_has_happened(jit: Any) -> Program:
    n, w = [0.0], np.zeros(3)

    @functools.lru_cache
    def rate(key: str) -> Any:
        return n[0] + w[0]

    def f(x: Any) -> Any:
        w[:] = w + x
        n[0] += 1.0
        return x * rate("a")

    return Program(f, lambda i: i == 6 and rate.cache_clear(), lambda: (n, w))


def returns_an_array(jit: Any) -> Program:
    @functools.cache
    def basis(n: int) -> Any:
        return np.arange(3.0) * n

    return Program(lambda x: x * basis(2) + basis(3), lambda i: basis(2).__setitem__(0, i), lambda: basis(2))


def returns_containers(jit: Any) -> Program:
    @functools.lru_cache(maxsize=2)
    def nodes(n: int, *, half: bool = True) -> Any:
        return np.arange(3.0) * n, [1.0 * n, {"w": np.ones(3)}]

    def f(x: Any) -> Any:
        points, (weight, more) = nodes(2)
        return x * points * weight + more["w"]

    return Program(f, lambda i: nodes(2)[1].__setitem__(0, 1.0 + i // 3), lambda: nodes(2))


def is_a_method(jit: Any) -> Program:
    class Model:
        k = 1.0

        @functools.lru_cache  # noqa: B019
        def rate(self, n: int) -> float:
            return self.k * n

        @staticmethod
        @functools.lru_cache
        def basis(n: int) -> Any:
            return np.full(3, float(n))

        def step(self, x: Any) -> Any:
            return x * self.rate(2) + self.basis(3)

    model = Model()
    return Program(model.step, lambda i: (setattr(model, "k", 1.0 + i // 3), i == 4 and Model.rate.cache_clear()))


def calls_another(jit: Any) -> Program:
    start = np.ones(3)

    @functools.cache
    def inner(n: int) -> Any:
        return start * n

    @functools.cache
    def outer(n: int) -> Any:
        return inner(n).sum()

    return Program(lambda x: x * outer(3) + start, lambda i: start.__setitem__(0, i))


def is_written_into(jit: Any) -> Program:
    @functools.cache
    def buffer(n: int) -> Any:
        return np.zeros(n)

    def f(x: Any) -> Any:
        total = buffer(3)
        total += x
        return total * 2.0

    return Program(f, lambda i: i == 4 and buffer.cache_clear(), lambda: buffer(3))


def is_called_with_what_varies(jit: Any) -> Program:
    n = [0]

    @functools.lru_cache
    def rate(k: float) -> float:
        n[0] += 1
        return k * n[0]

    return Program(lambda x: x * rate(float(x[0]) // 3), state=lambda: n)


def is_called_with_keywords(jit: Any) -> Program:
    n = [0]

    @functools.lru_cache
    def rate(*, k: float) -> float:
        n[0] += 1
        return k * n[0]

    return Program(lambda x: x * rate(k=2.0), lambda i: i == 4 and rate.cache_clear(), lambda: n)


def raises(jit: Any) -> Program:
    n = [0]

    @functools.lru_cache
    def rate(k: int) -> float:
        n[0] += 1
        raise ValueError(f"no rate {k}")

    return Program(lambda x: x * rate(1), state=lambda: n)


COMPILED: list[Make] = [
    reads_what_has_changed_since, returns_an_array, returns_containers, is_a_method, calls_another, is_written_into,
    counts_its_calls, counts_after_something_has_happened,
]  # fmt: skip
CALLED: list[Make] = [is_called_with_what_varies, is_called_with_keywords, raises]


@pytest.mark.parametrize("make", COMPILED, ids=lambda make: make.__name__)
def test_under_jit(make: Make) -> None:
    assert served(make) >= 1


@pytest.mark.parametrize("make", CALLED, ids=lambda make: make.__name__)
def test_called_under_jit(make: Make) -> None:
    assert served(make) == 0


@pytest.mark.parametrize("make", [
    reads_what_has_changed_since, returns_an_array, returns_containers, is_a_method, calls_another, counts_its_calls,
    is_called_with_keywords,
], ids=lambda make: make.__name__)  # fmt: skip
def test_under_grad(make: Make) -> None:
    agrees_under_grad(make)
    assert left_behind() == []
