"""Texts of traced values: decisions, as they may be compared."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from ..base.callsites import called_name
from ..base.dispatch import shadow
from ..base.unwinding import state


def text_of(tracer: Any, test: Callable[[Any], str], frame: FrameType) -> str:
    """What ``test`` makes of a traced value for a frame: a decision, but for a ``print`` that nobody hears of and for a
    tracer that outlived its trace.

    Such a ``print`` shows as well the variable of a value that carries a derivative.
    """
    trace = tracer._ledger
    if not trace.alive:
        return test(shadow(tracer))
    if called_name(frame) != "print":
        text: str = tracer._decide(test)
        if state.traces:
            state.traces[0].texts.append(text)
        return text
    trace.problems.append("it prints")
    return f"{test(shadow(tracer))} ({tracer._current()[0]})" if tracer._carries() else test(shadow(tracer))
