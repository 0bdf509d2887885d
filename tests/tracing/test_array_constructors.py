"""``np.array``, ``np.asarray`` and ``astype`` of traced arrays: their order in memory, and whether they copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from layouts import LAYOUTS, check_gradients, check_step, drawn, steps_of
from sets import each

from yota_py import grad, jit, trace
from yota_py.base.dispatch import shadow

MAKERS: dict[str, Callable[[Any], Any]] = {
    "array": lambda x: np.array(x),
    "array F": lambda x: np.array(x, order="F"),
    "array C": lambda x: np.array(x, order="C"),
    "array A": lambda x: np.array(x, order="A"),
    "array f": lambda x: np.array(x, order="f"),  # type: ignore[call-overload]
    "array of T": lambda x: np.array(x.T, order="C"),
    "perhaps a copy": lambda x: np.array(x, copy=None),
    "perhaps a copy F": lambda x: np.array(x, copy=None, order="F"),
    "perhaps a copy C": lambda x: np.array(x, copy=None, order="C"),
    "perhaps a copy A": lambda x: np.array(x, copy=None, order="A"),
    "no copy": lambda x: np.array(x, copy=False),
    "more axes": lambda x: np.array(x, order="F", ndmin=3)[0],
    "more axes of itself": lambda x: np.array(x, copy=None, ndmin=3)[0],
    "a list": lambda x: np.array([x[0], x[1]]),
    "a list F": lambda x: np.array([x[0], x[1]], order="F"),
    "a list A": lambda x: np.array([x[0], x[1]], order="A"),
    "a list of rows": lambda x: np.array([x, x])[1],
    "a list of rows F": lambda x: np.array([x.T, x.T], order="F")[1].T,
    "a list of lists": lambda x: np.array([[x[0], x[1]], [x[1], x[0]]])[0],
    "asarray": lambda x: np.asarray(x),
    "asarray F": lambda x: np.asarray(x, order="F"),
    "asarray C": lambda x: np.asarray(x, None, "C"),
    "asarray copy": lambda x: np.asarray(x, copy=True),
    "asanyarray F": lambda x: np.asanyarray(x, order="F"),
    "contiguous": lambda x: np.ascontiguousarray(x),
    "Fortran": lambda x: np.asfortranarray(x),
    "required": lambda x: np.require(x, None, "F"),
    "complex": lambda x: np.array(x, complex, order="F").real * 1,
    "complex C": lambda x: np.array(x, complex, order="C").real * 1,
    "complex A": lambda x: np.array(x, complex, order="A").real * 1,
    "astype": lambda x: x.astype(float),
    "astype F": lambda x: x.astype(float, order="F"),
    "astype C": lambda x: x.astype(float, order="C"),
    "astype A": lambda x: x.astype(float, order="A"),
    "astype no copy": lambda x: x.astype(float, copy=False),
    "astype no copy F": lambda x: x.astype(float, order="F", copy=False),
    "astype no copy A": lambda x: x.astype(float, order="A", copy=False),
    "astype complex": lambda x: x.astype(complex).real * 1,
    "astype complex F": lambda x: x.astype(complex, order="F").real * 1,
    "astype complex A": lambda x: x.astype(complex, order="A").real * 1,
    "copy": lambda x: np.copy(x, "A"),
    "copied C": lambda x: x.copy(),
    "copied F": lambda x: x.copy("F"),
}  # fmt: skip


def _used(make: Callable[[Any], Any], x: Any) -> Any:
    """Written where NumPy gives a view or the array itself."""
    y = make(x)
    y.ravel(order="F")[1] = 5.0 * x[1, 1]
    y.reshape(-1)[2] = 2.0
    y[0, 0] = x[0, 1]
    return np.sum(y * y) + np.sum(x * np.reshape(np.arange(x.size), x.shape))


@pytest.mark.parametrize("made", each([*MAKERS], 2))
def test_gradients_of_what_is_made(made: str) -> None:
    make = MAKERS[made]
    check_gradients(lambda x: _used(make, x * 2), rounds=2, second=False)
    check_gradients(lambda x: _used(make, np.asfortranarray(x * 2)), rounds=1, second=False, within=False)


@pytest.mark.parametrize("made", each([*MAKERS], 2, first=1))
def test_steps_that_write_into_what_is_made(made: str) -> None:
    """Into the caller's array, if it is that."""

    def step(x: Any) -> Any:
        total = _used(MAKERS[made], x)
        return np.array([total])

    check_step(step)
    check_step(lambda x: MAKERS[made](x) * 2)


