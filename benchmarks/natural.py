"""Programs as they are typed: `python -m benchmarks.natural` from the repository's root.

They draw random numbers, write into arrays, select by masks that are others at each call, and set attributes. Each is
plain NumPy; value and gradients, compiled, beside the function alone: steady, with the number of calls that did not run
compiled code, and the first three calls. Values are compared with the function's at the same state of the generators,
gradients with the interpreter's. Medians of interleaved rounds, on one core.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.measure import FULL, QUICK, Effort, autorange, sample
from benchmarks.peers import Call
from benchmarks.report import align
from yota_py import config, explain, value_and_grad

TOLERANCE = 1e-10
GOAL = 3.0  # times the function's own time
INPUTS = 3  # in turn
RNG = np.random.default_rng(0)

Loss = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A loss, and its arguments, in turn; derivatives are wanted in the first."""

    name: str
    loss: Loss
    calls: Sequence[tuple[Any, ...]]


def vae(params: Any, x: Any) -> Any:
    """Kingma and Welling 2014: reparameterised, with a Gaussian posterior and Bernoulli pixels."""
    encode, stats, decode, out = params
    h = np.tanh(x @ encode) @ stats
    mu, logvar = np.split(h, 2, axis=1)
    z = mu + np.exp(0.5 * logvar) * np.random.randn(*mu.shape)
    logits = np.tanh(z @ decode) @ out
    reconstruction = np.sum(np.logaddexp(0.0, logits) - x * logits)
    return (reconstruction - 0.5 * np.sum(1.0 + logvar - mu**2 - np.exp(logvar))) / len(x)


def dropout(params: Any, x: Any) -> Any:
    """A layer of which each number is kept with probability 0.8."""
    h = np.tanh(x @ params[0])
    h = h * (RNG.random(h.shape) < 0.8) / 0.8
    return np.sum((h @ params[1]) ** 2)


def reinforce(params: Any, states: Any, rewards: Any) -> Any:
    """The score function of actions that are drawn by a softmax policy, with rewards of a table (Williams 1992)."""
    logits = np.tanh(states @ params[0]) @ params[1]
    total = 0.0
    for row, reward in zip(logits, rewards, strict=True):
        p = np.exp(row - np.max(row))
        p = p / np.sum(p)
        action = np.random.choice(len(p), p=p)
        total = total + np.log(p[action]) * reward[action]
    return -total


def masked(w: Any, x: Any, y: Any) -> Any:
    """Least squares over what is observed and not too far off."""
    r = x @ w - y
    r[np.isnan(r)] = 0.0
    r[np.abs(r) > 2.0] *= 0.1
    return np.sum(r[r > -1.5] ** 2)


class Network:
    """A class that keeps what it computes."""

    def __call__(self, params: Any, x: Any) -> Any:
        self.hidden = np.tanh(x @ params[0])
        self.output = self.hidden @ params[1]
        return np.mean(self.output**2)


def garch(p: Any, r: Any) -> Any:
    """The likelihood of GARCH(1, 1), its variances written one by one (Bollerslev 1986)."""
    omega, alpha, beta = np.exp(p[0]), 0.2 / (1.0 + np.exp(-p[1])), 0.9 / (1.0 + np.exp(-p[2]))
    variance = np.empty(len(r))
    variance[0] = 1.0
    for t in range(1, len(r)):
        variance[t] = omega + alpha * r[t - 1] ** 2 + beta * variance[t - 1]
    return 0.5 * np.sum(np.log(variance) + r**2 / variance)


def heat(u0: Any, target: Any) -> Any:
    """A hundred explicit steps of the heat equation, in place."""
    u = u0.copy()
    for _ in range(100):
        u[1:-1] += 0.2 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum((u - target) ** 2)


def covariance(p: Any, x: Any) -> Any:
    """A Gaussian's likelihood, by the triangle of its precision's factor."""
    n = x.shape[1]
    factor = np.zeros((n, n))
    factor[np.triu_indices(n)] = p
    return 0.5 * np.sum((x @ factor.T) ** 2) - len(x) * np.sum(np.log(np.abs(np.diag(factor))))


