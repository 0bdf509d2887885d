"""The engine: kernels emitted as LLVM through numba, and the driver that runs them.

Importing it is cheap; numba and llvmlite are imported when the first tape is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

import optree

from ..tape import Tape
from ..types import Type

if TYPE_CHECKING:
    from .program import Program


class Refusal(Enum):
    """What a program answers instead of a result."""

    MISFIT = 1  # another type, dtype or shape than the program was compiled for, or another branch taken
    OUT_OF_BOUNDS = 2  # an index is out of bounds: the interpreter says which


def compile_tape(tape: Tape, types: Sequence[Type], spec: optree.PyTreeSpec) -> Program:
    """A lowered tape as a program whose results have these types, in containers of this structure."""
    from .program import Program  # imports llvmlite and numba

    return Program(tape, types, spec)
