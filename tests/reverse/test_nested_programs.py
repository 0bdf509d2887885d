"""Gradients inside of gradients: outer values reach the inner function on every road, and their derivatives come back.

Random programs are put together of roads and of inner transforms; what they compute is differentiated by finite
differences.
"""

from __future__ import annotations

import array
import copy
import functools
import pickle
import random
import struct
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from numpy.testing import assert_allclose
from sets import examples

from yota_py import config, grad, gradient, jit, primitive, pullback, rrule, stop_gradient, value_and_grad
from yota_py.cache import functions as cache
from yota_py.capture import recording
from yota_py.errors import YotaError

Inner = Callable[..., Any]  # (function of y and v, y, v) -> a number

SHARED: Any = None  # what a program has in its module


@primitive
def cubed(x: Any) -> Any:
    return x**3


@rrule(cubed)
def _(x: Any) -> Any:
    return x**3, lambda dy: (dy * 3 * x * x,)


@primitive
def scaled(x: Any, factor: Any) -> Any:
    return np.asarray(x) * factor if isinstance(x, np.ndarray) else x * factor


@rrule(scaled)
def _(x: Any, factor: Any) -> Any:
    return scaled(x, factor), lambda dy: (dy * factor, np.sum(dy * x))


@primitive
def slope_inside(x: Any) -> Any:
    """A primitive that differentiates by itself."""
    return gradient(lambda t: t**3)(x)


@rrule(slope_inside)
def _(x: Any) -> Any:
    return slope_inside(x), lambda dy: (dy * 6 * x,)


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, y: Any) -> Any:
        return y * self.value


@dataclass
class Pair:
    value: Any
    other: float = 1.0


class Named(NamedTuple):
    value: Any
    text: str = "name"


@jit
def compiled_product(a: Any, b: Any) -> Any:
    return np.sin(a) * b


# ------------------------------------------------------------------------------------------------ bodies
# functions of the inner value y and the outer one v, whose derivatives in both are not constant

BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda y, v: y * y * v,
    "sine of a product": lambda y, v: np.sin(y * v) * y,
    "a user's primitive": lambda y, v: cubed(y) * cubed(v) + scaled(y, v) * y,
    "a primitive of the outer value": lambda y, v: y * slope_inside(v) + y * y * v,
    "jit inside": lambda y, v: compiled_product(y * v, v) * y,
    "a branch": lambda y, v: y * v * v if v > 0 else y * v * v * v,
    "an array": lambda y, v: np.sum(np.array([y, v, y * v]) ** 2 * np.arange(1.0, 4.0)),
    "a written array": lambda y, v: written(y, v),
    "a list": lambda y, v: np.sum([y * v, v, y**3 * v]),
    "a loop": lambda y, v: loop(y, v),
    "where": lambda y, v: np.where(y > v, y * v, y * y * v * v)[()],
    "a dict": lambda y, v: sum(d["a"] * d["b"] * d["a"] for d in [{"a": y, "b": v * v}]),
    "a constant of its own": lambda y, v: y * y * gradient(lambda t: t * t * v)(1.5),
    "a power": lambda y, v: (y * y + 1.0) ** v,
    "linear": lambda y, v: y * np.exp(v),
    "a gradient in both": lambda y, v: y * np.sum(gradient(lambda p: p[0] * p[1] ** 2)(np.array([y, v]))),
    "value and gradient": lambda y, v: value_and_grad(lambda t: np.sin(t * v) * y)(y)[1] * y,
    "pulled back": lambda y, v: y * pullback(lambda t: t * t * v, y)[1](v)[0],
    "seeded": lambda y, v: y * np.sum(grad(lambda t: t * np.array([1.0, 2.0]) * t, y, seed=np.array([v, v * v]))[1][0]),
}


def written(y: Any, v: Any) -> Any:
    z = np.zeros(3)
    z[0] = y * v
    z[1:] += v * v * y * y
    return np.sum(z * z)


