"""Tapes: what they look like, playing them, checking them, and that nothing about them is recursive."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import Tape, config, gradtape, trace
from yota_py.base.types import OpaqueType, typeof
from yota_py.errors import GuardError, VerifyError
from yota_py.registry.tangents import getfield
from yota_py.tape.operations import Call, Constant, Guard, Input, Variable, operands
from yota_py.tape.verify import verify

# The design's example, as a file of its own, so that its lines have known numbers.
DEMO = """\
import numpy as np


def f(x1, x2):
    return x1 * x2 + np.sin(x1)
"""

COMPACT = """\
Tape f                                      # demo.py:4
  inp %1 :: float64                         # x1
  inp %2 :: float64                         # x2
  %4, %5 = [%3] = rrule(multiply, %1, %2)   # demo.py:5
  %7, %8 = [%6] = rrule(sin, %1)
  %10, %11 = [%9] = rrule(add, %4, %7)
  const %12 = 1.0 :: float64                # seed
  %14, %15 = [%13] = %11(%12)               # pullback of %10
  %17 = [%16] = %8(%15)                     # pullback of %7
  %19 = [%18] = %5(%14)                     # pullback of %4
  %20 = add(%17, %19)                       # d%1: several paths
  %21 = getfield(%18, 1)                    # d%4/d%2
  return (%10, %20, %21)"""

PLAIN = """\
Tape f                                                    # demo.py:4
  inp %1 :: float64                                       # x1
  inp %2 :: float64                                       # x2
  %3 = rrule(multiply, %1, %2) :: (float64, function)     # demo.py:5
  %4 = getfield(%3, 0) :: float64
  %5 = getfield(%3, 1) :: function
  %6 = rrule(sin, %1) :: (float64, function)
  %7 = getfield(%6, 0) :: float64
  %8 = getfield(%6, 1) :: function
  %9 = rrule(add, %4, %7) :: (float64, function)
  %10 = getfield(%9, 0) :: float64
  %11 = getfield(%9, 1) :: function
  const %12 = 1.0 :: float64                              # seed
  %13 = %11(%12) :: (float64, float64)                    # pullback of %10
  %14 = getfield(%13, 0) :: float64                       # d%10/d%4
  %15 = getfield(%13, 1) :: float64                       # d%10/d%7
  %16 = %8(%15) :: (float64)                              # pullback of %7
  %17 = getfield(%16, 0) :: float64                       # d%7/d%1
  %18 = %5(%14) :: (float64, float64)                     # pullback of %4
  %19 = getfield(%18, 0) :: float64                       # d%4/d%1
  %20 = add(%17, %19) :: float64                          # d%1: several paths
  %21 = getfield(%18, 1) :: float64                       # d%4/d%2
  return (%10, %20, %21)"""

PRIMAL = """\
Tape f                                      # demo.py:4
  inp %1 :: float64                         # x1
  inp %2 :: float64                         # x2
  %3 = multiply(%1, %2)                     # demo.py:5
  %4 = sin(%1)
  %5 = add(%3, %4)
  return %5"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """The function of the design's example."""
    path: Path = tmp_path_factory.mktemp("demo") / "demo.py"
    path.write_text(DEMO)
    namespace: dict[str, Any] = {"__name__": "demo"}
    exec(compile(DEMO, str(path), "exec"), namespace)
    return namespace["f"]  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------------------------- printing


def test_the_gradient_tape_reads_as_designed(demo: Callable[..., Any]) -> None:
    tape = gradtape(demo, 2.0, 3.0)
    assert str(tape) == tape.show() == tape.show("compact") == COMPACT
    assert tape.show("plain") == PLAIN
    assert str(trace(demo, 2.0, 3.0)) == PRIMAL


def test_unknown_styles_are_named(demo: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="'compact' or 'plain', not 'html'"):
        trace(demo, 2.0, 3.0).show("html")  # type: ignore[arg-type]


