"""Methods and keywords of ufuncs, drawn at random and compared with NumPy: results, ``out=``, effects, gradients.

``make stress`` takes every ufunc with every method many times; by default there is a sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from caching import function
from numpy.testing import assert_allclose
from sets import SEQUENCES

from yota_py import grad, jit
from yota_py.base.types import is_inexact
from yota_py.errors import YotaError
from yota_py.testing.finite import close, copied, differences

UFUNCS: dict[str, Any] = {u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc) and u.signature is None}
METHODS = ["__call__", "reduce", "accumulate", "reduceat", "outer", "at"]
SAMPLE = [
    "add __call__", "divide __call__", "greater __call__", "isnan __call__", "modf __call__", "exp __call__",
    "divmod __call__", "frexp __call__", "hypot __call__", "bitwise_and __call__", "add reduce", "multiply reduce",
    "maximum reduce", "logaddexp reduce", "logical_and reduce", "bitwise_or reduce", "fmin reduce", "subtract reduce",
    "add accumulate", "multiply accumulate", "maximum accumulate", "divide accumulate", "add reduceat",
    "maximum reduceat", "power outer", "arctan2 outer", "less outer", "add at", "subtract at", "maximum at",
    "multiply at", "negative at", "bitwise_xor at",
]  # fmt: skip
# NumPy's own, where memory is left as it is; what is left there is not compared.
pytestmark = pytest.mark.filterwarnings("ignore:'where' used without 'out'")
SHAPES: list[Any] = [(3,), (2, 3), (3, 2), (2, 2, 2), (1, 3), ()]


@dataclass
class Case:
    """``np.ufunc.method(*operands, *rest, **kwargs, out=outs)``, as the text of functions that a user might write."""

    ufunc: Any
    method: str
    operands: list[Any]
    rest: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    outs: list[Any] = field(default_factory=list)
    positional: bool = False
    own_mask: bool = False  # where= is computed of the first operand

    def text(self) -> str:
        """The call; arrays and indices are global names."""
        operands = [f"a{i}" for i in range(len(self.operands))]
        rest = [f"r{i}" for i in range(len(self.rest))]
        outs = ["None" if x is None else f"o{i}" for i, x in enumerate(self.outs)]
        keys = [f"{key}={value!r}" for key, value in self.kwargs.items() if key not in ("where", "dtype")]
        keys += [f"{key}=k_{key}" for key in self.kwargs if key in ("where", "dtype") and not self.own_mask]
        keys += [f"where={self.mask()}"] * self.own_mask
        name = f"np.{self.ufunc.__name__}" + (f".{self.method}" if self.method != "__call__" else "")
        if self.method == "at":
            return f"{name}({', '.join(outs + rest + operands)})"
        if outs and not (self.positional and self.method == "__call__"):
            keys.append(f"out={outs[0]}" if len(outs) == 1 else f"out=({', '.join(outs)})")
            outs = []
        return f"{name}({', '.join(operands + rest + outs + keys)})"

    def mask(self) -> str:
        """Which elements are computed."""
        return "np.abs(a0) > 0.6" if self.own_mask else "k_where"

    def functions(self, rng: np.random.Generator) -> tuple[Any, Any]:
        """The call, and a number made of its results and outputs."""
        names = [f"a{i}" for i in range(len(self.operands))] + [f"o{i}" for i, _ in enumerate(self.outs)]
        copies = "".join(f"    o{i} = np.array(o{i})\n" for i, x in enumerate(self.outs) if x is not None)
        results = [] if self.method == "at" else ["y"] if self.ufunc.nout == 1 else ["y[0]", "y[1]"]
        if self.is_undefined():
            results = [f"np.where({self.mask()}, {y}, 0)" if not self.outs or self.outs[i] is None else y
                       for i, y in enumerate(results)]
        numbers = results + [f"o{i}" for i, x in enumerate(self.outs) if x is not None]
        source = f"""
def f({", ".join(names)}):
    return {self.text()}

def number(y):
    if y.dtype.kind == "c":
        y = np.real(y) + 0.5 * np.imag(y)
    return np.sum(y * weights[: y.size].reshape(y.shape))

def loss({", ".join(names)}):
{copies}    y = {self.text()}
    return {" + ".join(f"number({y})" for y in numbers)}
