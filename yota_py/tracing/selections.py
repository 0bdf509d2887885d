"""What a traced mask takes out of an array, without a decision on the mask.

The shape of ``x[mask]`` depends on values. A ``Selection`` stands for it as long as nobody needs to know: what is done
to its elements is done to all elements of ``x``, and at last a sum takes those that the mask wants, or an assignment
puts them where another array has the same mask. So a program serves every mask. Whatever else is done with a selection
makes an array of it, and the mask a decision.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ..base.dispatch import decided, find_traced, original, shadow
from ..base.floating import at_users_line
from ..base.types import is_basic
from ..base.unwinding import Quiet, state
from ..registry.kernels import Index, Map, Product, Reduce
from ..registry.registry import primitive_of
from ..registry.tangents import astype
from ..tape.operations import Call, Site, Variable, user_site
from ..tape.tape import Tape
from .stand_ins import suspended
from .tracer import Tracer, kind_of_tracer, make_tracer, tracers_of

SMALL, MIN_SHARE = 1000, 0.125  # so many elements, or such a share of them, that all are computed
_COMPARED = (int, float, bool, str)
MAX_DEPTH = 8  # of operations that are compared to see whether two masks are the same


class Selection(tracers_of(np.ndarray)):  # type: ignore[misc]
    """The elements of ``full`` where ``mask`` is true; its value are these elements."""

    __slots__ = ("_again", "_full", "_mask", "_site")
    __yota_tracer__ = None  # somebody has to look into it

    def __init__(self, full: Tracer, mask: Tracer, value: Any, again: tuple[Selection, Any] | None = None) -> None:
        super().__init__(max(full._ledger, mask._ledger, key=_level), None, value)
        for name, x in (("_full", full), ("_mask", mask), ("_site", user_site()), ("_again", again)):
            object.__setattr__(self, name, x)
        self._ledger.will_settle(self)

    @property
    def _var(self) -> Variable:
        if self._is_open():
            self._make()
        return _VAR.__get__(self)  # type: ignore[no-any-return]

    @_var.setter
    def _var(self, var: Variable) -> None:
        _VAR.__set__(self, var)

    def _is_open(self) -> bool:
        """Whether there is no array of it yet."""
        return _VAR.__get__(self) is None

    def _make(self) -> None:
        """Decide on the mask."""
        trace = self._ledger
        with state.unwatched, _At(trace, self._site):
            if self._again is not None:  # a view
                x, index = self._again
                x._current()
                made = trace.record(operator.getitem, (x, index), {})
                if made._look is not None:
                    self._look_at(made._look)
            else:
                mask = self._mask._ledger.guard(self._mask, decided)
                made = trace.record(operator.getitem, (self._full, mask), {})
            _VAR.__set__(self, made._current()[0])
            object.__setattr__(self, "_value", made._current()[1])

    def _carries(self) -> bool:
        return bool(self._full._carries() if self._is_open() else super()._carries())

    def __yota_type__(self) -> Any:
        self._current()
        return super().__yota_type__()

    def _count(self) -> Any:
        """The number of elements, traced."""
        if not (self._is_open() and _are_usable([self])):
            return len(self._value)
        count: Any = np.count_nonzero(self._mask)
        return count.item() if isinstance(count, np.generic) else count

    def __len__(self) -> int:
        return operator.index(self._count())  # a decision on how many they are, not on which

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "size", "nbytes"):
            count, rest = self._count(), self._value.shape[1:]
            size = count * math.prod(rest)
            return (count, *rest) if name == "shape" else size if name == "size" else size * self._value.itemsize
        return super().__getattr__(name)


Selection.__name__ = tracers_of(np.ndarray).__name__  # in messages
_VAR: Any = vars(Tracer)["_var"]
_level = operator.attrgetter("level")


class _At:
    """The block in which operations come from a line of the user's."""

    def __init__(self, trace: Any, site: Site | None) -> None:
        self._trace, self._site, self._before = trace, site, trace.site

    def __enter__(self) -> None:
        self._trace.site = self._before or self._site

    def __exit__(self, *error: object) -> None:
        self._trace.site = self._before


def select(x: Tracer, index: Any) -> Any:
    """``x[index]`` of a traced array."""
    if type(index) is int:
        return x.__yota_record__(operator.getitem, (x, index), {})
    given, index = index, _rows_only(index)
    if not _is_mask(x, index):
        return x.__yota_record__(operator.getitem, (x, guarded_masks(given)), {})
    array, mask = shadow(x), shadow(index)
    if mask.size > SMALL and np.count_nonzero(mask) < MIN_SHARE * mask.size:
        return x.__yota_record__(operator.getitem, (x, guarded_masks(given)), {})
    return Selection(_frozen(x), _frozen(index), array[mask])


