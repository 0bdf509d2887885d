"""What a frame is calling at the moment, as the instruction says that it is executing.

C code has no frame: a Python function that it calls finds the frame of whoever called the C code. Only what that
frame's own instruction names is certain to be the frame's doing.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import types
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from .instructions import by_code, instructions_of
from .records import record

METHODS = frozenset(["reduce", "accumulate", "reduceat", "outer", "at"])  # of ufuncs

_UNKNOWN = object()
_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_SILENT = ("PUSH_NULL", "PRECALL", "KW_NAMES", "CACHE", "NOP", "COPY_FREE_VARS", "EXTENDED_ARG", "RESUME")

Position = tuple[int, int]
Span = tuple[Position, Position]


class _Step(NamedTuple):
    """One step on the way to a value: a name, an attribute, or the item at the value of a way; others are "?"."""

    kind: str
    name: Any = ""


Way = tuple[_Step, ...]


class _Site(NamedTuple):
    """What one instruction does: whether it calls something, what, and the part of the source that it belongs to."""

    is_call: bool
    callee: Way
    start: Position
    end: Position


class _Mention(NamedTuple):
    """A value that a code object loads, and whether it calls it there."""

    start: Position
    way: Way
    called: bool


@record()
class _Sites:
    offsets: list[int]
    sites: list[_Site]
    mentions: list[_Mention]
    attributes: dict[int, str]  # that are read, by the offsets of the instructions
    called: dict[int, tuple[str, ...]]  # of what these loads give, what is called: itself, or an attribute of it

    def at(self, offset: int) -> _Site:
        return self.sites[bisect_right(self.offsets, offset) - 1]  # the last instruction may be an inline cache


def called_name(frame: FrameType) -> str:
    """The name of the function that a frame is calling at the moment, as its source says; empty if unknown."""
    callee = sites_of(frame.f_code).at(frame.f_lasti).callee
    return callee[-1].name if callee and isinstance(callee[-1].name, str) else ""


def subscripts(frame: FrameType) -> bool:
    """Whether a frame asks for an item at the moment, rather than to iterate or to call something that does."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("BINARY_SUBSCR", "BINARY_OP")


def asks_for(frame: FrameType, name: str) -> bool:
    """Whether a frame asks for an attribute at the moment, rather than to call something that does."""
    sites = sites_of(frame.f_code)
    at = bisect_right(sites.offsets, frame.f_lasti) - 1
    return sites.attributes.get(sites.offsets[at]) == name or called_name(frame) == "getattr"


def called_of(frame: FrameType) -> tuple[str, ...] | None:
    """What a frame calls of the attribute that it loads at the moment: only itself, ``()``, or an attribute of it
    (``("reduce",)`` in ``np.add.reduce(x)``); ``None`` if the value may get elsewhere."""
    sites = sites_of(frame.f_code)
    return sites.called.get(sites.offsets[bisect_right(sites.offsets, frame.f_lasti) - 1])


@record()
class Called:
    """A call that a frame makes: what it calls, under which name, values that stand among the arguments, and what the
    callee is an attribute of (``None`` if it is none)."""

    callee: Any
    name: str
    values: list[Any]
    owner: Any = None


def called_with(frame: FrameType, offset: int) -> Called | None:
    """The call that stands at an instruction; ``None`` if there is none, or if it cannot be told what it calls."""
    sites = sites_of(frame.f_code)
    site = sites.at(offset)
    callee = _value(site.callee, frame) if site.is_call and site.callee else _UNKNOWN
    if callee is _UNKNOWN:
        return None
    inside = [m for m in sites.mentions if site.start <= m.start < site.end]
    values = (_value(m.way, frame) for m in inside)
    owner = _value(site.callee[:-1], frame) if site.callee[-1].kind == "attribute" else None
    return Called(callee, _text_of(site.callee), [value for value in values if value is not _UNKNOWN], owner)


