"""Each message names what happened, the user's own line, and a way out; and a refused call changes nothing."""

from __future__ import annotations

import math
import pickle
import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from numpy.testing import assert_array_equal
from registered import own_rules

from yota_py import errors, explain, grad, gradtape, nondiff, primitive, pullback, rrule, value_and_grad

X = np.arange(3.0)
HERE = r"^test_errors.py:\d+: "


def without_rule(x: Any) -> Any:
    return scipy.special.mathieu_a(x, 0.5)


@primitive
def too_few(x: Any, y: Any) -> Any:
    """Its rule forgets an argument."""
    return x * y


@primitive
def wrong_shape(x: Any) -> Any:
    """Its rule gives a number for an array."""
    return np.sum(x)


@primitive
def no_pullback(x: Any) -> Any:
    """Its rule returns the value alone."""
    return x * 2


@primitive
def fails_backwards(x: Any) -> Any:
    """Its pullback raises."""
    return x * 2


@pytest.fixture(autouse=True, scope="module")
def _rules() -> Any:
    """Rules that are wrong, each in its own way, for the time of these tests."""

    def backwards(dy: Any) -> Any:
        raise ValueError("inside the rule")

    with own_rules():
        rrule(too_few)(lambda x, y: (x * y, lambda dy: (dy * y,)))
        rrule(wrong_shape)(lambda x: (np.sum(x), lambda dy: (dy,)))
        rrule(no_pullback)(lambda x: x * 2)
        rrule(fails_backwards)(lambda x: (x * 2, backwards))
        yield


def message(error: type[Exception], call: Callable[[], Any]) -> str:
    """The text of the error that a call raises, the same at each of three tries."""
    texts = []
    for _ in range(3):
        with pytest.raises(error) as caught:
            call()
        texts.append(str(caught.value))
    assert texts[0] == texts[1] == texts[2]
    return texts[0]