"""
        names = {f"r{i}": x for i, x in enumerate(self.rest)} | {f"k_{key}": x for key, x in self.kwargs.items()}
        f = function(source, weights=rng.uniform(0.5, 1.5, 64), **names)
        return f, f.__globals__["loss"]

    def is_undefined(self) -> bool:
        """Whether there are elements that NumPy does not compute."""
        return self.method in ("__call__", "outer") and (self.own_mask or "where" in self.kwargs)

    def clean(self, results: list[Any], operands: list[Any]) -> list[Any]:
        """Results without what NumPy leaves undefined: elements that ``where=`` leaves out, if there is no ``out=``."""
        if not self.is_undefined():
            return results
        mask = np.abs(operands[0]) > 0.6 if self.own_mask else self.kwargs["where"]
        return [np.where(mask, y, 0) if not self.outs or self.outs[i] is None else y for i, y in enumerate(results)]

    def is_wide(self) -> bool:
        """Whether everything is computed in double precision."""
        arrays = [np.asarray(x) for x in (*self.operands, *self.outs) if x is not None]
        return self.kwargs.get("dtype") is not np.float32 and all(x.itemsize >= 8 for x in arrays)

    def __str__(self) -> str:
        shown = [f"{getattr(x, 'dtype', type(x).__name__)}{np.shape(x)}" for x in (*self.operands, *self.outs)]
        return f"{self.text()} {shown} {self.rest} {self.kwargs}"


class Draw:
    """Draws cases."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *choices: Any) -> Any:
        """One of these."""
        return choices[self.rng.integers(len(choices))]

    def array(self, shape: Any, kind: str = "") -> Any:
        """Numbers of a kind, the kind drawn if none is given."""
        kind = kind or self.one("f8", "f8", "f8", "f4", "i8", "?", "c16")
        x = np.asarray(self.rng.uniform(0.25, 1.75, shape))
        if kind == "?":
            return x > 1.0
        if kind == "i8":
            return np.asarray(self.rng.integers(1, 4, shape))
        x = x * self.rng.choice([-1.0, 1.0], shape) if self.one(True, False) else x
        x = np.asarray(x + 0.5j if kind == "c16" else x, kind)
        return np.asfortranarray(x) if self.one(True, False, False) else x

    def maybe(self, **choices: Any) -> dict[str, Any]:
        """Some of the keywords."""
        return {key: self.one(*values) for key, values in choices.items() if self.rng.uniform() < 0.35}

    def case(self, ufunc: Any, method: str) -> Case:
        """A case of a method; NumPy may refuse it."""
        kind = self.one("f8", "f8", "f4", "i8", "?", "")
        return getattr(self, method.strip("_"))(ufunc, kind)  # type: ignore[no-any-return]

    def call(self, ufunc: Any, kind: str) -> Case:
        shape = self.one(*SHAPES)
        operands = [self.array(shape if i == 0 else shape[self.one(0, 0, 1) :], kind) for i in range(ufunc.nin)]
        if ufunc.nin > 1 and self.one(True, False, False):
            operands[1] = self.one(2, 0.5, np.float32(0.5))
        return self.elementwise(ufunc, "__call__", operands, np.broadcast_shapes(*map(np.shape, operands)))

    def outer(self, ufunc: Any, kind: str) -> Case:
        operands = [self.array(self.one((2,), (2, 3), ()), kind) for _ in range(2)]
        shape = operands[0].shape + operands[1].shape
        return self.elementwise(ufunc, "outer", operands, shape)

    def elementwise(self, ufunc: Any, method: str, operands: list[Any], shape: Any) -> Case:
        case = Case(ufunc, method, operands, positional=self.one(True, False))
        case.kwargs = self.maybe(
            dtype=[None, np.float64, np.float32, complex], casting=["same_kind", "unsafe", "no"], order="KCFA",
            subok=[True, False],
        )  # fmt: skip
        larger = self.one(shape, shape, shape, (2, *shape))
        if self.one(True, False):
            case.outs = [self.array(larger, self.one("f8", "f8", "f4", "?", "c16", "i8")) for _ in range(ufunc.nout)]
            if ufunc.nout > 1 and self.one(True, False):
                case.outs[self.one(0, 1)] = None
        if self.one(True, False):
            case.kwargs["where"] = self.one(True, False, self.array(shape, "?"), self.array(larger, "?"))
            case.own_mask = method == "__call__" and self.one(True, False)
        return case

    def reduce(self, ufunc: Any, kind: str) -> Case:
        shape = self.one(*SHAPES, (2, 0), (0, 3))
        case = Case(ufunc, "reduce", [self.array(shape, kind)])
        case.kwargs = self.maybe(
            axis=[None, 0, -1, (0,), (0, 1), (-1, 0), ()], keepdims=[True, False], initial=[None, 0.5, 2, True],
            dtype=[None, np.float64, np.float32, complex, int],
        )  # fmt: skip
        if self.one(True, False, False) and ufunc is not np.ldexp:  # of two dtypes: NumPy 2.4 gives 0.5 or 1 for 2
            case.kwargs["where"] = self.one(True, self.array(shape, "?"), self.array(shape[-1:], "?"))
            case.own_mask = bool(shape) and self.one(True, False)
        self.result(case)
        return case

    def accumulate(self, ufunc: Any, kind: str) -> Case:
        case = Case(ufunc, "accumulate", [self.array(self.one(*SHAPES), kind)])
        case.kwargs = self.maybe(axis=[0, -1, 1, None], dtype=[None, np.float64, np.float32, complex, int])
        self.result(case)
        return case

    def reduceat(self, ufunc: Any, kind: str) -> Case:
        case = Case(ufunc, "reduceat", [self.array(self.one((4,), (4, 5), (5, 4)), kind)])
        case.rest = (self.one([0, 2], [0, 3, 1], np.array([1, 1, 2]), [3], (0, 1, 2, 3)),)
        case.kwargs = self.maybe(axis=[0, -1, 1], dtype=[None, np.float64, np.float32, int])
        self.result(case)
        return case

    def result(self, case: Case) -> None:
        """Perhaps an array for it."""
        if self.one(True, False, False):
            try:
                with np.errstate(all="ignore"):
                    y = case.functions(self.rng)[0](*case.operands)
            except Exception:  # any: there is no such call
                return
            case.outs = [self.array(np.shape(y), self.one("f8", "f8", "f4", "c16", "i8", "?"))]

    def at(self, ufunc: Any, kind: str) -> Case:
        shape = self.one((4,), (4, 3))
        index: Any = self.one(
            [0, 2, 2], np.array([1, 1, 1, 3]), (np.array([0, 3, 0]),), slice(1, 3), ..., 2, np.array([True, False] * 2),
            (slice(None),), np.array([[0, 1], [1, 0]]), ([0, 0], ...), -1,
        )  # fmt: skip
        if len(shape) == 2 and self.one(True, False):
            index = self.one(
                (np.array([0, 2, 0]), np.array([1, 1, 1])), ([0, 1], [2, 2]), (slice(None), [1, 1]), (2, 1), (..., 1),
                (np.array([0, 0]), slice(0, 2)),
            )  # fmt: skip
        x = self.array(shape, kind)
        taken = np.shape(np.empty(shape)[index])
        several = isinstance(index, np.ndarray) and index.ndim > 1
        repeated = taken if several else taken[1:]  # of several axes of positions NumPy reads behind its end
        value = [self.one(self.array(taken, kind), self.array(repeated, kind), 2, 0.5)] if ufunc.nin > 1 else []
        return Case(ufunc, "at", value, (index,), {}, [x])


