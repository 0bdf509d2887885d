"""Audits: calls that a compiled program serves and that are interpreted as well, so that it is noticed if it is wrong.

A program asks for its first call to be audited, and the second, fourth, eighth, … of it. It is *rehearsed*: it computes
its results, and nothing of what it would do happens. Then the interpreter takes the call, or for ``jit`` the function
itself, once, and what it does stands. What the program would have done and returned is compared with that.
"""

from __future__ import annotations

import copy
import reprlib
import threading
import time
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..base import locks
from ..base.containers import dict_of
from ..base.generators import Draws
from ..base.impure import Clock, Text
from ..base.records import record
from ..base.refusal import Due, Refusal
from ..base.settings import Uncompiled, config
from ..base.unwinding import Holding, Passing, Quiet
from ..capture.guards import Changed, Guards
from ..capture.places import Attribute, Item
from ..tape.operations import Call, Constant, Guard, Variable, operands
from ..tape.tape import Tape
from ..tape.trees import flatten, unflatten
from .check import AMPLIFIED, Comparison, Difference, apart, explained, largest, nudged, origin, precision_of
from .entry import Rehearsal
from .modes import Mode, Request
from .policy import MUCH_MEMORY
from .variants import Audits, Signature, Variant
from .world import MISSING, World

SHARE = 0.02  # of the time that a program has served
CERTAIN = 2  # audits that are made whatever they cost, unless the program takes much memory
PROBES = 4
_PAUSE = 0.005, 0.2  # seconds, at least and at most, in which other threads show whether they write what is compared
_UNJUDGED = (MemoryError, RecursionError, Warning)


@record()
class Finding:
    """What an audit has found: the result of the call or the exception that it raises, and, if there is one, the fault
    of the program in words."""

    result: Any
    error: BaseException | None
    fault: str

    def answer(self) -> Any:
        """The result; raises the exception."""
        if self.error is not None:
            raise self.error
        return self.result


def audited(mode: Mode, signature: Signature, call: Request, result: Any) -> Any:
    """What a signature answers to a call for which one of its programs is due: a ``Finding`` if that was audited."""
    misfits = []
    try:
        while isinstance(result, Due):
            finding = audit(mode, signature, signature.variant_of(result.program), call)
            if isinstance(finding, Finding):
                return finding
            if finding is not None:
                misfits.append(result.program)
            result = signature.run(*call)
        return result
    finally:
        for program in misfits:  # another path was taken: it is still due
            program.limit = program.calls


def audit(mode: Mode, signature: Signature, variant: Variant, call: Request) -> Finding | Refusal | None:
    """Audit a call that a program is to serve; ``None`` if that is not to be now, a ``Refusal`` if it does not fit."""
    program, audits = variant.program, variant.audits
    calls = program.calls
    program.limit = 2 * calls + 1
    if not (config.audits_all or (_is_time(audits, calls) and _nbytes(signature, call) <= MUCH_MEMORY)):
        return None
    with _Unlimited(program), Holding(locks.tracing, 0.0) as alone:  # tracers of other threads stand nowhere
        if not alone:
            return None
        start = time.perf_counter()
        rehearsal = variant.enter(*call, True)
        if isinstance(rehearsal, Refusal):
            return rehearsal
        seconds = time.perf_counter() - start
        finding = _Audit(mode, signature, variant, call, rehearsal).finding()
        audits.count += 1
        audits.seconds = min(audits.seconds, seconds)
        audits.last = time.perf_counter() - start
        audits.spent += audits.last
    if audits.suspect:
        program.limit = 0
    return finding


class _Unlimited(Passing):
    """The program is not due in the block."""

    def __init__(self, program: Any) -> None:
        self._program, self._limit = program, program.limit

    def begin(self) -> None:
        self._program.limit = 2**62

    def end(self) -> None:
        self._program.limit = self._limit


def _is_time(audits: Audits, calls: int) -> bool:
    if config.audit == "off":
        return False
    return audits.count < CERTAIN or audits.spent + audits.last <= SHARE * audits.seconds * calls


def _nbytes(signature: Signature, call: Request) -> int:
    """The memory of the arrays that a call reads."""
    read = signature.guard(call.f, call.args, call.kwargs)
    values = call.leaves if isinstance(read, Changed) else (*call.leaves, *read)
    return sum(x.nbytes for x in values if issubclass(type(x), np.ndarray))


