"""The parameters of functions, also of those in C that do not tell them before NumPy 2.4."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

# Those of NumPy's functions in C that dispatch and have an entry, as NumPy 2.4 tells them.
IN_C: dict[str, Callable[..., Any]] = {
    "can_cast": lambda from_, to, casting="safe": None,
    "concatenate": lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    "copyto": lambda dst, src, casting="same_kind", where=True: None,
    "dot": lambda a, b, out=None: None,
    "empty_like": lambda prototype, /, dtype=None, order="K", subok=True, shape=None, *, device=None: None,
    "inner": lambda a, b, /: None,
    "lexsort": lambda keys, axis=-1: None,
    "may_share_memory": lambda a, b, /, max_work=0: None,
    "min_scalar_type": lambda a, /: None,
    "putmask": lambda a, /, mask, values: None,
    "result_type": lambda *arrays_and_dtypes: None,
    "shares_memory": lambda a, b, /, max_work=-1: None,
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
