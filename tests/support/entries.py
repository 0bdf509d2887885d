"""All primitives of the library that have cases, NumPy's and SciPy's."""

from __future__ import annotations

from importlib import import_module

import yota_py.rules.scipy
from scipy import special

from yota_py.registry.registry import Primitive, primitives

for _library in yota_py.rules.scipy.FILES:  # its rules are registered once it is imported
    import_module(f"scipy.{_library}")


def _is_ours(entry: Primitive) -> bool:
    """Not registered by another test file; not ``getfield``, which every gradient of several results uses."""
    modules = [getattr(fn, "__module__", None) or "" for fn in (entry.rule, entry.fn)]
    return entry.name != "getfield" and not any(module.startswith("test_") for module in modules)


def called(entry: Primitive) -> str:
    """A primitive's name with its module."""
    of_special = getattr(special, entry.name, None) is entry.fn  # ufuncs do not say where they are from
    module = "scipy.special" if of_special else getattr(entry.fn, "__module__", None) or type(entry.fn).__module__
    return f"{module}.{entry.name}"


_ALL = [entry for entry in primitives() if (entry.rule or entry.body or entry.cases) and _is_ours(entry)]
OF_SCIPY = [entry for entry in _ALL if called(entry).startswith(("scipy", "yota_py.rules.scipy"))]
OF_NUMPY = [entry for entry in _ALL if entry not in OF_SCIPY]
