"""Traced values among arguments: those that no rule can reach, and those that decide shapes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from ..base.containers import with_items
from ..base.dispatch import decided, find_held, find_traced
from ..base.ownership import is_library, named_module
from ..base.signatures import signature_of
from ..errors import LostDerivativeError, MissingRuleError
from ..registry.registry import Primitive
from ..tape.operations import user_site
from ..tape.show import name_of
from .tracer import kind_of_tracer


def held_in(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> LostDerivativeError:
    """The error for a traced value that stands where no rule can reach it."""
    named = [*enumerate(args), *kwargs.items()]
    key, value = next((pair for pair in named if find_held(pair[1:]) is not None), named[0])
    what = f"argument {key} of {name_of(fn)} is {kept_in(value)}"
    return LostDerivativeError(f"{user_site()}: {what} that holds a traced value, whose derivative would be lost "
                               "there. Pass the value itself as an argument")


def kept_in(value: Any) -> str:
    """What a function or object is, for messages."""
    function = isinstance(value, FunctionType | MethodType | functools.partial)
    return "a function" if function else f"an object of type {type(value).__name__}"


def positional(
    fn: Callable[..., Any], entry: Primitive | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Traced keyword arguments moved to their positions, where cotangents can reach them."""
    rule = entry.rule if entry is not None and entry.rule is not None else fn
    try:
        parameters = signature_of(fn).parameters
    except (TypeError, ValueError):
        parameters = inspect.signature(rule).parameters
    rest, out = dict(kwargs), list(args)
    for i, (name, parameter) in enumerate(parameters.items()):
        if i < len(args):
            continue
        if find_traced(rest.values()) is None:
            break
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            break
        default = None if parameter.default is parameter.empty else parameter.default
        out.append(rest.pop(name, default))
    if find_traced(rest.values()) is not None:
        known = is_library(named_module(fn))
        traced = [name for name, value in rest.items() if find_traced((value,)) is not None]
        raise MissingRuleError(f"{user_site()}: {name_of(fn)} has a traced value in the keyword argument(s) {traced}, "
                               "through which no rule can carry a derivative. "
                               + ("Rewrite the line with other functions." if known else "Pass it by position."))
    return tuple(out), rest


def extents(value: Any) -> Any:
    """An axis, a shape or a flag with its traced integers as guards; other numbers (``initial=``) stay traced."""
    if isinstance(value, tuple | list):
        return with_items(value, map(extents, value))
    return decided(value) if kind_of_tracer(value) in ("i", "u") or is_flag(value) else value


def is_flag(value: Any) -> bool:
    """Whether a value is traced, and true or false: NumPy asks which."""
    return kind_of_tracer(value) == "b" and not isinstance(value, np.ndarray)
