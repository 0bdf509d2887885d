"""Searches of ``scipy.optimize`` that are written in Python: where they end is decided by comparisons.

A derivative of the steps would be zero, or that of the last parabola, rather than that of the minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from scipy import optimize

from yota_py.base.dispatch import find_traced
from yota_py.errors import LostDerivativeError
from yota_py.registry.patches import patch
from yota_py.tape.operations import user_site

SEARCHES = "golden brent fminbound minimize_scalar bracket fmin fmin_powell brute"


def _refusing(search: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(search)
    def stand_in(func: Any, *args: Any, **kwargs: Any) -> Any:
        @wraps(func)
        def watched(*xs: Any) -> Any:
            y = func(*xs)
            traced = find_traced((y,))
            if traced is not None and traced._carries():
                raise LostDerivativeError(
                    f"{user_site()}: scipy.optimize.{search.__name__} minimizes a traced value, and finds the minimum "
                    "by comparing, through which no derivative flows. Minimize outside of the function, or take the "
                    "derivative of the minimum from that of the slope (the implicit function theorem)"
                )
            return y

        return search(watched, *args, **kwargs)

    return stand_in


for _name in SEARCHES.split():
    patch(optimize, _name, _refusing(getattr(optimize, _name)))
