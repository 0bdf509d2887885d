"""What was taken for a function that does nothing but compute, or for the same as before, and was not."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import config, value_and_grad
from yota_py.cache.modes import Gradient, Request
from yota_py.capture.computing import computing

P = np.array([0.4, -1.3, 2.1, 0.7])
A, BUF = np.arange(1.0, 5.0), np.ones(4)
FUNCTIONS, SHARED = [np.add], list[Any]()


def at_once(f: Callable[..., Any], *args: Any) -> Any:
    return Gradient(0).at_once(Request(f, args, {}))


@pytest.mark.parametrize("views", [
    lambda b, w: np.broadcast_arrays(b, w), lambda b, w: np.atleast_1d(b, w),
    lambda b, w: np.meshgrid(b, w, copy=False, indexing="ij"),
])  # fmt: skip
def test_views_of_what_is_added_to(views: Callable[..., Any]) -> None:
    def f(w: Any) -> Any:
        b = A * 1.0
        c, d = views(b, w)
        b *= 2.0
        return np.sum(c * d)

    value, (slope,) = value_and_grad(f, (0,))(P)
    assert_allclose(value, f(P), rtol=1e-14)
    assert_allclose(slope, [(f(P + h) - f(P - h)) / 2e-6 for h in 1e-6 * np.eye(4)], rtol=1e-6)
    assert at_once(f, P) is None


def test_functions_in_lists_that_are_handed_on() -> None:
    def mapped(w: Any) -> Any:
        y = np.sum(w * BUF)
        for g in FUNCTIONS:
            list(map(g, [BUF], [1.0], [BUF]))
        return y

    def masked(w: Any) -> Any:
        return np.sum(w) + len(np.mask_indices(4, FUNCTIONS[0], BUF))

    for f in (mapped, masked):
        assert computing(f) is None
    assert np.array_equal(BUF, np.ones(4))


class Penalty:
    """What an attribute may be bound to."""

    def of(self, w: Any) -> Any:
        return 40.0 + np.sum(w)


class Holder:
    """An object, a module and a function that hold a method for a while."""

    extra: Any

    def loss(self, w: Any) -> Any:
        extra = 0.0 if self.extra is None else self.extra(w)
        return np.sum(np.array([w[0], w[1]])) + extra


def test_methods_that_have_gone() -> None:
    config.compile = "never"
    held = Holder()
    held.extra = Penalty().of
    assert_allclose(value_and_grad(held.loss)(P)[0], held.loss(P))
    held.extra = None
    assert_allclose(value_and_grad(held.loss)(P)[0], held.loss(P))

    module: Any = types.ModuleType("of_users")
    module.extra = Penalty().of

    def of_module(w: Any) -> Any:
        return np.sum(np.array([w[0]])) + (0.0 if module.extra is None else module.extra(w))

    assert_allclose(value_and_grad(of_module)(P)[0], of_module(P))
    module.extra = None
    assert_allclose(value_and_grad(of_module)(P)[0], of_module(P))


def test_modules_that_become_of_another_class() -> None:
    class Lazy(types.ModuleType):
        asked = 0

        @property
        def rate(self) -> float:
            Lazy.asked += 1
            return 3.0

    module: Any = types.ModuleType("of_users")
    module.rate = 2.0

    def f(w: Any) -> Any:
        return np.sum(w) * module.rate

    assert at_once(f, P) is not None
    del module.rate
    module.__class__ = Lazy
    assert at_once(f, P) is None and not Lazy.asked


def test_defaults_that_change_places() -> None:
    def f(w: Any, *, a: Any = A, b: Any = BUF) -> Any:
        return np.sum(w * a) + np.sum(np.array([w[0]]) * b[0])

    assert_allclose(at_once(f, P)[0][0], f(P))
    f.__kwdefaults__ = {"a": BUF, "b": A}
    assert_allclose(at_once(f, P)[0][0], f(P))


def shared() -> list[Any]:
    return SHARED


def test_functions_whose_names_look_like_those_of_numpy() -> None:
    tools: Any = types.ModuleType("numpy_tools")
    exec("SHARED = []\ndef shared():\n    return SHARED\n", vars(tools))
    tools.shared.__module__ = "numpy_tools"
    wrapped = functools.wraps(np.sum)(shared)

    def of_module(w: Any) -> Any:
        out: list[Any] = []
        out = tools.shared()
        out.append(w[0])
        return np.sum(w)

    def of_wrapper(w: Any) -> Any:
        out: list[Any] = []
        out = wrapped()
        out.append(w[0])
        return np.sum(w)

    for f in (of_module, of_wrapper):
        assert computing(f) is None


SOURCE = """
import numpy as np
from dataclasses import dataclass
LOG = []
class Noted(Exception):
    def __init__(self, x):
        LOG.append(x)
@dataclass
class Kept:
    x: object
    def __post_init__(self):
        LOG.append(self.x)
def raising(w):
    e = Noted(w[0])
    return np.sum(w)
def keeping(w):
    return np.sum(w) + Kept(w[0]).x
"""


def test_code_without_a_name() -> None:
    space: dict[str, Any] = {}
    exec(SOURCE, space)
    for name in ("raising", "keeping"):
        assert computing(space[name]) is None
        assert at_once(space[name], P) is None
    assert not space["LOG"]


def test_code_without_positions() -> None:
    tree = ast.parse("def f(w):\n    return np.sum(w) + np.sum((A * 3.0).conj(BUF))")
    for node in ast.walk(tree):
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            node.__dict__.pop(name, None)
    space: dict[str, Any] = {"np": np, "A": A, "BUF": BUF, "__name__": __name__}
    exec(compile(ast.fix_missing_locations(tree), "<made>", "exec"), space)
    assert computing(space["f"]) is None
    assert np.array_equal(BUF, np.ones(4))


def test_complex_numbers_of_python() -> None:
    def f(z: Any) -> Any:
        return np.abs(z) * 2.0

    have, want = at_once(f, 1.0 + 2.0j)[0], Gradient(0).reference(Request(f, (1.0 + 2.0j,), {}))[0]
    assert [type(x) for x in have] == [type(x) for x in want]
    assert_allclose(have, want)


class Asked:
    """An object that can be called, and notes what it is asked for."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.log.append(name)
        raise AttributeError(name)

    def __call__(self, w: Any) -> Any:
        return np.sum(w)


def test_objects_are_not_asked() -> None:
    asked = Asked()
    assert computing(lambda w: asked(w)) is None
    assert not asked.log
