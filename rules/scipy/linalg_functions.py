"""Functions of matrices of ``scipy.linalg``.

The derivative L(A, E) of f in the direction E is the block above the diagonal of f of ``[[A, E], [0, A]]`` (Higham
2008, "Functions of Matrices", theorem 3.6; Al-Mohy and Higham 2009, "Computing the Frechet derivative of the matrix
exponential"). Its adjoint gives ``L(A, dY^H)^H``, since ``tr(X L(A, E))`` is ``tr(L(A, X) E)``, on branch cuts too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import linalg

from yota_py.registry.registry import Case, Sample, case, primitive, vjps
from yota_py.registry.tangents import astype, is_inexact

from ..linalg import adjoint
from ..matrices import spread_out, well_conditioned
from ..support import Pullback, dtype_of, inexact, shape_of, unsupported
from .linalg import ruled, where_finite, written_as
from .linalg_equations import solve_sylvester


def blocks(a: Any, e: Any) -> Any:
    """``[[A, E], [0, A]]``."""
    dtype = np.result_type(dtype_of(a), dtype_of(e))
    a, e = astype(a, dtype), astype(e, dtype)
    zeros = np.zeros_like(a)
    return np.concatenate([np.concatenate([a, e], -1), np.concatenate([zeros, a], -1)], -2)


def function_cotangent(fn: Callable[[Any], Any], a: Any, dy: Any) -> Any:
    """``dA`` for a function of matrices."""
    n = shape_of(a)[-1]
    return adjoint(fn(blocks(a, adjoint(dy)))[..., :n, n:])


def _function_cases(s: Sample) -> Iterable[Case]:
    return [
        case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 2, 2, 2)), case(well_conditioned(s, 1, 1)),
        case(well_conditioned(s, 2, 2).T), case(well_conditioned(s, 2, 2, dtype=np.complex128)),
        case(2 * np.eye(2)), case(np.array([[2.0, 1.0], [0.0, 2.0]])),
        case(well_conditioned(s, 2, 2, dtype=np.float32)),
    ]  # fmt: skip


def _few_cases(s: Sample) -> Iterable[Case]:
    """Of functions whose programs are long."""
    defective = np.array([[2.0, 1.0], [0.0, 2.0]])
    return [case(well_conditioned(s, 2, 2)), case(defective), case(well_conditioned(s, 2, 1, 1))]


@ruled("expm", cases=lambda s: [
    *_function_cases(s), case(np.zeros((2, 2))), case(9 * s(2, 2)), case(np.zeros((0, 2, 2))), case(s()),
])  # fmt: skip
def expm(A: Any) -> tuple[Any, Pullback]:
    """``expm`` (Al-Mohy and Higham 2009)."""
    a = inexact(A)
    return expm(a), lambda dy: (function_cotangent(expm, a, dy) if shape_of(a) else dy * expm(a),)


@written_as("expm_frechet", lambda s: [
    case(s(2, 2), s(2, 2), "blockEnlarge"), case(s(1, 1), s(1, 1), compute_expm=False), case(s(2, 1, 1), s(1, 1)),
])  # fmt: skip
def _expm_frechet(
    A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """The method that is not asked for by name computes in double precision, and with each by itself."""
    a, e = inexact(A), inexact(E)
    alone = method != "blockEnlarge"
    if alone:
        a, e = (np.multiply(np.float64(1), x) for x in (a, e))
    shape = np.broadcast_shapes(shape_of(a), shape_of(e))
    stacked = len(shape) > 2
    both = expm(blocks(np.broadcast_to(a, shape), np.broadcast_to(e, shape)))
    n = shape[-1]
    out = both[..., :n, n:]
    if not compute_expm:
        return out
    exponential = both[..., :n, :n]
    if alone and dtype_of(a).kind != "c":
        exponential = np.real(exponential)
    return [exponential, out] if stacked else (exponential, out)


@ruled("logm", cases=lambda s: [*_few_cases(s), case(well_conditioned(s, 2, 2, dtype=np.complex128))])
def logm(A: Any, *disp: Any, **options: Any) -> tuple[Any, Pullback]:
    """``logm`` (Al-Mohy, Higham and Relton 2013, "Computing the Frechet derivative of the matrix logarithm")."""
    _displayed("logm", disp, options)
    a = inexact(A)
    return logm(a), lambda dy: (_of_logarithm(a, dy),)


_logm = linalg.logm


@primitive
def quiet_logm(a: Any) -> Any:
    """The logarithm without warnings: SciPy's are of a matrix of blocks here, which the user has not asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _logm(a)


