"""What is checked: a call, with what messages say of it, and the function of its leaves with their cotangents."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import optree

from ..base.containers import item, items_of, keys_of
from ..base.dispatch import find_traced
from ..base.records import record
from ..base.types import ArrayType, is_inexact, typeof
from ..capture.recording import record_call
from ..errors import GuardError
from ..registry.applied import apply_rule
from ..reverse.verbs import alike, differentiate
from ..tape.operations import substitute
from ..tape.recorder import Recorder
from ..tape.trees import flatten, unflatten
from .finite import close, copied, describe, equal, figure, kind_of, leaves_of

Leaves = Sequence[Any]

CALLS = 5  # of a pullback, one of which gives again what the first gave


@record(frozen=False)
class Checked:
    """Which call is checked: for messages."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    lenient: bool = False  # whether numbers of Python's and of NumPy's stand for one another

    def __str__(self) -> str:
        shown = [describe(arg) for arg in self.args] + [f"{key}={describe(v)}" for key, v in self.kwargs.items()]
        return f"{self.name}({', '.join(shown)})"

    def generator(self, purpose: str) -> np.random.Generator:
        """The same random numbers in every run, others for every purpose."""
        return np.random.default_rng(zlib.crc32(f"{self.name} {purpose}".encode()))

    def fail(self, what: str, *figures: tuple[str, Any]) -> NoReturn:
        lines = [f"  {label:<10} {figure(value)}" for label, value in figures]
        raise AssertionError("\n".join([f"{self}: {what}", *lines]))

    def label(self, path: tuple[Any, ...]) -> str:
        return f"argument {path[0]}" + "".join(f"[{key!r}]" for key in path[1:])

    def check_unchanged(self, before: Any, who: str) -> None:
        for (path, old), new in zip(leaves_of(before), flatten((self.args, dict(self.kwargs)))[0], strict=True):
            if isinstance(old, np.ndarray) and not equal(old, new):
                what = self.label(path[1:]) if path[0] == 0 else f"keyword argument {path[1]}"
                self.fail(f"{who} has written into {what}", ("before", old), ("after", new))

    def check_value(self, what: str, have: Any, want: Any) -> None:
        """Same type (shape, dtype; kind of scalar) and numbers up to rounding."""
        if (a := typeof(have)) != (b := typeof(want)) and not (self.lenient and alike(a, b)):
            self.fail(f"{what} is of another type than NumPy's", ("expected", kind_of(b)), ("got", kind_of(a)))
        for x, y in zip(flatten(have)[0], flatten(want)[0], strict=True):
            if not close(x, y, 100):
                self.fail(f"{what} differs from NumPy's", ("expected", y), ("got", x))

    def check_repeatable(self, dy: Any, given: Any, dxs: Any, pullback: Callable[[Any], Any], anew: Any) -> None:
        """The cotangent was not written into, and the pullback gives the same when called again. How libraries round
        may depend on where arrays lie in memory, so that one of some calls is to give the very same as the first; if
        none does, of a few pullbacks that are made ``anew`` one has to do so."""
        if not all(map(equal, flatten(given)[0], flatten(dy)[0])):
            self.fail("the pullback has written into its cotangent", ("before", dy), ("after", given))
        first, beside = copied(dxs), []
        for k in range(CALLS * CALLS):
            beside.append([np.empty(size) for size in range(1, 40)])  # so that other arrays lie elsewhere
            if k and k % CALLS == 0:
                pullback = anew()
                first = copied(pullback(given))
            dxs = pullback(given)
            if all(map(equal, flatten(dxs)[0], flatten(first)[0])):
                return
        self.fail("the pullback gives something else when called again", ("first", first), ("then", dxs))

    def check_cotangents(self, dxs: Any) -> None:
        if not isinstance(dxs, tuple | list):
            self.fail(f"the pullback must return a tuple, not a {type(dxs).__name__}")
        if len(dxs) != len(self.args):
            self.fail(f"the pullback returned {len(dxs)} cotangents for {len(self.args)} positional arguments")
        for path, x, dx in pairs(self, self.args, dxs):
            label, want, have = self.label(path), typeof(x), typeof(dx)
            if dx is None:
                continue
            if not (isinstance(want, ArrayType) and want.inexact):
                self.fail(f"{label} is not differentiable, its cotangent must be None", ("got", have))
            if not isinstance(have, ArrayType):
                self.fail(f"the cotangent of {label} is no number or array", ("got", have))
            for what in ("shape", "dtype"):
                if (a := getattr(have, what)) != (b := getattr(want, what)):
                    self.fail(f"the cotangent of {label} has the wrong {what}", ("expected", b), ("got", a))


