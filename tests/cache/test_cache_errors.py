"""Errors, numbers at the edge, and threads, with cached functions."""

from __future__ import annotations

import functools
import math
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from agreement import agree
from caching import Box, entries, follows, function, in_a_process, is_compiled
from numpy.testing import assert_allclose

from yota_py import grad
from yota_py.capture import recording, standing

# --------------------------------------------------------------------------------------------------- errors, numbers


@pytest.mark.parametrize("when", range(5))
def test_an_exception_leaves_everything_as_it_was(when: int) -> None:
    box = Box(fail=False, w=np.ones(3))
    f = function(
        """
        from math import sin

        def f(x):
            y = sin(x) * math.cos(x) * np.sum(box.w) * np.sum(W)
            if box.fail:
                raise KeyError("user")
            return y
        """,
        box=box,
        W=np.ones(2),
    )
    originals = (math.sin, math.cos, np.zeros, np.array, box.w, f.__globals__["W"], f.__globals__["sin"])
    for i in range(6):
        box.fail = i == when
        if box.fail:
            with pytest.raises(KeyError, match="user"):
                grad(f, 1.0 + i)
        else:
            agree(f, 1.0 + i)
        now = (math.sin, math.cos, np.zeros, np.array, box.w, f.__globals__["W"], f.__globals__["sin"])
        assert all(a is b for a, b in zip(originals, now, strict=True))
    assert sys.getprofile() is None


def test_a_failed_call_leaves_the_cache_alone() -> None:
    def f(x: Any) -> Any:
        return np.sum(x @ np.ones((3, 2)))

    for i in range(4):
        with pytest.raises(ValueError, match="matmul"):
            grad(f, np.ones((2, 4)))
        agree(f, np.ones((2, 3)) + i)
    assert len(entries(f)) == 1 and is_compiled(f)


def test_an_index_out_of_bounds() -> None:
    def f(x: Any, i: Any) -> Any:
        return np.sum(x[i] ** 2)

    x = np.arange(5.0)
    for _ in range(3):
        agree(f, x, np.array([1, 2]))
    agree(f, x, np.array([-1, -5]))
    for bad in ([1, 7], [-6, 0]):
        with pytest.raises(IndexError, match="out of bounds for axis 0 with size 5"):
            grad(f, x, np.array(bad))
        agree(f, x, np.array([3, 4]))


def test_a_singular_matrix() -> None:
    def f(a: Any) -> Any:
        return np.sum(np.linalg.inv(a))

    for i in range(3):
        agree(f, np.eye(3) * (2.0 + i))
        with pytest.raises(np.linalg.LinAlgError):
            grad(f, np.zeros((3, 3)))
    agree(f, np.eye(3))


_PYTHON_ERRORS: dict[str, tuple[Callable[[Any], Any], float, type[Exception]]] = {
    "1 / x": (lambda x: 1.0 / x, 0.0, ZeroDivisionError),
    "x % 0": (lambda x: 3.0 % x, 0.0, ZeroDivisionError),
    "x // 0": (lambda x: 3.0 // x, 0.0, ZeroDivisionError),
    "0 ** -1": (lambda x: x**-1, 0.0, ZeroDivisionError),
    "log": (lambda x: math.log(x), -1.0, ValueError),
    "sqrt": (lambda x: math.sqrt(x), -1.0, ValueError),
    "exp": (lambda x: math.exp(x), 1000.0, OverflowError),
    "**": (lambda x: x**400.0, 1e10, OverflowError),
}


@pytest.mark.parametrize("name", _PYTHON_ERRORS)
def test_python_numbers_raise_what_python_raises(name: str) -> None:
    f, bad, error = _PYTHON_ERRORS[name]
    for _ in range(3):
        agree(f, 2.0)
        with pytest.raises(error):
            grad(f, bad)
    agree(f, 3.0)


def test_python_errors_that_the_function_catches() -> None:
    def f(x: Any) -> Any:
        try:
            return 1.0 / (x - 3.0)
        except ZeroDivisionError:
            return 5.0 * x + 1

    for x in (2.0, 4.0, 5.0, 3.0, 3.0, 2.0, 3.0):
        agree(f, x)


def test_a_negative_number_to_a_broken_power() -> None:
    for x in (2.0, 3.0, 4.0, -2.0, -8.0, 2.0):
        agree(lambda x: abs(x**0.5), x)


def test_nan_and_inf() -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda x: np.sum(np.maximum(x, 0.3) * np.exp(-x) + np.tanh(x) + np.sqrt(x * x)),
        lambda x: np.sum(np.log1p(np.abs(x)) + np.where(x > 0, x, -x) + np.minimum(x, 0.1)),
        lambda x: np.max(x) + np.min(x),
        lambda x: np.sum(np.sort(x) * np.arange(5.0)),
        lambda x: np.sum(np.nan_to_num(x) + np.where(np.isfinite(x), x, 0.0)),
        lambda x: np.nansum(x) + np.sum(np.sign(x)),
        lambda x: np.prod(x) + x @ x,
    ]
    with np.errstate(all="ignore"):
        for f in functions:
            for special in (1.0, 2.0, 3.0, np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308):
                x = np.linspace(-1, 1.2, 5)
                x[2] = special
                agree(f, x)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.bool_])
