"""State of all kinds that a step may have: namespaces, tuples as keys, sets of constants, cached properties, ..."""

from __future__ import annotations

import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
from steps import runs_as_plain

from yota_py import grad


def test_a_namespace() -> None:
    def make() -> Any:
        s = SimpleNamespace(n=0, w=np.ones(2), inner=SimpleNamespace(k=0.5))

        def step() -> Any:
            s.n += 1
            s.w = s.w * 2 + s.n
            s.inner.k = s.inner.k * 0.5 + float(np.tanh(s.w[0]))
            return s.n

        return step, lambda i: (), lambda: (vars(s.inner), s.n, s.w)

    runs_as_plain(make, compiled=6)


def test_a_namespace_is_given() -> None:
    def make() -> Any:
        s = SimpleNamespace(n=0, w=np.ones(2))

        def step(s: Any, x: Any) -> Any:
            s.n += 1
            s.w *= x
            return s.w.sum() * s.n

        return step, lambda i: (s, 0.5 + i), lambda: vars(s)

    runs_as_plain(make, compiled=6)


def test_tuples_as_keys() -> None:
    def make() -> Any:
        edges = {(0, 1): np.ones(2), (1, 2): np.zeros(2)}

        def step() -> Any:
            for key in edges:
                edges[key] = edges[key] * 2 + key[0]
            return edges[0, 1]

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 4:
                edges[2, 3] = np.ones(2)
            return ()

        return step, arguments, lambda: list(edges.values())

    runs_as_plain(make, compiled=4)


def test_sets_of_constants() -> None:
    def make() -> Any:
        w, frozen = np.ones(2), {"a", "b"}

        def step(name: str) -> Any:
            if name in frozen:
                w[:] += 1
            return w.sum()

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 5:
                frozen.add("c")
            return ("abc"[i % 3],)

        return step, arguments, lambda: w

    runs_as_plain(make, 12, compiled=5)


def test_sets_that_a_step_changes() -> None:
    def make() -> Any:
        seen: set[Any] = set()

        def step(name: str, x: Any) -> Any:
            new = name not in seen
            seen.add(name)
            return x * new

        return step, lambda i: ("abc"[i % 3], 0.5 + i), lambda: sorted(seen)

    runs_as_plain(make)


class Lazy:
    """Computes once."""

    def __init__(self) -> None:
        self.w, self.scale = np.ones(2), 2.0

    @functools.cached_property
    def doubled(self) -> Any:
        """At the first time only."""
        return self.w * self.scale


def test_cached_properties() -> None:
    def make() -> Any:
        lazy = Lazy()

        def step() -> Any:
            lazy.w = lazy.w + lazy.doubled
            return lazy.w.sum()

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 5:
                del lazy.doubled
            return ()

        return step, arguments, lambda: vars(lazy)

    runs_as_plain(make, 12, compiled=3)


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A state that is replaced."""

    w: Any
    t: int = 0


def test_frozen_dataclasses() -> None:
    def make() -> Any:
        box = {"state": Frozen(np.ones(2))}

        def step(state: Any) -> Any:
            return dataclasses.replace(state, w=np.tanh(state.w * 2 + state.t), t=state.t + 1)

        def advance() -> Any:
            box["state"] = taken(box["state"])
            return box["state"]

        taken = step
        return step, lambda i: (advance(),), lambda: box

    runs_as_plain(make, compiled=4)


def test_counters_as_keys() -> None:
    def make() -> Any:
        box = SimpleNamespace(n=0, memo={}, fixed={0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0, 4: 5.0})

        def step(x: Any) -> Any:
            box.n = (box.n * 7 + 3) % 5
            if box.n not in box.memo:
                box.memo[box.n] = x * box.n
            made = {box.n: x}
            return box.memo[box.n] * box.fixed[box.n], made

        return step, lambda i: (0.5 + i,), lambda: vars(box)

    runs_as_plain(make, 12)


def test_keys_that_a_gradient_leaves() -> None:
    memo: dict[Any, Any] = {}

    def f(x: Any, n: int) -> Any:
        memo[n] = 1.0
        return x * n

    for n in (1, 2, 3, 4, 5, 6, 5):
        assert grad(f, 2.0, n) == (2.0 * n, (float(n), None))
    assert [type(key) for key in memo] == [int] * 6 and [*memo] == [1, 2, 3, 4, 5, 6]
