"""``vmap``: a function of one example as a function of a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..base.containers import items_of, keys_of
from ..base.signatures import wraps
from ..base.tracebacks import folded
from ..base.types import ArrayType, is_integer, typeof
from ..base.unwinding import state
from ..cache.functions import FunctionCache, cache_for
from ..cache.whole import Whole
from ..tape.operations import user_site
from ..tape.show import name_of
from ..tape.trees import flatten, outline, unflatten
from ..tracing.stand_ins import noticing
from .leaves import Spec, Stacks, blank, described, extent, name_of_leaf, row
from .once import traced_once


@folded
def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function of a batch, made of ``f``, which takes one example: its results are those of ``f``, stacked.

    ``in_axes`` says along which axis of each positional argument the examples lie: an integer (negative ones count
    from the end), or ``None`` for what is the same for all examples. A tuple or list has an entry per argument, and
    where an argument is a container, its entry may be one of the same structure. Keyword arguments are mapped along
    axis 0. All that is mapped are arrays (of any dtype), with as many examples; what is not may be anything.

    Each number and array in what ``f`` returns, in any nesting of containers, is stacked along the axis ``out_axes``,
    one for all or a container of the structure of the result, in an array of its dtype; ``None`` stays ``None``. For a
    batch without examples, ``f`` is called once, with zeros, to know what the results are to be empty arrays of.

    When that pays, calls for batches of the same shapes run a program for the whole batch, as with ``jit`` (unless
    ``in_axes`` or ``out_axes`` hold other containers than tuples, lists and dicts); what ``f`` does besides, it does.

    Raises ``TypeError`` for axes that are no integers, of another structure than their argument, or given for what is
    no array, and for results that differ in structure or shape; ``ValueError`` for an axis that an array has not, for
    batches of different sizes, and if nothing is mapped at all. The function raises what ``f`` raises.

    >>> import numpy as np
    >>> from yota_py import gradient, pullback, vmap
    >>> def loss(w, x, y):
    ...     return (x @ w - y) ** 2
    >>> w, x, y = np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.zeros(3)
    >>> vmap(gradient(loss), in_axes=(None, 0, 0))(w, x, y)  # one gradient per example
    array([[2., 0.],
           [0., 4.],
           [6., 6.]])
    >>> _, back = pullback(np.cumsum, w)
    >>> vmap(back)(np.eye(2))  # a Jacobian, row by row
    (array([[1., 0.],
           [1., 1.]]),)
    """
    if not callable(f):
        raise TypeError(f"{user_site()}: vmap wants a function; got {type(f).__name__}")
    _check_axes(in_axes, "in_axes", none=True)
    _check_axes(out_axes, "out_axes", none=False)
    looped, cache = one_by_one(f, in_axes, out_axes), _cache_for(f, in_axes, out_axes)

    @wraps(f)
    @folded
    def batched(*args: Any, **kwargs: Any) -> Any:
        return looped(*args, **kwargs) if state.traces or cache is None else cache(looped, args, kwargs, None)

    batched.__yota_made__ = f, partial(vmap, in_axes=in_axes, out_axes=out_axes)  # type: ignore[attr-defined]
    return batched


def one_by_one(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, again: Sequence[Any] = ()
) -> Callable[..., Any]:
    """The same without a program of its own: where ``f`` is traced, all examples but the first are one operation.

    ``again`` is a function of an example and what else it is given, which does what ``f`` does: the former captures
    what cannot be looked through.
    """
    who = f"vmap of {name_of(f)}"

    @wraps(f)
    def looped(*args: Any, **kwargs: Any) -> Any:
        examples = _Examples(who, in_axes, args, kwargs)
        out = Stacks(who, "the result")
        for k in range(examples.count) if examples.count else (None,):
            if k == 1 and state.traces and _at_once(again or [f], examples, out):
                break
            given, named = examples.one(k)
            out.add((noticing(f) if state.traces else f)(*given, **named))
        assert out.spec is not None
        axes = _out_axes(who, out_axes, out)
        return unflatten(out.spec, out.leaves(axes, none=examples.count == 0))

    return looped


def _cache_for(f: Any, in_axes: Any, out_axes: Any) -> FunctionCache | None:
    """The cache of a function for these axes, which are known by what they print; ``None`` if they are not."""
    if not all(map(_is_plain, (in_axes, out_axes))):
        return None
    return cache_for(f, Whole(f"vmap(in_axes={in_axes!r}, out_axes={out_axes!r})"))


def _is_plain(axes: Any) -> bool:
    items = axes.items() if type(axes) is dict else axes if type(axes) in (tuple, list) else None
    return type(axes) in (int, str, type(None)) if items is None else all(map(_is_plain, items))


