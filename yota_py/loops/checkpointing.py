"""``checkpoint``: what is computed again on the way back, rather than kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ..base.signatures import wraps
from ..base.tracebacks import folded
from ..base.types import is_integer
from ..base.unwinding import Passing, state
from ..tape.operations import user_site
from ..tape.tape import ALL, Region
from ..tracing.stand_ins import noticing

F = TypeVar("F", bound=Callable[..., Any])


@folded
def checkpoint(f: F | None = None, every: int | str | None = None) -> Any:
    """The function ``f``, of which gradients keep less in memory, and compute that again when it is wanted.

    Without ``every``, nothing of what ``f`` computes is kept but its arguments and results: it runs once more on the
    way back. With ``every``, loops in ``f`` (of Python, or a ``scan``) keep what they carry every so many turns, an
    integer of at least 1, and run the turns in between again; ``"sqrt"`` stands for the root of the number of turns.
    Then n turns need memory for about n / every + every of them instead of n, and one more run of the loop. Of loops in
    loops, this is said of the outer ones. Where ``checkpoint`` functions call each other, what the outermost says
    counts.

    Without ``f``, it is a decorator: ``@checkpoint(every=100)``.

    Values and derivatives are those of ``f``. Memory is saved where programs are compiled (and, in a ``scan`` of many
    turns, where they are not): see ``config.compile``. What takes decisions on traced values, prints, draws random
    numbers, or has no kernel (``explain`` lists that), is kept.

    Raises ``TypeError`` for an ``f`` that is no function or an ``every`` that is neither a number nor ``"sqrt"``,
    ``ValueError`` for one below 1.

    >>> import numpy as np
    >>> from yota_py import checkpoint, grad, scan
    >>> def decay(rate, x):
    ...     last, _ = scan(lambda x, _: (x - 0.001 * rate * x, None), x, None, length=10_000)
    ...     return np.sum(last)
    >>> _, (by_rate, _) = grad(checkpoint(decay, every="sqrt"), 0.1, np.ones(3))
    >>> round(by_rate, 4)
    -11.0369
    """
    if f is None:
        _check(every)
        return partial(checkpoint, every=every)
    if not callable(f):
        raise TypeError(f"{user_site()}: checkpoint wants a function; got {type(f).__name__}")
    _check(every)

    @wraps(f)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        run = noticing(f) if state.traces else f
        if not state.traces or state.every is not None:
            return run(*args, **kwargs)
        with _Checkpointing(every):
            return run(*args, **kwargs)

    checkpointed.__yota_made__ = f, partial(checkpoint, every=every)  # type: ignore[attr-defined]
    return checkpointed


def _check(every: Any) -> None:
    if every is None or (isinstance(every, str) and every == "sqrt"):
        return
    if not is_integer(every):
        raise TypeError(f'{user_site()}: checkpoint: every is a number of turns, or "sqrt"; got {every!r}')
    if every < 1:
        raise ValueError(f"{user_site()}: checkpoint: every is a number of turns, at least 1; got {every}")


class _Checkpointing(Passing):
    """What is recorded in the block is a region of each tape."""

    def __init__(self, every: Any) -> None:
        self._every, self._before = ALL if every is None else every, state.every
        self._begun = [(trace.tape, len(trace.tape)) for trace in state.traces]

    def begin(self) -> None:
        state.every = self._every

    def end(self) -> None:
        for tape, start in self._begun:
            if len(tape) > start:
                tape.regions.append(Region(start, len(tape), self._every))
        state.every, self._begun = self._before, []
