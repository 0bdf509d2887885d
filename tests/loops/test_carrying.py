"""``scan`` and ``while_loop`` do what a Python loop does, with any containers, and so do their derivatives."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

from yota_py import check_grads, config, grad, gradient, gradtape, jit, pullback, scan, trace, vmap, while_loop

R = np.random.default_rng(0)
W = 0.3 * R.normal(size=(3, 3))


class State(NamedTuple):
    x: Any
    v: Any


@dataclass
class Body:
    place: Any
    speed: Any
    name: Any = None


def by_hand(step: Callable[..., Any], carry: Any, xs: Any, length: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """``scan`` for arrays that nobody writes into."""
    leaves, spec = optree.tree_flatten(xs, none_is_leaf=True)
    n = len(leaves[0]) if leaves and leaves[0] is not None else length
    ys = []
    for k in range(n)[:: -1 if reverse else 1]:
        carry, y = step(carry, optree.tree_unflatten(spec, [None if x is None else x[k] for x in leaves]))
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, optree.tree_map(lambda *parts: np.stack(parts), *ys)


def agree(a: Any, b: Any, rtol: float = 1e-12) -> None:
    flat, spec = optree.tree_flatten(a, none_is_leaf=True)
    others, other = optree.tree_flatten(b, none_is_leaf=True)
    assert spec == other
    for x, y in zip(flat, others, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-12)
            assert np.shape(x) == np.shape(y)


# ------------------------------------------------------------------------------------------ values


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("reverse", [False, True])
def test_values(n: int, reverse: bool) -> None:
    xs = {"a": R.normal(size=(n, 3)), "b": (R.normal(size=n), None)}

    def step(carry: Any, x: Any) -> Any:
        h, total = carry["h"], carry["total"]
        h = np.tanh(W @ h + x["a"] * x["b"][0])
        return {"h": h, "total": total + np.sum(h)}, (h, {"t": total})

    init = {"h": np.zeros(3), "total": 0.0}
    got = scan(step, init, xs, reverse=reverse)
    agree(got, by_hand(step, init, {"a": xs["a"], "b": (xs["b"][0], None)}, reverse=reverse))
    assert type(got[0]["total"]) is np.float64
    assert got[1][0].shape == (n, 3)


def test_numbers_are_numpys() -> None:
    carry, ys = scan(lambda c, x: ((c[0] + 1, not c[1], c[2], c[3] * 1j), c), (0, True, None, 1 + 0j), None, length=3)
    assert [*map(type, carry)] == [np.int64, np.bool_, type(None), np.complex128]
    assert carry == (3, False, None, -1j)
    assert ys[0].tolist() == [0, 1, 2]
    assert ys[1].tolist() == [True, False, True]
    assert ys[2] is None
    assert ys[3].dtype == complex
    small = scan(lambda c, x: (c * x, c), np.float32(2), np.ones(3, np.float32))
    assert small[0].dtype == small[1].dtype == np.float32
    assert scan(lambda c, x: (0.5, None), np.float32(2), None, length=2) == (np.float32(0.5), None)
    assert type(scan(lambda c, x: (c + x, None), np.array(1.0), np.ones(2))[0]) is np.float64


def test_kinds_of_containers() -> None:
    def step(s: State, x: Any) -> tuple[State, Body]:
        v = s.v - 0.1 * s.x
        return State(s.x + 0.1 * v, v), Body(s.x, [v, x])

    last, path = scan(step, State(np.ones(2), np.zeros(2)), np.arange(5.0))
    assert type(last) is State
    assert type(path) is Body
    assert path.place.shape == (5, 2)
    assert path.name is None
    assert path.speed[1].tolist() == [0, 1, 2, 3, 4]


def test_no_turns() -> None:
    xs = np.zeros((0, 3), np.float32)
    carry, ys = scan(lambda c, x: (c + 1.0, (x * 2, c)), 1.5, xs)
    assert carry == 1.5
    assert ys[0].shape == (0, 3)
    assert ys[0].dtype == np.float32
    assert ys[1].shape == (0,)
    assert scan(lambda c, x: (c, None), 1.0, None, length=0) == (1.0, None)
    value, (da, dxs) = grad(lambda a, xs: scan(lambda c, x: (c * np.sum(x), c), a, xs)[0] ** 2, 3.0, np.zeros((0, 2)))
    assert (value, da, dxs.shape) == (9.0, 6.0, (0, 2))


def test_what_it_is_given_stays_as_it_is() -> None:
    init, xs = np.zeros(2), np.ones((3, 2))

    def step(c: np.ndarray, x: np.ndarray) -> Any:
        c += x
        x[0] = 7.0
        return c, c

    last, ys = scan(step, init, xs)
    assert last.tolist() == [3, 3]
    assert ys.tolist() == [[1, 1], [2, 2], [3, 3]]
    assert init.tolist() == [0, 0]
    assert np.all(xs == 1)
    same, _ = scan(lambda c, x: (c, None), init, None, length=1)
    same[0] = 5.0
    assert init[0] == 0


# --------------------------------------------------------------------------------------- derivatives


def rnn(w: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(w @ h + x)
        return h, np.sum(h * h)

    h, ys = scan(step, h, xs)
    return np.sum(ys) + h[0]


def pendulum(start: Any, k: Any, n: int) -> Any:
    def step(s: Any, _: None) -> Any:
        v = s["v"] - 0.1 * k * np.sin(s["x"])
        return {"x": s["x"] + 0.1 * v, "v": v}, s["x"]

    last, path = scan(step, start, None, length=n)
    return last["x"] ** 2 + np.mean(path)


@pytest.mark.parametrize("n", [1, 2, 3, 9, 60])
@pytest.mark.usefixtures("every_policy")
def test_gradients(n: int) -> None:
    for seed in range(3):  # three calls with other values
        xs, h = np.random.default_rng(seed).normal(size=(n, 3)), 0.1 * np.ones(3) + seed
        expected = rnn_by_hand(W, h, xs)
        value, grads = grad(rnn, W, h, xs)
        agree(value, expected)
        agree(grads, grad(rnn_by_hand, W, h, xs)[1], rtol=1e-9)
        start = {"x": 1.0 + seed, "v": 0.5}
        value, (_, dk, _) = grad(pendulum, start, 2.0, n)
        agree(value, pendulum(start, 2.0, n))
        eps = 1e-6
        agree(dk, (pendulum(start, 2.0 + eps, n) - pendulum(start, 2.0 - eps, n)) / (2 * eps), rtol=1e-5)
    check_grads(rnn, W, 0.1 * np.ones(3), R.normal(size=(n, 3)))


def rnn_by_hand(w: Any, h: Any, xs: Any) -> Any:
    total = 0.0
    for x in xs:
        h = np.tanh(w @ h + x)
        total = total + np.sum(h * h)
    return total + h[0]


@pytest.mark.parametrize("n", [2, 40])
@pytest.mark.usefixtures("every_policy")
def test_second_derivatives(n: int) -> None:
    def f(k: Any) -> Any:
        return pendulum({"x": 1.0, "v": k}, k, n)

    for k in (1.0, 1.5, 2.0):
        value, (second,) = grad(lambda k: gradient(f)(k) * k, k)
        slope, step = gradient(f), 1e-5
        agree(value, slope(k) * k)
        agree(second, ((k + step) * slope(k + step) - (k - step) * slope(k - step)) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("n", [3, 50])
@pytest.mark.usefixtures("every_policy")
def test_float32_and_complex(n: int) -> None:
    xs = R.normal(size=n).astype(np.float32)

    def f(a: Any, xs: Any) -> Any:
        return np.sum(scan(lambda c, x: (a * c + x, c * c), np.float32(0), xs)[1])

    value, (da, dxs) = grad(f, np.float32(0.5), xs)
    assert type(value) is type(da) is np.float32
    assert dxs.dtype == np.float32
    exact = grad(f_by_hand, 0.5, xs.astype(float))
    np.testing.assert_allclose(dxs, exact[1][1], rtol=1e-3, atol=1e-4)

    def g(z: Any, xs: Any) -> Any:
        last, _ = scan(lambda c, x: (c * z + x, None), 1j * z, xs)
        return np.abs(last) ** 2

    check_grads(g, 0.5 + 0.3j, R.normal(size=n))


def f_by_hand(a: Any, xs: Any) -> Any:
    c, total = 0.0, 0.0
    for x in xs:
        total = total + c * c
        c = a * c + x
    return total


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.usefixtures("every_policy")
def test_whole_numbers_and_truth_values(n: int) -> None:
    def f(p: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            i, odd, a = c
            return (i + 1, ~odd, a + np.where(odd, p[i % 3], np.sin(a) / (1 + i))), a

        (i, _, a), ys = scan(step, (0, False, 1.0), None, length=n)
        return a * 0.1 + np.mean(ys) + i

    for seed in range(3):
        p = np.random.default_rng(seed).normal(size=3)
        value, (dp,) = grad(f, p)
        agree(value, f(p))
        agree(dp, np.array([(f(p + e) - f(p - e)) / 2e-6 for e in 1e-6 * np.eye(3)]), rtol=1e-4)


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.usefixtures("every_policy")
def test_writes_in_the_body(n: int) -> None:
    def f(a: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c[0] = a * c[1]
            c[1:] += 0.1 * x
            x[0] = c[0] * x[1]
            return c, (c, x)

        last, (cs, ys) = scan(step, np.ones(3), xs)
        return np.sum(cs * cs) + np.sum(ys) + last[0]

    def plain(a: Any, xs: Any) -> Any:
        c, total = np.ones(3), 0.0
        for x in xs:
            c = np.array([a * c[1], c[1] + 0.1 * x[0], c[2] + 0.1 * x[1]])
            total = total + np.sum(c * c) + c[0] * x[1] + x[1]
        return total + c[0]

    for seed in range(3):
        xs = np.random.default_rng(seed).normal(size=(n, 2))
        kept = xs.copy()
        value, grads = grad(f, 0.5, xs)
        agree(value, plain(0.5, xs))
        agree(grads, grad(plain, 0.5, xs)[1], rtol=1e-9)
        assert np.array_equal(xs, kept)


@pytest.mark.parametrize("n", [3, 40])
@pytest.mark.usefixtures("every_policy")
def test_decisions_and_effects_are_those_of_each_turn(n: int) -> None:
    seen: list[int] = []

    def f(a: Any, xs: Any) -> Any:
        count = 0

        def step(c: Any, x: Any) -> Any:
            nonlocal count
            count += 1
            if x > 0:
                c = c * a
            for _ in range(count % 3):
                c = c + 0.1 * x
            return c, c

        last, ys = scan(step, 1.0, xs)
        return last + np.sum(ys)

    def plain(a: Any, xs: Any) -> Any:
        c, total = 1.0, 0.0
        for i, x in enumerate(xs):
            if x > 0:
                c = c * a
            for _ in range((i + 1) % 3):
                c = c + 0.1 * x
            total = total + c
        return c + total

    for seed in range(3):
        xs = np.random.default_rng(seed).normal(size=n)
        value, grads = grad(f, 0.5, xs)
        agree((value, grads), grad(plain, 0.5, xs), rtol=1e-9)

    def noting(a: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            seen.append(1)
            return c * a + x, None

        return scan(step, 1.0, xs)[0]

    config.compile = "never"
    grad(noting, 0.5, np.ones(n))
    assert len(seen) == n


@pytest.mark.usefixtures("every_policy")
def test_what_is_captured_changes() -> None:
    kept = {"w": np.ones(3), "rate": 0.5}

    def f(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return c + kept["rate"] * np.sum(kept["w"] * x), None

        return scan(step, 0.0, xs)[0]

    xs = R.normal(size=(60, 3))
    for rate in (0.5, 0.25, 2.0):
        kept["rate"] = rate
        kept["w"][1] = rate
        value, (dxs,) = grad(f, xs)
        agree(value, rate * np.sum(xs @ kept["w"]))
        agree(dxs, np.tile(rate * kept["w"], (60, 1)))


@pytest.mark.parametrize("n", [3, 30])
@pytest.mark.usefixtures("every_policy")
def test_nested(n: int) -> None:
    def f(a: Any, xs: Any) -> Any:
        def outer(c: Any, x: Any) -> Any:
            def inner(d: Any, y: Any) -> Any:
                d = np.sin(a * d) + y * c
                return d, d * x[0]

            d, ys = scan(inner, 0.5, x)
            return c * 0.9 + d, np.sum(ys)

        last, ys = scan(outer, 0.1, xs)
        return last + np.sum(ys * ys)

    def plain(a: Any, xs: Any) -> Any:
        c, total = 0.1, 0.0
        for x in xs:
            d, part = 0.5, 0.0
            for y in x:
                d = np.sin(a * d) + y * c
                part = part + d * x[0]
            c = c * 0.9 + d
            total = total + part * part
        return c + total

    for seed in range(3):
        xs = np.random.default_rng(seed).normal(size=(n, 12))
        agree(grad(f, 0.7, xs), grad(plain, 0.7, xs), rtol=1e-8)


@pytest.mark.parametrize("n", [3, 30])
@pytest.mark.usefixtures("every_policy")
def test_loops_in_batches_in_gradients(n: int) -> None:
    def model(a: Any, x: Any) -> Any:
        return scan(lambda c, t: (np.tanh(a * c + t), c), 0.1, x)[0]

    def loss(a: Any, xs: Any) -> Any:
        return np.sum(vmap(model, in_axes=(None, 0))(a, xs) ** 2)

    def plain(a: Any, xs: Any) -> Any:
        c = 0.1 * np.ones(len(xs))
        for t in xs.T:
            c = np.tanh(a * c + t)
        return np.sum(c * c)

    for seed in range(3):
        xs = np.random.default_rng(seed).normal(size=(5, n))
        agree(grad(loss, 0.7, xs), grad(plain, 0.7, xs), rtol=1e-9)
        each = vmap(gradient(model), in_axes=(None, 0))(0.7, xs)
        agree(each, np.array([gradient(model)(0.7, x) for x in xs]), rtol=1e-9)


@pytest.mark.usefixtures("every_policy")
def test_steps_of_training() -> None:
    x, y = R.normal(size=(20, 3)), R.normal(size=20)

    @jit
    def train(w: Any, rate: float) -> Any:
        def step(w: Any, _: None) -> Any:
            loss, dw = gradient_of(w, x, y)
            return w - rate * dw, loss

        return scan(step, w, None, length=30)

    for rate in (0.01, 0.02, 0.03):
        w, losses = np.zeros(3), []
        for _ in range(30):
            losses.append(np.mean((x @ w - y) ** 2))
            w = w - rate * 2 * x.T @ (x @ w - y) / 20
        agree(train(np.zeros(3), rate), (w, np.array(losses)), rtol=1e-9)


def gradient_of(w: Any, x: Any, y: Any) -> Any:
    value, (dw,) = grad(lambda w: np.mean((x @ w - y) ** 2), w)
    return value, dw


def test_pullbacks_and_tapes() -> None:
    xs = R.normal(size=(50, 3))
    y, back = pullback(rnn, W, np.ones(3), xs)
    agree(back(1.0), grad(rnn, W, np.ones(3), xs)[1], rtol=1e-9)
    agree(y, rnn_by_hand(W, np.ones(3), xs))
    others = R.normal(size=(50, 3))
    agree(trace(rnn, W, np.ones(3), xs).play(W, np.zeros(3), others), rnn_by_hand(W, np.zeros(3), others))
    tape = gradtape(rnn, W, np.ones(3), xs)
    agree(tape.play(W, np.zeros(3), others), grad(rnn_by_hand, W, np.zeros(3), others), rtol=1e-9)


# --------------------------------------------------------------------------------------- while loops


def test_while_loops() -> None:
    assert while_loop(lambda c: c["i"] < 5, lambda c: {"i": c["i"] + 1, "a": c["a"] * 2}, {"i": 0, "a": 1.0}) == {
        "i": 5, "a": 32.0,
    }  # fmt: skip
    assert while_loop(lambda c: False, lambda c: c, (1, None, np.ones(2)))[1] is None
    init = np.zeros(2)

    def body(c: np.ndarray) -> np.ndarray:
        c += 1
        return c

    assert while_loop(lambda c: c[0] < 3, body, init).tolist() == [3, 3]
    assert init.tolist() == [0, 0]


@pytest.mark.usefixtures("every_policy")
def test_gradients_of_while_loops() -> None:
    def root(a: Any) -> Any:
        return while_loop(lambda x: np.abs(x * x - a) > 1e-10, lambda x: 0.5 * (x + a / x), a)

    for a in (2.0, 3.0, 100.0, 0.01):
        value, (da,) = grad(root, a)
        agree(value, a**0.5, rtol=1e-9)
        agree(da, 0.5 / a**0.5, rtol=1e-4)


# ------------------------------------------------------------------------------------------ mistakes


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda: scan(lambda c, x: (c, x), 0.0, [1.0, 2.0]), TypeError,
     "scan: xs[0] is float64; it is to be an array, of which each turn gets one element along the first axis. A list"),
    (lambda: scan(lambda c, x: (c, x), 0.0, (np.ones(3), np.ones(4))), ValueError,
     "arrays are to have as many elements as one another: xs[0] has 3, xs[1] has 4"),
    (lambda: scan(lambda c, x: (c, x), 0.0, {"a": np.ones(3)}, length=4), ValueError, "xs['a'] has 3, length is 4"),
    (lambda: scan(lambda c, x: (c, x), 0.0, None), TypeError, "give a length"),
    (lambda: scan(lambda c, x: (c, x), 0.0, None, length=-1), ValueError, "the length of a scan is -1"),
    (lambda: scan(lambda c, x: (c, x), 0.0, None, length=1.5), TypeError, "whole number; got float64"),
    (lambda: scan(lambda c, x: c, 0.0, np.ones(3)), TypeError, "to return a pair, (carry, y); it returned a float64"),
    (lambda: scan(lambda c, x: (c, x, 1), 0.0, np.ones(3)), TypeError, "it returned 3 items"),
    (lambda: scan(lambda c, x: ([c], x), 0.0, np.ones(3)), TypeError, "what is carried is *, and <lambda> gives [*]"),
    (lambda: scan(lambda c, x: ({"a": c["a"] + 0.5}, x), {"a": 0}, np.ones(3)), TypeError,
     "what is carried has int64 in init['a'], and <lambda> gives float64 in its place"),
    (lambda: scan(lambda c, x: (np.append(c, x), x), np.ones(2), np.ones(3)), TypeError, "gives float64[3] in its"),
    (lambda: scan(lambda c, x: (c * np.float64(1), x), np.ones(2, np.float32), np.ones(3)), TypeError,
     "has float32[2] in init, and <lambda> gives float64[2]"),
    (lambda: scan(lambda c, x: (None, x), 1.0, np.ones(3)), TypeError, "gives None in its place"),
    (lambda: scan(lambda c, x: (c, x), "a", np.ones(3)), TypeError, "scan: init is a str; numbers, arrays and None"),
    (lambda: scan(lambda c, x: (c, {"s": "a"}), 1.0, np.ones(3)), TypeError, "scan: y['s'] is a str"),
    (lambda: scan(lambda c, x: (c + 1, x if c < 2 else (x, x)), 1, np.ones(3)), TypeError,
     "y is * at first and (*, *) later"),
    (lambda: scan(lambda c, x: (c + 1, np.ones(int(c))), 1, np.ones(3)), TypeError,
     "y is float64[1] at first and float64[2] later"),
    (lambda: while_loop(lambda c: True, lambda c: (c, c), 1.0), TypeError, "while_loop: what is carried is *"),
])  # fmt: skip
@pytest.mark.parametrize("traced", [False, True])
def test_mistakes(call: Callable[[], Any], error: type[Exception], said: str, traced: bool) -> None:
    with pytest.raises(error, match=re.escape(said)) as caught:
        grad(lambda a: call(), 1.0) if traced else call()
    assert "test_carrying.py:" in str(caught.value)
