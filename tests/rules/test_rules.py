"""Every rule at every of its registered cases; a rule without cases fails."""

from __future__ import annotations

import pytest
import scipy.special  # noqa: F401 - its rules are registered once it is imported
import yota_py.rules  # noqa: F401 - registers the rules

from yota_py.registry.registry import Primitive, primitives
from yota_py.testing.checks import check_cases


def _ours(entry: Primitive) -> bool:
    """Not registered by another test file; not ``getfield``, which every gradient of several results uses."""
    modules = [getattr(fn, "__module__", None) or "" for fn in (entry.rule, entry.fn)]
    return entry.name != "getfield" and not any(module.startswith("test_") for module in modules)


ALL = [entry for entry in primitives() if (entry.rule is not None or entry.cases) and _ours(entry)]


def _id(entry: Primitive) -> str:
    module = getattr(entry.fn, "__module__", None) or type(entry.fn).__module__
    return f"{module}.{entry.name}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("entry", ALL, ids=_id)
def test_rule(entry: Primitive, seed: int) -> None:
    assert entry.cases, f"{entry.name} has a rule and no test case: add cases= where the rule stands"
    assert check_cases(entry, seed) > 0
