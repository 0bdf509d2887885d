"""Systems of equations, Cholesky factors and inverses by LAPACK inside compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import explain, grad, jit, value_and_grad

RNG = np.random.default_rng(5)


def general(*shape: int, dtype: Any = float) -> Any:
    return (RNG.normal(size=shape) + 3 * np.eye(shape[-1])).astype(dtype)


def positive(*shape: int, dtype: Any = float) -> Any:
    a = RNG.normal(size=shape)
    return (a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])).astype(dtype)


CALLS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "solve a vector": (np.linalg.solve, lambda: (general(4, 4), RNG.normal(size=4))),
    "solve a matrix": (np.linalg.solve, lambda: (general(4, 4), RNG.normal(size=(4, 3)))),
    "solve one column": (np.linalg.solve, lambda: (general(4, 4), RNG.normal(size=(4, 1)))),
    "solve one row": (np.linalg.solve, lambda: (general(1, 1), RNG.normal(size=(1, 3)))),
    "solve a stack": (np.linalg.solve, lambda: (general(2, 3, 4, 4), RNG.normal(size=(2, 3, 4, 2)))),
    "solve with float32": (np.linalg.solve, lambda: (general(3, 3, dtype="f"), RNG.normal(size=3).astype("f"))),
    "solve with a transpose": (lambda a, b: np.linalg.solve(a.T, b[::2]), lambda: (general(3, 3), RNG.normal(size=6))),
    "factorize": (np.linalg.cholesky, lambda: (positive(4, 4),)),
    "factorize a stack": (np.linalg.cholesky, lambda: (positive(5, 3, 3),)),
    "factorize upwards": (lambda a: np.linalg.cholesky(a, upper=True), lambda: (positive(4, 4),)),
    "factorize a transpose": (lambda a: np.linalg.cholesky(np.swapaxes(a, 0, 1)), lambda: (general(3, 3) @ np.eye(3),)),
    "invert": (np.linalg.inv, lambda: (general(4, 4),)),
    "invert a stack": (np.linalg.inv, lambda: (general(5, 3, 3),)),
    "invert float32": (np.linalg.inv, lambda: (general(3, 3, dtype="f"),)),
    "determinant": (np.linalg.det, lambda: (general(4, 4),)),
    "determinants": (np.linalg.det, lambda: (general(2, 3, 4, 4),)),
    "determinant of one number": (np.linalg.det, lambda: (general(1, 1),)),
    "determinant with float32": (np.linalg.det, lambda: (general(3, 3, dtype="f"),)),
    "logarithm of a determinant": (lambda a: np.linalg.slogdet(a)[1], lambda: (general(4, 4),)),
    "logarithms of determinants": (lambda a: np.multiply(*np.linalg.slogdet(a)), lambda: (general(3, 4, 4),)),
    "invert a large one": (np.linalg.inv, lambda: (general(130, 130) + 20 * np.eye(130),)),
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled_calls_are_those_of_numpy(name: str) -> None:
    fn, draw = CALLS[name]
    if name == "factorize a transpose":  # which reads the other triangle
        draw = lambda: (np.tril(RNG.normal(size=(3, 3))) + positive(3, 3) + 5 * np.eye(3),)  # noqa: E731

    def f(*args: Any) -> Any:
        return np.sum(fn(*args) ** 3)

    compiled = value_and_grad(f, tuple(range(len(draw()))))
    compiled.compile(*draw())
    assert "NumPy" not in str(explain(compiled))  # no step in Python
    for _ in range(3):
        args = draw()
        value, slopes = compiled(*args)
        fresh, want = grad(lambda *args: np.sum(fn(*args) ** 3), *args)
        tolerance = 1e-4 if args[0].dtype == np.float32 else 1e-10
        assert_allclose(value, fresh, rtol=tolerance)
        for have, slope in zip(slopes, want, strict=True):
            assert have.dtype == slope.dtype
            assert_allclose(have, slope, rtol=tolerance, atol=tolerance * np.max(np.abs(slope)))


@pytest.mark.parametrize("fn", [np.linalg.inv, np.linalg.cholesky, lambda a: np.linalg.solve(a, np.ones(3))])
@pytest.mark.parametrize("stack", [(), (2,)])
def test_what_fails_raises_as_in_numpy(fn: Callable[..., Any], stack: tuple[int, ...]) -> None:
    if stack:
        def call(a: Any) -> Any:
            return fn(np.stack([a, 2 * a]))[1] if fn in (np.linalg.inv, np.linalg.cholesky) else fn(a)
    else:
        call = fn

    def f(a: Any) -> Any:
        try:
            return np.sum(call(a))
        except np.linalg.LinAlgError:
            return 5 * np.sum(a)

    good, bad = positive(3, 3), np.zeros((3, 3))
    slope = value_and_grad(f)
    slope.compile(good)
    for _ in range(3):
        assert_allclose(slope(good)[0], f(good))
        value, da = slope(bad)
        assert value == 0
        assert_allclose(da, np.full((3, 3), 5.0))
    with pytest.raises(np.linalg.LinAlgError):
        value_and_grad(lambda a: np.sum(call(a)))(bad)


def test_determinants_of_singular_matrices_are_interpreted() -> None:
    det = value_and_grad(lambda a: np.linalg.det(a))
    det.compile(general(3, 3))
    for a in (np.ones((3, 3)), np.diag([1.0, 2.0, 0.0]), general(3, 3)):
        value, slopes = det(a)
        fresh, want = value_and_grad(lambda a: np.linalg.det(a))(a)
        assert_allclose(value, fresh, atol=1e-14)
        assert_allclose(slopes, want, rtol=1e-12, atol=1e-14)
    value = value_and_grad(lambda a: np.linalg.slogdet(a)[1])
    value.compile(general(3, 3))
    with pytest.raises(np.linalg.LinAlgError):  # there is no slope at minus infinity
        value(np.zeros((3, 3)))


ELEMENTS = np.array([0.0, 1.0, 2.0, -1.0, np.inf, np.nan])
DRAWN: dict[str, Callable[[], Any]] = {
    "whole numbers": lambda: RNG.integers(-6, 3, (3, 3)).astype(float),
    "infinities and NaN": lambda: RNG.choice(ELEMENTS, (2, 2)),
    "products of few columns": lambda: (b := RNG.integers(-3, 3, (3, 2)) / 10) @ b.T,
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
@pytest.mark.parametrize("fn", [
    np.linalg.inv, np.linalg.det, np.linalg.cholesky, lambda a: np.stack(np.linalg.slogdet(a)),
    lambda a: np.linalg.cholesky(a, upper=True), lambda a: np.linalg.solve(a, a[0]),
], ids=["inv", "det", "cholesky", "slogdet", "upper", "solve"])  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_same_matrices_are_singular(fn: Callable[[Any], Any], draw: Callable[[], Any]) -> None:
    """The pivots are those of NumPy."""

    def called(f: Callable[[Any], Any], a: Any) -> Any:
        try:
            return np.asarray(f(a))
        except np.linalg.LinAlgError:
            return None

    compiled = jit(lambda a: fn(a))
    compiled.compile(positive(*draw().shape))
    for _ in range(200):
        a = draw()
        have, want = called(compiled, a), called(fn, a)
        assert (have is None) == (want is None), a
        if want is not None:
            assert_allclose(have, want, rtol=1e-10, atol=0, equal_nan=True)