def _of_logarithm(a: Any, dy: Any) -> Any:
    return where_finite(lambda d: function_cotangent(quiet_logm, a, d))(dy)


vjps(quiet_logm, lambda dy, y, a: _of_logarithm(a, dy), fails=True, cases=_few_cases)


def _displayed(name: str, disp: Any, options: Any) -> None:
    if disp or options:
        raise unsupported(f"scipy.linalg.{name} with disp", "Leave it out, SciPy is about to drop it")


@ruled("sqrtm", cases=_function_cases)
def sqrtm(A: Any, *disp: Any, **options: Any) -> tuple[Any, Pullback]:
    """``sqrtm``: ``Y^H Z + Z Y^H = dY`` (Higham 2008, section 6.1)."""
    _displayed("sqrtm", disp, options)
    y = sqrtm(A)
    return y, lambda dy: (solve_sylvester(adjoint(y), adjoint(y), dy),)


@ruled("signm", cases=lambda s: [
    case(well_conditioned(s, 3, 3) * [1, -1, 1]), case(well_conditioned(s, 2, 2) * [1, -1]),
    case(spread_out(s, 2, 2, 2) * [1, -1]),
    case(well_conditioned(s, 2, 2, dtype=np.complex128) * [1, -1]),
])  # fmt: skip
def signm(A: Any, *disp: Any, **options: Any) -> tuple[Any, Pullback]:
    """``signm``: with ``N = A S``, ``N L + L N = E - S E S`` (Higham 2008, theorem 5.3)."""
    _displayed("signm", disp, options)
    y = signm(A)

    def pullback(dy: Any) -> tuple[Any, ...]:
        root = adjoint(np.matmul(A, y))
        z = solve_sylvester(root, root, dy)
        return (np.subtract(z, np.matmul(np.matmul(adjoint(y), z), adjoint(y))),)

    return y, pullback


@ruled("fractional_matrix_power", cases=lambda s: [
    *(case(well_conditioned(s, 2, 2), t) for t in (0, 1, 2, -1)), case(well_conditioned(s, 2, 2, 2), 2),
    *(case(well_conditioned(s, 2, 2), t=t) for t in (-0.3, 1.5)), case(well_conditioned(s, 1, 1, dtype=complex), 0.3),
])  # fmt: skip
def fractional_matrix_power(A: Any, t: Any) -> tuple[Any, Pullback]:
    """``fractional_matrix_power`` (Higham and Lin 2013, "An improved Schur-Pade algorithm for fractional powers of a
    matrix and their Frechet derivatives"); in the exponent, ``dY/dt = A^t log A``."""
    a = inexact(A)
    y = fractional_matrix_power(a, t)

    def pullback(dy: Any) -> tuple[Any, ...]:
        da = function_cotangent(lambda block: fractional_matrix_power(block, t), a, dy)
        dt = np.sum(np.real(np.multiply(np.conj(dy), np.matmul(y, quiet_logm(a))))) if is_inexact(t) else None
        return da, dt

    return y, pullback


# --------------------------------------------------------- trigonometric and hyperbolic, by the exponential


def _of_exponentials(name: str, body: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that is its body, real where the matrix is (Higham 2008, section 12.1)."""

    def form(A: Any) -> Any:
        a = inexact(A)
        y = body(a)
        return np.real(y) if dtype_of(a).kind != "c" and dtype_of(y).kind == "c" else y

    written_as(name, _few_cases)(form)
    return form


def _turned(a: Any, sign: int = 1) -> Any:
    """``exp(i A)``, or of ``-A``."""
    return expm(np.multiply(a, sign * 1j))


def _cos(a: Any) -> Any:
    return np.real(_turned(a)) if dtype_of(a).kind != "c" else np.divide(np.add(_turned(a), _turned(a, -1)), 2)


def _sin(a: Any) -> Any:
    return np.imag(_turned(a)) if dtype_of(a).kind != "c" else np.divide(np.subtract(_turned(a), _turned(a, -1)), 2j)


cosm, sinm = _of_exponentials("cosm", _cos), _of_exponentials("sinm", _sin)
coshm = _of_exponentials("coshm", lambda a: np.divide(np.add(expm(a), expm(np.negative(a))), 2))
sinhm = _of_exponentials("sinhm", lambda a: np.divide(np.subtract(expm(a), expm(np.negative(a))), 2))
tanm = _of_exponentials("tanm", lambda a: np.linalg.solve(cosm(a), sinm(a)))
tanhm = _of_exponentials("tanhm", lambda a: np.linalg.solve(coshm(a), sinhm(a)))
