"""Numbers for tests: random directions, finite differences, comparison up to rounding, printing of arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import optree

from ..base.containers import mapped
from ..base.types import ArrayType, StructType, TupleType, is_inexact, typeof
from ..tape.trees import flatten, unflatten

_STEPS = {"narrow": (1e-1, 3e-2, 1e-2), "wide": (1e-4, 1e-5, 1e-3, 1e-2, 1e-6)}  # the best for most functions first
_LARGE = 1e-4  # from here on, Richardson's extrapolation is more exact


def is_narrow(y: Any) -> bool:
    """Whether numbers, or their real and imaginary parts, have less than 64 bits."""
    return typeof(y).dtype.itemsize // (1 + np.iscomplexobj(y)) < 8  # type: ignore[union-attr, no-any-return]


def differences(loss: Callable[[float], Any], narrow: bool | None = None) -> Iterator[float]:
    """Central differences at several steps, and Richardson's extrapolation of the larger ones, one after the other;
    ``narrow`` tells of losses in less than 64 bits."""
    narrow = is_narrow(loss(0.0)) if narrow is None else narrow
    central: dict[float, float] = {}
    for h in _STEPS["narrow" if narrow else "wide"]:
        central[h] = float((loss(h) - loss(-h)) / (2 * h))
        yield central[h]
    for h, coarse in central.items():
        if h >= _LARGE:
            yield (4 * float((loss(h / 2) - loss(-h / 2)) / h) - coarse) / 3


def numerical_gradient(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The gradients of ``f(*args, **kwargs)``, a real number, by finite differences: a tuple with one per positional
    argument, as ``grad`` gives them, but ``None`` for objects and functions.

    Each number is moved by itself, in steps of many sizes; of two that agree best their extrapolation is taken (L. F.
    Richardson, 1911). That gives about nine digits of float64, and three of float32, for some thirty calls per number
    with copies. Where ``f`` has a corner closer than the smallest steps, no difference tells its slope.

    >>> import numpy as np
    >>> numerical_gradient(lambda x, k: np.sum(x**3) * k, np.array([1.0, 2.0]), 2)[0].round(6)
    array([ 6., 24.])
    """
    leaves, spec = flatten(args)

    def at(i: int, x: Any) -> Any:
        given = [x if k == i else leaf for k, leaf in enumerate(leaves)]
        return f(*copied(unflatten(spec, given)), **copied(kwargs))

    return unflatten(spec, [_slopes(partial(at, i), x) if is_inexact(x) else None for i, x in enumerate(leaves)])


def _slopes(loss: Callable[[Any], Any], x: Any) -> Any:
    """The derivatives of a number in each of those in a leaf: of complex ones, dL/dRe + i dL/dIm."""
    t = typeof(x)
    assert isinstance(t, ArrayType)
    array, found = np.asarray(x), np.zeros(t.shape, t.dtype)
    for index in np.ndindex(t.shape):

        def along(h: float, unit: complex, index: Any = index) -> float:
            new = array.copy()
            new[index] += new.dtype.type(h * unit)
            try:
                y = np.asarray(loss(of_type(new, t)))
            except (ArithmeticError, ValueError, np.linalg.LinAlgError):  # out of its domain
                return math.nan
            if y.size != 1 or y.dtype.kind not in "fiub":
                raise TypeError(f"numerical_gradient wants a function that returns a real number; got {typeof(y)}")
            return float(y.reshape(()))

        size = float(np.abs(array[index]))
        units = (1.0, 1j) if t.dtype.kind == "c" else (1.0,)
        with np.errstate(all="ignore"):
            slopes = [unit * _slope(partial(along, unit=unit), size, is_narrow(x)) for unit in units]
        found[index] = sum(slopes)
    return of_type(found, t)


def _slope(loss: Callable[[float], float], size: float, narrow: bool) -> float:
    """A derivative at zero, of steps that shrink tenfold: from a tenth of the number, or of one, to what rounding
    leaves of either."""
    eps = 1e-7 if narrow else 2e-16
    h, least = 0.1 * max(1.0, size), (3e4 if narrow else 1e5) * eps * min(1.0, size or 1.0)
    best, error, last = math.nan, math.inf, math.nan
    while h >= least:
        above, below = loss(h), loss(-h)
        now, rounding = (above - below) / (2 * h), eps * (abs(above) + abs(below)) / h
        if math.isfinite(now) and abs(now - last) + rounding <= error:
            best, error = (100 * now - last) / 99, abs(now - last) + rounding
        last, h = now, h / 10
    return best


