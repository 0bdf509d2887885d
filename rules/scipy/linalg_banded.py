"""Matrices of bands of ``scipy.linalg``: ``ab[above + i - j, j] = a[i, j]``. Formulas: those of full matrices, in the
elements that are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.registry.registry import Sample, case
from yota_py.registry.tangents import conj

from ..decompositions import cholesky_cotangent
from ..linalg import adjoint
from ..matrices import real
from ..support import Pullback, inexact, shape_of
from .linalg import ruled


def _places(below: int, above: int, n: int) -> tuple[Any, Any, Any]:
    """The rows and columns of the stored elements, and which of them are elements of the matrix."""
    rows = np.arange(-above, below + 1)[:, None] + np.arange(n)
    inside = np.logical_and(rows >= 0, rows < n)
    return np.where(inside, rows, 0), np.broadcast_to(np.arange(n), rows.shape), inside


def band_of(a: Any, below: int, above: int) -> Any:
    """The bands of a matrix, and zeros outside of it."""
    rows, columns, inside = _places(below, above, shape_of(a)[-1])
    return np.where(inside, a[..., rows, columns], 0)


def dense_of(ab: Any, below: int, above: int) -> Any:
    """The matrix that has these bands."""
    n = shape_of(ab)[-1]
    rows = above + np.arange(n)[:, None] - np.arange(n)
    inside = np.logical_and(rows >= 0, rows <= below + above)
    return np.where(inside, ab[..., np.where(inside, rows, 0), np.arange(n)], 0)


def adjoint_band(ab: Any, below: int, above: int) -> Any:
    """The bands of the adjoint matrix, of which there are ``above`` below and ``below`` above."""
    rows, _, inside = _places(above, below, shape_of(ab)[-1])
    places = np.broadcast_to(np.arange(below + above, -1, -1)[:, None], rows.shape)
    return np.where(inside, conj(ab[..., places, rows]), 0)


def product_band(x: Any, y: Any, below: int, above: int) -> Any:
    """The bands of ``X Y^H``."""
    rows, columns, inside = _places(below, above, shape_of(x)[-2])
    return np.where(inside, np.sum(np.multiply(x[..., rows, :], conj(y[..., columns, :])), -1), 0)


@ruled("solve_banded", cases=lambda s: [
    *(case(bands, _ab(s, sum(bands) + 1, 4, main=bands[1]), b) for bands in ((1, 1), (2, 1), (0, 1), (1, 0), (0, 2))
      for b in (s(4), s(4, 2))),
    case((1, 1), _ab(s, 3, 3, dtype=np.complex128), s(3)), case((1, 1), _ab(s, 3, 3), s(3, dtype=complex)),
    case([1, 1], _ab(s, 3, 3, dtype=np.float32), s(3, dtype=np.float32), False, False, False),
    case((0, 0), _ab(s, 1, 3, main=0), s(3)), case((1, 1), _ab(s, 2, 3, 3), s(2, 3, 1)),
])  # fmt: skip
def solve_banded(
    l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``solve_banded``: ``dB = A^-H dX``, ``dA = -dB X^H`` (Giles 2.3.1)."""
    below, above = map(int, l_and_u)
    ab, b = inexact(ab), inexact(b)
    x = solve_banded((below, above), ab, b, check_finite=check_finite)

    def pullback(dx: Any) -> tuple[Any, ...]:
        db = solve_banded((above, below), adjoint_band(ab, below, above), dx, check_finite=False)
        return None, product_band(np.negative(_columns(db, b)), _columns(x, b), below, above), db

    return x, pullback


def _columns(x: Any, b: Any) -> Any:
    return x[..., None] if len(shape_of(b)) == 1 else x


def _ab(s: Sample, *shape: int, main: int = 1, dtype: Any = np.float64) -> Any:
    """The bands of a matrix whose inverse is harmless."""
    return np.asarray(s(*shape, low=-0.5, high=0.5, dtype=dtype) + 2 * (np.arange(shape[-2]) == main)[:, None], dtype)


def _halves(lower: bool, ab: Any) -> tuple[int, int]:
    """How many bands a triangle has below and above the diagonal."""
    more = shape_of(ab)[-2] - 1
    return (more, 0) if lower else (0, more)


