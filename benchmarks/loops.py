"""Loops: `python -m benchmarks.loops` from the repository's root.

Plain Python loops over NumPy, value and gradients, beside JAX's `lax.scan`, which was rewritten by hand, and beside
what a compiled loop of the function alone takes (numba) or the same written with arrays. "Cold" is a process that
imports yota_py, compiles the gradients and calls them once. Medians of interleaved rounds, on one core; values and
gradients are compared.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.measure import FULL, QUICK, Effort, autorange, sample
from benchmarks.peers import Call
from benchmarks.report import ABSENT, align, number

TOLERANCE = 1e-6  # JAX solves and sums in another order

Loss = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A loss as a Python loop, its arguments (derivatives are wanted in the first), the same for JAX, and what else it
    is compared with: a function without derivatives by numba, or with them by yota_py, and the goals."""

    loss: Loss
    args: tuple[Any, ...]
    jax: Callable[[Any, Any], Loss] | None = None
    numba: Loss | None = None
    arrays: Loss | None = None
    cold: float | None = None  # seconds
    ahead: float | None = None  # of JAX
    behind: float | None = None  # of numba, or of arrays


def steps(count: int) -> Loss:
    """Explicit steps of x' = sin(a x)."""

    def loss(x: Any, a: Any) -> Any:
        for _ in range(count):
            x = x + 0.01 * np.sin(a * x)
        return np.sum(x)

    return loss


def steps_jax(count: int) -> Callable[[Any, Any], Loss]:
    """The same as a scan."""

    def made(jax: Any, xp: Any) -> Loss:
        def loss(x: Any, a: Any) -> Any:
            return xp.sum(jax.lax.scan(lambda x, _: (x + 0.01 * xp.sin(a * x), None), x, None, count)[0])

        return loss

    return made


def kalman(q: Any, ys: Any, a: Any, h: Any) -> Any:
    """The likelihood of a linear Gaussian state of four numbers, two of which are observed."""
    x, p, total = np.zeros(4), np.eye(4), 0.0
    for y in ys:
        x, p = a @ x, a @ p @ a.T + np.exp(q[0]) * np.eye(4)
        s, e = h @ p @ h.T + np.exp(q[1]) * np.eye(2), y - h @ x
        gain = np.linalg.solve(s, h @ p).T
        x, p = x + gain @ e, p - gain @ h @ p
        total = total + 0.5 * (e @ np.linalg.solve(s, e) + np.log(np.linalg.det(s)))
    return total


def kalman_jax(jax: Any, xp: Any) -> Loss:
    """The same as a scan."""

    def loss(q: Any, ys: Any, a: Any, h: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            x, p = state
            x, p = a @ x, a @ p @ a.T + xp.exp(q[0]) * xp.eye(4)
            s, e = h @ p @ h.T + xp.exp(q[1]) * xp.eye(2), y - h @ x
            gain = xp.linalg.solve(s, h @ p).T
            part = 0.5 * (e @ xp.linalg.solve(s, e) + xp.log(xp.linalg.det(s)))
            return (x + gain @ e, p - gain @ h @ p), part

        return xp.sum(jax.lax.scan(step, (xp.zeros(4), xp.eye(4)), ys)[1])

    return loss


def garch(p: Any, r: Any) -> Any:
    """The likelihood of GARCH(1, 1), its variances written one by one (Bollerslev 1986)."""
    variance = np.empty(len(r))
    variance[0] = 1.0
    for t in range(1, len(r)):
        variance[t] = p[0] + p[1] * r[t - 1] ** 2 + p[2] * variance[t - 1]
    return 0.5 * np.sum(np.log(variance) + r**2 / variance)


def garch_jax(jax: Any, xp: Any) -> Loss:
    """The same as a scan."""

    def loss(p: Any, r: Any) -> Any:
        def step(v: Any, square: Any) -> Any:
            v = p[0] + p[1] * square + p[2] * v
            return v, v

        variance = xp.concatenate([xp.ones(1), jax.lax.scan(step, 1.0, r[:-1] ** 2)[1]])
        return 0.5 * xp.sum(xp.log(variance) + r**2 / variance)

    return loss


def residuals(p: Any, x: Any, y: Any) -> Any:
    """Least squares, observation by observation."""
    err = np.zeros(len(x))
    for i in range(len(x)):
        err[i] = y[i] - p[0] * np.exp(-p[1] * x[i])
    return np.sum(err**2)


def residuals_of_arrays(p: Any, x: Any, y: Any) -> Any:
    """The same with arrays."""
    return np.sum((y - p[0] * np.exp(-p[1] * x)) ** 2)


def lorenz(count: int) -> Loss:
    """The Lorenz system by Runge and Kutta's method."""

    def loss(p: Any) -> Any:
        def slope(s: Any) -> Any:
            return np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

        state, h = np.array([1.0, 2.0, 3.0]), 0.002
        for _ in range(count):
            k1 = slope(state)
            k2 = slope(state + h / 2 * k1)
            k3 = slope(state + h / 2 * k2)
            k4 = slope(state + h * k3)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return np.sum(state)

    return loss


def lorenz_jax(count: int) -> Callable[[Any, Any], Loss]:
    """The same as a scan."""

    def made(jax: Any, xp: Any) -> Loss:
        def loss(p: Any) -> Any:
            def slope(s: Any) -> Any:
                return xp.stack([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

            def step(state: Any, _: Any) -> Any:
                h = 0.002
                k1 = slope(state)
                k2 = slope(state + h / 2 * k1)
                k3 = slope(state + h / 2 * k2)
                k4 = slope(state + h * k3)
                return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

            return xp.sum(jax.lax.scan(step, xp.array([1.0, 2.0, 3.0]), None, count)[0])

        return loss

    return made


def programs() -> dict[str, Program]:
    """What is measured."""
    rng = np.random.default_rng(0)
    ten, system = (np.ones(10), 2.0), (np.array([10.0, 28.0, 8 / 3]),)
    filtered = np.array([0.1, 0.2]), rng.normal(size=(1000, 2)), 0.9 * np.eye(4), rng.normal(size=(2, 4))
    returns, fitted = rng.normal(size=5000), (np.array([1.0, 0.3]), rng.normal(size=30_000), rng.normal(size=30_000))
    return {
        "1,000 steps of 10": Program(steps(1000), ten, steps_jax(1000), cold=1.0, ahead=1.5),
        "10,000 steps of 10": Program(steps(10_000), ten, steps_jax(10_000), cold=2.0, ahead=1.5),
        "Kalman filter, 1,000": Program(kalman, filtered, kalman_jax, ahead=2.0),
        "GARCH, 5,000": Program(garch, (np.array([0.1, 0.1, 0.8]), returns), garch_jax, numba=garch, behind=3.0),
        "residuals, 30,000": Program(residuals, fitted, arrays=residuals_of_arrays, cold=3.0, behind=2.0),
        "Lorenz by RK4, 2,000": Program(lorenz(2000), system, lorenz_jax(2000), cold=2.0),
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
    counts = {name: autorange([call], effort.sample_seconds) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(effort.rounds):
        for name, call in calls.items():
            samples[name].append(sample([call], counts[name]) / counts[name])
    return {name: statistics.median(times) for name, times in samples.items()}


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
