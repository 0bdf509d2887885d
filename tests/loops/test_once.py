"""A step is traced once where it does nothing but compute; whatever else it does, it does in each turn."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from agreement import agree
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples

from yota_py import config, grad, gradient, jit, primitive, rrule, scan, stop_gradient, trace, vmap
from yota_py.cache.modes import Gradient, Request
from yota_py.engine import playing
from yota_py.tape.loop import as_loop
from yota_py.tape.operations import Call

N = 60
XS = np.random.default_rng(0).normal(size=(N, 3))
TABLE = np.arange(6.0)
WEIGHTS = {"w": np.linspace(0.1, 0.9, 3), "more": [0.5, (np.ones(3),)]}
LOG: list[Any] = []
COUNT = [0]
RATE = 0.5


class Pair(NamedTuple):
    a: Any
    b: Any


class Noting(NamedTuple):
    a: Any

    @property
    def doubled(self) -> Any:
        LOG.append(1)
        return 2 * self.a


class Part:
    rate = 0.2


class Model:
    def __init__(self) -> None:
        self.w, self.weights, self.rate, self.part = np.ones(3), [0.1, np.float64(0.3)], 0.5, Part()
        self.more = [self.weights]

    def step(self, c: Any, x: Any) -> Any:
        return self.scaled(c) + np.sum(self.w * x), c

    def scaled(self, c: Any) -> Any:
        return self.rate * c

    def noted(self, c: Any, x: Any) -> Any:
        self.rate = 0.5
        LOG.append(1)
        return c, x[0]


MODEL = Model()
OTHERS = types.ModuleType("others_of_the_user")
exec("import numpy as np\ndef link(c, x):\n    return np.tanh(c) * x", vars(OTHERS))


def helper(c: Any, x: Any, *, scale: float = 0.1) -> Any:
    return scale * np.tanh(c) + WEIGHTS["w"] @ x * RATE


FACTORS = {helper: 2.0}


def printing(c: Any) -> Any:
    LOG.append("x")
    return c


def loops_of(f: Callable[..., Any], *args: Any) -> int:
    """How many loops there are on the tape of a function as it is recorded."""
    before, config.roll = config.roll, False
    try:
        return sum(as_loop(op) is not None for op in trace(f, *args).ops)
    finally:
        config.roll = before


def summed(step: Callable[..., Any], init: Any = 0.3) -> Callable[[Any, Any], Any]:
    """A function of a factor and ``xs``."""

    def f(a: Any, xs: Any) -> Any:
        carry, ys = scan(lambda c, x: step(a, c, x), init, xs)
        return np.sum(ys) + np.sum(carry)

    return f


def by_names(a: Any, c: Any, x: Any) -> Any:
    return helper(c, x) * a, (c, np.linalg.norm(x))[0]


def by_containers(a: Any, c: Any, x: Any) -> Any:
    p = Pair(c * a, WEIGHTS["more"][1][0])
    parts = [p.a * 0.5, np.sum(p.b * x)]
    for i, y in enumerate(x):
        parts.append(y * (0.1 + i))
    return sum(parts) * 0.3, np.array([c, parts[-1]])


def by_nested_functions(a: Any, c: Any, x: Any) -> Any:
    def inner(y: Any, k: int = 2) -> Any:
        total = 0.0

        def add(v: Any) -> None:
            nonlocal total
            total = total + v

        add(y * a)
        add(k)
        return total

    return 0.3 * inner(c) + max(abs(-0.5), 0.1) * x[0], np.dot(x, TABLE[:3])


def by_gradients(a: Any, c: Any, x: Any) -> Any:
    value, (dc,) = grad(lambda c: np.sum(np.sin(c * x)) * a, c)
    return c - 0.1 * dc + 0.1 * gradient(helper)(c, x), value


def by_batches(a: Any, c: Any, x: Any) -> Any:
    return 0.5 * c + np.sum(vmap(lambda y: np.tanh(a * y + c))(x)), c


def by_partials(a: Any, c: Any, x: Any) -> Any:
    return functools.partial(helper, scale=0.2)(c, x) * a, stop_gradient(c) * c


def by_indices(a: Any, c: Any, x: Any) -> Any:
    i = (np.abs(c) * 3).astype(int) % 6
    return 0.4 * c * a + TABLE[i] * 0.1, np.where(c > 0, c, x[1])


def by_methods(a: Any, c: Any, x: Any) -> Any:
    return 0.4 * MODEL.step(a * c, x)[0] + MODEL.part.rate, OTHERS.link(c, x[1]) * MODEL.weights[1]


@pytest.mark.parametrize("step", [
    by_names, by_containers, by_nested_functions, by_gradients, by_batches, by_indices, by_methods,
])  # fmt: skip
@pytest.mark.usefixtures("every_policy")
def test_what_computes_is_one_operation(step: Callable[..., Any]) -> None:
    def f(a: Any, xs: Any) -> Any:
        carry, ys = scan(lambda c, x: step(a, c, x), 0.3, xs)
        return np.sum(ys) + np.sum(carry)

    def plain(a: Any, xs: Any) -> Any:
        c, total = np.float64(0.3), 0.0
        for x in xs:
            c, y = step(a, c, x)
            total = total + np.sum(y)
        return total + c

    assert loops_of(f, 0.7, XS) == 1
    for a in (0.7, 0.2, -0.3):
        value, (da, dxs) = grad(f, a, XS)
        expected, (ea, exs) = grad(plain, a, XS)
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        np.testing.assert_allclose(da, ea, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(dxs, exs, rtol=1e-7, atol=1e-9)


SAME_TABLE = TABLES = [TABLE, [TABLE]]


def by_identity(a: Any, c: Any, x: Any) -> Any:
    is_same = TABLES is SAME_TABLE and MODEL.weights is MODEL.more[0]
    return np.sin(c) * a + x[0] * (2.0 if is_same else 1.0), x[1]


def by_aliases(a: Any, c: Any, x: Any) -> Any:
    one = SAME_TABLE[1]
    TABLES[1].append(1.0)
    n = len(one)
    TABLES[1].pop()
    return np.sin(c) * a + x[0] * n, x[1]


def by_keys(a: Any, c: Any, x: Any) -> Any:
    return np.sin(c) * a + x[0] * FACTORS.get(helper, 1.0), x[1]


@pytest.mark.parametrize("step", [by_identity, by_aliases, by_keys])
def test_what_is_the_same_stays_so(step: Callable[..., Any]) -> None:
    f = summed(step)
    h = 1e-6
    want = (f(0.7 + h, XS) - f(0.7 - h, XS)) / (2 * h)
    assert gradient(f)(0.7, XS) == pytest.approx(want, rel=1e-6)
    batched = gradient(lambda a: np.sum(vmap(lambda x: step(a, 0.3, x)[0])(XS)))
    want = sum((step(0.7 + h, 0.3, x)[0] - step(0.7 - h, 0.3, x)[0]) / (2 * h) for x in XS)
    assert batched(0.7) == pytest.approx(want, rel=1e-6)


@pytest.mark.usefixtures("every_policy")
def test_what_methods_read_may_change() -> None:
    model = Model()

    def f(a: Any, xs: Any) -> Any:
        carry, ys = scan(lambda c, x: model.step(a * c, x), 0.3, xs)
        return np.sum(ys) * carry

    def slope(a: float) -> Any:
        c, total = (0.3, 0.0), 0.0  # and derivatives
        for x in XS:
            ac = c[0] * a, c[1] * a + c[0]
            total = total + np.array(ac)
            c = model.rate * ac[0] + model.w @ x, model.rate * ac[1]
        return total[1] * c[0] + total[0] * c[1]

    slopes = gradient(f)
    for k in range(6):
        assert np.allclose(slopes(0.7, XS), slope(0.7), rtol=1e-9)
        if k % 2:
            model.rate -= 0.1
        else:
            model.w = model.w * 1.1 if k else model.w + 0.1
    model.scaled = lambda c: 0.1 * c  # type: ignore[method-assign]
    model.rate = 0.1
    assert np.allclose(slopes(0.7, XS), slope(0.7), rtol=1e-9)


class Reading:
    """Of which nobody knows what its attributes do."""

    def __getattr__(self, name: str) -> Any:
        LOG.append(name)
        return 0.5


READING = Reading()
rng = np.random.default_rng(0)


@primitive
def noted(x: Any) -> Any:
    LOG.append(1)
    return x * 1.0


@rrule(noted)
def _noted_rule(x: Any) -> Any:
    return noted(x), lambda dy: (dy,)


def appends(a: Any, c: Any, x: Any) -> Any:
    LOG.append(1)
    return a * c, x[0]


def counts(a: Any, c: Any, x: Any) -> Any:
    COUNT[0] += 1
    return a * c + COUNT[0] % 2, x[0]


def calls_one_that_appends(a: Any, c: Any, x: Any) -> Any:
    return a * printing(c), x[0]


def reads_by_a_property(a: Any, c: Any, x: Any) -> Any:
    return a * c + Noting(c).doubled * 0.1, x[0]


def reads_an_object(a: Any, c: Any, x: Any) -> Any:
    return a * c * READING.rate, x[0]


def calls_a_method_that_notes(a: Any, c: Any, x: Any) -> Any:
    return MODEL.noted(a * c, x)


def hands_on_an_object(a: Any, c: Any, x: Any) -> Any:
    return a * c * getattr(MODEL, "rate"), x[0]  # noqa: B009


def draws(a: Any, c: Any, x: Any) -> Any:
    return a * c + 0 * np.random.normal(), x[0]


def draws_from_a_generator(a: Any, c: Any, x: Any) -> Any:
    return a * c + 0 * rng.normal(), x[0]


def catches(a: Any, c: Any, x: Any) -> Any:
    try:
        return a * c, x[0]
    except ValueError:
        return c, x[0]


def imports(a: Any, c: Any, x: Any) -> Any:
    import math

    return a * c + math.pi, x[0]


def has_a_primitive(a: Any, c: Any, x: Any) -> Any:
    return a * noted(c), x[0]


def prints(a: Any, c: Any, x: Any) -> Any:
    print(end="")
    return a * c, x[0]


def decides(a: Any, c: Any, x: Any) -> Any:
    return (a * c if x[0] > 0 else c + x[1]), x[0]


@pytest.mark.parametrize("step", [
    appends, counts, calls_one_that_appends, reads_by_a_property, reads_an_object, calls_a_method_that_notes,
    hands_on_an_object, draws, draws_from_a_generator, catches, imports, has_a_primitive, prints, decides,
])  # fmt: skip
def test_what_may_do_more_is_called_in_each_turn(step: Callable[..., Any]) -> None:
    config.compile = "never"
    f, calls = summed(step), LOG.copy()
    assert loops_of(f, 0.7, XS) == 0
    COUNT[0] = 0
    LOG.clear()
    value, (da, _) = grad(f, 0.7, XS)
    noted = len(LOG)
    COUNT[0] = 0
    LOG.clear()
    np.testing.assert_allclose(value, f(np.float64(0.7), XS), rtol=1e-9)
    assert noted >= len(LOG)  # rules call primitives once more
    COUNT[0] = 0
    up = f(0.7 + 1e-6, XS)
    COUNT[0] = 0
    np.testing.assert_allclose(da, (up - f(0.7 - 1e-6, XS)) / 2e-6, rtol=1e-4, atol=1e-6)
    LOG[:] = calls


def test_what_is_written_outside_is_seen() -> None:
    def f(a: Any, xs: Any) -> Any:
        total = np.zeros(3)

        def step(c: Any, x: Any) -> Any:
            total[0] += a * c
            return 0.5 * c + x[0], total[0]

        last, ys = scan(step, 0.3, xs)
        return last + total[0] + np.sum(ys)

    def plain(a: Any, xs: Any) -> Any:
        total, c, ys = 0.0, 0.3, 0.0
        for x in xs:
            total = total + a * c
            c = 0.5 * c + x[0]
            ys = ys + total
        return c + total + ys

    value, (da, dxs) = grad(f, 0.7, XS)
    expected, (ea, exs) = grad(plain, 0.7, XS)
    np.testing.assert_allclose([value, da], [expected, ea])
    np.testing.assert_allclose(dxs, exs)
    assert loops_of(f, 0.7, XS) == 0


def test_lists_that_grow_are_seen() -> None:
    def f(a: Any, xs: Any) -> Any:
        kept: list[Any] = []

        def step(c: Any, x: Any) -> Any:
            kept.append(a * c)
            return 0.5 * c + x[0], None

        scan(step, 0.3, xs)
        assert len(kept) == len(xs)
        return np.sum(np.array(kept))

    value, (da, _) = grad(f, 0.7, XS)
    np.testing.assert_allclose(value, da * 0.7)


@pytest.mark.usefixtures("every_policy")
def test_what_has_no_kernel() -> None:
    def f(a: Any, xs: Any) -> Any:
        def step(m: Any, x: Any) -> Any:
            w, _ = np.linalg.eigh(m + np.outer(x, x) * a)
            return 0.5 * m + np.outer(w, w) / (1 + np.sum(w * w)), w[0]

        last, ys = scan(step, np.eye(3), xs)
        return np.sum(last) + np.sum(ys)

    assert loops_of(f, 0.7, XS) == 1
    for a in (0.7, 0.6, 0.8):
        value, (da, _) = grad(f, a, XS[:20])
        np.testing.assert_allclose(value, f(a, XS[:20]))
        np.testing.assert_allclose(da, (f(a + 1e-6, XS[:20]) - f(a - 1e-6, XS[:20])) / 2e-6, rtol=1e-5)


def test_exceptions_are_those_of_the_turn() -> None:
    bad = np.zeros((N, 2, 2)) + np.eye(2)
    bad[40] = 0.0

    def f(a: Any, ms: Any) -> Any:
        return np.sum(scan(lambda c, m: (np.linalg.solve(m, c) * a, c[0]), np.ones(2), ms)[1])

    with pytest.raises(np.linalg.LinAlgError, match="Singular") as caught:
        grad(f, 0.9, bad)
    assert any(entry.path.name == "test_once.py" for entry in caught.traceback)


def test_a_step_of_a_jitted_function() -> None:
    @jit
    def path(a: Any, c: Any) -> Any:
        return scan(lambda c, _: (np.cos(a * c), c), c, None, length=200)

    for a in (0.5, 0.6, 0.7):
        last, ys = path(a, 1.0)
        c = 1.0
        for y in ys:
            np.testing.assert_allclose(y, c)
            c = np.cos(a * c)
        np.testing.assert_allclose(last, c)


@pytest.mark.parametrize("backward", [False, True])
def test_long_loops_are_played_by_kernels(backward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    xs = np.random.default_rng(1).normal(size=(playing.TURNS * 12 + 17, 3))

    def f(a: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = np.tanh(a * c + x) * np.cos(c) + 0.1 * np.sum(x * c) - 0.2 * c * c / (1 + c * c) + np.sin(x * a)
            return c, (c[0], c)

        last, (first, cs) = scan(step, np.zeros(3), xs, reverse=backward)
        return np.sum(first * cs[:, 1]) + last[2]

    ran: list[Any] = []
    run = playing._run
    monkeypatch.setattr(playing, "_run", lambda *args: ran.append(1) or run(*args))
    value, grads = Gradient().reference(Request(f, (0.7, xs), {}))[0]
    assert len(ran) > 20
    monkeypatch.setattr(playing, "LEAST", 10**9)
    expected = grad(f, 0.7, xs)
    np.testing.assert_allclose(value, expected[0], rtol=1e-9)
    np.testing.assert_allclose(grads[0], expected[1][0], rtol=1e-7)
    np.testing.assert_allclose(grads[1], expected[1][1], rtol=1e-7, atol=1e-9)
    wrong: list[Any] = []
    monkeypatch.setattr(playing, "LEAST", 50_000)
    monkeypatch.setattr(playing, "_run", lambda *args: wrong.append(1) or [x + 1 for x in run(*args)])
    np.testing.assert_allclose(grad(f, 0.7, xs)[0], expected[0], rtol=1e-9)  # NumPy says otherwise, and is heard
    assert len(wrong) <= 3


def test_a_first_call_is_answered_by_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way back of a long loop is not compiled twice, to be interpreted and for the program."""
    def f(a: Any) -> Any:
        x = np.ones(3)
        for _ in range(20_000):
            x = x + 1e-4 * np.sin(a * x)
        return np.sum(x)

    made: list[Any] = []
    program = playing._program
    monkeypatch.setattr(playing, "_program", lambda *args: made.append(1) or program(*args))
    value, (da,) = grad(f, 0.7)
    assert len(made) <= 1  # forward, while it is traced
    monkeypatch.setattr(playing, "LEAST", 10**9)
    expected = Gradient().reference(Request(f, (0.7,), {}))[0]
    np.testing.assert_allclose((value, da), (expected[0], expected[1][0]), rtol=1e-9)


