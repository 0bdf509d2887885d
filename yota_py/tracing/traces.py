"""The recording of a function: operations on tracers, appended to a tape with their values.

Traces nest: an operation belongs to the innermost one among its arguments, and to that one the tracers of the outer
ones are constants. Which that is, ``calls.py`` finds out.
"""

from __future__ import annotations

import itertools
import operator
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy import ndarray, ufunc

from ..base import locks
from ..base.containers import LEAVES, NUMBERS, filled, items_of, keys_of, with_items
from ..base.dispatch import decided, shadow
from ..base.floating import RAISES_ERRORS, at_users_line, raises_errors
from ..base.ownership import in_rules, named_module, users_frame
from ..base.types import ArrayType, OpaqueType, order_in_memory, typeof
from ..base.unwinding import state
from ..errors import LostDerivativeError, YotaError
from ..registry.constants import as_constants
from ..registry.kernels import Concatenate, Reduce, View
from ..registry.registry import primitive_of
from ..registry.tangents import getfield
from ..registry.writes import ReadOnly, written_into
from ..tape.operations import Call, Constant, Guard, Input, Operation, Site, Variable, operands, site_of, user_site
from ..tape.recorder import Recorder, is_large
from ..tape.show import name_of
from ..tape.tape import Tape
from .calls import extents, is_flag, record
from .elements import as_now, noted_at, put_noted, select, without
from .foreign import refused
from .libraries import torch_function
from .protocols import array_function, array_ufunc, assigned, forward, in_place, operated, reflected
from .quick import dispatched, quickly
from .stand_ins import suspended
from .tracer import Status, Tracer, make_tracer, tracers_in
from .views import follow_views

T = TypeVar("T")

levels = itertools.count()

LONG = 64  # operations, after which somebody looks for loops
FEW = 16  # tracers that a trace holds until they are looked through
NOT_ARGUMENTS = "a primitive reads numbers or arrays that are not among its arguments; pass them"
_OF_SHAPES = (View, Reduce, Concatenate)
_WITHOUT_NUMBERS = (type(None), str, bytes, type, np.dtype, type(Ellipsis))


CONSTANT = Status.CONSTANT


long_tapes: list[Callable[[Trace], None]] = []  # are told of tapes that have become long
ends: list[Callable[[Trace, Tracer, bool], bool | None]] = []  # what may know how a loop ends that asks for a decision


