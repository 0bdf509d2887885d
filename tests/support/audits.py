"""Functions that are compiled with a fault, and what an audit says of them."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from performing import assert_same, sharing

from yota_py import explain, grad
from yota_py.capture.guards import Guards
from yota_py.engine import compile
from yota_py.errors import AuditWarning, CompileError
from yota_py.passes.pipeline import optimise
from yota_py.tape.operations import Constant, Guard
from yota_py.tape.tape import Tape

Patch = pytest.MonkeyPatch


def served(fault: Callable[[Patch], None], f: Any, plain: Any, state: Any, change: Callable[[Any], Any] = lambda s: s,
           *args: Any, calls: int = 4) -> str:  # fmt: skip
    """What an audit says of a function compiled with a fault; its results and its state are always those of the plain
    function."""
    own, said = copy.deepcopy(state), []
    for i in range(2 + calls):
        with Patch.context() as patch, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", AuditWarning)
            fault(patch)
            given, plain_given = copy.deepcopy(args), copy.deepcopy(args)
            have, want = outcome(f, own, *given), outcome(plain, state, *plain_given)
            said += [str(warning.message) for warning in caught]
        assert_same((have, given, own), (want, plain_given, state))
        assert sharing((have, given, own)) == sharing((want, plain_given, state))
        if i == 0:
            change(own), change(state)
    (text,) = said
    name = getattr(plain, "__name__", "")
    assert f"audits.py:{outcome.__code__.co_firstlineno + 3}: {name}: the compiled program is wrong: " in text
    (told,) = explain(f)
    assert not told.entries and text.partition("is wrong: ")[2].partition(". This call")[0] in told.problems[0]
    misses = told.misses
    with pytest.raises(CompileError, match="its program was wrong"):
        f.compile(own, *copy.deepcopy(args)) if hasattr(f, "compile") else grad.compile(plain, own, *args)
    assert explain(f)[0].misses == misses
    return text


def outcome(f: Any, *args: Any) -> Any:
    """The result of a call, or the exception that it raises."""
    try:
        return f(*args)
    except ValueError as error:
        return type(error), str(error)


def nothing_is_guarded(patch: Patch) -> None:
    patch.setattr(Guards, "require", lambda *args, **kwargs: None)


def decisions_are_not_checked(patch: Patch) -> None:
    def unguarded(tape: Tape) -> Tape:
        low = optimise(tape)
        kept = [Constant(np.True_, op.type) if isinstance(op, Guard) else op for op in low.ops]
        return dataclasses.replace(low, ops=kept)

    patch.setattr(compile, "optimise", unguarded)
