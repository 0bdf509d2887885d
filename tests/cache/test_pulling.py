"""``pullback`` and ``pushforward`` through the cache: programs now and later agree with what is interpreted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sets import examples

from yota_py import AuditWarning, SeedError, config, explain, grad, gradient, pullback, pushforward
from yota_py.base.settings import Uncompiled
from yota_py.testing.finite import random_like

pytestmark = pytest.mark.usefixtures("every_policy")


class Pair(NamedTuple):
    x: Any
    a: Any


SCALE = np.array([1.0, 2.0, 0.5])


def steps(x: Any) -> Any:
    y = x
    for _ in range(40):
        y = y + 0.01 * np.sin(y * x)
    return y, np.sum(y)


def branches(x: Any) -> Any:
    return x * x if np.sum(x) > 0 else np.exp(x)


def until(x: Any) -> Any:
    while np.sum(x * x) > 0.5:
        x = 0.8 * x
    return x


def written(x: Any) -> Any:
    y = np.zeros(5)
    y[1:4] = x * SCALE
    y[2] *= x[0]
    return y


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x: np.tanh(x) * x,
    "scalar": lambda x: np.sum(x**3),
    "containers": lambda x: {"a": x * 2, "b": (np.sum(x), [x[0], 3, "text", None])},
    "namedtuple": lambda x: Pair(np.exp(x), x.sum()),
    "itself": lambda x: x,
    "views": lambda x: (x[::-1], x[1:], np.reshape(x, (3, 1)).T),
    "constant beside": lambda x: (np.sin(x), np.ones(2), 1.5),
    "captured": lambda x: x @ np.diag(SCALE),
    "solve": lambda x: np.linalg.solve(np.diag(x**2) + np.eye(3), x),
    "complex": lambda x: np.exp(1j * x),
    "loop": steps,
    "branches": branches,
    "until": until,
    "written": written,
    "no influence of a part": lambda x: x[0] * 2.0,
    "sort": lambda x: np.sort(x),
    "gather": lambda x: x[np.argsort(x)[:2]],
    "several results of one": lambda x: (x + x, x + x),
    "gradient inside": lambda x: gradient(lambda z: np.sum(np.sin(z) ** 3))(x),
    "python's numbers": lambda x: float(3) * x[1] + 2,
    "float32": lambda x: np.float32(2) * x.astype(np.float32),
}


def same(have: Any, want: Any) -> None:
    def leaf(a: Any, b: Any) -> None:
        assert type(a) is type(b)
        if isinstance(b, np.ndarray | np.generic):
            assert a.dtype == b.dtype and a.shape == b.shape
        if isinstance(b, np.ndarray | np.generic | float | complex):
            assert_allclose(a, b, rtol=1e-5 if np.asarray(b).dtype.itemsize == 4 else 1e-10, atol=1e-12)
        else:
            assert a == b

    optree.tree_map(leaf, have, want, none_is_leaf=True)


def seeds_of(y: Any, rng: np.random.Generator) -> Any:
    return optree.tree_map(lambda z: random_like(z, rng) if np.asarray(z).dtype.kind in "fc" else None, y,
                           none_is_leaf=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_agree_with_the_interpreter(name: str) -> None:
    f, rng = FUNCTIONS[name], np.random.default_rng(1)
    for _ in range(5):
        x = rng.normal(size=3)
        kept = x.copy()
        (y, back), (z, forward) = pullback(f, x), pushforward(f, x)
        with Uncompiled():
            (y2, back2), (z2, forward2) = pullback(f, kept), pushforward(f, kept)
        x[:] = np.nan  # what is computed later knows nothing of it
        same((y, z), (y2, z2))
        for _ in range(2):
            seed, v = seeds_of(y2, rng), rng.normal(size=3)
            same(back(seed), back2(seed))
            same(forward(v), forward2(v))
    assert "wrong" not in str(explain(f))


@pytest.mark.parametrize("transform", [pullback, pushforward])
def test_it_is_compiled(transform: Any) -> None:
    config.compile, config.audit = "always", "off"
    f = FUNCTIONS["containers"]
    for i in range(4):
        transform(f, np.arange(3.0) + i)
    assert "3 calls ran compiled code, 1 did not" in str(explain(f))


def test_arguments_of_all_kinds() -> None:
    def f(tree: Any, n: int, x: float, name: str, *, bias: Any) -> Any:
        return tree["w"] * x ** n + bias, x * 2, n

    rng = np.random.default_rng(2)
    for i in range(5):
        tree, bias = {"w": rng.normal(size=(2, 2)), "k": 3, "c": 1.0 + 2j}, rng.normal(size=2)
        args = tree, 2, 0.5 + i, "name"
        (y, back), (z, forward) = pullback(f, *args, bias=bias), pushforward(f, *args, bias=bias)
        seed = rng.normal(size=(2, 2)), 0.5, None
        tangents = {"w": rng.normal(size=(2, 2)), "k": None, "c": 0.5}, None, 2.0, None
        none = {"w": None, "k": None, "c": None}, None, None, None
        have = y, z, back(seed), forward(*tangents), forward(*none), forward(None, None, 1, None)
        with Uncompiled():
            (y, back), (z, forward) = pullback(f, *args, bias=bias), pushforward(f, *args, bias=bias)
            same(have, (y, z, back(seed), forward(*tangents), forward(*none), forward(None, None, 1, None)))


def test_captured_arrays_may_change_afterwards() -> None:
    w = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        return x * x * w

    for i in range(4):
        w[:] = [1.0 + i, 2.0]
        _, back = pullback(f, np.array([3.0, 1.0]))
        _, forward = pushforward(f, np.array([3.0, 1.0]))
        w[:] = 100.0
        assert_allclose(back(np.ones(2))[0], [6.0 * (1 + i), 4.0])
        assert_allclose(forward(np.ones(2)), [6.0 * (1 + i), 4.0])


def test_draws_are_those_of_the_value() -> None:
    def f(x: Any) -> Any:
        return x * rng.normal(size=2) + np.random.normal()

    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    np.random.seed(0)
    for _ in range(4):
        _, back = pullback(f, np.array([1.0, 1.0]))
        factor = again.normal(size=2)
        for _ in range(2):
            assert_allclose(back(np.ones(2))[0], factor)
    assert rng.bit_generator.state == again.bit_generator.state


def test_what_is_printed_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("x is", x)
        return x * x

    for i in range(4):
        _, back = pullback(f, float(i))
        assert capsys.readouterr().out == f"x is {float(i)}\n"
        assert back(1.0) == (2.0 * i,)
        assert capsys.readouterr().out == ""


def test_what_is_stored_is_stored_each_time() -> None:
    class Model:
        calls = 0

        def __call__(self, x: Any) -> Any:
            self.calls += 1
            self.last = x * 2
            return self.last * x

    model = Model()
    for i in range(4):
        _, back = pullback(model, 1.0 + i)
        assert back(1.0) == (4.0 * (1.0 + i),)
        assert model.last == 2.0 * (1.0 + i) and model.calls == i + 1


def test_functions_after_each_other() -> None:
    def of(k: int) -> Callable[[Any], Any]:
        return lambda x: x**k

    made = [pullback(of(k), x)[1] for x in (np.array([2.0]), np.array([3.0])) for k in (2, 3, 4)]
    have = [back(np.ones(1))[0][0] for back in made]
    assert_allclose(have, [4, 12, 32, 6, 27, 108])


def test_they_can_be_differentiated() -> None:
    def f(x: Any) -> Any:
        return steps(x)[0]

    x = np.array([0.5, 1.0, -0.3])
    for _ in range(3):
        _, back = pullback(f, x)  # made outside, called inside
        _, forward = pushforward(f, x)
        rows = np.array([gradient(lambda s, i=i, back=back: back(s)[0][i])(np.ones(3)) for i in range(3)])
        columns = np.array([gradient(lambda v, i=i, forward=forward: forward(v)[i])(np.ones(3)) for i in range(3)])
        assert_allclose(rows, columns.T, rtol=1e-10)
        second = gradient(lambda x: np.sum(pullback(f, x)[1](np.ones(3))[0] ** 2))(x)
        also = gradient(lambda x: np.sum(gradient(lambda z: np.sum(f(z)))(x) ** 2))(x)
        assert_allclose(second, also, rtol=1e-10)


def test_errors_are_as_before() -> None:
    def f(x: Any) -> Any:
        return x * 2

    for _ in range(3):
        _, back = pullback(f, np.ones(2))
        _, forward = pushforward(f, np.ones(2))
        with pytest.raises(SeedError, match=r"of shape \(2,\)"):
            back(np.ones(3))
        with pytest.raises(SeedError, match="structure"):
            pullback(lambda x: (x, x), np.ones(2))[1](np.ones(2))
        with pytest.raises(SeedError, match="complex"):
            back(np.ones(2) * 1j)
        with pytest.raises(TypeError, match="a tangent for each of the 1 arguments"):
            forward(np.ones(2), np.ones(2))
        with pytest.raises(SeedError, match="tangent of argument 0"):
            forward(np.ones(3))
        assert_allclose(back([1, 2])[0], [2.0, 4.0])
        assert_allclose(forward([1, 2]), [2.0, 4.0])


def test_a_way_back_that_fails() -> None:
    def f(x: Any) -> Any:
        return np.linalg.inv(x)

    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError):
            pullback(f, np.zeros((2, 2)))
        _, back = pullback(f, np.eye(2) * 2)
        assert_allclose(back(np.ones((2, 2)))[0], -0.25 * np.ones((2, 2)))


def test_many_threads_pull_back() -> None:
    def f(x: Any) -> Any:
        return np.sin(x) * x

    pullback(f, np.ones(50))
    failed = []

    def work(i: int) -> None:
        for j in range(50):
            x = np.full(50, 1.0 + i + j)
            _, back = pullback(f, x)
            if not np.allclose(back(np.ones(50))[0], np.sin(x) + x * np.cos(x)):
                failed.append((i, j))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@settings(max_examples=examples(3, share=20), deadline=None)
@given(st.integers(0, 2**31), st.lists(st.sampled_from(sorted(FUNCTIONS)), min_size=2, max_size=3))
def test_compositions(seed: int, names: list[str]) -> None:
    """The inner product of what goes forward and of what flows back is one."""
    rng = np.random.default_rng(seed)

    def f(x: Any) -> Any:
        for name in names:
            leaves = [z for z in optree.tree_leaves(FUNCTIONS[name](x)) if np.asarray(z).dtype.kind == "f"]
            x = np.tanh(np.concatenate([*(np.reshape(z, -1) for z in leaves), np.ones(3)])[:3]) + 0.1
        return x

    for _ in range(3):
        x, v = rng.normal(size=3), rng.normal(size=3)
        (y, back), (_, forward) = pullback(f, x), pushforward(f, x)
        w = rng.normal(size=np.shape(y)).astype(y.dtype)
        scale = np.max(np.abs(back(w)[0])) + 1.0
        assert_allclose(np.sum(w * forward(v)), np.sum(back(w)[0] * v), rtol=1e-3, atol=1e-4 * scale)
        assert_allclose(grad(lambda x, w=w: np.sum(w * f(x)), x)[1][0], back(w)[0], rtol=1e-3, atol=1e-4 * scale)


def test_no_program_is_said_to_be_wrong(recwarn: pytest.WarningsRecorder) -> None:
    for name in ("elementwise", "loop", "solve"):
        for i in range(8):
            pullback(FUNCTIONS[name], np.arange(3.0) + 0.1 * i)
            pushforward(FUNCTIONS[name], np.arange(3.0) + 0.1 * i)
    assert not [w for w in recwarn if issubclass(w.category, AuditWarning)]


def test_objects_and_functions_have_mirrors() -> None:
    class Layer:
        def __init__(self, w: Any) -> None:
            self.w = w

    def line(slope: float, shift: float) -> Callable[[Any], Any]:
        return lambda x: slope * x + shift

    layer = Layer(np.ones(3))
    for i in range(4):
        layer.w = np.ones(3) + i
        _, back = pullback(lambda m, x, n: (np.sum(m.w**2) * x, m.w), layer, 2.0, 3)
        layer.w = np.zeros(3)
        for _ in range(2):
            of_layer, dx, dn = back((1.0, np.zeros(3)))
            assert_allclose(of_layer.w, 4.0 * (1 + i) * np.ones(3))
            assert dx == 3.0 * (1 + i) ** 2 and dn is None
        (of_f, dx) = pullback(lambda f, x: f(x) ** 2, line(2.0, 1.0), 3.0 + i)[1](1.0)
        assert (of_f.slope, of_f.shift, dx) == (2 * (7.0 + 2 * i) * (3 + i), 2 * (7.0 + 2 * i), 4 * (7.0 + 2 * i))
