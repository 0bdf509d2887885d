"""Attributes of objects are looked up without code of the user's: ``__getattr__`` hears what the function asks for."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from yota_py import checkpoint, config, grad, gradient, hessian, jit, pullback, trace, value_and_grad, vmap
from yota_py.base.containers import attribute_of, dict_of, held_by, items_of, shows_dict, with_items
from yota_py.base.signatures import wraps

X = np.array([1.0, 2.0, 3.0])


class Logging:
    """Notes what it is asked for."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __getattr__(self, name: str) -> float:
        self.seen.append(name)
        if name != "scale":
            raise AttributeError(name)
        return 3.0


class Counting:
    """Gives another value each time."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0

    def __getattr__(self, name: str) -> float:
        self.seen += 1
        return float(self.seen)


class Drawing:
    """Draws what it gives."""

    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __getattr__(self, name: str) -> float:
        value = self.rng.normal()
        if name != "scale":
            raise AttributeError(name)
        return value

    @property
    def seen(self) -> Any:
        return self.rng.bit_generator.state["state"]


class Odd:
    """Raises what nobody expects."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0

    def __getattr__(self, name: str) -> float:
        if name != "scale":
            raise ZeroDivisionError(name)
        self.seen += 1
        return 2.0


class Defaults:
    """Has a value for every name."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: dict[str, float] = {}

    def __getattr__(self, name: str) -> float:
        return self.seen.get(name, 1.5)


class Shown:
    """Shows something else for its dict."""

    def __init__(self) -> None:
        self.scale, self.seen = 2.0, 0

    @property
    def __dict__(self) -> Any:
        self.seen += 1
        return {"scale": 7.0}


class Half:
    """Has slots, of which one is empty, and a dict."""

    __slots__ = ("__dict__", "empty", "seen")

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __getattr__(self, name: str) -> float:
        self.seen.append(name)
        if name.startswith("__"):
            raise AttributeError(name)
        return 4.0

    @property
    def scale(self) -> float:
        return self.empty  # type: ignore[attr-defined, no-any-return]


CLASSES = [Logging, Counting, Drawing, Odd, Defaults, Shown, Half]


def _global(box: Any) -> Callable[[Any], Any]:
    space = {"np": np, "box": box, "__name__": __name__}
    exec("def f(x): return np.sum(x * box.scale)", space)
    return space["f"]  # type: ignore[return-value]


def _closure(box: Any) -> Callable[[Any], Any]:
    return lambda x: np.sum(x * box.scale)


def _listed(box: Any) -> Callable[[Any], Any]:
    boxes = [box, {"of": (box,)}]
    return lambda x: np.sum(x * boxes[0].scale) + boxes[1]["of"][0].scale


def _attribute(box: Any) -> Callable[[Any], Any]:
    held = SimpleNamespace(box=box)
    return lambda x: np.sum(x * held.box.scale)


def _argument(box: Any) -> Callable[[Any], Any]:
    def f(x: Any, box: Any, boxes: Any) -> Any:
        return np.sum(x * box.scale) * boxes[0].scale

    return lambda x: f(x, box, [box])


def _bound(box: Any) -> Callable[[Any], Any]:
    return partial(lambda of, x: np.sum(x * of.scale), box)


PLACES = [_global, _closure, _listed, _attribute, _argument, _bound]


def _value(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    g = value_and_grad(f)
    return lambda x: g(x)[0]


TRANSFORMS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "value_and_grad": _value,
    "jit": jit,
    "grad": lambda f: lambda x: grad(f, x)[0],
    "pullback": lambda f: lambda x: pullback(f, x)[0],
    "of a gradient": lambda f: _value(lambda x: np.sum(value_and_grad(f)(x)[0])),
}


@pytest.fixture(params=["never", "always", "auto"])
def _compile(request: pytest.FixtureRequest) -> Iterator[None]:
    before = config.compile, config.background
    config.compile, config.background = request.param, False
    yield
    config.compile, config.background = before


@pytest.mark.usefixtures("_compile")
@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_objects_hear_what_plain_calls_ask(cls: type, place: Callable[[Any], Any], transform: str) -> None:
    plain, traced = cls(), cls()
    f, g = place(plain), TRANSFORMS[transform](place(traced))
    for _ in range(4):
        assert float(g(X)) == pytest.approx(float(f(X)), rel=1e-14)
    assert traced.seen == plain.seen


@pytest.mark.usefixtures("_compile")
@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("transform", [value_and_grad, jit, lambda f: partial(grad, f), lambda f: partial(pullback, f)])
def test_objects_that_are_passed_hear_it_too(cls: type, transform: Callable[[Any], Any]) -> None:
    def f(x: Any, box: Any, boxes: Any) -> Any:
        return np.sum(x * box.scale) * boxes["a"].scale

    plain, traced = cls(), cls()
    g = transform(f)
    for _ in range(4):
        value = g(X, traced, {"a": traced})
        value = value[0] if isinstance(value, tuple) else value
        assert float(value) == pytest.approx(float(f(X, plain, {"a": plain})), rel=1e-14)
    assert traced.seen == plain.seen


class Model(Defaults):
    """A function that has a value for every name."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> float:
        self.asked.append(name)
        return 2.5

    def __call__(self, x: Any) -> Any:
        return np.sum(x * x) * self.scale


class Refusing(Model):
    """Raises what nobody expects, and has a dict."""

    def __getattr__(self, name: str) -> float:
        if name != "scale":
            raise ZeroDivisionError(name)
        return super().__getattr__(name)


