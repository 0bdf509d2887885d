"""Plain Python around NumPy works under differentiation or says why not; a derivative is never lost in silence."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import itertools
import math
import numbers
import operator
import pickle
import statistics
from collections.abc import Callable, Iterable, Sequence
from math import exp as imported_exp
from math import sin as imported_sin
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy import array as imported_array
from numpy import zeros as imported_zeros
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad, gradtape, pullback, trace, value_and_grad
from yota_py.errors import LostDerivativeError, MissingRuleError, MutationError, YotaError

Function = Callable[[Any], Any]
NUMBERS = (2.17, 3.31, 0.62, 7.43)
ARRAYS = (np.array([1.1, 2.2, 3.3]), np.array([3.1, -2.2, 0.5]), np.array([0.3, 0.25, 0.15]), np.array([2.2, 4.5, 1.2]))


def slope(f: Function, x: Any) -> Any:
    """Central differences in every element."""
    h = 1e-6
    if not isinstance(x, np.ndarray):
        return (f(x + h) - f(x - h)) / (2 * h)
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size).reshape(-1, *x.shape)]).reshape(
        x.shape
    )


def agree(f: Function, *xs: Any) -> None:
    """At each input: the value of plain NumPy and of a fresh trace, and the slope of finite differences."""
    for x in xs:
        value, (g,) = grad(f, x)
        fresh, (fresh_g,) = gradtape(f, x).play(x)
        assert_allclose(value, f(x), rtol=1e-12, err_msg=f"value at {x}")
        assert_allclose(value, fresh, rtol=1e-12, err_msg=f"fresh value at {x}")
        assert_allclose(g, fresh_g, rtol=1e-10, atol=1e-13, err_msg=f"fresh gradient at {x}")
        assert_allclose(g, slope(f, x), rtol=2e-5, atol=1e-6, err_msg=f"slope at {x}")


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
    agree(WITH_NUMBERS[name], *NUMBERS)


@pytest.mark.parametrize("name", WITH_ARRAYS)
def test_arrays(name: str) -> None:
    agree(WITH_ARRAYS[name], *ARRAYS)


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
    assert lines[0] == "2.5 (%1) 2.500   2.5 2.5 2.50e+00 float"
    assert lines[1] == "[1. 2.] (%1) (2,) float64 1.0 (%2)"
    assert lines[4] == "4.5 (%1) 4.500   4.5 4.5 4.50e+00 float"


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
        agree(f, *ARRAYS)


# ----------------------------------------------------------------------------------------- what would lose a derivative

ESCAPES: dict[str, Function] = {
    "float": lambda x: float(x[0]) * 2.0,
    "complex": lambda x: abs(complex(x[0])),
    "np.float64": lambda x: np.float64(x[0]) * x[0],
    "frombuffer": lambda x: np.frombuffer(memoryview(x), dtype=np.float64).sum(),
    "vectorize": lambda x: np.sum(np.vectorize(lambda v: v * v)(x)),
    "fromiter": lambda x: np.sum(np.fromiter((v * v for v in x), float)),
    "pickle": lambda x: np.sum(pickle.loads(pickle.dumps(x))),
    "deepcopy": lambda x: np.sum(copy.deepcopy(x) * x),
    "deepcopy of a dict": lambda x: np.sum(copy.deepcopy({"a": x})["a"]),
    "copy": lambda x: np.sum(copy.copy(x) * x),
    "object array": lambda x: np.array([x[0], None], dtype=object)[0] * 2.0,
    "array of objects": lambda x: np.array([x[0]], dtype=object)[0] * 2.0,
    "memoryview": lambda x: sum(memoryview(x)),
    "tobytes": lambda x: np.frombuffer(x.tobytes()).sum(),
    "math by hand": lambda x: math.frexp(x[0])[0] * 2.0,
    "statistics": lambda x: statistics.fmean(x),
    "apply_along_axis": lambda x: np.sum(np.apply_along_axis(np.cumsum, 0, x)),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_a_derivative_is_never_lost_in_silence(name: str) -> None:
    """Either the derivative is right or the call is refused."""
    f = ESCAPES[name]
    for x in ARRAYS:
        try:
            _, (g,) = grad(f, x)
        except TypeError:  # the errors of yota_py, and Python's own where C code asks for a buffer
            continue
        except MissingRuleError:
            continue
        assert_allclose(g, slope(f, x), rtol=1e-5, atol=1e-6)


def test_object_arrays_are_refused() -> None:
    with pytest.raises(LostDerivativeError, match="dtype=object"):
        grad(lambda x: np.sum(x), np.array([1.0, 2.0], dtype=object))

    def f(x: Any) -> Any:
        out = np.empty(1, dtype=object)
        out[0] = x
        return out[0] * 3.0

    for x in NUMBERS:
        try:
            assert grad(f, x) == (3.0 * x, (3.0,))
        except YotaError as error:
            assert "test_tracer.py" in str(error)


def test_a_list_keeps_its_traced_items() -> None:
    def f(x: Any) -> Any:
        out = [0.0] * 3
        for i in range(3):
            out[i] = x[i] * (out[i - 1] + 1)
        total = {"y": 0.0}
        for v in out:
            total["y"] += v
        return total["y"] + np.sum(out)

    agree(f, *ARRAYS)


# ----------------------------------------------------------------------------------------- writes: right or refused


def _plus(x: Any) -> Any:
    y = x
    y += 1.0
    return np.sum(x * x)


def _times_view(x: Any) -> Any:
    y = x * 1.0
    z = y[1:]
    z *= 3.0
    return np.sum(y * y)


def _assign(x: Any) -> Any:
    y = np.zeros(3)
    for i in range(3):
        y[i] = x[i] ** 2
    return np.sum(y * [1.0, 2.0, 3.0])


def _shift(x: Any) -> Any:
    y = x.copy()
    y[1:] = y[:-1]
    return np.sum(y * [1.0, 2.0, 3.0])


def _swap(x: Any) -> Any:
    y = x.copy()
    y[0], y[1] = y[1], y[0]
    return np.sum(y * [1.0, 2.0, 3.0])


def _masked(x: Any) -> Any:
    y = x.copy()
    y[y > 1] = 0.0
    return np.sum(y * y)


def _zeroed_view(x: Any) -> Any:
    y = x * 2
    y[:2][0] = 0.0
    y.T[2] += x[0]
    return np.sum(y * y)


def _add_transposed(x: Any) -> Any:
    y = np.outer(x, x)
    y += y.T
    return np.sum(y * np.arange(9.0).reshape(3, 3))


def _filled(x: Any) -> Any:
    y = x * 2
    y.fill(3.0)
    return np.sum(y * x)


def _out(x: Any) -> Any:
    y = np.zeros(3)
    np.multiply(x, 2.0, out=y)
    return np.sum(y * y)


def _copyto(x: Any) -> Any:
    y = np.zeros(3)
    np.copyto(y, x)
    return np.sum(y * y)


def _add_at(x: Any) -> Any:
    y = np.zeros(3)
    np.add.at(y, [0, 0, 1], x)
    return np.sum(y * y)


def _sorted_in_place(x: Any) -> Any:
    y = x * 1.0
    y.sort()
    return np.sum(y * [1.0, 2.0, 3.0])


def _diagonal(x: Any) -> Any:
    y = np.outer(x, x)
    np.fill_diagonal(y, 1.0)
    return np.sum(y * y)


def _listed(x: Any) -> Any:
    rows = [x, x]
    rows[0] += 1.0
    return np.sum(rows[1] * x)


@pytest.mark.parametrize(
    "f",
    [
        _plus,
        _times_view,
        _assign,
        _shift,
        _swap,
        _masked,
        _zeroed_view,
        _add_transposed,
        _filled,
        _out,
        _copyto,
        _add_at,
        _sorted_in_place,
        _diagonal,
        _listed,
    ],
)
def test_writes_are_right_or_refused(f: Function) -> None:
    for x in ARRAYS:
        before = x.copy()
        try:
            value, (g,) = grad(f, x)
        except (MutationError, MissingRuleError, LostDerivativeError) as error:
            assert "test_tracer.py" in str(error)
            continue
        finally:
            assert_array_equal(x, before)
        assert_allclose(value, f(x.copy()), rtol=1e-12)
        assert_allclose(g, slope(lambda x: f(x.copy()), x), rtol=1e-5, atol=1e-6)


def test_numbers_are_rebound_not_written() -> None:
    def f(x: Any) -> Any:
        y = x
        y += 1.0
        y *= x
        return y + x

    agree(f, *NUMBERS)


# ------------------------------------------------------------------------------------- a tracer outside of its trace


def _leaked() -> Any:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        kept.append(y)
        return np.sum(y * y)

    grad(f, np.ones(3))
    return kept[0]


def test_a_tracer_after_its_trace_says_so_or_is_plain() -> None:
    """A traced value kept by the user is the plain value afterwards, or refuses each use by its name."""
    uses: list[Function] = [
        lambda t: t + 1,
        lambda t: np.sum(t),
        lambda t: t[0],
        lambda t: bool(t[0] > 0),
        lambda t: float(t[0]),
        lambda t: t.mean(),
    ]
    for use in uses:
        kept = _leaked()
        try:
            result = use(kept)
        except YotaError as error:
            assert "trace had ended" in str(error) and "test_tracer.py" in str(error)
        else:
            assert_allclose(result, use(np.full(3, 2.0)))


def test_a_tracer_stored_in_a_global() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x):\n    global last\n    last = x * 2\n    return x * x", namespace)
    for x in (1.0, 2.0, 3.0, 4.0):
        assert grad(namespace["f"], x) == (x * x, (2 * x,))
        try:
            assert namespace["last"] + 1 == 2 * x + 1
        except YotaError as error:
            assert "trace had ended" in str(error)


def test_an_old_tracer_in_a_new_trace() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x * 2)
        return x * kept[0]

    grad(f, 2.0)
    for x in (3.0, 5.0, 7.0):
        try:
            assert grad(f, x) == (4.0 * x, (4.0,))
        except YotaError as error:
            assert "trace had ended" in str(error) and "test_tracer.py" in str(error)


# ----------------------------------------------------------------------------------------- layouts of the arguments


def _layouts(x: np.ndarray) -> list[np.ndarray]:
    big = np.zeros((x.shape[0] * 2, x.shape[1] * 3))
    big[::2, ::3] = x
    readonly = x.copy()
    readonly.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64).reshape(x.shape)
    return [
        np.asfortranarray(x),
        x[::-1][::-1],
        np.ascontiguousarray(x[::-1])[::-1],
        np.ascontiguousarray(x[:, ::-1])[:, ::-1],
        big[::2, ::3],
        readonly,
        unaligned,
        x.astype(">f8"),
        np.ascontiguousarray(x.T).T,
        np.broadcast_to(x[:1], x.shape),
    ]


def test_layouts_of_arguments() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x[0]) + np.sum(x @ x.T) + np.sum(x[:, 1:] * x[:, :-1])

    x = np.linspace(0.1, 2.0, 12).reshape(3, 4)
    for _ in range(3):
        for layout in _layouts(x):
            value, (g,) = grad(f, layout)
            plain = np.array(layout, np.float64, order="C")
            want, (want_g,) = gradtape(f, plain).play(plain)
            assert_allclose(value, want, rtol=1e-12)
            assert_allclose(g, want_g, rtol=1e-12)
            assert g.shape == x.shape and g.dtype.newbyteorder("=") == np.float64
            assert g.flags.c_contiguous and g.flags.writeable


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("kind", [np.matrix, np.ma.array])
def test_array_subclasses_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"test_tracer.py:\d+: the argument x is a .*np.asarray"):
        grad(lambda x: np.sum(x), kind([[1.0, 2.0]]))


def test_integer_and_boolean_arrays_carry_no_derivative() -> None:
    def f(x: Any, i: Any, m: Any) -> Any:
        return np.sum(x[i] * i) + np.sum(x[m]) + np.sum(np.where(m, x, 0))

    x = np.arange(1.0, 4.0)
    for i in ([0, 1], [1, 2], [2, 2], [0, -1], [1, 1, 1]):
        for dtype in (np.int64, np.int32, np.int8):
            for m in ([True, False, True], [False] * 3, [True] * 3):
                index, mask = np.array(i, dtype), np.array(m)
                value, (g, gi, gm) = grad(f, x, index, mask)
                assert value == f(x, index, mask) and gi is None and gm is None
                assert_allclose(g, slope(lambda x: f(x, index, mask), x), rtol=1e-6)  # noqa: B023


# ------------------------------------------------------------------------------------------------------- containers


class Pair(NamedTuple):
    """A named tuple."""

    a: Any
    b: Any


@dataclasses.dataclass
class Params:
    """A dataclass."""

    a: Any
    b: Any


def _by_name(p: Any) -> Any:
    return p.a * np.sum(p.b**2)


def _by_key(p: Any) -> Any:
    return p["a"] * np.sum(p["b"] ** 2)


def _by_index(p: Any) -> Any:
    return p[0] * np.sum(p[1] ** 2)


@pytest.mark.parametrize(
    ("f", "make"),
    [
        (_by_index, lambda a, b: [a, b]),
        (_by_index, lambda a, b: (a, b)),
        (_by_name, Pair),
        (_by_name, Params),
        (_by_key, lambda a, b: {"a": a, "b": b}),
        (_by_key, lambda a, b: collections.OrderedDict(b=b, a=a)),
        (_by_key, lambda a, b: collections.defaultdict(float, {"a": a, "b": b})),
    ],
    ids=["list", "tuple", "namedtuple", "dataclass", "dict", "OrderedDict", "defaultdict"],
)
def test_containers(f: Function, make: Callable[..., Any]) -> None:
    for i in range(4):
        p = make(2.0 + i, np.ones(3))
        value, (g,) = grad(f, p)
        a, b = (g.a, g.b) if f is _by_name else (g["a"], g["b"]) if f is _by_key else g
        assert type(g) is type(p) and value == 3.0 * (2 + i) and a == 3.0 and type(a) is float
        assert_array_equal(b, np.full(3, 2 * (2.0 + i)))


def test_none_and_static_leaves_in_containers() -> None:
    def f(p: Any, q: Any) -> Any:
        return p[0] * 2 + (0 if p[1] is None else p[1] * 3) + q["z"] * 0 * q["i"]

    q = {"z": 1.0, "n": None, "s": "abc", "i": 3, "b": True}
    none = {"z": 0.0, "n": None, "s": None, "i": None, "b": None}
    for _ in range(4):
        assert grad(f, [2.0, None], q) == (4.0, ([2.0, None], none))
        assert grad(f, [2.0, 5.0], q) == (19.0, ([2.0, 3.0], none))
        assert grad(f, [2.0, None], {**q, "i": 7})[0] == 4.0


def test_the_tape_of_a_trace_is_not_the_gradient() -> None:
    tape = trace(lambda x: np.sum(x * x), np.ones(2))
    assert tape.play(np.array([1.0, 2.0])) == 5.0
