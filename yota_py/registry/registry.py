"""Primitives and their rules: one entry per NumPy function, written in one place.

A *rule* is ordinary NumPy code: ``rule(*args, **kwargs) -> (y, pullback)`` with
``pullback(dy) -> one cotangent per positional argument`` (``None`` for zero or not differentiable).
The interpreter calls it with values; played on tracers it lowers itself to primitives for the compiler.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from ..base.containers import only
from ..base.dispatch import dispatching, original
from ..base.ownership import is_library, is_ours, named_module
from ..base.records import record
from ..base.unwinding import state
from ..errors import RuleError, RulesWarning
from ..tape.loop import Loop
from ..tape.show import name_of
from .cases import Case as Case  # registry is what modules of rules import
from .cases import Cases as Cases
from .cases import Sample as Sample
from .cases import case as case
from .kernels import Emitter, Kernel, kernel_of
from .partials import Pullback as Pullback
from .partials import Rule as Rule
from .partials import check_partials, check_vjps, rule_of_partials, rule_of_vjps
from .tangents import getfield

F = TypeVar("F", bound=Callable[..., Any])


@record(frozen=False)
class Primitive:
    """All that is known of one function.

    ``kernel`` says what the engine may do with it, ``None`` that it is called in Python; ``lowering`` is the same
    function written with simpler primitives, played while a tape is lowered; ``parts`` is the same for complex numbers,
    each given as a ``Parts`` of real ones, as is the result; ``cases`` draws test cases. With
    ``inline`` the lowering is played while the user's function is traced already: for functions whose result's shape
    depends on values, which the lowering guards with ``dispatch.decided``. A ``body`` is traced in the place of a
    call, as any function of the user's is. What ``fails`` raises exceptions for some values of the right shapes and
    dtypes; users' functions may. Nobody knows what ``users`` functions and rules (``users_rule``) write into: they are
    given arrays that are read-only. A ``selective`` rule is told which cotangents are ``wanted``. What is declared here
    is ``known`` to do nothing but compute; of other functions it is heeded, when they are recorded, whether they print,
    write files and the like.

    Where functions of Python numbers raise exceptions, machine code gives NaN or infinity: ``raises(y, *args)`` is a
    number that is true if they do, on which every trace decides after a call. ``decides(*args)`` is one before it, of
    the kind of number that they give. With ``unasked`` neither is asked where a number of NumPy's is among the
    arguments. What is called ``instead`` may give ``NotImplemented``.
    """

    fn: Callable[..., Any]
    rule: Rule | None = None
    kernel: Kernel | None = None
    lowering: Callable[..., Any] | None = None
    parts: Callable[..., Any] | None = None
    cases: list[Cases] = field(default_factory=list)
    raises: Callable[..., Any] | None = None
    decides: Callable[..., Any] | None = None
    unasked: bool = False
    instead: Callable[..., Any] | None = None
    nondiff: bool = False
    immediate: bool = False
    of_layout: bool = False
    inline: bool = False
    body: Callable[..., Any] | None = None
    fails: bool = False
    users: bool = False
    users_rule: bool = False
    selective: bool = False
    known: bool = False
    quick: bool | None = None  # whether its calls are recorded on a short way; unknown yet

    @property
    def name(self) -> str:
        """The name in printed tapes."""
        return name_of(self.fn)


entries: dict[Any, Primitive] = {}
# Methods and attributes of traced arrays as functions: ``x.sum(axis=0)`` is ``methods["sum"](x, axis=0)``.
methods: dict[str, Callable[..., Any]] = {}
properties: dict[str, Callable[[Any], Any]] = {}
# Functions that are methods of ufuncs: ``ufunc_methods[np.add, "reduce"]`` is ``np.sum``.
ufunc_methods: dict[tuple[np.ufunc, str], Callable[..., Any]] = {}
# What arrays are asked that is no operation on a tape: ``x.strides`` is ``readings["strides"](x)``.
readings: dict[str, Callable[[Any], Any]] = {}
# What an assignment to an attribute does: ``x.real = v`` is ``setters["real"](x, v)``.
setters: dict[str, Callable[[Any, Any], None]] = {}


# Called when the rule of a function or a stand-in is replaced by another: what was made of the old one is forgotten.
listeners: list[Callable[[], None]] = []


def primitive_of(fn: Any) -> Primitive | None:
    """The entry of a function, or ``None`` if nothing is registered for it."""
    try:
        entry = entries.get(fn)
    except TypeError:  # unhashable callable
        return None
    if entry is None and type(fn) is Loop:
        return fn.entry  # type: ignore[no-any-return]
    return entries.get(fn) if entry is None and load_pending(fn) else entry


def primitives() -> list[Primitive]:
    """All entries, each once (aliases share one).

    >>> "cumsum" in [entry.name for entry in primitives()]
    True
    """
    load_pending()
    return list({id(p): p for p in entries.values()}.values())


# Modules of rules that wait for a library: its module, and functions of other modules that need it.
_pending: dict[str, tuple[str, tuple[Any, ...]]] = {}


def on_import(library: str, rules: str, also: Iterable[Callable[..., Any]] = ()) -> None:
    """Import the module ``rules`` when somebody else has imported ``library``, so that we need not import it.

    ``also`` are functions from elsewhere whose derivatives need the library: their first use imports both.
    """
    _pending[rules] = (library, tuple(also))


def load_pending(fn: Any = None) -> bool:
    """Import the rules whose library is there by now, and of which ``fn`` may be, or that it waits for; whether there
    were any."""
    module = getattr(fn, "__module__", None)
    package = module.partition(".")[0] if isinstance(module, str) else ""
    pending = list(_pending.items())  # another thread may take some out
    ready = [
        rules for rules, (library, also) in pending
        if fn in also or (library in sys.modules and package in ("", library.partition(".")[0]))
    ]  # fmt: skip
    for rules in ready:
        state.suspended += 1  # what is imported here is not the traced function's
        try:
            with state.unwatched:
                importlib.import_module(rules)
        except Exception as error:  # any: they use what a library has for itself, and another version may not have it
            said = f"the rules in {rules} cannot be loaded with this version of the library"
            warnings.warn(f"{said} ({type(error).__name__}: {error})", RulesWarning, stacklevel=2)
        finally:
            state.suspended -= 1
        _pending.pop(rules, None)
    return bool(ready)


def _entry(fn: Callable[..., Any], aliases: Sequence[Callable[..., Any]] = ()) -> Primitive:
    fn = _recorded(_function(fn, "what is to get a rule"))
    users = _is_users(fn)
    entry = entries.get(fn) or Primitive(fn, fails=users, users=users, known=_is_declared_here())
    entry.quick = None
    for name in (fn, *map(_recorded, aliases)):
        entries[name] = entry
    return entry


def _recorded(fn: Callable[..., Any]) -> Callable[..., Any]:
    """What stands on tapes where a function is called."""
    here = _is_declared_here()
    return original(fn) if here else importlib.import_module(".noticing", __package__).recorded(fn)  # type: ignore[no-any-return]


def _function(fn: F, what: str) -> F:
    if callable(fn):
        return fn
    cls = type(fn).__name__
    raise TypeError(f"{what} is {'an' if cls[0] in 'aeiou' else 'a'} {cls}, no function")


def _is_declared_here() -> bool:
    frame = sys._getframe(2)
    while frame.f_globals is globals() and frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return is_ours(frame)


def _is_users(fn: Any) -> bool:
    return isinstance(fn, partial) or (callable(fn) and not is_library(named_module(fn)))


_NONE: Mapping[str, Callable[..., Any]] = {}


def describe(
    fn: Callable[..., Any],
    *,
    kernel: Kernel | str | Emitter | None = None,
    lowering: Callable[..., Any] | None = None,
    parts: Callable[..., Any] | None = None,
    inline: bool = False,
    fails: bool = False,
    aliases: Sequence[Callable[..., Any]] = (),
    cases: Cases | None = None,
    method: str | Mapping[str, Callable[..., Any]] = _NONE,
    attribute: str | Mapping[str, Callable[[Any], Any]] = _NONE,
    of_ufunc: tuple[np.ufunc, str] | None = None,
    raises: Callable[..., Any] | None = None,
    decides: Callable[..., Any] | None = None,
    unasked: bool = False,
    instead: Callable[..., Any] | None = None,
) -> Primitive:
    """Say what the engine may do with ``fn``, without a rule.

    The ``kernel`` of an elementwise function may be given by the name of a method of the maths builder, or as a
    function ``(k, *values) -> value``. ``aliases`` are functions that share the entry (``operator.mul`` and
    ``np.multiply``). Arrays have the function as a ``method`` or ``attribute`` of this name, or what is given for the
    name; it is the method ``of_ufunc``, "reduce" or "accumulate".
    """
    name = name_of(_function(fn, "what is to get a rule"))
    options = {"lowering": lowering, "cases": cases, "raises": raises, "decides": decides, "instead": instead}
    for what, option in options.items():
        if option is not None:
            _function(option, f"the option {what} of {name}")
    for given in (method, attribute):
        if not isinstance(given, str | Mapping):
            raise TypeError(f"{given!r} names no method or attribute for {name}; give a name, or a dict of functions")
    engine = None if kernel is None else kernel_of(kernel)
    entry = _entry(fn, aliases)
    entry.fails, entry.kernel = entry.fails or fails, engine or entry.kernel
    if lowering is not None:
        entry.lowering, entry.inline = lowering, inline
    entry.parts = parts or entry.parts
    if cases is not None:
        entry.cases.append(cases)
    methods.update({method: fn} if isinstance(method, str) else method)
    properties.update({attribute: fn} if isinstance(attribute, str) else attribute)
    if of_ufunc is not None:
        ufunc_methods[of_ufunc] = fn
    entry.raises, entry.decides = raises or entry.raises, decides or entry.decides
    entry.instead, entry.unasked = instead or entry.instead, unasked or entry.unasked
    return entry


class _RRule(Protocol):
    def __call__(
        self, fn: Callable[..., Any], *, selective: bool = False, **options: Any
    ) -> Callable[[Rule], Rule]: ...

    def of(self, fn: Callable[..., Any]) -> Callable[..., tuple[Any, Callable[[Any], Any]]]: ...


def _of(fn: Callable[..., Any]) -> Callable[..., tuple[Any, Callable[[Any], Any]]]:
    """The rule of a function, to be called: ``rrule.of(fn)(*args, **kwargs)`` is ``(y, pullback)``.

    It computes with the values it is given, and raises ``MissingRuleError`` for a function without a rule.

    >>> import numpy as np
    >>> y, pullback = rrule.of(np.multiply)(2.0, 3.0)
    >>> y, pullback(1.0)
    (np.float64(6.0), (np.float64(3.0), np.float64(2.0)))
    """
    applied = importlib.import_module(".applied", __package__)
    return applied.rule_of(_function(fn, "what has a rule"))  # type: ignore[no-any-return]


def _with_of(fn: Callable[..., Any]) -> _RRule:
    given: Any = fn
    given.of = _of
    return given  # type: ignore[no-any-return]


@_with_of
def rrule(fn: Callable[..., Any], *, selective: bool = False, **options: Any) -> Callable[[Rule], Rule]:
    """Decorator that registers the rule of ``fn``; ``options`` as in ``describe``.

    The rule takes the arguments of ``fn`` and returns ``(y, pullback)``; the pullback takes the cotangent of ``y`` and
    returns a tuple with one cotangent per positional argument, each of the argument's shape and dtype, or ``None``
    for an argument without derivative. A list or tuple argument gets a tuple of cotangents, another container one
    of its own structure. ``tangents.MISSING`` stands for a derivative that exists and has no formula: an error if it
    is needed. Of a result with several parts, those that nothing depends on have cotangents of zero. A rule may return
    ``NotImplemented``: then the derivative is that of the function's body, if it is a ``primitive``.

    ``rrule.of(fn)`` is the rule of a function, to be called. Raises TypeError for a plain function of the user's, whose
    calls are followed: make it a ``primitive``.

    >>> @primitive
    ... def cube(x):
    ...     return x * x * x
    >>> @rrule(cube)
    ... def cube_rule(x):
    ...     return cube(x), lambda dy: (dy * 3 * x * x,)
    """

    _function(fn, "what is to get a rule")

    def register(rule: Rule) -> Rule:
        _function(rule, f"the rule of {name_of(fn)}")
        entry = describe(fn, **options)
        _replacing(entry)
        entry.rule, entry.nondiff, entry.users_rule, entry.selective = rule, False, _is_users(rule), selective
        return rule

    return register


def _replacing(entry: Primitive) -> None:
    """Another rule of a function is given, perhaps."""
    if entry.rule is not None or entry.nondiff or entry.body is not None:
        for forget in listeners:
            forget()
    entry.body = None


def opened(fn: Callable[..., Any], body: Callable[..., Any], **options: Any) -> bool:
    """Let a ``body`` be traced where ``fn`` is called, if it is a user's; whether it is."""
    if users := _is_users(_function(body, f"the body of {name_of(fn)}")):
        open_body(importlib.import_module(".noticing", __package__).recorded(fn), body, **options)
    return users


