"""Passes over tapes, IR compared with IR: what is written here is what a pass makes of a function."""

from __future__ import annotations

import itertools
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from programs import Program, programs
from sets import examples
from ways import assert_close, check_types
from yota_py.rules.indices import unindex

from yota_py import config, explain, grad, gradient
from yota_py.base.types import typeof
from yota_py.cache.modes import Gradient, Request
from yota_py.capture.recording import record_call
from yota_py.engine.schedule.fuse import fuse
from yota_py.engine.schedule.steps import Python
from yota_py.passes.cse import cse
from yota_py.passes.dce import dce
from yota_py.passes.fold import fold
from yota_py.passes.lower import lower
from yota_py.passes.pipeline import PIPELINE, optimise
from yota_py.passes.simplify import EQUATIONS, simplify
from yota_py.registry.registry import nondiff, primitive
from yota_py.registry.tangents import astype, joined, strong_multiply
from yota_py.reverse.verbs import differentiate
from yota_py.tape.operations import Call, Constant, Guard, Input, Variable
from yota_py.tape.tape import Tape
from yota_py.tape.verify import verify

Pass = Callable[[Tape], Tape]
SPECIAL = [0.0, -0.0, 1.0, -2.5, 4.0, np.inf, -np.inf, np.nan]


def traced(f: Callable[..., Any], *args: Any) -> Tape:
    """The lowered tape of a function itself, not of its gradient."""
    return verify(lower(record_call(f, args, {})).tape)


def operations(tape: Tape) -> list[str]:
    """The lines of a tape after its inputs, without types and comments."""
    lines = [line.partition("#")[0].strip() for line in tape.show("plain").splitlines()[1:]]
    lines = [line if line.startswith("const") else line.partition(" :: ")[0] for line in lines]
    return [line for line in lines if not line.startswith("inp")]


def assert_ir(tape: Tape, step: Pass, *expected: str) -> Tape:
    """A pass makes these lines of a tape."""
    out = verify(step(tape))
    have = operations(out)
    parts = (("original", operations(tape)), ("rewritten", have), ("expected", list(expected)))
    shown = "\n".join(f"{title}:\n    " + "\n    ".join(lines) for title, lines in parts)
    assert have == list(expected), shown
    return out


def play(tape: Tape, *inputs: Any) -> list[Any]:
    with np.errstate(all="ignore"):
        check_types(tape, inputs)
        return tape.play_flat(inputs)


X, Y = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])

# ------------------------------------------------------------------------------------------------------ fold


def tape_of(*ops: Any, result: int) -> Tape:
    """A tape written by hand: inputs are arrays, constants numbers, calls ``(fn, *args)`` with "%1" for variables."""
    tape = Tape("f")
    values: list[Any] = [None]

    def arg(x: Any) -> Any:
        return Variable(int(x[1:])) if isinstance(x, str) else x

    for op in ops:
        if isinstance(op, tuple):
            args = tuple(map(arg, op[1:]))
            with np.errstate(all="ignore"):
                value = op[0](*(values[a.id] if isinstance(a, Variable) else a for a in args))
            tape.append(Call(op[0], args, {}, typeof(value)))
        elif isinstance(op, np.ndarray):
            value = op
            tape.leaves.append(tape.append(Input(f"x{len(tape)}", typeof(op))))
        else:
            value = op
            tape.append(Constant(op, typeof(op)))
        values.append(value)
    tape.results = [Variable(result)]
    return verify(tape)


def test_fold_numbers() -> None:
    tape = tape_of(X, 2.0, (np.multiply, "%2", 3.0), (np.sin, "%3"), (np.multiply, "%1", "%4"), result=5)
    out = assert_ir(tape, fold, "const %2 = 2.0 :: float64", f"%3 = multiply(%1, {math.sin(6.0)!r})", "return %3")
    assert_close(play(out, X)[0], X * np.sin(6), "value")


def test_fold_uniform_arrays() -> None:
    tape = tape_of(X, 2.0, (np.broadcast_to, "%2", (3,)), (np.multiply, "%3", 3.0), (np.add, "%1", "%4"), result=5)
    out = verify(fold(tape))
    assert "broadcast_to(6.0, (3,))" in " ".join(operations(out))
    assert_close(play(out, X)[0], X + 6, "value")


