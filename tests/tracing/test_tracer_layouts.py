"""Tracers outside of their trace, layouts of arguments, containers."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tracing import Function, slope

from yota_py import grad, gradtape, trace
from yota_py.errors import YotaError

# ------------------------------------------------------------------------------------- a tracer outside of its trace


def _leaked() -> Any:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        kept.append(y)
        return np.sum(y * y)

    grad(f, np.ones(3))
    return kept[0]


def test_a_tracer_after_its_trace_says_so_or_is_plain() -> None:
    """A traced value kept by the user is the plain value afterwards, or refuses each use by its name."""
    uses: list[Function] = [
        lambda t: t + 1,
        lambda t: np.sum(t),
        lambda t: t[0],
        lambda t: bool(t[0] > 0),
        lambda t: float(t[0]),
        lambda t: t.mean(),
    ]
    for use in uses:
        kept = _leaked()
        try:
            result = use(kept)
        except YotaError as error:
            assert "trace had ended" in str(error) and "test_tracer_layouts.py" in str(error)
        else:
            assert_allclose(result, use(np.full(3, 2.0)))


def test_a_tracer_stored_in_a_global() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x):\n    global last\n    last = x * 2\n    return x * x", namespace)
    for x in (1.0, 2.0, 3.0, 4.0):
        assert grad(namespace["f"], x) == (x * x, (2 * x,))
        try:
            assert namespace["last"] + 1 == 2 * x + 1
        except YotaError as error:
            assert "trace had ended" in str(error)


def test_an_old_tracer_in_a_new_trace() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x * 2)
        return x * kept[0]

    grad(f, 2.0)
    for x in (3.0, 5.0, 7.0):
        try:
            assert grad(f, x) == (4.0 * x, (4.0,))
        except YotaError as error:
            assert "trace had ended" in str(error) and "test_tracer_layouts.py" in str(error)


# ----------------------------------------------------------------------------------------- layouts of the arguments


def _layouts(x: np.ndarray) -> list[np.ndarray]:
    big = np.zeros((x.shape[0] * 2, x.shape[1] * 3))
    big[::2, ::3] = x
    readonly = x.copy()
    readonly.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64).reshape(x.shape)
    return [
        np.asfortranarray(x),
        x[::-1][::-1],
        np.ascontiguousarray(x[::-1])[::-1],
        np.ascontiguousarray(x[:, ::-1])[:, ::-1],
        big[::2, ::3],
        readonly,
        unaligned,
        x.astype(">f8"),
        np.ascontiguousarray(x.T).T,
        np.broadcast_to(x[:1], x.shape),
    ]


def test_layouts_of_arguments() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x[0]) + np.sum(x @ x.T) + np.sum(x[:, 1:] * x[:, :-1])

    x = np.linspace(0.1, 2.0, 12).reshape(3, 4)
    for _ in range(3):
        for layout in _layouts(x):
            value, (g,) = grad(f, layout)
            plain = np.array(layout, np.float64, order="C")
            want, (want_g,) = gradtape(f, plain).play(plain)
            assert_allclose(value, want, rtol=1e-12)
            assert_allclose(g, want_g, rtol=1e-12)
            assert g.shape == x.shape and g.dtype.newbyteorder("=") == np.float64
            assert g.flags.c_contiguous and g.flags.writeable


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("kind", [np.matrix, np.ma.array])
def test_array_subclasses_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"test_tracer_layouts.py:\d+: the argument x is a .*np.asarray"):
        grad(lambda x: np.sum(x), kind([[1.0, 2.0]]))


def test_integer_and_boolean_arrays_carry_no_derivative() -> None:
    def f(x: Any, i: Any, m: Any) -> Any:
        return np.sum(x[i] * i) + np.sum(x[m]) + np.sum(np.where(m, x, 0))

    x = np.arange(1.0, 4.0)
    for i in ([0, 1], [1, 2], [2, 2], [0, -1], [1, 1, 1]):
        for dtype in (np.int64, np.int32, np.int8):
            for m in ([True, False, True], [False] * 3, [True] * 3):
                index, mask = np.array(i, dtype), np.array(m)
                value, (g, gi, gm) = grad(f, x, index, mask)
                assert value == f(x, index, mask) and gi is None and gm is None
                assert_allclose(g, slope(lambda x: f(x, index, mask), x), rtol=1e-6)  # noqa: B023


# ------------------------------------------------------------------------------------------------------- containers


class Pair(NamedTuple):
    """A named tuple."""

    a: Any
    b: Any


@dataclasses.dataclass
class Params:
    """A dataclass."""

    a: Any
    b: Any


def _by_name(p: Any) -> Any:
    return p.a * np.sum(p.b**2)


def _by_key(p: Any) -> Any:
    return p["a"] * np.sum(p["b"] ** 2)


def _by_index(p: Any) -> Any:
    return p[0] * np.sum(p[1] ** 2)


@pytest.mark.parametrize(
    ("f", "make"),
    [
        (_by_index, lambda a, b: [a, b]),
        (_by_index, lambda a, b: (a, b)),
        (_by_name, Pair),
        (_by_name, Params),
        (_by_key, lambda a, b: {"a": a, "b": b}),
        (_by_key, lambda a, b: collections.OrderedDict(b=b, a=a)),
        (_by_key, lambda a, b: collections.defaultdict(float, {"a": a, "b": b})),
    ],
    ids=["list", "tuple", "namedtuple", "dataclass", "dict", "OrderedDict", "defaultdict"],
)
def test_containers(f: Function, make: Callable[..., Any]) -> None:
    for i in range(4):
        p = make(2.0 + i, np.ones(3))
        value, (g,) = grad(f, p)
        a, b = (g.a, g.b) if f is _by_name else (g["a"], g["b"]) if f is _by_key else g
        assert type(g) is type(p) and value == 3.0 * (2 + i) and a == 3.0 and type(a) is float
        assert_array_equal(b, np.full(3, 2 * (2.0 + i)))


def test_none_and_static_leaves_in_containers() -> None:
    def f(p: Any, q: Any) -> Any:
        return p[0] * 2 + (0 if p[1] is None else p[1] * 3) + q["z"] * 0 * q["i"]

    q = {"z": 1.0, "n": None, "s": "abc", "i": 3, "b": True}
    none = {"z": 0.0, "n": None, "s": None, "i": None, "b": None}
    for _ in range(4):
        assert grad(f, [2.0, None], q) == (4.0, ([2.0, None], none))
        assert grad(f, [2.0, 5.0], q) == (19.0, ([2.0, 3.0], none))
        assert grad(f, [2.0, None], {**q, "i": 7})[0] == 4.0


def test_the_tape_of_a_trace_is_not_the_gradient() -> None:
    tape = trace(lambda x: np.sum(x * x), np.ones(2))
    assert tape.play(np.array([1.0, 2.0])) == 5.0
