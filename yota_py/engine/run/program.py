"""A compiled tape: frames, the call into the driver, and the Python steps in between."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...base.dispatch import original
from ...base.refusal import Decision, Due, Misfit, OutOfBounds, Raised, Refusal
from ...base.types import ArrayType, Order, Type
from ...errors import YotaError
from ...tape.loop import Loop
from ...tape.operations import Call, Constant, Variable
from ...tape.show import name_of
from ...tape.tape import Tape
from ..kernels.emit import OUT_OF_BOUNDS
from ..kernels.hooks import check_hooks
from ..kernels.lapack import RAISED
from ..kernels.store import Spec, addresses
from ..plan.overwrite import is_certain
from ..plan.plan import Plan, make_plan
from ..plan.repeat import KernelCall, PythonTurns, Turns
from ..schedule.fuse import fuse
from ..schedule.steps import Python
from .driver import CALLS, LIMIT, Helpers, caller, describe, native
from .objects import BUILT, NUMBER, OBJECT, OUTPUT, SCALAR
from .steps import MISFIT, Frame, Segment, stepping

check_hooks()

_REFUSALS = {MISFIT: Misfit(), RAISED: Raised(), OUT_OF_BOUNDS: OutOfBounds()}
RELEASE_ABOVE = 4096  # elements: smaller programs are not worth giving the interpreter lock away


class Program:
    """A tape as machine code: ``run`` takes the values of its inputs and then all that the tape has captured.

    It answers with a tuple of results, which are fresh arrays and numbers of the given types, those with the numbers
    ``turned`` in Fortran's order; or with a ``Refusal``. Some results are written ``over`` inputs, by the numbers of
    both, where that can be done: they are ``None``, and the inputs changed, unless it refuses; ``apart`` changes none.
    Nothing is kept of the values that the tape was recorded with, except for its own constants.
    """

    def __init__(
        self, tape: Tape, types: Sequence[Type], turned: Collection[int] = (), over: Mapping[int, int] | None = None
    ) -> None:  # fmt: skip
        self.tape = tape = _without_captured(tape)
        try:
            self._make(tape, types, turned, over)
        except Exception as error:
            names = dict.fromkeys(name_of(op.fn) for op in tape.ops if isinstance(op, Call))
            error.add_note(f"while the operations {', '.join(names)} were compiled")
            raise

    def _make(
        self, tape: Tape, types: Sequence[Type], turned: Collection[int], over: Mapping[int, int] | None
    ) -> None:  # fmt: skip
        self.beside: Program | None = None  # what runs on what this one gives
        schedule = fuse(tape)
        self.plan = plan = make_plan(schedule, turned, over)
        self.certain = not plan.decisions and all(map(is_certain, schedule.steps))  # it refuses nothing that fits
        for kind, *rest in plan.results:
            if kind == "variable":
                raise YotaError(f"a result of type {tape[rest[0]].type} cannot be returned from a compiled tape")
        self._owned = {slot: np.ascontiguousarray(array) for slot, array in plan.arrays}
        self._template = self._make_template(plan)
        self._frames: dict[int, Frame] = {}  # by their addresses
        self._results = [_settled(r, t) for r, t in zip(plan.results, types, strict=True)]
        segments, self._tables = self._link(plan)
        self._table = self._describe(plan, segments)
        self.run = caller(self._table, self._again, self)
        self._run_as_is = caller(self._table, _misfit, self)
        self.apart = self._apart if plan.overwritten else self.run

    @property
    def python_steps(self) -> list[Call]:
        """Operations that no kernel covers and that are called in Python."""
        return [op for tape, step in _steps(self.tape, self.plan.segments) if isinstance(op := tape[step.var], Call)]

    @property
    def calls(self) -> int:
        """How often it has answered with results."""
        return int(self._table[CALLS])

    @property
    def is_due(self) -> bool:
        """Whether it refuses the next call."""
        return bool(self._table[CALLS] >= self._table[LIMIT])

    @property
    def limit(self) -> int:
        """With so many calls it is due: it refuses further ones."""
        return int(self._table[LIMIT])

    @limit.setter
    def limit(self, calls: int) -> None:
        self._table[LIMIT] = calls

    @property
    def nbytes(self) -> int:
        """The memory that it keeps: constants, tables and frames."""
        kept = [self._template, self._table, *self._tables, *self._kept, *self._owned.values(), *self._frames.values()]
        own = sum(x.nbytes for x in kept if isinstance(x, np.ndarray | Frame))
        return own if self.beside is None else own + self.beside.nbytes

    def __call__(self, *values: Any) -> Any:
        """Run the program."""
        return self.run(*values)

    # -- what the driver asks for

    def _again(self, *values: Any) -> Any:
        """With values that do not fit at once, or when the program is due."""
        if self.calls >= self.limit:
            return Due(self)
        converted = self._converted(values)
        if converted is None:
            return Misfit()
        answer = self._run_as_is(*converted)
        for k in self.plan.overwritten.values() if type(answer) is tuple else ():
            if converted[k] is not values[k]:
                values[k][...] = converted[k]
        return answer

    def _apart(self, *values: Any) -> Any:
        """Run the program with copies of those inputs that it changes: they are the results, then."""
        given = list(values)
        for k in self.plan.overwritten.values() if len(given) == len(self.plan.inputs) else ():
            given[k] = values[k].copy(order="K")
        answer = self.run(*given)
        if type(answer) is not tuple:
            return answer
        return tuple(given[over] if (over := self.plan.overwritten.get(i)) is not None else y
                     for i, y in enumerate(answer))  # fmt: skip

    def _more(self) -> int:
        """Another frame."""
        frame = Frame(self._template, self.plan.arena_bytes)
        self._frames[frame.address] = frame
        return frame.address

    def _refuse(self, address: int, fault: int) -> Refusal:
        """What a fault means."""
        if (refusal := _REFUSALS.get(fault)) is not None:
            return refusal
        number, t, loops = self.plan.decisions[fault]
        head = self._frames[address].head
        return Decision(number + sum(int(head[k]) * each for k, each in loops), self._number(address, fault // 8, t))

    def _number(self, address: int, word: int, t: ArrayType) -> Any:
        """A number of any dtype from the head of a frame."""
        value: np.ndarray = np.ndarray((), t.dtype, self._frames[address].head, 8 * word)
        return value.copy() if t.kind == "array" else value[()] if t.kind == "scalar" else value.item()

    def _built(self, address: int, i: int) -> Any:
        """A result that machine code does not make: a number of another dtype, or a copy of a constant array."""
        kind, value, t = self._results[i]
        return self._number(address, value.offset // 8, t) if kind == "number" else original(np.array)(value)

    # -- tables for the driver

    def _make_template(self, plan: Plan) -> np.ndarray:
        """The head of a frame as it is before a call: constants and the addresses of arrays of our own."""
        template = np.zeros(plan.head_words, np.int64)
        for word, value in plan.numbers:
            template[word : word + 2].view(np.uint8)[: value.dtype.itemsize] = np.frombuffer(value.tobytes(), np.uint8)
        for slot, array in self._owned.items():
            template[slot] = array.ctypes.data
        return template

    def _link(self, plan: Plan) -> tuple[list[Segment], list[np.ndarray]]:
        """The kernel tables with the addresses of compiled code; Python steps stay as they are."""
        specs = {id(spec): spec for spec in _specs(plan.segments)}
        found = addresses(specs.values())
        code = {same: found[spec] for same, spec in specs.items()}
        tables: list[np.ndarray] = []

        def linked(segment: Any) -> Segment:
            if isinstance(segment, PythonTurns):
                return replace(segment, segments=[*map(linked, segment.segments)])
            if not isinstance(segment, list):
                return segment  # type: ignore[no-any-return]
            words = _records(segment, code)
            tables.append(np.array(words, np.int64))
            return tables[-1].ctypes.data, len(words)

        return [*map(linked, plan.segments)], tables

    def _describe(self, plan: Plan, segments: list[Segment]) -> np.ndarray:
        """The program as the driver knows it, with the first run of kernels; the rest are Python steps."""
        first, steps = (0, 0), None
        if segments and isinstance(segments[0], tuple):
            first, segments = segments[0], segments[1:]
        if segments:
            steps = stepping(self.tape, plan, self._owned, segments, self._frames)
        work = _work(self.tape)
        helpers = Helpers(self._more, steps, self._refuse, self._built)
        recipe = [word for i, result in enumerate(self._results) for word in _instruction(i, result)]
        table, self._kept = describe(
            plan.inputs, plan.outputs, plan.turned, first, recipe, helpers, release=work > RELEASE_ABOVE
        )
        return table

    # -- values in

    def _converted(self, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The values as the driver wants them: arrays in the order of those that were traced, aligned, in native byte
        order and with the usual descriptor (copies of those that are not so), whole numbers as NumPy's. ``None`` if one
        has another type than was traced."""
        if len(values) != len(self.plan.inputs):
            return None
        out = []
        for x, (slot, t) in zip(values, self.plan.inputs, strict=True):
            if t.kind == "array":
                if type(x) not in (np.ndarray, np.memmap) or x.shape != t.shape or x.dtype.newbyteorder("=") != t.dtype:
                    return None
                plain = type(x) is np.ndarray and x.dtype is native(t)
                order: Order = "F" if slot in self.plan.turned else "C"
                in_order = x.flags.f_contiguous if order == "F" else x.flags.c_contiguous
                if not (plain and in_order and x.flags.aligned):
                    given, x = x, np.empty(t.shape, native(t), order)
                    x[...] = given
            elif type(x) is int and t.kind == "python" and t.dtype.kind == "i":
                if x.bit_length() > 63:
                    return None
                x = np.int64(x)
            out.append(x)
        return tuple(out)


