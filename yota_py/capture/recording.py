"""Recording a call: the arguments become tracers, the function runs, its results are found on the tape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

import numpy as np
import optree

from ..base import locks
from ..base.containers import attribute_of, base_of, items_of
from ..base.dispatch import is_traced, mode_of, shadow
from ..base.floating import RAISES_ERRORS, raises_errors
from ..base.generators import Draws
from ..base.types import is_inexact
from ..base.unwinding import Holding, state, unwinding
from ..errors import LostDerivativeError, MutationError, YotaError
from ..registry.patches import patched
from ..registry.registry import load_pending
from ..tape.operations import Call, Constant, Input, Variable, site_of, user_site
from ..tape.show import name_of
from ..tape.tape import Tape
from ..tape.trees import check_leaf, flatten, is_traceable, unflatten
from ..tracing.clocks import problems_of_decisions
from ..tracing.foreign import Foreign, holds_floats, unlike_an_array
from ..tracing.libraries import adopt
from ..tracing.shells import is_recordable, real
from ..tracing.stand_ins import Installed, noticing, tracing
from ..tracing.tracer import Tracer
from ..tracing.traces import Trace
from ..tracing.views import overlap
from .attributes import places_of
from .captured import owner_of
from .hooks import watched
from .kinds import is_whole
from .leftovers import Leftovers, take_out
from .places import objects_in
from .refusals import translated
from .sinks import Attempts
from .slots import Slot
from .walk import Captures

# What may know what else to call in the place of a function, with these arguments, inside of other traces.
ahead: list[Callable[[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]], Callable[..., Any]]] = []

LOCK_SECONDS = 2.0  # a function that waits for another thread's trace is not waited for


def record_call(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    active: Callable[[int], bool] = lambda argnum: True,
    *,
    derived: bool = True,
    labels: bool = False,
) -> Trace:
    """Run ``f`` on tracers; returns the recording. ``active(argnum)`` tells whose derivatives are wanted; unless it is
    to be ``derived``, functions need no rules; with ``labels``, what it prints shows variables."""
    return record_watched(f, args, kwargs, active, derived=derived, labels=labels)[0]


def record_watched(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    active: Callable[[int], bool],
    inputs: frozenset[str | int] = frozenset(),
    *,
    derived: bool = True,
    labels: bool = False,
) -> tuple[Trace, Captures]:
    """``record_call``, and what ``f`` has read besides its arguments; ``inputs`` as in ``Captures``."""
    recording = Recording(f, args, kwargs, active, inputs)
    recording.trace.derived, recording.trace.labels = derived, labels
    stand_ins = len(patched)
    appended = state.traces[0].appended if state.traces else []
    before = len(appended)
    with Draws() as draws:
        try:
            recording.run()
        except Exception as error:  # any: what the function has done is done once
            knows_more = isinstance(error, LostDerivativeError) and _has_learnt(stand_ins)
            if knows_more or inputs:  # it is called again
                undo(recording.captures)
            if not knows_more:
                raise
            del recording  # f has imported a library: now its functions notice tracers
            draws.take_back()
            del appended[before:]
            return record_watched(f, args, kwargs, active, inputs, derived=derived, labels=labels)
    if tracing():  # what is uncertain in here is so for the function around it
        state.traces[-1].problems += recording.trace.problems
        state.traces[-1].writeable |= recording.written_outside(state.traces[-1])
    if (shared := recording.shared_memory()) is not None:
        raise MutationError(f"{user_site()}: {name_of(f)} writes into {shared[0]}, which shares memory with "
                            f"{shared[1]}. Pass a copy of one of them: x.copy()")
    return recording.trace, recording.captures


def undo(captures: Captures) -> None:
    """Take back what a function has done to what it reads; a trace that ends so has not happened."""
    captures.exchange.undo()
    captures.items.undo()


def _has_learnt(stand_ins: int) -> bool:
    """Whether there are rules or stand-ins of which there were fewer before."""
    adopt()
    return load_pending() or len(patched) > stand_ins


class Recording:
    """One call to be traced: its inputs are on the tape, and ``run`` runs ``f`` on their tracers.

    With ``effects`` the function may write into captured arrays, and what it has stored when it ends, also by an
    exception, is left standing (``captures.exchange`` knows it), but for what it appends to lists (``captures.sinks``);
    ``attempts`` tells what is known from earlier ones. ``arrays`` are the caller's own objects behind the
    roots of the trace; ``given`` is what ``f`` gets.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        active: Callable[[int], bool],
        inputs: frozenset[str | int] = frozenset(),
        *,
        effects: bool = False,
        attempts: Attempts | None = None,
    ) -> None:
        load_pending()
        adopt()
        self.f, self._given = f, () if effects else (*args, *kwargs.values())
        self.leaves, in_spec = flatten((args, dict(kwargs)), objects=effects)
        code = code_of(f)
        site = site_of(code) if code is not None else user_site()
        self.trace = trace = Trace(Tape(name_of(f), site, in_spec=in_spec))
        trace.effects = effects
        tracers = []
        names = _leaf_names(f, in_spec)
        for i, ((argnum, name), leaf) in enumerate(zip(names, self.leaves, strict=True)):
            wanted = argnum is not None and active(argnum)
            if (is_traceable(leaf) and type(leaf) is not Foreign) or (i in inputs and is_whole(leaf)):
                wanted = wanted and is_inexact(leaf)
                var = trace.input(check_leaf(leaf, name), name, active=wanted)
                trace.tape.leaves.append(var)
                tracers.append(trace.tracer(var))
            else:
                if wanted and holds_floats(leaf):
                    raise unlike_an_array(leaf, name)
                trace.tape.leaves.append(check_leaf(leaf, name))
                tracers.append(leaf)
        self.positions = {leaf: i for i, leaf in enumerate(trace.tape.leaves) if isinstance(leaf, Variable)}
        places = places_of(in_spec) if any(type(i) is int for i in inputs) or any(map(is_recordable, tracers)) else ()
        self.captures = Captures(trace, f, [name for _, name in names], inputs, attempts, places)
        self._items = [self.captures.generators.given(x) for x in tracers]
        self.given: tuple[tuple[Any, ...], dict[str, Any]] = unflatten(in_spec, self._items)

    @unwinding
    def run(self) -> Any:
        """Run the function; its results are the tape's."""
        trace = self.trace
        with Holding(locks.tracing, LOCK_SECONDS) as alone:
            if not alone:
                if trace.effects:
                    raise YotaError("another thread has been tracing for a long time")
                trace.problems.append("another thread was tracing for a long time")
            if raises_errors():
                trace.problems.append(RAISES_ERRORS)
            is_watched = alone and not tracing()
            with Installed(trace) as is_undisturbed:
                out = watched(self.captures, self._call) if is_watched else self._call()
                if not is_undisturbed():
                    trace.problems.append("an exception has interrupted it")
        trace.refused = trace.refused or trace.lost  # whoever has caught it: plain numbers would not have raised it
        if trace.refused is not None and not trace.effects:
            raise trace.refused
        keys = [*_keys_in(out)]
        self._settle_keys([*keys, *_keys_in(self.given)])  # who takes dicts apart asks keys for their hash
        self.captures.comparisons.settle()
        self.captures.finish()
        if trace.draws or trace.clocks:
            trace.problems += problems_of_decisions(trace)
        if not trace.effects:
            self._heed_identities()
        if (key := next(filter(is_traced, keys), None)) is not None:
            raise YotaError(f"{user_site()}: {name_of(self.f)} returns a dict in which {key._describe()} is a key; use "
                            "plain numbers as keys")
        results, trace.tape.out_spec = flatten(out)
        made = Leftovers(trace, self.captures.guards.knows)  # objects that it returns
        is_plain = trace.effects or state.traces  # or is made so by others
        trace.tape.results = [
            leaf._current()[0] if isinstance(leaf, Tracer) and leaf._ledger is trace
            else real(leaf) if is_plain or is_traced(leaf) else made.plain(leaf)
            for leaf in (leaf._array if type(leaf) is Foreign else leaf for leaf in results)
        ]  # fmt: skip
        made.clear()
        return out

    def _call(self) -> Any:
        """The result of the function."""
        trace, (args, kwargs) = self.trace, self.given
        try:
            f = self.captures.f
            for replacing in ahead if len(state.traces) > 1 and not trace.effects else ():
                f = replacing(f, args, kwargs)
            return noticing(f)(*args, **kwargs)
        except Exception as error:
            if (cause := trace.refused or trace.lost) is not None and not isinstance(error, YotaError):
                raise cause from error  # C code that has called a function may not heed its errors
            own = trace.effects or isinstance(error, YotaError)
            if not own and (said := translated(error, error.__traceback__, self.f)) is not None:
                raise said from error
            if not trace.effects and state.traces[0] is trace:
                leftovers = Leftovers(trace)
                leftovers.plain(error)
                leftovers.clear()
            raise
        finally:
            trace.settle()
            trace.alive = False
            hashed, trace.hashed = trace.hashed, None
            if not trace.effects:
                self._settle_keys([*self.captures.exchange.keys(), *self.captures.items.members()])
            self._settle_keys(x for x in hashed or () if not is_traced(x))  # wherever else they are keys
            others = hashed, args, kwargs, self._items, trace.roots
            if hashed and not take_out([x for x in hashed if is_traced(x)], others):
                trace.refused = YotaError(f"{user_site()}: {name_of(self.f)} keeps a traced value in a frozenset, from "
                                          "which it cannot be taken. Put plain numbers there")
            trace.hashed = None if trace.effects else []  # what is undone may ask for it

    def _settle_keys(self, keys: Iterable[Any]) -> None:
        """Take traced values out of objects that are keys. They need not have been asked for their hash, and are others
        at each call."""
        leftovers = Leftovers(self.trace, self.captures.guards.knows)
        leftovers.clear(objects_in(keys))
        if leftovers.found:
            self.trace.problems.append("keys of dicts, or members of sets, hold traced values")

    def real(self, var: Variable) -> Any:
        """The caller's own object behind a root of the trace."""
        op = self.trace.tape[var]
        if isinstance(op, Constant):
            assert op.captured is not None
            return self.captures.captured.values[op.captured]
        return self.leaves[self.positions[var]]

    def written_outside(self, outer: Trace) -> set[Variable]:
        """The arrays that a trace around this one is given, into which the function has written, as if into copies."""
        written = [self.real(var) for var in {*self.trace.written} | self.trace.writeable]
        roots = {id(x._root) for x in written if is_traced(x)}
        return {var for var, root in outer.roots.items() if id(root) in roots}

    def numbers(self) -> list[Variable]:
        """The numbers that the function is given or reads."""
        return [var for var in self.trace.roots if not isinstance(self.trace[var], np.ndarray)]

    def fixed_numbers(self) -> dict[Slot, Any]:
        """Numbers that are the same at each call of the trace, by how a step reads them."""
        leaves = {Slot(f"x{i}"): x for i, x in enumerate(self.trace.tape.leaves) if type(x) in (int, float, complex)}
        return leaves | self.captures.guards.numbers

    def _heed_identities(self) -> None:
        """Refuse a function that may compare by identity what something else stands for, if some of it is the same; the
        outermost trace hears of the functions that are called."""
        heard = [x.comparisons for x in (self.trace, *state.traces[:1]) if x.comparisons is not None]
        read = self.captures.captured.arrays() | self.captures.items.found()
        is_inner = any(map(is_traced, self.leaves))
        same = "may ask whether one {} is the same object as another".format
        if any(x.numbers for x in heard) and self.numbers():
            self.trace.problems.append(f"it {same('number')}")
            if self.same_number() or (is_inner and any(x.levels for x in heard)):
                raise LostDerivativeError(f"{self._who()} {same('number')} (x is y), and two are. Compare their "
                                          "values: x == y")
        if self._changes_given():
            self.captures.comparisons.containers = True
            if not self.captures.comparisons.are_different(self._given, read.values()):
                raise MutationError(f"{self._who()} changes a list, dict or the like that it is given twice. Pass a "
                                    "copy of one of them")
        compares = [x for x in heard if x.arrays or x.containers]
        if not all(x.are_different(self._given, read.values()) and not (is_inner and x.levels) for x in compares):
            raise LostDerivativeError(f"{self._who()} {same('array, list, tuple or dict')} (x is y), and two are. "
                                      "Pass a copy of one of them")
        self.captures.comparisons.require([*read])

    def _who(self) -> str:
        return f"{user_site()}: {name_of(self.f)}"

    def _changes_given(self) -> bool:
        """Whether the function has put other items into its arguments, which are copies of the caller's containers."""
        try:
            leaves, spec = flatten(self.given)
        except (YotaError, RecursionError):  # it has put in something that no argument may hold
            return True
        return spec != self.trace.tape.in_spec or any(a is not b for a, b in zip(leaves, self._items, strict=True))

    def same_number(self) -> bool:
        """Whether a number that may vary is the same object as another one, as ``+x`` is the same as ``x``."""
        numbers = [self.real(var) for var in self.numbers()]
        numbers += self._computed(int, float, complex, np.generic)
        fixed = [*self.fixed_numbers().values()]
        for trace in state.traces:
            fixed += [trace[var] for var in trace.roots if not isinstance(trace[var], np.ndarray)]
            fixed += trace.comparisons.known() if trace.comparisons is not None else ()
        ids = {*map(id, numbers)}
        return len(ids) < len(numbers) or not ids.isdisjoint(map(id, fixed))

    def counts(self) -> bool:
        """Whether whole numbers are computed: of small ones Python has each only once."""
        return bool(self._computed(int))

    def _computed(self, *kinds: type) -> list[Any]:
        """The numbers of these types that operations have given."""
        tape, values = self.trace.tape, self.trace.values
        return [values[var.id] for var, op in tape if isinstance(op, Call) and issubclass(type(values[var.id]), kinds)
                and not isinstance(values[var.id], bool | np.bool_)]

    def same_twice(self) -> bool:
        """Whether two roots are one array."""
        arrays = [self.real(var) for var in self.trace.roots if isinstance(self.trace[var], np.ndarray)]
        return len({id(array) for array in arrays}) < len(arrays)

    def shared_memory(self) -> tuple[str, str] | None:
        """The names of a root that the function has written into and of another one that shares memory with it."""
        return next(((self._called(var), self._called(other)) for var, other in self._sharing()), None)

    def tied(self) -> list[Any]:
        """The arrays at which two captured ones look, one of which the function has written into."""
        pairs = (pair for pair in self._sharing() if all(self._is_captured(var) for var in pair))
        return [owner_of(self.real(var)) for var, _ in pairs]

    def _sharing(self) -> Iterator[tuple[Variable, Variable]]:
        trace = self.trace
        for var in trace.written:
            for other in trace.roots:
                if other != var and overlap(shadow(self.real(var)), shadow(self.real(other))):
                    yield var, other
            for other, array in trace.strangers:
                if overlap(shadow(self.real(var)), array):
                    yield var, other

    def _is_captured(self, var: Variable) -> bool:
        op = self.trace.tape[var]
        return isinstance(op, Constant) and op.captured is not None

    def _called(self, var: Variable) -> str:
        op = self.trace.tape[var]
        return f"its argument {op.name}" if isinstance(op, Input) else "an array that it reads from elsewhere"


