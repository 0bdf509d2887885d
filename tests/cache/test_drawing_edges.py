"""Draws at the edges: what fails, what is decided, who else draws, and what is kept of generators."""

from __future__ import annotations

import functools
import random
import re
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from drawing import same_draws, served, settings, states

from yota_py import explain, grad, jit, value_and_grad

W = np.array([0.3, -0.7, 1.1])
R = np.random.default_rng(7)
OTHER = np.random.default_rng(8)
P = random.Random(9)
RATES = np.array([1.0, 4.0, 9.0])
BATCHES = [np.ones((4, 3)), np.ones((5, 3)), 2.0 * np.ones((5, 3))]


def shared() -> list[Any]:
    return [R, OTHER, P]


def shuffled_list(w: Any) -> Any:
    order = [0, 1, 2]
    np.random.shuffle(order)
    R.shuffle(order)
    return sum(w[i] * 10.0**k for k, i in enumerate(order))


def shuffled_numbers(w: Any) -> Any:
    order = np.arange(3)
    np.random.shuffle(order)
    R.shuffle(order)
    return np.sum(w[order] * np.array([1.0, 10.0, 100.0]))


def of_items(w: Any) -> Any:
    return np.sum(random.choice(BATCHES) @ w) + R.normal()


def of_plain_numbers(w: Any) -> Any:
    return np.sum(w) * random.choice([0.25, 0.5, 2.0]) * P.choice((1, 2, 3)) + random.choice([w[0], w[1]])


def truths(w: Any) -> Any:
    y = 2.0 if random.choice([True, False]) is True else 3.0
    return np.sum(w) * y * (1.0 + np.random.randint(2, dtype=bool)) * (2.0 if R.integers(2, dtype=bool) else 1.0)


def computed_parameters(w: Any) -> Any:
    k = R.integers(3, 6)
    return np.sum(w) * (R.poisson(RATES[0]) + R.gamma(RATES**0.5).sum() + R.binomial(k, 0.5) + R.poisson(R.gamma(2.0)))


def permuted_rows(w: Any) -> Any:
    y = np.outer(w, w)
    z = R.permuted(y, axis=1)
    return np.sum(z * np.arange(9.0).reshape(3, 3)) + np.sum(R.permuted(w) * np.arange(3.0))


def permuted_in_place(w: Any) -> Any:
    y = np.outer(w, w)
    R.permuted(y, axis=0, out=y)
    return np.sum(y * np.arange(9.0).reshape(3, 3))


def permuted_all(w: Any) -> Any:
    return np.sum(R.permuted(np.outer(w, w)) * np.arange(9.0).reshape(3, 3))


def of_lists(w: Any) -> Any:
    y = R.uniform(low=w, high=[3.0, 4, 5.0]) * R.normal((1.0, 2.0, 3.0), w**2)
    return np.sum(R.normal(w, [1.0, 2.0, 3.0])) + np.sum(y)


def of_traced_lists(w: Any) -> Any:
    p = np.exp(w) / np.sum(np.exp(w))
    y = R.normal([w[0], w[1], 2.0], [1.0, 2.0, w[2] ** 2]).sum()
    return y + R.choice([w[0], 2.0 * w[1], 3.0], p=p) + np.sum(R.choice([w[0], w[2], 1.0], size=2, p=[0.2, 0.3, 0.5]))


def big_numbers(w: Any) -> Any:
    return random.choice([2**70, 2**71]) * 1e-20 * np.sum(w)


def of_python_with_scalars(w: Any) -> Any:
    y = random.uniform(w[1], 2.0) * random.normalvariate(0.0, w[2])
    return random.gauss(w[0], 2.0) + y + random.expovariate(w[0] ** 2)


def vectorized(w: Any) -> Any:
    return np.sum(w * np.vectorize(lambda _: R.normal())(np.zeros(3)))


def of_nothing(w: Any) -> Any:
    return np.sum(R.normal(w[0], 1.0, size=())) + np.sum(R.normal(w, size=(0, 3))) + np.sum(R.random((2, 0)))


