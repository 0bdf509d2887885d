"""What filters see of an image: its continuation beyond the edges, and windows of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import product
from typing import Any

import numpy as np
from scipy.ndimage import _ni_support

from yota_py.base.dispatch import dispatching
from yota_py.base.signatures import signature_of
from yota_py.registry.composites import B, expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import Cases, case, vjps
from yota_py.registry.tangents import conj

from ..support import pulled_back_by, shape_of

OUTSIDE = -1


def positions(n: int, start: int, stop: int, mode: str) -> np.ndarray:
    """Which of ``n`` elements stand at ``start .. stop - 1`` when an axis is continued; ``OUTSIDE`` where none does."""
    i = np.arange(start, stop)
    if mode in ("constant", "grid-constant"):
        return np.where((i < 0) | (i >= n), OUTSIDE, i)
    if mode == "nearest":
        return np.clip(i, 0, n - 1)
    if mode in ("wrap", "grid-wrap"):
        return i % n
    last = 2 * n - 1 if mode in ("reflect", "grid-mirror") else max(2 * n - 2, 1)  # the image, and backwards
    i %= last + (mode in ("reflect", "grid-mirror"))
    return np.minimum(i, last - i) if mode != "mirror" else np.minimum(i, 2 * n - 2 - i)


@dispatching
def continued(x: Any, cval: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """An array with so many elements more at both ends of an axis; ``cval`` where the mode has nothing there."""
    at = positions(n := x.shape[axis], -before, n + after, mode)
    if not n:
        at = np.full(len(at), OUTSIDE)
    y = np.take(np.moveaxis(x, axis, 0), at, 0, mode="clip") if n else np.empty((len(at), *np.delete(x.shape, axis)))
    if (at < 0).any():
        y = y.astype(np.result_type(y, cval), copy=False)
        y[at < 0] = cval
    return np.moveaxis(y, 0, axis)


@dispatching
def folded(dy: Any, n: int, axis: int, before: int, after: int, mode: str) -> Any:
    """The adjoint of ``continued``: what lies beyond the edges is added to the elements that it was taken from."""
    dy = np.moveaxis(dy, axis, 0)
    at = positions(n, -before, n + after, mode) if n else np.array([], int)
    dx = np.zeros((n, *dy.shape[1:]), dy.dtype)
    first, last = max(before, 0), len(at) - max(after, 0)  # in the midst, each stands once
    dx[first - before : last - before] = dy[first:last]
    for i in [*range(min(first, len(at))), *range(max(first, last), len(at))]:
        if at[i] >= 0:
            dx[at[i]] += dy[i]
    return np.moveaxis(dx, 0, axis)


def _outside(dy: Any, y: Any, x: Any, cval: Any, axis: int, before: int, after: int, mode: str) -> Any:
    """The sum over all that is ``cval``."""
    at = positions(max(shape_of(x)[axis], 1), -before, shape_of(x)[axis] + after, mode)
    return np.sum(np.take(dy, np.nonzero(at < 0)[0], axis))


vjps(
    continued, lambda dy, y, x, cval, axis, *how: folded(dy, shape_of(x)[axis], axis, *how), _outside,
    cases=lambda s: [
        case(s(3), 0.5, 0, 2, 4, "constant"), case(s(3, 2), 0.5, 0, 3, 7, "mirror"),
        case(s(2, 3), 0.5, 1, 4, 0, "wrap"),
        case(s(3), 0.5, 0, -1, 3, "reflect"), case(s(1), 0.5, 0, 2, 2, "mirror"), case(s(4), 0.5, 0, 3, -2, "constant"),
    ],
)  # fmt: skip
vjps(folded, lambda dz, y, dy, n, *how: continued(dz, 0.0, *how), cases=lambda s: [
    case(s(9), 3, 0, 2, 4, "constant"), case(s(13, 2), 3, 0, 3, 7, "mirror"), case(s(2, 7), 3, 1, 4, 0, "wrap"),
    case(s(5), 3, 0, -1, 3, "reflect"), case(s(5), 4, 0, 3, -2, "nearest"),
])  # fmt: skip


@dispatching
def windowed(x: Any, w: Any) -> Any:
    """The sums of the windows of ``x``, weighted with ``w``: ``y[i] = sum(x[i + k] * w[k] for k)`` where ``w`` fits."""
    shape = tuple(n - k + 1 for n, k in zip(x.shape, w.shape, strict=True))
    if w.size <= math.prod(shape):
        y = np.zeros(shape, np.result_type(x, w))
        for k in product(*map(range, w.shape)):
            y += x[tuple(slice(i, i + n) for i, n in zip(k, shape, strict=True))] * w[k]
        return y
    terms = [x[tuple(slice(i, i + n) for i, n in zip(at, w.shape, strict=True))] * w for at in np.ndindex(*shape)]
    return np.array([*map(np.sum, terms)], np.result_type(x, w)).reshape(shape)


def _spread(dy: Any, y: Any, x: Any, w: Any) -> Any:
    """Each window's cotangent goes to all that it has seen."""
    if 0 in shape_of(w):
        return np.zeros(shape_of(x))
    padded = np.pad(dy, [(k - 1, k - 1) for k in shape_of(w)])
    return windowed(padded, conj(np.flip(w)))


