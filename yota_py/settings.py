"""What users may decide about the cache: ``yota_py.config``."""

from __future__ import annotations

from typing import Any

_POLICIES = ("always", "auto", "never")


class Config:
    """Settings that hold from the next call on, for all functions and threads.

    ``compile``: ``"auto"`` compiles a function when interpreting it has taken as long as compiling it is expected to
    take, ``"always"`` at its first call, ``"never"`` not at all. ``check``: each result of a compiled program is
    compared with that of a fresh trace, and ``CheckError`` raised where they differ. ``cache_bytes``: how much memory
    compiled programs may keep, in bytes; those not used lately give way.

    Raises ``ValueError`` for another value, ``AttributeError`` for another name.

    >>> config = Config()
    >>> config.compile, config.check
    ('auto', False)
    """

    __slots__ = ("cache_bytes", "check", "compile", "special")

    def __init__(self) -> None:
        self.compile = "auto"
        self.check = False
        self.cache_bytes = 1 << 30
        self.special = False  # whether calls leave the usual path

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "compile" and value not in _POLICIES:
            raise ValueError(f"config.compile is one of {', '.join(map(repr, _POLICIES))}; got {value!r}")
        if name == "check" and not isinstance(value, bool):
            raise ValueError(f"config.check is True or False; got {value!r}")
        if name == "cache_bytes" and not (isinstance(value, int) and value >= 0):
            raise ValueError(f"config.cache_bytes is a number of bytes; got {value!r}")
        object.__setattr__(self, name, value)
        if name in ("check", "compile"):
            object.__setattr__(self, "special", getattr(self, "check", False) or self.compile == "never")

    def __repr__(self) -> str:
        return f"Config(compile={self.compile!r}, check={self.check!r}, cache_bytes={self.cache_bytes!r})"


config = Config()
