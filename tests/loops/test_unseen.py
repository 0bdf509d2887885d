"""What turns of Python loops may do that their local variables do not show: then each of them runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from yota_py import config, grad, jit, scan, value_and_grad

HEADS = {"while": ("while x > 0.1", "0.7"), "for": ("for _ in range(300)", "0.99")}


@dataclass(frozen=True)
class Program:
    """Text: what the module has, what comes before the loop, what a turn does, and what comes of it."""

    module: str
    before: str
    turn: str
    result: str
    start: Any = 30.0


PROGRAMS = {
    # decisions on values that do not depend on arguments
    "limit": Program("", "k = np.zeros(())", "x, k = Q * x, k + 1\nif k > (100 if Q > 0.8 else 10): break", "x"),
    "item": Program("", "k = np.zeros(1)", "x = x * (Q if k.item() < 6 else 0.5 * Q)\nk = k + 1", "x"),
    "float": Program("", "k = np.zeros(())", "x = x * (Q if float(k) < 6 else 0.5 * Q)\nk = k + 1", "x"),
    "mask": Program("", "w = np.array([9., 8., 7., 6.])",
                    "w = w - 0.3\nx = x * Q * (0.7 + 0.01 * np.sum(w[w > 6.5]))", "x"),
    # layout in memory
    "order": Program("", "y = np.stack([x * np.arange(1., 3.)] * 2)", "y = y.T * Q\nx = Q * x",
                     "np.sum(y) * (2 if y.flags.c_contiguous else 3) + x"),
    "ravel": Program("", "y = np.stack([x * np.arange(1., 3.)] * 2)", "y = y.T * Q\nx = Q * x",
                     "np.sum(y.ravel(order='K') * np.arange(1., 5.))"),
    # attributes and classes
    "function": Program("def step(x):\n    step.n[0] += 1\n    return x * Q if step.n[0] < 7 else 0.8 * Q * x\n"
                        "step.n = [0]", "step.n[0] = 0", "x = step(x)", "x * step.n[0]"),
    "class": Program("@dataclass\nclass S:\n    p: object\nS.log = []", "S.log.clear()", "S.log.append(1)\nx = Q * x",
                     "x * len(S.log)"),
    "tuple": Program("class S(NamedTuple):\n    p: object\nS.log = []", "S.log.clear()", "S.log.append(1)\nx = Q * x",
                     "x * len(S.log)"),
    "instance": Program("@dataclass\nclass S:\n    p: object\ns = S(1.0)\ns.mine = []", "s.mine.clear()",
                        "s.mine.append(1)\nx = Q * x", "x * len(s.mine)"),
    "exception": Program("class E(Exception):\n    log = []\n    def __init__(self): E.log.append(1)", "E.log.clear()",
                         "E()\nx = Q * x", "x * len(E.log)"),
    "exception's list": Program("class E(Exception):\n    log = []", "E.log.clear()", "E.log.append(1)\nx = Q * x",
                                "x * len(E.log)"),
    "default": Program("@dataclass\nclass S:\n    p: object = None\n    kept = {}\nS.kept['n'] = 0", "S.kept['n'] = 0",
                       "S.kept.update(n=S.kept['n'] + 1)\nx = Q * x", "x * S.kept['n']"),
    # dicts
    "keys": Program("D = {0: 1.0}", "D.clear(); D[0] = 1.0", "D.update({max(D) + 1: 1.0}); D.pop(min(D))\nx = Q * x",
                    "x * max(D)"),
    "keys of a cell": Program("", "d = {0: 1.0}\ndef turn():\n    d.update({max(d) + 1: 1.0}); d.pop(min(d))",
                              "turn()\nx = Q * x", "x * max(d)"),
    "order of keys": Program("O = {0: 1.0, 1: 1.0}", "O.clear(); O.update({0: 1.0, 1: 1.0})",
                             "O.update({list(O)[0]: O.pop(list(O)[0])})\nx = x * (Q if list(O)[0] else 0.9 * Q)", "x"),
    "defaultdict": Program("", "d = defaultdict(int); d[0] = 1",
                           "d.update({list(d)[0] + 1: 1}); d.pop(list(d)[0])\nx = Q * x", "x * list(d)[0]"),
    "factory": Program("CALLS = []\nDD = defaultdict(lambda: CALLS.append(1) or 1.0)", "CALLS.clear()",
                       "DD[0]; DD.pop(0)\nx = Q * x", "x * len(CALLS)"),
    # other code
    "frompyfunc": Program("LOG = []\ntick = np.frompyfunc(lambda k: LOG.append(k) or len(LOG), 1, 1)\n"
                          "n = lambda: len(LOG)", "LOG.clear()",
                          "x = x * Q if tick(1) < 7 else 0.8 * Q * x", "x * n()"),
    "locals": Program("", "d = locals()", "x = Q * x", "d['x'] + x"),
    "an alias of locals": Program("found = locals", "d = found()", "x = Q * x", "d['x'] + x"),
    # arrays that are written elsewhere
    "cell": Program("", "buf = np.zeros(2)\ndef note(v): buf[0] = v\ndef loop(x):\n    HEAD:\n        note(x)\n"
                    "        x = Q * x\n    return x\nx = loop(x)", "break", "x + buf[0]"),
    "out": Program("", "buf, one = np.zeros(2) * x, np.ones(2)\ndef note(v): np.multiply(one, v, out=buf)\n"
                   "def loop(x):\n    HEAD:\n        note(x)\n        x = Q * x\n    return x\nx = loop(x)", "break",
                   "x + buf[0]"),
    # loops in loops, of which the inner ones begin again
    "inner turns": Program("", "k = 0", "k = int(stop_gradient(np.minimum(x, 9.0)))\ny = 0.0\n"
                           "for i in range(k): y = y + 0.001 * x\nx = Q * x + 0.01 * y", "x", 1e6),
    "two inner loops": Program("", "y = x", "y = 0.0 * x\nfor i in range(9): y = y + 0.01 * np.sin(x)\n"
                               "x = 0.9 * Q * x + 0.1 * y + 0.01 * x * x / (1 + x * x)\n"
                               "for i in range(12): x = 0.999 * x", "x"),
    # what is made in a turn is written into afterwards
    "writes": Program("", "c = x * np.ones(2)", "x, c = Q * x, np.array([1.0, 2.0])", "x * np.sum(written(c))"),
    "writes into zeros": Program("", "c = x * np.ones(2)", "x, c = Q * x, np.zeros(2) + 0.0 * x",
                                 "x * np.sum(written(c))"),
}  # fmt: skip
COMMON = """
import numpy as np
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple
from yota_py import stop_gradient
def written(c):
    c[0] = 7.0
    return c
