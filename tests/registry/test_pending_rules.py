"""Rules that wait for a library, and cannot be loaded when it comes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from yota_py import RulesWarning, grad
from yota_py.registry import registry


def test_rules_that_cannot_be_loaded_are_told_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_rules.py").write_text("import math\nmath.what_is_not_there\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.on_import("math", "broken_rules")
    with pytest.warns(RulesWarning, match="broken_rules cannot be loaded with this version.*what_is_not_there"):
        assert grad(lambda x: x * x, 3.0) == (9.0, (6.0,))
    assert grad(lambda x: x * x, 2.0) == (4.0, (4.0,))
    assert "broken_rules" not in sys.modules
