"""Lines of numbers put in order by NumPy's own functions: NaN and what is equal come as NumPy has them."""

from __future__ import annotations

import itertools

import numpy as np
from llvmlite import ir

from ..maths.llvm import I32, NULL, PTR, Writer, const, offered
from .emit import ERROR_SLOT, KERNEL
from .ir import Lines
from .lapack import RAISED
from .numpys import Method, sorting


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