def test_small_integers_promote_as_in_numpy(dtype: Any) -> None:
    def f(x: Any, a: Any) -> Any:
        return (
            x * np.sum(a**0.5)
            + x * np.sum(np.sqrt(a))
            + x * np.sum(a + a)
            + x * np.sum(a * 1.5)
            + x * np.sum(np.diff(a))
        )

    for i in range(4):
        x, a = 2.0 + i, np.roll(np.array([100, 3, 27, 0, 90]), i).astype(dtype)
        value, (g, _) = grad(f, x, a)
        assert_allclose((value, g), (f(x, a), f(1.0, a)), rtol=1e-6)  # float32 sums of NumPy and ours round differently


@pytest.mark.parametrize("kind", [np.matrix, np.ma.array])
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_array_subclasses_are_refused_at_every_call(kind: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(x * x)

    for i in range(4):
        with pytest.raises(TypeError, match=r"np\.asarray"):
            grad(f, kind([[1.0, 2.0], [3.0, 4.0]]))
        agree(f, np.ones((2, 2)) + i)


# --------------------------------------------------------------------------------------------- threads and reentrancy


def together(*jobs: Callable[[], None]) -> None:
    """Run in one thread each, started at once; raises the first error."""
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], None]) -> None:
        barrier.wait(10)
        job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for future in [pool.submit(run, job) for job in jobs]:
            future.result(60)


@pytest.mark.parametrize("size", [50, 20_000])
def test_four_threads_call_one_function(size: int) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x)

    def job(n: int) -> None:
        x = np.linspace(0, n + 1, size)
        for i in range(50):
            value, (g,) = grad(f, x + i)
            assert_allclose(value, f(x + i), rtol=1e-10)
            assert_allclose(g, np.sin(x + i) + (x + i) * np.cos(x + i), rtol=1e-9, atol=1e-9)

    together(*[functools.partial(job, n) for n in range(4)])
    assert len(entries(f)) == 1


def test_the_first_call_of_a_thread_in_the_trace_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(standing, "LOCK_SECONDS", 0.1)

    def f(x: Any) -> Any:
        traced.release()
        thread.join()
        return np.sum(x * x)

    def job() -> None:
        with traced:  # what is called here, and first, is heard of where Python tells of all threads
            results.append(grad(np.sum, np.ones(3)))

    traced, results = threading.Lock(), list[Any]()
    traced.acquire()
    thread = threading.Thread(target=job)
    thread.start()
    assert_allclose(grad(f, np.ones(2))[1][0], 2.0)
    assert_allclose(results[0][1][0], 1.0)


def test_logging_hears_of_forks_before_the_library_does() -> None:
    """The compiler imports it: in the midst of a fork, that is too late, and an exception is shown."""
    in_a_process("import sys, yota_py.base.locks; assert 'logging' in sys.modules")


def test_first_calls_at_once() -> None:
    for _ in range(5):
        f = function("def f(x): return np.sum(W * x) * math.sin(x)", W=np.ones(3))

        def job(f: Any = f) -> None:
            for x in (1.0, 2.0, 3.0):
                assert_allclose(grad(f, x)[0], 3 * x * math.sin(x))

        together(*[job] * 4)
        assert type(f.__globals__["W"]) is np.ndarray


