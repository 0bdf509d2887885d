"""A loop over numbers and short vectors as one kernel: what is carried from turn to turn is kept in registers.

Vectors of few elements are numbers side by side, but for functions that are written out.

Its words: how many turns, or where that is found (slot and offset); where each carried value begins (slot and offset),
each stack (slot, offset, and bytes from one turn to the next) and what is the same in all turns lie; where carried
values go in the end, and the stacks of outputs; the word of the frame that says which turn it is, and for each decision
its byte in the frame; where the number of turns goes that were taken, if a decision ends the loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ...base.records import record
from ..maths.builder import WRITTEN_OUT, Called, VecMath
from ..maths.llvm import ELEMENTS, I1, I8, I32, I64, PTR, Value, Writer, const
from .elements import operated
from .emit import IN_PLACE, KERNEL, is_good, report
from .ir import DTYPES
from .reductions import combined, neutral


@record()
class Kind:
    """Of a value: a number, or a vector of so many."""

    dtype: str
    size: int


@record()
class Operation:
    """An elementwise operation, as ``ir.Node``, of operands that are cast to a dtype each; numbers among them stand for
    vectors."""

    emit: str
    operands: tuple[tuple[int, str], ...]
    kind: Kind


@record()
class Pick:
    """Elements of values, given as (value, element), behind each other; ``None`` is zero."""

    elements: tuple[tuple[int, int] | None, ...]
    kind: Kind


@record()
class Total:
    """For each element of the result, a reduction of elements of a value."""

    mode: str
    value: int
    groups: tuple[tuple[int, ...], ...]
    kind: Kind


Node = Operation | Pick | Total


@record()
class RegistersSpec:
    """The structure of such a loop. Values are numbered: what is ``carried``, one element of each stack, what is the
    same in all turns, and nodes; ``results`` are those that are carried on, then outputs; ``checks`` are masks that
    must be true, each with the value that was decided on; ``until`` is one that ends the loop if it is not. ``counted``
    is the order of the turns, if their number is found in memory: stacks are given from the first element on."""

    carried: tuple[Kind, ...]
    stacks: tuple[Kind, ...]
    fixed: tuple[Kind, ...]
    nodes: tuple[Node, ...]
    results: tuple[int, ...]
    checks: tuple[tuple[int, int], ...] = ()
    until: int | None = None
    counted: str = ""

    def kinds(self) -> list[Kind]:
        """Those of all values."""
        return [*self.carried, *self.stacks, *self.fixed, *(node.kind for node in self.nodes)]


def emit_registers(module: ir.Module, name: str, spec: RegistersSpec) -> None:
    """Add the kernel to a module."""
    function = ir.Function(module, KERNEL, name)
    function.attributes.add("nounwind")
    _Loop(function, spec).run()


FEW = 4  # elements
Parts = Any  # an LLVM value, or a list of numbers


class _Loop(Writer):
    def __init__(self, function: ir.Function, spec: RegistersSpec) -> None:
        super().__init__(function)
        self._spec, self._values = spec, list[Parts]()
        self._zeros: dict[str, Value] = {}  # that stand where nothing is picked
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

        turns = self.b.load(pointer(), typ=I64) if spec.counted else word()

        def moving() -> tuple[Value, Value]:
            first, step = self.b.ptrtoint(pointer(), I64), word()
            if spec.counted == "backward":  # steps are negative
                first = self.b.sub(first, self.b.mul(step, self.b.sub(turns, const(1))))
            return self.variable(first), step

        carried = [self._map(self.variable, self._read(pointer(), kind)) for kind in spec.carried]
        stacks = [moving() for _ in spec.stacks]
        fixed = [self._read(pointer(), kind) for kind in spec.fixed]
        ends = [pointer() for _ in spec.carried]
        targets = [moving() for _ in outputs]
        counter, places = (word(), [word() for _ in spec.checks]) if spec.checks else (None, [])
        taken, going = (self.variable(const(n)) for n in (0, 1))

        def goes_on() -> Value:
            good = is_good(self, frame) if spec.checks else None
            if spec.until is None:
                return good
            on = self.b.trunc(self.b.load(going, typ=I64), I1)
            return on if good is None else self.b.and_(on, good)

        with self.loop(turns, also=goes_on if spec.checks or spec.until is not None else None) as turn:
            self._values = [self._loaded(place, kind) for place, kind in zip(carried, spec.carried, strict=True)]
            for (place, _), kind in zip(stacks, spec.stacks, strict=True):
                self._values.append(self._read(self._address(place), kind))
            self._values += fixed
            nodes = iter(spec.nodes)

            def go_on() -> None:
                self._values += map(self._computed, nodes)
                self._check(frame, turn, counter, places)
                results = [self._values[r] for r in spec.results]
                for (place, _), kind, value in zip(targets, outputs, results[len(carried) :], strict=True):
                    self._write(value, self._address(place), kind)
                for place, value in zip(carried, results, strict=False):
                    for at, part in zip(_listed(place), _listed(value), strict=True):
                        self.b.store(part, at)
                for place, step in (*stacks, *targets):
                    self.b.store(self.b.add(self.b.load(place, typ=I64), step), place)

            if spec.until is None:
                go_on()
            else:
                while len(self._values) <= spec.until:
                    self._values.append(self._computed(next(nodes)))
                with self.b.if_else(self._values[spec.until], likely=True) as (then, otherwise):
                    with then:
                        go_on()
                        self.b.store(self.b.add(turn, const(1)), taken)
                    with otherwise:
                        self.b.store(const(0), going)
        for place, end, kind in zip(carried, ends, spec.carried, strict=True):
            self._write(self._loaded(place, kind), end, kind)
        if spec.until is not None:
            self.b.store(self.b.load(taken, typ=I64), pointer())
        self.b.ret_void()

    def _check(self, frame: Value, turn: Value, counter: Value, places: Sequence[Value]) -> None:
        """Report decisions that are others."""
        for (mask, value), offset in zip(self._spec.checks, places, strict=True):
            with self.b.if_then(self.b.not_(self._values[mask]), likely=False):
                kind = self._spec.kinds()[value]
                if kind.size == 1:
                    self._write(self._values[value], self.byte(frame, offset), kind)
                self.b.store(turn, self.at(frame, counter))
                report(self, frame, offset)

    def _address(self, place: Value) -> Value:
        """What a local variable has, which is a word: older versions of llvmlite know no variables that are
        pointers."""
        return self.b.inttoptr(self.b.load(place, typ=I64), PTR)

    def _map(self, fn: Callable[[Value], Value], value: Parts) -> Parts:
        return [fn(part) for part in value] if isinstance(value, list) else fn(value)

    def _loaded(self, place: Parts, kind: Kind) -> Parts:
        """What a local variable has."""
        typ = ELEMENTS[kind.dtype] if isinstance(place, list) else _type(kind)
        return self._map(lambda at: self.b.load(at, typ=typ), place)

    def _read(self, pointer: Value, kind: Kind) -> Parts:
        if 1 < kind.size <= FEW:
            one, size = Kind(kind.dtype, 1), DTYPES[kind.dtype]
            return [self._read(self.byte(pointer, const(i * size)), one) for i in range(kind.size)]
        value = self.b.load(pointer, typ=_type(kind, stored=True), align=DTYPES[kind.dtype])
        return self.b.trunc(value, _type(kind)) if kind.dtype == "bool" else value

    def _write(self, value: Parts, pointer: Value, kind: Kind) -> None:
        if isinstance(value, list):
            one, size = Kind(kind.dtype, 1), DTYPES[kind.dtype]
            for i, part in enumerate(value):
                self._write(part, self.byte(pointer, const(i * size)), one)
            return
        value = self.b.zext(value, _type(kind, stored=True)) if kind.dtype == "bool" else value
        self.b.store(value, pointer, align=DTYPES[kind.dtype])

    def _computed(self, node: Node) -> Parts:
        if isinstance(node, Pick):
            return self._picked(node.elements, node.kind)
        if isinstance(node, Total):
            return self._together([self._reduced(node, group) for group in node.groups])
        operands, size = [(self._values[i], dtype) for i, dtype in node.operands], node.kind.size
        if size <= FEW and node.emit not in WRITTEN_OUT:
            lanes = [[(self._element(x, i), dtype) for x, dtype in operands] for i in range(size)]
            return self._together([self._operated(node, 1, lane) for lane in lanes])
        value = self._operated(node, size, [(self._sized(x, size), dtype) for x, dtype in operands])
        return [self._element(value, i) for i in range(size)] if 1 < size <= FEW else value

    def _operated(self, node: Operation, size: int, operands: Sequence[tuple[Value, str]]) -> Value:
        math, dtype = self._maths(self.b, size), node.kind.dtype
        values = [math.cast(x, ELEMENTS[wanted]) for x, wanted in operands]
        if node.emit == "add":  # to nothing
            for x, other in (values, values[::-1]):
                if x is self._zeros.get(dtype):
                    return other
        return operated(math, node.emit, values, dtype)

    def _sized(self, value: Parts, size: int) -> Value:
        """A vector; of a number, of equal ones."""
        if size == 1 or isinstance(getattr(value, "type", None), ir.VectorType):
            return value
        return self._vector(value if isinstance(value, list) else [value] * size)

    def _element(self, value: Parts, i: int) -> Value:
        if isinstance(value, list):
            return value[i]
        return self.b.extract_element(value, ir.Constant(I32, i)) if isinstance(value.type, ir.VectorType) else value

    def _picked(self, elements: Sequence[tuple[int, int] | None], kind: Kind) -> Parts:
        sources = {source[0] for source in elements if source is not None}
        only = self._values[sources.pop()] if len(sources) == 1 and None not in elements else None
        if only is not None and kind.size > FEW and isinstance(getattr(only, "type", None), ir.VectorType):
            lanes = ir.Constant(ir.VectorType(I32, kind.size), [source[1] for source in elements if source is not None])
            return self.b.shuffle_vector(only, ir.Constant(only.type, ir.Undefined), lanes)
        if kind.dtype not in self._zeros:
            self._zeros[kind.dtype] = VecMath(self.b, 1).const(0, ELEMENTS[kind.dtype])
        zero = self._zeros[kind.dtype]
        return self._together([zero if x is None else self._element(self._values[x[0]], x[1]) for x in elements])

    def _together(self, parts: list[Value]) -> Parts:
        """A number, a list of few, or a vector."""
        return parts[0] if len(parts) == 1 else parts if len(parts) <= FEW else self._vector(parts)

    def _vector(self, parts: Sequence[Value]) -> Value:
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


def _listed(value: Parts) -> list[Value]:
    return value if isinstance(value, list) else [value]


def _type(kind: Kind, *, stored: bool = False) -> ir.Type:
    element = I8 if stored and kind.dtype == "bool" else ELEMENTS[kind.dtype]
    return element if kind.size == 1 else ir.VectorType(element, kind.size)
