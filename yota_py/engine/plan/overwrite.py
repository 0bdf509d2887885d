"""Which results are written over the inputs that they replace: where nothing fails, or reads the old values, after it.

A program that refuses a call must have left its inputs alone. So these results are computed by the last steps, after
all that may find a value that it makes nothing of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ...base.types import ArrayType
from ...tape.operations import Variable, paths
from ..schedule.steps import (
    Accumulate,
    Assign,
    Cluster,
    Concatenate,
    Gather,
    Join,
    Map,
    Matmul,
    Reduce,
    Repeat,
    Require,
    Scatter,
    Schedule,
    Step,
    written,
)
from .lifetimes import reads

Look: TypeAlias = tuple[object, ...]  # at elements by these indices, in axes of these lengths


def overwritten(schedule: Schedule, wanted: Mapping[Variable, Variable]) -> dict[Variable, Variable]:
    """Of results and the inputs that they are to replace, those that can be written there, with what they are made
    from, step by step, in the same memory."""
    if not wanted:
        return {}
    search = _Search(schedule)
    return {x: given for result, given in wanted.items() for x in search.chain(result, given)}


class _Search:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.tape = schedule, schedule.tape
        self.home = {var: at for at, step in enumerate(schedule.steps) for var in written(step)}
        self.sure_from = self._sure_from()
        self.results = Counter(x for _, x in paths(self.tape.results))
        self.reads: dict[Variable, list[int]] = {}  # the steps that read an array, also as a view
        for at, step in enumerate(schedule.steps):
            for base in dict.fromkeys(base for x in reads(self.tape, step) for base in self._bases(x)):
                self.reads.setdefault(base, []).append(at)
        self.looked_at = {base for x in self.results for base in self._bases(x)}

    def _bases(self, x: Variable | None) -> Iterator[Variable]:
        """An array, and those that it is a view of."""
        while x is not None:
            yield x
            x = self.schedule.views.get(x)

    def _sure_from(self) -> int:
        """The step from which on none fails: those before have looked whether indices are in bounds."""
        seen: set[Look] = set()
        first = 0
        for at, step in enumerate(self.schedule.steps):
            looks = [*self._looks(step)]
            if not _is_sure(step) or not seen.issuperset(looks):
                first = at + 1
            seen.update(looks)
        return first

    def _looks(self, step: Step) -> Iterator[Look]:
        """Where a step reads or adds by indices."""
        items = step.items if isinstance(step, Cluster) else [step.scatter] if isinstance(step, Accumulate) else []
        for item in items:
            if isinstance(item, Gather | Scatter):
                array = item.reads[0][0] if isinstance(item, Gather) else item.var
                array = step.var if isinstance(step, Accumulate) else array
                yield *item.reads[1:], item.pick.indexed(self.tape.type_of(array).shape)

    def chain(self, result: Variable, given: Variable) -> list[Variable]:
        """What is written into the memory of an input, from the last to the first; nothing if that cannot be."""
        t = self.tape.type_of(given)
        if self.tape.type_of(result) != t or not isinstance(t, ArrayType) or t.kind != "array" or not t.size:
            return []
        if self.results[result] != 1 or given in self.looked_at or result in self.schedule.views:
            return []
        chain = [result]
        while (step := self._step(chain[-1])) is not None:
            at = self.home[chain[-1]]
            if isinstance(step, Cluster):
                fits = self._goes_along(step, chain[-1], given)
                return chain if fits and self._is_last_to_read(given, at) else []
            if not isinstance(step, Assign | Accumulate):
                return []
            values = step.scatter.variables if isinstance(step, Accumulate) else [step.value]
            if any(given in self._bases(x) for x in values if isinstance(x, Variable)):
                return []
            if step.x not in self.home:
                return chain if self._is_last_to_read(given, at) else []
            if self.reads[step.x][-1] > at or step.x in self.looked_at or self.tape.type_of(step.x) != t:
                return []
            chain.append(step.x)
        return []

    def _step(self, var: Variable) -> Step | None:
        """The step that computes it, if none fails from there on."""
        at = self.home.get(var, -1)
        return self.schedule.steps[at] if at >= self.sure_from else None

    def _is_last_to_read(self, given: Variable, at: int) -> bool:
        return all(k <= at for k in self.reads.get(given, ()))

    def _goes_along(self, step: Cluster, var: Variable, given: Variable) -> bool:
        """Whether a loop nest reads each element just before it writes there."""
        if step.space != self.tape.type_of(given).shape:
            return False
        if not any(isinstance(item, Map) and item.var == var for item in step.items):
            return False
        return not any(given in self._bases(x) and not (x == given and isinstance(item, Map | Reduce | Join))
                       for item in step.items for x in item.variables)  # fmt: skip


def _is_sure(step: Step) -> bool:
    """Whether a step fails only where an index leaves its bounds."""
    if isinstance(step, Cluster):
        return not any(isinstance(item, Require) for item in step.items)
    if isinstance(step, Repeat):
        return all(map(is_certain, step.schedule.steps))
    return isinstance(step, Matmul | Concatenate | Assign | Accumulate)


def is_certain(step: Step) -> bool:
    """Whether there are no values of which a step makes nothing."""
    if isinstance(step, Accumulate):
        return False
    if isinstance(step, Cluster) and any(isinstance(item, Gather | Scatter) for item in step.items):
        return False
    return _is_sure(step)
