"""Cotangents that rules of the library give, fitted to the arguments: as they are documented in ``tangents.fitted``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from yota_py.errors import RuleError
from yota_py.registry.tangents import MISSING, fitted, outline

F4 = np.ones(2, np.float32)


@pytest.mark.parametrize(("dx", "x", "want"), [
    (np.ones(2), 3, None), (np.ones(2), np.arange(2), None), (np.ones(2), True, None), (np.ones(2), "ab", None),
    (np.ones(2), None, None), (np.ones(2) * (1 + 2j), np.ones(2), np.ones(2)), (np.ones(2), F4, F4),
    (np.ones((3, 2)), np.ones(2), np.full(2, 3.0)), (np.ones((3, 2)), np.ones((3, 1)), np.full((3, 1), 2.0)),
    (np.ones((3, 2)), 2.0, np.float64(6)), (1.0, np.ones(2), np.ones(2)), (np.float64(2), np.ones(1), np.full(1, 2.0)),
    (None, np.ones(2), None), (MISSING, 2.0, MISSING), (MISSING, 2, None), (MISSING, [1, 2], None),
    (np.ones(2), [1.0, 2], (1.0, None)), ((np.ones(2), np.ones(2)), [F4, np.arange(2)], (F4, None)),
])  # fmt: skip
def test_cotangents_are_fitted(dx: Any, x: Any, want: Any) -> None:
    (got,) = fitted("f", [dx], [outline(x)])
    if want is None or want is MISSING or isinstance(want, tuple):
        assert str(got) == str(want) or all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
    else:
        assert got.dtype == want.dtype
        assert_array_equal(got, want, strict=True)


def test_what_fits_already_is_not_touched() -> None:
    dx = np.ones(2)
    assert fitted("f", [dx], [outline(np.zeros(2))])[0] is dx


def test_what_a_rule_leaves_out_has_no_formula() -> None:
    kept = [*map(outline, (np.ones(2), 1.0, 0, "a"))]
    assert fitted("f", [np.ones(2)], kept) == (pytest.approx(np.ones(2)), MISSING, None, None)


def test_another_shape_is_an_error() -> None:
    with pytest.raises(RuleError, match="the pullback of f gave does not fit its argument"):
        fitted("f", [np.ones(3)], [outline(np.ones(2))])
