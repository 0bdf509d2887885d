"""Functions that import modules themselves: what runs in an import is not theirs, and what they read of modules is."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from yota_py import config, explain, grad, jit

MODULES = {
    "pkg_of_test/__init__.py": "import numpy as np\nX = np.ones(3)",
    "pkg_of_test/near.py": """
        import os, random, time
        import numpy as np
        from numpy import zeros

        STARTED, DRAWN, HERE = time.time(), random.random(), os.getcwd()
        W, MADE, scale = np.arange(3.0), zeros(2) + np.ones(2), 2.0

        def g(x):
            return x * W * scale

        def far(x):
            from . import other
            from .other import V
            return x * V * other.k
    """,
    "pkg_of_test/registry.py": "R = []",
    "pkg_of_test/plugin.py": "from pkg_of_test import registry\nregistry.R.append(1.0)\nPLUGGED = 1",
    "pkg_of_test/settings.py": "v = 0.0",
    "pkg_of_test/use.py": "from pkg_of_test.settings import v\nw = v * 2",
    "pkg_of_test/other.py": "import numpy as np\nV = np.ones(3)\nk = 1.0",
}


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in MODULES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    _forget()
    yield
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.startswith("pkg_of_test")]:
        del sys.modules[name]


def whole(x: Any) -> Any:
    import pkg_of_test.near  # type: ignore[import-not-found]

    return np.sum(pkg_of_test.near.g(x) * pkg_of_test.X)


def names(x: Any) -> Any:
    from pkg_of_test.near import g, scale  # type: ignore[import-not-found]

    return np.sum(g(x)) * scale


def relative(x: Any) -> Any:
    from pkg_of_test import near

    return np.sum(near.far(x))


def renamed(x: Any) -> Any:
    import pkg_of_test.near as other_name

    return np.sum(x * other_name.W * other_name.scale)


def missing(x: Any) -> Any:
    try:
        import pkg_of_test.nothing as found  # type: ignore[import-not-found]
    except ImportError:
        found = None
    return np.sum(x) if found is None else x


CHANGES = {
    2: ("near", "scale", 5.0), 4: ("near", "W", np.full(3, 7.0)), 6: ("other", "k", 9.0), 8: ("", "X", np.full(3, 3.0)),
    10: ("near", "g", lambda x: 3.0 * x),
}  # fmt: skip


@pytest.mark.parametrize("f", [whole, names, relative, renamed, missing])
@pytest.mark.parametrize("mode", ["jit", "grad"])
def test_what_is_read_of_imported_modules(f: Any, mode: str) -> None:
    wrapped = jit(f) if mode == "jit" else lambda x: grad(f, x)[0]
    for i in range(12):
        if i in CHANGES:
            name, attribute, value = CHANGES[i]
            module = sys.modules.get("pkg_of_test." + name if name else "pkg_of_test")
            setattr(module or np.testing, attribute if module else "unused", value)
        x = np.ones(3) * (i + 1)
        assert wrapped(x) == f(x), i
    calls = sum(entry.calls for entry in explain(wrapped if mode == "jit" else f))
    assert calls == 0 if f is missing else calls >= 6


@pytest.mark.filterwarnings("error")
def test_the_call_that_imports() -> None:
    """What the import system and a module's own lines do is no reason not to rely on a trace; the function itself is
    called, and the next call is traced, without a warning."""
    compiled = jit(whole)
    for i in range(4):
        compiled(np.ones(3) * i)
    (told,) = explain(compiled)
    assert (told.calls, told.misses, told.problems) == (2, 2, ())
    near = sys.modules["pkg_of_test.near"]
    assert all(type(value) is np.ndarray for value in (near.W, near.MADE))  # type: ignore[attr-defined]


def test_a_module_that_is_imported_again() -> None:
    for wrapped in (jit(names), lambda x: grad(names, x)[0]):
        for value in (2.0, 3.0, 4.0):
            _forget()
            assert wrapped(np.ones(3)) == 12.0
            sys.modules["pkg_of_test.near"].scale = value  # type: ignore[attr-defined]
            assert wrapped(np.ones(3)) == 3 * value * value


def test_an_import_that_fails_is_tried_again() -> None:
    compiled = jit(missing)
    for _ in range(3):
        assert compiled(np.ones(3)) == 3.0
    sys.modules["pkg_of_test.nothing"] = found = type(sys)("nothing")
    sys.modules["pkg_of_test"].nothing = found  # type: ignore[attr-defined]
    np.testing.assert_array_equal(compiled(np.ones(3)), np.ones(3))


def test_rules_that_come_with_a_library_do_not_disturb_the_first_trace() -> None:
    """With setuptools' hook in the import system, which is nobody's library."""
    code = """
import warnings
warnings.simplefilter("error")
import numpy as np
from scipy import stats
from yota_py import config, explain, grad, jit
config.compile = "always"
compiled = jit(lambda x: grad(lambda w: np.sum(np.exp(w)), x)[0])
for _ in range(3):
    compiled(np.ones(2))
(told,) = explain(compiled)
assert (told.calls, told.misses, told.problems) == (2, 1, ()), told
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def registers(x: Any) -> Any:
    import pkg_of_test.registry as r  # type: ignore[import-not-found]
    from pkg_of_test.plugin import PLUGGED  # type: ignore[import-not-found]

    return x * len(r.R) * PLUGGED


def configures(x: Any) -> Any:
    import pkg_of_test.settings as s  # type: ignore[import-not-found]

    s.v = x
    import pkg_of_test.use as u  # type: ignore[import-not-found]

    return u.w + x


@pytest.mark.parametrize("known", [False, True])
def test_what_imported_modules_do_to_others_stays(known: bool) -> None:
    if known:
        importlib.import_module("pkg_of_test.registry")
    compiled = jit(registers)
    assert [compiled(x) for x in (1.5, 2.5, 3.5)] == [1.5, 2.5, 3.5]
    assert sys.modules["pkg_of_test.registry"].R == [1.0]  # type: ignore[attr-defined]


def test_imported_modules_find_plain_values() -> None:
    compiled = jit(configures)
    assert [compiled(x) for x in (1.5, 2.5, 3.5)] == [4.5, 5.5, 6.5]
    assert type(sys.modules["pkg_of_test.use"].w) is float  # type: ignore[attr-defined]


def test_a_module_that_is_made_later(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        try:
            from pkg_of_test.late import k  # type: ignore[import-not-found]
        except ImportError:
            k = 1.0
        return x * k

    compiled = jit(f)
    for _ in range(3):
        assert compiled(2.0) == 2.0 and grad(f, 2.0) == (2.0, (1.0,))
    (tmp_path / "pkg_of_test" / "late.py").write_text("k = 5.0")
    importlib.invalidate_caches()
    for _ in range(3):
        assert compiled(2.0) == 10.0 and grad(f, 2.0) == (10.0, (5.0,))


def test_by_default() -> None:
    config.compile = "auto"
    for f in (whole, names, relative, renamed):
        _forget()
        for i in range(5):
            x = np.ones(3) * i
            assert jit(f)(x) == grad(f, x)[0] == f(x)
