"""Functions whose results depend on how arrays lie in memory: a program for each layout, few of them, all served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import config, explain, grad, jit, value_and_grad


def first_is_one(x: Any) -> Any:
    flat = x.reshape(-1)
    flat[0] = 1.0
    return np.sum(x**2)


def on_a_path(x: Any) -> Any:
    flat = x.ravel(order="K")
    return np.sum(flat[:3] ** 2) if flat[0] > 0 else np.sum(flat[1:5] ** 3)


def in_turns(x: Any) -> Any:
    total = 0.0
    for i in range(20):
        matrix = np.asfortranarray(x) + (4.0 + i) * np.eye(4)
        total = total + np.sum(np.linalg.solve(matrix, x[:, 0]))
    return total


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: np.sum(np.ascontiguousarray(x) ** 2), "F": lambda x: np.sum(np.asfortranarray(x)[:, 0] ** 2),
    "required": lambda x: np.sum(np.require(x, requirements="C")[0] ** 3),
    "K": lambda x: np.sum(x.ravel(order="K")[:5] ** 2), "A": lambda x: np.sum(x.ravel(order="A")[:3] ** 2),
    "as is": lambda x: np.sum(np.sin(x)), "written": first_is_one, "on a path": on_a_path, "in turns": in_turns,
}  # fmt: skip


def spread(x: Any) -> Any:
    return np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2]


LAYOUTS: list[Callable[[Any], Any]] = [np.asfortranarray, np.ascontiguousarray, spread, lambda x: x[::-1].copy()[::-1]]


@pytest.fixture(autouse=True)
def compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_layout_has_a_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, rng = FUNCTIONS[name], np.random.default_rng(0)
    values, slopes = jit(f), value_and_grad(f)
    for _ in range(40):
        drawn, lay = rng.normal(size=(4, 4)), LAYOUTS[int(rng.integers(4))]
        with monkeypatch.context() as interpreted:
            interpreted.setattr(config, "compile", "never")
            want, (slope,) = grad(f, lay(drawn.copy()))
        value, dx = slopes(lay(drawn.copy()))
        assert_allclose(value, want, rtol=1e-12)
        assert_allclose(dx, slope, rtol=1e-9, atol=1e-12)
        assert_allclose(values(lay(drawn.copy())), f(lay(drawn.copy())), rtol=1e-12)
    for compiled in (values, slopes):
        (told,) = explain(compiled)
        assert sum(entry.calls for entry in told.entries) >= 40 - 2 * len(LAYOUTS)
        assert len(told.entries) <= len(LAYOUTS)


def test_the_layout_that_comes_second() -> None:
    """Of which all calls were interpreted."""
    f = value_and_grad(FUNCTIONS["C"])
    x = np.arange(9.0).reshape(3, 3)
    f(np.asfortranarray(x))
    for k in range(4):
        value, dx = f(x + k)
        assert value == np.sum((x + k) ** 2) and np.array_equal(dx, 2 * (x + k))
    (told,) = explain(f)
    assert [entry.calls for entry in told.entries] == [0, 3]
    assert "layout" in str(told)


def test_layouts_without_end_come_to_one() -> None:
    f = jit(FUNCTIONS["K"])
    for step in range(1, 30):
        for k in range(3):
            x = np.random.default_rng(k).normal(size=(4, 4 * step))[:, ::step]
            assert_allclose(f(x), FUNCTIONS["K"](x), rtol=1e-12)
    (told,) = explain(f)
    assert 1 < len(told.entries) <= 8
