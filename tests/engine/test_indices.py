"""Indices with computed whole numbers, or arrays of such, in any dimension: read, added to and written by kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sets import examples

from yota_py import explain, grad, gradient, jit, trace
from yota_py.tape.loop import as_loop
from yota_py.testing import check_grads

SHAPE = (3, 4, 5)
IN_A_TURN = [
    "np.sum(t[:, i, j])", "np.sum(t[..., j])", "np.sum(t[:, i])", "np.sum(t[k, :, j] * v[:4])", "t[k, i, j]",
    "np.sum(t[:, None, i])", "np.sum(t[k, None, :, j])", "np.sum(t[k, ::2, j])", "np.sum(t[k, ::-1, j] * v[:4])",
    "np.sum(t[k, i, 1:4] * v[:3])", "np.sum(t[-1, i, 4:1:-2])", "np.sum(np.take(t, i, axis=1))", "np.sum(t[:, i - 4])",
    "np.sum(t[:, i:i + 1])", "np.sum(t[:, :, [j, 0]])", "t.T[j, i, k]", "np.sum(t[k][:, j])", "np.sum(t[1, i])",
]  # fmt: skip


def walk(text: str, turns: int = 60) -> Any:
    """A loss whose loop reads ``t`` as in the text, at positions that are data."""
    source = f"""
def f(t, v, places):
    total = 0.0
    for k, i, j in places:
        total = np.tanh(0.5 * total + {text})
    return total
"""
    namespace: dict[str, Any] = {"np": np, "__name__": __name__}
    exec(source, namespace)
    rng = np.random.default_rng(turns)
    places = np.stack([rng.integers(0, n, turns) for n in SHAPE], axis=1)
    return namespace["f"], rng.normal(size=SHAPE) / 2, rng.normal(size=5), places


@pytest.mark.parametrize("text", IN_A_TURN)
def test_turns_of_a_loop(text: str) -> None:
    for turns in (60, 60, 61):
        f, *args = walk(text, turns)
        agree(f, *args, against=("plain", "fresh", "differences"))
    assert not any(entry.python_steps for entry in explain(f)[0].entries)
    if "i:i" not in text and "[j, 0]" not in text:
        assert any(as_loop(op) is not None for op in trace(f, *args).ops)


def test_out_of_bounds() -> None:
    def f(x: Any, places: Any) -> Any:
        total = 0.0
        for i in places:
            total = np.tanh(total + np.sum(x[:, i]))
        return total

    x, places = np.ones((2, 3)), np.zeros(50, int)
    for last in (0, 2, 3, -3, -4, 1):
        places = np.append(places[:-1], last)
        if -3 <= last < 3:
            agree(f, x, places)
            continue
        with pytest.raises(IndexError, match=f"index {last} is out of bounds for axis 1 with size 3") as error:
            grad(f, x, places)
        assert error.traceback[-1].frame.code.path.name == "test_indices.py"


@st.composite
def indices(draw: st.DrawFn) -> tuple[str, tuple[Any, ...]]:
    """The text of an index of an array of ``SHAPE``, and what it reads: numbers and arrays that broadcast."""
    parts, given, dims = [], [], list(SHAPE)
    while dims:
        kind = draw(st.sampled_from(["number", "array", "slice", "slice", "new", "known", "mask", "rest"]))
        if kind == "rest" and "..." not in parts:
            parts.append("...")
            dims = dims[draw(st.integers(0, len(dims))) :]
            continue
        if kind == "new":
            parts.append("None")
            if len(parts) > 6:
                break
            continue
        n = dims.pop(0)
        if kind in ("number", "array"):
            shape = () if kind == "number" else draw(st.sampled_from([(2,), (1,), (3, 1), (3, 2), (0, 2)]))
            dtype = draw(st.sampled_from([np.int64, np.int32, np.uint8, np.int8]))
            low = 0 if dtype is np.uint8 else -n
            numbers = draw(st.lists(st.integers(low, n - 1), min_size=6, max_size=6))
            given.append(np.resize(np.array(numbers), shape).astype(dtype)[()])
            parts.append(f"i[{len(given) - 1}]")
        elif kind == "known":
            parts.append(draw(st.sampled_from([str(n - 1), "-1", "[0, 1]", "np.array([[1], [0], [-1]])"])))
        elif kind == "mask" and draw(st.booleans()):
            parts.append(str([k % 2 == 0 for k in range(n)]))  # may not broadcast
        else:
            parts.append(draw(st.sampled_from([":", "1:", "::2", "::-1", ":-1", "2:0:-1", "1:1"])))
    return f"{', '.join(parts)},", tuple(given)


@settings(max_examples=examples(25), deadline=None)
@given(indices(), st.booleans())
def test_any_index(index: tuple[str, tuple[Any, ...]], transposed: bool) -> None:
    text, positions = index
    namespace = {"np": np, "__name__": __name__}
    exec(
        f"""
def read(x, i, v): return x[{text}] * 1.0
def loss(x, i, v): return np.sum(x[{text}] ** 2 * v)
def write(x, i, v):
    y = x * 1.0
    y[{text}] = 3.0
    y[{text}] += v
    return y
def add(x, i, v):
    y = x * 1.0
    np.add.at(y, np.s_[{text}], v)
    return y
""",
        namespace,
    )
    x = np.random.default_rng(0).normal(size=SHAPE)
    x = np.asfortranarray(x) if transposed else x
    read, loss, write, add = (namespace[name] for name in ("read", "loss", "write", "add"))
    try:
        want = read(x, positions, 2.0)
    except IndexError:
        with pytest.raises(IndexError):
            jit(read)(x, positions, 2.0)
        return
    assert want.shape == jit(read)(x, positions, 2.0).shape
    for f in (read, write, add):
        fast = jit(f)
        for v in (2.0, -1.0, 0.5):
            assert_allclose(fast(x * v, positions, v), f(x * v, positions, v), rtol=1e-14)
    for v in (2.0, -1.0):
        agree(loss, x * v, positions, v)
    dx = gradient(loss)(x, positions, 1.5)
    expected = np.zeros(SHAPE)
    exec(f"np.add.at(e, np.s_[{text}], 3.0 * x[{text}])", {"np": np, "e": expected, "x": x, "i": positions})
    assert_allclose(dx, expected)


def test_second_derivatives() -> None:
    f, t, v, places = walk("np.sum(t[:, i, j] ** 3) + np.sum(t[..., k])", 50)
    check_grads(lambda t: f(t, v, places), t)
