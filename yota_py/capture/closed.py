"""Functions of which it is known that they do nothing but compute, and how they are called with other captures.

Such a function is traced once for all turns of a loop. Whatever it could do besides its result is looked for in its
code, and in all that its code may reach: what cannot be told for certain makes it *open*, and it is called in each
turn.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ..base.containers import attribute_of, dict_of, items_of, keys_of, with_items
from ..base.dispatch import is_traced, original
from ..base.instructions import instructions_of
from ..base.ownership import is_known_ufunc, is_library, named_module
from ..registry.patches import patched
from ..registry.registry import primitive_of
from ..tracing.stopping import stop_gradient
from .altering import is_assigned
from .bytecode import nested, steps_of
from .kinds import ABSENT, is_density, is_of_library, is_users_space, look_up

NOTHING: Mapping[str, Any] = {}
MAX_DEPTH = 12  # of what holds one another
MAX_ITEMS = 1000  # of a container that is looked through
MAX_METHODS = 20  # that call one another, or objects that hold one another

# Statements that reach further than to the locals of a call, that run code of objects, or that catch exceptions.
_FORBIDDEN = frozenset("""
    STORE_GLOBAL DELETE_GLOBAL STORE_NAME DELETE_NAME STORE_ATTR DELETE_ATTR DELETE_DEREF IMPORT_NAME IMPORT_FROM
    IMPORT_STAR LOAD_BUILD_CLASS LOAD_NAME LOAD_LOCALS LOAD_FROM_DICT_OR_GLOBALS LOAD_FROM_DICT_OR_DEREF LOAD_SUPER_ATTR
    BEFORE_WITH BEFORE_ASYNC_WITH SETUP_WITH LOAD_SPECIAL PUSH_EXC_INFO GET_AWAITABLE GET_AITER ASYNC_GEN_WRAP
    PRINT_EXPR CALL_INTRINSIC_2
