"""Texts of traced values: decisions, as they may be compared; but for those that are made only to be printed or logged.

The code tells that an f-string goes into such a call and nowhere else. Then what it formats is noted, and the call
(``outputs.py``) gets a ``Text``, which is made anew of the values of each call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from ..base.callsites import called_name, called_with
from ..base.dispatch import original, shadow
from ..base.formatted import Formatted, f_strings
from ..base.impure import Text
from ..base.records import record
from ..base.unwinding import state

MAX_TEXTS = 64  # of traced values, of which it is asked whether they are printed
tellers: set[int] = set()  # the identities of functions that print or log what they are given


@record()
class Formatting:
    """``format`` with a specification."""

    spec: str

    def __call__(self, value: Any) -> str:
        return format(value, self.spec)


@record(eq=False)
class _Piece:
    """What is formatted for an f-string of this code, by the instruction at an offset."""

    code: CodeType
    offset: int
    of: Formatted
    tracer: Any
    test: Callable[[Any], str]
    text: str

    @property
    def template(self) -> str:
        """How it is made again, by ``str.format``."""
        if isinstance(self.test, Formatting):
            return f"{{:{self.test.spec}}}"
        return "{!r}" if self.test is repr else "{!s}"


def text_of(tracer: Any, test: Callable[[Any], str], frame: FrameType) -> str:
    """What ``test`` makes of a traced value for a frame: a decision, but for an f-string that is only told, for a
    ``print`` that nobody hears of and for a tracer that outlived its trace.

    Such a ``print`` shows as well the variable of a value that carries a derivative.
    """
    trace = tracer._ledger
    if not trace.alive:
        return test(shadow(tracer))
    if called_name(frame) == "print":
        trace.problems.append("it prints")
        return f"{test(shadow(tracer))} ({tracer._current()[0]})" if tracer._carries() else test(shadow(tracer))
    if state.traces and (found := _told(frame, test)) is not None:
        text = test(shadow(tracer))
        offset = f_strings(frame.f_code).instruction(frame.f_lasti)
        state.traces[0].texts.append(_Piece(frame.f_code, offset, found, tracer, test, text))
        return text
    return _decided(tracer, test)


def _decided(tracer: Any, test: Callable[[Any], str]) -> str:
    text: str = tracer._decide(test)
    if state.traces:
        state.traces[0].texts.append(text)
    return text


def _told(frame: FrameType, test: Callable[[Any], str]) -> Formatted | None:
    """The f-string for which a frame formats a value at the moment, if that is only told."""
    found = f_strings(frame.f_code).at(frame.f_lasti)
    if found is None or (isinstance(test, Formatting) and not {"{", "}"}.isdisjoint(test.spec)):
        return None
    call = called_with(frame, found.call)
    return found if call is not None and id(original(call.callee)) in tellers else None


def with_texts(args: tuple[Any, ...], frame: FrameType) -> tuple[Any, ...]:
    """The arguments of a call that a frame makes, with a ``Text`` for each that is one."""
    texts = state.traces[0].texts
    if not any(type(piece) is _Piece for piece in texts):
        return args
    call = f_strings(frame.f_code).instruction(frame.f_lasti)
    pieces = [x for x in texts if type(x) is _Piece and x.code is frame.f_code and x.of.call == call]
    texts[:] = [x for x in texts if type(x) is not _Piece or not (x.code is frame.f_code and x.of.call == call)]
    made = [*args]
    for position in {piece.of.position for piece in pieces}:
        by_offset = {piece.offset: piece for piece in pieces if piece.of.position == position}
        text = _made(args[position], by_offset) if position < len(args) and type(args[position]) is str else None
        if text is None:
            for piece in by_offset.values():
                _decided(piece.tracer, piece.test)
        else:
            made[position] = text
    return tuple(made)


def _made(text: str, pieces: dict[int, _Piece]) -> Text | None:
    """How a text is made of these pieces; ``None`` if it cannot be told where they are. What else is formatted in it is
    the same at each call."""
    parts = next(iter(pieces.values())).of.parts
    ways = []
    for gap in (".*?", ".*"):  # the shortest, and the longest
        pattern = "".join(f"({re.escape(part) if isinstance(part, str) else re.escape(pieces[part].text)})"
                          if isinstance(part, str) or part in pieces else f"({gap})" for part in parts)  # fmt: skip
        ways.append(re.fullmatch(pattern, text, re.DOTALL))
    if None in ways or ways[0].groups() != ways[1].groups():  # type: ignore[union-attr]
        return None
    template, values = "", []
    for part, found in zip(parts, ways[0].groups(), strict=True):  # type: ignore[union-attr]
        if isinstance(part, int) and part in pieces:
            template += pieces[part].template
            values.append(pieces[part].tracer)
        else:
            template += found.replace("{", "{{").replace("}", "}}")
    return Text(template, tuple(values))


def texts_known() -> list[str]:
    """The latest texts of traced values that are decisions."""
    return [text for text in state.traces[0].texts[-MAX_TEXTS:] if type(text) is str]