class _Examples:
    """The arguments of a call, taken apart into examples."""

    def __init__(self, who: str, in_axes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        axes: list[int | None] = []
        said = "in_axes[{}]" if isinstance(in_axes, tuple | list) else "in_axes"
        for i, (entry, arg) in enumerate(zip(_entries(who, in_axes, args), args, strict=True)):
            _spread(entry, arg, said.format(i), f"argument {i}", axes)
        for name, value in kwargs.items():
            _spread(0, value, "in_axes", name, axes)
        leaves, self._spec = flatten((args, kwargs))
        named, self._leaves = [], []
        for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
            if axis is None or leaf is None:
                self._leaves.append((leaf, False))
                continue
            name = _name_of_argument(self._spec, i)
            t = typeof(leaf)
            if not isinstance(t, ArrayType) or t.kind != "array":
                raise TypeError(f"{user_site()}: {who}: {name} is {described(leaf)}, and in_axes says that examples "
                                f"lie along its axis {axis}. Give it None there, or pass an array")
            if not -t.ndim <= axis < t.ndim:
                raise ValueError(f"{user_site()}: {who}: {name} is {t}, which has no axis {axis} for in_axes to mean")
            named.append((name, leaf, axis))
            self._leaves.append((np.moveaxis(leaf, axis, 0) if axis % t.ndim else leaf, True))
        if not named:
            raise ValueError(f"{user_site()}: {who}: nothing is mapped: in_axes={in_axes!r} says of no array along "
                             "which axis the examples lie")
        self.count = extent(named, who)

    def one(self, k: int | None) -> Any:
        """The arguments for an example; without a number, for one that there is not."""
        return self.of([blank(x) if k is None else row(x, k) for x in self.mapped()], self.others())

    def mapped(self) -> list[Any]:
        """The arrays that are taken apart, with the examples along their first axes."""
        return [x for x, is_mapped in self._leaves if is_mapped]

    def others(self) -> list[Any]:
        """The leaves that all examples share."""
        return [x for x, is_mapped in self._leaves if not is_mapped]

    def of(self, mapped: Sequence[Any], others: Sequence[Any]) -> Any:
        """Arguments with these leaves."""
        parts = iter(mapped), iter(others)
        return unflatten(self._spec, [next(parts[0 if is_mapped else 1]) for _, is_mapped in self._leaves])


def _at_once(step: Sequence[Any], examples: _Examples, out: Stacks) -> bool:
    """Let all examples but the first be one operation, if they can: a function of one and what else it is given."""

    def turn(given: Any, carried: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        (f, *beside), *others = given
        args, kwargs = examples.of(elements, others)
        one = Stacks("vmap", "the result")
        one.add(f(*args, *beside, **kwargs))
        return one.one_more(out)

    arrays, others = examples.mapped(), examples.others()
    once = traced_once(turn, [[*step], *others], [examples.of(arrays, others)], [], arrays, 1, examples.count - 1)
    results = None if once is None else once.run([], [x[1:] for x in arrays], examples.count - 1)
    if results is None:
        return False
    out.give(results)
    return True


def _check_axes(axes: Any, what: str, *, none: bool) -> None:
    """Raise ``TypeError`` for what says no axis, at the place of the user's that says it."""
    items = items_of(axes)
    if items is not None:
        for item in items:
            _check_axes(item, what, none=none)
    elif not (is_integer(axes) or (axes is None and none)):
        kinds = "integers or None, or containers of them" if none else "integers, or containers of them"
        raise TypeError(f"{user_site()}: vmap: {what} are {kinds}; got {axes!r}")


def _entries(who: str, in_axes: Any, args: tuple[Any, ...]) -> Sequence[Any]:
    """What is said of each positional argument."""
    if not isinstance(in_axes, tuple | list):
        return [in_axes] * len(args)
    if len(in_axes) != len(args):
        given = f"{len(args)} positional argument{'s' * (len(args) != 1)}"
        raise TypeError(f"{user_site()}: {who}: in_axes has {len(in_axes)} entries, and the call has {given}. Keyword "
                        "arguments are mapped along axis 0, and have none")
    return in_axes


def _spread(entry: Any, tree: Any, what: str, name: str, out: list[Any]) -> None:
    """An axis for each leaf of an argument or result, as an entry says that has its structure, or the top of it."""
    axes = items_of(entry)
    if axes is None:
        out += [None if entry is None else int(entry)] * len(flatten(tree)[0])
        return
    items = items_of(tree)
    if items is None or type(entry) is not type(tree) or [*keys_of(entry)] != [*keys_of(tree)]:
        if isinstance(entry, dict) and isinstance(tree, dict) and {*entry} == {*tree}:
            axes = [entry[key] for key in tree]
        else:
            raise TypeError(f"{user_site()}: vmap: {what} is {entry!r}, and {name} has the structure "
                            f"{outline(flatten(tree)[1])}: give one axis for all of it, or a container like it")
    for key, axis, item in zip(keys_of(tree), axes, items or (), strict=True):
        _spread(axis, item, f"{what}[{key!r}]", f"{name}[{key!r}]", out)


def _out_axes(who: str, out_axes: Any, out: Stacks) -> list[int]:
    """The axis of each result along which it is stacked."""
    assert out.spec is not None
    axes: list[int] = []
    firsts = out.firsts()
    _spread(out_axes, unflatten(out.spec, firsts), "out_axes", "the result", axes)
    for i, (first, axis) in enumerate(zip(firsts, axes, strict=True)):
        ndim = np.ndim(first) + 1
        if first is not None and not -ndim <= axis < ndim:
            name = name_of_leaf("the result", out.spec, i)
            raise ValueError(f"{user_site()}: {who}: {name}, stacked, has {ndim} dimension{'s' * (ndim != 1)}, and no "
                             f"axis {axis} for out_axes to mean")
    return axes


def _name_of_argument(spec: Spec, i: int) -> str:
    """What a leaf of ``(args, kwargs)`` is called."""
    kind, key, *rest = spec.paths()[i]
    return (f"argument {key}" if kind == 0 else str(key)) + "".join(f"[{part!r}]" for part in rest)
