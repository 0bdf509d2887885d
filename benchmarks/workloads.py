"""The workloads: plain NumPy code, written once against the module `np` that a library offers.

`function(np)` gives the callable to differentiate, so NumPy, autograd.numpy and jax.numpy run the same
text; `torch(torch)` gives PyTorch's form. Data (X, y, labels, targets) are arguments that `argnums` leaves
out. The inputs are scaled so that libraries agree to about 1e-12, relative to the largest entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy

Args = tuple[Any, ...]
Maker = Callable[[int], Args]
Builder = Callable[[Any], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Workload:
    """A scalar function, its inputs and the positions of the arguments that are differentiated."""

    name: str
    make: Maker
    function: Builder
    argnums: int | tuple[int, ...]
    torch: Builder | None = None
    resident: bool = False  # also timed with the parameters already on JAX's side

    @property
    def positions(self) -> tuple[int, ...]:
        """The differentiated positions, always as a tuple."""
        return self.argnums if isinstance(self.argnums, tuple) else (self.argnums,)


# -- scalar example ------------------------------------------------------------------------------------


def make_scalar(seed: int) -> Args:
    """Two Python floats."""
    rng = numpy.random.default_rng(seed)
    return float(rng.uniform(1.0, 3.0)), float(rng.uniform(1.0, 3.0))


def scalar(np: Any) -> Callable[..., Any]:
    """x1 x2 + sin x1, the example of the automatic differentiation text books."""

    def f(x1: Any, x2: Any) -> Any:
        return x1 * x2 + np.sin(x1)

    return f


# -- Rosenbrock ----------------------------------------------------------------------------------------


def make_rosenbrock(n: int) -> Maker:
    """n entries around the minimum at 1."""

    def make(seed: int) -> Args:
        return (numpy.random.default_rng(seed).uniform(0.5, 1.5, n),)

    return make


def rosenbrock(np: Any) -> Callable[..., Any]:
    """The chained Rosenbrock function: shifted slices of one array."""

    def f(x: Any) -> Any:
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    return f


# -- Black-Scholes -------------------------------------------------------------------------------------


def make_black_scholes(seed: int) -> Args:
    """Spot, strike, rate, volatility and maturity in one array."""
    rng = numpy.random.default_rng(seed)
    return (rng.uniform([90.0, 90.0, 0.01, 0.15, 0.5], [110.0, 110.0, 0.05, 0.35, 2.0]),)


def black_scholes(np: Any) -> Callable[..., Any]:
    """Price of a European call; the normal cdf as a logistic, within 0.0095."""

    def cdf(d: Any) -> Any:
        return 1.0 / (1.0 + np.exp(-1.702 * d))

    def f(p: Any) -> Any:
        spot, strike, rate, volatility, maturity = p
        spread = volatility * np.sqrt(maturity)
        d1 = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * maturity) / spread
        return spot * cdf(d1) - strike * np.exp(-rate * maturity) * cdf(d1 - spread)

    return f


# -- logistic regression -------------------------------------------------------------------------------


def make_logistic(seed: int, rows: int = 10_000, columns: int = 100) -> Args:
    """Weights (columns,), features (rows, columns), labels ±1 (rows,)."""
    rng = numpy.random.default_rng(seed)
    features = rng.standard_normal((rows, columns))
    labels = numpy.where(rng.random(rows) < 0.5, -1.0, 1.0)
    return 0.1 * rng.standard_normal(columns), features, labels


def logistic(np: Any) -> Callable[..., Any]:
    """Logistic loss with a ridge penalty."""

    def f(w: Any, features: Any, labels: Any) -> Any:
        return np.mean(np.log1p(np.exp(-labels * (features @ w)))) + 0.01 * np.sum(w * w)

    return f


# -- elementwise chain ---------------------------------------------------------------------------------


def make_chain(seed: int, n: int = 100_000) -> Args:
    """n normal entries."""
    return (numpy.random.default_rng(seed).standard_normal(n),)


def chain(np: Any) -> Callable[..., Any]:
    """Five stages of tanh and exp, summed: what fusion is for."""

    def f(x: Any) -> Any:
        for _ in range(5):
            x = np.tanh(1.1 * x + 0.1) * 0.9 + np.exp(-x * x)
        return np.sum(x)

    return f


# -- softmax cross-entropy -----------------------------------------------------------------------------


def make_softmax(seed: int, rows: int = 512, features: int = 784, classes: int = 10) -> Args:
    """Weights (features, classes), bias (classes,), inputs (rows, features), int64 labels (rows,)."""
    rng = numpy.random.default_rng(seed)
    w = 0.05 * rng.standard_normal((features, classes))
    b = 0.1 * rng.standard_normal(classes)
    return w, b, rng.standard_normal((rows, features)), rng.integers(0, classes, rows)


def softmax(np: Any) -> Callable[..., Any]:
    """Softmax regression, written out with max, exp, sum and log; labels pick by index."""

    def f(w: Any, b: Any, x: Any, labels: Any) -> Any:
        z = x @ w + b
        z = z - np.max(z, axis=1, keepdims=True)
        logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
        return -np.mean(logp[np.arange(labels.shape[0]), labels])

    return f


def torch_softmax(torch: Any) -> Callable[..., Any]:
    """PyTorch has the whole loss as one function, and its users call that."""

    def f(w: Any, b: Any, x: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(torch.addmm(b, x, w), labels)

    return f


# -- multi-layer perceptron ----------------------------------------------------------------------------


def make_mlp(sizes: tuple[int, ...], batch: int = 64) -> Maker:
    """A list of (weights, bias), inputs (batch, sizes[0]), one-hot targets (batch, sizes[-1])."""

    def make(seed: int) -> Args:
        rng = numpy.random.default_rng(seed)
        params = [
            (rng.standard_normal((m, n)) / numpy.sqrt(m), 0.1 * rng.standard_normal(n))
            for m, n in pairwise(sizes)
        ]
        target = numpy.eye(sizes[-1])[rng.integers(0, sizes[-1], batch)]
        return params, rng.standard_normal((batch, sizes[0])), target

    return make


def mlp(np: Any) -> Callable[..., Any]:
    """Tanh layers and softmax cross-entropy against one-hot targets."""

    def f(params: Any, x: Any, target: Any) -> Any:
        for w, b in params[:-1]:
            x = np.tanh(x @ w + b)
        w, b = params[-1]
        z = x @ w + b
        z = z - np.max(z, axis=1, keepdims=True)
        logp = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
        return -np.mean(np.sum(target * logp, axis=1))

    return f


def torch_mlp(torch: Any) -> Callable[..., Any]:
    """The form that PyTorch's users write: addmm, tanh, cross_entropy."""

    def f(params: Any, x: Any, target: Any) -> Any:
        for w, b in params[:-1]:
            x = torch.tanh(torch.addmm(b, x, w))
        w, b = params[-1]
        return torch.nn.functional.cross_entropy(torch.addmm(b, x, w), target)

    return f


WORKLOADS: tuple[Workload, ...] = (
    Workload("scalar", make_scalar, scalar, (0, 1), scalar),
    Workload("rosenbrock_100", make_rosenbrock(100), rosenbrock, 0, rosenbrock),
    Workload("rosenbrock_1e6", make_rosenbrock(1_000_000), rosenbrock, 0, rosenbrock),
    Workload("black_scholes", make_black_scholes, black_scholes, 0, black_scholes),
    Workload("logistic", make_logistic, logistic, 0, logistic),
    Workload("chain_1e5", make_chain, chain, 0, chain),
    Workload("softmax", make_softmax, softmax, (0, 1), torch_softmax),
    Workload("mlp", make_mlp((784, 100, 100, 10)), mlp, 0, torch_mlp, resident=True),
)
