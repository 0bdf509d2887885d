"""What a function reads besides its arguments, found while it is traced, so that a cached program can ask again.

The names that ``f`` and the Python functions it calls read (globals, closure cells, defaults, attributes of objects,
items of containers) are walked; arrays among them are exchanged for tracers while the trace runs, so that they become
inputs of the tape, read by reference at every later call. Everything else is guarded: numbers and strings by value,
functions, modules and objects by identity, containers item by item. What cannot be guarded is a reason not to cache.
"""

from __future__ import annotations

import builtins
import functools
import reprlib
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import kinds
from .attributes import Attributes
from .containers import with_items
from .contents import copy_of, parts_of, unchanged
from .disguise import settling
from .dispatch import is_traced, mode_of, original
from .exchange import Exchange, Place, attribute_of, builtin_of, item_of
from .foreign import kind_of
from .guards import Guards
from .instructions import Names, is_reflection, names_of, nested
from .operations import Site, Variable, site_of
from .ownership import is_library, is_library_code
from .patching import MEMO, stand_in_for
from .trace import Trace
from .tracer import Tracer

MAX_READS = 3000

class Captures:
    """The reads of one trace: the guards on them, and the arrays that became inputs."""

    def __init__(
        self, trace: Trace, f: Callable[..., Any], arguments: Sequence[str], inputs: frozenset[str] = frozenset()
    ) -> None:
        self.trace = trace
        self.f = f
        self.arguments = arguments  # names of the leaves
        self.inputs = inputs  # paths of floating-point numbers that become inputs of the program
        self.problems = trace.problems
        self.guards = Guards()
        self.values: list[Any] = []  # the captured ones, in the order of capture
        self.exchange = Exchange(trace)
        self._attributes = Attributes(self.guards, self.exchange, self._read)
        self._codes: dict[tuple[int, int], types.CodeType] = {}  # by identity: equal code may stand in several modules
        self._rebound: set[str] = set()  # names of all kinds that are assigned; "[]" for items
        self._globals: set[tuple[int, str]] = set()
        self._functions: set[int] = set()
        self._path: list[int] = []  # the containers around the one being read
        self._tracers: dict[int, tuple[Any, Tracer, str]] = {}

    # -- the walk

    def start(self) -> None:
        """Walk from ``f`` itself, and from objects among its arguments (which a cache entry knows by identity)."""
        self.guards.require(f"type(f) is {self.guards.constant(type(self.f))}", "f", type(self.f).__name__, minor=True)
        self._callable(self.f, "f")
        for leaf, name in zip(self.trace.tape.leaves, self.arguments, strict=True):
            if not isinstance(leaf, (Variable, *kinds.IMMUTABLE)):
                self._value(leaf, self.guards.local(self.guards.reference(leaf, name)))
        self._attributes.settle()

    def enter(self, frame: types.FrameType) -> None:
        """A Python function is called during the trace."""
        code, namespace = frame.f_code, frame.f_globals
        if (id(code), id(namespace)) in self._codes:
            return
        if is_library_code(code, namespace):
            self._codes[id(code), id(namespace)] = code
            return
        if code.co_freevars and code.co_name not in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"):
            self.problems.append(f"{code.co_name} was reached by a way that cannot be followed, and has a closure")
        self._code(code, namespace)
        self._attributes.settle()

    def _callable(self, fn: Any, expression: str, *, itself: bool = False) -> None:
        if isinstance(fn, types.MethodType):
            method = self.guards.constant(types.MethodType)
            self.guards.require(f"type({expression}) is {method}", expression, "a method", minor=True)
            function = self.guards.local(f"{expression}.__func__", fn.__qualname__)
            self.guards.require_is(function, fn.__func__)
            self._value(fn.__self__, self.guards.local(f"{expression}.__self__", "self"))
            self._callable(fn.__func__, function, itself=True)
        elif isinstance(fn, types.FunctionType):
            self._function(fn, expression, itself=itself)
        elif isinstance(fn, functools.partial):
            self._value(fn.func, self.guards.local(f"{expression}.func"))
            for name, value in (("args", fn.args), ("keywords", fn.keywords)):
                if self._value(value, self.guards.local(f"{expression}.{name}")) is not value:
                    self.problems.append("it is a functools.partial of arrays; use a lambda or a def")
        else:
            self._value(fn, expression)

    def _function(self, fn: types.FunctionType, expression: str, *, itself: bool) -> None:
        """Cells, defaults and global names of a Python function; ``expression`` is it ``itself``, or another with the
        same code. Defaults that were not there were not needed."""
        if id(fn) in self._functions:
            if not itself:
                self.guards.require_object(expression, fn)
            return
        self._functions.add(id(fn))
        if is_library_code(fn.__code__, fn.__globals__):
            self._library_function(fn, expression, itself=itself)
            return
        self._scan(fn.__code__)
        guards, site = self.guards, site_of(fn.__code__)
        code, names = guards.constant(fn.__code__), guards.constant(fn.__globals__)
        guards.require(f"{expression}.__code__ is {code}", expression, f"as in {site}", minor=True)
        if not itself:
            guards.require(f"{expression}.__globals__ is {names}", expression, "in its module", minor=True)
        for i, (name, cell) in enumerate(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)):
            try:
                value = cell.cell_contents
            except ValueError:
                self.problems.append(f"{fn.__name__} has a name in its closure that is not bound yet")
                continue
            self.exchange.look_after(cell, f"{expression}.__closure__[{i}]", "cell_contents")
            place = attribute_of(cell, "cell_contents")
            self._read(value, f"{expression}.__closure__[{i}].cell_contents", place, name, site, name)
        if fn.__dict__:
            self._attributes.watch(fn, expression)
        for name in ("__defaults__", "__kwdefaults__"):
            if (value := getattr(fn, name)) is not None:
                path = f"{fn.__name__}.{name}"
                self._read(value, f"{expression}.{name}", attribute_of(fn, name), path, site, name)
        self._code(fn.__code__, fn.__globals__)

    def _library_function(self, fn: types.FunctionType, expression: str, *, itself: bool) -> None:
        """A function of a library is known by identity; one that we have made of another, by what is wrapped."""
        mode = mode_of(fn)
        if not itself and mode is None:
            self.guards.require_object(expression, fn)
        elif not itself:
            code, known = self.guards.constant(fn.__code__), self.guards.constant(mode)
            was = f"{expression}.__code__ is {code} and {expression}.__yota_cache__.mode == {known}"
            self.guards.require(was, expression, f"what {fn.__name__} was", minor=True)
        if hasattr(fn, "__wrapped__"):
            self._callable(fn.__wrapped__, f"{expression}.__wrapped__", itself=itself)
        if isinstance(table := getattr(fn, "registry", None), types.MappingProxyType):  # functools.singledispatch
            values = self.guards.local(f"tuple({expression}.registry.values())")
            known = self.guards.constant(tuple(table.values()))
            self.guards.require(f"{values} == {known}", expression, f"with {len(table)} implementations")
            for i, implementation in enumerate(table.values()):
                self._callable(implementation, f"{values}[{i}]", itself=True)

    def _code(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Global names and attributes that a code object, or one nested in it, reads."""
        key = id(code), id(namespace)
        if key in self._codes:
            return
        names = self._scan(code)
        for part in nested(code):
            self._codes[id(part), id(namespace)] = part
        for found in names:
            self._names(found, namespace)

    def _scan(self, code: types.CodeType) -> list[Names]:
        """The names in a code object and those nested in it, after a note of what they assign to."""
        names = [names_of(part) for part in nested(code)]
        for found in names:
            self._rebound |= found.rebound
        return names

    def _names(self, names: Names, namespace: dict[str, Any]) -> None:
        self.problems += names.problems
        self.trace.sets_errors |= names.sets_errors
        for name, site in names.globals.items():
            self._global(name, namespace, site)
        for (of, name), site in names.of_globals.items():
            if self.trace.effects:  # the name may stand for something else before it is read
                self._attributes.add({name: site})
            elif of in namespace:
                self._attributes.of(namespace[of], name, site)
        for name, site in names.stored_globals.items():
            if self.trace.effects:
                self._global(name, namespace, site)
            else:
                self.problems.append(f"{site.function} changes the global name {name}")
        self._attributes.add(names.attributes)
        if self.trace.effects:
            self._attributes.store(names.stored_attributes)
        else:
            self._attributes.add(dict.fromkeys(names.stored_attributes))
        for name in names.imports:
            if (module := sys.modules.get(name)) is not None and not is_library(name):
                self._value(module, self.guards.constant(module, name))

    def _global(self, name: str, namespace: dict[str, Any], site: Site) -> None:
        key = (id(namespace), name)
        if key in self._globals:
            return
        self._globals.add(key)
        names = self.guards.constant(namespace, str(namespace.get("__name__")))
        if is_library(namespace.get("__name__")):  # what users have typed into it; stand-ins are there already
            if name in namespace:
                self._value(original(namespace[name]), self.guards.local(f"{names}[{name!r}]", name, site))
            return
        self.exchange.look_after(namespace, names)
        if name in namespace:
            self._read(namespace[name], f"{names}[{name!r}]", item_of(namespace, name), name, site, name)
            return
        self.guards.require(f"{name!r} not in {names}", repr(name), "no global name")
        builtin = getattr(builtins, name, None)
        if (stand_in := stand_in_for(builtin)) is not None:
            self.exchange.put(builtin, stand_in, builtin_of(namespace, name))
        if is_reflection(name):
            self.problems.append(f"it calls {name}(), whose reads cannot be followed")

    def _read(
        self, value: Any, expression: str, place: Place, path: str = "", site: Site | None = None, name: str = "[]"
    ) -> None:
        """Guard what stands in a place, and put there what takes its place while tracing."""
        known = self.guards.local(expression, path, site)
        rebound = self.trace.effects and name in self._rebound and kinds.is_number(value)
        new = self._number(value, known) if rebound else self._value(value, known)
        if new is not value:
            self.exchange.put(value, new, place)

    def _value(self, value: Any, expression: str) -> Any:
        """Guard one value; returns what takes its place while tracing (itself, unless there are arrays in it)."""
        if self.guards.reads > MAX_READS:
            if len(self.problems) < 5:
                self.problems.append(f"it reads more than {MAX_READS} captured values")
            return value
        if is_traced(value):
            for _, tracer, known in self._tracers.values():
                if tracer is value:  # in a container that is reached by two ways
                    was = f"the same as {self.guards.path(known)}"
                    self.guards.require(f"{expression} is {known}", expression, was)
                    return value
            self.problems.append("it reads a traced value of an enclosing differentiation")
            return value
        if isinstance(value, np.ndarray):
            return self._array(value, expression)
        if (stand_in := stand_in_for(value)) is not None:  # from math import sin
            self.guards.require_is(expression, value)
            return stand_in
        if isinstance(value, kinds.IMMUTABLE):
            return self._immutable(value, expression)
        if isinstance(value, tuple | list | dict) and kind_of(type(value)) != "sparse":  # one of them is a dict
            return self._container(value, expression)
        keep = isinstance(value, types.BuiltinFunctionType | types.ModuleType | type) or kinds.holds_nothing(value)
        require = self.guards.require_is if keep else self.guards.require_object
        require(expression, value, minor=is_library(kinds.module_of(value)))
        if isinstance(value, MEMO):  # its memory must not meet traced values: what it calls takes its place
            self._callable(value.__wrapped__, f"{expression}.__wrapped__")
            return value.__wrapped__
        self._object(value, expression)
        return value

    def _object(self, value: Any, expression: str) -> None:
        """What a value known by identity reads by itself: a function, a module, a class, an object."""
        if isinstance(value, types.FunctionType | types.MethodType):
            self._callable(value, expression, itself=True)
        elif kinds.is_random(value):
            self.problems.append("it reads a random number generator")
        elif isinstance(value, kinds.OPAQUE):
            self.problems.append(f"it reads an operator.{type(value).__name__}, which cannot be followed")
        elif isinstance(value, functools.partial):
            self._callable(value, expression)
        elif kinds.is_bound(value):
            self.problems.append(f"it reads {value.__qualname__} of an object that cannot be watched")
        elif isinstance(value, (*kinds.BUILTIN, staticmethod, classmethod, property)):
            pass  # nothing to read, or reached through their class: called functions are entered
        elif isinstance(value, types.ModuleType):
            if not is_library(value.__name__):
                self._attributes.watch(value, expression)
        elif isinstance(value, type):
            self._classes(value)
        elif kind_of(type(value)) == "sparse" and parts_of(value):
            same, copy = self.guards.constant(unchanged), self.guards.constant(copy_of(value))
            self.guards.require(f"{same}({expression}, {copy})", expression, "another matrix")
            self.trace.matrices.append(value)
        elif kinds.has_state_in_c(type(value)) or is_library(type(value).__module__) or not (
            hasattr(value, "__dict__") or hasattr(value, "__slots__")
        ):
            self.problems.append(f"it reads an object of type {type(value).__name__}, whose state cannot be watched")
        else:
            self._attributes.watch(value, expression)
            kind = self.guards.constant(type(value), type(value).__name__)
            self.guards.require(f"type({expression}) is {kind}", expression, f"a {type(value).__name__}", minor=True)
            self._classes(type(value))

    def _classes(self, cls: type) -> None:
        """A class, and those that it derives from, as far as they are the user's."""
        for base in cls.__mro__[:-1]:
            if not (kinds.is_of_library(base) or self._attributes.watches(base)):
                self._class(base)

    def _class(self, cls: type) -> None:
        """A class of the user's: attributes by name, and its special methods, which are read without naming them.

        Where an object is made, ``__init__`` is entered.
        """
        known = self.guards.constant(cls, cls.__name__)
        self._attributes.watch(cls, known)
        for name, value in list(vars(cls).items()):
            if name.startswith("__") and name != "__init__" and isinstance(value, types.FunctionType):
                self._value(value, self.guards.local(f"{known}.__dict__[{name!r}]"))
                if (method := settling(name, value)) is not value:
                    self.exchange.put(value, method, attribute_of(cls, name))

    def _array(self, value: np.ndarray, expression: str) -> Any:
        if type(value) not in (np.ndarray, np.memmap) or value.dtype.kind not in "fcbiu":
            self.guards.require_is(expression, value)
            self.problems.append(f"it reads an array of type {type(value).__name__} with dtype {value.dtype}")
            return value
        if id(value) in self._tracers:  # two names of one array
            _, tracer, known = self._tracers[id(value)]
            self.guards.require(f"{expression} is {known}", expression, f"the array {self.guards.path(known)}")
            return tracer
        self.guards.captured.append(expression)
        self.values.append(value)
        tracer = self.trace.capture(value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("=")))
        self._tracers[id(value)] = value, tracer, expression
        return tracer

    def _number(self, value: Any, expression: str) -> Any:
        """A number of which it is known that it will be another one: an input, like an array."""
        self.guards.captured.append(expression)
        self.values.append(value)
        tracer = self.trace.capture(value)
        self._tracers[id(tracer)] = value, tracer, expression
        return tracer

    def _immutable(self, value: Any, expression: str) -> Any:
        """The same object, or an equal number or string of the same type; NaN and ±0.0 equal by their digits only.

        A floating-point number that is known to change becomes an input, like an array.
        """
        guards = self.guards
        if kinds.is_float(value) and guards.path(expression) in self.inputs:
            return self._number(value, expression)
        constant, cls = guards.constant(value), guards.constant(type(value))
        condition = f"{expression} is {constant}"
        if isinstance(value, int | str | bytes | float | np.number):
            condition += f" or (type({expression}) is {cls} and {expression} == {constant})"
        if isinstance(value, float | complex | np.inexact) and (value != value or value == 0):
            digits = guards.constant(repr(value))
            condition = f"type({expression}) is {cls} and repr({expression}) == {digits}"
        guards.require(condition, expression, reprlib.repr(value), number=kinds.is_float(value))
        return value

    def _container(self, value: Any, expression: str) -> Any:
        if id(value) in self._path:
            self.problems.append(f"it reads a {type(value).__name__} that contains itself")
            return value
        kind, guards = type(value), self.guards
        guards.require(f"type({expression}) is {guards.constant(kind)}", expression, f"a {kind.__name__}", minor=True)
        if isinstance(value, dict):
            keys = guards.constant(tuple(value))
            guards.require(f"tuple({expression}) == {keys}", expression, f"a dict of {reprlib.repr(tuple(value))}")
        else:
            guards.require(f"len({expression}) == {len(value)}", expression, f"a {kind.__name__} of {len(value)}")
        if not isinstance(value, tuple):
            self.exchange.look_after(value, expression)
        self._path.append(id(value))
        new = []
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            if not isinstance(key, kinds.IMMUTABLE):
                self.problems.append("it reads a dict with keys that are not numbers or strings")
                break
            at = f"{expression}[{repr(key) if type(key) in (int, str) else self.guards.constant(key)}]"
            if isinstance(value, tuple):
                new.append(self._value(item, self.guards.local(at)))
            else:
                self._read(item, at, item_of(value, key))
        self._path.pop()
        if any(a is not b for a, b in zip(new, value, strict=False)):
            return with_items(value, new)
        return value

