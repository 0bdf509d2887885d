"""Simplification: a table of equations that hold exactly in floating point, also for signed zeros, infinities and NaN.

Complex products are computed in parts, where an infinite one leaves NaN: most equations are of real numbers only.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.records import record
from ..base.types import ArrayType
from ..registry.kernels import Map
from ..registry.registry import primitive_of
from ..registry.tangents import astype, joined, strong_multiply
from ..tape.operations import Call, Operation, Variable
from ..tape.tape import Tape
from .rewrite import call, number_of


@record()
class Term:
    """A call on the right-hand side of an equation."""

    fn: Any
    args: tuple[Any, ...]


def _product(x: Any, y: Any) -> Term:
    return Term(np.multiply, (x, y))


class View:
    """What an equation may ask of its operands."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def number(self, x: Any) -> Any:
        """The number that x is in every element, if known."""
        return number_of(self.tape, x)

    def is_(self, x: Any, value: float) -> bool:
        """Whether x is this number in every element."""
        n = number_of(self.tape, x)
        return n is not None and bool(n == value)

    def is_plus_zero(self, x: Any) -> bool:
        """Whether x is zero without a sign in every element."""
        n = number_of(self.tape, x)
        return n is not None and bool(n == 0) and not np.signbit(np.real(n))

    def is_real(self, x: Any) -> bool:
        """Whether x is not complex."""
        t = self.tape.type_of(x)
        return isinstance(t, ArrayType) and t.dtype.kind != "c"

    def is_power(self, x: Any, exponent: Any, value: float) -> bool:
        """Whether this is a floating x to this power (others promote or round in their own way)."""
        t = self.tape.type_of(x)
        return isinstance(t, ArrayType) and t.dtype.char in "fd" and self.is_(exponent, value)

    def is_root(self, x: Any, exponent: Any) -> bool:
        """Whether NumPy takes the square root for this power: if the exponent is one number."""
        return self.is_power(x, exponent, 0.5) and self.tape.type_of(exponent).shape == ()

    def finite_nonzero(self, x: Any, other: Any) -> bool:
        """Whether x is one finite number other than zero in every element, also in the precision of ``other``."""
        n, t = number_of(self.tape, x), self.tape.type_of(other)
        if n is None or n == 0:
            return False
        inexact = isinstance(t, ArrayType) and t.dtype.kind in "fc"
        size = abs(n) if isinstance(n, int) else float(abs(n))  # NumPy's own would take the limit as one of its kind
        return size <= min(float(np.finfo(t.dtype).max) if inexact else math.inf, sys.float_info.max)

    def inner(self, x: Any, *fns: Any) -> tuple[Any, ...] | None:
        """The arguments of x if it is a call of one of these functions, without keywords."""
        op = self.tape[x] if isinstance(x, Variable) else None
        return op.args if isinstance(op, Call) and op.fn in fns and not op.kwargs else None

    def only_inner(self, x: Any, *fns: Any) -> Any:
        """The argument of x if it is a call of one of these functions with one argument."""
        inner = self.inner(x, *fns)
        return inner[0] if inner is not None and len(inner) == 1 else None


def _reshape_twice(v: View, x: Any, shape: Any) -> Term | None:
    inner = v.inner(x, np.reshape)
    return Term(np.reshape, (inner[0], shape)) if inner is not None else None


# Each row: functions on the left-hand side, the equation, and the right-hand side (None where it does not apply).
Equation = tuple[tuple[Any, ...], str, Callable[..., Any]]

_MUL, _NEG = (np.multiply, operator.mul), (np.negative, operator.neg)
_POW = (np.power, operator.pow)

EQUATIONS: list[Equation] = [
    (_MUL, "x * 1 = x", lambda v, x, y: x if v.is_(y, 1) and v.is_real(x) else None),
    (_MUL, "1 * x = x", lambda v, x, y: y if v.is_(x, 1) and v.is_real(y) else None),
    (_MUL, "x * -1 = -x", lambda v, x, y: Term(np.negative, (x,)) if v.is_(y, -1) and v.is_real(x) else None),
    (_MUL, "-1 * x = -x", lambda v, x, y: Term(np.negative, (y,)) if v.is_(x, -1) and v.is_real(y) else None),
    ((np.divide, operator.truediv), "x / 1 = x", lambda v, x, y: x if v.is_(y, 1) and v.is_real(x) else None),
    ((np.subtract, operator.sub), "x - +0 = x", lambda v, x, y: x if v.is_plus_zero(y) and v.is_real(x) else None),
    (_NEG, "-(-x) = x", lambda v, x: v.only_inner(x, *_NEG)),
    ((np.positive, operator.pos), "+x = x", lambda v, x: x),
    (_POW, "x ** 1 = x", lambda v, x, y: x if v.is_power(x, y, 1) else None),
    (_POW, "x ** 2 = x * x", lambda v, x, y: _product(x, x) if v.is_power(x, y, 2) else None),
    (_POW, "x ** 3 = x * x * x", lambda v, x, y: _product(x, _product(x, x)) if v.is_power(x, y, 3) else None),
    ((np.power,), "x ** 0.5 = sqrt x", lambda v, x, y: Term(np.sqrt, (x,)) if v.is_root(x, y) else None),
    (_POW, "x ** -1 = 1 / x", lambda v, x, y: Term(np.divide, (1.0, x)) if v.is_power(x, y, -1) else None),
    ((strong_multiply,), "1 * p = p", lambda v, dy, p: p if v.is_(dy, 1) and v.is_real(p) else None),
    ((strong_multiply,), "c * p, c not 0", lambda v, dy, p: _product(dy, p) if v.finite_nonzero(dy, p) else None),
    ((strong_multiply,), "dy * 1 = dy", lambda v, dy, p: dy if v.is_(p, 1) and v.is_real(dy) else None),
    ((strong_multiply,), "dy * c, c finite", lambda v, dy, p: _product(dy, p) if v.finite_nonzero(p, dy) else None),
    ((np.transpose,), "x.T.T = x", lambda v, x: v.only_inner(x, np.transpose)),
    ((np.reshape, np.broadcast_to), "to its own shape", lambda v, x, shape: x if _has_shape(v, x, shape) else None),
    ((np.reshape,), "reshape of reshape", _reshape_twice),
    ((astype,), "to its own dtype", lambda v, x, dtype: x if v.tape.type_of(x).dtype == np.dtype(dtype) else None),
    ((np.real,), "real(joined(x, y)) = x", lambda v, x: _part(v, x, 0)),
    ((np.imag,), "imag(joined(x, y)) = y", lambda v, x: _part(v, x, 1)),
    ((joined,), "joined(real z, imag z) = z", lambda v, x, y: _whole(v, x, y)),
    ((np.conj, np.real), "of a real value", lambda v, x: x if v.tape.type_of(x).dtype.kind != "c" else None),
]  # fmt: skip


