"""``scan`` and ``while_loop``: loops with a state that each turn hands on to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..base.tracebacks import folded
from ..base.types import ArrayType, typeof
from ..tape.operations import user_site
from ..tape.show import name_of
from ..tape.trees import flatten, outline, unflatten
from .leaves import Stacks, blank, described, extent, fitted, name_of_leaf, row, settled_leaves, whole_number

C = TypeVar("C")


class Carry:
    """What is carried, as leaves that keep their types."""

    def __init__(self, init: Any, who: str, body: Any) -> None:
        self.leaves, self.spec = settled_leaves(init, "init", who)
        self.types = [typeof(x) for x in self.leaves]
        self._who, self._body = who, body

    def tree(self) -> Any:
        """The container."""
        return unflatten(self.spec, self.leaves)

    def take(self, tree: Any) -> None:
        """Carry on what a turn gives. Raises ``TypeError`` if that has another structure, shape or dtype."""
        leaves, spec = flatten(tree)
        if spec != self.spec:
            raise self._changed(f"is {outline(self.spec)}", f"gives {outline(spec)}")
        out = []
        for i, (leaf, want) in enumerate(zip(leaves, self.types, strict=True)):
            new = fitted(leaf, want)
            if new is None and (leaf is not None or isinstance(want, ArrayType)):
                was = f"has {want if isinstance(want, ArrayType) else None} in {name_of_leaf('init', spec, i)}"
                raise self._changed(was, f"gives {described(leaf)} in its place")
            out.append(new)
        self.leaves = out

    def _changed(self, was: str, now: str) -> TypeError:
        return TypeError(f"{user_site()}: {self._who}: what is carried {was}, and {name_of(self._body)} {now}. It is "
                         "to keep its structure, shapes and dtypes: begin with what a turn gives, or convert that")


@folded
def scan(
    step: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, length: int | None = None, *, reverse: bool = False
) -> tuple[Any, Any]:
    """A loop with a state: ``(carry, ys)`` of ``carry, y = step(carry, x)``, beginning with ``init``, for each ``x``.

    ``init``, what is carried, is a number, an array or ``None``, or a container of such in any nesting; it keeps its
    structure, shapes and dtypes in all turns. Numbers in it are NumPy's: a ``float`` is carried as a ``float64``, an
    ``int`` as an ``int64``. ``xs`` is an array, or a container of arrays with as many elements along their first axes,
    of which each turn gets one; or ``None``, with a ``length``: so many turns. ``ys`` has the structure of ``y``, in
    which each number and array is stacked along a new first axis; ``None`` stays ``None``. With ``reverse`` it begins
    with the last elements; those of ``ys`` stand where their ``x`` stands.

    ``step`` may write into what it is given; ``init`` and ``xs`` stay as they are. Where there is nothing to go
    through, ``step`` is called once, with zeros for ``x``, to know what ``ys`` is to be empty arrays of.

    Raises ``TypeError`` for a carry that changes its structure, shapes or dtypes, with the name of the leaf, for a
    ``step`` that gives no pair, for ``xs`` that is no array; ``ValueError`` for arrays of different lengths; and what
    ``step`` raises.

    >>> import numpy as np
    >>> from yota_py import grad, scan
    >>> def filtered(rate, xs):
    ...     def step(mean, x):
    ...         mean = mean + rate * (x - mean)
    ...         return mean, x - mean
    ...     last, errors = scan(step, 0.0, xs)
    ...     return np.sum(errors**2)
    >>> grad(filtered, 0.5, np.array([1.0, 2.0, 4.0]))
    (np.float64(2.703125), (-14.3125, array([-0.21875,  0.0625 ,  1.375  ])))
    """
    carry = Carry(init, "scan", step)
    leaves, spec = flatten(xs)
    n = _turns(leaves, spec, length)
    ys = Stacks("scan", "y")
    for k in range(n)[:: -1 if reverse else 1]:
        carry_on(step, carry, unflatten(spec, [row(x, k) for x in leaves]), ys)
    if n == 0:
        probe = Carry(init, "scan", step)
        carry_on(step, probe, unflatten(spec, [blank(x) for x in leaves]), ys)
    assert ys.spec is not None
    stacks = ys.leaves([0] * ys.spec.num_leaves, turned=reverse, none=n == 0)
    return carry.tree(), unflatten(ys.spec, stacks)


def carry_on(step: Callable[[Any, Any], Any], carry: Carry, x: Any, ys: Stacks) -> None:
    """One turn."""
    pair = step(carry.tree(), x)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        given = f"{len(pair)} items" if isinstance(pair, tuple | list) else f"a {type(pair).__name__}"
        raise TypeError(f"{user_site()}: scan: {name_of(step)} is to return a pair, (carry, y); it returned {given}")
    carry.take(pair[0])
    ys.add(pair[1])


def _turns(leaves: Sequence[Any], spec: Any, length: int | None) -> int:
    """How many turns there are."""
    named = []
    for i, x in enumerate(leaves):
        if x is None:
            continue
        t, name = typeof(x), name_of_leaf("xs", spec, i)
        if not isinstance(t, ArrayType) or t.kind != "array" or not t.shape:
            raise TypeError(f"{user_site()}: scan: {name} is {described(x)}; it is to be an array, of which each turn "
                            "gets one element along the first axis. A list is a container of its items: np.array(xs)")
        named.append((name, x, 0))
    n = None if length is None else whole_number(length, "the length of a scan")
    if named:
        return extent(named, "scan", n)
    if n is None:
        raise TypeError(f"{user_site()}: scan: no array in xs says how many turns there are; give a length")
    return n


@folded
def while_loop(cond: Callable[[C], Any], body: Callable[[C], C], init: C) -> C:
    """What ``carry = body(carry)`` comes to, beginning with ``init``, as long as ``cond(carry)`` is true.

    What is carried is as in ``scan``: numbers (NumPy's), arrays and ``None`` in any nesting of containers, which keep
    their structure, shapes and dtypes. ``body`` may write into it; ``init`` stays as it is.

    In a gradient the count of turns is a decision, as with ``while`` in Python: a compiled program holds for as many,
    and another number of turns is another path. Derivatives are those of the turns that were taken.

    Raises ``TypeError`` for a carry that changes its structure, shapes or dtypes, ``ValueError`` for a condition that
    is an array of several elements, and what ``cond`` and ``body`` raise.

    >>> from yota_py import grad, while_loop
    >>> def root(a):  # by Newton's method
    ...     return while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)
    >>> value, (da,) = grad(root, 2.0)
    >>> round(float(value), 10), round(da, 10)
    (1.4142135624, 0.3535533906)
    """
    carry = Carry(init, "while_loop", body)
    while cond(carry.tree()):
        carry.take(body(carry.tree()))
    return carry.tree()  # type: ignore[no-any-return]
