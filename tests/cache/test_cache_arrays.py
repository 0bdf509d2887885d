"""Captured arrays, random numbers, clocks and side effects of cached functions."""

from __future__ import annotations

import datetime
import operator
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import agree
from caching import Box, entries, follows, function, in_a_process, rebind, write
from numpy.testing import assert_allclose
from scipy import stats

from yota_py import explain, grad, jit, value_and_grad

# --------------------------------------------------------------------------------------------- captured arrays


def test_arrays_written_in_place_and_replaced() -> None:
    f = function("def f(x): return np.sum(np.sin(W) * x) + W[0]", W=np.arange(3.0))
    w = f.__globals__["W"]
    others = [
        np.arange(3.0).astype(">f8"),
        np.arange(6.0)[::-2],
        np.arange(3, dtype=np.float32),
        np.arange(3),
        np.arange(3) > 1,
        np.broadcast_to(2.0, (3,)),
        np.arange(5.0) + 1j,
        np.asfortranarray(np.ones((3, 2))),
    ]
    assert all(isinstance(other, np.ndarray) for other in others)
    for i in range(3):
        agree(f, 2.0 + i)
    for change in (write(w, 5.0, 1), write(w, np.nan, 1), write(w, 0.5)):
        change()
        agree(f, 2.0)
    for other in others[:-2]:
        rebind(f, W=other)()
        for i in range(3):
            agree(f, 2.0 + i)
    readonly = np.arange(3.0)
    readonly.flags.writeable = False
    follows(f, rebind(f, W=readonly), rebind(f, W=w))


def test_another_shape_is_compiled_too() -> None:
    f = function("def f(x): return np.sum(np.sin(W) * x)", W=np.ones(3))
    follows(f, rebind(f, W=np.ones(5)))
    assert sum(entry.program is not None for entry in entries(f)) == 2


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_an_array_replaced_by_a_masked_one_or_a_matrix() -> None:
    f = function("def f(x): return np.sum((W * W) * x)", W=np.ones((2, 2)))
    for _ in range(3):
        agree(f, 2.0)
        rebind(f, W=np.matrix([[1.0, 2.0], [3.0, 4.0]]))()
        agree(f, 2.0)  # a matrix product, times a number
        rebind(f, W=np.ma.array(np.ones((2, 2)), mask=np.eye(2)))()
        agree(f, 2.0)
        rebind(f, W=np.ones((2, 2)))()


def test_values_derived_from_captured_arrays() -> None:
    data = np.arange(4.0)

    def f(x: Any) -> Any:
        y = x * np.exp(data).sum() * float(data.max()) * int(data[1]) * data.shape[0] * data.item(2)
        if data.sum() > 5:
            y = y * 2
        for v in data:
            y = y + v * x
        for v in data.tolist():
            y = y + v * x * x
        return y + x * len([v for v in data if v > 1]) + x * max(data) + x * np.median(data)

    follows(f, write(data, 3.0, 1), write(data, 0.5), write(data, 50.0, 3), write(data, [4.0, 3.0, 2.0, 1.0]))


def test_captured_indices_and_masks() -> None:
    index, mask = np.array([0, 2]), np.array([True, False, True])
    follows(
        lambda x: np.sum(x[index]) * np.sum(x[mask]) + np.sum(np.where(mask, x, 0)) + x[index[0]],
        write(index, [1, 1]),
        write(mask, True, 1),
        write(mask, False),
        write(index, -1),
        x=np.arange(3.0) + 1,
    )


def test_shape_dependent() -> None:
    f = function("def f(x): return np.sum(x * np.ones(len(W)) / W.shape[0]) * W.ndim * W.size", W=np.ones(3))
    follows(f, rebind(f, W=np.ones(5)), rebind(f, W=np.ones((2, 2))), rebind(f, W=np.ones(3)))


def test_structured_scalars() -> None:
    record = np.zeros(1, dtype=[("lr", float)])[0]
    record["lr"] = 1.0
    follows(lambda x: x * float(record["lr"]), lambda: record.__setitem__("lr", 4.0))


def test_identity_of_captured_arrays() -> None:
    a = np.ones(3)
    b = a
    follows(lambda x: x * (2.0 if a is b else 3.0))


def test_arrays_are_put_back() -> None:
    w = np.ones(3)
    box, items, table = Box(w=w), [w], {"w": w}

    def f(x: Any) -> Any:
        y = np.sum(box.w * items[0] * table["w"] * w * x)
        if y > 100:
            raise RuntimeError("too large")
        return y

    for x in (1.0, 1000.0, 2.0, 1000.0, 3.0):
        if x > 100:
            with pytest.raises(RuntimeError, match="too large"):
                grad(f, x)
        else:
            agree(f, x)
        assert box.w is w and items[0] is w and table["w"] is w and type(w) is np.ndarray


