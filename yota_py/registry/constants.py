"""Arrays that are the same at each call of a traced function, since they are made of nothing but numbers."""

from __future__ import annotations

from collections.abc import Mapping
from sys import _getframe
from types import FrameType
from typing import Any

import numpy as np

from ..base.containers import mapped
from ..base.dispatch import are_plain, is_traced
from ..base.unwinding import getprofile, setprofile, state
from .contents import is_sparse_class

_NO_VALUE = type(np._NoValue)  # type: ignore[attr-defined]
_PLAIN = {int, float, complex, bool, str, type(None), slice, type(...), range, _NO_VALUE}


class CalledUfunc:
    """A stand-in for a ufunc where the user's code calls it: ``call`` is what it calls in the end, and ``known`` tells
    whether that does nothing but compute. It may be recorded at once."""

    def __init__(self, ufunc: Any, call: Any, *, known: bool) -> None:
        self._ufunc, self._call, self._known, self._nin = ufunc, call, known, ufunc.nin

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and self._known:
            if (profile := state.profile) is not None and getprofile() is profile:
                setprofile(None)  # as in a block with ``state.unwatched``, of which it would hear
                try:
                    result = self._quickly(args, _getframe(1))
                finally:
                    setprofile(profile)
            else:
                with state.unwatched:
                    result = self._quickly(args, _getframe(1))
            if result is not None:
                return result
            with state.unwatched:
                if len(args) <= self._nin and are_plain(args):
                    return made_of_numbers(self._call(*args), args)
        return self.of_others(*args, **kwargs)

    def _quickly(self, args: tuple[Any, ...], frame: FrameType) -> Any:
        """What the short way gives; ``None`` if that is not to be gone."""
        if self._call is self._ufunc and len(args) <= self._nin:
            for x in args:
                if getattr(type(x), "__yota_tracer__", None) is not None:
                    return x._ledger.quickly(self._ufunc, args, frame)
        return None

    def of_others(self, *args: Any, **kwargs: Any) -> Any:
        """The call, where somebody has to look into its arguments."""
        raise NotImplementedError


def at_once(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], frame: FrameType) -> Any:
    """What the short way gives for a function that dispatches; ``None`` if that is not to be gone."""
    with state.unwatched:
        for x in args:
            if is_traced(x):
                return x._ledger.dispatched(fn, args, kwargs, frame)
    return None


def made_of_numbers(result: Any, given: Any) -> Any:
    """What a function has made of what it was ``given``: of nothing but numbers it makes the same next time."""
    if is_traced(result):
        return result
    known = isinstance(result, np.ndarray | tuple | list) or is_sparse_class(type(result))
    return as_constants(result) if known and state.traces and _are_numbers(given) else result


def _are_numbers(values: Any) -> bool:
    return all(
        type(x) in _PLAIN
        or issubclass(type(x), np.generic | np.dtype | type)
        or (type(x) in (list, tuple) and _are_numbers(x))
        for x in values
    )


def as_constants(result: Any) -> Any:
    """Arrays in a structure as they stand on the tapes of all traces; sparse matrices are known to these."""
    if type(result) is np.ndarray:
        return as_constant(result)
    if is_sparse_class(type(result)) and not state.suspended:
        for trace in state.traces:
            trace.matrices.append(result)
    return mapped(as_constants, result)


def as_constant(array: np.ndarray) -> Any:
    """An array that is known to be the same next time, as it stands on the tapes of all traces."""
    if state.suspended or (state.through and array.dtype.hasobject):  # series of series
        return array
    constant: Any = array
    for trace in state.traces:
        constant = trace.tracer(trace.constant(constant))
    return constant