def put_selected(x: Tracer, index: Any, value: Any) -> Any:
    """What ``x`` is after ``x[index] = value`` with a mask, where it does not matter how many elements that has;
    ``NotImplemented`` if it does."""
    index = _rows_only(index)
    if not _is_mask(x, index):
        return NotImplemented
    selected = type(value) is Selection and value._is_open()
    if selected and not (_are_one(value._mask, index) and value._full.shape == x.shape):
        return NotImplemented
    rest = x.shape[index.ndim :]
    new = value._full if selected else value
    if not selected and (np.ndim(value) > len(rest) or np.broadcast_shapes(np.shape(value), rest) != rest):
        return NotImplemented
    if np.result_type(shadow(x), shadow(new)) != x.dtype:
        return NotImplemented
    if isinstance(new, np.ndarray | np.generic) and new.dtype != x.dtype:
        new = astype(new, x.dtype)
    return np.where(_wide(index, x), new, x)


def overwrite_selection(x: Any, value: Any) -> bool:
    """``x += v`` of a selection of which nobody has asked more: whether it has been done."""
    for each in (x, value):
        if type(each) is not Selection or not each._is_open():
            return False
    if not _are_one(x._mask, value._mask) or value._full.dtype != x.dtype or value._full.shape != x._full.shape:
        return False
    object.__setattr__(x, "_full", value._full)
    object.__setattr__(x, "_value", value._value)
    return True


