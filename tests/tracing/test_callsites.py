"""What a frame is calling at the moment, and whether it is certain that it calls it itself."""

from __future__ import annotations

import functools
import operator
import re
import sys
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
from scipy import ndimage

from yota_py import grad, trace
from yota_py.base import callsites
from yota_py.base.callsites import called_name, calls
from yota_py.base.instructions import by_code

# ------------------------------------------------------------------------------------------------------ names of calls


class _Probe:
    """Remembers what the frame that has asked for its index is calling."""

    called = ""

    def __index__(self) -> int:
        self.called = called_name(sys._getframe(1))
        return 2

    def __iadd__(self, other: Any) -> Any:
        self.called = called_name(sys._getframe(1))
        return self


class _Sequence(list[int]):
    """A list whose method calls that of its base."""

    def insert_at(self, probe: Any) -> Any:
        return super().insert(probe, 3)


def _in_an_expression(probe: Any, index: Any, one: Any) -> Any:
    return one + index(probe)


def _after_a_store(probe: Any, index: Any) -> Any:
    one = 1; two = index(probe)  # noqa: E702
    return one, two


def _several_lines(probe: Any, holder: Any) -> Any:
    return (
        holder.module
        .index(probe)
    )  # fmt: skip


def _of_a_cell(probe: Any) -> Any:
    index = operator.index
    return (lambda: index(probe))()


def _may_be_unbound(probe: Any) -> Any:
    if probe is not None:
        index = operator.index
    return index(probe)


_CALLS: dict[str, Callable[[Any], Any]] = {
    "attribute": lambda p: operator.index(p),
    "in an expression": lambda p: _in_an_expression(p, operator.index, 1),
    "after a store": lambda p: _after_a_store(p, operator.index),
    "several lines": lambda p: _several_lines(p, types.SimpleNamespace(module=operator)),
    "a cell": _of_a_cell,
    "may be unbound": _may_be_unbound,
    "unpacked": lambda p: operator.index(*[p]),
    "in a comprehension": lambda p: [operator.index(p) for _ in range(2)],
    "in a generator": lambda p: [*(operator.index(p) for _ in range(2))],
    "in a call": lambda p: len([max(operator.index(p), operator.index(p))]),
}


@pytest.mark.parametrize("name", _CALLS)
def test_names_of_calls(name: str) -> None:
    probe = _Probe()
    _CALLS[name](probe)
    assert probe.called == "index"


def test_names_of_other_calls() -> None:
    probe: Any = _Probe()
    int("11", base=probe)
    assert probe.called == "int"
    _Sequence([1, 2]).insert_at(probe)
    assert probe.called == "insert"
    assert [1, 2, 3][probe] == 3 and probe.called == ""
    probe.called = "unknown"
    probe += 1
    assert probe.called == ""


# ----------------------------------------------------------------------------------------------------- certain callers

heard: list[bool] = []


def target(*args: Any, **kwargs: Any) -> int:
    """A function that asks whether the frame that it finds has called it."""
    heard.append(calls(sys._getframe(1), target, "target"))
    return len(args)


class _Foreign:
    """Stands for what C code of a library defines: the function that its methods call is not named by the user."""

    __slots__ = ("held",)
    __index__ = target  # called by C code, without a frame

    def __init__(self, held: Any = None) -> None:
        self.held = held


here = types.ModuleType("here")
here.target = target  # type: ignore[attr-defined]
here.inner = types.SimpleNamespace(target=target)  # type: ignore[attr-defined]
table = {"target": target, 2: [target]}
partial = functools.partial(target, 1)
cached = functools.lru_cache(target)
slotted = _Foreign(target)


def _by_default(f: Any = target) -> Any:
    return f(1)


def _as_an_attribute_of_a_class() -> Any:
    class Layer:
        activation = staticmethod(target)

        def run(self) -> Any:
            return self.activation(3)

    return Layer().run()


def _aliased() -> Any:
    f = here.inner.target
    return f(*[1, 2], name=3)


def _in_a_closure() -> Any:
    f = target
    return (lambda: f(1))(), [f(i) for i in range(2)], [*(f(i) for i in range(2))]


def _by_a_loop() -> Any:
    for one in map(target, [1, 2]):
        assert one == 1
    mapped = map(target, [1, 2])
    for one in mapped:
        assert one == 1


def _unpacked() -> Any:
    one, *_ = map(target, [1, 2])
    return [*map(target, [1])], one


def _with_a_condition(flag: bool = True) -> Any:
    return target(1 if flag else 2, [3 if flag else 4])


def _of_a_cell_of_a_list() -> Any:
    key = 2
    return table[key][0](1)  # type: ignore[index]


