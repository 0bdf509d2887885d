"""Every function with rules at its cases in single precision: results have dtypes, shapes and types as untraced."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from entries import OF_NUMPY, OF_SCIPY, called
from scipy import linalg, signal, stats
from scipy.interpolate import UnivariateSpline, splev, splint
from scipy.spatial import distance
from sets import SEQUENCES

from yota_py import grad, pullback
from yota_py.errors import NotDifferentiableError
from yota_py.registry.registry import Primitive, Sample
from yota_py.testing.finite import copied
from yota_py.tracing.stand_ins import Kept

NARROW = {"f8": np.float32, "c16": np.complex64}
MATRIX = np.random.default_rng(0).normal(size=(3, 4))
SINGLE = MATRIX.astype(np.float32)


def narrowed(x: Any) -> Any:
    """Numbers of NumPy's and arrays in single precision, in lists and tuples as well."""
    if type(x) in (list, tuple):
        return type(x)(map(narrowed, x))
    dtype = NARROW.get(x.dtype.str[1:]) if isinstance(x, np.ndarray | np.generic) else None
    return x if dtype is None else x.astype(dtype)


def kind(y: Any) -> Any:
    """What a result is; a number of Python's may come of numbers of Python's where NumPy has one of its own."""
    if isinstance(y, dict):
        return {name: kind(part) for name, part in y.items()}
    if isinstance(y, tuple | list):
        return tuple(map(kind, y))
    if isinstance(y, np.ndarray):
        return type(y).__name__, y.dtype, y.shape
    return type(y).__name__


def alike(have: Any, want: Any) -> bool:
    if isinstance(have, dict) and isinstance(want, dict):
        return have.keys() == want.keys() and all(alike(have[name], want[name]) for name in want)
    if isinstance(have, tuple) and isinstance(want, tuple) and have[:1] != ("ndarray",):
        return len(have) == len(want) and all(map(alike, have, want))
    return have == want or (have, want) in (("float", "float64"), ("complex", "complex128"))


# Of objects, which have no cases here, or of double precision alone.
OTHERS = {"stft", "stft_detrend", "spectrogram", "istft", "evaluated", "spline"}


