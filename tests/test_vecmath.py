"""Emitted mathematics against mpmath and NumPy, and the code generator.

Every function is compiled into a loop over arrays, as vectors and as scalars, in float64 and float32.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from llvmlite import ir

from yota_py.engine import codegen
from yota_py.engine.codegen import compile_module, new_module, vector_bytes
from yota_py.engine.vecmath import DOUBLE, FLOAT, I1, I32, I64, VecMath

ELEMENTS = {np.float64: DOUBLE, np.float32: FLOAT, np.int64: I64, np.int32: I32, np.bool_: I1}
FLOATS = [np.float64, np.float32]
WIDTHS = ["vector", "scalar"]

# name: the exact function, and the bound in ulp. The promise is 2; the bounds are the largest errors found
# among millions of float32 numbers, rounded up, so that a loss of accuracy shows.
ACCURACY: dict[str, tuple[Callable[[Any], Any], float]] = {
    "exp": (mpmath.exp, 1.1),
    "exp2": (lambda x: mpmath.mpf(2) ** x, 1.1),
    "expm1": (mpmath.expm1, 1.4),
    "log": (mpmath.log, 1.0),
    "log1p": (mpmath.log1p, 1.4),
    "log2": (lambda x: mpmath.log(x, 2), 1.5),
    "log10": (mpmath.log10, 1.7),
    "sinh": (mpmath.sinh, 1.6),
    "cosh": (mpmath.cosh, 1.6),
    "tanh": (mpmath.tanh, 1.3),
    "sin": (mpmath.sin, 0.8),
    "cos": (mpmath.cos, 0.8),
    "tan": (mpmath.tan, 1.4),
    "expit": (lambda x: 1 / (1 + mpmath.exp(-x)), 1.5),
    "log_expit": (lambda x: -mpmath.log1p(mpmath.exp(-x)), 1.7),
}
DOMAIN_LOW = {"log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0}

EXACT = ["abs", "sqrt", "floor", "ceil", "trunc", "rint", "sign", "square", "reciprocal", "neg"]
EXACT_2 = ["add", "sub", "mul", "div", "copysign", "maximum", "minimum", "fmax", "fmin"]
LIBM = ["arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "cbrt", "erf", "lgamma"]
LIBM_2 = ["arctan2", "hypot", "pow"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
CLASSES = ["isnan", "isinf", "isfinite", "signbit"]
INTEGER_2 = ["add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"]
NUMPY_NAMES = {
    "abs": np.abs, "neg": np.negative, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.divide, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal, "pow": np.power, "erf": scipy.special.erf,
    "lgamma": scipy.special.gammaln, "expit": scipy.special.expit, "log_expit": scipy.special.log_expit,
}  # fmt: skip


def numpy_function(name: str) -> Callable[..., np.ndarray]:
    return NUMPY_NAMES[name] if name in NUMPY_NAMES else getattr(np, name)


# -------------------------------------------------------------------- compiled loops


def emit_loop(
    module: ir.Module, name: str, emit: Callable[..., Any], ins: list[type], out: type, lanes: int
) -> None:
    """void name(in..., out, n): out[i] = emit(in[i]...), with n a multiple of `lanes`; bools are bytes."""
    pointer, byte = ir.PointerType(), ir.IntType(8)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * (len(ins) + 1) + [I64]), name)
    entry, body, done = (function.append_basic_block(b) for b in ("entry", "body", "done"))
    b = ir.IRBuilder(entry)
    b.branch(body)
    b.position_at_end(body)
    i = b.phi(I64)
    i.add_incoming(ir.Constant(I64, 0), entry)
    math = VecMath(b, lanes)
    *sources, target, n = function.args
    values = []
    for source, dtype in zip(sources, ins, strict=True):
        stored = byte if dtype is np.bool_ else ELEMENTS[dtype]
        value = b.load(b.gep(source, [i], source_etype=stored), typ=math.type(stored), align=1)
        values.append(b.trunc(value, math.type(I1)) if dtype is np.bool_ else value)
    result = emit(math, *values)
    stored = byte if out is np.bool_ else ELEMENTS[out]
    if out is np.bool_:
        result = b.zext(result, math.type(byte))
    b.store(result, b.gep(target, [i], source_etype=stored), align=1)
    following = b.add(i, ir.Constant(I64, lanes))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, n), body, done)
    b.position_at_end(done)
    b.ret_void()


Case = tuple[str, Callable[..., Any], list[type], type]  # name, emitter, dtypes of arguments and result


class Loops:
    """Compiled loops by name, called on arrays."""

    def __init__(self, cases: Iterable[Case], width: str) -> None:
        # Another prefix for each set of loops, as the names of compiled functions are for ever.
        prefix = f"test_{uuid.uuid4().hex}_"
        module = new_module(prefix)
        self.outs: dict[str, type] = {}
        for name, emit, ins, out in cases:
            size = max(np.dtype(dtype).itemsize for dtype in (*ins, out))
            lanes = 1 if width == "scalar" else vector_bytes() // max(size, 4)
            emit_loop(module, prefix + name, emit, ins, out, lanes)
            self.outs[name] = out
        addresses = compile_module(module, [prefix + name for name in self.outs])
        self.addresses = {name: addresses[prefix + name] for name in self.outs}

    def __call__(self, name: str, *args: np.ndarray) -> np.ndarray:
        n = args[0].size
        padded = -(-n // 64) * 64  # a multiple of all lane counts
        ins = [np.concatenate([a, np.ones(padded - n, a.dtype)]) for a in args]
        out = np.empty(padded, self.outs[name])
        kinds = [ctypes.c_void_p] * (len(ins) + 1)
        function = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_int64)(self.addresses[name])
        function(*(a.ctypes.data for a in ins), out.ctypes.data, padded)
        return out[:n]


def method(name: str) -> Callable[..., Any]:
    return lambda math, *args: getattr(math, name)(*args)


@functools.cache
def loops(dtype: type, width: str) -> Loops:
    """All functions of floats, in one module."""
    unary = [*ACCURACY, *EXACT, *LIBM]
    binary = [*EXACT_2, *LIBM_2, "logaddexp"]
    cases = [(name, method(name), [dtype], dtype) for name in unary]
    cases += [(name, method(name), [dtype] * 2, dtype) for name in binary]
    cases += [(name, method(name), [dtype] * 2, np.bool_) for name in COMPARISONS]
    cases += [(name, method(name), [dtype], np.bool_) for name in CLASSES]
    cases += [("fma", method("fma"), [dtype] * 3, dtype)]
    cases += [("select", lambda m, a, b: m.select(m.lt(a, b), a, b), [dtype] * 2, dtype)]
    cases += [("const", lambda m, a: m.select(m.eq(a, a), m.const(-0.0, a), m.const(0.1, a)), [dtype], dtype)]
    return Loops(cases, width)


# -------------------------------------------------------------------- points and errors


def specials(dtype: type) -> np.ndarray:
    info = np.finfo(dtype)
    least = float(info.smallest_subnormal)
    positive = [0.0, least, 3 * least, float(info.tiny), 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0]
    positive += [1e30, float(info.max), np.inf]
    return np.array([*positive, *(-p for p in positive), np.nan], dtype)


@functools.cache
def points(dtype: type) -> np.ndarray:
    """Finite numbers of all sizes, and around the places where formulas change."""
    rng, info, n = np.random.default_rng(7), np.finfo(dtype), 300
    lowest = int(info.minexp) - info.nmant
    sized = np.ldexp(rng.uniform(0.5, 1, n), rng.integers(lowest, int(info.maxexp) + 1, n))
    middle = np.ldexp(rng.uniform(0.5, 1, n), rng.integers(-8, 8, n))
    quadrants = rng.integers(1, 600_000_000 if dtype is np.float64 else 20_000, n) * (np.pi / 2)
    far = np.exp2(rng.uniform(14, 60, n // 4))
    places = np.array(
        [0.25, 0.3465735902799727, 0.5, 0.625, 2**0.5, 0.5**0.5, 1.0, 1.0397207708399179, 2.0, np.pi / 2,
         np.pi, 10.0, 22.0, 28.0, 57.0, 2.0**15, 2.0**30, 2.0**-54, 2.0**-25, 87.33, 88.72, 89.4, 103.2,
         103.97, 126.0, 127.0, 128.0, 149.0, 150.0, 708.39, 709.782, 710.47, 744.44, 745.13, 1022.0, 1023.0,
         1024.0, 1074.0, 1075.0, info.tiny, info.max],
    )  # fmt: skip
    subnormal = rng.integers(1, 1000, 20) * float(info.smallest_subnormal)
    narrow = rng.uniform(0, 2, 2 * n)
    with np.errstate(all="ignore"):
        near = (places[:, None] * (1 + rng.uniform(-1, 1, (1, 12)) * 1e-3)).ravel()
        nearest = (places[:, None] * (1 + np.arange(-3, 4) * float(info.eps))).ravel()
        x = np.concatenate([sized, middle, quadrants, far, near, nearest, subnormal, narrow]).astype(dtype)
    x = x[np.isfinite(x)]
    return rng.permutation(np.concatenate([x, -x]))


@functools.cache
def reference(name: str, dtype: type) -> tuple[np.ndarray, list[Any]]:
    """The points in the domain of a function, and its exact values there."""
    x = points(dtype)
    x = x[x > DOMAIN_LOW.get(name, -np.inf)]
    with mpmath.workprec(120):
        return x, [ACCURACY[name][0](mpmath.mpf(v)) for v in x.tolist()]


def ulp_errors(computed: np.ndarray, exact: list[Any]) -> np.ndarray:
    """Errors in units of the last place of the exact value rounded; where that is infinite, 0 or infinite."""
    dtype = computed.dtype.type
    with mpmath.workprec(120), np.errstate(all="ignore"):
        double = np.array([float(v) for v in exact])
        finite = np.where(np.isfinite(double), double, 0)
        rest = np.array([float(v - d) for v, d in zip(exact, finite.tolist(), strict=True)])
        nearest = double.astype(dtype)
        errors = np.abs((computed.astype(float) - double) - rest) / np.spacing(np.abs(nearest))
        return np.where(computed == nearest, np.minimum(np.nan_to_num(errors), 0.5), errors)


def assert_same(
    computed: np.ndarray, expected: np.ndarray, *args: np.ndarray, zero_sign: bool = True
) -> None:
    """Equal bit for bit, but for the payload of NaN."""
    same = (computed == expected) | (np.isnan(computed) & np.isnan(expected))
    if zero_sign:
        same &= (np.signbit(computed) == np.signbit(expected)) | np.isnan(computed)
    bad = np.flatnonzero(~same)[:5]
    assert not bad.size, [(*(a[k] for a in args), "gives", computed[k], "not", expected[k]) for k in bad]


def pairs(dtype: type) -> list[np.ndarray]:
    """All pairs of special values, and random ones."""
    s = specials(dtype)
    a, b = np.repeat(s, s.size), np.tile(s, s.size)
    x = points(dtype)
    return [np.concatenate([a, x]), np.concatenate([b, np.roll(x, 1)])]


# -------------------------------------------------------------------- functions of floats


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ACCURACY)
def test_accuracy(name: str, dtype: type, width: str) -> None:
    x, exact = reference(name, dtype)
    errors = ulp_errors(loops(dtype, width)(name, x), exact)
    worst = int(np.argmax(np.nan_to_num(errors, nan=np.inf)))
    assert errors[worst] <= ACCURACY[name][1] <= 2, (x[worst], errors[worst])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*ACCURACY, *LIBM])
def test_special_values(name: str, dtype: type, width: str) -> None:
    x = specials(dtype)
    computed = loops(dtype, width)(name, x)
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(x)
    # Only where both must hit the same number.
    sharp = ~np.isfinite(expected) | np.isin(expected, [0, 1, -1])
    if name == "lgamma":
        sharp &= (x != -np.inf) & ((np.abs(x) > 1e-30) | (x == 0))  # SciPy and the C standard differ
    if name == "log_expit":
        sharp &= expected != 0  # SciPy's own zero has either sign
    assert sharp.sum() >= 2
    assert_same(computed[sharp], expected[sharp].astype(dtype), x[sharp])


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_angles_in_some_lanes(dtype: type) -> None:
    x = np.array([0.5, 1e22, 1.0, -1e30, np.nan, 2.0**31, 3.0, -0.0] * 2, dtype)
    with mpmath.workprec(300):
        for name in ("sin", "cos", "tan"):
            computed = loops(dtype, "vector")(name, x)
            keep = ~np.isnan(x)
            exact = [ACCURACY[name][0](mpmath.mpf(v)) for v in x[keep].tolist()]
            assert ulp_errors(computed[keep], exact).max() <= 1.4
            assert np.isnan(computed[~keep]).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_the_base_are_exact(dtype: type) -> None:
    n = np.arange(-140, 127)
    powers = np.ldexp(dtype(1), n).astype(dtype)
    assert_same(loops(dtype, "vector")("exp2", n.astype(dtype)), powers)
    assert_same(loops(dtype, "vector")("log2", powers), n.astype(dtype))
    tens = np.arange(23 if dtype is np.float64 else 11)
    assert_same(loops(dtype, "vector")("log10", (10.0**tens).astype(dtype)), tens.astype(dtype))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_logaddexp(dtype: type, width: str) -> None:
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = np.logaddexp(a.astype(np.longdouble), b.astype(np.longdouble)).astype(dtype)
        computed = loops(dtype, width)("logaddexp", a, b)
        # The formula's own errors: of a - b, amplified by exp, and of log1p; they show where the sum cancels.
        d = np.abs(a - b)
        tolerance = 2 * np.spacing(np.abs(expected)) + (3 + d) * np.exp(-d) * np.finfo(dtype).eps
        good = (np.abs(computed - expected) <= tolerance) | (computed == expected)
        good |= np.isnan(computed) & np.isnan(expected)
    assert good.all(), (a[~good][:3], b[~good][:3], computed[~good][:3], expected[~good][:3])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*EXACT, *EXACT_2, *COMPARISONS, *CLASSES])
def test_exact_like_numpy(name: str, dtype: type, width: str) -> None:
    args = pairs(dtype)[: 2 if name in EXACT_2 or name in COMPARISONS else 1]
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(*args)
    # NumPy leaves open which of two zeros is the larger.
    assert_same(
        loops(dtype, width)(name, *args), expected, *args,
        zero_sign=name not in ("maximum", "minimum", "fmax", "fmin"),
    )  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*LIBM, *LIBM_2])
def test_lane_by_lane(name: str, dtype: type, width: str) -> None:
    args = pairs(dtype)[: 2 if name in LIBM_2 else 1]
    with np.errstate(all="ignore"):
        if name == "lgamma":  # near its zeros, libm and SciPy lose digits at different places
            args = [args[0][args[0] > 3]]
        # Computed in double for float32 too, where NumPy is no better than libm.
        expected = numpy_function(name)(*(a.astype(float) for a in args)).astype(dtype)
        computed = loops(dtype, width)(name, *args)
        error = np.abs(computed.astype(float) - expected.astype(float)) / np.spacing(np.abs(expected))
    good = (computed == expected) | (np.isnan(computed) & np.isnan(expected))
    good |= error <= (4 if name in ("cbrt", "lgamma") else 2)
    bad = np.flatnonzero(~good)[:4]
    assert not bad.size, [(*(a[k] for a in args), computed[k], expected[k]) for k in bad]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_select_const(dtype: type, width: str) -> None:
    run, (a, b) = loops(dtype, width), pairs(dtype)
    assert_same(run("select", a, b), np.where(a < b, a, b))
    assert_same(run("const", a), np.where(a == a, dtype(-0.0), dtype(0.1)))
    small = np.arange(-30, 30).astype(dtype)
    assert_same(run("fma", small, small, small), small * small + small)


# -------------------------------------------------------------------- integers, booleans, casts


@functools.cache
def integer_loops(width: str) -> Loops:
    cases: list[Case] = []
    for dtype in (np.int64, np.int32):
        kind = np.dtype(dtype).name
        cases += [(f"{name}_{kind}", method(name), [dtype] * 2, dtype) for name in INTEGER_2]
        cases += [(f"{name}_{kind}", method(name), [dtype] * 2, np.bool_) for name in COMPARISONS]
        unary = ("neg", "abs", "sign", "square", "bitwise_not")
        cases += [(f"{name}_{kind}", method(name), [dtype], dtype) for name in unary]
    for name in ("logical_and", "logical_or", "logical_xor", "add", "mul", "maximum", "minimum"):
        cases.append((f"{name}_bool", on_bools(method(name)), [np.float64] * 2, np.bool_))
    cases.append(("logical_not_bool", on_bools(method("logical_not")), [np.float64], np.bool_))
    for source, target in itertools.product(ELEMENTS, ELEMENTS):
        cases.append((cast_name(source, target), functools.partial(cast_to, target), [source], target))
    return Loops(cases, width)


def cast_name(source: type, target: type) -> str:
    return f"{np.dtype(source)}_to_{np.dtype(target)}"


def cast_to(target: type, math: VecMath, x: Any) -> Any:
    return math.cast(x, ELEMENTS[target])


def on_bools(emit: Callable[..., Any]) -> Callable[..., Any]:
    """Booleans made on the way from numbers."""
    return lambda math, *args: emit(math, *(math.cast(a, I1) for a in args))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_integers(dtype: type, width: str) -> None:
    run, kind = integer_loops(width), np.dtype(dtype).name
    info = np.iinfo(dtype)
    values = np.array([0, 1, -1, 2, 7, -13, 1000, info.max, info.min, info.max - 1], dtype)
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    with np.errstate(all="ignore"):
        for name in (*INTEGER_2, *COMPARISONS):
            assert np.array_equal(run(f"{name}_{kind}", a, b), numpy_function(name)(a, b)), name
        for name in ("neg", "abs", "sign", "square", "bitwise_not"):
            assert np.array_equal(run(f"{name}_{kind}", a), numpy_function(name)(a)), name


@pytest.mark.parametrize("width", WIDTHS)
def test_booleans(width: str) -> None:
    run = integer_loops(width)
    a, b = np.array([0.0, 0, 1, 1]), np.array([0.0, 1, 0, 1])
    for name in ("logical_and", "logical_or", "logical_xor", "add", "mul", "maximum", "minimum"):
        assert np.array_equal(run(f"{name}_bool", a, b), numpy_function(name)(a != 0, b != 0)), name
    assert np.array_equal(run("logical_not_bool", a), np.logical_not(a))


@pytest.mark.parametrize("width", WIDTHS)
def test_casts(width: str) -> None:
    run = integer_loops(width)
    for source, target in itertools.product(ELEMENTS, ELEMENTS):
        values = np.array([0, 1, -1, 3, 100, -7, 1 << 20], np.int64).astype(source)
        if source in FLOATS:
            values = np.concatenate([values, np.array([0.5, -2.75, 1e-40], source)])
        computed = run(cast_name(source, target), values)
        assert np.array_equal(computed, values.astype(target)), (source, target)
    special = np.array([np.nan, np.inf, -np.inf, 1e300, -0.0])
    with np.errstate(over="ignore"):
        assert_same(run("float64_to_float32", special), special.astype(np.float32))
    assert np.array_equal(run("float64_to_bool", special), special != 0)


# -------------------------------------------------------------------- the checks themselves, compilation


def test_the_checks_notice_errors() -> None:
    x, exact = reference("exp", np.float64)
    good = loops(np.float64, "vector")("exp", x)
    middle = np.abs(x) < 700
    wrong = np.where(middle, np.nextafter(np.nextafter(good, np.inf), np.inf), good)
    assert np.mean(ulp_errors(wrong, exact)[middle] > ACCURACY["exp"][1]) > 0.5
    assert ulp_errors(np.full(2, np.inf), [mpmath.mpf(1), mpmath.mpf("1e400")]).tolist() == [np.inf, 0]
    for computed, expected in (([0.0], [-0.0]), ([1.0], [np.nan]), ([np.nan], [1.0]), ([1.0], [2.0])):
        with pytest.raises(AssertionError):
            assert_same(np.array(computed), np.array(expected))


def test_vectors_fill_the_registers() -> None:
    assert vector_bytes() in (16, 32, 64)
    if vector_bytes() == 64 and "NUMBA_CPU_NAME" not in os.environ:
        module = new_module("test_registers")
        emit_loop(module, "test_registers", method("exp"), [np.float64], np.float64, 8)
        compile_module(module, ["test_registers"])
        assembly = codegen._LIBRARIES[-1].get_asm_str()
        assert assembly.count("%zmm") > 20 and "%ymm" not in assembly


def trivial_module(name: str, external: str | None = None) -> ir.Module:
    module = new_module(name)
    function = ir.Function(module, ir.FunctionType(DOUBLE, [DOUBLE]), name)
    b = ir.IRBuilder(function.append_basic_block())
    result = VecMath(b, 1).add(function.args[0], ir.Constant(DOUBLE, 1.0))
    if external is not None:
        result = b.call(ir.Function(module, ir.FunctionType(DOUBLE, [DOUBLE]), external), [result])
    b.ret(result)
    return module


def test_compile_module() -> None:
    address = compile_module(trivial_module("test_trivial"), ["test_trivial"])["test_trivial"]
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(2.0) == 3.0
    with pytest.raises(ValueError, match="compiled before: test_trivial"):
        compile_module(trivial_module("test_trivial"), ["test_trivial"])
    with pytest.raises(ValueError, match="not defined in the module: other"):
        compile_module(trivial_module("test_trivial_2"), ["other"])
    with pytest.raises(ValueError, match="unknown to the linker: no_such_function"):
        compile_module(trivial_module("test_trivial_3", "no_such_function"), ["test_trivial_3"])
    # One module may call what another has defined.
    caller = compile_module(trivial_module("test_trivial_4", "test_trivial"), ["test_trivial_4"])
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(caller["test_trivial_4"])(2.0) == 4.0


def test_importing_the_code_generator_imports_no_compiler() -> None:
    script = (
        "import runpy, sys; runpy.run_path(sys.argv[1]); "
        "assert not {'numba', 'llvmlite'} & set(sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-c", script, str(Path(codegen.__file__))], check=True)
