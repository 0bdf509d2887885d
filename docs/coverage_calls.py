"""Calls a function as code does, and as a gradient does, and says what becomes of it: for ``make_coverage.py``."""

from __future__ import annotations

import contextlib
import inspect
import io
import math
import signal
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import yota_py
from yota_py.base.types import is_inexact
from yota_py.tape.trees import flatten, unflatten
from yota_py.testing.finite import differences, moved, random_like

YES, NO, REFUSED = "differentiable", "not differentiable", "refused"
SECONDS, ALL_SECONDS = 3.0, 8.0  # of computing, for one call, and for all of a function
STEPS = (1e-4, -1e-4, 1e-5, -1e-5)  # by which arguments are moved


_begun = [0.0]  # when the calls of a function have begun, in seconds of computing


def begin() -> None:
    _begun[0] = time.process_time()


class Late(BaseException):
    """A call has taken too long."""


class UnsuitableError(Exception):
    """The function does not take these arguments, or tells nothing with them."""


def attempt(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    """What the function is, with these arguments; raises ``UnsuitableError`` if that does not tell."""
    flat, spec = flatten((args, kwargs))
    places = [i for i, x in enumerate(flat) if is_inexact(x)]
    takes_function = any(map(inspect.isfunction, flat)) or any(map(inspect.iscode, call.__code__.co_consts))

    def result(*xs: Any, leaving: bool) -> Any:
        full = [x.copy() if isinstance(x, np.ndarray) else x for x in flat]
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        given, keywords = unflatten(spec, full)
        y = call(*given, **keywords)
        return numbers(given if leaving else y)

    def fresh() -> list[Any]:
        return [np.array(flat[i]) if isinstance(flat[i], np.ndarray) else flat[i] for i in places]

    xs = fresh()
    y, leaving = plainly(call, flat, spec)
    zs = [z for z in y if is_inexact(z)]
    rng = np.random.default_rng(1)
    vs = [random_like(x, rng) for x in xs]

    def loss(*xs: Any) -> Any:
        total = 0.0
        for z in result(*xs, leaving=leaving):
            if is_inexact(z):
                weights = np.cos(1.0 + np.arange(math.prod(np.shape(z)))).reshape(np.shape(z))
                total = total + np.sum(np.real(z * (weights + 0.7j if np.iscomplexobj(z) else weights)))
        return total

    def along(h: float) -> Any:
        return loss(*(moved(x, v, h) for x, v in zip(fresh(), vs, strict=True)))

    value = limited(lambda: loss(*fresh())) if zs else 0.0
    if not np.isfinite(value):
        raise UnsuitableError("is not finite")
    try:
        changed = [limited(lambda h=h: along(h)) != value for h in STEPS] if zs and xs else [False]
    except (Exception, Late):
        raise UnsuitableError("does not take other arguments") from None
    if any(changed) and not all(changed):
        raise UnsuitableError("jumps")
    if not any(changed):
        if takes_function:
            raise UnsuitableError("does not tell")
        if not xs:
            return NO, ""
        return (NO, "") if (error := traced(lambda *xs: (result(*xs, leaving=leaving), _one(xs))[1], xs)) is None else (
            REFUSED, _reason(error, takes_function))  # fmt: skip
    try:
        got, dxs = limited(lambda: yota_py.grad(loss, *fresh()))
        slope = sum(float(np.sum(np.real(np.conj(dx) * v))) for dx, v in zip(dxs, vs, strict=True) if dx is not None)
    except (Exception, Late) as error:
        return REFUSED, _reason(error, takes_function)
    try:
        assert_allclose(got, value, rtol=1e-5 if _is_narrow(zs) else 1e-9)
    except AssertionError:
        return REFUSED, "another value than the plain call's"
    try:
        finite = [d for d in limited(lambda: [*differences(along)]) if np.isfinite(d)]
    except (Exception, Late):
        raise UnsuitableError("does not take other arguments") from None
    if not finite or not np.isfinite(slope):
        raise UnsuitableError("is not finite")
    near = min(abs(d - slope) for d in finite)
    if abs(slope) < 1e-7 and near < 1e-7:
        raise UnsuitableError("is flat")
    close = near <= (0.02 if _is_narrow([*zs, *xs]) else 1e-5) * max(abs(slope), 1e-2)
    if close:
        return YES, ""
    if max(finite) - min(finite) > 0.1 * max(map(abs, finite)):
        raise UnsuitableError("jumps")
    return REFUSED, "another slope than that of finite differences"


def plainly(call: Callable[..., Any], flat: list[Any], spec: Any) -> tuple[list[Any], bool]:
    """The numbers that a plain call gives, or leaves in its arguments where it returns nothing, and which it is."""
    outs = []
    for _ in range(2):
        given, keywords = unflatten(spec, [np.array(x) if isinstance(x, np.ndarray) else x for x in flat])
        try:
            y = limited(lambda given=given, keywords=keywords: call(*given, **keywords))
        except Late:
            raise UnsuitableError("takes too long") from None
        except OSError:
            raise UnsuitableError("reads or writes files") from None
        except BaseException as error:
            raise UnsuitableError(type(error).__name__) from None
        leaving = y is None and not _same(flatten((given, keywords))[0], flat)
        outs.append(numbers(given if leaving else y))
    if not outs[0]:
        raise UnsuitableError("returns text" if isinstance(y, str | bytes) else "returns no numbers")
    if not _same(*outs):
        raise UnsuitableError("is random")
    return outs[0], leaving


def numbers(y: Any) -> list[Any]:
    """Arrays and numbers in a result, also in tuples, lists, dicts and sparse matrices."""
    if isinstance(y, bool | int | float | complex):
        return [y]
    if isinstance(y, np.ndarray | np.generic):
        return [y] if y.dtype.kind in "biufc" else []
    if isinstance(y, dict):
        y = list(y.values())
    if isinstance(y, tuple | list | set | frozenset):
        return [z for x in y for z in numbers(x)]
    return numbers(y.toarray()) if hasattr(y, "toarray") else []


def _one(xs: Iterable[Any]) -> Any:
    return sum(np.sum(np.real(x * 1.0)) for x in xs)


def _is_narrow(xs: Iterable[Any]) -> bool:
    return any(getattr(x, "dtype", None) in (np.float16, np.float32, np.complex64) for x in xs)


def _same(xs: list[Any], ys: list[Any]) -> bool:
    def same(x: Any, y: Any) -> bool:
        if isinstance(x, np.ndarray | np.number | int | float | complex):
            x, y = np.asarray(x), np.asarray(y)
            return x.shape == y.shape and bool(np.all((x == y) | (x != x) | (abs(x - y) <= 1e-9 * abs(x)))
                                               if x.dtype.kind in "fc" else np.array_equal(x, y))  # fmt: skip
        return True

    return len(xs) == len(ys) and all(map(same, xs, ys))


def traced(f: Callable[..., Any], xs: list[Any]) -> BaseException | None:
    """What a gradient of ``f`` raises."""
    try:
        limited(lambda: yota_py.grad(f, *xs))
    except (Exception, Late) as error:
        return error
    return None


def _reason(error: BaseException, takes_function: bool) -> str:
    if isinstance(error, Late):
        return "takes too long"
    if isinstance(error, yota_py.errors.LostDerivativeError | yota_py.errors.MissingRuleError):
        return "takes functions" if takes_function else "has no rule"
    return type(error).__name__


def limited(f: Callable[[], Any]) -> Any:
    """What ``f`` gives, quietly and in time."""

    def late(*_: Any) -> None:
        raise Late

    rest = ALL_SECONDS - time.process_time() + _begun[0]
    if rest <= 0:
        raise Late
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, min(rest, SECONDS))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return f()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
