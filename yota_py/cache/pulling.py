"""The value of a call now, and its derivatives later, as often as wanted: pullbacks, and what is made as they are.

There are two programs. One computes the value and what the other one needs, which is kept by the function that a call
is answered with: so that knows nothing of what may have changed since then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import optree

from ..base.containers import mapped
from ..base.dispatch import shadow
from ..base.records import record
from ..base.tracebacks import folded
from ..base.types import ArrayType, Type, is_inexact
from ..base.unwinding import Quiet, quietly, state, unwinding
from ..capture.guards import Guards
from ..capture.recording import record_watched
from ..capture.walk import Captures
from ..engine.halves import compile_halves
from ..reverse.differentiable import require_active
from ..reverse.results import collect, result_types, settle
from ..reverse.seeds import seed_leaves
from ..reverse.verbs import backprop, finish, seed_pairs, to_rrules
from ..tape.operations import user_site
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from ..tape.trees import flatten, unflatten
from ..tracing.traces import Trace
from .arguments import Structure
from .entry import Compiled, Writer, contained
from .modes import Request, TracedCall, problems_of

if TYPE_CHECKING:
    from ..engine.run.program import Program

Pulled = tuple[Any, Callable[..., Any]]


@record()
class Pulling:
    """The value, and a function from a cotangent of it to those of the arguments."""

    effects: ClassVar[bool] = False
    otherwise: ClassVar[str] = "traced afresh"
    purpose: ClassVar[str] = "pullback"
    forward: ClassVar[bool] = False

    def interpret(self, call: Request) -> Pulled:
        """The same without a program."""
        return self.reference(call)[0]

    def at_once(self, call: Request) -> None:
        """Nothing: what derivatives are computed of must have been traced."""

    @unwinding
    def reference(self, call: Request) -> tuple[Pulled, Guards | None]:
        """The same, and what was read."""
        source, captures = _traced(call)
        return self.interpreted(source, call), captures.guards

    def record(self, call: Request, inputs: frozenset[str | int]) -> TracedCall:
        """The same, and how to compile it."""
        source, captures = _traced(call, inputs)
        result = cache(lambda: self.interpreted(source, call))

        def compile(structure: Structure) -> Compiled:
            spec = source.tape.out_spec
            assert spec is not None
            leaves = [like(source.tape.type_of(z), z) for z in source.tape.results]
            tape, first, second, kept = compile_halves(source, ones(leaves, spec), forward=self.forward)
            later = self.later(tape, second, unflatten(spec, leaves), call)
            writer, count = Writer(source, captures, structure, call.leaves), spec.num_leaves
            names = "".join(f"y{i}, " for i in range(count, count + kept))
            text = f"({contained(spec, count)}, later(({names})))"
            return writer.compiled(first, text, unflatten=unflatten, spec=spec, later=later)

        problems = problems_of(source, captures)
        if captures.stores:
            problems.append("it stores something, and would have to do so when the value is computed")
        return TracedCall(result, problems, inputs, source, captures, compile)

    def interpreted(self, source: Trace, call: Request) -> Pulled:
        """The result of a recorded call."""
        return _pulled(source)

    def later(self, tape: Tape, program: Program, y: Any, call: Request) -> Callable[[tuple[Any, ...]], Any]:
        """What makes, of what a call has put by, the function that its caller gets: that runs the program. The value is
        like ``y``."""
        leaves, spec = flatten(y)
        assert tape.out_spec is not None
        gradients = tape.out_spec.child(1)
        run = running(program, result_types(tape)[spec.num_leaves :])

        def of(kept: tuple[Any, ...]) -> Callable[[Any], Any]:
            @folded
            def back(seed: Any) -> Any:
                checked = seed_leaves(seed, leaves, spec, user_site(), tape.name)
                return unflatten(gradients, run([*kept, *(s for s in checked if s is not None)]))

            return back

        return of

    def compared(self, result: Pulled, call: Request) -> Any:
        """The value, and what flows back from ones."""
        y, back = result
        return y, back(ones(*flatten(y)))


PULLING = Pulling()


def pulled(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pulled:
    """Value and pullback, traced afresh: to be differentiated, too."""
    return PULLING.interpret(Request(f, args, kwargs))


def ones(leaves: Sequence[Any], spec: optree.PyTreeSpec) -> Any:
    """A seed for results like these."""
    return unflatten(spec, [_one(z) if is_inexact(z) else None for z in leaves])


def _one(z: Any) -> Any:
    like = np.ones_like(z)
    return like if isinstance(z, np.ndarray) else like[()] if isinstance(z, np.generic) else like.item()


def like(t: Type, value: Any) -> Any:
    """What has this type and takes no memory; the value itself, if that is no number or array."""
    if not isinstance(t, ArrayType):
        return value
    if t.kind == "array":
        return np.broadcast_to(np.zeros((), t.dtype), t.shape)
    return t.dtype.type(0) if t.kind == "scalar" else t.dtype.type(0).item()


def running(program: Program, types: Sequence[Type]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function of a program's inputs; where they are traced, or refused, it does the same with NumPy."""
    def run(given: Sequence[Any]) -> Sequence[Any]:
        answer = program.run(*given) if not state.traces else None
        if type(answer) is tuple:
            return answer
        return [settle(x, t) for x, t in zip(program.tape.play_flat(given), types, strict=True)]

    return run


def _traced(call: Request, inputs: frozenset[str | int] = frozenset()) -> tuple[Trace, Captures]:
    source, captures = record_watched(call.f, call.args, call.kwargs, lambda argnum: True, inputs)
    require_active(source.tape, call.f, call.args, call.kwargs, site=user_site())
    return source, captures


def _pulled(source: Trace) -> Pulled:
    """Value and pullback of a recorded call, interpreted."""
    given = {id(root): root for root in map(source.__getitem__, source.roots) if isinstance(root, np.ndarray)}
    source.values = [_unshared(value, given) for value in source.values]  # for back, which the caller may call late
    tape, site = source.tape, user_site()
    with Quiet():  # the function itself has warned already
        forward = to_rrules(source)
    leaves = forward.values(source, tape.results)
    assert tape.out_spec is not None

    @quietly
    def run(seeds: Sequence[Any]) -> Recorder:
        lin = forward.copy()
        constants = [None if s is None else lin.out.constant(s, note="seed") for s in seeds]
        return finish(lin, backprop(lin, seed_pairs(lin, tape.results, constants)))

    @folded
    def back(seed: Any) -> Any:
        assert tape.out_spec is not None
        return collect(run(seed_leaves(seed, leaves, tape.out_spec, site, tape.name)))[1]

    probe = finish(forward.copy(), {}).tape
    y = [settle(leaf, t) for leaf, t in zip(leaves, result_types(probe), strict=False)]
    return unflatten(tape.out_spec, y), back


def _unshared(value: Any, given: Mapping[int, np.ndarray]) -> Any:
    """A value with copies of the arrays in it that look at the memory of others; in their order of axes."""
    if not isinstance(value, np.ndarray):
        return mapped(lambda item: _unshared(item, given), value)
    array = shadow(value)
    if array.base is None and id(value) not in given:
        return value
    shared = any(np.may_share_memory(array, shadow(other)) for other in given.values())
    return np.copy(value, order="K") if shared else value
