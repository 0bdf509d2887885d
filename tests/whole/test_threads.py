"""Threads and processes: one cached gradient in many hands."""

from __future__ import annotations

import dataclasses
import functools
import math
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import agree
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad, gradient, gradtape, pullback, trace, value_and_grad
from yota_py.base import dispatch, locks
from yota_py.cache.functions import clear_caches
from yota_py.capture.recording import record_call
from yota_py.engine.compile import compile_recorded
from yota_py.engine.kernels import store as kernels
from yota_py.registry import registry
from yota_py.reverse.results import result_types
from yota_py.reverse.verbs import differentiate
from yota_py.tape.tape import Tape
from yota_py.tracing import stand_ins as patching
from yota_py.tracing.traces import Trace

Job = Callable[[], None]


def together(*jobs: Job) -> None:
    """Run in one thread each, started at once; raises the first error."""
    barrier = threading.Barrier(len(jobs))

    def run(job: Job) -> None:
        barrier.wait(20)
        job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for future in [pool.submit(run, job) for job in jobs]:
            future.result(120)


def run_script(tmp_path: Path, source: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a script in a process of its own."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(source))
    return subprocess.Popen(
        [sys.executable, str(script), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def succeeds(*processes: subprocess.Popen[str]) -> None:
    """Each ends well, in time, and has said so."""
    for process in processes:
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert (process.returncode, out.strip()) == (0, "done"), err[-2000:]


# ------------------------------------------ two threads trace, compile or call one cached gradient at a time

PROGRAMS: dict[str, str] = {
    "loops": "def f(x): return np.sum(np.sin(x * W) * x)",
    "products": "def f(x): return np.sum(np.sin(np.outer(x, W) @ x))",
    "assignments": "def f(x):\n    y = 0 * W\n    y[1:] = x[:-1] * W[0]\n    y[0] += x[2]\n    return np.sum(y ** 2)",
    "branches": "def f(x): return np.sum(W * x) if x[0] > 1.5 else np.sum(x ** 3)",
    "python": "def f(x): return np.sum(W * x) * math.sin(x[0]) + sum(v * v for v in x)",
    "not cached": "def f(x): return np.sum(W * x ** 2) + 0 * np.random.rand()",
}


def make(name: str) -> Callable[..., Any]:
    """A function that no other thread or round has seen."""
    names: dict[str, Any] = {"np": np, "math": math, "W": np.arange(1.0, 4.0), "__name__": "user_module"}
    exec(PROGRAMS[name], names)
    return names["f"]  # type: ignore[no-any-return]


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns at every opportunity, and every program needs kernels of its own."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    known = kernels.compiled.copy()
    yield
    sys.setswitchinterval(interval)
    kernels.compiled.update(known)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.usefixtures("hurried")
def test_threads_trace_compile_and_call_at_a_time(name: str, threads: int) -> None:
    xs = [np.array([0.3, 0.5, 0.7]) + k / 3 for k in range(8)]
    reference = make(name)
    wanted = [gradtape(reference, x).play(x) for x in xs]

    def job(f: Callable[..., Any], start: int) -> None:
        for k in range(8):
            i = (start + k) % 8
            value, (g,) = grad(f, xs[i])
            assert_allclose(value, wanted[i][0], rtol=1e-11)
            assert_allclose(g, wanted[i][1][0], rtol=1e-10)

    for _ in range(12):
        kernels.compiled.clear()
        f = make(name)
        together(*[functools.partial(job, f, 2 * n) for n in range(threads)])
        assert type(f.__globals__["W"]) is np.ndarray
        agree(f, xs[0])


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "not cached"])
def test_a_program_is_compiled_while_another_thread_traces(name: str) -> None:
    """Stand-ins are in the places of NumPy's functions then, which must not be taken for other functions."""
    f, xs = make(name), [np.array([0.3, 0.5, 0.7]) + k / 9 for k in range(3)]
    source = record_call(f, (xs[0],), {})
    installed, done = threading.Event(), threading.Event()

    def other() -> None:
        with patching.Installed(Trace(Tape("other", None))):
            installed.set()
            done.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        assert installed.wait(20)
        assert vars(np)["where"] is not dispatch.original(np.where)  # which shows itself to this thread
        gradient = differentiate(source, None, None)
        program = compile_recorded(gradient, result_types(gradient.tape))
    finally:
        done.set()
        thread.join()
    for x in xs:
        value, g = program(x, *[np.arange(1.0, 4.0)] * (len(program.plan.inputs) - 1))
        assert_allclose(value, f(x), rtol=1e-11)
        assert_allclose(g, gradtape(f, x).play(x)[1][0], rtol=1e-10)


def test_rules_that_are_written_while_another_thread_traces() -> None:
    with patching.Installed(Trace(Tape("f", None))):
        stand_in = np.where
        assert stand_in is not dispatch.original(np.where)
    assert dispatch.original(stand_in) is np.where
    entry = registry.primitive_of(np.where)
    assert registry.describe(stand_in) is entry
    assert registry.primitive_of(stand_in) is None
    assert dispatch.original(functools.wraps(stand_in)(make)) is make


def test_threads_with_functions_of_their_own_that_share_kernels() -> None:
    def job(n: int) -> None:
        for k in range(5):
            f = make("loops")
            f.__globals__["W"] = np.full(3, n + 1.0)
            for i in range(4):
                x = np.arange(1.0, 4.0) + i + k
                assert_allclose(grad(f, x)[0], np.sum(np.sin(x * (n + 1)) * x), rtol=1e-11)

    together(*[functools.partial(job, n) for n in range(4)])


def test_threads_through_every_public_function() -> None:
    f, x = make("products"), np.array([0.3, 0.5, 0.7])
    want, (want_g,) = gradtape(f, x).play(x)
    calls: Sequence[Callable[[], Any]] = [
        lambda: grad(f, x)[1][0],
        lambda: value_and_grad(f)(x)[1],
        lambda: gradient(f)(x),
        lambda: pullback(f, x)[1](1.0)[0],
        lambda: gradtape(f, x).play(x)[1][0],
        lambda: want_g * (trace(f, x).play(x) / want),
    ]
    for _ in range(5):
        together(*[lambda call=call: [assert_allclose(call(), want_g, rtol=1e-11) for _ in range(5)] for call in calls])


def test_results_of_threads_share_no_memory() -> None:
    f, kept = make("loops"), []

    def job(n: int) -> None:
        for i in range(20):
            x = np.full(3, n + i / 20)
            kept.append((x, grad(f, x)[1][0]))

    together(*[functools.partial(job, n) for n in range(4)])
    for x, g in kept:
        w = np.arange(1.0, 4.0)
        assert_allclose(g, np.sin(x * w) + x * w * np.cos(x * w), rtol=1e-11, atol=1e-13)


# ------------------------------------------------------------------ fork after a compile, spawn, processes side by side

_COMMON = """
    import multiprocessing, os, sys, threading, time, warnings
    import numpy as np
    from yota_py import grad
    warnings.simplefilter("ignore")  # fork in a process with threads

    W = np.arange(1.0, 4.0)

    def known(x):
        return np.sum(np.sin(x) * W)

    def check_known(rounds=4):
        for i in range(rounds):
            x = np.arange(3.0) + i
            value, (g,) = grad(known, x)
            assert np.allclose(value, np.sin(x) @ W) and np.allclose(g, np.cos(x) * W), (value, g)

    def check_new(power):
        def new(x):
            return np.sum(np.exp(x / 9) * x ** power) + W @ x
        for i in range(4):
            x = np.arange(1.0, 4.0) + i
            value, (g,) = grad(new, x)
            want = np.exp(x / 9) * x ** power
            assert np.allclose(value, want.sum() + W @ x)
            assert np.allclose(g, want / 9 + np.exp(x / 9) * power * x ** (power - 1) + W)

    def child(power):
        check_known()
        check_new(power)
        W[:] = 7.0
        check_known()
"""


def test_fork_after_a_compile(tmp_path: Path) -> None:
    succeeds(run_script(tmp_path, _COMMON + """
    check_known()
    for power in (2, 3):
        pid = os.fork()
        if pid == 0:
            try:
                child(power)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        check_known()
        check_new(power + 2)
        assert os.waitpid(pid, 0)[1] == 0
    check_known()
    print("done")
    """))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(method: str, tmp_path: Path) -> None:
    succeeds(run_script(tmp_path, _COMMON + """
    if __name__ == "__main__":
        check_known()
        context = multiprocessing.get_context(sys.argv[1])
        processes = [context.Process(target=child, args=(power,)) for power in (2, 3)]
        for process in processes:
            process.start()
        check_known()
        check_new(2)
        for process in processes:
            process.join()
            assert process.exitcode == 0
        with context.Pool(2) as pool:
            pool.map(child, [2, 3, 4, 5])
        print("done")
    """, method))


def forked_while_another_thread(work: str, limit: float | None = None) -> str:
    """A script that forks while another thread does what ``work`` says, which sets ``busy`` when it has begun."""
    return _COMMON + f"""
    import faulthandler
    import yota_py
    from yota_py.base import locks
    yota_py.config.compile = "always"
    busy, forked = threading.Event(), threading.Event()

    def work():
        {work}

    locks.FORK_SECONDS = {limit or 60.0}
    check_known()
    thread = threading.Thread(target=work)
    thread.start()
    busy.wait()
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        child(3)
        assert np.where is yota_py.base.dispatch.original(np.where) or {limit is not None}
        os._exit(0)
    forked.set()
    assert os.waitpid(pid, 0)[1] == 0
    thread.join()
    check_new(5)
    print("done")
    """


WORK = {
    "traces": "grad(lambda x: (busy.set(), time.sleep(0.3), np.sum(x * W))[2], np.arange(3.0))",
    "compiles": "busy.set(); [check_new(power) for power in (7, 8, 9)]",
    "calls": "big = lambda x: np.sum(np.sin(x) * x)\n"
             "        while not forked.is_set(): grad(big, np.ones(300_000)); busy.set()",
    **{f"holds {lock}": f"locks.{lock}.acquire(); busy.set(); time.sleep(0.3); locks.{lock}.release()"
       for lock in ("compiling", "tracing", "kernels", "tables")},
}  # fmt: skip


@pytest.mark.parametrize("work", WORK)
def test_fork_while_another_thread(work: str, tmp_path: Path) -> None:
    succeeds(run_script(tmp_path, forked_while_another_thread(WORK[work])))


def test_fork_while_a_thread_traces_that_does_not_end(tmp_path: Path) -> None:
    """After a while it is forked all the same."""
    work = "grad(lambda x: (busy.set(), forked.wait(), np.sum(x * W))[2], np.arange(3.0))"
    succeeds(run_script(tmp_path, forked_while_another_thread(work, 0.2)))


# As a part of the library: a trace would look into what belongs to the user.
_WATCHED = """
class Watched:
    def __init__(self, lock, place, held, order):
        self.lock, self.place, self.held, self.order = lock, place, held, order

    def acquire(self, timeout=-1):
        acquired = self.lock.acquire(timeout=timeout)
        if acquired:
            self.order.update((other, self.place) for other in self.held if self.place not in self.held)
            self.held.append(self.place)
        return acquired

    def release(self):
        self.held.remove(self.place)
        self.lock.release()

    __enter__ = acquire

    def __exit__(self, *error):
        self.release()

    def _is_owned(self):
        return self.lock._is_owned()
"""


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


@pytest.mark.audited
def test_locks_are_taken_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that holds several, while others and a fork take them too, could wait for ever if it had another one."""
    code: dict[str, Any] = {"__name__": "yota_py.watched"}
    exec(_WATCHED, code)
    held: list[int] = []
    order: set[tuple[int, int]] = set()
    names = {id(lock): name for name, lock in vars(locks).items()}
    for place, lock in enumerate(locks.IN_ORDER):
        monkeypatch.setattr(locks, names[id(lock)], code["Watched"](lock, place, held, order))
    kernels.compiled.clear()
    clear_caches()
    for name in PROGRAMS:
        agree(make(name), np.array([0.3, 0.5, 0.7]))
    f, x = make("loops"), np.array([0.3, 0.5, 0.7])
    for _ in range(3):
        _, (g,) = grad(lambda p: f(p.a) + np.sum(Pair(p.b, p.b).a), Pair(x, x))
        assert_array_equal(g.b, np.ones(3))
    assert {place for pair in order for place in pair} == {0, 1, 2, 3}
    assert all(first < second for first, second in order), order
    assert not held


def test_two_processes_compile_the_same_at_a_time(tmp_path: Path) -> None:
    succeeds(*[run_script(tmp_path, _COMMON + """
    child(int(sys.argv[1]))
    print("done")
    """, power) for power in ("2", "2", "3")])  # fmt: skip
