"""What a code object reads and assigns by name, as its instructions say."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType

from .operations import Site, site_of

# Names whose use means that reads or answers cannot be followed.
_REFLECTION = frozenset(
    ["getattr", "globals", "vars", "locals", "eval", "exec", "__import__", "setattr", "delattr", "input"]
)
_UNTRACEABLE = {
    **dict.fromkeys(["__dict__", "__getattribute__", "attrgetter", "methodcaller"], "reads what cannot be followed"),
    **dict.fromkeys(["random", "default_rng", "RandomState", "Generator"], "draws random numbers"),
    **dict.fromkeys(["now", "utcnow", "today"], "asks for the time"),
    **dict.fromkeys(["environ", "getenv"], "asks for the environment"),
}
MAX_KNOWN = 4096  # code objects whose names are remembered
_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM")


@dataclass(slots=True)
class Names:
    """Names in the order of the instructions, with the lines that read them; ``problems`` are what cannot be followed.

    ``of_globals`` are attributes of what a global name stands for, ``attributes`` those of anything else. Those of
    ``stored_globals`` and ``stored_attributes`` are assigned; ``rebound`` are the names of all kinds that are, but for
    local ones, ``"[]"`` among them if items are. ``sets_errors`` tells whether ``np.errstate`` or its
    like is among them.
    """

    globals: dict[str, Site] = field(default_factory=dict)
    of_globals: dict[tuple[str, str], Site] = field(default_factory=dict)
    stored_globals: dict[str, Site] = field(default_factory=dict)
    attributes: dict[str, Site] = field(default_factory=dict)
    stored_attributes: dict[str, Site] = field(default_factory=dict)
    rebound: set[str] = field(default_factory=set)
    imports: list[str] = field(default_factory=list)
    sets_errors: bool = False
    problems: list[str] = field(default_factory=list)


_known: dict[int, tuple[CodeType, Names]] = {}  # by identity: equal code may stand in several files


def names_of(code: CodeType) -> Names:
    """What a code object reads and assigns; code nested in it is left out."""
    known = _known.get(id(code))
    if known is None:
        while len(_known) >= MAX_KNOWN:
            _known.pop(next(iter(_known)), None)
        known = _known[id(code)] = code, _read(code)
    return known[1]


def _read(code: CodeType) -> Names:
    names, of = Names(), ""  # the global name that the instruction before has loaded
    for instruction in dis.get_instructions(code):
        name, at, kind = instruction.argval, instruction.positions, instruction.opname
        site = site_of(code, at.lineno if at is not None else None)
        if kind in ("STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL", "STORE_SUBSCR"):
            names.rebound.add("[]" if kind == "STORE_SUBSCR" else name)
        if kind in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            names.globals.setdefault(name, site)
        elif kind in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            names.stored_globals.setdefault(name, site)
            if kind == "DELETE_GLOBAL":
                names.problems.append(f"{code.co_name} deletes the global name {name}")
        elif kind in _READS or kind == "STORE_ATTR":
            if of and kind != "STORE_ATTR":
                names.of_globals.setdefault((of, name), site)
            else:
                (names.stored_attributes if kind == "STORE_ATTR" else names.attributes).setdefault(name, site)
            if (what := _UNTRACEABLE.get(name)) is not None:
                names.problems.append(f"{code.co_name} {what} ({site}: .{name})")
        elif kind in ("MATCH_CLASS", "MATCH_KEYS", "MATCH_MAPPING"):
            names.problems.append(f"{code.co_name} matches patterns on objects, which cannot be followed")
        elif kind == "IMPORT_NAME":
            names.imports.append(name)
        names.sets_errors |= name in ("errstate", "seterr", "seterrcall")
        of = name if kind == "LOAD_GLOBAL" else ""
    return names


def is_reflection(name: str) -> bool:
    """Whether what a builtin function of this name reads cannot be followed."""
    return name in _REFLECTION


def nested(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions that are written in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)
