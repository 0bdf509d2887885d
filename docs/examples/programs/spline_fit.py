"""A spline with free knots through the titanium heat data (de Boor & Rice 1968; de Boor, A Practical Guide to Splines,
chapter XIV; Jupp 1978)."""

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize

from yota_py import value_and_grad

x = np.linspace(595, 1075, 49)
y = np.array([
    0.644, 0.622, 0.638, 0.649, 0.652, 0.639, 0.646, 0.657, 0.652, 0.655, 0.644, 0.663, 0.663, 0.668, 0.676, 0.676,
    0.686, 0.679, 0.678, 0.683, 0.694, 0.699, 0.710, 0.730, 0.763, 0.812, 0.907, 1.044, 1.336, 1.881, 2.169, 2.075,
    1.598, 1.211, 0.916, 0.746, 0.672, 0.627, 0.615, 0.607, 0.606, 0.609, 0.603, 0.601, 0.603, 0.601, 0.611, 0.601,
    0.608,
])  # fmt: skip
knots = np.array([595.0, 730.0, 800.0, 850.0, 880.0, 895.0, 910.0, 925.0, 950.0, 990.0, 1075.0])


def residuals(heights):
    return CubicSpline(knots, heights, bc_type="natural")(x) - y


def objective(heights):
    return np.sum(residuals(heights) ** 2)


OBJECTIVE, POINT = objective, np.interp(knots, x, y)

if __name__ == "__main__":
    fit = minimize(value_and_grad(objective), POINT, jac=True, method="BFGS")
    print(f"sum of squares {objective(POINT):.4f} through the data, {fit.fun:.4f} at best")
