"""What a traced function sees of its arrays lies in memory as NumPy's own results do: what is a view depends on it."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from entries import OF_NUMPY
from layouts import LAYOUTS, check_gradients, check_step, drawn, steps_of
from yota_py.rules.layout import memory_axes

from yota_py import jit, trace
from yota_py.base.dispatch import original, shadow
from yota_py.registry.registry import Primitive, Sample
from yota_py.tracing.stand_ins import Kept


def _laid(value: Any, layout: Callable[[np.ndarray], np.ndarray]) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_laid(item, layout) for item in value)
    return layout(value) if type(value) is np.ndarray and value.ndim > 1 else value


def _caller(entry: Primitive) -> Callable[..., Any]:
    """What calls the function by its name in NumPy or SciPy, where its stand-in is while a trace runs."""
    fn, name = entry.fn, getattr(entry.fn, "__name__", "")
    module = sys.modules.get(getattr(fn, "__module__", None) or "numpy")
    if module is None or module.__name__.partition(".")[0] not in ("numpy", "scipy"):
        return lambda *args, **kwargs: fn(*args, **kwargs)
    if original(getattr(module, name, None)) is not fn:
        return lambda *args, **kwargs: fn(*args, **kwargs)
    space: dict[str, Any] = {"module": module}
    exec(f"def call(*args, **kwargs): return module.{name}(*args, **kwargs)", space)
    return space["call"]  # type: ignore[no-any-return]


def _traced(f: Callable[[Any], Any], args: Any) -> Any:
    """The value that a traced function has seen."""
    seen: list[Any] = []

    def kept(args: Any) -> float:
        seen.append(shadow(f(args)))
        return 0.0

    trace(kept, args)
    return seen[0]


def _listed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arrays of a list that comes first."""
    return tuple(args[0]) if args and isinstance(args[0], tuple | list) else ()


importlib.import_module("scipy.special")
ENTRIES = OF_NUMPY


@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_with_rules(layout: str) -> None:
    count = 0
    with Kept():
        for entry in ENTRIES:
            call = _caller(entry)
            for case in (case for cases in entry.cases for case in cases(Sample(0))):
                args = _laid(tuple(case.args), LAYOUTS[layout])
                if not any(isinstance(x, np.ndarray) and x.ndim > 1 for x in (*args, *_listed(args))):
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    want = entry.fn(*args, **case.kwargs)
                    have = _traced(lambda args: call(*args, **case.kwargs), args)  # noqa: B023
                assert steps_of(have) == steps_of(want), (entry.name, case)
                count += 1
    assert count > 300


EXPRESSIONS = """
np.delete(x, 0, 1); np.delete(x, [0], axis=0); np.delete(x, slice(0, 1), axis=1); np.compress([True, False], x, axis=0)
x.compress([True, False, True], axis=1); np.argwhere(x); np.unique(x); np.array([x, x]); np.asarray([x, x * 2])
np.zeros_like(x) + x; np.full_like(x, 2.0, order="A") * x; np.isnan(np.empty_like(x, order="F")) * 0 + x; x.flatten("F")
np.add(x, 1, order="F"); np.multiply(x, x, order="C"); np.exp(x, order="A"); np.add(x, 1, dtype=np.float32)
np.add(x, x.copy("F")); x * np.ones(x.shape, order="F"); np.divmod(x, 2)[0]; x.T * x.T; -x; x**2; [x, x] * x
x - [x.copy("F")]; np.multiply([x, x], x); np.add.outer(x, x); np.add.outer(x, x, order="F"); x.cumsum(0)
np.multiply.accumulate(x, axis=0); np.add.reduceat(x, [0, 1], axis=0); np.maximum.accumulate(x); x.sum(0, keepdims=True)
x.round(1); x.clip(0, 1); np.clip(x, 0, None); np.clip(x, 0, 1, dtype=np.float32); np.where(x > 1, x, 0); x.repeat(2, 0)
x.take([0, 1], axis=1); np.sort([x, x], axis=0); np.cumsum([x, x], axis=0); np.real(x + 1j); (x * 1j).imag; x.conj()
np.add(x, 1, where=x > 1, out=np.zeros(x.shape, order="F")); np.add(x, 1, out=np.zeros(x.shape, order="F"))
np.stack([x.T, x.T]); np.linspace(x, x + 1, 3, axis=-1); np.take_along_axis(x, np.argsort(x, 0), 0); x[:, [0, 1]]
x.ravel("K"); x.ravel("A"); x.flatten("K"); x.flatten("A"); np.reshape(x, (3, 2), "A"); np.copy(x, "A"); x.copy("K")
x.copy("K").ravel("K"); np.sin(x).ravel(order="K"); np.asfortranarray(x).ravel(order="A"); (x * 2).flatten("K")
x[::-1].ravel("K"); x[:, ::2].ravel("K"); np.broadcast_to(x, (2, 2, 3)).ravel("K"); x[:1].ravel("k"); x[0].ravel("K")
(x + 1j).ravel("K").real; np.stack([x, x]).transpose(1, 2, 0).ravel("K"); x.reshape(-1); x.reshape(3, 2, order="F")
""".replace("\n", ";").split(";")
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    text.strip(): eval(f"lambda x: {text}", {"np": np}) for text in EXPRESSIONS if text.strip()
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_expressions(text: str) -> None:
    for layout in LAYOUTS.values():
        x = layout(drawn((2, 3)))
        have, want = _traced(FUNCTIONS[text], x), FUNCTIONS[text](x)
        assert steps_of(have) == steps_of(want)
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("text", FUNCTIONS)
def test_steps_of_arguments_in_any_layout(text: str) -> None:
    check_step(FUNCTIONS[text])


@pytest.mark.usefixtures("every_policy")
@pytest.mark.parametrize("order", ["K", "A"])
def test_orders_of_memory_in_gradients(order: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x).ravel(order) * np.arange(6.0)) + np.sum(x.copy("K").flatten(order)[:2] ** 2)

    check_gradients(f)


def test_axes_in_the_order_of_memory() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        axes = rng.permutation(rng.integers(1, 5))
        x = np.arange(81.0)[: 3 ** len(axes)].reshape((3,) * len(axes)).transpose(axes)
        x = x[tuple(slice(rng.integers(2), None, rng.choice([1, 2, -1])) for _ in axes)]
        if rng.random() < 0.5:
            x = np.expand_dims(x, at := int(rng.integers(x.ndim + 1)))
            x = np.broadcast_to(x, [2 if axis == at else n for axis, n in enumerate(x.shape)])
        flat = x.transpose(memory_axes(x)).ravel()
        np.testing.assert_array_equal(flat, x.ravel("K"))
        assert np.shares_memory(flat, x) == np.shares_memory(x.ravel("K"), x)


def test_an_array_that_is_read_in_the_order_of_memory() -> None:
    step = jit(lambda x: np.array([v * 1.0 for v in np.nditer(x)]))
    for x in (np.arange(4.0).reshape(2, 2), np.arange(4.0).reshape(2, 2).copy("F")) * 3:
        np.testing.assert_array_equal(step(x), [v * 1.0 for v in np.nditer(x)])
