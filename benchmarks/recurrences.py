"""Programs with loops, as a Python loop over NumPy, as a scan for JAX, and by hand for numba (`benchmarks.loops`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Loss = Callable[..., Any]


def steps(count: int) -> Loss:
    """Explicit steps of x' = sin(a x)."""

    def loss(x: Any, a: Any) -> Any:
        for _ in range(count):
            x = x + 0.01 * np.sin(a * x)
        return np.sum(x)

    return loss


def steps_jax(count: int) -> Callable[[Any, Any], Loss]:
    """The same as a scan."""

    def made(jax: Any, xp: Any) -> Loss:
        def loss(x: Any, a: Any) -> Any:
            return xp.sum(jax.lax.scan(lambda x, _: (x + 0.01 * xp.sin(a * x), None), x, None, count)[0])

        return loss

    return made


def kalman(q: Any, ys: Any, a: Any, h: Any) -> Any:
    """The likelihood of a linear Gaussian state of four numbers, two of which are observed."""
    x, p, total = np.zeros(4), np.eye(4), 0.0
    for y in ys:
        x, p = a @ x, a @ p @ a.T + np.exp(q[0]) * np.eye(4)
        s, e = h @ p @ h.T + np.exp(q[1]) * np.eye(2), y - h @ x
        gain = np.linalg.solve(s, h @ p).T
        x, p = x + gain @ e, p - gain @ h @ p
        total = total + 0.5 * (e @ np.linalg.solve(s, e) + np.log(np.linalg.det(s)))
    return total


