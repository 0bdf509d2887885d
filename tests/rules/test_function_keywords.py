"""Keywords of NumPy's functions, also ``None`` and ``out=``, compiled: values, outputs, effects and slopes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from caching import function
from numpy.testing import assert_allclose

from yota_py import grad, jit

A = np.array([[0.53, -1.22, 2.1], [1.6, 0.34, -0.7]])
M = np.array([[True, False, True], [True, True, False]])
LIKE = np.array([[3, 1, 2], [0, 5, 4]])
OUTS: dict[str, Any] = {
    "o0": np.array(7.0), "o2": np.full(2, 7.0), "o3": np.full(3, 7.0), "o23": np.full((2, 3), 7.0),
    "o22": np.full((2, 2), 7.0), "o11": np.full((1, 1), 7.0), "o43": np.full((4, 3), 7.0), "o12": np.full(12, 7.0),
    "o223": np.full((2, 2, 3), 7.0), "b3": np.full(3, True), "i3": np.full(3, 7),
}  # fmt: skip
_REDUCTIONS = [
    "axis=None", "axis=0, out=None", "initial=None", "where=M, initial=2.0", "axis=0, out=o3", "keepdims=True, out=o11",
    "axis=1, keepdims=True", "axis=(0, 1)", "initial=1.0, axis=1",
]  # fmt: skip
CALLS = [
    *(f"np.{name}(a=x)" for name in "sum prod max mean ravel transpose squeeze diagonal std cumsum".split()),
    "np.flip(m=x)", "np.rot90(m=x)", "np.fliplr(m=x)", "np.real(val=x)", "np.expand_dims(a=x, axis=0)",
    "np.any(a=x > 0) * x", "np.sum(a=LIKE) * x", "np.max(axis=0, a=LIKE) * x", "np.argmax(a=x) * x",
    *(f"np.{name}(x, {keywords})" for name in ("sum", "prod", "max", "min") for keywords in _REDUCTIONS),
    *(f"np.{name}(x, {keywords})" for name in ("sum", "prod") for keywords in (
        "where=M", "dtype=None", "None, None, o0")),
    *(f"np.{name}(x, {keywords})" for name in ("mean", "std", "var") for keywords in (
        "axis=None, dtype=None, out=None, keepdims=False", "where=M", "axis=0, out=o3", "keepdims=True, out=o11")),
    *(f"np.{name}(x, ddof=1, axis=1, where=M)" for name in ("std", "var")),
    *(f"np.{name}(x, {keywords})" for name in ("cumsum", "cumprod") for keywords in (
        "axis=None", "0, None, o23", "axis=1, out=o23", "axis=0, dtype=None, out=None")),
    *(f"np.{name}(x, {keywords})" for name in ("median", "ptp", "nansum", "nanmean", "nanmax") for keywords in (
        "axis=None, keepdims=True", "axis=0, out=o3", "axis=None", "axis=1, keepdims=True")),
    "np.clip(x, -0.5, 0.5, out=o23)", "np.clip(x, -0.5, 0.5, o23)", "np.clip(x, -0.5, 0.5, where=M, out=o23)",
    "np.clip(x, None, 0.5, where=M, out=o23)", "np.clip(x, -0.5, None, dtype=None)", "x.clip(-0.5, 0.5, o23)",
    "np.clip(x, a_min=-0.5, a_max=None, out=None)", "np.clip(x, -0.5, 0.5, casting='unsafe', order='F')",
    "np.clip(x, min=-0.5, max=0.5, casting='unsafe', order='F')", "np.clip(x, None, None)",
    "np.matmul(x, x.T, out=o22)", "np.matmul(x, x.T, o22)", "np.dot(x, x.T, out=o22)", "x.dot(x.T, o22)",
    "np.vecdot(x, x, axis=0)", "np.einsum('ij,ij->i', x, x, out=o2)", "np.linalg.norm(x, axis=None)",
    "np.linalg.norm(x, None, None, True)", "np.linalg.norm(x, ord=None, axis=0, keepdims=True)",
    "np.round(x, 1, out=o23) * x", "x.round(1, o23) * x", "x.sum(axis=0, out=o3)", "x.mean(0, None, o3)",
    "x.max(axis=0, out=o3)", "x.sum(where=M)", "x.cumsum(0, None, o23)", "x.take([0, 1], axis=1, out=o22)",
    *(f"np.{name}(x, {keywords})" for name in ("nanmax", "nanmin") for keywords in (
        "initial=0.4", "axis=0, where=M, initial=0.2, keepdims=True", "None, None, False, x[0, 1], M")),
    *(f"np.{name}(x, where=M, axis=1)" for name in ("nansum", "nanmean")), "np.nansum(x, initial=2.0)",
    "np.nansum(x, None, None, None, False, x[0, 0])", "np.var(x, mean=0.5)", "np.std(x, axis=0, mean=LIKE[:1] / 4)",
    "np.var(x, mean=np.mean(x), correction=1)", "np.std(x, axis=1, mean=x[:, :1], ddof=1, out=o2)",
    "x.var(0, mean=np.mean(x, 0, keepdims=True), keepdims=True)", "np.std(x, where=M, mean=np.mean(x * x))",
    "np.concatenate([x, x], out=o43)", "np.concatenate([x, x], axis=None, out=o12)", "np.concatenate([x, x], 0, o43)",
    "np.concatenate([x, x], dtype=None, casting='same_kind')", "np.concatenate([x, LIKE], dtype=complex)",
    "np.stack([x, x], out=o223)", "np.stack([x, x], axis=-1, casting='same_kind')", "np.argmax(x, axis=None) * x",
    "np.argmax(x, axis=0, out=i3) * x", "np.argmin(x, axis=1, keepdims=True) * x", "np.any(x > 0, axis=0, out=b3) * x",
    "np.any(x > 0, where=M) * x", "np.all(x > 0, where=M, axis=0) * x", "np.any(x, axis=0, keepdims=False) * x",
    "np.trace(x, out=o0)", "np.quantile(x, 0.3, axis=0, out=o3)", "np.sort(x, axis=None)", "np.flip(x, axis=None)",
    "np.roll(x, 1, axis=None)", "np.repeat(x, 2, axis=None)", "np.average(x, axis=None, weights=None)",
    "np.copy(x, order='F')", "np.zeros_like(x, dtype=None, shape=None) + x", "np.diff(x, prepend=0.0)",
    "np.append(x, [1.0, x[0, 0]])", "np.append([1, 2], x)", "np.append([[1.0, 2.0, 3.0]], x, axis=0)",
    "np.append(x, [])", "np.diff(x, n=0, prepend=1.0)", "np.diff(x, axis=(), n=0)", "x.clip(0.4)", "x.clip(max=0.4)",
    "np.trapezoid(x[0], x * x)", "np.trapezoid(x[0], [[1, 2, 4], [2, 4, 5]])",
    "np.trapezoid(x, LIKE[None] * x, axis=-2)", "np.trapezoid(x, dx=LIKE[:1, :2])",
]  # fmt: skip


def near(have: Any, want: Any, what: str) -> None:
    """Equal dtypes, shapes and numbers."""
    a, b = np.asarray(have), np.asarray(want)
    assert (a.dtype, a.shape) == (b.dtype, b.shape), what
    assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=what)


@pytest.mark.parametrize("call", CALLS)
def test_results_and_outputs(call: str) -> None:
    used = sorted(set(re.findall(r"\w+", call)) & OUTS.keys())
    f = function(f"def f({', '.join(['x', *used])}): return {call}", M=M, LIKE=LIKE)
    compiled = jit(f)
    for k in range(3):
        x = A * (1 + k / 16)
        mine, its = [OUTS[name].copy() for name in used], [OUTS[name].copy() for name in used]
        want, have = f(x.copy(), *mine), compiled(x.copy(), *its)
        near(have, want, f"{call}: the result of call {k}")
        for a, b in zip(its, mine, strict=True):
            near(a, b, f"{call}: out= of call {k}")
            assert (have is a) == (want is b)


@pytest.mark.parametrize("call", CALLS)
def test_slopes(call: str) -> None:
    used = sorted(set(re.findall(r"\w+", call)) & OUTS.keys())
    copies = "".join(f"    {name} = np.array(start[{name!r}])\n" for name in used)
    source = f"""
