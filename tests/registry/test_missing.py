"""Functions without a rule: what they compute may be used where nothing flows back to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from yota_py import MissingRuleError, config, grad, gradient, hessian, jit, pullback, rrule, trace, value_and_grad

pytestmark = pytest.mark.usefixtures("every_policy")
X = np.linspace(0.1, 0.9, 5)


@pytest.fixture(autouse=True)
def _lazy_again() -> Iterator[None]:
    yield
    config.missing = "lazy"


def without(x: Any) -> Any:
    return special.mathieu_a(1, x)


def decides(x: Any) -> Any:
    return np.sum(x * x) if np.sum(without(x)) < 10 else np.sum(x**3)


def nowhere(x: Any) -> Any:
    without(x)
    return np.sum(x * x)


UNUSED: dict[str, Callable[[Any], Any]] = {
    "nowhere": nowhere,
    "rounded": lambda x: np.sum(x * np.floor(without(x))),
    "compared": lambda x: np.sum(np.where(without(x) > 1.5, x, x * x)),
    "decides": decides,
    "an index": lambda x: x[np.argmax(without(x))] ** 2,
    "a shape": lambda x: np.sum(x * np.ones(np.shape(without(x)))),
    "in a branch that is not taken": lambda x: np.sum(x) if np.sum(x) < 100 else np.sum(without(x)),
}


@pytest.mark.parametrize("name", UNUSED)
def test_nothing_flows_back(name: str) -> None:
    f = UNUSED[name]
    for i in range(4):
        x = X + 0.5 * i
        value, (dx,) = grad(f, x)
        assert_allclose(value, f(x))
        eps = 1e-6
        slopes = [(f(x + eps * e) - f(x - eps * e)) / (2 * eps) for e in np.eye(5)]
        assert_allclose(dx, slopes, atol=1e-7)


def test_something_flows_back() -> None:
    def f(x: Any) -> Any:
        return np.sum(x * x) + np.sum(without(x))

    for run in (lambda: grad(f, X), lambda: value_and_grad(f)(X), lambda: jit(gradient(f))(X), lambda: hessian(f)(X),
                lambda: pullback(without, X)[1](X)):  # fmt: skip
        for _ in range(3):
            with pytest.raises(MissingRuleError, match=r"test_missing.py:26: no rule for scipy.special.mathieu_a"):
                run()


def test_beside_what_is_differentiated() -> None:
    for i in range(3):
        (value, aux), dx = value_and_grad(lambda x: (np.sum(x * x), without(x)), has_aux=True)(X + i)
        assert_allclose([value, *aux, *dx], [np.sum((X + i) ** 2), *without(X + i), *(2 * (X + i))])


def test_at_once() -> None:
    config.missing = "error"
    for name in ("nowhere", "rounded", "compared"):
        with pytest.raises(MissingRuleError, match=r"test_missing.py:26: no rule"):
            grad(lambda x, f=UNUSED[name]: f(x), X)
    assert len(trace(nowhere, X)) > 1  # of which no derivative is wanted
    with pytest.raises(ValueError, match=r"config\.missing is one of 'lazy', 'error'; got 'never'"):
        config.missing = "never"


def test_what_acts_is_refused_where_it_is_called(tmp_path: Any) -> None:
    def saves(x: Any) -> Any:
        np.save(tmp_path / "x.npy", x)
        return np.sum(x)

    with pytest.raises(MissingRuleError, match="lost in a file"):
        grad(saves, X)
    assert not [*tmp_path.iterdir()]
    with pytest.raises(MissingRuleError):
        rrule.of(special.mathieu_a)(1, X)
