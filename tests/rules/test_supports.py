"""Points outside of the supports of distributions: derivatives are zero there, to second order, and those of others
are as they are alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sets import each

from yota_py import gradient, hessian, jacobian

BESIDE: list[tuple[Any, str, float, tuple[float, ...]]] = [  # a distribution, a method, a point outside, its shapes
    (stats.gamma, "pdf", -1.0, (2.0,)), (stats.gamma, "logsf", -1.0, (2.0,)), (stats.lognorm, "cdf", -0.5, (1.0,)),
    (stats.beta, "logcdf", 1.5, (2.0, 3.0)), (stats.beta, "pdf", -0.5, (2.0, 3.0)), (stats.fisk, "sf", -2.0, (2.5,)),
    (stats.burr12, "logpdf", -1.0, (2.0, 1.5)), (stats.genextreme, "pdf", 10.0, (0.5,)),
    (stats.kappa4, "sf", 10.0, (0.4, 0.5)), (stats.dpareto_lognorm, "cdf", -1.0, (4.0, 1.2, 1.5, 2.0)),
    (stats.invgauss, "logcdf", -1.0, (0.7,)), (stats.truncpareto, "cdf", -30.0, (2.0, 5.0)),
    (stats.exponweib, "pdf", -1.0, (1.5, 2.0)), (stats.rdist, "cdf", 2.0, (3.0,)),
]  # fmt: skip


@pytest.mark.parametrize(("dist", "method", "x", "shapes"), each(BESIDE, 2), ids=lambda x: getattr(x, "name", None))
def test_outside(dist: Any, method: str, x: float, shapes: tuple[float, ...]) -> None:
    f, inner, at = getattr(dist, method), float(dist.median(*shapes)) * 1.1, np.array(shapes)
    both = np.array([x, inner])

    def finite(y: Any) -> Any:
        return np.where(np.isinf(y), 0.0, y)

    for df in (gradient, hessian):
        assert_allclose(df(lambda s: np.sum(finite(f(both, *s))))(at), df(lambda s: f(inner, *s))(at), atol=1e-14)
        assert_allclose(df(lambda x: finite(f(x, *shapes)))(x), 0)


def test_rows_of_a_jacobian() -> None:
    f = stats.dpareto_lognorm.sf
    have = jacobian(lambda x: f(x, 4.0, 1.2, 1.5, 2.0))(np.array([-1.0, 0.5]))
    assert_allclose(have, [[0, 0], [0, -stats.dpareto_lognorm.pdf(0.5, 4.0, 1.2, 1.5, 2.0)]])
