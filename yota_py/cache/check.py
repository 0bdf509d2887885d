"""What a program has given beside what the interpreter has: where they differ, whether rounding may explain it, and
which operation the difference comes from."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from ..base.containers import items_of, keys_of
from ..base.records import record
from ..base.refusal import MISFIT, Refusal
from ..base.types import ArrayType
from ..base.unwinding import Quiet
from ..capture.plain import held_by
from ..engine.compile import compile_tape
from ..registry.tangents import getfield
from ..tape.loop import as_loop
from ..tape.operations import Call, Constant, Variable
from ..tape.show import name_of
from ..tape.tape import Tape
from ..tape.trees import flatten
from .world import ATOMS, World

# Compiled sums are added in another order: what results may differ by, of the largest element, without a closer look,
# by the size of a number in bytes. Where terms cancel, a number is small beside those it was computed from.
_TOLERANCES = {2: 1e-1, 4: 1e-3, 8: 1e-8}
_PROBES, _FEW_PROBES = 24, 4  # of each kind; as many as are made whatever they take
_SECONDS = 1.0  # and what others may take
_ULPS = 2.0  # by how much probes move numbers
AMPLIFIED = 1000.0  # rounding may do so much more than probes
MAX_ARRAYS = 100  # of which it is asked whether they share memory


@record()
class Difference:
    """Where the program's values differ from the interpreter's, and how. Numbers may differ by rounding: then ``have``
    and ``want`` are known, of the same shape and dtype, and as far apart as ``within`` they are not different."""

    where: str
    how: str
    have: Any = None
    want: Any = None
    within: float = 0.0

    def __str__(self) -> str:
        return f"{self.where} {self.how}"


class Comparison:
    """Values of a program and of the interpreter, compared one after the other.

    What is new in one must be new in the other, and the same new object in the same places; what was there before must
    be the same. ``scale`` is the largest number that the program has given.
    """

    def __init__(self, world: World, precision: int, scale: float = 0.0) -> None:
        self.differences: list[Difference] = []
        self._world = world
        self._tolerance = _TOLERANCES.get(precision, 1e-8)
        self._slack = self._tolerance**1.5 * scale
        self._partners: dict[int, tuple[Any, Any]] = {}
        self._arrays: list[tuple[np.ndarray, np.ndarray, str]] = []

    def differ(self, where: str, how: str) -> None:
        """Note a difference."""
        self.differences.append(Difference(where, how))

    def compare(self, have: Any, want: Any, where: str) -> None:
        """One value of each, and all that they are made of."""
        if isinstance(want, ATOMS) or isinstance(have, ATOMS):
            self._atoms(have, want, where)
            return
        if self._met(have, want, where):
            return
        if type(have) is not type(want):
            self.differ(where, f"is a {type(have).__name__}, and should be a {type(want).__name__}")
        elif isinstance(want, np.ndarray):
            self._arrays.append((have, want, where))
            self.contents(have, want, where)
        else:
            self._parts(have, want, where)

    def compare_values(self, have: Any, want: Any, where: str) -> None:
        """One value of each that is no container, whatever objects they are."""
        if isinstance(have, np.ndarray) and isinstance(want, np.ndarray):
            self.contents(have, want, where)
        else:
            self._atoms(have, want, where)

    def _met(self, have: Any, want: Any, where: str) -> bool:
        """Whether it is known already, from before or from another place, if they agree."""
        known = self._world.known
        if id(have) in known or id(want) in known:
            if have is not want and not (isinstance(want, tuple) and type(have) is tuple):
                which = "is another object than it was before" if id(want) in known else "is what another place holds"
                self.differ(where, f"{which}, and should {'' if id(want) in known else 'not '}be the same")
                return True
            return have is want
        partner = self._partners.get(id(have)), self._partners.get(id(want))
        self._partners[id(have)] = self._partners[id(want)] = have, want
        for pair in partner:
            if pair is not None and not isinstance(want, tuple):
                if pair[0] is not have or pair[1] is not want:
                    self.differ(where, "is the same object as elsewhere, or is not, other than it should be")
                return True
        return False

    def _atoms(self, have: Any, want: Any, where: str) -> None:
        if type(have) is not type(want):
            self.differ(where, f"is {have!r} ({type(have).__name__}), and should be {want!r} ({type(want).__name__})")
        elif isinstance(want, int | float | complex | np.number | np.bool_):
            self.contents(have, want, where)
        elif not (have is want or have == want or repr(have) == repr(want)):
            self.differ(where, f"is {have!r}, and should be {want!r}")

    def contents(self, have: Any, want: Any, where: str) -> None:
        """Shapes, dtypes and numbers."""
        x, y = (np.asarray(value, object if type(value) is int else None) for value in (have, want))
        if x.shape != y.shape or x.dtype != y.dtype:
            self.differ(where, f"is {x.dtype}{list(x.shape)}, and should be {y.dtype}{list(y.shape)}")
            return
        within = self._tolerance * largest(y) + self._slack
        if y.dtype.kind in "fc":
            with Quiet():
                same = np.isclose(x, y, rtol=0.0, atol=within, equal_nan=True)
        else:
            same = np.asarray(x == y, bool)
        if np.all(same):
            return
        at = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
        place = f" at {list(at)}" if np.ndim(want) else ""
        values = (np.atleast_1d(z)[at] for z in (x, y))
        how = f"is {next(values)!r}{place}, and should be {next(values)!r}"
        self.differences.append(Difference(where, how, have, want, within))

    def _parts(self, have: Any, want: Any, where: str) -> None:
        if isinstance(want, types.FunctionType):
            if have.__code__ is not want.__code__:
                self.differ(where, f"is {have.__qualname__}, and should be {want.__qualname__}")
                return
            pairs = zip(have.__closure__ or (), want.__closure__ or (), strict=True)
            for name, cells in zip(want.__code__.co_freevars, pairs, strict=True):
                self.compare(*cells, f"{where}: {name}")
        if (items := items_of(want)) is not None:
            keys, others = list(keys_of(want)), list(keys_of(have))
            if keys != others:
                self.differ(where, f"has the keys {others}, and should have {keys}")
                return
            named = not isinstance(want, tuple | list | dict)
            for key, a, b in zip(keys, items_of(have) or (), items, strict=True):
                self.compare(a, b, f"{where}.{key}" if named else f"{where}[{key!r}]")
        elif isinstance(want, set | frozenset):
            if have != want:
                self.differ(where, f"is {have!r}, and should be {want!r}")
        elif held := held_by(want):
            self.compare(held_by(have), held, where)

    # -- memory

    def sharing(self) -> None:
        """Whether new arrays share memory with those that were there, and with one another, as they should."""
        pairs = self._arrays[:MAX_ARRAYS]
        before = [array for array, _, _ in self._world.arrays.values()]
        for i, (have, want, where) in enumerate(pairs):
            a, b = ([np.may_share_memory(x, y) for y in before] for x in (have, want))
            if a != b or (any(a) and _region(have) != _region(want)):
                self.differ(where, f"{'shares' if any(a) else 'does not share'} memory with an array that was there "
                                   f"before, and should{' not' * (not any(b))}")
            for have2, want2, where2 in pairs[:i]:
                if np.may_share_memory(have, have2) != np.may_share_memory(want, want2):
                    self.differ(where, f"shares memory with {where2}, or does not, other than it should")


def differences(have: Any, want: Any) -> list[Difference]:
    """Where one value differs from another one that was computed in another way."""
    leaves = flatten(want)[0]
    dtypes = [x.dtype for x in leaves if isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "fc"]
    comparison = Comparison(World(None, (), {}), _narrowest(dtypes), max(map(largest, leaves), default=0.0))
    comparison.compare(have, want, "the result")
    return comparison.differences


def _region(array: np.ndarray) -> Any:
    return array.__array_interface__["data"][0], array.strides


def largest(x: Any) -> float:
    """The largest finite magnitude in a result."""
    if not isinstance(x, np.ndarray | np.generic | float | complex):
        return 0.0
    values = np.asarray(x)
    if values.dtype.kind not in "fc":
        return 0.0
    with Quiet():
        magnitudes = np.abs(values)
        return float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes)))


def precision_of(tape: Tape) -> int:
    """The size of the narrowest real number that a program computes with, in bytes."""
    types = [op.type for op in tape.ops if isinstance(op.type, ArrayType)]
    return _narrowest(t.dtype for t in types if t.dtype.kind in "fc")


def _narrowest(dtypes: Iterable[np.dtype[Any]]) -> int:
    return min((dtype.itemsize >> (dtype.kind == "c") for dtype in dtypes), default=8)


# -- sensitivity


def explained(
    differences: Sequence[Difference], run: Callable[..., Any], tape: Tape, inputs: Sequence[Any],
    outputs: Sequence[Any],
) -> bool:
    """Whether a program's results may be as far from the right ones as they are because of rounding.

    It is run on inputs that are moved by units in their last places, and its tape is played with NumPy where operations
    round badly (Parker 1997, "Monte Carlo arithmetic"). Where a decision then comes out in both ways, or where results
    move not much less than they differ, nobody knows which ones are right.
    """
    rng = np.random.default_rng(len(inputs))
    eps = float(np.finfo(f"f{precision_of(tape)}").eps)
    spread = [_Spread(x) for x in outputs]
    _probe(spread, outputs, lambda: run(*(nudged(x, rng, eps) for x in inputs)))
    exact = _played(tape, inputs)  # a kernel that is wrong is no rounding
    made, refused = _probe(spread, exact, lambda: _played(_noisy(tape, rng), inputs))
    if 0 < refused < made:
        return True
    found = {id(x): s for x, s in zip(outputs, spread, strict=True)}
    return all(d.have is not None and _explains(found.get(id(d.have)), spread, d) for d in differences)


class _Spread:
    """How far a result moves, and where it does so to or from what is not finite."""

    def __init__(self, result: Any) -> None:
        self.far, self.wild = np.zeros(np.shape(result)), np.zeros(np.shape(result), bool)

    def note(self, known: Any, other: Any) -> None:
        """A result, and what it is with moved numbers."""
        distance = apart(known, other)
        finite = np.isfinite(distance)
        self.far = np.maximum(self.far, np.where(finite, distance, 0.0))
        self.wild = self.wild | ~finite


def _probe(spread: list[_Spread], known: Any, run: Callable[[], Any]) -> tuple[int, int]:
    """Note how far results of many probes are from the known ones, if there are any; returns the number of probes, and
    how many had no results."""
    made, refused, start = 0, 0, perf_counter()
    while made < _FEW_PROBES or (made < _PROBES and perf_counter() - start < _SECONDS):
        with Quiet():
            results = run()
            made += 1
            if isinstance(results, Refusal):
                refused += 1
            elif not isinstance(known, Refusal):
                for moves, result, other in zip(spread, known, results, strict=True):
                    moves.note(result, other)
    return made, refused


def _noisy(tape: Tape, rng: np.random.Generator) -> Tape:
    """The tape with operations that round badly."""

    def rounded(fn: Callable[..., Any], vary: list[bool], *args: Any, **kwargs: Any) -> Any:
        moved = (nudged(x, rng) if varies else x for x, varies in zip(args, vary, strict=True))
        return nudged(fn(*moved, **kwargs), rng)

    ops: list[Any] = []
    for op in tape.ops:
        if (loop := as_loop(op)) is not None:
            op = replace(op, fn=replace(loop, body=_noisy(loop.body, rng)))  # type: ignore[arg-type]
        elif isinstance(op, Call) and not isinstance(op.fn, Variable) and not _is_comparison(op):
            vary = [isinstance(arg, Variable) for arg in op.args]
            op = replace(op, fn=functools.partial(rounded, op.fn, vary))
        ops.append(op)
    return replace(tape, ops=ops)


def _played(tape: Tape, inputs: Sequence[Any]) -> Any:
    """The results of a tape; a ``Refusal`` if it takes another path."""
    try:
        with Quiet():
            return with_captured(tape, inputs).play_flat(inputs[: len(tape.inputs)])
    except Exception:  # any: where a function raises is a decision, too
        return MISFIT


def with_captured(tape: Tape, inputs: Sequence[Any]) -> Tape:
    """A program's tape with the values of what it captures, which it is given behind those of its inputs."""
    count = len(tape.inputs)
    ops = [
        replace(op, value=inputs[count + op.captured]) if isinstance(op, Constant) and op.captured is not None else op
        for op in tape.ops
    ]
    return replace(tape, ops=ops)


