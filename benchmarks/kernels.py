"""Compiled kernels against NumPy's and JAX's own functions: `python -m benchmarks.kernels` from the repository's root.

Each row is one function of arrays, without its gradient, of three sizes: what NumPy takes a call, and how many times
as long the others take. The goal is twice NumPy's time at most, from 1,000 elements on. Minima of interleaved rounds,
on one core, without audits; results are compared with NumPy's before they are timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any

import numpy
import scipy.linalg
from scipy import special

from benchmarks.environment import pinning, restart_single_threaded
from benchmarks.measure import QUICK, Effort, Timing, autorange, sample, warm_up
from benchmarks.peers import Args, aligned, load_jax, load_yota
from benchmarks.report import ABSENT, align

SIZES = (10, 1_000, 100_000)
SHORT = Effort(rounds=7, sample_seconds=0.004, warm_up_seconds=0.02)
GOAL = 2.0
PRECISION = {"float32": 1e-5, "float16": 2e-3}
OF_SCIPY = ("expit", "erf", "erfinv", "gammaln", "digamma", "ndtr", "log_ndtr", "ndtri", "i0", "i1", "j0", "j1")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of arrays by the module that a library offers, and its arguments of n elements."""

    name: str
    function: Callable[[Any], Callable[..., Any]]
    make: Callable[[int], Args]
    # SciPy's functions take no arrays of JAX.
    in_jax: bool = True


def uniform(low: float, high: float, count: int = 1, dtype: Any = numpy.float64) -> Callable[[int], Args]:
    """So many vectors."""
    return lambda n: tuple(numpy.random.default_rng(i).uniform(low, high, n).astype(dtype) for i in range(count))


def square(count: int = 1, order: Any = "C") -> Callable[[int], Args]:
    """So many matrices."""
    def make(n: int) -> Args:
        shape = (int(n**0.5),) * 2
        return tuple(numpy.asarray(numpy.random.default_rng(i).normal(size=shape), order=order) for i in range(count))

    return make


def positive(n: int) -> Args:
    """A matrix that is positive definite, and a vector."""
    matrix = square()(n)[0]
    return matrix @ matrix.T + len(matrix) * numpy.eye(len(matrix)), numpy.arange(1.0, len(matrix) + 1)


