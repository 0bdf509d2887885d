"""The shortest way with Python's numbers, functions of ``math`` and of SciPy, and lists that begin with items: value
and gradient are those of a trace, and nothing of the user's is changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sla
import scipy.special
from entries import OF_SCIPY, called
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.special import softmax as soft
from sets import examples
from test_eager_numbers import PLAIN, both
from test_short import assert_same

from yota_py import config, value_and_grad
from yota_py.cache.modes import Gradient, Request
from yota_py.registry.patches import patched
from yota_py.registry.registry import Sample
from yota_py.reverse.eager import eagerly
from yota_py.tracing.stand_ins import Kept

POINTS = [0.0, -0.0, 1.0, -1.0, 0.3, 1.7, -2.5, 1e-320, 1e300, math.inf, -math.inf, math.nan]
OPERATORS = [
    "{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} ** {}", "{} % {}", "{} // {}", "max({}, {})", "min({}, {})",
    "{0} * 3 if {0} < {1} else -{1} * {0}",
]  # fmt: skip
OF_MATH = sorted(name for owner, name in patched if owner is math and name not in ("fsum", "prod", "dist", "ldexp"))
TABLE = [1.0, 2.0]


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    """What a call gives or raises."""
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except Exception as error:
        return type(error)


def function(arguments: str, text: str, **names: Any) -> Any:
    """A function of the user's with these global names."""
    space = {"np": np, "math": math} | names
    exec(f"def f({arguments}):\n    return {text}", space)
    return space["f"]


@pytest.mark.parametrize("op", OPERATORS)
def test_operators(op: str) -> None:
    reached, calls = 0, 0
    for other in PLAIN:
        texts = op.format("x", "c"), f"({op.format('c', 'x')}) * 1.0"
        functions = [function("x", text, c=other) for text in texts]
        for x in POINTS:
            for f in functions:
                if isinstance(plain := outcome(f, x), float):
                    calls, reached = calls + 1, reached + both(f, x)
                elif isinstance(plain, type):  # what Python raises
                    config.compile = "never"
                    assert outcome(value_and_grad(f), x) is plain
    f = function("x, y", f"({op.format('x', 'y')}) + x * 0.5")
    for x in POINTS:
        for y in POINTS[:6]:
            if isinstance(outcome(f, x, y), float):
                calls, reached = calls + 1, reached + both(f, x, y, argnums=(0, 1))
    assert reached > (0.1 if op[0] == "m" or "//" in op else 0.6) * calls, (reached, calls)


@pytest.mark.parametrize("name", OF_MATH)
def test_functions_of_math(name: str) -> None:
    reached = calls = 0
    for arguments in ("x", "x, y"):
        f = function(arguments, f"math.{name}({arguments}) * 1.5 + x")
        for x in POINTS:
            args = (x, 1.5)[: len(arguments.split())]
            if isinstance(outcome(f, *args), float):
                for given in (args, tuple(map(np.float64, args))):
                    calls, reached = calls + 1, reached + both(f, *given)
    assert reached or not calls or name in ("nextafter", "ulp", "isclose"), (reached, calls)


def by_modules(x: Any) -> Any:
    f = x[0] * math.cos(x[1])
    return math.hypot(f, x[2]) ** 2


def in_paths(x: Any) -> Any:
    return scipy.special.expit(x[0]) * scipy.special.logsumexp(x) + np.sum(scipy.special.softmax(x) * x)


def alias(x: Any) -> Any:
    return logsumexp(x[:, None] + np.eye(3), axis=0)[1] + np.sum(soft(x, axis=0)[:2]) + logsumexp([x[0], x[1]])


def weights_that_are_traced(x: Any) -> Any:
    return logsumexp(x, b=np.exp(x))


def factors(x: Any) -> Any:
    c = sla.cho_factor(np.outer(x, x) + 3 * np.eye(3), lower=True)
    return x @ sla.cho_solve(c, x) + np.sum(np.log(np.diag(c[0])))


@pytest.mark.parametrize("f", [by_modules, in_paths, alias, factors])
def test_functions_of_libraries(f: Callable[..., Any]) -> None:
    for x in (np.array([0.3, -1.0, 2.0]), np.array([1.3, 0.2, -0.4]), np.ones(3)):
        assert both(f, x)


