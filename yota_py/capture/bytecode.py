"""What a code object reads and assigns by name, and compares by identity (``x is y``), as its instructions say.

Of most comparisons they tell of one side that it is nothing that is traced: ``x is None``, ``type(x) is cls``,
``get(key) is MISSING``. Names, attributes and items can be looked up in the moment of the comparison.
"""

from __future__ import annotations

import builtins
import dis
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from enum import Enum, EnumMeta, auto
from inspect import CO_VARARGS, CO_VARKEYWORDS, getattr_static
from itertools import accumulate
from types import CodeType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

from ..base.dispatch import is_traced
from ..base.instructions import by_code, instructions_of
from ..base.records import record
from ..tape.operations import Site, site_of
from .kinds import problem_of_attribute


class Origin(Enum):
    """What a side of a comparison begins with."""

    ANYHOW, CONSTANT, LOCAL, CELL, GLOBAL, TYPE = (auto() for _ in range(6))


# What gives an object's address, or a text, a number or an order that is made of it.
_ADDRESSES = frozenset([
    "id", "hash", "repr", "ascii", "str", "format", "set", "frozenset", "__hash__", "__repr__", "__str__", "__format__",
])  # fmt: skip
_OF_ADDRESSES = {
    **dict.fromkeys(["FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"], "format"),
    **dict.fromkeys(["BUILD_SET", "SET_ADD"], "set"),
}
TELLING = frozenset(["id", "hash", "__hash__", "repr", "__repr__", "ascii"])  # of these, what has no other use
GROWING = frozenset(["append", "extend", "appendleft", "extendleft"])  # methods of lists and deques
_NAMES = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_ATTR"])
_FAST = re.compile(r"(?:LOAD|STORE)_FAST(?:_BORROW)?")
_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM")
# With one of these a library's code may read any attributes of its arguments.
_OF_PYTEST = "@py_builtins"  # read where an assert statement has failed, to say so: no user can write such a name
ANY = frozenset(["getattr", "vars", "__dict__", "__reduce_ex__", "__getstate__"])
_FORMAT = re.compile(r"\{\w*[.[]")  # a text that reads attributes or items: "{0.name}"
_PERCENT = re.compile(r"%[-#0-9. ]*[sra]")  # a text into which objects are put: "%s"
LOCAL = frozenset(["LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"])
_CONSTANTS = frozenset(["LOAD_CONST", "LOAD_CONST_IMMORTAL", "LOAD_SMALL_INT"])
_KINDS = {"LOAD_DEREF": Origin.CELL, "LOAD_GLOBAL": Origin.GLOBAL}
_ORDINARY: tuple[Any, ...] = (object.__getattribute__, type.__getattribute__, ModuleType.__getattribute__)
_JUMPS = frozenset([*dis.hasjrel, *dis.hasjabs])


