"""The scripts in docs/examples run as a user would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def test_a_first_script_gives_the_estimates_of_the_book():
    run = subprocess.run([sys.executable, str(EXAMPLES / "first.py")], capture_output=True, text=True, timeout=600,
                         env={**os.environ, "PYTHONWARNINGS": "ignore"})  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "top     212.7" in run.stdout
    assert "half  0.06412" in run.stdout
    assert "sum of squares 1195.4" in run.stdout
    assert (EXAMPLES / "out" / "first.png").stat().st_size > 10_000
