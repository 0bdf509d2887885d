"""How our own functions notice traced arguments, as NumPy's do through ``__array_function__``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

originals: dict[int, Any] = {}  # by the identities of their stand-ins (patching.py), which live as long as the process


def is_traced(value: Any) -> bool:
    """Whether a value is a tracer (tracers say so by their class, which is defined further up)."""
    return getattr(type(value), "__yota_record__", None) is not None


def original(fn: Any) -> Any:
    """The function in whose place a stand-in is found while any thread traces; every other function is itself.

    Whoever asks which function it is that a module has under a name, rather than to call it, asks this.
    """
    return originals.get(id(fn), fn)


def mode_of(fn: Any) -> Any:
    """What ``value_and_grad``, ``gradient`` or ``jit`` has made of a function, if ``fn`` is its result; else ``None``.

    A function that wraps such a result with ``functools.wraps`` has all its attributes, but not its code.
    """
    namespace = getattr(fn, "__globals__", None)
    if namespace is None or not str(namespace.get("__name__")).startswith("yota_py."):
        return None
    return getattr(getattr(fn, "__yota_cache__", None), "mode", None)


def find_traced(values: Any, depth: int = 3) -> Any:
    """A traced value among these or in tuples, lists, dicts and slices in them; ``None`` if there is none."""
    for value in values:
        if is_traced(value):
            return value
        if depth:
            if isinstance(value, tuple | list):
                found = find_traced(value, depth - 1)
            elif isinstance(value, dict):
                found = find_traced(value.values(), depth - 1)
            elif isinstance(value, slice):
                found = find_traced((value.start, value.stop, value.step), 0)
            else:
                continue
            if found is not None:
                return found
    return None


def decided(value: Any) -> Any:
    """The plain value behind a traced one, remembered on the tape as a decision: for what determines a shape."""
    if is_traced(value):
        return value._decide(decided)
    if isinstance(value, tuple | list):
        return type(value)(map(decided, value))
    return np.array(value) if isinstance(value, np.ndarray) else value  # a copy: the array may change later


def dispatching(fn: F) -> F:
    """Makes a function record itself as one operation when an argument is traced."""

    @wraps(fn)
    def primitive(*args: Any, **kwargs: Any) -> Any:
        traced = find_traced(args)
        if traced is None and kwargs:
            traced = find_traced(kwargs.values())
        if traced is None:
            return fn(*args, **kwargs)
        return type(traced).__yota_record__(primitive, args, kwargs)

    return primitive  # type: ignore[return-value]
