"""Loops: `python -m benchmarks.loops` from the repository's root.

Plain Python loops over NumPy, value and gradients, beside JAX's `lax.scan`, which was rewritten by hand, and beside
what a compiled loop of the function alone takes (numba) or the same written with arrays. "Cold" is a process that
imports yota_py, compiles the gradients and calls them once. Medians of interleaved rounds, on one core; values and
gradients are compared.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.measure import FULL, QUICK, Effort, medians
from benchmarks.peers import Call
from benchmarks.recurrences import (
    LAYERS,
    WIDTH,
    Loss,
    garch,
    garch_jax,
    kalman,
    kalman_jax,
    lorenz,
    lorenz_by_hand,
    lorenz_jax,
    lorenz_scan,
    lstm,
    lstm_jax,
    pendulum,
    pendulum_again,
    residuals,
    residuals_of_arrays,
    steps,
    steps_jax,
    threshold,
    threshold_jax,
    van_der_pol,
    van_der_pol_by_hand,
)
from benchmarks.report import ABSENT, align, number

TOLERANCE = 1e-6  # JAX solves and sums in another order


@dataclass(frozen=True, slots=True)
class Program:
    """A loss as a Python loop, its arguments (derivatives are wanted in the first), the same for JAX, and what else it
    is compared with: a function by numba, without derivatives or with them, or another one with them by yota_py; and
    the goals."""

    loss: Loss
    args: tuple[Any, ...]
    jax: Callable[[Any, Any], Loss] | None = None
    numba: Loss | None = None
    both: Callable[[Any], Callable[..., tuple[float, Any]]] | None = None  # value and gradients by hand, for numba
    arrays: Loss | None = None
    cold: float | None = None  # seconds
    ahead: float | None = None  # of JAX
    behind: float | None = None  # of numba, or of arrays


def programs() -> dict[str, Program]:
    """What is measured."""
    rng = np.random.default_rng(0)
    swing = (np.array([9.8, 0.5]),)
    ten, system = (np.ones(10), 2.0), (np.array([10.0, 28.0, 8 / 3]),)
    filtered = np.array([0.1, 0.2]), rng.normal(size=(1000, 2)), 0.9 * np.eye(4), rng.normal(size=(2, 4))
    returns, fitted = rng.normal(size=5000), (np.array([1.0, 0.3]), rng.normal(size=30_000), rng.normal(size=30_000))
    regimes = np.array([0.7, -0.4, 0.2]), rng.normal(size=2000)
    weights, letters = 0.5 * rng.normal(size=(8 * LAYERS + 3) * WIDTH), np.eye(WIDTH)[rng.integers(0, WIDTH, 1024)]
    text = weights, rng.normal(size=(2 * LAYERS, WIDTH)), letters
    return {
        "1,000 steps of 10": Program(steps(1000), ten, steps_jax(1000), cold=1.0, ahead=1.5),
        "10,000 steps of 10": Program(steps(10_000), ten, steps_jax(10_000), cold=2.0, ahead=1.5),
        "Kalman filter, 1,000": Program(kalman, filtered, kalman_jax, ahead=2.0),
        "GARCH, 5,000": Program(garch, (np.array([0.1, 0.1, 0.8]), returns), garch_jax, numba=garch, behind=3.0),
        "residuals, 30,000": Program(residuals, fitted, arrays=residuals_of_arrays, cold=3.0, behind=2.0),
        "two ifs, 2,000": Program(threshold, regimes, threshold_jax, cold=2.0, ahead=1.5),
        "Lorenz by RK4, 2,000": Program(lorenz(2000), system, lorenz_jax(2000), cold=2.0),
        "Lorenz by scan, 100,000": Program(lorenz_scan(10**5), system, both=lorenz_by_hand(10**5), behind=1.5),
        "pendulum, 10^6, by roots": Program(pendulum_again(10**6), swing, arrays=pendulum(10**6), behind=2.2),
        "adaptive steps": Program(van_der_pol, (np.array([1.5, 1e-5]),), numba=van_der_pol_by_hand, behind=3.0),
        "LSTM, 1,024": Program(lstm, text, lstm_jax, cold=2.5, ahead=1.5),
    }


def cold(name: str) -> float:
    """Seconds of a process that makes one program and calls it."""
    code = f"from benchmarks.loops import start; start({name!r})"
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return float(out.stdout.split()[-1])


def start(name: str) -> None:
    """Print the seconds from here to the first result of compiled code, of which the audit is not a part."""
    program = programs()[name]
    begin = perf_counter()
    from yota_py import config, value_and_grad

    config.audit = "off"
    gradients = value_and_grad(program.loss)
    gradients.compile(*program.args)
    gradients(*program.args)
    print(perf_counter() - begin)


def contestants(program: Program, *, with_jax: bool) -> dict[str, Call]:
    """What is timed, by name; values and gradients are the same."""
    from yota_py import value_and_grad

    args = program.args
    ours = value_and_grad(program.loss)
    ours.compile(*args)
    out: dict[str, Call] = {"yota_py": lambda: ours(*args)}
    if with_jax and program.jax is not None:
        import jax

        jax.config.update("jax_enable_x64", True)
        theirs = jax.jit(jax.value_and_grad(program.jax(jax, jax.numpy)))
        out["jax"] = lambda: jax.block_until_ready(theirs(*args))
    if program.arrays is not None:
        vectorised = value_and_grad(program.arrays)
        vectorised.compile(*args)
        out["arrays"] = lambda: vectorised(*args)
    if program.both is not None:
        import numba

        by_hand = program.both(numba)
        out["numba"] = lambda: by_hand(*args)
    want_value, want = ours(*args)
    for name, call in out.items():
        value, slopes = call()
        for have, right in ((value, want_value), (slopes, want)):
            if not np.allclose(have, right, rtol=TOLERANCE, atol=TOLERANCE * float(np.max(np.abs(right)))):
                raise AssertionError(f"{name} and yota_py differ: {have} and {right}")
    if program.numba is not None:
        import numba

        alone = numba.njit(program.numba)
        assert np.isclose(alone(*args), want_value)
        out["numba"] = lambda: alone(*args)
    return out


def measure(program: Program, effort: Effort, *, with_jax: bool) -> dict[str, float]:
    """Seconds a call."""
    calls = contestants(program, with_jax=with_jax)
    for call in calls.values():
        for _ in range(3):
            call()
    return medians({name: [call] for name, call in calls.items()}, effort)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the goals are for people to judge, not for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loops", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short samples, and short programs alone, for tests")
    parser.add_argument("--without", choices=["jax"], help="leave a peer out")
    options = parser.parse_args(argv)
    print(f"pinned: {pinning()}")
    body = []
    for name, program in programs().items():
        if options.quick and name != "1,000 steps of 10":
            continue
        effort = QUICK if options.quick else FULL
        seconds, times = cold(name), measure(program, effort, with_jax=options.without is None)
        other = times.get("numba", times.get("arrays"))
        ratios = {"ahead": times["jax"] / times["yota_py"] if "jax" in times else None,
                  "behind": times["yota_py"] / other if other else None}  # fmt: skip
        missed = [
            program.cold is not None and seconds > program.cold,
            program.ahead is not None and ratios["ahead"] is not None and ratios["ahead"] < program.ahead,
            program.behind is not None and ratios["behind"] is not None and ratios["behind"] > program.behind,
        ]
        shown = [f"{ratio:.2f}" if ratio is not None else ABSENT for ratio in ratios.values()]
        columns = [number(times.get(peer)) for peer in ("yota_py", "jax")] + [number(other)]
        body.append([name, f"{seconds:.2f}", *columns, *shown, "MISSED" if any(missed) else "met"])
    header = ["value and gradients", "cold s", "yota_py µs", "jax µs", "other µs", "jax / ours", "ours / other", ""]
    print("\n" + align(header, body))
    return 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
