"""What tests of calls with effects share: a call compared with the function itself, on state of its own."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py.base.refusal import Refusal
from yota_py.cache.arguments import Structure
from yota_py.cache.step import make_step
from yota_py.capture.effects import perform
from yota_py.engine.compile import UncompilableError
from yota_py.errors import UntraceableError
from yota_py.tape.trees import flatten


def arrays_in(tree: Any) -> Iterator[np.ndarray]:
    """All arrays of a nest of containers and objects, in order."""
    if isinstance(tree, np.ndarray):
        yield tree
    elif isinstance(tree, tuple | list | deque):
        for item in tree:
            yield from arrays_in(item)
    elif isinstance(tree, dict):
        yield from arrays_in([*tree.values()])
    elif hasattr(tree, "__dict__") and not isinstance(tree, type):
        yield from arrays_in(vars(tree))


def sharing(tree: Any) -> list[tuple[int, int, bool]]:
    """Which arrays share memory, and whether they are the same object."""
    arrays = list(arrays_in(tree))
    bounds = [np.lib.array_utils.byte_bounds(a) for a in arrays]
    found = []
    before: list[int] = []  # whose memory may reach up to here
    for i in sorted(range(len(arrays)), key=lambda i: (bounds[i], i)):
        before = [j for j in before if bounds[j][1] >= bounds[i][0]]
        pairs = [(min(i, j), max(i, j)) for j in before]
        found += [(j, k, arrays[j] is arrays[k]) for j, k in pairs
                  if arrays[j] is arrays[k] or np.shares_memory(arrays[j], arrays[k])]  # fmt: skip
        before.append(i)
    return sorted(found)


def assert_same(have: Any, want: Any) -> None:
    """The same structure, types, shapes, and values up to rounding."""
    assert type(have) is type(want), (have, want)
    if isinstance(want, dict):
        assert list(have) == list(want)
        have, want = [*have.values()], [*want.values()]
    if isinstance(want, tuple | list | deque):
        assert len(have) == len(want)
        for a, b in zip(have, want, strict=True):
            assert_same(a, b)
    elif isinstance(want, np.ndarray | np.number | float | complex) and np.asarray(want).dtype.kind in "fciub":
        assert np.shape(have) == np.shape(want)
        assert np.asarray(have).dtype == np.asarray(want).dtype
        small = np.asarray(want).dtype.itemsize <= 4
        assert_allclose(have, want, rtol=1e-5 if small else 1e-12, atol=1e-6 if small else 1e-14)
    elif hasattr(want, "__dict__") and not isinstance(want, type | FunctionType):
        assert_same(vars(have), vars(want))
    elif isinstance(want, np.ndarray):
        assert np.array_equal(have, want)
    else:
        assert have == want


class Jitted:
    """The smallest cache: two calls performed, then the step as long as the guards hold."""

    def __init__(self) -> None:
        self.how: list[str] = []
        self.problem = ""
        self.step: Any = None

    def __call__(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.step is not None:
            result = self.step(f, args, kwargs, None)
            if not isinstance(result, Refusal):
                self.how.append("step")
                return result
        given = flatten((args, kwargs, None), objects=True)
        try:
            performance = perform(f, args, kwargs)
        except UntraceableError:
            self.how.append("plain")
            return f(*args, **kwargs)
        self.how.append("trace")
        self.step, self.problem = None, ""
        if isinstance(performance.recording.captures.guards.function()(f), Refusal):
            self.problem = "it changes what it reads"
        elif performance.problems:
            self.problem = performance.problems[0]
        else:
            try:
                structure = Structure(*given, performance.recording.positions.values(), objects=True)
                _, self.step = make_step(performance, structure)
            except UncompilableError as reason:
                self.problem = str(reason)
        return performance.result


Make = Callable[[], tuple[Callable[..., Any], Any]]


def check(make: Make, *calls: tuple[Any, ...], how: str = "step") -> Jitted:
    """Compare with the function itself, each on state of its own; the last of the calls must be served so."""
    jitted = Jitted()
    (f, state), (g, plain_state) = make(), make()
    for args in calls:
        given, plain_given = copy.deepcopy(args), copy.deepcopy(args)
        want, error = None, None
        try:
            want = g(*plain_given)
        except Exception as raised:
            error = raised
        if error is None:
            have = jitted(f, *given)
            assert_same(have, want)
        else:
            have = None
            with pytest.raises(type(error)) as caught:
                jitted(f, *given)
            assert str(caught.value) == str(error)
        assert_same(given, plain_given)
        assert_same(state, plain_state)
        assert sharing((have, given, state)) == sharing((want, plain_given, plain_state))
    assert jitted.how[-1:] == [how], (jitted.how, jitted.problem)
    return jitted


def stateless(f: Callable[..., Any]) -> Make:
    return lambda: (f, None)


def inputs(*shapes: tuple[int, ...], n: int = 4, dtype: Any = np.float64) -> list[tuple[Any, ...]]:
    """Arguments of several calls."""
    rng = np.random.default_rng(7)
    return [tuple(np.asarray(rng.normal(size=shape), dtype) for shape in shapes) for _ in range(n)]


def assign_shifted(x: Any) -> None:
    x[1:] = x[:-1]
