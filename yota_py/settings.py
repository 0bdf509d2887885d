"""What users may decide about the cache: ``yota_py.config``."""

from __future__ import annotations

import os
import threading
from typing import Any

from . import locks

_CHOICES = {"compile": ("always", "auto", "never"), "audit": ("sampled", "always", "off")}


class Reference(threading.local):
    """The block in which this thread compiles nothing and uses nothing compiled: what programs are compared with."""

    active = False
    threads = 0  # that are in such a block

    def __enter__(self) -> None:
        self.active = True
        self._count(1)

    def __exit__(self, *error: object) -> None:
        self.active = False
        self._count(-1)

    @staticmethod
    def _count(change: int) -> None:
        with locks.reference:
            Reference.threads += change
            config.settle()

    def forked(self) -> None:
        """In the child of a fork there is this thread only."""
        Reference.threads = int(self.active)
        config.settle()


reference = Reference()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reference.forked)


class Config:
    """Settings that hold from the next call on, for all functions and threads.

    ``compile``: ``"auto"`` compiles a function when interpreting it has taken as long as compiling it is expected to
    take, ``"always"`` at its first call, ``"never"`` not at all. ``audit``: how often a call that a compiled program
    serves is interpreted as well, with an ``AuditWarning`` where they differ: ``"sampled"`` at its first two calls, and
    later where it takes little of the time; ``"always"``; or ``"off"``. ``check``: audits always, and ``CheckError`` is
    raised rather than a warning given. ``cache_bytes``: how much memory compiled programs may keep, in bytes; those not
    used lately give way.

    Raises ``ValueError`` for another value, ``AttributeError`` for another name.

    >>> config = Config()
    >>> config.compile, config.audit, config.check
    ('auto', 'sampled', False)
    """

    __slots__ = ("audit", "cache_bytes", "check", "compile", "special")

    def __init__(self) -> None:
        self.compile = "auto"
        self.audit = "sampled"
        self.check = False
        self.cache_bytes = 1 << 30
        self.special = False  # whether calls leave the usual path

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"config.{name} is one of {', '.join(map(repr, _CHOICES[name]))}; got {value!r}")
        if name == "check" and not isinstance(value, bool):
            raise ValueError(f"config.check is True or False; got {value!r}")
        if name == "cache_bytes" and not (isinstance(value, int) and value >= 0):
            raise ValueError(f"config.cache_bytes is a number of bytes; got {value!r}")
        object.__setattr__(self, name, value)
        if name in _CHOICES or name == "check":
            self.settle()

    def settle(self) -> None:
        """Find out whether calls leave the usual path."""
        self.special = reference.threads > 0 or self.audits_all or getattr(self, "compile", "") == "never"

    @property
    def audits_all(self) -> bool:
        """Whether each call of a compiled program is audited."""
        return getattr(self, "check", False) or getattr(self, "audit", "") == "always"

    def __repr__(self) -> str:
        names = ("compile", "audit", "check", "cache_bytes")
        return f"Config({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


config = Config()
