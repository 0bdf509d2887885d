"""A derivative is never lost in silence: what takes a traced value out of NumPy or of its trace raises, or is right."""

from __future__ import annotations

import array
import bisect
import cmath
import colorsys
import copy
import ctypes
import datetime
import decimal
import fractions
import heapq
import io
import json
import math
import pickle
import random
import statistics
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import agree
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, interpolate, linalg, ndimage, optimize, stats

from yota_py import grad
from yota_py.errors import LostDerivativeError, MissingRuleError, MutationError, YotaError

Function = Callable[[Any], Any]
XS = tuple(map(np.array, ([1.13, 2.27, 3.31], [3.17, 0.23, 0.52], [0.37, 0.26, 0.15], [1.3, 2.1, 0.9])))
BUFFER = np.zeros(2)


def _stored(container: Any, index: Any, value: Any) -> Any:
    container[index] = value
    return container


def _through_a_file(save: Function, load: Function, file: Any, x: Any) -> Any:
    save(file, x)  # type: ignore[call-arg]
    file.seek(0)
    return np.sum(load(file))


# What must raise, since the value becomes a plain one.
RAISES: dict[str, Function] = {
    "float": lambda x: float(x[0]) * 2.0,
    "float of a product": lambda x: float(x @ x),
    "percent": lambda x: float("%.17g" % x[0]),  # noqa: UP031
    "object array": lambda x: np.array([x[0], None], dtype=object)[0] * 2,
    "array of objects": lambda x: np.sum(np.array(x, dtype=object)),
    "astype object": lambda x: np.sum(x.astype(object)),
    "empty of objects": lambda x: _stored(np.empty(1, object), 0, x[0])[0] * 3,
    "full of objects": lambda x: np.full(2, x[0], object)[0],
    "pickle": lambda x: np.sum(pickle.loads(pickle.dumps(x))),
    "pickle of a number": lambda x: pickle.loads(pickle.dumps(x[0])),
    "pickle of a list": lambda x: pickle.loads(pickle.dumps([x[0]]))[0],
    "json": lambda x: json.loads(json.dumps(x.tolist()))[0],
    "json in Python": lambda x: json.loads(json.dumps(x.tolist(), indent=1))[0],
    "struct": lambda x: struct.unpack("d", struct.pack("d", x[0]))[0],
    "array.array": lambda x: sum(array.array("d", x)),
    "item of array.array": lambda x: _stored(array.array("d", [0.0]), 0, x[0])[0],
    "memoryview": lambda x: sum(memoryview(x)),
    "bytes": lambda x: np.frombuffer(bytes(x)).sum(), "tobytes": lambda x: np.frombuffer(x.tobytes()).sum(),
    "frombuffer": lambda x: np.frombuffer(x).sum(),
    "Decimal": lambda x: float(decimal.Decimal(x[0])),
    "Fraction": lambda x: float(fractions.Fraction(x[0])),
    "fmean": lambda x: statistics.fmean(x),
    "stdev": lambda x: statistics.stdev(x.tolist()),
    "hex": lambda x: float.fromhex(x[0].hex()),
    "float.hex": lambda x: float.fromhex(float.hex(x[0])),
    "as_integer_ratio": lambda x: x[0].as_integer_ratio()[0] * 1.0,
    "float.__add__": lambda x: float.__add__(x[0], 1.0),
    "ndarray.sum": lambda x: np.ndarray.sum(x),
    "ctypes": lambda x: ctypes.c_double(x[0]).value,
    "timedelta": lambda x: datetime.timedelta(seconds=x[0]).total_seconds(),
    "gamma": lambda x: np.random.default_rng(0).gamma(x[0], 1.0),
    "frompyfunc": lambda x: np.sum(np.frompyfunc(lambda v: v * v, 1, 1)(x)),
    "nditer": lambda x: sum(float(v) for v in np.nditer(x)),
    "view": lambda x: x.view(np.int64).sum() * x[0],
    "save": lambda x: _through_a_file(np.save, np.load, io.BytesIO(), x),
    "savetxt": lambda x: _through_a_file(np.savetxt, np.loadtxt, io.StringIO(), x),
    "ctypes of an array": lambda x: x.ctypes.data * x[0],
    "array2string": lambda x: float(np.array2string(x[0])), "captured buffer": lambda x: _stored(BUFFER, 0, x[0])[0],
    "integer array": lambda x: np.sum(_stored(np.zeros(3, int), 0, x[0])) * x[1],
    "record array": lambda x: np.sum(_stored(np.zeros(3, [("a", float)]), "a", x)["a"]),
    "matrix": lambda x: np.matrix(x).sum(), "quad": lambda x: integrate.quad(lambda t: t * x[0], 0, 1)[0],
    "clough": lambda x: interpolate.CloughTocher2DInterpolator(np.eye(3, 2), x)(0.5, 0.2),
    "hessenberg": lambda x: linalg.hessenberg(np.outer(x, x) / 9)[0, 0],
    "siegelslopes": lambda x: stats.siegelslopes(x)[0],
    "generic_filter": lambda x: ndimage.generic_filter(x, np.ptp, 3)[0],
    "minimize": lambda x: optimize.minimize(lambda t: np.sum((t - x) ** 2), np.zeros(3)).x[0],
}  # fmt: skip

