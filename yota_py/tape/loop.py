"""A loop as one function on a tape: its body is a tape, and runs as often as it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..base.dispatch import find_traced, original
from ..base.records import record
from ..base.types import ArrayType
from ..errors import GuardError
from .operations import Call, Guard, Operation, Variable
from .show import Style
from .tape import Tape


class UnrolledError(Exception):
    """A loop has steps that no kernel covers: its turns are to stand one after the other."""


LONGEST = 16  # elements of what a loop with an end of its own computes with
TURNS, MORE = 1024, 8  # it takes at most; and so many times as many, where these do not suffice
END = 0  # the number of the decision that ends a loop; others in its body have none
MANY = 2**62  # turns, where nobody knows how many
COUNT = ArrayType(np.dtype(np.int64), (), "scalar")  # the type of a number of turns
players: list[Callable[[Loop, Sequence[Any]], tuple[Any, ...] | None]] = []  # what may run a loop faster than NumPy


@record()
class Continued:
    """What is before a loop that goes on with it: turns of ``period`` operations each, and then operations for the
    loop itself, ``between`` them. Outputs are of the operations at these ``places`` in a turn."""

    period: int
    between: int = 0
    places: tuple[int, ...] = ()


@record()
class Noted:
    """A turn of a loop: its operations are those from ``start`` on and before ``stop``.

    ``before`` and ``after`` are the variables that the frame had then, in one order, its slots; those ``kept`` are of
    names to which the loop assigns nothing, and those ``held`` are reached by other ways than slots. ``given`` are the
    variables that the turn has assigned to elements of arrays. Elements of the arrays ``read`` it took at its
    ``position``, or so far from it, if that is known. The loop may go on ``until`` the first of its slots is another
    truth value; so many turns are ``left`` at most. The turn may have ``written`` into arrays in place, and some of
    them may be ``shared``: known by two names.
    """

    loop: int
    start: int
    stop: int
    before: tuple[Variable, ...]
    after: tuple[Variable, ...]
    kept: frozenset[int]
    held: frozenset[Variable]
    given: tuple[Variable, ...] = ()
    position: int | None = None
    read: frozenset[Variable] = frozenset()
    until: bool = False
    left: int = MANY
    written: bool = False
    shared: bool = False


@record(frozen=False, eq=False)
class Loop:
    """``loop(*carried, *stacked, *invariants) -> (*carried, *outputs)``.

    The body's inputs are what is ``carried`` from turn to turn, one element of each ``stacked`` array (along its first
    axis), and what is the same in all turns; its results are what is carried on, and one element of each output.
    A ``backward`` loop begins with the last elements. Its adjoint reads what each turn has put by; or what is carried
    ``every`` so many turns, if that is not 0, and has the turns in between run again; or, if it ``recomputes``, what is
    carried from turn to turn and nothing else.

    A loop that goes on ``until`` its decision with the number ``END`` is another one has ``turns`` at most, and returns
    how many it took behind all else (then outputs have rows of no meaning); one whose turns are ``counted`` is told
    behind all other arguments how many they are.

    Of a loop that is ``lowered``, the body is made of primitives that kernels run. ``decisions`` is the count of
    numbered guards in a turn. ``entry`` is what is known of it as a primitive; ``values`` are its results where it was
    recorded, as long as they are wanted; ``played_by`` is a body, and what a player runs it with. A loop
    ``continues`` turns that are before it on the tape.
    """

    __name__ = "loop"

    body: Tape
    carried: int
    stacked: int
    turns: int
    backward: bool = False
    every: int = 0
    recomputes: bool = False
    until: bool = False
    counted: bool = False
    decisions: int = 0
    lowered: bool = False
    entry: Any = None
    values: tuple[Any, ...] | None = None
    played_by: Any = None
    continues: Continued | None = None

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """Run it turn by turn, with NumPy; on traced values, it is one operation."""
        traced = find_traced(args)
        if traced is not None:
            return traced.__yota_record__(self, args, {})  # type: ignore[no-any-return]
        for play in players:
            if (results := play(self, args)) is not None:
                return results
        return self.turn_by_turn(*args)

    def turn_by_turn(self, *args: Any) -> tuple[Any, ...]:
        """Run it turn by turn."""
        turns = int(args[-1]) if self.counted else self.turns
        carry, (xs, invariants) = list(args[: self.carried]), self.parted(args[self.carried :])
        types = self.types[self.carried :]
        outputs: list[list[Any]] = [[] for _ in self.body.results[self.carried :]]
        taken = 0
        for k in range(turns)[:: -1 if self.backward else 1]:
            try:
                results = self.body.play_flat([*carry, *map(element, xs, [k] * len(xs), types), *invariants])
            except GuardError as error:
                if not self.until or error.number != END:
                    raise
                break
            carry, taken = results[: self.carried], taken + 1
            for output, value in zip(outputs, results[self.carried :], strict=True):
                output.append(value)
        plain = find_traced(args) is None
        stacks = [self._stack(i, output, plain=plain) for i, output in enumerate(outputs)]
        return (*carry, *stacks, np.int64(taken)) if self.until else (*carry, *stacks)

    def _stack(self, i: int, rows: list[Any], *, plain: bool) -> Any:
        """An output, of which there are rows for some turns."""
        t, rows = self.output_types[self.carried + i], rows[:: -1 if self.backward else 1]
        rows += [original(np.zeros)(t.shape[1:], t.dtype)] * (self.turns - len(rows))
        return original(np.stack)(rows) if plain else np.stack(rows)

    def parted(self, others: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Of what is not carried, what is stacked and what is the same in all turns."""
        return others[: self.stacked], others[self.stacked : len(others) - self.counted]

    @property
    def work(self) -> int:
        """How many operations there are in all turns."""
        inner = (as_loop(op) for op in self.body.ops)
        return self.turns * (len(self.body) + sum(loop.work for loop in inner if loop is not None))

    @property
    def types(self) -> list[ArrayType]:
        """The types of the body's inputs."""
        return [self.body[x].type for x in self.body.inputs]  # type: ignore[misc]

    @property
    def output_types(self) -> list[ArrayType]:
        """The types of what it returns."""
        results = [self.body.type_of(x) for x in self.body.results]
        stacks = (ArrayType(t.dtype, (self.turns, *t.shape)) for t in results[self.carried :])
        return [*results[: self.carried], *stacks, *([COUNT] if self.until else ())]

    def outcome(self) -> tuple[Any, ...]:
        """Its results where it was recorded, or others of their types."""
        known = self.values or ()
        return (*known, *map(_of_type, self.output_types[len(known) :]))

    def __yota_within__(self, style: Style) -> str:
        """Its body, as it is printed below it."""
        inputs = self.body.inputs
        _, *lines = self.body.show(style).splitlines()
        order = ", from the last to the first" if self.backward else ""
        names = [("carried", inputs[: self.carried]), ("one of each", inputs[self.carried :][: self.stacked])]
        said = "".join(f"; {name}: {', '.join(map(str, some))}" for name, some in names if some)
        ends = ", as long as it decides so" * self.until + ", as many as its last argument says" * self.counted
        again = f"; kept every {self.every}" * bool(self.every) + "; computed again on the way back" * self.recomputes
        most = "at most " * (self.until or self.counted)
        return "\n".join([f"{most}{self.turns} turn{'s' * (self.turns != 1)}{ends}{order}{said}{again}", *lines])


def element(x: Any, k: int, t: ArrayType) -> Any:
    """One element of a stack, as what it is in the body."""
    y = x[k, ...] if t.kind == "array" else x[k]
    return y.item() if t.kind == "python" and isinstance(y, np.generic) and find_traced((y,)) is None else y


def _of_type(t: ArrayType) -> Any:
    """Some value, without memory if it is an array."""
    if t.kind == "array":
        return original(np.broadcast_to)(t.dtype.type(1), t.shape)
    return t.dtype.type(1) if t.kind == "scalar" else t.dtype.type(1).item()


def as_loop(op: Any) -> Loop | None:
    """The loop that an operation is; ``None`` if it is another operation."""
    return op.fn if type(op) is Call and type(op.fn) is Loop else None


def decisions(ops: Iterable[Operation]) -> Iterator[Guard]:
    """The decisions of operations, with those of turns that a loop has said instead of recording them."""
    for op in ops:
        if isinstance(op, Guard):
            yield op
        elif (loop := as_loop(op)) is not None and loop.continues:
            for _ in range(loop.turns):
                yield from decisions(loop.body.ops)
