"""Joining, splitting, repeating and padding."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib import _arraypad_impl

from yota_py.base.dispatch import decided, find_traced
from yota_py.base.types import ArrayType, typeof
from yota_py.registry.composites import composite
from yota_py.registry.kernels import Concatenate
from yota_py.registry.patches import open_to_traces, patch, through
from yota_py.registry.registry import Case, Sample, case, rrule
from yota_py.registry.tangents import as_array, astype, listed

from .indices import unindex
from .support import (
    Pullback,
    along,
    axis_of,
    dtype_of,
    operand,
    promoted,
    rule_of_primitives,
    shape_of,
    strong,
    unsupported,
)  # fmt: skip

# ------------------------------------------------------------------------------------------- joining


def parts_of(arrays: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The arrays to be joined, and how their cotangents go together: one array stands for a list of its rows, and
    lists among them for arrays."""
    if isinstance(typeof(arrays), ArrayType):
        return [arrays[i] for i in range(shape_of(arrays)[0])], np.stack
    return list(map(operand, arrays)), tuple


def _concatenate_cases(s: Sample) -> Iterable[Case]:
    return [
        case([s(3), s(2)]), case((s(2, 3), s(1, 3))), case((s(2, 3), s(2, 1)), 1), case([s(2, 3), s(2, 2)], axis=-1),
        case([s(2), s(2, 2)], axis=None), case([s(3, 2).T, s(2, 3)[:, ::-1]]), case([s(2), s(0), s(1)]), case([s(3)]),
        case([s(2, dtype=np.float32), s(3, dtype=np.float32)]), case([s(2, dtype=np.float32), s(3)]), case(s(2, 3)),
        case([s(2), s(2, dtype=np.complex128)]),
    ]  # fmt: skip


def _concatenated(arrays: Any, axis: int | None = 0, out: None = None, dtype: Any = None, **options: Any) -> Any:
    """Flattened, cast to one dtype, and without the parts that add nothing along the axis."""
    parts = parts_of(arrays)[0]
    wanted = promoted(*parts) if dtype is None else np.dtype(dtype)
    full = [p for p in parts if (np.size(p) if axis is None else shape_of(p)[axis])] or parts[:1]
    as_they_are = axis is not None and len(full) == len(parts) and all(map(operator.is_, parts, arrays))
    if as_they_are and all(dtype_of(p) == wanted for p in parts):
        return NotImplemented
    cast = [p if dtype_of(p) == wanted else astype(p, wanted) for p in full]
    return np.concatenate([np.ravel(p) for p in cast] if axis is None else cast, axis or 0)


@rrule(np.concatenate, kernel=Concatenate(), lowering=_concatenated, aliases=[np.concat], cases=_concatenate_cases)
def concatenate_rule(arrays: Any, axis: int | None = 0, out: None = None, **options: Any) -> tuple[Any, Pullback]:
    """``concatenate``: the cotangent is cut where the pieces met."""
    parts, gather = parts_of(arrays)
    y = np.concatenate(tuple(parts), axis, **options)
    shapes = [shape_of(p) for p in parts]

    def pullback(dy: Any) -> tuple[Any, ...]:
        dxs, start = [], 0
        ndim = len(shape_of(dy))
        for shape in shapes:
            n = int(np.prod(shape)) if axis is None else shape[axis]
            piece = dy[along(axis or 0, ndim, slice(start, start + n))]
            dxs.append(np.reshape(piece, shape) if axis is None else piece)
            start += n
        return (gather(dxs),)

    return y, pullback


def _joined(
    fn: Callable[..., Any], prepare: Callable[[Any, int], Any], axis_for: Callable[[Sequence[Any]], int], cases: Any,
    *, rows: bool = False,
) -> None:  # fmt: skip
    """A function that reshapes its arrays (``prepare(part, axis)``) and concatenates them; whether they are the
    ``rows`` of what it gives, where no axis is named.

    No composite: there may be thousands of numbers, each of which would be a call.
    """

    def rule(arrays: Any, axis: int | None = None, out: None = None, **options: Any) -> tuple[Any, Pullback]:
        parts, gather = parts_of(arrays)
        at = axis_for(parts) if axis is None else axis
        y, pullback = concatenate_rule(tuple(prepare(p, at) for p in parts), at, **options)

        def back(dy: Any) -> tuple[Any, ...]:
            return (gather([np.reshape(d, shape_of(p)) for d, p in zip(pullback(dy)[0], parts, strict=True)]),)

        return y, back

    rule.rows = rows  # type: ignore[attr-defined]
    rule_of_primitives(fn, cases=cases)(rule)


