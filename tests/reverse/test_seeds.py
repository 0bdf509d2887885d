"""Cotangents of results: seeds, and pullbacks that are called with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import config, explain, grad, gradtape, pullback
from yota_py.errors import SeedError

CALLS = 4  # traced, compiled, and run twice


# ----------------------------------------------------------------------------------------------------------- seeds


@pytest.mark.parametrize(
    "seed",
    [
        np.ones(3),
        [1.0, 1, 1],
        (1.0, 1.0, 1.0),
        np.ones(3, np.float32),
        np.ones(3, int),
        np.ones(6)[::2],
        np.ones(3, ">f8"),
    ],
)
def test_seeds_of_the_outputs_shape(seed: Any) -> None:
    for i in range(CALLS):
        value, (g,) = grad(lambda x: x * x, np.arange(3.0) + i, seed=seed)
        assert_array_equal(value, (np.arange(3.0) + i) ** 2)
        assert_array_equal(g, 2 * (np.arange(3.0) + i))


def test_seeds_change_from_call_to_call() -> None:
    def f(x: Any, y: Any) -> dict[str, Any]:
        return {"p": x * y, "q": [np.sum(x), 3.0]}

    for i in range(5):
        seed = {"p": np.arange(3.0) * i, "q": [float(i), 1.0]}
        _, (g, h) = grad(f, np.ones(3), np.arange(3.0), seed=seed)
        assert_array_equal(g, np.arange(3.0) ** 2 * i + i)
        assert_array_equal(h, np.arange(3.0) * i)


def test_complex_seeds_for_complex_outputs() -> None:
    for s in (1.0, 1j, 2 - 1j, 1):
        _, (g,) = grad(lambda z: z * (1 + 2j), 1 + 1j, seed=s)
        assert g == s * np.conj(1 + 2j)


@pytest.mark.parametrize(
    "seed",
    [1.0, np.ones(2), np.ones((3, 1)), np.ones(3) * 1j, "abc", np.array(["a"] * 3), {"a": np.ones(3)}, (1.0, 1.0), []],
)
def test_seeds_that_do_not_fit(seed: Any) -> None:
    def f(x: Any) -> Any:
        return x * 2

    for _ in range(3):
        with pytest.raises(SeedError, match=r"test_seeds.py:\d+: the seed .*f"):
            grad(f, np.ones(3), seed=seed)
        assert_array_equal(grad(f, np.ones(3), seed=np.ones(3))[1][0], np.full(3, 2.0))


def test_seeds_of_another_structure() -> None:
    for seed in ((np.ones(2),), [np.ones(2), 1.0], (np.ones(2), np.ones(1)), {"a": 1.0}, 1.0):
        with pytest.raises(SeedError):
            grad(lambda x: (x, np.sum(x)), np.ones(2), seed=seed)
        with pytest.raises(SeedError):
            pullback(lambda x: (x, np.sum(x)), np.ones(2))[1](seed)


# -------------------------------------------------------------------------------------------------------- pullback


def test_pullbacks_are_called_as_often_as_wanted() -> None:
    x = np.arange(1.0, 4.0)
    y, back = pullback(lambda x, k: (x * x * k, np.sum(x)), x, 2.0)
    assert_array_equal(y[0], 2 * x * x)
    assert y[1] == 6.0
    for i in range(CALLS):
        g, k = back((np.full(3, float(i)), 1.0))
        assert_allclose(g, 4 * x * i + 1)
        assert_allclose(k, np.sum(x * x) * i)


def test_a_pullback_remembers_its_arguments() -> None:
    x = np.arange(1.0, 4.0)
    _, back = pullback(lambda x: np.sum(x * x), x)
    x[:] = 100.0
    assert_array_equal(back(1.0)[0], 2 * np.arange(1.0, 4.0))


def test_a_pullback_with_structure_and_without_influence() -> None:
    y, back = pullback(lambda p, n: {"a": p["w"] * n, "b": 5}, {"w": np.ones(2), "u": 3.0}, 2)
    assert y["b"] == 5
    grads = back({"a": np.ones(2), "b": None})
    assert_array_equal(grads[0]["w"], np.full(2, 2.0))
    assert grads[0]["u"] == 0.0 and grads[1] is None


def _with_lists(x: Any) -> Any:
    return [np.sum(x), {"y": x * x, "n": 3}]


SEEDS: dict[str, tuple[Callable[[Any], Any], Any, Callable[[int], Any]]] = {
    "array": (lambda x: x * x, np.arange(3.0), lambda i: np.arange(3.0) + i),
    "list": (lambda x: x * x, np.arange(3.0), lambda i: [1.0, 2, i]),
    "tuple": (lambda x: x * x, np.arange(3.0), lambda i: (1, 2.0, 0.5 * i)),
    "rows": (lambda x: np.outer(x, x), np.arange(2.0), lambda i: [[1.0, i], (2.0, np.float32(3.0))]),
    "arrays in a list": (lambda x: np.outer(x, x), np.arange(2.0), lambda i: [np.arange(2), np.ones(2) * i]),
    "integers": (lambda x: x * x, np.arange(3.0), lambda i: np.arange(3) + i),
    "bools": (lambda x: x * x, np.arange(3.0), lambda i: np.arange(3) == i),
    "single precision": (lambda x: x * x, np.arange(3.0), lambda i: np.float32([1, 2, i])),
    "to single precision": (lambda x: x * x, np.float32([1, 2, 3]), lambda i: np.arange(3.0) + i),
    "float": (lambda x: np.sum(x), np.arange(3.0), lambda i: 2.0 * i),
    "int": (lambda x: np.sum(x), np.arange(3.0), lambda i: 2 * i),
    "NumPy's int": (lambda x: np.sum(x), np.arange(3.0), lambda i: np.array(i)),
    "of no dimensions": (lambda x: np.sum(x, keepdims=True)[0:1].reshape(()), np.arange(3.0), lambda i: 2 * i),
    "Python's": (lambda x: x * x, 2.0, lambda i: 2.0 * i),
    "int of Python's": (lambda x: x * x, 2.0, lambda i: 2 * i),
    "complex": (lambda z: z * z, 1 + 2j, lambda i: 2 * i),
    "containers": (_with_lists, np.arange(3.0), lambda i: [2 * i, {"y": [1, 2, i], "n": None}]),
    "nothing": (lambda x: np.sin(x[:0]), np.arange(3.0), lambda i: []),
}


def _as_it_was(seed: Any, like: Any) -> Any:
    """The seed with an array or NumPy scalar of the output's dtype at each of its leaves."""
    if isinstance(like, dict):
        return {key: _as_it_was(seed[key], value) for key, value in like.items()}
    if isinstance(like, list):
        return [_as_it_was(s, value) for s, value in zip(seed, like, strict=True)]
    return None if seed is None else np.asarray(like).dtype.type(1) * np.array(seed, np.asarray(like).dtype)


