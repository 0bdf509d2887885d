"""Functions that do not dispatch on their arguments, replaced while a trace is active.

``math.sin``, ``np.array([...])`` and what a rule registers with ``registry.patch`` are exchanged in their modules for
stand-ins when the first trace starts and put back when the last one ends. A stand-in answers as the original unless
this thread is tracing, no primitive is running on values, and the caller is certain to be the user's code: C code,
which has no frame to tell it by, takes what it gets for an array's memory.

``np.sqrt([a, b])`` asks nobody whether the list holds traced values. So the modules that matter are of a class that
looks who asks for an attribute. The user's code gets a stand-in if it calls it at once; what it may compare, store or
hand on is NumPy's own, and so is what libraries find: numba, which compiles a function, or SciPy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from operator import itemgetter
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from ..base import locks
from ..base.callsites import calls
from ..base.dispatch import find_traced, is_traced, original, originals
from ..base.ownership import is_library, is_library_frame
from ..base.unwinding import Passing, state
from ..registry.constants import as_constants, made_of_numbers
from ..registry.patches import (
    anywhere_called,
    finders,
    holding,
    inner_methods,
    instances,
    makers,
    makes_constants,
    open_modules,
    patched,
    writer,
)
from ..registry.registry import entries, listeners, methods
from .disguise import BY_ORIGINAL
from .showing import Showing, is_plain

Owner: TypeAlias = ModuleType | type

MODULES = [
    "numpy", "numpy.linalg", "numpy.fft", "numpy.testing", "numpy.lib.stride_tricks", "math", "cmath", "scipy.special",
    "scipy.sparse",
]  # fmt: skip


def tracing() -> bool:
    """Whether this thread is inside a trace."""
    return bool(state.traces)


class _Suspended:
    """The block in which a primitive runs on values: the stand-ins answer as the originals."""

    def __enter__(self) -> None:
        state.suspended += 1

    def __exit__(self, *error: object) -> None:
        state.suspended -= 1


suspended = _Suspended()


class _Read(NamedTuple):
    """What stands in a module or class under the names of stand-ins: how it is read, what was found last, and the
    stand-ins that take its place."""

    get: Callable[[Any], tuple[Any, ...]]
    values: tuple[Any, ...] | None
    originals: dict[str, Any]
    gates: dict[str, Any]


_UNREAD = _Read(itemgetter(0), None, {}, {})
_read: dict[Owner, _Read] = {}
_writers: dict[Owner, Callable[[dict[str, Any]], None]] = {}


class Installed(Passing):
    """Stand-ins in the places of their originals for the time of a trace. What is exchanged is known to all, of
    subclasses too."""

    _users: ClassVar[set[Installed]] = set()
    _exchanged: ClassVar[dict[Owner, dict[str, Any]]] = {}  # the originals
    _in_place: ClassVar[tuple[int, ...]] = ()  # how many there were when they were exchanged

    def __init__(self, trace: Any) -> None:
        self._trace = trace
        self._depth, self._suspended = len(state.traces), state.suspended

    def begin(self) -> Callable[[], bool]:
        """What tells whether all is as at the beginning: the block has caught no exception that came in between."""
        with locks.tables:
            self._users.add(self)
            self._exchange()
            for name in MODULES:
                if type(module := sys.modules.get(name)) is ModuleType:
                    module.__class__ = Showing
        state.traces.append(self._trace)
        return lambda: self.is_innermost() and state.suspended == self._suspended

    def end(self) -> None:
        self._trace.alive = False
        del state.traces[self._depth :]
        state.suspended = self._suspended
        with locks.tables:
            self._users.discard(self)
            if not self._users:
                for name in MODULES:
                    if type(module := sys.modules.get(name)) is Showing:
                        module.__class__ = ModuleType  # type: ignore[assignment]
                if not Kept.blocks:
                    self.put_back()

    @staticmethod
    def _exchange() -> None:
        gates_of = _stand_ins()
        if Installed._in_place == (count := (len(_kept), len(_gates), *_looked_through)):
            return
        for owner, gates in gates_of.items():
            if not gates:
                continue
            space, known = vars(owner), _read.get(owner, _UNREAD)
            if owner in Installed._exchanged:
                before = Installed._exchanged[owner]
                new = _known_to({name: space[name] for name in gates if name not in before}, gates)
                _writers[owner] = writer(owner, gates)
                Installed._exchanged[owner] = {name: space[name] for name in new} | before
                ours = (name for name in before if name in gates and original(space[name]) is not space[name])
                gates = new | {name: gates[name] for name in ours}
            else:
                if len(known.originals) != len(gates):  # of one name, a getter would give no tuple
                    known = _Read(itemgetter(*gates, next(iter(gates))), None, {}, {})
                values = known.get(space)
                if values != known.values:  # mostly they are what they were, and a comparison is fast
                    found = dict(zip(gates, values, strict=False))
                    _read[owner] = known = _Read(known.get, values, found, _known_to(found, gates))
                    _writers[owner] = writer(owner, gates)
                Installed._exchanged[owner] = known.originals
                gates = known.gates
            _writers[owner](gates)
        Installed._in_place = count

    @staticmethod
    def put_back() -> None:
        """Give the places their originals again."""
        Installed._in_place = ()
        for owner, before in reversed(Installed._exchanged.items()):
            _writers[owner](before)
        Installed._exchanged.clear()


def _known_to(found: dict[str, Any], gates: dict[str, Any]) -> dict[str, Any]:
    """The stand-ins for what was found: not for functions that somebody else has put there."""
    return {
        name: gate for name, gate in gates.items()
        if name in found and not (id(gate) in originals and isinstance(found[name], FunctionType | BuiltinFunctionType)
                                  and original(found[name]) is not originals[id(gate)])
    }  # fmt: skip


class Kept(Passing):
    """The block in which stand-ins stay where they are between one trace and the next; they answer as the originals."""

    blocks: ClassVar[set[Kept]] = set()

    def begin(self) -> None:
        with locks.tables:
            self.blocks.add(self)

    def end(self) -> None:
        with locks.tables:
            self.blocks.discard(self)
            if not self.blocks and not Installed._users:
                Installed.put_back()


def _importing(find_and_load: Callable[..., Any]) -> Callable[..., Any]:
    """The stand-in for what imports a module for the first time: what runs then does not run in the next call, and
    other modules get what it leaves."""

    @wraps(find_and_load)
    def stand_in(name: str, *args: Any) -> Any:
        if not state.traces or state.suspended:
            return find_and_load(name, *args)
        frame = sys._getframe(1)
        while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("importlib."):
            frame = frame.f_back
        traces = [trace for trace in state.traces if trace.imports is not None]
        if not is_library_frame(frame):
            for trace in traces:
                trace.imports.begin(trace, name)
        try:
            with state.unwatched:
                with suspended:
                    module = find_and_load(name, *args)
                for trace in traces:
                    trace.imports.look()
        except Exception:
            for trace in traces:
                trace.imports.fail(trace, name)
            raise
        return module

    return stand_in


MEMO = type(lru_cache(lambda: None))


def _seeing_through(read: Callable[..., Any]) -> Callable[..., Any]:
    """For a compiler that reads a name in the user's code: it finds what stands there without us."""

    @wraps(read)
    def stand_in(self: Any, key: Any) -> Any:
        value = read(self, key)
        return value._current()[1] if is_traced(value) else original(value)

    return stand_in


