"""A step of training that reads a few rows of a table, beside PyTorch's and JAX's: `python -m benchmarks.lookup` from
the repository's root.

The rows are summed up and weighed, the loss is a squared error, and a step of gradient descent changes the table: in
place with yota_py, NumPy (by hand, the fastest that it can) and PyTorch (an ``EmbeddingBag`` with sparse gradients and
``torch.optim.SGD``), donated to ``jax.jit`` with JAX. "dense" is yota_py's step without what makes it one of rows:
the table's gradient is returned, too. Medians of interleaved rounds, on one core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.jacobians import measure
from benchmarks.measure import FULL, QUICK
from benchmarks.report import ABSENT, align, number

ROWS, COLUMNS, RATE = 20_000, 50, 0.01
GOAL = 20e-6  # seconds a step
WORDS = np.array([3, 12_345])
_RNG = np.random.default_rng(0)
TABLE, WEIGHTS, TARGET = _RNG.normal(size=(ROWS, COLUMNS)) / 10, _RNG.normal(size=COLUMNS) / 10, 1.0

Step = Callable[[], Any]
Contestant = tuple[Step, Callable[[], Any]]  # a step, and what gives the table


def loss(table: Any, words: Any, target: Any) -> Any:
    """The squared error of what the words' rows predict."""
    return (table[words].sum(axis=0) @ WEIGHTS - target) ** 2


def with_yota(*, dense: bool = False) -> Contestant:
    """A plain step in NumPy, compiled by ``jit``."""
    yota = import_module("yota_py")
    table = TABLE.copy()

    def step(table: Any, words: Any, target: Any) -> Any:
        value, dtable = yota.value_and_grad(loss, argnums=0)(table, words, target)
        table -= RATE * dtable
        return dtable if dense else value

    compiled = yota.jit(step)
    compiled.compile(table.copy(), WORDS, TARGET)
    return lambda: compiled(table, WORDS, TARGET), lambda: table


def with_numpy() -> Contestant:
    """The derivative written by hand."""
    table = TABLE.copy()

    def step() -> Any:
        error = table[WORDS].sum(axis=0) @ WEIGHTS - TARGET
        np.subtract.at(table, WORDS, RATE * 2.0 * error * WEIGHTS)
        return error**2

    return step, lambda: table


def with_torch() -> Contestant:
    """Sparse gradients of an ``EmbeddingBag``."""
    torch = import_module("torch")
    torch.set_num_threads(1)
    bag = torch.nn.EmbeddingBag.from_pretrained(torch.tensor(TABLE), freeze=False, mode="sum", sparse=True)
    optimizer = torch.optim.SGD(bag.parameters(), lr=RATE)
    words, weights = torch.tensor(WORDS)[None], torch.tensor(WEIGHTS)

    def step() -> Any:
        optimizer.zero_grad()
        value = ((bag(words)[0] @ weights) - TARGET) ** 2
        value.backward()
        optimizer.step()
        return value

    return step, lambda: bag.weight.detach().numpy()


def with_jax() -> Contestant:
    """The table is given away, and comes back."""
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    state = [jax.numpy.array(TABLE)]

    def step(table: Any, words: Any, target: Any) -> Any:
        value, dtable = jax.value_and_grad(loss)(table, words, target)
        return table - RATE * dtable, value

    compiled = jax.jit(step, donate_argnums=0)

    def run() -> Any:
        state[0], value = compiled(state[0], WORDS, TARGET)
        return jax.block_until_ready(value)

    return run, lambda: np.asarray(state[0])


def contestants(without: Sequence[str]) -> dict[str, Contestant]:
    """By name; those that are installed, and not left out."""
    every = {
        "yota_py": (with_yota, "yota_py"), "dense": (lambda: with_yota(dense=True), "yota_py"),
        "numpy": (with_numpy, "numpy"), "torch": (with_torch, "torch"), "jax": (with_jax, "jax"),
    }  # fmt: skip
    return {name: make() for name, (make, library) in every.items() if library not in without and find_spec(library)}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the goals are for people to judge, not for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lookup", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short samples, for tests")
    parser.add_argument("--without", action="append", choices=["jax", "torch"], default=[], help="leave a peer out")
    options = parser.parse_args(argv)
    print(f"pinned: {pinning()}")
    begin = perf_counter()
    every = contestants(options.without)
    for step, _ in every.values():
        for _ in range(3):
            step()
    for _, table in every.values():
        np.testing.assert_allclose(table(), every["numpy"][1](), rtol=1e-9, atol=1e-12)
    print(f"all made and agreed in {perf_counter() - begin:.1f} s")
    found = measure({name: step for name, (step, _) in every.items()}, QUICK if options.quick else FULL)
    ours = found["yota_py"]
    body = [[name, number(time), f"{time / ours:.1f}"] for name, time in found.items()]
    print("\n" + align([f"{len(WORDS)} rows of {ROWS:,} x {COLUMNS}", "µs", "of ours"], body))
    ahead = f"{found['torch'] / ours:.1f} times" if "torch" in found else ABSENT
    print(f"\ngoals: {GOAL * 1e6:g} µs {'met' if ours <= GOAL else 'MISSED'}; ahead of PyTorch: {ahead}")
    return 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
