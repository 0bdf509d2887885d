"""What code may change, and whether it hands on what it has: what ``computing.py`` reads of instructions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..base.callsites import Way, sites_of
from ..base.dispatch import original
from ..base.instructions import by_code
from ..base.ownership import is_library, named_module
from ..base.signatures import position_of_out
from ..registry.registry import methods, properties
from ..tracing.mutation import CHANGING
from .bytecode import nested, steps_of
from .kinds import ABSENT, is_users_space, look_up

_NUMBERS = (int, float, complex)
_ALTERING = frozenset(["STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "CALL_FUNCTION_EX", "MATCH_CLASS"])
_ROOTS = frozenset(["LOAD_GLOBAL", "LOAD_DEREF", "LOAD_CLASSDEREF"])
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
_SILENT = frozenset(["PRECALL", "EXTENDED_ARG", "NOP", "CACHE"])
_OF_ARRAYS = frozenset(["shape", "ndim", "size", "dtype"])
_READING = frozenset(["items", "keys", "values", "get", "index", "count"]) | _OF_ARRAYS
_OF_SHAPES = frozenset(["reshape", "transpose", "swapaxes", "get"])  # methods that take no array to write into
_TAKING = frozenset(["conj", "conjugate"])  # such that take one first
UNKNOWN = 9  # arguments
_METHODS_MARKED = sys.version_info >= (3, 12)  # in the arguments of instructions


def is_reading(name: str) -> bool:
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
def _altering(code: CodeType) -> dict[tuple[str, ...], bool]:
    return {}


def alters(code: CodeType, *own: str) -> bool:
    """Whether code changes anything but what it has made itself, or compares identities; ``own`` are the parameters of
    which it is known what they are."""
    known = _altering(code)
    if own not in known:
        known[own] = _alters(code, own)
    return known[own]


def _alters(code: CodeType, own: tuple[str, ...]) -> bool:
    names = {name for x in code.co_consts if type(x) is tuple for name in x if type(name) is str}
    if any(name == "out" or name.startswith("overwrite") for name in names):  # of keywords
        return True
    steps = [*_joined(code)]
    numbers, lists = _made(code, steps, "number"), _made(code, steps, "list", {})
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
            elif not is_reading(step.argval) or not (_is_of_method(step) or _is_of_data(step.argval)):
                return True  # a method that is not called here may be given something to write into
        is_own = step.opname.startswith("LOAD_FAST") and step.argval in own
        rooted = is_own or step.opname in _ROOTS or (rooted and step.opname in _ATTRIBUTES)
        before = step
    return False


def _made(
    code: CodeType, steps: Sequence[tuple[Any, bool]], kind: str, called: dict[str, list[int]] | None = None
) -> set[str]:
    """The local names under which there is nothing but numbers and what operators give, or new lists; or what is
    ``called``: by name, the instructions that call it, if that is to be told."""
    arguments = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    names, others, stack, offset = set[str](), {*code.co_varnames[:arguments], *code.co_cellvars}, list[str](), 0
    for step, target in steps:
        if target:
            stack.clear()
        if step.opname == "STORE_FAST":
            known = stack.pop() if stack else ""
            if known == "called" and called is not None:
                called.setdefault(step.argval, []).append(offset)
            else:
                (names if known == kind else others).add(step.argval)
        elif step.opname == "SWAP":
            if len(stack) >= step.arg:
                stack[-1], stack[-step.arg] = stack[-step.arg], stack[-1]
            else:
                stack.clear()  # nobody knows what is on top
        elif step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            stack.append("tuple" if type(step.argval) is tuple else _kind_of(step.argval))
            constant = step.argval
        elif step.opname == "UNPACK_SEQUENCE" and stack[-1:] == ["tuple"]:
            stack[-1:] = [_kind_of(x) for x in reversed(constant)]
        elif step.opname == "BUILD_LIST":
            stack = [*(stack if step.arg == 0 else ()), "list"]
        elif step.opname == "LIST_EXTEND" and stack[-2:] == ["list", "tuple"]:
            stack.pop()
        elif step.opname in ("CALL", "CALL_KW"):
            stack, offset = ["called"], step.offset
        elif step.opname in ("LOAD_FAST", "LOAD_DEREF"):
            stack.append("")
        elif step.opname in ("BINARY_OP", "BINARY_SUBSCR"):
            stack[-2:] = ["number" if _is_operator(step) else ""]
        else:
            stack = ["number"] if _is_operator(step) else []
    return names - others


@by_code
def makers(code: CodeType) -> list[Way]:
    """What code calls to give something to names under which there may be lists, too, that it appends to."""
    called = dict[str, list[int]]()
    lists = _made(code, [*_joined(code)], "list", called)
    return [sites_of(code).at(offset).callee for name in lists for offset in called.get(name, ())]


def is_assigned(code: CodeType, name: str) -> bool:
    """Whether a parameter is, or whether functions in there have something else by that name."""
    parts = [*nested(code)]
    if any(name in (*part.co_varnames, *part.co_cellvars) for part in parts if part is not code):
        return True
    return any(
        step.argval == name and step.opname.startswith(("STORE_", "DELETE_")) and not step.opname.endswith("ATTR")
        for part in parts
        for step in steps_of(part)
    )


def makes_anew(way: Way, known: Mapping[str, Any], free: Mapping[str, Any]) -> bool:
    """Whether what is called gives no list that somebody else has: NumPy's functions do not."""
    value, rest = _found(way, known, free) if way and _is_elsewhere(way, free) else (None, way)
    if rest or not callable(value) or _is_users_function(value):
        return False
    return str(named_module(original(value))).partition(".")[0] == "numpy"


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
def adds(code: CodeType) -> bool:
    """Whether code changes something in place by an operator."""
    return any(map(_is_in_place, steps_of(code)))


