"""``float(x)``, ``int(x)`` and ``round(x)`` of traced numbers: numbers of Python's, and no decisions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import explain, grad, jit
from yota_py.errors import LostDerivativeError, YotaError

POINTS = [(1.6, 2.5), (-1.6, 3.5), (0.0, -2.5), (-0.5, 0.5), (np.nan, 1.0), (np.inf, 1.0), (1e300, 1.0), (2.0, 1.0)]
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "float": (lambda x: float(x[0]), 6), "int": (lambda x: int(x[0]), 3), "bool": (lambda x: bool(x[0]), 3),
    "round": (lambda x: round(x[0]), 3), "round of a float": (lambda x: round(float(x[1])), 5),
    "digits": (lambda x: round(float(x[0]), 1), 4), "of bools": (lambda x: float(x[0] > 1) + int(x[1] > 1), 5),
    "identity": (lambda x: bool(x[0] > 1) is True, 4), "argmax": (lambda x: int(x.argmax()), 4),
    "of whole numbers": (lambda x: (float(x.argmax()), round(int(x.argmax()))), 5),
    "containers": (lambda x: {"a": float(x[0]), "b": [int(x[1])]}, 5), "0-d": (lambda x: int(np.array(x[1])), 3),
    "float32": (lambda x: float(x.astype(np.float32)[0]), 5), "division": (lambda x: 1 / float(x[0]), 3),
    "loop": (lambda x: sum(range(int(x[1]))), 2), "texts": (lambda x: float("1.5") + int("11", 2) + x[0], 6),
    "complex": (lambda x: float(x[0]) ** 0.5, 3), "index": (lambda x: x[int(x[1]) % 2], 5),
    "default": (lambda x: float(*()) + int(*()) + x[0], 6), "again": (lambda x: float(float(x[0])), 6),
}  # fmt: skip


def outcome(f: Callable[..., Any], x: Any) -> Any:
    """The result in all digits, with its type; or the exception."""
    try:
        result = f(x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return type(result), repr(result)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_leave_as_numbers(name: str) -> None:
    f, calls = FUNCTIONS[name]
    fast = jit(f)
    for x in POINTS:
        assert outcome(fast, np.array(x)) == outcome(f, np.array(x))
    assert sum(entry.calls for entry in explain(fast)) >= calls, str(explain(fast))


def test_classes_stay_classes() -> None:
    """A function that does anything else with the names has them as they are."""

    def f(x: Any) -> Any:
        kinds = {float: "float", int: "int"}
        same = type(float(x[0])) is float and isinstance(int(x[1]), int)
        return kinds[type(float(x[0]))], same, np.zeros(2, float).dtype, [*map(float, x)], x.astype(int)

    fast = jit(f)
    for x in POINTS[:4]:
        assert outcome(fast, np.array(x)) == outcome(f, np.array(x))


def test_derivatives_are_not_lost() -> None:
    with pytest.raises(LostDerivativeError, match=r"float\(x\)"):
        grad(lambda x: float(x) * x, 2.0)

    def f(x: Any, y: Any) -> Any:
        return np.sum(x * x) * float(np.floor(x[0])) + int(np.sign(y)) * math.floor(3.5)

    for x0 in (1.5, 2.5, 3.5, 4.5):
        x = np.array([x0, 1.0])
        assert np.array_equal(grad(f, x, -2.0)[1][0], 2 * x * np.floor(x0))
    assert explain(f)[0].calls >= 3


STRUCTURE = [("a", float), ("b", int)]
RECORDS: dict[str, Any] = {
    "a record": lambda x: np.array([(x, 1)], dtype=STRUCTURE)["a"].sum() * x,
    "of numbers": lambda x: np.array([x, 1.5], dtype=[("a", "f8")])["a"].sum() * x,
    "full": lambda x: np.full(2, x, dtype=STRUCTURE)["a"].sum() * x,
    "astype": lambda x: (x * np.ones(2)).astype(STRUCTURE)["a"].sum() * x,
    "an array an element": lambda x: np.array([x, 1.0], dtype="2f8").sum() * x,
    "objects": lambda x: np.full(2, x, dtype=object).sum() * x,
    "texts": lambda x: (np.array([x, 1.0]).astype("U5")[0] == "2.0") * x,
    "times": lambda x: (x * np.ones(2)).astype("m8[s]").astype(float).sum() * x,
}


@pytest.mark.parametrize("name", RECORDS)
def test_arrays_that_do_not_hold_numbers(name: str) -> None:
    """In gradients they are refused; a step is called as it is."""
    f = RECORDS[name]
    written = name in ("a record", "of numbers", "an array an element")  # as a list, to np.array
    way_out = "Make an array of the numbers alone, or keep" if written else "Use an array of numbers per field"
    with pytest.raises(YotaError, match=way_out):
        grad(f, 2.0)
    step = jit(f)
    for i in range(4):
        assert step(2.0 + i) == f(2.0 + i)
