"""Lines of numbers put in order by NumPy's own functions, and searches in such: NaN stands behind all numbers."""

from __future__ import annotations

import itertools

import numpy as np
from llvmlite import ir

from ..maths.llvm import ELEMENTS, I32, I64, NULL, PTR, Unsigned, Value, Writer, const, offered
from .codegen import Method, sorting
from .emit import ERROR_SLOT, KERNEL
from .ir import Lines, Places
from .lapack import RAISED


def emit_sort(module: ir.Module, name: str, dtype: str, method: Method, *, places: bool) -> None:
    """Add a kernel that sorts each of several lines in place; or that writes the ``places`` of the elements of lines
    in the order of these."""
    function = ir.Function(module, KERNEL, name)
    w = Writer(function)
    b, (frame, words, *_), position = w.b, function.args, itertools.count()
    at = Lines.read(lambda: w.word(words, next(position)))
    known = sorting(dtype, method, places=places)
    assert known is not None
    source = w.byte(w.word(frame, at.source, PTR), at.source_offset)
    target = w.byte(w.word(frame, at.target, PTR), at.target_offset)
    bytes_of_line = b.mul(at.n, const(np.dtype(dtype).itemsize))
    with w.loop(at.count) as i:
        if places:
            line, order = w.byte(source, b.mul(i, bytes_of_line)), w.at(target, b.mul(i, at.n))
            with w.loop(at.n) as k:
                b.store(k, w.at(order, k))
            failed = w.call(offered("numpy", known), I32, line, order, at.n, NULL)
        else:
            failed = w.call(offered("numpy", known), I32, w.byte(target, b.mul(i, bytes_of_line)), at.n, NULL)
        with b.if_then(b.icmp_signed("!=", failed, ir.Constant(I32, 0))):  # there is no memory
            b.store(const(RAISED), w.at(frame, ERROR_SLOT))
    b.ret_void()


def emit_search(module: ir.Module, name: str, dtype: str, *, behind: bool) -> None:
    """Add a kernel that finds the index in a table before which a number belongs, by bisection; ``behind`` what is
    equal."""
    function = ir.Function(module, KERNEL, name)
    w = Writer(function)
    b, (frame, words, *_), position = w.b, function.args, itertools.count()
    at, kind = Places.read(lambda: w.word(words, next(position))), ELEMENTS[dtype]
    table, x, target = (
        w.byte(w.word(frame, slot, PTR), offset)
        for slot, offset in ((at.table, at.table_offset), (at.x, at.x_offset), (at.target, at.target_offset))
    )

    def element(array: Value, index: Value) -> Value:
        return b.load(b.gep(array, [index], source_etype=kind), typ=kind)

    def less(first: Value, second: Value) -> Value:
        if isinstance(kind, ir.IntType):
            return (b.icmp_unsigned if isinstance(kind, Unsigned) else b.icmp_signed)("<", first, second)
        last = b.and_(b.fcmp_unordered("uno", second, second), b.fcmp_ordered("ord", first, first))
        return b.or_(b.fcmp_ordered("<", first, second), last)

    bounds = w.variable(const(0)), w.variable(const(0))

    def between() -> tuple[Value, Value]:
        low, high = (b.load(bound, typ=I64) for bound in bounds)
        return low, high

    with w.loop(at.count) as i:
        wanted = element(x, i)
        for bound, value in zip(bounds, (const(0), at.n), strict=True):
            b.store(value, bound)
        with w.repeated(lambda: b.icmp_signed("<", *between())):
            low, high = between()
            middle = b.add(low, b.lshr(b.sub(high, low), const(1)))
            found = element(table, middle)
            after = b.not_(less(wanted, found)) if behind else less(found, wanted)
            b.store(b.select(after, b.add(middle, const(1)), low), bounds[0])
            b.store(b.select(after, high, middle), bounds[1])
        b.store(between()[0], w.at(target, i))
    b.ret_void()
