"""From a recorded tape to a program.

numba and llvmlite are imported when the first tape is compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ..base.settings import config
from ..base.types import Type
from ..passes.lower import lower
from ..passes.pipeline import optimise
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .kernels.disk import clear
from .schedule.classify import checkable

if TYPE_CHECKING:
    from .run.program import Program


def clear_cache() -> None:
    """Remove the machine code that is kept on disk in ``config.cache_dir``; programs of this process stay as they are.

    What else is in that directory is left there. Raises ``OSError`` if a file cannot be removed.

    >>> import yota_py
    >>> yota_py.clear_cache()
    """
    if config.cache_dir is not None:
        clear(config.cache_dir)


class UncompilableError(Exception):
    """There is no program for what was recorded; the text says why not."""


def compile_recorded(
    recorder: Recorder, types: Sequence[Type] | None = None, *, low: Tape | None = None, turned: Collection[int] = ()
) -> Program:
    """A program that computes what was recorded; raises ``UncompilableError``.

    Its results have the types of the tape's unless ``types`` are given. ``low`` is the tape lowered already. Arrays are
    in the order of C, but for the results with the numbers ``turned``, which are in that of Fortran.
    """
    tape = recorder.tape
    low = optimise(lower(recorder).tape if low is None else low)
    if not checkable(low):
        raise UncompilableError("it takes a decision on traced values that a kernel cannot check")
    return compile_tape(low, [tape.type_of(result) for result in tape.results] if types is None else types, turned)


def compile_tape(tape: Tape, types: Sequence[Type], turned: Collection[int] = ()) -> Program:
    """A lowered tape as a program whose results have these types and orders."""
    from .run.program import Program  # imports llvmlite and numba

    return Program(tape, types, turned)