def test_notebooks_get_escaped_text(demo: Callable[..., Any]) -> None:
    text = trace(lambda x: x if x < 3 else -x, 2.0)._repr_html_()
    assert text.startswith("<pre>Tape &lt;lambda&gt;") and text.endswith("</pre>")


def test_arguments_are_printed_shortly() -> None:
    text = str(
        trace(lambda x: np.sum(np.clip(x[1:, ::2], 0.0, None) * np.ones((1, 2)), axis=(0, 1)), np.ones((100, 4)))
    )
    assert "float64[100,4]" in text and "(1:, ::2)" in text and "axis=(0, 1)" in text
    assert "1., 1." not in text  # no dumps of arrays
    guarded = str(trace(lambda x: x if x > 1 else -x, 2.0))
    assert "bool(%2) must be True" in guarded


# ------------------------------------------------------------------------------------------- looking at operations


def test_operations_are_reached_by_number_or_variable(demo: Callable[..., Any]) -> None:
    tape = trace(demo, 2.0, 3.0)
    assert len(tape) == 5 and tape.inputs == [Variable(1), Variable(2)]
    add = tape[5]
    assert isinstance(add, Call) and add is tape[Variable(5)]
    assert add.args == (Variable(3), Variable(4)) and list(operands(add)) == [Variable(3), Variable(4)]
    assert [var.id for var, _ in tape] == [1, 2, 3, 4, 5]
    assert isinstance(tape[1], Input) and tape[1].name == "x1"
    for bad in (0, 6, -1):
        with pytest.raises(IndexError, match=f"no variable %{bad} on this tape of 5 operations"):
            tape[bad]


