"""Loops over complex numbers and arrays: one operation, as those over real ones."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import agree
from numpy.testing import assert_allclose

from yota_py import config, explain, grad, gradient, hessian, jit, trace, vmap
from yota_py.tape.loop import as_loop
from yota_py.testing import check_grads

TURNS = 30


def schroedinger(s: Any, h: Any, data: Any) -> Any:
    z, total = s + 0j, 0.0
    for k in range(TURNS):
        z = z - 0.05j * ((h + h.T) @ z)
        z = z / np.linalg.norm(z)
        total = total + np.sum(np.abs(z * data[k]) ** 2)
    return total


def split_steps(s: Any, h: Any, data: Any) -> Any:
    z, kinetic = s.astype(complex), np.exp(-0.1j * np.arange(4) ** 2)
    for k in range(TURNS):
        z = np.exp(1j * data[k]) * z
        z = np.fft.ifft(kinetic * np.fft.fft(z))
    return np.sum(np.abs(z) ** 2 * s) + np.sum(np.real(z))


def number(s: Any, h: Any, data: Any) -> Any:
    z, c = 0j, complex(0.1, 0.2)
    for k in range(TURNS):
        z = z * z + s[0] * c + data[k, 0] * 0.1
        z = z / (1 + abs(z))
    return np.real(z) + s[1]


def real_after_all(s: Any, h: Any, data: Any) -> Any:
    for k in range(TURNS):
        s = np.tanh(np.abs(np.exp(1j * s) + data[k]) - 1)
    return np.sum(s)


def factors(s: Any, h: Any, data: Any) -> Any:
    z = s[0] * 1j + 0.3
    given = data * (1 + 1j)
    for k in range(TURNS):
        z = np.exp(1j * np.abs(z)) * given[k, 1] + s[1] * cmath.exp(0.1j * k)
    return np.abs(z)


def written(s: Any, h: Any, data: Any) -> Any:
    path = np.zeros((TURNS, 4), complex)
    z = s * 1j
    for k in range(TURNS):
        z = 0.9 * z * np.exp(0.1j * data[k]) + h[0]
        path[k] = z
    return np.sum(np.abs(path) * data[:TURNS]) + np.sum(np.imag(path[::2]))


def impedance(s: Any, h: Any, data: Any) -> Any:
    z = 1.0 + 0j
    for k in range(TURNS):
        z = 1 / (1 / (z + 0.5 + s[0] ** 2) + 0.1j * data[k, 0] * (1 + s[1] ** 2))
    return np.abs(z) + np.angle(z)


def together(s: Any, h: Any, data: Any) -> Any:
    z, y = h * (1 + 0.5j), s
    for k in range(TURNS):
        y = np.tanh(y + np.real(z[0]) * data[k])
        z = np.exp(0.1j * np.sum(y)) * z / 1.1 + h
    return np.sum(y) + np.sum(np.abs(z))


LOSSES = [schroedinger, split_steps, number, real_after_all, factors, written, impedance, together]


def arguments(seed: int, dtype: Any = float) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=shape) / 3 + 0.5).astype(dtype) for shape in [(4,), (4, 4), (TURNS, 4)]]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
def test_turns(loss: Callable[..., Any]) -> None:
    for seed in range(3):
        agree(loss, *arguments(seed), against=("plain", "fresh", "differences"))
    assert explain(loss)[0].calls >= 1
    if loss is not factors:  # whose turns differ by a number, which is seen when all have been recorded
        assert any(as_loop(op) is not None for op in trace(loss, *arguments(0)).ops)
    steps = {step.partition(" ")[0] for entry in explain(loss)[0].entries for step in entry.python_steps}
    assert steps == ({"fft", "ifft"} if loss is split_steps else set())


@pytest.mark.parametrize("loss", [schroedinger, number, written, together], ids=lambda f: f.__name__)
def test_second_derivatives(loss: Callable[..., Any]) -> None:
    s, h, data = arguments(0)
    check_grads(lambda s: loss(s, h, data), s)

    def length(s: Any) -> Any:
        return np.sum(gradient(loss)(s, h, data) ** 2)

    for k in range(3):
        agree(length, s + k / 9)


@pytest.mark.parametrize("loss", [schroedinger, real_after_all, impedance], ids=lambda f: f.__name__)
def test_single_precision(loss: Callable[..., Any]) -> None:
    for seed in range(2):
        args = arguments(seed, np.float32)
        assert_allclose(jit(loss)(*args), loss(*args), rtol=1e-4)
        assert gradient(loss)(*args).dtype == np.float32
        agree(loss, *args)


def test_complex_arguments_and_results() -> None:
    def f(z: Any, c: Any) -> Any:
        for _ in range(TURNS):
            z = z * np.exp(0.1j * np.abs(c)) + 0.01 * c * np.conj(z)
        return z

    fast, rng = jit(f), np.random.default_rng(0)
    for shape in [(3,), (3,), (2, 2), (3,)]:
        z, c = (rng.normal(size=shape) + 1j * rng.normal(size=shape) for _ in range(2))
        assert_allclose(fast(z, c), f(z, c), rtol=1e-12)
        agree(lambda z, c: np.sum(np.abs(f(z, c))), z, c, against=("plain", "fresh", "differences"))
    assert_allclose(fast(0.5j, 0.1), f(0.5j, 0.1), rtol=1e-12)


def test_other_verbs() -> None:
    s, h, data = arguments(1)
    second = hessian(lambda s: number(s, h, data))(s)
    steps = [(gradient(number)(s + v, h, data) - gradient(number)(s - v, h, data)) / 2e-6 for v in 1e-6 * np.eye(4)]
    assert_allclose(second, steps, rtol=1e-5, atol=1e-7)
    many = np.stack([s, s / 2, -s])
    assert_allclose(vmap(lambda s: number(s, h, data))(many), [number(x, h, data) for x in many])


def becomes_complex(a: Any) -> Any:
    x = a
    for _ in range(60):
        x = abs((x - 1.0) ** 0.5) * 0.8
    return x


def becomes_complex_until(a: Any) -> Any:
    x, n = a, 0.0 * a
    while n < 40.0:
        x, n = abs((x - 1.0) ** 0.5) * 0.8, n + 1.0
    return x


def roots(a: Any) -> Any:
    z = a
    for _ in range(60):
        z = abs(cmath.sqrt(z - 1.0)) * 0.8 + np.abs(np.emath.sqrt(0.5 - z)) * 0.1
    return z


def squares(a: Any) -> Any:
    z = a * 1j
    for _ in range(60):
        z = (z**2 + a) / (1 + abs(z) ** 2) + 0.1j
    return abs(z)


def powers(a: Any) -> Any:
    z = a * 1j
    for _ in range(60):
        z = (z**0.5 + a) * 0.5
    return z.real + z.imag


def turned(a: Any) -> Any:
    z = a * 1j
    for _ in range(60):
        z = cmath.exp(1j * a) * 0.5 * z + z.conjugate() * 0.1 + 0.2j
    return z.real * z.imag


@pytest.mark.filterwarnings("ignore::yota_py.errors.CompilerWarning")  # what becomes complex by chance is interpreted
@pytest.mark.parametrize("policy", ["never", "always", "auto"])
@pytest.mark.parametrize(
    "f", [becomes_complex, becomes_complex_until, roots, squares, powers, turned], ids=lambda f: f.__name__
)
def test_numbers_of_python(f: Callable[[Any], Any], policy: Any) -> None:
    config.compile = policy
    for a in (2.0, 1.7, 0.3, 3.0):
        value, (slope,) = grad(f, a)
        assert_allclose(value, f(a))
        assert_allclose(slope, (f(a + 1e-6) - f(a - 1e-6)) / 2e-6, rtol=1e-4, atol=1e-6)
