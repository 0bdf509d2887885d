"""How far the way of a first call leads: through how many files its deepest chain of calls goes, and how many it
touches in all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_DEEP = 15  # files on the stack at a time
MAX_TOUCHED = 74  # files in which something runs

COLD = f"""
import json, sys
import numpy as np
from yota_py import grad

ours = ({str(ROOT / "yota_py")!r}, {str(ROOT / "rules")!r})
touched, deepest = set(), set()


def notice(frame, event, arg):
    global deepest
    files = set()
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(ours):
            files.add(name)
        frame = frame.f_back
    touched.update(files)
    deepest = max(deepest, files, key=len)


def loss(w, x):
    return np.sum(np.tanh(x @ w) ** 2)


w, x = np.ones(3), np.ones((5, 3))
sys.settrace(notice)
grad(loss, w, x)
sys.settrace(None)
print(json.dumps([sorted(touched), sorted(deepest)]))
"""


def test_a_first_call_is_read_in_few_files() -> None:
    found = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True).stdout
    touched, deepest = json.loads(found)
    assert 5 < len(deepest) <= MAX_DEEP, deepest
    assert len(deepest) < len(touched) <= MAX_TOUCHED, touched
