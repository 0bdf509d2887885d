"""A traced call with its effects as a function that runs compiled code.

``make_step`` writes that function as text, line by line: look whether the arrays are as they were traced, run the
program, copy results into the caller's arrays, rebind places, build the result; and the same without the effects, as a
``Rehearsal``. In it ``x0``, ``x1``, … are the leaves of the arguments, ``c0``, … captured arrays, ``y0``, … what the
program returns, ``w0``, … views, ``l0``, … containers and ``h0``, … the holders of rebound places; constants and reads
have the names that the guards gave them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from keyword import iskeyword
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from ..base.containers import base_of, slots_of
from ..base.dispatch import find_traced, is_traced
from ..base.ownership import is_library_code
from ..base.refusal import MISFIT, OutOfBounds, Refusal
from ..base.types import ArrayType, Type
from ..capture.bytecode import TELLING
from ..capture.guards import ids_of
from ..capture.kinds import has_from, is_builtin, is_class_of_library, is_key, is_of_library
from ..capture.places import Holder, set_attribute, set_item
from ..capture.plain import ATOMS, WRITABLE, Performance, binds, parts_of
from ..capture.slots import Slot
from ..engine.compile import UncompilableError, compile_recorded
from ..registry.writes import memory_axes
from ..tape.operations import Constant, Variable
from ..tape.trees import opened, unflatten
from ..tracing.tracer import Tracer
from ..tracing.traces import LARGE
from ..tracing.views import laid_out, locked, overlapping
from .variants import Compiled, Rehearsal

if TYPE_CHECKING:
    from ..engine.run.program import Program

# Of the traced function or another with the same code, its arguments, their leaves and its captured arrays as they are
# now: the result, after all effects; or a ``Refusal``, and nothing has happened.
StepFunction = Callable[[Any, Sequence[Any], Mapping[str, Any], Sequence[Any], Sequence[Any]], Any]


_Body = tuple[list[tuple[str, str]], list[tuple[str, str, str, bool]], list[tuple[str, str, str]], str]

PLAIN = OutOfBounds()  # the function itself must be called, no other program fits


def make_step(performance: Performance) -> Compiled:
    """The compiled form of a call that has been traced; raises ``UncompilableError`` if there is none."""
    first = _Writer(performance, {})
    first.body()  # finds out which arrays are shared
    return _Writer(performance, first.shared).step()


class _Writer:
    """The text of a step. ``shared`` are, of each array made in the call, it and the views that are handed out."""

    def __init__(self, performance: Performance, shared: dict[int, set[int]]) -> None:
        self.performance = performance
        recording = performance.recording
        self.trace, self.captures = recording.trace, recording.captures
        self.slots: list[Slot] = []  # what is read as the guards have found it
        self.holders = {
            **{id(holder.obj): holder for holder in self.captures.exchange.holders.values() if holder.names is None},
            **performance.copies,
            **{id(holder.obj): holder for holder in self.captures.sinks.holders.values()},
        }
        self.leaves = {id(leaf): f"x{i}" for i, leaf in enumerate(recording.trace.tape.leaves)}  # static ones
        self.roots = {var: self._root(var) for var in self.trace.roots}
        self.tracers = {id(root): self.roots[var] for var, root in self.trace.roots.items()}
        self.tracers |= {key: self._read(slot) for key, (_, slot) in self.captures.captured.views.items()}
        self.shared = shared
        self.outputs: dict[Variable, str] = {}
        self.lines: list[str] = []
        self.made: dict[int, str] = {}
        self._pending: list[tuple[str, type, dict[str, Any]]] = []  # objects to be filled: they may be linked, and many
        self.lays_out = False  # whether it makes arrays whose axes lie in memory in one order or another
        self.users: set[str] = set()  # lists and dicts of classes that may have methods of their own

    def _root(self, var: Variable) -> str:
        op = self.trace.tape[var]
        return f"c{op.captured}" if isinstance(op, Constant) else f"x{self.performance.recording.positions[var]}"

    def step(self) -> Compiled:
        """The program, the function that runs it, and the one that rehearses."""
        return self._assemble(*self.body())

    def body(self) -> _Body:
        """The arrays that are written into, and with what; holders, keys, values and whether they are items; lists,
        methods and what is appended; the result."""
        copies = [(self.roots[var], self._output(self.trace.roots[var]._current()[0])) for var in self.trace.written]
        stores = [self._store(holder, key, value) for holder, key, value in self.performance.changes]
        grown = [(self._holder(self.holders[id(sink)]), method, self.text(value))
                 for sink, method, value in self.captures.sinks.noted]
        result = self.text(self.performance.output)
        while self._pending:
            self._fill(*self._pending.pop())
        return copies, stores, grown, result

    # -- expressions

    def constant(self, value: Any) -> str:
        """The expression of a value that the guards know."""
        return self.captures.guards.constant(value).code

    def _read(self, slot: Slot) -> str:
        self.slots.append(slot)
        return slot.code

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
        if (slot := self.captures.instances.slot(value)) is not None:
            return self._read(slot)
        if (slot := self.captures.items.tuples.get(id(value), (None, None, None))[2]) is not None:
            return self._read(slot)
        held = self.performance.pictures.get(id(value), value)
        if type(value) is tuple:
            return self._assign(value, "l", f"({''.join(self.text(item) + ', ' for item in value)})")
        if type(value) is list:
            return self._assign(value, "l", f"[{', '.join(map(self.text, held))}]")
        if type(value) is dict:
            if not all(is_key(key) or self.captures.guards.knows(key) for key in held):
                raise UncompilableError("it makes a dict with keys that are objects")
            entries = (f"{self.text(key)}: {self.text(item)}" for key, item in held.items())
            return self._assign(value, "l", f"{{{', '.join(entries)}}}")
        if (leaf := self.leaves.get(id(value))) is not None:
            return leaf
        value = self.captures.exchange.originals.get(id(value), value)
        if binds(value) and not self.captures.guards.knows(value):
            return self._assign(value, "l", self._bound(value))
        if isinstance(held, dict):
            return self._object(value, held)
        if self.captures.guards.knows(value) or is_builtin(value) or is_class_of_library(value):
            return self.constant(value)
        items, spec = held if held is not value else opened(value)
        if optree.treespec_is_leaf(spec, strict=False) or any(item is value for item in items):
            raise UncompilableError(f"it makes a {type(value).__name__}, which is not made of traced values")
        parts = "".join(self.text(item) + ", " for item in items)
        return self._assign(value, "l", f"{self.constant(unflatten)}({self.constant(spec)}, ({parts}))")

    def _object(self, value: Any, held: dict[str, Any]) -> str:
        """An object that the function has made: another one of the class, with what it held when the function ended."""
        cls = type(value)
        if self.captures.guards.knows(value):
            raise UncompilableError(f"it reads a {cls.__name__} from where it has stored it before")
        if not TELLING.isdisjoint(self.captures.instances.addresses):
            raise UncompilableError(f"it may ask for what depends on where the {cls.__name__} lies that it makes")
        if weakref.getweakrefcount(value):
            raise UncompilableError(f"it makes a {cls.__name__} to which there are weak references")
        given = (type(holder.target) for holder in self.performance.copies.values())
        if not (self.captures.guards.knows(cls) or is_of_library(cls) or cls in given):
            raise UncompilableError(f"it makes a {cls.__name__}, a class that is not there before")
        args = [self.constant(cls)]
        if isinstance(value, FunctionType):
            cells = [self._cell(cell) for cell in value.__closure__ or ()]
            args += self._code(value), "None", "None", f"({''.join(cell + ', ' for cell in cells)})"
        made = self._assign(value, "l", f"{self.constant(cls.__new__)}({', '.join(args)})")
        self._pending.append((made, cls, held))
        return made

    def _code(self, fn: FunctionType) -> str:
        """The code and the global names of a function that the function has made."""
        if id(fn) in self.captures.functions or is_library_code(fn.__code__, fn.__globals__):
            raise UncompilableError(f"it hands out {fn.__qualname__}, which it has not made")
        return f"{self.constant(fn.__code__)}, {self.constant(fn.__globals__)}"

    def _cell(self, cell: CellType) -> str:
        """A cell: of a function that was there before, or a new one."""
        holder = self.captures.exchange.holders.get(id(cell))
        return self.text(cell) if holder is None else self._read(holder.slots[0])

    def _bound(self, value: Any) -> str:
        """A method or partial of what it is bound to."""
        parts = [self.text(part) for part in parts_of(value)]
        names = [*getattr(value, "keywords", ())]
        args = parts[: len(parts) - len(names)]
        args += [f"**{{{name!r}: {text}}}" for name, text in zip(names, parts[len(args) :], strict=True)]
        return f"{self.constant(type(value))}({', '.join(args)})"

    def _fill(self, made: str, cls: type, held: dict[str, Any]) -> None:
        """Give an object its attributes, past what its class has to say about it."""
        slots, plainly = WRITABLE.get(cls) or slots_of(cls), has_from(cls, "__setattr__", object)
        for name, item in held.items():
            text = self.text(item)
            if plainly and name.isidentifier() and not iskeyword(name) and (name in slots or not hasattr(cls, name)):
                self.lines.append(f"{made}.{name} = {text}")
            elif name in slots:
                self.lines.append(f"{self.constant(object.__setattr__)}({made}, {name!r}, {text})")
            else:
                self.lines.append(f"{made}.__dict__[{name!r}] = {text}")

    def _traced(self, tracer: Tracer) -> str:
        if tracer._ledger is not self.trace:
            return self.text(tracer._current()[1])
        if (known := self.tracers.get(id(tracer)) or self.made.get(id(tracer))) is not None:
            return known
        var, value = tracer._current()
        if not isinstance(value, np.ndarray):
            return self.roots.get(var) or self._output(var)
        root = tracer._root
        if id(root) not in self.tracers:
            alike = self.shared.setdefault(id(root), set())
            alike.add(id(tracer))
            if tracer is root or (len(alike) == 1 and root.size > value.size):
                return self._new_array(tracer, var, value)
        look = tracer._look
        assert look is not None
        of = self._traced(look.parent)
        args = "".join(f", {self._argument(arg)}" for arg in look.args)
        args += "".join(f", {name}={self._argument(arg)}" for name, arg in look.kwargs.items())
        return self._assign(tracer, "w", f"{self.constant(look.fn)}({of}{args})")

    def _new_array(self, tracer: Tracer, var: Variable, value: np.ndarray) -> str:
        """An array that the program makes, in the order of axes that NumPy has given it."""
        made = self._output(var)
        self.lays_out |= value.ndim > 1
        if not value.flags.c_contiguous:
            made = f"{self.constant(laid_out)}({made}, {self.constant(memory_axes(value))})"
        if not value.flags.writeable:
            made = f"{self.constant(locked)}({made})"
        return made if made[0] == "y" else self._assign(tracer, "l", made)

    def _argument(self, value: Any) -> str:
        """An argument of a view: a traced one is a position that the program computes."""
        if find_traced((value,)) is None:
            return self.constant(value)
        if isinstance(value, tuple):
            return f"({''.join(self._argument(item) + ', ' for item in value)})"
        return self.text(value)

    def _store(self, holder: Holder, key: Any, value: Any) -> tuple[str, str, str, bool]:
        if key not in holder.before:
            raise UncompilableError(f"it adds an item or attribute {key!r}")
        item, name = holder.names is None, self._holder(holder)
        if item and base_of(type(holder.target)) is not type(holder.target):
            self.users.add(name)
        return name, self.constant(key) if item else repr(key), self.text(value), item

    def _holder(self, holder: Holder) -> str:
        """A local name, read before anything is stored."""
        return self.made.get(id(holder.obj)) or self._assign(holder.obj, "h", self._read(holder.slots[0]))

    # -- the function

    def _assemble(
        self, copies: list[tuple[str, str]], stores: list[tuple[str, str, str, bool]],
        grown: list[tuple[str, str, str]], result: str,
    ) -> Compiled:  # fmt: skip
        tape = self.trace.tape
        types = [tape[var].type for var in self.outputs]
        spec = optree.treespec_tuple([optree.treespec_leaf(none_is_leaf=True)] * len(types), none_is_leaf=True)
        program = compile_recorded(self.trace.returning([*self.outputs], spec), types, spec)
        given = [f"x{i}" for i, leaf in enumerate(tape.leaves) if isinstance(leaf, Variable)]
        given += [f"c{k}" for k in range(self.trace.captured)]
        whole = {name for var, name in self.roots.items() if isinstance(self.trace[var], int)}
        inputs = ", ".join(f"int64({name})" if name in whole else name for name in given)
        lines = [_unpacked("x", len(tape.leaves), "leaves"), _unpacked("c", self.trace.captured, "arrays")]
        lines += [f"if type({x}) is not int or not -{LARGE} < {x} < {LARGE}: return MISFIT" for x in sorted(whole)]
        lines += self._conditions()
        lines += [f"y = program({inputs})", "if isinstance(y, Refusal): return y", _unpacked("y", len(types), "y")]
        written = [f"copyto({target}, {value})" for target, value in copies]
        stored = [f"{of}[{key}] = {value}" if item and of not in self.users else
                  f"{'set_item' if item else 'set_attribute'}({of}, {key}, {value})"
                  for of, key, value, item in stores]
        effects = f"({_listed(map(_listed, copies))}), ({_listed(_listed(map(str, store)) for store in stores)})"
        appended = [f"{of}.{method}({value})" for of, method, value in _joined(grown)]
        step = self._function([*lines, *written, *self.lines, *stored, *appended, f"return {result}"], program)
        added = _listed(f"{of}, {method!r}, {value}" for of, method, value in grown)
        effects += f", ({inputs}{', ' * bool(inputs)}), y, ({added})"
        rehearsal = [*lines, *self.lines, f"return Rehearsal({result}, {effects})"]
        return Compiled(program, step, self._function(rehearsal, program))

    def _function(self, lines: list[str], program: Program) -> StepFunction:
        """A step of these lines."""
        reads = self.captures.guards.reads_of(self.slots)
        names = {
            "program": program.run, "Refusal": Refusal, "MISFIT": MISFIT, "PLAIN": PLAIN, "copyto": np.copyto,
            "int64": np.int64, "set_attribute": set_attribute, "set_item": set_item,
            "overlapping": overlapping, "Rehearsal": Rehearsal,
        }  # fmt: skip
        of = "step(f, args, kwargs, leaves, arrays)"
        return self.captures.guards.compiled(of, [*reads, *lines], **names)  # type: ignore[no-any-return]

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
            both = f"({', '.join(written)},), ({''.join(name + ', ' for name in others)})"
            lines.append(f"if (not ({own} is None) or len({ids_of(arrays)}) < {len(arrays)}) and overlapping({both}): "
                         "return PLAIN")
        if self.captures.comparisons.objects and len(arrays) > 1:
            lines.append(f"if len({ids_of(arrays)}) < {len(arrays)}: return PLAIN")
        numbers = [self.roots[var] for var in self.performance.recording.numbers()]
        fixed = [*map(self._read, self.performance.recording.fixed_numbers())] if numbers else []
        if self.captures.comparisons.numbers and len(numbers) + len(fixed) > 1:
            these, known = ids_of(numbers), ids_of(["None", *fixed])
            lines.append(f"if len({these}) < {len(numbers)} or not {these}.isdisjoint({known}): return PLAIN")
        given = [x.slots[0] for x in self.performance.copies.values() if not isinstance(x.target, tuple)]
        if self.captures.comparisons.objects and given and len(every := [*given, *self.captures.containers()]) > 1:
            lines.append(f"if len({ids_of(map(self._read, every))}) < {len(every)}: return PLAIN")
        if self.trace.heeds_layout or any(line[0] == "w" for line in self.lines):  # as what reshape gives does
            for name, var in arrays.items():
                strides = self.performance.recording.real(var).strides
                lines.append(f"if {name}.strides != {strides!r}: return MISFIT")
        elif self.lays_out:  # in the order that the arrays have which it reads
            for name, var in arrays.items():
                array = self.performance.recording.real(var)
                if array.ndim > 1 and array.flags.c_contiguous:
                    lines.append(f"if not {name}.flags.c_contiguous: return MISFIT")
                elif array.ndim > 1:
                    order, same = self.constant(memory_axes), self.constant(memory_axes(array))
                    gaps = f"{name}.flags.f_contiguous is not {array.flags.f_contiguous}"  # which order="A" asks for
                    lines.append(f"if {gaps} or {order}({name}) != {same}: return MISFIT")
        for holder in self.performance.records() if self.captures.attributes.counts else ():
            attributes = self._read(holder.slots[0].own())
            lines.append(f"if len({attributes}) != {len(vars(holder.target))}: return PLAIN")
        return lines + self._identities()

    def _identities(self) -> list[str]:
        """Containers whose items are replaced, and lists that grow, are reached by the same ways as in the trace, and
        by no others."""
        grown = [self.holders[id(sink)] for sink, _, _ in self.captures.sinks.noted]
        changed = {id(holder): holder for holder in (*(x for x, _, _ in self.performance.changes), *grown)}.values()
        every = [*self.captures.exchange.holders.values(), *self.performance.copies.values()]
        lines = []
        for holder in changed:
            first, *again = holder.slots
            lines += [f"if {self._read(first)} is not {self._read(slot)}: return MISFIT" for slot in again]
            for other in every:
                alike = other is not holder and type(holder.target) is type(other.target)
                if alike and not (first.fixed and other.slots[0].fixed):
                    lines.append(f"if {self._read(first)} is {self._read(other.slots[0])}: return MISFIT")
        return lines


def _joined(grown: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """What is appended to a list, in one call if nothing else is in between."""
    for (of, method), group in groupby(grown, lambda entry: entry[:2]):
        values = [value for _, _, value in group]
        if len(values) > 1:
            yield of, method.replace("append", "extend"), f"({', '.join(values)})"
        else:
            yield of, method, values[0]


def _is_array(t: Type) -> bool:
    return isinstance(t, ArrayType) and t.kind == "array"


def _listed(texts: Iterable[str]) -> str:
    return "".join(f"({text}), " for text in texts)


def _unpacked(prefix: str, count: int, source: str) -> str:
    return "".join(f"{prefix}{i}, " for i in range(count)) + f"= {source}" if count else ""
