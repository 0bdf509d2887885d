"""Compare, then time, then compare again: one workload through all libraries."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from time import perf_counter
from typing import Any

import numpy

from benchmarks.check import RTOL, STEP_RTOL, WrongResultError, difference, directional_error
from benchmarks.peers import Call, Peer, aligned, map_leaves
from benchmarks.workloads import Workload

SEEDS = (1, 2, 3)  # input sets in turn, so that nobody gains from seeing the same values again


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    rounds: int
    sample_seconds: float
    warm_up_seconds: float


FULL = Effort(rounds=15, sample_seconds=0.020, warm_up_seconds=0.200)
QUICK = Effort(rounds=7, sample_seconds=0.002, warm_up_seconds=0.010)


@dataclass(slots=True)
class Timing:
    """One library on one workload; seconds a call."""

    first_call: float = 0.0
    start_up: float = 0.0  # what the first six calls cost above six steady ones: trace and compile
    calls_per_sample: int = 0
    samples: list[float] = field(default_factory=list)
    worst_difference: float = 0.0  # relative to the largest entry of each array

    @property
    def median(self) -> float:
        """The figure that the table quotes."""
        return statistics.median(self.samples)

    @property
    def minimum(self) -> float:
        """The best sample."""
        return min(self.samples)


@dataclass(slots=True)
class Row:
    """One workload: timings by library, and what is wrong with whom."""

    workload: str
    reference: str = ""  # whose gradients the others are compared with
    timings: dict[str, Timing] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)


# -- time ----------------------------------------------------------------------------------------------


def sample(calls: Sequence[Call], count: int) -> float:
    """Seconds for `count` calls, the input sets in turn; without the cycle collector, as in timeit."""
    gc.disable()
    try:
        start = perf_counter()
        for call in islice(cycle(calls), count):
            call()
        return perf_counter() - start
    finally:
        gc.enable()


def warm_up(calls: Sequence[Call], effort: Effort, timing: Timing) -> None:
    """Two turns at least, timed one by one: libraries trace and compile at different calls."""
    times: list[float] = []
    early = 2 * len(calls)
    while len(times) < early or sum(times) < effort.warm_up_seconds:
        start = perf_counter()
        calls[len(times) % len(calls)]()
        times.append(perf_counter() - start)
    steady = statistics.median(times[early // 2 :])
    timing.first_call = times[0]
    timing.start_up = max(0.0, sum(times[:early]) - early * steady)


def autorange(calls: Sequence[Call], seconds: float) -> int:
    """How many calls, in whole turns of the input sets, last `seconds` or more."""
    turns = 1
    while (elapsed := sample(calls, turns * len(calls))) < seconds:
        turns = min(10 * turns, max(turns + 1, int(1.2 * turns * seconds / elapsed)))
    return turns * len(calls)


# -- one workload --------------------------------------------------------------------------------------


class Contest:
    """One workload on its way through the libraries; who fails is out, with the reason in `row.wrong`."""

    def __init__(self, workload: Workload) -> None:
        """The inputs, and what NumPy makes of them."""
        self.workload = workload
        self.row = Row(workload.name)
        self.inputs = [map_leaves(aligned, workload.make(seed)) for seed in SEEDS]
        self.values = [workload.function(numpy)(*args) for args in self.inputs]
        self.gradients: list[Any] = []  # of the reference
        self.calls: dict[str, tuple[Call, ...]] = {}

    @contextmanager
    def blaming(self, name: str) -> Iterator[None]:
        """Whatever a library does wrong is its own row's business, not the run's."""
        try:
            yield
        except WrongResultError as error:
            self.row.wrong[name] = str(error)
        except Exception as error:
            self.row.wrong[name] = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        if name in self.row.wrong:
            self.calls.pop(name, None)

    def enter(self, peer: Peer, library: Any, effort: Effort) -> None:
        """Trace and compile."""
        with self.blaming(peer.name):
            if calls := peer.prepare(library, self.workload, self.inputs):
                self.calls[peer.name] = calls
                self.row.timings[peer.name] = Timing()
                warm_up(calls, effort, self.row.timings[peer.name])

    def compare(self, primal: Container[str]) -> None:
        """Compare the results of all input sets; libraries in `primal` give the value only.

        Nothing is looked at before the last input set is through, so that a reused buffer is seen too.
        """
        for name, calls in list(self.calls.items()):
            with self.blaming(name):
                results = [call() for call in calls]
                if name in primal:
                    self.agree(name, results, self.values)
                    continue
                if not self.gradients:
                    self.adopt(name, [gradient for _, gradient in results])
                self.agree(name, results, list(zip(self.values, self.gradients, strict=True)))

    def adopt(self, name: str, gradients: list[Any]) -> None:
        """Take these gradients as the reference if finite differences agree."""
        for args, found in zip(self.inputs, gradients, strict=True):
            error = directional_error(self.workload, args, found)
            if not error < STEP_RTOL:
                raise WrongResultError(f"differs by {error:.1e} from finite differences")
        self.row.reference, self.gradients = name, gradients

    def agree(self, name: str, results: Sequence[Any], expected: Sequence[Any]) -> None:
        """Every input set's result is the expected one; notes the worst difference."""
        timing = self.row.timings[name]
        for seed, result, right in zip(SEEDS, results, expected, strict=True):
            error = difference(result, right)
            timing.worst_difference = max(timing.worst_difference, error)
            if error > RTOL:
                raise WrongResultError(
                    f"seed {seed}: differs by {error:.1e} from {self.row.reference or 'NumPy'}"
                )

    def time(self, effort: Effort) -> None:
        """Rounds of all libraries, so that noise hits all alike."""
        for name, calls in list(self.calls.items()):
            with self.blaming(name):
                self.row.timings[name].calls_per_sample = autorange(calls, effort.sample_seconds)
        for _ in range(effort.rounds):
            for name, calls in list(self.calls.items()):
                with self.blaming(name):
                    timing = self.row.timings[name]
                    timing.samples.append(sample(calls, timing.calls_per_sample) / timing.calls_per_sample)

    def inspect_inputs(self) -> None:
        """Nobody may have written to them."""
        with self.blaming("inputs"):
            if difference(self.inputs, [self.workload.make(seed) for seed in SEEDS]) > 0:
                raise WrongResultError("a library has changed its inputs")


def measure(workload: Workload, libraries: dict[str, Any], peers: Sequence[Peer], effort: Effort) -> Row:
    """Compare before and after the timing: what is cached by then must still be right."""
    contest = Contest(workload)
    primal = {peer.name for peer in peers if peer.primal}
    for peer in peers:
        contest.enter(peer, libraries[peer.name], effort)
    contest.compare(primal)
    contest.time(effort)
    contest.compare(primal)
    contest.inspect_inputs()
    gc.collect()
    return contest.row


def medians(series: Mapping[str, Sequence[Call]], effort: Effort) -> dict[str, float]:
    """Seconds a call of each series, its calls in turn: medians of interleaved rounds."""
    counts = {name: autorange(calls, effort.sample_seconds) for name, calls in series.items()}
    samples: dict[str, list[float]] = {name: [] for name in series}
    for _ in range(effort.rounds):
        for name, calls in series.items():
            samples[name].append(sample(calls, counts[name]) / counts[name])
    return {name: statistics.median(times) for name, times in samples.items()}
