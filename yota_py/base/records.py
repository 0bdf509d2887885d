"""Classes of records, of which ``dataclasses`` writes the methods when the first instance is made.

``dataclass`` compiles six small functions for each class, half a millisecond. There are more than a hundred such
classes here, and a program that compiles nothing makes instances of few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields
from inspect import get_annotations
from typing import Any, TypeVar, dataclass_transform

from . import locks

T = TypeVar("T", bound=type)

_unwritten: dict[type, Callable[[], None]] = {}  # what writes their methods
_WRITTEN = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__repr__", "__eq__", "__hash__")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(*, frozen: bool = True, eq: bool = True, repr: bool = True) -> Callable[[T], T]:
    """``dataclass(slots=True)`` of a class whose base classes, if it has any, are records or have no fields.

    >>> @record()
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> Point(1.0)
    Point(x=1.0, y=0.0)
    """

    def decorate(cls: T) -> T:
        own = tuple([name for name, said in get_annotations(cls).items() if not str(said).startswith("ClassVar")])
        whole = {name: x for name, x in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        without = {name: x for name, x in whole.items() if name not in own}  # values by default
        made: Any = type(cls)(cls.__name__, cls.__bases__, {**without, "__slots__": own})
        made.__qualname__ = cls.__qualname__

        def write() -> None:
            for base in made.__mro__[:0:-1]:
                written(base)
            model: type = dataclass(frozen=frozen, eq=eq, repr=repr)(type(cls)(cls.__name__, cls.__bases__, {**whole}))
            for name in (*_WRITTEN, "__init__"):
                if name in vars(model):
                    setattr(made, name, vars(model)[name])

        def first(self: Any, *args: Any, **kwargs: Any) -> None:
            written(made).__init__(self, *args, **kwargs)

        made.__init__, made.__getstate__, made.__setstate__ = first, _state, _set_state
        if frozen:
            made.__setattr__, made.__delattr__ = _refuse, _refuse
        _unwritten[made] = write
        return made  # type: ignore[no-any-return]

    return decorate


def written(cls: T) -> T:
    """A class with all its methods; whoever asks for its fields needs it, too."""
    if cls in _unwritten:
        with locks.tables:
            if (write := _unwritten.get(cls)) is not None:
                write()
                del _unwritten[cls]
    return cls


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}" if value else f"cannot delete field {name!r}")


def _state(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, x.name) for x in fields(self)])


def _set_state(self: Any, state: tuple[Any, ...]) -> None:
    for x, value in zip(fields(written(type(self))), state, strict=True):  # type: ignore[arg-type]
        object.__setattr__(self, x.name, value)
