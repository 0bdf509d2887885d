"""The functions in C by which NumPy sorts numbers of a dtype, found by NumPy's C interface.

``PyDataType_GetArrFuncs`` gives a table of functions of a dtype, among them ``int sort(void *start, npy_intp n, void
*array)`` and ``int argsort(void *start, npy_intp *places, npy_intp n, void *array)``; those of numbers do not look at
the array. Where they stand belongs to the binary interface of NumPy 2 (``numpy/ndarraytypes.h``).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Literal

import numpy as np

Method = Literal["quicksort", "stable"]

# By ``kind`` and ``stable``, the method; by heaps NumPy sorts with other functions than those of the table.
METHODS: dict[tuple[Any, Any], Method] = {
    **dict.fromkeys([(None, None), (None, False), ("quicksort", None)], "quicksort"),
    **dict.fromkeys([("stable", None), ("mergesort", None), (None, True)], "stable"),
}  # fmt: skip
_GET_FUNCTIONS = 365  # in the table of NumPy's C interface
_ROW: dict[Method, int] = {"quicksort": 0, "stable": 2}
_SORT, _ARGSORT = 33, 36  # behind 21 casts and 12 functions


def sorting(dtype: str, method: Method, *, places: bool) -> str | None:
    """The name by which the linker finds the function that sorts numbers of a dtype, or the ``places`` of them;
    ``None`` if there is none."""
    name = f"{_ARGSORT if places else _SORT}.{_ROW[method]}.{dtype}"
    return None if address(name) is None else name


@functools.cache
def address(name: str) -> int | None:
    """Where the function of this name is, given by ``sorting``."""
    if not np.__version__.startswith("2."):
        return None
    table, row, dtype = name.split(".")
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    interface = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    functions = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(_words(interface)[_GET_FUNCTIONS])
    found: int | None = _words(functions(np.dtype(dtype)))[int(table) + int(row)]
    return found


def _words(start: Any) -> Any:
    return ctypes.cast(start, ctypes.POINTER(ctypes.c_void_p))