def _work(tape: Tape) -> int:
    """The elements of the largest value, of all turns in loops."""
    loops = [op.fn for op in tape.ops if isinstance(op, Call) and isinstance(op.fn, Loop)]
    sizes = [op.type.size for op in tape.ops if isinstance(op.type, ArrayType)]
    return max([*sizes, *(loop.turns * _work(loop.body) for loop in loops)], default=0)


def _steps(tape: Tape, segments: Iterable[Any]) -> Iterator[tuple[Tape, Python]]:
    """Operations in Python, each with the tape that it is on."""
    for segment in segments:
        if isinstance(segment, Python):
            yield tape, segment
        elif isinstance(segment, PythonTurns):
            yield from _steps(segment.tape, segment.segments)


def _specs(segments: Iterable[Any]) -> Iterator[Spec]:
    """The structures of kernels that are called, also in loops."""
    for segment in segments:
        if isinstance(segment, PythonTurns):
            yield from _specs(segment.segments)
        for spec, words in segment if isinstance(segment, list) else ():
            yield spec
            if isinstance(words, Turns):
                yield from _specs([words.calls])


def _records(calls: Iterable[KernelCall], code: Mapping[int, int]) -> list[int]:
    """The driver's table of kernels; ``code`` are addresses by the identities of structures."""
    out: list[int] = []
    for spec, words in calls:
        if isinstance(words, Turns):
            table = _records(words.calls, code)
            addresses = [word for address in words.addresses for word in address]
            words = [words.turns, words.counter, len(words.addresses), len(table), *addresses, *table]
        out += [len(words) + 2, code[id(spec)], *words]
    return out


