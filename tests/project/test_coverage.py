"""docs/coverage.md says what its program finds: here for every 40th function."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy

DOCS = Path(__file__).resolve().parents[2] / "docs"
EVERY = 40  # of how many functions one is called


sys.path.append(str(DOCS))  # where the program is, which is in no package
coverage = importlib.import_module("make_coverage")
TEXT = coverage.PAGE.read_text(encoding="utf-8")
SAME = f"NumPy {np.__version__}," in TEXT and f"SciPy {scipy.__version__}," in TEXT  # others have other functions


def test_every_function_stands_on_the_page() -> None:
    names = {item.full for item in coverage.items()}
    assert len(names) > 3000
    assert not SAME or names == set(coverage.read_page(TEXT))


def test_the_page_says_what_is_found() -> None:
    wanted = coverage.items()[::EVERY]
    found = coverage.classify(wanted)
    page = coverage.read_page(TEXT)
    differ = {name: (kind, page.get(name)) for name, (kind, _) in found.items() if kind != page.get(name)}
    assert not SAME or not differ, "make coverage writes the page anew"
    wrong = [name for name, (_, reason) in found.items() if reason.startswith("another")]
    assert not wrong or all(name.startswith("scipy.optimize.") for name in wrong)  # what searches by comparing only


def test_counts() -> None:
    page = coverage.read_page(TEXT)
    row = next(line for line in TEXT.splitlines() if line.startswith("| all |"))
    counts = [list(page.values()).count(kind) for kind in (coverage.YES, coverage.NO, coverage.REFUSED)]
    assert [int(cell) for cell in row.split("|")[2:5]] == counts


@pytest.mark.parametrize(("name", "kind", "reason"), [
    ("numpy.tanh", "differentiable", ""), ("numpy.floor", "not differentiable", ""), ("numpy.save", "refused", ""),
    ("numpy.argsort", "not differentiable", ""), ("numpy.round", "not differentiable", ""),
    ("numpy.array_repr", "refused", "returns text"), ("numpy.loadtxt", "refused", "reads or writes files"),
    ("scipy.optimize.fsolve", "refused", "takes functions"), ("numpy.ndarray.sort", "differentiable", ""),
    ("numpy.test", "refused", "runs tests"),
])  # fmt: skip
def test_kinds(name: str, kind: str, reason: str) -> None:
    found = coverage.classify([item for item in coverage.items() if item.full == name])
    assert found[name][0] == kind and reason in found[name][1]


def test_what_ends_a_process_is_found() -> None:
    ending = coverage.Item("os", "abort", "(lambda x: __import__('os').abort())", arguments=lambda: [(1.0,)])
    after = coverage.Item("numpy", "sin", "numpy.sin", np.sin)
    found = coverage.classify([ending, after])
    assert found["os.abort"] == ("refused", "ends the process, or does not end")
    assert found["numpy.sin"][0] == "differentiable"
