"""Loops of Python inside of nested differentiations: second derivatives are those of unrolled tapes, and their tapes
are short."""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import norm
from sets import examples

from yota_py import config, gradient, hessian, hvp, jacobian, jit, scan, trace, value_and_grad
from yota_py.loops import ahead
from yota_py.tape.loop import as_loop

N = 56
RNG = np.random.default_rng(0)
SERIES, ROWS = RNG.normal(size=N), RNG.normal(size=(N, 3))
POINT, VECTOR = np.array([0.5, 0.3, 0.4]), np.array([1.0, 2.0, -1.0])
CALLS: list[Any] = []
OTHERS = types.ModuleType("others_of_the_user")
exec("import numpy as np\nRATE = 0.3\ndef link(a, b):\n    return np.tanh(a) * b + RATE", vars(OTHERS))


@pytest.fixture(autouse=True, params=["never", "always"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    config.compile, config.audit, before = request.param, "off", (config.compile, config.audit)
    CALLS.clear()
    yield request.param
    config.compile, config.audit = before


def unrolled(of: Callable[..., Any], *args: Any) -> Any:
    """What a transform gives without loops, interpreted."""
    compiles, config.compile, config.roll = config.compile, "never", False
    try:
        return of(*args)
    finally:
        config.compile, config.roll = compiles, True


def expected(f: Callable[..., Any], point: Any = POINT, *args: Any, step: float = 1e-5) -> Any:
    """The Jacobian of a gradient, by its differences."""
    compiles, config.compile = config.compile, "never"
    try:
        slopes = gradient(f)
        columns = [(slopes(point + x, *args) - slopes(point - x, *args)) / (2 * step) for x in step * np.eye(3)]
    finally:
        config.compile = compiles
    return np.stack(columns, -1)


def is_near(have: Any, want: Any) -> bool:
    return np.allclose(have, want, rtol=1e-6, atol=1e-7 * (1.0 + np.max(np.abs(want), initial=0.0)))


def agrees(f: Callable[..., Any], *args: Any, times: int = 2) -> None:
    """Hessians, and products with them by two ways, are differences of gradients."""
    slopes = gradient(f)
    of_all, product = hessian(f), gradient(lambda p, *others: np.sum(slopes(p, *others) * VECTOR))
    for k in range(times):
        point = POINT * (1.0 + k / 10)
        want = expected(f, point, *args)
        assert is_near(of_all(point, *args), want)
        assert is_near(product(point, *args), want @ VECTOR)
        assert is_near(hvp(f)(point, *args, VECTOR), want @ VECTOR)


def are_loops(f: Callable[..., Any], *args: Any) -> bool:
    """Whether a Hessian is made of loops."""
    tape = trace(hessian(f), POINT, *args)
    return len(tape) < 1500 and any(as_loop(op) is not None for op in tape.ops)


# -- functions that compute


def autoregression(p: Any) -> Any:
    total, a, b = 0.0, 0.1, 0.1
    for y in SERIES:
        a, b = y - p[0] * a - p[1] * b, a
        total = total + a * a * p[2]
    return total


def variances(p: Any) -> Any:
    s = np.empty(N)
    s[0] = 1.0 + p[2]
    for t in range(1, N):
        s[t] = p[0] + p[1] * SERIES[t - 1] ** 2 + p[2] * s[t - 1]
    return 0.5 * np.sum(np.log(s) + SERIES**2 / s)


def recurrent(p: Any, xs: Any) -> Any:
    h, w = np.zeros(3), np.outer(p, p)
    for x in xs:
        h = np.tanh(w @ h + x * p)
    return np.sum(h**2)


def heat(p: Any) -> Any:
    u = np.zeros(20)
    u[5:10] = p[0]
    for _ in range(N):
        u[1:-1] += 0.1 * p[1] * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u**2) * p[2]


def helper(a: Any, b: Any, *, by: float = 1.0) -> Any:
    return np.tanh(a) * b / by


def with_helpers(p: Any) -> Any:
    x = p
    for _ in range(N):
        x = helper(x, p, by=1.1) + OTHERS.link(x, 0.1)
    return x @ x


def by_scan(p: Any) -> Any:
    def step(h: Any, y: Any) -> tuple[Any, Any]:
        for _ in range(3):
            h = np.sin(h) * p[0] + y
        return h, h * p[1]

    return np.sum(scan(step, p[2], SERIES)[1])


def filtered(p: Any) -> Any:
    m, cov, loss = np.zeros(2), np.eye(2), 0.0
    move, noise, look = np.array([[1.0, 1.0], [0.0, 1.0]]), np.eye(2) * p[0], np.array([1.0, 0.0])
    for y in SERIES:
        m, cov = move @ m, move @ cov @ move.T + noise
        s = look @ cov @ look + p[1]
        gain, e = cov @ look / s, y - look @ m
        loss = loss + 0.5 * (np.log(s) + e * e / s)
        m, cov = m + gain * e, cov - np.outer(gain, look @ cov)
    return loss * p[2]


@pytest.mark.parametrize("f", [autoregression, variances, heat, with_helpers, by_scan, filtered])
def test_functions(f: Callable[..., Any]) -> None:
    agrees(f)
    assert are_loops(f)


def test_arguments(mode: str) -> None:
    agrees(recurrent, ROWS)
    assert are_loops(recurrent, ROWS)
    both = gradient(lambda p, xs: np.sum(gradient(recurrent)(p, xs) * VECTOR), (0, 1))
    want = unrolled(both, POINT, ROWS[:30])
    for _ in range(3):
        assert all(map(np.allclose, both(POINT, ROWS[:30]), want))


def test_jacobians() -> None:
    def trajectory(p: Any, z: Any) -> Any:
        def slope(z: Any) -> Any:
            return np.array([p[0] * z[0] - p[1] * z[0] * z[1], p[2] * z[0] * z[1] - z[1]])

        out = []
        for _ in range(30):
            z = z + 0.05 * slope(z + 0.025 * slope(z))
            out.append(z)
        return np.array(out)

    start, step = np.array([1.0, 0.5]), 1e-6
    for f, point in ((trajectory, POINT), (lambda p, z: trajectory(p, z)[-1], POINT)):
        way = jacobian(f)
        for k in range(2):
            x = point + 0.1 * k
            want = [(f(x + e, start) - f(x - e, start)) / (2 * step) for e in step * np.eye(3)]
            assert is_near(way(x, start), np.stack(want, -1))
        tape = trace(way, point, start)
        assert len(tape) < 600
        assert any(as_loop(op) is not None for op in tape.ops)


def test_distributions() -> None:
    def likelihood(p: Any) -> Any:
        mean, total = p[0], 0.0
        for y in SERIES:
            total = total + stats.norm.logpdf(y, mean, p[1]) + norm.logcdf(mean)
            mean = p[2] * mean + 0.1 * y
        return total

    agrees(likelihood)
    assert are_loops(likelihood)


class Model:
    def __init__(self, series: Any, rate: float) -> None:
        self.series, self.rate = series, rate

    def step(self, a: Any, p: Any, y: Any) -> Any:
        return np.tanh(p[0] * a + y) * p[1] * self.rate

    def loss(self, p: Any) -> Any:
        a, total = 0.1, 0.0
        for y in self.series:
            a = self.step(a, p, y)
            total = total + (a - p[2]) ** 2
        return total

    def scanned(self, p: Any) -> Any:
        return scan(lambda a, y: (self.step(a, p, y), a * p[2]), 0.1, self.series)[1] @ self.series


def test_methods() -> None:
    model = Model(SERIES, 0.9)
    for f in (model.loss, model.scanned):
        agrees(f)
        assert are_loops(f)


def test_what_is_read_may_change() -> None:
    global SERIES
    before = SERIES
    model = Model(SERIES, 0.9)
    of_model, of_global, of_module = hessian(model.loss), hessian(autoregression), hessian(with_helpers)
    try:
        for k in range(4):
            SERIES = model.series = before + 0.1 * k if k < 3 else before[:50]
            model.rate = 0.9 - 0.1 * k
            OTHERS.RATE = 0.3 + 0.1 * k  # type: ignore[attr-defined]
            for way, f in ((of_model, model.loss), (of_global, autoregression), (of_module, with_helpers)):
                assert is_near(way(POINT), expected(f))
        model.step = lambda a, p, y: np.sin(a * p[0] + y)  # type: ignore[method-assign,assignment,misc]
        assert is_near(of_model(POINT), expected(model.loss))
        before += 0.5  # in place
        SERIES = before
        assert is_near(of_global(POINT), expected(autoregression))
        before -= 0.5
    finally:
        SERIES, OTHERS.RATE = before, 0.3  # type: ignore[attr-defined]


def test_what_belongs_to_the_traces_around() -> None:
    def inner(x: Any, p: Any) -> Any:
        c = 1.0
        for y in SERIES:
            c = c * np.cos(p[1] * 0.1)  # of which the inner derivative knows nothing
            x = np.tanh(x * p[0] + y * c)
        return x * p[2]

    mixed = gradient(lambda p: gradient(inner)(0.3, p))
    want = unrolled(mixed, POINT)
    third = gradient(lambda p: gradient(lambda x: gradient(inner)(x, p) ** 2)(p[1]))
    thrice = unrolled(third, POINT)
    for _ in range(3):
        assert np.allclose(mixed(POINT), want)
        assert np.allclose(third(POINT), thrice)


def test_structures() -> None:
    @dataclass
    class Held:
        value: Any

    def f(p: Any, options: Any, *, held: Any) -> Any:
        x, seen = p["w"], None
        for _ in range(N):
            x = np.sin(x) * p["b"][0] + options["shift"]
        return np.sum(x) * held.value + 0.0 * (seen is None), {"last": x, "name": options["name"]}

    p, options = {"w": POINT, "b": [0.7]}, {"shift": 0.1, "name": "text"}

    def product(p: Any, held: Any) -> Any:
        (_, aux), slopes = value_and_grad(f, has_aux=True)(p, options, held=held)
        assert aux["name"] == "text"
        return np.sum(slopes["w"] * VECTOR) + slopes["b"][0] + np.sum(aux["last"])

    for k in range(2):
        have, want = gradient(product)(p, Held(2.0 + k)), unrolled(gradient(product), p, Held(2.0 + k))
        assert np.allclose(have["w"], want["w"])
        assert np.allclose(have["b"], want["b"])


# -- and functions that do more


def test_decisions() -> None:
    def f(p: Any) -> Any:
        x = p[0]
        for y in SERIES:
            x = np.sin(x) + p[1] if x > y else x * p[2] + y
        while x * x > 0.5:
            x = 0.9 * x * p[1] ** 0.1
        return x * p[0]

    agrees(f)


def test_what_is_done_is_done_once(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    def f(p: Any) -> Any:
        x = p
        for k in range(N):
            x = np.sin(x) + p
            if k % 50 == 0:
                print("turn", k)
        CALLS.append(1)
        return np.sum(x * p)

    slopes = gradient(lambda p: np.sum(gradient(f)(p) * VECTOR))
    want = unrolled(slopes, POINT)
    CALLS.clear()
    capsys.readouterr()
    assert np.allclose(slopes(POINT), want)
    assert len(CALLS) == 1
    assert capsys.readouterr().out == "turn 0\nturn 50\n"


def by_numpy(p: Any) -> Any:
    x = p
    for _ in range(N):
        x = np.sin(x) + p * np.random.normal()
    return np.sum(x * p)


def by_distributions(p: Any) -> Any:
    x = p
    for _ in range(30):
        x = np.sin(x) + norm.rvs(p[0], 0.1) * p + norm.pdf(x)
    return np.sum(x * p)


@pytest.mark.parametrize("f", [by_numpy, by_distributions])
def test_draws_are_drawn_once(f: Callable[..., Any]) -> None:
    slopes = gradient(lambda p: np.sum(gradient(f)(p) * VECTOR))
    for seed in range(3):
        np.random.seed(seed)
        want = unrolled(slopes, POINT)
        after = np.random.normal()
        np.random.seed(seed)
        assert np.allclose(slopes(POINT), want)
        assert np.random.normal() == after


def deciding(p: Any, rows: Any) -> Any:
    x = p[0]
    for y in rows:
        x = np.sin(x) + p[1] if x > y else x * p[2] + y
    return x * p[0]


def noisy(p: Any, rng: Any) -> Any:
    x = p
    for y in SERIES:
        x = np.sin(x) * 0.9 + y * p
    return np.sum(x * rng.normal(size=3))


@pytest.mark.parametrize("make", [lambda: iter(SERIES), lambda: (y for y in SERIES), lambda: np.random.default_rng(0)])
def test_arguments_that_are_used_up(make: Callable[[], Any]) -> None:
    f = noisy if isinstance(make(), np.random.Generator) else deciding
    want = unrolled(lambda p: hessian(f)(p, make()), POINT)
    assert np.allclose(hessian(f)(POINT, make()), want)
    given = make()
    step = jit(lambda p: gradient(f)(p, given))
    other = make()
    for _ in range(3 if f is noisy else 1):
        assert np.allclose(step(POINT), unrolled(lambda p: gradient(f)(p, other), POINT))
    if f is noisy:
        assert given.normal() == other.normal()


def test_objects_and_functions_as_arguments_are_called_once() -> None:
    class Counter:
        count = 0

        def more(self) -> float:
            self.count += 1
            return self.count * 0.1

    def f(p: Any, counter: Any, say: Any, act: Any) -> Any:
        x, k = p, counter.more()
        say("once")
        for y in SERIES:
            x = act(np.sin(x)) * p + y
        return np.sum(x * p) * k

    def smooth(p: Any, act: Any) -> Any:
        x = p
        for y in SERIES:
            x = act(np.sin(x)) * p + y
        return np.sum(x * p)

    counter = Counter()
    slopes = gradient(lambda p: np.sum(gradient(f)(p, counter, CALLS.append, np.tanh) * VECTOR))
    for k in range(1, 4):
        slopes(POINT)
        assert counter.count == len(CALLS) == k
    agrees(smooth, np.tanh)
    agrees(smooth, lambda x: x * SERIES[0])


A_LIST = [1.0, 2.0]
THE_SAME = A_LIST
FACTORS = {np.sum: 1.0}


def activation(x: Any) -> Any:
    return np.sin(x)


FACTORS[activation] = 2.0


def test_what_is_the_same_stays_so() -> None:
    def identical(p: Any) -> Any:
        x = p
        for y in SERIES:
            x = np.sin(x) * p + y * (2.0 if A_LIST is THE_SAME else 1.0)
        return np.sum(x * p)

    def as_key(p: Any) -> Any:
        x = p
        for y in SERIES:
            x = activation(x) * p + y * (2.0 if activation in FACTORS else 1.0) * FACTORS.get(activation, 1.0)
        return np.sum(x * p)

    agrees(identical, times=1)
    agrees(as_key, times=1)


def test_functions_in_results_are_the_users() -> None:
    def loss(p: Any) -> Any:
        x = p
        for y in SERIES:
            x = np.sin(x) * 0.9 + y * p
        return np.sum(x * helper(x, p)), helper

    def around(p: Any) -> Any:
        (_, held), slopes = value_and_grad(loss, has_aux=True)(p)
        assert held is helper
        return np.sum(slopes) * np.sum(held(p, p))

    assert np.allclose(gradient(around)(POINT), unrolled(gradient(around), POINT))


def test_nobody_is_warned_of_derivatives() -> None:
    def f(p: Any) -> Any:
        x = p
        for y in SERIES:
            x = np.sin(x) * p + y * p
        return np.sum(np.sqrt(x - x))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(np.diag(hessian(f)(POINT))).all()


def test_methods_of_dataclasses() -> None:
    @dataclass(frozen=True)
    class Rates:
        rate: float
        series: Any

        def loss(self, p: Any) -> Any:
            x = p
            for y in self.series:
                x = np.sin(x) * self.rate + y * self.scaled(p)
            return np.sum(x * p)

        def scaled(self, p: Any) -> Any:
            return p * self.rate

    rates = Rates(0.7, SERIES)
    agrees(rates.loss)
    assert are_loops(rates.loss)


def test_arguments_that_are_written_into() -> None:
    def f(p: Any, buffer: Any) -> Any:
        for k in range(N):
            buffer[k % 3] = buffer[k % 3] * np.sin(p[k % 3]) + p[0]
        return np.sum(buffer * p)

    def around(p: Any) -> Any:
        buffer = p * 2.0
        slopes = gradient(f)(p, buffer)
        return np.sum(slopes * VECTOR) + np.sum(buffer)

    want = unrolled(gradient(around), POINT)
    for _ in range(3):
        assert np.allclose(gradient(around)(POINT), want)


def test_exceptions_and_warnings_come_from_their_line(mode: str) -> None:
    def f(p: Any, base: Any) -> Any:
        x = p
        for k in range(N):
            x = np.sin(x) + np.log(base - k)
        return np.sum(x)

    def g(p: Any, n: int) -> Any:
        x = p
        for k in range(N):
            x = np.sin(x)
            if k == n:
                x = x @ ROWS
        return np.sum(x)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert np.isnan(gradient(lambda p: np.sum(gradient(f)(p, 50.5)))(POINT)).all()
    ours = [w for w in heard if issubclass(w.category, RuntimeWarning)]
    assert ours
    assert {w.filename for w in ours} == {__file__}
    assert f.__code__.co_firstlineno + 3 in {w.lineno for w in ours}
    with pytest.raises(ValueError, match="matmul") as caught:
        hessian(g)(POINT, 45)
    lines = {(entry.path.name, entry.lineno + 1) for entry in caught.traceback}
    assert ("test_ahead.py", g.__code__.co_firstlineno + 5) in lines


def test_functions_that_were_short_may_be_long() -> None:
    def f(p: Any, n: int) -> Any:
        x = p
        for _ in range(n):
            x = np.sin(x) * p + 0.1
        return np.sum(x * p)

    for _ in range(6):
        hessian(f)(POINT, 3)
    tape = trace(lambda p: hessian(f)(p, 100), POINT)
    assert len(tape) < 600
    assert any(as_loop(op) is not None for op in tape.ops)


def test_lines_are_known() -> None:
    tape = trace(hessian(autoregression), POINT)
    assert f"test_ahead.py:{autoregression.__code__.co_firstlineno + 3}" in str(tape)


def test_no_frame_is_followed_afterwards() -> None:
    tracer = sys.gettrace()
    hessian(autoregression)(POINT)
    assert sys.gettrace() is tracer


@settings(max_examples=examples(3, share=10), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_at_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, step = int(rng.integers(2, 40)), int(rng.choice([1, 1, -1, 2]))
    parts, xs = rng.permutation(7)[: rng.integers(1, 5)].tolist(), rng.normal(size=(n, 3))  # a list: no decisions

    def f(w: Any, xs: Any) -> Any:
        h, s, data, c = w * 1.0, np.zeros(n), xs.copy(), w[2]
        s[0] = w[0]
        for t, (x, y) in enumerate(zip(xs, data[::step], strict=False)):
            for part in parts:
                if part == 0:
                    h = np.sin(h) + x
                elif part == 1:
                    h = h * y[0] * 0.5
                elif part == 2:
                    h = np.outer(h, x).T[0]
                elif part == 3:
                    h = h - w * (x @ y) * 0.1
                elif part == 4:
                    h, c = h + c, np.cos(c * y[1])
                elif part == 5:
                    data[t] = data[t] * h
        for t in range(1, n):
            s[t] = np.tanh(s[t - 1]) * w[1] + data[t, 0]
        return np.sum(h) * c + np.sum(s * s)

    slopes = gradient(f, (0, 1))
    product = gradient(lambda w, xs: sum(np.sum(np.sin(dx)) for dx in slopes(w, xs)), (0, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "MAX_VAIN", 10**6)  # all these functions have one code, and some have no loops
        have = product(POINT, xs)
    want = unrolled(product, POINT, xs)
    for a, b in zip(have, want, strict=True):
        assert np.allclose(a, b, rtol=1e-7, atol=1e-9 * (1 + np.max(np.abs(b), initial=0.0)))
