"""When calls are audited, what ``config`` says about it, and that right programs are never accused."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from caching import Box

import yota_py.cache.audit
import yota_py.cache.modes
import yota_py.cache.step
from yota_py import config, explain, grad, jit
from yota_py.cache import functions as cache
from yota_py.cache.check import differences
from yota_py.cache.modes import Gradient, Request
from yota_py.engine.schedule import fuse
from yota_py.errors import AuditWarning, CheckError

pytestmark = pytest.mark.audited

Patch = pytest.MonkeyPatch


def loss(x: Any) -> Any:
    return np.sum(np.sin(x) * x)


def entry(f: Any) -> Any:
    (told,) = explain(f)
    (found,) = told.entries
    return found


def calls(f: Any, n: int) -> list[int]:
    """How many audits there were after each of so many calls."""
    out = []
    for i in range(n):
        f(np.ones(3) + i)
        out.append(entry(f).audits)
    return out


# --------------------------------------------------------------------------------------------------------- the schedule


def test_powers_of_two(monkeypatch: Patch) -> None:
    monkeypatch.setattr(yota_py.cache.audit, "SHARE", 1e9)
    f = jit(loss)
    f.compile(np.ones(3))
    assert calls(f, 17) == [1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5]
    assert "17 calls, 5 audited, " in str(explain(f)) and entry(f).calls == 17


def test_two_whatever_they_cost(monkeypatch: Patch) -> None:
    monkeypatch.setattr(yota_py.cache.audit, "SHARE", 0.0)
    f = jit(loss)
    f.compile(np.ones(3))
    assert calls(f, 17)[-1] == 2


def test_settings(monkeypatch: Patch) -> None:
    f = jit(loss)
    f.compile(np.ones(3))
    monkeypatch.setattr(config, "audit", "off")
    assert calls(f, 5)[-1] == 0
    monkeypatch.setattr(config, "audit", "always")
    assert calls(f, 5)[-1] == 5
    monkeypatch.setattr(config, "audit", "off")
    assert calls(f, 5)[-1] == 5
    assert entry(f).calls == 15
    with pytest.raises(ValueError, match=r"config\.audit is one of 'sampled', 'always', 'off'; got True"):
        config.audit = True
    assert "audit='off'" in repr(config)


def test_not_where_memory_is_short(monkeypatch: Patch) -> None:
    monkeypatch.setattr(yota_py.cache.audit, "MUCH_MEMORY", 10)
    f = jit(loss)
    f.compile(np.ones(3))
    assert calls(f, 4)[-1] == 0
    monkeypatch.setattr(config, "audit", "always")
    assert calls(f, 1)[-1] == 1


def test_each_path_is_audited() -> None:
    def f(x: Any) -> Any:
        return np.sum(x) if x[0] > 0 else np.sum(x * x)

    for x in (np.ones(3), -np.ones(3)) * 5:
        grad(f, x)
    assert entry(f).audits == 4 and entry(f).paths == 2


def test_the_reference_uses_nothing_compiled() -> None:
    """The function itself is called with gradients from fresh traces, and once."""
    log: list[str] = []

    def inner(w: Any) -> Any:
        return np.sum(w * w)

    @jit
    def step(w: Any) -> Any:
        value, (dw,) = grad(inner, w)
        w -= 0.1 * dw
        return value

    w, plain = np.ones(3), np.ones(3)
    for _ in range(6):
        step(w)
        plain -= 0.1 * 2 * plain
        np.testing.assert_allclose(w, plain)
    assert entry(step).audits == 2 and not explain(inner) and not log
    assert not config.special


# ------------------------------------------------------------------------------------------------------- config.check


def test_checked_calls_of_all_kinds(monkeypatch: Patch) -> None:
    monkeypatch.setattr(config, "check", True)
    state, box = {"n": 0, "all": [1.0, 2.0]}, Box(t=0, best=0.0, w=np.zeros(2))

    @jit
    def step(state: Any, x: Any) -> Any:
        state["all"][0] = state["all"][1]
        box.t += 1
        box.w += x
        Totals.n += 1
        return box.t, x.shape[0] > 1, np.argmax(x), {"v": box.w}, "text", None, x > 1.5

    for i in range(1, 6):
        t, long, at, held, *_, mask = step(state, np.array([1.0, 2.0]))
        assert (t, long, at, Totals.n, box.t, state["all"]) == (i, True, 1, i, i, [2.0, 2.0])
        assert held["v"] is box.w and np.array_equal(box.w, [i, 2 * i]) and list(mask) == [False, True]


class Totals:
    n = 0


def test_a_wrong_program_is_an_error_if_checked(monkeypatch: Patch) -> None:
    def f(x: Any) -> Any:
        x *= 2.0
        return np.sum(x)

    def wrong(self: Any) -> Any:
        return [], *right(self)[1:]

    right = yota_py.cache.step._Writer.body
    compiled, x = jit(f), np.ones(2)
    with monkeypatch.context() as patch:
        patch.setattr(yota_py.cache.step._Writer, "body", wrong)
        compiled(x)
    monkeypatch.setattr(config, "check", True)
    with pytest.raises(CheckError, match=r"f: the compiled program is wrong: x is left as it is.*Please report it"):
        compiled(x)
    assert list(x) == [4.0, 4.0]
    compiled(x)
    assert list(x) == [8.0, 8.0] and not explain(compiled)[0].entries
    cache.clear_caches()
    compiled(x)
    compiled(x)
    assert entry(compiled).audits == 1


# ------------------------------------------------------------------------------------------------------ no false alarms


def never_accused(f: Any, *xs: Any, seen: bool = True) -> None:
    """The program's result differs from the interpreter's for some of these (else there is nothing to test), and no
    audit complains."""
    config.audit = "off"
    differ = False
    for x in xs * 2:
        differ |= bool(differences(grad(f, x), Gradient().interpret(Request(f, (x,), {}))))
    assert differ or not seen
    config.audit = "always"
    for x in xs:
        grad(f, x)
    assert entry(f).audits >= len(xs)


@pytest.fixture(autouse=True)
def _audit_as_before() -> Any:
    yield
    config.audit = "sampled"


@pytest.fixture
def _in_loop_nests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are computed together, and products and sums at once: one by one they are as the interpreter has them."""
    monkeypatch.setattr(fuse, "APART", 10**6)


