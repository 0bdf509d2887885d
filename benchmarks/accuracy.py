"""The errors of compiled functions, derivatives and sums: `python -m benchmarks.accuracy` writes docs/accuracy.md."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from scipy import special

from yota_py import config, gradient, jit
from yota_py.errors import UncachedWarning

PAGE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
Number = Any  # of mpmath, which comes without types
Ranges = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Row:
    """A function, itself and its derivatives by its arguments in mpmath, and the range that each argument is from."""

    name: str
    fn: Callable[..., Any]
    exact: Callable[..., Number]
    slopes: tuple[Callable[..., Number], ...]
    ranges: Ranges


def _row(fn: Any, exact: Any, slope: Any, *ranges: tuple[float, float]) -> Row:
    name = f"{'np' if isinstance(getattr(np, fn.__name__, None), type(fn)) else 'special'}.{fn.__name__}"
    return Row(name, fn, exact, slope if isinstance(slope, tuple) else (slope,), ranges)


def _logistic(x: Number) -> Number:
    return 1 / (1 + mpmath.exp(-x))


def _gauss(x: Number) -> Number:
    return 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x)


def _erfcx(x: Number) -> Number:
    return mpmath.exp(x * x) * mpmath.erfc(x)


def _dawson(x: Number) -> Number:
    return mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x)


def _sinc_slope(x: Number) -> Number:
    t = mpmath.pi * x
    return (mpmath.cos(t) - mpmath.sin(t) / t) / x if x else mpmath.mpf(0)


def _logs(base: float) -> Callable[..., Number]:
    def exact(a: Number, b: Number) -> Number:
        return mpmath.log(mpmath.power(base, a) + mpmath.power(base, b)) / mpmath.log(base)

    return exact


mp = mpmath
ROWS = [
    _row(np.exp, mp.exp, mp.exp, (-700, 700)),
    _row(np.exp2, lambda x: mp.power(2, x), lambda x: mp.power(2, x) * mp.log(2), (-1000, 1000)),
    _row(np.expm1, mp.expm1, mp.exp, (-5, 5)),
    _row(np.log, mp.log, lambda x: 1 / x, (1e-3, 1e3)),
    _row(np.log2, lambda x: mp.log(x, 2), lambda x: 1 / (x * mp.log(2)), (1e-3, 1e3)),
    _row(np.log10, mp.log10, lambda x: 1 / (x * mp.log(10)), (1e-3, 1e3)),
    _row(np.log1p, mp.log1p, lambda x: 1 / (1 + x), (-0.99, 10)),
    _row(np.sqrt, mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), (0, 1e3)),
    _row(np.cbrt, mp.cbrt, lambda x: 1 / (3 * mp.cbrt(x) ** 2), (1e-3, 1e3)),
    _row(np.sin, mp.sin, mp.cos, (-1e3, 1e3)),
    _row(np.cos, mp.cos, lambda x: -mp.sin(x), (-1e3, 1e3)),
    _row(np.tan, mp.tan, lambda x: mp.sec(x) ** 2, (-1e3, 1e3)),
    _row(np.arcsin, mp.asin, lambda x: 1 / mp.sqrt(1 - x * x), (-1, 1)),
    _row(np.arccos, mp.acos, lambda x: -1 / mp.sqrt(1 - x * x), (-1, 1)),
    _row(np.arctan, mp.atan, lambda x: 1 / (1 + x * x), (-1e3, 1e3)),
    _row(np.sinh, mp.sinh, mp.cosh, (-20, 20)),
    _row(np.cosh, mp.cosh, mp.sinh, (-20, 20)),
    _row(np.tanh, mp.tanh, lambda x: mp.sech(x) ** 2, (-30, 30)),
    _row(np.arcsinh, mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x), (-1e3, 1e3)),
    _row(np.arccosh, mp.acosh, lambda x: 1 / mp.sqrt(x * x - 1), (1, 1e3)),
    _row(np.arctanh, mp.atanh, lambda x: 1 / (1 - x * x), (-1, 1)),
    _row(np.sinc, mp.sincpi, _sinc_slope, (-0.9, 0.9)),
    _row(special.expit, _logistic, lambda x: _logistic(x) * _logistic(-x), (-40, 40)),
    _row(special.log_expit, lambda x: -mp.log1p(mp.exp(-x)), lambda x: _logistic(-x), (-40, 40)),
    _row(special.logit, lambda x: mp.log(x / (1 - x)), lambda x: 1 / (x * (1 - x)), (0, 1)),
    _row(special.erf, mp.erf, _gauss, (-3, 3)),
    _row(special.erfc, mp.erfc, lambda x: -_gauss(x), (-3, 3)),
    _row(special.erfcx, _erfcx, lambda x: 2 * x * _erfcx(x) - _gauss(0), (-3, 100)),
    _row(special.dawsn, _dawson, lambda x: 1 - 2 * x * _dawson(x), (1.2, 50)),
    _row(special.ndtr, mp.ncdf, mp.npdf, (-3, 3)),
    _row(special.log_ndtr, lambda x: mp.log(mp.ncdf(x)), lambda x: mp.npdf(x) / mp.ncdf(x), (-30, 3)),
    _row(special.gammaln, mp.loggamma, mp.digamma, (3, 100)),
    _row(np.logaddexp, _logs(math.e), (lambda a, b: _logistic(a - b), lambda a, b: _logistic(b - a)),
         (0, 30), (0, 30)),
    _row(np.logaddexp2, _logs(2), (lambda a, b: _logistic((a - b) * mp.log(2)),), (0, 30), (0, 30)),
    _row(np.hypot, mp.hypot, (lambda a, b: a / mp.hypot(a, b), lambda a, b: b / mp.hypot(a, b)), (-9, 9), (-9, 9)),
    _row(np.arctan2, mp.atan2, (lambda b, a: a / (a * a + b * b), lambda b, a: -b / (a * a + b * b)), (-9, 9), (-9, 9)),
    _row(np.power, mp.power, (lambda a, b: b * mp.power(a, b - 1), lambda a, b: mp.power(a, b) * mp.log(a)),
         (0.1, 10), (-9, 9)),
]  # fmt: skip


def points(row: Row, count: int) -> list[np.ndarray]:
    """Arguments all over the ranges, and close to their ends, their middles and zero."""
    rng = np.random.default_rng(0)
    columns = []
    for low, high in row.ranges:
        spread = rng.uniform(low, high, count)
        close = np.exp(rng.uniform(-30, 0, count)) * (high - low) / 2
        at = rng.choice([low, high, (low + high) / 2, 0.0], count)
        inwards = np.where(at >= high, -close, close)
        near = np.clip(at + inwards, np.nextafter(low, high), np.nextafter(high, low))
        columns.append(np.where(rng.random(count) < 0.6, spread, near))
    return columns


def ulps(have: np.ndarray, exact: list[Number]) -> float:
    """The largest error in units of the last place of the exact result."""
    with mpmath.workprec(200):
        return max(float(abs(mpmath.mpf(float(h)) - e) / math.ulp(float(e))) for h, e in zip(have, exact, strict=True))


@dataclass(frozen=True)
class Errors:
    """Of a function: compiled, NumPy's or SciPy's, and of its derivatives."""

    row: Row
    value: float
    theirs: float
    slope: float


def measure(row: Row, count: int) -> Errors:
    """The largest errors at so many points."""
    args = points(row, count)
    with mpmath.workprec(200):
        numbers = [[mpmath.mpf(float(x)) for x in column] for column in args]
        exact = [row.exact(*xs) for xs in zip(*numbers, strict=True)]
        slopes = [[slope(*xs) for xs in zip(*numbers, strict=True)] for slope in row.slopes]
    fn = row.fn
    value = compiled(jit(lambda *xs: fn(*xs)), args)
    grads = [compiled(gradient(lambda *xs: np.sum(fn(*xs)), i), args) for i in range(len(row.slopes))]
    worst = max(ulps(have, want) for have, want in zip(grads, slopes, strict=True))
    return Errors(row, ulps(value, exact), ulps(row.fn(*args), exact), worst)


def compiled(f: Callable[..., Any], args: list[np.ndarray]) -> Any:
    """What compiled code gives: the second call, unless it is audited."""
    before, config.audit = config.audit, "off"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UncachedWarning)
            f(*args)
            return f(*args)
    finally:
        config.audit = before


# ---------------------------------------------------------------------------------------------------- sums

SUMS: dict[str, Callable[[int], np.ndarray]] = {
    "0.1": lambda n: np.full(n, 0.1),
    "uniform in [0, 1)": lambda n: np.random.default_rng(0).random(n),
    "normal": lambda n: np.random.default_rng(0).normal(size=n),
}


def sums(n: int) -> Iterator[tuple[str, str, float, float]]:
    """Terms, dtype, and the errors of compiled and of NumPy's sums, in epsilons of the sum of absolute values."""
    for name, draw in SUMS.items():
        for dtype in ("float64", "float32"):
            x = draw(n).astype(dtype)
            exact, scale = math.fsum(x), math.fsum(np.abs(x)) * float(np.finfo(dtype).eps)
            have = compiled(jit(lambda x: np.sum(x)), [x])
            yield name, dtype, abs(float(have) - exact) / scale, abs(float(np.sum(x)) - exact) / scale


