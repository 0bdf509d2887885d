"""From a primal tape to its gradient tape, in three verbs: ``to_rrules``, ``backprop``, ``finish``.

*z* is the function's result, *y* an operation's value, *x* its arguments, *dy* and *dx* their cotangents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field, replace
from functools import partial
from importlib import import_module
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
import optree

from ..base.containers import LEAVES, NAMESPACE, NUMBERS, item
from ..base.dispatch import find_traced
from ..base.impure import Impure
from ..base.records import record
from ..base.types import ArrayType, StructType, TupleType, Type, typeof
from ..base.unwinding import quietly
from ..errors import MissingRuleError, RuleError
from ..registry.applied import apply_rule, has_no_rule, missing_rule
from ..registry.constants import as_constants
from ..registry.registry import primitive_of
from ..registry.tangents import MISSING, add, getfield, zeros_like
from ..registry.writes import ReadOnly, written_into
from ..tape.operations import Call, Input, Site, Variable, operands, paths, renamed, substitute, user_site, variable
from ..tape.recorder import Recorder, is_large
from ..tape.show import name_of
from ..tape.tape import Tape
from ..tape.trees import flatten, unflatten
from .seeds import differentiated, seed_variables

NOTHING: Mapping[Variable, Any] = MappingProxyType({})
STANDING = "yota_py.capture.standing"  # few have rules of their own

# --------------------------------------------------------------------------------- the three verbs


@record()
class RRule:
    """``(y, pullback)`` of one primitive call: the operation that stands on gradient tapes, under the name ``rrule``.

    The pullback computes the cotangents of the ``wanted`` arguments alone, if the function's rule can.
    """

    __name__ = "rrule"
    wanted: tuple[int, ...] | None = None
    site: Site | None = field(default=None, compare=False)

    def __call__(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], Any]]:
        return linearize(fn, args, kwargs, self.wanted, self.site)


def linearize(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], wanted: tuple[int, ...] | None,
    site: Site | None,
) -> tuple[Any, Callable[[Any], Any]]:  # fmt: skip
    """The value of a call and its pullback, as in ``RRule``. To traces around it, what flows back to a user's rule and
    is no tracer is a constant: what that makes of it can be followed. Without a rule, it is the pullback that raises
    ``MissingRuleError``."""
    entry = primitive_of(fn)
    if has_no_rule(fn, entry):
        return fn(*args, **kwargs), partial(_refuse, fn, site)
    if entry is None or not entry.users_rule:
        return apply_rule(fn, args, kwargs, None, wanted)
    y, pullback = _guarded(f"the rule of {entry.name}", entry.rule, apply_rule, fn, args, kwargs, None, wanted)
    return y, lambda dy: _guarded(f"the pullback of {entry.name}", entry.rule, pullback, as_constants(dy))


def _refuse(fn: Callable[..., Any], site: Site | None, dy: Any) -> Any:
    """The pullback of a function without a rule."""
    raise missing_rule(fn, site)


def _guarded(name: str, rule: Any, fn: Callable[..., Any], *args: Any) -> Any:
    """A call of a user's rule or its pullback, which may not write into what others hold as well."""
    locked = ReadOnly()
    try:
        with nullcontext() if find_traced(args) is None else import_module(STANDING).standing_in(rule, args):
            return locked.undone(fn(*locked.of(args)))
    except ValueError as error:
        if "read-only" in str(error):
            raise written_into(name, users=True) from None
        raise


@record(frozen=False)
class Linearized:
    """A gradient tape in the making: primal variables mapped to its own, and to their pullbacks."""

    primal: Tape
    out: Recorder
    env: dict[Variable, Variable] = field(default_factory=dict)
    pullbacks: dict[Variable, Variable] = field(default_factory=dict)
    active: set[Variable] = field(default_factory=set)

    def values(self, source: Recorder, results: Sequence[Any]) -> list[Any]:
        """The values of primal results."""

        def value(var: Variable) -> Any:
            return self.out[self.env[var]] if source[var] is None else source[var]

        return [substitute(z, value) for z in results]

    def copy(self) -> Linearized:
        """The same forward part, to be continued with other seeds."""
        out = Recorder(replace(self.out.tape, ops=list(self.out.tape.ops)))
        out.values = list(self.out.values)
        return replace(self, out=out)


# Where a cotangent goes: the position of the argument, the keys that lead on into it, and the operation that it is of.
Source = tuple[int, tuple[Any, ...], int]


