"""LAPACK from SciPy: systems of equations, Cholesky factors, inverses and determinants of stacks of matrices, in place.

All in Fortran's order, as NumPy calls them, so that the same matrices are singular: the caller transposes. A triangle
that is only read may lie in either order.
"""

from __future__ import annotations

import itertools

import numpy as np
from llvmlite import ir

from ...registry.kernels import Routine
from ..maths.builder import VecMath
from ..maths.llvm import ELEMENTS, I1, I8, I32, I64, PTR, VOID, Value, Writer, const, offered
from .emit import ERROR_SLOT, KERNEL
from .ir import DTYPES, Matrices

WORKSPACE = 10  # words of 32 bits for each row: numbers and integers that a condition number takes, and pivots
LANES = 32  # numbers that are looked at together
WELL = 100  # times the precision: matrices whose reciprocal condition number is less are left to SciPy, which warns
RAISED = 2  # the fault of a matrix that is singular, or not positive definite: NumPy raises an exception then


def emit_lapack(
    module: ir.Module, name: str, dtype: str, routine: Routine, *, upper: bool, finite: bool = False,
    turned: bool = False,
) -> None:  # fmt: skip
    """Add a kernel that solves or factorizes each matrix of a stack; of Cholesky factors it leaves the ``upper``
    triangles, in Fortran's order, and zeros beside them. Unless all is ``finite`` it fails. Triangular matrices that
    are ``turned`` lie in C's order."""
    function = ir.Function(module, KERNEL, name)
    w = Writer(function)
    b, (frame, words, *_), position = w.b, function.args, itertools.count()
    m = Matrices.read(lambda: w.word(words, next(position)))
    itemsize, prefix = const(DTYPES[dtype]), "d" if dtype == "float64" else "s"
    n, k, info = w.variable(b.trunc(m.n, I32)), w.variable(b.trunc(m.k, I32)), w.variable(ir.Constant(I32, 0))
    letters = "U" if upper != turned else "L", "N", "T" if turned else "N"
    triangle, as_is, seen = (w.variable(ir.Constant(I8, ord(letter))) for letter in letters)

    def pointer(slot: Value, offset: Value) -> Value:
        return w.byte(w.word(frame, slot, PTR), offset)

    def call(routine: str, *args: Value, fails: bool = True) -> Value:
        w.call(offered("scipy.linalg.cython_lapack", prefix + routine), VOID, *args, info)
        bad = b.icmp_signed("!=", b.load(info, typ=I32), ir.Constant(I32, 0))
        if fails:
            with b.if_then(bad):
                b.store(const(RAISED), w.at(frame, ERROR_SLOT))
        return bad

    first, right = pointer(m.a, m.a_offset), pointer(m.b, m.b_offset)
    pivots = pointer(m.pivots, m.pivots_offset)
    size, columns = (b.mul(itemsize, b.mul(m.n, extent)) for extent in (m.n, m.k))
    if finite:
        given = [(first, m.n), (right, m.k)] if routine in ("solve", "triangular", "factored") else [(first, m.n)]
        for start, extent in given:
            bad = _not_finite(w, start, b.mul(m.count, b.mul(m.n, extent)), ELEMENTS[dtype])
            with b.if_then(bad):
                b.store(const(RAISED), w.at(frame, ERROR_SLOT))
    with w.loop(m.count) as i:
        a = w.byte(first, b.mul(i, size))
        if finite and routine in ("solve", "inv"):
            y = w.byte(right, b.mul(i, columns))
            _identity(w, y, m.n, dtype) if routine == "inv" else None
            norm, reciprocal = (w.variable(ir.Constant(ELEMENTS[dtype], 0.0)) for _ in range(2))
            one = w.variable(ir.Constant(I8, ord("1")))
            integers = w.byte(pivots, b.mul(m.n, const(8 * 4)))
            swaps = w.byte(integers, b.mul(m.n, const(4)))
            lange = offered("scipy.linalg.cython_lapack", f"{prefix}lange")
            b.store(w.call(lange, ELEMENTS[dtype], one, n, n, a, n, pivots), norm)
            call("getrf", n, n, a, n, swaps)
            call("gecon", one, n, a, n, norm, reciprocal, pivots, integers)
            least = ir.Constant(ELEMENTS[dtype], WELL * float(np.finfo(dtype).eps))
            with b.if_then(b.fcmp_unordered("<", b.load(reciprocal, typ=ELEMENTS[dtype]), least)):
                b.store(const(RAISED), w.at(frame, ERROR_SLOT))
            call("getrs", as_is, n, n if routine == "inv" else k, a, n, swaps, y, n)
        elif routine == "solve":
            call("gesv", n, k, a, n, pivots, w.byte(right, b.mul(i, columns)), n)
        elif routine == "triangular":
            call("trtrs", triangle, seen, as_is, n, k, a, n, w.byte(right, b.mul(i, columns)), n)
        elif routine == "factored":
            call("potrs", triangle, n, k, a, n, w.byte(right, b.mul(i, columns)), n)
        elif routine in ("inv", "cofactors"):  # as NumPy does: a system with the identity
            y = w.byte(right, b.mul(i, columns))
            _identity(w, y, m.n, dtype)
            call("gesv", n, n, a, n, pivots, y, n)
            if routine == "cofactors":
                sign, log = _determinant(w, a, pivots, m.n, dtype)
                det = b.fmul(sign, w.call(f"llvm.exp.{_SUFFIX[dtype]}", ELEMENTS[dtype], log))
                with w.loop(b.mul(m.n, m.n)) as at:
                    place = b.gep(y, [at], source_etype=ELEMENTS[dtype])
                    b.store(b.fmul(det, b.load(place, typ=ELEMENTS[dtype])), place)
        elif routine == "slogdet":
            singular = call("getrf", n, n, a, n, pivots, fails=False)
            sign, log = _determinant(w, a, pivots, m.n, dtype)
            kind = ELEMENTS[dtype]
            sign = b.select(singular, ir.Constant(kind, 0.0), sign)
            log = b.select(singular, ir.Constant(kind, float("-inf")), log)
            for at, value in ((0, sign), (1, log)):
                b.store(value, b.gep(right, [b.add(b.mul(i, const(2)), const(at))], source_etype=kind))
        else:
            call("potrf", triangle, n, a, n)
            with w.loop(m.n) as column, w.loop(m.n, start=b.add(column, const(1))) as row:
                outer, inner = (row, column) if not upper else (column, row)
                at = b.add(b.mul(outer, m.n), inner)
                b.store(ir.Constant(ELEMENTS[dtype], 0.0), b.gep(a, [at], source_etype=ELEMENTS[dtype]))
    b.ret_void()


