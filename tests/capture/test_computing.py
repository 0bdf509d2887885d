"""Functions that do more than to compute are followed: nothing that they do may go unseen, or happen twice."""

from __future__ import annotations

import builtins
import dataclasses
import gc
import weakref
from collections import defaultdict, namedtuple
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.ma
import pytest

from yota_py import check_grads, config, value_and_grad
from yota_py.cache.modes import Gradient, Request
from yota_py.capture.computing import _known, computing
from yota_py.reverse.eager import Eager

P, Q = np.array([0.4, -1.3, 2.1, 0.7]), np.array([1.0, 2.0, 3.0, 4.0])
A, B, BUF = np.arange(4.0), np.ones(4) * 3, np.zeros(4)
LOG: list[Any] = []
Pair = namedtuple("Pair", ["get", "reshape"])


@pytest.fixture(autouse=True)
def nothing_is_done() -> Any:
    BUF[:] = 0.0
    LOG.clear()
    yield
    assert not any(type(x) is Eager for x in LOG)


def at_once(f: Callable[..., Any], *args: Any) -> Any:
    return Gradient(0).at_once(Request(f, args, {}))


def impure(*xs: Any) -> Any:
    LOG.append(xs[0])
    return 0.0


class Single(type):
    """Keeps what it is called with."""

    def __call__(cls, x: Any) -> Any:
        LOG.append(x)
        return super().__call__(x)


@dataclasses.dataclass
class Kept(metaclass=Single):
    """A container that somebody hears of."""

    x: Any


@dataclasses.dataclass
class Filled:
    """A container that calls something when it is made."""

    x: Any
    y: Any = dataclasses.field(default_factory=lambda: impure(1.0))


@dataclasses.dataclass
class Computed:
    """A container with an attribute that is computed when it is asked for."""

    x: Any

    @cached_property
    def size(self) -> Any:
        return impure(1.0)


class Tagged(np.ndarray):
    """An array that counts its views."""

    def __array_finalize__(self, obj: Any) -> None:
        LOG.append(1.0)


class Number(np.float64):
    """A number that keeps what it is made of."""

    def __new__(cls, x: Any) -> Any:
        LOG.append(x)
        return super().__new__(cls, 1.0)


TAGGED = np.zeros(4).view(Tagged)
COMPUTED, FUNCTIONS, TABLE = Computed(1.0), [np.tanh], {np.sin: 1.0, impure: 2.0}
MULTIPLY, INTO = partial(np.multiply, A, B), partial(np.multiply, out=BUF)
PAIR, COUNTED = Pair(np.add, np.add), defaultdict(list)


def of_free_name() -> Any:
    def h(a: Any, b: Any, c: Any) -> Any:
        return 0.0

    def f(x: Any) -> Any:
        y = h(x, 1, 2)
        (lambda h: h(A, B, BUF))(np.multiply)
        return np.sum(x * BUF) + y

    return f


def of_free_name_in_a_list() -> Any:
    def h(a: Any, b: Any, c: Any) -> Any:
        return 0.0

    def f(x: Any) -> Any:
        y = h(x, 1, 2)
        [h(A, B, BUF) for h in (np.multiply,)]
        return np.sum(x * BUF) + y

    return f


def of_free_module() -> Any:
    m = np

    def f(x: Any) -> Any:
        def g(m: Any) -> Any:
            return (lambda: m.append(x[0]))()

        g(LOG)
        return m.sum(x)

    return f


def long(body: str) -> Any:
    """A function with more local variables than an instruction can number by itself."""
    names = "\n".join(f"    v{i} = {i}" for i in range(300))
    space = {"np": np, "A": A, "B": B, "BUF": BUF, "LOG": LOG}
    exec(f"def f(x, c=True):\n{names}\n{body}", space)
    return space["f"]


def method_under_a_name(x: Any) -> Any:
    into = A.dot
    into(np.ones((4, 4)), BUF)
    return np.sum(x)


