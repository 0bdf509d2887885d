"""Functions that draw random numbers, beside themselves: the same numbers, and generators in the same states."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

from yota_py import config, explain, jit, value_and_grad
from yota_py.base.generators import GENERATORS, NUMPYS, PYTHONS, put_back, state_of

CALLS = 5


@contextmanager
def settings(**options: Any) -> Iterator[None]:
    """These settings, for the time of a block."""
    before = {name: getattr(config, name) for name in options}
    try:
        for name, value in options.items():
            setattr(config, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def states(*more: Any) -> list[str]:
    """Those of the generators that all share, and of others."""
    return [repr(state_of(g)) for g in (NUMPYS, PYTHONS, *more)]


def same_draws(
    f: Callable[..., Any], *args: Any, calls: int = CALLS, compiled: int | range | None = None, whole: bool = False,
    shared: Callable[[], list[Any]] = list, **options: Any,
) -> None:  # fmt: skip
    """Call ``value_and_grad(f)`` (of ``f`` itself, if it is ``whole``, what ``jit`` makes) and ``f`` as often as said,
    each time with other numbers, and compare values and what states generators are left in, those in ``shared()`` too.
    ``compiled`` is how many of the calls a program has to serve, by default all but the first."""
    transformed = jit(f) if whole else value_and_grad(f)
    with settings(**({"compile": "always", "check": True} | options)):
        for call in range(calls):
            given = [x + 0.25 * call if isinstance(x, float | np.ndarray) else x for x in args]
            generators = [x for x in (*given, *shared()) if isinstance(x, GENERATORS)]
            np.random.seed(call)
            random.seed(call)
            before = [state_of(g) for g in generators]
            want = f(*given)
            after = states(*generators)
            gradient = []
            for way in (transformed, reference(f)) if not whole else (transformed,):
                np.random.seed(call)
                random.seed(call)
                for generator, state in zip(generators, before, strict=True):
                    put_back(generator, state)
                result = way(*given)
                value, *rest = (result,) if whole else result
                assert_allclose(value, want, rtol=1e-12, atol=1e-12)
                assert states(*generators) == after, "generators are left in other states"
                gradient.append(rest)
            for other in gradient[1:]:
                np.testing.assert_equal(np.shape(gradient[0][0]), np.shape(other[0]))
                assert_allclose(gradient[0][0], other[0], rtol=1e-11, atol=1e-12)
    wanted = calls - 1 if compiled is None else compiled
    fits = served(transformed) in (wanted if isinstance(wanted, range) else (wanted,))
    assert fits, f"compiled code has to run {wanted} times\n{explain(transformed)}"


def reference(f: Callable[..., Any]) -> Callable[..., Any]:
    """Value and gradient without any program."""

    def interpreted(*args: Any) -> Any:
        with settings(compile="never"):
            return value_and_grad(f)(*args)

    return interpreted


def served(transformed: Callable[..., Any]) -> int:
    """How many calls programs have served."""
    return sum(known.calls for known in explain(transformed))
