"""Tapes as functions: their values, the derivatives in all of them, other functions in the place of theirs."""

from __future__ import annotations

import cmath
import math
import pickle
from typing import Any

import numpy as np
import pytest

from yota_py import GuardError, config, grad, gradient, gradtape, jacobian, jit, rrule, trace, value_and_grad, vmap
from yota_py.tape.verify import verify

TURNS = 200
X, W = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.5]]), np.array([0.2, -0.4, 0.9])


def loss(w: Any, x: Any) -> Any:
    return np.sum(np.tanh(x @ w) ** 2 * 2.0)


def looped(x: Any) -> Any:
    for _ in range(TURNS):
        x = np.sin(x) * 1.1 + 0.1
    return np.sum(x)


@pytest.mark.parametrize("mode", ["never", "auto", "always"])
def test_a_tape_is_a_function(mode: str) -> None:
    config.compile = mode
    for f, args in ((loss, (W, X)), (looped, (W,))):
        tape = trace(f, *args)
        assert tape(*args) == tape.play(*args)
        for scale in (1.0, 2.0, -0.5):
            given = scale * args[0], *args[1:]
            value, slopes = value_and_grad(tape)(*given)
            want, wanted = value_and_grad(f)(*given)
            np.testing.assert_allclose(value, want, rtol=1e-13)
            np.testing.assert_allclose(slopes, wanted, rtol=1e-12)
            np.testing.assert_allclose(jit(tape)(*given), want, rtol=1e-13)
            np.testing.assert_allclose(grad(tape, *given)[1][0], wanted, rtol=1e-12)
            np.testing.assert_allclose(jacobian(tape)(*given), wanted, rtol=1e-12)
    steps = gradtape(loss, W, X)
    np.testing.assert_allclose(jit(steps)(2 * W, X)[1][0], gradient(loss)(2 * W, X), rtol=1e-12)
    rows = trace(loss, W, X[:1])
    np.testing.assert_allclose(vmap(rows, (None, 0))(W, X[:, None]), [loss(W, x) for x in X[:, None]], rtol=1e-13)


def test_tapes_are_kept_and_compared() -> None:
    for tape in (trace(loss, W, X), gradtape(loss, W, X), trace(looped, W), gradtape(looped, W)):
        again = pickle.loads(pickle.dumps(tape))
        assert str(again) == str(tape)
        args = (W, X) if len(tape.inputs) == 2 else (W,)
        np.testing.assert_equal(again.play(*args), tape.play(*args))
    assert trace(loss, W, X) == trace(loss, 2 * W, X)
    assert trace(loss, W, X) != trace(loss, W, X[:1])
    assert trace(loss, W, X) != trace(loss, W, X).replace({np.tanh: np.sin})


def with_math(x: Any, y: Any) -> Any:
    return math.sin(x) * math.exp(y) + math.hypot(x, y) + cmath.sqrt(x).real


def test_tapes_of_functions_that_do_not_dispatch_are_kept() -> None:
    for tape in (trace(with_math, 1.5, 0.5), gradtape(with_math, 1.5, 0.5)):
        again = pickle.loads(pickle.dumps(tape))
        assert again == tape
        assert [getattr(op, "fn", None) for op in again.ops] == [getattr(op, "fn", None) for op in tape.ops]
        space: dict[str, Any] = {}
        exec(tape.to_source(), space)
        np.testing.assert_equal(space["with_math"](0.7, 0.2), tape.play(0.7, 0.2))
    y, back = rrule.of(math.sin)(0.5)
    assert (y, back(1.0)) == (math.sin(0.5), (math.cos(0.5),))


def test_values() -> None:
    tape = trace(loss, W, X)
    values = tape.values(2 * W, X)
    assert [*values] == [var for var, _ in tape]
    products = [var for var, op in tape if "matmul" in str(getattr(op, "fn", ""))]
    np.testing.assert_allclose(values[products[0]], X @ (2 * W))
    assert values[tape.results[0]] == loss(2 * W, X)
    with pytest.raises(TypeError, match="traced with the arguments"):
        tape.values(W)


def test_derivatives_in_what_lies_between() -> None:
    """Each is that of the rest of the function, by finite differences of the value at that place."""
    tape = gradtape(loss, W, X)
    values = tape.values(W, X)
    inner = {"product": X @ W, "tanh": np.tanh(X @ W), "square": np.tanh(X @ W) ** 2}
    rest = {
        "product": lambda y: np.sum(np.tanh(y) ** 2 * 2.0), "tanh": lambda y: np.sum(y**2 * 2.0),
        "square": lambda y: np.sum(y * 2.0),
    }  # fmt: skip
    found = {}
    for x, dx in tape.cotangents.items():
        for name, value in inner.items():
            if np.shape(values[x]) == value.shape and np.allclose(values[x], value, rtol=1e-14):
                found[name] = values[dx]
    assert found.keys() == inner.keys()
    for name, have in found.items():
        np.testing.assert_allclose(have, gradient(rest[name])(inner[name]), rtol=1e-12)
    slopes = [values[tape.cotangents[x]] for x in tape.inputs]
    np.testing.assert_equal(slopes, [*tape.play(W, X)[1]])


def test_several_paths_and_none() -> None:
    tape = gradtape(lambda x, y, n: np.sum(x * x + np.exp(x) * 0.0) + 0 * n, W, W, 3)
    values = tape.values(W, W, 3)
    x, y, *_ = tape.inputs
    np.testing.assert_allclose(values[tape.cotangents[x]], 2 * W)
    assert y not in tape.cotangents


