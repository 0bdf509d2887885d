"""Products with SciPy's sparse matrices and arrays, which are constant: no derivative flows to their elements."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from yota_py.registry.registry import Case, Sample, case, vjps
from yota_py.registry.writes import sparse_matmul


def _cases(s: Sample) -> Iterable[Case]:
    """A matrix of whole numbers stands for a sparse one, which is constant as well."""
    matrix = s.integers(2, 3, high=5)
    return [
        case(matrix, s(3)), case(matrix, s(3, 2)), case(matrix, s(3, dtype=np.float32)),
        case(matrix, s(3, dtype=np.complex128)),
    ]  # fmt: skip


vjps(sparse_matmul, None, lambda dy, y, matrix, x: sparse_matmul(matrix.conj().transpose(), dy), cases=_cases)
