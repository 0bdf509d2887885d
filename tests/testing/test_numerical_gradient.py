"""Gradients by finite differences, which need no trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yota_py import grad
from yota_py.testing import numerical_gradient


def agrees(f: Any, *args: Any, rtol: float = 1e-9, **kwargs: Any) -> None:
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
