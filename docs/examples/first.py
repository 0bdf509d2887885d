"""A first script: measurements from a CSV file, a model fitted with SciPy, its uncertainty from many fits, a picture.

``python docs/examples/first.py``. The data are the speeds of an enzyme's reaction at several concentrations of its
substrate (D. G. Bates and D. G. Watts, Nonlinear Regression Analysis and Its Applications, Wiley 1988, appendix 1,
"Puromycin"). The Michaelis-Menten model says that the speed is ``top * c / (half + c)``; least squares give
``top = 212.7`` and ``half = 0.06412`` for treated cells (their section 2.2).
"""

from __future__ import annotations

import sys
from pathlib import Path

import cloudpickle
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.optimize import minimize

from yota_py import stop_gradient, value_and_grad

HERE = Path(__file__).parent
PICTURE = HERE / "out" / "first.png"
FITTED = HERE / "out" / "first.pickle"
START = np.array([100.0, 0.1])  # counts/min², ppm
SAMPLES = 40


def model(params, concentration):
    """Speed of the reaction, in counts/min², at concentrations in ppm."""
    top, half = params
    return top * concentration / (half + concentration)


def loss(params, concentration, rate):
    """Sum of squared residuals, with a penalty that keeps both parameters positive."""
    residuals = model(params, concentration) - rate
    penalty = np.maximum([-params[0], -params[1]], 0.0)
    return np.sum(residuals**2) + 1e6 * np.sum(penalty**2)


loss_and_grad = value_and_grad(loss)


def columns(data):
    """The measurements as arrays, which compiled code takes as they are."""
    return data["concentration"].to_numpy(), data["rate"].to_numpy()


def fit(data, loss_and_grad=loss_and_grad):
    """The parameters with the least loss, scaled so that both are about 1 for the optimiser."""
    measured = columns(data)

    def scaled(params):
        value, grad = loss_and_grad(params * START, *measured)
        return value, grad * START

    return minimize(scaled, np.ones(2), jac=True, method="BFGS", options={"gtol": 1e-3}).x * START


def history(data):
    """The losses along a descent, logged from inside the function that is differentiated."""
    losses, measured = [], columns(data)

    def logged(logs):
        value = loss(START * np.exp(logs), *measured)
        losses.append(float(stop_gradient(value)))
        return value

    minimize(value_and_grad(logged), np.zeros(2), jac=True, method="L-BFGS-B")
    return losses


def resampled(loss_and_grad, data, seed):
    """One fit of the bootstrap, in a process of its own: measurements drawn with replacement."""
    return fit(data.sample(len(data), replace=True, random_state=seed), loss_and_grad)


def draw(data, params, samples, losses):
    """Save the measurements with the fitted curves, and the losses of the descent."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), dpi=150, layout="constrained")
    grid = np.linspace(0.0, 1.2, 200)
    for sample in samples:
        left.plot(grid, model(sample, grid), color="#a9c4de", lw=0.6)
    left.plot(grid, model(params, grid), color="#1f4e79", lw=2, label=f"{params[0]:.1f} c / ({params[1]:.4f} + c)")
    left.plot(data["concentration"], data["rate"], "o", color="#c55a11", label="measured")
    left.set(title="Speed of the reaction", xlabel="Concentration (ppm)", ylabel="Speed (counts/min²)", xlim=(0, 1.2))
    left.legend(frameon=False, loc="lower right")
    right.semilogy(losses, color="#1f4e79", marker="o", ms=3)
    right.set(title="The descent", xlabel="Evaluation", ylabel="Sum of squares")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE)
    plt.close(figure)


def main():
    """Fit, resample, draw; the exit status is 1 if the estimates are not those of the book."""
    table = pd.read_csv(HERE / "puromycin.csv")
    data = table[table["treated"] == "yes"]
    params = fit(data)
    losses = history(data)
    samples = Parallel(n_jobs=2)(delayed(resampled)(loss_and_grad, data, seed) for seed in range(SAMPLES))
    draw(data, params, samples, losses)
    FITTED.write_bytes(cloudpickle.dumps((loss_and_grad, params)))
    again, params = cloudpickle.loads(FITTED.read_bytes())
    value, slope = again(params, *columns(data))
    low, high = np.percentile(samples, [5, 95], axis=0)
    print(f"top  {params[0]:8.1f}  (90 %: {low[0]:.1f} to {high[0]:.1f})")
    print(f"half {params[1]:8.5f}  (90 %: {low[1]:.5f} to {high[1]:.5f})")
    print(f"sum of squares {value:.1f} with slopes {slope.round(3)}; the descent took {len(losses)} evaluations")
    print(f"Picture: {PICTURE}")
    print(f"The fitted function and its gradient: {FITTED}")
    return int(not np.allclose(params, [212.7, 0.06412], rtol=5e-4))


if __name__ == "__main__":
    sys.exit(main())
