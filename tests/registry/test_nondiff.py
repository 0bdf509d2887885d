"""What is declared to have no derivative is constant wherever it is continuous: compared with itself nearby."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.special  # noqa: F401 - its rules are registered once it is imported
import yota_py.rules  # noqa: F401 - registers the rules
from entries import called
from numpy.testing import assert_allclose

from yota_py import config, gradient
from yota_py.base.types import is_inexact
from yota_py.registry.registry import Case, Cases, Primitive, Sample, case, primitives
from yota_py.tape.trees import flatten, unflatten
from yota_py.testing.finite import leaves_of, moved, random_like

# Its elements are what happened to be in memory, so it has no cases where it is registered.
UNSET: dict[Any, Cases] = {np.empty_like: lambda s: [case(s(3, 4)), case(s(3), dtype=np.float32), case(s.number())]}
NEAR = ((1e-9, 2e-9), (-1e-9, -2e-9))  # on either side of a jump, if there is one


def without_derivative() -> list[Primitive]:
    mine = [entry for entry in primitives() if not (getattr(entry.fn, "__module__", None) or "").startswith("test_")]
    on_purpose = re.compile("stop_gradient|assert")  # the one says so, the others give nothing
    # What SciPy's rules call constant besides is the known value of something whose derivative they give.
    tested = [entry for entry in mine if entry.cases or not called(entry).startswith(("scipy", "yota_py.rules.scipy"))]
    return [entry for entry in tested if entry.nondiff and not on_purpose.match(entry.name)]


def cases_of(entry: Primitive, seed: int) -> list[Case]:
    return [case for draw in entry.cases or [UNSET[entry.fn]] for case in draw(Sample(seed))]


def outcome(entry: Primitive, args: Any, kwargs: Any) -> list[Any]:
    """The leaves of the result: numbers and arrays, or what else it is."""
    with np.errstate(all="ignore"):
        leaves = flatten(entry.fn(*args, **kwargs))[0]
    return [np.shape(leaf) for leaf in leaves] if entry.fn in UNSET else leaves


def depends(entry: Primitive, case: Case, rng: np.random.Generator) -> str:
    """The argument that the result depends on smoothly; empty if there is none."""
    leaves, spec = flatten((case.args, dict(case.kwargs)))
    for i, (path, leaf) in enumerate(leaves_of((case.args, dict(case.kwargs)))):
        if not is_inexact(leaf):
            continue
        v, scale = random_like(leaf, rng), 1 if np.finfo(np.asarray(leaf).dtype).bits >= 64 else 1e4

        def at(h: float) -> list[Any]:
            xs = [*leaves[:i], moved(leaf, v, h * scale), *leaves[i + 1 :]]  # noqa: B023
            return outcome(entry, *unflatten(spec, xs))

        for near, far in NEAR:
            if not all(np.array_equal(a, b) for a, b in zip(at(near), at(far), strict=True)):
                return f"{path}: {at(near)} at {near}, {at(far)} at {far} from {leaf!r} along {v!r}"
    return ""


@pytest.mark.parametrize("entry", without_derivative(), ids=lambda entry: entry.name)
def test_constant_nearby(entry: Primitive) -> None:
    found = [depends(entry, case, np.random.default_rng(1)) for seed in range(3) for case in cases_of(entry, seed)]
    assert found and not any(found), next(filter(None, found))


def test_a_function_that_is_not_constant_is_found() -> None:
    wrong = Primitive(np.histogram_bin_edges, cases=[lambda s: [case(s(5), 3)]], nondiff=True)
    assert depends(wrong, cases_of(wrong, 0)[0], np.random.default_rng(1))


@pytest.mark.parametrize("compiled", ["never", "always"])
def test_edges_of_a_histogram(compiled: Any) -> None:
    config.compile = compiled
    slope = gradient(lambda x: np.histogram_bin_edges(x, 4)[1])
    for x in (np.array([1.0, 5.0, 2.0]), np.array([3.0, 1.0, 2.0]), np.array([0.0, 0.5, 4.0])):
        want = np.where(x == x.min(), 0.75, np.where(x == x.max(), 0.25, 0.0))
        assert_allclose(slope(x), want)
    ends = gradient(lambda low, high: np.histogram_bin_edges(np.arange(9.0), 4, (low, high))[1], (0, 1))
    assert_allclose(ends(0.0, 2.0), (0.75, 0.25))
    assert_allclose(gradient(lambda e: np.histogram_bin_edges(np.arange(9.0), e)[1])(np.array([0.0, 1.0])), [0.0, 1.0])
