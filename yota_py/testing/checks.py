"""Checks of rules and gradients against NumPy's values and finite differences.

Words: *leaves* are the differentiable numbers and arrays among the arguments, also those inside lists; *dy* is a
random cotangent of the result y; the loss is L = Re(sum(conj(dy) * y)), so that along a direction v
dL = Re(sum(conj(g) * v)) with g = dL/dRe + i dL/dIm the gradient, also for complex leaves.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import optree

from ..base.containers import item, items_of, keys_of
from ..base.types import ArrayType, is_inexact, typeof
from ..capture.recording import record_call
from ..errors import GuardError
from ..registry.applied import apply_rule
from ..registry.registry import Primitive, Sample, primitive_of
from ..reverse.verbs import alike, differentiate
from ..tape.operations import substitute
from ..tape.recorder import Recorder
from ..tape.show import name_of
from ..tape.trees import flatten, unflatten
from .evaluators import disagreements
from .finite import (
    close,
    copied,
    describe,
    differences,
    equal,
    figure,
    is_narrow,
    kind_of,
    leaves_of,
    moved,
    product,
    random_like,
    weighted,
    widened,
)

Leaves = Sequence[Any]


def check_rrule(
    fn: Callable[..., Any], *args: Any, rtol: float = 1e-6, second_order: bool = True, **kwargs: Any
) -> None:
    """Check the rule of ``fn`` at these arguments; raises ``AssertionError`` that says what is wrong and where.

    Checked are: value and its type; number, shapes and dtypes of the cotangents; the first derivative against finite
    differences; float32 against float64; the derivative of the pullback against finite differences of the pullback
    (not with ``second_order=False``); that nothing is written into the arguments; that the gradient tape holds for
    other inputs; and that the lowered and the compiled tape agree with it.

    >>> check_rrule(np.multiply, 2.0, np.ones(3))
    """
    if _has_body(fn):
        check_grads(fn, *args, rtol=rtol, second_order=second_order, **kwargs)
        return
    at = _Checked(name_of(fn), args, kwargs)
    rng = at.generator("dy")
    before = copied((args, kwargs))
    with np.errstate(all="ignore"):
        expected = fn(*copied(args), **copied(kwargs))
        y, pullback = apply_rule(fn, args, kwargs, None)
        at.check_unchanged(before, "the rule")
        at.check_value("the rule's value", y, expected)
        dy = random_like(y, rng, into_none=True)
        given = copied(dy)
        dxs = pullback(given)
        at.check_unchanged(before, "the pullback")
        at.check_cotangents(dxs)
        at.check_repeatable(dy, given, dxs, pullback)
        subject = _Subject.of_rule(fn, args, kwargs, at)
        dys = [d for d in flatten(dy)[0] if d is not None]
        _check_derivatives(subject, dys, rtol, second_order)
        _check_parts(subject, pullback, dy)
        _check_tape(subject, dys)


def check_grads(
    f: Callable[..., Any], *args: Any, rtol: float = 1e-6, second_order: bool = True, **kwargs: Any
) -> None:
    """Check the gradients of any function of numbers, arrays and containers of them against finite differences.

    The output may have any structure; it is weighted with random cotangents. Checked as in ``check_rrule``.

    >>> check_grads(lambda x: np.sin(x) * x, 2.0)
    """
    at = _Checked(name_of(f), args, kwargs, _has_body(f))
    before = copied((args, kwargs))
    with np.errstate(all="ignore"):
        expected = f(*copied(args), **copied(kwargs))
        subject = _Subject.of_function(f, args, kwargs, at)
        traced = record_call(f, args, kwargs)
        at.check_unchanged(before, "tracing")
        at.check_value("the traced value", traced.tape.play(*args, **kwargs), expected)
        rng = at.generator("dy")
        dys = [random_like(y, rng) for y in subject.call(subject.leaves)]
        _check_derivatives(subject, dys, rtol, second_order)
        _check_tape(subject, dys)


def check_cases(fn: Callable[..., Any] | Primitive, seed: int = 0) -> int:
    """Check a primitive at all its registered cases, drawn with this seed; returns how many there were.

    >>> check_cases(np.arctan2) > 0
    True
    """
    entry = fn if isinstance(fn, Primitive) else primitive_of(fn)
    if entry is None:
        raise AssertionError(f"{name_of(fn)} is not a primitive")
    count = 0
    for draw in entry.cases:
        for case in draw(Sample(seed)):
            count += 1
            if entry.rule is None and entry.body is None:
                _check_traced_value(entry.fn, case.args, case.kwargs)
            else:
                check_rrule(entry.fn, *case.args, **case.kwargs)
    return count


# ------------------------------------------------------------------------------------- what is being checked


def _has_body(fn: Callable[..., Any]) -> bool:
    entry = primitive_of(fn)
    return entry is not None and entry.body is not None


@dataclass(slots=True)
class _Checked:
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

    def check_repeatable(self, dy: Any, given: Any, dxs: Any, pullback: Callable[[Any], Any]) -> None:
        """The cotangent was not written into, and the pullback gives the same when called again."""
        if not all(map(equal, flatten(given)[0], flatten(dy)[0])):
            self.fail("the pullback has written into its cotangent", ("before", dy), ("after", given))
        first = copied(dxs)
        dxs = pullback(given)
        if not all(map(equal, flatten(dxs)[0], flatten(first)[0])):
            self.fail("the pullback gives something else when called again", ("first", first), ("then", dxs))

    def check_cotangents(self, dxs: Any) -> None:
        if not isinstance(dxs, tuple | list):
            self.fail(f"the pullback must return a tuple, not a {type(dxs).__name__}")
        if len(dxs) != len(self.args):
            self.fail(f"the pullback returned {len(dxs)} cotangents for {len(self.args)} positional arguments")
        for path, x, dx in _pairs(self, self.args, dxs):
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


@dataclass(slots=True)
class _Subject:
    """A function of its leaves: ``call(leaves)`` gives the result's leaves, ``back(leaves, dys)`` the cotangents."""

    at: _Checked
    leaves: list[Any]
    labels: list[str]
    call: Callable[[Leaves], list[Any]]
    back: Callable[[Leaves, Leaves], list[Any]]

    @classmethod
    def of_rule(cls, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], at: _Checked) -> _Subject:
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
            return [dx for _, x, dx in _pairs(at, new, dxs) if is_inexact(x)]

        return cls(at, leaves, labels, call, back)

    @classmethod
    def of_function(cls, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], at: _Checked) -> _Subject:
        """The subject whose gradients come from tracing ``f``."""
        leaves, labels, rebuild = _leaves(args, at)

        def call(xs: Leaves) -> list[Any]:
            return [z for z in flatten(f(*rebuild(xs), **kwargs))[0] if is_inexact(z)]

        def back(xs: Leaves, dys: Leaves) -> list[Any]:
            out = differentiate(record_call(lambda *xs: tuple(call(xs)), tuple(xs), {}), tuple(dys))
            return [substitute(result, out.__getitem__) for result in out.tape.results[len(dys) :]]

        return cls(at, leaves, labels, call, back)


