"""``vmap`` is a Python loop over the examples, whose results are stacked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from yota_py import grad, gradient, jit, pullback, value_and_grad, vmap

R = np.random.default_rng(0)
X, Y, W = R.normal(size=(7, 3)), R.normal(size=7), R.normal(size=3)


class Layer(NamedTuple):
    w: Any
    b: Any


def loss(w: Any, x: Any, y: Any) -> Any:
    return np.tanh(x @ w - y) ** 2


def test_axes() -> None:
    def f(a: Any, b: Any, *, k: Any = 1.0) -> Any:
        return {"p": a @ b, "q": (a * k, None)}

    a, b, k = R.normal(size=(3, 7)), R.normal(size=(7, 3)), R.normal(size=7)
    out = vmap(f, in_axes=(1, 0))(a, b, k=k)
    np.testing.assert_allclose(out["p"], np.sum(a.T * b, 1))
    np.testing.assert_allclose(out["q"][0], a.T * k[:, None])
    assert out["q"][1] is None
    turned = vmap(f, in_axes=(-1, 0), out_axes={"p": 0, "q": 1})(a, b, k=k)
    np.testing.assert_allclose(turned["q"][0], (a.T * k[:, None]).T)
    assert vmap(f, in_axes=[1, None])(a, np.ones(3))["p"].shape == (7,)
    assert vmap(lambda x: x, out_axes=-1)(np.ones((4, 2, 3))).shape == (2, 3, 4)


def test_containers_and_dtypes() -> None:
    def f(layer: Layer, x: dict[str, Any], name: str) -> Any:
        assert name == "n"
        return Layer(layer.w @ x["x"], x["k"] + 1), x["k"] > 2

    layer, x = Layer(R.normal(size=(5, 2, 3)), None), {"x": np.ones(3, np.float32), "k": np.arange(5)}
    (got, large) = vmap(f, in_axes=(0, {"x": None, "k": 0}, None))(layer, x, "n")
    np.testing.assert_allclose(got.w, layer.w.sum(-1))
    assert got.b.dtype == int
    assert large.tolist() == [False, False, False, True, True]
    assert vmap(lambda x: (1, 2.5, True), in_axes=0)(np.ones(3))[2].dtype == bool
    assert vmap(lambda x: x * 2j)(np.ones(3, np.complex64)).dtype == np.complex64
    assert vmap(lambda x: np.float32(x))(np.zeros(2)).dtype == np.float32


def test_nothing_in_a_batch() -> None:
    out = vmap(lambda x, w: (x @ w, x), in_axes=(0, None), out_axes=(0, 1))(np.zeros((0, 3)), W)
    assert (out[0].shape, out[1].shape) == ((0,), (3, 0))


def test_arguments_stay_as_they_are() -> None:
    x = np.ones((3, 2))

    def f(row: Any) -> Any:
        row *= 2
        return row

    assert np.all(vmap(f)(x) == 2)
    assert np.all(x == 1)


@pytest.mark.usefixtures("every_policy")
def test_a_gradient_for_each_example() -> None:
    for seed in range(3):
        w = np.random.default_rng(seed).normal(size=3)
        expected = (2 * np.tanh(X @ w - Y) * (1 - np.tanh(X @ w - Y) ** 2))[:, None] * X
        np.testing.assert_allclose(vmap(gradient(loss), in_axes=(None, 0, 0))(w, X, Y), expected)
        values, grads = vmap(value_and_grad(loss), in_axes=(None, 0, 0))(w, X, Y)
        np.testing.assert_allclose(values, np.tanh(X @ w - Y) ** 2)
        np.testing.assert_allclose(grads, expected)
        _, (dw, dx) = vmap(lambda w, x, y: grad(lambda w, x: loss(w, x, y), w, x), in_axes=(None, 0, 0))(w, X, Y)
        np.testing.assert_allclose(dw, expected)
        assert dx.shape == X.shape


@pytest.mark.usefixtures("every_policy")
def test_in_gradients_and_steps() -> None:
    def total(w: Any, x: Any) -> Any:
        return np.sum(vmap(loss, in_axes=(None, 0, 0))(w, x, Y))

    def plain(w: Any, x: Any) -> Any:
        return np.sum(np.tanh(x @ w - Y) ** 2)

    def norms(w: Any, x: Any) -> Any:
        return np.sum(vmap(gradient(loss), in_axes=(None, 0, 0))(w, x, Y) ** 2)

    step = jit(norms)
    for seed in range(3):
        w = np.random.default_rng(seed).normal(size=3)
        value, (dw, dx) = grad(total, w, X)
        expected, (ew, ex) = grad(plain, w, X)
        np.testing.assert_allclose(value, expected)
        np.testing.assert_allclose(dw, ew)
        np.testing.assert_allclose(dx, ex)
        value, (dw, _) = grad(norms, w, X)
        np.testing.assert_allclose(value, norms(w, X))
        np.testing.assert_allclose(step(w, X), value)
        slopes = [(norms(w + e, X) - norms(w - e, X)) / 2e-6 for e in 1e-6 * np.eye(3)]
        np.testing.assert_allclose(dw, slopes, rtol=1e-5)


def test_jacobians() -> None:
    def f(x: Any) -> Any:
        return np.array([x[0] * x[1], np.sin(x[2]), x[0]])

    y, back = pullback(f, W)
    (jacobian,) = vmap(back)(np.eye(3))
    np.testing.assert_allclose(jacobian, [[W[1], W[0], 0], [0, 0, np.cos(W[2])], [1, 0, 0]])
    assert y.shape == (3,)


@pytest.mark.usefixtures("every_policy")
def test_nested() -> None:
    def pairs(x: Any, z: Any) -> Any:
        return vmap(vmap(lambda a, b: np.sum((a - b) ** 2), in_axes=(None, 0)), in_axes=(0, None))(x, z)

    x, z = R.normal(size=(4, 3)), R.normal(size=(5, 3))
    expected = np.sum((x[:, None] - z) ** 2, -1)
    np.testing.assert_allclose(pairs(x, z), expected)
    _, (dx, _) = grad(lambda x, z: np.sum(pairs(x, z)), x, z)
    np.testing.assert_allclose(dx, 2 * np.sum(x[:, None] - z, 1))


def test_three_calls_and_other_functions() -> None:
    for f in (np.sin, np.cos, lambda x: x * 2):
        mapped = vmap(f)
        for n in (2, 3, 2):
            x = R.normal(size=(n, 2))
            np.testing.assert_allclose(mapped(x), f(x))


def test_one_function_with_other_captures() -> None:
    rate, seen = 1.0, []

    def f(x: Any) -> Any:
        seen.append(1)
        return x * rate

    mapped = vmap(f)
    for rate in (1.0, 2.0, 3.0):
        assert mapped(np.ones(2)).tolist() == [rate, rate]
    assert len(seen) == 6


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda: vmap(np.sin, in_axes=0.5), TypeError, "in_axes are integers or None, or containers of them; got 0.5"),
    (lambda: vmap(np.sin, in_axes=(True,)), TypeError, "got True"),
    (lambda: vmap(np.sin, out_axes=None), TypeError, "out_axes are integers, or containers of them; got None"),
    (lambda: vmap(3), TypeError, "vmap wants a function; got int"),
    (lambda: vmap(np.sin, in_axes=(0, 0))(X), TypeError, "in_axes has 2 entries, and the call has 1 positional"),
    (lambda: vmap(np.add)(X, Y[:3]), ValueError, "as many elements as one another: argument 0 has 7, argument 1 has 3"),
    (lambda: vmap(np.add, in_axes=None)(X, Y), ValueError, "nothing is mapped: in_axes=None"),
    (lambda: vmap(np.sin, in_axes=2)(X), ValueError, "argument 0 is float64[7,3], which has no axis 2 for in_axes"),
    (lambda: vmap(np.sin)(2.0), TypeError, "0 is float64, and in_axes says that examples lie along its axis 0"),
    (lambda: vmap(lambda x, mode: x)(X, mode="a"), TypeError, "mode is a str, and in_axes"),
    (lambda: vmap(lambda x: x, in_axes=({"a": 0},))({"b": X}), TypeError,
     "in_axes[0] is {'a': 0}, and argument 0 has the structure {'b': *}"),
    (lambda: vmap(lambda x: x, in_axes=((0, 1),))([X, X]), TypeError, "in_axes[0] is (0, 1)"),
    (lambda: vmap(lambda x: x, out_axes=2)(X), ValueError, "the result, stacked, has 2 dimensions, and no axis 2"),
    (lambda: vmap(lambda x: {"a": 1.0}, out_axes={"a": 1})(X), ValueError, "the result['a'], stacked, has 1 dimension"),
    (lambda: vmap(lambda x: "a")(X), TypeError, "the result is a str; numbers, arrays and None"),
    (lambda: vmap(lambda x: x[x > 0])(np.array([[1.0, 2.0], [-1.0, 2.0]])), TypeError,
     "the result is float64[2] at first and float64[1] later"),
])  # fmt: skip
def test_mistakes(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)) as caught:
        call()
    assert "test_batching.py:" in str(caught.value)


# -------------------------------------------------------------------------- programs for whole batches


def scaled(x: Any, k: Any) -> Any:
    return np.cumsum(x) * k + OFFSET[0]


OFFSET = np.array([0.5])


@pytest.mark.usefixtures("every_policy")
def test_axes_are_told_apart() -> None:
    x = R.normal(size=(4, 4))
    for _ in range(3):
        np.testing.assert_allclose(vmap(scaled, in_axes=(0, None))(x, 2.0), 2 * np.cumsum(x, 1) + OFFSET)
        np.testing.assert_allclose(vmap(scaled, in_axes=(1, None))(x, 2.0), 2 * np.cumsum(x.T, 1) + OFFSET)
        np.testing.assert_allclose(vmap(scaled, in_axes=(1, None), out_axes=1)(x, 2.0), 2 * np.cumsum(x, 0) + OFFSET)
        np.testing.assert_allclose(vmap(scaled, (0, 0))(x, x), np.cumsum(x, 1) * x + OFFSET)


@pytest.mark.usefixtures("every_policy")
def test_what_is_read_is_read_anew() -> None:
    def made(rate: float, kept: np.ndarray) -> Callable[..., Any]:
        return vmap(lambda x: rate * np.sin(x @ kept))

    kept, x = np.ones(3), R.normal(size=(50, 3))
    first, second = made(1.0, kept), made(2.0, kept)
    for i in range(4):
        kept[1] = i
        np.testing.assert_allclose(first(x), np.sin(x @ kept))
        np.testing.assert_allclose(second(x[: 10 * i + 2]), 2 * np.sin(x[: 10 * i + 2] @ kept))
        OFFSET[0] = i
        np.testing.assert_allclose(vmap(scaled)(x, x[:, 0]), np.cumsum(x, 1) * x[:, :1] + i)


@pytest.mark.usefixtures("every_policy")
def test_decisions_and_exceptions_of_examples() -> None:
    def f(m: Any) -> Any:
        return np.linalg.inv(m) if m[0, 0] > 0 else m

    mapped, ms = vmap(f), np.stack([np.eye(2) * s for s in (1.0, -2.0, 4.0, 0.5) * 15])
    for turned in (1.0, -1.0, 1.0):
        np.testing.assert_allclose(mapped(turned * ms), np.stack([f(m) for m in turned * ms]))
    ms[3, 1] = 0
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            mapped(ms)


@pytest.mark.usefixtures("every_policy")
def test_what_examples_do_besides() -> None:
    seen: list[Any] = []
    total = np.zeros(2)

    def f(x: Any) -> Any:
        seen.append(x)
        total[:] += x
        return x * np.random.normal()

    mapped, x = vmap(f), np.ones((30, 2))
    for i in range(1, 5):
        np.random.seed(i)
        expected = np.random.normal(size=30)
        np.random.seed(i)
        np.testing.assert_allclose(mapped(x)[:, 0], expected)
        assert len(seen) == 30 * i
        assert total.tolist() == [30 * i, 30 * i]
