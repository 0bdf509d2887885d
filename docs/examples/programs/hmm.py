"""A Poisson hidden Markov model of the world's major earthquakes a year, 1900-2006 (Zucchini, MacDonald & Langrock,
Hidden Markov Models for Time Series, 2016, chapter 1; their minus log likelihood with two states: 342.3183)."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from scipy.stats import poisson

from yota_py import value_and_grad

QUAKES = np.array([
    13, 14, 8, 10, 16, 26, 32, 27, 18, 32, 36, 24, 22, 23, 22, 18, 25, 21, 21, 14, 8, 11, 14, 23, 18, 17, 19, 20, 22,
    19, 13, 26, 13, 14, 22, 24, 21, 22, 26, 21, 23, 24, 27, 41, 31, 27, 35, 26, 28, 36, 39, 21, 17, 22, 17, 19, 15, 34,
    10, 15, 22, 18, 15, 20, 15, 22, 19, 16, 30, 27, 29, 23, 20, 16, 21, 21, 25, 16, 18, 15, 18, 14, 10, 15, 8, 15, 6,
    11, 8, 7, 18, 16, 13, 12, 13, 20, 15, 16, 12, 18, 15, 16, 13, 15, 16, 11, 11,
])  # fmt: skip


def negative_log_likelihood(params):
    """The forward algorithm in logarithms; the chain begins in its stationary distribution."""
    rates = np.exp(params["log_rates"])
    transitions = log_softmax(params["transitions"], axis=1)
    n = len(rates)
    chain = np.exp(transitions)
    stationary = np.linalg.solve((np.eye(n) - chain + 1).T, np.ones(n))
    emissions = poisson.logpmf(QUAKES[:, None], rates)
    forward = np.log(stationary) + emissions[0]
    for emission in emissions[1:]:
        forward = logsumexp(forward[:, None] + transitions, axis=0) + emission
    return -logsumexp(forward)


def from_vector(x):
    return {"log_rates": x[:2], "transitions": x[2:].reshape(2, 2)}


OBJECTIVE = lambda x: negative_log_likelihood(from_vector(x))  # noqa: E731
POINT = np.array([np.log(15.0), np.log(25.0), 2.0, 0.0, 0.0, 2.0])

if __name__ == "__main__":
    fit = minimize(value_and_grad(OBJECTIVE), POINT, jac=True, method="L-BFGS-B")
    low, high = np.exp(fit.x[:2])
    print(f"rates {low:.2f} and {high:.2f}, minus log likelihood {fit.fun:.3f}")
