"""Compiled programs against their tapes: memory layouts, refusals, Python steps, kinds of result."""

from __future__ import annotations

import gc
import math
import operator
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ways import CALLS, Ways, agree, agrees, arrays_of, assert_close, compiled, moved, seeds_for

import yota_py
from yota_py import grad
from yota_py.dispatch import is_traced
from yota_py.engine import Refusal, compile_tape
from yota_py.gradient import differentiate
from yota_py.operations import Call, Guard, Input, Variable
from yota_py.passes import optimise
from yota_py.passes.lower import lower
from yota_py.recording import record_call
from yota_py.tape import Tape
from yota_py.trees import NAMESPACE, flatten
from yota_py.types import typeof
from yota_py.verify import verify

# ------------------------------------------------------------------------------------------ layouts of inputs


def _mixed(x: Any, w: Any, k: Any) -> Any:
    h = np.tanh(x @ w) * np.max(x, 1, keepdims=True)
    return np.sum(h[k] ** 2) + np.sum(x[:, 1:] * x[:, :-1]) + np.sum(x.T[::-1])


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def _unaligned(x: np.ndarray) -> np.ndarray:
    memory = np.zeros(x.nbytes + 1, np.uint8)
    out = memory[1:].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


INPUT_LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Fortran": lambda x: np.array(x, order="F"), "with gaps": lambda x: np.repeat(x, 2, -1)[..., ::2], "flipped":
    lambda x: np.flip(np.flip(x).copy()), "read-only": _read_only, "unaligned": _unaligned,
    "swapped": lambda x: x.astype(x.dtype.newbyteorder()), "memory-mapped": lambda x: x.view(np.memmap),
}  # fmt: skip