def of_float32(w: Any) -> Any:
    return np.sum(R.normal(w.astype(np.float32), 1)) + np.sum(R.random(3, dtype=np.float32) * w) + R.normal(np.int64(2))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("f", "compiled"), [
    (shuffled_list, 0), (shuffled_numbers, None), (computed_parameters, range(2, 5)),
    (permuted_rows, None), (permuted_in_place, None), (permuted_all, None), (of_lists, None), (of_traced_lists, None),
    (big_numbers, range(5)), (of_python_with_scalars, None), (vectorized, None), (of_nothing, None), (of_float32, None),
], ids=lambda x: getattr(x, "__name__", ""))  # fmt: skip
def test_as_plain_python(f: Callable[..., Any], compiled: int | range | None, whole: bool) -> None:
    same_draws(f, W, whole=whole, compiled=compiled, shared=shared)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("f", [of_items, of_plain_numbers, truths], ids=lambda f: f.__name__)
def test_decisions(f: Callable[..., Any], whole: bool) -> None:
    same_draws(f, W, whole=whole, calls=40, compiled=range(20, 40), shared=shared)


def test_an_item_is_itself() -> None:
    items = [np.zeros(3), np.zeros(3)]

    @jit
    def step(w: Any) -> Any:
        x = random.choice(items)
        x += w
        return x

    with settings(compile="always", check=True):
        for seed in range(12):
            random.seed(seed)
            item = random.choice(items)
            want = item + W
            random.seed(seed)
            assert step(W) is item
            np.testing.assert_array_equal(item, want)


def value(transformed: Any, *args: Any) -> float:
    """That of a function, of which a gradient or a step was made."""
    result = transformed(*args)
    return float(result if transformed.__yota_cache__.mode.effects else result[0])


def test_samplers_as_arguments() -> None:
    def f(w: Any, sample: Any) -> Any:
        return np.sum(w) * sample()

    own = np.random.RandomState(3)
    for sample in (R.normal, own.normal, P.random, random.random, np.random.random, functools.partial(R.normal, 1.0),
                   functools.partial(random.random), functools.partial(np.random.normal, 0.0)):  # fmt: skip
        for df in (value_and_grad(f), jit(f)):
            with settings(compile="always", audit="off"):
                assert len({value(df, W, sample) for _ in range(5)}) == 5


def test_threads_that_the_function_starts() -> None:
    def with_thread(draw: Callable[[], float]) -> Callable[[Any], Any]:
        def f(w: Any) -> Any:
            out: list[float] = []
            thread = threading.Thread(target=lambda: out.append(draw()))
            thread.start()
            thread.join()
            return np.sum(w) * out[0]

        return f

    for draw in (lambda: R.normal(), lambda: random.random(), lambda: np.random.random(), lambda: P.random()):
        for df in (value_and_grad(with_thread(draw)), jit(with_thread(draw))):
            with settings(compile="always", audit="off"):
                assert len({value(df, W) for _ in range(4)}) == 4


