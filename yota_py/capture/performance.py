"""What is known of a call that has been traced and has happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .places import Holder
from .recording import Recording


@dataclass(slots=True)
class Performance:
    """A call that has been traced and has happened; ``changes`` are the items that it has replaced.

    By identity, ``copies`` are what stood for the caller's own containers among the arguments, and ``pictures`` what
    the containers that the function has made held while there were traced values in them.
    """

    recording: Recording
    output: Any
    result: Any = None
    changes: list[tuple[Holder, Any, Any]] = field(default_factory=list)
    pictures: dict[int, Any] = field(default_factory=dict)
    copies: dict[int, Holder] = field(default_factory=dict)

    def records(self) -> Iterator[Holder]:
        """Dataclasses among the arguments that have a dict of attributes, which may hold more than fields."""
        return (holder for holder in self.copies.values() if holder.names and hasattr(holder.target, "__dict__"))

    @property
    def problems(self) -> list[str]:
        """Why another call might not be the same."""
        return self.recording.trace.problems