def flows(tape: Tape) -> tuple[list[bool], dict[int, list[Source]]]:
    """Which operations have a derivative in an active input, and through which arguments it flows to a result: of
    those that have a rule to run, by their numbers."""
    forward = [False] * (len(tape.ops) + 1)
    sources: dict[int, list[Source]] = {}
    stops: dict[int, bool] = {}  # by the identity of a function, whether nothing flows back through it
    for i, op in enumerate(tape.ops, 1):
        if isinstance(op, Input):
            forward[i] = op.active
        elif isinstance(op, Call):
            found: list[Source] = []
            for k, arg in enumerate(op.args):
                if (cls := type(arg)) is Variable:
                    if forward[arg.id]:
                        found.append((k, (), arg.id))
                elif cls not in NUMBERS and (cls not in LEAVES or cls is slice):
                    found += [(k, path, x.id) for path, x in paths(arg) if forward[x.id]]
            if found or (op.kwargs and any(forward[x.id] for x in operands(op))):
                if (stop := stops.get(id(op.fn))) is None:
                    stop = stops[id(op.fn)] = _is_nondiff(op.fn)
                if not stop and (not isinstance(op.type, ArrayType) or op.type.inexact):
                    forward[i], sources[i] = True, found
    needed = {x.id for _, x in paths(tape.results) if forward[x.id]}
    for i in range(len(tape.ops), 0, -1):
        if i in sources:
            if i in needed:
                for _, _, j in sources[i]:
                    needed.add(j)
            else:
                del sources[i]
    return [flow and i in needed for i, flow in enumerate(forward)], sources


def positions(sources: Sequence[Source]) -> tuple[int, ...]:
    """The arguments through which a derivative flows, each once."""
    return tuple(dict.fromkeys([k for k, _, _ in sources]))


def differentiable(op: Call) -> bool:
    """Whether a derivative flows through a call."""
    return not _is_nondiff(op.fn) and (not isinstance(op.type, ArrayType) or op.type.inexact)


def _is_nondiff(fn: Any) -> bool:
    entry = primitive_of(fn)
    return isinstance(fn, Impure) if entry is None else entry.nondiff


@quietly  # tracing has warned already
def to_rrules(source: Recorder, out: Recorder | None = None) -> Linearized:
    """Replace each call that a derivative flows through by its rrule and two getfields; keep the rest.

    It is written to the recorder ``out``, which is empty and by default a new one.
    """
    tape = source.tape
    out = out or Recorder(Tape(tape.name, tape.site, in_spec=tape.in_spec))
    active, sources = flows(tape)
    lin = Linearized(tape, out, active={variable(i) for i, flow in enumerate(active) if flow})
    for var, op in tape:
        new = renamed(op, lin.env)
        if isinstance(op, Call) and isinstance(new, Call) and var.id in sources:
            triple = out.call(RRule(positions(sources[var.id]), op.site), (op.fn, *new.args), new.kwargs, site=op.site)
            lin.env[var] = out.take(Call(getfield, (triple, 0), {}, op.type), None)
            check_value(op, out.tape[lin.env[var]].type)
            lin.pullbacks[var] = out.call(getfield, (triple, 1))
        else:
            lin.env[var] = out.take(new, source[var])
    out.tape.leaves = [substitute(leaf, lin.env.__getitem__) for leaf in tape.leaves]
    results = {var for _, var in paths(tape.results)}
    for var in lin.pullbacks.keys() - results:  # pullbacks hold what they need
        if is_large(out[y := lin.env[var]]):
            out.values[y.id] = out.values[y.id - 1] = None
    return lin


