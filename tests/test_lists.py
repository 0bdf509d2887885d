"""Lists and tuples where NumPy takes arrays, among them lists of traced numbers: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from caching import function
from fresh import rounds

X = np.array([0.9, 1.2, 1.7])
CALLS = [
    "np.concatenate([x, [0.5, 2]])", "np.concatenate([(x[0], 2), x])", "np.concatenate([[x[0], 1.0], [2, 3], x])",
    "np.concatenate([x, [np.float32(0.5)]])", "np.concatenate([[[x[0]], [2.0]], x[1:, None]])",
    "np.hstack([x, [x[0], 1]])", "np.vstack([x, [1, 2, 3]])", "np.vstack([x, (x[0], 2, 0.5)])",
    "np.vstack([np.arange(3), x])",
    "np.stack([x, [1.0, x[2], 3]])", "np.stack([(1, 2, 3), x], axis=1)", "np.dstack([x, [1, 2, x[0]]])",
    "np.column_stack([x, [1.0, 2.0, x[0]]])", "np.inner([1.0, 2, x[0]], x)", "np.inner(x, (1, x[2], x[0]))",
    "np.where(x > 0.95, [x[0], 1, x[1]], x)", "np.where([True, False, True], (1, x[1], 2.0), x)",
    "np.full_like(x, [x[1], 2, x[0]])", "np.linspace(x, [x[0], 1, 2.0], 4)", "np.interp([0.5, x[0]], [0, 1, 2], x)",
    "np.clip(x, [x[0] / 2, 1.0, 0], (3, x[2] / 2, x[1]))", "np.clip([x[0], 2, 0.5], 0.3, x)",
    "np.interp(x, [0, 1.3, x[2] + 1], [x[0], 2, x[1]])", "np.vecdot([x[0], 2, x[1]], x)", "np.full(3, [x[0], 1, 2])",
    "np.maximum(x, [x[0], 1.25, 2])", "np.full((2, 3), (x[0], 1, x[2]))",
    "np.broadcast_arrays(x, [1.0, x[0], 2])[1]", "np.broadcast_arrays([[1], [2]], x)[1]",
    "np.isclose(x, (5.0, 1.0, 2.0), [0.0, 2.0, 0.01]) * x",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_lists_are_arrays(call: str) -> None:
    f = function(f"def f(x): y = {call}; return np.sum(y**2 * (1.0 + np.arange(y.size).reshape(y.shape)))")
    rounds(f, X, 1.1 * X, X + 0.3)
