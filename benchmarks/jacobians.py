"""Jacobians, Hessians and their products with vectors, beside JAX's: `python -m benchmarks.jacobians` from the
repository's root.

All are compiled, JAX's by `jax.jit`. Medians of interleaved rounds, on one core; "function" is the plain NumPy function
itself. The goals are parts of JAX's time. Sparse Hessians have no peer: their time is to grow with their size, and no
faster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.measure import FULL, QUICK, Effort, medians
from benchmarks.peers import Call
from benchmarks.report import ABSENT, align, number

TOLERANCE = 1e-9
_RNG = np.random.default_rng(0)
SQUARE, POINT, DIRECTION = _RNG.normal(size=(100, 100)), _RNG.normal(size=100), _RNG.normal(size=100)
LONG, ALONG = _RNG.normal(size=200), _RNG.normal(size=200)


def layer(xp: Any) -> Callable[[Any], Any]:
    """A product with a matrix, and elementwise functions around it."""
    return lambda x: xp.tanh(SQUARE @ x) * xp.sin(x) + x**2


def rosenbrock(xp: Any) -> Callable[[Any], Any]:
    """Rosenbrock's function, of which the Hessian has three diagonals."""
    return lambda x: xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@dataclass(frozen=True, slots=True)
class Program:
    """What is computed of a function: by yota_py, by JAX, of what, and how many times JAX's speed is the goal."""

    make: Callable[[Any], Callable[..., Any]]
    ours: Callable[[Any, Callable[..., Any]], Any]
    jax: Callable[[Any, Callable[..., Any]], Any]
    args: tuple[Any, ...]
    goal: float


def _pushed(yota: Any, f: Callable[..., Any]) -> Any:
    def along(x: Any, v: Any) -> Any:
        _, forward = yota.pushforward(f, x)
        return forward(v)

    return yota.jit(along)


def _pushed_jax(jax: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, v: jax.jvp(f, (x,), (v,))[1]


PROGRAMS: dict[str, Program] = {
    "Jacobian, 100 x 100": Program(
        layer, lambda yota, f: yota.jacobian(f), lambda jax, f: jax.jacrev(f), (POINT,), 2.0
    ),
    "Hessian, 200": Program(
        rosenbrock, lambda yota, f: yota.hessian(f), lambda jax, f: jax.hessian(f), (LONG,), 2.0
    ),
    "Hessian times a vector, 200": Program(
        rosenbrock, lambda yota, f: yota.hvp(f), lambda jax, f: _pushed_jax(jax, jax.grad(f)), (LONG, ALONG), 1.5
    ),
    "pushforward, 100": Program(layer, _pushed, _pushed_jax, (POINT, DIRECTION), 1.5),
}


def contestants(program: Program, *, with_jax: bool) -> tuple[dict[str, Call], float]:
    """What is timed, by name, and the seconds of tracing and compiling; all results are the same."""
    yota = import_module("yota_py")
    begin = perf_counter()
    ours = program.ours(yota, program.make(np))
    ours.compile(*program.args)
    seconds, plain = perf_counter() - begin, program.make(np)
    calls: dict[str, Call] = {
        "yota_py": lambda: ours(*program.args), "function": lambda: plain(program.args[0]),
    }  # fmt: skip
    if with_jax and find_spec("jax") is not None:
        jax = import_module("jax")
        jax.config.update("jax_enable_x64", True)
        theirs = jax.jit(program.jax(jax, program.make(jax.numpy)))
        calls["jax"] = lambda: jax.block_until_ready(theirs(*program.args))
        np.testing.assert_allclose(calls["yota_py"](), calls["jax"](), rtol=TOLERANCE, atol=TOLERANCE)
    return calls, seconds


def measure(calls: dict[str, Call], effort: Effort) -> dict[str, float]:
    """Seconds a call."""
    for call in calls.values():
        for _ in range(3):
            call()
    return medians({name: [call] for name, call in calls.items()}, effort)


SIZES = (1_000, 10_000, 100_000)  # of a tridiagonal Hessian
GROWTH = 1.5  # so many times more per row may the largest take than the smallest


def sparse_rows(effort: Effort) -> list[list[str]]:
    """Sparse Hessians of some sizes: seconds to compile, and microseconds a call and a row."""
    yota = import_module("yota_py")
    body, first = [], 0.0
    for n in SIZES:
        x = np.linspace(-1.0, 1.0, n)
        hessian = yota.hessian(rosenbrock(np), sparsity="auto")
        begin = perf_counter()
        hessian.compile(x)
        seconds = perf_counter() - begin
        direction = np.cos(np.arange(n))
        product = yota.hvp(rosenbrock(np))(x, direction)
        np.testing.assert_allclose(hessian(x) @ direction, product, rtol=TOLERANCE, atol=TOLERANCE)
        time = measure({"ours": partial(hessian, x)}, effort)["ours"]
        first = first or time / n
        verdict = "" if n == SIZES[0] else "met" if time / n <= GROWTH * first else "MISSED"
        body.append([f"sparse Hessian, {n:,}", f"{seconds:.2f}", number(time), f"{time / n * 1e9:.1f}", verdict])
    return body


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the goals are for people to judge, not for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jacobians", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short samples, for tests")
    parser.add_argument("--without", choices=["jax"], help="leave a peer out")
    options = parser.parse_args(argv)
    print(f"pinned: {pinning()}")
    body, effort = [], QUICK if options.quick else FULL
    for name, program in PROGRAMS.items():
        calls, seconds = contestants(program, with_jax=options.without is None)
        found = measure(calls, effort)
        ratio = found["jax"] / found["yota_py"] if "jax" in found else None
        shown = [ABSENT, ABSENT] if ratio is None else [f"{ratio:.2f}", "met" if ratio >= program.goal else "MISSED"]
        times = [number(found.get(peer)) for peer in ("function", "yota_py", "jax")]
        body.append([name, f"{seconds:.2f}", *times, shown[0], f"{program.goal:g}", shown[1]])
    header = ["derivatives", "compile s", "function µs", "yota_py µs", "jax µs", "jax / ours", "goal", ""]
    print("\n" + align(header, body))
    print("\n" + align(["sparse", "compile s", "yota_py µs", "ns a row", ""], sparse_rows(effort)))
    return 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
