"""An image found again in a turned and shifted one: least squares over rigid motions (Lucas & Kanade 1981), with the
interpolation of scipy.ndimage."""

import numpy as np
from scipy import ndimage
from scipy.optimize import minimize

from yota_py import value_and_grad

rng = np.random.default_rng(0)
image = ndimage.gaussian_filter(rng.normal(size=(48, 48)), 3.0)
image = image / image.std()
rows, cols = np.mgrid[0:48, 0:48] - 23.5


def moved(picture, motion):
    """The picture turned by an angle about its centre, then shifted."""
    angle, dy, dx = motion
    c, s = np.cos(angle), np.sin(angle)
    where = np.stack([c * rows - s * cols + 23.5 + dy, s * rows + c * cols + 23.5 + dx])
    return ndimage.map_coordinates(picture, where, order=3, mode="nearest")


TRUE = np.array([0.1, 2.0, -1.5])
target = moved(image, TRUE)


def objective(motion):
    difference = (moved(image, motion) - target)[6:-6, 6:-6]
    return np.mean(difference**2)


OBJECTIVE, POINT = objective, np.array([0.03, 0.5, -0.2])

if __name__ == "__main__":
    fit = minimize(value_and_grad(objective), np.zeros(3), jac=True, method="BFGS")
    print("angle {:.4f}, shift {:.3f} and {:.3f}".format(*fit.x))