# ---------------------------------------------------------------------------------- random bodies

# What may come in a turn, of carried ``a``, ``b`` (numbers), ``v`` (an array), ``k`` (a count), elements ``x``, ``y``,
# and captured ``p``, ``W``, ``TABLE``.
STATEMENTS = """
a = a * p[{i}] + x
a = np.tanh(a) + 0.1 * k / (1 + k)
a, b = b, 0.5 * a - 0.3 * b + p[{i}]
b = 0.9 * b + np.sum(v) / (1 + k)
b = np.exp(-b * b) + y[{i}]
b = np.where(b > a, b, 0.5 * a)
v = v + 0.1 * np.sin(a * v)
v = np.tanh(W @ v + y)
v[{i}] = v[{i}] * 0.5 + np.tanh(a)
v[1:] += 0.1 * v[:-1]
v *= 0.9
v = np.linalg.solve(np.eye(3) + 0.1 * np.outer(v, v), v)
v = np.array([a, v[0], x])
y[0] = a; v = 0.5 * v + y
k += 1
k = k + 2 if True else k
b = b + 0.1 * TABLE[k % 6]
a = a * 0.5 if a > 0 else a + 0.1
for j in range(3): a = a + 0.1 * p[j] * np.cos(a)
out = out + v
out = np.cumsum(v) * a
v = np.maximum(v, y) * 0.9
a = float(0.25) * a
a = np.clip(a, -1, 1) + 0.01 * x
b = vmap(lambda z: np.sin(z * a))(v).sum() * 0.1
a = scan(lambda c, z: (0.5 * c + np.sin(z), None), a, v)[0]
b = grad(lambda c: np.sum(np.cos(c * v)), b)[1][0] * 0.1
""".strip().splitlines()