@pytest.mark.usefixtures("every_policy")
@pytest.mark.parametrize("made", ["array F", "perhaps a copy F", "Fortran", "contiguous", "astype no copy F"])
def test_whether_it_is_the_array_itself(made: str) -> None:
    make = MAKERS[made]
    check_gradients(lambda x: np.sum(x) * (2.0 if make(x) is x else 3.0))
    check_step(lambda x: x * (2.0 if make(x) is x else 3.0))
    check_step(lambda x: x * (2.0 if np.shares_memory(make(x), x) else 3.0))
    check_step(lambda x: x * (2.0 if np.may_share_memory(x.reshape(-1), x) else 3.0))


NOT_OF_NUMBERS = "a list", "no copy", "more axes of itself"
OF_NUMBERS = [name for name in MAKERS if not name.startswith(NOT_OF_NUMBERS)]


@pytest.mark.parametrize("made", OF_NUMBERS)
@pytest.mark.parametrize("x", [3.0, np.float64(3.0), np.array(3.0)], ids=["float", "scalar", "0-d"])
def test_numbers(made: str, x: Any) -> None:
    """An array of one element, or none, as NumPy has it."""
    make = MAKERS[made]
    if type(x) is float and made.startswith(("astype", "copied", "array of T")):
        x = np.float64(x)
    shape = make(x).shape
    y, (dx,) = grad(lambda x: np.sum(make(x) * x) * (1 + len(make(x).shape)), x)
    assert (y, dx) == (9 * (1 + len(shape)), 6 * (1 + len(shape)))
    values = jit(lambda x: make(x) + 1)
    for number in (x, x + 1, x + 2):
        have, want = values(number), make(number) + 1
        assert type(have) is type(want) and have.shape == want.shape and np.array_equal(have, want)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "another order": lambda x: np.array(x, copy=False, order="F"),
    "asarray": lambda x: np.asarray(x, order="C", copy=False),
    "another dtype": lambda x: np.array(x, complex, copy=False),
    "a list": lambda x: np.array([x, x], copy=False),
    "a number": lambda x: np.asarray(x[0, 0], copy=False),
    "both orders": lambda x: np.require(x, None, ["C", "F"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_where_numpy_cannot_do_without_a_copy(name: str) -> None:
    def caught(x: Any) -> Any:
        try:
            return np.sum(REFUSED[name](x)).real
        except ValueError:
            return np.sum(x) * 7

    step = jit(caught)
    for _ in range(3):
        for layout in LAYOUTS.values():
            x = layout(drawn((2, 3)))
            want = caught(x)
            assert np.isclose(step(x), want) and np.isclose(grad(caught, x)[0], want)
            try:
                REFUSED[name](x)
            except ValueError as error:
                with pytest.raises(ValueError) as raised:
                    grad(lambda x: np.sum(REFUSED[name](x)).real, x)
                assert str(raised.value).split(".")[0] == str(error).split(".")[0]


@pytest.mark.parametrize("made", MAKERS)
def test_layouts_of_traced_values(made: str) -> None:
    for layout in LAYOUTS.values():
        x, seen = layout(drawn((2, 3))), []
        trace(lambda x: seen.append(shadow(MAKERS[made](x))) or x, x)  # type: ignore[func-returns-value]  # noqa: B023
        assert steps_of(seen[0]) == steps_of(MAKERS[made](x))
