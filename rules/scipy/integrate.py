"""Integrals of samples in ``scipy.integrate``: SciPy's own sums are traced through."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import integrate
from scipy.integrate import _quadrature

from yota_py.registry.composites import expanded
from yota_py.registry.patches import open_to_traces, patch, through
from yota_py.registry.registry import Cases, case

from . import namespaces as namespaces  # what the code that is traced through asks for

open_to_traces(_quadrature)


def _of_samples(name: str, cases: Cases) -> None:
    expanded(patch(integrate, name), cases=cases)(through(getattr(integrate, name)))


_of_samples("trapezoid", lambda s: [
    case(s(5)), case(s(1)), case(s(0)), case(s(2, 3), axis=0), case(s(3, 4), s(4)), case(s(3, 4), s(3, 4), 1.0, 1),
    case(s(4), dx=0.5), case(s(4, dtype=complex), s(4)), case([1.0, 2.0, 4.0], [0.0, 1.0, 3.0]),
    case(s(4, dtype="f4"), dx=0.5), case(s(4, 3).T, s(3), 1.0, 0), case(s(4), s(4)), case(s(3), None, s.number()),
])  # fmt: skip
_of_samples("cumulative_trapezoid", lambda s: [
    case(s(5)), case(s(1)), case(s(3, 2), axis=0, initial=0), case(s(3, 4), s(4)), case(s(3, 4), s(3, 4), 1.0, 1, 0),
    case(s(4), None, 0.5), case(s(3, dtype=complex), s(3)), case([1.0, 2.0, 4.0], [0.0, 1.0, 3.0], initial=0),
    case(s(3), None, s.number()), case(s(3, dtype="f4")),
])  # fmt: skip
_of_samples("simpson", lambda s: [
    case(s(5)), case(s(4)), case(s(2)), case(s(3, 2), axis=0), case(s(2, 4), dx=0.5), case(s(4), s(4)),
    case([1.0, 2.0, 4.0]),
    case(s(4, dtype="f4")), case(s(3, dtype=complex)), case(s(2), s(2)), case(s(3), s(3)),
])
_of_samples("cumulative_simpson", lambda s: [
    case(s(5)), case(s(2)), case(s(2, 4), axis=0), case(s(3, 4), initial=s(3, 1)), case(s(2, 3), dx=s(2, 1, low=0.5)),
    case(s(5), x=np.arange(5.0) ** 2), case(s(3, dtype="f4")),
])
_of_samples("romb", lambda s: [
    case(s(5)), case(s(2)), case(s(3, 2), axis=0), case(s(2, 3), 0.5), case(s(3, dtype=complex)),
    case([1.0, 2.0, 4.0]), case(s(3), s.number()),
])  # fmt: skip


@expanded(patch(integrate, "fixed_quad"), cases=lambda s: [
    case(np.cos, s.number(), 2.0), case(lambda t, k: np.exp(k * t), 0.0, s.number(), (0.5,), 3), case(np.sin, 1.0, 1.0),
])  # fmt: skip
def _fixed_quad(func: Any, a: Any, b: Any, args: tuple[Any, ...] = (), n: int = 5) -> tuple[Any, None]:
    """Gauss-Legendre quadrature: the nodes are constants."""
    nodes, weights = _quadrature._cached_roots_legendre(n)
    if np.isinf(a) or np.isinf(b):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    y = (b - a) * (np.real(nodes) + 1) / 2.0 + a
    return (b - a) / 2.0 * np.sum(weights * func(y, *args), axis=-1), None
