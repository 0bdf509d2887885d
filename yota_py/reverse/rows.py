"""Gradients of arrays of which a function reads a few rows: these rows, rather than an array of zeros with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import getitem
from typing import Any, NamedTuple

import numpy as np

from ..base.types import ArrayType, typeof
from ..registry.writes import accumulated
from ..tape.loop import UnrolledError
from ..tape.operations import Call, Input, Variable, substitute, variable
from ..tape.recorder import Recorder
from ..tape.tape import Tape

Reads = Mapping[Variable, Sequence[Variable]]
Sources = Mapping[int, Sequence[tuple[int, tuple[Any, ...], int]]]  # as ``flows`` gives them


class Rows(NamedTuple):
    """A gradient that is zero but for some rows, as ``sparse_rows=True`` gives it.

    ``indices``, integers of shape ``(n,)`` from 0 on, tell to which row of the array each of the ``values`` belongs;
    these have the shape ``(n, *shape of a row)``, and the array's dtype. A row that was read twice comes twice:
    ``np.add.at(x, rows.indices, rows.values)`` adds all. The array has ``count`` rows.

    >>> import numpy as np
    >>> rows = Rows(np.array([2, 0, 2]), np.array([1.0, 2.0, 3.0]), 4)
    >>> rows.dense()
    array([2., 0., 4., 0.])
    """

    indices: Any
    values: Any
    count: Any

    def dense(self) -> Any:
        """The gradient as an array."""
        nothing = np.zeros((self.count, *np.shape(self.values)[1:]), self.values.dtype)
        return accumulated(np.add, nothing, self.indices, self.values)


def read_by_rows(tape: Tape, sources: Sources) -> frozenset[int]:
    """Which leaves of the arguments are arrays of floats that reach the results by some of their rows alone."""
    return frozenset(i for i, x in enumerate(tape.leaves) if isinstance(x, Variable) and _reads(tape, x, sources))


def reads_of(tape: Tape, leaves: Collection[int], sources: Sources) -> Reads:
    """The reads of each of these leaves; raises ``UnrolledError`` if one is used otherwise, as those in a loop are."""
    found = {x: _reads(tape, x, sources) for i in leaves if isinstance(x := tape.leaves[i], Variable)}
    if not all(found.values()):
        raise UnrolledError
    return found


def _reads(tape: Tape, x: Variable, sources: Sources) -> list[Variable]:
    op, reads = tape[x], []
    if not (isinstance(op, Input) and isinstance(t := op.type, ArrayType) and op.active and t.shape):
        return []
    for i, given in sources.items():
        taken = [(k, path) for k, path, j in given if j == x.id]
        if taken and not (taken == [(0, ())] and _is_of_rows(tape, tape[variable(i)])):
            return []
        reads += [variable(i)] * len(taken)
    return sorted(reads, key=lambda read: read.id)


def _is_of_rows(tape: Tape, op: Any) -> bool:
    """Whether an operation reads whole rows."""
    if not isinstance(op, Call) or op.fn is not getitem:
        return False
    index = _index(op)
    if isinstance(index, slice):
        return all(isinstance(x, int | np.integer | None) for x in (index.start, index.stop, index.step))
    if isinstance(index, list):
        return all(type(x) is int for x in index)
    t = tape.type_of(index) if isinstance(index, Variable) else typeof(index)
    return isinstance(t, ArrayType) and t.dtype.kind in "iu"


def _index(op: Call) -> Any:
    index = op.args[1]
    return index[0] if isinstance(index, tuple) and len(index) == 1 else index


def gradient_by_rows(
    out: Recorder, primal: Tape, env: Mapping[Variable, Variable], x: Variable, reads: Sequence[Variable]
) -> tuple[Rows, Rows]:
    """The rows of a gradient on the gradient tape, whose cotangents end at the reads, and their types."""
    t = primal[x].type
    assert isinstance(t, ArrayType)
    count, row = t.shape[0], t.shape[1:]
    indices: list[Any] = []
    values: list[Any] = []
    for read in reads:
        if (dy := out.tape.cotangents.get(env[read])) is None:
            continue
        op = primal[read]
        assert isinstance(op, Call) and isinstance(op.type, ArrayType)
        n = op.type.size // max(int(np.prod(row)), 1) if 0 not in row else int(np.prod(op.type.shape[: -len(row)]))
        values.append(out.call(np.reshape, (dy, (n, *row))))
        indices.append(_numbers(out, substitute(_index(op), env.__getitem__), n, count))
    rows = Rows(_joined(out, indices, np.zeros(0, np.int64)), _joined(out, values, np.zeros((0, *row), t.dtype)), count)
    types = (out.tape.type_of(part) for part in rows)
    return rows, Rows(*types)


def _numbers(out: Recorder, index: Any, n: int, count: int) -> Any:
    """The numbers of the rows at an index, from 0 on."""
    if isinstance(index, Variable):
        return out.call(np.remainder, (out.call(np.reshape, (index, (n,))), count))
    if isinstance(index, slice):
        return np.arange(*index.indices(count))
    return np.reshape(np.asarray(index, np.int64), n) % count


def _joined(out: Recorder, parts: Sequence[Any], nothing: Any) -> Any:
    if len(parts) < 2:
        return parts[0] if parts else nothing
    return out.call(np.concatenate, ([*parts],))