def programs() -> list[Program]:
    """What is measured."""
    rng = np.random.default_rng(1)

    def arrays(*shapes: tuple[int, ...], scale: float = 0.3) -> list[Any]:
        return [scale * rng.normal(size=shape) for shape in shapes]

    def inputs(make: Callable[[], tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [make() for _ in range(INPUTS)]

    def observed() -> tuple[Any, ...]:
        y = rng.normal(size=500)
        y[rng.random(500) < 0.2] = np.nan
        return rng.normal(size=8), rng.normal(size=(500, 8)), y

    layers = (64, 50), (50, 10)
    return [
        Program("VAE", vae, inputs(lambda: (arrays((64, 50), (50, 20), (10, 50), (50, 64)), rng.random((40, 64))))),
        Program("dropout", dropout, inputs(lambda: (arrays(*layers), rng.random((40, 64))))),
        Program(
            "REINFORCE, 10 actions", reinforce,
            inputs(lambda: (arrays((8, 16), (16, 4)), rng.random((10, 8)), rng.random((10, 4)))),
        ),
        Program("masks that vary", masked, inputs(observed)),
        Program("class that sets attributes", Network(), inputs(lambda: (arrays(*layers), rng.random((40, 64))))),
        Program("GARCH, 500 steps", garch, inputs(lambda: (0.1 * rng.normal(size=3), rng.normal(size=500)))),
        Program("heat, 100 steps of 100", heat, inputs(lambda: (rng.random(100), rng.random(100)))),
        Program("triu_indices of 10", covariance, inputs(lambda: (1.0 + rng.random(55), rng.normal(size=(50, 10))))),
    ]


def _seed(number: int) -> None:
    np.random.seed(number)
    RNG.bit_generator.state = np.random.default_rng(number).bit_generator.state


def _leaves(tree: Any) -> list[Any]:
    return [x for item in tree for x in _leaves(item)] if isinstance(tree, list | tuple) else [np.asarray(tree)]


def check(program: Program, run: Loss) -> None:
    """Values and gradients are right for each of the inputs."""
    interpreted = value_and_grad(program.loss)
    for number, args in enumerate(program.calls * 2):
        _seed(number)
        want = program.loss(*args)
        _seed(number)
        value, slopes = run(*args)
        config.compile = "never"
        _seed(number)
        wanted = interpreted(*args)[1]
        config.compile = "always"
        for have, right in zip(_leaves([value, slopes]), _leaves([want, wanted]), strict=True):
            if not np.max(np.abs(have - right)) <= TOLERANCE * max(1.0, np.max(np.abs(right))):
                raise AssertionError(f"{program.name} is wrong")


def _misses(run: Loss) -> int:
    return sum(known.misses for known in explain(run))


def measure(program: Program, effort: Effort) -> tuple[float, float, float, int]:
    """Seconds of the function, of value and gradients, and of the first three calls, of which the last one is compiled;
    and how many of the timed calls were not."""
    run = value_and_grad(program.loss)
    start = perf_counter()
    for _ in range(3):
        run(*program.calls[0])
    first = perf_counter() - start
    check(program, run)
    series: list[list[Call]] = [
        [lambda fn=fn, args=args: fn(*args) for args in program.calls] for fn in (program.loss, run)
    ]
    counts = [autorange(calls, effort.sample_seconds) for calls in series]
    samples: list[list[float]] = [[], []]
    before = _misses(run)
    for _ in range(effort.rounds):
        for times, calls, count in zip(samples, series, counts, strict=True):
            times.append(sample(calls, count) / count)
    plain, gradient = map(statistics.median, samples)
    return plain, gradient, first, _misses(run) - before


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the goals are for people to judge, not for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.natural", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short samples, for tests")
    options = parser.parse_args(argv)
    config.compile = "always"
    print(f"pinned: {pinning()}")
    body = []
    for program in programs():
        plain, gradient, first, misses = measure(program, QUICK if options.quick else FULL)
        share = gradient / plain
        said = "met" if share <= GOAL and not misses else "MISSED"
        body.append([program.name, f"{1e6 * plain:.1f}", f"{1e6 * gradient:.1f}", f"{share:.2f}", f"{misses}",
                     f"{first:.2f}", said])  # fmt: skip
    header = ["value and gradients", "function µs", "compiled µs", "of it", "not compiled", "first 3 calls s", ""]
    print("\n" + align(header, body))
    return 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
