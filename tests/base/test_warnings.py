"""NumPy's warnings of overflow and the like come from the user's line, once per place, as without a transform."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import config, grad, jit, trace
from yota_py.base import floating

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


def warned(call: Callable[..., Any], how: Any = "always", x: Any = X) -> list[Place]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(how)
        call(x)
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


# ------------------------------------------------------------------------- what our own code stands for, or asks twice

HUGE = np.array([1e300, -1e300])


def item(x: Any) -> Any:
    y = np.zeros(2, np.float32)
    y[0] = x[0]
    return y[0]


def through_view(x: Any) -> Any:
    y = np.zeros((2, 2), np.float32)
    y.T[0] = x
    return y[0, 0]


def in_place(x: Any) -> Any:
    y = np.zeros(2)
    np.multiply.at(y, [0, 0], x)
    np.subtract.at(y, [0, 0], x * np.inf)
    return y[0]


def copied(x: Any) -> Any:
    y = np.zeros(2, np.float32)
    np.copyto(y, x)
    np.copyto(y, x * 2.0, where=x > 0)
    return y[0]


def into(x: Any) -> Any:
    y = np.zeros(2, np.float32)
    np.multiply(x, 2.0, out=y)
    np.clip(np.log(x), 0.0, 1.0, out=y)
    return y[0]


def masked(x: Any) -> Any:
    return np.log(x, where=x < 2, out=np.zeros(2))[0]


OURS: dict[str, Callable[..., Any]] = {
    "astype": lambda x: x.astype(np.float32)[0],
    "astype of a whole number": lambda x: np.sum((x * np.nan).astype(int) * x * 0.0),
    "astype of a real number": lambda x: (x + 1j).astype(float)[0],
    "class": lambda x: np.float32(x[0]),
    "asarray": lambda x: np.asarray(x, dtype=np.float32)[0],
    "full": lambda x: np.full(2, x[0], np.float32)[0],
    "concatenate": lambda x: np.concatenate([x, x], dtype=np.float32, casting="same_kind")[0],
    "reduce": lambda x: np.add.reduce(x * np.inf),
    "initial=None": lambda x: np.max(np.log(x), initial=None),  # type: ignore[call-overload]
    "reduceat": lambda x: np.multiply.reduceat(x, [0])[0],
    "accumulate": lambda x: np.multiply.accumulate(x)[1],
    "outer": lambda x: np.multiply.outer(x, x)[0, 0],
    "dtype=": lambda x: np.multiply(x, 2.0, dtype=np.float32, casting="same_kind")[0],
    "nanmax": lambda x: np.nanmax(x * np.nan),
    "nanmin": lambda x: np.nanmin(x * np.nan),
    **{f.__name__: f for f in (item, through_view, in_place, copied, into, masked)},
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", OURS)
def test_they_are_those_of_plain_code(name: str, transform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each NumPy warns once, at the user's line."""
    monkeypatch.setattr(config, "compile", "never")
    want = warned(OURS[name], x=HUGE)
    assert warned(TRANSFORMS[transform](OURS[name]), x=HUGE) == want != []


@pytest.mark.parametrize("known", [True, False])
def test_silence(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where NumPy has other means than ours to say so; what it does elsewhere is as before."""
    if not known:
        monkeypatch.delattr(np._core.umath, "_extobj_contextvar")  # type: ignore[attr-defined]

    silence, unsilence = floating._silence()

    def f(x: Any) -> Any:
        said = silence()
        try:
            if x < -5:
                raise ValueError
            return np.log(np.float64(x))
        finally:
            unsilence(said)

    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        for _ in range(2):
            assert np.isnan(f(-1.0)) and f(1.0) == 0.0
            with pytest.raises(ValueError):
                f(-9.0)
            with pytest.raises(RuntimeWarning, match="invalid value"):
                np.log(np.float64(-1.0))
