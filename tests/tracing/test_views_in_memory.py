"""Writes through views of arrays that lie in memory in one way or another: where NumPy gives a view, and where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from layouts import check_gradients, check_step
from numpy.testing import assert_array_equal
from sets import SEQUENCES, each

from yota_py import grad, jit
from yota_py.errors import MutationError
from yota_py.registry.writes import set_view


def _zeros(x: Any) -> Any:
    y = np.zeros(x.shape, order="F")
    y[:] = x
    return y


MAKERS: dict[str, Callable[[Any], Any]] = {
    "as Fortran": lambda x: np.asfortranarray(x) * 2.0,
    "transposed": lambda x: (x.T * 2.0).T,
    "zeros": _zeros,
    "a copy": lambda x: x.copy(order="F"),
    "another": lambda x: x.copy(),
    "kept": lambda x: x.copy(order="K"),
    "einsum": lambda x: (np.einsum("ij->ji", x) * 2).T,
    "reshaped": lambda x: np.reshape(x.ravel(), x.shape, order="F") * 2,
    "elementwise": lambda x: x * x,
    "taken": lambda x: np.take(x, [0, 1, 2], axis=1),
    "indexed": lambda x: x[:, [0, 1, 2]],
    "a grid": lambda x: np.meshgrid(x[0], x[:, 0])[0],
    "repeated": lambda x: np.repeat(x, 1, 1),
    "sorted": lambda x: np.sort(x, 0),
    "partitioned": lambda x: np.partition(x, 1, 0),
    "padded": lambda x: np.pad(x, 0),
    "rolled": lambda x: np.roll(x, 1, 0),
    "tiled": lambda x: np.tile(x, (1, 1)),
    "a product": lambda x: np.einsum("ij,jk->ki", x, np.eye(3)).T * 1.5,
    "cut off": lambda x: np.delete(np.concatenate([x, x], axis=1), [1, 2, 3], axis=1),
    "a triangle": lambda x: np.tril(x, 1),
    "of a list": lambda x: np.array([x[0], x[1]], order="F"),
    "of a list of rows": lambda x: np.array([x, x])[0] * 3,
    "another dtype": lambda x: x.astype(np.complex128, order="F").real * 1.0,
    "chosen": lambda x: np.where(x > 1, x, x * 2),
    "with an order": lambda x: np.multiply(x, 2, order="F"),
    "broadcast": lambda x: x + np.zeros((1, 3)),
    "rounded off": lambda x: np.clip(x, 0.7, 1.2),
    "a difference": lambda x: np.diff(np.concatenate([x, x * 2]), axis=0)[1:],
    "stacked": lambda x: np.stack([x, x * 2], axis=-1)[..., 1],
}  # fmt: skip

VIEWS: dict[str, Callable[[Any], Any]] = {
    "ravel F": lambda y: y.ravel(order="F"),
    "reshape F": lambda y: y.reshape(-1, order="F"),
    "T ravel": lambda y: y.T.ravel(),
    "T reshape": lambda y: y.T.reshape(-1),
    "swapaxes": lambda y: y.swapaxes(0, 1).ravel(),
    "first column": lambda y: y[:, :1].ravel(),
    "reshape": lambda y: y.reshape(-1),
    "reshape to rows": lambda y: y.reshape(3, 2)[1],
    "ravel K": lambda y: y.ravel("K"),
    "ravel A": lambda y: y.ravel("A"),
    "reshape A": lambda y: np.reshape(y, (3, 2), order="A")[0],
}  # fmt: skip


def _written(make: Callable[[Any], Any], view: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = make(x)
        looking = view(y)
        looking[1] = 5.0 * x[0, 1]
        looking *= 1.5
        return np.sum(y * np.arange(1.0, 7.0).reshape(2, 3)) + np.sum(y * y)

    return f


@pytest.mark.default_policy
@pytest.mark.parametrize("made", MAKERS)
def test_gradients_of_writes(made: str) -> None:
    for seen in each([*VIEWS], 3, first=len(made)):
        check_gradients(_written(MAKERS[made], VIEWS[seen]), rounds=1, second=False, within=False)


@pytest.mark.parametrize("made", MAKERS)
def test_compiled_gradients_of_writes(made: str) -> None:
    first = [*MAKERS].index(made)
    for seen in range(first, first + (2 if SEQUENCES else 1)):
        check_gradients(_written(MAKERS[made], [*VIEWS.values()][seen % len(VIEWS)]), rounds=1, second=False)


@pytest.mark.usefixtures("every_policy")
@pytest.mark.parametrize("seen", VIEWS)
def test_more_calls(seen: str) -> None:
    check_gradients(_written(MAKERS["as Fortran"], VIEWS[seen]), second=False)


@pytest.mark.parametrize("seen", VIEWS)
def test_second_derivatives(seen: str) -> None:
    check_gradients(_written(MAKERS["as Fortran"], VIEWS[seen]), rounds=1)


@pytest.mark.parametrize("made", MAKERS)
def test_steps_that_write(made: str) -> None:
    def step(x: Any) -> Any:
        y = MAKERS[made](x)
        flat = y.reshape(-1)
        flat[0] = 5.0
        y.T.ravel()[1] = 7.0
        return y, flat

    check_step(step, rounds=2)


@pytest.mark.parametrize("seen", VIEWS)
def test_steps_that_write_into_arguments(seen: str) -> None:
    def step(x: Any) -> Any:
        VIEWS[seen](x)[1] = 5.0
        return x * 2

    check_step(step)


@pytest.mark.usefixtures("every_policy")
def test_gradients_inside_of_gradients_and_steps() -> None:
    """The layout that an inner function relies on is that of the outer one's arguments."""

    def inner(x: Any) -> Any:
        y = x * 2
        y.reshape(-1)[0] = 5.0
        return np.sum(y * y)

    check_step(lambda x: grad(inner, x)[1][0] * 2)
    check_gradients(lambda x: np.sum(np.sin(grad(inner, x)[1][0])), second=False)