def interpreted(f: Callable[[Any], Any], x: Any, seed: Any) -> Any:
    policy, config.compile = config.compile, "never"
    try:
        return grad(f, x, seed=seed)
    finally:
        config.compile = policy


@pytest.mark.parametrize("name", SEEDS)
def test_programs_serve_seeds_of_all_kinds(name: str, every_policy: None) -> None:
    f, x, make = SEEDS[name]
    for i in range(6):
        seed = make(i)
        value, (slope,) = grad(f, x, seed=seed)
        exact = _as_it_was(seed, f(x))
        expected, (other,) = interpreted(f, x, exact)
        assert repr(value) == repr(expected)
        assert_array_equal(slope, other)
        assert type(slope) is type(other)
    if config.compile == "always":
        assert sum(told.calls for told in explain(f)) == 5


def test_tapes_are_played_with_seeds_of_other_kinds() -> None:
    x = np.arange(3.0)
    for first in (np.ones(3), [1, 2.0, 3.0], np.arange(3)):
        tape = gradtape(lambda x: x * x, x, seed=first)
        for i in range(3):
            seed = [1 + i, 2.0, 3.0] if isinstance(first, list) else np.asarray(first) + i
            assert_array_equal(tape.play(x + i, seed=seed)[1][0], 2 * (x + i) * np.array(seed))


@pytest.mark.parametrize("mask", [[True, False], [True, True]])
def test_seeds_with_masked_elements_are_refused(mask: list[bool], every_policy: None) -> None:
    x, seed = np.ones(2), np.ma.array([1.0, 2.0], mask=mask)

    def double(x: Any) -> Any:
        return x * 2

    for _ in range(3):
        for call in (
            lambda: grad(double, x, seed=seed), lambda: grad(lambda x: [x * 2, x], x, seed=[seed, x]),
            lambda: pullback(double, x)[1](seed), lambda: gradtape(double, x, seed=seed),
        ):  # fmt: skip
            with pytest.raises(SeedError, match="masked elements"):
                call()
        assert_array_equal(grad(double, x, seed=np.ma.array([1.0, 2.0], mask=False))[1][0], [2.0, 4.0])


@pytest.mark.parametrize(("seed", "said"), [
    ([1.0, 1.0], r"structure [*, *], the output of <lambda> (*, {'a': *})"),
    ((None, {"a": 1.0}), "the seed is None where the output of <lambda> is float64"),
])  # fmt: skip
def test_what_is_said_of_others(seed: Any, said: str) -> None:
    with pytest.raises(SeedError) as caught:
        pullback(lambda x: (x, {"a": x * x}), 2.0)[1](seed)
    assert said in str(caught.value) and "PyTreeSpec" not in str(caught.value)
