"""BLAS by address, from SciPy: general products of matrices and vectors as kernels of their own.

Words of a product: slot and offset of A, B and C; then m, n, k; then lda, ldb, ldc; then whether A and B are
transposed. All in Fortran's order: the caller exchanges operands for row-major results.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
PTR = ir.PointerType()
ROUTINES = {"float64": ("dgemm", "dgemv"), "float32": ("sgemm", "sgemv")}


def _address(name: str) -> int:
    from numba.extending import get_cython_function_address

    return int(get_cython_function_address("scipy.linalg.cython_blas", name))


def emit_product(module: ir.Module, name: str, dtype: str, vector: bool) -> None:
    """Add ``void name(int64 *frame, int64 *words)``: C = op(A) op(B), or y = op(A) x for a ``vector`` product."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, PTR]), name)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    frame, words = function.args
    element = ir.DoubleType() if dtype == "float64" else ir.FloatType()

    def word(i: int) -> Any:
        return b.load(b.gep(words, [ir.Constant(I64, i)], source_etype=I64), typ=I64)

    def pointer(i: int) -> Any:
        address = b.load(b.gep(frame, [word(i)], source_etype=I64), typ=I64)
        return b.inttoptr(b.add(address, word(i + 1)), PTR)

    def cell(value: Any) -> Any:
        place = b.alloca(value.type)
        b.store(value, place)
        return place

    def integer(i: int) -> Any:
        return cell(b.trunc(word(i), I32))

    def flag(i: int) -> Any:
        return cell(
            b.select(
                b.icmp_signed("!=", word(i), ir.Constant(I64, 0)), ir.Constant(I8, ord("T")), ir.Constant(I8, ord("N"))
            )
        )

    one, zero, unit = cell(ir.Constant(element, 1.0)), cell(ir.Constant(element, 0.0)), cell(ir.Constant(I32, 1))
    a, x, c = pointer(0), pointer(2), pointer(4)
    m, n, k, lda, ldb, ldc = (integer(i) for i in range(6, 12))
    if vector:
        arguments = [flag(12), m, n, one, a, lda, x, ldb, zero, c, unit]
    else:
        arguments = [flag(12), flag(13), m, n, k, one, a, lda, x, ldb, zero, c, ldc]
    routine = ir.FunctionType(ir.VoidType(), [PTR] * len(arguments)).as_pointer()
    b.call(b.inttoptr(ir.Constant(I64, _address(ROUTINES[dtype][vector])), routine), arguments)
    b.ret_void()
