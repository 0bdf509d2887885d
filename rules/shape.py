"""Functions that move elements without changing them: views. Joining and splitting stand in ``joining.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from yota_py.registry.composites import composite
from yota_py.registry.kernels import View
from yota_py.registry.registry import Cases, case, nondiff, rrule, vjps

from .layout import order_of, ravel_as_it_lies, reshape_as_it_lies
from .support import Pullback, axes_of, operand, shape_of, unsupported

# ------------------------------------------------------------------------- same elements, other shape


def _reshaped(a: Any, shape: Any, order: Any) -> Any:
    """A reshape in Fortran order is one in C order between two transposes."""
    if order_of(order) in (None, "C"):
        return np.reshape(a, shape)
    if order_of(order) != "F":
        raise unsupported(f"order={order!r}", "It depends on how the array lies in memory: use order='C' or 'F'")
    backwards = shape if np.ndim(shape) == 0 else tuple(shape)[::-1]
    return np.transpose(np.reshape(np.transpose(a), backwards))


def _lowered_reshape(a: Any, shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
    return NotImplemented if order_of(order) in (None, "C") and copy is None else _reshaped(a, shape, order)


def _reshape_method(a: Any, *shape: Any, **options: Any) -> Any:
    """``x.reshape(2, 3)`` and ``x.reshape((2, 3))``."""
    return np.reshape(a, shape[0] if len(shape) == 1 else shape, **options)


@rrule(
    np.reshape, kernel=View(), lowering=_lowered_reshape, instead=reshape_as_it_lies,
    method={"reshape": _reshape_method},
    cases=lambda s: [
        case(s(3, 4), (2, 6)), case(s(3, 4), -1), case(s(2, 3, 2), (3, -1)), case(s(3, 4), (4, 3), "F"),
        case(s(3, 4), -1, "F"), case(s(4, 3).T, (2, 6)), case(s(6, 4)[::2, ::-1], (12,)), case(s(), (1, 1)),
        case(s(1), ()), case(s(0, 3), (3, 0)), case(s(4, dtype=np.float32), (2, 2)),
        case(s(2, 3, 2), (2, -1), order="F"), case(s(4), (2, 2), copy=True),
    ],
)  # fmt: skip
def reshape_rule(a: Any, shape: Any, order: Any = "C", copy: bool | None = None) -> tuple[Any, Pullback]:
    """``reshape``: the cotangent takes the old shape."""
    before = shape_of(a)
    return _reshaped(a, shape, order), lambda dy: (_reshaped(dy, before, order),)


def _flatten_method(a: Any, order: Any = "C") -> Any:
    """``ravel``, but always a copy."""
    return np.copy(np.ravel(a, order))


@rrule(
    np.ravel, kernel=View(), lowering=lambda a, order="C": _lowered_reshape(a, -1, order), instead=ravel_as_it_lies,
    method={"ravel": np.ravel, "flatten": _flatten_method},
    cases=lambda s: [
        case(s(2, 3)), case(s(2, 3), "F"), case(s(3, 2).T), case(s()), case(s(3)), case(s(0, 2)), case(2.0),
    ],
)  # fmt: skip
def ravel_rule(a: Any, order: Any = "C") -> tuple[Any, Pullback]:
    """``ravel`` and the method ``flatten``."""
    before = shape_of(a)
    return _reshaped(a, -1, order), lambda dy: (_reshaped(dy, before, order),)


def _back(dy: Any, y: Any, a: Any, *args: Any, **kwargs: Any) -> Any:
    """The cotangent in the shape of the argument."""
    return np.reshape(dy, shape_of(a))


vjps(np.squeeze, _back, kernel=View(), method="squeeze",
     cases=lambda s: [case(s(1, 3, 1)), case(s(1, 3, 1), 0), case(s(1, 3, 1), axis=(0, -1)), case(s(1, 1))])
vjps(np.expand_dims, _back, kernel=View(),
     cases=lambda s: [case(s(3, 4), 1), case(s(3), (0, -1)), case(s(), 0), case(s(3, 2).T, -1)])  # fmt: skip


def _at_least(fn: Callable[..., Any]) -> None:
    def rule(*arrays: Any) -> tuple[Any, Pullback]:
        shapes = [shape_of(a) for a in arrays]
        y = fn(*arrays)
        if len(arrays) == 1:
            return y, lambda dy: (np.reshape(dy, shapes[0]),)
        return y, lambda dy: tuple(None if d is None else np.reshape(d, n) for d, n in zip(dy, shapes, strict=True))

    rrule(
        fn,
        kernel=View(),
        lowering=lambda *arrays: NotImplemented if len(arrays) == 1 else tuple(map(fn, arrays)),
        cases=lambda s: [case(s()), case(s(3)), case(s(2, 3)), case(s(2, 2, 3)), case(s(3), s()), case(2.0)],
    )(rule)


for _fn in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
    _at_least(_fn)


# ------------------------------------------------------------------------------------ axes exchanged


def _transpose_method(a: Any, *axes: Any) -> Any:
    """``x.transpose()``, ``x.transpose(1, 0)`` and ``x.transpose((1, 0))``."""
    if not axes or axes == (None,):
        return np.transpose(a)
    return np.transpose(a, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)


@rrule(
    np.transpose, kernel=View(), aliases=[np.permute_dims], method={"transpose": _transpose_method}, attribute="T",
    cases=lambda s: [
        case(s(3, 4)), case(s(2, 3, 4)), case(s(2, 3, 4), (1, 2, 0)), case(s(2, 3, 4), axes=(-1, 0, -2)), case(s(3)),
        case(s()), case(s(4, 3).T), case(s(2, 3, dtype=np.float32)),
    ],
)  # fmt: skip
def transpose_rule(a: Any, axes: Sequence[int] | None = None) -> tuple[Any, Pullback]:
    """``transpose``: the cotangent's axes go back."""
    if axes is None:
        return np.transpose(a), lambda dy: (np.transpose(dy),)
    order = axes_of(tuple(axes), len(shape_of(a)))
    inverse = tuple(order.index(i) for i in range(len(order)))
    return np.transpose(a, order), lambda dy: (np.transpose(dy, inverse),)


