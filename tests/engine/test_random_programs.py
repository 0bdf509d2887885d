"""Random programs: their compiled gradients against their tapes; and what they, and scans like them, have found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from programs import Program, programs
from scipy import special
from sets import examples
from ways import CALLS, Ways, agrees, arrays_of, assert_close, check_types, compiled, evaluate

from yota_py import grad

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


# To shrink a failure takes minutes, as every attempt compiles a program: add Phase.shrink by hand.
@settings(max_examples=examples(13, share=10), deadline=None, derandomize=True, database=None,
          suppress_health_check=QUIET, phases=[Phase.generate], report_multiple_bugs=False)  # fmt: skip
@given(programs())
def test_random_programs(f: Program) -> None:
    ways, seeds = compiled(f, *f.draw(0))
    with np.errstate(all="ignore"):
        scalar = Ways.of(f.total, f.draw(0))  # with a seed that is known: one
        check_types(scalar.lowered, scalar.fit(f.draw(0)))
        check_types(ways.lowered, ways.fit([*f.draw(0), *seeds]))
    kept: list[list[Any]] = []
    for call in range(CALLS):
        evaluate(scalar, scalar.fit(f.draw(call)), f.rtol)
        inputs = ways.fit([*f.draw(call), *seeds])
        before = [np.array(x) for x in inputs]
        results = evaluate(ways, inputs, f.rtol)
        assert all(np.array_equal(a, b) for a, b in zip(inputs, before, strict=True)), "an input has changed"
        arrays = arrays_of(results)
        for i, x in enumerate(arrays):
            assert x.flags.c_contiguous and x.flags.writeable and x.flags.aligned
            others = [*inputs, *arrays[:i], *(y for earlier in kept for y in arrays_of(earlier))]
            assert not any(np.shares_memory(x, y) for y in others if isinstance(y, np.ndarray)), "not fresh"
        copies = [np.array(x) for x in arrays]
        ways.program(*ways.fit([*f.draw(call + 7), *seeds]))
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(arrays, copies, strict=True)), "overwritten"
        kept.append(results)


FOUND: dict[str, tuple[Any, ...]] = {
    "element of a reduction": (lambda x: np.sum(np.max(x)[None] * np.min(x)[..., None] * np.sum(x)[()]), np.ones(3)),
    "cumsum of a 0-d array": (lambda x: np.cumsum(x, 0)[0], np.array(2.0)),
    "take from a 0-d array": (lambda x: np.sum(np.take(x, np.array([0, 0]), 0)), np.array(2.0)),
    "einsum of integers": (lambda x, k: np.sum(np.einsum("i,i->i", x, k)), np.ones(1), np.arange(4)),
    "einsum of booleans": (lambda x, m: np.sum(np.einsum("ji,ji->j", m, x)), np.ones((2, 3)), np.ones((2, 3), bool)),
    "outer product with integers": (lambda x, k: np.sum(np.outer(x, k)), np.ones(3), np.arange(3)),
    "powers of integers": (lambda x, k: np.sum(x * k**2.0), np.ones(3), np.array([1, 2, 2**40])),
    "powers of bytes": (lambda x, k: np.sum(x * k**2.0), np.ones(3), np.array([1, 2, 200], np.uint8)),
    "roots of bytes": (lambda x, k: np.sum(x * k**0.5), np.ones(3), np.array([1, 2, 200], np.uint8)),
    "negative bytes": (lambda x, k: np.sum(x * (k * -1.0)), np.ones(3), np.array([1, 2, 200], np.uint8)),
    "squares of halves": (lambda x, h: np.sum(x * h ** np.float64(2)), np.ones(3), np.array([1, 2, 300], np.float16)),
    "negative booleans": (lambda x, m: np.sum(x * (m * -1)), np.ones(3), np.array([True, False, True])),
    "a broadcast number": (lambda x, s: np.sum(np.broadcast_to(s, (3,)) * x), np.ones(3, np.float32) / 3, 1e-9),
    "minus a product": (lambda a, x: -np.sum(a * x), np.arange(12.0).reshape(4, 3), np.ones(3)),
    "minus a product of halves": (lambda a, x: -np.sum(a * x), np.ones((4, 3), np.float16), np.ones(3, np.float16)),
    "a row minus products": (lambda a, x: np.sum(x - a / x), np.arange(12.0).reshape(4, 3), np.ones(3)),
    "the same of halves": (lambda x, s: np.sum(np.broadcast_to(s, (3,)) * x), np.ones(3, np.float16) / 3, 1e-9),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_found_by_random_programs(name: str) -> None:
    """Each was wrong once: in the lowered tape, or from the third call on, when the program takes over."""
    f, *args = FOUND[name]
    with np.errstate(all="ignore"):
        agrees(f, tuple(args), rtol=1e-7)
        ways = Ways.of(f, tuple(args))
        check_types(ways.lowered, ways.fit(args))
        evaluate(ways, ways.fit(args), 1e-3 if "halves" in name else 1e-7)
        first, *later = (grad(f, *args) for _ in range(CALLS))
    for value, grads in later:
        for a, b in zip([value, *grads], [first[0], *first[1]], strict=True):
            assert_close(a, b, "a later call", 1e-7)


SMALL = {
    "uint8": [3, 100, 200], "int8": [3, 100, 120], "int16": [3, 200, 30000], "int32": [3, 70000, 2**30],
    "bool": [1, 0, 1],
}  # fmt: skip
OF_TWO = [
    np.add, np.subtract, np.multiply, np.divide, np.power, np.arctan2, np.hypot, np.maximum, np.minimum, np.remainder,
    np.fmod, np.logaddexp, np.copysign, np.heaviside, np.outer, special.xlogy, special.xlog1py,
]  # fmt: skip


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.parametrize("fn", OF_TWO)
def test_integer_arguments_count_as_numbers(fn: Any, dtype: str) -> None:
    """The gradient beside an integer argument is that beside the same floats: nothing wraps, nothing is rounded."""
    x, k = np.array([0.7, 1.3, 2.2]), np.array(SMALL[dtype], dtype)
    for f in (lambda x, k: np.sum(fn(x, k) * 1.7), lambda x, k: np.sum(fn(k, x) * 1.7)):
        with np.errstate(all="ignore"):
            if f(x, k) != f(x, k.astype(float)):  # NumPy itself computes something else, in half precision
                continue
            want = grad(f, x, k.astype(float))[1][0]
            for _ in range(CALLS):
                assert np.allclose(grad(f, x, k)[1][0], want, rtol=1e-12, atol=0, equal_nan=True)