def copied(tree: Any) -> Any:
    """The same with copies of the arrays in it."""
    leaves, spec = flatten(tree)
    return unflatten(spec, [x.copy() if isinstance(x, np.ndarray) else x for x in leaves])


def leaves_of(tree: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Each leaf with the path of keys that leads to it."""
    leaves, spec = flatten(tree)
    return list(zip(optree.treespec_paths(spec), leaves, strict=True))


def random_like(x: Any, rng: np.random.Generator, into_none: bool = False) -> Any:
    """Random numbers away from zero, of the type of ``x``; ``None`` for what has no derivative, if so wanted."""
    t = typeof(x)
    if isinstance(t, TupleType):
        return tuple(random_like(item, rng, into_none) for item in x)
    if isinstance(t, StructType):
        return mapped(lambda item: random_like(item, rng, into_none), x)
    if not (isinstance(t, ArrayType) and t.inexact):
        return None

    def draw() -> Any:
        return rng.uniform(0.5, 1.5, t.shape) * rng.choice([-1.0, 1.0], t.shape)

    return of_type(draw() + 1j * draw() if t.dtype.kind == "c" else draw(), t)


def of_type(value: Any, t: Any) -> Any:
    """A number or array as the kind of value that an array type says: array, NumPy's scalar or Python's number."""
    array = np.asarray(value, t.dtype)
    return array if t.kind == "array" else array.item() if t.kind == "python" else array[()]


def moved(x: Any, v: Any, h: float) -> Any:
    """``x + h * v``, of the type of ``x``."""
    t = typeof(x)
    assert isinstance(t, ArrayType)
    return of_type(np.asarray(x) + h * np.asarray(v), t)


def product(dy: Any, y: Any) -> Any:
    """Re(sum(conj(dy) * y))"""
    return np.sum(np.real(np.conj(dy) * y) if np.iscomplexobj(dy) or np.iscomplexobj(y) else dy * y)


def widened(x: Any) -> Any:
    """The same in float64 or complex128."""
    t = typeof(x)
    assert isinstance(t, ArrayType)
    return x if t.kind == "python" else of_type(x, ArrayType(np.result_type(t.dtype, np.float64), t.shape, t.kind))


def equal(a: Any, b: Any) -> bool:
    """The same numbers; NaN equals NaN."""
    if a is None or b is None:
        return a is b
    return bool(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc"))


def close(a: Any, b: Any, ulps: float, eps: float = 0.0) -> bool:
    """Equal up to so many units of rounding of the largest element."""
    have, want = np.asarray(a), np.asarray(b)
    if have.dtype.kind not in "fc":
        return equal(have, want)
    eps = max(eps, float(np.finfo(have.dtype).eps))
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 0.0
    with np.errstate(all="ignore"):
        return bool(np.allclose(have, want, rtol=ulps * eps, atol=ulps * eps * scale, equal_nan=True))


def describe(value: Any) -> str:
    """An argument for messages: large arrays by their type."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(describe, value))}]"
    t = typeof(value)
    if isinstance(t, ArrayType) and t.kind == "array":
        return f"{t}={value!r}" if t.size <= 3 else str(t)
    return repr(value)


def kind_of(t: Any) -> str:
    """A type with its kind (array, scalar, python), for messages."""
    return f"{t} ({t.kind})" if isinstance(t, ArrayType) else str(t)


def figure(value: Any) -> str:
    """A value for messages, in full up to twenty elements."""
    return np.array2string(value, threshold=20) if isinstance(value, np.ndarray) else str(value)


def weighted(call: Callable[[Sequence[Any]], list[Any]], dys: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
    """The loss of which these are the cotangents, in 32 bits if one of the results is so narrow."""

    def loss(xs: Sequence[Any]) -> Any:
        ys = call(xs)
        total = sum(product(dy, y) for dy, y in zip(dys, ys, strict=True))
        return np.float32(total) if any(map(is_narrow, ys)) else np.float64(total)

    return loss
