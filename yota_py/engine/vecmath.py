"""Elementwise mathematics on LLVM values: vectors of `lanes` elements, or scalars when `lanes` is 1.

LLVM has no vector exp or sin of its own, and a call to libm keeps a fused loop scalar; so the common functions
are written here as straight-line arithmetic, with selects in the place of branches. The algorithms are the
classical ones:

* Cody and Waite, "Software Manual for the Elementary Functions" (1980): reduction by a split constant;
* fdlibm (Sun Microsystems, 1993), `e_log.c`, `s_log1p.c`, `k_sin.c`, `k_cos.c`, `e_sinh.c`: the shape of the
  kernels, which part is added to which, and why;
* Knuth, TAOCP vol. 2, 4.2.2: the error-free sum.

The polynomials are minimax for the intervals below (Remez exchange at 200 bits, then rounded to the format).
What is rare goes lane by lane to libm.

Names: x argument, n integer part of a reduction, r or f reduced argument, s power of two, z square.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

Value = ir.Value
Unary = Callable[["VecMath", Value], Value]
Binary = Callable[["VecMath", Value, Value], Value]

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()

# a*b + c may be fused; nothing else may change a result (NaN, infinities and signed zeros stay right).
CONTRACT = ("contract",)


@dataclass(frozen=True, slots=True)
class Format:
    """One binary floating-point format: its layout, its thresholds and the polynomials that suit its precision."""

    name: str  # in the names of LLVM's intrinsics
    suffix: str  # in the names of libm's functions
    integer: ir.IntType  # of the same width
    mantissa: int  # stored bits
    bias: int
    exp_low: float  # exp is 0 below
    exp_high: float  # exp overflows from here on; expm1(x)/2 does not
    sinh_high: float  # sinh and cosh overflow from here on; expm1(x)/4 does not
    expm1_low: float  # expm1 is -1 below
    tanh_high: float  # tanh is 1 above
    trig_high: float  # the reduction by pi/2 is good below
    tiny: float  # odd functions return x below, which keeps -0 and the last bit of a subnormal
    ln2: tuple[float, float]  # high part short enough that n*high is exact, low part
    log10_2: tuple[float, float]  # likewise
    log2e: tuple[float, float]  # nearest, rest
    log10e: tuple[float, float]  # nearest, rest
    half_pi: tuple[float, float, float]  # nearest, rest, rest of the rest
    exp: tuple[float, ...]  # (e^r - 1 - r) / r^2 in r, |r| <= ln(2)/2
    log: tuple[float, ...]  # (log((1+s)/(1-s)) / s - 2) / z in z = s^2, 1/sqrt(2) <= (1+s)/(1-s) <= sqrt(2)
    sin: tuple[float, ...]  # (sin(r) - r) / r^3 in z = r^2, |r| <= pi/4
    cos: tuple[float, ...]  # (cos(r) - 1 + z/2) / z^2 in z = r^2, |r| <= pi/4

    @property
    def magic(self) -> float:
        """Adding this rounds to an integer, and leaves that integer in the low bits."""
        return 1.5 * 2.0**self.mantissa


_hex = float.fromhex

BINARY64 = Format(
    "f64", "", I64, 52, 1023,
    exp_low=-746.0, exp_high=710.0, sinh_high=710.6, expm1_low=-57.0, tanh_high=22.0,
    trig_high=2.0**30, tiny=2.0**-28,
    ln2=(_hex("0x1.62e42feep-1"), _hex("0x1.a39ef35793c76p-33")),
    log10_2=(_hex("0x1.34413508p-2"), _hex("0x1.f79fef311f12bp-34")),
    log2e=(_hex("0x1.71547652b82fep+0"), _hex("0x1.777d0ffda0d24p-56")),
    log10e=(_hex("0x1.bcb7b1526e50ep-2"), _hex("0x1.95355baaafad3p-57")),
    half_pi=(_hex("0x1.921fb54442d18p+0"), _hex("0x1.1a62633145c07p-54"), _hex("-0x1.f1976b7ed8fbcp-110")),
    exp=(
        0.5000000000000013, 0.166666666666667, 0.04166666666651311, 0.008333333333306813, 0.0013888888947681964,
        0.0001984126991823881, 2.4801489199797372e-05, 2.755721553316204e-06, 2.763156190893951e-07,
        2.5118105285692124e-08,
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
)  # fmt: skip

BINARY32 = Format(
    "f32", "f", I32, 23, 127,
    exp_low=-104.5, exp_high=89.0, sinh_high=89.5, expm1_low=-28.0, tanh_high=10.0,
    trig_high=2.0**15, tiny=2.0**-13,
    ln2=(_hex("0x1.62ep-1"), _hex("0x1.0bfbe8p-15")),
    log10_2=(_hex("0x1.344p-2"), _hex("0x1.3509f8p-18")),
    log2e=(_hex("0x1.715476p+0"), _hex("0x1.4ae0cp-26")),
    log10e=(_hex("0x1.bcb7b2p-2"), _hex("-0x1.5b235ep-27")),
    half_pi=(_hex("0x1.921fb6p+0"), _hex("-0x1.777a5cp-25"), _hex("-0x1.ee59dap-50")),
    exp=(0.5000000096275087, 0.16666517711633008, 0.04166620227036784, 0.008369024849861425, 0.0013950727238047178),
    log=(0.6666666563711733, 0.4000033724980834, 0.2853716802630994, 0.23584986649563786),
    sin=(-0.16666654589073082, 0.008332154994148622, -0.00019514076867202713),
    cos=(0.04166664626717953, -0.001388733700723538, 2.4434837087578822e-05),
)  # fmt: skip

FORMATS = {DOUBLE: BINARY64, FLOAT: BINARY32}


@functools.cache
def _splat(element: ir.Type, lanes: int, text: str) -> ir.Constant:
    # One short spelling for all lanes, shared between modules: writing eight hexadecimal numbers is slow.
    vector = ir.VectorType(element, lanes)
    return ir.FormattedConstant(vector, f"splat ({element} {text})")


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

    Values are `<lanes x T>` vectors, or plain `T` when `lanes` is 1, with T one of double, float, i64, i32, i1
    (i1 is NumPy's bool). Methods bear the names of NumPy's ufuncs, and of `scipy.special` for `expit`,
    `log_expit`, `erf`. All but arithmetic, comparisons, `abs`, `sign`, `maximum` and `minimum` want floats.
    `sin`, `cos` and `tan` append basic blocks: the builder then stands at the end of another block.
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
        constant = ir.Constant(element, float(number) if element in FORMATS else int(number))
        return constant if self.lanes == 1 else _splat(element, self.lanes, constant.get_reference())

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
        return self.builder.fneg(x) if self.element(x) in FORMATS else self.builder.neg(x)

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
        return self.select(self.gt(x, zero), self.const(1, x), self.select(self.lt(x, zero), self.const(-1, x), rest))

    # ---------------------------------------------------------------- comparisons, booleans, choice

    lt, le, gt = _comparison("<"), _comparison("<="), _comparison(">")
    ge, eq, ne = _comparison(">="), _comparison("=="), _comparison("!=")

    bitwise_and, bitwise_or, bitwise_xor = _bitwise("and_"), _bitwise("or_"), _bitwise("xor")
    logical_and, logical_or, logical_xor = bitwise_and, bitwise_or, bitwise_xor

    def bitwise_not(self, x: Value) -> Value:
        return self.builder.not_(x) if self.lanes == 1 else self.builder.xor(x, self.const(-1, x))

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
        return self._extreme(">", a, b, self.isnan, b)

    def minimum(self, a: Value, b: Value) -> Value:
        return self._extreme("<", a, b, self.isnan, b)

    def fmax(self, a: Value, b: Value) -> Value:
        return self._extreme(">", a, b, self.isnan, a)

    def fmin(self, a: Value, b: Value) -> Value:
        return self._extreme("<", a, b, self.isnan, a)

    # ---------------------------------------------------------------- exponentials

    def exp(self, x: Value) -> Value:
        return self._exp(x, 0)

    def exp2(self, x: Value) -> Value:
        form = self._format(x)
        x = self._clamp(x, -float(form.bias + form.mantissa + 1), form.bias + 1.5)
        shifted, whole = self._round(self.add(x, self.const(form.magic, x)))
        r = self.mul(self.sub(x, whole), self.const(form.ln2[0] + form.ln2[1], x))
        return self._scale(self.add(self._expm1_poly(r), self.const(1, x)), shifted, 0)

    def expm1(self, x: Value) -> Value:
        form = self._format(x)
        half = self._expm1(self._clamp(x, form.expm1_low, form.exp_high), -1)
        return self._unless_tiny(x, self.add(half, half))

    def sinh(self, x: Value) -> Value:
        """(E + E/(E+1)) / 2 with E = expm1(|x|), from q = E/4, which overflows later."""
        form = self._format(x)
        q = self._expm1(self._clamp(self.abs(x), None, form.sinh_high), -2)
        twice = self.add(q, q)
        result = self.add(twice, self.div(q, self.add(twice, self.const(0.5, x))))
        return self._unless_tiny(x, self.copysign(result, x))

    def cosh(self, x: Value) -> Value:
        """h + 1/(4h) with h = exp(|x|)/2, which overflows later."""
        h = self._exp(self.abs(x), -1)
        return self.add(h, self.div(self.const(0.25, x), h))

    def tanh(self, x: Value) -> Value:
        """t/(t+2) with t = expm1(2|x|)."""
        a = self._clamp(self.abs(x), None, self._format(x).tanh_high)
        t = self._expm1(self.add(a, a), 0)
        return self.copysign(self.div(t, self.add(t, self.const(2, x))), x)

    def expit(self, x: Value) -> Value:
        """1/(1 + exp(-x)), or with z = exp(-|x|): z/(1+z) on the left, so that nothing overflows."""
        z = self._exp(self.neg(self.abs(x)), 0)
        one = self.const(1, x)
        return self.div(self.select(self.lt(x, self.const(0, x)), z, one), self.add(z, one))

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
        form = self._format(x)
        square, tail = self._log_tail(f)
        # k*ln2 + f - (f*f/2 - tail): the small terms first, as fdlibm adds them.
        low = self.sub(square, self.fma(k, self.const(form.ln2[1], x), tail))
        return self._log_domain(x, self.fma(k, self.const(form.ln2[0], x), self.sub(f, low)))

    def log2(self, x: Value) -> Value:
        k, f = self._log_split(x)
        nearest, rest = self._format(x).log2e
        y = self._log_of(f)
        return self._log_domain(x, self.fma(y, self.const(nearest, x), self.fma(y, self.const(rest, x), k)))

    def log10(self, x: Value) -> Value:
        k, f = self._log_split(x)
        form = self._format(x)
        y = self._log_of(f)
        low = self.fma(k, self.const(form.log10_2[1], x), self.mul(y, self.const(form.log10e[1], x)))
        low = self.fma(y, self.const(form.log10e[0], x), low)
        return self._log_domain(x, self.fma(k, self.const(form.log10_2[0], x), low))

    def log1p(self, x: Value) -> Value:
        """log(u) with u = 1 + x, where the rounding error of u is added to the reduced argument."""
        form = self._format(x)
        one = self.const(1, x)
        u, error = self._two_sum(one, x)
        bits, k = self._exponent(u)
        power = self.builder.shl(k, self._int(form.mantissa, k))
        m = self._float(self.builder.sub(bits, power))
        # 2^(1-k), not 2^-k: for the largest k that is 0 and not infinite; the error is nothing there.
        scale = self._float(self.builder.sub(self._int((form.bias + 1) << form.mantissa, k), power))
        f = self.fma(self.mul(error, self.const(0.5, x)), scale, self.sub(m, one))
        k = self._int_to_float(k)
        square, tail = self._log_tail(f)
        low = self.sub(square, self.fma(k, self.const(form.ln2[1], x), tail))
        result = self.fma(k, self.const(form.ln2[0], x), self.sub(f, low))
        return self._unless_tiny(x, self._log_domain(u, result))

    # ---------------------------------------------------------------- trigonometry

    def sin(self, x: Value) -> Value:
        return self._trigonometric(x, "sin", lambda r, y, n: self._sin_or_cos(r, y, n))

    def cos(self, x: Value) -> Value:
        # cos(x) = sin(x + pi/2): one quadrant further.
        return self._trigonometric(
            x, "cos", lambda r, y, n: self._sin_or_cos(r, y, self.builder.add(n, self._int(1, n)))
        )

    def tan(self, x: Value) -> Value:
        return self._unless_tiny(x, self._trigonometric(x, "tan", self._tan))

    # ---------------------------------------------------------------- lane by lane

    arcsin, arccos, arctan = _libm("asin"), _libm("acos"), _libm("atan")
    arcsinh, arccosh, arctanh = _libm("asinh"), _libm("acosh"), _libm("atanh")
    arctan2, hypot, pow = _libm("atan2"), _libm("hypot"), _libm("pow")
    cbrt, erf, lgamma = _libm("cbrt"), _libm("erf"), _libm("lgamma")

    # ---------------------------------------------------------------- parts: calls

    def _declare(self, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
        module = self.builder.module
        if name in module.globals:
            return module.globals[name]
        return ir.Function(module, ir.FunctionType(result, arguments), name)

    def _intrinsic(self, stem: str, *args: Value) -> Value:
        name = self._format(args[0]).name if self.lanes == 1 else f"v{self.lanes}{self._format(args[0]).name}"
        function = self._declare(f"{stem}.{name}", args[0].type, [a.type for a in args])
        return self.builder.call(function, args)

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

    # ---------------------------------------------------------------- parts: bits and integers

    def _format(self, value: Value) -> Format:
        return FORMATS[self.element(value)]

    def _int(self, number: int, like: Value) -> Value:
        return self.const(number, like)

    def _bits(self, x: Value) -> Value:
        return self.builder.bitcast(x, self.type(self._format(x).integer))

    def _float(self, bits: Value) -> Value:
        return self.builder.bitcast(bits, self.type(DOUBLE if self.element(bits) == I64 else FLOAT))
