"""Functions of ``scipy.special`` in C, which kernels call for each element: those that SciPy offers to Cython.

They are the functions that SciPy's own ufuncs call, and found by their names when a program is linked.
"""

from __future__ import annotations

import functools
import re
import sys
from importlib import import_module
from typing import Any

import numpy as np

from ...registry.kernels import Map, named

_MODULE = "scipy.special.cython_special"


@functools.cache
def kernel_of(fn: Any) -> Map | None:
    """The kernel of a ufunc of ``scipy.special`` that is computed in double precision; ``None`` if there is none.

    Those with loops on integers warn of other numbers, in Python.
    """
    if not _is_of_scipy(fn) or fn.nout != 1:
        return None
    if "d" * fn.nin + "->d" not in fn.types or not set("".join(fn.types)) <= set("fdgFDG->"):
        return None
    if (key := _offered(fn.__name__, fn.nin)) is None:
        return None

    def emit(k: Any, *values: Any) -> Any:
        return k.of_doubles(_MODULE, key, *values)

    emit.__module__, emit.__qualname__ = _MODULE, fn.__name__
    return Map(named(emit))


def _is_of_scipy(fn: Any) -> bool:
    special = sys.modules.get("scipy.special")  # whoever has the function has loaded it
    return isinstance(fn, np.ufunc) and getattr(special, fn.__name__, None) is fn


def _offered(name: str, arity: int) -> str | None:
    """The name under which a function of doubles is offered: that of one of several types has a number in front."""
    functions = import_module(_MODULE).__pyx_capi__.items()  # not before: few programs need it
    wanted = f"double ({'double, ' * arity}int __pyx_skip_dispatch)"
    numbered = re.compile(rf"(__pyx_fuse_(\d+_?)+)?{name}")
    return next((k for k, capsule in functions if numbered.fullmatch(k) and f'"{wanted}"' in repr(capsule)), None)
