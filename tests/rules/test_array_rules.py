"""Rules of reductions, shapes and indexing: what the generic test cases do not show."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import yota_py.rules
from yota_py.rules.indices import unindex

import yota_py
from yota_py.capture.recording import record_call
from yota_py.errors import GuardError, MissingRuleError
from yota_py.passes.lower import lower
from yota_py.registry.applied import apply_rule
from yota_py.registry.registry import primitive_of
from yota_py.reverse.verbs import differentiate
from yota_py.tape.operations import Call, Guard, substitute
from yota_py.testing.checks import check_grads

rng = np.random.default_rng(7)


def gradients(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The gradients of a scalar function, from its gradient tape."""
    out = differentiate(record_call(f, args, {}))
    return [substitute(result, out.__getitem__) for result in out.tape.results][1:]


def gradient(f: Callable[..., Any], x: Any) -> Any:
    """The gradient with respect to one argument."""
    return gradients(f, x)[0]


def pulled(fn: Any, *args: Any, dy: Any, **kwargs: Any) -> Any:
    """The cotangents that the rule of ``fn`` gives."""
    return apply_rule(fn, args, kwargs, None)[1](dy)


def lowered(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The functions that are called on the lowered gradient tape."""
    tape = lower(differentiate(record_call(f, args, {}))).tape
    return [op.fn for op in tape.ops if isinstance(op, Call)]


# ----------------------------------------------------------------------------------------- reductions


def test_sum_spreads_without_copying() -> None:
    (dx,) = pulled(np.sum, np.ones((3, 4)), dy=np.float64(2.0))
    assert dx.shape == (3, 4) and dx.strides == (0, 0)


@pytest.mark.parametrize("fn", [np.sum, np.mean, np.max, np.prod, np.var, np.std, np.median, np.cumsum])
@pytest.mark.parametrize("options", [{}, {"axis": 0}])
def test_float32_stays(fn: Any, options: dict[str, Any]) -> None:
    x = np.array([[1.0, 2.0], [4.0, 3.0]], np.float32)
    y, pullback = apply_rule(fn, (x,), options, None)
    assert y.dtype == fn(x, **options).dtype == np.float32
    assert pullback(np.ones_like(y))[0].dtype == np.float32


def test_mean_of_integers_and_bools_is_float() -> None:
    for x in (np.arange(6).reshape(2, 3), np.array([True, False])):
        y, _ = apply_rule(np.mean, (x,), {}, None)
        assert type(y) is np.float64 and y == np.mean(x)


def test_mean_of_half_precision_sums_in_single() -> None:
    x = np.full(5000, 100, np.float16)
    y, _ = apply_rule(np.mean, (x,), {}, None)
    assert y.dtype == np.float16 and y == 100


@pytest.mark.parametrize("fn", [np.max, np.min])
def test_ties_share_equally(fn: Any) -> None:
    x = np.array([[1.0, 5.0, 5.0], [2.0, 2.0, 2.0]])
    x = x if fn is np.max else -x
    np.testing.assert_allclose(pulled(fn, x, dy=np.array([6.0, 3.0]), axis=1)[0], [[0, 3, 3], [1, 1, 1]])
    np.testing.assert_allclose(pulled(np.ptp, x, dy=1.0)[0].sum(), 0, atol=1e-15)


def test_the_initial_value_is_a_tie_too() -> None:
    dx, *_, dinitial = pulled(np.max, np.array([1.0, 3.0]), None, None, False, 3.0, dy=1.0)
    np.testing.assert_allclose(dx, [0, 0.5])
    assert dinitial == 0.5


def test_maximum_with_nan_is_finite_and_silent() -> None:
    assert np.isfinite(gradient(np.max, np.array([1.0, np.nan, 2.0]))).all()


@pytest.mark.parametrize(
    ("x", "expected"), [([2.0, 0.0, 3.0], [0, 6, 0]), ([0.0, 0.0, 3.0], [0, 0, 0]), ([2.0, 3.0, 4.0], [12, 8, 6])]
)
def test_prod_with_zeros(x: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(gradient(np.prod, np.array(x)), expected)
    np.testing.assert_allclose(gradient(lambda v: np.cumprod(v)[-1], np.array(x)), expected)


def test_second_derivative_of_prod_with_two_zeros() -> None:
    x = np.array([0.0, 0.0, 3.0])
    row = gradient(lambda v: gradient(np.prod, v)[0], x)  # d prod / dv0 = v1 v2
    np.testing.assert_allclose(row, [0, 3, 0])


def test_std_of_equal_elements_is_flat() -> None:
    np.testing.assert_array_equal(gradient(np.std, np.ones(4)), np.zeros(4))


def test_compositions_lower_to_sums_and_arithmetic() -> None:
    w = np.array([1.0, 2.0, 3.0])
    for f in (np.mean, np.var, np.std, np.ptp, lambda x: np.average(x, weights=w), np.linalg.norm, np.trapezoid):
        fns = lowered(f, np.array([1.0, 5.0, 2.0]))
        assert all(primitive_of(fn).kernel is not None for fn in fns), [fn.__name__ for fn in fns]


def test_mean_of_nothing_warns_as_numpy_does() -> None:
    with pytest.warns(RuntimeWarning):
        np.mean(np.ones((0,)))
    with pytest.warns(RuntimeWarning):
        apply_rule(np.mean, (np.ones((0,)),), {}, None)


def test_median_takes_the_middle_and_quantiles_their_neighbours() -> None:
    np.testing.assert_array_equal(gradient(np.median, np.array([3.0, 1.0, 2.0])), [0, 0, 1])
    np.testing.assert_array_equal(gradient(np.median, np.array([3.0, 1.0, 2.0, 9.0])), [0.5, 0, 0.5, 0])
    x = np.array([0.0, 10.0, 20.0])
    dx, dq = gradients(np.quantile, x, 0.25)
    np.testing.assert_allclose(dx, [0.5, 0.5, 0])
    assert dq == pytest.approx(20.0)


def test_functions_of_nans_leave_them_out() -> None:
    x = np.array([1.0, np.nan, 3.0])
    np.testing.assert_array_equal(gradient(np.nansum, x), [1, 0, 1])
    np.testing.assert_array_equal(gradient(np.nanmean, x), [0.5, 0, 0.5])
    np.testing.assert_array_equal(gradient(np.nanmax, x), [0, 0, 1])


def test_unknown_keyword_names_the_function() -> None:
    with pytest.raises(MissingRuleError, match=r"einsum does not take these arguments"):
        gradient(lambda x: np.einsum("i,i", x, x, casting="unsafe"), np.ones(3))
    with pytest.raises(MissingRuleError, match="reduced"):
        gradient(lambda x: np.sum(np.linalg.qr(np.outer(x, x) + np.eye(3), mode="raw")[0]), np.ones(3))


# ------------------------------------------------------------------------------------- shapes, joining


def test_both_forms_of_reshape_and_transpose() -> None:
    x = rng.normal(size=(2, 3, 4))
    for f in (
        lambda v: v.reshape(4, 6), lambda v: v.reshape((4, 6)), lambda v: v.reshape(-1),
        lambda v: v.reshape(6, -1, order="F"),
        lambda v: v.transpose(), lambda v: v.transpose(1, 2, 0), lambda v: v.transpose((1, 2, 0)),
        lambda v: v.transpose(None),
        lambda v: v.T, lambda v: v.mT, lambda v: v.flatten(), lambda v: v.ravel(), lambda v: v.swapaxes(0, 1),
        lambda v: v[:1].squeeze(), lambda v: v.repeat(2, axis=1), lambda v: v.flat[3], lambda v: v.dot(np.ones(4)),
    ):  # fmt: skip
        check_grads(f, x, second_order=False)


def test_methods_of_reductions() -> None:
    x = np.array([[3.0, 1.0, 2.0], [0.0, 6.0, 5.0]])
    for f in (
        lambda v: v.sum(0), lambda v: v.mean(axis=1), lambda v: v.max(), lambda v: v.min(1), lambda v: v.prod(axis=0),
        lambda v: v.std(),
        lambda v: v.var(0, ddof=1), lambda v: v.cumsum(1), lambda v: v.cumprod(), lambda v: v.take([0, 0], axis=1),
        lambda v: v.trace(),
        lambda v: v.diagonal(), lambda v: v[0, v.argmax(axis=1)], lambda v: v[:, 0].item(1), lambda v: v[:1, :1].item(),
    ):  # fmt: skip
        check_grads(f, x, second_order=False)


def test_order_in_memory_stands_for_one_of_axes() -> None:
    weights = np.arange(6.0)
    for order, want in (("A", [[0, 2, 4], [1, 3, 5]]), ("C", [[0, 1, 2], [3, 4, 5]])):
        x = np.asfortranarray(np.ones((2, 3)))
        dx = gradient(lambda x: np.sum(np.reshape(x, 6, order=order) * weights), x)  # noqa: B023
        np.testing.assert_array_equal(dx, want)
    with pytest.raises(MissingRuleError, match=r"order='A'.*order='C' or 'F'"):
        pulled(np.reshape, np.ones((2, 3)), 6, "A", dy=np.ones(6))


def test_broadcasting_is_undone_in_shape_and_dtype() -> None:
    x = np.ones((1, 3), np.float32)
    dx, _ = pulled(np.broadcast_to, x, (2, 3), dy=np.ones((2, 3)))
    assert dx.shape == (1, 3) and dx.dtype == np.float32 and (dx == 2).all()


def test_numbers_among_arrays() -> None:
    dx, dt = gradients(lambda x, t: np.sum(np.hstack([x, t, 2.0]) * np.array([1.0, 2.0, 3.0, 4.0])), np.ones(2), 5.0)
    np.testing.assert_array_equal(dx, [1, 2])
    assert dt == 3 and np.shape(dt) == ()


def test_an_array_in_the_place_of_a_list() -> None:
    x = rng.normal(size=(2, 3))
    for fn in (np.concatenate, np.stack, np.vstack, np.hstack, np.column_stack):
        check_grads(fn, x[..., None], second_order=False)


def test_joined_pieces_of_other_dtypes() -> None:
    a, b = np.ones(2, np.float32), np.ones(3)
    da, db = pulled(np.concatenate, (a, b, np.arange(2)), dy=np.ones(7))[0][:2]
    assert (da.dtype, db.dtype) == (np.float32, np.float64)


def test_pieces_that_are_not_used() -> None:
    np.testing.assert_array_equal(gradient(lambda x: np.sum(np.split(x, 3)[1]), np.ones(6)), [0, 0, 1, 1, 0, 0])
    np.testing.assert_array_equal(gradient(lambda x: np.split(x, [3, 1])[2].sum(), np.ones(4)), [0, 1, 1, 1])


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy takes no dict of widths before 2.4")
@pytest.mark.parametrize("mode", ["constant", "edge", "wrap"])
def test_padding_of_the_axes_that_a_dict_names(mode: str) -> None:
    for widths in ({1: (1, 2)}, {-1: 1}, {0: (2, 0), 1: 1}):
        check_grads(lambda x, widths=widths: np.pad(x, widths, mode), rng.normal(size=(2, 3)))


# ------------------------------------------------------------------------------------------- indexing


def test_repeated_indices_add_up() -> None:
    x = rng.normal(size=5)
    np.testing.assert_array_equal(gradient(lambda v: np.sum(v[[1, 1, 1, 4]]), x), [0, 3, 0, 0, 1])
    np.testing.assert_array_equal(gradient(lambda v: np.sum(np.take(v, [[0, 0], [-1, 0]])), x), [3, 0, 0, 0, 1])


@pytest.mark.parametrize(
    "index",
    [
        slice(None, None, -1), slice(3, None, -2), (slice(None), None, 1), (Ellipsis, 0), (None, Ellipsis, None),
        (-1, -1), (),
        np.array([], dtype=int), slice(3, 1), (np.array([0, 2, 0]), slice(None, None, -1)), (slice(0, 0), 1),
        (np.array([[True, False, False], [False, False, False], [False, True, True], [False, False, False]])),
        np.zeros((4, 3), bool), (np.array([True, False, True, True]), np.array([0, 0, 2])), ([0, 0], [1, 1]), True,
    ],
)  # fmt: skip
@pytest.mark.parametrize("layout", ["C", "F", "strided", "flipped", "broadcast"])
def test_every_index_of_every_layout(index: Any, layout: str) -> None:
    x = rng.normal(size=(4, 3))
    x = {
        "C": x, "F": np.asfortranarray(x), "strided": np.repeat(x, 2, axis=0)[::2], "flipped": x[::-1, ::-1],
        "broadcast": np.broadcast_to(x[:1], (4, 3)),
    }[layout]  # fmt: skip
    y, pullback = apply_rule(operator.getitem, (x, index), {}, None)
    np.testing.assert_array_equal(y, x[index])
    dx, _ = pullback(np.ones_like(y))
    expected = np.zeros((4, 3))
    np.add.at(expected, index, 1.0)
    np.testing.assert_array_equal(dx, expected)


def test_unindex_adds_or_assigns() -> None:
    np.testing.assert_array_equal(unindex(np.ones(2), slice(1, 3), (4,)), [0, 1, 1, 0])
    np.testing.assert_array_equal(unindex(np.ones(3, np.float32), np.array([1, 1, 0]), (2,)), [1, 2])
    assert unindex(np.ones(3, np.float32), [1, 1, 0], (2,)).dtype == np.float32


def test_a_mask_of_values_is_guarded() -> None:
    trace = record_call(lambda x: np.sum(np.sort(x[x > 0]) ** 2), (np.array([1.0, -2.0, 3.0]),), {})
    assert any(isinstance(op, Guard) for op in trace.tape.ops)
    assert trace.tape.play(np.array([2.0, -1.0, 1.0])) == 5.0
    with pytest.raises(GuardError):
        trace.tape.play(np.array([2.0, 1.0, 1.0]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[np.nonzero(x > 0)], lambda x: x[np.flatnonzero(x > 0)], lambda x: np.compress(x > 0, x),
        lambda x: np.extract(x > 0, x),
        lambda x: np.delete(x, x < 0), lambda x: x[(x > 0).nonzero()], lambda x: x[np.argwhere(x > 0)[:, 0]],
        lambda x: x[x > 0],
        lambda x: x[np.where(x > 0)],
    ],
)  # fmt: skip
def test_shapes_that_depend_on_values_are_guarded(f: Any) -> None:
    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(gradient(lambda v: np.sum(f(v)), x), [1, 0, 1])
    trace = record_call(f, (x,), {})
    np.testing.assert_array_equal(trace.tape.play(x + 0.5), f(x + 0.5))
    with pytest.raises(GuardError):
        trace.tape.play(np.array([1.0, 2.0, 3.0]))
    nested = gradient(lambda v: np.sum(gradient(lambda u: np.sum(f(u) ** 3), v)), x)
    np.testing.assert_allclose(nested, [6, 0, 18])


def test_unique_keeps_one_nan_and_the_first_of_equals() -> None:
    x = np.array([2.0, np.nan, 1.0, 2.0, np.nan])
    seen = record_call(np.unique, (x,), {}).tape.play(x)
    np.testing.assert_array_equal(seen, np.unique(x))
    np.testing.assert_array_equal(gradient(lambda v: np.sum(np.unique(v)[:2]), x), [1, 0, 1, 0, 0])
    np.testing.assert_array_equal(gradient(lambda v: np.nansum(np.unique(v, equal_nan=False)[-3:]), x), [1, 0, 0, 0, 0])


def test_traced_integers_as_indices() -> None:
    x, i = rng.normal(size=(3, 4)), np.array([2, 0, 2])
    dx, di = gradients(lambda v, k: np.sum(v[k] * v[0, k[0]]), x, i)
    assert di is None
    check_grads(lambda v: v[i] * v[0, i[0]], x)
    assert dx.shape == x.shape
    np.testing.assert_array_equal(gradient(lambda v: v[np.argmax(v)], np.array([1.0, 5.0, 2.0])), [0, 1, 0])


def test_sorting_is_stable() -> None:
    x = np.array([2.0, 1.0, 2.0, 1.0])
    (dx,) = pulled(np.sort, x, dy=np.array([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(dx, [3, 1, 4, 2])


@pytest.mark.parametrize(
    "f",
    [
        lambda x, n: np.repeat(x, n), lambda x, n: np.tile(x, n), lambda x, n: np.roll(x, n[0]), lambda x,
        n: np.pad(x, n),
        lambda x, n: np.concatenate(np.split(x, n)[1:]), lambda x, n: np.take(x, n - 1),
    ],
)  # fmt: skip
def test_traced_integers_as_counts(f: Any) -> None:
    x, n = rng.normal(size=2), np.array([1, 2])
    out = differentiate(record_call(lambda v, k: np.sum(f(v, k) ** 2), (x, n), {}))
    low = lower(out)
    for result, other in zip(out.tape.results[:2], low.tape.results[:2], strict=True):
        np.testing.assert_allclose(low[other], out[result])
    np.testing.assert_allclose(out[out.tape.results[1]], gradient(lambda v: np.sum(f(v, n) ** 2), x))


# ---------------------------------------------------------------------------------- arguments of all kinds


def test_wrong_keyword_says_where() -> None:
    with pytest.raises(MissingRuleError, match=r"^test_array_rules.py:\d+: the rule of sum does not take"):
        apply_rule(np.sum, (np.ones(2),), {"colour": "red"}, None)


def test_item_gives_python_numbers() -> None:
    kinds = []

    def f(x: Any) -> Any:
        kinds.append(isinstance(x[0].item(), float) and not isinstance(x[0].item(), np.floating))
        return x[0].item() * x.item(1)

    assert gradients(f, np.array([2.0, 3.0]))[0].tolist() == [3.0, 2.0]
    assert kinds == [True]


def test_bounds_of_clip_by_name() -> None:
    x, lo = np.array([-1.0, 0.5, 2.0]), np.array(-0.5)
    for f in (
        lambda x, lo: np.sum(np.clip(x, a_min=lo, a_max=1.0)),
        lambda x, lo: np.sum(x.clip(min=lo, max=1.0)),
        lambda x, lo: np.sum(np.clip(x, min=lo, max=1.0)),
        lambda x, lo: np.sum(np.clip(np.clip(x, min=lo), max=1.0)),
    ):
        dx, dlo = gradients(f, x, lo)
        assert dx.tolist() == [0.0, 1.0, 0.0] and dlo == 1.0


MASK, LEVEL = np.array([True, False, True]), np.array([0.0, 0.1, 0.2])


def test_captured_keyword_arguments() -> None:
    """Arrays that the function reads are traced; as keyword arguments they stay where they are."""
    x = np.array([0.5, 1.0, -2.0])
    assert gradient(lambda x: np.mean(x, where=MASK), x).tolist() == [0.5, 0.0, 0.5]
    assert gradient(lambda x: np.sum(x, where=MASK, initial=LEVEL[1]), x).tolist() == [1.0, 0.0, 1.0]
    assert gradient(lambda x: np.sum(np.nan_to_num(x, nan=LEVEL[1])), x).tolist() == [1.0, 1.0, 1.0]
    assert gradient(lambda x: np.sum(x.clip(min=LEVEL, max=0.6)), x).tolist() == [1.0, 0.0, 0.0]


def test_initial_and_fill_values_have_derivatives() -> None:
    assert gradients(lambda x, a: np.sum(x, initial=a), np.ones(2), 3.0)[1] == 1.0
    assert gradients(lambda x, a: np.max(x, initial=a), np.ones(2), 3.0)[1] == 1.0
    assert gradients(lambda x, a: np.sum(np.nan_to_num(x, nan=a)), np.array([np.nan, 1.0]), 3.0)[1] == 1.0


@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
def test_second_derivatives_of_products_with_zeros(x: list[float]) -> None:
    a = np.array(x)
    want = [[0.0 if i == j else np.prod(np.delete(a, [i, j])) for j in range(3)] for i in range(3)]
    have = [gradient(lambda x, i=i: yota_py.gradient(np.prod)(x)[i], a) for i in range(3)]
    np.testing.assert_array_equal(have, want)
