"""Variables and the four kinds of operation that a tape is made of, all immutable.

An operation's variable ``%id`` is its position on the tape, counted from 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

from ..base.containers import LEAVES, NUMBERS, items_of, keys_of, mapped
from ..base.dispatch import not_plain, plain
from ..base.ownership import is_library_frame, users_frame
from ..base.records import record
from ..base.types import Order, Type


@record(at_once=True)
class Variable:
    """The result of one operation; prints as ``%id``."""

    id: int

    def __hash__(self) -> int:
        return self.id

    def __repr__(self) -> str:
        return f"%{self.id}"


MAX_VARIABLES = 2**16  # that are kept
_variables: dict[int, Variable] = {}


def variable(i: int) -> Variable:
    """``%i``: mostly the same object each time, so that tables find it at once."""
    known = _variables.get(i)
    if known is None:
        known = Variable(i)
        if i < MAX_VARIABLES:
            known = _variables.setdefault(i, known)
    return known


@record(at_once=True)
class Site:
    """A line of the user's code: where an operation was recorded."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        name = self.filename.replace("\\", "/").rsplit("/", 1)[-1]
        return f"{name}:{self.line}"


def user_site() -> Site | None:
    """The innermost frame of the call stack that is the user's code."""
    frame = users_frame(sys._getframe(1))
    return None if frame is None else site_of(frame.f_code, frame.f_lineno)


def levels_to_user() -> int:
    """How many frames up from the caller the user's code is: the ``stacklevel`` of warnings."""
    levels, frame = 1, sys._getframe(1)
    while frame.f_back is not None and is_library_frame(frame):
        levels, frame = levels + 1, frame.f_back
    return levels


def site_of(code: CodeType, line: int | None = None) -> Site:
    """The site of a code object, by default its first line."""
    return _site(code.co_filename, line or code.co_firstlineno, code.co_name)


@lru_cache(maxsize=4096)
def _site(filename: str, line: int, function: str) -> Site:
    return Site(filename, line, function)


@record(at_once=True)
class Input:
    """An argument's leaf; ``active`` if its derivative is wanted. ``order`` is that of an array in memory."""

    name: str
    type: Type
    active: bool = True
    site: Site | None = None
    note: str = ""
    order: Order = "C"


@record(at_once=True)
class Constant:
    """A value that does not depend on the inputs; ``captured`` numbers those that the function reads from elsewhere,
    the user's own arrays (held by reference, and in this ``order``) and numbers: a compiled tape is given them at each
    call."""

    value: Any
    type: Type
    note: str = ""
    site: Site | None = None
    captured: int | None = None
    order: Order = "C"


@dataclass(frozen=True, slots=True, init=False)
class Call:
    """``fn(*args, **kwargs)``, where ``fn`` is a function or the variable of a pullback.

    Variables may stand in containers (nested ones, too) and slices of ``args`` and ``kwargs``.
    """

    fn: Callable[..., Any] | Variable
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    type: Type
    site: Site | None = None
    note: str = ""

    def __init__(
        self, fn: Callable[..., Any] | Variable, args: tuple[Any, ...], kwargs: Mapping[str, Any], type: Type,
        site: Site | None = None, note: str = "",
    ) -> None:  # fmt: skip
        set_fn, set_args, set_kwargs, set_type, set_site, set_note = _SETTERS  # twice as fast as what dataclasses do
        set_fn(self, fn)
        set_args(self, args)
        set_kwargs(self, kwargs)
        set_type(self, type)
        set_site(self, site)
        set_note(self, note)

    def __reduce__(self) -> Any:
        fn, args = _kept(self.fn), tuple(map(_kept, self.args))  # of an rrule, the first one is a function
        return Call, (fn, args, self.kwargs, self.type, self.site, self.note)


@record()
class _StandIn:
    """A function that has the place of another one on tapes, where a module has that one under its name."""

    fn: Any

    def __reduce__(self) -> Any:
        return not_plain, (self.fn,)


def _kept(x: Any) -> Any:
    """What is pickled of a function; all else is itself."""
    fn = plain(x)
    module = None if fn is x else sys.modules.get(str(getattr(fn, "__module__", "")))
    return _StandIn(fn) if module is not None and getattr(module, fn.__name__, None) is fn else x


