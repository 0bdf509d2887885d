"""Lists of traced numbers where NumPy's functions take arrays: NumPy does not look for traced values in them.

While a trace runs, the modules show stand-ins for ufuncs and for functions that dispatch, where they are called; these
make arrays of such lists. What has a stand-in of its own knows lists itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache, wraps
from sys import _getframe
from typing import Any

import numpy as np

from yota_py.base.dispatch import find_traced
from yota_py.base.signatures import position_of_out, signature_of
from yota_py.base.types import is_sequence
from yota_py.registry.constants import CalledUfunc, at_once, made_of_numbers
from yota_py.registry.patches import makers
from yota_py.registry.registry import primitive_of
from yota_py.registry.tangents import listed, said, says
from yota_py.registry.writes import asked, spare

from .casting import assemble
from .einsum import labelled

_NO_ARRAYS = {"out", "indices_or_sections", "reps", "obj"}
_NESTED = {np.block, np.einsum_path}  # whose lists mean something else
# They take arrays alone, in some of their arguments or in some calls: of lists they raise exceptions.
_OF_ARRAYS = {
    np.copyto, np.put, np.putmask, np.place, np.put_along_axis, np.fill_diagonal, np.split, np.array_split, np.hsplit,
    np.vsplit, np.dsplit, np.unstack, np.take_along_axis, np.rollaxis, np.astype, np.nan_to_num,
    np.result_type, np.common_type, np.can_cast,
}  # fmt: skip
_DISPATCHER = type(np.mean)  # NumPy's class of functions with ``__array_function__``


@dataclass(frozen=True, slots=True)
class _Takes:
    """Which parameters of a function stand for arrays, and which for lists of arrays."""

    by_position: tuple[str, ...]
    rest: str  # the name of ``*rest``
    arrays: frozenset[str]
    lists: frozenset[str]

    def of(self, name: str, x: Any) -> Any:
        """An argument, with arrays made of lists that hold traced numbers."""
        if name in self.arrays:
            return array_of(x)
        return _arrays_in(x) if name in self.lists else x


def array_of(x: Any) -> Any:
    """An array of a list that holds traced numbers, or of an object that says it is one; anything else as it is."""
    x = listed(x) if hasattr(type(x), "__array_ufunc__") else said(listed(x))
    return assemble(x) if isinstance(x, tuple | list) and find_traced(x) is not None else x


def _arrays_in(x: Any) -> Any:
    if type(x) in (tuple, list):
        return type(x)(map(array_of, x))
    return [*map(array_of, listed(x))] if is_sequence(type(x)) else x


def _blocks(x: Any) -> Any:
    """What ``np.block`` is given: of lists in lists, the innermost hold arrays."""
    return list(map(_blocks, x)) if isinstance(x, list) else x if isinstance(x, tuple) else array_of(x)


def _is_list(x: Any) -> bool:
    return issubclass(type(x), (tuple, list)) or is_sequence(type(x)) or says(x)


@lru_cache(maxsize=1024)
def takes(fn: Callable[..., Any]) -> _Takes:
    """What one of NumPy's functions takes: arrays are what it asks whether they have ``__array_function__``."""
    parameters = signature_of(fn).parameters.values()
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
    by_position = tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    by_name = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
    if fn in _NESTED:
        return _Takes(by_position, rest, frozenset(), frozenset())

    names = [*by_position, *by_name, *([rest] if rest else ())]

    def asked(listed: Collection[str]) -> frozenset[str] | None:
        def probe(name: str) -> Any:
            cls = type(name, (), {"__array_function__": lambda self, fn, types, *args: types})
            return [cls()] if name in listed else cls()

        try:
            types = fn(*map(probe, by_position), *([probe(rest)] if rest else ()),
                       **{name: probe(name) for name in by_name})  # fmt: skip
        except (TypeError, ValueError):  # it looks into one of them
            return None
        return frozenset(cls.__name__ for cls in types) - _NO_ARRAYS if isinstance(types, tuple | list) else frozenset()

    if (arrays := asked(())) is None:
        lists = asked(names) or frozenset()
        arrays = (asked(lists) or frozenset()) - lists
    else:
        lists = frozenset(name for name in set(names) - arrays - _NO_ARRAYS if name in (asked([name]) or ()))
    return _Takes(by_position, rest, arrays, lists)


def _function(fn: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    out = position_of_out(fn)

    @wraps(fn)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if call is fn and (out is None or len(args) <= out):
            result = at_once(fn, args, kwargs, _getframe(1))
            if result is not None:
                return result
        if fn is np.einsum:
            args = labelled(tuple(map(array_of, args)))
        elif fn is np.block:
            args = tuple(map(_blocks, args))
        elif any(map(_is_list, (*args, *kwargs.values()))):
            if fn in _OF_ARRAYS and find_traced(listed((args, *kwargs.values()))) is not None:
                asked(fn, spare(args), spare(kwargs))  # raises what NumPy raises
            known = takes(fn)
            names = known.by_position + (known.rest,) * max(len(args) - len(known.by_position), 0)
            args = tuple(known.of(name, x) for name, x in zip(names, args, strict=False))
            kwargs = {name: known.of(name, x) for name, x in kwargs.items()}
        return made_of_numbers(call(*args, **kwargs), (*args, *kwargs.values()))

    return stand_in


def _followed(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call of a ufunc, whose result is a constant if all that it is given are numbers."""

    @wraps(call)
    def followed(self: _Ufunc, *args: Any, **kwargs: Any) -> Any:
        return made_of_numbers(call(self, *args, **kwargs), (*args, *kwargs.values()))

    return followed


class _Ufunc(CalledUfunc):
    """The stand-in for a ufunc and its methods."""

    def __init__(self, ufunc: Any, call: Any) -> None:
        entry = primitive_of(ufunc)
        super().__init__(ufunc, call, known=entry is not None and entry.known)  # np.frompyfunc calls the user's code
        self.__name__ = ufunc.__name__

    @_followed
    def of_others(self, *args: Any, **kwargs: Any) -> Any:
        inputs, outs = args[: self._nin], args[self._nin :]
        return self._call(*map(array_of, inputs), *outs, **_masked(kwargs))

    @_followed
    def reduce(self, array: Any, *rest: Any, **kwargs: Any) -> Any:
        """``ufunc.reduce``"""
        return self._ufunc.reduce(array_of(array), *rest, **_masked(kwargs))

    @_followed
    def accumulate(self, array: Any, *rest: Any, **kwargs: Any) -> Any:
        """``ufunc.accumulate``"""
        return self._ufunc.accumulate(array_of(array), *rest, **kwargs)

    @_followed
    def reduceat(self, array: Any, *rest: Any, **kwargs: Any) -> Any:
        """``ufunc.reduceat``"""
        return self._ufunc.reduceat(array_of(array), *rest, **kwargs)

    @_followed
    def outer(self, a: Any, b: Any, /, **kwargs: Any) -> Any:
        """``ufunc.outer``"""
        return self._ufunc.outer(array_of(a), array_of(b), **_masked(kwargs))

    def at(self, a: Any, indices: Any, /, *operands: Any) -> None:
        """``ufunc.at``"""
        if not isinstance(a, np.ndarray) and find_traced(listed((a,))) is not None:
            asked(self._ufunc.at, spare((a, indices, *operands)), {})  # raises what NumPy raises
        self._ufunc.at(a, indices, *map(array_of, operands))


def _masked(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**kwargs, "where": array_of(kwargs["where"])} if "where" in kwargs else kwargs


makers.update({np.ufunc: _Ufunc, _DISPATCHER: _function})
