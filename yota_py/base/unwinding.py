"""What is changed for the time of a call only, and is changed back even if an exception comes between two bytecodes.

Such an exception (Ctrl-C, the end of a time limit) may arrive when something has been changed and no ``try`` has begun
that would change it back, or in the midst of a ``finally``. So whoever makes a change for a while notes it first; then
it happens; its end looks at what has happened, and may be repeated. What is noted when a call ends by an exception is
brought to its end by ``unwinding``.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial, wraps
from typing import Any, ClassVar, ParamSpec, TypeVar
from warnings import catch_warnings, simplefilter

import numpy as np

from . import locks

P = ParamSpec("P")
R = TypeVar("R")

ATTEMPTS = 100  # to bring to an end what is interrupted at it

# Of these a profile function hears nothing: it is told of functions in C, not of what a ``partial`` calls.
getprofile, setprofile = partial(sys.getprofile), partial(sys.setprofile)


class _State(threading.local):
    """What a thread is in the midst of: the traces in progress and the changes that are to be changed back, the latest
    last, how often patching is suspended, and how many calls of libraries are traced through.

    What can be of the class is: a trace hears of other threads' calls, also of those that a new thread's ``__init__``
    makes here, and reads ``unwatched`` at them.
    """

    suspended = 0
    through = 0
    hashes = 0  # so many have been asked of traced values
    untold = 0  # so many of the next outputs are known to whom they tell something
    hears = False  # whether exceptions in some frames are heard of
    every: Any = None  # what ``checkpoint`` says of loops
    ending: threading.Event | None = None  # what ends what this thread is at
    unwatched: AbstractContextManager[None] = nullcontext()  # what runs in its block is not the user's code
    profile: Any = None  # the profile function that hears of calls meanwhile
    # What runs in this one is a function with plain values, of which it is not known what else it does.
    heeding: Callable[[Any], AbstractContextManager[Any]] = nullcontext

    def __init__(self) -> None:
        self.traces: list[Any] = []
        self.changes: list[Passing] = []
        self.draws: list[Any] = []  # blocks that note them, and outputs

    def __reduce__(self) -> str:
        """That of the thread that unpickles."""
        return "state"


state = _State()


class Passing:
    """A change for the time of a block, in which each object is used once.

    ``end`` changes it back, whatever of ``begin`` has happened; it is called again if it was interrupted. What it has
    to know is noted when the object is made, or before it becomes true.
    """

    _at = 0

    def begin(self) -> Any:
        """Make the change; what it returns is what the block has."""

    def end(self) -> None:
        """Change it back."""

    def __enter__(self) -> Any:
        self._at = len(state.changes)
        state.changes.append(self)
        try:
            return self.begin()
        except BaseException:  # whatever it is, the block is not entered
            _end(self._at)
            raise

    def __exit__(self, *error: object) -> None:
        _end(self._at)

    def is_innermost(self) -> bool:
        """Whether all that was changed later has been changed back."""
        return state.changes[-1] is self


def _end(at: int) -> None:
    """Change back all that was changed since there were so many changes."""
    changes = state.changes
    while len(changes) > at:
        last = len(changes) - 1
        changes[last].end()
        del changes[last:]


class Holding(Passing):
    """A lock, held in the block, unless it cannot be had for so many seconds; the block has whether it is held. Who
    holds it already keeps it."""

    def __init__(self, lock: Any, seconds: float = -1.0) -> None:
        self._lock, self._seconds = lock, seconds
        self._is_held = lock._is_owned()

    def begin(self) -> bool:
        return self._is_held or self._lock.acquire(timeout=self._seconds)  # type: ignore[no-any-return]

    def end(self) -> None:
        if not self._is_held and self._lock._is_owned():
            self._lock.release()


class Quiet(Passing):
    """A block in which NumPy does not tell of overflow and the like; without ``warnings``, which belong to all threads,
    nobody warns of anything."""

    def __init__(self, *, warnings: bool = True) -> None:
        self._errors = np.errstate(all="ignore")
        self._filters = None if warnings else catch_warnings()

    def begin(self) -> None:
        self._errors.__enter__()
        if self._filters is not None:
            self._filters.__enter__()
            simplefilter("ignore")

    def end(self) -> None:
        if self._filters is not None:
            with suppress(AttributeError, RuntimeError):  # it was interrupted when nothing, or not all, had changed
                self._filters.__exit__(None, None, None)
        with suppress(TypeError, RuntimeError):  # it has not been entered, or has been left
            self._errors.__exit__(None, None, None)


class Warned(Passing):
    """A block in which warnings are kept, in a list that it has, and nobody else hears of them."""

    def __init__(self) -> None:
        self._filters = catch_warnings(record=True)

    def begin(self) -> Any:
        heard = self._filters.__enter__()
        simplefilter("always")
        return heard

    def end(self) -> None:
        with suppress(AttributeError, RuntimeError):  # as in ``Quiet``
            self._filters.__exit__(None, None, None)


class Apart(Passing):
    """A block with traces of its own, perhaps none: those around hear nothing of what is computed."""

    def __init__(self, traces: list[Any]) -> None:
        self._traces, self._others, self._every = traces, state.traces, state.every

    def begin(self) -> None:
        state.traces, state.every = self._traces, None

    def end(self) -> None:
        state.traces, state.every = self._others, self._every


class Uncollected(Passing):
    """A block in which Python's garbage collector does not run; blocks of several threads may overlap.

    It runs whatever finalizers and callbacks there are, at any moment: in a trace they would be taken for what the
    traced function does.
    """

    _blocks: ClassVar[set[Uncollected]] = set()
    _was_on: ClassVar[bool] = False

    def begin(self) -> None:
        with locks.tables:
            if not self._blocks:
                Uncollected._was_on = gc.isenabled()
            self._blocks.add(self)
            gc.disable()

    def end(self) -> None:
        with locks.tables:
            if self._blocks == {self} and self._was_on:
                gc.enable()
            self._blocks.discard(self)


def unwinding(function: Callable[P, R]) -> Callable[P, R]:
    """A function that leaves no change for the time of its call, and no lock held, when it raises an exception, or has
    caught one that came at the end of a block."""

    @wraps(function)
    def unwound(*args: P.args, **kwargs: P.kwargs) -> R:
        before = _Before()
        try:
            try:
                result = function(*args, **kwargs)
                if state.suspended != before.suspended or state.unwatched is not before.unwatched:
                    before.again()
                return result
            except BaseException:  # an interrupt, above all
                before.again()
                raise
        except BaseException:  # and perhaps a second one, before the first was seen to
            before.again()
            raise

    return unwound


def go_on() -> None:
    """Asked in what takes long: raises ``SystemExit`` in a thread that is to end."""
    if state.ending is not None and state.ending.is_set():
        raise SystemExit


def quietly(function: Callable[P, R]) -> Callable[P, R]:
    """A function that is called in a ``Quiet`` block."""

    @wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        with Quiet():
            return function(*args, **kwargs)

    return quiet


class _Before:
    """What a thread was in the midst of when a call began."""

    def __init__(self) -> None:
        self._changes, self._traces, self._locks = len(state.changes), len(state.traces), locks.held()
        self.suspended, self.unwatched, self.through = state.suspended, state.unwatched, state.through

    def again(self) -> None:
        """Let it be so again; further interrupts are too late."""
        late: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                return self._restore()
            except BaseException as error:  # what could not be changed back may be so the next time
                late = error
        del state.changes[self._changes :]
        self._restore()
        assert late is not None
        raise late

    def _restore(self) -> None:
        _end(self._changes)
        del state.traces[self._traces :]
        state.suspended, state.unwatched, state.through = self.suspended, self.unwatched, self.through
        locks.release_all_but(self._locks)


def at_once(*calls: partial[Any]) -> None:
    """Call functions in C one after the other; no interrupt comes in between, as that would be between two
    bytecodes."""
    deque(map(partial.__call__, calls), maxlen=0)
