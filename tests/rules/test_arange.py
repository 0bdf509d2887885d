"""``np.arange`` of traced bounds: the length, dtype and values that NumPy gives, for all kinds of numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sets import SEQUENCES

from yota_py import grad, jit, pullback

Kind = Callable[[float], Any]
KINDS: list[Kind] = [float, np.float16, np.float32, np.float64, np.array]


name = operator.attrgetter("__name__")


def same(f: Callable[..., Any], *args: Any, compiled: bool = False) -> None:
    want = f(*args)
    for have in [pullback(f, *args)[0], *([jit(f)(*args)] if compiled else [])]:
        assert (have.dtype, have.shape) == (want.dtype, want.shape), args
        assert_array_equal(have, want, str(args))


@pytest.mark.parametrize("of_first", KINDS, ids=name)
@pytest.mark.parametrize("of_last", KINDS, ids=name)
@pytest.mark.parametrize("of_step", KINDS, ids=name)
def test_all_kinds_of_numbers(of_first: Kind, of_last: Kind, of_step: Kind) -> None:
    kinds = of_first, of_last, of_step
    rng = np.random.default_rng(0)
    for step in (0.1, -0.3) if SEQUENCES or len({*kinds}) == 2 else (0.1,):
        first, last, by = (k(x) for k, x in zip(kinds, (rng.normal(), rng.normal() + 7 * step, step), strict=True))
        same(np.arange, first, last, by)
        same(lambda a: np.arange(a, last, by), first)  # noqa: B023
        same(lambda a: np.arange(first, a, by), last)  # noqa: B023
        same(lambda a: np.arange(first, last, a), by)  # noqa: B023
        same(lambda a: np.arange(3 + a, a, -1), first)
        same(lambda a: np.arange(0, a, by), last)  # noqa: B023


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_that_hang_on_one_rounding(kind: Kind) -> None:
    for k in range(40 if SEQUENCES else 12):
        same(lambda a: np.arange(a, 3 + a), kind(np.random.default_rng(k).normal()))
        same(lambda a: np.arange(0, a, np.float32(0.1)), kind(k / 10))
        same(lambda a: np.arange(0, a, 0.1), kind(k / 10))
        same(lambda a: np.arange(0, k, a), kind(0.7))  # noqa: B023


@pytest.mark.parametrize("f", [
    lambda a: np.arange(a), lambda a: np.arange(stop=a), lambda a: np.arange(a, None, 2),
    lambda a: np.arange(0, stop=a), lambda a: np.arange(start=a, stop=9), lambda a: np.arange(a, 9, step=None),
    lambda a: np.arange(1, 9, step=a), lambda a: np.arange(a, dtype=np.float16), lambda a: np.arange(a, 9, 0.1, "f2"),
    lambda a: np.arange(a, 9, 0.7, np.float32), lambda a: np.arange(a, 9, 1.5, dtype=int),
    lambda a: np.arange(0, a, 0.5, dtype=np.int8), lambda a: np.arange(-1, a - 1, 2, dtype=bool),
    lambda a: np.arange(a, 9, 0.7, dtype=complex), lambda a: np.arange(np.complex128(0), a + np.complex128(2j)),
    lambda a: np.arange(a, a), lambda a: np.arange(a, 0), lambda a: np.arange(0, a, -1),
    lambda a: np.arange(0, a, np.inf), lambda a: np.arange(0, -a, -np.inf), lambda a: np.arange(0, -a, np.inf),
    lambda a: np.arange(np.int8(0), a), lambda a: np.arange(True, a), lambda a: np.arange(-a, np.uint8(3), 0.5),
])  # fmt: skip
@pytest.mark.parametrize("a", [3.5, np.float32(3.3), np.float64(3.0), np.array(2.9, np.float32)])
def test_forms(f: Callable[[Any], Any], a: Any) -> None:
    same(f, a, compiled=True)


def test_what_numpy_refuses() -> None:
    for f in (lambda a: np.arange(0, a, np.nan), lambda a: np.arange(a, np.inf), lambda a: np.arange(0.0, 1.0, a - a)):
        with pytest.raises((ValueError, ZeroDivisionError)) as plain:
            f(2.0)
        with pytest.raises(plain.type, match=str(plain.value)):
            pullback(f, 2.0)


def test_gradients() -> None:
    weights = np.array([1.0, 2.0, 4.0, 8.0])
    for _ in range(3):
        assert grad(lambda a: np.sum(np.arange(a, 3 + a)), np.float32(0.1257302)) == (
            np.sum(np.arange(np.float32(0.1257302), np.float32(3.1257302))), (np.float32(3),))  # fmt: skip
        assert grad(lambda a, b: np.sum(weights * np.arange(a, 4.0, b)), 0.5, 1.0)[1] == (15.0, 34.0)
        assert grad(lambda a: np.sum(weights[:2] * np.arange(a, 1.0, 0.5)), 0.25)[1] == (3.0,)
        assert grad(lambda a: np.sum(np.arange(a, -1.0)) + a, 0.25)[1] == (1.0,)
