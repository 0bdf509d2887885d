"""A kernel's loop nest as LLVM: vectors over the innermost dimension, masked at its end.

One body serves full and partial vectors, so a kernel is compiled once and small; on AVX-512 a mask costs nothing.
Reductions over the innermost dimension run in blocks whose sums are added in double precision, so long float32 sums
keep their digits. An index out of bounds is noted in the frame's flag (slot 1) and reads element 0; a failed guard too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from .kernel import DTYPES, KernelSpec, Output, words_of
from .vecmath import VecMath

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
PTR = ir.PointerType()
ELEMENTS: dict[str, ir.Type] = {
    "float64": ir.DoubleType(),
    "float32": ir.FloatType(),
    "int64": I64,
    "int32": I32,
    "bool": I1,
}
BLOCK = 128  # iterations per partial sum
LONG_BODY = 6  # operations
ERROR_SLOT = 1
OUT_OF_BOUNDS, GUARD_FAILED = 1, 2  # faults, which add up

Value = Any


def lanes_of(spec: KernelSpec, vector_bytes: int) -> int:
    """Elements a loop iteration handles: a vector of the widest type; two of them, which run side by side, in a long
    body over long rows; one element for kernels without dimensions."""
    if spec.rank == 0:
        return 1
    if any(o.access == "gather" for o in spec.operands) or any(o.mode == "scatter" for o in spec.outputs):
        return vector_bytes // 8
    widest = max([4, *(DTYPES[o.dtype] for o in spec.operands), *(DTYPES[n.dtype] for n in spec.nodes)])
    return vector_bytes // widest * (2 if spec.wide and len(spec.nodes) >= LONG_BODY else 1)


def emit_kernel(module: ir.Module, name: str, spec: KernelSpec, vector_bytes: int) -> None:
    """Add the function ``void name(int64 *frame, int64 *words)`` to a module."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR]), name)
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    _Emitter(builder, function, spec, lanes_of(spec, vector_bytes)).run()
    builder.ret_void()


class _Memory:
    """The words of one operand or output, loaded in the entry block."""

    __slots__ = ("base", "box", "index", "row", "strides", "uniform")

    def __init__(self, base: Value, strides: list[Value], box: list[Value], index: list[Value]) -> None:
        self.base, self.strides, self.box, self.index = base, strides, box, index
        self.row: Value = base  # the address for the current outer indices
        self.uniform: Value = None  # the value of the whole row, if it is one


