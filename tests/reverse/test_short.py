"""Gradients that are computed from a trace at once are those of the gradient tape, for every rule at all its cases."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from entries import OF_NUMPY, OF_SCIPY, called
from sets import each

from yota_py import config, primitive, rrule, value_and_grad
from yota_py.capture.recording import record_call
from yota_py.errors import NonScalarOutputError
from yota_py.registry.registry import Primitive, Sample
from yota_py.reverse.direct import value_and_gradients
from yota_py.reverse.verbs import differentiate
from yota_py.tape.trees import flatten
from yota_py.testing.finite import random_like
from yota_py.tracing.stand_ins import Kept

WITH_FORMULAS = [
    entry for entry in (*OF_NUMPY, *OF_SCIPY)
    if entry.cases and any(map(callable, (*getattr(entry.rule, "partials", ()), *getattr(entry.rule, "vjps", ()))))
]  # fmt: skip


_OF_OBJECTS = {"known_as", "without_formula", "distribution_function", "solved"}  # whose cases are of whole numbers


def with_zeros(seed: Any, rng: np.random.Generator) -> Any:
    """A cotangent some of whose elements are zero, as those of elements that nobody reads."""
    if isinstance(seed, np.ndarray):
        return seed * rng.integers(0, 2, seed.shape)
    return seed


def results(fn: Any, args: Any, kwargs: Any, seed_of: Any) -> tuple[list[Any], list[Any]]:
    """Value and gradients, at once and of the tape."""
    source = record_call(lambda *xs: fn(*xs, **kwargs), args, {})
    y = source.tape.play(*args)
    seed = seed_of(y)
    out = differentiate(source, seed)
    tape = [out[z] if hasattr(z, "id") else z for z in out.tape.results]
    at_once = flatten(value_and_gradients(source, seed))[0]
    return at_once, tape


def assert_same(have: Any, want: Any) -> None:
    if want is None or have is None:
        assert have is None and want is None
        return
    assert np.shape(have) == np.shape(want)
    assert np.result_type(have) == np.result_type(want)
    rounding = 64 * np.finfo(np.result_type(want)).eps if np.result_type(want).kind in "fc" else 0
    np.testing.assert_allclose(have, want, rtol=rounding, atol=rounding * float(np.max(np.abs(want), initial=0.0)))


@pytest.mark.parametrize("entry", WITH_FORMULAS, ids=called)
def test_as_the_gradient_tape(entry: Primitive) -> None:
    rng = np.random.default_rng(0)
    checked = 0
    with Kept(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in each([case for draw in entry.cases for case in draw(Sample(0))], 2):
            for seed_of in (lambda y: random_like(y, rng), lambda y: with_zeros(random_like(y, rng), rng)):
                try:
                    have, want = results(entry.fn, case.args, case.kwargs, seed_of)
                except NonScalarOutputError:  # of whole numbers
                    continue
                assert len(have) == len(want)
                for a, b in zip(have, want, strict=True):
                    assert_same(a, b)
                checked += 1
    assert checked or entry.name in _OF_OBJECTS


def sqrt_at_zero(x: Any) -> Any:
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0))


@pytest.mark.parametrize(
    ("f", "x", "gradient"),
    [
        (sqrt_at_zero, np.array([0.0, 4.0]), [0.0, 0.25]),  # an infinite slope times a cotangent of zero
        (lambda x: np.sum(np.log(x) * np.array([0.0, 1.0])), np.array([0.0, 2.0]), [0.0, 0.5]),
        (lambda x: np.sum(np.sqrt(x)[1:]), np.zeros(600) + np.eye(1, 600, 1)[0], [0.0, 0.5, *[np.inf] * 598]),
        (lambda x: np.sum(x * np.float32(2)), np.ones(2, np.float32), [2.0, 2.0]),
        (lambda x: np.sum(np.ones((3, 2)) * x), np.ones(2), [3.0, 3.0]),
        (lambda x: np.sum(2.0 - x), np.ones((2, 0)), np.ones((2, 0))),
        (lambda x: np.multiply(x, 3), np.array(2.0), 3.0),
    ],
)
def test_special_points(f: Any, x: Any, gradient: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in ("never", "always"):
        monkeypatch.setattr(config, "compile", mode)
        with np.errstate(all="ignore"):
            run = value_and_grad(f)
            for _ in range(3):
                _, g = run(x)
                assert type(g) is np.ndarray
                assert (g.dtype, g.shape) == (x.dtype, x.shape)
                np.testing.assert_array_equal(g, gradient)


def test_what_a_users_rule_gives_is_what_the_rest_computes_with() -> None:
    """A rule that draws: value and slopes are of one draw, and the function itself runs once, when it is traced."""
    rng, calls = np.random.default_rng(0), []

    @primitive
    def dropped(x: Any) -> Any:
        calls.append("function")
        return x * (rng.random(x.shape) < 0.5)

    @rrule(dropped)
    def _(x: Any) -> Any:
        calls.append("rule")
        mask = rng.random(x.shape) < 0.5
        return x * mask, lambda dy: (dy * mask,)

    x = np.arange(1.0, 9.0)
    for _ in range(20):
        source = record_call(lambda x: np.sum(np.sin(dropped(x * 1.0)) ** 2) * 2.0, (x,), {})
        calls.clear()
        value, (gradient,) = value_and_gradients(source)
        assert calls == ["rule"]
        kept = gradient != 0
        np.testing.assert_allclose(value, 2 * np.sum(np.sin(x[kept]) ** 2))
        np.testing.assert_allclose(gradient[kept], 4 * np.sin(x[kept]) * np.cos(x[kept]))
