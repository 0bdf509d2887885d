"""Functions that draw random numbers are compiled, and draw as plain Python does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from drawing import same_draws, served, settings, states

from yota_py import explain, grad, jit, stop_gradient, value_and_grad
from yota_py.errors import LostDerivativeError

W = np.array([0.3, -0.7, 1.1])
M = np.arange(6.0).reshape(2, 3)
SHARED = np.random.default_rng(7)
LEGACY = np.random.RandomState(7)
PYTHONS = random.Random(7)


def dropout(w: Any) -> Any:
    h = np.tanh(M @ w)
    keep = (np.random.rand(*h.shape) < 0.8) / 0.8
    return np.sum(h * keep)


def reparameterised(w: Any) -> Any:
    eps = np.random.randn(4, *w.shape)
    return np.mean(np.sum((w + np.exp(0.1 * w) * eps) ** 2, axis=1))


def branch(w: Any) -> Any:
    if np.random.rand() < 0.5:
        return np.sum(w * np.random.normal())
    return np.sum(w**2) + np.random.uniform(1.0, 2.0)


def as_many_as_drawn(w: Any) -> Any:
    n = np.random.randint(1, 3)
    return np.sum(np.random.normal(size=(n, 3)) @ w)


def seeded(w: Any) -> Any:
    np.random.seed(3)
    return np.sum(w * np.random.rand(3)) + np.random.rand()


def made_inside(w: Any) -> Any:
    rng = np.random.default_rng(5)
    return np.sum(w * rng.normal(size=3)) * rng.random()


def minibatch(w: Any) -> Any:
    rows = np.random.choice(len(M), size=5)
    return np.sum((M[rows] @ w) ** 2)


def permuted(w: Any) -> Any:
    return np.sum(w[np.random.permutation(3)] * np.arange(3.0))


def by_probabilities(w: Any) -> Any:
    p = np.exp(w - np.max(w))
    p = p / np.sum(p)
    action = np.random.choice(3, p=p)
    return np.log(p[action]) * np.random.normal(1.0)


def several_by_probabilities(w: Any) -> Any:
    p = np.exp(w) / np.sum(np.exp(w))
    actions = SHARED.choice(3, size=(2, 4), p=p)
    return np.sum(np.log(p[actions]))


def of_python(w: Any) -> Any:
    scale = random.uniform(0.5, 1.5) + random.randint(0, 9) + random.gauss(0.0, 1.0) + random.random()
    return np.sum(w) * scale + random.choice(w) + random.gauss(w[0], 2.0)


def of_generators(w: Any) -> Any:
    a = SHARED.integers(0, 9, size=3) + LEGACY.poisson(3.0, 3) + PYTHONS.betavariate(1.0, 2.0)
    return np.sum(w * a) + SHARED.multivariate_normal(np.zeros(2), np.eye(2)).sum() * w[0]


def masked(w: Any) -> Any:
    y = 2.0 * w
    y[SHARED.random(3) < 0.5] = 0.0
    return np.sum(y**2)


def shuffled(w: Any) -> Any:
    y = 3.0 * w
    SHARED.shuffle(y)
    return np.sum(y * np.arange(3.0))


def located(w: Any) -> Any:
    a = np.random.normal(w, 1.0) + SHARED.normal(w, np.exp(w)) + np.random.normal(w[0], 2.0, size=3)
    a = a + SHARED.laplace(w, 2.0) + np.random.logistic(w) + SHARED.gumbel(1.0, np.exp(w)) + np.random.lognormal(w)
    a = a + np.random.uniform(w, w + 2.0) + SHARED.exponential(np.exp(w)) + SHARED.rayleigh(np.exp(w))
    return np.sum(a) + np.random.normal(w[1]) + SHARED.uniform(w[2], 5.0)


def written(w: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = w[i] * np.random.normal()
    noise = np.random.rand(3)
    noise[0] = 1.0
    noise *= 2.0
    return np.sum(out * noise)


def handed_on(w: Any) -> Any:
    return np.sum(w) * sum(map(np.random.normal, [0.0, 1.0, 2.0])) + sum(np.random.normal(k) for k in range(3)) * w[0]


FUNCTIONS: list[Callable[..., Any]] = [
    dropout, reparameterised, seeded, made_inside, minibatch, permuted, by_probabilities, several_by_probabilities,
    of_python, of_generators, masked, shuffled, located, written, handed_on,
]  # fmt: skip
BRANCHING: list[Callable[..., Any]] = [branch, as_many_as_drawn]


def shared() -> list[Any]:
    return [SHARED, LEGACY, PYTHONS]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("whole", [False, True])
def test_draws_as_plain_python(f: Callable[..., Any], whole: bool) -> None:
    same_draws(f, W, whole=whole, shared=shared)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_without_audits(f: Callable[..., Any]) -> None:
    same_draws(f, W, shared=shared, check=False, audit="off")


@pytest.mark.parametrize("f", BRANCHING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("whole", [False, True])
def test_decisions_on_draws(f: Callable[..., Any], whole: bool) -> None:
    same_draws(f, W, whole=whole, calls=12, compiled=10)


def of_argument(w: Any, rng: Any) -> Any:
    return np.sum(w * rng.normal(size=3)) * rng.random()


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, random.Random])
@pytest.mark.parametrize("whole", [False, True])
def test_generators_as_arguments(make: Callable[..., Any], whole: bool) -> None:
    if make is random.Random:
        same_draws(lambda w, rng: np.sum(w) * rng.gauss(0.0, 1.0) + rng.randrange(5), W, make(3), whole=whole)
    else:
        same_draws(of_argument, W, make(3), whole=whole)


def test_another_generator_each_time() -> None:
    f = value_and_grad(of_argument)
    with settings(compile="always", check=True):
        for seed in range(6):
            want = of_argument(W, np.random.default_rng(seed))
            assert f(W, np.random.default_rng(seed))[0] == pytest.approx(want, rel=1e-13)
    assert served(f) == 5


def test_a_generator_that_each_fit_makes() -> None:
    count = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)

        def loss(w: Any, rng: Any = rng) -> Any:
            return np.sum((w + rng.normal(size=3)) ** 2)

        def closure(w: Any) -> Any:
            return np.sum((w + rng.normal(size=3)) ** 2)  # noqa: B023 - called in this turn

        with settings(compile="always", check=True):
            for f in (loss, closure):
                again = np.random.default_rng(seed)
                rng.bit_generator.state = again.bit_generator.state
                for _ in range(3):
                    want = np.sum((W + again.normal(size=3)) ** 2)
                    assert grad(f, W)[0] == pytest.approx(want, rel=1e-13)
        count += 1
    assert [entry.calls for entry in explain(loss)] == [3 * count - 1]
    assert [entry.calls for entry in explain(closure)] == [3 * count - 1]


class Layer:
    """A layer with noise of its own, in several places."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(2)
        self.others = {"a": np.random.RandomState(1), "b": [random.Random(3)]}
        self.draw = self.rng.standard_normal

    def __call__(self, w: Any) -> Any:
        eps = self.rng.normal(size=3) + self.others["a"].rand(3) + self.others["b"][0].random() + self.draw(3)
        return np.sum(w * eps)


