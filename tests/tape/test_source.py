"""Tapes as the text of a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.special

from yota_py import config, gradtape, scan, trace, while_loop
from yota_py.tape.tape import Tape

X, W = np.array([0.3, -0.7, 1.1]), np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
OFFSETS = np.array([1.0, np.nan, -np.inf])


class Point(NamedTuple):
    x: Any
    y: Any


def written(x: Any) -> Any:
    y = x.copy()
    y[1:] *= 2.0
    y[x > 0] = 0.5
    return y


def looped(x: Any) -> Any:
    for _ in range(300):
        x = np.sin(x) + 0.1 * x
    return {"x": x, "rest": (x[0], [3, "text"])}


def stacked(x: Any, xs: Any) -> Any:
    return scan(lambda c, y: (0.5 * c + y, c * y), x, xs)


def backwards(x: Any, xs: Any) -> Any:
    return scan(lambda c, y: (0.5 * c + y, c), x, xs, reverse=True)


def until(x: Any) -> Any:
    return while_loop(lambda x: x < 100.0, lambda x: x * 2.0 + 1.0, x)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "numbers": (lambda x, k: (x**k - 1.0) / (2.0 + x) if x > 0 else -x, (2.0, 3)),
    "arrays": (lambda x, w: np.sum(np.tanh(w @ x), axis=0) + np.float32(2.0), (X, W)),
    "captured": (lambda x: np.where(np.isfinite(OFFSETS), x, OFFSETS), (X,)),
    "written into": (written, (X,)),
    "indices": (lambda w: w[:, 1:][::-1, np.newaxis] + w[..., [0, 2]][0, None], (W,)),
    "containers": (lambda p: {"sum": p["a"].x + p["b"][0], "both": Point(p["a"].y, p["b"])},
                   ({"a": Point(X, 2.0 * X), "b": [X]},)),
    "special": (lambda x: scipy.special.gammaln(x**2 + 1.0) + np.fft.rfft(x).real[0], (X,)),
    "slogdet": (lambda w: np.linalg.slogdet(w @ w.T)[1], (W,)),
    "loop": (looped, (X,)),
    "scan": (stacked, (X, np.stack([X, 2 * X, X]))),
    "backwards": (backwards, (X, np.stack([X, 2 * X, X]))),
    "until": (until, (np.array(1.5),)),
    "casts": (lambda x: x.astype(np.float32) + np.zeros(3, dtype=np.int16), (X,)),
}  # fmt: skip


def function_of(tape: Tape) -> Any:
    names: dict[str, Any] = {}
    text = tape.to_source()
    exec(text, names)
    return next(value for name, value in names.items() if f"def {name}(" in text)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_text_computes_what_the_tape_does(name: str) -> None:
    f, args = FUNCTIONS[name]
    tape = trace(f, *args)
    again = function_of(tape)
    np.testing.assert_equal(again(*args), tape.play(*args))
    if name != "numbers":
        given = tuple(x * 1.01 if isinstance(x, np.ndarray) else x for x in args)
        np.testing.assert_equal(again(*given), tape.play(*given))


def test_gradient_tapes() -> None:
    for f, args in ((lambda x, w: np.sum(np.tanh(w @ x) ** 2), (X, W)), (lambda x: np.exp(x) * x, (0.5,))):
        tape = gradtape(f, *args)
        np.testing.assert_equal(function_of(tape)(*args), tape.play(*args))
    tape = gradtape(lambda x: x**2, X, seed=X)
    np.testing.assert_equal(function_of(tape)(2 * X, seed=X), tape.play(2 * X, seed=X))


def test_keywords_and_branches() -> None:
    def f(x: Any, *, k: Any = 2.0) -> Any:
        return x * k if x > 0 else x

    again = function_of(trace(f, 3.0, k=4.0))
    assert again(2.0, k=5.0) == 10.0
    with pytest.raises(AssertionError, match="another branch: trace again"):
        again(-2.0, k=5.0)


def test_names_that_the_text_uses_itself() -> None:
    def f(np: Any, v2: Any, v1: Any, *rest: Any, float: Any = 3.0) -> Any:
        return np * v2 - v1 * rest[0] + float

    for again in (function_of(trace(f, 1.0, 2.0, 3.0, 4.0)), function_of(trace(lambda x1, *x: x1 - x[0], 1.0, 5.0))):
        args = (1.0, 2.0, 3.0, 4.0)[: again.__code__.co_argcount]
        assert again(*args) == (f(*args) if len(args) == 4 else -1.0)
    with pytest.raises(ValueError, match="its keyword float is a name that the text uses otherwise"):
        trace(f, 1.0, 2.0, 3.0, 4.0, float=2.0).to_source()


def test_functions_without_a_name() -> None:
    tape = trace(lambda x: np.sin(x), X).replace({np.sin: lambda x: np.cos(x)})
    with pytest.raises(ValueError, match="<lambda> cannot be written as text, as it has no name in a module"):
        tape.to_source()


def test_derivatives_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="its turns are lines"):
        gradtape(looped_sum, X).to_source()
    monkeypatch.setattr(config, "roll", False)
    tape = gradtape(looped_sum, X)
    np.testing.assert_equal(function_of(tape)(2 * X), tape.play(2 * X))


def looped_sum(x: Any) -> Any:
    return np.sum(looped(x)["x"])
