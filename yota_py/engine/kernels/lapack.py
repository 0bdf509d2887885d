"""LAPACK from SciPy: systems of equations, Cholesky factors and inverses of stacks of matrices, in place.

All in Fortran's order: the caller transposes, or asks for the other triangle.
"""

from __future__ import annotations

import functools
import itertools

from llvmlite import binding, ir

from ...registry.kernels import Routine
from ..maths.llvm import ELEMENTS, I8, I32, PTR, VOID, Value, Writer, const
from .emit import ERROR_SLOT, KERNEL
from .ir import DTYPES, Matrices

RAISED = 2  # the fault of a matrix that is singular, or not positive definite: NumPy raises an exception then


@functools.cache
def _symbol(routine: str) -> str:
    """The name by which the linker finds a routine."""
    from numba.extending import get_cython_function_address

    name = f"yota_py_{routine}"
    binding.add_symbol(name, get_cython_function_address("scipy.linalg.cython_lapack", routine))
    return name


def emit_lapack(module: ir.Module, name: str, dtype: str, routine: Routine, upper: bool) -> None:
    """Add a kernel that solves or factorizes each matrix of a stack; of Cholesky factors it leaves the ``upper``
    triangles, in Fortran's order, and zeros beside them."""
    function = ir.Function(module, KERNEL, name)
    w = Writer(function)
    b, (frame, words, *_), position = w.b, function.args, itertools.count()
    m = Matrices.read(lambda: w.word(words, next(position)))
    itemsize, prefix = const(DTYPES[dtype]), "d" if dtype == "float64" else "s"
    n, k, info = w.variable(b.trunc(m.n, I32)), w.variable(b.trunc(m.k, I32)), w.variable(ir.Constant(I32, 0))
    triangle = w.variable(ir.Constant(I8, ord("U" if upper else "L")))

    def pointer(slot: Value, offset: Value) -> Value:
        return w.byte(w.word(frame, slot, PTR), offset)

    def call(routine: str, *args: Value) -> None:
        w.call(_symbol(prefix + routine), VOID, *args, info)
        bad = b.icmp_signed("!=", b.load(info, typ=I32), ir.Constant(I32, 0))
        with b.if_then(bad):
            b.store(const(RAISED), w.at(frame, ERROR_SLOT))

    first, right = pointer(m.a, m.a_offset), pointer(m.b, m.b_offset)
    pivots, work = pointer(m.pivots, m.pivots_offset), pointer(m.work, m.work_offset)
    size, columns = (b.mul(itemsize, b.mul(m.n, extent)) for extent in (m.n, m.k))
    with w.loop(m.count) as i:
        a = w.byte(first, b.mul(i, size))
        if routine == "solve":
            call("gesv", n, k, a, n, pivots, w.byte(right, b.mul(i, columns)), n)
        elif routine == "inv":
            call("getrf", n, n, a, n, pivots)
            call("getri", n, a, n, pivots, work, n)
        else:
            call("potrf", triangle, n, a, n)
            with w.loop(m.n) as column, w.loop(m.n, start=b.add(column, const(1))) as row:
                outer, inner = (row, column) if not upper else (column, row)
                at = b.add(b.mul(outer, m.n), inner)
                b.store(ir.Constant(ELEMENTS[dtype], 0.0), b.gep(a, [at], source_etype=ELEMENTS[dtype]))
    b.ret_void()