def _mixed_cases(s: Sample) -> Iterable[Case]:
    return [
        case([s(3), s(3)]), case((s(2, 3), s(2, 3))), case([s(2, 3, 1), s(2, 3, 1)]), case(s(2, 3)), case([s(3)]),
        case([s(3, dtype=np.float32), s(3)]), case((s(2, 3).T, s(6, 2)[::2])),
    ]  # fmt: skip


_joined(
    np.stack,
    lambda part, axis: np.expand_dims(part, axis),
    lambda parts: 0,
    lambda s: [
        *_mixed_cases(s), case([s(2, 3), s(2, 3)], 1), case([s(2, 3), s(2, 3)], axis=-1), case([s(), s.number(), s()]),
        case([s.number(), s.number()]),
    ],
    rows=True,
)  # fmt: skip
_joined(
    np.vstack,
    lambda part, axis: np.atleast_2d(part),
    lambda parts: 0,
    lambda s: [*_mixed_cases(s), case([s(3), s(2, 3)]), case([s(), 1.0])],
)
_joined(
    np.hstack,
    lambda part, axis: np.atleast_1d(part),
    lambda parts: 0 if len(shape_of(parts[0])) <= 1 else 1,
    lambda s: [*_mixed_cases(s), case([s(3), s(2)]), case([s(2, 3), s(2, 1)]), case([s(), s(2), 1.5])],
)
_joined(np.dstack, lambda part, axis: np.atleast_3d(part), lambda parts: 2, _mixed_cases)
_joined(
    np.column_stack,
    lambda part, axis: part if len(shape_of(part)) > 1 else np.reshape(part, (-1, 1)),
    lambda parts: 1,
    lambda s: [case([s(3), s(3)]), case([s(3), s(3, 2)]), case([s(), 2.0])],
)


@composite(
    np.append,
    cases=lambda s: [case(s(3), s(2)), case(s(3), s.number()), case(s(2, 2), s(3)), case(s(2, 2), s(1, 2), axis=0)],
)
def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    return np.concatenate((strong(arr), strong(values)), axis)


# ----------------------------------------------------------------------------------------- splitting


