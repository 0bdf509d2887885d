"""Functions whose calls need not be followed: as their code says, they compute, of numbers, arrays and containers of
these, and change nothing that was there before.

What they make themselves they may change in two ways that nobody else can see: a sum is added to (``total += x``, which
begins as a number), and a list is appended to.
"""

from __future__ import annotations

import builtins
import functools
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from ..base.callsites import sites_of
from ..base.dispatch import original
from ..base.instructions import by_code
from ..base.ownership import named_module
from ..base.signatures import signature_of
from ..registry.registry import listeners
from ..tracing.mutation import IN_PLACE
from ..tracing.stand_ins import noticing
from .altering import adds, alters, calls_of, is_handed_on, is_reading, makers, makes_anew, writes_nothing
from .bytecode import nested
from .closed import NOTHING, Closing, OpenError, contents_of, reads_of
from .kinds import ABSENT, is_of_library, is_users_space, look_up, reads_plainly

MAX_DEPTH, MAX_ITEMS = 50, 1000  # of arguments that are looked through
MAX_OBJECTS = 16  # of which is known what a method does with each
_PLAIN = frozenset([type(None), bool, int, float, complex, str, bytes, np.float64])
_ATOMS = _PLAIN | {slice, range, type(...), *(np.dtype(code).type for code in "?bhilqBHILQefdgFDG")}
_KEYS = frozenset([str, int, bool, float, type(None)])
_OF_USERS = (FunctionType, MethodType)
_IN_PLACE = frozenset(map(id, IN_PLACE))
_OF_FUNCTIONS = frozenset(["func", "func1d", "function", "mask_func", "funclist", "pyfunc"])  # parameters
_UNNOTICING = ("math", "cmath", "scipy")  # whose functions look for no traced values
COPIED = "__yota_copied__"  # the global name of a copy's original: ``ref(f)``
# What is called in the place of functions of NumPy's that look for no values but their own.
instead: dict[Callable[..., Any], Callable[..., Any]] = {}

# By functions, and by the identities of the objects that they are bound to.
_known: WeakKeyDictionary[Callable[..., Any], dict[int, Computing | None]] = WeakKeyDictionary()
listeners.append(_known.clear)


def computing(fn: Any) -> Computing | None:
    """What is known of a function or method that does nothing but compute; ``None`` if it may do more."""
    function, key = fn, 0
    if type(fn) is MethodType:
        function, key = fn.__func__, id(fn.__self__)
    if type(function) is not FunctionType:
        return None
    by_object = _known.setdefault(function, {})
    try:
        known = by_object.get(key, ABSENT)
        if known is None or (type(known) is Computing and known.is_same()):
            return known
        made = Computing(fn)
    except Exception:  # any: nobody can tell
        made = None
    while len(by_object) >= MAX_OBJECTS:
        by_object.pop(next(iter(by_object)), None)
    by_object[key] = made
    return made


@by_code
def failures_of(code: CodeType) -> list[str]:
    """Why calls of functions that do nothing but compute had to be followed all the same; whoever knows adds to it."""
    return []


def are_plain(values: Collection[Any], depth: int = 0) -> bool:
    """Whether these are numbers, arrays of such, texts, and containers of them, not too many in one."""
    if len(values) > MAX_ITEMS or depth > MAX_DEPTH:
        return False
    for x in values:
        if (cls := type(x)) in _PLAIN:
            continue
        if cls is np.ndarray:
            if x.dtype.kind not in "fciub":
                return False
        elif cls is tuple or cls is list or (cls is dict and _KEYS.issuperset(map(type, x))):
            if not are_plain(x.values() if cls is dict else x, depth + 1):
                return False
        else:
            return False
    return True


