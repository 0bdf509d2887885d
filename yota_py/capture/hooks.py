"""Which functions run while a function is traced: the hook that tells ``Captures`` about each of them.

The hook is one of ``sys.monitoring`` where Python has it and a tool id is free, and one of ``sys.setprofile``
otherwise. Both follow the thread that traces, except in the blocks ``with state.unwatched`` of ``patching.py``.
"""

from __future__ import annotations

import _thread
import inspect
import sys
import types
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np

from ..base.generators import NUMPYS, PYTHONS, fingerprint, put_back, state_of
from ..base.ownership import is_ours, ours
from ..base.unwinding import Passing, Uncollected, getprofile, setprofile, state
from ..errors import Abandoned, YotaError
from ..tracing.draws import BY_LIBRARY
from ..tracing.traces import Trace
from .comparisons import COMPARING
from .kinds import problem_of_call
from .leftovers import Leftovers
from .refusals import Hearing
from .walk import Captures

R = TypeVar("R")

_monitoring: Any = getattr(sys, "monitoring", None)  # since Python 3.12
_NOTHING = nullcontext()  # what there is to switch off where nothing is watched
_TOOL_IDS = (3, 4, 5)  # the others belong to debuggers, coverage and profilers
_OF_THREADS = [getattr(_thread, name, None) for name in ("start_new_thread", "start_joinable_thread")]
_WAKING = {("_thread", "lock"), ("_queue", "SimpleQueue")}  # classes whose methods let other threads go on
_C_FUNCTIONS = (types.BuiltinFunctionType, types.MethodDescriptorType)

entered: list[Callable[[Trace, types.FrameType], None]] = []  # are told of functions of the user's that are called


def watched(captures: Captures, call: Callable[[], R]) -> R:
    """Call a function, and follow what it reads while it is traced."""
    try:
        with Uncollected(), _Restored(captures), _Tool() as tool:
            hearing = Hearing()
            busy = tool is None and sys.getprofile() is not None
            if busy:
                captures.problems.append("a profiler is active")
                captures.comparisons.is_heard = False
            captures.start()
            if captures.trace.effects and captures.problems:  # it is never compiled, and may do what nobody can follow
                raise YotaError(captures.problems[0])
            hook = Passing() if busy else (
                _Profiled(captures, hearing) if tool is None else _Monitored(captures, tool, hearing)
            )
            before = _Libraries(captures.trace)
            try:
                with hearing, hook:
                    result = call()
                if captures.given_up:  # and the function has gone on
                    raise YotaError(captures.problems[-1])
                if before.have_drawn() and not any("random" in problem for problem in captures.problems):
                    captures.problems.append(BY_LIBRARY)
                    if captures.trace.effects:
                        raise YotaError(captures.problems[-1])
            except (Abandoned, YotaError):
                if captures.trace.effects and before.have_drawn():  # the function itself is called
                    before.put_back()
                raise
            return result
    except Abandoned as reason:
        raise YotaError(str(reason)) from None


class _Restored(Passing):
    """The block in which arrays are exchanged for tracers.

    At its end everything is as it was, but for what the function has stored. Traced values among that become plain
    ones, unless the trace is one with effects, which they are.
    """

    def __init__(self, captures: Captures) -> None:
        self._captures = captures

    def end(self) -> None:
        captures = self._captures
        rebound = captures.exchange.restore()
        if captures.trace.effects:
            return
        captures.stores = rebound
        if rebound:
            captures.problems.append("it rebinds or replaces a captured array while it runs")
        changes = list(captures.exchange.changes())
        if not (changes or captures.unwatched):
            return
        leftovers = Leftovers(captures.trace)
        for holder, key, value in changes:
            if (plain := leftovers.plain(value)) is not value:
                holder.put(key, plain)
        for value in captures.unwatched:
            leftovers.plain(value)
        leftovers.clear()
        if leftovers.found:
            captures.stores = True
            captures.problems.append("it stores traced values outside of itself")


