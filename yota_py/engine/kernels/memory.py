"""How a kernel reads and writes memory: rows of strided arrays, a vector at a time, under a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from ..maths.builder import VecMath
from ..maths.llvm import DOUBLE, ELEMENTS, FLOAT, I1, I8, I32, I64, PTR, VOID, Half, Unsigned, Value, Writer, const
from .ir import DTYPES, KernelSpec, Operand, Output, Window

ALWAYS, NEVER = ir.Constant(I1, 1), ir.Constant(I1, 0)
UNMASKED = 4  # bytes: narrower elements have no masked instructions but those of AVX-512


class Memory:
    """One operand or output, whose words are loaded in the entry block."""

    __slots__ = ("base", "row", "uniform", "window")

    def __init__(self, base: Value, window: Window[Value]) -> None:
        self.base, self.window = base, window
        self.row: Value = base  # the address for the current outer indices
        self.uniform: Value = None  # the value of the whole row, if it is one

    @property
    def step(self) -> Value:
        """The stride of the innermost dimension."""
        return self.window.strides[-1]


class MemoryEmitter(Writer):
    """The part of a kernel's emission that deals with words, addresses, loads and stores."""

    def __init__(
        self, function: ir.Function, spec: KernelSpec, lanes: int, vector_bytes: int, *, halves: bool
    ) -> None:  # fmt: skip
        super().__init__(function)
        self.spec, self.lanes, self.vector_bytes = spec, lanes, vector_bytes
        self.frame, self.words, self.begin, self.end = function.args
        self.math = VecMath(self.b, lanes, halves=halves)
        self.scalar = VecMath(self.b, 1, halves=halves)
        self._at = 0
        self.outer: list[Value] = []
        self.mask: Value = None  # that of the current iteration, if it has lanes
        self.whole: Value = None  # whether it is true in all of them; what is known of that where this is written
        self.left: Value = None  # in how many it is, as a byte
        self.pairs: dict[int, Value] = {}  # those of the current iteration of which an operand reads the first elements

    # -- words and addresses

    def _word(self) -> Value:
        self._at += 1
        return self.word(self.words, self._at - 1)

    def _memory(self, window: Window[Value]) -> Memory:
        start = self.frame if window.slot is None else self.word(self.frame, window.slot, PTR)
        return Memory(self.byte(start, window.offset), window)

    def _address(self, m: Memory) -> Value:
        """The address for the current outer indices."""
        pointer = m.base
        for d, i in enumerate(self.outer):
            if m.window.firsts:
                i = self.b.sub(i, m.window.firsts[d])
            pointer = self.byte(pointer, self.b.mul(i, m.window.strides[d]))
        return pointer

    def _enter_row(self, extents: list[Value], loads: list[Memory], stores: list[Memory]) -> None:
        """What does not change along a row: addresses, and operands that are one value in it."""
        for m in (*loads, *stores):
            m.row = self._address(m)
        for operand, m in zip(self.spec.operands, loads, strict=True):
            if operand.access == "plain" and operand.inner == "zero":
                m.uniform = self._load_one(operand.dtype, m)

    def _load_one(self, dtype: str, m: Memory) -> Value:
        element = ELEMENTS[dtype]
        return self._splat(self._read(self.b.load(m.row, typ=self._stored(element), align=1), element))

    def _vector(self, element: ir.Type) -> ir.Type:
        return element if self.lanes == 1 else ir.VectorType(element, self.lanes)

    def _splat(self, value: Value, lanes: int = 0) -> Value:
        """A value in all lanes, which are those of the kernel if no others are wanted."""
        if (lanes := lanes or self.lanes) == 1:
            return value
        nothing = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        return self._shuffled(self.b.insert_element(nothing, value, ir.Constant(I32, 0)), nothing, [0] * lanes)

    def _shuffled(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """Lanes of two vectors, those of the second counted on."""
        return self.b.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))

    def _below(self, numbers: Sequence[int], limit: Value) -> Value:
        """Which bytes are less than another."""
        vector = ir.VectorType(I8, len(numbers))
        return self.b.icmp_unsigned("<", ir.Constant(vector, list(numbers)), self._splat(limit, len(numbers)))

    def _iota(self) -> Value:
        return const(0) if self.lanes == 1 else ir.Constant(self._vector(I64), list(range(self.lanes)))

    # -- memory access

    def _stored(self, element: ir.Type) -> ir.Type:
        """As what memory has it: booleans are bytes, and no integer has a sign of its own."""
        return I8 if element == I1 else ir.IntType(element.width) if isinstance(element, Unsigned | Half) else element

    def _read(self, value: Value, element: ir.Type) -> Value:
        """What memory has, as an element."""
        if element == I1:
            return self.b.icmp_unsigned("!=", value, ir.Constant(value.type, None))
        return self.b.bitcast(value, _like(value, element))

    def _written(self, value: Value) -> Value:
        """An element, as what memory has."""
        element = value.type.element if isinstance(value.type, ir.VectorType) else value.type
        cast = self.b.zext if element == I1 else self.b.bitcast
        return cast(value, _like(value, self._stored(element)))

    def _load(
        self, dtype: str, inner: str, m: Memory, i: Value | None, mask: Value, byte: Value | None = None
    ) -> Value:
        """Load lanes i, i+1, … of a row; lanes without mask read zero."""
        element = ELEMENTS[dtype]
        stored = self._stored(element)
        boxed = bool(m.window.firsts)
        if i is not None and boxed:
            i = self.b.sub(i, m.window.firsts[-1])
        if i is None and boxed:
            value = self._guarded(mask, lambda: self.b.load(m.row, typ=stored, align=1), ir.Constant(stored, 0))
        elif i is None or (inner == "zero" and byte is None and not boxed):
            return self._load_one(dtype, m)
        elif inner == "unit" and byte is None:
            pointer = self.byte(m.row, self.b.mul(i, const(DTYPES[dtype])))
            value = self._masked_load(pointer, stored, mask, mask is self.mask)
        else:
            offsets = self.b.mul(self.b.add(self._splat(i), self._iota()), self._splat(m.step))
            value = self._gather(m.row, offsets if byte is None else self.b.add(offsets, byte), stored, mask)
        return self._read(value, element)

    def _masked_load(self, pointer: Value, stored: ir.Type, mask: Value, rows: bool) -> Value:
        """Load lanes without a gap; ``rows`` says whether the mask is that of the end of the row."""
        if self.lanes == 1:
            return self._guarded(mask, lambda: self.b.load(pointer, typ=stored, align=1), ir.Constant(stored, 0))
        vector = ir.VectorType(stored, mask.type.count)

        def masked() -> Value:
            name = f"llvm.masked.load.{_suffix(vector)}.p0"
            return self.call(name, vector, pointer, ir.Constant(I32, 1), mask, ir.Constant(vector, None))

        narrow = _bytes(stored) < UNMASKED
        if not rows or (self.whole is not ALWAYS and self.vector_bytes >= (64 if narrow else 32)):
            return masked()
        in_part = (lambda: self._in_part(pointer, vector)) if narrow and vector.count == self.lanes else masked
        return self._if_whole(lambda: self.b.load(pointer, typ=vector, align=1), in_part)

    def _masked_store(self, pointer: Value, value: Value, mask: Value, rows: bool) -> None:
        """Write lanes without a gap. Only AVX-512 does that fast under a mask, and AMD's not with bytes."""
        def masked() -> None:
            name = f"llvm.masked.store.{_suffix(value.type)}.p0"
            self.call(name, VOID, value, pointer, ir.Constant(I32, 1), mask)

        narrow = _bytes(value.type.element) < UNMASKED
        if not rows or (self.whole is not ALWAYS and not narrow and self.vector_bytes >= 64):
            masked()
            return
        in_part = (lambda: self._in_part(pointer, value.type, value)) if narrow else masked
        self._if_whole(lambda: self.b.store(value, pointer, align=1), in_part)

    def _if_whole(self, whole: Callable[[], Value], in_part: Callable[[], Value]) -> Value:
        """The one where the mask of the row is true in all lanes, otherwise the other."""
        if self.whole is ALWAYS or self.whole is NEVER:
            return whole() if self.whole is ALWAYS else in_part()
        with self.b.if_else(self.whole, likely=True) as (then, otherwise):
            with then:
                value, here = whole(), self.b.block
            with otherwise:
                other, there = in_part(), self.b.block
        if isinstance(value.type, ir.VoidType):
            return None
        phi = self.b.phi(value.type)
        phi.add_incoming(value, here)
        phi.add_incoming(other, there)
        return phi

    def _in_part(self, pointer: Value, vector: ir.Type, value: Value | None = None) -> Value:
        """Load the lanes at a row's end, or write those of a value, one by one: narrow ones have no masks, for which
        LLVM would write out each lane."""
        lanes = self.variable(ir.Constant(vector, None) if value is None else value)
        lanes.type = PTR  # of no type, as all that is read in bytes
        source, target = (pointer, lanes) if value is None else (lanes, pointer)
        with self.loop(self.b.zext(self.left, I64)) as k:
            at = self.b.mul(k, const(_bytes(vector.element)))
            element = self.b.load(self.byte(source, at), typ=vector.element, align=1)
            self.b.store(element, self.byte(target, at), align=1)
        return self.b.load(lanes, typ=vector)

    def _load_of_pairs(self, operand: Operand, at: int, i: Value, loads: list[Memory]) -> Value:
        """Lanes i, i+1, … of a row of every other element: of vectors of all elements, where they are shared."""
        stored, first = self._stored(ELEMENTS[operand.dtype]), at if operand.beside < 0 else operand.beside
        if first not in self.pairs:
            shared = any(other.beside == first for other in self.spec.operands)
            pointer = self.byte(loads[first].row, self.b.mul(i, const(2 * DTYPES[operand.dtype])))
            self.pairs[first] = self._masked_load(pointer, stored, self._mask_of_pairs(second=shared), shared)
        pairs = self.pairs[first]
        value = self._shuffled(pairs, pairs, range(operand.beside >= 0, 2 * self.lanes, 2))
        return self._read(value, ELEMENTS[operand.dtype])

    def _mask_of_pairs(self, second: bool) -> Value:
        """A mask of twice as many lanes, without the second of each two or with it."""
        if self.whole is ALWAYS:
            return ir.Constant(ir.VectorType(I1, 2 * self.lanes), [1, int(second)] * self.lanes)
        if second:
            return self._below(range(2 * self.lanes), self.b.add(self.left, self.left))
        return self._below([255 if k % 2 else k // 2 for k in range(2 * self.lanes)], self.left)

    def _gather(self, row: Value, offsets: Value, stored: ir.Type, mask: Value) -> Value:
        if self.lanes == 1:
            pointer = self.byte(row, offsets)
            return self._guarded(mask, lambda: self.b.load(pointer, typ=stored, align=1), ir.Constant(stored, 0))
        vector, pointers = self._vector(stored), self._pointers(row, offsets)
        name = f"llvm.masked.gather.{_suffix(vector)}.v{self.lanes}p0"
        return self.call(name, vector, pointers, ir.Constant(I32, 1), mask, ir.Constant(vector, None))

    def _pointers(self, row: Value, offsets: Value) -> Value:
        address = self.b.add(self._splat(self.b.ptrtoint(row, I64)), offsets)
        return self.b.inttoptr(address, ir.VectorType(PTR, self.lanes))

    def _guarded(self, mask: Value, value: Callable[[], Value], otherwise: Value) -> Value:
        """One lane: compute the value only under the mask."""
        if isinstance(mask, ir.Constant):
            return value()
        before = self.b.block
        with self.b.if_then(mask):
            loaded, inside = value(), self.b.block
        phi = self.b.phi(loaded.type)
        phi.add_incoming(otherwise, before)
        phi.add_incoming(loaded, inside)
        return phi

    def _store(self, value: Value, inner: str, m: Memory, i: Value | None, mask: Value) -> None:
        value = self._written(value)
        if self.lanes == 1:
            pointer = m.row if i is None else self.byte(m.row, self.b.mul(i, m.step))
            self.b.store(value, pointer, align=1)
        elif inner == "unit":
            assert i is not None
            pointer = self.byte(m.row, self.b.mul(i, const(_bytes(value.type.element))))
            self._masked_store(pointer, value, mask, mask is self.mask)
        else:
            offsets = self.b.mul(self.b.add(self._splat(i), self._iota()), self._splat(m.step))
            pointers = self._pointers(m.row, offsets)
            name = f"llvm.masked.scatter.{_suffix(value.type)}.v{self.lanes}p0"
            self.call(name, VOID, value, pointers, ir.Constant(I32, 1), mask)

    def _store_pairs(self, first: Value, second: Value, out: Output, m: Memory, i: Value | None, mask: Value) -> None:
        """Write two values behind each other at each element."""
        size = DTYPES[out.dtype]
        if self.lanes > 1 and out.inner == "pair":
            pairs = self._shuffled(first, second, [k // 2 + k % 2 * self.lanes for k in range(2 * self.lanes)])
            pointer = self.byte(m.row, self.b.mul(i, const(2 * size)))
            self._masked_store(pointer, pairs, self._mask_of_pairs(second=True), mask is self.mask)
            return
        behind = Memory(m.base, m.window)
        behind.row = self.byte(m.row, const(size))
        self._store(first, out.inner, m, i, mask)
        self._store(second, out.inner, behind, i, mask)


def _bytes(element: ir.Type) -> int:
    return element.width // 8 if isinstance(element, ir.IntType) else 8 if element == DOUBLE else 4


def _like(value: Value, element: ir.Type) -> ir.Type:
    """The type of as many elements as a value has."""
    return ir.VectorType(element, value.type.count) if isinstance(value.type, ir.VectorType) else element


def _suffix(vector: ir.Type) -> str:
    element = vector.element
    kind = {DOUBLE: "f64", FLOAT: "f32"}.get(element) or f"i{element.width}"
    return f"v{vector.count}{kind}"
