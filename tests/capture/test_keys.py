"""Traced numbers as keys of dicts and in sets: plain numbers when the call has ended, and decisions meanwhile."""

from __future__ import annotations

import functools
import gc
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from steps import picture, runs_as_plain

from yota_py import grad, jacobian, jit, pullback, value_and_grad
from yota_py.capture import leftovers
from yota_py.errors import YotaError
from yota_py.tape.trees import opened


@pytest.fixture(autouse=True)
def _others_stay() -> None:
    """What holds keys is looked for among the objects of the test, unless they are not all."""
    gc.freeze()


class Table(dict[Any, Any]):
    """A user's dict."""


def pairs(d: Any, k: Any, x: Any) -> Any:
    d[k, 1] = x
    return d.get((k, 1))


def counted(d: Any, k: Any, x: Any) -> Any:
    d[k] = d.get(k, 0.0) + x


def grouped(d: Any, k: Any, x: Any) -> Any:
    d.setdefault((k % 2, "even"), []).append(x)


def filled(d: Any, k: Any, x: Any) -> Any:
    d.update(dict.fromkeys([(k,), k], x))


def nested(d: Any, k: Any, x: Any) -> Any:
    d[((k, (k, 2)), 1)] = {k: {(k,): x}}


def popped(d: Any, k: Any, x: Any) -> Any:
    d[k] = x
    return d.pop(k - 1, None)


def ordered(d: Any, k: Any, x: Any) -> Any:
    d[k % 3] = x
    if isinstance(d, OrderedDict):
        d.move_to_end(k % 3)
    if len(d) > 2:
        del d[next(iter(d))]


@pytest.mark.parametrize("change", [pairs, counted, grouped, filled, nested, popped, ordered])
@pytest.mark.parametrize("cls", [dict, OrderedDict, Table, lambda: defaultdict(float), Counter])
@pytest.mark.parametrize("number", [int, float])
def test_dicts(change: Callable[..., Any], cls: Any, number: Any, every_policy: None) -> None:
    def make() -> Any:
        table, state = cls(), SimpleNamespace(n=number(0))

        def step(x: Any) -> Any:
            state.n += 1
            return change(table, state.n, x)

        return step, lambda i: (1.0 + i,), lambda: (table, [*map(repr, table)], state)

    runs_as_plain(make, 7, shown=picture)


@pytest.mark.parametrize("how", ["add", "update", "in place", "tuples", "discard", "frozen", "new", "symmetric"])
@pytest.mark.parametrize("number", [int, float])
def test_sets(how: str, number: Any, every_policy: None) -> None:
    def make() -> Any:
        seen: set[Any] = set()
        state = SimpleNamespace(n=number(0), kept=frozenset())

        def step(x: Any) -> Any:
            nonlocal seen
            state.n += 1
            if how == "add":
                seen.add(state.n)
            elif how == "update":
                seen.update([state.n, x])
            elif how == "in place":
                seen |= {state.n}
            elif how == "tuples":
                seen.add((state.n, (x, 1)))
            elif how == "discard":
                seen.discard(state.n - 1)
                seen.add(state.n)
            elif how == "frozen":
                state.kept = frozenset([state.n, *state.kept])
            elif how == "new":
                return {state.n, x}, [{(state.n, 1)}]
            elif how == "symmetric":
                seen ^= {state.n % 3}
            return len(seen)

        return step, lambda i: (1.0 + i,), lambda: ([*map(repr, sorted(map(repr, seen)))], state.n, sorted(state.kept))

    runs_as_plain(make, 7, shown=lambda value: repr(value))


RESULTS: dict[str, Callable[..., Any]] = {
    "a pair": lambda x, k: {(k, 1): x},
    "in lists": lambda x, k: [{(1, k): x}, {k: k}],
    "of a number": lambda x, k: {(x * 2, "z"): x},
    "a set": lambda x, k: ({k, x}, frozenset([(k, x)])),
    "in an error": lambda x, k: (_ for _ in ()).throw(ValueError({(k, 1): x})),
    "a closure": lambda x, k: (lambda table: lambda: table)({(k,): x})(),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str, every_policy: None) -> None:
    runs_as_plain(lambda: (RESULTS[name], lambda i: (1.0 + i, (3, 1, 2, 5, 3, 1)[i]), lambda: None), 6, shown=repr)