def test_fold_keeps_dtypes() -> None:
    """A uniform array is not as weakly typed as the Python number it was made of."""
    tape = tape_of(
        X.astype(np.float32), 0.1, (np.broadcast_to, "%2", (3,)), (np.multiply, "%3", np.float32(3)),
        (np.add, "%1", "%4"), result=5,
    )  # fmt: skip
    want = play(tape, X.astype(np.float32))[0]
    for step in (fold, simplify):
        have = play(step(tape), X.astype(np.float32))[0]
        assert have.dtype == want.dtype == np.float64 and np.array_equal(have, want), step


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_fold_views_of_numbers(dtype: Any) -> None:
    """What looks at equal elements in another way is one number, in its dtype."""
    tape = traced(lambda x: x * np.ravel(np.reshape(np.ones((1, 3), dtype), (3, 1)).T), X.astype(dtype))
    out = fold(fold(tape))
    assert {op.fn for op in out.ops if isinstance(op, Call)} <= {np.multiply, np.broadcast_to}
    (value,) = play(out, X.astype(dtype))
    assert value.dtype == dtype
    np.testing.assert_array_equal(value, X.astype(dtype))


@pytest.mark.parametrize("f", [
    lambda x: x[1], lambda x: x[-1] * 1.0, lambda x: np.sum(x[::2] * 2.0), lambda x: x[None, 0, ...],
])  # fmt: skip
def test_fold_what_is_added_into_zeros(f: Any) -> None:
    """A number that goes back through an index is read by a kernel, which reads arrays."""
    gradient = differentiate(record_call(lambda x: np.sum(f(x)), (X,), {}))
    tape = verify(lower(gradient).tape)
    out = verify(fold(fold(tape)))
    for call in (op for op in out.ops if isinstance(op, Call) and op.fn is unindex):
        assert isinstance(call.args[0], Variable)
    assert not [step for step in fuse(optimise(tape)).steps if isinstance(step, Python)]
    for have, want in zip(play(out, X), play(tape, X), strict=True):
        assert_close(have, want, "gradient")


def test_fold_leaves_inputs_captured_arrays_and_unknown_functions() -> None:
    table = np.array(2.0)
    tape = traced(lambda x: x * np.sin(table) + np.sort(np.array([2.0, 1.0]))[0], X)
    assert any(isinstance(op, Constant) and op.captured is not None for op in fold(tape).ops)
    assert sum(isinstance(op, Call) and op.fn is np.sin for op in fold(tape).ops) == 1


def test_a_decision_on_a_known_number_goes() -> None:
    tape = Tape("f")
    x = tape.append(Input("x", typeof(X)))
    two = tape.append(Constant(2.0, typeof(2.0)))
    more = tape.append(Call(np.greater, (two, 1.0), {}, typeof(np.True_)))
    tape.append(Guard(more, True, bool, typeof(True)))
    small = tape.append(Call(np.max, (x,), {}, typeof(np.float64(1))))
    tape.append(Guard(small, 3.0, float, typeof(3.0)))
    tape.leaves, tape.results = [x], [x]
    guards = [op for op in optimise(verify(tape), verify).ops if isinstance(op, Guard)]
    assert [g.test for g in guards] == [float]


# ------------------------------------------------------------------------------------------------------- cse


def test_cse() -> None:
    tape = traced(lambda x, y: np.sin(x) * y + np.sin(x) * y, X, Y)
    lines = ["%3 = sin(%1)", "%4 = multiply(%3, %2)", "%5 = add(%4, %4)", "return %5"]
    out = assert_ir(tape, lambda t: dce(cse(t)), *lines)
    assert_close(play(out, X, Y)[0], 2 * np.sin(X) * Y, "value")


@pytest.mark.parametrize("f", [
    lambda x: np.copysign(x, 0.0) - np.copysign(x, -0.0),
    lambda x: (x.astype(np.float32) * 1) + (x.astype(np.float32) * 1.0) * np.float64(1),
    lambda x: np.sum(x, axis=0) + np.sum(x, axis=0, keepdims=True), lambda x: x[0:2] * x[1:3],
    lambda x: np.where(x > 1, 1, 0) + np.where(x > 1, 1.0, 0.0) + np.where(x > 1, True, False),
    lambda x: x * np.float32(0.1) + x * np.float64(0.1),
])  # fmt: skip
def test_cse_tells_apart(f: Callable[[Any], Any]) -> None:
    tape = traced(f, X)
    assert_close(play(verify(cse(tape)), X)[0], f(X), "value", 1e-15)


