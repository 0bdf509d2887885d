"""What a fresh process pays: `python -m benchmarks.coldstart` from the repository's root.

The import of yota_py on top of NumPy's, and the way to the first compiled call: the first call of a
gradient is interpreted, the second compiles (and imports numba if nothing has), so the figure is the sum
of the two.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter

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
CALLS = 5
FIRST_COMPILED = 2  # the call that compiles


class ChildError(Exception):
    """A child process ended badly; the message is its last line."""


def fresh(command: Sequence[str]) -> list[float]:
    """The list of seconds that a fresh Python process prints."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=single_threaded(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ChildError((done.stderr.strip() or "no message").splitlines()[-1])
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def medians(runs: Sequence[Sequence[float]]) -> list[float]:
    """Column by column."""
    return [statistics.median(column) for column in zip(*runs, strict=True)]


def first_calls() -> list[float]:
    """Seconds of each of the first calls, in this process: MLP 64-100-100-10, batch 64."""
    library = import_module("yota_py")
    inputs = [make_mlp((64, 100, 100, 10))(seed) for seed in range(CALLS)]
    step = library.value_and_grad(mlp(numpy))
    times = []
    for args in inputs:
        start = perf_counter()
        step(*args)
        times.append(perf_counter() - start)
    return times


def show(repeats: int) -> None:
    """Run the children and print."""
    numpy_import, own_import = medians([fresh(["-c", IMPORTS]) for _ in range(repeats)])
    print(f"import numpy   {1e3 * numpy_import:7.1f} ms")
    print(f"import yota_py {1e3 * own_import:7.1f} ms on top (medians of {repeats} processes)")
    child = ["-m", "benchmarks.coldstart", "--child"]
    times = [1e3 * seconds for seconds in medians([fresh(child) for _ in range(repeats)])]
    calls = ", ".join(f"{time:.2f}" for time in times)
    print(f"MLP 64-100-100-10, batch 64, value and gradient (medians of {repeats} processes), ms:")
    print(f"  first compiled call after {sum(times[:FIRST_COMPILED]):.1f} (calls: {calls})")


def main(argv: Sequence[str] | None = None) -> int:
    """Print both figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coldstart", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one process each, for tests")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        print(first_calls())
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
