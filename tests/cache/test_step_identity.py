"""Which objects a step returns and compares: the same ones as the plain function, call by call."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest
from steps import runs_as_plain

from yota_py import explain, grad, jit
from yota_py.errors import YotaError


class Box:
    """Holds attributes."""


def test_captured_containers_are_returned_themselves() -> None:
    box, pair, items, table = Box(), (np.ones(2), (np.zeros(2), 1.0)), [1.0, np.ones(2)], {"a": np.ones(2)}
    box.pair, box.w = pair, pair[0]  # type: ignore[attr-defined]
    bound = functools.partial(lambda w, x: w * x, box.w)  # type: ignore[attr-defined]
    for f, want in [
        (lambda: pair, pair), (lambda: pair[1], pair[1]), (lambda: items, items), (lambda: table, table),
        (lambda: box, box), (lambda: box.pair, pair), (lambda: box.w, pair[0]), (lambda: [pair][0], pair),  # type: ignore[attr-defined]
        (lambda: {"p": pair}["p"], pair), (lambda: bound, bound),
    ]:  # fmt: skip
        fast = jit(f)
        assert all(fast() is want for _ in range(4))
        assert explain(fast)[0].calls == 3


def test_arguments_are_returned_themselves() -> None:
    pair = (np.ones(2), (np.zeros(2), 2.0))
    fast = jit(lambda p, x: (p, p[1], x, p[0], (p, x), x[1:]))
    for _ in range(4):
        x = np.arange(3.0)
        a, b, c, d, e, tail = fast(pair, x)
        assert a is pair and b is pair[1] and c is x and d is pair[0] and e == (pair, x) and tail.base is x
    assert explain(fast)[0].calls == 3


def test_arrays_that_become_one() -> None:
    def make() -> Any:
        box = Box()
        box.a, box.b = np.ones(2), np.ones(2)

        def step() -> Any:
            return 1.0 if box.a is box.b else 2.0, box.a is not box.b

        def arguments(i: int) -> tuple[Any, ...]:
            box.b = box.a if i in (3, 4) else np.ones(2)
            return ()

        return step, arguments, lambda: None

    runs_as_plain(make, compiled=3)


def test_arguments_that_are_one() -> None:
    def make() -> Any:
        x, y = np.ones(2), np.zeros(2)

        def step(a: Any, b: Any) -> Any:
            return a + 1 if a is b else a + b

        return step, lambda i: (x, x) if i in (3, 4) else (x, y), lambda: (x, y)

    runs_as_plain(make, compiled=1)


def test_who_shares_memory() -> None:
    def make() -> Any:
        box = Box()
        box.a, box.b = np.ones(4), np.ones(4)

        def step() -> Any:
            return np.shares_memory(box.a, box.b), np.may_share_memory(box.a[1:], box.b)

        def arguments(i: int) -> tuple[Any, ...]:
            box.b = box.a[1:] if i == 3 else np.ones(4)
            return ()

        return step, arguments, lambda: None

    runs_as_plain(make)


def test_identities_as_keys() -> None:
    """An optimiser that knows its parameters by ``id``."""

    def make() -> Any:
        params, memory = [np.ones(2), np.zeros(3)], {}

        def step() -> Any:
            for i, p in enumerate(params):
                at = [id(q) for q in params].index(id(p))
                memory[i] = memory.get(i, 0.0) + at
                p += at + 1
            return None

        return step, lambda i: (), lambda: (params, memory)

    runs_as_plain(make)


def test_ids_of_traced_values_are_refused() -> None:

    with pytest.raises(YotaError, match="id"):
        grad(lambda x: x * (id(x) > 0), 2.0)


def test_partials_over_arrays() -> None:
    def make() -> Any:
        w = np.ones(3)
        weigh = functools.partial(lambda w, more, x: np.sum(w * x) + more["k"].sum(), w, {"k": w})

        def step(x: Any) -> Any:
            w[:] += 1
            return weigh(x)

        return step, lambda i: (np.arange(3.0) + i,), lambda: w

    runs_as_plain(make, compiled=6)


@pytest.mark.parametrize("dtype", [">f8", ">i4", "<f4"])
def test_arrays_of_any_byte_order(dtype: str) -> None:
    def make() -> Any:
        box, given = Box(), np.arange(4).astype(dtype)
        box.b = np.arange(4).astype(dtype)

        def step(x: Any) -> Any:
            box.b[0] += 1
            x[1] += 2
            return box.b, box.b * 2, box.b[1:], x, x[::2], x + 1

        return step, lambda i: (given,), lambda: (box.b, given)

    runs_as_plain(make)


def test_powers_that_become_complex() -> None:
    def make() -> Any:
        box = Box()

        def step(x: Any) -> Any:
            return x**0.5, box.p**1.5, abs(x) ** box.p

        def arguments(i: int) -> tuple[Any, ...]:
            box.p = [2.0, 1.0, -2.0, 3.0, 0.5, -1.0, 4.0, 2.0][i]
            return ([4.0, -4.0, 2.0, -1.0, 3.0, 2.0, -9.0, 1.0][i],)

        return step, arguments, lambda: None

    runs_as_plain(make, compiled=2)


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass(frozen=True)
class Kept:
    best: Any
    inner: Any = None


def test_namedtuples_and_dataclasses_hold_the_callers_containers() -> None:
    state, table, root = {"n": 0, "w": np.ones(2)}, [np.zeros(2)], Kept(np.ones(2), [1.0])

    def f(s: Any, x: Any) -> Any:
        s["n"] += 1
        s["w"] = s["w"] + x
        both = [x, table]
        return Pair(s, Pair(both, [both])), Kept(s["w"], Kept(root, both))

    step = jit(f)
    for i in range(5):
        pair, kept = step(state, np.ones(2) * i)
        assert pair.a is state and pair.b.a is pair.b.b[0] is kept.inner.inner, i
        assert pair.b.a[1] is table and kept.inner.best is root and kept.best is state["w"], i
    assert sum(entry.calls for entry in explain(step)) >= 2, str(explain(step))


def test_views_that_numpy_does_not_make() -> None:
    def f(w: Any, x: Any) -> Any:
        same = [v is w for v in (np.squeeze(w), np.atleast_1d(w), w.real, np.real(w), np.ravel(w), w[:])]
        v = np.squeeze(w)
        v += x
        return same, v, np.atleast_1d(v)

    step = jit(f)
    for i in range(4):
        w = np.ones(2) * i
        same, v, u = step(w, 1.0)
        assert same == [True] * 4 + [False] * 2 and v is u is w, i
        assert w[0] == i + 1.0


@dataclass
class Ring:
    w: Any
    next: Any = None


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
def test_arguments_that_hold_themselves() -> None:
    def make() -> Any:
        ring, items = Ring(np.ones(2)), [1, np.ones(2)]

        def step(r: Any, items: Any, x: Any) -> Any:
            items[0] += 1
            r.w = r.w * x
            r.next = r if items[0] % 3 == 0 else None
            return r.w + items[0]

        def args(i: int) -> tuple[Any, ...]:
            if i == 4:
                items.append(items)
            if i == 6:
                items.pop()
            return ring, items, 1.0 + i

        return step, args, lambda: (ring.w, items[:2], ring.next is ring)

    runs_as_plain(make)


class Kind(Enum):
    """Compared by identity."""

    ADAM, PLAIN = "adam", "plain"


def test_numbers_compared_by_identity() -> None:
    """A float that is given twice is one object, which a program cannot know."""

    def make() -> Any:
        box = Box()
        box.last, box.hits = None, 0  # type: ignore[attr-defined]

        def step(x: Any, y: Any) -> Any:
            box.hits += x is box.last  # type: ignore[attr-defined]
            box.last = x  # type: ignore[attr-defined]
            return box.hits, x is y, x is not y  # type: ignore[attr-defined]

        numbers = [0.5, 1.5]
        return step, lambda i: (numbers[i // 3 % 2], numbers[i % 2]), lambda: box.hits  # type: ignore[attr-defined]

    runs_as_plain(make, 12)


def test_enumerations_are_no_numbers() -> None:
    step = jit(lambda kind, x, rate: x * rate if kind is Kind.ADAM else x - rate)
    for i in range(6):
        kind = list(Kind)[i % 2]
        assert step(kind, 2.0 + i, 0.5) == ((2.0 + i) * 0.5 if kind is Kind.ADAM else 1.5 + i)
    assert sum(entry.calls for entry in explain(step)) >= 3


@pytest.mark.parametrize("where", ["captured", "argument"])
def test_other_byte_orders(where: str) -> None:
    def make() -> Any:
        w = np.arange(3.0).astype(">f8")

        def step(a: Any) -> Any:
            b = w if where == "captured" else a
            return b.dtype.byteorder, (b + 1).dtype, b.copy().dtype, np.zeros_like(b).dtype, b.astype(float, copy=False)

        return step, lambda i: (w * 2 if where == "captured" else w + i,), lambda: w.dtype

    runs_as_plain(make, 4)


class Watching:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.__dict__["asked"] = []

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return 1.0

    def __repr__(self) -> str:
        self.asked.append("repr")
        return "watching"


class Noting(dict[str, Any]):
    """Notes what is done with it."""

    notes = 0

    def __iter__(self) -> Any:
        Noting.notes += 1
        return dict.__iter__(self)

    def keys(self) -> Any:
        Noting.notes += 1
        return dict.keys(self)

    def values(self) -> Any:
        Noting.notes += 1
        return dict.values(self)

    def __len__(self) -> int:
        Noting.notes += 1
        return dict.__len__(self)

    def __getitem__(self, key: str) -> Any:
        Noting.notes += 100
        return dict.__getitem__(self, key)


def test_methods_of_the_users_are_called_by_the_function_alone(every_policy: None) -> None:
    def watched() -> Any:
        watching = Watching()
        return (lambda x: watching.z + x), lambda i: (1.0 + i,), lambda: watching.asked

    def noted() -> Any:
        Noting.notes = 0
        table = Noting(a=1.0)

        def state() -> Any:
            notes, Noting.notes = Noting.notes, 0
            return notes

        return (lambda q, x: q["a"] * x), lambda i: (table, 1.0 + i), state

    runs_as_plain(watched, 6)
    for call in range(2):  # one after the other: they share the class
        make = noted
        f, args, state = make()
        step, seen = (jit(f) if call else f), []
        for i in range(6):
            step(*args(i))
            seen.append(state())
        assert seen == [100] * 6
