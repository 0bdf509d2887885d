"""What is made of a gradient tape on its way to machine code, compared with the tape itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..base.refusal import Raised, Refusal
from ..base.types import ArrayType
from ..engine.compile import compile_tape
from ..engine.schedule.classify import checkable
from ..passes.lower import lower
from ..passes.pipeline import optimise
from ..tape.loop import UnrolledError
from ..tape.operations import Constant, Input
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from ..tape.verify import verify
from .finite import close, copied, equal, of_type

Evaluate = Callable[[Sequence[Any]], Sequence[Any]]  # from values of the inputs to the flat list of results
Disagreement = tuple[str, list[tuple[str, Any]]]  # what is wrong, and figures with their labels


def optimised(gradient: Recorder) -> Tape:
    """The lowered tape after all passes, verified after each."""
    return optimise(verify(lower(gradient).tape), verify)


def lowered(gradient: Recorder, low: Tape) -> Evaluate:
    """The lowered tape, played with NumPy."""
    return low.play_flat


def compiled(gradient: Recorder, low: Tape) -> Evaluate:
    """The compiled program; the tape where a matrix is singular to LAPACK, since such calls are interpreted."""
    tape = gradient.tape
    try:
        program = compile_tape(low, [tape.type_of(result) for result in tape.results])
    except UnrolledError:  # of a loop, whose turns are compiled instead
        return lowered(gradient, low)
    captured = {op.captured: op.value for op in tape.ops if isinstance(op, Constant) and op.captured is not None}
    values = [captured[number] for number in sorted(captured)]

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        results = program(*inputs, *values)
        if isinstance(results, Raised):
            return tape.play_flat(inputs)
        assert not isinstance(results, Refusal), f"the program refuses its inputs: {results}"
        return results  # type: ignore[no-any-return]

    return run


# From a gradient tape with its values, and what it is lowered to, to a function of input values.
EVALUATORS: dict[str, Callable[[Recorder, Tape], Evaluate]] = {"lowered": lowered, "compiled": compiled}


def disagreements(gradient: Recorder, inputs: Sequence[Sequence[Any]]) -> Iterator[Disagreement]:
    """Where an evaluator, called with several inputs in turn, differs from the tape or writes into its inputs."""
    types = [op.type for op in gradient.tape.ops if isinstance(op, Input)]
    inputs = [[of_type(x, t) for x, t in zip(given, types, strict=True)] for given in inputs]
    low = optimised(gradient)
    if not checkable(low):
        return  # decisions that kernels cannot check: never compiled
    wanted = [gradient.tape.play_flat(given) for given in inputs]
    eps = max((float(np.finfo(t.dtype).eps) for t in types if isinstance(t, ArrayType) and t.inexact), default=0.0)
    for name, make in EVALUATORS.items():
        evaluate = make(gradient, low)
        for given, all_wanted in zip(inputs, wanted, strict=True):
            before = copied(given)
            for i, (have, want) in enumerate(zip(evaluate(given), all_wanted, strict=True)):
                if np.shape(have) != np.shape(want) or not close(have, 0 * have if want is None else want, 1e3, eps):
                    what = f"result {i} (values, then gradients) of the {name} tape differs"
                    yield what, [("tape", want), (name, have)]
            if not all(map(equal, given, before)):
                yield f"the {name} tape has written into its inputs", []
