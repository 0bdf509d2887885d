"""What a call costs besides its arithmetic: `python -m benchmarks.calls` from the repository's root.

Calls of small functions, with what they capture and decide, and steps of training, on one core. Some rows have goals;
differences are of rows above. Medians of interleaved rounds, as in `benchmarks.run`.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.measure import FULL, QUICK, Effort, Timing, autorange, sample, warm_up
from benchmarks.peers import Call, load_yota
from benchmarks.report import ABSENT, align, number
from benchmarks.training import training
from benchmarks.workloads import make_scalar, scalar

MICRO = 1e-6
RUN = 100  # calls with the same input in a row, where nothing changes from one to the next


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: what one series takes a call, or how much more than another."""

    label: str
    series: str
    less: str = ""
    goal: float | None = None  # seconds

    def cells(self, found: Mapping[str, float]) -> list[str]:
        """What was found."""
        seconds = found[self.series] - (found[self.less] if self.less else 0.0)
        if self.goal is None:
            return [self.label, number(seconds), ABSENT, ""]
        return [self.label, number(seconds), number(self.goal), "met" if seconds <= self.goal else "MISSED"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """Series of calls that are timed side by side, and what is told of them."""

    series: Mapping[str, Sequence[Call]]
    rows: Sequence[Row]

    def run(self, effort: Effort) -> list[list[str]]:
        """The lines of the table; an audit among calls that were not warm would leave samples of three calls."""
        for calls in self.series.values():
            warm_up(calls, effort, Timing())
        counts = {name: autorange(calls, effort.sample_seconds) for name, calls in self.series.items()}
        samples: dict[str, list[float]] = {name: [] for name in self.series}
        for _ in range(effort.rounds):
            for name, calls in self.series.items():
                samples[name].append(sample(calls, counts[name]) / counts[name])
        found = {name: statistics.median(times) for name, times in samples.items()}
        return [row.cells(found) for row in self.rows]


# -- a small function ----------------------------------------------------------------------------------


def example(library: Any) -> Experiment:
    """x1 x2 + sin x1."""
    f, inputs = scalar(np), [make_scalar(seed) for seed in (1, 2, 3)]
    both = library.value_and_grad(f, (0, 1))
    library.grad.compile(f, *inputs[0])
    both.compile(*inputs[0])
    series = {
        "grad": [partial(library.grad, f, *args) for args in inputs],
        "value_and_grad": [partial(both, *args) for args in inputs],
    }
    return Experiment(series, [Row(f"x1 * x2 + sin(x1) by {name}", name, goal=2 * MICRO) for name in series])


# -- keys and guards -----------------------------------------------------------------------------------

A0, A1, A2, A3, A4 = (np.full(3, 0.1 * i) for i in range(5))
F0, F1, F2, F3, F4 = 0.1, 0.2, 0.3, 0.4, 0.5


def square(x: Any) -> Any:
    """A helper."""
    return x * x


def shifted(x: Any) -> Any:
    """Another."""
    return x + F0


def scaled(x: Any) -> Any:
    """A third."""
    return F1 * x


class Model:
    """What a method reads of its object."""

    def __init__(self) -> None:
        self.W, self.b, self.power, self.active = np.ones(3), np.zeros(3), 2, True

    def loss(self, x: Any, y: Any) -> Any:
        """Twenty names: 5 arrays, 5 floats, 3 functions, 3 of modules (np, math.pi, math.e), 4 of the object."""
        z = A0 * x * math.pi + A1 * F2 + A2 * F3 + A3 * F4 + A4 / math.e
        z = np.tanh(square(z)) + shifted(-x) * scaled(y)
        if self.active:
            z = z * self.W + self.b
        return np.sum(z) ** self.power


def captures(library: Any) -> Experiment:
    """Everything but the program itself: what the call takes longer than the program on the same values."""
    model, inputs = Model(), [(1.0, 2.0), (1.5, 2.5), (2.0, 3.0)]
    both = library.value_and_grad(model.loss, (0, 1))
    both.compile(*inputs[0])
    (signature,) = (s for found in both.__yota_cache__.signatures.values() for s in found)
    values = signature.guard(model.loss)
    series = {
        "call": [partial(both, *args) for args in inputs],
        "program": [partial(signature.variants[0].program.run, *args, *values) for args in inputs],
        "guard": [partial(signature.guard, model.loss)],
        "nothing": [partial(tuple)],
    }
    return Experiment(
        series,
        [
            Row("20 captured names, in all", "call"),
            Row("20 captured names, the guard function", "guard", "nothing"),
            Row("20 captured names, all but the program", "call", "program", 1.5 * MICRO),
        ],
    )


# -- another program than the last one -----------------------------------------------------------------


def branching(x: Any) -> Any:
    """Two ways."""
    return np.sin(x) * x if x > 0 else np.exp(x) * x


def looping(x: Any) -> Any:
    """As many ways as turns."""
    y = 0.1
    while x > 1.0:
        x = x - 1.0
        y = y + x * 0.01
    return y * x


def plain(x: Any) -> Any:
    """For numbers and arrays."""
    return np.sum(np.sin(x) * x)


def made(flag: bool) -> Callable[..., Any]:
    """The same code, and another value in its closure."""
    return lambda x: np.sin(x) * x if flag else np.exp(x) * x


def orders(functions: Sequence[Callable[..., Any]], inputs: Sequence[Any], rows: Sequence[Row]) -> Experiment:
    """The same calls in runs, in turn, and in random order."""
    for f, x in zip(functions, inputs, strict=True):
        f.compile(x)  # type: ignore[attr-defined]
    calls = [partial(f, x) for f, x in zip(functions, inputs, strict=True)]
    in_turn = calls * RUN
    series = {
        "runs": [call for call in calls for _ in range(RUN)],
        "turns": in_turn,
        "random": random.Random(0).sample(in_turn, len(in_turn)),
    }
    return Experiment(series, rows)


def changes(library: Any, turns: int) -> Iterator[Experiment]:
    """A decision, a guard, or the key is another at each call, and a program for it is known."""
    both = library.value_and_grad
    cases: list[tuple[str, list[Any], list[Any]]] = [
        ("a decision", [both(branching)] * 2, [1.0, -1.0]),
        ("a captured value", [both(made(flag)) for flag in (True, False)], [1.0, 1.0]),
        ("an argument's type", [both(plain)] * 2, [1.0, np.ones(3)]),
    ]
    for what, functions, inputs in cases:
        rows = [
            Row(f"{what}, always as before", "runs"),
            Row(f"{what}, two in turn", "turns"),
            Row(f"{what}, what it costs if it changes", "turns", "runs", 5 * MICRO),
        ]
        yield orders(functions, inputs, rows)
    rows = [
        Row(f"a loop of 0 to {turns - 1} turns, always as before", "runs"),
        Row("a loop, random inputs", "random"),
        Row("a loop, what it costs if it changes", "random", "runs", 5 * MICRO),
    ]
    yield orders([both(looping)] * turns, [0.5 + i for i in range(turns)], rows)


# -- the whole -----------------------------------------------------------------------------------------


def steps() -> Iterator[Experiment]:
    """Steps of training, by every library that is installed."""
    for name, series in training():
        yield Experiment(series, [Row(f"{name}: {way}", way) for way in series])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the goals are for people to judge, not for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short samples and few programs, for tests")
    options = parser.parse_args(argv)
    effort, turns = (QUICK, 10) if options.quick else (FULL, 100)
    print(f"pinned: {pinning()}")
    library, body = load_yota(), []
    for experiment in (example(library), captures(library), *changes(library, turns), *steps()):
        body += experiment.run(effort)
    print("\ncosts of a call, µs (median)\n" + align(["call", "µs", "goal", ""], body))
    return 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
