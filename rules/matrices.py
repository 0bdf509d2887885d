"""What rules of linear algebra share: parts of matrices, and stacks of matrices for test cases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry.registry import Case, Sample, case

from .linalg import adjoint
from .support import dtype_of, shape_of, zero_over_zero


def diagonal_matrix(d: Any) -> Any:
    """Matrices with these diagonals."""
    return np.multiply(d[..., None], np.eye(shape_of(d)[-1], dtype=dtype_of(d)))


def halved(n: int, dtype: Any, upper: bool = False) -> Any:
    """Ones in a triangle, one half on the diagonal."""
    ones = np.tri(n, dtype=dtype) - np.eye(n, dtype=dtype) / 2
    return ones.T if upper else ones


def of_triangle(dh: Any, upper: bool = False) -> Any:
    """The cotangent of what one triangle is read of, from that of the Hermitian matrix that it stands for.

    The other triangle is the conjugate of the one that is read, and the diagonal is taken to be real.
    """
    return np.multiply(np.add(dh, adjoint(dh)), halved(shape_of(dh)[-1], real_dtype(dh), upper))


def hermitian(a: Any, upper: bool = False) -> Any:
    """The Hermitian matrix that a triangle of ``a`` stands for."""
    part = np.triu(a, 1) if upper else np.tril(a, -1)
    return np.add(np.add(part, adjoint(part)), diagonal_matrix(real(np.diagonal(a, 0, -2, -1))))


def real(x: Any) -> Any:
    return np.real(x) if dtype_of(x).kind == "c" else x


def well_conditioned(s: Sample, *shape: int, dtype: Any = np.float64) -> Any:
    """A random matrix (or a stack of them) whose inverse is harmless."""
    return np.asarray(s(*shape, low=-0.5, high=0.5, dtype=dtype) + 2 * np.eye(shape[-2], shape[-1]), dtype)


def square_cases(s: Sample) -> Iterable[Case]:
    return [
        case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 2, 3, 3)), case(well_conditioned(s, 1, 1)),
        case(well_conditioned(s, 3, 3).T), case(well_conditioned(s, 2, 2, dtype=np.float32)),
        case(well_conditioned(s, 3, 3, dtype=np.complex128)), case(np.zeros((0, 2, 2))),
    ]  # fmt: skip


def differences(w: Any) -> Any:
    """``1 / (w[j] - w[i])``, zero on the diagonal and for equal values, which so are left out."""
    return zero_over_zero(1, np.subtract(w[..., None, :], w[..., :, None]))


def split_columns(a: Any, n: int) -> tuple[Any, Any]:
    """The first ``n`` columns and the others, ``None`` if there are none."""
    return (a, None) if shape_of(a)[-1] == n else (a[..., :n], a[..., n:])


def skew(a: Any) -> Any:
    return np.subtract(a, adjoint(a))


def spread_out(s: Sample, *shape: int, dtype: Any = np.float64) -> Any:
    """A random matrix with singular values far apart."""
    stretch = np.diag(np.arange(1.0, shape[-1] + 1))
    return np.asarray(well_conditioned(s, *shape, dtype=dtype) @ stretch, dtype)


def real_dtype(x: Any) -> Any:
    return np.finfo(dtype_of(x)).dtype
