"""Every ufunc and operator over all pairs of dtypes and kinds of numbers, compiled, against NumPy on the second call.

``make stress`` runs all pairs; by default there is a sample of them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from operands import DTYPES, FORMS, OPERANDS, Operand, difference, functions, outcome, program, running, specials
from sets import SEQUENCES, each

from yota_py import explain, grad, jit, value_and_grad
from yota_py.cache import functions as cache
from yota_py.cache.modes import Gradient, Request
from yota_py.engine.kernels.ir import KernelSpec, Node, Output
from yota_py.engine.kernels.ir import Operand as Read
from yota_py.engine.kernels.store import addresses
from yota_py.errors import YotaError

SEED, SEVERAL = 0, 14

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning"),
    pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning"),
]


def failures(
    sources: Sequence[str], arguments: str, calls: Sequence[tuple[Any, ...]], *, captured: bool = False,
    rounded: bool = False,
) -> Iterator[str]:  # fmt: skip
    """What one program of all these functions does otherwise than NumPy, with the last operand perhaps captured."""
    sources = running(sources, arguments, calls)
    names = arguments.split(", ")
    f = program(sources, names[0] if captured else arguments, **({names[-1]: calls[0][-1]} if captured else {}))
    fast = jit(f)
    for number, args in enumerate(calls):
        if captured:
            f.__globals__[names[-1]] = args[-1]
        inputs = args[:1] if captured else args
        have, want = outcome(fast, *inputs), outcome(f, *inputs)
        if isinstance(have, Exception):
            yield f"{args!s:.200}: {sources}: {have!r}"
            return
        for source, a, b in zip(sources, have, want, strict=True):
            if text := difference(source, a, b, *args, rounded=rounded):
                yield f"{source} {text}, at call {number} with {args!s:.200}"
    served.append(sum(entry.calls for entry in explain(fast)))


served: list[int] = []


SOME = [x for i, x in enumerate(OPERANDS) if SEQUENCES or x.form == "array" or i % 4 == 0]


@pytest.mark.parametrize("operand", SOME, ids=str)
def test_functions_of_one_operand(operand: Operand) -> None:
    count = 3 if operand.form == "array" else len(specials(operand.kind)) if operand.form in FORMS else 4
    calls = [(operand.value(call),) for call in range(count)]
    assert not [*failures(functions(1), "a", calls)]


def pairs() -> list[tuple[int, Operand, Operand]]:
    """All pairs that are not both constants, or a sample of them."""
    every = [(i, a, b) for i, (a, b) in enumerate(itertools.product(OPERANDS, OPERANDS)) if not (a.static and b.static)]
    return every if SEQUENCES else random.Random(SEED).sample(every, 60)


@pytest.mark.parametrize("part", range(10))
def test_functions_of_two_operands(part: int) -> None:
    """Most of the comparisons are made with compiled programs."""
    every, found = functions(2), []
    served.clear()
    for i, a, b in pairs()[part::10]:
        cache.clear_caches()
        calls = [(a.value(call, i, column=True), b.value(call, i // 7)) for call in range(3)]
        sources = random.Random(i).sample(every, len(every))
        for k in range(0, len(every) if SEQUENCES else SEVERAL, SEVERAL):  # a few to a program, which compile faster
            some = failures(sources[k : k + SEVERAL], "a, b", calls, captured=bool(i % 2))
            found += [f"{a}, {b}: {text}" for text in some]
    assert not found, "\n".join(found)
    assert sum(count >= 1 for count in served) > len(served) / 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype: str) -> None:
    options = ["", "axis=0", "axis=1", "axis=(0, 1)", "axis=-1, keepdims=True", "keepdims=True"]
    names = ["sum", "prod", "max", "min", "any", "all", "mean", "argmax", "argmin", "cumsum", "cumprod", "ptp"]
    sources = [f"np.{name}(a, {option})" for name in names for option in options]
    sources += [f"np.{name}(a, dtype=np.{to}, axis={axis})" for name in ("sum", "prod", "cumsum", "mean")
                for to in ("int32", "bool", "uint8", "int64", "float32", "float64") for axis in (None, 1)]  # fmt: skip
    sources += [f"np.{name}(a, axis=0, initial={n})" for name in ("sum", "prod", "max", "min") for n in (2, 0.5)]
    sources += [f"np.{name}(a, axis=0, initial=1, where=a > 0)" for name in ("sum", "prod", "max", "min")]
    values, found = specials(dtype), []
    small = values[np.isin(np.abs(values.astype(complex)), [0, 0.5, 1, 1.5, 2, 7])]  # whose sums are exact
    for shape in each([(2, 3), (5, 70), (1, 1), (3, 1), (1, 4)], 2, first=DTYPES.index(dtype)):
        calls = [(np.resize(np.roll(small, i), shape).copy(),) for i in range(3)]
        found += [*failures(sources, "a", calls, rounded=True)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(1,), (3,), (1, 1), (2, 1), (1, 5), (3, 40)])
def test_no_sum_is_minus_zero(shape: tuple[int, ...], dtype: str) -> None:
    x = np.full(shape, -0.0, dtype)
    axes: list[Any] = [None, 0, -1, (), tuple(range(len(shape)))]
    fast = jit(lambda x: [np.sum(x, axis=axis) for axis in axes] + [np.prod(x, axis=axis) for axis in axes])
    for _ in range(3):
        for have, want in zip(fast(x), fast.__wrapped__(x), strict=True):
            assert np.array_equal(np.signbit(have), np.signbit(want))


def fresh(f: Any, *args: Any) -> Any:
    """Value and gradients as the interpreter gives them."""
    return outcome(Gradient().interpret, Request(f, args, {}))


def summed(source: str) -> Any:
    """The sum of a function of two operands."""
    f = program([f"np.sum({source})"], "a, b")
    return lambda a, b: f(a, b)[0]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int64", "bool"])
def test_gradients(dtype: str) -> None:
    """Of functions of a float operand and one of this dtype: as interpreted, at special points too."""
    skipped = ("clip", "special", "np.full(", "<<", ">>", "&", "|", "^", "kron", "tensordot", "where(a", "heaviside")
    y, found = specials(dtype), []
    x = np.resize(specials("float64")[[6, 7, 8, 10, 17, 18, 19, 9]], len(y))
    for source in functions(2):
        f = summed(source)
        if any(word in source for word in skipped) or isinstance(want := fresh(f, x, y), Exception):
            continue
        for _ in range(3):
            have = outcome(grad, f, x, y)
            if isinstance(have, Exception) or not np.allclose(have[1][0], want[1][0], 1e-9, 1e-9, equal_nan=True):
                found.append(f"{source}: {have}, not {want}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("x", [0.75, np.float64(0.75), np.float32(0.75), np.array(0.75, np.float32)], ids=repr)
def test_gradients_of_numbers_of_all_kinds(x: Any) -> None:
    powers = [f"a ** {p}" for p in (0.5, -0.5, 1.5, -2, 4, "b")]
    for source in (*powers, "np.power(a, -0.5)", "np.power(a, b)", "np.dot(a, b)"):
        f = summed(source)
        for b in (2.0, 2.0, 0.5):
            value, slope = value_and_grad(f)(x, b)
            want, (wanted, _) = fresh(f, x, b)
            assert type(value) is type(want) and type(slope) is type(wanted), source
            assert np.allclose([value, slope], [want, wanted], 1e-6), source


def test_a_store_is_never_wider_than_its_memory() -> None:
    """A kernel that computes another dtype than its structure says is not made."""
    read, store = Read("int64", "unit"), Output(1, "bool", "unit")
    for node in (Node("square", (0,), "bool"), Node("isnan", (0,), "int64")):
        with pytest.raises(TypeError, match="a kernel computes"):
            addresses([KernelSpec(1, True, (read,), (node,), (store,))])
    with pytest.raises(TypeError, match="where bool is wanted"):
        addresses([KernelSpec(1, True, (read,), (Node("square", (0,), "int64"),), (store,))])


@pytest.mark.parametrize("call", [
    "np.subtract(x, 0.5, dtype={})", "np.add(x, x, signature=(None, None, {}))", "np.add.reduce(x, dtype={})",
    "np.add.outer(x, x, dtype={})", "np.multiply.accumulate(x, dtype={})", "np.sum(x, dtype={})", "x.prod(dtype={})",
    "x.astype({})", "np.array(x, dtype={})", "np.asarray([x[0], 1.5], {})", "np.full(2, x[0], dtype={})",
    "np.mean(x, dtype={})", "np.var(x, dtype={})", "np.cumsum(x, dtype={})",
])  # fmt: skip
def test_classes_of_dtypes_and_of_objects(call: str) -> None:
    """Classes of ``numpy.dtypes`` stand for their dtypes, where NumPy has it so; objects are refused, or right."""
    x = np.array([0.75, 1.25, 2.0])
    for said in ("np.dtypes.Float32DType", "np.dtypes.Float64DType", "object"):
        f = eval(f"lambda x: np.sum({call.format(said)})")
        try:
            value, (slope,) = grad(f, x)
        except YotaError:
            assert np.asarray(eval(call.format(said))).dtype == object or said == "object"
            continue
        want, (wanted,) = grad(eval(f"lambda x: np.sum({call.format('np.float64')})"), x)
        np.testing.assert_allclose([value, *slope], [want, *wanted], 1e-6)
        assert type(value) is type(f(x))
