"""``x[mask]`` with masks that are other ones at each call: one program serves them all."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sets import each

from yota_py import explain, grad, gradient, jit
from yota_py.registry.registry import primitives

X, Y = np.random.default_rng(0).normal(size=(20, 4)), np.random.default_rng(1).normal(size=20)
Loss = Callable[[Any, Any], Any]


def _negative_ones_are_zero(w: Any, m: Any) -> Any:
    r = X @ w - Y
    r[r < 0] = 0
    return np.sum(r**2)


def _in_place(w: Any, m: Any) -> Any:
    r = X @ w - Y
    r[m] *= 2
    r[~m] += Y[~m]
    r[m & (r > 0)] = 0.5
    return np.sum(r**3)


def _put_together(w: Any, m: Any) -> Any:
    r, z = np.zeros(20), X @ w
    r[m] = z[m]
    r[~m] = np.sin(z[~m])
    return np.sum(r**2)


def _columns(w: Any, m: Any) -> Any:
    table = X * w
    table[m] = w  # a row
    table[~m, ...] = 1.5
    return np.sum(table**3)


def _mask_changes(w: Any, m: Any) -> Any:
    z, m = X @ w, m.copy()
    chosen = z[m]
    m[:] = False
    z *= 3
    return np.sum(chosen**2) + np.sum(z)


PROGRAMS: dict[str, Loss] = {
    "squares": lambda w, m: np.sum((X @ w - Y)[m] ** 2),
    "two selections": lambda w, m: np.mean(((X @ w)[m] - Y[m]) ** 2),
    "of values": lambda w, m: np.sum((X @ w)[X @ w > 0] ** 2),
    "logarithm": lambda w, m: np.sum(np.log((X @ w)[X @ w > 0])),
    "extrema": lambda w, m: np.max((X @ w)[m]) - 2 * np.min((X @ w)[m]),
    "product": lambda w, m: np.prod(1 + 0.1 * (X @ w)[m]),
    "rows": lambda w, m: np.sum((X[m] @ w - Y[m]) ** 2),
    "rows and matrix": lambda w, m: np.sum(np.tanh(X[m] @ np.outer(w, w)) ** 2),
    "elements of a matrix": lambda w, m: np.sum((X * w)[X * w > 0.1] ** 2),
    "sums of rows": lambda w, m: np.sum(np.sum((X * w)[m], axis=1) ** 2),
    "means of columns": lambda w, m: np.sum(np.mean((X * w)[m], axis=0) ** 2),
    "column": lambda w, m: np.sum((X * w)[m][:, 1] ** 2),
    "size": lambda w, m: np.sum((X @ w)[m] ** 2) / Y[m].size,
    "shape": lambda w, m: np.sum((X @ w)[m] ** 2) / X[m].shape[0],
    "sum of mask": lambda w, m: np.sum((X @ w)[m] ** 2) / m.sum(),
    "scalar product": lambda w, m: (X @ w - Y)[m] @ (X @ w - Y)[m],
    "copy": lambda w, m: np.sum((X @ w)[m].copy() ** 3),
    "method": lambda w, m: ((X @ w)[m] ** 2).sum(),
    "complement": lambda w, m: -np.sum((X @ w)[~m] ** 2),
    "the same mask twice": lambda w, m: np.sum((X @ w)[~np.isnan(np.where(m, Y, np.nan))]
                                               * np.where(m, Y, np.nan)[~np.isnan(np.where(m, Y, np.nan))]),
    "choice": lambda w, m: np.sum(np.where((X @ w)[m] > 0, (X @ w)[m], w[0])),
    "numbers and rows": lambda w, m: np.sum((w * X[m] + w[0]) ** 2),
    "in place": _in_place,
    "assignment": _negative_ones_are_zero,
    "put together": _put_together,
    "columns": _columns,
    "mask changes": _mask_changes,
}  # fmt: skip
DECIDED: dict[str, Loss] = {  # on the number of elements, or on the mask
    "length": lambda w, m: np.sum((X @ w)[m] ** 2) / len(Y[m]),
    "element": lambda w, m: (X @ w)[m][0] ** 2 + (X @ w)[m][-1],
    "sorted": lambda w, m: np.sort((X @ w)[m])[1] ** 2,
    "other vector": lambda w, m: np.sum((X @ w)[m][:5] * np.arange(5.0)),
    "other mask": lambda w, m: np.sum((X @ w)[m][:5] * (X @ w)[~m | (Y > 9) | m][:5]),
    "returned in a list": lambda w, m: sum(v * v for v in (X @ w)[m]),
    "stacked": lambda w, m: np.sum(np.stack([(X @ w)[m], Y[m]]) ** 2),
    "written": lambda w, m: _written(w, m),
    "assigned from an array": lambda w, m: _assigned(w, m),
}


def _written(w: Any, m: Any) -> Any:
    z = (X @ w)[m]
    z[0] = 2 * w[1]
    return np.sum(z**2)


def _assigned(w: Any, m: Any) -> Any:
    z = X @ w
    z[m] = np.arange(float(m.sum())) * w[0]
    return np.sum(z**2)


def _arguments(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    m = rng.random(20) > 0.3
    m[n] = True
    return rng.normal(size=4), m


@pytest.mark.parametrize("name", [*PROGRAMS, *DECIDED])
def test_values_and_derivatives(name: str) -> None:
    loss = (PROGRAMS | DECIDED)[name]
    compiled = jit(loss)
    e = np.random.default_rng(9).normal(size=4)
    for n in range(5):
        w, m = _arguments(n)
        v, (dw, _) = grad(loss, w, m)
        assert_allclose(v, loss(w, m), rtol=1e-12)
        assert_allclose(compiled(w, m), v, rtol=1e-12)
        assert_allclose(dw @ e, (loss(w + 1e-6 * e, m) - loss(w - 1e-6 * e, m)) / 2e-6, rtol=1e-5, atol=1e-7)
        _, (d2w, _) = grad(lambda w, m: gradient(loss)(w, m) @ e, w, m)
        numeric = (gradient(loss)(w + 1e-6 * e, m) - gradient(loss)(w - 1e-6 * e, m)) @ e / 2e-6
        assert_allclose(d2w @ e, numeric, rtol=1e-4, atol=1e-6)
    assert explain(loss)[0].misses == 1 or name in DECIDED, explain(loss)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_nothing_and_all(name: str, share: float) -> None:
    loss, w, m = PROGRAMS[name], np.full(4, 0.4), np.full(20, bool(share))
    for mask in (_arguments(1)[1], m, m):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                want = loss(w, mask)
            except ValueError as error:
                with pytest.raises(ValueError, match=str(error)):
                    grad(loss, w, mask)
            else:
                assert_allclose(grad(loss, w, mask)[0], want, rtol=1e-12)


@pytest.mark.parametrize(("i", "bad"), [*enumerate([np.nan, np.inf, -1.0, 0.0])])
def test_what_is_not_selected_has_no_influence(i: int, bad: float) -> None:
    """Neither values that are missing, nor those at which a function or its slope is not defined."""
    mask = np.array([True, False, True, True, False])
    rows = np.where(mask[:, None], np.arange(10.0).reshape(5, 2) / 10 + 0.1, bad)
    ufuncs = [p.fn for p in primitives() if type(p.fn) is np.ufunc and p.rule and p.fn.nin <= 2 and hasattr(np, p.name)]
    known = [f for f in ufuncs if f.nout == 1 and f.signature is None and "dd->d"[2 - f.nin :] in f.types]
    assert len(known) > 40
    for f in each(known, 2, first=i):

        def loss(w: Any, x: Any, m: Any, f: Any = f) -> Any:
            z = x[m][:, 0] * w[0] + x[m][:, 1] * w[1] + 0.05
            return np.sum(f(z) if f.nin == 1 else f(z, 0.5 * z))

        w = np.array([0.3, 0.4])
        with np.errstate(all="ignore"):
            value, (dw, _, _) = grad(loss, w, rows, mask)
            want, (dwant, _, _) = grad(loss, w, rows[mask], mask[mask])
        assert_allclose(value, want, rtol=1e-12, err_msg=str(f))
        assert_allclose(dw, dwant, rtol=1e-12, err_msg=str(f))
    assert np.all(np.isfinite(grad(lambda w, x, m: np.sum((x[m] @ w) ** 2), w, rows, mask)[1][0]))


def test_selections_that_are_handed_out() -> None:
    f = jit(lambda x, m: (x[m] * 2, [x[~m]], x[m].copy()))
    for n in range(4):
        w, m = np.arange(20.0), _arguments(n)[1]
        a, (b,), c = f(w, m)
        assert_array_equal(a, w[m] * 2)
        assert_array_equal(b, w[~m])
        assert_array_equal(c, w[m])
        assert a.flags.writeable and a.base is None


def test_dtypes_are_those_of_numpy() -> None:
    m = np.array([True, False, True])
    for dtype in (np.float32, np.float64, np.complex64, np.int8, np.uint16, bool):
        x = np.array([1, 0, 1], dtype)
        for f in (lambda x, m: np.sum(x[m]), lambda x, m: x[m] + 1, lambda x, m: np.mean(x[m]),
                  lambda x, m: np.prod(x[m] * x[m]), lambda x, m: np.where(m, x[m][0], x)):  # fmt: skip
            for _ in range(3):
                have, want = jit(f)(x, m), f(x, m)
                assert_allclose(have, want)
                assert (np.result_type(have), type(have)) == (np.result_type(want), type(want))


def test_warnings_are_those_of_the_elements() -> None:
    x, m = np.array([1.0, -1.0, 4.0]), np.array([True, False, True])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert grad(lambda x, m: np.sum(np.log(x[m])), x, m)[0] == np.log(4.0)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        grad(lambda x, m: np.sum(np.log(x[m])), np.array([0.0, 1.0, 4.0]), m)


def test_masks_of_wrong_shapes() -> None:
    for m in (np.ones(3, bool), np.ones((4, 2), bool)):
        for f in (lambda x, m: np.sum(x[m]), lambda x, m: x.__setitem__(m, 0.0)):
            with pytest.raises(IndexError, match="boolean index"):
                grad(lambda x, m, f=f: f(x * 1, m), np.ones((4, 3)), m)


def test_inner_and_outer_functions() -> None:
    def outer(w: Any, m: Any) -> Any:
        z = X @ w
        return np.sum(gradient(lambda v: np.sum(z[m] ** 2 * v[m] ** 2))(z) ** 2) + np.sum(z[m])

    for n in range(3):
        w, m = _arguments(n)
        z = X @ w
        dz = np.where(m, 24 * z**5 + 1, 0)  # of (2 z^3)^2
        assert_allclose(grad(outer, w, m)[1][0], X.T @ dz)


def test_few_of_many_are_taken_out() -> None:
    x = np.arange(5000.0)
    for n in range(3):
        m = x == n + 1.0
        assert_allclose(grad(lambda x, m: np.sum(x[m] ** 2), x, m)[1][0], np.where(m, 2 * x, 0))


def _in_lists(x: Any) -> Any:
    s = x[x > 0].size
    return x[0] * ((s > 1) + (s > 2)) + x[1] * s**-1 + x[0] * -(s > 1) + pow(s, 2, 5) + isinstance(s, int)


SIZES: dict[str, Callable[[Any], Any]] = {
    "weak": lambda x: x[0] * x[x > 0].size + np.sum(x / x[x > 0].shape[0]),
    "quotient": lambda x: 1 / x[x > 9].size * x[0],
    "whole quotient": lambda x: x[0] * (x[x > 9].size // 0),
    "large": lambda x: x[0] * float((x[x > 0].size + 2) ** 20),
    "bytes": lambda x: x[0] * x[x > 0].nbytes,
    "in lists": _in_lists,
    "made of them": lambda x: np.sum(x[x > 0] / np.full(x[x > 0].size, 2.0)) + np.sum(np.zeros(x[x > 0].shape)),
    "handed out": lambda x: x[x > 0].size,
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.filterwarnings("ignore::yota_py.UncachedWarning")
def test_numbers_of_elements_are_pythons(name: str) -> None:
    f = SIZES[name]
    for dtype in (np.float32, np.float64):
        for n in range(3):
            x = np.array([1.0, -2.0, 3.0, n - 1.5], dtype)
            try:
                want = f(x)
            except ZeroDivisionError:
                with pytest.raises(ZeroDivisionError):
                    jit(f)(x)
            else:
                have = jit(f)(x)
                assert type(have) is type(want), (have, want)
                assert_allclose(have, want, rtol=1e-6)


@pytest.mark.parametrize("copied", [
    lambda x: np.array(x[x > 0]), lambda x: np.array(x[x > 0], order="F", ndmin=2), lambda x: np.copy(x[x > 0]),
    lambda x: np.asarray(x[x > 0], copy=True), lambda x: x[x > 0].astype(np.float64, order="F"),
    lambda x: x[x > 0].copy("F"), lambda x: np.where(x[x > 0] > 0.75, x[x > 0], 0.5),
])  # fmt: skip
def test_copies(copied: Any) -> None:
    for n in range(3):
        x = np.array([1.0, -2.0, 3.0, n - 1.5])
        value, (dx,) = grad(lambda x: np.sum(copied(x) ** 2), x)
        assert value == np.sum(copied(x) ** 2)
        e = np.array([1.0, -1.0, 0.5, 0.7]) * 1e-6
        assert_allclose(dx @ e, (np.sum(copied(x + e) ** 2) - np.sum(copied(x - e) ** 2)) / 2, rtol=1e-6)
        assert_array_equal(jit(copied)(x), copied(x))


@pytest.mark.parametrize("f", [
    lambda x: x[x > 2].item() ** 2, lambda x: np.sum(x[x > 0] * np.ones_like(x[x > 0])),
    lambda x: np.sum(x[x > 0] + np.zeros_like(x[x > 0])), lambda x: np.sum(x[x > 0] * np.full_like(x[x > 0], 2.0)),
    lambda x: np.vdot(x[x > 0], x[x > 0]), lambda x: np.inner(x[x > 0], x[x > 0]), lambda x: np.max(x[x > 0]) ** 2,
    lambda x: x[x > 0][np.argmax(x[x > 0])] ** 2, lambda x: np.sum(np.abs(x[x > 0])) + np.any(x[x > 0] > 2),
])  # fmt: skip
def test_functions_that_make_numbers_or_arrays_like_it(f: Any) -> None:
    for n in range(3):
        x, e = np.array([1.0, -2.0, 3.0]) + 0.1 * n, np.array([0.3, 0.7, -0.4]) * 1e-6
        value, (dx,) = grad(f, x)
        assert_allclose(value, f(x))
        assert_allclose(jit(f)(x), f(x))
        assert_allclose(dx @ e, (f(x + e) - f(x - e)) / 2, rtol=1e-6)


def test_masks_of_outer_functions() -> None:
    def mask_outside(x: Any, y: Any) -> Any:
        return np.sum(gradient(lambda z: np.sum(z[y > 0] ** 3))(x) ** 2)

    def values_outside(x: Any, y: Any) -> Any:
        return np.sum(gradient(lambda z: np.sum((y[z > 0] * z[z > 0]) ** 2))(x))

    for n in range(5):
        rng = np.random.default_rng(n)
        x, y = rng.normal(size=6), rng.normal(size=6)
        assert_allclose(grad(mask_outside, x, y)[1], [np.where(y > 0, 36 * x**3, 0), np.zeros(6)])
        assert_allclose(grad(values_outside, x, y)[1], [np.where(x > 0, 2 * y**2, 0), np.where(x > 0, 4 * x * y, 0)])
    assert explain(mask_outside)[0].misses == 1
    assert explain(values_outside)[0].misses <= 5 and not explain(values_outside)[0].problems


def test_columns_of_rows_are_views() -> None:
    @jit
    def handed_out(x: Any) -> Any:
        rows = x[x[:, 0] > 0]
        return rows, rows[:, 1]

    x = np.arange(12.0).reshape(4, 3) - 3
    for _ in range(3):
        rows, column = handed_out(x)
        assert column.base is rows and np.shares_memory(rows, column)


def test_comparisons_with_what_is_no_number() -> None:
    for _ in range(3):
        x = np.array([1.0, 2.0, 3.0])
        assert grad(lambda x: np.sum(x != None) * x[0] + np.sum(x == "a") * x[1], x)[0] == 3.0  # noqa: E711
        assert grad(lambda x: np.sum(None != x) * x[0] + np.sum(x != {}) * x[1], x)[0] == 9.0  # noqa: E711, SIM300