def applied(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A call with selections among its arguments; ``NotImplemented`` if it needs arrays."""
    chosen = [x for x in args if type(x) is Selection and x._is_open()]
    if not chosen or find_traced(kwargs.values()) is not None or not _are_usable(chosen):
        return NotImplemented
    entry = primitive_of(fn)
    form = None if entry is None else _reduced if original(fn) is np.mean else _FORMS.get(type(entry.kernel))
    if form is None and isinstance(fn, np.ufunc) and fn.nout == 1:
        form = _elementwise
    if form is None or any(type(x) is not Selection and np.ndim(x) and x._ledger is not chosen[0]._ledger
                           for x in args if isinstance(x, Tracer)):
        return NotImplemented
    try:
        return form(fn, args, **kwargs)
    except _NeedsArraysError:
        return NotImplemented


class _NeedsArraysError(Exception):
    """A form of a call that needs the elements as arrays."""


def _need(condition: bool) -> None:
    if not condition:
        raise _NeedsArraysError


def _are_usable(chosen: list[Selection]) -> bool:
    mask, trace = chosen[0]._mask, chosen[0]._ledger
    here = trace.alive and chosen[0]._is_here()
    return here and all(x._ledger is trace and _are_one(mask, x._mask) for x in chosen)


def _plainly(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What NumPy gives for the elements, with its warnings and errors."""
    with state.unwatched, suspended:
        return at_users_line(fn, tuple([x._value if type(x) is Selection else shadow(x) for x in args]), kwargs)


def _whole(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The call for all elements, of which NumPy is not to tell."""
    with Quiet():
        return fn(*[x._full if type(x) is Selection else x for x in args], **kwargs)


def _selected(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] = {}) -> Selection:
    value = _plainly(fn, args, kwargs)
    _need(isinstance(value, np.ndarray))  # not ``x[mask].item()``
    full, mask = _whole(fn, args, kwargs), next(x._mask for x in args if type(x) is Selection)
    _need(isinstance(full, Tracer) and full.dtype == value.dtype and full.shape[mask.ndim :] == value.shape[1:])
    return Selection(full, mask, value)


def _elementwise(fn: Any, args: tuple[Any, ...], order: str = "K", **kwargs: Any) -> Any:
    """A ufunc, ``np.where``, a copy, another dtype."""
    _need(not kwargs and {order, *(x for x in args if isinstance(x, str))} <= {"K", "C", "A"})
    rests = {x._full.ndim - x._mask.ndim for x in args if type(x) is Selection}
    _need(len(rests) == 1)
    _need(all(type(x) is Selection or (not isinstance(x, list | tuple) and np.ndim(x) <= min(rests)) for x in args))
    return _selected(fn, args)


def _rows(fn: Any, args: tuple[Any, ...], **kwargs: Any) -> Any:
    """A product of rows with a matrix or vector, or of two vectors."""
    _need(len(args) == 2 and not kwargs)
    x, y = args
    if type(x) is type(y) is Selection:
        _need(x._full.ndim == y._full.ndim == x._mask.ndim == 1 and np.ndim(_plainly(fn, args, {})) == 0)
        return _reduced(np.sum, (_selected(np.multiply, args),))
    _need(type(x) is Selection and x._mask.ndim == 1 and x._full.ndim == 2 and np.ndim(y) in (1, 2))
    clean = np.where(_wide(x._mask, x._full), x._full, x.dtype.type(0))  # 0 * nan would reach other elements
    return _selected(fn, (Selection(clean, x._mask, x._value), y))


def _item(fn: Any, args: tuple[Any, ...]) -> Any:
    """``x[mask][:, i]``: of all rows the same."""
    x, index = args
    _need(type(x) is Selection and isinstance(index, tuple) and is_basic(index) and find_traced((index,)) is None)
    _need(x._mask.ndim == 1 and _is_whole(index[0]) and index[0] is not Ellipsis)
    found = _selected(fn, args)
    return Selection(found._full, found._mask, found._value, (x, index))


def _reduced(fn: Any, args: tuple[Any, ...], axis: Any = None, **kwargs: Any) -> Any:
    """A reduction of all elements, along the rows, or of each row."""
    x = args[0]
    _need(len(args) == 1 and not kwargs)
    k, rest = x._mask.ndim, x._full.ndim - x._mask.ndim
    if axis is not None:
        _need(isinstance(axis, int) and -rest - 1 <= axis <= rest)
        axis %= rest + 1
    value = _plainly(fn, args, {"axis": axis})
    if axis:
        full = _whole(fn, args, {"axis": axis + k - 1})
        _need(full.dtype == value.dtype)
        return Selection(full, x._mask, value)
    options: dict[str, Any] = {}
    kernel: Any = primitive_of(fn).kernel  # type: ignore[union-attr]
    if kernel is not None and kernel.mode in _EXTREMA:
        _need(x.dtype.kind == "f")
        options["initial"] = _EXTREMA[kernel.mode]
    if options or kernel is None:  # of nothing there is none
        bool(np.any(x._mask))
    with Quiet():
        return fn(x._full, axis=tuple(range(k)) if axis == 0 else None, where=_wide(x._mask, x._full), **options)


_EXTREMA = {"max": -np.inf, "min": np.inf}
_FORMS: dict[type, Callable[..., Any]] = {Map: _elementwise, Product: _rows, Index: _item, Reduce: _reduced}


def guarded_masks(index: Any) -> Any:
    """A traced boolean mask in an index decides a shape: its value becomes a guard."""
    if isinstance(index, tuple):
        return tuple(map(guarded_masks, index))
    return decided(index) if kind_of_tracer(index) == "b" else index


def _rows_only(index: Any) -> Any:
    """The mask of an index that says of further axes that they are whole, as in ``x[mask, :]``."""
    if type(index) is not tuple or not index or not all(map(_is_whole, index[1:])):
        return index
    return index[0]


def _is_whole(part: Any) -> bool:
    return part is Ellipsis or (type(part) is slice and part.start is part.stop is part.step is None)


def _is_mask(x: Tracer, index: Any) -> bool:
    """Whether an index is a traced mask of the leading axes of ``x``, and not known to be the same at each call."""
    if kind_of_tracer(index) != "b" or not isinstance(index, np.ndarray) or not isinstance(x, np.ndarray):
        return False
    if not all(each._ledger.alive and each._is_here() for each in (x, index)):
        return False
    if not index._ledger.status(index._current()[0]):  # the same at each call
        return False
    return bool(0 < index.ndim <= x.ndim and x.shape[: index.ndim] == index.shape)


def _frozen(x: Tracer) -> Tracer:
    """What stands for an array as it is now: it may be written into later."""
    return make_tracer(x._ledger, *x._current())


def _wide(mask: Any, x: Any) -> Any:
    """A mask of the leading axes, so that it broadcasts against ``x``."""
    return mask if mask.ndim == x.ndim else np.reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim))


def _are_one(a: Tracer, b: Tracer) -> bool:
    """Whether two masks are the same for all inputs."""
    return a._ledger is b._ledger and _same(a._ledger.tape, a._current()[0], b._current()[0], MAX_DEPTH)


def _same(tape: Tape, a: Any, b: Any, depth: int) -> bool:
    if not (isinstance(a, Variable) and isinstance(b, Variable)):
        return a is b or (type(a) is type(b) and type(a) in _COMPARED and bool(a == b))
    if a == b:
        return True
    x, y = tape[a], tape[b]
    if not (depth and isinstance(x, Call) and isinstance(y, Call) and x.fn is y.fn and len(x.args) == len(y.args)):
        return False
    return not x.kwargs and not y.kwargs and all(map(partial(_same, tape, depth=depth - 1), x.args, y.args))
