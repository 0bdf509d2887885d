"""Parts of a tape that are computed again on the way back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

ALL = "all"  # is computed again


@dataclass(frozen=True, slots=True)
class Region:
    """The operations from ``start`` (which counts from 0) to ``stop``: all are computed again, or those of its loops
    but ``every`` so many turns."""

    start: int
    stop: int
    every: int | str = ALL


def turns_of(every: Any, turns: int) -> int:
    """Every how many turns a loop of so many keeps what it carries; 0 if it keeps all."""
    if every is None or every == ALL:
        return 0
    every = math.isqrt(max(turns - 1, 0)) + 1 if every == "sqrt" else int(every)
    return every if every < turns else 0
