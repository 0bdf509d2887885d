"""The two floating-point formats of emitted mathematics: layout, thresholds, split constants and polynomials.

The polynomials are minimax on the intervals noted below (Remez exchange at 200 bits, then rounded).
"""

from __future__ import annotations

import struct
import sys
from fractions import Fraction

from llvmlite import ir

from ...base.records import record
from .llvm import DOUBLE, FLOAT, I32, I64


@record()
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
    asin: tuple[float, ...]  # (asin(t) - t) / t^3 in z = t^2, |t| <= 1/2
    atan: tuple[float, ...]  # (atan(t) - t) / t^3 in z = t^2, |t| <= 3/5
    atanh: tuple[float, ...]  # (atanh(s) - s) / s^3 in z = s^2, |s| <= 1/5
    log_rest: tuple[float, ...]  # ((log((1+s)/(1-s)) / s - 2) / z - 2/3) / z in z = s^2, s as in ``log``

    @property
    def magic(self) -> float:
        """Adding this rounds to an integer, and leaves that integer in the low bits."""
        return 1.5 * 2.0**self.mantissa

    def bits(self, number: float) -> int:
        """The bit pattern of a positive number, as an integer."""
        return int.from_bytes(struct.pack(self._code, number), sys.byteorder)

    def pair(self, number: Fraction) -> tuple[float, float]:
        """The nearest number of this format, and of the rest."""
        nearest = self._rounded(number)
        return nearest, self._rounded(number - Fraction(nearest))

    def angle(self, quarters: int) -> tuple[float, float]:
        """So many quarters of pi: nearest, rest."""
        return self.pair(Fraction(quarters, 2) * sum(map(Fraction, self.half_pi), Fraction()))

    @property
    def _code(self) -> str:
        return "d" if self.mantissa == 52 else "f"

    def _rounded(self, number: Fraction) -> float:
        return float(struct.unpack(self._code, struct.pack(self._code, float(number)))[0])


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
    asin=(
        0.16666666666665375, 0.075000000003448, 0.044642856821979666, 0.030381959395225054, 0.02237175194547152,
        0.017359795516757492, 0.01388435164280453, 0.012174935570828865, 0.006503543245127415, 0.019594295771562357,
        -0.016326647575366494, 0.03198167477528987,
    ),
    atan=(
        -0.3333333333333207, 0.1999999999971726, -0.14285714263506105, 0.11111110230637342, -0.09090888434092327,
        0.07691994790734716, -0.06663442492172209, 0.05859026848704301, -0.05142539411300631, 0.04312731525721409,
        -0.0314317966661386, 0.01679544818848309, -0.004674899359356027,
    ),
    atanh=(
        0.3333333333333329, 0.2000000000003057, 0.14285714277390388, 0.11111112206069389, 0.09090829543096159,
        0.07695664894071653, 0.06584997053512827, 0.069335521706176,
    ),
    log_rest=(
        0.40000000000002256, 0.28571428570099533, 0.2222222251993048, 0.18181784366427375, 0.153867573669916,
        0.1325681679235582, 0.13196338880740316,
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
    asin=(0.16666753590106964, 0.07495231926441193, 0.045478444546461105, 0.024140534922480583, 0.042231254279613495),
    atan=(
        -0.33333292603492737, 0.19997672736644745, -0.14241598546504974, 0.10718867927789688, -0.0725008025765419,
        0.029687747359275818,
    ),
    atanh=(0.3333348035812378, 0.19978366792201996, 0.1519196778535843),
    log_rest=(0.40000152587890625, 0.28547126054763794, 0.23418766260147095),
)  # fmt: skip

FORMATS = {DOUBLE: BINARY64, FLOAT: BINARY32}
