"""Caching and state: what froze into a cached gradient elsewhere, line by line.

Each gradient is called at least three times with each input, and each call is compared with plain NumPy, with a fresh
interpretation, and with finite differences.
"""

from __future__ import annotations

import gc
import math
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import agree
from fresh import Function, rounds
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad
from yota_py.cache import functions as cache
from yota_py.engine.kernels import store as kernels
from yota_py.errors import MissingRuleError, MutationError

# -------------------------------------------------------- branch, loop count or slice bound depends on a value


def _halved(x: Any) -> Any:
    total, n = x[0], 0
    while total > 1:
        total, n = total / 2, n + 1
    return total * total + n * x[1]


def _newton(x: Any) -> Any:
    y = x[0] * 1.0
    for _ in range(50):
        step = (y * y - x[0]) / (2 * y)
        y = y - step
        if abs(step) < 1e-10:
            break
    return y


DECIDED: dict[str, Function] = {
    "if": lambda x: np.sum(x**2) if x[0] > 2 else np.prod(x),
    "if on a sum": lambda x: x[0] * x[1] if np.sum(x) > 9 else x[2] ** 3,
    "conditional in a list": lambda x: sum([v * v if v > 2.6 else 3 * v for v in x]),
    "while": _halved,
    "while with break": _newton,
    "range(int(x))": lambda x: sum((x[1] ** i for i in range(int(x[0]))), x[2]),
    "range(len(mask))": lambda x: sum((v * i for i, v in enumerate(x[x > 1.7], 1)), x[0]),
    "x[:k]": lambda x: np.sum(x[: int(x[0])] ** 2) * x[1],
    "x[k]": lambda x: x[int(x[0]) - 1] ** 2,
    "x[::k]": lambda x: np.sum(x[:: int(x[0])] ** 2),
    "bool": lambda x: x[0] * (2 + bool(x[1] > 2.6)) * x[2],
    "len": lambda x: np.sum(x**2) * len(x[x > 2.6]) + x[0],
    "size": lambda x: np.sum(x**2) / x[x > 1.2].size,
    "iteration": lambda x: sum((v * v for v in x[x > 1.7]), 0.0) + x[0],
    "unpacking": lambda x: (lambda first, *rest: first * len(rest) + first**2)(*x[x > 1.2]),
    "item": lambda x: x[0] ** (2 if x[1].item() > 2.6 else 3),
    "tolist": lambda x: x[0] ** [v > 1.7 for v in x.tolist()].count(True),
    "argmax": lambda x: x[np.argmax(x)] ** 2 * x[np.argmin(x)],
    "argsort": lambda x: np.sum(x[np.argsort(x)] * np.arange(3.0) ** 2) + x[0] ** 2,
    "count_nonzero": lambda x: np.sum(x**2) * np.count_nonzero(x > 2.6),
    "mask as a shape": lambda x: np.sum(np.ones(x[x > 1.7].shape)) * x[0] ** 2 + np.sum(x[x > 1.7] ** 2),
    "mask and reshape": lambda x: np.sum(x[x > 1.2].reshape(-1, 1) @ np.ones((1, 2))) * x[0],
    "zeros(int(x))": lambda x: np.sum(np.zeros(int(x[0])) + x[1]) * x[2],
    "math.floor": lambda x: x[0] * math.floor(x[1]) + x[2] ** round(x[0]),
    "and, or, not": lambda x: x[0] if (x[1] > 2.6 or not x[2] > 2.6) and x[0] > 1.2 else x[1] * x[2],
    "dict by value": lambda x: x[0] * {1: 2.0, 2: 5.0, 3: 7.0}[int(x[1])] ** 2,
    "try": lambda x: _indexed(x) ** 2,
    "any, all": lambda x: x[0] ** 2 if np.any(x > 3.2) else x[1] ** 3 if np.all(x > 1.2) else x[2],
}


def _indexed(x: Any) -> Any:
    try:
        return x[int(x[0] * 1.5)]
    except IndexError:
        return x[0]


@pytest.mark.parametrize("name", DECIDED)
def test_a_branch_loop_count_or_slice_bound_depends_on_a_value(name: str) -> None:
    f = DECIDED[name]
    rounds(f, *map(np.array, ([1.4, 2.3, 3.1], [3.4, 2.2, 1.5], [2.1, 3.6, 1.1], [2.9, 2.8, 2.7], [3.4, 1.4, 2.2])))


# ------------------------------------------------------------------------------- a name is bound to another thing