@quietly
def backprop(lin: Linearized, seeds: Sequence[tuple[Variable, Variable]]) -> dict[Variable, Variable]:
    """Walk back from the seeded results, calling pullbacks and adding where a variable has several paths.

    ``seeds`` pairs primal result variables with cotangents on the gradient tape. Returns the cotangent of each
    active input that has one; the gradient tape knows those of all variables.
    """
    cotangents: dict[Variable, Variable] = {}
    for z, dz in seeds:
        _accumulate(lin, cotangents, z, dz)
    for i in range(len(lin.primal), 0, -1):
        y = variable(i)
        if y not in cotangents or y not in lin.pullbacks:
            continue
        op = lin.primal[y]
        assert isinstance(op, Call)
        dxs = lin.out.call(lin.pullbacks[y], (cotangents[y],), note=f"pullback of {lin.env[y]}")
        check_cotangents(op, lin.out[dxs])
        taken: dict[tuple[Any, ...], Variable] = {}  # what has been taken out of the cotangents, by its path
        for path, x in paths(op.args):
            if x not in lin.active:
                continue
            dx, value = dxs, lin.out[dxs]
            for depth, key in enumerate(path, 1):
                if (value := part(op, value, key, path[0])) is None:
                    break
                if path[:depth] not in taken:
                    note = f"d{lin.env[y]}/d{lin.env[x]}" if depth == len(path) else ""
                    taken[path[:depth]] = lin.out.call(getfield, (dx, key), note=note)
                dx = taken[path[:depth]]
            if value is None:
                continue
            check_type(op, typeof(value), lin.primal[x].type)
            _accumulate(lin, cotangents, x, dx)
        value = None
        for done in (lin.pullbacks[y], cotangents[y], dxs):  # nobody reads them again
            if isinstance(lin.out.tape[done], Call):
                lin.out.values[done.id] = None
    lin.out.tape.cotangents = {lin.env[x]: dx for x, dx in cotangents.items()}
    return {x: dx for x, dx in cotangents.items() if isinstance(lin.primal[x], Input)}


def finish(
    lin: Linearized, cotangents: Mapping[Variable, Variable], argnums: int | Sequence[int] | None = None,
    known: Mapping[Variable, tuple[Any, Any]] = NOTHING,
) -> Recorder:  # fmt: skip
    """Complete the tape: its results are ``(value, grads)``, with zeros for an input that has no influence. Of some
    inputs the gradients are ``known``, with their types."""
    out, tape = lin.out, lin.out.tape
    grads: list[Any] = []
    for leaf in lin.primal.leaves:
        if isinstance(leaf, Variable) and leaf in known:
            grads.append(known[leaf][0])
            continue
        op = lin.primal[leaf] if isinstance(leaf, Variable) else None
        if not (isinstance(op, Input) and op.active):
            grads.append(None)
        elif leaf in cotangents:
            grads.append(cotangents[leaf])
        else:
            grads.append(out.call(zeros_like, (lin.env[leaf],), note=f"{op.name} has no influence"))
    assert lin.primal.in_spec is not None and lin.primal.out_spec is not None
    types = [typeof(x) if not isinstance(x, Variable) else known[x][1] if x in known else lin.primal[x].type
             for x in lin.primal.leaves]  # fmt: skip
    tape.gradient_types = select(types, lin.primal.in_spec, argnums)[0]
    grads, grads_spec = select(grads, lin.primal.in_spec, argnums)
    tape.results = [substitute(z, lin.env.__getitem__) for z in lin.primal.results] + grads
    tape.out_spec = optree.treespec_tuple([lin.primal.out_spec, grads_spec], none_is_leaf=True, namespace=NAMESPACE)
    return out


def select(
    leaves: Sequence[Any], in_spec: optree.PyTreeSpec, argnums: int | Sequence[int] | None
) -> tuple[list[Any], optree.PyTreeSpec]:
    """Of one value per leaf of ``(args, kwargs)``: those of the wanted positional arguments, and their structure."""
    args_spec = in_spec.child(0)
    args = unflatten(args_spec, leaves[: args_spec.num_leaves])
    if argnums is None:
        return flatten(args)
    return flatten(args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums))


def _accumulate(lin: Linearized, cotangents: dict[Variable, Variable], x: Variable, dx: Variable) -> None:
    known = cotangents.get(x)
    if known is not None:
        both_arrays = all(isinstance(lin.out.tape[d].type, ArrayType) for d in (known, dx))
        dx = lin.out.call(np.add if both_arrays else add, (known, dx), note=f"d{lin.env[x]}: several paths")
    cotangents[x] = dx


def check_cotangents(op: Call, dxs: Any) -> None:
    """A pullback gives one cotangent per argument."""
    if not isinstance(dxs, tuple | list) or len(dxs) != len(op.args):
        count = f"{len(dxs)} cotangent{'s' * (len(dxs) != 1)}" if isinstance(dxs, tuple | list) else None
        raise RuleError(f"{op.site}: the pullback of {name_of(op.fn)} must return a tuple with one cotangent per "
                        f"positional argument ({len(op.args)} here), it returned {count or f'a {type(dxs).__name__}'}")


