"""Draws that depend on traced values, made of draws that do not: the same numbers, and arithmetic with them.

What NumPy and Python do is said in their sources: ``random_normal`` and its like in NumPy's ``distributions.c``,
``Generator.choice``, and Python's ``random.py``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dispatch import find_traced, is_traced, shadow
from ..base.generators import put_back, state_of
from ..base.unwinding import state
from ..registry.registry import methods
from ..registry.tangents import as_array, astype, operand
from .mutation import overwrite
from .stopping import stop_gradient
from .tracer import Tracer

Drawing = Callable[..., Any]  # of a method's name and its arguments, none of them traced: what it draws, recorded
Making = Callable[..., Any]  # of a ``Drawing``, a generator, and arguments; ``NotImplemented`` if it is not for these


def _raise(of: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Let a generator raise what it has against these arguments, if it has something; it draws nothing."""
    before = state_of(of)
    try:
        getattr(of, name)(*shadow(tuple(args)), **shadow(dict(kwargs)))
    finally:
        put_back(of, before)


# ------------------------------------------------------------------------------------- location and scale


def _located(
    name: str, parameters: Mapping[str, float], standard: str, compute: Callable[..., Any], *given: float,
    wrong: Callable[..., Any] | None = None, sized: bool = True,
) -> Making:  # fmt: skip
    """``name`` with these ``parameters`` (and their defaults) as a function of them and of ``standard(*given)``;
    ``wrong`` tells of their values where the generator may raise something."""
    names = (*parameters, "size") if sized else (*parameters,)

    def make(draw: Drawing, of: Any, *args: Any, **kwargs: Any) -> Any:
        known = dict(zip(names, args, strict=False))
        if len(args) > len(names) or not known.keys().isdisjoint(kwargs) or not {*kwargs} <= {*names}:
            return NotImplemented
        known |= kwargs
        size = known.pop("size", None)
        values = [(_number if sized else _plain)(known.get(key, default)) for key, default in parameters.items()]
        try:
            shape = np.broadcast_shapes(*map(np.shape, values))
            wanted = shape if size is None else (size,) if isinstance(size, int) else tuple(size)
            fits = np.broadcast_shapes(shape, wanted) == wanted
        except (ValueError, TypeError):
            fits = False
        if not fits or (wrong is not None and np.any(wrong(*values))):
            _raise(of, name, args, kwargs)
        if sized and size is None and not shape:  # Python's floats
            values = [methods["item"](x) if isinstance(x, np.ndarray | np.generic) else x for x in values]
        elif sized and size is None:
            size = shape
        made = compute(*values, draw(standard, *given, size) if sized else draw(standard, *given))
        if sized and size is None and isinstance(made, np.generic):
            return methods["item"](made)
        return made if size is None or isinstance(made, np.ndarray) else as_array(made)

    return make


def _plain(x: Any) -> Any:
    """A parameter as Python computes with it."""
    return x


def _number(x: Any) -> Any:
    """A parameter as NumPy's generators take it."""
    if isinstance(x, list | tuple):
        x = operand(x) if find_traced(x) is not None else constant(np.asarray(x, np.float64))
    if not is_traced(x):
        return np.asarray(x, np.float64) if np.ndim(x) else float(x)
    return x if x.__class__ in (int, float) or x.dtype == np.float64 else astype(x, np.float64)


def _no_scale(*values: Any) -> Any:
    """Where the last parameter, which is to be positive or zero, is not."""
    return np.logical_and(np.signbit(values[-1]), np.logical_not(np.isnan(values[-1])))


def _no_range(low: Any, high: Any) -> Any:
    """Where two bounds are in the wrong order, or too far apart."""
    return np.logical_not(np.logical_and(np.isfinite(high - low), np.greater_equal(high - low, 0)))


_AT_ZERO = {"loc": 0.0, "scale": 1.0}
_OF_NUMPY: dict[str, Making] = {
    "normal": _located("normal", _AT_ZERO, "standard_normal", lambda a, b, z: a + b * z, wrong=_no_scale),
    "lognormal": _located(
        "lognormal", {"mean": 0.0, "sigma": 1.0}, "standard_normal", lambda a, b, z: np.exp(a + b * z), wrong=_no_scale
    ),
    "uniform": _located(
        "uniform", {"low": 0.0, "high": 1.0}, "random", lambda a, b, u: a + (b - a) * u, wrong=_no_range
    ),
    "exponential": _located("exponential", {"scale": 1.0}, "standard_exponential", operator.mul, wrong=_no_scale),
    "rayleigh": _located("rayleigh", {"scale": 1.0}, "rayleigh", operator.mul, 1.0, wrong=_no_scale),
    **{
        name: _located(name, _AT_ZERO, name, lambda a, b, z: a + b * z, 0.0, 1.0, wrong=_no_scale)
        for name in ("laplace", "logistic", "gumbel")
    },
}
_OF_PYTHON: dict[str, Making] = {
    **{
        name: _located(name, {"mu": 0.0, "sigma": 1.0}, name, lambda a, b, z: a + b * z, 0.0, 1.0, sized=False)
        for name in ("gauss", "normalvariate")
    },
    "uniform": _located("uniform", {"a": 0.0, "b": 1.0}, "random", lambda a, b, u: a + (b - a) * u, sized=False),
    "expovariate": _located("expovariate", {"lambd": 1.0}, "expovariate", lambda a, z: z / a, 1.0, sized=False),
}


