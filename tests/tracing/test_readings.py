"""What arrays and numbers without derivative are asked, and given to: it is what plain ones answer, at every call."""

from __future__ import annotations

import datetime
import decimal
import hashlib  # noqa: F401 - for what is read
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import sklearn.metrics
import sklearn.preprocessing  # noqa: F401 - for what is read
from numpy.testing import assert_allclose

from yota_py import config, grad, gradient, jit, stop_gradient, value_and_grad
from yota_py.errors import LostDerivativeError, MissingRuleError, MutationError, YotaError

B, A, N = np.ones(2), np.ones((2, 2)), np.ones(3, int)

READ = {
    "bytes": "np.frombuffer(B.tobytes())[1]", "bytes in order": "np.frombuffer(A.tobytes('A'))[1]",
    "hash": "hashlib.md5(B.tobytes()).digest()[0]", "pickle": "sum(B.dumps())", "strides": "A.strides[0]",
    "file": "written(A)", "writeable": "1 + B.flags.writeable", "order": "1 + A.flags.c_contiguous + A.flags['F']",
    "base": "1 + (B.base is None) + ((B * 2)[1:].base is None)", "memory": "np.frombuffer(B.data)[1]",
    "memoryview": "memoryview(B.data)[0]", "other dtype": "B.view(np.uint8)[6:].sum()", "matrix": "np.matrix(A)[0, 1]",
    "text": "float(B.astype(str)[0])", "objects": "B.astype(object)[1]", "texts": "len(np.where(N > 2, 'a', 'bc')[0])",
    "device": "len(B.device) * B.to_device('cpu')[1]", "choose": "np.choose(N % 2, [B[0], B[1], 1.0])[0]",
    "choose method": "(N % 2).choose([B[0], 2.0])[0]", "unique": "np.unique(N, return_counts=True)[1][0]",
    "unique rows": "np.sum(np.unique(A, axis=0) * A)", "scalar": "sum(B[0].tobytes()) + B[0].strides.__len__()",
    "scalar of other dtype": "B[1].view(np.int64) // 2**48", "generator": "np.random.default_rng(N[0]).uniform()",
    "time": "1 + (np.timedelta64(N[0], 's') > np.timedelta64(2, 's'))", "cut": "1 + pd.cut(B, 2).codes[1]",
    "made here": "len(np.zeros(3).tobytes())",
    "plain": "np.frombuffer(memoryview(B.__array__()))[1]", "zero": "np.frombuffer((B * 0 - 0.0).tobytes())[1] + 1",
}  # fmt: skip


def written(array: Any) -> int:
    """A number that depends on what is written into a file."""
    file = io.BytesIO()
    array.dump(file)
    return sum(file.getvalue())


def functions(expression: str) -> tuple[Callable[[Any], Any], Callable[..., Any], dict[str, Any]]:
    """A function of x and global arrays, one that is given these, and the global names."""
    names = {**globals(), "__name__": "user_module"}
    exec(f"def f(x): return x * x * ({expression})\ndef given(x, B, A, N): return x * x * ({expression})", names)
    return names["f"], names["given"], names


def arrays(k: int) -> tuple[Any, ...]:
    a = np.array([[2.0, 1.0], [1.5, 3.0]]) * (k + 1)
    b, n = np.array([1.5, 2.0]) + k, np.array([1, 2, 2]) + k
    b.flags.writeable = k != 1
    return b, np.asfortranarray(a) if k == 2 else a, n


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compiled", ["auto", "always"])
@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_that_of_this_call(name: str, compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", compiled)
    f, given, names = functions(READ[name])
    step, inner = jit(f), jit(lambda x, *data: gradient(given)(x, *data))
    for k in (0, 1, 2, 0, 3, 3):
        names["B"], names["A"], names["N"] = data = arrays(k)
        x = 1.5 + k
        want, slope = f(x), 2 * f(x) / x
        value, (dx,) = grad(f, x)
        assert_allclose((value, dx), (want, slope))
        assert_allclose(value_and_grad(given)(x, *data), (want, slope))
        assert_allclose(gradient(gradient(given))(x, *data), slope / x)
        assert_allclose((step(x), inner(x, *data)), (want, slope))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", [
    "sklearn.preprocessing.StandardScaler().fit_transform(A * A.T)[0, 1] + 3",
    "sklearn.metrics.mean_squared_error(B, B * B)",
])  # fmt: skip
def test_scikit_learn(expression: str) -> None:
    f, given, names = functions(expression)
    for k in (0, 3):
        names["B"], names["A"], names["N"] = data = arrays(k)
        assert_allclose(grad(f, 2.0)[1][0], 4 * f(1.0))
        assert_allclose(value_and_grad(given)(2.0, *data), (f(2.0), 4 * f(1.0)))


