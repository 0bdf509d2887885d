"""After a call no object of the caller's holds a traced value, wherever the function has stored one."""

from __future__ import annotations

import types
import weakref
from collections import deque
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from roads import Make, Program, agrees_under_grad, as_it_is, left_behind, served, x_of

from yota_py import grad, jit
from yota_py.capture.attributes import Attributes


class Box:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("head", "w")


def a_new_attribute_and_a_setter(jit: Any) -> Program:
    class Model:
        @property
        def w(self) -> Any:
            return self._w

        @w.setter
        def w(self, value: Any) -> None:
            self._w = value
            self.n = value.sum()

    model: Any = Model()

    def f(x: Any) -> Any:
        model.extra = x * 2.0
        model.w = x + 1.0
        return x * 1.0

    return Program(f, state=lambda: vars(model))


def attributes_of_the_class(jit: Any) -> Program:
    class Base:
        n, w = 0, np.zeros(3)

        @classmethod
        def add(cls, x: Any) -> None:
            cls.total = cls.total + x
            cls.last = x * 2.0

        total = np.zeros(3)
        last: Any = None

    class Model(Base):
        pass

    model: Any = Model()

    def f(x: Any) -> Any:
        type(model).n += 1
        model.__class__.w = model.__class__.w + x
        type(model).fresh = x * 2.0
        Model.add(x)
        return x * model.n + model.w

    names = ("n", "w", "fresh", "total", "last")
    return Program(f, state=lambda: [[vars(cls).get(name) for name in names] for cls in (Base, Model)])


def a_property_of_a_metaclass(jit: Any) -> Program:
    class Meta(type):
        @property
        def w(cls) -> Any:
            return cls.own  # type: ignore[attr-defined]

        @w.setter
        def w(cls, value: Any) -> None:
            cls.own = value  # type: ignore[attr-defined]

    class Model(metaclass=Meta):
        pass

    def f(x: Any) -> Any:
        Model.w = x * 2.0
        return x * Model.w

    return Program(f, state=lambda: Model.own)  # type: ignore[attr-defined]


def slots_that_were_empty(jit: Any) -> Program:
    obj = Slotted()

    def f(x: Any) -> Any:
        object.__setattr__(obj, "w", [x * 2.0])
        obj.head = (x, {"x": x})
        return x * 1.0

    return Program(f, state=lambda: (obj.w, obj.head))


def a_linked_list(jit: Any) -> Program:
    box = Box(head=None)

    def f(x: Any) -> Any:
        for _ in range(200):
            box.head = [x, box.head] if box.head is None else Box(v=x * 2.0, next=box.head)
        return x * 1.0

    def state() -> Any:
        head, values = box.head, []
        while isinstance(head, Box):
            values.append(head.v)
            head = head.next
        return values, head[0]

    return Program(f, state=state)


def functions_made_in_the_call(jit: Any) -> Program:
    box = Box(g=None)

    def f(x: Any) -> Any:
        y = x * 2.0
        box.g = lambda k=y: (y, k)
        box.g.static = y
        return y

    return Program(f, state=lambda: (box.g(), box.g.static))


def defaults_of_a_constructor(jit: Any) -> Program:
    class Model:
        def __init__(self, value: Any, known: Any = []) -> None:  # noqa: B006
            known.append(value)

    def f(x: Any) -> Any:
        Model(x * 2.0)
        return x * 1.0

    return Program(f, state=lambda: Model.__init__.__defaults__)  # type: ignore[misc]


def containers_that_cannot_be_watched(jit: Any) -> Program:
    last, table, key = deque(maxlen=3), weakref.WeakKeyDictionary(), Box()  # type: ignore[var-annotated]

    def f(x: Any) -> Any:
        last.append((x * 2.0, [x]))
        table[key] = x * 3.0
        return x * len(last)

    return Program(f, state=lambda: (list(last), table[key]))


def a_module(jit: Any) -> Program:
    module: Any = types.ModuleType("users_own")
    module.w = np.zeros(3)

    def f(x: Any) -> Any:
        module.w = module.w + x
        module.last = x * 2.0
        return x * 1.0

    return Program(f, state=lambda: (module.w, module.last))


