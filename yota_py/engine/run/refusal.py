"""What a program answers instead of a result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """What a program answers instead of a result.

    Either ``MISFIT``: another type, dtype or shape than it was compiled for; or ``OUT_OF_BOUNDS``: an index is, the
    interpreter says which; or ``RAISED``: a step has raised an exception, which the traced function may catch; or
    another branch is taken: the first decision that differs, by its number, was met with this value. All decisions
    before it are as traced. No program answers a call that is refused for ``good``: the function itself must run. A
    program that has reached its limit of calls, and runs again when it has another one, is ``due``.
    """

    number: int = -1
    value: Any = None
    why: Any = "another branch is taken"  # prints as the reason
    good: bool = False
    due: Any = None  # the program

    MISFIT: ClassVar[Refusal]
    OUT_OF_BOUNDS: ClassVar[Refusal]
    RAISED: ClassVar[Refusal]


Refusal.MISFIT = Refusal(why="a value has another type than the program expects")
Refusal.OUT_OF_BOUNDS = Refusal(
    why="an index is out of bounds, or arrays that are written overlap or are read-only", good=True
)
Refusal.RAISED = Refusal(why="a function raised an exception", good=True)