CALLED: dict[str, Callable[[Any], Any]] = TRANSFORMS | {
    "trace": lambda f: lambda x: trace(f, x) and f(x),
    "gradient": lambda f: lambda x: gradient(f)(x)[0] / x[0] / 2.0 * np.sum(x * x),
    "hessian": lambda f: lambda x: hessian(f)(x)[0, 0] / 2.0 * np.sum(x * x),
    "checkpoint": lambda f: lambda x: value_and_grad(checkpoint(f))(x)[0],
    "vmap": lambda f: lambda x: vmap(f)(x[None])[0],
    "map": lambda f: lambda x: grad(lambda x: next(map(f, [x])), x)[0],
}


@pytest.mark.usefixtures("_compile")
@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("cls", [Model, Refusing])
@pytest.mark.parametrize("transform", CALLED)
def test_functions_that_are_objects(cls: Any, transform: str) -> None:
    model = cls()
    g = CALLED[transform](model)
    for i in range(3):
        assert float(g(X + i)) == pytest.approx(float(np.sum((X + i) ** 2) * 2.5), rel=1e-13)
    assert {*model.asked} == {"scale"}


def test_what_is_made_of_such_functions_has_their_names() -> None:
    @wraps(Model())
    def made() -> None:
        pass

    assert (made.__name__, made.__doc__, made.__module__) == ("made", Model.__doc__, __name__)
    assert attribute_of(Model(), "scale") is None and attribute_of(Model(), "asked") == []
    assert repr(jit(Model())) == "<yota_py.jit of Model>"


class Asked:
    """Notes when its dict is read, which it has."""

    def __init__(self) -> None:
        object.__setattr__(self, "scale", 2.0)

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            raise ZeroDivisionError("it is asked for its dict")
        return object.__getattribute__(self, name)


class Slotted:
    """Notes when its slot is read."""

    __slots__ = ("scale", "seen")

    def __init__(self) -> None:
        self.scale, self.seen = 2.0, 0

    def __getattribute__(self, name: str) -> Any:
        if name == "scale":
            self.seen += 1
        return object.__getattribute__(self, name)


@pytest.mark.usefixtures("_compile")
@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("place", PLACES)
def test_nor_is_getattribute_asked_for_the_dict_or_slots(place: Callable[[Any], Any], transform: str) -> None:
    g = TRANSFORMS[transform](place(Asked()))
    plain, traced = Slotted(), Slotted()
    f, h = place(plain), TRANSFORMS[transform](place(traced))
    for _ in range(4):
        assert float(g(X)) == float(place(Asked())(X))
        assert float(h(X)) == float(f(X))
    assert traced.seen == plain.seen


def test_attributes_are_still_noticed() -> None:
    box = Shown()
    g = value_and_grad(_closure(box))
    for scale in (2.0, 3.0, 3.0, 5.0, 5.0):
        box.scale = scale
        value, slope = g(X)
        assert value == 6 * scale and slope.tolist() == [scale] * 3


def test_attributes_are_written_where_they_are() -> None:
    def f(x: Any) -> Any:
        box.scale = np.sum(x)
        return box.scale * 2.0

    box = Shown()
    g = jit(f)
    for i in range(4):
        assert g(X + i) == 12.0 + 6 * i
        assert float(box.scale) == 6.0 + 3 * i
    assert box.seen == 0


class Meta(type):
    def __getattr__(cls, name: str) -> Any:
        raise ZeroDivisionError(name)


def test_what_has_no_dict() -> None:
    asked = Logging(), Odd(), Counting()
    for obj in (*asked, Defaults(), 1.0, X, [1], (), object(), weakref.ref(Meta)):
        assert dict_of(obj) is None
    assert not any(obj.seen for obj in asked)


def test_the_dicts_of_objects() -> None:
    class Own(metaclass=Meta):
        pass

    own, function = Own(), lambda: None
    others = SimpleNamespace(a=1), partial(max), ValueError(), np.vectorize(len), ModuleType("m")
    for obj in (own, function, np, *others):
        assert dict_of(obj) is obj.__dict__ is not None
        assert shows_dict(type(obj))
    assert type(dict_of(Own)) is MappingProxyType and dict_of(Own) == vars(Own)
    assert dict_of(weakref.proxy(own)) is None
    shown, asked = Shown(), Asked()
    assert dict_of(shown) == held_by(shown) == {"scale": 2.0, "seen": 0}
    assert dict_of(asked) == held_by(asked) == {"scale": 2.0}
    assert not (shows_dict(Shown) or shows_dict(Asked))


def test_the_dict_of_a_thread() -> None:
    class Local(threading.local):
        pass

    for made in (threading.local(), Local()):
        made.w = 1.0
        assert dict_of(made) == {"w": 1.0} == made.__dict__


def test_a_dataclass_is_made_anew_with_what_it_holds() -> None:
    @dataclass
    class Pair:
        a: Any
        b: Any

        def __getattribute__(self, name: str) -> Any:
            assert name != "__dict__"
            return object.__getattribute__(self, name)

    pair = Pair(1.0, 2.0)
    assert items_of(pair) == [1.0, 2.0]
    pair.extra = 5  # type: ignore[attr-defined]
    made = with_items(pair, [3.0, 4.0])
    assert dict_of(made) == {"a": 3.0, "b": 4.0, "extra": 5}