def test_writes_to_captured_arrays_are_refused_or_right() -> None:
    source = np.ones(3)
    cases: list[Callable[[Any, Any], Any]] = [
        lambda b, x: operator.setitem(b, 0, x),
        lambda b, x: operator.setitem(b, slice(1), 3.0),
        lambda b, x: operator.iadd(b, 1.0),
        lambda b, x: operator.iadd(b, x),
        lambda b, x: b.fill(2.0),
        lambda b, x: np.copyto(b, source),
        lambda b, x: np.copyto(b, x),
        lambda b, x: np.add(b, 1.0, out=b),
        lambda b, x: np.put(b, [0], 4.0),
        lambda b, x: np.putmask(b, b > 0, 4.0),
        lambda b, x: b.sort(),
        lambda b, x: np.add.at(b, [0], 1.0),
    ]
    for change in cases:
        buffer = np.array([3.0, 1.0, 2.0])

        def f(x: Any, change: Any = change, buffer: Any = buffer) -> Any:
            change(buffer, x)
            return np.sum(buffer * [1.0, 2.0, 3.0]) * x

        plain = np.array([3.0, 1.0, 2.0])
        for i in range(4):
            x = 2.0 + i
            try:
                value = grad(f, x, change)[0]
            except TypeError:
                continue
            except NotImplementedError:
                continue
            change(plain, x)
            assert_allclose(value, np.sum(plain * [1.0, 2.0, 3.0]) * x)
        assert type(buffer) is np.ndarray


# -------------------------------------------------------------------------------- randomness, clocks, the outside world


_RNG, _STATE, _STD = np.random.default_rng(0), np.random.RandomState(0), random.Random(0)
_RANDOM: dict[str, Callable[[Any], Any]] = {
    "np.random.rand": lambda x: x * np.random.rand(),
    "np.random.normal": lambda x: x * np.random.normal(),
    "captured Generator": lambda x: x * _RNG.normal(),
    "captured RandomState": lambda x: x * _STATE.rand(),
    "random": lambda x: x * random.random(),
    "random.gauss": lambda x: x * random.gauss(0, 1),
    "captured Random": lambda x: x * _STD.random(),
    "captured Random.gauss": lambda x: x * _STD.gauss(0, 1),
    "time": lambda x: x * time.perf_counter(),
    "datetime": lambda x: x * datetime.datetime.now().timestamp(),
    "urandom": lambda x: x * int.from_bytes(os.urandom(8), "big"),
}


@pytest.mark.parametrize("name", _RANDOM)
def test_randomness_is_not_frozen(name: str) -> None:
    values = [grad(_RANDOM[name], 1.0)[0] for _ in range(6)]
    assert len(set(values)) == 6


def test_random_arrays() -> None:
    in_a_process("""
        import numpy as np
        from yota_py import grad
        rng, state = np.random.default_rng(0), np.random.RandomState(0)
        for f in (
            lambda x: x * np.random.default_rng().normal(),
            lambda x: x * rng.integers(1 << 40),
            lambda x: x * np.sum(rng.normal(size=3)),
            lambda x: x * np.sum(rng.standard_normal(3)),
            lambda x: x * np.sum(rng.permutation(3) * rng.uniform(size=3)),
            lambda x: x * np.sum(state.rand(3)),
            lambda x: x * np.sum(np.random.rand(3)),
            lambda x: x * np.sum(np.random.default_rng().normal(size=3)),
            lambda x: x * np.sum(np.random.Generator(np.random.PCG64()).normal(size=3)),
        ):
            assert len({float(grad(f, 1.0)[0]) for _ in range(6)}) == 6
    """)


def test_compiled_code_that_makes_arrays_while_a_trace_is_active() -> None:
    """Cython and C call np.empty too, and must not be handed a traced value."""
    in_a_process("""
        import numpy as np
        from scipy import interpolate, linalg, optimize, spatial, special, stats
        from yota_py import grad
        calls = [
            lambda: interpolate.CubicSpline([0.0, 1.0, 2.0], [1.0, 2.0, 0.0])(0.5),
            lambda: linalg.solve(np.eye(2) * 2, [1.0, 2.0])[0],
            lambda: optimize.brentq(lambda t: t * t - 2, 0, 2),
            lambda: spatial.cKDTree([[0.0, 0.0], [1.0, 1.0]]).query([0.9, 0.9])[0],
            lambda: stats.norm(0, 1).pdf(0.3),
            lambda: np.random.SeedSequence(3).generate_state(1)[0] % 7,
            lambda: np.histogram([1.0, 2.0, 3.0], bins=2)[0][0],
        ]
        for call in calls:
            f = lambda x: x * float(call())
            want = float(call())
            for i in range(4):
                assert np.isclose(grad(f, 2.0 + i)[0], (2.0 + i) * want)
    """)


@pytest.mark.parametrize("deviates", [0, 1])
def test_draws_of_a_library_that_are_there_already(deviates: int) -> None:
    """Every other normal deviate of the old generator was made with the one before."""
    f = lambda x: x * stats.norm.rvs()  # noqa: E731
    expected = []
    for call in (f, lambda x: grad(f, x)[0], jit(f)):
        np.random.seed(0)
        np.random.normal(size=deviates)
        expected.append([call(1.0) for _ in range(6)])
    assert expected[0] == expected[1] == expected[2]