def open_body(fn: Callable[..., Any], body: Callable[..., Any], **options: Any) -> None:
    """Let a ``body`` be traced where ``fn`` is called."""
    entry = describe(fn, **options)
    _replacing(entry)
    entry.rule, entry.nondiff, entry.body = None, False, body


def scalar_rule(fn: Callable[..., Any], *partials: Any, **options: Any) -> None:
    """Register an elementwise function by its partial derivatives, one per argument.

    A partial is a function ``(y, *args) -> dy/dx``, or a number if it is constant, or ``None`` if there is no
    derivative. Broadcasting is undone by itself; complex partials are conjugated (the gradient is dL/dRe + i dL/dIm).
    Raises ``TypeError`` for a partial that is something else, ``RuleError`` if there are more or fewer than arguments.

    >>> import numpy as np
    >>> scalar_rule(np.tan, lambda y, x: 1 + y * y)
    """
    check_partials(_function(fn, "what is to get a rule"), partials)
    entry = describe(fn, **options)
    _replacing(entry)
    entry.rule, entry.nondiff, entry.selective = rule_of_partials(entry.fn, partials), False, True
    entry.users_rule = any(map(_is_users, partials))
    for alias in map(_recorded, options.get("aliases", ())):  # math.sin computes with itself: a Python float stays one
        entries[alias] = replace(entry, fn=alias, rule=rule_of_partials(alias, partials), cases=[])


