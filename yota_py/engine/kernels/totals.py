"""How a kernel reduces: totals in registers, or in memory where another loop runs inside of that over the reduced
dimension.

Sums of floats run in short blocks, whose sums are added to totals in double precision, or to totals and their rounding
errors, so that long sums are as good as NumPy's. What stands at an extremum's place is a total beside that of places.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ..maths.builder import VecMath
from ..maths.expansions import two_sum
from ..maths.llvm import ELEMENTS, I1, I32, I64, Value, const
from .ir import Output
from .memory import Memory, MemoryEmitter
from .reductions import PLACES, combined, is_beyond, is_float_sum, neutral


class TotalsEmitter(MemoryEmitter):
    """The part of a kernel's emission that deals with what is reduced; what is at hand is a variable by the number of
    its output."""

    totals: dict[int, Any]
    errors: dict[int, Any]  # of totals in double precision, as far as they are known
    carried: dict[int, Any]  # the results before, of scans along the innermost dimension

    def _total_type(self, out: Output) -> ir.Type:
        return ELEMENTS["float64" if is_float_sum(out) else out.dtype]

    def _started(self, out: Output, element: ir.Type) -> Any:
        """A variable with a total of nothing in each lane; of places it is the first one."""
        if out.mode in PLACES:
            return self.variable(self._along(self._start(self.spec.rank - 1)))
        return self.variable(neutral(self.math, out.mode, element))

    def _add_block(self, k: int, partials: dict[int, Any]) -> None:
        """Add a block's lanes to the totals, and to their errors what is rounded off."""
        out, total = self.spec.outputs[k], self.totals[k]
        old, vector = self._read_total(k, self.totals), self._vector(self._total_type(out))
        value = self.math.cast(self.b.load(partials[k], typ=self._vector(ELEMENTS[out.dtype])), self._total_type(out))
        if out.mode in PLACES:
            was, new = (self._read_total(out.extrema, of) for of in (self.totals, partials))
            value = self.math.select(is_beyond(self.math, out.mode, new, was), value, old)
        elif k in self.errors:
            value, rest = two_sum(self.math, old, value)
            self.b.store(self.b.fadd(self.b.load(self.errors[k], typ=vector), rest), self.errors[k])
        else:
            value = combined(self.math, out.mode, old, value)
        self.b.store(value, total)

    def _finish(self, out: Output, m: Memory, total: Any, error: Any) -> None:
        value = self._folded(out, total, error)
        pointer = self._address(m)
        if any(out.reduced[: len(self.outer)]):
            old = self._read(self.b.load(pointer, typ=self._stored(value.type), align=1), value.type)
            value = self.b.select(self._first(out), value, combined(self.scalar, out.mode, old, value))
        self.b.store(self._written(value), pointer, align=1)

    def _folded(self, out: Output, total: Any, error: Any) -> Value:
        """A total's lanes, pairwise: the one half with the other."""
        if out.mode in PLACES:
            return self._folded_places(out, total)
        math = self.math
        value = self.b.load(total, typ=self._vector(self._total_type(out)))
        if error is not None:
            rest = self.b.load(error, typ=value.type)
            # Not with an error of NaN, which infinities leave, nor zero, which would take the sign of -0.0.
            value = math.select(math.gt(math.abs(rest), math.const(0, rest)), self.b.fadd(value, rest), value)
        width = self.lanes
        while width > 1:
            width //= 2
            math = VecMath(self.b, width)
            value = combined(math, out.mode, self._part(value, 0, width), self._part(value, width, width))
        return math.cast(value, ELEMENTS[out.dtype])

    def _along(self, i: Value) -> Value:
        """The indices along the innermost dimension."""
        return self.b.add(self._splat(i), self._iota())

    def _note_place(
        self, k: int, value: Value, stores: list[Memory], i: Value | None, mask: Value, partial: dict[int, Any]
    ) -> None:  # fmt: skip
        """Where the extremum so far is, and what stands there."""
        out = self.spec.outputs[k]
        both = k, out.extrema
        value = self._as_said(value, self.spec.outputs[out.extrema].dtype)
        depth = out.reduced.index(True)
        index = self._splat(self.outer[depth]) if depth < len(self.outer) else self._along(i)
        if k in partial:
            place, extremum = (self._read_total(x, partial) for x in both)
            new = self.b.and_(mask, is_beyond(self.math, out.mode, value, extremum))
            for x, a, b in ((k, index, place), (out.extrema, value, extremum)):
                self.b.store(self.math.select(new, a, b), partial[x])
            return
        windows = [(self.spec.outputs[x], stores[x]) for x in both]
        place, extremum = (self._load(o.dtype, o.inner, m, i, mask) for o, m in windows)
        new = self.b.or_(self._splat(self._first(out)), is_beyond(self.math, out.mode, value, extremum))
        for (o, m), a, b in zip(windows, (index, value), (place, extremum), strict=True):
            self._store(self.math.select(new, a, b), o.inner, m, i, mask)

    def _read_total(self, k: int, totals: dict[int, Any]) -> Value:
        return self.b.load(totals[k], typ=self._vector(self._total_type(self.spec.outputs[k])))

    def _folded_places(self, out: Output, total: Any) -> Value:
        """Of a total's lanes: of places whose numbers are equal, or NaN, the first one."""
        places = self.b.load(total, typ=self._vector(I64))
        extrema = self._read_total(out.extrema, self.totals)
        width = self.lanes
        while width > 1:
            width //= 2
            math = VecMath(self.b, width)
            (p, q), (a, b) = ([self._part(x, start, width) for start in (0, width)] for x in (places, extrema))
            earlier = math.logical_and(math.logical_not(is_beyond(math, out.mode, a, b)), math.lt(q, p))
            second = math.logical_or(is_beyond(math, out.mode, b, a), earlier)
            places, extrema = math.select(second, q, p), math.select(second, b, a)
        return places

    def _part(self, vector: Value, start: int, width: int) -> Value:
        """Lanes of a vector."""
        if width == 1:
            return self.b.extract_element(vector, ir.Constant(I32, start))
        lanes = ir.Constant(ir.VectorType(I32, width), list(range(start, start + width)))
        return self.b.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), lanes)

    def _first(self, out: Output) -> Value:
        """Whether this is the first visit to an output element."""
        first: Value = ir.Constant(I1, 1)
        for d, i in enumerate(self.outer):
            if out.reduced[d]:
                first = self.b.and_(first, self.b.icmp_signed("==", i, self._start(d)))
        return first

    def _accumulate(self, out: Output, value: Value, m: Memory, i: Value | None, mask: Value) -> None:
        """Combine with what stands in memory, on the first visit with the neutral element (no sum is -0)."""
        if any(out.reduced[:-1]):
            nothing = neutral(self.math, out.mode, ELEMENTS[out.dtype])
            old = self._load(out.dtype, out.inner, m, i, mask)
            value = combined(self.math, out.mode, self.math.select(self._splat(self._first(out)), nothing, old), value)
        self._store(value, out.inner, m, i, mask)

    def _scan(self, k: int, value: Value, m: Memory, i: Value, mask: Value) -> None:
        """Combine with the result before, which is at hand or stands in memory."""
        out = self.spec.outputs[k]
        if k in self.carried:
            value = combined(self.math, out.mode, self.b.load(self.carried[k], typ=value.type), value)
            self.b.store(value, self.carried[k])
        else:
            depth, before = out.reduced.index(True), Memory(m.base, m.window)
            behind = self._splat(self.b.icmp_signed(">", self.outer[depth], const(0)))
            before.row = self.byte(m.row, self.b.neg(m.window.strides[depth]))
            old = self._load(out.dtype, out.inner, before, i, self.b.and_(mask, behind))
            old = self.math.select(behind, old, neutral(self.math, out.mode, ELEMENTS[out.dtype]))
            value = combined(self.math, out.mode, old, value)
        self._store(value, out.inner, m, i, mask)

    def _start(self, depth: int) -> Value:
        return self.begin if depth == 0 else const(0)

    def _as_said(self, value: Value, dtype: str) -> Value:
        """A value of the dtype that the structure says: no store is wider than the memory that it is made for."""
        if self.math.element(value) != ELEMENTS[dtype]:
            raise TypeError(f"a kernel computes {self.math.element(value)} where {dtype} is wanted")
        return value