_OWN: dict[str, Callable[[], Any]] = {
    "a name": lambda: target(1),
    "an attribute": lambda: here.target(1),
    "several": lambda: here.inner.target(1),
    "alias": _aliased,
    "default": _by_default,
    "closure": _in_a_closure,
    "class": _as_an_attribute_of_a_class,
    "slot": lambda: slotted.held(1),
    "an item": lambda: table["target"](1),  # type: ignore[operator]
    "an item of an item": _of_a_cell_of_a_list,
    "in brackets": lambda: (here.target)(1),
    "condition": _with_a_condition,
    "chosen": lambda: (target if heard == [] else print)(1),
    "partial": lambda: partial(2),
    "a new partial": lambda: functools.partial(here.target, 1)(2),
    "lru_cache": lambda: cached(),
    "map": lambda: list(map(target, [1, 2])),
    "mapped before": lambda: (lambda mapped: list(mapped))(map(partial, [1, 2])),
    "filter": lambda: [*filter(here.target, [1, 2])],
    "loop": _by_a_loop,
    "comprehension": lambda: [one for one in map(target, [1, 2])],  # noqa: C416
    "unpacked": _unpacked,
    "reduce": lambda: functools.reduce(target, [1, 2, 3]),
    "key": lambda: sorted([1, 2], key=target),
    "a method with a key": lambda: [1, 2].sort(key=target),
    "factory": lambda: defaultdict(here.target)[1],
    "callback": lambda: re.sub("a", lambda m: str(target(m)), "a"),
    "result of a call": lambda: operator.attrgetter("inner")(here).target(1),
    "several lines": lambda: here.inner.target(
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _OWN)
def test_certain_callers(name: str) -> None:
    heard.clear()
    cached.cache_clear()
    _OWN[name]()
    assert heard
    assert all(heard)


def _passed_to_c_code_that_calls_it_anyway() -> Any:
    mapped = [target(1)]
    heard.clear()
    return mapped, hex(_Foreign())


_FOREIGN: dict[str, Callable[[], Any]] = {
    "a function": lambda: hex(_Foreign()),  # type: ignore[arg-type]
    "beside a call": _passed_to_c_code_that_calls_it_anyway,
    "an operator": lambda: [1, 2, 3][_Foreign()],  # type: ignore[call-overload]
    "in a loop": lambda: [hex(i) for i in [_Foreign()]],  # type: ignore[arg-type]
    "a method": lambda: [1, 2].pop(_Foreign()),  # type: ignore[arg-type]
    "mapped": lambda: list(map(hex, [_Foreign()])),  # type: ignore[list-item]
}


@pytest.mark.parametrize("name", _FOREIGN)
def test_c_code_that_has_no_frame(name: str) -> None:
    heard.clear()
    _FOREIGN[name]()
    assert heard == [False]


def test_without_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python keeps none of columns if it is told so: what the line mentions is believed."""
    span = callsites._span
    monkeypatch.setattr(callsites, "_span", lambda i: ((span(i)[0][0], -1), callsites._NOWHERE))
    monkeypatch.setattr(callsites, "sites_of", by_code(callsites._read))
    heard.clear()
    here.inner.target(1)
    [1, 2, 3][_Foreign()]  # type: ignore[call-overload]
    assert heard == [True, False]


def test_nothing_of_the_users_is_run() -> None:
    """An expression is followed without asking for properties or attributes that are made when they are read."""

    class Lazy:
        asked = 0

        @property
        def made(self) -> Any:
            self.asked += 1
            return target

        def __getattr__(self, name: str) -> Any:
            self.asked += 1
            return target

    lazy = Lazy()
    heard.clear()
    lazy.made(1)
    lazy.target(1)
    assert lazy.asked == 2
    assert heard == [False, True]


# ------------------------------------------------------------------------------------------- by names, at once

FILTER = "maximum_filter"


@pytest.mark.parametrize("f", [
    lambda x: getattr(ndimage, "maximum_filter")(x, size=2),  # noqa: B009
    lambda x: getattr(ndimage, FILTER)(x, size=2),
    lambda x, name=FILTER: getattr(ndimage, name)(x, size=2),
    lambda x: getattr(scipy, "ndimage").maximum_filter(x, 2),  # noqa: B009
    lambda x: getattr(ndimage, {"a": FILTER}["a"])(x, size=2),
    lambda x: sum(getattr(ndimage, name)(x, size=2) for name in [FILTER]),
], ids=range(6))  # fmt: skip
def test_what_getattr_gives_is_called(f: Callable[..., Any]) -> None:
    for _ in range(3):
        y, (dx,) = grad(lambda x: np.sum(f(x)), np.array([1.0, 3.0, 2.0]))
        assert (y, dx.tolist()) == (7.0, [1.0, 2.0, 0.0])


def test_code_in_name_spaces_without_a_name() -> None:
    """The same code runs in some that have one, too."""
    code = compile("def step(a):\n    return np.sum(np.tanh(a) + np.exp(a))\n", "<text>", "exec")
    for i in range(6):
        space: dict[str, Any] = {"np": np} | ({"__name__": f"of_{i % 3}"} if i % 2 else {})
        exec(code, space)
        assert len(trace(space["step"], np.ones(3)).ops) == 5
