"""The tape: a flat list of immutable operations in static-single-assignment form.

Names used throughout: *z* a result, *y* this operation's value, *x* its arguments, *dy* a cotangent.
Tapes are append-only: a pass reads one tape and writes another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import optree

from ..base.types import Type, typeof
from ..errors import GuardError
from .operations import Call, Constant, Input, Operation, Site, Variable, arguments, same, substitute, variable
from .show import Style, show
from .trees import as_call, flatten, unflatten

# As html.escape does, without its table of 2,000 names, which every import of this library would load.
_IN_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


ALL = "all"  # is computed again


@dataclass(frozen=True, slots=True)
class Region:
    """The operations from ``start`` (which counts from 0) to ``stop``: all are computed again, or those of its loops
    but ``every`` so many turns."""

    start: int
    stop: int
    every: int | str = ALL


def turns_of(every: Any, turns: int) -> int:
    """Every how many turns a loop of so many keeps what it carries; 0 if it keeps all."""
    if every is None or every == ALL:
        return 0
    every = math.isqrt(max(turns - 1, 0)) + 1 if every == "sqrt" else int(every)
    return every if every < turns else 0


@dataclass(slots=True, repr=False)
class Tape:
    """A list of operations, its inputs and its results.

    ``results`` are the variables (or plain values) of the flattened output, ``out_spec`` its structure,
    ``in_spec`` that of the positional and keyword arguments, ``leaves`` one variable or static value per
    flattened argument; ``gradient_types`` are the types of the arguments whose gradients a gradient tape returns;
    ``regions`` are what ``checkpoint`` has run.
    """

    name: str = "f"
    site: Site | None = None
    ops: list[Operation] = field(default_factory=list)
    leaves: list[Any] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    in_spec: optree.PyTreeSpec | None = None
    out_spec: optree.PyTreeSpec | None = None
    gradient_types: list[Type] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)

    def append(self, op: Operation) -> Variable:
        """Add an operation; returns its variable."""
        self.ops.append(op)
        return variable(len(self.ops))

    def __getitem__(self, key: Variable | int) -> Operation:
        """The operation of a variable: ``tape[Variable(5)]`` or ``tape[5]``."""
        i = key.id if isinstance(key, Variable) else key
        if not 1 <= i <= len(self.ops):
            raise IndexError(f"no variable %{i} on this tape of {len(self.ops)} operations")
        return self.ops[i - 1]

    def type_of(self, x: Any) -> Any:
        """The type of an argument or result: a variable's or a plain value's."""
        return self[x].type if isinstance(x, Variable) else typeof(x)

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[tuple[Variable, Operation]]:
        for i, op in enumerate(self.ops, 1):
            yield variable(i), op

    @property
    def inputs(self) -> list[Variable]:
        """The variables of the inputs, in order."""
        return [var for var, op in self if isinstance(op, Input)]

    def play(self, *args: Any, seed: Any = None, **kwargs: Any) -> Any:
        """Run the tape on other arguments of the same structure, operation by operation, with NumPy.

        Returns what the traced function returns; a gradient tape made with a seed wants one here. Raises
        ``GuardError`` if the function would have taken another branch for these arguments, ``TypeError`` if their
        structure or a static argument differs.
        """
        flat, spec = flatten((args, kwargs))
        if self.in_spec is not None and spec != self.in_spec:
            raise self._unlike((args, kwargs), spec)
        inputs = []
        for given, leaf in zip(flat, self.leaves, strict=True):
            if isinstance(leaf, Variable):
                inputs.append(given)
            elif given is not leaf and not same(given, leaf):
                raise TypeError(f"{self.name}: traced with the static argument {leaf!r}, played with {given!r}")
        if seed is not None:
            inputs += flatten(seed)[0]
        results = self.play_flat(inputs)
        return results if self.out_spec is None else unflatten(self.out_spec, results)

    def _unlike(self, given: Any, spec: optree.PyTreeSpec) -> TypeError:
        """The error for arguments of another structure."""
        assert self.in_spec is not None
        message = (f"{self.name}: traced with the arguments {as_call(self.in_spec)}, played with {as_call(spec)}; the "
                   "structure has to be the traced one")
        try:
            self.in_spec.flatten_up_to(given)
        except (TypeError, ValueError):
            return TypeError(message)
        return TypeError(f"{message}: keys stand in another order, in which the function may go through them. Give "
                         "them in the order of the trace")

    def play_flat(self, inputs: Sequence[Any]) -> list[Any]:
        """Run on the flat list of input values; returns the flat list of results."""
        values: list[Any] = [None]
        given = iter(inputs)

        def lookup(var: Variable) -> Any:
            return values[var.id]

        for op in self.ops:
            if isinstance(op, Call):
                fn = values[op.fn.id] if isinstance(op.fn, Variable) else op.fn
                value = fn(*arguments(op.args, values), **(substitute(dict(op.kwargs), lookup) if op.kwargs else {}))
            elif isinstance(op, Input):
                value = next(given)
            elif isinstance(op, Constant):
                value = op.value
            else:
                value = op.test(values[op.var.id])
                if not same(value, op.expected):
                    error = GuardError(
                        f"{op.site}: the tape holds for {op.var} = {op.expected!r}, here it is {value!r}; trace again"
                    )
                    error.number = op.number
                    raise error
            values.append(value)
        return [substitute(result, lookup) for result in self.results]

    def show(self, style: Style = "compact") -> str:
        """The tape as text: ``"compact"`` folds each rrule with its getfields, ``"plain"`` has an operation a line."""
        return show(self.name, self.site, self.ops, self.results, style)

    def __repr__(self) -> str:
        return self.show()

    def _repr_html_(self) -> str:
        return f"<pre>{self.show().translate(_IN_HTML)}</pre>"
