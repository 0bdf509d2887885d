"""Lists of traced numbers for arrays: every function with a rule, wherever the function stands, and what is shown."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from caching import function
from fresh import rounds
from numpy.testing import assert_allclose
from sets import SEQUENCES
from yota_py.rules.lists import takes

import yota_py
from yota_py import grad, gradient, jit
from yota_py.base.types import is_inexact
from yota_py.registry.cases import Sample
from yota_py.registry.patches import patched
from yota_py.registry.registry import primitives

DISPATCHER = type(np.mean)
PLACES = [("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft)]


def shown() -> dict[str, Any]:
    """The functions that take arrays, under the names by which users call them."""
    found = {}
    for place, module in PLACES:
        for name, fn in vars(module).items():
            if isinstance(fn, np.ufunc | DISPATCHER) and (module, name) not in patched:  # type: ignore[arg-type]
                found.setdefault(id(fn), (f"{place}.{name}", fn))
    return dict(found.values())


NAMES = {id(fn): name for name, fn in shown().items()}
ENTRIES = {NAMES[id(entry.fn)]: entry for entry in primitives()
           if id(entry.fn) in NAMES and entry.cases and entry.rule is not None}  # fmt: skip


def listed(x: Any) -> Any:
    """An array as nested lists of its elements, also if it is traced."""
    return [listed(part) for part in x] if np.ndim(x) else x


def is_of_float64(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype in (np.float64, np.complex128) and 0 < x.size < 20 and x.ndim > 0


def arrays_in(name: str, fn: Any, args: tuple[Any, ...]) -> list[int]:
    """Which arguments a user may write as lists."""
    known = takes(fn) if isinstance(fn, DISPATCHER) else None
    return [i for i, x in enumerate(args) if is_of_float64(x) and (
        i < fn.nin if known is None else (i < len(known.by_position) and known.by_position[i] in known.arrays))]


def total(y: Any) -> Any:
    """A number that depends on all of a result."""
    if isinstance(y, tuple | list):
        return sum(total(part) for part in y)
    return np.sum(np.real(y) * np.cos(np.arange(np.size(y))).reshape(np.shape(y)) + np.imag(y) ** 2)


def raised(f: Callable[..., Any], *args: Any) -> str | None:
    """The exception that a call raises."""
    try:
        f(*args)
    except Exception as error:  # any: they are compared
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_every_function_takes_lists_where_numpy_does(name: str) -> None:
    entry = ENTRIES[name]
    tried = 0
    for cases in entry.cases:
        for drawn in cases(Sample(1)):
            at = arrays_in(name, entry.fn, drawn.args)
            for chosen in ([at] if at else []) + [[i] for i in at if at != [i]]:
                args = [f"listed(a[{i}])" if i in chosen else f"a[{i}]" for i in range(len(drawn.args))]
                source = f"def f(*a): return total({name}({', '.join([*args, '**options'])}))"
                f = function(source, listed=listed, total=total, options=drawn.kwargs)
                if (error := raised(f, *drawn.args)) is not None:
                    assert [raised(grad, f, *drawn.args), raised(jit(f), *drawn.args)] == [error, error]
                    continue
                of_arrays = function(source, listed=lambda x: x, total=total, options=drawn.kwargs)
                wanted, slopes = grad(of_arrays, *drawn.args)
                value, slopes_of_lists = grad(f, *drawn.args)
                assert_allclose(value, wanted, rtol=1e-12)
                for i, (have, want) in enumerate(zip(slopes_of_lists, slopes, strict=True)):
                    if is_inexact(drawn.args[i]):
                        assert_allclose(have, want, rtol=1e-9, atol=1e-12)
            tried += bool(at)
            if tried == (3 if SEQUENCES else 1):
                return


def test_most_functions_are_tried() -> None:
    with_arrays = [name for name, entry in ENTRIES.items() if any(
        arrays_in(name, entry.fn, drawn.args) for cases in entry.cases for drawn in cases(Sample(1)))]  # fmt: skip
    assert len(with_arrays) > 100


X = np.array([0.9, 1.2, 1.7])
CALLS = [
    "np.sqrt([x[0], x[1]])", "np.add([x[0], 1.0], [1, x[2]])", "np.maximum([[x[0]], [x[1]]], (1.0, x[2]))",
    "np.vstack([[x[0], x[1]], [x[1], 2.0]])", "np.hstack([[x[0]], [x[1]]])", "np.dstack([[x[0], 1.0], [x[1], x[2]]])",
    "np.stack([[x[0], 1.0], (x[1], x[2])], axis=1)", "np.column_stack([[x[0], 1.0], (x[1], x[2])])",
    "np.concatenate([[1.0], x])", "np.concatenate([[x[0]], [x[1], 2.0]])", "np.append([0.0], x)",
    "np.append([x[0]], [x[1]])", "np.block([[x[0], x[1]], [x[1], 2.0]])",
    "np.block([[x[:1], x[1:]], [x[1:], np.ones(1)]])", "np.maximum.reduce([x[0], x[1]])",
    "np.add.reduce([x[:2], [x[2], 1.0]], axis=1)", "np.add.accumulate([x[0], x[1]])",
    "np.multiply.reduceat([x[0], x[1], x[2]], [0, 1])", "np.multiply.outer([x[0], 2.0], [x[1], x[2]])",
    "np.outer([x[0], 2.0], [x[1], x[2]])", "np.kron([x[0], 2.0], [x[1], x[2]])", "np.dot([x[0], 2.0], [x[1], x[2]])",
    "np.vdot([x[0], 2.0], [x[1], x[2]])", "np.inner([x[0], 2.0], [x[1], x[2]])",
    "np.tensordot([[x[0], 2.0]], [[x[1], x[2]]], axes=([1], [1]))", "np.matmul([[x[0], 2.0]], [x[1], x[2]])",
    "np.clip([x[0], x[1]], 0.0, [1.0, x[2]])", "np.where([True, False], [x[0], 1.0], 0.0)",
    "np.interp([x[0]], [0.0, 2.0], [x[1], x[2]])", "np.cross([x[0], x[1], 1.0], [1.0, x[1], x[0]])",
    "np.linalg.det([[x[0], 1.0], [x[1], 3.0]])", "np.linalg.norm([x[0], x[1]])",
    "np.linalg.multi_dot([[[x[0], 1.0]], [[x[1]], [x[2]]]])", "np.reshape([x[0], x[1]], (2, 1))",
    "np.transpose([[x[0], x[1]]])", "np.broadcast_to([x[0], x[1]], (3, 2))", "np.copy([x[0], x[1]])",
    "np.nan_to_num([x[0], x[1]])", "np.atleast_2d([x[0], x[1]])", "np.meshgrid([x[0], x[1]], x)[0]",
    "np.atleast_1d([x[0], x[1]], x)[0]", "np.einsum('i,i', [x[0], 2.0], [x[1], x[2]])",
    "np.einsum(x, [0], x, [0], [])", "np.einsum(x, [0], [x[0], 2.0], [1])", "np.einsum(x, [0], x, [1], [1, 0])",
    "np.einsum(np.outer(x, x), [..., 0], [...])", "np.sort([x[1], x[0]])",
    "np.sqrt([x[0], x[1]], where=[x[0] > 0, x[1] > 1.4], out=np.zeros(2))",
    "sum(map(np.exp, [[x[0], x[1]], [1.0, x[2]]]))", "np.median([x[0], x[1], x[2]])",
    "np.array_split([x[0], x[1], x[2]], 2)[0]", "np.delete([x[0], x[1], x[2]], 1)",
    "np.trace([[x[0], 1.0], [2.0, x[1]]])", "np.diag([x[0], x[1]])", "(np\n.sqrt([x[0], x[1]]))",
    "np.sqrt([x[0], x[1]]).sum()",
    "np.add.outer([x[0], 1.0], x).sum(axis=0).reshape(3, 1)", "np.modf([x[0], x[1]])[0]",
    "np.logaddexp([x[0], 1.0], x[2])", "np.linalg.eigvalsh([[x[0], x[1]], [x[1], x[2]]])", "np.prod([x[0], x[1]])",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_calls_as_users_write_them(call: str) -> None:
    f = function(f"def f(x): y = {call}; return np.sum(y**2 * (1.0 + np.arange(np.size(y)).reshape(np.shape(y))))")
    rounds(f, X, 1.1 * X, X + 0.3)


JOINED = [
    "np.r_[x, 1.0, x[0]]", "np.r_[x[0]:3:4j]", "np.r_[0.5:x[2]:0.26, x]", "np.r_['0,2', x, [1, 2, x[0]]]",
    "np.r_['1,2,0', x, x * x]", "np.r_['-1', x, [x[0]]]", "np.c_[x, x * x]", "np.c_[x[0], 1.0]", "np.r_[1, 2, x[1]]",
    "np.c_[np.outer(x, x), x]", "np.mgrid[0:x[2]:3j, 0:2]", "np.ogrid[0:x[2]:3j, 0:2][0]", "np.mgrid[x[0]:3:0.5]",
    "np.mgrid[x[0]:3:5j]", "np.outer(x, x)[np.ix_([0, 1], [1, 2])]", "x[np.s_[1:]]", "np.r_[x[0]:2.6]",
]  # fmt: skip


@pytest.mark.parametrize("call", JOINED)
def test_what_stands_in_brackets(call: str) -> None:
    f = function(f"def f(x): y = {call}; return np.sum(y**2 * (1.0 + np.arange(np.size(y)).reshape(np.shape(y))))")
    rounds(f, X, 1.05 * X, X + 0.3)


@pytest.mark.parametrize("compile_", ["auto", "always"])
def test_in_jit_and_in_nested_gradients(compile_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yota_py.config, "compile", compile_)

    def f(a: float, b: float) -> Any:
        return np.sum(np.sqrt([a, b])) * np.maximum.reduce([a * a, b]) + np.linalg.det(np.vstack([[a, b], [b, a]]))

    step = jit(lambda a, b: grad(f, a, b))
    first = gradient(f)
    for a, b in [(1.0, 2.0), (3.0, 2.0), (1.5, 2.5), (2.0, 3.0)]:
        h = 1e-5
        da = (f(a + h, b) - f(a - h, b)) / (2 * h)
        value, (have, _) = step(a, b)
        assert_allclose([value, have], [f(a, b), da], rtol=1e-8)
        assert_allclose(grad(f, a, b)[1][0], da, rtol=1e-8)
        dda = (first(a + h, b) - first(a - h, b)) / (2 * h)
        assert_allclose(grad(lambda a, b: first(a, b), a, b)[1][0], dda, rtol=1e-7)


def test_names_imported_from_numpy() -> None:
    source = """