# What is right, although it looks alike: each of these must give the slope of finite differences.
RIGHT: dict[str, Function] = {
    "complex": lambda x: abs(complex(x[0])), "complex of two": lambda x: abs(complex(x[0], x[1])),
    "np.float64": lambda x: np.float64(x[0]) * x[1], "np.double of an array": lambda x: np.sum(np.double(x)),
    "cmath": lambda x: cmath.exp(x[0]).real, "python conjugate": lambda x: complex(x[0], x[1]).conjugate().imag * x[2],
    "type of a conjugate": lambda x: abs((-abs((float(1) * x[0].item() + 0j).conjugate().real)) ** 0.5),
    "item": lambda x: x[0].item() ** 2,
    "tolist": lambda x: sum(v * v for v in x.tolist()),
    "asarray": lambda x: np.sum(np.asarray(x) ** 2),
    "asarray of a list": lambda x: np.sum(np.asarray([x[0], x[1]]) ** 2), "int times": lambda x: int(x[0]) * 1.0 * x[1],
    "round times": lambda x: round(x[0]) * x[1], "array of floats": lambda x: np.sum(np.array(x, dtype=float) ** 2),
    "item of empty": lambda x: _stored(np.empty(1), 0, x[0])[0] * 3,
    "copy of a list": lambda x: copy.copy([x[0]])[0] * 2,
    "modf": lambda x: math.modf(x[0])[0],
    "ldexp": lambda x: math.ldexp(x[0], 2),
    "float.__mul__": lambda x: (x[0]).__mul__(2.0),
    "gauss": lambda x: random.Random(0).gauss(x[0], 1.0), "uniform": lambda x: random.Random(0).uniform(0, x[0]),
    "colorsys": lambda x: colorsys.rgb_to_hsv(x[0], x[1], x[2])[2],
    "bisect": lambda x: bisect.bisect([1.0, 2.0], x[0]) * x[1],
    "heapq": lambda x: heapq.nsmallest(1, x)[0] ** 2,
    "flat": lambda x: sum(v * v for v in x.flat),
    "ndenumerate": lambda x: sum(v * v * (i + 1) for (i,), v in np.ndenumerate(x)),
    "ndenumerate of a list": lambda x: sum(v * v * (i + 2 * j) for (i, j), v in np.ndenumerate([[1.0, x[0]], x[1:]])),
    "asarray_chkfinite": lambda x: np.sum(np.asarray_chkfinite([x[0], 1.0]) ** 2),
    "windows of a list": lambda x: np.sum(np.lib.stride_tricks.sliding_window_view([x[0], 1.0, x[1]], 2) ** 2),
    "nditer of constants": lambda x: sum(float(v) for v in np.nditer(np.ones(3))) * x[0],
    "set": lambda x: max({x[0], x[1]}) ** 2,
    "dict key": lambda x: {x[0]: 2.0}[x[0]] * x[1],
    "fromiter": lambda x: np.sum(np.fromiter((v * v for v in x), float)),
    "slice of a list": lambda x: np.sum(_stored(np.zeros(3), slice(0, 2), [x[0], x[1]]) ** 2),
}  # fmt: skip

# Texts of numbers are decisions; who reads numbers back from them gets plain ones.
TEXTS: dict[str, Function] = {
    "str": lambda x: float(str(x[0])),
    "repr": lambda x: float(repr(x[0]).removeprefix("np.float64(").removesuffix(")")),
    "format": lambda x: float(f"{x[0]:.17g}") * x[1],
    "fromstring": lambda x: np.fromstring(" ".join(map(str, x)), sep=" ").sum(),
    "np.array of text": lambda x: float(np.array([str(x[0])])[0]),
}  # fmt: skip


@pytest.mark.parametrize("name", RAISES)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_what_loses_a_derivative_raises(name: str) -> None:
    """One of our errors with the user's line; Python's own ``TypeError`` where C code looks at the type itself."""
    for x in XS:
        with pytest.raises((YotaError, TypeError, struct.error)) as info:
            grad(RAISES[name], x)
        ours = (LostDerivativeError, MissingRuleError, MutationError)
        assert not isinstance(info.value, ours) or "test_traps_lost.py:" in str(info.value)


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_alike_is_right(name: str) -> None:
    for x in [*XS, *XS]:
        agree(RIGHT[name], x, against=("plain", "differences"))


@pytest.mark.parametrize("name", TEXTS)
def test_a_number_that_goes_through_a_text_is_a_constant(name: str) -> None:
    """Of the branch where the text is this one; ``docs/conventions.md`` says so."""
    for x in [*XS, *XS]:
        value, (g,) = grad(lambda x: TEXTS[name](x) + x[2], x)
        assert_allclose(value, TEXTS[name](x) + x[2], rtol=1e-12)
        assert_array_equal(g, [0.0, x[0] if name == "format" else 0.0, 1.0])


