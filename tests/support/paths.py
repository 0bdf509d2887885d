"""Calls of a function that take other branches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from numpy.testing import assert_allclose

from yota_py import config, value_and_grad


def programs(gradients: Any) -> list[Any]:
    """Those that a gradient function has."""
    signatures = [signature for each in gradients.__yota_cache__.signatures.values() for signature in each]
    return [v.program for signature in signatures for v in signature.variants if v.program is not None]


def compare(f: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Compare value and gradients of calls, compiled, with what is interpreted; the programs."""
    gradients = value_and_grad(f)
    for args in calls:
        have = gradients(*args)
        config.compile = "never"
        want = gradients(*args)
        config.compile = "always"
        assert type(have[0]) is type(want[0])
        assert_allclose(have[0], want[0], rtol=1e-11, atol=1e-13)
        assert_allclose(have[1], want[1], rtol=1e-9, atol=1e-12)
    return programs(gradients)