def method_of_what_was_computed(x: Any) -> Any:
    into = (A * 1.0).dot
    into(np.ones((4, 4)), BUF)
    return np.sum(x)


def method_of_what_was_called(x: Any) -> Any:
    into = np.sqrt(A).dot
    into(np.ones((4, 4)), BUF)
    return np.sum(x)


def method_as_default(x: Any) -> Any:
    def inner(y: Any, into: Any = (A * 1.0).dot) -> Any:
        into(np.ones((4, 4)), BUF)
        return np.sum(y)

    return inner(x)


def one_of_two(x: Any) -> Any:
    into = np.add if x[0] > 0 else np.multiply
    into(A, B, BUF)
    return np.sum(x)


def ufunc_in_a_tuple(x: Any) -> Any:
    for into in (np.add, np.multiply):
        into(A, B, BUF)
    return np.sum(x)


MORE: dict[str, Callable[..., Any]] = {
    "a partial that is given an array to write into": lambda x: np.sum(x) + np.sum(MULTIPLY(BUF)),
    "a partial that has one": lambda x: np.sum(x) + np.sum(INTO(A, B)),
    "map of a ufunc": lambda x: np.sum(x) + np.sum(sum(map(np.multiply, (A,), (B,), (BUF,)))),
    "map of a function": lambda x: np.sum(x) + np.sum(sum(map(np.fix, (A,), (BUF,)))),
    "conj": lambda x: np.sum(x) + np.sum(A.conj(BUF)),
    "max by a method": lambda x: np.sum(x) + max((A,), key=BUF.conj)[0],
    "a method that is handed on": lambda x: np.sum(x) + sum(map(A.dot, (B,))),
    "a field like a method": lambda x: np.sum(x) + np.sum(PAIR.get(A, B, BUF)),
    "a free name that is local elsewhere": of_free_name(),
    "the same in a comprehension": of_free_name_in_a_list(),
    "a free module": of_free_module(),
    "a class of a class": lambda x: np.sum(x) + np.sum(Kept(x).x),
    "a default that is made": lambda x: np.sum(x) + np.sum(Filled(x).x),
    "a property": lambda x: np.sum(x) + COMPUTED.size,
    "an array of the user's": lambda x: np.sum(x) + np.sum(np.reshape(TAGGED, (2, 2))),
    "a view of the user's": lambda x: np.sum(x) + np.sum(A.view(Tagged)),
    "a number of the user's": lambda x: np.sum(x) + Number(x[0]),
    "functions in a list": lambda x: np.sum(FUNCTIONS[0](x)),
    "functions as keys": lambda x: sum(w * np.sum(fn(x)) for fn, w in TABLE.items()),
    "a dict that grows": lambda x: np.sum(np.split(x, 2)[0]) * (len(COUNTED) + 1) + len(COUNTED["k"]),
    "memory mapped": lambda x: np.sum(x) + np.sum(np.memmap("there is none")),
    "a method under a local name": method_under_a_name,
    "a method of what was computed": method_of_what_was_computed,
    "a method of what was called": method_of_what_was_called,
    "a method as a default": method_as_default,
    "a method of a product": lambda x: np.sum(x) + np.sum((A * 1.0).dot(np.ones((4, 4)), BUF)),
    "a method of a sum in an axis": lambda x: np.sum(x) + np.sum((A + 1.0).cumsum(0, None, BUF)),
    "a method of what is taken": lambda x: np.sum(x) + np.sum((A * 1).take([0, 1, 2, 3], 0, BUF)),
    "a method of a negative": lambda x: np.sum(x) + np.sum((-A).conj(BUF)),
    "a masked array's function": lambda x: np.sum(x) + np.sum(np.ma.multiply(A, B, BUF)),
    "one of two ufuncs": one_of_two,
    "a ufunc in a tuple": ufunc_in_a_tuple,
    "long: joined": long("    y = BUF if c else 0.0\n    y += 1.0\n    return np.sum(x * y)"),
    "long: appended": long("    r = LOG if c else []\n    r.append(x[0])\n    return np.sum(x)"),
    "long: called": long("    g = np.multiply if c else (lambda *xs: 0)\n    g(A, B, BUF)\n    return np.sum(x)"),
}