vjps(windowed, _spread, lambda dy, y, x, w: windowed(conj(x), dy), cases=lambda s: [
    case(s(5), s(2)), case(s(4, 3), s(2, 3)), case(s(4), s(4)), case(s(3, 2, 2), s(1, 1, 2)), case(s(6)[::2], s(2)),
    case(s(4, dtype=np.float32), s(2, dtype=np.float32)), case(s(4, dtype=complex), s(3, dtype=complex)),
    case(s(0, 3), s(1, 2)),
])  # fmt: skip


def windows(x: Any, footprint: np.ndarray, modes: Sequence[str], cval: Any, origins: Sequence[int]) -> Any:
    """What each element's window has of ``x``, on a new last axis: where ``footprint``, of as many axes, is true."""
    shape = shape_of(x)
    flat, inside = np.zeros((), int), np.ones((), bool)
    for axis, (n, k, where) in enumerate(zip(shape, footprint.shape, np.nonzero(footprint), strict=True)):
        start = -(k // 2) - origins[axis]
        at = positions(n, start, start + n + k, modes[axis])[np.arange(n)[:, None] + where]
        at = np.reshape(at, (n,) + (1,) * (len(shape) - axis - 1) + (-1,))
        flat, inside = flat * n + at, inside & (at >= 0)
    seen = np.ravel(x)[np.where(inside, flat, 0)]
    return seen if inside.all() else np.where(inside, seen, cval)


def normalized(value: Any, n: int) -> list[Any]:
    """An option for each of ``n`` axes."""
    if isinstance(value, str) or not (shape := shape_of(value)):
        return [value] * n
    _ni_support._normalize_sequence([0] * shape[0], n)  # raises what it does
    return [value[i] for i in range(n)]


def axes_list(axes: Any, ndim: int) -> list[int]:
    """The axes that are filtered."""
    return list(_ni_support._check_axes(axes, ndim))


# --------------------------------------------------------------- how functions of the library are registered


def valued(owner: Any, name: str, cases: Cases, **options: Any) -> Callable[[B], Callable[..., Any]]:
    """Decorator: a stand-in for ``owner.name``, whose value is the library's own; the pullback is that of a body."""
    fn = patch(owner, name)

    def register(body: B) -> Callable[..., Any]:
        pulled_back_by(fn, body, cases=cases, **options)
        return fn

    return register


def filter_of(owner: Any, name: str, cases: Cases) -> Callable[[B], Callable[..., Any]]:
    """``valued``, for a function with an argument ``output``, which may be an array to write into."""

    def register(body: B) -> Callable[..., Any]:
        fn: Callable[..., Any] = valued(owner, name, cases, instead=lambda *args, **kw: written(fn, args, kw))(body)
        return fn

    return register


def made_of_filters(owner: Any, name: str, cases: Cases) -> Callable[[B], Callable[..., Any]]:
    """Decorator: a stand-in for ``owner.name``, which is a body in terms of other filters."""
    fn = patch(owner, name)

    def register(body: B) -> Callable[..., Any]:
        @wraps(body)
        def form(*args: Any, **kwargs: Any) -> Any:
            result = written(body, args, kwargs)
            return body(*args, **kwargs) if result is NotImplemented else result

        expanded(fn, cases=cases)(form)
        return fn

    return register


def written(fn: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    """A call that writes its result into ``output``; ``NotImplemented`` if that is no array."""
    try:
        call = signature_of(fn).bind(*args, **kwargs)
    except TypeError:
        return NotImplemented  # the call raises it
    if not isinstance(output := call.arguments.get("output"), np.ndarray):
        return NotImplemented
    call.arguments["output"] = output.dtype
    output[...] = fn(*call.args, **call.kwargs)
    return output

