"""Functions that do not dispatch on their arguments, replaced while a trace is active.

``math.sin``, ``np.array([...])`` and what a rule registers with ``registry.patch`` are exchanged in their modules for
stand-ins when the first trace starts and put back when the last one ends. A stand-in answers as the original unless
this thread is tracing, no primitive is running on values, and the caller is the user's code.
"""

from __future__ import annotations

import dis
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial, wraps
from itertools import pairwise
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from . import locks
from .dispatch import is_traced, original, originals
from .operations import is_library_frame
from .registry import patched


class _State(threading.local):
    """Per thread: the traces in progress, innermost last, and how often patching is suspended."""

    def __init__(self) -> None:
        self.traces: list[Any] = []
        self.suspended = 0
        self.unwatched: AbstractContextManager[None] = nullcontext()  # what runs in its block is not the user's code


state = _State()


_installed: list[tuple[dict[str, Any], str, Any]] = []
_users = 0


def tracing() -> bool:
    """Whether this thread is inside a trace."""
    return bool(state.traces)


class _Suspended:
    """The block in which a primitive runs on values: the stand-ins answer as the originals."""

    def __enter__(self) -> None:
        state.suspended += 1

    def __exit__(self, *error: object) -> None:
        state.suspended -= 1


suspended = _Suspended()


@contextmanager
def installed(trace: Any) -> Iterator[None]:
    """Stand-ins in the places of their originals for the time of a trace."""
    global _users
    with locks.stand_ins:
        if _users == 0:
            for (module, name), stand_in in _stand_ins().items():
                _exchange(vars(module), name, stand_in, _installed)
        _users += 1
    state.traces.append(trace)
    try:
        yield
    finally:
        state.traces.pop()
        with locks.stand_ins:
            _users -= 1
            if _users == 0:
                _restore(_installed)


def _exchange(namespace: dict[str, Any], name: str, new: Any, log: list[tuple[dict[str, Any], str, Any]]) -> None:
    log.append((namespace, name, namespace[name]))
    namespace[name] = new


def _restore(log: list[tuple[dict[str, Any], str, Any]]) -> None:
    while log:
        namespace, name, original = log.pop()
        namespace[name] = original


MEMO = type(lru_cache(lambda: None))
_gates: dict[tuple[ModuleType, str], Callable[..., Any]] = {}
_by_original: dict[int, Callable[..., Any]] = {}


def _stand_ins() -> dict[tuple[ModuleType, str], Callable[..., Any]]:
    """All of them, made when somebody asks and something has been patched since."""
    with locks.stand_ins:
        for module, name in patched.keys() - _gates.keys() if len(patched) != len(_gates) else ():
            _gates[module, name] = gate = _gate(getattr(module, name), patched[module, name])
            _by_original[id(original(gate))] = gate
        return _gates


def stand_in_for(value: Any) -> Callable[..., Any] | None:
    """The stand-in for a function that was imported by name (``from math import sin``); ``None`` if there is none."""
    _stand_ins()
    gate = _by_original.get(id(value))
    return gate if gate is not None and original(gate) is value else None


def noticing(f: Callable[..., Any]) -> Callable[..., Any]:
    """What to call for ``f`` so that it notices tracers: for ``grad(math.sin, 1.0)``, the traced function itself."""
    if isinstance(f, MEMO):  # it must not remember traced values
        return noticing(f.__wrapped__)
    if isinstance(f, partial):
        return partial(noticing(f.func), *f.args, **f.keywords)
    for place, gate in _stand_ins().items():
        if original(f) is original(gate):
            return patched.get(place, f)
    return f


def _gate(fn: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    in_math = getattr(fn, "__module__", "") == "math"

    @wraps(fn)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if not state.traces or state.suspended or is_library_frame(sys._getframe(1)):
            return fn(*args, **kwargs)
        result = traced(*args, **kwargs)
        if in_math and is_traced(result):
            return result._trace.require_finite(result)
        if type(result) is not np.ndarray or _reads_array((*args, *kwargs.values())):
            return result
        if called_name(sys._getframe(1)) != fn.__name__:  # C code that the user's line has called
            return result
        trace = state.traces[-1]
        return trace.tracer(trace.constant(result))  # made from nothing but numbers: known to be the same next time

    originals[id(stand_in)] = fn
    return stand_in


_NAMES = frozenset([
    "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS",
    "LOAD_DEREF", "LOAD_FROM_DICT_OR_DEREF",
])  # fmt: skip


@lru_cache(maxsize=4096)
def _callees(code: CodeType) -> tuple[list[int], list[str]]:
    """The offsets of a code object's instructions, and for those that are calls the name that is called.

    A call and the name it calls begin at the same position in the source, and the name ends before the call does.
    """
    starts: dict[Any, list[tuple[tuple[int, int], str]]] = {}
    names = []
    instructions = list(dis.get_instructions(code))
    for instruction, following in pairwise(instructions):
        name, at = instruction.argval, instruction.positions
        if instruction.opname not in _NAMES and "LOAD_FAST" not in instruction.opname:
            continue
        if isinstance(name, tuple):  # two variables in one instruction, which stands at the place of the first
            called = following.opname == "PUSH_NULL"  # the second, and this instruction stands in its place
            name, at = (name[1], following.positions) if called else (name[0], at)
        if at is not None and at.lineno is not None and at.col_offset is not None:
            end = at.end_lineno or 0, at.end_col_offset or 0
            starts.setdefault((at.lineno, at.col_offset), []).append((end, str(name)))
    for instruction in instructions:
        at = instruction.positions
        if at is None or not instruction.opname.startswith(("CALL", "PRECALL")):
            names.append("")
            continue
        end = at.end_lineno or 0, at.end_col_offset or 0
        inside = [(e, name) for e, name in starts.get((at.lineno, at.col_offset), ()) if e < end]
        names.append(max(inside)[1] if inside else "")
    return [instruction.offset for instruction in instructions], names


def called_name(frame: FrameType) -> str:
    """The name of the function that a frame is calling at the moment, as its source says; empty if unknown."""
    offsets, names = _callees(frame.f_code)
    return names[bisect_right(offsets, frame.f_lasti) - 1]  # the last instruction may be an inline cache


def _reads_array(values: Any) -> bool:
    return any(isinstance(v, np.ndarray) or (isinstance(v, tuple | list) and _reads_array(v)) for v in values)


# Functions that make arrays from numbers: what they give to the user's code while it is traced stands on the tape.
for _module, _names in (
    (np, "zeros ones empty arange eye identity linspace logspace geomspace tri vander "
         "hanning hamming blackman bartlett kaiser"),
    (np.fft, "fftfreq rfftfreq"),
):  # fmt: skip
    for _name in _names.split():
        patched.setdefault((_module, _name), getattr(_module, _name))
