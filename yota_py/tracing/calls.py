"""Calls with traced arguments: to which trace they belong, and what is refused before they are recorded there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.dispatch import find_held, shadow
from ..base.ownership import is_library, named_module
from ..base.unwinding import Quiet, state
from ..registry.applied import missing_rule
from ..registry.registry import primitive_of
from ..tape.show import name_of
from .arguments import held_in, positional
from .foreign import Foreign, has_foreign, meet
from .stand_ins import suspended
from .tracer import elsewhere, heed_layout, leaked, tracers_in


def record(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Record a call with traced arguments in the innermost trace among them."""
    with state.unwatched:
        return _record(fn, args, kwargs)


def _record(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    entry = primitive_of(fn)
    if entry is not None and entry.immediate:  # shapes and dtypes only
        if entry.of_layout:
            heed_layout()
        with suspended:
            return fn(*shadow(args), **shadow(dict(kwargs)))
    if has_foreign((args, kwargs)) and (is_library(getattr(fn, "__module__", "numpy")) or Foreign in map(type, args)):
        return meet(fn, args, kwargs)
    tracers = tracers_in((args, kwargs))
    if not tracers:
        raise held_in(fn, args, kwargs)
    if not all(t._is_here() for t in tracers):
        working = [t._ledger for t in tracers if t._carries() and t._ledger.alive]
        if not working:  # arrays that another thread's trace watches
            return fn(*elsewhere(args), **elsewhere(dict(kwargs)))
        working[0].problems.append("it computes in threads of its own")
    trace: Any = max((t._ledger for t in tracers), key=lambda t: t.level)
    if entry is not None and entry.instead is not None:
        result = entry.instead(*args, **kwargs)
        if result is not NotImplemented:
            return result
    if entry is not None and entry.inline and entry.lowering is not None:
        trace.split((args, dict(kwargs)))  # looks where arrays come from
        result = entry.lowering(*args, **kwargs)
        return trace.of_values(fn, args, kwargs) if result is NotImplemented else result
    for tracer in tracers:
        if not tracer._ledger.alive:
            raise leaked(tracer, name_of(fn))
    no_rule = entry is None or (entry.rule is None and not entry.nondiff and entry.lowering is None)
    if no_rule and trace.derived and any(t._carries() for t in tracers):
        if isinstance(fn, np.ufunc) or named_module(fn) == "_operator":
            with Quiet():
                fn(*shadow(args), **shadow(dict(kwargs)))  # raises what NumPy or Python raises: 1.0 << 1
        raise missing_rule(fn)
    if find_held((args, kwargs)) is not None:
        raise held_in(fn, args, kwargs)
    differentiable = entry is not None and not no_rule and not entry.nondiff
    if kwargs and differentiable and any(t._carries() for t in tracers_in(dict(kwargs))):
        args, kwargs = positional(fn, entry, args, kwargs)
    if entry is not None and entry.decides is not None:
        bool(entry.decides(*args))
    result = trace.record(fn, args, kwargs)
    if entry is not None and entry.raises is not None:
        bool(entry.raises(result, *args))  # a decision, if it depends on what is traced
    return result
