"""Compiled programs against their tapes: memory layouts, Python steps, special values."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from caching import in_a_process
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples
from ways import CALLS, Ways, agrees, arrays_of, assert_close, compiled, evaluate, moved, seeds_for

import yota_py
from yota_py import grad
from yota_py.base.dispatch import is_traced
from yota_py.base.refusal import Misfit, OutOfBounds, Refusal
from yota_py.capture.recording import record_call
from yota_py.reverse.verbs import differentiate
from yota_py.tape.operations import Variable

# ------------------------------------------------------------------------------------------ layouts of inputs


def _mixed(x: Any, w: Any, k: Any) -> Any:
    h = np.tanh(x @ w) * np.max(x, 1, keepdims=True)
    return np.sum(h[k] ** 2) + np.sum(x[:, 1:] * x[:, :-1]) + np.sum(x.T[::-1])


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def _unaligned(x: np.ndarray) -> np.ndarray:
    memory = np.zeros(x.nbytes + 1, np.uint8)
    out = memory[1:].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


INPUT_LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Fortran": lambda x: np.array(x, order="F"), "with gaps": lambda x: np.repeat(x, 2, -1)[..., ::2], "flipped":
    lambda x: np.flip(np.flip(x).copy()), "read-only": _read_only, "unaligned": _unaligned,
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()), "memory-mapped": lambda x: x.view(np.memmap),
}  # fmt: skip


@pytest.mark.parametrize("layout", INPUT_LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_layouts_of_inputs(layout: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, w, k = rng.normal(size=(5, 3)).astype(dtype), rng.normal(size=(3, 4)).astype(dtype), np.array([0, -1, 0, 2])
    ways, _ = compiled(_mixed, x, w, k)
    one = [np.dtype(dtype).type(1)]
    want = ways.run([x, w, k, *one])
    arranged = [INPUT_LAYOUTS[layout](a) for a in (x, w, k)]
    before = [a.copy() for a in arranged]
    if layout != "memory-mapped":
        for _ in range(CALLS):
            for a, b in zip(ways.run([*arranged, *one]), want, strict=True):
                assert_close(a, b, layout, 1e-12)
    for _ in range(CALLS):
        value, grads = grad(_mixed, *arranged)
        for a, b in zip([value, *grads], want, strict=True):
            assert_close(a, b, layout, 1e-5 if dtype == "float32" else 1e-12)
    assert all(np.array_equal(a, b) for a, b in zip(arranged, before, strict=True))


@pytest.mark.parametrize("bad", [
    (np.ones(4), 1.0), (np.ones(3, np.float32), 1.0), (np.ones((3, 1)), 1.0), (np.ones(3), 1), (np.ones(3),),
    ([1.0, 2, 3], 1.0), (np.ones(3), np.float64(1)), (np.ones(3), 1.0, 1.0), (1.0, 1.0), (None, 1.0), (),
])  # fmt: skip
def test_what_does_not_fit_is_refused(bad: tuple[Any, ...]) -> None:
    ways, _ = compiled(lambda x, a: np.sum(x) * a, np.ones(3), 2.0)
    assert isinstance(ways.program(*bad, np.float64(1)), Misfit)
    assert ways.run([np.ones(3), 2.0, np.float64(1)])[0] == 6


def test_an_index_out_of_bounds_is_refused() -> None:
    ways, seeds = compiled(lambda x, k: x[k] * 2, np.arange(5.0), np.array([0, 1]))
    for bad in ([0, 5], [-6, 0], [0, 2**40]):
        assert isinstance(ways.program(np.arange(5.0), np.array(bad), *seeds), OutOfBounds)
        assert evaluate(ways, [np.arange(5.0), np.array([-5, 4]), *seeds])
        with pytest.raises(IndexError, match="out of bounds"):
            grad(lambda x, k: np.sum(x[k]), np.arange(5.0), np.array(bad))


def test_an_equal_descriptor_will_do() -> None:
    """What has been swapped twice has a descriptor of its own."""
    x = np.arange(3.0)
    other = x.view(x.dtype.newbyteorder().newbyteorder())
    assert other.dtype == x.dtype and other.dtype is not x.dtype
    for first, second in ((x, other), (other, x)):
        ways, seeds = compiled(lambda x: x * 2, first)
        for _ in range(CALLS):
            assert np.array_equal(ways.run([second, *seeds])[0], 2 * x)


# ------------------------------------------------------------------------------- Python steps between kernels


@yota_py.primitive
def twisted(x: Any) -> Any:
    """A user's primitive, which no kernel covers."""
    return np.asarray(x) ** 3 - 1.0


@yota_py.rrule(twisted)
def _twisted_rule(x: Any) -> Any:
    return twisted(x), lambda dy: (3 * dy * x * x,)


def by_heaps(x: Any, axis: int = -1) -> Any:
    """For which there is no kernel either."""
    return np.sort(x, axis, "heapsort")