_importlib: ModuleType = sys.modules["_frozen_importlib"]
_find_and_load = vars(_importlib)["_find_and_load"]
_gates: dict[Owner, dict[str, Any]] = {_importlib: {"_find_and_load": _importing(_find_and_load)}}
_by_original: dict[int, Any] = BY_ORIGINAL
_places: dict[int, tuple[Owner, str]] = {}  # by the identities of their originals
_traced: dict[tuple[Owner, str], Callable[..., Any]] = {}  # what each gate is made of
_known: set[tuple[Owner, str]] = set()  # places where that is so still
_kept: list[Callable[..., Any]] = []  # all gates: they are known by their ids, which stay their own
_looked_through = [0, 0]  # how many modules were open, and gates made, when it was looked what these have imported
listeners.append(_known.clear)


def _stand_ins() -> dict[Owner, dict[str, Any]]:
    """All of them, made when somebody asks and something has been patched since."""
    with locks.tables:
        if (compiler := getattr(sys.modules.get("numba.core.interpreter"), "Interpreter", None)) is not None:
            for name in ("get_global_value", "get_closure_value"):
                if name not in _gates.setdefault(compiler, {}):
                    _gates[compiler][name] = _seeing_through(vars(compiler)[name])
        for place, traced in patched.items() if len(patched) != len(_known) else ():
            if _traced.get(place) is not traced:
                owner, name = place
                declared, gates = vars(owner)[name], _gates.setdefault(owner, {})
                bound = type(declared) if isinstance(declared, classmethod | staticmethod) else None
                make = partial(_method_gate, static=bound is staticmethod) if isinstance(owner, type) else _gate
                fn = original(declared.__func__ if bound is classmethod else getattr(owner, name))
                gate: Any = make(fn, makers[type(fn)](fn, traced) if type(fn) in makers else traced)
                gates[name] = gate if bound is None else bound(gate)
                _read.pop(owner, None)
                _kept.append(gate)
                _by_original[id(fn)] = gate
                _places.setdefault(id(fn), place)
                _traced[place] = traced
            _known.add(place)  # when the rest is done
        if _looked_through != (now := [len(open_modules), len(_by_original)]):
            for module in open_modules.values():
                gates = _gates.setdefault(module, {})
                gates |= {name: gate for name, gate in _imported(module).items() if name not in gates}
            _looked_through[:] = now
        return _gates


