"""What stands in, while a trace runs, for functions, classes and objects that do not notice traced values."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from functools import wraps
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ..base.dispatch import dispatching, original, originals
from ..base.unwinding import state
from .contents import own_attributes
from .contents import states as states
from .registry import listeners

# Functions and methods that do not dispatch on their arguments are replaced while a trace is active: (module or class,
# name) -> stand-in.
patched: dict[tuple[ModuleType | type, str], Callable[..., Any]] = {}
# What tells of the arguments of a method whether its stand-in is needed; of all others, whether there are traced ones.
finders: dict[Callable[..., Any], Callable[..., bool]] = {}
# Those that are called whoever calls: also C code.
anywhere_called: set[Callable[..., Any]] = set()
# Those of methods that run as if no trace were active, of a library's objects, where they are given nothing traced.
inner_methods: set[Callable[..., Any]] = set()

# What a module shows where the user's code calls what it has under a name, while a trace runs: by the class of that,
# what makes it (of that, and what to call in the end), or by its identity, itself and what is shown.
makers: dict[type, Callable[[Any, Callable[..., Any]], Any]] = {}
shown: dict[int, tuple[Any, Any]] = {}
shown_always: set[int] = set()  # the identities of what is shown wherever the user's code asks for it
# By classes of C, whose methods cannot be exchanged: what makes of one of their objects one that notices traced values.
instances: dict[type, Callable[[Any], Any]] = {}
# By classes of rules whose objects stand for a library's while a trace runs: what makes the object itself, if
# its values have become plain; it is given the one, and what makes a value plain.
standing_for: dict[type, Callable[[Any, Callable[[Any], Any]], Any]] = {}
# By the code that asks for a plain array, how it is made of a traced one, where contents alone are not enough.
conversions: dict[CodeType, Callable[[Any], np.ndarray]] = {}

# Modules of libraries that are traced through, by their names.
open_modules: dict[str, ModuleType] = {}
# By classes whose arithmetic is not NumPy's, what stands for an object beside a traced value, made of it and of what
# makes constants of arrays; it gives ``None`` for one that is like an array.
meeting: dict[type, Callable[[Any, Callable[[np.ndarray], Any]], Any]] = {}
# Attributes in which objects of a library may hold traced values, by the stand-in of their method.
holding: dict[Callable[..., Any], tuple[str, ...]] = {}


def patch(
    owner: ModuleType | type, name: str, stand_in: Callable[..., Any] | None = None, *, holds: tuple[str, ...] = (),
    anywhere: bool = False, inner: bool = False, finder: Callable[..., bool] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A stand-in for ``owner.name`` that notices traced arguments; it takes that place while a trace is active.

    For functions that do not dispatch by themselves (``math.sin``, ``scipy.special.logsumexp``), and methods of
    classes, whose objects may hold traced values in the attributes that ``holds`` names. By default the stand-in is a
    primitive that computes the same: register its rule. One that is called ``anywhere`` is called by C code and
    libraries as well. An ``inner`` method calls nothing of the user's, nor draws random numbers: given nothing traced,
    it is the library's own, whatever it calls in turn. ``finder`` tells of the arguments of a method whether its
    stand-in is needed, for a class whose objects are compared in a way of their own. Returns the stand-in.

    Raises AttributeError for what the owner has not, or has inherited: that stands in another class.
    """
    fn = getattr(owner, name)
    if name not in vars(owner):
        home = next((cls for cls in getattr(owner, "__mro__", ()) if name in vars(cls)), owner)
        raise AttributeError(f"{owner.__name__} has no {name} of its own: patch({home.__name__}, {name!r})")
    again = (owner, name) in patched
    patched[owner, name] = stand_in = stand_in or dispatching(original(fn))
    if finder is not None:
        finders[stand_in] = finder
    elif isinstance(owner, type):
        states.setdefault(owner, own_attributes)
    if holds:
        holding[stand_in] = holds
    if anywhere:
        anywhere_called.add(stand_in)
    if inner:
        inner_methods.add(stand_in)
    if again:
        for forget in listeners:
            forget()
    return stand_in


def makes_constants(module: ModuleType, *names: str) -> None:
    """Functions that make arrays of numbers: those that the user's code gets while it is traced stand on the tape."""
    for name in names:
        patched.setdefault((module, name), getattr(module, name))


def open_to_traces(*modules: ModuleType) -> None:
    """Let functions of these modules of a library be traced through where ``through`` calls them."""
    open_modules.update({module.__name__: module for module in modules})


def through(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a library that is traced through: what is in the modules that are open is given stand-ins."""

    @wraps(fn)
    def traced(*args: Any, **kwargs: Any) -> Any:
        state.through += 1
        try:
            return fn(*args, **kwargs)
        finally:
            state.through -= 1

    return traced


def traced_through() -> bool:
    """Whether the code that runs is a library's, called by a function that is traced through."""
    return state.through > 0


def writer(owner: ModuleType | type, names: Iterable[str]) -> Callable[[dict[str, Any]], None]:
    """What gives a module or class other values under these names. To set an attribute of a class takes up to 5 µs, and
    a few hundred are exchanged at each trace: for an operator, Python looks at what each subclass has of its own in C.
    Where operators are functions there is nothing to be found, and values go into the dict, all but one: as that is
    set, Python forgets what it knew of the class."""
    if not issubclass(type(owner), type):
        return vars(owner).update
    last, *_ = *(name for name in names if not name.startswith("__")), ""
    operators = [original(vars(owner).get(name)) for name in names if name.startswith("__")]
    space, *_ = gc.get_referents(vars(owner))
    quick = last and type(space) is dict and all(type(value) is FunctionType for value in operators)

    def write(values: dict[str, Any]) -> None:
        if quick and last in values:
            space.update(values)
            values = {last: values[last]}
        for name, value in values.items():
            setattr(owner, name, value)

    return write


def show(value: Any, stand_in: Any, *, always: bool = False) -> None:
    """Let modules show ``stand_in`` for a class, function or object where it is called, or ``always``."""
    originals[id(stand_in)] = value
    shown[id(value)] = value, stand_in  # for good: identities are not to be used again
    if always:
        shown_always.add(id(stand_in))
