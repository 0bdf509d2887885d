"""What to write instead of a line that asks a traced value for a plain one."""

from __future__ import annotations

import sys
from types import FrameType

import numpy as np

from .callsites import called_name, called_with
from .ownership import is_library_frame

PLAIN = "where only the number is wanted, to print or save it, write float(stop_gradient(x)): see yota_py.stop_gradient"
_NUMPYS = type(np.reshape)  # of NumPy's other functions


def of_number(frame: FrameType | None) -> tuple[str, str]:
    """What asks for a number of Python's, and the way out."""
    if frame is not None and called_name(frame) == "complex":
        return "complex(a, b)", "write a + 1j*b, or x + 0j"
    return "float(x)", (f"use x itself: it works wherever a number does; {PLAIN}. If the call is math.f imported by "
                        "name in another module, write math.f or np.f")  # fmt: skip


def of_conversion() -> str:
    """The way out of a conversion to an array, by what the user's line calls."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library_frame(frame):
        frame = frame.f_back
    call = called_with(frame, frame.f_lasti) if frame is not None else None
    if call is not None and (isinstance(call.callee, np.ufunc) or type(call.callee) is _NUMPYS):
        return f"make an array of the list that {call.name} is given: {call.name}(np.array([...]), ...)"
    return ("call NumPy functions through `np.` in your own code, make arrays of lists first (np.array([...])), or "
            "give the function that converts a rule: see yota_py.primitive; where only numbers are wanted, write "
            "stop_gradient(x): see yota_py.stop_gradient")  # fmt: skip
