"""Time to solution, from a cold process to the optimum: `python -m benchmarks.solution` from the repository's root.

Each fit runs in a process of its own, which imports a library, makes its data, calls `scipy.optimize.minimize` (BFGS)
and ends; the time is that of the process. yota_py has its default settings and is not asked to compile; "again" is with
the kernels that an earlier process has left on disk. `none` are SciPy's own finite differences. Medians of interleaved
rounds, on one core. A fit that takes longer than a minute is stopped.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy

from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.report import ABSENT, align

ROUNDS = 3
LIMIT = 60.0  # seconds, after which a fit is stopped, and not tried again
TOLERANCE = 1e-3  # of the optimum, relative to the loss at the start
Loss = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Model:
    """A loss of a vector of parameters, for a library's `numpy`, and where the fit starts."""

    make: Callable[[Any], Loss]
    start: Sequence[float]


def logistic_growth(xp: Any) -> Loss:
    """Logistic growth by 60 Euler steps, fitted to noisy sizes of a population (rate, capacity, first size)."""
    rng = numpy.random.default_rng(0)
    sizes = 10 / (1 + 9 * numpy.exp(-0.12 * numpy.arange(61))) + 0.2 * rng.normal(size=61)

    def loss(p: Any) -> Any:
        n, total = p[2], 0.0
        for k in range(61):
            total = total + (n - sizes[k]) ** 2
            n = n + p[0] * n * (1 - n / p[1])
        return total

    return loss


def autoregression(xp: Any) -> Loss:
    """AR(2) by a loop: conditional likelihood of 150 observations (mean, two coefficients, log of the deviation)."""
    rng, x = numpy.random.default_rng(1), [0.0, 0.5]
    for e in rng.normal(size=148):
        x.append(0.3 + 0.6 * x[-1] - 0.2 * x[-2] + 0.5 * e)

    def loss(p: Any) -> Any:
        total = 0.0
        for k in range(2, 150):
            e = x[k] - p[0] - p[1] * x[k - 1] - p[2] * x[k - 2]
            total = total + 0.5 * e**2 * xp.exp(-2 * p[3]) + p[3]
        return total

    return loss


def kalman(xp: Any) -> Loss:
    """A local level, by the Kalman filter, of 100 observations (logs of two deviations, first level)."""
    rng = numpy.random.default_rng(2)
    y = numpy.cumsum(0.3 * rng.normal(size=100)) + 0.5 * rng.normal(size=100)

    def loss(p: Any) -> Any:
        q, r, level, variance, total = xp.exp(2 * p[0]), xp.exp(2 * p[1]), p[2], 1.0, 0.0
        for k in range(100):
            variance = variance + q
            s = variance + r
            e = y[k] - level
            total = total + 0.5 * (xp.log(s) + e**2 / s)
            level, variance = level + variance / s * e, variance * r / s
        return total

    return loss


def compartments(xp: Any) -> Loss:
    """Three compartments in a row by 40 Runge-Kutta steps, fitted to the last one (three rates, a volume)."""
    rng, times = numpy.random.default_rng(3), 40
    seen = numpy.array(_simulation(numpy, times)(numpy.array([0.9, 0.5, 0.3, 2.0]))) + 0.005 * rng.normal(size=times)
    simulated = _simulation(xp, times)

    def loss(p: Any) -> Any:
        return xp.sum((xp.stack(simulated(xp.exp(p))) - seen) ** 2)

    return loss


def _simulation(xp: Any, times: int) -> Callable[[Any], list[Any]]:
    """What the last compartment holds after each step, divided by its volume."""

    def simulated(p: Any) -> list[Any]:
        def slope(c: Any) -> Any:
            return xp.stack([-p[0] * c[0], p[0] * c[0] - p[1] * c[1], p[1] * c[1] - p[2] * c[2]])

        c, h, out = xp.array([1.0, 0.0, 0.0]), 0.2, []
        for _ in range(times):
            k1 = slope(c)
            k2 = slope(c + 0.5 * h * k1)
            k3 = slope(c + 0.5 * h * k2)
            k4 = slope(c + h * k3)
            c = c + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            out.append(c[2] / p[3])
        return out

    return simulated


def gaussian_process(xp: Any) -> Loss:
    """Marginal likelihood of 80 points (logs of length, amplitude and noise)."""
    rng = numpy.random.default_rng(4)
    x = numpy.sort(rng.uniform(0, 10, 80))
    y, squares = numpy.sin(x) + 0.2 * rng.normal(size=80), (x[:, None] - x) ** 2

    def loss(p: Any) -> Any:
        kernel = xp.exp(2 * p[1]) * xp.exp(-0.5 * squares * xp.exp(-2 * p[0])) + xp.exp(2 * p[2]) * numpy.eye(80)
        _, logdet = xp.linalg.slogdet(kernel)
        return 0.5 * (xp.dot(y, xp.linalg.solve(kernel, y)) + logdet)

    return loss


