"""What a code object reads and assigns by name, as its instructions say."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType

from ..tape.operations import Site, site_of
from . import impure
from .operands import ANYTHING, LOCAL, Pair, compared, is_subscript

# What gives an object's address, or a text, a number or an order that is made of it.
_ADDRESSES = frozenset([
    "id", "hash", "repr", "ascii", "str", "format", "set", "frozenset", "__hash__", "__repr__", "__str__", "__format__",
])  # fmt: skip
_OF_ADDRESSES = {
    **dict.fromkeys(["FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"], "format"),
    **dict.fromkeys(["BUILD_SET", "SET_ADD"], "set"),
}
TELLING = frozenset(["id", "hash", "__hash__", "repr", "__repr__", "ascii"])  # of these, what has no other use
_LOAD_NAME, _LOAD_GLOBAL, _EXTENDED = (dis.opmap[name] for name in ("LOAD_NAME", "LOAD_GLOBAL", "EXTENDED_ARG"))
MAX_KNOWN = 4096  # code objects whose names are remembered
GROWING = frozenset(["append", "extend", "appendleft", "extendleft"])  # methods of lists and deques
_NAMES = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_ATTR"])
_FAST = re.compile(r"(?:LOAD|STORE)_FAST(?:_BORROW)?")
_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM")
_ANY = frozenset(["getattr", "vars", "__dict__", "__reduce_ex__", "__getstate__"])
_FORMAT = re.compile(r"\{\w*[.[]")  # a text that reads attributes or items: "{0.name}"
_PERCENT = re.compile(r"%[-#0-9. ]*[sra]")  # a text into which objects are put: "%s"


@dataclass(slots=True)
class Names:
    """Names in the order of the instructions, with the lines that read them; ``problems`` are what cannot be followed.

    ``of_globals`` are attributes of what a global name stands for, ``attributes`` those of anything else; ``asked`` are
    those of which ``hasattr`` is asked. Those of ``stored_globals`` and ``stored_attributes`` are assigned; ``rebound``
    are the names of all kinds that are, but for local ones, ``"[]"`` among them if items are; ``grown`` are likewise
    those of what something is appended to, in the same expression. ``sets_errors`` tells whether ``np.errstate`` or its
    like is among them, ``identities`` whether objects are compared by identity (not with a constant; ``compared`` is
    what, if it may be traced, by offsets; -1 for ``operator.is_``), ``truths`` whether something is that may be True or
    False; ``addresses`` are those by which it may be asked for what depends on where an object lies in memory.
    """

    globals: dict[str, Site] = field(default_factory=dict)
    of_globals: dict[tuple[str, str], Site] = field(default_factory=dict)
    stored_globals: dict[str, Site] = field(default_factory=dict)
    attributes: dict[str, Site] = field(default_factory=dict)
    asked: dict[str, Site] = field(default_factory=dict)
    stored_attributes: dict[str, Site] = field(default_factory=dict)
    rebound: set[str] = field(default_factory=set)
    grown: set[str] = field(default_factory=set)
    imports: list[str] = field(default_factory=list)
    sets_errors: bool = False
    identities: bool = False
    compared: dict[int, Pair] = field(default_factory=dict)
    truths: bool = False
    addresses: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def mentions(code: CodeType, name: str) -> bool:
    """Whether a code object, or one nested in it, loads a global name for anything else than to call it."""
    if name in code.co_names:
        number, extended = code.co_names.index(name), 0
        for op, argument in zip(code.co_code[::2], code.co_code[1::2], strict=True):
            if op == _LOAD_NAME or (op == _LOAD_GLOBAL and (extended | argument) == number << 1):  # | 1: to be called
                return True
            extended = (extended | argument) << 8 if op == _EXTENDED else 0
    return any(mentions(part, name) for part in code.co_consts if isinstance(part, CodeType))


_known: dict[int, tuple[CodeType, Names]] = {}  # by identity: equal code may stand in several files


def names_of(code: CodeType) -> Names:
    """What a code object reads and assigns; code nested in it is left out."""
    known = _known.get(id(code))
    if known is None:
        while len(_known) >= MAX_KNOWN:
            _known.pop(next(iter(_known)), None)
        known = _known[id(code)] = code, _read(code)
    return known[1]


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """The instructions; those that load or store two local variables (from Python 3.13 on) as two."""
    for instruction in dis.get_instructions(code):
        if "FAST" in instruction.opname and isinstance(instruction.argval, tuple):
            for kind, name in zip(_FAST.findall(instruction.opname), instruction.argval, strict=True):
                instruction = instruction._replace(opname=kind, opcode=dis.opmap[kind], argval=name)
                yield instruction
                instruction = instruction._replace(label=None)  # type: ignore[call-arg] # nothing jumps in between
        else:
            yield instruction


def _read(code: CodeType) -> Names:
    names, of = Names(), ""  # the global name that the instruction before has loaded
    constant, nothing = False, False  # whether it has loaded a constant, or None
    instructions = [*_instructions(code)]
    texts = [text for text in code.co_consts if isinstance(text, str)]
    names.addresses |= {"format" for text in texts if _PERCENT.search(text)}
    for i, instruction in enumerate(instructions):
        name, at, kind = instruction.argval, instruction.positions, instruction.opname
        site = site_of(code, at.lineno if at is not None else None)
        if kind in ("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL", "STORE_SUBSCR"):
            names.rebound.add("[]" if kind == "STORE_SUBSCR" else name)
        if kind in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            names.globals.setdefault(name, site)
            if name == "hasattr" and not (asked := _last_argument(instructions[i:])):
                names.problems.append(f"{code.co_name} asks for attributes by names that vary ({site})")
            elif name == "hasattr":
                names.asked.setdefault(asked, site)
        elif kind in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            names.stored_globals.setdefault(name, site)
            if kind == "DELETE_GLOBAL":
                names.problems.append(f"{code.co_name} deletes the global name {name}")
        elif kind in _READS or kind == "STORE_ATTR":
            if name in GROWING and (before := instructions[i - 1]).opname in _NAMES:
                names.grown.add(before.argval)
            elif name in GROWING and is_subscript(before):
                names.grown.add("[]")
            if of and kind != "STORE_ATTR":
                names.of_globals.setdefault((of, name), site)
            else:
                (names.stored_attributes if kind == "STORE_ATTR" else names.attributes).setdefault(name, site)
            if what := impure.of_attribute(name, of_self=_is_of_self(instructions[i - 1])):
                names.problems.append(f"{code.co_name} {what} ({site}: .{name})")
            elif name == "__class__" and kind == "STORE_ATTR":
                names.problems.append(f"{code.co_name} changes the class of an object ({site})")
            elif name in ("__setattr__", "__delattr__"):
                names.stored_attributes.update((text, site) for text in texts if text.isidentifier())
            elif name == "format" and any(map(_FORMAT.search, texts)):
                names.problems.append(f"{code.co_name} reads what cannot be followed, in a text ({site}: .format)")
        elif kind in ("MATCH_CLASS", "MATCH_KEYS", "MATCH_MAPPING"):
            names.problems.append(f"{code.co_name} matches patterns on objects, which cannot be followed")
        elif kind == "IMPORT_NAME":
            names.imports.append("." * instructions[i - 2].argval + name)
        constant, nothing = constant and not instruction.is_jump_target, nothing and not instruction.is_jump_target
        names.identities |= (kind == "IS_OP" and not constant) or kind == "CONTAINS_OP"
        if kind == "IS_OP":
            pair = compared(instructions, i)
            names.compared |= {} if any(side.is_plain for side in pair) else {instruction.offset: pair}
        elif name in ("is_", "is_not"):  # of the module ``operator``
            names.compared[-1] = ANYTHING
            names.identities = names.truths = True
        names.truths |= kind == "IS_OP" and not nothing
        constant = kind == "LOAD_CONST"
        nothing = constant and name is None
        if kind in _OF_ADDRESSES or (kind != "LOAD_CONST" and name in _ADDRESSES):
            names.addresses.add(_OF_ADDRESSES.get(kind, name))
        names.sets_errors |= name in ("errstate", "seterr", "seterrcall")
        of = name if kind == "LOAD_GLOBAL" else ""
    return names


def only_grown(code: CodeType) -> frozenset[str]:
    """The parameters of a function of which it does nothing but append to them, or to items of them, if all of its
    parameters have names."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if code.co_flags & (CO_VARARGS | CO_VARKEYWORDS) or code.co_posonlyargcount:
        return frozenset()
    grown, others = set[str](), {*code.co_cellvars}
    instructions = [*_instructions(code)]
    for i, instruction in enumerate(instructions):
        if "FAST" in instruction.opname:
            appends = instruction.opname in LOCAL and _appends(instructions[i + 1 : i + 4])
            (grown if appends else others).add(instruction.argval)
    return frozenset(grown.intersection(names) - others)


