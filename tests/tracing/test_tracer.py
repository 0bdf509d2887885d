"""Tracers: what Python and NumPy can do with them."""

from __future__ import annotations

import enum
import functools
import itertools
import math
import numbers
import operator
from collections.abc import Iterable, Sequence
from math import exp as imported_exp
from math import sin as imported_sin
from typing import Any

import numpy as np
import pytest
from agreement import ALL, agree
from numpy import array as imported_array
from numpy import zeros as imported_zeros
from numpy.testing import assert_allclose
from tracing import ARRAYS, NUMBERS, Function

from yota_py import grad, pullback, value_and_grad
from yota_py.tracing.tracer import tracers_of

# ------------------------------------------------------------------------------------------ what Python can do with x

WITH_NUMBERS: dict[str, Function] = {
    "sum of a generator": lambda x: sum(x * i for i in range(4)),
    "sum of a list": lambda x: sum([x, x * 2, 3.0]),
    "sum with start": lambda x: sum([x, x], start=x * x),
    "max": lambda x: max(x, 2.5) * x,
    "min of three": lambda x: min(x, 2.5, x * x) * x,
    "max with key": lambda x: max([x, -2 * x], key=abs),
    "sorted": lambda x: sorted([x, 2.5, x * x])[1],
    "abs": lambda x: abs(x - 2.6),
    "round": lambda x: round(x) * x,
    "divmod": lambda x: divmod(x, 1.7)[0] * x + divmod(x, 1.7)[1] * x,
    "divmod, reflected": lambda x: divmod(9.0, x)[1] * x,
    "pow": lambda x: pow(x, 3) + pow(2, x) + x**x + x**-2,
    "remainders": lambda x: (-x) % 1.7 + x % -1.3 + 5.0 % x,
    "floor division": lambda x: (x // 0.7) * x,
    "unary": lambda x: -x * +x + 3 * (-x) ** 2,
    "comparison": lambda x: (x > 2.5) * x + (x != 3) * x,
    "chain": lambda x: x if 1.0 < x < 2.7 else -x,
    "and, or, not": lambda x: (x > 2.5 and x * 2) or x * 3,
    "isinstance float": lambda x: x * 2 if isinstance(x, float) else x * 3,
    "isinstance Real": lambda x: x * 2 if isinstance(x, numbers.Real) else x * 3,
    "isinstance Iterable": lambda x: x * 2 if isinstance(x, Iterable) else x * 3,
    "isinstance Sequence": lambda x: x * 2 if isinstance(x, Sequence) else x * 3,
    "isinstance array": lambda x: x * 2 if isinstance(x, np.ndarray | np.generic) else x * 3,
    "np.isscalar": lambda x: x * 2 if np.isscalar(x) else x * 3,
    "np.ndim": lambda x: x * 2 if np.ndim(x) == 0 and np.shape(x) == () and np.size(x) == 1 else x * 3,
    "hasattr shape": lambda x: x * 2 if hasattr(x, "shape") else x * 3,
    "hasattr __len__": lambda x: x * 2 if hasattr(x, "__len__") else x * 3,
    "hasattr __iter__": lambda x: x * 2 if hasattr(x, "__iter__") else x * 3,
    "callable": lambda x: x * 2 if callable(x) else x * 3,
    "is None": lambda x: x * 2 if x is None or x == None else x * 3,  # noqa: E711 - users write it
    "equal to text": lambda x: x * 2 if x == "a" else x * 3,
    "try as sequence": lambda x: _length_or_one(x) * x,
    "real and imag": lambda x: x.real * 2 + x.imag + x.conjugate(),
    "map and lambda": lambda x: sum(map(lambda v: v * v, [x, 2.0])),  # noqa: C417 - the point
    "zip and enumerate": lambda x: sum(i * a * b for i, (a, b) in enumerate(zip([x, 2], [3, x], strict=True))),
    "reduce": lambda x: functools.reduce(operator.mul, [x, x, 2.0]),
    "accumulate": lambda x: list(itertools.accumulate([x, x, x]))[-1],
    "default argument": lambda x, k=3.0: x * k,
    "star arguments": lambda x: (lambda *a, **k: a[0] * k["b"])(x, b=x),
    "partial": lambda x: functools.partial(operator.mul, x)(x),
    "nested function": lambda x: (lambda y: (lambda z: z * x + y)(y))(x * x),
    "dict of numbers": lambda x: {"a": x, "b": x * x}["b"],
    "f-string": lambda x: x * len(f"{x:.1f}"),
    "walrus": lambda x: (y := x * x) + y,
    "enum": lambda x: x * _Kind.B.value,
    "complex number": lambda x: abs((x + 1j) * x) + (x * 1j).imag,
    "stays a float": lambda x: math.sin(x) * imported_sin(x) * imported_exp(-x),
    "hypot, atan2, pow": lambda x: math.hypot(x, 1.0, 2.0) + math.atan2(x, 2.0) + math.pow(x, 1.5) + math.fmod(7.0, x),
    "math sums": lambda x: math.fsum([x, x * x]) + math.prod([x, x, 2.0]) + math.dist([x, 1.0], [2.0, x * x]),
    "math steps": lambda x: (
        x * math.floor(x) + x * math.ceil(x) + x * math.trunc(x) + math.degrees(x) + math.copysign(x, -1)
    ),
    "math tests": lambda x: x * (1 + math.isfinite(x) + math.isnan(x) + math.isclose(x, 2.0)),
    "math special": lambda x: (
        math.erf(x) + math.gamma(x) + math.lgamma(x) + math.expm1(x) + math.log1p(x) + math.cbrt(x)
    ),
    "math logs": lambda x: math.log(x) + math.log(x, 3.0) + math.log2(x) + math.log10(x) + math.sqrt(x) + math.exp2(x),
    "np.array": lambda x: np.sum(np.array([x, 2 * x, 1.0]) ** 2) + np.array([[x, 1.0], [2.0, x]])[1, 1],
    "imported array": lambda x: np.sum(imported_array([x, 2 * x, 1.0]) ** 2) + np.sum(imported_zeros(3) + x),
    "np.asarray": lambda x: np.asarray(x) * 2 + np.asarray([x, x])[1],
    "np.sum of a list": lambda x: np.sum([x, x * x]) * np.sum((x, 2.0)),
    "np.mean of a list": lambda x: np.mean([x, 1.0, x]),
    "np.max of a list": lambda x: np.max([x, 2.5]) * np.maximum(x, [1.0, 9.0])[1],
    "np.dot of lists": lambda x: np.dot([x, 1.0], [2.0, x]),
    "list times array": lambda x: np.sum(np.array([1.0, 2.0]) * [x, x * x]),
    "np.stack": lambda x: np.sum(np.stack([x, x * x])) + np.hstack([x, 1.0])[0] + np.vstack([x, x])[1, 0],
    "interp": lambda x: np.interp(x, [0.0, 1.0, 10.0], [0.0, 2.0, 3.0]) * x,
}

WITH_ARRAYS: dict[str, Function] = {
    "max and min": lambda x: max(x) * min(x),
    "sorted": lambda x: sorted(x)[0] * 2 + sorted(x, reverse=True)[0],
    "sum": lambda x: sum(x) * sum(v * v for v in x),
    "len, shape": lambda x: np.sum(x) * len(x) * x.size * x.ndim * x.shape[0],
    "zip and enumerate": lambda x: sum(i * a * b for i, (a, b) in enumerate(zip(x, x[::-1], strict=True))),
    "map": lambda x: sum(map(lambda v: v * v, x)),  # noqa: C417 - the point
    "reversed": lambda x: sum(i * v for i, v in enumerate(reversed(x))),
    "list and tuple": lambda x: sum(i * v for i, v in enumerate(list(x))) + tuple(x)[1],
    "unpacking": lambda x: (lambda a, b, c: a * b + c)(*x),
    "star unpacking": lambda x: (lambda a, *rest: a * sum(rest))(*x),
    "list comprehension": lambda x: np.sum(np.array([v * v for v in x]) * np.array([1.0, 2.0, 3.0])),
    "nested lists": lambda x: np.sum(np.array([[x[0], 1], [x[1], x[2]]]) @ np.array([1.0, 2.0])),
    "reduce": lambda x: functools.reduce(lambda a, b: a * b + a, x),
    "accumulate": lambda x: sum(itertools.accumulate(x)),
    "flat": lambda x: sum(v * v for v in x.flat),
    "tolist": lambda x: sum(v * v for v in x.tolist()),
    "item": lambda x: x.item(0) * x[1].item(),
    "isinstance": lambda x: np.sum(x) * (2 if isinstance(x, np.ndarray) and not isinstance(x, float) else 3),
    "methods": lambda x: x.dot(x) + x.sum() * x.mean() + x.max() + (x.T @ x) + x.reshape(3, 1).ravel()[0] + x.copy()[1],
    "plain on the left": lambda x: np.sum(np.dot(np.eye(3) * 2, x)) + (np.eye(3) @ x)[0] + np.array([1.0, 2, 3]) @ x,
    "dot of a plain array": lambda x: np.eye(3).dot(x) @ x,
    "dot of a captured array": lambda x: _MATRIX.dot(x) @ x,
    "ufunc methods": lambda x: np.add.reduce(x) * np.multiply.reduce(x) + np.sum(np.multiply.outer(x, x)),
    "ufunc accumulate": lambda x: np.add.accumulate(x)[1] * np.multiply.accumulate(x)[2],
    "where, initial": lambda x: np.sum(x, where=np.array([True, False, True])) * np.max(x, initial=2.5),
    "keepdims": lambda x: np.sum(x / np.sum(x, keepdims=True) ** 2),
    "hstack with a list": lambda x: np.sum(np.hstack([x, [1.0, 2.0]]) * np.arange(5)),
    "concatenate": lambda x: np.sum(np.concatenate([x, np.zeros(2), x * x]) * np.arange(8)),
    "einsum": lambda x: np.einsum("i,i->", x, x),
    "trapezoid": lambda x: np.trapezoid(x * x, dx=0.1),
    "matrix power": lambda x: np.sum(np.outer(x, x) @ x),
    "stacked rows": lambda x: sum(np.sum(row * i) for i, row in enumerate(np.outer(x, x))),
    "array on the left": lambda x: np.sum(np.arange(3.0) * x - np.arange(3.0) / (x * x) + np.arange(1.0, 4.0) ** x[0]),
    "number on the left": lambda x: np.sum(2.0 * x + 1 - x / 3 + 2 / x + np.float64(3) * x),
    "boolean arithmetic": lambda x: np.sum((x > 1) * x + (x > 1).astype(float) * x + np.where(x > 1, x, x * x)),
    "integer arithmetic": lambda x: np.sum(x * np.arange(3) + x ** np.arange(3) + x[np.array([0, 0, 2])]),
    "ellipsis, newaxis": lambda x: np.sum(x[..., None] * x[None, :] * x[-1:, np.newaxis]),
    "ndarray methods": lambda x: (
        x.clip(0, 1).sum() + x.cumsum()[1] + x.var() + x.std() + x.prod() + x.take([0, 2]).sum()
    ),
}


def _length_or_one(x: Any) -> int:
    try:
        return len(x)
    except TypeError:
        return 1


_MATRIX = np.arange(9.0).reshape(3, 3)


class _Kind(enum.Enum):
    A = 1.0
    B = 2.0


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers(name: str) -> None:
    for x in NUMBERS:
        agree(WITH_NUMBERS[name], x, against=ALL)


@pytest.mark.parametrize("name", WITH_ARRAYS)
def test_arrays(name: str) -> None:
    for x in ARRAYS:
        agree(WITH_ARRAYS[name], x, against=ALL)


@pytest.mark.parametrize("name", [n for n in WITH_NUMBERS if n not in ("round", "floor division")])
def test_numpy_scalars(name: str) -> None:
    f = WITH_NUMBERS[name]
    for x in NUMBERS[:3]:
        value, (g,) = grad(f, np.float64(x))
        assert_allclose(value, f(np.float64(x)), rtol=1e-12)
        assert type(g) is np.float64


# ------------------------------------------------------------------------------------------------------- promotion

WEAK: list[Function] = [
    lambda s: s,
    lambda s: s * 2 + 1,
    lambda s: math.sin(s),
    lambda s: abs(s),
    lambda s: s**2,
    lambda s: -s,
    lambda s: max(s, 1.0),
    lambda s: sum([s, s]),
    lambda s: 1 / s,
    lambda s: math.sqrt(s),
    lambda s: s % 1.5,
    lambda s: s // 1.5 * s,
    lambda s: round(s, 1) * s,
    lambda s: divmod(s, 1.5)[1],
    lambda s: s if s > 1 else -s,
    lambda s: math.hypot(s, 1.0),
    lambda s: math.fsum([s, s]),
    lambda s: 2**s,
    lambda s: s.real,
    lambda s: np.float32(2) * s,
]


@pytest.mark.parametrize("number", range(len(WEAK)))
def test_python_floats_stay_weak(number: int) -> None:
    a = np.arange(1, 4, dtype=np.float32)
    for f in (
        lambda s: a * WEAK[number](s),
        lambda s: np.where(a > 1, WEAK[number](s), a),
        lambda s: np.maximum(a, WEAK[number](s)),
    ):
        for i in range(3):
            want = f(2.0 + i)
            value, (g,) = grad(f, 2.0 + i, seed=np.ones(3, np.float32))
            assert value.dtype == want.dtype == np.float32 and type(g) is float
            assert_allclose(value, want, rtol=1e-6)


def test_strong_scalars_stay_strong() -> None:
    a = np.ones(3, np.float32)
    for s in (np.float64(2), np.float32(2), 2.0, np.float16(2)):
        for _ in range(3):
            value, (g,) = grad(lambda s: np.sum(a * s), s)
            assert type(value) is type(np.sum(a * s)) and type(g) is type(s)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0, 3), (1, 1)])
