"""What a running frame does next depends on its local variables, on what its code reaches, and on what Python's
interpreter has on its stack.

Two moments at one instruction that differ in nothing but traced values are followed by the same.
"""

from __future__ import annotations

import ctypes
import dis
import sys
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import CodeType, FrameType, MappingProxyType
from typing import Any

import numpy as np

from ..base.dispatch import find_traced, is_traced, shadow
from ..base.impure import Impure
from ..base.instructions import instructions_of
from ..base.records import record
from ..capture.closed import Closing
from ..passes.dce import dce
from ..tape.operations import Call, Constant, Guard, Input, Operation, Variable, operands, renamed
from ..tape.tape import Tape
from ..tracing.tracer import Status
from ..tracing.traces import Trace

MAX_ELEMENTS = 512  # of plain arrays that a turn might write into
_IS_FUNCTION = 0x1  # its local variables are in the frame
_GENERATES = 0x20 | 0x80 | 0x200  # code of generators and coroutines, which others run on
_GO_AWAY = frozenset(["JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE", "RETURN_CONST",
                      "RAISE_VARARGS", "RERAISE"])  # fmt: skip


_PLAIN = (int, float, complex, bool, str, bytes, type(None))  # whose values are not changed
_NOTHING: Mapping[Variable, Variable] = MappingProxyType({})


class UnlikeError(Exception):
    """A turn is not known to be as the one before."""


class State:
    """The ``live`` local variables of a frame, ``but`` for one, and what ``also`` is traced: traced values, and all
    that is not. Of arrays into which elements are ``written``, what was noted so far. Code that leaves objects as they
    are reaches what it has reached in an ``earlier`` state with the same local variables but for traced values."""

    def __init__(
        self, frame: FrameType, *also: Any, live: Container[str], but: str | None = None, written: Sequence[str] = (),
        earlier: State | None = None,
    ) -> None:  # fmt: skip
        if earlier is None:
            check_code(frame)
        self.values = {name: value for name, value in frame.f_locals.items() if name != but and name in live}
        self.traced: list[tuple[Any, Variable]] = [(value, _variable(value)) for value in also]
        self.names: list[str | None] = [None] * len(also)  # of local variables that have traced values, or hold them
        self._others: list[Any] = []
        self._lists: list[Any] = []  # whose items are as if they were local variables
        self.notes: dict[str, dict[Any, Any]] = {}
        for name, value in self.values.items():
            self._others.append(name)
            if name in written:
                self._note(name, value)
            else:
                self._add(value)
                self.names += [name] * (len(self.traced) - len(self.names))
        self._reached: list[Any] = []  # what its code reads from elsewhere
        self._held: list[Any] = []  # by it, in containers
        self.functions: list[CodeType] = []  # those that it may call
        if earlier is None or earlier._held or self._others != earlier._others:
            self._reach(frame, written)
        else:
            self._reached, self.functions = earlier._reached, earlier.functions
        self._elsewhere = [*map(_known, self._reached), *self._held]

    def _reach(self, frame: FrameType, written: Sequence[str]) -> None:
        """Look at what the code of the frame reads from elsewhere, if it does nothing but compute."""
        closing = Closing(self._array)
        spaces = [name for name, value in self.values.items() if closing.is_space(value)]
        closing.running(frame.f_code, frame.f_globals, self.values, own=spaces)
        for name, value in self.values.items():
            if name not in written and name not in spaces:
                closing.see(value)
                closing.value(value)
        closing.check()
        self.functions = closing.codes
        for container, contents in closing.found:
            own = any(container is known for known in self._lists)
            self._held += [_Same(container), *([] if own else map(_known, contents))]

    def _note(self, name: str, value: Any) -> None:
        if not (is_traced(value) and isinstance(value, np.ndarray)) or value._look is not None:  # type: ignore[attr-defined]
            raise UnlikeError
        self._others += [_Same(value), value._var]  # type: ignore[attr-defined]
        self.notes[name] = dict(value._noted or {})  # type: ignore[attr-defined]

    def _array(self, x: Any) -> Any:
        if not any(x is value for value, _ in self.traced):
            self._reached.append(x)
        return x

    @property
    def variables(self) -> set[Variable]:
        """Those of traced values."""
        return {var for _, var in self.traced}

    def is_like(self, other: State) -> bool:
        """Whether all but traced values is the same."""
        return self._others == other._others and self._elsewhere == other._elsewhere

    @property
    def held(self) -> frozenset[Variable]:
        """The variables of traced values that code reaches elsewhere."""
        return frozenset(_variable(value) for value in self._reached if is_traced(value))

    @property
    def is_written(self) -> bool:
        """Whether arrays that the frame had then have been written into since."""
        return any(_variable(value) != var for value, var in self.traced)

    @property
    def shares(self) -> bool:
        """Whether several of what the frame has lie in one array."""
        values = [*(value for value, _ in self.traced), *filter(is_traced, self._reached)]
        roots = [value._root for value in values if isinstance(shadow(value), np.ndarray)]
        return len({*map(id, roots)}) < len(roots)

    def _add(self, value: Any) -> None:
        if is_traced(value):
            self.traced.append((value, _variable(value)))
            self._others.append(Variable)
        elif type(value) is tuple:
            self._others += [tuple, len(value)]
            for item in value:
                self._add(item)
        elif type(value) in (list, dict):
            if len(value) > MAX_ELEMENTS or len(self._lists) > MAX_ELEMENTS:
                raise UnlikeError
            self._lists.append(value)
            self._others += [_Same(value), len(value)]
            for item in [*value.items()] if type(value) is dict else value:
                self._add(item)
        else:
            self._others.append(_known(value))