@pytest.mark.parametrize("layout", INPUT_LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_layouts_of_inputs(layout: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, w, k = rng.normal(size=(5, 3)).astype(dtype), rng.normal(size=(3, 4)).astype(dtype), np.array([0, -1, 0, 2])
    ways, _ = compiled(_mixed, x, w, k)
    one = [np.dtype(dtype).type(1)]
    want = ways.run([x, w, k, *one])
    arranged = [INPUT_LAYOUTS[layout](a) for a in (x, w, k)]
    before = [a.copy() for a in arranged]
    if layout != "memory-mapped":
        for _ in range(CALLS):
            for a, b in zip(ways.run([*arranged, *one]), want, strict=True):
                assert_close(a, b, layout, 1e-12)
    for _ in range(CALLS):
        value, grads = grad(_mixed, *arranged)
        for a, b in zip([value, *grads], want, strict=True):
            assert_close(a, b, layout, 1e-5 if dtype == "float32" else 1e-12)
    assert all(np.array_equal(a, b) for a, b in zip(arranged, before, strict=True))


@pytest.mark.parametrize("bad", [
    (np.ones(4), 1.0), (np.ones(3, np.float32), 1.0), (np.ones((3, 1)), 1.0), (np.ones(3), 1), (np.ones(3),),
    ([1.0, 2, 3], 1.0), (np.ones(3), np.float64(1)), (np.ones(3), 1.0, 1.0), (1.0, 1.0), (None, 1.0), (),
])  # fmt: skip
def test_what_does_not_fit_is_refused(bad: tuple[Any, ...]) -> None:
    ways, _ = compiled(lambda x, a: np.sum(x) * a, np.ones(3), 2.0)
    assert ways.program(*bad, np.float64(1)) is Refusal.MISFIT
    assert ways.run([np.ones(3), 2.0, np.float64(1)])[0] == 6


def test_an_index_out_of_bounds_is_refused() -> None:
    ways, seeds = compiled(lambda x, k: x[k] * 2, np.arange(5.0), np.array([0, 1]))
    for bad in ([0, 5], [-6, 0], [0, 2**40]):
        assert ways.program(np.arange(5.0), np.array(bad), *seeds) is Refusal.OUT_OF_BOUNDS
        assert agree(ways, [np.arange(5.0), np.array([-5, 4]), *seeds])
        with pytest.raises(IndexError, match="out of bounds"):
            grad(lambda x, k: np.sum(x[k]), np.arange(5.0), np.array(bad))


def test_an_equal_descriptor_will_do() -> None:
    """What has been swapped twice has a descriptor of its own."""
    x = np.arange(3.0)
    other = x.view(x.dtype.newbyteorder().newbyteorder())
    assert other.dtype == x.dtype and other.dtype is not x.dtype
    for first, second in ((x, other), (other, x)):
        ways, seeds = compiled(lambda x: x * 2, first)
        for _ in range(CALLS):
            assert np.array_equal(ways.run([second, *seeds])[0], 2 * x)


# ----------------------------------------------------------------------------------- decisions that differ


def _decide(x: Any, bound: Any) -> Any:
    """Three decisions, the later ones sooner to be checked than the first."""
    y = x * np.cosh(bound)  # a kernel of numbers, before that of arrays
    if np.sum(np.sin(x) ** 2) > bound:
        y = y + 1
    if x[0] > bound:
        y = y * 3
    if bound > 0:
        y = y - x
    return y


def test_the_first_decision_that_differs_is_named() -> None:
    """Each of the eight ways through it against the program of each other."""
    calls = [(np.array([a, b]), c) for a in (-1.5, 1.5) for b in (0.0, 1.0) for c in (-2.0, -0.5, 0.5, 1.9)]
    numbers = set()
    for first in calls[::3]:
        ways, seeds = compiled(_decide, *first)
        for args in calls * CALLS:
            refusal = ways.program(*args, *seeds)
            if agree(ways, [*args, *seeds]):
                assert not isinstance(refusal, Refusal)
            else:
                numbers.add(refusal.number)
        assert len(numbers) >= 2, "too few ways to differ"


def test_guards_are_numbered_in_the_order_of_the_function() -> None:
    def f(x: Any, k: Any) -> Any:
        if x[k[0]] > 0 and x[k[1]] > 0:
            return np.sum(x[k]) if np.all(x < 3) else x[0]
        return x[1]

    ways, seeds = compiled(f, np.ones(3), np.array([0, 1]))
    numbers = [op.number for op in ways.gradient.ops if isinstance(op, Guard)]
    assert numbers == [0, 1, 2]
    assert [op.number for op in ways.lowered.ops if isinstance(op, Guard)] == numbers
    for _ in range(CALLS):
        for x, number in (([1.0, -1, 9], 1), ([-1.0, -1, 9], 0), ([1.0, 1, 9], 2)):
            refusal = ways.program(np.array(x), np.array([0, 1]), *seeds)
            assert (refusal.number, refusal.value) == (number, False)


def test_decisions_of_rules_have_no_number() -> None:
    """What a rule asks about its arguments, between two decisions of the function."""
    @yota_py.primitive
    def halved(x: Any) -> Any:
        return x / 2

    @yota_py.rrule(halved)
    def _rule(x: Any) -> Any:
        return (np.divide(x, 2), lambda dy: (dy / 2,)) if x > 0 else (x * 0.5, lambda dy: (dy * 0.5,))

    def f(x: Any) -> Any:
        y = x if x < 9 else 2 * x
        z = halved(y)
        return z if z < 2 else 3 * z

    ways, seeds = compiled(f, 1.0)
    assert [op.number for op in ways.lowered.ops if isinstance(op, Guard)] == [0, -1, 1]
    for x, number in ((10.0, 0), (-1.0, -1), (5.0, 1)):
        for _ in range(CALLS):
            refusal = ways.program(*ways.fit([x, *seeds]))
            assert refusal.number == number and refusal is not Refusal.MISFIT
            assert agree(ways, ways.fit([abs(x) / 11, *seeds]))


@pytest.mark.parametrize("value", [True, 3, 2.5, np.bool_(False), np.int32(-7), np.int64(2**40), np.float32(0.1),
                                   np.float64(-0.0)])  # fmt: skip
def test_the_value_of_a_decision_keeps_its_type(value: Any) -> None:
    other = type(value)(1) if not value else type(value)(0)
    test = float if isinstance(value, float | np.floating) else int
    tape = Tape("f")
    x = tape.append(Input("x", typeof(np.ones(3))))
    box = tape.append(Input("v", typeof(np.array([value]))))
    v = tape.append(Call(operator.getitem, (box, 0), {}, typeof(value)))
    tape.append(Guard(v, test(other), test, typeof(test(other)), number=7))
    tape.append(Guard(v, other, bool, typeof(True), number=8))
    tape.leaves = tape.results = [x]
    program = compile_tape(verify(tape), [typeof(np.ones(3))], flatten([0])[1])
    for _ in range(CALLS):
        refusal = program(np.ones(3), np.array([value]))
        assert (refusal.number, refusal.value, type(refusal.value)) == (7, value, type(value))
        assert refusal.value != other and np.array_equal(program(np.ones(3), np.array([other]))[0], np.ones(3))


def test_a_decision_before_an_index_counts_more() -> None:
    """Both in either order: behind a branch that is not taken, nothing is out of bounds."""
    def inside(x: Any, k: Any) -> Any:
        y = np.sin(x[:2])
        return y * x[k] if k[0] < 5 else y

    def outside(x: Any, k: Any) -> Any:
        y = np.sin(x[:2]) * x[k]
        return y * 2 if np.sum(y) < 99 else y

    def stepwise(x: Any, k: Any) -> Any:
        y = np.sort(x)[:2]
        return y * x[k] if np.sum(y) < 99 else y

    x, good, bad = np.arange(5.0), np.array([0, 1]), np.array([7, 1])
    for f, huge, want in ((inside, x, 0), (outside, x, -1), (stepwise, x, -1), (stepwise, 100 + x, 0)):
        ways, seeds = compiled(f, x, good)
        for _ in range(CALLS):
            refusal = ways.program(huge, bad, *seeds)
            assert refusal.number == want and (want == 0 or refusal is Refusal.OUT_OF_BOUNDS)
            assert agree(ways, [x, good, *seeds])


def test_a_decision_before_a_python_step() -> None:
    """The step is not called on a path that is not meant for it."""
    seen: list[float] = []

    @yota_py.primitive
    def root(x: Any) -> Any:
        seen.append(float(x))
        return math.sqrt(x)

    @yota_py.rrule(root)
    def _rule(x: Any) -> Any:
        return root(x), lambda dy: (dy / (2 * root(x)),)

    def f(x: Any, a: Any) -> Any:
        y = root(np.sum(x)) if np.sum(x) > 0 else -np.sum(x)
        return y * 2 if a * y < 3 else y

    ways, seeds = compiled(f, np.ones(3), 0.5)
    seen.clear()
    for _ in range(CALLS):
        assert ways.program(*ways.fit([-np.ones(3), 0.5, *seeds])).number == 0 and not seen
    for _ in range(CALLS):
        assert ways.program(*ways.fit([np.ones(3), 5.0, *seeds])).number == 1 and seen
        assert agree(ways, ways.fit([np.full(3, 2.0), 0.25, *seeds]))


# ------------------------------------------------------------------------------- Python steps between kernels


@yota_py.primitive
def twisted(x: Any) -> Any:
    """A user's primitive, which no kernel covers."""
    return np.asarray(x) ** 3 - 1.0


@yota_py.rrule(twisted)
def _twisted_rule(x: Any) -> Any:
    return twisted(x), lambda dy: (3 * dy * x * x,)


STEPS: dict[str, Callable[[Any], Any]] = {
    "svd": lambda x: np.sum(np.linalg.svd(np.sin(x) + np.eye(4)[: x.shape[0]], compute_uv=False) ** 2 * 0.5),
    "user primitive": lambda x: np.sum(np.tanh(twisted(np.sin(x)) * 2)) + np.sum(twisted(x[1:])),
    "first and last": lambda x: np.sort(np.cumsum(np.sort(x, 1), 0), 1),
    "solve": lambda x: np.sum(np.linalg.solve(x @ x.T + 3 * np.eye(x.shape[0]), np.cos(x))),
    "complex": lambda x: np.sum(np.abs(np.exp(1j * x) * (x + 2j)) ** 2),
    "view of a step": lambda x: np.sum(np.sort(x, 1)[::-1, 1:].T * 2) + np.sum(np.sort(x, 1)),
    "step of a view": lambda x: np.sum(np.sort(x.T[::-1], 0) * np.arange(3.0)),
    "small integers": lambda x: np.sum(x * np.arange(4, dtype=np.int8)) + np.sum((x > 0).astype(np.uint8) * x),
    "half": lambda x: np.sum(x.astype(np.float16) * x),
}


@pytest.mark.parametrize("name", STEPS)
def test_python_steps(name: str) -> None:
    rng = np.random.default_rng(8)
    ways = agrees(STEPS[name], *((rng.normal(size=(3, 4)),) for _ in range(3)), rtol=1e-2 if name == "half" else 1e-9)
    assert ways.program.python_steps, "nothing is left for Python"


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_end_to_end(dtype: str) -> None:
    rng = np.random.default_rng(9)

    def f(z: Any, w: Any, c: Any) -> Any:
        y = np.exp(z * 1j) @ w + np.conj(z[:, :1]) * c
        return y, np.sum(np.abs(y[1:]) ** 2), np.real(z).T

    def draw() -> tuple[Any, ...]:
        z, w = (rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)) for _ in range(2))
        return z.astype(dtype), w.astype(dtype), complex(rng.normal(), 0.5)

    ways = agrees(f, draw(), draw(), draw(), rtol=1e-9 if dtype == "complex128" else 1e-3)
    results = ways.run(ways.fit([*draw(), *seeds_for(f, draw())]))
    assert [x.dtype for x in arrays_of(results)[:2]] == [dtype, np.empty(0, dtype).real.dtype]