""".split())
_GENERATING = frozenset(["YIELD_VALUE", "RETURN_GENERATOR", "SEND"])
_FAR = frozenset(["tofile", "dump", "setflags", "newbyteorder", "cache_clear"])  # methods that do more than compute
_NEAR = frozenset(["__name__", "__len__", "__doc__"])  # special attributes through which nobody gets to others
_BUILTINS = frozenset(map(id, [
    abs, all, any, bool, complex, dict, divmod, enumerate, float, int, isinstance, len, list, map, max, min, pow, range,
    reversed, round, slice, sum, tuple, zip, filter, NotImplemented,
]))  # fmt: skip
_OPEN = ("numpy.random", "numpy.ma")  # of NumPy's: who draws; who hands on whatever it is given, also to write into
_COMPUTING = ("numpy", "math", "cmath", "scipy.special", "scipy.linalg", "scipy.fft")
_OF_OURS = frozenset(["scan", "while_loop", "vmap", "checkpoint", "grad", "value_and_grad", "gradient"])
_NUMBERS = (type(None), bool, int, float, complex, str, bytes, np.generic, np.dtype, slice, range, type(...), CodeType)


class OpenError(Exception):
    """Nobody can tell that a function does nothing but compute."""


class Closing:
    """What a function captures, with ``taken`` in the place of each array and traced value."""

    def __init__(self, taken: Callable[[Any], Any]) -> None:
        self._taken = taken
        self._functions: dict[Any, Any] = {}
        self._copies: dict[int, tuple[Any, Any, list[Any]]] = {}  # of containers: they, copies, and what is in them
        self.found: list[tuple[Any, list[Any]]] = []  # those that may change, and what is in them
        self._known: list[Any] = []  # originals, whose identities are not to be used again
        self._spaces: dict[int, SimpleNamespace] = {}  # by the identity of modules and objects of the user's
        self._names: set[str] = set()  # of attributes that are read
        self._classes: dict[type, None] = {}
        self._holders: list[tuple[Any, frozenset[str]]] = []  # objects with attributes, and those that are looked at

    @property
    def originals(self) -> list[FunctionType]:
        """The functions that were met."""
        return [holder for holder, _ in self._holders if type(holder) is FunctionType]

    @property
    def codes(self) -> list[CodeType]:
        """Those of the functions that were met."""
        return [fn.__code__ for fn in self._functions.values()]

    def function(self, fn: Any, depth: int = 0) -> Any:
        """The function, with other captures. Raises ``OpenError``."""
        if depth > MAX_DEPTH:
            raise OpenError
        if _is_made(type(fn)):
            transform, (f, *options) = fn._transform
            return transform(self.function(f, depth + 1), *options)
        if (made := made_of(fn)) is not None:
            return made[1](self.function(made[0], depth + 1))
        if type(fn) is MethodType:
            return self._method(fn.__func__, fn.__self__, depth)
        if type(fn) is partial and not fn.__dict__:
            args, keywords = self.value(fn.args, depth), self.value(fn.keywords, depth)
            return partial(self.function(fn.func, depth + 1), *args, **keywords)
        if type(fn) is FunctionType and not is_library(fn.__globals__.get("__name__")):
            if id(fn) not in self._functions:
                self._known.append(fn)
                self._holders.append((fn, frozenset()))
                self._functions[id(fn)] = self._closed(fn, depth)
            return self._functions[id(fn)]
        if not (callable(fn) and _computes(fn)):
            raise OpenError
        return fn

    def _method(self, fn: Any, owner: Any, depth: int) -> Any:
        """A function that is called with an object of the user's."""
        names = fn.__code__.co_varnames[: fn.__code__.co_argcount] if type(fn) is FunctionType else ()
        if not names or not is_users_space(owner) or is_library(fn.__globals__.get("__name__")) or depth > MAX_METHODS:
            raise OpenError
        own = {names[0]: owner}
        key = key_of(fn, own)
        if key not in self._functions:
            self._known.append((fn, owner))
            self._holders.append((fn, frozenset()))
            self._closed(fn, depth, own)
        return MethodType(self._functions[key], self._stand_in(owner))

    def _stand_in(self, space: Any) -> SimpleNamespace:
        """What stands for a module or an object of the user's: it has the attributes that are read."""
        self._known.append(space)
        return self._spaces.setdefault(id(space), SimpleNamespace())

    def _closed(self, fn: Any, depth: int, own: Mapping[str, Any] = NOTHING) -> Any:
        """The same of a function of the user's; ``own`` are parameters of which it is known what they are."""
        names, cells = {"__name__": fn.__globals__.get("__name__")}, [CellType() for _ in fn.__closure__ or ()]
        new = FunctionType(fn.__code__, names, fn.__name__, None, tuple(cells) if cells else None)
        self._functions[key_of(fn, own)] = new  # which may call itself
        free = dict(own)
        for name, cell, held in zip(fn.__code__.co_freevars, cells, fn.__closure__ or (), strict=True):
            try:
                value = held.cell_contents
            except ValueError:
                raise OpenError from None
            free[name] = value if self.is_space(value) else self.value(value, depth)
            cell.cell_contents = free[name]
        new.__defaults__ = None if fn.__defaults__ is None else self.value(fn.__defaults__, depth)
        new.__kwdefaults__ = None if fn.__kwdefaults__ is None else self.value(fn.__kwdefaults__, depth)
        names["__builtins__"] = fn.__globals__.get("__builtins__", builtins)
        self.running(fn.__code__, fn.__globals__, free, names, depth, [*own])
        names.update({name: self.instead(value) for name, value in names.items() if self.is_space(value)})
        for cell in cells:
            if self.is_space(cell.cell_contents):
                cell.cell_contents = self.instead(cell.cell_contents)
        return new

    def is_space(self, value: Any) -> bool:
        """Whether attributes are looked up of it."""
        return issubclass(type(value), ModuleType) or (is_users_space(value) and items_of(value) is None)

    def instead(self, value: Any) -> Any:
        """What stands for a module, or for an object of the user's."""
        return self._stand_in(value) if is_users_space(value) else value

    def of_space(self, space: Any, path: list[str], depth: int) -> None:
        """Look at what is read of it."""
        if not is_users_space(space):
            self._check_module(space, path)
            return
        value, is_method = look_up(space, path[0]) if path and depth <= MAX_METHODS else (ABSENT, False)
        if value is ABSENT:  # or the object itself goes elsewhere
            raise OpenError
        if is_method:
            found = self._method(value, space, depth + 1)
        elif self.is_space(value):
            self.of_space(value, path[1:], depth + 1)
            found = self.instead(value)
        else:
            found = self.value(value, depth + 1)
        setattr(self._stand_in(space), path[0], found)

    def _check_module(self, module: ModuleType, path: Sequence[str]) -> None:
        """Raise ``OpenError`` unless what is read of a module is a number or computes."""
        if not is_library(module.__name__) or module.__name__.startswith(_OPEN):
            raise OpenError
        value = vars(module).get(path[0]) if path else module
        is_class = isinstance(value, type) and (value is np.ndarray or issubclass(value, np.generic | BaseException))
        is_number = (isinstance(value, _NUMBERS) and value is not None) or value is np.newaxis
        if isinstance(value, ModuleType) and path:
            self._check_module(value, path[1:])
        elif not (is_class or is_number or (callable(value) and _computes(value)) or self.is_density(value, path[1:])):
            raise OpenError

    is_density = staticmethod(is_density)  # whether it is a method of a distribution that is called

    def running(
        self, code: CodeType, space: Mapping[str, Any], free: Mapping[str, Any], names: dict[str, Any] | None = None,
        depth: int = 0, own: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """Look at what code reads: of its globals, which become known by ``names``, of modules, and of parameters of
        its ``own``. Raises ``OpenError``."""
        if any(is_assigned(code, name) for name in own):
            raise OpenError
        names, densities = {} if names is None else names, dict[str, Any]()
        self._names |= _attributes(code)
        for is_global, name, path in reads_of(code, *own):
            if not is_global and name not in free:
                continue
            if known := is_global and name in space:
                value = space[name]
            elif is_global:
                value = vars(builtins).get(name)
            else:
                value = free[name]
            if self.is_space(value) or (name in own and not is_global):
                self.of_space(value, path, depth)
            elif is_global and self.is_density(value, path):
                densities[name] = value  # if nothing else is done with it
                continue
            elif is_global and not (known and name in names):
                value = self.value(value, depth)
            if known:
                names.setdefault(name, value)
        names.update(densities)

    def value(self, value: Any, depth: int = 0) -> Any:
        """What stands for a value that is captured."""
        if is_traced(value) or isinstance(value, np.ndarray):
            if is_traced(value) or (type(value) is np.ndarray and value.dtype.kind in "fciub"):
                return self._taken(value)
            raise OpenError
        if isinstance(value, _NUMBERS):
            if not is_of_library(type(value)):
                raise OpenError
            return value
        if isinstance(value, type):
            if issubclass(value, BaseException):
                self._classes[value] = None
            elif not (issubclass(value, np.generic | np.ndarray) or id(original(value)) in _BUILTINS):
                self._class(value, made=False)
            return value
        if id(value) in self._copies:  # what is the same stays so
            return self._copies[id(value)][1]
        if (items := items_of(value)) is not None:
            self._class(type(value))
            makes = isinstance(value, defaultdict) and id(value.default_factory) not in _BUILTINS
            if makes or depth > MAX_DEPTH or len(items) > MAX_ITEMS or not all(map(_is_key, keys_of(value))):
                raise OpenError
            if type(value) is not tuple:
                self.found.append((value, contents_of(value)))
                self._holders.append((value, frozenset(map(str, keys_of(value)))))
            copy = with_items(value, [self.value(item, depth + 1) for item in items])
            self._copies[id(value)] = value, copy, contents_of(copy)
            return copy
        return self.function(value, depth + 1)

    def see(self, *trees: Any) -> None:
        """Look at the classes of containers that it is given."""
        for tree in trees:
            if (items := items_of(tree)) is not None:
                self._class(type(tree))
                self.see(*items)

    def _class(self, cls: type, *, made: bool = True) -> None:
        """Note a class of containers, or one that may make some."""
        if not (is_tuple_or_dataclass(cls) or (made and is_of_library(cls))):
            raise OpenError
        self._classes[cls] = None

    def check(self) -> None:
        """Raise ``OpenError`` if classes have methods that may be called, of which nobody knows what they do, or if
        they, functions or containers have other attributes that are read."""
        for cls in self._classes:
            for base in cls.__mro__:
                if base is object or is_of_library(base):
                    continue
                for name, member in vars(base).items():
                    is_read = name in self._names
                    if _is_users(member) and (is_read or name.startswith("__")):
                        raise OpenError
                    if is_read and not (hasattr(type(member), "__get__") or isinstance(member, _NUMBERS)):
                        raise OpenError
        for holder, known in self._holders:
            if not (self._names - known).isdisjoint(dict_of(holder) or ()):
                raise OpenError

    def forget(self) -> None:
        """Keep no more than what is captured."""
        self._functions.clear()
        self._known.clear()
        self._holders.clear()
        self._copies.clear()

    def has_changed(self) -> bool:
        """Whether a container that it captures has other items than before."""
        for _, copy, before in self._copies.values():
            now = contents_of(copy)
            if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
                return True
        return False


def _is_key(key: Any) -> bool:
    """Whether a key is the same to others: of functions there are copies, which are other keys."""
    return all(map(_is_key, key)) if type(key) is tuple else isinstance(key, _NUMBERS)


def key_of(fn: Any, own: Mapping[str, Any] = NOTHING) -> Any:
    """What a function is known by."""
    return (id(fn), *map(id, own.values())) if own else id(fn)


def contents_of(container: Any) -> list[Any]:
    """What is in a container, and the keys in a dict."""
    keys = keys_of(container) if isinstance(container, dict) else ()
    return [*keys, *(items_of(container) or ())]


def made_of(fn: Any) -> Any:
    """Of what ``vmap`` or ``checkpoint`` has made: the function, and what makes the same of another one."""
    made = attribute_of(fn, "__yota_made__") if _is_ours(fn) else None
    return made if made is not None and made[0] is fn.__wrapped__ else None


def is_tuple_or_dataclass(cls: type) -> bool:
    """Whether a class is a container of the user's: a tuple with names, or a dataclass."""
    return (issubclass(cls, tuple) and hasattr(cls, "_fields")) or hasattr(cls, "__dataclass_fields__")


def _is_users(method: Any) -> bool:
    """Whether a member of a class is code that the user has written: not what ``dataclass`` and its like have made."""
    if isinstance(method, property):
        return True
    function = getattr(method, "__func__", method)
    code = getattr(function, "__code__", None)
    if code is None:
        return hasattr(type(method), "__get__") and callable(method) and not is_library(named_module(method))
    return not code.co_filename.startswith("<string>") and not is_library(function.__globals__.get("__name__"))


def _is_made(cls: type) -> bool:
    """Whether functions of this class are what a transform has made (``cache/compilable.py``)."""
    return hasattr(cls, "_transform") and cls.__module__.startswith("yota_py.")


def _is_ours(fn: Any) -> bool:
    return type(fn) is FunctionType and str(fn.__globals__.get("__name__")).startswith("yota_py.")


def _computes(fn: Any) -> bool:
    """Whether a library's function does nothing but compute."""
    fn = original(fn)
    if id(fn) in _BUILTINS or fn is stop_gradient:
        return True
    if isinstance(fn, np.ufunc):
        return is_known_ufunc(fn)
    if _is_ours(fn) and fn.__name__ in _OF_OURS:
        return True
    entry = primitive_of(fn)
    if entry is not None:
        return not (entry.users or entry.users_rule or entry.body is not None)
    module = str(named_module(fn))
    if module.startswith(_OPEN) or not module.startswith(_COMPUTING):
        return False
    return id(fn) in _stand_ins(len(patched)) or (isinstance(fn, BuiltinFunctionType) and module in ("math", "cmath"))


@lru_cache(maxsize=1)
def _stand_ins(_: int) -> frozenset[int]:
    """The identities of functions that have stand-ins."""
    return frozenset(id(original(getattr(owner, name))) for owner, name in patched if isinstance(owner, ModuleType))


@lru_cache(maxsize=1024)
def _attributes(code: CodeType) -> frozenset[str]:
    """The names of attributes that code reads. Raises ``OpenError`` for statements that reach too far."""
    found = set()
    for part in nested(code):
        for step in instructions_of(part):
            name = step.opname
            if name in _FORBIDDEN or (name in _GENERATING and part.co_name != "<genexpr>"):
                raise OpenError
            if name == "STORE_DEREF" and step.argval in code.co_freevars:
                raise OpenError
            if name in ("LOAD_ATTR", "LOAD_METHOD"):
                found.add(step.argval)
    if found & _FAR or any(name.startswith("__") and name.endswith("__") for name in found - _NEAR):
        raise OpenError
    return frozenset(found)


@lru_cache(maxsize=1024)
def reads_of(code: CodeType, *own: str) -> list[tuple[bool, str, list[str]]]:
    """Names that code reads: whether it is a global one, or that of a cell or of its ``own``, and which attributes are
    read of it."""
    out: list[tuple[bool, str, list[str]]] = []
    for part in nested(code):
        path: list[str] | None = None  # while it goes on
        for step in steps_of(part):
            is_own = part is code and step.opname.startswith("LOAD_FAST") and step.argval in own
            is_own = is_own and step.argval not in code.co_cellvars  # that would be the cell, for a function in there
            if is_own or step.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF"):
                path = []
                out.append((step.opname == "LOAD_GLOBAL", step.argval, path))
            elif path is not None and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                path.append(step.argval)
            elif step.opname not in ("CACHE", "EXTENDED_ARG"):
                path = None
    return out
