"""Orders of special functions that are not whole: SciPy leaves out what stands behind the point, or differentiates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from yota_py import MissingRuleError, value_and_grad

pytestmark = pytest.mark.filterwarnings("ignore:floating point number truncated")

OF_WHOLE = [
    special.yn, special.kn, special.expn, special.spherical_jn, special.spherical_yn, special.spherical_in,
    special.spherical_kn,
]  # fmt: skip


@pytest.mark.parametrize("fn", OF_WHOLE, ids=lambda fn: fn.__name__)
def test_orders_are_cut_off(fn: Callable[..., Any]) -> None:
    for n in (0, 0.6, 1, 1.5, 2.9, np.float64(1.9)):
        value, dz = value_and_grad(lambda z, n=n: fn(n, z) * 1.0)(1.3)
        assert value == fn(n, 1.3)
        assert dz == pytest.approx((fn(n, 1.3 + 1e-5) - fn(n, 1.3 - 1e-5)) / 2e-5, rel=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: special.lmbda(v, 1.3)[0][-1], lambda v: special.pbdv_seq(v, 1.3)[0][-1],
        lambda v: special.pbvv_seq(v, 1.3)[0][-1], lambda v: special.jv(v, 1.3),
    ],
)  # fmt: skip
def test_no_derivative_in_an_order_is_invented(f: Callable[..., Any]) -> None:
    for v in (0.6, 2.6):
        with pytest.raises(MissingRuleError, match="in its argument 0"):
            value_and_grad(f)(v)
