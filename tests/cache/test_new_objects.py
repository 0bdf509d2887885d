"""Objects that a step makes of classes of its own: as results, in attributes, in one another, and by copying."""

from __future__ import annotations

import abc
import copy
import weakref
from collections import namedtuple
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from performing import assert_same
from steps import agrees

from yota_py import jit

pytestmark = pytest.mark.usefixtures("every_policy")


class State:
    """An ordinary class."""

    def __init__(self, w: Any, n: Any = 0) -> None:
        self.w, self.n = w, n


class Slotted:
    """Without a dict."""

    __slots__ = ("__hidden", "n", "w")

    def __init__(self, w: Any, n: Any = 0) -> None:
        self.w, self.__hidden = w, n

    def hidden(self) -> Any:
        """What stands in a slot whose name is not as it is written."""
        return self.__hidden


class Base(abc.ABC):
    """Counts its objects."""

    made: ClassVar[int] = 0
    scale = 2.0

    def __init__(self, w: Any) -> None:
        Base.made += 1
        self.w = w * self.scale

    @abc.abstractmethod
    def value(self) -> Any:
        """Of this object."""


class Derived(Base):
    """With more attributes, one of which the class has as well."""

    def __init__(self, w: Any) -> None:
        super().__init__(w)
        self.scale = 3.0
        self.parent, self.children = None, [self, w]

    def value(self) -> Any:
        """The sum."""
        return self.w.sum()


def numbers(i: int) -> tuple[Any, ...]:
    return (np.ones(2) * (1.0 + i),)


@pytest.mark.parametrize("cls", [State, Slotted, SimpleNamespace])
def test_results(cls: Any) -> None:
    def make() -> Any:
        def step(x: Any) -> Any:
            return cls(w=x * 2, n=x[0]) if cls is SimpleNamespace else cls(x * 2, x[0])

        return step, numbers, lambda: None

    agrees(make, compiled=8)


def test_inheritance_and_what_the_making_does() -> None:
    def make() -> Any:
        Base.made = 0
        return (lambda x: Derived(x)), numbers, lambda: None

    agrees(make, compiled=0)

    def shared() -> Any:
        counts = SimpleNamespace(made=0)

        class Counted(Derived):
            def __init__(self, w: Any) -> None:
                self.w, self.scale, self.children = w, 1.0, (self,)
                counts.made += 1

        def step(x: Any) -> Any:
            made = Counted(x * 2)
            return made, made.value()

        return step, numbers, lambda: counts

    agrees(shared, compiled=7)


def test_objects_in_one_another() -> None:
    def make() -> Any:
        own = State(np.ones(2))

        def step(x: Any) -> Any:
            first, second = State(x * 2), State(x + own.w)
            first.next, second.next = second, first  # type: ignore[attr-defined]
            second.owner, second.view = own, first.w[1:]  # type: ignore[attr-defined]
            return first, {"second": second, "all": [first, second, first]}, own

        return step, numbers, lambda: own

    agrees(make, compiled=8)


def test_attributes_of_all_names() -> None:
    class Odd:
        shown = 1

        @property
        def w(self) -> Any:
            return self.__dict__["w"]

    def make() -> Any:
        def step(x: Any) -> Any:
            odd = Odd()
            odd.shown = x * 2
            object.__setattr__(odd, "class", x)
            object.__setattr__(odd, "two words", 5)
            return odd

        return step, numbers, lambda: None

    agrees(make, compiled=0)


def test_attributes_that_are_deleted() -> None:
    def make() -> Any:
        def step(x: Any) -> Any:
            made = State(x * 2, 5)
            del made.n
            return made

        return step, numbers, lambda: None

    agrees(make, compiled=8)


def test_objects_that_change_their_class() -> None:
    def make() -> Any:
        own = State(np.ones(2))

        def step(x: Any) -> Any:
            own.__class__ = Other  # type: ignore[assignment]
            return own.w * x

        def arguments(i: int) -> tuple[Any, ...]:
            own.__class__ = State
            return numbers(i)

        return step, arguments, lambda: own

    agrees(make, compiled=0)


class Other:
    """Another class."""

    def __init__(self, w: Any, n: Any = 0) -> None:
        self.n, self.w = n, w


def test_a_class_that_is_defined_again() -> None:
    def make() -> Any:
        names: dict[str, Any] = {"__name__": "__main__"}
        text = "class New:\n def __init__(self, w): self.w = w{}\ndef step(x): return New(x * 2)"
        exec(text.format(""), names)

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 4:
                step = names["step"]
                exec(text.format("; self.n = 3"), names)
                names["step"] = step
            if i == 7:
                names["New"].__init__ = lambda self, w: self.__dict__.update(v=w)
            return numbers(i)

        return names["step"], arguments, lambda: None

    agrees(make, compiled=5)


