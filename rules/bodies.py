"""Functions of NumPy that are traced through their own Python code: their values are NumPy's own, step by step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy._core import fromnumeric, function_base, numeric, shape_base
from numpy.lib import (
    _arraysetops_impl,
    _function_base_impl,
    _histograms_impl,
    _index_tricks_impl,
    _nanfunctions_impl,
    _polynomial_impl,
    _scimath_impl,
    _shape_base_impl,
    _twodim_base_impl,
)

from yota_py.registry.composites import expanded
from yota_py.registry.patches import open_to_traces, patch, through
from yota_py.registry.registry import Cases, case
from yota_py.registry.tangents import as_array

from .support import operand, promoted, shape_of

open_to_traces(
    fromnumeric, function_base, numeric, shape_base, _arraysetops_impl, _function_base_impl, _histograms_impl,
    _index_tricks_impl, _nanfunctions_impl, _polynomial_impl, _scimath_impl, _shape_base_impl, _twodim_base_impl,
)  # fmt: skip


class _Converted:
    """What NumPy's functions of arrays of other classes make of their arguments; here, arrays."""

    def __init__(self, *args: Any) -> None:
        self._given = args
        self._arrays = tuple(x if shape_of(x) else as_array(x) for x in map(operand, args))

    def __getitem__(self, i: int) -> Any:
        return self._arrays[i]

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def scalar_input(self) -> tuple[bool, ...]:
        return tuple(not shape_of(x) for x in self._arrays)

    def as_arrays(self, **options: Any) -> tuple[Any, ...]:
        return self._arrays

    def result_type(self, *, extra_dtype: Any = None, ensure_inexact: bool = False) -> Any:
        return np.result_type(*(x for x in (promoted(*map(operand, self._given)), extra_dtype) if x is not None),
                              *([0.0] if ensure_inexact else []))  # fmt: skip

    def wrap(self, y: Any, *, to_scalar: Any = None) -> Any:
        return y


for _module in (_function_base_impl, _arraysetops_impl, _shape_base_impl, function_base):
    patch(_module, "_array_converter", _Converted)


def seen_through(fn: Any, cases: Cases) -> None:
    """Trace a function through its own code."""
    expanded(fn, cases=cases)(through(fn._implementation))


_WEIGHTS = np.array([1.0, 2.0, 0.5, 1.5])

# ------------------------------------------------------------------------------ differences, slopes

seen_through(np.ediff1d, lambda s: [
    case(s(4)), case(s(2, 3)), case(s(4), s(2), s(1)), case(s(3), to_begin=s.number()), case(s(1)), case(s(0)),
    case(s(3, dtype=np.float32), to_end=1.0),
])  # fmt: skip
seen_through(np.unwrap, lambda s: [
    case(s(5, low=-9.0, high=9.0)), case(s(2, 4, low=-9.0, high=9.0), axis=0), case(s(5, low=-3, high=3), period=2.0),
    case(s(5, low=-9.0, high=9.0), 4.0), case(s(4, low=-9.0, high=9.0, dtype=np.float32)), case(s(1)),
    case(s(2, 4, low=-3, high=3), 1.5, -1, period=2),
])  # fmt: skip
_running: Cases = lambda s: [  # noqa: E731
    case(s(4)), case(s(2, 3), axis=1), case(s(2, 3), axis=0, include_initial=True), case(s(3, dtype=np.float32)),
    case(s(3, dtype="f4"), dtype=np.float64),
]  # fmt: skip
seen_through(np.cumulative_sum, _running)
seen_through(np.cumulative_prod, _running)

# ------------------------------------------------------------------------------ covariances

_table: Cases = lambda s: [  # noqa: E731
    case(s(4)), case(s(2, 4), s(4)), case(s(4, 2), rowvar=False), case(s(4, 2), s(4, 1), False),
    case(s(2, 3, dtype=complex)), case(s(3, 2, dtype=np.float32).T),
]  # fmt: skip
seen_through(np.cov, lambda s: [
    *_table(s), case(s(2, 4), bias=True), case(s(2, 4), ddof=0), case(s(2, 4), fweights=[1, 2, 1, 3]),
    case(s(2, 4), None, True, True, None, [1, 2, 1, 1], s(4, low=0.5)),
    case(s(2, 4), aweights=_WEIGHTS, ddof=0), case(s(2, 4, dtype=np.float32), dtype=np.float32),
])  # fmt: skip
seen_through(np.corrcoef, _table)

# ------------------------------------------------------------------------------ choices

_ABOVE = np.array([True, False, True, False])
seen_through(np.piecewise, lambda s: [
    case(s(4), [_ABOVE, ~_ABOVE], [np.sin, lambda x: x * x]), case(s(4), [_ABOVE], [0.5, np.exp]),
    case(s(4), _ABOVE, [np.negative]), case(s(), [True, False], [np.cos, 1.0]),
    case(s(4), [_ABOVE], [lambda x, a: a * x, 2], 3.0), case(s(4, dtype=np.float32), [_ABOVE], [np.square]),
])  # fmt: skip

# ------------------------------------------------------------------------------ joining, shapes

seen_through(np.insert, lambda s: [
    case(s(4), 2, s.number()), case(s(3, 2), 1, s(2), 0), case(s(2, 3), [0, 0], s(2, 2), axis=1),
    case(s(2, 2), 3, s(3)), case(s(3), slice(0, 2), s(2)), case(s(3, dtype=np.float32), _ABOVE[:3], 2.0),
])  # fmt: skip
seen_through(np.resize, lambda s: [
    case(s(4), (2, 3)), case(s(2, 3), 4), case(s(3), (0,)), case(s(2, 3), (3, 2)), case(s(0), (2,)), case(s(), (2, 2)),
])  # fmt: skip
seen_through(np.unstack, lambda s: [case(s(3)), case(s(2, 3), axis=1), case(s(2, 3, 2), axis=-1), case(s(0, 2))])
seen_through(np.trim_zeros, lambda s: [
    case(s(4)), case(s(3), "f"), case(s(2, 2), axis=0), case(s(3, dtype=np.float32), "b"), case(s(0)),
])  # fmt: skip


