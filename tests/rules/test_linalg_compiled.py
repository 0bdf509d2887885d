"""Functions of ``scipy.linalg`` in kernels: values, derivatives and refusals are SciPy's, in loops too."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sla
from agreement import agree
from numpy.testing import assert_allclose

from yota_py import grad, jit
from yota_py.capture.recording import record_call
from yota_py.engine.schedule.fuse import fuse
from yota_py.engine.schedule.steps import Python
from yota_py.passes.lower import lower
from yota_py.passes.pipeline import optimise
from yota_py.reverse.verbs import differentiate
from yota_py.testing import check_grads

BOTH = (False, True)
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "solve": lambda a, b: sla.solve(a, b), "transposed": lambda a, b: sla.solve(a, b, transposed=True),
    "general": lambda a, b: sla.solve(a, b, assume_a="gen"), "columns": lambda a, b: sla.solve(a, np.outer(b, b)),
    "Fortran": lambda a, b: sla.solve(np.asfortranarray(a.T), b), "inv": lambda a, b: sla.inv(a) @ b,
    **{f"triangle {trans} {lower}": lambda a, b, t=trans, low=lower: sla.solve_triangular(a, b, t, low)  # type: ignore[misc]
       for trans in (0, 1, "T", "C") for lower in BOTH},
    "triangle of columns": lambda a, b: sla.solve_triangular(a.T, np.outer(b, b)[:, ::-1], lower=True),
    **{f"factor {lower}": lambda a, b, low=lower: sla.cholesky(a @ a.T, lower=low) @ b for lower in BOTH},  # type: ignore[misc]
    **{f"all of the factor {lower}": lambda a, b, low=lower: sla.cho_factor(a @ a.T + a, low)[0] @ b for lower in BOTH},  # type: ignore[misc]
    **{f"factored {lower}": lambda a, b, low=lower: sla.cho_solve(sla.cho_factor(a @ a.T, lower=low), b)  # type: ignore[misc]
       for lower in BOTH},
    "factored columns": lambda a, b: sla.cho_solve((np.tril(a), True), np.outer(b, b)),
}  # fmt: skip


def given(seed: int, n: int = 3, dtype: Any = float) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, n)) + 4 * np.eye(n)).astype(dtype), rng.normal(size=n).astype(dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(name: str) -> None:
    f = FUNCTIONS[name]
    for seed in range(3):
        agree(lambda a, b: np.sum(np.cos(f(a, b))), *given(seed), against=("plain", "fresh", "differences"))
    for n in (1, 2, 6):
        values = jit(f)
        for seed in range(3):
            a, b = given(seed, n)
            assert_allclose(values(a, b), f(a, b), rtol=1e-10)
            assert_allclose(values(a.T, b[::-1]), f(a.T, b[::-1]), rtol=1e-10)
    have = jit(f)(*given(5, dtype=np.float32))
    assert have.dtype == np.float32
    assert_allclose(have, f(*given(5, dtype=np.float32)), rtol=1e-4)


@pytest.mark.parametrize("name", ["solve", "inv", "triangle 0 False", "factor True", "factored False"])
def test_no_python_steps(name: str) -> None:
    gradient = differentiate(record_call(lambda a, b: np.sum(FUNCTIONS[name](a, b) ** 2), given(0), {}))
    assert not [step for step in fuse(optimise(lower(gradient).tape)).steps if isinstance(step, Python)]


def filter_of_kalman(p: Any, data: Any) -> Any:
    """One that is written with SciPy, of the position and the speed."""
    x, cov, loss = np.array([0.0, 0.1]), np.eye(2), 0.0
    step, seen, noise = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.diag([0.01, 0.02])
    for z in data:
        x, cov = step @ x, step @ cov @ step.T + p[0] * noise
        s = seen @ cov @ seen.T + p[1] * np.eye(1)
        gain = sla.cho_solve(sla.cho_factor(cov + 1e-3 * np.eye(2)), cov @ cov) @ seen.T @ sla.inv(s)
        x = x + gain @ (z - seen @ x)
        cov = cov - gain @ seen @ cov
        loss = loss + (z - (seen @ x)[0]) ** 2 + np.log(s[0, 0]) + sla.solve(cov + np.eye(2), x) @ x
    return loss


def test_in_turns() -> None:
    for seed in range(3):
        data = np.random.default_rng(seed).normal(size=45).cumsum() / 9
        agree(filter_of_kalman, np.array([0.5, 0.3]) + seed / 9, data, against=("plain", "fresh", "differences"))
    check_grads(filter_of_kalman, np.array([0.5, 0.3]), data)


@pytest.mark.parametrize("name", ["solve", "inv", "triangle 0 True", "factor False", "factored True"])
def test_what_scipy_refuses(name: str) -> None:
    """Also by compiled code, which has served other calls, and does so afterwards."""
    f = FUNCTIONS[name]
    loss, values = (lambda a, b: np.sum(f(a, b))), jit(f)
    singular = np.zeros((3, 3))
    unknown, unbounded = given(1)[0], given(1)[0]
    unknown[0, 2], unbounded[2, 0] = np.nan, np.inf
    for k in range(3):
        a, b = given(k)
        assert_allclose(values(a, b), f(a, b), rtol=1e-10)
        grad(loss, a, b)
        for wrong, kind in ((singular, sla.LinAlgError), (unknown, ValueError), (unbounded, ValueError)):
            for call in (f, values, lambda a, b: grad(loss, a, b)):
                with pytest.raises(kind):
                    call(wrong, b)
        if "factor " not in name and name != "inv":
            for call in (f, values, lambda a, b: grad(loss, a, b)):
                with pytest.raises(ValueError, match="infs or NaNs"):
                    call(a, b * np.array([1.0, np.nan, 1.0]))


@pytest.mark.parametrize("name", ["triangle 0 False", "triangle 1 True", "factored True", "solve", "inv"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_each_number_is_looked_at(name: str, dtype: Any) -> None:
    f, (a, b) = jit(FUNCTIONS[name]), given(2, 9, dtype)  # 81 numbers: more than are looked at together, and a rest
    for at in np.ndindex(9, 9):
        for wrong in (np.nan, -np.inf):
            bad = a.copy()
            bad[at] = wrong
            with pytest.raises(ValueError, match="infs or NaNs"), np.errstate(all="ignore"):
                f(bad, b)
    assert_allclose(f(a, b), FUNCTIONS[name](a, b), rtol=1e-3 if dtype is np.float32 else 1e-10)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.startswith(("triangle", "factored"))])
def test_matrices_that_are_only_read_lie_as_they_like(name: str) -> None:
    f = jit(FUNCTIONS[name])
    for k in range(3):
        a, b = given(k, 6)
        wide = np.zeros((12, 18))
        wide[::2, ::3] = a
        part = (a[1:, :-1] + 9 * np.eye(5))[::2, ::2]
        for matrix in (a, np.asfortranarray(a), wide[::2, ::3], wide.T[::3, ::2].T, a[::-1, ::-1], part):
            before, x = matrix.copy(), b[: len(matrix)]
            assert_allclose(f(matrix, x), FUNCTIONS[name](matrix, x), rtol=1e-9)
            assert np.array_equal(matrix, before)


def test_what_is_not_checked_may_be_anything() -> None:
    f = jit(lambda a, b: sla.solve_triangular(a, b, check_finite=False))
    for k in range(3):
        a, b = given(k)
        a[2, 0] = np.nan  # which is not read
        assert_allclose(f(a, b), sla.solve_triangular(a, b, check_finite=False), rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_matrices_that_are_nearly_singular_are_left_to_scipy() -> None:
    """Which raises for some, and warns of others."""
    def outcome(f: Any, a: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return np.isfinite(f(a)).all()
            except (sla.LinAlgError, sla.LinAlgWarning) as error:
                return type(error)

    b = np.ones(3)
    functions: list[Any] = [lambda a: sla.solve(a, b), sla.inv]
    for f in functions:
        compiled = jit(f)
        for k in range(3):
            compiled(given(k)[0])
        singular = np.array([[5.0, 2.0, 3.0], [2.0, 2.0, 0.0], [3.0, 0.0, 3.0]])
        factors = [np.random.default_rng(k).integers(-3, 4, (3, 2)).astype(float) for k in range(60)]
        for a in (singular, sla.hilbert(3), np.diag([1.0, 1e-20, 2.0]), *(m @ m.T for m in factors)):
            assert outcome(compiled, a) == outcome(f, a)


OVERWRITTEN: dict[str, Callable[[Any, Any], Any]] = {
    "triangle": lambda a, b: sla.solve_triangular(a, b, 0, True, False, False, True),
    "solve": lambda a, b: sla.solve(a, b, False, False, False, True, None, True),
    "factored": lambda a, b: sla.cho_solve((a, True), b, False, True), "inv": lambda a, b: sla.inv(a, False, True) @ b,
    "factor": lambda a, b: sla.cholesky(a @ a.T, False, False, True) @ b,
    "det": lambda a, b: sla.det(a, False, True) * b,
    "least squares": lambda a, b: sla.lstsq(a, b, 1e-9, False, False, True, "gelsd")[0],
}  # fmt: skip


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_flags_by_position(name: str) -> None:
    """What may be overwritten is told first, and arguments behind it are what they are."""
    f = OVERWRITTEN[name]
    for k in range(3):
        a, b = given(k)
        before = a.copy(), b.copy()
        agree(lambda a, b: np.sum(np.cos(f(a, b))), a, b, against=("plain", "fresh", "differences"))
        assert_allclose(jit(f)(a, b), f(a, b), rtol=1e-10)
        assert np.array_equal(a, before[0]) and np.array_equal(b, before[1])
