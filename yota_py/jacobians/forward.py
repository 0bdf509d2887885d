"""Derivatives forwards: tangents of arguments to tangents of results.

There is no second library of rules. A pullback is linear in its seed; what it does backwards, differentiated in the
seed, is the derivative forwards (J. Townsend, 2017, "A new trick for calculating Jacobian vector products").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..api import pullback
from ..base.tracebacks import folded
from ..base.types import ArrayType, is_inexact, typeof
from ..cache.modes import Gradient, Request
from ..errors import SeedError
from ..registry.constants import as_constants
from ..registry.tangents import astype, operand
from ..tape.operations import user_site
from ..tape.show import name_of
from ..tape.trees import flatten, outline, unflatten

_GRADIENT = Gradient(0)


@folded
def pushforward(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Callable[..., Any]]:
    """``(y, forward)``: the value, and a function from tangents, one per positional argument, to the tangent of ``y``.

    ``forward(*tangents)`` is the Jacobian of ``f`` times the tangents: how ``y`` changes where the arguments do. Each
    tangent has the structure and shapes of its argument (lists of numbers stand for arrays); ``None`` stands for zeros,
    of all or of one leaf, and is what integers, texts and the like have. The result has the structure, shapes and
    dtypes of ``y``, and ``None`` for what has no derivative. ``forward`` can be called as often as wanted, and
    differentiated.

    Raises what ``pullback`` raises; ``forward`` raises ``TypeError`` for another number of tangents, and ``SeedError``
    for one of another structure or shape. It costs about as much as a gradient: in a function that ``jit`` compiles,
    what only the way back needed is left out.

    >>> y, forward = pushforward(lambda x, a: (x * x, a * x), 2.0, 3.0)
    >>> y, forward(1.0, 0.0), forward(0.0, 1.0)
    ((4.0, 6.0), (4.0, 3.0), (0.0, 2.0))
    """
    y, back = pullback(f, *args, **kwargs)
    push, who = forwards(y, back), name_of(f)
    leaves, spec = flatten(args)
    given = unflatten(spec, leaves)  # containers of its own: the user's may be others when forward is called

    @folded
    def forward(*tangents: Any) -> Any:
        if len(tangents) != len(args):
            raise TypeError(f"{user_site()}: forward wants a tangent for each of the {len(args)} arguments of {who}, "
                            f"or None; got {len(tangents)}")
        return push([
            leaf
            for i, (tangent, x) in enumerate(zip(tangents, given, strict=True))
            for leaf in tangent_leaves(tangent, x, f"the tangent of argument {i} of {who}")
        ])  # fmt: skip

    return y, forward


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
    if not is_inexact(x):
        raise SeedError(f"{user_site()}: {who} is given for {typeof(x)}, which has no derivative; give None")
    v = operand(v)
    have, want = typeof(v), typeof(x)
    assert isinstance(want, ArrayType)
    if not isinstance(have, ArrayType) or have.dtype.kind not in "fciub" or have.shape != want.shape:
        raise SeedError(f"{user_site()}: {who} has {have}, the argument is {want}; give one of shape {want.shape}")
    if have.dtype.kind == "c" and want.dtype.kind != "c":
        raise SeedError(f"{user_site()}: {who} is complex, the argument is real ({want})")
    return v if have.dtype == want.dtype else astype(v, want.dtype)
