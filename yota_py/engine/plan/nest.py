"""A cluster as one loop nest: the structure of its kernel, and the words that describe this call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ...base.records import record
from ...registry.kernels import named
from ...tape.operations import Variable
from ..kernels.ir import Access, Inner, KernelSpec, Node, Operand, Output, Window, Writing, words_of
from ..maths.llvm import I64
from ..schedule.steps import Cluster, Gather, Item, Join, Map, Pad, Pointwise, Reduce, Require, Scan, Scatter
from .layout import HEAD_SLOT, Place, Reference, collapse


@named
def _select_or_zero(k: Any, mask: Any, value: Any) -> Any:
    return k.select(mask, value, k.const(0, value))


@named
def _plus_zero(k: Any, x: Any) -> Any:
    return k.add(k.const(0, x), x)


@named
def _place_of_only(k: Any, mask: Any) -> Any:
    return k.const(0, I64)


SHORT_ROW = 8  # elements: one vector
_EXTREMA: dict[Writing, Writing] = {"argmax": "max", "argmin": "min"}


class Locations(Protocol):
    """Where values and constants are."""

    def place(self, var: Variable) -> Place:
        """Of a variable."""
        ...

    def number(self, value: Any, dtype: str) -> Place:
        """Of a constant."""
        ...

    def temporary(self, shape: tuple[int, ...], dtype: str) -> Place:
        """A buffer for the current step."""
        ...


@record()
class _Index:
    """The operands that are indices, and extent and stride of the dimensions that they index."""

    operands: tuple[int, ...] = ()
    extents: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


_WITHOUT = _Index()


@record()
class _Window:
    """An operand or output in the making."""

    reference: Reference
    index: _Index

    @property
    def dtype(self) -> str:
        return self.reference.place.dtype

    @property
    def inner(self) -> Inner:
        """What the stride of the innermost dimension is."""
        strides = self.reference.strides
        if not strides or strides[-1] == 0:
            return "zero"
        itemsize = np.dtype(self.dtype).itemsize
        return "unit" if strides[-1] == itemsize else "pair" if strides[-1] == 2 * itemsize else "any"

    @property
    def framed(self) -> bool:
        """Whether it is a number in the frame, and the kernel one of numbers."""
        return not self.reference.strides and self.reference.place.slot == HEAD_SLOT and not self.index.operands

    def window(self) -> Window[int]:
        """Where it stands."""
        r, box = self.reference, self.reference.box or []
        firsts, extents = [first for first, _ in box], [extent for _, extent in box]
        slot = None if self.framed else r.place.slot
        return Window(slot, r.place.offset, r.strides, firsts, extents, self.index.extents, self.index.strides)


@record()
class _Load(_Window):
    access: Access

    def beside(self, others: Sequence[_Load]) -> int:
        """The number of another one that reads the first elements of the pairs of which this one reads the second."""
        if self.inner == "pair" and self.access == "plain":
            window = self.window()
            for k, other in enumerate(others):
                first = replace(window, offset=window.offset - np.dtype(self.dtype).itemsize)
                if other.access == "plain" and other.dtype == self.dtype and other.window() == first:
                    return k
        return -1


@record()
class _Store(_Window):
    value: int
    mode: Writing
    mask: int = 0  # of one that is required
    imaginary: int | None = None
    extrema: int = -1

    def output(self, number: Callable[[int], int]) -> Output:
        """A reduction over dimensions of extent one only is a store."""
        reduced = tuple(self.reference.reduced) if any(self.reference.reduced) else ()
        mode = self.mode if reduced or self.mode in ("scatter", "put", "require", "join") else "store"
        mask = number(self.mask) if self.mask else -1
        imaginary = -1 if self.imaginary is None else number(self.imaginary)
        value, inner, indices = number(self.value), self.inner, self.index.operands
        return Output(value, self.dtype, inner, mode, reduced, indices, mask, imaginary, self.extrema, self.framed)


class _Builder:
    """Collects operands, nodes and outputs; operands are numbered 0, 1, …, nodes -1, -2, … until all are known."""

    def __init__(self, space: tuple[int, ...], memory: Locations) -> None:
        self.space, self.memory = space, memory
        self.operands: list[_Load] = []
        self.nodes: list[tuple[str, tuple[int, ...], str]] = []
        self.outputs: list[_Store] = []
        self.values: dict[Any, tuple[int, str]] = {}

    def load(self, place: Place, access: Access = "plain", box: Any = None, index: _Index = _WITHOUT) -> int:
        """The operand that reads a place in this space."""
        self.operands.append(_Load(_reference(place, box), index, access))
        return len(self.operands) - 1

    def write(self, place: Place, value: int, mode: Writing = "store", index: _Index = _WITHOUT, mask: int = 0) -> None:
        """An output."""
        self.outputs.append(_Store(_reference(place), index, value, mode, mask))

    def read(self, x: Any, dtype: str) -> int:
        """The value of an argument as a dtype: computed here, or read from memory."""
        key = x if isinstance(x, Variable) else ("number", repr(x), dtype)
        if key not in self.values:
            place = self.memory.place(x) if isinstance(x, Variable) else self.memory.number(x, dtype)
            self.values[key] = self.load(place.broadcast(self.space)), place.dtype
        value, have = self.values[key]
        if have == dtype:
            return value
        if (cast := (key, dtype)) not in self.values:
            self.values[cast] = self._node("", (value,), dtype), dtype
        return self.values[cast][0]

    def add(self, item: Item) -> None:
        """One operation of the cluster."""
        match item:
            case Map():
                if item.kernel.emit:
                    arguments = tuple(self.read(x, dtype) for x, dtype in item.reads)
                    value = self._node(item.kernel.emit, arguments, item.dtype)
                else:
                    value = self.read(item.reads[0][0], item.dtype)
                self.values[item.var] = value, item.dtype
            case Pad():
                self.values[item.var] = self._pad(item)
            case Gather():
                place, index = self._indexed(item, self.memory.place(item.reads[0][0]))
                self.values[item.var] = self.load(place, "gather", index=index), place.dtype
            case Scatter():
                value = self.read(*item.reads[0])
                place, index = self._indexed(item, self.memory.place(item.var))
                self.write(place, value, "put" if item.puts else "scatter", index)
            case Require():
                arguments = tuple(self.read(x, dtype) for x, dtype in item.reads)
                mask = self._node(item.emit, arguments, "bool")
                place = self.memory.place(item.var).broadcast(self.space)
                self.write(place, self.read(*item.reads[0]), "require", mask=mask)
            case Join():
                re, im = (self.read(x, dtype) for x, dtype in item.reads)
                place = replace(self.memory.place(item.var), dtype=item.dtype)
                self.outputs.append(_Store(_reference(place), _WITHOUT, re, "join", imaginary=im))
            case Reduce():
                self._reduce(item)
            case Scan():
                place = self.memory.place(item.var)
                along = [d == item.axis for d in range(len(self.space))]
                reference = Reference(place, list(place.strides), along)
                self.outputs.append(_Store(reference, _WITHOUT, self.read(*item.reads[0]), item.mode))

    def _node(self, emit: str, arguments: tuple[int, ...], dtype: str) -> int:
        self.nodes.append((emit, arguments, dtype))
        return -len(self.nodes)

    def _pad(self, item: Pad) -> tuple[int, str]:
        """A value inside a box, zero outside: read from memory, or computed from what is read there."""
        if not item.inner:
            return self._read_boxed(item.reads[0][0], item)
        extents = tuple(extent for _, extent in item.box)
        for inner in item.inner:
            if (key := (inner.var, item.box)) in self.values:
                continue
            arguments = tuple(self._boxed(x, dtype, item) for x, dtype in inner.reads)
            if inner.kernel.emit:
                self.values[key] = self._node(inner.kernel.emit, arguments, inner.dtype), inner.dtype
            else:
                self.values[key] = self._cast(arguments[0], inner.reads[0][1], inner.dtype), inner.dtype
        value, dtype = self.values[item.inner[-1].var, item.box]
        mask_key = ("box", item.box)
        if mask_key not in self.values:
            nowhere = Place(HEAD_SLOT, 0, self.space, (0,) * len(extents), "bool")
            self.values[mask_key] = self.load(nowhere, "box", list(item.box)), "bool"
        return self._node(_select_or_zero, (self.values[mask_key][0], value), dtype), dtype

    def _boxed(self, x: Any, dtype: str, item: Pad) -> int:
        """An argument of a computation inside a box, as a dtype."""
        if not isinstance(x, Variable):
            return self.read(x, dtype)
        value, have = self.values[x, item.box] if (x, item.box) in self.values else self._read_boxed(x, item)
        return self._cast(value, have, dtype)

    def _cast(self, value: int, have: str, dtype: str) -> int:
        return value if have == dtype else self._node("", (value,), dtype)

    def _read_boxed(self, x: Variable, item: Pad) -> tuple[int, str]:
        """The operand that reads an array where it stands in a box; dimensions of extent one may be missing in it."""
        if (key := (x, item.box)) not in self.values:
            source = self.memory.place(x).broadcast(item.shape)
            kept = iter(s for n, s in zip(source.shape, source.strides, strict=True) if n != 1)
            strides = tuple(0 if n == 1 else next(kept) for _, n in item.box)
            place = Place(source.slot, source.offset, self.space, strides, source.dtype)
            self.values[key] = self.load(place, "pad", list(item.box)), source.dtype
        return self.values[key]

    def _indexed(self, item: Gather | Scatter, array: Place) -> tuple[Place, _Index]:
        """An array with its dimensions that are not indexed; the indices run over the others of the space."""
        pick = item.pick
        offset, rest = pick.steps(array.strides)
        before, behind = tuple(rest[: pick.before]), tuple(rest[pick.before :])
        lead = self.space[len(before) : len(self.space) - len(behind)]
        out = []
        for x, _ in item.reads[1:]:
            place = self.memory.place(x) if isinstance(x, Variable) else self.memory.number(x, "int64")
            whole = place.broadcast(lead)
            strides = (0,) * len(before) + whole.strides + (0,) * len(behind)
            out.append(self.load(Place(whole.slot, whole.offset, self.space, strides, whole.dtype)))
        strides = before + (0,) * len(lead) + behind
        place = Place(array.slot, array.offset + offset, self.space, strides, array.dtype)
        return place, _Index(tuple(out), pick.indexed(array.shape), pick.indexed(array.strides))

    def _reduce(self, item: Reduce) -> None:
        value = self.read(*item.reads[0])
        if all(self.space[d] == 1 for d in item.axes):  # a store
            if item.mode == "sum":  # NumPy starts at zero: no sum is -0
                value = self._node(_plus_zero, (value,), item.dtype)
            elif item.mode in _EXTREMA:
                value = self._node(_place_of_only, (value,), item.dtype)
        target = self.memory.place(item.var)
        if item.mode in _EXTREMA and self.space[item.axes[0]] > 1:
            extrema = self.memory.temporary(target.shape, item.reads[0][1])
            number = len(self.outputs) + 1
            self.outputs.append(_Store(self._kept(target, item), _WITHOUT, value, item.mode, extrema=number))
            self.outputs.append(_Store(self._kept(extrema, item), _WITHOUT, value, _EXTREMA[item.mode]))
        else:
            self.outputs.append(_Store(self._kept(target, item), _WITHOUT, value, item.mode))

    def _kept(self, target: Place, item: Reduce) -> Reference:
        """The memory of a result, of which the dimensions that are reduced are left out, or have one element."""
        kept = iter(
            target.strides if len(target.shape) < len(self.space) else
            [s for d, s in enumerate(target.strides) if d not in item.axes]
        )  # fmt: skip
        reduced = [d in item.axes for d in range(len(self.space))]
        return Reference(target, [0 if r else next(kept) for r in reduced], reduced)

    def store(self, var: Variable) -> None:
        """Write a computed value to its place."""
        value, dtype = self.values[var]
        place = self.memory.place(var)
        if dtype != place.dtype:
            value = self.read(var, place.dtype)
        self.write(place, value)

    def build(self) -> tuple[KernelSpec, list[int]]:
        """The kernel's structure and its words."""
        extents = collapse(self.space, [x.reference for x in (*self.operands, *self.outputs)])
        rank, count = len(extents), len(self.operands)

        def number(k: int) -> int:
            return k if k >= 0 else count - k - 1

        dtypes = [load.dtype for load in self.operands] + [dtype for *_, dtype in self.nodes]
        for out in self.outputs:
            if (dtype := dtypes[number(out.value)]) != out.dtype and out.mode not in _EXTREMA:
                raise TypeError(f"a kernel would {out.mode} {dtype} in memory of {out.dtype}")
        wide = rank == 1 or (rank > 1 and extents[-1] > SHORT_ROW)
        loads = self.operands
        spec = KernelSpec(
            rank,
            wide,
            tuple(Operand(x.dtype, x.inner, x.access, x.index.operands, x.beside(loads), x.framed) for x in loads),
            tuple(Node(emit, tuple(map(number, args)), dtype) for emit, args, dtype in self.nodes),
            tuple(out.output(number) for out in self.outputs),
        )
        return spec, words_of(extents, [x.window() for x in (*self.operands, *self.outputs)])


