"""Sparse Jacobians and Hessians: patterns from the tape, rows and columns that are computed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sets import examples

import yota_py.jacobians.transforms as jacobians
from yota_py import config, explain, gradient, hessian, jacobian, jit
from yota_py.jacobians.rows import pattern_in
from yota_py.reverse.sparsity import groups_of

N = 24
PLACES = np.array([3, 0, 7, 7, 23, 5, 1, 11])
ELEMENTS = np.stack([np.arange(N - 1), np.arange(1, N)], 1)
BAND = scipy.sparse.diags_array([np.ones(N - 1), -2 * np.ones(N), np.ones(N - 1)], offsets=[-1, 0, 1]).toarray()
MASK = np.arange(N) % 3 == 0


def rosen(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def spring(x: Any) -> Any:
    a, b = x[ELEMENTS].T
    force = (b - a) ** 3
    out = np.zeros(N)
    np.add.at(out, ELEMENTS[:, 0], -force)
    np.add.at(out, ELEMENTS[:, 1], force)
    return out


def written(x: Any) -> Any:
    y = x.copy()
    y[::2] *= x[1::2]
    y[3] = x[0] ** 2
    y[-4:] += 2.0
    return y


def looped(x: Any) -> Any:
    out = []
    for i in range(1, N - 1):
        out.append(x[i - 1] * x[i] + (x[i + 1] if x[i] > 0 else -x[i]))
    return np.array(out)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: np.sin(x) * np.exp(x / 3),
    "neighbours": lambda x: x[1:] * x[:-1] - np.tanh(x[1:]),
    "padded": lambda x: np.diff(np.concatenate([np.zeros(1), x**2, x[:1]])),
    "gathered": lambda x: x[PLACES] ** 2 + x[PLACES[::-1]],
    "taken": lambda x: np.take(x, PLACES) * np.roll(x, 2)[:8],
    "reversed": lambda x: x[::-1] * x,
    "reshaped": lambda x: np.sum(x.reshape(4, 6) ** 2, axis=1),
    "kept": lambda x: np.max(x.reshape(6, 4), axis=0, keepdims=True) * x.reshape(6, 4)[:2],
    "transposed": lambda x: (x.reshape(4, 6).T * np.arange(4.0)) ** 2,
    "of rows": lambda x: np.prod(x.reshape(-1, 3), axis=-1),
    "chosen": lambda x: np.where(x > 0, x**2, np.roll(x, 1)),
    "masked": lambda x: x[MASK] * np.sum(x[~MASK].reshape(8, 2), axis=1),
    "clipped": lambda x: np.clip(x, -0.5, 0.5) + np.maximum(x, np.roll(x, -3)),
    "sums so far": lambda x: np.cumsum(x.reshape(6, 4), axis=1),
    "band": lambda x: BAND @ x**2,
    "band on the right": lambda x: (x**2) @ BAND,
    "a matrix of it": lambda x: x.reshape(6, 4) @ np.ones(4) + np.eye(6) @ (x.reshape(6, 4)[:, 0]),
    "products": lambda x: x.reshape(12, 2) @ x[:4].reshape(2, 2),
    "springs": spring,
    "written into": written,
    "a loop": looped,
    "one element": lambda x: x * x[5],
    "constant": lambda x: np.concatenate([x[:20] * 0.0 + 1.0, np.ones(10)]),
    "sorted": lambda x: np.sort(x)[::2] * 2.0,
    "everything": lambda x: x * np.sum(x),
    "interpolated": lambda x: np.interp(np.linspace(0.1, 0.9, 30), np.linspace(0, 1, N), x),
    "stacked": lambda x: np.stack([x[:8], x[8:16] ** 2, np.zeros(8)], axis=1),
    "twice": lambda x: np.repeat(x[:12], 2) * x,
    "of complex numbers": lambda x: np.abs(np.fft.fft(x.reshape(6, 4), axis=1)),
    "solved": lambda x: np.linalg.solve(np.diag(x[:6]) + 3 * np.eye(6), x[6:12]),
}


def plainly(monkeypatch: pytest.MonkeyPatch, f: Callable[[Any], Any], x: Any) -> Any:
    """The Jacobian, without a look at zeros."""
    with monkeypatch.context() as changes:
        changes.setattr(jacobians, "LEAST", 10**9)
        changes.setattr(config, "compile", "never")
        return jacobian(lambda x: f(x))(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_are_those_of_all_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, rng = FUNCTIONS[name], np.random.default_rng(0)
    dense, sparse = jacobian(f), jacobian(f, sparsity="auto")
    if name == "a loop":  # each of its paths is a program
        config.compile = "never"
    config.audit = "always"
    for _ in range(3):
        x = rng.normal(size=N)
        want = plainly(monkeypatch, f, x)
        np.testing.assert_allclose(dense(x), want, rtol=1e-10, atol=1e-12)
        have = sparse(x)
        assert isinstance(have, scipy.sparse.csr_matrix) and have.has_sorted_indices
        np.testing.assert_allclose(have.toarray(), want.reshape(have.shape), rtol=1e-10, atol=1e-12)
        assert have.shape == (f(x).size, N) and have.dtype == np.float64


@pytest.mark.parametrize(("name", "count"), [
    ("elementwise", N), ("neighbours", 2 * (N - 1)), ("gathered", 16), ("reshaped", N), ("band", 3 * N - 2),
    ("band on the right", 3 * N - 2), ("springs", 3 * N - 2), ("of rows", N), ("one element", 2 * N - 1),
    ("products", 12 * 2 * 4 - 4), ("constant", 20),
])  # fmt: skip
def test_patterns_are_as_sparse_as_they_can_be(name: str, count: int) -> None:
    x = np.random.default_rng(1).normal(size=N)
    pattern = pattern_in(FUNCTIONS[name], x)
    assert pattern.nnz == count
    groups = groups_of(pattern, N)
    assert groups is not None
    for k in range(groups.max() + 1):
        assert pattern[groups == k].sum(axis=0).max() <= 1


@pytest.mark.usefixtures("every_policy")
def test_hessians() -> None:
    for n in (20, 50):
        dense, sparse = hessian(rosen), hessian(rosen, sparsity="auto")
        for _ in range(3):
            x = np.random.default_rng(n).normal(size=n)
            want = scipy.optimize.rosen_hess(x)
            np.testing.assert_allclose(dense(x), want, rtol=1e-10, atol=1e-9)
            have = sparse(x)
            assert have.nnz == 3 * n - 2
            np.testing.assert_allclose(have.toarray(), want, rtol=1e-10, atol=1e-9)
    two = hessian(lambda a, x: a * rosen(x), argnums=1, sparsity="auto")(2.0, np.ones(30))
    np.testing.assert_allclose(two.toarray(), 2 * scipy.optimize.rosen_hess(np.ones(30)))


def test_they_are_compiled_and_of_any_size() -> None:
    sparse = hessian(rosen, sparsity="auto")
    for n in (1000, 30_000):
        x = np.linspace(-1.0, 1.0, n)
        for k in range(3):
            have = sparse(x + k)
            direction = np.cos(np.arange(n))
            slopes = gradient(rosen)
            numeric = (slopes(x + k + 1e-6 * direction) - slopes(x + k - 1e-6 * direction)) / 2e-6
            np.testing.assert_allclose(have @ direction, numeric, rtol=1e-6, atol=1e-4)
    assert not sparse.__yota_cache__.problems and "calls ran compiled code" in str(explain(sparse))


@pytest.mark.usefixtures("every_policy")
def test_what_is_read_elsewhere_is_seen() -> None:
    at, size = np.arange(N)[::-1].copy(), [4]

    def f(x: Any) -> Any:
        return (x[at] * x).reshape(size[0], -1).sum(axis=0)

    sparse = jacobian(f, sparsity="auto")
    rng, x = np.random.default_rng(2), np.arange(1.0, N + 1)
    for k in range(8):
        if k % 2:
            at[:] = rng.permutation(N)
        else:
            size[0] = 3 + k % 4 if N % (3 + k % 4) == 0 else 4
        want = np.zeros((N // size[0], N))
        for i in range(N):
            want[i % (N // size[0]), i] += x[at[i]]
            want[i % (N // size[0]), at[i]] += x[i]
        np.testing.assert_allclose(sparse(x).toarray(), want)


def branching(x: Any) -> Any:
    if x[0] > 0:
        return x[1:] * x[:-1]
    return x[1:] * x[0]


@pytest.mark.usefixtures("every_policy")
def test_other_branches_have_other_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, x = jacobian(branching, sparsity="auto"), np.arange(1.0, N + 1)
    for sign in (1.0, -1.0, 1.0, -1.0, -1.0):
        want = plainly(monkeypatch, branching, sign * x)
        np.testing.assert_allclose(sparse(sign * x).toarray(), want)


@pytest.mark.usefixtures("every_policy")
@pytest.mark.parametrize("f", [
    lambda x: x[:0] * 2.0, lambda x: x * 2.0, lambda x: np.concatenate([x[:0], x]),
    lambda x: np.zeros(3) + np.sum(x) * 0.0,
    lambda x: np.sum(x.reshape(0, -1) if x.size == 0 else x.reshape(2, -1), axis=0),
])  # fmt: skip
def test_nothing(f: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for x in (np.arange(4.0), np.zeros(0)):
        try:
            want = plainly(monkeypatch, f, x)
        except ValueError:  # NumPy refuses the function itself
            with pytest.raises(ValueError):
                f(x)
            continue
        for _ in range(2):
            assert jacobian(f, sparsity="auto")(x).shape == want.shape
            np.testing.assert_array_equal(jacobian(f, sparsity="auto")(x).toarray(), want)


def test_in_other_transforms() -> None:
    x = np.linspace(0.1, 1.0, N)
    step = jit(lambda x: np.sum(jacobian(FUNCTIONS["neighbours"])(x) ** 2))
    slope = gradient(lambda x: np.sum(jacobian(FUNCTIONS["neighbours"])(x) ** 2))

    def by_hand(x: Any) -> Any:
        return np.sum((x[:-1] - 1 / np.cosh(x[1:]) ** 2) ** 2) + np.sum(x[1:] ** 2)

    for k in range(3):
        np.testing.assert_allclose(step(x + k), by_hand(x + k))
        np.testing.assert_allclose(slope(x + k), gradient(by_hand)(x + k))


def test_wrong_uses() -> None:
    with pytest.raises(ValueError, match='sparsity is "auto" or None; got True'):
        jacobian(rosen, sparsity=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"in another one; <lambda> is given float64 and returns float64\[2\]"):
        jacobian(lambda x: np.array([x, x]), sparsity="auto")(2.0)
    with pytest.raises(ValueError, match=r"is given float64\[3\], float64\[3\] and returns"):
        jacobian(lambda p: p["a"] * p["b"], sparsity="auto")({"a": np.ones(3), "b": np.ones(3)})
    with pytest.raises(ValueError, match="is not sparse, as far as its operations tell"):
        jacobian(lambda x: x * np.sum(x), sparsity="auto")(np.ones(4000))


STEPS = [
    "x[1:] * x[:-1]", "np.concatenate([x, x[:3] ** 2])", "x[::-1]", "np.where(x > 0, x, 2 * x)", "np.roll(x, 5)",
    "np.sin(x) + x[0]", "np.cumsum(x)[::2]", "x[np.argsort(x)]", "np.repeat(x, 2)", "x * np.arange(1.0, len(x) + 1)",
    "np.pad(x, 2)", "np.diff(x)", "np.convolve(x, [1.0, -2.0, 0.5])", "x.reshape(-1, 1) @ np.ones((1, 2))",
    "np.add.outer(x[:4], x[:5])", "x / (1 + np.abs(np.max(x)))", "x[len(x) // 3 :]", "np.flip(x) - x",
    "np.outer(x[:3], x)",
]  # fmt: skip


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(8, share=10), deadline=None)
def test_random_functions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = [f"    x = np.ravel({STEPS[k]})\n" for k in rng.integers(len(STEPS), size=rng.integers(1, 5))]
    names: dict[str, Any] = {"np": np}
    text = f"def f(x):\n{''.join(lines)}    return x\n"
    exec(text, names)
    f, x, before = names["f"], rng.normal(size=18), (config.compile, jacobians.LEAST)
    config.compile = "never"
    try:
        have, sparse = jacobian(f)(x), jacobian(f, sparsity="auto")(x)
        jacobians.LEAST = 10**9
        want = jacobian(f)(x)
    finally:
        config.compile, jacobians.LEAST = before  # type: ignore[assignment]
    np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-11, err_msg=text)
    np.testing.assert_allclose(sparse.toarray(), want, rtol=1e-9, atol=1e-11, err_msg=text)
