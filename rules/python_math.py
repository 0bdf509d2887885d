"""Functions of the ``math`` module that have no ufunc of the same form; the others stand beside their ufuncs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from yota_py.base.dispatch import find_traced
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, nondiff, primitive, rrule, scalar_rule, vjps

from .samples import numbers
from .support import Pullback, zero_over_zero

SQRT_PI = math.sqrt(math.pi)

_modf, _ldexp = patch(math, "modf"), patch(math, "ldexp")
log_of_number, _hypot, _fsum = primitive(math.log), primitive(math.hypot), primitive(math.fsum)

scalar_rule(log_of_number, lambda y, x: np.divide(1, x), kernel="log", raises=lambda y, x: x <= 0,
            cases=numbers((0.2, 3.0)))  # fmt: skip


for _name, _sign in [("erf", 1), ("erfc", -1)]:
    scalar_rule(patch(math, _name), lambda y, x, c=2 * _sign / SQRT_PI: c * np.exp(-x * x),
                kernel=_name, cases=numbers((-2.0, 2.0)))  # fmt: skip

# Their derivatives need SciPy's digamma: the rules stand in ``special.py``.
gamma_of_number, lgamma_of_number = patch(math, "gamma"), patch(math, "lgamma")


def _log_with_base(x: Any, *base: Any) -> Any:
    return log_of_number(x) / log_of_number(*base) if base else log_of_number(x)


@rrule(_hypot, kernel=lambda k, x, *rest: reduce(k.hypot, rest, k.abs(x)), cases=lambda s: [
    case(s.number(), s.number()), case(s.number(), s.number(), s.number()), case(s.number()),
])  # fmt: skip
def _hypot_rule(*coordinates: Any) -> tuple[Any, Pullback]:
    y = _hypot(*coordinates)
    return y, lambda dy: tuple(dy * zero_over_zero(x, y) for x in coordinates)


def _dist(p: Iterable[Any], q: Iterable[Any]) -> Any:
    return _hypot(*(a - b for a, b in zip(p, q, strict=True)))


@rrule(_fsum, cases=lambda s: [case([s.number(), s.number(), 1.0]), case([s.number(), 2])])
def _fsum_rule(terms: Any) -> tuple[Any, Pullback]:
    return _fsum(terms), lambda dy: ((dy,) * len(terms),)


def _listed(fn: Callable[..., Any], on_traced: Callable[..., Any]) -> Callable[..., Any]:
    """For functions of an iterable, which may be a generator of traced numbers."""

    def stand_in(values: Any, **kwargs: Any) -> Any:
        items = list(values)
        return fn(items, **kwargs) if find_traced(items) is None else on_traced(items, **kwargs)

    return stand_in


def _product(items: Sequence[Any], start: Any = 1) -> Any:
    return reduce(operator.mul, items, start)


vjps(_modf, lambda dy, y, x: dy[0], cases=numbers((-2.0, 2.0)))
vjps(_ldexp, lambda dy, y, x, exponent: dy * 2.0**exponent, None,
     cases=lambda s: [case(s.number(), 3), case(s.number(), -2)])  # fmt: skip

vjps(patch(math, "frexp"), lambda dy, y, x: dy[0] * 2.0 ** -y[1], cases=numbers((0.6, 0.9)))
scalar_rule(patch(math, "remainder"), 1, lambda y, a, b: -np.rint(a / b), cases=numbers((-2.0, 2.0), (0.5, 3.0)))
scalar_rule(patch(math, "nextafter"), 1, None, cases=numbers((-2.0, 2.0), (0.5, 3.0)))
nondiff(patch(math, "ulp"), cases=numbers((-2.0, 2.0)))

patch(math, "log", _log_with_base)
patch(math, "hypot", _hypot)
patch(math, "dist", _dist)
patch(math, "fsum", _listed(math.fsum, _fsum))
patch(math, "prod", _listed(math.prod, _product))
