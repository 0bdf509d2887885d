"""Every rule of NumPy's functions at every of its registered cases; a rule without cases fails.

``make stress`` takes three draws of the cases.
"""

from __future__ import annotations

import os

import pytest
from entries import OF_NUMPY, called

from yota_py.registry.registry import Primitive
from yota_py.testing.checks import check_cases

DRAWS = 3 if "YOTA_SEQUENCES" in os.environ else 1


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize("entry", OF_NUMPY, ids=called)
def test_rule(entry: Primitive, seed: int) -> None:
    assert entry.cases, f"{entry.name} has a rule and no test case: add cases= where the rule stands"
    assert check_cases(entry, seed) > 0
