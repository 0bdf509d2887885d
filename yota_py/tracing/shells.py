"""What stands in the places of objects with a state that nobody compares, while a trace runs: generators and loggers.

Such an object may be another one, of its class, at each call. What the function asks of it is recorded, or is a reason
not to cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from ..base.unwinding import state


class _Recording:
    """What stands in the place of an object while a trace runs; to other threads, and later, it is that."""

    _real: Any
    _trace: Any
    _what: str  # it is
    _unrecorded: Callable[..., Any]  # calls a method of which the next call knows nothing

    @property  # type: ignore[misc]  # object's can be assigned, this one only asked
    def __class__(self) -> Any:
        return type(self._real)

    def __yota_open__(self) -> Any:
        """The object itself, for whoever asks for its class or identity."""
        return self._real

    def __eq__(self, other: object) -> bool:
        return self._real is real(other)

    def __hash__(self) -> int:
        return hash(self._real)

    def __getattr__(self, name: str) -> Any:
        getattr(self._real, name)  # raises, if there is none
        return self._unrecorded(self._real, "__getattribute__", (name,), {}, f"reads {name} of {self._what}")

    def __setattr__(self, name: str, value: Any) -> None:
        self._unrecorded(self._real, "__setattr__", (name, value), {}, f"assigns {name} of {self._what}")

    def __reduce__(self) -> Any:
        return self._unrecorded(self._real, "__reduce__", (), {})

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._unrecorded(self._real, "__reduce_ex__", (protocol,), {})


def may_have_started(trace: Any) -> bool:
    """Whether another thread than that of a trace may be one that the traced function has started, or woken."""
    return trace.alive and trace.comparisons is not None and not trace.comparisons.is_heard


def _method(name: str, call: Callable[..., Any], shared: bool) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_another = not state.traces and self._trace.alive  # thread
        if is_another and (may_have_started(self._trace) or not shared):
            self._trace.problems.append(f"{self._what} is used by other threads")
            if self._trace.effects:
                self._trace.refuse(f"a thread that uses {self._what}")
        return call(self._real, name, args, kwargs)

    method.__name__ = name
    return method


_CLASSES: dict[type, type] = {}


def stand_in_class(
    base: type, what: str, record: Callable[..., Any], recorded: Collection[str], unrecorded: Callable[..., Any],
    shared: bool = False, **own: Any,
) -> type:  # fmt: skip
    """Let objects of a class have stand-ins, whose class it returns: methods that are ``recorded`` are called by
    ``record(object, name, args, kwargs)``, others by ``unrecorded``, which may be told why. Those that are ``shared``
    other threads may use meanwhile; ``own`` are further attributes."""
    own = {"__module__": __name__, "_what": what, "_unrecorded": staticmethod(unrecorded), **own}
    for name in dir(base):
        if name[0] != "_" and name not in own and callable(getattr(base, name)):
            own[name] = _method(name, record if name in recorded else unrecorded, shared)
    _CLASSES[base] = made = type(base.__name__, (_Recording, base), own)
    return made


def is_recording(value: Any) -> bool:
    """Whether a value stands in the place of another one."""
    return issubclass(type(value), _Recording)


def real(value: Any) -> Any:
    """The object itself."""
    return value._real if is_recording(value) else value


def is_recordable(value: Any) -> bool:
    """Whether a value is an object that has a stand-in."""
    return type(value) in _CLASSES


def recording(of: Any, trace: Any = None) -> Any:
    """What takes the place of an object while a ``trace`` runs, by default the outermost."""
    cls: Any = _CLASSES[type(of)]
    if isinstance(of, np.random.Generator):
        made = cls(of.bit_generator)
    elif isinstance(of, np.random.RandomState):
        made = cls(of._bit_generator)
    else:
        made = cls.__new__(cls)
    vars(made).update(_real=of, _trace=state.traces[0] if state.traces else trace)
    return made
