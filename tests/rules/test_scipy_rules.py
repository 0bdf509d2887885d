"""Every rule of SciPy's functions at its registered cases; a rule without cases fails.

There are thousands. ``make stress`` interprets, lowers and compiles all, and compares them with finite differences;
others do so with every fourth of a function, from the first on.
"""

from __future__ import annotations

import pytest
from entries import OF_SCIPY, called
from sets import each

from yota_py.registry.registry import Primitive, Sample
from yota_py.testing import checks


@pytest.mark.parametrize("entry", OF_SCIPY, ids=called)
def test_rule(entry: Primitive) -> None:
    assert entry.cases, f"{entry.name} has a rule and no test case: add cases= where the rule stands"
    cases = [case for draw in entry.cases for case in draw(Sample(0))]
    if entry.rule is None and entry.body is None:
        assert checks.check_cases(entry) == len(cases)  # of its value alone
        return
    for case in each(cases, 4):
        checks.check_rrule(entry.fn, *case.args, **case.kwargs)
