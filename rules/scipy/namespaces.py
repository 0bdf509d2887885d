"""What SciPy asks of array libraries before it computes: for traced values it is NumPy that it computes with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from scipy._lib import _array_api, array_api_compat, array_api_extra

from yota_py.base.types import ArrayType, typeof
from yota_py.registry.patches import patch, traced_through
from yota_py.registry.registry import methods
from yota_py.registry.tangents import as_array, astype

from ..support import dtype_of, operand, promoted, shape_of, unsupported


def _namespace(*arrays: Any) -> ModuleType:
    return np


def _converted(
    array: Any, dtype: Any = None, order: Any = None, copy: bool | None = None, *,
    xp: Any = None, check_finite: bool = False, subok: bool = False,
) -> Any:  # fmt: skip
    x = as_array(operand(array))
    x = x if dtype is None or dtype_of(x) == dtype else astype(x, np.dtype(dtype))
    return np.copy(x) if copy else x


def _result_type(*args: Any, force_floating: bool = False, xp: Any) -> Any:
    return promoted(*map(operand, (x for x in args if x is not None)), *([1.0] if force_floating else []))


def _promoted(*args: Any, broadcast: bool = False, force_floating: bool = False, xp: Any) -> Any:
    dtype = _result_type(*args, force_floating=force_floating, xp=xp)
    out = [x if x is None else _converted(x, dtype) for x in args]
    if broadcast:
        shape = np.broadcast_shapes(*(shape_of(x) for x in out if x is not None))
        out = [x if x is None else np.broadcast_to(x, shape) for x in out]
    return out[0] if len(out) == 1 else tuple(out)


def _at_least(x: Any, /, *, ndim: int, xp: Any = None) -> Any:
    """New axes stand in front."""
    x = as_array(x)
    return np.reshape(x, (1,) * (ndim - len(shape_of(x))) + shape_of(x)) if len(shape_of(x)) < ndim else x


class _At:
    """``at(x)[index].set(value)`` and its kind, which write into a copy."""

    def __init__(self, x: Any, index: Any = None) -> None:
        self.x, self.index = x, index

    def __getitem__(self, index: Any) -> _At:
        return _At(self.x, index)

    def set(self, value: Any, **how: Any) -> Any:
        x = np.copy(self.x)
        x[self.index] = value
        return x


_STAND_INS: dict[str, Callable[..., Any]] = {
    "array_namespace": _namespace, "_asarray": _converted, "xp_result_type": _result_type, "xp_promote": _promoted,
    "xp_swapaxes": lambda a, axis1, axis2, xp=None: np.swapaxes(a, axis1, axis2),
    "xp_copy": lambda x, *, xp=None: np.copy(x), "xp_size": lambda x: int(np.prod(shape_of(x))),
    "xp_device": lambda x: None, "is_numpy": lambda xp: True, "xp_default_dtype": lambda xp: np.float64,
}  # fmt: skip
for _name, _stand_in in _STAND_INS.items():
    patch(_array_api, _name, _stand_in)
patch(array_api_extra, "atleast_nd", _at_least)
patch(array_api_extra, "at", _At)
patch(array_api_extra, "sinc", lambda x, /, *, xp=None: np.sinc(x))


@partial(patch, array_api_compat, "is_array_api_obj")
def _is_array(x: Any) -> bool:
    t = typeof(x)
    return isinstance(t, ArrayType) and t.kind == "array"


def _kept_open(x: Any, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
    """``x.setflags(write=False)``: SciPy's objects close their arrays, which nobody writes into here."""
    if write or align is not None or uic is not None or not traced_through():
        raise unsupported("setflags of a traced array", "Leave it out")


methods["setflags"] = _kept_open
