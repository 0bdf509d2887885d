"""Distribution functions and their inverses in any argument, by the theorem of implicit functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .families import Range, family

Inverse = tuple[Callable[..., Any], int, int]  # a function, which argument it finds, and -1 if from the complement


def cumulative(
    partials: Sequence[Any],
    *,
    on: Sequence[Range],
    at: Sequence[Range] = (),
    below: Callable[..., Any] | None = None,
    above: Callable[..., Any] | None = None,
    inverses: Iterable[Inverse] = (),
    narrow: bool = True,
) -> None:
    """A distribution function ``below(*args)``, its complement ``above``, and ``inverses``, which take a probability in
    the place of an argument: given by the partial derivatives ``(*args) -> d/dx``. Cases are drawn ``on`` these ranges;
    those of an inverse ``at`` these, and the probability between 0.2 and 0.8.
    """
    for fn, sign in ((below, 1), (above, -1)):
        if fn is not None:
            family(fn, *(_signed(partial, sign) for partial in partials), on=on, narrow=narrow)
    for fn, i, sign in inverses:
        ranges = [(0.2, 0.8) if k == i else r for k, r in enumerate(at or on)]
        family(fn, *(_implicit(partials, i, k, sign) for k in range(len(partials))), on=ranges, narrow=narrow)


def _signed(partial: Any, sign: int) -> Any:
    return (lambda y, *args: sign * partial(*args)) if callable(partial) else partial


def _implicit(partials: Sequence[Any], i: int, k: int, sign: int) -> Any:
    """The slope in argument k of what puts argument i of ``f(*args) = p`` into its place."""
    if not callable(partials[k]):
        return partials[k]

    def slope(y: Any, *args: Any) -> Any:
        full = (*args[:i], y, *args[i + 1 :])
        rise = partials[i](*full)
        return np.divide(sign, rise) if k == i else -partials[k](*full) / rise

    return slope
