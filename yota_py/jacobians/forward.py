"""Derivatives forwards: tangents of arguments to tangents of results.

There is no second library of rules. A pullback is linear in its seed; what it does backwards, differentiated in the
seed, is the derivative forwards (J. Townsend, 2017, "A new trick for calculating Jacobian vector products").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.dispatch import is_traced
from ..base.tracebacks import folded
from ..base.types import ArrayType, is_inexact, typeof
from ..base.unwinding import state
from ..cache.functions import cache_for
from ..cache.modes import Gradient, Request
from ..cache.pulling import Pulled, Pulling, like, ones, pulled, running
from ..errors import SeedError
from ..registry.constants import as_constants
from ..registry.tangents import astype, operand, zeros_like
from ..reverse.differentiable import heed_habits
from ..reverse.results import result_types
from ..tape.operations import user_site
from ..tape.show import name_of
from ..tape.tape import Tape
from ..tape.trees import flatten, outline, unflatten
from ..tracing.traces import Trace

if TYPE_CHECKING:
    from ..engine.run.program import Program

_GRADIENT = Gradient(0)


@folded
def pushforward(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Callable[..., Any]]:
    """``(y, forward)``: the value, and a function from tangents, one per positional argument, to the tangent of ``y``.

    ``forward(*tangents)`` is the Jacobian of ``f`` times the tangents: how ``y`` changes where the arguments do. Each
    tangent has the structure and shapes of its argument (lists of numbers stand for arrays); ``None`` stands for zeros,
    of all or of one leaf, and is what integers, texts and the like have. The result has the structure, shapes and
    dtypes of ``y``, and ``None`` for what has no derivative. ``forward`` can be called as often as wanted, and
    differentiated. Both are compiled as a gradient is, and what ``forward`` needs is kept, as in ``pullback``.

    Raises what ``pullback`` raises; ``forward`` raises ``TypeError`` for another number of tangents, and ``SeedError``
    for one of another structure or shape.

    >>> y, forward = pushforward(lambda x, a: (x * x, a * x), 2.0, 3.0)
    >>> y, forward(1.0, 0.0), forward(0.0, 1.0)
    ((4.0, 6.0), (4.0, 3.0), (0.0, 2.0))
    """
    heed_habits(f, args, kwargs, "pushforward")
    if state.traces:
        return _pushed(*pulled(f, args, kwargs), f, args)
    return cache_for(f, _PUSHING)(f, args, kwargs, None)  # type: ignore[no-any-return]


class _Pushing(Pulling):
    """The value, and a function from tangents of the arguments to that of the value."""

    __slots__ = ()
    purpose = "pushforward"
    forward = True

    def interpreted(self, source: Trace, call: Request) -> Pulled:
        """The result of a recorded call."""
        return _pushed(*Pulling.interpreted(self, source, call), call.f, call.args)

    def later(self, tape: Tape, program: Program, y: Any, call: Request) -> Callable[[tuple[Any, ...]], Any]:
        """As of a pullback."""
        leaves, spec = flatten(y)
        places = [i for i, z in enumerate(leaves) if is_inexact(z)]
        wanted = [dx is not None for dx in tape.results[spec.num_leaves :]]
        inputs, structure = flatten(call.args)
        kinds, types, who = [*map(typeof, inputs)], result_types(tape), name_of(call.f)
        args = unflatten(structure, [*map(like, kinds, inputs)])  # of which the program keeps no memory
        run = running(program, [types[i] for i in places])

        def of(kept: tuple[Any, ...]) -> Callable[..., Any]:
            @folded
            def forward(*tangents: Any) -> Any:
                given = zip(_checked(tangents, args, who), kinds, wanted, strict=True)
                found = dict(zip(places, run([*kept, *(_settled(v, t) for v, t, used in given if used)]), strict=True))
                return unflatten(spec, [found.get(i) for i in range(len(leaves))])

            return forward

        return of

    def compared(self, result: Pulled, call: Request) -> Any:
        """The value, and how it changes where the arguments do so by ones."""
        y, forward = result
        return y, forward(*ones(*flatten(call.args)))


_PUSHING = _Pushing()


def _pushed(y: Any, back: Callable[[Any], Any], f: Callable[..., Any], args: tuple[Any, ...]) -> Pulled:
    """What ``pushforward`` gives, by a pullback."""
    push, who = forwards(y, back), name_of(f)
    leaves, spec = flatten(args)
    given = unflatten(spec, leaves)  # containers of its own: the user's may be others when forward is called

    @folded
    def forward(*tangents: Any) -> Any:
        return push(_checked(tangents, given, who))

    return y, forward


def _checked(tangents: tuple[Any, ...], args: tuple[Any, ...], who: str) -> list[Any]:
    """Tangents of all leaves of the arguments of a function, ``None`` for zeros."""
    if len(tangents) != len(args):
        raise TypeError(f"{user_site()}: forward wants a tangent for each of the {len(args)} arguments of {who}, "
                        f"or None; got {len(tangents)}")
    return [
        leaf
        for i, (tangent, x) in enumerate(zip(tangents, args, strict=True))
        for leaf in tangent_leaves(tangent, x, f"the tangent of argument {i} of {who}")
    ]  # fmt: skip


def _settled(tangent: Any, t: Any) -> Any:
    """A tangent, as a program wants it."""
    if tangent is None:
        return zeros_like(t)
    return tangent if t.kind == "array" or is_traced(tangent) else t.dtype.type(tangent)


def forwards(y: Any, back: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """A function from the tangents of the leaves of all arguments (``None`` for zeros) to that of ``y``."""
    out, spec = flatten(y)
    places = [i for i, z in enumerate(out) if is_inexact(z)]

    def push(tangents: list[Any]) -> Any:
        def paired(seeds: list[Any]) -> Any:
            known = dict(zip(places, seeds, strict=True))
            cotangents = flatten(back(unflatten(spec, [known.get(i) for i in range(len(out))])))[0]
            return inner_product(cotangents, tangents)

        zeros = [zeros_of(out[i]) for i in places]
        found = dict(zip(places, _GRADIENT.interpret(Request(paired, (zeros,), {}))[1], strict=True)) if places else {}
        return unflatten(spec, [found.get(i) for i in range(len(out))])

    return push


def zeros_of(x: Any) -> Any:
    """Zeros of the kind of a leaf, of which one is not asked for its value."""
    t = typeof(x)
    assert isinstance(t, ArrayType)
    if t.kind == "array":
        return as_constants(np.zeros(t.shape, t.dtype))
    zero = t.dtype.type(0)
    return zero.item() if t.kind == "python" else zero


def inner_product(cotangents: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The inner product; of complex numbers, that of their real and imaginary parts."""
    total: Any = 0.0
    for dx, v in zip(cotangents, tangents, strict=True):
        if dx is not None and v is not None:
            product = np.real(dx) * np.real(v) + np.imag(dx) * np.imag(v) if np.iscomplexobj(dx) else dx * v
            total = total + np.sum(product)
    return total