@pytest.mark.parametrize("whole", [False, True])
def test_generators_that_objects_hold(whole: bool) -> None:
    layer = Layer()
    everything = [layer.rng, layer.others["a"], layer.others["b"][0]]
    same_draws(layer, W, whole=whole, shared=lambda: everything)
    assert type(layer.rng) is np.random.Generator and layer.draw.__self__ is layer.rng


def test_the_object_that_holds_it_gets_another() -> None:
    layer = Layer()
    f = value_and_grad(layer)
    with settings(compile="always", check=True):
        for seed in range(5):
            values = []
            for way in (layer, f):
                layer.__init__()  # type: ignore[misc]
                layer.rng = np.random.default_rng(seed)
                layer.draw = layer.rng.standard_normal
                values.append(way(W))
            assert values[1][0] == pytest.approx(values[0], rel=1e-13)
    assert served(f) == 4


normal, permutation = np.random.normal, np.random.permutation
drawn = SHARED.standard_normal


def by_names(w: Any) -> Any:
    return np.sum(w[permutation(3)] * normal(size=3) * drawn(3))


def test_names_of_functions_and_methods() -> None:
    same_draws(by_names, W, shared=shared)


def test_a_whole_step() -> None:
    w, history = W.copy(), []

    @jit
    def step(w: Any, rate: float) -> Any:
        eps = np.random.normal(size=3)
        loss, dw = value_and_grad(lambda w: np.sum((w + eps + SHARED.random(3)) ** 2))(w)
        w -= rate * dw
        history.append(loss)
        return loss

    def plain(w: Any, rate: float) -> Any:
        eps = np.random.normal(size=3)
        residual = w + eps + SHARED.random(3)
        w -= rate * 2.0 * residual
        return np.sum(residual**2)

    other = W.copy()
    with settings(compile="always", check=True):
        for call in range(5):
            np.random.seed(call)
            SHARED.bit_generator.state = np.random.default_rng(call).bit_generator.state
            want = plain(other, 0.1)
            after = states(SHARED)
            np.random.seed(call)
            SHARED.bit_generator.state = np.random.default_rng(call).bit_generator.state
            assert step(w, 0.1) == pytest.approx(want, rel=1e-13)
            assert states(SHARED) == after
            np.testing.assert_allclose(w, other, rtol=1e-13)
    assert served(step) == 4
    assert len(history) == 5


