"""What is refused on a traced value, in functions that catch exceptions: plain NumPy raises none there."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import datetime
import decimal
import fractions
import json
import math
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
from steps import runs_as_plain

from yota_py import grad, jit
from yota_py.cache.functions import clear_caches
from yota_py.errors import YotaError

READS: dict[str, Callable[[Any], Any]] = {
    "strides": lambda a: a.strides,
    "base": lambda a: a.base is None,
    "flags": lambda a: a.flags.writeable,
    "view": lambda a: a.view(),
    "data": lambda a: len(a.data),
    "ctypes": lambda a: a.ctypes.data != 0,
    "tobytes": lambda a: a.tobytes(),
    "hasattr": lambda a: (hasattr(a, "strides"), hasattr(a, "flat"), getattr(a, "itemsize", 5), hasattr(a, "no")),
    "shape": lambda a: setattr(a, "shape", (2, 1)),
    "a real part": lambda a: np.add.at(a.real, [0, 0], 1.0),
    "as_strided": lambda a: np.lib.stride_tricks.as_strided(a, (2,)).sum(),
    "resize": lambda a: a.resize((1,), refcheck=False),
    "a method": lambda a: a.byteswap().sum() != 0,
    "unknown function": lambda a: np.i0(a),
}


def numbers(i: int) -> tuple[Any, ...]:
    return (np.array([0.5, 1.5]) + i,)


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("how", ["except", "suppress"])
def test_steps_that_catch(name: str, how: str, every_policy: None) -> None:
    read = READS[name]

    def make() -> Any:
        log: list[str] = []

        def step(a: Any) -> Any:
            log.append("begins")
            answer: Any = "nothing"
            if how == "suppress":
                with contextlib.suppress(Exception):
                    answer = read(a)
            else:
                try:
                    answer = read(a)
                except Exception as error:  # any: it is what these tests are about
                    log.append(type(error).__name__)
            return np.array(answer) if isinstance(answer, np.ndarray) else answer, a * 2.0

        return step, numbers, lambda: log

    runs_as_plain(make, 5)


@pytest.mark.parametrize("name", ["strides", "flags", "hasattr", "shape", "data"])
def test_gradients_of_functions_that_catch(name: str) -> None:
    """The refusal itself comes out, and not the derivative of another branch."""

    def f(a: Any) -> Any:
        b, factor = a * 1.0, 2.0
        try:
            READS[name](b)
        except Exception:  # any: it is what these tests are about
            factor = 3.0
        return np.sum(b * factor)

    for i in range(3):
        try:
            value, (slope,) = grad(f, *numbers(i))
        except YotaError:
            continue
        assert value == f(*numbers(i))
        np.testing.assert_array_equal(slope, [2.0, 2.0])


def test_another_error_after_a_refusal() -> None:
    def f(a: Any) -> Any:
        try:
            return len(a.data)
        except Exception:  # any: it is what these tests are about
            raise ValueError("no memory") from None

    with pytest.raises(YotaError, match=r"x\.data"):
        grad(f, np.ones(2))
    compiled = jit(f)
    for _ in range(3):
        assert compiled(np.ones(2)) == 2


def test_errors_of_gradients_inside_are_the_functions_own() -> None:
    """Plain calls raise them as well."""

    def f(a: Any) -> Any:
        try:
            return grad(lambda x: x * 2.0, a)  # of an array: not a scalar
        except YotaError as error:
            return type(error).__name__

    def g(a: Any) -> Any:
        try:
            return grad(lambda x: np.sum(np.i0(x)), a)
        except YotaError as error:
            return type(error).__name__

    for step in (f, g):
        compiled = jit(step)
        for i in range(4):
            assert repr(compiled(*numbers(i))) == repr(step(*numbers(i)))


@pytest.mark.parametrize("value", [0.5, np.array([0.5, 0.25]), 1j, np.ones(3)])
def test_casts_in_place_raise_what_numpy_raises(value: Any, every_policy: None) -> None:
    def make() -> Any:
        def step(a: Any, log: Any) -> Any:
            try:
                a += value
            except np._core._exceptions.UFuncTypeError as error:  # type: ignore[attr-defined]
                log.append(("cast", str(error)))
            except ValueError as error:
                log.append(("shape", str(error)))
            return copy.copy(log), a

        return step, lambda i: (np.arange(2) + i, []), lambda: None

    runs_as_plain(make, 4)


FED: dict[str, Callable[[Any], Any]] = {
    "json.dumps": lambda x: json.dumps({"loss": [x]}),
    "Decimal": lambda x: decimal.Decimal(x),
    "a class of Decimal": lambda x: decimal.Decimal.from_float(x),
    "statistics.mean": lambda x: statistics.mean([x, 2.0]),
    "statistics.fmean": lambda x: statistics.fmean([x, 2.0]),
    "timedelta": lambda x: datetime.timedelta(seconds=x),
    "fromtimestamp": lambda x: datetime.datetime.fromtimestamp(x, datetime.UTC),
    "float.hex": lambda x: float.hex(x),
    "float.__add__": lambda x: float.__add__(x, 1.0),
    "from_float": lambda x: fractions.Fraction.from_float(x),
    "objects": lambda x: np.array([x, None], dtype=object),
    "nditer": lambda x: list(np.nditer(np.ones(2) * x)),
    "ndarray.sum": lambda x: np.ndarray.sum(np.ones(2) * x),
    "dlpack": lambda x: np.from_dlpack(np.ones(2) * x),
    "memoryview": lambda x: memoryview(np.ones(2) * x),
    "frombuffer": lambda x: np.frombuffer(np.ones(2) * x),
    "brentq": lambda x: scipy.optimize.brentq(lambda t: t - x, 0.0, 10.0),
    "a form of a matrix": lambda x: scipy.linalg.hessenberg(np.eye(2) * x),
}
with contextlib.suppress(ImportError):
    import torch

    FED["a tensor"] = lambda x: torch.tensor([x, 1.0])


def _caught(read: Callable[[Any], Any], how: str) -> Callable[[Any], Any]:
    def handled(x: Any) -> Any:
        try:
            read(x)
        except Exception:  # any: it is what these tests are about
            return x * 3.0
        return x * 2.0

    def suppressed(x: Any) -> Any:
        factor = 3.0
        with contextlib.suppress(Exception):
            read(x)
            factor = 2.0
        return x * factor

    def further_out(x: Any) -> Any:
        def inner(x: Any) -> Any:
            return read(x)

        try:
            inner(x)
        except Exception:  # any: it is what these tests are about
            return x * 3.0
        return x * 2.0

    def left(x: Any) -> Any:
        try:
            read(x)
            return x * 2.0
        finally:
            x = x * 3.0

    def generated(x: Any) -> Any:
        def factors() -> Any:
            try:
                yield read(x)
            except Exception:  # any: it is what these tests are about
                yield 3.0
                return
            yield 2.0

        return x * list(factors())[-1]

    return {f.__name__: f for f in (handled, suppressed, further_out, left, generated)}[how]


@pytest.mark.parametrize("how", ["handled", "suppressed", "further_out", "left", "generated"])
@pytest.mark.parametrize("name", FED)
def test_exceptions_that_plain_numbers_do_not_raise(name: str, how: str, every_policy: None) -> None:
    """Libraries that know nothing of traced values raise them; a gradient is refused, a step is called as it is."""
    f = _caught(FED[name], how)
    for x in (2.0, 3.0, 4.0):
        assert f(x) == x * 2.0
        with pytest.raises(YotaError):
            grad(f, x)
    step = jit(f)
    assert [step(x) for x in (2.0, 3.0, 4.0, 2.0)] == [4.0, 6.0, 8.0, 4.0]


def printed(frame: Any, event: str, arg: Any) -> Any:
    """A debugger's, which follows everything."""
    return printed


