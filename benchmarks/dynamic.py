"""Networks whose structure is new at each call: `python -m benchmarks.dynamic` from the repository's root.

There is nothing to compile: value and gradients of a recurrent network, and of recursive ones over random trees, are
interpreted by all libraries. Medians of interleaved rounds, on one core. The goals are parts of Autograd's time, and
microseconds an operation of tracing alone, which is the way forward of such a call. The last column is how long `trace`
takes, an operation, with loops traced to their ends: its tape can be printed and compiled, so it follows what the
function reads and writes, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy

from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.measure import FULL, QUICK, Effort, medians
from benchmarks.peers import Call
from benchmarks.report import ABSENT, align

SIZE, STEPS, WORDS, LEAVES = 8, 50, 40, 25
TREES = 12  # in turn, so that none comes again soon
TRACING = 8.0  # microseconds an operation
TOLERANCE = 1e-10

Arrays = tuple[Any, ...]
Program = Callable[..., Any]


def recurrent(xp: Any) -> Program:
    """h <- tanh(W h + x), 50 times."""

    def loss(w: Any, x: Any) -> Any:
        h = xp.zeros(SIZE)
        for _ in range(STEPS):
            h = xp.tanh(xp.matmul(w, h) + x)
        return xp.sum(h)

    return loss


def recursive(xp: Any) -> Program:
    """A vector for each node of a binary tree: that of a word, or tanh(L left + R right + b) (Socher et al. 2011)."""

    def loss(left: Any, right: Any, b: Any, words: Any, tree: Any) -> Any:
        def vector(node: Any) -> Any:
            if isinstance(node, int):
                return words[node]
            return xp.tanh(xp.matmul(left, vector(node[0])) + xp.matmul(right, vector(node[1])) + b)

        return xp.sum(vector(tree) ** 2)

    return loss


def random_tree(rng: numpy.random.Generator, leaves: int) -> Any:
    """A binary tree of words."""
    if leaves == 1:
        return int(rng.integers(WORDS))
    at = int(rng.integers(1, leaves))
    return random_tree(rng, at), random_tree(rng, leaves - at)


@dataclass(frozen=True, slots=True)
class Network:
    """A program, and its arguments: arrays, and what is no array."""

    name: str
    make: Callable[[Any], Program]
    calls: Sequence[tuple[Arrays, tuple[Any, ...]]]
    goal: float


def networks() -> list[Network]:
    """What is measured."""
    rng = numpy.random.default_rng(0)
    w, x, b = rng.normal(size=(SIZE, SIZE)) * 0.3, rng.normal(size=SIZE), rng.normal(size=SIZE)
    table = rng.normal(size=(WORDS, SIZE))
    trees = [random_tree(rng, LEAVES) for _ in range(TREES)]
    return [
        Network(f"RNN of {STEPS} steps", recurrent, [((w, x), ())], 0.5),
        Network(f"trees of {LEAVES} words", recursive, [((w, 0.5 * w.T, b, table), (tree,)) for tree in trees], 0.6),
    ]


def _numpy(network: Network) -> Program:
    loss = network.make(numpy)
    return lambda arrays, rest: loss(*arrays, *rest)


def _yota(network: Network) -> Program:
    library = import_module("yota_py")
    library.config.compile = "never"
    loss, n = network.make(numpy), len(network.calls[0][0])
    run = library.value_and_grad(loss, tuple(range(n)))
    return lambda arrays, rest: run(*arrays, *rest)


def _forward(network: Network) -> Program:
    """The way forward of an interpreted call: all but the way back, and what comes before and after."""
    sweep, loss = import_module("yota_py.reverse.eager").Sweep, network.make(numpy)

    def run(arrays: Arrays, rest: tuple[Any, ...]) -> Any:
        steps = sweep(adds=False)
        loss(*map(steps.active, arrays), *rest)
        return steps

    return run


def _traced(network: Network) -> Program:
    library = import_module("yota_py")
    loss = network.make(numpy)
    return lambda arrays, rest: library.trace(loss, *arrays, *rest)


def _autograd(network: Network) -> Program:
    autograd, n = import_module("autograd"), len(network.calls[0][0])
    run = autograd.value_and_grad(network.make(import_module("autograd.numpy")), tuple(range(n)))
    return lambda arrays, rest: run(*arrays, *rest)


def _torch(network: Network) -> Program:
    torch = import_module("torch")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    loss = network.make(torch)

    def run(arrays: Arrays, rest: tuple[Any, ...]) -> Any:
        given = [torch.tensor(x, requires_grad=True) for x in arrays]
        value = loss(*given, *rest)
        value.backward()
        return value.item(), tuple(x.grad.numpy() for x in given)

    return run


LIBRARIES: dict[str, Callable[[Network], Program]] = {
    "numpy": _numpy, "yota_py": _yota, "autograd": _autograd, "torch": _torch,
}  # fmt: skip


def check(name: str, have: Any, want: Any) -> None:
    """Value and gradients are those of another library."""
    for a, b in zip((have[0], *have[1]), (want[0], *want[1]), strict=True):
        difference = numpy.max(numpy.abs(numpy.asarray(a) - b))
        if not difference <= TOLERANCE * max(1.0, numpy.max(numpy.abs(b))):
            raise AssertionError(f"{name} differs by {difference:.2g}")


def measure(network: Network, effort: Effort) -> Mapping[str, float]:
    """Seconds a call, by library; those of tracing are for one operation."""
    runs = {name: make(network) for name, make in LIBRARIES.items() if find_spec(name) is not None}
    for arrays, rest in network.calls:
        wants = [run(arrays, rest) for name, run in runs.items() if name != "numpy"]
        for want in wants:
            check(network.name, wants[0], want)
    series: dict[str, list[Call]] = {
        name: [lambda run=run, given=given: run(*given) for given in network.calls] for name, run in runs.items()
    }
    traced_by = {"tracing": _forward(network), "trace": _traced(network)}
    for name, traced in traced_by.items():
        series[name] = [lambda traced=traced, given=given: traced(*given) for given in network.calls]
    operations = sum(len(call()) for call in series["trace"]) / len(network.calls)
    found = medians(series, effort)
    return {name: found[name] / (operations if name in traced_by else 1) for name in found}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the goals are for people to judge, not for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dynamic", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short samples, for tests")
    options = parser.parse_args(argv)
    print(f"pinned: {pinning()}")
    import_module("yota_py").config.roll = False
    body = []
    for network in networks():
        found = measure(network, QUICK if options.quick else FULL)
        times = [f"{1e3 * found[name]:.3f}" if name in found else ABSENT for name in LIBRARIES]
        share = found["yota_py"] / found["autograd"] if "autograd" in found else None
        cells = [ABSENT] * 2 if share is None else [f"{share:.2f}", "met" if share <= network.goal else "MISSED"]
        tracing, trace = 1e6 * found["tracing"], 1e6 * found["trace"]
        cells += [f"{tracing:.1f}", f"{TRACING:g}", "met" if tracing <= TRACING else "MISSED", f"{trace:.1f}"]
        body.append([network.name, *times, cells[0], f"{network.goal:g}", *cells[1:]])
    times = [f"{name} ms" for name in LIBRARIES]
    judged = ["of autograd", "goal", "", "tracing µs", "goal", ""]
    header = ["value and gradients, interpreted", *times, *judged, "trace µs"]
    print("\n" + align(header, body))
    return 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
