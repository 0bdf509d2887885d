"""``stop_gradient``: values without derivatives, at every nesting, which follow the inputs in compiled calls."""

from __future__ import annotations

import csv
import io
import json
import logging
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from yota_py import LostDerivativeError, explain, grad, gradient, gradtape, jit, stop_gradient, trace, value_and_grad

pytestmark = pytest.mark.usefixtures("every_policy")
POINTS = (2.0, 3.0, 2.0, 5.0)


@dataclass
class Parameters:
    w: Any
    n: int


def test_plain_values_keep_their_kinds() -> None:
    tree = {"a": [1.0, np.float32(2)], "b": (np.ones(2), None, "text", 3, True), "c": Parameters(1j, 2)}
    have = stop_gradient(tree)
    assert repr(have) == repr(tree)
    assert have["b"][0] is not tree["b"][0] and have is not tree  # type: ignore[index]


@pytest.mark.parametrize(
    "make", [float, np.float32, np.float64, lambda t: np.array([t, 1.0]), lambda t: np.float32([[t]])]
)
def test_no_derivative_flows_through_it(make: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(x * stop_gradient(np.sin(x)) * 2)

    for t in POINTS:
        x = make(t)
        value, (slope,) = grad(f, x)
        np.testing.assert_allclose(slope, 2 * np.sin(x), rtol=1e-6)
        np.testing.assert_allclose(value, f(x), rtol=1e-6)


def test_it_is_compiled() -> None:
    def f(x: Any) -> Any:
        return np.sum(x * stop_gradient(x * x))

    grad.compile(f, np.ones(2))
    for t in POINTS:
        assert_array_equal(grad(f, np.full(2, t))[1][0], np.full(2, t * t))
    assert explain(f)[0].calls >= len(POINTS) - 1


def test_numbers_are_taken_of_it() -> None:
    history: list[Any] = []

    def f(x: Any) -> Any:
        y = x * x
        history.append(float(stop_gradient(y)))
        history.append("%.1f" % stop_gradient(y))  # noqa: UP031 - as users write it
        history.append(f"{stop_gradient(y):.1f}")
        return y * float(stop_gradient(x))

    have = [grad(f, t) for t in POINTS]
    assert have == [(t**3, (2 * t * t,)) for t in POINTS]
    assert history == [item for t in POINTS for item in (t * t, f"{t * t:.1f}", f"{t * t:.1f}")]
    assert all(type(item) in (float, str) for item in history)


def written(write: Callable[[Any], Any], file: Any) -> Any:
    """What stands in a file when a number is written."""
    write(file)
    return file.getvalue()


def logged(t: Any) -> str:
    """A record of a log as text."""
    return logging.LogRecord("tests", logging.INFO, __file__, 1, "%s %f", (t, t), None).getMessage()


@pytest.mark.parametrize(
    "save",
    [
        json.dumps, lambda t: json.dumps(t, indent=1),
        lambda t: written(lambda file: json.dump([t], file), io.StringIO()),
        lambda t: json.JSONEncoder(sort_keys=True).encode({"b": [t, {"c": (t, "text")}], "a": 1}),
        lambda t: struct.pack("d", t), lambda t: pickle.loads(pickle.dumps({"loss": t})),
        lambda t: written(lambda file: csv.writer(file).writerow([t, 1]), io.StringIO()),
        lambda t: written(lambda file: np.savetxt(file, [t]), io.BytesIO()),
        lambda t: written(lambda file: np.save(file, t), io.BytesIO()),
        lambda t: pd.DataFrame([{"loss": t}]).to_csv(), logged, lambda t: Decimal(str(t)), Fraction, str, repr,
    ],
)  # fmt: skip
def test_numbers_are_saved(save: Callable[[Any], Any]) -> None:
    saved: list[Any] = []

    def f(x: Any) -> Any:
        y = x * x
        saved.append(save(float(stop_gradient(y))))
        return y

    for t in POINTS:
        assert grad(f, t) == (t * t, (2 * t,))
    assert saved == [save(t * t) for t in POINTS]


def test_numbers_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(float(stop_gradient(x)), stop_gradient(x), [stop_gradient(x)])
        return x * x

    for t in POINTS:
        assert grad(f, t) == (t * t, (2 * t,))
        assert capsys.readouterr().out == f"{t} {t} [{t}]\n"


def test_json_takes_no_derivative() -> None:
    with pytest.raises(LostDerivativeError, match=r"json.dumps.*float\(stop_gradient"):
        grad(lambda x: (json.dumps({"loss": [stop_gradient(x), x]}), x)[1], 2.0)


def test_json_knows_no_series() -> None:
    series = pd.Series([1.0, 2.0])
    for w in (np.ones(2), np.zeros(2), np.array([1.0, 3.0])):
        with pytest.raises(LostDerivativeError, match="Object of type Series is not JSON serializable"):
            grad(lambda w: (json.dumps({"s": stop_gradient(w) * series}), np.sum(w))[1], w)


def test_what_is_kept_of_it_is_plain() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(stop_gradient(x))
        kept.append(stop_gradient({"a": np.sum(x)}))
        return np.sum(x * x)

    for t in POINTS:
        grad(f, np.array([t, 1.0]))
    assert [type(item) for item in kept[::2]] == [np.ndarray] * len(POINTS)
    assert [item.tolist() for item in kept[::2]] == [[t, 1.0] for t in POINTS]
    assert [item["a"] for item in kept[1::2]] == [t + 1.0 for t in POINTS]


def test_decisions_and_conversions() -> None:
    def f(x: Any) -> Any:
        n = int(stop_gradient(x))
        kept = pickle.loads(pickle.dumps(stop_gradient(x)))
        return x * n + x * kept if stop_gradient(x) > 2.5 else x * np.asarray(stop_gradient(x)).item()

    for t in POINTS:
        assert gradient(f)(t) == (2 * t if t > 2.5 else t)


def test_all_levels_are_cut() -> None:
    for t in POINTS:
        assert gradient(lambda x: gradient(lambda y: y * stop_gradient(x))(x))(t) == 0.0
        assert gradient(lambda x: gradient(lambda y: stop_gradient(y) * y * x)(x))(t) == t
        assert gradient(gradient(lambda x: stop_gradient(x * x) * x))(t) == 0.0
        assert gradient(lambda x: gradient(lambda y: y * y * float(stop_gradient(x * y)))(x))(t) == 2 * t * t


def test_steps_of_jit() -> None:
    @jit
    def step(w: Any, log: list[Any]) -> Any:
        loss, dw = value_and_grad(lambda w: np.sum(w**2) + np.sum(w) * stop_gradient(np.sum(w)))(w)
        w -= 0.1 * dw
        log.append(float(stop_gradient(loss)))
        return stop_gradient(loss), stop_gradient(w)

    w, log = np.ones(3), []
    losses = [step(w, log)[0] for _ in range(4)]
    assert losses == [12.0, 3.0, 0.75, 0.1875] == log
    assert_array_equal(w, np.full(3, 1 / 16))
    result = step(w, log)[1]
    result[0] = 7.0  # it is the caller's
    assert w[0] == 1 / 32


def test_writing_into_it() -> None:
    def f(x: Any) -> Any:
        y = stop_gradient(x)
        y[0] = 5.0
        return np.sum(x * y)

    for t in POINTS:
        x = np.array([t, 2.0])
        assert_array_equal(grad(f, x)[1][0], [5.0, 2.0])
        assert f(x.copy()) == grad(f, x)[0]


def test_containers_and_other_leaves() -> None:
    def f(p: Any) -> Any:
        q = stop_gradient(p)
        assert isinstance(q["c"], Parameters) and q["s"] == "name" and not q["n"]
        return p["a"] * q["a"] * q["c"].w * q["c"].n

    for t in POINTS:
        slopes = gradient(f)({"a": t, "c": Parameters(t, 3), "s": "name", "n": None})
        assert slopes["a"] == 3 * t * t and slopes["c"].w == 0.0


def test_objects_that_hold_traced_values_are_refused() -> None:
    class Model:
        def __init__(self, w: Any) -> None:
            self.w = w

    for held in (Model, lambda w: lambda: w, lambda w: {w}):
        with pytest.raises(LostDerivativeError, match=r"stop_gradient gets an? .* Pass the values: "):
            grad(lambda w, held=held: np.sum(w * len(str(stop_gradient(held(w))))), 2.0)


def test_it_stands_on_tapes() -> None:
    assert "stop_gradient(%1)" in str(trace(lambda x: x * stop_gradient(x), 2.0))
    assert gradtape(lambda x: x * stop_gradient(x), 2.0).play(3.0) == (9.0, (3.0,))
