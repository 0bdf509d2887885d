"""What the systems that this one descends from show (docs/programs.md), in first and second order."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import grad, gradient, gradtape, hessian, jacobian, jit, pullback, pushforward, trace, value_and_grad
from yota_py.testing import numerical_gradient

pytestmark = pytest.mark.usefixtures("every_policy")
RNG = np.random.default_rng(0)
WORDS = {word: RNG.normal(size=3) for word in ("a", "nice", "day")}
JOIN = 0.5 * RNG.normal(size=(3, 6))
TREES = [("a", ("nice", "day")), (("a", "a"), ("nice", ("day", "a"))), "day"]


def fold(x: Any) -> Any:
    return functools.reduce(lambda a, b: a * b, [x[0], x[1], 2.0 * x[2]], 1.0)


def recursion(x: Any) -> Any:
    def power(z: Any, n: int) -> Any:
        return 1.0 if n == 0 else z * power(z, n - 1)

    return power(x[0], 3) * x[1]


def letrec(x: Any) -> Any:
    def even(n: int) -> Any:
        return x[0] if n == 0 else x[1] * odd(n - 1)

    def odd(n: int) -> Any:
        return x[0] * x[0] if n == 0 else x[2] * even(n - 1)

    return even(3)


def box(x: Any) -> Any:
    held = [x[0]]

    def change(by: Any) -> None:
        held[0] = held[0] * by

    for i in range(3):
        change(x[i])
    return held[0]


def counter(x: Any) -> Any:
    """A closure that sets what it has closed over."""
    total = 0.0

    def add(z: Any) -> None:
        nonlocal total
        total = total + z * z

    for z in x:
        add(z * total + z)
    return total


def made(x: Any) -> Any:
    def line(slope: Any, shift: Any) -> Callable[[Any], Any]:
        return lambda z: slope * z + shift

    return line(x[0], x[1])(line(x[1], x[2])(x[0])) ** 2


def generated(x: Any) -> Any:
    def powers() -> Any:
        y = x
        while True:
            yield y
            y = y * x

    values = powers()
    return sum(np.sum(next(values)) for _ in range(3))


def meaning(tree: Any, words: Any, join: Any) -> Any:
    if isinstance(tree, str):
        return words[tree]
    left, right = (meaning(part, words, join) for part in tree)
    return np.tanh(join @ np.concatenate([left, right]))


def tree_net(x: Any) -> Any:
    return sum(np.sum(meaning(tree, WORDS | {"a": x}, JOIN) ** 2) for tree in TREES)


class Dense:
    def __init__(self, n: int, m: int) -> None:
        self.w, self.b = np.linspace(-1.0, 1.0, n * m).reshape(n, m), np.full(m, 0.1)

    def __call__(self, x: Any) -> Any:
        return np.tanh(x @ self.w + self.b)


FIRST, SECOND, HEAD = Dense(3, 4), Dense(4, 4), Dense(4, 1)


def big_net(x: Any) -> Any:
    return np.sum(HEAD(SECOND(FIRST(x))))


def small_net(x: Any) -> Any:
    return np.sum(HEAD(FIRST(x)))


PROGRAMS = [fold, recursion, letrec, box, counter, made, generated, tree_net, big_net, small_net]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_in_both_orders(f: Callable[[Any], Any]) -> None:
    slope = gradient(f)
    for k in range(3):
        x = np.array([0.7, -0.4, 0.3]) + 0.1 * k
        assert_allclose(grad(f, x)[0], f(x))
        assert_allclose(slope(x), numerical_gradient(f, x)[0], rtol=1e-6, atol=1e-8)
        second = hessian(f)(x)
        for i in range(3):
            assert_allclose(second[i], numerical_gradient(lambda z, i=i: slope(z)[i], x)[0], rtol=1e-5, atol=1e-7)
            assert_allclose(second[i], gradient(lambda z, i=i: gradient(f)(z)[i])(x), rtol=1e-9, atol=1e-12)


def test_linear_maps() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        return z + 1.0, x * y

    for at in ((2.0, 3.0, 4.0), (-1.0, 0.5, 2.0), (0.0, 0.0, 0.0)):
        (_, forward), (_, back) = pushforward(f, *at), pullback(f, *at)
        columns = np.array([forward(*basis) for basis in np.eye(3).tolist()]).T
        rows = np.array([back(tuple(basis)) for basis in np.eye(2).tolist()])
        assert_allclose(columns, rows)
        assert_allclose(columns, jacobian(f, argnums=(0, 1, 2))(*at))
        # The derivative of the map, in the point: of the adjoint at (0, 1), it swaps x and y.
        mixed = jacobian(lambda p: np.array(pullback(f, p[0], p[1], p[2])[1]((0.0, 1.0))))(np.array(at))
        assert_allclose(mixed, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_sensitivities_of_closures() -> None:
    def line(slope: float, shift: float) -> Callable[[Any], Any]:
        return lambda x: slope * x + shift

    for slope, shift, x in ((2.0, 1.0, 3.0), (-1.0, 0.5, 2.0), (0.5, 0.0, -1.0)):
        _, (of_f, dx) = grad(lambda f, x: f(x) ** 2, line(slope, shift), x)
        y = slope * x + shift
        assert_allclose((of_f.slope, of_f.shift, dx), (2 * y * x, 2 * y, 2 * y * slope))
        second = gradient(lambda s, shift=shift, x=x: gradient(lambda f, x: f(x) ** 2, 1)(line(s, shift), x))(slope)
        assert_allclose(second, 4 * slope * x + 2 * shift)


def test_a_part_of_a_network_is_trained() -> None:
    first, head = Dense(3, 4), Dense(4, 1)
    before = first.w.copy()

    def loss(x: Any) -> Any:
        return np.sum((head(first(x)) - 0.5) ** 2)

    losses = []
    for _ in range(5):
        value, d = value_and_grad(loss, wrt=head)(np.ones(3))
        head.w -= 0.5 * d.w
        head.b -= 0.5 * d.b
        losses.append(float(value))
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    assert np.array_equal(first.w, before)
    tape = trace(big_net, np.ones(3))
    hidden = next(variable for variable, op in tape if getattr(op, "fn", None) is np.tanh)
    assert_allclose(tape.returning(hidden)(np.arange(3.0)), FIRST(np.arange(3.0)))


def test_gradients_in_between() -> None:
    def steps(x: Any) -> Any:
        y = x * x
        return np.sum(np.sin(y))

    x = np.array([1.0, 2.0])
    tape = gradtape(steps, x)
    *_, y, _ = tape.cotangents
    for at in (x, 2 * x, x - 3):
        assert_allclose(tape.values(at)[tape.cotangents[y]], np.cos(at * at))


def test_other_seeds_and_scaled_losses() -> None:
    scaled = jit(lambda x, scale: grad(lambda z: np.sum(z * z), x, seed=scale)[1][0] / scale)
    for k in range(4):
        x = np.array([1.0, 2.0]) + k
        assert_allclose(grad(lambda x: x * x, x, seed=np.array([1.0, 10.0]))[1][0], 2 * x * [1, 10])
        assert_allclose(scaled(x.astype(np.float32), np.float32(1024.0)), 2 * x)
        second = gradient(lambda x: np.sum(grad(lambda z: z**3, x, seed=np.array([1.0, 2.0]))[1][0]))(x)
        assert_allclose(second, 6 * x * [1, 2])
