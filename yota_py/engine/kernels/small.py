"""Products of stacks of small matrices: written out, a row of each result as one vector, where a call of BLAS for each
matrix would take longer than the product itself."""

from __future__ import annotations

import itertools

from llvmlite import ir

from ..maths.formats import FORMATS
from ..maths.llvm import ELEMENTS, I1, I32, PTR, Value, Writer, const
from .emit import KERNEL
from .ir import DTYPES, Product

MOST = 8  # rows and columns: up to which it is quicker than BLAS


def emit_small_product(module: ir.Module, name: str, dtype: str, sizes: tuple[int, int, int], transposed: bool) -> None:
    """Add a kernel: C = A B in C's order, with m, n and k known, and whether B lies ``transposed``; its words are those
    of C' = B' A' for BLAS."""
    m, n, k = sizes
    w = Writer(ir.Function(module, KERNEL, name))
    b, (frame, words, *_), position = w.b, w.function.args, itertools.count()
    p = Product.read(lambda: w.word(words, next(position)))
    element, size = ELEMENTS[dtype], const(DTYPES[dtype])
    row = ir.VectorType(element, n)
    nothing = ir.Constant(row, ir.Undefined)
    fma = f"llvm.fmuladd.v{n}{FORMATS[element].name}"

    def steps(leading: Value, turned: Value) -> tuple[Value, Value]:
        """Bytes from one row to the next, and from one column."""
        far = b.mul(leading, size)
        return b.select(turned, size, far), b.select(turned, far, size)

    def inserted(vector: Value, pointer: Value, lane: int) -> Value:
        return b.insert_element(vector, b.load(pointer, typ=element), ir.Constant(I32, lane))

    def everywhere(pointer: Value) -> Value:
        return b.shuffle_vector(inserted(nothing, pointer, 0), nothing, ir.Constant(ir.VectorType(I32, n), [0] * n))

    def row_of_b(start: Value, r: int) -> Value:
        if not transposed:
            return b.load(w.byte(start, b.mul(b_steps[0], const(r))), typ=row, align=DTYPES[dtype])
        vector = nothing
        for c in range(n):
            at = b.add(b.mul(b_steps[0], const(r)), b.mul(b_steps[1], const(c)))
            vector = inserted(vector, w.byte(start, at), c)
        return vector

    a_steps = steps(p.ldb, b.icmp_signed("!=", p.b_transposed, const(0)))
    b_steps = steps(p.lda, ir.Constant(I1, transposed))
    slots = (p.b, p.b_offset), (p.a, p.a_offset), (p.c, p.c_offset)
    starts = [w.byte(w.word(frame, slot, PTR), offset) for slot, offset in slots]
    strides = p.b_step, p.a_step, p.c_step
    with w.loop(p.count) as i:
        left, right, out = (w.byte(x, b.mul(i, step)) for x, step in zip(starts, strides, strict=True))
        rows = [row_of_b(right, r) for r in range(k)]
        for c in range(m):
            total = ir.Constant(row, [ir.Constant(element, 0.0)] * n)
            for r in range(k):
                at = b.add(b.mul(a_steps[0], const(c)), b.mul(a_steps[1], const(r)))
                total = w.call(fma, row, everywhere(w.byte(left, at)), rows[r], total)
            b.store(total, w.byte(out, const(c * n * DTYPES[dtype])), align=DTYPES[dtype])
    b.ret_void()
