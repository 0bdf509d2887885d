"""Tables of families of functions: some arguments are orders, which may be integers, and some have no formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import numpy as np

from yota_py.base.types import ArrayType, typeof
from yota_py.registry.partials import Pullback as Pullback
from yota_py.registry.registry import Case, Cases, Sample, case, vjps
from yota_py.registry.tangents import MISSING, astype, conj, strong_multiply

from ..support import dtype_of, operand

# Of what a case draws for an argument: integers below an integer, else floats of this interval.
Range = tuple[float, float]

ORDER, REAL, POSITIVE, FRACTION = (0, 4), (-2.0, 2.0), (0.3, 3.0), (0.1, 0.9)


def family(
    fn: Callable[..., Any], *partials: Any, on: Iterable[Range], complex: bool = False, narrow: bool = True
) -> None:
    """A row of a table: a function of one result or several, and one partial derivative per argument.

    A partial is a function ``(y, *args) -> dy/dx``, which gives a tuple if y is one; a number, ``None`` if there is no
    derivative, or ``MISSING``. Integers reach it as they are, so that orders can be counted down and up. ``complex``
    says that the last argument may be complex, ``narrow=False`` that SciPy has no answer in float32.
    """
    vjps(fn, *map(_formula, partials), cases=families(*on, complex=complex, narrow=narrow))


def _formula(partial: Any) -> Any:
    if partial is None or partial is MISSING:
        return partial

    def formula(dy: Any, y: Any, *args: Any) -> Any:
        slope = partial(y, *map(signed, args)) if callable(partial) else partial
        return chained(dy, slope) if isinstance(dy, tuple) else strong_multiply(dy, conj(slope))

    return formula


def chained(dy: Any, slopes: Any) -> Any:
    """The cotangent of an argument that several results depend on, with these slopes."""
    terms = [strong_multiply(d, conj(slope)) for d, slope in zip(dy, slopes, strict=True) if d is not None]
    return sum(terms[1:], terms[0]) if terms else None


def signed(x: Any) -> Any:
    """Integers of a kind that can be counted down below zero, and numbers of Python's as those of NumPy's, which divide
    by zero; anything else as it is."""
    x = operand(x)
    if dtype_of(x).kind in "bu":
        return astype(x, np.dtype(np.int64))
    t = typeof(x)
    return np.positive(x) if isinstance(t, ArrayType) and t.kind == "python" else x


def whole(x: Any) -> Any:
    """Orders as functions of whole ones take them: without what stands behind the point."""
    x = signed(x)
    return np.trunc(x) if dtype_of(x).kind == "f" else x


def of_arrays(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of ``vjps`` that is given arrays where its function takes lists."""

    @wraps(formula)
    def given(dy: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        return formula(dy, y, *map(signed, args), **kwargs)

    return given


def scaled(dy: Any, y: Any, slope: Any, rate: Any) -> Any:
    """The cotangent of z with slope ``dy/dz`` and a real factor whose logarithm changes by -Re(rate dz)."""
    return dy * conj(slope) - np.real(conj(dy) * y) * conj(rate)


def families(*ranges: Range, complex: bool = False, narrow: bool = True) -> Cases:
    """Arrays, numbers, float32, empty arrays, broadcasting both ways."""

    def draw(s: Sample) -> Iterable[Case]:
        def drawn(*shapes: tuple[int, ...] | None, dtype: Any = np.float64, last: Any = None) -> Case:
            args: list[Any] = []
            for i, ((low, high), shape) in enumerate(zip(ranges, shapes, strict=True)):
                if isinstance(low, int) and isinstance(high, int):
                    args.append(int(s.integers(low=low, high=high)) if shape is None
                                else s.integers(*shape, low=low, high=high))  # fmt: skip
                else:
                    kind = last if last and i == len(ranges) - 1 else dtype
                    args.append(s.number(low, high) if shape is None else s(*shape, low=low, high=high, dtype=kind))
            return case(*args)

        n = len(ranges)
        yield drawn(*[(2, 3), (3,)][:n], *[(2, 3)] * (n - 2))
        yield drawn(*([None] * n))
        if narrow:
            yield drawn(*([None] * (n - 1)), (3,), dtype=np.float32)
        if n > 1:
            yield drawn(*[(2, 1)] * (n - 1), (3,))
        yield drawn(*[()] * (n - 1), (0,))
        if complex:
            yield drawn(*([None] * (n - 1)), (2,), last=np.complex128)

    return draw