def agree(f: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Compare, if there is something to be compared."""
    with Kept(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = kind(f(*copied(args), **copied(kwargs)))
        except Exception:  # any: what NumPy or SciPy refuses in single precision is not asked of us
            return False
        try:
            have = kind(pullback(lambda *xs: f(*xs, **kwargs), *args)[0])
        except NotDifferentiableError:  # of whole numbers only
            return True
    assert alike(have, want), (args, kwargs, have, want)
    return True


@pytest.mark.parametrize("entry", [*OF_NUMPY, *OF_SCIPY], ids=called)
def test_results_in_single_precision(entry: Primitive) -> None:
    cases = [case for draw in entry.cases for case in draw(Sample(0))]
    compared = [
        agree(entry.fn, narrowed(case.args), {name: narrowed(x) for name, x in case.kwargs.items()})
        for case in (cases if SEQUENCES else cases[:1])
    ]
    assert any(compared) or entry.name in OTHERS


PEAKS = np.array([0.0, 1.0, 0.5, 2.0, 1.0, 0.0])
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "average of int weights": lambda x: np.average(x, axis=0, weights=[1, 2, 3], returned=True),
    "average of all": lambda x: np.average(x, weights=np.ones((3, 4), int), returned=True),
    "average of double weights": lambda x: np.average(x, 1, np.arange(1.0, 5.0), returned=True, keepdims=True),
    "average of ints": lambda x: np.average(np.arange(4), weights=x[0] ** 2, returned=True),
    "average of single weights": lambda x: np.average([1, 2, 3, 4], weights=x[0] ** 2),
    "cov": lambda x: np.cov(x, fweights=[1, 2, 3, 1]), "bincount": lambda x: np.bincount([0, 1, 1, 3], weights=x[0]),
    "expm_frechet": lambda x: linalg.expm_frechet(x[:, :3], x[:, :3]),
    "expm_frechet complex": lambda x: linalg.expm_frechet(x[:, :3], 1j * x[:, :3]),
    "expm_frechet enlarged": lambda x: linalg.expm_frechet(x[:, :3], 1j * x[:, :3], "blockEnlarge"),
    "expm_frechet alone": lambda x: linalg.expm_frechet(x[:, :3], x[:, :3], compute_expm=False),
    "expm_frechet stacked": lambda x: linalg.expm_frechet(np.stack([x[:, :3], x[:, 1:]]), x[:, :3]),
    "vectorize": lambda x: np.vectorize(lambda a: a * 2)(x), "cached": lambda x: np.vectorize(np.sin, cache=True)(x),
    "vectorize of two": lambda x: np.vectorize(lambda a, b: (a * 2, a * b))(x, 1.5),
    "vectorize, signature": lambda x: np.vectorize(lambda a, b: np.sum(a) * b, signature="(n),()->()")(x, x[:, 0]),
    "vectorize, types": lambda x: np.vectorize(lambda a: a * 2, otypes="d")(x),
    **{f"{d} {t.__name__}": lambda x, d=d, t=t: getattr(distance, d)(x[0], (10 * x[1]).astype(t))
       for d in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "minkowski", "cosine", "correlation", "canberra")
       for t in (int, float, np.float32)},
    "distances with weights": lambda x: tuple([getattr(distance, d)(x[0], x[1], w=[1, 2, 3, 4]) for d in (
        "euclidean", "sqeuclidean", "cityblock", "chebyshev", "minkowski", "cosine", "correlation", "canberra",
        "braycurtis")]),
    "minkowski": lambda x: [distance.minkowski(x[0], x[1], p) for p in (1, 2.0, 3, np.inf)],
    "distances of counts": lambda x: tuple([getattr(distance, d)(x[0] > 0, x[1] > 0, abs(x[2])) for d in (
        "dice", "yule", "rogerstanimoto", "russellrao", "sokalsneath", "hamming", "jaccard")]),
    "scaled": lambda x: (distance.seuclidean(x[0], x[1], x[2] ** 2), distance.mahalanobis(x[0], x[1], np.eye(4))),
    "directed_hausdorff": lambda x: distance.directed_hausdorff(x, x + 1),
    "boxcox": lambda x: stats.boxcox(abs(x[0]), 0.3), "boxcox wide": lambda x: stats.boxcox(abs(x[0]), np.float64(0.3)),
    "yeojohnson": lambda x: (stats.yeojohnson(x[0], 0.3), stats.yeojohnson(x[0], np.float64(0.3))),
    "llf": lambda x: (stats.boxcox_llf(0.3, abs(x[0])), stats.boxcox_llf(np.float64(0.3), abs(x[0])),
                      stats.yeojohnson_llf(0.3, x[0])),
    "trimmed": lambda x: [f(x, (-1, 1)) for f in (stats.tmean, stats.tvar, stats.tstd, stats.tsem)],
    "linregress": lambda x: stats.linregress(x[0], x[1])._asdict(),
    "pearsonr": lambda x: [*stats.pearsonr(x[0], x[1])],
    "pearsonr of rows": lambda x: [*stats.pearsonr(x, x[::-1], axis=1)],
    "ttest_ind": lambda x: statistics(stats.ttest_ind(x[0], x[1])),
    "ttest_rel": lambda x: statistics(stats.ttest_rel(x[0], x[1])),
    "ttest_ind of rows": lambda x: statistics(stats.ttest_ind(x, x[::-1] ** 2, axis=1, alternative="less")),
    "welch": lambda x: statistics(stats.ttest_ind(x[0], x[1], equal_var=False)),
    "ttest_1samp": lambda x: statistics(stats.ttest_1samp(x, 0.5, alternative="greater")),
    "find_peaks": lambda x: signal.find_peaks(PEAKS * abs(x[0, 0]), height=0, width=0)[1]["peak_heights"],
    "histogram": lambda x: np.histogram_bin_edges(x, 3, (-1.0, 2.0)),
    "splines": lambda x: (splev(x[0], (np.arange(8.0), x[1], 3)), splint(3, x[0, 0], (np.arange(8.0), x[1], 3)),
                          UnivariateSpline(np.arange(4), x[0], s=0)(x[1])),
}  # fmt: skip


def statistics(result: Any) -> Any:
    return result.statistic, result.pvalue, result.df


@pytest.mark.parametrize("x", [SINGLE, MATRIX], ids=["single", "double"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_of_mixed_dtypes(name: str, x: np.ndarray) -> None:
    f = FUNCTIONS[name]
    f(x)
    assert agree(f, (x,), {})
    with np.errstate(all="ignore"):
        y, want = pullback(f, x)[0], f(x)
    single = x is SINGLE or "float32" in name
    for a, b in zip(*([*v.values()] if isinstance(v, dict) else v if isinstance(v, tuple | list) else [v]
                      for v in (y, want)), strict=True):  # fmt: skip
        np.testing.assert_allclose(a, b, 2e-5 if single else 1e-9, 1e-6 if single else 1e-12)


def test_gradients_through_the_dtypes() -> None:
    w = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    (dx,) = grad(lambda x: np.average(x, weights=[1, 2, 3, 4], returned=True)[0], SINGLE[0])[1]
    assert dx.dtype == np.float32
    np.testing.assert_allclose(dx, w / 10, rtol=1e-6)
    (dx,) = grad(lambda x: distance.euclidean(x, [0, 0, 0, 0]), w)[1]
    assert dx.dtype == np.float32
    np.testing.assert_allclose(dx, w / np.linalg.norm(w), rtol=1e-6)
    np.testing.assert_allclose(grad(lambda x: np.sum(np.vectorize(lambda a: a * a)(x)), w)[1][0], 2 * w)
