"""F-strings that are only printed or logged: no decisions, but made anew of the values of each call."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yota_py import config, explain, grad, jit, stop_gradient, trace, value_and_grad
from yota_py.base.formatted import f_strings
from yota_py.capture.recording import record_call
from yota_py.tape.operations import Guard

XS = (1.0, 2.0, 3.0, -1.0, 22.5, 2.0)
logger = logging.getLogger("yota_py_tests.formatted")
weights = np.ones(2)


class Tagged:
    tag, log = "t", logger

    def loss(self, x: Any) -> Any:
        self.log.info(f"{self.tag}: {x:.3f} and {np.sum(weights * x):9.2e} %s", x)
        return x * x

    def __format__(self, spec: str) -> str:
        return f"<{spec}>"


def printed(f: Callable[..., Any], *args: Any) -> str:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with contextlib.redirect_stdout(out):
            f(*args)
    finally:
        logger.removeHandler(handler)
    return out.getvalue()


def simple(x: Any) -> Any:
    print(f"loss {x:.3f}")
    return x * x


def alone(x: Any) -> Any:
    print(f"{x}", f"{x!r}", f"{x!s}", f"{x=}", sep="|")
    return x * x


def mixed(x: Any) -> Any:
    for i in range(3):
        print(f"{i:03d} {{{x:8.2e}}} of {len(weights)}, {weights * x} {Tagged():a}%", "and", x, end=";\n")
        x = 0.5 * x + float(i)
    return x


def given_width(x: Any, width: int = 9) -> Any:
    print(f"[{x:{width}.2f}]", f"[{x:>{width}}]")
    return x * x


def chosen(x: Any) -> Any:
    y = x if x > 0 else -2.0 * x
    if x < 10:
        print(f"y is {y:.2f} {x > 0}", f"{x:.1f}")
    else:
        print(f"large {y}")
    return y


def nested(x: Any) -> Any:
    def inner(z: Any) -> Any:
        print(f"inner {z:.2f} of {x:.3f}")
        return z * z * x

    value, (slope,) = grad(inner, x + 1.0)
    print(f"outer {value:.3f} {slope:.3f}")
    return value * 1.0


def stopped(x: Any) -> Any:
    print(f"{float(stop_gradient(x)):.2f}", f"{stop_gradient(x):.1f}", f"{np.sin(x).dtype} {x.__class__.__name__}")
    return x * x


def logged(x: Any) -> Any:
    logger.info(f"x {x:.2f} %s %%", x)
    Tagged.log.warning(f"w {x * 2}")
    logger.log(30, f"level {x}")
    logger.debug(f"hidden {x}")
    return x * x


FUNCTIONS = [simple, alone, mixed, given_width, chosen, nested, stopped, logged, Tagged().loss]


@pytest.mark.parametrize("transform", [value_and_grad, jit])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_compiled(f: Any, transform: Any, every_policy: None) -> None:
    made = transform(f)
    for x in XS:
        assert printed(made, x) == printed(f, x) != ""
    if config.compile == "always":
        assert sum(each.calls for each in explain(made)) >= 3


@pytest.mark.parametrize("f", FUNCTIONS)
def test_checked(f: Any) -> None:
    config.check = True
    made = value_and_grad(f)
    for x in XS:
        assert printed(made, x) == printed(f, x) != ""


# -- texts that others may see are decisions


def kept(x: Any) -> Any:
    text = f"{x:.1f}"
    print(text)
    return x * len(text)


def added(x: Any) -> Any:
    print(f"{x:.1f}" + "!", len(f"{x:.1f}"), f"{x:.1f}"[0])
    return x * x


def in_list(x: Any) -> Any:
    print([f"{x:.1f}"], *[f"{x}"], (f"{x}",))
    return x * x


def assigned(x: Any) -> Any:
    print(text := f"{x:.1f}")
    return x * len(text)


def other_print(x: Any) -> Any:
    print = len
    return x * print(f"{x:.1f}")


def as_keyword(x: Any) -> Any:
    print(x, end=f"{x:.1f}\n")
    return x * x


def ambiguous(x: Any) -> Any:
    a, b = "1.0 1.0", "1.0"
    print(f"{a} {x} {b}")
    return x * x


def either(x: Any) -> Any:
    print(f"{x:.1f}" if x < 10 else f"large {x}")
    return x * x


def of_a_call(x: Any) -> Any:
    logging.getLogger("yota_py_tests.formatted").warning(f"w {x * 2}")
    return x * x


def percent(x: Any) -> Any:
    print("{:.2f}".format(x))  # noqa: UP032
    return x * x


@pytest.mark.filterwarnings("ignore::yota_py.errors.UncachedWarning")
@pytest.mark.parametrize("transform", [value_and_grad, jit])
@pytest.mark.parametrize("f", [
    kept, added, in_list, assigned, other_print, as_keyword, ambiguous, either, of_a_call, percent,
])  # fmt: skip
def test_decisions(f: Any, transform: Any, every_policy: None) -> None:
    made, plain = transform(f), []

    def call(x: Any) -> None:
        plain.append(f(x))

    for x in XS:
        want = printed(call, x)
        values: list[Any] = []
        assert printed(lambda x, values=values: values.append(made(x)), x) == want
        value = values[0] if transform is jit else values[0][0]
        assert value == pytest.approx(plain[-1])


def test_no_decision() -> None:
    def guards(f: Any, x: float) -> int:
        return sum(isinstance(op, Guard) for op in record_call(f, (x,), {}).tape.ops)

    found: list[int] = []
    for f in (simple, alone, mixed, logged, kept, added):
        printed(lambda f=f: found.append(guards(f, 2.0)))
    assert found == [0, 0, 0, 0, 1, 3]


def test_on_tapes(capsys: pytest.CaptureFixture[str]) -> None:
    tape = trace(mixed, 2.0)
    assert "= print(f'000 {{{%1:8.2e}}} of 2, {%3} <a>%', 'and', %1, end=';\\n')" in str(tape)
    assert capsys.readouterr().out.startswith("000 {2.00e+00 (%1)} of 2, [2. 2.] (%3) <a>% and 2.0 (%1);")
    tape.play(4.0)
    assert capsys.readouterr().out.startswith("000 {4.00e+00} of 2, [4. 4.] <a>% and 4.0;")


def test_which_call_gets_it() -> None:
    def f(x: Any, y: Any) -> None:
        print("a", f"x{x}y{y:.2f}", len(f"{x}"), x + y)
        text = f"{x}"
        print(text, [f"{x}"], f"{x}" + text, end=f"{y}")

    found = f_strings(f.__code__).by_format.values()
    parts = {tuple(part if isinstance(part, str) else "" for part in text.parts): text.position for text in found}
    assert parts == {("x", "", "y", ""): 1, ("",): 0}  # that of len is one of its arguments, too
    assert len({text.call for text in found}) == 2
    assert f_strings(sys._getframe().f_code) is f_strings(sys._getframe().f_code)
