"""Captured arrays exchanged for tracers where they stand, for the time of a trace."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from .dispatch import find_traced, is_traced
from .trace import Trace
from .tracer import shadow
from .trees import map_items

Place = tuple[Callable[[], Any], Callable[[Any], None]]  # where a captured value stands: reading it, replacing it


def item_of(container: Any, key: Any) -> Place:
    """An item of a list or dict."""
    return functools.partial(operator.getitem, container, key), functools.partial(operator.setitem, container, key)


def attribute_of(obj: Any, name: str) -> Place:
    """An attribute of an object, a module, a class, a closure's cell or a function."""
    return functools.partial(getattr, obj, name), functools.partial(_set_attribute, obj, name)


def _set_attribute(obj: Any, name: str, value: Any) -> None:
    own = getattr(obj, "__dict__", None)
    if isinstance(own, dict) and name in own:
        own[name] = value
    else:
        (type.__setattr__ if isinstance(obj, type) else object.__setattr__)(obj, name, value)


class Exchange:
    """What one trace has exchanged, and the containers in which its tracers may be left behind."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._exchanged: list[tuple[Any, Any, Place]] = []
        self._containers: dict[int, Any] = {}

    def put(self, old: Any, new: Any, place: Place) -> None:
        """Let ``new`` stand where ``old`` does."""
        place[1](new)
        self._exchanged.append((old, new, place))

    def look_after(self, container: list[Any] | dict[Any, Any]) -> None:
        """A list or dict (also that of an object) that the function may write traced values into."""
        self._containers[id(container)] = container

    def restore(self) -> None:
        """Put everything back; traced values that the function has left behind become plain values."""
        while self._exchanged:
            old, new, (read, write) = self._exchanged.pop()
            try:
                untouched = read() is new
            except (AttributeError, LookupError, ValueError):  # the function has deleted it
                untouched = False
            if untouched:
                write(old)
            else:
                self.trace.problems.append("it rebinds or replaces a captured array while it runs")
        for container in self._containers.values():
            for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
                if find_traced((value,)) is not None:
                    container[key] = self._plain(value)
                    self.trace.problems.append("it stores traced values outside of itself")

    def _plain(self, value: Any) -> Any:
        if is_traced(value):
            return shadow(value) if value._trace is self.trace else value
        return map_items(self._plain, value)
