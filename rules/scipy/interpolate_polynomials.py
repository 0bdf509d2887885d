"""Polynomials through points of ``scipy.interpolate``: of Newton's form, also with derivatives, and Lagrange's."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import interpolate
from scipy.interpolate import BarycentricInterpolator, KroghInterpolator

from yota_py.base.dispatch import find_traced, shadow
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, primitive

from ..support import pulled_back_by, shape_of, unsupported
from .interpolate_grids import EVALUATED, finished, wide
from .objects import made_of_traced

# ---------------------------------------------------------------------------------------------------- Newton's form


@made_of_traced(KroghInterpolator)
def _take_krogh(self: Any, given: dict[str, Any]) -> None:
    """Divided differences; of equal places the data are derivatives (Krogh 1970, section 2)."""
    self.xi, yi = wide(given["xi"]), np.moveaxis(wide(given["yi"]), self._y_axis, 0)
    x, self.yi = self.xi, np.reshape(yi, (self.n, -1))
    c: list[Any] = [self.yi[0]]
    before: list[Any] = []
    for k in range(1, self.n):
        s = 0
        while s < k and x[k - s - 1] == x[k]:
            s += 1
        row = self.yi[k] / float(np.prod(np.arange(1.0, s + 1)))
        rows = [row]
        for i in range(k - s):
            rows.append(((c[i] if s == 0 else before[i + 1]) - rows[i]) / (x[i] - x[k]))
        before = rows
        c.append(rows[k - s])
    self.c = np.concatenate([np.stack(c), np.zeros((1, self.r))])


def _newton(self: Any, points: Any, most: int) -> list[Any]:
    """Value and derivatives: each factor differentiates what is known so far (Horner's scheme)."""
    d: list[Any] = [np.zeros((shape_of(points)[0], 1))] * (most + 1)
    for k in range(self.n - 1, -1, -1):
        w = (points - self.xi[k])[:, None]
        d = [d[j] * w + (j * d[j - 1] if j else self.c[k]) for j in range(most + 1)]
    return [np.broadcast_to(part, (shape_of(points)[0], self.r)) for part in d]


# -------------------------------------------------------------------------------------------------- Lagrange's form


@primitive
def _through(points: Any, xi: Any, yi: Any) -> Any:
    """The polynomial through points, by the barycentric formula (Berrut & Trefethen 2004)."""
    return BarycentricInterpolator(xi, yi, rng=0)(points)


def _products(points: Any, xi: Any, yi: Any) -> Any:
    """As a sum of products, whose derivatives hold at the places themselves."""
    same = np.eye(shape_of(xi)[0], dtype=bool)
    lengths = np.where(same, 1.0, xi[:, None] - xi[None, :])
    factors = np.where(same, 1.0, (points[:, None, None] - xi[None, None, :]) / lengths)
    return np.matmul(np.prod(factors, axis=-1), yi)


pulled_back_by(_through, _products, cases=lambda s: [
    case(s(3), np.arange(4.0) + s(4, low=0.0, high=0.3), s(4, 2)), case(np.array([1.0, 0.3]), np.arange(3.0), s(3, 1)),
])  # fmt: skip


@made_of_traced(BarycentricInterpolator)
def _take_barycentric(self: Any, given: dict[str, Any]) -> None:
    self.xi = wide(given["xi"])
    if given["yi"] is not None:
        _set_yi(self, given["yi"], given["axis"])


def _set_yi(self: Any, yi: Any, axis: Any = None) -> None:
    _plain_set_yi(self, shadow(yi), axis)
    if yi is not None:
        self.yi = np.reshape(np.moveaxis(wide(yi), self._y_axis, 0), (self.n, self.r))


_plain_set_yi = BarycentricInterpolator.set_yi
patch(BarycentricInterpolator, "set_yi", _set_yi)


def _barycentric(self: Any, points: Any, most: int) -> list[Any]:
    """Value and derivatives: those at the places by the differentiation matrix, which are a polynomial again."""
    x, values = self.xi, [self.yi]
    if most:
        same = np.eye(self.n, dtype=bool)
        lengths = np.where(same, 1.0, x[:, None] - x[None, :])
        weights = np.prod(lengths, axis=1)
        off = np.where(same, 0.0, weights[:, None] / (weights[None, :] * lengths))
        matrix = off - np.where(same, np.sum(off, axis=1)[:, None], 0.0)
        for _ in range(most):
            values.append(np.matmul(matrix, values[-1]))
    return [_through(points, x, part) for part in values]


_plain_lagrange = interpolate.lagrange


def lagrange(x: Any, w: Any) -> Any:
    if find_traced((x, w)) is not None:
        raise unsupported("lagrange, whose result is an np.poly1d,", "Use BarycentricInterpolator")
    return _plain_lagrange(x, w)


patch(interpolate, "lagrange", lagrange)

# ------------------------------------------------------------------------------------------------------------ calls

_FORMS = {KroghInterpolator: _newton, BarycentricInterpolator: _barycentric}
_HELD = ("xi", "yi", "c")


def _derivatives_of(self: Any, x: Any, most: int) -> tuple[list[Any], tuple[int, ...]]:
    points = wide(x)
    form = next(fn for cls, fn in _FORMS.items() if isinstance(self, cls))
    return form(self, np.ravel(points), most), shape_of(points)


for _cls, _form in _FORMS.items():
    EVALUATED[_cls] = lambda self, points, form=_form: form(self, points, 0)[0]


def _objects(s: object) -> list[object]:
    draw: Any = s
    x = np.array([0.0, 1.0, 1.5, 3.0])
    return [
        KroghInterpolator(x, draw(4)), KroghInterpolator([0, 0, 1, 1, 1], draw(5)),
        KroghInterpolator(x, draw(2, 4), axis=1),
        BarycentricInterpolator(x, draw(4)), BarycentricInterpolator(x, draw(4, 2)),
        BarycentricInterpolator(x, draw(4, dtype=complex)),
    ]


@expanded(patch(BarycentricInterpolator, "__call__", holds=_HELD), cases=lambda s: [
    *(case(p, s(3)) for p in _objects(s)[3:]), case(_objects(s)[3], 0.4), case(_objects(s)[3], [1.0, 2.0]),
])  # fmt: skip
def _call(self: Any, x: Any) -> Any:
    (y,), shape = _derivatives_of(self, x, 0)
    return finished(self, y, shape)


@expanded(patch(KroghInterpolator.__mro__[1], "derivative", holds=_HELD), cases=lambda s: [
    *(case(p, s(3)) for p in _objects(s)[:3]), case(_objects(s)[1], s(2, 2), 2), case(_objects(s)[0], 0.4, 3),
])  # fmt: skip
def _derivative(self: Any, x: Any, der: int = 1) -> Any:
    parts, shape = _derivatives_of(self, x, der)
    return finished(self, parts[der], shape)


@expanded(patch(BarycentricInterpolator, "derivative", holds=_HELD), cases=lambda s: [
    *(case(p, s(3)) for p in _objects(s)[3:]), case(_objects(s)[3], s(2, 2), 2),
])  # fmt: skip
def _derivative_of_barycentric(self: Any, x: Any, der: int = 1) -> Any:
    return _derivative(self, x, der)


@expanded(patch(KroghInterpolator.__mro__[1], "derivatives", holds=_HELD), cases=lambda s: [
    *(case(p, s(3)) for p in _objects(s)[:5]), case(_objects(s)[1], s(2), 2), case(_objects(s)[0], 0.4),
])  # fmt: skip
def _all_derivatives(self: Any, x: Any, der: Any = None) -> Any:
    parts, shape = _derivatives_of(self, x, (self.n if der is None else der) - 1)
    return finished(self, np.stack(parts), shape, lead=1)
