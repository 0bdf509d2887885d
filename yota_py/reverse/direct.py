"""Value and gradients at once, without a gradient tape: on the way back over a trace, rules' formulas are computed with
its values; where there are none, rules run, and their pullbacks are called.

It computes what ``verbs.differentiate`` computes while it writes its tape, which is wanted where somebody reads,
compiles or extends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

import numpy as np
import optree

from ..base.containers import LEAVES, NAMESPACE
from ..base.dispatch import call
from ..base.types import ArrayType, OpaqueType, typeof
from ..base.unwinding import quietly
from ..registry.registry import primitive_of
from ..registry.tangents import MISSING, add, zeros_like
from ..tape.operations import Call, Input, Operation, Variable, paths, substitute, user_site
from ..tape.recorder import Recorder
from ..tape.tape import Tape
from ..tape.trees import unflatten
from .results import of_numbers, of_value, settle
from .seeds import differentiated, seed_variables
from .short import NUMBERS, Way, into_view, way_of
from .verbs import check_cotangents, check_type, check_value, flows, linearize, part, positions, select


@quietly  # the function itself has warned already, while it was traced
def value_and_gradients(
    source: Recorder, seed: Any = None, argnums: int | Sequence[int] | None = None, *, has_aux: bool = False
) -> Any:
    """``(value, gradients)`` of a recorded call, as users get them: fresh arrays and numbers in their containers.

    Arguments and errors as in ``verbs.differentiate``.
    """
    tape, site = source.tape, user_site()
    wanted, spec = differentiated(tape, site, has_aux=has_aux)
    sweep = _Sweep(source)
    leaves = [sweep.value(z) if not isinstance(z, Variable) or source[z] is None else source[z] for z in wanted]
    out = Recorder(Tape(tape.name, tape.site))
    seeds = [None if dz is None else out[dz] for dz in seed_variables(out, seed, leaves, spec, site, tape.name)]
    return _collected(sweep, sweep.back(wanted, seeds), argnums)


class _Sweep:
    """The way forward, which runs the rules of what is large or the user's, and the way back, which calls pullbacks.

    Where all values are at hand and the derivative is known as a formula, it needs no pullback (``short.py``).
    """

    def __init__(self, source: Recorder) -> None:
        self.ops: list[Operation] = source.tape.ops
        self.tape = source.tape
        self.active, self.sources = flows(source.tape)
        self.values = list(source.values)
        self._pullbacks: dict[int, Callable[[Any], Any]] = {}
        self._owned: set[int] = set()  # cotangents that are arrays of our own
        self._ways: dict[int, Way | None] = {}  # by the identity of a function
        values = self.values
        at_hand = all(values[i] is not None for i in self.sources)
        for i in self.sources:
            op = self.ops[i - 1]
            assert isinstance(op, Call)
            at_hand = at_hand and self._is_known(op.fn)  # what the user's rule gives is what the rest computes with
            if not at_hand:
                values[i], self._pullbacks[i] = self._linearized(i, op)
        results = {x.id for _, x in paths(self.tape.results)}
        for i in self._pullbacks.keys() - results:  # pullbacks hold what they need
            if type(values[i]) not in NUMBERS:
                values[i] = None

    def _is_known(self, fn: Any) -> bool:
        """Whether a rule gives the value that is known already: the library's do."""
        key = id(fn)
        if key not in self._ways:
            entry = primitive_of(fn)
            known = entry is not None and not (entry.users or entry.users_rule)
            self._ways[key] = way_of(entry) if entry is not None and known else None
        return self._ways[key] is not None

    def _linearized(self, i: int, op: Call) -> tuple[Any, Callable[[Any], Any]]:
        args = tuple([self._given(arg) for arg in op.args])
        kwargs = {key: self._given(arg) for key, arg in op.kwargs.items()} if op.kwargs else {}
        y, pullback = linearize(op.fn, args, kwargs, positions(self.sources[i]), op.site)  # type: ignore[arg-type]
        check_value(op, typeof(y))
        return y, pullback

    def _given(self, arg: Any) -> Any:
        if type(arg) is Variable:
            value = self.values[arg.id]
            return self._again(arg) if value is None else value
        return arg if type(arg) in LEAVES and type(arg) is not slice else substitute(arg, self._given)

    def _again(self, var: Variable) -> Any:
        """A value that was not kept, if it is none."""
        op = self.ops[var.id - 1]
        if isinstance(op, Call) and not isinstance(op.type, OpaqueType):
            args, kwargs = substitute(op.args, self._given), substitute(dict(op.kwargs), self._given)
            fn: Any = self._given(op.fn)
            self.values[var.id] = call(fn, args, kwargs)
        return self.values[var.id]

    def value(self, result: Any) -> Any:
        """The value of a result."""
        return self._given(result) if isinstance(result, Variable) else result

    def back(self, results: Sequence[Any], seeds: Sequence[Any]) -> list[Any]:
        """The cotangents of active inputs, by their numbers; those of operations have been used up."""
        cotangents: list[Any] = [None] * len(self.values)
        for z, dz in zip(results, seeds, strict=True):
            if dz is not None and isinstance(z, Variable) and self.active[z.id]:
                _accumulate(cotangents, z.id, dz)
        ops, values = self.ops, self.values
        for i in reversed(self.sources):
            if (dy := cotangents[i]) is None:
                continue
            op, sources = ops[i - 1], self.sources[i]
            assert isinstance(op, Call)
            cotangents[i] = None
            self._owned.discard(i)
            pullback = self._pullbacks.pop(i, None)
            if pullback is None:
                is_item = op.fn is getitem and not op.kwargs and type(x := op.args[0]) is Variable
                if is_item and into_view(values[x.id], op.args[1], x.id, dy, cotangents, self._owned):
                    continue
                if (way := self._ways[id(op.fn)]) is not None and not op.kwargs:
                    args = [values[x.id] if type(x) is Variable else x for x in op.args]
                    if way(dy, values[i], args, sources, cotangents):
                        continue
                pullback = self._linearized(i, op)[1]
            dxs = pullback(dy)
            check_cotangents(op, dxs)
            for k, path, j in sources:
                dx = dxs[k] if not path and dxs[k] is not MISSING else _part(op, dxs, (k, *path))
                if dx is not None:
                    if (have := typeof(dx)) is not (want := ops[j - 1].type):
                        check_type(op, have, want)
                        if type(dx) is np.ndarray and dx.ndim == 0 and type(values[j]) in NUMBERS:
                            dx = dx[()]
                    _accumulate(cotangents, j, dx)
            del dy, dxs, pullback  # nobody reads them again
        return cotangents


