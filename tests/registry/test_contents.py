"""What objects of libraries depend on, compared by contents."""

from __future__ import annotations

import collections
import copy
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as st
from scipy.interpolate import interp1d

from yota_py import jit
from yota_py.registry.contents import MAX_BYTES, MAX_PARTS, fingerprint, is_known, is_still

X = np.arange(4.0)


def known(**more: Any) -> Any:
    """An object of a class that is known, with these attributes."""
    jit(lambda x: st.norm(0.0, 1.0).pdf(interp1d(X, X)(x)))(1.0)  # by now the rules are there
    made = interp1d(X, X)
    vars(made).update(more)
    return made


class Mine:
    """The user's."""


CHANGES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "a number": (1.0, lambda a: 2.0), "the sign of zero": (0.0, lambda a: -0.0), "a type": (1, lambda a: True),
    "a dtype": (X, lambda a: a.astype(np.float32)), "a shape": (X, lambda a: a.reshape(2, 2)),
    "an element": (X, lambda a: a.__setitem__(1, 9.0)), "an item": ([1, [2.0]], lambda a: a[1].append(3.0)),
    "a value": ({"a": X}, lambda a: a["a"].__setitem__(0, 9.0)), "a key": ({"a": 1}, lambda a: a.update(b=1)),
    "a name": ({"a": 1}, lambda a: {"b": 1}), "a text": ("a", lambda a: "b"),
    "an ordered dict": (collections.OrderedDict(a=1), lambda a: a.update(a=2)),
    "a default dict": (collections.defaultdict(list, a=[1]), lambda a: a["a"].append(2)),
    "a deque": (collections.deque([1]), lambda a: a.append(2)),
    "a namedtuple": (collections.namedtuple("P", "a")(X), lambda a: a.a.__setitem__(0, 9.0)),
    "a function": (np.sin, lambda a: np.cos), "a method": (st.norm.pdf, lambda a: st.norm.cdf),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    value, change = CHANGES[name]
    made = known(more=copy.deepcopy(value) if not callable(value) else value)
    before = fingerprint(made)
    assert before is not None and is_still(made, before)
    other = change(made.more)
    if other is not None:
        made.more = other
    assert not is_still(made, before)


@pytest.mark.parametrize("value", [
    {1.0}, frozenset([1.0]), bytearray(b"a"), array("d", [1.0]), Mine(), lambda x: x, np.array([None]),
    [0] * (MAX_PARTS + 1), np.zeros(MAX_BYTES),
])  # fmt: skip
def test_what_is_not_compared(value: Any) -> None:
    assert fingerprint(known(more=value)) is None


def test_what_is_the_same() -> None:
    made = known(nan=np.nan, array=np.array([np.nan, 0.0]))
    made.itself = [made]
    before = fingerprint(made)
    assert before is not None and is_still(made, before)
    vars(made).update(nan=float("nan"), array=made.array.copy())
    assert is_still(made, before)


def test_known_classes() -> None:
    known()
    assert is_known(type(st.norm)) and is_known(type(st.norm(0.0, 1.0))) and is_known(interp1d)
    assert not is_known(Mine) and not is_known(dict)
