"""In which arguments derivatives are taken, counted from either end, and what is said where there are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import NonScalarOutputError, NotDifferentiableError, grad, gradient, gradtape, pullback, value_and_grad

pytestmark = pytest.mark.usefixtures("every_policy")


def product(x: Any, y: Any = 1.0) -> Any:
    return x * y * y


def square(x: Any = 1.0) -> Any:
    return x * x


def power(x: Any, argnums: int = 3) -> Any:
    return x**argnums


HABITS: dict[str, tuple[Callable[[], Any], str]] = {
    "no arguments": (lambda: grad(product)(2.0), r"gradient\(f\)\(2.0\)"),  # type: ignore[operator]
    "defaults": (lambda: grad(square)(2.0), r"value_and_grad\(f\)"),  # type: ignore[operator]
    "nothing to pass": (lambda: grad(lambda: 1.0), r"got no arguments by position"),
    "argnums": (lambda: grad(product, argnums=1), r"gradient\(f, 1\)\(2.0\)"),
    "argnums beside": (lambda: grad(product, 2.0, argnums=0), r"cannot be called with .* argnums=0"),
    "several": (lambda: grad(product, argnums=(0, 1)), r"gradient\(f, \(0, 1\)\)"),
    "has_aux": (lambda: grad(product, has_aux=True), r"value_and_grad\(f\)"),
    "a position": (lambda: grad(product, 0)(2.0), r"gradient\(f, 0\)"),  # type: ignore[operator]
    "a position too few": (lambda: grad(lambda a, b: a * b, 1)(2.0), r"gradient\(f, 1\)\(2.0\)"),  # type: ignore[operator]
    "by name": (lambda: grad(square, x=2.0), "got no arguments by position"),
    "pullback": (lambda: pullback(product), r"pullback\(product\) got no arguments"),
    "gradtape": (lambda: gradtape(product), r"gradtape\(product\) got no arguments"),
    "a ufunc": (lambda: grad(np.sin), r"gradient\(f\)\(2.0\)"),
}


@pytest.mark.parametrize("habit", HABITS)
def test_habits_of_other_libraries(habit: str) -> None:
    call, said = HABITS[habit]
    for _ in range(2):
        with pytest.raises(NotDifferentiableError, match=rf"test_arguments_differentiated.py:\d+: .*{said}"):
            call()


def test_functions_that_have_such_parameters() -> None:
    for t in (2.0, 3.0, 2.0):
        assert grad(power, t, argnums=2) == (t * t, (2 * t,))
        assert grad(lambda x, **options: x * options["argnums"], t, argnums=3) == (3 * t, (3.0,))


def test_a_function_that_raises_by_itself() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        grad(lambda a, b: a * b, 2.0)


class Model:
    scale = 2.0

    @value_and_grad
    def decorated(self, w: Any) -> Any:
        return w * w

    def plain(self, w: Any, n: int = 1) -> Any:
        return self.scale * w * w * n


def test_arguments_are_named() -> None:
    with pytest.raises(NotDifferentiableError) as caught:
        grad(lambda n, text, none, array, model, pair: 1.0, 2, "ab" * 50, None, np.arange(3), Model(), (1, [2]))
    expected = [
        "n is an int, 2;", "text is a str, 'ababab", "none is None", "array is an array of int64, of shape (3,)",
        "model is of type Model", "pair is a tuple, (1, [2])",
    ]  # fmt: skip
    for said in expected:
        assert said in str(caught.value)
    assert len(str(caught.value)) < 600


def test_self_of_a_decorated_method() -> None:
    with pytest.raises(NotDifferentiableError, match=r"self is of type Model; self counts as argument 0 .*argnums=1"):
        Model().decorated(2.0)
    for t in (2.0, 3.0):
        assert value_and_grad(Model.plain, 1)(Model(), t) == (2 * t * t, 4 * t)
        assert value_and_grad(Model().plain)(t) == (2 * t * t, 4 * t)
    with pytest.raises(NotDifferentiableError, match="differentiable: w is an int, 3"):
        value_and_grad(Model().plain)(3)


def test_negative_positions() -> None:
    last = gradient(lambda *xs: np.sum(xs[0] * xs[-1] ** 2), -1)
    for t in (2.0, 3.0, 5.0):  # the number of arguments is the call's
        assert last(1.0, t) == 2 * t
        assert last(1.0, 7.0, t) == 2 * t
        assert last(t) == 3 * t * t
        assert value_and_grad(product, (-1, 0))(t, 3.0) == (9 * t, (6 * t, 9.0))
        assert value_and_grad(Model().plain, -2)(t, 3) == (6 * t * t, 12 * t)
        assert gradient(gradient(product, -1), -1)(t, 3.0) == 2 * t
    assert value_and_grad(product, [np.int64(0), -1])(1.0, 2.0) == (4.0, (4.0, 4.0))


@pytest.mark.parametrize("argnums", [2, -3, (0, 2), (-3, 1)])
def test_positions_out_of_range(argnums: Any) -> None:
    with pytest.raises(TypeError, match=r"py:\d+: argnums=.*product got 2 positional arguments \(x, y\)"):
        gradient(product, argnums)(2.0, 3.0)


@pytest.mark.parametrize("argnums", [(), 1.5, "x", None, True])
def test_what_is_no_position(argnums: Any) -> None:
    with pytest.raises(ValueError, match="argnums are positions of arguments"):
        gradient(product, argnums)


@pytest.mark.parametrize(("shape", "index"), [((1,), r"y\[0\]"), ((1, 1), r"y\[0, 0\]"), ((1, 1, 1), r"y\[0, 0, 0\]")])
def test_arrays_of_one_element(shape: tuple[int, ...], index: str) -> None:
    with pytest.raises(NonScalarOutputError, match=rf"{index} or y.item\(\)"):
        grad(lambda x: (x * x).reshape(shape), np.ones(1))
    assert grad(lambda x: (x * x).reshape(shape).item(), np.ones(1))[0] == 1.0
    with pytest.raises(NonScalarOutputError, match="reduce the output to a scalar"):
        grad(lambda x: x * x, np.ones(2))


@pytest.mark.parametrize("r", [range(0), range(3), range(1, 9, 2)])
def test_ranges_have_no_gradient(r: range) -> None:
    for x in (1.0, 2.0, 3.0, 4.0):
        assert grad(lambda x, r: x * x + sum(r), x, r) == (x * x + sum(r), (2 * x, None))


@pytest.mark.parametrize(("call", "said"), [
    (lambda: value_and_grad(lambda n, x: x**n)(3, 2.0), "n is an int, 3. Say what is to be differentiated: argnums=1"),
    (lambda: gradient(lambda x, n, p: x, argnums=-2)(2.0, 3, [1.0]), "to be differentiated: argnums=(0, 2)"),
    (lambda: grad(lambda x: x, np.array([1, 2])), "Pass 2.0, not 2: derivatives are taken"),
    (lambda: grad(lambda p: 1.0, []), "p is a list, []. Derivatives are taken"),
    (lambda: grad(lambda p: 1.0, object()), "p is of type object. Derivatives are taken"),
])  # fmt: skip
def test_the_advice_fits_the_arguments(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(NotDifferentiableError) as caught:
        call()
    assert said in str(caught.value)


def _nested() -> list[Any]:
    deep: list[Any] = [1.0]
    for _ in range(3000):
        deep = [deep]
    return deep


def _in_itself() -> list[Any]:
    p: list[Any] = [1.0]
    p.append(p)
    return p


@pytest.mark.parametrize("argument", [_nested(), _in_itself()], ids=["nested", "in itself"])
def test_an_argument_without_end_is_named(argument: Any) -> None:
    for call, name in (
        (lambda: grad(lambda x, p: x, 1.0, argument), "argument 1"),
        (lambda: value_and_grad(lambda x, *, p: x)(1.0, p=argument), "argument p"),
    ):
        with pytest.raises(RecursionError, match=rf"^test_arguments_differentiated.py:\d+: {name} contains itself, or"):
            call()
