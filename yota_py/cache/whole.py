"""``jit``: a whole Python function as compiled code, with what it does to arrays and objects."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from ..base.records import record
from ..base.signatures import wraps
from ..base.tracebacks import fold, folded
from ..base.unwinding import state
from ..capture.effects import perform
from ..capture.guards import Guards
from ..capture.plain import Performance
from ..capture.sinks import appending
from ..errors import UntraceableError
from ..tape.operations import user_site
from ..tracing.stand_ins import noticing
from .compilable import Compilable
from .functions import cache_for
from .modes import Request, TracedCall
from .step import make_step


@record()
class Whole:
    """What the function itself does, and its result."""

    effects: ClassVar[bool] = True
    otherwise: ClassVar[str] = "called as it is"
    purpose: str = "jit"

    def interpret(self, call: Request) -> Any:
        """Call the function."""
        return call.f(*call.args, **call.kwargs)

    def at_once(self, call: Request) -> tuple[Any, int | None] | None:
        """The same, which needs no trace."""
        return self.interpret(call), None

    def record(self, call: Request, inputs: frozenset[str | int]) -> TracedCall:
        """Call the function on tracers, and let its effects happen; or call it as it is, if that cannot be followed."""
        performance, problem, module = _performed(call, inputs)
        if performance is None:  # and the exception that said so is not the context of the function's own
            result = self.interpret(call)
            passing = any(name in sys.modules for name in module)
            return TracedCall(lambda: result, [problem], inputs, passing=passing)
        recording = performance.recording
        problems = list(dict.fromkeys(performance.problems))
        compile = partial(make_step, performance)
        return TracedCall(lambda: performance.result, problems, inputs, recording.trace, recording.captures, compile)

    def reference(self, call: Request) -> tuple[Any, Guards | None]:
        """The function itself has the last word."""
        return self.interpret(call), None

    def compared(self, result: Any, call: Request) -> Any:
        """All of it."""
        return result


def _performed(call: Request, inputs: frozenset[str | int]) -> tuple[Performance | None, str, list[str]]:
    """The call with its effects; ``None``, why it cannot be traced, and the module that it will import, if any."""
    try:
        return perform(call.f, call.args, call.kwargs, inputs), "", []
    except UntraceableError as reason:
        problem, *module = reason.args
        return None, problem, module


_WHOLE = Whole()


@folded
def jit(f: Callable[..., Any]) -> Compilable:
    """A function that does what ``f`` does, compiled: it may call ``grad``, and may write into arrays and objects.

    Arguments, results and effects are those of ``f``: arrays that it writes into are written in place, attributes that
    it assigns are assigned. When it is compiled, and what makes it compile again, is as with ``grad``;
    ``compile(*args)`` compiles at once, for arguments of these types, and calls the function once to do so. A function
    that cannot be followed is called as it is (``explain`` says why).

    Raises ``TypeError`` for what is not callable, and what ``f`` raises.

    >>> import numpy as np
    >>> from yota_py import value_and_grad
    >>> w, x = np.zeros(2), np.array([1.0, 2.0])
    >>> @jit
    ... def step(w, rate):
    ...     loss, dw = value_and_grad(lambda w: np.sum((w - x) ** 2))(w)
    ...     w -= rate * dw
    ...     return loss
    >>> [float(step(w, 0.25)) for _ in range(3)], w
    ([5.0, 1.25, 0.3125], array([0.875, 1.75 ]))
    """
    if not callable(f):
        raise TypeError(f"{user_site()}: jit wants a function; got {type(f).__name__}")
    cache, given = cache_for(f, _WHOLE), appending(f)
    serve = cache.__call__

    @wraps(f)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        try:
            if state.traces:
                return noticing(f)(*args, **kwargs)
            if given is not None:
                return cache(*given(args, kwargs), None)
            return serve(f, args, kwargs, None)
        except BaseException as error:
            fold(error)
            raise

    return Compilable(compiled, cache, jit, (f,), given)