def body(lines: list[str]) -> Callable[..., Any]:
    """A step with these statements."""
    text = ["def step(p, W, carry, xs):", "a, b, (v, k), out = carry['a'], carry['b'], carry['more'], np.zeros(3)",
            "x, y = xs", *lines, "return {'a': a, 'b': b, 'more': (v, k)}, (a + b, {'out': out, 'k': k})"]  # fmt: skip
    names: dict[str, Any] = {"np": np, "TABLE": TABLE, "vmap": vmap, "scan": scan, "grad": grad}
    exec(compile("\n    ".join(text), "<loop>", "exec"), names)
    return names["step"]  # type: ignore[no-any-return]


@settings(max_examples=examples(6, share=10), deadline=None, derandomize=True, database=None)
@given(
    lines=st.lists(st.tuples(st.sampled_from(STATEMENTS), st.integers(0, 2)), min_size=1, max_size=7),
    n=st.sampled_from([0, 1, 2, 3, 12, 40]), reverse=st.booleans(),
)  # fmt: skip
def test_random_bodies(lines: list[tuple[str, int]], n: int, reverse: bool) -> None:
    step = body([line.format(i=i) for line, i in lines])
    init = {"a": 0.2, "b": -0.1, "more": (np.array([0.1, -0.2, 0.3]), 0)}

    def scanned(p: Any, w: Any, x: Any, y: Any) -> Any:
        last, (sums, outs) = scan(lambda c, xs: step(p, w, c, xs), init, (x, y), reverse=reverse)
        return np.sum(sums) + np.sum(outs["out"] * outs["k"][:, None]) + last["a"] + np.sum(last["more"][0])

    def plain(p: Any, w: Any, x: Any, y: Any) -> Any:
        carry: Any = {"a": np.float64(0.2), "b": np.float64(-0.1), "more": (init["more"][0].copy(), np.int64(0))}
        total = 0.0 * np.sum(p)
        for i in range(n)[:: -1 if reverse else 1]:
            carry, (s, out) = step(p, w, carry, (x[i], y[i].copy()))
            carry = {**carry, "more": (carry["more"][0].copy(), carry["more"][1])}
            total = total + s + np.sum(out["out"]) * out["k"]
        return total + carry["a"] + np.sum(carry["more"][0])

    for seed in range(2):
        rng = np.random.default_rng(seed)
        args = [0.5 * rng.normal(size=3), 0.3 * rng.normal(size=(3, 3)), rng.normal(size=n), rng.normal(size=(n, 3))]
        config.compile = "never"
        with np.errstate(all="ignore"):
            expected, wanted = grad(plain, *args)
            for policy in ("never", "always"):
                config.compile = policy
                value, grads = grad(scanned, *args)
                np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-9)
                for have, want in zip(grads, wanted, strict=True):
                    np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-7 * (1 + np.max(np.abs(want), initial=0)))


