"""Every rule of SciPy's functions at every of its registered cases; a rule without cases fails.

There are thousands. Each is interpreted, lowered and compared with finite differences; ``make stress`` compiles all of
them, other runs the first of each function and every fourth.
"""

from __future__ import annotations

import os

import pytest
from entries import OF_SCIPY, called

from yota_py.registry.registry import Primitive, Sample
from yota_py.testing import checks, evaluators

EVERY = 1 if int(os.environ.get("YOTA_SEQUENCES", "0")) else 4


@pytest.mark.parametrize("entry", OF_SCIPY, ids=called)
def test_rule(entry: Primitive, monkeypatch: pytest.MonkeyPatch) -> None:
    assert entry.cases, f"{entry.name} has a rule and no test case: add cases= where the rule stands"
    cases = [case for draw in entry.cases for case in draw(Sample(0))]
    every = dict(evaluators.EVALUATORS)
    some = {"lowered": every["lowered"]}
    for i, case in enumerate(cases):
        monkeypatch.setattr(evaluators, "EVALUATORS", some if i % EVERY else every)
        if entry.rule is None and entry.body is None:
            assert checks.check_cases(entry) == len(cases)  # of its value alone
            return
        checks.check_rrule(entry.fn, *case.args, **case.kwargs)
