"""What traced arrays are asked that is no operation on a tape: how they lie in memory, and their plain contents.

How an array lies in memory has no derivative. Its contents are handed out where it carries none, as a decision on
all of them. What looks at memory looks at a copy that is read-only, and into the array itself nothing is written then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..base.dispatch import decided, shadow
from ..base.unwinding import state
from ..registry.constants import as_constant
from ..registry.patches import conversions
from ..registry.registry import readings
from ..registry.writes import copied
from . import hints
from .tracer import Tracer, heed_layout, unsupported
from .views import locked

_OF_ORDER = frozenset(["contiguous", "c_contiguous", "f_contiguous", "fortran", "c", "f", "fnc", "forc"])


def _note(what: str) -> None:
    """What programs do not look at is asked: another call is to ask it again."""
    for trace in state.traces:
        trace.problems.append(f"it asks for {what} of an array")
        if trace.effects:
            trace.refuse(f"{what} of an array, of which nothing is known at other calls")


class Flags:
    """The flags of an array, to be read."""

    __slots__ = ("_array",)

    def __init__(self, array: Tracer) -> None:
        object.__setattr__(self, "_array", array)

    def __getitem__(self, name: str) -> bool:
        heed_layout()
        answer: bool = shadow(self._array).flags[name]
        if name.lower() not in _OF_ORDER:
            _note(f"flags[{name!r}]")
        return answer

    def __getattr__(self, name: str) -> Any:
        heed_layout()
        answer = getattr(shadow(self._array).flags, name)
        if name not in _OF_ORDER:
            _note(f"flags.{name}")
        return answer

    def __repr__(self) -> str:
        _note("the flags")
        return repr(shadow(self._array).flags)

    def __setattr__(self, name: str, value: Any) -> None:
        raise unsupported(f"x.flags.{name} = ...", "Write into a copy of what is not to be changed: y = x.copy()")

    __setitem__ = __setattr__


def _flags(x: Tracer) -> Flags:
    if x._ledger.effects:  # they may be stored, or returned
        raise unsupported("x.flags under jit")
    return Flags(x)


def _strides(x: Tracer) -> Any:
    heed_layout()
    return shadow(x).strides


def _base(x: Tracer) -> Any:
    """The array that owns the memory, where a traced one does."""
    root = x._root
    if shadow(root).base is not None:
        raise unsupported("x.base")
    _note("base")
    return None if x is root else root


def _to_device(x: Tracer) -> Callable[..., Any]:
    def to_device(device: Any, /, *, stream: Any = None) -> Tracer:
        shadow(x).to_device(device, stream=stream)  # raises what NumPy raises
        return x

    return to_device


def _contents(x: Tracer, what: str) -> np.ndarray:
    """A copy that lies in memory as the array does, and is read-only."""
    if x._carries():
        raise unsupported(what, hints.of_attribute(what.removeprefix("x.")))
    if x._ledger.effects:
        raise unsupported(f"under jit, {what}", "Call the function itself, without jit")
    heed_layout()
    decided(x)
    return locked(copied(shadow(x))).view()


def _contents_for_good(x: Tracer, what: str) -> np.ndarray:
    """The contents, which do not change as long as the function runs."""
    array = _contents(x, what)
    x._ledger.shown.append(x._root)
    return array


def _in_its_memory(x: Tracer) -> np.ndarray:
    """Contents as a view of what they are a view of: ``as_strided`` makes views of the memory beside them, too."""
    root = x._root
    value, owner = shadow(x), shadow(root)
    if owner.base is not None or not owner.flags.forc or (value is not owner and value.base is not owner):
        raise unsupported("as_strided of an array in memory that others look at", "Copy it first: x.copy()")
    memory = _contents_for_good(root, "as_strided").ravel(order="K")
    offset = value.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return np.ndarray(value.shape, value.dtype, memory, offset, value.strides)


def _in_bytes(name: str) -> Callable[[Tracer], Any]:
    return lambda x: getattr(_contents(x, f"x.{name}"), name)


def _into_file(name: str) -> Callable[[Tracer], Any]:
    def reading(x: Tracer) -> Any:
        write = getattr(_contents(x, f"x.{name}"), name)
        _note(name)
        return write

    return reading


def _view(x: Tracer, *args: Any, **kwargs: Any) -> Any:
    """The memory as of another dtype or class."""
    view = _contents_for_good(x, "x.view of another dtype or class").view(*args, **kwargs)
    if type(view) is not np.ndarray or view.dtype.kind not in "fciub":
        return view
    constant = as_constant(view)
    if isinstance(constant, Tracer):
        constant._ledger.shown.append(constant)
    return constant


def _ctypes(x: Tracer) -> Any:
    if x._carries():
        raise unsupported("x.ctypes")
    raise unsupported("x.ctypes", "Take a copy, which C code may read: x.__array__().ctypes")


conversions[as_strided.__code__] = _in_its_memory
readings |= {
    "strides": _strides, "flags": _flags, "base": _base, "device": lambda x: shadow(x).device, "to_device": _to_device,
    "tobytes": _in_bytes("tobytes"), "dumps": _in_bytes("dumps"), "tofile": _into_file("tofile"),
    "dump": _into_file("dump"), "data": lambda x: _contents_for_good(x, "x.data").data, "ctypes": _ctypes,
    "view": lambda x: partial(_view, x),
}  # fmt: skip
