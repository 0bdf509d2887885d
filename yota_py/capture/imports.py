"""Modules that a function imports itself, whose names are read when the modules are there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.util import resolve_name
from itertools import accumulate
from types import ModuleType
from typing import Any, NoReturn

from ..base.ownership import is_library
from ..tracing.traces import Trace
from .guards import Guards
from .slots import Slot, literal


class Imports:
    """The user's modules that the code of a trace imports; ``read`` is called with each of them and its expression, and
    then ``settle``. ``first`` is the one because of which the trace has been given up."""

    def __init__(
        self, guards: Guards, read: Callable[[ModuleType, Slot], object], settle: Callable[[], object],
        give_up: Callable[[str], NoReturn],
    ) -> None:  # fmt: skip
        self._guards, self._read, self._settle, self._give_up = guards, read, settle, give_up
        self.first = ""
        self._wanted: set[str] = set()
        self._done: set[str] = set()

    def add(self, names: Iterable[str], namespace: Mapping[str, Any]) -> None:
        """Modules named as in the code of this name space: ``.near`` is next to it."""
        for name in names:
            with suppress(ImportError):  # of what nothing is next to, which the function will learn by itself
                parts = resolve_name(name, namespace.get("__package__")).split(".")
                self._wanted |= {*accumulate(parts, "{}.{}".format)} - self._done
        self.look()

    def look(self) -> None:
        """Read those that are there by now: the function may have imported them a moment ago."""
        for name in sorted(self._wanted):
            if (module := sys.modules.get(name)) is None:
                continue
            self._done.add(name)
            if not is_library(name):
                get = self._guards.constant(sys.modules, "sys.modules").attribute("get")
                self._guards.require_is(self._guards.local(literal(name).given_to(get, name)), module)
                self._read(module, self._guards.constant(module))
        self._wanted -= self._done
        self._settle()

    def begin(self, trace: Trace, name: str) -> None:
        """The function imports a module for the first time. That runs once, whatever it does to others, and must not
        find traced values: so the function itself is called, if there are effects."""
        if trace.effects:
            self.first = name
            self._give_up(f"it imports {name}")

    def fail(self, trace: Trace, name: str) -> None:
        """A module cannot be imported, until somebody makes it."""
        trace.problems.append(f"it tries to import {name}, which fails")