def _text_of(way: Way) -> str:
    """As in the source: ``table['sqrt'].reduce``."""
    texts = {"item": lambda way: f"[{_text_of(way)}]", "attribute": lambda name: f".{name}", "constant": repr}
    return "".join(texts.get(step.kind, str)(step.name) for step in way)


def handed_on(code: CodeType, namespace: dict[str, Any]) -> Iterator[Any]:
    """What code loads by global names, and attributes of these, for something else than to call it there."""
    for mention in sites_of(code).mentions:
        way = mention.way
        if mention.called and way[-1].name == "__call__":
            way = way[:-1]
        elif mention.called:
            continue
        known = way and way[0].kind == "global" and way[0].name in namespace
        value = namespace[way[0].name] if known else _UNKNOWN
        for step in way[1:]:
            value = _attribute(value, step.name) if step.kind == "attribute" and value is not _UNKNOWN else _UNKNOWN
        if value is not _UNKNOWN:
            yield value


def calls(frame: FrameType, function: Any, name: str) -> bool:
    """Whether it is certain that a frame itself calls a function at the moment, rather than C code called by it.

    The instruction calls it, perhaps through ``partial``; or it calls a C function of the standard library, iterates
    or unpacks, and the function is passed on there as a value: ``list(map(f, xs))``. Of an expression that cannot be
    followed the ``name`` is believed.
    """
    sites = sites_of(frame.f_code)
    site = sites.at(frame.f_lasti)
    if site.end == _NOWHERE:  # positions are not kept: any mention in the line
        return any(_denotes(_value(m.way, frame), function) for m in sites.mentions if m.start[0] == site.start[0])
    if not site.is_call:
        return _passes_on(sites.mentions, frame, function)
    callee = _value(site.callee, frame)
    if _denotes(callee, function) or _denotes(_by_name(sites, site, frame, name), function):
        return True
    believed = callee is _UNKNOWN and bool(site.callee) and site.callee[-1].name == name
    if believed or (callee is not _UNKNOWN and not _is_of_python(callee)):
        return believed
    return _passes_on((m for m in sites.mentions if site.start <= m.start < site.end), frame, function)


def _by_name(sites: _Sites, site: _Site, frame: FrameType, name: str) -> Any:
    """What ``getattr(x, name)`` gives, where it is called at once."""
    inside = [_value(m.way, frame) for m in sites.mentions if site.start < m.start < site.end][:2]
    if site.callee != (_Step("global", "getattr"), _ANYTHING) or not inside or inside[0] is _UNKNOWN:
        return _UNKNOWN
    return _UNKNOWN if isinstance(inside[-1], str) and inside[-1] != name else _attribute(inside[0], name)


def _passes_on(mentions: Any, frame: FrameType, function: Any) -> bool:
    return any(not m.called and _denotes(_value(m.way, frame), function) for m in mentions)


def _denotes(value: Any, function: Any) -> bool:
    """Whether a value is a function, or calls it and nothing else."""
    for _ in range(8):
        if value is function:
            return True
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, map | filter):
            value = value.__reduce__()[1][0]  # type: ignore[index]  # its class and arguments
        elif isinstance(value, types.MethodType | staticmethod | classmethod):
            value = value.__func__
        elif type(value) is _CACHED:
            value = value.__wrapped__
        else:
            return False
    return False


_CACHED = type(functools.lru_cache(lambda: None))


def _is_of_python(value: Any) -> bool:
    """Whether a callable belongs to the standard library, which knows of no arrays."""
    module = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in sys.stdlib_module_names


# ------------------------------------------------------------------------------------------------ values of expressions


def _value(way: Way, frame: FrameType) -> Any:
    """What an expression stands for, found without running any code of the user's."""
    value: Any = _UNKNOWN
    for step in way:
        if step.kind == "local":
            value = frame.f_locals.get(step.name, _UNKNOWN)
        elif step.kind == "global":
            value = _global(step.name, frame)
        elif step.kind == "attribute" and value is not _UNKNOWN:
            value = _attribute(value, step.name)
        elif step.kind == "item" and type(value) in (dict, list, tuple):
            value = _item(value, _value(step.name, frame))
        elif step.kind == "constant":
            value = step.name
        else:
            return _UNKNOWN
    return value