class _Audit:
    """One audit."""

    def __init__(
        self, mode: Mode, signature: Signature, variant: Variant, call: Request, rehearsal: Rehearsal
    ) -> None:
        self.mode, self.signature, self.variant, self.call = mode, signature, variant, call
        self.rehearsal = rehearsal
        self.start = time.perf_counter()
        self.world = World(call.f, call.args, call.kwargs)
        targets = [target for target, _ in rehearsal.copies]
        self.inputs = [x.copy(order="K") if any(x is target for target in targets) else x for x in rehearsal.inputs]
        self.grown = {id(of): (of, copy.copy(of)) for of, _, _ in rehearsal.appended}
        self.timed = timed_in(variant.program.tape, rehearsal.times)
        self.others = threading.active_count() > 1
        self.want: Any = None
        self.derived = False  # whether more is compared than the program returns
        precision = precision_of(variant.program.tape)
        self.comparison = Comparison(self.world, precision, max(map(largest, rehearsal.outputs), default=0.0))

    def finding(self) -> Finding:
        """Interpret the call and compare."""
        result, error, guards, known = None, None, None, None
        with Uncompiled(), Quiet(warnings=self.others), Draws() as heard:
            try:
                known = None if self.mode.effects else self.mode.at_once(self.call)
                result, guards = self.mode.reference(self.call) if known is None else (known[0], None)
            except Exception as raised:
                error = raised
        if isinstance(error, _UNJUDGED):
            return self._right(result, error)
        if error is not None:
            has, said = reprlib.repr(self.rehearsal.result), f"{type(error).__name__}: {error}"
            self.comparison.differ("the call", f"returns {has}, and should raise {said}")
        else:
            have, self.want = (self.mode.compared(y, self.call) for y in (self.rehearsal.result, result))
            self.derived = self.want is not result
            self.comparison.compare(have, self.want, "the result")
        if error is None and not self.mode.effects:  # of a function that is called as it is, nobody hears them
            self._compare_told(heard.told)
        if error is None:
            self._compare_effects()
            self.comparison.sharing()
        self.comparison.differences = without_times(
            self.comparison.differences, self.variant.program.tape, self.timed, self.rehearsal.outputs
        )
        if not self.comparison.differences or self._is_nobodys_fault():
            self.variant.audits.suspect = frozenset()
            return self._right(result, error)
        places = frozenset(difference.where for difference in self.comparison.differences)
        if self.others and not places & self.variant.audits.suspect:  # once more, as soon as possible
            self.variant.audits.suspect = places
            return self._right(result, error)
        if known is not None:  # a trace tells what the function reads
            with Uncompiled(), Quiet(warnings=self.others):
                guards = self.mode.reference(self.call)[1]
        return Finding(result, error, self._fault(guards))

    def _fault(self, guards: Guards | None) -> str:
        """What is wrong, where it comes from, and what the program does not know of, in words."""
        found, tape = self.comparison.differences, self.variant.program.tape
        said = "; ".join(map(str, found[:3])) + origin(tape, self.inputs, self.rehearsal.outputs, found)
        news = guards.unknown_to(self.signature.guards) if guards is not None else ""
        return f"{said} (the program does not know that {news})" if news else said

    def _right(self, result: Any, error: BaseException | None) -> Finding:
        """A finding without a fault: of a function without effects, it is the program's result."""
        return Finding(result, error, "") if self.mode.effects else Finding(self.rehearsal.result, None, "")

    # -- effects

    def _compare_effects(self) -> None:
        """What the program would have written and stored, with what is there now."""
        planned: dict[tuple[int, Any], Any] = {}
        elsewhere = []  # what stands now in places that the world does not know as the program does
        for of, key, value, item in self.rehearsal.stores:
            own = None if item else dict_of(of)
            holder = own if isinstance(own, dict) and key in own else of
            planned[id(holder), key] = value
            if id(holder) not in self.world.holders:
                elsewhere.append((Item if item else Attribute)(of, key).read())
                self.comparison.compare(value, elsewhere[-1], _where(key, item))
        for holder, key, old, new in self.world.changes():
            if id(holder.obj) in self.grown:
                continue
            if (id(holder.obj), key) not in planned and not any(new is value for value in elsewhere):
                stays = f"is left {reprlib.repr(old)}, and should be {reprlib.repr(new)}"
                self.comparison.differ(holder.place(key), stays)
        for (of_id, key), value in planned.items():
            if (holder := self.world.holders.get(of_id)) is not None:
                self.comparison.compare(value, holder.read().get(key, MISSING), holder.place(key))
        self._compare_grown()
        self._compare_contents()

    def _compare_grown(self) -> None:
        """What would be in lists to which something was appended, with what is there now."""
        for of, method, value in self.rehearsal.appended:
            getattr(self.grown[id(of)][1], method)(value)
        for of, planned in self.grown.values():
            path = self.world.holders[id(of)].path if id(of) in self.world.holders else "a list"
            if len(planned) != len(of):
                self.comparison.differ(path, f"has {len(planned)} items, and should have {len(of)}")
            for i, (have, want) in enumerate(zip(planned, of, strict=False)):
                if have is not want:
                    self.comparison.compare(have, want, f"{path}[{i}]")

    def _compare_told(self, told: list[tuple[Any, Any]]) -> None:
        """What outputs would tell, with what they have told: values, whatever objects have them."""
        (have, spec), (want, expected) = flatten([*self.rehearsal.told]), flatten(told)
        if spec != expected or [x for x in have if type(x) is str] != [x for x in want if type(x) is str]:
            # a number may be a constant of a text, for one of them
            (have, spec), (want, expected) = flatten(_as_texts(self.rehearsal.told)), flatten(_as_texts(told))
        if spec != expected:
            said = reprlib.repr(self.rehearsal.told), reprlib.repr(told)
            self.comparison.differ("what it prints", f"is {said[0]}, and should be {said[1]}")
            return
        for x, y in zip(have, want, strict=True):
            self.comparison.compare_values(x, y, "what it prints")

    def _compare_contents(self) -> None:
        written = [target for target, _ in self.rehearsal.copies]
        for target, value in self.rehearsal.copies:
            _, path, _ = self.world.arrays.get(id(target), (None, "an array", None))
            if value.dtype != target.dtype:
                value = value.astype(target.dtype)
            self.comparison.contents(value, target, path)
        for array, path in self.world.rewritten():
            if not any(np.may_share_memory(array, target) for target in written):
                self.comparison.differ(path, "is left as it is, and should be written into")

    # -- who is to blame

    def _is_nobodys_fault(self) -> bool:
        """Whether rounding explains the differences, or other threads do."""
        run, differences = self.variant.program.apart, self.comparison.differences
        if explained(differences, run, self.variant.program.tape, self.inputs, self.rehearsal.outputs):
            return True
        return (self.derived and self._is_unstable()) or (self.others and self._is_busy())

    def _is_unstable(self) -> bool:
        """Whether what is derived from a result moves not much less than it differs where arguments are rounded."""
        leaves, spec = flatten((self.call.args, dict(self.call.kwargs)))
        rng, wanted = np.random.default_rng(len(leaves)), flatten(self.want)[0]
        eps = float(np.finfo(f"f{precision_of(self.variant.program.tape)}").eps)
        far = {id(x): 0.0 for x in wanted}
        for _ in range(PROBES):
            args, kwargs = unflatten(spec, [nudged(x, rng, eps) for x in leaves])
            call = Request(self.call.f, args, kwargs)
            with Uncompiled(), Quiet():
                found = self.mode.compared(self.mode.interpret(call), call)
            for x, y in zip(wanted, flatten(found)[0], strict=True):
                far[id(x)] = max(far[id(x)], float(np.max(apart(x, y), initial=0.0)))
        return all(
            x.have is not None and np.all(apart(x.have, x.want) <= max(AMPLIFIED * far[id(x.want)], x.within))
            for x in self.comparison.differences
        )

    def _is_busy(self) -> bool:
        """Whether another thread changes what is compared, within about the time that it had so far."""
        least, most = _PAUSE
        pause = 2.0 * (time.perf_counter() - self.start)
        world = World(self.call.f, self.call.args, self.call.kwargs)
        time.sleep(min(max(pause, least), most))
        if any(world.changes()) or any(world.rewritten()):
            return True
        if self.mode.effects:
            return False
        again = self.variant.enter(*self.call, True)
        if isinstance(again, Refusal):
            return True
        outputs = zip(self.variant.program.tape.results, self.rehearsal.outputs, again.outputs, strict=True)
        return any(_bits(a) != _bits(b) for x, a, b in outputs if not (isinstance(x, Variable) and x in self.timed))


