"""Rows and columns of Jacobians: computed in one batch, and together where they share nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..base.containers import LEAVES, held_by, items_of
from ..base.dispatch import is_traced, kept_by
from ..base.ownership import is_library
from ..base.records import record
from ..base.signatures import wraps
from ..base.types import ArrayType, is_inexact, typeof
from ..base.unwinding import Quiet
from ..cache.pulling import pulled
from ..capture.recording import record_call
from ..errors import OutputError
from ..loops.ahead import with_loops
from ..loops.batching import one_by_one
from ..passes.lower import lower
from ..registry.constants import as_constants
from ..registry.registry import primitive_of
from ..registry.writes import setitem
from ..reverse.sparsity import DenseError, groups_of, pattern_of
from ..tape.operations import Call, Operation, Variable, user_site
from ..tape.recorder import Recorder
from ..tape.show import name_of
from ..tape.trees import flatten, unflatten
from ..tracing.shells import is_recording
from .forward import forwards, zeros_of

LEAST = 16  # rows and columns, below which all are computed
MAX_LOOKED = 1000  # objects
_NO_OBJECTS = FunctionType, MethodType, partial, set, frozenset, type, ModuleType
FEW = 4  # so many times fewer have groups to be than what is grouped


def restricted(f: Callable[..., Any], places: Sequence[int], others: tuple[Any, Any]) -> Callable[..., Any]:
    """The function of the arguments at these places."""

    @wraps(f)
    def restricted(*xs: Any) -> Any:
        full = dict(zip(places, xs, strict=True))
        args = tuple([full.get(i, x) for i, x in enumerate(others[0])])
        y = with_loops(f, args, others[1])(*args, **others[1])
        if (lost := next(filter(_has_derivatives, flatten(y)[0]), None)) is not None:
            raise OutputError(
                f"{user_site()}: {name_of(f)} returned a {type(lost).__name__}, in which there are numbers that depend "
                "on its arguments. Return these, as numbers and arrays: derivatives are not looked for in objects"
            )
        return y

    return restricted


def _has_derivatives(leaf: Any) -> bool:
    """Whether an object in a result holds traced values with a derivative, as far as it is looked into."""
    seen: dict[int, Any] = {}
    pending = [] if is_traced(leaf) else [leaf]
    while pending and len(seen) < MAX_LOOKED:
        value = pending.pop()
        if is_traced(value) and value._carries():
            return True
        if type(value) in LEAVES or is_traced(value) or is_recording(value) or id(value) in seen:
            continue
        seen[id(value)] = value
        parts = items_of(value)
        if parts is None and is_library(type(value).__module__) and not isinstance(value, _NO_OBJECTS):
            parts = [*held_by(value).values()]
        pending += kept_by(value) if parts is None else parts
    return False


def stacked(of: Callable[[Any], Any], seeds: Any, again: Callable[..., Any], *beside: Any) -> Any:
    """What a function gives for each of these seeds, stacked along a first axis; or for a number."""
    return one_by_one(of, again=(again, *beside))(seeds) if np.ndim(seeds) else of(seeds)


def pulled_by(back: Callable[[Any], Any], out: Sequence[Any], spec: Any, i: int, seed: Any) -> list[Any]:
    """What flows back to the leaves of the arguments from one leaf of the result."""
    zeros = [zeros_of(z) if is_inexact(z) else None for z in out]
    return flatten(back(unflatten(spec, [seed if k == i else zero for k, zero in enumerate(zeros)])))[0]


def pushed_by(push: Callable[[list[Any]], Any], n: int, j: int, tangent: Any) -> list[Any]:
    """How the leaves of the result change with one of the n leaves of the arguments."""
    return flatten(push([tangent if k == j else None for k in range(n)]))[0]


def row_of(f: Callable[..., Any], places: Sequence[int], i: int) -> Callable[..., Any]:
    """``pulled_by`` as a function of nothing but ``f`` and its arguments."""

    @wraps(f)
    def row(seed: Any, given: Any, others: Any) -> list[Any]:
        y, back = pulled(restricted(f, places, others), given, {})
        return pulled_by(back, *flatten(y), i, seed)

    row.__yota_made__ = f, partial(row_of, places=places, i=i)  # type: ignore[attr-defined]
    return row


def column_of(f: Callable[..., Any], places: Sequence[int], j: int) -> Callable[..., Any]:
    """``pushed_by`` as a function of nothing but ``f`` and its arguments."""

    @wraps(f)
    def column(tangent: Any, given: Any, others: Any) -> list[Any]:
        y, back = pulled(restricted(f, places, others), given, {})
        return pushed_by(forwards(y, back), len(flatten(given)[0]), j, tangent)

    column.__yota_made__ = f, partial(column_of, places=places, j=j)  # type: ignore[attr-defined]
    return column


def units(z: Any) -> Any:
    """Arrays of the shape of a leaf, along the first axis, of which each has a one where the others have zeros; the
    number one for a number."""
    t = typeof(z)
    assert isinstance(t, ArrayType)
    if not t.shape:
        return t.dtype.type(1)
    return as_constants(np.reshape(np.eye(t.size, dtype=t.dtype), (t.size, *t.shape)))


# -- rows that are computed together


@record()
class Compressed:
    """The elements of a matrix that may differ from zero, by rows, as SciPy has them: ``starts`` of rows, ``columns``
    of elements."""

    data: Any
    columns: np.ndarray
    starts: np.ndarray
    shape: tuple[int, int]

    @classmethod
    def of_all(cls, matrix: Any, m: int, n: int) -> Compressed:
        """All elements of a matrix."""
        return cls(np.reshape(matrix, m * n), np.tile(np.arange(n), m), np.arange(m + 1) * n, (m, n))

    def filled(self) -> Any:
        """The whole matrix."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.starts))
        places = as_constants(rows), as_constants(self.columns)
        return setitem(as_constants(np.zeros(self.shape, self.data.dtype)), places, self.data)


