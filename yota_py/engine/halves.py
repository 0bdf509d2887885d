"""A recorded call as two programs: one now, and one for its derivatives later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base.types import ArrayType
from ..passes.cut import UncutError, cut
from ..passes.lower import lower_gradient, told_by
from ..passes.transpose import transposed
from ..reverse.results import result_types
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .compile import UncompilableError, compile_tape, optimised, with_loops

if TYPE_CHECKING:
    from .run.program import Program


def compile_halves(source: Recorder, seed: Any, *, forward: bool = False) -> tuple[Tape, Program, Program, int]:
    """The gradient tape of a recorded call with seeds like this one, and two programs: the first gives the value, all
    that the second needs, and what outputs tell; the second takes that and the leaves of a seed, and gives the
    gradients; or, ``forward``, tangents of the arguments that have gradients, and gives those of the value. The number
    tells how many values are handed on. Raises ``UncompilableError``."""

    def compiled(source: Recorder) -> tuple[Tape, Program, Program, int]:
        gradient, lowered = lower_gradient(source, seed, closed=forward)
        tape, told = gradient.tape, told_by(gradient.tape)
        assert tape.out_spec is not None
        types, early = result_types(tape), tape.out_spec.child(0).num_leaves
        low, seeds = lowered.tape, lowered.tape.inputs[len(source.tape.inputs) :]
        if forward:
            types = [*types[:early], *(t for t in types[:early] if isinstance(t, ArrayType) and t.inexact)]
            low, seeds = transposed(lowered, seeds, early, len(told))
        low = optimised(low)
        try:
            halves = cut(low, low.inputs[len(low.inputs) - len(seeds) :], early, len(told))
        except UncutError as reason:
            raise UncompilableError(str(reason)) from None
        kept = [halves.second[x].type for x in halves.second.inputs[: halves.kept]]
        first = compile_tape(halves.first, [*types[:early], *kept, *(tape[x].type for x in told)])
        first.beside = compile_tape(halves.second, types[early:])
        return tape, first, first.beside, halves.kept

    return with_loops(compiled, source)