def kalman_jax(jax: Any, xp: Any) -> Loss:
    """The same as a scan."""

    def loss(q: Any, ys: Any, a: Any, h: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            x, p = state
            x, p = a @ x, a @ p @ a.T + xp.exp(q[0]) * xp.eye(4)
            s, e = h @ p @ h.T + xp.exp(q[1]) * xp.eye(2), y - h @ x
            gain = xp.linalg.solve(s, h @ p).T
            part = 0.5 * (e @ xp.linalg.solve(s, e) + xp.log(xp.linalg.det(s)))
            return (x + gain @ e, p - gain @ h @ p), part

        return xp.sum(jax.lax.scan(step, (xp.zeros(4), xp.eye(4)), ys)[1])

    return loss


def garch(p: Any, r: Any) -> Any:
    """The likelihood of GARCH(1, 1), its variances written one by one (Bollerslev 1986)."""
    variance = np.empty(len(r))
    variance[0] = 1.0
    for t in range(1, len(r)):
        variance[t] = p[0] + p[1] * r[t - 1] ** 2 + p[2] * variance[t - 1]
    return 0.5 * np.sum(np.log(variance) + r**2 / variance)


def garch_jax(jax: Any, xp: Any) -> Loss:
    """The same as a scan."""

    def loss(p: Any, r: Any) -> Any:
        def step(v: Any, square: Any) -> Any:
            v = p[0] + p[1] * square + p[2] * v
            return v, v

        variance = xp.concatenate([xp.ones(1), jax.lax.scan(step, 1.0, r[:-1] ** 2)[1]])
        return 0.5 * xp.sum(xp.log(variance) + r**2 / variance)

    return loss


def residuals(p: Any, x: Any, y: Any) -> Any:
    """Least squares, observation by observation."""
    err = np.zeros(len(x))
    for i in range(len(x)):
        err[i] = y[i] - p[0] * np.exp(-p[1] * x[i])
    return np.sum(err**2)


def residuals_of_arrays(p: Any, x: Any, y: Any) -> Any:
    """The same with arrays."""
    return np.sum((y - p[0] * np.exp(-p[1] * x)) ** 2)


def threshold(p: Any, x: Any) -> Any:
    """A recursion in two regimes (a threshold autoregression), and a loss that is linear for large errors."""
    y, total = p[0] * 0.0, p[0] * 0.0
    for i in range(len(x)):
        y = p[0] * y - 0.1 if y > p[2] else p[1] * y + 0.1
        error = x[i] - y
        total = total + (abs(error) - 0.5 if abs(error) > 1.0 else 0.5 * error * error)
        y = y + 0.5 * error
    return total


def threshold_jax(jax: Any, xp: Any) -> Loss:
    """The same with choices in a scan."""

    def loss(p: Any, x: Any) -> Any:
        def step(carry: Any, now: Any) -> Any:
            y, total = carry
            y = xp.where(y > p[2], p[0] * y - 0.1, p[1] * y + 0.1)
            error = now - y
            size = abs(error)
            total = total + xp.where(size > 1.0, size - 0.5, 0.5 * error * error)
            return (y + 0.5 * error, total), None

        return jax.lax.scan(step, (p[0] * 0.0, p[0] * 0.0), x)[0][1]

    return loss


def lorenz(count: int) -> Loss:
    """The Lorenz system by Runge and Kutta's method."""

    def loss(p: Any) -> Any:
        def slope(s: Any) -> Any:
            return np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

        state, h = np.array([1.0, 2.0, 3.0]), 0.002
        for _ in range(count):
            k1 = slope(state)
            k2 = slope(state + h / 2 * k1)
            k3 = slope(state + h / 2 * k2)
            k4 = slope(state + h * k3)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return np.sum(state)

    return loss


def lorenz_jax(count: int) -> Callable[[Any, Any], Loss]:
    """The same as a scan."""

    def made(jax: Any, xp: Any) -> Loss:
        def loss(p: Any) -> Any:
            def slope(s: Any) -> Any:
                return xp.stack([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

            def step(state: Any, _: Any) -> Any:
                h = 0.002
                k1 = slope(state)
                k2 = slope(state + h / 2 * k1)
                k3 = slope(state + h / 2 * k2)
                k4 = slope(state + h * k3)
                return state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

            return xp.sum(jax.lax.scan(step, xp.array([1.0, 2.0, 3.0]), None, count)[0])

        return loss

    return made


def lorenz_scan(count: int) -> Loss:
    """The same, said by ``yota_py.scan``, in steps that are so small that it does not become chaotic."""

    def loss(p: Any) -> Any:
        from yota_py import scan

        def slope(s: Any) -> Any:
            return np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

        def step(state: Any, _: Any) -> Any:
            k1 = slope(state)
            k2 = slope(state + FINE / 2 * k1)
            k3 = slope(state + FINE / 2 * k2)
            k4 = slope(state + FINE * k3)
            return state + FINE / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return np.sum(scan(step, np.array([1.0, 2.0, 3.0]), None, count)[0])

    return loss


FINE = 1e-4


def lorenz_by_hand(count: int) -> Callable[[Any], Any]:
    """Its value and gradients as loops for numba: states are put by, slopes are computed again."""

    def made(numba: Any) -> Any:
        @numba.njit  # type: ignore[untyped-decorator]
        def slope(p: Any, a: float, b: float, c: float) -> Any:
            return p[0] * (b - a), a * (p[1] - c) - b, a * b - p[2] * c

        @numba.njit  # type: ignore[untyped-decorator]
        def back(p: Any, g: Any, s: Any, d: Any) -> Any:
            (a, b, c), (x, y, z) = s, d
            g[0] += (b - a) * x
            g[1] += a * y
            g[2] -= c * z
            return -p[0] * x + (p[1] - c) * y + b * z, p[0] * x - y + a * z, -a * y - p[2] * z

        @numba.njit  # type: ignore[untyped-decorator]
        def stages(p: Any, s: Any) -> Any:
            h = FINE
            k1 = slope(p, s[0], s[1], s[2])
            s2 = s[0] + h / 2 * k1[0], s[1] + h / 2 * k1[1], s[2] + h / 2 * k1[2]
            k2 = slope(p, s2[0], s2[1], s2[2])
            s3 = s[0] + h / 2 * k2[0], s[1] + h / 2 * k2[1], s[2] + h / 2 * k2[2]
            k3 = slope(p, s3[0], s3[1], s3[2])
            s4 = s[0] + h * k3[0], s[1] + h * k3[1], s[2] + h * k3[2]
            return s2, s3, s4, k1, k2, k3, slope(p, s4[0], s4[1], s4[2])

        @numba.njit  # type: ignore[untyped-decorator]
        def both(p: Any) -> Any:
            h, states = FINE, np.empty((count + 1, 3))
            states[0, 0], states[0, 1], states[0, 2] = 1.0, 2.0, 3.0
            for t in range(count):
                s = states[t, 0], states[t, 1], states[t, 2]
                _, _, _, k1, k2, k3, k4 = stages(p, s)
                for i in range(3):
                    states[t + 1, i] = s[i] + h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i])
            g, a = np.zeros(3), (1.0, 1.0, 1.0)
            for t in range(count - 1, -1, -1):
                s = states[t, 0], states[t, 1], states[t, 2]
                s2, s3, s4, _, _, _, _ = stages(p, s)
                u4 = back(p, g, s4, (h / 6 * a[0], h / 6 * a[1], h / 6 * a[2]))
                u3 = back(p, g, s3, (h / 3 * a[0] + h * u4[0], h / 3 * a[1] + h * u4[1], h / 3 * a[2] + h * u4[2]))
                d2 = h / 3 * a[0] + h / 2 * u3[0], h / 3 * a[1] + h / 2 * u3[1], h / 3 * a[2] + h / 2 * u3[2]
                u2 = back(p, g, s2, d2)
                d1 = h / 6 * a[0] + h / 2 * u2[0], h / 6 * a[1] + h / 2 * u2[1], h / 6 * a[2] + h / 2 * u2[2]
                u1 = back(p, g, s, d1)
                a = (a[0] + u1[0] + u2[0] + u3[0] + u4[0], a[1] + u1[1] + u2[1] + u3[1] + u4[1],
                     a[2] + u1[2] + u2[2] + u3[2] + u4[2])  # fmt: skip
            return states[count].sum(), g

        return both

    return made


WIDTH, LAYERS = 14, 2


def lstm(w: Any, state: Any, sequence: Any) -> Any:
    """ADBench's long short-term memory (Srajer, Kukelova, Fitzgibbon 2018), of random numbers."""
    return _lstm(np)(w, state, sequence)


def _lstm(xp: Any) -> Loss:
    def sigmoid(x: Any) -> Any:
        return 1.0 / (1.0 + xp.exp(-x))

    def cell(w: Any, b: Any, h: Any, s: Any, x: Any) -> Any:
        forget, ingate = sigmoid(x * w[0] + b[0]), sigmoid(h * w[1] + b[1])
        s = s * forget + ingate * xp.tanh(h * w[3] + b[3])
        return sigmoid(x * w[2] + b[2]) * xp.tanh(s), s

    def parted(w: Any) -> Any:
        split = LAYERS * 2 * 4 * WIDTH
        return xp.reshape(w[:split], (LAYERS, 2, 4, WIDTH)), xp.reshape(w[split:], (3, WIDTH))

    def turn(layers: Any, extra: Any, h: Any, s: Any, x: Any, following: Any) -> Any:
        y = x * extra[0]
        for i in range(LAYERS):
            h[i], s[i] = cell(layers[i, 0], layers[i, 1], h[i], s[i], y)
            y = h[i]
        y = y * extra[1] + extra[2]
        return xp.sum(following * (y - xp.log(xp.sum(xp.exp(y)) + 2.0)))

    def loss(w: Any, state: Any, sequence: Any) -> Any:
        (layers, extra), total = parted(w), 0.0
        h, s = [state[2 * i] for i in range(LAYERS)], [state[2 * i + 1] for i in range(LAYERS)]
        for t in range(len(sequence) - 1):
            total = total + turn(layers, extra, h, s, sequence[t], sequence[t + 1])
        return -total / ((len(sequence) - 1) * WIDTH)

    loss.turn, loss.parted = turn, parted  # type: ignore[attr-defined]
    return loss


def lstm_jax(jax: Any, xp: Any) -> Loss:
    """The same as a scan."""
    plain: Any = _lstm(xp)

    def loss(w: Any, state: Any, sequence: Any) -> Any:
        layers, extra = plain.parted(w)

        def step(carry: Any, x: Any) -> Any:
            h, s = map(list, carry)
            part = plain.turn(layers, extra, h, s, *x)
            return (tuple(h), tuple(s)), part

        h, s = (tuple(state[2 * i + k] for i in range(LAYERS)) for k in (0, 1))
        parts = jax.lax.scan(step, (h, s), (sequence[:-1], sequence[1:]))[1]
        return -xp.sum(parts) / ((len(sequence) - 1) * WIDTH)

    return loss


def pendulum(count: int) -> Loss:
    """A damped pendulum by steps of Euler's, said by ``yota_py.scan``."""

    def loss(p: Any) -> Any:
        from yota_py import scan

        def step(state: Any, _: Any) -> Any:
            x, v = state
            v = v - 1e-4 * (p[0] * np.sin(x) + p[1] * v)
            return (x + 1e-4 * v, v), None

        (x, v), _ = scan(step, (1.0, 0.0), None, count)
        return x * x + v * v

    return loss


def pendulum_again(count: int) -> Loss:
    """The same, of which gradients keep the root of what there is."""
    from yota_py import checkpoint

    return checkpoint(pendulum(count), every="sqrt")  # type: ignore[no-any-return]


def van_der_pol(p: Any) -> Any:
    """Van der Pol's equation by Heun's method, with steps that are accepted or not, until the time is over."""
    t, x, y, h, end = 0.0 * p[0], 2.0 + 0.0 * p[0], 0.0 * p[0], 0.1 + 0.0 * p[0], 20.0
    while t < end - 1e-9:
        h = np.minimum(h, end - t)
        dx, dy = y, p[0] * (1 - x * x) * y - x
        u, v = x + h * dx, y + h * dy
        du, dv = v, p[0] * (1 - u * u) * v - u
        error = np.sqrt((0.5 * h * (du - dx)) ** 2 + (0.5 * h * (dv - dy)) ** 2) + 1e-14
        good = error < p[1]
        x = np.where(good, x + 0.5 * h * (dx + du), x)
        y = np.where(good, y + 0.5 * h * (dy + dv), y)
        t = np.where(good, t + h, t)
        h = h * np.minimum(np.maximum(0.9 * np.sqrt(p[1] / error), 0.3), 2.0)
    return x * x + y * y + h


def van_der_pol_by_hand(p: Any) -> Any:
    """The same with a decision, for numba."""
    t, x, y, h, end = 0.0, 2.0, 0.0, 0.1, 20.0
    while t < end - 1e-9:
        h = min(h, end - t)
        dx, dy = y, p[0] * (1 - x * x) * y - x
        u, v = x + h * dx, y + h * dy
        du, dv = v, p[0] * (1 - u * u) * v - u
        error = np.sqrt((0.5 * h * (du - dx)) ** 2 + (0.5 * h * (dv - dy)) ** 2) + 1e-14
        if error < p[1]:
            x, y, t = x + 0.5 * h * (dx + du), y + 0.5 * h * (dy + dv), t + h
        h = h * min(max(0.9 * np.sqrt(p[1] / error), 0.3), 2.0)
    return x * x + y * y + h
