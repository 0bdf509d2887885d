"""Rules that are given again: in a notebook, a cell is run twice, or mended."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from yota_py import case, config, explain, grad, gradient, jit, nondiff, primitive, rrule, scalar_rule, value_and_grad
from yota_py.errors import AuditWarning, RuleError
from yota_py.registry.kernels import View
from yota_py.registry.patches import patch, patched
from yota_py.registry.registry import describe, primitive_of


@primitive
def cube(x: Any) -> Any:
    return x**3


def test_a_rule_is_mended() -> None:
    scalar_rule(cube, lambda y, x: 7 * x)
    f = value_and_grad(lambda x: np.sum(cube(x)))
    step = jit(lambda x: gradient(lambda x: np.sum(cube(x)))(x))
    second = gradient(lambda x: np.sum(gradient(lambda x: np.sum(cube(x)))(x)))
    x = np.array([1.0, 2.0])
    for slope, curvature in ((7 * x, 7 + 0 * x), (5 * x, 5 + 0 * x), (3 * x * x, 6 * x)):
        for _ in range(3):
            assert_allclose(f(x)[1], slope)
            assert_allclose(step(x), slope)
            assert_allclose(second(x), curvature)
        assert explain(f)[0].calls >= 2
        if slope[0] == 7:
            scalar_rule(cube, lambda y, x: 5 * x)
        else:
            rrule(cube)(lambda x: (x**3, lambda dy: (dy * 3 * x * x,)))


def test_a_function_is_declared_constant_and_then_not() -> None:
    @primitive
    def odd(x: Any) -> Any:
        return np.floor(x) + x

    def f(x: Any) -> Any:
        return np.sum(odd(x) + x)

    for _ in range(2):
        nondiff(odd)
        for _ in range(3):
            assert_allclose(grad(f, np.ones(2))[1][0], np.ones(2))
        scalar_rule(odd, 1)
        for _ in range(3):
            assert_allclose(grad(f, np.ones(2))[1][0], 2 * np.ones(2))


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    module = types.ModuleType("numbers_in_c")
    module.twice = lambda x: 2.0 * float(x)  # type: ignore[attr-defined]
    yield module
    patched.pop((module, "twice"), None)


def test_a_stand_in_is_given_again(module: types.ModuleType) -> None:
    def f(x: float) -> Any:
        return module.twice(x)

    for slope in (2.0, 3.0, 2.0):
        scalar_rule(patch(module, "twice"), slope)
        for x in (1.0, 2.0, 3.0):
            assert grad(f, x) == (2 * x, (slope,))


def test_a_stand_in_has_a_place_of_its_own(module: types.ModuleType) -> None:
    class Base:
        def twice(self, x: Any) -> Any:
            return 2.0 * float(x)

    class Derived(Base):
        pass

    with pytest.raises(AttributeError, match=r"Derived has no twice of its own: patch\(Base, 'twice'\)"):
        patch(Derived, "twice")
    with pytest.raises(AttributeError, match="thrice"):
        patch(module, "thrice")
    assert grad(lambda x: x * x, 2.0) == (4.0, (4.0,))


def test_what_the_engine_may_do_is_no_other_rule() -> None:
    f = value_and_grad(lambda x: np.sum(np.sin(x)))
    f(np.ones(2)), f(np.ones(2))
    calls = explain(f)[0].calls
    describe(cube, lowering=lambda x: x * x * x)
    f(np.ones(2))
    assert explain(f)[0].calls == calls + 1


@pytest.mark.parametrize("options", [
    {"kernel": 3}, {"kernel": View}, {"kernel": [View()]}, {"method": 3}, {"attribute": ["a"]}, {"method": None},
    {"lowering": 3}, {"cases": [case(1.0)]}, {"raises": True}, {"decides": "x"}, {"instead": 1.0},
])  # fmt: skip
def test_options_that_are_none(options: Any) -> None:
    def fresh(x: Any) -> Any:
        return x

    for register in (describe, nondiff, lambda fn, **more: rrule(fn, **more)(fn)):
        with pytest.raises(TypeError, match=r"is no kernel; give|names no method or attribute for|, no function"):
            register(fresh, **options)
    assert primitive_of(fresh) is None


def test_a_program_that_was_wrong_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "audit", "sampled")

    @primitive
    def same(x: Any) -> Any:
        return x * 1.0

    scalar_rule(same, 1.0, kernel=lambda k, x: k.mul(x, k.add(x, x)))
    f = value_and_grad(lambda x: np.sum(same(x)))
    x = np.full(2, 3.0)
    with pytest.warns(AuditWarning, match="is wrong"):
        for _ in range(8):  # while there are other threads, an audit forgives once
            f(x)
    scalar_rule(same, 5.0, kernel=lambda k, x: x)
    for _ in range(4):
        value, dx = f(x)
        assert (value, *dx) == (6.0, 5.0, 5.0)


def test_a_function_is_declared_constant_in_another_way() -> None:
    @primitive
    def rank(x: Any) -> int:
        return int(np.ndim(x))

    nondiff(rank, immediate=True)
    nondiff(rank, immediate=True)
    with pytest.raises(RuleError, match="rank is declared nondiff already, with immediate=True"):
        nondiff(rank)