def unfollowing(frame: Any, event: str, arg: Any) -> None:
    """A debugger's, which follows nothing."""


CALLBACKS: dict[str, Callable[[Any], Any]] = {
    "brentq": lambda x: scipy.optimize.brentq(lambda t: t - x, 0.0, 10.0),
    "bisect": lambda x: scipy.optimize.bisect(lambda t: float(t - x), 0.0, 10.0),
    "quad": lambda x: scipy.integrate.quad(lambda t: t * x, 0.0, 1.0),
    "quad of floats": lambda x: scipy.integrate.quad(lambda t: float(t * x), 0.0, 1.0),
    "dblquad": lambda x: scipy.integrate.dblquad(lambda y, t: x * y * t, 0.0, 1.0, 0.0, 1.0),
    "fsolve": lambda x: scipy.optimize.fsolve(lambda t: t - x, 0.5),
    "leastsq": lambda x: scipy.optimize.leastsq(lambda p: p - x, np.ones(1)),
    "odeint": lambda x: scipy.integrate.odeint(lambda y, t: -x * y, 1.0, [0.0, 1.0]),
    "solve_ivp": lambda x: scipy.integrate.solve_ivp(lambda t, y: -x * y, (0.0, 1.0), [1.0]),
    "minimize": lambda x: scipy.optimize.minimize(lambda p: np.sum((p - x) ** 2), np.ones(1)),
    "a callback of C": lambda x: ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda t: t * x)(2.0),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("tracing", [None, printed, unfollowing])
