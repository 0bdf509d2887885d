"""Derivatives forwards: what a gradient tape does to seeds is linear, and its derivative in the seeds, back from
tangents of the arguments, is the derivative of the results (J. Townsend, 2017, "A new trick for calculating Jacobian
vector products")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..registry.tangents import zeros_like
from ..reverse.verbs import backprop, to_rrules
from ..tape.operations import Constant, Input, Variable, substitute
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .lower import replayed


def transposed(low: Recorder, seeds: Sequence[Variable], early: int, told: int) -> tuple[Tape, list[Variable]]:
    """The tape of a value, which are its first ``early`` results, and gradients as one of the value and its
    tangents, lowered: instead of the ``seeds``, it has an input for the tangent behind each gradient, which are
    returned as well. Compositions are still closed: what they are made of may tell cotangents of zero from others. The
    last results, ``told`` by outputs, stay behind."""
    tape, end = low.tape, len(low.tape.results) - told
    zeros = {seed.id: zeros_like(tape[seed].type) for seed in seeds}
    ops = [replace(op, active=i in zeros) if isinstance(op, Input) else op for i, op in enumerate(tape.ops, 1)]
    linear = Recorder(replace(tape, ops=ops))
    linear.values = [zeros.get(i, value) for i, value in enumerate(low.values)]
    gradients = [dx for dx in tape.results[early:end] if dx is not None]

    def play(out: Recorder) -> None:
        lin = to_rrules(linear, out)
        tangents = [out.input(zeros_like(tape.type_of(dx)), "tangent", active=False) for dx in gradients]
        pairs = [(dx, v) for dx, v in zip(gradients, tangents, strict=True) if isinstance(dx, Variable)]
        back = backprop(lin, [(dx, v) for dx, v in pairs if dx in lin.active])
        values = [substitute(z, lin.env.__getitem__) for z in tape.results]
        changes = [back[seed] if seed in back else zeros[seed.id] for seed in seeds]
        out.tape.leaves = []
        out.tape.results = [*values[:early], *changes, *values[end:]]

    made = replayed(linear.tape, play)[1].tape
    for at, seed in zip(made.inputs, tape.inputs, strict=False):
        if seed.id in zeros:  # of which nothing depends
            made.ops[at.id - 1] = Constant(zeros[seed.id], tape[seed].type)
    return made, made.inputs[len(made.inputs) - len(gradients) :]
