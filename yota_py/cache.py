"""The guarded cache: which compiled program serves a call.

An entry belongs to a code object and holds what its trace depended on: the structure and static values of the
arguments, the guards on everything else that was read (``captures.py``), and the types of the inputs, which the
driver checks at each call. What is not provably the same next time is not cached but traced afresh.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from .captures import Captures
from .dispatch import is_traced
from .engine import Refusal, compile_tape
from .gradient import differentiate
from .guards import GuardFunction
from .operations import Guard, Input, Variable
from .passes import optimise
from .passes.classify import checkable
from .passes.lower import lower
from .recorder import Recorder
from .recording import record_call, record_watched
from .tape import Tape
from .trace import Trace
from .trees import flatten, is_traceable, unflatten
from .types import ArrayType, Type, typeof

if TYPE_CHECKING:
    from .engine.program import Program

MAX_ENTRIES = 64  # per function


@dataclass(frozen=True, slots=True)
class Mode:
    """What is asked of a function."""

    argnums: int | tuple[int, ...] | None = None
    has_aux: bool = False

    def active(self, argnum: int) -> bool:
        """Whether derivatives in this positional argument are wanted."""
        if self.argnums is None:
            return True
        return argnum == self.argnums if isinstance(self.argnums, int) else argnum in self.argnums


class Entry:
    """One traced signature of a function; compiled at its second call."""

    def __init__(
        self,
        spec: optree.PyTreeSpec,
        leaves: Sequence[Any],
        guard: GuardFunction,
        arrays: Sequence[Any],
        path: tuple[Any, ...],
    ) -> None:
        self.spec, self.guard, self.path = spec, guard, path
        self.array_types = [_type_as_traced(array) for array in arrays]
        self.dynamic = [is_traceable(leaf) for leaf in leaves]
        pairs = zip(leaves, self.dynamic, strict=True)
        self.types = [_type_as_traced(leaf) if dynamic else leaf for leaf, dynamic in pairs]
        # positional leaves only: no containers, no static values (the last leaf is the seed, None)
        args = spec.child(0)
        bare = args.num_leaves == args.num_children == len(leaves) - 1
        self.flat = bare and all(self.dynamic[:-1]) and leaves[-1] is None
        self.program: Program | None = None
        self.problem = ""  # why it is never compiled

    def fits(self, leaves: Sequence[Any], spec: optree.PyTreeSpec) -> bool:
        """Whether the arguments have this entry's structure, static values and types."""
        return spec == self.spec and len(leaves) == len(self.types) and all(
            (is_traceable(leaf) and _type_as_traced(leaf) == known) if dynamic else _same_static(leaf, known)
            for leaf, dynamic, known in zip(leaves, self.dynamic, self.types, strict=True)
        )

    def serves(self, f: Any, arrays: Sequence[Any], path: tuple[Any, ...]) -> bool:
        """Whether a trace with these captured arrays and decisions is this entry's."""
        types = [_type_as_traced(array) for array in arrays]
        return self.path == path and self.array_types == types and self.guard(f) is not None

    def compile(self, gradient: Recorder) -> None:
        """Lower, optimise and compile the gradient tape of a call of this signature."""
        tape, low = gradient.tape, lower(gradient).tape
        assert tape.out_spec is not None
        low = optimise(low)
        if not checkable(low):
            self.problem = "it takes a decision on traced values that a kernel cannot check"
            return
        self.program = compile_tape(low, result_types(tape), tape.out_spec)

    def run(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any) -> Any:
        """The result, or a ``Refusal``."""
        program = self.program
        if program is None or (arrays := self.guard(f)) is None:
            return Refusal.MISFIT
        if self.flat:
            if kwargs or seed is not None:
                return Refusal.MISFIT
            leaves: Sequence[Any] = args
        else:
            given, spec = flatten((args, dict(kwargs), seed))
            if spec != self.spec:
                return Refusal.MISFIT
            leaves = []
            for leaf, dynamic, known in zip(given, self.dynamic, self.types, strict=True):
                if dynamic:
                    leaves.append(leaf)
                elif not _same_static(leaf, known):
                    return Refusal.MISFIT
        return program(*leaves, *arrays)


def _type_as_traced(leaf: Any) -> Type:
    t = typeof(leaf)
    return t if not isinstance(t, ArrayType) or t.dtype.isnative else replace(t, dtype=t.dtype.newbyteorder("="))


def _same_static(leaf: Any, known: Any) -> bool:
    if leaf is known:
        return True
    comparable = isinstance(leaf, int | str | bytes | np.integer | np.bool_)
    return comparable and type(leaf) is type(known) and bool(leaf == known)


