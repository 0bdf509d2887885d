"""Gradients that are computed while the function runs are those of a trace, for every rule at all its cases."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from entries import OF_NUMPY, OF_SCIPY, called
from numpy import array
from sets import each
from test_short import assert_same

from yota_py import YotaError, config, primitive, rrule, value_and_grad
from yota_py.cache.modes import MAX_FAILURES, Gradient, Request
from yota_py.capture.computing import failures_of
from yota_py.capture.recording import record_call
from yota_py.errors import NonScalarOutputError
from yota_py.registry.registry import Primitive, Sample
from yota_py.reverse.direct import value_and_gradients
from yota_py.reverse.eager import Eager, Sweep, TooMuchError, is_active
from yota_py.tape.trees import flatten
from yota_py.testing.finite import random_like
from yota_py.tracing.stand_ins import Kept

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

TABLE = np.arange(12.0).reshape(3, 4) / 7
POINT = np.array([0.4, -1.3, 2.1, 0.7])
SCALE = 1.5


def at_once(f: Callable[..., Any], *args: Any, argnums: Any = 0) -> Any:
    """Value and gradients without a trace; ``None`` where one is needed."""
    found = Gradient(argnums).at_once(Request(f, args, {}))
    return None if found is None else found[0]


def traced(f: Callable[..., Any], *args: Any, argnums: Any = 0) -> Any:
    return Gradient(argnums).reference(Request(f, args, {}))[0]


@pytest.mark.parametrize("entry", [entry for entry in (*OF_NUMPY, *OF_SCIPY) if entry.cases], ids=called)
def test_as_traced(entry: Primitive) -> None:
    rng = np.random.default_rng(0)
    with Kept(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in each([case for draw in entry.cases for case in draw(Sample(0))], 2):
            sweep = Sweep(adds=False)
            given = [sweep.active(x) if is_active(x) else x for x in case.args]
            n = len(sweep.values)
            try:
                z = sweep.function(entry.fn, (), tuple(given), case.kwargs) if n else None
            except TooMuchError:
                continue
            if type(z) is not Eager:
                continue
            seed = random_like(sweep.values[-1], rng)
            try:
                cotangents = sweep.back(len(sweep.values) - 1, seed)[:n]
            except TooMuchError:
                continue
            source = record_call(lambda *xs, case=case: entry.fn(*xs, **case.kwargs), case.args, {})
            try:
                value, gradients = value_and_gradients(source, seed)
            except NonScalarOutputError:
                continue
            assert_same(sweep.values[-1], value)
            wanted = [dx for dx, x in zip(gradients, case.args, strict=True) if is_active(x)]
            for dx, want, x in zip(cotangents, wanted, sweep.values, strict=False):
                assert_same(np.zeros_like(x) if dx is None else dx, want)


def test_most_rules_are_reached() -> None:
    """Of what is left to traces above, nothing is compared."""
    reached = set()
    with Kept(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in OF_NUMPY:
            for case in [case for draw in entry.cases for case in draw(Sample(0))]:
                sweep = Sweep(adds=False)
                given = [sweep.active(x) if is_active(x) else x for x in case.args]
                with suppress(TooMuchError):
                    if sweep.values and type(sweep.function(entry.fn, (), tuple(given), case.kwargs)) is Eager:
                        reached.add(entry.name)
    assert len(reached) > 120
    assert {"add", "matmul", "sum", "where", "stack", "getitem", "solve", "einsum", "power", "max"} <= reached


def sums(x: Any) -> Any:
    total, rows = 0.0, []
    for i in range(3):
        total += (TABLE[i] @ x - i) ** 2
        rows.append(np.tanh(TABLE[i] * x) * SCALE)
    return total + np.sum(np.stack(rows)) + np.sum(np.concatenate(rows)[::2])


def sums_of_arrays(x: Any) -> Any:
    sofar, total = 0.0, 0.0
    for row in TABLE:
        sofar += row  # of which the products below must not hear later
        total += np.sin(sofar @ x)
    return total


def decides(x: Any) -> Any:
    while np.sum(x * x) > 0.1:
        x = x / 2 if x[0] > 0 else x - 1
    return np.max(x) + x[-1] ** 3 + len(x)


def recursive(x: Any, depth: int = 4) -> Any:
    def half(y: Any, n: int) -> Any:
        return np.sum(y**2) if n == 0 else half(np.cos(y) * 0.5, n - 1) + y[0]

    return half(x, depth)


def containers(p: Any, x: Any) -> Any:
    return sum(np.sum(np.exp(-(layer["w"] @ x)) * layer["s"]) for layer in p) + p[0]["s"]


LAYERS = [{"w": TABLE, "s": np.float64(0.3)}, {"w": TABLE[::-1], "s": np.float64(-1.0)}]

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = [
    (sums, (POINT,), 0),
    (sums_of_arrays, (POINT,), 0),
    (decides, (POINT,), 0),
    (recursive, (POINT, 3), 0),
    (containers, (LAYERS, POINT), (0, 1)),
    (containers, (LAYERS, POINT), -1),
    (lambda x, y: np.sum(x), (POINT, POINT), (1, 0, 0)),
    (lambda x: x, (np.float64(2.0),), 0),
    (lambda x: x**2 + np.sin(x) / x - 3 % x, (np.float64(2.0),), 0),
    (lambda x: x.reshape(2, 2).T.sum(axis=0).max() + x.dot(x) + x.shape[0], (POINT,), 0),
    (lambda x: np.sum(x[[0, 2, 2]]) + np.sum(x[x > 0]) + np.sum(x[1:][::-1] * x[:-1]), (POINT,), 0),
    (lambda x: np.linalg.solve(TABLE @ TABLE.T + np.eye(3), x[:3]) @ x[1:], (POINT,), 0),
    (lambda x: np.sum(np.where(x > 0, x, 0.0) + np.maximum(x, 0)), (np.zeros(3),), 0),
    (lambda x: sum(x) + max(x) - min(x) + sum(y * 2 for y in x), (POINT,), 0),
    (lambda x: np.mean(x, keepdims=True)[0] + np.sum(x, 0), (POINT,), 0),
    (lambda x: x[np.argmax(x)] ** 2 + np.sum(x * np.ones_like(x)) * np.shape(x)[0] * True, (POINT,), 0),
    (lambda x: np.sum(x[np.argsort(x)] * np.sign(x)) if np.any(x > 0) and not np.isnan(x).all() else x[0], (POINT,), 0),
    (lambda x: np.sum(x ** np.int64(2)) - np.int64(3) / x[0] + x[1] * (x[2] > 0) + x.argmax() * x[0], (POINT,), 0),
]


def rotates(x: Any) -> Any:
    def slope(z: Any) -> Any:
        return np.array([z[1], -z[0] * x[2]])

    z, path = np.array([x[0], 1]), [np.asarray(x[:2])]
    for k in range(6):
        z = z + 0.1 * slope(z + 0.05 * slope(z))
        if k % 2 == 0:
            path.append(z)
    return np.sum(np.asarray(path) ** 2) + np.sum(np.array([[x[0], 2.0], [1, x[1]]]) @ z)


PROGRAMS += [
    (rotates, (POINT,), 0),
    (lambda x: np.sum(array([x[0], x[1], 3.0], dtype=float) * array([1, 2, 3])) + np.sum(np.array(x)), (POINT,), 0),
    (lambda x: np.sum(np.array([row * i for i, row in enumerate([x, x[::-1]])]) ** 2), (POINT,), 0),
]


def test_arrays_of_numbers_are_numpys() -> None:
    def f(x: Any) -> Any:
        own = np.array(TABLE[0])
        own = own * 2
        return np.sum(x * own) + np.sum(np.asarray(TABLE, dtype="f4")[0] * x) + np.array([1.0, 2.0], copy=True)[1]

    for args in ((POINT,), (POINT * 2,), (POINT + 1,)):
        assert_same(at_once(f, *args)[0], traced(f, *args)[0])
    for g in (lambda x: np.array(x[0]) * 1.0, lambda x: np.sum(np.array([x[0], 1], dtype=int)) * x[0]):
        assert at_once(g, POINT) is None


@pytest.mark.parametrize(("f", "args", "argnums"), PROGRAMS)
def test_programs(f: Callable[..., Any], args: Any, argnums: Any) -> None:
    have, want = at_once(f, *args, argnums=argnums), traced(f, *args, argnums=argnums)
    assert have is not None
    (a, of_have), (b, of_want) = flatten(have), flatten(want)
    assert of_have == of_want
    for x, y in zip(a, b, strict=True):
        assert type(x) is type(y)
        assert_same(x, y)
        assert not any(np.shares_memory(x, given) for given in flatten(args)[0] if isinstance(given, np.ndarray))


class Model:
    """Something with a method."""

    def __init__(self) -> None:
        self.w, self.calls = TABLE, 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return np.sum(self.w @ x)


BUFFER, KEPT = np.zeros(4), [1.0]  # type: ignore[var-annotated]
COUNT = 0


def counts(x: Any) -> Any:
    global COUNT
    COUNT += 1
    return np.sum(x) * COUNT


def keeps(x: Any) -> Any:
    KEPT.append(2.0)
    return np.sum(x)


def keeps_in_argument(x: Any, kept: Any) -> Any:
    kept.append(2.0)
    return np.sum(x)


def writes(x: Any) -> Any:
    np.multiply(TABLE[0], 2.0, BUFFER)
    return np.sum(x * BUFFER)


def writes_by_name(x: Any) -> Any:
    np.multiply(TABLE[0], 2.0, out=BUFFER)
    return np.sum(x * BUFFER)


def writes_by_method(x: Any) -> Any:
    TABLE[0].cumsum(0, None, BUFFER)
    return np.sum(x * BUFFER)


def fills(x: Any) -> Any:
    BUFFER.fill(3.0)
    return np.sum(x * BUFFER)


def assigns(x: Any) -> Any:
    BUFFER[0] = 3.0
    return np.sum(x * BUFFER)


def adds_to(x: Any) -> Any:
    y = BUFFER
    y += 1.0
    return np.sum(x * y)


def adds_to_argument(x: Any, y: Any) -> Any:
    y += 1.0
    return np.sum(x * y)


def copies(x: Any) -> Any:
    np.copyto(BUFFER, 1.0)
    return np.sum(x * BUFFER)


def draws(x: Any) -> Any:
    return np.sum(x) * np.random.rand()


def prints(x: Any) -> Any:
    print("so")
    return np.sum(x)


def catches(x: Any) -> Any:
    try:
        return np.sum(x) / KEPT[7]
    except IndexError:
        return np.sum(x)


def keeps_function(x: Any, write: Any = np.multiply) -> Any:
    write(TABLE[0], 2.0, BUFFER)
    return np.sum(x * BUFFER)


def compares(x: Any) -> Any:
    y = x
    return np.sum(x) if y is x else 0.0


def joins(x: Any) -> Any:
    rows = KEPT if KEPT else np
    (KEPT if KEPT else np).append(2.0)  # type: ignore[union-attr]
    return np.sum(x) * len(rows)  # type: ignore[arg-type]


def adds_to_either(x: Any) -> Any:
    y = BUFFER if SCALE else 0.0
    y += 1.0
    return np.sum(x * y)


def calls_either(x: Any) -> Any:
    either = np.multiply if SCALE else (lambda *xs: 0.0)
    either(TABLE[0], 2.0, BUFFER)
    return np.sum(x * BUFFER)


def adds_to_an_other_name(x: Any) -> Any:
    total = 0.0
    for y in (BUFFER, TABLE):
        total = y
    total += 1.0
    return np.sum(x * total)


def of_iterator(x: Any, items: Any = iter([1.0, 2.0])) -> Any:  # noqa: B008
    return np.sum(x) * next(items)


CHANGING = [
    counts, keeps, writes, writes_by_name, writes_by_method, fills, assigns, adds_to, copies, joins, adds_to_either,
    calls_either, adds_to_an_other_name, draws, prints, catches, keeps_function, compares, of_iterator, Model(),
    Model().__call__,
]  # fmt: skip
MORE = [
    *[(f, (POINT,)) for f in CHANGING], (keeps_in_argument, (POINT, [])), (adds_to_argument, (POINT, np.zeros(4))),
    (sums, (Model(),)), (sums, (POINT, iter([]))),
]  # fmt: skip


@pytest.mark.parametrize(("f", "args"), MORE)
def test_what_does_more_is_not_called(f: Any, args: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before = np.copy(BUFFER), [*KEPT], COUNT, np.random.get_state()[2]
    assert at_once(f, *args) is None
    assert capsys.readouterr().out == ""
    assert np.array_equal(BUFFER, before[0])
    assert (KEPT, COUNT, np.random.get_state()[2]) == before[1:]
    assert not any(np.any(x) for x in args[1:] if isinstance(x, np.ndarray))
    assert all(x == [] for x in args[1:] if isinstance(x, list))


OTHERS = [2, np.float32(1), np.ones(3, "f4"), np.ones(3, complex), np.array(2.0), [1.0], None]


@pytest.mark.parametrize("x", OTHERS)
def test_other_numbers_are_traced(x: Any) -> None:
    assert at_once(lambda x: np.sum(x), x) is None


def test_the_same_again_after_a_change() -> None:
    scale = [2.0]

    def f(x: Any) -> Any:
        return np.sum(x) * scale[0] * SCALE

    global SCALE
    for _ in range(2):
        assert at_once(f, POINT)[1][0] == 3.0
    try:
        scale[0], SCALE = 4.0, 2.5
        assert at_once(f, POINT)[1][0] == 10.0
    finally:
        SCALE = 1.5
    scale.append(print)  # type: ignore[arg-type]
    assert at_once(f, POINT) is None


def test_changed_arrays_are_read() -> None:
    table = np.ones(4)

    def f(x: Any) -> Any:
        return np.sum(x * table)

    for i in range(3):
        table[:] = i
        assert (at_once(f, POINT)[1] == i).all()


def test_users_rules_are_heeded() -> None:
    @primitive
    def cube(x: Any) -> Any:
        return x**3

    @rrule(cube)
    def cube_rule(x: Any) -> Any:
        return cube(x), lambda dy: (dy * 7,)

    def f(x: Any) -> Any:
        return np.sum(cube(x))

    assert at_once(f, POINT) is None
    for _ in range(3):
        assert (value_and_grad(f)(POINT)[1] == 7).all()


def test_errors_are_those_of_a_trace() -> None:
    def f(x: Any) -> Any:
        return np.sum(x @ TABLE)

    config.compile = "never"
    for _ in range(MAX_FAILURES + 2):
        with pytest.raises(ValueError, match="matmul"):
            value_and_grad(f)(POINT)

    def g(x: Any) -> Any:
        raise RuntimeError("mine")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="mine"):
            value_and_grad(g)(POINT)
    with pytest.raises(YotaError):
        value_and_grad(lambda x: (x, x))(POINT)


def test_warnings_come_once_and_from_the_users_line() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x))

    config.compile = "never"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert value_and_grad(f)(np.array([0.0, 1.0]))[0] == -np.inf
    (warning,) = caught
    assert warning.filename == __file__
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert np.isnan(at_once(lambda x: np.mean(x[:0]) + np.sum(x), POINT)[0])
    assert [str(x.message)[:4] for x in caught] == ["Mean", "inva"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("error", message="divide")
        with pytest.raises(RuntimeWarning, match="divide"):
            value_and_grad(lambda x: np.sum(np.sqrt(x)) + np.sum(np.log(x * 0.0)))(POINT)
    assert len(caught) == 1
    with np.errstate(divide="ignore"):
        assert at_once(lambda x: np.sum(np.log(x)), np.array([0.0, 1.0]))[0] == -np.inf


def test_functions_are_not_kept_alive() -> None:
    def made() -> Any:
        table = np.ones(4)
        return lambda x: np.sum(x * table)

    f = made()
    assert at_once(f, POINT) is not None
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_large_arrays_are_traced() -> None:
    table = np.ones((2**9, 2**9))
    assert at_once(lambda x: np.sum(np.outer(table[0], x)), np.ones(2**9)) is None
    assert at_once(lambda x: np.sum(x), np.ones(2**18)) is None


def inner_sum(x: Any) -> Any:
    return np.sum(x * value_and_grad(lambda y: np.sum(y * x))(TABLE[0])[1])


def hyper(p: Any) -> Any:
    return np.sum(value_and_grad(lambda w: np.sum(np.tanh(w * p)))(np.ones(4))[1] * p)


def by_default(x: Any) -> Any:
    return x[0] * value_and_grad(lambda y, s=x: np.sum(y * y) * s[0])(TABLE[0])[0]


@pytest.mark.parametrize("mode", ["never", "auto", "always"])
@pytest.mark.parametrize("f", [inner_sum, hyper, by_default])
def test_gradients_in_gradients(f: Any, mode: str) -> None:
    config.compile = mode
    for x in (POINT, POINT + 0.1, POINT * 2):
        value, slopes = value_and_grad(f)(x)
        want_value, want = traced(f, x)
        assert_same(value, want_value)
        np.testing.assert_allclose(slopes, want, rtol=1e-12)
        steps = np.eye(4) * 1e-6
        slope = [(value_and_grad(f)(x + h)[0] - value_and_grad(f)(x - h)[0]) / 2e-6 for h in steps]
        np.testing.assert_allclose(slopes, slope, rtol=1e-6, atol=1e-8)


def sums_in_lists(x: Any) -> Any:
    total = 0.0
    total += np.eye(4)
    y = np.linalg.multi_dot([x, total, x])
    total += 10 * np.eye(4)
    return y


def positions_in_lists(x: Any) -> Any:
    i = 0
    i += np.arange(2)
    y = np.sum(x.reshape(2, 2)[i, i]) + np.sum(x.take([i, i]) ** 2) + np.sum(x[[i, i]] ** 3)
    i += 1
    return y


@pytest.mark.parametrize("f", [sums_in_lists, positions_in_lists])
def test_what_changes_later_was_copied(f: Any) -> None:
    have, want = at_once(f, POINT), traced(f, POINT)
    assert have is not None
    assert_same(have[0], want[0])
    assert_same(have[1], want[1])


def test_numbers_are_those_of_plain_python() -> None:
    with np.errstate(all="ignore"):
        for x in np.array([-np.inf, -0.0, 0.0, np.inf, np.nan, 0.3, 7.7]):
            for f in (lambda x: x**0.5, lambda x: 1 / (x**0.5), lambda x: x**3 - x**-2 + 2.0**x, lambda x: x / 3 % 2):
                found = at_once(f, x)
                if found is not None:
                    np.testing.assert_array_equal(found[0], f(x))


def test_gradients_share_no_memory() -> None:
    _, (a, b, c) = at_once(lambda x, y: np.sum(x * y), POINT, POINT, argnums=(0, 0, -2))
    assert not np.shares_memory(a, b) and not np.shares_memory(a, c)


def test_other_exceptions_carry_no_values() -> None:
    def f(x: Any) -> Any:
        raise SystemExit([x[0]])

    def g(x: Any) -> Any:
        raise KeyboardInterrupt from ValueError(x[0])

    config.compile = "never"
    with pytest.raises(SystemExit) as caught:
        value_and_grad(f)(POINT)
    assert not isinstance(caught.value.code[0], Eager) and "0.4" in str(caught.value.code)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        value_and_grad(g)(POINT)
    assert "0.4" in str(interrupt.value.__cause__)


def test_calls_that_fail_are_counted_by_code() -> None:
    def made(i: int) -> Any:
        table = np.ones(4) * i
        return lambda x: np.sum(x * table) * float(x[0])

    for i in range(MAX_FAILURES + 4):
        assert at_once(made(i), POINT) is None
    assert len(failures_of(made(0).__code__)) == MAX_FAILURES


@pytest.mark.parametrize("f", [
    lambda x: np.sum(-x), lambda x: np.sum(+x * abs(x)), lambda x: -x[0] * abs(x[1]), lambda x: +x[2] - abs(-x[3]),
])  # fmt: skip
def test_signs(f: Any) -> None:
    found = at_once(f, POINT)
    assert found is not None
    for have, want in zip(found, traced(f, POINT), strict=True):
        assert_same(have, want)


def test_decisions_that_never_come_again() -> None:
    """Each call takes another path."""
    xs, ys = np.linspace(-2, 2, 12), np.cos(np.arange(12.0) ** 2) * 2

    def huber(p: Any) -> Any:
        total = 0.0
        for x, y in zip(xs, ys, strict=True):
            r = y - p[0] * x - p[1]
            total = total + (0.5 * r * r if abs(r) < 1.0 else abs(r) - 0.5)
        return total

    for i in range(5):
        p = np.array([0.3 * i, -0.2 * i])
        found = at_once(huber, p)
        assert found is not None
        for have, want in zip(found, traced(huber, p), strict=True):
            assert_same(have, want)