def test_gradients_of_gradients_draw_once() -> None:
    def f(w: Any) -> Any:
        a = np.random.normal()
        _, (g,) = grad(lambda w: np.sum(w**3 * np.random.random(3)) * a, w)
        return np.sum(g**2) * np.random.random()

    same_draws(f, W)
    same_draws(f, W, whole=True)


def test_a_tape_draws_whenever_it_is_played() -> None:
    from yota_py import gradtape, trace

    tape = trace(reparameterised, W)
    assert "randn(4, 3)" in str(tape)
    for made in (tape, gradtape(reparameterised, W)):
        np.random.seed(5)
        played = made.play(W)
        np.random.seed(5)
        value = played if made is tape else played[0]
        assert value == pytest.approx(reparameterised(W), rel=1e-13)


def test_wrong_parameters() -> None:
    for f in (lambda w: np.random.normal(w, w), lambda w: SHARED.choice(3, p=w**2), lambda w: SHARED.exponential(w),
              lambda w: np.random.normal(w, size=(2, 2))):  # fmt: skip
        before = states(SHARED)
        with pytest.raises(ValueError) as plain:
            f(W)
        with pytest.raises(ValueError) as traced:
            grad(lambda w, f=f: np.sum(f(w)), W)
        assert str(traced.value).endswith(str(plain.value)) or str(plain.value) in str(traced.value)
        assert states(SHARED) == before


def test_parameters_without_derivative() -> None:
    with pytest.raises(LostDerivativeError, match=r"poisson\(\.\.\.\) draws random numbers .* stop_gradient"):
        grad(lambda w: np.sum(w * np.random.poisson(np.exp(w))), W)
    for f in (lambda w: np.sum(w * np.random.poisson(stop_gradient(np.exp(w)))),
              lambda w: np.sum(w * SHARED.gamma(stop_gradient(w) ** 2))):  # fmt: skip
        same_draws(f, W, shared=shared)
    same_draws(lambda w, rate: np.sum(w) * np.random.poisson(rate), W, 2.5, whole=True)


def indices_of_lists(w: Any) -> Any:
    weights = [1.0, 2.0, 3.0]
    return sum(w[k] * weights[i] for k, i in enumerate(np.random.permutation(3)))


def keys(w: Any) -> Any:
    return np.sum(w) * {0: 1.0}.get(np.random.random(), 2.0)


