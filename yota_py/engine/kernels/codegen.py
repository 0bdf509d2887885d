"""From LLVM IR to machine code, by llvmlite: the LLVM that numba has.

Nothing here imports llvmlite before it is needed: a program that never compiles does not pay for it. numba itself is
not imported: that would take longer than most programs take to compile.

Compiling costs about 3 ms for each module, and 0.08 ms for each instruction on vectors, most of it
instruction selection and register allocation: many kernels are best compiled as one module. Kernels are
emitted as explicit vector code in simple loops, so that few passes are needed: those that numba runs would take twice
as long as all the rest.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...base import locks
from ...base.records import record

if TYPE_CHECKING:
    from llvmlite import ir

# Machine code lives as long as the process: a program may hold the address of a kernel anywhere.
_ENGINES: list[Any] = []
# Where the functions are that this process has compiled, which share one name space.
_COMPILED: dict[str, int] = {}


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
    module.data_layout = str(_machine().target_data)
    return module


@record()
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
    from llvmlite import binding

    with locks.kernels:
        engine = _engine()
        defined, external = _checked_names(module, names)
        parsed = binding.parse_assembly(str(module))
        parsed.verify()
        _optimise(parsed)
        code = _machine().emit_object(parsed)
        _COMPILED.update(_linked(engine, code, defined))
        return Code({name: _COMPILED[name] for name in names}, code, tuple(sorted(external)))


def load(code: bytes, external: Iterable[str], names: Iterable[str]) -> dict[str, int] | None:
    """The addresses of functions in an object file that was compiled for this machine; ``None`` if the linker does not
    know all that it calls."""
    engine = _engine()
    return _linked(engine, code, names) if all(map(_link, external)) else None


def _engine() -> Any:
    """A linker, with a name space of its own. Since there is one, LLVM knows the functions of the process."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)  # the engine's, which destroys it
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _linked(engine: Any, code: bytes, names: Iterable[str]) -> dict[str, int]:
    """The addresses of functions in an object file, of which all that it calls is known."""
    from llvmlite import binding

    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ENGINES.append(engine)
    return {name: engine.get_function_address(name) for name in names}


def processor() -> tuple[str, ...]:
    """This machine, as LLVM knows it."""
    from llvmlite import binding

    return binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def _link(name: str) -> bool:
    """Whether the linker knows a function: of the process, one that was compiled here, one of NumPy, or one that a
    module offers to Cython, of which the names are given as ``offered`` does."""
    from llvmlite import binding

    if binding.address_of_symbol(name) is not None:
        return True
    if name in _COMPILED:
        binding.add_symbol(name, _COMPILED[name])
        return True
    module, _, function = name.partition(":")
    if module == "numpy":
        address = numpys_function(function)
        binding.add_symbol(name, address) if address is not None else None
        return address is not None
    capsule = getattr(_extension(module), "__pyx_capi__", {}).get(function) if function else None
    if capsule is None:
        return False
    named, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    binding.add_symbol(name, pointer(capsule, named(capsule)))
    return True


def _extension(name: str) -> ModuleType:
    """A module in C, without the package around it, whose import may take a quarter of a second (``scipy.linalg``)."""
    package, *folders, _ = name.split(".")
    root = None if name in sys.modules else find_spec(package)
    places = root.submodule_search_locations if root is not None else None
    found = PathFinder.find_spec(name, [os.path.join(place, *folders) for place in places or ()])
    if found is None or not isinstance(found.loader, ExtensionFileLoader):
        return import_module(name)
    try:
        module = module_from_spec(found)
        found.loader.exec_module(module)
    except ImportError:  # it needs the package
        return import_module(name)
    return module


@functools.cache
def _machine() -> Any:
    """What emits code for this processor, or the one that numba is told to compile for."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(
        cpu=os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name(), features=_features(), opt=3, jit=True,
        codemodel="jitdefault", reloc="static" if target.name.startswith("x86") else "default",
    )  # fmt: skip


def _features() -> str:
    """What the processor has that is compiled for, as LLVM writes it."""
    from llvmlite import binding

    if (features := os.environ.get("NUMBA_CPU_FEATURES")) is not None:
        return features
    return "" if os.environ.get("NUMBA_CPU_NAME") == "generic" else binding.get_host_cpu_features().flatten()


def converts_halves() -> bool:
    """Whether there are instructions for halves; where there are none, LLVM would call functions that not every
    machine has."""
    return "+f16c" in _features().split(",")


def _optimise(module: Any) -> None:
    from llvmlite import binding

    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()  # local variables into registers
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, binding.create_pass_builder(_machine(), binding.create_pipeline_tuning_options()))


def _checked_names(module: ir.Module, names: Sequence[str]) -> tuple[set[str], set[str]]:
    """The functions that a module defines, and those that it only calls."""
    defined = {f.name for f in module.functions if not f.is_declaration}
    declared = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    unknown = {name for name in declared if not _link(name)}
    for message, wrong in (
        ("compiled before", defined & _COMPILED.keys()),
        ("not defined in the module", set(names) - defined),
        ("unknown to the linker", unknown),
    ):
        if wrong:
            raise ValueError(f"functions {message}: {', '.join(sorted(wrong))}")
    return defined, declared


# NumPy's C interface is a table of functions, which have their places in it for good (``numpy/__multiarray_api.h``):
# ``PyArray_Empty(int nd, npy_intp *dims, PyArray_Descr *dtype, int is_fortran)``, and ``PyDataType_GetArrFuncs``, which
# gives functions that sort numbers of a dtype, among them ``int sort(void *start, npy_intp n, void *array)`` and ``int
# argsort(void *start, npy_intp *places, npy_intp n, void *array)``; those of numbers do not look at the array. Where
# they stand belongs to the binary interface of NumPy 2 (``numpy/ndarraytypes.h``).
EMPTY, _GET_FUNCTIONS = "184", 365
Method = Literal["quicksort", "stable"]

# By ``kind`` and ``stable``, the method; by heaps NumPy sorts with other functions than those of the table.
METHODS: dict[tuple[Any, Any], Method] = {
    **dict.fromkeys([(None, None), (None, False), ("quicksort", None)], "quicksort"),
    **dict.fromkeys([("stable", None), ("mergesort", None), (None, True)], "stable"),
}  # fmt: skip
_ROW: dict[Method, int] = {"quicksort": 0, "stable": 2}
_SORT, _ARGSORT = 33, 36  # behind 21 casts and 12 functions


def sorting(dtype: str, method: Method, *, places: bool) -> str | None:
    """The name by which the linker finds the function that sorts numbers of a dtype, or the ``places`` of them;
    ``None`` if there is none."""
    name = f"{_ARGSORT if places else _SORT}.{_ROW[method]}.{dtype}"
    return None if numpys_function(name) is None else name


@functools.cache
def numpys_function(name: str) -> int | None:
    """Where the function of this name is: of the C interface, or one that sorts."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    interface = _words(pointer(np._core._multiarray_umath._ARRAY_API, None))  # type: ignore[attr-defined]
    table, *rest = name.split(".")
    if rest and not np.__version__.startswith("2."):
        return None
    if not rest:
        return int(interface[int(table)])
    row, dtype = rest
    functions = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(interface[_GET_FUNCTIONS])
    found: int | None = _words(functions(np.dtype(dtype)))[int(table) + int(row)]
    return found


def _words(start: Any) -> Any:
    return ctypes.cast(start, ctypes.POINTER(ctypes.c_void_p))
