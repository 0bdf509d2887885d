"""Casts of traced numbers, ``complex(a, b)``, the ``cmath`` module, and ``x.view()``: values, gradients, messages."""

from __future__ import annotations

import cmath
import io
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from caching import function
from fresh import rounds
from numpy.testing import assert_allclose

from yota_py import config, grad, gradient, jit
from yota_py.errors import LostDerivativeError, MissingRuleError

X = np.array([0.9, 1.2, 1.7])
CASTS = [
    "np.float64(x[0]) ** 2", "np.float64(x) ** 2", "np.float64([x[0], 2 * x[1]]) ** 2",
    "np.complex128(x * 1j).imag ** 2",
    "np.double(x[0]) * x", "np.float64(2) * x", "x[np.int64(x[1])] ** 2 + x",
    "sum(x[i] for i in range(np.int64(x[2])))",
    "x if np.bool_(x[0] > 1) else 2 * x", "np.float64(np.array(2.0)) * x", "np.float64(str(2.5)) * x",
    "np.longdouble(2) * 0 + x", "np.float64(x.sum()).reshape(1)",
    "abs(complex(x[0], x[1])) ** 2", "abs(complex(x[0]) * x[1])", "abs(complex(x[0], imag=x[1]))",
    "abs(complex(imag=x[1]) + x[0])", "abs(complex(1.0, 2.0)) * x", "abs(complex(x[0] + 1j, x[1])) ** 2",
    "x.view() ** 2", "x.view(np.ndarray) * x.view(dtype=float)", "x[0].view() ** 2",
]  # fmt: skip


@pytest.mark.parametrize("call", CASTS)
def test_casts(call: str) -> None:
    f = function(f"def f(x): return np.sum({call})")
    rounds(f, X, 1.1 * X, X + 0.35)


def kinds(x: Any) -> Any:
    """What the casts give, as NumPy has it."""
    cast = [np.float64(x), np.float64(np.asarray(x)), np.float32(x), np.int64(x), np.complex64(x), np.float64([x])]
    return cast, [(type(y), getattr(y, "dtype", None), np.shape(y)) for y in cast]


@pytest.mark.parametrize("x", [2.5, np.float64(2.5), np.float32(1.5), np.float64(-3.5)])
def test_casts_give_the_same_kinds(x: Any) -> None:
    def f(x: Any) -> Any:
        seen.append(kinds(x)[1])
        return np.float64(x) * 1.0

    seen: list[Any] = []
    grad(f, x)
    assert seen[0] == kinds(x)[1]


def test_casts_raise_what_numpy_raises() -> None:
    errors: list[tuple[str, Any, type[Exception]]] = [
        ("float64", 1j, TypeError), ("int64", np.inf, OverflowError), ("int64", np.nan, ValueError),
    ]  # fmt: skip
    for name, x, error in errors:
        f = function(f"def f(x): return abs(x) + np.{name}(x)")
        for run in (f, lambda x, f=f: grad(f, x)):
            with pytest.raises(error):
                run(x)


def test_a_view_shares_memory() -> None:
    def f(x: Any) -> Any:
        y = 1.0 * x
        v = y.view()
        v[0] = x[1] ** 2
        return np.sum(y * y)

    rounds(f, X, 1.1 * X, X + 0.35)
    with pytest.raises(MissingRuleError, match=r"x.view of another dtype or class.*x.astype"):
        grad(lambda x: np.sum(x.view(np.int64)), X)


NAMES = "exp log log10 sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh"


