"""NumPy's assertions about arrays, of traced values: whether one holds is a decision, and nothing flows back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from yota_py.base.dispatch import decided, find_traced
from yota_py.registry.patches import patch
from yota_py.registry.registry import nondiff, primitive
from yota_py.registry.tangents import listed


def _assertion(name: str) -> Callable[..., None]:
    plain = getattr(np.testing, name)

    @primitive
    def holds(*args: Any, **kwargs: Any) -> bool:
        try:
            plain(*args, **kwargs)
        except AssertionError:
            return False
        return True

    holds.__name__ = name
    nondiff(holds)

    def stand_in(*args: Any, **kwargs: Any) -> None:
        args = tuple(map(listed, args))
        if find_traced((args, kwargs)) is None:
            plain(*args, **kwargs)
        elif not holds(*args, **kwargs):
            plain(*decided(args), **decided(kwargs))

    return stand_in


for _name in (
    "assert_", "assert_allclose", "assert_almost_equal", "assert_approx_equal", "assert_array_almost_equal",
    "assert_array_almost_equal_nulp", "assert_array_equal", "assert_array_less", "assert_array_max_ulp", "assert_equal",
):  # fmt: skip
    patch(np.testing, _name, _assertion(_name))
