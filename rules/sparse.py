"""Products with SciPy's sparse matrices and arrays, which are constant: no derivative flows to their elements."""

from __future__ import annotations

from typing import Any

from yota_py.functional import sparse_matmul
from yota_py.registry import rrule
from yota_py.tangents import like

from .support import Pullback


@rrule(sparse_matmul)
def sparse_matmul_rule(matrix: Any, x: Any) -> tuple[Any, Pullback]:
    """``S @ x``: the cotangent is multiplied by the adjoint matrix."""
    return sparse_matmul(matrix, x), lambda dy: (None, like(sparse_matmul(matrix.conj().transpose(), dy), x))
