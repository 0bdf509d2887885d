"""The locks of the process, in the order in which a thread that needs several takes them.

A process is forked while the thread that forks it holds all of them: the child, which has no other thread, finds them
free and what they guard whole.
"""

from __future__ import annotations

import logging  # noqa: F401 # what it does at a fork is noted before what is done here, which waits for who may import it
import os
import threading
from time import monotonic
from typing import Any

FORK_SECONDS = 10.0  # how long in all a fork waits for what other threads are doing

compiling = threading.RLock()  # one thread at a time makes programs, and lets others give way
tracing = threading.RLock()  # one thread at a time has stand-ins and tracers in name spaces that threads share
kernels = threading.RLock()  # which machine code there is, while it is made
tables = threading.RLock()  # what changes as a whole: tapes, stand-ins, classes of containers, switches
IN_ORDER: tuple[Any, ...] = (compiling, tracing, kernels, tables)


class _Fork(threading.local):
    """Per thread: what the fork in progress has taken."""

    def __init__(self) -> None:
        self.taken: list[Any] = []


_fork = _Fork()


def _before() -> None:
    end = monotonic() + FORK_SECONDS
    _fork.taken = [lock for lock in IN_ORDER if lock.acquire(timeout=max(0.0, end - monotonic()))]


def _in_parent() -> None:
    for lock in reversed(_fork.taken):
        lock.release()


def _in_child() -> None:
    for lock in IN_ORDER:
        if lock not in _fork.taken:  # it belongs to a thread that the child does not have
            lock._at_fork_reinit()
    _in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def held() -> list[Any]:
    """The locks that this thread holds."""
    return [lock for lock in IN_ORDER if lock._is_owned()]


def release_all_but(kept: list[Any]) -> None:
    """Let go of all locks that this thread holds, but for some."""
    for lock in IN_ORDER:
        while lock not in kept and lock._is_owned():
            lock.release()
