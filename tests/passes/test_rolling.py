"""Loops that Python has unrolled become loops again, and compute what their turns did."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import loops
import numpy as np
import optree
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from sets import SEQUENCES, examples

from yota_py import config, explain, grad, gradtape, jit, primitive, rrule, trace
from yota_py.base.refusal import Decision, Refusal
from yota_py.capture.recording import record_call
from yota_py.engine.compile import compile_gradient
from yota_py.engine.plan import repeat
from yota_py.errors import GuardError
from yota_py.passes import repeats, roll
from yota_py.passes.lower import lower_gradient
from yota_py.passes.pipeline import optimise
from yota_py.tape.loop import as_loop
from yota_py.tape.tape import Tape
from yota_py.tape.verify import verify

R = np.random.default_rng(0)
SAME = not SEQUENCES  # programs each time: of others, chaos may be mistaken for a fault


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of few turns and operations are rolled up as well."""
    monkeypatch.setattr(repeats, "LEAST_TURNS", 3)
    for module in (repeats, roll):
        monkeypatch.setattr(module, "LEAST_SAVED", 12)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is carried lies in memory as if it were large."""
    monkeypatch.setattr(repeat, "SMALL_BYTES", 0)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in optree.tree_leaves(tree)]


def close(have: Any, want: Any, rtol: float = 1e-8) -> None:
    for x, y in zip(leaves(have), leaves(want), strict=True):
        tolerance = max(rtol, 1e-5 if np.float32 in (x.dtype, y.dtype) else 0.0)
        np.testing.assert_allclose(x, y, tolerance, tolerance * max(1.0, np.max(np.abs(y), initial=0.0)))
        assert x.dtype == y.dtype


def loops_of(tape: Tape) -> Iterator[Any]:
    for _, op in tape:
        if (loop := as_loop(op)) is not None:
            yield loop
            yield from loops_of(loop.body)


def defined(f: Callable[..., Any], *calls: tuple[Any, ...]) -> None:
    """Random functions may come to systems of equations that have no solution."""
    for args in calls:
        try:
            with np.errstate(all="ignore"):
                f(*args)
        except np.linalg.LinAlgError:
            reject()


def check(f: Callable[..., Any], *args: Any, others: tuple[tuple[Any, ...], ...] = ()) -> Tape | None:
    """A function with its loops rolled up computes what it did: played, lowered, compiled; ``None`` without loops."""
    source = record_call(f, args, {})
    rolled = roll.roll(source)
    if rolled is source:
        return None
    verify(rolled.tape)
    for loop in loops_of(rolled.tape):
        verify(loop.body)
    flat = [x for x in leaves(args) if x.dtype.kind == "f"]
    close(rolled.tape.play(*args), source.tape.play(*args))
    want = grad(f, *args)
    low = optimise(lower_gradient(rolled)[1].tape, verify)
    for loop in loops_of(low):
        verify(loop.body)
    close(low.play_flat([x if x.shape else float(x) for x in flat]), want)
    _, program = compile_gradient(source)
    close(program(*flat) if all(x.shape for x in flat) else program(*optree.tree_leaves(args)), want)
    for other in others:
        result = program(*optree.tree_leaves(other))
        if isinstance(result, Refusal):
            with pytest.raises(GuardError):
                source.tape.play(*other)
            assert isinstance(result, Decision)
        else:
            close(result, grad(f, *other))
    return rolled.tape


# ---------------------------------------------------------------------------------------- what becomes a loop


def euler(x: Any, a: Any) -> Any:
    for _ in range(300):
        x = x + 0.01 * np.sin(a * x)
    return np.sum(x)


def garch(p: Any, r: Any) -> Any:
    s2 = np.empty(len(r))
    s2[0] = p[0]
    for t in range(1, len(r)):
        s2[t] = p[0] + p[1] * r[t - 1] ** 2 + p[2] * s2[t - 1]
    return np.sum(np.log(s2) + r**2 / s2)


def residuals(p: Any, x: Any, y: Any) -> Any:
    err = np.zeros(len(x))
    for i in range(len(x)):
        err[i] = y[i] - p[0] * np.exp(-p[1] * x[i])
    return np.sum(err**2)


def lorenz(p: Any) -> Any:
    x = np.array([1.0, 2.0, 3.0])

    def rhs(x: Any) -> Any:
        return np.array([p[0] * (x[1] - x[0]), x[0] * (p[1] - x[2]) - x[1], x[0] * x[1] - p[2] * x[2]])

    h = 0.01
    for _ in range(40):
        k1 = rhs(x)
        k2 = rhs(x + h / 2 * k1)
        k3 = rhs(x + h / 2 * k2)
        k4 = rhs(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x.sum()


def deciding(xs: Any) -> Any:
    h, out = 0.0, []
    for x in xs:
        if h > 10:
            h = h * 0.5
        h = np.tanh(h + x)
        out.append(h)
    return np.sum(np.array(out) ** 2)


def autoregression(p: Any, y: Any) -> Any:
    s = 0.0
    for t in range(2, len(y)):
        e = y[t] - p[0] - p[1] * y[t - 1] - p[2] * y[t - 2]
        s += 0.5 * e * e
    return s


def two_back(p: Any) -> Any:
    a, b, out = p[0], p[1], []
    for t in range(200):
        a, b = 0.5 * a - 0.3 * b + p[2] * t, a
        out.append(a)
    return np.sum(np.stack(out) ** 2)


def nested(w: Any, x: Any) -> Any:
    s = 0.0
    for i in range(20):
        h = x[i]
        for j in range(30):
            h = np.tanh(w[j] * h + 0.1)
        s = s + h
    return s


def recurrent(w: Any, u: Any, xs: Any) -> Any:
    h, loss = np.zeros(w.shape[0]), 0.0
    for t in range(len(xs)):
        h = np.tanh(w @ h + u @ xs[t])
        loss = loss + np.sum(h**2)
    return loss


def heat(u: Any, c: Any) -> Any:
    u = u.copy()
    for t in range(60):
        u[1:-1] += c * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0] = 0.1 * t
        u[-1] = u[1] * c
    return np.sum(u**2)


def indexed(a: Any) -> Any:
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i, i] * a[i, 2] * a[3, i] - np.sum(a[:, i])
    return s


def backwards(x: Any) -> Any:
    h = 0.0
    for i in range(len(x) - 1, -1, -1):
        h = np.cos(h * x[i]) + x[i - 1]
    return h


def layers(ws: Any, x: Any) -> Any:
    for w in ws:
        x = np.tanh(w @ x) + 0.1 * x
        x = x / np.sqrt(1 + np.sum(x * x))
    return np.sum(x)


def midpoint(p: Any, z: Any) -> Any:  # a turn does the same twice, with other numbers
    def slope(z: Any) -> Any:
        return np.array([p[0] * z[0] - p[1] * z[0] * z[1], p[1] * z[0] * z[1] - z[1]])

    out = []
    for _ in range(30):
        z = z + 0.05 * slope(z + 0.025 * slope(z))
        out.append(z)
    return np.sum(np.array(out) ** 2)


def thirds(x: Any) -> Any:
    for _ in range(30):
        for c in (0.1, 0.2, 0.3):
            x = np.sin(x + c) * c + x * 0.5
    return np.sum(x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "euler": (euler, (np.ones(10), 2.0)),
    "garch": (garch, (np.array([0.1, 0.2, 0.3]), R.normal(size=60))),
    "residuals": (residuals, (np.array([0.1, 0.2]), R.normal(size=80), R.normal(size=80))),
    "lorenz": (lorenz, (np.array([10.0, 28.0, 8 / 3]),)),
    "deciding": (deciding, (R.normal(size=90),)),
    "autoregression": (autoregression, (np.array([0.1, 0.2, 0.3]), R.normal(size=60))),
    "two_back": (two_back, (np.array([0.1, 0.2, 0.3]),)),
    "nested": (nested, (R.normal(size=30), R.normal(size=20))),
    "recurrent": (recurrent, (R.normal(size=(4, 4)), R.normal(size=(4, 3)), R.normal(size=(60, 3)))),
    "heat": (heat, (R.normal(size=100), 0.1)),
    "indexed": (indexed, (R.normal(size=(40, 40)),)),
    "backwards": (backwards, (R.normal(size=120),)),
    "midpoint": (midpoint, (np.array([0.3, 0.2]), np.array([1.0, 0.5]))),
    "thirds": (thirds, (R.normal(size=3),)),
    "layers": (layers, ([R.normal(size=(4, 4)) for _ in range(40)], R.normal(size=4))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_is_short_and_computes_what_its_turns_did(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, args = PROGRAMS[name]
    others = tuple(optree.tree_map(lambda x, k=k: x * (1 + 0.01 * k), args) for k in (1, 2))
    tape = check(f, *args, others=others)  # type: ignore[arg-type]
    assert tape is not None
    monkeypatch.setattr(config, "roll", False)
    assert len(tape) < 0.2 * len(record_call(f, args, {}).tape)


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_calls_of_a_cached_gradient_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    monkeypatch.setattr(config, "check", True)
    f, args = PROGRAMS[name]
    for k in range(4):
        grad(f, *optree.tree_map(lambda x, k=k: x * (1 + 0.01 * k), args))
    said = str(explain(f))
    assert "3 calls ran compiled code" in said, said
    assert "in NumPy" not in said


def test_residuals_without_a_carry_become_operations_on_arrays() -> None:
    tape = check(residuals, *PROGRAMS["residuals"][1])
    assert tape is not None
    assert not [*loops_of(tape)]


def test_what_is_rolled_up_is_printed_in_few_lines() -> None:
    def f(x: Any, a: Any) -> Any:
        for _ in range(1000):
            x = x + 0.01 * np.sin(a * x)
        return np.sum(x)

    text = trace(f, np.ones(3), 2.0).show()
    assert "1000 turns; carried: %1" in text
    assert len(text.splitlines()) < 40
    assert len(gradtape(f, np.ones(3), 2.0).show().splitlines()) < 40
    assert trace(f, np.ones(3), 2.0).play(np.zeros(3), 1.0) == 0


def test_rolling_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "roll", False)
    assert len(trace(euler, np.ones(3), 2.0)) > 1000
    with pytest.raises(ValueError, match=r"config\.roll is True or False"):
        config.roll = 1  # type: ignore[assignment]


def test_a_step_in_python_keeps_turns_side_by_side() -> None:
    @primitive
    def odd(x: Any) -> Any:
        return np.float64(float(x) ** 3)

    @rrule(odd)
    def _(x: Any) -> Any:
        return odd(x), lambda dy: (dy * 3 * x * x,)

    def f(x: Any) -> Any:
        for _ in range(100):
            x = 0.9 * odd(x) + 0.1
        return x

    assert check(f, 0.5, others=((0.4,), (0.6,))) is not None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_stay(dtype: Any) -> None:
    def f(x: Any, xs: Any) -> Any:
        for t in range(80):
            x = x * np.float32(0.9) + 0.1 * xs[t] * t
        return np.sum(x)

    assert check(f, np.ones(3, dtype), R.normal(size=(80, 3)).astype(dtype)) is not None


@pytest.mark.parametrize("place", [0, 1, 7, 41, 89])
def test_a_decision_that_fails_in_a_turn_says_which(place: int) -> None:
    xs = np.full(90, 0.5)
    other = xs.copy()
    other[place] = 50.0

    def f(xs: Any) -> Any:
        h = 0.0
        for x in xs:
            h = 0.5 * (0.1 * x if x > 10 else h + x)
        return h

    source = record_call(f, (xs,), {})
    _, program = compile_gradient(source)
    for _ in range(3):
        result = program(other)
        assert isinstance(result, Decision)
        assert (result.number, bool(result.value)) == (place, True)
        close(program(xs), grad(f, xs))


def test_paths_of_decisions_in_loops_are_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    monkeypatch.setattr(config, "check", True)
    for k in (0, 5, 5, 0, 60, 5, 60, 0):
        xs = R.normal(size=90)
        xs[k] = 40.0
        grad(lambda xs: deciding(xs) + 0.0 * xs[0], xs)


# ------------------------------------------------------------------------------------------ what is no loop


def previous_constants(x: Any) -> Any:
    s, previous = np.ones(3), np.ones(3)
    for t in range(60):
        current = np.array([t % 5, 1.0, t % 3])
        s = np.tanh(s + current * x[t])
        s = s * previous
        previous = current
    return np.sum(s)


def elements_that_move(x: Any) -> Any:
    d = np.zeros(5)
    for t in range(60):
        d[4] += x[t]
        d = np.tanh(np.roll(d, 1) * 0.9)
        d[t % 4] += np.sin(x[t])
    return np.sum(d**2)


def signs_of_zeros(x: Any) -> Any:
    s = 0.0
    for t in range(60):
        s = np.tanh(s + np.sum(np.copysign(x[t], np.array([0.0 if t % 2 else -0.0]))))
    return s


def windows(x: Any) -> Any:
    s = 0.0
    for t in range(2, 60):
        s = np.tanh(s + np.dot(x[t - 2 : t + 1], x[:3]) + np.sum(x[: t - 1]) * 0.01)
    return s


def one_window(x: Any) -> Any:
    s = 0.0
    for t in range(2, 60):
        s = np.tanh(s + np.dot(x[t - 2 : t + 1], x[:3]) + np.sum(x[t - 2 : t + 1 : 2]))
    return s


def shifts(x: Any) -> Any:
    s = x[:6]
    for t in range(60):
        s = np.tanh(np.roll(s, t) + 0.1 * s[t % 3 : t % 3 + 1] - np.flip(s, 0))
    return np.sum(s * np.arange(6))


def triangles(x: Any) -> Any:
    s = x[:4]
    for t in range(60):
        s = np.tanh(np.tril(np.outer(s, x[:4]), -(t % 3)).sum(0) + s)
    return np.sum(s)


@primitive
def area(x: Any) -> Any:
    return np.abs(x)


@rrule(area)
def _(x: Any) -> Any:
    if x > 0:
        return np.abs(x), lambda dy: (dy,)
    return np.abs(x), lambda dy: (-dy,)


def rules_that_decide(x: Any) -> Any:
    s = 0.5
    for t in range(60):
        s = np.tanh(s + area(x[t] * 2.0) * s)
    return s


@pytest.mark.parametrize("f", [
    previous_constants, elements_that_move, signs_of_zeros, windows, one_window, shifts, triangles, rules_that_decide,
])  # fmt: skip
def test_what_turns_do_otherwise(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    monkeypatch.setattr(config, "check", True)
    x = np.linspace(-1, 1, 60)
    want = grad(f, x)
    close(trace(f, x).play(x), f(x))
    close(gradtape(f, x).play(x), want)
    close(grad(trace(f, x).play, x), want)
    for k in range(4):
        close(grad(f, x * (1 + 0.1 * k)), (f(x * (1 + 0.1 * k)), grad(f, x * (1 + 0.1 * k))[1]))
    assert explain(f)[0].calls >= 6, str(explain(f))


def test_a_window_that_moves_is_one_of_each() -> None:
    tape = check(one_window, np.linspace(-1, 1, 60))
    assert tape is not None
    assert len(tape) < 40


# --------------------------------------------------------------------------------------------- random loops


@pytest.mark.usefixtures("eager")
@settings(max_examples=examples(6), deadline=None, derandomize=SAME)
@given(st.integers(0, 10**6))
def test_random_loops_agree(seed: int) -> None:
    n = random.Random(seed).choice(loops.LENGTHS)
    f, calls = loops.function(loops.text(seed)), [loops.arguments(seed + k, n) for k in range(3)]
    defined(f, *calls)
    check(f, *calls[0], others=tuple(calls[1:]))


@pytest.mark.usefixtures("eager", "large")
@settings(max_examples=examples(4, share=5), deadline=None, derandomize=SAME)
@given(st.integers(0, 10**6))
def test_random_loops_agree_where_nothing_is_stacked(seed: int) -> None:
    n = random.Random(seed).choice(loops.LENGTHS)
    f, calls = loops.function(loops.text(seed)), [loops.arguments(seed + k, n) for k in range(2)]
    defined(f, *calls)
    check(f, *calls[0], others=tuple(calls[1:]))


@pytest.mark.usefixtures("eager")
@settings(max_examples=examples(3, share=5), deadline=None, derandomize=SAME)
@given(st.integers(0, 10**6))
def test_second_derivatives_of_random_loops_agree(seed: int) -> None:
    n = random.Random(seed).choice(loops.LENGTHS[:-2])
    f = loops.function(loops.text(seed))
    defined(f, loops.arguments(seed, n))

    def g(x: Any, y: Any, p: Any, w: Any) -> Any:
        _, (dx, _, dp, dw) = grad(f, x, y, p, w)
        return np.sum(dx * np.cos(np.arange(len(x)))) + np.sum(dp * dp) + 0.3 * np.sum(dw)

    check(g, *loops.arguments(seed, n))


@pytest.mark.usefixtures("eager")
@settings(max_examples=examples(4, share=5), deadline=None, derandomize=SAME)
@given(st.integers(0, 10**6))
def test_adjoints_of_loops_have_adjoints(seed: int) -> None:
    """The gradient of a rolled tape's gradient, which differentiates loops twice."""
    n = random.Random(seed).choice(loops.LENGTHS[3:-2])
    f, args = loops.function(loops.text(seed)), loops.arguments(seed, n)
    defined(f, args)
    source = record_call(f, args, {})
    if (rolled := roll.roll(source)) is source:
        return

    def g(tape: Tape) -> Callable[..., Any]:
        def gradients(x: Any, y: Any, p: Any, w: Any) -> Any:
            _, (_, _, dp, dw) = grad(tape.play, x, y, p, w)
            return np.sum(dp * dp) + 0.3 * np.sum(dw)

        return gradients

    close(grad(g(rolled.tape), *args), grad(g(source.tape), *args))


