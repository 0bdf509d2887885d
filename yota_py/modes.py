"""What a cache is asked for: a call, and what is wanted of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import optree

from . import kinds
from .captures import Captures
from .check import compare
from .engine import Refusal, compile_tape
from .gradient import differentiate
from .interpreter import collect, result_types
from .operations import Input, Variable
from .passes import optimise
from .passes.classify import checkable
from .passes.lower import lower_gradient
from .recorder import is_large
from .recording import record_call, record_watched
from .tape import Tape
from .trace import Trace
from .trees import flatten
from .variants import Runner, Signature, key_of, refuse
from .views import overlapping


class Call(NamedTuple):
    """A function and its arguments; ``seed`` is the cotangent of its result."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    seed: Any = None

    def leaves(self) -> tuple[list[Any], optree.PyTreeSpec]:
        """The flattened arguments, and their structure."""
        return flatten((self.args, dict(self.kwargs), self.seed))

    def key(self) -> Hashable:
        """What calls that may share a program have in common."""
        return key_of(*self.leaves())


@dataclass(slots=True)
class TracedCall:
    """A call that was traced: its result, and what a program for other calls is made of (``None`` if that failed).

    ``problems`` are reasons why no other call can rely on the trace; ``compile()`` gives the program, what runs it, and
    a reason why that is not possible (or an empty string). ``result()`` is computed when it is asked for, which takes a
    multiple of the memory ``nbytes`` that large arguments take, if there are any.
    """

    result: Callable[[], Any]
    source: Trace | None
    captures: Captures | None
    problems: list[str]
    compile: Callable[[], tuple[Any, Runner, str]]
    nbytes: int = 0

    @property
    def operations(self) -> int | None:
        """The length of the tape."""
        return len(self.source.tape) if self.source is not None else None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments in words: names and types, or values."""
        assert self.source is not None and self.captures is not None
        pairs = zip(self.captures.arguments, self.source.tape.leaves, strict=True)
        return tuple(_described(name, self.source.tape[x] if isinstance(x, Variable) else x) for name, x in pairs)


def _described(name: str, leaf: Any) -> str:
    if isinstance(leaf, Input):
        return f"{name} {leaf.type}"
    return f"{name} = {leaf!r}" if isinstance(leaf, kinds.IMMUTABLE) else f"{name}: {type(leaf).__name__}"


class AnyMode(Protocol):
    """What is wanted of a function.

    ``plain`` tells whether a call can do without a trace, ``effects`` whether programs do what the function does (and
    want to know all of the call), ``otherwise`` what is done with a function that cannot be cached.
    """

    plain: ClassVar[bool]
    effects: ClassVar[bool]
    otherwise: ClassVar[str]

    @property
    def purpose(self) -> str:
        """What the user has called."""

    def interpret(self, call: Call) -> Any:
        """The result, without a program."""

    def record(self, call: Call, inputs: frozenset[str]) -> TracedCall:
        """The result, and what a program is made of."""

    def checked(self, signature: Signature, call: Call) -> Any:
        """The result of a program, compared with an interpreted one; or a ``Refusal``."""


@dataclass(frozen=True, slots=True)
class Mode:
    """Value and gradients in the positional arguments ``argnums`` (in all, if it is ``None``)."""

    argnums: int | tuple[int, ...] | None = None
    has_aux: bool = False
    plain: ClassVar[bool] = False
    effects: ClassVar[bool] = False
    otherwise: ClassVar[str] = "traced afresh"

    @property
    def purpose(self) -> str:
        """What the user has called."""
        if self.argnums is None:
            return "grad"
        return f"value_and_grad(argnums={self.argnums}{', has_aux=True' if self.has_aux else ''})"

    def active(self, argnum: int) -> bool:
        """Whether derivatives in this positional argument are wanted."""
        if self.argnums is None:
            return True
        return argnum == self.argnums if isinstance(self.argnums, int) else argnum in self.argnums

    def interpret(self, call: Call) -> Any:
        """Value and gradients from a fresh trace, played with NumPy."""
        source = record_call(call.f, call.args, call.kwargs, self.active)
        return collect(differentiate(source, call.seed, self.argnums, has_aux=self.has_aux))

    def record(self, call: Call, inputs: frozenset[str]) -> TracedCall:
        """Value and gradients, and how to compile them."""
        source, captures = record_watched(call.f, call.args, call.kwargs, self.active, inputs)
        wanted = source, call.seed, self.argnums
        result = cache(lambda: collect(differentiate(*wanted, has_aux=self.has_aux)))

        def compile() -> tuple[Any, Runner, str]:
            gradient, low = lower_gradient(*wanted, has_aux=self.has_aux)
            return _compile(gradient.tape, low.tape, source)

        nbytes = sum(value.nbytes for value in map(source.__getitem__, source.roots) if is_large(value))
        return TracedCall(result, source, captures, problems_of(source, captures), compile, nbytes)

    def checked(self, signature: Signature, call: Call) -> Any:
        """The result of a program, compared with that of a fresh trace."""
        result = signature.run(*call)
        if type(result) is not Refusal:
            compare(result, self.interpret(call), call.f)
        return result


def problems_of(source: Trace, captures: Captures) -> list[str]:
    """Why another call cannot rely on a trace."""
    problems = list(dict.fromkeys(captures.problems))
    for result in source.tape.results:
        if not isinstance(result, Variable | bool | int | float | complex | str | bytes | type(None) | np.generic):
            problems.append(f"it returns a {type(result).__name__} that is not made of traced values")
    return problems


def _compile(tape: Tape, low: Tape, source: Trace) -> tuple[Any, Runner, str]:
    """Optimise and compile the gradient tape of a recorded call, which is lowered already."""
    low = optimise(low)
    assert tape.out_spec is not None
    if not checkable(low):
        return None, refuse, "it takes a decision on traced values that a kernel cannot check"
    program = compile_tape(low, result_types(tape), tape.out_spec)
    return program, _distinct(program.run, source) if source.writes else program.run, ""


def _distinct(run: Runner, source: Trace) -> Runner:
    """What runs a program of a function that writes into arrays: it knows no two arrays that share memory."""
    inputs = [var for var in source.roots if isinstance(source.tape[var], Input)]
    captured = [var for var in source.roots if var not in inputs]
    # of the values: inputs stand first, captured values last
    positions = dict(zip([*inputs, *captured], [*range(len(inputs)), *range(-len(captured), 0)], strict=True))
    written = [positions[var] for var in source.written]
    strides = [(i, source[var].strides) for var, i in positions.items() if isinstance(source[var], np.ndarray)]

    def run_distinct(*values: Any) -> Any:
        result = run(*values)
        if type(result) is Refusal:
            return result
        changed = {i % len(values) for i in written}
        if overlapping([values[i] for i in changed], [x for i, x in enumerate(values) if i not in changed]):
            return Refusal.OUT_OF_BOUNDS  # interpreted, which says what is wrong
        if any(values[i].strides != known for i, known in strides):
            return Refusal.MISFIT
        return result

    return run_distinct
