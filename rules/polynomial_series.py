"""``numpy.polynomial``: functions and objects of the six kinds of series, traced through their own code."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.polynomial import (
    _polybase,
    chebyshev,
    hermite,
    hermite_e,
    laguerre,
    legendre,
    polynomial,
    polyutils,
)

from yota_py.base.dispatch import dispatching
from yota_py.registry.composites import expanded
from yota_py.registry.patches import open_to_traces, patch, through
from yota_py.registry.registry import case

from .support import operand

KINDS = (polynomial, chebyshev, legendre, hermite, hermite_e, laguerre)
open_to_traces(_polybase, polyutils, *KINDS)


@dispatching
def by_steps(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call of one of the functions."""
    return fn(*args, **kwargs)


expanded(by_steps, cases=lambda s: [
    case(polynomial.polyval, s(2), s(3)), case(chebyshev.chebval, s.number(), s(3)),
    case(laguerre.lagint, s(2), 1, 0.5), case(hermite_e.hermemul, s(2), s(2)), case(hermite.hermweight, s(2)),
])(lambda fn, *args, **kwargs: through(fn)(*args, **kwargs))  # fmt: skip


def _stepping(fn: Callable[..., Any]) -> Callable[..., Any]:
    return wraps(fn)(lambda *args, **kwargs: by_steps(fn, *args, **kwargs))


_HERE = {"polyroots"}  # what has a rule below
for _kind in KINDS:
    for _name in _kind.__all__:
        if _name not in _HERE and not isinstance(_fn := getattr(_kind, _name), type | np.ndarray):
            patch(_kind, _name, _stepping(getattr(_fn, "_implementation", _fn)))


# ---------------------------------------------------------------------------------------- objects


@expanded(patch(polynomial, "polyroots"), cases=lambda s: [case(np.array([0.5, -2.5, 1.0]) + s(3) / 9)])
def _polyroots(c: Any) -> Any:
    """In the order that NumPy gives them."""
    return np.sort(np.roots(np.flip(operand(c))))


_OPERATORS = [f"__{side}{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow")
              for side in ("", "r")]  # fmt: skip
for _name in (
    "__init__", "__call__", "__neg__", "deriv", "integ", "convert", "linspace", "mapparms", "trim", "cutdeg",
    "truncate", "roots", "copy", "fit", "fromroots", *_OPERATORS,
):  # fmt: skip
    if (_method := vars(_polybase.ABCPolyBase).get(_name)) is not None:  # those of a class too
        _method = getattr(_method, "__func__", _method)
        patch(_polybase.ABCPolyBase, _name, through(_method), holds=("coef", "domain", "window"))