def test_operations_are_immutable_and_appended_at_the_end(demo: Callable[..., Any]) -> None:
    tape = trace(demo, 2.0, 3.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tape[5].note = "changed"  # type: ignore[misc]
    before = list(tape.ops)
    assert tape.append(Constant(1.0, typeof(1.0))) == Variable(6)
    assert all(a is b for a, b in zip(before, tape.ops, strict=False)) and len(tape) == 6
    with pytest.raises(TypeError):
        tape[5] = tape[4]  # type: ignore[index]


def test_sites_are_the_users_lines() -> None:
    def helper(y: Any) -> Any:
        return np.exp(y)

    def f(x: Any) -> Any:
        y = x * 2
        return helper(y).sum()

    first = f.__code__.co_firstlineno
    sites = [op.site for _, op in trace(f, np.ones(3)) if isinstance(op, Call)]
    lines = [(site.line, site.function) for site in sites if site is not None]
    assert lines == [(first + 1, "f"), (helper.__code__.co_firstlineno + 1, "helper"), (first + 2, "f")]
    assert all(site is not None and site.filename == __file__ for site in sites)
    assert str(sites[0]) == f"test_tape.py:{first + 1}"


def test_sites_skip_libraries() -> None:
    tape = trace(lambda x: max([x * 1.0, x * 2.0], key=lambda v: np.mean(v)).sum(), np.ones(3))
    assert {op.site.filename for _, op in tape if op.site is not None} == {__file__}


# --------------------------------------------------------------------------------------------------------- playing


def test_a_tape_plays_other_arguments(demo: Callable[..., Any]) -> None:
    primal, gradient = trace(demo, 2.0, 3.0), gradtape(demo, 2.0, 3.0)
    for a, b in [(2.0, 3.0), (0.5, -1.0), (-7.0, 0.0)]:
        assert primal.play(a, b) == demo(a, b)
        value, (da, db) = gradient.play(a, b)
        assert_allclose((value, da, db), (demo(a, b), b + math.cos(a), a))


def test_playing_keeps_structure() -> None:
    def f(p: dict[str, Any], pair: tuple[Any, Any]) -> dict[str, Any]:
        return {"y": p["w"] * pair[0], "z": [pair[1], None, "text"]}

    tape = trace(f, {"w": np.ones(2)}, (2.0, 3.0))
    out = tape.play({"w": np.arange(2.0)}, (5.0, 6.0))
    assert_array_equal(out["y"], [0.0, 5.0])
    assert out["z"] == [6.0, None, "text"]
    with pytest.raises(TypeError, match="structure"):
        tape.play({"w": np.ones(2)}, [2.0, 3.0])
    with pytest.raises(TypeError, match="structure"):
        tape.play({"w": np.ones(2)})


def test_the_order_of_keys_is_structure() -> None:
    tape = trace(lambda p: next(iter(p.values())) ** 2, {"a": 2.0, "b": 3.0})
    assert tape.play({"a": 4.0, "b": 1.0}) == 16.0
    with pytest.raises(TypeError, match="keys stand in another order, in which the function may go through them"):
        tape.play({"b": 1.0, "a": 4.0})


def test_static_arguments_must_be_the_traced_ones() -> None:
    tape = trace(lambda x, n, mode: x * n, 2.0, 3, "a")
    assert tape.play(5.0, 3, "a") == 15.0
    for n, mode, named in [(4, "a", "3, played with 4"), (3, "b", "'a', played with 'b'")]:
        with pytest.raises(TypeError, match=named):
            tape.play(5.0, n, mode)


def test_arguments_must_have_the_traced_structure() -> None:
    tape = trace(lambda x, p, *, k: x * p["a"] * k, 2.0, {"a": 1.0}, k=3.0)
    with pytest.raises(TypeError) as caught:
        tape.play(2.0, [1.0])
    assert "traced with the arguments (*, {'a': *}, k=*), played with (*, [*]);" in str(caught.value)


def test_a_seed_is_an_input() -> None:
    tape = gradtape(lambda x: x * x, np.arange(3.0), seed=np.ones(3))
    for factor in (1.0, 2.0, -3.0):
        _, (g,) = tape.play(np.arange(3.0) + factor, seed=np.full(3, factor))
        assert_array_equal(g, 2 * (np.arange(3.0) + factor) * factor)


def test_guards_hold_or_raise() -> None:
    def f(x: Any) -> Any:
        if x > 1:
            return x * 3
        return sum(x * i for i in range(int(x * 10)))

    tape = gradtape(f, 2.0)
    assert tape.play(5.0) == (15.0, (3.0,))
    with pytest.raises(
        GuardError, match=r"test_tape.py:\d+: the tape holds for .* = True, here it is False; trace again"
    ):
        tape.play(0.5)
    small = trace(f, 0.25)
    assert small.play(0.28) == f(0.28)
    with pytest.raises(GuardError, match="= 2, here it is 3"):
        small.play(0.35)
    assert [op.expected for _, op in small if isinstance(op, Guard)] == [False, 2]


def test_guards_hold_for_whole_arrays() -> None:
    tape = gradtape(lambda x: np.sum(np.sort(x[x > 0]) ** 2), np.array([1.0, -1.0, 2.0]))
    _, (g,) = tape.play(np.array([3.0, -5.0, 4.0]))
    assert_array_equal(g, [6.0, 0.0, 8.0])
    with pytest.raises(GuardError):
        tape.play(np.array([3.0, 5.0, 4.0]))


def test_playing_leaves_arguments_alone() -> None:
    x = np.arange(3.0)
    tape = gradtape(lambda x: np.sum(np.exp(x) * x), x)
    first = tape.play(x)
    assert_array_equal(x, np.arange(3.0))
    again = tape.play(x)
    assert first[0] == again[0] and not np.shares_memory(first[1][0], again[1][0])


# -------------------------------------------------------------------------------------------------------- checking


def _broken(change: Callable[[Tape], Any]) -> Tape:
    tape = gradtape(lambda a, b: a * b + np.sin(a), 2.0, 3.0)
    verify(tape)
    change(tape)
    return tape


def _replace(i: int, **fields: Any) -> Callable[[Tape], None]:
    def change(tape: Tape) -> None:
        tape.ops[i - 1] = dataclasses.replace(tape.ops[i - 1], **fields)

    return change


def _exchange(i: int, j: int) -> Callable[[Tape], None]:
    def change(tape: Tape) -> None:
        tape.ops[i - 1], tape.ops[j - 1] = tape.ops[j - 1], tape.ops[i - 1]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_replace(7, args=(Variable(19), 0)), "%7 reads %19, which is not defined above it"),
        (_replace(7, args=(Variable(7), 0)), "%7 reads %7, which is not defined above it"),
        (_replace(7, args=(Variable(0), 0)), "%7 reads %0, which is not defined above it"),
        (_replace(7, args=([(Variable(99),)], {"k": slice(Variable(98), None)})), "%7 reads %99"),
        (_replace(7, kwargs={"where": Variable(97)}), "%7 reads %97"),
        (_replace(13, fn=Variable(10)), "%13 calls %10, an array"),
        (_replace(13, fn="no function"), "%13 calls 'no function', which is no function"),
        (_replace(12, type=typeof(np.ones(3))), "%12 is a constant of type float64 that says float64[3]"),
        (_replace(5, type=None), "%5 has no type but None"),
        (lambda tape: tape.ops.__setitem__(4, "text"), "%5 "),
        (lambda tape: tape.results.append(Variable(99)), "returns %99, which does not exist"),
        (lambda tape: tape.results.append([Variable(0)]), "returns %0, which does not exist"),
        (lambda tape: tape.leaves.reverse(), "are not its inputs"),
        (_exchange(3, 9), "%3 reads"),
    ],
)
def test_broken_tapes_are_caught(change: Callable[[Tape], Any], message: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(_broken(change))
    assert message in str(caught.value)


def test_the_lines_around_a_fault_are_shown() -> None:
    with pytest.raises(VerifyError) as caught:
        verify(_broken(_replace(8, args=(Variable(20), 1))))
    lines = str(caught.value).splitlines()
    assert lines[0] == "%8 reads %20, which is not defined above it:"
    assert [line[:6] for line in lines[1:]].count(">   %8") == 1
    assert [line.split()[0 if line[0] == " " else 1] for line in lines[1:]] == [
        "%5",
        "%6",
        "%7",
        "%8",
        "%9",
        "%10",
        "%11",
    ]


def test_opaque_values_may_be_called() -> None:
    tape = gradtape(lambda x: np.sum(x), np.ones(2))
    called = [tape[op.fn].type for _, op in tape if isinstance(op, Call) and isinstance(op.fn, Variable)]
    assert called and all(isinstance(t, OpaqueType) for t in called)


# ------------------------------------------------------------------------------------------------ long and deep


def test_twenty_thousand_operations_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing walks a tape by recursion: each operation reads the one before it."""
    monkeypatch.setattr(config, "roll", False)

    def chain(x: Any) -> Any:
        y = x
        for _ in range(10_000):
            y = y * 1.0001 + 0.1
        return y

    assert sys.getrecursionlimit() < 10_000
    tape = gradtape(chain, 1.0)
    assert len(tape) > 60_000
    assert len(verify(tape).show().splitlines()) > 20_000
    value, (g,) = tape.play(-2.0)
    assert_allclose((value, g), (chain(-2.0), 1.0001**10_000), rtol=1e-9)


def test_a_thousand_paths() -> None:
    def fan(x: Any) -> Any:
        return sum(x * k for k in range(1, 1001))

    value, (g,) = gradtape(fan, np.ones(2), seed=np.ones(2)).play(np.full(2, 2.0), seed=np.ones(2))
    assert_array_equal(value, np.full(2, 2.0 * 500500))
    assert_array_equal(g, np.full(2, 500500.0))


def test_lists_are_taken_apart_once() -> None:
    """The cotangent of a list of lists is taken out of those of all arguments once, and every part of it is printed."""
    tape = gradtape(lambda x: np.sum([[x, x], [1.0, x * x]]), 2.0)
    fields = [(op.args[0], op.args[1]) for op in tape.ops if isinstance(op, Call) and op.fn is getfield]
    assert len(fields) == len(set(fields))
    defined = {name for line in str(tape).splitlines() for name in re.findall(r"%\d+", line.partition("#")[0])}
    assert {f"%{i}" for i in range(1, len(tape.ops) + 1)} == defined