def _is_comparison(op: Call) -> bool:
    return isinstance(op.type, ArrayType) and op.type.dtype.kind == "b"


def _explains(spread: _Spread | None, others: list[_Spread], difference: Difference) -> bool:
    distance = apart(difference.have, difference.want)
    if spread is None:  # not as the program has returned it: the most that any result has moved
        far: Any = max((float(np.max(s.far, initial=0.0)) for s in others), default=0.0)
        wild: Any = any(np.any(s.wild) for s in others)
    else:
        far, wild = spread.far, spread.wild
    near = (distance <= AMPLIFIED * far) | (distance <= difference.within)
    return bool(np.all(np.where(np.isfinite(distance), near, wild)))


def nudged(x: Any, rng: np.random.Generator, eps: float = 0.0) -> Any:
    """A value some units in the last place away from ``x``, or by so much of it as ``eps`` is if that is more; ``x``
    itself if it is no floating-point number."""
    if not isinstance(x, np.ndarray | np.generic | float | complex) or np.asarray(x).dtype.kind not in "fc":
        return x
    array = np.asarray(x)
    step = rng.uniform(-1, 1, array.shape) * _ULPS * max(eps, float(np.finfo(array.dtype).eps))
    zero = array == 0
    moved = array * (1 + step) + (zero * step * largest(x) if np.ndim(x) else 0)
    moved = np.where(np.isfinite(array), moved, array).astype(array.dtype)
    if isinstance(x, np.ndarray):
        like = np.empty_like(x)
        like[...] = moved
        return like
    return type(x)(moved[()])


