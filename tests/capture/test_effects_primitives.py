"""What primitives of the user's do besides computing: as often, and with the values, as without a transform."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from registered import own_rules

from yota_py import MissingRuleError, grad, gradient, jit, nondiff, primitive, rrule, value_and_grad
from yota_py.capture import hooks as watch
from yota_py.registry import applied
from yota_py.tape.trees import flatten

WAYS = ["monitoring", "profile"] if hasattr(sys, "monitoring") else ["profile"]
TRANSFORMS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "grad": lambda f: lambda x: grad(f, x),
    "value_and_grad": value_and_grad,
    "jit": jit,
    "jit of a gradient": lambda f: jit(lambda x: value_and_grad(f)(x)),
    "second": lambda f: gradient(lambda x: np.sum(gradient(f)(x))),
}
pytestmark = pytest.mark.filterwarnings("ignore::yota_py.UncachedWarning")


@pytest.fixture(params=WAYS, autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "profile":
        monkeypatch.setattr(watch, "_TOOL_IDS", ())


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file that the functions below write into."""
    path = tmp_path / "numbers.txt"
    monkeypatch.setitem(globals(), "FILE", str(path))
    yield path


FILE = ""
NUMBERS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@nondiff
@primitive
def noted(x: Any) -> None:
    with open(FILE, "a") as file:
        file.write(f"{np.sum(x)}\n")


@primitive
def tapped(x: Any) -> Any:
    print(np.sum(x))
    return x * 1.0


@rrule(tapped)
def _tapped(x: Any) -> Any:
    return x * 1.0, lambda dy: (dy,)


@nondiff
@primitive
def drawn(x: Any) -> Any:
    return x * 0.0 + random.random()


def saves(x: Any) -> Any:
    np.savetxt(FILE, x)
    return np.sum(x * x)


def notes(x: Any) -> Any:
    noted(x)
    return np.sum(x * x)


def taps(x: Any) -> Any:
    tapped(x)
    return np.sum(tapped(x) * x)


@pytest.fixture
def _savetxt_is_declared() -> Iterator[None]:
    with own_rules():
        nondiff(np.savetxt)
        yield


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.usefixtures("_savetxt_is_declared", "every_policy")
def test_a_function_that_saves(transform: str, written: Path) -> None:
    call = TRANSFORMS[transform](saves)
    for number in NUMBERS:
        call(np.array([number]))
        assert np.loadtxt(written) == number


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.usefixtures("every_policy")
def test_a_primitive_that_writes(transform: str, written: Path) -> None:
    call = TRANSFORMS[transform](notes)
    for number in NUMBERS:
        call(np.array([number]))
    assert np.loadtxt(written).tolist() == NUMBERS


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.usefixtures("every_policy")
def test_one_that_prints_and_has_a_rule(transform: str, capfd: pytest.CaptureFixture[str]) -> None:
    call = TRANSFORMS[transform](taps)
    for number in NUMBERS:
        call(np.array([number]))
        assert capfd.readouterr().out.split() == [str(number)] * 2


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.usefixtures("every_policy")
def test_one_that_draws(transform: str) -> None:
    """Two calls of it are two, though their arguments are equal."""
    call = TRANSFORMS[transform](lambda x: np.sum(x * x * (drawn(x) - drawn(x))))
    results = [np.ravel(flatten(call(np.array([1.0])))[0][0])[0] for _ in NUMBERS]
    assert 0.0 not in results and len(set(results)) == len(NUMBERS)


def test_what_is_called_for_its_effect_alone() -> None:
    """It returns nothing, and so the program would be without it; what it does may be Python's alone."""
    seen: list[float] = []
    nondiff(keep := primitive(lambda x: seen.append(float(np.sum(x)))))

    def f(x: Any) -> Any:
        keep(x)
        return np.sum(x * x)

    for number in NUMBERS:
        grad(f, np.array([number]))
    assert seen == NUMBERS


@pytest.mark.parametrize("save", applied.SAVING)
def test_advice_to_save(save: Any, written: Path) -> None:
    """Not to declare it ``nondiff``, which need not be done."""
    with pytest.raises(MissingRuleError, match=rf"numpy.{save.__name__} .* yota_py.stop_gradient\(x\)\)$") as caught:
        grad(lambda x: save(FILE, x) or np.sum(x), np.ones(2))
    assert "nondiff" not in str(caught.value) and not written.exists()
