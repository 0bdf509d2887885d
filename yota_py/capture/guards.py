"""The guard function of a trace, written line by line while the trace runs."""

from __future__ import annotations

import re
import reprlib
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from ..base.refusal import Refusal
from ..tape.operations import Site
from .kinds import is_of_library

# Of the traced function, or another with the same code, and its arguments: its captured values as they are now, in the
# order of capture; ``Changed`` if something else that the trace has read has.
GuardFunction: TypeAlias = Callable[..., "tuple[Any, ...] | Changed"]

_NAMES = re.compile(r"\b[kv]\d+\b(\(\))?")
_LOCAL = re.compile(r"\bv\d+\b")
_ITEMS = re.compile(r"\.__dict__\['(\w+)'\]")
_IMMUTABLE = (int, float, complex, str, bytes, tuple, np.generic)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the guard function; for conditions, what it asks: ``subject`` is what ``was`` says."""

    text: str
    subject: str
    was: str = ""
    site: Site | None = None
    kind: type | None = None  # that of a number which may as well be an input of the program; of an object, its class
    minor: bool = False  # nothing that users would want to be told


@dataclass(frozen=True, slots=True, eq=False)
class Changed(Refusal):
    """Something that a trace has read is another now: the line that has found it, if there is one, and what it is."""

    line: Line | None
    value: Any

    def __str__(self) -> str:
        line, value = self.line, self.value
        if line is None:
            return f"it can no longer be asked whether what it reads is the same ({value!r})"
        if isinstance(value, Exception) or not line.was:
            return f"{line.subject} cannot be read any more ({type(value).__name__}: {value})"
        now = in_words(value)
        return f"{line.subject} was {line.was}, and is {'another one' if now == line.was else now}"

    def numbers(self) -> list[tuple[str, type]]:
        """The path and type of a number or object that still is one of the type, but another, if it is one."""
        line = self.line
        return [(line.subject, line.kind)] if line is not None and line.kind is type(self.value) else []


class Guards:
    """Lines of Python that read again what a trace has read, and find out whether it is still the same.

    Values that a line compares with are *constants* of the function (``k0``, ``k1``, …), what it reads are *locals*
    (``v1``, ``v2``, …). Each has a *path*, its name in the user's words. ``captured`` are the expressions of captured
    values, in the order of capture.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.captured: list[str] = []
        self.numbers: dict[str, Any] = {}  # that are read and do not vary, and how
        self.lines: list[Line] = []
        self._namespace: dict[str, Any] = {}  # keeps the constants alive, so that their ids stay their own
        self._constants: dict[int, str] = {}
        self._paths: dict[str, str] = {}
        self._sites: dict[str, Site | None] = {}

    # -- names

    def constant(self, value: Any, path: str = "") -> str:
        """An expression for a value; the same for the same object."""
        return self._constants.get(id(value)) or self._constant(value, value, path)

    def reference(self, value: Any, path: str = "") -> str:
        """An expression for an object that the guard does not keep alive; it is ``None`` when the object is gone."""
        known = self._constants.get(id(value))
        if known is not None:
            return known
        try:
            reference = weakref.ref(value)
        except TypeError:
            return self._constant(value, value, path)
        expression = self._constants[id(value)] = f"{self._constant(value, reference, path)}()"
        return expression

    def _constant(self, value: Any, kept: Any, path: str) -> str:
        name = self._constants[id(value)] = f"k{len(self._constants)}"
        self._namespace[name] = kept
        if path:
            self._paths[name] = path
        return name

    def knows(self, value: Any) -> bool:
        """Whether a value is one of the constants."""
        return id(value) in self._constants

    def local(self, expression: str, path: str = "", site: Site | None = None) -> str:
        """A name for what is read now."""
        self.reads += 1
        name = f"v{self.reads}"
        self._paths[name] = path or self.path(expression)
        if site is None and (inside := _NAMES.match(expression)) is not None:
            site = self._sites.get(inside[0])
        self._sites[name] = site
        self.lines.append(Line(f"{name} = {expression}", self._paths[name], site=site))
        return name

    def path(self, expression: str) -> str:
        """What an expression reads, in the user's words."""
        return _ITEMS.sub(r".\1", _NAMES.sub(self._word, expression))

    def _word(self, found: re.Match[str]) -> str:
        name = found[0].removesuffix("()")
        if name not in self._paths:  # a constant: an object of the user's, or a value
            self._paths[name] = in_words(self._namespace[name])
        return self._paths[name]

    def site(self, expression: str) -> Site | None:
        """Where the user's code reads it."""
        return self._sites.get(expression)

    # -- conditions

    def require(
        self, condition: str, expression: str, was: str, *, kind: type | None = None, minor: bool = False
    ) -> None:
        """The trace holds only under this condition on what an expression reads."""
        line = f"if not ({condition}): return changed({len(self.lines)}, {expression})"
        self.lines.append(Line(line, self.path(expression), was, self.site(expression), kind, minor))

    def require_is(self, expression: str, value: Any, *, minor: bool = False) -> None:
        """The trace holds only if this is still the same object."""
        self.require(f"{expression} is {self.constant(value)}", expression, in_words(value), minor=minor)

    def require_object(self, expression: str, value: Any, *, kind: type | None = None, minor: bool = False) -> None:
        """``require_is`` for an object that may be gone one day; others of its class, ``kind``, may take its place."""
        known = self.reference(value, self.path(expression))
        self.require(f"{expression} is {known} is not None", expression, in_words(value), kind=kind, minor=minor)

    def require_different(self, expressions: Sequence[str], was: str) -> None:
        """The trace holds only if these are still as many objects."""
        if len(expressions) > 1:
            different = f"len({{{', '.join(f'id({x})' for x in expressions)}}}) == {len(expressions)}"
            self.require(different, expressions[0], was)

    def require_equal(self, expression: str, value: Any, *, kind: type | None) -> None:
        """``require_is``, or an equal number or string of the same type; NaN and ±0.0 equal by their digits only."""
        if isinstance(value, int | float | complex | np.number):
            self.numbers[expression] = value
        constant, cls = self.constant(value), self.constant(type(value))
        condition = f"{expression} is {constant}"
        if isinstance(value, int | str | bytes | float | np.number):
            condition += f" or (type({expression}) is {cls} and {expression} == {constant})"
        if isinstance(value, float | complex | np.inexact) and (value != value or value == 0):
            digits = self.constant(repr(value))
            condition = f"type({expression}) is {cls} and repr({expression}) == {digits}"
        self.require(condition, expression, reprlib.repr(value), kind=kind)

    # -- the whole

    def reads_of(self, text: str) -> list[str]:
        """The lines that read what the locals in these lines of Python stand for."""
        wanted, lines = set(_LOCAL.findall(text)), []
        for line in reversed(self.lines):
            name, equals, expression = line.text.partition(" = ")
            if equals and name in wanted:
                wanted.update(_LOCAL.findall(expression))
                lines.append(line.text)
        return lines[::-1]

    def compiled(self, name: str, text: str, **names: Any) -> Any:
        """What ``text`` defines under ``name``, where the constants have their names, and others these."""
        namespace = self._namespace | names
        exec(compile(text, f"<yota_py {name}>", "exec"), namespace)
        return namespace[name]

    def function(self) -> GuardFunction:
        """The guard function of what has been written so far."""
        last = f"return ({''.join(f'{expression}, ' for expression in self.captured)})"
        lines = "".join(f"  {text}\n" for text in [*(line.text for line in self.lines), last])
        text = f"def guard(f, args=(), kwargs=None):\n try:\n{lines}"
        text += " except (KeyError, IndexError, AttributeError, ValueError, TypeError) as e:\n"
        text += "  return changed(e.__traceback__.tb_lineno - 3, e)\n"
        return self.compiled("guard", text, changed=self._changed)  # type: ignore[no-any-return]

    def _changed(self, number: int, value: Any) -> Changed:
        return Changed(self.lines[number] if number < len(self.lines) else None, value)

    def asks_the_same(self, other: Guards) -> bool:
        """Whether two traces have read the same things, and found the same."""
        mine, theirs = self._namespace, other._namespace
        return (
            self.captured == other.captured
            and len(self.lines) == len(other.lines)
            and all(a.text == b.text for a, b in zip(self.lines, other.lines, strict=True))
            and all(_same(mine[name], theirs.get(name)) for name in self._names())
        )

    def unknown_to(self, other: Guards) -> str:
        """What this trace has read and found, and the other one has not, in words; empty if there is nothing."""
        known = {(line.subject, line.was) for line in other.lines}
        news = (line for line in self.lines if line.was and not line.minor and (line.subject, line.was) not in known)
        return next((f"{line.subject} is {line.was}{f' ({line.site})' if line.site else ''}" for line in news), "")

    def _names(self) -> list[str]:
        return [expression.removesuffix("()") for expression in self._constants.values()]

    def changed_numbers(self, *call: Any) -> list[tuple[str, type]]:
        """The paths and types of all numbers and objects that still are of the type, but others."""
        text = "".join(f" {line.text.replace('return changed(', 'changed(', 1)}\n" for line in self.lines)
        found: list[tuple[str, type]] = []
        with suppress(Exception):  # what cannot be read any more ends the search
            changes = self.compiled("changes", f"def changes(changed, f, args, kwargs, seed):\n{text} pass\n")
            changes(lambda number, value: found.extend(self._changed(number, value).numbers()), *call)
        return found


def in_words(value: Any) -> str:
    """An object in a few words."""
    cls = type(value)
    if not is_of_library(cls):  # which may have a __repr__ of its own, or a __getattr__
        return f"an object of {cls.__name__}"
    asked = vars(value).get if isinstance(value, ModuleType) else partial(getattr, value)  # which may have __getattr__
    name = asked("__qualname__", None) or asked("__name__", None)
    return f"{value.__class__.__name__} {name}" if isinstance(name, str) else reprlib.repr(value)


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, _IMMUTABLE) and repr(a) == repr(b))
