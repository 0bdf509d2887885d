"""Derivatives of functions with many results: Jacobians, Hessians, and their products with vectors.

There is no second library of rules. A pullback is linear in its seed; what it does backwards, differentiated in the
seed, is the derivative forwards (J. Townsend, 2017, "A new trick for calculating Jacobian vector products").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from .api import gradient, pullback
from .base.tracebacks import fold, folded
from .base.types import ArrayType, is_inexact, typeof
from .base.unwinding import state
from .cache.compilable import Compilable
from .cache.functions import cache_for
from .cache.modes import Gradient, Request
from .cache.whole import Whole
from .errors import NotDifferentiableError, SeedError
from .loops.batching import one_by_one
from .registry.constants import as_constants
from .registry.tangents import astype, operand
from .reverse.differentiable import counted, needed_for, out_of_range, positions
from .reverse.results import settle
from .tape.operations import user_site
from .tape.show import name_of
from .tape.trees import flatten, outline, unflatten

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
    push, who = _forwards(y, back), name_of(f)
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
            for leaf in _tangent_leaves(tangent, x, f"the tangent of argument {i} of {who}")
        ])  # fmt: skip

    return y, forward


@folded
def jacobian(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Compilable:
    """A function ``(*args, **kwargs) ->`` the derivatives of all that ``f`` returns in the positional arguments
    ``argnums``.

    For an array of shape ``s`` in what ``f`` returns, and one of shape ``t`` in the argument, it is an array of shape
    ``s + t``, with the dtype of the argument; a number counts as shape ``()``. The result has the structure of what
    ``f`` returns and, at each of its leaves, that of the argument; a sequence of ``argnums`` gives a tuple there.
    Integers, texts and the like have ``None``. It is computed row by row, by seeds for the results, or column by
    column, by tangents of the arguments, whichever are fewer; all of them in one batch. It is compiled when that pays;
    ``jacobian(f).compile(*args)`` compiles at once.

    Raises ``ValueError`` for positions that are no integers; the function raises ``TypeError`` if it is called with
    fewer arguments, ``NotDifferentiableError`` for complex arguments or results, and what ``pullback`` raises.

    >>> import numpy as np
    >>> jacobian(lambda x: np.array([x[0] * x[1], x[0] + 1.0, x[1] ** 2]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [1., 0.],
           [0., 6.]])
    """
    _check_callable(f, "jacobian")
    wanted = positions(argnums)

    @wraps(f)
    def of_results(*args: Any, **kwargs: Any) -> Any:
        return _jacobian(f, f, wanted, args, kwargs)

    return _compilable(jacobian, f, argnums, of_results)


@folded
def hessian(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Compilable:
    """A function ``(*args, **kwargs) ->`` the second derivatives of ``f``, which returns a real scalar, in the
    positional arguments ``argnums``.

    For arrays of shapes ``s`` and ``t`` in the argument, there is an array of shape ``s + t``: the result has the
    structure of the argument and, at each of its leaves, that structure again; a sequence of ``argnums`` gives a tuple
    of tuples. It is the Jacobian of the gradient, and compiled as ``jacobian`` is. Raises what ``jacobian`` raises, and
    ``NonScalarOutputError`` where ``f`` returns no real scalar.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    """
    _check_callable(f, "hessian")
    wanted = positions(argnums)
    slopes = gradient(f, wanted)

    @wraps(f)
    def of_slopes(*args: Any, **kwargs: Any) -> Any:
        return _jacobian(f, slopes, wanted, args, kwargs)

    return _compilable(hessian, f, argnums, of_slopes)


@folded
def hvp(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Compilable:
    """A function ``(*args, v, **kwargs) ->`` the Hessian of ``f`` times ``v``, without the Hessian.

    ``f`` returns a real scalar. ``v`` comes last; it has the structure and shapes of the argument ``argnums``, or is a
    tuple of such for a sequence of them (``None`` stands for zeros, of an argument or of a leaf); so has the result,
    with the dtypes of the argument. It costs a few gradients (B. Pearlmutter, 1994, "Fast exact multiplication by the
    Hessian"), and is compiled when that pays. Raises what ``gradient`` raises, and ``SeedError`` for a vector of
    another structure or shape.

    >>> import numpy as np
    >>> hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    _check_callable(f, "hvp")
    wanted = positions(argnums)

    @wraps(f)
    def product(*args: Any, **kwargs: Any) -> Any:
        *xs, v = args or (None,)
        if len(xs) < needed_for(wanted):
            names = "the arguments of the function, and then the vector"
            raise TypeError(f"{user_site()}: hvp of {name_of(f)} wants {names}; got {len(args)} by position")
        at, who = counted(wanted, len(xs)), f"the vector for hvp of {name_of(f)}"
        if isinstance(at, int):
            leaves = _tangent_leaves(v, xs[at], who)
        elif not isinstance(v, tuple | list) or len(v) != len(at or ()):
            raise SeedError(f"{user_site()}: {who} is a tuple of {len(at or ())}, one for each of argnums={argnums!r}")
        else:
            leaves = [leaf for i, part in zip(at or (), v, strict=True) for leaf in _tangent_leaves(part, xs[i], who)]

        @wraps(f)
        def along(*xs: Any, **named: Any) -> Any:
            return _paired(flatten(gradient(f, wanted)(*xs, **named))[0], leaves)

        return Gradient(wanted).interpret(Request(along, tuple(xs), kwargs))[1]

    return _compilable(hvp, f, argnums, product)


def _check_callable(f: Any, who: str) -> None:
    if not callable(f):
        raise TypeError(f"{user_site()}: {who} wants a function; got {type(f).__name__}")


def _compilable(transform: Any, f: Callable[..., Any], argnums: Any, run: Callable[..., Any]) -> Compilable:
    """What a transform makes of a function: ``run``, through the cache."""
    cache = cache_for(f, Whole(f"{transform.__name__}(argnums={argnums!r})"))

    @wraps(f)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        try:
            return run(*args, **kwargs) if state.traces else cache(run, args, kwargs, None)
        except BaseException as error:
            fold(error)
            raise

    return Compilable(transformed, cache, transform, (f, argnums), lambda args, kwargs: (run, args, kwargs))


def _jacobian(
    of: Callable[..., Any], f: Callable[..., Any], argnums: int | tuple[int, ...], args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """The Jacobian of ``f`` at these arguments, for who has asked for something of a function."""
    if len(args) < needed_for(argnums):
        raise out_of_range(of, argnums, len(args))
    at = counted(argnums, len(args))
    places = (at,) if isinstance(at, int) else at or ()
    given = tuple(args[i] for i in places)
    inputs, in_spec = flatten(given)
    _require_real(inputs, f"{name_of(of)} is given")
    others = _copied((tuple(None if i in places else x for i, x in enumerate(args)), kwargs))
    y, back = pullback(_restricted(f, places, others), *given)
    out, out_spec = flatten(y)
    _require_real(out, f"{name_of(of)} returns")
    rows, columns = (sum(np.size(x) for x in leaves if is_inexact(x)) for leaves in (out, inputs))
    found: list[Any] = [None if not is_inexact(z) else [None] * len(inputs) for z in out]
    if rows <= columns or not columns:
        for i, z in enumerate(out):
            if found[i] is not None:
                pulled = partial(_pulled, back, out, out_spec, i)
                found[i] = _stacked(pulled, z, _row(f, places, i), given, others)
    else:
        push = _forwards(y, back)
        for j, x in enumerate(inputs):
            if is_inexact(x):
                stacks = _stacked(partial(_pushed, push, len(inputs), j), x, _column(f, places, j), given, others)
                for part, dy in zip(found, stacks, strict=True):
                    if part is not None:
                        part[j] = np.moveaxis(dy, 0, -1) if np.shape(x) else dy

    def tree(part: list[Any], z: Any) -> Any:
        placed = [None if d is None else _placed(d, z, x) for d, x in zip(part, inputs, strict=True)]
        return unflatten(in_spec, placed)[0] if isinstance(at, int) else unflatten(in_spec, placed)

    return unflatten(out_spec, [part and tree(part, z) for part, z in zip(found, out, strict=True)])


def _restricted(f: Callable[..., Any], places: Sequence[int], others: tuple[Any, Any]) -> Callable[..., Any]:
    """The function of the arguments at these places."""

    @wraps(f)
    def restricted(*xs: Any) -> Any:
        full = dict(zip(places, xs, strict=True))
        return f(*(full.get(i, x) for i, x in enumerate(others[0])), **others[1])

    return restricted


def _require_real(leaves: Sequence[Any], who: str) -> None:
    if any(np.iscomplexobj(x) for x in leaves if is_inexact(x)):
        raise NotDifferentiableError(
            f"{user_site()}: {who} complex numbers, whose Jacobian is no matrix of numbers: take real and imaginary "
            "parts as two arguments and two results"
        )


def _copied(tree: Any) -> Any:
    """The same, for a function that may write into it, as the tracers of what is differentiated in are."""
    leaves, spec = flatten(tree)
    return unflatten(spec, [np.copy(x, order="K") if isinstance(x, np.ndarray) else x for x in leaves])


def _placed(d: Any, y: Any, x: Any) -> Any:
    """The derivatives of a leaf in another one: an array, or a number as that of the argument is."""
    shape, t = (*np.shape(y), *np.shape(x)), typeof(x)
    assert isinstance(t, ArrayType)
    return settle(np.reshape(np.atleast_1d(d), shape), ArrayType(t.dtype, shape, "array" if shape else t.kind))


def _stacked(of: Callable[[Any], Any], z: Any, again: Callable[..., Any], *beside: Any) -> Any:
    """What a function gives for ones in the places of a leaf, stacked along a first axis; or for the number one."""
    t = typeof(z)
    assert isinstance(t, ArrayType)
    return one_by_one(of, again=(again, *beside))(_units(t.shape, t.dtype)) if t.shape else of(t.dtype.type(1))


def _pulled(back: Callable[[Any], Any], out: Sequence[Any], spec: Any, i: int, seed: Any) -> list[Any]:
    """What flows back to the leaves of the arguments from one leaf of the result."""
    zeros = [_zeros(z) if is_inexact(z) else None for z in out]
    return flatten(back(unflatten(spec, [seed if k == i else zero for k, zero in enumerate(zeros)])))[0]


def _pushed(push: Callable[[list[Any]], Any], n: int, j: int, tangent: Any) -> list[Any]:
    """How the leaves of the result change with one of the n leaves of the arguments."""
    return flatten(push([tangent if k == j else None for k in range(n)]))[0]


def _row(f: Callable[..., Any], places: Sequence[int], i: int) -> Callable[..., Any]:
    """``_pulled`` as a function of nothing but ``f`` and its arguments."""

    @wraps(f)
    def row(seed: Any, given: Any, others: Any) -> list[Any]:
        y, back = pullback(_restricted(f, places, others), *given)
        return _pulled(back, *flatten(y), i, seed)

    row.__yota_made__ = f, partial(_row, places=places, i=i)  # type: ignore[attr-defined]
    return row


def _column(f: Callable[..., Any], places: Sequence[int], j: int) -> Callable[..., Any]:
    """``_pushed`` as a function of nothing but ``f`` and its arguments."""

    @wraps(f)
    def column(tangent: Any, given: Any, others: Any) -> list[Any]:
        y, back = pullback(_restricted(f, places, others), *given)
        return _pushed(_forwards(y, back), len(flatten(given)[0]), j, tangent)

    column.__yota_made__ = f, partial(_column, places=places, j=j)  # type: ignore[attr-defined]
    return column


def _forwards(y: Any, back: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    """A function from the tangents of the leaves of all arguments (``None`` for zeros) to that of ``y``."""
    out, spec = flatten(y)
    places = [i for i, z in enumerate(out) if is_inexact(z)]

    def push(tangents: list[Any]) -> Any:
        def paired(seeds: list[Any]) -> Any:
            known = dict(zip(places, seeds, strict=True))
            cotangents = flatten(back(unflatten(spec, [known.get(i) for i in range(len(out))])))[0]
            return _paired(cotangents, tangents)

        zeros = [_zeros(out[i]) for i in places]
        found = dict(zip(places, _GRADIENT.interpret(Request(paired, (zeros,), {}))[1], strict=True)) if places else {}
        return unflatten(spec, [found.get(i) for i in range(len(out))])

    return push


def _zeros(x: Any) -> Any:
    """Zeros of the kind of a leaf, of which one is not asked for its value."""
    t = typeof(x)
    assert isinstance(t, ArrayType)
    if t.kind == "array":
        return as_constants(np.zeros(t.shape, t.dtype))
    zero = t.dtype.type(0)
    return zero.item() if t.kind == "python" else zero


def _units(shape: tuple[int, ...], dtype: Any) -> Any:
    """Arrays of this shape, along the first axis, of which each has a one where the others have zeros."""
    n = math.prod(shape)
    return as_constants(np.reshape(np.eye(n, dtype=dtype), (n, *shape)))


def _paired(cotangents: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The inner product; of complex numbers, that of their real and imaginary parts."""
    total: Any = 0.0
    for dx, v in zip(cotangents, tangents, strict=True):
        if dx is not None and v is not None:
            product = np.real(dx) * np.real(v) + np.imag(dx) * np.imag(v) if np.iscomplexobj(dx) else dx * v
            total = total + np.sum(product)
    return total


def _tangent_leaves(tangent: Any, x: Any, who: str) -> list[Any]:
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