class Model:
    """An object with state."""

    def __init__(self, lr: Any, w: Any) -> None:
        self.lr, self.w = lr, w

    def loss(self, x: Any) -> Any:
        return self.lr * np.sum(np.sin(self.w * x))


def _by_cell() -> tuple[Function, list[Callable[[Any, Any, Any], None]]]:
    lr, w, helper = 0.5, np.ones(3), np.sin

    def put(a: Any, b: Any, c: Any) -> None:
        nonlocal lr, w, helper
        lr, w, helper = a, b, c

    return lambda x: lr * np.sum(helper(w * x)), [put]


def _by_namespace(source: str, make: Callable[[], Any]) -> tuple[Function, list[Callable[[Any, Any, Any], None]]]:
    store = make()
    names: dict[str, Any] = {"np": np, "store": store, "__name__": "user_module"}
    exec(source, names)

    def put(lr: Any, w: Any, helper: Any) -> None:
        target = names if store is None else store if isinstance(store, dict) else store.__dict__
        target.update(lr=lr, w=w, helper=helper)

    return names["f"], [put]


PLACES: dict[str, Callable[[], Any]] = {
    "closure cell": _by_cell,
    "global": lambda: _by_namespace("def f(x): return lr * np.sum(helper(w * x))", lambda: None),
    "global of a helper": lambda: _by_namespace(
        "def g(x): return helper(w * x)\ndef f(x): return lr * np.sum(g(x))", lambda: None
    ),
    "module attribute": lambda: _by_namespace(
        "def f(x): return store.lr * np.sum(store.helper(store.w * x))", lambda: types.ModuleType("settings")
    ),
    "attribute": lambda: _by_namespace(
        "def f(x): return store.lr * np.sum(store.helper(store.w * x))", types.SimpleNamespace
    ),
    "attribute by getattr": lambda: _by_namespace(
        "def f(x): return getattr(store, 'lr') * np.sum(getattr(store, 'helper')(vars(store)['w'] * x))",
        lambda: Model(1.0, 1.0),
    ),
    "item of a dict": lambda: _by_namespace(
        "def f(x): return store['lr'] * np.sum(store['helper'](store.get('w') * x))", dict
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_closure_cell_global_helper_or_attribute_is_rebound(place: str) -> None:
    f, [put] = PLACES[place]()
    states: list[tuple[Any, Any, Any]] = [
        (0.5, np.ones(3), np.sin),
        (0.7, np.ones(3), np.sin),
        (0.7, np.arange(1.0, 4.0), np.sin),
        (0.7, np.arange(1.0, 4.0), np.cos),
        (2, np.arange(1.0, 4.0), lambda y: y * y),
        (2, np.arange(1.0, 4.0), lambda y: y * y * y),
        (2, 0.3, lambda y: y * y),
        (np.float64(0.5), np.ones((2, 3)), np.tanh),
        (np.array(0.25), np.ones(1), np.exp),
    ]
    for lr, w, helper in [*states, *reversed(states)]:
        put(lr, w, helper)
        for i in range(4):
            agree(f, np.linspace(0.1, 1, 3) + i / 8)


def test_an_attribute_of_self_is_rebound() -> None:
    model = Model(0.5, np.ones(3))
    for lr, w in [(0.5, np.ones(3)), (0.7, np.ones(3)), (0.7, np.arange(3.0)), (1, np.ones(1)), (0.5, np.ones(3))]:
        model.lr, model.w = lr, w
        for i in range(4):
            agree(model.loss, np.linspace(0.1, 1, 3) + i)
            agree(Model(lr * 3, w + 1).loss, np.linspace(0.1, 1, 3) + i)


# ------------------------------------------------------------------ a captured array is mutated in place between calls

WRITES: dict[str, Callable[[np.ndarray, Any], Any]] = {
    "X[:] = batch": lambda a, batch: a.__setitem__(slice(None), batch),
    "X[...] = batch": lambda a, batch: a.__setitem__(..., batch),
    "X[1] = row": lambda a, batch: a.__setitem__(1, batch[1]),
    "X += batch": lambda a, batch: a.__iadd__(batch),
    "np.copyto": lambda a, batch: np.copyto(a, batch),
    "out=": lambda a, batch: np.multiply(batch, 2.0, out=a),
    "fill": lambda a, batch: a.fill(batch[0, 0]),
    "a view of it": lambda a, batch: a[::2].__setitem__(..., batch[::2]),
    "sort": lambda a, batch: (a.__isub__(batch), a.sort(axis=0)),
    "put": lambda a, batch: np.put(a, [0, 3], batch.flat[:2]),
}
HELD: dict[str, Callable[[np.ndarray], Function]] = {
    "closure": lambda a: lambda w: np.sum(np.sin(a @ w)),
    "default": lambda a: lambda w, a=a: np.sum(np.sin(a @ w)),
    "list": lambda a: (lambda items: lambda w: np.sum(np.sin(items[0] @ w)) + np.sum(items[1] @ w))([a, a[:1]]),
    "object": lambda a: (lambda box: lambda w: np.sum(np.sin(box.a @ w)))(types.SimpleNamespace(a=a)),
    "derived in f": lambda a: lambda w: np.sum((a - a.mean(0)) @ w) ** 2 + a.max() * w[0] + w[a.argmax() % 2],
    "read in a branch": lambda a: lambda w: np.sum(np.sin(a @ w)) if a[0, 0] > 1 else np.sum(w * w) + a[0, 1] * w[0],
    "as an index": lambda a: lambda w: w[int(a[0, 0]) % 2] ** 2 + np.sum(w[a.astype(int) % 2] * a),
    "view in f": lambda a: lambda w: np.sum(np.sin(a[::2, ::-1] @ w)) + np.sum(a.T[0] * w[1]),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("held", HELD)
def test_a_captured_array_is_mutated_in_place(held: str, write: str) -> None:
    a, rng = np.linspace(0.1, 1.6, 6).reshape(3, 2), np.random.default_rng(1)
    f = HELD[held](a)
    for _ in range(6):
        agree(f, rng.uniform(0.5, 1.5, 2))
        WRITES[write](a, rng.uniform(0.2, 1.8, a.shape))
        agree(f, rng.uniform(0.5, 1.5, 2))


# ----------------------------------------------------------------------------- buffers of a cached program not reset


def _filled_in(x: Any) -> Any:
    y = np.zeros((4, 3))
    y[1] = x
    y[1:3] += x * 2
    y[[0, 0, 3]] += x
    return np.sum(y**2)


BUFFERED: dict[str, Function] = {
    "sum": lambda x: np.sum(x * x) + np.sum(np.outer(x, x), 0)[1] + np.sum(np.outer(x, x), 1)[0],
    "repeated index": lambda x: np.sum(x[[0, 0, 1, 0, 2]] ** 2),
    "slices": lambda x: np.sum(x[1:] * x[:-1]) + np.sum(x[::2] ** 2),
    "assignment": _filled_in,
    "take": lambda x: np.sum(np.take(np.outer(x, x), [2, 2, 0], 1) ** 2),
    "product": lambda x: np.sum((np.outer(x, x) @ np.outer(x, x)) @ x) + x @ x,
    "cumsum": lambda x: np.sum(np.cumsum(x) ** 2) + np.sum(np.cumprod(x)),
    "max": lambda x: np.max(x * x) + np.min(np.outer(x, x)),
    "pad": lambda x: np.sum(np.pad(x, 2)[1:-1] ** 2) + np.sum(np.concatenate([x, np.zeros(2), x]) ** 2),
    "histogram": lambda x: np.sum(np.bincount([0, 1, 1], weights=np.ones(3)) * x[:2] ** 2),
    "one seed, many paths": lambda x: sum(((x * i) @ x for i in range(4)), 0.0),
    "no influence": lambda x: np.sum(np.sign(x)) + 0.0 * x[0],
    "broadcast": lambda x: np.sum(np.broadcast_to(x, (4, 3)) * np.arange(12.0).reshape(4, 3)),
}


@pytest.mark.parametrize("name", BUFFERED)
def test_buffers_are_reset(name: str) -> None:
    f, a, b = BUFFERED[name], np.array([0.3, 1.1, 0.7]), np.array([1.5, 0.2, 0.9])
    rounds(f, a, b)
    first, (first_g,) = grad(f, a)
    grad(f, b)
    for _ in range(5):
        again, (again_g,) = grad(f, a)
        assert again == first
        assert_array_equal(again_g, first_g)


# ---------------------------------------------------------------------- two closures of one code object; fresh lambdas


def test_two_closures_of_one_code_object_do_not_share() -> None:
    def make(g: Function, w: Any) -> Function:
        return lambda x: np.sum(g(x) * w)

    closures = [
        make(g, w)
        for g in (np.sin, np.cos, lambda x: x * x, lambda x: x * x * x, np.maximum.reduce)
        for w in (np.ones(3), np.arange(3.0), np.ones((2, 3)), 2.0, 3.0, np.float32(2))
    ]
    for i in range(4):
        for f in closures:
            agree(f, np.array([0.1, 0.5, 0.4]) + i / 4)


def test_fresh_lambdas_hit_and_are_not_taken_for_dead_ones() -> None:
    def make(w: Any, g: Function) -> Function:
        return lambda x: np.sum(g(x) * w)

    x = np.array([0.1, 0.5, 0.4])
    for _ in range(3):
        agree(make(1.0, np.sin), x)
    known, size = kernels.count(), len(cache.caches)
    for i in range(20):
        agree(make(1.0, np.sin), x + i / 8)
    assert (kernels.count(), len(cache.caches)) == (known, size)
    addresses = set()
    for i in range(20):  # the same addresses again, for other arrays and functions
        f = make(np.full(3, i / 8), (lambda k: lambda y: y * k)(i))
        addresses.add(id(f))
        agree(f, x)
        del f
        gc.collect(1)  # of the young ones, which these are
    assert len(addresses) < 20


# -------------------------------------------------------------------------------- random numbers and side effects


@pytest.mark.parametrize("size", [None, 3, (2, 3)])
@pytest.mark.parametrize("how", ["captured", "global state", "argument", "made inside"])
def test_random_numbers_are_not_frozen(how: str, size: Any) -> None:
    rng, seeds = np.random.default_rng(7), iter(range(100))
    draws: dict[str, Function] = {
        "captured": lambda x, r: np.sum(x * rng.normal(size=size)),
        "global state": lambda x, r: np.sum(x * np.random.normal(size=size)),
        "argument": lambda x, r: np.sum(x * r.normal(size=size)),
        "made inside": lambda x, r: np.sum(x * np.random.default_rng(next(seeds)).normal(size=size)),
    }
    x, seen = np.array([1.0, 2.0, 3.0]), []
    for _ in range(6):
        value, (g, none) = grad(draws[how], x, rng)
        assert_allclose(value, g @ x, rtol=1e-12)  # linear: the same numbers in value and gradient
        assert none is None
        seen.append(float(value))
    assert len(set(seen)) == 6


def test_a_seed_reproduces_the_random_numbers() -> None:
    f = lambda x: np.sum(x * np.random.rand(3))  # noqa: E731
    x = np.arange(1.0, 4.0)
    for seed in (0, 1, 2, 0, 1, 2):
        np.random.seed(seed)
        want = f(x)
        np.random.seed(seed)
        assert_allclose(grad(f, x)[0], want, rtol=1e-12)


# What a function does besides computing, and how often it has done so.
EFFECTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], float]]] = {
    "append": (lambda log: log.list.append(1), lambda log: len(log.list)),
    "item": (lambda log: log.dict.update(n=log.dict["n"] + 1), lambda log: log.dict["n"]),
    "attribute": (lambda log: setattr(log, "calls", log.calls + 1), lambda log: log.calls),
    "generator": (lambda log: next(log.iterator), lambda log: next(log.iterator) - log.looks),
    "file": (lambda log: log.path.write_text(log.path.read_text() + "."), lambda log: len(log.path.read_text())),
    "print": (lambda log: print("called"), lambda log: log.printed),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_side_effects_are_not_frozen(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = types.SimpleNamespace(list=[], dict={"n": 0}, calls=0, printed=0, iterator=iter(range(99)), looks=-1)
    log.path = tmp_path / "log"
    log.path.touch()
    do, count = EFFECTS[name]

    def f(x: Any) -> Any:
        do(log)
        return x * x

    for i in range(1, 7):
        assert grad(f, 1.0 * i) == (1.0 * i * i, (2.0 * i,))
        log.printed += capsys.readouterr().out.count("called")
        log.looks += 1
        assert count(log) == i


def test_a_write_to_a_captured_array_happens_at_each_call_or_is_refused() -> None:
    for write in WRITES.values():
        a, plain, batch = np.ones((3, 2)), np.ones((3, 2)), np.arange(6.0).reshape(3, 2)

        def f(x: Any, a: Any = a, write: Any = write, batch: Any = batch) -> Any:
            write(a, batch)
            return np.sum(a) * x

        for i in range(4):
            try:
                value, (g, *_) = grad(f, 1.0 + i)
            except (MutationError, MissingRuleError) as error:
                assert "test_traps_caching.py" in str(error)
                assert_array_equal(a, plain)
                break
            write(plain, batch)
            assert_allclose((value, g), (np.sum(plain) * (1.0 + i), np.sum(plain)), rtol=1e-12)
            assert_array_equal(a, plain)
