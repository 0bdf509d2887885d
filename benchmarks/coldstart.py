"""What a fresh process pays: `python -m benchmarks.coldstart` from the repository's root.

The import of yota_py on top of NumPy's, and the way to the first compiled call, by default (calls are interpreted
until that has cost as much as compiling) and with `config.compile = "always"`, where the first call compiles; each
where no earlier process has left machine code on disk, and where one has. And the first call of code in which nothing
repeats, thousands of operations on numbers, with all that it takes to compile it.
"""

from __future__ import annotations

import argparse
import json
import linecache
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy

from benchmarks.environment import pinning, restart_single_threaded, single_threaded
from benchmarks.workloads import make_mlp, mlp

ROOT = Path(__file__).resolve().parent.parent
IMPORTS = """
from time import perf_counter
start = perf_counter()
import numpy
middle = perf_counter()
import yota_py
print([middle - start, perf_counter() - middle])
"""
POLICIES = ("auto", "always")
INPUTS = 5  # sets of them, in turn
AFTER = 20  # calls of compiled code
MOST = 10_000  # calls until there is compiled code
GOALS = {3_000: 2.0, 10_000: 7.0}  # seconds of a first call that compiles so many operations


class ChildError(Exception):
    """A child process ended badly; the message is its last line."""


def fresh(command: Sequence[str], kept: str = "") -> list[float]:
    """The list of seconds that a fresh Python process prints, which finds machine code in the directory ``kept``."""
    environment = {**single_threaded(), "YOTA_CACHE_DIR": kept}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ChildError((done.stderr.strip() or "no message").splitlines()[-1])
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def medians(runs: Sequence[Sequence[float]]) -> list[float]:
    """Column by column."""
    return [statistics.median(column) for column in zip(*runs, strict=True)]


def first_calls(policy: str) -> list[float]:
    """In this process: calls before compiled code runs, seconds of all of them, of the slowest, of a compiled one.

    MLP 64-100-100-10, batch 64.
    """
    library = import_module("yota_py")
    library.config.compile = policy
    inputs = [make_mlp((64, 100, 100, 10))(seed) for seed in range(INPUTS)]
    step = library.value_and_grad(mlp(numpy))
    turns = cycle(inputs)
    times: list[float] = []

    def timed() -> float:
        args = next(turns)
        start = perf_counter()
        step(*args)
        return perf_counter() - start

    while not served(library, step) and len(times) < MOST:
        times.append(timed())
    early = times[:-1]  # the last one ran compiled code
    return [len(early), sum(early), max(early), statistics.median(timed() for _ in range(AFTER))]


def irregular(operations: int) -> str:
    """A module with a function of ten numbers, of so many operations in no order; each is used."""
    rng, lines = random.Random(operations), ["import numpy as np", "", "def f(x):"]
    lines += [f"    v{k} = x[{k}]" for k in range(10)]
    unused = [f"v{k}" for k in range(10)]
    for k in range(10, operations - 9):  # nine more add up what is left
        a, b = unused.pop(rng.randrange(10)), f"v{rng.randrange(k)}"
        made = rng.choice([f"np.sin({a})", f"np.tanh({a})", f"{a} * {b}", f"{a} - {b}", f"{a} + {b}"])
        lines.append(f"    v{k} = {made}")
        unused.append(f"v{k}")
    return "\n".join([*lines, f"    return {' + '.join(unused)}", ""])


def first_of_irregular(operations: int) -> list[float]:
    """In this process: seconds of a first call, which compiles it, and of one of the compiled program."""
    library = import_module("yota_py")
    library.config.compile = "always"
    text, space = irregular(operations), {}
    linecache.cache["irregular.py"] = len(text), None, text.splitlines(keepends=True), "irregular.py"
    exec(compile(text, "irregular.py", "exec"), space)
    step, times = library.value_and_grad(space["f"]), []
    for k in range(1 + AFTER):
        x = numpy.linspace(0.1, 0.9, 10) + 0.01 * k
        start = perf_counter()
        step(x)
        times.append(perf_counter() - start)
    if served(library, step) < AFTER:
        raise ChildError("calls after the first one did not run compiled code")
    return [times[0], statistics.median(times[1:])]


def served(library: Any, step: Any) -> int:
    """How many calls ran compiled code."""
    return sum(found.calls for found in library.explain(step))


def show(repeats: int) -> None:
    """Run the children and print."""
    numpy_import, own_import = medians([fresh(["-c", IMPORTS]) for _ in range(repeats)])
    print(f"import numpy   {1e3 * numpy_import:7.1f} ms")
    print(f"import yota_py {1e3 * own_import:7.1f} ms on top (medians of {repeats} processes)")
    print(f"MLP 64-100-100-10, batch 64, value and gradient, until code is compiled (medians of {repeats} processes):")
    with tempfile.TemporaryDirectory() as filled:
        for policy in POLICIES:
            for kept, when in (("", "nothing on disk"), (filled, "kernels on disk")):
                child = ["-m", "benchmarks.coldstart", "--child", policy]
                if kept:
                    fresh(child, kept)
                calls, total, slowest, compiled = medians([fresh(child, kept) for _ in range(repeats)])
                print(f"  {policy}, {when}: {calls:.0f} calls, {1e3 * total:.0f} ms, the slowest {1e3 * slowest:.0f} "
                      f"ms; compiled calls take {1e3 * compiled:.2f} ms")
    print(f"operations without order, value and gradient, nothing on disk (medians of {repeats} processes):")
    for operations, goal in GOALS.items():
        child = ["-m", "benchmarks.coldstart", "--operations", str(operations)]
        first, compiled = medians([fresh(child) for _ in range(repeats)])
        said = "met" if first <= goal else "MISSED"
        print(f"  {operations}: the first call {first:.2f} s, goal {goal:.0f} s: {said}; "
              f"compiled calls take {1e3 * compiled:.2f} ms")


def main(argv: Sequence[str] | None = None) -> int:
    """Print all figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coldstart", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one process each, for tests")
    parser.add_argument("--child", choices=POLICIES, help=argparse.SUPPRESS)
    parser.add_argument("--operations", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.operations:
        print(first_of_irregular(options.operations))
        return 0
    if options.child:
        print(first_calls(options.child))
        return 0
    print(f"pinned: {pinning()}")
    try:
        show(1 if options.quick else 7)
    except ChildError as error:
        print(f"skipped yota_py: {error}")
    return 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
