"""What llvmlite lacks is found when the engine is first used, and named."""

from __future__ import annotations

import functools
import itertools
import re
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from yota_py import config, grad
from yota_py.engine.kernels.blas import emit_product
from yota_py.engine.kernels.codegen import new_module
from yota_py.engine.kernels.emit import NO_FAULT
from yota_py.engine.kernels.hooks import HOOKS, check_hooks
from yota_py.engine.run import driver
from yota_py.errors import CompileError, CompilerWarning


def take_away(module: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *owners, name = path.split(".")
    owner: Any = functools.reduce(getattr, owners, import_module(module))
    holders = [cls for cls in getattr(owner, "__mro__", (owner,)) if name in vars(cls)]
    for holder in holders:
        monkeypatch.delattr(holder, name)


def test_all_are_there() -> None:
    check_hooks()


@pytest.mark.parametrize(("module", "path"), HOOKS)
def test_what_is_missing_is_named(module: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_away(module, path, monkeypatch)
    said = rf"llvmlite [\d.]+\S* lacks {re.escape(module)}\.{re.escape(path)}; yota_py needs llvmlite >= "
    with pytest.raises(ImportError, match=said):
        check_hooks()


def test_functions_are_interpreted_then(monkeypatch: pytest.MonkeyPatch) -> None:
    take_away("llvmlite.binding", "address_of_symbol", monkeypatch)
    monkeypatch.delitem(sys.modules, "yota_py.engine.run.program", raising=False)
    monkeypatch.setattr(config, "compile", "always")

    def f(x: Any) -> Any:
        return np.sum(x * x)

    with pytest.warns(CompilerWarning, match="lacks llvmlite.binding.address_of_symbol"):
        assert grad(f, np.ones(2))[0] == 2.0
    with pytest.raises(CompileError, match="lacks"):
        grad.compile(f, np.ones(2))


def emitted() -> Any:
    module = new_module("names")
    run = driver._emit_run(module)
    driver._emit_program(module, run)
    driver._emit_resume(module, run)
    return module


def test_machine_code_holds_no_addresses() -> None:
    """It is the same in every process."""
    module = emitted()
    for i, (dtype, vector) in enumerate(itertools.product(("float64", "float32"), (False, True))):
        emit_product(module, f"product_{i}", dtype, vector)
    numbers = {int(n) for n in re.findall(r"\bi64 (\d+)\b", str(module))}
    assert max(numbers - {NO_FAULT}) < 1000


def test_words_have_64_bits_on_all_platforms() -> None:
    """C's ``long`` has 32 on Windows."""
    module = emitted()
    names = {name for name in module.globals if name.startswith("PyLong_")}
    assert names == {"PyLong_AsLongLong", "PyLong_FromLongLong", "PyLong_AsVoidPtr", "PyLong_FromVoidPtr"}
