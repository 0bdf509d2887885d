"""BLAS from SciPy: general products of matrices and vectors as kernels of their own.

All in Fortran's order: the caller exchanges operands for row-major results.
"""

from __future__ import annotations

import itertools

from llvmlite import ir

from ..maths.llvm import ELEMENTS, I8, I32, PTR, VOID, Value, Writer, const, offered
from .emit import KERNEL
from .ir import Product

ROUTINES = {"float64": ("dgemm", "dgemv"), "float32": ("sgemm", "sgemv")}


def emit_product(module: ir.Module, name: str, dtype: str, vector: bool) -> None:
    """Add a kernel: C = op(A) op(B) for each of a stack, or y = op(A) x for a ``vector`` product."""
    function = ir.Function(module, KERNEL, name)
    w = Writer(function)
    b, (frame, words, *_), position = w.b, function.args, itertools.count()
    p = Product.read(lambda: w.word(words, next(position)))

    def pointer(slot: Value, offset: Value) -> Value:
        return w.byte(w.word(frame, slot, PTR), offset)

    def flag(transposed: Value) -> Value:
        yes = b.icmp_signed("!=", transposed, const(0))
        return w.variable(b.select(yes, ir.Constant(I8, ord("T")), ir.Constant(I8, ord("N"))))

    one, zero = (w.variable(ir.Constant(ELEMENTS[dtype], number)) for number in (1.0, 0.0))
    unit = w.variable(ir.Constant(I32, 1))
    first = pointer(p.a, p.a_offset), pointer(p.b, p.b_offset), pointer(p.c, p.c_offset)
    m, n, k, lda, ldb, ldc = (w.variable(b.trunc(i, I32)) for i in (p.m, p.n, p.k, p.lda, p.ldb, p.ldc))
    flags = flag(p.a_transposed), flag(p.b_transposed)
    with w.loop(p.count) as i:
        steps = (p.a_step, p.b_step, p.c_step)
        a, x, c = (w.byte(start, b.mul(i, step)) for start, step in zip(first, steps, strict=True))
        if vector:
            arguments = [flags[0], m, n, one, a, lda, x, ldb, zero, c, unit]
        else:
            arguments = [*flags, m, n, k, one, a, lda, x, ldb, zero, c, ldc]
        w.call(offered("scipy.linalg.cython_blas", ROUTINES[dtype][vector]), VOID, *arguments)
    b.ret_void()
