"""Kinds of results that compiled programs hand out."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest
from ways import CALLS, agrees, arrays_of, moved, seeds_for

import yota_py
from yota_py import grad
from yota_py.base.containers import NAMESPACE
from yota_py.base.refusal import Raised
from yota_py.capture.recording import record_call
from yota_py.engine.compile import compile_recorded

# ----------------------------------------------------------------------------------------- kinds of result

RESULTS: dict[str, Callable[..., Any]] = {
    "a view": lambda x, y: (x[1:, ::-1], x.T, np.sum(y)),
    "an argument": lambda x, y: (x, y, x),
    "duplicates": lambda x, y: (np.sin(x), np.sin(x), np.sum(y), np.sum(y)),
    "a view and its base": lambda x, y: (np.sin(x), np.sin(x).T, np.sin(x)[0]),
    "overlapping views": lambda x, y: (np.exp(x)[1:], np.exp(x)[:-1], np.exp(x)[::-1] * y),
    "elements": lambda x, y: (x[0, 0], np.sum(x), y[1] * 2, np.exp(x)[1, 2]),
    "broadcast": lambda x, y: (np.broadcast_to(y, (2, 3)) + 0 * x, np.broadcast_to(y * 2, (4, 3))),
    "empty": lambda x, y: (x[:0] * 2, np.sum(x[:, :0]) + np.sum(y), np.concatenate([x[:0], y[None]])),
    "0-d arrays": lambda x, y: (np.reshape(np.sum(x), ()), np.asarray(np.max(y))),
    "zero gradients": lambda x, y: (np.sum(np.floor(x)) + np.sum(x * 0), np.sum(np.sign(y) * y)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_kinds_of_result(name: str) -> None:
    rng = np.random.default_rng(3)
    calls = [(rng.normal(size=(2, 3)), rng.normal(size=3)) for _ in range(3)]
    ways = agrees(RESULTS[name], *calls)
    seeds = list(seeds_for(RESULTS[name], calls[0]))
    inputs = ways.fit([*calls[0], *seeds])
    arrays = [*arrays_of(ways.run(inputs)), *arrays_of(ways.run(inputs)), *inputs]
    for i, a in enumerate(arrays[: -len(inputs)]):
        assert a.flags.owndata and a.flags.writeable and not any(np.shares_memory(a, b) for b in arrays[i + 1 :])


def test_constant_results_are_copies() -> None:
    table = np.arange(3.0)

    def f(x: Any) -> Any:
        return np.sum(x), table, 7, "name", None, 2.5, np.int64(3)

    for _ in range(CALLS):
        value, _ = yota_py.value_and_grad(lambda x: (f(x)[0], f(x)[1:]), has_aux=True)(np.ones(3))
        total, aux = value
        assert total == 3 and aux[1:] == (7, "name", None, 2.5, 3)
        assert np.array_equal(aux[0], [0, 1, 2])
        aux[0][:] = 9
        assert np.array_equal(table, [0, 1, 2]), "the caller's array has been handed out"


def test_numbers_of_every_kind() -> None:
    def f(a: Any, b: Any, c: Any, d: Any) -> Any:
        return a * b + np.sum(c) * d, b * 2, a * 3

    args = (2.0, np.float32(3), np.array(0.5), np.float64(1.5))
    agrees(f, *moved(*args), rtol=1e-6)
    for more in [*moved(*args), args]:
        grads = grad(lambda *xs: f(*xs)[0], *more)[1]
        assert [type(x) for x in grads] == [float, np.float32, np.ndarray, np.float64]


class Box:
    """A container of the user's own, which may refuse to be made anew."""

    refuses = False

    def __init__(self, items: Any) -> None:
        self.items = items

    @classmethod
    def again(cls, _: None, items: Any) -> Box:
        if cls.refuses:
            cls.seen = [weakref.ref(x) for x in items if isinstance(x, np.ndarray)]
            raise ValueError("this box stays empty")
        return cls(items)


optree.register_pytree_node(Box, lambda box: (box.items, None), Box.again, namespace=NAMESPACE)

