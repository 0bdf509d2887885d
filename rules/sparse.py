"""Products with SciPy's sparse matrices and arrays, which are constant: no derivative flows to their elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from yota_py.registry.registry import Case, Sample, case, rrule
from yota_py.registry.writes import sparse_matmul

from .support import Pullback


def _cases(s: Sample) -> Iterable[Case]:
    """A matrix of whole numbers stands for a sparse one, which is constant as well."""
    matrix = s.integers(2, 3, high=5)
    return [
        case(matrix, s(3)), case(matrix, s(3, 2)), case(matrix, s(3, dtype=np.float32)),
        case(matrix, s(3, dtype=np.complex128)),
    ]  # fmt: skip


@rrule(sparse_matmul, cases=_cases)
def sparse_matmul_rule(matrix: Any, x: Any) -> tuple[Any, Pullback]:
    """``S @ x``: the cotangent is multiplied by the adjoint matrix."""
    return sparse_matmul(matrix, x), lambda dy: (None, sparse_matmul(matrix.conj().transpose(), dy))
