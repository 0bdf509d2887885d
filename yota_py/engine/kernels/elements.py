"""An operation on elements, as the maths builder writes it."""

from __future__ import annotations

from collections.abc import Sequence

from ...registry.kernels import emitted
from ..maths.builder import VecMath
from ..maths.llvm import ELEMENTS, FLOAT, HALF, Value

_EXTREMA = ("maximum", "minimum", "fmax", "fmin")


def operated(math: VecMath, emit: str, operands: Sequence[Value], dtype: str) -> Value:
    """What the operation of this name makes of operands; the only one as another dtype, if there is none. On halves it
    is computed in single precision, and rounded; of two zeros NumPy takes the first there, elsewhere the second."""
    if not emit:
        return math.cast(operands[0], ELEMENTS[dtype])
    if dtype == "float16" and emit in _EXTREMA:
        operands = operands[::-1]
    value = emitted(math, emit, *(math.cast(x, FLOAT) if math.element(x) == HALF else x for x in operands))
    value = math.cast(value, HALF) if dtype == "float16" else value
    if math.element(value) != ELEMENTS[dtype]:
        raise TypeError(f"a kernel computes {math.element(value)} where {dtype} is wanted")
    return value