# ------------------------------------------------------------------------------- positions that are drawn


def constant(x: Any) -> Any:
    """An array that is the same at each call, on the tape of the outermost trace."""
    trace = state.traces[0]
    return trace.tracer(trace.constant(np.array(x)))


def _is_array(x: Any) -> bool:
    return isinstance(x, Tracer) and isinstance(x, np.ndarray) and x.ndim > 0


def _shuffle(draw: Drawing, of: Any, x: Any, axis: int = 0) -> Any:
    if not _is_array(x):
        return NotImplemented
    overwrite(x, np.take(x, draw("permutation", x.shape[axis]), axis=axis))
    return None


def _permutation(draw: Drawing, of: Any, x: Any, axis: int = 0) -> Any:
    return np.take(x, draw("permutation", x.shape[axis]), axis=axis) if _is_array(x) else NotImplemented


def _choice(
    draw: Drawing, of: Any, a: Any, size: Any = None, replace: Any = True, p: Any = None, axis: int = 0, *more: Any,
    **named: Any,
) -> Any:  # fmt: skip
    by_chances = find_traced((p,)) is not None
    if isinstance(a, list | tuple) and find_traced(a) is not None:
        a = operand(a)
    if find_traced((size, replace, axis, more, named)) is not None or (by_chances and not replace):
        return NotImplemented
    if not by_chances:
        if not _is_array(a):
            return NotImplemented
        if isinstance(of, np.random.RandomState) and a.ndim != 1:
            _raise(of, "choice", (a, size, replace, p), {})
        new = (axis, *more) if not isinstance(of, np.random.RandomState) else ()
        at = draw("choice", a.shape[axis], size, replace, p, *(0, *more)[: len(new)], **named)
    else:
        n = len(a) if np.ndim(a) else int(a)
        at = _by_chances(draw, of, stop_gradient(operand(p)), n, (a, size, replace, p))(size)
    if not np.ndim(a):
        return at
    return np.take(a if is_traced(a) else constant(a), at, axis=axis)


def _by_chances(draw: Drawing, of: Any, p: Any, n: int, args: Sequence[Any]) -> Callable[[Any], Any]:
    """Positions among ``n`` with traced probabilities, as ``choice`` draws them with replacement: where uniform
    numbers are found among the cumulated ones."""
    p = _number(p)
    bound = np.sqrt(np.finfo(np.float64).eps)
    if p.shape != (n,) or not np.all(p >= 0) or not np.abs(np.sum(p) - 1.0) < bound:
        _raise(of, "choice", args, {})
    sums = np.cumsum(p)
    sums = sums / sums[-1]

    def positions(size: Any) -> Any:
        uniform = draw("random" if isinstance(of, np.random.Generator) else "random_sample", size)
        at = np.searchsorted(sums, uniform, side="right")
        return at if size is not None else methods["item"](at)

    return positions


def _permuted(draw: Drawing, of: Any, x: Any, axis: Any = None, out: Any = None) -> Any:
    """Each row by itself: positions are permuted as the rows would be."""
    if not _is_array(x):
        return NotImplemented
    if out is not None and (shadow(out).dtype, shadow(out).shape) != (x.dtype, x.shape):
        _raise(of, "permuted", (x,), {"axis": axis, "out": np.array(shadow(out))})
    if axis is None:
        positions = np.arange(x.size).reshape(x.shape)
        result = np.take(np.ravel(x), draw("permuted", constant(positions), axis=None))
    else:
        shape = [-1 if k == axis % x.ndim else 1 for k in range(x.ndim)]
        positions = np.broadcast_to(np.arange(x.shape[axis]).reshape(shape), x.shape)
        result = np.take_along_axis(x, draw("permuted", constant(positions), axis=axis), axis)
    if out is None:
        return result
    overwrite(out, result)
    return out


_ARRANGING: dict[str, Making] = {
    "shuffle": _shuffle, "permutation": _permutation, "permuted": _permuted, "choice": _choice,
}  # fmt: skip


def made(draw: Drawing, of: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``of.name(*args, **kwargs)`` with traced values among the arguments; ``NotImplemented`` if nobody knows how."""
    if isinstance(of, np.random.Generator | np.random.RandomState):
        making = _OF_NUMPY.get(name) or _ARRANGING.get(name)
    else:
        making = _OF_PYTHON.get(name)
    return NotImplemented if making is None else making(draw, of, *args, **kwargs)
