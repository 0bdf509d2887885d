"""The eight schools (Rubin 1981; Gelman et al., Bayesian Data Analysis, 2013, section 5.5): a hierarchical model in
distributions of SciPy, and draws from its posterior by Hamiltonian Monte Carlo (Neal 2011)."""

import numpy as np
from scipy import stats

from yota_py import value_and_grad

effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
prior_of_mean, prior_of_spread, standard = stats.norm(0, 20), stats.halfcauchy(scale=5), stats.norm()


def log_posterior(q):
    """Of the mean, the logarithm of the spread, and each school's deviation in spreads."""
    mean, log_spread, deviations = q[0], q[1], q[2:]
    spread = np.exp(log_spread)
    schools = stats.norm(mean + spread * deviations, error)
    return (
        np.sum(schools.logpdf(effect)) + np.sum(standard.logpdf(deviations)) + prior_of_mean.logpdf(mean)
        + prior_of_spread.logpdf(spread) + log_spread
    )  # fmt: skip


OBJECTIVE, POINT = log_posterior, np.r_[5.0, 1.0, np.linspace(-1, 1, 8)]


def sample(n, steps=12, size=0.25, seed=0):
    rng, density = np.random.default_rng(seed), value_and_grad(log_posterior)
    q = np.zeros(10)
    value, slope = density(q)
    out = []
    for _ in range(n):
        p = rng.normal(size=10)
        new, energy, now = q, value - p @ p / 2, value
        down = slope
        for _ in range(steps):
            p = p + size / 2 * down
            new = new + size * p
            now, down = density(new)
            p = p + size / 2 * down
        if np.log(rng.uniform()) < now - p @ p / 2 - energy:
            q, value, slope = new, now, down
        out.append(q)
    return np.array(out)


if __name__ == "__main__":
    draws = sample(2000)[200:]
    print(f"mean effect {draws[:, 0].mean():.1f}, spread {np.exp(draws[:, 1]).mean():.1f}")
