"""Cached gradients compared, call by call, with what is computed afresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from yota_py import grad
from yota_py.base.types import is_inexact
from yota_py.cache.modes import Call, Mode
from yota_py.testing.finite import close, copied, differences, moved, product, random_like

Function = Callable[..., Any]


def agree(f: Function, *args: Any, smooth: bool = True) -> None:
    """A call gives what plain NumPy, a fresh interpretation and (where ``f`` is smooth) finite differences give."""
    before = copied(args)
    wanted = f(*copied(args))
    fresh, fresh_grads = Mode().interpret(Call(f, copied(args), {}))
    value, grads = grad(f, *args)
    for x, was in zip(args, before, strict=True):
        assert_array_equal(x, was, err_msg="the call has written into its arguments")
    narrow = any(np.asarray(x).dtype.itemsize < 8 for x in args if is_inexact(x))
    rtol = 2e-4 if narrow else 1e-11
    assert_allclose(value, wanted, rtol=rtol, err_msg="value: cached, plain")
    assert_allclose(value, fresh, rtol=rtol, err_msg="value: cached, fresh")
    for have, want in zip(grads, fresh_grads, strict=True):
        assert type(have) is type(want)
        if want is not None:
            assert_allclose(have, want, rtol=rtol, atol=rtol, err_msg="gradient: cached, fresh")
    if smooth:
        directions = [random_like(x, np.random.default_rng(0)) for x in args]
        pairs = list(zip(before, directions, strict=True))
        slope = sum(product(dx, v) for dx, v in zip(grads, directions, strict=True) if v is not None)
        steps = differences(lambda h: f(*[x if v is None else moved(x, v, h) for x, v in pairs]))
        ulps, eps = 1e4 if narrow else 1e8, float(np.finfo(np.asarray(slope).dtype).eps)
        assert any(close(slope, step, ulps, eps) for step in steps), f"slope {slope}, finite differences {steps}"


def rounds(f: Function, *inputs: Any, smooth: bool = True) -> None:
    """Each input three times in a row, then all in turn, forwards and backwards."""
    for x in [*(x for x in inputs for _ in range(3)), *inputs, *reversed(inputs)]:
        agree(f, *(x if isinstance(x, tuple) else (x,)), smooth=smooth)
