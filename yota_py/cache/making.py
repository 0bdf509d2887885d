"""What comes before a traced call is compiled: whether other calls can rely on it, and which programs it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..base import locks
from ..base.generators import Draws
from ..base.refusal import Misfit, Refusal
from ..base.types import native_type
from ..base.unwinding import Holding
from ..capture.guards import Changed, GuardFunction, Guards
from .arguments import Structure
from .modes import Mode, Request, TracedCall, record_to_the_end
from .variants import MAX_VARIANTS, Signature, Variant
from .varying import Varying

MAX_LAYOUTS = 8  # ways in which arrays lie in memory, for each of which there is a program if it matters
FEW_VARIANTS = 16  # of functions that draw, that are compiled even if none has served a call
WAIT_SECONDS = 2.0  # how long a call waits for another thread that compiles, before it traces by itself


def _read_again(call: Request, guards: Guards) -> tuple[GuardFunction, Any]:
    """The guard function of a trace that has ended, and what it says of the call."""
    guard = guards.function()
    with Holding(locks.tracing, WAIT_SECONDS):  # tracers of other threads stand nowhere
        return guard, guard(call.f, call.args, call.kwargs)


def recorded(
    mode: Mode, varying: Varying, call: Request, draws: Draws, *, repeatable: bool
) -> tuple[TracedCall, bool]:  # fmt: skip
    """The traced call, and whether the function is known to be ``repeatable``.

    To a library that does not know it if it is traced, a number is a constant: then what the function has done to what
    it reads is taken back, and it is called again. So numbers are inputs only if it does nothing else. That is known of
    one that reads numbers which have changed; it may have changed them itself, and counts each call.
    """
    inputs = varying.inputs(call.spec)
    if not inputs or mode.effects:
        return mode.record(call, inputs), repeatable
    if not (repeatable or varying.paths):
        recording = mode.record(call, frozenset())
        if not _is_repeatable(call, recording):
            return recording, False
        draws.take_back()
        repeatable = True
    with suppress(Exception):  # any: the function's own come again
        return record_to_the_end(mode, call, inputs), repeatable
    draws.take_back()
    recording = mode.record(call, frozenset())
    varying.give_up()
    return recording, repeatable


def _is_repeatable(call: Request, recording: TracedCall) -> bool:
    """Whether the function has done nothing but compute, draw and print."""
    if recording.problems or recording.captures is None:
        return False
    return not isinstance(_read_again(call, recording.captures.guards)[1], Changed)


def _layout(values: Sequence[Any]) -> tuple[Any, ...]:
    """How arrays lie in memory, and of which classes they are."""
    return tuple((type(x), x.strides) for x in values if issubclass(type(x), np.ndarray))  # a proxy may be dead


def prepared(
    mode: Mode, call: Request, refusal: Refusal, recording: TracedCall, varying: Varying, known: Sequence[Signature]
) -> tuple[Signature, Variant] | list[str]:
    """The signature, one of those ``known`` or a new one, and the path of the call, to be compiled; or the reasons why
    it is not, which are none if it is there already. If they have given a ``refusal`` because arrays lie in memory in
    another way, it is a new one."""
    if recording.problems:
        return recording.problems
    captures = recording.captures
    assert captures is not None and recording.source is not None and recording.compile is not None
    varying.holders |= captures.instances.paths
    guards = captures.guards
    guard, values = _read_again(call, guards)
    if isinstance(values, Changed):
        varying.changed(guards.changed_numbers(*call), itself=True)
        if not mode.effects:
            return [f"it changes what it reads: {values}"]
    if mode.effects:
        if (now := Request(*call, objects=True)).endless:
            return ["it puts an argument into itself"]
        varying.replaced(call.leaves, now.leaves, now.spec)
    if varying.inputs(call.spec) > recording.inputs:
        return ["it counts in what it reads; the next program takes the number as an input"]
    chances = recording.source.draws or recording.source.clocks
    types = [native_type(value) for value in captures.captured.values]
    free = recording.free
    merges = bool(free)
    serving = [s for s in known if s.serves(call.leaves, guards, types, merges=merges)]
    layout = _layout([*call.leaves, *captures.captured.values])
    signature = next((s for s in serving if s.layout == layout), None)
    variant = Variant(recording.source.tape, free)
    if signature is None and serving and type(refusal) is not Misfit:
        signature = serving[0]
    if signature is None and len(serving) >= MAX_LAYOUTS:
        return [f"its arrays lie in memory in {MAX_LAYOUTS} ways already, and more are not compiled"]
    if signature is None:
        structure = Structure(
            call.leaves, call.spec, recording.traced, captures.instances.positions, objects=mode.effects
        )
        arguments = (*recording.arguments, *(["arrays in another layout"] if serving else []))
        signature = Signature(structure, guards, guard, types, arguments, layout, merges=merges)
    elif (before := signature.find(variant.path)) is not None:
        return [before.problem] if before.problem else []
    elif chances and (n := len(signature.variants)) >= FEW_VARIANTS and signature.calls < n:
        what = "random numbers have" if recording.source.draws else "times have"
        return [f"{what} led it {n} paths, hardly one of them twice, and more are not compiled"]
    elif len(signature.variants) >= MAX_VARIANTS:
        return [f"it has taken {MAX_VARIANTS} paths already, and more are not compiled"]
    return signature, variant
