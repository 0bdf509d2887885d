"""The maths builder of kernels: NumPy's elementwise functions on LLVM values.

LLVM has no vector exp or sin of its own, and a call to libm keeps a fused loop scalar; so the common functions are
written out as straight-line arithmetic, with selects in the place of branches. What is rare goes lane by lane to libm.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from . import division, exponentials, integers, inverses, powers, trigonometry
from .arithmetic import Arithmetic
from .formats import FORMATS
from .llvm import Value


def _libm(name: str) -> Callable[..., Value]:
    def method(self: Arithmetic, *args: Value) -> Value:
        return self.lane_by_lane(name, *args)

    return method


class VecMath(Arithmetic):
    """Emits elementwise operations at the builder's position; every method takes and returns LLVM values.

    Methods bear the names of NumPy's ufuncs, and of `scipy.special` for `expit`, `log_expit`, `logit`, `erf`, `erfc`.
    The functions that are written out here are within 2 ulp of the exact result; those of libm are as good as libm.

    `sin`, `cos`, `tan` and `pow` append basic blocks: the builder then stands at the end of another block.
    """

    exp, exp2, expm1 = exponentials.exp, exponentials.exp2, exponentials.expm1
    sinh, cosh, tanh = exponentials.sinh, exponentials.cosh, exponentials.tanh
    expit, log_expit = exponentials.expit, exponentials.log_expit
    logaddexp, logaddexp2 = exponentials.logaddexp, exponentials.logaddexp2
    log, log2, log10, log1p = exponentials.log, exponentials.log2, exponentials.log10, exponentials.log1p
    logit = exponentials.logit
    sin, cos, tan = trigonometry.sin, trigonometry.cos, trigonometry.tan
    fmod, remainder, floor_divide = division.fmod, division.remainder, division.floor_divide
    left_shift, right_shift = integers.left_shift, integers.right_shift

    arcsin, arccos, arctan, arctan2 = inverses.arcsin, inverses.arccos, inverses.arctan, inverses.arctan2
    arcsinh, arccosh, arctanh = inverses.arcsinh, inverses.arccosh, inverses.arctanh
    cbrt, hypot, pow = powers.cbrt, powers.hypot, powers.pow

    erf, erfc, lgamma = _libm("erf"), _libm("erfc"), _libm("lgamma")


_BY_LIBM = {"erf", "erfc", "lgamma", "fmod", "remainder", "floor_divide"}
# Long expressions, in which one operation waits for another.
WRITTEN_OUT = frozenset(name for name in vars(VecMath) if not name.startswith("_")) - _BY_LIBM

_OWN = {name: getattr(VecMath, name) for name in dir(VecMath)}


def is_unchanged(name: str) -> bool:
    """Whether this is a method of the maths builder, and the library's."""
    return name in _OWN and getattr(VecMath, name, None) is _OWN[name]


def _called(name: str) -> Callable[..., Value]:
    write = getattr(VecMath, name)

    def method(self: VecMath, *args: Value) -> Value:
        kind, module = args[0].type, self.builder.module
        if self.element(args[0]) not in FORMATS or any(a.type != kind for a in args):
            return write(self, *args)
        known = f"{module.name}.{name}.{self.lanes}{self.format(args[0]).name}"
        if (function := module.globals.get(known)) is None:
            function = ir.Function(module, ir.FunctionType(kind, [kind] * len(args)), known)
            function.linkage = "internal"
            function.attributes.add("nounwind")
            b = ir.IRBuilder(function.append_basic_block("entry"))
            b.ret(write(VecMath(b, self.lanes), *function.args))
        return self.builder.call(function, args)

    return method


# The same, but what is written out stands once in a module, and is called: where there is much of it, compiling takes a
# fraction of the time.
Called = type("Called", (VecMath,), {name: _called(name) for name in WRITTEN_OUT})
