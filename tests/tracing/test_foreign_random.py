"""Random programs over operands of many types: as plain code says, by finite differences, or an error."""

from __future__ import annotations

import operator
import warnings
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
import xarray as xr
from caching import Box
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sets import SEQUENCES, examples

from yota_py import grad, jit

SHUFFLED = [2, 0, 1]
# A standard deviation of equal numbers is zero or one rounding, as they are summed in pairs or, as objects, in a row.
ROUNDING = 1e-12


class Vector:
    """A class of a user's own, for whom numbers are numbers."""

    def __init__(self, parts: Any) -> None:
        self.parts = parts

    def __mul__(self, other: Any) -> Any:
        return sum(part * other for part in self.parts)

    __rmul__ = __mul__


class Deferring(Vector):
    """One that NumPy's arrays ask first."""

    __array_ufunc__ = None


# What is made of three numbers.
TYPES: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda v: v, "Series": pd.Series, "shuffled": lambda v: pd.Series(v, index=SHUFFLED),
    "named": lambda v: pd.Series(v, index=list("abc")), "frame": lambda v: pd.DataFrame(np.outer(v, v)),
    "columns": lambda v: pd.DataFrame(np.outer(v, v), columns=SHUFFLED), "Index": pd.Index,
    "float32": lambda v: pd.Series(v, dtype=np.float32), "gaps": lambda v: pd.Series([np.nan, *v[1:]]),
    "nullable": lambda v: pd.Series(v, dtype="Float64"), "objects": lambda v: pd.Series(list(v), dtype=object),
    "integers": lambda v: pd.Series(v.astype(int)), "DataArray": lambda v: xr.DataArray(v, dims="x"),
    "other dimension": lambda v: xr.DataArray(v, dims="y", coords={"y": SHUFFLED}),
    "grid": lambda v: xr.DataArray(np.outer(v, v), dims=("x", "y")),
    "turned": lambda v: xr.DataArray(np.outer(v, v + 1), dims=("y", "x")),
    "csr": lambda v: sp.csr_matrix(np.outer(v, v)), "csc array": lambda v: sp.csc_array(np.diag(v)),
    "coo": lambda v: sp.coo_array(np.outer(v, v)), "tensor": torch.as_tensor,
    "masked": lambda v: np.ma.array(v, mask=[False, True, False]), "matrix": lambda v: np.outer(v, v).view(np.matrix),
    "recarray": lambda v: v.view(np.recarray), "object array": lambda v: v.astype(object),
    "Fraction": lambda v: Fraction(float(v[0])), "list": list, "number": lambda v: float(v[0]),
    "vector": Vector, "deferring": Deferring,
}  # fmt: skip
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul, operator.mul, operator.lt]
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "logaddexp": np.logaddexp, "multiply": np.multiply, "dot": np.dot, "hypot": np.hypot,
    "where": lambda a, b: np.where(a > 1, b, 0.0), "maximum": np.maximum,
    "concatenate": lambda a, b: np.concatenate([a, b]),
    "stack": lambda a, b: np.stack([a, b]), "exp": lambda a, b: np.exp(-a * b), "mask": lambda a, b: a[b > 1.2],
    "method dot": lambda a, b: a.dot(b), "outer": np.outer, "isclose": lambda a, b: a * np.isclose(a, b),
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "same": lambda a: a, "neg": operator.neg, "sin": np.sin, "T": lambda a: a.T, "abs": abs, "item": lambda a: a[0],
    "last": lambda a: a[-1], "slice": lambda a: a[1:], "to_numpy": lambda a: a.to_numpy(), "cumsum": np.cumsum,
    "list": lambda a: np.array(list(a)), "asarray": np.asarray, "clip": lambda a: np.clip(a, 0.1, 2.0),
    "method cumsum": lambda a: a.cumsum(), "round trip": lambda a: np.asarray(a).reshape(-1),
}  # fmt: skip
ENDS: dict[str, Callable[[Any], Any]] = {
    "np.sum": np.sum, "sum": lambda a: a.sum(), "mean": lambda a: a.mean(), "np.mean": np.mean,
    "std": lambda a: a.std(),
    "np.std": np.std, "var": lambda a: a.var(ddof=0), "max": lambda a: a.max(), "np.min": np.min,
    "first": lambda a: np.ravel(a)[0], "norm": np.linalg.norm, "item": lambda a: a.item(),
    "squares": lambda a: np.sum(a**2), "product": lambda a: a @ a, "total": sum, "numpy": lambda a: np.sum(a.numpy()),
}  # fmt: skip
outcomes: Counter[str] = Counter()