def test_traced_keywords_of_libraries() -> None:
    x = np.array([0.3, -1.0, 2.0])
    assert not both(weights_that_are_traced, x)
    config.compile = "never"
    value, dx = value_and_grad(weights_that_are_traced)(x)
    np.testing.assert_allclose(value, logsumexp(2 * x))
    np.testing.assert_allclose(dx, 2 * soft(2 * x))


def total(y: Any) -> Any:
    """A number that depends on all that is inexact."""
    if isinstance(y, tuple | list):
        return sum(map(total, y), 0.0)
    return np.sum(y * np.cos(np.arange(np.size(y))).reshape(np.shape(y))) if np.size(y) else 0.0


@pytest.mark.parametrize("module", ["scipy.special", "scipy.linalg", "scipy.fft"])
@pytest.mark.filterwarnings("ignore")
def test_primitives_of_scipy(module: str) -> None:
    """As with a trace, or left to one, at the first draw of each rule's cases."""
    reached = []
    for entry in [entry for entry in OF_SCIPY if called(entry).startswith(module)]:
        for case in [case for draw in entry.cases for case in draw(Sample(0))]:
            places = [k for k, x in enumerate(case.args) if type(x) is np.ndarray and x.dtype == float and x.ndim]

            def f(*xs: Any, entry: Any = entry, case: Any = case, places: Any = places) -> Any:
                args = [*case.args]
                for k, x in zip(places, xs, strict=True):
                    args[k] = x
                return total(entry.fn(*args, **case.kwargs)) + sum(0.0 * x.ravel()[0] for x in xs if np.size(x))

            xs = tuple(np.array(case.args[k]) for k in places)
            with Kept(), np.errstate(all="ignore"):
                if places and (have := eagerly(f, xs, {}, None, adds=False, codes=())) is not None:
                    value, dxs = Gradient(None).reference(Request(f, xs, {}))[0]
                    assert type(have[0][0]) is type(value)
                    for dx, wanted in zip((have[0][0], *have[0][1]), (value, *dxs), strict=True):
                        np.testing.assert_allclose(dx, wanted, rtol=1e-9, atol=1e-12)
                    reached.append(entry.name)
    assert len({*reached}) > (1 if module == "scipy.fft" else 30), reached  # complex numbers are left to a trace


def begins_with_items(x: Any) -> Any:
    v = [x[0], 1.0]
    for i in range(4):
        v.append(v[-1] * 0.5 + x[i % 3] * v[-2])
    v = np.array(v)
    return np.sum(v**2)


def begins_with_constants(x: Any) -> Any:
    v = [1.0, 2.0, 3.0]
    v.append(x[0] * x[1])
    w = [x]
    w.append(x * 2)
    v = np.stack(v)
    w = np.vstack(w)
    return np.sum(v) * np.sum(w)


@pytest.mark.parametrize("f", [begins_with_items, begins_with_constants])
def test_lists_that_begin_with_items(f: Callable[..., Any]) -> None:
    for x in (np.array([0.3, -1.0, 2.0]), np.zeros(3), np.ones(3)):
        assert both(f, x)


def of_another(x: Any) -> Any:
    v = list_of_the_users()
    v.append(x[0])
    return v[-1] * v[0] * len(v)


def of_another_later(x: Any) -> Any:
    v = [2.0]
    if x[0] > 0:
        v = list_of_the_users()
    v.append(x[0])
    return v[-1] * v[0] * len(v)


def unpacked_list(x: Any) -> Any:
    v = [2.0]
    if x[0] > 0:
        v, _, _ = list_of_the_users(), np.zeros(2), np.zeros(3)
    v.append(x[0])
    return v[-1] * v[0] * len(v)


def list_of_the_users() -> Any:
    return TABLE


@pytest.mark.parametrize("f", [of_another, of_another_later, unpacked_list])
def test_lists_of_others_grow_as_in_plain_calls(f: Callable[..., Any]) -> None:
    config.compile = "never"
    assert Gradient(0).at_once(Request(f, (np.ones(2),), {})) is None
    before = [*TABLE]
    try:
        value, dx = value_and_grad(f)(np.array([3.0, 1.0]))
        assert value == 9.0
        np.testing.assert_array_equal(dx, [3.0, 0.0])
        assert TABLE == [1.0, 2.0, 3.0]
    finally:
        TABLE[:] = before


FUNCTIONS: Any = {"add": np.add, "sqrt": np.sqrt, "sort": np.ndarray.sort}
SUMS, ROOTS = [np.add], (np.sqrt,)
BUFFER = np.ones(2)


