"""Test inputs that fit most elementwise functions: one domain ``(low, high)`` per argument."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from yota_py.registry.registry import Case, Cases, Sample, case

Domain = tuple[float, float]

# Shapes of two arguments: equal, broadcast either way and both ways, 0-d, size 1, empty.
_PAIRS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (1, 4)), ((), (3,)), ((1,), (3,)), ((), ()),
    ((0, 3), (1, 3)),
]  # fmt: skip


def arrays(*domains: Domain, complex: bool = False) -> Cases:
    """Arrays, scalars, Python floats, float32 and empty arrays, and every broadcast of two or three arguments."""

    def draw(s: Sample) -> Iterable[Case]:
        if len(domains) == 1:
            yield from _unary(s, domains[0], complex)
        elif len(domains) == 2:
            yield from _binary(s, domains[0], domains[1], complex)
        else:
            yield case(*(s(3, 4, low=a, high=b) for a, b in domains))
            yield case(*(s(*(3, 4)[i % 2 :], low=a, high=b) for i, (a, b) in enumerate(domains)))
            yield case(*(s.number(a, b) for a, b in domains))

    return draw


def numbers(*domains: Domain) -> Cases:
    """Python floats only."""
    return lambda s: [case(*(s.number(a, b) for a, b in domains)) for _ in range(2)]


def _unary(s: Sample, domain: Domain, complex: bool) -> Iterable[Case]:
    low, high = domain
    for shape in [(3, 4), (), (1,), (0,)]:
        yield case(s(*shape, low=low, high=high))
    yield case(s(4, 3, low=low, high=high).T)
    yield case(s(5, low=low, high=high, dtype=np.float32))
    yield case(s.number(low, high))
    yield case(np.float64(s.number(low, high)))
    if complex:
        yield case(s(3, low=low, high=high, dtype=np.complex128))
        yield case(s(low=low, high=high, dtype=np.complex128)[()])
        yield case(s(2, low=low, high=high, dtype=np.complex64))


def _binary(s: Sample, first: Domain, second: Domain, complex: bool) -> Iterable[Case]:
    a, b = {"low": first[0], "high": first[1]}, {"low": second[0], "high": second[1]}
    for left, right in _PAIRS:
        yield case(s(*left, **a), s(*right, **b))
    yield case(s(3, **a), s.number(*second))
    yield case(s.number(*first), s(3, **b))
    yield case(s.number(*first), s.number(*second))
    yield case(s(3, dtype=np.float32, **a), s(3, dtype=np.float32, **b))
    yield case(s(2, 3, dtype=np.float32, **a), s.number(*second))
    yield case(s(3, dtype=np.float32, **a), s(3, **b))
    if complex:
        for one, other in [("c16", "c16"), ("c16", "f8"), ("f8", "c16")]:
            yield case(s(2, 3, dtype=one, **a), s(3, dtype=other, **b))
