"""Lists and tuples where NumPy takes arrays, among them lists of traced numbers: values and gradients."""

from __future__ import annotations

import collections
import re
from array import array
from typing import Any

import numpy as np
import pytest
from caching import function
from fresh import rounds
from numpy.testing import assert_allclose

from yota_py import config, grad, gradient, jit, primitive, scalar_rule, value_and_grad
from yota_py.errors import LostDerivativeError, MissingRuleError, UncachedWarning

X = np.array([0.9, 1.2, 1.7])
CALLS = [
    "np.concatenate([x, [0.5, 2]])", "np.concatenate([(x[0], 2), x])", "np.concatenate([[x[0], 1.0], [2, 3], x])",
    "np.concatenate([x, [np.float32(0.5)]])", "np.concatenate([[[x[0]], [2.0]], x[1:, None]])",
    "np.hstack([x, [x[0], 1]])", "np.vstack([x, [1, 2, 3]])", "np.vstack([x, (x[0], 2, 0.5)])",
    "np.vstack([np.arange(3), x])",
    "np.stack([x, [1.0, x[2], 3]])", "np.stack([(1, 2, 3), x], axis=1)", "np.dstack([x, [1, 2, x[0]]])",
    "np.column_stack([x, [1.0, 2.0, x[0]]])", "np.inner([1.0, 2, x[0]], x)", "np.inner(x, (1, x[2], x[0]))",
    "np.where(x > 0.95, [x[0], 1, x[1]], x)", "np.where([True, False, True], (1, x[1], 2.0), x)",
    "np.full_like(x, [x[1], 2, x[0]])", "np.linspace(x, [x[0], 1, 2.0], 4)", "np.interp([0.5, x[0]], [0, 1, 2], x)",
    "np.clip(x, [x[0] / 2, 1.0, 0], (3, x[2] / 2, x[1]))", "np.clip([x[0], 2, 0.5], 0.3, x)",
    "np.interp(x, [0, 1.3, x[2] + 1], [x[0], 2, x[1]])", "np.vecdot([x[0], 2, x[1]], x)", "np.full(3, [x[0], 1, 2])",
    "np.maximum(x, [x[0], 1.25, 2])", "np.full((2, 3), (x[0], 1, x[2]))",
    "np.broadcast_arrays(x, [1.0, x[0], 2])[1]", "np.broadcast_arrays([[1], [2]], x)[1]",
    "np.isclose(x, (5.0, 1.0, 2.0), [0.0, 2.0, 0.01]) * x",
    "np.average([x[0], x[1] * x[2]], weights=[1, 2])", "np.average([x, x * x], axis=0, weights=(2.0, x[0]))",
    "np.linalg.norm([x[0], 2.0, x[2]])", "np.linalg.det([[x[0], 1.0], (2.0, x[1])])", "np.diff([1.0, *x])",
    "np.linalg.solve([[x[0], 1.0], [0.5, x[1]]], [x[2], 1.0])", "np.linalg.inv([[x[0], 1.0], [0.5, x[1]]])",
    "np.cross([x[0], 1.0, x[2]], [1.0, 2.0, 3.0])", "np.kron([x[0], 1.0], [2.0, x[1]])",
    "np.roll([x[0], 2.0, x[1]], 1)",
    "np.flip([x[0], 1.0])",
    "np.nanmean([x[0], 1.0])", "np.ptp([x[0], 1.0, x[2]])", "np.quantile([x[0], 1.0, x[2]], 0.3)",
    "np.tile([x[0], 1.0], 2)",
    "np.trapezoid([x[0], 1.0, x[1]], dx=0.5)", "np.repeat([x[0], 1.0], 2)", "np.real([x[0], 1j * x[1]])",
    "np.split(np.array([x[0], 2.0, x[1]]), [1])[1]", "np.moveaxis([x, x * x], 0, 1)", "np.tril([x[:2], [1.0, 2.0]])",
    "np.interp([x[0]], [0.0, 2.0], [x[1], 3.0])",
    "np.swapaxes([[x[0], 1.0]], 0, 1)",
    "np.take([x[0], 1.0, x[1]], [2, 0])", "np.pad([x[0], 2.0], 1)", "np.pad(np.ones(2), 1, constant_values=x[0])",
    "np.pad(x, (1, 2), constant_values=(x[1], 2.0))",
    "np.pad(np.ones((2, 2)), ((1, 0), (2, 1)), constant_values=x[2] * 2)",
    "np.pad([x, x * x], 1, constant_values=[(x[0], x[1]), (x[2], 0.5)])", "np.pad(x, 0, constant_values=x[0])",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_lists_are_arrays(call: str) -> None:
    f = function(f"def f(x): y = {call}; return np.sum(y**2 * (1.0 + np.arange(y.size).reshape(y.shape)))")
    rounds(f, X, 1.1 * X, X + 0.3)


class Pair:
    """A sequence of two, as old code writes it."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]


SEQUENCES = [
    "np.array(object=[a, 1.0])", "np.array(object=np.array([a, 1.0]))", "np.array(Q([a, 1.0], maxlen=3))",
    "np.array([Q([a, 1.0]), U([b, 2.0])])", "np.array(Q([U([a, 1.0]), Pair(b, 2.0)]))", "np.array([range(2), [a, b]])",
    "np.array([array('f', [1.0, 2.0]), [a, b]])", "np.asarray(a=Q([a, 1.0]))", "np.asanyarray(U([a, 1.0]))",
    "np.ascontiguousarray(Pair(a, 1.0))", "np.fromiter(Q([a, 1.0]), float)", "np.require(Q([a, 1.0]), float, 'C')",
    "np.sum(Q([a, 1.0]))", "np.mean(U([a, 1.0]))", "np.max(Pair(a, b))", "np.sqrt(Q([a, b]))",
    "np.add(Q([a, b]), U([1.0, b]))", "np.array([a, b]) + U([1.0, b])", "Pair(1.0, b) * np.array([a, b])",
    "np.array([a, b]) @ Q([1.0, b])", "np.add.reduce(Q([a, b]))", "np.multiply.outer(U([a, b]), Pair(a, b))",
    "np.vstack(Q([Q([a, b]), U([1.0, 2.0])]))", "np.hstack(Pair(a, b))", "np.stack(U([Pair(a, b), [a, b]]))",
    "np.einsum('i,i', Q([a, b]), U([1.0, b]))", "np.where(Q([True, False]), Q([a, b]), a)", "np.block([Q([a, b])])",
    "np.linalg.det(Q([Q([a, b]), U([b, 1.0])]))", "np.full(2, Q([a, b]))", "np.pad(Q([a, b]), 1)",
    "np.linspace(Q([a, b]), 9.0, 3)", "np.interp(Q([a]), [0.0, 9.0], U([b, 1.0]))", "np.r_[Q([a, b]), 1.0]",
    "np.c_[Q([a, b]), [1.0, 2.0]]", "np.clip(Q([a, b]), 0, U([1.0, b]))", "np.float64(Q([a, b]))",
    "put(np.zeros((2, 2)), [Q([a, b]), U([b, a])])", "put(np.array([a, b]), U([1.0, b]))",
]  # fmt: skip


@pytest.mark.parametrize("call", SEQUENCES)
def test_other_sequences_are_lists(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    f = function(f"""
        def put(z, v):
            z[...] = v
            return z
        def f(a, b):
            y = {call}
            return np.sum(y**2 * (1.0 + np.arange(y.size).reshape(y.shape)))
    """, Q=collections.deque, U=collections.UserList, Pair=Pair, array=array)
    rounds(f, (1.5, 2.0), (2.5, 3.0), (3.0, 4.5))
    for a in (1.5, 2.5, 3.5, 4.5):
        assert_allclose(jit(f)(a, 2.0), f(a, 2.0), rtol=1e-12)
        h = 1e-5
        slope = (gradient(f)(a + h, 2.0) - gradient(f)(a - h, 2.0)) / (2 * h)
        assert_allclose(gradient(gradient(f))(a, 2.0), slope, rtol=1e-7, atol=1e-7)


class Table:
    """Has a length, and items under names only: NumPy takes it for an object."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, name: str) -> Any:
        return {"a": 1.0, "b": 2.0}[name]


def test_what_has_no_items_to_go_through_is_no_list() -> None:
    for x in (1.0, 2.0, 3.0, 4.0):
        assert grad(lambda x, t: x * (1 + np.ndim(t)), x, Table()) == (x, (1.0, None))
        with pytest.raises(LostDerivativeError, match="dtype object would be made of traced values"):
            grad(lambda x: np.array([x, Table()])[0], x)


UNEVEN = ["np.array([x, x[:2]])", "np.array([[x[0], 1.0], [x[0]]])", "np.sum([[x[0]], x[1]])", "np.sqrt([x, [x[0]]])"]


@pytest.mark.parametrize("call", UNEVEN)
def test_rows_of_several_shapes(call: str) -> None:
    f = function(f"def f(x): return np.sum({call})")
    with pytest.raises(ValueError, match="inhomogeneous shape") as plain:
        f(X)
    for call_traced in (grad, lambda f, x: jit(f)(x)):
        with pytest.raises(ValueError, match=re.escape(str(plain.value))):
            call_traced(f, X)


@pytest.mark.parametrize("call", ["[x, None]", "[x, 1.0], dtype=object", "[x, 'a']", "[x, 1.0], dtype=str"])
def test_arrays_of_something_else_than_numbers(call: str) -> None:
    f = function(f"def f(x): np.array({call}); return x")
    with pytest.raises(LostDerivativeError, match=r"an array of dtype .* would be made of traced values"):
        grad(f, 2.0)


# Of numbers ``a`` and ``b``, which ``s`` and ``t`` are lists of.
RAISING = [
    "np.put(s, 0, 9.0)", "np.put(s, [0], a)", "np.put([0.0, 1.0], 0, a)", "np.put(np.array(s), [5], [a])",
    "np.put(a, [0], [b])",
    "np.copyto(s, 1.0)", "np.copyto(tuple(s), [b, a])", "np.copyto(dst=s, src=a)", "np.copyto([0.0, 0.0], s)",
    "np.fill_diagonal([s, s], 1.0)", "np.fill_diagonal([[0.0]], a)", "np.putmask(s, [True, False], 9.0)",
    "np.putmask([0.0, 1.0], [True, False], a)", "np.place(s, [True, False], [9.0])",
    "np.place([0.0, 1.0], [True, False], [a])", "np.put_along_axis(s, np.array([0]), 9.0, 0)",
    "np.put_along_axis(np.array(s), [0], 9.0, 0)", "np.put_along_axis([0.0, 1.0], np.array([0]), a, 0)",
    "np.add.at(s, 0, 1.0)", "np.add.at(s, 0, a)", "np.add.at([0.0, 1.0], [0], [a])", "np.add.at(a, 0, 1.0)",
    "np.negative.at(s, 0)", "np.split(s, 2)", "np.hsplit(s, 2)", "np.vsplit([s, s], 2)", "np.dsplit([[s, s]], 2)",
    "np.take_along_axis(s, np.array([0, 1]), 0)", "np.take_along_axis(np.array(s), [0, 1], 0)",
    "np.rollaxis([s, s], 1)", "np.unstack(s)", "np.astype(s, float)", "np.nan_to_num(s, copy=False)",
    "np.result_type(s)", "np.common_type(s)", "np.add(a, 1.0, 2.0)", "np.add(a, 1.0, b)",
    "np.add(s, 1.0, out=[0.0, 0.0])", "np.add(s, 1.0, out=s)", "np.add(np.array(s), 1.0, s)",
    "np.add.reduce(s, out=[0.0])", "np.add.reduce(np.array(s), 0, None, 2.0)", "np.modf(s, out=([0.0], [1.0]))",
    "np.add.accumulate(np.array(s), out=s)", "np.add.outer(s, s, out=[0.0, 0.0])", "np.sum(s, out=[0.0])",
    "np.sum(np.array(s), out=b)", "np.array(s).sum(out=[0.0])", "np.cumsum(s, out=[0.0, 1.0])",
    "np.clip(s, 0, 1, out=[0.0, 1.0])", "np.clip(s, 0, 1, out=s, casting='unsafe')", "np.concatenate([s, s], out=s)",
    "np.dot(s, s, out=[0.0])", "np.matmul(s, s, out=[0.0])", "np.median(s, out=[0.0])", "np.argmax(s, out=[0.0])",
]  # fmt: skip


@pytest.mark.parametrize("line", RAISING)
def test_where_numpy_takes_no_lists(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises of traced numbers in lists what it raises of plain ones."""
    f = function(f"""
        def f(a, b):
            s = [a, b]
            try:
                {line}
            except Exception as error:
                return s[0] * s[1], (type(error), str(error))
            return None
    """)
    monkeypatch.setattr(config, "compile", "always")
    alone = value_and_grad(lambda a, b: f(a, b)[0])
    for a, b in [(2.0, 3.0), (4.0, 3.0), (4.0, 5.0), (2.0, 3.0)]:
        wanted = f(a, b)
        assert value_and_grad(f, has_aux=True)(a, b) == (wanted, b)
        assert alone(a, b) == (a * b, b) and jit(f)(a, b) == wanted


def test_functions_kept_as_values_are_refused_with_a_hint() -> None:
    functions = {"exp": np.exp, "reshape": np.reshape}
    for f in (lambda x: np.sum(functions["exp"]([x, x])), lambda x: functions["reshape"]([x, x], (2, 1))[0, 0]):
        with pytest.raises(LostDerivativeError, match=r"\(np.array\(\[...\]\)"):
            grad(f, 2.0)


def test_keywords_without_a_rule() -> None:
    @primitive
    def scaled(x: float, *, by: float) -> float:
        return x * by

    for x in (2.0, 3.0):
        assert grad(lambda x: scaled(2.0, by=x), x) == (2.0 * x, (2.0,))  # as its body says


def test_a_primitive_that_reads_what_is_not_passed() -> None:
    source = "def f(x): return np.sum(scaled(x))\nrate = 2.0\n@primitive\ndef scaled(x): return rate * x"
    space = {"np": np, "primitive": primitive}
    for x in (X, 2.0):
        exec(source, space)
        scalar_rule(space["scaled"], 2.0)
        with pytest.warns(UncachedWarning, match="a primitive reads numbers or arrays that are not among"):
            for rate in range(12):
                space["rate"] = float(rate)
                grad(space["f"], x)


def test_products_of_matrices_of_lists() -> None:
    for x in (2.0, 3.0, 4.0):
        assert grad(lambda x: np.matmul([x, 2 * x], [x, 1.0]), x) == (x * x + 2 * x, (2 * x + 2,))


def test_arrays_are_not_said_to_be_lists() -> None:
    with pytest.raises(MissingRuleError, match=r"np.nditer has no derivative rule. Loop over x.ravel\(\), or zip"):
        grad(lambda x: next(a * b for a, b in np.nditer([x, x])), X)


@pytest.mark.parametrize("compile_", ["auto", "always"])
def test_whether_all_is_finite_is_a_decision(compile_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", compile_)

    def f(x: Any, a: float) -> Any:
        try:
            return np.sum(np.asarray_chkfinite(np.where(x > a, np.inf, x * x)))
        except ValueError as error:
            assert str(error) == "array must not contain infs or NaNs"
            return np.sum(x) * a

    step = jit(f)
    for a in [2.0, 1.0, 3.0, 1.5, 2.0, 1.0]:
        value, (dx, da) = grad(f, X, a)
        finite = a >= X.max()
        assert_allclose(value, f(X, a))
        assert_allclose(step(X, a), f(X, a))
        assert_allclose(dx, 2 * X if finite else np.full(3, a))
        assert_allclose(da, 0.0 if finite else X.sum())