class Trace(Recorder):
    """A recording in progress, and the tracers of its values."""

    __slots__ = (
        "_foreign", "_status", "alive", "appended", "around", "asking", "attributes", "captured", "clocks",
        "comparisons", "decisions", "derived", "draws", "effects", "give_up", "hashed", "heard", "heeds_layout",
        "imports", "labels", "level", "look_at", "lost", "made", "many", "matrices", "problems", "refused", "roots",
        "sets_errors", "shown", "site", "strangers", "texts", "thread", "truths", "turning", "unsettled", "walk",
        "watch", "writeable", "writes",
    )  # fmt: skip

    opens: ClassVar[bool] = False  # whether what has a ``lowering`` is written out

    # What comes of a call with traced values, of NumPy's protocols, of operators (``operators.py``), of assignments.
    operation, ufunc, function = staticmethod(record), staticmethod(array_ufunc), staticmethod(array_function)
    forward, reflected, in_place = staticmethod(forward), staticmethod(reflected), staticmethod(in_place)
    operated, quickly, dispatched = staticmethod(operated), staticmethod(quickly), staticmethod(dispatched)
    torch_function, assign = staticmethod(torch_function), staticmethod(assigned)
    select, put_noted, noted_at = staticmethod(select), staticmethod(put_noted), staticmethod(noted_at)

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        self.level = next(levels)  # of nested traces, the innermost has the highest
        self.alive = self.derived = True  # whether derivatives are wanted, so that what has no rule is refused
        self.thread = threading.get_ident()
        self.around = {id(trace): len(trace.tape) for trace in state.traces}  # how long these were when this one began
        self.effects = self.labels = False  # whether captured arrays may be written as well; prints show variables
        self.site: Site | None = None  # where operations come from, if it is not the running code
        self.problems: list[str] = []  # reasons why another call might not record the same
        self.texts: list[str] = []  # of traced values
        self.lost: YotaError | None = None  # the last error that it was refused with, whoever was given it
        self.refused: YotaError | None = None  # the first one that a line of the user's was given
        self.captured = 0  # so many arrays and numbers that the function reads from elsewhere
        self.decisions = self.writes = 0  # so many guards, and assignments to traced arrays
        self.appended: list[Any] = []  # what lists outside get when it has ended (``capture/sinks.py``)
        self.draws = self.clocks = 0  # so many times that random numbers are drawn, and clocks are read
        self.made: dict[int, Variable] = {}  # by their identity, generators that the function makes
        self.heard: dict[int, Any] = {}  # fingerprints of generators that all share, after what is known to be drawn
        self.attributes: Any = None  # is told of names by which attributes are read
        self.give_up: Any = None  # ends it, before what is to happen has happened
        self.matrices: list[Any] = []  # the sparse ones that guards compare
        self.shown: list[Any] = []  # arrays whose memory somebody looks at
        self.hashed: list[Any] | None = []  # what is looked up in dicts and sets or put there; None: it is taken out
        self.imports: Any = None  # is told of modules that it imports
        self.walk: Any = None  # what knows which functions are followed (``capture/walk.py``)
        self.comparisons: Any = None  # is told of functions that may compare numbers by identity
        self.sets_errors = False  # whether the function may say what NumPy does about overflow and the like
        self.heeds_layout = False  # whether what it does depends on how arrays lie in memory
        self.truths: bool | None = None  # whether it compares by identity what may be True or False; None: nothing yet
        self.look_at = LONG  # when frames are looked at
        self.watch: Any = None  # who does (``loops/watching.py``)
        self.turning: dict[Any, Any] = {}  # the conditions that it was asked for last (``loops/turning.py``)
        self.asking: Any = None  # what is known of those in loops
        self.roots: dict[Variable, Any] = {}  # the tracers of inputs and captured values
        self.writeable: set[Variable] = set()  # of these, arrays into which traces inside of this one write
        self._status: dict[int, Status] = {}
        self._foreign: dict[int, tuple[Any, Any, Variable]] = {}
        self.strangers: list[tuple[Variable, np.ndarray]] = []  # plain arrays that came from nobody knows where
        self.unsettled: list[Tracer] | None = [] if state.traces else None  # which may have to be looked up once more
        self.many = FEW  # of them

    def will_settle(self, tracer: Tracer) -> None:
        """What stands for a value is to be looked up before the trace ends: later, the trace around it may have ended,
        in which that would be computed."""
        if self.unsettled is None:
            return
        self.unsettled.append(tracer)
        if len(self.unsettled) >= self.many:  # large values go when nobody else has them
            self.unsettled = [known for known in self.unsettled if sys.getrefcount(known) > 3]
            self.many = FEW + 2 * len(self.unsettled)

    def settle_views(self, root: Tracer) -> None:
        """Look up all views of an array that has come here from a trace around this one."""
        for view in [known for known in self.unsettled or () if known._root is root]:
            view._current()

    def settle(self) -> None:
        """Look up what somebody still has."""
        self.turning, self.asking = {}, None
        unsettled, self.unsettled = self.unsettled or [], None
        while unsettled:
            tracer = unsettled.pop()
            if sys.getrefcount(tracer) > 2:
                tracer._current()

    def refuse(self, what: str) -> None:
        """Note what nobody can follow: this trace is not to be used."""
        self.refused = self.refused or YotaError(f"{user_site()}: {what}, cannot be followed")

    def status(self, var: Variable) -> Status:
        """What the value depends on."""
        return self._status.get(var.id, Status.CONSTANT)

    def is_active(self, var: Variable) -> bool:
        """Whether the value depends on an input whose derivative is wanted."""
        return self.status(var) == Status.ACTIVE

    def origin(self) -> Site | None:
        """The line of the user's code that the next operation comes from."""
        return self.site or user_site()

    def heed_truths(self) -> None:
        """From now on, what may be True or False may be compared by identity."""
        if self.truths is False:
            self.problems.append("it may ask a traced condition whether it is True itself (x is True)")
        self.truths = True

    def next_decision(self) -> int:
        """The number of the next guard."""
        self.decisions += 1
        return self.decisions - 1

    def append(self, op: Operation, value: Any) -> Variable:
        """Add an operation; worker threads of the traced function may do so at the same time."""
        with locks.tables:
            var = super().append(op, value)
        if var.id >= self.look_at:
            self.grown()
        return var

    def grown(self) -> None:
        """The tape has become long."""
        self.look_at = 2 * len(self.tape)
        for look in long_tapes:
            look(self)

    def tracer(self, var: Variable) -> Tracer:
        """A tracer for an input or constant of this recording."""
        op = self.tape[var]
        if isinstance(op, Input):
            self._status[var.id] = Status.ACTIVE if op.active else Status.INACTIVE
        elif isinstance(op, Constant) and op.captured is not None:
            self._status[var.id] = Status.INACTIVE
        else:
            return make_tracer(self, var, self[var])
        root = self.roots[var] = make_tracer(self, var, self[var])
        return root

    @property
    def written(self) -> list[Variable]:
        """The inputs and captured arrays that the function has written into."""
        return [var for var, root in self.roots.items() if root._is_written()]

    def capture(self, value: Any) -> Tracer:
        """A tracer for an array or number that the function reads from elsewhere, by reference."""
        op = Constant(value, typeof(value), "captured", captured=self.captured, order=order_in_memory(value))
        self.captured += 1
        return self.tracer(self.append(op, value))

    def foreign(self, value: np.ndarray) -> Variable:
        """The variable of a plain array that turns up among the arguments of a traced call."""
        known = self._foreign.get(id(value))
        if known is None or not np.array_equal(known[1], value, equal_nan=value.dtype.kind in "fc"):
            if type(value) is not np.ndarray:
                raise TypeError(f"{user_site()}: a {type(value).__name__} meets a traced value; its arithmetic differs "
                                "from an array's, pass np.asarray(...) of it")
            if not in_rules():
                why = "an array comes from somewhere that cannot be followed"
                self.problems.append(f"{self.origin()}: {NOT_ARGUMENTS if state.suspended else why}")
            now = np.array(value)  # the function may write into it later
            known = self._foreign[id(value)] = value, now, self.constant(now)
            if not in_rules():
                self.strangers.append((known[2], value))
        return known[2]

    def split(self, structure: Any) -> tuple[Any, Any]:
        """A structure of arguments as it stands on the tape (variables), and as the values to compute with."""
        cls = type(structure)
        if issubclass(cls, Tracer):  # one of an outer trace is a constant to this one
            return structure._current() if structure._ledger is self else 2 * (as_now(structure, self),)
        if isinstance(structure, ndarray):
            return self.foreign(structure), structure
        if cls in LEAVES and cls is not slice:
            return structure, structure
        if cls is tuple:
            names, values = [], []
            for item in structure:
                name, value = self.split(item)
                names.append(name)
                values.append(value)
            return tuple(names), tuple(values)
        if isinstance(structure, slice):
            # the extent of a slice decides a shape, so a traced bound becomes a guarded integer
            parts = (structure.start, structure.stop, structure.step)
            structure = slice(*(operator.index(part) if isinstance(part, Tracer) else part for part in parts))
        if not (items := items_of(structure)):
            return structure, structure
        pairs = [self.split(item) for item in items]
        return filled(structure, [p[0] for p in pairs]), filled(structure, [p[1] for p in pairs])

    def record(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Compute ``fn(*args, **kwargs)`` on the values and append it to the tape; the results are tracers."""
        entry = primitive_of(fn)
        kernel = None if entry is None else entry.kernel
        if isinstance(kernel, _OF_SHAPES):  # an integer decides a shape
            args, kwargs = (*args[:1], *extents(args[1:])), {key: extents(value) for key, value in kwargs.items()}
        elif kwargs:
            kwargs = {key: decided(value) if is_flag(value) else value for key, value in kwargs.items()}
        names, values = self.split(args)
        keywords, keyvalues = self.split(dict(kwargs)) if kwargs else ({}, {})
        locked = ReadOnly() if entry is None or entry.users else None
        if locked is not None:
            values, keyvalues = locked.of(values), locked.of(keyvalues)
        frame = users_frame(sys._getframe(1))
        try:
            if entry is not None and entry.known:
                with suspended:
                    value = self.compute(fn, values, keyvalues, frame)
            else:
                with suspended, state.heeding(fn):
                    value = self.compute(fn, values, keyvalues, frame)
            if locked is not None:
                value = locked.undone(value)
        except Exception as error:  # any: the function may catch it, and then it is a decision that no guard holds
            self.problems.append(f"{name_of(fn)} raised an exception")
            if locked is not None and "read-only" in str(error):
                raise written_into(name_of(fn), users=entry is not None) from None
            raise
        if isinstance(fn, ufunc) and (opaque := [x for x in values if isinstance(typeof(x), OpaqueType)]):
            raise refused(opaque[0], "NumPy makes Python objects of the two")
        if self.sets_errors and raises_errors():
            self.problems.append(f"{self.origin()}: {RAISES_ERRORS}")
        if type(value) not in LEAVES and (own := [t for t in tracers_in(value) if t._ledger is self]):
            value = self._settled(fn, value, own)
        if type(value) is ndarray and value.dtype.kind not in "fciub" and not self.effects:
            given = tracers_in((args, kwargs))
            if not any(t._carries() or np.may_share_memory(shadow(t), value) for t in given):
                decided(given)  # nobody can follow it
                return value
        if entry is not None and isinstance(value, ndarray) and named_module(fn) == "numpy":
            for x in args:  # there was nothing to do, and NumPy returns what it was given, as np.squeeze does
                if isinstance(x, Tracer) and x._ledger is self and x._current()[1] is value:
                    decided([t for t in tracers_in((*args, kwargs)) if not isinstance(t, np.ndarray)])
                    return x
        site = self.site or (None if frame is None else site_of(frame.f_code, frame.f_lineno))
        op = Call(fn, names, keywords, typeof(value), site)
        statuses = self._status
        status = max([statuses.get(x.id, CONSTANT) for x in operands(op)], default=CONSTANT)
        if entry is not None and entry.nondiff:
            status = min(status, Status.INACTIVE)
        result = self.wrap(self.append(op, value), value, status)
        if value is None:
            self.problems.append(f"{op.site}: {name_of(fn)} is called for what it does, not for a result")
        if type(value) not in LEAVES or (type(value) is ndarray and not (
            value.base is None and locked is None and not kwargs and not isinstance(kernel, View)
            and all(type(x) in LEAVES and x is not value for x in values)
        )):  # all but an array of its own
            follow_views(result, fn, args, kwargs)
        return self._truth(result) if isinstance(value, bool) and isinstance(result, Tracer) else result

    def _truth(self, condition: Tracer) -> Any:
        """A traced condition of Python's: a decision at once, where it may be asked whether it is True itself."""
        outermost = state.traces[0] if state.traces else self
        if outermost.truths:
            return self.guard(condition, bool)
        outermost.truths = False
        return condition

    def _settled(self, fn: Callable[..., Any], value: Any, own: Sequence[Tracer]) -> Any:
        """The plain result of a function that has found traced values elsewhere than among its arguments."""
        if any(t._carries() for t in own):
            raise LostDerivativeError(f"{user_site()}: {name_of(fn)} computes with traced values that are not among "
                                      "its arguments, so that their derivatives would be lost. Pass them as arguments")
        self.problems.append(f"{self.origin()}: {NOT_ARGUMENTS}")
        return without(own, value)

    def compute(
        self, fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], frame: FrameType | None = None
    ) -> Any:
        """The value of a call; ``frame`` is the user's, if it is known."""
        plain = state.traces and (state.traces[0] is self or NUMBERS.issuperset(map(type, args)))  # to all
        return at_users_line(fn, args, kwargs, frame) if plain else fn(*args, **kwargs)

    def of_values(self, fn: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
        """The value of a call that cannot be recorded: a constant, and its arguments are decisions."""
        if self.effects:
            self.refuse(f"this form of {name_of(fn)}, which reads plain values")
        with suspended:
            result = self.compute(fn, decided(args), decided(dict(kwargs)))
        return as_constants(result)

    def wrap(self, var: Variable, value: Any, status: Status) -> Any:
        """Tracers for a recorded value; containers are opened with ``getfield``."""
        t = typeof(value)
        if isinstance(value, ndarray) and value.dtype.kind not in "fciub" and status != Status.CONSTANT:
            raise LostDerivativeError(f"{self.origin()}: {self._maker(var)} makes an array of dtype {value.dtype} of "
                                      "traced values, where nobody can follow them. Use an array of numbers per field")
        if status == Status.ACTIVE and is_large(value):
            self.values[var.id] = None  # its derivative computes it again
        inexact = not isinstance(t, ArrayType) or t.inexact
        self._status[var.id] = status if inexact else min(status, Status.INACTIVE)
        if isinstance(t, ArrayType):
            return make_tracer(self, var, value)
        if (items := items_of(value)) is not None:
            wrapped = []
            for key, item in zip(keys_of(value), items, strict=True):
                field = self.append(Call(getfield, (var, key), {}, typeof(item)), item)
                wrapped.append(self.wrap(field, item, status))
            return with_items(value, wrapped)
        if status == Status.ACTIVE and not isinstance(value, _WITHOUT_NUMBERS):
            raise LostDerivativeError(
                f"{self.origin()}: {self._maker(var)} returned an object of type {type(value).__name__} made from "
                "traced values, whose derivative would be lost in it. Return numbers and arrays, also in tuples, "
                "lists, dicts and dataclasses, or make the class known to optree (namespace 'yota_py')"
            )
        if status != Status.CONSTANT and value is not None:
            self.problems.append(f"{self.origin()}: a {type(value).__name__} is made from traced values")
        return value

    def _maker(self, var: Variable) -> str:
        """The name of the function whose result a variable is, or is a part of."""
        op = self.tape[var]
        while isinstance(op, Call) and op.fn is getfield:
            op = self.tape[op.args[0]]
        return name_of(op.fn) if isinstance(op, Call) else str(var)

    def guard(self, tracer: Tracer, test: Callable[[Any], T]) -> T:
        """What ``test`` says of the value now, remembered on the tape as a decision that Python took."""
        var, value = tracer._current()
        try:
            answer = test(value)
        except Exception as error:  # any: the function may catch it, as in ``record``
            self.problems.append(f"{self.origin()}: {name_of(test)} raised {type(error).__name__}")
            raise
        if self.status(var) != Status.CONSTANT:
            for end in ends if test is bool else ():
                if (ended := end(self, tracer, answer)) is not None:  # type: ignore[arg-type]
                    return ended  # type: ignore[return-value]
            site = self.origin()
            with locks.tables:  # numbers count in the order of the tape
                super().append(Guard(var, answer, test, typeof(answer), site, number=self.next_decision()), answer)
        if type(answer) is np.ndarray:  # a mask: as an index it is a constant of this branch, to inner traces too
            with locks.tables:
                for trace in {self, *state.traces}:
                    trace._foreign[id(answer)] = (answer, answer, trace.constant(answer))
        return answer