def check_code(frame: FrameType) -> None:
    """Raise ``OpenError`` if the code of a frame does more than to compute. To look at the local variables changes the
    dict that ``locals()`` has given."""
    Closing(lambda x: x).running(frame.f_code, frame.f_globals, {})


def _variable(value: Any) -> Variable:
    if value._noted is not None:
        raise UnlikeError  # elements of it have been assigned, which becomes an operation when it is read
    return value._current()[0]  # type: ignore[no-any-return]


def _known(value: Any) -> Any:
    """What tells a value from another one."""
    if is_traced(value):
        return _Same(value), _variable(value)
    if type(value) is np.ndarray:
        if value.size > MAX_ELEMENTS or value.dtype.hasobject:
            raise UnlikeError
        return _Same(value), value.shape, value.dtype, value.tobytes()
    if type(value) in _PLAIN:
        return type(value), repr(value)
    return _Same(value)


@record(eq=False)
class _Same:
    """An object that is to be the same one."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def carried_by(
    before: State, after: State, rows: Container[Variable] = (), also: Mapping[Variable, Variable] = _NOTHING,
    views: dict[Variable, View] | None = None,
) -> dict[Variable, Variable]:  # fmt: skip
    """What a turn has made of traced values, in their order; of values that are the same, one; and ``also`` of these.
    What it has read anew, ``rows`` of arrays, is not carried; of ``views``, which are noted, it is what they look at.
    Raises ``UnlikeError`` if it has done more, or other things than the turn before."""
    if not after.is_like(before):
        raise UnlikeError
    carried: dict[Variable, Variable] = {}
    same: set[Variable] = set()
    for (value, x), (new, y) in zip(before.traced, after.traced, strict=True):
        if y in rows:
            continue
        if x == y:
            same.add(x)
            continue
        if memory(value) != memory(new) or not (is_followed(value, x) and is_followed(new, y)):
            raise UnlikeError
        if new._look is not None and views is not None:
            view, old = View.of(new), View.of(value)
            if not view.is_like(old):
                raise UnlikeError
            views[y] = view
            x, y = old.root._var, view.root._var
        elif new._look is not None or value is new:
            raise UnlikeError  # it looks into another array, or was written into
        if carried.setdefault(x, y) != y:
            raise UnlikeError  # it was the same as another value
    if any(carried.setdefault(x, y) != y for x, y in also.items()):
        raise UnlikeError
    made = [*carried.values()]
    if len({*made}) < len(made) or not same.isdisjoint([*carried, *made]):
        raise UnlikeError
    return carried


@record(eq=False)
class View:
    """What a traced view looks at, and how: from there on, step by step."""

    root: Any
    looks: list[Any]

    @classmethod
    def of(cls, x: Any) -> View:
        """How a view looks, or what is none."""
        looks: list[Any] = []
        while x._look is not None:
            looks.insert(0, x._look)
            x = x._look.parent
        return cls(x, looks)

    def is_like(self, other: View) -> bool:
        """Whether both look in the same way at two arrays of which nothing else is known."""
        if self.root is other.root or self.root._is_written() or other.root._is_written():
            return False
        own, others = ([(look.fn, look.args, *look.kwargs.items()) for look in x.looks] for x in (self, other))
        same = len(own) == len(others) and all(a[0] is b[0] for a, b in zip(own, others, strict=True))
        return same and find_traced((own, others)) is None and repr(own) == repr(others)

    def again(self, root: Any) -> Any:
        """The same view of another array."""
        for look in self.looks:
            root = look.fn(root, *look.args, **look.kwargs)
        return root


def memory(x: Any) -> Any:
    """How an array lies in memory, on which it depends what is a view and what is a copy."""
    array = shadow(x)
    return (array.strides, array.flags.writeable) if isinstance(array, np.ndarray) else None


def is_followed(x: Any, var: Variable | None = None) -> bool:
    """Whether decisions on a value, that of a variable or the present one, are recorded: those on constants are not."""
    return x._ledger.status(_variable(x) if var is None else var) != Status.CONSTANT  # type: ignore[no-any-return]


class Turn:
    """The turn that a trace has recorded last, from an operation on, as the body of a loop: what it has ``carried``,
    takes from ``rows`` of arrays and reads from before the loop, and its ``outputs``. What it reads is from before the
    operation ``first``."""

    def __init__(
        self, trace: Trace, start: int, carried: dict[Variable, Variable], rows: Collection[Variable] = (),
        outputs: Sequence[Variable] = (), *, first: int,
    ) -> None:  # fmt: skip
        tape = trace.tape
        self._trace, self._carried, self._rows, self._outputs = trace, carried, rows, outputs
        if any(tape[x].type != tape[y].type for x, y in carried.items()):
            raise UnlikeError
        self.ops = [(Variable(i + 1), tape.ops[i]) for i in range(start, len(tape))]
        made = {x for x, _ in self.ops}
        if not made.issuperset(outputs):
            raise UnlikeError
        read = dict.fromkeys(
            x for own, op in self.ops if own not in rows for x in operands(op) if x not in made and x not in carried
        )
        self._read = read | dict.fromkeys(y for y in carried.values() if y not in made and y not in carried)
        if not all(map(_computes, (op for _, op in self.ops))):
            raise UnlikeError
        if any(x.id > first for x in self._read):
            raise UnlikeError
        self.invariants = [x for x in self._read if not (isinstance(op := tape[x], Constant) and op.captured is None)]

    @property
    def types(self) -> list[Any]:
        """The types of all values."""
        tape = self._trace.tape
        ops = [*map(tape.__getitem__, (*self._carried, *self._read)), *(op for _, op in self.ops)]
        return [op.type for op in ops if not isinstance(op, Guard)]

    def body(self, end: Guard | None = None) -> Tape:
        """The body, which may begin with the decision that ends the loop, on what is carried first."""
        tape, out = self._trace.tape, Tape("turn")
        given = (*self._carried, *self._rows, *self.invariants)
        inside = {x: out.append(Input("", t := tape[x].type, t.inexact)) for x in given}  # type: ignore[union-attr]
        if end is not None:
            out.append(replace(end, var=inside[next(iter(self._carried))]))
        for x in self._read:
            if x not in inside:
                inside[x] = out.append(tape[x])
        for x, op in self.ops:
            if x not in self._rows:
                op = renamed(op, inside)
                inside[x] = out.append(replace(op, number=-1) if isinstance(op, Guard) else op)
        out.results = [inside[y] for y in (*self._carried.values(), *self._outputs)]
        return dce(out)


def _computes(op: Operation) -> bool:
    """Whether an operation does the same in each turn."""
    if isinstance(op, Constant):
        return op.captured is None
    if isinstance(op, Guard):
        return not isinstance(op.expected, np.ndarray)
    return isinstance(op, Call) and not isinstance(op.fn, Variable | Impure)


def assign(frame: FrameType, values: dict[str, Any], found: dict[Variable, Any], others: dict[str, Any]) -> None:
    """Give local variables of a frame these values, with what a loop has ``found`` in the place of variables; and
    ``others`` as they are."""
    namespace = frame.f_locals
    new = {name: _with(value, found) for name, value in values.items()}
    for value in values.values():
        _put_into(value, found)
    namespace.update({name: value for name, value in new.items() if value is not values[name]} | others)
    if sys.version_info < (3, 13):  # later, what has the names writes through
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _with(value: Any, found: dict[Variable, Any]) -> Any:
    if is_traced(value):
        return found.get(value._current()[0], value)
    return tuple([_with(item, found) for item in value]) if type(value) is tuple else value


def _put_into(value: Any, found: dict[Variable, Any]) -> None:
    """Let lists and dicts have what was found."""
    if type(value) in (tuple, list, dict):
        for key, item in [*(value.items() if type(value) is dict else enumerate(value))]:
            _put_into(item, found)
            if type(value) is not tuple and (new := _with(item, found)) is not item:
                value[key] = new


def is_function(code: CodeType) -> bool:
    """Whether code is that of a function whose local variables are in its frame, which nobody else runs on."""
    return bool(code.co_flags & _IS_FUNCTION) and not code.co_flags & _GENERATES


@lru_cache(maxsize=1024)
def depths(code: CodeType) -> dict[int, int]:
    """How much is on the interpreter's stack at the instructions of code, but for those that handle exceptions."""
    steps = {step.offset: step for step in instructions_of(code)}
    following = dict(zip(steps, [*steps][1:], strict=False))
    found, pending = dict[int, int](), [(min(steps), 0)]
    while pending:
        offset, depth = pending.pop()
        if offset in found:
            continue
        found[offset] = depth
        step = steps[offset]
        argument = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            pending.append((step.argval, depth + dis.stack_effect(step.opcode, argument, jump=True)))
        if offset in following and step.opname not in _GO_AWAY:
            pending.append((following[offset], depth + dis.stack_effect(step.opcode, argument, jump=False)))
    return found
