"""Where a derivative is infinite or NaN, so is the gradient: no rule raises an exception of SciPy's for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sla
from entries import OF_NUMPY, OF_SCIPY
from numpy.testing import assert_array_equal

from yota_py import YotaError, config, grad, jit, pullback, value_and_grad
from yota_py.capture.recording import record_call
from yota_py.engine.schedule.fuse import fuse
from yota_py.engine.schedule.steps import Python
from yota_py.passes.lower import lower
from yota_py.passes.pipeline import optimise
from yota_py.registry.registry import Primitive, Sample
from yota_py.reverse.verbs import differentiate

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


def filled(y: Any, number: float) -> Any:
    """The same with this number everywhere."""
    if isinstance(y, tuple | list):
        items = [filled(item, number) for item in y]
        return type(y)(*items) if hasattr(y, "_fields") else type(y)(items)
    if isinstance(y, np.ndarray | np.inexact | float | complex) and np.asarray(y).dtype.kind in "fc":
        return np.full_like(y, number)[()]
    return y


@pytest.mark.parametrize("entries", [OF_NUMPY, OF_SCIPY], ids=["NumPy", "SciPy"])
@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_no_rule_raises(entries: list[Primitive], number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "never")
    raised, counted = [], 0
    for entry in (entry for entry in entries if entry.rule is not None or entry.body is not None):
        for case in [case for draw in entry.cases for case in draw(Sample(0))][:2]:
            try:
                y, back = pullback(lambda *args, e=entry, c=case: e.fn(*args, **c.kwargs), *case.args)
            except YotaError:  # of integers, and of lists of objects
                continue
            counted += 1
            try:
                back(filled(y, number))
            except Exception as error:  # any: it is what this test is about
                raised.append((entry.name, repr(error)))
    assert not raised and counted > len(entries)


MATRIX, RIGHT = np.diag([2.0, 3.0, 4.0]), np.array([1.0, 0.0, 2.0])
BANDS = np.array([[0.0, 0.0, 0.0], [2.0, 3.0, 4.0], [0.0, 0.0, 0.0]])
SYSTEMS: dict[str, Callable[..., Any]] = {
    "solve": lambda b, a, **options: sla.solve(a, b, **options),
    "solve pos": lambda b, a, **options: sla.solve(a, b, assume_a="pos", **options),
    "triangular": lambda b, a, **options: sla.solve_triangular(a, b, **options),
    "Cholesky": lambda b, a, **options: sla.cho_solve((a**0.5, True), b, **options),
    "LU": lambda b, a, **options: sla.lu_solve((a, np.arange(3)), b, **options),
    "banded": lambda b, a, **options: sla.solve_banded((1, 1), BANDS + 0 * a, b, **options),
    "Hermitian bands": lambda b, a, **options: sla.solveh_banded(BANDS[:2] + 0 * a[:2], b, **options),
    "Toeplitz": lambda b, a, **options: sla.solve_toeplitz(a[0], b, **options),
}  # fmt: skip


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("options", [{}, {"check_finite": False}], ids=["checked", "unchecked"])
def test_slopes_at_the_end_of_a_domain(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a root at zero; by compiled code, which serves other calls afterwards."""
    loss = lambda b, a: np.sum(np.sqrt(SYSTEMS[name](b, a, **options)))  # noqa: E731
    monkeypatch.setattr(config, "compile", "always")
    compiled = value_and_grad(loss, (0, 1))
    for k in range(3):
        for right in (RIGHT + 1 + k, RIGHT):
            with monkeypatch.context() as interpreted:
                interpreted.setattr(config, "compile", "never")
                want, slopes = grad(loss, right, MATRIX)
            value, gradients = compiled(right, MATRIX)
            assert np.isclose(value, want) and np.isfinite(value)
            for have, dx in zip(gradients, slopes, strict=True):
                np.testing.assert_allclose(have, dx, rtol=1e-9, atol=1e-12)
        assert not np.isfinite(gradients[0]).all()


@pytest.mark.parametrize("name", ["triangular", "Cholesky"])
def test_what_is_not_checked(name: str) -> None:
    """What stands in the other triangle has no influence; in kernels."""
    a = np.array([[2.0, np.nan], [1.0, 3.0]])
    f: Callable[..., Any] = {
        "triangular": lambda b, a: sla.solve_triangular(a, b, lower=True, check_finite=False),
        "Cholesky": lambda b, a: sla.cho_solve((a, True), b, check_finite=False),
    }[name]
    compiled, values = value_and_grad(lambda b, a: np.sum(f(b, a)), (0, 1)), jit(f)
    for k in range(3):
        b = RIGHT[:2] + k
        value, (db, da) = compiled(b, a)
        want, (slope, slopes) = grad(lambda b, a: np.sum(f(b, a)), b, np.tril(np.nan_to_num(a)))
        assert np.isclose(value, want)
        np.testing.assert_allclose(db, slope, rtol=1e-12)
        np.testing.assert_allclose(da, slopes, rtol=1e-12)
        assert_array_equal(values(b, a), f(b, a))
    gradient = differentiate(record_call(lambda b, a: np.sum(f(b, a)), (b, a), {}))
    assert not [step for step in fuse(optimise(lower(gradient).tape)).steps if isinstance(step, Python)]
