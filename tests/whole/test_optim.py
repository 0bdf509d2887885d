"""Optimisers take the steps that PyTorch's take, in any tree, by themselves and compiled with their gradients."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import rosen

from yota_py import explain, gradient, jit, optim, value_and_grad

RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, 5))
Y = np.tanh(X @ RNG.normal(size=5)) + 0.1


def loss(params: Any, x: Any, y: Any) -> Any:
    return np.mean((np.tanh(x @ params["w"] + params["b"]) - y) ** 2)


def start() -> Any:
    return {"w": np.linspace(-1.0, 1.0, 5), "b": np.zeros(1)}


OPTIMISERS: dict[str, tuple[optim.Optimizer, Callable[[Any], Any]]] = {
    "sgd": (optim.sgd(0.3), lambda ps: torch.optim.SGD(ps, lr=0.3)),
    "momentum": (optim.momentum(0.1, 0.8), lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.8)),
    "nesterov": (optim.momentum(0.1, nesterov=True), lambda ps: torch.optim.SGD(ps, 0.1, 0.9, nesterov=True)),
    "adam": (optim.adam(0.05), lambda ps: torch.optim.Adam(ps, lr=0.05)),
    "other decays": (optim.adam(0.05, (0.8, 0.99), 1e-4), lambda ps: torch.optim.Adam(ps, 0.05, (0.8, 0.99), 1e-4)),
    "adamw": (optim.adamw(0.05, weight_decay=0.1), lambda ps: torch.optim.AdamW(ps, lr=0.05, weight_decay=0.1)),
}


def of_torch(make: Callable[[Any], Any], steps: int) -> Any:
    p = {name: torch.tensor(x, requires_grad=True) for name, x in start().items()}
    x, y, optimiser = torch.tensor(X), torch.tensor(Y), make([*p.values()])
    for _ in range(steps):
        optimiser.zero_grad()
        torch.mean((torch.tanh(x @ p["w"] + p["b"]) - y) ** 2).backward()
        optimiser.step()
    return {name: t.detach().numpy() for name, t in p.items()}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_those_of_torch(name: str) -> None:
    opt, theirs = OPTIMISERS[name]

    @jit
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = value_and_grad(loss)(params, x, y)
        return (*opt.update(params, grads, state), value)

    params, state = start(), opt.init(start())
    compiled, kept = params, state
    for n in range(1, 31):
        grads = gradient(loss)(params, X, Y)
        before = pickle.dumps((params, grads, state))
        changed = opt.update(params, grads, state)
        assert pickle.dumps((params, grads, state)) == before
        params, state = changed
        compiled, kept, _ = step(compiled, kept, X, Y)
        assert compiled.keys() == params.keys()
        if n in (1, 2, 30):
            want = of_torch(theirs, n)
            for key, value in want.items():
                np.testing.assert_allclose(params[key], value, rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(compiled[key], value, rtol=1e-9, atol=1e-12)
    assert explain(step)[0].calls >= 25
    assert pickle.loads(pickle.dumps(state))["step"] == 30.0


@pytest.mark.parametrize("name", OPTIMISERS)
def test_trees(name: str) -> None:
    """What has no gradient stays, dtypes and structures too."""
    opt = OPTIMISERS[name][0]
    params = ([np.ones(2, np.float32), 3], {"a": 1.0, "t": "text", "none": None}, np.array([1 + 1j]), 5.0)
    grads = ([np.ones(2, np.float32), None], {"a": 2.0, "t": None, "none": None}, np.array([1j]), 0.0)
    new, state = opt.update(params, grads, opt.init(params))
    assert type(new) is tuple and new[0][1] == 3 and new[1]["t"] == "text" and new[1]["none"] is None
    assert new[0][0].dtype == np.float32 and new[2].dtype == complex and new[3] == pytest.approx(5.0, rel=1e-2)
    assert np.all(new[0][0] < 1.0) and new[1]["a"] < 1.0 and new[2].imag < 1.0
    assert state["step"] == 1.0 and type(new[1]["a"]) is type(new[3]) is float
    with pytest.raises(ValueError, match="has the structure"):
        opt.update({"a": 1.0}, [1.0], opt.init({"a": 1.0}))


@pytest.mark.parametrize("name", OPTIMISERS)
def test_what_has_no_gradient_for_a_while_stays(name: str) -> None:
    opt = OPTIMISERS[name][0]
    params = {"a": 1.0, "b": np.ones(2)}
    params, state = opt.update(params, {"a": 2.0, "b": np.ones(2)}, opt.init(params))
    frozen, _ = opt.update(params, {"a": None, "b": np.ones(2)}, state)
    assert frozen["a"] == params["a"] and np.all(frozen["b"] < params["b"])


def test_schedules() -> None:
    halved, wave = optim.exponential_decay(0.4, 0.5, 10), optim.cosine_decay(1.0, 100, least=0.1)
    assert halved(0.0) == 0.4 and halved(20.0) == pytest.approx(0.1)
    assert wave(0.0) == pytest.approx(1.0) and wave(50.0) == pytest.approx(0.55)
    assert wave(100.0) == wave(500.0) == pytest.approx(0.1)
    grown = optim.warmup(4, halved)
    assert [grown(n) / halved(n) for n in (0.0, 1.0, 3.0, 9.0)] == pytest.approx([0.25, 0.5, 1.0, 1.0])
    opt = optim.sgd(halved)
    params, state = opt.update(1.0, 1.0, opt.init(1.0))
    assert params == 0.6
    for _ in range(10):
        before, (params, state) = params, opt.update(params, 1.0, state)
    assert before - params == pytest.approx(0.2)


def test_clipping() -> None:
    grads = {"a": np.array([3.0, 4.0]), "b": [12.0, None]}
    assert optim.global_norm(grads) == 13.0
    clipped = optim.clip_by_norm(grads, 6.5)
    np.testing.assert_allclose(clipped["a"], [1.5, 2.0])
    assert clipped["b"] == [6.0, None]
    for norm in (13.0, 20.0):
        np.testing.assert_allclose(optim.clip_by_norm(grads, norm)["a"], grads["a"])
    assert optim.clip_by_norm([0.0, np.zeros(2)], 1.0)[0] == 0.0
    np.testing.assert_allclose(optim.clip(grads, 3.5)["a"], [3.0, 3.5])
    tensor = torch.tensor([3.0, 4.0], requires_grad=True)
    tensor.grad = torch.tensor([3.0, 4.0])
    torch.nn.utils.clip_grad_norm_([tensor], 2.0)
    np.testing.assert_allclose(optim.clip_by_norm(grads["a"], 2.0), tensor.grad.numpy(), rtol=1e-5)


def test_vectors() -> None:
    numbers = 2.0, np.float32(3.0), np.zeros((), np.float32)
    tree = {"a": np.arange(6.0).reshape(2, 3), "b": numbers, "n": 4, "e": np.zeros((0, 2))}
    vector, restore = optim.flatten(tree)
    assert vector.shape == (9,) and vector.dtype == np.float64
    back = restore(vector + 1)
    np.testing.assert_allclose(back["a"], tree["a"] + 1)
    assert back["n"] == 4 and back["b"][1].dtype == back["b"][2].dtype == np.float32 and back["e"].shape == (0, 2)
    assert isinstance(back["b"][2], np.ndarray) and back["b"][0] == 3.0
    slopes = gradient(lambda v: np.sum(restore(v)["a"] ** 2) + restore(v)["b"][0] * 5.0)(vector)
    np.testing.assert_allclose(slopes, [*(2 * np.arange(6.0)), 5.0, 0.0, 0.0])
    np.testing.assert_allclose(gradient(lambda t: np.sum(optim.flatten(t)[0] ** 2))(tree)["a"], 2 * tree["a"])
    with pytest.raises(ValueError, match=r"is made of 9 numbers in a vector; got an array of shape \(3,\)"):
        restore(np.zeros(3))
    with pytest.raises(TypeError, match="no complex ones"):
        optim.flatten([1j])
    assert optim.flatten([])[0].shape == (0,)


def test_lbfgs() -> None:
    params, result = optim.lbfgs(lambda p, a: rosen(p["x"]) + (p["y"] - a) ** 2, {"x": np.zeros(4), "y": 0.0}, 2.0)
    assert result.success
    np.testing.assert_allclose(params["x"], np.ones(4), atol=1e-4)
    assert params["y"] == pytest.approx(2.0, abs=1e-4)
    params, _ = optim.lbfgs(loss, start(), X, Y, options={"maxiter": 3})
    assert loss(params, X, Y) < loss(start(), X, Y)
    params, _ = optim.lbfgs(lambda p: np.sum((p - 1) ** 2), np.zeros(3, np.float32), method="CG")
    assert params.dtype == np.float32
    np.testing.assert_allclose(params, np.ones(3), atol=1e-3)
