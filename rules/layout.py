"""What depends on how arrays lie in memory: it is asked for while a trace runs, and another call relies on the answer.

The orders "K" and "A" stand for an order of axes, with which a call is recorded instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from yota_py.base.dispatch import is_traced
from yota_py.registry import writes as functional
from yota_py.registry.registry import case, nondiff, primitive


@primitive
def lies_in(a: Any, order: str) -> bool:
    """Whether the elements stand in memory in this order, "C" or "F"."""
    return bool(a.flags["C_CONTIGUOUS" if order == "C" else "F_CONTIGUOUS"])


memory_axes = primitive(functional.memory_axes)
nondiff(lies_in, immediate=True, of_layout=True, cases=lambda s: [case(s(3, 4), "C"), case(s(3, 4), "F")])
nondiff(memory_axes, immediate=True, of_layout=True, cases=lambda s: [case(s(3, 4)), case(s(2, 3, 4))])
for _query in (np.may_share_memory, np.shares_memory):
    nondiff(_query, immediate=True, of_layout=True, cases=lambda s: [case(s(3), s(3))])


def order_of(order: Any) -> str | None:
    """An order in capitals; ``None`` stands for the default."""
    return order.upper() if isinstance(order, str) else None


def either_order(a: Any) -> Any:
    """What the order "A" is for an array: "F" if it lies so, and not in C order as well."""
    return "F" if np.ndim(a) > 1 and not lies_in(a, "C") and lies_in(a, "F") else "C"


def reshape_as_it_lies(a: Any, shape: Any, order: Any = "C", **options: Any) -> Any:
    if order_of(order) != "A" or not is_traced(a):
        return NotImplemented
    return np.reshape(a, shape, either_order(a), **options)


def ravel_as_it_lies(a: Any, order: Any = "C") -> Any:
    if (wanted := order_of(order)) not in ("A", "K") or not is_traced(a):
        return NotImplemented
    if wanted == "A" or np.ndim(a) < 2:
        return np.ravel(a, either_order(a))
    axes = memory_axes(a)
    return np.ravel(a if axes == tuple(range(a.ndim)) else np.transpose(a, axes))