@pytest.mark.parametrize("f", [indices_of_lists, keys])
def test_values_that_decide_are_not_compiled_each_time(f: Callable[..., Any]) -> None:
    same_draws(f, W, compiled=0)


def test_unseeded_generators_are_not_compiled() -> None:
    f = value_and_grad(lambda w: np.sum(w * np.random.default_rng().random(3)))
    with settings(compile="always"):
        assert len({float(f(W)[0]) for _ in range(4)}) == 4
    assert served(f) == 0


def test_libraries_that_draw() -> None:
    from scipy import stats

    same_draws(lambda w: np.sum(w * stats.norm.rvs(size=3)) + np.random.random(), W, compiled=0)
    same_draws(lambda w: np.sum(w * stats.norm.rvs(size=3, random_state=SHARED)), W, compiled=0, shared=shared)


def test_other_shapes_after_each_other() -> None:
    def f(w: Any) -> Any:
        return np.sum(w * np.random.normal(size=w.shape)) + SHARED.random()

    df = value_and_grad(f)
    with settings(compile="always", audit="off"):
        for call in range(12):
            w = np.arange(1.0 + call % 3)
            np.random.seed(call)
            before = SHARED.bit_generator.state
            want, after = f(w), states(SHARED)
            np.random.seed(call)
            SHARED.bit_generator.state = before
            assert df(w)[0] == pytest.approx(want, rel=1e-13)
            assert states(SHARED) == after
    assert served(df) == 9


def test_two_functions_that_share_a_generator() -> None:
    def f(w: Any) -> Any:
        return np.sum(SHARED.normal(w, np.exp(w)))

    def g(w: Any) -> Any:
        return np.sum(w * SHARED.random(w.shape)) if SHARED.random() < 0.5 else np.sum(w * np.random.rand(*w.shape))

    steps = [(f, value_and_grad(f)), (g, value_and_grad(g)), (g, jit(g)), (f, jit(f))]
    with settings(compile="always", audit="off"):
        for call in range(24):
            plain, transformed = steps[call % 4]
            w = W[: call % 3] + call
            np.random.seed(call)
            before = SHARED.bit_generator.state
            want, after = plain(w), states(SHARED)
            np.random.seed(call)
            SHARED.bit_generator.state = before
            result = transformed(w)
            assert (result if transformed.__yota_cache__.mode.effects else result[0]) == pytest.approx(want, rel=1e-12)
            assert states(SHARED) == after


def test_large_arrays_are_drawn_once() -> None:
    x = np.ones(400_000)

    def f(x: Any) -> Any:
        return np.sum(np.tanh(x) * SHARED.random(len(x)))

    df = value_and_grad(f)
    with settings(compile="auto"):
        for _ in range(4):
            before = SHARED.bit_generator.state
            want, after = f(x), states(SHARED)
            SHARED.bit_generator.state = before
            assert df(x)[0] == pytest.approx(want, rel=1e-12)
            assert states(SHARED) == after


def test_out() -> None:
    def f(w: Any) -> Any:
        noise = np.zeros(3)
        SHARED.random(out=noise)
        return np.sum(w * noise)

    same_draws(f, W, shared=shared)


def test_a_state_that_is_set() -> None:
    known = np.random.default_rng(11).bit_generator.state

    def f(w: Any) -> Any:
        SHARED.bit_generator.state = known
        return np.sum(w * SHARED.random(3))

    same_draws(f, W, compiled=0, shared=shared)
    same_draws(f, W, compiled=0, whole=True, shared=shared)


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_not_recorded(whole: bool) -> None:
    def f(w: Any) -> Any:
        order = [0, 1, 2]
        random.shuffle(order)
        return sum(w[i] * k for k, i in enumerate(order)) + len(np.random.bytes(3)) * PYTHONS.sample([1, 2, 3], 2)[0]

    same_draws(f, W, compiled=0, whole=whole, shared=shared)


def test_a_copy_of_a_generator() -> None:
    import copy

    def f(w: Any) -> Any:
        return np.sum(w * copy.deepcopy(SHARED).random(3))

    same_draws(f, W, compiled=0, shared=shared)
