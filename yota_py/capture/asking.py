"""Attributes that a function reads or assigns by names which are no part of its code: ``getattr``, ``setattr``, and
``vars``.

While it is traced, functions that hear of the names stand in the places of these. A name is text, and so the same at
each call of the trace, like all that is not traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dispatch import originals
from ..base.unwinding import state
from ..tape.operations import user_site
from . import kinds


def _reads(obj: Any, name: Any, *default: Any) -> Any:
    """The stand-in for ``getattr``."""
    if type(name) is str and (attributes := _attributes()) is not None:
        attributes.ask(name, user_site(), whether=bool(default))
    return getattr(obj, name, *default)


def _assigns(obj: Any, name: Any, value: Any) -> None:
    """The stand-in for ``setattr``."""
    if type(name) is str and (attributes := _attributes()) is not None:
        attributes.assign(name, effects=state.traces[0].effects)
    setattr(obj, name, value)


def _reads_all(*obj: Any) -> Any:
    """The stand-in for ``vars``."""
    if (attributes := _attributes()) is None:
        return vars(*obj)
    if not obj or kinds.is_namespace(obj[0]):
        trace, problem = state.traces[0], f"{user_site()}: it calls vars(), whose reads cannot be followed"
        if trace.effects:
            trace.give_up(problem)
        trace.problems.append(problem)
    else:
        attributes.all_of(obj[0])
        attributes.settle()
    return vars(*obj)


def _attributes() -> Any:
    """What the function that this thread traces reads of objects; ``None`` if it traces none."""
    return state.traces[0].attributes if state.traces and not state.suspended else None


STAND_INS: dict[str, Callable[..., Any]] = {"getattr": _reads, "setattr": _assigns, "vars": _reads_all}
originals.update({id(_reads): getattr, id(_assigns): setattr, id(_reads_all): vars})