@record(frozen=False)
class Subject:
    """A function of its leaves: ``call(leaves)`` gives the result's leaves, ``back(leaves, dys)`` the cotangents."""

    at: Checked
    leaves: list[Any]
    labels: list[str]
    call: Callable[[Leaves], list[Any]]
    back: Callable[[Leaves, Leaves], list[Any]]

    @classmethod
    def of_rule(cls, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], at: Checked) -> Subject:
        """The subject whose gradients come from the rule alone."""
        leaves, labels, rebuild = _leaves(args, at)

        def call(xs: Leaves) -> list[Any]:
            return [z for z in flatten(fn(*rebuild(xs), **kwargs))[0] if is_inexact(z)]

        def back(xs: Leaves, dys: Leaves) -> list[Any]:
            new = rebuild(xs)
            y, pullback = apply_rule(fn, new, kwargs, None)
            zs, spec = flatten(y)
            given = iter(dys)
            dxs = pullback(unflatten(spec, [next(given) if is_inexact(z) else None for z in zs]))
            return [dx for _, x, dx in pairs(at, new, dxs) if is_inexact(x)]

        return cls(at, leaves, labels, call, back)

    @classmethod
    def of_function(cls, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], at: Checked) -> Subject:
        """The subject whose gradients come from tracing ``f``."""
        leaves, labels, rebuild = _leaves(args, at)

        def call(xs: Leaves) -> list[Any]:
            return [z for z in flatten(f(*rebuild(xs), **kwargs))[0] if is_inexact(z)]

        known: dict[tuple[Any, ...], Recorder] = {}  # gradients by the types of their inputs, which hold for others

        def back(xs: Leaves, dys: Leaves) -> list[Any]:
            inputs = [*xs, *dys]
            types = None if find_traced(inputs) is not None else tuple(map(typeof, inputs))
            if types in known:
                with contextlib.suppress(GuardError):
                    return known[types].tape.play_flat(inputs)[len(dys) :]
            out = differentiate(record_call(lambda *xs: tuple(call(xs)), tuple(xs), {}), tuple(dys))
            if types is not None:
                known[types] = out
            return [substitute(result, out.__getitem__) for result in out.tape.results[len(dys) :]]

        return cls(at, leaves, labels, call, back)


def _leaves(args: tuple[Any, ...], at: Checked) -> tuple[list[Any], list[str], Callable[[Leaves], tuple[Any, ...]]]:
    flat, spec = flatten(args)
    places = [i for i, x in enumerate(flat) if is_inexact(x)]
    labels = [at.label(path) for path in optree.treespec_paths(spec)]

    def rebuild(xs: Leaves) -> tuple[Any, ...]:
        full = list(flat)
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        return unflatten(spec, full)  # type: ignore[no-any-return]

    return [flat[i] for i in places], [labels[i] for i in places], rebuild


def pairs(at: Checked, x: Any, dx: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[tuple[Any, ...], Any, Any]]:
    """Each leaf of the arguments with its cotangent; a list or tuple has a tuple of cotangents, or None for zero."""
    if (items := items_of(x)) is None:
        yield path, x, dx
        return
    if dx is not None and len(items_of(dx) or ()) != len(items):
        what = f"the cotangent of {at.label(path)}, a {type(x).__name__} of {len(items)}, must be a tuple of as many"
        at.fail(what if isinstance(x, list | tuple) else f"{what} or have the same structure", ("got", typeof(dx)))
    for key, part in zip(keys_of(x), items, strict=True):
        yield from pairs(at, part, None if dx is None else item(dx, key), (*path, key))
