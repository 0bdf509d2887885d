"""``np.random``'s functions that arrange an array anew: of a traced one, the positions are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..registry.patches import patch
from .mutation import overwrite
from .tracer import Tracer

_random: Any = np.random
_shuffle, _permutation, _choice = _random.shuffle, _random.permutation, _random.choice


def _taken(x: Any, draw: Callable[[int], Any], axis: int = 0) -> Any:
    """The elements of ``x`` at the positions that are drawn among so many."""
    at = np.asarray(draw(x.shape[axis]))
    where = x._ledger.tracer(x._ledger.constant(at)) if at.ndim else int(at)
    return np.take(x, where, axis=axis)


def _shuffled(x: Any) -> None:
    if not isinstance(x, Tracer) or not x.ndim:
        _shuffle(x)
        return

    def draw(n: int) -> Any:
        at = np.arange(n)
        _shuffle(at)
        return at

    overwrite(x, _taken(x, draw))


def _permuted(x: Any) -> Any:
    return _taken(x, _permutation) if isinstance(x, Tracer) and np.ndim(x) else _permutation(x)


def _chosen(a: Any, size: Any = None, replace: Any = True, p: Any = None) -> Any:
    if not isinstance(a, Tracer) or np.ndim(a) != 1:
        return _choice(a, size, replace, p)
    return _taken(a, lambda n: _choice(n, size, replace, p))


for _name, _stand_in in (("shuffle", _shuffled), ("permutation", _permuted), ("choice", _chosen)):
    patch(np.random, _name, _stand_in)