def _as_texts(told: Sequence[tuple[Any, Any]]) -> list[Any]:
    return [(tuple(str(x) if type(x) is Text else x for x in args), kwargs) for args, kwargs in told]


def _where(key: Any, item: bool) -> str:
    return f"the item {key!r}" if item else f"the attribute {key}"


def _bits(value: Any) -> Any:
    return value.tobytes() if isinstance(value, np.ndarray | np.generic) else repr(value)


# -- times: the interpreter reads its clocks later, so that of what depends on them nobody can tell what is right


def timed_in(tape: Tape, times: Collection[int]) -> set[Variable]:
    """What depends on times that a program reads: by its clocks, or as what it captures under these numbers."""
    timed: set[Variable] = set()
    for var, op in tape:
        if isinstance(op, Constant):
            varies = op.captured in times
        else:
            varies = (isinstance(op, Call) and type(op.fn) is Clock) or any(x in timed for x in operands(op))
        if varies:
            timed.add(var)
    return timed


def without_times(
    differences: Sequence[Difference], tape: Tape, timed: Collection[Variable], outputs: Sequence[Any]
) -> list[Difference]:
    """Those that do not come of times. Where times decide on a program's path, anything may."""
    if not timed:
        return [*differences]
    if any(isinstance(tape[var], Guard) for var in timed):
        return []
    known = {id(value): isinstance(x, Variable) and x in timed for value, x in zip(outputs, tape.results, strict=True)}
    return [x for x in differences if x.have is None or not known.get(id(x.have), any(known.values()))]
