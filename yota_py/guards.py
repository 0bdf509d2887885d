"""The guard function of a trace, written line by line while the trace runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

# Of the traced function, or another with the same code: its captured arrays as they are now, in the order of capture;
# None if something else that the trace has read has changed.
GuardFunction: TypeAlias = Callable[[Any], tuple[Any, ...] | None]


class Guards:
    """Lines of Python that read again what a trace has read, and find out whether it is still the same.

    Values that a line compares with are *constants* of the function (``k0``, ``k1``, …), what it reads are *locals*
    (``v1``, ``v2``, …). ``arrays`` are the expressions of captured arrays, in the order of capture.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.arrays: list[str] = []
        self._lines: list[str] = []
        self._namespace: dict[str, Any] = {}  # keeps the constants alive, so that their ids stay their own
        self._constants: dict[int, str] = {}

    def constant(self, value: Any) -> str:
        """A name for a value; the same for the same object."""
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = f"k{len(self._constants)}"
            self._namespace[name] = value
        return name

    def local(self, expression: str) -> str:
        """A name for what is read now."""
        self.reads += 1
        self._lines.append(f"v{self.reads} = {expression}")
        return f"v{self.reads}"

    def require(self, condition: str) -> None:
        """The trace holds only under this condition."""
        self._lines.append(f"if not ({condition}): return None")

    def require_is(self, expression: str, value: Any) -> None:
        """The trace holds only if this is still the same object."""
        self.require(f"{expression} is {self.constant(value)}")

    def function(self) -> GuardFunction:
        """The guard function of what has been written so far."""
        lines = [*self._lines, f"return ({''.join(f'{array}, ' for array in self.arrays)})"]
        text = "def guard(f):\n try:\n" + "".join(f"  {line}\n" for line in lines)
        text += " except (KeyError, IndexError, AttributeError, ValueError, TypeError):\n  return None\n"
        exec(compile(text, "<guards>", "exec"), self._namespace)
        return self._namespace["guard"]  # type: ignore[no-any-return]
