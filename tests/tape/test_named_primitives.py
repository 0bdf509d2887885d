"""Functions of the user's that stand on a tape as one call: trace(f, ..., primitives=...)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yota_py import gradient, jit, trace

WEIGHTS, X = [np.eye(2) + 0.1, 2 * np.eye(2)], np.array([0.3, -0.7])


def layer(w: Any, x: Any) -> Any:
    return np.tanh(w @ x)


def net(ws: Any, x: Any) -> Any:
    for w in ws:
        x = layer(w, x)
    return np.sum(x)


class Model:
    scale = 2.0

    def hidden(self, x: Any) -> Any:
        return self.scale * x

    def __call__(self, x: Any) -> Any:
        return np.sum(self.hidden(x) ** 2)


def test_calls_stand_as_they_are() -> None:
    plain = layer
    for primitives in ({layer}, [layer], lambda fn: fn.__name__ == "layer"):
        tape = trace(net, WEIGHTS, X, primitives=primitives)
        assert [op.fn.__name__ for _, op in tape if hasattr(op, "fn")] == ["layer", "layer", "sum"]
        for x in (X, 2 * X):
            assert tape(WEIGHTS, x) == net(WEIGHTS, x)
            np.testing.assert_allclose(gradient(tape, 1)(WEIGHTS, x), gradient(net, 1)(WEIGHTS, x))
            assert jit(tape)(WEIGHTS, x) == pytest.approx(net(WEIGHTS, x))
        assert layer is plain
    assert "layer" not in str(trace(net, WEIGHTS, X))


def test_methods_and_closures() -> None:
    model = Model()
    for method in (Model.hidden, model.hidden):
        assert "hidden(Model, %1)" in str(trace(model, X, primitives=[method]))

    def inner(x: Any) -> Any:
        return x * 3.0

    assert "inner(%1)" in str(trace(lambda x: inner(x) + 1.0, X, primitives={inner}))
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: inner(x) / 0, 1.0, primitives={inner})
    assert not hasattr(inner, "__yota_plain__")


def test_what_is_not_reached() -> None:
    with pytest.raises(ValueError, match="net does not reach norm, which is to be a primitive"):
        trace(net, WEIGHTS, X, primitives=[np.linalg.norm])
