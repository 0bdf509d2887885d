"""Every rule at its cases with extents of zero: values, shapes and gradients, traced, lowered and compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special  # noqa: F401 - its rules are registered once it is imported
import yota_py.rules  # noqa: F401 - registers the rules
from entries import OF_NUMPY
from sets import each
from yota_py.rules.mapping import windows

from yota_py import jit
from yota_py.base.types import is_inexact, typeof
from yota_py.capture.recording import record_call
from yota_py.errors import MissingRuleError
from yota_py.registry.registry import Case, Primitive, Sample
from yota_py.reverse.verbs import differentiate
from yota_py.tape.trees import flatten, unflatten
from yota_py.testing.evaluators import disagreements
from yota_py.testing.finite import random_like

UNWRITTEN = (np.fft.irfft, np.fft.irfft2, np.fft.irfftn, np.fft.hfft)  # of no elements NumPy gives memory as it is
WITHIN = (windows,)  # is called for elements that there are


def emptied(entry: Primitive, case: Case) -> Iterator[tuple[Any, ...]]:
    """The arguments with one axis of one array, or all axes of one length, set to zero."""
    leaves, spec = flatten(case.args)
    arrays = {i: x for i, x in enumerate(leaves) if isinstance(x, np.ndarray) and x.ndim}
    single = [{(i, axis)} for i, x in arrays.items() for axis in range(x.ndim)]
    lengths = {n for x in arrays.values() for n in x.shape}
    together = [{(i, axis) for i, x in arrays.items() for axis in range(x.ndim) if x.shape[axis] == n} for n in lengths]
    if (getattr(entry.fn, "__module__", None) or "").startswith("yota_py") or entry.fn is np.einsum:
        single = []  # our own functions, and repeated labels, rely on equal lengths
    for axes in together + [place for place in single if place not in together]:
        shapes = {i: tuple(0 if (i, k) in axes else n for k, n in enumerate(x.shape)) for i, x in arrays.items()}
        yield unflatten(spec, [np.zeros(shapes[i], x.dtype) if i in shapes and 0 in shapes[i] else x
                               for i, x in enumerate(leaves)])  # fmt: skip


def shown(args: Any) -> str:
    return ", ".join(str(typeof(x)) if isinstance(x, np.ndarray) else repr(x) for x in flatten(args)[0])


def calls(entry: Primitive) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Different calls with an extent of zero that NumPy answers, with its answers."""
    seen = set()
    for draw in entry.cases:
        for case in draw(Sample(0)):
            for args in emptied(entry, case):
                if (key := f"{shown(args)}, {case.kwargs}") in seen:
                    continue
                seen.add(key)
                try:
                    with np.errstate(all="ignore"):
                        want = entry.fn(*args, **case.kwargs)
                except Exception:  # any: what NumPy refuses is not asked of us
                    continue
                if entry.fn not in UNWRITTEN or not np.size(want):
                    yield args, case.kwargs, want


def check(entry: Primitive, args: tuple[Any, ...], kwargs: Any, want: Any) -> None:
    leaves, spec = flatten(args)
    places = [i for i, x in enumerate(leaves) if is_inexact(x)]

    def f(*xs: Any) -> Any:
        full = list(leaves)
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        return tuple(flatten(entry.fn(*unflatten(spec, full), **kwargs))[0])

    xs = [leaves[i] for i in places]
    with np.errstate(all="ignore"):
        recorded = record_call(f, tuple(xs), {})
        for have, expected in zip(recorded.tape.play(*xs), flatten(want)[0], strict=True):
            assert typeof(have) == typeof(expected)
            np.testing.assert_array_equal(have, expected)
        ys = flatten(want)[0]
        if not xs or not any(map(is_inexact, ys)):
            return
        seeds = tuple(random_like(y, np.random.default_rng(0)) for y in ys)
        gradient = differentiate(recorded, seeds)
        given = [*xs, *(s for s in seeds if s is not None)]
        grads = gradient.tape.play_flat(given)[len(ys) :]
        assert [np.shape(dx) for dx in grads] == [np.shape(x) for x in xs]
        for what, figures in disagreements(gradient, [given, given]):
            raise AssertionError((what, figures))


MINE = [
    p for p in OF_NUMPY if p.cases and (p.rule is not None or p.nondiff)  # others are written out while traced
    and p.fn not in WITHIN and not (getattr(p.fn, "__module__", None) or "").startswith("test_")
]  # fmt: skip


@pytest.mark.parametrize("entry", MINE, ids=lambda entry: entry.name)
def test_extents_of_zero(entry: Primitive) -> None:
    for args, kwargs, want in each([*calls(entry)], 3, first=len(entry.name)):
        try:
            check(entry, args, kwargs, want)
        except MissingRuleError:  # said, not hidden
            continue
        except Exception as error:
            raise AssertionError(f"{entry.name}({shown(args)}, {kwargs})") from error


JOINS: dict[str, Any] = {
    "hstack": lambda m: np.hstack([m[:, :1], m[:, 1:]]),
    "concatenate": lambda m: np.concatenate([m, m], axis=1),
    "concatenate the other way": lambda m: np.concatenate([m, m]),
    "append": lambda m: np.append(m, m, axis=1),
    "stack": lambda m: np.stack([m, m, m], axis=2),
    "dstack": lambda m: np.dstack([m, m]),
    "column_stack": lambda m: np.column_stack([m, m]),
    "roll": lambda m: np.roll(m, 1, axis=1),
    "array of rows": lambda m: np.array([m[:, 0], m[:, 1]]),
}


@pytest.mark.parametrize("name", JOINS)
def test_joins_of_nothing_keep_their_extents(name: str) -> None:
    f = jit(JOINS[name])
    for rows in (0, 2, 0, 0, 3):
        m = np.arange(rows * 3.0).reshape(rows, 3)
        np.testing.assert_array_equal(f(m), JOINS[name](m), strict=True)
