"""Elementwise arithmetic on LLVM values: vectors of `lanes` elements, or scalars when `lanes` is 1."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from llvmlite import ir

from .formats import FORMATS, Format
from .llvm import DOUBLE, FLOAT, HALF, I1, I16, I32, I64, U64, Unsigned, Value, declared, offered

Unary = Callable[["Arithmetic", Value], Value]
Binary = Callable[["Arithmetic", Value, Value], Value]

# a*b + c may be fused; nothing else may change a result (NaN, infinities and signed zeros stay right).
CONTRACT = ("contract",)


@functools.cache
def _constant(element: ir.Type, lanes: int, number: str) -> ir.Constant:
    """One object for each constant of a process: it keeps its text, and to write eight numbers takes long."""
    value = float.fromhex(number) if element in FORMATS else int(number)
    if lanes == 1:
        return ir.Constant(element, value)
    return ir.Constant(ir.VectorType(element, lanes), [ir.Constant(element, value)] * lanes)


def _intrinsic(stem: str) -> Unary:
    def method(self: Arithmetic, x: Value) -> Value:
        return self.intrinsic(stem, x)

    return method


def _rounding(stem: str) -> Unary:
    """Rounding to whole numbers: integers and booleans are such."""

    def method(self: Arithmetic, x: Value) -> Value:
        return self.intrinsic(stem, x) if self.element(x) in FORMATS else x

    return method


def _arithmetic(on_floats: str, on_ints: str, on_bools: str) -> Binary:
    def method(self: Arithmetic, a: Value, b: Value) -> Value:
        element = self.element(a)
        if element in FORMATS:
            return getattr(self.builder, on_floats)(a, b, flags=CONTRACT)
        return getattr(self.builder, on_bools if element == I1 else on_ints)(a, b)

    return method


def _comparison(operator: str) -> Binary:
    def method(self: Arithmetic, a: Value, b: Value) -> Value:
        element = self.element(a)
        if element in FORMATS:
            # NumPy: a comparison with NaN is false, but NaN != NaN.
            compare = self.builder.fcmp_unordered if operator == "!=" else self.builder.fcmp_ordered
        elif self.signed(a) != self.signed(b):
            return _compared(self, operator, a, b)
        else:
            compare = self.builder.icmp_signed if self.signed(a) else self.builder.icmp_unsigned
        return compare(operator, a, b)

    return method


def _compared(k: Arithmetic, operator: str, a: Value, b: Value) -> Value:
    """Of int64 and uint64, which both fit into no integer: what is negative is less."""
    signed, holds = (a, ("<", "<=", "!=")) if k.signed(a) else (b, (">", ">=", "!="))
    rest = k.builder.icmp_unsigned(operator, k.cast(a, U64), k.cast(b, U64))
    return k.select(k.lt(signed, k.const(0, signed)), k.const(operator in holds, I1), rest)


def _bitwise(instruction: str) -> Binary:
    def method(self: Arithmetic, a: Value, b: Value) -> Value:
        return getattr(self.builder, instruction)(a, b)

    return method


def _logical(instruction: str) -> Binary:
    def method(self: Arithmetic, a: Value, b: Value) -> Value:
        return getattr(self.builder, instruction)(self.truth(a), self.truth(b))

    return method


class Arithmetic:
    """What needs no approximation: constants, casts, arithmetic, comparisons, choice, calls of intrinsics and libm.

    Values are `<lanes x T>` vectors, or plain `T` when `lanes` is 1, with T one of double, float, integers of 8 to 64
    bits with and without a sign, i1 (NumPy's bool). Halves have conversions only. Integers have `add sub mul neg abs
    sign square maximum minimum fmax fmin floor ceil trunc`, the comparisons, `isnan isinf isfinite`, `logical_*` and
    `bitwise_*`; all else wants floats. More lanes than a register holds are allowed, and hide the latency of a long
    expression.
    """

    def __init__(self, builder: ir.IRBuilder, lanes: int, *, halves: bool = False) -> None:
        self.builder = builder
        self.lanes = lanes
        self.halves = halves  # whether the machine has instructions that convert them

    # ---------------------------------------------------------------- types and constants

    def type(self, element: ir.Type) -> ir.Type:
        """The type of a value whose elements are of type `element`."""
        return element if self.lanes == 1 else ir.VectorType(element, self.lanes)

    def element(self, value: Value) -> ir.Type:
        """The type of one element of `value`."""
        return value.type if self.lanes == 1 else value.type.element

    def signed(self, value: Value) -> bool:
        """Whether integers have a sign; booleans have none."""
        return not isinstance(self.element(value), Unsigned) and self.element(value) != I1

    def const(self, number: float | int | bool, like: Value | ir.Type) -> Value:
        """`number` in all lanes, with the element type of a value, or with a given element type."""
        element = like if isinstance(like, ir.Type) else self.element(like)
        # By its text, as 0.0 == -0.0 and NaN != NaN.
        return _constant(element, self.lanes, float(number).hex() if element in FORMATS else str(int(number)))

    def cast(self, value: Value, element: ir.Type) -> Value:
        """Convert as `astype` does; a float that does not fit an integer gives an unspecified integer."""
        source, target = self.element(value), self.type(element)
        if source == element:
            return value
        if source == HALF:
            return self.cast(self._single(value), element)
        if element == HALF:
            return self._half(self._to_odd(value) if source == DOUBLE else self.cast(value, FLOAT))
        if element == I1:
            return self.ne(value, self.const(0, value))
        if source in FORMATS and element in FORMATS:
            return (self.builder.fpext if element == DOUBLE else self.builder.fptrunc)(value, target)
        if source in FORMATS:
            return (self.builder.fptoui if isinstance(element, Unsigned) else self.builder.fptosi)(value, target)
        if element in FORMATS:
            return (self.builder.sitofp if self.signed(value) else self.builder.uitofp)(value, target)
        if element.width > source.width:
            return (self.builder.sext if self.signed(value) else self.builder.zext)(value, target)
        return (self.builder.trunc if element.width < source.width else self.builder.bitcast)(value, target)

    def _word(self, number: int) -> Value:
        return self.const(number, I32)

    def _single(self, half: Value) -> Value:
        """A half as a float: its exponent counts from another number, but for infinities and NaN; what is subnormal
        is a sum without its leading one."""
        b, const = self.builder, self._word
        if self.halves:
            return b.fpext(b.bitcast(half, self.type(ir.HalfType())), self.type(FLOAT))
        bits = b.zext(half, self.type(I32))
        size = b.shl(b.and_(bits, const(0x7FFF)), const(13))
        moved = b.add(size, const(112 << 23))
        special = b.icmp_unsigned(">=", size, const(0x7C00 << 13))
        moved = self.select(special, b.add(moved, const(112 << 23)), moved)
        one = self.const(2.0**-14, FLOAT)
        small = self.bits(b.fsub(self.number(b.add(moved, const(1 << 23))), one))
        moved = self.select(b.icmp_unsigned("<", size, const(0x400 << 13)), small, moved)
        return self.number(b.or_(moved, b.shl(b.and_(bits, const(0x8000)), const(16))))

    def _half(self, single: Value) -> Value:
        """A float as the half next to it, of two the even one; what is subnormal is rounded by an addition."""
        b, const = self.builder, self._word
        if self.halves:  # behind a fence, or a product and a sum of halves would be made one, and rounded once
            single = self.intrinsic("llvm.arithmetic.fence", single)
            return b.bitcast(b.fptrunc(single, self.type(ir.HalfType())), self.type(HALF))
        bits = self.bits(single)
        size = b.and_(bits, const(0x7FFFFFFF))
        odd = b.and_(b.lshr(size, const(13)), const(1))
        moved = b.lshr(b.add(b.add(size, const(0xFFF - (112 << 23))), odd), const(13))
        half = self.const(0.5, FLOAT)
        small = b.sub(self.bits(b.fadd(self.number(size), half)), self.bits(half))
        moved = self.select(b.icmp_unsigned("<", size, const(113 << 23)), small, moved)
        special = self.select(b.icmp_unsigned(">", size, const(0xFF << 23)), const(0x7E00), const(0x7C00))
        moved = self.select(b.icmp_unsigned(">=", size, const(143 << 23)), special, moved)
        signed = b.or_(moved, b.and_(b.lshr(bits, const(16)), const(0x8000)))
        return b.bitcast(b.trunc(signed, self.type(I16)), self.type(HALF))

    def _to_odd(self, double: Value) -> Value:
        """A float on the way to a half, which is to be rounded once: toward zero, and odd if it is not exact."""
        near = self.cast(double, FLOAT)
        back = self.abs(self.cast(near, DOUBLE))
        inexact, beyond = self.ne(back, self.abs(double)), self.gt(back, self.abs(double))
        bits, one = self.bits(near), self.const(1, I32)
        bits = self.select(beyond, self.builder.sub(bits, one), bits)
        odd = self.number(self.builder.or_(bits, one))
        return self.select(self.logical_and(inexact, self.eq(double, double)), odd, near)

    # ---------------------------------------------------------------- arithmetic

    add = _arithmetic("fadd", "add", "or_")
    sub = _arithmetic("fsub", "sub", "xor")
    mul = _arithmetic("fmul", "mul", "and_")

    def div(self, a: Value, b: Value) -> Value:
        """True division of floats."""
        return self.builder.fdiv(a, b, flags=CONTRACT)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a*b + c, rounded once where the machine can."""
        return self.intrinsic("llvm.fmuladd", a, b, c)

    def neg(self, x: Value) -> Value:
        return self.builder.fneg(x) if self.element(x) in FORMATS else self.builder.sub(self.const(0, x), x)

    def abs(self, x: Value) -> Value:
        if self.element(x) in FORMATS:
            return self.intrinsic("llvm.fabs", x)
        return self.select(self.lt(x, self.const(0, x)), self.neg(x), x)

    sqrt = _intrinsic("llvm.sqrt")
    floor, ceil, trunc = _rounding("llvm.floor"), _rounding("llvm.ceil"), _rounding("llvm.trunc")
    rint = _intrinsic("llvm.rint")

    def square(self, x: Value) -> Value:
        return self.mul(x, x)

    def reciprocal(self, x: Value) -> Value:
        return self.div(self.const(1, x), x)

    def copysign(self, a: Value, b: Value) -> Value:
        return self.intrinsic("llvm.copysign", a, b)

    def sign(self, x: Value) -> Value:
        zero = self.const(0, x)
        # What is neither positive, negative nor zero is NaN, and stays.
        rest = self.select(self.eq(x, zero), zero, x)
        rest = self.select(self.lt(x, zero), self.const(-1, x), rest)
        return self.select(self.gt(x, zero), self.const(1, x), rest)

    # ---------------------------------------------------------------- comparisons, booleans, choice

    lt, le, gt = _comparison("<"), _comparison("<="), _comparison(">")
    ge, eq, ne = _comparison(">="), _comparison("=="), _comparison("!=")

    bitwise_and, bitwise_or, bitwise_xor = _bitwise("and_"), _bitwise("or_"), _bitwise("xor")
    logical_and, logical_or, logical_xor = _logical("and_"), _logical("or_"), _logical("xor")

    def bitwise_not(self, x: Value) -> Value:
        return self.builder.xor(x, self.const(-1, x))

    def truth(self, x: Value) -> Value:
        """Whether x is not zero."""
        return self.cast(x, I1)

    def logical_not(self, x: Value) -> Value:
        return self.bitwise_not(self.truth(x))

    def isnan(self, x: Value) -> Value:
        return self.ne(x, x)

    def isinf(self, x: Value) -> Value:
        return self.eq(self.abs(x), self.const(float("inf"), x)) if self.element(x) in FORMATS else self.ne(x, x)

    def isfinite(self, x: Value) -> Value:
        return self.lt(self.abs(x), self.const(float("inf"), x)) if self.element(x) in FORMATS else self.eq(x, x)

    def signbit(self, x: Value) -> Value:
        bits = self.bits(x)
        return self.lt(bits, self.const(0, bits))

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        """a where the mask holds, else b."""
        return self.builder.select(mask, a, b)

    def maximum(self, a: Value, b: Value) -> Value:
        return self._extreme(">", a, b, a)

    def minimum(self, a: Value, b: Value) -> Value:
        return self._extreme("<", a, b, a)

    def fmax(self, a: Value, b: Value) -> Value:
        return self._extreme(">", a, b, b)

    def fmin(self, a: Value, b: Value) -> Value:
        return self._extreme("<", a, b, b)

    def _extreme(self, operator: str, a: Value, b: Value, nan_in: Value) -> Value:
        """a where `a operator b`, else b, which is so with two zeros in NumPy too; but a where `nan_in` is NaN."""
        result = self.select(_comparison(operator)(self, a, b), a, b)
        return self.select(self.isnan(nan_in), a, result) if self.element(a) in FORMATS else result

    # ---------------------------------------------------------------- calls, bits

    def intrinsic(self, stem: str, *args: Value) -> Value:
        """A function of LLVM, such as `llvm.fma`."""
        lanes = "" if self.lanes == 1 else f"v{self.lanes}"
        name = f"{stem}.{lanes}{self.format(args[0]).name}"
        return self.builder.call(declared(self.builder.module, name, args[0].type, [a.type for a in args]), args)

    def lane_by_lane(self, name: str, *args: Value) -> Value:
        """A function of libm, called for each lane."""
        element = self.element(args[0])
        name += FORMATS[element].suffix
        return self._each_lane(declared(self.builder.module, name, element, [element] * len(args)), args)

    def of_doubles(self, module: str, name: str, *args: Value) -> Value:
        """A function that a module offers to Cython, called for each lane; its last argument says how it is called."""
        element = self.element(args[0])
        function = declared(self.builder.module, offered(module, name), DOUBLE, [DOUBLE] * len(args) + [I32])
        doubles = [self.cast(a, DOUBLE) for a in args]
        return self.cast(self._each_lane(function, doubles, ir.Constant(I32, 0)), element)

    def _each_lane(self, function: Value, args: Sequence[Value], *more: Value) -> Value:
        if self.lanes == 1:
            return self.builder.call(function, [*args, *more])
        result = ir.Constant(args[0].type, ir.Undefined)
        for lane in range(self.lanes):
            index = ir.Constant(I32, lane)
            scalars = [self.builder.extract_element(a, index) for a in args]
            result = self.builder.insert_element(result, self.builder.call(function, [*scalars, *more]), index)
        return result

    def format(self, value: Value) -> Format:
        """The format of floats."""
        return FORMATS[self.element(value)]

    def bits(self, x: Value) -> Value:
        """Floats as integers of the same bits."""
        return self.builder.bitcast(x, self.type(self.format(x).integer))

    def number(self, bits: Value) -> Value:
        """Integers as floats of the same bits."""
        return self.builder.bitcast(bits, self.type(DOUBLE if self.element(bits) == I64 else FLOAT))