def _is_none(step: Any) -> bool:
    return step.opname == "LOAD_CONST" and step.argval is None


def _found(way: Way, known: Mapping[str, Any], free: Mapping[str, Any]) -> tuple[Any, Way]:
    """What stands at a way that begins with a name from elsewhere, up to what is no module or object of the user's; and
    the rest of the way."""
    value, rest = (known if way[0].kind == "global" else free).get(way[0].name), way[1:]
    while rest and (isinstance(value, ModuleType) or is_users_space(value)):
        if (inner := look_up(value, rest[0].name)[0]) is ABSENT:
            break
        value, rest = inner, rest[1:]
    return value, rest


def _is_elsewhere(way: Way, free: Mapping[str, Any]) -> bool:
    return way[0].kind == "global" or (way[0].kind == "local" and way[0].name in free)


@by_code
def calls_of(code: CodeType) -> list[tuple[Way, int]]:
    """What code calls, and with how many arguments by position; the way to what is called is empty if nobody knows."""
    known, found, keywords, before = sites_of(code), list[tuple[Way, int]](), 0, None
    for step in steps_of(code):
        if step.opname == "KW_NAMES":  # of the call that follows
            keywords = len(code.co_consts[step.arg or 0])
        elif step.opname in ("PRECALL", "CALL", "CALL_KW"):
            names = keywords if before is None or step.opname != "CALL_KW" else len(before.argval)
            site = known.at(step.offset)
            is_known = site.start < site.end  # else nobody knows what is called, not even that it is a method
            found.append((site.callee, (step.arg or 0) - names) if is_known else ((), UNKNOWN))
            keywords = 0 if step.opname == "CALL" else keywords
        before = step
    return found


def writes_nothing(way: Way, count: int, known: Mapping[str, Any], free: Mapping[str, Any]) -> bool:
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
    if _is_users_function(value):
        return True
    is_function = callable(value) and not isinstance(value, type)
    at = position_of_out(original(value), "overwrite") if is_function else None
    return at is None or count <= at


def is_handed_on(way: Way, known: Mapping[str, Any], free: Mapping[str, Any]) -> bool:
    """Whether what code loads may go anywhere: it is no function of a library's, and no method, which somebody else
    would call with whatever arguments."""
    value, rest = _found(way, known, free) if _is_elsewhere(way, free) else (None, way[1:])
    if rest:
        return all(step.kind != "attribute" or _is_of_data(step.name) for step in rest)
    return not callable(value) or isinstance(value, type) or _is_users_function(value)


def _is_users_function(value: Any) -> bool:
    value = value.__func__ if type(value) is MethodType else value
    return type(value) is FunctionType and not is_library(value.__globals__.get("__name__"))
