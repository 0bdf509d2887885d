"""From LLVM IR to machine code, through numba's own code library.

Nothing here imports numba or llvmlite before it is needed: a program that never compiles does not pay for
them.

Compiling costs about 3 ms for each module, and 0.08 ms for each instruction on vectors, most of it
instruction selection and register allocation: many kernels are best compiled as one module. Kernels are
emitted as explicit vector code in simple loops, so that of numba's passes, which take twice as long as all
the rest, few are needed.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llvmlite import ir

# Machine code lives as long as the process: a program may hold the address of a kernel anywhere.
_LIBRARIES: list[Any] = []
# All of them share one name space, where the first function of a name would hide the others.
_NAMES: set[str] = set()


@functools.cache
def _codegen() -> Any:
    """A code generator of our own, so that kernels share no names with functions that numba compiles."""
    from llvmlite import binding
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen

    class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
        """numba's library with few passes. Were numba to rename a hook, kernels would only compile slower."""

        def _optimize_functions(self, ll_module: Any) -> None:
            # What numba does here beside optimising: fix the data layout.
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            passes = binding.create_new_module_pass_manager()
            passes.add_sroa_pass()  # local variables into registers
            passes.add_instruction_combine_pass()
            passes.add_simplify_cfg_pass()
            tuning = binding.create_pipeline_tuning_options()
            passes.run(self._final_module, binding.create_pass_builder(self._codegen._tm, tuning))

    class KernelCodegen(JITCPUCodegen):  # type: ignore[misc]
        _library_class = KernelLibrary

    return KernelCodegen("yota_py")  # type: ignore[no-untyped-call]


@functools.cache
def vector_bytes() -> int:
    """Bytes in the widest vector register worth using here: 64 (AVX-512), 32 (AVX2 and FMA) or 16.

    A kernel emitted for wider vectors than the machine has still runs: LLVM splits them.
    """
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    # Conversions between double and i64 need DQ, the narrower masks VL.
    if all(features.get(name) for name in ("avx512f", "avx512dq", "avx512vl")):
        return 64
    return 32 if features.get("avx2") and features.get("fma") else 16


def new_module(name: str) -> ir.Module:
    """An empty IR module for this machine."""
    from llvmlite import binding, ir

    module = ir.Module(name)
    module.triple = binding.get_process_triple()
    module.data_layout = str(_codegen().target_data)
    return module


def compile_module(module: ir.Module, names: Sequence[str]) -> dict[str, int]:
    """Compile a module, and return the addresses of the functions `names`, valid as long as the process.

    The functions that a module defines need names that no module compiled before has used, nor the C library.
    Raises ValueError for a name used before, for one of `names` that the module does not define, and for an
    external function that does not exist: LLVM would return an older address, or end the process.
    """
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        defined = _checked_names(module, names)
        library = _codegen().create_library(module.name)
        library.add_ir_module(module)
        library.finalize()
        _NAMES.update(defined)
        _LIBRARIES.append(library)
        return {name: library.get_pointer_to_function(name) for name in names}


def _checked_names(module: ir.Module, names: Sequence[str]) -> set[str]:
    from llvmlite import binding

    defined = {f.name for f in module.functions if not f.is_declaration}
    declared = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    unknown = {name for name in declared - _NAMES if binding.address_of_symbol(name) is None}
    for message, wrong in (
        ("compiled before", defined & _NAMES),
        ("not defined in the module", set(names) - defined),
        ("unknown to the linker", unknown),
    ):
        if wrong:
            raise ValueError(f"functions {message}: {', '.join(sorted(wrong))}")
    return defined
