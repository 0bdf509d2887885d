"""Kernels are plain data: emitters have names, so that a structure could be written to disk, and equal ones are one."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import astuple
from functools import partial
from typing import Any

import numpy as np
import pytest

from yota_py import config, grad, jit, primitive, primitives, scalar_rule
from yota_py.engine.kernels import store
from yota_py.engine.kernels.ir import KernelSpec
from yota_py.registry.kernels import Map, kernel_of, named


def leaves(structure: Any) -> Iterator[Any]:
    if isinstance(structure, tuple):
        for item in structure:
            yield from leaves(item)
    else:
        yield structure


@pytest.fixture
def specs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The structures that are asked for."""
    out: list[Any] = []
    plain = store.emit_kernel
    monkeypatch.setattr(config, "_cache_dir", None)
    monkeypatch.setattr(store, "compiled", {})
    monkeypatch.setattr(store, "emit_kernel", lambda *args, **how: (out.append(args[2]), plain(*args, **how)))
    return out


def test_structures_are_plain_data(specs: list[Any]) -> None:
    def f(x: Any, i: Any) -> Any:
        if x[0] > 0:
            x = np.deg2rad(np.where(x > 1, np.sinc(x), x**2.5))
        return np.sum(np.max(x[i] * 2) + np.copy(x[1:]) - x[:-1])

    grad.compile(f, np.linspace(1.0, 2.0, 5), np.array([0, 2]))
    assert len(specs) > 2
    for spec in specs:
        assert {type(leaf) for leaf in leaves(astuple(spec))} <= {str, int, bool}
        assert pickle.loads(pickle.dumps(spec)) == spec


def test_what_the_engine_may_do_is_plain_data() -> None:
    for entry in primitives():
        if entry.kernel is not None:
            assert pickle.loads(pickle.dumps(entry.kernel)) == entry.kernel


def test_equal_kernels_are_one(specs: list[KernelSpec]) -> None:
    for f in (np.deg2rad, np.radians):
        jit(lambda x, f=f: f(x)).compile(np.ones(3))
    assert len(specs) == 1


def test_emitters_of_one_name() -> None:
    """A cell of a notebook is run again: another function under the same name."""

    def emitter(factor: float) -> Any:
        return lambda k, x: k.mul(x, k.const(factor, x))

    emitters = [emitter(2.0), emitter(3.0)]
    first, second = map(named, emitters)
    assert named(partial(emitter(1.0))).endswith("partial")
    assert first != second and [*map(named, emitters)] == [first, second]
    assert kernel_of(emitters[1]) == Map(second) and kernel_of("exp") == Map("exp")
    for factor, emit in zip((2.0, 3.0), emitters, strict=True):
        scaled = primitive(lambda x, factor=factor: factor * x)
        scalar_rule(scaled, factor, kernel=emit)
        step = jit(scaled)
        step.compile(np.ones(3))
        assert np.array_equal(step(np.ones(3)), np.full(3, factor))
