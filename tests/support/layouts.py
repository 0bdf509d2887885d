"""Arguments that lie in memory in one way or another, and what plain NumPy does with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad, jit, value_and_grad

Function = Callable[[Any], Any]

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": lambda a: a.copy(order="C"),
    "F": lambda a: a.copy(order="F"),
    "transposed": lambda a: a.T.copy(order="C").T,
    "every second column": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "every second row of F": lambda a: np.repeat(a.T, 2, axis=-1).T[::2],
    "upside down": lambda a: a[::-1].copy(order="C")[::-1],
}

_DATA = np.random.default_rng(7)


def drawn(shape: tuple[int, ...]) -> np.ndarray:
    """Positive numbers, others at each call, which are so far from each other that none change places in ``slopes``."""
    return _DATA.choice(np.arange(0.50005, 1.5, 0.0001), shape, replace=False)


def steps_of(value: Any) -> Any:
    """Of each array: its shape, and how it steps through memory along axes of several elements."""
    if isinstance(value, np.ndarray):
        steps = zip(value.strides, value.shape, strict=True)
        return value.shape, [step if extent > 1 else None for step, extent in steps] if value.size else None
    if isinstance(value, tuple | list):
        return [*map(steps_of, value)]
    return None


def orders_of(value: Any) -> Any:
    """Of each array: its axes of several elements, from the slowest to the fastest in memory."""
    if isinstance(value, tuple | list):
        return [*map(orders_of, value)]
    steps = [-abs(step) for step in getattr(value, "strides", ())]
    return [axis for axis in np.argsort(steps, kind="stable") if value.shape[axis] > 1]


def slopes(f: Function, layout: Callable[[np.ndarray], np.ndarray], data: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """Central differences in every element, of arguments that all lie in memory in the same way."""
    out = np.empty(data.shape)
    for at in np.ndindex(data.shape):
        step = np.zeros(data.shape)
        step[at] = h
        out[at] = (f(layout(data + step)) - f(layout(data - step))) / (2 * h)
    return out


def check_gradients(
    f: Function, shape: tuple[int, ...] = (2, 3), rounds: int = 3, second: bool = True, within: bool = True
) -> None:
    """Value, first and second derivative of ``f``, by itself and within ``jit``, of all layouts in turn."""

    def twice(x: Any) -> Any:
        return np.sum(np.sin(value_and_grad(f)(x)[1]) * np.cos(x))

    ways: list[Callable[[Any], Any]] = [value_and_grad(f), jit(lambda x: value_and_grad(f)(x))]
    for _ in range(rounds):
        for name, layout in LAYOUTS.items():
            data = drawn(shape)
            want, slope = f(layout(data)), slopes(f, layout, data)
            for way in ways[: 1 + within]:
                value, dx = way(x := layout(data))
                assert_allclose(value, want, rtol=1e-12, err_msg=name)
                assert_allclose(dx, slope, rtol=1e-5, atol=1e-6, err_msg=name)
                assert_array_equal(x, data)
            if second:
                _, (dx,) = grad(twice, layout(data))
                assert_allclose(dx, slopes(twice, layout, data, 1e-5), rtol=1e-4, atol=1e-5, err_msg=f"{name}, second")


def check_step(f: Function, shape: tuple[int, ...] = (2, 3), rounds: int = 3) -> None:
    """What ``jit`` makes of ``f``: its result, how that lies in memory, and what is written into the argument."""
    step = jit(f)
    for _ in range(rounds):
        for name, layout in LAYOUTS.items():
            data = drawn(shape)
            plain, x = layout(data), layout(data)
            want, have = f(plain), step(x)
            assert orders_of(have) == orders_of(want), name
            for a, b in zip(*(y if isinstance(y, tuple) else (y,) for y in (have, want)), strict=True):
                assert_allclose(a, b, rtol=1e-12, err_msg=name)
            assert_array_equal(x, plain, err_msg=name)
