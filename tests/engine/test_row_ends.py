"""The last elements of a row, which do not fill a vector, with registers of each width that there is."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nests import Load, Nest, Store, guarded, run_all

from yota_py import config, jit
from yota_py.engine.kernels import disk, store
from yota_py.engine.kernels.emit import NO_FAULT
from yota_py.engine.kernels.ir import Node

COUNTS = [0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130]
DTYPES = ["float64", "float32", "int64", "int32", "int16", "int8", "uint8", "bool"]
FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda x: x + x, lambda x: x * x, np.abs, lambda x: x.real + 1, lambda x: x.imag * 2, lambda x: np.sum(x * x),
    lambda x: np.where(x.real > 0, x, -x), lambda x: x.real > x.imag,
]  # fmt: skip


@pytest.fixture(params=[16, 32, 64])
def registers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled anew, for registers of so many bytes."""
    monkeypatch.setattr(store, "vector_bytes", lambda: request.param)
    monkeypatch.setattr(store, "compiled", {})
    monkeypatch.setattr(disk, "find", lambda keys: {})
    monkeypatch.setattr(disk, "keep", lambda code, keys: None)


@pytest.fixture
def page() -> mmap.mmap:
    """A page of memory, behind which nothing may be read."""
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    return memory


def numbers(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(-9, 10, count)
    return drawn > 0 if dtype == "bool" else drawn.astype(dtype)


@pytest.mark.usefixtures("registers")
def test_each_element_and_no_other_is_written() -> None:
    nests, expected, margins = [], [], []
    for dtype in DTYPES:
        for n in COUNTS:
            x, y = numbers(dtype, n), numbers(dtype, n, 1)
            for shape, wide in (((n,), True), ((2, n), True), ((2, n), False)):
                rows = np.stack([x, y]) if len(shape) > 1 else x
                out, memory = guarded(np.zeros(shape, dtype))
                nests.append(Nest(shape, [Load(rows), Load(y)], [Node("add", (0, 1), dtype)], [Store(2, out)], wide))
                expected.append(rows + y)
                margins.append(memory)
    for nest, want, memory, fault in zip(nests, expected, margins, run_all(nests), strict=True):
        assert fault == NO_FAULT
        np.testing.assert_array_equal(nest.stores[0].array, want)
        assert (memory[:256] == 0x5A).all() and (memory[-256:] == 0x5A).all()


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("dtype", ["complex128", "complex64", "float64", "int8"])
def test_nothing_behind_an_array_is_read(dtype: str, page: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    for f in FUNCTIONS:
        g = jit(f)
        for n in COUNTS[1:]:
            for step in (1, 2):
                whole = np.frombuffer(page, np.uint8, mmap.PAGESIZE)[-n * np.dtype(dtype).itemsize :].view(dtype)
                x = whole[(n - 1) % step :: step]
                assert x.ctypes.data + (x.size - 1) * step * x.itemsize + x.itemsize == whole.ctypes.data + whole.nbytes
                x[...] = np.arange(x.size) % 7 - 3 + (np.arange(x.size) % 5 * 1j if "complex" in dtype else 0)
                np.testing.assert_allclose(g(x), f(x), rtol=1e-6)
