"""Objects of libraries that are made of traced values are what they are where a function returns or stores them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import interpolate, stats
from scipy import sparse as sp
from scipy.sparse import linalg as sla

from yota_py import grad, jacobian, jit, pullback, value_and_grad
from yota_py.errors import OutputError

M = sp.csr_matrix(np.diag([2.0, 3.0, 4.0]) + np.eye(3, k=1))
LU = sla.splu(M.tocsc())
MASKED = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False], fill_value=-7.0)
X = np.arange(5.0)
LOG, RNG = logging.getLogger("of the tests"), np.random.default_rng(0)

# What is made of a number, and arrays that tell what it is.
Made = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def stored_in(matrix: Any) -> Any:
    return matrix.toarray(), [matrix.format], [matrix.nnz]


def solving(lu: Any) -> Any:
    return [lu.solve(np.arange(3.0))]


def unmasked(array: Any) -> Any:
    return array.data[~array.mask], array.mask


OBJECTS: dict[str, Made] = {
    **{f"{cls.__name__}": (lambda k, cls=cls: cls(M) * k, stored_in) for cls in (
        sp.csr_matrix, sp.csc_array, sp.coo_matrix, sp.bsr_array, sp.dia_matrix)},
    "a sum": (lambda k: sp.csc_array(M) * k + sp.eye_array(3).tocsc(), stored_in),
    "made of numbers": (lambda k: sp.coo_array(([k, 2 * k, k], ([0, 2, 0], [1, 0, 1])), shape=(3, 3)), stored_in),
    "a solver": (lambda k: sla.factorized((M * k).tocsc()), lambda solve: [solve(np.arange(3.0))]),
    "factors": (lambda k: sla.splu((M * k).tocsc()), solving), "constant factors": (lambda k: LU, solving),
    "masked": (lambda k: MASKED * k, unmasked), "constant masked": (lambda k: MASKED, unmasked),
    "filled": (lambda k: np.ma.array([k, k], mask=[0, 1], fill_value=k), lambda x: [x.fill_value, x.filled()]),
    "made masked": (lambda k: np.ma.array([k, 2 * k], mask=[0, 1]), unmasked),
    "elements": (lambda k: (X * k).flat, lambda flat: [np.array(flat)]),
    "a spline": (lambda k: interpolate.CubicSpline(X, X**2 * k), lambda f: [f(1.5)]),
    "a distribution": (lambda k: stats.norm(loc=k), lambda d: [d.mean()]),
    "a function": (lambda k: math.sin, lambda f: [f(1.0)]),
}  # fmt: skip
CALLS = "aux", "in a list", "pullback", "a dict", "an attribute", "a list", "an error", "twice"


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_of_their_classes(name: str, call: str, every_policy: None) -> None:
    make, told = OBJECTS[name]
    kept: Any = SimpleNamespace(items={}, list=[])

    def storing(k: Any) -> Any:
        made = make(k)
        if call == "a dict":
            kept.items["made"] = made
        elif call == "an attribute":
            kept.made = made
        elif call == "a list":
            kept.list.append(made)
        else:
            kept.items["made"], kept.made = made, [made]
        return k * k

    def raising(k: Any) -> Any:
        raise ValueError(make(k))

    for k in (1.5, 2.5, 1.5):
        if call == "aux":
            (_, made), slope = value_and_grad(lambda k: (k * k, make(k)), has_aux=True)(k)
        elif call == "in a list":
            (_, [[made]]), slope = value_and_grad(lambda k: (k * k, [(make(k),)]), has_aux=True)(k)
        elif call == "pullback":
            (_, made), back = pullback(lambda k: (k * k, {"a": make(k)}["a"]), k)
            (slope,) = back((1.0, None)) if not isinstance(made, np.ndarray) else (2 * k,)
        elif call == "an error":
            with pytest.raises(ValueError) as caught:
                grad(raising, k)
            made, slope = caught.value.args[0], 2 * k
        else:
            _, (slope,) = grad(storing, k)
            made = {"a dict": kept.items.get("made"), "a list": kept.list[-1:], "twice": kept.items.get("made")}.get(
                call, getattr(kept, "made", None))  # fmt: skip
            made = made[0] if call == "a list" else made
        if call == "twice":
            assert kept.made[0] is made
        want = make(k)
        assert slope == 2 * k
        assert type(made) is type(want) and type(made).__module__.partition(".")[0] != "yota_py"
        for have, wanted in zip(told(made), told(want), strict=True):
            assert_array_equal(have, wanted)


class Holding:
    def __init__(self, x: Any) -> None:
        self.x = x


@pytest.mark.parametrize("name", ["csr_matrix", "factors", "masked", "a spline", "an object", "a closure", "a set",
                                  "below"])
def test_jacobians_of_objects_are_refused(name: str, every_policy: None) -> None:
    """They would have no derivatives, as if they depended on nothing."""
    others: dict[str, Callable[[Any], Any]] = {
        "an object": Holding, "a closure": lambda k: lambda: k, "a set": lambda k: {k},
        "below": lambda k: {"a": k, "b": [Holding((1, {"x": k}))]},
    }  # fmt: skip
    f = others.get(name) or OBJECTS[name][0]
    for k in (1.5, 2.5, 1.5):
        with pytest.raises(OutputError, match="Return these, as numbers and arrays"):
            jacobian(f)(k)
        with pytest.raises(OutputError, match="Return these, as numbers and arrays"):
            jit(jacobian(f))(k)


def test_jacobians_beside_objects() -> None:
    """What holds nothing that depends on the arguments is handed on, as text is."""
    many = [Holding(i) for i in range(20)]
    for one in many:
        one.x = many  # on so many roads that nobody could go them all
    beside = {"n": 3, "o": LU, "m": M, "t": "x", "log": LOG, "rng": RNG, "many": Holding(many)}
    for k in (1.5, 2.5):
        assert jacobian(lambda k: {"y": k * k, **beside})(k) == {"y": 2 * k, **dict.fromkeys(beside)}
