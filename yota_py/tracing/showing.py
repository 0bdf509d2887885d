"""Modules that look who asks them for a name, while a trace runs: the user's code is shown stand-ins where it calls
them."""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from types import CodeType, FrameType, ModuleType
from typing import Any

from ..base.callsites import METHODS, called_of
from ..base.dispatch import originals
from ..base.ownership import is_library_frame, ours
from ..base.unwinding import state
from ..registry.patches import makers, open_modules, show, shown, shown_always
from ..registry.registry import listeners, primitive_of


def is_plain(frame: FrameType) -> bool:
    """Whether a frame runs a library's code that is not traced through."""
    if not is_library_frame(frame):
        return False
    name = frame.f_globals["__name__"]
    return not state.through or name not in open_modules or _has_no_derivative(frame.f_code, name)


@lru_cache(maxsize=1024)
def _has_no_derivative(code: CodeType, module: str) -> bool:
    """Whether this is the code of a function such as ``np.zeros_like``: of traced values it would be recorded, so what
    it is given are plain ones."""
    fn = vars(open_modules[module]).get(code.co_name)
    entry = primitive_of(fn)
    is_own = getattr(getattr(fn, "_implementation", fn), "__code__", None) is code
    return is_own and entry is not None and entry.nondiff and entry.body is None


listeners.append(_has_no_derivative.cache_clear)


_attribute = ModuleType.__getattribute__
_frame, _id = partial(sys._getframe, 1), partial(id)  # of what they call, a profile function hears nothing


class Showing(ModuleType):
    """A module while a trace runs. It is asked for every name that anybody reads in it, and a profile function may hear
    of all that it calls: so it calls little."""

    def __getattribute__(self, name: str) -> Any:
        value = _attribute(self, name)
        if name[0] == "_":
            return value
        if type(value) in makers and state.traces and not state.suspended:
            frame = _frame()
            at = _id(frame.f_code), frame.f_lasti
            if at in _answers:
                of, module, answer, _ = _answers[at]
                space = frame.f_globals  # the code may run in several, also in one without a name
                if of is value and "__name__" in space and module == space["__name__"]:
                    return answer
            elif at[0] in ours:
                return value
        key = _id(value)
        stand_in = shown[key][1] if key in shown and shown[key][0] is value else None
        is_gate = key in originals
        if stand_in is None and type(value) not in makers and not is_gate:
            return value
        if not state.traces or state.suspended:
            return originals[key] if is_gate else value
        frame = _frame()
        if is_plain(frame):
            return originals[key] if is_gate else value
        if stand_in is None:
            stand_in = shown_for(value)
        if stand_in is None or id(stand_in) in shown_always:
            return value if stand_in is None else stand_in
        called = called_of(frame)
        shows = called == () or (called and called[0] in METHODS and hasattr(stand_in, called[0]))
        if len(_answers) >= MAX_ANSWERS:
            _answers.clear()
        answer = stand_in if shows else value
        if not state.through and "__name__" in frame.f_globals:  # the user's code
            _answers[id(frame.f_code), frame.f_lasti] = value, frame.f_globals["__name__"], answer, frame.f_code
        return answer


MAX_ANSWERS = 2**14
# What the user's code was shown for a function of NumPy's, by the identity of the code and the instruction that asks;
# with the name of the module, which says whose code it is, and the code.
_answers: dict[tuple[int, int], tuple[Any, Any, Any, Any]] = {}
listeners.append(_answers.clear)


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
