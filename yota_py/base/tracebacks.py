"""Tracebacks as users want to read them: their own lines and those of libraries, without ours in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

from .ownership import PACKAGE, is_ours
from .settings import config
from .unwinding import state

P = ParamSpec("P")
R = TypeVar("R")


def fold(error: BaseException) -> None:
    """Take our own frames out of the traceback of an exception that leaves the library, and out of those of its causes
    and contexts; a context that has passed no other frames than ours is no business of the user's.

    Inside of a traced function the frames stay, as they tell whose exception it is. Called in ``except``, before a bare
    ``raise``, which adds no frame of its own.
    """
    if config.traceback == "full" or state.traces:
        return
    related = [*_related(error)]
    for each in related:
        while (context := each.__context__) is not None and context is not each.__cause__ and _is_ours_only(context):
            each.__context__ = context.__context__
    for each in related:
        each.__traceback__ = _without_ours(each.__traceback__)


def folded(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose exceptions are folded when they leave it. (A call of it costs one more: what is called often
    folds them by itself.)"""

    @wraps(function)
    def folding(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            fold(error)
            raise

    return folding


def _related(error: BaseException) -> Iterator[BaseException]:
    """An exception, its causes and contexts, and those in a group."""
    known: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        if (each := pending.pop()) is not None and id(each) not in known:
            known.add(id(each))
            yield each
            pending += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    kept = []
    while traceback is not None:
        if not _is_ours(traceback):
            kept.append(traceback)
        traceback = traceback.tb_next
    following: TracebackType | None = None
    for tb in reversed(kept):
        line: int | None = tb.tb_lineno  # of some bytecodes, at which an interrupt may come, there is none
        code = tb.tb_frame.f_code
        following = TracebackType(following, tb.tb_frame, tb.tb_lasti, code.co_firstlineno if line is None else line)
    return following


def _is_ours_only(error: BaseException) -> bool:
    """Whether an exception was raised and caught in our own code."""
    traceback = error.__traceback__
    if traceback is None:
        return False
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    return traceback is None


def _is_ours(traceback: TracebackType) -> bool:
    frame = traceback.tb_frame
    made = frame.f_code.co_filename.startswith(f"<{PACKAGE}") or frame.f_code.co_name == f"<{PACKAGE}>"
    return made or is_ours(frame)