# what happens, the error, the call, and what its message must say besides the line
CASES: dict[str, tuple[type[Exception], Callable[[], Any], list[str]]] = {
    "array output": (
        errors.NonScalarOutputError,
        lambda: grad(lambda x: x * 2, X),
        [r"float64\[3\]", "seed=", "np.sum", r"\(3,\)"],
    ),
    "complex output": (
        errors.NonScalarOutputError,
        lambda: grad(lambda x: x * 2j, 2.0),
        ["a complex number", "real scalar", "seed="],
    ),
    "several outputs": (
        errors.NonScalarOutputError,
        lambda: grad(lambda x: (x, x), 2.0),
        ["2 values", "seed=", "has_aux"],
    ),
    "no outputs": (errors.NonScalarOutputError, lambda: grad(lambda x: (), 2.0), ["0 values"]),
    "array from value_and_grad": (
        errors.NonScalarOutputError,
        lambda: value_and_grad(lambda x: x)(X),
        [r"float64\[3\]", "np.sum"],
    ),
    "integer argument": (errors.NotDifferentiableError, lambda: grad(lambda x: x * 2, 2), ["2.0, not 2", "<lambda>"]),
    "integer array": (errors.NotDifferentiableError, lambda: grad(np.sum, np.arange(3)), ["2.0, not 2", "sum"]),
    "text argument": (
        errors.NotDifferentiableError,
        lambda: grad(lambda x: 1.0, "a"),
        ["floats, complex numbers and arrays"],
    ),
    "no argument": (errors.NotDifferentiableError, lambda: grad(lambda: 2.0), ["no argument"]),
    "keywords only": (errors.NotDifferentiableError, lambda: grad(lambda x=1.0: x * 2, x=2.0), ["keyword|position"]),
    "integer to pullback": (errors.NotDifferentiableError, lambda: pullback(lambda x: x, 2), ["2.0, not 2"]),
    "None returned": (
        errors.OutputError,
        lambda: grad(lambda x: None, 2.0),
        ["None", "forgot|without a return|Return "],
    ),
    "text returned": (errors.OutputError, lambda: grad(lambda x: "abc", 2.0), ["str", "number"]),
    "function returned": (errors.OutputError, lambda: grad(lambda x: print, 2.0), ["function", "number"]),
    "set returned": (errors.OutputError, lambda: grad(lambda x: {x}, 2.0), ["set", "number"]),
    "generator returned": (errors.OutputError, lambda: grad(lambda x: (v for v in [x]), 2.0), ["generator", "number"]),
    "has_aux without a pair": (
        errors.OutputError,
        lambda: value_and_grad(lambda x: x, has_aux=True)(2.0),
        [r"\(value, aux\)"],
    ),
    "seed of another shape": (
        errors.SeedError,
        lambda: grad(lambda x: x, X, seed=np.ones(2)),
        [r"float64\[2\]", r"float64\[3\]", r"\(3,\)"],
    ),
    "complex seed": (errors.SeedError, lambda: grad(lambda x: x, X, seed=X * 1j), ["complex", "real"]),
    "seed to pullback": (
        errors.SeedError,
        lambda: pullback(lambda x: x, X)[1](np.ones(2)),
        [r"float64\[2\]", r"float64\[3\]"],
    ),
    "seed of another structure": (
        errors.SeedError,
        lambda: grad(lambda x: (x, x), 2.0, seed=[1.0]),
        ["structure", "<lambda>"],
    ),
    "float(x)": (
        errors.LostDerivativeError,
        lambda: grad(lambda x: float(x) * 2, 2.0),
        [r"float\(x\)", "derivative", "Instead"],
    ),
    "float of an element": (
        errors.LostDerivativeError,
        lambda: grad(lambda x: float(x[0]), X),
        [r"float\(x\)", "derivative", "Instead"],
    ),
    "complex(x)": (
        errors.LostDerivativeError,
        lambda: grad(lambda x: abs(next(map(complex, [x]))), 2j),
        [r"complex\(x\)", "0j"],
    ),
    "pickle": (
        errors.LostDerivativeError,
        lambda: grad(lambda x: len(pickle.dumps(x)) * 1.0, X),
        ["pickling", "Instead"],
    ),
    "object array": (
        errors.LostDerivativeError,
        lambda: grad(np.sum, np.array([1.0], object)),
        ["dtype=object", "numeric array"],
    ),
    "C code": (
        errors.LostDerivativeError,
        lambda: grad(lambda x: scipy.linalg.hessenberg(np.eye(2) * x)[0, 0], 2.0),
        ["hessenberg", "derivative"],
    ),
    "no rule": (
        errors.MissingRuleError,
        lambda: grad(lambda x: without_rule(x), 2.0),
        ["scipy.special.mathieu_a", "rrule", "nondiff", "rewrite"],
    ),
    "no rule for NumPy's": (
        errors.MissingRuleError,
        lambda: grad(lambda x: len(np.array2string(x)) * x[0], X),
        ["numpy.array2string", "rrule", "nondiff"],
    ),
    "no rule for a method": (errors.MissingRuleError, lambda: grad(lambda x: x.resize(1), X), ["x.resize", "Rewrite"]),
    "no rule for an option": (
        errors.MissingRuleError,
        lambda: grad(lambda x: np.einsum("i,i->", x, x, casting="safe"), X),
        ["einsum", "casting", "Rewrite"],
    ),
    "attribute set": (errors.MissingRuleError, lambda: grad(lambda x: setattr(x, "dtype", int), X), ["x.dtype"]),
    "too few cotangents": (
        errors.RuleError,
        lambda: grad(lambda x: too_few(x, 3.0), 2.0),
        ["too_few", "2 here"],
    ),
    "cotangent of another shape": (
        errors.RuleError,
        lambda: grad(lambda x: wrong_shape(x), X),
        ["wrong_shape", r"float64\[3\]", "unbroadcast"],
    ),
    "rule without pullback": (
        errors.RuleError,
        lambda: grad(lambda x: no_pullback(x), 2.0),
        ["no_pullback", r"\(y, pullback\)", "float"],
    ),
    "write to a captured array": (
        errors.MutationError,
        lambda: grad(_writes, 2.0),
        ["reads from elsewhere", r"x.copy\(\)"],
    ),
    "out= a captured array": (
        errors.MutationError,
        lambda: grad(lambda z: np.sum(np.multiply(z, X, out=X)), 2.0),
        [r"copy\(\)|f\(x\)"],
    ),
    "masked array": (
        TypeError,
        lambda: grad(lambda x: np.sum(x), np.ma.array(X)),
        ["argument x", "MaskedArray", "np.asarray"],
    ),
    "masked output": (
        errors.OutputError,
        lambda: grad(lambda x: x * np.ma.array(X, mask=X == 1), np.ones(3), seed=np.ones(3)),
        ["masked elements", "filled"],
    ),
    "masked constant output": (
        errors.OutputError,
        lambda: grad(lambda x: np.ma.masked, np.ones(3)),
        ["masked elements", "filled"],
    ),
    "masked operand": (
        errors.LostDerivativeError,
        lambda: grad(lambda x: np.sum(x[0] * np.ma.masked), np.ones(3)),
        ["MaskedConstant", "Compute with its numbers"],
    ),
    "not a function": (TypeError, lambda: grad(2.0, 2.0), ["function to differentiate", "float"]),  # type: ignore[arg-type]
    "argnums": (TypeError, lambda: value_and_grad(lambda x: x, 2)(1.0), ["argnums=2", "1 positional"]),
}