def test_cse_does_not_unite_impure_functions() -> None:
    count = iter(range(10))
    draw = lambda x: x + next(count)  # noqa: E731
    tape = tape_of(X, (draw, "%1"), (draw, "%1"), (np.add, "%2", "%3"), result=4)
    assert len(cse(tape)) == len(tape)


# ----------------------------------------------------------------------------------------------------- lower


def test_a_lowering_that_gives_another_dtype_is_not_used() -> None:
    halved = primitive(lambda x: np.float32(0.5) * x)
    nondiff(halved, lowering=lambda x: np.multiply(x, np.float64(0.5)))
    narrow, wide = np.ones(3, np.float32), np.ones(3)
    for x, fn in ((narrow, halved), (wide, np.multiply)):
        assert [op.fn for op in dce(traced(halved, x)).ops if isinstance(op, Call)] == [fn]


# ------------------------------------------------------------------------------------------------------- dce


def test_dce() -> None:
    tape = traced(lambda x, y: (np.sin(x), np.cos(y), np.exp(np.tanh(y)))[0], X, Y)
    assert_ir(tape, dce, "%3 = sin(%1)", "return %3")


def test_dce_keeps_what_guards_need() -> None:
    def f(x: Any) -> Any:
        return x * 2 if np.sum(x) > 0 else x

    out = verify(dce(traced(f, X)))
    assert [op.test for op in out.ops if isinstance(op, Guard)] == [bool]
    assert any(isinstance(op, Call) and op.fn is np.sum for op in out.ops)


# -------------------------------------------------------------------------------------------------- simplify

NUMBERS = {"x * 1 = x": 1.0, "x * -1 = -x": -1.0, "x / 1 = x": 1.0, "x - +0 = x": 0.0, "x ** 1 = x": 1.0,
           "x ** 2 = x * x": 2.0, "x ** 3 = x * x * x": 3.0, "x ** 0.5 = sqrt x": 0.5, "x ** -1 = 1 / x": -1.0,
           "dy * 1 = dy": 1.0, "dy * c, c finite": -3.0}  # fmt: skip
FIRST = {"1 * x = x": 1.0, "-1 * x = -x": -1.0, "1 * p = p": 1.0, "c * p, c not 0": 2.5}
MORE: dict[str, Any] = {
    "to its own shape": lambda fn, x: [(fn, "%1", x.shape)],
    "reshape of reshape": lambda fn, x: [(fn, "%1", (1, x.size)), (fn, "%2", (x.size, 1))],
    "to its own dtype": lambda fn, x: [(fn, "%1", x.dtype)],
    "-(-x) = x": lambda fn, x: [(fn, "%1"), (fn, "%2")],
    "x.T.T = x": lambda fn, x: [(fn, "%1"), (fn, "%2")],
    "real(joined(x, y)) = x": lambda fn, x: [(np.negative, "%1"), (joined, "%1", "%2"), (fn, "%3")],
    "imag(joined(x, y)) = y": lambda fn, x: [(np.negative, "%1"), (joined, "%1", "%2"), (fn, "%3")],
    "joined(real z, imag z) = z": lambda fn, x: [
        (np.multiply, "%1", 1 + 2j), (np.real, "%2"), (np.imag, "%2"), (fn, "%3", "%4"),
    ],
}  # fmt: skip


def left_hand_side(name: str, fn: Any, x: np.ndarray) -> Tape:
    """The least tape to which an equation applies."""
    if name in NUMBERS:
        calls = [(fn, "%1", NUMBERS[name])]
    elif name in FIRST:
        calls = [(fn, FIRST[name], "%1")]
    else:
        calls = MORE.get(name, lambda fn, x: [(fn, "%1")])(fn, x)
    return tape_of(x, *calls, (np.add, f"%{len(calls) + 1}", 0.5), result=len(calls) + 2)


ROWS = [(name, fn) for fns, name, _ in EQUATIONS for fn in fns]


