"""What reductions begin with, how two of their values are put together, and how far their totals reach."""

from __future__ import annotations

from llvmlite import ir

from ..maths.builder import VecMath
from ..maths.formats import FORMATS
from ..maths.llvm import Unsigned, Value
from .ir import KernelSpec, Output

STOPPING = ("any", "all")
_COMBINED = {
    "sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "any": "bitwise_or", "all": "bitwise_and",
    "cumsum": "add", "cumprod": "mul",
}  # fmt: skip
_NEUTRAL = {"sum": 0, "prod": 1, "any": 0, "all": 1, "cumsum": -0.0, "cumprod": 1}
SCANS = ("cumsum", "cumprod")
PLACES = ("argmax", "argmin")


def neutral(math: VecMath, mode: str, element: ir.Type) -> Value:
    """The result of a reduction of nothing."""
    if mode in _NEUTRAL:
        return math.const(_NEUTRAL[mode], element)
    if isinstance(element, Unsigned):
        return math.const(0 if mode == "max" else 2**element.width - 1, element)
    if isinstance(element, ir.IntType):
        limit = 2 ** (element.width - 1)
        return math.const(-limit if mode == "max" else limit - 1, element)
    return math.const(float("-inf") if mode == "max" else float("inf"), element)


def combined(math: VecMath, mode: str, a: Value, b: Value) -> Value:
    """The result for both."""
    return getattr(math, _COMBINED[mode])(a, b)


def is_beyond(math: VecMath, mode: str, new: Value, old: Value) -> Value:
    """Whether another number takes the place of the extremum so far: not if they are equal, nor if that is NaN; and if
    only the other one is."""
    beyond = math.logical_not(math.ge(old, new) if mode == "argmax" else math.le(old, new))
    return math.logical_and(beyond, math.eq(old, old)) if math.element(old) in FORMATS else beyond


def is_float_sum(out: Output) -> bool:
    """Whether it is summed in blocks."""
    return out.mode == "sum" and out.dtype.startswith("float")


def total_depth(out: Output) -> int | None:
    """The depth of the outermost loop from which on inwards all are reduced; ``None`` if the innermost is not."""
    if not out.reduced or not out.reduced[-1] or out.mode in SCANS:
        return None
    depth = len(out.reduced)
    while depth and out.reduced[depth - 1]:
        depth -= 1
    return depth


def carries(out: Output) -> bool:
    """Whether a result is summed up (or multiplied) along the innermost dimension, one element after the other."""
    return out.mode in SCANS and out.reduced[-1]


def stops_early(spec: KernelSpec) -> bool:
    """Whether nothing remains to be done when all totals are decided: no index is checked, no value is stored."""
    depths = {total_depth(o) for o in spec.outputs}
    stopping = all(o.mode in STOPPING for o in spec.outputs)
    return stopping and len(depths) == 1 and None not in depths and not any(o.access == "gather" for o in spec.operands)


def waits(spec: KernelSpec) -> bool:
    """Whether each iteration waits for the totals of the one before: sums do in blocks, which end soon."""
    return any(o.mode in ("prod", "max", "min") and total_depth(o) is not None for o in spec.outputs)