def test_other_functions() -> None:
    tape = trace(loss, W, X)
    other = tape.replace({np.tanh: np.sin})
    np.testing.assert_allclose(other(W, X), np.sum(np.sin(X @ W) ** 2 * 2.0))
    np.testing.assert_allclose(tape(W, X), loss(W, X))
    assert "sin" in str(other) and "tanh" in str(tape)
    wanted = gradient(lambda w: np.sum(np.sin(X @ w) ** 2 * 2.0))(W)
    np.testing.assert_allclose(gradient(other)(W, X), wanted, rtol=1e-12)
    of_users = tape.replace({np.tanh: lambda z: z / (1.0 + np.abs(z))})
    np.testing.assert_allclose(of_users(W, X), np.sum((X @ W / (1 + np.abs(X @ W))) ** 2 * 2.0))
    np.testing.assert_allclose(gradient(of_users)(W, X), gradient(lambda w: of_users(w, X))(W), rtol=1e-12)


def test_other_functions_in_loops() -> None:
    tape = trace(looped, W)
    assert len(tape) < 20
    x = W
    for _ in range(TURNS):
        x = np.tanh(x) * 1.1 + 0.1
    other = tape.replace({np.sin: np.tanh})
    for _ in range(3):
        np.testing.assert_allclose(other(W), np.sum(x), rtol=1e-13)
        np.testing.assert_allclose(tape(W), looped(W), rtol=1e-13)
        np.testing.assert_allclose(jit(other)(W), np.sum(x), rtol=1e-13)


def test_wrong_functions() -> None:
    tape = trace(loss, W, X)
    with pytest.raises(ValueError, match="loss: its tape has no call of exp"):
        tape.replace({np.exp: np.sin})
    with pytest.raises(TypeError, match=r"test_workbench.py:\d+: sum cannot stand for tanh: it gives float64, and"):
        tape.replace({np.tanh: np.sum})
    with pytest.raises(TypeError, match="it raises TypeError"):
        tape.replace({np.tanh: lambda a, b: a})
    with pytest.raises(ValueError, match="no call of tanh"):
        gradtape(loss, W, X).replace({np.tanh: np.sin})


# -- other operations


def test_insert_remove_and_returning() -> None:
    tape = trace(loss, W, X)  # matmul, tanh, power, multiply, sum
    shown = str(tape)
    for n in range(3, len(tape) + 2):
        more = verify(tape.insert(n, np.exp, tape.inputs[0]))
        assert more(W, X) == tape(W, X)
        np.testing.assert_array_equal(more.returning(n)(W, X), np.exp(W))
        assert verify(more.remove(n)) == tape
    bent = verify(tape.remove(4, instead=tape[4].args[0]))
    for scale in (1.0, -2.0):
        np.testing.assert_allclose(bent(scale * W, X), np.sum((X @ (scale * W)) ** 2 * 2.0))
        want = gradient(lambda w: np.sum((X @ w) ** 2 * 2.0))(scale * W)
        np.testing.assert_allclose(gradient(bent)(scale * W, X), want)
    first, last = tape.returning(3, len(tape))(W, X)
    np.testing.assert_array_equal(first, X @ W)
    assert last == tape(W, X) and str(tape) == shown
    steps = gradtape(loss, W, X)
    moved = verify(steps.insert(3, np.exp, steps.inputs[0]))
    np.testing.assert_array_equal(moved.play(W, X)[1][0], steps.play(W, X)[1][0])
    values = moved.values(W, X)
    np.testing.assert_array_equal(values[moved.cotangents[moved.inputs[0]]], steps.play(W, X)[1][0])


def test_rewrite() -> None:
    def halved(new: Any, op: Any) -> Any:
        y = new.append(op)
        return new.call(np.multiply, y, 0.5) if getattr(op, "fn", None) is np.tanh else y

    tape = trace(loss, W, X)
    new = verify(tape.rewrite(halved))
    for scale in (1.0, 3.0):
        np.testing.assert_allclose(new(scale * W, X), np.sum((np.tanh(X @ (scale * W)) / 2) ** 2 * 2.0))
    assert len(new) == len(tape) + 1
    assert verify(tape.rewrite(lambda new, op: new.append(op))) == tape
    counted = trace(lambda x: x * 2.0 if x > 0 else x, 1.0).rewrite(lambda new, op: new.append(op))
    assert counted(3.0) == 6.0
    with pytest.raises(GuardError):
        counted(-1.0)
    for nothing in (None, 5):
        with pytest.raises(TypeError, match=rf"loss: visit gave {nothing} for the input %1; return new.append"):
            tape.rewrite(lambda new, op, nothing=nothing: nothing)


def test_changes_that_cannot_be() -> None:
    tape, decides = trace(loss, W, X), trace(lambda x: x if x > 0 else -x, 1.0)
    for change, error, said in (
        (lambda: tape.remove(4), ValueError, "%4 is read by %5; say what to read instead"),
        (lambda: tape.remove(len(tape)), ValueError, "is read by the result"),
        (lambda: tape.remove(1), ValueError, "%1 is an input"),
        (lambda: tape.remove(4, instead=2.0), TypeError, r"%4 is float64\[2\], and 2.0 float64"),
        (lambda: tape.remove(4, instead=tape.results[0]), ValueError, "is not computed before %4"),
        (lambda: tape.insert(99, np.sin, 1.0), IndexError, "and not at %99"),
        (lambda: tape.insert(3, np.sin, tape.results[0]), ValueError, "which is not computed before it"),
        (lambda: tape.insert(3, np.matmul, *tape.inputs), TypeError, "matmul cannot be called: of ones of the"),
        (lambda: tape.returning(99), IndexError, "no variable %99"),
        (lambda: decides.remove(2, instead=True), ValueError, "a decision is taken on"),
    ):
        with pytest.raises(error, match=said):
            change()