class FunctionCache:
    """The entries of one function's code, most recently used first."""

    def __init__(self, owner: Any, mode: Mode) -> None:
        self.owner = owner  # kept, so that its id stays its own
        self.mode = mode
        self.entries: list[Entry] = []
        self._lock = threading.RLock()

    def __call__(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any) -> Any:
        """Value and gradients, from a program if one fits."""
        for entry in self.entries:
            result = entry.run(f, args, kwargs, seed)
            if type(result) is not Refusal:
                if entry is not self.entries[0]:
                    self._promote(entry)
                return result
            if result is Refusal.OUT_OF_BOUNDS:
                return interpret(f, args, kwargs, seed, self.mode)  # NumPy's own error, at the user's line
        return self._miss(f, args, kwargs, seed)

    def _promote(self, entry: Entry) -> None:
        with self._lock:
            if entry in self.entries:
                self.entries.remove(entry)
                self.entries.insert(0, entry)

    def _miss(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any) -> Any:
        leaves, spec = flatten((args, dict(kwargs), seed))
        source, captures = record_watched(f, args, kwargs, self.mode.active)
        gradient = differentiate(source, seed, self.mode.argnums, has_aux=self.mode.has_aux)
        guard = repeatable(source, captures)
        arrays = guard(f) if guard is not None else None
        if guard is not None and arrays is not None:
            path = path_of(source.tape)
            with self._lock:
                known = next((e for e in self.entries if e.fits(leaves, spec) and e.serves(f, arrays, path)), None)
                if known is None:
                    self.entries.insert(0, Entry(spec, leaves, guard, arrays, path))
                    del self.entries[MAX_ENTRIES:]
                elif known.program is None and not known.problem:
                    known.guard = guard
                    known.compile(gradient)
        return collect(gradient)


def path_of(tape: Tape) -> tuple[Any, ...]:
    """The decisions of a trace: two calls with the same decisions have the same tape."""
    decisions = ((op.site, op.expected) for op in tape.ops if isinstance(op, Guard))
    return tuple((site, x.tobytes() if isinstance(x, np.ndarray) else repr(x)) for site, x in decisions)


def repeatable(source: Trace, captures: Captures) -> GuardFunction | None:
    """The guard function of a trace that another call can rely on; ``None`` if there is a reason to trace afresh."""
    for result in source.tape.results:
        if not isinstance(result, Variable | bool | int | float | complex | str | bytes | type(None) | np.generic):
            captures.problems.append(f"it returns a {type(result).__name__} that is not made of traced values")
    return None if captures.problems else captures.guards.function()


def interpret(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any, mode: Mode
) -> Any:
    """Value and gradients from a fresh trace, played with NumPy."""
    return collect(differentiate(record_call(f, args, kwargs, mode.active), seed, mode.argnums, has_aux=mode.has_aux))


# -- results


def result_types(tape: Tape) -> list[Type]:
    """The type in which each result is handed out.

    A gradient has the type of its argument; a value the type that the function returns, except that Python numbers
    in give Python numbers out.
    """
    inputs = [op for op in tape.ops if isinstance(op, Input) and op.active]
    numbers = all(isinstance(op.type, ArrayType) and op.type.kind == "python" for op in inputs)
    assert tape.out_spec is not None
    values = tape.out_spec.child(0).num_leaves
    out: list[Type] = []
    for i, result in enumerate(tape.results):
        t = tape[result].type if isinstance(result, Variable) else typeof(result)
        if i >= values and isinstance(result, Variable):
            t = tape.gradient_types[i - values]
        elif numbers and isinstance(t, ArrayType) and t.kind == "scalar" and t.dtype.name in ("float64", "complex128"):
            t = replace(t, kind="python")
        out.append(t)
    return out


def collect(gradient: Recorder) -> Any:
    """Value and gradients of an interpreted tape: fresh arrays and numbers in their containers."""
    tape = gradient.tape
    results = [
        settle(gradient[result] if isinstance(result, Variable) else result, t)
        for result, t in zip(tape.results, result_types(tape), strict=True)
    ]
    assert tape.out_spec is not None
    return unflatten(tape.out_spec, results)


def settle(value: Any, t: Type) -> Any:
    """A result as its type says, sharing no memory with anything."""
    if is_traced(value) or not isinstance(t, ArrayType):
        return value
    if t.kind == "array":
        return np.array(value, dtype=t.dtype, order="C")
    if t.kind == "scalar":
        return t.dtype.type(value)
    return np.asarray(value).item() if isinstance(value, np.ndarray | np.generic) else value