def _misfit(*values: Any) -> Refusal:
    return Misfit()


def _without_captured(tape: Tape) -> Tape:
    """The same tape without the values of what it has captured, and without the objects among its arguments, so that
    they do not live as long as it does."""
    ops = [replace(op, value=None) if isinstance(op, Constant) and op.captured is not None else op for op in tape.ops]
    return replace(tape, ops=ops, leaves=[leaf if isinstance(leaf, Variable) else None for leaf in tape.leaves])


def _settled(result: tuple[Any, ...], t: Type) -> tuple[Any, ...]:
    """Where a result is found, or what it is at every call, and as what it is handed out."""
    kind, value = result[:2]
    if kind == "value" and isinstance(t, ArrayType) and value is not None:
        array = original(np.asarray)(value, None if t.kind == "python" else t.dtype)
        value = array if t.kind == "array" else array[()] if t.kind == "scalar" else array.item()
    return kind, value, replace(result[2], kind=t.kind) if kind == "number" and isinstance(t, ArrayType) else t


def _instruction(i: int, result: tuple[Any, ...]) -> tuple[int, int]:
    """How the driver makes a result."""
    kind, value, t = result
    if kind == "output":
        return OUTPUT, value
    if kind == "number" and t.name == "float64" and t.kind != "array":
        return SCALAR if t.kind == "scalar" else NUMBER, value.offset // 8
    if kind == "value" and not (isinstance(value, np.ndarray) and isinstance(t, ArrayType)):
        return OBJECT, id(value)
    return BUILT, i
