"""``jit``: a whole Python function as compiled code, with what it does to arrays and objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from .cache import cache_for
from .check import compare
from .effects import UntraceableError, perform
from .engine import Refusal
from .modes import Call, TracedCall
from .operations import user_site
from .patching import noticing, state
from .step import UnrepeatableError, make_step
from .transforms import Compilable, compilable
from .trees import flatten, unflatten
from .variants import Runner, Signature, refuse


@dataclass(frozen=True, slots=True)
class Whole:
    """What the function itself does, and its result."""

    plain: ClassVar[bool] = True
    effects: ClassVar[bool] = True
    otherwise: ClassVar[str] = "called as it is"
    purpose: ClassVar[str] = "jit"

    def interpret(self, call: Call) -> Any:
        """Call the function."""
        return call.f(*call.args, **call.kwargs)

    def record(self, call: Call, inputs: frozenset[str]) -> TracedCall:
        """Call the function on tracers, and let its effects happen; or call it as it is, if that cannot be followed."""
        try:
            performance = perform(call.f, call.args, call.kwargs, inputs)
        except UntraceableError as reason:
            result = self.interpret(call)
            return TracedCall(lambda: result, None, None, [str(reason)], lambda: (None, refuse, ""))

        def compile() -> tuple[Any, Runner, str]:
            try:
                program, step = make_step(performance)
                return program, step, ""
            except UnrepeatableError as reason:
                return None, refuse, str(reason)

        recording = performance.recording
        problems = list(dict.fromkeys(performance.problems))
        return TracedCall(lambda: performance.result, recording.trace, recording.captures, problems, compile)

    def checked(self, signature: Signature, call: Call) -> Any:
        """The function itself has the last word: what compiled code did is undone when it is known."""
        leaves, _ = call.leaves()
        values = signature.guard(call.f)
        if isinstance(values, list):
            return signature.run(*call)
        arrays = [x for x in (*leaves, *values) if isinstance(x, np.ndarray)]
        before = [x.copy() for x in arrays]
        result = signature.run(*call)
        if type(result) is Refusal:
            return result
        compiled = _picture(result, arrays, signature.guard(call.f))
        for x, old in zip(arrays, before, strict=True):
            if x.flags.writeable:
                np.copyto(x, old)
        signature.guards.restore(call.f, values)
        result = self.interpret(call)
        compare(compiled, _picture(result, arrays, signature.guard(call.f)), call.f)
        return result


def _picture(result: Any, arrays: Sequence[np.ndarray], captured: Any) -> Any:
    """Copies of a result, of arrays that may have been written, and of what is captured now."""
    leaves, spec = flatten((result, arrays, captured if isinstance(captured, tuple) else None))
    return unflatten(spec, [np.array(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])


_WHOLE = Whole()


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
    cache = cache_for(f, _WHOLE)

    @wraps(f)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        if state.traces:
            return noticing(f)(*args, **kwargs)
        return cache(f, args, kwargs, None)

    return compilable(compiled, f, cache)
