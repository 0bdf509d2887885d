"""The text of a tape as a Python function: lines of NumPy, one per operation."""

from __future__ import annotations

import builtins
import keyword
import operator
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import optree

from ..base.dispatch import original, plain
from .loop import END, Loop, as_loop
from .operations import Call, Constant, Guard, Input, Operation, Variable, substitute
from .show import name_of
from .tape import Tape

_INFIX: dict[Any, str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.lt: "<", operator.le: "<=", operator.gt: ">",
    operator.ge: ">=", operator.eq: "==", operator.ne: "!=",
}  # fmt: skip
_PLACES = (
    "numpy", "numpy.linalg", "numpy.fft", "math", "cmath", "scipy.special", "scipy.linalg", "operator", "builtins",
)  # fmt: skip


def to_source(tape: Tape) -> str:
    """What ``Tape.to_source`` gives."""
    return _Writer(tape).text()


class _Writer:
    """The lines of one function."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._imports = {"import numpy as np"}
        self._prefix = "v"  # of variables

    def text(self) -> str:
        """The whole module."""
        name = self._tape.name if self._tape.name.isidentifier() and not keyword.iskeyword(self._tape.name) else "f"
        parameters, taken = self._parameters()
        lines = [*taken, *(line for x, op in self._tape for line in self._line(x, op, self._prefix))]
        results, spec = [_Name(self._value(z, self._prefix)) for z in self._tape.results], self._tape.out_spec
        tree = (*results,) if spec is None else optree.tree_unflatten(spec, results)
        self._import_classes(spec)
        body = [*lines, f"return {tree!r}"]
        head = [*sorted(self._imports), "", "", f"def {name}({', '.join(parameters)}):"]
        return "\n".join([*head, *("    " + line for line in body)]) + "\n"

    def _import_classes(self, spec: optree.PyTreeSpec | None) -> None:
        """What the result is made of: classes of containers have to be known."""
        for part in () if spec is None else (spec, *spec.children()):
            if part is not spec:
                self._import_classes(part)
            elif part.type is not None and part.type.__module__ != "builtins":
                self._imports.add(f"from {part.type.__module__} import {part.type.__qualname__}")

    def _parameters(self) -> tuple[list[str], list[str]]:
        """Those of the function, and the lines that take inputs out of them."""
        tape, inputs = self._tape, self._tape.inputs
        seeds = inputs[sum(isinstance(x, Variable) for x in tape.leaves) :] if tape.in_spec is not None else inputs
        named = ["seed" if len(seeds) == 1 else f"seed{i}" for i in range(len(seeds))]
        said, sources = dict[Any, str](), dict[Variable, tuple[str, str]]()  # parameters, and where in them inputs are
        for path, leaf in zip(() if tape.in_spec is None else tape.in_spec.accessors(), tape.leaves, strict=True):
            key = path[0].entry, path[1].entry
            if key not in said:
                said[key] = self._own_name(key, leaf, {*said.values(), *named})
            if isinstance(leaf, Variable):
                sources[leaf] = said[key], path[2:].codify("")
        while any(re.fullmatch(rf"{self._prefix}\d.*", name) for name in said.values()):
            self._prefix = f"_{self._prefix}"
        sources |= {x: (name, "") for x, name in zip(seeds, named, strict=True)}
        taken = [f"{self._prefix}{x.id} = {name}{rest}" for x, (name, rest) in sources.items()]
        positional = [name for (kind, _), name in said.items() if not kind]
        keywords = [name for (kind, _), name in said.items() if kind] + named
        return [*positional, *(["*", *keywords] if keywords else [])], taken

    def _own_name(self, key: tuple[int, Any], leaf: Any, taken: set[str]) -> str:
        """The name of a parameter, which hides none that the text uses; raises ``ValueError`` if it has to."""
        is_keyword, entry = key
        if is_keyword:
            if entry in taken or self._is_used(entry):
                raise ValueError(f"{self._tape.name}: its keyword {entry} is a name that the text uses otherwise")
            return str(entry)
        op = self._tape[leaf] if isinstance(leaf, Variable) else None
        name = op.name.partition("[")[0] if isinstance(op, Input) else ""
        name = name if name.isidentifier() and name != "args" else f"x{entry}"
        while name in taken or self._is_used(name):
            name += "_"
        return name

    def _is_used(self, name: str) -> bool:
        modules = {place.partition(".")[0] for place in _PLACES}
        return name in ("np", "rrule", *modules) or hasattr(builtins, name) or keyword.iskeyword(name)

    def _line(self, x: Variable, op: Operation, prefix: str) -> Iterator[str]:
        """The lines of an operation; inputs have theirs already."""
        name = f"{prefix}{x.id}"
        if isinstance(op, Constant):
            yield f"{name} = {self._value(op.value, prefix)}"
        elif isinstance(op, Guard):
            test, expected = self._function(op.test), self._value(op.expected, prefix)
            yield f"assert np.array_equal({test}({prefix}{op.var.id}), {expected}), 'another branch: trace again'"
        elif isinstance(op, Call):
            yield from self._call(op, name, prefix)

    def _call(self, op: Call, name: str, prefix: str) -> Iterator[str]:
        args = [self._value(x, prefix) for x in op.args]
        if (loop := as_loop(op)) is not None:
            yield from self._loop(loop, args, name)
            return
        fn = op.fn if isinstance(op.fn, Variable) else original(op.fn)
        shown = name_of(fn)
        if fn in _INFIX and len(args) == 2:
            yield f"{name} = {args[0]} {_INFIX[fn]} {args[1]}"
        elif shown in ("getitem", "getfield") and len(args) == 2:
            yield f"{name} = {args[0]}[{self._index(op.args[1], prefix)}]"
        elif shown == "setitem" and len(args) == 3:
            yield f"{name} = np.array({args[0]})"
            yield f"{name}[{self._index(op.args[1], prefix)}] = {args[2]}"
        elif shown == "rrule" and not isinstance(fn, Variable):
            self._imports.add("from yota_py import rrule")
            given = ", ".join([*args[1:], *self._named(op, prefix)])
            yield f"{name} = rrule.of({self._function(op.args[0])})({given})"
        else:
            yield f"{name} = {self._function(fn, prefix)}({', '.join([*args, *self._named(op, prefix)])})"

    def _named(self, op: Call, prefix: str) -> list[str]:
        return [f"{key}={self._value(x, prefix)}" for key, x in op.kwargs.items()]

    def _loop(self, loop: Loop, args: Sequence[str], name: str) -> Iterator[str]:
        """A loop of Python, which puts outputs into lists."""
        carried, (stacked, invariants) = args[: loop.carried], loop.parted(args[loop.carried :])
        turns, inside = args[-1] if loop.counted else str(loop.turns), f"{name}_"
        carries = [f"{inside}c{i}" for i in range(loop.carried)]
        outputs = [f"{inside}y{i}" for i in range(len(loop.body.results) - loop.carried)]
        yield from (f"{a} = {b}" for a, b in zip(carries, carried, strict=True))
        yield from (f"{y} = []" for y in outputs)
        order = f"reversed(range({turns}))" if loop.backward else f"range({turns})"
        if loop.until:
            yield f"{inside}n = 0"
        yield f"for {inside}k in {order}:"
        sources = [*carries, *(f"{x}[{inside}k]" for x in stacked), *invariants]
        yield from (f"    {inside}{x.id} = {source}" for x, source in zip(loop.body.inputs, sources, strict=True))
        for x, op in loop.body:
            if loop.until and isinstance(op, Guard) and op.number == END:
                ends = f"{self._function(op.test)}({inside}{op.var.id}) != {self._value(op.expected, inside)}"
                yield from (f"    if {ends}:", "        break")
            else:
                yield from ("    " + line for line in self._line(x, op, inside))
        results = [self._value(z, inside) for z in loop.body.results]
        if carries:
            yield f"    {', '.join(carries)} = {', '.join(results[: loop.carried])}"
        yield from (f"    {y}.append({z})" for y, z in zip(outputs, results[loop.carried :], strict=True))
        back = "[::-1]" if loop.backward else ""
        stacks = [f"np.stack({y}{back})" for y in outputs]
        count = [f"{inside}n"] if loop.until else []
        if loop.until:
            yield f"    {inside}n += 1"
        yield f"{name} = ({', '.join([*carries, *stacks, *count])},)"

    def _function(self, fn: Any, prefix: str = "") -> str:
        """The expression of a function."""
        if isinstance(fn, Variable):
            return f"{prefix}{fn.id}"
        fn = original(plain(fn))
        for place in (*_PLACES, str(getattr(fn, "__module__", ""))):
            found: Any = sys.modules.get(place)
            name = getattr(fn, "__name__", None) if place in _PLACES else getattr(fn, "__qualname__", None)
            if found is None or name is None:
                continue
            for part in name.split("."):
                found = getattr(found, part, None)
            if found is not None and original(plain(found)) is fn:
                return self._from(place, name)
        why = "as it has no name in a module"
        if isinstance(fn, Loop):
            why = "as a function that is differentiated; trace it with config.roll = False, and its turns are lines"
        raise ValueError(f"{self._tape.name}: {name_of(fn)} cannot be written as text, {why}")

    def _from(self, place: str, name: str) -> str:
        if place == "builtins" and hasattr(builtins, name):
            return name
        if place.startswith("numpy"):
            return f"np{place.removeprefix('numpy')}.{name}"
        self._imports.add(f"import {place}")
        return f"{place}.{name}"

    def _index(self, index: Any, prefix: str) -> str:
        parts = index if isinstance(index, tuple) and index else (index,)
        shown = ", ".join(self._slice(part, prefix) for part in parts)
        return shown + "," if isinstance(index, tuple) and len(index) == 1 else shown

    def _slice(self, part: Any, prefix: str) -> str:
        if not isinstance(part, slice):
            return self._value(part, prefix)
        ends = ["" if x is None else self._value(x, prefix) for x in (part.start, part.stop, part.step)]
        return ":".join(ends if part.step is not None else ends[:2])

    def _value(self, value: Any, prefix: str) -> str:
        """The expression of an argument or a constant."""
        return repr(substitute(_shown(value, self), lambda x: _Name(f"{prefix}{x.id}")))


class _Name:
    """An expression, as it is printed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown(value: Any, writer: _Writer) -> Any:
    """The same with what prints as an expression in the place of arrays, numbers of NumPy's, functions and types."""
    if isinstance(value, Variable) or value is None or isinstance(value, bool | str | bytes):
        return value
    if isinstance(value, np.ndarray):
        return _Name(f"np.array({_shown(value.tolist(), writer)!r}, dtype={value.dtype.str!r}).reshape({value.shape})")
    if isinstance(value, np.generic):
        return _Name(f"np.{value.dtype.name}({_shown(value.item(), writer)!r})")
    if isinstance(value, float):
        return _Name(repr(value)) if np.isfinite(value) else _Name(f"float('{value}')")
    if isinstance(value, np.dtype):
        return _Name(f"np.dtype({value.str!r})")
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return type(value)(_shown(item, writer) for item in value)
    if type(value) is dict:
        return {key: _shown(item, writer) for key, item in value.items()}
    return _Name(writer._function(value)) if callable(value) else value