def _reference(place: Place, box: list[tuple[int, int]] | None = None) -> Reference:
    return Reference(place, list(place.strides), [False] * len(place.strides), box)


def nest_of(cluster: Cluster, escaping: set[Variable], memory: Locations) -> tuple[KernelSpec, list[int]]:
    """A cluster's kernel; ``escaping`` is what other steps read."""
    if len(cluster.items) == 1 and len(cluster.space) <= 1 and (one := _one_map(cluster, memory)) is not None:
        return one
    builder = _Builder(cluster.space, memory)
    for item in cluster.items:
        builder.add(item)
    for item in cluster.items:
        if item.var in escaping and isinstance(item, Pointwise):
            builder.store(item.var)
    return builder.build()


def _one_map(cluster: Cluster, memory: Locations) -> tuple[KernelSpec, list[int]] | None:
    """The kernel of one elementwise operation on numbers or vectors: as ``_Builder`` has it, but there may be thousands
    of them. ``None`` for what is not that simple."""
    item, extents = cluster.items[0], [n for n in cluster.space if n != 1]
    if not isinstance(item, Map):
        return None
    windows, words = [], extents.copy()
    for x, dtype in (*item.reads, (item.var, item.dtype)):
        place = memory.place(x) if isinstance(x, Variable) else memory.number(x, dtype)
        if place.dtype != dtype or len(place.shape) > len(cluster.space):
            return None
        strides = place.broadcast(cluster.space).strides[: len(extents)]
        if strides and strides[0] not in (0, np.dtype(dtype).itemsize):
            return None
        framed = not extents and place.slot == HEAD_SLOT
        windows.append((dtype, any(strides), framed))
        words += [place.offset] if framed else [place.slot, place.offset, *strides]
    return _one_map_spec(item.kernel.emit, tuple(windows), len(extents)), words


