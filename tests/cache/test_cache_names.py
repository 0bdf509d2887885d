"""Names that a cached function reads, bound to something else between two calls."""

from __future__ import annotations

import builtins
import importlib
import math
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import agree
from caching import SCALE, WEIGHTS, follows, function, rebind, write

from yota_py import grad

# ------------------------------------------------------------------------------- names that are bound to something else


def test_globals() -> None:
    f = function("def f(x): return np.sum(W * x) * scale + helper(x)", W=np.ones(3), scale=2.0, helper=np.sum)
    follows(
        f,
        rebind(f, scale=3.0),
        rebind(f, scale=3),
        rebind(f, scale=np.float64(4)),
        rebind(f, W=np.arange(3.0)),
        write(f.__globals__["W"], 7.0),
        rebind(f, W=np.ones((2, 3))),
        rebind(f, W=2.5),
        rebind(f, W=np.ones(3, np.float32)),
        rebind(f, helper=np.max),
        rebind(f, helper=lambda x: x[0] * 5),
        rebind(f, scale=np.ones(3)[0]),
        x=np.ones(3),
    )


def test_the_functions_own_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return np.sum(WEIGHTS * x) * SCALE

    here = sys.modules[__name__]
    follows(
        f,
        lambda: monkeypatch.setattr(here, "SCALE", 3.0),
        lambda: monkeypatch.setattr(here, "WEIGHTS", np.full(3, 5.0)),
        lambda: monkeypatch.setattr(here, "WEIGHTS", np.full(2, 5.0)[:1]),
        lambda: monkeypatch.undo(),
    )


def test_closures() -> None:
    lr, w, helper = 1.0, np.ones(3), np.sum

    def f(x: Any) -> Any:
        return helper(w * x) * lr

    def set_lr() -> None:
        nonlocal lr
        lr = 3.0

    def set_w() -> None:
        nonlocal w
        w = np.arange(5.0)

    def set_helper() -> None:
        nonlocal helper
        helper = np.prod  # type: ignore[assignment]

    follows(f, set_lr, write(w, 4.0), set_w, set_helper)


def test_closures_of_one_code_object() -> None:
    def make(g: Callable[..., Any], w: Any, k: float) -> Callable[..., Any]:
        def f(x: Any) -> Any:
            return np.sum(g(x) * w) * k

        return f

    cases = [
        make(np.sin, np.ones(3), 1.0),
        make(np.cos, np.ones(3), 1.0),
        make(np.sin, np.arange(3.0), 1.0),
        make(np.sin, np.ones(3), 2.0),
        make(np.sin, np.ones(2)[:1], 2.0),
        make(lambda x: x, np.ones(3), 1.0),
        make(lambda x: x * x, np.ones(3), 1.0),
        make(np.sin, np.ones(3, int), 1.0),
        make(np.sin, 2.0, 1),
    ]
    for i in range(3):
        for f in cases:
            agree(f, np.ones(3) + i)


def test_defaults() -> None:
    def f(x: Any, d: Any = np.full(2, 3.0), *, k: Any = (1.0, np.ones(2))) -> Any:  # noqa: B008 - that is the point
        return np.sum(d * k[1] * k[0] * x)

    first, second = f.__defaults__, f.__kwdefaults__
    assert first is not None and second is not None
    follows(
        f,
        write(first[0], 7.0, 1),
        lambda: setattr(f, "__defaults__", (np.full(2, 0.5),)),
        write(second["k"][1], 9.0),
        lambda: second.__setitem__("k", (2.0, np.arange(2.0))),
        lambda: second.__setitem__("k", (3.0, np.ones(2))),
        lambda: setattr(f, "__defaults__", (4.0,)),
    )


def test_containers() -> None:
    config = {"layers": [np.ones(2), {"w": np.ones(2)}], "scale": 2.0, "name": "a"}
    steps = [1.0, 2.0, 3.0]

    def f(x: Any) -> Any:
        y = np.sum(config["layers"][1]["w"] * x) * config["scale"] * sum(steps)
        return y * 2 if config.get("double") else y + len(config["name"])

    follows(
        f,
        lambda: config.update(scale=5.0),
        write(config["layers"][1]["w"], 3.0),
        write(config["layers"][1], np.arange(3.0), "w"),
        lambda: steps.append(4.0),
        lambda: steps.__setitem__(0, 10.0),
        lambda: steps.reverse(),
        lambda: config.update(name="abc"),
        lambda: config.update(double=True),
        lambda: steps.clear(),
    )


def test_the_order_of_a_dict() -> None:
    f = function(
        "def f(x): return x * next(iter(table.values())) + sum(k * ord(n) for k, n in enumerate(table))", table={}
    )
    follows(f.__class__(f.__code__, f.__globals__ | {"table": {"a": 1.0}}))
    f.__globals__["table"] = {"a": 1.0, "b": 2.0}
    follows(f, rebind(f, table={"b": 2.0, "a": 1.0}), rebind(f, table={"a": 1.0, "b": 2.0}))


