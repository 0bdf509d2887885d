"""Tracers: values that record what is done with them.

A tracer carries the actual value beside its variable (*concolic* tracing), so ordinary Python control flow runs and
errors happen where they would in NumPy. Nesting is by values that are themselves tracers: an operation belongs to
the innermost trace among its arguments.
"""

from __future__ import annotations

import inspect
import itertools
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from .dispatch import decided, find_traced
from .errors import LostDerivativeError, MissingRuleError, YotaError
from .operations import Call, Constant, Guard, Input, Operation, Site, Variable, operands, user_site
from .patching import suspended
from .recorder import Recorder
from .registry import methods, missing_rule, primitive_of, properties
from .show import name_of
from .tangents import getfield
from .tape import Tape
from .types import ArrayType, Type, typeof

_levels = itertools.count()
_append = threading.Lock()


CONSTANT, INACTIVE, ACTIVE = 0, 1, 2  # what a value depends on: nothing; inputs without derivative; active inputs


class Trace(Recorder):
    """One recording in progress.

    ``problems`` are reasons why another call might not record the same; ``site`` is where operations come from if it
    is not the running code.
    """

    __slots__ = ("_foreign", "_status", "alive", "captured", "level", "problems", "site", "thread")

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        self.level = next(_levels)
        self.alive = True
        self.thread = threading.get_ident()
        self.site: Site | None = None
        self.problems: list[str] = []
        self.captured = 0
        self._status: dict[Variable, int] = {}
        self._foreign: dict[int, tuple[Any, Variable]] = {}

    def status(self, var: Variable) -> int:
        """``CONSTANT``, ``INACTIVE`` or ``ACTIVE``."""
        return self._status.get(var, CONSTANT)

    def tracer(self, var: Variable) -> Tracer:
        """A tracer for an input or constant of this recording."""
        op = self.tape[var]
        if isinstance(op, Input):
            self._status[var] = ACTIVE if op.active else INACTIVE
        elif isinstance(op, Constant) and op.captured is not None:
            self._status[var] = INACTIVE
        return make_tracer(self, var, self[var])

    def capture(self, value: np.ndarray) -> Tracer:
        """A tracer for an array that the function reads from elsewhere, by reference."""
        op = Constant(value, typeof(value), "captured", captured=self.captured)
        self.captured += 1
        return self.tracer(self.append(op, value))

    def constant(self, value: Any) -> Tracer:
        """A tracer for a value that is the same at every call."""
        return self.tracer(super().constant(value))  # type: ignore[arg-type]

    def foreign(self, value: np.ndarray) -> Variable:
        """The variable of a plain array that turns up among the arguments of a traced call."""
        known = self._foreign.get(id(value))
        if known is None:
            if type(value) is not np.ndarray:
                raise TypeError(f"{user_site()}: a {type(value).__name__} meets a traced value; its arithmetic differs from an "
                                "array's, pass np.asarray(...) of it")  # fmt: skip
            self.problems.append(f"{self.site or user_site()}: an array comes from somewhere that cannot be followed")
            known = value, super().constant(value)
            self._foreign[id(value)] = known
        return known[1]

    def split(self, structure: Any) -> tuple[Any, Any]:
        """A structure of arguments as it stands on the tape (variables), and as the values to compute with."""
        if isinstance(structure, Tracer):  # one of an outer trace is a constant to this one
            return structure.current() if structure._trace is self else (structure, structure)
        if isinstance(structure, np.ndarray):
            return self.foreign(structure), structure
        if isinstance(structure, tuple | list):
            pairs = [self.split(item) for item in structure]
            names, values = [p[0] for p in pairs], [p[1] for p in pairs]
            return (names, values) if isinstance(structure, list) else (tuple(names), tuple(values))
        if isinstance(structure, dict):
            both = {key: self.split(item) for key, item in structure.items()}
            return {key: p[0] for key, p in both.items()}, {key: p[1] for key, p in both.items()}
        if isinstance(structure, slice):
            # the extent of a slice decides a shape, so a traced bound becomes a guarded integer
            bounds = [operator.index(b) if isinstance(b, Tracer) else b for b in (structure.start, structure.stop, structure.step)]
            return slice(*bounds), slice(*bounds)
        return structure, structure

    def record(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Compute ``fn(*args, **kwargs)`` on the values and append it to the tape; the results are tracers."""
        entry = primitive_of(fn)
        if entry is not None and entry.kind in ("view", "reduce", "concatenate"):  # a traced integer decides a shape
            args, kwargs = (args[0], *decided(args[1:])), {key: decided(value) for key, value in kwargs.items()}
        names, values = self.split(args)
        keywords, keyvalues = self.split(dict(kwargs))
        try:
            with suspended():
                value = fn(*values, **keyvalues)
        except Exception:
            self.problems.append(f"{name_of(fn)} raised an exception")  # which the function may catch: a decision
            raise
        op = Call(fn, names, keywords, typeof(value), self.site or user_site())
        status = max((self.status(x) for x in operands(op)), default=CONSTANT)
        if entry is not None and entry.nondiff:
            status = min(status, INACTIVE)
        result = self.wrap(self.append(op, value), value, status)
        if entry is not None and entry.kind in ("view", "index") and _is_view(result, args):
            result.look_at(args[0], fn, args[1:], kwargs)
        return result

    def append(self, op: Operation, value: Any) -> Variable:
        """Add an operation; worker threads of the traced function may do so at the same time."""
        with _append:
            return super().append(op, value)

    def require_finite(self, result: Tracer) -> Tracer:
        """Guard the result of a Python operation that raises where machine code gives inf or NaN."""
        if self.status(result._var) != CONSTANT and isinstance(result, float):
            self.guard(self.record(np.isfinite, (result,), {}), bool)
        return result

    def wrap(self, var: Variable, value: Any, status: int) -> Any:
        """Tracers for a recorded value; tuples and lists are opened with ``getfield``."""
        t = typeof(value)
        self._status[var] = min(status, INACTIVE) if isinstance(t, ArrayType) and not t.inexact else status
        if isinstance(value, tuple | list):
            items = []
            for i, item in enumerate(value):
                field = self.append(Call(getfield, (var, i), {}, typeof(item)), item)
                items.append(self.wrap(field, item, status))
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if not isinstance(t, ArrayType):
            if status != CONSTANT and value is not None:
                self.problems.append(f"{self.site or user_site()}: a {type(value).__name__} is made from traced values")
            return value
        return make_tracer(self, var, value)

    def guard(self, tracer: Tracer, test: Callable[[Any], Any]) -> Any:
        """What ``test`` says of the value now, remembered on the tape as a decision that Python took."""
        var, value = tracer.current()
        value = test(value)
        if self.status(var) == CONSTANT:
            return value
        self.append(Guard(var, value, test, typeof(value), self.site or user_site()), value)
        return value


def record(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Record a call with traced arguments in the innermost trace among them."""
    entry = primitive_of(fn)
    if entry is not None and entry.immediate:  # shapes and dtypes only
        with suspended():
            return fn(*shadow(args), **shadow(dict(kwargs)))
    tracers = list(_tracers((args, kwargs)))
    if not all(t.is_here() for t in tracers):
        working = [t._trace for t in tracers if t.carries() and t._trace.alive]
        if not working:  # arrays that another thread's trace watches
            return fn(*elsewhere(args), **elsewhere(dict(kwargs)))
        working[0].problems.append("it computes in threads of its own")
    if entry is not None and entry.inline and entry.lowering is not None:
        return entry.lowering(*args, **kwargs)
    trace = max((t._trace for t in tracers), key=lambda t: t.level)
    for tracer in tracers:
        if not tracer._trace.alive:
            raise leaked(tracer, name_of(fn))
    if entry is None or (entry.rule is None and not entry.nondiff and entry.lowering is None):
        if any(t._trace.status(t.current()[0]) == ACTIVE for t in tracers):
            raise missing_rule(fn)
    if kwargs and find_traced(kwargs.values()) is not None:
        args, kwargs = _positional(fn, entry, args, kwargs)
    return trace.record(fn, args, kwargs)


def _tracers(structure: Any) -> Iterator[Tracer]:
    if isinstance(structure, Tracer):
        yield structure
    elif isinstance(structure, tuple | list):
        for item in structure:
            yield from _tracers(item)
    elif isinstance(structure, dict):
        for item in structure.values():
            yield from _tracers(item)


def elsewhere(structure: Any) -> Any:
    """Arguments with the tracers of other threads replaced by their values."""
    if isinstance(structure, Tracer):
        return structure if structure._trace.thread == threading.get_ident() else shadow(structure)
    if isinstance(structure, tuple | list):
        return type(structure)(map(elsewhere, structure))
    if isinstance(structure, dict):
        return {key: elsewhere(item) for key, item in structure.items()}
    return structure


def _is_view(result: Any, args: tuple[Any, ...]) -> bool:
    if not isinstance(result, Tracer) or not isinstance(args[0], Tracer) or args[0]._trace is not result._trace:
        return False
    have, of = shadow(result), shadow(args[0])
    return isinstance(have, np.ndarray) and isinstance(of, np.ndarray) and np.may_share_memory(have, of)


def shadow(structure: Any) -> Any:
    """The plain values behind tracers, for functions that look at shapes and dtypes only."""
    while isinstance(structure, Tracer):
        structure = structure.current()[1]
    if isinstance(structure, tuple | list):
        return type(structure)(map(shadow, structure))
    if isinstance(structure, dict):
        return {key: shadow(item) for key, item in structure.items()}
    return structure


def _positional(fn: Any, entry: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Traced keyword arguments moved to their positions, where cotangents can reach them."""
    rule = entry.rule if entry is not None and entry.rule is not None else fn
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        parameters = inspect.signature(rule).parameters
    rest, out = dict(kwargs), list(args)
    for i, (name, parameter) in enumerate(parameters.items()):
        if i < len(args):
            continue
        if find_traced(rest.values()) is None:
            break
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            break
        default = None if parameter.default is parameter.empty else parameter.default
        out.append(rest.pop(name, default))
    if find_traced(rest.values()) is not None:
        raise MissingRuleError(f"{user_site()}: {name_of(fn)} has a traced value in the keyword argument(s) {[*rest]}, "
                               "through which no rule can carry a derivative. Pass it by position or rewrite the line.")
    return tuple(out), rest


_OF_SHAPE = frozenset(["shape", "ndim", "size", "dtype", "itemsize", "nbytes"])


class Tracer:
    """A value that records what is done with it; looks like its value where that is harmless.

    A view remembers how it looks at its parent (``_look``), and at which version of the array that owns the memory
    (``_root``) it did so; assignments (``mutation.py``) raise that version. Operators stand in ``operators.py``.
    """

    __slots__ = ("_look", "_root", "_trace", "_value", "_var", "_version")
    __array_priority__ = 1000.0

    def __init__(self, trace: Trace, var: Variable, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            raise LostDerivativeError(f"{user_site()}: an array of Python objects (dtype=object) cannot be traced. "
                                      "Use a numeric dtype, or a list or dict as container.")
        self._trace, self._var, self._value = trace, var, value
        self._look: tuple[Tracer, Any, tuple[Any, ...], dict[str, Any]] | None = None
        self._root, self._version = self, 0

    # -- what the other modules ask

    def current(self) -> tuple[Variable, Any]:
        """The variable and the value that this tracer stands for now."""
        if self._look is not None and self._version != self._root._version:
            parent, fn, args, kwargs = self._look
            self.point_to(self._trace.record(fn, (parent, *args), kwargs))
        return self._var, self._value

    def point_to(self, other: Tracer) -> None:
        """Stand for what another tracer stands for now."""
        self._var, self._value, self._version = other._var, other._value, self._root._version

    def look_at(self, parent: Tracer, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Become a view: ``fn(parent, *args, **kwargs)``."""
        self._look, self._root, self._version = (parent, fn, args, dict(kwargs)), parent._root, parent._root._version

    __yota_record__ = staticmethod(record)

    def __yota_type__(self) -> Type:
        return typeof(self._value)

    def describe(self) -> str:
        """Variable, type and origin, for messages."""
        op = self._trace.tape[self._var]
        where = f", made at {op.site}" if op.site is not None else ""
        return f"a traced value ({self._var} of {self._trace.tape.name} :: {typeof(self._value)}{where})"

    def is_captured(self) -> bool:
        """Whether this is, or looks into, an array that the function reads from elsewhere."""
        op = self._trace.tape[self._root._var]
        return isinstance(op, Constant) and op.captured is not None

    @property
    def __class__(self) -> Any:
        return self._value.__class__

    # -- decisions that Python takes: guarded

    def __bool__(self) -> bool:
        return self._decide(bool)

    def __int__(self) -> int:
        return self._decide(int)

    def __index__(self) -> int:
        return self._decide(operator.index)

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self._decide(round)
        rounded = np.round(self, digits)  # type: ignore[call-overload]
        return rounded if isinstance(self, np.ndarray | np.generic) else methods["item"](rounded)

    def __floor__(self) -> int:
        return int(np.floor(self))

    def __ceil__(self) -> int:
        return int(np.ceil(self))

    def __trunc__(self) -> int:
        return int(self)

    def __hash__(self) -> int:
        return self._decide(hash)

    def _decide(self, test: Callable[[Any], Any]) -> Any:
        if not self.is_here():
            return test(shadow(self))
        if not self._trace.alive:
            raise leaked(self, "a decision")
        return self._trace.guard(self, test)

    # -- what would lose the derivative: refused, unless there is none

    def __float__(self) -> float:
        if self.carries():
            raise lost("float(x)", self, "use x itself: it works wherever a number does. If the call is math.f imported "
                                          "by name in another module, write math.f or np.f")
        return self._decide(float)

    def __complex__(self) -> complex:
        if self.carries():
            raise lost("complex(x)", self, "use x itself, or x + 0j")
        return self._decide(complex)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.carries():
            raise lost("a conversion to a plain array", self, "call NumPy functions through `np.` in your own code, or "
                                                               "give the function that converts a rule: see yota_py.primitive")
        return np.array(self._decide(np.array), dtype=dtype)

    def is_here(self) -> bool:
        """Whether this thread is the one that traces it."""
        return self._trace.thread == threading.get_ident()

    def carries(self) -> bool:
        """Whether a derivative would be lost with this tracer."""
        return self._trace.status(self.current()[0]) == ACTIVE

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self.carries():
            return self._decide(decided).__reduce_ex__(protocol)
        raise lost("pickling or copying", self, "use x.copy(); save values outside the differentiated function")

    # -- printing and attributes

    def __repr__(self) -> str:
        return self._text(repr)

    def __str__(self) -> str:
        return self._text(str)

    def __format__(self, spec: str) -> str:
        return self._text(lambda value: format(value, spec))

    def _text(self, test: Callable[[Any], str]) -> str:
        """A text may be compared, so it is a decision; but a tracer that outlived its trace can still be printed."""
        return self._decide(test) if self._trace.alive else test(shadow(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self._value, name):
            raise AttributeError(f"{self.__class__.__name__!r} object has no attribute {name!r}")
        if name in _OF_SHAPE:
            return getattr(self._value, name)
        if (fn := methods.get(name)) is not None:
            return partial(fn, self)
        if (fn := properties.get(name)) is not None:
            return fn(self)
        raise unsupported(f"x.{name}", "")

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Tracer.__slots__:
            raise unsupported(f"x.{name} = ...", "")
        object.__setattr__(self, name, value)


class ArrayTracer(Tracer):
    """The tracer of an array: a container, which a number is not."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Any]:
        if np.ndim(self) == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return record(operator.getitem, (self, guarded_masks(index)), {})

    def __contains__(self, item: Any) -> bool:
        return bool(np.any(self == item))


def make_tracer(trace: Trace, var: Variable, value: Any) -> Tracer:
    """A tracer of the kind that the value needs."""
    return (ArrayTracer if isinstance(value, np.ndarray) else Tracer)(trace, var, value)


def guarded_masks(index: Any) -> Any:
    """A traced boolean mask in an index decides a shape: its value becomes a guard."""
    parts = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(p, Tracer) for p in parts):
        return index
    out = tuple(decided(p) if isinstance(p, Tracer) and p.__yota_type__().dtype.kind == "b" else p for p in parts)  # type: ignore[union-attr]
    return out if isinstance(index, tuple) else out[0]


def leaked(tracer: Tracer, what: str) -> YotaError:
    """The error for a tracer that outlived its trace."""
    return YotaError(
        f"{user_site()}: {what} got {tracer.describe()} after its trace had ended. A traced value lives only while the "
        "function runs: return it instead of storing it."
    )


def lost(what: str, tracer: Tracer, instead: str) -> LostDerivativeError:
    return LostDerivativeError(f"{user_site()}: {what} of a traced value would drop its derivative "
                               f"({tracer._var} :: {tracer.__yota_type__()}). Instead: {instead}.")


def unsupported(fn: Any, what: str) -> MissingRuleError:
    name = fn if isinstance(fn, str) else name_of(fn)
    return MissingRuleError(f"{user_site()}: {name}{' with ' if what.endswith('=') else ''}{what} is not supported on a "
                            "traced value. Rewrite the line as a function of values: y = f(x).")
