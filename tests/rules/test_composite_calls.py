"""Calls of composites that the registered cases do not make: keywords, lists, ties, empty arrays, gradients within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import ALL, agree

from yota_py import grad

A = np.arange(6.0).reshape(2, 3) + 0.3

CALLS: dict[str, Callable[[Any], Any]] = {
    "dot kw": lambda x: np.dot(b=x, a=A).sum(),
    "dot list": lambda x: np.dot([1.0, 2.0, 3.0], x),
    "dot 0d": lambda x: np.dot(x[0], x).sum(),
    "diff prepend": lambda x: (np.diff(x, prepend=x[0], append=[x[1], 2.0]) ** 2).sum(),
    "diff n2": lambda x: (np.diff(x, n=2) ** 2).sum(),
    "diff empty": lambda x: np.diff(x[:0]).sum() + x.sum(),
    "ptp ties": lambda x: np.ptp(np.stack([x, x])),
    "take mode": lambda x: (np.take(x, [5, -1], mode="wrap") ** 2).sum(),
    "take clip": lambda x: (np.take(x, [5, 0], mode="clip") ** 2).sum(),
    "repeat": lambda x: (np.repeat(x, repeats=[1, 0, 2]) ** 2).sum(),
    "tile kw": lambda x: (np.tile(A=x, reps=(2, 2)) ** 2).sum(),
    "pad": lambda x: (np.pad(x, (1, 2), constant_values=3.0) ** 2).sum(),
    "pad reflect": lambda x: (np.pad(x, 2, mode="reflect") ** 2).sum(),
    "sort": lambda x: (np.sort(x) * np.arange(3.0)).sum(),
    "sort ties": lambda x: (np.sort(np.concatenate([x, x])) * np.arange(6.0)).sum(),
    "average": lambda x: np.average(x, weights=x**2),
    "average ret": lambda x: np.average(A * x, axis=1, weights=x**2, returned=True)[0].sum(),
    "trapezoid": lambda x: np.trapezoid(x**2, x=x),
    "trapezoid dx": lambda x: np.trapezoid(x**2, dx=x[0]),
    "nanmean": lambda x: np.nanmean(np.where(x > 0, x, np.nan)),
    "nansum initial": lambda x: np.nansum(A, initial=x[0]) + np.nansum(A, 1, initial=x[1], where=A > 1).sum(),
    "einsum": lambda x: np.einsum("ij,j->i", A, x).sum(),
    "einsum trace": lambda x: np.einsum("ii->", np.outer(x, x)),
    "tensordot": lambda x: np.tensordot(A, x, axes=([1], [0])).sum(),
    "kron": lambda x: np.kron(x, A).sum(),
    "inner": lambda x: np.inner(x, A).sum(),
    "multi_dot": lambda x: np.linalg.multi_dot([A, np.outer(x, x), A.T]).sum(),
    "mp": lambda x: np.linalg.matrix_power(np.outer(x, x) + np.eye(3) * 3, -2).sum(),
    "mp0": lambda x: np.linalg.matrix_power(np.outer(x, x), 0).sum() + x[0],
    "delete": lambda x: (np.delete(x, 1) ** 2).sum(),
    "split": lambda x: sum((p**2).sum() for p in np.array_split(x, 2)),
    "triu": lambda x: (np.triu(np.outer(x, x))).sum(),
    "diag": lambda x: (np.diag(x, 1) ** 2).sum(),
    "meshgrid": lambda x: (np.meshgrid(x, x * 2)[0] * np.meshgrid(x, x * 2)[1]).sum(),
    "append": lambda x: (np.append(x, values=[x[0], 1.0]) ** 2).sum(),
    "linspace": lambda x: (np.linspace(x[0], x[1], num=4) ** 2).sum(),
    "linspace arr": lambda x: (np.linspace(x, 2 * x, 3, endpoint=False, axis=-1) ** 2).sum(),
    "full": lambda x: (np.full((2, 3), x) ** 2).sum(),
    "angle": lambda x: np.angle(x + 1j * x[0], deg=True).sum(),
    "matmul self": lambda x: (np.outer(x, x) @ np.outer(x, x)).sum(),
    "copy K": lambda x: (np.copy(x, order="F") ** 2).sum(),
    "eigvalsh": lambda x: np.linalg.eigvalsh(np.outer(x, x) + np.diag([1.0, 2, 3]), UPLO="U").max(),
    "cross": lambda x: (np.cross(x, [1.0, 2.0, 3.0]) ** 2).sum(),
    "nested": lambda x: grad(lambda y: np.dot(y, y) * np.ptp(y), x)[1][0].sum(),
    "nested diff": lambda x: (grad(lambda y: (np.diff(y) ** 3).sum(), x)[1][0] ** 2).sum(),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, every_policy: None) -> None:
    for i in range(3):
        agree(CALLS[name], np.array([1.5, -2.0, 0.7]) + i / 10, against=ALL)
