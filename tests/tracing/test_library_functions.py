"""Functions of libraries that have no rule: the error names them, and the line of the user's that calls them."""

from __future__ import annotations

import fractions
import functools
import pickle
import re
import struct
from collections.abc import Callable
from typing import Any

import mpmath
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.integrate as si
import scipy.interpolate as sip
import scipy.linalg as sl
import scipy.optimize as so
import scipy.spatial as sp
import scipy.stats as st
import sklearn.decomposition
import sklearn.linear_model
import sklearn.metrics
import sklearn.preprocessing
import sympy

from yota_py import LostDerivativeError, MissingRuleError, grad, jit, stop_gradient, value_and_grad

X = np.array([[1.0, 0.2, 0.1], [0.2, 2.0, 0.3], [0.1, 0.3, 3.0]])
V = np.linspace(0.1, 0.9, 8)
T = np.arange(8.0)
SPLINE = sip.Akima1DInterpolator(T, T)
SYMBOL = sympy.Symbol("t")

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "scipy.stats.spearmanr": lambda x: st.spearmanr(x, T),
    "scipy.optimize.minimize": lambda x: so.minimize(lambda p: np.sum((p - 1) ** 2), x).fun,
    "scipy.optimize.root": lambda x: so.root(lambda p: p**2 - 2, x).x,
    "scipy.optimize.nnls": lambda x: so.nnls(X, x[:3])[0],
    "scipy.optimize.linprog": lambda x: so.linprog(x).fun,
    "scipy.optimize.curve_fit": lambda x: so.curve_fit(lambda t, a: a * t, T, x)[0],
    "scipy.linalg.rsf2csf": lambda x: sl.rsf2csf(np.triu(X) * x[0], X)[0],
    "scipy.linalg.hessenberg": lambda x: sl.hessenberg(X * x[0]),
    "scipy.linalg.ldl": lambda x: sl.ldl(X * x[0])[1],
    "scipy.linalg.matrix_balance": lambda x: sl.matrix_balance(X * x[0])[0],
    "scipy.linalg.qz": lambda x: sl.qz(X * x[0], X)[0],
    "scipy.integrate.odeint": lambda x: si.odeint(lambda y, t: -y, x, [0, 1.0]),
    "scipy.spatial.cKDTree": lambda x: sp.cKDTree(X * x[0]).query(X)[0],
    "sklearn.metrics.roc_auc_score": lambda x: sklearn.metrics.roc_auc_score([0, 1] * 4, x),
    "sklearn.metrics.pairwise.rbf_kernel": lambda x: sklearn.metrics.pairwise.rbf_kernel(X * x[0]),
    "sklearn.metrics.r2_score": lambda x: sklearn.metrics.r2_score(T, x),
    "sklearn.preprocessing.scale": lambda x: sklearn.preprocessing.scale(x),
    "fit_transform": lambda x: sklearn.decomposition.PCA(2).fit_transform(X * x[0]),
    "fit": lambda x: sklearn.linear_model.LinearRegression().fit(X * x[0], T[:3]).coef_,
    "pandas.DataFrame": lambda x: pd.DataFrame({"a": x}).sum(),
    "pandas.qcut": lambda x: pd.qcut(x, 3),
    "pandas.factorize": lambda x: pd.factorize(x)[1],
    "pickle.dumps": lambda x: len(pickle.dumps(x)),
    "struct.pack": lambda x: len(struct.pack("d", x[0])),
    "fractions.Fraction.from_float": lambda x: float(fractions.Fraction.from_float(x[0])),
    "scipy.integrate.solve_ivp": lambda x: si.solve_ivp(lambda t, y: -y * x[0], [0, 1], [1.0]).y,
    "poisson": lambda x: np.random.poisson(x),
    "gamma": lambda x: np.random.default_rng(0).gamma(x, 1.0),
    "sympy.sin": lambda x: float(sympy.sin(x[0])),
    "mpmath.exp": lambda x: float(mpmath.exp(x[0])),
    "an operator of mpmath objects": lambda x: float(mpmath.mpf(2) * x[0]),
    "an operator of sympy objects": lambda x: float((x[0] * SYMBOL).subs(SYMBOL, 2.0)),
    "networkx.from_numpy_array": lambda x: nx.from_numpy_array(X * x[0]).size("weight"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_and_the_line_are_named(name: str) -> None:
    f = FUNCTIONS[name]
    line = f.__code__.co_firstlineno
    f(V)  # it is right without a gradient
    with pytest.raises((LostDerivativeError, MissingRuleError)) as caught:
        grad(lambda x: np.sum(f(x)), V)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"test_library_functions.py:{line}: "), first
    assert re.search(rf"(^|[ .]){re.escape(name)}( computes|, which|\(\.\.\.\) draws)", first), first