def from_a_dict(x: Any) -> Any:
    op = FUNCTIONS["add"]
    y = np.sum(x * BUFFER)
    op(BUFFER, 1.0, BUFFER)
    return y


def in_a_loop(x: Any) -> Any:
    for root in ROOTS:
        root(BUFFER + 3.0, BUFFER)
    return np.sum(x)


def by_default(x: Any, sums: Any = (np.add,)) -> Any:
    for op in sums:
        op(BUFFER, 1.0, BUFFER)
    return np.sum(x)


def called_by(fn: Any, *args: Any) -> Any:
    return fn(args[0], 1.0, args[0])


def by_another(x: Any) -> Any:
    called_by(SUMS[0], BUFFER)
    return np.sum(x)


def by_another_with_one(x: Any) -> Any:
    for fn in FUNCTIONS.values():
        fn(BUFFER)
    return np.sum(x)


def at_once(x: Any) -> Any:
    SUMS[0](BUFFER, 1.0, BUFFER)
    return np.sum(x)


@pytest.mark.parametrize("f", [from_a_dict, in_a_loop, by_default, by_another, by_another_with_one, at_once])
def test_functions_in_containers_write_nothing_unseen(f: Callable[..., Any]) -> None:
    assert Gradient(0).at_once(Request(f, (np.ones(2),), {})) is None
    np.testing.assert_array_equal(BUFFER, [1.0, 1.0])


def layers(x: Any) -> Any:
    for activation in ROOTS:
        x = activation(x * x + 1.0)
    return np.sum(x)


def test_activations_in_a_tuple() -> None:
    assert both(layers, np.array([0.3, -1.0]))


def test_what_is_overwritten() -> None:
    a = np.array([[2.0, 0.3], [0.3, 1.0]])

    def f(x: Any) -> Any:
        return np.sum(sla.solve(a, x, False, True))  # lower, overwrite_a

    x = np.ones(2)
    assert Gradient(0).at_once(Request(f, (x,), {})) is None
    np.testing.assert_array_equal(x, [1.0, 1.0])


@pytest.mark.parametrize("numbers", [(0.5, 2.0), (np.float64(0.5), 2.0), (0.5, np.array([2.0, 1.0])), ([0.5], 1.5)])
def test_types_are_those_of_a_trace(numbers: tuple[Any, ...]) -> None:
    def f(a: Any, b: Any) -> Any:
        x = a[0] if isinstance(a, list) else a
        return np.sum(np.sin(x) * b) + x

    have = Gradient((0, 1)).at_once(Request(f, numbers, {}))
    assert have is not None
    (value, dxs), (wanted, others) = have[0], Gradient((0, 1)).reference(Request(f, numbers, {}))[0]
    assert_same(value, wanted)
    assert type(value) is type(wanted)
    assert [*map(type, dxs)] == [*map(type, others)]
    for dx, other in zip(dxs, others, strict=True):
        np.testing.assert_allclose(dx, other, rtol=1e-14)


def unpacked_array(x: Any) -> Any:
    n, _, _ = table_of_the_users(), 1.0, -x[0]
    n += 1.0
    return np.sum(n) * x[0]


OF_USERS = np.ones(2)


def table_of_the_users() -> Any:
    return OF_USERS


def test_what_is_unpacked_may_be_somebody_elses() -> None:
    assert Gradient(0).at_once(Request(unpacked_array, (np.ones(2),), {})) is None
    np.testing.assert_array_equal(OF_USERS, [1.0, 1.0])


@settings(deadline=None, max_examples=examples(15, share=10))
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=4), st.integers(0, 2**16))
def test_random_programs(xs: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    names, lines = ["xs[0]", "xs[1]", "1.5", "2"], []
    forms = ["{} + {}", "{} - {}", "{} * {}", "math.tanh({}) * {}", "math.sin({}) / (2 + abs({}))", "max({}, {})"]
    for i in range(8):
        lines.append(f"x{i} = " + str(rng.choice(forms)).format(*map(str, rng.choice(names, 2))))
        names.append(f"x{i}")
    space: dict[str, Any] = {"np": np, "math": math}
    exec("def f(*xs):\n    " + "\n    ".join(lines) + "\n    return np.cos(x6) * x7 + x5 + xs[0]\n", space)
    assert both(space["f"], *xs, argnums=tuple(range(len(xs))))
