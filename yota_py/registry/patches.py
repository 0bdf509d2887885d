"""What stands in, while a trace runs, for functions, classes and objects that do not notice traced values."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from ..base.dispatch import dispatching, original, originals
from .registry import listeners

# Functions and methods that do not dispatch on their arguments are replaced while a trace is active: (module or class,
# name) -> stand-in.
patched: dict[tuple[ModuleType | type, str], Callable[..., Any]] = {}
# What tells of the arguments of a method whether its stand-in is needed; of all others, whether there are traced ones.
finders: dict[Callable[..., Any], Callable[..., bool]] = {}

# What a module shows where the user's code calls what it has under a name, while a trace runs: by the class of that,
# what makes it (of that, and what to call in the end), or by its identity, itself and what is shown.
makers: dict[type, Callable[[Any, Callable[..., Any]], Any]] = {}
shown: dict[int, tuple[Any, Any]] = {}
shown_always: set[int] = set()  # the identities of what is shown wherever the user's code asks for it
# By the code that asks for a plain array, how it is made of a traced one, where contents alone are not enough.
conversions: dict[CodeType, Callable[[Any], np.ndarray]] = {}


def patch(module: ModuleType, name: str, stand_in: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A stand-in for ``module.name`` that notices traced arguments; it takes that place while a trace is active.

    For functions that do not dispatch by themselves (``math.sin``, ``scipy.special.logsumexp``). By default the
    stand-in is a primitive that computes the same: register its rule. Returns the stand-in.
    """
    again = (module, name) in patched
    patched[module, name] = stand_in = stand_in or dispatching(original(getattr(module, name)))
    if again:
        for forget in listeners:
            forget()
    return stand_in


def show(value: Any, stand_in: Any, *, always: bool = False) -> None:
    """Let modules show ``stand_in`` for a class, function or object where it is called, or ``always``."""
    originals[id(stand_in)] = value
    shown[id(value)] = value, stand_in  # for good: identities are not to be used again
    if always:
        shown_always.add(id(stand_in))
