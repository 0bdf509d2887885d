"""The guard function of a trace, written line by line while the trace runs."""

from __future__ import annotations

import reprlib
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, ModuleType, NoneType
from typing import Any, TypeAlias

import numpy as np
from numpy import inexact, number

from ..base.records import record
from ..base.refusal import Refusal
from ..registry.contents import fingerprint, is_still
from ..tape.operations import Site
from .kinds import is_of_library
from .slots import Slot

# Of the traced function, or another with the same code, and its arguments: its captured values as they are now, in the
# order of capture; ``Changed`` if something else that the trace has read has.
GuardFunction: TypeAlias = Callable[..., "tuple[Any, ...] | Changed"]

_NAMED = (type, ModuleType, FunctionType, BuiltinFunctionType)
_IMMUTABLE = (int, float, complex, str, bytes, tuple, np.generic)
_SHOWN = (*_IMMUTABLE, NoneType, EllipsisType, slice, range, Enum, np.ndarray, np.dtype)


@record()
class Line:
    """A line of the guard function, which asks a condition of a subject; or the subject is a local variable, and the
    line reads it."""

    subject: Slot
    condition: str = ""
    was: str = ""
    kind: type | None = None  # that of a number which may as well be an input of the program; of an object, its class
    minor: bool = False  # nothing that users would want to be told
    read: Slot | None = None

    def text(self, number: int = 0, end: str = "") -> str:
        """In Python; ``end`` is done where the condition does not hold."""
        if self.read is not None:
            return f"{self.subject} = {self.read}"
        return f"if not ({self.condition}): {end} changed({number}, {self.subject})"


@record(eq=False)
class Changed(Refusal):
    """Something that a trace has read is another now: the line that has found it, if there is one, and what it is."""

    line: Line | None
    value: Any

    def __str__(self) -> str:
        line, value = self.line, self.value
        if line is None:
            return f"it can no longer be asked whether what it reads is the same ({value!r})"
        if isinstance(value, Exception) or not line.was:
            return f"{line.subject.words} cannot be read any more ({type(value).__name__}: {value})"
        now = in_words(value)
        return f"{line.subject.words} was {line.was}, and is {'another one' if now == line.was else now}"

    def numbers(self) -> list[tuple[str, type]]:
        """The path and type of a number or object that still is one of the type, but another, if it is one."""
        line = self.line
        return [(line.subject.words, line.kind)] if line is not None and line.kind is type(self.value) else []