def loop(y: Any, v: Any) -> Any:
    s = y
    for k in range(3):
        s = s * v + np.sin(s) * k
    return s


# ------------------------------------------------------------------------------------------------- roads
# how the outer value v comes to the inner function


def by_closure(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(lambda t: body(t, v), y)


def by_result_of_closure(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    def f() -> Any:
        return v * 1.0

    return transform(lambda t: body(t, f()), y)


def by_default(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    def inner(t: Any, v: Any = v) -> Any:
        return body(t, v)

    return transform(inner, y)


def by_keyword_default(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    def inner(t: Any, *, v: Any = v) -> Any:
        return body(t, v)

    return transform(inner, y)


def by_object(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    holder = Holder(v)
    return transform(lambda t: body(t, holder.value), y)


def by_slots(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    holder = Slotted(v)
    return transform(lambda t: body(t, holder.value), y)


def by_method(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    class Model:
        def __init__(self) -> None:
            self.w = v

        def loss(self, t: Any) -> Any:
            return body(t, self.w)

    return transform(Model().loss, y)


def by_callable_object(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    class Model:
        w = v

        def __call__(self, t: Any) -> Any:
            return body(t, self.w)

    return transform(Model(), y)


def by_list(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    values = [0.0, [v]]
    return transform(lambda t: body(t, values[1][0]), y)


def by_dict_of_objects(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    values = {"a": Holder({"b": (v,)})}
    return transform(lambda t: body(t, values["a"].value["b"][0]), y)


def by_dataclass(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    pair = Pair(v)
    return transform(lambda t: body(t, pair.value), y)


def by_namespace(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    space = types.SimpleNamespace(v=v)
    return transform(lambda t: body(t, space.v), y)


def by_global(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    global SHARED
    before, SHARED = SHARED, v
    try:
        return transform(lambda t: body(t, SHARED), y)
    finally:
        SHARED = before


def by_partial(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(partial(lambda w, t: body(t, w), v), y)


def by_partial_keyword(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(partial(body, v=v) if body.__code__.co_varnames[1] == "v" else partial(lambda t, v: 0.0, v=v), y)


def by_argument(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(body, y, v)


def by_keyword(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(body, y, v=v)


def by_argument_list(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(lambda t, p: body(t, p["v"][0]), y, {"v": [v]})


def by_argument_tuple(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(lambda t, p: body(t, p.value), y, Named(v))


def by_argument_object(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(lambda t, holder: body(t, holder.value), y, Holder(v))


def by_argument_dataclass(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(lambda t, pair: body(t, pair.value), y, Pair(v))


def by_argument_function(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(lambda t, f: body(t, f(1.0)), y, lambda s: v * s)


def by_array(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    array = np.array([v, 2.0])
    return transform(lambda t: body(t, array[0]), y)


def by_array_argument(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(lambda t, a: body(t, a[0]), y, np.stack([v, 2.0]))


def by_generator(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(lambda t: sum(body(t, w) for w in (v, v * 0.5)), y)


def by_point(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    """The inner function is differentiated at the outer value itself."""
    return transform(lambda t: body(t, 1.25), v * y)


def by_point_and_closure(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    return transform(lambda t: body(t, v), v)


def by_output_of_gradient(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    w = gradient(lambda t: t**3 * v)(v)
    return transform(lambda t: body(t, w * 0.2), y)


def by_stored_attribute(body: Any, transform: Inner, y: Any, v: Any) -> Any:
    holder = Holder(None)

    def inner(t: Any) -> Any:
        holder.value = t * v
        return body(holder.value, v)

    return transform(inner, y)


ROADS = [value for name, value in list(globals().items()) if name.startswith("by_")]

# -------------------------------------------------------------------------------------- inner transforms


def with_gradient(f: Any, *args: Any, **kwargs: Any) -> Any:
    return gradient(f)(*args, **kwargs)


def with_value_and_grad(f: Any, *args: Any, **kwargs: Any) -> Any:
    value, slope = value_and_grad(f)(*args, **kwargs)
    return value * slope


def with_value(f: Any, *args: Any, **kwargs: Any) -> Any:
    return value_and_grad(f)(*args, **kwargs)[0]


def with_grad(f: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    value, slopes = grad(lambda t: f(t, *args, **kwargs), y)
    return value + slopes[0]


def with_all_of_grad(f: Any, *args: Any, **kwargs: Any) -> Any:
    return grad(f, *args, **kwargs)[1][0]


def with_aux(f: Any, *args: Any, **kwargs: Any) -> Any:
    (value, aux), slope = value_and_grad(lambda *a, **k: ((z := f(*a, **k)), z * z), has_aux=True)(*args, **kwargs)
    return value + aux * slope


def with_pullback(f: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    value, back = pullback(lambda t: f(t, *args, **kwargs), y)
    return back(1.0)[0] * value


def with_seed(f: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    return pullback(lambda t: f(t, *args, **kwargs), y)[1](y * 2.0)[0]


def with_second(f: Any, *args: Any, **kwargs: Any) -> Any:
    return gradient(gradient(f))(*args, **kwargs)


def with_jit(f: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    return jit(gradient(lambda t: f(t, *args, **kwargs)))(y)


def with_argnums(f: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    return gradient(lambda a, t, b: f(t, *args, **kwargs) * a * b, (1, 2))(2.0, y, 3.0)[0]


TRANSFORMS = [value for name, value in list(globals().items()) if name.startswith("with_")]


def program(road: Any, body: Any, transform: Inner, y: float, outer: bool) -> Callable[[Any], Any]:
    """A function of a number; with ``outer``, its point is made of the argument as well."""
    return lambda v: road(body, transform, y * v if outer else y, v)


def central(f: Callable[[Any], Any], v: float) -> float:
    e = 1e-5
    return float(8 * (f(v + e) - f(v - e)) - (f(v + 2 * e) - f(v - 2 * e))) / (12 * e)


def check(f: Callable[[Any], Any], v: float) -> None:
    have, want = gradient(f)(v), central(f, v)
    assert_allclose(have, want, rtol=1e-5, atol=1e-6)


@pytest.mark.singly("road", "body")
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_every_road(road: Any, body: str) -> None:
    with_value = program(road, BODIES[body], with_value_and_grad, 0.7, outer=False)
    check(with_value, 1.3)


@pytest.mark.singly("transform", "body")
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: transform.__name__)
def test_every_transform(transform: Any, body: str) -> None:
    check(program(by_closure, BODIES[body], transform, 0.7, outer=True), 1.3)


@pytest.mark.parametrize("number", range(examples(13, share=4)))
def test_random_programs(number: int) -> None:
    """Also one within another, and compiled."""
    draw = random.Random(number)
    road, body, transform = draw.choice(ROADS), BODIES[draw.choice([*BODIES])], draw.choice(TRANSFORMS)
    f = program(road, body, transform, draw.choice([0.4, 0.7]), draw.random() < 0.5)
    if draw.random() < 0.4:
        other = BODIES[draw.choice([*BODIES])]
        g, road2, transform2 = f, draw.choice(ROADS), draw.choice(TRANSFORMS)
        f = program(road2, lambda y, v: other(y, v) * 0.1 + y * g(v), transform2, 0.6, draw.random() < 0.5)
    before = config.compile
    config.compile = draw.choice(["never", "always"])
    try:
        for v in (1.3, 0.9, 1.1):
            check(f, v)
    finally:
        config.compile = before


# --------------------------------------------------------------------------------- what may lose derivatives

LOSSY: dict[str, Callable[[Any, Any], Any]] = {
    "float": lambda y, v: y * y * float(v),
    "a NumPy scalar": lambda y, v: y * y * np.float64(v),
    "complex": lambda y, v: y * y * complex(v).real,
    "pickle": lambda y, v: y * y * pickle.loads(pickle.dumps(v)),
    "a deep copy": lambda y, v: y * y * copy.deepcopy(v) * v,
    "array.array": lambda y, v: y * y * array.array("d", [v])[0],
    "an iterator": lambda y, v: y * y * np.fromiter([v, v], float)[0],
    "C code": lambda y, v: y * y * sum(float(a) for a in np.nditer(np.ones(2) * v)),
    "SciPy": lambda y, v: y * y * scipy.linalg.expm(np.eye(2) * v)[0, 0],
    "a distribution": lambda y, v: y * y * scipy.stats.norm.cdf(np.ones(2) * v)[0],
    "vectorize": lambda y, v: y * y * np.vectorize(lambda r: r * 2)(np.ones(2) * v)[0],
    "a generator": lambda y, v: y * y * np.random.default_rng(0).normal(np.ones(2) * v)[0],
    "c_": lambda y, v: y * y * np.c_[np.ones(2) * v, np.ones(2)][0, 0],
    "r_": lambda y, v: y * y * np.r_[v, 1.0][0],
    "an object given to a primitive": lambda y, v: y * times_held(y, Holder(v)),
    "a function given to a primitive": lambda y, v: y * times_held(y, lambda: v),
    "threads": lambda y, v: sum(ThreadPoolExecutor(2).map(lambda k: y * y * v * k, [1.0, 2.0])),
    "gradients in threads": lambda y, v: sum(
        ThreadPoolExecutor(2).map(lambda k: gradient(lambda t: t * t * v * k)(y), [1.0, 2.0])
    ),
    "an array of objects": lambda y, v: y * y * np.array([v, y], dtype=object)[0],
    "a memo": lambda y, v: (memo := functools.lru_cache(lambda t: t**3))(v) * 0.0 + memo(y) * v,
    "a key": lambda y, v: y * y * next(iter({v: 1})) * v,
    "a set": lambda y, v: y * y * next(iter({v})) * v,
    "struct": lambda y, v: y * y * struct.unpack("d", struct.pack("d", v))[0],
}


@primitive
def times_held(y: Any, holder: Any) -> Any:
    return y * (holder() if callable(holder) else holder.value)


@rrule(times_held)
def _(y: Any, holder: Any) -> Any:
    return times_held(y, holder), lambda dy: (times_held(dy, holder), None)


OTHER_WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "argument": lambda body, v: gradient(body)(0.7, v),
    "keyword": lambda body, v: gradient(lambda y, *, w: body(y, w))(0.7, w=v),
    "closure": lambda body, v: gradient(lambda y: body(y, v))(0.7),
    "value": lambda body, v: value_and_grad(body)(0.7, v)[0],
    "array": lambda body, v: gradient(lambda y, a: body(y, a[0]))(0.7, np.ones(2) * v),
    "third level": lambda body, v: gradient(lambda s: gradient(body)(0.7, s) * s)(v),
}


@pytest.mark.singly("way", "body")
@pytest.mark.parametrize("way", OTHER_WAYS)
@pytest.mark.parametrize("body", LOSSY)
def test_what_an_inner_function_converts(body: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is right, or refused: what is a constant to the inner gradient need not be one to the outer."""
    monkeypatch.setattr(cache, "WAIT_SECONDS", 0.05)  # threads wait for the trace that waits for them
    monkeypatch.setattr(recording, "LOCK_SECONDS", 0.05)

    def f(v: Any) -> Any:
        return OTHER_WAYS[way](LOSSY[body], v)

    try:
        have = gradient(f)(1.3)
    except YotaError:
        return
    assert_allclose(have, central(f, 1.3), rtol=1e-5, atol=1e-6)


def test_values_without_derivative_may_be_converted() -> None:
    def f(v: Any) -> Any:
        return gradient(lambda y, n: y * y * float(stop_gradient(n)))(0.7, v) * v

    for v in (1.3, 1.5, 1.3):
        assert_allclose(gradient(f)(v), 1.4 * v)
