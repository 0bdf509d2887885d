"""Compiling while calls go on interpreted: one thread, which takes one job after the other.

A call waits for it, but not for long. The two would take turns, so that waiting is mostly sooner than to go on; and
what is short is compiled by then.

The thread ends when there is nothing to do. It is a daemon: the process ends without what it is at, as soon as it asks
whether to go on; not while it is in machine code, which an exit would take from under it.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable

from ..base import locks
from ..base.settings import config
from ..base.unwinding import Holding, state, unwinding

PATIENCE = 0.5  # seconds that a call waits
Work = Callable[[], list[str]]


class Job:
    """Something to compile, and what has come of it."""

    def __init__(self, work: Work) -> None:
        self._work: Work | None = work
        self._ended = threading.Event()
        self._problems: list[str] = []
        self._error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        return self._work is None

    def wait(self) -> bool:
        """Wait for a result, but not for long; tells whether there is one."""
        return self.is_done or self._ended.wait(PATIENCE) or self.is_done

    def result(self) -> list[str]:
        """The reasons why there is no program; raises what the compiler has raised."""
        if self._error is not None:
            raise self._error
        return self._problems

    def run(self) -> None:
        """Do it, unless it has been given up by now."""
        with Holding(locks.compiling):
            if (work := self._work) is None:
                return
            try:
                self._problems = work()
            except SystemExit:
                pass
            except BaseException as error:  # whatever it is, the thread that wants the program is told
                self._error = error
            self.give_up()

    def give_up(self) -> None:
        """Do it no more."""
        self._work = None
        self._ended.set()


_waiting: deque[Job] = deque()
_taken: list[Job] = []  # the one that the thread is at
_threads: list[threading.Thread] = []  # one, or none
_ending = threading.Event()


def submit(work: Work) -> Job:
    """Have something compiled."""
    job = Job(work)
    with locks.tables:
        _waiting.append(job)
        thread = None if _threads else threading.Thread(target=_begin, name="yota_py compiles", daemon=True)
        _threads.extend([thread] if thread is not None else ())
    try:
        if thread is not None:
            thread.start()
    except RuntimeError:  # the process ends, or has as many threads as it may
        _compile_all()
    return job


def wait() -> None:
    """Until all is compiled."""
    for thread in [*_threads]:
        thread.join()


def _begin() -> None:
    state.ending = _ending
    _compile_all()


def _compile_all() -> None:
    while True:
        with locks.tables:
            _taken.clear()
            if not _waiting:
                _threads.clear()
                return
            _taken.append(_waiting.popleft())
        _run(_taken[0])


_run = unwinding(Job.run)


def _end() -> None:
    """At the end of the process: the thread is not to be in machine code when that goes."""
    config.background = False  # for what is still to be called
    _ending.set()
    for job in [*_waiting, *_taken]:
        job.give_up()
    wait()


def _forked() -> None:
    """The child of a fork has no such thread, and what it was at is compiled when it is asked for again."""
    for job in (*_waiting, *_taken):
        job.give_up()
    for known in (_waiting, _taken, _threads):
        known.clear()  # type: ignore[attr-defined]


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
