"""When to compile: the ski rental rule.

Interpreting is rent, compiling is buying. Who buys when the rent that was paid reaches the price pays at most twice of
what would have been best in hindsight (Karlin, Manasse, Rudolph, Sleator 1988, "Competitive snoopy caching").
"""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import cached_property
from time import perf_counter
from typing import Protocol

from ..base.settings import config
from ..engine.kernels.disk import is_filled
from .background import Job

TURNS, TURNS_SECONDS = 5000, 1.65e-4  # of a loop, and how long it took where the seconds below were measured
STARTUP_SECONDS, STARTUP_FROM_DISK = 0.35, 0.08  # the first program of a process: loading the compiler, or from disk
ON_DISK = 0.5  # what a first program costs besides, as others have left kernels for some of its operations
FIRST, REST = 50, 0.4  # operations that are likely to have new kernels, and what a further one costs beside them
MUCH_MEMORY = 2**25  # bytes of arguments: interpreted, gradients may need a multiple of them
MAX_ACCOUNTS, MANY_ACCOUNTS = 1024, 64  # per function
MAX_RESTS, MAX_IDLE = 16, 12
MANY_OPERATIONS = 300  # some of which are likely to be turns of loops
TRACING = 1e-4  # seconds an operation takes to be traced, and to be looked at for loops
_UNKNOWN = 50  # operations of a function that has not been traced
_LEARNING = 0.3  # the weight of the latest observation


class _Price:
    """What compiling is expected to cost, learned from what it has cost in this process."""

    def __init__(self) -> None:
        self.seconds, self.per_operation = 0.03, 0.001

    @cached_property
    def slowness(self) -> float:
        """How many times slower than elsewhere this machine is at the moment."""
        seconds = []
        for _ in range(3):
            start, x = time.perf_counter(), 0
            for i in range(TURNS):
                x += i
            seconds.append(time.perf_counter() - start)
        return min(max(min(seconds) / TURNS_SECONDS, 0.25), 4.0)

    def of(self, operations: int) -> float:
        """Seconds for a function of so many operations."""
        seconds = self.seconds + self.per_operation * _counted(operations)
        if "llvmlite" in sys.modules:
            return seconds
        if is_filled(config.cache_dir):
            return self.slowness * STARTUP_FROM_DISK + ON_DISK * seconds
        return self.slowness * STARTUP_SECONDS + seconds

    def learn(self, seconds: float, operations: int) -> None:
        """A function of so many operations has taken so long."""
        observed = max(0.0, seconds - self.seconds) / _counted(max(operations, 1))
        self.per_operation += _LEARNING * (observed - self.per_operation)


def _counted(operations: int) -> float:
    return min(operations, FIRST) + REST * max(operations - FIRST, 0)


price = _Price()


class Measured(Protocol):
    """A traced call."""

    @property
    def length(self) -> int | None:
        """That of its tape, if there is one."""

    @property
    def operations(self) -> int | None:
        """So many operations as a program would be made of."""


class Account:
    """What calls of one signature have spent on interpreting and not yet on compiling, in seconds."""

    __slots__ = ("balance", "failures", "idle", "job", "length", "operations", "pause", "untraced")

    def __init__(self) -> None:
        self.balance = 0.0
        self.job: Job | None = None  # while another thread compiles
        self.length: int | None = None
        self.operations = _UNKNOWN
        self.failures = self.pause = 0
        self.idle = 0  # programs that were made and have served no call, for paths that do not come again
        self.untraced = 0  # operations of long calls of which none was traced

    def interpreted(self, seconds: float, call: Measured | None = None) -> None:
        """A call was interpreted, and traced perhaps; tapes of one length are taken for the same."""
        self.balance += seconds
        if call is not None and call.length != self.length:
            self.length, self.operations = call.length, call.operations or self.operations
        self.pause = max(0, self.pause - 1)

    def computed(self, seconds: float, operations: int | None) -> None:
        """A call was computed at once, with so many operations; of many, a trace tells how many are left of loops."""
        self.interpreted(seconds)
        if operations is not None and self.length is None:
            is_long = operations > MANY_OPERATIONS
            self.operations, self.untraced = (_UNKNOWN, operations) if is_long else (operations, 0)

    def failed(self) -> None:
        """A trace could not be compiled: the next attempts come ever later."""
        self.failures += 1
        self.pause = 2 ** min(self.failures, 12)

    @contextmanager
    def compiling(self, operations: int) -> Iterator[None]:
        """A function of so many operations is compiled in the block."""
        loaded, start = "llvmlite" in sys.modules, perf_counter()
        yield
        seconds = perf_counter() - start
        self.balance -= seconds
        if loaded:
            price.learn(seconds, operations)

    @property
    def due(self) -> bool:
        """Whether it is time to compile."""
        return self.saves(0.0)

    def saves(self, seconds: float) -> bool:
        """Whether it is time to compile rather than to interpret for so long."""
        if self.pause or self.job is not None:
            return False
        return config.compile == "always" or (config.compile == "auto" and self.balance + seconds >= self.price)

    @property
    def price(self) -> float:
        """For how much interpreting a program is made, in seconds; each one that was made in vain makes it dearer."""
        seconds = price.of(self.operations)
        if self.length is None:
            seconds += TRACING * self.untraced * price.slowness
        return seconds * 2.0 ** min(self.idle, MAX_IDLE)


class Accounts(dict[Hashable, Account]):
    """Those of one function, by what calls that may share a program have in common.

    Where more and more are opened and none ever comes to a program, it is a waste to look what calls have in common:
    ever longer, calls are ``resting``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._opened = self._rests = self._rest = 0

    def open(self, key: Hashable) -> Account:
        """A new one; old ones give way."""
        self._opened += 1
        account = self[key] = Account()
        while len(self) > MAX_ACCOUNTS:
            self.pop(next(iter(self)), None)
        return account

    def too_many(self) -> bool:
        """Whether so many were opened that the next calls rest; asked where there are no programs."""
        if self._opened < MANY_ACCOUNTS:
            return False
        self._opened, self._rests = 0, min(self._rests + 1, MAX_RESTS)
        self._rest = MANY_ACCOUNTS * 2**self._rests
        return True

    @property
    def cost_much(self) -> bool:
        """Whether these calls have cost more than a program would have."""
        known = list(self.values())
        return sum(account.balance for account in known) > sum(account.price for account in known) / len(known)

    def resting(self) -> bool:
        """Whether this call is one of those that rest."""
        self._rest -= self._rest > 0
        return self._rest > 0
