"""What is kept within a limit: those not used lately give way.

The rule is "second chance": in the order of arrival, who was used since the last look stays and queues up again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Counting(Protocol):
    """Something that counts its uses."""

    @property
    def calls(self) -> int:
        """Uses so far."""


T = TypeVar("T", bound=Counting)


class Shelf(Generic[T]):
    """Items whose sizes, summed, stay within a limit (the latest is always kept). Not for several threads at a time."""

    def __init__(self, size: Callable[[T], int], limit: Callable[[], int], drop: Callable[[T], None]) -> None:
        self._size, self._limit, self._drop = size, limit, drop
        self._queue: deque[tuple[T, int]] = deque()  # with the uses at the last look

    @property
    def total(self) -> int:
        """The size of all items."""
        return sum(self._size(item) for item, _ in list(self._queue))

    def add(self, item: T) -> None:
        """Put an item on the shelf; ``drop`` is told who gives way."""
        self._queue.append((item, item.calls))
        self.make_room()

    def make_room(self) -> None:
        """Let items give way until the limit is kept."""
        excess, chances = self.total - self._limit(), len(self._queue) - 1
        while excess > 0 and len(self._queue) > 1:
            item, calls = self._queue[0]
            if item.calls != calls and chances > 0:
                self._queue.rotate(-1)
                self._queue[-1] = item, item.calls
                chances -= 1
                continue
            excess -= self._size(item)
            self._drop(item)
            self.remove(item)

    def remove(self, item: T) -> None:
        """Take an item off the shelf, if it is there."""
        self._queue = deque(pair for pair in self._queue if pair[0] is not item)
