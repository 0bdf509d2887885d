"""What there is to differentiate among the arguments of a call, and what is said if there is nothing."""

from __future__ import annotations

import inspect
import operator
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.containers import attribute_of
from ..base.types import is_inexact
from ..errors import NotDifferentiableError
from ..tape.operations import Input, Site, user_site
from ..tape.show import name_of
from ..tape.tape import Tape
from ..tape.trees import flatten

Argnums = int | tuple[int, ...] | None
_KINDS = (
    "derivatives are taken with respect to floats, complex numbers and arrays of them, alone or in lists, tuples and "
    "dicts, passed by position"
)


def positions(argnums: int | Sequence[int]) -> int | tuple[int, ...]:
    """``argnums`` as an integer or a tuple; raises ``ValueError`` if they are no positions."""
    wanted = argnums if isinstance(argnums, tuple | list) else (argnums,)
    try:
        found = tuple(map(operator.index, wanted))  # type: ignore[arg-type]
    except TypeError:
        found = ()
    if not found or any(isinstance(n, bool) for n in wanted):
        raise ValueError(f"argnums are positions of arguments, 0, 1, …, or -1 for the last; got {argnums!r}")
    return found if isinstance(argnums, tuple | list) else found[0]


def needed_for(argnums: int | tuple[int, ...]) -> int:
    """The number of positional arguments without which ``argnums`` mean nothing."""
    return max(n + 1 if n >= 0 else -n for n in ((argnums,) if isinstance(argnums, int) else argnums))


def out_of_range(f: Callable[..., Any], argnums: int | Sequence[int], given: int) -> TypeError:
    """The error for a call with too few positional arguments."""
    names = parameters(f)[:given]
    which = f" ({', '.join(names)})" if names else ""
    return TypeError(
        f"{user_site()}: argnums={argnums!r}, but {name_of(f)} got {given} positional argument{'s' * (given != 1)}"
        f"{which}; pass by position what is to be differentiated"
    )


def counted(argnums: Argnums, given: int) -> Argnums:
    """``argnums`` from the first of so many positional arguments on: of 3, the last one (-1) is 2."""
    if argnums is None:
        return None
    return argnums % given if isinstance(argnums, int) else tuple(n % given for n in argnums)


def parameters(f: Callable[..., Any]) -> Sequence[str]:
    """The names of the positional parameters of a Python function, without that which a method is bound to."""
    code = attribute_of(f, "__code__") or attribute_of(attribute_of(f, "__func__"), "__code__")
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    return names[1:] if attribute_of(f, "__self__") is not None else names


def heed_habits(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], purpose: str) -> None:
    """Raises ``NotDifferentiableError`` where ``grad(f)`` or ``grad(f, argnums=0)`` is meant to give a function, as in
    JAX and Autograd: where the function cannot be called so, or has no arguments."""
    foreign = sorted({"argnums", "argnum", "has_aux"} & {*kwargs})
    if (args and not foreign and any(type(x) is not int for x in args)) or (args and _takes(f, args, kwargs)):
        return
    name, n = name_of(f), kwargs.get("argnums", kwargs.get("argnum", 0))
    if not args and not foreign:
        said = f"{purpose}({name}) got no arguments by position"
    else:
        given = ", ".join([*map(reprlib.repr, args), *(f"{key}={reprlib.repr(kwargs[key])}" for key in foreign)])
        said = f"{name} cannot be called with the arguments of {purpose}({name}, {given})"
        n = args[0] if args and not foreign else n
    number = f", {reprlib.repr(n)}" if n else ""
    raise NotDifferentiableError(
        f"{user_site()}: no argument of {name} is differentiable: {said}. {purpose}(f, x) computes at once, at x. A "
        f"function that gives the gradient is gradient(f{number}), one that gives both value_and_grad(f{number}), as "
        f"in gradient(f{number})(2.0)"
    )


def _takes(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a function may be called with such arguments, as far as that is known."""
    try:
        inspect.signature(f).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:  # of C code
        return True
    return True


def require_active(
    tape: Tape, f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], argnums: Argnums = None,
    site: Site | None = None,
) -> None:  # fmt: skip
    """Raises ``NotDifferentiableError`` if no input of the tape is active; it names the arguments and what they are."""
    if any(isinstance(op, Input) and op.active for op in tape.ops):
        return
    wanted: Sequence[int] = range(len(args))
    if argnums is not None:
        wanted = [n % len(args) for n in ((argnums,) if isinstance(argnums, int) else argnums)]
    others = [i for i, x in enumerate(args) if i not in wanted and any(map(is_inexact, flatten(x)[0]))]
    names = parameters(f)
    told = [_told(names[i] if i < len(names) else f"argument {i}", args[i]) for i in wanted]
    told += [f"{name} is passed by name" for name in kwargs]
    if 0 in wanted and names[:1] == ("self",):
        told.append("self counts as argument 0 of a method that is decorated, and an object has no gradient: decorate "
                    f"with value_and_grad(f, argnums={(others or [1])[0]}), or differentiate the method of an object")
    number = f". (A function that gives the gradient is gradient(f, {args[0]!r}))" if _is_position(args) else ""
    raise NotDifferentiableError(
        f"{site or user_site()}: no argument of {tape.name} is differentiable: {'; '.join(told) or 'there is none'}. "
        f"{_advice([args[i] for i in wanted], others)}{number}"
    )


def _advice(values: Sequence[Any], others: Sequence[int]) -> str:
    """What to do where these arguments have no derivative, and these others have one."""
    if others:
        return f"Say what is to be differentiated: argnums={others[0] if len(others) == 1 else tuple(others)}"
    numbers = [leaf for leaf in flatten(values)[0] if isinstance(leaf, int | np.generic | np.ndarray)]
    if any(np.result_type(leaf).kind in "biu" for leaf in numbers):
        return f"Pass 2.0, not 2: {_KINDS}"
    return f"{_KINDS[0].upper()}{_KINDS[1:]}"


def _is_position(args: Sequence[Any]) -> bool:
    """Whether the only argument may be meant for ``argnums``."""
    return len(args) == 1 and type(args[0]) is int and args[0] in (-1, 0, 1)


def _told(name: str, value: Any) -> str:
    """An argument and what it is."""
    if isinstance(value, np.ndarray):
        return f"{name} is an array of {value.dtype}, of shape {value.shape}"
    cls = type(value).__name__
    if value is None or not isinstance(value, bool | int | str | bytes | np.generic | tuple | list | dict):
        return f"{name} is {'None' if value is None else f'of type {cls}'}"
    return f"{name} is {'an' if cls[0] in 'aeiou' else 'a'} {cls}, {reprlib.repr(value)}"
