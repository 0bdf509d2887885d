"""A kernel's loop nest as LLVM: vectors over the innermost dimension, masked at its end.

One body serves full and partial vectors, so a kernel is compiled once and small; where it is short it is written twice,
as masks would take longer than all the rest, unless there is AVX-512, where they cost little.
Reductions over the innermost dimension keep a total per lane, which is folded at the end.

Faults are noted in the frame's word 1, the least one stands: a guard that fails is the byte in the frame where it
has left the value that it does not hold for; an index out of bounds, which reads element 0, counts less than any guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from llvmlite import ir

from ..maths.builder import WRITTEN_OUT, Called
from ..maths.llvm import ELEMENTS, I1, I8, I32, I64, PTR, VOID, Value, Writer, const
from .elements import operated
from .ir import DTYPES, KernelSpec, Output
from .memory import ALWAYS, NEVER, Memory
from .reductions import PLACES, SCANS, carries, combined, is_float_sum, neutral, stops_early, total_depth, waits
from .totals import TotalsEmitter

BLOCK = 8  # iterations per partial sum
LONG_BODY = 6  # operations
TWICE = 8  # operations: a body with fewer is written twice
IN_PLACE = 8  # operations that are written out: with more of them each is called
ERROR_SLOT = 1
NO_FAULT = 2**63 - 1
OUT_OF_BOUNDS = NO_FAULT - 1
KERNEL = ir.FunctionType(VOID, [PTR, PTR, I64, I64])


def is_good(w: Writer, frame: Value) -> Value:
    """Whether no fault is reported."""
    return w.b.icmp_signed("==", w.word(frame, ERROR_SLOT), const(NO_FAULT))


def report(w: Writer, frame: Value, fault: Value) -> None:
    """Note a fault, if none that is less is noted."""
    known = w.word(frame, ERROR_SLOT)
    least = w.b.select(w.b.icmp_signed("<", fault, known), fault, known)
    w.b.store(least, w.at(frame, ERROR_SLOT))


def lanes_of(spec: KernelSpec, vector_bytes: int) -> int:
    """Elements a loop iteration handles: a vector of the widest type; over long rows two of them, which run side by
    side, in a long body, and four in a short one that waits for totals; one element for kernels without dimensions,
    and where each result waits for the one before."""
    if spec.rank == 0 or any(map(carries, spec.outputs)):
        return 1
    if any(o.access == "gather" for o in spec.operands) or any(o.mode in ("scatter", "put") for o in spec.outputs):
        return vector_bytes // 8
    dtypes = *(o.dtype for o in spec.operands), *(n.dtype for n in spec.nodes), *(o.dtype for o in spec.outputs)
    sizes = [DTYPES[dtype] for dtype in dtypes]
    if spec.wide and max(sizes, default=4) < 4:
        return vector_bytes // max(sizes)
    widest = max(4, *sizes)
    side_by_side = 2 if _is_long(spec, LONG_BODY) else 4 if waits(spec) else 1
    return vector_bytes // widest * (side_by_side if spec.wide else 1)


def _is_long(spec: KernelSpec, operations: int) -> bool:
    """Whether a body has so many operations, or one that is written out."""
    return len(spec.nodes) >= operations or any(node.emit in WRITTEN_OUT for node in spec.nodes)


def emit_kernel(module: ir.Module, name: str, spec: KernelSpec, vector_bytes: int, *, halves: bool = False) -> None:
    """Add the function ``void name(int64 *frame, int64 *words, int64 begin, int64 end)`` to a module."""
    function = ir.Function(module, KERNEL, name)
    function.attributes.add("nounwind")
    emitter = _Emitter(function, spec, lanes_of(spec, vector_bytes), vector_bytes, halves=halves)
    if sum(node.emit in WRITTEN_OUT for node in spec.nodes) > IN_PLACE:
        emitter.math = Called(emitter.b, emitter.lanes, halves=halves)
    emitter.run()


class _Emitter(TotalsEmitter):
    """The loop nest and what is done in it."""

    def run(self) -> None:
        """Emit everything."""
        self.totals, self.errors = {}, {}
        self.undecided = self._undecided if stops_early(self.spec) else None
        extents, loads, stores = self.spec.read(self._word)
        self._nest([self.end, *extents[1:]], [*map(self._memory, loads)], [*map(self._memory, stores)])
        self.b.ret_void()

    def _nest(self, extents: list[Value], loads: list[Memory], stores: list[Memory]) -> None:
        """The loops from the current depth inwards. A total lives outside of all loops that it runs over without a
        break, so that it is kept in registers."""
        depth = len(self.outer)
        totalled = [k for k, o in enumerate(self.spec.outputs) if total_depth(o) == depth]
        for k in totalled:
            out = self.spec.outputs[k]
            self.totals[k] = self._started(out, self._total_type(out))
            if out.mode == "sum" and out.dtype == "float64":
                self.errors[k] = self._started(out, self._total_type(out))
        if depth + 1 < self.spec.rank:
            undecided = self.undecided if self.totals else None
            with self.loop(extents[depth], start=self._start(depth), also=undecided) as i:
                self.outer.append(i)
                self._nest(extents, loads, stores)
                self.outer.pop()
        else:
            self._enter_row(extents, loads, stores)
            if self.spec.rank == 0:
                self._body(None, ir.Constant(I1, 1), extents, loads, stores, {})
            else:
                self._inner(extents, loads, stores)
        for k in totalled:
            self._finish(self.spec.outputs[k], stores[k], self.totals.pop(k), self.errors.pop(k, None))

    def _inner(self, extents: list[Value], loads: list[Memory], stores: list[Memory]) -> None:
        """The innermost loop; in blocks if floats are summed over it, or if it may stop early."""
        n, first = extents[-1], self._start(self.spec.rank - 1)
        carried = ((k, o) for k, o in enumerate(self.spec.outputs) if carries(o))
        self.carried = {k: self._started(o, ELEMENTS[o.dtype]) for k, o in carried}
        in_blocks = any(is_float_sum(self.spec.outputs[k]) for k in self.totals)
        if not in_blocks and self.undecided is None:
            self._vectors(n, first, lambda i, mask: self._body(i, mask, extents, loads, stores, self.totals))
            return
        block = self.lanes * BLOCK
        with self.loop(n, block, first, self.undecided) as start:
            end = self.b.add(start, const(block))
            end = self.b.select(self.b.icmp_signed("<", end, n), end, n)
            partial = self.totals
            if in_blocks:
                partial = {k: self._started(out := self.spec.outputs[k], ELEMENTS[out.dtype]) for k in self.totals}
            self._vectors(end, start, lambda i, mask: self._body(i, mask, extents, loads, stores, partial))
            for k in self.totals if in_blocks else ():
                self._add_block(k, partial)

    def _vectors(self, n: Value, first: Value, body: Callable[[Value, Value], None]) -> None:
        """What is done with each vector of a row, and its mask; a short body is written twice, so that no mask is in
        the way of whole vectors."""
        masks_are_cheap = self.vector_bytes >= 64 and not waits(self.spec)
        if self.lanes == 1 or not self.spec.wide or masks_are_cheap or _is_long(self.spec, TWICE):
            with self.loop(n, self.lanes, first) as i:
                body(i, self._mask(i, n))
            return
        with self.loop(self.b.sub(n, const(self.lanes - 1)), self.lanes, first) as i:
            self.whole, self.mask = ALWAYS, ir.Constant(ir.VectorType(I1, self.lanes), [1] * self.lanes)
            body(i, self.mask)
        with self.b.if_then(self.b.icmp_signed("<", i, n)):
            mask = self._mask(i, n)
            self.whole = NEVER
            body(i, mask)

    def _undecided(self) -> Value:
        """Whether another element may change a total: one that is still what it was at first, in all lanes."""
        going: Value = ir.Constant(I1, 0)
        for k, total in self.totals.items():
            out = self.spec.outputs[k]
            value = self.b.load(total, typ=self._vector(ELEMENTS[out.dtype]))
            untouched = self.math.eq(value, neutral(self.math, out.mode, ELEMENTS[out.dtype]))
            if self.lanes > 1:
                untouched = self.call(f"llvm.vector.reduce.and.v{self.lanes}i1", I1, untouched)
            going = self.b.or_(going, untouched)
        return going

    def _mask(self, i: Value, n: Value) -> Value:
        if self.lanes == 1:
            return ir.Constant(I1, 1)
        self.whole = self.b.icmp_signed("<=", self.b.add(i, const(self.lanes)), n)
        left, most = self.b.sub(n, i), const(self.lanes)
        self.left = self.b.trunc(self.b.select(self.b.icmp_signed("<", left, most), left, most), I8)
        if self.lanes > 16:  # in bytes: as many comparisons of words would take longer than all the rest
            self.mask = self._below(range(self.lanes), self.left)
        else:
            self.mask = self.b.icmp_signed("<", self.b.add(self._splat(i), self._iota()), self._splat(n))
        return self.mask

    def _body(
        self, i: Value | None, mask: Value, extents: list[Value], loads: list[Memory], stores: list[Memory],
        partial: dict[int, Any],
    ) -> None:  # fmt: skip
        spec = self.spec
        values: list[Value] = []
        self.pairs.clear()
        for operand, m in zip(spec.operands, loads, strict=True):
            if operand.access == "box":
                value = self._in_box(m, i, mask)
            elif operand.access == "pad":
                value = self._load(operand.dtype, operand.inner, m, i, self._in_box(m, i, mask))
            elif operand.access == "gather":
                byte = self._indexed([values[k] for k in operand.indices], m, mask)
                if all(spec.operands[k].inner == "zero" for k in operand.indices):  # one row for all lanes
                    lane = byte if self.lanes == 1 else self.b.extract_element(byte, ir.Constant(I32, 0))
                    row, m = m.row, Memory(m.base, replace(m.window, bounds=(), steps=()))
                    m.row, byte = self.byte(row, lane), None
                value = self._load(operand.dtype, operand.inner, m, i, mask, byte)
            elif m.uniform is not None:
                value = m.uniform
            elif operand.inner == "pair" and self.lanes > 1 and i is not None:
                value = self._load_of_pairs(operand, len(values), i, loads)
            else:
                value = self._load(operand.dtype, operand.inner, m, i, mask)
            values.append(value)
        for node in spec.nodes:
            values.append(operated(self.math, node.emit, [values[k] for k in node.operands], node.dtype))
        extrema = {out.extrema for out in spec.outputs}
        for k, (out, m) in enumerate(zip(spec.outputs, stores, strict=True)):
            if out.mode in PLACES:
                self._note_place(k, values[out.value], stores, i, mask, partial)
                continue
            value = self._as_said(values[out.value], out.dtype)
            if k in extrema:
                continue
            if out.mode == "require":
                self._require(self.b.and_(self.b.not_(values[out.mask]), mask), value, m)
            elif out.mode == "store":
                self._store(value, out.inner, m, i, mask)
            elif out.mode == "join":
                self._store_pairs(value, self._as_said(values[out.imaginary], out.dtype), out, m, i, mask)
            elif out.mode in ("scatter", "put"):
                self._scatter(out, value, m, i, mask, [values[j] for j in out.indices])
            elif out.mode in SCANS:
                self._scan(k, value, m, i, mask)
            elif k in partial:
                old = self.b.load(partial[k], typ=value.type)
                self.b.store(self.math.select(mask, combined(self.math, out.mode, old, value), old), partial[k])
            else:
                self._accumulate(out, value, m, i, mask)

    def _in_box(self, m: Memory, i: Value | None, mask: Value) -> Value:
        firsts, extents = m.window.firsts, m.window.extents
        for d, index in enumerate(self.outer):
            mask = self.b.and_(mask, self._splat(self._between(index, firsts[d], extents[d])))
        if i is not None:
            lanes = self.b.add(self._splat(i), self._iota())
            mask = self.b.and_(mask, self._between(lanes, self._splat(firsts[-1]), self._splat(extents[-1])))
        return mask

    def _between(self, index: Value, low: Value, extent: Value) -> Value:
        return self.b.icmp_unsigned("<", self.b.sub(index, low), extent)

    def _indexed(self, indices: list[Value], m: Memory, mask: Value) -> Value:
        """The byte offset that wrapped and checked indices give."""
        total = None
        for k, index in enumerate(indices):
            extent, stride = self._splat(m.window.bounds[k]), self._splat(m.window.steps[k])
            zero = self.math.const(0, extent)
            index = self.math.cast(index, I64)
            index = self.math.select(self.math.lt(index, zero), self.b.add(index, extent), index)
            good = self.b.icmp_unsigned("<", index, extent)
            with self._if_any(self.b.and_(self.b.not_(good), mask)):
                report(self, self.frame, const(OUT_OF_BOUNDS))
            byte = self.b.mul(self.math.select(good, index, zero), stride)
            total = byte if total is None else self.b.add(total, byte)
        return total

    def _require(self, bad: Value, value: Value, m: Memory) -> None:
        with self._if_any(bad):
            if self.spec.rank == 0:
                self._store(value, "zero", m, None, bad)
            report(self, self.frame, self.b.sub(self.b.ptrtoint(m.base, I64), self.b.ptrtoint(self.frame, I64)))

    @contextmanager
    def _if_any(self, bad: Value) -> Iterator[None]:
        """What is done, rarely, if any lane is bad."""
        if self.lanes > 1:
            bad = self.call(f"llvm.vector.reduce.or.v{self.lanes}i1", I1, bad)
        with self.b.if_then(bad, likely=False):
            yield

    def _scatter(
        self, out: Output, value: Value, m: Memory, i: Value | None, mask: Value, indices: list[Value]
    ) -> None:
        """Add, or put, lane by lane, as two lanes may meet in one element."""
        byte = self._indexed(indices, m, mask)
        if i is not None:
            byte = self.b.add(byte, self.b.mul(self.b.add(self._splat(i), self._iota()), self._splat(m.step)))
        row, element = m.row, ELEMENTS[out.dtype]
        for k in range(self.lanes):
            lane = ir.Constant(I32, k)
            offset, part, live = (
                (byte, value, mask)
                if self.lanes == 1
                else (self.b.extract_element(v, lane) for v in (byte, value, mask))
            )
            with self.b.if_then(live):
                pointer = self.byte(row, offset)
                if out.mode == "scatter":
                    part = self.scalar.add(self.b.load(pointer, typ=element, align=1), part)
                self.b.store(self._written(part), pointer, align=1)

