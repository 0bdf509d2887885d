"""Stand-ins for ``float``, ``int`` and ``round``, and for what is imported by name, where the user's code calls them.

What Python makes itself of a traced number is a decision on its value: another loss at each call would be another path.
The stand-ins give a traced number of Python's, which becomes a decision when somebody takes one with it. (``bool`` has
two values only, and may be compared by identity.)
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from functools import wraps
from types import CodeType
from typing import Any, ClassVar

import numpy as np

from ..base.dispatch import is_traced, originals
from ..base.types import LARGE
from ..registry.registry import methods
from ..registry.tangents import astype
from ..tracing.showing import shown_for
from .bytecode import names_of, nested
from .places import Builtin, Exchange, Item, Spot


def _number(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The only argument, if it is a traced real number without derivative; else ``None``."""
    x = args[0] if len(args) == 1 and not kwargs else None
    if x is None or not is_traced(x) or np.ndim(x) or isinstance(x, complex | str) or x._carries():
        return None
    return x if getattr(getattr(x, "dtype", None), "kind", "f") in "fiub" else None


def _is_python(x: Any, *classes: type) -> bool:
    return isinstance(x, classes) and not isinstance(x, np.generic)


def _to_whole(x: Any, function: Callable[[Any], Any], python: Callable[[Any], Any]) -> Any:
    """A number as a whole one, if a program can compute it exactly."""
    kind = x.dtype.kind if hasattr(x, "dtype") else np.dtype(x.__class__).kind
    if kind == "b":
        return methods["item"](astype(x, np.dtype(np.int64)))
    if kind in "iu":
        return x if _is_python(x, int) else methods["item"](x)
    if not np.less(np.abs(astype(x, np.dtype(float))), LARGE):  # NaN neither
        return python(x)
    return methods["item"](astype(function(x), np.dtype(np.int64)))


class _Conversion(type):
    """Makes a class look like ``python``, and its calls follow traced numbers."""

    python: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        x = _number(args, kwargs)
        return cls.python(*args, **kwargs) if x is None else cls.convert(x)  # type: ignore[attr-defined]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.python)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.python)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.python

    def __hash__(cls) -> int:
        return hash(cls.python)


class Float(float, metaclass=_Conversion):
    """The stand-in for ``float``."""

    python: ClassVar[type] = float
    dtype: ClassVar[Any] = np.dtype(float)
    convert = staticmethod(lambda x: x if _is_python(x, float) else methods["item"](astype(x, np.dtype(float))))


class Int(int, metaclass=_Conversion):
    """The stand-in for ``int``: numbers without their fractions."""

    python: ClassVar[type] = int
    dtype: ClassVar[Any] = np.dtype(int)
    convert = staticmethod(lambda x: _to_whole(x, np.trunc, int))


@wraps(round, updated=())
def rounded(*args: Any, **kwargs: Any) -> Any:
    """The stand-in for ``round``: the nearest whole number, the even one of two."""
    x = _number(args, kwargs)
    return round(*args, **kwargs) if x is None else _to_whole(x, np.rint, round)


Codes = Mapping[tuple[int, int], CodeType]  # what runs, by the identities of the code and its name space
_STAND_INS: dict[str, Any] = {"float": Float, "int": Int, "round": rounded}
originals.update({id(Float): float, id(Int): int, id(rounded): round})


class Conversions:
    """What takes the places of the builtins in name spaces of the user's, while what runs there does nothing but call
    them."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._taken: dict[tuple[int, str], tuple[Spot, Any]] = {}  # with what stands there now

    def take(self, namespace: dict[str, Any], name: str, codes: Codes) -> None:
        """A name in code of this name space that stands for a builtin, or for what its module shows otherwise
        (``from numpy import sqrt``)."""
        is_own = name in namespace
        value = namespace[name] if is_own else getattr(builtins, name, None)
        stand_in = None if is_traced(value) else shown_for(value)
        if not is_own:
            stand_in = _STAND_INS.get(name, stand_in)
        running = (code for (_, of), code in codes.items() if of == id(namespace))
        if stand_in is None or any(_needs_itself(code, name, stand_in) for code in running):
            return
        place = (Item if is_own else Builtin)(namespace, name)
        self._taken[id(namespace), name] = place, stand_in
        self._exchange.put(value, stand_in, place)

    def heed(self, namespace: dict[str, Any], code: CodeType) -> None:
        """More code runs in a name space."""
        for (of, name), (place, stand_in) in list(self._taken.items()):
            if of == id(namespace) and _needs_itself(code, name, stand_in):
                self._exchange.take_back(place)
                del self._taken[of, name]


def _needs_itself(code: CodeType, name: str, stand_in: Any) -> bool:
    """Whether code loads a global name for anything else than to call it, or, of a class, to ask for its instances."""
    every = [names_of(part) for part in nested(code)]
    is_class = isinstance(stand_in, type)
    return any(name in names.mentioned or (name in names.classes and not is_class) for names in every)