def test_loops_of_other_lengths_and_other_functions_after_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    monkeypatch.setattr(config, "check", True)
    for n in (90, 60, 1, 90, 0, 61, 90, 60):
        xs, p = R.normal(size=n), R.normal(size=3)
        for f, args in ((autoregression, (p, xs)), (deciding, (xs,)), (residuals, (p[:2], xs, xs + 1.0))):
            if n or f is not deciding:  # of no turns, that is a number which depends on nothing
                close(grad(f, *args)[0], f(*args))


def test_an_index_out_of_bounds_in_a_loop_is_not_dropped() -> None:
    """Nothing reads what the turns gather, but NumPy raises."""

    def f(x: Any, i: Any) -> Any:
        s, y = 0.0, x
        for _ in range(60):
            y = x[i] * 2.0
            s = np.tanh(s + x[0])
            i = i + 1 - 1
        return s + 0.0 * y[0]

    x = np.ones(5)
    run = jit(f)
    run.compile(x, np.array([1, 2]))
    close(run(x, np.array([3, 4])), f(x, np.array([3, 4])))
    with pytest.raises(IndexError):
        run(x, np.array([3, 5]))


def test_rows_of_what_is_too_large_to_be_kept() -> None:
    def read(x: Any) -> Any:
        rows = np.outer(np.arange(1.0, 61.0), x)
        s = x * 0.5
        for t in range(60):
            s = np.tanh(s) * rows[t] + 0.1 * rows[t] - 0.01 * np.sin(s) * s
        return np.sum(s)

    def summed(x: Any) -> Any:
        rows, s = np.outer(np.arange(1.0, 61.0), x), 0.0
        for t in range(60):
            s = s * 0.5 + np.sum(rows[t] * rows[t]) * 0.1 + np.sin(s)
        return s

    x = np.linspace(0, 1, 3000)
    for f in (read, summed):
        close(trace(f, x).play(x), f(x))
        close(gradtape(f, x).play(x), grad(f, x))
        grad.compile(f, x)
        for k in range(3):
            close(grad(f, x + 0.01 * k)[0], f(x + 0.01 * k))
        assert explain(f)[0].calls >= 2


