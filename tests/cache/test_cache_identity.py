"""A program of one function never serves another one: whatever wraps it, and wherever it comes from."""

from __future__ import annotations

import array
import collections
import contextlib
import ctypes
import dataclasses
import functools
import importlib
import itertools
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from caching import follows
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import special
from sets import examples

from yota_py import grad, gradient, gradtape, jit, pullback, value_and_grad
from yota_py.base.ownership import is_library
from yota_py.cache.functions import caches

Function = Callable[[float], Any]

LIBRARY: list[Function] = [
    np.sin, np.exp, np.cos, np.tanh, np.log, np.sqrt, np.square, np.arctan, math.sin, math.exp, math.cos, math.tanh,
    math.log, math.sqrt, math.atan, special.expit, special.erf, special.gammaln,
]  # fmt: skip


def power(n: int) -> Function:
    """Lambdas of one code object."""
    return lambda x: x**n


class Scaled:
    """A callable object, and a method."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __call__(self, x: float) -> float:
        return self.k * x**3

    def method(self, x: float) -> float:
        """Uses the attribute."""
        return self.k * x**2


def executed(text: str, **names: Any) -> Function:
    """A function of text, in a name space of its own."""
    namespace = {"np": np, **names}
    exec(f"def f(x): return {text}", namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def wrapped(f: Function) -> Function:
    """By ``functools.wraps``, which copies the name of a module too."""

    @functools.wraps(f)
    def inner(x: float) -> Any:
        return 2.0 * f(x)

    return inner


USER: list[Function] = [
    *map(power, (2, 3, 4)), Scaled(2.0), Scaled(3.0), Scaled(2.0).method, Scaled(4.0).method,
    functools.partial(lambda k, x: k * x**2, 2.0), functools.partial(lambda k, x: k * x**2, 3.0),
    executed("x**3"), executed("x**4"), executed("k * x**2", k=2.0), executed("k * x**2", k=5.0),
    eval("lambda x: sin(x) ** 2", vars(math)), eval("lambda x: cos(x) ** 3", vars(math)),
    eval("lambda x: sin(x) ** 2", vars(np)), eval("lambda x: exp(x) ** 3", vars(np)),
    functools.partial(np.hypot, 1.0), functools.partial(np.hypot, 2.0), functools.partial(np.arctan2, 2.0),
    *map(wrapped, (np.sin, np.exp, math.cos, math.exp, power(3), power(2), Scaled(2.0), np.add.reduce)),
]  # fmt: skip
POOL = LIBRARY + USER

# What is made of a function of one number: a function of one number, and the derivative it takes.
TRANSFORMS: dict[str, tuple[Callable[[Function], Function], int]] = {
    "gradient": (gradient, 1),
    "value_and_grad": (lambda f: lambda x: value_and_grad(f)(x)[1], 1),
    "its value": (lambda f: lambda x: value_and_grad(f)(x)[0], 0),
    "grad": (lambda f: lambda x: grad(f, x)[1][0], 1),
    "jit": (jit, 0),
    "pullback": (lambda f: lambda x: pullback(f, x)[1](1.0)[0], 1),
    "wraps": (lambda f: functools.wraps(f)(lambda x: f(x)), 0),
    "partial": (functools.partial, 0),
}
X = (0.75, 0.5, 0.625)


def derivative(f: Function, order: int, x: float) -> float:
    """By the interpreter alone."""
    if not order:
        return float(f(x))
    return float(gradtape(lambda x: derivative_of(f, order - 1)(x), x).play(x)[1][0])


def derivative_of(f: Function, order: int) -> Function:
    """The derivative as a function that can be traced."""
    return f if not order else lambda x: grad(derivative_of(f, order - 1), x)[1][0]


@functools.cache
def expected(at: int, order: int) -> list[float]:
    """The derivative of a function of the pool at all points."""
    return [derivative(POOL[at], order, x) for x in X]


def check(names: tuple[str, ...], functions: list[int]) -> None:
    """Each function in turn by the same nesting of transforms, three times, and then again in the other order."""
    made = []
    for at in functions:
        f, order = POOL[at], 0
        for name in names:
            transform, orders = TRANSFORMS[name]
            f, order = transform(f), order + orders
        made.append((f, expected(at, order)))
    for f, want in (*made, *reversed(made)):
        assert_allclose([float(f(x)) for x in X], want, rtol=1e-9, atol=1e-12, err_msg=f"{names}")


@pytest.mark.parametrize("names", [*itertools.product(("gradient", "jit", "value_and_grad", "grad"), repeat=2)])
def test_library_functions_by_two_transforms(names: tuple[str, str]) -> None:
    check(names, [*range(0, len(LIBRARY), 2)])


@pytest.mark.parametrize("names", [("gradient", "gradient"), ("gradient", "jit"), ("wraps", "gradient", "jit")])
def test_functions_of_users(names: tuple[str, ...]) -> None:
    check(names, [*range(len(LIBRARY), len(POOL))])


@settings(max_examples=examples(6), deadline=None)
@given(
    st.lists(st.sampled_from(sorted(TRANSFORMS)), min_size=1, max_size=3).map(tuple),
    st.lists(st.integers(0, len(POOL) - 1), min_size=2, max_size=5, unique=True),
)
def test_any_functions_by_any_transforms(names: tuple[str, ...], functions: list[int]) -> None:
    check(names, functions)


def test_partial_derivatives_of_two_arguments() -> None:
    functions: list[Any] = [np.arctan2, np.hypot, np.power, math.atan2, np.logaddexp, math.hypot]
    for outer, inner in ((0, 1), (1, 0), (1, 1)):
        want = [gradient(lambda a, b, f=f, n=inner: gradient(f, n)(a, b), outer)(2.0, 3.0) for f in functions]
        assert len(set(want)) >= 3
        for _ in range(3):
            for f, value in zip(functions, want, strict=True):
                assert_allclose(gradient(gradient(f, inner), outer)(2.0, 3.0), value)


def test_other_arguments_are_other_functions() -> None:
    def f(a: float, b: float) -> float:
        return a * a * b

    for _ in range(3):
        for argnums, want in ((0, 12.0), (1, 4.0)):
            assert jit(gradient(f, argnums))(2.0, 3.0) == want
            assert gradient(gradient(f, argnums), 1)(2.0, 3.0) == (4.0 if argnums == 0 else 0.0)
        assert jit(value_and_grad(f))(2.0, 3.0) == (12.0, 12.0)


def test_functions_of_the_same_text_share_what_wraps_them() -> None:
    before = len(caches)
    for k in (2.0, 3.0, 4.0, 5.0):
        assert gradient(gradient(lambda x, k=k: k * x * x))(1.0) == 2 * k
        assert jit(gradient(lambda x, k=k: k * x * x))(1.0) == 2 * k
    assert len(caches) - before <= 6


def test_a_function_in_two_places_of_which_one_changes() -> None:
    def g(x: float) -> float:
        return 2 * x

    def h(x: float) -> float:
        return 3 * x

    box = types.SimpleNamespace(one=g, two=g)

    def f(x: float) -> float:
        return box.one(x) * box.two(x)

    follows(f, lambda: setattr(box, "two", h), lambda: setattr(box, "one", h), lambda: setattr(box, "two", g))
    inner = functools.wraps(g)(lambda x: box.one(x) * g(x))
    follows(inner, lambda: setattr(box, "one", g), lambda: setattr(box, "one", h))


def test_modules_of_users_with_names_of_the_standard_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "code.py").write_text("K = 2.0\ndef f(x):\n    return K * x * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "code", raising=False)
    users = importlib.import_module("code")
    is_library.cache_clear()
    try:
        follows(users.f, lambda: setattr(users, "K", 5.0), lambda: setattr(users, "K", 7.0))
        follows(lambda x: users.f(x), lambda: setattr(users, "K", 1.0))
    finally:
        monkeypatch.undo()
        sys.modules.pop("code", None)
        is_library.cache_clear()


def test_objects_of_libraries_whose_state_cannot_be_watched() -> None:
    table = {"k": 2.0}
    get = table.get
    follows(lambda x: x * get("k"), lambda: table.update(k=3.0), lambda: table.update(k=4.0))
    buffer = np.array([1.0, 2.0])
    total = buffer.sum
    follows(lambda x: x * total(), lambda: buffer.fill(7.0), lambda: buffer.fill(1.0))


def test_decorators_of_libraries_around_functions_of_users() -> None:
    box = types.SimpleNamespace(k=2.0)

    @contextlib.contextmanager
    def nothing() -> Any:
        yield

    def f(x: float) -> float:
        return box.k * x * x

    @functools.singledispatch
    def g(x: float) -> float:
        return box.k * x**3

    for decorated in (nothing()(f), np.errstate(all="ignore")(f), g):
        follows(decorated, lambda: setattr(box, "k", 3.0), lambda: setattr(box, "k", 4.0))
        follows(lambda x, h=decorated: 2 * h(x), lambda: setattr(box, "k", 5.0), lambda: setattr(box, "k", 2.0))


def test_code_in_other_name_spaces() -> None:
    def f(x: float) -> float:
        return K * x  # type: ignore[name-defined]  # noqa: F821

    for k in (2.0, 3.0, 4.0):
        for _ in range(3):
            assert grad(types.FunctionType(f.__code__, {"K": k}), 1.0) == (k, (k,))
            assert grad(types.FunctionType(f.__code__, {"K": k, "__name__": "math"}), 1.0) == (k, (k,))


def test_a_function_that_remembers_never_remembers_traced_values() -> None:
    f = functools.lru_cache(lambda x: x * x)
    for x in (2.0, 3.0, 2.0):
        assert grad(f, x) == (x * x, (2 * x,))
        assert gradient(jit(f))(x) == 2 * x
    assert f.cache_info().currsize == 0


def test_classes_made_by_libraries() -> None:
    cls = dataclasses.make_dataclass("cls", [("k", float, 2.0)])
    follows(lambda x: x * cls.k, lambda: setattr(cls, "k", 3.0), lambda: setattr(cls, "k", 4.0))
    box = cls(5.0)
    follows(lambda x: x * box.k, lambda: setattr(box, "k", 3.0), lambda: setattr(box, "k", 4.0))


def test_implementations_that_are_registered_later() -> None:
    @functools.singledispatch
    def g(x: Any) -> Any:
        return box.k * x**2

    box = types.SimpleNamespace(k=2.0)
    implement = g.register(float)
    follows(
        lambda x: g(x) * x,
        lambda: implement(lambda x: 5 * x),
        lambda: setattr(box, "k", 4.0),
        lambda: implement(lambda x: box.k * x),
        lambda: setattr(box, "k", 7.0),
    )
    follows(g, lambda: implement(lambda x: 3 * x), lambda: implement(lambda x: x**4))


def test_objects_with_state_in_c() -> None:
    numbers = (ctypes.c_double * 2)(2.0, 3.0)
    queue = type("Queue", (collections.deque,), {})([2.0])
    for items in (numbers, queue, array.array("d", [2.0])):
        changes = [functools.partial(items.__setitem__, 0, k) for k in (9.0, 5.0)]
        follows(lambda x, c=items: c[0] * x, *changes)


def test_name_spaces_of_libraries_stay_as_they_were() -> None:
    before = dict(vars(np)), dict(vars(math))
    for namespace in (vars(np), vars(math)):
        f = eval("lambda x: exp(x) ** 2", namespace)
        for x in X:
            assert_allclose(jit(f)(x), math.exp(x) ** 2)
            assert_allclose(gradient(jit(f))(x), 2 * math.exp(x) ** 2)
    for names, now in zip(before, (vars(np), vars(math)), strict=True):
        assert not [name for name, value in names.items() if now[name] is not value]
