"""The tape: a flat list of immutable operations in static-single-assignment form.

Names used throughout: *z* a result, *y* this operation's value, *x* its arguments, *dy* a cotangent.
Tapes are append-only: a pass reads one tape and writes another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from importlib import import_module
from typing import Any

import numpy as np
import optree

from ..base.dispatch import original
from ..base.records import record
from ..base.types import ArrayType, Type, typeof
from ..errors import GuardError
from .operations import (
    Call,
    Constant,
    Guard,
    Input,
    Operation,
    Site,
    Variable,
    arguments,
    operands,
    paths,
    renamed,
    renumbered,
    same,
    substitute,
    variable,
)
from .show import Style, name_of, show
from .trees import as_call, flatten, unflatten

# As html.escape does, without its table of 2,000 names, which every import of this library would load.
_IN_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


ALL = "all"  # is computed again


@record()
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


@record(frozen=False, repr=False, at_once=True)
class Tape:
    """A list of operations, its inputs and its results.

    ``results`` are the variables (or plain values) of the flattened output, ``out_spec`` its structure,
    ``in_spec`` that of the positional and keyword arguments, ``leaves`` one variable or static value per
    flattened argument; ``gradient_types`` are the types of the arguments whose gradients a gradient tape returns;
    ``regions`` are what ``checkpoint`` has run, ``turns`` those of Python's loops that were looked at
    (``passes/kinds.py``). ``cotangents`` has, on a gradient tape, the variable of the derivative in each variable to
    which one flows.
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
    turns: list[Any] = field(default_factory=list, compare=False)
    cotangents: dict[Variable, Variable] = field(default_factory=dict)

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
        structure or a static argument differs. ``tape(*args)`` is the same: a tape is a function, which can be
        differentiated and compiled.
        """
        results = self._results(self._run(self._inputs(args, kwargs, seed)))
        return results if self.out_spec is None else unflatten(self.out_spec, results)

    __call__ = play

    def values(self, *args: Any, seed: Any = None, **kwargs: Any) -> dict[Variable, Any]:
        """The value of each variable, for arguments as in ``play``.

        >>> import numpy as np
        >>> from yota_py import gradtape
        >>> tape = gradtape(lambda x: np.sin(x * x), 2.0)
        >>> values = tape.values(2.0)
        >>> [f"{values[x]:.2f}: {values[dx]:.2f}" for x, dx in tape.cotangents.items()]  # from the result to x
        ['-0.76: 1.00', '4.00: -0.65', '2.00: -2.61']
        """
        values = self._run(self._inputs(args, kwargs, seed))
        return {variable(i): value for i, value in enumerate(values) if i}

    def replace(self, functions: Mapping[Callable[..., Any], Callable[..., Any]]) -> Tape:
        """A new tape that calls other functions, also in the bodies of loops: ``tape.replace({np.sin: np.cos})``.

        Raises ``ValueError`` for a function that the tape does not call, and ``TypeError`` for one that does not take
        the arguments, or gives something of another type, since the types on a tape stay.

        >>> import numpy as np
        >>> from yota_py import trace
        >>> trace(lambda x: np.sin(x) + 1.0, 0.0).replace({np.sin: np.cos}).play(0.0)
        np.float64(2.0)
        """
        others = {original(fn): other for fn, other in functions.items()}
        out, found = self._replaced(others)
        for fn in others.keys() - found:
            raise ValueError(f"{self.name}: its tape has no call of {name_of(fn)}")
        return out

    def rewrite(self, visit: Callable[[Tape, Operation], Any]) -> Tape:
        """A new tape in which each operation is what ``visit(new, op)`` makes of it.

        ``op`` is the operation on the variables of the ``new`` tape. ``visit`` writes there with ``new.append(op)`` and
        ``new.call(fn, *args)``, and returns the variable that takes the operation's place, or a plain number. Bodies of
        loops stay as they are.

        >>> import numpy as np
        >>> from yota_py import trace
        >>> def visit(new, op):
        ...     is_tanh = getattr(op, "fn", None) is np.tanh
        ...     return new.call(np.clip, op.args[0], -1.0, 1.0) if is_tanh else new.append(op)
        >>> trace(lambda x: np.tanh(x) * 2.0, 3.0).rewrite(visit).play(3.0)
        np.float64(2.0)
        """
        out = Tape(self.name, self.site, in_spec=self.in_spec, out_spec=self.out_spec)
        new: list[Any] = [None]  # by number
        for op in self.ops:
            if isinstance(op, Guard) and not isinstance(new[op.var.id], Variable):
                new.append(None)  # a decision on a number that is known is always the same
                continue
            new.append(visit(out, renumbered(op, new)))
            if isinstance(op, Input) and not isinstance(new[-1], Variable):
                at = f"{new[-1]!r} for the input %{len(new) - 1}"
                raise TypeError(f"{self.name}: visit gave {at}; return new.append(op)")
        return self._finish(out, lambda var: new[var.id])

    def _finish(self, out: Tape, new: Callable[[Variable], Any]) -> Tape:
        """A new tape with what this one has besides operations."""
        out.leaves = [substitute(leaf, new) for leaf in self.leaves]
        out.results = [substitute(result, new) for result in self.results]
        return out

    def call(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Variable:
        """Add ``fn(*args, **kwargs)``, whose type is that of what it gives for ones; raises ``TypeError`` where that
        cannot be told. For whoever writes a tape, as in ``rewrite``."""
        return self.append(Call(fn, args, kwargs, self._type_of_call(fn, args, kwargs)))

    def insert(self, at: Variable | int, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Tape:
        """A new tape that calls ``fn`` where variable ``at`` is computed now: that is the new one's number, and all
        from ``at`` on count one more. ``args`` are variables before it, and numbers. A variable is its
        number and no more: one of another tape stands for the one with this number here.

        ``at`` may be one behind the last. Nothing reads the new variable yet: see ``remove`` and ``returning``. Raises
        ``IndexError`` for a place that is not there, ``ValueError`` for an operand that is not computed before it.

        >>> import numpy as np
        >>> from yota_py import trace
        >>> tape = trace(lambda x: x * 2.0, 3.0)
        >>> tape.insert(3, np.exp, tape.results[0]).returning(3).play(0.0)
        np.float64(1.0)
        """
        n = at.id if isinstance(at, Variable) else at
        if not 1 <= n <= len(self.ops) + 1:
            raise IndexError(f"{self.name}: a call can stand at %1 to %{len(self.ops) + 1}, and not at %{n}")
        new = Call(fn, args, kwargs, self._type_of_call(fn, args, kwargs))
        for x in operands(new):
            if x.id >= n:
                raise ValueError(f"{self.name}: {name_of(fn)} at %{n} cannot read {x}, which is not computed before it")
        ops = [*self.ops[: n - 1], new, *self.ops[n - 1 :]]
        return self._shifted(ops, n, {variable(i): variable(i + (i >= n)) for i in range(1, len(self.ops) + 1)})

    def remove(self, var: Variable | int, instead: Any = None) -> Tape:
        """A new tape without an operation; what has read its variable reads ``instead``, a variable before it or a
        number. All behind it count one less.

        Raises ``ValueError`` for an input, and where something reads the variable and there is nothing ``instead``.

        >>> import numpy as np
        >>> from yota_py import trace
        >>> tape = trace(lambda x: np.exp(x) * 2.0, np.zeros(2))
        >>> tape.remove(2, instead=tape.inputs[0]).play(np.array([3.0, 4.0]))
        array([6., 8.])
        """
        op, n = self[var], var.id if isinstance(var, Variable) else var
        if isinstance(op, Input):
            raise ValueError(f"{self.name}: %{n} is an input, and what calls the tape gives it")
        read = [x for x, other in self if variable(n) in operands(other)]
        if (read or any(x.id == n for _, x in paths(self.results))) and instead is None:
            raise ValueError(f"{self.name}: %{n} is read by {read[0] if read else 'the result'}; say what to read "
                             f"instead: remove({n}, instead=...)")
        if not isinstance(instead, Variable) and any(isinstance(self[x], Guard) for x in read):
            raise ValueError(f"{self.name}: a decision is taken on %{n}, and {instead!r} is no variable")
        if isinstance(instead, Variable) and instead.id >= n:
            raise ValueError(f"{self.name}: {instead} is not computed before %{n}")
        if instead is not None and str(self.type_of(instead)) != str(op.type):
            raise TypeError(f"{self.name}: %{n} is {op.type}, and {instead!r} {self.type_of(instead)}")
        names = {variable(i): variable(i - (i > n)) for i in range(1, len(self.ops) + 1)} | {variable(n): instead}
        return self._shifted([*self.ops[: n - 1], *self.ops[n:]], n, names)

    def _shifted(self, ops: list[Operation], n: int, names: Mapping[Variable, Any]) -> Tape:
        """The tape with other operations, which from ``n`` on read variables under their new names."""
        ops = [op if i < n or not isinstance(op, Call | Guard) else renamed(op, names) for i, op in enumerate(ops, 1)]
        both = ((names[x], names[dx]) for x, dx in self.cotangents.items())
        kept = {x: dx for x, dx in both if isinstance(x, Variable) and isinstance(dx, Variable)}
        return self._finish(replace(self, ops=ops, regions=[], cotangents=kept), names.__getitem__)

    def returning(self, *results: Variable | int) -> Tape:
        """A new tape that returns other variables: one, or a tuple of several."""
        found = [variable(x.id if isinstance(x, Variable) else x) for x in results]
        for x in found:
            self[x]
        return replace(self, results=[*found], out_spec=flatten(None if len(found) == 1 else (*found,))[1])

    def _replaced(self, others: Mapping[Any, Callable[..., Any]]) -> tuple[Tape, set[Any]]:
        ops, found = [*self.ops], set[Any]()
        for i, op in enumerate(ops):
            if not isinstance(op, Call) or isinstance(op.fn, Variable):
                continue
            if isinstance(body := getattr(op.fn, "body", None), Tape):
                new, within = body._replaced(others)
                found |= within
                fn: Any = replace(op.fn, body=new, values=None, played_by=None) if within else op.fn  # type: ignore[type-var]
            elif (old := original(op.fn)) in others:
                found.add(old)
                fn = others[old]
                self._check_replaced(op, fn)
            else:
                continue
            ops[i] = Call(fn, op.args, op.kwargs, op.type, op.site, op.note)
        return replace(self, ops=ops), found

    def _check_replaced(self, op: Call, fn: Any) -> None:
        """Raise ``TypeError`` unless a function gives what the one gives that it stands for."""
        if not all(isinstance(self[var].type, ArrayType) for _, var in paths((op.args, op.kwargs))):
            return
        said = f"{op.site}: {name_of(fn)} cannot stand for {name_of(op.fn)}"
        have = self._type_of_call(fn, op.args, op.kwargs, said)
        if str(have) != str(op.type):
            raise TypeError(f"{said}: it gives {have}, and {op.type} is wanted")

    def _type_of_call(self, fn: Any, args: Any, kwargs: Mapping[str, Any], said: str = "") -> Any:
        """The type of what a function gives for ones of the types of its arguments."""

        def sample(var: Variable) -> Any:
            t = self[var].type
            if not isinstance(t, ArrayType):
                raise TypeError(f"{self.name}: {var}, which {name_of(fn)} is to read, is no number and no array")
            ones = np.ones(t.shape, t.dtype)
            return ones if t.kind == "array" else ones[()] if t.kind == "scalar" else ones.item()

        given = substitute(tuple(args), sample), substitute(dict(kwargs), sample)
        try:
            return typeof(fn(*given[0], **given[1]))
        except Exception as error:  # any: it is a function of the user's
            said = said or f"{self.name}: {name_of(fn)} cannot be called"
            raise TypeError(f"{said}: of ones of the types that it would be given, it raises "
                            f"{type(error).__name__}: {error}") from error

    def _inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any], seed: Any) -> list[Any]:
        """The values of the inputs."""
        flat, spec = flatten((args, kwargs))
        if self.in_spec is not None and spec != self.in_spec:
            raise self._unlike((args, kwargs), spec)
        inputs = []
        for given, leaf in zip(flat, self.leaves, strict=True):
            if isinstance(leaf, Variable):
                inputs.append(given)
            elif given is not leaf and not same(given, leaf):
                raise TypeError(f"{self.name}: traced with the static argument {leaf!r}, played with {given!r}")
        return inputs if seed is None else inputs + flatten(seed)[0]

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

    def play_flat(self, inputs: Sequence[Any], at: Callable[[Operation], None] | None = None) -> list[Any]:
        """Run on the flat list of input values; returns the flat list of results. ``at`` is told of each operation."""
        return self._results(self._run(inputs, at))

    def _results(self, values: Sequence[Any]) -> list[Any]:
        return [substitute(result, lambda var: values[var.id]) for result in self.results]

    def _run(self, inputs: Sequence[Any], at: Callable[[Operation], None] | None = None) -> list[Any]:
        """The values of all variables, by their numbers."""
        values: list[Any] = [None]
        given = iter(inputs)

        def lookup(var: Variable) -> Any:
            return values[var.id]

        for op in self.ops:
            if at is not None:
                at(op)
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
        return values

    def show(self, style: Style = "compact") -> str:
        """The tape as text: ``"compact"`` folds each rrule with its getfields, ``"plain"`` has an operation a line."""
        return show(self.name, self.site, self.ops, self.results, style)

    def to_source(self) -> str:
        """The text of a Python module with the tape as a function, in NumPy: a line per operation, and loops as loops.

        A gradient tape also wants ``yota_py.rrule``. Decisions are assertions, and arrays that are read from elsewhere
        are written out. Raises ``ValueError`` for a function that has no name in a module, and for the derivative of a
        loop (with ``config.roll = False`` there is none).

        >>> from yota_py import trace
        >>> print(trace(lambda x: x * 2.0, 1.0).to_source())  # doctest: +NORMALIZE_WHITESPACE
        import numpy as np
        <BLANKLINE>
        <BLANKLINE>
        def f(x):
            v1 = x
            v2 = v1 * 2.0
            return v2
        <BLANKLINE>
        """
        return import_module(".source", __package__).to_source(self)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return self.show()

    def _repr_html_(self) -> str:
        return f"<pre>{self.show().translate(_IN_HTML)}</pre>"
