"""Complex numbers in gradients that are computed while the function runs."""

from __future__ import annotations

import cmath
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples
from test_short import assert_same

from yota_py import check_grads
from yota_py.cache.modes import Gradient, Request

POINT, OTHER = np.array([0.4, -1.3, 2.1, 0.7]), np.array([1.0 + 2.0j, -0.5j, 0.3, 2.0 - 1.0j])
TABLE = (np.arange(16.0) + 1j * np.arange(16.0)[::-1]).reshape(4, 4) / 9


def at_once(f: Callable[..., Any], *args: Any, argnums: Any = 0) -> Any:
    found = Gradient(argnums).at_once(Request(f, args, {}))
    return None if found is None else found[0]


def traced(f: Callable[..., Any], *args: Any, argnums: Any = 0) -> Any:
    return Gradient(argnums).reference(Request(f, args, {}))[0]


def squared(z: Any) -> Any:
    return np.sum(np.real(z) ** 2 + np.imag(z) ** 2)


def propagated(w: Any) -> Any:
    """A wave through lenses."""
    z = np.exp(1j * w)
    for k in range(3):
        z = np.fft.ifft(np.fft.fft(z) * np.exp(-0.5j * k * w**2))
    return np.sum(np.abs(z[1:3]) ** 2)


def items(w: Any) -> Any:
    z = w[0] + 1j * w[1]
    return (z * z.conj()).real + np.abs(z * np.array([w[2], 2.0])[0])


def stacked(w: Any) -> Any:
    return squared(np.stack([w, 1j * w]) @ OTHER) + squared(np.concatenate([w * OTHER, w]))


def placed(w: Any) -> Any:
    z = np.array([w[0] + 1j * w[1], w[2] - 1j])
    return squared(z * OTHER[:2])


def solved(w: Any) -> Any:
    return squared(np.linalg.solve(TABLE + 3 * np.eye(4) + 1j * np.diag(w), OTHER))


COMPLEX: dict[str, Callable[..., Any]] = {
    "numbers of Python's": lambda w: squared((1j * w[0]) * (w[1] + 2j * w[2]) * OTHER),
    "phases": lambda w: squared(np.exp(1j * w) * w),
    "spectrum": lambda w: np.sum(np.abs(np.fft.rfft(w)) ** 2),
    "waves": propagated,
    "items": items,
    "rows": stacked,
    "lists": placed,
    "systems": solved,
    "parts": lambda w: np.sum((w * OTHER).real * (w + OTHER).imag) + np.angle(np.sum(w * OTHER)),
    "products": lambda w: np.real(np.vdot(w * 1j, TABLE @ w)),
    "powers": lambda w: squared((w + 1j) ** 2 + (w * OTHER) ** 3),
    "quotients": lambda w: squared(OTHER / (w + 2j)),
    "real again": lambda w: np.sum(np.real(np.conj(w * OTHER)) * w) * w[0],
    "constants": lambda w: np.sum(w * np.abs(OTHER)) + np.sum(np.real(OTHER) * w),
    "chosen": lambda w: squared(np.where(w > 0, w * 1j, OTHER)),
    "a constant's root": lambda w: abs(cmath.sqrt(-2.0)) * np.sum(w**2),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_as_traced(name: str) -> None:
    f = COMPLEX[name]
    for shift in (0.0, 0.3, -0.7):
        have = at_once(f, POINT + shift)
        assert have is not None
        for x, want in zip(have, traced(f, POINT + shift), strict=True):
            assert_same(x, want)
    check_grads(f, POINT)


@pytest.mark.parametrize("name", ["phases", "parts", "powers", "quotients", "rows"])
def test_complex_arguments(name: str) -> None:
    of_real = COMPLEX[name]

    def f(z: Any, w: Any) -> Any:
        return of_real(w) + squared(z * w + z**2)

    for argnums in (0, 1, (0, 1)):
        have, want = (way(f, OTHER, POINT, argnums=argnums) for way in (at_once, traced))
        assert have is not None
        assert_same(have[0], want[0])
        for x, expected in zip(*([y[1]] if argnums in (0, 1) else y[1] for y in (have, want)), strict=True):
            assert_same(x, expected)


def test_values_that_are_no_result() -> None:
    """A complex result has no gradient, and what is asked of complex numbers raises as in plain calls."""
    assert at_once(lambda w: np.sum(w * 1j), POINT) is None
    assert at_once(lambda w: np.sum(w) if (1j * w[0]) < 1.0 else 0.0, POINT) is None


@settings(max_examples=examples(10, share=4), deadline=None)
@given(st.integers(0, 10**9))
def test_programs_at_random(seed: int) -> None:
    draw = random.Random(seed)
    lines, names = ["def f(w):", "    v0 = w", "    v1 = OTHER * w"], ["v0", "v1"]
    for k in range(2, 9):
        a, b = draw.choice(names), draw.choice(names[-3:])
        expression = draw.choice([
            f"{a} + {b}", f"{a} * {b}", f"{a} - 1j * {b}", f"np.real({a}) + {b}", f"np.conj({a}) * {b}",
            f"np.exp(0.1j * {a})", f"np.abs({a} + 3.0) * {b}", f"np.fft.fft({a}) / 4", f"np.imag({a}) * {b}",
            f"TABLE @ {a} / 4", f"{a}[::-1] + {b}[0]", f"np.where(np.real({a}) > 0, {a}, {b})", f"{a} / (2.5 + 1j)",
            f"np.stack([{a}, {b}])[1] * {a}[1]", f"np.cumsum({a})", f"np.sum({a}) + {b}", f"{a} ** 2 / 3",
        ])  # fmt: skip
        names.append(f"v{k}")
        lines.append(f"    v{k} = {expression}")
    total = " + ".join(f"0.1 * v{k}" for k in range(2, 9))
    space: dict[str, Any] = {"np": np, "OTHER": OTHER, "TABLE": TABLE, "squared": squared, "__name__": __name__}
    exec("\n".join([*lines, f"    return squared({total})"]), space)
    f = space["f"]
    have = at_once(f, POINT)
    assert have is not None
    for x, want in zip(have, traced(f, POINT), strict=True):
        np.testing.assert_allclose(x, want, rtol=1e-10, atol=1e-12)