def apart(a: Any, b: Any) -> Any:
    """How far two results are apart; infinitely if one is not finite, or they are not numbers, and differ."""
    if not all(isinstance(z, np.ndarray | np.generic | int | float | complex) for z in (a, b)):
        return np.float64(0.0 if a is b or a == b else np.inf)
    x, y = (np.asarray(z, complex if np.asarray(z).dtype.kind == "c" else float) for z in (a, b))
    far = np.abs(x - y)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(same, 0.0, np.where(np.isnan(far), np.inf, far))


# -- blame


def origin(tape: Tape, inputs: Sequence[Any], outputs: Sequence[Any], found: Sequence[Difference]) -> str:
    """The operation that the first wrong number comes from; empty if it comes from none.

    That is the first operation which is computed otherwise than NumPy does. If there is none, the program does what was
    recorded, and what was recorded is not what the function does now: then it is the operation whose result is wrong.
    """
    results = {id(value): var for value, var in zip(outputs, tape.results, strict=True)}
    variables = (results.get(id(difference.have)) for difference in found if difference.have is not None)
    wrong = next((var for var in variables if isinstance(var, Variable)), None)
    if wrong is None:
        return ""
    try:
        miscomputed = _miscomputed(tape, inputs, wrong)
    except Exception:  # any: what is wrong may fail in any way, and the finding stands without it
        miscomputed = None
    if miscomputed is not None:
        return f"; compiled, {_said(miscomputed)} has another result than NumPy's"
    return f"; it comes from {_said(made)}" if isinstance(made := tape[wrong], Call) else ""


def _miscomputed(tape: Tape, inputs: Sequence[Any], wrong: Variable) -> Call | None:
    """The first operation up to this one that machine code computes otherwise than NumPy."""
    calls = [var for var, op in tape if isinstance(op, Call) and isinstance(op.type, ArrayType) and var.id <= wrong.id]
    every = replace(tape, results=calls)
    have = compile_tape(every, [tape[var].type for var in calls]).run(*inputs)
    if isinstance(have, Refusal):
        return None
    want = with_captured(every, inputs).play_flat(inputs[: len(tape.inputs)])
    for var, x, y in zip(calls, have, want, strict=True):
        if differences(x, y):
            op = tape[var]
            op = tape[op.args[0]] if isinstance(op, Call) and op.fn is getfield else op
            assert isinstance(op, Call)
            return op
    return None


def _said(op: Call) -> str:
    return f"{name_of(op.fn)} ({op.site})" if op.site is not None else name_of(op.fn)
