"""The public functions: what they return, of which type, sharing memory with nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest
from agreement import agree
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad, gradient, pullback, value_and_grad
from yota_py.capture.recording import record_call
from yota_py.errors import NonScalarOutputError, NotDifferentiableError, OutputError
from yota_py.reverse.verbs import backprop, differentiate, finish, to_rrules
from yota_py.tape.operations import Variable
from yota_py.tape.verify import verify

CALLS = 4  # traced, compiled, and run twice


def arrays(tree: Any) -> list[np.ndarray]:
    """The arrays in a structure."""
    return [leaf for leaf in optree.tree_leaves(tree) if isinstance(leaf, np.ndarray)]


def check_fresh(results: Any, *others: Any) -> None:
    """Arrays of results are their own, writable, C-contiguous, and share no memory with each other or with others."""
    mine, theirs = arrays(results), arrays(others)
    for i, a in enumerate(mine):
        assert a.flags.c_contiguous and a.flags.writeable
        assert not any(np.shares_memory(a, b) for b in mine[:i]), "two results share memory"
        assert not any(np.shares_memory(a, b) for b in theirs), "a result shares memory with an argument"


def repeated(f: Callable[..., Any], *args: Any) -> Any:
    """The gradients of several calls, whose results are their own."""
    for _ in range(CALLS):
        value, grads = agree(f, *args)
        check_fresh((value, grads), args)
    return grads


# ------------------------------------------------------------------------------------------------ the three verbs


def test_three_verbs() -> None:
    source = record_call(lambda a, b: a * b + np.sin(a), (2.0, 3.0), {})
    lin = to_rrules(source)
    verify(lin.out.tape)
    z = source.tape.results[0]
    seed = lin.out.constant(1.0, note="seed")
    cotangents = backprop(lin, [(z, seed)])
    assert set(cotangents) == {Variable(1), Variable(2)}
    out = finish(lin, cotangents)
    verify(out.tape)
    value, grads = out.tape.play(2.0, 3.0)
    assert_allclose((value, *grads), (6 + math.sin(2), 3 + math.cos(2), 2.0))


def test_pullbacks_run_only_where_a_derivative_flows() -> None:
    def f(x: Any, n: Any) -> Any:
        _unused = np.exp(x) * np.tan(x)
        return x * np.floor(n) * 2

    text = str(differentiate(record_call(f, (2.0, 3.5), {})).tape)
    assert text.count("pullback of") == 2 and "rrule(exp" not in text and "rrule(floor" not in text


# ------------------------------------------------------------------------------------------------ paths and zeros


def test_several_paths_are_added() -> None:
    assert grad(lambda x: x + x, 3.0) == (6.0, (2.0,))
    assert grad(lambda x: x * x * x, 3.0) == (27.0, (27.0,))
    assert grad(lambda x: sum(x * k for k in range(5)), 3.0) == (30.0, (10.0,))
    (g,) = repeated(lambda x: np.sum(x[1:] * x[:-1]) + np.sum(x) + x[0] * x[0], np.arange(1.0, 5.0))
    assert_array_equal(g, [5.0, 5.0, 7.0, 4.0])
    (g,) = repeated(lambda x: np.sum(np.concatenate([x, x]) * np.stack([x, x]).ravel()), np.arange(3.0))
    assert_array_equal(g, 4 * np.arange(3.0))
    (g,) = repeated(lambda x: np.sum(x[[0, 0, 1]] ** 2), np.arange(1.0, 4.0))
    assert_array_equal(g, [4.0, 4.0, 0.0])


def test_no_influence_gives_zeros() -> None:
    for _ in range(CALLS):
        value, (a, b, c, d) = grad(
            lambda a, b, c, d: a * 2 + 0 * 1, 2.0, np.ones((2, 3), np.float32), {"w": np.ones(2), "n": 3}, 1 + 1j
        )
        assert value == 4.0 and a == 2.0 and d == 0 and c["n"] is None
        assert_array_equal(b, np.zeros((2, 3), np.float32), strict=True)
        assert_array_equal(c["w"], np.zeros(2), strict=True)
        check_fresh((b, c))


def test_a_constant_output_gives_zeros() -> None:
    w = np.arange(3.0)
    outputs: list[Callable[[Any], Any]] = [
        lambda x: 3.0,
        lambda x: np.float64(3.0),
        lambda x: np.array(3.0),
        lambda x: w[1] * 3,
        lambda x: np.sum(np.sign(x)) * 1.5,
        lambda x: np.sum(np.floor(x)),
        lambda x: float(np.argmax(x)) * 3,
    ]
    for f in outputs:
        (g,) = repeated(f, np.array([1.5, 2.5]))
        assert_array_equal(g, np.zeros(2), strict=True)


def test_an_output_that_is_a_captured_array() -> None:
    w = np.arange(3.0)

    def f(x: Any) -> Any:
        return w

    for i in range(CALLS):
        value, (g,) = grad(f, 2.0, seed=np.ones(3))
        assert_array_equal(value, np.arange(3.0) + i)
        assert g == 0.0 and isinstance(g, float)
        check_fresh(value, w)
        value[:] = 99.0
        w += 1.0


# ------------------------------------------------------------------------------------------------------- arguments


def test_the_same_array_twice() -> None:
    a = np.arange(1.0, 4.0)
    g, h = repeated(lambda x, y: np.sum(x * y * y), a, a)
    assert_array_equal(g, a * a)
    assert_array_equal(h, 2 * a * a)
    ((g, h),) = repeated(lambda pair: np.sum(pair[0] * pair[1]), [a, a])
    assert_array_equal(g, a)


def test_arguments_that_overlap_in_memory() -> None:
    a = np.arange(1.0, 6.0)
    g, h = repeated(lambda x, y: np.sum(x * y * y), a[:-1], a[1:])
    assert_array_equal(g, a[1:] ** 2)
    assert_array_equal(h, 2 * a[:-1] * a[1:])
    repeated(lambda x, y: np.sum(x * y), a, a[::-1])
    repeated(lambda x, y: np.sum(x @ y), a[:4].reshape(2, 2), a[:4].reshape(2, 2).T)


def test_an_argument_that_is_captured_too() -> None:
    w = np.arange(1.0, 4.0)
    for _ in range(CALLS):
        value, (g,) = grad(lambda x: np.sum(x * w), w)
        assert value == w @ w
        assert_array_equal(g, w)


@pytest.mark.parametrize(
    "x",
    [
        2.0,
        2.0 + 1j,
        np.float16(2),
        np.float32(2),
        np.float64(2),
        np.longdouble(2),
        np.complex64(2 + 1j),
        np.complex128(2),
        np.array(2.0),
        np.array(2.0, np.float32),
        np.ones(3),
        np.ones(3, np.float32),
        np.ones((2, 0)),
        np.ones(3, np.complex64),
        np.asfortranarray(np.ones((2, 3))),
        np.ones((4, 4))[::2, ::-1],
        np.broadcast_to(1.0, (2, 3)),
    ],
)
def test_gradients_have_the_type_of_their_argument(x: Any) -> None:
    for f in (
        lambda x: np.sum(np.real(x * x)),
        lambda x: np.sum(np.real(x)) * 1.0,
        lambda x: np.sum(np.real(np.exp(x)) * np.real(x)),
    ):
        for _ in range(CALLS):
            value, (g,) = grad(f, x)
            if isinstance(x, float | complex) and not isinstance(x, np.generic):
                assert type(g) is type(x)
            else:
                assert type(g) is type(x) and g.dtype == x.dtype and g.shape == x.shape
            check_fresh((value, g), x)


def test_arguments_are_never_changed() -> None:
    def f(p: dict[str, Any], x: Any) -> Any:
        y = x.copy()
        y[0] = 0.0
        y += 1.0
        return np.sum(p["w"] * y) + np.sum(np.sort(x)) + np.sum(p["b"])

    p, x = {"w": np.arange(3.0), "b": np.ones(2)}, np.array([3.0, 1.0, 2.0])
    w, b = p["w"], p["b"]
    for _ in range(CALLS):
        grad(f, p, x)
        assert p["w"] is w and p["b"] is b and list(p) == ["w", "b"]
        assert_array_equal(w, np.arange(3.0))
        assert_array_equal(b, np.ones(2))
        assert_array_equal(x, [3.0, 1.0, 2.0])


# -------------------------------------------------------------------------------------------------------- aliasing

OUTPUTS: dict[str, Callable[[Any, Any], Any]] = {
    "the input": lambda x, y: x,
    "both": lambda x, y: (x, y),
    "twice the same": lambda x, y: (lambda z: (z, z, {"z": z}))(x * y),
    "views": lambda x, y: (x.T, x[0], x[:, ::-1], x.reshape(-1), (x + y).T, (x + y)[0]),
    "sums": lambda x, y: [x + y, x + y, np.sum(x), 2.0],
    "broadcast": lambda x, y: (np.broadcast_to(x, (2, *x.shape)), x + 0 * y),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_results_share_no_memory(name: str) -> None:
    f = OUTPUTS[name]
    kept: list[Any] = []
    for i in range(CALLS):
        x, y = np.arange(6.0).reshape(2, 3) + i, np.full((2, 3), 2.0)
        plain = f(x.copy(), y.copy())
        seed = optree.tree_map(np.ones_like, plain)
        value, grads = grad(f, x, y, seed=seed)
        optree.tree_map(assert_array_equal, value, plain)
        check_fresh((value, grads), x, y, seed, kept)
        for a in arrays((value, grads)):
            a[...] = 77.0
        kept.append((value, grads))
        assert_array_equal(x, np.arange(6.0).reshape(2, 3) + i)
    for a in arrays(kept):
        assert_array_equal(a, np.full(a.shape, 77.0))


def test_results_of_a_pullback_share_no_memory() -> None:
    for f in (lambda x: x, lambda x: (x, x.T, x), lambda x: [x[0], x * 2]):
        x = np.arange(4.0).reshape(2, 2)
        y, back = pullback(f, x)
        seed = optree.tree_map(np.ones_like, y)
        first = back(seed)
        second = back(seed)
        check_fresh((y, first, second), x, seed)
        optree.tree_map(assert_array_equal, first, second)
        first[0][...] = 99.0
        optree.tree_map(lambda a: a.fill(99.0), y)
        optree.tree_map(assert_array_equal, back(seed), second)


# ------------------------------------------------------------------------------- value_and_grad, gradient


def test_argnums() -> None:
    def f(x: Any, y: Any, z: Any, *, k: float = 1.0) -> Any:
        return np.sum(x * y * y) * z * k

    x, y = np.arange(3.0), np.ones(3) * 2
    for i in range(CALLS):
        z = 1.0 + i
        value, g = value_and_grad(f)(x, y, z)
        assert value == 12 * z
        assert_array_equal(g, np.full(3, 4 * z))
        value, gs = value_and_grad(f, argnums=(2, 0))(x, y, z, k=2.0)
        assert gs[0] == 24.0 and value == 24 * z
        assert_array_equal(gs[1], np.full(3, 8 * z))
        assert_array_equal(gradient(f, argnums=1)(x, y, z), 4 * x * z)
        assert len(gradient(f, argnums=[1])(x, y, z)) == 1


def test_one_function_called_often() -> None:
    vg, g = value_and_grad(lambda w, x: np.sum(np.sin(w) * x)), gradient(lambda w: w**3)
    for i in range(CALLS):
        w, x = np.linspace(0, 1, 4) + i, np.arange(4.0)
        value, dw = vg(w, x)
        assert_allclose(value, np.sum(np.sin(w) * x))
        assert_allclose(dw, np.cos(w) * x)
        check_fresh(dw, w, x)
        assert g(2.0 + i) == 3 * (2.0 + i) ** 2


def test_other_arguments_may_be_anything() -> None:
    vg = value_and_grad(lambda w, n, mode, table: w * n * table[mode])
    for n in (2, 3, 2):
        for mode, scale in (("a", 1.0), ("b", 5), ("a", 2.0)):
            assert vg(3.0, n, mode, {mode: scale, "z": None}) == (3.0 * n * scale, n * scale)


def test_argnums_that_are_wrong() -> None:
    for bad in ((), (0.0,), ("x",), 1.5):
        with pytest.raises(ValueError, match="argnums are positions"):
            value_and_grad(lambda x: x, argnums=bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"test_gradient.py:\d+: argnums=3, but <lambda> got 2 positional arguments"):
        value_and_grad(lambda x, y: x, argnums=3)(1.0, 2.0)
    with pytest.raises(NotDifferentiableError):
        value_and_grad(lambda x, n: x * n, argnums=1)(1.0, 2)


def test_auxiliary_outputs() -> None:
    vg = value_and_grad(lambda x: (np.sum(x * x), {"y": x * 2, "n": len(x), "s": "text", "none": None}), has_aux=True)
    for i in range(CALLS):
        x = np.arange(3.0) + i
        (value, aux), g = vg(x)
        assert value == np.sum(x * x) and aux["n"] == 3 and aux["s"] == "text" and aux["none"] is None
        assert_array_equal(aux["y"], x * 2)
        assert_array_equal(g, 2 * x)
        check_fresh((aux, g), x)
        aux["y"][:] = 99.0
    for f in (lambda x: x, lambda x: [x, x], lambda x: (x, x, x)):
        with pytest.raises(OutputError, match=r"test_gradient.py:\d+: with has_aux, <lambda> must return a tuple"):
            value_and_grad(f, has_aux=True)(2.0)
    with pytest.raises(NonScalarOutputError):
        value_and_grad(lambda x: (x, x), has_aux=True)(np.ones(2))


def test_names_and_texts_are_kept() -> None:
    def loss(x: Any) -> Any:
        """The loss."""
        return x * x

    for wrapped in (value_and_grad(loss), gradient(loss)):
        assert wrapped.__name__ == "loss" and wrapped.__doc__ == "The loss."


# --------------------------------------------------------------------------------------- what the value is


def test_values_have_the_type_of_the_functions_result() -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda x: np.sum(x),
        lambda x: np.sum(x * np.float64(2)),
        lambda x: x[0] * 1.0,
        lambda x: np.mean(x),
        lambda x: x @ x,
        lambda x: np.array(2.0) * x[0],
        lambda x: x.reshape(3)[1],
        lambda x: np.linalg.norm(x),
        lambda x: np.sum(x, keepdims=True)[0],
    ]
    for f in functions:
        for dtype in (np.float64, np.float32):
            x = np.arange(1, 4, dtype=dtype)
            for _ in range(CALLS):
                value, (g,) = grad(f, x)
                assert type(value) is type(f(x)) and value.dtype == f(x).dtype and g.dtype == dtype


def test_python_numbers_in_python_numbers_out() -> None:
    for f in (
        lambda x: x * x,
        lambda x: np.sin(x),
        lambda x: math.sin(x) * np.exp(x),
        lambda x: np.sum(np.array([x, x])),
    ):
        for i in range(CALLS):
            value, (g,) = grad(f, 2.0 + i)
            assert type(value) is float and type(g) is float
            assert_allclose(value, f(2.0 + i))