# ----------------------------------------------------------------------------------------- kinds of result

RESULTS: dict[str, Callable[..., Any]] = {
    "a view": lambda x, y: (x[1:, ::-1], x.T, np.sum(y)),
    "an argument": lambda x, y: (x, y, x),
    "duplicates": lambda x, y: (np.sin(x), np.sin(x), np.sum(y), np.sum(y)),
    "a view and its base": lambda x, y: (np.sin(x), np.sin(x).T, np.sin(x)[0]),
    "overlapping views": lambda x, y: (np.exp(x)[1:], np.exp(x)[:-1], np.exp(x)[::-1] * y),
    "elements": lambda x, y: (x[0, 0], np.sum(x), y[1] * 2, np.exp(x)[1, 2]),
    "broadcast": lambda x, y: (np.broadcast_to(y, (2, 3)) + 0 * x, np.broadcast_to(y * 2, (4, 3))),
    "empty": lambda x, y: (x[:0] * 2, np.sum(x[:, :0]) + np.sum(y), np.concatenate([x[:0], y[None]])),
    "0-d arrays": lambda x, y: (np.reshape(np.sum(x), ()), np.asarray(np.max(y))),
    "zero gradients": lambda x, y: (np.sum(np.floor(x)) + np.sum(x * 0), np.sum(np.sign(y) * y)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_kinds_of_result(name: str) -> None:
    rng = np.random.default_rng(3)
    calls = [(rng.normal(size=(2, 3)), rng.normal(size=3)) for _ in range(3)]
    ways = agrees(RESULTS[name], *calls)
    seeds = list(seeds_for(RESULTS[name], calls[0]))
    inputs = ways.fit([*calls[0], *seeds])
    arrays = [*arrays_of(ways.run(inputs)), *arrays_of(ways.run(inputs)), *inputs]
    for i, a in enumerate(arrays[: -len(inputs)]):
        assert a.flags.owndata and a.flags.writeable and not any(np.shares_memory(a, b) for b in arrays[i + 1 :])


def test_constant_results_are_copies() -> None:
    table = np.arange(3.0)

    def f(x: Any) -> Any:
        return np.sum(x), table, 7, "name", None, 2.5, np.int64(3)

    for _ in range(CALLS):
        value, _ = yota_py.value_and_grad(lambda x: (f(x)[0], f(x)[1:]), has_aux=True)(np.ones(3))
        total, aux = value
        assert total == 3 and aux[1:] == (7, "name", None, 2.5, 3)
        assert np.array_equal(aux[0], [0, 1, 2])
        aux[0][:] = 9
        assert np.array_equal(table, [0, 1, 2]), "the caller's array has been handed out"


def test_numbers_of_every_kind() -> None:
    def f(a: Any, b: Any, c: Any, d: Any) -> Any:
        return a * b + np.sum(c) * d, b * 2, a * 3

    args = (2.0, np.float32(3), np.array(0.5), np.float64(1.5))
    agrees(f, *moved(*args), rtol=1e-6)
    for more in [*moved(*args), args]:
        grads = grad(lambda *xs: f(*xs)[0], *more)[1]
        assert [type(x) for x in grads] == [float, np.float32, np.ndarray, np.float64]


class Box:
    """A container of the user's own, which may refuse to be filled."""

    refuses = False

    def __init__(self, items: Any) -> None:
        if Box.refuses:
            Box.seen = [weakref.ref(x) for x in items if isinstance(x, np.ndarray)]
            raise ValueError("this box stays empty")
        self.items = items


optree.register_pytree_node(Box, lambda box: (box.items, None), lambda _, items: Box(items), namespace=NAMESPACE)

CONTAINERS: dict[str, Callable[..., Any]] = {
    "tuples": lambda a, b, c: (a, (b, (), (c,))), "lists": lambda a, b, c: [[], [a, [b]], c], "leaf": lambda a, b, c: a,
    "dicts": lambda a, b, c: {"one": a, 2: (b, {"c": c})}, "box": lambda a, b, c: (Box((a, b)), c),
    "none": lambda a, b, c: (None, a, "text", 7, b, np.float32(2), c), "nothing": lambda a, b, c: ((), a),
}  # fmt: skip


def _flat(tree: Any) -> list[Any]:
    return optree.tree_leaves(tree, none_is_leaf=True, namespace=NAMESPACE)


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_of_results(name: str) -> None:
    """Fresh objects that nobody else holds, of the right kinds, in the right places."""
    def f(x: Any, y: Any) -> Any:
        return CONTAINERS[name](np.sum(x) * 2, x + y, y * y[0])

    def draw(i: int) -> tuple[Any, Any]:
        return np.arange(3.0) + i, np.arange(3.0).astype(np.float32) - i

    source = record_call(f, draw(0), {})
    types = [source.tape[r].type if isinstance(r, Variable) else typeof(r) for r in source.tape.results]
    assert source.tape.out_spec is not None
    program = compile_tape(optimise(lower(source).tape), types, source.tape.out_spec)
    for i in range(CALLS):
        have, want = program(*draw(i)), f(*draw(i))
        assert optree.tree_structure(have, none_is_leaf=True, namespace=NAMESPACE) == source.tape.out_spec
        leaves = _flat(have)
        for a, b in zip(leaves, _flat(want), strict=True):
            assert type(a) is type(b) and np.array_equal(a, b)
        arrays = arrays_of(leaves)
        del a, b, have, leaves
        assert all(sys.getrefcount(arrays[k]) == 2 for k in range(len(arrays)))


def test_an_error_on_the_way_leaves_nothing_behind() -> None:
    """In a Python step, or where the results are put into their containers."""
    @yota_py.primitive
    def picky(x: Any) -> Any:
        if x[0] > 1:
            raise ValueError("too large")
        return x * 2

    @yota_py.rrule(picky)
    def _rule(x: Any) -> Any:
        return picky(x), lambda dy: (dy * 2,)

    source = record_call(lambda x: (Box((picky(x), np.sum(x))), x * 3), (np.ones(3),), {})
    types = [source.tape[r].type for r in source.tape.results]
    assert source.tape.out_spec is not None
    program = compile_tape(optimise(lower(source).tape), types, source.tape.out_spec)
    x, sizes = np.zeros(3), set()
    for i in range(CALLS):
        with pytest.raises(ValueError, match="too large"):
            program(x + 5)
        Box.refuses = True
        with pytest.raises(ValueError, match="stays empty"):
            program(x)
        Box.refuses = False
        gc.collect()
        assert Box.seen and all(reference() is None for reference in Box.seen)
        box, triple = program(x + i / 3)
        assert np.array_equal(box.items[0], 2 * (x + i / 3)) and np.array_equal(triple, i + x)
        sizes.add(program.nbytes)
    assert len(sizes) == 1, "another frame has been made"
    assert sys.getrefcount(x) == 2


def test_a_step_may_call_its_own_program() -> None:
    """Each call in flight has a frame of its own."""
    @yota_py.primitive
    def nested(x: Any) -> Any:
        return program(x - 1)[0] if ready and x[0] > 0 else x * 0.5

    @yota_py.rrule(nested)
    def _rule(x: Any) -> Any:
        return nested(x), lambda dy: (dy,)

    ready = False
    source = record_call(lambda x: (np.sin(x) + nested(x * 1.0) * x, np.cos(x)), (np.ones(2),), {})
    types = [source.tape[r].type for r in source.tape.results]
    assert source.tape.out_spec is not None
    program = compile_tape(optimise(lower(source).tape), types, source.tape.out_spec)
    ready = True

    def plain(x: np.ndarray) -> np.ndarray:
        return np.sin(x) + (plain(x - 1) if x[0] > 0 else x * 0.5) * x

    for start in (0.5, 2.5, 4.0):
        value, cosine = program(np.full(2, start))
        assert np.allclose(value, plain(np.full(2, start)), rtol=1e-14) and np.allclose(cosine, np.cos(start))


# ------------------------------------------------------------------------------- special values, large arrays


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.filterwarnings("ignore")
def test_special_values_pass_through(dtype: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return (
            np.maximum(x, y), np.minimum(x, y), np.where(x > y, x, y), np.abs(x), -x, x + y, x / y, np.sqrt(x),
            np.max(x), np.min(y), np.sum(x[3:]), np.isnan(x) * y, np.sign(x) * 1.0, x * 0, np.clip(x, -1, 1), np.log(x),
        )  # fmt: skip

    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.0], dtype)
    x, y = np.repeat(special, special.size), np.tile(special, special.size)
    ways, seeds = compiled(f, x, y)
    inputs = ways.fit([x, y, *seeds])
    assert agree(ways, inputs, 1e-6)
    for a, b in zip(ways.run(inputs)[2:7], ways.gradient.play_flat(inputs)[2:7], strict=True):
        assert np.array_equal(np.signbit(a) | np.isnan(a), np.signbit(b) | np.isnan(b)), "a zero of the wrong sign"


def test_large_arrays_and_threads() -> None:
    """Above the size where the interpreter lock is released; several threads share one program."""
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * np.cumsum(x)) / x.size

    ways, _ = compiled(f, np.ones(20_000))
    failures: list[str] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).normal(size=20_000)
        want = ways.gradient.play_flat([x, np.float64(1)])
        for _ in range(20):
            have = ways.run([x, np.float64(1)])
            if not all(np.allclose(a, b, rtol=1e-9) for a, b in zip(have, want, strict=True)):
                failures.append(f"thread {seed}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.booleans(), st.integers(0, 3))
def test_products(m: int, k: int, n: int, ta: bool, tb: bool, kind: int) -> None:
    rng = np.random.default_rng(m * k * n)
    a = rng.normal(size=(k, m) if ta else (m, k))
    b = rng.normal(size=(n, k) if tb else (k, n))

    def f(a: Any, b: Any) -> Any:
        a, b = (a.T if ta else a), (b.T if tb else b)
        if kind == 1:
            return a @ b[:, 0], a[0] @ b
        if kind == 2:
            return a[::-1] @ b[:, ::-1], a[:, ::2] @ b[::2]
        return (a @ b, a[-1:] @ b, np.dot(a, b)) if kind else (np.sin(a) @ np.cos(b),)

    agrees(f, *moved(a, b))


def test_captured_arrays_are_read_anew() -> None:
    table = np.arange(4.0)

    def f(x: Any) -> Any:
        return np.sum(table * x * x)

    for i in range(4):
        table[:] = i
        assert np.array_equal(grad(f, np.ones(4))[1][0], np.full(4, 2.0 * i))
    ways, seeds = compiled(f, np.ones(4))
    assert len(ways.captured) == 1 and ways.captured[0] is table
    table[:] = 9
    assert np.array_equal(agree(ways, [np.ones(4), *seeds])[1], np.full(4, 18.0) * seeds[0])


def _with_number(x: Any, a: Any) -> Any:
    """A number wherever passes would like to know it."""
    y = x**a + a * x + np.broadcast_to(np.sin(a) + a, np.shape(x))
    return np.sum(np.where(x > a, y, -y) / 1) * 1.0, a * 2, x - a


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("numbers", [(1.0, 2.0, 0.2), (0.0, 3.5, -1.0), *(
    tuple(map(kind, (2, 1, 0.5))) for kind in (np.float64, np.float32, np.float16, complex, np.complex64))
])  # fmt: skip
def test_captured_numbers_are_inputs(numbers: tuple[Any, ...], dtype: str) -> None:
    x = np.array([0.3, 1.5, 2.5], dtype)
    if isinstance(numbers[0], complex | np.complexfloating):
        f: Any = lambda x, a: (np.sum(np.abs(x * a) ** 2), a * 2, x - a)  # noqa: E731
    else:
        f = _with_number
    ways, seeds = compiled(lambda x: f(x, x._trace.capture(numbers[0])) if is_traced(x) else f(x, numbers[0]), x)
    for number in numbers * CALLS:
        want = differentiate(record_call(lambda x: f(x, number), (x,), {}), tuple(seeds))  # noqa: B023
        have = ways.program(x, *ways.fit([x, *seeds])[1:], number)
        for result, value in zip(have, want.tape.results, strict=True):
            assert_close(result, want[value] if isinstance(value, Variable) else value, f"{number!r}", 1e-5)
    for other in (1, np.float64(1) if type(numbers[0]) is not np.float64 else 1.0, np.ones(()), np.ones(3), None):
        assert ways.program(x, *ways.fit([x, *seeds])[1:], other) is Refusal.MISFIT


def test_captured_values_are_checked_even_if_nobody_reads_them() -> None:
    table, idle = np.arange(3.0), np.ones((2, 2), np.int8)

    def f(x: Any) -> Any:
        x._trace.capture(0.5)
        return np.sum(table * x) if idle.ndim == 2 else x

    ways = Ways.of(f, (np.ones(3),))
    good = ways.captured
    assert len(good) == 3
    for _ in range(CALLS):
        assert ways.program(np.ones(3), *good)[0] == 3
        for i, value in enumerate(good):
            wrong = np.float64(value) if isinstance(value, float) else value[1:]
            assert ways.program(np.ones(3), *good[:i], wrong, *good[i + 1 :]) is Refusal.MISFIT
        assert ways.program(np.ones(3)) is ways.program(np.ones(3), *good[:2]) is Refusal.MISFIT


@pytest.mark.parametrize("step", [np.sin, np.sort])
def test_a_program_keeps_no_values(step: Any) -> None:
    """Neither inputs nor captured arrays live as long as it does; not even after calls."""
    arrays = [np.arange(4.0), np.arange(4.0) + 1]

    def f(x: Any) -> Any:
        return np.sum(step(x) * arrays[1])

    program = Ways.of(f, (arrays[0],)).program
    for _ in range(CALLS):
        assert len(program(arrays[0], *arrays)) == 2  # the whole list is captured
    alive = [weakref.ref(array) for array in arrays]
    arrays.clear()
    gc.collect()
    assert all(reference() is None for reference in alive)


def test_what_a_program_keeps_and_counts() -> None:
    """Bytes of constants and frames; calls that gave results, with and without Python steps."""
    table = np.arange(1000.0)
    for step in (np.sin, np.sort):
        ways = Ways.of(lambda x: np.sum(step(x)[np.arange(3)]) if x[0] < 3 else x[1], (table,))  # noqa: B023
        program = ways.program
        assert program.calls == 0
        before = program.nbytes
        for i in range(1, CALLS + 1):
            agree(ways, [table])
            assert program.calls == i and program.nbytes >= before
            assert isinstance(program(table + 5), Refusal) and isinstance(program(1.0), Refusal)
            assert program.calls == i
        assert before < 4000 and program.nbytes >= (8000 if step is np.sort else 0) and program.nbytes < 40_000
