"""What is answered instead of a result, where no program serves a call."""

from __future__ import annotations

from typing import Any, ClassVar

from .records import record


class Refusal:
    """What a program answers instead of a result; prints as the reason.

    No program answers a call that is refused for ``good``: the function itself must run.
    """

    __slots__ = ()
    good: ClassVar[bool] = False
    reason: ClassVar[str]

    def __str__(self) -> str:
        return self.reason


@record(eq=False)
class Misfit(Refusal):
    """A value has another type, dtype or shape than the program was compiled for, or lies in memory otherwise."""

    why: str = "a value has another type than the program expects, or an array another layout"

    def __str__(self) -> str:
        return self.why


MISFIT = Misfit()


@record(eq=False)
class OutOfBounds(Refusal):
    """An index is out of bounds, and the interpreter says which; or arrays are not as they are written into."""

    good: ClassVar[bool] = True
    reason: ClassVar[str] = "an index is out of bounds, or arrays that are written overlap or are read-only"


@record(eq=False)
class Raised(Refusal):
    """A step in Python has raised an exception, which the traced function may catch."""

    good: ClassVar[bool] = True
    reason: ClassVar[str] = "a function raised an exception"


@record(eq=False)
class Decision(Refusal):
    """The first decision that differs, by its number, and the value that it met; all before it are as traced."""

    number: int
    value: Any
    reason: ClassVar[str] = "another branch is taken"


@record(eq=False)
class Due(Refusal):
    """The program has reached its limit of calls, and runs again when it has another one."""

    program: Any
    reason: ClassVar[str] = "the program is due for an audit"