@pytest.mark.parametrize("generator", [np.random.default_rng(3), np.random.RandomState(3)])
def test_threads_never_get_the_same_number(generator: Any) -> None:
    @jit
    def f(w: Any) -> Any:
        x = generator.random()
        y = generator.random()
        return np.sum(w) * 0 + x if x < 0.5 else np.sum(w) * 0 + y

    with settings(compile="always", audit="off"):
        for _ in range(50):
            f(W)
        out: list[float] = []
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        threads = [threading.Thread(target=lambda: out.extend(float(f(W)) for _ in range(1500))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    has_lock = type(np.random.default_rng(0).bit_generator.lock) is type(threading.RLock())
    assert len(out) == 6000
    assert len(set(out)) >= (6000 if has_lock else 5990)  # before NumPy 2.4, its locks could not be held


def test_two_generators_in_two_threads() -> None:
    """No thread waits for ever: locks are taken in one order."""
    a, b = np.random.default_rng(1), np.random.default_rng(2)
    functions = [jit(lambda w, x, y: np.sum(w) * (x.random() + y.random()) * (1.0 if x.random() < 0.5 else 2.0))] * 2

    def work(first: Any, second: Any, f: Any) -> None:
        for _ in range(500):
            f(W, first, second)

    with settings(compile="always", audit="off"):
        for f in functions:
            work(a, b, f)
        threads = [threading.Thread(target=work, args=(x, y, f), daemon=True)
                   for x, y, f in ((a, b, functions[0]), (b, a, functions[1]))]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
        assert not any(thread.is_alive() for thread in threads)


def test_who_is_who() -> None:
    def f(w: Any, rng: Any, other: Any) -> Any:
        y = 2.0 if rng is R else 3.0
        y += 10.0 if rng is other else 20.0
        y += 100.0 if rng == R else 200.0
        y += 1000.0 if rng in (R,) else 2000.0
        y += {R: 1e4, OTHER: 2e4}.get(rng, 3e4)
        y += 1e5 if type(rng) is np.random.Generator else 2e5
        return np.sum(w) * y + 0.0 * rng.random()

    third = np.random.default_rng(4)
    for df in (value_and_grad(f), jit(f)):
        with settings(compile="always", audit="off"):
            for rng, other in ((R, R), (R, OTHER), (OTHER, R), (third, R), (third, third), (R, R), (third, OTHER)) * 2:
                assert value(df, W, rng, other) == pytest.approx(f(W, rng, other), rel=1e-12)


def test_draws_behind_guards() -> None:
    def f(w: Any, rate: float, n: int) -> Any:
        if rate <= 0:
            return np.sum(w)
        return np.sum(w) * R.poisson(rate) + (R.integers(n) if n > 0 else 0)

    for whole in (False, True):
        df = jit(f) if whole else value_and_grad(f)
        with settings(compile="always", check=True):
            for rate, n in ((2.0, 4), (3.0, 5), (-1.0, 3), (1.0, 0), (-2.0, 0), (4.0, 9), (-1.0, 2)) * 3:
                before = R.bit_generator.state
                want, after = f(W, rate, n), states(R)
                R.bit_generator.state = before
                have = df(W, rate, n)
                assert (have if whole else have[0]) == pytest.approx(want, rel=1e-12)
                assert states(R) == after
        assert served(df) > 10, explain(df)


def test_draws_that_fail() -> None:
    log: list[float] = []

    def caught(w: Any, rate: float) -> Any:
        try:
            k = R.poisson(rate)
        except ValueError:
            k = R.integers(5)
        return np.sum(w) * k

    def stored(w: Any, rate: float) -> Any:
        w[0] += 1
        log.append(rate)
        return np.sum(w) * R.poisson(rate)

    rates = [2.0, 3.0, -1.0, 4.0, -2.0, 1.0]
    f = jit(caught)
    with settings(compile="always", check=True):
        for rate in rates:
            before = R.bit_generator.state
            want, after = caught(W, rate), states(R)
            R.bit_generator.state = before
            assert f(W, rate) == want
            assert states(R) == after
        g, w = jit(stored), W.copy()
        for k, rate in enumerate(rates, 1):
            if rate < 0:
                with pytest.raises(ValueError, match="lam < 0"):
                    g(w, rate)
            else:
                g(w, rate)
            assert w[0] == W[0] + k and log == rates[:k]


def test_other_types_at_other_calls() -> None:
    def of_size(w: Any, n: int) -> Any:
        return np.sum(w) * np.sum(R.integers(0, 9, size=n)) + R.normal()

    def mixed(w: Any) -> Any:
        return np.sum(w) * random.choice([1.0, 2, True]) * R.normal()

    for f, args in ((of_size, [(n,) for n in (1, 2, 3, 4, 5, 3, 2, 6)]), (mixed, [()] * 12)):
        for whole in (False, True):
            df = jit(f) if whole else value_and_grad(f)
            with settings(compile="always", audit="off"):
                for given in args:
                    before, again = R.bit_generator.state, random.getstate()
                    want, after = f(W, *given), states(R)
                    R.bit_generator.state = before
                    random.setstate(again)
                    have = df(W, *given)
                    assert (have if whole else have[0]) == pytest.approx(want, rel=1e-12)
                    assert states(R) == after


def test_generators_are_not_left_behind() -> None:
    place = SimpleNamespace(rng=None, rngs={}, more=[], a=R, b=OTHER)
    cell = None

    def f(w: Any) -> Any:
        nonlocal cell
        place.rng = R
        place.own = np.random.default_rng(0)
        place.rngs["p"] = P
        place.more.append((R, [OTHER]))
        place.a, place.b = place.b, place.a
        cell = OTHER
        return np.sum(w * R.normal(size=3)) * place.own.random()

    for df in (value_and_grad(f), jit(f)):
        for check in (False, True):
            with settings(compile="always", check=check, audit="sampled"):
                for _ in range(3):
                    place.a, place.b = R, OTHER
                    df(W)
                    assert place.rng is R and type(place.own) is np.random.Generator and place.rngs["p"] is P
                    assert place.more[-1][0] is R and place.more[-1][1][0] is OTHER
                    assert place.a is OTHER and place.b is R and cell is OTHER
    returned = jit(lambda w: (np.sum(w), R))
    assert all(returned(W)[1] is R for _ in range(3))


def test_spawned_once() -> None:
    for df in (value_and_grad(lambda w: np.sum(w) * R.spawn(2)[1].random()),
               jit(lambda w: np.sum(w) * R.spawn(2)[1].random())):  # fmt: skip
        with settings(compile="always"):
            before = R.bit_generator.seed_seq.n_children_spawned
            df(W)
            assert R.bit_generator.seed_seq.n_children_spawned == before + 2


@pytest.mark.parametrize("draw", [
    lambda w: R.uniform(w, w - 1.0), lambda w: R.uniform(w, np.inf), lambda w: R.normal(w, -0.0),
    lambda w: R.normal(0.0, w), lambda w: R.random(out=np.zeros(3, np.float32)) * w,
])  # fmt: skip
def test_what_numpy_refuses(draw: Callable[[Any], Any]) -> None:
    before = states(R)
    with pytest.raises((ValueError, OverflowError, TypeError)) as plain:
        draw(W)
    with pytest.raises(type(plain.value)) as traced:
        grad(lambda w: np.sum(draw(w)), W)
    assert str(plain.value) in str(traced.value)
    assert states(R) == before


def test_attributes_of_generators() -> None:
    P.tag = 3.0  # type: ignore[attr-defined]

    def f(w: Any) -> Any:
        P.tag += 1.0  # type: ignore[attr-defined]
        return np.sum(w) * P.tag + (P.gauss_next or 0.0)  # type: ignore[attr-defined]

    assert value_and_grad(f)(W)[0] == pytest.approx(np.sum(W) * 4.0)
    assert P.tag == 4.0  # type: ignore[attr-defined]
    assert jit(f)(W) == pytest.approx(np.sum(W) * 5.0)


def test_seeds_that_vary() -> None:
    def made(w: Any, step: int) -> Any:
        return np.sum(w * np.random.default_rng(1000 + step).normal(size=3))

    def seeded(w: Any, step: int) -> Any:
        np.random.seed(1000 + 2 * step)
        return np.sum(w * np.random.rand(3))

    for f in (made, seeded):
        df = value_and_grad(f)
        with settings(compile="always", check=True):
            for step in range(20):
                want, after = f(W, step), states()
                np.random.seed(0)
                assert df(W, step)[0] == pytest.approx(want, rel=1e-12)
                assert f is made or states() == after
        assert served(df) >= 14, explain(df)


def test_paths_that_never_come_again() -> None:
    @jit
    def walk(w: Any) -> Any:
        for _ in range(30):
            if np.random.random() < 0.5:
                w = w + 0.1
        return w

    with settings(compile="always", audit="off"):
        for _ in range(60):
            walk(W)
    assert sum(entry.paths for entry in explain(walk)[0].entries) <= 20


def test_types_of_numbers() -> None:
    for f in (lambda x: R.exponential(x), lambda x: R.lognormal(x), lambda x: np.random.rayleigh(x), R.normal,
              lambda x: R.normal(x), lambda x: random.gauss(x, 1.0), lambda x: random.expovariate(x),
              lambda x: R.uniform(x, 9.0)):  # fmt: skip
        step = jit(f)
        with settings(compile="always", check=True):
            assert {type(step(0.5 + i)) for i in range(4)} == {float}
    for f in (lambda w: random.gauss(w[0], 1.0), lambda w: random.uniform(w[0], 9.0),
              lambda w: random.expovariate(w[2])):  # fmt: skip
        step = jit(f)
        with settings(compile="always", check=True):
            assert {type(step(W + i)) for i in range(4)} == {np.float64}
    with np.errstate(all="ignore"):
        assert grad(lambda w: np.sum(w) + random.expovariate(w[0]), np.array([0.0, 1.0]))[0] == np.inf


def test_what_permuted_refuses() -> None:
    for out in (np.zeros(2, np.float32), np.zeros(3)):
        with pytest.raises((TypeError, ValueError)) as plain:
            R.permuted(W[:2], axis=0, out=out)
        with pytest.raises(type(plain.value), match=re.escape(str(plain.value))):
            grad(lambda w, out=out: np.sum(R.permuted(w * 1.0, axis=0, out=out)), W[:2])
