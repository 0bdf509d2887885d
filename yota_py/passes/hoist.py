"""What a loop computes in each turn, of what is the same in all turns, is computed once, in front of the loop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ..base.impure import Impure
from ..base.records import record
from ..base.types import ArrayType
from ..base.unwinding import quietly
from ..tape.loop import Loop, as_loop
from ..tape.operations import Call, Constant, Input, Variable, operands, paths, renamed, substitute
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .adjoint import primitive_loop

_STAYS = (Variable, Loop, Impure)  # calls of such functions


@record()
class Split:
    """A body without what is the same in all turns: what comes ``before`` the loop, calls and the constants in them, in
    their order; and which variables the ``body`` takes in the place of its inputs that are the same, ``given``."""

    body: Tape
    before: Sequence[Variable]
    given: Sequence[Variable]


def split(body: Tape, first: int, same: Collection[Variable]) -> Split | None:
    """Take out of a body what calls make of inputs that are the ``same`` in all turns, and of constants alone; ``None``
    if there is nothing. Its inputs from the ``first`` on are the same in all turns, of which some may be left out."""
    calls = _same_in_all(body, same)
    reads = {x for var, op in body if var not in calls for x in operands(op)} | {x for _, x in paths(body.results)}
    moved = [var for var in calls if var in reads]
    if not moved:
        return None
    needed = {*moved}
    for var in reversed(calls):
        needed |= {*operands(calls[var])} if var in needed else set()
    before = [var for var, op in body if var in needed and not isinstance(op, Input)]
    inputs = body.inputs
    given = [*(var for var in inputs[first:] if var in reads), *moved]
    out, names = replace(body, ops=[]), dict[Variable, Variable]()
    for var in (*inputs[:first], *given):
        op, t = body[var], body.type_of(var)
        taken = op if isinstance(op, Input) else Input("", t, isinstance(t, ArrayType) and t.inexact)
        names[var] = out.append(taken)
    for var, op in body:
        if var not in names and var not in calls and not isinstance(op, Input):
            names[var] = out.append(renamed(op, names))
    out.results = substitute(body.results, names.__getitem__)
    return Split(out, before, given)


def _same_in_all(body: Tape, same: Collection[Variable]) -> dict[Variable, Call]:
    """The calls whose results are the same in all turns, and numbers or arrays where others read them."""
    known, calls = {*same}, dict[Variable, Call]()
    for var, op in body:
        if isinstance(op, Constant):
            known.add(var)
        elif isinstance(op, Call) and not isinstance(op.fn, _STAYS) and known.issuperset(operands(op)):
            known.add(var)
            calls[var] = op
    while True:
        reads = {x for var, op in body if var not in calls for x in operands(op)} | {x for _, x in paths(body.results)}
        structures = {x for x in calls if x in reads and not isinstance(body.type_of(x), ArrayType)}
        if not structures:
            return calls
        calls = {var: op for var, op in calls.items() if var not in structures and structures.isdisjoint(operands(op))}


@quietly
def hoisted(source: Recorder) -> Recorder:
    """The same computation; the same object if no loop computes anything of that kind."""
    tape, found = source.tape, dict[Variable, Split]()
    for var, op in tape:
        loop = as_loop(op)
        if loop is None or loop.until or loop.counted or loop.turns < 2:  # it may have no turn
            continue
        first = loop.carried + loop.stacked
        if (parts := split(loop.body, first, loop.body.inputs[first:])) is not None:
            found[var] = parts
    if not found or tape.regions:
        return source
    out = Recorder(replace(tape, ops=[], leaves=[], results=[]))
    env: dict[Variable, Variable] = {}
    for var, op in tape:
        new = renamed(op, env)
        new = _in_front(out, new, found[var]) if isinstance(new, Call) and var in found else new
        env[var] = out.append(new, source.values[var.id])
    out.tape.leaves = [substitute(leaf, env.__getitem__) for leaf in tape.leaves]
    out.tape.results = [substitute(result, env.__getitem__) for result in tape.results]
    return out


def _in_front(out: Recorder, op: Call, parts: Split) -> Call:
    """The loop without what is written in front of it."""
    loop: Loop = op.fn  # type: ignore[assignment]
    first = loop.carried + loop.stacked
    names: dict[Variable, Any] = dict(zip(loop.body.inputs[first:], op.args[first:], strict=True))
    for var in parts.before:
        each = loop.body[var]
        names[var] = _computed(out, each, names) if isinstance(each, Call) else out.append(each, each.value)  # type: ignore[union-attr]
    without = primitive_loop(replace(loop, body=parts.body, continues=None))
    return replace(op, fn=without, args=(*op.args[:first], *(names[x] for x in parts.given)))


def _computed(out: Recorder, op: Call, names: dict[Variable, Any]) -> Variable:
    """A call, some operands of which may be numbers; computed here, if it is known of what."""
    args = substitute(op.args, names.__getitem__)
    kwargs = substitute(dict(op.kwargs), names.__getitem__) if op.kwargs else op.kwargs
    new = replace(op, args=args, kwargs=kwargs)
    if any(out[x] is None for x in operands(new)):
        return out.append(new, None)
    return out.call(new.fn, args, kwargs, site=op.site, note=op.note)