def _leaves(args: tuple[Any, ...], at: _Checked) -> tuple[list[Any], list[str], Callable[[Leaves], tuple[Any, ...]]]:
    flat, spec = flatten(args)
    places = [i for i, x in enumerate(flat) if is_inexact(x)]
    labels = [at.label(path) for path in optree.treespec_paths(spec)]

    def rebuild(xs: Leaves) -> tuple[Any, ...]:
        full = list(flat)
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        return unflatten(spec, full)  # type: ignore[no-any-return]

    return [flat[i] for i in places], [labels[i] for i in places], rebuild


def _pairs(at: _Checked, x: Any, dx: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[tuple[Any, ...], Any, Any]]:
    """Each leaf of the arguments with its cotangent; a list or tuple has a tuple of cotangents, or None for zero."""
    if (items := items_of(x)) is None:
        yield path, x, dx
        return
    if dx is not None and len(items_of(dx) or ()) != len(items):
        what = f"the cotangent of {at.label(path)}, a {type(x).__name__} of {len(items)}, must be a tuple of as many"
        at.fail(what if isinstance(x, list | tuple) else f"{what} or have the same structure", ("got", typeof(dx)))
    for key, part in zip(keys_of(x), items, strict=True):
        yield from _pairs(at, part, None if dx is None else item(dx, key), (*path, key))


