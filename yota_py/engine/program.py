"""A compiled tape: frames, the call into the driver, and the Python steps in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import YotaError
from ..operations import Call, Variable, substitute
from ..passes.fuse import Python, fuse
from ..tape import Tape
from ..types import ArrayType, Type
from .driver import ARRAY, FLOAT64_SCALAR, MISFIT, OUT_OF_BOUNDS, PYTHON_FLOAT, binding_words, driver
from .kernels import addresses
from .layout import ARENA_SLOT, HEAD_SLOT, Place
from .plan import make_plan

RELEASE_ABOVE = 4096  # elements written: shorter runs are not worth giving the interpreter lock away


class Misfit(YotaError):
    """The values have other types, dtypes or shapes than the program was compiled for."""


class OutOfBounds(YotaError):
    """An index was out of bounds; the interpreter says which."""


class _Frame:
    """Memory of one call in flight: the head with slots and numbers, and the arena."""

    __slots__ = ("address", "arena", "head", "views")

    def __init__(self, template: np.ndarray, arena_bytes: int) -> None:
        self.head = template.copy()
        memory = np.empty(arena_bytes + 64, np.uint8)
        start = -memory.ctypes.data % 64
        self.arena = memory[start : start + arena_bytes]
        self.address = self.head.ctypes.data
        self.head[HEAD_SLOT] = self.address
        self.head[ARENA_SLOT] = self.arena.ctypes.data
        self.views: dict[Variable, np.ndarray] = {}


class Program:
    """A tape as machine code: call it with the values of its inputs and then of its captured arrays, in order.

    ``captured`` numbers the latter as the tape's constants do.

    The results are fresh: arrays of their own and Python or NumPy numbers, one per result of the tape, numbers of the
    kinds that ``types`` gives (by default, as the tape has them).
    """

    def __init__(self, tape: Tape, types: Sequence[Type] | None = None) -> None:
        self.tape = tape
        self.plan = plan = make_plan(fuse(tape))
        if types is not None:
            plan.results = [_as_type(r, t) for r, t in zip(plan.results, types, strict=True)]
        code = addresses([spec for s in plan.segments if isinstance(s, list) for spec, _ in s])
        self._call, self._resume = driver()
        self._tables: list[np.ndarray | Python] = [
            s if isinstance(s, Python)
            else np.array([w for spec, words in s for w in (len(words) + 2, code[spec], *words)], np.int64)
            for s in plan.segments
        ]  # fmt: skip
        self._steps: list[tuple[int, int] | Python] = [
            t if isinstance(t, Python) else (t.ctypes.data, len(t)) for t in self._tables
        ]
        first = self._steps.pop(0) if self._steps and not isinstance(self._steps[0], Python) else (0, 0)
        assert isinstance(first, tuple)
        captured = [(slot, t) for slot, t, op in plan.arrays if op.captured is not None]
        self.captured = [op.captured for _, _, op in plan.arrays if op.captured is not None]
        self._bound = [*plan.inputs, *captured]
        self._wrap = [i for i, (_, t) in enumerate(self._bound) if t.kind != "array" and t.dtype.name != "float64"]
        words = [len(self._bound) + len(plan.outputs), int(self._work() > RELEASE_ABOVE), *first]
        for slot, t in self._bound:
            words += binding_words(_binding_kind(t), slot, t.dtype, t.shape)
        for slot, t in plan.outputs:
            words += binding_words(ARRAY, slot, t.dtype, t.shape)
        self._table = np.array(words, np.int64)
        self._address = self._table.ctypes.data
        self._template = np.zeros(plan.head_words, np.int64)
        for word, value in plan.numbers:
            self._template[word : word + 1].view(np.uint8)[: value.dtype.itemsize] = np.frombuffer(value.tobytes(), np.uint8)
        self._owned = {slot: np.ascontiguousarray(op.value) for slot, _, op in plan.arrays if op.captured is None}
        for slot, array in self._owned.items():
            self._template[slot] = array.ctypes.data
        self._allocate = [(t.shape, t.dtype) for _, t in plan.outputs]
        self._frames: list[_Frame] = []
        self._read = self._reader()

    def _work(self) -> int:
        sizes = [op.type.size for op in self.tape.ops if isinstance(op.type, ArrayType)]
        return max(sizes, default=0)

    @property
    def python_steps(self) -> list[Variable]:
        """Operations that no kernel covers and that are called in Python."""
        return [s.var for s in self._steps if isinstance(s, Python)]

    def __call__(self, *values: Any) -> list[Any]:
        """Run; raises ``Misfit`` if a value does not fit, ``OutOfBounds`` for an index that is out of bounds."""
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self._template, self.plan.arena_bytes)
        outputs = [np.empty(shape, dtype) for shape, dtype in self._allocate]
        if self._wrap:
            values = self._wrapped(values)
        status = self._call(self._address, frame.address, *values, *outputs)
        if status == MISFIT:
            values = self._converted(values)
            status = self._call(self._address, frame.address, *values, *outputs)
            if status == MISFIT:
                raise Misfit
        if self._steps and status != OUT_OF_BOUNDS:
            status = self._go_on(frame, values, outputs)
        if status == OUT_OF_BOUNDS:
            raise OutOfBounds
        results = self._read(frame, outputs)
        self._frames.append(frame)
        return results

    # -- values in

    def _wrapped(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        out = list(inputs)
        for i in self._wrap:
            out[i] = np.asarray(out[i])
        return tuple(out)

    def _converted(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Inputs in C order, aligned and in native byte order: copies of those that are not."""
        out = []
        for x, (_, t) in zip(inputs, self._bound, strict=True):
            if t.kind == "array" and isinstance(x, np.ndarray):
                if x.shape != t.shape or x.dtype != t.dtype:
                    raise Misfit
                x = np.array(x, t.dtype.newbyteorder("="), order="C", copy=True, subok=False)
            out.append(x)
        return tuple(out)

    # -- Python steps

    def _go_on(self, frame: _Frame, inputs: Sequence[Any], outputs: Sequence[np.ndarray]) -> int:
        """Python steps and what follows them."""
        plan = self.plan
        bound = zip([*self._bound, *plan.outputs], [*inputs, *outputs], strict=True)
        arrays = self._owned | {slot: x for (slot, _), x in bound}
        others: dict[Variable, Any] = {}

        def value(var: Variable) -> Any:
            if var in others:
                return others[var]
            t = self.tape[var].type
            assert isinstance(t, ArrayType)
            view = self._view(frame, arrays, plan.places[var]) if t.size else np.empty(t.shape, t.dtype)
            return view if t.kind == "array" else view[()] if t.kind == "scalar" else view.item()

        status = 0
        for step in self._steps:
            if not isinstance(step, Python):
                status = self._resume(frame.address, *step)
                if status:
                    break
                continue
            op = self.tape[step.var]
            assert isinstance(op, Call)
            fn = value(op.fn) if isinstance(op.fn, Variable) else op.fn
            result = fn(*substitute(op.args, value), **substitute(dict(op.kwargs), value))
            if not isinstance(op.type, ArrayType):
                others[step.var] = result
            elif op.type.size:
                self._view(frame, arrays, plan.places[step.var])[...] = result
        return status

    @staticmethod
    def _view(frame: _Frame, arrays: dict[int, Any], place: Place) -> np.ndarray:
        memory = frame.head if place.slot == HEAD_SLOT else frame.arena if place.slot == ARENA_SLOT else arrays[place.slot]
        flat = memory.reshape(-1).view(np.uint8) if memory.size else memory
        return np.ndarray(place.shape, place.dtype, flat, place.offset, place.strides)

    # -- values out

    def _reader(self) -> Callable[[_Frame, list[np.ndarray]], list[Any]]:
        """A function that collects the results of a call."""
        getters: list[Callable[[_Frame, list[np.ndarray]], Any]] = []
        for kind, *rest in self.plan.results:
            if kind == "output":
                getters.append(lambda frame, outputs, i=rest[0]: outputs[i])
            elif kind == "number":
                getters.append(_number_getter(*rest))
            elif kind == "value":
                getters.append(lambda frame, outputs, v=rest[0]: v)
            else:
                raise YotaError(f"a result of type {self.tape[rest[0]].type} cannot be returned from a compiled tape")
        words = [rest[0].offset // 8 for kind, *rest in self.plan.results if kind == "number"]
        plain = all(kind == "output" or (kind == "number" and _is_float(rest[1])) for kind, *rest in self.plan.results)
        if plain and words and words == list(range(words[0], words[0] + len(words))):
            return self._fast_reader(words[0], len(words))
        return lambda frame, outputs: [get(frame, outputs) for get in getters]

    def _fast_reader(self, first: int, count: int) -> Callable[[_Frame, list[np.ndarray]], list[Any]]:
        """All numbers are float64 and stand side by side: one ``tolist`` reads them."""
        order: list[tuple[bool, int]] = []
        at = 0
        for kind, *rest in self.plan.results:
            order.append((True, rest[0]) if kind == "output" else (False, at))
            at += kind == "number"
        numbers_only = not any(is_output for is_output, _ in order)
        kinds = [rest[1].kind for kind, *rest in self.plan.results if kind == "number"]
        convert = [np.float64 if k == "scalar" else np.asarray if k == "array" else None for k in kinds]

        def read(frame: _Frame, outputs: list[np.ndarray]) -> list[Any]:
            numbers = frame.head[first : first + count].view(np.float64).tolist()
            if any(convert):
                numbers = [x if c is None else c(x) for x, c in zip(numbers, convert, strict=True)]
            if numbers_only:
                return numbers  # type: ignore[no-any-return]
            return [outputs[i] if is_output else numbers[i] for is_output, i in order]

        return read


def _as_type(result: tuple[Any, ...], t: Type) -> tuple[Any, ...]:
    return (*result[:2], replace(result[2], kind=t.kind)) if result[0] == "number" and isinstance(t, ArrayType) else result


def _is_float(t: ArrayType) -> bool:
    return t.dtype.name == "float64"


def _number_getter(place: Place, t: ArrayType) -> Callable[[_Frame, list[np.ndarray]], Any]:
    word = place.offset // 8
    words = -(-t.dtype.itemsize // 8)

    def get(frame: _Frame, outputs: list[np.ndarray]) -> Any:
        value = frame.head[word : word + words].view(np.uint8)[: t.dtype.itemsize].copy().view(t.dtype).reshape(())
        return value if t.kind == "array" else value[()] if t.kind == "scalar" else value.item()

    return get


def _binding_kind(t: ArrayType) -> int:
    if t.kind == "array" or t.dtype.name != "float64":
        return ARRAY
    return PYTHON_FLOAT if t.kind == "python" else FLOAT64_SCALAR
