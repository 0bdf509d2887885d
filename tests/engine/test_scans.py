"""Cumulative sums and products: along any axis, in any layout, of every dtype, alone and among other operations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from nests import Load, Nest, Store, guarded, run_all
from numpy.testing import assert_allclose

from yota_py import config, gradient, jit
from yota_py.engine.kernels.emit import NO_FAULT

MODES = {"cumsum": np.cumsum, "cumprod": np.cumprod}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
def test_kernels(mode: str, dtype: str) -> None:
    """Bit for bit as NumPy's, which adds one element after the other too."""
    nests, expected = [], []
    for shape in [(1,), (9,), (1003,), (3, 5), (40, 3), (3, 130), (2, 3, 9)]:
        x = np.random.default_rng(1).normal(size=shape) * 3
        x = np.asarray(np.where(np.abs(x) < 0.3, -0.0, x), dtype)
        for axis, layout, turned in itertools.product(range(len(shape)), "CF", (False, True)):
            want = MODES[mode](x, axis, dtype=dtype)
            out = guarded(np.zeros(shape[::-1] if turned else shape, dtype))[0]
            store = Store(0, out.T if turned else out, mode, tuple(d == axis for d in range(len(shape))))
            nests.append(Nest(shape, [Load(np.asarray(x, order=layout))], [], [store]))
            expected.append(want)
    for nest, want, fault in zip(nests, expected, run_all(nests), strict=True):
        assert fault == NO_FAULT
        assert nest.stores[0].array.tobytes() == want.tobytes(), nest.spec


@pytest.mark.parametrize("fn", MODES.values())
def test_functions(fn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All axes, none, views, dtypes of results; what is computed before and behind runs as vectors."""
    monkeypatch.setattr(config, "compile", "always")
    rng = np.random.default_rng(2)
    for shape in [(5,), (4, 3), (1, 7), (7, 1), (2, 3, 4)]:
        for axis in (None, *range(-len(shape), len(shape))):
            f = jit(lambda x, axis=axis: (
                fn(x, axis=axis), fn(x.T, axis), fn(np.flip(x * 2), axis) + 1, np.exp(fn(np.cos(x), axis) / 9),
            ))  # fmt: skip
            for dtype in (float, np.float32, np.int32, np.int64, bool):
                x = np.asarray(rng.normal(size=shape) * 2, dtype)
                want = fn(x, axis), fn(x.T, axis), fn(np.flip(x * 2), axis) + 1, np.exp(fn(np.cos(x), axis) / 9)
                for _ in range(2):
                    for have, expected in zip(f(x), want, strict=True):
                        assert have.dtype == expected.dtype and have.shape == expected.shape
                        assert_allclose(have, expected, rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_gradients(axis: int | None) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.cumsum(x * x, axis=axis) ** 2) + np.sum(np.sin(np.cumprod(x, axis=axis)))

    compiled = gradient(f)
    for seed in range(4):
        x = np.random.default_rng(seed).uniform(0.5, 1.5, (4, 5))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config, "compile", "never")
            want = gradient(f)(x)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config, "compile", "always")
            assert_allclose(compiled(x), want, rtol=1e-12)


def test_special_values_and_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    f, g = jit(lambda x: np.cumsum(x)), jit(lambda x: np.cumprod(x))
    lines = [-0.0, -0.0, 0.0], [np.inf, 1, -np.inf], [1.0, np.nan, 3.0], [0.0, np.inf, 1.0], [1e308, 1e308, -np.inf]
    for x in lines:
        with np.errstate(all="ignore"):
            for compiled, fn in ((f, np.cumsum), (g, np.cumprod)):
                want = fn(np.array(x))
                for _ in range(2):
                    have = compiled(np.array(x))
                    assert np.array_equal(have, want, equal_nan=True)
                    assert ((np.signbit(have) == np.signbit(want)) | np.isnan(want)).all()
    whole = np.array([2**62, 2**62, 2**62, -5])
    assert np.array_equal(jit(lambda x: np.cumsum(x))(whole), np.cumsum(whole))
