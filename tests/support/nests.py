"""Kernels run one at a time on arrays, for tests: a spec, its words and a frame, by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from yota_py.engine.kernels.emit import ERROR_SLOT, NO_FAULT
from yota_py.engine.kernels.ir import KernelSpec, Node, Operand, Output, Window, words_of
from yota_py.engine.kernels.store import addresses
from yota_py.engine.plan.layout import HEAD_SLOT

FIRST_SLOT = 3
MARGIN = 256  # bytes around an output, which stay as they are


@dataclass
class Load:
    """An array read over the iteration space (broadcast to it); a "pad" with its box, a "gather" with its indices."""

    array: np.ndarray
    access: Any = "plain"
    box: tuple[tuple[int, int], ...] = ()
    indices: tuple[int, ...] = ()


@dataclass
class Store:
    """Where a value goes: ``strides`` over the space; a scatter adds by index operands to the leading dimensions; one
    that is to "require" a mask goes into the frame."""

    value: int
    array: np.ndarray
    mode: Any = "store"
    reduced: tuple[bool, ...] = ()
    indices: tuple[int, ...] = ()
    mask: int = -1


def guarded(array: np.ndarray, fill: int = 0x5A) -> tuple[np.ndarray, np.ndarray]:
    """A copy of an array in C order with a margin on either side, and the memory it stands in."""
    memory = np.full(array.nbytes + 2 * MARGIN, fill, np.uint8)
    inside = memory[MARGIN : MARGIN + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside, memory


@dataclass
class Nest:
    """One kernel over a space, to be compiled with others and then run."""

    space: tuple[int, ...]
    loads: list[Load]
    nodes: list[Node]
    stores: list[Store]
    wide: bool = True
    spec: KernelSpec = field(init=False)
    words: list[int] = field(init=False)

    def __post_init__(self) -> None:
        rank = len(self.space)
        operands, outputs, windows = [], [], []
        slot = FIRST_SLOT
        for load in self.loads:
            a, k = load.array, len(load.indices)
            if load.access == "gather":
                strides = (0,) * (rank - (a.ndim - k)) + a.strides[k:]
            elif load.access == "pad":
                strides = tuple(0 if n == 1 else s for n, s in zip(a.shape, a.strides, strict=True))
            else:
                strides = np.broadcast_to(a, self.space).strides
            firsts, extents = [first for first, _ in load.box], [extent for _, extent in load.box]
            windows.append(Window(slot, 0, strides, firsts, extents, a.shape[:k], a.strides[:k]))
            operands.append(Operand(a.dtype.name, _inner(strides, a), load.access, load.indices))
            slot += 1
        for store in self.stores:
            a, k = store.array, len(store.indices)
            if store.mode == "scatter":
                strides = (0,) * (rank - (a.ndim - k)) + a.strides[k:]
            elif store.mode == "require":
                strides = (0,) * rank
            elif store.mode in ("cumsum", "cumprod"):
                strides = a.strides
            else:
                kept = iter(a.strides)
                strides = tuple(0 if r else next(kept) for r in store.reduced or (False,) * rank)
            where = (HEAD_SLOT, 8 * slot) if store.mode == "require" else (slot, 0)
            windows.append(Window(*where, strides, bounds=a.shape[:k], steps=a.strides[:k]))
            inner = _inner(strides, a)
            outputs.append(
                Output(store.value, a.dtype.name, inner, store.mode, store.reduced, store.indices, store.mask)
            )
            slot += 1
        self.words = words_of(self.space, windows)
        self.spec = KernelSpec(rank, self.wide, tuple(operands), tuple(self.nodes), tuple(outputs))

    def run(self, code: dict[KernelSpec, int], begin: int = 0, end: int | None = None) -> int:
        """Run the compiled kernel on these arrays, or on a part of the outer dimension; returns the fault, and leaves a
        required value in its array."""
        arrays = [x.array for x in (*self.loads, *self.stores)]
        frame = np.array([0, NO_FAULT, 0, *(a.__array_interface__["data"][0] for a in arrays)], np.int64)
        frame[HEAD_SLOT] = frame.ctypes.data
        words = np.array(self.words, np.int64)
        kinds = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        kernel = ctypes.CFUNCTYPE(None, *kinds)(code[self.spec])
        kernel(frame.ctypes.data, words.ctypes.data, begin, int(words[0]) if end is None else end)
        for store, word in zip(self.stores, frame[FIRST_SLOT + len(self.loads) :], strict=True):
            if store.mode == "require":
                store.array[...] = word.reshape(1).view(store.array.dtype)[0]
        return int(frame[ERROR_SLOT])


def _inner(strides: Sequence[int], array: np.ndarray) -> Any:
    if not strides or strides[-1] == 0:
        return "zero"
    return "unit" if strides[-1] == array.itemsize else "any"


def run_all(nests: Sequence[Nest]) -> list[int]:
    """Compile kernels in one go, and run each."""
    code = addresses([nest.spec for nest in nests])
    return [nest.run(code) for nest in nests]