PROGRAMS: list[Make] = [
    a_new_attribute_and_a_setter, attributes_of_the_class, a_property_of_a_metaclass, slots_that_were_empty,
    a_linked_list, functions_made_in_the_call, defaults_of_a_constructor, containers_that_cannot_be_watched, a_module,
]  # fmt: skip


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_under_jit(make: Make) -> None:
    served(make)
    assert left_behind() == []


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_under_grad(make: Make) -> None:
    agrees_under_grad(make)
    assert left_behind() == []


@pytest.mark.parametrize("transform", [jit, lambda f: lambda x: grad(lambda x: np.sum(f(x)), x)], ids=["jit", "grad"])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_after_an_exception(make: Make, transform: Any) -> None:
    program = make(as_it_is)

    def f(x: Any) -> Any:
        program.f(x)
        raise ValueError("half way")

    for i in range(4):
        with pytest.raises(ValueError, match="half way"):
            transform(f)(x_of(i))
    assert left_behind() == []


class Listed(list[Any]):
    pass


class Made:
    def __init__(self, value: Any, link: Any = None) -> None:
        self.value, self.link = value, link

    def get(self) -> Any:
        return self.value


def _linked(x: Any) -> Any:
    made = None
    for _ in range(1500):
        made = Made(x, made)
    return made


def _listed(x: Any) -> Any:
    listed: Any = Listed([x])
    listed.w = x * 2.0
    return listed


def _class(x: Any) -> Any:
    class Inner:
        w = x * 2.0

        @property
        def read(self) -> Any:
            return x

    return Inner()


@pytest.mark.parametrize("make", [
    _linked, _listed, _class, lambda x: Made(x * 2.0).get, lambda x: {"set": {x[0], 2}}, lambda x: deque([x]),
    lambda x: (x * k for k in range(3)), lambda x: iter([x, x]), lambda x: ValueError(x),
], ids=["linked", "list", "class", "method", "set", "deque", "generator", "iterator", "exception"])  # fmt: skip
def test_objects_made_in_the_call(make: Any) -> None:
    box = Box(made=None)

    @jit
    def f(x: Any) -> Any:
        box.made = make(x)
        return x * 2.0

    for i in range(3):
        f(x_of(i))
        assert left_behind() == []


def test_values_of_a_differentiation_inside_another_one() -> None:
    box = Box(seen=None)

    def inner(w: Any) -> Any:
        box.seen = [w * 2.0]
        return np.sum(w**2)

    for i in range(3):
        grad(lambda x: np.sum(grad(inner, x)[1][0] * x), x_of(i))
        assert left_behind() == []
        assert_array_equal(box.seen[0], x_of(i) * 2.0)


def test_partials_and_methods() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept[:] = [partial(np.add, x), partial(np.sum, axis=None, where=x > 0), x.sum]
        kept.extend([partial(partial(np.multiply, x), x), partial(max, [x, x], key=np.sum)])
        return np.sum(x)

    for i in range(3):
        x = x_of(i)
        grad(f, x)
        assert left_behind() == []
        assert_array_equal(kept[0](1.0), x + 1.0)
        assert kept[1](x) == np.sum(x[x > 0])
        assert kept[2]() == np.sum(x)
        assert_array_equal(kept[3](), x * x)
        assert_array_equal(kept[4](), x)


def test_each_object_of_a_chain_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not once for each that is found behind it."""
    reads, read = [0], Attributes._attributes_of

    def counted(*args: Any) -> None:
        reads[0] += 1
        read(*args)

    monkeypatch.setattr(Attributes, "_attributes_of", counted)
    counts = []
    for n in (100, 200):
        head: Any = None
        for i in range(n):
            head = Box(v=float(i), next=head)
        box, reads[0] = Box(head=head), 0

        def f(x: Any, box: Any = box) -> Any:
            return x * box.head.v * box.head.next.v

        assert_array_equal(jit(f)(np.ones(2)), np.full(2, (n - 1.0) * (n - 2.0)))
        counts.append(reads[0])
    assert counts[1] <= 3 * counts[0]