class Guards:
    """Lines of Python that read again what a trace has read, and find out whether it is still the same.

    Values that a line compares with are *constants* of the function (``k0``, ``k1``, …), what it reads are *locals*
    (``v1``, ``v2``, …). ``captured`` are the captured values, in the order of capture.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.captured: list[Slot] = []
        self.numbers: dict[Slot, Any] = {}  # that are read and do not vary, and how
        self.lines: list[Line] = []
        self._namespace: dict[str, Any] = {}  # keeps the constants alive, so that their ids stay their own
        self._constants: dict[int, Slot] = {}

    # -- names

    def constant(self, value: Any, words: str = "") -> Slot:
        """A value that is known; the same slot for the same object."""
        return self._constants.get(id(value)) or self._constant(value, value, words)

    def reference(self, value: Any, words: str = "") -> Slot:
        """An object that the guard does not keep alive; it is ``None`` when the object is gone."""
        known = self._constants.get(id(value))
        if known is not None:
            return known
        try:
            reference = weakref.ref(value)
        except TypeError:
            return self._constant(value, value, words)
        name = self._constant(value, reference, words)
        self._constants[id(value)] = called = Slot(f"{name}()", name.words)
        return called

    def _constant(self, value: Any, kept: Any, words: str) -> Slot:
        name = f"k{len(self._namespace)}"
        self._namespace[name] = kept
        words = words or (in_words(value) if isinstance(value, _NAMED) else "")
        slot = self._constants[id(value)] = Slot(name, words, fixed=True)
        return slot

    def knows(self, value: Any) -> bool:
        """Whether a value is one of the constants."""
        return id(value) in self._constants

    def local(self, slot: Slot, words: str = "", site: Site | None = None) -> Slot:
        """What is read now, under a name."""
        self.reads += 1
        local = Slot(f"v{self.reads}", words or slot.words, site or slot.site)
        self.lines.append(Line(local, read=slot))
        return local

    # -- conditions

    def require(
        self, condition: str, subject: Slot, was: str, *, kind: type | None = None, minor: bool = False
    ) -> None:
        """The trace holds only under this condition."""
        self.lines.append(Line(subject, condition, was, kind, minor))

    def require_is(self, slot: Slot, value: Any, *, minor: bool = False) -> None:
        """The trace holds only if this is still the same object."""
        self.require(f"{slot} is {self.constant(value)}", slot, in_words(value), minor=minor)

    def require_same(self, slot: Slot, known: Slot) -> None:
        """The trace holds only if these two are still one object."""
        self.require(f"{slot} is {known}", slot, f"the same as {known.words}")

    def require_type(self, slot: Slot, cls: type, *, minor: bool = True) -> None:
        """The trace holds only if this is still of the type."""
        was = self.constant(cls, cls.__name__)
        self.require(f"type({slot}) is {was}", slot, f"a {cls.__name__}", minor=minor)

    def require_object(self, slot: Slot, value: Any, *, kind: type | None = None, minor: bool = False) -> None:
        """``require_is`` for an object that may be gone one day; others of its class, ``kind``, may take its place."""
        known = self.reference(value, slot.words)
        self.require(f"{slot} is {known} is not None", slot, in_words(value), kind=kind, minor=minor)

    def require_different(self, slots: Sequence[Slot], was: str) -> None:
        """The trace holds only if these are still as many objects."""
        if len(slots) > 1:
            self.require(f"len({ids_of(slots)}) == {len(slots)}", slots[0], was)

    def require_equal(self, slot: Slot, value: Any, *, kind: type | None) -> None:
        """``require_is``, or an equal number or string of the same type; NaN and ±0.0 equal by their digits only."""
        if isinstance(value, int | float | complex | number):
            self.numbers[slot] = value
        constant, cls = self.constant(value), self.constant(type(value))
        condition = f"{slot} is {constant}"
        if isinstance(value, int | str | bytes | float | number):
            condition += f" or (type({slot}) is {cls} and {slot} == {constant})"
        if isinstance(value, float | complex | inexact) and (value != value or value == 0):
            digits = self.constant(repr(value))
            condition = f"type({slot}) is {cls} and repr({slot}) == {digits}"
        self.require(condition, slot, reprlib.repr(value), kind=kind)

    def require_contents(self, slot: Slot, value: Any) -> bool:
        """The trace holds only if an object of a library is of the class and depends on the same; tells whether that
        can be compared."""
        if (found := fingerprint(value)) is None:
            return False
        self.require_type(slot, type(value))
        same, known = self.constant(is_still), self.constant(found)
        self.require(f"{same}({slot}, {known})", slot, f"a {type(value).__name__} of certain contents")
        return True

    # -- the whole

    def function(self) -> GuardFunction:
        """The guard function of what has been written so far."""
        captured = "".join(f"c{k}, " for k in range(len(self.captured)))
        guard: GuardFunction = self.entry("guard(f, args=(), kwargs=None)", [], [f"return ({captured})"])
        return guard

    def entry(self, signature: str, before: Sequence[str], after: Sequence[str], **names: Any) -> Any:
        """A function that returns ``Changed`` unless everything is as it was; ``c0``, ``c1``, … are the captured
        values. ``before`` and ``after`` are lines of Python, in which the constants and ``names`` are known."""
        lines = [*(line.text(i, "return") for i, line in enumerate(self.lines)),
                 *(f"c{k} = {slot}" for k, slot in enumerate(self.captured))]
        stop = "except (KeyError, IndexError, AttributeError, ValueError, TypeError) as e:"
        failed = f" return changed(e.__traceback__.tb_lineno - {len(before) + 3}, e)"
        guarded = ["try:", *(f" {text}" for text in lines or ["pass"]), stop, failed]
        return self._compiled(signature, [*before, *guarded, *after], changed=self._changed, **names)

    def _compiled(self, signature: str, lines: Iterable[str], **names: Any) -> Any:
        namespace, name = self._namespace | names, signature.partition("(")[0]
        text = f"def {signature}:\n" + "".join(f" {line}\n" for line in lines)
        exec(_code(text, f"<yota_py {name}>"), namespace)
        return namespace[name]

    def _changed(self, number: int, value: Any) -> Changed:
        return Changed(self.lines[number] if number < len(self.lines) else None, value)

    def asks_the_same(self, other: Guards) -> bool:
        """Whether two traces have read the same things, and found the same."""
        mine, theirs = self._namespace, other._namespace
        return (
            self.captured == other.captured
            and len(self.lines) == len(other.lines)
            and all(a.text() == b.text() for a, b in zip(self.lines, other.lines, strict=True))
            and all(_same(value, theirs.get(name)) for name, value in mine.items())
        )

    def unknown_to(self, other: Guards) -> str:
        """What this trace has read and found, and the other one has not, in words; empty if there is nothing."""
        known = {(line.subject.words, line.was) for line in other.lines}
        for line in self.lines:
            words, site = line.subject.words, line.subject.site
            if line.was and not line.minor and (words, line.was) not in known:
                return f"{words} is {line.was}{f' ({site})' if site else ''}"
        return ""

    def changed_numbers(self, *call: Any) -> list[tuple[str, type]]:
        """The paths and types of all numbers and objects that still are of the type, but others."""
        found: list[tuple[str, type]] = []

        def changed(number: int, value: Any) -> None:
            found.extend(self._changed(number, value).numbers())

        lines = [*(line.text(i) for i, line in enumerate(self.lines)), "pass"]
        with suppress(Exception):  # what cannot be read any more ends the search
            self._compiled("changes(f, args, kwargs, seed)", lines, changed=changed)(*call)
        return found


@lru_cache(512)
def _code(text: str, name: str) -> CodeType:
    """Other functions have been guarded in the same words: constants have names."""
    return compile(text, name, "exec")


def ids_of(slots: Iterable[object]) -> str:
    """The identities of what is read, as a set."""
    return f"{{{', '.join(f'id({slot})' for slot in slots)}}}"


class _Briefly(reprlib.Repr):
    """Texts of objects whose own are no long ones, as those of pandas' tables are, which take milliseconds."""

    def repr_instance(self, x: Any, level: int) -> str:
        return super().repr_instance(x, level) if isinstance(x, _SHOWN) else f"an object of {type(x).__name__}"


_briefly = _Briefly()


def in_words(value: Any) -> str:
    """An object in a few words."""
    cls = type(value)
    if not is_of_library(cls):  # which may have a __repr__ of its own, or a __getattr__
        return f"an object of {cls.__name__}"
    asked = vars(value).get if isinstance(value, ModuleType) else partial(getattr, value)  # which may have __getattr__
    name = asked("__qualname__", None) or asked("__name__", None)
    if isinstance(name, str):
        return f"{value.__class__.__name__} {name}"
    return _briefly.repr(value)


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, _IMMUTABLE) and repr(a) == repr(b))
