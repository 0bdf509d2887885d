"""Long matrix products, in the order that costs least."""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.registry.composites import composite
from yota_py.registry.registry import case

from .support import shape_of


def _cheapest_cut(dims: tuple[int, ...]) -> tuple[int, int]:
    """Cost of a chain of matrices with these dimensions, and after how many factors to cut it (Cormen et al., 15.2)."""
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i + 1): (0, 0) for i in range(len(dims) - 1)}
    for length in range(2, len(dims)):
        for i in range(len(dims) - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k, j][0] + dims[i] * dims[k] * dims[j], k - i) for k in range(i + 1, j)
            )
    return best[0, len(dims) - 1]


def _chain(arrays: list[Any]) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    shapes = [shape_of(x) for x in arrays]
    rows = shapes[0][0] if len(shapes[0]) == 2 else 1
    cut = _cheapest_cut((rows, *(shape[0] for shape in shapes[1:]), shapes[-1][-1] if len(shapes[-1]) == 2 else 1))[1]
    return np.matmul(_chain(arrays[:cut]), _chain(arrays[cut:]))


@composite(
    np.linalg.multi_dot,
    cases=lambda s: [
        case([s(2, 3), s(3, 4), s(4, 2)]), case([s(3), s(3, 4), s(4)]), case((s(2, 3), s(3, 1))),
        case([s(5, 2), s(2, 5), s(5, 1), s(1, 3)]),
    ],
)  # fmt: skip
def _multi_dot(arrays: Any, *, out: None = None) -> Any:
    return _chain(list(arrays))
