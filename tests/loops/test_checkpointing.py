"""What ``checkpoint`` has computed again is what was computed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples

from yota_py import checkpoint, config, explain, grad, gradient, gradtape, jit, scan, trace, value_and_grad, vmap
from yota_py.testing import check_grads

EVERY = (1, 2, 3, 7, 10, 11, 12, 100, np.int64(4), "sqrt")


def same(have: Any, want: Any) -> None:
    """Two results of ``grad``."""
    value, grads = have
    np.testing.assert_allclose(value, want[0], rtol=1e-12)
    assert len(grads) == len(want[1])
    for dx, dy in zip(grads, want[1], strict=True):
        assert (dx is None) == (dy is None)
        if dx is not None:
            assert np.shape(dx) == np.shape(dy)
            np.testing.assert_allclose(dx, dy, rtol=1e-10, atol=1e-13)


def in_all_modes(f: Callable[..., Any], g: Callable[..., Any], *args: Any) -> None:
    """``f``, which has something computed again, is ``g``."""
    with pytest.MonkeyPatch.context() as patch:
        for mode in ("never", "always"):
            patch.setattr(config, "compile", mode)
            for scale in (1.0, 0.9, 1.1):
                at = [x * scale if isinstance(x, np.ndarray) else x for x in args]
                same(grad(f, *at), grad(g, *at))
                np.testing.assert_allclose(f(*at), g(*at), rtol=1e-12)


def scanned(every: Any, turns: int = 11, *, reverse: bool = False) -> Callable[..., Any]:
    def run(p: Any, start: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            a, (b, n) = carry
            a = np.tanh(p[0] * a + x) + 0.1 * b
            return (a, (b * p[1] + np.sum(a), n + 1)), {"y": a * b, "x": 2.0 * x}

        (a, (b, n)), ys = scan(step, (start, (0.5, 0)), xs, length=turns, reverse=reverse)
        return np.sum(a) + b * n + np.sum(ys["y"] ** 2) + np.sum(ys["x"] * ys["y"])

    return run if every is None else checkpoint(run, every)


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(every: Any, reverse: bool) -> None:
    rng = np.random.default_rng(0)
    args = rng.normal(size=2), rng.normal(size=3), rng.normal(size=(11, 3))
    in_all_modes(scanned(every, reverse=reverse), scanned(None, reverse=reverse), *args)
    if every == 3:
        check_grads(scanned(every, reverse=reverse), *args, second_order=True)


@given(turns=st.integers(0, 40), every=st.one_of(st.integers(1, 45), st.just("sqrt"), st.none()))
@settings(max_examples=examples(5, share=4), deadline=None)
def test_any_number_of_turns(turns: int, every: Any) -> None:
    rng = np.random.default_rng(turns)
    args = rng.normal(size=2), rng.normal(size=3), rng.normal(size=(turns, 3))
    f = scanned(None, turns) if every is None else scanned(every, turns)
    f = checkpoint(f) if every is None else f
    same(grad(f, *args), grad(scanned(None, turns), *args))


def test_what_is_kept_is_printed() -> None:
    args = np.ones(2), np.ones(3), np.ones((100, 3))
    assert "99 turns; carried: %1, %2, %3; one of each: %4; kept every 7" in str(trace(scanned(7, 100), *args))
    assert "kept every 10" in str(trace(scanned("sqrt", 100), *args))
    assert "kept every" not in str(trace(scanned(200, 100), *args))


def test_loops_of_python() -> None:
    def looped(every: Any) -> Callable[..., Any]:
        def run(p: Any, x: Any) -> Any:
            seen = []
            for _ in range(50):
                x = x + 0.1 * p * np.sin(x)
                seen.append(x[0])
            return np.sum(x) + np.sum(np.stack(seen) ** 2)

        return run if every is None else checkpoint(run, every=every)

    args = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, -0.3])
    for every in EVERY:
        in_all_modes(looped(every), looped(None), *args)
    assert "kept every 7" in str(trace(looped(7), *args))
    check_grads(looped("sqrt"), *args, second_order=True)


def block(w: Any, x: Any, *, slope: float = 1.0) -> Any:
    y = np.tanh(w @ x) * slope
    return y, {"sum": np.sum(y * x), "nothing": None}


def network(block: Callable[..., Any]) -> Callable[..., Any]:
    def run(ws: Any, x: Any) -> Any:
        total = 0.0
        for w in ws:
            x, more = block(w, x, slope=0.9)
            total = total + more["sum"]
        return total + np.sum(x**2)

    return run


def test_functions() -> None:
    rng = np.random.default_rng(1)
    ws, x = rng.normal(size=(3, 4, 4)), rng.normal(size=4)
    in_all_modes(network(checkpoint(block)), network(block), ws, x)
    check_grads(network(checkpoint(block)), ws, x, second_order=True)
    printed = str(trace(network(checkpoint(block)), ws, x))
    assert printed.count("1 turn; computed again on the way back") == 3
    assert printed.count("tanh") == 3


def test_functions_in_loops_are_rolled_up() -> None:
    def run(w: Any, x: Any, block: Callable[..., Any]) -> Any:
        for _ in range(100):
            x, _ = block(w, x)
        return np.sum(x)

    rng = np.random.default_rng(2)
    w, x = rng.normal(size=(4, 4)), rng.normal(size=4)
    again = checkpoint(block)
    in_all_modes(lambda w, x: run(w, x, again), lambda w, x: run(w, x, block), w, x)
    printed = str(trace(lambda w, x: run(w, x, again), w, x))
    assert "computed again on the way back" in printed
    assert printed.count("tanh") < 4


def test_steps_of_scans() -> None:
    def run(step: Callable[..., Any], w: Any, x: Any) -> Any:
        last, ys = scan(step, x, np.linspace(0, 1, 20))
        return np.sum(last * ys[-1]) + np.sum(w)

    rng = np.random.default_rng(3)
    w, x = rng.normal(size=(4, 4)), rng.normal(size=4)

    def of(again: Callable[..., Any]) -> Callable[..., Any]:
        def f(w: Any, x: Any) -> Any:
            return run(again(lambda x, t: (np.tanh(w @ x) + t, x * t)), w, x)

        return f

    in_all_modes(of(checkpoint), of(lambda f: f), w, x)
    assert "computed again on the way back" in str(trace(of(checkpoint), w, x))


def test_memory_grows_with_the_root_of_the_turns() -> None:
    def nbytes(every: Any, turns: int) -> int:
        def run(p: Any, x: Any) -> Any:
            last, _ = scan(lambda x, _: (x + 0.001 * p * np.sin(x), None), x, None, length=turns)
            return np.sum(last)

        f = value_and_grad(checkpoint(run, every=every) if every else run)
        f.compile(np.ones(3), np.ones(3))
        for _ in range(3):
            f(np.ones(3), np.ones(3))
        return sum(entry.nbytes for explanation in explain(f) for entry in explanation.entries)

    kept, again = ([nbytes(every, turns) for turns in (1_000, 100_000)] for every in (None, "sqrt"))
    assert kept[1] > 80 * kept[0]
    assert again[1] < 15 * again[0]
    assert again[1] < kept[1] / 50


def test_what_cannot_run_again_does_not(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "audit", "off")

    def drawn(x: Any, rng: Any) -> Any:
        print("here")
        return np.sum(np.sin(x) * rng.normal(size=3))

    def decided(x: Any) -> Any:
        y = np.sin(x) * x
        return y * 2.0 if y[0] > 0 else y * 3.0

    for mode in ("never", "always"):
        monkeypatch.setattr(config, "compile", mode)
        for seed in range(3):
            capsys.readouterr()
            x = np.arange(3.0)
            got = grad(checkpoint(drawn), x, np.random.default_rng(seed))
            assert capsys.readouterr().out == "here\n"
            noise = np.random.default_rng(seed).normal(size=3)
            np.testing.assert_allclose(got[1][0], np.cos(x) * noise)
        for x in (np.array([1.0, 2.0]), np.array([-4.0, 2.0]), np.array([2.0, 2.0])):
            f = checkpoint(decided)
            same(grad(lambda x, f=f: np.sum(f(x)), x), grad(lambda x: np.sum(decided(x)), x))


FACTOR = 2.0
WEIGHTS = np.ones(3)


def test_what_it_reads_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    held = {"k": 1.5}

    @checkpoint
    def f(x: Any) -> Any:
        return np.sum(np.exp(x * WEIGHTS) * held["k"]) * FACTOR

    of_f = gradient(f)
    x = np.array([0.1, 0.2, 0.3])
    for k in (1.5, 2.0, -1.0):
        for factor in (2.0, 3.0):
            held["k"] = k
            monkeypatch.setitem(globals(), "FACTOR", factor)
            WEIGHTS[:] = factor
            np.testing.assert_allclose(of_f(x), np.exp(x * factor) * factor * k * factor)


def test_arrays_that_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def filled(x: Any) -> Any:
        out = np.zeros(6)
        out[:3] = np.sin(x)
        out[3:] += out[:3] * x
        x = x.copy()
        x[0] = out[3]
        return out, x

    def of(f: Callable[..., Any]) -> Callable[..., Any]:
        def run(x: Any) -> Any:
            out, y = f(x)
            out[1] = 2.0 * out[0]
            return np.sum(out**2) + np.sum(y * out[:3])

        return run

    in_all_modes(of(checkpoint(filled)), of(filled), np.array([0.3, 1.0, -2.0]))


def test_together_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    w, xs = rng.normal(size=(4, 4)), rng.normal(size=(5, 4))

    def loss(w: Any, x: Any) -> Any:
        return np.sum(block(w, x)[0] ** 2)

    again = checkpoint(loss)
    for mode in ("never", "always"):
        monkeypatch.setattr(config, "compile", mode)
        per_example = vmap(gradient(again), in_axes=(None, 0))(w, xs)
        np.testing.assert_allclose(per_example, [gradient(loss)(w, x) for x in xs])
        batched = grad(lambda w, xs: np.sum(vmap(again, in_axes=(None, 0))(w, xs)), w, xs)
        same(batched, grad(lambda w, xs: sum(loss(w, x) for x in xs), w, xs))
        np.testing.assert_allclose(jit(again)(w, xs[0]), loss(w, xs[0]))
        nested = checkpoint(lambda w, x: again(w, x) + again(w, 2.0 * x))
        same(grad(nested, w, xs[0]), grad(lambda w, x: loss(w, x) + loss(w, 2.0 * x), w, xs[0]))
        second = gradient(lambda x: np.sum(gradient(again, argnums=1)(w, x) ** 2))(xs[0])
        np.testing.assert_allclose(second, gradient(lambda x: np.sum(gradient(loss, argnums=1)(w, x) ** 2))(xs[0]))


def test_single_precision_and_numbers() -> None:
    def f(x: Any, k: Any) -> Any:
        y = np.sin(x) * k
        return y * y

    x = np.arange(3, dtype=np.float32)
    for again in (f, checkpoint(f)):
        dx, dk = gradient(lambda x, k, again=again: np.sum(again(x, k)), argnums=(0, 1))(x, 0.5)
        assert dx.dtype == np.float32
        assert isinstance(dk, float)
        np.testing.assert_allclose(dx, np.sin(2 * x) * 0.25, rtol=1e-5, atol=1e-7)
    assert gradient(checkpoint(f))(0.5, 2.0) == pytest.approx(4 * np.sin(1.0))
    assert checkpoint(f)(2.0, 0.0) == 0.0


def test_gradient_tapes_show_and_play_it() -> None:
    rng = np.random.default_rng(5)
    ws, x = rng.normal(size=(2, 3, 3)), rng.normal(size=3)
    tape = gradtape(network(checkpoint(block)), ws, x)
    value, gradients = grad(network(block), 2.0 * ws, x)
    played = tape.play(2.0 * ws, x)
    same(played, (value, gradients))


def test_as_a_decorator() -> None:
    @checkpoint
    def documented(x: Any) -> Any:
        """About it."""
        return np.sin(x)

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "About it."
    assert documented(0.0) == 0.0


@pytest.mark.parametrize("every", [0, -1, np.int64(0)])
def test_too_few_turns(every: Any) -> None:
    with pytest.raises(ValueError, match=rf"checkpoint: every is a number of turns, at least 1; got {every}"):
        checkpoint(block, every=every)


@pytest.mark.parametrize("every", [2.0, "squareroot", True, [3]])
def test_no_number_of_turns(every: Any) -> None:
    with pytest.raises(TypeError, match='checkpoint: every is a number of turns, or "sqrt"; got'):
        checkpoint(block, every=every)


def test_no_function() -> None:
    with pytest.raises(TypeError, match="checkpoint wants a function; got ndarray"):
        checkpoint(np.ones(3))  # type: ignore[type-var]


def test_exceptions_leave_nothing_behind() -> None:
    def fails(x: Any) -> Any:
        np.sin(x)
        raise RuntimeError("no")

    def f(x: Any) -> Any:
        with suppress(RuntimeError):
            checkpoint(fails, every=2)(x)
        last, _ = scan(lambda x, _: (np.sin(x), None), x, None, length=20)
        return np.sum(last)

    assert "kept every" not in str(trace(f, np.ones(2)))
    in_all_modes(f, lambda x: f(x), np.ones(2))


def test_functions_of_libraries() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.array([0.5, 1.0, -2.0])
    for f in (special.logsumexp, np.linalg.norm):
        again = checkpoint(f)
        same(grad(lambda x, again=again: again(x), x), grad(lambda x, f=f: f(x), x))
        rows = np.stack([x, 2 * x])
        have = grad(lambda x, f=f: np.sum(vmap(f)(x)), rows)
        same(have, grad(lambda x, f=f: sum(f(row) for row in x), rows))


def test_a_decorator_with_an_option() -> None:
    @checkpoint(every="sqrt")
    def f(x: Any) -> Any:
        for _ in range(100):
            x = x + 0.01 * np.sin(x) * np.cos(x)
        return np.sum(x)

    assert "kept every 10" in str(trace(f, np.ones(3)))
    with pytest.raises(ValueError, match="at least 1"):
        checkpoint(every=0)


def test_loops_keep_to_the_borders_of_what_runs_again() -> None:
    def layer(w: Any, x: Any) -> Any:
        return np.sin(w @ x) * np.exp(-x * x)

    def layers(w: Any, x: Any) -> Any:
        for _ in range(10):
            x = layer(w, x)
        return x

    def run(w: Any, x: Any, block: Callable[..., Any]) -> Any:
        x = np.exp(-x * x)  # as at the end of a block
        for _ in range(30):
            x = block(w, x)
        return np.sum(x)

    rng = np.random.default_rng(6)
    w, x = rng.normal(size=(4, 4)), rng.normal(size=4)
    again = checkpoint(layers)
    in_all_modes(lambda w, x: run(w, x, again), lambda w, x: run(w, x, layers), w, x)
    printed = str(trace(lambda w, x: run(w, x, again), w, x))
    assert "computed again on the way back" in printed
    assert "30 turns" in printed


def test_gradients_of_weights_are_not_added_to_zeros() -> None:
    def layers(x: Any, ws: Any) -> Any:
        for w in ws:
            x = np.tanh(w @ x)
        return x

    def nbytes(block: Callable[..., Any]) -> int:
        def run(ws: Any, x: Any) -> Any:
            for i in range(0, 8, 2):
                x = block(x, ws[i : i + 2])
            return np.sum(x)

        rng = np.random.default_rng(7)
        ws, x = [rng.normal(size=(50, 50)) for _ in range(8)], rng.normal(size=(50, 50))
        f = value_and_grad(run)
        f.compile(ws, x)
        for _ in range(3):
            f(ws, x)
        return sum(entry.nbytes for explanation in explain(f) for entry in explanation.entries)

    assert nbytes(checkpoint(layers)) < 1.2 * nbytes(layers)
