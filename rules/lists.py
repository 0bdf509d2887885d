"""Lists of traced numbers where NumPy's functions take arrays: NumPy does not look for traced values in them.

While a trace runs, a stand-in for each function that has a rule makes arrays of such lists. What has a stand-in of its
own knows lists itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from yota_py.dispatch import find_traced
from yota_py.registry import for_lists, patch, patched, primitive_of
from yota_py.signatures import signature_of

from .casting import assemble

_NO_ARRAYS = {"out", "indices_or_sections", "reps", "obj"}
_NAMED = {"broadcast_to", "copy", "nan_to_num", "reshape", "transpose"}  # by the passes, which compare functions
_plain_matmul = np.matmul
_DISPATCHER = type(np.mean)  # NumPy's class of functions with ``__array_function__``


@lru_cache(maxsize=1024)
def array_parameters(fn: Callable[..., Any]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The names of the parameters of one of NumPy's functions by position, and of those that stand for arrays: for
    which it asks whether they have ``__array_function__``. A list of arrays has no such parameter."""
    parameters = signature_of(fn).parameters.values()
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    probes = {name: type(name, (), {"__array_function__": lambda self, fn, types, *args: types})() for name in names}
    by_position = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = {p.name: probes[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    try:
        types = fn(*(probes[name] for name in by_position), **by_name)
    except (TypeError, ValueError):  # it looks into one of them
        return tuple(by_position), frozenset()
    return tuple(by_position), frozenset(cls.__name__ for cls in types) - _NO_ARRAYS


def _array(x: Any) -> Any:
    return assemble(x) if isinstance(x, tuple | list) and find_traced(x) is not None else x


def _matmul(*args: Any, **kwargs: Any) -> Any:
    """The ufunc that is a product of matrices, whose attributes nobody asks for."""
    return _plain_matmul(*map(_array, args), **kwargs)


def _with_arrays(fn: Callable[..., Any]) -> Callable[..., Any]:
    def made(name: str, x: Any) -> Any:
        return _array(x) if name in arrays else x

    names: tuple[str, ...] = ()
    arrays: frozenset[str] = frozenset()

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        nonlocal names, arrays
        if any(isinstance(x, tuple | list) for x in (*args, *kwargs.values())):
            names, arrays = array_parameters(fn)
            args = (*map(made, names, args), *args[len(names) :])
            kwargs = {name: made(name, x) for name, x in kwargs.items()}
        return fn(*args, **kwargs)

    return stand_in


def install() -> None:
    """Stand-ins for all functions that have an entry and none yet."""
    patch(np, "matmul", _matmul)
    for module in (np, np.linalg, np.fft):
        for name, fn in list(vars(module).items()):
            known = (module, name) in patched or name in _NAMED
            if type(fn) is _DISPATCHER and not known and primitive_of(fn) is not None:
                for_lists.add(patch(module, name, _with_arrays(fn)))
