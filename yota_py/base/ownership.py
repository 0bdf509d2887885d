"""Whose code and classes it is: a library's or the user's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

# Code that is not the user's: sites skip over it, and patched functions answer it as usual.
LIBRARIES = frozenset([
    "numpy", "scipy", "yota_py", "numba", "llvmlite", "optree", "functools", "contextlib", "pandas", "sklearn",
    "matplotlib", "autograd", "jax", "torch", "xarray", "polars", "dask", "pyarrow", "pytest", "_pytest", "hypothesis",
    "IPython", "mpmath", "sympy", "networkx", "statsmodels",
])  # fmt: skip


PACKAGE = __name__.partition(".")[0]
_STANDARD_LIBRARY = os.path.dirname(os.__file__)
_TYPED = "<string>"  # the file name of text that is given to ``exec`` or ``eval``

_NUMPYS = frozenset(fn for fn in vars(np).values() if isinstance(fn, np.ufunc))
_WITH_UFUNCS = ("scipy.special", "scipy.special._ufuncs", "scipy.special._special_ufuncs")


def named_module(fn: Any) -> Any:
    """The ``__module__`` of a function, which ufuncs of SciPy and of an older NumPy lack; ``None`` if there is none."""
    module = getattr(fn, "__module__", None)
    if module is not None or not isinstance(fn, np.ufunc):
        return module
    return ("numpy" if fn in _NUMPYS else "scipy.special") if is_known_ufunc(fn) else None


def is_known_ufunc(fn: np.ufunc) -> bool:
    """Whether a ufunc is NumPy's or SciPy's; others run code of whoever has made them."""
    of_scipy = (sys.modules.get(name) for name in _WITH_UFUNCS)
    return fn in _NUMPYS or any(vars(m).get(fn.__name__) is fn for m in of_scipy if m)


@lru_cache(maxsize=4096)
def is_library(module: str | None) -> bool:
    """Whether a module of this name belongs to a library rather than to the user."""
    root = module.partition(".")[0] if module is not None else ""
    if root in LIBRARIES or root.startswith("namedtuple_"):
        return True
    if root not in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(root), "__file__", None)  # a user's own code.py is no library
    return file is None or file.startswith(_STANDARD_LIBRARY)


def is_decimal(cls: type) -> bool:
    """Whether objects of a class are decimal numbers; ``decimal`` itself is not imported for that."""
    decimal = sys.modules.get("decimal")
    return decimal is not None and issubclass(cls, decimal.Decimal)


def is_library_code(code: CodeType, namespace: Mapping[str, Any]) -> bool:
    """Whether code belongs to a library: not what the user has typed into a library's name space, such as
    ``eval("lambda x: sin(x)", vars(math))``."""
    # Without a call of a method, of which a profile function would hear.
    module = namespace["__name__"] if "__name__" in namespace else None  # noqa: SIM401
    if not is_library(module):
        return False
    return code.co_filename != _TYPED or code.co_name.startswith("__") or str(module).startswith("namedtuple_")


def is_library_frame(frame: FrameType) -> bool:
    """Whether a frame runs a library's code."""
    if id(frame.f_code) in ours:
        return True
    if not is_library_code(frame.f_code, frame.f_globals):
        return False
    is_ours(frame)  # which it remembers
    return True


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The first frame of the user's code, from this one on outwards."""
    while frame is not None and (id(frame.f_code) in ours or is_library_frame(frame)):
        frame = frame.f_back
    return frame


ours: dict[int, CodeType] = {}  # code of this library that has run, by identity
MAX_OURS = 4096  # there are some 3,000 functions, and texts that are written for programs


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of this library."""
    code = frame.f_code
    if id(code) in ours:
        return True
    if str(frame.f_globals.get("__name__")).partition(".")[0] != PACKAGE:
        return False
    if code.co_filename != _TYPED:
        if len(ours) >= MAX_OURS:
            ours.clear()
        ours[id(code)] = code
    return True


_BODIES = (  # what runs rules and pullbacks, and functions of libraries
    "yota_py.reverse.direct", "yota_py.reverse.verbs", "yota_py.registry.patches",
)  # fmt: skip
_ON_THE_WAY = "yota_py.rules.lists"  # its stand-ins are between the user's code and functions that it calls


def in_rules() -> bool:
    """Whether a rule of the library is running, or code that is traced through: the arrays that it makes depend on its
    arguments only."""
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module in _BODIES or (module.startswith("yota_py.rules.") and module != _ON_THE_WAY):
            return True
        if not is_library(module):
            return False
        frame = frame.f_back  # type: ignore[assignment]
    return False