def chain(a: Any) -> Any:
    for k in range(1100):  # calls in one another would be more than Python allows
        a = a * (0.999 + k * 1e-7) + (0.001 if k % 2 else 0.002)
    return a


INVARIANT: dict[str, Callable[..., Any]] = {
    "products": lambda a, xs: vmap(lambda x: np.tanh(np.linalg.inv(a) @ a.T) @ x)(xs),
    "constants": lambda a, xs: vmap(lambda x: np.cumsum(np.ones(3)) * x + np.sin(a[0]))(xs),
    "a result": lambda a, xs: vmap(lambda x: (np.exp(a), x))(xs)[0],
    "a view": lambda a, xs: vmap(lambda x: a.T[1] * x)(xs),
    "numbers": lambda a, xs: vmap(lambda x: float(np.shape(a)[0]) * x * np.sum(a))(xs),
    "a scan": lambda a, xs: scan(lambda c, x: (np.tanh(np.linalg.inv(a) @ c + x), c), np.zeros(3), xs)[0],
    "a scan back": lambda a, xs: scan(lambda c, x: (0.2 * np.exp(-a) @ c + x, c), np.zeros(3), xs, reverse=True)[1],
    "a long chain": lambda a, xs: vmap(lambda x: chain(a) @ x)(xs),
    "of itself": lambda a, xs: vmap(lambda x: vmap(lambda y: np.exp(a) @ y + np.sum(x))(xs[:3]))(xs),
}


