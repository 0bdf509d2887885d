"""Functions that do not dispatch on their arguments, replaced while a trace is active.

``math.sin``, ``np.array([...])`` and what a rule registers with ``registry.patch`` are exchanged in their modules for
stand-ins when the first trace starts and put back when the last one ends. A stand-in answers as the original unless
this thread is tracing, no primitive is running on values, and the caller is the user's code.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

from .operations import is_library
from .registry import patched


class _State(threading.local):
    traces: int = 0
    suspended: int = 0


state = _State()
_lock = threading.RLock()
_installed: list[tuple[dict[str, Any], str, Any]] = []
_users = 0


def tracing() -> bool:
    """Whether this thread is inside a trace."""
    return state.traces > 0


@contextmanager
def suspended() -> Iterator[None]:
    """While a primitive runs on values, the stand-ins answer as the originals."""
    state.suspended += 1
    try:
        yield
    finally:
        state.suspended -= 1


@contextmanager
def installed(namespace: dict[str, Any] | None = None) -> Iterator[None]:
    """Stand-ins in place for the time of a trace; also under names imported into ``namespace`` (``from math import sin``)."""
    global _users
    mine: list[tuple[dict[str, Any], str, Any]] = []
    with _lock:
        stand_ins = _stand_ins()
        if _users == 0:
            for (module, name), stand_in in stand_ins.items():
                _exchange(vars(module), name, stand_in, _installed)
        _users += 1
        if namespace is not None and not is_library(namespace.get("__name__")):
            by_original = {id(stand_in.__wrapped__): stand_in for stand_in in stand_ins.values()}  # type: ignore[attr-defined]
            for name, value in list(namespace.items()):
                if (stand_in := by_original.get(id(value))) is not None:
                    _exchange(namespace, name, stand_in, mine)
    state.traces += 1
    try:
        yield
    finally:
        state.traces -= 1
        with _lock:
            _restore(mine)
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


_gates: dict[tuple[ModuleType, str], Callable[..., Any]] = {}


def _stand_ins() -> dict[tuple[ModuleType, str], Callable[..., Any]]:
    for key, traced in patched.items():
        if key not in _gates:
            _gates[key] = _gate(getattr(*key), traced)
    return _gates


def _gate(original: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if not state.traces or state.suspended or is_library(sys._getframe(1).f_globals.get("__name__")):
            return original(*args, **kwargs)
        return traced(*args, **kwargs)

    stand_in.__wrapped__ = original  # type: ignore[attr-defined]
    return stand_in
