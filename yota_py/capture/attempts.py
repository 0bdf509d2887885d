"""What attempts to trace a call with its effects have found out, for the next attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_ATTEMPTS = 5


@dataclass(slots=True)
class Attempts:
    """How many attempts to trace one call have failed, and what is known since; the caller's objects are known by
    identity.

    Of lists, those that the function has ``read`` (``None`` if no list is to be exchanged), and those that it has
    ``grown``; ``items`` tells whether items of containers are taken for lists that are only appended to where the code
    says so. ``tied`` are arrays at which several captured ones look, one of which is written into.
    """

    count: int = 0
    read: dict[int, Any] | None = field(default_factory=dict)
    grown: dict[int, Any] = field(default_factory=dict)
    items: bool = True
    tied: dict[int, Any] = field(default_factory=dict)

    def again(self) -> bool:
        """Whether there may be another attempt; the last one exchanges no lists."""
        self.count += 1
        if self.count == MAX_ATTEMPTS - 1:
            self.read = None
        return self.count < MAX_ATTEMPTS
