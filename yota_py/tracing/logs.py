"""Logging in a traced function: an operation of the outermost trace, which runs again at each call.

The logger decides, at each call, whether its level lets a message pass. So what is logged is recorded even where nobody
gets to see it now.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from ..base.impure import Line, Output
from ..base.ownership import is_library_frame, is_ours
from ..base.unwinding import state
from ..registry.patches import patch
from ..tape.operations import user_site
from .outputs import problem_of, record
from .shells import recording, stand_in_class
from .texts import tellers, with_texts

_LEVELS = {
    "debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "warn": logging.WARNING,
    "error": logging.ERROR, "critical": logging.CRITICAL, "fatal": logging.CRITICAL,
}  # fmt: skip


def _log(of: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A method of a logger, or a function of ``logging``, if it is ``of`` no logger."""
    if not state.traces or state.suspended or is_library_frame(frame := _caller()):
        return _unrecorded(of, name, args, kwargs, "a library logs something")
    told = with_texts(args, frame)
    level, given = _LEVELS.get(name), told
    if name == "log" and args and type(args[0]) is int:
        level, given = args[0], told[1:]
    site, known = user_site(), not (kwargs.keys() - {"extra"})
    problem = problem_of(given, kwargs.values(), "logs") if known and level is not None and given else "it logs more"
    if problem or level is None or site is None:
        return _unrecorded(of, name, args, kwargs, problem)
    with state.unwatched:
        do = Line(level, site.filename, site.line, site.function)
        record(Output(f"logging.{name}" if of is None else name, do, "" if of is None else of), given, kwargs)
    return None


def _caller() -> FrameType:
    """The frame that has called what stands in for a function."""
    frame = sys._getframe(1)
    while is_ours(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _unrecorded(of: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], why: str = "") -> Any:
    """A call of which the next one knows nothing."""
    if state.traces:
        trace = state.traces[0]
        problem = f"{user_site()}: {why or f'it calls {name} of a logger, which is not followed'}"
        if trace.effects and trace.give_up is not None:
            trace.give_up(problem)
        trace.problems.append(problem)
    if name in _FUNCTIONS:  # it says who has called it
        kwargs = {**kwargs, "stacklevel": kwargs.get("stacklevel", 1) + _levels()}
    with state.unwatched:
        return _FUNCTIONS[name](*args, **kwargs) if of is None else getattr(of, name)(*args, **kwargs)


def _levels() -> int:
    """How many frames of ours a logger finds before it comes to those that call it: it does not count its own."""
    levels, frame = 0, sys._getframe(1)
    while is_ours(frame) and frame.f_back is not None:
        levels, frame = levels + 1, frame.f_back
    return levels


def _get(name: Any = None) -> Any:
    """The stand-in for ``getLogger``: there is one of each name, for good."""
    logger = _get_logger(name)
    traced = state.traces and not state.suspended and type(logger) in LOGGERS and not is_library_frame(_caller())
    return recording(logger) if traced and (name is None or type(name) is str) else logger


LOGGERS = (logging.Logger, logging.RootLogger)
_get_logger = logging.getLogger
_FUNCTIONS = {name: getattr(logging, name) for name in (*_LEVELS, "log") if hasattr(logging, name)}
for _class in LOGGERS:
    _stand_in = stand_in_class(_class, "a logger", _log, (*_LEVELS, "log"), _unrecorded, shared=True)
    tellers.update(id(vars(_stand_in)[name]) for name in (*_LEVELS, "log") if hasattr(_class, name))
tellers.update(map(id, _FUNCTIONS.values()))
for _name in _FUNCTIONS:
    patch(logging, _name, lambda *args, _name=_name, **kwargs: _log(None, _name, args, kwargs), anywhere=True)
patch(logging, "getLogger", _get, anywhere=True)
