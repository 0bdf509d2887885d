"""What all tests share."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import roads
import sets

from yota_py import config
from yota_py.cache import functions as cache
from yota_py.tracing.traces import levels

_kept: list[str] = []  # the directory that this process has made


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--versions", choices=["lowest", "newest"],
        help="of Python and libraries: with the newest, run tests with the sets of parameters that do not run without "
             "this option; with the lowest, every second test with one set, and those in tests/rules with half of them",
    )  # fmt: skip


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Tests that find nothing else with other versions run with one."""
    versions = config.getoption("versions")
    return True if versions and sets.is_left_out(collection_path, versions) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Not all combinations of parameters run, unless tests are named, or ``make stress`` runs them."""
    if config.getoption("keyword") or any("::" in arg for arg in config.args):
        return
    taken: set[pytest.Item] = set()
    for name, its in sets.by_test(items).items():
        taken.update(its if sets.SEQUENCES else sets.taken(name, its, config.getoption("versions")))
    config.hook.pytest_deselected(items=[item for item in items if item not in taken])
    items[:] = [item for item in items if item in taken]


def pytest_configure() -> None:
    """Machine code is kept for one run of the tests, and shared by its processes; and those that tests start need not
    compile the package anew."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if "YOTA_CACHE_DIR" not in os.environ:
        _kept.append(tempfile.mkdtemp(prefix="yota-py-tests-"))
        os.environ["YOTA_CACHE_DIR"] = _kept[0]


def pytest_unconfigure() -> None:
    """And removed."""
    for directory in _kept:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def _what_is_left() -> None:
    """The garbage collector does not look at what the tests of other modules have left, nor at libraries."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    """Tests do not see one another's programs."""
    cache.clear_caches()
    yield
    cache.clear_caches()


@pytest.fixture(autouse=True)
def _own_traces() -> None:
    """What a test leaves behind is told from what others have left."""
    roads.first_level[0] = next(levels)


@pytest.fixture(autouse=True)
def _compiled_at_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Functions are compiled at their first call, and not audited, so that tests see what compiled code gives;
    exceptions are marked."""
    config.compile = "auto" if request.node.get_closest_marker("default_policy") else "always"
    config.audit = "sampled" if request.node.get_closest_marker("audited") else "off"
    config.background = False
    yield
    config.compile, config.check, config.audit = "auto", False, "sampled"


@pytest.fixture(params=["always", "audited", "auto"])
def every_policy(request: pytest.FixtureRequest, _compiled_at_once: None) -> None:
    """Compiled at once, the same and audited, and as by default."""
    config.compile = "auto" if request.param == "auto" else "always"
    config.audit = "always" if request.param == "audited" else "off"
