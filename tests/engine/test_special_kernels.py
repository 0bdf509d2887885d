"""SciPy's own functions in kernels: the same numbers as its ufuncs give."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from emitted import Loops
from numpy.testing import assert_allclose
from scipy import special

from yota_py import config, gradient, jit
from yota_py.engine.schedule.special import kernel_of
from yota_py.registry.kernels import emitted

UFUNCS = {f.__name__: f for f in [*vars(special).values()] if isinstance(f, np.ufunc) and kernel_of(f) is not None}
# Their values depend on the compiler's rounding, or on where an iteration ends.
LOOSE = {"kolmogi": 1e-9, "owens_t": 1e-9}


@functools.cache
def loops(dtype: type, width: str) -> Loops:
    def emit(name: str) -> Any:
        kernel = kernel_of(UFUNCS[name])
        assert kernel is not None
        return lambda k, *values: emitted(k, kernel.emit, *values)

    return Loops([(name, emit(name), [dtype] * f.nin, dtype) for name, f in UFUNCS.items()], width)


def test_what_is_known() -> None:
    usual = "psi ndtr log_ndtr erfinv i0 i1 i0e i1e j0 j1 k0 jv iv gamma gammainc betainc erfcx dawsn expi ndtri beta"
    assert set(usual.split()) <= set(UFUNCS)
    for other in (np.exp, np.spacing, special.bdtr, special.wofz, special.airy, special.softmax, np.sort, len):
        assert kernel_of(other) is None


@pytest.mark.parametrize("width", ["vector", "scalar"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values(dtype: type, width: str) -> None:
    """At points inside and outside of the domains, at zeros, infinities and NaN."""
    rng, edges = np.random.default_rng(0), [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.0]
    for name, f in UFUNCS.items():
        points = np.concatenate([rng.uniform(0, 1, 20), rng.uniform(-3, 3, 20), rng.uniform(0, 30, 10), edges])
        args = [rng.permutation(points).astype(dtype) for _ in range(f.nin)]
        with np.errstate(all="ignore"):
            want = f(*(a.astype(float) for a in args)).astype(dtype)
            have = loops(dtype, width)(name, *args)
        assert_allclose(have, want, rtol=LOOSE.get(name, 1e-13 if dtype is np.float64 else 1e-6), err_msg=name)


def test_programs_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing remains a step in Python; numbers, arrays and float32 keep their types."""
    monkeypatch.setattr(config, "compile", "always")

    def f(x: Any) -> Any:
        return np.sum(special.ndtr(x) * special.digamma(x + 3) + special.log_ndtr(x) - special.j0(x) * special.i1(x))

    g = jit(lambda x: (special.ndtr(x), special.jv(0.5, x), special.erfinv(x / 9)))
    step = 1e-6
    for x in (np.array([0.3, 1.5, 2.5]), np.array([0.1, 0.2, 0.7]), np.array([2.0, 3.0, 1.0])):
        slope = gradient(f)(x)
        for k, unit in enumerate(np.eye(3)):
            assert_allclose(slope[k], (f(x + step * unit) - f(x - step * unit)) / (2 * step), rtol=1e-6)
        for value in (x, x.astype(np.float32), float(x[0]), x[1]):
            want = special.ndtr(value), special.jv(0.5, value), special.erfinv(value / 9)
            for _ in range(2):
                for have, expected in zip(g(value), want, strict=True):
                    assert type(have) is type(expected) and have.dtype == expected.dtype
                    assert_allclose(have, expected, rtol=1e-6 if have.dtype == np.float32 else 1e-13)