from numpy import sqrt, vstack
from numpy.linalg import norm
def f(x): return np.sum(sqrt([x[0], x[1]])) + np.sum(vstack([[x[0], x[1]], x[1:]]) ** 2) + norm([x[0], x[2]])
"""
    f = function(source)
    rounds(f, X, 1.1 * X, X + 0.3)
    assert f.__globals__["sqrt"] is np.sqrt

    def inside(x: Any) -> Any:
        from numpy import exp, maximum

        return np.sum(exp([x[0], x[1]])) * maximum.reduce([x[0], x[2]])

    rounds(inside, X, 1.1 * X, X + 0.3)


def test_functions_stay_themselves_where_they_are_not_called() -> None:
    kept: dict[str, Any] = {}
    sqrt, add, float64, mean = np.sqrt, np.add, np.float64, np.mean

    def f(x: float, default: Any = np.sqrt) -> Any:
        assert np.sqrt is sqrt and np.sqrt is np.sqrt and np.mean is mean
        assert np.float64 is float64 and isinstance(np.float64(1.0), np.float64) and issubclass(np.float64, np.floating)
        assert isinstance(np.sqrt, np.ufunc) and np.sqrt.__name__ == "sqrt" and np.add.identity == 0
        kept.update(sqrt=np.sqrt, mean=np.mean, float64=np.float64)

        @functools.wraps(np.mean)
        def wrapped(*args: Any) -> Any:
            return default(*args)

        kept["wrapped"] = wrapped.__wrapped__  # type: ignore[attr-defined]
        return functools.reduce(np.add, [x, x]) + wrapped(x) + np.sum(np.exp([x, x]))

    for x in (1.0, 2.0, 3.0):
        assert_allclose(grad(f, x)[1][0], 2 + 0.5 / np.sqrt(x) + 2 * np.exp(x))
        assert kept == {"sqrt": sqrt, "mean": mean, "float64": float64, "wrapped": mean}
    assert np.sqrt is sqrt and np.add is add and type(np) is type(functools)


def test_other_threads_meet_the_functions_themselves() -> None:
    seen: list[bool] = []
    sqrt = np.sqrt

    def look() -> None:
        seen.append(np.sqrt is sqrt and np.sqrt([4.0, 9.0]).tolist() == [2.0, 3.0])

    def f(x: float) -> Any:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return np.sum(np.sqrt([x, x]))

    assert grad(f, 4.0)[1] == (0.5,)
    assert seen == [True]


def test_numba_finds_the_functions_themselves() -> None:
    numba = pytest.importorskip("numba")
    source = """
import math
from math import sqrt
from numpy import array, exp
def kernel(n):
    return np.zeros(2)[0] + np.sqrt(n) * math.sin(n) + np.float64(2) + sqrt(2.0) + array([1.0])[0] + exp(0.5)
def f(x): return np.sum(np.sqrt([x, x])) * compiled(2.0) + np.sum(exp([x, 1.0])) + sqrt(x)
"""
    space: dict[str, Any] = {"np": np}
    exec(source, space)
    kernel: Callable[[float], float] = space["kernel"]
    space["compiled"] = numba.njit(kernel)
    with pytest.warns(yota_py.errors.UncachedWarning):
        for x in (1.0, 2.0, 3.0):
            wanted = kernel(2.0) / np.sqrt(x) + np.exp(x) + 0.5 / np.sqrt(x)
            assert_allclose(grad(space["f"], x)[1][0], wanted)
