"""In-place operations as functions of values: what an assignment becomes on a tape."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ..base.containers import items_of, mapped
from ..base.dispatch import dispatching, is_traced
from ..base.floating import at_users_line
from ..base.types import is_sequence
from ..base.unwinding import state
from ..errors import MutationError
from ..tape.operations import user_site
from ..tape.show import name_of
from .contents import copy_of, parts_of


def overlaps_itself(x: np.ndarray) -> bool:
    """Whether elements of an array lie at the same place in memory, as those of a broadcast do."""
    extent = x.itemsize
    for step, n in sorted((abs(step), n) for step, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if step < extent:
            return True
        extent += (n - 1) * step
    return False


def copied(x: Any) -> np.ndarray:
    """A copy in the memory order of ``x``, with gaps where it has gaps: ``reshape`` copies both or neither."""
    if not isinstance(x, np.ndarray) or x.flags.forc or not x.size or overlaps_itself(x):
        return np.array(x)
    steps = [0] * x.ndim
    block = new_block = x.itemsize
    for axis in sorted(range(x.ndim), key=lambda axis: abs(x.strides[axis])):
        n, step = x.shape[axis], abs(x.strides[axis])
        if n == 1:
            continue
        new_step = new_block + x.itemsize * (step != block)
        steps[axis] = new_step if x.strides[axis] > 0 else -new_step
        block, new_block = n * step, n * new_step
    first = sum((n - 1) * -step for n, step in zip(x.shape, steps, strict=True) if step < 0)
    out: np.ndarray = np.ndarray(x.shape, x.dtype, np.empty(new_block, np.uint8), first, steps)
    out[...] = x
    return out


def asked(fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    """What NumPy gives for plain arguments, or raises of them: for a call that is not recorded as it stands."""
    try:
        return at_users_line(fn, args, kwargs)
    except Exception:  # any: the function may catch it, and then it is a decision that no guard holds
        for trace in state.traces:
            trace.problems.append(f"{name_of(fn)} raised an exception")
        raise


def spare(structure: Any) -> Any:
    """The values behind traced ones, in copies of arrays and lists that may be written into."""
    while is_traced(structure):
        structure = structure._current()[1]
    if is_sequence(type(structure)) and items_of(structure) is None:
        return [*map(spare, structure)]
    return copied(structure) if isinstance(structure, np.ndarray) else mapped(spare, structure)


def memory_axes(a: Any) -> tuple[int, ...]:
    """The axes from the slowest to the fastest in memory, as NumPy orders them for ``order="K"``.

    It takes each axis to where its step fits among the others; steps of nothing (of a broadcast) fit everywhere.
    """
    steps = [abs(step) if extent != 1 else 0 for step, extent in zip(a.strides, a.shape, strict=True)]
    axes: list[int] = []  # the fastest first
    for axis in reversed(range(a.ndim)):
        place = len(axes)
        for at in reversed(range(len(axes))):
            if steps[axis] and (step := steps[axes[at]]):
                if step <= steps[axis]:
                    break
                place = at
        axes.insert(place, axis)
    return tuple(reversed(axes))


class ReadOnly:
    """Views of arrays that cannot be written through, for a function of which nobody knows whether it writes."""

    __slots__ = ("_behind",)

    def __init__(self) -> None:
        self._behind: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def of(self, structure: Any) -> Any:
        """Arguments with such views in the places of their arrays."""
        if isinstance(structure, np.ndarray) and not is_traced(structure):
            view = structure.view()
            view.flags.writeable = False
            self._behind[id(view)] = view, structure
            return view
        return mapped(self.of, structure)

    def undone(self, result: Any) -> Any:
        """What the function has given, with the arrays themselves and views of them that are as NumPy gives them."""
        if not isinstance(result, np.ndarray) or is_traced(result):
            return mapped(self.undone, result)
        if (known := self._behind.get(id(result))) is not None:
            return known[1]
        if not result.flags.writeable and 0 not in result.strides and any(
            array.flags.writeable and np.may_share_memory(result, array) for _, array in self._behind.values()
        ):
            with suppress(ValueError):  # it is made of memory that it has been given as read-only
                result.flags.writeable = True
        return result


def written_into(name: str, *, users: bool) -> MutationError:
    """The error for a function that writes into a read-only view."""
    if users:
        return MutationError(f"{user_site()}: {name} writes into its argument, or asks for memory that may be written "
                             "into; primitives and rules are functions of values. Copy it there first: x = np.array(x)")
    return MutationError(f"{user_site()}: {name} writes into a traced array, which cannot be followed. Write the line "
                         "as a function of values: y = f(x)")


def check_range(dtype: np.dtype[Any], value: Any) -> None:
    """Whether traced numbers fit into whole ones is a decision: where they do not, NumPy raises."""
    if dtype.kind not in "iu":
        return
    if not is_traced(value):
        for item in items_of(value) or ():
            check_range(dtype, item)
        return
    number: Any = value
    if isinstance(value, int | float | np.generic) and number._is_here() and not number._carries():
        known = np.iinfo(dtype)
        if not (number >= known.min and number <= known.max):
            while is_traced(number):
                number = number._current()[1]
            np.zeros(1, dtype)[0] = number  # raises what NumPy raises


@dispatching
def setitem(x: Any, index: Any, value: Any) -> Any:
    """A copy of ``x`` after ``x[index] = value``."""
    out = copied(x)
    at_users_line(operator.setitem, (out, index, value))
    return out


@dispatching
def set_view(
    x: Any, value: Any, view: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """A copy of ``x`` after ``view(x, *args, **kwargs)[...] = value``, for a function that gives a view of ``x``.

    That it does was seen when it was recorded. An ``x`` that lies in memory otherwise, such as a cotangent, is written
    at the same positions.
    """
    out = copied(x)
    looking = view(out, *args, **kwargs)
    if np.may_share_memory(looking, out):
        at_users_line(operator.setitem, (looking, ..., value))
        return out
    flat = np.ravel(out)
    flat[view(np.reshape(np.arange(out.size), out.shape), *args, **kwargs)] = value
    return np.reshape(flat, out.shape)


def is_compared(matrix: Any) -> bool:
    """Whether guards of all traces compare the contents of a sparse matrix."""
    return all(_compares(trace, matrix) for trace in state.traces)


def _compares(trace: Any, matrix: Any) -> bool:
    return any(matrix is known or _looks_into(matrix, known) for known in trace.matrices)


def _looks_into(matrix: Any, known: Any) -> bool:
    """Whether a sparse matrix is another view of what stands in a known one, such as its transpose."""
    mine, theirs = parts_of(matrix), parts_of(known)
    if not mine or len(mine) != len(theirs) or mine[0].shape != theirs[0].shape:
        return False
    return all(any(np.may_share_memory(a, b) for b in theirs) for a in mine)


def constant_sparse(matrix: Any, source: Any = None) -> Any:
    """A copy of a sparse matrix, perhaps made of another one, its ``source``; no program that reads it is kept if no
    guard compares its contents."""
    for trace in state.traces:
        if not _compares(trace, matrix if source is None else source):
            trace.problems.append(f"{user_site()}: a sparse matrix comes from somewhere that cannot be followed")
    return copy_of(matrix if parts_of(matrix) else matrix.tocsr())


@dispatching
def sparse_matmul(matrix: Any, x: Any) -> Any:
    """``matrix @ x`` of one of SciPy's sparse matrices and a dense vector or matrix."""
    return matrix @ x


