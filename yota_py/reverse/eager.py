"""Value and gradients while the function runs: of calls that nobody follows, prints or compiles there is no tape.

Each operation notes its values, and through which arguments a derivative flows; on the way back formulas of rules are
computed with them, or pullbacks are called, as in ``direct.py``. Whatever is not plain floating-point arithmetic, or is
wrong, raises: the call is begun anew with a trace. So the function must do nothing but compute.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FrameType, FunctionType
from typing import Any

import numpy as np
from numpy import float64, ndarray

from ..base.containers import only, with_items
from ..base.dispatch import find_traced
from ..base.floating import code_of_calls
from ..base.ownership import is_library_frame, is_ours, users_frame
from ..base.types import typeof
from ..capture.computing import COPIED, instead
from ..registry.registry import listeners, primitive_of
from ..registry.tangents import MISSING, add, getfield
from ..tape.recorder import LARGE_BYTES
from ..tape.trees import flatten, unflatten
from .active import FLOATS, NOTHING, Eager, TooMuchError
from .short import Slopes, Way, by_rows, flow_to_numbers, into_view, slopes_of, way_of
from .verbs import linearize, positions

_DTYPES = frozenset([np.dtype(float), np.dtype(complex)])
_ACTIVE = FLOATS | {complex, np.complex128}
_NUMBERS = _ACTIVE | {int, bool, np.int64, np.bool_}
_OPTIONS = frozenset([int, np.int64, bool, type(None), str])  # and tuples of them, as axes and shapes are

_ways: dict[Any, Way | None] = {}  # by function; of those without, how a derivative flows is not known
_slopes: dict[Any, Slopes | None] = {}  # by function; of those without, numbers are treated as all else is
listeners.extend((_ways.clear, _slopes.clear))


# An operation: its function, how cotangents come of it, the values of its arguments, keywords and sources.
_Step = tuple[Any, Way | None, Sequence[Any], Mapping[str, Any], Sequence[Any]]
# One of numbers: the partial derivatives, the arguments and the sources, of which plain numbers have -1.
_OfNumbers = tuple[Slopes, tuple[Any, ...], int, int]
_Item = tuple[ndarray, int, int]  # of a vector: the vector, the index and the source


class Sweep:
    """The operations of a call, in their order, and the way back."""

    def __init__(self, *, adds: bool) -> None:
        self.steps: list[_Step | _OfNumbers | _Item | None] = []
        self.values: list[Any] = []
        self.errors: Any = np.geterr()  # what NumPy does where the function is called
        self._warnings: list[tuple[Any, ...]] = []  # the calls of which it would have warned
        self._adds = adds  # whether arrays may be added to in place, of which copies are kept

    def active(self, value: Any) -> Eager:
        """A value that is differentiated in."""
        self.steps.append(None)
        self.values.append(value)
        return Eager(self, value, len(self.values) - 1)

    def noted(self, step: _Step, y: Any) -> Eager:
        """The value of an operation."""
        self.steps.append(step)
        self.values.append(y)
        return Eager(self, y, len(self.values) - 1)

    def of_numbers(self, fn: np.ufunc, call: Callable[..., Any], given: tuple[Any, ...], i: int, j: int) -> Any:
        """A function of one or two numbers, which ``call`` computes; -1 stands for a plain one."""
        slopes = _slopes[fn] if fn in _slopes else _slopes_of(fn)
        if slopes is None:
            args = [x if k < 0 else Eager(self, x, k) for x, k in zip(given, (i, j), strict=False)]
            return self.operation(fn, tuple(args), NOTHING, call)
        try:
            y = call(*given)
        except FloatingPointError:
            y = self._warned(call, given, NOTHING)
        if type(y) not in FLOATS:
            raise TooMuchError
        self.steps.append((slopes, given, i, j))
        self.values.append(y)
        return Eager(self, y, len(self.values) - 1)

    def operation(
        self, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], call: Callable[..., Any] | None = None
    ) -> Any:
        """A call of a function of the library's, some of whose arguments are ``Eager``; ``call`` computes it."""
        way = _ways[fn] if fn in _ways else _way_of(fn)
        if kwargs and not all(map(_is_option, kwargs.values())):
            raise TooMuchError
        given, sources = [], []
        for k, x in enumerate(args):
            cls = type(x)
            if cls is Eager:
                if x._ledger is not self:
                    raise TooMuchError
                given.append(x._value)
                sources.append((k, (), x._id))
            elif cls in _NUMBERS:
                given.append(x)
            elif cls is ndarray:
                if x.dtype.kind not in "fibc":
                    raise TooMuchError
                given.append(x.copy("K") if self._adds else x)
            elif isinstance(fn, np.ufunc):
                raise TooMuchError
            else:
                given.append(self._given(k, x, sources))
        try:
            y = (fn if call is None else call)(*given, **kwargs)
        except FloatingPointError:
            y = self._warned(fn if call is None else call, given, kwargs)
        if self._adds and _looks_into(y, [x for x, own in zip(given, args, strict=True) if type(own) is ndarray]):
            raise TooMuchError
        if way is _nowhere:
            return y
        step = (fn, way, given, kwargs, sources)
        if is_active(y):
            return self.noted(step, y)
        if not isinstance(y, tuple) or not all(is_active(x) or _is_whole(x) for x in y):
            raise TooMuchError
        i, items = self.noted(step, y)._id, []
        for k, x in enumerate(y):
            items.append(self.noted((getfield, None, (y, k), NOTHING, ((0, (), i),)), x) if is_active(x) else x)
        return with_items(y, items)

    def _warned(self, call: Callable[..., Any], given: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What a call gives where NumPy is to warn, as it does at the user's line, when it is known that no trace is
        needed."""
        if not {*self.errors.values()} <= {"warn", "ignore"}:
            raise TooMuchError
        self._warnings.append((_line(sys._getframe(1)), call, given, kwargs))
        with np.errstate(all="ignore"):
            return call(*given, **kwargs)

    def warn(self) -> None:
        """Let NumPy warn of what it would have warned of so far."""
        with np.errstate(**self.errors):
            for line, *call in self._warnings:
                line(*call)

    def quickly(self, fn: Any, args: tuple[Any, ...], frame: Any) -> Any:
        """A call without keywords: all are as short as they can be."""
        return self.operation(fn, args, NOTHING)

    def dispatched(self, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], frame: Any) -> None:
        """The same of a function that is no ufunc: it is to be called."""

    def function(self, fn: Any, types: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A call of a function that is no ufunc of NumPy's, and may warn of other things than these do."""
        if _ways.get(fn) is by_rows:  # of which NumPy does not warn
            return self.operation(fn, args, kwargs)
        line = _line(sys._getframe(1))

        def call(*args: Any, **kwargs: Any) -> Any:
            with np.errstate(**self.errors):
                return line(fn, args, kwargs)

        return self.operation(fn, args, kwargs, call)

    def _given(self, k: int, x: Any, sources: list[Any]) -> Any:
        """An argument that is no number or array."""
        if _is_option(x):
            return x
        if type(x) not in (tuple, list):
            raise TooMuchError
        items = []
        for i, item in enumerate(x):
            if type(item) is Eager:
                if item._ledger is not self:
                    raise TooMuchError
                sources.append((k, (i,), item._id))
                item = item._value
            elif type(item) is ndarray:
                item = item.copy("K") if self._adds else item
            elif not (type(item) in _NUMBERS or _is_option(item)):
                raise TooMuchError
            items.append(item)
        return type(x)(items)

    def back(self, last: int, seed: Any) -> list[Any]:
        """The cotangents of what is differentiated in."""
        cotangents: list[Any] = [None] * len(self.values)
        owned: set[int] = set()
        cotangents[last] = seed
        for i in range(last, -1, -1):
            dy, step = cotangents[i], self.steps[i]
            if step is None or dy is None:
                continue
            if len(step) == 4:
                flow_to_numbers(float(dy), self.values[i], *step, cotangents)
                continue
            if len(step) == 3:
                x, index, j = step
                known = cotangents[j]
                if j not in owned:
                    known = cotangents[j] = np.zeros(x.shape) if known is None else np.array(known)
                    owned.add(j)
                known[index] += dy
                continue
            fn, way, given, kwargs, sources = step
            dy = float64(dy) if type(dy) is float else dy
            cotangents[i] = None
            owned.discard(i)
            if fn is getfield:
                cotangents[sources[0][2]] = add(cotangents[sources[0][2]], only(given[0], given[1], dy))
                continue
            if fn is operator.getitem and into_view(given[0], given[1], sources[0][2], dy, cotangents, owned):
                continue
            if kwargs or not (way is not None and way(dy, self.values[i], given, sources, cotangents)):
                self._pull(step, dy, cotangents)
        return cotangents

    def _pull(self, step: _Step, dy: Any, cotangents: list[Any]) -> None:
        """What the pullback gives, of a function or arguments that the formulas do not know."""
        fn, _, given, kwargs, sources = step
        dxs = linearize(fn, tuple(given), kwargs, positions(sources), None)[1](dy)
        for k, path, j in sources:
            dx = dxs[k]
            for key in path:
                dx = None if dx is None else dx[key]
            if dx is MISSING:
                raise TooMuchError
            if dx is not None:
                if type(dx) is ndarray and not dx.ndim and type(self.values[j]) in _ACTIVE:
                    dx = dx[()]
                if type(self.values[j]) in (float, complex) and isinstance(dx, type(self.values[j])):
                    dx = type(self.values[j])(dx)
                if typeof(dx) is not typeof(self.values[j]):
                    raise TooMuchError
                known = cotangents[j]
                cotangents[j] = dx if known is None else known + dx


def _looks_into(y: Any, copies: Sequence[ndarray]) -> bool:
    """Whether a result shares memory with the copy of an array that may be added to."""
    parts = [x for x in (y if isinstance(y, tuple | list) else (y,)) if isinstance(x, ndarray)]
    return any(np.may_share_memory(part, x) for part in parts for x in copies)


def _line(frame: FrameType) -> FunctionType:
    """What makes a call where the user's code is, so that it warns from there, once or always as plain calls do."""
    users = users_frame(frame)
    if users is None:
        raise TooMuchError
    space = users.f_globals
    fn = space[COPIED]() if COPIED in space else None
    return FunctionType(code_of_calls(users), space if fn is None else fn.__globals__)


def _is_from_elsewhere(error: BaseException, codes: Collection[int]) -> bool:
    """Whether code has raised an exception that the function does not call: the handler of a signal."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = None if traceback is None else traceback.tb_frame
    return frame is not None and not (id(frame.f_code) in codes or is_ours(frame) or is_library_frame(frame))


def array(x: Any, dtype: Any = None, **options: Any) -> Any:
    """``np.array`` and ``np.asarray``, which ask lists for nothing but plain numbers and arrays."""
    if find_traced((x,)) is None:
        return np.array(x, dtype, **options)
    if options.pop("copy", None) is not None or options or dtype not in (None, float, float64):
        raise TooMuchError
    if type(x) is Eager and not x.ndim:  # it would be an array
        raise TooMuchError
    return _stacked(x)


def _stacked(x: Any) -> Any:
    return np.stack([_stacked(row) for row in x]) if type(x) in (tuple, list) else x


def _as_array(x: Any, dtype: Any = None, **options: Any) -> Any:
    return array(x, dtype, copy=options.pop("copy", None), **options)


instead[np.array], instead[np.asarray] = array, _as_array


def _is_option(x: Any) -> bool:
    """Whether this is an argument beside arrays: an axis, a shape, an index or the like."""
    cls = type(x)
    if cls is slice:
        return _is_option((x.start, x.stop, x.step))
    return cls in _OPTIONS or x is ... or (cls is tuple and all(map(_is_option, x)))


def _way_of(fn: Any) -> Way | None:
    """How cotangents come of a function's rule. Raises ``TooMuchError`` for what is more than to compute a value."""
    entry = primitive_of(fn)
    if entry is None or not entry.known or entry.users or entry.users_rule or entry.of_layout or entry.body is not None:
        raise TooMuchError
    if entry.nondiff:
        _ways[fn] = _nowhere
    elif entry.rule is None or entry.immediate or entry.inline:
        raise TooMuchError
    else:
        _ways[fn] = None if fn is operator.getitem else way_of(entry)
    return _ways[fn]


def _slopes_of(fn: np.ufunc) -> Slopes | None:
    """The partial derivatives of a function of numbers, if they are known without the numbers."""
    way, entry = _way_of(fn), primitive_of(fn)
    _slopes[fn] = None if way is _nowhere or entry is None else slopes_of(entry)
    return _slopes[fn]


def _nowhere(*given: Any) -> bool:
    """That of a function through which no derivative flows: it gives plain values."""
    return False


def is_active(x: Any) -> bool:
    """Whether this is what can be differentiated in here."""
    cls = type(x)
    return cls in _ACTIVE or (cls is ndarray and x.dtype in _DTYPES and x.ndim > 0 and x.nbytes <= LARGE_BYTES)


def _is_whole(x: Any) -> bool:
    """Whether this is a whole number or a truth value, or an array of such, in which nothing is differentiated."""
    return type(x) in (int, bool) or (isinstance(x, ndarray | np.generic) and x.dtype.kind in "iub")


def eagerly(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], argnums: int | tuple[int, ...] | None, *,
    adds: bool, codes: Collection[int],
) -> Any:  # fmt: skip
    """``(value, gradients)`` of a function that does nothing but compute, and how many operations it has; ``None`` if
    the call needs a trace.

    ``adds`` tells whether it may add in place to arrays that it has made; ``codes`` are the identities of what it runs.
    """
    sweep, given, n = Sweep(adds=adds), list(args), 0
    errors: Any = {key: said if said == "ignore" else "raise" for key, said in sweep.errors.items()}
    wanted = range(len(args)) if argnums is None else (argnums,) if isinstance(argnums, int) else argnums
    parts = {}  # of the arguments: their leaves, and how many come before
    for i in dict.fromkeys(wanted):
        leaves, spec = ([args[i]], None) if is_active(args[i]) else flatten(args[i])
        if not all(map(is_active, leaves)):
            return None
        active = [*map(sweep.active, leaves)]
        given[i], parts[i], n = active[0] if spec is None else unflatten(spec, active), (n, spec), n + len(active)
    if not n:
        return None
    try:
        with np.errstate(**errors):
            z = f(*given, **kwargs)
        if type(z) is not Eager or z._ledger is not sweep or type(z._value) not in FLOATS:
            return None
        with np.errstate(all="ignore"):
            cotangents = sweep.back(z._id, float64(1.0))
    except (TooMuchError, Exception) as error:  # any: with a trace it is raised again
        if type(error) is not TooMuchError and _is_from_elsewhere(error, codes):
            raise
        return None
    sweep.warn()

    def gradient(i: int) -> Any:
        start, spec = parts[i]
        stop = start + 1 if spec is None else start + spec.num_leaves
        settled = [_settled(dx, x) for dx, x in zip(cotangents[start:stop], sweep.values[start:stop], strict=True)]
        return settled[0] if spec is None else unflatten(spec, settled)

    found = gradient(argnums) if isinstance(argnums, int) else tuple(map(gradient, wanted))
    of_numbers = all(type(x) in (float, complex) for x in sweep.values[:n])
    return (float(z._value) if of_numbers else z._value, found), len(sweep.steps)


def _settled(dx: Any, x: Any) -> Any:
    """A gradient, which shares no memory with anything."""
    if type(x) in _ACTIVE:
        return type(x)(0.0 if dx is None else dx)
    return np.zeros(x.shape, x.dtype) if dx is None else np.array(dx, order="C")
