"""Which function stands on tapes where another one is called: the one to which a user's rule is given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import MethodType, ModuleType
from typing import Any

import numpy as np

from ..base.dispatch import dispatching, not_plain, original, plain
from ..base.ownership import is_library, named_module
from ..tape.show import name_of
from .patches import patch, patched
from .registry import entries, listeners, load_pending

_DISPATCHERS = (np.ufunc, type(np.sum))


def recorded(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself if it notices traced arguments, else what does so in its place; a function of a library gets
    a stand-in.

    Raises TypeError for a plain function of the user's, which is traced through: a rule would not be asked.
    """
    load_pending(fn)  # whose rules are not to take the place of those that are given now
    fn = not_plain(original(fn))
    if plain(fn) is not fn or isinstance(fn, _DISPATCHERS) or fn in entries:
        return fn
    module = named_module(fn)
    places = [] if isinstance(fn, type) or module == "builtins" or not is_library(module) else [*_places(fn)]
    if not places:
        raise TypeError(_no_operation(fn))
    stand_in: Callable[..., Any] = dispatching(fn)
    for owner, name in places:
        patch(owner, name, stand_in)
    for forget in listeners:  # what was traced through it
        forget()
    return stand_in


def _places(fn: Callable[..., Any]) -> Iterator[tuple[ModuleType | type, str]]:
    """Where a library has a function under its name."""
    yield from (place for place in patched if original(getattr(*place)) is fn)
    name, package = getattr(fn, "__name__", ""), named_module(fn).partition(".")[0]
    for module in [*sys.modules.values()]:
        is_near = isinstance(module, ModuleType) and module.__name__.partition(".")[0] == package
        if is_near and (module, name) not in patched and original(vars(module).get(name)) is fn:
            yield module, name


def _no_operation(fn: Callable[..., Any]) -> str:
    name, path = name_of(fn), getattr(fn, "__qualname__", "").rpartition("<locals>.")[2]
    if isinstance(fn, MethodType) or "." in path:
        return (f"{name} is a method, whose calls are traced through: a rule would not be asked. Write a function that "
                "calls it, make that one operation with yota_py.primitive, and give it the rule")  # fmt: skip
    return (f"{name} is no operation: its calls are traced through, and a rule would not be asked. Make it one, "
            f"{name} = yota_py.primitive({name}), or write @yota_py.primitive directly in front of it")  # fmt: skip