def vjps(fn: Callable[..., Any], *each: Any, **options: Any) -> None:
    """Register a function by one function per argument, ``(dy, y, *args, **kwargs) -> dx``: only those run that are
    wanted. ``None`` stands for no derivative, and ``tangents.MISSING`` for one that has no formula, as have arguments
    beyond these. Raises ``TypeError`` for a formula that is something else, ``RuleError`` if there are too many.
    """
    check_vjps(_function(fn, "what is to get a rule"), each)
    users = any(map(_is_users, (fn, *each)))
    rrule(fn, selective=True, **options)(rule_of_vjps(_recorded(fn), each, users=users))
    describe(fn).users_rule = users


def nondiff(fn: F, *, immediate: bool = False, of_layout: bool = False, **options: Any) -> F:
    """Declare that nothing flows back through ``fn`` (``argmax``, ``floor``, comparisons); returns ``fn``.

    With ``immediate`` the function is answered at once from the values and not recorded: for those that depend on
    shapes and dtypes only (``np.shape``), or, with ``of_layout``, also on how arrays lie in memory.

    >>> @nondiff
    ... @primitive
    ... def nearest(x):
    ...     return round(x)
    """
    entry = describe(fn, **options)
    if entry.nondiff and (entry.immediate, entry.of_layout) != (immediate, of_layout):
        raise RuleError(f"{entry.name} is declared nondiff already, with immediate={entry.immediate} and "
                        f"of_layout={entry.of_layout}: declare it once")
    _replacing(entry)
    entry.nondiff, entry.immediate, entry.of_layout = True, immediate, of_layout
    return fn


def primitive(fn: F) -> F:
    """Make a Python function one operation on the tape; give it an ``rrule`` or declare it ``nondiff``.

    Without either, its derivative is that of its body, which is traced where a derivative is wanted.

    >>> @primitive
    ... def twice(x):
    ...     return x + x
    """
    wrapped = dispatching(_function(fn, "what is to be a primitive"))
    describe(wrapped)
    return wrapped


@rrule(getfield)
def _getfield_rule(structure: Any, key: Any) -> tuple[Any, Callable[[Any], Sequence[Any]]]:
    return getfield(structure, key), lambda dy: (only(structure, key, dy), None)
