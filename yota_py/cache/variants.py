"""The programs of calls that agree in everything but the decisions they take.

The decisions of a trace are a path in a tree. A program that meets another decision says which one and what it met; the
tree tells who went on from there, so that no program is tried whose decisions are known to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from math import inf
from types import MappingProxyType
from typing import Any

import numpy as np
import optree

from ..base.impure import Impure
from ..base.records import record
from ..base.refusal import MISFIT, Decision, Misfit, Refusal
from ..base.types import Type, native_type
from ..capture.guards import GuardFunction, Guards, in_words
from ..engine.compile import UncompilableError
from ..tape.loop import decisions
from ..tape.operations import Call, Guard
from ..tape.tape import Tape
from .arguments import Structure
from .entry import Compiled, Entry

NOTHING: Mapping[int, Hashable] = MappingProxyType({})
MAX_VARIANTS = 256  # of one signature
MAX_SIBLINGS = 8  # of a decision on an array, whose value nobody tells


def outcome(answer: Any) -> Hashable:
    """What a test has answered, so that it can be compared."""
    return (answer.shape, answer.tobytes()) if isinstance(answer, np.ndarray) else repr(answer)


@record(frozen=False)
class Audits:
    """How often a program was audited, the seconds that it took, in all and last, and those of a call of its own."""

    count: int = 0
    spent: float = 0.0
    last: float = 0.0
    seconds: float = inf
    suspect: frozenset[str] = frozenset()  # where the last one has found differences, perhaps due to other threads


@record(frozen=False)
class Fork:
    """A point where paths part: the variant that was right last, and what follows each outcome."""

    recent: Variant
    children: dict[Hashable, Fork] = field(default_factory=dict)


class Variant:
    """One path of decisions, and its program."""

    def __init__(self, tape: Tape, free: Mapping[int, Hashable] = NOTHING) -> None:
        """Decisions that are ``free`` come out in any way, by their numbers; with what tells those of one loop from
        others of it."""
        self.guards, self.free = [*decisions(tape.ops)], free
        calls = [op for op in tape.ops if isinstance(op, Call)]
        self.impure = [op for op in calls if isinstance(op.fn, Impure)]
        self.path = [step for step in self.steps() if step is not None]
        self.nodes: list[Fork] = []
        self.program: Any = None
        self.enter: Entry = refuse
        self.audits = Audits()
        self.problem = ""  # why it has no program

    def steps(self) -> Iterator[Hashable]:
        """For each decision how it has come out; for those that are free, their loop, once; or nothing."""
        loop = None
        for number, op in enumerate(self.guards):
            before, loop = loop, self.free.get(number)
            yield outcome(op.expected) if loop is None else loop if loop != before else None

    def compile(self, compile: Callable[[], Compiled]) -> None:
        """Take what this returns, or note why there is nothing."""
        try:
            self.program, self.enter = compile()
            self.program.limit = 0
        except UncompilableError as reason:
            self.problem = str(reason)


def refuse(*values: Any) -> Refusal:
    """Runs nothing."""
    return MISFIT


@record(eq=False)
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


class Signature:
    """Calls with the same key, for which everything else that was read is the same too.

    ``enter`` is the entry of the program that has served last.
    """

    def __init__(
        self, structure: Structure, guards: Guards, guard: GuardFunction, captured: Sequence[Type],
        arguments: tuple[str, ...], layout: tuple[Any, ...], *, merges: bool = False,
    ) -> None:  # fmt: skip
        self.merges = merges  # whether turns of loops that decide otherwise are one in the programs
        self.structure, self.guards, self.guard, self.captured = structure, guards, guard, captured
        self.arguments = arguments  # in words
        self.layout = layout  # of the arrays of the call that was traced first
        self.variants: list[Variant] = []
        self.root: Fork | None = None
        self.enter: Entry = refuse
        self.drop: Callable[[], None] = lambda: None  # makes the cache forget this signature

    # -- running

    def run(self, *call: Any) -> Any:
        """The result of the program that fits, or a ``Refusal``."""
        return self.go_on(self.enter(*call), *call)

    def go_on(self, answer: Any, *call: Any) -> Any:
        """The result of the program that fits, if that which was tried first has answered with another decision."""
        return self._follow(answer, call) if type(answer) is Decision else answer

    def explained(self, refusal: Misfit, *call: Any) -> Misfit:
        """The refusal, and which captured value is to blame, if it is one."""
        if self.structure.leaves(*call[1:]) is None or type(values := self.guard(*call[:3])) is not tuple:
            return refusal
        for slot, value, t in zip(self.guards.captured, values, self.captured, strict=True):
            if native_type(value) != t:
                return Misfit(f"{slot.words} was {t}, and is {native_type(value)}")
        return refusal

    def _follow(self, refusal: Refusal, call: tuple[Any, ...]) -> Any:
        """Go where the decisions of this call lead."""
        assert self.root is not None
        variant = self.root.recent
        while isinstance(refusal, Decision) and (at := refusal.number) >= 0:
            guard = variant.guards[at]
            for child in _candidates(variant, at, refusal.value):
                result = child.recent.enter(*call)
                if not issubclass(type(result), Refusal):
                    self._prefer(child.recent, child)
                    return result
                again = isinstance(result, Decision) and (result.number == at or result.number in child.recent.free)
                if not again:
                    variant, refusal = child.recent, result
                    break
            else:
                return NewPath(guard, refusal.value)
        return refusal

    def _prefer(self, variant: Variant, *nodes: Fork) -> None:
        """Try this variant first from now on, also from these points on."""
        assert self.root is not None
        self.enter = variant.enter
        for node in (self.root, *nodes):
            node.recent = variant

    # -- growing

    def serves(self, leaves: Sequence[Any], guards: Guards, captured: Sequence[Type], *, merges: bool) -> bool:
        """Whether a trace has read the same, and found the same."""
        return (
            self.merges == merges
            and self.structure.fits(leaves)
            and list(captured) == list(self.captured)
            and self.guards.asks_the_same(guards)
        )

    def other_argument(self, leaves: Sequence[Any], spec: optree.PyTreeSpec) -> str | None:
        """Which argument of a call is not as in this signature, in words; ``None`` if they differ in structure."""
        static = self.structure.static
        if spec != self.structure.spec:
            return None
        for i, (known, leaf) in enumerate(zip(self.arguments, leaves, strict=False)):
            if i in static and not static[i].fits(leaf):
                return f"it is compiled for {known}, and here this argument is {in_words(leaf)}"
            if i not in static and f"{known.partition(' ')[0]} {native_type(leaf)}" != known:
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
        nodes = [self.root or Fork(variant)]
        for step in variant.path:
            nodes.append(nodes[-1].children.get(step) or Fork(variant))
        rest = iter(nodes)
        for step in variant.steps():  # for each decision, where it is taken
            variant.nodes.append(next(rest) if step is not None else variant.nodes[-1])
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
    def idle(self) -> int:
        """Programs that have served no call."""
        return sum(v.program is not None and not v.program.calls for v in self.variants)

    @property
    def calls(self) -> int:
        """Calls that programs have served."""
        return sum(v.program.calls for v in self.variants if v.program is not None)

    @property
    def nbytes(self) -> int:
        """Memory that the programs keep."""
        return sum(v.program.nbytes for v in self.variants if v.program is not None)


def _candidates(variant: Variant, at: int, value: Any) -> list[Fork]:
    """Where to go on from a decision that has come out otherwise than in a variant."""
    guard, node, loop = variant.guards[at], variant.nodes[at], variant.free.get(at)
    if loop is not None or isinstance(guard.expected, np.ndarray):
        taken = outcome(guard.expected) if loop is None else loop
        return list(islice((child for step, child in node.children.items() if step != taken), MAX_SIBLINGS))
    try:
        answer = guard.test(value)
    except Exception:  # any: it is the function's, when it is traced
        return []
    child = node.children.get(outcome(answer))
    return [] if child is None else [child]
