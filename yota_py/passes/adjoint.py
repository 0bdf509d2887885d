"""The adjoint of a loop is a loop, which runs the other way.

In a turn forward, a loop computes what it did, and puts by what its turn backward reads; that carries the cotangents
of what was carried, and adds up those of what is the same in all turns. Both bodies come of one: the body's gradient
tape, lowered, and cut where the cotangents come in. What is cheap is computed again rather than put by. Since bodies
are made of primitives, the two loops have adjoints as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np

from ..base.dispatch import find_traced, original, shadow
from ..base.records import record
from ..base.types import ArrayType, TupleType, typeof
from ..base.unwinding import quietly
from ..errors import YotaError
from ..registry.composites import rule_of_body
from ..registry.partials import Pullback, Wanted
from ..registry.registry import Primitive
from ..registry.tangents import getfield, joined, zeros_like
from ..reverse.verbs import backprop, differentiable, to_rrules
from ..tape.loop import END, Loop, UnrolledError, element
from ..tape.operations import Call, Constant, Guard, Input, Variable, operands, renamed, substitute, variable
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from .cut import dependent, recomputed
from .dce import dce, may_raise
from .lower import lower, replayed
from .pipeline import optimise


def primitive_loop(loop: Loop) -> Loop:
    """A loop that is a primitive, with a rule."""
    guards = sum(isinstance(op, Guard) for op in loop.body.ops)
    fails = guards > loop.until or any(map(may_raise, loop.body.ops))
    lowering = None if loop.lowered else partial(_lowered, loop)
    loop.entry = Primitive(loop, _Rule(loop), lowering=lowering, fails=fails, selective=True, known=True)
    return loop


@quietly
def _recorded(loop: Loop, args: Sequence[Any]) -> Recorder:
    """The body in the first turn, with values."""
    args = shadow(tuple(args))
    xs, invariants = loop.parted(args[loop.carried :])
    first = -1 if loop.backward else 0
    stacked = [element(x, first, t) for x, t in zip(xs, loop.types[loop.carried :], strict=False)]
    given = iter([*args[: loop.carried], *stacked, *invariants])
    out = Recorder(replace(loop.body, ops=[]))
    for op in loop.body.ops:
        if isinstance(op, Call):
            out.call(op.fn, op.args, op.kwargs, site=op.site, note=op.note)
        else:
            out.append(op, next(given) if isinstance(op, Input) else op.expected if isinstance(op, Guard) else op.value)
    return out


def _lowered(loop: Loop, *args: Any) -> Any:
    """The loop with a body that kernels run."""
    body = _settled(optimise(lower(_recorded(loop, args)).tape), loop)
    return primitive_loop(replace(loop, body=body, lowered=True))(*args)


def _settled(tape: Tape, loop: Loop) -> Tape:
    """A body none of whose results is an array of its own. Raises ``UnrolledError`` if rules have taken decisions: they
    may be others in other turns."""
    known = sum(isinstance(op, Guard) and op.number < 0 for op in loop.body.ops)
    if sum(isinstance(op, Guard) and op.number < 0 for op in tape.ops) > known:
        raise UnrolledError
    if loop.until and sum(isinstance(op, Guard) and op.number == END for op in tape.ops) != 1:
        raise UnrolledError  # it always decides so
    out = replace(tape, ops=[*tape.ops])
    out.results = [out.append(Constant(x, typeof(x))) if isinstance(x, np.ndarray) else x for x in tape.results]
    return out


# ------------------------------------------------------------------------------------------- the rule


@record(frozen=False)
class _Pair:
    """A loop that puts by what the other one, its adjoint, reads; which of its carried values and outputs have
    cotangents, of which arguments they are computed, and which of the others the adjoint reads."""

    forward: Loop
    backward: Loop
    seeds: Sequence[int]
    targets: Sequence[int]
    stacks: Sequence[int]
    invariants: Sequence[int]


@record(frozen=False)
class _Rule:
    """The rule of a loop; its derivatives are found once for each choice of arguments."""

    loop: Loop
    pairs: dict[Wanted, _Pair] = field(default_factory=dict)

    def __call__(self, wanted: Wanted, *args: Any) -> tuple[tuple[Any, ...], Pullback]:
        loop = self.loop
        if 0 < loop.every < loop.turns:
            return rule_of_body(partial(_in_parts, loop), args, {}, wanted)
        if wanted not in self.pairs:
            try:
                self.pairs[wanted] = _pair(loop, wanted, args)
            except (UnrolledError, ArithmeticError, LookupError, TypeError, ValueError, YotaError):
                traced = find_traced(args)
                if traced is not None and getattr(traced._ledger, "keeps_loops", False):
                    raise
                return rule_of_body(loop.turn_by_turn, args, {}, wanted)  # a rule decides otherwise in each turn
        pair = self.pairs[wanted]
        results = pair.forward(*args)
        count, end = len(loop.body.results), len(results) - loop.until
        y, kept = (*results[:count], *results[end:]), results[count:end]
        turns = results[end:] if loop.until else args[-1:] if loop.counted else ()
        types = loop.output_types

        def pullback(dy: Any) -> tuple[Any, ...]:
            given = [zeros_like(types[i]) if dy[i] is None else dy[i] for i in pair.seeds]
            carried = sum(i < loop.carried for i in pair.seeds)
            added = (i for i in pair.targets if i >= loop.carried + loop.stacked and loop.turns > 1)
            sums = [zeros_like(loop.types[i]) for i in added]
            others = [*(args[i] for i in pair.stacks), *(args[i] for i in pair.invariants)]
            dxs = pair.backward(*given[:carried], *sums, *given[carried:], *kept, *others, *turns)
            known = dict(zip(pair.targets, dxs, strict=True))
            if loop.turns == 1:
                behind = loop.carried + loop.stacked
                known |= {i: element(dx, 0, loop.types[i]) for i, dx in known.items() if i >= behind}
            return tuple(known.get(i) for i in range(len(args)))

        return y, pullback


def _in_parts(loop: Loop, *args: Any) -> tuple[Any, ...]:
    """A loop over loops of ``every`` turns, of which the adjoint keeps what is carried into each and has each run
    again, and a loop of the turns that are left over (Griewank and Walther 2008, "Evaluating Derivatives", ch. 12)."""
    count, rest = divmod(loop.turns, loop.every)
    split = rest if loop.backward else loop.turns - rest
    first, last = (slice(split, None), slice(split)) if loop.backward else (slice(split), slice(split, None))
    xs, invariants = loop.parted(args[loop.carried :])
    parts = [np.reshape(x[first], (count, loop.every, *x.shape[1:])) for x in xs]
    results = _of_parts(loop, count)(*args[: loop.carried], *parts, *invariants)
    carry, outputs = results[: loop.carried], results[loop.carried :]
    outputs = tuple(np.reshape(y, (count * loop.every, *y.shape[2:])) for y in outputs)
    if rest:
        left = primitive_loop(replace(loop, turns=rest, every=0))
        results = left(*carry, *(x[last] for x in xs), *invariants)
        carry, others = results[: loop.carried], results[loop.carried :]
        order = slice(None, None, -1 if loop.backward else 1)
        outputs = tuple(np.concatenate([*pair][order]) for pair in zip(outputs, others, strict=True))
    return (*carry, *outputs)


def _of_parts(loop: Loop, count: int) -> Loop:
    """A loop whose turns are loops."""
    inner = primitive_loop(replace(loop, turns=loop.every, every=0))
    body, types, stacked = Tape(f"{loop.body.name} again"), loop.types, range(loop.carried, loop.carried + loop.stacked)
    args = []
    for i, x in enumerate(loop.body.inputs):
        t = ArrayType(types[i].dtype, (loop.every, *types[i].shape)) if i in stacked else types[i]
        args.append(body.append(replace(loop.body[x], type=t)))
    made = body.append(Call(inner, tuple(args), {}, TupleType(tuple(inner.output_types))))
    body.results = [
        body.append(Call(getfield, (made, i), {}, t)) for i, t in enumerate(inner.output_types)
    ]
    return primitive_loop(replace(loop, body=body, turns=count, every=0, recomputes=True))


def _pair(loop: Loop, wanted: Wanted, args: Sequence[Any]) -> _Pair:
    body, active, outputs = _active(loop, [i for i in range(len(loop.types)) if wanted is None or i in wanted])
    recorded = _recorded(replace(loop, body=body), args)

    def play(out: Any) -> None:
        lin = to_rrules(recorded, out)
        seeds = []
        for i in outputs:
            t = body.type_of(result := body.results[i])
            one = original(np.ones)(t.shape, t.dtype) if t.kind == "array" else t.dtype.type(1)
            seed = out.input(one, f"d{i}")
            seeds += [(result, seed)] if isinstance(result, Variable) else []
        cotangents = backprop(lin, seeds)
        primal = [substitute(result, lin.env.__getitem__) for result in body.results]
        out.tape.leaves = []
        out.tape.results = [*primal, *(cotangents.get(body.inputs[i]) for i in active)]

    low = _settled(optimise(replayed(body, play)[1].tape), loop)
    return _Cut(loop, low, outputs, active).pair()


def _active(loop: Loop, wanted: Sequence[int]) -> tuple[Tape, list[int], list[int]]:
    """The body with its active inputs marked; their numbers; and those of the results that have cotangents. What is
    carried is active if it becomes so in some turn."""
    inputs, active = loop.body.inputs, {i for i in wanted if loop.types[i].inexact}
    while True:
        flow = {inputs[i] for i in active}
        for var, op in loop.body:
            if isinstance(op, Call) and differentiable(op) and not flow.isdisjoint(operands(op)):
                flow.add(var)
        reached = {i for i, r in enumerate(loop.body.results) if isinstance(r, Variable) and r in flow}
        if active.issuperset(i for i in reached if i < loop.carried):
            break
        active.update(i for i in reached if i < loop.carried)
    ops = [*loop.body.ops]
    for i, x in enumerate(inputs):
        op = ops[x.id - 1]
        assert isinstance(op, Input)
        ops[x.id - 1] = replace(op, active=i in active)
    carried = {i for i in active if i < loop.carried}
    return replace(loop.body, ops=ops), sorted(active), sorted(carried | reached)


class _Cut:
    """A body's gradient tape, lowered, in two: what depends on cotangents, and what does not."""

    def __init__(self, loop: Loop, low: Tape, outputs: Sequence[int], active: Sequence[int]) -> None:
        self._loop, self._low, self._outputs, self._active = loop, low, outputs, active
        inputs = low.inputs
        self._arguments, self._seeds = inputs[: len(loop.types)], inputs[len(loop.types) :]
        count = len(loop.body.results)
        self._results, self._cotangents = low.results[:count], low.results[count:]
        self._behind = dependent(low, self._seeds)  # the cut
        read = {x for var in self._behind for x in operands(low[var])} | {x for x in self._cotangents if x is not None}
        self._kept, self._again = self._chosen({x for x in read if isinstance(x, Variable)} - self._behind)

    def _chosen(self, read: set[Variable]) -> tuple[list[Variable], set[Variable]]:
        """What is put by, and what is computed again, of what is read behind the cut."""
        if self._loop.recomputes:
            return self._all_again(read)
        again = recomputed(self._low, read)
        kept = [x for x in sorted(read - again, key=lambda x: x.id) if not isinstance(self._low[x], Input | Constant)]
        carried = [x for x in self._arguments[: self._loop.carried] if x in read]
        return [*carried, *kept], again | {x for x in read if isinstance(self._low[x], Constant)}

    def _all_again(self, read: set[Variable]) -> tuple[list[Variable], set[Variable]]:
        """The same where all is computed again that can be."""
        for i in range(len(self._low), 0, -1):
            if (var := variable(i)) in read:
                read.update(operands(self._low[var]))
        carried = [x for x in self._arguments[: self._loop.carried] if x in read]
        return carried, {x for x in read if not isinstance(self._low[x], Input)}

    def pair(self) -> _Pair:
        """Both loops."""
        loop, behind = self._loop, self._loop.carried + self._loop.stacked
        read = {x for var in self._behind | self._again for x in operands(self._low[var])}
        read.update(x for x in self._cotangents if isinstance(x, Variable))
        stacks = [i for i in range(loop.carried, behind) if self._arguments[i] in read]
        invariants = [i for i in range(behind, len(loop.types)) if self._arguments[i] in read]
        given = {i: dx for i, dx in zip(self._active, self._cotangents, strict=True) if dx is not None}
        carried = [i for i in self._active if i < loop.carried]
        once = loop.turns == 1  # there is nothing to be added up
        sums = [i for i in given if i >= behind and not once]
        rows = [i for i in given if loop.carried <= i < behind or (i >= behind and once)]
        forward = primitive_loop(replace(loop, body=self._forward(), lowered=True))
        body = self._backward(stacks, invariants, carried, sums, rows, given)
        count = len(self._outputs) - len(carried) + len(self._kept) + len(stacks)
        carries, counted = len(carried) + len(sums), loop.until or loop.counted
        backward = Loop(body, carries, count, loop.turns, not loop.backward, lowered=True, counted=counted)
        return _Pair(forward, primitive_loop(backward), self._outputs, [*carried, *sums, *rows], stacks, invariants)

    def _forward(self) -> Tape:
        """What does not depend on cotangents."""
        out, env = Tape(self._loop.body.name), dict[Variable, Variable]()
        for var, op in self._low:
            if var not in self._behind:
                env[var] = out.append(renamed(op, env))
        out.results = [substitute(x, env.__getitem__) for x in (*self._results, *self._kept)]
        return dce(out)

    def _backward(
        self, stacks: Sequence[int], invariants: Sequence[int], carried: Sequence[int], sums: Sequence[int],
        rows: Sequence[int], given: Mapping[int, Any],
    ) -> Tape:  # fmt: skip
        """What depends on cotangents, and what is computed again for it."""
        out, env, low = Tape(f"{self._loop.body.name} back"), dict[Variable, Variable](), self._low
        seeds = dict(zip(self._outputs, self._seeds, strict=True))

        def take(t: Any, name: str) -> Variable:
            return out.append(Input(name, t, t.inexact))

        def take_all(some: Iterable[Variable], name: str) -> None:
            env.update((x, take(low[x].type, name)) for x in [*some])

        take_all((seeds[i] for i in carried), "cotangent")
        totals = {i: take(_strong(low[self._arguments[i]].type), "sum") for i in sums}
        take_all((x for i, x in seeds.items() if i not in carried), "cotangent")
        take_all(self._kept, "put by")
        take_all((self._arguments[i] for i in stacks), "one of each")
        take_all((self._arguments[i] for i in invariants), "the same")
        for var, op in low:
            if (var in self._again or var in self._behind) and var not in env:
                env[var] = out.append(renamed(op, env))
        for i in carried:
            dx = given.get(i)
            out.results.append(self._nothing(out, i) if dx is None else substitute(dx, env.__getitem__))
        for i in sums:
            out.results.append(_sum(out, totals[i], substitute(given[i], env.__getitem__)))
        out.results += [substitute(given[i], env.__getitem__) for i in rows]
        return dce(out)

    def _nothing(self, out: Tape, i: int) -> Any:
        """The cotangent of what is carried and has no influence."""
        t = _strong(self._low[self._arguments[i]].type)
        zero = t.dtype.type(0)
        return out.append(Call(np.broadcast_to, (zero, t.shape), {}, t)) if t.shape else zero


def _sum(out: Tape, total: Variable, dx: Any) -> Variable:
    """A cotangent added to those before, by parts if they are complex, as kernels add them."""
    t = out.type_of(total)
    if t.dtype.kind != "c":
        return out.append(Call(np.add, (total, dx), {}, t))
    real = replace(t, dtype=np.zeros(0, t.dtype).real.dtype)

    def added(part: Any) -> Variable:
        return out.append(Call(np.add, tuple(out.append(Call(part, (x,), {}, real)) for x in (total, dx)), {}, real))

    return out.append(Call(joined, (added(np.real), added(np.imag)), {}, t))


def _strong(t: Any) -> Any:
    """The type of a cotangent."""
    return replace(t, kind="scalar") if t.kind == "python" else t
