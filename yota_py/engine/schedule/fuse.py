"""Fusion: which operations of a lowered tape run in one loop nest.

Elementwise operations over one iteration space form a *cluster*, with the reductions of their results, and with the
gathers and boxes (adjoints of slices) that are read in that space. Steps are kept in an order that satisfies all
dependencies, so an operation joins the first cluster of its space that stands behind everything it reads.

Guards are checked in the order of the tape, and nothing that may go out of bounds runs before the guards it stands
behind: so the first fault of a run is the one that counts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from typing import Any

from ...base.impure import Clock
from ...base.types import ArrayType
from ...registry import kernels
from ...tape.loop import as_loop
from ...tape.operations import Call, Guard, Variable, operands, paths
from ...tape.tape import Tape
from .classify import classify, guarded, kernel_for, part_of_loop, view_base
from .steps import (
    Cluster,
    Gather,
    Item,
    Join,
    Map,
    Pad,
    Pointwise,
    Reduce,
    Repeat,
    Require,
    Scan,
    Scatter,
    Schedule,
    Step,
)

SMALL = 16  # elements
REPEATED = 4  # times that a structure has to come to be worth a loop nest, where there is much that comes once
APART = 400  # operations: so many are compiled in the time that most first calls take
MAX_CLUSTER = 200  # operations: beyond it a loop body runs out of registers, and LLVM out of patience


def fuse(tape: Tape) -> Schedule:
    """Group the operations of a lowered tape into steps."""
    fusion = _Fusion(tape)
    for var, op in tape:
        if isinstance(op, Call | Guard):
            fusion.take(var, op)
    _drop_unused(fusion.schedule)
    _take_apart(fusion.schedule)
    return fusion.schedule


def _take_apart(schedule: Schedule) -> None:
    """Of much that is small and has a structure of its own, let each operation be a step: as such they have few
    structures, for which there soon is code, where a loop nest would be compiled for one run of its own a call."""
    small = [s for s in schedule.steps if isinstance(s, Cluster) and math.prod(s.space) <= SMALL]
    if sum(len(s.items) for s in small) <= APART:
        return
    structures = [*map(_structure, small)]
    times = Counter(structures)
    apart = {id(s): len(s.items) for s, known in zip(small, structures, strict=True) if times[known] < REPEATED}
    if sum(apart.values()) > APART:
        parts = ([Cluster(s.space, [i]) for i in s.items] if isinstance(s, Cluster) and id(s) in apart else [s]
                 for s in schedule.steps)  # fmt: skip
        schedule.steps = [step for part in parts for step in part]


def _structure(cluster: Cluster) -> tuple[Any, ...]:
    """The same for clusters that are likely to share their code."""
    numbers = {item.var: k for k, item in enumerate(cluster.items)}
    return cluster.space, *(
        (type(item), getattr(item, "kernel", None), *(numbers.get(x, dtype) for x, dtype in item.reads))
        for item in cluster.items
    )


class _Fusion:
    """Takes operations one after the other."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.schedule = tape, Schedule(tape, [], {})
        self._home: dict[Variable, int] = {}  # the step that computes a variable
        self._inside: dict[Variable, int] = {}  # the cluster that has it in registers, in its iteration space
        self._with_room: dict[tuple[int, ...], list[int]] = {}  # clusters by their spaces
        self._items: dict[Variable, Item] = {}
        self._only_padded = _only_padded(tape)
        self._guards_until = 0  # the step of the last guard so far
        self._clocks_until = 0  # the step behind that of the last clock

    def take(self, var: Variable, op: Call | Guard) -> None:
        """An operation becomes a view, a step, or an item of a cluster."""
        if isinstance(op, Call) and (base := part_of_loop(self.tape, op) or view_base(self.tape, op)) is not None:
            self.schedule.views[var] = base
            self._home[var] = max((self._home[x] for x in operands(op) if x in self._home), default=-1)
            return
        if isinstance(op, Guard):
            step: Item | Step = guarded(self.tape, var, op)
        elif (loop := as_loop(op)) is not None:
            step = Repeat(var, loop, op.args, fuse(loop.body))
        else:
            step = classify(self.tape, var, op)
        if isinstance(step, Item):
            self._join(step)
        else:
            self._home[var] = len(self.schedule.steps)
            self.schedule.steps.append(step)
            if isinstance(op, Call) and type(op.fn) is Clock:
                self._clocks_until = len(self.schedule.steps)

    def _join(self, item: Item) -> None:
        """Put an item into the first cluster of its space that may have it, or into a new one."""
        if isinstance(item, Pad) and item.reads[0][0] in self._only_padded:
            item = _recomputed(self.tape, item, self._items)
        self._items[item.var] = item
        space = _space(self.tape, item)
        clusters = self._with_room.setdefault(space, [])
        k = bisect_left(clusters, self._first(item, space))
        alone = isinstance(item, Scan | Scatter)  # they go element by element
        if k < len(clusters) and not alone:
            at = clusters[k]
        else:
            at = len(self.schedule.steps)
            self.schedule.steps.append(Cluster(space))
            if not alone:
                clusters.append(at)
        cluster = self.schedule.steps[at]
        assert isinstance(cluster, Cluster)
        cluster.items.append(item)
        if len(cluster.items) == MAX_CLUSTER:
            clusters.remove(at)
        self._home[item.var] = at
        if isinstance(item, Require):
            self._guards_until = at
        if isinstance(item, Pointwise):
            self._inside[item.var] = at

    def _first(self, item: Item, space: tuple[int, ...]) -> int:
        """The first step that an item may stand in: behind what it reads, unless it finds that in registers."""
        first = self._guards_until if isinstance(item, Require | Gather | Scatter) else 0
        first = max(first, self._clocks_until)  # what is timed is done in time
        for x in item.variables:
            if x in self._home:
                fits = isinstance(item, Map | Reduce | Join | Require) and self.tape.type_of(x).shape == space
                first = max(first, self._inside[x] if fits and x in self._inside else self._home[x] + 1)
        return first