vjps(np.swapaxes, lambda dy, y, a, axis1, axis2: np.swapaxes(dy, axis1, axis2), kernel=View(),
     method="swapaxes", cases=lambda s: [case(s(2, 3, 4), 0, -1), case(s(2, 3), 1, 1)])  # fmt: skip

vjps(np.moveaxis, lambda dy, y, a, source, destination: np.moveaxis(dy, destination, source), kernel=View(),
     cases=lambda s: [case(s(2, 3, 4), 0, -1), case(s(2, 3, 4), (0, 1), (-1, 0))])  # fmt: skip


@rrule(np.rollaxis, kernel=View(), cases=lambda s: [case(s(2, 3, 4), 2), case(s(2, 3, 4), 0, 2)])
def rollaxis_rule(a: Any, axis: int, start: int = 0) -> tuple[Any, Pullback]:
    """``rollaxis``: the axes go back."""
    n = len(shape_of(a))
    order = np.rollaxis(np.empty(range(n)), axis, start).shape if n else ()  # each axis tells its number by its length
    return np.transpose(a, order), lambda dy: (np.transpose(dy, tuple(order.index(i) for i in range(n))),)


def _mirror(fn: Callable[..., Any], **options: Any) -> None:
    """A function that is its own inverse."""
    vjps(fn, lambda dy, y, a: fn(dy), kernel=View(), **options, cases=lambda s: [
        case(s(2, 3)), case(s(3, 2).T), case(s(2, 3, 4)), case(s(2, 3, dtype=np.float32)),
    ])  # fmt: skip


_mirror(np.matrix_transpose, attribute="mT")
_mirror(np.linalg.matrix_transpose)
_mirror(np.fliplr)
_mirror(np.flipud)


vjps(
    np.flip,
    lambda dy, y, m, axis=None: np.flip(dy, axis),
    kernel=View(),
    cases=lambda s: [case(s(3)), case(s(2, 3)), case(s(2, 3), 0), case(s(2, 3, 2), axis=(0, -1)), case(s(0))],
)

vjps(np.rot90, lambda dy, y, m, k=1, axes=(0, 1): np.rot90(dy, -k, axes), kernel=View(), cases=lambda s: [
    case(s(2, 3)), case(s(2, 3), 2), case(s(2, 3), k=-1), case(s(2, 3, 2), 3, axes=(1, 2)), case(s(2, 3), 4),
])  # fmt: skip

# --------------------------------------------------------------------------------------- broadcasting


vjps(
    np.broadcast_to, lambda dy, y, array, shape, subok=False: dy,
    kernel=View(),
    cases=lambda s: [case(s(3), (2, 3)), case(s(2, 1), (2, 3)), case(s(), (2, 2)), case(s(1), (0,)), case(2.0, (3,)),
                     case(s(3, dtype=np.float32), (2, 3))],
)  # fmt: skip


@rrule(np.broadcast_arrays, cases=lambda s: [case(s(3), s(2, 1)), case(s(2, 3)), case(s(), s(2), s(2, 2))])
def broadcast_arrays_rule(*args: Any, subok: bool = False) -> tuple[Any, Pullback]:
    """``broadcast_arrays``: each is a ``broadcast_to``."""
    args = tuple(map(operand, args))
    shape = np.broadcast_shapes(*map(shape_of, args))
    y = tuple(np.broadcast_to(a, shape) for a in args)
    return y, lambda dy: dy


def _axis_views(xi: Sequence[Any], indexing: str) -> list[Any]:
    """Each of ``meshgrid``'s vectors along its own axis."""
    n = len(xi)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    return [np.reshape(x, tuple(-1 if i == at else 1 for i in range(n))) for x, at in zip(xi, order, strict=True)]


@composite(np.meshgrid, cases=lambda s: [
    case(s(2), s(3)), case(s(2), s(3), indexing="ij"), case(s(2), s(3), s(1), sparse=True), case(s(3)),
])  # fmt: skip
def _meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    views = _axis_views(xi, indexing)
    shape = np.broadcast_shapes(*map(shape_of, views))
    return tuple(views if sparse else (np.broadcast_to(v, shape) for v in views))


# ----------------------------------------------------------------------- questions of shape and dtype

_of_types: list[Callable[..., Any]] = [
    np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.common_type,
]  # fmt: skip
_questions: dict[Any, Cases] = {
    np.size: lambda s: [case(s(3, 4)), case(s(3, 4), 1), case(s(3, 4), axis=0), case(s.number())],
    np.can_cast: lambda s: [case(s(3).dtype, np.float32), case(np.float32, np.float64, casting="safe")],
    np.result_type: lambda s: [case(s(3), s.number()), case(s(3, dtype=np.float32), 1.0)],
}
for _query in _of_types:
    nondiff(_query, immediate=True, cases=_questions.get(_query, lambda s: [case(s(3, 4)), case(s(2, dtype="f4"))]))
nondiff(np.min_scalar_type, cases=lambda s: [case(s(3)), case(s.number())])  # of a number it depends on the value