class _Emitter:
    def __init__(self, builder: ir.IRBuilder, function: ir.Function, spec: KernelSpec, lanes: int) -> None:
        self.b, self.spec, self.lanes = builder, spec, lanes
        self.frame, self.words = function.args
        self.math = VecMath(builder, lanes)
        self.scalar = VecMath(builder, 1)
        self._at = 0
        self.outer: list[Value] = []

    # -- words and addresses

    def _word(self) -> Value:
        pointer = self.b.gep(self.words, [ir.Constant(I64, self._at)], source_etype=I64)
        self._at += 1
        return self.b.load(pointer, typ=I64)

    def _memory(self, access: str, indices: int) -> _Memory:
        start, rank = self._at, self.spec.rank
        slot, offset = self._word(), self._word()
        strides = [self._word() for _ in range(rank)]
        box = [self._word() for _ in range(2 * rank if access in ("pad", "box") else 0)]
        index = [self._word() for _ in range(2 * indices)]
        assert self._at - start == words_of(access, rank, indices)
        address = self.b.load(self.b.gep(self.frame, [slot], source_etype=I64), typ=I64)
        return _Memory(self.b.inttoptr(self.b.add(address, offset), PTR), strides, box, index)

    def _offset(self, pointer: Value, byte: Value) -> Value:
        return self.b.gep(pointer, [byte], source_etype=I8)

    def _enter_row(self, extents: list[Value], loads: list[_Memory], stores: list[_Memory]) -> None:
        """What does not change along a row: addresses, and operands that are one value in it."""
        for m in (*loads, *stores):
            m.row = m.base
            for d, i in enumerate(self.outer):
                if m.box:
                    i = self.b.sub(i, m.box[d])
                m.row = self._offset(m.row, self.b.mul(i, m.strides[d]))
        for operand, m in zip(self.spec.operands, loads, strict=True):
            if operand.access == "plain" and operand.inner == "zero":
                m.uniform = self._load_one(operand.dtype, m)

    def _load_one(self, dtype: str, m: _Memory) -> Value:
        element = ELEMENTS[dtype]
        stored = self._stored(element)
        value = self._splat(self.b.load(m.row, typ=stored, align=1))
        return value if element == stored else self.math.ne(value, self.math.const(0, value))

    def _vector(self, element: ir.Type) -> ir.Type:
        return element if self.lanes == 1 else ir.VectorType(element, self.lanes)

    def _splat(self, value: Value) -> Value:
        if self.lanes == 1:
            return value
        vector = self._vector(value.type)
        one = self.b.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(I32, 0))
        return self.b.shuffle_vector(
            one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(I32, self.lanes), [0] * self.lanes)
        )

    def _iota(self) -> Value:
        return ir.Constant(I64, 0) if self.lanes == 1 else ir.Constant(self._vector(I64), list(range(self.lanes)))

    # -- memory access

    def _stored(self, element: ir.Type) -> ir.Type:
        return I8 if element == I1 else element

    def _load(self, dtype: str, inner: str, m: _Memory, i: Value | None, mask: Value, byte: Value | None = None) -> Value:
        """Load lanes i, i+1, … of a row; lanes without mask read zero."""
        element = ELEMENTS[dtype]
        stored = self._stored(element)
        if i is not None and m.box:
            i = self.b.sub(i, m.box[self.spec.rank - 1])
        if i is None and m.box:
            value = self._guarded(mask, lambda: self.b.load(m.row, typ=stored, align=1), ir.Constant(stored, 0))
        elif i is None or (inner == "zero" and byte is None and not m.box):
            return self._load_one(dtype, m)
        elif inner == "unit" and byte is None:
            pointer = self._offset(m.row, self.b.mul(i, ir.Constant(I64, DTYPES[dtype])))
            value = self._masked_load(pointer, stored, mask)
        else:
            offsets = self.b.mul(self.b.add(self._splat(i), self._iota()), self._splat(m.strides[-1]))
            value = self._gather(m.row, offsets if byte is None else self.b.add(offsets, byte), stored, mask)
        return value if element == stored else self.math.ne(value, self.math.const(0, value))

    def _masked_load(self, pointer: Value, stored: ir.Type, mask: Value) -> Value:
        if self.lanes == 1:
            return self._guarded(mask, lambda: self.b.load(pointer, typ=stored, align=1), ir.Constant(stored, 0))
        vector = self._vector(stored)
        fn = self._intrinsic(f"llvm.masked.load.{_suffix(vector)}.p0", vector, [PTR, I32, mask.type, vector])
        return self.b.call(fn, [pointer, ir.Constant(I32, 1), mask, _zero(vector)])

    def _gather(self, row: Value, offsets: Value, stored: ir.Type, mask: Value) -> Value:
        if self.lanes == 1:
            pointer = self._offset(row, offsets)
            return self._guarded(mask, lambda: self.b.load(pointer, typ=stored, align=1), ir.Constant(stored, 0))
        vector, pointers = self._vector(stored), self._pointers(row, offsets)
        fn = self._intrinsic(
            f"llvm.masked.gather.{_suffix(vector)}.v{self.lanes}p0", vector, [pointers.type, I32, mask.type, vector]
        )
        return self.b.call(fn, [pointers, ir.Constant(I32, 1), mask, _zero(vector)])

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

    def _store(self, value: Value, inner: str, m: _Memory, i: Value | None, mask: Value) -> None:
        if value.type in (I1, self._vector(I1)):
            value = self.b.zext(value, I8 if self.lanes == 1 else self._vector(I8))
        if self.lanes == 1:
            pointer = m.row if i is None else self._offset(m.row, self.b.mul(i, m.strides[-1]))
            self.b.store(value, pointer, align=1)
        elif inner == "unit":
            assert i is not None
            size = ir.Constant(I64, _bytes(value.type.element))
            pointer = self._offset(m.row, self.b.mul(i, size))
            fn = self._intrinsic(
                f"llvm.masked.store.{_suffix(value.type)}.p0", ir.VoidType(), [value.type, PTR, I32, mask.type]
            )
            self.b.call(fn, [value, pointer, ir.Constant(I32, 1), mask])
        else:
            offsets = self.b.mul(self.b.add(self._splat(i), self._iota()), self._splat(m.strides[-1]))
            pointers = self._pointers(m.row, offsets)
            fn = self._intrinsic(
                f"llvm.masked.scatter.{_suffix(value.type)}.v{self.lanes}p0",
                ir.VoidType(), [value.type, pointers.type, I32, mask.type],
            )  # fmt: skip
            self.b.call(fn, [value, pointers, ir.Constant(I32, 1), mask])

    def _intrinsic(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        known = self.b.module.globals.get(name)
        return known or ir.Function(self.b.module, ir.FunctionType(result, arguments), name)

    # -- the loop nest

    @contextmanager
    def _loop(self, stop: Value, step: int, start: Value | None = None) -> Iterator[Value]:
        """``for i in range(start, stop, step)``."""
        b, start = self.b, start or ir.Constant(I64, 0)
        before = b.block
        head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(I64)
        i.add_incoming(start, before)
        b.cbranch(b.icmp_signed("<", i, stop), body, done)
        b.position_at_end(body)
        yield i
        i.add_incoming(b.add(i, ir.Constant(I64, step)), b.block)
        b.branch(head)
        b.position_at_end(done)

    def _variable(self, kind: ir.Type) -> Value:
        """A local variable; in the entry block, so that LLVM keeps it in a register."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    def run(self) -> None:
        """Emit everything."""
        spec, rank = self.spec, self.spec.rank
        extents = [self._word() for _ in range(rank)]
        loads = [self._memory(o.access, len(o.indices)) for o in spec.operands]
        stores = [self._memory("plain", len(o.indices)) for o in spec.outputs]
        self._nest(extents, loads, stores)

    def _nest(self, extents: list[Value], loads: list[_Memory], stores: list[_Memory]) -> None:
        depth = len(self.outer)
        if depth + 1 < self.spec.rank:
            with self._loop(extents[depth], 1) as i:
                self.outer.append(i)
                self._nest(extents, loads, stores)
                self.outer.pop()
            return
        self._enter_row(extents, loads, stores)
        if self.spec.rank == 0:
            self._body(None, ir.Constant(I1, 1), extents, loads, stores, {})
        else:
            self._inner(extents, loads, stores)

    def _inner(self, extents: list[Value], loads: list[_Memory], stores: list[_Memory]) -> None:
        n, step = extents[-1], self.lanes
        inner_reduced = [k for k, o in enumerate(self.spec.outputs) if o.reduced and o.reduced[-1]]
        if not inner_reduced:
            with self._loop(n, step) as i:
                self._body(i, self._mask(i, n), extents, loads, stores, {})
            return
        totals: dict[int, Any] = {}
        for k in inner_reduced:
            totals[k] = self._variable(self._total_type(self.spec.outputs[k]))
            self.b.store(self._identity(self.spec.outputs[k], self._total_type(self.spec.outputs[k])), totals[k])
        with self._loop(n, self.lanes * BLOCK) as start:
            end = self.b.add(start, ir.Constant(I64, self.lanes * BLOCK))
            end = self.b.select(self.b.icmp_signed("<", end, n), end, n)
            partial = {}
            for k in inner_reduced:
                vector = self._vector(ELEMENTS[self.spec.outputs[k].dtype])
                partial[k] = self._variable(vector)
                self.b.store(self._identity(self.spec.outputs[k], vector), partial[k])
            with self._loop(end, step, start) as i:
                self._body(i, self._mask(i, end), extents, loads, stores, partial)
            for k in inner_reduced:
                self._add_block(self.spec.outputs[k], totals[k], partial[k])
        for k in inner_reduced:
            self._finish(self.spec.outputs[k], stores[k], totals[k])

    def _mask(self, i: Value, n: Value) -> Value:
        if self.lanes == 1:
            return ir.Constant(I1, 1)
        return self.b.icmp_signed("<", self.b.add(self._splat(i), self._iota()), self._splat(n))

    def _body(
        self, i: Value | None, mask: Value, extents: list[Value], loads: list[_Memory], stores: list[_Memory],
        partial: dict[int, Any],
    ) -> None:  # fmt: skip
        spec = self.spec
        values: list[Value] = []
        for operand, m in zip(spec.operands, loads, strict=True):
            if operand.access == "box":
                value = self._in_box(m, i, mask)
            elif operand.access == "pad":
                value = self._load(operand.dtype, operand.inner, m, i, self._in_box(m, i, mask))
            elif operand.access == "gather":
                byte = self._indexed([values[k] for k in operand.indices], m, mask)
                if all(spec.operands[k].inner == "zero" for k in operand.indices):  # one row for all lanes
                    lane = byte if self.lanes == 1 else self.b.extract_element(byte, ir.Constant(I32, 0))
                    row, m = m.row, _Memory(m.base, m.strides, [], [])
                    m.row, byte = self._offset(row, lane), None
                value = self._load(operand.dtype, operand.inner, m, i, mask, byte)
            elif m.uniform is not None:
                value = m.uniform
            else:
                value = self._load(operand.dtype, operand.inner, m, i, mask)
            values.append(value)
        for node in spec.nodes:
            arguments = [values[k] for k in node.operands]
            values.append(
                self.math.cast(arguments[0], ELEMENTS[node.dtype])
                if node.emit is None
                else node.emit(self.math, *arguments)
            )
        for k, (out, m) in enumerate(zip(spec.outputs, stores, strict=True)):
            value = values[out.value]
            if out.mode == "require":
                self._flag(self.b.and_(self.b.not_(value), mask), GUARD_FAILED)
            elif out.mode == "store":
                self._store(value, out.inner, m, i, mask)
            elif out.mode == "scatter":
                self._scatter_add(out, value, m, i, mask, [values[j] for j in out.indices])
            elif k in partial:
                old = self.b.load(partial[k], typ=value.type)
                self.b.store(self.math.select(mask, self._combine(self.math, out, old, value), old), partial[k])
            else:
                self._accumulate(out, value, m, i, mask)

    def _in_box(self, m: _Memory, i: Value | None, mask: Value) -> Value:
        rank = self.spec.rank
        for d, index in enumerate(self.outer):
            mask = self.b.and_(mask, self._splat(self._between(index, m.box[d], m.box[rank + d])))
        if i is not None:
            lanes = self.b.add(self._splat(i), self._iota())
            mask = self.b.and_(mask, self._between(lanes, self._splat(m.box[rank - 1]), self._splat(m.box[2 * rank - 1])))
        return mask

    def _between(self, index: Value, low: Value, extent: Value) -> Value:
        return self.b.icmp_unsigned("<", self.b.sub(index, low), extent)

    def _indexed(self, indices: list[Value], m: _Memory, mask: Value) -> Value:
        """The byte offset that wrapped and checked indices give."""
        total = None
        for k, index in enumerate(indices):
            extent, stride = self._splat(m.index[2 * k]), self._splat(m.index[2 * k + 1])
            zero = self.math.const(0, extent)
            index = self.math.cast(index, I64)
            index = self.math.select(self.math.lt(index, zero), self.b.add(index, extent), index)
            good = self.b.icmp_unsigned("<", index, extent)
            self._flag(self.b.and_(self.b.not_(good), mask), OUT_OF_BOUNDS)
            byte = self.b.mul(self.math.select(good, index, zero), stride)
            total = byte if total is None else self.b.add(total, byte)
        return total

    def _flag(self, bad: Value, fault: int) -> None:
        """Add a fault to the frame's flag if any lane is bad."""
        if self.lanes > 1:
            fn = self._intrinsic(f"llvm.vector.reduce.or.v{self.lanes}i1", I1, [bad.type])
            bad = self.b.call(fn, [bad])
        with self.b.if_then(bad, likely=False):
            slot = self.b.gep(self.frame, [ir.Constant(I64, ERROR_SLOT)], source_etype=I64)
            self.b.store(self.b.or_(self.b.load(slot, typ=I64), ir.Constant(I64, fault)), slot)

    # -- reductions and scatters

    def _total_type(self, out: Output) -> ir.Type:
        return ELEMENTS["float64"] if out.dtype == "float32" and out.mode == "sum" else ELEMENTS[out.dtype]

    def _identity(self, out: Output, kind: ir.Type) -> Value:
        math = self.math if isinstance(kind, ir.VectorType) else self.scalar
        element = kind.element if isinstance(kind, ir.VectorType) else kind
        if out.mode in ("sum", "prod"):
            return math.const(0 if out.mode == "sum" else 1, element)
        if isinstance(element, ir.IntType):
            limit = 2 ** (element.width - 1)
            return math.const(-limit if out.mode == "max" else limit - 1, element)
        return math.const(float("-inf") if out.mode == "max" else float("inf"), element)

    @staticmethod
    def _combine(math: VecMath, out: Output, a: Value, b: Value) -> Value:
        return getattr(math, {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}[out.mode])(a, b)

    def _add_block(self, out: Output, total: Any, partial: Any) -> None:
        """Fold a block's lanes into the running total."""
        value = self.b.load(partial, typ=self._vector(ELEMENTS[out.dtype]))
        old = self.b.load(total, typ=self._total_type(out))
        lanes = [value] if self.lanes == 1 else [self.b.extract_element(value, ir.Constant(I32, k)) for k in range(self.lanes)]
        lanes = [self.scalar.cast(lane, self._total_type(out)) for lane in lanes]
        while len(lanes) > 1:  # pairwise: short chains and small errors
            lanes = [self._combine(self.scalar, out, a, b) for a, b in zip(lanes[::2], lanes[1::2], strict=True)]
        self.b.store(self._combine(self.scalar, out, old, lanes[0]), total)

    def _finish(self, out: Output, m: _Memory, total: Any) -> None:
        element = ELEMENTS[out.dtype]
        value = self.scalar.cast(self.b.load(total, typ=self._total_type(out)), element)
        pointer = m.row
        if any(out.reduced[:-1]):
            old = self.b.load(pointer, typ=element, align=1)
            value = self.b.select(self._first(out), value, self._combine(self.scalar, out, old, value))
        self.b.store(value, pointer, align=1)

    def _first(self, out: Output) -> Value:
        """Whether this is the first visit to an output element."""
        first: Value = ir.Constant(I1, 1)
        for i, reduced in zip(self.outer, out.reduced[:-1], strict=True):
            if reduced:
                first = self.b.and_(first, self.b.icmp_signed("==", i, ir.Constant(I64, 0)))
        return first

    def _accumulate(self, out: Output, value: Value, m: _Memory, i: Value | None, mask: Value) -> None:
        """Combine with what stands in memory, or start with this value on the first visit."""
        if any(out.reduced[:-1]):
            old = self._load(out.dtype, out.inner, m, i, mask)
            value = self.math.select(self._splat(self._first(out)), value, self._combine(self.math, out, old, value))
        self._store(value, out.inner, m, i, mask)

    def _scatter_add(self, out: Output, value: Value, m: _Memory, i: Value | None, mask: Value, indices: list[Value]) -> None:
        """Add lane by lane, as two lanes may meet in one element."""
        byte = self._indexed(indices, m, mask)
        if i is not None:
            byte = self.b.add(byte, self.b.mul(self.b.add(self._splat(i), self._iota()), self._splat(m.strides[-1])))
        row, element = m.row, ELEMENTS[out.dtype]
        for k in range(self.lanes):
            lane = ir.Constant(I32, k)
            offset, part, live = (
                (byte, value, mask) if self.lanes == 1 else (self.b.extract_element(v, lane) for v in (byte, value, mask))
            )
            with self.b.if_then(live):
                pointer = self._offset(row, offset)
                old = self.b.load(pointer, typ=element, align=1)
                self.b.store(self.scalar.add(old, part), pointer, align=1)


def _zero(vector: ir.Type) -> ir.Constant:
    return ir.Constant(vector, None)


def _bytes(element: ir.Type) -> int:
    return 8 if element in (I64, ELEMENTS["float64"]) else 1 if element == I8 else 4


def _suffix(vector: ir.Type) -> str:
    element = vector.element
    kind = "f64" if element == ELEMENTS["float64"] else "f32" if element == ELEMENTS["float32"] else f"i{element.width}"
    return f"v{vector.count}{kind}"
