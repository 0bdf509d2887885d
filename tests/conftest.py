"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from yota_py import cache, config


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    """Tests do not see one another's programs."""
    cache.clear_caches()
    yield
    cache.clear_caches()


@pytest.fixture(autouse=True)
def _compiled_at_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Functions are compiled at their first call, so that tests see compiled code; exceptions are marked."""
    config.compile = "auto" if request.node.get_closest_marker("default_policy") else "always"
    yield
    config.compile, config.check = "auto", False