def multinomial(xp: Any) -> Loss:
    """Multinomial logistic regression with a ridge: 20 features, 10 classes, 500 rows."""
    rng = numpy.random.default_rng(5)
    x, labels = rng.normal(size=(500, 20)), rng.integers(0, 10, 500)
    hot = numpy.eye(10)[labels]

    def loss(p: Any) -> Any:
        w = xp.reshape(p, (20, 10))
        z = xp.dot(x, w)
        top = xp.max(z, axis=1, keepdims=True)
        logs = z - top - xp.log(xp.sum(xp.exp(z - top), axis=1, keepdims=True))
        return -xp.mean(xp.sum(hot * logs, axis=1)) + 0.005 * xp.sum(w**2)

    return loss


MODELS: dict[str, Model] = {
    "logistic growth": Model(logistic_growth, (0.05, 8.0, 2.0)),
    "AR(2)": Model(autoregression, (0.0, 0.0, 0.0, 0.0)),
    "Kalman filter": Model(kalman, (0.0, 0.0, 0.0)),
    "compartments": Model(compartments, (0.0, 0.0, 0.0, 0.0)),
    "Gaussian process": Model(gaussian_process, (0.0, 0.0, 0.0)),
    "multinomial": Model(multinomial, (0.0,) * 200),
}


def _of_yota(make: Callable[[Any], Loss]) -> Any:
    from yota_py import value_and_grad

    return value_and_grad(make(numpy))


def _of_autograd(make: Callable[[Any], Loss]) -> Any:
    import autograd.numpy as anp
    from autograd import value_and_grad

    return value_and_grad(make(anp))


def _of_jax(make: Callable[[Any], Loss]) -> Any:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    run = jax.jit(jax.value_and_grad(make(jnp)))

    def both(p: Any) -> Any:
        value, gradient = run(p)
        return float(value), numpy.asarray(gradient)

    return both


LIBRARIES: dict[str, Callable[[Callable[[Any], Loss]], Any] | None] = {
    "none": None, "yota_py": _of_yota, "yota_py again": _of_yota, "autograd": _of_autograd, "jax": _of_jax,
}  # fmt: skip
AGAIN = "yota_py again"  # with the kernels that an earlier process has left on disk


def fit(model: Model, library: str) -> float:
    """The least loss."""
    from scipy.optimize import minimize

    adapt, start = LIBRARIES[library], numpy.array(model.start)
    if adapt is None:
        return float(minimize(model.make(numpy), start, method="BFGS").fun)
    return float(minimize(adapt(model.make), start, jac=True, method="BFGS").fun)


def _seconds(name: str, library: str, kept: str) -> tuple[float, float]:
    """How long a process takes, and the loss that it finds; for ever, if it is stopped."""
    command = [sys.executable, "-m", "benchmarks.solution", "--fit", name, "--library", library]
    environment = {**os.environ, "YOTA_CACHE_DIR": kept if library == AGAIN else ""}
    begin = perf_counter()
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return math.inf, math.nan
    return perf_counter() - begin, float(done.stdout.split()[-1])


def _said(seconds: float) -> str:
    return f"> {LIMIT:g}" if math.isinf(seconds) else f"{seconds:.2f}"


def _judged(found: dict[str, float], parameters: int) -> str:
    """Half a second behind finite differences at most; ahead of them from 20 parameters on, and ahead of JAX."""
    ours = found["yota_py"]
    good = ours <= found["none"] + (0.5 if parameters < 20 else 0.0) and ours <= found.get("jax", ours)
    return "met" if good else "MISSED"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the goals are for people to judge, not for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.solution", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, for tests")
    parser.add_argument("--only", metavar="TEXT", default="", help="models whose names hold this")
    parser.add_argument("--without", action="append", default=[], choices=LIBRARIES, help="leave a library out")
    parser.add_argument("--fit", choices=MODELS, help="do one fit, and print the loss")
    parser.add_argument("--library", choices=LIBRARIES, default="yota_py")
    options = parser.parse_args(argv)
    if options.fit is not None:
        print(fit(MODELS[options.fit], options.library))
        return 0
    print(f"pinned: {pinning()}")
    known = [name for name in LIBRARIES if name not in options.without]
    present = [name for name in known if name == "none" or find_spec(name.partition(" ")[0]) is not None]
    body = []
    for name, model in MODELS.items():
        if options.only not in name:
            continue
        times: dict[str, list[float]] = {library: [] for library in present}
        losses: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as kept:
            _seconds(name, AGAIN, kept)
            for _ in range(1 if options.quick else ROUNDS):
                for library in present:
                    if math.inf not in times[library]:
                        seconds, loss = _seconds(name, library, kept)
                        times[library].append(seconds)
                        losses |= {library: loss} if math.isfinite(seconds) else {}
        scale = abs(float(model.make(numpy)(numpy.array(model.start))))
        least = min(losses.values())
        wrong = [library for library, loss in losses.items() if not loss - least <= TOLERANCE * scale]
        found = {library: statistics.median(seconds) for library, seconds in times.items()}
        cells = [_said(found[library]) if library in found else ABSENT for library in LIBRARIES]
        verdict = _judged(found, len(model.start)) if not wrong else f"WRONG: {', '.join(wrong)}"
        body.append([f"{name}, {len(model.start)}", *cells, verdict])
    header = ["model, parameters", *(f"{library} s" for library in LIBRARIES), "goal"]
    print("\n" + align(header, body))
    return 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