def test_values_and_gradients_keep_their_types(dtype: Any, shape: tuple[int, ...]) -> None:
    x = np.full(shape, 0.5, dtype)
    for f in (
        lambda x: np.sum(np.abs(x * x)),
        lambda x: np.sum(np.abs(np.sin(x) * 3 + 1)),
        lambda x: np.sum(np.real(x)) * 2,
    ):
        for _ in range(4):
            value, (g,) = grad(f, x)
            assert type(value) is type(f(x)) and type(g) is np.ndarray
            assert (g.shape, g.dtype) == (x.shape, x.dtype)
            assert_allclose(value, f(x), rtol=1e-3 if dtype == np.float16 else 1e-6)


# --------------------------------------------------------------------------------------------- printing and looking


def test_printing_shows_the_value(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(x, f"{x:.3f}", format(x, "5.1f"), str(x), "{:.2e}".format(x), x.__class__.__name__)  # noqa: UP032
        return x * x

    def g(x: Any) -> Any:
        print(x, x.shape, x.dtype, x[0])
        return x @ x

    for i in range(3):
        grad(f, 2.5 + i)
        grad(g, np.array([1.0, 2.0 + i]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2.5 2.500   2.5 2.5 2.50e+00 float"
    assert lines[1] == "[1. 2.] (2,) float64 1.0"
    assert lines[4] == "4.5 4.500   4.5 4.5 4.50e+00 float"


def test_repr_is_readable() -> None:
    texts: list[str] = []
    grad(lambda x: (texts.append(repr(x)), x * x)[1], 2.5)
    assert texts == ["%1=2.5"] or texts == ["2.5"]


# ----------------------------------------------------------------------------------------------------------- nesting


def derivative(f: Function) -> Function:
    """The first derivative of a function of one number."""
    return lambda x: grad(f, x)[1][0]


def test_higher_derivatives() -> None:
    for x in (1.0, 2.0, 0.5, 3.0):
        assert_allclose(derivative(derivative(lambda x: math.sin(x) * x))(x), 2 * math.cos(x) - x * math.sin(x))
        assert_allclose(derivative(derivative(derivative(lambda x: x**5)))(x), 60 * x**2)
        assert_allclose(derivative(derivative(derivative(lambda x: math.exp(2 * x))))(x), 8 * math.exp(2 * x))
        assert_allclose(derivative(derivative(lambda x: np.tanh(x)))(x), -2 * np.tanh(x) * (1 - np.tanh(x) ** 2))
        assert_allclose(derivative(derivative(lambda x: 1 / x))(x), 2 / x**3)


def test_perturbations_are_not_confused() -> None:
    for x in (1.0, 2.0, 3.0, 4.0):
        assert grad(lambda x: x * grad(lambda y: x * y, 2.0)[1][0], x) == (x * x, (2 * x,))
        assert grad(lambda x: x * grad(lambda y: x + y, 1.0)[1][0], x) == (x, (1.0,))
        assert grad(lambda x: grad(lambda y: x * x * y * y, x)[1][0], x)[1] == (6 * x * x,)
        assert grad(lambda x: x * grad(lambda y: y * y, 3.0)[1][0], x) == (6 * x, (6.0,))


def test_inner_functions_close_over_outer_values() -> None:
    w = np.arange(3.0)
    inner = value_and_grad(lambda y: np.sum(y**3))

    def closed(x: Any) -> Any:
        value, (g,) = grad(lambda y: np.sum(np.sin(y) * x * w), x)
        return np.sum(g * g) + value

    def pulled(x: Any) -> Any:
        _, back = pullback(lambda z: np.sin(z) * x, x)
        return np.sum(back(np.ones(3) * x)[0])

    def branching(x: Any) -> Any:
        return grad(lambda y: np.sum(y * y) if x[0] > 2 else np.sum(y * y * y * x), x)[1][0] @ x

    for f in (closed, pulled, branching, lambda x: np.sum(inner(x)[1]) + inner(x)[0]):
        for x in ARRAYS:
            agree(f, x, against=ALL)


@pytest.mark.parametrize("cls", [float, bool, complex, np.float64, np.ndarray])
def test_the_classes_of_traced_values_have_the_hook_for_attributes_themselves(cls: type) -> None:
    """Python drops an inherited one for good if C code asks for an attribute while an error is set."""
    assert "__getattr__" in vars(tracers_of(cls))