def test_attributes_with_names_of_random_functions() -> None:
    class Model:
        def __init__(self) -> None:
            self.random, self.time, self.now, self.today, self.Generator = 0.5, 2.0, 1.5, 3.0, 1.0

        def loss(self, x: Any) -> Any:
            return np.sum(x * self.random * self.time * self.now * self.today * self.Generator)

        def noisy(self, x: Any) -> Any:
            return np.sum(x * self.rng.random())

    model = Model()
    loss = value_and_grad(model.loss)
    for i in range(4):
        model.random = 0.5 + i
        value, slope = loss(np.ones(3) + i)
        assert_allclose(value, model.loss(np.ones(3) + i))
        assert_allclose(slope, np.full(3, 9.0 * model.random))
    assert sum(told.calls for told in explain(model.loss)) == 2  # an input from its second value on
    model.rng = np.random.default_rng(0)
    assert len({float(grad(model.noisy, np.ones(3))[0]) for _ in range(6)}) == 6


def test_a_generator_as_argument() -> None:
    rng = np.random.default_rng(0)
    values = [grad(lambda x, r: x * r.normal(), 1.0, rng)[0] for _ in range(6)]
    assert len(set(values)) == 6


def test_classes_stay_classes_while_a_trace_is_active() -> None:
    def f(x: Any, thing: Any = None) -> Any:
        return x * 2 if isinstance(thing, np.random.RandomState | np.random.Generator) else x * 3

    for i in range(4):
        agree(f, 2.0 + i)


def test_environment_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "scale.txt"
    file.write_text("2.0")
    monkeypatch.setenv("YOTA_TEST_SCALE", "2.0")
    cases: dict[str, Callable[[Any], Any]] = {
        "environ": lambda x: x * float(os.environ["YOTA_TEST_SCALE"]),
        "getenv": lambda x: x * float(os.getenv("YOTA_TEST_SCALE", "1")),
        "read_text": lambda x: x * float(file.read_text()),
        "loadtxt": lambda x: x * float(np.loadtxt(str(file))),
    }

    def set_scale(text: str) -> None:
        file.write_text(text)
        monkeypatch.setenv("YOTA_TEST_SCALE", text)

    for f in cases.values():
        set_scale("2.0")
        follows(f, lambda: set_scale("3.0"), lambda: set_scale("4.0"))


# ----------------------------------------------------------------------------------------------------- side effects


def test_side_effects_happen_at_every_call(capsys: pytest.CaptureFixture[str]) -> None:
    log: list[Any] = []
    counts, box = {"n": 0}, Box(calls=0)

    def append(x: Any) -> Any:
        log.append("call")
        return x * x

    def count(x: Any) -> Any:
        counts["n"] += 1
        return x * counts["n"]

    def attribute(x: Any) -> Any:
        box.calls += 1
        return x * box.calls

    for i in range(1, 6):
        assert grad(append, 2.0)[0] == 4.0 and len(log) == i
        assert grad(count, 2.0)[0] == 2.0 * i and counts["n"] == i
        assert grad(attribute, 2.0)[0] == 2.0 * i and box.calls == i


def test_prints_at_every_call(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("x is", x)
        return x * x

    for i in range(4):
        grad(f, 1.0 + i)
    assert capsys.readouterr().out == "x is 1.0\nx is 2.0\nx is 3.0\nx is 4.0\n"


def test_what_the_function_stores_is_never_stale() -> None:
    box = Box(last=None)

    def f(x: Any) -> Any:
        y = x * x
        box.last = y
        return y

    for i in range(4):
        grad(f, 1.0 + i)
        assert str(box.last) == str((1.0 + i) ** 2)


def test_mutable_plain_results_are_not_shared_between_calls() -> None:
    for make in (lambda: {1, 2}, lambda: bytearray(b"ab"), lambda: Box(n=1), lambda: np.array(["a", "b"])):
        report = value_and_grad(lambda x, make=make: (x * x, make()), has_aux=True)
        seen = [report(2.0)[0][1] for _ in range(4)]
        assert len({id(item) for item in seen}) == 4


def test_results_of_another_dtype_than_before() -> None:
    """Of functions without a kernel, whose dtype depends on values."""
    real, rotation = np.diag([1.0, 2.0]), np.array([[0.0, 1.0], [-1.0, 0.0]])
    for f, inputs in (
        (np.linalg.eigvals, (real, rotation)),
        (np.roots, (np.array([1.0, -3.0, 2.0]), np.array([1.0, 2.0, 5.0]))),
        (np.emath.sqrt, (np.array([1.0, 4.0]), np.array([-1.0, 4.0]))),
        (lambda x: np.abs(np.linalg.eigvals(x)).sum(), (real, rotation)),
    ):
        step = jit(f)
        for x in (*inputs, *inputs, *inputs[::-1]):
            assert_allclose(step(x), f(x))
            assert np.asarray(step(x)).dtype == np.asarray(f(x)).dtype
    matrix = real.copy()
    follows(
        lambda x: x * np.abs(np.linalg.eigvals(matrix)).sum(), write(matrix, rotation), write(matrix, real),
        write(matrix, rotation),
    )  # fmt: skip
