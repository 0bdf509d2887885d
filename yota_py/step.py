"""A traced call with its effects as a function that runs compiled code.

``make_step`` writes that function as text, line by line: look whether the arrays are as they were traced, run the
program, copy results into the caller's arrays, rebind places, build the result. In it ``x0``, ``x1``, … are the leaves
of the arguments, ``c0``, … captured arrays, ``y0``, … what the program returns, ``w0``, … views, ``l0``, … containers
and ``h0``, … the holders of rebound places; constants and reads have the names that the guards gave them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from .dispatch import find_traced, is_traced
from .effects import ATOMS, Performance
from .engine import Refusal, compile_tape
from .exchange import Holder, set_attribute
from .operations import Constant, Variable
from .passes import optimise
from .passes.classify import checkable
from .passes.lower import lower
from .tracer import Tracer
from .trees import flatten, unflatten
from .types import ArrayType, Type
from .views import overlapping

if TYPE_CHECKING:
    from .engine.program import Program

# Of the traced function or another with the same code, its arguments, their leaves and its captured arrays as they are
# now: the result, after all effects; or a ``Refusal``, and nothing has happened.
Step = Callable[[Any, Sequence[Any], Mapping[str, Any], Sequence[Any], Sequence[Any]], Any]


PLAIN = Refusal.OUT_OF_BOUNDS  # the function itself must be called, no other program fits


class UnrepeatableError(Exception):
    """Something that the call has done cannot be done again by a program."""


def make_step(performance: Performance) -> tuple[Program, Step]:
    """The compiled form of a call that has been traced; raises ``UnrepeatableError`` if there is none."""
    first = _Writer(performance, {})
    first.body()  # finds out which arrays are shared
    return _Writer(performance, first.shared).step()


class _Writer:
    """The text of a step. ``shared`` are, of each array made in the call, it and the views that are handed out."""

    def __init__(self, performance: Performance, shared: dict[int, set[int]]) -> None:
        self.performance = performance
        recording = performance.recording
        self.trace, self.captures = recording.trace, recording.captures
        self.constant = self.captures.guards.constant
        self.holders = {
            **{id(holder.obj): holder for holder in self.captures.exchange.holders.values() if holder.names is None},
            **performance.copies,
        }
        self.leaves = {id(leaf): f"x{i}" for i, leaf in enumerate(recording.trace.tape.leaves)}  # static ones
        self.roots = {var: self._root(var) for var in self.trace.roots}
        self.tracers = {id(root): self.roots[var] for var, root in self.trace.roots.items()}
        self.shared = shared
        self.outputs: dict[Variable, str] = {}
        self.lines: list[str] = []
        self.made: dict[int, str] = {}

    def _root(self, var: Variable) -> str:
        op = self.trace.tape[var]
        return f"c{op.captured}" if isinstance(op, Constant) else f"x{self.performance.recording.positions[var]}"

    def step(self) -> tuple[Program, Step]:
        """The program, and the function that runs it."""
        return self._assemble(*self.body())

    def body(self) -> tuple[list[str], list[str], str]:
        """The lines that write into arrays, those that rebind places, and the result."""
        copies = [f"copyto({self.roots[var]}, {self._output(self.trace.roots[var].current()[0])})"
                  for var in self.trace.written]
        stores = [self._store(holder, key, value) for holder, key, value in self.performance.changes]
        return copies, stores, self.text(self.performance.output)

    # -- expressions

    def _output(self, var: Variable) -> str:
        return self.outputs.setdefault(var, f"y{len(self.outputs)}")

    def _assign(self, value: Any, prefix: str, text: str) -> str:
        name = self.made[id(value)] = f"{prefix}{len(self.made)}"
        self.lines.append(f"{name} = {text}")
        return name

    def text(self, value: Any) -> str:
        """The expression of what a value is to the caller."""
        if is_traced(value):
            return self._traced(value)
        if (known := self.made.get(id(value))) is not None:
            return known
        if isinstance(value, ATOMS):
            return self.constant(value)
        if (holder := self.holders.get(id(value))) is not None:
            return self._holder(holder)
        held = self.performance.pictures.get(id(value), value)
        if type(value) is tuple:
            return f"({''.join(self.text(item) + ', ' for item in value)})"
        if type(value) is list:
            return self._assign(value, "l", f"[{', '.join(map(self.text, held))}]")
        if type(value) is dict:
            items = (f"{self.text(key)}: {self.text(item)}" for key, item in held.items())
            return self._assign(value, "l", f"{{{', '.join(items)}}}")
        if (leaf := self.leaves.get(id(value))) is not None:
            return leaf
        value = self.captures.exchange.originals.get(id(value), value)
        if self.captures.guards.knows(value):
            return self.constant(value)
        leaves, spec = held if held is not value else flatten(value)
        if optree.treespec_is_leaf(spec, strict=False) or any(leaf is value for leaf in leaves):
            raise UnrepeatableError(f"it makes a {type(value).__name__}, which is not made of traced values")
        parts = "".join(self.text(leaf) + ", " for leaf in leaves)
        return self._assign(value, "l", f"{self.constant(unflatten)}({self.constant(spec)}, ({parts}))")

    def _traced(self, tracer: Tracer) -> str:
        if tracer._trace is not self.trace:
            return self.text(tracer.current()[1])
        if (known := self.tracers.get(id(tracer)) or self.made.get(id(tracer))) is not None:
            return known
        var, value = tracer.current()
        if not isinstance(value, np.ndarray):
            return self.roots.get(var) or self._output(var)
        root = tracer._root
        if id(root) not in self.tracers:
            alike = self.shared.setdefault(id(root), set())
            alike.add(id(tracer))
            if tracer is root or (len(alike) == 1 and root.size > value.size):
                return self._output(var)
        look = tracer._look
        assert look is not None
        of = self._traced(look.parent)
        args = "".join(f", {self._argument(arg)}" for arg in look.args)
        args += "".join(f", {name}={self._argument(arg)}" for name, arg in look.kwargs.items())
        return self._assign(tracer, "w", f"{self.constant(look.fn)}({of}{args})")

    def _argument(self, value: Any) -> str:
        """An argument of a view: a traced one is a position that the program computes."""
        if find_traced((value,)) is None:
            return self.constant(value)
        if isinstance(value, tuple):
            return f"({''.join(self._argument(item) + ', ' for item in value)})"
        return self.text(value)

    def _store(self, holder: Holder, key: Any, value: Any) -> str:
        if key not in holder.before:
            raise UnrepeatableError(f"it adds an item or attribute {key!r}")
        name = self._holder(holder)
        if holder.names is None:
            return f"{name}[{self.constant(key)}] = {self.text(value)}"
        return f"set_attribute({name}, {key!r}, {self.text(value)})"

    def _holder(self, holder: Holder) -> str:
        """A local name, read before anything is stored."""
        return self.made.get(id(holder.obj)) or self._assign(holder.obj, "h", holder.texts[0])

    # -- the function

    def _assemble(self, copies: list[str], stores: list[str], result: str) -> tuple[Program, Step]:
        tape = self.trace.tape
        types = [tape[var].type for var in self.outputs]
        tape.results, tape.out_spec = [*self.outputs], optree.treespec_tuple(
            [optree.treespec_leaf(none_is_leaf=True)] * len(types), none_is_leaf=True
        )
        low = optimise(lower(self.trace).tape)
        if not checkable(low):
            raise UnrepeatableError("it takes a decision on traced values that a kernel cannot check")
        program = compile_tape(low, types, tape.out_spec)
        numbers = {self.roots[var] for var in self.trace.roots if isinstance(self.trace[var], int)}
        captured = [f"int64({c})" if (c := f"c{k}") in numbers else c for k in range(self.trace.captured)]
        inputs = [f"x{i}" for i, leaf in enumerate(tape.leaves) if isinstance(leaf, Variable)]
        lines = [_unpacked("x", len(tape.leaves), "leaves"), _unpacked("c", self.trace.captured, "arrays")]
        lines += self._conditions()
        lines += [f"y = program({', '.join(inputs + captured)})", "if type(y) is Refusal: return y"]
        lines += [_unpacked("y", len(types), "y"), *copies, *self.lines, *stores, f"return {result}"]
        reads = self.captures.guards.reads_of("\n".join(lines))
        body = "".join(f" {line}\n" for line in [*reads, *lines] if line)
        names = {
            "program": program.run, "Refusal": Refusal, "MISFIT": Refusal.MISFIT, "PLAIN": PLAIN, "copyto": np.copyto,
            "int64": np.int64, "set_attribute": set_attribute, "overlapping": overlapping,
        }  # fmt: skip
        text = f"def step(f, args, kwargs, leaves, arrays):\n{body}"
        return program, self.captures.guards.compiled("step", text, **names)

    def _conditions(self) -> list[str]:
        """Lines that refuse a call in which arrays or containers are not as they were traced."""
        tape, lines = self.trace.tape, []
        arrays = {name: var for var, name in self.roots.items() if _is_array(tape[var].type)}
        written = [self.roots[var] for var in self.trace.written]
        for name, var in arrays.items():  # another thread's trace puts tracers in their places
            kind = self.constant(type(self.performance.recording.real(var)))
            lines.append(f"if type({name}) is not {kind}: return MISFIT")
        if written:
            lines.append(f"if not ({' and '.join(f'{name}.flags.writeable' for name in written)}): return PLAIN")
            others = [name for name in arrays if name not in written]
            own = " is ".join(f"{name}.base" for name in arrays)
            ids = ", ".join(f"id({name})" for name in arrays)
            both = f"({', '.join(written)},), ({''.join(name + ', ' for name in others)})"
            lines.append(f"if (not ({own} is None) or len({{{ids}}}) < {len(arrays)}) and overlapping({both}): "
                         "return PLAIN")
        if self.trace.writes or any(line[0] == "w" for line in self.lines):  # what reshape gives depends on strides
            for name, var in arrays.items():
                strides = self.performance.recording.real(var).strides
                lines.append(f"if {name}.strides != {strides!r}: return MISFIT")
        return lines + self._identities()

    def _identities(self) -> list[str]:
        """Containers whose items are replaced are reached by the same ways as in the trace, and by no others."""
        changed = {id(holder): holder for holder, _, _ in self.performance.changes}.values()
        every = [*self.captures.exchange.holders.values(), *self.performance.copies.values()]
        lines = []
        for holder in changed:
            first, *again = holder.texts
            lines += [f"if {first} is not {text}: return MISFIT" for text in again]
            for other in every:
                if other is not holder and _alike(holder, other) and not (_fixed(first) and _fixed(other.texts[0])):
                    lines.append(f"if {first} is {other.texts[0]}: return MISFIT")
        return lines


def _alike(a: Holder, b: Holder) -> bool:
    return type(a.target) is type(b.target)


def _fixed(text: str) -> bool:
    """Whether an expression is a constant of the guards or its namespace, or an argument's own."""
    return text.removesuffix(".__dict__")[1:].isdigit() and text[0] == "k"


def _is_array(t: Type) -> bool:
    return isinstance(t, ArrayType) and t.kind == "array"


def _unpacked(prefix: str, count: int, source: str) -> str:
    return "".join(f"{prefix}{i}, " for i in range(count)) + f"= {source}" if count else ""