def test_tuples_with_names() -> None:
    pair = namedtuple("pair", "w n")

    def make() -> Any:
        return (lambda x: pair(x * 2, 1)._replace(n=x.sum())), numbers, lambda: None

    agrees(make, compiled=8)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("cls", [State, Slotted, Other])
def test_copies(cls: Any, copied: Any) -> None:
    def make() -> Any:
        own = cls(np.ones(2))

        def step(x: Any) -> Any:
            new = copied(own)
            new.w = new.w * x
            return new

        def arguments(i: int) -> tuple[Any, ...]:
            if i == 5:
                own.n = 4
            if i == 7 and cls is State:
                own.extra = np.ones(3)
            return numbers(i)

        return step, arguments, lambda: own

    agrees(make, compiled=3)


class Made:
    """With a ``__new__`` of its own."""

    def __new__(cls, w: Any) -> Any:
        made = super().__new__(cls)
        made.w = w
        return made


class Assigned:
    """With a ``__setattr__`` of its own."""

    def __init__(self, w: Any) -> None:
        self.w = w

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value * 2)


class Finalised:
    """Says when it goes."""

    gone: ClassVar[list[str]] = []

    def __init__(self, w: Any) -> None:
        self.w = w

    def __del__(self) -> None:
        self.gone.append("gone")


class Stack(list[Any]):
    """Derived from a class in C."""


class Watched:
    """Known by a weak reference."""

    def __init__(self, w: Any) -> None:
        self.w = w
        weakref.finalize(self, int)


@pytest.mark.parametrize("cls", [Made, Assigned, Finalised, Stack, Watched])
def test_classes_that_are_called_as_they_are(cls: Any) -> None:
    def make() -> Any:
        return (lambda x: cls(x * 2)), numbers, lambda: None

    agrees(make, compiled=0)


class Hidden(Slotted):
    """With a property that hides a slot."""

    @property
    def n(self) -> Any:  # type: ignore[override]
        """What the slot of that name holds, twice."""
        return Slotted.__dict__["n"].__get__(self) * 2

    @n.setter
    def n(self, value: Any) -> None:
        Slotted.__dict__["n"].__set__(self, value)


def test_a_property_that_hides_a_slot() -> None:
    def make() -> Any:
        def step(x: Any) -> Any:
            made = Hidden(x)
            made.n = 3
            return made, made.n

        return step, numbers, lambda: None

    agrees(make, compiled=0)


def test_objects_that_are_appended() -> None:
    def make() -> Any:
        history: list[Any] = []

        def step(x: Any) -> Any:
            made = State(x * 2, len(x))
            history.append(made)
            history.append((made, x))
            return made

        return step, numbers, lambda: history

    agrees(make, compiled=6)


def test_addresses_of_what_is_made() -> None:
    def step(x: Any) -> Any:
        made = State(x * 2)
        return made, id(made)

    fast = jit(step)
    for i in range(9):
        made, address = fast(*numbers(i))
        assert address == id(made)


def test_a_class_that_the_step_makes() -> None:
    def make() -> Any:
        def step(x: Any) -> Any:
            class Local:
                def __init__(self) -> None:
                    self.w = x * 2

            return Local()

        return step, numbers, lambda: None

    agrees(make, compiled=0)


def test_functions_that_hold_what_a_step_has_computed() -> None:
    def make() -> Any:
        kept: dict[str, Any] = {"add": None}

        def step(x: Any) -> Any:
            y, total = x * 2, x.sum()

            def scaled(z: Any, *, k: Any = total) -> Any:
                return z * k

            kept["add"] = lambda z: z + y
            return scaled, (lambda z: scaled(z) + y)

        def called(x: Any) -> Any:
            functions = *step(x), kept["add"]
            return [f(z) for f in functions for z in (0.0, 1.0)]

        return called, numbers, lambda: None

    agrees(make, compiled=0)


def test_functions_that_a_compiled_step_returns() -> None:
    def made() -> Any:
        step = jit(lambda x: (x.sum(), lambda z: z + x, State(lambda z: z * x)))

        def called(x: Any) -> Any:
            total, add, state = step(x)
            return total, add(1.0), state.w(2.0)

        return called

    compiled = made()
    for i in range(9):
        (x,) = numbers(i)
        assert_same(compiled(x), (x.sum(), x + 1.0, x * 2.0))
