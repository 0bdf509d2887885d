"""NumPy's warnings of overflow and the like come from the user's line, once per place, as without a transform."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import config, grad, jit, trace

Place = tuple[str, int, str]


def logarithm(x: Any) -> Any:
    y = x * 2.0
    return np.sum(np.log(y))


def below(x: Any) -> Any:
    return np.sum(root(x))


def root(x: Any) -> Any:
    return np.sqrt(x)


def quotient(x: Any) -> Any:
    return np.sum(x / (x * 0.0))


FUNCTIONS = [logarithm, below, quotient]
X = np.array([-1.0, -2.0])


def warned(call: Callable[..., Any], how: Any = "always") -> list[Place]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(how)
        call(X)
    return [(each.filename, each.lineno, str(each.message)) for each in caught]


TRANSFORMS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "grad": lambda f: lambda x: grad(f, x),
    "nested": lambda f: lambda x: grad(lambda x: np.sum(grad(f, x)[1][0]), x),
    "trace": lambda f: lambda x: trace(f, x),
    "jit": jit,
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_they_name_the_users_line(f: Any, transform: str, every_policy: None) -> None:
    assert warned(TRANSFORMS[transform](f))[:1] == warned(f) != []


@pytest.mark.parametrize("f", FUNCTIONS)
def test_once_per_place(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note of it is Python's own, in the user's module."""
    monkeypatch.setattr(config, "compile", "never")
    registry = globals().setdefault("__warningregistry__", {})
    for warns in (True, False):
        if warns:
            registry.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            grad(f, X)
            grad(f, X)
            f(X)
        assert len(caught) == 1 or not warns


@pytest.mark.parametrize("f", FUNCTIONS)
def test_what_numpy_is_told_to_do_instead(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "compile", "never")
    with np.errstate(all="ignore"):
        assert warned(lambda x: grad(f, x)) == []
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="encountered in"):
        grad(f, X)
    heard: list[str] = []
    with np.errstate(all="call", call=lambda what, flag: heard.append(what)):
        grad(f, X)
    assert len(heard) == 1
    with pytest.raises(RuntimeWarning, match="encountered in"):
        warned(lambda x: grad(f, x), "error")


@pytest.mark.parametrize("make", [lambda f: lambda x: grad(f, x), jit])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_compiled_code_gives_none(f: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the docs say."""
    monkeypatch.setattr(config, "compile", "always")
    call = make(f)
    warned(call)
    assert warned(call) == []
