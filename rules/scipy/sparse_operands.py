"""SciPy's own matrices beside traced values: a number times a constant matrix is a matrix with traced values.

What operators and a few methods make of matrices that guards compare, and of plain numbers, is known as these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from yota_py.base.dispatch import is_traced
from yota_py.errors import MutationError
from yota_py.registry.constants import made_of_numbers
from yota_py.registry.patches import patch
from yota_py.registry.writes import constant_sparse, is_compared, sparse_matmul
from yota_py.tape.operations import user_site

from ..support import operand, shape_of, unsupported
from .sparse import is_ours, is_sparse, shape_of_any, sparse_of

_OPERATORS = (
    "__add__", "__radd__", "__sub__", "__rsub__", "__truediv__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__",
    "__ne__", "multiply", "power", "maximum", "minimum",
)  # fmt: skip
_MOVES = (
    "__neg__", "__getitem__", "transpose", "tocsr", "tocsc", "tocoo", "tobsr", "todia", "asformat", "astype", "copy",
    "conj", "conjugate", "reshape",
)  # fmt: skip
_FORMATS = ("csr", "csc", "coo", "dia", "bsr", "lil", "dok")


def _answer(name: str) -> Callable[..., Any]:
    def answer(self: Any, *args: Any, **kwargs: Any) -> Any:
        _check(*args)
        return getattr(sparse_of(self), name)(*args, **kwargs)

    return answer


def _check(*operands: Any) -> None:
    for x in operands:
        if is_traced(x) and getattr(type(x), "__yota_tracer__", None) is None:  # made by another library
            raise unsupported(f"what a {x.__class__.__name__} and a sparse matrix give", "Compute with x.to_numpy()")


def _matmul(self: Any, other: Any) -> Any:
    """``self @ other``, and of matrices ``self * other``."""
    if not shape_of_any(other):
        return sparse_of(self) * other
    return sparse_of(self) @ other if is_sparse(other) else product(self, operand(other))


def _rmatmul(self: Any, other: Any) -> Any:
    if not shape_of_any(other):
        return sparse_of(self) * other
    return np.transpose(product(self.transpose(), np.transpose(operand(other)), self))


def product(matrix: Any, dense: Any, source: Any = None) -> Any:
    """``matrix @ dense``, of a matrix that was perhaps made of another one, its ``source``."""
    _check(dense)
    if len(shape_of(dense)) not in (1, 2) or len(matrix.shape) != 2:
        what = f"a product of shapes {matrix.shape} and {shape_of(dense)} with a sparse array"
        raise unsupported(what, "Use x.toarray(), or matrices")
    return sparse_matmul(constant_sparse(matrix, source), dense)


def _in_place(self: Any, other: Any) -> Any:
    """Python makes a new matrix of it and what is no number."""
    if shape_of_any(other):
        return NotImplemented
    what = f"this writes traced values into a {type(self).__name__} in place"
    raise MutationError(f"{user_site()}: {what}, which cannot be followed. Make a new one: y = y * b")


def _noticing(method: Callable[..., Any], answer: Callable[..., Any] | None) -> Callable[..., Any]:
    """A method, and what answers for it if an operand is traced."""

    def noticing(self: Any, *args: Any, **kwargs: Any) -> Any:
        if answer is not None and is_ours(*args, *kwargs.values()):
            return answer(self, *args, **kwargs)
        result = method(self, *args, **kwargs)
        if is_sparse(result) and is_compared(self):
            made_of_numbers(result, [x for x in (*args, *kwargs.values()) if not (is_traced(x) or _is_constant(x))])
        return result

    return noticing


def _is_constant(x: Any) -> bool:
    return sparse.issparse(x) and is_compared(x)


def _places(name: str) -> Iterator[Any]:
    """The classes that have a method of this name of their own."""
    found = [getattr(sparse, f"{form}_{kind}") for form in _FORMATS for kind in ("matrix", "array")]
    bases = dict.fromkeys(base for cls in found for base in cls.__mro__ if base.__module__.startswith("scipy.sparse"))
    return (base for base in bases if name in vars(base))


_ANSWERS: dict[str, Callable[..., Any] | None] = {
    **{name: _answer(name) for name in _OPERATORS}, **dict.fromkeys(_MOVES),
    "_matmul_dispatch": _matmul, "_rmatmul_dispatch": _rmatmul, "__imul__": _in_place, "__itruediv__": _in_place,
}  # fmt: skip
for _name, _found in _ANSWERS.items():
    for _cls in _places(_name):
        patch(_cls, _name, _noticing(getattr(_cls, _name), _found), finder=lambda args: True)
