"""Gradients of functions that store something besides: attributes (``self.hidden = h``), items, global names.

A program of a gradient has no effects. Once a trace has seen that the function has some, its calls go through another
cache, as ``jit`` would make one of a function that computes value and gradients; effects are a business of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..base.signatures import wraps
from ..errors import CompileError
from .functions import FunctionCache, cache_for
from .modes import Request
from .whole import Whole


def with_effects(
    cache: FunctionCache, f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any = None
) -> Any:
    """The result of a call of a gradient whose function stores something."""
    if seed is not None:
        return cache(f, args, kwargs, seed)
    step = _step(cache, f)
    return _cache_of(cache, step)(step, args, kwargs, None)


def compile_any(cache: FunctionCache, call: Request) -> None:
    """Compile a gradient for these arguments, with or without effects; raises ``CompileError``."""
    if not cache.stores:
        try:
            cache.compile(call)
            return
        except CompileError:
            if not cache.stores or call.seed is not None:
                raise
    step = _step(cache, call.f)
    _cache_of(cache, step).compile(Request(step, call.args, call.kwargs, objects=True))


def cache_with_effects(cache: FunctionCache, f: Callable[..., Any]) -> FunctionCache | None:
    """That of the gradient as a step, if the function stores something."""
    return _cache_of(cache, _step(cache, f)) if cache.stores else None


def _step(cache: FunctionCache, f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes what the cache is for: of ``f``, and so of what it wraps."""
    mode = cache.mode

    @wraps(f)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        return mode.interpret(Request(f, args, kwargs))

    value_and_gradient.__yota_cache__ = cache  # type: ignore[attr-defined]
    return value_and_gradient


def _cache_of(cache: FunctionCache, step: Callable[..., Any]) -> FunctionCache:
    return cache_for(step, Whole(f"{cache.mode.purpose} and what it stores"))
