"""Cached gradients compared, call by call, with what is computed afresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agreement import ALL, CACHE, agree

Function = Callable[..., Any]


def rounds(f: Function, *inputs: Any, smooth: bool = True) -> None:
    """Each input three times in a row, then all in turn, forwards and backwards."""
    for x in [*(x for x in inputs for _ in range(3)), *inputs, *reversed(inputs)]:
        agree(f, *(x if isinstance(x, tuple) else (x,)), against=ALL if smooth else CACHE)
