"""From a recorded tape to a program.

llvmlite is imported when the first tape is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from ..base.settings import config
from ..base.types import Type
from ..errors import YotaError
from ..passes.lower import lower, lower_gradient, told_by
from ..passes.pipeline import optimise
from ..passes.roll import roll
from ..passes.unroll import unrolled
from ..reverse.results import result_types
from ..tape.loop import UnrolledError, as_loop
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .kernels.disk import clear
from .schedule.classify import checkable

if TYPE_CHECKING:
    from .run.program import Program

T = TypeVar("T")


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


def compile_gradient(
    source: Recorder, seed: Any = None, argnums: int | Sequence[int] | None = None, *, has_aux: bool = False,
    by_rows: Collection[int] = (),
) -> tuple[Tape, Program]:  # fmt: skip
    """The gradient tape of a recorded call, as ``differentiate`` makes it, and its program; raises
    ``UncompilableError``."""

    def compiled(source: Recorder) -> tuple[Tape, Program]:
        gradient, low = lower_gradient(source, seed, argnums, has_aux=has_aux, by_rows=by_rows)
        return gradient.tape, _program(gradient.tape, low.tape, result_types(gradient.tape))

    return with_loops(compiled, source)


def compile_recorded(
    recorder: Recorder, types: Sequence[Type] | None = None, *, turned: Collection[int] = (),
    over: Mapping[int, int] | None = None,
) -> Program:  # fmt: skip
    """A program that computes what was recorded; raises ``UncompilableError``.

    Its results have the types of the tape's unless ``types`` are given. Arrays are in the order of C, but for the
    results with the numbers ``turned``, which are in that of Fortran. Results may be written ``over`` inputs, as in
    ``Program``.
    """
    return with_loops(lambda source: _program(source.tape, lower(source).tape, types, turned, over), recorder)


def compile_loop(recorder: Recorder) -> Program:
    """A program for a tape that is one loop; raises ``UncompilableError`` or ``UnrolledError``."""
    return _program(recorder.tape, lower(recorder).tape, None)


def with_loops(compiled: Callable[[Recorder], T], source: Recorder) -> T:
    """What is compiled of a recorded call with its loops rolled up; or of the call as it is, where a kernel is missing
    for something in a loop, or a rule decides in it; then what is a loop on its tape is unrolled, too."""
    rolled = roll(source)
    if rolled is not source or any(as_loop(op) is not None for op in source.tape.ops):
        rolled = import_module("..passes.hoist", __package__).hoisted(rolled)  # with the first loop
        # A rule may refuse a traced number in a body, which is plain in each turn, in any of these ways.
        with suppress(UnrolledError, UncompilableError, ArithmeticError, LookupError, TypeError, ValueError, YotaError):
            return compiled(rolled)
    try:
        return compiled(unrolled(source))
    except UnrolledError:
        raise UncompilableError("a loop of many turns does something for which there is no kernel") from None


def _program(
    tape: Tape, low: Tape, types: Sequence[Type] | None, turned: Collection[int] = (),
    over: Mapping[int, int] | None = None,
) -> Program:  # fmt: skip
    low = optimised(low)
    types = [tape.type_of(result) for result in tape.results] if types is None else types
    return compile_tape(low, [*types, *(tape[x].type for x in told_by(tape))], turned, over)


def optimised(low: Tape) -> Tape:
    """A lowered tape after all passes; raises ``UncompilableError`` if it takes decisions that no kernel checks."""
    low = optimise(low)
    if not checkable(low):
        raise UncompilableError("it takes a decision on traced values that a kernel cannot check")
    return low


def compile_tape(
    tape: Tape, types: Sequence[Type], turned: Collection[int] = (), over: Mapping[int, int] | None = None
) -> Program:
    """A lowered tape as a program whose results have these types and orders; some are written ``over`` inputs."""
    from .run.program import Program  # imports llvmlite

    return Program(tape, types, turned, over)