DATA = np.arange(100.0)


def _slow(x: Any) -> Any:
    total = 0.0
    for _ in range(20):
        total = total + np.sum(DATA * x)
        time.sleep(0.001)
    return total


def _slower(x: Any) -> Any:
    total = 0.0
    for _ in range(40):
        total = total + np.sum(DATA * x)
        time.sleep(0.001)
    return total


def test_another_thread_sees_plain_arrays_and_functions_during_a_trace() -> None:
    seen: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            if not isinstance(DATA, np.ndarray) or type(np.sum(DATA)) is not np.float64:
                seen.append("DATA is traced")
            if type(np.zeros(3)) is not np.ndarray or type(math.sin(1.0)) is not float:
                seen.append("np.zeros or math.sin is traced")
            time.sleep(0.0005)

    def trace() -> None:
        try:
            agree(_slow, 2.0)
        finally:
            done.set()

    together(watch, trace)
    assert set(seen) == set()


def test_two_traces_at_once_that_read_one_global() -> None:
    def job(f: Callable[..., Any], n: int) -> None:
        for x in (1.0, 2.0, 3.0):
            assert_allclose(grad(f, x)[0], n * x * DATA.sum())

    together(lambda: job(_slow, 20), lambda: job(_slower, 40))
    assert type(DATA) is np.ndarray


def test_two_traces_at_once_of_functions_that_import_by_name() -> None:
    names: dict[str, Any] = {"time": time, "__name__": "user_module"}
    exec(
        textwrap.dedent("""
        from math import sin

        def short(x):
            return sum(sin(x) for _ in range(5) if not time.sleep(0.001))

        def long(x):
            return sum(sin(x) for _ in range(25) if not time.sleep(0.001))
    """),
        names,
    )
    together(
        lambda: assert_allclose(grad(names["short"], 2.0)[0], 5 * math.sin(2)),
        lambda: assert_allclose(grad(names["long"], 2.0)[0], 25 * math.sin(2)),
    )
    assert names["sin"] is math.sin


def test_a_worker_thread_inside_the_function() -> None:
    in_a_process(
        """
        from concurrent.futures import ThreadPoolExecutor
        from yota_py import grad
        from yota_py.capture import recording

        recording.LOCK_SECONDS = 0.1

        def f(x, depth):
            if depth == 0:
                return x * 3.0
            with ThreadPoolExecutor(1) as pool:
                return x * pool.submit(grad, f, 2.0, depth - 1).result()[0]

        for x in (1.0, 2.0, 3.0):
            assert grad(f, x, 1) == (6.0 * x, (6.0, None))
        """,
        seconds=10,
    )


def test_worker_threads_that_compute_with_traced_values() -> None:
    def f(x: Any) -> Any:
        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(lambda k: k * x * x, [1.0, 2.0]))

    for x in (1.0, 2.0, 3.0, 4.0):
        assert grad(f, x) == (3 * x * x, (6 * x,))


def test_grad_inside_a_cached_function() -> None:
    box = Box(scale=1.0)

    def f(x: Any) -> Any:
        return grad(lambda y: y * y * x * box.scale, x)[1][0] + grad(lambda y: y * y, 3.0)[0]

    follows(f, lambda: setattr(box, "scale", 4.0))


@pytest.mark.parametrize("profiler", ["cProfile", "function"])
def test_a_profiler_keeps_running(profiler: str) -> None:
    in_a_process(f"""
        import cProfile, sys
        from yota_py import grad
        profiler = cProfile.Profile()
        watch = lambda *event: None
        profiler.enable() if {profiler!r} == "cProfile" else sys.setprofile(watch)
        for i in range(4):
            assert grad(lambda x: x * x, 2.0 + i) == ((2.0 + i) ** 2, (4.0 + 2 * i,))
        assert len([1]) == 1
        if {profiler!r} == "cProfile":
            profiler.disable()
            assert profiler.getstats()
        else:
            assert sys.getprofile() is watch
    """)
