"""C code that the function calls gets real arrays, or an exception: nothing may take a traced value for an array.

Each call runs in a process of its own. ``make stress`` calls the public functions of SciPy, scikit-learn and
``np.random`` with arrays that the function makes, that it reads from elsewhere, and that it is given.
"""

from __future__ import annotations

import importlib
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from typing import Any

import numpy as np
import pytest
from sets import SEQUENCES

from yota_py import grad
from yota_py.base.dispatch import shadow
from yota_py.cache import functions as cache
from yota_py.errors import YotaError
from yota_py.testing.finite import copied

SECONDS = 20

MODULES = """numpy.random scipy.spatial scipy.spatial.distance scipy.spatial.transform scipy.interpolate scipy.signal
scipy.ndimage scipy.sparse scipy.sparse.csgraph scipy.sparse.linalg scipy.optimize scipy.stats scipy.stats.qmc
scipy.cluster.vq scipy.cluster.hierarchy scipy.linalg scipy.special scipy.integrate scipy.fft scipy.fftpack scipy.odr
scipy.differentiate sklearn.cluster sklearn.neighbors sklearn.tree sklearn.metrics sklearn.metrics.pairwise
sklearn.preprocessing sklearn.svm sklearn.linear_model sklearn.ensemble sklearn.decomposition sklearn.manifold
sklearn.gaussian_process sklearn.naive_bayes sklearn.isotonic sklearn.impute sklearn.covariance sklearn.mixture
sklearn.utils sklearn.model_selection sklearn.neural_network sklearn.feature_selection sklearn.cross_decomposition
""".split()
SAMPLE = {
    "numpy.random": "shuffle permutation choice randint normal uniform dirichlet multivariate_normal multinomial",
    "scipy.spatial": "Delaunay ConvexHull Voronoi KDTree cKDTree",
    "scipy.interpolate": "LinearNDInterpolator CloughTocher2DInterpolator PPoly",
    "scipy.signal": "lfilter",
    "scipy.ndimage": "label",
    "scipy.cluster.hierarchy": "linkage",
    "scipy.linalg": "circulant toeplitz hankel",
    "scipy.sparse.csgraph": "dijkstra",
    "scipy.stats": "ecdf rankdata",
    "sklearn.cluster": "KMeans",
    "sklearn.neighbors": "KDTree",
    "sklearn.tree": "DecisionTreeClassifier",
}
# Classes whose rules keep less in their objects than SciPy does: what the methods give is compared.
ONLY_METHODS = {"LinearNDInterpolator", "RBFInterpolator", "interp1d"}
# What sets or asks for something of the process, reads files or data sets, starts threads, begins with a vector
# that is drawn anew at each call, divides by what is 0 but for rounding (the density of points on a line), or is for
# triangular matrices, of which there are none here.
LEFT_OUT = frozenset(
    "test bytes get_state set_state seed get_bit_generator set_bit_generator set_workers eigs eigsh svds "
    "gaussian_kde spsolve_triangular".split()
)
_rng = np.random.default_rng(7)
V = np.linspace(0.1, 0.9, 8)
P = _rng.uniform(0.1, 1.0, (8, 2))
M = np.eye(4) + 0.1 * (lambda a: a @ a.T)(_rng.uniform(size=(4, 4)))
L = np.array([0, 1, 0, 1, 1, 0, 1, 0])
POOL: list[Any] = [P, V, M, L, 2, 0.5]
ARGUMENTS = [
    *((a,) for a in POOL), *((a, b) for a in POOL for b in POOL),
    *((a, b, c) for a in POOL[:3] for b in POOL for c in POOL), (V, V, V, V), (3, V), (V, 3, V),
]  # fmt: skip
METHODS = "fit fit_predict fit_transform predict transform query kneighbors evaluate rvs pdf".split()


