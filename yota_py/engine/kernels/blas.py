"""BLAS by address, from SciPy: general products of matrices and vectors as kernels of their own.

Words of a product: slot and offset of A, B and C; then m, n, k; then lda, ldb, ldc; then whether A and B are
transposed. All in Fortran's order: the caller exchanges operands for row-major results.
"""

from __future__ import annotations

from llvmlite import ir

from ..maths.llvm import ELEMENTS, I8, I32, I64, PTR, VOID, Value, Writer, const

ROUTINES = {"float64": ("dgemm", "dgemv"), "float32": ("sgemm", "sgemv")}


def _address(name: str) -> int:
    from numba.extending import get_cython_function_address

    return int(get_cython_function_address("scipy.linalg.cython_blas", name))


def emit_product(module: ir.Module, name: str, dtype: str, vector: bool) -> None:
    """Add ``void name(int64 *frame, int64 *words)``: C = op(A) op(B), or y = op(A) x for a ``vector`` product."""
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR]), name)
    w = Writer(function)
    b = w.b
    frame, words = function.args

    def pointer(i: int) -> Value:
        return w.byte(w.word(frame, w.word(words, i), PTR), w.word(words, i + 1))

    def integer(i: int) -> Value:
        return w.variable(b.trunc(w.word(words, i), I32))

    def flag(i: int) -> Value:
        transposed = b.icmp_signed("!=", w.word(words, i), const(0))
        return w.variable(b.select(transposed, ir.Constant(I8, ord("T")), ir.Constant(I8, ord("N"))))

    one, zero = (w.variable(ir.Constant(ELEMENTS[dtype], number)) for number in (1.0, 0.0))
    unit = w.variable(ir.Constant(I32, 1))
    a, x, c = pointer(0), pointer(2), pointer(4)
    m, n, k, lda, ldb, ldc = (integer(i) for i in range(6, 12))
    if vector:
        arguments = [flag(12), m, n, one, a, lda, x, ldb, zero, c, unit]
    else:
        arguments = [flag(12), flag(13), m, n, k, one, a, lda, x, ldb, zero, c, ldc]
    routine = ir.FunctionType(VOID, [PTR] * len(arguments)).as_pointer()
    b.call(b.inttoptr(ir.Constant(I64, _address(ROUTINES[dtype][vector])), routine), arguments)
    b.ret_void()
