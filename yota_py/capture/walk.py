"""What a function reads besides its arguments, found while it is traced, so that a cached program can ask again.

The names that ``f`` and the Python functions it calls read (globals, cells, defaults, attributes, items) are walked;
arrays among them are exchanged for tracers while the trace runs, so that they are inputs of the tape, read anew at each
call. All else is guarded: numbers and texts by value, functions and objects by identity, containers item by item.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from numpy import ndarray

from ..base.containers import is_proxy
from ..base.dispatch import is_traced, mode_of, original
from ..base.ownership import is_library, is_library_code
from ..errors import Abandoned
from ..registry.contents import copy_of, is_known, parts_of, unchanged
from ..registry.registry import primitive_of
from ..tape.operations import Site, Variable, site_of
from ..tracing.foreign import kind_of
from ..tracing.shells import is_recordable
from ..tracing.stand_ins import MEMO, stand_in_for
from ..tracing.traces import Trace
from . import kinds
from .asking import STAND_INS
from .attributes import Attributes, Instances
from .bytecode import ANY, Names, names_of, nested
from .captured import Captured
from .comparisons import Comparisons
from .conversion import Conversions
from .generators import Generators
from .guards import Guards
from .imports import Imports
from .items import Items, implementations
from .memos import Memos
from .places import Attribute, Builtin, Exchange, Item, Spot
from .rules import read_rules
from .sinks import Attempts, Sinks
from .slots import Slot, literal


class Captures:
    """The reads of one trace: the guards on them, and the arrays that became inputs."""

    def __init__(
        self, trace: Trace, f: Callable[..., Any], arguments: Sequence[str], inputs: frozenset[str | int] = frozenset(),
        attempts: Attempts | None = None, places: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.trace, self.f, self.problems = trace, f, trace.problems
        self.arguments, self._places = arguments, places  # names of the leaves, and where guards find them
        self.inputs = inputs  # paths of numbers that become inputs of the program, and of objects known by their class
        self.given_up = self.stores = False  # it stores: the function has left traced values somewhere
        self.unwatched: list[Any] = []  # objects that may hold traced values when the function ends
        self.guards, self.exchange = Guards(), Exchange(trace)
        self.captured = Captured(trace, self.guards, attempts.tied if attempts is not None else {})
        self.generators = Generators(self.guards, self.exchange)
        self.sinks = Sinks(trace, self.guards, self.exchange, attempts, self.give_up)
        self._conversions = Conversions(self.exchange)
        self.comparisons = trace.comparisons = Comparisons(trace, self.guards)
        self.attributes = trace.attributes = Attributes(
            self.guards, self.exchange, self._read, self._value, self.captured.is_computed
        )
        self.instances = Instances(self.guards, self.attributes)
        self.items = Items(self.guards, self.exchange, self._read, self._value, self.problems)
        self.imports = Imports(self.guards, self._value, self.attributes.settle, self.give_up)
        trace.imports, trace.give_up, trace.walk = self.imports, self.give_up, self
        self._memos = Memos(trace, self.guards, self.exchange, self._value, self._callable, self.give_up)
        self.codes: dict[tuple[int, int], types.CodeType] = {}  # by identity: equal code may stand in several modules
        self._library: dict[tuple[int, int], bool] = {}  # of these: whether a library's may read any attributes
        self._rebound: set[str] = set()  # names of all kinds that are assigned; "[]" for items
        self._globals: set[tuple[int, str]] = set()
        self.functions: set[int] = set()  # by identity, those that were there before the trace

    # -- the walk

    def start(self) -> None:
        """Walk from ``f`` itself, and from objects among its arguments (which a cache entry knows by identity)."""
        with self.attributes.together():
            f = Slot("f", "f")
            self.guards.require_type(f, type(self.f))
            self.sinks.expect(self.f)
            self.f = self._callable(self.f, f)
            for i, (leaf, name) in enumerate(zip(self.trace.tape.leaves, self.arguments, strict=True)):
                if isinstance(leaf, MEMO):
                    self.problems.append(f"its argument {name} remembers what it gives")
                elif not (isinstance(leaf, Variable) or kinds.is_immutable(leaf)):
                    varies = i in self.inputs and kinds.is_watchable(leaf)
                    if place := (self._places[i] if varies or is_recordable(leaf) else ""):
                        self.instances.positions.add(i)
                        self.instances.paths |= {name} if varies else set()
                    slot = self.guards.local(Slot(place) if place else self.guards.reference(leaf, name), name)
                    if original(self._value(leaf, slot)) is not leaf and not place:
                        self.problems.append(f"its argument {name} holds arrays or random number generators")

    def finish(self) -> None:
        """After the trace: what has to be as it was when the function ended."""
        read_rules(self.trace.tape, self.guards, self.problems)
        if self.comparisons.objects:
            self.guards.require_different([*self.captured.arrays()], "an array under one name")
            self.guards.require_different(self.containers(), "a container under one name")
        if self.items.changed_sets():
            self.problems.append("it changes a set that it reads")
        self.instances.finish(self.problems)
        self.generators.finish()

    def containers(self) -> list[Slot]:
        """Where lists, deques and dicts are found that the function may compare by identity."""
        return [slot for _, slot in self.items.containers.values()] + [h.slots[0] for h in self.sinks.holders.values()]

    def give_up(self, problem: str) -> NoReturn:
        """End the trace: the function itself has to be called."""
        self.problems.append(problem)
        self.given_up = True
        raise Abandoned(problem)

    def enter(self, frame: types.FrameType) -> None:
        """A Python function is called during the trace."""
        self.sinks.heed(frame)
        code, namespace, known = frame.f_code, frame.f_globals, len(self.problems)
        key = id(code), id(namespace)
        if key not in self.codes and is_library_code(code, namespace):
            module, self.codes[key] = str(namespace.get("__name__")).partition(".")[0], code
            self._library[key] = not ANY.isdisjoint(code.co_names) and module in sys.stdlib_module_names
        if key in self._library:
            if self._library[key]:
                self.attributes.all_of_arguments(frame)
            return
        self.instances.addresses |= names_of(code).addresses
        if key in self.codes:
            return
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        with self.attributes.together():
            if (found := self.attributes.function_of(code, first)) is not None:
                self._callable(*found)
            elif code.co_freevars and code.co_name not in ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"):
                self.problems.append(f"{code.co_name} was reached by a way that cannot be followed, and has a closure")
            self._code(code, namespace)
        if self.trace.effects and len(self.problems) > known:  # it may do what nobody can follow
            self.give_up(self.problems.pop(known))

    def _callable(self, fn: Any, slot: Slot, *, itself: bool = False) -> Any:
        """Guard something that is called; returns what is to be called while tracing."""
        if isinstance(fn, types.MethodType):
            self.guards.require_type(slot, types.MethodType)
            function = self.guards.local(slot.attribute("__func__"), fn.__qualname__)
            self.guards.require_is(function, fn.__func__)
            self._value(fn.__self__, self.guards.local(slot.attribute("__self__"), "self"))
            self._callable(fn.__func__, function, itself=True)
        elif isinstance(fn, types.FunctionType):
            self._function(fn, slot, itself=itself)
        else:
            return (self._partial if isinstance(fn, functools.partial) else self._value)(fn, slot)
        return fn

    def _partial(self, fn: Any, slot: Slot) -> Any:
        """A ``functools.partial`` with what takes the places of its function and its arguments while tracing."""
        old = fn.func, fn.args, fn.keywords
        new = [self._value(value, self.guards.local(slot.attribute(name)))
               for name, value in zip(("func", "args", "keywords"), old, strict=True)]
        same = all(a is b for a, b in zip(old, new, strict=True)) or type(fn) is not functools.partial or fn.__dict__
        return fn if same else functools.partial(new[0], *new[1], **new[2])

    def _function(self, fn: types.FunctionType, slot: Slot, *, itself: bool) -> None:
        """Cells, defaults and global names of a Python function; ``slot`` is it ``itself``, or another with the
        same code. Defaults that were not there were not needed."""
        if id(fn) in self.functions:
            if not itself:
                self.guards.require_object(slot, fn)
            return
        self.functions.add(id(fn))
        if is_library_code(fn.__code__, fn.__globals__):
            self._library_function(fn, slot, itself=itself)
            return
        self._scan(fn.__code__)
        guards, site = self.guards, site_of(fn.__code__)
        code, names = guards.constant(fn.__code__), guards.constant(fn.__globals__)
        guards.require(f"{slot}.__code__ is {code}", slot, f"as in {site}", minor=True)
        if not itself:
            guards.require(f"{slot}.__globals__ is {names}", slot, "in its module", minor=True)
        for i, (name, cell) in enumerate(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)):
            try:
                value = cell.cell_contents
            except ValueError:
                self.problems.append(f"{fn.__name__} has a name in its closure that is not bound yet")
                continue
            held = slot.attribute("__closure__").item(literal(i))
            self.exchange.look_after(cell, held, "cell_contents")
            place = Attribute(cell, "cell_contents")
            self._read(value, held.attribute("cell_contents"), place, name, site, name)
        self.attributes.watch(fn, slot)
        for name in ("__defaults__", "__kwdefaults__"):
            if (value := getattr(fn, name)) is not None:
                path = f"{fn.__name__}.{name}"
                self._read(value, slot.attribute(name), Attribute(fn, name), path, site, name)
        self._code(fn.__code__, fn.__globals__)

    def _library_function(self, fn: types.FunctionType, slot: Slot, *, itself: bool) -> None:
        """A function of a library is known by identity; one that we have made of another, by what is wrapped."""
        mode = mode_of(fn)
        if not itself and mode is None:
            self.guards.require_object(slot, fn)
        elif not itself:
            code, known = self.guards.constant(fn.__code__), self.guards.constant(mode)
            was = f"{slot}.__code__ is {code} and {slot}.__yota_cache__.mode == {known}"
            self.guards.require(was, slot, f"what {fn.__name__} was", minor=True)
        if mode is not None:
            self.attributes.watch(fn, slot)  # it is the user's, to whom attributes of it are static variables
        if (entry := primitive_of(fn)) is not None and entry.body is not None:
            held = self.guards.constant(entry, entry.name).attribute("body")
            self._read(entry.body, held, Attribute(entry, "body"), f"the body of {entry.name}")
        if hasattr(fn, "__wrapped__"):
            self._callable(fn.__wrapped__, slot.attribute("__wrapped__"), itself=itself)
        for implementation, held in implementations(fn, slot, self.guards):
            self._callable(implementation, held, itself=True)

    def _code(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        """Global names and attributes that a code object, or one nested in it, reads."""
        key = id(code), id(namespace)
        if key in self.codes:
            return
        self.codes |= {(id(part), id(namespace)): part for part in nested(code)}
        self._conversions.heed(namespace, code)
        self.comparisons.heed(namespace, code)
        self.problems += [problem for part in nested(code) for problem in kinds.problems_of_code(part, namespace)]
        for found in self._scan(code):
            self._names(found, namespace)

    def _scan(self, code: types.CodeType) -> list[Names]:
        """The names in a code object and those nested in it; what they assign to is noted."""
        names = [*map(names_of, nested(code))]
        self._rebound.update(*(found.rebound for found in names))
        self.sinks.names.update(*(found.grown for found in names))
        return names

    def _names(self, names: Names, namespace: dict[str, Any]) -> None:
        self.problems += names.problems
        self.trace.sets_errors |= names.sets_errors
        for name, site in names.globals.items():
            self._global(name, namespace, site)
        for (of, name), site in names.of_globals.items():
            if self.trace.effects:  # the name may stand for something else before it is read
                self.attributes.add({name: site})
            elif of in namespace:
                self.attributes.of(namespace[of], name, site)
        for name, site in names.stored_globals.items():
            if self.trace.effects:
                self._global(name, namespace, site)
            else:
                self.problems.append(f"{site.function} changes the global name {name}")
        self.attributes.heed(names, namespace, effects=self.trace.effects)
        self.imports.add(names.imports, namespace)

    def _global(self, name: str, namespace: dict[str, Any], site: Site) -> None:
        if (id(namespace), name) in self._globals:
            return
        self._globals.add((id(namespace), name))
        names = self.guards.constant(namespace, str(namespace.get("__name__")))
        if is_library(namespace.get("__name__")):  # what users have typed into it; stand-ins are there already
            if name in namespace:
                self._value(original(namespace[name]), self.guards.local(names.item(literal(name)), name, site))
            return
        self.exchange.look_after(namespace, names)
        if name in namespace:
            value, slot = original(namespace[name]), names.item(literal(name))
            if kinds.problem_if_called(value) and stand_in_for(value) is None:  # which is heard of
                self.guards.require_is(self.guards.local(slot, name, site), value)
            else:
                self._read(namespace[name], slot, Item(namespace, name), name, site, name)
            self._conversions.take(namespace, name, self.codes)
            return
        self.guards.require(f"{name!r} not in {names}", literal(name), "no global name")
        builtin, everywhere = getattr(builtins, name, None), vars(builtins)
        slot = self.guards.constant(everywhere, "builtins").item(literal(name))
        if name in everywhere and not kinds.is_standard(builtin):  # users have put it there
            self._read(builtin, slot, Item(everywhere, name), name, site, name)
        if (stand_in := stand_in_for(builtin) or STAND_INS.get(name)) is not None and builtin is original(stand_in):
            self.exchange.put(builtin, stand_in, Builtin(namespace, name))
            if kinds.problem_if_called(builtin):  # print, which is called for what it does
                self.guards.require_is(self.guards.local(slot, name, site), builtin)
        self._conversions.take(namespace, name, self.codes)
        if name in kinds.OPAQUE_BUILTINS - STAND_INS.keys():
            self.problems.append(f"it calls {name}(), whose reads cannot be followed")

    def _read(
        self, value: Any, slot: Slot, place: Spot, words: str = "", site: Site | None = None, name: str = "[]"
    ) -> None:
        """Guard what stands in a place, and put there what takes its place while tracing."""
        known = self.guards.local(slot, words, site)
        rebound = self.trace.effects and name in self._rebound and kinds.is_number(value)
        if (new := self.captured.number(value, known) if rebound else self._value(value, known, name)) is not value:
            self.exchange.put(value, new, place)

    def _value(self, value: Any, slot: Slot, name: str = "") -> Any:
        """Guard one value, perhaps found under a name; returns what takes its place while tracing."""
        if self.guards.reads > kinds.MAX_READS or is_proxy(value):
            if len(self.problems) < 5:
                self.problems.append(kinds.PROXY if is_proxy(value) else kinds.TOO_MANY)
            return value
        if is_traced(value):
            if not self.captured.again(value, slot):
                self.problems.append("it reads a traced value of an enclosing differentiation")
            return value
        if isinstance(value, ndarray):
            return self.captured.array(value, slot)
        if (sink := self.sinks.stand_in(value, slot, name)) is not None:
            return sink
        if (generator := self.generators.stand_in(value, slot)) is not None:
            return generator
        if (stand_in := stand_in_for(value)) is not None:  # from math import sin
            self.guards.require_is(slot, value)
            if type(value) is types.MethodType:
                self._value(value.__self__, self.guards.local(slot.attribute("__self__")))
            return stand_in
        if isinstance(value, kinds.IMMUTABLE):
            return self._immutable(value, slot)
        keep = kinds.is_of_module(value) or isinstance(value, types.BuiltinFunctionType | types.ModuleType | type)
        if isinstance(value, tuple | list | dict) and kind_of(type(value)) != "sparse" and not keep:  # one is a dict
            return self.items.read(value if kinds.is_of_library(type(value)) else self._instance(value, slot), slot)
        if isinstance(value, MEMO):
            self.guards.require_object(slot, value)
            return self._memos.stand_in(value, slot)
        if isinstance(value, staticmethod | classmethod):
            self.guards.require_is(slot, value, minor=True)
            function = self._value(value.__func__, self.guards.local(slot.attribute("__func__")))
            return value if function is value.__func__ else type(value)(function)
        if is_known(type(value)) and not kinds.is_shown(value) and kind_of(type(value)) != "sparse" and (
            self.guards.require_contents(slot, value)  # a distribution, an interpolator
        ):
            return value
        kind = type(value) if self.trace.effects and kinds.is_watchable(value) else None
        taken = kind and (slot.words in self.inputs or self.instances.hold(slot.words)) and not self.guards.knows(value)
        if taken or self.instances.slot(value) is not None:
            return self._instance(value, slot) if self.instances.meet(value, slot) else value
        of_kind: Any = functools.partial(self.guards.require_object, kind=kind)
        require = self.guards.require_is if keep or kinds.holds_nothing(value) else of_kind
        require(slot, value, minor=is_library(kinds.module_of(value)))
        if isinstance(value, functools.partial) and not isinstance(value, types.FunctionType):
            return self._callable(value, slot)
        self._object(value, slot)
        return value

    def _object(self, value: Any, slot: Slot) -> None:
        """What a value known by identity reads by itself: a function, a module, a class, an object."""
        if isinstance(value, types.FunctionType | types.MethodType):
            self._callable(value, slot, itself=True)
        elif problem := kinds.problem_of_value(value) or kinds.problem_if_called(value):
            self.problems.append(problem)
        elif kinds.is_bound(value):
            self.unwatched.append(value.__self__)
            self.problems.append(f"it reads {value.__qualname__} of an object that cannot be watched")
        elif isinstance(value, property):
            if self.attributes.functions_of(value, slot):
                self.problems.append("a property is made of a function that remembers what it gives")
        elif kinds.is_builtin(value) or type(value) in kinds.MARKS or kinds.is_shown(value):
            self.comparisons.meet_function(value)  # there is nothing more to it
        elif isinstance(value, types.ModuleType):
            if not is_library(value.__name__):
                self.attributes.watch(value, slot)
        elif isinstance(value, type):
            self.attributes.read_class(value)
        elif kind_of(type(value)) == "sparse" and parts_of(value):
            same, copy = self.guards.constant(unchanged), self.guards.constant(copy_of(value))
            self.guards.require(f"{same}({slot}, {copy})", slot, "another matrix")
            self.trace.matrices.append(value)
        elif isinstance(value, functools.cached_property):
            self._callable(value.func, slot.attribute("func"), itself=True)
        elif kinds.is_set_of_constants(value):
            self.items.read_set(value, slot)
        elif not kinds.is_watchable(value):
            self.unwatched.append(value)
            self.problems.append(f"it reads an object of type {type(value).__name__}, whose state cannot be watched")
        else:
            self._instance(value, slot)

    def _instance(self, value: Any, slot: Slot) -> Any:
        """The attributes of an object of a user's class."""
        self.attributes.watch(value, slot)
        self.guards.require_type(slot, type(value))
        self.attributes.read_class(type(value))
        return value

    def _immutable(self, value: Any, slot: Slot) -> Any:
        """The same object, or an equal number or string. A number that is known to change becomes an input, like an
        array."""
        guards = self.guards
        if not kinds.is_of_library(type(value)):
            guards.require_is(slot, value)
            return self._instance(value, slot)
        self.problems += kinds.problems_of_frozenset(value)
        number = type(value) if kinds.is_float(value) or kinds.is_whole(value) else None
        if number and slot.words in self.inputs:
            return self.captured.number(value, slot)
        guards.require_equal(slot, value, kind=number)
        return value
