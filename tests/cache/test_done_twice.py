"""Functions that do something besides computing are called once a call, whichever numbers become inputs."""

from __future__ import annotations

import datetime
import functools
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import config, explain, grad, value_and_grad

W = np.array([1.0, 2.0])
Told = Callable[[int], Any]


def refused(n: int) -> int:
    """What a traced number cannot do."""
    return datetime.timedelta(days=n).days


def into_list() -> tuple[Told, Callable[[], Any]]:
    log: list[int] = []
    return log.append, lambda: log


def into_counter() -> tuple[Told, Callable[[], Any]]:
    counts: Counter[str] = Counter()
    return lambda n: counts.update(["called"]), lambda: counts


def into_dict() -> tuple[Told, Callable[[], Any]]:
    seen: dict[str, int] = {"calls": 1}

    def do(n: int) -> None:
        seen["calls"] *= 2

    return do, lambda: seen


def into_attribute() -> tuple[Told, Callable[[], Any]]:
    class Model:
        calls = 0

    model = Model()

    def do(n: int) -> None:
        model.calls += 1

    return do, lambda: model.calls


def from_deque() -> tuple[Told, Callable[[], Any]]:
    left = deque(range(50))
    return lambda n: left.popleft(), lambda: left


def into_text() -> tuple[Told, Callable[[], Any]]:
    out = StringIO()
    return lambda n: out.write("x"), out.getvalue


def shuffled() -> tuple[Told, Callable[[], Any]]:
    rng, cards = random.Random(3), [*range(8)]
    return lambda n: rng.shuffle(cards), lambda: (cards, rng.getstate())


def sent() -> tuple[Told, Callable[[], Any]]:
    def adding() -> Iterator[int]:
        total = 0
        while True:
            total += yield total  # type: ignore[misc]

    generator: Any = adding()
    next(generator)
    return generator.send, lambda: (type(generator.gi_frame.f_locals["total"]), generator.gi_frame.f_locals["total"])


EFFECTS = [into_list, into_counter, into_dict, into_attribute, from_deque, into_text, shuffled, sent]


@pytest.mark.parametrize("policy", ["always", "auto"])
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("asks", [refused, lambda n: n])
def test_effects(effect: Any, asks: Callable[[int], int], policy: str) -> None:
    config.compile = policy
    (do, state), (plainly, known) = effect(), effect()

    def f(w: Any, n: int) -> Any:
        do(n)
        return np.sum(w * n) + asks(n)

    for n in (1, 2, 3, 4, 5, 6, 3, 7):
        y, (dw, *_) = grad(f, W, n)
        plainly(n)
        assert y == 3.0 * n + n
        assert_allclose(dw, [n, n])
        assert state() == known()


@pytest.mark.parametrize("policy", ["always", "auto"])
def test_the_exception_of_one_call(policy: str) -> None:
    config.compile = policy
    count, said = itertools.count(), []

    def f(w: Any, n: int) -> Any:
        if (k := next(count)) % 3 == 2:
            raise ValueError(f"{k}")
        return np.sum(w * n) * k

    for n in range(1, 12):
        try:
            said.append(float(grad(f, W, n)[0]))
        except ValueError as error:
            said.append(str(error))
    assert said == [str(n - 1) if n % 3 == 0 else 3.0 * n * (n - 1) for n in range(1, 12)]


def test_what_is_done_before_an_exception() -> None:
    log: list[int] = []

    def f(w: Any, n: int) -> Any:
        log.append(n)
        if w[0] < 0:
            raise RuntimeError
        return np.sum(w * n)

    for w, n in ((W, 1), (W, 2), (-W, 3), (W, 4), (-W, 5)):
        log.clear()
        try:
            grad(f, w, n)
        except RuntimeError:
            assert w[0] < 0
        assert log == [n]


def test_a_pure_function_takes_numbers_as_inputs() -> None:
    def f(w: Any, n: int) -> Any:
        return np.sum(w**2 * n)

    df = value_and_grad(f)
    for n in range(1, 9):
        assert_allclose(df(W, n)[1], 2 * n * W)
    assert explain(df)[0].calls >= 5
    assert len(explain(df)[0].entries) <= 3


def test_a_number_that_cannot_be_an_input_is_given_up() -> None:
    """And the function is not called twice at each call from then on."""
    calls = []

    class Told:
        def __index__(self) -> int:
            calls.append(1)
            return 1

    told = Told()

    def f(w: Any, n: int) -> Any:
        return np.sum(w * n) + refused(n) + 0 * np.arange(3)[told]

    for n in range(1, 20):
        before = len(calls)
        assert grad(f, W, n)[0] == 4.0 * n
        if n > 6:
            assert len(calls) - before <= 1


SCALE = 2.0


def test_memories_meet_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``lru_cache`` remembers is what it gives, and it remembers what it would after plain calls."""

    @functools.cache
    def remembered(k: int) -> float:
        return SCALE * k

    def f(w: Any, n: int) -> Any:
        return np.sum(w) * remembered(n)

    for n in range(1, 6):
        assert grad(f, W, n)[0] == 6.0 * n
    assert remembered.cache_info().currsize == 5
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    for n in (1, 2, 3, 4, 5, 2, 6, 7):
        assert grad(f, W, n)[0] == (6.0 if n < 6 else 30.0) * n
    assert remembered.cache_info().currsize == 7


COUNT = 1


def test_memories_meet_global_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    @functools.cache
    def remembered(k: int, *, by: float = 2.0) -> float:
        return by * k

    df = value_and_grad(lambda w: np.sum(w) * remembered(COUNT))
    for n in (1, 2, 3, 4, 5, 6, 6, 2):
        monkeypatch.setitem(globals(), "COUNT", n)
        assert df(W)[0] == 6.0 * n
    assert remembered.cache_info().currsize == 6
