"""Equations for matrices of ``scipy.linalg``: Sylvester's, Lyapunov's and Riccati's.

Formulas: Kao and Hennequin 2020, "Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati equations".
With Z the solution of the adjoint equation, the cotangents are those of the equation's terms with X held fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import linalg

from yota_py.registry.composites import rule_of_body
from yota_py.registry.patches import patch
from yota_py.registry.registry import Case, Sample, case
from yota_py.registry.tangents import astype

from ..linalg import adjoint
from ..matrices import well_conditioned
from ..support import Pullback, dtype_of, inexact
from .linalg import ruled, where_finite


def _products(*matrices: Any) -> Any:
    out = matrices[0]
    for matrix in matrices[1:]:
        out = np.matmul(out, matrix)
    return out


@ruled("solve_sylvester", cases=lambda s: [
    case(well_conditioned(s, 3, 3), well_conditioned(s, 2, 2), s(3, 2)), case(np.eye(2), np.eye(2), s(2, 2)),
    case(*(well_conditioned(s, 2, 2, dtype=np.complex128) for _ in range(3))),
    case(*(s(1, 1, low=1) for _ in range(3))),
    case(well_conditioned(s, 2, 2, 2), well_conditioned(s, 2, 2), s(2, 2, 2)),
    case(well_conditioned(s, 2, 2, dtype=complex), s(1, 1, low=1), s(2, 1)),
    case(*(well_conditioned(s, 2, 2, dtype=np.float32) for _ in range(3))),
])  # fmt: skip
def solve_sylvester(a: Any, b: Any, q: Any) -> tuple[Any, Pullback]:
    """``A X + X B = Q``: ``A^H Z + Z B^H = dX``, ``dQ = Z``, ``dA = -Z X^H``, ``dB = -X^H Z``."""
    a, b, q = map(inexact, (a, b, q))
    x = solve_sylvester(a, b, q)

    def pullback(dx: Any) -> tuple[Any, ...]:
        dtype = np.result_type(*map(dtype_of, (a, b, dx)))  # SciPy's answer is wrong where only some are complex
        z = solve_sylvester(*(astype(m, dtype) for m in (adjoint(a), adjoint(b), dx)))
        return np.negative(np.matmul(z, adjoint(x))), np.negative(np.matmul(adjoint(x), z)), z

    return x, pullback


def _lyapunov_cases(s: Sample) -> Iterable[Case]:
    return [
        case(well_conditioned(s, 3, 3) / 5, s(3, 3)), case(well_conditioned(s, 2, 2, dtype=np.complex128) / 3, s(2, 2)),
        case(well_conditioned(s, 2, 2) / 3, s(2, 2, dtype=complex)), case(well_conditioned(s, 2, 2, 2) / 3, s(2, 2)),
        case(np.asarray(well_conditioned(s, 2, 2) / 3, np.float32), s(2, 2, dtype=np.float32)),
    ]  # fmt: skip


@ruled("solve_continuous_lyapunov", cases=_lyapunov_cases)
def solve_continuous_lyapunov(a: Any, q: Any) -> tuple[Any, Pullback]:
    """``A X + X A^H = Q``: ``A^H Z + Z A = dX``, ``dQ = Z``, ``dA = -Z X^H - Z^H X``."""
    x = solve_continuous_lyapunov(a, q)

    def pullback(dx: Any) -> tuple[Any, ...]:
        z = where_finite(lambda d: solve_continuous_lyapunov(adjoint(inexact(a)), d))(dx)
        return np.negative(np.add(np.matmul(z, adjoint(x)), np.matmul(adjoint(z), x))), z

    return x, pullback


@ruled("solve_discrete_lyapunov", cases=lambda s: [
    *_lyapunov_cases(s), *(case(well_conditioned(s, 2, 2) / 3, s(2, 2), method) for method in ("direct", "bilinear")),
])  # fmt: skip
def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> tuple[Any, Pullback]:
    """``X - A X A^H = Q``: ``Z - A^H Z A = dX``, ``dQ = Z``, ``dA = Z A X^H + Z^H A X``."""
    x = solve_discrete_lyapunov(a, q, method)

    def pullback(dx: Any) -> tuple[Any, ...]:
        z = where_finite(lambda d: solve_discrete_lyapunov(adjoint(inexact(a)), d, method))(dx)
        return np.add(_products(z, a, adjoint(x)), _products(adjoint(z), a, x)), z

    return x, pullback


def _riccati_cases(s: Sample) -> Iterable[Case]:
    """Whole numbers stand for matrices that SciPy wants to be symmetric."""
    q, r = np.array([[2, 1], [1, 3]]), np.array([[3]])
    a, b, e, mixed = s(2, 2), np.array([[1.0], [0.5]]) + 0.1 * s(2, 1), well_conditioned(s, 2, 2), 0.1 * s(2, 1)
    return [
        case(a, b, q, r, None, mixed, False), case(s(1, 1), b[:1], s(1, 1, low=1), s(1, 1, low=1)), case(a, b, q, r, e),
        case(a + 0.1j * s(2, 2), b + 0.1j * s(2, 1), q, r, e + 0.1j * s(2, 2)),
    ]  # fmt: skip


def _riccati(name: str, discrete: bool) -> None:
    """The rule of an equation whose left side has the derivative ``A^H dX E + E^H dX A``, or ``A^H dX A - E^H dX E``,
    in X, with A the matrix of the closed loop: the adjoint equation is Lyapunov's for Z."""

    def residual(x: Any, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> Any:
        ea, eb, inner = (a, b, r) if discrete else (e, e, r)
        left = x if ea is None else np.matmul(x, ea)
        gain = np.matmul(adjoint(b), left)
        gain = gain if s is None else np.add(gain, adjoint(s))
        if discrete:
            inner = np.add(inner, _products(adjoint(b), x, eb))
            whole = np.subtract(_products(adjoint(a), left), x if e is None else _products(adjoint(e), x, e))
        else:
            whole = np.matmul(adjoint(a), left)
            whole = np.add(whole, adjoint(whole))
        feedback = np.linalg.solve(inner, gain)
        return np.add(np.subtract(whole, np.matmul(adjoint(gain), feedback)), q), feedback

    @ruled(name, cases=_riccati_cases)
    def solve(
        a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True
    ) -> tuple[Any, Pullback]:
        a, b, q, r, e, s = (None if z is None else inexact(z) for z in (a, b, q, r, e, s))
        x = solve(a, b, q, r, e, s, balanced)

        def pullback(dx: Any) -> tuple[Any, ...]:
            (_, feedback), back = rule_of_body(lambda *args: residual(x, *args), [a, b, q, r, e, s])
            loop = np.subtract(a, np.matmul(b, feedback))
            dh = np.divide(np.add(dx, adjoint(dx)), 2)
            if e is not None:
                loop = np.linalg.solve(e, loop)
                dh = np.linalg.solve(e, adjoint(np.linalg.solve(e, adjoint(dh))))
            z = where_finite(lambda d: solve_discrete_lyapunov(loop, d) if discrete
                             else solve_continuous_lyapunov(loop, np.negative(d)))(dh)  # fmt: skip
            da, db, dq, dr, *others = back((z, None))
            return da, db, _symmetric(dq), _symmetric(dr), *others

        return x, pullback


def _symmetric(d: Any) -> Any:
    return None if d is None else np.divide(np.add(d, adjoint(d)), 2)


patch(linalg, "solve_lyapunov", solve_continuous_lyapunov)
for _name, _discrete in (("solve_continuous_are", False), ("solve_discrete_are", True)):
    _riccati(_name, _discrete)
