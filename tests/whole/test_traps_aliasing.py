"""Aliasing: arguments that are one in memory, and results that share memory with something."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import agree
from fresh import Function
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad, gradient, pullback, value_and_grad
from yota_py.errors import MutationError, YotaError
from yota_py.testing.finite import copied

ARRAYS = (np.array([1.1, 2.2, 3.3]), np.array([3.1, 0.2, 0.5]), np.array([0.3, 0.25, 0.15]))

# ----------------------------------------------------- the same array passed twice, or arguments that overlap in memory

# Pairs of arrays of four numbers, made anew of eight.
OVERLAPPING: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "apart": lambda a: (a[:4].copy(), a[4:].copy()),
    "the same": lambda a: (a[:4],) * 2,
    "the same memory": lambda a: (a[:4], a[:4]),
    "halves of one": lambda a: (a[:4], a[4:]),
    "shifted by one": lambda a: (a[:4], a[1:5]),
    "reversed": lambda a: (a[:4], a[3::-1]),
    "interleaved": lambda a: (a[::2], a[1::2]),
    "every second": lambda a: (a[:4], a[::2]),
    "stride 0": lambda a: (a[:4], np.broadcast_to(a[:1], 4)),
}
READING: dict[str, Function] = {
    "product": lambda x, y: np.sum(x * y),
    "not symmetric": lambda x, y: np.sum(np.sin(x) * y**2) + x[0] * y[-1],
    "matrix product": lambda x, y: x @ y + np.sum(np.outer(x, y) @ x),
    "of one only": lambda x, y: np.sum(x * x),
}
WRITING: dict[str, Function] = {
    "item": lambda x, y: (operator.setitem(x, 0, y[1] * 3), np.sum(x * y**2))[1],
    "slice": lambda x, y: (operator.setitem(x, slice(1, 3), y[:2] * 2), np.sum(x * y**2))[1],
    "in place": lambda x, y: (operator.imul(x, 2.0), np.sum(x * y**2))[1],
    "with the other": lambda x, y: (operator.iadd(x, y), np.sum(x * y**2))[1],
    "into the second": lambda x, y: (operator.iadd(y, x), np.sum(x * y**2))[1],
    "fill": lambda x, y: (x.fill(2.0), np.sum(x * y**2))[1],
    "into a view": lambda x, y: (operator.setitem(x[1:], ..., 0.5), np.sum(x * y**2))[1],
}


@pytest.mark.parametrize("name", READING)
def test_arguments_that_are_one_array_or_overlap(name: str) -> None:
    for i in range(4):
        for make in OVERLAPPING.values():
            agree(READING[name], *make(np.linspace(0.3, 2.0, 8) + i / 8))


def test_arguments_that_are_one_object_are_not_compared() -> None:
    """As each has a gradient of its own; ``docs/conventions.md`` says so."""
    def f(x: Any, y: Any) -> Any:
        return np.sum(x * 3) if x is y else np.sum(x * y * 2)

    for i in range(4):
        x = ARRAYS[i % 3]
        assert f(x, x) == np.sum(x * 3)
        with pytest.raises(YotaError, match=r"one array, list, tuple or dict is the same object .* Pass a copy"):
            grad(f, x, x)
        value, (dx, dy) = grad(f, x, x.copy())
        assert_allclose(value, np.sum(x * x * 2), rtol=1e-12)
        assert_array_equal(dx, 2 * x)
        assert_array_equal(dy, 2 * x)


def pair(how: str) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays that lie so in memory, with numbers that are always the same."""
    return OVERLAPPING[how](np.linspace(0.3, 2.0, 8))


def _overlaps_and_writes() -> list[Any]:
    """Each overlap with each write."""
    cases = []
    for how in OVERLAPPING:
        for write in WRITING:
            if how == "stride 0" and write == "into the second":
                continue  # read-only
            cases.append(pytest.param(how, write, id=f"{how}: {write}"))
    return cases