def cases(name: str) -> list[Any]:
    """The public functions and classes of a module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module(name)
    found = {}
    for n in sorted(getattr(module, "__all__", None) or dir(module)):
        with suppress(AttributeError, ImportError):  # what is announced, or has to be switched on first
            found |= {n: getattr(module, n)} if not n.startswith("_") and n not in LEFT_OUT else {}
    return [n for n, thing in found.items() if callable(thing) and not _is_exception(thing)]


def _is_exception(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def work(thing: Any, args: tuple[Any, ...]) -> list[Any]:
    """What a function gives, or an object that is made of the arguments, and what its methods give."""
    np.random.seed(3)
    if not isinstance(thing, type):
        return [thing(*args)]
    try:
        made = thing(*args)
    except (TypeError, ValueError):
        made = thing()
    given: list[Any] = [] if thing.__name__ in ONLY_METHODS else [made]
    for name in METHODS:
        method = getattr(made, name, None)
        for some in (args, args[:1]):
            if method is not None:
                try:
                    given.append(method(*some))
                    break
                except (TypeError, ValueError, AttributeError) as error:
                    if isinstance(error, YotaError):
                        raise
    if callable(made):
        given.append(made(*args[:1]))
    return given


def numbers(value: Any, depth: int = 4) -> list[Any]:
    """The numbers and arrays in a result."""
    value = shadow(value)
    if isinstance(value, np.ndarray | np.generic | float | int | complex):
        return [np.asarray(value)] if np.asarray(value).dtype.kind in "fciub" else []
    if depth == 0:
        return []
    if hasattr(value, "toarray"):  # a sparse matrix keeps what it was made of in its own way
        return numbers(value.toarray())
    if isinstance(value, dict):
        return [n for key in sorted(value, key=str) for n in numbers(value[key], depth - 1)]
    if isinstance(value, tuple | list):
        return [n for item in value for n in numbers(item, depth - 1)]
    return numbers({k: v for k, v in getattr(value, "__dict__", {}).items() if not callable(v)}, depth - 1)


def alike(a: list[Any], b: list[Any]) -> bool:
    """Whether two results hold the same numbers."""
    if len(a) != len(b):
        return False
    return all(x.shape == y.shape and np.allclose(x, y, 1e-6, 1e-7, equal_nan=True) for x, y in zip(a, b, strict=True))


def soil(byte: int) -> None:
    """Leave something in free memory, so that what a library does not initialise (work space that splines keep) is not
    twice the same."""
    held = [np.full(size, byte, np.uint8) for size in range(4, 1028, 4) for _ in range(7)]
    held.clear()


def working(thing: Any) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """Arguments that a function takes, with arrays among them, and what it gives for them each time."""
    found = 0
    for args in ARGUMENTS:
        if found == 3 or not any(isinstance(a, np.ndarray) for a in args):
            continue
        own, other = copied(args), copied(args)
        try:
            soil(0x5A)
            first = numbers(work(thing, own))
            soil(0xA5)
            again = numbers(work(thing, other))
        except Exception:  # any: these arguments are not for this function
            continue
        found += 1
        if all(np.array_equal(a, b) for a, b in zip(own, args, strict=True)):  # it does not write into them
            yield args, first if alike(first, again) else []


def differences(thing: Any) -> Iterator[str]:
    """Where a function gives something else for traced values than for real arrays; an exception is none."""
    for args, wanted in working(thing):
        seen: list[Any] = []
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        held = [*arrays]
        lists = [a.tolist() if isinstance(a, np.ndarray) else a for a in args]

        def filled(arrays: Any, args: Any = args) -> tuple[Any, ...]:
            rest = iter(arrays)
            return tuple(next(rest) if isinstance(a, np.ndarray) else a for a in args)

        def made(x: Any, lists: Any = lists, seen: Any = seen) -> Any:
            given = tuple([np.array(a) if isinstance(a, list) else a for a in lists])
            seen.append(numbers(work(thing, given)))
            return x * x

        def captured(x: Any, held: Any = held, seen: Any = seen) -> Any:
            seen.append(numbers(work(thing, filled(held))))
            return x * x

        def given(*xs: Any, seen: Any = seen) -> Any:
            seen.append(numbers(work(thing, filled(xs))))
            return xs[0].sum()

        for f, own in ((made, [3.0]), (captured, [3.0]), (given, arrays)):
            what = f"{f.__name__}{tuple(getattr(a, 'shape', a) for a in args)}"
            cache.clear_caches()
            seen.clear()
            with suppress(Exception):  # any: it says that it does not take traced values
                grad(f, *own)
            if seen and wanted and not alike(seen[-1], wanted):
                yield f"{what}: differs"


def outcome(module: str, name: str) -> str:
    """What goes wrong when a function is called in a process of its own; empty if nothing does."""
    read, write = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            import resource

            signal.alarm(SECONDS)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            warnings.simplefilter("ignore")
            np.seterr(all="ignore")
            thing = getattr(importlib.import_module(module), name)
            for line in differences(thing):
                write.send(line)
            code = 0
        except BaseException as error:
            write.send(f"the test itself: {type(error).__name__}: {error}")
        finally:
            os._exit(code)
    write.close()
    lines = []
    while True:
        try:
            lines.append(read.recv())
        except EOFError:
            break
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGALRM:  # some take long
        lines.append(f"killed by signal {os.WTERMSIG(status)}")
    return "\n".join(f"{module}.{name}: {line}" for line in lines)


@pytest.mark.parametrize("module", MODULES if SEQUENCES else SAMPLE)
def test_functions_of_a_library(module: str) -> None:
    names = cases(module) if SEQUENCES else SAMPLE[module].split()
    wrong = [found for name in names if (found := outcome(module, name))]
    assert not wrong, "\n".join(wrong)
