"""Kernels against NumPy: each way to read and to write, in the shapes, strides and dtypes that matter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nests import FIRST_SLOT, MARGIN, Load, Nest, Store, guarded, run_all

from yota_py.engine.kernels.emit import NO_FAULT, OUT_OF_BOUNDS
from yota_py.engine.kernels.ir import Node
from yota_py.engine.kernels.store import addresses

DTYPES = ["float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint8", "bool"]
SHAPES = [(), (1,), (7,), (17,), (1003,), (3, 5), (5, 1), (2, 17), (3, 130), (2, 3, 9), (2, 1, 3, 4)]
FUNCTIONS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda x: x,
    "Fortran": lambda x: x.T.copy().T,
    "backwards": lambda x: np.flip(np.flip(x).copy()),
    "with gaps": lambda x: np.repeat(x, 2, -1)[..., ::2] if x.ndim else x,
    "row repeated": lambda x: np.broadcast_to(x[:1], x.shape) if x.ndim else x,
    "column repeated": lambda x: np.broadcast_to(x[..., :1], x.shape) if x.ndim else x,
}


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Small numbers of either sign; booleans."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.uniform(size=shape) < 0.5)
    if "int" in dtype:
        return rng.integers(-9, 10, shape).astype(dtype)
    return np.asarray(rng.normal(size=shape), dtype)


def same(a: Any, b: Any) -> bool:
    """Equal bit for bit, but for the payload of NaN."""
    signs = np.signbit(a) == np.signbit(b) if a.dtype.kind == "f" else True
    return bool(np.all((a == b) & signs | (a != a) & (b != b)))


def check(nests: list[tuple[Nest, list[np.ndarray]]], equal: Callable[[Any, Any], bool] = same) -> None:
    """Run kernels whose stores are guarded; the first arrays of each pair are what is expected."""
    for (nest, expected), faults in zip(nests, run_all([n for n, _ in nests]), strict=True):
        assert faults == NO_FAULT
        for store, want in zip(nest.stores, expected, strict=True):
            assert equal(store.array, want), (nest.space, nest.spec, store.array, want)
            memory = store.array
            while memory.base is not None:
                memory = memory.base
            assert (memory[:MARGIN] == 0x5A).all() and (memory[-MARGIN:] == 0x5A).all(), "written outside"


def target(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return guarded(np.zeros(shape, dtype))[0]




# ---------------------------------------------------------------------------------------- maps, plain access


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_in_every_layout(dtype: str) -> None:
    nests = []
    for shape, layout in itertools.product(SHAPES, LAYOUTS):
        x = LAYOUTS[layout](numbers(shape, dtype))
        nests.append((Nest(shape, [Load(x)], [], [Store(0, target(shape, dtype))]), [x]))
        turned = target(shape[::-1], dtype).T  # written with strides
        nests.append((Nest(shape, [Load(x)], [], [Store(0, turned)]), [x]))
    check(nests)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_with_broadcasts(dtype: str) -> None:
    nests = []
    for shape in SHAPES[1:]:
        x, row, one = numbers(shape, dtype), numbers(shape[-1:], dtype, 1), numbers((), dtype, 2)
        column = numbers((*shape[:-1], 1), dtype, 3)
        for y in (row, one, column):
            out = target(shape, dtype)
            nodes = [Node("add", (0, 1), dtype), Node("add", (2, 0), dtype)]
            nests.append((Nest(shape, [Load(x), Load(y)], nodes, [Store(3, out)]), [x + y + x]))
    check(nests)


@pytest.mark.parametrize("wide", [True, False])
def test_mixed_dtypes(wide: bool) -> None:
    """One loop over elements of one, four and eight bytes, with casts between them, and several results."""
    nests = []
    for shape in SHAPES:
        mask, a, b, n = (numbers(shape, d, i) for i, d in enumerate(["bool", "float32", "float64", "int32"]))
        nodes = [
            Node("", (1,), "float64"),
            Node("mul", (4, 2), "float64"),
            Node("select", (0, 5, 2), "float64"),
            Node("", (3,), "float64"),
            Node("gt", (6, 7), "bool"),
            Node("", (6,), "float32"),
            Node("", (8,), "int64"),
        ]
        product = np.where(mask, a.astype("float64") * b, b)
        expected = [product, product > n, product.astype("float32"), (product > n).astype("int64")]
        stores = [Store(v, target(shape, e.dtype.name)) for v, e in zip((6, 8, 9, 10), expected, strict=True)]
        nests.append((Nest(shape, [Load(x) for x in (mask, a, b, n)], nodes, stores, wide), expected))
    check(nests)


# -------------------------------------------------------------------------------------------------- reductions


@pytest.mark.parametrize("mode", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES[:4])
def test_reductions(dtype: str, mode: str) -> None:
    nests = []
    for shape in [(1,), (17,), (1003,), (5000,), (3, 5), (40, 3), (3, 130), (2, 3, 9)]:
        for reduced in itertools.product([False, True], repeat=len(shape)):
            if not any(reduced):
                continue
            axes = tuple(d for d, r in enumerate(reduced) if r)
            for layout in ("C", "Fortran"):
                x = LAYOUTS[layout](numbers(shape, dtype))
                if mode == "prod":
                    x = np.where(x == 0, 1, np.sign(x)).astype(dtype) if dtype[0] == "i" else 1 + x / 50
                    x = LAYOUTS[layout](x.astype(dtype))
                want = np.asarray(FUNCTIONS[mode](x.astype("float64") if dtype[0] == "f" else x, axes), dtype)
                nests.append((Nest(shape, [Load(x)], [], [Store(0, target(want.shape, dtype), mode, reduced)]), [want]))
    exact = mode in ("max", "min") or dtype[0] == "i"
    rtol = 1e-12 if dtype == "float64" else 2e-4 if mode == "prod" else 1e-5
    check(nests, same if exact else lambda a, b: np.allclose(a, b, rtol=rtol, atol=rtol))


def test_reductions_share_a_loop_with_maps() -> None:
    shape = (6, 21)
    x = numbers(shape, "float64")
    squares = Node("square", (0,), "float64")
    stores = [
        Store(1, target(shape, "float64")), Store(1, target((6,), "float64"), "sum", (False, True)),
        Store(0, target((21,), "float64"), "max", (True, False)), Store(1, target((), "float64"), "sum", (True, True)),
    ]  # fmt: skip
    expected = [x * x, np.sum(x * x, 1), np.max(x, 0), np.asarray(np.sum(x * x))]
    check([(Nest(shape, [Load(x)], [squares], stores), expected)], np.allclose)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_special_values_in_extremes(mode: str, dtype: str) -> None:
    nests = []
    for n in (1, 3, 17, 40):
        for special in (np.nan, np.inf, -np.inf, -0.0):
            for at in {0, n // 2, n - 1}:
                x = numbers((n, n), dtype)
                x[at, at] = special
                for reduced in ((True, False), (False, True), (True, True)):
                    want = np.asarray(FUNCTIONS[mode](x, tuple(np.flatnonzero(reduced).tolist())))
                    store = Store(0, target(want.shape, dtype), mode, reduced)
                    nests.append((Nest((n, n), [Load(x)], [], [store]), [want]))
        full = np.full((n,), -np.inf if mode == "max" else np.inf, dtype)
        nests.append((Nest((n,), [Load(full)], [], [Store(0, target((), dtype), mode, (True,))]), [full[0]]))
        full = np.full((n,), np.nan, dtype)
        nests.append((Nest((n,), [Load(full)], [], [Store(0, target((), dtype), mode, (True,))]), [full[0]]))
    check(nests, lambda a, b: bool(np.array_equal(a, b, equal_nan=True)))


def sums(x: np.ndarray, reduced: tuple[bool, ...]) -> np.ndarray:
    out = target(tuple(n for n, r in zip(x.shape, reduced, strict=True) if not r), x.dtype.name)
    assert run_all([Nest(x.shape, [Load(x)], [], [Store(0, out, "sum", reduced)])]) == [NO_FAULT]
    return out


@pytest.mark.parametrize("value", [0.1, 3909.23, 1e-3])
def test_long_float32_sums_keep_their_digits(value: float) -> None:
    x = np.full(10**6, value, np.float32)
    exact = float(x[0]) * x.size
    assert abs(float(sums(x, (True,))) - exact) <= 2e-6 * exact
    rows = np.full((3, 10**5), value, np.float32)
    assert np.all(np.abs(sums(rows, (False, True)) - float(x[0]) * 10**5) <= 2e-6 * float(x[0]) * 10**5)


def test_float32_sums_of_many_short_rows_keep_their_digits() -> None:
    x = np.full((10**5, 4), 0.1, np.float32)[:, :3]
    exact = float(x[0, 0]) * x.size
    assert abs(float(sums(x, (True, True))) - exact) <= 5e-6 * exact


@pytest.mark.parametrize("shape", [(100_003,), (997, 101)])
def test_float64_sums_are_accurate(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=shape) * np.exp(rng.normal(size=shape) * 3)
    exact = math.fsum(x.ravel().tolist())
    bound = float(np.sum(np.abs(x))) * np.finfo(float).eps
    assert abs(float(sums(x, (True,) * len(shape))) - exact) <= 40 * bound
    ones = np.concatenate([[1.0], np.full(10**5, 1e-16)])
    assert float(sums(ones, (True,))) == pytest.approx(1 + 1e-11, abs=1e-13)


def test_special_values_in_sums() -> None:
    for n in (1, 17, 1003):
        for specials in ([np.inf], [-np.inf], [np.nan], [np.inf, -np.inf]):
            x = numbers((n,), "float64")
            x[: len(specials)] = specials[:n]
            with np.errstate(invalid="ignore"):
                assert np.array_equal(sums(x, (True,)), np.sum(x), equal_nan=True)


# ----------------------------------------------------------------------------------- boxes, gathers, scatters


@pytest.mark.parametrize("dtype", DTYPES)
def test_pads(dtype: str) -> None:
    nests = []
    for space, box in [
        ((9,), ((2, 5),)), ((9,), ((0, 9),)), ((9,), ((8, 1),)), ((40,), ((17, 20),)), ((5, 21), ((1, 3), (4, 17))),
        ((5, 21), ((0, 5), (20, 1))), ((5, 21), ((4, 1), (0, 21))), ((3, 4, 5), ((1, 2), (0, 4), (2, 2))),
    ]:  # fmt: skip
        inside = tuple(n for _, n in box)
        for layout in ("C", "Fortran", "backwards", "with gaps"):
            x = LAYOUTS[layout](numbers(inside, dtype))
            want = np.zeros(space, dtype)
            want[tuple(slice(lo, lo + n) for lo, n in box)] = x
            nests.append((Nest(space, [Load(x, "pad", box)], [], [Store(0, target(space, dtype))]), [want]))
    check(nests)


@pytest.mark.parametrize("index", ["int64", "int32"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gathers(dtype: str, index: str) -> None:
    rng, nests = np.random.default_rng(1), []
    for count, rest in itertools.product([(), (1,), (17,), (1003,), (3, 5)], [(), (1,), (9,), (2, 3)]):
        x, k = numbers((6, *rest), dtype), np.asarray(rng.integers(-6, 6, count), index)
        space = (*count, *rest)
        wide = np.reshape(k, (*count, *(1,) * len(rest)))
        loads = [Load(wide), Load(x, "gather", indices=(0,))]
        nests.append((Nest(space, loads, [], [Store(1, target(space, dtype))]), [x[k]]))
        y, m = numbers((6, 4, *rest), dtype), np.asarray(rng.integers(-4, 4, count), index)
        loads = [Load(wide), Load(np.reshape(m, wide.shape)), Load(y, "gather", indices=(0, 1))]
        nests.append((Nest(space, loads, [], [Store(2, target(space, dtype))]), [y[k, m]]))
    check(nests)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
def test_scatters_add_where_indices_meet(dtype: str) -> None:
    rng, nests = np.random.default_rng(2), []
    for count, rest in itertools.product([(), (1,), (17,), (1003,), (3, 5)], [(), (1,), (9,), (2, 3)]):
        k = rng.integers(-6, 6, count)
        x = np.asarray(rng.integers(-50, 50, (*count, *rest)), dtype)  # exact in any order
        want = np.zeros((6, *rest), dtype)
        np.add.at(want, k, x)
        loads = [Load(x), Load(np.reshape(k, (*count, *(1,) * len(rest))))]
        stores = [Store(0, target(want.shape, dtype), "scatter", indices=(1,))]
        nests.append((Nest((*count, *rest), loads, [], stores), [want]))
    check(nests)


@pytest.mark.parametrize("index", [6, -7, 2**40, -(2**62)])
@pytest.mark.parametrize("at", [0, 5, 16])
def test_an_index_out_of_bounds_is_noted(index: int, at: int) -> None:
    """It reads element 0, or adds to it, and nothing else."""
    x, k = numbers((6,), "float64"), np.arange(17) % 6
    k[at] = index
    gather = Nest((17,), [Load(k), Load(x, "gather", indices=(0,))], [], [Store(1, target((17,), "float64"))])
    out, memory = guarded(np.zeros(6))
    scatter = Nest((17,), [Load(np.ones(17)), Load(k)], [], [Store(0, out, "scatter", indices=(1,))])
    assert run_all([gather, scatter]) == [OUT_OF_BOUNDS, OUT_OF_BOUNDS]
    good = np.arange(17) != at
    assert np.array_equal(gather.stores[0].array[good], x[k[good]])
    assert out.sum() == 17 and np.array_equal(out[1:], np.bincount(k[good], minlength=6)[1:])
    assert (memory[:MARGIN] == 0x5A).all() and (memory[-MARGIN:] == 0x5A).all()


@pytest.mark.parametrize("n", [1, 8, 17, 1003])
def test_requirements(n: int) -> None:
    """The fault is the byte in the frame where the number would be; and it counts more than an index out of bounds."""
    good = np.ones(n, bool)
    bad = good.copy()
    bad[-1] = False
    nowhere = np.zeros((), bool)
    nests = [Nest((n,), [Load(mask)], [], [Store(0, nowhere, "require", mask=0)]) for mask in (good, bad)]
    assert run_all(nests) == [NO_FAULT, 8 * (FIRST_SLOT + 1)]
    both = Nest(
        (n,), [Load(bad), Load(np.full(n, 9)), Load(np.ones(3), "gather", indices=(1,))], [],
        [Store(0, nowhere, "require", mask=0), Store(2, target((n,), "float64"))],
    )  # fmt: skip
    assert run_all([both]) == [8 * (FIRST_SLOT + 3)]


@pytest.mark.parametrize("number", [2.5, np.float32(0.1), 2**40, np.int32(-7), True])
def test_the_first_requirement_that_fails_leaves_its_number(number: Any) -> None:
    value = np.asarray(number)
    masks = [Load(np.asarray(mask)) for mask in (True, False, False)]
    left = [np.zeros_like(value) for _ in masks]
    stores = [Store(0, place, "require", mask=k + 1) for k, place in enumerate(left)]
    assert run_all([Nest((), [Load(value), *masks], [], stores)]) == [8 * (FIRST_SLOT + len(masks) + 2)]
    assert left[1] == value and left[1].dtype == value.dtype


# --------------------------------------------------------------------------------- parts of the outer dimension


@pytest.mark.parametrize("shape", [(70,), (9, 130), (9, 1, 3, 4)])
def test_a_part_of_the_outer_dimension(shape: tuple[int, ...]) -> None:
    """What is stored is stored there, what is reduced is reduced over the part."""
    x, axes = numbers(shape, "float64"), tuple(range(1, len(shape)))
    ends = [0, 0, 2, 7, shape[0]]
    stored, rows, total, column = (guarded(np.zeros(s)) for s in (shape, shape[:1], (), shape[1:]))
    inner, outer = (False, *(True for _ in axes)), (True, *(False for _ in axes))
    stores = [Store(0, stored[0]), Store(0, total[0], "sum", (True,) * len(shape))]
    if axes:
        stores += [Store(0, rows[0], "sum", inner), Store(0, column[0], "sum", outer)]
    nest = Nest(shape, [Load(x)], [], stores)
    code = addresses([nest.spec])
    for begin, end in itertools.pairwise(ends):
        assert nest.run(code, begin, end) == NO_FAULT
        assert same(stored[0][:end], x[:end]) and not stored[0][end:].any()
        assert np.allclose(total[0], np.sum(x[begin:end]))
        if axes and begin < end:
            assert np.allclose(rows[0][:end], np.sum(x[:end], axis=axes)) and not rows[0][end:].any()
            assert np.allclose(column[0], np.sum(x[begin:end], axis=0))
