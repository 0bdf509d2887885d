"""What pyproject.toml promises is what is tested, and what differs between versions of the libraries."""

from __future__ import annotations

import inspect
import re
import runpy
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yota_py.rules  # noqa: F401 - registers the rules
from test_import import fresh

from yota_py import gradient
from yota_py.base.signatures import IN_C, signature_of
from yota_py.registry.registry import Sample, primitives

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NEEDED = [bound.partition(",") for bound in PROJECT["project"]["dependencies"]]
BOUNDS = dict(lower.split(">=") for lower, _, _ in NEEDED)
BELOW = {lower.partition(">=")[0]: upper.removeprefix("<") for lower, _, upper in NEEDED if upper}
OLDEST_PYTHON = PROJECT["project"]["requires-python"].removeprefix(">=")
TELLS_SIGNATURES = np.lib.NumpyVersion(np.__version__) >= "2.4.0"


def test_the_lowest_versions_are_the_bounds() -> None:
    constraints = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))["constraints"]()
    assert constraints == [f"{name}=={version}" for name, version in BOUNDS.items()]
    assert all(re.fullmatch(r"\d+\.\d+(\.\d+)?", version) for version in BOUNDS.values())


def test_the_oldest_python_is_the_one_that_is_tested_and_checked() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert f"$(call find-python,{OLDEST_PYTHON})" in makefile
    assert PROJECT["tool"]["mypy"]["python_version"] == OLDEST_PYTHON
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{OLDEST_PYTHON.replace('.', '')}"


def test_the_readme_says_the_bounds() -> None:
    text = (ROOT / "README.md").read_text()
    assert f"Python {OLDEST_PYTHON} or later" in text
    for name, version in BOUNDS.items():
        assert re.search(rf"{name} {re.escape(version)}\b", text, re.IGNORECASE), (name, version)
    for name, version in BELOW.items():
        assert re.search(rf"{name}[^,]* below {re.escape(version)}\b", text, re.IGNORECASE), (name, version)


def test_nothing_deprecated_is_used_by_importing_or_compiling() -> None:
    code = """
import warnings
warnings.simplefilter("error")
import numpy as np, scipy.special, yota_py, yota_py.rules, yota_py.testing.checks
yota_py.config.compile = "always"
for i in range(3):
    value, (slope,) = yota_py.grad(lambda x: np.sum(np.tanh(x) @ np.ones((3, 3))), np.ones(3))
print(slope.shape)
"""
    assert fresh(code) == "(3,)\n"


def test_what_a_library_deprecates_is_no_error_here() -> None:
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
        with warnings.catch_warnings(record=True) as caught:
            warnings.warn("soon gone", category, stacklevel=1)
        assert [w.category for w in caught] == [category]
    with pytest.raises(UserWarning):
        warnings.warn("wrong", UserWarning, stacklevel=1)


def refused() -> Iterator[str]:
    """Primitives of NumPy's with cases that this NumPy does not take."""
    for entry in primitives():
        draws = () if entry.users else entry.cases  # those of the documentation's examples know their own names only
        for case in (case for draw in draws for case in draw(Sample(0))):
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    entry.fn(*case.args, **case.kwargs)
            except TypeError:
                yield entry.name


def test_every_case_is_one_that_numpy_takes() -> None:
    assert list(refused()) == []


@pytest.mark.parametrize("name", IN_C)
def test_signatures_of_functions_in_c(name: str) -> None:
    fn = getattr(np, name)
    parameters = signature_of(fn).parameters
    if TELLS_SIGNATURES:
        assert parameters == inspect.signature(fn).parameters == inspect.signature(IN_C[name]).parameters
    else:
        assert parameters == inspect.signature(IN_C[name]).parameters


def test_all_functions_in_c_have_a_signature() -> None:
    dispatching = [fn for fn in [*vars(np).values()] if type(fn) is type(np.mean)]
    assert len(dispatching) > 100
    for fn in dispatching:
        signature_of(fn)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.concatenate([[x[0], 2.0], x], axis=0) ** 2),
        lambda x: np.dot([x[0], x[1]], x),
        lambda x: np.inner([x[0], x[1]], x),
        lambda x: np.vdot([x[0], x[1]], x),
    ],
)
def test_lists_for_functions_in_c(f: Any) -> None:
    x = np.array([1.0, 3.0])
    step = 1e-6
    want = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(2)]
    for _ in range(3):
        np.testing.assert_allclose(gradient(f)(x), want, rtol=1e-8)
