"""A traced value shows the members that its value has, and no other: ``hasattr`` decides what code does with it."""

import numpy as np
import pytest

from yota_py import grad
from yota_py.tracing.foreign import Foreign
from yota_py.tracing.tracer import tracers_of


def _public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("cls", [np.ndarray, np.float64, np.complex64, np.bool_, float, complex, int, bool])
def test_tracers_have_no_public_member_that_their_value_has_not(cls):
    assert _public(tracers_of(cls)) <= _public(cls)


def test_values_of_other_libraries_that_are_traced_have_no_public_member():
    assert not _public(Foreign)


@pytest.mark.parametrize("value", [np.ones(2), np.float64(2.0), 2.0, 1j, np.ones((2, 2), np.float32)])
def test_hasattr_says_of_a_traced_value_what_it_says_of_the_value(value):
    names = {
        "shape", "T", "real", "conjugate", "flat", "toarray", "to_numpy",
        "numpy", "detach", "describe", "ledger", "look", "root", "decide", "current", "carries", "array", "plain",
        "__len__", "__iter__", "__array__", "__float__", "__complex__", "__index__", "__getitem__", "__call__",
        "__matmul__", "__mod__", "__floordiv__", "__lt__", "__abs__", "__neg__", "__invert__", "__setitem__",
    }  # fmt: skip
    seen = {}

    def f(x):
        for name in names:
            seen[name] = hasattr(x, name)
        return np.sum(np.abs(x))

    grad(f, value)
    assert len(seen) == len(names)
    assert {name: is_there for name, is_there in seen.items() if is_there != hasattr(value, name)} == {}
