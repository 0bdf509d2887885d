"""The house stays the house: imports go one way, compilers are loaded late, and no file outgrows its reader."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import numpy as np
import pytest

from yota_py.registry import patched

ROOT = Path(__file__).resolve().parents[1]

# Bottom to top: a module imports from its own layer and from those before it.
LAYERS = [
    "errors ownership containers types dispatch settings shelf collection locks unwinding tracebacks "
    "callsites signatures floating",
    "operations show tape trees recorder verify",
    "cases tangents partials functional registry contents",
    "disguise hints showing patching tracer foreign tables libraries views arguments stopping trace mutation "
    "ufuncs readings operators sampling",
    "parts attempts exchange guards imports functions operands instructions comparisons conversion kinds attributes "
    "items classes memos",
    "leftovers refusals caught keys sinks captured instances captures watch recording plain effects",
    "seeds gradient differentiable",
    "passes",
    "engine",
    "policy interpreter variants varying world check blame step modes audit notices cache compilable explain "
    "transforms jit __init__",
]
LAYER = {name: i for i, names in enumerate(LAYERS) for name in names.split()}
# Beside the layers: rules use what rules are made of; checks of rules use what they like, and nothing uses them.
BESIDE = {"rules", "testing", "evaluators", "finite"}
FOR_RULES = {"dispatch", "errors", "functional", "operations", "registry", "signatures", "tangents", "types"}

HEAVY = {"numba", "llvmlite"}  # only the engine needs them, and only when the first tape is compiled
DOOR = ("yota_py.engine", "yota_py.engine.program")  # the one late import of our own, through which they come
LIGHT = {"numpy", "scipy", "optree"} | set(sys.stdlib_module_names)
MAX_LINES = 400
MAX_MODULES = 170  # that ``import yota_py`` loads besides those of NumPy and optree, of which each version has others


def modules() -> dict[str, Path]:
    """All modules of the package by their full names; the folder ``rules`` is ``yota_py.rules``."""
    files = [("yota_py", path) for path in (ROOT / "yota_py").rglob("*.py")]
    files += [("yota_py.rules", path) for path in (ROOT / "rules").rglob("*.py")]
    out = {}
    for package, path in files:
        inside = path.relative_to(ROOT / package.rpartition(".")[2]).with_suffix("").parts
        out[".".join((package, *(part for part in inside if part != "__init__")))] = path
    return out


MODULES = modules()


def imports(name: str) -> Iterator[tuple[str, ast.stmt, bool]]:
    """The modules that a module imports, the statement, and whether it stands inside a function."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]

    def walk(node: ast.AST, late: bool) -> Iterator[tuple[str, ast.stmt, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, child, late) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                source = resolve_name("." * child.level + (child.module or ""), package)
                for alias in child.names:
                    inner = f"{source}.{alias.name}"
                    yield inner if inner in MODULES else source, child, late
            elif not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
                yield from walk(child, late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    return walk(ast.parse(MODULES[name].read_text(encoding="utf-8")), False)


def part_of(name: str) -> str:
    """The file or folder of ``yota_py`` that a module belongs to."""
    return [*name.split("."), "__init__"][1]


def where(name: str, statement: ast.stmt) -> str:
    """A statement's place, for messages."""
    return f"{MODULES[name].relative_to(ROOT)}:{statement.lineno}"


def of_package(name: str) -> bool:
    return name.partition(".")[0] == "yota_py"


def test_every_file_has_its_layer() -> None:
    assert {part_of(name) for name in MODULES} == set(LAYER) | BESIDE


@pytest.mark.parametrize("name", [name for name in MODULES if part_of(name) in LAYER])
def test_imports_go_down(name: str) -> None:
    for target, statement, _ in imports(name):
        if of_package(target) and (name, target) != ("yota_py", "yota_py.rules"):
            part = part_of(target)
            assert part not in BESIDE, f"{where(name, statement)}: {name} is below {target}"
            assert LAYER[part] <= LAYER[part_of(name)], f"{where(name, statement)}: {name} is below {target}"


@pytest.mark.parametrize("name", [name for name in MODULES if part_of(name) == "rules"])
def test_rules_are_made_of_little(name: str) -> None:
    for target, statement, _ in imports(name):
        if of_package(target):
            allowed = part_of(target) in FOR_RULES | {"rules"}
        else:
            allowed = target.partition(".")[0] in LIGHT - {"optree"}
        assert allowed, f"{where(name, statement)}: rules do not need {target}"


def test_no_cycles() -> None:
    graph = {name: {target for target, _, _ in imports(name) if target in MODULES} - {name} for name in MODULES}
    for name in MODULES:  # a package's own file lists its modules, and they do not need it
        if MODULES[name].name == "__init__.py":
            for other in graph:
                if other.startswith(name + "."):
                    graph[other].discard(name)
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("name", MODULES)
def test_dependencies(name: str) -> None:
    for target, statement, late in imports(name):
        top, place = target.partition(".")[0], where(name, statement)
        if top in HEAVY:
            assert part_of(name) == "engine", f"{place}: {top} belongs to the engine"
        else:
            assert top in LIGHT | {"yota_py"}, f"{place}: {top} is not a dependency"
            assert not late or (name, target) == DOOR, f"{place}: {target} is imported inside a function"


def test_functions_that_have_stand_ins_are_only_called() -> None:
    """Elsewhere than in a call, ``np.where`` may be the stand-in of a thread that traces: ask ``original(np.where)``.

    What is read while ``yota_py`` is imported, before any trace, is what it seems to be.
    """
    names = {name for module, name in patched if module is np}
    late = [node for name, path in MODULES.items() if part_of(name) not in BESIDE
            for node in _read_late(ast.parse(path.read_text(encoding="utf-8")), part_of(name) == "engine")]
    wrong = [ast.unparse(node) for node in late if node.attr in names]
    assert {"where", "empty"} <= names
    assert len(late) > 100
    assert not wrong, wrong


def _read_late(tree: ast.AST, late: bool) -> Iterator[ast.Attribute]:
    """Attributes of ``np`` that are read in functions (with ``late``, anywhere) and are not called at once."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Call) and ast.unparse(child.func) == "original":
            continue
        if isinstance(child, ast.Attribute) and ast.unparse(child.value) == "np" and late:
            called = isinstance(tree, ast.Call) and tree.func is child
            yield from () if called else [child]
        yield from _read_late(child, late or isinstance(child, ast.FunctionDef | ast.Lambda))


def test_import_stays_light() -> None:
    code = "import sys, numpy, optree; old = {*sys.modules}; import yota_py; print(*({*sys.modules} - old), sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = run.stdout.split()
    heavy = sorted({name.partition(".")[0] for name in loaded} & HEAVY)
    assert not heavy, f"import yota_py loads {', '.join(heavy)}"
    assert len(loaded) <= MAX_MODULES, f"import yota_py loads {len(loaded)} modules"


@pytest.mark.parametrize("name", MODULES)
def test_no_file_is_too_long(name: str) -> None:
    length = len(MODULES[name].read_text(encoding="utf-8").splitlines())
    assert length <= MAX_LINES, f"{MODULES[name].relative_to(ROOT)} has {length} lines; at most {MAX_LINES}"
