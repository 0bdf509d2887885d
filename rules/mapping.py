"""Functions of numbers applied to arrays: ``np.vectorize``; windows of memory: ``as_strided``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib._function_base_impl import _parse_gufunc_signature  # type: ignore[attr-defined]
from numpy.lib.stride_tricks import as_strided

from yota_py.base.dispatch import dispatching, is_traced
from yota_py.registry.composites import expanded
from yota_py.registry.patches import patch
from yota_py.registry.registry import case, vjps
from yota_py.registry.tangents import as_array, astype

from .casting import item
from .indices import unindex
from .layout import lies_in, memory_axes
from .support import dtype_of, operand, shape_of, unsupported


def _partial(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Callable[..., Any], list[Any]]:
    """The function of what varies, and that: not the arguments that are excluded, but those given by name."""
    if not self.excluded and not kwargs:
        return self.pyfunc, list(args)
    names = [name for name in kwargs if name not in self.excluded]
    places = [i for i in range(len(args)) if i not in self.excluded]

    def function(*given: Any) -> Any:
        full, named = list(args), dict(kwargs)
        for i, x in zip(places, given, strict=False):
            full[i] = x
        named.update(zip(names, given[len(places) :], strict=True))
        return self.pyfunc(*full, **named)

    return function, [args[i] for i in places] + [kwargs[name] for name in names]


def _vectorized(self: Any, *args: Any, **kwargs: Any) -> Any:
    """One call after another, with numbers of Python's, or arrays and NumPy's if there is a signature."""
    function, given = _partial(self, args, kwargs)
    xs = [operand(x) for x in given]
    signature = self.signature and _parse_gufunc_signature(self.signature)
    cores = [len(names) for names in signature[0]] if signature else [0] * len(xs)
    loops = [shape_of(x)[: len(shape_of(x)) - n] for x, n in zip(xs, cores, strict=True)]
    loop = np.broadcast_shapes(*loops)
    wide = [np.broadcast_to(x, (*loop, *shape_of(x)[len(shape_of(x)) - n :])) for x, n in zip(xs, cores, strict=True)]
    turns, first = list(np.ndindex(*loop)), None
    if not (signature or self.otypes) and turns:  # NumPy asks for types first, of numbers of its own
        first = function(*(as_array(x)[(0,) * len(loop)] for x in wide))
    results = [first] if self.cache and first is not None else []
    results += [function(*(x[i] if signature else item(x[i]) for x in wide)) for i in turns[len(results) :]]
    if not results:
        raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
    several = isinstance(results[0], tuple)
    rows = results if several else [(y,) for y in results]
    types = self.otypes or [None] * len(rows[0])
    if first is not None:
        types = [dtype_of(y) for y in (first if several else (first,))]
    made = [_stacked([row[i] for row in rows], loop, types[i]) for i in range(len(rows[0]))]
    arrays = [x for x in xs if isinstance(x, np.ndarray) and len(shape_of(x)) > 1]
    if not signature and arrays and all(list(memory_axes(x)) == [*range(len(loop))][::-1] for x in arrays):
        made = [np.copy(y, order="F") for y in made]
    return tuple(made) if several else made[0]


def _stacked(ys: list[Any], loop: tuple[int, ...], dtype: Any) -> Any:
    """Results as an array, of the dtype of the first if none is wanted."""
    ys = [as_array(operand(y)) for y in ys]
    wanted = dtype_of(ys[0]) if dtype is None else np.dtype(dtype)
    return np.reshape(np.stack([astype(y, wanted) for y in ys]), (*loop, *shape_of(ys[0])))


_call = patch(np.vectorize, "__call__")
expanded(_call, cases=lambda s: [
    case(np.vectorize(lambda x, a: x * a if x > a else x - a), s(2, 2), s(2)), case(np.vectorize(lambda x: x * x), 2.0),
    case(np.vectorize(lambda x: (x, 2 * x)), s(2)),
    case(np.vectorize(lambda x: x * x, otypes=[np.float32]), s(2)),
    case(np.vectorize(np.sum, signature="(n)->()"), s(2, 3)),
    case(np.vectorize(np.outer, signature="(n),(m)->(n,m)"), s(2), s(2, 3)),
    case(np.vectorize(lambda x, p: x * p[0], excluded={1}), s(2), [3.0, 1.0]),
    case(np.vectorize(lambda x, power=2: x**power), s(2), power=3),
])(_vectorized)  # fmt: skip


# --------------------------------------------------------------------------------- windows of memory


def _places(shape: tuple[int, ...], counts: tuple[int, ...]) -> np.ndarray:
    """Where the elements of the windows stand, at these distances in elements, among those of an array."""
    axes = np.ogrid[tuple(slice(n) for n in shape)]
    return sum((axis * count for axis, count in zip(axes, counts, strict=True)), np.zeros(shape, np.intp))  # type: ignore[no-any-return]


@dispatching
def windows(x: Any, shape: tuple[int, ...], counts: tuple[int, ...]) -> Any:
    """Elements of an array in C order at these distances, to be read only."""
    x = np.ascontiguousarray(x)
    return as_strided(x, shape, tuple(n * x.itemsize for n in counts), writeable=False)


vjps(windows, lambda dy, y, x, shape, counts: np.reshape(
         unindex(np.ravel(dy), np.ravel(_places(shape, counts)), (int(np.size(x)),)), shape_of(x)),
     lowering=lambda x, shape, counts: np.ravel(x)[_places(shape, counts)], cases=lambda s: [
    case(s(5), (3, 3), (1, 1)), case(s(2, 3), (2, 2), (3, 2)), case(s(4, dtype=np.float32), (2, 2), (2, 1)),
    case(s(3), (2, 3), (0, 1)), case(s(2), (0, 2), (1, 1)),
])  # fmt: skip


def _as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Any:
    if not is_traced(x):
        return as_strided(x, shape, strides, subok, writeable)
    if not lies_in(x, "C"):
        raise unsupported("as_strided of an array that is not in C order", "Copy it first: x.copy()")
    shape = x.shape if shape is None else shape
    shape = tuple(map(int, shape)) if np.ndim(shape) else (int(shape),)
    strides, size = x.strides if strides is None else tuple(map(int, strides)), x.dtype.itemsize
    ends = [stride // size * (n - 1) for n, stride in zip(shape, strides, strict=True)]
    if any(stride % size or stride < 0 for stride in strides) or (0 not in shape and sum(ends) >= x.size):
        raise unsupported("as_strided beyond the elements of an array, or in between", "Use sliding_window_view")
    return windows(x, shape, tuple(stride // size for stride in strides))


patch(np.lib.stride_tricks, "as_strided", _as_strided)