@pytest.mark.parametrize("compile_", ["auto", "always"])
@pytest.mark.parametrize("name", NAMES.split())
def test_cmath(name: str, compile_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", compile_)
    f = function(f"import cmath\ndef f(a, b): z = cmath.{name}(a + 1j * b); return z.real + 2 * z.imag * z.real")
    g = function(f"import cmath\ndef f(a): z = cmath.{name}(a); return z.real + 2 * z.imag")
    for a, b in [(0.3, 0.4), (-0.5, 0.2), (1.5, -0.7)]:
        value, slopes = grad(f, a, b)
        h = 1e-6
        assert_allclose(value, f(a, b), rtol=1e-12)
        wanted = (f(a + h, b) - f(a - h, b)) / (2 * h), (f(a, b + h) - f(a, b - h)) / (2 * h)
        assert_allclose(slopes, wanted, rtol=1e-6, atol=1e-8)
        assert_allclose(grad(g, 0.2 + abs(b))[0], g(0.2 + abs(b)))


@pytest.mark.parametrize("call", [
    "cmath.phase(complex(x[0], x[1]))", "cmath.polar(x[0] + 1j * x[1])[0] * cmath.polar(x[0] + 1j * x[1])[1]",
    "cmath.rect(x[0], x[1]).real * cmath.rect(x[0], x[1]).imag", "cmath.log(x[0] + 1j * x[1], 2).real",
    "x[0] if cmath.isclose(x[0], x[1], rel_tol=0.1) else x[2]", "x[0] if cmath.isfinite(x[0]) else x[2]",
    "cmath.sqrt(-x[0]).imag", "cmath.phase(2 + 1j) * x[0]",
])  # fmt: skip
def test_parts_in_cmath(call: str) -> None:
    f = function(f"import cmath\ndef f(x): return 1.0 * ({call})")
    rounds(f, X, 1.1 * X, np.array([0.9, 0.91, 1.0]))


def test_cmath_raises_as_python_does() -> None:
    def f(x: float) -> Any:
        try:
            return cmath.log(x).real
        except ValueError:
            return 3.0 * x

    for x in (1.0, 2.0, 0.0, 2.0, 0.0):
        value, (slope,) = grad(f, x)
        assert_allclose([value, slope], [f(x), 3.0 if x == 0 else 1 / x])
    with pytest.raises(OverflowError, match="math range error"):
        grad(lambda x: cmath.exp(x).real, 1000.0)


def test_in_jit_and_in_nested_gradients() -> None:
    def f(a: float, b: float) -> Any:
        return abs(cmath.exp(complex(a, b)) * np.float64(a)) ** 2

    step, first = jit(lambda a, b: gradient(f)(a, b)), gradient(f)
    for a, b in [(1.0, 2.0), (1.5, 2.0), (0.5, 0.1), (0.7, 0.1)]:
        wanted = np.exp(2 * a) * (2 * a * a + 2 * a)
        assert_allclose([step(a, b), first(a, b)], wanted, rtol=1e-10)
        second = np.exp(2 * a) * (4 * a * a + 8 * a + 2)
        assert_allclose(grad(first, a, b)[1], (second, 0.0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("f", "words"), [
    (lambda x: float(x[0]) * x[1], r"float\(stop_gradient\(x\)\)"),
    (lambda x: ("%.3f" % x[0], x[0])[1], "stop_gradient"),  # noqa: UP031
    (lambda x: (json.dumps({"loss": [x[0]]}), x[0])[1], r"json.dumps.*float\(stop_gradient\(x\)\)"),
    (lambda x: (np.save(io.BytesIO(), x), x[0])[1], "yota_py.stop_gradient"),
    (lambda x: (np.savez(io.BytesIO(), a=x), x[0])[1], "yota_py.stop_gradient"),
    (lambda x: (pickle.dumps(x), x[0])[1], "stop_gradient"),
    (lambda x: abs(complex(x[0], x[1])) if isinstance(1j, complex) else x[0], r"a \+ 1j\*b"),
])  # fmt: skip
def test_what_asks_for_plain_numbers_says_what_to_write(f: Callable[..., Any], words: str) -> None:
    with pytest.raises((LostDerivativeError, MissingRuleError), match=words):
        grad(f, X)


@pytest.mark.parametrize("f", [
    lambda x: complex(x, 1.0, 2.0), lambda x: complex(x, real=1.0), lambda x: complex(x, imaginary=1.0),
])  # fmt: skip
def test_complex_refuses_the_arguments_that_python_refuses(f: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"complex|argument"):
        f(1.0)
    with pytest.raises(TypeError, match=r"complex|argument"):
        gradient(lambda x: abs(f(x)))(1.0)
