"""What the engine takes from numba and llvmlite beyond their public interfaces, checked once, before any of it is
used."""

from __future__ import annotations

import functools
from importlib import import_module

NEEDED = "0.62"  # of numba, as in pyproject.toml
# Module, and what is read of it; of a class, methods that are called or replaced.
HOOKS = (
    ("numba.core.codegen", "JITCodeLibrary._optimize_functions"),
    ("numba.core.codegen", "JITCodeLibrary._optimize_final_module"),
    ("numba.core.codegen", "JITCodeLibrary.add_ir_module"),
    ("numba.core.codegen", "JITCodeLibrary.finalize"),
    ("numba.core.codegen", "JITCodeLibrary.get_pointer_to_function"),
    ("numba.core.codegen", "JITCodeLibrary.enable_object_caching"),
    ("numba.core.codegen", "JITCodeLibrary._get_compiled_object"),
    ("numba.core.codegen", "JITCPUCodegen._library_class"),
    ("numba.core.codegen", "JITCPUCodegen.create_library"),
    ("numba.core.codegen", "JITCPUCodegen.target_data"),
    ("numba.core.compiler_lock", "global_compiler_lock"),
    ("llvmlite.binding", "add_symbol"),
    ("llvmlite.binding", "address_of_symbol"),
    ("llvmlite.binding", "get_host_cpu_name"),
    ("llvmlite.binding", "get_host_cpu_features"),
    ("llvmlite.binding", "initialize_native_target"),
    ("llvmlite.binding", "initialize_native_asmprinter"),
    ("llvmlite.binding", "Target.from_default_triple"),
    ("llvmlite.binding", "parse_assembly"),
    ("llvmlite.binding", "create_mcjit_compiler"),
    ("llvmlite.binding", "ObjectFileRef.from_data"),
    ("llvmlite.binding", "get_process_triple"),
    ("llvmlite.binding", "create_new_module_pass_manager"),
    ("llvmlite.binding", "create_pipeline_tuning_options"),
    ("llvmlite.binding", "create_pass_builder"),
)


def check_hooks(package: str) -> None:
    """Raises ``ImportError``, with the name of what is missing, if numba or llvmlite is not as it was."""
    for module, path in HOOKS:
        if module.partition(".")[0] != package:
            continue
        found = import_module(module)
        try:
            functools.reduce(getattr, path.split("."), found)
        except AttributeError:
            version = import_module("importlib.metadata").version(package)
            raise ImportError(f"{package} {version} lacks {module}.{path}; yota_py needs numba >= {NEEDED}, "
                              "and was written with one that has it: install another version") from None
