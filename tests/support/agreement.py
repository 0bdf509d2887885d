"""One call of ``grad`` beside what is computed in other ways."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import optree
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad
from yota_py.base.settings import Uncompiled
from yota_py.cache.modes import Gradient, Request
from yota_py.capture.parameters import are_given
from yota_py.tape.trees import flatten
from yota_py.testing.finite import close, copied, differences, moved, product, random_like

CACHE = ("plain", "fresh")
ALL = ("plain", "fresh", "differences")


def agree(f: Callable[..., Any], *args: Any, against: Collection[str] = CACHE) -> tuple[Any, Any]:
    """Value and gradients of a call, which leaves its arguments alone, and whose value is that of the function itself
    (``"plain"``), and both those of a fresh trace (``"fresh"``) and of finite differences (``"differences"``)."""
    leaves = flatten(args)[0]
    before, given = copied(leaves), copied(args)
    value, grads = grad(f, *args)
    for x, was in zip(flatten(args)[0], before, strict=True):
        if isinstance(x, np.ndarray):
            assert_array_equal(x, was, err_msg="the call has written into its arguments")
    narrow = any(x.dtype.itemsize < (16 if x.dtype.kind == "c" else 8) for x in map(np.asarray, leaves)
                 if x.dtype.kind in "fc")  # fmt: skip
    rtol = 2e-4 if narrow else 1e-11
    if "plain" in against:
        assert_allclose(value, f(*copied(given)), rtol=rtol, err_msg="value: cached, plain")
    if "fresh" in against:
        for fresh, fresh_grads in _fresh(f, args):
            assert_allclose(value, fresh, rtol=rtol, err_msg="value: cached, fresh")
            optree.tree_map(lambda have, want: _same(have, want, rtol), grads, fresh_grads, none_is_leaf=True)
    if "differences" in against:
        _check_slopes(f, given, grads, narrow)
    return value, grads


def _fresh(f: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """Value and gradients, of a trace, and without one where that will do."""
    if are_given(f, args, range(len(args))):
        with Uncompiled():
            return [grad(f, *args)]
    call = Request(f, args, {})
    at_once = Gradient().at_once(call)
    return [Gradient().reference(call)[0], *([] if at_once is None else at_once[:1])]


def _same(have: Any, want: Any, rtol: float) -> None:
    assert type(have) is type(want)
    if type(want) is SimpleNamespace:
        assert vars(have).keys() == vars(want).keys()
        optree.tree_map(lambda x, y: _same(x, y, rtol), vars(have), vars(want), none_is_leaf=True)
    elif want is not None:
        assert_allclose(have, want, rtol=rtol, atol=rtol * 1e-2, err_msg="gradient: cached, fresh")


def _check_slopes(f: Callable[..., Any], args: Any, grads: Any, narrow: bool) -> None:
    """Along each element, of a few; along one random direction, if there are many."""
    rng = np.random.default_rng(0)
    directions = [random_like(x, rng) for x in args]
    sizes = [0 if v is None else np.size(v) for v in directions]
    ways = [directions] if sum(sizes) > 8 else [
        [None if j != i else _unit(v, k) for j, v in enumerate(directions)] for i, n in enumerate(sizes)
        for k, v in zip(range(n), [directions[i]] * n, strict=True)
    ]  # fmt: skip
    scale = max(1.0, abs(f(*copied(args))))
    for along in ways:
        pairs = list(zip(args, along, strict=True))
        slope = sum(product(dx, v) for dx, v in zip(grads, along, strict=True) if v is not None)
        loss = lambda h, pairs=pairs: f(*[x if v is None else moved(x, v, h) for x, v in pairs])  # noqa: E731
        ulps, eps = 1e4 if narrow else 1e8, float(np.finfo(np.asarray(slope).dtype).eps)
        shift = 0.0 if slope else scale  # of zero, nothing that errors could be relative to
        steps = []
        for step in _candidates(loss):
            if close(slope + shift, step + shift, ulps, eps):
                break
            steps.append(step)
        else:
            raise AssertionError(f"slope {slope}, finite differences {steps}")


def _candidates(loss: Callable[[float], Any]) -> Iterator[Any]:
    yield from differences(loss)
    yield 2 * _slope(loss, 5e-5) - _slope(loss, 1e-4)  # at a kink, errors go with h


def _slope(loss: Callable[[float], Any], h: float) -> Any:
    return (loss(h) - loss(-h)) / (2 * h)


def _unit(like: Any, k: int) -> Any:
    """One in element k, of the type of ``like``."""
    unit = np.zeros_like(like)
    unit.reshape(-1)[k : k + 1] = 1
    return unit if isinstance(like, np.ndarray) else type(like)(unit)