# ---------------------------------------------------------------------------------------------- the checks


def _check_derivatives(subject: _Subject, dys: Leaves, rtol: float, second_order: bool) -> None:
    """First derivatives, float32 against float64, second derivatives."""
    wide, wide_dys = list(map(widened, subject.leaves)), list(map(widened, dys))
    dxs = subject.back(wide, wide_dys)
    _check_slopes(subject.at, "gradient", subject.labels, weighted(subject.call, wide_dys), wide, dxs, rtol)
    eps = max((float(np.finfo(typeof(x).dtype).eps) for x in [*subject.leaves, *dys]), default=0.0)  # type: ignore[union-attr]
    for label, dx, dx32 in zip(subject.labels, dxs, subject.back(subject.leaves, dys), strict=True):
        if (dx is None) != (dx32 is None) or (dx is not None and not close(dx32, dx, 500, eps)):
            subject.at.fail(f"the cotangent of {label} in its own dtype is far from that in float64",
                            ("float64", dx), ("got", dx32))  # fmt: skip
    if not second_order or all(dx is None for dx in dxs):
        return
    rng = subject.at.generator("v")
    vs = [None if dx is None else random_like(dx, rng) for dx in dxs]
    n = len(wide)

    def slope(*inputs: Any) -> Any:  # <pullback(dy), v> as a function of x and dy
        pairs = [(v, dx) for v, dx in zip(vs, subject.back(inputs[:n], inputs[n:]), strict=True) if dx is not None]
        terms = [product(v, dx) for v, dx in pairs]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    inputs = [*wide, *wide_dys]
    out = differentiate(record_call(slope, tuple(inputs), {}))
    seconds = [out[result] for result in out.tape.results[1:]]
    labels = [*subject.labels, *("dy" for _ in dys)]
    _check_slopes(subject.at, "second derivative", labels, lambda xs: slope(*xs), inputs, seconds, 10 * rtol)


def _check_slopes(
    at: _Checked, what: str, labels: list[str], loss: Callable[[Leaves], Any], xs: Leaves, dxs: Leaves, rtol: float
) -> None:
    """Along a random direction of each leaf, the cotangent against finite differences of the loss."""
    rng = at.generator(what)
    narrow = is_narrow(loss(xs))
    for i, (label, x, dx) in enumerate(zip(labels, xs, dxs, strict=True)):
        v = random_like(x, rng)
        products = np.zeros(1) if dx is None else np.real(np.conj(np.asarray(dx)) * v)
        slope = float(np.sum(products))
        scale = max(float(np.sum(np.abs(products))), 1e-4)
        best = np.nan
        for finite in differences(lambda h: loss([*xs[:i], moved(x, v, h), *xs[i + 1 :]]), narrow):  # noqa: B023
            if np.isfinite(finite) and not abs(finite - slope) >= abs(best - slope):
                best = finite
            if abs(best - slope) <= (0.02 if narrow else rtol) * max(abs(best), scale):
                break
        else:
            if np.isnan(best):
                at.fail(f"no finite difference along {label} is finite: choose other inputs for the test")
            imaginary = " (complex: the convention is dL/dRe + i dL/dIm)" if np.iscomplexobj(x) else ""
            shape = f"of shape {np.shape(x)}, dtype {typeof(x).dtype}"  # type: ignore[union-attr]
            at.fail(f"the {what} in {label}, {shape}, differs from finite differences{imaginary}",
                    ("finite", best), ("got", "None, which is zero" if dx is None else slope))  # fmt: skip


