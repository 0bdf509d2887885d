"""What a cache is asked for: a call, and what is wanted of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import optree

from ..base.containers import NUMBERS
from ..base.records import record
from ..base.settings import config
from ..base.unwinding import state, unwinding
from ..capture import kinds
from ..capture.computing import are_plain, computing, failures_of
from ..capture.guards import Guards
from ..capture.recording import record_watched, undo
from ..capture.walk import Captures
from ..engine.compile import compile_gradient
from ..engine.playing import is_long
from ..errors import ObjectsGivenError
from ..passes.repeats import saved_by_loops
from ..reverse.differentiable import counted, heed_habits, require_active
from ..reverse.direct import value_and_gradients
from ..reverse.eager import eagerly
from ..reverse.results import collect
from ..reverse.verbs import differentiate, flows
from ..tape.loop import as_loop
from ..tape.operations import Input, Variable
from ..tape.recorder import is_large
from ..tape.trees import flatten, unflatten
from ..tracing.traces import Trace
from .arguments import Structure
from .entry import Compiled, Writer, contained

if TYPE_CHECKING:
    from ..passes.merging import Merged

MAX_FAILURES = 3  # to compute at once, after which calls are traced


class Request:
    """A function and its arguments; ``seed`` is the cotangent of its result, ``objects`` as in ``flatten``.

    It is flattened once, before the function has changed its arguments.
    """

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: Any = None, *,
        objects: bool = False,
    ) -> None:  # fmt: skip
        self.f, self.args, self.kwargs, self.seed, self.objects = f, args, kwargs, seed, objects
        self._known: list[tuple[list[Any], optree.PyTreeSpec] | None] = []

    @property
    def _flat(self) -> tuple[list[Any], optree.PyTreeSpec] | None:
        if not self._known:  # without the lock of Python's cached_property, which a fork would leave locked
            try:
                self._known.append(flatten((self.args, dict(self.kwargs), self.seed), objects=self.objects))
            except RecursionError:
                self._known.append(None)
        return self._known[0]

    @property
    def endless(self) -> bool:
        """Whether containers hold themselves; there are no programs for them."""
        return self._flat is None

    @property
    def leaves(self) -> list[Any]:
        """The flattened arguments, as they are when this is first asked for."""
        return self._flat[0] if self._flat is not None else []

    @property
    def spec(self) -> optree.PyTreeSpec:
        """Their structure."""
        return self._flat[1] if self._flat is not None else flatten(())[1]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.f, self.args, self.kwargs, self.seed))


@record(frozen=False)
class TracedCall:
    """A call that was traced: its result, and what a program for other calls is made of (``None`` if that failed).

    ``problems`` are reasons why no other call can rely on the trace; without them, ``compile`` makes an entry for
    arguments of this structure, or raises ``UncompilableError``. ``inputs`` are the numbers that it was asked to take
    as inputs (``varying.py``). ``result()`` is computed when it is asked for, which takes a multiple of the memory
    ``nbytes`` that large arguments take, if there are any. ``passing`` tells whether the problems are those of this
    call alone; ``merging`` gives the recording with merged turns, which is compiled.
    """

    result: Callable[[], Any]
    problems: list[str]
    inputs: frozenset[str | int] = frozenset()
    source: Trace | None = None
    captures: Captures | None = None
    compile: Callable[[Structure], Compiled] | None = None
    nbytes: int = 0
    passing: bool = False
    merging: Callable[[], Merged] | None = None

    @property
    def stores(self) -> bool:
        """Whether the function has stored something, which its gradient does not know of."""
        return self.captures is not None and self.captures.stores

    @property
    def free(self) -> Mapping[int, Hashable]:
        """The decisions that programs do not take, as in ``Merged``."""
        return {} if self.merging is None else self.merging().free

    @property
    def length(self) -> int | None:
        """That of the tape."""
        return None if self.source is None else len(self.source.tape)

    @property
    def operations(self) -> int | None:
        """The length of the tape, where each traced item of a list counts as well: it becomes an operation. Of what is
        done again and again, one turn counts."""
        if self.source is None:
            return None
        saved = saved_by_loops(self.source.tape) if config.roll else 0
        if saved:
            return len(self.source.tape) - saved
        lists = [x for op in self.source.tape.ops for x in getattr(op, "args", ()) if isinstance(x, list | tuple)]
        return len(self.source.tape) + sum(isinstance(item, Variable) for x in lists for item in x)

    @property
    def is_long(self) -> bool:
        """Whether loops that are on the tape would be compiled to be interpreted."""
        return self.source is not None and any(
            (loop := as_loop(op)) is not None and is_long(loop) for op in self.source.tape.ops
        )

    @property
    def traced(self) -> set[int]:
        """The positions of arguments that are inputs."""
        assert self.source is not None
        return {i for i, leaf in enumerate(self.source.tape.leaves) if isinstance(leaf, Variable)}

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


class Mode(Protocol):
    """What is wanted of a function.

    ``effects`` tells whether programs do what the function does (and want to know all of the call), ``otherwise`` what
    is done with a function that cannot be cached.
    """

    effects: ClassVar[bool]
    otherwise: ClassVar[str]

    @property
    def purpose(self) -> str:
        """What the user has called."""

    def interpret(self, call: Request) -> Any:
        """The result, without a program."""

    def at_once(self, call: Request) -> tuple[Any, int | None] | None:
        """The result without a trace, and how many operations that took, if it is known; ``None`` if one is needed."""

    def record(self, call: Request, inputs: frozenset[str | int]) -> TracedCall:
        """The result, and what a program is made of."""

    def reference(self, call: Request) -> tuple[Any, Guards | None]:
        """What is right, with what was read for it, if that is known."""

    def compared(self, result: Any, call: Request) -> Any:
        """What of a result of this call is compared with that of a program."""


@record()
class Gradient:
    """Value and gradients in the positional arguments ``argnums`` (in all, if it is ``None``); with ``by_rows``, those
    of arrays that are read by rows are ``Rows``."""

    argnums: int | tuple[int, ...] | None = None
    has_aux: bool = False
    by_rows: bool = False
    effects: ClassVar[bool] = False
    otherwise: ClassVar[str] = "traced afresh"

    @property
    def purpose(self) -> str:
        """What the user has called."""
        if self.argnums is None:
            return "grad"
        options = f"{', has_aux=True' * self.has_aux}{', sparse_rows=True' * self.by_rows}"
        return f"value_and_grad(argnums={self.argnums}{options})"

    def _traced(self, call: Request, inputs: frozenset[str | int] = frozenset()) -> tuple[Trace, Captures]:
        """The function on tracers of its arguments, those of them active in which derivatives are wanted."""
        if self.argnums is None:
            heed_habits(call.f, call.args, call.kwargs, "grad")
        argnums, wanted = self._settled(call)
        source, captures = record_watched(call.f, call.args, call.kwargs, wanted.__contains__, inputs)
        require_active(source.tape, call.f, call.args, call.kwargs, argnums)
        return source, captures

    def wanted(self, count: int) -> tuple[int | tuple[int, ...] | None, Sequence[int]]:
        """The positions, among so many arguments, in which derivatives are wanted, as they were said and in a
        sequence."""
        argnums = counted(self.argnums, count)
        return argnums, range(count) if argnums is None else (argnums,) if isinstance(argnums, int) else argnums

    def are_given(self, f: Any, args: tuple[Any, ...], leaves: Sequence[Any]) -> bool:
        """Whether there are objects or functions that hold numbers or arrays, where derivatives are wanted."""
        if NUMBERS.issuperset(map(type, leaves)):
            return False
        parameters = import_module("..capture.parameters", __package__)  # few calls need them
        return parameters.are_given(f, args, self.wanted(len(args))[1])  # type: ignore[no-any-return]

    def _settled(self, call: Request) -> tuple[int | tuple[int, ...] | None, Sequence[int]]:
        """``wanted``; raises ``ObjectsGivenError`` where the call is to be made in another way."""
        if not NUMBERS.issuperset(map(type, call.args)) and self.are_given(call.f, call.args, call.leaves):
            raise ObjectsGivenError
        return self.wanted(len(call.args))

    def interpret(self, call: Request) -> Any:
        """Value and gradients, computed by NumPy while the function runs, or while it is traced afresh."""
        known = self.at_once(call)
        return self.reference(call)[0] if known is None else known[0]

    def at_once(self, call: Request) -> tuple[Any, int] | None:
        """The same of a function that does nothing but compute."""
        f, args, kwargs, seed = call
        if seed is not None or self.has_aux or self.by_rows or state.traces or not args:
            return None
        known = computing(f)
        if known is None or not are_plain((*args, *kwargs.values())):
            return None
        failures = failures_of(f.__code__)
        if len(failures) >= MAX_FAILURES:
            return None
        argnums, _ = self._settled(call)
        found: tuple[Any, int] | None = eagerly(
            known.called or f, args, kwargs, argnums, adds=known.adds, codes=known.running_codes
        )
        failures += [] if found is not None else ["it needed a trace"]
        return found

    @unwinding
    def reference(self, call: Request) -> tuple[Any, Guards | None]:
        """The same, and what was read."""
        source, captures = self._traced(call)
        return self._interpreted(source, call, self._rows(source)), captures.guards

    def _rows(self, source: Trace) -> frozenset[int]:
        """The leaves whose gradients are ``Rows``."""
        if not self.by_rows:
            return frozenset()
        rows = import_module("..reverse.rows", __package__)
        return rows.read_by_rows(source.tape, flows(source.tape)[1])  # type: ignore[no-any-return]

    def _interpreted(self, source: Trace, call: Request, by_rows: frozenset[int]) -> Any:
        if by_rows:
            return collect(differentiate(source, call.seed, self.argnums, has_aux=self.has_aux, by_rows=by_rows))
        return value_and_gradients(source, call.seed, self.argnums, has_aux=self.has_aux)

    def compared(self, result: Any, call: Request) -> Any:
        """All of it."""
        return result

    def record(self, call: Request, inputs: frozenset[str | int]) -> TracedCall:
        """Value and gradients, and how to compile them."""
        source, captures = self._traced(call, inputs)
        by_rows, merging = self._rows(source), cache(lambda: _merged(source))
        result = cache(lambda: self._interpreted(source, call, by_rows))

        def compile(structure: Structure) -> Compiled:
            gradient, program = compile_gradient(
                merging().recorder, call.seed, self.argnums, has_aux=self.has_aux, by_rows=by_rows
            )
            writer, spec = Writer(source, captures, structure, call.leaves), gradient.out_spec
            assert spec is not None
            return writer.compiled(program, contained(spec, spec.num_leaves), unflatten=unflatten, spec=spec)

        nbytes = sum(value.nbytes for value in map(source.__getitem__, source.roots) if is_large(value))
        problems = problems_of(source, captures)
        return TracedCall(result, problems, inputs, source, captures, compile, nbytes, merging=merging)


def _merged(source: Trace) -> Merged:
    """``merged``, which calls that are not compiled do without, and those where that is not wanted."""
    merging = import_module("..passes.merging", __package__)
    return merging.merged(source) if config.merge else merging.Merged(source, {})  # type: ignore[no-any-return]


def problems_of(source: Trace, captures: Captures) -> list[str]:
    """Why another call cannot rely on a trace."""
    problems = list(dict.fromkeys(captures.problems))
    for result in source.tape.results:
        if not isinstance(result, Variable | bool | int | float | complex | str | bytes | type(None) | np.generic):
            problems.append(f"it returns a {type(result).__name__}, of which nobody knows how it is made of arrays")
    return problems


@unwinding
def record_to_the_end(mode: Mode, call: Request, inputs: frozenset[str | int]) -> TracedCall:
    """``mode.record``, and raise at once what its result raises; then the function has done nothing."""
    recording = mode.record(call, inputs)
    try:
        recording.result()
    except Exception:  # any: the function is called again
        if recording.captures is not None:
            undo(recording.captures)
        raise
    return recording