def _part(v: View, x: Any, i: int) -> Any:
    inner = v.inner(x, joined)
    return None if inner is None else inner[i]


def _whole(v: View, x: Any, y: Any) -> Any:
    z = v.only_inner(x, np.real)
    return z if z is not None and z == v.only_inner(y, np.imag) else None


def _has_shape(v: View, x: Any, shape: Any) -> bool:
    t = v.tape.type_of(x)
    return bool(t.kind == "array" and t.shape == (tuple(shape) if isinstance(shape, tuple | list) else (shape,)))


# By the function on the left-hand side and the number of its operands.
_TABLE: dict[tuple[Any, int], list[Callable[..., Any]]] = {}
for _fns, _, _right in EQUATIONS:
    for _fn in _fns:
        _TABLE.setdefault((_fn, _right.__code__.co_argcount - 1), []).append(_right)


def simplify(tape: Tape) -> Tape:
    """Apply the equations, and drop broadcasts that the operation using them does anyway."""
    return tape.rewrite(_visit)


def _visit(out: Tape, op: Operation) -> Any:
    if not isinstance(op, Call) or op.kwargs or not isinstance(op.type, ArrayType):
        return out.append(op)
    view = View(out)
    for right in _TABLE.get((op.fn, len(op.args)), ()):
        found = right(view, *op.args)
        if found is None:
            continue
        if isinstance(found, Term):
            if _computes(out, found, op.type):
                return _build(out, op, found)
            continue
        if _stands_for(out.type_of(found), op.type):
            return found
    return out.append(_unbroadcast_operands(out, op))


def _computes(out: Tape, term: Term, want: ArrayType) -> bool:
    """Whether a right-hand side has the left-hand side's dtype and shape: its operands have that dtype, or are weak.

    From real numbers alone it has no complex result, other than Python's ``(-2.0) ** 0.5``.
    """
    shapes, real = [], want.dtype.kind == "c"
    for arg in term.args:
        if isinstance(arg, Term):
            if not _computes(out, arg, want):
                return False
            shapes.append(want.shape)
            real = False
            continue
        t = out.type_of(arg)
        if isinstance(t, ArrayType):
            if t.dtype != want.dtype and t.kind != "python":
                return False
            shapes.append(t.shape)
            real = real and t.dtype.kind != "c"
    if real:
        return False
    return term.fn is np.reshape or np.broadcast_shapes(*shapes) == want.shape


def _stands_for(have: Any, want: ArrayType) -> bool:
    """Whether a value has the dtype and shape of another, is an array if that is one, and promotes likewise."""
    if not isinstance(have, ArrayType) or any((have.kind == k) != (want.kind == k) for k in ("array", "python")):
        return False
    return (have.shape, have.dtype) == (want.shape, want.dtype)


def _build(out: Tape, op: Call, term: Term) -> Variable:
    args = tuple(_build(out, op, arg) if isinstance(arg, Term) else arg for arg in term.args)
    return call(out, op, term.fn, *args)


def _unbroadcast_operands(out: Tape, op: Call) -> Call:
    """Operands of elementwise operations need no ``broadcast_to`` if another operand has the result's shape."""
    entry = primitive_of(op.fn)
    assert isinstance(op.type, ArrayType)
    if entry is None or not isinstance(entry.kernel, Map) or op.type.kind != "array":
        return op
    args = list(op.args)
    if not all(isinstance(out.type_of(x), ArrayType) for x in args):
        return op
    for i, x in enumerate(args):
        inner = View(out).inner(x, np.broadcast_to)
        if inner is None or out.type_of(inner[0]).dtype != out.type_of(x).dtype:
            continue
        if (number := number_of(out, x)) is not None:
            source = number  # of the array's dtype, so that it promotes like the array
        elif out.type_of(inner[0]).kind == "python":
            continue
        else:
            source = inner[0]
        others = [out.type_of(a).shape for a in (*args[:i], source, *args[i + 1 :])]
        if np.broadcast_shapes(*others) == op.type.shape:
            args[i] = source
    return Call(op.fn, tuple(args), op.kwargs, op.type, op.site, op.note)
