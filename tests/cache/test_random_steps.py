"""Random steps with state, compiled, beside themselves as plain Python: results, state and aliases after each call.

A program is text: a function that reads and writes objects, containers and arrays, which are reached by several names,
and which the caller changes between the calls. ``make stress`` runs 3,000 programs; by default there are a few.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from performing import sharing
from sets import examples

from yota_py import config, explain, grad, jit, value_and_grad
from yota_py.base.generators import GENERATORS, NUMPYS, PYTHONS, put_back, state_of
from yota_py.cache import functions as cache
from yota_py.cache import policy
from yota_py.engine.schedule import fuse

SEQUENCES = examples(24)
PROGRAMS, CALLS = SEQUENCES * 3 // 4, 9  # programs by each policy
PARTS = 10 if SEQUENCES > 100 else 2

CLASSES = '''
class Child:
    """With a property, and a counter of its class."""
    made = 0

    def __init__(self, k):
        self._k, self.a = k, np.array([k, 2.0 * k])

    @property
    def scaled(self):
        return self._k * self.a

    @scaled.setter
    def scaled(self, value):
        self._k = self._k * 0.5 + 0.1 * float(np.tanh(np.sum(value)))

    def push(self, x):
        self.a = np.tanh(self.a + x)
        return self

    def __len__(self):
        return 3


class Special(Child):
    """Derived, with slots of its own and an overridden method."""

    __slots__ = ("extra",)

    def push(self, x):
        self.extra = getattr(self, "missing", 0.5) if False else 0.5
        return super().push(2 * x)


class Table(dict):
    """A dict with an attribute."""


class State:
    """All that a step works on."""

    limit = 3.0

    def __init__(self):
        self.w, self.b = np.linspace(0.1, 0.6, 4), np.ones((2, 2))
        self.n, self.r, self.flag, self.name, self.nothing = 0, 0.5, True, "a", None
        self.items, self.table = [0.5, np.array([0.25, 0.75])], {"k": 1.0, "a": np.zeros(2), "n": 0}
        self.pair, self.child, self.other = (1.0, 2), Child(0.5), Special(0.25)
        self.alias, self.shared = self.w, self.items
        self.rng, self.old = np.random.default_rng(3), np.random.RandomState(4)

    def total(self):
        return float(np.sum(self.w)) + self.r

    def tick(self, by=1):
        self.n += by
'''

ATOMS = ["x", "s.r", "s.pair[0]", "np.sum(s.w)", "s.items[0]", "s.table['k']", "np.mean(s.b)", "s.child.scaled[0]",
         "len(s.child)", "0.5", "s.total()", "s.w[-1]", "float(s.alias[0])", "s.n", "np.max(s.items[1])"]  # fmt: skip
TESTS = ["s.flag", "s.name == 'a'", "np.sum(s.w) > 0.7", "s.n % 2 == 0", "s.r > 0.4", "x > 0.5", "s.nothing is None",
         "s.table['n'] > 2", "float(s.w[0]) < s.r", "isinstance(s.other, Special)", "s.alias is s.w"]  # fmt: skip
STATEMENTS = [
    "s.w += np.tanh({0})", "s.w[{k}] = np.tanh({0})", "s.w = np.tanh(s.w * {0})", "v = s.w[1:]\nv *= np.tanh({0})",
    "s.b[0] = s.b[1] * np.tanh({0})", "s.b = s.b.T", "s.b -= 0.1 * np.tanh({0}) * s.b",
    "s.n += 1", "s.tick()", "s.tick(2)", "s.n = int(3 * np.tanh(abs({0})))", "s.r = float(np.tanh({0}))", "s.r *= 0.9",
    "s.r = 0.5", "s.n = 0", "s.flag = not s.flag", "s.flag = bool({0} > 0.5)", "s.name = 'b' if s.name == 'a' else 'a'",
    "s.nothing = None if s.flag else {0}", "s.items[0] = np.tanh({0})", "s.items[1] = s.items[1] * 0.5",
    "s.items[1][0] += np.tanh({0})", "s.shared[0] = round(float(np.tanh({0})), 2)", "local = s.items\nlocal[0] = 0.25",
    "s.table['k'] = np.tanh({0})", "s.table['a'] += np.tanh({0})", "s.table['n'] += 1", "s.table['a'] = s.items[1]",
    "for key in s.table:\n    s.table[key] = s.table[key] * 1", "s.pair = (np.tanh(s.pair[0] + {0}), s.pair[1] + 1)",
    "s.child.scaled = {0}", "s.child.push(np.tanh({0}))", "s.other.push(np.tanh({0}))", "s.child.a[0] = np.tanh({0})",
    "s.alias[0] = np.tanh({0})", "s.alias = s.w", "s.alias = s.w * 1.0", "s.w = s.alias",
    "_, g = value_and_grad(lambda w: np.sum(w * w * np.tanh({0})))(s.w)\ns.w -= 0.1 * g",
    "g = grad(lambda p: np.sum(np.sin(p['a'])) * p['k'], {{'a': s.table['a'], 'k': 2.0}})[1][0]\n"
    "s.table['a'] -= g['a']",
    "Child.made += 1", "State.limit = State.limit * 0.99", "np.tanh(s.w, out=s.w)",
    "s.child, s.other = s.other, s.child",
    "s.w, s.alias = s.alias, s.w", "s.items[1].fill(0.3)", "s.w.sort()", "np.add.at(s.w, [0, -1, 0], np.tanh({0}))",
    "k2 = int(np.argmax(s.w))\ns.w[k2] *= 0.5", "s.r = s.r if s.r < State.limit else 0.1",
    "if {t}:\n    raise ValueError(f'stopped at {{s.name}}')",
    # Masks that are other ones at each call, elements and rows that are written one by one, attributes of the object
    # that a gradient is taken in.
    "s.w[s.w < {0}] = 0.1", "s.w[s.w > 0.3] *= np.tanh({0})", "m = s.w > 0.3\ns.w[m] = np.cos(s.w)[m] * 0.5",
    "v = s.w[s.w > 0.25]\ns.r = float(np.tanh(np.sum(v * v)))", "s.b[s.b > {0}] = s.r",
    "s.r = float(np.sum(s.w[~(s.w > 0.4)]))",
    "s.n = len(s.w[s.w > 0.35])", "s.b[~np.isfinite(s.b)] = {0}", "s.r = float(np.mean(s.w, where=s.w < {0}))",
    "for i in range(1, len(s.w)):\n    s.w[i] = 0.3 * s.w[i - 1] + 0.1 * np.tanh({0})",
    "z = np.zeros((2, 2))\nfor i in range(2):\n    z[i] = s.b[1 - i] * {0}\ns.b = np.tanh(z)",
    "z = np.empty_like(s.w)\nfor i in range(len(z)):\n    z[i] = s.w[-1 - i] * 0.9\ns.w = z",
    "s.b[np.triu_indices(2)] *= np.tanh({0})", "s.b[[0, 1], [1, 0]] = np.tanh({0})",
    "_, g = value_and_grad(lambda w: np.sum(w[w > 0.2] ** 2) * np.tanh({0}))(s.w)\ns.w -= 0.1 * g",
    "def inner(w):\n    s.child._h = np.tanh(w * {0})\n    return np.sum(s.child._h)\n"
    "_, g = value_and_grad(inner)(s.w)\ns.w += 0.1 * g",
    "def inner(w):\n    u = w.copy()\n    for i in range(1, len(u)):\n        u[i] = u[i] * u[i - 1] + 0.1\n"
    "    return np.sum(u)\ng = grad(inner, s.w)[1][0]\ns.w -= 0.05 * g",
    # Random numbers, of generators that all share, and of those that the object holds.
    "s.w += 0.1 * np.random.normal(size=s.w.shape)", "s.r = s.rng.random()", "s.w *= s.rng.random(s.w.shape) < {0}",
    "s.w[s.old.randint(4)] = np.tanh({0})", "s.r = float(np.tanh(random.gauss({0}, 0.5)))",
    "s.old.shuffle(s.w)", "s.w = s.w[s.rng.permutation(len(s.w))]", "s.b = np.tanh(s.rng.normal(s.b, 1.0))",
    "s.n = int(s.rng.integers(3))", "s.rng = np.random.default_rng(5)", "np.random.seed(s.n)",
    "if s.rng.random() < 0.5:\n    s.r = np.random.rand()\nelse:\n    s.b[0] = s.old.normal(size=2)",
    "p = np.exp(s.w)\np /= np.sum(p)\ns.w[s.rng.choice(len(p), p=p)] *= 0.5",
    "_, g = value_and_grad(lambda w: np.sum(w * s.rng.normal(w, {0})))(s.w)\ns.w -= 0.1 * g",
    "g = grad(lambda w: np.sum(np.tanh(w) * (np.random.rand(len(w)) < 0.7)), s.w)[1][0]\ns.w -= 0.1 * g",
    "s.items[0] = s.rng.uniform(s.r, {0} + 3.0)", "s.table['k'] = np.random.choice([0.25, 0.5])",
    "rng = np.random.default_rng(s.n)\ns.r = rng.random()", "draw = s.rng.exponential\ns.r = draw(0.25)",
]  # fmt: skip
RESULTS = ["s.r", "s.n", "s.w", "s.w[1:]", "float({0})", "s.flag", "s.name", "s.pair", "s.items", "s.table",
           "({0}, s.b)", "{{'a': {0}, 'n': s.n}}", "s.child.scaled", "[s.w, s.alias]", "None", "s",
           "round(float({0}), 3)", "int(s.n)", "s.child", "s.total() > 1"]  # fmt: skip
BETWEEN: list[Callable[[Any, Any], None]] = [
    lambda s, m: setattr(s, "w", np.linspace(0.2, 0.4, 4)), lambda s, m: setattr(s, "alias", s.w),
    lambda s, m: setattr(s, "n", 7), lambda s, m: setattr(s, "r", 0.3), lambda s, m: setattr(s, "flag", True),
    lambda s, m: setattr(s, "items", [0.1, np.zeros(2)]), lambda s, m: setattr(s, "shared", s.items),
    lambda s, m: s.table.update(k=0.7), lambda s, m: setattr(s, "table", {"k": 0.5, "a": s.items[1], "n": 1}),
    lambda s, m: setattr(s, "w", np.linspace(0.1, 0.9, 5)), lambda s, m: setattr(s, "child", m["Child"](0.75)),
    lambda s, m: setattr(s, "r", np.float64(0.25)), lambda s, m: setattr(s, "pair", (0.5, 3)),
    lambda s, m: setattr(m["State"], "limit", 2.5), lambda s, m: setattr(s, "r", 1), lambda s, m: None,
    lambda s, m: s.w.__setitem__(0, 0.05), lambda s, m: setattr(s, "table", m["Table"](k=0.5, a=np.ones(2), n=0)),
    lambda s, m: setattr(s, "rng", np.random.default_rng(7)), lambda s, m: setattr(s, "old", np.random.RandomState(8)),
    lambda s, m: setattr(s, "w", s.w.astype(np.float32)), lambda s, m: setattr(s, "name", "c"),
]  # fmt: skip


def source(rng: random.Random) -> str:
    """A function of random statements, nested in decisions."""

    def text(template: str) -> str:
        return template.format(rng.choice(ATOMS), k=rng.randrange(4), t=rng.choice(TESTS))

    def block(count: int, depth: int) -> Iterator[str]:
        for _ in range(count):
            kind = rng.random()
            if depth and kind < 0.2:
                yield f"if {rng.choice(TESTS)}:"
                yield from (f"    {line}" for line in block(rng.randint(1, 2), depth - 1))
                if rng.random() < 0.5:
                    yield "else:"
                    yield from (f"    {line}" for line in block(1, depth - 1))
            elif depth and kind < 0.27:
                yield f"for i in range({rng.choice(['2', 's.n % 3', 'len(s.items)'])}):"
                yield from (f"    {line}" for line in block(1, depth - 1))
            else:
                yield from text(rng.choice(STATEMENTS)).splitlines()

    lines = [*block(rng.randint(2, 6), 2), f"return {text(rng.choice(RESULTS))}"]
    return "def f(s, x):\n" + "".join(f"    {line}\n" for line in lines)


def module(text: str) -> dict[str, Any]:
    """A module of the user's with this function, and a state in it."""
    names: dict[str, Any] = {"np": np, "random": random, "grad": grad, "value_and_grad": value_and_grad}
    names["__name__"] = "user_module"
    exec(compile(CLASSES + text + "\ns = State()\ndef of_global(x):\n    return f(s, x)\n", "<user>", "exec"), names)
    return names


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """The result, or the exception in words."""
    try:
        return f(*args)
    except (ValueError, TypeError, ArithmeticError, IndexError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


def compare(have: Any, want: Any, seen: set[int], small: float) -> None:
    """The same types and values, also in objects."""
    assert type(have).__name__ == type(want).__name__, (have, want)
    if id(want) in seen:
        return
    if isinstance(want, GENERATORS):
        assert repr(state_of(have)) == repr(state_of(want)), "a generator is in another state"
    elif isinstance(want, dict | list | tuple) or hasattr(want, "__dict__"):
        seen.add(id(want))
        a, b = (vars(v) if hasattr(v, "__dict__") else {} for v in (have, want))
        assert [*a] == [*b]
        a, b = [*a.values()], [*b.values()]
        if isinstance(want, dict):
            assert [*have] == [*want]
            a, b = [*a, *have.values()], [*b, *want.values()]
        elif isinstance(want, list | tuple):
            assert len(have) == len(want)
            a, b = [*a, *have], [*b, *want]
        for x, y in zip(a, b, strict=True):
            compare(x, y, seen, small)
    elif isinstance(want, np.ndarray | np.generic | float | int | complex):
        x, y = np.asarray(have), np.asarray(want)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert_allclose(x, y, rtol=small, atol=small)
    else:
        assert have == want


def links(result: Any, s: Any) -> Any:
    """Which of the arrays and containers are one, and which share memory."""
    named = [result, s.w, s.alias, s.items, s.shared, s.table, s.child, s.other, s.pair]
    return [a is b for i, a in enumerate(named) for b in named[:i]], sharing([result, vars(s)])


def check(seed: int, served: list[int]) -> None:
    """One program, nine calls."""
    rng = random.Random(seed)
    text = source(rng)
    mine, its = module(text), module(text)
    as_argument = bool(seed % 2)
    fast = jit(mine["f"] if as_argument else mine["of_global"])
    small = 1e-9
    for call in range(CALLS):
        x = rng.choice([0.25, 0.75, 0.5, np.float64(0.4)])
        for change in rng.sample(BETWEEN, rng.choice([0, 0, 0, 1, 2])):
            change(mine["s"], mine)
            change(its["s"], its)
            small = 1e-4 if mine["s"].w.dtype == np.float32 else small
        before = [state_of(g) for g in (NUMPYS, PYTHONS)]
        have = outcome(fast, mine["s"], x) if as_argument else outcome(fast, x)
        after = [state_of(g) for g in (NUMPYS, PYTHONS)]
        put_back(NUMPYS, before[0])
        put_back(PYTHONS, before[1])
        want = outcome(its["f"], its["s"], x) if as_argument else outcome(its["of_global"], x)
        try:
            compare((have, mine["s"], vars(mine["Child"])["made"], mine["State"].limit),
                    (want, its["s"], vars(its["Child"])["made"], its["State"].limit), set(), small)  # fmt: skip
            a, b = links(have, mine["s"]), links(want, its["s"])
            assert a == b, (a, b)
            assert repr(after) == repr([state_of(g) for g in (NUMPYS, PYTHONS)]), "shared generators differ"
        except AssertionError as error:
            raise AssertionError(f"program {seed}, call {call}, x = {x!r}\n{text}\n{error}") from None
    served.append(sum(entry.calls for entry in explain(fast)))


@pytest.mark.parametrize("policy_of", ["always", "auto"])
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_steps(part: int, policy_of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if policy_of == "auto":  # by a clock that counts its readings: the second call or the third compiles
        monkeypatch.setattr(config, "compile", "auto")
        monkeypatch.setattr(policy.price, "of", lambda operations: 4.0)
        monkeypatch.setattr(cache, "perf_counter", count().__next__)
        monkeypatch.setattr(policy, "perf_counter", count().__next__)
    if part % 2:  # operation by operation, however few there are
        monkeypatch.setattr(fuse, "APART", -1)
        monkeypatch.setattr(fuse, "REPEATED", 10**9)
    seeds = range(part, PROGRAMS, PARTS)
    served: list[int] = []
    for seed in seeds if policy_of == "always" else [seed + PROGRAMS for seed in seeds]:
        check(seed, served)
    assert sum(calls > 0 for calls in served) >= len(served) / 4, served
