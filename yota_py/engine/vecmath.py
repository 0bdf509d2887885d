"""Elementwise mathematics on LLVM values: vectors of `lanes` elements, or scalars when `lanes` is 1.

LLVM has no vector exp or sin of its own, and a call to libm keeps a fused loop scalar; so the common
functions are written here as straight-line arithmetic, with selects in the place of branches. The algorithms
are the classical ones:

* Cody and Waite, "Software Manual for the Elementary Functions" (1980): reduction by a split constant;
* fdlibm (Sun Microsystems, 1993), `e_log.c`, `e_log10.c`, `k_sin.c`, `k_cos.c`, `e_sinh.c`: the shape of the
  kernels, and which part is added to which;
* Knuth, TAOCP vol. 2, 4.2.2, and Dekker, Numer. Math. 18 (1971): the error of a sum.

The polynomials are minimax on the intervals noted below (Remez exchange at 200 bits, then rounded).
What is rare goes lane by lane to libm.

Names: x argument, n integer part of a reduction, r or f reduced argument, s power of two, z square.
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from llvmlite import ir

Value: TypeAlias = Any  # an ir.Value; llvmlite comes without types
Unary = Callable[["VecMath", Value], Value]
Binary = Callable[["VecMath", Value, Value], Value]

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()

# a*b + c may be fused; nothing else may change a result (NaN, infinities and signed zeros stay right).
CONTRACT = ("contract",)


@dataclass(frozen=True, slots=True)
class Format:
    """One binary floating-point format: its layout, its thresholds, and polynomials of its precision."""

    name: str  # in the names of LLVM's intrinsics
    suffix: str  # in the names of libm's functions
    integer: ir.IntType  # of the same width
    mantissa: int  # stored bits
    bias: int
    exp_low: float  # exp is 0 below
    exp_high: float  # exp, sinh and cosh overflow from here on; expm1(x)/4 does not
    expm1_low: float  # expm1 is -1 below
    tanh_high: float  # tanh is 1 above
    trig_high: float  # the reduction by pi/2 is good below
    tiny: float  # f(x) = x + O(x^2) is x below, which keeps -0 and the last bit of a subnormal
    ln2: tuple[float, float]  # high part short enough that n*high is exact, low part
    log10_2: tuple[float, float]  # likewise
    log2e: tuple[float, float]  # nearest, rest
    log10e: tuple[float, float]  # nearest, rest
    half_pi: tuple[float, float, float]  # nearest, rest, rest of the rest
    exp: tuple[float, ...]  # (e^r - 1 - r) / r^2 in r, |r| <= ln(2)/2
    log: tuple[float, ...]  # (log((1+s)/(1-s)) / s - 2) / z in z = s^2, 1/sqrt(2) <= (1+s)/(1-s) <= sqrt(2)
    sin: tuple[float, ...]  # (sin(r) - r) / r^3 in z = r^2, |r| <= pi/4
    cos: tuple[float, ...]  # (cos(r) - 1 + z/2) / z^2 in z = r^2, |r| <= pi/4
    sinh: tuple[float, ...]  # (sinh(x) - x) / x^3 in z = x^2, |x| <= 1
    tanh: tuple[tuple[float, ...], tuple[float, ...]]  # (tanh(x) - x) / x^3 = P(z)/Q(z), |x| <= 5/8

    @property
    def magic(self) -> float:
        """Adding this rounds to an integer, and leaves that integer in the low bits."""
        return 1.5 * 2.0**self.mantissa

    def bits(self, number: float) -> int:
        """The bit pattern of a positive number, as an integer."""
        pattern = struct.pack("d" if self.mantissa == 52 else "f", number)
        return int.from_bytes(pattern, sys.byteorder)


_hex = float.fromhex

BINARY64 = Format(
    "f64", "", I64, 52, 1023,
    exp_low=-746.0, exp_high=710.6, expm1_low=-57.0, tanh_high=22.0,
    trig_high=2.0**30, tiny=2.0**-54,
    ln2=(_hex("0x1.62e42feep-1"), _hex("0x1.a39ef35793c76p-33")),
    log10_2=(_hex("0x1.34413508p-2"), _hex("0x1.f79fef311f12bp-34")),
    log2e=(_hex("0x1.71547652b82fep+0"), _hex("0x1.777d0ffda0d24p-56")),
    log10e=(_hex("0x1.bcb7b1526e50ep-2"), _hex("0x1.95355baaafad3p-57")),
    half_pi=(_hex("0x1.921fb54442d18p+0"), _hex("0x1.1a62633145c07p-54"), _hex("-0x1.f1976b7ed8fbcp-110")),
    exp=(
        0.5000000000000013, 0.166666666666667, 0.04166666666651311, 0.008333333333306813,
        0.0013888888947681964, 0.0001984126991823881, 2.4801489199797372e-05, 2.755721553316204e-06,
        2.763156190893951e-07, 2.5118105285692124e-08,
    ),
    log=(
        0.6666666666666735, 0.3999999999940747, 0.2857142874414503, 0.22222198378145105, 0.18183575181146253,
        0.15313755391353184, 0.1479906952515266,
    ),
    sin=(
        -0.1666666666666663, 0.008333333333321868, -0.00019841269829351695, 2.7557313527699906e-06,
        -2.505073154559179e-08, 1.5895209692665621e-10,
    ),
    cos=(
        0.041666666666666595, -0.0013888888888873385, 2.4801587289000406e-05, -2.75573142076951e-07,
        2.0875702928686432e-09, -1.1358561564520099e-11,
    ),
    sinh=(
        0.16666666666666669, 0.008333333333333148, 0.00019841269841431873, 2.755731915707185e-06,
        2.5052123136725862e-08, 1.6057259768581424e-10, 7.758748804156829e-13,
    ),
    tanh=(
        (-0.33333333333333326, -0.020496798973941688, -0.00019908947947416207),
        (1.0, 0.46149039692181004, 0.023288665302642706, 0.0002064388925012323),
    ),
)  # fmt: skip

BINARY32 = Format(
    "f32", "f", I32, 23, 127,
    exp_low=-104.5, exp_high=89.5, expm1_low=-28.0, tanh_high=10.0,
    trig_high=2.0**15, tiny=2.0**-25,
    ln2=(_hex("0x1.62ep-1"), _hex("0x1.0bfbe8p-15")),
    log10_2=(_hex("0x1.344p-2"), _hex("0x1.3509f8p-18")),
    log2e=(_hex("0x1.715476p+0"), _hex("0x1.4ae0cp-26")),
    log10e=(_hex("0x1.bcb7b2p-2"), _hex("-0x1.5b235ep-27")),
    half_pi=(_hex("0x1.921fb6p+0"), _hex("-0x1.777a5cp-25"), _hex("-0x1.ee59dap-50")),
    exp=(
        0.5000000096275087, 0.16666517711633008, 0.04166620227036784, 0.008369024849861425,
        0.0013950727238047178,
    ),
    log=(0.6666666563711733, 0.4000033724980834, 0.2853716802630994, 0.23584986649563786),
    sin=(-0.16666654589073082, 0.008332154994148622, -0.00019514076867202713),
    cos=(0.04166664626717953, -0.001388733700723538, 2.4434837087578822e-05),
    sinh=(0.16666666497561047, 0.008333350058165385, 0.00019836159779143536, 2.8169512198925072e-06),
    tanh=((-0.3333330806858845, -0.0015416042880456937), (1.0, 0.40461239587178877)),
)  # fmt: skip

FORMATS = {DOUBLE: BINARY64, FLOAT: BINARY32}


@functools.cache
def _constant(element: ir.Type, lanes: int, number: str) -> ir.Constant:
    """One object for each constant of a process: it keeps its text, and to write eight numbers takes long."""
    value = float.fromhex(number) if element in FORMATS else int(number)
    if lanes == 1:
        return ir.Constant(element, value)
    return ir.Constant(ir.VectorType(element, lanes), [ir.Constant(element, value)] * lanes)


def _intrinsic(stem: str) -> Unary:
    def method(self: VecMath, x: Value) -> Value:
        return self._intrinsic(stem, x)

    return method


def _libm(name: str) -> Callable[..., Value]:
    def method(self: VecMath, *args: Value) -> Value:
        return self._lane_by_lane(name, *args)

    return method


def _arithmetic(on_floats: str, on_ints: str, on_bools: str) -> Binary:
    def method(self: VecMath, a: Value, b: Value) -> Value:
        element = self.element(a)
        if element in FORMATS:
            return getattr(self.builder, on_floats)(a, b, flags=CONTRACT)
        return getattr(self.builder, on_bools if element == I1 else on_ints)(a, b)

    return method


def _comparison(operator: str) -> Binary:
    def method(self: VecMath, a: Value, b: Value) -> Value:
        element = self.element(a)
        if element in FORMATS:
            # NumPy: a comparison with NaN is false, but NaN != NaN.
            compare = self.builder.fcmp_unordered if operator == "!=" else self.builder.fcmp_ordered
        else:
            compare = self.builder.icmp_unsigned if element == I1 else self.builder.icmp_signed
        return compare(operator, a, b)

    return method


def _bitwise(instruction: str) -> Binary:
    def method(self: VecMath, a: Value, b: Value) -> Value:
        return getattr(self.builder, instruction)(a, b)

    return method


class VecMath:
    """Emits elementwise operations at the builder's position; every method takes and returns LLVM values.

    Values are `<lanes x T>` vectors, or plain `T` when `lanes` is 1, with T one of double, float, i64, i32,
    i1 (NumPy's bool). Methods bear the names of NumPy's ufuncs, and of `scipy.special` for `expit`,
    `log_expit`, `erf`. Integers have `add sub mul neg abs sign square maximum minimum`, the comparisons and
    `bitwise_*`; all else wants floats. The functions that are written out here are within 2 ulp of the exact
    result; those of libm are as good as libm.

    `sin`, `cos` and `tan` append basic blocks: the builder then stands at the end of another block.
    More lanes than a register holds are allowed, and hide the latency of a long expression.
    """

    def __init__(self, builder: ir.IRBuilder, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes

    # ---------------------------------------------------------------- types and constants

    def type(self, element: ir.Type) -> ir.Type:
        """The type of a value whose elements are of type `element`."""
        return element if self.lanes == 1 else ir.VectorType(element, self.lanes)

    def element(self, value: Value) -> ir.Type:
        """The type of one element of `value`."""
        return value.type if self.lanes == 1 else value.type.element

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
        if element == I1:
            return self.ne(value, self.const(0, value))
        if source in FORMATS and element in FORMATS:
            return (self.builder.fpext if element == DOUBLE else self.builder.fptrunc)(value, target)
        if source in FORMATS:
            return self.builder.fptosi(value, target)
        if element in FORMATS:
            return (self.builder.uitofp if source == I1 else self.builder.sitofp)(value, target)
        if source == I1:
            return self.builder.zext(value, target)
        return (self.builder.sext if element.width > source.width else self.builder.trunc)(value, target)

    # ---------------------------------------------------------------- arithmetic

    add = _arithmetic("fadd", "add", "or_")
    sub = _arithmetic("fsub", "sub", "xor")
    mul = _arithmetic("fmul", "mul", "and_")

    def div(self, a: Value, b: Value) -> Value:
        """True division of floats."""
        return self.builder.fdiv(a, b, flags=CONTRACT)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a*b + c, rounded once where the machine can."""
        return self._intrinsic("llvm.fmuladd", a, b, c)

    def neg(self, x: Value) -> Value:
        return self.builder.fneg(x) if self.element(x) in FORMATS else self.builder.sub(self.const(0, x), x)

    def abs(self, x: Value) -> Value:
        if self.element(x) in FORMATS:
            return self._intrinsic("llvm.fabs", x)
        return self.select(self.lt(x, self.const(0, x)), self.neg(x), x)

    sqrt = _intrinsic("llvm.sqrt")
    floor = _intrinsic("llvm.floor")
    ceil = _intrinsic("llvm.ceil")
    trunc = _intrinsic("llvm.trunc")
    rint = _intrinsic("llvm.rint")

    def square(self, x: Value) -> Value:
        return self.mul(x, x)

    def reciprocal(self, x: Value) -> Value:
        return self.div(self.const(1, x), x)

    def copysign(self, a: Value, b: Value) -> Value:
        return self._intrinsic("llvm.copysign", a, b)

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
    logical_and, logical_or, logical_xor = bitwise_and, bitwise_or, bitwise_xor

    def bitwise_not(self, x: Value) -> Value:
        return self.builder.xor(x, self.const(-1, x))

    logical_not = bitwise_not

    def isnan(self, x: Value) -> Value:
        return self.ne(x, x)

    def isinf(self, x: Value) -> Value:
        return self.eq(self.abs(x), self.const(float("inf"), x))

    def isfinite(self, x: Value) -> Value:
        return self.lt(self.abs(x), self.const(float("inf"), x))

    def signbit(self, x: Value) -> Value:
        bits = self._bits(x)
        return self.lt(bits, self.const(0, bits))

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        """a where the mask holds, else b."""
        return self.builder.select(mask, a, b)

    def maximum(self, a: Value, b: Value) -> Value:
        return self._extreme(">", a, b, b)

    def minimum(self, a: Value, b: Value) -> Value:
        return self._extreme("<", a, b, b)

    def fmax(self, a: Value, b: Value) -> Value:
        return self._extreme(">", a, b, a)

    def fmin(self, a: Value, b: Value) -> Value:
        return self._extreme("<", a, b, a)

    # ---------------------------------------------------------------- exponentials

    def exp(self, x: Value) -> Value:
        return self._exp(x, 0)

    def exp2(self, x: Value) -> Value:
        form = self._format(x)
        clamped = self._clamp(x, -float(form.bias + form.mantissa), form.bias + 1.5)
        n, whole = self._round(self.add(clamped, self.const(form.magic, x)))
        r = self.mul(self.sub(clamped, whole), self.const(form.ln2[0] + form.ln2[1], x))
        return self._scale(self._exp_poly(r), n, 0)

    def expm1(self, x: Value) -> Value:
        form = self._format(x)
        n, r, error = self._exp_split(self._clamp(x, form.expm1_low, form.exp_high))
        # A quarter of the result, as 2^n itself may be too large.
        s = self._power_of_two(self.builder.sub(n, self.const(2, n)))
        p = self.fma(self.mul(r, r), self._poly(r, form.exp), error)
        # s*(1 + r + p) - 1/4, the small term last: r + p on its own would be rounded once more.
        quarter = self.fma(s, p, self.fma(s, r, self.sub(s, self.const(0.25, x))))
        return self._unless_tiny(x, self.mul(quarter, self.const(4, x)))

    def sinh(self, x: Value) -> Value:
        """A polynomial below 1, and h - 1/(4h) with h = exp(|x|)/2 above."""
        a, z = self.abs(x), self.mul(x, x)
        h = self._exp(a, -1)
        above = self.copysign(self.sub(h, self.div(self.const(0.25, x), h)), x)
        below = self.fma(self.mul(x, z), self._poly(z, self._format(x).sinh), x)
        return self.select(self.lt(a, self.const(1, x)), below, above)

    def cosh(self, x: Value) -> Value:
        """h + 1/(4h) with h = exp(|x|)/2, which overflows later than exp."""
        h = self._exp(self.abs(x), -1)
        return self.add(h, self.div(self.const(0.25, x), h))

    def tanh(self, x: Value) -> Value:
        """x + x*z*P(z)/Q(z) below 5/8, 1 - 2/(exp(2|x|) + 1) above: both are m + m*q, with one division."""
        form, one = self._format(x), self.const(1, x)
        a = self._clamp(self.abs(x), None, form.tanh_high)
        n, r, _ = self._exp_split(self.add(a, a))
        s, z = self._power_of_two(n), self.mul(a, a)
        bottom = self.add(self.fma(self._exp_poly(r), s, s), one)
        below = self.lt(a, self.const(0.625, x))
        top = self.select(below, self.mul(z, self._poly(z, form.tanh[0])), self.const(-2, x))
        q = self.div(top, self.select(below, self._poly(z, form.tanh[1]), bottom))
        m = self.select(below, a, one)
        return self.copysign(self.fma(m, q, m), x)

    def expit(self, x: Value) -> Value:
        """1/(1 + exp(-x)), or with z = exp(-|x|): z/(1+z) on the left, so that nothing overflows."""
        z = self._exp(self.neg(self.abs(x)), 0)
        one = self.const(1, x)
        bottom, bottom_low = self._fast_two_sum(one, z)
        top = self.select(self.lt(x, self.const(0, x)), z, one)
        return self._quotient(top, None, bottom, bottom_low)

    def log_expit(self, x: Value) -> Value:
        """min(x, 0) - log1p(exp(-|x|))"""
        z = self._exp(self.neg(self.abs(x)), 0)
        zero = self.const(-0.0, x)
        return self.sub(self.select(self.lt(x, zero), x, zero), self.log1p(z))

    def logaddexp(self, a: Value, b: Value) -> Value:
        """max(a, b) + log1p(exp(-|a - b|)); with b = 0 this is softplus."""
        z = self._exp(self.neg(self.abs(self.sub(a, b))), 0)
        # Infinities of one sign have no difference.
        z = self.select(self.eq(a, b), self.const(1, a), z)
        return self.add(self.select(self.gt(a, b), a, b), self.log1p(z))

    # ---------------------------------------------------------------- logarithms

    def log(self, x: Value) -> Value:
        k, f = self._log_split(x)
        return self._log_domain(x, self._log_sum(k, f))

    def log2(self, x: Value) -> Value:
        k, f = self._log_split(x)
        nearest, rest = (self.const(c, x) for c in self._format(x).log2e)
        y = self._log_sum(None, f)
        return self._log_domain(x, self.fma(y, nearest, self.fma(y, rest, k)))

    def log10(self, x: Value) -> Value:
        k, f = self._log_split(x)
        high, low = (self.const(c, x) for c in self._format(x).log10_2)
        nearest, rest = (self.const(c, x) for c in self._format(x).log10e)
        y = self._log_sum(None, f)
        small = self.fma(y, nearest, self.fma(k, low, self.mul(y, rest)))
        return self._log_domain(x, self.fma(k, high, small))

    def log1p(self, x: Value) -> Value:
        """log(u) with u = 1 + x, where the rounding error of u is added to the reduced argument."""
        form, one = self._format(x), self.const(1, x)
        u, error = self._two_sum(one, x)
        k, m = self._exponent(u)
        # 2^(1-k), not 2^-k: for the largest k that is 0 and not infinite; the error counts for nothing there.
        scale = self._power_of_two(self.builder.sub(self.const(1, k), k))
        f = self.fma(self.mul(error, self.const(0.5, x)), scale, self.sub(m, one))
        result = self._log_domain(u, self._log_sum(self._whole(k, form), f))
        return self._unless_tiny(x, result)

    # ---------------------------------------------------------------- trigonometry

    def sin(self, x: Value) -> Value:
        return self._unless_tiny(x, self._trigonometric("sin", x, self._sin))

    def cos(self, x: Value) -> Value:
        return self._trigonometric("cos", x, self._cos)

    def tan(self, x: Value) -> Value:
        return self._unless_tiny(x, self._trigonometric("tan", x, self._tan))

    # ---------------------------------------------------------------- lane by lane

    arcsin, arccos, arctan = _libm("asin"), _libm("acos"), _libm("atan")
    arcsinh, arccosh, arctanh = _libm("asinh"), _libm("acosh"), _libm("atanh")
    arctan2, hypot, pow = _libm("atan2"), _libm("hypot"), _libm("pow")
    cbrt, erf, lgamma = _libm("cbrt"), _libm("erf"), _libm("lgamma")

    # ---------------------------------------------------------------- parts: calls, bits, sums

    def _declare(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        module = self.builder.module
        if name in module.globals:
            return module.globals[name]
        return ir.Function(module, ir.FunctionType(result, arguments), name)

    def _intrinsic(self, stem: str, *args: Value) -> Value:
        lanes = "" if self.lanes == 1 else f"v{self.lanes}"
        name = f"{stem}.{lanes}{self._format(args[0]).name}"
        return self.builder.call(self._declare(name, args[0].type, [a.type for a in args]), args)

    def _lane_by_lane(self, name: str, *args: Value) -> Value:
        element = self.element(args[0])
        function = self._declare(name + FORMATS[element].suffix, element, [element] * len(args))
        if self.lanes == 1:
            return self.builder.call(function, args)
        result = ir.Constant(args[0].type, ir.Undefined)
        for lane in range(self.lanes):
            index = ir.Constant(I32, lane)
            scalars = [self.builder.extract_element(a, index) for a in args]
            result = self.builder.insert_element(result, self.builder.call(function, scalars), index)
        return result

    def _format(self, value: Value) -> Format:
        return FORMATS[self.element(value)]

    def _bits(self, x: Value) -> Value:
        return self.builder.bitcast(x, self.type(self._format(x).integer))

    def _number(self, bits: Value) -> Value:
        return self.builder.bitcast(bits, self.type(DOUBLE if self.element(bits) == I64 else FLOAT))

    def _round(self, shifted: Value) -> tuple[Value, Value]:
        """The integer n in x + magic, as an integer and as a float (AVX2 has no conversion to i64)."""
        magic = self._format(shifted).magic
        bits = self._bits(shifted)
        n = self.builder.sub(bits, self.const(self._format(shifted).bits(magic), bits))
        return n, self.sub(shifted, self.const(magic, shifted))

    def _whole(self, n: Value, form: Format) -> Value:
        """An integer as a float, by the same trick backwards."""
        shifted = self._number(self.builder.add(n, self.const(form.bits(form.magic), n)))
        return self.sub(shifted, self.const(form.magic, shifted))

    def _power_of_two(self, n: Value) -> Value:
        form = BINARY64 if self.element(n) == I64 else BINARY32
        biased = self.builder.add(n, self.const(form.bias, n))
        return self._number(self.builder.shl(biased, self.const(form.mantissa, n)))

    def _scale(self, p: Value, n: Value, shift: int) -> Value:
        """(1 + p) * 2^(n + shift) in two steps, of which only the second can leave the normal numbers."""
        half = self.builder.ashr(n, self.const(1, n))
        rest = self.builder.sub(n, half)
        if shift:
            rest = self.builder.add(rest, self.const(shift, n))
        s = self._power_of_two(half)
        return self.mul(self.fma(p, s, s), self._power_of_two(rest))

    def _exponent(self, x: Value) -> tuple[Value, Value]:
        """x = 2^k * m with m between sqrt(1/2) and sqrt(2): k as an integer, and m."""
        form, bits = self._format(x), self._bits(x)
        k = self.builder.sub(bits, self.const(form.bits(0.5**0.5), bits))
        k = self.builder.ashr(k, self.const(form.mantissa, k))
        return k, self._number(self.builder.sub(bits, self.builder.shl(k, self.const(form.mantissa, k))))

    def _clamp(self, x: Value, low: float | None, high: float) -> Value:
        # NaN compares false and passes through.
        top = self.const(high, x)
        x = self.select(self.gt(x, top), top, x)
        if low is None:
            return x
        bottom = self.const(low, x)
        return self.select(self.lt(x, bottom), bottom, x)

    def _unless_tiny(self, x: Value, result: Value) -> Value:
        return self.select(self.lt(self.abs(x), self.const(self._format(x).tiny, x)), x, result)

    def _extreme(self, operator: str, a: Value, b: Value, nan_in: Value) -> Value:
        """b where `b operator a`, else a; but b where `nan_in` is NaN."""
        result = self.select(_comparison(operator)(self, b, a), b, a)
        return self.select(self.isnan(nan_in), b, result) if self.element(a) in FORMATS else result

    def _poly(self, x: Value, coefficients: tuple[float, ...]) -> Value:
        """Two Horner chains in x^2: half the latency of one, for one more multiplication."""
        even, odd = coefficients[0::2], coefficients[1::2]
        square = self.mul(x, x)
        return self.fma(self._horner(square, odd), x, self._horner(square, even))

    def _horner(self, x: Value, coefficients: tuple[float, ...]) -> Value:
        total = self.const(coefficients[-1], x)
        for c in coefficients[-2::-1]:
            total = self.fma(total, x, self.const(c, x))
        return total

    def _two_sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """a + b and its rounding error (Knuth); no flags: contraction would break it."""
        fadd, fsub = self.builder.fadd, self.builder.fsub
        total = fadd(a, b)
        from_b = fsub(total, a)
        return total, fadd(fsub(a, fsub(total, from_b)), fsub(b, from_b))

    def _fast_two_sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """a + b and its rounding error, for |a| >= |b| (Dekker)."""
        total = self.builder.fadd(a, b)
        return total, self.builder.fadd(self.builder.fsub(a, total), b)

    def _quotient(self, a: Value, a_low: Value | None, b: Value, b_low: Value) -> Value:
        """(a + a_low) / (b + b_low), corrected once by the remainder."""
        inverse = self.reciprocal(b)
        q = self.mul(a, inverse)
        remainder = self._intrinsic("llvm.fma", self.neg(q), b, a)
        if a_low is not None:
            remainder = self.add(remainder, a_low)
        return self.fma(self.sub(remainder, self.mul(q, b_low)), inverse, q)

    # ---------------------------------------------------------------- parts: kernels

    def _exp_split(self, x: Value) -> tuple[Value, Value, Value]:
        """x = n*ln2 + r: n as an integer, r, and the error of r."""
        form = self._format(x)
        n, whole = self._round(self.fma(x, self.const(form.log2e[0], x), self.const(form.magic, x)))
        minus_low = self.const(-form.ln2[1], x)
        exact = self.fma(whole, self.const(-form.ln2[0], x), x)
        r = self.fma(whole, minus_low, exact)
        return n, r, self.fma(whole, minus_low, self.sub(exact, r))

    def _exp(self, x: Value, shift: int) -> Value:
        """exp(x) * 2^shift"""
        form = self._format(x)
        n, r, _ = self._exp_split(self._clamp(x, form.exp_low, form.exp_high))
        return self._scale(self._exp_poly(r), n, shift)

    def _exp_poly(self, r: Value) -> Value:
        """exp(r) - 1"""
        return self.fma(self.mul(r, r), self._poly(r, self._format(r).exp), r)

    def _log_split(self, x: Value) -> tuple[Value, Value]:
        """x = 2^k * (1 + f): k as a float, and f."""
        form = self._format(x)
        extra = form.mantissa + 2
        subnormal = self.lt(x, self.const(2.0 ** (1 - form.bias), x))
        k, m = self._exponent(self.select(subnormal, self.mul(x, self.const(2.0**extra, x)), x))
        offset = self.select(subnormal, self.const(extra, x), self.const(0, x))
        return self.sub(self._whole(k, form), offset), self.sub(m, self.const(1, x))

    def _log_sum(self, k: Value | None, f: Value) -> Value:
        """k*ln2 + log(1 + f), or log(1 + f): with s = f/(2+f), f - (f*f/2 - s*(f*f/2 + R(s*s)))."""
        form = self._format(f)
        s = self.div(f, self.add(f, self.const(2, f)))
        z = self.mul(s, s)
        half_square = self.mul(f, self.mul(f, self.const(0.5, f)))
        low = self.mul(s, self.fma(z, self._poly(z, form.log), half_square))
        if k is None:
            return self.sub(f, self.sub(half_square, low))
        low = self.fma(k, self.const(form.ln2[1], f), low)
        return self.fma(k, self.const(form.ln2[0], f), self.sub(f, self.sub(half_square, low)))

    def _log_domain(self, x: Value, result: Value) -> Value:
        inf, zero = self.const(float("inf"), x), self.const(0, x)
        result = self.select(self.lt(x, inf), result, x)
        result = self.select(self.eq(x, zero), self.const(float("-inf"), x), result)
        return self.select(self.lt(x, zero), self.const(float("nan"), x), result)

    def _trigonometric(self, name: str, x: Value, finish: Callable[[Value, Value, Value], Value]) -> Value:
        """finish(n, r, y) with x = n*pi/2 + r + y; if a lane is too large for that, all lanes by libm."""
        result = finish(*self._half_pi_split(x))
        large = self.ge(self.abs(x), self.const(self._format(x).trig_high, x))
        if self.lanes > 1:
            mask = self.builder.bitcast(large, ir.IntType(self.lanes))
            large = self.builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0))
        near = self.builder.block
        far, done = (self.builder.append_basic_block(f"{name}.{label}") for label in ("far", "done"))
        self.builder.cbranch(large, far, done).set_weights([1, 1000])
        self.builder.position_at_end(far)
        by_libm = self._lane_by_lane(name, x)
        self.builder.branch(done)
        self.builder.position_at_end(done)
        phi = self.builder.phi(x.type)
        phi.add_incoming(result, near)
        phi.add_incoming(by_libm, far)
        return phi

    def _half_pi_split(self, x: Value) -> tuple[Value, Value, Value]:
        """x = n*pi/2 + r + y: n as an integer, and r and its error y."""
        form = self._format(x)
        n, whole = self._round(self.fma(x, self.const(1 / form.half_pi[0], x), self.const(form.magic, x)))
        first, second, third = (self.const(-part, x) for part in form.half_pi)
        # A true fma: the difference is exact, as it has no bits below those of pi/2.
        r = self._intrinsic("llvm.fma", whole, first, x)
        product = self.builder.fmul(whole, second)
        product_error = self._intrinsic("llvm.fma", whole, second, self.neg(product))
        r, error = self._two_sum(r, product)
        return n, r, self.fma(whole, third, self.add(error, product_error))

    def _sin_and_cos(self, r: Value, y: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
        """sin(r + y) and cos(r + y), each as a pair with a small second part to subtract."""
        form = self._format(r)
        one, half = self.const(1, r), self.const(0.5, r)
        z = self.mul(r, r)
        v, h = self.mul(z, r), self.mul(z, half)
        u = self.sub(self.mul(half, y), self.mul(v, self._poly(z, form.sin[1:])))
        sine = self.sub(self.sub(self.mul(z, u), y), self.mul(v, self.const(form.sin[0], r)))
        w = self.sub(one, h)
        cosine = self.sub(self.mul(r, y), self.mul(z, self.mul(z, self._poly(z, form.cos))))
        return (r, sine), (w, self.sub(cosine, self.sub(self.sub(one, w), h)))

    def _sin(self, n: Value, r: Value, y: Value) -> Value:
        (a, b), (c, d) = self._sin_and_cos(r, y)
        odd = self._bit(n, 0)
        return self._negate_if_bit(n, 1, self.sub(self.select(odd, c, a), self.select(odd, d, b)))

    def _cos(self, n: Value, r: Value, y: Value) -> Value:
        # One quadrant further: cos(x) = sin(x + pi/2).
        return self._sin(self.builder.add(n, self.const(1, n)), r, y)

    def _tan(self, n: Value, r: Value, y: Value) -> Value:
        """sin/cos, or -cos/sin."""
        (a, b), (c, d) = (self._fast_two_sum(p, self.neg(q)) for p, q in self._sin_and_cos(r, y))
        odd = self._bit(n, 0)
        top, top_low = self.select(odd, c, a), self.select(odd, d, b)
        bottom, bottom_low = self.select(odd, a, c), self.select(odd, b, d)
        return self._negate_if_bit(n, 0, self._quotient(top, top_low, bottom, bottom_low))

    def _bit(self, n: Value, position: int) -> Value:
        return self.ne(self.builder.and_(n, self.const(1 << position, n)), self.const(0, n))

    def _negate_if_bit(self, n: Value, position: int, x: Value) -> Value:
        bit = self.builder.and_(n, self.const(1 << position, n))
        sign = self.builder.shl(bit, self.const(self._format(x).integer.width - 1 - position, n))
        return self._number(self.builder.xor(self._bits(x), sign))
