"""What tests of the cache share: a call compared with plain NumPy and a fresh trace, and changes between calls."""

from __future__ import annotations

import math
import operator
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
from agreement import agree

from yota_py.cache import functions as cache
from yota_py.cache.variants import Variant

Change = Callable[[], Any]
SCALE = 1.0
WEIGHTS = np.arange(1.0, 4.0)


def follows(f: Callable[..., Any], *changes: Change, x: Any = 2.0) -> None:
    """Right at four calls with different inputs, and again twice after each change."""
    for i in range(4):
        agree(f, x + i / 8)
    for change in changes:
        change()
        agree(f, x)
        agree(f, x + 0.5)
        agree(f, x + 0.25)


def entries(f: Any) -> list[Variant]:
    """What is cached for a function: the compiled paths of all its signatures."""
    known = cache.caches.get(id(getattr(f, "__code__", f)))
    signatures = [] if known is None else [s for several in known.signatures.values() for s in several]
    return [variant for signature in signatures for variant in signature.variants]


def is_compiled(f: Any) -> bool:
    """Whether an entry of the function has a program."""
    return any(entry.program is not None for entry in entries(f))


def function(source: str, **names: Any) -> Callable[..., Any]:
    """``f`` of a small module of its own; its globals are ``f.__globals__``."""
    namespace: dict[str, Any] = {"np": np, "math": math, "__name__": "user_module", **names}
    exec(textwrap.dedent(source), namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def rebind(f: Any, **names: Any) -> Change:
    """A change: global names of ``f`` get other values."""
    return lambda: f.__globals__.update(names)


def write(array: Any, value: Any, index: Any = ...) -> Change:
    """A change: ``array[index] = value``."""
    return lambda: operator.setitem(array, index, value)


class Box:
    """An object with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def in_a_process(source: str, seconds: float = 60, **variables: str) -> None:
    """Run in a process of its own: what may crash the interpreter or wait for ever; with environment variables."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=seconds,
        env={**os.environ, **variables},
    )  # fmt: skip
    told = max(run.stderr.find("Fatal Python error"), 0)  # where it crashes, the innermost frames come first
    said = run.stderr[told:][:3000] if told else run.stderr[-2000:]
    assert run.returncode == 0, f"exit code {run.returncode}\n{said}"
