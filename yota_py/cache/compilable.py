"""What ``value_and_grad``, ``gradient`` and ``jit`` make of functions, and how it goes to other processes."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from ..base.containers import attribute_of, dict_of
from ..base.tracebacks import folded
from ..capture.sinks import Arguments
from ..tape.show import name_of
from .functions import FunctionCache
from .modes import Mode, Request


def _of_function(name: str) -> Any:
    """What the function has under a name that is called."""
    return property(attrgetter(f"_fn.{name}"), lambda self, value: setattr(self._fn, name, value))


def _free(name: str) -> Any:
    """What a partial has under a name, to which the user may give another meaning."""
    member = vars(partial)[name]

    def read(self: Any) -> Any:
        return self.__dict__.get(name, member.__get__(self))

    def write(self: Any, value: Any) -> None:
        self.__dict__[name] = value

    return property(read, write, lambda self: self.__dict__.__delitem__(name))


class Compilable(partial[Any]):
    """What a transform has made of a function: it calls a function of Python's, which goes through a cache.

    Whoever asks is told that it is a function itself (as ``inspect``, ``help`` and cloudpickle do), and finds what
    functions have. Only pickle looks closer; it could save a function by nothing but its name.
    """

    __slots__ = ("_transform",)
    if TYPE_CHECKING:  # annotations of the class would be found for those of the function
        __qualname__: str
        compile: Callable[..., None]
        __yota_cache__: FunctionCache
        _transform: tuple[Callable[..., Any], tuple[Any, ...]]  # what has made it, of a function and options

    def __new__(
        cls, fn: Callable[..., Any], cache: FunctionCache, transform: Callable[..., Any], of: tuple[Any, ...],
        given: Callable[..., Arguments] | None = None,
        compile_call: Callable[[FunctionCache, Request], None] = FunctionCache.compile,
    ) -> Compilable:  # fmt: skip
        """``fn`` wraps the function; ``given`` tells what the cache is asked for, if not for that."""
        f = of[0]

        @folded
        def compile(*args: Any, **kwargs: Any) -> None:
            """Compile for arguments of these types; raises ``CompileError`` if calls cannot share a program."""
            call = given(args, kwargs) if given is not None else (f, args, kwargs)
            compile_call(cache, Request(*call, objects=cache.mode.effects))

        made = super().__new__(cls, fn)
        made._transform = transform, of
        made.__dict__.update(vars(fn), **{name: getattr(fn, name) for name in _NAMES})
        made.__dict__.update(compile=compile, __yota_cache__=cache)
        return made

    @property  # type: ignore[misc]  # object's can be assigned, this one only asked
    def __class__(self) -> Any:
        return FunctionType

    _fn = vars(partial)["func"]
    func, args, keywords = map(_free, ("func", "args", "keywords"))
    __code__, __globals__, __builtins__ = map(_of_function, ("__code__", "__globals__", "__builtins__"))
    __closure__, __defaults__, __kwdefaults__ = map(_of_function, ("__closure__", "__defaults__", "__kwdefaults__"))
    __annotations__, __annotate__ = map(_of_function, ("__annotations__", "__annotate__"))
    __type_params__ = _of_function("__type_params__")

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        return self if obj is None else MethodType(self, obj)

    def __repr__(self) -> str:
        transform, (f, *_) = self._transform
        of = repr(f)[1:-1] if type(f) is Compilable else attribute_of(f, "__qualname__") or name_of(f)
        return f"<yota_py.{name_of(transform)} of {of}>"

    def __reduce__(self) -> Any:
        """By its name, if it has one, as the function that it decorates; or how it was made, with attributes that it
        was given. The cache of the other one is empty."""
        found: Any = sys.modules.get(self.__module__)
        for name in self.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is self:
            return self.__qualname__
        transform, of = self._transform
        known = _own(of[0]) | {name: getattr(self._fn, name) for name in _NAMES}
        given = {name: value for name, value in vars(self).items()
                 if name not in _OURS and not (name in known and known[name] is value)}
        return transform, of, given or None

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __copy__(self) -> Compilable:
        return self

    def __deepcopy__(self, memo: Any) -> Compilable:
        return self


_NAMES = ("__module__", "__name__", "__qualname__", "__doc__")
_OURS = frozenset(["__wrapped__", "__yota_cache__", "compile"])


def _own(f: Any) -> dict[str, Any]:
    own = dict_of(f)
    return own if isinstance(own, dict) else {}


def _emptied(cache: FunctionCache) -> tuple[type[FunctionCache], tuple[Callable[[], Any], Mode]]:
    """How a cache is pickled, with the function that goes through it (by cloudpickle, as in joblib): empty."""
    return FunctionCache, (partial(_itself, cache.owner), cache.mode)


def _itself(owner: Any) -> Any:
    return owner


copyreg.pickle(FunctionCache, _emptied)  # type: ignore[arg-type]
