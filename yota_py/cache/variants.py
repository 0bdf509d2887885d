"""The programs of calls that agree in everything but the decisions they take.

The decisions of a trace are a path in a tree. A program that meets another decision says which one and what it met; the
tree tells who went on from there, so that no program is tried whose decisions are known to differ.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import Any, TypeAlias

import numpy as np
import optree

from ..base.containers import is_proxy
from ..base.refusal import MISFIT, Decision, Misfit, Refusal
from ..base.types import Type, native_type
from ..capture.guards import Changed, GuardFunction, Guards, in_words
from ..capture.kinds import is_watchable, is_whole
from ..engine.compile import UncompilableError
from ..tape.operations import Guard
from ..tape.tape import Tape
from ..tape.trees import flatten, is_traceable

MAX_VARIANTS = 256  # of one signature
MAX_SIBLINGS = 8  # of a decision on an array, whose value nobody tells

Runner: TypeAlias = Callable[..., Any]  # of leaves and captured values: a result or a ``Refusal``


def outcome(answer: Any) -> Hashable:
    """What a test has answered, so that it can be compared."""
    return (answer.shape, answer.tobytes()) if isinstance(answer, np.ndarray) else repr(answer)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A call that a program could serve, and what it would do.

    The result; the arrays that would be written into, with their contents; the items and attributes that would be
    replaced: holder, key, value, and whether it is an item; what the program was given, and what it has returned; what
    would be appended to lists and deques, in order: list, method and value.
    """

    result: Any
    copies: Sequence[tuple[np.ndarray, np.ndarray]]
    stores: Sequence[tuple[Any, Any, Any, bool]]
    inputs: Sequence[Any]
    outputs: Any
    appended: Sequence[tuple[Any, str, Any]] = ()


@dataclass(slots=True)
class Audits:
    """How often a program was audited, the seconds that it took, in all and last, and those of a call of its own."""

    count: int = 0
    spent: float = 0.0
    last: float = 0.0
    seconds: float = inf
    suspect: frozenset[str] = frozenset()  # where the last one has found differences, perhaps due to other threads


@dataclass(slots=True)
class Fork:
    """A point where paths part: the variant that was right last, and what follows each outcome."""

    recent: Variant
    children: dict[Hashable, Fork] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program, what runs it, and what makes a ``Rehearsal`` of a call: nothing happens then."""

    program: Any
    run: Runner
    rehearse: Runner


class Variant:
    """One path of decisions, and its program."""

    def __init__(self, tape: Tape) -> None:
        self.guards = [op for op in tape.ops if isinstance(op, Guard)]
        self.path = [outcome(op.expected) for op in self.guards]
        self.nodes: list[Fork] = []
        self.program: Any = None
        self.run: Runner = refuse
        self.rehearse: Runner = refuse
        self.audits = Audits()
        self.problem = ""  # why it has no program

    def compile(self, compile: Callable[[], Compiled]) -> None:
        """Take what this returns, or note why there is nothing."""
        try:
            compiled = compile()
        except UncompilableError as reason:
            self.problem = str(reason)
        else:
            self.program, self.run, self.rehearse = compiled.program, compiled.run, compiled.rehearse
            self.program.limit = 0


def refuse(*values: Any) -> Refusal:
    """Runs nothing."""
    return MISFIT


@dataclass(frozen=True, slots=True, eq=False)
class NewPath(Refusal):
    """A decision came out as on none of the known paths."""

    guard: Guard
    value: Any

    def __str__(self) -> str:
        if isinstance(self.guard.expected, np.ndarray):
            return f"{self.guard.site}: a mask or an index is none of those known"
        try:
            answer = repr(self.guard.test(self.value))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        return f"{self.guard.site}: a decision came out as {answer}, on a path that is not compiled"


class Static:
    """An argument that is no input of the tape: equal numbers and strings, other objects by identity, or ``of_class``
    by their class."""

    def __init__(self, leaf: Any, *, of_class: bool = False) -> None:
        self.of_class = of_class
        self.comparable = not is_proxy(leaf) and isinstance(leaf, int | str | bytes | np.integer | np.bool_ | None)
        self.kind = type(leaf)
        try:
            self.value = leaf if self.comparable else weakref.ref(leaf)
        except TypeError:
            self.value = lambda: leaf

    def fits(self, leaf: Any) -> bool:
        """Whether another call's argument is the same."""
        if self.of_class:
            return type(leaf) is self.kind
        if not self.comparable:
            return leaf is self.value()
        return leaf is self.value or (type(leaf) is self.kind and bool(leaf == self.value))


