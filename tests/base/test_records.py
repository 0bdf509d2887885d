"""Records are the classes that ``dataclass`` makes, whose methods are written later."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import pytest

from yota_py.base.records import record, written


@record()
class Point:
    """A place."""

    x: float
    y: float = 0.0
    names: list[str] = field(default_factory=list)
    count: ClassVar[int] = 3

    def doubled(self) -> Point:
        return replace(self, x=2 * self.x)


@record()
class Labelled(Point):
    label: str = ""


@record(frozen=False, eq=False)
class Loose:
    x: int

    def __repr__(self) -> str:
        return "loose"


@record()
class NeverMade:
    a: int
    b: int = 2


@dataclass(frozen=True, slots=True)
class Usual:
    x: float
    y: float = 0.0
    names: list[str] = field(default_factory=list)


def test_they_are_dataclasses() -> None:
    point = Point(1.0)
    assert (point.x, point.y, point.names, Point.count) == (1.0, 0.0, [], 3)
    assert is_dataclass(point)
    assert [x.name for x in fields(point)] == ["x", "y", "names"]
    assert point == Point(1.0, 0.0, [])
    assert point != Point(1.0, 1.0)
    assert repr(point) == "Point(x=1.0, y=0.0, names=[])"
    assert point.doubled() == Point(2.0)
    assert Point.__match_args__ == ("x", "y", "names")
    assert not hasattr(point, "__dict__")
    assert hash(Labelled(1.0, names=(), label="a")) == hash(Labelled(1.0, names=(), label="a"))  # type: ignore[arg-type]
    assert repr(Labelled(1.0, label="a")) == "Labelled(x=1.0, y=0.0, names=[], label='a')"
    assert {Labelled(1.0, names=()): 3}[Labelled(1.0, names=())] == 3  # type: ignore[arg-type]
    assert [*inspect.signature(Point).parameters] == [*inspect.signature(Usual).parameters]
    assert repr(Loose(1)) == "loose"
    assert Loose(1) != Loose(1)


def test_nothing_can_be_assigned() -> None:
    point: Any = Point(1.0)
    for name in ("x", "other"):
        with pytest.raises(FrozenInstanceError, match=f"assign to field '{name}'"):
            setattr(point, name, 2)
    with pytest.raises(FrozenInstanceError, match="delete field 'x'"):
        del point.x
    loose: Any = Loose(1)
    loose.x = 2
    assert loose.x == 2
    with pytest.raises(AttributeError):
        loose.y = 1


@pytest.mark.parametrize("args", [(), (1, 2, 3, 4), ("x",)])
def test_wrong_arguments_are_python_errors(args: Any) -> None:
    if args == ("x",):
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            Point(1.0, z=3)  # type: ignore[call-arg]
    else:
        with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
            Point(*args)


def test_copies_and_pickles() -> None:
    for x in (Labelled(1.0, 2.0, ["a"], "b"), Point(3.0)):
        assert copy.copy(x) == copy.deepcopy(x) == pickle.loads(pickle.dumps(x)) == x


def test_fields_are_known_to_who_asks() -> None:
    assert [x.name for x in fields(written(NeverMade))] == ["a", "b"]
    assert NeverMade(1) == NeverMade(1, 2)


def test_first_instances_of_many_threads() -> None:
    for _ in range(20):

        @record()
        class Fresh:
            x: int
            y: int = 1

        made: list[Any] = []
        start = threading.Barrier(4)

        def make(cls: Any = Fresh, made: list[Any] = made, start: Any = start) -> None:
            start.wait()
            made.append(cls(5))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [Fresh(5)] * 4


def test_one_that_holds_itself_is_written_out() -> None:
    point = Point(1.0, names=[])
    point.names.append(point)  # type: ignore[arg-type]
    assert repr(point) == "Point(x=1.0, y=0.0, names=[...])"


def test_an_interrupt_while_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    @record()
    class Fresh:
        x: int

    def interrupted(**options: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("yota_py.base.records.dataclass", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Fresh(1)
    assert Fresh(1) == Fresh(1)
