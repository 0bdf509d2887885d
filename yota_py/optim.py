"""Optimisers as pure functions on trees of parameters, and what optimisers of vectors need.

>>> import numpy as np
>>> from yota_py import optim, value_and_grad
>>> def loss(params, x, y):
...     return np.mean((x @ params["w"] + params["b"] - y) ** 2)
>>> x = np.linspace(-1.0, 1.0, 20)[:, None]
>>> y = 3.0 * x[:, 0] - 1.0
>>> params = {"w": np.zeros(1), "b": 0.0}
>>> opt = optim.adam(0.1)
>>> state = opt.init(params)
>>> for _ in range(300):
...     _, grads = value_and_grad(loss)(params, x, y)
...     params, state = opt.update(params, grads, state)
>>> np.round(params["w"], 3), round(float(params["b"]), 3)
(array([3.]), -1.0)

An optimiser keeps nothing: what it must remember is the state, a tree of numbers and arrays like the parameters, which
can be saved. A step in a function under ``jit`` is compiled as one with its gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from .api import value_and_grad
from .base.tracebacks import folded
from .base.types import ArrayType, Type, is_inexact, typeof
from .capture.reach import is_object
from .registry.tangents import zeros_like
from .tape.operations import user_site
from .tape.trees import flatten as _flatten
from .tape.trees import outline, unflatten

Rate = float | Callable[[Any], Any]  # a number, or what makes one of the number of steps so far


class Optimizer(NamedTuple):
    """``state = init(params)``, and ``params, state = update(params, grads, state)``.

    ``params`` is any nesting of containers with floats, complex numbers and arrays of them; ``grads`` has its
    structure. What has no gradient (``None``), as integers have, stays as it is. New parameters have the shapes and
    dtypes of the old ones, which are not changed.
    """

    init: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], tuple[Any, Any]]


def sgd(rate: Rate) -> Optimizer:
    """Gradient descent: ``p - rate * g``. ``rate`` is a number, or a schedule."""

    def update(params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
        step = _rate(rate, state["step"])
        return _moved(params, grads, tree_map(lambda g: step * g, grads)), {"step": state["step"] + 1.0}

    return Optimizer(lambda params: {"step": 0.0}, update)


def momentum(rate: Rate, decay: float = 0.9, *, nesterov: bool = False) -> Optimizer:
    """Gradient descent with momentum: ``v = decay * v + g``, then ``p - rate * v`` (Polyak 1964); with ``nesterov``,
    ``p - rate * (decay * v + g)`` (Nesterov 1983, in the form of Sutskever et al. 2013)."""

    def update(params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
        step = _rate(rate, state["step"])
        velocity = tree_map(lambda v, g: decay * v + g, state["velocity"], grads)
        along = tree_map(lambda v, g: decay * v + g, velocity, grads) if nesterov else velocity
        moved = _moved(params, grads, tree_map(lambda v: step * v, along))
        return moved, {"step": state["step"] + 1.0, "velocity": velocity}

    return Optimizer(lambda params: {"step": 0.0, "velocity": _zeros_like(params)}, update)


def adam(rate: Rate, decays: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Optimizer:
    """Adam (Kingma and Ba 2015, algorithm 1): steps of the mean of the gradients over the root of that of their
    squares, both with exponentially falling weights and corrected for their beginning at zero."""
    return adamw(rate, decays, eps, weight_decay=0.0)


def adamw(
    rate: Rate, decays: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, *, weight_decay: float = 0.01
) -> Optimizer:
    """Adam with decoupled decay of the weights: ``p`` becomes smaller by ``rate * weight_decay * p`` beside the step of
    ``adam`` (Loshchilov and Hutter 2019, algorithm 2)."""
    first, second = decays

    def init(params: Any) -> Any:
        return {"step": 0.0, "mean": _zeros_like(params), "square": tree_map(lambda p: zeros_like(np.abs(p)), params)}

    def update(params: Any, grads: Any, state: Any) -> tuple[Any, Any]:
        n = state["step"] + 1.0
        mean = tree_map(lambda m, g: first * m + (1.0 - first) * g, state["mean"], grads)
        square = tree_map(lambda s, g: second * s + (1.0 - second) * np.abs(g) ** 2, state["square"], grads)
        step, seen, seen_squares = _rate(rate, state["step"]), 1.0 - first**n, 1.0 - second**n
        steps = tree_map(lambda m, s: step * (m / seen) / (np.sqrt(s / seen_squares) + eps), mean, square)
        if weight_decay:
            steps = tree_map(lambda d, p: d + step * weight_decay * p, steps, params)
        return _moved(params, grads, steps), {"step": n, "mean": mean, "square": square}

    return Optimizer(init, update)


@folded
def lbfgs(
    loss: Callable[..., Any], params: Any, *args: Any, method: str = "L-BFGS-B", **options: Any
) -> tuple[Any, OptimizeResult]:
    """Minimise ``loss(params, *args)`` by SciPy's optimiser of vectors: ``(params, result)``.

    ``params`` is a tree of real numbers and arrays, which is not changed; the new one has its structure, shapes and
    dtypes. ``options`` go to ``scipy.optimize.minimize``, and ``result`` is what it returns. Raises ``TypeError`` for
    parameters that are no real floats.

    >>> import numpy as np
    >>> params, result = lbfgs(lambda p: (p["a"] - 1.0) ** 2 + np.sum(p["b"] ** 2), {"a": 0.0, "b": np.ones(2)})
    >>> result.success, round(params["a"], 4)
    (True, 1.0)
    """
    start, restore = flatten(params)
    both = value_and_grad(loss)

    def of_vector(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, grads = both(restore(vector), *args)
        return float(value), flatten(grads)[0].astype(np.float64)

    result = minimize(of_vector, start.astype(np.float64), jac=True, method=method, **options)
    return restore(result.x), result


# ------------------------------------------------------------------------------------------------ rates, clipping


def exponential_decay(rate: float, factor: float, every: float = 1.0) -> Callable[[Any], Any]:
    """A schedule: ``rate * factor ** (n / every)`` after ``n`` steps."""
    return lambda n: rate * factor ** (n / every)


def cosine_decay(rate: float, steps: float, least: float = 0.0) -> Callable[[Any], Any]:
    """A schedule that falls from ``rate`` to ``least`` in so many ``steps``, like half a wave (Loshchilov and Hutter
    2017), and stays there."""
    return lambda n: least + (rate - least) * 0.5 * (1.0 + np.cos(np.pi * np.minimum(n / steps, 1.0)))


def warmup(steps: float, then: Rate) -> Callable[[Any], Any]:
    """A schedule that grows linearly to that of ``then`` in so many ``steps``."""
    return lambda n: _rate(then, n) * np.minimum((n + 1.0) / steps, 1.0)


def global_norm(tree: Any) -> Any:
    """The root of the sum of squares of all numbers in a tree."""
    squares: Any = 0.0
    for leaf in _taken_apart(tree)[0]:
        if is_inexact(leaf):
            squares = squares + np.sum(np.abs(leaf) ** 2)
    return np.sqrt(squares)


def clip_by_norm(grads: Any, norm: float) -> Any:
    """Gradients that are scaled down together where their ``global_norm`` is above ``norm`` (Pascanu et al. 2013)."""
    scale = norm / np.maximum(global_norm(grads), norm)
    return tree_map(lambda g: scale * g, grads)


def clip(grads: Any, most: float) -> Any:
    """Real gradients with all numbers in them between ``-most`` and ``most``."""
    return tree_map(lambda g: np.clip(g, -most, most), grads)


# ------------------------------------------------------------------------------------------------ trees


def _taken_apart(tree: Any) -> tuple[list[Any], Any]:
    """The leaves and the structure of a tree; raises ``TypeError`` for an object that holds numbers in attributes."""
    leaves, spec = _flatten(tree)
    for leaf in leaves:
        if is_object(leaf):
            raise TypeError(f"{user_site()}: optim works on trees of lists, tuples, dicts and dataclasses, and does "
                            f"not look into a {type(leaf).__name__}; give its attributes, as vars(x) has them")
    return leaves, spec


def tree_map(fn: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """``fn`` of each number and array in a tree, and of those at the same places in ``others``, in a tree of the same
    structure, with the dtypes of the first. Where any of them is ``None`` or no float, the first one's stays.

    Raises ``ValueError`` where another one has another structure.

    >>> tree_map(lambda a, b: a + b, {"a": 1.0, "n": 3}, {"a": 0.5, "n": None})
    {'a': 1.5, 'n': 3}
    """
    leaves, spec = _taken_apart(tree)
    columns = []
    for other in others:
        part, found = _taken_apart(other)
        if found != spec:
            raise ValueError(f"{user_site()}: a tree has the structure {outline(found)}, the first one {outline(spec)}")
        columns.append(part)
    return unflatten(spec, [
        _fitted(fn(x, *rest), typeof(x)) if all(map(is_inexact, (x, *rest))) else x
        for x, *rest in zip(leaves, *columns, strict=True)
    ])  # fmt: skip


def flatten(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """``(vector, restore)``: all real floats in a tree in one array, and a function that makes such a tree of a vector.

    The vector has the largest dtype among them; integers, texts and the like are not in it, and stay as they are.
    ``restore`` can be differentiated. Raises ``TypeError`` for complex numbers, and ``ValueError`` (``restore``) for
    a vector of another length.

    >>> vector, restore = flatten({"a": 1.0, "b": np.array([[2.0, 3.0]])})
    >>> vector, restore(2 * vector)
    (array([1., 2., 3.]), {'a': 2.0, 'b': array([[4., 6.]])})
    """
    leaves, spec = _taken_apart(tree)
    if any(np.iscomplexobj(x) for x in leaves if is_inexact(x)):
        raise TypeError(f"{user_site()}: a vector of real numbers holds no complex ones; give real and imaginary parts")
    parts = [np.reshape(x, -1) for x in leaves if is_inexact(x)]
    vector = np.concatenate(parts) if parts else np.zeros(0)
    types = [typeof(x) if is_inexact(x) else None for x in leaves]
    return vector, partial(_restored, spec, [None if t else x for t, x in zip(types, leaves, strict=True)], types)


def _restored(spec: Any, others: list[Any], types: list[Any], vector: Any) -> Any:
    wanted = sum(t.size for t in types if t is not None)
    if np.shape(vector) != (wanted,):
        raise ValueError(f"{user_site()}: the tree is made of {wanted} numbers in a vector; got an array of shape "
                         f"{np.shape(vector)}")
    leaves, at = [*others], 0
    for i, t in enumerate(types):
        if t is not None:
            part = np.reshape(vector[at : at + t.size], t.shape)
            leaves[i] = _fitted(part if t.shape or t.kind == "array" else part[()], t)
            at += t.size
    return unflatten(spec, leaves)


def _fitted(value: Any, want: Type) -> Any:
    """A result as what it stands for is: of its dtype, and a number of Python's if that is one."""
    have = typeof(value)
    if not (isinstance(have, ArrayType) and isinstance(want, ArrayType)):
        return value
    if want.kind == "python" and have.kind != "python" and not have.shape:
        return value.item()
    return value if have.dtype == want.dtype else value.astype(want.dtype)


def _moved(params: Any, grads: Any, steps: Any) -> Any:
    """Parameters after a step; what has no gradient now takes none, whatever the state would have it take."""
    return tree_map(lambda p, _, step: p - step, params, grads, steps)


def _zeros_like(params: Any) -> Any:
    return tree_map(zeros_like, params)


def _rate(rate: Rate, n: Any) -> Any:
    return rate(n) if callable(rate) else rate