def key_of(leaves: Sequence[Any], spec: optree.PyTreeSpec, numbers: Container[int] = ()) -> Hashable:
    """What arguments have in common that can share programs: structure, types, and static values; at the positions
    ``numbers`` whole numbers may have any value, and objects be any of their class."""
    return spec, *[
        native_type(x) if is_traceable(x) or (i in numbers and is_whole(x)) else _static_key(x, i in numbers)
        for i, x in enumerate(leaves)
    ]


def _static_key(leaf: Any, any_of_class: bool) -> Hashable:
    known = Static(leaf)
    if known.comparable:
        return known.kind, leaf
    return (known.kind,) if any_of_class and is_watchable(leaf) else id(leaf)


class Signature:
    """Calls with the same key, for which everything else that was read is the same too."""

    def __init__(
        self, leaves: Sequence[Any], spec: optree.PyTreeSpec, guards: Guards, guard: GuardFunction,
        captured: Sequence[Type], arguments: tuple[str, ...], traced: Container[int],
        of_class: Container[int] = (), *, effects: bool,
    ) -> None:  # fmt: skip
        self.spec, self.guards, self.guard, self.captured = spec, guards, guard, captured
        self.arguments = arguments  # in words
        self.static = {i: Static(x, of_class=i in of_class) for i, x in enumerate(leaves)
                       if not (i in traced or is_traceable(x))}
        # positional leaves only: no containers, no static values (the last leaf is the seed, None)
        args = spec.child(0)
        bare = args.num_leaves == len(leaves) - 1 and all(child.is_leaf() for child in args.children())
        self.flat = bare and self.static.keys() == {len(leaves) - 1} and leaves[-1] is None
        self.effects, self.count = effects, len(leaves) - 1  # whether programs want the whole call; its leaves
        self.variants: list[Variant] = []
        self.root: Fork | None = None
        self.run_recent: Runner = refuse
        self.drop: Callable[[], None] = lambda: None  # makes the cache forget this signature

    # -- running

    def run(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any) -> Any:
        """The result of the program that fits, or a ``Refusal``."""
        leaves: Sequence[Any] = args
        if not self.flat or kwargs or seed is not None:
            found = self._leaves(args, kwargs, seed)
            if found is None:
                return MISFIT
            leaves = found
        values = self.guard(f, args, kwargs)  # which may look into arguments of this structure
        if type(values) is not tuple:
            return values
        if self.effects:
            if len(leaves) != self.count:
                return MISFIT
            result = self.run_recent(f, args, kwargs, leaves, values)
        else:
            result = self.run_recent(*leaves, *values)
        if not issubclass(type(result), Refusal):
            return result
        if not isinstance(result, Decision):
            return self._misfit(result, values)
        return self._follow(result, (f, args, kwargs, leaves, values) if self.effects else (*leaves, *values))

    def rehearse(self, variant: Variant, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any) -> Any:
        """The ``Rehearsal`` of a call by one of the programs, or a ``Refusal``."""
        leaves = self._leaves(args, kwargs, seed)
        if leaves is None or isinstance(values := self.guard(f, args, kwargs), Changed):
            return MISFIT
        return variant.rehearse(*((f, args, kwargs, leaves, values) if self.effects else (*leaves, *values)))

    def _misfit(self, refusal: Refusal, values: Sequence[Any]) -> Refusal:
        """The refusal, and which captured value is to blame, if it is one."""
        for slot, value, t in zip(self.guards.captured, values, self.captured, strict=True):
            if native_type(value) != t:
                return Misfit(f"{slot.words} was {t}, and is {native_type(value)}")
        return refusal

    def _leaves(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any) -> list[Any] | None:
        try:
            leaves, spec = flatten((args, dict(kwargs), seed), objects=self.effects)
        except RecursionError:  # containers that hold themselves
            return None
        if spec != self.spec:
            return None
        static = self.static
        if not all(known.fits(leaves[i]) for i, known in static.items()):
            return None
        return leaves[:-1] if self.effects else [leaf for i, leaf in enumerate(leaves) if i not in static]

    def _follow(self, refusal: Refusal, values: tuple[Any, ...]) -> Any:
        """Go where the decisions of these values lead."""
        assert self.root is not None
        variant = self.root.recent
        while isinstance(refusal, Decision) and (at := refusal.number) >= 0:
            guard, node = variant.guards[at], variant.nodes[at]
            for child in _candidates(guard, node, variant.path[at], refusal.value):
                result = child.recent.run(*values)
                if not issubclass(type(result), Refusal):
                    self._prefer(child.recent, child)
                    return result
                if not isinstance(result, Decision) or result.number != at:
                    variant, refusal = child.recent, result
                    break
            else:
                return NewPath(guard, refusal.value)
        return refusal

    def _prefer(self, variant: Variant, *nodes: Fork) -> None:
        """Try this variant first from now on, also from these points on."""
        assert self.root is not None
        self.run_recent = variant.run
        for node in (self.root, *nodes):
            node.recent = variant

    # -- growing

    def serves(self, leaves: Sequence[Any], guards: Guards, captured: Sequence[Type]) -> bool:
        """Whether a trace has read the same, and found the same."""
        return (
            all(known.fits(leaves[i]) for i, known in self.static.items())
            and list(captured) == list(self.captured)
            and self.guards.asks_the_same(guards)
        )

    def other_argument(self, leaves: Sequence[Any], spec: optree.PyTreeSpec) -> str | None:
        """Which argument of a call is not as in this signature, in words; ``None`` if they differ in structure."""
        if spec != self.spec:
            return None
        for i, (known, leaf) in enumerate(zip(self.arguments, leaves, strict=False)):
            if i in self.static and not self.static[i].fits(leaf):
                return f"it is compiled for {known}, and here this argument is {in_words(leaf)}"
            if i not in self.static and f"{known.partition(' ')[0]} {native_type(leaf)}" != known:
                return f"it is compiled for {known}, and here this argument is {native_type(leaf)}"
        return None

    def find(self, path: Sequence[Hashable]) -> Variant | None:
        """The variant of these decisions."""
        node = self.root
        for step in path:
            node = node.children.get(step) if node is not None else None
        return node.recent if node is not None and not node.children and list(path) == node.recent.path else None

    def add(self, variant: Variant) -> None:
        """Another path. It is linked from its end, so that nobody meets a part of it."""
        variant.nodes = nodes = [self.root or Fork(variant)]
        for step in variant.path:
            nodes.append(nodes[-1].children.get(step) or Fork(variant))
        self.variants.append(variant)
        for node, step, child in reversed([*zip(nodes, variant.path, nodes[1:], strict=False)]):
            node.children[step] = child
        self.root = nodes[0]
        self._prefer(variant, *nodes)

    def variant_of(self, program: Any) -> Variant:
        """The path that this program belongs to."""
        return next(variant for variant in self.variants if variant.program is program)

    def all_due(self) -> None:
        """Let all programs be audited when they are to serve a call."""
        for variant in self.variants:
            if variant.program is not None:
                variant.program.limit = 0

    @property
    def audits(self) -> int:
        """Calls that were audited."""
        return sum(v.audits.count for v in self.variants)

    @property
    def calls(self) -> int:
        """Calls that programs have served."""
        return sum(v.program.calls for v in self.variants if v.program is not None)

    @property
    def nbytes(self) -> int:
        """Memory that the programs keep."""
        return sum(v.program.nbytes for v in self.variants if v.program is not None)


def _candidates(guard: Guard, node: Fork, taken: Hashable, value: Any) -> list[Fork]:
    """Where to go on from a decision that has come out otherwise than ``taken``."""
    if isinstance(guard.expected, np.ndarray):
        return list(islice((child for step, child in node.children.items() if step != taken), MAX_SIBLINGS))
    try:
        answer = guard.test(value)
    except Exception:  # any: it is the function's, when it is traced
        return []
    child = node.children.get(outcome(answer))
    return [] if child is None else [child]
