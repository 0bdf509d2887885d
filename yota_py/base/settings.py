"""What users may decide about the cache: ``yota_py.config``."""

from __future__ import annotations

import os
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal

from . import locks
from .unwinding import Passing

IMPORTED = time.time_ns()  # what was in the library's files then is what runs in this process, or soon will
_CHOICES = {
    "compile": ("always", "auto", "never"), "audit": ("sampled", "always", "off"), "traceback": ("short", "full"),
    "missing": ("lazy", "error"),
}  # fmt: skip


class Reference(threading.local):
    """Whether this thread compiles nothing and uses nothing compiled: what programs are compared with."""

    active = False
    threads: ClassVar[set[int]] = set()  # those of which this is so

    def forked(self) -> None:
        """In the child of a fork there is this thread only."""
        self.threads.intersection_update({threading.get_ident()} if self.active else ())
        config.settle()


reference = Reference()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reference.forked)


class Uncompiled(Passing):
    """A block in which this thread compiles nothing and uses nothing compiled."""

    def __init__(self) -> None:
        self._was_active = reference.active

    def begin(self) -> None:
        self._set(True)

    def end(self) -> None:
        self._set(self._was_active)

    @staticmethod
    def _set(active: bool) -> None:
        with locks.tables:
            (reference.threads.add if active else reference.threads.discard)(threading.get_ident())
            config.settle()
        reference.active = active


class Config:
    """Settings that hold from the next call on, for all functions and threads.

    ``compile``: ``"auto"`` compiles a function when interpreting it has taken half as long as compiling is expected to
    take, ``"always"`` at its first call, ``"never"`` not at all. ``audit``: how often a call that a compiled program
    serves is interpreted as well, with an ``AuditWarning`` where they differ: ``"sampled"`` at its first two calls, and
    later where it takes little of the time; ``"always"``; or ``"off"``. ``check``: audits always, and ``CheckError`` is
    raised rather than a warning given. ``cache_bytes``: how much memory compiled programs may keep, in bytes; those not
    used lately give way. ``traceback``: ``"short"`` takes the library's own lines out of the tracebacks of exceptions
    that come out of it, ``"full"`` leaves them there. ``cache_dir``: the directory in which machine code is kept for
    other processes, ``None`` or an empty text for none; it is used only if nobody else can write there. The default is
    the platform's for caches, or what the environment variable ``YOTA_CACHE_DIR`` says, if that is empty none.
    ``progress``: whether a line on a terminal says what is being compiled while that takes more than a second.
    ``background``: whether, with ``compile = "auto"``, calls of gradients wait half a second for a compiler at most,
    and go on interpreted while a thread compiles. ``missing``: a function without a rule raises ``MissingRuleError``
    when a cotangent comes to it (``"lazy"``), or where it is called (``"error"``). ``roll``: whether what Python loops
    have done becomes loops again before it is compiled or shown. ``merge``: whether turns of theirs that decide
    otherwise become turns of one kind, which compute all branches, before a gradient is compiled.

    Raises ``ValueError`` for another value, ``AttributeError`` for another name.

    >>> config = Config()
    >>> config.compile, config.audit, config.check
    ('auto', 'sampled', False)
    """

    __slots__ = (
        "_cache_dir", "audit", "background", "cache_bytes", "check", "compile", "merge", "missing", "progress", "roll",
        "special", "traceback",
    )  # fmt: skip

    def __init__(self) -> None:
        self.compile = "auto"
        self.audit = "sampled"
        self.check = False
        self.cache_bytes = 1 << 30
        self.traceback = "short"
        self.missing = "lazy"
        self.progress = self.background = self.roll = self.merge = True
        self._cache_dir: Path | Literal["default"] | None = "default"
        self.special = False  # whether calls leave the usual path

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"config.{name} is one of {', '.join(map(repr, _CHOICES[name]))}; got {value!r}")
        if name in ("check", "progress", "background", "roll", "merge") and not isinstance(value, bool):
            raise ValueError(f"config.{name} is True or False; got {value!r}")
        if name == "cache_bytes" and not (isinstance(value, int) and value >= 0):
            raise ValueError(f"config.cache_bytes is a number of bytes; got {value!r}")
        if name == "cache_dir" and not isinstance(value, str | Path | None):
            raise ValueError(f"config.cache_dir is a path, or None; got {value!r}")
        object.__setattr__(self, name, value)
        if name in _CHOICES or name == "check":
            self.settle()

    @property
    def cache_dir(self) -> Path | None:
        """Where machine code is kept for other processes."""
        if self._cache_dir == "default":
            self._cache_dir = _default_directory()
        return self._cache_dir

    @cache_dir.setter
    def cache_dir(self, value: str | Path | None) -> None:
        try:
            self._cache_dir = None if value is None or value == "" else Path(value).expanduser().absolute()
        except RuntimeError as error:  # somebody else's home, and there is no such user
            raise ValueError(f"config.cache_dir = {value!r}: {error}") from None

    def settle(self) -> None:
        """Find out whether calls leave the usual path."""
        self.special = bool(reference.threads) or self.audits_all or getattr(self, "compile", "") == "never"

    @property
    def later(self) -> bool:
        """Whether calls do not wait for what is compiled."""
        return self.background and self.compile == "auto"

    @property
    def audits_all(self) -> bool:
        """Whether each call of a compiled program is audited."""
        return getattr(self, "check", False) or getattr(self, "audit", "") == "always"

    def __repr__(self) -> str:
        names = ("compile", "audit", "check", "cache_bytes", "traceback", "cache_dir", "progress", "background",
                 "missing", "roll", "merge")  # fmt: skip
        return f"Config({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def _default_directory() -> Path | None:
    given = os.environ.get("YOTA_CACHE_DIR")
    try:
        if given is not None:
            return Path(given).expanduser().absolute() if given else None
        platformdirs = import_module("platformdirs")  # not before: it takes longer than the rest of this file
        return Path(platformdirs.user_cache_path("yota_py", appauthor=False))
    except (OSError, RuntimeError, KeyError):  # there is no home
        return None


config = Config()