@pytest.mark.parametrize("compiled", ["auto", "always"])
def test_signs_of_zeros_are_told_apart(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", compiled)
    for dtype in (np.float64, np.float32, np.complex128):
        f, _, names = functions("sum(B.tobytes()) + 1")
        for zero in (0.0, -0.0, 0.0, -0.0, 2.0, -0.0):
            names["B"] = np.array([zero, 1.0], dtype)
            assert grad(f, 2.0) == (f(2.0), (4.0 * f(1.0),))


REFUSED = {
    "B.data[0] = 5.0": TypeError, "B.view(np.int64)[0] = 5": MutationError, "B.resize((1, 2))": MissingRuleError,
    "B.setflags(write=False)": MissingRuleError, "B.flags.writeable = False": MissingRuleError,
    "B.flags['WRITEABLE'] = False": MissingRuleError, "B.ctypes.data": MissingRuleError, "B.sort()": MutationError,
    "B.byteswap(inplace=True)": MissingRuleError, "z = np.zeros(2); y = z.view(np.int64); z[0] = x": MutationError,
    "z = np.zeros(2); y = z[1:].data; z[:1] = x": MutationError, "(B * x).tobytes()": MissingRuleError,
    "(B * x).data": MissingRuleError, "(B * x).view(np.int64)": MissingRuleError,
    "(B * x).astype(str)": LostDerivativeError,
    "pd.cut(B * x, 2)": LostDerivativeError,
}  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_nothing_is_written_into_a_copy(line: str) -> None:
    names: dict[str, Any] = {"np": np, "pd": pd, "B": np.array([3.0, 2.0])}
    exec(f"def f(x):\n    {line}\n    return x * x", names)
    for x in (2.0, 3.0):
        with pytest.raises(REFUSED[line]):
            grad(names["f"], x)
        assert names["B"].tolist() == [3.0, 2.0] and names["B"].flags.writeable


def test_flags_and_strides_have_no_derivative() -> None:
    def f(x: Any) -> Any:
        return np.sum(x * x) * x.strides[0] if x.flags.c_contiguous else np.sum(x)

    x = np.arange(4.0).reshape(2, 2)
    for array in (x, np.asfortranarray(x), x + 1, x.T, x):
        value, (slope,) = grad(f, array)
        assert value == f(array)
        assert_allclose(slope, 2 * array * array.strides[0] if array.flags.c_contiguous else np.ones((2, 2)))


def test_the_base_of_a_view() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        z = y[1:]
        return np.sum(x) * (z.base is y) * (y.base is None)

    for _ in range(3):
        assert grad(f, np.ones(3))[0] == f(np.ones(3)) == 3.0


@pytest.mark.parametrize(("call", "plain"), [
    ("datetime.timedelta(seconds=B[1]).seconds", ".__float__()"), ("decimal.Decimal(float(B[1]))", ".__float__()"),
    ("memoryview(B).nbytes", ".__array__()"), ("np.frombuffer(B)[0]", ".__array__()"),
])  # fmt: skip
def test_c_code_that_takes_plain_values_only(call: str, plain: str) -> None:
    """The message is true, and what it says works."""
    names: dict[str, Any] = {"np": np, "datetime": datetime, "decimal": decimal, "stop_gradient": stop_gradient, "B": B}
    refused = eval(f"lambda x: x * float({call})", names)
    with pytest.raises(LostDerivativeError, match=r"which it cannot read .*stop_gradient") as caught:
        grad(refused, 2.0)
    assert plain in str(caught.value) and "would be lost" not in str(caught.value)
    of = "float(B[1])" if "float(B" in call else "B[1]" if "B[1]" in call else "B"
    right = eval(f"lambda x: x * float({call.replace(of, f'stop_gradient({of}){plain}')})", names)
    for k in range(3):
        names["B"] = np.array([1.0, 2.0]) + k
        assert grad(right, 2.0) == (right(2.0), (right(1.0),)) and right(2.0) == refused(2.0)


def test_under_jit_they_are_asked_when_the_step_asks() -> None:
    def step(x: Any) -> Any:
        before = x.tobytes()
        x += 1.0
        return before == x.tobytes(), x.strides, np.frombuffer(x.data)[0]

    compiled = jit(step)
    for _ in range(4):
        assert compiled(np.ones(2)) == step(np.ones(2)) == (False, (8,), 2.0)


STRIDED = {
    "backwards": "as_strided(a[2:], (3, 3), (-8, 8))", "every second": "as_strided(a[::2], (3,), (16,))",
    "beside it": "as_strided(a[:1], (6,), (8,))", "by strides": "as_strided(a[3:], strides=(-8,))",
    "in order of columns": "as_strided(a.reshape(2, 3).copy(order='F')[:, 1:], (2, 2), (8, 16))",
    "another dtype": "as_strided(a.astype(np.float32)[2:], (3,), (-4,))",
}  # fmt: skip


@pytest.mark.parametrize("expression", STRIDED.values(), ids=STRIDED.keys())
def test_libraries_see_the_memory_beside_a_view(expression: str) -> None:
    names: dict[str, Any] = {"__name__": "scipy.strided", "as_strided": np.lib.stride_tricks.as_strided, "np": np}
    exec(f"def strided(a): return {expression}", names)
    w, strided = np.arange(1.0, 7.0), names["strided"]
    captured = value_and_grad(lambda x: x * x + x * np.sum(strided(w)))
    passed = value_and_grad(lambda x, a: x * x + x * np.sum(strided(stop_gradient(a * x))))
    for k in range(4):
        x, w[:] = k + 2.0, np.arange(1.0, 7.0) * (k + 1)
        total, part = strided(w).sum(), strided(w * x).sum()
        assert_allclose(captured(x), (x * x + x * total, 2 * x + total))
        assert_allclose(passed(x, w), (x * x + x * part, 2 * x + part))
    with pytest.raises(LostDerivativeError, match="computes on plain values and has no rule yet"):
        grad(lambda x: np.sum(strided(w * x)), 2.0)


def test_libraries_do_not_write_into_what_they_see_beside_a_view() -> None:
    names: dict[str, Any] = {"__name__": "scipy.strided", "as_strided": np.lib.stride_tricks.as_strided}
    exec("def strided(a): return as_strided(a[1:], (3,), (-8,))\ndef write(a): strided(a)[0] = 5.0", names)
    strided, write, w = names["strided"], names["write"], np.arange(1.0, 7.0)
    seen = np.arange(20.0)[5:11]
    with pytest.raises(ValueError, match="read-only"):
        grad(lambda x: (write(w), x * x)[1], 2.0)
    with pytest.raises(MissingRuleError, match=r"as_strided .* x\.copy\(\)"):  # of what the trace does not know
        grad(lambda x: x * np.sum(strided(seen)), 2.0)

    def later(x: Any) -> Any:
        a = w * 2
        windows = strided(a)
        a[0] = 9.0
        return x * np.sum(windows)

    with pytest.raises(MutationError):
        grad(later, 2.0)


def test_a_matrix_of_library_functions_that_stride() -> None:
    w = np.array([1.0, 2.0, 4.0])
    for make in (scipy.linalg.circulant, scipy.linalg.toeplitz, scipy.linalg.hankel):
        f = value_and_grad(lambda x, make=make: np.sum(make(w) @ x))
        for k in range(4):
            w[1] = k
            value, g = f(np.arange(3.0) + k)
            assert_allclose(value, np.sum(make(w) @ (np.arange(3.0) + k)))
            assert_allclose(g, make(w).sum(0))


def test_other_functions_that_catch_the_refusal_are_refused() -> None:
    def f(x: Any) -> Any:
        try:
            (x * B).tobytes()
        except Exception:  # any: it is what this test is about
            return x * 3
        return x

    with pytest.raises(YotaError, match="tobytes"):
        grad(f, 2.0)
