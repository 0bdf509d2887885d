"""Tracers: values that record what is done with them.

A tracer carries the actual value beside its variable (*concolic* tracing), so ordinary Python control flow runs and
errors happen where they would in NumPy. Nesting is by values that are themselves tracers. What is recorded, and
where, is the business of ``traces.py``; what operators do, of ``protocols.py``.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
from numpy import ndarray

from ..base.callsites import asks_for, subscripts
from ..base.containers import items_of
from ..base.dispatch import decided, is_traced, shadow
from ..base.types import ArrayType, Type, typeof
from ..base.unwinding import state
from ..errors import LostDerivativeError, MissingRuleError, YotaError
from ..registry.patches import conversions
from ..registry.registry import methods, properties, readings, setters
from ..tape.operations import Constant, Variable, user_site
from . import hints
from .disguise import askers, is_taken_apart
from .operators import Operators
from .texts import Formatting, text_of

T = TypeVar("T")

_OF_SHAPE = frozenset(["shape", "ndim", "size", "dtype", "itemsize", "nbytes"])


class Status(IntEnum):
    """What a value depends on: nothing; inputs without derivative; active inputs."""

    CONSTANT = 0
    INACTIVE = 1
    ACTIVE = 2


class Tracer(Operators):
    """A value that records what is done with it; looks like its value where that is harmless.

    A view remembers how it looks at its parent (``_look``), and at which version of the array that owns the memory
    (``_root``) it did so; assignments (``mutation.py``) raise that version.
    """

    __slots__ = ("_ledger", "_look", "_noted", "_owner", "_value", "_var", "_version")
    __yota_tracer__ = True

    _look: Any
    _noted: Any
    _owner: Tracer | None
    _value: Any
    _var: Variable
    _version: int

    def __init__(self, trace: Any, var: Variable, value: Any) -> None:
        set_ledger, set_look, set_noted, set_owner, set_value, set_var, set_version = _SETTERS  # past ``__setattr__``
        set_ledger(self, trace)
        set_var(self, var)
        set_value(self, value)
        set_look(self, None)  # a ``Look``, if this is a view
        set_noted(self, None)  # assignments that are not yet in the value (``elements.py``)
        set_owner(self, None)  # not itself: large values go as soon as nobody has them
        set_version(self, 0)

    # -- what the other modules ask

    @property
    def _root(self) -> Tracer:
        return self if self._owner is None else self._owner

    def _current(self) -> tuple[Variable, Any]:
        """The variable and the value that this tracer stands for now."""
        if self._noted is not None:
            self._ledger.put_noted(self)
        elif self._look is not None and self._version != self._root._version:
            for view in reversed([*self._lookers()]):
                view._point_to(view._look.again())
        return self._var, self._value

    def _lookers(self) -> Iterator[Tracer]:
        """This view, what it is a view of, and so on, up to what stands for the latest version."""
        at = self
        while at._look is not None and at._version != at._root._version:
            yield at
            at = at._look.parent

    def _point_to(self, other: Tracer) -> None:
        """Stand for what another tracer stands for now, which may be one of a trace inside of its own."""
        self._ledger, self._var, self._value = other._ledger, other._var, other._value
        self._version = self._root._version

    def _look_at(self, look: Any) -> None:
        """Become a view."""
        root = look.parent._root
        self._look, self._owner, self._version = look, root, root._version
        (state.traces[-1] if state.traces else self._ledger).will_settle(self)

    def _mark_written(self) -> None:
        """Note an assignment to this array, which owns its memory: views of it are to be looked up again."""
        self._version += 1
        self._ledger.writes += 1

    def _is_written(self) -> bool:
        """Whether something has been assigned to the array that owns this one's memory."""
        return self._root._version > 0

    def __yota_type__(self) -> Type:
        return typeof(self._value)

    def _describe(self) -> str:
        """Variable, type and origin, for messages."""
        op = self._ledger.tape[self._var]
        where = f", made at {op.site}" if op.site is not None else ""
        return f"a traced value ({self._var} of {self._ledger.tape.name} :: {typeof(self._value)}{where})"

    def _is_captured(self) -> bool:
        """Whether this is, or looks into, an array that the function reads from elsewhere."""
        op = self._ledger.tape[self._root._var]
        return isinstance(op, Constant) and op.captured is not None

    @property  # type: ignore[misc]  # object's can be assigned, this one only asked
    def __class__(self) -> Any:
        return self._value.__class__

    # -- decisions that Python takes: guarded

    def __bool__(self) -> bool:
        return self._decide(bool)

    def __hash__(self) -> int:
        ledger, state.hashes = self._ledger, state.hashes + 1
        if ledger.hashed is None or (not ledger.alive and is_taken_apart()):  # it is taken out of a dict
            return hash(shadow(self))
        ledger.hashed += self, *askers()
        return hash(self._decide(decided))  # which becomes a key itself

    def _decide(self, test: Callable[[Any], T]) -> T:
        if not self._is_here():
            return test(shadow(self))
        if not self._ledger.alive:
            raise leaked(self, "a decision")
        return self._ledger.guard(self, test)  # type: ignore[no-any-return]

    # -- what would lose the derivative: refused, unless there is none

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self._carries():
            raise lost("a conversion to a plain array", self, hints.of_conversion(isinstance(self, np.ndarray)))
        if self._ledger.effects and isinstance(self, np.ndarray):
            self._ledger.refuse("a conversion to a plain array, which may be kept, or written into")
        heed_layout()
        if (made := conversions.get(sys._getframe(1).f_code)) is not None:
            return made(self)
        return np.array(self._decide(decided), dtype=dtype)

    def _is_here(self) -> bool:
        """Whether this thread is the one that traces it."""
        return bool(self._ledger.thread == threading.get_ident())

    def _carries(self) -> bool:
        """Whether a derivative would be lost with this tracer, also one of a trace around its own."""
        var, value = self._current()
        active: bool = self._ledger.is_active(var)
        return active or (isinstance(value, Tracer) and value._carries())

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self._carries():
            return self._decide(decided).__reduce_ex__(protocol)
        raise lost("pickling", self, f"save values outside the differentiated function; {hints.PLAIN}")

    def __reduce__(self) -> Any:
        return self.__reduce_ex__(2)

    def __conform__(self, protocol: Any) -> Any:
        """SQLite's question for a value that it knows."""
        if self._carries():
            raise lost("a conversion for SQLite", self, hints.PLAIN)
        return self._decide(decided)

    def __copy__(self) -> Any:
        if not self._ledger.alive:
            raise leaked(self, "a copy")
        return self.__yota_record__(np.copy, (self,), {}) if isinstance(self, np.ndarray) else self

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    # -- printing and attributes

    def __repr__(self) -> str:
        return self._text(repr)

    def __str__(self) -> str:
        return self._text(str)

    def __format__(self, spec: str) -> str:
        return self._text(Formatting(spec))

    def _text(self, test: Callable[[Any], str]) -> str:
        return text_of(self, test, sys._getframe(2))

    def __getattr__(self, name: str) -> Any:
        special = name.startswith("__") and not asks_for(sys._getframe(1), name)  # C code asks for what there may be
        if special or not hasattr(self._value, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in _OF_SHAPE:
            return getattr(self._value, name)
        if (fn := methods.get(name)) is not None:
            return _Method(fn, self)
        if (fn := properties.get(name)) is not None:
            return fn(self)
        if isinstance(self, np.ndarray):
            if (reading := readings.get(name)) is not None:
                return reading(self)
        elif not self._carries():
            if not callable(getattr(self._value, name)):
                return getattr(decided(self), name)
            return lambda *args: self._decide(operator.methodcaller(name, *args))
        raise unsupported(f"x.{name}", hints.of_attribute(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in Tracer.__slots__:
            object.__setattr__(self, name, value)
        elif (setter := setters.get(name)) is not None:
            setter(self, value)
        else:
            plain = shadow(self)
            setattr(plain.copy() if isinstance(plain, np.ndarray) else plain, name, shadow(value))  # raises its error
            raise unsupported(f"x.{name} = ...")


_SETTERS = [vars(Tracer)[name].__set__ for name in Tracer.__slots__]


class _Method(partial[Any]):
    """A method of an array, and no partial that the user has made."""


_Method.__name__ = "method"  # in messages


def _getitem(self: Tracer, index: Any) -> Any:
    return self._ledger.select(self, index)


class ScalarTracer(Tracer):
    """The tracer of a NumPy scalar, which has an index (``x[None]``) but no length."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and not subscripts(sys._getframe(1)):  # an IndexError would end an iteration
            raise TypeError(f"{type(self).__name__!r} object is not iterable")
        return _getitem(self, index)


class ArrayTracer(Tracer):
    """The tracer of an array: a container, which a number is not."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Any]:
        if np.ndim(self) == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))  # whose positions ``loops/heads.py`` finds

    __getitem__ = _getitem

    def __setitem__(self, index: Any, value: Any) -> None:
        self._ledger.assign(self, index, value)

    def __delitem__(self, index: Any) -> None:
        raise ValueError("cannot delete array elements")

    def __contains__(self, item: Any) -> bool:
        return bool(np.any(self == item))


class _Conversions(Tracer):
    """Methods that not every value has: a class of tracers has those of the values. ``isinstance(x, SupportsIndex)``
    asks for them."""

    __slots__ = ()

    def __int__(self) -> int:
        return self._decide(int)

    def __index__(self) -> int:
        return self._decide(operator.index)

    def __float__(self) -> float:
        if self._carries():
            what, instead = hints.of_number(sys._getframe(1))
            raise lost(what, self, instead)
        return self._decide(float)

    def __complex__(self) -> complex:
        if self._carries():
            raise lost("complex(x)", self, "write x + 0j, and a + 1j*b for complex(a, b)")
        return self._decide(complex)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self._decide(round)
        if isinstance(self, np.ndarray | np.generic):
            return np.round(self, digits)  # type: ignore[call-overload]
        return self.__yota_record__(round, (self, digits), {})  # NumPy rounds otherwise

    def __floor__(self) -> int:
        return int(np.floor(self))

    def __ceil__(self) -> int:
        return int(np.ceil(self))

    def __trunc__(self) -> int:
        return int(self)


@lru_cache(maxsize=1024)
def tracers_of(cls: type) -> type[Tracer]:
    """The class of tracers of values of a class."""
    base = ArrayTracer if issubclass(cls, np.ndarray) else ScalarTracer if issubclass(cls, np.generic) else Tracer
    own: dict[str, Any] = {name: x for name, x in vars(_Conversions).items() if callable(x) and hasattr(cls, name)}
    own["__getattr__"] = Tracer.__getattr__  # inherited, it is lost for good if C code asks while an error is set
    if cls.__hash__ is None:
        own["__hash__"] = None
    name = f"numpy.{cls.__name__}" if cls.__module__ == "numpy" else cls.__name__
    return type(name, (base,), {"__slots__": (), "__module__": __name__, **own})  # as messages name it


def make_tracer(trace: Any, var: Variable, value: Any) -> Tracer:
    """A tracer of the kind that the value needs."""
    if isinstance(value, ndarray) and value.dtype.hasobject:
        raise LostDerivativeError(f"{user_site()}: an array of Python objects (dtype=object) cannot be traced. "
                                  "Use a numeric dtype, or a list or dict as container.")
    cls: Any = value.__class__  # of a traced value, that of what it stands for
    return tracers_of(cls)(trace, var, value)


def tracers_in(structure: Any) -> list[Tracer]:
    """All tracers among arguments, also in containers."""
    found: list[Tracer] = []
    pending = [structure]
    while pending:
        item = pending.pop()
        if isinstance(item, Tracer):
            found.append(item)
        elif is_traced(item):  # a ``Foreign``
            found.append(item._array)
        elif items := items_of(item):
            pending.extend(reversed(items))
    return found


def heed_layout() -> None:
    """What is traced depends on how the arrays that it reads lie in memory: another call relies on that."""
    for trace in state.traces:
        trace.heeds_layout = True


def kind_of_tracer(value: Any) -> str:
    """The kind of dtype (``"f"``, ``"i"``, ``"b"``, …) of a traced value; empty if it is not traced."""
    t = typeof(value) if isinstance(value, Tracer) else None
    return t.dtype.kind if isinstance(t, ArrayType) else ""


def leaked(tracer: Tracer, what: str) -> YotaError:
    """The error for a tracer that outlived its trace."""
    return YotaError(f"{user_site()}: {what} got {tracer._describe()} after its trace had ended. A traced value lives "
                     "only while the function runs: return it instead of storing it.")


def lost(what: str, tracer: Tracer, instead: str) -> YotaError:
    """The error for ``what`` would lose a derivative; ``instead`` is the way out, unless the trace has ended."""
    if not tracer._ledger.alive:
        return leaked(tracer, what)
    error = tracer._ledger.lost = LostDerivativeError(
        f"{user_site()}: {hints.without_rule()}{what} of a traced value would drop its derivative "
        f"({tracer._var} :: {tracer.__yota_type__()}). Instead: {instead}."
    )
    return error


def unsupported(what: str, instead: str = "Rewrite the line as a function of values: y = f(x)") -> MissingRuleError:
    """The error for a use of a traced value that nothing follows."""
    return MissingRuleError(f"{user_site()}: {hints.without_rule()}{what} is not supported on a traced value. "
                            f"{instead}.")
