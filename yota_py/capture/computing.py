"""Functions whose calls need not be followed: as their code says, they compute, of numbers, arrays and containers of
these, and change nothing that was there before.

What they make themselves they may change in two ways that nobody else can see: a sum is added to (``total += x``, which
begins as a number), and a list is appended to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from ..base.callsites import Way, by_code, calls_of
from ..base.dispatch import original
from ..base.ownership import is_library
from ..registry.registry import listeners, methods, properties
from ..tracing.mutation import CHANGING, IN_PLACE
from ..tracing.protocols import position_of_out
from .bytecode import nested, steps_of
from .closed import Closing, OpenError, reads_of

MAX_DEPTH, MAX_ITEMS = 50, 1000  # of arguments that are looked through
_ABSENT = object()
_NUMBERS = (int, float, complex)
_PLAIN = frozenset([type(None), bool, int, float, complex, str, bytes, np.float64])
_ALTERING = frozenset(["STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "CALL_FUNCTION_EX", "MATCH_CLASS"])
_MAKING = frozenset(["MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE"])
_ROOTS = frozenset(["LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF"])
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
_IN_PLACE = frozenset(map(id, IN_PLACE))
_READING = frozenset(["items", "keys", "values", "get", "index", "count", "shape", "ndim", "size", "dtype"])
_OF_SHAPES = frozenset(["reshape", "transpose", "swapaxes", "get"])  # methods that take no array to write into

_known: WeakKeyDictionary[Callable[..., Any], Computing | None] = WeakKeyDictionary()
listeners.append(_known.clear)


def computing(fn: Callable[..., Any]) -> Computing | None:
    """What is known of a function that does nothing but compute; ``None`` if it may do more."""
    if type(fn) is not FunctionType:
        return None
    known = _known.get(fn, _ABSENT)
    if known is None or (type(known) is Computing and known.is_same()):
        return known
    try:
        _known[fn] = Computing(fn)
    except Exception:  # any: nobody can tell
        _known[fn] = None
    return _known[fn]


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
        elif cls is tuple or cls is list or (cls is dict and all(type(key) in (str, int) for key in x)):
            if not are_plain(x.values() if cls is dict else x, depth + 1):
                return False
        else:
            return False
    return True


class Computing(Closing):
    """What such a function reads from elsewhere. Raises ``OpenError`` if it is none."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__(lambda array: array)
        self._reads: list[tuple[Mapping[str, Any], str, Any]] = []
        self._parts: list[tuple[ref[Any], Sequence[Any]]] = []  # functions, and what they are made of
        self.adds = False  # whether it adds in place
        self.failures = 0  # calls that needed a trace all the same
        self.function(fn)
        self.check()
        self.forget()

    def is_same(self) -> bool:
        """Whether all that it reads is what it was, but for what is in arrays."""
        for space, name, value in self._reads:
            if space.get(name, _ABSENT) is not value:
                return False
        return all(_are_same(_parts_of(fn()), parts) for fn, parts in self._parts) and not self.has_changed()

    def function(self, fn: Any, depth: int = 0) -> Any:
        if _changes(fn):
            raise OpenError
        return super().function(fn, depth)

    def _closed(self, fn: Any, depth: int) -> Any:
        parts = _parts_of(fn)
        if any(map(_alters, nested(fn.__code__))) or any(map(_is_numpys, parts[1:])):
            raise OpenError  # what is called under a local name may be given something to write into
        self.adds |= any(map(_adds, nested(fn.__code__)))
        self._parts.append((ref(fn), parts))
        return super()._closed(fn, depth)

    def running(
        self, code: CodeType, space: Mapping[str, Any], free: Mapping[str, Any], names: dict[str, Any] | None = None,
        depth: int = 0,
    ) -> None:  # fmt: skip
        super().running(code, space, free, names, depth)
        builtins: Any = space.get("__builtins__", {})
        known = {**(vars(builtins) if isinstance(builtins, ModuleType) else builtins), **space}
        for is_global, name, path in reads_of(code):
            value = (known if is_global else free).get(name)
            if is_global:
                self._reads.append((space, name, space.get(name, _ABSENT)))
            while isinstance(value, ModuleType) and path:
                value, path = self._attribute(value, path[0]), path[1:]
            if not all(map(_is_reading, path)) or (callable(value) and _changes(value)):
                raise OpenError
        made = _functions_made(code)
        for part in nested(code):
            for way, count in calls_of(part):
                if count > 1 and not _writes_nothing(way, count, made, known, free):
                    raise OpenError

    def _attribute(self, module: ModuleType, name: str) -> Any:
        value = vars(module).get(name, _ABSENT)
        self._reads.append((vars(module), name, value))
        return value


