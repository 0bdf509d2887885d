"""Calls that are recorded on the short way stand on the tape as they do on the long one."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
from entries import OF_NUMPY, OF_SCIPY, called
from sets import SEQUENCES

from yota_py import grad, primitive, rrule, trace
from yota_py.capture.recording import record_call
from yota_py.registry.registry import Primitive, Sample, describe, entries
from yota_py.tape.operations import Call, Variable
from yota_py.tracing import quick
from yota_py.tracing.stand_ins import Kept
from yota_py.tracing.traces import Trace

# Functions of SciPy whose stand-ins alone can be traced; and those that take conditions or dtypes, or Python's numbers.
OF_OBJECTS = {f"scipy.signal._short_time_fft.{name}" for name in ("stft", "istft", "stft_detrend", "spectrogram")}
OF_OTHERS = {"where", "chosen", "astype", "power", "pow"}
KNOWN = [entry for entry in (*OF_NUMPY, *OF_SCIPY) if entry.cases and not entry.immediate]


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What has been recorded on the short way."""
    found: list[Any] = []
    recorded = quick._recorded

    def noted(*args: Any) -> Any:
        result = recorded(*args)
        found.extend([] if result is None else [args[1]])
        return result

    monkeypatch.setattr(quick, "_recorded", noted)
    return found


def recorded(f: Any, args: Any, short: bool) -> Trace:
    """On the short way where that can be gone, or nowhere."""
    with pytest.MonkeyPatch.context() as patch:
        if not short:
            patch.setattr(quick, "_recorded", lambda *args: None)
        return record_call(f, args, {})


def assert_both_ways(f: Any, *args: Any) -> None:
    """The same operations of the same values, that depend on the same; only what ``np.empty`` gives may be other."""
    short, long = recorded(f, args, True), recorded(f, args, False)
    assert short.problems == long.problems
    assert len(short.tape) == len(long.tape)
    for (var, op), (_, other) in zip(short.tape, long.tape, strict=True):
        assert short.status(var) == long.status(var)
        assert type(op) is type(other)
        assert op.type == other.type
        if isinstance(op, Call) and isinstance(other, Call):
            assert (op.fn, op.site) == (other.fn, other.site)
            assert (str(op.args), str(op.kwargs)) == (str(other.args), str(other.kwargs))
            if short.status(var):
                assert type(short[var]) is type(long[var])
    for a, b in zip(short.tape.results, long.tape.results, strict=True):
        if isinstance(a, Variable):
            np.testing.assert_array_equal(short[a], long[b])


@pytest.mark.parametrize("entry", KNOWN, ids=called)
def test_every_primitive(entry: Primitive, gone: list[Any]) -> None:
    compared = 0
    with Kept(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in [case for draw in entry.cases for case in draw(Sample(0))][:12]:
            try:
                record_call(entry.fn, case.args, case.kwargs)
            except Exception:
                continue
            assert_both_ways(lambda *xs: entry.fn(*xs, **case.kwargs), *case.args)  # noqa: B023
            compared += 1
            if compared > 3 and (gone or not entry.quick) and not SEQUENCES:
                break
    assert compared or called(entry) in OF_OBJECTS
    assert not entry.quick or gone or entry.name in OF_OTHERS


OPERANDS = [
    np.ones(3), np.float64(2.0), 2.0, np.ones((2, 3), np.float32), np.float32(2.0), np.array(2.0), np.ones((0, 3)),
    np.ones(3, int), 2, True, np.arange(6.0).reshape(2, 3).T[:, 0], 1j, np.ones(3, complex), np.ones(3, np.float16),
]  # fmt: skip
OPERATORS: list[Any] = [
    lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: x**y,
    lambda x, y: x @ y, lambda x, y: x < y, lambda x, y: -x, lambda x, y: np.maximum(x, y), lambda x, y: np.hypot(x, y),
    lambda x, y: np.sum(x) + np.max(y), lambda x, y: np.add(x, y, dtype=float), lambda x, y: np.where(x > 1, x, y),
]  # fmt: skip


@pytest.mark.parametrize("op", range(len(OPERATORS)))
@pytest.mark.parametrize("constant", [False, True])
def test_operators_of_all_kinds_of_operands(op: int, constant: bool, gone: list[Any]) -> None:
    compared = 0
    with Kept(), np.errstate(all="ignore"):
        for x in OPERANDS:
            for y in OPERANDS:
                f, args = OPERATORS[op], (x, y)
                try:
                    f(*args)
                except TypeError:
                    continue
                except ValueError:
                    continue
                if constant:
                    f, args = (lambda x, y=y, f=f: f(x, y)), (x,)
                try:
                    record_call(f, args, {})
                except Exception:
                    continue
                assert_both_ways(f, *args)
                compared += 1
    assert compared >= 20
    assert gone or op in (6, 12)  # comparisons and conditions have another way


def written(x: Any) -> Any:
    y = x * 2
    row = y[0]
    before = row + 1
    y[0] = before
    return np.sum(row * y) + np.sum(row)  # row is looked up again: it has been written


def noted(x: Any) -> Any:
    s = np.zeros(4)
    for i in range(4):
        s[i] = x[i] * (s[i - 1] if i else 1.0)
    return np.sum(s * x)


def flipped(x: Any) -> Any:
    y = x[::-1]
    y += 1
    return np.sum(x * y)


@pytest.mark.parametrize("f", [written, noted, flipped])
def test_arrays_that_are_written(f: Any) -> None:
    x = np.arange(1.0, 5.0) if f is not written else np.arange(1.0, 7.0).reshape(2, 3)
    assert_both_ways(f, x)


def test_warnings_name_the_users_line() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x) / x)

    for _ in range(3):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            record_call(f, (np.array([0.0, 1.0]),), {})
        assert {w.filename for w in found} == {__file__}


