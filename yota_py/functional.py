"""In-place operations as functions of values: what an assignment becomes on a tape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .dispatch import dispatching


@dispatching
def setitem(x: Any, index: Any, value: Any) -> Any:
    """A copy of ``x`` after ``x[index] = value``."""
    out = np.array(x)
    out[index] = value
    return out


@dispatching
def set_view(
    x: Any, value: Any, view: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """A copy of ``x`` after ``view(x, *args, **kwargs)[...] = value``, for a function that gives a view of ``x``."""
    out = np.array(x)
    view(out, *args, **kwargs)[...] = value
    return out
