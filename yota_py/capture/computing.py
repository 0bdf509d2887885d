"""Functions whose calls need not be followed: as their code says, they compute, of numbers, arrays and containers of
these, and change nothing that was there before.

What they make themselves they may change in two ways that nobody else can see: a sum is added to (``total += x``, which
begins as a number), and a list is appended to.
"""

from __future__ import annotations

import builtins
import sys
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from ..base.callsites import Way, by_code, sites_of
from ..base.dispatch import original
from ..base.ownership import is_library
from ..base.signatures import position_of_out
from ..registry.registry import listeners, methods, properties
from ..tracing.mutation import CHANGING, IN_PLACE
from .bytecode import nested, steps_of
from .closed import Closing, OpenError, contents_of, reads_of

MAX_DEPTH, MAX_ITEMS = 50, 1000  # of arguments that are looked through
_NUMBERS = (int, float, complex)
_PLAIN = frozenset([type(None), bool, int, float, complex, str, bytes, np.float64])
_ATOMS = _PLAIN | {slice, range, type(...), *(np.dtype(code).type for code in "?bhilqBHILQefdgFDG")}
_KEYS = frozenset([str, int, bool, float, type(None)])
_ALTERING = frozenset(["STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "CALL_FUNCTION_EX", "MATCH_CLASS"])
_ROOTS = frozenset(["LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF"])
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
_SILENT = frozenset(["PRECALL", "EXTENDED_ARG", "NOP", "CACHE"])
_IN_PLACE = frozenset(map(id, IN_PLACE))
_OF_ARRAYS = frozenset(["shape", "ndim", "size", "dtype"])
_READING = frozenset(["items", "keys", "values", "get", "index", "count"]) | _OF_ARRAYS
_OF_SHAPES = frozenset(["reshape", "transpose", "swapaxes", "get"])  # methods that take no array to write into
_TAKING = frozenset(["conj", "conjugate"])  # such that take one first
_METHODS_MARKED = sys.version_info >= (3, 12)  # in the arguments of instructions
_ABSENT = object()
COPIED = "__yota_copied__"  # the global name of a copy's original: ``ref(f)``
# What is called in the place of functions of NumPy's that look for no values but their own.
instead: dict[Callable[..., Any], Callable[..., Any]] = {}

_known: WeakKeyDictionary[Callable[..., Any], Computing | None] = WeakKeyDictionary()
listeners.append(_known.clear)


def computing(fn: Callable[..., Any]) -> Computing | None:
    """What is known of a function that does nothing but compute; ``None`` if it may do more."""
    if type(fn) is not FunctionType:
        return None
    try:
        known = _known.get(fn, _ABSENT)
        if known is None or (type(known) is Computing and known.is_same()):
            return known
        _known[fn] = Computing(fn)
    except Exception:  # any: nobody can tell
        _known[fn] = None
    return _known[fn]


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
        self.adds = False  # whether it adds in place
        self.running_codes: set[int] = set()  # the identities of all that may run, besides libraries
        self._numpy = SimpleNamespace()  # what it reads of NumPy, with what is called instead
        self._replaces = False
        copy = self.function(fn)
        self.called: Callable[..., Any] | None = copy if self._replaces else None  # in its place
        self.check()
        self.forget()

    def is_same(self) -> bool:
        """Whether all that it reads is what it was, but for what is in arrays. Raises ``ValueError`` for a cell that
        has become empty."""
        for space, name, value in self._others:
            if space.get(name, _ABSENT) is not value:
                return False
        for fn_of, parts, names in self._own:
            fn = fn_of()
            if fn is None or not _are_same(_parts_of(fn), parts):
                return False
            if not _are_same([fn.__globals__.get(name, _ABSENT) for name, _ in names], [value for _, value in names]):
                return False
        return all(_are_same(contents_of(container), contents) for container, contents in self.found)

    def function(self, fn: Any, depth: int = 0) -> Any:
        ours = str(getattr(fn, "__module__", "")).startswith("yota_py")  # which has its own way with traced values
        if ours or type(fn) is partial or id(original(fn)) in _IN_PLACE:
            raise OpenError
        return self._instead(super().function(fn, depth))

    def _instead(self, value: Any) -> Any:
        other = next((other for fn, other in instead.items() if fn is original(value)), value)
        self._replaces |= other is not value
        return other

    def value(self, value: Any, depth: int = 0) -> Any:
        cls = type(value)
        if cls in (tuple, list, dict):
            if any(isinstance(item, FunctionType) for item in contents_of(value)):
                raise OpenError  # which might hold the function itself
            if cls is dict and not _KEYS.issuperset(map(type, value)):
                raise OpenError
        elif isinstance(value, type):
            if cls is not type or value.__module__ not in ("builtins", "numpy"):
                raise OpenError
            if issubclass(value, BaseException) and not issubclass(value, Exception):
                raise OpenError  # who catches it may look at what it holds
        elif not (cls is np.ndarray or cls in _ATOMS or callable(value)):
            raise OpenError
        return super().value(value, depth)

    def _closed(self, fn: Any, depth: int) -> Any:
        code, space = fn.__code__, fn.__globals__
        parts = [*nested(code)]
        names = {name for part in parts for name in (*part.co_varnames, *part.co_cellvars)}
        if any(map(_alters, parts)) or not names.isdisjoint(code.co_freevars):
            raise OpenError
        if space.get("__builtins__", builtins) not in (builtins, vars(builtins)):
            raise OpenError
        held = _parts_of(fn)
        if any(callable(x) and type(x) is not FunctionType and not isinstance(x, type) for x in held[1:]):
            raise OpenError  # what is called under a local name may be given something to write into
        self.adds |= any(map(_adds, parts))
        self.running_codes.update(map(id, parts))
        reads = dict.fromkeys(name for is_global, name, _ in reads_of(code) if is_global)
        self._own.append((ref(fn), [*map(_weakly, held)], [(x, _weakly(space.get(x, _ABSENT))) for x in reads]))
        self._others += [(vars(builtins), x, vars(builtins).get(x, _ABSENT)) for x in reads if x not in space]
        copy = super()._closed(fn, depth)
        for name, value in copy.__globals__.items():
            copy.__globals__[name] = self._numpy if value is np else value
        copy.__globals__[COPIED] = ref(fn)
        for cell in copy.__closure__ or ():
            cell.cell_contents = self._numpy if cell.cell_contents is np else cell.cell_contents
        return copy

    def running(
        self, code: CodeType, space: Mapping[str, Any], free: Mapping[str, Any], names: dict[str, Any] | None = None,
        depth: int = 0,
    ) -> None:  # fmt: skip
        super().running(code, space, free, names, depth)
        known = ChainMap(space, vars(builtins))  # type: ignore[arg-type] # nothing is put into it
        for is_global, name, path in reads_of(code):
            value = (known if is_global else free).get(name)
            while isinstance(value, ModuleType) and path:
                value, path = self._attribute(value, path[0]), path[1:]
            if not all(map(_is_reading, path)) or id(original(value)) in _IN_PLACE:
                raise OpenError
        for part in nested(code):
            for way, count in _calls_of(part):
                if not _writes_nothing(way, count, known, free):
                    raise OpenError
            for mention in sites_of(part).mentions:
                if mention.way and not (mention.called or _is_handed_on(mention.way, known, free)):
                    raise OpenError

    def _attribute(self, module: ModuleType, name: str) -> Any:
        value = vars(module).get(name, _ABSENT)
        self._others.append((vars(module), name, value))
        if module is np and value is not _ABSENT:
            setattr(self._numpy, name, self._instead(value))
        return value


def _parts_of(fn: Any) -> list[Any]:
    """Code, defaults and cells of a function."""
    keywords = (fn.__kwdefaults__ or {}).values()
    return [fn.__code__, *(fn.__defaults__ or ()), *keywords, *(cell.cell_contents for cell in fn.__closure__ or ())]


def _weakly(value: Any) -> Any:
    return ref(value) if type(value) is FunctionType else value


def _are_same(now: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether these are the same objects; functions were kept weakly."""
    return len(now) == len(before) and all(
        a is (b() if type(b) is ref else b) for a, b in zip(now, before, strict=True)
    )


# ------------------------------------------------------------------------------------------------ what code may do


def _is_reading(name: str) -> bool:
    """Whether the attributes of this name, of arrays and containers, change nothing."""
    return name in _READING or name in properties or (name in methods and name not in CHANGING)


def _joined(code: CodeType) -> Iterator[tuple[Any, bool]]:
    """The instructions, and whether others than the one before lead to them."""
    target = False
    for step in steps_of(code):
        target |= step.is_jump_target
        if step.opname not in _SILENT:
            yield step, target
            target = False


@by_code
def _alters(code: CodeType) -> bool:
    """Whether code changes anything but what it has made itself, or compares identities."""
    names = {name for x in code.co_consts if type(x) is tuple for name in x if type(name) is str}
    if any(name == "out" or name.startswith("overwrite") for name in names):  # of keywords
        return True
    steps = [*_joined(code)]
    numbers, lists = _made(code, steps, "number"), _made(code, steps, "list")
    before, rooted = None, False
    for i, (step, target) in enumerate(steps):
        if step.opname in _ALTERING:
            return True
        if target:
            before, rooted = None, False
        if _is_in_place(step):
            after, joined = steps[i + 1] if i + 1 < len(steps) else (step, True)
            if joined or after.opname != "STORE_FAST" or after.argval not in numbers:
                return True
        elif step.opname == "IS_OP" and not (before is not None and _is_none(before)):
            return True
        elif step.opname in _ATTRIBUTES and not rooted:
            if step.argval == "append":
                if before is None or before.opname != "LOAD_FAST" or before.argval not in lists:
                    return True
            elif not _is_reading(step.argval) or not (_is_of_method(step) or _is_of_data(step.argval)):
                return True  # a method that is not called here may be given something to write into
        rooted = step.opname in _ROOTS or (rooted and step.opname in _ATTRIBUTES)
        before = step
    return False


def _made(code: CodeType, steps: Sequence[tuple[Any, bool]], kind: str) -> set[str]:
    """The local names under which there is nothing but numbers and what operators give, or new lists."""
    arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    names, others, stack = set[str](), {*code.co_varnames[:arguments], *code.co_cellvars}, list[str]()
    for step, target in steps:
        if target:
            stack.clear()
        if step.opname == "STORE_FAST":
            (names if stack and stack.pop() == kind else others).add(step.argval)
        elif step.opname == "SWAP" and len(stack) >= step.arg:
            stack[-1], stack[-step.arg] = stack[-step.arg], stack[-1]
        elif step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            stack.append("tuple" if type(step.argval) is tuple else _kind_of(step.argval))
            constant = step.argval
        elif step.opname == "UNPACK_SEQUENCE" and stack[-1:] == ["tuple"]:
            stack[-1:] = [_kind_of(x) for x in reversed(constant)]
        elif step.opname == "BUILD_LIST":
            stack = [*(stack if step.arg == 0 else ()), "list"]
        elif step.opname in ("LOAD_FAST", "LOAD_DEREF"):
            stack.append("")
        elif step.opname in ("BINARY_OP", "BINARY_SUBSCR"):
            stack[-2:] = ["number" if _is_operator(step) else ""]
        else:
            stack = ["number"] if _is_operator(step) else []
    return names - others


def _kind_of(constant: Any) -> str:
    return "number" if type(constant) in _NUMBERS else ""


def _is_of_method(step: Any) -> bool:
    """Whether an attribute is loaded to be called at once."""
    return step.opname == "LOAD_METHOD" or (step.opname == "LOAD_ATTR" and _METHODS_MARKED and bool(step.arg & 1))


def _is_of_data(name: str) -> bool:
    return name in _OF_ARRAYS or name in properties


def _is_operator(step: Any) -> bool:
    """Whether what an instruction gives is new, or is changed in place."""
    return bool(step.opname == "UNARY_NEGATIVE" or (step.opname == "BINARY_OP" and step.argrepr != "[]"))


def _is_in_place(step: Any) -> bool:
    return bool(step.opname == "BINARY_OP" and step.argrepr.endswith("="))


@by_code
def _adds(code: CodeType) -> bool:
    return any(map(_is_in_place, steps_of(code)))


def _is_none(step: Any) -> bool:
    return step.opname == "LOAD_CONST" and step.argval is None


def _found(way: Way, known: Mapping[str, Any], free: Mapping[str, Any]) -> tuple[Any, Way]:
    """What stands at a way that begins with a name from elsewhere, up to what is no module; and the rest of the way."""
    value, rest = (known if way[0].kind == "global" else free).get(way[0].name), way[1:]
    while isinstance(value, ModuleType) and rest:
        value, rest = vars(value).get(rest[0].name), rest[1:]
    return value, rest


def _is_elsewhere(way: Way, free: Mapping[str, Any]) -> bool:
    return way[0].kind == "global" or (way[0].kind == "local" and way[0].name in free)


@by_code
def _calls_of(code: CodeType) -> list[tuple[Way, int]]:
    """What code calls, and with how many arguments by position; the way to what is called is empty if nobody knows."""
    known, found, keywords, before = sites_of(code), list[tuple[Way, int]](), 0, None
    for step in steps_of(code):
        if step.opname == "KW_NAMES":  # of the call that follows
            keywords = len(code.co_consts[step.arg or 0])
        elif step.opname in ("PRECALL", "CALL", "CALL_KW"):
            names = keywords if before is None or step.opname != "CALL_KW" else len(before.argval)
            found.append((known.at(step.offset).callee, (step.arg or 0) - names))
            keywords = 0 if step.opname == "CALL" else keywords
        before = step
    return found


def _writes_nothing(way: Way, count: int, known: Mapping[str, Any], free: Mapping[str, Any]) -> bool:
    """Whether what is called, with so many arguments, is given no array to write its result into. Under a local name
    there is no function but the user's own: no other one is handed on."""
    if not count:
        return True
    if not way:
        return count == 1
    name = way[-1].name if way[-1].kind == "attribute" else None
    is_method = name is not None and (name in _OF_SHAPES or (count == 1 and name not in _TAKING))
    if not _is_elsewhere(way, free):
        return is_method or (len(way) == 1 and way[0].kind == "local")
    value, rest = _found(way, known, free)
    if rest:
        return is_method
    if isinstance(value, np.ufunc):
        return count <= value.nin
    if type(value) is FunctionType and not is_library(value.__globals__.get("__name__")):
        return True
    at = position_of_out(original(value)) if callable(value) and not isinstance(value, type) else None
    return at is None or count <= at


def _is_handed_on(way: Way, known: Mapping[str, Any], free: Mapping[str, Any]) -> bool:
    """Whether what code loads may go anywhere: it is no function of a library's, and no method, which somebody else
    would call with whatever arguments."""
    value, rest = _found(way, known, free) if _is_elsewhere(way, free) else (None, way[1:])
    if rest:
        return all(step.kind != "attribute" or _is_of_data(step.name) for step in rest)
    return not callable(value) or isinstance(value, type) or (
        type(value) is FunctionType and not is_library(value.__globals__.get("__name__"))
    )
