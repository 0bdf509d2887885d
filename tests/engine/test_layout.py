"""Places in memory: views without copies, broadcasts, merged dimensions, and the arena."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yota_py.engine.plan.layout import ARENA_SLOT, Arena, Place, Reference, c_strides, collapse

SHAPES = st.lists(st.sampled_from([1, 2, 3, 5]), max_size=4).map(tuple)


def place_of(array: np.ndarray, memory: np.ndarray) -> Place:
    """Where an array stands in its memory."""
    offset = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return Place(7, offset, array.shape, array.strides, array.dtype.name)


def read(place: Place, memory: np.ndarray) -> np.ndarray:
    """What stands in a place."""
    return np.ndarray(place.shape, place.dtype, memory.reshape(-1).view(np.uint8), place.offset, place.strides)


# -------------------------------------------------------------------------------------------------- views

VIEWS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[1:, ::2], "negative": lambda x: x[::-1, ::-2], "transpose": np.transpose, "flip": np.flip,
    "row": lambda x: x[-1], "column": lambda x: x[..., 1], "element": lambda x: x[1, 2, ...], "same": lambda x: x,
    "newaxis": lambda x: x[:, None, 1:2], "swap": lambda x: np.swapaxes(x, 0, 1)[2], "empty": lambda x: x[2:2],
    "broadcast": lambda x: np.broadcast_to(x, (2, *x.shape)), "diagonal": np.diagonal,
    "expand": lambda x: np.expand_dims(x, (0, -1)),
}  # fmt: skip
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda x: x, "Fortran": np.transpose, "backwards": lambda x: x[::-1, ::-1],
    "every other": lambda x: x[1::2, ::2], "broadcast": lambda x: np.broadcast_to(x[0], (6, x.shape[1])),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex128"])
def test_view(view: str, layout: str, dtype: str) -> None:
    memory = np.arange(48).reshape(6, 8).astype(dtype)
    array = LAYOUTS[layout](memory)
    place = place_of(array, memory)
    seen = place.view(VIEWS[view])
    expected = VIEWS[view](array)
    assert seen is not None and (seen.slot, seen.dtype) == (7, dtype)
    assert (seen.shape, seen.strides) == (expected.shape, expected.strides)
    if expected.size:
        assert np.array_equal(read(seen, memory), expected)


COPIES = [np.copy, lambda x: x[[0, 1]], lambda x: x + 1, lambda x: x.T.reshape(-1), lambda x: x[0, 0]]


@pytest.mark.parametrize("copy", COPIES)
def test_no_view(copy: Callable[[Any], Any]) -> None:
    assert Place(3, 0, (4, 6), (48, 8), "float64").view(copy) is None


def test_reshape_is_a_view_only_where_numpy_has_one() -> None:
    place = Place(3, 16, (4, 6), (48, 8), "float64")
    assert place.view(np.ravel) == Place(3, 16, (24,), (8,), "float64")
    turned = place.view(np.transpose)
    assert turned is not None and turned.view(np.ravel) is None
    assert turned.view(lambda x: x.reshape(6, 2, 2)) == Place(3, 16, (6, 2, 2), (8, 96, 48), "float64")


def test_a_view_of_a_large_array() -> None:
    large = Place(3, 0, (1 << 12, 1 << 12), c_strides((1 << 12, 1 << 12), 8), "float64")
    seen = large.view(lambda x: x[::-1, 5])
    assert seen == Place(3, (4095 * 4096 + 5) * 8, (4096,), (-4096 * 8,), "float64")


@given(SHAPES, SHAPES)
def test_broadcast(shape: tuple[int, ...], more: tuple[int, ...]) -> None:
    wide = tuple(a if b == 1 else b for a, b in zip(more[::-1], shape[::-1], strict=False))[::-1]
    target = (*more[: len(more) - len(wide)], *shape[: len(shape) - len(wide)], *wide)
    memory = np.arange(float(np.prod(shape))).reshape(shape)
    seen = place_of(memory, memory).broadcast(target)
    assert np.array_equal(read(seen, memory), np.broadcast_to(memory, target))


@given(SHAPES)
def test_contiguous(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape)
    assert c_strides(shape, 8) == array.strides
    assert place_of(array, array).contiguous
    turned = array.T
    assert not place_of(turned, array).contiguous or turned.strides == c_strides(turned.shape, 8)


# ---------------------------------------------------------------------------------------- merged dimensions


def addresses(extents: Sequence[int], r: Reference) -> list[tuple[int, bool]]:
    """The byte offset of each iteration, and whether it lies in the box."""
    out = []
    for index in itertools.product(*map(range, extents)):
        inside = r.box is None or all(lo <= i < lo + n for i, (lo, n) in zip(index, r.box, strict=True))
        shifted = index if r.box is None else [i - lo for i, (lo, _) in zip(index, r.box, strict=True)]
        at = sum(i * s for i, s in zip(shifted, r.strides, strict=True))
        out.append((at if inside else -1, inside))
    return out


@st.composite
def references(draw: Any, extents: tuple[int, ...]) -> Reference:
    """A strided operand of a nest: transposed, broadcast, with gaps, reversed; or boxed; or reduced."""
    order = draw(st.permutations(range(len(extents))))
    shape = [extents[d] + draw(st.sampled_from([0, 0, 1])) for d in order]
    stored = dict(zip(order, c_strides(shape, 8), strict=True))
    factors = draw(st.lists(st.sampled_from([1, 1, 1, 1, 0, -1, 2]), min_size=len(extents), max_size=len(extents)))
    kind = draw(st.sampled_from(["plain", "plain", "box", "reduced"]))
    reduced = [kind == "reduced" and draw(st.booleans()) for _ in extents]
    strides = [0 if r else stored[d] * f for d, (r, f) in enumerate(zip(reduced, factors, strict=True))]
    box = None
    if kind == "box":
        box = [(lo, draw(st.integers(1, n - lo))) for n in extents for lo in [draw(st.integers(0, n - 1))]]
        box = [draw(st.sampled_from([b, (0, n)])) for b, n in zip(box, extents, strict=True)]
        strides = list(c_strides([n for _, n in box], 8))
    return Reference(Place(ARENA_SLOT, 0, extents, tuple(strides), "float64"), strides, reduced, box)


@given(st.data())
def test_merged_dimensions_address_the_same_elements(data: st.DataObject) -> None:
    extents = data.draw(SHAPES)
    operands = data.draw(st.lists(references(extents), min_size=1, max_size=3))
    before = sorted(zip(*(addresses(extents, r) for r in operands), strict=True))
    marks = [[any(r.reduced)] for r in operands]
    merged = collapse(extents, operands)
    assert len(merged) <= len(extents) and 1 not in merged
    assert sorted(zip(*(addresses(merged, r) for r in operands), strict=True)) == before  # perhaps in another order
    assert all(len(r.strides) == len(r.reduced) == len(merged) for r in operands)
    for r, (was,) in zip(operands, marks, strict=True):
        assert not any(r.reduced) or was


def test_contiguous_operands_make_one_dimension() -> None:
    strides = c_strides((3, 4, 5), 8)
    operands = [Reference(Place(3, 0, (3, 4, 5), strides, "float64"), list(strides), [False] * 3) for _ in range(3)]
    assert collapse((3, 4, 5), operands) == [60]
    assert operands[0].strides == [8]
    row = Reference(Place(3, 0, (3, 4, 5), (0, 0, 8), "float64"), [0, 0, 8], [False] * 3)
    whole = Reference(Place(3, 0, (3, 4, 5), strides, "float64"), list(strides), [False] * 3)
    assert collapse((3, 4, 5), [whole, row]) == [12, 5]
    total = Reference(Place(3, 0, (), (), "float64"), [0, 0, 0], [True] * 3)
    whole = Reference(Place(3, 0, (3, 4, 5), strides, "float64"), list(strides), [False] * 3)
    assert collapse((3, 4, 5), [whole, total]) == [60]


# ------------------------------------------------------------------------------------------------- the arena


@given(st.lists(st.one_of(st.integers(0, 700), st.integers(-8, -1)), max_size=60))
def test_buffers_that_are_alive_never_overlap(requests: list[int]) -> None:
    """Positive: a new buffer of so many bytes. Negative: give one back."""
    arena, alive, most = Arena(), [], 0
    for request in requests:
        if request >= 0:
            start = arena.take(request)
            assert start % 64 == 0 and start + request <= arena.size
            assert all(start + max(request, 1) <= s or s + max(n, 1) <= start for s, n in alive)
            alive.append((start, request))
            most = max(most, sum(-(-max(n, 1) // 64) * 64 for _, n in alive))
        elif alive:
            arena.give(*alive.pop(request % len(alive)))
    assert arena.size >= most
    for start, n in alive:
        arena.give(start, n)
    size = arena.size
    assert arena.take(size) == 0 and arena.size == max(size, 64)  # one piece again


def test_memory_is_reused() -> None:
    arena = Arena()
    first, second = arena.take(100), arena.take(1000)
    arena.give(first, 100)
    assert arena.take(128) == first and arena.take(1) == second + 1024
    arena = Arena()
    for _ in range(100):  # a chain: two buffers at a time
        a, b = arena.take(640), arena.take(640)
        arena.give(a, 640)
        arena.give(b, 640)
    assert arena.size == 1280