@pytest.mark.parametrize("name", ["scipy.linalg.ldl", "scipy.linalg.hessenberg", "scipy.linalg.matrix_balance"])
def test_without_a_gradient_they_are_called_as_they_are(name: str) -> None:
    step = jit(FUNCTIONS[name])
    for scale in (1.0, 2.0, 1.0):
        np.testing.assert_array_equal(step(V * scale + scale**2), FUNCTIONS[name](V * scale + scale**2))


def _by_another_name(x: Any) -> Any:
    g = sl.hessenberg
    return g(x)


@pytest.mark.parametrize(("f", "x", "name"), [
    (sl.hessenberg, X, "scipy.linalg.hessenberg"), (_by_another_name, X, "scipy.linalg.hessenberg"),
])  # fmt: skip
def test_one_that_is_differentiated_itself_is_named(f: Any, x: Any, name: str) -> None:
    for call in (lambda: grad(f, x), lambda: value_and_grad(f)(x), lambda: jit(lambda x: grad(f, x))(x),
                 lambda: grad(lambda y: grad(f, y)[1][0], x)):  # fmt: skip
        with pytest.raises(LostDerivativeError, match=rf"^test_library_functions.py:\d+: {re.escape(name)} computes"):
            call()


@pytest.mark.parametrize(("f", "said"), [
    (lambda x: functools.partial(np.sum, axis=0)([x, x]), "numpy.sum computes on plain values here: a conversion"),
    (lambda x: np.sum(functools.reduce(np.add, [[x, x], [x, 1.0]])), "a conversion to a plain array"),
    (lambda x: sum(map(complex, [x], [x])).real, "complex(a, b) of a traced value"),
    (lambda x: np.frompyfunc(lambda t: t * t, 1, 1)(x), "f is <lambda> (vectorized): no rule for f, which was"),
    (lambda x: x.as_integer_ratio()[0] * x, "x.as_integer_ratio is not supported on a traced value. Where"),
    (lambda x: (x * T).tofile("no file"), "x.tofile is not supported on a traced value. Save the value alone: np.save"),
])  # fmt: skip
def test_what_is_said_of_others(f: Any, said: str) -> None:
    with pytest.raises((LostDerivativeError, MissingRuleError)) as caught:
        grad(f, 0.5)
    assert re.match(rf"test_library_functions.py:\d+: {re.escape(said)}", str(caught.value))


def test_the_advice_is_right() -> None:
    assert grad(lambda x: np.sum(np.array([t * t for t in np.array([x, 2.0])])), 3.0) == (13.0, (6.0,))
    for x in (1.5, 2.5, 0.25, 3.0):
        assert grad(lambda x: stop_gradient(x).as_integer_ratio()[0] * x, x)[1] == (x.as_integer_ratio()[0],)
        assert grad(lambda x: stop_gradient(x * T).tobytes()[15] * x, x)[1] == ((x * T).tobytes()[15],)


@pytest.mark.parametrize("name", ["sympy.sin", "mpmath.exp", "an operator of sympy objects"])
def test_of_numbers_without_derivative_they_are_computed(name: str) -> None:
    for scale in (1.0, 2.0, 3.0, 1.0):
        want = FUNCTIONS[name]([scale])
        value, (g,) = grad(lambda x: FUNCTIONS[name]([float(stop_gradient(x))]) * x, scale)
        np.testing.assert_allclose([value, g], [want * scale, want])
