"""The cache is never wrong: whatever changes between two calls, the next call gives what plain NumPy gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import agree
from caching import WEIGHTS, entries, is_compiled

from yota_py import grad, value_and_grad
from yota_py.cache.functions import MAX_SIGNATURES
from yota_py.engine.kernels import store as kernels

# ------------------------------------------------------------------------------------- the cache at work


def test_compiled_once() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x)

    x = np.linspace(0.1, 1.0, 5)
    grad(f, x)
    assert len(entries(f)) == 1 and is_compiled(f)
    for i in range(4):
        agree(f, x + i)
    assert len(entries(f)) == 1


def test_fresh_lambdas_hit_and_compile_nothing() -> None:
    def make(scale: Any) -> Callable[..., Any]:
        return lambda x: np.sum(np.exp(-x * scale))

    for i in range(3):
        agree(make(2.0), np.ones(3) + i)
    compiled, known = kernels.count(), len(entries(make(2.0)))
    assert known == 1
    for i in range(5):
        agree(make(2.0), np.ones(3) + i)
    assert (kernels.count(), len(entries(make(2.0)))) == (compiled, known)
    for scale in (3.0, 5.0, 3.0, 2.0, np.arange(3.0), np.ones(3), np.float32(2)):
        for i in range(3):
            agree(make(scale), np.ones(3) + i)


def test_entries_are_bounded() -> None:
    def f(x: Any, name: str) -> Any:
        return x * len(name)

    for n in range(MAX_SIGNATURES + 10):
        assert grad(f, 2.0, n * "a") == (2.0 * n, (float(n), None))
    assert len(entries(f)) == MAX_SIGNATURES
    agree(f, 3.0, "")


def test_other_shapes_dtypes_and_structures_beside_each_other() -> None:
    def f(x: Any, y: Any = 1.0) -> Any:
        return np.sum(np.asarray(x) * y)

    inputs: list[Any] = [
        (np.ones(3),),
        (np.ones(4),),
        (np.ones(3, np.float32),),
        (np.ones((3, 1)),),
        (2.0,),
        (np.float64(2),),
        (np.float32(2),),
        (2.0, 3.0),
        (np.ones(3), 2),
        (np.ones(3), True),
        (np.ones(3), 2.0),
        (np.ones(3), np.ones(3)),
        (np.array(2.0),),
        (np.array(2.0, np.float32),),
        (1 + 1j, 1 - 1j),
    ]
    for _ in range(4):
        for args in inputs:
            if isinstance(args[0], complex):
                continue
            value, grads = grad(f, *args)
            assert value == f(*args)
            assert np.asarray(value).dtype == np.asarray(f(*args)).dtype
            for g, a in zip(grads, args, strict=True):
                if isinstance(a, int):
                    assert g is None
                else:
                    assert (
                        type(g) is type(a) and np.shape(g) == np.shape(a) and np.asarray(g).dtype == np.asarray(a).dtype
                    )


@pytest.mark.parametrize("first", [np.float32(2), np.array(2.0, np.float32)], ids=["scalar", "0-d"])
def test_scalars_and_0d_arrays_do_not_share_an_entry(first: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(x * x)

    for _ in range(3):
        assert type(grad(f, first)[1][0]) is type(first)
    for other in (np.float32(3), np.array(3.0, np.float32), np.float64(3), 3.0, np.array(3.0)):
        assert type(grad(f, other)[1][0]) is type(other)


def test_variable_number_of_arguments() -> None:
    def f(*xs: Any) -> Any:
        return np.sum(WEIGHTS * sum(xs))

    a = np.ones(3)
    for _ in range(3):
        agree(f, a, 2 * a)
    for args in [(a,), (a, a, a), (a, a), (2.0, a), (a, 2.0), (a,), (a, 3 * a)]:
        agree(f, *args)


def test_static_arguments() -> None:
    def f(x: Any, mode: str, n: Any = 1) -> Any:
        return x**n * 2 if mode == "square" else x * 3 * n

    for mode in ("square", "cube", "square", "square", "cube", "cube", "other"):
        for n in (1, 2, True, 2, 1, np.int64(2), False, 0, 1):
            assert grad(f, 2.0, mode, n)[0] == f(2.0, mode, n)


def test_keyword_arguments() -> None:
    def f(x: Any, *, lr: Any = 1.0, name: str = "a") -> Any:
        return x * lr * len(name)

    for lr, name in [(1.0, "a"), (2.0, "a"), (3.0, "bb"), (4.0, "bb"), (5.0, "bb"), (2, "a"), (2, "a"), (3, "a")]:
        assert grad(f, 2.0, lr=lr, name=name)[0] == 2.0 * lr * len(name)
        assert grad(f, 3.0)[0] == 3.0


# --------------------------------------------------------------- branches, loop counts and bounds that depend on values


def _steps(x: Any) -> Any:
    n = 0
    while x > 1:
        x, n = x / 2, n + 1
    return x * x + n * x


_DECISIONS: dict[str, Callable[[Any], Any]] = {
    "if": lambda x: np.sum(x) if x[0] > 2 else np.sum(x * x),
    "while": lambda x: _steps(x[0]) * x[1],
    "range": lambda x: sum((x[1] * i for i in range(int(x[0]))), x[2]),
    "slice": lambda x: np.sum(x[: int(x[0])] ** 2) + x[0],
    "mask": lambda x: np.sum(x[x > 2] ** 2) + x[0],
    "nonzero": lambda x: np.sum(x[np.nonzero(x > 2)]) * x[0],
    "argmax": lambda x: x[np.argmax(x)] * x[x.argmin()],
    "builtin max": lambda x: max(x) * min(x[0], 3.0),
    "sorted": lambda x: sorted(x)[0] * 2 + sorted(x, reverse=True)[1],
    "any": lambda x: np.sum(x) if (x > 3.5).any() else np.sum(x) * 3,
    "all": lambda x: np.sum(x) if np.all(x > 1.5) else np.sum(x) * 3,
    "and, or": lambda x: np.sum(x) if x[0] > 1.5 and not x[1] > 3 else x[2] * 3,
    "chained comparison": lambda x: x[0] if 1.0 < x[1] < 2.7 else -x[0],
    "in": lambda x: np.sum(x) if 2.0 in x else np.sum(x * x),
    "in a tuple": lambda x: x[0] * 2 if x[1] in (2.0, 3.0) else x[0] * 3,
    "in a set": lambda x: x[0] * 2 if x[1] in {2.0, 3.0} else x[0] * 3,
    "dict key": lambda x: x[0] * {2.0: 10.0, 3.0: 20.0}.get(x[1], 1.0),
    "list index": lambda x: x[0] * [1.0, 2.0, 3.0].count(x[1]),
    "allclose": lambda x: np.sum(x) if np.allclose(x, [1, 2, 3]) else np.sum(x) * 3,
    "item": lambda x: x[0] * 2 if x[1].item() > 2.5 else x[0] * 5,
    "tolist": lambda x: sum(v * v for v in x.tolist() if v > 2),
    "int": lambda x: x[0] * int(x[1]) + math.floor(x[2]) * x[0],
    "round": lambda x: x[0] * round(x[1] * 1.3) + x[0] * round(x[2], 1),
    "bool": lambda x: x[0] * bool(x[1] - 2.0),
    "str": lambda x: x[0] * 2 if str(x[1]) == "2.0" else x[0] * 3,
    "repr": lambda x: x[0] * 2 if repr(x[:1]) == "array([1.])" else x[0] * 3,
    "format": lambda x: x[0] * {"2": 10.0, "3": 20.0}.get(f"{x[1]:.0f}", 1.0),
    "is_integer": lambda x: x[0] * 2 if x[1].is_integer() else x[0] * 3,
    "isnan": lambda x: x[0] * 2 if math.isnan(x[1]) or np.isinf(x[2]) else x[0] * 3,
    "unique": lambda x: np.sum(np.unique(np.floor(x)) * x[0]),
    "searchsorted": lambda x: x[0] * np.searchsorted(np.array([1.5, 2.5]), x[1]),
}


@pytest.mark.parametrize("name", _DECISIONS)
def test_decisions_are_taken_anew(name: str) -> None:
    f = _DECISIONS[name]
    a, b, c = np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0]), np.array([2.0, 3.0, 4.0])
    for x in (a, b, c, a, a, b, c, c, b, np.array([1.0, 2.5, 1e6])):
        agree(f, x)


def test_a_text_in_the_auxiliary_output_is_of_this_call() -> None:
    report = value_and_grad(lambda x: (x * x, f"{x:.2f} {x}"), has_aux=True)
    for x in (1.0, 2.0, 3.0, 4.0):
        assert report(x) == ((x * x, f"{x:.2f} {x}"), 2 * x)