def _writes(z: Any) -> Any:
    X[0] = z
    return np.sum(X)


@pytest.mark.parametrize("name", CASES)
def test_messages(name: str) -> None:
    error, call, wanted = CASES[name]
    text = message(error, call)
    assert re.match(HERE, text), f"no line of the user: {text}"
    for pattern in wanted:
        assert re.search(pattern, text), f"{pattern!r} is not in: {text}"
    assert len(text) < 900 and "0x" not in text and "ArrayBox" not in text and "typing" not in text
    assert_array_equal(X, np.arange(3.0))


@pytest.mark.parametrize("name", [n for n in CASES if issubclass(CASES[n][0], errors.YotaError)])
def test_errors_are_also_pythons_own_kinds(name: str) -> None:
    error = CASES[name][0]
    assert issubclass(error, TypeError | ValueError | NotImplementedError | RuntimeError | AssertionError)


def test_the_line_is_that_of_the_operation() -> None:
    def helper(y: Any) -> Any:
        z = y + 1
        return without_rule(z)

    def f(x: Any) -> Any:
        y = x * 2
        return helper(y)

    line = without_rule.__code__.co_firstlineno + 1
    assert message(errors.MissingRuleError, lambda: grad(f, 2.0)).startswith(f"test_errors.py:{line}: ")
    assert message(errors.MissingRuleError, lambda: gradtape(f, 2.0)).startswith(f"test_errors.py:{line}: ")


def test_an_integer_output_is_not_told_to_be_summed() -> None:
    for f in (lambda x: 3, lambda x: x > 1, lambda x: np.int64(3), lambda x: int(x)):
        text = message(errors.YotaError, lambda f=f: grad(f, 2.0))
        assert "np.sum" not in text and re.search("integer|bool|no derivative", text)


def test_the_signature_of_a_private_rule_is_readable() -> None:
    text = message(*CASES["no rule for an option"][:2])
    assert "'Any'" not in text and "Callable" not in text


# ---------------------------------------------------------------------------------- NumPy's and Python's own errors

OWN: dict[str, tuple[type[Exception], Callable[[Any], Any], str]] = {
    "matmul": (ValueError, lambda x: np.sum(x @ np.ones((2, 2))), "size 2 is different from 3"),
    "broadcasting": (
        ValueError,
        lambda x: np.sum(x + np.ones(2)),
        r"could not be broadcast together with shapes \(3,\) \(2,\)",
    ),
    "reshape": (ValueError, lambda x: np.sum(x.reshape(2, 2)), r"cannot reshape array of size 3 into shape \(2,\s?2\)"),
    "axis": (np.exceptions.AxisError, lambda x: np.sum(x, axis=1), "axis 1 is out of bounds"),
    "index": (IndexError, lambda x: x[7], "index 7 is out of bounds for axis 0 with size 3"),
    "concatenate": (ValueError, lambda x: np.sum(np.concatenate([x, np.ones((2, 2))])), "same number of dimensions"),
    "einsum": (ValueError, lambda x: np.einsum("ij->", x), "einstein sum|subscripts"),
    "truth": (ValueError, lambda x: np.sum(x) if x > 1 else 0.0, "truth value of an array with more than one element"),
    "attribute": (AttributeError, lambda x: x.foo, "'(numpy.)?ndarray' object has no attribute 'foo'"),
    "slice bound": (TypeError, lambda x: np.sum(x[: x[0]]), "integer"),
    "singular": (np.linalg.LinAlgError, lambda x: np.sum(np.linalg.inv(np.outer(x, x))), "Singular matrix"),
    "own": (KeyError, lambda x: {"a": x}["b"], "b"),
    "assertion": (AssertionError, lambda x: _asserts(x), "user's text"),
}


