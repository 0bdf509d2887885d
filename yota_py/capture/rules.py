"""What users' rules read besides their arguments.

A rule runs after the call that was traced, or while its gradient is compiled: nobody watches it then, and what it reads
becomes part of the program.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..base.ownership import is_library, is_library_code, named_module
from ..registry.registry import primitive_of
from ..tape.operations import Call
from ..tape.tape import Tape
from . import kinds
from .bytecode import names_of, nested
from .guards import Guards, in_words
from .slots import Slot, literal

_LARGE = 4096  # bytes of an array whose contents are not compared at each call


def read_rules(tape: Tape, guards: Guards, problems: list[str]) -> None:
    """Guard what the rules of a tape's primitives read, and what users' lowerings do."""
    entries = {id(entry): entry for op in tape.ops if isinstance(op, Call) and (entry := primitive_of(op.fn))}
    for entry in entries.values():
        rules = _Rules(entry.name, guards, problems)
        rules.fixed([entry.rule] if entry.users_rule else [], "what it is bound to")
        rules.fixed([entry.lowering] if entry.lowering and _is_users(entry.lowering) else [], "what it is bound to")


class _Rules:
    """Those of one primitive."""

    def __init__(self, name: str, guards: Guards, problems: list[str]) -> None:
        self._name, self._guards, self._problems = name, guards, problems
        self._known: set[int] = set()

    def fixed(self, values: Iterable[Any], words: str) -> None:
        """What is the same at each call, and may read something."""
        for value in values:
            self._value(value, self._guards.constant(value), words)

    def _function(self, fn: Any, slot: Slot) -> None:
        if id(fn) in self._known:
            return
        self._known.add(id(fn))
        if isinstance(fn, functools.partial):
            self.fixed((fn.func, *fn.args, *fn.keywords.values()), "an argument of a partial")
        if not isinstance(fn, types.FunctionType) or is_of_library(fn):
            return
        for i, (name, cell) in enumerate(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)):
            if cell != types.CellType():
                held = slot.attribute("__closure__").item(literal(i)).attribute("cell_contents")
                self._value(cell.cell_contents, held, name)
        self.fixed((*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()), "a default")
        if not is_library_code(fn.__code__, fn.__globals__):
            for code in nested(fn.__code__):
                self._names(code, fn.__globals__)

    def _names(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        names, known = names_of(code), self._guards.constant(namespace, str(namespace.get("__name__")))
        self._problems += names.problems
        for name in names.globals:
            if name in namespace:
                self._value(namespace[name], known.item(literal(name)), name)
            elif name in kinds.OPAQUE_BUILTINS:
                self._problems.append(f"the rule of {self._name} calls {name}(), whose reads cannot be followed")
        for of, name in names.of_globals:
            owner = namespace.get(of)
            if isinstance(owner, types.ModuleType | type) and _is_users(owner) and hasattr(owner, name):
                self._value(getattr(owner, name), self._guards.constant(owner).attribute(name), f"{of}.{name}")

    def _value(self, value: Any, slot: Slot, words: str) -> None:
        """Something that a rule reads, which has to be as it is now."""
        guards = self._guards
        read = slot if slot.fixed else guards.local(slot, words)
        if isinstance(value, np.ndarray) and value.nbytes <= _LARGE and not value.dtype.hasobject:
            guards.require(f"{read}.tobytes() == {guards.constant(value.tobytes())}", read, in_words(value))
        elif isinstance(value, types.MethodType | np.ndarray | list | dict | set) or (
            _is_users(type(value)) and not isinstance(value, type)
        ):
            what = f"{words}, a {type(value).__name__} that may change"
            self._problems.append(f"the rule of {self._name} reads {what}; make it an argument")
        elif isinstance(value, kinds.IMMUTABLE) and not slot.fixed:
            guards.require_equal(read, value, kind=None)
            return
        if not slot.fixed:
            guards.require_is(read, value)
        if type(value) is tuple:
            self.fixed(value, words)
        elif isinstance(value, types.FunctionType | functools.partial) and primitive_of(value) is None:
            self._function(value, guards.constant(value))


def is_of_library(fn: types.FunctionType) -> bool:
    """Whether a function is a library's own, which holds nothing of the user's."""
    module = named_module(fn)
    return is_library(module) and getattr(sys.modules.get(module), fn.__name__, None) is fn


def _is_users(value: Any) -> bool:
    return not is_library(kinds.module_of(value))
