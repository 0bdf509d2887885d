"""The function that serves the calls of one path, from its arguments to its result.

It is written as text, line by line: look whether the arguments, and what the trace has read, are as they were, run the
program, store what the traced function has stored, make the result. In it ``x0``, ``x1``, … are the leaves of the
arguments, ``c0``, … captured values, ``y0``, … what the program returns; constants and reads have the names that the
guards gave them. A gradient is a step that stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import optree

from ..base.records import record
from ..base.refusal import MISFIT, OutOfBounds
from ..base.types import LARGE
from ..capture.guards import ids_of
from ..capture.places import set_attribute, set_item
from ..capture.walk import Captures
from ..tape.operations import Constant, Variable
from ..tracing.traces import Trace
from ..tracing.views import overlapping
from .arguments import Structure
from .outputs import Telling
from .redrawing import Redrawing

if TYPE_CHECKING:
    from ..engine.run.program import Program

# Of the traced function or another with the same code, its arguments, and a seed: the result, after all effects; or a
# ``Refusal``, and nothing has happened. With a fifth argument, which is true, a ``Rehearsal`` rather than the result.
Entry: TypeAlias = Callable[..., Any]
Compiled: TypeAlias = "tuple[Program, Entry]"

PLAIN = OutOfBounds()  # the function itself must be called, no other program fits


@record()
class Rehearsal:
    """A call that a program could serve, and what it would do.

    The result; the arrays that would be written into, with their contents; the items and attributes that would be
    replaced: holder, key, value, and whether it is an item; what would be appended to lists and deques, in order: list,
    method and value; what would be told, as arguments of outputs; what the program was given, and what it has returned;
    which of the captured values that it was given are times.
    """

    result: Any
    copies: Sequence[tuple[np.ndarray, np.ndarray]]
    stores: Sequence[tuple[Any, Any, Any, bool]]
    appended: Sequence[tuple[Any, str, Any]]
    told: Sequence[tuple[Any, Any]]
    inputs: Sequence[Any]
    outputs: Any
    times: Sequence[int]


@record()
class Effects:
    """What is done before the result is returned, in text: the arrays that are written into, and with what; holders,
    keys, values and whether they are items; lists, methods and what is appended."""

    copies: Sequence[tuple[str, str]] = ()
    stores: Sequence[tuple[str, str, str, bool]] = ()
    grown: Sequence[tuple[str, str, str]] = ()

    def rehearsed(self) -> str:
        """Them as arguments of a ``Rehearsal``."""
        stores = (_listed(map(str, store)) for store in self.stores)
        grown = (f"{of}, {method!r}, {value}" for of, method, value in self.grown)
        return f"({_listed(map(_listed, self.copies))}), ({_listed(stores)}), ({_listed(grown)})"

    def performed(self, users: set[str], done: Collection[str]) -> Iterator[str]:
        """Lines that do them, but for copies of what is in its place already; ``users`` are lists and dicts of classes
        that may have methods of their own."""
        for target, value in self.copies:
            if value not in done:
                yield f"copyto({target}, {value})"
        for of, key, value, item in self.stores:
            if item and of not in users:
                yield f"{of}[{key}] = {value}"
            else:
                yield f"{'set_item' if item else 'set_attribute'}({of}, {key}, {value})"
        for (of, method), group in groupby(self.grown, lambda entry: entry[:2]):
            values = [value for _, _, value in group]
            if len(values) > 1:
                yield f"{of}.{method.replace('append', 'extend')}(({', '.join(values)}))"
            else:
                yield f"{of}.{method}({values[0]})"


NOTHING = Effects()


class Writer:
    """The text of an entry for a traced call with these leaves."""

    def __init__(self, trace: Trace, captures: Captures, structure: Structure, leaves: Sequence[Any]) -> None:
        self.trace, self.captures, self.structure = trace, captures, structure
        self._leaves = leaves
        self._positions = {leaf: i for i, leaf in enumerate(trace.tape.leaves) if isinstance(leaf, Variable)}
        self.roots = {var: self._root(var) for var in trace.roots}
        self.arrays = {var: name for var, name in self.roots.items() if isinstance(trace[var], np.ndarray)}
        self.lines: list[str] = []  # that make parts of the result, and of what is stored
        self.users: set[str] = set()  # as in ``Effects.performed``
        self._constants: dict[int, tuple[str, Any]] = {}  # names and values, by identity

    def _root(self, var: Variable) -> str:
        op = self.trace.tape[var]
        return f"c{op.captured}" if isinstance(op, Constant) else f"x{self._positions[var]}"

    def constant(self, value: Any) -> str:
        """The expression of a value that is known; one that the guards do not know is none of theirs, as other paths of
        decisions have others."""
        if self.captures.guards.knows(value):
            return self.captures.guards.constant(value).code
        return self._constants.setdefault(id(value), (f"e{len(self._constants)}", value))[0]

    def real(self, var: Variable) -> Any:
        """The caller's own object behind a root of the trace."""
        op = self.trace.tape[var]
        if isinstance(op, Constant):
            assert op.captured is not None
            return self.captures.captured.values[op.captured]
        return self._leaves[self._positions[var]]

    def given(self) -> list[str]:
        """What a program is given of what is known before it draws."""
        return [*(f"x{i}" for i in self.structure.given), *(f"c{k}" for k in range(self.trace.captured))]

    def compiled(self, program: Program, result: str, effects: Effects = NOTHING, **names: Any) -> Compiled:
        """The entry of a program, of which this expression is the result; in it, ``names`` are known as well."""
        if self.structure.bare:
            count = self.structure.spec.num_leaves - 1
            before = [f"if len(args) != {count} or kwargs or seed is not None: return MISFIT"]
            before.append(_unpacked("x", count, "args"))
        else:
            before = ["leaves = leaves_of(args, kwargs, seed)", "if leaves is None: return MISFIT"]
            before.append(_unpacked("x", self.structure.spec.num_leaves, "leaves"))
        whole = {name for var, name in self.roots.items() if isinstance(self.trace[var], int)}
        given = [f"int64({x})" if x in whole else x for x in self.given()]
        drawn = Redrawing(self.trace, self.roots, self.captures.generators.slot, self.constant)
        telling = Telling(self.trace, self.captures.generators.slot, self.constant)
        outputs = [f"y{i}" for i in range(len(program.tape.results))]
        told = [*telling.texts(outputs[len(outputs) - telling.count :])]
        inputs = "".join(f"{x}, " for x in (*given, *drawn.inputs()))
        after = [
            *(f"if type({x}) is not int or not -{LARGE} < {x} < {LARGE}: return MISFIT" for x in sorted(whole)),
            *self._conditions(),
            *drawn.running(program, given),
            _unpacked("y", len(outputs), "y"),
            *self.lines,
            f"if rehearsing: return Rehearsal({result}, {effects.rehearsed()}, "
            f"({_listed(f'({args}, {kwargs})' for _, _, args, kwargs in told)}), ({inputs}), y, {drawn.times})",
            *(f"{tell}({to}, {args}, {kwargs})" for tell, to, args, kwargs in told),
            *effects.performed(self.users, [f"y{i}" for i in program.plan.overwritten]),
            f"return {result}",
        ]
        signature = "enter(f, args, kwargs, seed, rehearsing=False)"
        return program, self.captures.guards.entry(
            signature, before, after, program=program.run, apart=program.apart, leaves_of=self.structure.leaves,
            MISFIT=MISFIT, PLAIN=PLAIN, copyto=np.copyto, int64=np.int64, set_attribute=set_attribute,
            set_item=set_item, overlapping=overlapping, Rehearsal=Rehearsal, ndarray=np.ndarray,
            **dict(self._constants.values()), **names,
        )  # fmt: skip

    def _conditions(self) -> list[str]:
        """Lines that refuse a call in which arrays are not as they were traced."""
        if not (self.trace.writes or self.trace.heeds_layout):
            return []
        arrays = (f"if not issubclass(type({name}), ndarray): return MISFIT" for name in self.arrays.values())
        return [*arrays, *self._memory(), *self._strides()]

    def _memory(self) -> Iterator[str]:
        """Arrays that are written into share no memory with others."""
        written = [self.roots[var] for var in self.trace.written]
        if needed := dict.fromkeys([*written, *(self.roots[var] for var in self.trace.writeable)]):
            yield f"if not ({' and '.join(f'{name}.flags.writeable' for name in needed)}): return PLAIN"
        if written:
            names = self.arrays.values()
            own = " is ".join(f"{name}.base" for name in names)
            both = f"({_listed(written)}), ({_listed(name for name in names if name not in written)})"
            yield (f"if (not ({own} is None) or len({ids_of(names)}) < {len(names)}) and overlapping({both}): "
                   "return PLAIN")

    def _strides(self) -> Iterator[str]:
        for var, name in self.arrays.items():
            yield f"if {name}.strides != {self.real(var).strides!r}: return MISFIT"


def contained(spec: optree.PyTreeSpec, count: int) -> str:
    """The expression of what a program returns, in containers of this structure."""
    names = [_Name(f"y{i}") for i in range(count)]
    tree = optree.tree_unflatten(spec, names)
    return repr(tree) if _is_display(tree) else f"unflatten(spec, {(*names,)!r})"


@record(repr=False)
class _Name:
    name: str

    def __repr__(self) -> str:
        return self.name


def _is_display(tree: Any) -> bool:
    """Whether a tree prints as what Python makes another one of."""
    if type(tree) is dict:
        return {*map(type, tree)} <= {str, int} and all(map(_is_display, tree.values()))
    return type(tree) is _Name or (type(tree) in (tuple, list) and all(map(_is_display, tree)))


def _listed(texts: Iterable[str]) -> str:
    return "".join(f"({text}), " for text in texts)


def _unpacked(prefix: str, count: int, source: str) -> str:
    return "".join(f"{prefix}{i}, " for i in range(count)) + f"= {source}" if count else ""
