"""From LLVM IR to machine code, through numba's own code library.

Nothing here imports numba or llvmlite before it is needed: a program that never compiles does not pay for
them.

Compiling costs about 3 ms for each module, and 0.08 ms for each instruction on vectors, most of it
instruction selection and register allocation: many kernels are best compiled as one module. Kernels are
emitted as explicit vector code in simple loops, so that of numba's passes, which take twice as long as all
the rest, few are needed.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .hooks import check_hooks

if TYPE_CHECKING:
    from llvmlite import ir

# Machine code lives as long as the process: a program may hold the address of a kernel anywhere.
_LIBRARIES: list[Any] = []
_LOADED: list[Any] = []
# All of them share one name space, where the first function of a name would hide the others.
_NAMES: set[str] = set()


@functools.cache
def _codegen() -> Any:
    """A code generator of our own, so that kernels share no names with functions that numba compiles."""
    check_hooks("numba")
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


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code: where its functions are in this process, and what another one needs to load it: an object file, and
    the names of the functions elsewhere that it calls."""

    addresses: dict[str, int]
    object: bytes
    external: tuple[str, ...]


def compile_module(module: ir.Module, names: Sequence[str]) -> Code:
    """Compile a module; the addresses of its functions `names` are valid as long as the process.

    The functions that a module defines need names that no module compiled before has used, nor the C library.
    Raises ValueError for a name used before, for one of `names` that the module does not define, and for an
    external function that does not exist: LLVM would return an older address, or end the process.
    """
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        defined, external = _checked_names(module, names)
        library = _codegen().create_library(module.name)
        library.enable_object_caching()
        library.add_ir_module(module)
        library.finalize()
        _NAMES.update(defined)
        _LIBRARIES.append(library)
        addresses = {name: library.get_pointer_to_function(name) for name in names}
        return Code(addresses, bytes(library._get_compiled_object()), tuple(sorted(external)))


def load(code: bytes, external: Iterable[str], names: Iterable[str]) -> dict[str, int] | None:
    """The addresses of functions in an object file that was compiled for this machine; ``None`` if the linker does not
    know all that it calls."""
    from llvmlite import binding

    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())  # each has its own name space
    if not all(map(_link, external)):
        return None
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _LOADED.append(engine)
    return {name: engine.get_function_address(name) for name in names}


def processor() -> tuple[str, ...]:
    """This machine, as LLVM knows it."""
    from llvmlite import binding

    return binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def _link(name: str) -> bool:
    """Whether the linker knows a function: of the process, since there is an engine, or one that a module offers to
    Cython, of which the names are given as ``offered`` does."""
    from llvmlite import binding

    if binding.address_of_symbol(name) is not None:
        return True
    module, _, function = name.partition(":")
    capsule = getattr(import_module(module), "__pyx_capi__", {}).get(function) if function else None
    if capsule is None:
        return False
    named, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    binding.add_symbol(name, pointer(capsule, named(capsule)))
    return True


def _machine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(jit=True)


def _checked_names(module: ir.Module, names: Sequence[str]) -> tuple[set[str], set[str]]:
    """The functions that a module defines, and those that it only calls."""
    defined = {f.name for f in module.functions if not f.is_declaration}
    declared = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    unknown = {name for name in declared - _NAMES if not _link(name)}
    for message, wrong in (
        ("compiled before", defined & _NAMES),
        ("not defined in the module", set(names) - defined),
        ("unknown to the linker", unknown),
    ):
        if wrong:
            raise ValueError(f"functions {message}: {', '.join(sorted(wrong))}")
    return defined, declared