def _asserts(x: Any) -> Any:
    assert x.shape == (4,), "user's text"
    return x


@pytest.mark.parametrize("name", OWN)
def test_errors_inside_the_function_are_numpys_own_at_the_users_line(name: str) -> None:
    error, f, text = OWN[name]
    for _ in range(3):
        with pytest.raises(error, match=text) as caught:
            grad(f, X)
        frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == __file__]
        assert frames[-1].lineno in (f.__code__.co_firstlineno, _asserts.__code__.co_firstlineno + 1)
    with pytest.raises(error, match=text):
        f(X)


NUMBERS: dict[str, tuple[type[Exception], Callable[[Any], Any], str]] = {
    "attribute": (AttributeError, lambda x: x.sum(), "'float' object has no attribute 'sum'"),
    "iteration": (TypeError, lambda x: sum(v for v in x), "not iterable"),
    "len": (TypeError, lambda x: len(x) * x, r"has no len\(\)"),
    "call": (TypeError, lambda x: x(2), "not callable"),
    "list index": (TypeError, lambda x: [1, 2][x], "integer|indices"),
    "range": (TypeError, lambda x: sum(range(x)), "integer"),
    "adding None": (TypeError, lambda x: x + None, "unsupported operand"),
    "adding text": (TypeError, lambda x: x + "a", "unsupported operand"),
    "index": (TypeError, lambda x: x[0], "not subscriptable|no attribute"),
    "division": (ZeroDivisionError, lambda x: 1 / (x - 2.0), "division by zero"),
    "domain": (ValueError, lambda x: math.log(-x), "math domain error|expected a positive input"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_errors_of_python_numbers(name: str) -> None:
    error, f, text = NUMBERS[name]
    with pytest.raises(error):
        f(2.0)
    for _ in range(3):
        with pytest.raises(error, match=text):
            grad(f, 2.0)


def test_an_error_inside_a_rule_comes_through() -> None:
    for _ in range(3):
        with pytest.raises(ValueError, match="inside the rule"):
            grad(lambda x: fails_backwards(x), 2.0)


# ------------------------------------------------------------------------------------- what is left after an error


def test_refused_calls_leave_no_entries_and_no_changes() -> None:
    def f(x: Any, mode: str) -> Any:
        if mode == "float":
            return float(x[0])
        if mode == "rule":
            return without_rule(x)
        if mode == "shape":
            return x @ np.ones((2, 2))
        if mode == "vector":
            return x
        return np.sum(x * x)

    x = np.arange(3.0)
    for mode in ("float", "rule", "shape", "vector") * 3:
        with pytest.raises((errors.YotaError, ValueError)):
            grad(f, x, mode)
        value, (g, _) = grad(f, x, "good")
        assert value == 5.0
        assert_array_equal(g, 2 * x)
        assert_array_equal(x, np.arange(3.0))
    (told,) = explain(f)
    assert [entry.paths for entry in told.entries] == [1] and told.entries[0].calls == 11


def test_nondiff_and_rrule_are_ways_out() -> None:
    @primitive
    def steps(x: Any) -> Any:
        return np.floor(x) * 1.0

    @primitive
    def cube(x: Any) -> Any:
        return x * x * x

    assert grad(lambda x: steps(x) * x + cube(x), 2.5)[1][0] == 2.0 + 3 * 2.5**2  # those of their bodies
    nondiff(steps)
    rrule(cube)(lambda x: (cube(x), lambda dy: (dy * 3 * x * x,)))
    for x in (2.5, 3.5, 0.5, -1.5):
        value, (g,) = grad(lambda x: steps(x) * x + cube(x), x)
        assert (value, g) == (math.floor(x) * x + x**3, math.floor(x) + 3 * x * x)
