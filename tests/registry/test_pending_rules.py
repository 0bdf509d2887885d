"""Rules that wait for a library, and cannot be loaded when it comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from yota_py import RulesWarning, grad
from yota_py.registry import registry


def test_rules_that_cannot_be_loaded_are_told_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_rules.py").write_text("import math\nmath.what_is_not_there\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.on_import("math", "broken_rules")
    with pytest.warns(RulesWarning, match="broken_rules cannot be loaded with this version.*what_is_not_there"):
        assert grad(lambda x: x * x, 3.0) == (9.0, (6.0,))
    assert grad(lambda x: x * x, 2.0) == (4.0, (4.0,))
    assert "broken_rules" not in sys.modules


def test_rules_that_come_late_forget_no_programs() -> None:
    """They come while a function is traced, which would be compiled in vain."""
    program = """
import scipy.fft, scipy.integrate, scipy.interpolate, scipy.ndimage, scipy.signal, scipy.sparse, scipy.spatial
import scipy.stats
import numpy as np
from yota_py import config, explain, grad

config.compile = "always"


def f(x):
    return np.sum(np.sin(x))


for n in range(3):
    grad(f, np.ones(3))
print(explain(f)[0].calls, explain(f)[0].misses)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "1"], done.stdout + done.stderr