def _not_finite(w: Writer, start: Value, count: Value, kind: ir.Type) -> Value:
    """Whether one of so many numbers is infinite or NaN."""
    b = w.b

    def look(lanes: int, stop: Value, first: Value | None = None) -> tuple[Value, Value]:
        """Whether one up to ``stop`` is, so many at once, and which is the first that is left."""
        math = VecMath(b, lanes)
        found, vector = w.variable(math.const(0, I1)), math.type(kind)
        with w.loop(stop, lanes, first) as at:
            numbers = b.load(b.gep(start, [at], source_etype=kind), typ=vector, align=1)
            b.store(math.logical_or(b.load(found, typ=math.type(I1)), math.logical_not(math.isfinite(numbers))), found)
        return b.load(found, typ=math.type(I1)), at

    some, at = look(LANES, b.sub(count, const(LANES - 1)))
    rest, _ = look(1, count, at)
    return b.or_(w.call(f"llvm.vector.reduce.or.v{LANES}i1", I1, some), rest)


def _identity(w: Writer, y: Value, n: Value, dtype: str) -> None:
    kind = ELEMENTS[dtype]
    with w.loop(w.b.mul(n, n)) as at:
        w.b.store(ir.Constant(kind, 0.0), w.b.gep(y, [at], source_etype=kind))
    with w.loop(n) as i:
        w.b.store(ir.Constant(kind, 1.0), w.b.gep(y, [w.b.mul(i, w.b.add(n, const(1)))], source_etype=kind))


_SUFFIX = {"float64": "f64", "float32": "f32"}


def _determinant(w: Writer, a: Value, pivots: Value, n: Value, dtype: str) -> tuple[Value, Value]:
    """The sign and the logarithm of the size of the determinant of a matrix that is factorized, as NumPy has them."""
    b, kind = w.b, ELEMENTS[dtype]
    sign, log = w.variable(ir.Constant(kind, 1.0)), w.variable(ir.Constant(kind, 0.0))
    b.store(ir.Constant(kind, 1.0), sign)
    b.store(ir.Constant(kind, 0.0), log)
    with w.loop(n) as i:
        element = b.load(b.gep(a, [b.add(b.mul(i, n), i)], source_etype=kind), typ=kind)
        pivot = b.sext(b.load(b.gep(pivots, [i], source_etype=I32), typ=I32), I64)
        swapped = b.icmp_signed("!=", pivot, b.add(i, const(1)))
        negative = b.fcmp_ordered("<", element, ir.Constant(kind, 0.0))
        now = b.load(sign, typ=kind)
        b.store(b.select(b.xor(swapped, negative), b.fneg(now), now), sign)
        size = w.call(f"llvm.fabs.{_SUFFIX[dtype]}", kind, element)
        b.store(b.fadd(b.load(log, typ=kind), w.call(f"llvm.log.{_SUFFIX[dtype]}", kind, size)), log)
    return b.load(sign, typ=kind), b.load(log, typ=kind)
