"""What the areas of NumPy share: optional arguments, axes, and rules that are made of other rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from yota_py.base.dispatch import dispatching, original
from yota_py.base.types import ArrayType, typeof
from yota_py.errors import MissingRuleError
from yota_py.registry.applied import apply_rule
from yota_py.registry.composites import rule_of_body
from yota_py.registry.partials import Wanted
from yota_py.registry.registry import Pullback as Pullback
from yota_py.registry.registry import Rule, case, nondiff, rrule
from yota_py.registry.tangents import as_array, astype
from yota_py.registry.tangents import operand as operand  # for the rules, too
from yota_py.tape.operations import user_site

Axis = int | Sequence[int] | None

NOTHING: Any = np._NoValue  # type: ignore[attr-defined]  # NumPy's own "not given"


def rule_of_primitives(fn: Callable[..., Any], **options: Any) -> Callable[[Rule], Rule]:
    """``rrule`` for a rule whose value is written with simpler functions, which then is its lowering too."""

    def register(rule: Rule) -> Rule:
        return rrule(fn, lowering=wraps(rule)(lambda *args, **kwargs: rule(*args, **kwargs)[0]), **options)(rule)

    return register


def rule_of(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Pullback]:
    """``(y, pullback)`` of another function, to build a rule on it; while a trace runs, it may be its stand-in."""
    return apply_rule(original(fn), args, kwargs, None)


def pulled_back_by(fn: Callable[..., Any], body: Callable[..., Any], **options: Any) -> None:
    """Register a function whose value is its own and whose pullback is that of a body; ``options`` as in ``rrule``."""

    @wraps(body)
    def rule(wanted: Wanted, /, *args: Any, **kwargs: Any) -> tuple[Any, Pullback]:
        return fn(*args, **kwargs), lambda dy: rule_of_body(body, args, kwargs, wanted)[1](dy)

    rrule(fn, selective=True, **options)(rule)


def given(**kwargs: Any) -> dict[str, Any]:
    """The keyword arguments that say something: not ``None``, not NumPy's "no value", not ``keepdims=False``."""
    return {
        key: value
        for key, value in kwargs.items()
        if value is not None and value is not NOTHING and not (value is False and key == "keepdims")
    }


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of an array, number, traced value or plain list."""
    if type(x) is np.ndarray:
        return x.shape  # type: ignore[no-any-return]
    t = typeof(x)
    return t.shape if isinstance(t, ArrayType) else np.shape(operand(x))


def ndim_of(x: Any) -> int:
    """How many dimensions it has."""
    return x.ndim if type(x) is np.ndarray else len(shape_of(x))


def dtype_of(x: Any) -> np.dtype[Any]:
    """The dtype of an array, number, traced value or plain list."""
    t = typeof(x)
    return t.dtype if isinstance(t, ArrayType) else np.asarray(operand(x)).dtype


def strong(x: Any) -> Any:
    """A number of Python's, or a list, as an array, which promotes as such; anything else as it is."""
    x = operand(x)
    t = typeof(x)
    return as_array(x) if isinstance(t, ArrayType) and t.kind == "python" else x


def promoted(*xs: Any) -> np.dtype[Any]:
    """The dtype that arrays and numbers have together, where Python's numbers are weak."""
    weak: dict[str, Any] = {"f": 0.0, "i": 0, "c": 0j}
    types = map(typeof, xs)
    python = [t.dtype.kind if isinstance(t, ArrayType) and t.kind == "python" else "" for t in types]
    return np.result_type(*(weak.get(kind, dtype_of(x)) for kind, x in zip(python, xs, strict=True)))


def inexact(x: Any) -> Any:
    """An argument of a function that computes with floating numbers: integers and bools as float64."""
    x = operand(x)
    return x if dtype_of(x).kind in "fc" else astype(x, np.dtype(np.float64))


@dispatching
def stop_gradient(x: Any) -> Any:
    """``x`` as a constant: for what a result does not depend on, though its formula does (the shift of logsumexp)."""
    return x


nondiff(stop_gradient, lowering=lambda x: x, cases=lambda s: [case(s(3)), case(s(2, dtype=complex))])


def quotient(a: Any, b: Any, nowhere: Any) -> Any:
    """``a / b``, and zero with all derivatives ``nowhere``."""
    return np.where(nowhere, 0, np.divide(a, np.where(nowhere, 1, b)))


def zero_over_zero(a: Any, b: Any) -> Any:
    """``a / b``, and zero where ``b`` is: the convention for roots of sums of squares at zero."""
    return quotient(a, b, np.equal(b, 0))


def unsupported(what: str, instead: str) -> MissingRuleError:
    """The error for arguments that a rule does not cover."""
    return MissingRuleError(f"{user_site()}: {what} has no derivative rule. {instead}.")


def axes_of(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes of a reduction as non-negative numbers; all of them for ``None``."""
    if axis is None or (not ndim and axis in (0, -1)):  # ufuncs take a number for an array of one
        return tuple(range(ndim))
    return tuple(normalize_axis_tuple(axis, ndim))


def axis_of(axis: int, ndim: int) -> int:
    """One axis as a non-negative number."""
    return int(normalize_axis_index(axis, ndim))


def kept_shape(shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """The shape after a reduction with ``keepdims=True``."""
    axes = axes_of(axis, len(shape))
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def count_along(shape: tuple[int, ...], axis: Axis) -> int:
    """How many elements go into one element of a reduction's result."""
    n = 1
    for i in axes_of(axis, len(shape)):
        n *= shape[i]
    return n


def keep(y: Any, shape: tuple[int, ...], axis: Axis) -> Any:
    """The result of a reduction over ``axis`` of an array of this shape, with the reduced axes put back as 1."""
    have = shape_of(y)
    if have == () or have == (want := kept_shape(shape, axis)):
        return y
    return np.reshape(y, want)


def spread(dy: Any, shape: tuple[int, ...], axis: Axis) -> Any:
    """The cotangent of a sum over ``axis``, back at the shape of the summed array."""
    dy = keep(dy, shape, axis)
    return dy if shape_of(dy) == shape else np.broadcast_to(dy, shape)


def along(axis: int, ndim: int, index: Any) -> tuple[Any, ...]:
    """The index that applies ``index`` to one axis and takes the others whole."""
    return (slice(None),) * axis_of(axis, ndim) + (index,)
