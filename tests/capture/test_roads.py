"""Ways to read and write that do not name what they reach: bound methods, static variables, ``hasattr``."""

from __future__ import annotations

import builtins
import copy
import dataclasses
import functools
import operator
from operator import attrgetter, itemgetter, methodcaller
from typing import Any

import numpy as np
import pytest
from roads import Make, Program, agrees_under_grad, as_it_is, left_behind, served

from yota_py import gradient, value_and_grad


class Box:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@dataclasses.dataclass
class Settings:
    rate: float
    name: str = "s"


# ---------------------------------------------------------------------------------------------- methods in C, bound


def a_get_of_a_dict(jit: Any) -> Program:
    table = {"a": 1.0}
    get = table.get
    return Program(lambda x: x * get("a"), lambda i: table.update(a=1.0 + i // 3))


def a_get_in_an_attribute(jit: Any) -> Program:
    table = {"a": 1.0}
    box = Box(get=table.get)
    return Program(lambda x: x * box.get("a"), lambda i: table.update(a=1.0 + i // 3))


def a_sum_of_an_array(jit: Any) -> Program:
    buf = np.ones(3)
    total, several = buf.sum, [buf.max]
    return Program(lambda x: x * total() + several[0](), lambda i: buf.__setitem__(0, i))


def an_append_in_an_attribute(jit: Any) -> Program:
    class Recorder:
        def __init__(self) -> None:
            self.items: list[Any] = []
            self.add = self.items.append

        def step(self, x: Any) -> Any:
            self.add(x.sum())
            return x * len(self.items)

    recorder = Recorder()
    return Program(recorder.step, state=lambda: recorder.items)


def an_append_whose_list_nobody_names(jit: Any) -> Program:
    items: list[Any] = []
    box = Box(add=items.append)

    def f(x: Any) -> Any:
        box.add([x * 2.0])
        return x

    return Program(f, state=lambda: items)


def a_pop(jit: Any) -> Program:
    stack = [float(i) for i in range(20)]
    pop = stack.pop
    return Program(lambda x: x * pop(), state=lambda: stack)


def a_pop_found_while_it_runs(jit: Any) -> Program:
    stack = [float(i) for i in range(20)]
    ways = {"pop": stack.pop}
    seen = [0.0]

    def inner(way: str) -> Any:
        return ways[way]()

    def f(x: Any) -> Any:
        seen[0] = seen[0] + 1.0
        return x * inner("pop") + seen[0]

    return Program(f, state=lambda: (stack, seen))


# ---------------------------------------------------------------------------------------- attributes by other names


def attributes_by_attrgetter(jit: Any) -> Program:
    box, get = Box(k=1.0), attrgetter("k")
    return Program(lambda x: x * get(box), lambda i: setattr(box, "k", 1.0 + i // 3))


def attributes_by_a_new_attrgetter(jit: Any) -> Program:
    box = Box(k=1.0)
    return Program(lambda x: x * attrgetter("k")(box), lambda i: setattr(box, "k", 1.0 + i // 3))


def an_order_by_attrgetter(jit: Any) -> Program:
    boxes = [Box(k=1.5), Box(k=2.5)]
    f = lambda x: x * boxes.index(sorted(boxes, key=operator.attrgetter("k"))[0])  # noqa: E731
    return Program(f, lambda i: setattr(boxes[0], "k", 1.5 + i // 3))


def a_method_by_methodcaller(jit: Any) -> Program:
    stack = [1.0] * 20
    return Program(lambda x: x * methodcaller("pop")(stack), state=lambda: stack)


def attributes_by_an_alias(jit: Any) -> Program:
    box, get, several = Box(k=1.0, m=2.0), getattr, [getattr]
    f = lambda x: x * get(box, "k") * several[0](box, "m") * builtins.getattr(box, "k")  # noqa: B009, E731
    return Program(f, lambda i: box.__dict__.update(k=1.0 + i // 3, m=i // 4 + 1.0))


def attributes_set_by_an_alias(jit: Any) -> Program:
    box, put = Box(k=np.zeros(3)), setattr

    def f(x: Any) -> Any:
        put(box, "k", x * 2.0)
        return x

    return Program(f, state=lambda: box.k)


def attributes_in_a_text(jit: Any) -> Program:
    box = Box(k=1.0)
    return Program(lambda x: x * float("{.k}".format(box)), lambda i: setattr(box, "k", 1.0 + i // 3))  # noqa: UP032


def the_names_of_attributes(jit: Any) -> Program:
    box = Box(k=1.0)
    return Program(lambda x: x * (dir(box)[-1] == "k"), lambda i: setattr(box, "z" if i == 3 else "k", 1.0))


def fields_by_a_library(jit: Any) -> Program:
    settings = Settings(1.0)
    f = lambda x: x * dataclasses.asdict(settings)["rate"]  # noqa: E731
    return Program(f, lambda i: setattr(settings, "rate", 1.0 + i // 3))


def attributes_of_a_copy(jit: Any) -> Program:
    box = Box(k=1.0)
    return Program(lambda x: x * vars(copy.copy(box))["k"], lambda i: setattr(box, "k", 1.0 + i // 3))


# ------------------------------------------------------------------------------------ whether there is an attribute


def a_flag_that_comes(jit: Any) -> Program:
    box = Box()
    return Program(lambda x: x * 2.0 if hasattr(box, "on") else x, lambda i: i == 4 and setattr(box, "on", 1))


def a_flag_of_a_class(jit: Any) -> Program:
    class Flagged:
        pass

    box = Flagged()
    return Program(lambda x: x * 2.0 if hasattr(box, "on") else x, lambda i: i == 4 and setattr(Flagged, "on", 1))


def flags_by_names_that_vary(jit: Any) -> Program:
    box, names, has = Box(), ["on", "off"], hasattr
    f = lambda x: x * sum(hasattr(box, name) for name in names) + has(box, "on")  # noqa: E731
    return Program(f, lambda i: i == 4 and setattr(box, "on", 1))


def made_when_it_is_needed(jit: Any) -> Program:
    class Optimiser:
        def step(self, x: Any) -> Any:
            if not hasattr(self, "m"):
                self.m = np.zeros(3)
            self.m = self.m * 0.5 + x
            return self.m * 1.0

    optimiser = Optimiser()
    return Program(optimiser.step, state=lambda: vars(optimiser))


# -------------------------------------------------------------------------------------- static variables of functions


def a_static_variable(jit: Any) -> Program:
    @jit
    def step(x: Any) -> Any:
        step.count += 1
        step.total = step.total + x
        return x * step.count

    step.count, step.total = 0, np.zeros(3)
    return Program(lambda x: step(x), state=lambda: (step.count, step.total))


def a_static_variable_of_a_gradient(jit: Any) -> Program:
    def make(transform: Any) -> Any:
        def loss(w: Any) -> Any:
            slope.count += 1
            return np.sum(w * w) * slope.count

        slope = transform(loss)
        slope.count = 0
        return slope

    slope = make(gradient if jit is not as_it_is else lambda f: lambda w: (f(w), 2.0 * w * slope.count)[1])
    return Program(lambda x: slope(x) * 1.0, state=lambda: slope.count)


def a_static_variable_of_an_attribute(jit: Any) -> Program:
    class Model:
        def __init__(self) -> None:
            plain = lambda f: lambda w: (f(w), np.full(3, float(self.vg.n)))  # noqa: E731
            self.vg: Any = (plain if jit is as_it_is else value_and_grad)(self.loss)
            self.vg.n = 0

        def loss(self, w: Any) -> Any:
            return np.sum(w) * self.vg.n

        def step(self, w: Any) -> Any:
            self.vg.n += 1
            return self.vg(w)[1] * 1.0

    model = Model()
    return Program(model.step, state=lambda: model.vg.n)


def a_static_variable_of_a_wrapper(jit: Any) -> Program:
    def counted(f: Any) -> Any:
        @functools.wraps(f)
        def inner(x: Any) -> Any:
            inner.calls += 1
            return f(x) * inner.calls

        inner.calls = 0  # type: ignore[attr-defined]
        return inner

    g = counted(lambda x: x * 2.0)
    return Program(lambda x: g(x), state=lambda: g.calls)


def a_static_variable_that_comes(jit: Any) -> Program:
    def g(x: Any) -> Any:
        g.n = g.n + 1 if hasattr(g, "n") else 1  # type: ignore[attr-defined]
        g.last = x.sum()  # type: ignore[attr-defined]
        return x * g.n  # type: ignore[attr-defined]

    return Program(lambda x: g(x), state=lambda: vars(g))


def a_static_variable_that_is_missed(jit: Any) -> Program:
    def g(x: Any) -> Any:
        try:
            g.n += 1  # type: ignore[attr-defined]
        except AttributeError:
            g.n = 1  # type: ignore[attr-defined]
        return x * g.n  # type: ignore[attr-defined]

    return Program(lambda x: g(x), lambda i: i == 5 and vars(g).clear(), lambda: vars(g))


# ------------------------------------------------------------------------------------ items, and objects in a frozenset


def items_by_itemgetter(jit: Any) -> Program:
    table = {"a": 1.0, "b": np.ones(3)}

    def f(x: Any) -> Any:
        a, b = itemgetter("a", "b")(table)
        return x * a + b

    return Program(f, lambda i: table.update(a=1.0 + i // 3, b=np.ones(3) * i))


def items_by_an_itemgetter_of_its_own(jit: Any) -> Program:
    table, get = {"a": 1.0, "b": np.ones(3)}, itemgetter("a")
    return Program(lambda x: x * get(table), lambda i: table.update(a=1.0 + i // 3))


def objects_in_a_frozenset(jit: Any) -> Program:
    box = Box(k=1.0)
    boxes = frozenset([box])
    return Program(lambda x: x * sum(b.k for b in boxes), lambda i: setattr(box, "k", 1.0 + i // 3))


CALLED: list[Make] = [
    a_get_of_a_dict, a_get_in_an_attribute, a_sum_of_an_array, an_append_in_an_attribute,
    an_append_whose_list_nobody_names, a_pop, a_pop_found_while_it_runs, attributes_by_attrgetter,
    attributes_by_a_new_attrgetter, an_order_by_attrgetter, a_method_by_methodcaller, attributes_by_an_alias,
    attributes_set_by_an_alias, attributes_in_a_text, the_names_of_attributes, flags_by_names_that_vary,
    objects_in_a_frozenset,
]  # fmt: skip
COMPILED: list[Make] = [
    a_flag_that_comes, a_flag_of_a_class, made_when_it_is_needed, a_static_variable, a_static_variable_of_a_gradient,
    a_static_variable_of_an_attribute, a_static_variable_of_a_wrapper, a_static_variable_that_comes,
    a_static_variable_that_is_missed, attributes_of_a_copy, fields_by_a_library, items_by_itemgetter,
    items_by_an_itemgetter_of_its_own,
]  # fmt: skip


@pytest.mark.parametrize("make", CALLED, ids=lambda make: make.__name__)
def test_what_cannot_be_followed_is_called(make: Make) -> None:
    assert served(make) == 0


@pytest.mark.parametrize("make", COMPILED, ids=lambda make: make.__name__)
def test_what_can_be_followed_is_compiled(make: Make) -> None:
    assert served(make) >= 2


@pytest.mark.parametrize("make", CALLED + COMPILED, ids=lambda make: make.__name__)
def test_under_grad(make: Make) -> None:
    agrees_under_grad(make)
    assert left_behind() == []