def collected(x: Any) -> Any:
    states = []
    for _ in range(60):
        x = np.tanh(x) * 1.1 + 0.1
        states.append(x)
        x = x - 0.01 * np.cos(x) * x
    return sum(np.sum(state * state) for state in states[::2])


def test_states_that_are_read_one_by_one_are_not_collected() -> None:
    """The cotangent of each would be as large as all of them."""
    x = np.linspace(-1, 1, 5)
    assert not any(loop.turns == 60 for loop in loops_of(trace(collected, x)))
    close(trace(collected, x).play(x), collected(x))


@pytest.mark.parametrize(("size", "rolled"), [(4, True), (40, False)])
def test_lists_of_large_arrays_are_not_copied(size: int, rolled: bool) -> None:
    ws = [R.normal(size=(size, size)) / size for _ in range(40)]
    assert any(loops_of(trace(layers, ws, R.normal(size=size)))) is rolled


def test_windows_that_would_take_much_memory_are_not_copied() -> None:
    def f(u: Any, w: Any) -> Any:
        s = 0.0
        for t in range(100):
            s = s * 0.9 + np.dot(u[t : t + 500], w) * 0.001 + np.sin(s)
        return s

    assert not any(loops_of(trace(f, R.normal(size=600), R.normal(size=500))))


def test_the_price_is_that_of_loops_only_where_there_are_some() -> None:
    def alternating(x: Any, d: Any) -> Any:
        s = x[0]
        for each in d:
            s = s * 0.99 + np.sin(s) * each if each > 0 else np.tanh(s) + each
        return s

    x = np.ones(2)
    tape = record_call(alternating, (x, R.normal(size=600)), {}).tape
    assert repeats.saved_by_loops(tape) < 0.5 * len(tape)
    short = record_call(euler, (np.ones(3), 2.0), {}).tape
    assert len(short) - repeats.saved_by_loops(short) < 100  # of two thousand