def test_the_order_of_a_dict_argument() -> None:
    def f(p: dict[str, Any]) -> Any:
        first, second = p.values()
        return first * first + 3 * second

    for p in [{"a": 1.0, "b": 2.0}] * 3 + [{"b": 2.0, "a": 1.0}] * 3 + [{"a": 4.0, "b": 5.0}]:
        value, (g,) = grad(f, p)
        assert value == f(p)
        first, second = p
        assert g == {first: 2 * p[first], second: 3.0}


def test_sets() -> None:
    names = {"a", "b"}
    follows(lambda x: x * len(names) * (2 if "a" in names else 3), lambda: names.add("c"), lambda: names.discard("a"))


def test_module_attributes() -> None:
    module = types.ModuleType("settings")
    module.__dict__.update(scale=2.0, w=np.ones(3))
    f = function("def f(x): return np.sum(settings.w * x) * settings.scale", settings=module)
    other = types.ModuleType("settings")
    other.__dict__.update(scale=7.0, w=np.ones(3))
    follows(
        f,
        lambda: setattr(module, "scale", 3.0),
        write(module.w, 9.0),
        lambda: setattr(module, "w", np.ones(7)),
        lambda: setattr(module, "w", 2.0),
        rebind(f, settings=other),
        lambda: setattr(other, "scale", 8.0),
    )


@pytest.mark.parametrize("line", ["import user_settings as s", "from user_settings import lr", "import user_settings"])
def test_imports_inside_the_function(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("user_settings")
    module.__dict__.update(lr=1.0)
    monkeypatch.setitem(sys.modules, "user_settings", module)
    name = {"import user_settings as s": "s.lr", "from user_settings import lr": "lr"}.get(line, "user_settings.lr")
    f = function(f"def f(x):\n    {line}\n    return x * {name}")
    follows(f, lambda: setattr(module, "lr", 3.0), lambda: setattr(module, "lr", 4.0))


def test_helpers_in_another_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "yota_test_helper.py").write_text(
        textwrap.dedent("""
        import numpy as np
        from math import exp
        from numpy import zeros

        SCALE, W = 2.0, np.ones(3)

        def linear(x):
            return np.sum(W * x) * SCALE

        def smooth(x):
            return exp(x * SCALE)

        def padded(x):
            return np.sum(np.concatenate([zeros(2), x * np.ones(2)])) * SCALE
    """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    helper = importlib.import_module("yota_test_helper")
    for f in (lambda x: helper.linear(x), lambda x: helper.smooth(x), lambda x: helper.padded(x), helper.smooth):
        helper.SCALE, helper.W = 2.0, np.ones(3)
        follows(
            f,
            lambda: setattr(helper, "SCALE", 3.0),
            lambda: write(helper.W, 5.0, 0)(),
            lambda: setattr(helper, "W", np.ones(2)[:1]),
        )
    assert helper.exp is math.exp and helper.zeros is np.zeros
    follows(lambda x: helper.linear(x), lambda: setattr(helper, "linear", lambda x: 7.0 * x))


def test_two_modules_with_the_same_text() -> None:
    a, b = types.ModuleType("module_a"), types.ModuleType("module_b")
    for module in (a, b):
        exec(compile("LR = 1.0\ndef scale(x): return LR * x\n", f"{module.__name__}.py", "exec"), module.__dict__)
    follows(lambda x: a.scale(x) + 2 * b.scale(x), lambda: setattr(a, "LR", 2.0), lambda: setattr(b, "LR", 5.0))


def test_builtins_that_are_shadowed_later() -> None:
    f = function("def f(x): return max(x, 1.0) * abs(x) + np.sum(x)")
    follows(f, rebind(f, abs=lambda x: 10 * x))


def test_equal_numbers_that_are_not_the_same() -> None:
    f = function("def f(x): return np.imag(x * np.sqrt(c)) + np.copysign(x, z)", c=complex(-1.0, 0.0), z=0.0)
    follows(f, rebind(f, c=complex(-1.0, -0.0)), rebind(f, z=-0.0), rebind(f, c=complex(-1.0, 0.0)))
    f = function("def f(x): return np.sum(w * (x * s))", w=np.ones(2, np.float32), s=2.0)
    for s in (2.0, 2, np.float64(2.0), np.float32(2), True, 2.0):
        rebind(f, s=s)()
        for _ in range(3):
            assert np.float64(grad(f, 3.0)[0]) == f(3.0)
    f = function("def f(x): return x if c is None else x * 2", c=None)
    follows(f, rebind(f, c=math.nan), rebind(f, c=None))


def test_names_that_users_put_into_builtins(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return np.sum(everywhere(x) * weight)  # type: ignore[name-defined]  # noqa: F821

    for power, w in ((2, 1.5), (2, 2.5), (3, 2.5), (3, np.arange(3.0)), (2, np.ones(3))):
        monkeypatch.setattr(builtins, "everywhere", lambda x, power=power: x**power, raising=False)
        monkeypatch.setattr(builtins, "weight", w, raising=False)
        for x in (1.0, 2.0, 3.0):
            value, (dx,) = grad(f, x)
            assert value == f(x)
            np.testing.assert_allclose(dx, power * x ** (power - 1) * np.sum(w))
    monkeypatch.setitem(globals(), "weight", 10.0)
    assert grad(f, 1.0) == (10.0, (20.0,))