def test_lookups_are_decisions() -> None:
    table = {1: 2.0, 2: 3.0, (1, 2): 4.0, (2, 2): 5.0}
    step = jit(lambda x, k: x * table[k] + table[k, 2] + (k in {2, 3}))
    for i in range(12):
        k = 1 + i % 2
        assert step(1.0 * i, k) == i * table[k] + table[k, 2] + (k in {2, 3})


def test_numbers_with_the_same_hash() -> None:
    """-1 and -2 have, and so has a whole number and a float."""
    table = {-1: 2.0, -2: 3.0, 2.0: 4.0}
    step = jit(lambda x, k: x * table[k])
    for k in (-1, -2, 2, -1, -2, 2.0, np.int64(-2), -1):
        assert step(1.0, k) == table[k]


def test_gradients() -> None:
    seen: set[Any] = set()
    cache: dict[Any, Any] = {}

    def remembered(x: Any) -> Any:
        local = {x: x * x, (x, 1): 3.0}
        return local[x] * local[x, 1]

    def kept(x: Any) -> Any:
        seen.add(x)
        cache[x, 1] = 2.0
        return x * cache[x, 1]

    for x in (1.0, 2.0, 3.0):
        assert grad(remembered, x) == (3 * x * x, (6 * x,))
        with suppress(YotaError):
            assert grad(kept, x) == (2 * x, (2.0,))
        assert all(type(key) is float for key in (*seen, *(key[0] for key in cache)))


def test_a_table_of_values_by_state_and_action() -> None:
    """As in reinforcement learning with a dict."""
    rng = np.random.default_rng(0)
    steps = [(int(s), int(a), float(r)) for s, a, r in zip(rng.integers(4, size=60), rng.integers(2, size=60),
                                                            rng.normal(size=60), strict=True)]  # fmt: skip

    def run(wrap: Callable[..., Any]) -> Any:
        values: dict[Any, Any] = {}

        def visit(state: Any, action: Any, reward: Any) -> Any:
            best = max((values.get((state, a), 0.0) for a in range(2)), default=0.0)
            values[state, action] = 0.9 * values.get((state, action), 0.0) + 0.1 * (reward + 0.5 * best)
            return values[state, action]

        visit = wrap(visit)
        return [visit(*step) for step in steps], values, [*map(repr, values)]

    have, want = run(jit), run(lambda f: f)
    np.testing.assert_allclose(have[0], want[0], rtol=1e-12)
    np.testing.assert_allclose([*have[1].values()], [*want[1].values()], rtol=1e-12)
    assert have[2] == want[2]


@dataclass(frozen=True)
class Key:
    """Is compared by what it holds."""

    a: Any