@pytest.mark.parametrize("how", ["handled", "further_out", "generated", "left"])
@pytest.mark.parametrize("name", CALLBACKS)
def test_errors_that_compiled_routines_swallow_or_replace(name: str, how: str, tracing: Any) -> None:
    """They raise another error in the place of the refusal that their callback was given, or none at all."""
    f, before = _caught(CALLBACKS[name], how), sys.gettrace()
    step = jit(f)
    sys.settrace(tracing)
    try:
        for x in (2.0, 3.0, 4.0):
            with pytest.raises(YotaError):
                grad(f, x)
        assert [step(x) for x in (2.0, 3.0, 4.0, 2.0)] == [4.0, 6.0, 8.0, 4.0]
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("name", [name for name in ("json.dumps", "timedelta", "a tensor") if name in FED])
@pytest.mark.parametrize("tracing", [printed, unfollowing])
def test_exceptions_of_libraries_are_heard_of_under_a_debugger(name: str, tracing: Any) -> None:
    f, before = _caught(FED[name], "handled"), sys.gettrace()
    sys.settrace(tracing)
    try:
        for x in (2.0, 3.0, 4.0):
            with pytest.raises(YotaError):
                grad(f, x)
    finally:
        sys.settrace(before)


OWN: dict[str, Callable[[Any], Any]] = {
    "a shape": lambda x: np.reshape(np.ones(3) * x, (2, 2)),
    "a matrix": lambda x: np.linalg.cholesky(-x * np.eye(2)),
    "its own": lambda x: (_ for _ in ()).throw(TypeError(f"{x > 0}")),
    "a division": lambda x: x / 0.0,
    "math.log": lambda x: math.log(-x),
    "an item": lambda x: x[0],
    "a key": lambda x: {1.0: x}[2.0],
    "an attribute": lambda x: x.fit(),
    "None": lambda x: x + None,
    "a length": lambda x: len(x),
    "a list": lambda x: [1.0].index(x),
    "json.loads": lambda x: json.loads("[1"),
    "a C function": lambda x: math.comb(5, x),
}


@pytest.mark.parametrize("how", ["handled", "further_out", "generated"])
@pytest.mark.parametrize("name", OWN)
def test_exceptions_that_plain_numbers_raise_as_well(name: str, how: str, every_policy: None) -> None:
    f = _caught(OWN[name], how)
    step = jit(f)
    for x in (2.0, 3.0, 4.0):
        value, (slope,) = grad(f, x)
        assert (value, slope) == (f(x), 3.0)
        assert step(x) == f(x)


def test_trace_functions_are_left_as_they_were() -> None:
    seen: list[str] = []

    def tracing(frame: Any, event: str, arg: Any) -> None:
        seen.append(frame.f_code.co_name)

    before = sys.gettrace()
    for of_users in (None, tracing):

        def handled(x: Any) -> Any:
            with contextlib.suppress(ValueError):
                return np.sum(x * 2.0)

        clear_caches()
        sys.settrace(of_users)
        try:
            grad(handled, np.ones(3))
            assert sys.gettrace() is of_users
        finally:
            sys.settrace(before)
    assert "handled" in seen
