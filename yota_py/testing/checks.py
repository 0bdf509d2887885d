"""Checks of rules and gradients against NumPy's values and finite differences.

Words: *leaves* are the differentiable numbers and arrays among the arguments, also those inside lists; *dy* is a
random cotangent of the result y; the loss is L = Re(sum(conj(dy) * y)), so that along a direction v
dL = Re(sum(conj(g) * v)) with g = dL/dRe + i dL/dIm the gradient, also for complex leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.types import is_inexact, typeof
from ..capture.recording import record_call
from ..errors import GuardError
from ..registry.applied import apply_rule
from ..registry.registry import Primitive, Sample, primitive_of
from ..reverse.verbs import differentiate
from ..tape.recorder import Recorder
from ..tape.show import name_of
from ..tape.trees import flatten, unflatten
from ..tracing.stand_ins import Kept
from .evaluators import disagreements
from .finite import (
    close,
    copied,
    differences,
    is_narrow,
    moved,
    product,
    random_like,
    weighted,
    widened,
)
from .subjects import Checked, Leaves, Subject, pairs


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
    with Kept():
        if _has_body(fn):
            _check_function(fn, args, kwargs, rtol, second_order)
        else:
            _check_rule(fn, args, kwargs, rtol, second_order)


def _check_rule(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], rtol: float, second_order: bool
) -> None:
    at = Checked(name_of(fn), args, kwargs)
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
        at.check_repeatable(dy, given, dxs, pullback, lambda: apply_rule(fn, args, kwargs, None)[1])
        subject = Subject.of_rule(fn, args, kwargs, at)
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
    with Kept():
        _check_function(f, args, kwargs, rtol, second_order)


def _check_function(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], rtol: float, second_order: bool
) -> None:
    at = Checked(name_of(f), args, kwargs, _has_body(f))
    before = copied((args, kwargs))
    with np.errstate(all="ignore"):
        expected = f(*copied(args), **copied(kwargs))
        subject = Subject.of_function(f, args, kwargs, at)
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
    cases = [case for draw in entry.cases for case in draw(Sample(seed))]
    with Kept():
        for case in cases:
            if entry.rule is None and entry.body is None:
                _check_traced_value(entry.fn, case.args, case.kwargs)
            else:
                check_rrule(entry.fn, *case.args, **case.kwargs)
    return len(cases)


# ------------------------------------------------------------------------------------- what is being checked


def _has_body(fn: Callable[..., Any]) -> bool:
    entry = primitive_of(fn)
    return entry is not None and entry.body is not None


# ---------------------------------------------------------------------------------------------- the checks


def _check_derivatives(subject: Subject, dys: Leaves, rtol: float, second_order: bool) -> None:
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
    at: Checked, what: str, labels: list[str], loss: Callable[[Leaves], Any], xs: Leaves, dxs: Leaves, rtol: float
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


def _check_parts(subject: Subject, pullback: Callable[[Any], Any], dy: Any) -> None:
    """Of a tuple of results any part may have no cotangent: the parts must add up to the whole."""
    if not isinstance(dy, tuple) or sum(d is not None for d in dy) < 2:
        return

    def leaves(part: Any) -> list[Any]:
        return [(dx, x) for _, x, dx in pairs(subject.at, subject.at.args, pullback(part)) if is_inexact(x)]

    parts = [leaves(tuple(d if i == k else None for i, d in enumerate(dy))) for k in range(len(dy))]
    for i, (label, (whole, x)) in enumerate(zip(subject.labels, leaves(dy), strict=True)):
        total = sum((np.asarray(part[i][0]) for part in parts if part[i][0] is not None), np.zeros(np.shape(x)))
        if not close(total, 0 * total if whole is None else whole, 500, float(np.finfo(typeof(x).dtype).eps)):  # type: ignore[union-attr]
            subject.at.fail(f"the cotangents of {label} for each part of the result do not add up to that for all",
                            ("all", whole), ("sum", total))  # fmt: skip


def _check_tape(subject: Subject, dys: Leaves) -> None:
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
    at, before = Checked(name_of(fn), args, kwargs), copied((args, kwargs))
    with np.errstate(all="ignore"):
        expected = fn(*copied(args), **copied(kwargs))
        tape = record_call(lambda *xs: fn(*xs, **kwargs), args, {}).tape
        at.check_value("the traced value", tape.play(*args), expected)
    at.check_unchanged(before, "tracing")