def _part(op: Call, dxs: Any, path: tuple[Any, ...]) -> Any:
    """The cotangent to which the keys lead; ``None`` if there is none."""
    dx = dxs
    for key in path:
        if (dx := part(op, dx, key, path[0])) is None:
            return None
    return dx


def _accumulate(cotangents: list[Any], i: int, dx: Any) -> None:
    if (known := cotangents[i]) is not None:
        arrays = isinstance(typeof(known), ArrayType) and isinstance(typeof(dx), ArrayType)
        dx = np.add(known, dx) if arrays else add(known, dx)
    cotangents[i] = dx


def _collected(sweep: _Sweep, cotangents: Sequence[Any], argnums: int | Sequence[int] | None) -> Any:
    """Value and gradients in their containers, with zeros for an input that has no influence."""
    tape = sweep.tape
    assert tape.in_spec is not None and tape.out_spec is not None
    inputs = [x if isinstance(x, Variable) and _is_active(tape[x]) else None for x in tape.leaves]
    wanted, grads_spec = select(inputs, tape.in_spec, argnums)
    numbers = of_numbers(tape)
    results = [settle(sweep.value(z), of_value(tape.type_of(z), numbers)) for z in tape.results]
    for x in wanted:
        dx = None if x is None else cotangents[x.id]
        results.append(x if x is None else settle(zeros_like(sweep.values[x.id]) if dx is None else dx, tape[x].type))
    spec = optree.treespec_tuple([tape.out_spec, grads_spec], none_is_leaf=True, namespace=NAMESPACE)
    return unflatten(spec, results)


def _is_active(op: Operation) -> bool:
    return isinstance(op, Input) and op.active
