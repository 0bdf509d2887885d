"""The functions of every day run in kernels alone, and what has no derivative is compiled right too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import scipy.special  # noqa: F401 - its rules are registered once it is imported
import yota_py.rules  # noqa: F401 - registers the rules
from entries import OF_NUMPY

from yota_py import jit
from yota_py.base.types import ArrayType, is_inexact, typeof
from yota_py.capture.recording import record_call
from yota_py.engine.compile import UncompilableError, compile_recorded
from yota_py.engine.schedule.classify import checkable
from yota_py.engine.schedule.fuse import fuse
from yota_py.engine.schedule.steps import Python
from yota_py.passes.lower import lower
from yota_py.passes.pipeline import optimise
from yota_py.registry.registry import Case, Primitive, Sample
from yota_py.reverse.verbs import differentiate
from yota_py.tape.operations import Call
from yota_py.tape.show import name_of
from yota_py.tape.trees import flatten, is_traceable, unflatten
from yota_py.testing.finite import close, random_like

# Python steps for good reason: scans, orders, decompositions, SciPy's special functions without a kernel.
EVERYDAY = set(
    """
    add subtract multiply divide negative positive square sqrt cbrt reciprocal absolute fabs hypot copysign
    remainder fmod exp exp2 expm1 log log2 log10 log1p logaddexp sin cos tan arcsin arccos arctan arctan2 sinh
    cosh tanh arcsinh arccosh arctanh sinc power float_power maximum minimum fmax fmin where clip nan_to_num sign
    floor ceil round sum mean max min var std average ptp nansum nanmean nanmax nanmin any all dot matmul inner
    outer vdot vecdot tensordot einsum kron cross multi_dot reshape ravel squeeze expand_dims transpose swapaxes
    moveaxis flip rot90 broadcast_to concatenate stack vstack hstack dstack column_stack append split array_split
    hsplit vsplit tile repeat roll pad getitem unindex setitem set_view take take_along_axis diagonal diag trace
    tril triu diff trapezoid full full_like copy linspace meshgrid logsumexp softmax log_softmax expit
    """.split()
)


def of_kernels(value: Any) -> bool:
    """Whether kernels handle values like this: real, and not empty."""
    t = typeof(value)
    return not isinstance(t, ArrayType) or (t.dtype.kind != "c" and t.size > 0)


def cases(entry: Primitive) -> Iterator[Case]:
    for draw in entry.cases:
        yield from draw(Sample(0))


def python_steps(entry: Primitive, case: Case) -> list[str]:
    """The operations of a compiled gradient that stay in Python."""
    leaves, spec = flatten(case.args)
    places = [i for i, x in enumerate(leaves) if is_inexact(x)]

    def f(*xs: Any) -> Any:
        full = list(leaves)
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        results = flatten(entry.fn(*unflatten(spec, full), **case.kwargs))[0]
        return tuple(y for y in results if is_inexact(y))

    xs = tuple(leaves[i] for i in places)
    ys = f(*xs)
    if not xs or not ys or not all(map(of_kernels, (*leaves, *ys))):
        return []
    rng = np.random.default_rng(0)
    gradient = differentiate(record_call(f, xs, {}), tuple(random_like(y, rng) for y in ys))
    tape = optimise(lower(gradient).tape)
    if not checkable(tape) or any(t.size == 0 for t in (op.type for op in tape.ops) if isinstance(t, ArrayType)):
        return []
    ops = [tape[step.var] for step in fuse(tape).steps if isinstance(step, Python)]
    return [name_of(op.fn) for op in ops if isinstance(op, Call)]


def name(entry: Primitive) -> str:
    return entry.name


@pytest.mark.parametrize("entry", [p for p in OF_NUMPY if p.rule is not None and p.name in EVERYDAY], ids=name)
def test_no_python_steps(entry: Primitive) -> None:
    # left to NumPy: an index of None and arrays, assignment at positions that may change, linspace with its step, and
    # to Python: math.remainder
    few = {"getitem": 1, "setitem": 3, "linspace": 2}.get(entry.name, 0)
    few = 2 if entry.name == "remainder" and not isinstance(entry.fn, np.ufunc) else few
    with np.errstate(all="ignore"):
        found = {str(case.args)[:200]: steps for case in cases(entry) if (steps := python_steps(entry, case))}
    assert len(found) <= few, found


@pytest.mark.parametrize("entry", [p for p in OF_NUMPY if p.rule is None and p.cases], ids=name)
def test_compiled_values(entry: Primitive) -> None:
    """Value and type of what nothing flows back through: lowered, and compiled."""
    for case in cases(entry):
        values = [x for x in flatten(case.args)[0] if is_traceable(x)]
        with np.errstate(all="ignore"):
            want = entry.fn(*case.args, **case.kwargs)
            source = record_call(lambda *xs, case=case: entry.fn(*xs, **case.kwargs), case.args, {})
            ways = [optimise(lower(source).tape).play_flat(values)]
            with suppress(UncompilableError):  # ``round(x)`` is a decision that no kernel can check
                ways.append(compile_recorded(source)(*values))
        for have in ways:
            for got, leaf in zip(have, flatten(want)[0], strict=True):
                assert typeof(got) == typeof(leaf)
                assert close(got, leaf, 8) if is_inexact(leaf) else np.array_equal(got, leaf)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "sort"])
@pytest.mark.parametrize("x", [0.75, np.float64(0.75), np.array(0.75)])
def test_the_first_axis_of_a_number(name: str, x: Any) -> None:
    """NumPy reduces a number over axis 0, and over axis -1."""
    for axis in (0, -1):
        try:
            want = getattr(np, name)(x, axis=axis)
        except np.exceptions.AxisError:
            continue
        step = jit(lambda x, axis=axis: getattr(np, name)(x, axis=axis))
        for _ in range(3):
            assert step(x) == want
