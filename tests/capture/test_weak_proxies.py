"""Weak proxies that a function reads or is given: they are left alone, alive or dead."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import config, grad, jit


class Model:
    """Something that others refer to weakly."""

    def __init__(self) -> None:
        self.w, self.k = np.array([1.0, 2.0]), 3.0


class Child:
    """Knows its parent weakly."""

    def __init__(self, parent: Model) -> None:
        self.parent, self.b = weakref.proxy(parent), 2.0


def cases(proxy: Any, child: Child) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    items = [proxy, 1.0]

    def handled(x: Any) -> Any:
        try:
            return x * proxy.k
        except ReferenceError:
            return x * 100.0

    def given(x: Any, model: Any) -> Any:
        try:
            return x * model.k + np.sum(x * model.w)
        except ReferenceError:
            return x * 7.0

    def asked(x: Any) -> Any:
        try:
            return x * (2.0 if isinstance(proxy, Model) else 3.0)
        except ReferenceError:
            return x * 4.0

    return {
        "handled": (handled, ()),
        "given": (given, (proxy,)),
        "asked": (asked, ()),
        "its type": (lambda x: x * (2.0 if type(proxy) is Model else 3.0), ()),
        "not used": (lambda x, model: x * 2.0, (proxy,)),
        "in a list": (lambda x: x * len(items), ()),
        "in a list given": (lambda x, them: x * len(them), (items,)),
        "in a dict given": (lambda x, them: x * len(them), ({"a": proxy},)),
        "beside": (lambda x: x * child.b, ()),
        "a parent": (lambda x: x * child.parent.k, ()),
    }


@pytest.mark.parametrize("lives", [True, False])
@pytest.mark.parametrize("name", cases(None, Child(Model())))
def test_functions_do_what_they_do_in_plain_python(name: str, lives: bool, every_policy: None) -> None:
    model = Model()
    f, rest = cases(weakref.proxy(model), Child(model))[name]
    if not lives:
        del model
        gc.collect()
    elif name != "its type":
        model.k += 1.0
    step = jit(f)
    for x in (2.0, 3.0, 2.0):
        if name == "a parent" and not lives:
            for call in (f, step, lambda *args: grad(f, *args)):
                with pytest.raises(ReferenceError, match="no longer exists"):
                    call(x, *rest)
            continue
        value, slopes = grad(f, x, *rest)
        assert value == f(x, *rest) == step(x, *rest)
        assert slopes[0] == pytest.approx(f(x + 1.0, *rest) - f(x, *rest))
        nested = grad(lambda x: grad(f, x, *rest)[1][0] * x, x)[0]
        assert nested == pytest.approx(slopes[0] * x)


@pytest.mark.parametrize("policy", ["auto", "always"])
def test_an_object_that_goes_between_calls(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", policy)
    model = Model()
    f, _ = cases(weakref.proxy(model), Child(model))["handled"]
    step = jit(f)
    for x in (1.0, 2.0, 3.0):
        assert grad(f, x) == (3.0 * x, (3.0,))
        assert step(x) == 3.0 * x
    del model
    gc.collect()
    for x in (1.0, 2.0, 3.0):
        assert grad(f, x) == (100.0 * x, (100.0,))
        assert step(x) == 100.0 * x


def test_what_is_read_through_a_proxy_is_the_object_as_it_is(every_policy: None) -> None:
    """Also if it is written by its own name, or the other way round."""
    model = Model()
    proxy = weakref.proxy(model)

    def both(x: Any) -> Any:
        proxy.k = x * 2.0
        ratio = model.k + proxy.k
        model.w = model.w * ratio
        return np.sum(proxy.w) * x

    step, plain = jit(both), []
    for x in (1.0, 2.0, 3.0):
        plain.append((both(x), model.k, model.w.tolist()))
    model.k, model.w = 3.0, np.array([1.0, 2.0])
    assert [(step(x), model.k, model.w.tolist()) for x in (1.0, 2.0, 3.0)] == plain
    assert type(model.k) is float


def test_a_proxy_of_an_array_is_no_array() -> None:
    array = np.ones(2)
    with pytest.raises(TypeError, match=r"np\.asarray"):
        grad(lambda a: np.sum(a), weakref.proxy(array))


@pytest.mark.audited
def test_audits_leave_dead_proxies_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "always")
    model = Model()
    proxy = weakref.proxy(model)
    del model
    gc.collect()

    def f(x: Any, model: Any) -> Any:
        return x * 2.0

    assert [grad(f, x, proxy) for x in (1.0, 2.0, 3.0)] == [(2.0 * x, (2.0, None)) for x in (1.0, 2.0, 3.0)]