def right_or_refused(f: Function, args: tuple[Any, ...], plain: tuple[Any, ...]) -> None:
    """The value is that of NumPy on arguments that lie in memory alike, or the write is refused."""
    before = copied(args)
    try:
        value, _ = grad(f, *args)
    except MutationError as error:
        assert "test_traps_aliasing.py" in str(error)
    else:
        assert_allclose(value, f(*plain), rtol=1e-12)
    for x, was in zip(args, before, strict=True):
        assert_array_equal(x, was)


@pytest.mark.parametrize(("how", "write"), _overlaps_and_writes())
def test_writes_into_arguments_that_overlap_are_right_or_refused(how: str, write: str) -> None:
    for _ in range(4):
        right_or_refused(WRITING[write], copied(pair(how)), copied(pair(how)))
        right_or_refused(WRITING[write], pair(how), pair(how))


@pytest.mark.parametrize("write", WRITING)
def test_writes_into_leaves_of_one_container_that_are_one_array(write: str) -> None:
    for f in (lambda p: WRITING[write](p[0], p[1]), lambda p: WRITING[write](p[1], p[0])):
        for _ in range(4):
            a, b = np.linspace(0.3, 2.0, 4), np.linspace(0.3, 2.0, 4)
            right_or_refused(f, ([a, a],), ([b, b],))


@pytest.mark.parametrize("part", [slice(None), slice(None, None, -1), slice(0, 2)])
def test_writes_into_an_argument_that_is_also_captured(part: slice) -> None:
    def make(w: np.ndarray) -> Function:
        def f(x: Any) -> Any:
            x *= 2.0
            return np.sum(x * w[: len(x)])

        return f

    for i in range(4):
        w, plain = ARRAYS[0] + i, ARRAYS[0] + i
        apart = ARRAYS[1][part].copy()
        assert_allclose(grad(make(w), apart)[0], np.sum(2 * apart * w[: len(apart)]), rtol=1e-12)
        f = make(w)
        try:
            value, _ = grad(f, w[part])
        except MutationError:
            continue
        assert_allclose(value, make(plain)(plain[part]), rtol=1e-12)


def test_a_captured_array_is_also_an_argument_and_only_read() -> None:
    w = ARRAYS[0].copy()

    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * w)

    for i in range(4):
        w[:] = ARRAYS[i % 3]
        for x in (w, w[::-1], w.copy(), ARRAYS[1]):
            value, (g,) = grad(f, x)
            assert_allclose(value, f(x), rtol=1e-12)
            assert_allclose(g, np.cos(x) * w, rtol=1e-12)  # what is captured is no argument


# ------------------------------------------------------ output aliases an input, or a buffer that the next call reuses


def _aux(x: Any) -> Any:
    return np.sum(x * x), {"x": x, "view": x[1:], "square": x * x, "turned": x[::-1]}


HANDED_OUT: dict[str, Callable[[np.ndarray], Any]] = {
    "grad": lambda x: grad(_shared_paths, x, 2 * x),
    "x itself": lambda x: grad(_itself, x, seed=np.ones(3)),
    "seed itself": lambda x: grad(_itself, x, seed=x),
    "sum": lambda x: grad(_plus, x, x, seed=x),
    "view": lambda x: grad(_turned, x, seed=x),
    "aux": lambda x: value_and_grad(_aux, has_aux=True)(x),
    "gradient": lambda x: gradient(_squared)(x),
    "constant gradient": lambda x: gradient(np.sum)(x),
    "zero gradient": lambda x: grad(_first_only, x, x),
    "value_and_grad": lambda x: value_and_grad(_plus_twice, argnums=(0, 1))(x, x),
    "containers": lambda x: grad(_in_a_dict, {"a": x, "b": [x, x]}),
    "captured": lambda x: value_and_grad(lambda y: (np.sum(y), CAPTURED), has_aux=True)(x),
    "captured as gradient": lambda x: grad(lambda y: CAPTURED @ y, x),
    "pullback": lambda x: (lambda y, back: (y, back(x), back(x)))(*pullback(_turned, x)),
    "pullback of sum": lambda x: (lambda y, back: (y, back(x)))(*pullback(_plus, x, x)),
    "made inside": lambda x: value_and_grad(lambda y: (np.sum(y), np.zeros(3)), has_aux=True)(x),
}
CAPTURED = np.array([1.0, 2.0, 3.0])