def _keys_in(out: Any, inside: tuple[int, ...] = ()) -> Iterator[Any]:
    """The keys of dicts in a result."""
    if issubclass(type(out), dict):
        yield from [*base_of(type(out)).__iter__(out)]  # type: ignore[attr-defined]
    if id(out) not in inside:
        for item in items_of(out) or ():
            yield from _keys_in(item, (*inside, id(out)))


def code_of(f: Callable[..., Any]) -> CodeType | None:
    """The code of a Python function or method; ``None`` for other callables."""
    return attribute_of(f, "__code__") or attribute_of(attribute_of(f, "__func__"), "__code__")  # type: ignore[no-any-return]


def _leaf_names(f: Callable[..., Any], in_spec: optree.PyTreeSpec) -> list[tuple[int | None, str]]:
    """Per leaf: the position of the argument it belongs to (None for keyword arguments) and its name in the code."""
    while mode_of(f) is not None:  # what is made of a function takes its arguments
        f = f.__wrapped__  # type: ignore[attr-defined]
    code = code_of(f)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    if attribute_of(f, "__self__") is not None:
        names = names[1:]
    out: list[tuple[int | None, str]] = []
    for path in optree.treespec_paths(in_spec):
        if path[0] == 1:
            argnum, name, rest = None, str(path[1]), path[2:]
        else:
            argnum, rest = path[1], path[2:]
            name = names[argnum] if argnum < len(names) else f"args[{argnum}]"
        out.append((argnum, name + "".join(f"[{key!r}]" for key in rest)))
    return out
