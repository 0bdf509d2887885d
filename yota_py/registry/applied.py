"""Rules applied to a call: run on values, written with simpler primitives, or found missing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np

from ..base.containers import items_of
from ..base.dispatch import not_plain, original, plain
from ..base.ownership import named_module
from ..errors import MissingRuleError, RuleError
from ..tape.operations import Site, user_site
from ..tape.show import name_of
from .partials import Rule, Wanted
from .registry import Primitive, primitive_of
from .tangents import filled, fitted, outline


def written_out(entry: Primitive, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A call written with simpler primitives; ``NotImplemented`` if there is no such form for these arguments."""
    if entry.lowering is None:
        return NotImplemented
    try:
        return entry.lowering(*args, **kwargs)
    except MissingRuleError:  # of a rule that is its own lowering
        return NotImplemented
    except TypeError:
        if not _refusal(entry.lowering, args, kwargs):
            raise
        return NotImplemented  # a keyword that it does not know


def apply_rule(
    fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], site: Site | None, wanted: Wanted = None
) -> tuple[Any, Any]:
    """Run the rule of ``fn`` on values; returns ``(y, pullback)``.

    What a pullback of the library gives is fitted to the arguments; it leaves out what is not wanted.
    """
    entry = primitive_of(fn)
    if entry is None or entry.rule is None:
        own = own_body(fn, entry)
        if own is None:
            raise missing_rule(fn, site)
        return _pullback_of(own, args, kwargs)
    try:
        result = entry.rule(wanted, *args, **kwargs) if entry.selective else entry.rule(*args, **kwargs)
    except TypeError:
        if error := _refusal(entry.rule, args, kwargs):
            parameters = inspect.signature(entry.rule).parameters.values()
            takes = inspect.Signature([p.replace(annotation=p.empty) for p in parameters])
            raise MissingRuleError(
                f"{site or user_site()}: the rule of {entry.name} does not take these arguments: {error}. Rewrite the "
                f"call with the arguments that it takes: {str(takes)[1:-1]}"
            ) from None
        raise
    if result is NotImplemented and (body := plain(fn)) is not fn:
        return _pullback_of(body, args, kwargs)
    if not (isinstance(result, tuple) and len(result) == 2 and callable(result[1])):
        raise RuleError(
            f"{site or user_site()}: the rule of {entry.name} must return (y, pullback), not {type(result).__name__}"
        )
    y, pullback = result
    if not entry.users_rule:
        kept = [outline(x) if wanted is None or i in wanted else None for i, x in enumerate(args)]  # no arrays
        return y, lambda dy: fitted(entry.name, pullback(dy), kept)
    return y, pullback if items_of(y) is None else lambda dy: pullback(filled(dy, y))


def own_body(fn: Any, entry: Primitive | None) -> Callable[..., Any] | None:
    """The user's function behind a primitive that has neither a rule nor is declared to have no derivative: it has that
    of its body."""
    body = plain(fn)
    if entry is not None and not (entry.users and entry.rule is None and entry.body is None and not entry.nondiff):
        return None
    return None if body is fn else body


def has_no_rule(fn: Any, entry: Primitive | None) -> bool:
    """Whether there is nothing that gives a derivative of a function."""
    return (entry is None or entry.rule is None) and own_body(fn, entry) is None


def _pullback_of(body: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    return import_module("yota_py.cache.pulling").pulled(body, args, kwargs)  # type: ignore[no-any-return]


def rule_of(fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """What ``rrule.of`` gives."""
    function = not_plain(original(fn))

    @wraps(function)
    def rule(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return apply_rule(function, args, kwargs, None)

    return rule


def _refusal(rule: Rule, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Why a rule does not take these arguments, if so."""
    try:
        inspect.signature(rule).bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""


# Functions that are called for what they do with the values.
SAVING = (np.save, np.savetxt, np.savez, np.savez_compressed)


def missing_rule(fn: Any, site: Site | None = None) -> MissingRuleError:
    """The error for a function that nobody wrote a rule for."""
    name, where = name_of(fn), str(site or user_site())
    module = named_module(fn)
    full = f"{module}.{name}" if module else name
    if fn in SAVING:
        return MissingRuleError(f"{where}: {full} was called with a traced value, whose derivative would be lost in "
                                f"a file. Save the value alone: {name}(..., yota_py.stop_gradient(x))")
    if not all(part.isidentifier() for part in full.split(".")):  # of np.frompyfunc, a lambda
        name = full = "f"
        where = f"{where}: f is {name_of(fn)}"
    return MissingRuleError(
        f"{where}: no rule for {full}, which was called with a traced value. Three ways on:\n"
        f"  1. write its derivative:    @yota_py.rrule({full})\n"
        f"                              def _(x, ...): return {name}(x, ...), lambda dy: (..., )\n"
        f"  2. if nothing flows back:   yota_py.nondiff({full}), or pass yota_py.stop_gradient(x)\n"
        f"  3. rewrite the line with functions that have rules (yota_py.primitives() lists them)."
    )
