"""Caching and state, continued: layouts and dtypes that take turns, and kernels that differ in one thing only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import ALL, CACHE, agree
from fresh import Function

from yota_py import explain

# ------------------------------------------------- same shapes, other strides, dtypes, byte orders, flags, memory maps


def _unaligned(x: np.ndarray) -> np.ndarray:
    return np.frombuffer(bytearray(b"\0" + x.tobytes()), np.uint8)[1:].view(x.dtype).reshape(x.shape)


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def _spread(x: np.ndarray) -> np.ndarray:
    big = np.full((x.shape[0] * 2, x.shape[1] * 3), 7, x.dtype)
    big[::2, ::3] = x
    return big[::2, ::3]


def _mapped(x: np.ndarray, path: Path) -> np.ndarray:
    out = np.memmap(path, x.dtype, "w+", shape=x.shape)
    out[:] = x
    return np.memmap(path, x.dtype, "r", shape=x.shape)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "reversed": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "rows reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "spread": _spread,
    "stride 0": lambda x: np.broadcast_to(x[:1], x.shape),
    "stride 0 inside": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "all one": lambda x: np.broadcast_to(x[0, 0], x.shape),
    "unaligned": _unaligned,
    "read-only": _read_only,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "little-endian": lambda x: x.astype(x.dtype.newbyteorder("<")),
    "big-endian and reversed": lambda x: x.astype(x.dtype.newbyteorder(">"))[::-1][:, ::-1],
}
DTYPES = ["float64", "float32", "int64", "int32", "uint8", "bool"]


def test_layouts_and_dtypes_of_arguments_take_turns(tmp_path: Path) -> None:
    def f(x: Any, y: Any) -> Any:
        return np.sum(np.sin(x) * y) + np.sum((x @ y.T)[0] ** 2) + np.sum(x[:, 1:] * y[:, :-1]) + np.max(x)

    rng = np.random.default_rng(3)
    for i in range(3):
        x, y = rng.uniform(0.5, 2, (3, 4)), rng.uniform(0.5, 2, (3, 4))
        for name, layout in LAYOUTS.items():
            for dtype in DTYPES:
                smooth = i == 0 and dtype == "float64" and "stride 0" not in name and name != "all one"
                agree(f, layout(x.astype("float32" if dtype == "float32" else "float64")), layout(y.astype(dtype)),
                      against=ALL if smooth else CACHE)
        agree(f, _mapped(x, tmp_path / f"x{i}"), _mapped(y, tmp_path / f"y{i}"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_of_a_captured_array_take_turns(dtype: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {"np": np, "__name__": "user_module"}
    exec("def f(x): return np.sum(np.sin(x) * w + w[::-1, ::-1] * x) + np.sum((x @ w.T)[0] ** 2)", names)
    rng = np.random.default_rng(4)
    for i in range(3):
        w = rng.uniform(0.5, 2, (3, 4)).astype(dtype)
        for array in [*(layout(w) for layout in LAYOUTS.values()), _mapped(w, tmp_path / f"w{i}")]:
            names["w"] = array
            agree(names["f"], rng.uniform(0.5, 2, (3, 4)))


# ------------------------------------------------------------- a kernel key that forgets edges, constants or flags


def _deepened(order: str) -> Function:
    return lambda x, y: np.sum(np.reshape(np.sin(x), (4, 3), order=order) * y.T)


def _scaled(c: Any) -> Function:
    return lambda x, y: np.sum(np.sin(x * c) * y)


def _raised(c: Any) -> Function:
    return lambda x, y: np.sum(x**c * y)


def _clipped(c: Any) -> Function:
    return lambda x, y: np.sum(np.clip(x, 0.7, c) * y)


def _reduced(axis: Any, keepdims: bool) -> Function:
    return lambda x, y: np.sum((x * np.mean(np.max(x * y, axis=axis, keepdims=keepdims))) ** 2)


def _indexed(k: Any) -> Function:
    return lambda x, y: np.sum(x[k] * y[k]) ** 2


# Functions that differ in one thing only: an edge, a constant, a flag.
FAMILIES: dict[str, list[Function]] = {
    "edges": [
        lambda x, y: np.sum(x * y - x / y),
        lambda x, y: np.sum(x * y - y / x),
        lambda x, y: np.sum(x * x - y / x),
        lambda x, y: np.sum(y * y - x / y),
        lambda x, y: np.sum(x * y - x / x),
        lambda x, y: np.sum((x - y) / x),
        lambda x, y: np.sum((y - x) / x),
        lambda x, y: np.sum((y - x) / y),
    ],
    "edges of a chain": [
        lambda x, y: np.sum(np.sin(x) * np.cos(y)),
        lambda x, y: np.sum(np.sin(y) * np.cos(x)),
        lambda x, y: np.sum(np.sin(x) * np.cos(x)),
        lambda x, y: np.sum(np.sin(np.cos(x)) * y),
        lambda x, y: np.sum(np.cos(np.sin(x)) * y),
        lambda x, y: np.sum(np.cos(np.sin(y)) * x),
    ],
    "edges of a product": [
        lambda x, y: np.sum((x @ y.T) ** 2),
        lambda x, y: np.sum((y @ x.T)[0] ** 2),
        lambda x, y: np.sum((x.T @ y) ** 2),
        lambda x, y: np.sum((x @ x.T) ** 2),
        lambda x, y: np.sum((x @ y.T)[:, 0] ** 2),
    ],
    "constants": [
        *(_scaled(c) for c in (2.0, 3.0, -2.0, 0.5, 1.0, -1.0, 0.0, 2, 3)),
        *(_raised(c) for c in (2, 3, 2.0, 2.5, -1, 0, 1, 0.5)),
        *(_clipped(c) for c in (1.1, 1.3, np.inf)),
    ],
    "written constants": [
        lambda x, y: np.sum(x * 2.0 + y),
        lambda x, y: np.sum(x * 3.0 + y),
        lambda x, y: np.sum(x + y * 2.0),
        lambda x, y: np.sum(x + y * 3.0),
        lambda x, y: np.sum(x / 0.0 * 0.0 if x is None else x * y),
    ],
    "signed zeros": [
        lambda x, y: np.sum(np.copysign(x, 0.0) * y),
        lambda x, y: np.sum(np.copysign(x, -0.0) * y),
        lambda x, y: np.sum(np.arctan2(0.0, -x) * y + x),
        lambda x, y: np.sum(np.arctan2(-0.0, -x) * y + x),
    ],
    "axes and keepdims": [
        *(_reduced(a, k)
          for a in (0, 1, -1, None, (0, 1)) for k in (True, False)),
        lambda x, y: np.sum(x / np.sum(y, axis=0, keepdims=True)),
        lambda x, y: np.sum(x / np.sum(y, axis=1, keepdims=True)),
        lambda x, y: np.sum(x[:3, :3] / np.sum(y, axis=1)),
        lambda x, y: np.sum(np.cumsum(x, axis=0) * y),
        lambda x, y: np.sum(np.cumsum(x, axis=1) * y),
    ],
    "ddof, order, mode, k": [
        lambda x, y: np.var(x) + np.std(y),
        lambda x, y: np.var(x, ddof=1) + np.std(y),
        lambda x, y: np.var(x) + np.std(y, ddof=1),
        _deepened("C"),
        _deepened("F"),
        lambda x, y: np.sum(np.take(x, [1, 5], 0, mode="wrap") * y[:2]),
        lambda x, y: np.sum(np.take(x, [1, 5], 0, mode="clip") * y[:2]),
        lambda x, y: np.sum(np.tril(x) * y),
        lambda x, y: np.sum(np.tril(x, 1) * y),
        lambda x, y: np.sum(np.triu(x) * y),
        lambda x, y: np.sum(np.roll(x, 1) * y),
        lambda x, y: np.sum(np.roll(x, 2) * y),
        lambda x, y: np.sum(np.roll(x, 1, 0) * y),
        lambda x, y: np.sum(np.diff(x, axis=0) * y[1:]),
        lambda x, y: np.sum(np.diff(x, axis=1) * y[:, 1:]),
        lambda x, y: np.sum(np.diff(x, 2, axis=1) * y[:, 2:]),
    ],
    "slices and indices": [
        *(_indexed(k) for k in (
            0, 1, -1, slice(1, None), slice(None, None, -1), slice(None, None, 2), (0, 1), (slice(None), 1), [0, 0, 2],
            [1, 0, 2], (slice(1, 3), slice(None, None, -2)), (..., None), ([0, 1], [1, 0]))),
        lambda x, y: np.sum(x[::-1] * y),
        lambda x, y: np.sum(x[:, ::-1] * y),
        lambda x, y: np.sum(x * y[::-1]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtypes", [("float64",) * 2, ("float32",) * 2, ("float32", "float64")], ids="/".join)
def test_kernel_keys_tell_edges_constants_and_flags_apart(family: str, dtypes: tuple[str, str]) -> None:
    rng = np.random.default_rng(5)
    for _ in range(4):
        x, y = (rng.uniform(0.6, 1.4, (3, 4)).astype(dtype) for dtype in dtypes)
        for f in FAMILIES[family]:
            agree(f, x, y, against=CACHE if "32" in str(dtypes) or family == "constants" else ALL)
    for f in FAMILIES[family]:
        assert explain(f)[0].calls, "nothing is compiled"