def _drop_unused(schedule: Schedule) -> None:
    """Take out elementwise operations whose results are computed anew wherever they are wanted."""
    used = {x for _, x in paths(schedule.tape.results)} | set(schedule.views.values())
    for step in reversed(schedule.steps):
        if not isinstance(step, Cluster):
            used.update(operands(schedule.tape[step.var]))
            continue
        kept = []
        for item in reversed(step.items):
            if item.var in used or isinstance(item, Require | Gather):  # an index may be out of bounds
                kept.append(item)
                used.update(item.variables)
        step.items = kept[::-1]
    schedule.steps = [step for step in schedule.steps if not isinstance(step, Cluster) or step.items]


_RECOMPUTED = 40  # loads: what is dearer is written to memory


def _only_padded(tape: Tape) -> set[Variable]:
    """Elementwise results that nothing needs in memory but adjoints of slices."""
    stored = {x for _, x in paths(tape.results)}
    for _, op in tape:
        kernel = kernel_for(op) if isinstance(op, Call) else None
        if not isinstance(kernel, kernels.Map | kernels.Reduce | kernels.Unindex):
            stored.update(operands(op))
        elif isinstance(kernel, kernels.Map) and isinstance(op.type, ArrayType):
            stored.update(x for x in operands(op) if tape.type_of(x).shape != op.type.shape)
    return {var for var, _ in tape} - stored


def _recomputed(tape: Tape, pad: Pad, items: dict[Variable, Item]) -> Pad:
    """A pad that computes its operand where it is wanted, if that is cheaper than to write and read it."""
    source = pad.reads[0][0]
    shape = tape.type_of(source).shape
    inner: dict[Variable, Map] = {}
    leaves: dict[Variable, str] = {}
    pending, cost = [source], 0
    while pending:
        x = pending.pop()
        item = items.get(x)
        if x in inner:
            continue
        if not isinstance(item, Map) or tape.type_of(x).shape != shape:
            if x == source or isinstance(item, Pad | Gather):
                return pad
            leaves[x] = tape.type_of(x).name
            continue
        cost += item.kernel.cost
        if cost > _RECOMPUTED:
            return pad
        inner[x] = item
        pending.extend(item.variables)
    ordered = tuple(inner[x] for x in sorted(inner, key=lambda x: x.id))
    return replace(pad, reads=tuple(leaves.items()), inner=ordered)


def _space(tape: Tape, item: Item) -> tuple[int, ...]:
    x = item.var if isinstance(item, Pointwise | Join) else item.reads[0][0]
    shape = tape.type_of(x).shape
    assert isinstance(shape, tuple)
    return shape