def _check_parts(subject: _Subject, pullback: Callable[[Any], Any], dy: Any) -> None:
    """Of a tuple of results any part may have no cotangent: the parts must add up to the whole."""
    if not isinstance(dy, tuple) or sum(d is not None for d in dy) < 2:
        return

    def leaves(part: Any) -> list[Any]:
        return [(dx, x) for _, x, dx in _pairs(subject.at, subject.at.args, pullback(part)) if is_inexact(x)]

    parts = [leaves(tuple(d if i == k else None for i, d in enumerate(dy))) for k in range(len(dy))]
    for i, (label, (whole, x)) in enumerate(zip(subject.labels, leaves(dy), strict=True)):
        total = sum((np.asarray(part[i][0]) for part in parts if part[i][0] is not None), np.zeros(np.shape(x)))
        if not close(total, 0 * total if whole is None else whole, 500, float(np.finfo(typeof(x).dtype).eps)):  # type: ignore[union-attr]
            subject.at.fail(f"the cotangents of {label} for each part of the result do not add up to that for all",
                            ("all", whole), ("sum", total))  # fmt: skip


def _check_tape(subject: _Subject, dys: Leaves) -> None:
    """The traced value and gradients, the tape played on other inputs, and what is compiled from it."""
    at, xs = subject.at, tuple(subject.leaves)
    if not xs or not dys:
        return

    def f(*leaves: Any) -> Any:
        out = subject.call(leaves)
        return out[0] if len(out) == 1 else tuple(out)

    def fresh(inputs: tuple[Any, ...]) -> Any:
        return differentiate(record_call(f, inputs, {}), seed)

    seed = dys[0] if len(dys) == 1 else tuple(dys)
    gradient = fresh(xs)
    value, grads = _played(gradient, [*xs, *dys])
    at.check_value("the traced value", value, f(*xs))
    for label, dx, have in zip(subject.labels, subject.back(xs, dys), grads, strict=True):
        if not close(have, 0 * have if dx is None else dx, 100):
            at.fail(f"the gradient tape's cotangent of {label} differs from the rule's", ("rule", dx), ("tape", have))
    rng = at.generator("other inputs")
    others = tuple(moved(x, random_like(x, rng), 1e-3) for x in xs)
    try:
        played = _played(gradient, [*others, *dys])
    except GuardError:
        played = None
    if played is not None:
        for have, want in zip(flatten(played)[0], flatten(_played(fresh(others), [*others, *dys]))[0], strict=True):
            if not close(have, want, 100):
                what = "the tape played on other inputs differs from a fresh trace on them"
                at.fail(what, ("fresh", want), ("tape", have))
    nearby = [tuple(moved(x, random_like(x, rng), 1e-3) for x in xs) for _ in range(2)]
    for what, figures in disagreements(gradient, [[*given, *dys] for given in (xs, *nearby)]):
        at.fail(what, *figures)


def _played(gradient: Recorder, inputs: Leaves) -> Any:
    assert gradient.tape.out_spec is not None
    return unflatten(gradient.tape.out_spec, gradient.tape.play_flat(inputs))


def _check_traced_value(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """A function without rule: traced, played, and unchanged arguments."""
    at, before = _Checked(name_of(fn), args, kwargs), copied((args, kwargs))
    with np.errstate(all="ignore"):
        expected = fn(*copied(args), **copied(kwargs))
        tape = record_call(lambda *xs: fn(*xs, **kwargs), args, {}).tape
        at.check_value("the traced value", tape.play(*args), expected)
    at.check_unchanged(before, "tracing")
