"""Complex numbers in terms of their real and imaginary parts, for which there are kernels.

An operation whose arguments are complex becomes operations on parts, as a primitive's ``parts`` say or, of what only
moves numbers, adds or multiplies them, as its kernel tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dispatch import original
from ..base.types import ArrayType, typeof
from ..registry.kernels import Concatenate, Index, Map, Product, Reduce, Unindex, View
from ..registry.registry import Primitive
from ..registry.tangents import Parts, astype, joined


def by_parts(entry: Primitive, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A call in terms of the parts of its complex arguments; ``NotImplemented`` if there is no such form."""
    becomes_complex = entry.fn is astype and np.dtype(args[1]).kind == "c"
    if entry.fn in (np.real, np.imag) or not (becomes_complex or any(map(_is_complex, _listed(args)))):
        return NotImplemented
    given = [_parts_of(x) for x in args]
    if entry.parts is not None:
        result = NotImplemented if kwargs and isinstance(entry.fn, np.ufunc) else entry.parts(*given, **kwargs)
    elif isinstance(entry.kernel, Concatenate):
        result = _concatenated(entry.fn, *args, **kwargs)
    elif isinstance(entry.kernel, Product):
        result = _product(entry.fn, *given)
    elif type(given[0]) is not Parts or kwargs.get("dtype") is not None:
        return NotImplemented
    elif isinstance(entry.kernel, View | Index | Unindex) or entry.kernel == Reduce("sum"):
        result = Parts(*(entry.fn(part, *args[1:], **kwargs) for part in given[0]))
    else:
        return NotImplemented
    if type(result) is not Parts:
        return result
    keep = entry.fn in (original(np.where), astype)  # others give numbers for 0-d arrays
    if isinstance(entry.kernel, Map | None) and not keep:
        result = Parts(*(x[()] if isinstance(x, np.ndarray) and not x.ndim else x for x in result))
    dtype = np.result_type(*(_weakly(x) for x in result))
    return joined(*(x if _is_of(x, dtype) else astype(x, dtype) for x in result))


def _listed(args: Sequence[Any]) -> Sequence[Any]:
    """The arguments, or the arrays of a list that is the first."""
    return args[0] if args and isinstance(args[0], list | tuple) else args


def _is_complex(x: Any) -> bool:
    t = typeof(x)
    return isinstance(t, ArrayType) and t.dtype.kind == "c"


def _parts_of(x: Any) -> Any:
    return Parts(np.real(x), np.imag(x)) if _is_complex(x) else x


def _weakly(x: Any) -> Any:
    t = typeof(x)
    assert isinstance(t, ArrayType)
    return 0.0 if t.kind == "python" else t.dtype


def _is_of(x: Any, dtype: np.dtype[Any]) -> bool:
    t = typeof(x)
    return type(x) in (int, float) or (isinstance(t, ArrayType) and t.dtype == dtype)


def _concatenated(fn: Any, arrays: Any, *args: Any, **kwargs: Any) -> Any:
    parts = [_parts_of(x) for x in arrays]
    if not all(type(x) is Parts for x in parts):
        return NotImplemented
    return Parts(*(fn([part[i] for part in parts], *args, **kwargs) for i in range(2)))


def _product(fn: Any, a: Any, b: Any) -> Any:
    if type(a) is not Parts:
        return Parts(fn(a, b.re), fn(a, b.im))
    if type(b) is not Parts:
        return Parts(fn(a.re, b), fn(a.im, b))
    return Parts(fn(a.re, b.re) - fn(a.im, b.im), fn(a.re, b.im) + fn(a.im, b.re))
