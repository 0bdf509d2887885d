"""What is read and written through classes and metaclasses, and objects of classes that derive from Python's own."""

from __future__ import annotations

import abc
import enum
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from roads import Make, Program, agrees_under_grad, left_behind, served


class Numbers(list[Any]):
    pass


class Scaled(dict[str, Any]):
    factor = 2.0

    def __missing__(self, key: str) -> Any:
        return self.factor


class Own(dict[str, Any]):
    """Has what a dict has in its own way."""

    scale = 1.0

    def __getitem__(self, key: str) -> Any:
        return dict.__getitem__(self, key) * self.scale

    def __setitem__(self, key: str, value: Any) -> None:
        dict.__setitem__(self, key, value + 1.0)

    def __iter__(self) -> Any:
        return iter(["nothing"])

    def __len__(self) -> int:
        return 100


class Pair(tuple[Any, ...]):
    pass


class Number(float):
    pass


class Text(str):
    pass


def attributes_of_a_list(jit: Any) -> Program:
    numbers = Numbers([1.0, np.ones(3)])
    numbers.scale, numbers.n, numbers.w = 2.0, 0, np.zeros(3)  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        n: Any = numbers
        n.n += 1
        n.w = n.w + x
        return x * n.scale * n.n + n[0] + n[1]

    return Program(f, lambda i: setattr(numbers, "scale", 2.0 + i // 3), lambda: (list(numbers), vars(numbers)))


def attributes_of_a_tuple(jit: Any) -> Program:
    pair: Any = Pair((1.0, np.ones(3)))
    pair.scale, pair.n = 2.0, 0

    def f(x: Any) -> Any:
        pair.n += 1
        return x * pair.scale * pair.n + pair[1]

    return Program(f, lambda i: setattr(pair, "scale", 2.0 + i // 3), lambda: (tuple(pair), vars(pair)))


def attributes_of_numbers_and_texts(jit: Any) -> Program:
    number, text = Number(2.0), Text("ab")
    number.scale, text.n = 1.0, 0  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        text.n += 1  # type: ignore[attr-defined]
        return x * number.scale * text.n * len(text)  # type: ignore[attr-defined]

    return Program(f, lambda i: setattr(number, "scale", 1.0 + i // 3), lambda: (vars(number), vars(text)))


def keys_that_a_dict_misses(jit: Any) -> Program:
    scaled = Scaled(a=1.0)
    return Program(lambda x: x * scaled["zz"] + scaled["a"], lambda i: setattr(scaled, "factor", 1.0 + i // 3))


def a_dict_with_methods_of_its_own(jit: Any) -> Program:
    own = Own(a=1.0, w=np.ones(3))

    def f(x: Any) -> Any:
        own["w"] = own["w"] + x
        return x * own["a"]

    return Program(f, lambda i: setattr(own, "scale", 1.0 + i // 3), lambda: dict(dict.items(own)))


def attributes_that_are_items(jit: Any) -> Program:
    class Attributes(dict[str, Any]):
        def __getattr__(self, name: str) -> Any:
            return self[name]

        def __setattr__(self, name: str, value: Any) -> None:
            self[name] = value

    d = Attributes(rate=1.0, w=np.zeros(3))

    def f(x: Any) -> Any:
        d.w = d.w * 0.5 + x
        return d.w * d.rate

    return Program(f, lambda i: d.update(rate=1.0 + i // 3), lambda: dict(d))


def an_ordered_dict(jit: Any) -> Program:
    table: OrderedDict[str, Any] = OrderedDict(w=np.ones(3), n=0.0)

    def f(x: Any) -> Any:
        table["w"] = table["w"] + x
        table["n"] += 1.0
        return x * table["n"]

    return Program(f, lambda i: i == 4 and table.move_to_end("w"), lambda: dict(table))


Point = namedtuple("Point", ["w", "rate"])


def fields_of_a_namedtuple(jit: Any) -> Program:
    points = [Point(np.ones(3), 1.0)]

    def before(i: int) -> None:
        points[0] = points[0]._replace(rate=1.0 + i // 3)

    return Program(lambda x: x * points[0].rate + points[0].w, before)


class Phase(enum.IntEnum):
    TRAIN = 1
    TEST = 2


def members_of_an_enum(jit: Any) -> Program:
    phases = [Phase.TRAIN]
    return Program(
        lambda x: x * 2.0 if phases[0] is Phase.TRAIN else x * phases[0].value,
        lambda i: phases.__setitem__(0, Phase.TEST if i % 3 == 2 else Phase.TRAIN),
    )


# ---------------------------------------------------------------------------------------------------------- metaclasses


def an_attribute_of_a_metaclass(jit: Any) -> Program:
    class Meta(type):
        scale, n = 1.0, 0

    class Model(metaclass=Meta):
        pass

    def f(x: Any) -> Any:
        Meta.n += 1
        return x * Model.scale * Model.n

    return Program(f, lambda i: setattr(Meta, "scale", 1.0 + i // 3), lambda: Meta.n)


def a_property_of_a_metaclass(jit: Any) -> Program:
    class Meta(type):
        own: Any

        @property
        def w(cls) -> Any:
            return cls.own

        @w.setter
        def w(cls, value: Any) -> None:
            cls.own = value * 2.0

    class Model(metaclass=Meta):
        own = np.zeros(3)

    def f(x: Any) -> Any:
        Model.w = Model.w * 0.5 + x
        return Model.w * 1.0

    def before(i: int) -> None:
        if i == 5:
            Meta.w = property(lambda cls: np.ones(3), lambda cls, value: None)  # type: ignore[assignment, misc]

    return Program(f, before, lambda: Model.own)


def methods_of_a_metaclass(jit: Any) -> Program:
    class Meta(type):
        def __getitem__(cls, key: int) -> Any:
            return cls.table[key]  # type: ignore[attr-defined]

        def __getattr__(cls, name: str) -> Any:
            return cls.table[1]  # type: ignore[attr-defined]

    class Model(metaclass=Meta):
        table = (1.0, 2.0)

    def before(i: int) -> None:
        Model.table = (1.0 + i // 3, 2.0 + i // 4)
        if i == 5:
            Meta.__getitem__ = lambda cls, key: 50.0  # type: ignore[method-assign]

    return Program(lambda x: x * Model[0] + Model.missing, before)  # type: ignore[attr-defined]


# -------------------------------------------------------------------------------------------------- what a class is


def other_bases(jit: Any) -> Program:
    class A:
        k = 1.0

        def times(self, x: Any) -> Any:
            return x

    class B:
        k = 2.0

        def times(self, x: Any) -> Any:
            return 2.0 * x

    class Base:
        pass

    class Model(A, Base):
        pass

    model = Model()
    return Program(lambda x: model.times(x) * model.k, lambda i: i == 4 and setattr(Model, "__bases__", (B, Base)))


def a_special_method_that_comes(jit: Any) -> Program:
    class Base:
        pass

    class Model(Base):
        pass

    a, b = Model(), Model()

    def f(x: Any) -> Any:
        return x * (2.0 if a else 1.0) + (a == b) + (1.0 if callable(a) else 0.0)

    def before(i: int) -> None:
        if i == 2:
            Base.__len__ = lambda self: 0  # type: ignore[attr-defined]
        if i == 4:
            Model.__eq__ = lambda self, other: True  # type: ignore[method-assign, assignment]
        if i == 6:
            Model.__call__ = lambda self: None  # type: ignore[attr-defined]

    return Program(f, before)


def an_attribute_that_is_computed_from_now_on(jit: Any) -> Program:
    class Model:
        pass

    model: Any = Model()

    def f(x: Any) -> Any:
        try:
            return x * model.k
        except AttributeError:
            return x

    return Program(f, lambda i: i == 3 and setattr(Model, "__getattr__", lambda self, name: 5.0))


def a_class_that_is_registered(jit: Any) -> Program:
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    square = Square()
    return Program(lambda x: x * 2.0 if isinstance(square, Shape) else x, lambda i: i == 3 and Shape.register(Square))


def defaults_of_methods(jit: Any) -> Program:
    class Model:
        def __init__(self, scale: Any = [1.0]) -> None:  # noqa: B006
            self.k = scale[0]

        @staticmethod
        def scaled(x: Any, scale: Any = [1.0]) -> Any:  # noqa: B006
            return x * scale[0]

        @classmethod
        def rated(cls, x: Any, rate: Any = {"k": 1.0}) -> Any:  # noqa: B006
            return x * rate["k"]

    def before(i: int) -> None:
        Model.__init__.__defaults__[0][0] = 1.0 + i // 5  # type: ignore[index]
        Model.scaled.__defaults__[0][0] = 1.0 + i // 3  # type: ignore[index]
        Model.rated.__func__.__defaults__[0]["k"] = 1.0 + i // 4  # type: ignore[attr-defined]

    return Program(lambda x: Model.scaled(Model.rated(x)) * Model().k, before)


def methods_with_closures(jit: Any) -> Program:
    rate, table = [1.0], {"k": 1.0}

    class Base:
        def __init__(self) -> None:
            self.k = rate[0]

    class Model(Base):
        def __init__(self) -> None:
            super().__init__()

        @property
        def rated(self) -> Any:
            return self.k * table["k"]

    def before(i: int) -> None:
        rate[0], table["k"] = 1.0 + i // 3, 1.0 + i // 4

    return Program(lambda x: x * Model().rated, before)


def slots_under_other_names(jit: Any) -> Program:
    class Model:
        __slots__ = ("__k", "__w")

        def __init__(self) -> None:
            self.__w, self.__k = np.zeros(3), 1.0

        def step(self, x: Any) -> Any:
            self.__w = self.__w + x
            return x * self.__k

    model: Any = Model()
    return Program(model.step, lambda i: setattr(model, "_Model__k", 1.0 + i // 3), lambda: model._Model__w)


COMPILED: list[Make] = [
    attributes_of_a_list, attributes_of_a_tuple, attributes_of_numbers_and_texts, keys_that_a_dict_misses,
    a_dict_with_methods_of_its_own, attributes_that_are_items, an_ordered_dict, fields_of_a_namedtuple,
    members_of_an_enum, an_attribute_of_a_metaclass, a_property_of_a_metaclass, methods_of_a_metaclass, other_bases,
    a_special_method_that_comes, an_attribute_that_is_computed_from_now_on, a_class_that_is_registered,
    defaults_of_methods, methods_with_closures, slots_under_other_names,
]  # fmt: skip


@pytest.mark.parametrize("make", COMPILED, ids=lambda make: make.__name__)
def test_under_jit(make: Make) -> None:
    assert served(make) >= 1


@pytest.mark.parametrize("make", COMPILED, ids=lambda make: make.__name__)
def test_under_grad(make: Make) -> None:
    agrees_under_grad(make)
    assert left_behind() == []
