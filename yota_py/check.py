"""Whether a compiled program and a fresh trace agree: what ``config.check`` asks at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from .errors import CheckError
from .operations import user_site
from .show import name_of
from .trees import flatten

# Compiled sums are added in another order: what rounding may differ by, of the largest element, by the size of a number
# in bytes. The narrowest one among the results tells in which precision all of them may have been computed. Where terms
# cancel, a number is small beside those it was computed from: beside other results, it may differ by a little more.
_TOLERANCES = {2: 1e-1, 4: 1e-3, 8: 1e-6}


def compare(compiled: Any, fresh: Any, f: Callable[..., Any]) -> None:
    """Raises ``CheckError`` where results differ in structure, type, shape or, by more than rounding, in value."""
    have, spec = flatten(compiled)
    want, fresh_spec = flatten(fresh)
    if spec != fresh_spec:
        raise CheckError(f"{user_site()}: {name_of(f)}: compiled code gives {spec}, a fresh trace {fresh_spec}")
    dtypes = [x.dtype for x in want if isinstance(x, np.ndarray | np.generic)]
    tolerance = _TOLERANCES.get(min((d.itemsize >> (d.kind == "c") for d in dtypes if d.kind in "fc"), default=8), 1e-6)
    slack = tolerance**1.5 * max(map(_largest, want), default=0.0)
    for path, a, b in zip(optree.treespec_paths(spec), have, want, strict=True):
        if (difference := _difference(a, b, tolerance, slack)) is not None:
            where = "".join(f"[{key!r}]" for key in path)
            raise CheckError(
                f"{user_site()}: {name_of(f)}: the compiled program's result{where} {difference}. Please report it; "
                'until then, config.compile = "never" is right and slow'
            )


def _largest(x: Any) -> float:
    """The largest finite magnitude in a result."""
    values = np.asarray(x) if isinstance(x, np.ndarray | np.generic | float | complex) else np.zeros(0)
    finite = np.abs(values[np.isfinite(values)]) if values.dtype.kind in "fc" else values[:0]
    return float(np.max(finite, initial=0.0))


def _difference(a: Any, b: Any, tolerance: float, slack: float) -> str | None:
    if not isinstance(b, np.ndarray | np.generic | bool | int | float | complex):
        return None if a is b or a == b else f"is {a!r}, that of a fresh trace {b!r}"
    if type(a) is not type(b) and np.ndim(b) + np.ndim(a):
        return f"is a {type(a).__name__}, that of a fresh trace a {type(b).__name__}"
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"is {x.dtype}{list(x.shape)}, that of a fresh trace {y.dtype}{list(y.shape)}"
    if y.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            same = np.isclose(x, y, rtol=tolerance, atol=tolerance * _largest(y) + slack, equal_nan=True)
    else:
        same = x == y
    if np.all(same):
        return None
    at = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
    return f"is {np.atleast_1d(x)[at]!r} at {list(at)}, that of a fresh trace {np.atleast_1d(y)[at]!r}"
