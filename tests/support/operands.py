"""Operands of every dtype and kind with their special values, functions of them, and results compared bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from yota_py.registry.registry import primitives

DTYPES = [
    "bool", "int8", "uint8", "int16", "int32", "int64", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
FORMS = ["array", "0-d", "scalar"]
PYTHON: dict[str, list[Any]] = {
    "bool": [True, False, True],
    "int": [3, 0, -1],
    "large int": [200, 40000, 2**40],
    "huge int": [2**53 + 1, -(2**62), 2**63 - 1],
    "big int": [2**70, -(2**65), 2**64],
    "float": [0.5, -0.0, 2.0],
    "special float": [float("inf"), float("nan"), -float("inf")],
    "extreme float": [1e300, 5e-324, -1e40],
    "complex": [1 - 2j, 0j, complex(0.5, -0.0)],
}


def specials(dtype: str) -> np.ndarray:
    """The values of a dtype at which functions go wrong, and some at which they do not."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([True, False])
    if kind in "iu":
        info = np.iinfo(dtype)
        negative = [-1, -2, -7] if kind == "i" else []
        return np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, *negative], dtype)
    if kind == "c":
        parts = specials("float32" if dtype == "complex64" else "float64")[[0, 1, 2, 6, 9, 11]]
        return np.array([complex(a, b) for a, b in zip(parts, parts[::-1], strict=True)] + [1 + 2j, 0.5 - 1j], dtype)
    info = np.finfo(dtype)
    signed = [0.0, np.inf, info.smallest_subnormal, info.tiny, info.max, 1.0, 0.5, 2.0, 1.5, 3.7, 80.0]
    return np.array([np.nan, *signed, *(-v for v in signed)], dtype)


@dataclass(frozen=True)
class Operand:
    """A dtype in one form, or a kind of number of Python's; ``value(call)`` is another one for each call."""

    form: str
    kind: str

    @property
    def static(self) -> bool:
        """Whether it is no input of a program but a constant in it."""
        kind = np.dtype(self.kind).kind if self.form == "scalar" else "i" if self.kind[-3:] in ("ool", "int") else ""
        return self.form in ("scalar", "python") and kind in "biu" and kind != ""

    def value(self, call: int, seed: int = 0, column: bool = False) -> Any:
        """An array of all special values in another order, or one of them: another one at each call, unless static."""
        at = seed if self.static else seed + call
        if self.form == "python":
            return PYTHON[self.kind][at % 3]
        values = specials(self.kind)
        if self.form == "array":
            x = np.roll(values, at)
            return x[:, None].copy() if column else x
        x = values[(7 * at + 1) % len(values)]
        return np.array(x) if self.form == "0-d" else x

    def __str__(self) -> str:
        return f"{self.form} {self.kind}"


OPERANDS = [Operand(form, dtype) for form in FORMS for dtype in DTYPES] + [Operand("python", kind) for kind in PYTHON]

# Functions as the text that stands in a program: beside ufuncs, what takes Python's numbers in its own way.
PAIRS = [
    *(f"a {sign} b" for sign in "+ - * / // % ** & | ^ << >> < <= > >= == !=".split()), "np.dot(a, b)",
    "np.inner(a, b)",
    "np.outer(a, b)", "np.vdot(a, b)", "np.kron(a, b)", "np.tensordot(a, b, 0)", "np.isclose(a, b)", "np.append(a, b)",
    "np.where(np.isfinite(a), a, b)", "np.where(a, b, a)", "np.full_like(a, b)", "np.clip(a, b, None)",
    "np.clip(a, None, b)", "np.clip(a, 0, b)", "np.hstack([a, b])", "np.stack([a + b, b + a])", "a ** 2 / b",
    "a - b * -1", "np.broadcast_to(b, (2, 3, 1)) * a", "np.round(a) + b", "np.nan_to_num(a) * b", "np.full(3, b) + a",
    "np.sum(a) * b", "np.max(a) + b", "np.logical_not(a) + b", "np.concatenate([a, b], axis=None)",
]  # fmt: skip
SINGLE = [
    "-a", "+a", "abs(a)", "~a", "np.round(a)", "np.round(a, 1)", "np.fix(a)", "np.nan_to_num(a)", "np.sinc(a)",
    "np.real(a)", "np.imag(a)", "np.angle(a)", "np.isneginf(a)", "np.copy(a)", "np.zeros_like(a)", "np.ones_like(a)",
    "np.asarray(a).astype(np.float32)", "np.asarray(a).astype(bool)", "np.asarray(a).astype(int)", "a * 1", "a * 1.0",
    "a - 0.0", "a - -0.0", "a + 0", "a + -0.0", "a / 1", "a * -1", "-(-a)", "0 - a", "1 * a", "a - 0", "0.0 + a",
    "a * 0", "a - np.zeros(1)", "a - np.float32(-0.0)", "np.clip(a, -1, 2)", "np.clip(a, 0.5, 2)", "np.clip(a, 0, 300)",
    "np.maximum(a, 0)", "np.minimum(0.0, a)", "np.maximum(-0.0, a)", "a < 2**40", "a == 300", "-1 < a", "a >= 2**63",
    "a * 2**70", "a != 2**70", "a + np.uint8(3)", "a * np.float32(1.5)", "np.float16(2) - a", "a & True", "a | 1",
    "np.logical_and(a, 2)", "np.logical_xor(a, a > 1)", "np.logical_or(a, 0.0)", "np.where(a, 1, 2.5)",
    *(f"a ** {p}" for p in (-3, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 4, True)),
    *(f"np.power(a, {p})" for p in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)),
    "a ** np.array([-0.5])", "a ** np.float32(0.5)", "a ** np.full_like(a, 2)",
]  # fmt: skip