@pytest.mark.parametrize("name", MORE)
def test_more_than_to_compute(name: str) -> None:
    assert computing(MORE[name]) is None
    assert at_once(MORE[name], P) is None
    assert not BUF.any() and not LOG and not COUNTED


def test_what_is_captured_may_change() -> None:
    values, scale = [1.0], {"s": 2.0}

    def f(x: Any) -> Any:
        return np.sum(x) * values[0] * scale["s"] + len(Q)

    for _ in range(2):
        assert at_once(f, P)[0][1][0] == 2.0
    values[0] = 3.0
    assert at_once(f, P)[0][1][0] == 6.0
    values.insert(0, 5.0)
    assert at_once(f, P)[0][1][0] == 10.0
    scale["s"] = impure  # type: ignore[assignment]
    assert at_once(f, P) is None and not LOG


def test_builtins_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return np.sum(x) * divmod(7, 2)[0]

    assert at_once(f, P) is not None
    monkeypatch.setattr(builtins, "divmod", impure)
    result = at_once(f, P)
    monkeypatch.undo()
    assert result is None and not LOG
    space = {"np": np, "__builtins__": {"sum": impure}}
    exec("def g(x): return np.sum(x) + sum(x)", space)
    assert at_once(space["g"], P) is None and not LOG


def test_a_name_that_is_bound_no_more() -> None:
    config.compile = "never"

    def made() -> Any:
        s = 2.0

        def f(x: Any, use: bool = False) -> Any:
            return np.sum(x) * s if use else np.sum(x)

        def forget() -> None:
            nonlocal s
            del s

        return f, forget

    f, forget = made()
    assert at_once(f, P) is not None
    forget()
    assert value_and_grad(f)(P)[0] == np.sum(P)
    with pytest.raises(NameError):
        value_and_grad(f)(P, True)


def test_functions_that_reach_themselves_are_not_kept_alive() -> None:
    def calling_each_other() -> Any:
        table = np.ones(4)

        def f(x: Any, n: int = 2) -> Any:
            return np.sum(x * table) if n == 0 else g(x, n - 1)

        def g(x: Any, n: int) -> Any:
            return f(x, n) * 2.0

        return f

    def in_a_dict() -> Any:
        table: dict[str, Any] = {"a": np.ones(4)}

        def f(x: Any) -> Any:
            return np.sum(x * table["a"])

        table["f"] = lambda x: f(x)
        return f

    def in_its_own_space() -> Any:
        space = {"np": np}
        exec("def f(x, n=2):\n    return np.sum(x) if n == 0 else f(x, n - 1)", space)
        return space["f"]

    gc.collect()
    before = len(_known)
    for made in (calling_each_other, in_a_dict, in_its_own_space):
        for _ in range(3):
            f = made()
            at_once(f, P)
            gone = weakref.ref(f)
            del f
            gc.collect()
            assert gone() is None
    assert len(_known) == before


def test_functions_that_are_arguments_of_others() -> None:
    config.compile = "never"

    def rk4(f: Any, t: Any, y: Any, h: Any) -> Any:
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(t + h, y + h * k3))

    def loss(p: Any) -> Any:
        def slope(t: Any, y: Any) -> Any:
            return np.array([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * np.cos(t) * y[0] - p[3] * y[1]])

        y = np.array([1.0, 1.0])
        for i in range(20):
            y = rk4(slope, 0.1 * i, y, 0.1)
        return np.sum(y**2)

    p = np.array([1.0, 0.5, 0.4, 0.8])
    assert at_once(loss, p) is not None
    check_grads(loss, p)
