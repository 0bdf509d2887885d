"""Writing values of another dtype into an array: NumPy's functions do not agree on which casts they allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yota_py import grad, jit

LINES = [
    "np.putmask(x, x > 2, 7.5)", "np.put(x, [0], 7.5)", "np.place(x, x > 2, [7.5])", "np.copyto(x, 7.5)",
    "np.copyto(x, 7.5, casting='unsafe')", "x[:2] = [1.5, 2.5]", "np.add(x, 1.5, out=x)", "x.fill(7.5)",
    "np.add(x, 1.5, out=x, casting='unsafe')", "np.sum(x * 1.5, out=x[:1].reshape(()))", "np.cumsum(x * 1.5, out=x)",
    "np.mean(x, out=x[:1].reshape(()))", "np.take(x * 1.5, [0, 1, 2, 3], out=x)", "np.concatenate([x * 1.5], out=x)",
    "np.concatenate([x * 1.5], out=x, casting='unsafe')", "np.max(x * 1.5, out=x[:1].reshape(()))",
    "np.trace(x.reshape(2, 2) * 1.5, out=x[:1].reshape(()))", "np.choose(x.astype(int) % 2, [x * 1.5, x], out=x)",
    "np.compress([1, 1, 1, 1], x * 1.5, out=x)", "np.clip(x, 0.5, 2.5, out=x)", "np.round(x * 1.5, out=x)",
    "np.stack([x * 1.5], out=x.reshape(1, 4))", "np.einsum('i->i', x * 1.5, out=x)", "np.dot(x * 1.5, 2.0, out=x)",
    "np.cumsum(x > 2, out=(x > 2))", "x //= 2", "x /= 2", "x **= 2", "x += 1j", "x += np.float32(1)", "x += x > 2",
    "np.unique(x, axis=3)", "x.sort(axis=3)", "np.sqrt(x, out=x)", "np.prod(x * 1.5, out=x[:1].reshape(()))",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("dtype", [int, float, np.float32, np.int8])
def test_lines_that_catch_exceptions(line: str, dtype: Any) -> None:
    names: dict[str, Any] = {"np": np}
    exec(f"def f(x):\n    try:\n        {line}\n    except Exception as error:\n        return type(error).__name__\n"
         "    return 'done'", names)  # fmt: skip
    f, step = names["f"], jit(names["f"])
    for i in range(3):
        x = (np.array([3, 1, 4, 2]) + i).astype(dtype)
        y = x.copy()
        assert step(x) == f(y)
        np.testing.assert_array_equal(x, y)


def test_gradients_through_unsafe_casts() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3, np.float32)
        np.concatenate([x * 2], out=y, casting="unsafe")
        z = np.zeros(3, np.float32)
        np.take(x, [2, 1, 1], out=z)
        return np.sum(y) + np.sum(z)

    for i in range(3):
        x = np.arange(3.0) + i
        value, (slope,) = grad(f, x)
        assert value == f(x)
        np.testing.assert_array_equal(slope, [2.0, 4.0, 3.0])
