"""The parameters of functions, also of those in C that do not tell them before NumPy 2.4."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any, TypeVar

from .containers import attribute_of, dict_of

F = TypeVar("F", bound=Callable[..., Any])

# Those of NumPy's functions in C that dispatch, as NumPy 2.4 tells them.
IN_C: dict[str, Callable[..., Any]] = {
    "bincount": lambda x, /, weights=None, minlength=0: None,
    "busday_count": lambda begindates, enddates, weekmask="1111100", holidays=(), busdaycal=None, out=None: None,
    "busday_offset": (
        lambda dates, offsets, roll="raise", weekmask="1111100", holidays=None, busdaycal=None, out=None: None
    ),
    "can_cast": lambda from_, to, casting="safe": None,
    "concatenate": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    "copyto": lambda dst, src, casting="same_kind", where=True: None,
    "datetime_as_string": lambda arr, unit=None, timezone="naive", casting="same_kind": None,
    "dot": lambda a, b, out=None: None,
    "empty_like": lambda prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=None: None,
    "inner": lambda a, b, /: None,
    "is_busday": lambda dates, weekmask="1111100", holidays=None, busdaycal=None, out=None: None,
    "lexsort": lambda keys, axis=-1: None,
    "may_share_memory": lambda a, b, /, max_work=0: None,
    "min_scalar_type": lambda a, /: None,
    "packbits": lambda a, /, axis=None, bitorder="big": None,
    "putmask": lambda a, /, mask, values: None,
    "ravel_multi_index": lambda multi_index, dims, mode="raise", order="C": None,
    "result_type": lambda *arrays_and_dtypes: None,
    "shares_memory": lambda a, b, /, max_work=-1: None,
    "unpackbits": lambda a, /, axis=None, count=None, bitorder="big": None,
    "unravel_index": lambda indices, shape, order="C": None,
    "vdot": lambda a, b, /: None,
    "where": lambda condition, x=None, y=None, /: None,
}


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function. Raises ``ValueError`` or ``TypeError`` if nobody knows it."""
    try:
        return inspect.signature(fn)
    except ValueError:
        name = getattr(fn, "__name__", "")
        if getattr(fn, "__module__", None) != "numpy" or name not in IN_C:
            raise
        return inspect.signature(IN_C[name])


@lru_cache(maxsize=1024)
def position_of_out(fn: Any, *others: str) -> int | None:
    """Where ``out`` stands among the positional arguments of one of NumPy's functions, or what begins as ``others``."""
    try:
        parameters = [*signature_of(fn).parameters.values()]
    except (TypeError, ValueError):
        return None
    named = (p.name == "out" or p.name.startswith(others) for p in parameters)
    places = [i for i, (p, x) in enumerate(zip(parameters, named, strict=True)) if x and p.kind is not p.KEYWORD_ONLY]
    return places[0] if places else None


def wraps(fn: Callable[..., Any]) -> Callable[[F], F]:
    """``functools.wraps``, for which an object of the user's that can be called is not asked for what it has not."""
    if type(fn) is FunctionType:
        return functools.wraps(fn)  # type: ignore[return-value]

    def wrapping(made: F) -> F:
        for name in functools.WRAPPER_ASSIGNMENTS:
            if (value := attribute_of(fn, name, made)) is not made:
                setattr(made, name, value)
        made.__dict__.update(dict_of(fn) or ())
        made.__wrapped__ = fn  # type: ignore[attr-defined]
        return made

    return wrapping