class Side(NamedTuple):
    """One side of a comparison: the ``value`` of a constant, what a ``name`` stands for, or what ``name``, which should
    be ``type``, gives. ``path`` are attributes (texts) and items (tuples of a key) of what a name stands for."""

    kind: Origin = Origin.ANYHOW
    name: str = ""
    value: Any = None
    path: tuple[str | tuple[Any], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether nothing that is traced can be the same object."""
        return self.kind is Origin.CONSTANT and type(self.value) not in (int, float, complex)

    def found(self, namespace: Mapping[str, Any], local: Mapping[str, Any]) -> Any:
        """What this is now, or an object that is no less: some class for a class; ``UNKNOWN`` if that cannot be told
        without running code of the user's."""
        value = UNKNOWN
        if self.kind is Origin.CONSTANT:
            value = self.value
        elif self.kind is Origin.LOCAL or self.kind is Origin.CELL:
            value = local.get(self.name, UNKNOWN)
        elif self.kind is not Origin.ANYHOW:
            value = namespace.get(self.name, getattr(builtins, self.name, UNKNOWN))
        if self.kind is Origin.TYPE:
            return value if isinstance(value, type) and issubclass(value, type) else UNKNOWN
        for key in self.path:
            value = _attribute(value, key) if isinstance(key, str) else _item(value, *key)
        return value


Pair = tuple[Side, Side]
UNKNOWN = object()
ANYTHING: Pair = Side(), Side()
A_CLASS = Side(Origin.CONSTANT, value=type)


def _attribute(value: Any, name: str) -> Any:
    if value is UNKNOWN or is_traced(value) or type(value).__getattribute__ not in _ORDINARY:
        return UNKNOWN
    if isinstance(value, ModuleType):
        return vars(value).get(name, UNKNOWN)
    if isinstance(value, EnumMeta) and name in value.__members__:
        return value.__members__[name]
    found = getattr_static(value, name, UNKNOWN)
    if isinstance(found, MemberDescriptorType) and not isinstance(value, type):
        with suppress(AttributeError):
            return found.__get__(value)
    return UNKNOWN if hasattr(type(found), "__get__") else found


def _item(value: Any, key: Any) -> Any:
    is_in = type(key) is int and -len(value) <= key < len(value) if type(value) in (list, tuple) else (
        type(value) is dict and type(key) in (int, str) and key in value
    )
    return value[key] if is_in else UNKNOWN


@record(frozen=False)
class Names:
    """Names in the order of the instructions, with the lines that read them; ``problems`` are what cannot be followed.

    Global names that are ``mentioned`` are loaded for something else than to be called, or, as those of ``classes``, to
    ask whether something is an instance; ``of_globals`` are attributes of what a global name stands for, ``attributes``
    those of anything else; ``asked`` are those of which ``hasattr`` is asked; ``matched`` are global names of classes
    in patterns with positions. Those of ``stored_globals`` and ``stored_attributes`` are assigned; ``rebound``
    are the names of all kinds that are, but for local ones, ``"[]"`` among them if items are; ``grown`` are likewise
    those of what something is appended to, in the same expression. ``sets_errors`` tells whether ``np.errstate`` or its
    like is among them, ``identities`` whether objects are compared by identity (not with a constant; ``compared`` is
    what, if it may be traced, by offsets; -1 for ``operator.is_``), ``truths`` whether something is that may be True or
    False; ``addresses`` are those by which it may be asked for what depends on where an object lies in memory.
    """

    globals: dict[str, Site] = field(default_factory=dict)
    mentioned: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    of_globals: dict[tuple[str, str], Site] = field(default_factory=dict)
    stored_globals: dict[str, Site] = field(default_factory=dict)
    attributes: dict[str, Site] = field(default_factory=dict)
    asked: dict[str, Site] = field(default_factory=dict)
    stored_attributes: dict[str, Site] = field(default_factory=dict)
    rebound: set[str] = field(default_factory=set)
    grown: set[str] = field(default_factory=set)
    imports: list[str] = field(default_factory=list)
    matched: dict[str, Site | None] = field(default_factory=dict)
    sets_errors: bool = False
    identities: bool = False
    compared: dict[int, Pair] = field(default_factory=dict)
    truths: bool = False
    addresses: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


@by_code
def names_of(code: CodeType) -> Names:
    """What a code object reads and assigns; code nested in it is left out."""
    return _read(code)


def steps_of(code: CodeType) -> Iterator[dis.Instruction]:
    """The instructions; those that load or store two local variables (from Python 3.13 on) as two."""
    for instruction in instructions_of(code):
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
    instructions = [*steps_of(code)]
    texts = [text for text in code.co_consts if isinstance(text, str)]
    names.addresses |= {"format" for text in texts if _PERCENT.search(text)}
    questions = {_place(x) for x in instructions if x.opname == "LOAD_GLOBAL" and x.argval == "isinstance"} - {None}
    for i, instruction in enumerate(instructions):
        name, at, kind = instruction.argval, instruction.positions, instruction.opname
        site = site_of(code, at.lineno if at is not None else None)
        if kind in ("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL", "STORE_SUBSCR"):
            names.rebound.add("[]" if kind == "STORE_SUBSCR" else name)
        if kind in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            names.globals.setdefault(name, site)
            if kind == "LOAD_NAME" or (kind == "LOAD_GLOBAL" and not (instruction.arg or 0) & 1):
                asked_of = _is_asked_of(instructions, i, questions) or _is_matched(instructions, i)
                (names.classes if asked_of else names.mentioned).add(name)
            if name == "hasattr" and not (asked := _last_argument(_from(instructions, i))):
                names.problems.append(f"{code.co_name} asks for attributes by names that vary ({site})")
            elif name == "hasattr":
                names.asked.setdefault(asked, site)
        elif kind in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            names.stored_globals.setdefault(name, site)
            if kind == "DELETE_GLOBAL":
                names.problems.append(f"{code.co_name} deletes the global name {name}")
        elif kind in _READS or kind == "STORE_ATTR":
            before = instructions[i - 1]
            if name in GROWING and before.opname in _NAMES:
                names.grown.add(before.argval)
            elif name in GROWING and is_subscript(before):
                names.grown.add("[]")
            if of and kind != "STORE_ATTR":
                names.of_globals.setdefault((of, name), site)
            else:
                (names.stored_attributes if kind == "STORE_ATTR" else names.attributes).setdefault(name, site)
            of_self = before.opname in LOCAL and before.argval == "self"
            if of != _OF_PYTEST and (what := problem_of_attribute(name, of_self=of_self)):
                names.problems.append(f"{code.co_name} {what} ({site}: .{name})")
            elif name == "__class__" and kind == "STORE_ATTR":
                names.problems.append(f"{code.co_name} changes the class of an object ({site})")
            elif name in ("__setattr__", "__delattr__"):
                names.stored_attributes.update((text, site) for text in texts if text.isidentifier())
            elif name == "format" and any(map(_FORMAT.search, texts)):
                names.problems.append(f"{code.co_name} reads what cannot be followed, in a text ({site}: .format)")
        elif kind == "MATCH_CLASS":
            names.attributes |= dict.fromkeys(instructions[i - 1].argval, site)
            cls = instructions[i - 2].argval if _is_matched(instructions, i - 2) else None
            if instruction.arg and instructions[i - 2].opname == "LOAD_GLOBAL":
                names.matched.setdefault(str(cls), site)
            elif instruction.arg:
                names.problems.append(f"{code.co_name} matches objects by the positions of attributes ({site}), which "
                                      "can be followed for classes with global names. Write their names: Point(x=x)")
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


def _is_matched(instructions: Sequence[dis.Instruction], i: int) -> bool:
    """Whether what an instruction loads is the class of a pattern."""
    after = instructions[i + 1 : i + 3]
    return len(after) == 2 and after[0].opname == "LOAD_CONST" and after[1].opname == "MATCH_CLASS"


def only_grown(code: CodeType) -> frozenset[str]:
    """The parameters of a function of which it does nothing but append to them, or to items of them, if all of its
    parameters have names."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if code.co_flags & (CO_VARARGS | CO_VARKEYWORDS) or code.co_posonlyargcount:
        return frozenset()
    grown, others = set[str](), {*code.co_cellvars}
    instructions = [*steps_of(code)]
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


def _from(instructions: Sequence[dis.Instruction], i: int) -> Iterator[dis.Instruction]:
    """The instructions from that with number ``i`` on: of a long function, few of them are looked at."""
    return map(instructions.__getitem__, range(i, len(instructions)))


def _last_argument(instructions: Iterable[dis.Instruction]) -> str:
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


def _is_asked_of(instructions: Sequence[dis.Instruction], i: int, questions: Container[Any]) -> bool:
    """Whether what an instruction loads is the class that ``isinstance`` is asked of, or one in a tuple of them;
    ``questions`` are the places where that is loaded."""
    after = (x for x in _from(instructions, i + 1) if x.opname not in ("PRECALL", "CACHE", "EXTENDED_ARG"))
    others = list[dis.Instruction]()
    while (call := next(after, None)) is not None and _only_loads(call):
        others.append(call)
    if call is not None and (others or call.opname == "BUILD_TUPLE"):
        items = sum(x.opname not in _READS and not is_subscript(x) for x in others) + 1
        if call.opname != "BUILD_TUPLE" or (call.arg or 0) < items:
            return False
        call = next(after, None)
    return call is not None and call.opname == "CALL" and call.arg == 2 and _place(call) in questions


def _place(instruction: dis.Instruction) -> tuple[int | None, int | None] | None:
    """Line and column where the text of an instruction begins."""
    at = instruction.positions
    return None if at is None else (at.lineno, at.col_offset)


def nested(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions that are written in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


# -- what is compared


def compared(instructions: Sequence[dis.Instruction], i: int) -> Pair:
    """What the instruction with this number compares."""
    middle = _start(instructions, i)
    first = _start(instructions, middle)
    right = instructions[middle:i] if middle >= 0 else ()
    left = _side(instructions[first:middle]) if first >= 0 else Side()
    if (left.path or left.kind in (Origin.CELL, Origin.GLOBAL)) and not all(map(_only_loads, right)):
        left = Side()  # it may be something else by now
    elif left.kind is Origin.LOCAL and any(x.argval == left.name and not _only_loads(x) for x in right):
        left = Side()
    return left, _side(right) if right else Side()


def _only_loads(instruction: dis.Instruction) -> bool:
    return instruction.opname.startswith("LOAD_") or is_subscript(instruction)


def is_subscript(instruction: dis.Instruction) -> bool:
    """Whether an instruction gives an item of a container."""
    return instruction.opname == "BINARY_SUBSCR" or instruction.argrepr == "[]"


def _start(instructions: Sequence[dis.Instruction], end: int) -> int:
    """The number of the first of the instructions that leave one value to the one with number ``end``; -1 if they stand
    in no straight line: the value of ``x if c else y`` is made by one of two."""
    depth = 0
    while depth < 1:
        if end < 1 or instructions[end].is_jump_target or instructions[end - 1].opcode in _JUMPS:
            return -1
        end -= 1
        depth += _effect(instructions[end])
    return end if depth == 1 else -1


def _effect(instruction: dis.Instruction) -> int:
    argument = instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(instruction.opcode, argument, jump=False)


def _side(instructions: Sequence[dis.Instruction]) -> Side:
    """What these instructions leave on the stack, the last one of which makes it."""
    first, *others = [x for x in instructions if x.opname != "EXTENDED_ARG"]
    last = others[-1] if others else first
    if last.opname == "LOAD_ATTR" and last.argval == "__class__":
        return A_CLASS
    if last.opname == "CALL" and first.opname == "LOAD_GLOBAL" and first.argval == "type" and _is_call(first, others):
        return Side(Origin.TYPE, "type")
    if first.opname in _CONSTANTS and not others:
        return Side(Origin.CONSTANT, value=first.argval)
    kind = Origin.LOCAL if first.opname in LOCAL else _KINDS.get(first.opname)
    path = list[str | tuple[Any]]()
    while others:
        attribute = others.pop(0)
        if attribute.opname in _CONSTANTS and others and is_subscript(others.pop(0)):
            path.append((attribute.argval,))
        elif attribute.opname == "LOAD_ATTR":
            path.append(attribute.argval)
        else:
            return Side()
    return Side(kind, first.argval, path=tuple(path)) if kind is not None else Side()


def _is_call(first: dis.Instruction, others: Sequence[dis.Instruction]) -> bool:
    """Whether the last of some instructions calls what the first one has loaded: in ``type(x)(y)`` it does not."""
    depths = [*accumulate(map(_effect, others[:-1]), initial=_effect(first))]
    return min(depths) == 2  # the function, and the place for an object whose method it might have been
