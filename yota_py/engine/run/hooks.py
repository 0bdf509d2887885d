"""What the engine takes from numba and llvmlite beyond their public interfaces, checked once, when it is first used."""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.metadata import version

NEEDED = "0.62"  # of numba, as in pyproject.toml
# Module, and what is read of it; of a class, methods that are called or replaced.
HOOKS = (
    ("numba.core.codegen", "JITCodeLibrary._optimize_functions"),
    ("numba.core.codegen", "JITCodeLibrary._optimize_final_module"),
    ("numba.core.codegen", "JITCodeLibrary.add_ir_module"),
    ("numba.core.codegen", "JITCodeLibrary.finalize"),
    ("numba.core.codegen", "JITCodeLibrary.get_pointer_to_function"),
    ("numba.core.codegen", "JITCPUCodegen._library_class"),
    ("numba.core.codegen", "JITCPUCodegen.create_library"),
    ("numba.core.codegen", "JITCPUCodegen.target_data"),
    ("numba.core.compiler_lock", "global_compiler_lock"),
    ("numba.extending", "get_cython_function_address"),
    ("llvmlite.binding", "add_symbol"),
    ("llvmlite.binding", "address_of_symbol"),
    ("llvmlite.binding", "get_host_cpu_features"),
    ("llvmlite.binding", "get_process_triple"),
    ("llvmlite.binding", "create_new_module_pass_manager"),
    ("llvmlite.binding", "create_pipeline_tuning_options"),
    ("llvmlite.binding", "create_pass_builder"),
)


def check_hooks() -> None:
    """Raises ``ImportError``, with the name of what is missing, if numba or llvmlite are not as they were."""
    for module, path in HOOKS:
        found, package = import_module(module), module.partition(".")[0]
        try:
            functools.reduce(getattr, path.split("."), found)
        except AttributeError:
            raise ImportError(f"{package} {version(package)} lacks {module}.{path}; yota_py needs numba >= {NEEDED}, "
                              "and was written with one that has it: install another version") from None
