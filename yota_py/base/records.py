"""Classes of records: dataclasses with slots, whose methods are written when the first instance is made.

``dataclass`` compiles six functions for each class, which takes a millisecond. There are more than a hundred such
classes here, and a program that compiles nothing makes instances of few. Here it is one function, and later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from inspect import get_annotations
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

from . import locks

T = TypeVar("T", bound=type)

_unwritten: dict[type, Callable[[], None]] = {}  # what writes their methods


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, frozen: bool = True, eq: bool = True, repr: bool = True, at_once: bool = False) -> Callable[[T], T]:
    """``dataclass(slots=True)`` of a class whose base classes, if it has any, are records or have no fields; written
    ``at_once`` if users see it.

    >>> @record()
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> Point(1.0)
    Point(x=1.0, y=0.0)
    """

    def decorate(cls: T) -> T:
        own = tuple(
            [name for name, said in get_annotations(cls).items() if "ClassVar" not in str(said).partition("[")[0]]
        )
        whole = {name: x for name, x in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        without = {name: x for name, x in whole.items() if name not in own}  # values by default
        made: Any = type(cls)(cls.__name__, cls.__bases__, {**without, "__slots__": own})
        made.__qualname__ = cls.__qualname__

        def write() -> None:
            for base in made.__mro__[:0:-1]:
                written(base)
            model: Any = type(cls)(cls.__name__, cls.__bases__, {**whole})
            model = dataclass(init=False, repr=False, eq=False)(model)
            for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__"):
                setattr(made, name, vars(model)[name])
            if repr and "__repr__" not in whole:
                made.__repr__ = _repr
            if eq:
                _add_comparison(made, whole, frozen=frozen)
            made.__init__ = _initializer(made, fields(model), frozen=frozen)

        def first(self: Any, *args: Any, **kwargs: Any) -> None:
            written(made).__init__(self, *args, **kwargs)

        made.__init__, made.__getstate__, made.__setstate__ = first, _state, _set_state
        if frozen:
            made.__setattr__, made.__delattr__ = _refuse, _refuse
        _unwritten[made] = write
        return written(made) if at_once else made  # type: ignore[no-any-return]

    return decorate


def written(cls: T) -> T:
    """A class with all its methods; whoever asks for its fields needs it, too."""
    if cls in _unwritten:
        with locks.tables:
            if (write := _unwritten.get(cls)) is not None:
                write()
                del _unwritten[cls]
    return cls


def _initializer(made: type, known: tuple[Field[Any], ...], *, frozen: bool) -> Callable[..., None]:
    """``__init__``, which puts values into their slots: of a frozen class by their descriptors, twice as fast as by
    ``object.__setattr__``."""
    space, parameters, lines = dict[str, Any](missing=MISSING), ["self"], ["pass"]
    for x in known:
        name, value = x.name, x.name
        if x.default_factory is not MISSING:
            space[f"make_{name}"] = x.default_factory
            value = f"make_{name}() if {name} is missing else {name}"
        has_default = x.default is not MISSING
        space[f"default_{name}"] = x.default
        parameters.append(f"{name}=default_{name}" if has_default or value != name else name)
        space[f"set_{name}"] = getattr(made, name).__set__
        lines.append(f"set_{name}(self, {value})" if frozen else f"self.{name} = {value}")
    body = "\n  ".join(lines)
    text = f"def make({', '.join(space)}):\n def __init__({', '.join(parameters)}):\n  {body}\n return __init__"
    found: dict[str, Any] = {}
    exec(text, vars(sys.modules[made.__module__]), found)
    init: Callable[..., None] = found["make"](**space)
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _add_comparison(made: Any, whole: Mapping[str, Any], *, frozen: bool) -> None:
    """``__eq__`` and ``__hash__``, as far as the class has none of its own."""
    names = [x.name for x in fields(made) if x.compare]
    compared: Callable[[Any], Any] = attrgetter(*names) if names else lambda self: ()

    def equal(self: Any, other: Any) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    if "__eq__" not in whole:
        made.__eq__ = equal
    if whole.get("__hash__") is None:
        made.__hash__ = (lambda self: hash((made, compared(self)))) if frozen else None


@recursive_repr()
def _repr(self: Any) -> str:
    said = ", ".join(f"{x.name}={getattr(self, x.name)!r}" for x in fields(self) if x.repr)
    return f"{type(self).__qualname__}({said})"


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}" if value else f"cannot delete field {name!r}")


def _state(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, x.name) for x in fields(self)])


def _set_state(self: Any, state: tuple[Any, ...]) -> None:
    for x, value in zip(fields(written(type(self))), state, strict=True):  # type: ignore[arg-type]
        object.__setattr__(self, x.name, value)