_steps = st.tuples(
    st.sampled_from([*range(len(OPERATORS)), *FUNCTIONS]), st.sampled_from(sorted(TYPES)), st.booleans(),
    st.sampled_from(sorted(UNARY)),
)  # fmt: skip


def program(steps: list[tuple[Any, str, bool, str]], end: str, data: Box) -> Callable[[Any], Any]:
    """The function of these steps, each with an operand of ``data``."""

    def f(w: Any) -> Any:
        value = w
        for number, (name, _, swapped, then) in enumerate(steps):
            operand = data.operands[number]
            fn = OPERATORS[name] if isinstance(name, int) else FUNCTIONS[name]
            value = UNARY[then](fn(operand, value) if swapped else fn(value, operand))
        return ENDS[end](value)

    return f


def number(value: Any) -> float | None:
    """A result that is a number, of whatever type."""
    return float(value) if np.ndim(value) == 0 and np.asarray(value).dtype.kind == "f" else None


def accuracy(plain: Any) -> float:
    """How far a result may be from it, relatively: xarray's mean of float16 is rounded otherwise than NumPy's."""
    return 2e-3 if np.asarray(plain).dtype == np.float16 else 1e-9


def slope(f: Callable[[Any], Any], w: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """Differences to one side."""
    return np.array([(f(w + h * e) - f(w)) / h for e in np.eye(w.size)], float)


def test_operands_of_many_types() -> None:
    """Of all programs some are differentiated, so that something is compared."""
    outcomes.clear()
    compare()
    assert outcomes["right"] >= 10, outcomes


@settings(max_examples=examples(30), deadline=None, derandomize=not SEQUENCES)
@given(st.lists(_steps, min_size=1, max_size=3), st.sampled_from(sorted(ENDS)), st.booleans())
def compare(steps: list[tuple[Any, str, bool, str]], end: str, at_zero: bool) -> None:
    """Three calls, with other operands at the second one; the point is one where many functions agree, or not."""
    data = Box(operands=[])
    f = program(steps, end, data)
    step = jit(f)
    # no poles on the way, and no jumps
    at_zero = at_zero and not {name for name, *_ in steps} & {OPERATORS.index(operator.truediv), "isclose"}
    rng = np.random.default_rng(len(steps))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for call in range(3):
            if call < 2:
                data.operands = [TYPES[kind](rng.uniform(0.5, 2.5, 3)) for _, kind, _, _ in steps]
            w = np.zeros(3) if at_zero and not call else rng.uniform(0.3, 1.7, 3)
            try:
                plain = f(w.copy())
            except Exception as error:
                plain = error
            check(f, w, plain, {kind for _, kind, _, _ in steps}, deviation=end in ("std", "np.std", "var"))
            try:
                compiled = step(w.copy())
            except Exception:  # any: what the plain function raises too
                assert isinstance(plain, Exception)
                continue
            assert type(compiled) is type(plain) or number(plain) is not None, (type(compiled), type(plain))
            if number(plain) is not None:
                assert_allclose(float(compiled), number(plain), rtol=1e-9)


def check(f: Callable[[Any], Any], w: np.ndarray, plain: Any, kinds: set[str], *, deviation: bool) -> None:
    """Value and gradient, or an error; of a ``deviation``, nothing may be left but rounding."""
    want = number(plain)
    try:
        value, (g,) = grad(f, w)
    except Exception:  # any: refused, in all ways
        outcomes["error" if want is not None else "both"] += 1
        return
    assert want is not None or "Fraction" in kinds, f"plain code gives {plain!r}, and grad {value!r}"
    if want is None:  # NumPy makes objects of fractions, of which many functions know nothing
        return
    # The sum of an array and a Fraction is one of Python's floats to NumPy, which float32 rounds; to grad, of float64.
    rounded = {"Fraction", "float32"} <= kinds
    rtol = 1e-6 if rounded else accuracy(plain)
    assert rounded or np.asarray(value).dtype == np.asarray(plain).dtype
    assert_allclose(float(value), want, rtol=rtol, atol=ROUNDING if deviation else 0.0)
    assert np.shape(g) == w.shape
    outcomes["right"] += 1
    if not np.isfinite(want) or 0 < max(abs(want), abs(value)) < ROUNDING:  # what comes of rounding has any slope
        return
    h = 1e-3 if rounded else 1e-6
    left, right = slope(f, w, -h), slope(f, w, h)
    smooth = np.isfinite(left) & np.isclose(left, right, rtol=1e-3, atol=1e-3)
    assert_allclose(g[smooth], left[smooth], rtol=1e-2, atol=1e-2)