@functools.cache
def _one_map_spec(emit: str, windows: tuple[tuple[str, bool, bool], ...], rank: int) -> KernelSpec:
    """Of an operation; each window is a dtype, whether it has a stride, and whether it is framed; the last is the
    result's."""
    *operands, (dtype, runs, framed) = windows
    reads = tuple(Operand(name, "unit" if steps else "zero", framed=here) for name, steps, here in operands)
    nodes = (Node(emit, tuple(range(len(reads))), dtype),) if emit or reads[0].dtype != dtype else ()
    out = Output(len(reads) + len(nodes) - 1, dtype, "unit" if runs else "zero", framed=framed)
    return KernelSpec(rank, rank == 1, reads, nodes, (out,))


def copy_nest(source: Place, target: Place) -> tuple[KernelSpec, list[int]]:
    """A kernel that copies (and broadcasts) one place to another of the same dtype."""
    builder = _Builder(target.shape, _NOWHERE)
    value = builder.load(source.broadcast(target.shape))
    builder.write(target, value)
    return builder.build()


def fill_nest(target: Place, number: Place) -> tuple[KernelSpec, list[int]]:
    """A kernel that fills a place with one number."""
    return copy_nest(number, target)


class _Nowhere:
    def place(self, var: Variable) -> Place:
        raise KeyError(var)

    def number(self, value: Any, dtype: str) -> Place:
        raise KeyError(value)

    def temporary(self, shape: tuple[int, ...], dtype: str) -> Place:
        raise KeyError(shape)


_NOWHERE = _Nowhere()