def part(op: Call, dx: Any, key: Any, position: int) -> Any:
    """The cotangent of one item of a container that is an argument, or in the argument at this position."""
    try:
        dx = item(dx, key)
    except LookupError:
        raise RuleError(f"{op.site}: the pullback of {name_of(op.fn)} gave {typeof(dx)} for an argument that "
                        f"has an item {key!r}: it must have the same structure, with None for zero") from None
    if dx is MISSING:
        raise MissingRuleError(f"{op.site}: the rule of {name_of(op.fn)} has no derivative in its argument {position}. "
                               "Make it a constant, or give the function a rule of your own")
    return dx


def check_value(op: Call, have: Type) -> None:
    """The rule's value has the structure of the function's: derivatives go back through its items."""
    if have is not op.type and not alike(have, op.type):
        given, want = (f"{t} ({_kind(t)})" if str(have) == str(op.type) else t for t in (have, op.type))
        raise RuleError(f"{op.site}: the rule of {name_of(op.fn)} returned {given}, the function itself {want}; both "
                        "must return the same")


def _kind(t: Type) -> str:
    names = {"python": "a number of Python's", "scalar": "a NumPy scalar", "array": "an array"}
    return names[t.kind] if isinstance(t, ArrayType) else ", ".join(map(_kind, getattr(t, "items", ())))


def alike(a: Type, b: Type) -> bool:
    """Whether types are the same, but for numbers of Python's in the place of NumPy's."""
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        return a == b or (a.dtype == b.dtype and {a.kind, b.kind} == {"python", "scalar"})
    if isinstance(a, TupleType | StructType) and type(a) is type(b):
        keys = not isinstance(a, StructType) or (a.name, a.keys) == (b.name, b.keys)  # type: ignore[union-attr]
        return keys and len(a.items) == len(b.items) and all(map(alike, a.items, b.items))  # type: ignore[union-attr]
    return a == b


def check_type(op: Call, have: Type, want: Type) -> None:
    """A cotangent has the shape and dtype of its argument."""
    if not isinstance(want, ArrayType):  # of a container: what is taken out of it is checked
        return
    if not isinstance(have, ArrayType):
        raise RuleError(f"{op.site}: the pullback of {name_of(op.fn)} gave a cotangent {have} for an argument {want}; "
                        "it must be a number or an array, or None for zero")
    if (have.shape, have.dtype) != (want.shape, want.dtype):
        raise RuleError(f"{op.site}: the pullback of {name_of(op.fn)} gave a cotangent {have} for an argument {want}; "
                        "tangents.unbroadcast(dx, x) brings it to shape and dtype")


@quietly  # the function itself has warned already, while it was traced
def differentiate(
    source: Recorder, seed: Any = None, argnums: int | Sequence[int] | None = None, *, has_aux: bool = False,
    out: Recorder | None = None, by_rows: Collection[int] = (),
) -> Recorder:  # fmt: skip
    """The whole path on a recorded call: the gradient tape with its values; its results are ``(value, grads)``.

    With ``has_aux`` the function returns ``(value, aux)`` and only ``value`` is differentiated; ``out`` as in
    ``to_rrules``. The gradients of some leaves of the arguments, given by their numbers, are ``Rows``.
    """
    tape, site = source.tape, user_site()
    wanted, spec = differentiated(tape, site, has_aux=has_aux)
    lin = to_rrules(source, out)
    rows = import_module(".rows", __package__) if by_rows else None  # few programs need it
    reads = {} if rows is None else rows.reads_of(tape, by_rows, flows(tape)[1])
    for read in chain.from_iterable(reads.values()):
        lin.pullbacks.pop(read, None)  # there the way back ends
    seeds = seed_variables(lin.out, seed, lin.values(source, wanted), spec, site, tape.name)
    cotangents = backprop(lin, seed_pairs(lin, wanted, seeds))
    known = {x: rows.gradient_by_rows(lin.out, tape, lin.env, x, reads[x]) for x in reads} if rows is not None else {}
    return finish(lin, cotangents, argnums, known)


def seed_pairs(
    lin: Linearized, results: Sequence[Any], seeds: Sequence[Variable | None]
) -> list[tuple[Variable, Variable]]:
    """Results that a derivative flows to, with their seeds."""
    pairs = zip(results, seeds, strict=True)
    return [(z, dz) for z, dz in pairs if dz is not None and isinstance(z, Variable) and z in lin.active]