def test_lines_of_one_statement_in_several_functions() -> None:
    """A site belongs to the instruction, not to its place in other code that is equal."""
    texts = ["def f(x):\n    return x * x\n", "\n\ndef f(x):\n    return x * x\n"]
    sites = []
    for text in texts:
        names: dict[str, Any] = {}
        exec(compile(text, f"{len(text)}.py", "exec"), names)
        sites.append(str(trace(names["f"], 2.0).ops[-1].site))
    assert sites == [f"{len(texts[0])}.py:2", f"{len(texts[1])}.py:4"]


def test_one_code_in_two_name_spaces() -> None:
    """Warnings are registered in the name space of who computes."""
    code = compile("def f(x):\n    return x / (x - x)\n", "one.py", "exec")
    spaces: list[dict[str, Any]] = [{}, {}]
    for names in spaces:
        exec(code, names)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            with pytest.warns(RuntimeWarning):
                record_call(names["f"], (np.float64(1.0),), {})
    assert all("__warningregistry__" in names for names in spaces)


def test_a_users_class_beside_a_traced_array() -> None:
    class Twice:
        __array_ufunc__ = None

        def __radd__(self, other: Any) -> Any:
            return other * 2

    np.testing.assert_array_equal(grad(lambda x: np.sum(x + Twice()), np.ones(2))[1][0], [2.0, 2.0])


def test_a_function_whose_rule_is_replaced() -> None:
    """What is known of an entry is asked anew when something is registered for its function."""

    @primitive
    def cube(x: Any) -> Any:
        return x**3

    rrule(cube)(lambda x: (cube(x), lambda dy: (dy * 3 * x**2,)))
    assert grad(cube, 2.0) == (8.0, (12.0,))
    rrule(cube)(lambda x: (cube(x), lambda dy: (dy * 7,)))
    assert grad(cube, 2.0) == (8.0, (7.0,))


def test_a_ufunc_whose_rule_is_replaced() -> None:
    entry = entries[np.cbrt]
    assert_both_ways(lambda x: np.cbrt(x), np.ones(2))
    assert entry.quick
    describe(np.cbrt)
    assert entry.quick is None
    assert_both_ways(lambda x: np.cbrt(x), np.ones(2))


WITH_KEYWORDS = [
    lambda x: np.sum(x, axis=0), lambda x: np.sum(x, -1), lambda x: np.sum(x, axis=(0, 1), keepdims=True),
    lambda x: np.max(x, axis=None), lambda x: np.min(x, axis=1, keepdims=False), lambda x: np.prod(x, keepdims=True),
    lambda x: np.dot(x, x.T), lambda x: np.inner(x, x), lambda x: np.vdot(x, x), lambda x: np.where(x, x, 0.0),
    lambda x: np.sum(x, axis=0, dtype=np.float32), lambda x: np.sum(x, initial=1.0), lambda x: np.sum([x, x], axis=0),
    lambda x: np.sum(x, 0, None, x[0] * 2), lambda x: np.dot(x, x.T, x[:, :2] * 2),
    lambda x: np.copy(x, order="F"), lambda x: np.max(x, 0, None, True), lambda x: np.sum(x, axis=np.int64(1)),
]  # fmt: skip


@pytest.mark.parametrize("f", WITH_KEYWORDS)
@pytest.mark.parametrize("x", [
    np.arange(1.0, 7.0).reshape(2, 3), -np.ones((2, 3), np.float32), np.full((2, 3), np.nan),
])  # fmt: skip
def test_functions_that_dispatch(f: Any, x: Any) -> None:
    for given in (x, 2 * x, x[:, ::-1]):
        assert_both_ways(f, given)
        assert_both_ways(lambda x: np.sum(np.sin(x), axis=0), given)


def test_functions_that_dispatch_go_the_short_way(gone: list[Any]) -> None:
    recorded(lambda x: np.sum(x, axis=0) @ np.dot(x.T, np.max(x, axis=1)), (np.ones((2, 3)),), True)
    assert {np.sum, np.dot, np.max} <= {*gone}


@pytest.mark.parametrize("f", [lambda x: np.sum(x, axis=5), lambda x: np.sum(x, axs=0), lambda x: np.dot(x, x)])
def test_errors_are_numpys(f: Any) -> None:
    x = np.ones((2, 3))
    with pytest.raises((TypeError, ValueError)) as plain:
        f(x)
    with pytest.raises(plain.type) as traced:
        record_call(f, (x,), {})
    assert str(traced.value) == str(plain.value)


def test_name_spaces_are_not_kept() -> None:
    """Of code that is executed again and again, with large arrays in its name space."""

    class Held:
        pass

    gone = 0
    for _ in range(3):
        names: dict[str, Any] = {"np": np, "held": Held()}
        exec("def f(x):\n    return np.sum(np.sin(x) * x)\n", names)
        assert_both_ways(names["f"], np.ones(2))
        held = weakref.ref(names["held"])
        del names
        gc.collect()
        gone += held() is None
    assert gone == 3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble])
@pytest.mark.parametrize("f", [np.sum, np.prod, lambda x: x @ x])
def test_overflow_is_told_once(f: Any, dtype: Any) -> None:
    x = np.full(2, np.finfo(dtype).max)
    with warnings.catch_warnings(record=True) as plain:
        warnings.simplefilter("always")
        f(x)
    with warnings.catch_warnings(record=True) as traced:
        warnings.simplefilter("always")
        record_call(f if f is not np.sum and f is not np.prod else lambda x: f(x), (x,), {})
    assert [str(w.message) for w in traced] == [str(w.message) for w in plain]
