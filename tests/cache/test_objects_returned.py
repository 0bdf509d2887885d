"""Objects that a function makes of traced values and returns: beside its value, to ``pullback``, to ``jit``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import interpolate, optimize, stats

from yota_py import config, jit, pullback, value_and_grad
from yota_py.base.dispatch import is_traced
from yota_py.capture import leftovers

X, T = np.array([1.0, 2.5, 2.0, 4.0]), np.arange(4.0)


class Fitted:
    """What a model may hand out."""

    def __init__(self, w: Any) -> None:
        self.w, self.parts = w, [w[0], {"last": w[-1]}]


class Row(tuple[Any, ...]):
    """A tuple with attributes."""

    note: Any


def row(x: Any) -> Any:
    made = Row((x * 2, x[0]))
    made.note = x * 3
    return made


MADE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "linregress": (lambda x: stats.linregress(T, x), lambda r: (r.slope, r.intercept_stderr)),
    "ttest": (lambda x: stats.ttest_ind(T, x), lambda r: (r.statistic, r.df, *r.confidence_interval())),
    "pearsonr": (lambda x: stats.pearsonr(T, x), lambda r: (r.statistic, r.pvalue)),
    "OptimizeResult": (lambda x: optimize.OptimizeResult(x=x * 2, fun=x[0]), lambda r: (r.x + 1, r.fun)),
    "SimpleNamespace": (lambda x: SimpleNamespace(v=x * 2), lambda r: (r.v + 1,)),
    "of a class": (lambda x: Fitted(x * 2), lambda r: (r.w + 1, r.parts[0], r.parts[1]["last"])),
    "in a list": (lambda x: [Fitted(x), 1.0], lambda r: (r[0].w + 1, r[1])),
    "a tuple with attributes": (row, lambda r: (r[0] + 1, r[1], r.note)),
    "spline": (lambda x: interpolate.CubicSpline(range(4), x), lambda r: (r(1.5),)),
    "polynomial": (lambda x: np.polynomial.Polynomial(x), lambda r: (r(1.5), r.coef)),
    "function": (lambda x: lambda t: t * x, lambda r: (r(2.0),)),
}


@pytest.mark.parametrize("mode", ["never", "always"])
@pytest.mark.parametrize("name", MADE)
def test_they_hold_plain_values(name: str, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", mode)
    make, use = MADE[name]
    ways = {
        "aux": lambda x: value_and_grad(lambda x: (np.sum(x * x), make(x)), has_aux=True)(x)[0][1],
        "pullback": lambda x: pullback(make, x)[0],
        "jit": jit(make),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in ways.values():
            for k in range(4):
                made, want = way(X + k * T), make(X + k * T)
                assert type(made) is type(want)
                if isinstance(made, tuple):
                    assert not any(map(is_traced, (*made, *vars(made).values())))
                for part, expected in zip(use(made), use(want), strict=True):
                    assert not is_traced(part)
                    assert_allclose(part, expected, rtol=1e-10)


def test_what_was_there_before_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "never")
    looked: list[Any] = []
    replace_in = leftovers.replace_in
    monkeypatch.setattr(leftovers, "replace_in", lambda obj, new_of: (looked.append(obj), replace_in(obj, new_of)))
    table = Fitted(X)
    table.parts = [Fitted(X * k) for k in range(100)]
    f = value_and_grad(lambda x: (np.sum(x * x), (table, SimpleNamespace(of=table, w=x))), has_aux=True)
    for k in range(3):
        (_, (same, made)), _ = f(X + k)
        assert same is table and made.of is table
        assert_allclose(made.w, X + k)
    assert len(looked) < 20
