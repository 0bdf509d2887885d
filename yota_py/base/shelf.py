"""What is kept within a limit: those not used lately give way.

The rule is "second chance": in the order of arrival, who was used since the last look stays and queues up again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Counting(Protocol):
    """Something that counts its uses."""

    @property
    def calls(self) -> int:
        """Uses so far."""


T = TypeVar("T", bound=Counting)

OFTEN = 8  # sizes are summed after each change where there are so many items, and of more once in an eighth as many


class Shelf(Generic[T]):
    """Items whose sizes, summed, stay within a limit (the latest is always kept). Not for several threads at a time."""

    def __init__(self, size: Callable[[T], int], limit: Callable[[], int], drop: Callable[[T], None]) -> None:
        self._size, self._limit, self._drop = size, limit, drop
        self._queue: OrderedDict[int, tuple[T, int]] = OrderedDict()  # by identity, with the uses at the last look
        self._known, self._changes = 0, 0  # the sum when it was last looked at, and what has changed since; how often

    @property
    def total(self) -> int:
        """The size of all items."""
        return sum(self._size(item) for item, _ in [*self._queue.values()])

    def add(self, item: T) -> None:
        """Put an item on the shelf; ``drop`` is told who gives way."""
        self._queue[id(item)] = item, item.calls
        self.changed(item)

    def changed(self, item: T) -> None:
        """An item has come, or grown."""
        self._known += self._size(item)
        self._changes += 1
        if self._known > self._limit() or self._changes * OFTEN >= len(self._queue):
            self._make_room(item)

    def _make_room(self, latest: T) -> None:
        """Let items give way until the limit is kept."""
        self._known, self._changes, chances = self.total, 0, len(self._queue) - 1
        while self._known > self._limit() and len(self._queue) > 1:
            item, calls = next(iter(self._queue.values()))
            if item is latest or (item.calls != calls and chances > 0):
                self._queue[id(item)] = item, item.calls
                self._queue.move_to_end(id(item))
                chances -= item is not latest
                continue
            self._known -= self._size(item)
            self._drop(item)
            self.remove(item)

    def remove(self, item: T) -> None:
        """Take an item off the shelf, if it is there."""
        self._queue.pop(id(item), None)
