"""Steps of training: one loss, one rule of descent, the ways to run them.

The data come from NumPy at each step. Parameters stay where a library keeps them, and so does the loss; both are
computed when the step returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.check import RTOL, WrongResultError, difference
from benchmarks.measure import SEEDS
from benchmarks.peers import Call, aligned, load_jax, load_torch, load_yota, map_leaves
from benchmarks.workloads import Args, Builder, Maker, logistic, make_logistic, make_mlp, mlp, torch_mlp

RATE = 0.01
CHECKED = 30  # steps after which parameters are compared

Parameters = list[np.ndarray]
Step = Callable[..., Any]
State = Callable[[], Any]  # the parameters, as they are now


@dataclass(frozen=True, slots=True)
class Task:
    """A loss of a list of parameters and of a batch of data, and what makes them."""

    name: str
    make: Maker
    loss: Builder
    torch: Builder

    def parameters(self) -> Parameters:
        """Fresh ones, always the same."""
        params: Parameters = map_leaves(aligned, self.make(SEEDS[0])[0])
        return params

    def batches(self) -> list[Args]:
        """The data of some steps."""
        return [map_leaves(aligned, self.make(seed)[1:]) for seed in SEEDS]


# -- tasks ---------------------------------------------------------------------------------------------


def small_logistic(seed: int) -> Args:
    """[w] (10,), features (64, 10), labels (64,)."""
    w, *data = make_logistic(seed, 64, 10)
    return [w], *data


def logistic_loss(np: Any) -> Callable[..., Any]:
    """Logistic regression in a list of one array."""
    loss = logistic(np)
    return lambda params, x, labels: loss(params[0], x, labels)


def small_mlp(seed: int) -> Args:
    """[w, b, w, b] of a network 10-32-4, inputs (64, 10), one-hot targets (64, 4)."""
    layers, *data = make_mlp((10, 32, 4))(seed)
    return [array for layer in layers for array in layer], *data


def paired(builder: Builder) -> Builder:
    """A network's loss in a flat list of arrays."""

    def build(np: Any) -> Callable[..., Any]:
        loss = builder(np)
        return lambda params, x, target: loss([params[:2], params[2:]], x, target)

    return build


TASKS = (
    Task("logistic 64x10", small_logistic, logistic_loss, logistic_loss),
    Task("MLP 10-32-4, batch 64", small_mlp, paired(mlp), paired(torch_mlp)),
)


# -- ways ----------------------------------------------------------------------------------------------


def by_numpy(library: Any, task: Task) -> tuple[Step, State]:
    """`value_and_grad`, and NumPy in place."""
    params, both = task.parameters(), library.value_and_grad(task.loss(np))

    def step(*data: Any) -> Any:
        value, grads = both(params, *data)
        for p, dp in zip(params, grads, strict=True):
            p -= RATE * dp
        return value

    return step, lambda: params


def by_jit(library: Any, task: Task) -> tuple[Step, State]:
    """The same, compiled as a whole."""
    step, state = by_numpy(library, task)
    return library.jit(step), state


def by_jax(jax: Any, task: Task) -> tuple[Step, State]:
    """The functional form; parameters are JAX's own arrays."""
    both, wait = jax.value_and_grad(task.loss(jax.numpy)), jax.block_until_ready
    params = jax.device_put(task.parameters())

    def update(params: Any, *data: Any) -> Any:
        value, grads = both(params, *data)
        return value, [p - RATE * dp for p, dp in zip(params, grads, strict=True)]

    compiled = jax.jit(update)

    def step(*data: Any) -> Any:
        nonlocal params
        value, params = wait(compiled(params, *data))
        return value

    return step, lambda: [np.asarray(p) for p in params]


def by_torch(torch: Any, task: Task) -> tuple[Step, State]:
    """Eager, in place; parameters are tensors."""
    loss, params = task.torch(torch), [torch.from_numpy(p).requires_grad_() for p in task.parameters()]

    def step(*data: Any) -> Any:
        value = loss(params, *map(torch.from_numpy, data))
        with torch.no_grad():
            for p, dp in zip(params, torch.autograd.grad(value, params), strict=True):
                p -= RATE * dp
        return value

    return step, lambda: [p.detach().numpy() for p in params]


WAYS: dict[str, tuple[Callable[[], Any], Callable[[Any, Task], tuple[Step, State]]]] = {
    "jit(step)": (load_yota, by_jit),
    "value_and_grad, then NumPy": (load_yota, by_numpy),
    "jax.jit(step)": (load_jax, by_jax),
    "torch": (load_torch, by_torch),
}


def training() -> Iterator[tuple[str, dict[str, list[Call]]]]:
    """Each task with the steps of each library that is installed.

    Raises:
        WrongResultError: two libraries arrive at different parameters.
    """
    libraries = {}
    for way, (load, _) in WAYS.items():
        try:
            libraries[way] = load()
        except ImportError as error:
            print(f"skipped {way}: {error}")
    for task in TASKS:
        batches, reference = task.batches(), None
        series: dict[str, list[Call]] = {}
        for way, library in libraries.items():
            step, state = WAYS[way][1](library, task)
            for i in range(CHECKED):
                step(*batches[i % len(batches)])
            arrived = map_leaves(np.copy, state())
            reference = reference or arrived
            if (gap := difference(arrived, reference)) > RTOL:
                raise WrongResultError(f"{task.name}, {way}: parameters differ by {gap:.1e} after {CHECKED} steps")
            series[way] = [partial(step, *data) for data in batches]
        yield task.name, series