def _appends(after: Sequence[dis.Instruction]) -> bool:
    """Whether instructions append to what was loaded before them, or to an item of it."""
    if len(after) == 3 and is_subscript(after[1]):
        after = after[2:] if after[0].opname == "LOAD_CONST" else ()
    return bool(after) and after[0].opname in _READS and after[0].argval in GROWING


def _is_of_self(before: dis.Instruction) -> bool:
    """Whether an attribute is one of the object of a method."""
    return before.opname in LOCAL and before.argval == "self"


def _last_argument(instructions: Sequence[dis.Instruction]) -> str:
    """The last argument of the call of what the first instruction loads, if it is a constant; otherwise nothing."""
    depth, text = 0, ""
    for instruction in instructions:
        if instruction.opcode in dis.hasjrel:
            return ""
        depth += dis.stack_effect(instruction.opcode, instruction.arg)
        if instruction.opname in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") and depth == 1:
            return text
        if instruction.opname not in ("PRECALL", "CACHE", "EXTENDED_ARG"):
            constant = instruction.argval if instruction.opname == "LOAD_CONST" else ""
            text = constant if isinstance(constant, str) else ""
    return ""


def reads_all(code: CodeType) -> bool:
    """Whether a library's code may read any attributes of its arguments."""
    return not _ANY.isdisjoint(code.co_names)


def copies(code: CodeType) -> bool:
    """Whether a library's code may copy all that an object holds."""
    return "__dict__" in code.co_names


def nested(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions that are written in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)
