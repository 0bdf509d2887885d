"""Aliasing, continued: writes that read what they change, and views of what is written into.

Of every function of NumPy that gives a view there is a line, and of those that give a copy where one expects a view.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fresh import Function, rounds

from yota_py.errors import LostDerivativeError, MissingRuleError, MutationError

# ------------------------------ x[1:] = x[:-1]; a, b = b, a; y = x[2:5]; y[:] = 0; use(x); x += x.T, and their siblings

# Statements on y, a 4 × 4 array.
STATEMENTS: dict[str, str] = {
    "shift": "y[1:] = y[:-1]",
    "shift back": "y[:-1] = y[1:]",
    "shift by adding": "y[1:] += y[:-1]",
    "reverse": "y[:] = y[::-1]",
    "reverse both": "y[:] = y[::-1, ::-1] * 2",
    "swap names": "a, b = y[0], y[1] * 1\na, b = b, a\ny = y + np.outer(a, b * 2)",
    "swap items": "y[0, 0], y[1, 1] = y[1, 1], y[0, 0]",
    "swap rows of views": "y[0], y[1] = y[1], y[0]",
    "swap rows by index": "y[[0, 1]] = y[[1, 0]]",
    "swap through tuples": "a, b = y, y * 2\na, b = b, a\na[0] = 0\ny = a * b",
    "zeroed view": "z = y[2:5]\nz[:] = 0",
    "zeroed view of a view": "z = y[1:][:, ::2]\nz[...] = 0",
    "view after a write": "z = y[1:3]\ny[2] = 5.0\ny = y + np.sum(z * z)",
    "view of a view after a write": "z = y.T[1:][:, 1]\ny *= 2\ny = y + np.sum(z * z)",
    "two views": "z, u = y[:3], y[1:]\nz += 1\nu *= z",
    "view, write, write back": "z = y[0]\ny[0] = 1.0\nz *= 3\ny[1] = z",
    "add transposed": "y += y.T",
    "multiply transposed": "y *= y.T",
    "subtract reversed": "y -= y[::-1]",
    "row added to all": "y += y[0]",
    "column added to all": "y -= y[:, :1]",
    "itself": "y += y\ny *= y\ny -= y * 0.5",
    "item of itself": "y[0] += y[0, 0]\ny[1, 1] *= y[1, 1]",
    "assign itself": "y[:] = y\ny[...] = y.T",
    "out": "np.multiply(y, y.T, out=y)",
    "out view": "np.add(y[1:], y[:-1], out=y[:-1])",
    "diagonal": "y.flat[::5] = 0.5",
    "alias": "z = y\nz[0] = 7.0",
    "alias in place": "z = y\nz += 1\ny = y * z",
    "alias in a list": "rows = [y[0], y[1]]\nrows[0] += rows[1]\nrows[1][:] = 2",
    "loop over rows": "for row in y:\n    row *= row[0]",
    "loop over rows and write": "for i, row in enumerate(y):\n    y[i] = row[::-1]",
    "helper": "def zero(a): a[0] = 0\nzero(y[1:])\nzero(y.T)",
    "row by row": "for i in range(1, 4):\n    y[i] += y[i - 1] * 0.5",
    "mask": "y[y > 1] = 0\nz = y[y > 0.5]\nz[:] = 9",
    "fancy index is a copy": "z = y[[0, 1]]\nz[:] = 0\ny[0] = y[0] + z[1]",
    "copy is a copy": "z = y.copy()\nz[:] = 0",
    "reshape": "z = y.reshape(2, 8)\nz[0] = 1.5",
    "ravel": "z = y.ravel()\nz[3:7] = 1.5",
    "flatten is a copy": "z = y.flatten()\nz[3:7] = 1.5",
    "newaxis": "z = y[None]\nz[0, 1] = 1.5",
    "squeeze": "z = np.squeeze(y[:1])\nz[1] = 1.5",
    "swapaxes": "z = np.swapaxes(y, 0, 1)\nz[0] = 1.5",
    "moveaxis": "z = np.moveaxis(y, 0, 1)\nz[0] = 1.5",
    "flip": "z = np.flip(y, 0)\nz[0] = 1.5",
    "rot90": "z = np.rot90(y)\nz[0] = 1.5",
    "split": "z, u = np.split(y, 2)\nz[0] = 1.5\nu *= 2",
    "hsplit": "z, u = np.hsplit(y, 2)\nz[0] = 1.5\nu *= 2",
    "array_split": "z, u, v = np.array_split(y, 3)\nz[0] = 1.5\nv *= 2",
    "asarray": "z = np.asarray(y)\nz[0] = 1.5",
    "ascontiguousarray": "z = np.ascontiguousarray(y)\nz[0] = 1.5",
    "array is a copy": "z = np.array(y)\nz[0] = 1.5",
    "array, copy=None": "z = np.array(y, copy=None)\nz[0] = 1.5",
    "astype": "z = y.astype(float)\nz[0] = 1.5",
    "astype, copy=False": "z = y.astype(float, copy=False)\nz[0] = 1.5",
    "real": "z = y.real\nz[0] = 1.5",
    "np.real": "z = np.real(y)\nz[0] = 1.5",
    "atleast_3d": "z = np.atleast_3d(y)\nz[0] = 1.5",
    "atleast_2d": "z = np.atleast_2d(y)\nz[0] = 1.5",
    "expand_dims": "z = np.expand_dims(y, 1)\nz[0] = 1.5",
    "diagonal after a write": "z = np.diagonal(y)\ny[0] = 2.0\ny = y + np.sum(z * z)",
    "broadcast_to after a write": "z = np.broadcast_to(y[0], (2, 4))\ny[0, 1] = 2.0\ny = y + np.sum(z * z)",
    "broadcast_arrays": "z, u = np.broadcast_arrays(y, np.zeros(4))\ny[0] = 2.0\ny = y + np.sum(z * z)",
    "sliding_window_view": "z = np.lib.stride_tricks.sliding_window_view(y, 2, 0)\ny[0] = 2.0\ny = y + np.sum(z * z)",
    "windows that are written": "z = np.lib.stride_tricks.sliding_window_view(y, 1, 0, writeable=True)\nz[:2] = 1.5",
    "windows that overlap": "z = np.lib.stride_tricks.sliding_window_view(y, 2, 0, writeable=True)\nz[0] = 1.5",
    "reshape of a transpose is a copy": "z = y.T.reshape(-1)\nz[0:6] = 1.5",
    "ravel of a transpose is a copy": "z = y.T.ravel()\nz[0:6] = 1.5",
    "ravel in order F": "z = y.ravel(order='F')\nz[0:6] = 1.5",
    "ravel in order K": "z = y.T.ravel(order='K')\nz[0:6] = 1.5",
    "resize": "z = np.resize(y, (4, 4))\nz[0] = 1.5",
    "where is a copy": "z = np.where(True, y, 0.0)\nz[0] = 1.5",
    "positive is a copy": "z = +y\nz[0] = 1.5",
    "maximum out": "np.maximum(y, 1.0, out=y)",
    "clip out": "y.clip(0.5, 1.5, out=y)",
    "nan_to_num in place": "y[0] = np.nan\nz = y[:2]\nnp.nan_to_num(z, copy=False, nan=y[2, 0])",
    "nan_to_num by position": "np.nan_to_num(y.T, False)[0] = 1.5",
    "assigned real part": "c = y * 1j\nz = c[1:]\nc.real = y[0]\nz.real[0] *= 2\ny = y + np.abs(z[0])",
    "assigned imaginary part": "c = y + 0j\nz = c.imag\nc.imag = y.T\nc.T.imag[0] = 1.5\ny = y + np.abs(c) * z",
    "assigned real part of real numbers": "y[1:].real = [1.5, y[0, 0], 2, y[3, 3]]",
    "assigned elements": "z = y[0]\ny.T.flat = y[1] * 1\nz.flat = 1.5",
    "elements of another": "y.flat = (y.T * 2).flat",
    "assigned elements, too many": "y[2].flat = y.T * 2", "its own elements": "y.T.flat = y[1]",
    "assigned shape": "y.shape = 4, -1\nz = y.reshape((2, 8))\nz[0] = 1.5",
    "sort rows": "y.sort(axis=0)",
    "matmul in place": "y @= y.T",
    "matmul into a view": "y[:2] = y[:2] @ y",
    "imag": "c = y * 1j\nz = c.imag\nz[0] = 1.5\ny = y + np.imag(c)",
    "real of complex": "c = y + 0j\nz = c.real\nz[0] = 1.5\ny = np.real(c)",
    "conj": "z = y.conj()\nz[0] = 1.5",
    "np.conj is a copy": "z = np.conj(y)\nz[0] = 1.5",
    "asanyarray": "z = np.asanyarray(y)\nz[0] = 1.5",
    "asfortranarray is a copy": "z = np.asfortranarray(y)\nz[0] = 1.5",
    "require": "z = np.require(y)\nz[0] = 1.5",
    "array, copy=False": "z = np.array(y, copy=False)\nz[0] = 1.5",
    "asarray_chkfinite": "z = np.asarray_chkfinite(y)\nz[0] = 1.5",
    "vsplit": "z, u = np.vsplit(y, 2)\nu[0] = 1.5",
    "split, read after a write": "z, u = np.split(y, 2)\ny[0] = 1.5\ny = y + np.sum(z * z)",
    "real, read after a write": "z = y.real\ny[0] = 1.5\ny = y + np.sum(z * z)",
    "unpacked rows": "a, b, c, d = y\na[:] = 1.5\nb += a",
    "list of rows": "rows = list(y)\nrows[0][:] = 1.5",
    "zip of rows": "for a, b in zip(y, y[::-1]):\n    a += b",
    "map": "[*map(lambda r: r.fill(1.5), y[:2])]",
    "permute_dims": "z = np.permute_dims(y)\nz[0] = 1.5",
    "matrix_transpose": "z = np.matrix_transpose(y)\nz[0] = 1.5",
    "mT": "z = y.mT\nz[0] = 1.5",
    "linalg.matrix_transpose": "z = np.linalg.matrix_transpose(y)\nz[0] = 1.5",
    "linalg.diagonal": "z = np.linalg.diagonal(y)\ny[0] = 1.5\ny = y + np.sum(z * z)",
    "diag": "z = np.diag(y)\ny[0] = 1.5\ny = y + np.sum(z * z)",
    "einsum view": "z = np.einsum('ii->i', y)\nz[:] = 1.5",
    "einsum transpose": "z = np.einsum('ij->ji', y)\nz[0] = 1.5",
    "rollaxis": "z = np.rollaxis(y, 1)\nz[0] = 1.5",
    "fliplr": "z = np.fliplr(y)\nz[0] = 1.5",
    "view()": "z = y.view()\nz[0] = 1.5",
    "atleast_1d of two": "z, u = np.atleast_1d(y, y[0])\nz[1] = 1.5\nu[:] = 2",
    "meshgrid": "z, u = np.meshgrid(y[0], y[1], copy=False)\ny[0] = 1.5\ny = y + np.sum(z * u)",
    "meshgrid is a copy": "z, u = np.meshgrid(y[0], y[1])\ny[0] = 1.5\ny = y + np.sum(z * u)",
    "trim_zeros": "z = np.trim_zeros(y[0])\nz[0] = 1.5",
    "real_if_close": "z = np.real_if_close(y)\nz[0] = 1.5",
    "reshape in order F": "z = y.reshape(16, order='F')\nz[0] = 1.5",
    "copyto": "np.copyto(y[1], y[0])",
    "put": "np.put(y, [0, 1], y[3, :2])",
    "place": "np.place(y, y > 1, y[0] * 2)", "place of its own values": "np.place(y, y > 0.1, y[0, ::-1])",
    "putmask": "np.putmask(y, y > 1, y.T)",
    "put_along_axis": "np.put_along_axis(y, np.array([[0]]), y[:1], 0)",
    "fill_diagonal": "np.fill_diagonal(y.T, y[0])",
    "partition": "y.partition(1, axis=0)",
    "sum over a written view": "z = y.T[0]\nfor i in range(4):\n    z[i] = np.sum(y)",
    "unstack": "z, *rest = np.unstack(y)\nz[:] = 1.5",
    "reshape, copy=True": "z = np.reshape(y, 16, copy=True)\nz[0] = 1.5",
}  # fmt: skip

REFUSED = {
    "windows that overlap", "place of its own values", "its own elements",
}  # fmt: skip


def statement(text: str, parameter: str) -> Function:
    """The function that runs these statements on its argument y, or on a copy of its argument x."""
    names: dict[str, Any] = {"np": np, "__name__": "user_module"}
    lines = [f"def f({parameter}):", "y = x.copy()" if parameter == "x" else "x = y * 2", *text.splitlines()]
    exec("\n    ".join([*lines, "return np.sum(y ** 2 * x[:, ::-1]) + np.sum(np.sin(y[::2]))"]), names)
    return names["f"]  # type: ignore[no-any-return]


def inputs() -> list[np.ndarray]:
    """Three arguments."""
    rng = np.random.default_rng(0)
    return [rng.uniform(0.3, 2, (4, 4)) for _ in range(3)]


@pytest.mark.singly("on")
@pytest.mark.parametrize("on", ["copy", "argument"])
@pytest.mark.parametrize("name", [name for name in STATEMENTS if name not in REFUSED])
def test_writes_that_read_what_they_change(name: str, on: str) -> None:
    """What a write changes in the argument itself stays within the function: ``agree`` compares that as well."""
    rounds(statement(STATEMENTS[name], "x" if on == "copy" else "y"), *inputs())


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_followed_is_refused_at_every_call(name: str) -> None:
    for x in [*inputs(), *inputs()]:
        with pytest.raises((MissingRuleError, LostDerivativeError, MutationError)):
            rounds(statement(STATEMENTS[name], "x"), x)