@pytest.mark.parametrize("name", INVARIANT)
def test_what_is_the_same_in_all_turns_stands_before_the_loop(name: str) -> None:
    f = INVARIANT[name]

    def loss(a: Any, xs: Any) -> Any:
        return np.sum(np.sin(f(a, xs)))

    inputs = (np.eye(3) + 0.1, 2 * np.eye(3) - 0.2, np.diag([1.0, 2.0, 3.0]) + 0.3)
    for a in inputs[:1] if name == "a long chain" else inputs:  # of which the length alone is tested
        config.roll = False
        want = f(a, XS)
        config.roll = True
        np.testing.assert_allclose(jit(f)(a, XS), want, rtol=1e-12, atol=1e-13)
        agree(loss, a, XS)
    agree(lambda a, xs: np.sum(gradient(loss)(a, xs) ** 2), inputs[-1], XS)
    tape = trace(f, np.eye(3) + 0.1, XS)
    loops = [loop for op in tape.ops if (loop := as_loop(op)) is not None]
    inside = [str(op.fn) for loop in loops for op in loop.body.ops if isinstance(op, Call)]
    assert not [fn for fn in inside if "inv" in fn or "exp" in fn or "cumsum" in fn]


def test_warnings_of_what_is_the_same_come_once() -> None:
    config.compile = "never"
    with pytest.warns(RuntimeWarning, match="divide by zero") as heard:
        trace(lambda a, xs: vmap(lambda x: np.log(a) * x)(xs), np.zeros(3), XS)
    assert len(heard) == 1
