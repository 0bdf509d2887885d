"""Gradients by finite differences, which need no trace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from yota_py import grad
from yota_py.testing import numerical_gradient


def agrees(f: Any, *args: Any, rtol: float = 1e-7, **kwargs: Any) -> None:
    want = grad(f, *args, **kwargs)[1]
    have = numerical_gradient(f, *args, **kwargs)
    np.testing.assert_equal(str(type(have)), str(type(want)))
    for a, b in zip(have, want, strict=True):
        if isinstance(b, dict):
            assert a.keys() == b.keys()
            a, b = [*a.values()], [*b.values()]
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
        assert type(a) is type(b)
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)


def test_functions() -> None:
    x = np.linspace(-3.0, 50.0, 6).reshape(2, 3)
    agrees(lambda x, d: np.sum(np.sin(x) * np.exp(d["a"])) * d["b"], x, {"a": 0.3, "b": -4.0})
    agrees(lambda x, *, k: np.sum(x**k), x, k=3)
    agrees(lambda z: np.sum(np.abs(z) ** 2 * np.array([1.0, 2.0])), np.array([1 + 2j, -0.5j]))
    agrees(lambda x: np.log(x), 1e-3)
    agrees(lambda x: np.sqrt(x) * 1e8, 1e-2)
    agrees(lambda x: np.sum(x**2), np.array([1.0, -2.0], np.float32), rtol=1e-3)
    agrees(lambda x: np.sum(x), np.zeros((0, 3)))
    for x in (1e-3, -1e-3, 2e-5):
        agrees(lambda x: abs(x), x)
        agrees(lambda x: np.maximum(x, 0.0), x)
    agrees(lambda x: np.sin(1000 * x), 0.3, rtol=1e-5)
    agrees(lambda x: np.sin(x * 1e8), 1e-9, rtol=1e-5)
    agrees(lambda x: math.log(x), 0.01)
    rng = np.random.default_rng(0)
    for _ in range(30):
        w, x = rng.normal(size=(4, 3)), rng.normal(size=3)
        agrees(lambda w, x: np.sum(np.maximum(w @ x, 0.0) ** 2) + np.sum(np.maximum(w @ x, 0.0)), w, x)


def test_what_is_no_float_has_none_and_arguments_stay() -> None:
    x = np.array([1.0, 2.0])

    def f(x: Any, k: int) -> Any:
        x *= k
        return np.sum(x**2)

    found, none = numerical_gradient(f, x, 2)
    np.testing.assert_allclose(found, 8 * np.array([1.0, 2.0]))
    assert none is None and x.tolist() == [1.0, 2.0]


def test_results_that_are_no_number() -> None:
    with pytest.raises(TypeError, match="wants a function that returns a real number; got float64"):
        numerical_gradient(lambda x: x, np.ones(2))
