"""Discrete convolution and correlation, sums of weights in bins, and choices between arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry.registry import Case, Sample, case, rrule, vjps
from yota_py.registry.tangents import unbroadcast

from .indices import getitem, unindex
from .joining import parts_of
from .support import Pullback, operand, shape_of

_MODES = {0: "valid", 1: "same", 2: "full", "v": "valid", "s": "same", "f": "full"}


def _pair_cases(s: Sample) -> Iterable[Case]:
    for n, m in ((5, 3), (2, 5), (4, 4), (1, 3), (5, 2)):
        yield from (case(s(n), s(m), mode) for mode in ("full", "same", "valid"))
    yield from (case(s(4, dtype=complex), s(3), "same"), case(s(2), s(4, dtype=complex), "full"))
    yield from (case(s(4, dtype=complex), s(3, dtype=complex), mode="valid"), case(s(3, dtype=np.float32), s(2)))
    yield from (case(s(6)[::2], s(4)[::-1], "full"), case(s(3, dtype=np.float32), s(2, dtype=np.float32), "same"))


def _whole(dy: Any, a: Any, v: Any, mode: Any, turned: bool) -> Any:
    """The cotangent with zeros for what the mode leaves out; ``turned`` ones are reversed if the first is shorter."""
    n, m = shape_of(a)[0], shape_of(v)[0]
    short = min(n, m)
    mode = _MODES.get(mode, mode)
    start = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    length = shape_of(dy)[0]
    if turned and n < m:
        start = n + m - 1 - length - start
    return unindex(dy, (slice(start, start + length),), (n + m - 1,)) if length != n + m - 1 else dy


def _pair(fn: Any, of_first: Any, of_second: Any, default: str) -> None:
    """A function of two sequences: the formulas take the cotangent of mode "full" and the other sequence."""
    turned = fn is np.correlate

    def formula(of_one: Any) -> Any:
        def wanted(dy: Any, y: Any, a: Any, v: Any, mode: Any = default) -> Any:
            a, v = (np.atleast_1d(operand(x)) for x in (a, v))  # numbers count as sequences of one
            return of_one(_whole(dy, a, v, mode, turned), a, v)

        return wanted

    vjps(fn, formula(of_first), formula(of_second), cases=_pair_cases)


_pair(np.convolve, lambda dy, a, v: np.correlate(dy, v, "valid"), lambda dy, a, v: np.correlate(dy, a, "valid"), "full")
_pair(np.correlate, lambda dy, a, v: np.convolve(dy, v, "valid"), lambda dy, a, v: np.correlate(a, dy, "valid"),
      "valid")  # fmt: skip


# -------------------------------------------------------------------------------------- sums in bins


def _weights(dy: Any, y: Any, x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    return None if dy is None or weights is None else getitem(dy, operand(x))  # of nothing, NumPy counts whole numbers


vjps(np.bincount, None, _weights, cases=lambda s: [
    case(np.array([0, 1, 1, 0, 2]), s(5)), case(np.array([0, 3, 1]), s(3), 6), case(s.integers(4, high=3)),
    case([1, 1, 0], s(3), minlength=2), case(s.integers(0, high=2), s(0)),
    case(np.array([1, 1]), s(2, dtype=np.float32)),
])  # fmt: skip


# ------------------------------------------------------------------------- choices between arrays


@rrule(np.choose, method="choose", cases=lambda s: [
    case(np.array([0, 1, 1]), [s(3), s(3)]), case(np.array([[0], [1]]), (s(3), s(2, 3))), case(1, [s(2), s(3, 1)]),
    case(np.array([0, 3, -1]), [s(3), s(3)], mode="wrap"), case(np.array([0, 3, -1]), [s(3), s.number()], None, "clip"),
    case(np.array([0, 1]), s(2, 2)), case(np.array([[0], [1]]), s(2, 2)),
    case(np.array([1, 0]), [s(2), s(2, dtype="f4")]),
])  # fmt: skip
def _choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> tuple[Any, Pullback]:
    """From each position the element of the array that is chosen there."""
    arrays, gather = parts_of(choices)

    def pullback(dy: Any) -> tuple[Any, ...]:
        index, last = operand(a), len(arrays) - 1
        if mode == "wrap":
            index = np.remainder(index, last + 1)
        elif mode == "clip":
            index = np.minimum(np.maximum(index, 0), last)
        return None, gather([unbroadcast(np.where(np.equal(index, i), dy, 0), x) for i, x in enumerate(arrays)])

    return np.choose(a, choices, mode=mode), pullback  # type: ignore[call-overload]
