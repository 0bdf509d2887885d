"""Rules at shapes, axes, indices and layouts that Hypothesis draws: compiled value and gradient, and NumPy's errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from sets import examples

from yota_py import grad, primitives

drawn = settings(derandomize=True, deadline=None, max_examples=examples(40), database=None)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.RankWarning")

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
FULL = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
LAYOUTS = st.sampled_from(["C", "F", "strided", "reversed", "read-only"])


def array(draw: Any, shape: tuple[int, ...], low: float = 0.1, high: float = 0.9) -> np.ndarray:
    """Distinct numbers of some range, so that differences cross no kink, as they may lie in memory."""
    size, layout = int(np.prod(shape)), draw(LAYOUTS)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    x = rng.permutation(np.linspace(low, high, size) if size > 1 else np.full(size, rng.uniform(low, high)))
    x = (x + rng.uniform(0, 0.2 * (high - low) / max(size, 1), size)).reshape(shape)
    if layout == "F":
        return np.asfortranarray(x)
    if layout == "strided" and x.ndim:
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if layout == "reversed" and x.ndim:
        return x[::-1].copy()[::-1]
    x.flags.writeable = layout != "read-only"
    return x


def total(y: Any) -> Any:
    """A number that depends on every element of what a function gives."""
    parts = y if isinstance(y, tuple | list) else [y]
    out = 0.0
    for i, part in enumerate(parts):
        weights = np.cos(np.arange(1.0 + i, 1.0 + i + np.size(part))).reshape(np.shape(part))
        out = out + np.sum(np.real(part) * weights)
        if np.iscomplexobj(part):
            out = out + np.sum(np.imag(part) * weights[..., ::-1] if np.ndim(part) else np.imag(part))
    return out


def check(f: Callable[..., Any], *args: Any) -> None:
    """Value and gradient along a direction, or the error that NumPy raises."""

    def loss(*xs: Any) -> Any:
        return total(f(*xs))

    try:
        want = loss(*args)
    except Exception as error:  # any: it is to be the same
        with pytest.raises(type(error)):
            grad(loss, *args)
        return
    first, _ = grad(loss, *args)  # which is traced; the others are compiled
    assert_allclose(first, want, rtol=1e-9, atol=1e-12)
    others = [x * 0.98 for x in args]
    assert_allclose(grad(loss, *others)[0], loss(*others), rtol=1e-9, atol=1e-12)
    value, grads = grad(loss, *args)
    assert_allclose(value, want, rtol=1e-9, atol=1e-12)
    assert [(np.shape(g), g.dtype) for g in grads] == [(np.shape(x), x.dtype) for x in args]
    if not np.isfinite(want):
        return
    rng = np.random.default_rng(0)
    vs = [rng.uniform(-1, 1, np.shape(x)) for x in args]
    slope = sum(float(np.sum(g * v)) for g, v in zip(grads, vs, strict=True))

    def along(h: float) -> Any:
        return loss(*(x + h * v for x, v in zip(args, vs, strict=True)))

    finite = [(along(h) - along(-h)) / (2 * h) for h in (1e-5, 1e-6)]
    scale = max(1e-2, *(float(np.sum(np.abs(g))) for g in grads))
    assert min(abs(d - slope) for d in finite) <= 1e-5 * scale, (finite, slope)


def ufuncs(nin: int) -> list[Any]:
    every = [p.fn for p in primitives() if isinstance(p.fn, np.ufunc) and hasattr(np, p.fn.__name__)]
    return sorted({f.__name__: f for f in every if f.nin == nin and not f.signature}.values(), key=lambda f: f.__name__)


@pytest.mark.parametrize("nin", [1, 2])
@drawn
@given(data=st.data())
def test_ufuncs(nin: int, data: Any) -> None:
    f = data.draw(st.sampled_from([f for f in ufuncs(nin) if any("d" in t.partition("->")[0] for t in f.types)]))
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=nin, max_dims=4, max_side=4, min_side=0))
    check(f, *(array(data.draw, shape, 0.1 + i, 0.87 + 2.3 * i) for i, shape in enumerate(shapes.input_shapes)))


def axes(draw: Any, ndim: int) -> Any:
    one = st.integers(-ndim - (draw(st.integers(0, 9)) == 0), max(ndim - 1, 0))
    return draw(st.one_of(st.none(), one, st.lists(one, max_size=2).map(tuple)))


REDUCTIONS = [
    np.sum, np.prod, np.max, np.min, np.mean, np.std, np.var, np.ptp, np.nansum, np.nanmax, np.median, np.nanmean,
    np.average, np.count_nonzero, np.linalg.norm, np.logaddexp.reduce, np.maximum.reduce, np.multiply.reduce, np.amax,
    np.nanprod, np.nanstd, np.nanmedian, np.any,
]  # fmt: skip
ALONG = [
    np.cumsum, np.cumprod, np.sort, np.flip, np.diff, np.argsort, np.argmax, np.nancumsum, np.unwrap, np.gradient,
    np.linalg.norm, np.logaddexp.accumulate, np.maximum.accumulate, np.fft.fft, np.fft.rfft, np.fft.irfft, np.fft.hfft,
    np.squeeze, np.expand_dims, np.trapezoid, np.argmin,
]  # fmt: skip


@pytest.mark.parametrize("functions", [REDUCTIONS, ALONG], ids=["reductions", "along"])
@drawn
@given(data=st.data())
def test_axes(functions: list[Any], data: Any) -> None:
    f, shape = data.draw(st.sampled_from(functions)), data.draw(SHAPES)
    if functions is REDUCTIONS:
        options = {"axis": axes(data.draw, len(shape)), "keepdims": data.draw(st.booleans())}
    else:
        options = {"axis": data.draw(st.integers(-len(shape) - 1, len(shape)))}
    check(lambda x: f(x, **options), array(data.draw, shape))


@st.composite
def changes_of_shape(draw: Any) -> tuple[Any, tuple[int, ...]]:
    shape = draw(SHAPES)
    n = len(shape)
    axis, other = draw(st.integers(-n, max(n - 1, 0))), draw(st.integers(-n, max(n - 1, 0)))
    k = draw(st.integers(-3, 3))
    order = draw(st.sampled_from("CFAK"))
    perm = draw(st.permutations(range(n)))
    reps = draw(st.lists(st.integers(0, 3), max_size=3))
    new = draw(st.permutations([*shape, 1]))
    return draw(st.sampled_from([
        lambda x: np.transpose(x, perm), lambda x: np.reshape(x, new, order=order.replace("K", "A")),
        lambda x: np.moveaxis(x, axis, other), lambda x: np.swapaxes(x, axis, other), lambda x: np.roll(x, k, axis),
        lambda x: np.roll(x, (k, 1), (axis, other)), lambda x: np.repeat(x, abs(k), axis), lambda x: np.tile(x, reps),
        lambda x: np.rot90(x, k, (axis, other)), lambda x: np.diagonal(x, k, axis, other), lambda x: x.flatten(order),
        lambda x: np.trace(x, k, axis, other), lambda x: np.tril(x, k), lambda x: np.triu(x, k), lambda x: x.T,
        lambda x: np.ravel(x, order), lambda x: np.copy(x, order), np.atleast_3d, lambda x: np.rollaxis(x, axis),
        lambda x: np.broadcast_to(x, (2, *shape)), lambda x: np.pad(x, abs(k), mode="reflect"), np.atleast_1d,
        lambda x: np.pad(x, (abs(k), 1), mode="edge"), lambda x: np.array_split(x, abs(k) + 1, axis), np.vander,
        lambda x: np.delete(x, k, axis), lambda x: np.insert(x, k, 2.0, axis), np.atleast_2d,
        lambda x: np.take(x, [k, 0], axis, mode="wrap"),
        lambda x: np.quantile(x, [0.2, 0.75], axis), lambda x: np.partition(x, k, axis), lambda x: np.resize(x, new),
        lambda x: np.take_along_axis(x, np.argsort(x, axis), axis), lambda x: np.fft.fft2(x, axes=(axis, other)),
        lambda x: np.diff(x, abs(k), axis), lambda x: np.flip(x, (axis, other)), lambda x: np.nan_to_num(x, nan=k),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, abs(k), axis), lambda x: np.where(x > 0.5, x, k),
        lambda x: np.apply_along_axis(np.sum, axis, x), lambda x: np.diag(x, k), lambda x: np.split(x, abs(k), axis),
        lambda x: np.fft.irfftn(x, axes=(axis,)), lambda x: np.fft.fftshift(x, axis), lambda x: np.cov(x, ddof=k),
    ])), shape  # fmt: skip


@drawn
@given(data=st.data())
def test_changes_of_shape(data: Any) -> None:
    f, shape = data.draw(changes_of_shape())
    check(f, array(data.draw, shape))


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> Any:
    if not shape or 0 in shape:
        return draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    return draw(st.one_of(
        hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True), hnp.integer_array_indices(shape),
        hnp.arrays(bool, shape), hnp.arrays(bool, shape[:1]),
        hnp.integer_array_indices(shape[:1]).map(lambda i: (*i, Ellipsis)),
        hnp.integer_array_indices(shape[:1]).map(lambda i: (None, *i, Ellipsis)),
    ))  # fmt: skip


@drawn
@given(data=st.data())
def test_indices(data: Any) -> None:
    shape = data.draw(SHAPES)
    index = data.draw(indices(shape))
    check(lambda x: x[index], array(data.draw, shape))


@drawn
@given(data=st.data())
def test_writes(data: Any) -> None:
    shape = data.draw(SHAPES)
    index, how = data.draw(indices(shape)), data.draw(st.sampled_from(["=", "+=", "*=", "at", "put"]))

    def f(x: Any, v: Any) -> Any:
        y = x * 1.0
        if how == "=":
            y[index] = v
        elif how == "+=":
            y[index] += v
        elif how == "*=":
            y[index] *= v
        elif how == "at" or not y.shape:  # NumPy puts nothing into a scalar, and does not say so
            np.add.at(y, index, v)
        else:
            np.put(y, [0], v)
        return y

    x = array(data.draw, shape)
    part = np.shape(x[index])
    given = data.draw(st.sampled_from([part, part[1:], (1, *part[1:]), ()]))
    if how == "=" and any(isinstance(i, np.ndarray) for i in (index if isinstance(index, tuple) else (index,))):
        given = ()  # of elements that are set several times any may win
    check(f, x, array(data.draw, given))


@drawn
@given(data=st.data())
def test_joins(data: Any) -> None:
    shape = data.draw(FULL)
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape) - 1, len(shape))))
    other = list(shape)
    if axis is not None and -len(shape) <= axis < len(shape):
        other[axis] = data.draw(st.integers(0, 3))
    f = data.draw(st.sampled_from([
        lambda x, y: np.concatenate([x, y, x], axis), lambda x, y: np.stack([x, y], axis), lambda x, y: np.r_[x, y],
        lambda x, y: np.vstack([x, y]), lambda x, y: np.dstack([x, y]), lambda x, y: np.block([[x, y], [x, y]]),
        lambda x, y: np.column_stack([x, y]), lambda x, y: np.append(x, y, axis), lambda x, y: np.array([x, y]),
        lambda x, y: np.meshgrid(x, y), lambda x, y: np.hstack([x, y]), lambda x, y: np.where(x > 0.5, x, y),
    ]))  # fmt: skip
    check(f, array(data.draw, shape), array(data.draw, tuple(other)))


PRODUCTS = {
    "matmul": "(m?,n),(n,p?)->(m?,p?)", "vecdot": "(n),(n)->()", "matvec": "(m,n),(n)->(m)", "vecmat": "(n),(n,m)->(m)",
}  # fmt: skip


@drawn
@given(data=st.data())
def test_products(data: Any) -> None:
    name = data.draw(st.sampled_from([*PRODUCTS, "dot", "inner", "outer", "kron", "tensordot", "einsum", "convolve"]))
    if name in PRODUCTS:
        signature = hnp.mutually_broadcastable_shapes(signature=PRODUCTS[name], max_dims=2, max_side=3, min_side=0)
        a, b = data.draw(signature).input_shapes
        f = getattr(np, name)
    elif name == "einsum":
        a, b = (2, 3, 3), (3, 2)
        specs = ["ijj,jk->ki", "ijk,kl->", "...j,jl->l...", "iij,jk", "ijk,ji->k", "ijk,lm->mlkji"]
        f = functools.partial(np.einsum, data.draw(st.sampled_from(specs)))
    else:
        a, b = data.draw(SHAPES), data.draw(SHAPES)
        f = {"tensordot": lambda x, y: np.tensordot(x, y, 1)}.get(name) or getattr(np, name)
    check(f, array(data.draw, a), array(data.draw, b))


LINEAR = [
    np.linalg.inv, np.linalg.det, lambda x: np.linalg.slogdet(x)[1], np.linalg.pinv, np.linalg.norm, np.trace,
    lambda x: np.linalg.cholesky(x @ np.swapaxes(x, -1, -2)), lambda x: np.linalg.qr(x)[1], np.linalg.svdvals,
    lambda x: np.linalg.eigvalsh(x + np.swapaxes(x, -1, -2)), lambda x: np.linalg.solve(x, x + 1.0),
    lambda x: np.linalg.solve(x, x[..., 0]), lambda x: np.linalg.matrix_power(x, 3), np.linalg.matrix_transpose,
    lambda x: np.linalg.lstsq(x, x[..., 0])[0], lambda x: np.linalg.norm(x, 2, axis=(-2, -1)),
    lambda x: np.linalg.norm(x, "nuc", axis=(-1, -2)), lambda x: np.linalg.multi_dot([x, x, x]),
    lambda x: np.linalg.matrix_power(x, -2),
]  # fmt: skip


@drawn
@given(data=st.data())
def test_stacks_of_matrices(data: Any) -> None:
    f = data.draw(st.sampled_from(LINEAR))
    batch = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
    n = data.draw(st.integers(0, 4))
    x = array(data.draw, (*batch, n, n)) * 0.3
    check(f, x + 2 * np.eye(n))