CONTAINERS: dict[str, Callable[..., Any]] = {
    "tuples": lambda a, b, c: (a, (b, (), (c,))), "lists": lambda a, b, c: [[], [a, [b]], c], "leaf": lambda a, b, c: a,
    "dicts": lambda a, b, c: {"one": a, 2: (b, {"c": c})}, "box": lambda a, b, c: (Box((a, b)), c),
    "none": lambda a, b, c: (None, a, "text", 7, b, np.float32(2), c), "nothing": lambda a, b, c: ((), a),
}  # fmt: skip


def _flat(tree: Any) -> list[Any]:
    return optree.tree_leaves(tree, none_is_leaf=True, namespace=NAMESPACE)


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_of_results(name: str) -> None:
    """Fresh objects that nobody else holds, of the right kinds, in the right places."""
    def f(x: Any, y: Any) -> Any:
        return CONTAINERS[name](np.sum(x) * 2, x + y, y * y[0])

    def draw(i: int) -> tuple[Any, Any]:
        return np.arange(3.0) + i, np.arange(3.0).astype(np.float32) - i

    both = yota_py.value_and_grad(lambda x, y: (np.sum(x), f(x, y)), has_aux=True)
    both.compile(*draw(0))
    for i in range(CALLS):
        (_, have), _ = both(*draw(i))
        want = f(*draw(i))
        have_spec, spec = (optree.tree_structure(y, none_is_leaf=True, namespace=NAMESPACE) for y in (have, want))
        assert have_spec == spec
        leaves = _flat(have)
        for a, b in zip(leaves, _flat(want), strict=True):
            assert type(a) is type(b) and np.array_equal(a, b)
        arrays = arrays_of(leaves)
        del a, b, have, leaves
        assert yota_py.explain(both)[0].calls == i + 1
        assert all(sys.getrefcount(arrays[k]) == 2 for k in range(len(arrays)))


def test_an_error_where_results_are_put_into_containers_leaves_nothing_behind() -> None:
    both = yota_py.value_and_grad(lambda x: (np.sum(x), (Box((x * 2, np.sum(x))), x * 3)), has_aux=True)
    x = np.zeros(3)
    both.compile(x)
    for i in range(CALLS):
        Box.refuses = True
        with pytest.raises(ValueError, match="stays empty"):
            both(x)
        Box.refuses = False
        gc.collect()
        assert Box.seen and all(reference() is None for reference in Box.seen)
        (_, (box, triple)), _ = both(x + i / 3)
        assert np.array_equal(box.items[0], 2 * (x + i / 3)) and np.array_equal(triple, i + x)
    assert sys.getrefcount(x) == 2


def test_an_error_in_a_python_step_leaves_nothing_behind() -> None:
    @yota_py.primitive
    def picky(x: Any) -> Any:
        if x[0] > 1:
            raise ValueError("too large")
        return x * 2

    @yota_py.rrule(picky)
    def _rule(x: Any) -> Any:
        return picky(x), lambda dy: (dy * 2,)

    source = record_call(lambda x: (picky(x), x * 3), (np.ones(3),), {})
    program = compile_recorded(source)
    x, sizes = np.zeros(3), set()
    for i in range(CALLS):
        assert isinstance(program(x + 5), Raised)
        double, triple = program(x + i / 3)
        assert np.array_equal(double, 2 * (x + i / 3)) and np.array_equal(triple, i + x)
        sizes.add(program.nbytes)
    assert len(sizes) == 1, "another frame has been made"
    assert sys.getrefcount(x) == 2


def test_a_step_may_call_its_own_program() -> None:
    """Each call in flight has a frame of its own."""
    @yota_py.primitive
    def nested(x: Any) -> Any:
        return program(x - 1)[0] if ready and x[0] > 0 else x * 0.5

    @yota_py.rrule(nested)
    def _rule(x: Any) -> Any:
        return nested(x), lambda dy: (dy,)

    ready = False
    source = record_call(lambda x: (np.sin(x) + nested(x * 1.0) * x, np.cos(x)), (np.ones(2),), {})
    program = compile_recorded(source)
    ready = True

    def plain(x: np.ndarray) -> np.ndarray:
        return np.sin(x) + (plain(x - 1) if x[0] > 0 else x * 0.5) * x

    for start in (0.5, 2.5, 4.0):
        value, cosine = program(np.full(2, start))
        assert np.allclose(value, plain(np.full(2, start)), rtol=1e-14) and np.allclose(cosine, np.cos(start))