class Held:
    """Is compared by identity."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def get(self) -> Any:
        """What it holds."""
        return self.x


HOLDING: dict[str, Callable[[Any], Any]] = {
    "a closure": lambda x: lambda: x,
    "a closure in a tuple": lambda x: (1, lambda: x),
    "a method": lambda x: Held(x).get,
    "a partial": lambda x: functools.partial(float, x),
    "an object": lambda x: Held(x),
    "a frozen dataclass": lambda x: Key(x),
    "one in a tuple": lambda x: (Key((x, 1)), 2),
}


def plain_of(key: Any) -> Any:
    """What stands in a key, which must be plain."""
    if isinstance(key, tuple):
        return tuple(map(plain_of, key))
    if isinstance(key, Held | Key):
        return plain_of(key.x if isinstance(key, Held) else key.a)
    return key() + 0.0 if callable(key) else key + 0.0


@pytest.mark.parametrize("name", HOLDING)
@pytest.mark.parametrize("how", ["key", "member", "new key", "new member", "frozen"])
def test_keys_that_hold_traced_values(name: str, how: str, every_policy: None) -> None:
    def make() -> Any:
        table: dict[Any, Any] = {}
        seen: set[Any] = set()

        def step(x: Any) -> Any:
            key = HOLDING[name](x)
            if how == "key":
                table[key] = x * 2
            elif how == "member":
                seen.add(key)
            elif how == "frozen":
                return frozenset([key])
            else:
                return {key: x * 2} if how == "new key" else {key}
            return x

        def state() -> Any:
            return [sorted(repr(plain_of(key)) for key in keys) for keys in (table, seen)]

        return step, lambda i: (1.0 + i % 3,), state

    def shown(value: Any) -> Any:
        result, state = value
        return [repr(plain_of(key)) for key in result] if isinstance(result, dict | set | frozenset) else result, state

    runs_as_plain(make, 6, shown=shown)


class Named:
    """Has a hash of its own, which a helper computes."""

    __slots__ = ("_parts", "x")

    def __init__(self, x: Any) -> None:
        self.x, self._parts = x, [x, "name"]

    def __hash__(self) -> int:
        return self._hash()

    def _hash(self) -> int:
        return hash(tuple(self._parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.x == other.x

    def __repr__(self) -> str:
        return f"Named({self.x!r}, {self._parts!r})"


KEYS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x, "a tuple": lambda x: (x, 1),
    "a dataclass": Key, "one in a tuple": lambda x: (Key(x), 2), "one of a tuple": lambda x: Key((x, 1)),
    "one in another": lambda x: Key(Key(x)), "one in a frozenset": lambda x: frozenset([Key(x)]), "with slots": Named,
    "one that holds another": lambda x: Named(Key(x)), "computed": lambda x: Key(2 * x),
}  # fmt: skip


XS = (1.5, 2.5, 3.5, 1.5)


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("call", ["returned", "aux", "given", "stored", "jacobian", "list", "nested", "passed on"])
def test_keys_in_what_is_taken_apart(call: str, name: str, every_policy: None) -> None:
    """They keep plain numbers, also where the containers that hold them are taken apart in between."""
    make, stored, notes = KEYS[name], dict[Any, Any](), list[Any]()

    def table(x: Any) -> Any:
        return {make(x): x * x}

    def storing(x: Any, into: Any) -> Any:
        into[make(x)] = 3.0
        return into[make(x)] * x

    def noting(x: Any) -> Any:
        notes.append({make(x): x})
        return x * x

    def around(x: Any) -> Any:
        return value_and_grad(lambda d, y: sum(d.values()) * y, (0, 1))({make(x): 2.0 * x}, x)[1][1]

    for x in XS:
        if call == "returned":
            value, back = pullback(table, x)
            assert value == {make(x): x * x} and back({make(x): 1.0}) == (2 * x,)
        elif call == "aux":
            assert value_and_grad(lambda x: (x * x, table(x)), has_aux=True)(x) == ((x * x, {make(x): x * x}), 2 * x)
        elif call == "given":
            assert grad(storing, x, {}) == (3.0 * x, (3.0, {}))
        elif call == "stored":
            assert grad(lambda x: storing(x, stored), x) == (3.0 * x, (3.0,))
        elif call == "jacobian":
            assert jacobian(table)(x) == {make(x): 2 * x}
        elif call == "list":
            assert grad(noting, x) == (x * x, (2 * x,))
        elif call == "nested":
            assert grad(around, x) == (2.0 * x, (2.0,))
        else:
            grad(lambda x: storing(x, stored), x)
            assert grad(lambda d, y: y * 2.0 + sum(d.values()), stored, 1.0)[1][1] == 2.0
    assert [*stored] == [make(x) for x in XS[:3] if call in ("stored", "passed on")]
    kept = [key for table in (stored, *notes) for key in table]
    assert [*map(hash, kept)] == [hash(make(x)) for x in XS][: len(kept)]


class Node:
    """Is compared by identity."""

    def __init__(self, v: Any) -> None:
        self.v, self.h = v, 0


class Cached(Node):
    def __init__(self, v: Any) -> None:
        self.v, self.h = v, hash(v)

    def __hash__(self) -> int:
        return self.h

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and bool(self.v == other.v)


class Unnamed(Cached):
    __hash__ = lambda self: hash(self.v)  # type: ignore[assignment]  # noqa: E731


class Rounded(Cached):
    def __hash__(self) -> int:
        return int(self.v * 10) + (1 if self.v > 2 else 0)


class Deep(Cached):
    def __hash__(self) -> int:
        return self.mixed(12)

    def mixed(self, n: int) -> int:
        """A hash, many calls further."""
        return hash(self.v) if n == 0 else self.mixed(n - 1)


class Constant(Cached):
    def __hash__(self) -> int:
        return 0


@pytest.mark.parametrize("cls", [Node, Cached, Unnamed, Rounded, Deep, Constant])
def test_keys_that_hold_what_they_are_not_compared_by(cls: Callable[[Any], Any], every_policy: None) -> None:
    """However the hash of an object is computed, it is a key that keeps plain numbers, in all that is stored, returned
    or given."""
    seen, table, below, returned = set[Any](), dict[Any, Any](), {"a": dict[Any, Any]()}, list[Any]()

    def f(x: Any) -> Any:
        seen.add(cls(x))
        table[cls(x)] = 1
        below["a"][cls(x), 1] = 2 * x
        return x * x

    for x in (1.5, 2.5, 1.5, 1.5):
        assert grad(f, x) == (x * x, (2 * x,))
        value, _ = pullback(lambda x: {"q": [{cls(x): x * x}], "t": ({(cls(x), 2): x},)}, x)
        returned += [*value["q"][0], *(key[0] for key in value["t"][0])]
        (_, aux), _ = value_and_grad(lambda x: (x * x, {cls(x): 1.0}), has_aux=True)(x)
        returned += [*aux, *jacobian(lambda x: {cls(x): x * x})(x)]
        assert grad(lambda x, d: (d.__setitem__(cls(x), 1.0), x * x)[1], x, {}) == (x * x, (2 * x, {}))
    for keys in (seen, table, [key for key, _ in below["a"]]):
        assert sorted(key.v for key in keys) == ([1.5, 1.5, 1.5, 2.5] if cls is Node else [1.5, 2.5])
        assert {type(key.v) for key in keys} == {float}
    assert [key.v for key in returned] == [x for x in (1.5, 2.5, 1.5, 1.5) for _ in range(4)]
    assert {type(key.v) for key in returned} == {float}


def test_keys_in_tuples_of_any_depth() -> None:
    stored: dict[Any, Any] = {}
    assert grad(lambda x: stored.setdefault(((((((x,),),), 1),), "a"), 3.0) * x, 1.5) == (4.5, (3.0,))
    assert [*map(hash, stored)] == [hash(((((((1.5,),),), 1),), "a"))]


def test_keys_whose_hash_python_does_not_compute() -> None:
    """The containers of arguments are taken apart when the trace has ended."""
    assert grad(lambda x, d: (d.update({list[x]: 1.0}), x * x)[1], 1.5, {}) == (2.25, (3.0, {}))


def test_factories_of_default_dicts(every_policy: None) -> None:
    def step(x: Any) -> Any:
        table: Any = defaultdict(lambda: x)
        table["a"] += 1
        return table, defaultdict(list, b=[x]), defaultdict(float)

    runs_as_plain(lambda: (step, lambda i: (1.5 + i,), lambda: None), 5,
                  shown=lambda value: [dict(table, q=table["q"]) for table in value[0]])  # fmt: skip


def test_what_the_garbage_collector_leaves_alone() -> None:
    """``gc.freeze``, as servers call it before they fork: the tables that are there already are found all the same."""
    table: dict[Any, Any] = {"a": [], "members": {("a",)}}
    kept = frozenset([table["members"].copy])  # which it knows, and cannot change
    gc.freeze()
    assert grad(lambda x: table.setdefault((x, 1), 3.0) * x, 1.5) == (4.5, (3.0,))
    gc.freeze()
    assert grad(lambda x: (table["members"].add(x), 2.0 * x)[1], 2.5) == (5.0, (2.0,))
    gc.freeze()
    with pytest.raises(YotaError, match="keeps a traced value in a frozenset"):
        grad(lambda x: table.setdefault(kept | {x}, 3.0) * x, 1.5)
    gc.unfreeze()
    assert (1.5, 1) in table and [type(part) for part in [*table][2]] == [float, int]
    assert {type(member) for member in table["members"]} == {tuple, float}


def test_tables_that_have_gone_are_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """All objects are looked at where something may hold a key still; what is frozen, if that is not found."""
    searched: list[Any] = []

    def referrers(*keys: Any) -> list[Any]:
        searched.append(len(keys))
        return [holder for holder in gc.get_referrers(*keys) if holder is not keys]

    monkeypatch.setattr(leftovers, "gc", SimpleNamespace(**vars(gc) | {"get_referrers": referrers}))
    table: dict[Any, Any] = {}
    gc.freeze()
    assert grad(lambda x: {x: 2.0, (x, 1): 3.0}[x] * x + len({x * x, (x, x)}) * x, 1.5) == (6.0, (4.0,))
    assert not searched and gc.get_freeze_count()
    table = {"made": "later"}
    assert grad(lambda x: table.setdefault(x, 2.0) * x, 1.5) == (3.0, (2.0,))
    assert searched
    assert [*map(type, table)] == [str, float]


def test_a_question_for_referrers_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Python 3.13 its arguments refer to the keys, and would be looked for in turn, at each level."""
    asked, held = list[int](), leftovers._held_elsewhere

    def counted(keys: list[Any], holders: Any) -> list[Any]:
        asked.append(len(keys))
        return held(keys, holders)

    monkeypatch.setattr(leftovers, "_held_elsewhere", counted)
    table: dict[Any, Any] = {}
    assert grad(lambda x: table.setdefault((x, 1), 2.0) * x, 1.5) == (3.0, (2.0,))
    assert grad(lambda x: table.setdefault(x, 2.0) * x, 1.5) == (3.0, (2.0,))
    assert 2 <= len(asked) <= 12


