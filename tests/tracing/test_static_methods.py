"""Static methods of a library's classes get stand-ins, as other methods do, and are put back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from yota_py import grad
from yota_py.registry.patches import patched


@pytest.mark.skipif((Rotation, "from_rotvec") not in patched, reason="SciPy's rotations are written in C")
def test_static_methods() -> None:
    there = vars(Rotation)["from_rotvec"]
    assert isinstance(there, staticmethod)
    v = np.array([0.1, 0.2, 0.3])

    def f(x: Any) -> Any:
        by_class, by_object = Rotation.from_rotvec(rotvec=x), Rotation.identity().from_rotvec(x)
        constant = Rotation.from_rotvec([0.0, 0.0, 1.0])
        assert isinstance(vars(Rotation)["from_rotvec"], staticmethod) and isinstance(constant.as_quat(), np.ndarray)
        return np.sum(by_class.as_rotvec() + by_object.as_rotvec())

    np.testing.assert_allclose(grad(f, v)[1][0], 2)
    assert vars(Rotation)["from_rotvec"] is there
