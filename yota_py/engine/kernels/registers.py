"""A loop over numbers and short vectors as one kernel: what is carried from turn to turn is kept in registers.

Its words: how many turns; where each carried value begins (slot and offset), each stack (slot, offset, and bytes from
one turn to the next) and what is the same in all turns lie; where carried values go in the end, and the stacks of
outputs; the word of the frame that says which turn it is, and for each decision its byte in the frame.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from ...registry.kernels import emitted
from ..maths.builder import WRITTEN_OUT, Called, VecMath
from ..maths.llvm import ELEMENTS, I8, I32, PTR, Value, Writer
from .emit import IN_PLACE, KERNEL, is_good, report
from .ir import DTYPES
from .reductions import combined, neutral


@dataclass(frozen=True, slots=True)
class Kind:
    """Of a value: a number, or a vector of so many."""

    dtype: str
    size: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An elementwise operation, as ``ir.Node``, of operands that are cast to a dtype each; numbers among them stand for
    vectors."""

    emit: str
    operands: tuple[tuple[int, str], ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Pick:
    """Elements of values, given as (value, element), behind each other; ``None`` is zero."""

    elements: tuple[tuple[int, int] | None, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Total:
    """For each element of the result, a reduction of elements of a value."""

    mode: str
    value: int
    groups: tuple[tuple[int, ...], ...]
    kind: Kind


Node = Operation | Pick | Total


@dataclass(frozen=True, slots=True)
class RegistersSpec:
    """The structure of such a loop. Values are numbered: what is ``carried``, one element of each stack, what is the
    same in all turns, and nodes; ``results`` are those that are carried on, then outputs; ``checks`` are masks that
    must be true, each with the value that was decided on."""

    carried: tuple[Kind, ...]
    stacks: tuple[Kind, ...]
    fixed: tuple[Kind, ...]
    nodes: tuple[Node, ...]
    results: tuple[int, ...]
    checks: tuple[tuple[int, int], ...] = ()

    def kinds(self) -> list[Kind]:
        """Those of all values."""
        return [*self.carried, *self.stacks, *self.fixed, *(node.kind for node in self.nodes)]


def emit_registers(module: ir.Module, name: str, spec: RegistersSpec) -> None:
    """Add the kernel to a module."""
    function = ir.Function(module, KERNEL, name)
    function.attributes.add("nounwind")
    _Loop(function, spec).run()


class _Loop(Writer):
    def __init__(self, function: ir.Function, spec: RegistersSpec) -> None:
        super().__init__(function)
        self._spec, self._values = spec, list[Value]()
        written_out = sum(isinstance(node, Operation) and node.emit in WRITTEN_OUT for node in spec.nodes)
        self._maths = Called if written_out > IN_PLACE else VecMath

    def run(self) -> None:
        """Emit everything."""
        spec, (frame, words, *_), position = self._spec, self.function.args, itertools.count()
        outputs = [spec.kinds()[r] for r in spec.results[len(spec.carried) :]]

        def word() -> Value:
            return self.word(words, next(position))

        def pointer() -> Value:
            slot, offset = word(), word()
            return self.byte(self.word(frame, slot, PTR), offset)

        turns = word()
        carried = [self.variable(self._read(pointer(), kind)) for kind in spec.carried]
        stacks = [(self.variable(pointer()), word()) for _ in spec.stacks]
        fixed = [self._read(pointer(), kind) for kind in spec.fixed]
        ends = [pointer() for _ in spec.carried]
        targets = [(self.variable(pointer()), word()) for _ in outputs]
        counter, places = (word(), [word() for _ in spec.checks]) if spec.checks else (None, [])
        with self.loop(turns, also=(lambda: is_good(self, frame)) if spec.checks else None) as turn:
            pairs = zip(carried, spec.carried, strict=True)
            self._values = [self.b.load(place, typ=_type(kind)) for place, kind in pairs]
            for (place, _), kind in zip(stacks, spec.stacks, strict=True):
                self._values.append(self._read(self.b.load(place, typ=PTR), kind))
            self._values += fixed
            for node in spec.nodes:
                self._values.append(self._computed(node))
            for (mask, value), offset in zip(spec.checks, places, strict=True):
                with self.b.if_then(self.b.not_(self._values[mask]), likely=False):
                    kind = spec.kinds()[value]
                    if kind.size == 1:
                        self._write(self._values[value], self.byte(frame, offset), kind)
                    self.b.store(turn, self.at(frame, counter))
                    report(self, frame, offset)
            results = [self._values[r] for r in spec.results]
            for (place, _), kind, value in zip(targets, outputs, results[len(carried) :], strict=True):
                self._write(value, self.b.load(place, typ=PTR), kind)
            for place, value in zip(carried, results, strict=False):
                self.b.store(value, place)
            for place, step in (*stacks, *targets):
                self.b.store(self.byte(self.b.load(place, typ=PTR), step), place)
        for place, end, kind in zip(carried, ends, spec.carried, strict=True):
            self._write(self.b.load(place, typ=_type(kind)), end, kind)
        self.b.ret_void()

    def _read(self, pointer: Value, kind: Kind) -> Value:
        value = self.b.load(pointer, typ=_type(kind, stored=True), align=DTYPES[kind.dtype])
        return self.b.trunc(value, _type(kind)) if kind.dtype == "bool" else value

    def _write(self, value: Value, pointer: Value, kind: Kind) -> None:
        value = self.b.zext(value, _type(kind, stored=True)) if kind.dtype == "bool" else value
        self.b.store(value, pointer, align=DTYPES[kind.dtype])

    def _computed(self, node: Node) -> Value:
        if isinstance(node, Pick):
            return self._picked(node.elements, node.kind)
        if isinstance(node, Total):
            parts = [self._reduced(node, group) for group in node.groups]
            return self._behind_each_other(parts, node.kind)
        math, size = self._maths(self.b, node.kind.size), node.kind.size
        operands = [math.cast(self._sized(self._values[i], size), ELEMENTS[dtype]) for i, dtype in node.operands]
        value = emitted(math, node.emit, *operands) if node.emit else operands[0]
        value = value if node.emit else math.cast(value, ELEMENTS[node.kind.dtype])
        if math.element(value) != ELEMENTS[node.kind.dtype]:
            raise TypeError(f"a kernel computes {math.element(value)} where {node.kind.dtype} is wanted")
        return value

    def _sized(self, value: Value, size: int) -> Value:
        """A number as a vector of equal ones."""
        if size == 1 or isinstance(value.type, ir.VectorType):
            return value
        return self._behind_each_other([value] * size, None)

    def _element(self, value: Value, i: int) -> Value:
        return self.b.extract_element(value, ir.Constant(I32, i)) if isinstance(value.type, ir.VectorType) else value

    def _picked(self, elements: Sequence[tuple[int, int] | None], kind: Kind) -> Value:
        sources = {source[0] for source in elements if source is not None}
        only = self._values[sources.pop()] if len(sources) == 1 and None not in elements else None
        if only is not None and kind.size > 1 and isinstance(only.type, ir.VectorType):
            lanes = ir.Constant(ir.VectorType(I32, kind.size), [source[1] for source in elements if source is not None])
            return self.b.shuffle_vector(only, ir.Constant(only.type, ir.Undefined), lanes)
        zero = VecMath(self.b, 1).const(0, ELEMENTS[kind.dtype])
        parts = [zero if source is None else self._element(self._values[source[0]], source[1]) for source in elements]
        return self._behind_each_other(parts, kind)

    def _behind_each_other(self, parts: Sequence[Value], kind: Kind | None) -> Value:
        if len(parts) == 1:
            return parts[0]
        vector: Value = ir.Constant(ir.VectorType(parts[0].type, len(parts)), ir.Undefined)
        for i, part in enumerate(parts):
            vector = self.b.insert_element(vector, part, ir.Constant(I32, i))
        return vector

    def _reduced(self, node: Total, group: Sequence[int]) -> Value:
        """Floats are summed in double precision, as other kernels do."""
        math, dtype = VecMath(self.b, 1), node.kind.dtype
        element = ELEMENTS["float64" if node.mode == "sum" and dtype.startswith("float") else dtype]
        total = neutral(math, node.mode, element)
        for i in group:
            total = combined(math, node.mode, total, math.cast(self._element(self._values[node.value], i), element))
        return math.cast(total, ELEMENTS[dtype])


def _type(kind: Kind, *, stored: bool = False) -> ir.Type:
    element = I8 if stored and kind.dtype == "bool" else ELEMENTS[kind.dtype]
    return element if kind.size == 1 else ir.VectorType(element, kind.size)