def _shared_paths(x: Any, y: Any) -> Any:
    return np.sum(np.sin(x) * y) + x @ y


def _itself(x: Any) -> Any:
    return x


def _plus(x: Any, y: Any) -> Any:
    return x + y


def _turned(x: Any) -> Any:
    return x[::-1]


def _squared(x: Any) -> Any:
    return x @ x


def _first_only(x: Any, y: Any) -> Any:
    return np.sum(x)


def _plus_twice(x: Any, y: Any) -> Any:
    return np.sum((x + y) * 2)


def _in_a_dict(p: Any) -> Any:
    return np.sum(p["a"] + p["b"][0] - p["b"][1])


def _arrays(tree: Any) -> list[np.ndarray]:
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [a for item in tree for a in _arrays(item)] if isinstance(tree, tuple | list) else [
        tree] if isinstance(tree, np.ndarray) else []  # fmt: skip


@pytest.mark.parametrize("name", HANDED_OUT)
def test_results_share_memory_with_nothing(name: str) -> None:
    """Results of one call stay as they are at the next; who writes into them changes no argument and no later call."""
    call, held = HANDED_OUT[name], CAPTURED.copy()
    want = [_arrays(copied(call(x))) for x in ARRAYS]
    kept: list[list[np.ndarray]] = []
    for _ in range(4):
        for x, wanted in zip(ARRAYS, want, strict=True):
            given = x.copy()
            arrays = _arrays(call(given))
            assert arrays
            for have, right in zip(arrays, wanted, strict=True):
                assert_array_equal(have, right)
                assert have.flags.writeable
            for i, a in enumerate(arrays):
                others = [*arrays[:i], given, CAPTURED, *(b for earlier in kept for b in earlier)]
                assert not any(np.shares_memory(a, b) for b in others)
            kept.append(arrays)
            call(given)[0]
            for a in _arrays(call(given)):
                a[...] = -77.0
            assert_array_equal(given, x)
            assert_array_equal(CAPTURED, held)
    for i, arrays in enumerate(kept):
        for have, right in zip(arrays, want[i % 3], strict=True):
            assert_array_equal(have, right)


def test_gradients_are_used_in_place_as_in_an_optimiser() -> None:
    def loss(w: Any, x: Any) -> Any:
        return np.sum(np.tanh(x * w) ** 2)

    w, v, plain = ARRAYS[0].copy(), np.zeros(3), ARRAYS[0].copy()
    velocity = np.zeros(3)
    for i in range(6):
        x = ARRAYS[i % 3]
        _, (g, _) = grad(loss, w, x)
        t = np.tanh(x * plain)
        velocity = 0.9 * velocity + 2 * t * (1 - t * t) * x
        plain = plain - 0.1 * velocity
        v *= 0.9
        v += g
        g *= 0.1  # the gradient's own memory
        w -= 0.1 * v
        assert_allclose(w, plain, rtol=1e-12)


def test_objects_that_hold_one_array_twice() -> None:
    a = np.array([1.0, 2.0, 3.0])
    box = types.SimpleNamespace(a=a, view=a[1:], also=[a])

    def f(x: Any) -> Any:
        return np.sum(box.a * x) * box.view[0] + np.sum(box.also[0] ** 2 * x)

    for i in range(4):
        agree(f, ARRAYS[i % 3])
        a[1] = 5.0 + i
        agree(f, ARRAYS[i % 3])
        box.view[...] = i
        agree(f, ARRAYS[i % 3])