"""


def made(program: Program, head: str) -> Callable[..., Any]:
    begins, factor = HEADS[head]
    lines = [*program.before.splitlines(), "HEAD:", *("    " + line for line in program.turn.splitlines()),
             f"return {program.result}"]  # fmt: skip
    text = COMMON + program.module + "\ndef f(x):\n" + "".join(f"    {line}\n" for line in lines)
    names: dict[str, Any] = {"__name__": __name__}
    exec(text.replace("HEAD", begins).replace("Q", factor), names)
    return names["f"]  # type: ignore[no-any-return]


@pytest.fixture(params=["never", "always"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    config.compile, config.audit, before = request.param, "off", (config.compile, config.audit)
    yield request.param
    config.compile, config.audit = before


@pytest.mark.singly("head")
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_turns_with_more_than_local_variables(name: str, head: str, mode: str) -> None:
    program = PROGRAMS[name]
    f, again = made(program, head), made(program, head)
    gradients, step = value_and_grad(f), jit(f)
    for factor in (1.0, 0.2, 2.0, 1.0):
        x = program.start * factor
        config.roll, config.compile = False, "never"  # unrolled tapes take long to compile
        try:
            want = value_and_grad(again)(x)
        finally:
            config.roll, config.compile = True, mode  # type: ignore[assignment]
        plain = again(x)
        have = gradients(x)
        assert np.allclose(have[0], plain, rtol=1e-10)
        assert np.allclose(have[1], want[1], rtol=1e-8)
        assert np.allclose(step(x), plain, rtol=1e-10)


def test_scans_with_dicts_and_constants(mode: str) -> None:
    table = {0: 1.0}

    def f(a: Any) -> Any:
        table.clear()
        table[0] = 1.0

        def step(c: Any, _: Any) -> Any:
            table.update({max(table) + 1: 1.0})
            table.pop(min(table))
            return c * 0.9, None

        return scan(step, a, None, length=20)[0] * max(table)

    def g(a: Any) -> Any:
        c, y = scan(lambda c, x: (np.array([1.0, 2.0]), c * x), np.zeros(2), a)
        c[0] = 7.0
        return np.sum(c) * a[0] + np.sum(y)

    for a in (2.0, 3.0, 1.0):
        assert np.allclose(value_and_grad(f)(a)[0], f(a))
        assert np.allclose(value_and_grad(g)(a * np.ones(20))[0], g(a * np.ones(20)))


def test_powers_that_become_complex() -> None:
    def f(a: Any) -> Any:
        x, n = a, 0.0 * a
        while n < 12.0:
            x, n = abs((x - 1.0) ** 0.5) * 0.8, n + 1.0
        return x

    config.compile, before = "never", config.compile
    try:
        value, (slope,) = grad(f, 2.0)
    finally:
        config.compile = before
    assert np.isclose(value, f(2.0))
    assert np.isclose(slope, (f(2.0 + 1e-6) - f(2.0 - 1e-6)) / 2e-6, rtol=1e-4)