_SETTERS = [vars(Call)[name].__set__ for name in Call.__slots__]


@record(at_once=True)
class Guard:
    """A decision that Python took on a traced value: ``var`` was ``expected`` (under ``test``).

    ``number`` counts the decisions of the traced function; those that rules take have none.
    """

    var: Variable
    expected: Any
    test: Callable[[Any], Any]
    type: Type
    site: Site | None = None
    note: str = ""
    number: int = -1


Operation: TypeAlias = Input | Constant | Call | Guard


def substitute(structure: Any, lookup: Callable[[Variable], Any]) -> Any:
    """The same containers and slices with each variable replaced by ``lookup(variable)``."""
    cls = type(structure)
    if cls is Variable:
        return lookup(structure)
    if cls in LEAVES and cls is not slice:
        return structure
    if cls is tuple:
        return tuple([substitute(item, lookup) for item in structure])
    if cls is dict:
        return {key: substitute(item, lookup) for key, item in structure.items()}
    if cls is slice:
        return slice(*(substitute(part, lookup) for part in (structure.start, structure.stop, structure.step)))
    return mapped(lambda item: substitute(item, lookup), structure)


def arguments(args: tuple[Any, ...], values: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a call with each variable replaced by its value, which stands at its number."""
    return tuple([values[x.id] if type(x) is Variable else x if type(x) in NUMBERS else
                  substitute(x, lambda var: values[var.id]) for x in args])  # fmt: skip


def paths(structure: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Variable]]:
    """Each variable of a structure with the path of keys that leads to it."""
    if isinstance(structure, Variable):
        yield prefix, structure
    elif type(structure) is slice:
        yield from paths((structure.start, structure.stop, structure.step), prefix)
    elif (items := items_of(structure)) is not None:
        for key, item in zip(keys_of(structure), items, strict=True):
            yield from paths(item, (*prefix, key))


def renamed(op: Operation, names: Mapping[Variable, Any]) -> Operation:
    """An operation that reads other variables or values instead of its own."""
    if isinstance(op, Call):
        fn = names[op.fn] if isinstance(op.fn, Variable) else op.fn
        args = tuple([names[arg] if type(arg) is Variable else substitute(arg, names.__getitem__) for arg in op.args])
        kwargs = substitute(dict(op.kwargs), names.__getitem__) if op.kwargs else {}
        return Call(fn, args, kwargs, op.type, op.site, op.note)
    return replace(op, var=names[op.var]) if isinstance(op, Guard) else op


def renumbered(op: Operation, values: Sequence[Any]) -> Operation:
    """``renamed``, where what is read instead of a variable stands at its number."""
    if isinstance(op, Call):
        fn = values[op.fn.id] if isinstance(op.fn, Variable) else op.fn
        kwargs = substitute(dict(op.kwargs), lambda var: values[var.id]) if op.kwargs else {}
        return Call(fn, arguments(op.args, values), kwargs, op.type, op.site, op.note)
    return replace(op, var=values[op.var.id]) if isinstance(op, Guard) else op


def operands(op: Operation) -> Iterator[Variable]:
    """The variables that an operation reads."""
    if isinstance(op, Call):
        if isinstance(op.fn, Variable):
            yield op.fn
        for arg in op.args:
            if (cls := type(arg)) is Variable:
                yield arg
            elif cls not in NUMBERS and (cls is slice or (cls not in LEAVES and items_of(arg) is not None)):
                yield from (var for _, var in paths(arg))
        if op.kwargs:
            yield from (var for _, var in paths(dict(op.kwargs)))
    elif isinstance(op, Guard):
        yield op.var


def same(a: Any, b: Any) -> bool:
    """Whether a guard's test gave what was expected (arrays element by element); zeros have signs."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        floats = np.result_type(a).kind == np.result_type(b).kind == "f"
        return bool(np.array_equal(a, b) and (not floats or np.array_equal(np.signbit(a), np.signbit(b))))
    return bool(a == b) and not (isinstance(a, float | complex | np.inexact) and a == 0 and str(a) != str(b))