@dispatching
def accumulated(ufunc: Any, x: Any, index: Any, *value: Any) -> Any:
    """A copy of ``x`` after ``ufunc.at(x, index, *value)``."""
    out = copied(x)
    if any(np.ndim(v) for v in value):  # NumPy reads behind the end of values that it would have to repeat
        shape = np.shape(out[index])
        value = tuple(np.array(np.broadcast_to(v, shape)) if np.ndim(v) <= len(shape) else v for v in value)
    at_users_line(ufunc.at, (out, index, *value))
    return out


@dispatching
def ufunc_reduce(
    ufunc: Any, a: Any, axis: Any, dtype: Any = None, keepdims: bool = False, initial: Any = np._NoValue,  # type: ignore[attr-defined]
    where: Any = True,
) -> Any:  # fmt: skip
    """``ufunc.reduce``."""
    options = {} if initial is np._NoValue else {"initial": initial}  # type: ignore[attr-defined]
    return ufunc.reduce(a, axis, dtype, keepdims=keepdims, where=where, **options)


@dispatching
def ufunc_accumulate(ufunc: Any, a: Any, axis: int, dtype: Any = None) -> Any:
    """``ufunc.accumulate``."""
    return ufunc.accumulate(a, axis, dtype)


@dispatching
def ufunc_reduceat(ufunc: Any, a: Any, starts: Any, axis: int, dtype: Any = None) -> Any:
    """``ufunc.reduceat``."""
    return ufunc.reduceat(a, starts, axis, dtype)
