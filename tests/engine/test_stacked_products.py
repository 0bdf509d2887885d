"""Products of stacks of matrices, by BLAS or written out: one kernel, however they lie in memory and are broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import explain, jit, value_and_grad

Product = Callable[[Any, Any], Any]
CALLS: dict[str, tuple[Product, tuple[int, ...], tuple[int, ...]]] = {
    "stacks": (np.matmul, (3, 14, 5), (3, 5, 6)),
    "stacks of stacks": (np.matmul, (2, 3, 14, 5), (2, 3, 5, 6)),
    "one matrix on the left": (np.matmul, (14, 5), (3, 5, 6)),
    "one on the left of several": (np.matmul, (1, 4, 14, 5), (3, 1, 5, 6)),
    "one on the right of several": (np.matmul, (3, 1, 14, 5), (1, 4, 5, 6)),
    "a stack of one": (np.matmul, (1, 14, 5), (1, 5, 6)),
    "a vector": (np.matmul, (15,), (3, 15, 16)),
    "transposes": (lambda a, b: np.matmul(np.swapaxes(a, 1, 2), b), (3, 5, 14), (3, 5, 6)),
    "transposes on the right": (lambda a, b: np.matmul(a, np.swapaxes(b, -1, -2)), (3, 4, 15), (3, 16, 15)),
    "other orders": (lambda a, b: np.matmul(a.transpose(2, 0, 1), b.transpose(2, 1, 0)), (14, 5, 3), (6, 5, 3)),
    "steps": (lambda a, b: np.matmul(a[::2, :, ::2], b[:, ::-1]), (6, 14, 10), (3, 5, 6)),
    "backwards": (lambda a, b: np.matmul(a[::-1], b), (3, 14, 5), (3, 5, 6)),
    "small ones": (np.matmul, (5, 3, 3), (5, 3, 3)),
    "small ones of all sizes": (np.matmul, (5, 2, 8), (5, 8, 5)),
    "small columns": (np.matmul, (5, 3, 3), (5, 3, 1)),
    "small rows": (np.matmul, (5, 1, 7), (5, 7, 2)),
    "small dot products": (np.matmul, (5, 1, 8), (5, 8, 1)),
    "small transposes": (lambda a, b: np.matmul(np.swapaxes(a, 1, 2), np.swapaxes(b, 1, 2)), (5, 3, 2), (5, 4, 3)),
    "small ones in other orders": (lambda a, b: np.matmul(a.transpose(2, 0, 1), b.transpose(2, 1, 0)), (4, 5, 3),
                                   (6, 5, 3)),
    "small ones backwards": (lambda a, b: np.matmul(a[::-1, ::-1], b[:, :, ::2]), (3, 4, 5), (3, 5, 6)),
    "small ones, broadcast": (np.matmul, (3, 1, 4, 2), (1, 4, 2, 3)),
    "small ones, one on the left": (np.matmul, (1, 4, 2), (6, 2, 3)),
    "narrow ones": (np.matmul, (5, 2, 12), (5, 12, 2)),
    "every second": (lambda a, b: np.matmul(a[:, ::2], b), (2, 4, 14, 5), (2, 2, 5, 6)),
}


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("name", CALLS)
def test_compiled_products_are_those_of_numpy(name: str, dtype: Any) -> None:
    fn, *shapes = CALLS[name]
    rng = np.random.default_rng(1)

    def draw() -> list[Any]:
        return [rng.normal(size=shape).astype(dtype) for shape in shapes]

    def made() -> Any:
        return value_and_grad(lambda a, b: np.sum(np.sin(fn(a, b))), (0, 1))

    compiled = made()
    compiled.compile(*draw())
    assert "NumPy" not in str(explain(compiled)[0].entries[-1])  # no step in Python
    tolerance = 1e-3 if dtype is np.float32 else 1e-6
    for _ in range(3):
        args = draw()
        value, slopes = compiled(*args)
        a, b = (x.astype(float) for x in args)
        da, db = (1e-6 * rng.normal(size=shape) for shape in shapes)
        ends = [np.sum(np.sin(fn(a + sign * da, b + sign * db))) for sign in (1, -1)]
        assert_allclose(value, np.sum(np.sin(fn(a, b))), rtol=tolerance)
        have = sum(np.sum(slope * way) for slope, way in zip(slopes, (da, db), strict=True))
        assert_allclose(have / 1e-6, (ends[0] - ends[1]) / 2e-6, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_small_products_of_special_values(dtype: Any) -> None:
    values = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max], dtype)
    rng = np.random.default_rng(0)
    a, b = (rng.choice(values, (400, 2, 3)), rng.choice(values, (400, 3, 2)))
    with np.errstate(all="ignore"):
        have, want = jit(np.matmul), np.matmul(a, b)
        have.compile(a, b)
        assert_array_equal(have(a, b), want)
        assert_array_equal(np.signbit(have(a, b))[want == 0], np.signbit(want)[want == 0])
