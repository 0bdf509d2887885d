"""Random NumPy programs for tests: functions built from a list of steps, each a NumPy call on values made before."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

MAX_SIZE = 2000  # elements of a value


@dataclass(frozen=True)
class Step:
    """``values.append(fn(*(values[i] for i in reads)))``."""

    text: str
    reads: tuple[int, ...]
    fn: Callable[..., Any]

    def __repr__(self) -> str:
        return self.text.format(*(f"v{i}" for i in self.reads))


@dataclass(frozen=True)
class Program:
    """A function of arrays; ``draw`` gives arguments, other values of the same types for every seed."""

    types: tuple[tuple[tuple[int, ...], str], ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    limits: tuple[int, ...]  # of integer arguments, which are indices

    def __call__(self, *args: Any) -> Any:
        values = list(args)
        for step in self.steps:
            values.append(step.fn(*(values[i] for i in step.reads)))
        total = sum(np.mean(v) * (0.3 + i) for i, v in enumerate(values))
        return (total, *(values[i] for i in self.results))

    def draw(self, seed: int) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        return tuple(argument(rng, *t, limit) for t, limit in zip(self.types, self.limits, strict=True))

    def total(self, *args: Any) -> Any:
        """One number of all that was computed."""
        return self(*args)[0]

    @property
    def rtol(self) -> float:
        """What rounding may do in a few steps."""
        return 2e-3 if any("float32" in str(part) for part in (self.types, self.steps)) else 1e-9

    def __repr__(self) -> str:
        names = ", ".join(f"v{i}: {dtype}{list(shape)}" for i, (shape, dtype) in enumerate(self.types))
        n = len(self.types)
        lines = [f"    v{n + i} = {step}" for i, step in enumerate(self.steps)]
        results = ", ".join(f"v{i}" for i in self.results)
        return "\n".join([f"def f({names}):", *lines, f"    return total, {results},"])


def argument(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, limit: int) -> Any:
    """An array of this type; integers are indices below the limit, from both ends."""
    if dtype == "float":
        return float(rng.normal())
    if dtype.startswith("float"):
        return rng.normal(size=shape).astype(dtype)
    if dtype == "bool":
        return np.asarray(rng.uniform(size=shape) < 0.5)
    return np.asarray(rng.integers(-limit, limit, shape), dtype)


# ------------------------------------------------------------------------------------------------- the steps


def _call(name: str, fn: Callable[..., Any], reads: Sequence[int], *more: Any, **kwargs: Any) -> Step:
    shown = [*("{}" for _ in reads), *(_shown(m) for m in more), *(f"{k}={_shown(v)}" for k, v in kwargs.items())]
    return Step(f"{name}({', '.join(shown)})", tuple(reads), lambda *xs: fn(*xs, *more, **kwargs))


def _shown(x: Any) -> str:
    return (f"np.{x!r}" if isinstance(x, np.ndarray) else repr(x)).replace("{", "{{").replace("}", "}}")


_UNARY: dict[str, Callable[[Any], Any]] = {
    "np.sin": np.sin, "np.cos": np.cos, "np.tanh": np.tanh, "np.arctan": np.arctan, "np.abs": np.abs,
    "np.negative": np.negative, "np.square": np.square, "np.floor": np.floor, "np.ravel": np.ravel, "np.flip": np.flip,
    "np.squeeze": np.squeeze, "np.atleast_2d": np.atleast_2d, "np.diff": np.diff, "np.mean": np.mean,
    "np.exp(-x*x)": lambda x: np.exp(-x * x), "np.sqrt(x*x + 0.3)": lambda x: np.sqrt(x * x + 0.3),
    "np.log1p(x*x)": lambda x: np.log1p(x * x), "1/(1 + x*x)": lambda x: 1 / (1 + x * x), "x*3": lambda x: x * 3,
    "2.5 - x": lambda x: 2.5 - x, "x**2": lambda x: x**2, "x**3": lambda x: x**3, "x*2.0": lambda x: x * 2.0,
    "x*-1.0": lambda x: x * -1.0, "np.maximum(x, 0)": lambda x: np.maximum(x, 0),
    "np.clip(x, -0.7, 0.9)": lambda x: np.clip(x, -0.7, 0.9),
    "np.where(x > 0.1, x, 0)": lambda x: np.where(x > 0.1, x, 0.0),
    "safe log": lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 1)), x), "x*True": lambda x: x * True,
    "float32": lambda x: x.astype(np.float32), "float64": lambda x: x.astype(np.float64),
    "np.float32(0.5)*x": lambda x: np.float32(0.5) * x, "x + x": lambda x: x + x, "x.T": lambda x: x.T,
    "x[None]": lambda x: x[None], "x[..., None]": lambda x: x[..., None], "x[::-1]": lambda x: x[::-1],
    "x[..., ::2]": lambda x: x[..., ::2], "x[1:]": lambda x: x[1:], "x[:-1]": lambda x: x[:-1],
    "x[-1]": lambda x: x[-1], "x[..., 0]": lambda x: x[..., 0], "x[1:] - x[:-1]": lambda x: x[1:] - x[:-1],
    "x[::-2]": lambda x: x[::-2], "np.roll(x, 2, -1)": lambda x: np.roll(x, 2, -1),
    "np.cumsum(x, 0)": lambda x: np.cumsum(x, 0), "np.tile(x, 2)": lambda x: np.tile(x, 2),
    "np.repeat(x, 2)": lambda x: np.repeat(x, 2), "np.sort(x, 0)": lambda x: np.sort(x, 0),
    "x @ x.T": lambda x: x @ x.T, "softmax": lambda x: _softmax(x),
    "normalise": lambda x: (x - np.mean(x, 0)) / np.sqrt(np.var(x, 0) + 0.1),
    "x.copy()[0] = 0": lambda x: _assigned(x), "np.concatenate([x, x])": lambda x: np.concatenate([x, x]),
    "np.stack([x, 2*x], -1)": lambda x: np.stack([x, 2 * x], -1), "np.outer": lambda x: np.outer(x, x),
    "np.hypot(x, 1)": lambda x: np.hypot(x, 1), "np.remainder(x, 0.7)": lambda x: np.remainder(x, 0.7),
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "np.add": operator.add, "np.subtract": operator.sub, "np.multiply": operator.mul, "np.maximum": np.maximum,
    "np.minimum": np.minimum, "np.hypot": np.hypot, "np.arctan2": np.arctan2, "np.logaddexp": np.logaddexp,
    "np.matmul": operator.matmul, "np.dot": np.dot, "x/(y*y + 0.5)": lambda x, y: x / (y * y + 0.5),
    "np.where(x > y + 0.013, x, y)": lambda x, y: np.where(x > y + 0.013, x, y),
    "np.concatenate": lambda x, y: np.concatenate([x, y]), "np.stack": lambda x, y: np.stack([x, y]),
    "np.concatenate(axis=-1)": lambda x, y: np.concatenate([y, x], -1), "x.T @ y": lambda x, y: x.T @ y,
    "x[::-1] @ y": lambda x, y: x[::-1] @ y, "np.einsum('...i,...i')": lambda x, y: np.einsum("...i,...i->...", x, y),
    "np.power(x*x + 0.5, y)": lambda x, y: np.power(x * x + 0.5, y), "x[..., None]*y": lambda x, y: x[..., None] * y,
    "x[:2] = y[:2]": lambda x, y: _overwritten(x, y),
}  # fmt: skip
_REDUCTIONS = {
    "np.sum": np.sum, "np.max": np.max, "np.min": np.min, "np.mean": np.mean, "np.prod": np.prod, "np.var": np.var,
}  # fmt: skip


def _softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def _assigned(x: Any) -> Any:
    x = x.copy()
    x[0] = 0
    x[..., -1] *= 2
    return x


def _overwritten(x: Any, y: Any) -> Any:
    x = 1 * x
    x[:2] = y[:2]
    return x


@st.composite
def programs(draw: Any, max_steps: int = 8) -> Program:
    """Functions of a few arrays and of an index array."""
    sides = st.sampled_from([1, 2, 3, 3, 5, 17])
    ranks = st.sampled_from([0, 1, 1, 2, 2, 2, 3, 3])
    shapes = ranks.flatmap(lambda n: st.lists(sides, min_size=n, max_size=n)).map(tuple)
    base = draw(shapes)
    types: list[tuple[tuple[int, ...], str]] = []
    for i in range(draw(st.integers(1, 3))):
        shape = draw(st.one_of(st.just(base), st.just(base[1:]), st.just(base[::-1]), shapes))
        dtype = draw(st.sampled_from(["float64", "float64", "float32", *(["int64", "bool", "float"] if i else [])]))
        types.append((() if dtype == "float" else shape, dtype))
    types.append((draw(st.sampled_from([(4,), (2, 3), (7,)])), draw(st.sampled_from(["int64", "int32"]))))
    limits = (2,) * (len(types) - 1) + (min((s[0] for s, _ in types[:-1] if s), default=1),)
    rng = np.random.default_rng(0)  # as ``Program.draw`` does at first
    args = [argument(rng, *t, limit) for t, limit in zip(types, limits, strict=True)]
    values, steps = list(args), []
    for _ in range(draw(st.integers(2, 3 * max_steps))):
        step = draw(_steps(values, len(types) - 1))
        with np.errstate(all="ignore"):
            try:
                value = step.fn(*(values[i] for i in step.reads))
            except (ValueError, IndexError, TypeError, AttributeError):
                continue
        if not isinstance(value, np.ndarray | float | np.floating) or np.size(value) > MAX_SIZE or not np.size(value):
            continue
        if np.asarray(value).dtype.kind == "f" and np.all(np.abs(value) < 1e3):
            steps.append(step)
            values.append(value)
    floats = [i for i, v in enumerate(values) if np.asarray(v).dtype.kind == "f"]
    results = draw(st.lists(st.sampled_from(floats), max_size=1))
    return Program(tuple(types), tuple(steps), tuple(dict.fromkeys([*results, floats[-1]])), limits)


@st.composite
def _steps(draw: Any, values: Sequence[Any], index: int) -> Step:
    # The newest values most often, so that chains grow long.
    newest = st.integers(0, len(values) - 1).map(lambda i: len(values) - 1 - i)
    i, j = draw(newest), draw(st.integers(0, len(values) - 1))
    kind = draw(st.sampled_from(["unary", "unary", "binary", "binary", "reduce", "reduce", "shape", "fancy"]))
    ndim = np.ndim(values[i])
    if kind == "unary":
        name = draw(st.sampled_from(sorted(_UNARY)))
        return _call(f"({name})", _UNARY[name], [i])
    if kind == "binary":
        name = draw(st.sampled_from(sorted(_BINARY)))
        return _call(f"({name})", _BINARY[name], [i, j] if draw(st.booleans()) else [j, i])
    if kind == "reduce":
        name = draw(st.sampled_from(sorted(_REDUCTIONS)))
        some = st.lists(st.integers(-ndim, ndim - 1), unique=True, max_size=2)
        axes = draw(st.one_of(st.none(), some)) if ndim else None
        axis = axes[0] if axes and len(axes) == 1 else None if not axes else tuple(axes)
        return _call(name, _REDUCTIONS[name], [i], axis=axis, keepdims=draw(st.booleans()))
    if kind == "shape":
        shape = np.shape(values[i])
        target = draw(st.sampled_from([(-1,), (-1, 1), shape[::-1], (1, *shape), (*shape[:-2], -1), (2, -1)]))
        choices = [
            _call("np.reshape", np.reshape, [i], target),
            _call("np.broadcast_to", np.broadcast_to, [i], (2, *shape)),
            _call("np.transpose", np.transpose, [i], draw(st.permutations(range(ndim)))),
            _call("np.expand_dims", np.expand_dims, [i], draw(st.integers(0, ndim))),
        ]
        return draw(st.sampled_from(choices))
    return draw(st.sampled_from([
        Step("{}[{}]", (i, index), lambda x, k: x[k]),
        Step("{}[..., {}]", (i, index), lambda x, k: x[..., k]),
        Step("{}[{}, {}]", (i, index, index), lambda x, k, m: x[k, m]),
        Step("{}[[0, -1, 0, 0]]", (i,), lambda x: x[[0, -1, 0, 0]]),
        Step("np.take({}, {}, 0, mode='clip')", (i, index), lambda x, k: np.take(x, k, 0, mode="clip")),
        Step("{}[np.arange(2), 0]", (i,), lambda x: x[np.arange(2), 0]),
        Step("{}[{}] *= 2", (i, index), lambda x, k: _bumped(x, k)),
    ]))  # fmt: skip


def _bumped(x: Any, k: Any) -> Any:
    x = 1.0 * x
    x[k] = x[k] * 2
    return x
