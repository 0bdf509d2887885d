"""``scan`` and ``while_loop``: loops with a state that each turn hands on to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, TypeVar

from ..base.tracebacks import folded
from ..base.types import ArrayType, typeof
from ..base.unwinding import state
from ..tape.operations import user_site
from ..tape.show import name_of
from ..tape.trees import flatten, outline, unflatten
from .leaves import (
    Stacks,
    blank,
    described,
    extent,
    fitted,
    name_of_leaf,
    refilled,
    row,
    settled_leaves,
    there,
    whole_number,
)  # fmt: skip
from .once import traced_once

C = TypeVar("C")


class Carry:
    """What is carried, as leaves that keep their types."""

    def __init__(self, init: Any, who: str, body: Any) -> None:
        self.leaves, self.spec = settled_leaves(init, "init", who)
        self.types = [typeof(x) for x in self.leaves]
        self._who, self._body = who, body

    def with_leaves(self, leaves: list[Any]) -> Carry:
        """The same with other leaves."""
        other = copy(self)
        other.leaves = leaves
        return other

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
    carry, xs = Carry(init, "scan", step), Elements(xs, length)
    ys, order = Stacks("scan", "y"), range(xs.turns)[:: -1 if reverse else 1]
    for done, k in enumerate(order):
        if done == 1 and state.traces and _at_once(step, carry, xs, ys, reverse=reverse):
            break
        carry_on(step, carry, xs.tree(k), ys)
    if not order:
        carry_on(step, Carry(init, "scan", step), xs.tree(None), ys)
    assert ys.spec is not None
    stacks = ys.leaves([0] * ys.spec.num_leaves, turned=reverse, none=not order)
    return carry.tree(), unflatten(ys.spec, stacks)


def carry_on(step: Callable[[Any, Any], Any], carry: Carry, x: Any, ys: Stacks) -> None:
    """One turn."""
    pair = step(carry.tree(), x)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        given = f"{len(pair)} items" if isinstance(pair, tuple | list) else f"a {type(pair).__name__}"
        raise TypeError(f"{user_site()}: scan: {name_of(step)} is to return a pair, (carry, y); it returned {given}")
    carry.take(pair[0])
    ys.add(pair[1])


def _at_once(step: Any, carry: Carry, xs: Elements, ys: Stacks, *, reverse: bool) -> bool:
    """Let all turns but the first be one operation, if they can."""
    k = xs.turns - 2 if reverse else 1

    def turn(step: Any, carried: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        one, out = carry.with_leaves(refilled(carry.leaves, carried)), Stacks("scan", "y")
        carry_on(step, one, xs.with_leaves(refilled(xs.leaves, elements)), out)
        return [*there(one.leaves), *out.one_more(ys)]

    carried, stacked = there(carry.leaves), there(xs.leaves)
    once = traced_once(turn, step, [carry.tree(), xs.with_leaves(xs.leaves)], carried, stacked, k, xs.turns - 1)
    rest = slice(None, -1) if reverse else slice(1, None)
    results = None if once is None else once.run(carried, [x[rest] for x in stacked], xs.turns - 1, backward=reverse)
    if results is None:
        return False
    carry.leaves = refilled(carry.leaves, results[: len(carried)])
    ys.give(results[len(carried) :])
    return True


class Elements:
    """Arrays of which each turn gets one element."""

    def __init__(self, xs: Any, length: int | None) -> None:
        self.leaves, self._spec = flatten(xs)
        self.turns = _turns(self.leaves, self._spec, length)

    def row(self, k: int | None) -> list[Any]:
        """The leaves for one turn; without a number, for one that there is not."""
        return [blank(x) if k is None else row(x, k) for x in self.leaves]

    def with_leaves(self, leaves: Sequence[Any]) -> Any:
        """The container, with these leaves."""
        return unflatten(self._spec, leaves)

    def tree(self, k: int | None) -> Any:
        """What one turn gets."""
        return self.with_leaves(self.row(k))


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

    Derivatives are those of the turns that were taken, of which a compiled program may take any number: if ``cond`` and
    ``body`` do nothing but compute, without decisions of their own, with numbers and arrays of up to 16 elements.
    Otherwise the count of turns is a decision, as with ``while`` in Python: each number of turns is another path.

    Raises ``TypeError`` for a carry that changes its structure, shapes or dtypes, ``ValueError`` for a condition that
    is an array of several elements, and what ``cond`` and ``body`` raise.

    >>> from yota_py import grad, while_loop
    >>> def root(a):  # by Newton's method
    ...     return while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)
    >>> value, (da,) = grad(root, 2.0)
    >>> round(float(value), 10), round(da, 10)
    (1.4142135624, 0.3535533906)
    """
    carry, first = Carry(init, "while_loop", body), True
    while cond(carry.tree()):
        carry.take(body(carry.tree()))
        if first and state.traces and _until(cond, body, carry):
            break
        first = False
    return carry.tree()  # type: ignore[no-any-return]


def _until(cond: Any, body: Any, carry: Carry) -> bool:
    """Let all turns but the first be one operation, if they can."""

    def turn(given: Any, carried: Sequence[Any], elements: Sequence[Any]) -> Sequence[Any]:
        (cond, body), (go_on,) = given, elements
        one = carry.with_leaves(refilled(carry.leaves, carried))
        go_on(cond(one.tree()))
        one.take(body(one.tree()))
        return there(one.leaves)

    carried = there(carry.leaves)
    once = traced_once(turn, [cond, body], [carry.tree()], carried, [], 0, 0, until=True)
    results = None if once is None else once.run_until(carried)
    if results is None:
        return False
    carry.leaves = refilled(carry.leaves, results)
    return True
