"""The code generator: modules in, addresses out."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from emitted import emit_loop, method
from llvmlite import binding, ir

from yota_py.engine.kernels import codegen
from yota_py.engine.kernels.codegen import compile_module, new_module, vector_bytes
from yota_py.engine.maths.builder import VecMath
from yota_py.engine.maths.llvm import DOUBLE


def test_vectors_fill_the_registers() -> None:
    assert vector_bytes() in (16, 32, 64)
    if vector_bytes() == 64 and "NUMBA_CPU_NAME" not in os.environ:
        module = new_module("test_registers")
        emit_loop(module, "test_registers", method("exp"), [np.float64], np.float64, 8)
        parsed = binding.parse_assembly(str(module))
        codegen._optimise(parsed)
        assembly = codegen._machine().emit_assembly(parsed)
        assert assembly.count("%zmm") > 20 and "%ymm" not in assembly


def trivial_module(name: str, external: str | None = None) -> ir.Module:
    module = new_module(name)
    function = ir.Function(module, ir.FunctionType(DOUBLE, [DOUBLE]), name)
    b = ir.IRBuilder(function.append_basic_block())
    result = VecMath(b, 1).add(function.args[0], ir.Constant(DOUBLE, 1.0))
    if external is not None:
        result = b.call(ir.Function(module, ir.FunctionType(DOUBLE, [DOUBLE]), external), [result])
    b.ret(result)
    return module


def test_compile_module() -> None:
    address = compile_module(trivial_module("test_trivial"), ["test_trivial"]).addresses["test_trivial"]
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(2.0) == 3.0
    with pytest.raises(ValueError, match="compiled before: test_trivial"):
        compile_module(trivial_module("test_trivial"), ["test_trivial"])
    with pytest.raises(ValueError, match="not defined in the module: other"):
        compile_module(trivial_module("test_trivial_2"), ["other"])
    with pytest.raises(ValueError, match="unknown to the linker: no_such_function"):
        compile_module(trivial_module("test_trivial_3", "no_such_function"), ["test_trivial_3"])
    # One module may call what another has defined.
    caller = compile_module(trivial_module("test_trivial_4", "test_trivial"), ["test_trivial_4"]).addresses
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(caller["test_trivial_4"])(2.0) == 4.0


def test_importing_the_code_generator_imports_no_compiler() -> None:
    script = (
        "import sys, yota_py.engine.kernels.codegen; "
        "assert not {'numba', 'llvmlite'} & set(sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
