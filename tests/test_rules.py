"""Every rule at every of its registered cases; a rule without cases fails."""

from __future__ import annotations

import pytest
import scipy.special  # noqa: F401 - its rules are registered once it is imported
import yota_py.rules  # noqa: F401 - registers the rules

from yota_py.registry import Primitive, primitives
from yota_py.testing import check_cases

ALL = [entry for entry in primitives() if entry.rule is not None or entry.cases]


def _id(entry: Primitive) -> str:
    module = getattr(entry.fn, "__module__", None) or type(entry.fn).__module__
    return f"{module}.{entry.name}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("entry", ALL, ids=_id)
def test_rule(entry: Primitive, seed: int) -> None:
    if not entry.cases and _internal(entry):
        pytest.skip("bookkeeping of tapes, covered by every gradient")
    assert entry.cases, f"{entry.name} has a rule and no test case: add cases= where the rule stands"
    assert check_cases(entry, seed) > 0


def _internal(entry: Primitive) -> bool:
    return entry.name == "getfield"
