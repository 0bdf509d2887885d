"""Loops that Python has unrolled while it was traced become loops again, before anything is differentiated.

What turns compute of arrays element by element and does not depend on earlier turns becomes an operation on whole
arrays in front of the loop, what is the same in all turns comes once, and the rest is the loop's body.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

from ..base.settings import config
from ..base.unwinding import go_on
from ..tape.loop import as_loop
from ..tape.operations import Operation
from ..tape.recorder import Recorder
from ..tape.tape import ALL
from .align import Aligned, UnalignedError, align
from .repeats import LEAST_SAVED, MIN_RECORDED, Run, pays, runs
from .rolling import Rolling, UnfitError
from .turns import write_loop

LONG_BYTES = 2**18
MAX_WORK = 10  # times that the operations of a tape are looked at, at most
TIMES = 1, 2, 3  # that a turn may do the same, with other numbers
MAX_PEELED = 2  # turns that are done before the loop, where the first read otherwise than the rest


def roll(source: Recorder) -> Recorder:
    """The same computation with loops, where there are any and ``config.roll`` is not off."""
    rolled = _rolled(source)
    if not any(region.every == ALL for region in rolled.tape.regions):
        return rolled
    return import_module(".outline", __package__).outlined(rolled)  # type: ignore[no-any-return]  # few programs need it


def _rolled(source: Recorder) -> Recorder:
    if not config.roll or (len(source.tape) < LEAST_SAVED and not any(map(_continues, source.tape.ops))):
        return source
    chosen = _chosen(source)
    for _ in range(MAX_WORK):
        if not chosen:
            break
        try:
            return Rolling(source, chosen, roll).run(write_loop)
        except UnfitError as error:
            chosen.remove(error.aligned)
    return source


def _continues(op: Operation) -> bool:
    loop = as_loop(op)
    return loop is not None and loop.continues is not None


def _is_long(value: Any) -> bool:
    """Whether what is computed with a value takes long beside what a loop saves."""
    return value is None or (isinstance(value, np.ndarray) and value.nbytes > LONG_BYTES)


def _chosen(source: Recorder) -> list[Aligned]:
    """Runs that are loops and do not overlap, in their order. What is the same may come several times in a turn."""
    chosen: list[Aligned] = []
    found = [*runs(source.tape)]
    for times in TIMES:
        several = [run._replace(period=run.period * times, turns=run.turns // times) for run in found if not run.said]
        _choose(source, found if times == 1 else several, chosen)
    return sorted(chosen, key=lambda aligned: aligned.run.start)


def _choose(source: Recorder, found: Iterable[Run], chosen: list[Aligned]) -> None:
    """Choose those that are loops, and do not overlap what is chosen."""
    work = MAX_WORK * len(source.tape)
    for run in found:
        go_on()
        if work < 0:
            break
        if any(run.start < other.run.end and other.run.start < run.end for other in chosen):
            continue
        if any(map(_is_long, source.values[run.start + 1 : run.start + run.period + 1])):
            continue
        for peeled in range(MAX_PEELED + 1):
            rest = run._replace(start=run.start + peeled * run.period, turns=run.turns - peeled)
            if not pays(rest.turns, rest.period, len(source.tape)) or rest.recorded < MIN_RECORDED:
                break
            work -= rest.stop - rest.start
            try:
                chosen.append(align(source.tape, rest))
                break
            except UnalignedError:
                pass