def _all_indices(*shape: Any) -> Iterator[tuple[int, ...]]:
    """As ``np.ndindex`` of NumPy 2.4 does; before it, that class wrote into arrays that it had made."""
    lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    return itertools.product(*map(range, lengths))


if np.lib.NumpyVersion(np.__version__) < "2.4.0":
    patch(np, "ndindex", _all_indices)
seen_through(np.apply_along_axis, lambda s: [
    case(np.sum, 0, s(3, 2)), case(lambda x: x * x[0], 1, s(2, 3)),
    case(lambda x, a, b=1: a * x + b, -1, s(2, 2), 3.0, b=2.0),
    case(np.outer, 0, s(2, 2), np.ones(2)), case(np.prod, 1, s(2, 3, 2)), case(lambda x: 2.0 * x[0], 0, s(3)),
    case(np.sort, 0, s(3, 2, dtype=np.float32)),
])  # fmt: skip
seen_through(np.apply_over_axes, lambda s: [
    case(np.sum, s(2, 3), [0, 1]), case(np.mean, s(2, 3, 2), (0, -1)), case(np.max, s(2, 3), 1),
])  # fmt: skip

# ------------------------------------------------------------------------------ histograms

_X, _EDGES = np.array([1, 5, 4, 7]), np.array([0, 3, 6, 10])
_weighted: Cases = lambda s: [  # noqa: E731
    case(_X, 3, None, None, s(4)), case(_X, _EDGES, None, True, s(4, low=0.5)), case(_X, 2, (0, 6), None, s(4)),
]  # fmt: skip
seen_through(np.histogram, lambda s: [
    *_weighted(s), case(s(5), 3), case(s(5), 3, density=True), case(_X, _EDGES, weights=s(4, dtype=complex).real),
])  # fmt: skip
seen_through(np.histogram2d, lambda s: [
    case(_X, _X[::-1], 2, None, None, s(4)), case(_X, _X, (_EDGES, 2), None, True, s(4, low=0.5)),
])  # fmt: skip
seen_through(np.histogramdd, lambda s: [
    case((_X, _X[::-1]), 2, None, None, s(4)), case(np.stack([_X, _X], 1), (2, _EDGES), None, True, s(4, low=0.5)),
])  # fmt: skip

# ------------------------------------------------------------------------------ sequences of numbers

seen_through(np.geomspace, lambda s: [
    case(s.number(0.5), 4.0, 4), case(s(2, low=0.5), 9.0, 3, axis=1), case(-1.0, s.number(-4.0, -3.0), 3, False),
    case(s(low=0.5), 2.0, 1), case(1.0, 3.0, 4, dtype=np.float32),
])  # fmt: skip
seen_through(np.vander, lambda s: [
    case(s(3)), case(s(2), 3, True), case(s(2, dtype=np.float32)), case(s(2, dtype=complex), 3), case(s(2), 1),
])  # fmt: skip

for _from in (np.diag_indices_from, np.tril_indices_from, np.triu_indices_from):
    seen_through(_from, lambda s: [case(s(3, 3)), case(s(2, 2, dtype=np.float32))])
patch(np, "kaiser", through(np.kaiser))
patch(np, "fromfunction", through(np.fromfunction))

# ------------------------------------------------------------------------------ without NaN

_gaps: Cases = lambda s: [  # noqa: E731
    case(s(4)), case(np.where(_ABOVE, np.nan, s(4))), case(np.where(_ABOVE, s(3, 4), np.nan), 0), case(s(2, 3), axis=1),
    case(s(3, dtype=np.float32)), case(s(3, dtype=complex)), case(np.full(2, np.nan)),
]  # fmt: skip
seen_through(np.nancumsum, _gaps)
seen_through(np.nancumprod, _gaps)
seen_through(np.nanprod, lambda s: [
    *_gaps(s), case(s(2, 3), 1, None, None, True), case(s(2, 3), axis=0, where=s.mask(2, 3)), case(s(3), initial=2.0),
])  # fmt: skip

# ------------------------------------------------------------------------------ complex where reals end

for _name in ("sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh"):
    seen_through(getattr(np.emath, _name), lambda s: [
        case(np.array([0.3, 0.8])), case(np.array([-1.7, 0.5])), case(np.array([0.4], np.float32)),
    ])  # fmt: skip
seen_through(np.emath.logn, lambda s: [case(3, s(2)), case(s.number(1.5), np.array([0.5, 2.0]))])
seen_through(np.emath.power, lambda s: [case(s(2), 2.5), case(s(2, low=0.5), s(2)), case(s(2, low=0.5), -2)])

# ------------------------------------------------------------------------------ sets

_sets: Cases = lambda s: [case(s(4), s(3)), case(s(3), s(0))]  # noqa: E731
_operations: Any = (np.union1d, np.setdiff1d, np.setxor1d, np.intersect1d)
for _set in _operations:
    seen_through(_set, _sets)
for _set in (np.unique_all, np.unique_counts, np.unique_inverse):
    seen_through(_set, lambda s: [case(s(3)), case(s(2, 2))])
seen_through(np.unique_values, lambda s: [case(s(4)), case(s(2, 2))])
seen_through(np.sort_complex, lambda s: [case(s(3)), case(s(3, dtype=complex)), case(s(2, dtype=np.float32))])
