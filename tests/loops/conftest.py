"""Loops are tested where they are traced: functions that do nothing but compute are not, if they are interpreted."""

from __future__ import annotations

import pytest

from yota_py.cache import modes


@pytest.fixture(autouse=True)
def all_calls_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "MAX_FAILURES", 0)
