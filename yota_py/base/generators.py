"""Random number generators of NumPy and Python: their states, and blocks whose draws may be taken back."""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np
from numpy.random import MT19937, Generator, RandomState

from .impure import Impure
from .records import record
from .unwinding import Passing, state

GENERATORS = (Generator, RandomState, random.Random)
NUMPYS: Any = vars(np.random.mtrand)["_rand"]  # that of ``np.random.normal`` and its like
PYTHONS: Any = vars(random)["_inst"]  # that of ``random.random``

# Methods of ``RandomState`` that neither take nor leave a second normal deviate.
WITHOUT_NORMALS = frozenset(
    "rand random random_sample uniform randint random_integers choice permutation shuffle standard_exponential".split()
)
_BYTES = 4 * 625  # of the Mersenne Twister: its words, and the position among them


def state_of(generator: Any, *, methods: Collection[str] = ("normal",)) -> Any:
    """The state of a generator, a copy; all of it that these ``methods`` change."""
    bits = getattr(generator, "_bit_generator", None)
    if type(bits) is MT19937 and WITHOUT_NORMALS.issuperset(methods):  # the rest takes long to read
        return ctypes.string_at(bits.ctypes.state_address, _BYTES)
    if isinstance(generator, Generator):
        return generator.bit_generator.state
    if isinstance(generator, RandomState):
        return generator.get_state(legacy=False)  # with a second normal deviate, which may be there
    return generator.getstate()


def put_back(generator: Any, known: Any) -> None:
    """Let a generator be in this state again, if it is known."""
    if known is None:
        return
    if type(known) is bytes:
        ctypes.memmove(generator._bit_generator.ctypes.state_address, known, _BYTES)
    elif isinstance(generator, Generator):
        generator.bit_generator.state = known
    elif isinstance(generator, RandomState):
        generator.set_state(known)
    else:
        generator.setstate(known)


class Draws(Passing):
    """A block in which it is noted in which states generators were before they drew, and what was ``told``: arguments
    of outputs."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, Any]] = []
        self._untold: list[tuple[Any, Any]] = []
        self._before: dict[int, tuple[Any, Any]] = {}
        self._after: list[tuple[Any, Any]] = []

    def begin(self) -> Draws:
        state.draws.append(self)
        return self

    def end(self) -> None:
        if self in state.draws:
            state.draws.remove(self)
        if not state.draws:
            state.untold = 0

    def note(self, generator: Any) -> None:
        """It is going to draw."""
        if id(generator) not in self._before:
            self._before[id(generator)] = generator, state_of(generator)

    def take_back(self) -> None:
        """Let all be in the states that they were in when the block began; what was told will be so once more, and is
        not told twice."""
        self._untold = [*self.told]
        state.untold += len(self._untold)
        for block in state.draws if self._untold else ():
            del block.told[-len(self._untold) :]
        self._after = [(generator, state_of(generator)) for generator, _ in self._before.values()]
        for generator, known in self._before.values():
            put_back(generator, known)

    def repeat(self) -> None:
        """Let all be as it was when the draws were taken back."""
        state.untold = 0
        for block in state.draws:
            block.told += self._untold
        for generator, known in self._after:
            put_back(generator, known)


def will_draw(generator: Any) -> None:
    """Tell all blocks of this thread that a generator is going to draw."""
    for block in state.draws:
        block.note(generator)


def fingerprint(generator: Any) -> Any:
    """What tells whether a generator has drawn, soon: of NumPy's own, all but a second normal deviate."""
    return repr(known) if isinstance(known := state_of(generator, methods=()), dict) else known


_own = threading.RLock()  # for generators that have no lock of their own, or one that they could not take in its block


def lock_of(*generators: Any) -> AbstractContextManager[Any]:
    """What nobody else draws within; of several, always in one order."""
    locks = {id(lock): lock for lock in map(_lock, generators)}
    return next(iter(locks.values())) if len(locks) == 1 else _All([lock for _, lock in sorted(locks.items())])


def _lock(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return _own
    bits = generator.bit_generator if isinstance(generator, Generator) else generator._bit_generator
    return bits.lock if type(bits.lock) is type(_own) else _own  # it is another one before NumPy 2.4


class _All(ExitStack):
    """The block in which all of these locks are held."""

    def __init__(self, locks: Sequence[Any]) -> None:
        super().__init__()
        self._locks = locks

    def __enter__(self) -> _All:
        super().__enter__()
        for lock in self._locks:
            self.enter_context(lock)
        return self


@record(eq=False)
class Draw(Impure):
    """A method of a generator, or what makes one of a seed, as operations on tapes call it: again, whenever they are
    played. If it is ``of`` nothing, the generator is the first argument; what it gives may be made a number by ``kind``
    (true and false are none)."""

    of: Any
    name: str
    kind: type | None = None

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        of, args = (self.of, args) if self.of is not None else (args[0], args[1:])
        value = getattr(of, self.name)(*args, **kwargs)
        return value if self.kind is None else self.kind(value)
