"""Regression by a Gaussian process: the hyperparameters by the marginal likelihood (Rasmussen & Williams, Gaussian
Processes for Machine Learning, 2006, algorithm 2.1)."""

import numpy as np
import scipy.linalg as sla
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from yota_py import value_and_grad

rng = np.random.default_rng(3)
X = np.sort(rng.uniform(0, 10, (40, 1)), axis=0)
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)


def kernel(A, B, length, scale):
    return scale**2 * np.exp(-0.5 * cdist(A, B, "sqeuclidean") / length**2)


def negative_log_marginal_likelihood(theta):
    length, scale, noise = np.exp(theta)
    K = kernel(X, X, length, scale) + noise**2 * np.eye(len(X))
    factor = sla.cho_factor(K, lower=True)
    alpha = sla.cho_solve(factor, y)
    return 0.5 * y @ alpha + np.sum(np.log(np.diag(factor[0]))) + 0.5 * len(X) * np.log(2 * np.pi)


def predict(theta, at):
    length, scale, noise = np.exp(theta)
    factor = sla.cho_factor(kernel(X, X, length, scale) + noise**2 * np.eye(len(X)), lower=True)
    return kernel(at, X, length, scale) @ sla.cho_solve(factor, y)


OBJECTIVE, POINT = negative_log_marginal_likelihood, np.log([1.0, 1.0, 0.3])

if __name__ == "__main__":
    fit = minimize(value_and_grad(negative_log_marginal_likelihood), POINT, jac=True, method="L-BFGS-B")
    length, scale, noise = np.exp(fit.x)
    print(f"length {length:.2f}, scale {scale:.2f}, noise {noise:.3f}")
    at = np.linspace(1, 9, 50)[:, None]
    print(f"largest error {np.max(np.abs(predict(fit.x, at) - np.sin(at[:, 0]))):.2f}")