def _global(name: str, frame: FrameType) -> Any:
    local = [] if frame.f_code.co_flags & inspect.CO_OPTIMIZED else [frame.f_locals]  # the body of a module or class
    spaces = [*local, frame.f_globals, frame.f_builtins]
    for space in spaces:
        if name in space:
            return space[name]
    return _UNKNOWN


def _attribute(obj: Any, name: str) -> Any:
    if isinstance(obj, types.ModuleType):
        return vars(obj).get(name, _UNKNOWN)
    value = inspect.getattr_static(obj, name, _UNKNOWN)
    if isinstance(value, types.MemberDescriptorType):  # of a class with slots
        try:
            return value.__get__(obj, type(obj))
        except AttributeError:
            return _UNKNOWN
    return _UNKNOWN if isinstance(value, property | functools.cached_property) else value


def _item(container: Any, key: Any) -> Any:
    if type(key) not in (str, int, bool):  # whose hash and comparison are Python's own
        return _UNKNOWN
    try:
        return container[key]
    except (LookupError, TypeError):
        return _UNKNOWN


# ------------------------------------------------------------------------------------------------ reading the code

_NOWHERE, _ANYTHING = (-1, -1), _Step("?")


@by_code
def sites_of(code: CodeType) -> _Sites:
    return _read(code)


def _read(code: CodeType) -> _Sites:
    """The calls of a code object and what they call.

    A call and the expression that it calls begin at the same position in the source, and the expression ends before
    the call does; so do an attribute and what it is an attribute of.
    """
    instructions = instructions_of(code)
    spans, names = [*map(_span, instructions)], [*map(_names, instructions)]
    beginnings: dict[Position, dict[Position, _Step]] = {}
    for start, end, step in _steps(instructions, spans, names):
        at = beginnings.setdefault(start, {})
        at[end] = step if at.get(end, step) == step else _ANYTHING
    callees: dict[tuple[Position, Position], tuple[str, ...] | None] = {}
    sites, called = [], set()
    for instruction, (start, end) in zip(instructions, spans, strict=True):
        kind = instruction.opname
        callee: Way = ()
        is_call = kind.startswith(("CALL", "PRECALL")) and not kind.startswith("CALL_INTRINSIC")
        if is_call:
            parts = [(e, step) for e, step in sorted(beginnings.get(start, {}).items()) if e < end]
            callee = tuple(step for _, step in parts)
            called.add((start, callee))
            for i, (e, _) in enumerate(parts):
                if callees.get((start, e)) is None:  # of f(x).g(y), f is called first
                    callees[start, e] = _attributes_of(callee[i + 1 :])
        sites.append(_Site(is_call, callee, start, end))
    mentions = [_Mention(start, way, (start, way) in called) for start, way in _ways(instructions, spans, names)]
    attributes = {i.offset: i.argval for i in instructions if i.opname in _ATTRIBUTES}
    ways = {i.offset: callees.get(at) for i, at in zip(instructions, spans, strict=True) if i.offset in attributes}
    only = {offset: way for offset, way in ways.items() if way is not None}
    only.update(dict.fromkeys(_called_later(instructions, mentions, sites), ()))
    return _Sites([instruction.offset for instruction in instructions], sites, mentions, attributes, only)