STEPS: dict[str, Callable[[Any], Any]] = {
    "svd": lambda x: np.sum(np.linalg.svd(np.sin(x) + np.eye(4)[: x.shape[0]], compute_uv=False) ** 2 * 0.5),
    "user primitive": lambda x: np.sum(np.tanh(twisted(np.sin(x)) * 2)) + np.sum(twisted(x[1:])),
    "first and last": lambda x: by_heaps(np.cumsum(by_heaps(x, 1), 0), 1),
    "eigenvalues": lambda x: np.sum(np.linalg.eigvalsh(x @ x.T + 3 * np.eye(x.shape[0])) ** 2),
    "complex": lambda x: np.sum(np.abs(np.arcsin(0.1j * x) * (x + 2j)) ** 2),
    "view of a step": lambda x: np.sum(by_heaps(x, 1)[::-1, 1:].T * 2) + np.sum(by_heaps(x, 1)),
    "step of a view": lambda x: np.sum(by_heaps(x.T[::-1], 0) * np.arange(3.0)),
    "integers of floats": lambda x: np.sum((10 * x).astype(np.int8) * np.arange(4, dtype=np.int8) * x),
    "half": lambda x: np.sum(x.astype(np.float16)),
}


@pytest.mark.parametrize("name", STEPS)
def test_python_steps(name: str) -> None:
    rng = np.random.default_rng(8)
    ways = agrees(STEPS[name], *((rng.normal(size=(3, 4)),) for _ in range(3)), rtol=1e-2 if name == "half" else 1e-9)
    assert ways.program.python_steps, "nothing is left for Python"


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_end_to_end(dtype: str) -> None:
    rng = np.random.default_rng(9)

    def f(z: Any, w: Any, c: Any) -> Any:
        y = np.exp(z * 1j) @ w + np.conj(z[:, :1]) * c
        return y, np.sum(np.abs(y[1:]) ** 2), np.real(z).T

    def draw() -> tuple[Any, ...]:
        z, w = (rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)) for _ in range(2))
        return z.astype(dtype), w.astype(dtype), complex(rng.normal(), 0.5)

    ways = agrees(f, draw(), draw(), draw(), rtol=1e-9 if dtype == "complex128" else 1e-3)
    results = ways.run(ways.fit([*draw(), *seeds_for(f, draw())]))
    assert [x.dtype for x in arrays_of(results)[:2]] == [dtype, np.empty(0, dtype).real.dtype]


# ------------------------------------------------------------------------------- special values, large arrays


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.filterwarnings("ignore")
def test_special_values_pass_through(dtype: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return (
            np.maximum(x, y), np.minimum(x, y), np.where(x > y, x, y), np.abs(x), -x, x + y, x / y, np.sqrt(x),
            np.max(x), np.min(y), np.sum(x[3:]), np.isnan(x) * y, np.sign(x) * 1.0, x * 0, np.clip(x, -1, 1), np.log(x),
        )  # fmt: skip

    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.0], dtype)
    x, y = np.repeat(special, special.size), np.tile(special, special.size)
    ways, seeds = compiled(f, x, y)
    inputs = ways.fit([x, y, *seeds])
    assert evaluate(ways, inputs, 1e-6)
    for a, b in zip(ways.run(inputs)[2:7], ways.gradient.play_flat(inputs)[2:7], strict=True):
        assert np.array_equal(np.signbit(a) | np.isnan(a), np.signbit(b) | np.isnan(b)), "a zero of the wrong sign"


def test_large_arrays_and_threads() -> None:
    """Above the size where the interpreter lock is released; several threads share one program."""
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * np.cumsum(x)) / x.size

    ways, _ = compiled(f, np.ones(20_000))
    failures: list[str] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=20_000)
        want = ways.gradient.play_flat([x, np.float64(1)])
        for _ in range(20):
            have = ways.run([x, np.float64(1)])
            if not all(np.allclose(a, b, rtol=1e-9) for a, b in zip(have, want, strict=True)):
                failures.append(f"thread {seed}")

    with ThreadPoolExecutor(4) as pool:
        [*pool.map(work, range(4))]
    assert not failures


@settings(max_examples=examples(8, share=10), deadline=None, derandomize=True, database=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.booleans(), st.integers(0, 3))
def test_products(m: int, k: int, n: int, ta: bool, tb: bool, kind: int) -> None:
    rng = np.random.default_rng(m * k * n)
    a = rng.normal(size=(k, m) if ta else (m, k))
    b = rng.normal(size=(n, k) if tb else (k, n))

    def f(a: Any, b: Any) -> Any:
        a, b = (a.T if ta else a), (b.T if tb else b)
        if kind == 1:
            return a @ b[:, 0], a[0] @ b
        if kind == 2:
            return a[::-1] @ b[:, ::-1], a[:, ::2] @ b[::2]
        return (a @ b, a[-1:] @ b, np.dot(a, b)) if kind else (np.sin(a) @ np.cos(b),)

    agrees(f, *moved(a, b))


def test_captured_arrays_are_read_anew() -> None:
    table = np.arange(4.0)

    def f(x: Any) -> Any:
        return np.sum(table * x * x)

    for i in range(4):
        table[:] = i
        assert np.array_equal(grad(f, np.ones(4))[1][0], np.full(4, 2.0 * i))
    ways, seeds = compiled(f, np.ones(4))
    assert len(ways.captured) == 1 and ways.captured[0] is table
    table[:] = 9
    assert np.array_equal(evaluate(ways, [np.ones(4), *seeds])[1], np.full(4, 18.0) * seeds[0])