def outcome(fn: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a call gives, or how it fails."""
    with np.errstate(all="ignore"):
        try:
            return fn(), None
        except Exception as error:
            return None, error


def listed(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple) else [y]


def same(have: Any, want: Any, what: str, wide: bool) -> None:
    """Equal types, dtypes, shapes and numbers."""
    a, b = np.asarray(have), np.asarray(want)
    assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{what}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
    assert isinstance(have, np.ndarray) == isinstance(want, np.ndarray), f"{what}: {type(have)}, not {type(want)}"
    rtol = 1e-9 if wide else 1e-2 if a.dtype == np.float16 else 1e-5
    assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=what, equal_nan=True)


def check_effects(case: Case, rng: np.random.Generator) -> str:
    """A call under ``jit``, with the caller's arrays as ``out``, three times; what it was refused for."""
    f, _ = case.functions(rng)
    compiled = jit(f)
    for _ in range(3):
        operands = [varied(x, rng) for x in case.operands]
        mine, its = copied(case.outs), copied(case.outs)
        want, failed = outcome(lambda mine=mine, operands=operands: f(*operands, *mine))
        have, refused = outcome(lambda its=its, operands=operands: compiled(*operands, *its))
        if refused is not None and (failed is not None or isinstance(refused, YotaError)):
            return str(refused)
        assert failed is None, f"{case}: NumPy raises {failed!r}"
        assert refused is None, f"{case}: raises {refused!r}"
        haves, wants = case.clean(listed(have), operands), case.clean(listed(want), operands)
        for a, b, out, its_own in zip(haves, wants, mine or wants, its or haves, strict=False):
            if case.method != "at":
                same(a, b, f"{case}: the result", case.is_wide())
            assert (b is out) == (a is its_own), f"{case}: the result is out="
        for a, b in zip(its, mine, strict=True):
            if b is not None:
                same(a, b, f"{case}: out=", case.is_wide())
    return ""


def check_gradients(case: Case, rng: np.random.Generator) -> str:
    """A loss of the results and of ``out``, three times, against finite differences; what it was refused for."""
    _, loss = case.functions(rng)
    for _ in range(3):
        args = [*(varied(x, rng) for x in case.operands), *copied(case.outs)]
        if not any(is_inexact(x) for x in args if x is not None):
            return ""
        want, failed = outcome(lambda args=args: loss(*copied(args)))
        have, refused = outcome(lambda args=args: grad(loss, *args))
        if refused is not None and (failed is not None or isinstance(refused, YotaError)):
            return str(refused)
        assert failed is None, f"{case}: NumPy raises {failed!r}"
        assert refused is None, f"{case}: raises {refused!r}"
        value, grads = have
        wide = case.is_wide()
        assert_allclose(value, want, rtol=1e-9 if wide else 1e-4, atol=1e-5, err_msg=str(case))
        if wide and np.isfinite(want):
            check_slope(case, loss, args, grads, rng)
    return ""


def check_slope(case: Case, loss: Any, args: list[Any], grads: Any, rng: np.random.Generator) -> None:
    """The gradients in one direction, where finite differences tell a slope."""
    steps = [rng.uniform(0.5, 1.0, np.shape(x)) if is_inexact(x) else None for x in args]
    slope = sum(np.sum(np.real(g) * v) for g, v in zip(grads, steps, strict=True) if v is not None)

    def at(h: float) -> Any:
        moved = [x if v is None else np.asarray(x + h * v) for x, v in zip(args, steps, strict=True)]
        return outcome(lambda: loss(*moved))[0]

    ends = [np.asarray(at(h)) for h in (1e-2, -1e-2, 1e-3, -1e-3)]
    if all(np.isfinite(end) for end in ends) and np.isfinite(slope):
        near = list(differences(at))
        smooth = abs(near[0] - near[2]) < 1e-2 * (1 + abs(near[0]))
        assert not smooth or any(close(slope, d, 1e9, 2e-16) for d in near), f"{case}: {slope}, differences {near}"


def varied(x: Any, rng: np.random.Generator) -> Any:
    """Other numbers of the same type."""
    if not is_inexact(x):
        return x
    if not isinstance(x, np.ndarray):
        return type(x)(x * rng.uniform(0.9, 1.1))
    return np.asarray(x * rng.uniform(0.9, 1.1, x.shape), x.dtype, copy=None) if x.shape else x * x.dtype.type(1.1)


def check(name: str, seed: int) -> list[str]:
    """A case of a method of a ufunc; what it was refused for."""
    ufunc, method = UFUNCS[name.split()[0]], name.split()[1]
    case = Draw(seed).case(ufunc, method)
    rng = np.random.default_rng(seed)
    return [r for r in (check_effects(case, rng), check_gradients(case, rng)) if r]


EVERY = [f"{name} {method}" for name in UFUNCS for method in METHODS if method != "outer" or UFUNCS[name].nin == 2]


@pytest.mark.parametrize("name", EVERY if SEQUENCES else SAMPLE)
def test_against_numpy(name: str) -> None:
    for seed in range(SEQUENCES // 200 or 2):
        check(name, seed)
