"""Random functions with loops, as text: what comes in their bodies, and how often they run, is drawn."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

LENGTHS = (0, 1, 2, 3, 7, 12, 25, 40)

# What may come in a turn ``t`` of ``n``: ``a``, ``b`` are numbers, ``v`` an array, ``s`` one that is filled, ``x``,
# ``y``, ``p``, ``W`` arguments, ``k`` a count, ``out`` a list, ``z``, ``u`` complex.
STATEMENTS = """
a = a * p[{i}] + x[t]
a = np.tanh(a) + 0.01 * t
a = np.cos(a * x[t - 1]) + b
a = 0.5 * a + x[n - 1 - t] * x[t]
a = a + 0.1 * x[IDX[t % 40] % n]
a, b = b, 0.5 * a - 0.3 * b + p[{i}]
b = 0.9 * b + np.sum(v) / (1 + k)
b = np.exp(-b * b) + y[t, {j}]
b = b + y[t][{j}] * v[{j}]
a = a + p[t % 4]
v = v + 0.1 * np.sin(a * v)
v = np.tanh(W @ v + y[t])
v = np.where(v > b, v, 0.1 * v)
v = np.array([a, v[0], x[t]])
v = np.linalg.solve(np.eye(3) + 0.1 * np.outer(v, v), v)
v = v.copy(); v[{j}] = v[{j}] * 0.5 + np.tanh(a)
v = v.copy(); v[1:] += 0.1 * v[:-1]
v = np.cumsum(v) * p[{i}] * 0.3
v = np.maximum(v, y[t]) * 0.9
W = W * 0.9 + 0.01 * np.outer(v, y[t])
s[t] = 0.5 * s[t - 1] + x[t] * p[{i}]
s[t] = np.tanh(a)
s[t] += a * 0.1
s[n - 1 - t] = b * 0.2
out.append(a * b)
out.append(v)
k += 1
c = 3.0 if t == 0 else c * 0.9; a = a * np.tanh(c)
total += a * a
total = total + np.mean(v) * p[{i}]
total = total + math.sin(0.3)
if a > 0.1: a = a * 0.5
if t % 2: b = b - 0.1 * a
if b > 0 and a < 1: v = v * 0.8
v = v / (1 + np.sqrt(np.sum(v * v)))
a = float(np.float32(0.3)) * a + F[t % 40] * b
a = np.float32(0.25) * a
a, b = np.stack([b, a]) @ np.array([[0.6, 0.8], [-0.8, 0.6]])
v = np.sort(v)[::-1] * 0.9 + p[{i}]
v = v * 0.8 + np.linalg.eigvalsh(np.outer(v, v) + np.diag([1.0, 3.0, 6.0])) * 0.1
v = np.interp(v, [-1.0, 0.0, 2.0], y[t]) + 0.5 * v
v = np.linalg.inv(np.eye(3) + 0.1 * np.outer(p[:3], p[:3])) @ v
v = v * 0.7 + np.linalg.eigh(np.outer(p[:3], p[1:]) * 0.1 + np.diag([1.0, 3.0, 6.0]))[0] * 0.1
v = 0.9 * v + 0.1 * W[:, np.argmax(v)]
b = b * 0.9 + 0.1 * y[t, np.argmax(v)] * np.take(W, np.argmin(v), axis=1)[{j}]
W = W.copy(); W[:, np.argmax(v)] += 0.1 * v
z = 0.9 * z * np.exp(1j * a) + 0.1 * v[0]; a = a * 0.9 + 0.1 * np.imag(z)
z = z / (1 + abs(z)) + complex(0.1, 0.2) * p[{i}]; b = b * 0.5 + np.real(z)
u = 0.8 * u * np.exp(0.5j * v) + W[0]; a = np.tanh(a + np.sum(np.abs(u) ** 2))
u = np.fft.fft(u * 0.5) / 2 + z; v = v * 0.9 + 0.1 * np.real(u)
for j in range({m}): a = a + 0.1 * p[j % 4] * np.cos(a)
for j in range({m}): v = v * 0.9 + 0.1 * np.roll(v, 1) * y[t]
for j in range(t % 3): b = b * 0.9 + 0.01
""".strip().splitlines()

TAILS = """
total = total + np.sum(s * s)
total = total + a * b + np.sum(v) * k
total = total + sum(o if np.ndim(o) == 0 else np.sum(o) for o in out)
total = total + (np.sum(np.stack([np.sum(o) for o in out])) if out else 0.0)
total = total + np.sum(W @ v)
total = total + (np.sum(out[-1]) if out else 0.0) + (s[n // 2] if n else 0.0)
for t in range(1, n): total = total + 0.1 * (s[t] - s[t - 1]) ** 2
""".strip().splitlines()


def text(seed: int) -> str:
    """The text of a function ``f(x, y, p, W)``."""
    rng = random.Random(seed)

    def drawn(pool: list[str], count: int) -> list[str]:
        numbers = ((rng.randrange(4), rng.randrange(3), rng.choice((1, 2, 5, 11))) for _ in range(count))
        return [line.format(i=i, j=j, m=m) for line, (i, j, m) in zip(rng.choices(pool, k=count), numbers, strict=True)]

    lines = ["n, k, total, out, c = len(x), 0, 0.0, [], 2.0",
             "a, b, v, s = p[0], 0.1, y[0] * 1.0 if n else p[:3] * 1.0, np.zeros(n)"]  # fmt: skip
    if rng.random() < 0.3:
        lines.append("a, b = 0.2, np.float64(0.3)")
    for _ in range(rng.choice((1, 1, 1, 2))):
        loop = rng.choice(("for t in range(n):", "for t in range(1, n):", "for t in range(n - 1, -1, -1):"))
        body = drawn(STATEMENTS, rng.randint(1, 7))
        if any(line.startswith(("z =", "u =")) for line in body):
            lines.append("z, u = 0.3j, v * (1 + 0.5j)")
        lines += [loop, *("    " + line for line in body)]
    lines += drawn(TAILS, rng.randint(1, 3))
    return "\n".join(["def f(x, y, p, W):", *("    " + line for line in lines), "    return total + 0.0 * p[0]"])


def function(source: str) -> Callable[..., Any]:
    """The function of a text."""
    rng = np.random.default_rng(3)
    names: dict[str, Any] = {
        "np": np, "math": math, "IDX": rng.integers(0, 1000, 40).tolist(), "F": rng.normal(size=40).tolist(),
    }  # fmt: skip
    exec(compile(source, "<loop>", "exec"), names)
    return names["f"]  # type: ignore[no-any-return]


def arguments(seed: int, length: int) -> tuple[np.ndarray, ...]:
    """Arguments for a function, with so many turns."""
    rng = np.random.default_rng(seed)
    x, y, p, w = (rng.normal(size=shape) for shape in (length, (length, 3), 4, (3, 3)))
    return x, y, 0.5 * p, 0.3 * w
