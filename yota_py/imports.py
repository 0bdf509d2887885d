"""Modules that a function imports itself, whose names are read when the modules are there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.util import resolve_name
from itertools import accumulate
from types import ModuleType
from typing import Any

from .guards import Guards
from .ownership import is_library


class Imports:
    """The user's modules that the code of a trace imports; ``read`` is called with each of them and its expression, and
    then ``settle``."""

    def __init__(
        self, guards: Guards, read: Callable[[ModuleType, str], object], settle: Callable[[], object]
    ) -> None:
        self._guards, self._read, self._settle = guards, read, settle
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
                found = self._guards.local(f"{self._modules()}.get({name!r})", name)
                self._guards.require_is(found, module)
                self._read(module, self._guards.constant(module))
        self._wanted -= self._done
        self._settle()

    def finish(self) -> None:
        """After the trace: those that are not there, perhaps because they could not be imported."""
        for name in sorted(self._wanted):
            modules = self._modules()
            self._guards.require(f"{name!r} not in {modules}", f"{modules}.get({name!r})", "missing", minor=True)

    def _modules(self) -> str:
        return self._guards.constant(sys.modules, "sys.modules")
