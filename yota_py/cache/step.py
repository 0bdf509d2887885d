"""A traced call with its effects as a function that runs compiled code.

In its text (``entry.py``) ``w0``, ``w1``, … are views, ``l0``, … containers, ``h0``, … the holders of rebound places.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from keyword import iskeyword
from types import CellType, FunctionType
from typing import Any

import numpy as np
import optree

from ..base.containers import base_of, dict_of, slots_of
from ..base.dispatch import find_traced, is_traced
from ..base.ownership import is_library_code
from ..capture.bytecode import TELLING
from ..capture.guards import ids_of
from ..capture.kinds import has_from, is_builtin, is_class_of_library, is_key, is_of_library
from ..capture.places import Holder
from ..capture.plain import ATOMS, WRITABLE, Performance, binds, parts_of
from ..engine.compile import UncompilableError, compile_recorded
from ..registry.writes import memory_axes
from ..tape.operations import Variable
from ..tape.trees import opened, unflatten
from ..tracing.shells import is_recording, real
from ..tracing.tracer import Tracer
from ..tracing.views import laid_out, locked
from .arguments import Structure
from .entry import Compiled, Effects, Writer

_Body = tuple[list[tuple[str, str]], list[tuple[str, str, str, bool]], list[tuple[str, str, str]], str]


def make_step(performance: Performance, structure: Structure) -> Compiled:
    """The compiled form of a call that has been traced; raises ``UncompilableError`` if there is none."""
    first = _Writer(performance, structure, {})
    first.body()  # finds out which arrays are shared
    return _Writer(performance, structure, first.shared).step()


class _Writer(Writer):
    """The text of a step. ``shared`` are, of each array made in the call, it and the views that are handed out."""

    def __init__(self, performance: Performance, structure: Structure, shared: dict[int, set[int]]) -> None:
        recording = performance.recording
        super().__init__(recording.trace, recording.captures, structure, recording.leaves)
        self.performance = performance
        self.holders = {
            **{id(holder.obj): holder for holder in self.captures.exchange.holders.values() if holder.names is None},
            **performance.copies,
            **{id(holder.obj): holder for holder in self.captures.sinks.holders.values()},
        }
        self.leaves = {id(leaf): f"x{i}" for i, leaf in enumerate(recording.trace.tape.leaves)}  # static ones
        self.tracers = {id(root): self.roots[var] for var, root in self.trace.roots.items()}
        self.tracers |= {key: slot.code for key, (_, slot) in self.captures.captured.views.items()}
        self.shared = shared
        self.outputs: dict[Variable, str] = {}
        self._wanted: Counter[Variable] = Counter()  # how often each is put into the text
        self.made: dict[int, str] = {}
        self._pending: list[tuple[str, type, dict[str, Any]]] = []  # objects to be filled: they may be linked, and many
        self.lays_out = False  # whether it makes arrays whose axes lie in memory in one order or another
        self.orders: dict[Variable, str] = {}  # of arrays that the program makes: of C, or of Fortran

    def step(self) -> Compiled:
        """The program, and the function that serves calls with it."""
        copies, stores, grown, result = self.body()
        types = [self.trace.tape[var].type for var in self.outputs]
        turned = [i for i, var in enumerate(self.outputs) if self.orders.get(var) == "F"]
        over = self._over(copies)
        program = compile_recorded(self.trace.returning([*self.outputs]), types, turned=turned, over=over)
        return self.compiled(program, result, Effects(copies, stores, grown))

    def _over(self, copies: Sequence[tuple[str, str]]) -> dict[int, int]:
        """Outputs that are wanted in an input's place alone, by the numbers of both."""
        inputs, outputs = self.given(), [*self.outputs]
        numbers = {name: i for i, name in enumerate(self.outputs.values())}
        return {
            i: inputs.index(target) for target, value in copies
            if (i := numbers.get(value)) is not None and self._wanted[outputs[i]] == 1 and target in inputs
        }  # fmt: skip

    def body(self) -> _Body:
        """What is written into arrays, stored and appended, as in ``Effects``; the result."""
        copies = [(self.roots[var], self._output(self.trace.roots[var]._current()[0])) for var in self.trace.written]
        stores = [self._store(holder, key, value) for holder, key, value in self.performance.changes]
        grown = [(self._holder(self.holders[id(sink)]), method, self.text(value))
                 for sink, method, value in self.captures.sinks.noted]
        result = self.text(self.performance.output)
        while self._pending:
            self._fill(*self._pending.pop())
        return copies, stores, grown, result

    # -- expressions

    def _output(self, var: Variable) -> str:
        self._wanted[var] += 1
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
        if is_recording(value):
            if (slot := self.captures.generators.slot(real(value))) is None:
                raise UncompilableError("it keeps a random number generator that it has made")
            return slot.code
        if (holder := self.holders.get(id(value))) is not None:
            return self._holder(holder)
        if (slot := self.captures.instances.slot(value)) is not None:
            return slot.code
        if (slot := self.captures.items.tuples.get(id(value), (None, None, None))[2]) is not None:
            return slot.code
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
        return self.text(cell) if holder is None else holder.slots[0].code

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
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        if self.orders.setdefault(var, order) != order or not value.flags.forc:
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
        return self.made.get(id(holder.obj)) or self._assign(holder.obj, "h", holder.slots[0].code)

    # -- conditions

    def _conditions(self) -> list[str]:
        """Lines that refuse a call in which arrays or containers are not as they were traced."""
        kinds = [(name, self.constant(type(self.real(var)))) for var, name in self.arrays.items()]
        # Another thread's trace puts tracers in their places.
        own = (f"if type({name}) is not {kind}: return MISFIT" for name, kind in kinds)
        return [*own, *self._memory(), *self._who_is_who(), *self._layout(), *self._attributes(), *self._identities()]

    def _who_is_who(self) -> Iterator[str]:
        """What the function may compare by identity are different objects."""
        arrays = self.arrays.values()
        if self.captures.comparisons.objects and len(arrays) > 1:
            yield f"if len({ids_of(arrays)}) < {len(arrays)}: return PLAIN"
        numbers = [self.roots[var] for var in self.performance.recording.numbers()]
        fixed = self.performance.recording.fixed_numbers() if numbers else ()
        if self.captures.comparisons.numbers and len(numbers) + len(fixed) > 1:
            these, known = ids_of(numbers), ids_of(["None", *fixed])
            yield f"if len({these}) < {len(numbers)} or not {these}.isdisjoint({known}): return PLAIN"
        given = [x.slots[0] for x in self.performance.copies.values() if not isinstance(x.target, tuple)]
        if self.captures.comparisons.objects and given and len(every := [*given, *self.captures.containers()]) > 1:
            yield f"if len({ids_of(every)}) < {len(every)}: return PLAIN"

    def _layout(self) -> Iterator[str]:
        """Arrays lie in memory as they did, as far as results depend on it."""
        if self.trace.heeds_layout or any(line[0] == "w" for line in self.lines):  # as what reshape gives does
            yield from self._strides()
        elif self.lays_out:  # in the order that the arrays have which it reads
            for var, name in self.arrays.items():
                array = self.real(var)
                if array.ndim < 2:
                    continue
                if array.flags.c_contiguous:
                    yield f"if not {name}.flags.c_contiguous: return MISFIT"
                elif array.flags.f_contiguous and min(array.shape) > 1:  # no other order of axes is contiguous so
                    yield f"if not {name}.flags.f_contiguous: return MISFIT"
                else:
                    order, same = self.constant(memory_axes), self.constant(memory_axes(array))
                    gaps = f"{name}.flags.f_contiguous is not {array.flags.f_contiguous}"  # which order="A" asks for
                    yield f"if {gaps} or {order}({name}) != {same}: return MISFIT"

    def _attributes(self) -> Iterator[str]:
        for holder in self.performance.records() if self.captures.attributes.counts else ():
            yield f"if len({holder.slots[0].own()}) != {len(dict_of(holder.target) or ())}: return PLAIN"

    def _identities(self) -> Iterator[str]:
        """Containers whose items are replaced, and lists that grow, are reached by the same ways as in the trace, and
        by no others."""
        grown = [self.holders[id(sink)] for sink, _, _ in self.captures.sinks.noted]
        changed = {id(holder): holder for holder in (*(x for x, _, _ in self.performance.changes), *grown)}.values()
        every = [*self.captures.exchange.holders.values(), *self.performance.copies.values()]
        for holder in changed:
            first, *again = holder.slots
            yield from (f"if {first} is not {slot}: return MISFIT" for slot in again)
            for other in every:
                alike = other is not holder and type(holder.target) is type(other.target)
                if alike and not (first.fixed and other.slots[0].fixed):
                    yield f"if {first} is {other.slots[0]}: return MISFIT"