STARTS = tuple(np.linspace(0.1, 0.9, 6))


@pytest.mark.usefixtures("_in_loop_nests")
def test_chaos() -> None:
    def logistic(x: Any) -> Any:
        for _ in range(120):
            x = 3.99 * x - 3.99 * x * x
        return x

    never_accused(logistic, *STARTS)


@pytest.mark.usefixtures("_in_loop_nests")
def test_chaos_in_single_precision() -> None:
    def logistic(x: Any) -> Any:
        x = x.astype(np.float32)
        for _ in range(80):
            x = np.float32(3.99) * x - np.float32(3.99) * x * x
        return np.sum(x)

    never_accused(logistic, *(np.linspace(0.1, 0.9, 5) + 0.01 * i for i in range(4)))


def test_cancellation() -> None:
    def f(x: Any) -> Any:
        return (np.sum(np.exp(x) * x) - np.sum(x * np.exp(x)[::-1][::-1]) + np.sum(x * x * x) - np.dot(x * x, x)) * 1e12

    rng = np.random.default_rng(0)
    never_accused(f, *(rng.normal(size=1001) for _ in range(6)))


def test_what_cancels_exactly() -> None:
    def f(x: Any) -> Any:
        y = x * x - np.abs(x) * np.abs(x)
        return np.sum(np.where(y == 0, x, np.log(np.abs(y) + 1e-300)))

    never_accused(f, *(np.random.default_rng(i).normal(size=50) for i in range(6)), seen=False)


def test_decisions_on_the_edge() -> None:
    """The sum of squares beside a threshold that is the same up to rounding: compiled, it takes another path."""

    def f(args: Any) -> Any:
        x, threshold = args
        return np.sum(x) if np.sum(x * x) >= threshold else 2.0 * np.sum(x)

    xs = [np.random.default_rng(i).normal(size=1001) for i in range(8)]
    never_accused(f, *((x, t) for x in xs for t in (0.0, 1e9, float(np.sum(x * x)))))


def test_not_a_number() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x) / x)

    with np.errstate(all="ignore"):
        never_accused(f, np.array([0.0, 1.0, -1.0]), np.array([np.inf, np.nan, 1.0]), seen=False)


def test_arrays_that_other_threads_write() -> None:
    """What is read is another one at any time: nobody can tell whether a program is right, and nothing is said."""
    weights, stop, said = np.ones(100), threading.Event(), []

    def f(x: Any) -> Any:
        return np.sum(weights * x)

    def write() -> None:
        while not stop.is_set():
            weights[:] += 1.0
            time.sleep(1e-5)

    grad.compile(f, np.ones(100))
    config.audit = "always"
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            grad(f, np.ones(100))
    except AuditWarning as warning:
        said.append(warning)
    finally:
        stop.set()
        writer.join()
    assert not said


def test_state_that_other_threads_count_in() -> None:
    """What another thread stores now and then is not what the program leaves out."""
    stop, weights = threading.Event(), np.ones(3)

    @jit
    def step(x: Any) -> Any:
        weights[:] += x
        return np.sum(weights) * STATS["scale"]

    def count() -> None:
        while not stop.wait(0.003):
            STATS["served"] += 1

    step(np.ones(3))
    step(np.ones(3))
    config.audit = "always"
    counter = threading.Thread(target=count)
    counter.start()
    try:
        calls, first = 0, STATS["served"]
        while calls < 40 or STATS["served"] < first + 5:
            step(np.ones(3))
            calls += 1
    finally:
        stop.set()
        counter.join()


STATS: dict[str, Any] = {"served": 0, "scale": 2.0}


def test_threads(monkeypatch: Patch) -> None:
    """Threads share a program that is audited while others run it."""
    monkeypatch.setattr(yota_py.cache.audit, "SHARE", 1e9)
    step, failures = jit(update), []

    def work(k: int) -> None:
        own, plain = np.zeros(3), np.zeros(3)
        for i in range(40):
            x = np.arange(3.0) * (k + i)
            value, want = step(own, x), update(plain, x)
            if not (np.allclose(value, want) and np.allclose(own, plain)):
                failures.append((k, i))

    with ThreadPoolExecutor(4) as pool:
        [*pool.map(work, range(4))]
    assert not failures


def update(w: Any, x: Any) -> Any:
    w += 0.1 * (x - w)
    return np.sum(w * x)
