"""What programs call in the places of functions of ``scipy.linalg``: LAPACK for one real matrix, in kernels.

What SciPy refuses fails there, so that SciPy is asked: numbers that are infinite or NaN, where they are ``checked``,
and singular matrices.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import linalg

from yota_py.base.dispatch import original
from yota_py.registry.kernels import Lapack
from yota_py.registry.registry import Case, Sample, case, primitive, vjps

from ..decompositions import cholesky_cotangent
from ..linalg import adjoint
from ..matrices import well_conditioned
from ..support import dtype_of, rule_of, shape_of
from ..systems import inverse_cotangent


def _cases(s: Sample) -> Iterable[Case]:
    return [
        *(case(well_conditioned(s, 3, 3), b, upper) for upper in (False, True) for b in (s(3), s(3, 2))),
        case(well_conditioned(s, 2, 2, dtype=np.float32), s(2, dtype=np.float32), True),
        case(well_conditioned(s, 2, 2).T, s(3, 2).T, False), case(well_conditioned(s, 3, 3), s(3), True, False),
    ]  # fmt: skip


def _outer(db: Any, x: Any) -> Any:
    """``-dB X'`` (Giles 2.3.1)."""
    db, x = (z[:, None] if len(shape_of(z)) == 1 else z for z in (db, x))
    return np.negative(np.matmul(db, adjoint(x)))


def _read(da: Any, upper: bool) -> Any:
    return np.triu(da) if upper else np.tril(da)


@primitive
def triangular(a: Any, b: Any, upper: bool, checked: bool = True) -> Any:
    """The solution of a system of which the ``upper`` triangle is read, or the lower one."""
    return original(linalg.solve_triangular)(a, b, lower=not upper, check_finite=checked)


vjps(triangular,
     lambda dx, x, a, b, upper, checked=True: _read(_outer(triangular(adjoint(a), dx, not upper, False), x), upper),
     lambda dx, x, a, b, upper, checked=True: triangular(adjoint(a), dx, not upper, False),
     kernel=Lapack("triangular", finite=True), fails=True, cases=_cases)  # fmt: skip


@primitive
def factored(c: Any, b: Any, upper: bool, checked: bool = True) -> Any:
    """The solution of a system of whose matrix the Cholesky factor is known, an ``upper`` one or a lower one."""
    return original(linalg.cho_solve)((c, not upper), b, check_finite=checked)


def _of_factor(dx: Any, x: Any, c: Any, b: Any, upper: bool, checked: bool = True) -> Any:
    da = _outer(factored(c, dx, upper, False), x)
    factor, dh = _read(c, upper), np.add(da, adjoint(da))
    return _read(np.matmul(factor, dh) if upper else np.matmul(dh, factor), upper)


vjps(factored, _of_factor, lambda dx, x, c, b, upper, checked=True: factored(c, dx, upper, False),
     kernel=Lapack("factored", finite=True), fails=True, cases=_cases)  # fmt: skip


@primitive
def system(a: Any, b: Any) -> Any:
    """``solve`` of any matrix."""
    return original(linalg.solve)(a, b)


vjps(system, lambda dx, x, a, b: rule_of(np.linalg.solve, a, b)[1](dx)[0],
     lambda dx, x, a, b: rule_of(np.linalg.solve, a, b)[1](dx)[1],
     kernel=Lapack("solve", finite=True), fails=True, cases=lambda s: [
    case(well_conditioned(s, 3, 3), s(3)), case(well_conditioned(s, 3, 3).T, s(3, 2)),
    case(well_conditioned(s, 2, 2, dtype=np.float32), s(2, dtype=np.float32)),
])  # fmt: skip


@primitive
def cholesky_factor(a: Any, upper: bool) -> Any:
    """``cholesky``, of which one triangle is read."""
    return original(linalg.cholesky)(a, not upper)


vjps(cholesky_factor, lambda dy, y, a, upper: cholesky_cotangent(y, _read(dy, upper), upper),
     kernel=Lapack("cholesky", finite=True), fails=True, cases=lambda s: [
    *(case(well_conditioned(s, 3, 3), upper) for upper in (False, True)), case(well_conditioned(s, 1, 1), True),
    case(well_conditioned(s, 2, 2, dtype=np.float32).T, False),
])  # fmt: skip


@primitive
def inverse(a: Any) -> Any:
    """``inv`` of any matrix."""
    return original(linalg.inv)(a)


vjps(inverse, lambda dy, y, a: inverse_cotangent(dy, y),
     kernel=Lapack("inv", finite=True), fails=True, cases=lambda s: [
    case(well_conditioned(s, 3, 3)), case(well_conditioned(s, 2, 2, dtype=np.float32).T),
])  # fmt: skip


def are_of_kernels(*arrays: Any) -> bool:
    """Whether these are one matrix, and its right-hand sides if there are any, of one real dtype, and not empty."""
    shapes, dtypes = [shape_of(x) for x in arrays], {dtype_of(x) for x in arrays}
    whole = len(shapes[0]) == 2 and all(1 <= len(shape) <= 2 and 0 not in shape for shape in shapes)
    return whole and len(dtypes) == 1 and dtypes <= {np.dtype(np.float64), np.dtype(np.float32)}