def test_a_view_written_in_an_array_of_another_layout() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for layout in (x, np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], np.broadcast_to(x[:1], (2, 3))):
        for args, kwargs in (((-1,), {}), ((-1, "F"), {}), (((3, 2),), {"order": "F"})):
            value = np.arange(6.0).reshape(np.reshape(x, *args, **kwargs).shape) + 10
            have = set_view(layout, value, np.reshape, args, kwargs)
            assert_array_equal(np.reshape(have, *args, **kwargs), value)
    assert_array_equal(set_view(np.zeros((0, 3)), np.zeros(0), np.ravel, (), {}), np.zeros((0, 3)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_arrays_whose_elements_share_memory() -> None:
    def grid(x: Any) -> Any:
        a, _ = np.meshgrid(x, np.ones(2), copy=False)
        a[0] = 5.0
        return np.sum(x)

    def windows(x: Any) -> Any:
        a, _ = np.broadcast_arrays(x, np.ones((2, 3)))
        a += 1.0
        return np.sum(x)

    for f in (grid, windows):
        with pytest.raises(MutationError, match=r"elements share memory.*x\.copy"):
            grad(lambda x: f(x * 2), np.ones(3))  # noqa: B023
        step = jit(lambda x: f(x * 2))  # noqa: B023
        for x in (np.ones(3), np.arange(3.0), np.ones(3)):
            assert step(x) == f(x * 2)


def test_views_of_sparse_grids() -> None:
    def f(x: Any) -> Any:
        y = x[0] * 2
        a, _ = np.meshgrid(y, np.ones(2), copy=False, sparse=True)
        a[0, 1] = 5.0 * x[1, 1]
        return np.sum(y * y)

    check_gradients(f)


def test_reads_through_grids_that_are_views() -> None:
    def f(x: Any) -> Any:
        y = x[0] * 2
        a, _ = np.meshgrid(y, np.ones(2), copy=False)
        y[0] = x[1, 1]
        return np.sum(a * a)

    check_gradients(f)
