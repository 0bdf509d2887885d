"""What all tests share."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest
import roads

from yota_py import config
from yota_py.cache import functions as cache
from yota_py.tracing.traces import levels

_kept: list[str] = []  # the directory that this process has made


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sets", type=int, help="run each test with so many of its sets of parameters, drawn by its name "
                                              "and the version of Python; in tests/rules with all of them, once each")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where all has run with other versions already, not all combinations run again."""
    count = config.getoption("--sets")
    if count is None:
        return
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    taken: set[pytest.Item] = set()
    for name, its in by_test.items():
        drawn = random.Random(f"{name} {sys.version_info[:2]}")
        if name.startswith("tests/rules"):
            drawn.shuffle(its)
            taken.update({_without_seed(item): item for item in its}.values())
        else:
            taken.update(its if len(its) <= count else drawn.sample(its, count))
    config.hook.pytest_deselected(items=[item for item in items if item not in taken])
    items[:] = [item for item in items if item in taken]


def _without_seed(item: pytest.Item) -> str:
    """The name of a test and its parameters, but for the number of a draw."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return item.nodeid.rpartition("-")[0] if "seed" in parameters else item.nodeid


def pytest_configure() -> None:
    """Machine code is kept for one run of the tests, and shared by its processes."""
    if "YOTA_CACHE_DIR" not in os.environ:
        _kept.append(tempfile.mkdtemp(prefix="yota-py-tests-"))
        os.environ["YOTA_CACHE_DIR"] = _kept[0]


def pytest_unconfigure() -> None:
    """And removed."""
    for directory in _kept:
        shutil.rmtree(directory, ignore_errors=True)


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