def number(y):
    return np.sum(np.real(y) * weights[: y.size].reshape(y.shape))

def f(x):
{copies}    y = {call}
    return {" + ".join(f"number({y})" for y in ["y", *used])}
"""
    f = function(source, M=M, LIKE=LIKE, start=OUTS, weights=np.linspace(0.5, 1.5, 64))
    direction, h = np.linspace(0.5, 1, 6).reshape(2, 3), 1e-6
    for k in range(3):
        x = A * (1 + k / 16)
        value, (g,) = grad(f, x)
        assert_allclose(value, f(x), rtol=1e-12)
        slope = (f(x + h * direction) - f(x - h * direction)) / (2 * h)
        assert_allclose(np.sum(g * direction), slope, rtol=1e-6, atol=1e-7, err_msg=call)


def test_errors_are_those_of_numpy() -> None:
    for f in (
        lambda x: np.sum(x[:0], initial=None),
        lambda x: np.sum(x, where=M, initial=None),
        lambda x: np.dot(x, x.T, out=np.zeros((2, 2), np.float32)),
        lambda x: np.take(x, [0, 1], axis=1, out=np.zeros((3, 2))),
    ):
        try:
            f(A)
        except (ValueError, TypeError) as error:
            with pytest.raises(type(error), match=re.escape(str(error)[:20])):
                grad(lambda x, f=f: np.sum(f(x)), A)