def test_a_callback_of_compiled_code_that_loses_a_derivative_says_so() -> None:
    for x in XS:
        with pytest.raises(LostDerivativeError):
            grad(lambda x: optimize.brentq(lambda t: t * t - x[0], 0, 9), x)


@pytest.mark.parametrize("error", [SystemError, ValueError])
def test_a_lost_derivative_is_said_although_compiled_code_says_something_else(error: type[Exception]) -> None:
    """What compiled code does with an error of its callback depends on what the callback does next."""
    def careless(x: Any) -> Any:
        try:
            return float(x[0])
        except LostDerivativeError:
            raise error("f(a) and f(b) must have different signs") from None

    for x in XS:
        with pytest.raises(LostDerivativeError) as info:
            grad(careless, x)
        assert isinstance(info.value.__cause__, error)


# ------------------------------------------------- a tracer kept after its trace ended, or stored in a global

_USES: dict[str, Callable[[Any], Any]] = {
    "add": lambda t: t + 1,
    "reflected": lambda t: np.ones(3) * t,
    "sum": np.sum,
    "ufunc": np.sin,
    "item": lambda t: t[0],
    "if": lambda t: bool(t[0] > 0), "float": lambda t: float(t[0]), "method": lambda t: t.mean(), "list": list,
    "matmul": lambda t: t @ t, "assignment": lambda t: t.__setitem__(0, 1.0), "in place": lambda t: t.__iadd__(1.0),
    "array": lambda t: np.array([t[0], 1.0]),
    "concatenate": lambda t: np.concatenate([t, t]),
    "property": lambda t: t.T,
    "asarray": lambda t: t.__array__(), "differentiate": lambda t: grad(lambda x: np.sum(x * t), np.ones(3)),
    "as an argument": lambda t: grad(np.sum, t),
    "in": lambda t: 2.0 in t,
    "max": max,
    "where": lambda t: np.where(t, 1, 2),
    "copy": lambda t: t.copy(), "tolist": lambda t: t.tolist(),
}  # fmt: skip


def _kept(how: str) -> Any:
    names: dict[str, Any] = {"np": np, "kept": []}
    body = {
        "global": "def f(x):\n    global last\n    last = x * 2\n    return np.sum(last)",
        "closure": "def f(x):\n    kept.append((x * 2,))\n    return np.sum(x)",
        "generator": "def g(y):\n    yield y\ndef f(x):\n    kept.append(g(x * 2))\n    return np.sum(x)",
        "lambda": "def f(x):\n    y = x * 2\n    kept.append(lambda: y)\n    return np.sum(x)",
    }[how]
    exec(compile(body, "kept.py", "exec"), names)
    grad(names["f"], np.ones(3))
    if how == "global":
        return names["last"]
    item = names["kept"][0]
    return item[0] if how == "closure" else next(item) if how == "generator" else item()


@pytest.mark.parametrize("how", ["global", "closure", "generator", "lambda"])
@pytest.mark.parametrize("use", _USES)
def test_a_tracer_kept_after_its_trace_says_where_it_was_made(how: str, use: str) -> None:
    """Or it is a plain value by then."""
    for _ in range(3):
        kept = _kept(how)
        if type(kept) is np.ndarray:
            assert_array_equal(kept, [2.0, 2.0, 2.0])
            continue
        with pytest.raises(YotaError, match=r"after its trace had ended|kept.py") as info:
            _USES[use](kept)
        assert "trace had ended" in str(info.value) and "made at kept.py:" in str(info.value)
        assert str(kept) == "[2. 2. 2.]" and kept.shape == (3,)


_NUMBER_USES: dict[str, Callable[[Any], Any]] = {
    "float": float, "complex": complex, "pickle": pickle.dumps, "deepcopy": copy.deepcopy, "copy": copy.copy,
    "asarray": np.asarray, "math": math.sin, "int": int, "round": round, "hash": hash, "add": lambda t: t + 1,
    "compare": lambda t: t > 0, "abs": abs, "if": bool, "divmod": lambda t: divmod(t, 2), "max": lambda t: max(t, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("use", _NUMBER_USES)
def test_a_number_kept_after_its_trace_says_where_it_was_made(use: str) -> None:
    kept: list[Any] = []
    body = "def f(x):\n    y = x * 2\n    kept.append(y for y in [y])\n    return y * x"
    names: dict[str, Any] = {"kept": kept}
    exec(compile(body, "kept.py", "exec"), names)
    for x in (1.0, 2.0, np.float64(3.0)):
        grad(names["f"], x)
        with pytest.raises(YotaError) as info:
            _NUMBER_USES[use](next(kept.pop()))
        assert "trace had ended" in str(info.value) and "made at kept.py:2" in str(info.value)
