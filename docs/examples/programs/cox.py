"""Cox regression of the remission times of leukaemia patients (Freireich et al. 1963; Cox 1972), ties as Breslow's."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from yota_py import gradient, value_and_grad

TREATED = [6, 6, 6, 7, 10, 13, 16, 22, 23, 6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35]  # weeks; the first 9 relapsed
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]  # all relapsed
time = np.array(TREATED + PLACEBO, dtype=float)
event = np.array([True] * 9 + [False] * 12 + [True] * 21)
X = np.array([[0.0]] * 21 + [[1.0]] * 21)

order = np.argsort(-time, kind="stable")
time, event, X = time[order], event[order], X[order]


def negative_log_partial_likelihood(beta):
    score = X @ beta
    loss = 0.0
    for t in np.unique(time[event]):
        dead = event & (time == t)
        loss = loss - np.sum(score[dead]) + np.sum(dead) * logsumexp(score[time >= t])
    return loss


OBJECTIVE, POINT = negative_log_partial_likelihood, np.array([0.5])

if __name__ == "__main__":
    fit = minimize(value_and_grad(negative_log_partial_likelihood), POINT, jac=True, method="BFGS")
    slope = gradient(negative_log_partial_likelihood)
    information = gradient(lambda b: slope(b)[0])(fit.x)[0]
    print(f"log hazard ratio {fit.x[0]:.3f}, standard error {information**-0.5:.3f}")
