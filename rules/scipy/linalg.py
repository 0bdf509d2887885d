"""Linear systems and inverses of ``scipy.linalg``. Formulas: Giles 2008, as in ``rules/systems.py``.

The value of each function is SciPy's own, and its cotangent is NumPy code that takes stacks of matrices as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
from scipy import linalg

from yota_py.base.dispatch import dispatching, original
from yota_py.registry.composites import composite
from yota_py.registry.patches import patch
from yota_py.registry.registry import Cases, Rule, case, nondiff, rrule
from yota_py.registry.tangents import conj

from ..determinants import det_cotangent
from ..linalg import adjoint
from ..matrices import halved, of_triangle, real_dtype, square_cases, well_conditioned
from ..support import Pullback, dtype_of, inexact, operand, rule_of, shape_of, unsupported
from ..systems import cuts_off, inverse_cotangent, lstsq_cotangents, pinv_cotangent
from .linalg_compiled import are_of_kernels, inverse, system, triangular


def stand_in(name: str, fn: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The primitive for ``scipy.linalg.<name>``, which overwrites none of its arguments: a tape has them still."""
    fn = fn or original(getattr(linalg, name))
    names = list(signature(fn).parameters)
    first = next((i for i, key in enumerate(names) if key.startswith("overwrite")), len(names))

    @wraps(fn)
    def plain(*args: Any, **kwargs: Any) -> Any:
        named = dict(zip(names[first:], args[first:], strict=False)) | kwargs
        return fn(*args[:first], **{key: x for key, x in named.items() if not key.startswith("overwrite")})

    return patch(linalg, name, dispatching(plain if any(key.startswith("overwrite") for key in names) else fn))


def ruled(
    name: str, fn: Callable[..., Any] | None = None, *, cases: Cases, instead: Callable[..., Any] | None = None,
    lowering: Callable[..., Any] | None = None,
) -> Callable[[Rule], Callable[..., Any]]:  # fmt: skip
    """Decorator that makes a rule the primitive for ``scipy.linalg.<name>``, under whose name the rule calls it.

    No derivative flows to arguments beyond those that the pullback gives: flags, tolerances.
    """

    def register(rule: Rule) -> Callable[..., Any]:
        @wraps(rule)
        def padded(*args: Any, **kwargs: Any) -> tuple[Any, Pullback]:
            y, pullback = rule(*args, **kwargs)

            def all_cotangents(dy: Any) -> tuple[Any, ...]:
                given = tuple(pullback(dy))[: len(args)]
                return (*given, *(None,) * (len(args) - len(given)))

            return y, all_cotangents

        prim = stand_in(name, fn)
        rrule(prim, fails=True, cases=cases, instead=instead, lowering=lowering)(padded)
        return prim

    return register


def written_as(name: str, cases: Cases) -> Callable[[Rule], Rule]:
    """Decorator for the body of ``scipy.linalg.<name>`` in terms of other functions."""
    prim = stand_in(name)
    return composite(prim, fails=True, cases=cases)


def system_cotangents(solve: Callable[[Any], Any], x: Any, dx: Any, b: Any) -> tuple[Any, Any]:
    """Of ``A x = b``: ``dB = A^-H dX``, by ``solve``, and ``dA = -dB X^H`` (Giles 2.3.1); ``b`` may be a vector."""
    if len(shape_of(b)) == 1:
        da, db = system_cotangents(solve, x[..., None], dx[..., None], b[..., None])
        return da, db[..., 0]
    db = solve(dx)
    return np.negative(np.matmul(db, adjoint(x))), db


TRANSPOSED = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}


def adjoint_solve(solve: Callable[[Any, int], Any], trans: int) -> Callable[[Any], Any]:
    """What solves with ``op(A)^H``, where ``solve(b, trans)`` does with ``op(A)``: A, its transpose or adjoint."""
    return (lambda d: conj(solve(conj(d), 0))) if trans == 1 else (lambda d: solve(d, 2 - trans))