def compressed(
    f: Callable[..., Any], places: Sequence[int], given: tuple[Any, ...], others: tuple[Any, Any], y: Any,
    back: Callable[[Any], Any],
) -> Compressed | None:  # fmt: skip
    """The Jacobian of one array in another one, by groups of rows or of columns that share nothing, if these are few;
    otherwise ``None``."""
    ((x,), _), (out, out_spec) = flatten(given), flatten(y)
    (z,) = out
    shape = m, n = int(np.size(z)), int(np.size(x))
    try:
        pattern = pattern_in(restricted(f, places, others), *given)
    except DenseError:
        return None
    pattern.sort_indices()
    rows, columns = np.repeat(np.arange(m), np.diff(pattern.indptr)), pattern.indices.astype(np.intp)
    by_rows = groups_of(pattern, max(1, m // FEW))
    count = max(1, n // FEW) if by_rows is None else _count(by_rows) - 1  # fewer
    by_columns = groups_of(pattern.T.tocsr(), count) if count else None
    if by_columns is not None:
        along = partial(pushed_by, forwards(y, back), 1, 0)
        (found,) = stacked(along, _sums(by_columns, x), column_of(f, places, 0), given, others)
        data = np.reshape(found, (_count(by_columns), m))[as_constants(by_columns[columns]), as_constants(rows)]
    elif by_rows is not None:
        pulled = partial(pulled_by, back, out, out_spec, 0)
        (found,) = stacked(pulled, _sums(by_rows, z), row_of(f, places, 0), given, others)
        data = np.reshape(found, (_count(by_rows), n))[as_constants(by_rows[rows]), as_constants(columns)]
    else:
        return None
    return Compressed(data, columns, pattern.indptr.astype(np.intp), shape)


def pattern_in(f: Callable[..., Any], x: Any) -> Any:
    """Which elements of its result depend on which of its argument: a SciPy sparse matrix of truth values. Raises
    ``DenseError``."""
    with Quiet():  # the function itself has warned already
        source: Recorder = record_call(f, (x,), {})
        if any(map(_is_composed, source.tape.ops)):
            source = lower(source)
    return pattern_of(source, source.tape.inputs[0])


def _is_composed(op: Operation) -> bool:
    """Whether a call is written with simpler ones, and says nothing of itself."""
    entry = primitive_of(op.fn) if isinstance(op, Call) and not isinstance(op.fn, Variable) else None
    return entry is not None and entry.kernel is None and entry.lowering is not None


def _count(groups: np.ndarray) -> int:
    """How many groups there are; of nothing, one."""
    return int(groups.max(initial=0)) + 1


def _sums(groups: np.ndarray, like: Any) -> Any:
    """For each group, ones in the places of its elements."""
    t = typeof(like)
    assert isinstance(t, ArrayType)
    seeds = np.zeros((_count(groups), t.size), t.dtype)
    seeds[groups, np.arange(t.size)] = 1
    return as_constants(np.reshape(seeds, (len(seeds), *t.shape)))