def _imported(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """What a module that is traced through has imported by name, and has a stand-in."""
    found = ((name, value, _by_original.get(id(value))) for name, value in [*vars(module).items()])
    return {name: gate for name, value, gate in found if gate is not None and original(gate) is value}


def stand_in_for(value: Any) -> Any:
    """The stand-in for a function that was imported by name (``from math import sin``), for ``type`` and the module
    that has it, for an object of a class of C, or for a method that was taken from a library's object (``density =
    norm.pdf``); ``None`` if there is none."""
    _stand_ins()
    gate = _by_original.get(id(value))
    if gate is not None and original(gate) is value:
        return gate
    if (make := instances.get(type(value))) is not None:
        return make(value)
    if type(value) is BuiltinFunctionType and (make := instances.get(type(value.__self__))) is not None:
        return getattr(make(value.__self__), value.__name__)
    of_class = stand_in_for(value.__func__) if type(value) is MethodType else None
    return None if of_class is None else MethodType(of_class, value.__self__)


def noticing(f: Callable[..., Any]) -> Callable[..., Any]:
    """What to call for ``f`` so that it notices tracers: for ``grad(math.sin, 1.0)``, the traced function itself."""
    if isinstance(f, MEMO):  # it must not remember traced values
        return noticing(f.__wrapped__)
    if isinstance(f, partial) and not isinstance(f, FunctionType):
        return partial(noticing(f.func), *f.args, **f.keywords)
    if isinstance(f, MethodDescriptorType) and issubclass(f.__objclass__, (np.ndarray, np.generic)):
        return methods.get(f.__name__, f)
    _stand_ins()
    place = _places.get(id(original(f)))
    if place is None and type(f) is MethodType:
        place = _places.get(id(original(f.__func__)))
        return f if place is None else partial(patched[place], f.__self__)
    return f if place is None else patched[place]


def _gate(fn: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    in_math, anywhere = getattr(fn, "__module__", "") in ("math", "cmath"), traced in anywhere_called

    @wraps(fn)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if not state.traces or state.suspended:
            return fn(*args, **kwargs)
        if anywhere:
            return traced(*args, **kwargs)
        frame = sys._getframe(1)
        if is_plain(frame):
            return fn(*args, **kwargs)
        if in_math:
            return traced(*args, **kwargs)
        if not calls(frame, stand_in, fn.__name__):  # C code that the user's line has called, which wants real arrays
            return fn(*args, **kwargs)
        result = traced(*args, **kwargs)
        given = (*args, *kwargs.values())
        if _reads_array(given):
            return result
        return as_constants(result) if type(result) in (np.ndarray, tuple) else made_of_numbers(result, given)

    originals[id(stand_in)] = fn
    return stand_in


def _method_gate(fn: Callable[..., Any], traced: Callable[..., Any], *, static: bool = False) -> Callable[..., Any]:
    """The stand-in for a method of a library's class: wherever it is called, it looks whether an argument is traced.
    A ``static`` one has no ``self``."""
    finds: Callable[..., bool] = finders.get(traced, _has_traced)
    held, is_inner = holding.get(traced, ()), traced in inner_methods
    if static:

        @wraps(fn)
        def function(*args: Any, **kwargs: Any) -> Any:
            notices = state.traces and not state.suspended and finds((*args, *kwargs.values()))
            return (traced if notices else fn)(*args, **kwargs)

        originals[id(function)] = fn
        return function

    @wraps(fn)
    def stand_in(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not state.traces or state.suspended:
            return fn(self, *args, **kwargs)
        if finds((*args, *kwargs.values())):
            return traced(self, *args, **kwargs)
        if is_inner and is_library(type(self).__module__):
            with suspended:
                return fn(self, *args, **kwargs)
        if find_traced(getattr(self, name, None) for name in held) is None:
            return fn(self, *args, **kwargs)
        entry = entries.get(traced)  # a primitive would find nothing traced among these arguments
        return (traced if entry is None or entry.body is None else entry.body)(self, *args, **kwargs)

    originals[id(stand_in)] = fn
    return stand_in


def _has_traced(values: tuple[Any, ...]) -> bool:
    return find_traced(values) is not None


def _reads_array(values: Any) -> bool:
    return any(isinstance(v, np.ndarray) or (isinstance(v, tuple | list) and _reads_array(v)) for v in values)


for _module, _names in (
    (np, "zeros ones empty arange eye identity linspace logspace geomspace tri vander "
         "hanning hamming blackman bartlett kaiser "
         "indices diag_indices tril_indices triu_indices mask_indices ix_ unravel_index ravel_multi_index bincount"),
    (np.fft, "fftfreq rfftfreq"),
):  # fmt: skip
    makes_constants(_module, *_names.split())
