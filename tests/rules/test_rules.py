"""Every rule of NumPy's functions at every of its registered cases; a rule without cases fails."""

from __future__ import annotations

import pytest
from entries import OF_NUMPY, called
from sets import SEQUENCES

from yota_py.registry.registry import Primitive
from yota_py.testing.checks import check_cases


def _seeds(entry: Primitive) -> range:
    """How many draws there are; one of what is traced step by step, and has many cases."""
    return range(3) if SEQUENCES and entry.body is None else range(1)


@pytest.mark.parametrize(("entry", "seed"), [(entry, seed) for entry in OF_NUMPY for seed in _seeds(entry)],
                         ids=lambda x: x if isinstance(x, int) else called(x))  # fmt: skip
def test_rule(entry: Primitive, seed: int) -> None:
    assert entry.cases, f"{entry.name} has a rule and no test case: add cases= where the rule stands"
    assert check_cases(entry, seed) > 0
