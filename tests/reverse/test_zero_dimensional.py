"""Interpreted gradients of arrays without dimensions, and what is taken out of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yota_py import config, grad, gradtape


@pytest.mark.parametrize("policy", ["never", "always"])
def test_what_is_taken_out_of_a_number(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return x[()] + np.sin(x) + x[()]

    def g(x: Any) -> Any:
        return np.sum(x[...] * 2.0) + np.sin(x) + x[()]

    monkeypatch.setattr(config, "compile", policy)
    x = np.array(1.5)
    for h, slope in ((f, 2.0 + np.cos(1.5)), (g, 3.0 + np.cos(1.5))):
        for _ in range(3):
            value, (dx,) = grad(h, x)
            np.testing.assert_allclose([value, dx], [h(x), slope], rtol=1e-14)
            assert type(dx) is np.ndarray and dx.shape == ()
        np.testing.assert_allclose(gradtape(h, x).play(x)[1][0], slope, rtol=1e-14)
