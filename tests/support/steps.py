"""What tests of compiled steps share: a step with state beside the plain function with its own, call by call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any

import numpy as np
from performing import assert_same, sharing

from yota_py import config, explain, jit
from yota_py.base.containers import held_by

# Makes a function, its arguments at each call, and what shows its state; all of it anew at each time.
Make = Callable[[], tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], Callable[[], Any]]]


def outcome(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The result, or the exception in words."""
    try:
        return f(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def picture(value: Any, known: dict[int, int] | None = None) -> Any:
    """All that hangs on a value, in tuples: classes by name, objects that come again by the number of the first."""
    known = {} if known is None else known
    if isinstance(value, int | float | complex | str | bytes | bool | type(None) | np.generic):
        return value
    if id(value) in known:
        return "again", known[id(value)]
    known[id(value)] = len(known)
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, type | BuiltinFunctionType):
        return value.__qualname__
    parts: list[Any] = [type(value).__qualname__]
    if isinstance(value, FunctionType):
        parts += value.__name__, value.__qualname__, value.__module__, value.__doc__, repr(value.__annotations__)
        parts += [picture(cell, known) for cell in value.__closure__ or ()]
        parts += [picture(part, known) for part in (value.__defaults__, value.__kwdefaults__)]
    elif isinstance(value, CellType):
        parts += [] if value == CellType() else [picture(value.cell_contents, known)]
    elif isinstance(value, MethodType):
        parts += picture(value.__func__, known), picture(value.__self__, known)
    elif isinstance(value, partial):
        parts += (picture(part, known) for part in (value.func, value.args, value.keywords))
    if isinstance(value, dict):
        parts += [[*value], *(picture(item, known) for item in value.values())]
    elif isinstance(value, list | tuple | set):
        parts += [picture(item, known) for item in value]
    parts += [(name, picture(item, known)) for name, item in held_by(value).items()]
    return tuple(parts)


def runs_as_plain(make: Make, calls: int = 8, *, compiled: int | None = None, shown: Any = lambda value: value) -> None:
    """Results and state, as ``shown``, are those of the plain function after each call; so many calls at least ran
    compiled code."""
    plain, its_args, its_state = make()
    f, args, state = make()
    step = jit(f)
    for i in range(calls):
        want, have = outcome(plain, its_args(i)), outcome(step, args(i))
        have, want = shown((have, state())), shown((want, its_state()))
        assert_same(have, want)
        assert sharing(have) == sharing(want), f"call {i}"
    if compiled is not None:
        told = explain(step)
        assert sum(entry.calls for entry in told) >= compiled, str(told)


def agrees(make: Make, calls: int = 9, *, compiled: int) -> None:
    """The step is the plain function, object by object, and so many calls ran compiled code."""
    runs_as_plain(make, calls, compiled=compiled if config.compile == "always" else None, shown=picture)
