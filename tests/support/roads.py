"""What tests of ways to read and write share: a program with state under ``jit`` and ``grad``, compared with itself as
plain Python; and a search for traced values that are left behind."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from performing import assert_same, sharing

from yota_py import grad, jit
from yota_py.base.dispatch import is_traced
from yota_py.tracing.operators import Operators

CALLS = 7


@dataclass
class Program:
    """A function of an array; what happens before its i-th call, and what there is to be compared after it."""

    f: Callable[[Any], Any]
    before: Callable[[int], Any] = lambda i: None
    state: Callable[[], Any] = lambda: None


Make = Callable[[Callable[..., Any]], Program]  # of jit, or of what leaves a function as it is


def as_it_is(f: Any) -> Any:
    return f


def x_of(i: int) -> Any:
    """The argument of the i-th call."""
    return np.arange(1.0, 4.0) + i


def served(make: Make) -> int:
    """Compare a program with itself as plain Python, call by call; returns how many calls a compiled one has served."""
    compiled, plain = make(jit), make(as_it_is)
    f = jit(compiled.f)
    for i in range(CALLS):
        x, y = x_of(i), x_of(i)
        for program in (compiled, plain):
            program.before(i)
        try:
            want = plain.f(y)
        except Exception as error:
            with pytest.raises(type(error)):
                f(x)
            continue
        have = f(x)
        assert_same((have, compiled.state(), x), (want, plain.state(), y))
        assert sharing((have, compiled.state(), x)) == sharing((want, plain.state(), y))
    return sum(s.calls for several in f.__yota_cache__.signatures.values() for s in several)


def agrees_under_grad(make: Make) -> None:
    """Values under ``grad``, and what happens besides, are those of plain Python."""
    differentiated, plain = make(as_it_is), make(as_it_is)
    for i in range(CALLS):
        for program in (differentiated, plain):
            program.before(i)
        want = np.sum(plain.f(x_of(i)))
        have, (dx,) = grad(lambda x: np.sum(differentiated.f(x)), x_of(i))
        assert_allclose(have, want, rtol=1e-12)
        assert np.shape(dx) == (3,)
        assert_same(differentiated.state(), plain.state())


first_level = [0]  # of the traces of this test; others may have left exceptions with their frames


def _is_own(part: Any) -> bool:
    trace = part._ledger if is_traced(part) and hasattr(type(part), "_ledger") else None
    return is_traced(part) and (trace is None or trace.level > first_level[0])


def _of_tracers(above: type = Operators) -> Iterator[type]:
    for cls in above.__subclasses__():
        yield cls
        yield from _of_tracers(cls)


def left_behind() -> list[str]:
    """What holds traced values of this test, but for frames and the library itself."""
    gc.collect()
    classes = {*_of_tracers()}  # to which their objects refer; to look at a million others takes longer
    values = [x for x in gc.get_referrers(*classes) if type(x) in classes and _is_own(x)]
    if values:  # what holds them may be older, and frozen
        gc.unfreeze()
    found = []
    for holder in gc.get_referrers(*values) if values else ():
        if holder is values or is_traced(holder) or type(holder) is types.FrameType:
            continue
        if str(type(holder).__module__).partition(".")[0] != "yota_py":
            found += [f"a {type(holder).__name__}: {holder!r:.80}" for x in gc.get_referents(holder) if _is_own(x)]
    return found
