"""NumPy's assertions in traced functions: they hold or raise as of plain values, also in compiled programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_equal

from yota_py import config, grad, jit

X = np.array([1.0, 2.0, 3.0])


def holding(x: Any) -> Any:
    np.testing.assert_allclose(x, x * (1 + 1e-9), rtol=1e-6, err_msg="near")
    np.testing.assert_array_equal(x, [x[0], *x[1:]])
    np.testing.assert_almost_equal(x[0], x[0])
    assert_equal({"a": x[0], "b": [x]}, {"a": x[0], "b": [x]})
    np.testing.assert_(np.all(x < 100))
    np.testing.assert_allclose(x, x * (1 + 1e-9), rtol=x[0] * 1e-6, atol=np.sum(x) * 1e-9)
    return np.sum(x**2)


def positive(x: Any) -> Any:
    np.testing.assert_array_less(0, x, err_msg="must be positive")
    return np.sum(x**2)


@pytest.mark.parametrize("compile_", ["auto", "always"])
def test_assertions(compile_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", compile_)
    steps = [lambda f, x: grad(f, x)[1][0]]
    compiled = {f: jit(lambda x, f=f: grad(f, x)[1][0]) for f in (holding, positive)}
    steps.append(lambda f, x: compiled[f](x))
    for step in steps:
        for k in range(5):
            assert_allclose(step(holding, X + k), 2 * (X + k))
            assert_allclose(step(positive, X + k), 2 * (X + k))
        for _ in range(2):
            with pytest.raises(AssertionError, match="must be positive"):
                step(positive, X - 2)
            assert_allclose(step(positive, X), 2 * X)


def test_messages_are_numpys() -> None:
    y = X + 1e-3
    with pytest.raises(AssertionError) as plain:
        assert_allclose(X, y, rtol=1e-6)
    with pytest.raises(AssertionError) as traced:
        grad(lambda x, y: (np.testing.assert_allclose(x, y, rtol=1e-6), np.sum(x))[1], X, y)
    assert str(traced.value) == str(plain.value)


def test_a_caught_failure_is_a_decision() -> None:
    def f(x: Any) -> Any:
        try:
            np.testing.assert_array_less(x, 2.5)
        except AssertionError:
            return np.sum(3.0 * x)
        return np.sum(x)

    for x, slope in [(X, 3.0), (X / 2, 1.0), (X, 3.0), (X / 3, 1.0), (X + 1, 3.0)]:
        assert_allclose(grad(f, x)[1][0], slope)