def _called_later(
    instructions: Sequence[dis.Instruction], mentions: list[_Mention], sites: list[_Site]
) -> Iterator[int]:
    """The offsets of loads and imports of what is kept under a local name that is only called, or handed to ``map``."""
    mapping = [site for site in sites if site.is_call and site.callee == (_Step("global", "map"),)]
    for before, instruction, following in zip(instructions, instructions[1:], instructions[2:], strict=False):
        to_be_called = before.opname == "LOAD_GLOBAL" and "NULL" in before.argrepr
        if to_be_called and instruction.opname == "LOAD_ATTR" and following.opname not in _ATTRIBUTES:
            yield instruction.offset
        if instruction.opname == "IMPORT_FROM" or instruction.opname in _ATTRIBUTES:
            if following.opname == "STORE_FAST":
                uses = [m for m in mentions if m.way[0] == _Step("local", following.argval)]
                if all(m.called and all(step.name in METHODS for step in m.way[1:]) for m in uses):
                    yield instruction.offset
            elif any(site.start < _span(instruction)[0] <= site.end for site in mapping):
                yield instruction.offset


def _attributes_of(steps: Way) -> tuple[str, ...] | None:
    return tuple(step.name for step in steps) if all(step.kind == "attribute" for step in steps) else None


def _steps(
    instructions: Sequence[dis.Instruction], spans: Sequence[Span], loaded: Sequence[list[_Step]]
) -> Iterator[tuple[Position, Position, _Step]]:
    """The parts of expressions with their beginnings and ends."""
    before: list[_Step] = []
    behind = [*instructions[1:], None]
    for instruction, (start, end), names, following in zip(instructions, spans, loaded, behind, strict=True):
        if isinstance(instruction.argval, tuple) and following is not None and following.opname == "PUSH_NULL":
            yield *_span(following), names[-1]  # of two variables the second is called; this stands in its place
        elif len(names) == 2 and following is not None and following.opname in _ATTRIBUTES:
            line, column = _span(following)[0]  # where the second begins
            yield (line, column), (line, column + len(names[1].name.encode())), names[1]
        if names:
            yield start, end, names[0]
        elif instruction.opname == "BINARY_SUBSCR" or instruction.argrepr == "[]":
            yield start, end, _Step("item", tuple(before)) if len(before) == 1 else _ANYTHING
        elif instruction.opname not in _SILENT and instruction.opname not in _CONSTANTS:
            yield start, end, _Step("?", instruction.argval if instruction.opname == "LOAD_SUPER_ATTR" else "")
        before = [_Step("constant", instruction.argval)] if instruction.opname in _CONSTANTS else names


def _ways(
    instructions: Sequence[dis.Instruction], spans: Sequence[Span], loaded: Sequence[list[_Step]]
) -> Iterator[tuple[Position, Way]]:
    """The values that are loaded by names and attributes of these, with their beginnings."""
    start: Position = _NOWHERE
    way: list[_Step] = []
    second = False  # whether it is the second of two variables, whose position only an attribute of it tells
    for instruction, (here, _), names in zip(instructions, spans, loaded, strict=True):
        if names and names[0].kind == "attribute" and way:
            start, way, second = here if second else start, [*way, *names], False
        elif instruction.opname not in _SILENT:
            if way:
                yield start, tuple(way)
            start, way = here, [step for step in names[-1:] if step.kind != "attribute"]
            second = len(names) == 2
            if len(names) == 2:
                yield start, (names[0],)


def _names(instruction: dis.Instruction) -> list[_Step]:
    """The name or attribute that an instruction loads, or the two names."""
    name, kind = instruction.argval, instruction.opname
    if kind in _GLOBALS:
        return [_Step("global", name)]
    if kind in _CELLS:
        return [_Step("local", name)]
    if kind in _ATTRIBUTES:
        return [_Step("attribute", name)]
    if "LOAD_FAST" not in kind:
        return []
    if kind == "STORE_FAST_LOAD_FAST":
        name = name[1:]
    return [_Step("local", each) for each in (name if isinstance(name, tuple) else (name,))]


def _span(instruction: dis.Instruction) -> Span:
    at = instruction.positions
    if at is None or at.lineno is None:
        return _NOWHERE, _NOWHERE
    if at.col_offset is None or at.end_lineno is None or at.end_col_offset is None:
        return (at.lineno, -1), _NOWHERE
    return (at.lineno, at.col_offset), (at.end_lineno, at.end_col_offset)
