"""From which step on values are there, and up to which step they are read."""

from __future__ import annotations

from ...tape.operations import Variable, operands, paths
from ...tape.tape import Tape
from ..schedule.steps import Cluster, Schedule, Step, written


def reads(tape: Tape, step: Step) -> list[Variable]:
    """The variables that a step reads."""
    if isinstance(step, Cluster):
        return [x for item in step.items for x in item.variables]
    return list(operands(tape[step.var]))


def unused_after(schedule: Schedule) -> list[list[Variable]]:
    """Per step, the variables whose memory nothing looks at any more when it is done."""
    last: dict[Variable, int] = {}
    end = len(schedule.steps)
    for at, step in enumerate(schedule.steps):
        last.update((var, at) for var in (*written(step), *reads(schedule.tape, step)))
    last.update((var, end) for _, var in paths(schedule.tape.results))
    for view, base in reversed(schedule.views.items()):  # a view stands behind its base on the tape
        if view in last:
            last[base] = max(last.get(base, 0), last[view])
    out: list[list[Variable]] = [[] for _ in range(end + 1)]
    for var, at in last.items():
        out[at].append(var)
    return out[:end]


def read_outside(schedule: Schedule) -> set[Variable]:
    """What is read by another step than the one that computes it."""
    home = {var: step for step in schedule.steps for var in written(step)}
    out = {var for step in schedule.steps for var in reads(schedule.tape, step) if home.get(var) is not step}
    return out | set(schedule.views.values()) | {var for _, var in paths(schedule.tape.results)}