class Changed(Cached):
    """Its hash is another when what it holds is."""

    def __hash__(self) -> int:
        return hash(self.v)


@dataclass
class Holder:
    x: Any


@pytest.mark.parametrize("around", [lambda d: d, lambda d: [(d, 1.0)], lambda d: {"a": d}, Holder])
@pytest.mark.parametrize("cls", [dict, OrderedDict, lambda pairs: defaultdict(float, pairs)])
@pytest.mark.parametrize("now", [2, [1]])
def test_keys_that_are_no_longer_found(around: Any, cls: Any, now: Any, every_policy: None) -> None:
    """They raise as they do in Python, and at each call: optree would end the process."""
    words = "unhashable" if type(now) is list else "does not find its own key, a (Changed|tuple)"
    if cls is OrderedDict:  # whose own iterator raises
        words = f"{words}|object at|changed size"

    def f(x: Any, tree: Any) -> Any:
        return x * x

    calls: list[Callable[[Any], Any]] = [
        lambda tree: grad(f, 2.0, tree), lambda tree: jit(f)(2.0, tree), lambda tree: jacobian(f)(2.0, tree),
        lambda tree: value_and_grad(lambda x: (x * x, tree), has_aux=True)(2.0),
        lambda tree: pullback(lambda x: (x * x, tree), 2.0),
    ]  # fmt: skip
    for call in calls:
        for changed in ("", "key", "inner", "key, inner", ""):
            key, inner = Changed(1), Changed(1)
            tree = around(cls([(key, 1.5), ((inner, 2), 2.5)]))
            key.v, inner.v = (now if name in changed else 1 for name in ("key", "inner"))
            if changed:
                with pytest.raises((LookupError, TypeError, RuntimeError), match=words):
                    call(tree)
            else:
                call(tree)


def test_containers_that_are_opened_are_asked_too() -> None:
    """One level at a time, as what a step has made is."""
    for cls in (dict, lambda pairs: defaultdict(float, pairs)):
        key = Changed(1)
        table = cls([(key, 1.5), ("a", [2.5])])
        assert opened(table)[0] == [1.5, [2.5]]
        key.v = 2
        with pytest.raises(LookupError, match="does not find its own key"):
            opened(table)