def stacked(n: int) -> Args:
    """Positive definite matrices of 3 rows, as many as have n elements, and a vector for each."""
    matrices = numpy.random.default_rng(0).normal(size=(max(n // 9, 1), 3, 3))
    return matrices @ matrices.swapaxes(1, 2) + 3 * numpy.eye(3), matrices[:, :, :1].copy()


def complex_vectors(n: int) -> Args:
    a, b, c, d = uniform(0.5, 2, 4)(n)
    return a + 1j * b, c + 1j * d


def integers(dtype: Any) -> Callable[[int], Args]:
    """Two vectors of so wide integers, none of them zero."""
    return lambda n: tuple(numpy.random.default_rng(i).integers(1, 100, n).astype(dtype) for i in range(2))


def table(n: int) -> Args:
    """Points, and a table of 100 of them with values."""
    x, values = numpy.random.default_rng(0).uniform(0, 100, n), numpy.random.default_rng(1).normal(size=100)
    return x, numpy.arange(100.0), values


def drawn(n: int) -> Args:
    """A vector, and as many places in it."""
    rng = numpy.random.default_rng(0)
    return rng.normal(size=n), rng.integers(0, n, n)


def indexed(n: int) -> Args:
    """A matrix, and an index for each of its rows."""
    matrix = square()(n)[0]
    return matrix, numpy.random.default_rng(1).integers(0, len(matrix), len(matrix))


def _ufunc(name: str, *ranges: float, count: int = 1) -> Iterator[Kernel]:
    for dtype in (numpy.float64, numpy.float32):
        title = f"{name}, float32" if dtype is numpy.float32 else name
        yield Kernel(title, attrgetter(name), uniform(ranges[0], ranges[1], count, dtype))


def _of_arrays(make: Callable[[int], Args], **functions: Callable[..., Any]) -> Iterator[Kernel]:
    return (Kernel(name.replace("_", " "), function, make) for name, function in functions.items())


KERNELS = [
    *_ufunc("exp", -5, 5), *_ufunc("log", 0.1, 9), *_ufunc("sin", -9, 9), *_ufunc("tanh", -3, 3),
    *_ufunc("arcsin", -1, 1), *_ufunc("arccos", -1, 1), *_ufunc("arctan", -5, 5), *_ufunc("arcsinh", -5, 5),
    *_ufunc("arccosh", 1, 9), *_ufunc("arctanh", -1, 1), *_ufunc("cbrt", -5, 5), *_ufunc("arctan2", -5, 5, count=2),
    *_ufunc("power", 0.1, 5, count=2),
    *_of_arrays(uniform(0, 1), any_at_once=lambda np: lambda x: np.any(x > 0.5),
                all_at_once=lambda np: lambda x: np.all(x > 0.5),
                any_in_vain=lambda np: lambda x: np.any(x > 2), argmax=lambda np: lambda x: np.argmax(x),
                repeat=lambda np: lambda x: np.repeat(x, 3), cumsum=lambda np: lambda x: np.cumsum(x)),
    *_of_arrays(uniform(0.9, 1.1), cumprod=lambda np: lambda x: np.cumprod(x), prod=lambda np: lambda x: np.prod(x)),
    *_of_arrays(square(2), transposes=lambda np: lambda a, b: a.T + b.T, one_transpose=lambda np: lambda a, b: a + b.T),
    *_of_arrays(square(2, "F"), Fortran_order=lambda np: lambda a, b: a + b),
    *_of_arrays(square(), sum_of_rows_of_a_transpose=lambda np: lambda a: np.sum(a.T, axis=1),
                sum_of_columns_of_a_transpose=lambda np: lambda a: np.sum(a.T, axis=0),
                argmax_of_rows=lambda np: lambda a: np.argmax(a, axis=1),
                argmin_of_columns=lambda np: lambda a: np.argmin(a, axis=0),
                repeat_rows=lambda np: lambda a: np.repeat(a, 2, axis=0),
                cumsum_of_rows=lambda np: lambda a: np.cumsum(a, axis=1),
                cumsum_of_columns=lambda np: lambda a: np.cumsum(a, axis=0),
                any_in_columns=lambda np: lambda a: np.any(a > 3, axis=0)),
    *_of_arrays(indexed, take_rows=lambda np: lambda a, i: np.take(a, i, axis=0),
                take_columns=lambda np: lambda a, i: np.take(a, i, axis=1)),
    *_of_arrays(uniform(0, 1), sort=lambda np: lambda x: np.sort(x), argsort=lambda np: lambda x: np.argsort(x),
                partition=lambda np: lambda x: np.partition(x, len(x) // 2)[len(x) // 2],
                median=lambda np: lambda x: np.median(x),
                quantile=lambda np: lambda x: np.quantile(x, 0.3)),
    *_of_arrays(drawn, gather=lambda np: lambda x, i: x[i]),
    *_of_arrays(square(), sort_of_rows=lambda np: lambda a: np.sort(a, axis=1),
                sort_of_columns=lambda np: lambda a: np.sort(a, axis=0),
                median_of_rows=lambda np: lambda a: np.median(a, axis=1)),
    *_of_arrays(table, interp=lambda np: lambda x, at, values: np.interp(x, at, values),
                searchsorted=lambda np: lambda x, at, values: np.searchsorted(at, x)),
    *_of_arrays(complex_vectors, complex_sum=lambda np: lambda a, b: a + b,
                complex_product=lambda np: lambda a, b: a * b,
                complex_quotient=lambda np: lambda a, b: a / b, complex_absolute=lambda np: lambda a, b: np.abs(a),
                complex_exp=lambda np: lambda a, b: np.exp(a), complex_log=lambda np: lambda a, b: np.log(a),
                complex_sqrt=lambda np: lambda a, b: np.sqrt(a), complex_sin=lambda np: lambda a, b: np.sin(a),
                complex_reduction=lambda np: lambda a, b: np.sum(a * np.conj(b))),
    *(Kernel(f"{title} of {dtype}", function, integers(dtype))
      for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint64")
      for title, function in {"sum": lambda np: lambda a, b: a + b, "product": lambda np: lambda a, b: a * b}.items()),
    *_of_arrays(integers("int64"), floor_quotient=lambda np: lambda a, b: a // b,
                remainder=lambda np: lambda a, b: a % b),
    *_of_arrays(uniform(0.5, 2, 2, numpy.float16), float16_sum=lambda np: lambda a, b: a + b,
                float16_product=lambda np: lambda a, b: a * b, float16_exp=lambda np: lambda a, b: np.exp(a)),
    *_of_arrays(positive, solve=lambda np: lambda a, b: np.linalg.solve(a, b),
                inv=lambda np: lambda a, b: np.linalg.inv(a),
                cholesky=lambda np: lambda a, b: np.linalg.cholesky(a), det=lambda np: lambda a, b: np.linalg.det(a),
                slogdet=lambda np: lambda a, b: np.linalg.slogdet(a)[1],
                eigvalsh=lambda np: lambda a, b: np.linalg.eigvalsh(a),
                eigh=lambda np: lambda a, b: np.linalg.eigh(a)[0], svd=lambda np: lambda a, b: np.linalg.svd(a)[1],
                qr=lambda np: lambda a, b: np.abs(np.linalg.qr(a)[1]), matrix_product=lambda np: lambda a, b: a @ a,
                product_of_transposes=lambda np: lambda a, b: a.T @ a.T,
                matrix_and_vector=lambda np: lambda a, b: a @ b,
                strided_product=lambda np: lambda a, b: a[::2, ::2] @ a[::2, ::2]),
    *_of_arrays(stacked, batched_product=lambda np: lambda a, b: a @ a,
                batched_solve=lambda np: lambda a, b: np.linalg.solve(a, b),
                batched_inv=lambda np: lambda a, b: np.linalg.inv(a),
                batched_cholesky=lambda np: lambda a, b: np.linalg.cholesky(a),
                batched_det=lambda np: lambda a, b: np.linalg.det(a),
                batched_eigh=lambda np: lambda a, b: np.linalg.eigh(a)[0],
                batched_svd=lambda np: lambda a, b: np.linalg.svd(a)[1]),
    *_of_arrays(uniform(-1, 1), fft=lambda np: lambda x: np.fft.fft(x), rfft=lambda np: lambda x: np.fft.rfft(x),
                irfft=lambda np: lambda x: np.fft.irfft(x)),
    *_of_arrays(square(), fft2=lambda np: lambda a: np.fft.fft2(a), pairwise_distances=lambda np: lambda a: np.sqrt(
                np.sum((a[:, None, :3] - a[None, :, :3]) ** 2, axis=-1))),
    *(Kernel(name, lambda np, name=name: getattr(special, name),
             uniform(0.1, 0.9 if name in ("erfinv", "ndtri") else 5), in_jax=False) for name in OF_SCIPY),
    Kernel("solve triangular", lambda np: lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True), positive,
           in_jax=False),
]  # fmt: skip


Adapter = Callable[[Callable[[Any], Callable[..., Any]]], Callable[..., Any]]


def times(kernel: Kernel, n: int, peers: dict[str, Adapter], effort: Effort) -> dict[str, float]:
    """The shortest call of each library, in seconds."""
    args = tuple(aligned(x) if x.flags.c_contiguous else x for x in kernel.make(n))
    want = kernel.function(numpy)(*args)
    calls = {name: (partial(adapt(kernel.function), *args),) for name, adapt in peers.items()}
    for (call,) in calls.values():
        numpy.testing.assert_allclose(call(), want, rtol=PRECISION.get(args[0].dtype.name, 1e-10), atol=1e-12)
    for call in calls.values():
        warm_up(call, effort, Timing())
    counts = {name: autorange(call, effort.sample_seconds) for name, call in calls.items()}
    rounds = [{name: sample(call, counts[name]) / counts[name] for name, call in calls.items()}
              for _ in range(effort.rounds)]  # fmt: skip
    return {name: min(found[name] for found in rounds) for name in calls}


def adapters() -> dict[str, Adapter]:
    """By library, what makes a function of NumPy arrays of a kernel's; JAX only if it is installed."""
    library = load_yota()
    library.config.audit = "off"

    peers: dict[str, Adapter] = {"NumPy": lambda f: f(numpy), "yota_py": lambda f: library.jit(f(numpy))}
    try:
        jax = load_jax()
    except ImportError:
        return peers

    def adapt(f: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
        g = jax.jit(f(import_module("jax.numpy")))
        return lambda *xs: numpy.asarray(g(*xs))

    return {**peers, "JAX": adapt}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; the goals are for people to judge, not for the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short samples, for tests")
    parser.add_argument("--only", metavar="TEXT", default="", help="kernels whose names hold this")
    options = parser.parse_args(argv)
    print(f"pinned: {pinning()}")
    peers, body, missed = adapters(), [], []
    for kernel in (k for k in KERNELS if options.only in k.name):
        row = [kernel.name]
        for n in SIZES:
            usable = {name: adapt for name, adapt in peers.items() if name != "JAX" or kernel.in_jax}
            found = times(kernel, n, usable, QUICK if options.quick else SHORT)
            theirs = found["NumPy"]
            ratios = [f"{found[name] / theirs:.2f}" if name in found else ABSENT for name in ("yota_py", "JAX")]
            row += [f"{1e6 * theirs:.2f}", *ratios]
            if n > SIZES[0] and found["yota_py"] > GOAL * theirs:
                missed.append(f"{kernel.name} ({n:,})")
        body.append(row)
    header = ["kernel", *(cell for n in SIZES for cell in (f"NumPy µs, {n:,}", "yota_py", "JAX"))]
    print("\nkernels: NumPy's time, and the others' as multiples of it\n" + align(header, body))
    print(f"\nabove {GOAL:g} times NumPy's: {', '.join(missed) or 'none'}")
    return 0


if __name__ == "__main__":
    restart_single_threaded()
    sys.exit(main())
