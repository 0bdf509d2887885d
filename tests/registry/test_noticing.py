"""Rules of functions that do not notice traced arguments by themselves."""

import copy
import functools
import math
from dataclasses import fields

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from scipy import special
from scipy.integrate import trapezoid
from scipy.signal import detrend

from yota_py import explain, grad, nondiff, primitive, rrule, scalar_rule, value_and_grad
from yota_py.base.dispatch import not_plain
from yota_py.registry import patches, registry
from yota_py.registry.composites import composite
from yota_py.registry.noticing import recorded
from yota_py.registry.registry import vjps


@pytest.fixture
def restored():
    """Rules and stand-ins are as before when the test ends."""
    registry.load_pending()  # later they would be gone with what is restored
    entries, patched = {fn: copy.copy(entry) for fn, entry in registry.entries.items()}, dict(patches.patched)
    kept = dict(registry.entries)
    yield
    registry.entries.clear()
    registry.entries.update(kept)
    for fn, entry in entries.items():
        for field in fields(entry):
            setattr(kept[fn], field.name, getattr(entry, field.name))
    patches.patched.clear()
    patches.patched.update(patched)
    for forget in registry.listeners:
        forget()


X = np.array([1.0, 2.0, 4.0])
OF_LIBRARIES = {
    "stand-in of its own": (special.logsumexp, lambda x: special.logsumexp(x)),
    "traced through": (scipy.stats.gmean, lambda x: scipy.stats.gmean(x)),
    "imported by name": (trapezoid, lambda x: trapezoid(x)),
    "without a rule, until now": (detrend, lambda x: np.sum(detrend(x))),
    "of the standard library": (math.exp, lambda x: math.exp(x[0])),
    "ufunc": (special.expit, lambda x: np.sum(special.expit(x))),
    "by NumPy's protocol": (np.trapezoid, lambda x: np.trapezoid(x)),
}


@pytest.mark.parametrize("name", OF_LIBRARIES)
@pytest.mark.parametrize("compiled", ["always", "never"])
def test_a_users_rule_is_asked_for_a_function_of_a_library(name, compiled, restored, monkeypatch):
    monkeypatch.setattr("yota_py.config.compile", compiled)
    fn, f = OF_LIBRARIES[name]
    known = value_and_grad(f)
    before = [known(X)[1] for _ in range(3)][-1]
    rrule(fn)(lambda x: (fn(x), lambda dy: (100 * dy * np.ones_like(x),)))
    want = np.where([True, name != "of the standard library", name != "of the standard library"], 100.0, 0.0)
    for _ in range(3):
        y, dx = known(X)
        assert y == pytest.approx(f(X))
        assert np.array_equal(dx, want)
    assert not np.allclose(before, want)


REGISTERED = {
    "rrule": lambda fn: rrule(fn)(lambda x: (fn(x), lambda dy: (100 * dy * np.ones_like(x),))),
    "vjps": lambda fn: vjps(fn, lambda dy, y, x: 100 * dy * np.ones_like(x)),
    "composite": lambda fn: composite(fn)(lambda x: 100 * np.sum(x)),
}


@pytest.mark.parametrize("fn", [scipy.stats.gmean, special.logsumexp, trapezoid])
@pytest.mark.parametrize("how", REGISTERED)
def test_all_kinds_of_rules_are_compiled(how, fn, restored, monkeypatch):
    monkeypatch.setattr("yota_py.config.compile", "always")
    REGISTERED[how](fn)
    df = value_and_grad(lambda x: 2 * fn(x))
    for x in (X, X + 1, 3 * X):
        assert np.allclose(df(x)[1], 200.0)
    assert explain(df)[0].calls == 2


def test_rules_do_not_come_back_where_they_are_found_later(restored):
    """A rule that waits for its library does not take the place of a user's."""
    scalar_rule(math.sin, lambda y, x: 7.0)
    for _ in range(3):
        assert grad(math.sin, 0.5)[1] == (7.0,)
        assert grad(lambda x: math.sin(x), 0.5)[1] == (7.0,)
    assert grad(np.sin, 0.5)[1] == (pytest.approx(math.cos(0.5)),)


def test_a_library_is_left_as_it_is(restored):
    before = scipy.stats.gmean
    rrule(before)(lambda x: (before(x), lambda dy: (dy * x,)))
    grad(lambda x: scipy.stats.gmean(x), X)
    assert scipy.stats.gmean is before
    assert before(X) == pytest.approx(2.0)


def plain(x):
    return x * x


class Model:
    def loss(self, x=1.0):
        return x


REGISTRATIONS = {
    "rrule": lambda fn: rrule(fn)(lambda x: (x * x, lambda dy: (dy,))),
    "scalar_rule": lambda fn: scalar_rule(fn, lambda y, x: 1.0),
    "vjps": lambda fn: vjps(fn, lambda dy, y, x: dy),
    "nondiff": nondiff,
    "composite": lambda fn: composite(fn)(lambda x: x * x),
    "alias": lambda fn: scalar_rule(primitive(lambda x: x), 1.0, aliases=[fn]),
}
PLAIN = {
    "function": (plain, "plain = yota_py.primitive"),
    "lambda": (lambda x: x * x, "no operation"),
    "partial": (functools.partial(np.multiply, 2.0), "no operation"),
    "memo": (functools.lru_cache(plain), "no operation"),
    "vectorized": (np.vectorize(plain), "no operation"),
    "object": (scipy.stats.norm, "no operation"),
    "bound method": (Model().loss, "is a method"),
    "method": (Model.loss, "is a method"),
    "method of a ufunc": (np.add.reduce, "is a method"),
    "method of arrays": (np.ndarray.sum, "is a method"),
    "method of a library": (scipy.stats.norm.pdf, "is a method"),
    "builtin": (max, "no operation"),
    "class": (scipy.linalg.LinAlgError, "no operation"),
}


@pytest.mark.parametrize("what", REGISTRATIONS)
@pytest.mark.parametrize("name", PLAIN)
def test_what_is_traced_through_takes_no_rule(name, what, restored):
    fn, said = PLAIN[name]
    with pytest.raises(TypeError, match=said):
        REGISTRATIONS[what](fn)


def test_a_primitive_is_found_by_its_function(restored):
    f = primitive(plain)
    rrule(plain)(lambda x: (x * x, lambda dy: (5.0 * dy,)))
    assert grad(f, 2.0)[1] == (5.0,)
    assert recorded(plain) is f
    assert not_plain(plain) is f
    assert grad(plain, 2.0)[1] == (4.0,)  # which is followed, as before


def test_recorded_is_the_same_each_time(restored):
    assert recorded(scipy.stats.gmean) is recorded(scipy.stats.gmean)
    assert recorded(np.sin) is np.sin
    assert recorded(np.sum) is np.sum
