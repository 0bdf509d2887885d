"""What a function reads besides its arguments, found while it is traced, so that a cached program can ask again.

The names that ``f`` and the Python functions it calls read (globals, closure cells, defaults, attributes of objects,
items of containers) are walked; arrays among them are exchanged for tracers while the trace runs, so that they become
inputs of the tape, read by reference at every later call. Everything else is guarded: numbers and strings by value,
functions, modules and objects by identity, containers item by item. What cannot be guarded is a reason not to cache.
"""

from __future__ import annotations

import builtins
import dis
import functools
import operator
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .dispatch import find_traced, is_traced
from .operations import Variable, is_library
from .patching import stand_in_for
from .tracer import Trace, Tracer, shadow

MAX_READS = 3000
_MISSING = object()
# Names whose use means that reads or answers cannot be followed: reflection, randomness, the time of day.
_REFLECTION = frozenset(["getattr", "globals", "vars", "locals", "eval", "exec", "__import__", "setattr", "delattr", "input"])
_UNTRACEABLE = frozenset(["__dict__", "__getattribute__", "attrgetter", "methodcaller", "random", "default_rng", "RandomState",
                          "Generator", "now", "utcnow", "today", "environ", "getenv"])  # fmt: skip
# C functions whose answer is not a function of their arguments.
_OUTSIDE_WORLD = frozenset(["time", "posix", "nt", "os", "_io", "io", "_random", "random", "secrets", "_socket", "uuid"])
_IMMUTABLE = (
    int, float, complex, str, bytes, bool, type(None), np.number, np.bool_, np.dtype, range, slice, type(Ellipsis), frozenset,
)  # fmt: skip
_RANDOM_MODULES = ("numpy.random", "random", "secrets")
_RANDOM = (np.random.Generator, np.random.RandomState, random.Random, np.random.BitGenerator)
_OPAQUE = (operator.attrgetter, operator.methodcaller, functools.partialmethod)
_CACHED = type(functools.lru_cache(lambda: None))
_LEAF_TYPES = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, np.ufunc, types.GenericAlias)