def _with_number(x: Any, a: Any) -> Any:
    """A number wherever passes would like to know it."""
    y = x**a + a * x + np.broadcast_to(np.sin(a) + a, np.shape(x))
    return np.sum(np.where(x > a, y, -y) / 1) * 1.0, a * 2, x - a


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("numbers", [(1.0, 2.0, 0.2), (0.0, 3.5, -1.0), *(
    tuple(map(kind, (2, 1, 0.5))) for kind in (np.float64, np.float32, np.float16, complex, np.complex64))
])  # fmt: skip
def test_captured_numbers_are_inputs(numbers: tuple[Any, ...], dtype: str) -> None:
    x = np.array([0.3, 1.5, 2.5], dtype)
    if isinstance(numbers[0], complex | np.complexfloating):
        f: Any = lambda x, a: (np.sum(np.abs(x * a) ** 2), a * 2, x - a)  # noqa: E731
    else:
        f = _with_number
    ways, seeds = compiled(lambda x: f(x, x._ledger.capture(numbers[0])) if is_traced(x) else f(x, numbers[0]), x)
    for number in numbers * CALLS:
        want = differentiate(record_call(lambda x: f(x, number), (x,), {}), tuple(seeds))  # noqa: B023
        have = ways.program(x, *ways.fit([x, *seeds])[1:], number)
        for result, value in zip(have, want.tape.results, strict=True):
            assert_close(result, want[value] if isinstance(value, Variable) else value, f"{number!r}", 1e-5)
    for other in (1, np.float64(1) if type(numbers[0]) is not np.float64 else 1.0, np.ones(()), np.ones(3), None):
        assert isinstance(ways.program(x, *ways.fit([x, *seeds])[1:], other), Misfit)


def test_captured_values_are_checked_even_if_nobody_reads_them() -> None:
    table, idle = np.arange(3.0), np.ones((2, 2), np.int8)

    def f(x: Any) -> Any:
        x._ledger.capture(0.5)
        return np.sum(table * x) if idle.ndim == 2 else x

    ways = Ways.of(f, (np.ones(3),))
    good = ways.captured
    assert len(good) == 3
    for _ in range(CALLS):
        assert ways.program(np.ones(3), *good)[0] == 3
        for i, value in enumerate(good):
            wrong = np.float64(value) if isinstance(value, float) else value[1:]
            assert isinstance(ways.program(np.ones(3), *good[:i], wrong, *good[i + 1 :]), Misfit)
        assert isinstance(ways.program(np.ones(3)), Misfit)
        assert isinstance(ways.program(np.ones(3), *good[:2]), Misfit)


@pytest.mark.parametrize("step", [np.sin, by_heaps])
def test_a_program_keeps_no_values(step: Any) -> None:
    """Neither inputs nor captured arrays live as long as it does; not even after calls."""
    arrays = [np.arange(4.0), np.arange(4.0) + 1]

    def f(x: Any) -> Any:
        return np.sum(step(x) * arrays[1])

    program = Ways.of(f, (arrays[0],)).program
    for _ in range(CALLS):
        assert len(program(arrays[0], *arrays)) == 2  # the whole list is captured
    alive = [weakref.ref(array) for array in arrays]
    arrays.clear()
    gc.collect()
    assert all(reference() is None for reference in alive)


def test_what_a_program_keeps_and_counts() -> None:
    """Bytes of constants and frames; calls that gave results, with and without Python steps."""
    table = np.arange(1000.0)
    for step in (np.sin, by_heaps):
        ways = Ways.of(lambda x: np.sum(step(x)[np.arange(3)]) if x[0] < 3 else x[1], (table,))  # noqa: B023
        program = ways.program
        assert program.calls == 0
        before = program.nbytes
        for i in range(1, CALLS + 1):
            evaluate(ways, [table])
            assert program.calls == i and program.nbytes >= before
            assert isinstance(program(table + 5), Refusal) and isinstance(program(1.0), Refusal)
            assert program.calls == i
        assert before < 4000 and program.nbytes >= (8000 if step is by_heaps else 0) and program.nbytes < 40_000


def test_what_lives_longer_than_all_modules() -> None:
    """A builtin that calls a program reads how it is defined as late as when it goes, and the process ends then."""
    in_a_process(
        """
        import sys
        import numpy as np
        from yota_py import config, value_and_grad
        from yota_py.engine.run import driver

        config.compile = "always"
        builtins, bound = [], driver._builtin
        driver._builtin = lambda name, owner: builtins.append(bound(name, owner)) or builtins[-1]
        gradient = value_and_grad(lambda x: np.sum(x * x))
        assert gradient(np.ones(3))[0] == 3.0
        assert builtins
        sys.kept = builtins  # attributes of this module go last
        """,
        PYTHONMALLOC="malloc",
        MALLOC_PERTURB_="255",  # of glibc: bytes that are free are overwritten
    )