@pytest.mark.parametrize(("name", "fn"), ROWS, ids=[f"{name} ({fn.__name__})" for name, fn in ROWS])
def test_equations_hold(name: str, fn: Any) -> None:
    """Each changes the tape, and gives the same numbers, special ones included (signs: see ``test_dtypes.py``)."""
    for x in (np.array([*SPECIAL, 1e-160, 1e160]), np.array([*SPECIAL, 1e-20, 1e20], np.float32)):
        with np.errstate(all="ignore"):
            if fn is np.power:  # of -inf it gives something else than the operator in older versions of NumPy
                x = x[np.isclose(np.power(x, NUMBERS[name]), x ** NUMBERS[name], equal_nan=True)]
            tape = left_hand_side(name, fn, x)
        out = verify(simplify(tape))
        dead = verify(dce(out))
        calls = [op.fn for op in dead.ops if isinstance(op, Call)]
        assert calls.count(fn) < sum(isinstance(op, Call) and op.fn is fn for op in tape.ops) or (
            fn in (np.multiply, operator.mul) and np.negative in calls
        ), "the equation has not been applied"
        rtol = 4 * np.finfo(x.dtype).eps if "**" in name else 0.0
        for have, want in zip(play(dead, x), play(tape, x), strict=True):
            assert have.dtype == want.dtype and have.shape == want.shape
            assert np.allclose(have, want, rtol=rtol, atol=0, equal_nan=True), (name, x, have, want)


def test_all_equations_are_exercised() -> None:
    assert {name for _, name, _ in EQUATIONS} >= {*NUMBERS, *FIRST, *MORE}, "a row that is no longer there"


OTHER_TYPES: dict[str, np.ndarray] = {
    "uint8": np.array([1, 2, 200], np.uint8), "int8": np.array([1, 2, -128], np.int8),
    "int64": np.array([1, 2, 2**40]), "bool": np.array([True, False, True]),
    "float16": np.array([1, 2, 300], np.float16), "float32": np.array([1, 2, 1e30], np.float32),
    "complex64": np.array([1 + 2j, -3j, 1e-3], np.complex64),
}  # fmt: skip


@pytest.mark.parametrize("dtype", OTHER_TYPES)
@pytest.mark.parametrize("fn", [np.multiply, np.power, np.subtract, np.divide, strong_multiply])
def test_equations_keep_types(fn: Any, dtype: str) -> None:
    """What NumPy's promotion makes of the operands stays: dtype, and the precision of the computation."""
    x = OTHER_TYPES[dtype]
    numbers = [2.0, np.float64(2), -1.0, np.float64(-1), 1.0, np.float64(1), 0.5, 3, 2, -1, 1, 0]
    for args in [pair for number in numbers for pair in (("%1", number), (number, "%1"))]:
        try:
            with np.errstate(all="ignore"):
                tape = tape_of(x, (fn, *args), result=2)
        except (TypeError, ValueError, OverflowError):
            continue
        have, want = play(verify(simplify(tape)), x)[0], play(tape, x)[0]
        rtol = 4 * np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0
        assert have.dtype == want.dtype and np.allclose(have, want, rtol=rtol, equal_nan=True), (args, have, want)


@pytest.mark.parametrize("fn", [np.multiply, np.power, np.divide, np.subtract, strong_multiply])
def test_equations_keep_shapes(fn: Any) -> None:
    """A number known in every element may be that of a larger array."""
    numbers = [1.0, -1.0, 2.0, 0.5, 3.0, 0.0, -2.0]
    for number, args in itertools.product(numbers, (("%1", "%3"), ("%3", "%1"))):
        with np.errstate(all="ignore"):
            tape = tape_of(X, number, (np.broadcast_to, "%2", (2, 3)), (fn, *args), (np.add, "%4", 1.0), result=5)
            want = play(tape, X)[0]
            for step in (simplify, lambda t: simplify(fold(t))):
                assert_close(play(verify(step(tape)), X)[0], want, f"{fn} {number}")


def test_zero_times_infinity_is_zero_for_cotangents() -> None:
    x = np.array([np.inf, np.nan, 1.0])
    for number in (0.0, 1.0, -2.0, np.inf, np.nan):
        for args in ((number, "%1"), ("%1", number)):
            tape = tape_of(x, (strong_multiply, *args), result=2)
            assert np.array_equal(play(simplify(tape), x)[0], play(tape, x)[0], equal_nan=True)


