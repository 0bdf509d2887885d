"""A local level model of the Nile's flow by a Kalman filter (Durbin & Koopman, Time Series Analysis by State Space
Methods, 2012, chapter 2; their estimates: 15099 and 1469)."""

import numpy as np
from scipy.optimize import minimize

from yota_py import value_and_grad

# Annual flow at Aswan, 1871-1970, in 1e8 cubic metres (Cobb 1978).
NILE = np.array([
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180, 799, 958, 1140,
    1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969, 831,
    726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845,
    944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918,
    986, 797, 923, 975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
], dtype=float)  # fmt: skip


def negative_log_likelihood(log_variances, y=NILE):
    """Without the first observation, which a diffuse beginning takes."""
    noise, drift = np.exp(log_variances)
    level, variance = y[0], noise + drift
    total = 0.0
    for observed in y[1:]:
        innovation, spread = observed - level, variance + noise
        gain = variance / spread
        level = level + gain * innovation
        variance = variance * (1 - gain) + drift
        total = total + 0.5 * (np.log(2 * np.pi * spread) + innovation**2 / spread)
    return total


OBJECTIVE, POINT = negative_log_likelihood, np.log([10000.0, 1000.0])

if __name__ == "__main__":
    fit = minimize(value_and_grad(negative_log_likelihood), POINT, jac=True, method="BFGS")
    noise, drift = np.exp(fit.x)
    print(f"noise {noise:.0f}, drift {drift:.0f}, log likelihood {-fit.fun:.2f}")
