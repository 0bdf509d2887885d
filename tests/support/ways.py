"""The ways to evaluate a gradient tape, and that they agree: played, lowered and played, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from yota_py.base.refusal import Decision, OutOfBounds, Refusal
from yota_py.base.types import ArrayType, typeof
from yota_py.capture.recording import record_call
from yota_py.engine.compile import compile_recorded
from yota_py.errors import GuardError
from yota_py.passes.lower import lower
from yota_py.passes.pipeline import optimise
from yota_py.reverse.verbs import differentiate
from yota_py.tape.operations import Call, Constant, Guard, Input, Variable, same, substitute
from yota_py.tape.tape import Tape
from yota_py.tape.verify import verify
from yota_py.testing.finite import random_like

CALLS = 3  # of each compiled program, with other values


@dataclass
class Ways:
    """A gradient tape, the same lowered and optimised, and compiled."""

    gradient: Any
    lowered: Any
    program: Any

    @classmethod
    def of(cls, f: Callable[..., Any], args: tuple[Any, ...], seed: Any = None) -> Ways:
        """Differentiate at these arguments; every tape on the way is verified."""
        gradient = differentiate(record_call(f, args, {}), seed)
        lowered = optimise(verify(lower(gradient).tape), verify)
        return cls(verify(gradient.tape), lowered, compile_recorded(gradient))

    @property
    def captured(self) -> list[Any]:
        """What the function has read from elsewhere, in the program's order."""
        constants = [op for op in self.lowered.ops if isinstance(op, Constant)]
        values = {op.captured: op.value for op in constants if op.captured is not None}
        return [values[k] for k in sorted(values)]

    def fit(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs as the kinds of value that the tape was made for: arrays, NumPy's scalars, Python's numbers."""
        types = [op.type for op in self.gradient.ops if isinstance(op, Input)]
        return [
            np.asarray(x) if t.kind == "array" else np.asarray(x).item() if t.kind == "python" else t.dtype.type(x)
            for x, t in zip(inputs, types, strict=True)
        ]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The compiled program's results."""
        results = self.program(*inputs, *self.captured)
        assert not isinstance(results, Refusal), f"refused: {results}"
        return results  # type: ignore[no-any-return]


def check_types(tape: Tape, inputs: Sequence[Any]) -> None:
    """Play a tape; every value must have the dtype and shape that its operation says."""
    values: list[Any] = [None]
    given = iter(inputs)
    for var, op in tape:
        if isinstance(op, Input):
            value = next(given)
        elif isinstance(op, Constant):
            value = op.value
        elif isinstance(op, Call):
            assert not isinstance(op.fn, Variable)
            lookup = lambda v: values[v.id]  # noqa: E731
            value = op.fn(*substitute(op.args, lookup), **substitute(dict(op.kwargs), lookup))
        else:
            value = op.test(values[op.var.id])
        values.append(value)
        have = typeof(value)
        if isinstance(op, Call) and isinstance(op.type, ArrayType):
            same = isinstance(have, ArrayType) and (have.dtype, have.shape) == (op.type.dtype, op.type.shape)
            assert same, f"{var} is {have}, not {op.type}, in\n{tape.show('plain')}"


def assert_close(have: Any, want: Any, what: str, rtol: float = 1e-9) -> None:
    """Equal shapes and dtypes, and numbers up to rounding in the scale of the whole array."""
    if want is None or have is None:
        assert have is want, what
        return
    a, b = np.asarray(have), np.asarray(want)
    assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{what}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
    if not b.size:
        return
    finite = np.isfinite(b)
    scale = np.max(np.abs(b[finite]), initial=1e-3)
    with np.errstate(all="ignore"):
        good = np.where(finite, np.abs(a - b) <= rtol * scale, (a == b) | (np.isnan(a) & np.isnan(b)))
    assert good.all(), f"{what}:\n{a}\nnot\n{b}"


def seeds_for(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Random cotangents of the function's results."""
    rng = np.random.default_rng(11)
    y = f(*args)
    return tuple(random_like(z, rng) for z in y) if isinstance(y, tuple) else random_like(y, rng)


def compiled(f: Callable[..., Any], *args: Any) -> tuple[Ways, list[Any]]:
    """The ways to evaluate a function's gradient tape, and its seeds."""
    with np.errstate(all="ignore"):
        seeds = seeds_for(f, args)
        ways = Ways.of(f, args, seeds)
    return ways, list(seeds) if isinstance(seeds, tuple) else [seeds]


def evaluate(ways: Ways, inputs: list[Any], rtol: float = 1e-9) -> list[Any]:
    """The program's results, which equal those of both tapes; or nothing, where the tapes raise and it refuses."""
    with np.errstate(all="ignore"):
        try:
            want = ways.gradient.play_flat(inputs)
        except IndexError:
            assert isinstance(ways.program(*inputs, *ways.captured), OutOfBounds)
            return []
        except GuardError:
            assert_refused(ways, inputs)
            return []
        lowered = ways.lowered.play_flat(inputs)
    have = ways.run(inputs)
    for i, (a, b, c) in enumerate(zip(have, lowered, want, strict=True)):
        assert_close(b, c, f"result {i} of the lowered tape", rtol)
        assert_close(a, c, f"result {i} of the program", rtol)
    return have


def assert_refused(ways: Ways, inputs: list[Any]) -> None:
    """The program names the first decision of the tape that these inputs differ in, and the value that it meets."""
    refusal = ways.program(*inputs, *ways.captured)
    decision, value = first_difference(ways.gradient, inputs)
    assert isinstance(refusal, Decision) and refusal.number == decision.number
    if isinstance(decision.expected, np.ndarray):
        assert not refusal.value
    else:
        assert type(refusal.value) is type(value[()] if isinstance(value, np.ndarray) else value)
        assert same(decision.test(refusal.value), decision.test(value))


def first_difference(tape: Tape, inputs: Sequence[Any]) -> tuple[Guard, Any]:
    """The first decision of a tape that does not hold for these inputs, and the value that it is taken on."""
    for i, op in enumerate(tape.ops):
        if isinstance(op, Guard):
            value = replace(tape, ops=tape.ops[:i], results=[op.var]).play_flat(inputs)[0]
            if not same(op.test(value), op.expected):
                return op, value
    raise AssertionError("all decisions hold")


def agrees(f: Callable[..., Any], *calls: tuple[Any, ...], rtol: float = 1e-9) -> Ways:
    """Compile for the first arguments and compare on all, three times round."""
    ways, seeds = compiled(f, *calls[0])
    for _ in range(CALLS if len(calls) < CALLS else 1):
        for args in calls:
            assert evaluate(ways, ways.fit([*args, *seeds]), rtol)
    return ways


def moved(*args: Any) -> list[tuple[Any, ...]]:
    """The arguments, and two more of the same types."""
    rng = np.random.default_rng(4)
    out: list[tuple[Any, ...]] = [args]
    for _ in range(2):
        out.append(tuple(_shifted(x, rng) if np.asarray(x).dtype.kind in "fc" else x for x in args))
    return out


def _shifted(x: Any, rng: np.random.Generator) -> Any:
    y = x + random_like(x, rng)
    return np.asarray(y, x.dtype) if isinstance(x, np.ndarray) else type(x)(y)


def arrays_of(results: list[Any]) -> list[np.ndarray]:
    return [x for x in results if isinstance(x, np.ndarray)]
