"""Functions with a memory (``functools.lru_cache``) in a traced function: what they remember is read like a variable.

Their memory must not meet traced values, and a program must give what they would: the value they have remembered,
even if the function behind would give another one by now.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

from ..base.containers import dict_of
from ..base.dispatch import decided, find_held, find_traced, is_traced
from ..base.unwinding import state
from ..tracing.stand_ins import suspended
from ..tracing.traces import Trace
from .captured import standing
from .guards import Guards
from .places import Exchange, Paused
from .slots import Slot, literal


class Memos:
    """What takes the places of functions with a memory. ``value`` and ``function`` are those of ``Captures``."""

    def __init__(
        self, trace: Trace, guards: Guards, exchange: Exchange,
        value: Callable[[Any, Slot], Any], function: Callable[[Any, Slot], Any], give_up: Callable[[str], Any],
    ) -> None:  # fmt: skip
        self._trace, self._guards, self._exchange = trace, guards, exchange
        self._value, self._function, self._give_up = value, function, give_up
        self._known: dict[tuple[int, Any], Any] = {}

    def stand_in(self, memo: Any, slot: Slot) -> Callable[..., Any]:
        """A function that reads what ``memo`` remembers, or computes it and lets it remember that."""
        name = getattr(memo, "__name__", "a function")

        def remembered(*args: Any, **kwargs: Any) -> Any:
            traced = [x for x in (*args, *kwargs.values()) if is_traced(x)]
            if traced and not self._trace.effects and all(isinstance(x, int) for x in traced):  # they are looked up
                args = tuple([decided(x) if is_traced(x) else x for x in args])
                kwargs = {key: decided(x) if is_traced(x) else x for key, x in kwargs.items()}
            if find_traced((args, kwargs)) is not None or find_held((*args, *kwargs.values())) is not None:
                if self._trace.effects:
                    self._give_up(f"it calls {name} with values that vary, and {name} remembers what it gives")
                self._function(memo.__wrapped__, slot.attribute("__wrapped__"))
                return memo.__wrapped__(*args, **kwargs)
            key = args[0] if len(args) == 1 and type(args[0]) in (int, str) else args
            if not kwargs and (id(memo), key) in self._known:
                return self._known[id(memo), key]
            memory = next(_memories(memo), None)
            if standing and (kwargs or memory is None or key not in memory):  # it may read parameters
                self._function(memo.__wrapped__, slot.attribute("__wrapped__"))
                return memo.__wrapped__(*args, **kwargs)
            if kwargs or memory is None or key not in memory:
                stored = any(True for _ in self._exchange.changes(standing=True))
                if self._trace.effects and (self._trace.writes or stored):
                    self._give_up(f"it calls {name} with arguments that {name} has not met yet")
                with Paused(self._exchange), state.unwatched, suspended:
                    result = memo(*args, **kwargs)
                memory = next((memory for memory in _memories(memo) if key in memory), None)
                if kwargs or memory is None:
                    problem = f"it calls {name} with keywords, and {name} remembers what it gives"
                    self._trace.problems.append(problem)
                    return result if not self._trace.effects else self._give_up(problem)
            else:
                result = memo(*args)
            self._guards.require(f"{self._slot(key)} in {self._guards.constant(memory)}", slot, "remembered")
            code = f"{slot}({', '.join(self._slot(arg).code for arg in args)})"
            read = self._guards.local(Slot(code, f"{name}({', '.join(map(repr, args))})", slot.site))
            self._known[id(memo), key] = self._value(result, read)
            return self._known[id(memo), key]

        return remembered

    def _slot(self, value: Any) -> Slot:
        if type(value) in (int, str):
            return literal(value)
        if type(value) is tuple:
            return Slot(f"({''.join(f'{self._slot(item)}, ' for item in value)})")
        return self._guards.reference(value) if dict_of(value) is not None else self._guards.constant(value)


def _memories(memo: Any) -> Iterator[dict[Any, Any]]:
    """The dict in which a function with a memory keeps its results, by arguments."""
    for found in gc.get_referents(memo):
        if type(found) is dict and found is not memo.__dict__:
            yield found
