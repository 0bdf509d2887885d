"""Every rule at every of its registered cases; a rule without cases fails."""

from __future__ import annotations

from importlib import import_module

import pytest
import yota_py.rules.scipy
from scipy import special

from yota_py.registry.registry import Primitive, primitives
from yota_py.testing.checks import check_cases

for _library in yota_py.rules.scipy.FILES:  # its rules are registered once it is imported
    import_module(f"scipy.{_library}")


def _ours(entry: Primitive) -> bool:
    """Not registered by another test file; not ``getfield``, which every gradient of several results uses."""
    modules = [getattr(fn, "__module__", None) or "" for fn in (entry.rule, entry.fn)]
    return entry.name != "getfield" and not any(module.startswith("test_") for module in modules)


ALL = [entry for entry in primitives() if (entry.rule or entry.body or entry.cases) and _ours(entry)]


def _id(entry: Primitive) -> str:
    of_special = getattr(special, entry.name, None) is entry.fn  # ufuncs do not say where they are from
    module = "scipy.special" if of_special else getattr(entry.fn, "__module__", None) or type(entry.fn).__module__
    return f"{module}.{entry.name}"


def _seeds(entry: Primitive) -> range:
    """One draw of the many functions of SciPy, whose cases are many as well, and of what is traced step by step."""
    return range(1) if _id(entry).startswith("scipy") or entry.body is not None else range(3)


@pytest.mark.parametrize(("entry", "seed"), [(entry, seed) for entry in ALL for seed in _seeds(entry)],
                         ids=lambda x: x if isinstance(x, int) else _id(x))  # fmt: skip
def test_rule(entry: Primitive, seed: int) -> None:
    assert entry.cases, f"{entry.name} has a rule and no test case: add cases= where the rule stands"
    assert check_cases(entry, seed) > 0
