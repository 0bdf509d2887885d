"""What the attributes of modules are while a trace runs: stand-ins where they are called, and only there.

``np.sqrt([a, b])`` asks nobody whether the list holds traced values. While a trace runs, the modules that matter are of
a class that looks who asks for an attribute. The user's code gets a stand-in if it calls it at once; what it may
compare, store or hand on is NumPy's own, and so is what libraries find: numba, which compiles a function, or SciPy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..base.callsites import METHODS, called_of
from ..base.dispatch import original
from ..base.ownership import is_library_frame
from ..base.unwinding import state
from ..registry.patches import makers, show, shown, shown_always

MODULES = [
    "numpy", "numpy.linalg", "numpy.fft", "numpy.testing", "numpy.lib.stride_tricks", "math", "cmath", "scipy.special",
]  # fmt: skip

_get: Callable[[Any, str], Any] = ModuleType.__getattribute__


class Showing(ModuleType):
    """A module while a trace runs."""

    def __getattribute__(self, name: str) -> Any:
        value = _get(self, name)
        if name.startswith("__"):
            return value
        if not state.traces or state.suspended:
            return original(value)
        frame = sys._getframe(1)
        if is_library_frame(frame):
            return original(value)
        stand_in = shown_for(value)
        if stand_in is None or id(stand_in) in shown_always:
            return value if stand_in is None else stand_in
        called = called_of(frame)
        return stand_in if called == () or (called and called[0] in METHODS and hasattr(stand_in, called[0])) else value


def shown_for(value: Any) -> Any:
    """What is shown for a value where it is called; ``None`` if it is shown itself."""
    known = shown.get(id(value))
    if known is not None and known[0] is value:
        return known[1]
    make = makers.get(type(value))
    if make is None:
        return None
    stand_in = make(value, value)
    show(value, stand_in)
    return stand_in
