"""A network that reads handwritten digits: plain NumPy, trained with gradients from yota_py.

``make demo`` runs it. The data are scikit-learn's 1797 bundled images of 8 x 8 pixels, so nothing is downloaded.
The network has the layers 64-100-100-10 with tanh between them, and is trained on mini-batches of 64 by gradient
descent with momentum and a falling rate.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from yota_py import gradtape, optim, value_and_grad
from yota_py.engine.kernels.store import count as kernels_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Labels = NDArray[np.int64]
    Params = list[tuple[Array, Array]]

SIZES = [64, 100, 100, 10]
BATCH = 64
EPOCHS = 30
RATE, MOMENTUM = 0.2, 0.9  # the rate falls to zero over the steps
WANTED_ACCURACY = 0.96
PICTURE = Path(__file__).parent / "out" / "digits.png"


# ------------------------------------------------------------------------------------------------ the model


def logits(params: Params, X: Array) -> Array:
    """Scores of the ten classes, one row per image."""
    *hidden, (W, b) = params
    h = X
    for V, a in hidden:
        h = np.tanh(h @ V + a)
    return h @ W + b


def loss(params: Params, X: Array, y: Labels) -> np.float64:
    """Mean cross-entropy of the softmax, in nats."""
    z = logits(params, X)
    z = z - np.max(z, axis=1, keepdims=True)
    log_softmax = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
    return -np.mean(log_softmax[np.arange(len(y)), y])


def accuracy(params: Params, X: Array, y: Labels) -> float:
    """Share of images whose highest score is that of the right class."""
    return float(np.mean(np.argmax(logits(params, X), axis=1) == y))


# --------------------------------------------------------------------------------------------- the training


def initial(rng: np.random.Generator) -> Params:
    """Weights of variance 1/n for n inputs, zero biases."""
    return [(rng.normal(0, n**-0.5, (n, m)), np.zeros(m)) for n, m in pairwise(SIZES)]


def batches(rng: np.random.Generator, X: Array, y: Labels) -> Iterator[tuple[Array, Labels]]:
    """One epoch in random order; the last batch has what is left."""
    order = rng.permutation(len(X))
    for start in range(0, len(X), BATCH):
        chosen = order[start : start + BATCH]
        yield X[chosen], y[chosen]


# ------------------------------------------------------------------------------------------------ the figures


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(params: Params, X: Array, y: Labels) -> None:
    """Print how long value and gradient of one batch take, interpreted and compiled, and how long compiling takes."""

    def of_batch(params: Params) -> np.float64:
        return loss(params, X, y)

    tape = gradtape(of_batch, params)
    played = median(seconds(lambda: tape.play(params)) for _ in range(50))
    step = value_and_grad(loss)
    before = kernels_compiled()
    first = seconds(lambda: step(params, X, y))
    compiling = seconds(lambda: step.compile(params, X, y))
    kernels = kernels_compiled() - before
    compiled = median(seconds(lambda: step(params, X, y)) for _ in range(200))
    print(
        f"One step, batch of {len(X)}: interpreted (its tape played) {1e6 * played:.0f} µs, compiled "
        f"{1e6 * compiled:.0f} µs (medians), {played / compiled:.1f} times as fast.\n"
        f"The first call, traced and interpreted, took {1e3 * first:.0f} ms; compiling {kernels} kernels took "
        f"{compiling:.2f} s."
    )


def draw(step_losses: list[float], steps: int, epoch_losses: list[float], accuracies: list[float]) -> None:
    """Save the loss and the accuracy over the epochs; ``steps`` is the number of steps in an epoch."""
    blue, light, orange = "#1f4e79", "#a9c4de", "#c55a11"
    epochs = np.arange(1, len(epoch_losses) + 1)
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), dpi=150, layout="constrained")
    figure.suptitle("Handwritten digits, 64-100-100-10 tanh network, gradients by yota_py", fontsize=12)

    left.semilogy((np.arange(len(step_losses)) + 0.5) / steps, step_losses, color=light, lw=0.7, label="each step")
    left.semilogy(epochs - 0.5, epoch_losses, color=blue, lw=2, label="mean of the epoch")
    left.set(title="Training loss", xlabel="Epoch", ylabel="Cross-entropy (nats per image)", xlim=(0, epochs[-1]))
    left.legend(frameon=False)

    right.plot(epochs, 100 * np.array(accuracies), color=orange, lw=2, marker="o", ms=3.5)
    right.axhline(100 * WANTED_ACCURACY, color="0.6", lw=1, ls="--")
    right.annotate(f"required: {100 * WANTED_ACCURACY:.0f} %", (epochs[-1], 100 * WANTED_ACCURACY),
                   xytext=(0, -4), textcoords="offset points", ha="right", va="top", color="0.4")  # fmt: skip
    right.annotate(f"{100 * accuracies[-1]:.1f} %", (epochs[-1], 100 * accuracies[-1]),
                   xytext=(6, 0), textcoords="offset points", va="center", color=orange, weight="bold")  # fmt: skip
    right.set(title="Test accuracy", xlabel="Epoch", ylabel="Images read correctly (%)", xlim=(0, epochs[-1] + 0.5))
    right.set_ylim(top=100.5)
    for axes in (left, right):
        axes.grid(color="0.92", lw=0.8)
        axes.set_axisbelow(True)

    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    plt.close(figure)


def main() -> int:
    """Train, report, draw; the exit status is 1 if the network reads too few digits."""
    digits = load_digits()
    X, X_test, y, y_test = train_test_split(
        digits.data / 16, digits.target, test_size=0.2, random_state=0, stratify=digits.target
    )
    rng = np.random.default_rng(0)
    params = initial(rng)
    steps = EPOCHS * -(-len(X) // BATCH)
    optimiser = optim.momentum(lambda n: RATE * (1 - n / steps), MOMENTUM)
    state = optimiser.init(params)

    print("The gradient tape of the loss of one batch:\n")
    print(gradtape(loss, params, X[:BATCH], y[:BATCH]), "\n")
    compare(params, X[:BATCH], y[:BATCH])

    step = value_and_grad(loss)
    rest = len(X) % BATCH  # in the last batch of each epoch
    before = kernels_compiled()
    step.compile(params, X[:rest], y[:rest])
    for_rest = kernels_compiled() - before
    step_losses: list[float] = []
    epoch_losses: list[float] = []
    accuracies: list[float] = []
    sizes: list[int] = []
    columns = [TextColumn("Training"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"), TimeElapsedColumn(),
               TextColumn("loss {task.fields[loss]:.4f}, test accuracy {task.fields[accuracy]:.1%}")]  # fmt: skip
    began = time.perf_counter()
    with Progress(*columns) as progress:
        task = progress.add_task("train", total=EPOCHS, loss=float("nan"), accuracy=0.0)
        for _ in range(EPOCHS):
            sizes.clear()
            for Xb, yb in batches(rng, X, y):
                value, grads = step(params, Xb, yb)
                params, state = optimiser.update(params, grads, state)
                step_losses.append(float(value))
                sizes.append(len(Xb))
            epoch_losses.append(float(np.average(step_losses[-len(sizes) :], weights=sizes)))
            accuracies.append(accuracy(params, X_test, y_test))
            progress.update(task, advance=1, loss=epoch_losses[-1], accuracy=accuracies[-1])
    took = time.perf_counter() - began

    draw(step_losses, len(sizes), epoch_losses, accuracies)
    print(f"{len(step_losses)} steps in {took:.1f} s on {len(X)} images.")
    print(f"Kernels compiled for the smaller last batch of {rest}: {for_rest}.")
    print(f"Final training loss {loss(params, X, y):.5f} nats, test accuracy {accuracies[-1]:.2%} "
          f"of {len(X_test)} images (required: {WANTED_ACCURACY:.0%}).")  # fmt: skip
    print(f"Loss curve: {PICTURE}")
    if for_rest:
        print("The smaller batch should have compiled nothing.", file=sys.stderr)
    return int(accuracies[-1] < WANTED_ACCURACY or for_rest > 0)


if __name__ == "__main__":
    with threadpool_limits(1):  # matrices this small are multiplied faster by one thread than by several
        sys.exit(main())