class Captures:
    """The reads of one trace: guards as lines of Python, and the arrays that became inputs."""

    def __init__(self, trace: Trace, f: Callable[..., Any]) -> None:
        self.trace = trace
        self.f = f
        self.problems = trace.problems
        self.arrays: list[str] = []  # the guard function's local names of captured arrays, in the order of capture
        self._lines: list[str] = []
        self._namespace: dict[str, Any] = {"_missing": _MISSING}
        self._constants: dict[int, str] = {}
        self._restore: list[Callable[[], None]] = []
        self._codes: dict[tuple[int, int], types.CodeType] = {}  # by identity: equal code may stand in several modules
        self._attributes: set[str] = set()
        self._globals: dict[tuple[int, str], bool] = {}
        self._objects: dict[int, tuple[Any, str, set[str]]] = {}
        self._functions: set[int] = set()
        self._reads = 0
        self._path: list[int] = []
        self._tracers: dict[int, tuple[np.ndarray, Tracer, str]] = {}
        self._mutable: dict[int, Any] = {}  # lists and dicts (also of objects) in which traced values may be left behind

    # -- lines of the guard function

    def _constant(self, value: Any) -> str:
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = f"k{len(self._constants)}"
            self._namespace[name] = value
        return name

    def _local(self, expression: str) -> str:
        self._reads += 1
        name = f"v{self._reads}"
        self._lines.append(f"{name} = {expression}")
        return name

    def _require(self, condition: str) -> None:
        self._lines.append(f"if not ({condition}): return None")

    def guard(self) -> Callable[[Any], tuple[Any, ...] | None]:
        """A function of ``f``: the captured arrays as they are now, or ``None`` if something else has changed."""
        arrays = ", ".join(self.arrays)
        lines = [*self._lines, f"return ({arrays}{',' if self.arrays else ''})"]
        text = "def guard(f):\n try:\n" + "".join(f"  {line}\n" for line in lines)
        text += " except (KeyError, IndexError, AttributeError, ValueError, TypeError):\n  return None\n"
        exec(compile(text, "<guards>", "exec"), self._namespace)
        return self._namespace["guard"]  # type: ignore[no-any-return]

    # -- the walk

    def start(self) -> None:
        """Walk from ``f`` itself, and from objects among its arguments (which a cache entry knows by identity)."""
        self._require(f"type(f) is {self._constant(type(self.f))}")
        self._callable(self.f, "f")
        for leaf in self.trace.tape.leaves:
            if not isinstance(leaf, (Variable, *_IMMUTABLE)):
                self._value(leaf, self._constant(leaf))
        self._settle()

    def enter(self, frame: types.FrameType) -> None:
        """A Python function is called during the trace."""
        code = frame.f_code
        if (id(code), id(frame.f_globals)) in self._codes or is_library(frame.f_globals.get("__name__")):
            return
        if code.co_freevars and code.co_name not in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"):
            self.problems.append(f"{code.co_name} was reached by a way that cannot be followed, and has a closure")
        self._code(code, frame.f_globals)
        self._settle()

    def _callable(self, fn: Any, expression: str) -> None:
        if isinstance(fn, types.MethodType):
            self._require(f"type({expression}) is {self._constant(types.MethodType)}")
            function = self._local(f"{expression}.__func__")
            self._require(f"{function} is {self._constant(fn.__func__)}")
            self._value(fn.__self__, self._local(f"{expression}.__self__"))
            self._function(fn.__func__, function)
        elif isinstance(fn, types.FunctionType):
            self._function(fn, expression)
        elif isinstance(fn, functools.partial):
            self._value(fn.func, self._local(f"{expression}.func"))
            for name, value in (("args", fn.args), ("keywords", fn.keywords)):
                if self._value(value, self._local(f"{expression}.{name}")) is not value:
                    self.problems.append("it is a functools.partial of arrays; use a lambda or a def")
        elif isinstance(fn, type) or isinstance(fn, _LEAF_TYPES) or is_library(type(fn).__module__):
            self._require(f"{expression} is {self._constant(fn)}")
        else:
            self._value(fn, expression)

    def _function(self, fn: types.FunctionType, expression: str) -> None:
        """Cells, defaults and global names of a Python function; ``expression`` is a function with this code."""
        if id(fn) in self._functions:
            return
        self._functions.add(id(fn))
        if is_library(fn.__module__):
            return
        self._require(f"{expression}.__code__ is {self._constant(fn.__code__)} and "
                      f"{expression}.__globals__ is {self._constant(fn.__globals__)}")  # fmt: skip
        for i, cell in enumerate(fn.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                self.problems.append(f"{fn.__name__} has a name in its closure that is not bound yet")
                continue
            new = self._value(value, self._local(f"{expression}.__closure__[{i}].cell_contents"))
            if new is not value:
                self._exchange(value, new, lambda v, c=cell: setattr(c, "cell_contents", v), lambda c=cell: c.cell_contents)
        if fn.__dict__:
            self._objects.setdefault(id(fn), (fn, self._constant(fn), set()))
        for name in ("__defaults__", "__kwdefaults__"):
            value = getattr(fn, name)
            if value is None:
                self._require(f"{expression}.{name} is None")
                continue
            new = self._value(value, self._local(f"{expression}.{name}"))
            if new is not value:
                self._exchange(value, new, lambda v, n=name: setattr(fn, n, v), lambda n=name: getattr(fn, n))
        self._code(fn.__code__, fn.__globals__)

    def _code(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Global names and attributes that a code object, or one nested in it, reads."""
        key = id(code), id(namespace)
        if key in self._codes:
            return
        self._codes[key] = code
        for instruction in dis.get_instructions(code):
            name = instruction.argval
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                self._global(name, namespace)
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM", "STORE_ATTR"):
                self._attributes.add(name)
                if name in _UNTRACEABLE:
                    self.problems.append(f"{code.co_name} uses .{name}, which cannot be followed")
            elif instruction.opname in ("MATCH_CLASS", "MATCH_KEYS", "MATCH_MAPPING"):
                self.problems.append(f"{code.co_name} matches patterns on objects, which cannot be followed")
            elif instruction.opname == "IMPORT_NAME" and not is_library(name):
                module = sys.modules.get(name)
                if module is not None:
                    self._value(module, self._constant(module))
            elif instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                self.problems.append(f"{code.co_name} changes the global name {name}")
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant, namespace)

    def _global(self, name: str, namespace: dict[str, Any]) -> None:
        key = (id(namespace), name)
        if key in self._globals:
            return
        self._globals[key] = True
        names = self._constant(namespace)
        if name not in namespace:
            self._require(f"{name!r} not in {names}")
            if hasattr(builtins, name):
                if name in _REFLECTION:
                    self.problems.append(f"it calls {name}(), whose reads cannot be followed")
            return
        value = namespace[name]
        new = self._value(value, self._local(f"{names}[{name!r}]"))
        if new is not value:
            self._exchange(value, new, lambda v: namespace.__setitem__(name, v), lambda: namespace.get(name))

    def _settle(self) -> None:
        """Read attributes of known objects until no new object turns up."""
        while True:
            before = self._reads
            for obj, expression, done in list(self._objects.values()):
                names = self._attributes - done
                done |= names
                self._attributes_of(obj, expression, names)
            if self._reads == before:
                return

    def _value(self, value: Any, expression: str) -> Any:
        """Guard one value; returns what takes its place while tracing (itself, unless there are arrays in it)."""
        if self._reads > MAX_READS:
            if len(self.problems) < 5:
                self.problems.append(f"it reads more than {MAX_READS} captured values")
            return value
        if is_traced(value):
            self.problems.append("it reads a traced value of an enclosing differentiation")
            return value
        if isinstance(value, np.ndarray):
            return self._array(value, expression)
        if (stand_in := stand_in_for(value)) is not None:  # from math import sin
            self._require(f"{expression} is {self._constant(value)}")
            return stand_in
        if isinstance(value, _IMMUTABLE):
            self._immutable(value, expression)
            return value
        if isinstance(value, tuple | list | dict):
            return self._container(value, expression)
        self._require(f"{expression} is {self._constant(value)}")
        if isinstance(value, types.FunctionType | types.MethodType):
            self._callable(value, self._constant(value))
        elif isinstance(value, _RANDOM) or _module_of(value) in _RANDOM_MODULES:
            self.problems.append("it reads a random number generator")
        elif isinstance(value, _OPAQUE):
            self.problems.append(f"it reads an operator.{type(value).__name__}, which cannot be followed")
        elif isinstance(value, _CACHED):  # its memory must not meet traced values: the function itself takes its place
            self._callable(value.__wrapped__, f"{self._constant(value)}.__wrapped__")
            return value.__wrapped__
        elif isinstance(value, functools.partial):
            self._callable(value, self._constant(value))
        elif isinstance(value, _LEAF_TYPES):
            pass
        elif isinstance(value, types.ModuleType):
            if not is_library(value.__name__) and value.__name__ not in sys.stdlib_module_names:
                self._objects.setdefault(id(value), (value, self._constant(value), set()))
        elif isinstance(value, type):
            if not is_library(value.__module__) and value.__module__ not in sys.stdlib_module_names:
                self._class(value)
        elif isinstance(value, staticmethod | classmethod | property):
            pass  # reached through their class; called functions are entered
        elif is_library(type(value).__module__) or not (hasattr(value, "__dict__") or hasattr(type(value), "__slots__")):
            self.problems.append(f"it reads an object of type {type(value).__name__}, whose state cannot be watched")
        else:
            self._objects.setdefault(id(value), (value, self._constant(value), set()))
            self._require(f"type({expression}) is {self._constant(type(value))}")
            for cls in type(value).__mro__[:-1]:
                if not is_library(cls.__module__):
                    self._class(cls)
        return value

    def _class(self, cls: type) -> None:
        """A class of the user's: attributes by name, and its special methods, which are read without naming them."""
        if id(cls) not in self._objects:
            self._objects[id(cls)] = cls, self._constant(cls), set()
            for name, value in list(vars(cls).items()):
                if name.startswith("__") and isinstance(value, types.FunctionType):
                    self._value(value, self._local(f"{self._constant(cls)}.__dict__[{name!r}]"))

    def _array(self, value: np.ndarray, expression: str) -> Any:
        if type(value) not in (np.ndarray, np.memmap) or value.dtype.kind not in "fcbiu":
            self._require(f"{expression} is {self._constant(value)}")
            self.problems.append(f"it reads an array of type {type(value).__name__} with dtype {value.dtype}")
            return value
        if id(value) in self._tracers:  # two names of one array
            _, tracer, name = self._tracers[id(value)]
            self._require(f"{expression} is {name}")
            return tracer
        name = expression if expression.startswith("v") else self._local(expression)
        self.arrays.append(name)
        tracer = self.trace.capture(value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("=")))
        self._tracers[id(value)] = value, tracer, name
        return tracer

    def _immutable(self, value: Any, expression: str) -> None:
        constant = self._constant(value)
        equal = ""
        if isinstance(value, int | float | str | np.number) and value == value and (value != 0 or isinstance(value, int)):
            equal = f" or (type({expression}) is {self._constant(type(value))} and {expression} == {constant})"
        self._require(f"{expression} is {constant}{equal}")

    def _container(self, value: Any, expression: str) -> Any:
        if id(value) in self._path:
            self.problems.append(f"it reads a {type(value).__name__} that contains itself")
            return value
        same = f"tuple({expression}) == {self._constant(tuple(value))}" if isinstance(value, dict) else f"len({expression}) == {len(value)}"
        self._require(f"type({expression}) is {self._constant(type(value))} and {same}")
        if not isinstance(value, tuple):
            self._mutable[id(value)] = value
        self._path.append(id(value))
        items = list(value.items() if isinstance(value, dict) else enumerate(value))
        new = []
        for key, item in items:
            if isinstance(value, dict) and not isinstance(key, _IMMUTABLE):
                self.problems.append("it reads a dict with keys that are not numbers or strings")
                break
            index = repr(key) if type(key) in (int, str) else self._constant(key)
            replacement = self._value(item, self._local(f"{expression}[{index}]"))
            new.append(replacement)
            if replacement is not item and not isinstance(value, tuple):
                self._exchange(item, replacement, lambda v, k=key: value.__setitem__(k, v), lambda k=key: value[k])
        self._path.pop()
        if isinstance(value, tuple) and any(a is not b for (_, b), a in zip(items, new, strict=False)):
            return type(value)(*new) if hasattr(value, "_fields") else tuple(new)
        return value

    def _attributes_of(self, obj: Any, expression: str, names: set[str]) -> None:
        own = getattr(obj, "__dict__", {})
        if isinstance(own, dict):
            self._mutable[id(own)] = own
        for name in sorted(names):
            if name in own:
                value = own[name]
                new = self._value(value, self._local(f"{expression}.__dict__[{name!r}]"))
            elif isinstance(obj, types.FunctionType):
                continue
            elif isinstance(obj, types.ModuleType | type):
                self._require(f"{name!r} not in {expression}.__dict__")
                continue
            elif any(name in getattr(cls, "__slots__", ()) for cls in type(obj).__mro__) and hasattr(obj, name):
                value = getattr(obj, name)
                new = self._value(value, self._local(f"{expression}.{name}"))
            else:
                if own is not None:
                    self._require(f"{name!r} not in getattr({expression}, '__dict__', ())")
                continue
            if new is not value:
                self._exchange(
                    value, new, lambda v, o=obj, n=name: _set_attribute(o, n, v), lambda o=obj, n=name: getattr(o, n, None)
                )

    # -- exchange while tracing

    def _exchange(self, old: Any, new: Any, put: Callable[[Any], Any], get: Callable[[], Any]) -> None:
        put(new)

        def restore() -> None:
            if get() is new:
                put(old)
            elif "rebound" not in self.problems:
                self.problems.append("it rebinds or replaces a captured array while it runs")

        self._restore.append(restore)

    def restore(self) -> None:
        """Put the arrays back; traced values that the function has left in objects become plain values."""
        while self._restore:
            self._restore.pop()()
        for container in self._mutable.values():
            for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
                if find_traced((value,)) is not None:
                    container[key] = self._plain(value)
                    self.problems.append("it stores traced values outside of itself")

    def _plain(self, value: Any) -> Any:
        if is_traced(value):
            return shadow(value) if value._trace is self.trace else value
        if isinstance(value, tuple | list):
            return type(value)(map(self._plain, value)) if not hasattr(value, "_fields") else type(value)(*map(self._plain, value))
        return {key: self._plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def _module_of(value: Any) -> str:
    """The module of a function, class or module, or that of the object a method is bound to."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    return getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__module__


def _set_attribute(obj: Any, name: str, value: Any) -> None:
    own = getattr(obj, "__dict__", None)
    if isinstance(own, dict) and name in own:
        own[name] = value
    else:
        (type.__setattr__ if isinstance(obj, type) else object.__setattr__)(obj, name, value)


@contextmanager
def watched(captures: Captures) -> Iterator[None]:
    """Follow what a function reads while it is traced in the block."""
    if sys.getprofile() is not None:
        captures.problems.append("a profiler is active")
        yield
        return

    def profile(frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "call":
            captures.enter(frame)
        elif event == "c_call":
            owner = getattr(arg, "__module__", None) or type(getattr(arg, "__self__", None)).__module__
            if owner in _OUTSIDE_WORLD:
                captures.problems.append(f"it calls {getattr(arg, '__qualname__', arg)}, whose answer may differ next time")

    try:
        captures.start()
        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(None)
    finally:
        captures.restore()
