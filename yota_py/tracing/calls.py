"""Calls with traced arguments: to which trace they belong, and what is refused before they are recorded there."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from ..base.containers import mapped, with_items
from ..base.dispatch import are_plain, decided, find_held, find_traced, shadow
from ..base.ownership import in_rules, is_library, named_module
from ..base.settings import config
from ..base.signatures import signature_of
from ..base.types import ArrayType, TupleType
from ..base.unwinding import Quiet, state
from ..errors import LostDerivativeError, MissingRuleError
from ..registry.applied import SAVING, missing_rule, own_body
from ..registry.constants import as_constant
from ..registry.registry import Primitive, primitive_of
from ..tape.operations import user_site
from ..tape.show import name_of
from .foreign import Foreign, foreigners, innermost, meet
from .quick import quickly
from .selections import applied
from .stand_ins import suspended
from .tracer import Tracer, heed_layout, kind_of_tracer, leaked, tracers_in


def record(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Record a call with traced arguments in the innermost trace among them."""
    if not kwargs:
        with state.unwatched:
            result = quickly(fn, args, sys._getframe(1))
        if result is not None:
            return result
    return at_length(fn, args, kwargs)


def at_length(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """``record``, where the short way is not to be gone."""
    entry, plain = primitive_of(fn), are_plain(args)
    if not plain:
        with state.unwatched:
            result = applied(fn, args, kwargs)
        if result is not NotImplemented:
            return result
    if entry is not None and entry.body is not None:
        if state.traces and not (entry.users or isinstance(entry.body, FunctionType)):  # users' are walked
            kind = type(entry.body).__name__
            state.traces[-1].problems.append(f"the body of {entry.name} is a {kind}, which cannot be watched")
        if not entry.users and (tracers := tracers_in((args, kwargs))):
            innermost(tracers).split((args, dict(kwargs)))  # looks where arrays come from
        return entry.body(*args, **kwargs)
    with state.unwatched:
        return _record(fn, entry, args, kwargs, plain=plain and not kwargs)


def _record(
    fn: Callable[..., Any], entry: Primitive | None, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, plain: bool
) -> Any:
    if entry is not None and entry.immediate:  # shapes and dtypes only
        if entry.of_layout:
            heed_layout()
        with suspended:
            return fn(*shadow(args), **shadow(dict(kwargs)))
    if not plain:
        of_library = is_library(getattr(fn, "__module__", "numpy")) or Foreign in map(type, args)
        if of_library and next(foreigners((args, kwargs)), None) is not None:
            return meet(fn, args, kwargs)
    tracers = [x for x in args if issubclass(type(x), Tracer)] if plain else tracers_in((args, kwargs))
    if not tracers:
        raise held_in(fn, args, kwargs)
    here = threading.get_ident()
    if not all(t._ledger.thread == here for t in tracers):
        working = [t._ledger for t in tracers if t._carries() and t._ledger.alive]
        if not working:  # arrays that another thread's trace watches
            return fn(*elsewhere(args), **elsewhere(dict(kwargs)))
        working[0].problems.append("it computes in threads of its own")
    trace = tracers[0]._ledger
    if any(t._ledger is not trace for t in tracers):
        trace = innermost(tracers)
    if entry is not None and entry.instead is not None:
        result = entry.instead(*args, **kwargs)
        if result is not NotImplemented:
            return result
    if entry is not None and entry.inline and entry.lowering is not None:
        trace.split((args, dict(kwargs)))  # looks where arrays come from
        result = entry.lowering(*args, **kwargs)
        return trace.of_values(fn, args, kwargs) if result is NotImplemented else _known(result)
    for tracer in tracers:
        if not tracer._ledger.alive:
            raise leaked(tracer, name_of(fn))
    no_rule = entry is None or (entry.rule is None and not entry.nondiff and entry.lowering is None)
    if no_rule and trace.derived and any(t._carries() for t in tracers):
        if (body := own_body(fn, entry)) is not None:
            return body(*args, **kwargs)
        if isinstance(fn, np.ufunc) or named_module(fn) == "_operator":
            with Quiet():
                fn(*shadow(args), **shadow(dict(kwargs)))  # raises what NumPy or Python raises: 1.0 << 1
        return _without_rule(fn, args, kwargs, trace)
    if not plain and find_held((args, kwargs)) is not None:
        raise held_in(fn, args, kwargs)
    differentiable = entry is not None and not no_rule and not entry.nondiff
    if kwargs and differentiable and any(t._carries() for t in tracers_in(dict(kwargs))):
        args, kwargs = positional(fn, entry, args, kwargs)
    elif kwargs and not args and entry is not None and not entry.users:
        args, kwargs = _first_by_position(fn, kwargs)
    if entry is not None and entry.decides is not None:
        bool(entry.decides(*args))
    result = trace.record(fn, args, kwargs)
    if entry is not None and entry.raises is not None:
        bool(entry.raises(result, *args))  # a decision, if it depends on what is traced
    return result


def _without_rule(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], trace: Any) -> Any:
    """The call of a function that has no rule. It does no harm where nothing flows back to it, if it gives nothing but
    numbers and arrays, which is what its pullback refuses."""
    if config.missing == "lazy" and fn not in SAVING and find_traced(kwargs) is None and find_held(args) is None:
        result = trace.record(fn, args, kwargs)
        if _is_of_numbers(trace.tape.ops[-1].type):
            return result
    raise missing_rule(fn)


def _is_of_numbers(t: Any) -> bool:
    return isinstance(t, ArrayType) or (isinstance(t, TupleType) and all(map(_is_of_numbers, t.items)))


def elsewhere(structure: Any) -> Any:
    """Arguments with the tracers of other threads replaced by their values."""
    if isinstance(structure, Tracer):
        return structure if structure._is_here() else shadow(structure)
    return mapped(elsewhere, structure)


def _known(result: Any) -> Any:
    """Plain arrays that follow from decisions, such as those of ``nonzero``, as they stand on the tape."""
    if type(result) is np.ndarray:
        return result if in_rules() else as_constant(result)
    return tuple(map(_known, result)) if type(result) is tuple else result


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


def _first_by_position(
    fn: Callable[..., Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:  # fmt: skip
    """The first argument moved to its position, as kernels know it."""
    with suppress(TypeError, ValueError):
        first = next(iter(signature_of(fn).parameters.values()))
        if first.name in kwargs and first.kind is first.POSITIONAL_OR_KEYWORD:
            rest = dict(kwargs)
            return (rest.pop(first.name),), rest
    return (), kwargs


def extents(value: Any) -> Any:
    """An axis, a shape or a flag with its traced integers as guards; other numbers (``initial=``) stay traced."""
    if isinstance(value, tuple | list):
        return with_items(value, map(extents, value))
    return decided(value) if kind_of_tracer(value) in ("i", "u") or is_flag(value) else value


def is_flag(value: Any) -> bool:
    """Whether a value is traced, and true or false: NumPy asks which."""
    return kind_of_tracer(value) == "b" and not isinstance(value, np.ndarray)