def _counts(f: np.ufunc) -> bool:
    """Whether it is a function of SciPy's with an order, to which it counts: for ever at the largest integers."""
    return any(set("ilqp") & set(types.partition("->")[0]) for types in f.types)


def functions(arity: int) -> list[str]:
    """All ufuncs that have a rule or are declared, the operators, and what else takes so many operands."""
    ufuncs = [p.fn for p in primitives() if isinstance(p.fn, np.ufunc) and p.fn.nin == arity and not p.fn.signature]
    ufuncs = [f for f in ufuncs if f is not special.gammaln]  # SciPy's is inf at subnormal numbers
    ufuncs = [f for f in ufuncs if hasattr(np, f.__name__) or not _counts(f)]
    names = sorted(f"{'np' if hasattr(np, f.__name__) else 'special'}.{f.__name__}" for f in ufuncs)
    return [f"{name}({'a' if arity == 1 else 'a, b'})" for name in names] + (SINGLE if arity == 1 else PAIRS)


def program(sources: Sequence[str], arguments: str, **captured: Any) -> Any:
    """A function that computes all of these, in a module of its own."""
    names = {"np": np, "special": special, "__name__": "user_module", **captured}
    exec(f"def f({arguments}):\n    return ({''.join(f'{source}, ' for source in sources)})", names)
    return names["f"]


def outcome(f: Any, *args: Any) -> Any:
    """A result, or the exception that is raised instead."""
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except Exception as error:
        return error


def running(sources: Sequence[str], arguments: str, calls: Sequence[tuple[Any, ...]]) -> list[str]:
    """The functions that NumPy answers with numbers in all these calls."""

    def answers(source: str) -> bool:
        results = [outcome(program([source], arguments), *args) for args in calls]
        return not any(isinstance(r, Exception) or np.asarray(r[0]).dtype == object for r in results)

    return [source for source in sources if answers(source)]


# What is rounded once, if at all, is the same in every bit; of these, only so many units in the last place are asked.
_ROUNDED = (
    "exp log sin cos tan sinh cosh tanh arc hypot power ** cbrt sinc expit logit erf gamma psi remainder mod % // "
    "floor_divide angle deg rad bessel j0 j1 y0 y1 i0 i1 ndtr"
).split()  # fmt: skip
# Of two zeros, NumPy's fmax gives either, as its clip and its maxima of several numbers do.
_UNSIGNED = ("fmax", "fmin", "clip(a, 0, b)", "np.max(", "np.min(")
# Their order becomes a C integer, whose sign SciPy turns: -2**31 overflows there, and its two libraries then differ.
_OVERFLOWING = ("special.yv", "special.struve")
_PRODUCTS = ("np.dot", "np.inner", "np.tensordot", "np.vdot")  # BLAS takes 0 * inf for zero, and adds to zero or not


def difference(source: str, have: Any, want: Any, *operands: Any, rounded: bool = False) -> str | None:
    """In what a function's results differ: type, dtype, shape, or a value in any bit, or by more than rounding."""
    if isinstance(want, tuple):
        found = [difference(source, a, b, *operands, rounded=rounded) for a, b in zip(have, want, strict=True)]
        return next((text for text in found if text), None)
    if type(have) is not type(want) and not (isinstance(want, bool) and np.iscomplexobj(operands[0])):
        return f"is a {type(have).__name__}, not a {type(want).__name__}"
    x, y = np.asarray(have), np.asarray(want)
    if x.dtype != y.dtype or x.shape != y.shape:
        return f"is {x.dtype}{list(x.shape)}, not {y.dtype}{list(y.shape)}"
    rounded = rounded or any(word in source for word in _ROUNDED) or any(np.iscomplexobj(v) for v in (x, y, *operands))
    same = _same(x, y, 8.0 if rounded else 0.0, not any(word in source for word in (*_UNSIGNED, *_PRODUCTS)))
    if (source.startswith(_PRODUCTS) or (x.dtype.kind == "c" and "**" in source)) and y.dtype.kind in "fc":
        same = same | ~np.isfinite(x) | ~np.isfinite(y) | (y == 0)
    if source in ("a < b", "a <= b", "a > b", "a >= b") and any(isinstance(v, np.complexfloating) for v in operands):
        return None  # of scalars with NaN, NumPy's operator says something else than its ufunc, which is called here
    if source.startswith(_OVERFLOWING):
        same = same | (np.asarray(operands[0]) == -(2**31))
    if "logaddexp" in source:  # near zero their errors are small beside the arguments
        same = same | (np.abs(x - y) < np.finfo(y.dtype).eps)
    if np.all(same):
        return None
    bad = np.flatnonzero(~np.atleast_1d(same).ravel())
    at = int(bad[0])
    return f"is {np.ravel(x)[at]!r} at {at} (and {len(bad) - 1} more), not {np.ravel(y)[at]!r}"


def _same(x: np.ndarray, y: np.ndarray, ulps: float, signs: bool) -> Any:
    if x.dtype.kind == "c":
        return _same(x.real, y.real, ulps, signs) & _same(x.imag, y.imag, ulps, signs)
    if x.dtype.kind != "f":
        return (x == y) | (x != x)  # Python's objects among them, of which NaN is another one
    with np.errstate(all="ignore"):
        near = np.abs(x - y) <= ulps * np.spacing(np.minimum(np.abs(y), np.finfo(y.dtype).max)).astype(y.dtype)
        equal = (x == y) & ((np.signbit(x) == np.signbit(y)) | (x != 0) | (not signs))
        return equal | (np.isnan(x) & np.isnan(y)) | (near & (y != 0) & np.isfinite(y))