def _slices(fn: Callable[..., Any], n: int, sections: Any) -> list[slice]:
    """The slices that ``np.split`` or ``np.array_split`` takes of ``n`` elements; raises as they do."""
    sections = decided(sections)
    pieces = fn(np.arange(n), sections)
    if isinstance(sections, int | np.integer):
        ends = np.cumsum([len(p) for p in pieces]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    cuts = [int(i) for i in sections]
    return [slice(start, end) for start, end in zip([0, *cuts], [*cuts, n], strict=True)]


def _splits(fn: Callable[..., Any], axis_for: Callable[[int], int] | None, cases: Any) -> None:
    """A function that cuts along one axis: the given one, or ``axis_for(ndim)``."""
    cut = np.array_split if fn is np.array_split else np.split

    def indices(a: Any, sections: Any, axis: int) -> list[tuple[Any, ...]]:
        shape = shape_of(a)
        at = axis_of(axis if axis_for is None else axis_for(len(shape)), len(shape))
        return [along(at, len(shape), piece) for piece in _slices(cut, shape[at], sections)]

    def body(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
        return [ary[index] for index in indices(ary, indices_or_sections, axis)]

    composite(fn, cases=cases)(body)


def _split_cases(s: Sample) -> Iterable[Case]:
    return [
        case(s(4), 2), case(s(6), [2, 3]), case(s(6), (2, 2, 9)), case(s(4, 3), 2), case(s(5), [3, 1]),
        case(s(3, 4).T, 4), case(s(4, dtype=np.float32), 2),
    ]  # fmt: skip


_by_axis: Any = lambda s: [*_split_cases(s), case(s(2, 6), 3, 1), case(s(2, 6), [1, 4], axis=-1)]  # noqa: E731
_splits(np.split, None, _by_axis)
_splits(np.array_split, None, lambda s: [*_by_axis(s), case(s(5), 3), case(s(2), 3)])
_splits(np.hsplit, lambda ndim: 0 if ndim == 1 else 1, lambda s: [case(s(4), 2), case(s(2, 4), 2), case(s(2, 3), [1])])
_splits(np.vsplit, lambda ndim: 0, lambda s: [case(s(4, 2), 2), case(s(2, 4), [1])])
_splits(np.dsplit, lambda ndim: 2, lambda s: [case(s(2, 1, 4), 2)])


# ---------------------------------------------------------------------------------- rolling, repeating


def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    shift = decided(shift)
    if axis is None:
        return np.reshape(_roll(np.ravel(a), shift if np.ndim(shift) == 0 else sum(shift), 0), shape_of(a))
    shape = shape_of(a)
    for by, at in np.broadcast(shift, axis):
        at = axis_of(int(at), len(shape))
        if cut := int(by) % (shape[at] or 1):
            ends = a[along(at, len(shape), slice(-cut, None))], a[along(at, len(shape), slice(None, -cut))]
            a = np.concatenate(ends, axis=at)
    return a


@rrule(np.roll, lowering=_roll, cases=lambda s: [
    case(s(5), 2), case(s(5), -7), case(s(2, 3), 1), case(s(2, 3), 1, axis=1), case(s(2, 3), (1, -1), (0, 1)),
    case(s(2, 3), 2, axis=(0, 1)), case(s(0), 1), case(s(3, 2).T, 1, 0), case(s(5), 0),
])  # fmt: skip
def roll_rule(a: Any, shift: Any, axis: Any = None) -> tuple[Any, Pullback]:
    """``roll``: rolled back."""
    back = tuple(-n for n in shift) if isinstance(shift, tuple | list) else -shift
    return np.roll(a, shift, axis), lambda dy: (np.roll(dy, back, axis),)


def _tiled_shape(shape: tuple[int, ...], reps: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and repetitions padded with ones to the same length."""
    reps = tuple(map(int, np.atleast_1d(decided(reps))))
    n = max(len(shape), len(reps))
    return (1,) * (n - len(shape)) + shape, (1,) * (n - len(reps)) + reps


def _interleaved(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for pair in zip(a, b, strict=True) for n in pair)


@composite(np.tile, cases=lambda s: [
    case(s(3), 2), case(s(2, 3), 2), case(s(3), (2, 2)), case(s(2, 3), (2, 1)), case(s(2, 3), (3,)), case(s(), 3),
    case(s(2), 0), case(s(2, 1, 2), (1, 3, 2)),
])  # fmt: skip
def _tile(A: Any, reps: Any) -> Any:
    shape, reps = _tiled_shape(shape_of(A), reps)
    cells = np.reshape(A, _interleaved((1,) * len(shape), shape))
    copies = np.broadcast_to(cells, _interleaved(reps, shape))
    return np.reshape(copies, tuple(n * r for n, r in zip(shape, reps, strict=True)))


@composite(np.repeat, method="repeat", cases=lambda s: [
    case(s(3), 2), case(s(2, 3), 2), case(s(2, 3), 2, axis=1), case(s(2, 3), 3, 0), case(s(3), [1, 0, 2]),
    case(s(2, 3), [2, 1], axis=0), case(s(2, 3), np.array([0, 1, 3]), -1), case(s(), 3), case(s(3), 0),
    case(s.number(), 4),
])  # fmt: skip
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    repeats = decided(repeats)
    if axis is None:
        return _repeat(np.ravel(a), repeats, 0)
    shape = shape_of(a)
    at = axis_of(axis, len(shape))
    if np.ndim(repeats):
        return a[along(at, len(shape), np.repeat(np.arange(shape[at]), repeats))]
    n = int(repeats)
    copies = np.broadcast_to(np.expand_dims(a, at + 1), (*shape[: at + 1], n, *shape[at + 1 :]))
    return np.reshape(copies, (*shape[:at], shape[at] * n, *shape[at + 1 :]))


# -------------------------------------------------------------------------------------------- padding

_BY_INDEX = ("edge", "reflect", "symmetric", "wrap")  # every new element is a copy of an old one


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    pad_width = decided(pad_width)
    if isinstance(pad_width, dict):
        wide = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            before, after = np.broadcast_to(width, (2,))
            wide[axis_of(axis, ndim)] = int(before), int(after)
        return wide
    return [(int(b), int(a)) for b, a in np.broadcast_to(np.asarray(pad_width), (ndim, 2))]


def _pad_index(shape: tuple[int, ...], pad_width: Any, mode: str, options: dict[str, Any]) -> tuple[Any, ...]:
    """For ``_BY_INDEX``: where each element of the result comes from. For "constant": where each element goes to."""
    widths = _widths(pad_width, len(shape))
    if mode == "constant":
        return tuple(slice(before, before + n) for n, (before, _) in zip(shape, widths, strict=True))
    if not _has_formula(mode, options):
        raise unsupported(f"np.pad with mode={mode!r} in a rule", f"Modes with one: constant, {', '.join(_BY_INDEX)}")
    return np.ix_(*(np.pad(np.arange(n), width, mode=mode) for n, width in zip(shape, widths, strict=True)))  # type: ignore[call-overload]


def _has_formula(mode: Any, options: dict[str, Any]) -> bool:
    return isinstance(mode, str) and (
        mode == "constant" or (mode in _BY_INDEX and options.get("reflect_type", "even") == "even")
    )


def _pad_through(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    """Ramps, statistics, odd reflections and functions: NumPy's own steps."""
    return NotImplemented if _has_formula(mode, options) else padded_by_numpy(array, pad_width, mode, **options)


open_to_traces(_arraypad_impl)
padded_by_numpy = through(np.pad._implementation)  # type: ignore[attr-defined]


@composite(np.pad, instead=_pad_through, cases=lambda s: [
    case(s(3), 2), case(s(2, 3), 1), case(s(3), (0, 2)), case(s(2, 3), ((1, 0), (0, 2))),
    case(s(3), 1, constant_values=2.5),
    case(s(2, 3), ((1, 1), (2, 0)), "constant", constant_values=((1.0, 2.0), (3.0, 4.0))), case(s(3), 0),
    case(s(0), 2), case(s(3), 2, "edge"), case(s(2, 3), ((1, 2), (2, 1)), mode="reflect"),
    case(s(3), (2, 1), mode="symmetric"), case(s(2, 3), 4, mode="wrap"), case(s(3, dtype=np.float32), 1),
])  # fmt: skip
def _pad(array: Any, pad_width: Any, mode: str = "constant", **options: Any) -> Any:
    shape = shape_of(array)
    index = _pad_index(shape, pad_width, mode, options)
    if mode != "constant":
        return array[index]
    wide = tuple(n + sum(width) for n, width in zip(shape, _widths(pad_width, len(shape)), strict=True))
    frame = np.pad(np.zeros(shape, dtype_of(array)), decided(pad_width), mode="constant", **options)
    padded = unindex(array, index, wide)
    return padded + frame if np.any(frame) else padded


_plain_pad = np.pad


def _pad_stand_in(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    """``pad``, with traced constants as well: axis by axis they are joined to what there is."""
    values = options.get("constant_values")
    array, values = listed(array), listed(values)
    if find_traced((array,)) is not None:
        array = operand(array)
    if not _has_formula(mode, options) and find_traced((array, *options.values())) is not None:
        return padded_by_numpy(array, pad_width, mode, **options)
    if mode != "constant" or find_traced((values,)) is None:
        return _plain_pad(array, pad_width, mode, **options)
    padded = as_array(array)
    ndim = len(shape_of(padded))
    constants = astype(np.broadcast_to(operand(values), (ndim, 2)), dtype_of(padded))
    for axis, widths in enumerate(_widths(pad_width, ndim)):
        shape = shape_of(padded)
        before, after = (
            np.broadcast_to(constants[axis, side], (*shape[:axis], width, *shape[axis + 1 :]))
            for side, width in enumerate(widths)
        )
        padded = np.concatenate((before, padded, after), axis)
    return padded


patch(np, "pad", _pad_stand_in)