@pytest.mark.parametrize(
    "f",
    [lambda x: (10**20 * x)[0], lambda x: np.where(x > 2, x * -(10**30), x), lambda x: np.sin(x / 10**25 * 10**25),
     lambda x: (10**20) ** x * 1e-20],
)  # fmt: skip
def test_integers_of_more_than_64_bits(f: Program) -> None:
    for k in range(3):
        _, (dx,) = grad(loss := lambda x: np.sum(f(x)), x := np.arange(1.0, 4.0) + k)
        assert_close(dx, Gradient().interpret(Request(loss, (x,), {}))[1][0], "compiled, fresh")
    assert explain(loss)[0].calls == 2


def test_operands_are_not_broadcast_twice() -> None:
    y = np.ones((4, 3))
    tape = traced(lambda x, y: np.broadcast_to(x, (4, 3)) * y, X, y)
    out = assert_ir(tape, lambda t: dce(simplify(t)), "%3 = multiply(%1, %2)", "return %3")
    assert_close(play(out, X, y)[0], X * y, "value")
    tape = traced(lambda x: np.broadcast_to(x, (4, 3)) * 2, X)  # here the broadcast makes the shape
    assert play(dce(simplify(tape)), X)[0].shape == (4, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_broadcast_number_stays_strong(dtype: Any) -> None:
    x = X.astype(dtype)
    tape = traced(lambda s, x: np.broadcast_to(s, (3,)) * x, 0.1, x)
    assert play(dce(simplify(tape)), 0.1, x)[0].dtype == np.float64


def test_astype() -> None:
    tape = traced(lambda x: x.astype(np.float64) * x.astype(np.float32), X)
    out = verify(dce(simplify(tape)))
    assert sum(isinstance(op, Call) and op.fn is astype for op in out.ops) == 1


# ----------------------------------------------------------------------------------------------- all of them


def test_a_gradient_comes_down_to_little() -> None:
    gradient = differentiate(record_call(lambda x, y: np.sum(x * y + np.sin(x)), (X, Y), {}))
    out = optimise(verify(lower(gradient).tape), verify)
    names = sorted(getattr(op.fn, "__name__", "") for op in out.ops if isinstance(op, Call))
    assert len(names) <= 8 and {"multiply", "sin", "cos", "sum"} <= set(names), out.show("plain")


@settings(max_examples=examples(10, share=10), deadline=None, derandomize=True, database=None, phases=[Phase.generate],
          suppress_health_check=list(HealthCheck), report_multiple_bugs=False)  # fmt: skip
@given(programs())
def test_passes_change_no_value(f: Program) -> None:
    """After every pass: well formed, each value of the type that is written there, and the same results."""
    with np.errstate(all="ignore"):
        args = f.draw(0)
        tape = verify(lower(differentiate(record_call(f.total, args, {}))).tape)
        want = tape.play_flat(args)
        for step in PIPELINE:
            tape = verify(step(tape))
            check_types(tape, args)
            for have, expected in zip(tape.play_flat(args), want, strict=True):
                assert_close(have, expected, step.__name__, f.rtol)


@pytest.mark.parametrize(("dtype", "factor"), [(np.float16, 1e5), (np.float16, 100_000), (np.float32, 1e39)])
def test_numbers_that_are_infinite_in_the_precision_of_arrays(dtype: Any, factor: Any) -> None:
    x = np.array([1.0, -2.0], dtype)
    with np.errstate(all="ignore"):
        for _ in range(3):
            _, (slope,) = grad(lambda x: np.sum(np.reciprocal(x * factor)), x)
            np.testing.assert_array_equal(slope, [0.0, 0.0])


@pytest.mark.parametrize("factor", [np.float32(0.3), np.float16(0.5), np.int8(3), np.longdouble(2), 2, 0.3])
@pytest.mark.parametrize("dtype", [float, np.float32, np.float16, complex, np.complex64])
def test_numbers_of_all_kinds_beside_arrays_of_others(dtype: Any, factor: Any) -> None:
    """Nobody hears of overflow in what the compiler asks."""
    x = np.array([0.5, 0.25], dtype)
    config.compile = "never"
    with np.errstate(all="ignore"):
        want = grad(lambda x: np.sum(np.abs(x * factor * x)), x)
        config.compile = "always"
        program = gradient(lambda x: np.sum(np.abs(x * factor * x)))
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        program.compile(x)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(program(x), want[1][0], rtol=1e-2 if dtype is np.float16 else 1e-6)
