"""Fusion: which operations of a lowered tape run in one loop nest.

Elementwise operations over one iteration space form a *cluster*, with the reductions of their results, and with the
gathers and boxes (adjoints of slices) that are read in that space. Steps are kept in an order that satisfies all
dependencies, so an operation joins the first cluster of its space that stands behind everything it reads.

Guards are checked in the order of the tape, and nothing that may go out of bounds runs before the guards it stands
behind: so the first fault of a run is the one that counts.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

import numpy as np

from ...base.types import ArrayType
from ...registry.registry import primitive_of
from ...registry.tangents import strong_multiply
from ...tape.operations import Call, Guard, Variable, operands, paths
from ...tape.tape import Tape
from .classify import classify, guarded, view_base
from .loops import ON_INTEGERS
from .steps import Cluster, Item, Schedule

MAX_CLUSTER = 200  # operations: beyond it a loop body runs out of registers, and LLVM out of patience


def fuse(tape: Tape) -> Schedule:
    """Group the operations of a lowered tape into steps."""
    schedule = Schedule(tape, [], {})
    home: dict[Variable, int] = {}  # the step that computes a variable
    inside: dict[Variable, int] = {}  # the cluster that has it in registers, in its iteration space
    with_room: dict[tuple[int, ...], list[int]] = {}  # clusters by their spaces
    items: dict[Variable, Item] = {}
    only_padded = _only_padded(tape)
    guards_until = 0  # the step of the last guard so far
    for var, op in tape:
        if not isinstance(op, Call | Guard):
            continue
        behind = max((home[x] + 1 for x in operands(op) if x in home), default=0)
        if isinstance(op, Call) and (base := view_base(tape, op)) is not None:
            schedule.views[var] = base
            home[var] = behind - 1
            continue
        classified = guarded(tape, var, op) if isinstance(op, Guard) else classify(tape, var, op)
        if not isinstance(classified, Item):
            home[var] = len(schedule.steps)
            schedule.steps.append(classified)
            continue
        if classified.kind == "pad" and classified.reads[0][0] in only_padded:
            classified = _recomputed(tape, classified, items)
        items[var] = classified
        space = _space(tape, classified)
        first = guards_until if classified.kind in ("require", "gather", "scatter") else 0
        for x, _ in classified.reads:
            if isinstance(x, Variable) and x in home:
                fits = (
                    x in inside and classified.kind in ("map", "reduce", "require") and tape.type_of(x).shape == space
                )
                first = max(first, inside[x] if fits else home[x] + 1)
        clusters = with_room.setdefault(space, [])
        k = bisect_left(clusters, first)
        if classified.kind != "scatter" and k < len(clusters):
            at = clusters[k]
        else:
            at = len(schedule.steps)
            schedule.steps.append(Cluster(space))
            if classified.kind != "scatter":
                clusters.append(at)
        cluster = schedule.steps[at]
        assert isinstance(cluster, Cluster)
        cluster.items.append(classified)
        if len(cluster.items) == MAX_CLUSTER:
            clusters.remove(at)
        home[var] = at
        if classified.kind == "require":
            guards_until = at
        if classified.kind in ("map", "pad", "gather"):
            inside[var] = at
    _drop_unused(schedule)
    return schedule


def _drop_unused(schedule: Schedule) -> None:
    """Take out elementwise operations whose results are computed anew wherever they are wanted."""
    used = {x for _, x in paths(schedule.tape.results)} | set(schedule.views.values())
    for step in reversed(schedule.steps):
        if not isinstance(step, Cluster):
            used.update(operands(schedule.tape[step.var]))
            continue
        kept = []
        for item in reversed(step.items):
            if item.var in used or item.kind in ("require", "gather"):  # an index may be out of bounds
                kept.append(item)
                used.update(x for x, _ in item.reads if isinstance(x, Variable))
        step.items = kept[::-1]
    schedule.steps = [step for step in schedule.steps if not isinstance(step, Cluster) or step.items]


# Operations that cost about as much as a load: everything else counts as ten of them.
_LIGHT = ON_INTEGERS | {np.divide, np.reciprocal, np.sqrt, strong_multiply}
_RECOMPUTED = 40


def _only_padded(tape: Tape) -> set[Variable]:
    """Elementwise results that nothing needs in memory but adjoints of slices."""
    stored = {x for _, x in paths(tape.results)}
    for _, op in tape:
        if (
            not isinstance(op, Call)
            or (entry := primitive_of(op.fn)) is None
            or entry.kind not in ("map", "reduce", "unindex")
        ):
            stored.update(operands(op))
        elif entry.kind == "map" and isinstance(op.type, ArrayType):
            stored.update(x for x in operands(op) if tape.type_of(x).shape != op.type.shape)
    return {var for var, _ in tape} - stored


def _recomputed(tape: Tape, pad: Item, items: dict[Variable, Item]) -> Item:
    """A pad that computes its operand where it is wanted, if that is cheaper than to write and read it."""
    source = pad.reads[0][0]
    shape = tape.type_of(source).shape
    inner: dict[Variable, Item] = {}
    leaves: dict[Variable, str] = {}
    pending, cost = [source], 0
    while pending:
        x = pending.pop()
        item = items.get(x)
        if x in inner:
            continue
        if item is None or item.kind != "map" or tape.type_of(x).shape != shape:
            if x == source or (item is not None and item.kind in ("pad", "gather")):
                return pad
            leaves[x] = tape.type_of(x).dtype.name
            continue
        op = tape[x]
        cost += 1 if isinstance(op, Call) and op.fn in _LIGHT else 10
        if cost > _RECOMPUTED:
            return pad
        inner[x] = item
        pending.extend(y for y, _ in item.reads if isinstance(y, Variable))
    ordered = tuple(inner[x] for x in sorted(inner, key=lambda x: x.id))
    return replace(pad, reads=tuple(leaves.items()), inner=ordered)


def _space(tape: Tape, item: Item) -> tuple[int, ...]:
    x = item.reads[0][0] if item.kind in ("reduce", "scatter", "require") else item.var
    shape = tape.type_of(x).shape
    assert isinstance(shape, tuple)
    return shape
