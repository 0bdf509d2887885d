"""Functions of ``scipy.optimize``: Rosenbrock's, and searches that are written in Python, which refuse.

Where a search ends is decided by comparisons. A derivative of the steps would be zero, or that of the last parabola,
rather than that of the minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from scipy import optimize

from yota_py.base.dispatch import find_traced
from yota_py.errors import LostDerivativeError
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case
from yota_py.tape.operations import user_site

_POINTS = [(5,), (2,), (4, 2)]


@expanded(patch(optimize, "rosen"), cases=lambda s: [
    *(case(s(*shape)) for shape in _POINTS), case(s(1)), case(s(3, dtype="f4")), case([0.5, 1.0, 2.0]),
    case(s(3, 4).T),
])  # fmt: skip
def _rosen(x: Any) -> Any:
    """The sum of ``100 (x[1:] - x[:-1]**2)**2 + (1 - x[:-1])**2`` (Rosenbrock 1960)."""
    x = 1.0 * (np.stack(x) if isinstance(x, list | tuple) else x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2, axis=0)


@expanded(patch(optimize, "rosen_der"), cases=lambda s: [
    *(case(s(*shape)) for shape in _POINTS), case(s(3, dtype="f4")), case([0.5, 1.0, 2.0]),
])  # fmt: skip
def _rosen_der(x: Any) -> Any:
    """Its gradient."""
    x = 1.0 * (np.stack(x) if isinstance(x, list | tuple) else x)
    slopes = x[1:] - x[:-1] ** 2
    down = -400.0 * x[:-1] * slopes - 2.0 * (1.0 - x[:-1])
    return np.concatenate([down[:1], 200.0 * slopes[:-1] + down[1:], 200.0 * slopes[-1:]])


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
