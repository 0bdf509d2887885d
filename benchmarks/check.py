"""Are the results right: every library against a reference, the reference against finite differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from benchmarks.peers import map_leaves
from benchmarks.workloads import Args, Workload

RTOL = 1e-7  # between libraries, relative to the largest entry of each array
STEP = 1e-5  # of the central difference
STEP_RTOL = 1e-4  # of the directional derivative, relative to the gradient's norm


class WrongResultError(Exception):
    """A result that is not what the reference gives; the message says how."""


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of a result or of arguments, each with where it stands."""
    if isinstance(tree, (list, tuple)):
        for i, item in enumerate(tree):
            yield from leaves(item, f"{path}[{i}]")
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from leaves(item, f"{path}[{key!r}]")
    else:
        yield path, tree


def difference(actual: Any, expected: Any) -> float:
    """The largest difference of two results, each array relative to its largest entry.

    Raises:
        WrongResultError: structure, shape or dtype differ, or an entry is not finite.
    """
    ours, theirs = dict(leaves(actual)), dict(leaves(expected))
    if ours.keys() != theirs.keys():
        raise WrongResultError(f"structure {sorted(ours)} instead of {sorted(theirs)}")
    worst = 0.0
    for path, leaf in ours.items():
        a, b = numpy.asarray(leaf), numpy.asarray(theirs[path])
        if a.shape != b.shape or a.dtype != b.dtype:
            raise WrongResultError(
                f"result{path}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
            )
        if not numpy.isfinite(a).all():
            raise WrongResultError(f"result{path}: not finite")
        gap, largest = float(numpy.max(numpy.abs(a - b))), float(numpy.max(numpy.abs(b)))
        worst = max(worst, gap / largest if largest else gap)
    return worst


def directional_error(workload: Workload, args: Args, gradients: Any) -> float:
    """The gradient along one random direction against a central difference, relative to its norm."""
    primal = workload.function(numpy)

    def shifted(step: float) -> list[Any]:
        rng = numpy.random.default_rng(0)  # the same direction at every call

        def move(leaf: Any) -> Any:
            return leaf + step * rng.standard_normal(numpy.shape(leaf))

        return [map_leaves(move, a) if i in workload.positions else a for i, a in enumerate(args)]

    rng, along, square = numpy.random.default_rng(0), 0.0, 0.0
    for _, leaf in leaves(gradients):
        along += float(numpy.sum(leaf * rng.standard_normal(numpy.shape(leaf))))
        square += float(numpy.sum(numpy.square(leaf)))
    numeric = float(primal(*shifted(STEP)) - primal(*shifted(-STEP))) / (2 * STEP)
    return float(abs(numeric - along) / numpy.sqrt(square))