def _parts_of(fn: Any) -> list[Any]:
    """Code, defaults and cells of a function."""
    keywords = (fn.__kwdefaults__ or {}).values()
    cells = [cell.cell_contents for cell in fn.__closure__ or ()]
    return [fn.__code__, *(fn.__defaults__ or ()), *keywords, *(x for x in cells if x is not fn)]


def _are_same(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


def _is_numpys(x: Any) -> bool:
    return callable(x) and type(x) is not FunctionType and not isinstance(x, type)


def _changes(fn: Any) -> bool:
    return id(original(fn)) in _IN_PLACE


def _is_reading(name: str) -> bool:
    """Whether the attributes of this name, of arrays and containers, change nothing."""
    return name in _READING or name in properties or (name in methods and name not in CHANGING)


@by_code
def _alters(code: CodeType) -> bool:
    """Whether code changes anything but what it has made itself, or compares identities."""
    steps = [step for step in steps_of(code) if step.opname not in ("PRECALL", "EXTENDED_ARG", "NOP", "CACHE")]
    if any(type(x) is tuple and any(name == "out" or str(name).startswith("overwrite") for name in x)
           for x in code.co_consts):  # fmt: skip
        return True
    numbers, lists = _made(code, steps, "number"), _made(code, steps, "list")
    rooted = False
    for before, step, after in zip([None, *steps], steps, [*steps[1:], None], strict=False):
        if step.opname in _ALTERING:
            return True
        if step.is_jump_target:  # other ways lead here
            before, rooted = None, False
        if _is_in_place(step):
            if after is None or after.opname != "STORE_FAST" or after.argval not in numbers:
                return True
        elif step.opname == "IS_OP" and not (before is not None and _is_none(before)):
            return True
        elif step.opname in _ATTRIBUTES and not rooted:
            if step.argval == "append":
                if before is None or before.opname != "LOAD_FAST" or before.argval not in lists:
                    return True
            elif not _is_reading(step.argval):
                return True
        rooted = step.opname in _ROOTS or (rooted and step.opname in _ATTRIBUTES)
    return False


@by_code
def _adds(code: CodeType) -> bool:
    return any(map(_is_in_place, steps_of(code)))


def _is_none(step: Any) -> bool:
    return step.opname == "LOAD_CONST" and step.argval is None


def _made(code: CodeType, steps: Sequence[Any], kind: str) -> set[str]:
    """The local names under which there is nothing but sums that begin as numbers, or new lists."""
    arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    names, others, stack = set[str](), {*code.co_varnames[:arguments], *code.co_cellvars}, list[str]()
    for step in steps:
        if step.is_jump_target:
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
        elif step.opname == "BUILD_LIST" and step.arg == 0:
            stack.append("list")
        else:
            stack = ["number"] if _is_in_place(step) else []
    return names - others


def _kind_of(constant: Any) -> str:
    return "number" if type(constant) in _NUMBERS else ""


def _is_in_place(step: Any) -> bool:
    return bool(step.opname == "BINARY_OP" and step.argrepr.endswith("="))


@by_code
def _functions_made(code: CodeType) -> frozenset[str]:
    """The names under which code keeps functions that are written in it, and nothing else."""
    names, others = set[str](), set[str]()
    for part in nested(code):
        steps = [step for step in steps_of(part) if step.opname not in ("EXTENDED_ARG", "NOP", "CACHE")]
        others.update(part.co_varnames[: part.co_argcount + part.co_kwonlyargcount])
        for before, step in pairwise(steps):
            if step.opname in ("STORE_FAST", "STORE_DEREF"):
                is_made = before.opname in _MAKING and not step.is_jump_target
                (names if is_made else others).add(step.argval)
    return frozenset(names - others)


def _writes_nothing(
    way: Way, count: int, made: frozenset[str], known: Mapping[str, Any], free: Mapping[str, Any]
) -> bool:
    """Whether what is called, with so many arguments, is given no array to write its result into."""
    if not way or way[0].kind not in ("global", "local"):
        return bool(way) and way[-1].kind == "attribute" and way[-1].name in _OF_SHAPES
    (first, *rest) = way
    if first.kind == "local" and first.name not in free:
        return first.name in made if not rest else rest[-1].name in _OF_SHAPES
    value = (known if first.kind == "global" else free).get(first.name)
    while isinstance(value, ModuleType) and rest:
        value = vars(value).get(rest.pop(0).name)
    if rest:
        return rest[-1].kind == "attribute" and rest[-1].name in _OF_SHAPES
    if isinstance(value, np.ufunc):
        return count <= value.nin
    if type(value) is FunctionType and not is_library(value.__globals__.get("__name__")):
        return True
    at = position_of_out(original(value)) if callable(value) and not isinstance(value, type) else None
    return at is None or count <= at