@ruled("solveh_banded", cases=lambda s: [
    *(case(_ab(s, k, 4, main=0 if lower else k - 1), b, lower=lower) for k in (1, 2, 3) for lower in (False, True)
      for b in (s(4), s(4, 2))),
    *(case(_ab(s, 2, 3, main=not lower, dtype=np.complex128), s(3), lower=lower) for lower in (False, True)),
    case(_ab(s, 2, 3, dtype=np.float32), s(3, dtype=np.float32), True, True, False, False), case(_ab(s, 2, 2, 3), s(3)),
])  # fmt: skip
def solveh_banded(
    ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False,
    check_finite: bool = True,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``solveh_banded``: as ``solve_banded``, of the triangle that is read."""
    ab, b = inexact(ab), inexact(b)
    x = solveh_banded(ab, b, lower=lower, check_finite=check_finite)

    def pullback(dx: Any) -> tuple[Any, ...]:
        db = solveh_banded(ab, _columns(dx, b), lower=lower, check_finite=False)
        columns = _columns(x, b)
        return _of_hermitian(db, columns, lower, ab), db[..., 0] if len(shape_of(b)) == 1 else db

    return x, pullback


def _of_hermitian(db: Any, x: Any, lower: bool, ab: Any) -> Any:
    """The bands of ``-dB X^H``, and of its adjoint but for the diagonal, which is real."""
    bands = _halves(lower, ab)
    both = np.add(product_band(db, x, *bands), product_band(x, db, *bands))
    main = np.arange(shape_of(ab)[-2])[:, None] == (0 if lower else shape_of(ab)[-2] - 1)
    return np.negative(np.where(main, real(both) / 2, both))


@ruled("cholesky_banded", cases=lambda s: [
    *(case(_ab(s, k, 4, main=0 if lower else k - 1), lower=lower) for k in (1, 2, 3) for lower in (False, True)),
    *(case(_ab(s, 2, 3, main=not lower, dtype=np.complex128), lower=lower) for lower in (False, True)),
    case(_ab(s, 2, 3, dtype=np.float32), True, False, False), case(_ab(s, 2, 2, 3)),
])  # fmt: skip
def cholesky_banded(
    ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``cholesky_banded``: that of the whole matrix, in its bands; what is stored outside of the matrix stays there."""
    y = cholesky_banded(ab, lower=lower, check_finite=check_finite)
    bands = _halves(lower, ab)

    def pullback(dy: Any) -> tuple[Any, ...]:
        da = cholesky_cotangent(dense_of(y, *bands), dense_of(dy, *bands), not lower)
        inside = _places(*bands, shape_of(ab)[-1])[2]
        return (np.where(inside, band_of(da, *bands), dy),)

    return y, pullback


@ruled("cho_solve_banded", cases=lambda s: [
    *(case((_ab(s, k, 4, main=0 if lower else k - 1), lower), b) for k in (1, 2) for lower in (False, True)
      for b in (s(4), s(4, 2))),
    *(case((_ab(s, 2, 3, main=not lower, dtype=np.complex128), lower), s(3)) for lower in (False, True)),
    case([_ab(s, 2, 3, dtype=np.float32), False], s(3, dtype=np.float32), False, False),
    case((_ab(s, 2, 2, 3), False), s(3)),
])  # fmt: skip
def cho_solve_banded(
    cb_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``cho_solve_banded``: as ``cho_solve``, where ``dA + dA^H`` is a product of few columns."""
    cb, lower = cb_and_lower
    cb, b = inexact(cb), inexact(b)
    x = cho_solve_banded((cb, lower), b, check_finite=check_finite)
    bands = _halves(lower, cb)

    def pullback(dx: Any) -> tuple[Any, ...]:
        db, columns = cho_solve_banded((cb, lower), _columns(dx, b), False, False), _columns(x, b)
        both, swapped = np.concatenate([db, columns], -1), np.concatenate([columns, db], -1)
        factor = dense_of(cb, *bands)
        if lower:
            swapped = np.matmul(adjoint(factor), swapped)
        else:
            both = np.matmul(factor, both)
        return (np.negative(product_band(both, swapped, *bands)), None), db[..., 0] if len(shape_of(b)) == 1 else db

    return x, pullback