def tangent_leaves(tangent: Any, x: Any, who: str) -> list[Any]:
    """One checked tangent per leaf of an argument, ``None`` for zeros; raises ``SeedError``."""
    if type(tangent) is np.ndarray and type(x) is np.ndarray:  # as most are
        return [_tangent(tangent, x, who)]
    leaves, spec = flatten(x)
    if tangent is None:
        return [None] * len(leaves)
    try:
        parts = spec.flatten_up_to(tangent)
    except (TypeError, ValueError):
        raise SeedError(f"{user_site()}: {who} has the structure {outline(flatten(tangent)[1])}, the argument "
                        f"{outline(spec)}; give a number or an array for each *, or None for zeros") from None
    return [_tangent(part, leaf, who) for part, leaf in zip(parts, leaves, strict=True)]


def _tangent(v: Any, x: Any, who: str) -> Any:
    """A tangent as an array of the argument's dtype."""
    if v is None:
        return None
    if type(v) is np.ndarray and type(x) is np.ndarray and v.dtype is x.dtype and v.shape == x.shape and is_inexact(x):
        return v
    if not is_inexact(x):
        t = typeof(x)
        why = "has no derivative" if isinstance(t, ArrayType) else "is an object: its arrays have to be arguments"
        raise SeedError(f"{user_site()}: {who} is given for {t}, which {why}; give None")
    v = operand(v)
    have, want = typeof(v), typeof(x)
    assert isinstance(want, ArrayType)
    if not isinstance(have, ArrayType) or have.dtype.kind not in "fciub" or have.shape != want.shape:
        raise SeedError(f"{user_site()}: {who} has {have}, the argument is {want}; give one of shape {want.shape}")
    if have.dtype.kind == "c" and want.dtype.kind != "c":
        raise SeedError(f"{user_site()}: {who} is complex, the argument is real ({want})")
    return v if have.dtype == want.dtype else astype(v, want.dtype)