class _Libraries:
    """The states of the random number generators that all share: nobody hears of C code that uses them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        trace.heard = {id(of): fingerprint(of) for of in (NUMPYS, PYTHONS)}
        self._numpys = _state_of_numpys(trace.heard[id(NUMPYS)])
        self._pythons = trace.heard[id(PYTHONS)]
        torch: Any = sys.modules.get("torch")
        self._torchs = torch.get_rng_state() if hasattr(torch, "get_rng_state") else None

    def have_drawn(self) -> bool:
        """Whether they are in other states now than the function is known to have left them in."""
        if self._torchs is not None and not bool((sys.modules["torch"].get_rng_state() == self._torchs).all()):
            return True
        if any(fingerprint(of) != self._trace.heard[id(of)] for of in (NUMPYS, PYTHONS)):
            return True
        kept = self._numpys.get("has_gauss") and not self._trace.draws  # a deviate, which fingerprints leave out
        return bool(kept and state_of(NUMPYS)["has_gauss"] != self._numpys["has_gauss"])

    def put_back(self) -> None:
        """Give them these states again."""
        put_back(NUMPYS, self._numpys)
        put_back(PYTHONS, self._pythons)
        if self._torchs is not None:
            sys.modules["torch"].set_rng_state(self._torchs)


_last: list[tuple[Any, dict[str, Any]]] = []  # the fingerprint and the state that were found last


def _state_of_numpys(bits: Any) -> dict[str, Any]:
    """The state that has this fingerprint. It takes long to read, and as long as no normal deviate is kept it is the
    same as before."""
    for known, found in _last:
        if known == bits and not found.get("has_gauss"):
            return found
    state_now: dict[str, Any] = state_of(NUMPYS)
    _last[:] = [(bits, state_now)]
    return state_now


class _Tool(Passing):
    """A tool id of ``sys.monitoring`` for a trace; ``None`` if there is none."""

    def __init__(self) -> None:
        self._name = f"yota_py {id(self)}"

    def begin(self) -> int | None:
        for tool in _TOOL_IDS if _monitoring is not None else ():
            try:
                _monitoring.use_tool_id(tool, self._name)
            except ValueError:  # in use
                continue
            return tool
        return None

    def end(self) -> None:
        for tool in _TOOL_IDS if _monitoring is not None else ():
            if _monitoring.get_tool(tool) == self._name:
                _monitoring.free_tool_id(tool)


class _Monitored(Passing):
    """Hear of calls through ``sys.monitoring``: of Python functions everywhere, of C functions where those call them.

    It tells of all threads; in another than this one the callbacks find another ``state``.
    """

    def __init__(self, captures: Captures, tool: int, hearing: Hearing) -> None:
        self._captures, self._tool, self._pause, self._hearing = captures, tool, _Pause(hearing), hearing
        self._heed = _Pause()
        self._others: dict[int, types.CodeType] = {}

    def begin(self) -> None:
        events = _monitoring.events
        for event in (events.PY_START, events.PY_RESUME, events.PY_THROW):
            _monitoring.register_callback(self._tool, event, self._enter)
        _monitoring.register_callback(self._tool, events.CALL, self._call)
        state.unwatched = self._pause
        state.heeding = lambda fn: _Heeding(self._captures, fn, self._heed)
        _monitoring.set_events(self._tool, events.PY_START | events.PY_RESUME | events.PY_THROW)

    def end(self) -> None:
        events = _monitoring.events
        _monitoring.set_events(self._tool, events.NO_EVENTS)
        if state.unwatched is not self._pause:  # an exception has come in between, and was caught
            self._captures.problems.append("an exception has interrupted it")
        state.unwatched, state.heeding = _NOTHING, nullcontext
        for code in self._others.values():
            _monitoring.set_local_events(self._tool, code, events.NO_EVENTS)
        for event in (events.PY_START, events.PY_RESUME, events.PY_THROW, events.CALL):
            _monitoring.register_callback(self._tool, event, None)

    def _enter(self, code: types.CodeType, *event: Any) -> Any:
        frame = sys._getframe(1)
        if is_ours(frame):
            return _monitoring.DISABLE if len(event) == 1 else None  # what is thrown in cannot be switched off
        heeds = state.unwatched is self._heed
        if heeds or state.unwatched is self._pause:
            if id(code) not in self._others:
                self._others[id(code)] = code
                _monitoring.set_local_events(self._tool, code, _monitoring.events.CALL)
            if not heeds:
                _follow(self._captures, self._hearing, frame)
        return None

    def _call(self, code: types.CodeType, offset: int, function: Any, first: Any) -> None:
        if type(function) in _C_FUNCTIONS and (state.unwatched is self._pause or state.unwatched is self._heed):
            _note(self._captures, function)


class _Pause:
    """The block in which nothing is heard, the ``profile`` function being switched off, unless the traced function has
    set another, which stays; blocks within it have nothing to change."""

    def __init__(self, hearing: Hearing | None = None) -> None:
        self._hearing = hearing
        self.profile: Any = None
        self._is_on = False

    def __enter__(self) -> None:
        if self.profile is not None and getprofile() is self.profile:
            self._is_on = True
            setprofile(None)
        if self._hearing is not None and self._hearing.hears:
            self._hearing.pause()
        state.unwatched = _NOTHING

    def __exit__(self, *error: object) -> None:
        state.unwatched = self
        if self._hearing is not None and self._hearing.hears:
            self._hearing.go_on()
        if self._is_on:
            self._is_on = False
            setprofile(self.profile)


class _Heeding(Passing):
    """The block, in an unwatched one, in which only calls of C functions are heard of: there a function of which nobody
    knows what it does computes with plain values."""

    def __init__(self, captures: Captures, fn: Any, pause: Any, profile: Any = None) -> None:
        self._captures, self._fn, self._pause, self._profile = captures, inspect.unwrap(fn), pause, profile
        self._unwatched, self._profiled = state.unwatched, sys.getprofile()

    def begin(self) -> None:
        if type(self._fn) in _C_FUNCTIONS:  # which our own code calls
            _note(self._captures, self._fn)
        state.unwatched = self._pause
        if self._profile is not None:
            setprofile(self._profile)

    def end(self) -> None:
        if self._profile is not None and sys.getprofile() is self._profile:
            setprofile(self._profiled)
        state.unwatched = self._unwatched


class _Profiled(Passing):
    """Hear of all calls of this thread through ``sys.setprofile``."""

    def __init__(self, captures: Captures, hearing: Hearing) -> None:
        self._captures, self._hearing = captures, hearing

        pause, heeding = _Pause(hearing), _Pause()

        def profile(frame: types.FrameType, event: str, arg: Any) -> None:
            if event == "call":
                if id(frame.f_code) not in ours and not is_ours(frame):
                    _follow(captures, hearing, frame)
            elif event == "c_call" and id(frame.f_code) not in ours:
                _note(captures, arg)

        def heed(frame: types.FrameType, event: str, arg: Any) -> None:
            if event == "c_call":
                _note(captures, arg)

        self._profile, self._heed, self._pause, self._heeding = profile, heed, pause, heeding
        pause.profile, heeding.profile = profile, heed

    def begin(self) -> None:
        state.unwatched = self._pause
        state.heeding = lambda fn: _Heeding(self._captures, fn, self._heeding, self._heed)
        state.profile = self._profile
        setprofile(self._profile)

    def end(self) -> None:
        if sys.getprofile() is self._profile:
            setprofile(None)
        elif not self._captures.given_up:
            self._captures.problems.append("it sets a profiler of its own")
        state.unwatched, state.heeding, state.profile = _NOTHING, nullcontext, None


def _follow(captures: Captures, hearing: Hearing, frame: types.FrameType) -> None:
    """A Python function is called during the trace: hear of what happens in it."""
    captures.enter(frame)
    captures.comparisons.is_heard &= hearing.follow(frame, captures.comparisons.among(frame))
    for enter in entered:
        enter(captures.trace, frame)


_harmless: dict[int, Any] = {}  # functions of modules of which there is nothing to be said, by identity
_HARMLESS = frozenset([list, dict, set, tuple, str, bytes, np.ndarray])  # classes of whose methods there is not, either


def _note(captures: Captures, function: Any) -> None:
    """A C function is called during the trace."""
    owner = getattr(function, "__self__", None)
    if id(function) in _harmless or type(owner) in _HARMLESS:
        return
    problem = problem_of_call(function)
    if function in COMPARING:
        captures.comparisons.anything()
    elif function in _OF_THREADS or (type(owner).__module__, type(owner).__name__) in _WAKING:
        captures.comparisons.is_heard = False
    elif isinstance(owner, types.ModuleType) and not problem:
        _harmless[id(function)] = function
    if problem and captures.trace.effects:  # before it has happened
        captures.give_up(problem)
    elif problem:
        captures.problems.append(problem)
