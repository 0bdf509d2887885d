"""Arguments with which rules are tested, written where the rules stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..base.records import record


@record()
class Case:
    """Arguments with which a rule is tested."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def case(*args: Any, **kwargs: Any) -> Case:
    """A test case: the arguments of one call.

    >>> case(2.0, axis=0)
    Case(args=(2.0,), kwargs={'axis': 0})
    """
    return Case(args, kwargs)


class Sample:
    """Draws test inputs; another seed gives other values of the same shapes."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = np.float64) -> Any:
        """An array of this shape, uniform in [low, high); complex dtypes draw both parts."""
        x = self._rng.uniform(low, high, shape)
        if np.dtype(dtype).kind == "c":
            x = x + 1j * self._rng.uniform(low, high, shape)
        return np.asarray(x, dtype=dtype)

    def number(self, low: float = -2.0, high: float = 2.0) -> float:
        """A Python float."""
        return float(self._rng.uniform(low, high))

    def integers(self, *shape: int, low: int = 0, high: int) -> Any:
        """An int64 array with values in [low, high)."""
        return self._rng.integers(low, high, shape)

    def mask(self, *shape: int) -> Any:
        """A boolean array."""
        return self._rng.uniform(size=shape) < 0.5


Cases = Callable[[Sample], Iterable[Case]]
