"""Functions that are their bodies: a body in terms of other functions is the value, and the pullback comes of it.

While a body runs, its arguments are *parts*: values that note the pullback of each call on them. Going back through
these calls is the pullback of the whole.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..base.containers import LEAVES, items_of, mapped
from ..base.dispatch import call, find_traced, is_traced, original
from ..base.types import ArrayType, Type, typeof
from ..tape.show import name_of
from .applied import apply_rule
from .partials import Pullback, Wanted
from .registry import open_body, opened, primitive_of, rrule
from .tangents import MISSING, add, operand

B = TypeVar("B", bound=Callable[..., Any])
Cotangents: TypeAlias = dict[int, Any]  # by the number of the part


def composite(fn: Callable[..., Any], **options: Any) -> Callable[[B], B]:
    """Decorator that makes a body in terms of other functions what ``fn`` is, value and derivative; ``options`` as in
    ``describe``. Compiled programs have the body in its place, or another ``lowering``.

    A user's body is traced where ``fn`` is called, as any function of the user's is.
    """

    def register(body: B) -> B:
        if opened(fn, body, **options):
            return body

        @wraps(body)
        def rule(wanted: Wanted, /, *args: Any, **kwargs: Any) -> tuple[Any, Pullback]:
            return rule_of_body(body, args, kwargs, wanted)

        rrule(fn, selective=True, **{"lowering": body, **options})(rule)
        return body

    return register


def expanded(fn: Callable[..., Any], **options: Any) -> Callable[[B], B]:
    """Decorator that makes a body in terms of other functions stand on tapes where ``fn`` is called; ``options`` as in
    ``describe``. For functions that are not worth a line of their own there, and methods of a library's objects."""

    def register(body: B) -> B:
        open_body(fn, body, **options)
        return body

    return register


def rule_of_body(
    body: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] = {}, wanted: Wanted = None
) -> tuple[Any, Pullback]:
    """``(y, pullback)`` of a function in terms of others."""
    calls: list[Callable[[Cotangents], None]] = []
    parts = [_part(x, calls, active=wanted is None or i in wanted) for i, x in enumerate(args)]
    result = body(*parts, **{key: _part(x, calls, active=False) for key, x in kwargs.items()})
    if _holds_objects(result) and any(isinstance(x, list | tuple) for x in args):
        return rule_of_body(body, [*map(operand, args)], kwargs, wanted)  # NumPy finds nobody in lists to ask

    def pullback(dy: Any) -> Sequence[Any]:
        known: Cotangents = {}
        _give(known, result, dy)
        for back in reversed(calls):
            back(known)
        return [_take(known, part) for part in parts]

    return _value(result), pullback


class Part(np.lib.mixins.NDArrayOperatorsMixin):
    """A number or array in the body of a composite; ``active`` if a derivative flows back through it."""

    __slots__ = ("active", "calls", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any, calls: list[Callable[[Cotangents], None]], *, active: bool) -> None:
        self.value, self.calls, self.active = value, calls, active

    def __yota_type__(self) -> Type:
        return typeof(self.value)

    def __array_function__(self, fn: Any, types: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return _record(fn, args, kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        return _record(ufunc, args, kwargs) if method == "__call__" else NotImplemented

    def __getitem__(self, index: Any) -> Any:
        return _record(operator.getitem, (self, index), {})

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self.shape[0]))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "ndim", "dtype", "size"):
            return getattr(typeof(self.value), name)
        raise AttributeError(name)

    def _carries(self) -> bool:
        """Whether a derivative flows back through it, or further out."""
        return self.active or (is_traced(self.value) and self.value._carries())

    def _decide(self, decided: Callable[[Any], Any]) -> Any:
        return decided(self.value)

    @staticmethod
    def __yota_record__(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return _record(fn, args, kwargs)


LEAVES.add(Part)


def _record(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    fn = original(fn)
    entry = primitive_of(fn)
    if entry is not None and entry.rule is None and not entry.nondiff and (form := entry.body or entry.lowering):
        return form(*args, **kwargs)
    values, keywords = _value(args), {key: _value(x) for key, x in kwargs.items()}
    assert not any(map(_is_active, kwargs.values())), f"{name_of(fn)} is to take this argument by position"
    part = next((x for x in args if type(x) is Part), None)
    calls = (find_traced((args, kwargs)) if part is None else part).calls
    wanted = tuple(i for i, x in enumerate(args) if _is_active(x))
    if not wanted or (entry is not None and entry.nondiff):
        return _part(call(fn, values, keywords), calls, active=False)
    y, pullback = apply_rule(fn, values, keywords, None, wanted)
    result = _part(y, calls)

    def back(known: Cotangents) -> None:
        dy = _take(known, result)
        if dy is not None:
            for x, dx in zip(args, pullback(dy), strict=True):
                _give(known, x, dx)

    calls.append(back)
    return result


def _part(x: Any, calls: list[Any], *, active: bool = True) -> Any:
    """Numbers and arrays as parts, unless neither a derivative flows through them nor a trace knows of them."""
    if items_of(x) is not None:
        return mapped(lambda item: _part(item, calls, active=active), x)
    t = typeof(x)
    if not isinstance(t, ArrayType):
        return x
    active = active and t.inexact
    return Part(x, calls, active=active) if active or is_traced(x) else x


def _value(x: Any) -> Any:
    if type(x) is Part:
        return x.value
    return slice(_value(x.start), _value(x.stop), _value(x.step)) if type(x) is slice else mapped(_value, x)


def _holds_objects(result: Any) -> bool:
    """Whether NumPy has made an array of parts, as if they were no numbers."""
    if isinstance(result, np.ndarray):
        return bool(result.dtype.hasobject)
    return any(map(_holds_objects, items_of(result) or ()))


def _is_active(x: Any) -> bool:
    return x.active if type(x) is Part else any(map(_is_active, items_of(x) or ()))


def _give(known: Cotangents, x: Any, dx: Any) -> None:
    """Add cotangents of parts, perhaps in a container, to those that are known."""
    if dx is None:
        return
    if type(x) is not Part:
        for i, item in enumerate(items_of(x) or ()):
            _give(known, item, dx if dx is MISSING else dx[i])
    elif x.active:
        before = known.get(id(x))
        known[id(x)] = MISSING if dx is MISSING or before is MISSING else add(before, dx)


def _take(known: Cotangents, x: Any) -> Any:
    """The cotangents of parts, in containers of their own kind; ``None`` if there are none."""
    if type(x) is Part:
        return known.get(id(x))
    items = [_take(known, item) for item in items_of(x) or ()]
    return None if all(item is None for item in items) else tuple(items)
