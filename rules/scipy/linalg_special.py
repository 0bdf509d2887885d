"""Special matrices of ``scipy.linalg``, and what solves with them.

Most are a vector at given places: their value is SciPy's own, their derivative that of the index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import linalg

from yota_py.registry.composites import rule_of_body
from yota_py.registry.patches import makes_constants
from yota_py.registry.registry import Cases, Sample, case, primitive, rrule, vjps
from yota_py.registry.tangents import conj

from ..linalg import adjoint
from ..support import Pullback, dtype_of, inexact, operand, shape_of, unsupported
from .linalg import ruled, stand_in


def _at(places: Any, *vectors: Any) -> Any:
    """The numbers of some vectors, one behind the other, at these places."""
    vectors = tuple(map(operand, vectors))
    lead = np.broadcast_shapes(*(shape_of(v)[:-1] for v in vectors))
    whole = [v if shape_of(v)[:-1] == lead else np.broadcast_to(v, (*lead, shape_of(v)[-1])) for v in vectors]
    return np.concatenate(whole, -1)[..., places]


def _made(name: str, cases: Cases, lowered: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator for the body of a function of arrays, whose value is SciPy's own while it is not compiled."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        fn = stand_in(name)

        def rule(*args: Any, **kwargs: Any) -> tuple[Any, Pullback]:
            y = fn(*args, **kwargs)
            of_body, back = rule_of_body(body, args, kwargs)
            if shape_of(of_body) != shape_of(y):
                raise unsupported(f"scipy.linalg.{name} of arrays of these shapes", "Pass vectors")
            return y, back

        rrule(fn, fails=True, lowering=body if lowered else None, cases=cases)(rule)
        return body

    return register


def _grid(m: int, n: int) -> tuple[Any, Any]:
    return np.arange(m)[:, None], np.arange(n)


@_made("toeplitz", cases=lambda s: [
    case(s(3)), case(s(3), s(4)), case(s(3), s(2)), case(s(2, dtype=complex)), case(s(2, dtype=complex), s(3)),
    case(s(3), [1, 2]), case([1.0, 2.0], s(3)), case(s(2, dtype=np.float32)), case(s(1), s(3)), case(1.5),
    case(s(2, 3), s(2)),
])  # fmt: skip
def toeplitz(c: Any, r: Any = None) -> Any:
    c = np.atleast_1d(operand(c))
    r = conj(c) if r is None else np.atleast_1d(operand(r))
    i, j = _grid(shape_of(c)[-1], shape_of(r)[-1])
    return _at(len(i) - 1 - i + j, c[..., ::-1], r[..., 1:])


@_made("hankel", cases=lambda s: [
    case(s(3)), case(s(3), s(4)), case(s(2, dtype=complex), s(3)), case(s(3), [1, 2]), case(s(2, dtype=np.float32)),
])  # fmt: skip
def _hankel(c: Any, r: Any = None) -> Any:
    c = np.ravel(operand(c))
    r = np.zeros_like(c) if r is None else np.ravel(operand(r))
    i, j = _grid(shape_of(c)[-1], shape_of(r)[-1])
    return _at(i + j, c, r[1:])


@_made("circulant", cases=lambda s: [
    case(s(3)), case(s(2, dtype=complex)), case(s(2, 3)), case(s(1)), case(s(4)[::-1]), case(s(2, dtype=np.float32)),
])  # fmt: skip
def _circulant(c: Any) -> Any:
    c = np.atleast_1d(operand(c))
    i, j = _grid(shape_of(c)[-1], shape_of(c)[-1])
    return _at((i - j) % len(i), c)


def _with_zero(v: Any, *first: float) -> Any:
    """Zero, and other constants, before the numbers of a vector."""
    before = np.array([0, *first], dtype_of(v))
    return np.concatenate([np.broadcast_to(before, (*shape_of(v)[:-1], before.size)), v], -1)


def _monic(a: Any) -> Any:
    """Zero, one and the coefficients of a polynomial with the first one one, with the opposite sign."""
    a = inexact(a)
    return _with_zero(np.negative(np.divide(a[..., 1:], a[..., :1])), 1)


@_made("companion", lowered=False, cases=lambda s: [
    case(s(4, low=1)), case(s(2, low=1)), case(s(3, low=1, dtype=complex)), case(s(2, 3, low=1)),
    case(s(3, low=1, dtype=np.float32)),
])  # fmt: skip
def _companion(a: Any) -> Any:
    v = _monic(a)
    n = shape_of(v)[-1] - 2
    places = np.eye(n, k=-1, dtype=int)
    places[0] = np.arange(2, n + 2)
    return _at(places, v)


@_made("fiedler_companion", lowered=False, cases=lambda s: [
    *(case(s(k, low=1)) for k in (2, 3, 4, 7)), case(s(2, 4, low=1)), case(s(3, low=1, dtype=complex)),
])  # fmt: skip
def _fiedler_companion(a: Any) -> Any:
    """The places as SciPy has them, found by a polynomial of numbers that tell which they are."""
    v = _monic(a)
    n = shape_of(v)[-1] - 2
    if n == 1:
        return _at(np.array([[2]]), v)
    found = linalg.fiedler_companion(np.array([1.0, *-np.arange(2.0, n + 2)]))
    return _at(found.astype(int), v)


@_made("leslie", cases=lambda s: [
    case(s(3), s(2)), case(s(2), s(1)), case(s(2, 3), s(2)), case(s(3, dtype=complex), s(2)), case([1.0, 2.0], s(1)),
])  # fmt: skip
def _leslie(f: Any, s: Any) -> Any:
    f = operand(f)
    n = shape_of(f)[-1]
    places = np.diag(np.arange(n + 1, 2 * n), -1)
    places[0] = np.arange(1, n + 1)
    return _at(places, _with_zero(f), s)


@_made("convolution_matrix", cases=lambda s: [
    *(case(s(m), n, mode) for m, n in ((3, 4), (4, 2), (1, 3)) for mode in ("full", "same", "valid")),
    case(s(3, dtype=complex), 2), case(s(2, 3), 2), case(s(2, dtype=np.float32), n=3, mode="same"),
])  # fmt: skip
def _convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    a = operand(a)
    m = shape_of(a)[-1]
    i, j = _grid(m + n - 1, n)
    places = np.where(np.logical_and(i >= j, i < j + m), 1 + i - j, 0)
    most = {"full": 0, "same": (min(m, n) - 1) // 2, "valid": min(m, n) - 1}[mode]
    last = most if mode != "same" else min(m, n) - 1 - most
    return _at(places[most : len(places) - last], _with_zero(a))


@_made("diagsvd", cases=lambda s: [case(s(2), 2, 3), case(s(2), 3, 2), case(s(2), 2, 2), case(s(2, 2), 2, 3)])
def _diagsvd(s: Any, M: int, N: int) -> Any:
    places = np.zeros((M, N), int)
    np.fill_diagonal(places, np.arange(1, min(M, N) + 1))
    return _at(places, _with_zero(operand(s)))


@_made("fiedler", cases=lambda s: [case(s(3)), case(s(2, dtype=complex)), case(s(2, 3)), case(s(0))])
def _fiedler(a: Any) -> Any:
    a = np.atleast_1d(inexact(a))
    return a if shape_of(a)[-1] == 0 else np.absolute(np.subtract(a[..., :, None], a[..., None, :]))


@_made("khatri_rao", cases=lambda s: [
    case(s(2, 3), s(4, 3)), case(s(2, 2, 3), s(1, 3)), case(s(2, 1, dtype=complex), s(1, 1)),
    case(s(2, 3).T[:2], s(2, 2).T),
])  # fmt: skip
def _khatri_rao(a: Any, b: Any) -> Any:
    a, b = operand(a), operand(b)
    y = np.multiply(a[..., :, None, :], b[..., None, :, :])
    return np.reshape(y, (*shape_of(y)[:-3], -1, shape_of(y)[-1]))


@_made("block_diag", cases=lambda s: [
    case(s(2, 2), s(1, 3)), case(s(2), s(2, 1), 3.0), case(s(2, 2)), case(s(2, 2, 2), s(1, 1)), case(s(2, 0), s(1, 2)),
    case(s(2, 2, dtype=complex), s(1, 1)), case(s(2, 2, dtype=np.float32), s.integers(1, 2, high=3)),
    case([[1.0, 2.0]], s.number()),
])  # fmt: skip
def _block_diag(*arrs: Any) -> Any:
    blocks = [np.atleast_2d(operand(a)) for a in arrs]
    lead = np.broadcast_shapes(*(shape_of(a)[:-2] for a in blocks))
    dtype = np.result_type(*map(dtype_of, blocks))
    widths = [shape_of(a)[-1] for a in blocks]
    rows = []
    for k, a in enumerate(blocks):
        a = a if shape_of(a)[:-2] == lead else np.broadcast_to(a, (*lead, *shape_of(a)[-2:]))
        before, after = (np.zeros((*shape_of(a)[:-1], sum(part)), dtype) for part in (widths[:k], widths[k + 1 :]))
        rows.append(np.concatenate([before, a, after], -1))
    return np.concatenate(rows, -2)


# ------------------------------------------------------------------------------- systems of special matrices


def _column_and_row(c_or_cr: Any) -> tuple[Any, Any]:
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return inexact(c), None if r is None else inexact(r)


def _of_adjoint(c: Any, r: Any) -> tuple[Any, Any]:
    """The first column and row of the adjoint of ``toeplitz(c, r)``."""
    r = conj(c) if r is None else r
    first = np.broadcast_to(c[..., :1], (*shape_of(r)[:-1], 1))
    return conj(np.concatenate([first, r[..., 1:]], -1)), conj(c)


def _toeplitz_cotangent(c_or_cr: Any, left: Any, right: Any) -> Any:
    """The cotangents of column and row, from ``left right^H`` as that of the matrix."""
    c, r = _column_and_row(c_or_cr)
    if len(shape_of(left)) == 1:
        left, right = left[:, None], right[:, None]
    dc, *dr = rule_of_body(toeplitz, [c] if r is None else [c, r])[1](np.matmul(left, adjoint(right)))
    return (dc, *dr) if isinstance(c_or_cr, tuple) else dc


def _large_first(s: Sample, *shape: int, dtype: Any = np.float64) -> Any:
    """Vectors that make matrices with a harmless inverse."""
    return np.asarray(s(*shape, dtype=dtype) + 3 * (np.arange(shape[-1]) == 0), dtype)


@ruled("solve_toeplitz", cases=lambda s: [
    case(_large_first(s, 3), s(3)), case((_large_first(s, 3), s(3)), s(3)), case((_large_first(s, 3), s(3)), s(3, 2)),
    case(_large_first(s, 3, dtype=complex), s(3)), case((_large_first(s, 2), s(2, dtype=complex)), s(2, dtype=complex)),
    case((_large_first(s, 2, dtype=np.float32), [1, 2]), s(2, dtype=np.float32), False),
    case(_large_first(s, 2, 2), s(2, 2, 1)),
])  # fmt: skip
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> tuple[Any, Pullback]:
    """``solve_toeplitz``: ``dB = T^-H dX``, ``dT = -dB X^H`` (Giles 2.3.1), summed along diagonals."""
    x = solve_toeplitz(c_or_cr, b, check_finite)

    def pullback(dx: Any) -> tuple[Any, ...]:
        db = solve_toeplitz(_of_adjoint(*_column_and_row(c_or_cr)), dx, False)
        return _toeplitz_cotangent(c_or_cr, np.negative(db), x), db

    return x, pullback


@ruled("matmul_toeplitz", cases=lambda s: [
    case(s(3), s(3)), case((s(3), s(4)), s(4)), case((s(3), s(2)), s(2, 2)), case((s(2, dtype=complex), s(3)), s(3)),
    case((s(3), [1, 2]), s(2, dtype=complex)), case((s(2), s(2, dtype=np.float32)), s(2), True, 1),
    case(s(2, dtype=complex), s(2)),
])  # fmt: skip
def matmul_toeplitz(c_or_cr: Any, x: Any, check_finite: bool = False, workers: Any = None) -> tuple[Any, Pullback]:
    """``matmul_toeplitz``: ``dX = T^H dY``, ``dT = dY X^H`` (Giles 2.2.1), summed along diagonals."""
    y = matmul_toeplitz(c_or_cr, x, check_finite, workers)

    def pullback(dy: Any) -> tuple[Any, ...]:
        dx = matmul_toeplitz(_of_adjoint(*_column_and_row(c_or_cr)), dy, False, workers)
        return _toeplitz_cotangent(c_or_cr, dy, inexact(x)), dx

    return y, pullback


_solve_circulant = linalg.solve_circulant


@primitive
def circulant_system(c: Any, b: Any) -> Any:
    """``solve_circulant`` along the last axes."""
    return _solve_circulant(c, b, caxis=-1, baxis=-1, outaxis=-1)


def _circulant_column(dy: Any, y: Any, c: Any, b: Any) -> Any:
    i, j = _grid(shape_of(c)[-1], shape_of(c)[-1])
    db = circulant_system(*_reflected(c, dy))
    return np.negative(np.sum(np.multiply(db[..., (i + j) % len(i)], conj(y)[..., None, :]), -1))


def _reflected(c: Any, dy: Any) -> tuple[Any, Any]:
    """The column of the adjoint matrix."""
    return conj(np.roll(c[..., ::-1], 1, -1)), dy


vjps(circulant_system, _circulant_column, lambda dy, y, c, b: circulant_system(*_reflected(c, dy)), fails=True,
     cases=lambda s: [
    case(_large_first(s, 3), s(3)), case(_large_first(s, 2, 3), s(3)), case(_large_first(s, 3), s(2, 3)),
    case(_large_first(s, 3, dtype=complex), s(3)),
])  # fmt: skip


@ruled("solve_circulant", cases=lambda s: [
    case(_large_first(s, 3), s(3)), case(_large_first(s, 3), s(3, 2)), case(_large_first(s, 2, 3), s(3)),
    case(_large_first(s, 2, 3).T, s(3), caxis=0), case(_large_first(s, 3), s(2, 3), baxis=1, outaxis=-1),
    case(_large_first(s, 2, dtype=complex), s(2)),
])  # fmt: skip
def solve_circulant(
    c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0, outaxis: int = 0
) -> tuple[Any, Pullback]:
    """``solve_circulant`` of regular matrices."""
    if singular != "raise":
        raise unsupported(f"scipy.linalg.solve_circulant with singular={singular!r}", "Use scipy.linalg.lstsq")

    def body(c: Any, b: Any) -> Any:
        x = circulant_system(np.moveaxis(np.atleast_1d(c), caxis, -1), np.moveaxis(np.atleast_1d(b), baxis, -1))
        return np.moveaxis(x, -1, outaxis)

    y = solve_circulant(c, b, singular, tol, caxis, baxis, outaxis)
    return y, rule_of_body(body, [operand(c), operand(b)])[1]


makes_constants(linalg, "hilbert", "invhilbert", "pascal", "invpascal", "dft", "hadamard", "helmert")