def where_finite(linear: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A linear function of a cotangent; NaN where that is not finite, of which SciPy would raise an exception."""
    def of(d: Any) -> Any:
        return np.add(linear(np.where(np.isfinite(d), d, 0)), np.sum(np.subtract(d, d)))

    return of


def of_transposed(da: Any, trans: int) -> Any:
    """The cotangent of A, from that of ``op(A)``."""
    return (da, np.swapaxes(da, -1, -2) if trans == 1 else None, adjoint(da))[trans]


# ------------------------------------------------------------------------------------ inverses and systems

_HERMITIAN, _SYMMETRIC = ("pos", "positive definite", "her", "hermitian"), ("sym", "symmetric")
_LOWER, _UPPER = "lower triangular", "upper triangular"


def _read(da: Any, assume_a: str | None, lower: bool) -> Any:
    """The cotangent of the part of a matrix that is read, if it is assumed to be of some structure."""
    if assume_a in _HERMITIAN:
        return of_triangle(da, not lower)
    if assume_a in _SYMMETRIC:
        return np.multiply(np.add(da, np.swapaxes(da, -1, -2)), halved(shape_of(da)[-1], real_dtype(da), not lower))
    below, above = {"diagonal": (0, 0), "tridiagonal": (1, 1), _LOWER: (None, 0), _UPPER: (0, None)}.get(
        str(assume_a), (None, None)
    )
    da = da if below is None else np.triu(da, -below)
    return da if above is None else np.tril(da, above)


_STRUCTURES = ("gen", "general", *_HERMITIAN, *_SYMMETRIC, "diagonal", "tridiagonal", _LOWER, _UPPER)
_HALF = ("pos", "her", "sym")  # of which either triangle may be read
_OF_INVERSES = ("general", "pos", "her", "sym", _LOWER, _UPPER)


def _inverse(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False
) -> Any:
    plain = check_finite is True and assume_a in (None, "gen", "general") and are_of_kernels(a)
    return inverse(a) if plain else NotImplemented


@ruled("inv", lowering=_inverse, cases=lambda s: [
    *square_cases(s), case(well_conditioned(s, 2, 2), False, False),
    *(case(well_conditioned(s, 3, 3), assume_a=name, lower=lower) for name in _OF_INVERSES for lower in (False, True)),
    *(case(well_conditioned(s, 2, 2, dtype=complex), assume_a=name) for name in ("sym", "her", "pos", _LOWER)),
])  # fmt: skip
def inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None, lower: bool = False
) -> tuple[Any, Pullback]:
    """``inv``; with ``assume_a`` the cotangent lies where the matrix is read."""
    options: Any = {"assume_a": assume_a, "lower": lower} if assume_a or lower else {}
    y = inv(a, check_finite=check_finite, **options)
    read = _read(y, assume_a, lower) if assume_a == "diagonal" else y  # SciPy leaves other elements of A beside it
    return y, lambda dy: (_read(inverse_cotangent(dy, read), assume_a, lower),)


def _system(
    a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, assume_a: str | None = None, transposed: bool = False,
) -> Any:  # fmt: skip
    plain = assume_a in (None, "gen", "general") and are_of_kernels(a, b)  # checked or not: SciPy is asked of others
    return system(np.transpose(a) if transposed else a, b) if plain and shape_of(a)[0] > 1 else NotImplemented


@ruled("solve", lowering=_system, cases=lambda s: [
    case(well_conditioned(s, 3, 3), s(3)), case(well_conditioned(s, 3, 3), s(3, 2)),
    case(well_conditioned(s, 1, 1), s(1)), case(well_conditioned(s, 1, 1), s(3)), case(s.number(0.5), s(3)),
    case(well_conditioned(s, 2, 1, 1), s(1)), case(well_conditioned(s, 1, 1, 1), s(3)),
    case(well_conditioned(s, 2, 3, 3), s(3)),
    case(well_conditioned(s, 2, 3, 3), s(3, 2)),
    case(well_conditioned(s, 3, 3), s(2, 3, 1)), case(well_conditioned(s, 3, 3), s(3), transposed=True),
    case(well_conditioned(s, 2, 2, dtype=np.complex128), s(2)), case(well_conditioned(s, 2, 2), s(2, dtype=complex)),
    case(well_conditioned(s, 2, 2, dtype=np.float32), s(2, dtype=np.float32)),
    case(well_conditioned(s, 3, 3).T, s(2, 3).T),
    *(case(well_conditioned(s, 2, 2), s(2), name in _HALF, assume_a=name) for name in (*_STRUCTURES, "banded")),
    *(case(well_conditioned(s, 2, 2), s(2), assume_a=name) for name in _HALF),
    *(case(well_conditioned(s, 2, 2, dtype=complex), s(2), assume_a=name) for name in ("sym", "her", "pos", _UPPER)),
    *(case(well_conditioned(s, 2, 2), s(2), assume_a=name, transposed=True) for name in ("sym", _LOWER, "tridiagonal")),
])  # fmt: skip
def solve(
    a: Any, b: Any, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, assume_a: str | None = None, transposed: bool = False,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``solve``; with ``assume_a`` the cotangent lies where the matrix is read."""
    a, b = operand(a), operand(b)
    x = solve(a, b, lower=lower, transposed=transposed, check_finite=check_finite, assume_a=assume_a)
    options: Any = {"check_finite": False, "assume_a": assume_a}

    def solve_adjoint(dx: Any) -> Any:
        if transposed:
            return solve(a, dx, lower=lower, **options)
        turned = {_LOWER: _UPPER, _UPPER: _LOWER}.get(str(assume_a), assume_a)
        return solve(adjoint(a), dx, lower=not lower, **options | {"assume_a": turned})

    def pullback(dx: Any) -> tuple[Any, ...]:
        if shape_of(a)[-1:] in ((), (1,)) and len(shape_of(b)) == 1:  # SciPy divides a row by one number
            da, db = system_cotangents(solve_adjoint, x[..., None, :], dx[..., None, :], b[None, :])
            db = db[..., 0, :]
        else:
            da, db = system_cotangents(solve_adjoint, x, dx, b)
        return _read(of_transposed(da, 1) if transposed else da, assume_a, lower), db

    return x, pullback


def _triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    if unit_diagonal or not are_of_kernels(a, b):
        return NotImplemented
    turned = TRANSPOSED[trans] != 0
    return triangular(np.transpose(a) if turned else a, b, bool(lower) == turned, bool(check_finite))


@ruled("solve_triangular", lowering=_triangular, cases=lambda s: [
    *(case(well_conditioned(s, 3, 3), s(3), trans, lower, unit) for trans in (0, 1, "C") for lower in (False, True)
      for unit in (False, True)),
    *(case(well_conditioned(s, 2, 2, dtype=complex), s(2, dtype=complex), trans=trans) for trans in (0, "T", 2)),
    case(well_conditioned(s, 3, 3), s(3, 2), lower=True), case(well_conditioned(s, 2, 3, 3), s(3), 1),
    case(well_conditioned(s, 2, 2, dtype=np.float32), s(2, dtype=np.float32)), case(well_conditioned(s, 3, 3).T, s(3)),
])  # fmt: skip
def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``solve_triangular``, whose cotangent lies in the triangle that is read."""
    a, b = operand(a), operand(b)

    def solve_op(b: Any, trans: int, check_finite: bool = False) -> Any:
        options = {"lower": lower, "unit_diagonal": unit_diagonal, "check_finite": check_finite}
        return solve_triangular(a, b, trans, **options)

    op = TRANSPOSED.get(trans, trans)
    x = solve_op(b, trans, check_finite)

    def pullback(dx: Any) -> tuple[Any, ...]:
        da, db = system_cotangents(adjoint_solve(solve_op, op), x, dx, b)
        da = of_transposed(da, op)
        return (np.tril(da, -unit_diagonal) if lower else np.triu(da, +unit_diagonal)), db

    return x, pullback


# ------------------------------------------------------------- pseudo-inverses, least squares, determinant


@ruled("pinv", cases=lambda s: [
    case(well_conditioned(s, 3, 2)), case(well_conditioned(s, 2, 3)), case(well_conditioned(s, 2, 3, 2)),
    case(well_conditioned(s, 3, 2, dtype=np.complex128)), case(well_conditioned(s, 3, 2), atol=1e-9, rtol=1e-9),
    case(well_conditioned(s, 3, 2), return_rank=True),
][:6])  # fmt: skip
def pinv(
    a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``pinv`` where the rank does not change."""
    y = pinv(a, atol=atol, rtol=rtol, return_rank=return_rank, check_finite=check_finite)
    inverse = y[0] if return_rank else y
    cuts = cuts_off(atol, rtol)
    return y, lambda dy: (pinv_cotangent(a, inverse, dy[0] if return_rank else dy, cuts=cuts),)


@ruled("pinvh", cases=lambda s: [
    case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 3, 3), lower=False), case(well_conditioned(s, 2, 2, 2)),
    case(well_conditioned(s, 2, 2, dtype=np.complex128)), case(well_conditioned(s, 2, 2, dtype=complex), lower=False),
    case(well_conditioned(s, 2, 2), None, None, True, True), case(well_conditioned(s, 2, 2), rtol=1e-9),
])  # fmt: skip
def pinvh(
    a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False, check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``pinvh`` where the rank does not change; the cotangent lies in the triangle that is read."""
    y = pinvh(a, atol, rtol, lower, return_rank, check_finite)
    inverse, triangle = (y[0] if return_rank else y), "lower" if lower else "upper"
    cuts = cuts_off(atol, rtol)
    return y, lambda dy: (pinv_cotangent(a, inverse, dy[0] if return_rank else dy, triangle, cuts=cuts),)


@ruled("lstsq", cases=lambda s: [
    case(well_conditioned(s, 4, 2), s(4)), case(well_conditioned(s, 4, 2), s(4, 3)),
    case(well_conditioned(s, 2, 3), s(2)),
    case(well_conditioned(s, 3, 3), s(3, 1)), case(well_conditioned(s, 4, 2), s(4), cond=1e-9),
    case(well_conditioned(s, 3, 2, dtype=np.complex128), s(3)), case(well_conditioned(s, 2, 3, 2), s(3)),
    case(well_conditioned(s, 3, 2, dtype=np.float32), s(3, dtype=np.float32)),
    *(case(well_conditioned(s, 3, 2), s(3, 2), lapack_driver=name) for name in ("gelss", "gelsy")),
])  # fmt: skip
def lstsq(
    a: Any, b: Any, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
    lapack_driver: str | None = None,
) -> tuple[Any, Pullback]:  # fmt: skip
    """``lstsq``, all parts but the rank."""
    a, b = operand(a), operand(b)
    if lapack_driver == "gelsy" and cuts_off(cond):
        raise unsupported("scipy.linalg.lstsq by gelsy with a cond that cuts off what counts", "Call it by gelsd")
    y = lstsq(a, b, cond, check_finite=check_finite, lapack_driver=lapack_driver)
    rcond = np.finfo(dtype_of(y[0])).eps if cond is None else cond
    return y, lambda dy: lstsq_cotangents(a, b, y[0], rcond, dy)


@ruled("det", cases=lambda s: [*square_cases(s), case(np.ones((3, 3))), case(np.zeros((2, 2)), False, False)])
def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Pullback]:
    """``det``, also of singular matrices."""
    y = det(a, check_finite=check_finite)
    return y, lambda dy: (det_cotangent(dy, y, a),)


@wraps(linalg.norm)
def _norm(a: Any, *args: Any, **kwargs: Any) -> Any:
    """The norm as NumPy's number, which SciPy gives for some layouts of the array only."""
    y = original(linalg.norm)(a, *args, **kwargs)
    return np.finfo(inexact(a).dtype).dtype.type(y) if type(y) is float else y


@ruled("norm", _norm, cases=lambda s: [
    *(case(s(4), ord) for ord in (None, 1, 2, np.inf, -np.inf, 3, 0)), case(s(2, 3), axis=1, keepdims=True),
    *(case(s(2, 3), ord) for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)), case(s(2, 3)), case(s(2, 3, 2)),
    case(s(3, dtype=np.float32)), case(s(2, 3, dtype=np.float32), 1), case(s(2, dtype=complex)),
    case(s(2, 3, 2), 1, (0, 2), True, False), case(s(2, 3, dtype=np.complex64)),
])  # fmt: skip
def norm(
    a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True
) -> tuple[Any, Pullback]:
    """``norm``; the derivative at zero is zero."""
    return norm(a, ord, axis, keepdims, check_finite), rule_of(np.linalg.norm, a, ord, axis, keepdims)[1]


for _name in ("issymmetric", "ishermitian"):
    nondiff(stand_in(_name), cases=lambda s: [case(s(2, 2)), case(np.eye(2)), case(s(2, 2), 9.0)])
nondiff(stand_in("bandwidth"), cases=lambda s: [case(s(3, 3)), case(np.eye(2)), case(np.triu(s(3, 3)))])
