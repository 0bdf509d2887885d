"""Rules of elementwise functions, made of their partial derivatives."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Container, Sequence
from inspect import Parameter, Signature, signature
from itertools import chain, repeat
from typing import Any

import numpy as np

from ..base.types import ArrayType, is_inexact, typeof
from ..errors import RuleError
from ..tape.show import name_of
from . import tangents
from .tangents import MISSING, astype, cast, conj, operand, strong_multiply, unbroadcast

Pullback = Callable[[Any], Sequence[Any]]
Rule = Callable[..., tuple[Any, Pullback]]
Wanted = Container[int] | None  # the arguments whose cotangents are wanted; ``None`` for all

FORMULA = "the formula of {} for argument {}"
_ANY = (Parameter("args", Parameter.VAR_POSITIONAL), Parameter("kwargs", Parameter.VAR_KEYWORD))


def is_wanted(i: int, x: Any, wanted: Wanted) -> bool:
    """Whether a cotangent is to be computed."""
    return tangents.is_inexact(x) if wanted is None else i in wanted


def check_vjps(fn: Callable[..., Any], vjps: Sequence[Any]) -> None:
    for i, vjp in enumerate(vjps):
        if not (vjp is None or vjp is MISSING or callable(vjp)):
            raise TypeError(f"the formula of {name_of(fn)} for argument {i} is {vjp!r}, a {type(vjp).__name__}; give a "
                            "function (dy, y, *args, **kwargs) -> dx, None or MISSING")
    takes = _argument_counts(fn)
    if not vjps or (takes is not None and len(vjps) > takes[-1]):
        raise RuleError(f"vjps has {len(vjps)} formula{'s' * (len(vjps) != 1)} for {name_of(fn)}, which takes "
                        f"{'any number' if takes is None else _counts(takes)}: give one for each argument that has a "
                        "derivative (None where there is none)")


def rule_of_vjps(fn: Callable[..., Any], vjps: Sequence[Any], *, users: bool) -> Rule:
    """The rule of a function with one function ``(dy, y, *args, **kwargs) -> dx`` per argument.

    What ``users`` formulas give gets the dtype of the argument; the library's are fitted in shape too, when applied.
    """
    takes = _taken(next(filter(callable, vjps), None))

    def rule(wanted: Wanted, /, *args: Any, **kwargs: Any) -> tuple[Any, Pullback]:
        if kwargs:
            takes.bind(*args, **kwargs)  # raises TypeError for a keyword that the formulas do not know
        if isinstance(fn, np.ufunc):
            args = tuple(map(operand, args))
        y = fn(*args, **kwargs)

        def pullback(dy: Any) -> Sequence[Any]:
            dxs: list[Any] = [None] * len(args)
            for i, (vjp, x) in enumerate(zip(chain(vjps, repeat(MISSING)), args, strict=False)):
                if vjp is not None and is_wanted(i, x, wanted):
                    dx = vjp if vjp is MISSING else _called(FORMULA, fn, i, vjp, "dy, y", dy, y, *args, **kwargs)
                    dxs[i] = cast(dx, x) if users else dx
            return dxs

        return y, pullback

    rule.__signature__ = takes  # type: ignore[attr-defined]
    rule.vjps = () if users else tuple(vjps)  # type: ignore[attr-defined]
    return rule


def _taken(formula: Any) -> Signature:
    """The arguments that a formula takes after ``dy`` and ``y``; any if it does not say."""
    try:
        parameters = [] if formula is None else [*signature(formula).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    variable = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return Signature([p for i, p in enumerate(parameters or _ANY) if i > 1 or p.kind in variable])


def _called(
    what: str, fn: Any, i: int, formula: Callable[..., Any], first: str, /, *args: Any, **kwargs: Any
) -> Any:
    """What a formula of a function for an argument gives; raises ``RuleError`` if it does not take these arguments."""
    try:
        return formula(*args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # an error of its own
        said = f"is called with {len(args)}, ({first}, *args): {error}"
        raise RuleError(f"{what.format(name_of(fn), i)} {said}") from None


def rule_of_partials(fn: Callable[..., Any], partials: Sequence[Any]) -> Rule:
    calls = any(map(callable, partials))

    def rule(wanted: Wanted, /, *args: Any) -> tuple[Any, Pullback]:
        if len(args) != len(partials):
            raise _miscounted(fn, partials, f"is called with {len(args)}")
        y = fn(*args)

        def pullback(dy: Any) -> Sequence[Any]:
            floats: Sequence[Any] = [_floating(x, y) for x in args] if calls else ()
            return tuple([
                unbroadcast(_chain(fn, i, dy, partial, y, floats), x)
                if partial is not None and (wanted is None or i in wanted) and is_inexact(x) else None
                for i, (partial, x) in enumerate(zip(partials, args, strict=True))
            ])  # fmt: skip

        return y, pullback

    rule.__signature__ = Signature(_ANY[:1])  # type: ignore[attr-defined]
    rule.partials = tuple(partials)  # type: ignore[attr-defined]
    return rule


def check_partials(fn: Callable[..., Any], partials: Sequence[Any]) -> None:
    for i, partial in enumerate(partials):
        if not (partial is None or callable(partial) or _is_factor(partial)):
            raise TypeError(f"the partial derivative of {name_of(fn)} in argument {i} is {partial!r}, a "
                            f"{type(partial).__name__}; give a function (y, *args) -> dy/dx, a number, or None")
        takes = _argument_counts(partial) if callable(partial) else None
        if takes is not None and len(partials) + 1 not in takes:
            raise RuleError(f"the partial derivative of {name_of(fn)} in argument {i} takes {_counts(takes)}, and is "
                            f"called with {len(partials) + 1}: (y, *args)")
    takes = _argument_counts(fn)
    if takes is not None and len(partials) not in takes:
        raise _miscounted(fn, partials, f"takes {_counts(takes)}")


def _is_factor(partial: Any) -> bool:
    return isinstance(partial, int | float | complex | np.number) and not isinstance(partial, bool)


def _argument_counts(fn: Callable[..., Any]) -> range | None:
    """How many positional arguments a function takes; ``None`` if it does not say."""
    if isinstance(fn, np.ufunc):
        return range(fn.nin, fn.nin + 1)
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    most = sys.maxsize - 1 if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(by_position)
    return range(sum(p.default is p.empty for p in by_position), most + 1)


def _counts(takes: range) -> str:
    most = f" to {takes[-1]}" if takes.stop < sys.maxsize else " or more"
    return f"{takes[0]}" + most * (len(takes) > 1)


def _miscounted(fn: Callable[..., Any], partials: Sequence[Any], takes: str) -> RuleError:
    return RuleError(f"scalar_rule has {len(partials)} partial derivative{'s' * (len(partials) != 1)} for "
                     f"{name_of(fn)}, which {takes}: give one for each argument (None if there is no derivative)")


def _floating(x: Any, y: Any) -> Any:
    """An integer argument in the result's dtype: a partial derivative must not overflow or lose digits in its own."""
    t, result = typeof(x), typeof(y)
    if not (isinstance(t, ArrayType) and isinstance(result, ArrayType)) or t.inexact or t.kind == "python":
        return x
    return astype(x, result.dtype) if result.inexact else x


def _chain(fn: Callable[..., Any], i: int, dy: Any, partial: Any, y: Any, args: Sequence[Any]) -> Any:
    if callable(partial):
        slope = _called("the partial derivative of {} in argument {}", fn, i, partial, "y", y, *args)
        t, want = typeof(slope), typeof(y)
        assert isinstance(want, ArrayType)
        if not isinstance(t, ArrayType) or (t.shape and np.broadcast_shapes(t.shape, want.shape) != want.shape):
            raise RuleError(f"a partial derivative of {name_of(fn)} gave {t} where the result is {want}")
        return strong_multiply(dy, conj(slope))
    if partial in (1, -1):
        return dy if partial == 1 else np.negative(dy)
    return strong_multiply(dy, conj(partial))
