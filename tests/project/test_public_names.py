"""What is public is found in ``yota_py`` itself, and nothing else is shown there."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import yota_py
from yota_py import api, errors
from yota_py.testing import checks as testing

ROOT = Path(__file__).resolve().parents[2]


def public_functions(module: object) -> set[str]:
    """Functions that are written in a module, for everybody."""
    here = inspect.getmembers(module, inspect.isfunction)
    return {name for name, fn in here if fn.__module__ == module.__name__ and not name.startswith("_")}


def test_dir_and_all_agree() -> None:
    assert dir(yota_py) == sorted(yota_py.__all__)
    assert len({*yota_py.__all__}) == len(yota_py.__all__)


@pytest.mark.parametrize("name", yota_py.__all__)
def test_every_name_is_there_and_explained(name: str) -> None:
    value = getattr(yota_py, name)
    assert not inspect.ismodule(value)
    assert inspect.getdoc(value)


def test_errors_warnings_and_checks_are_public() -> None:
    assert {*errors.__all__} <= {*yota_py.__all__}
    assert public_functions(testing) <= {*yota_py.__all__}
    assert public_functions(api) - {"compilable"} <= {*yota_py.__all__}
    for name in (*errors.__all__, *public_functions(testing)):
        assert getattr(yota_py, name) is getattr(errors, name, None) or getattr(testing, name)


def test_star_import() -> None:
    names: dict[str, object] = {}
    exec("from yota_py import *", names)
    assert {*names} - {"__builtins__"} == {*yota_py.__all__}


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'jacobean'"):
        _ = yota_py.jacobean
    with pytest.raises(ImportError, match="cannot import name 'jacobean'"):
        exec("from yota_py import jacobean")


def test_checks_are_imported_when_asked_for() -> None:
    code = "import sys, yota_py; before = 'yota_py.testing' in sys.modules; from yota_py import check_grads"
    run = subprocess.run([sys.executable, "-c", f"{code}; print(before, check_grads.__module__)"],
                         capture_output=True, text=True, check=True)  # fmt: skip
    assert run.stdout.split() == ["False", "yota_py.testing.checks"]


def test_examples_of_public_functions_exist() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    functions = [name for name in yota_py.__all__ if inspect.isfunction(getattr(yota_py, name))]
    without = [name for name in functions if not finder.find(getattr(yota_py, name), name)[0].examples]
    assert without == ["patch"]  # which changes a library for good: docs/extending.md has one


def test_a_checkout_that_is_not_installed_says_what_to_do() -> None:
    code = f"""
import sys
sys.meta_path = [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "") + str(f)]
sys.path.insert(0, {str(ROOT)!r})
import yota_py
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: yota_py is not installed") and last.endswith("pip install -e ."), run.stderr
    assert str(ROOT) in last and "circular" not in run.stderr
