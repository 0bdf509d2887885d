"""What the engine takes from llvmlite, checked once, before any of it is used."""

from __future__ import annotations

import functools
from importlib import import_module

NEEDED = "0.45"  # as in pyproject.toml
# Module, and what is read of it.
HOOKS = (
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


def check_hooks() -> None:
    """Raises ``ImportError``, with the name of what is missing, if llvmlite is not as it was."""
    for module, path in HOOKS:
        found = import_module(module)
        try:
            functools.reduce(getattr, path.split("."), found)
        except AttributeError:
            version = import_module("importlib.metadata").version("llvmlite")
            raise ImportError(f"llvmlite {version} lacks {module}.{path}; yota_py needs llvmlite >= {NEEDED}, "
                              "and was written with one that has it: install another version") from None
