"""Nothing is read or written outside of what it belongs to: programs of all kinds under a memory checker.

``make stress`` makes 100,000 calls; by default there are a few.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from caching import in_a_process
from sets import examples

CALLS = 50 * examples(3)
START = f"""
import sys, warnings
sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
warnings.simplefilter("ignore")
import ctypes, numpy as np, guarded
"""


def test_no_call_leaves_its_memory() -> None:
    in_a_process(START + f"print(*guarded.run({CALLS}))", seconds=400 + CALLS / 10)


def test_the_checker_sees_what_is_written_outside() -> None:
    in_a_process(START + """
guarded.install()
from yota_py import config, grad
for offset, where in [(24, "behind"), (-1, "before")]:
    x = np.empty(24, np.uint8)
    ctypes.memset(x.ctypes.data + offset, 0, 1)
    del x
    guarded.look_at_bytes()
    assert guarded.faults == [f"1 bytes written {where} arrays"], guarded.faults
    guarded.faults.clear()
config.compile = "always"
for _ in range(3):
    grad(lambda x: np.sum(np.sin(x) @ np.cos(x)), np.ones((3, 3)))
program = guarded._programs[0]
first = guarded._gaps[id(program.plan)][0]
for frame in program._frames.values():
    frame.arena[first] = 0
assert guarded.look_at_gaps() >= 1 and len(guarded.faults) == 1
""")


def test_guard_pages_end_the_process() -> None:
    with pytest.raises(AssertionError, match="exit code -11"):
        in_a_process(START + """
guarded.install()
x = np.empty(24, np.uint8)
ctypes.memset(x.ctypes.data + 32, 0, 1)
""")


def test_more_arrays_than_a_process_has_pieces_of_memory() -> None:
    in_a_process(START + """
guarded.install()
arrays = [np.zeros(i % 7) for i in range(70_000)]
del arrays
guarded.look_at_bytes()
assert not guarded.faults and not guarded._arrays[0]
""")