class Computing(Closing):
    """What such a function reads from elsewhere. Raises ``OpenError`` if it is none. It does not keep it alive."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__(lambda array: array)
        self._own: list[tuple[ref[Any], list[Any], list[tuple[str, Any]]]] = []  # functions, parts, global names
        self._others: list[tuple[Mapping[str, Any], str, Any]] = []  # attributes of modules, names of builtins
        self._looked_up: list[tuple[ref[Any], str, Any]] = []  # attributes of objects and modules of the user's
        self.adds = False  # whether it adds in place
        self.running_codes: set[int] = set()  # the identities of all that may run, besides libraries
        # What it reads of modules and objects, with what is called instead.
        self._modules: dict[ModuleType, SimpleNamespace] = {}
        self._replaces = False
        self._holds_others = False  # whether containers have functions that are not the user's
        self._hands_on = False  # whether it hands functions to others that may call them with more than one argument
        self._gives_several = False  # whether what is called under a local name is given more than one argument
        copy = self.function(fn)
        self.called: Callable[..., Any] | None = copy if self._replaces else None  # in its place
        if self._holds_others and (self._gives_several or self._hands_on):
            raise OpenError  # one of them may be an array to write into
        self.check()
        self.forget()
        self._spaces.clear()

    def is_same(self) -> bool:
        """Whether all that it reads is what it was, but for what is in arrays. Raises ``ValueError`` for a cell that
        has become empty."""
        for space, name, value in self._others:
            if space.get(name, ABSENT) is not value:
                return False
        for space_of, name, value in self._looked_up:
            if (users := space_of()) is None or not _are_same([look_up(users, name)[0]], [value]):
                return False
        for fn_of, parts, names in self._own:
            fn = fn_of()
            if fn is None or not _are_same(_parts_of(fn), parts):
                return False
            if not _are_same([fn.__globals__.get(name, ABSENT) for name, _ in names], [value for _, value in names]):
                return False
        return all(_are_same(contents_of(container), contents) for container, contents in self.found)

    def function(self, fn: Any, depth: int = 0) -> Any:
        ours = str(getattr(fn, "__module__", "")).startswith("yota_py")  # which has its own way with traced values
        if ours or type(fn) is functools.partial or id(original(fn)) in _IN_PLACE:
            raise OpenError
        found = super().function(fn, depth)
        return found if type(fn) is MethodType else self.instead(found)

    def is_space(self, value: Any) -> bool:
        return issubclass(type(value), ModuleType) or is_users_space(value)

    @staticmethod
    def is_density(value: Any, path: Sequence[str]) -> bool:
        return False  # there are stand-ins for its methods where there is a trace

    def of_space(self, space: Any, path: list[str], depth: int) -> None:
        super().of_space(space, path, depth)
        if is_users_space(space):
            value, is_method = look_up(space, path[0])
            self._looked_up.append((ref(space), path[0], _weakly(value)))
            if not is_method and self.is_space(value):
                self._read(value, path[1:])

    def instead(self, value: Any) -> Any:
        if issubclass(type(value), ModuleType) and not is_users_space(value):
            return self._modules.get(value, value)
        if is_users_space(value):
            return super().instead(value)
        other = next((other for fn, other in instead.items() if fn is original(value)), value)
        if other is value and callable(value) and str(named_module(original(value))).startswith(_UNNOTICING):
            other = noticing(value)
        self._replaces |= other is not value
        return other

    def value(self, value: Any, depth: int = 0) -> Any:
        cls = type(value)
        if not reads_plainly(cls):
            raise OpenError
        if cls in (tuple, list, dict):
            if any(isinstance(item, FunctionType) for item in contents_of(value)):
                raise OpenError  # which might hold the function itself
            self._holds_others |= any(callable(item) and not isinstance(item, type) for item in contents_of(value))
            if cls is dict and not _KEYS.issuperset(map(type, value)):
                raise OpenError
        elif isinstance(value, type):
            if cls is not type or value.__module__ not in ("builtins", "numpy") or not is_of_library(value):
                raise OpenError
            if issubclass(value, BaseException) and not issubclass(value, Exception):
                raise OpenError  # who catches it may look at what it holds
        elif not (cls is np.ndarray or cls in _ATOMS or callable(value)):
            raise OpenError
        return super().value(value, depth)

    def _closed(self, fn: Any, depth: int, own: Mapping[str, Any] = NOTHING) -> Any:
        code, space = fn.__code__, fn.__globals__
        parts = [*nested(code)]
        names = {name for part in parts for name in (*part.co_varnames, *part.co_cellvars)}
        altering = any(alters(part, *(own if part is code else ())) for part in parts)
        if altering or not names.isdisjoint(code.co_freevars):
            raise OpenError
        if space.get("__builtins__", builtins) not in (builtins, vars(builtins)):
            raise OpenError
        held = _parts_of(fn)
        if any(callable(x) and type(x) not in _OF_USERS and not isinstance(x, type) for x in held[1:]):
            raise OpenError  # what is called under a local name may be given something to write into
        self.adds |= any(map(adds, parts))
        self.running_codes.update(map(id, parts))
        reads = dict.fromkeys(name for is_global, name, _ in reads_of(code, *own) if is_global)
        self._own.append((ref(fn), [*map(_weakly, held)], [(x, _weakly(space.get(x, ABSENT))) for x in reads]))
        self._others += [(vars(builtins), x, vars(builtins).get(x, ABSENT)) for x in reads if x not in space]
        copy = super()._closed(fn, depth, own)
        copy.__globals__[COPIED] = ref(fn)
        return copy

    def running(
        self, code: CodeType, space: Mapping[str, Any], free: Mapping[str, Any], names: dict[str, Any] | None = None,
        depth: int = 0, own: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().running(code, space, free, names, depth, own)
        known = ChainMap(space, vars(builtins))  # type: ignore[arg-type] # nothing is put into it
        for is_global, name, path in reads_of(code, *own):
            value = (known if is_global else free).get(name)
            value, path = self._read(value, path)
            if not all(map(is_reading, path)) or id(original(value)) in _IN_PLACE:
                raise OpenError
            self._hands_on |= _calls_functions(original(value))
        for part in nested(code):
            for way, count in calls_of(part):
                if not writes_nothing(way, count, known, free):
                    raise OpenError
                is_local = len(way) == 1 and way[0].kind == "local" and way[0].name not in free
                self._gives_several |= is_local and count > 1
            if not all(makes_anew(way, known, free) for way in makers(part)):
                raise OpenError
            for mention in sites_of(part).mentions:
                if mention.way and not (mention.called or is_handed_on(mention.way, known, free)):
                    raise OpenError

    def _read(self, value: Any, path: list[str]) -> tuple[Any, list[str]]:
        """What a path leads to in modules and objects of the user's, and what is left of it."""
        if path and is_users_space(value):
            return self._read(look_up(value, path[0])[0], path[1:])
        if not (isinstance(value, ModuleType) and path):
            return value, path
        space, name = self._modules.setdefault(value, SimpleNamespace()), path[0]
        inner = vars(value).get(name, ABSENT)
        self._others.append((vars(value), name, inner))
        found = self._read(inner, path[1:])
        if inner is not ABSENT:
            setattr(space, name, self.instead(inner))
        return found


def _calls_functions(fn: Any) -> bool:
    """Whether this calls a function that it is given, perhaps with more than one argument."""
    if isinstance(fn, np.ufunc) or not callable(fn):
        return False
    try:
        return fn is map or fn is functools.reduce or not _OF_FUNCTIONS.isdisjoint(signature_of(fn).parameters)
    except (TypeError, ValueError):  # it tells none
        return False


def _parts_of(fn: Any) -> list[Any]:
    """Code, defaults and cells of a function."""
    defaults, keywords = fn.__defaults__ or (), fn.__kwdefaults__ or {}
    cells = [cell.cell_contents for cell in fn.__closure__ or ()]
    return [fn.__code__, len(defaults), *defaults, *keywords, *keywords.values(), *cells]


def _weakly(value: Any) -> Any:
    return ref(value) if type(value) in _OF_USERS or is_users_space(value) else value


def _are_same(now: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether these are the same objects; functions were kept weakly, and one that has gone is none."""
    return len(now) == len(before) and all(
        a is (b() if type(b) is ref else b) and (a is not None or b is None) for a, b in zip(now, before, strict=True)
    )