# ---------------------------------------------------------------------------------------------------- page


def table(head: str, rows: list[list[str]]) -> str:
    """A table in Markdown."""
    columns = head.split("|")
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.strip() for cell in line) + " |" for line in lines)


def page(errors: list[Errors], totals: list[tuple[str, str, float, float]], count: int, n: int) -> str:
    """What stands in the documentation."""
    def shown(ranges: Ranges) -> str:
        return ", ".join(f"[{low:g}, {high:g}]" for low, high in ranges)

    functions = [
        [f"`{e.row.name}`", shown(e.row.ranges), f"{e.value:.2f}", f"{e.theirs:.2f}", f"{e.slope:.2f}"] for e in errors
    ]
    added = [[name, dtype, f"{have:.2f}", f"{theirs:.2f}"] for name, dtype, have, theirs in totals]
    text = PAGE.read_text(encoding="utf-8")
    for mark, body in (
        ("functions", table("function | arguments | value | NumPy, SciPy | derivative", functions)),
        ("sums", table("terms | dtype | compiled | NumPy", added)),
        ("counts", f"Measured at {count} points a function, and with {n:,} terms a sum."),
    ):
        start, end = f"<!-- {mark} -->\n", f"\n<!-- end of {mark} -->"
        before, _, rest = text.partition(start)
        text = before + start + body + end + rest.partition(end)[2]
    return text


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--points", type=int, default=5000, help="for each function (default: %(default)s)")
    parser.add_argument("--terms", type=int, default=10**7, help="for each sum (default: %(default)s)")
    parser.add_argument("--print", action="store_true", help="print the tables, and leave the page as it is")
    given = parser.parse_args()
    config.compile = "always"
    errors = [measure(row, given.points) for row in ROWS]
    text = page(errors, list(sums(given.terms)), given.points, given.terms)
    if given.print:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
