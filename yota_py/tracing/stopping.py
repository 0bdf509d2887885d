"""``stop_gradient``: values without their derivatives."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from ..base.containers import mapped
from ..base.dispatch import dispatching, find_held, is_traced
from ..errors import LostDerivativeError
from ..registry.kernels import Map
from ..registry.registry import nondiff
from ..tape.operations import user_site
from .calls import kept_in

T = TypeVar("T")


def _stopped(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


_stopped.__name__ = _stopped.__qualname__ = "stop_gradient"  # on tapes
_constant = nondiff(dispatching(_stopped), kernel=Map())


def stop_gradient(tree: T) -> T:
    """The values of a tree, through which no derivative flows, at any nesting of gradients.

    ``tree`` is a number, an array, or a container of such; the result has the same structure, shapes and dtypes, and
    arrays in it are new. Inside of a gradient it may be used as plain numbers are: ``float(stop_gradient(x))``.
    Compiled functions compute it at each call.

    Raises ``LostDerivativeError`` for functions and objects that hold traced values: pass the values.

    >>> from yota_py import grad
    >>> grad(lambda x: x * stop_gradient(x), 3.0)
    (9.0, (3.0,))
    """
    if is_traced(tree) or isinstance(tree, np.ndarray):
        return _constant(tree)  # type: ignore[no-any-return]
    if find_held((tree,)) is not None:
        raise LostDerivativeError(f"{user_site()}: stop_gradient gets {kept_in(tree)} that holds a traced value, and "
                                  "cannot make another one. Pass the values: stop_gradient(x)")
    return mapped(stop_gradient, tree)  # type: ignore[no-any-return]
