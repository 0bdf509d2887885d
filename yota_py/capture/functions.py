"""Functions, methods and partials as what they are made of, so that a step can make others like those of its trace."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

from ..base import containers

_OWN = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__")
WRITABLE = {FunctionType: {*_OWN, "__defaults__", "__kwdefaults__"}, CellType: {"cell_contents"}}


def held_by(obj: Any) -> dict[str, Any]:
    """What an object, a method, a partial or a cell holds under names; of a function, what makes it of another one of
    the same code and cells."""
    if isinstance(obj, CellType):
        return {} if obj == CellType() else {"cell_contents": obj.cell_contents}
    if isinstance(obj, MethodType):
        return {"__func__": obj.__func__, "__self__": obj.__self__}
    if isinstance(obj, FunctionType):
        return _held_by_function(obj)
    if isinstance(obj, partial):
        return {"func": obj.func, "args": obj.args, "keywords": obj.keywords, **obj.__dict__}
    return containers.held_by(obj)


def _held_by_function(fn: FunctionType) -> dict[str, Any]:
    like = FunctionType(fn.__code__, fn.__globals__, None, None, fn.__closure__)
    held = {name: value for name in _OWN if (value := getattr(fn, name)) != getattr(like, name)}
    if annotations := held.pop("__annotations__", None):
        held["__annotations__"] = dict(annotations)
    held |= {name: value for name in ("__defaults__", "__kwdefaults__") if (value := getattr(fn, name)) is not None}
    return held | fn.__dict__


def binds(value: Any) -> bool:
    """Whether a value is a method, or a partial that has no attributes."""
    return type(value) is MethodType or (type(value) is partial and not value.__dict__)


def parts_of(bound: Any) -> list[Any]:
    """The function of a method or partial, and what it is bound to."""
    if type(bound) is MethodType:
        return [bound.__func__, bound.__self__]
    return [bound.func, *bound.args, *bound.keywords.values()]


def with_parts(like: Any, parts: Sequence[Any]) -> Any:
    """A method or partial of other parts."""
    if type(like) is MethodType:
        return MethodType(*parts)
    values = parts[1 + len(like.args) :]
    return partial(parts[0], *parts[1 : 1 + len(like.args)], **dict(zip(like.keywords, values, strict=True)))
