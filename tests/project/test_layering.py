"""The house stays the house: imports go one way, compilers are loaded late, and no file outgrows its reader."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import numpy as np

import yota_py
from yota_py.registry.patches import patched

ROOT = Path(__file__).resolve().parents[2]

# Bottom to top: a room, which is a folder or a file of ``yota_py``, imports from itself and from those before it.
ROOMS = [
    "errors", "base", "tape", "registry", "tracing", "capture", "reverse", "passes",
    "engine/maths", "engine/kernels", "engine/schedule", "engine/plan", "engine/run", "engine", "cache", "loops", "api",
    "jacobians", "optim",
]  # fmt: skip
FLOOR = {name: i for i, name in enumerate(ROOMS)}
MAX_FLOORS = 12  # of the longest way down, through rooms and rules
# Beside them: rules use what rules are made of; checks of rules use what they like, and nothing uses them.
BESIDE = {"rules", "testing", "__init__"}
FOR_RULES = {"errors", "base/dispatch", "base/ownership", "base/signatures", "base/types", "registry/applied",
             "registry/composites", "registry/constants", "registry/kernels", "registry/partials", "registry/patches",
             "registry/registry", "registry/tangents", "registry/writes", "tape/operations"}  # fmt: skip

HEAVY = {"numba", "llvmlite"}  # only the engine needs them, and only when the first tape is compiled
# The one late import of our own, through which they come.
DOOR = ("yota_py.engine.compile", "yota_py.engine.run.program")
LIGHT = {"numpy", "scipy", "optree", "platformdirs"} | set(sys.stdlib_module_names)
MAX_LINES = 400
MAX_MODULES = 203  # that ``import yota_py`` loads besides those of NumPy and optree, of which each version has others


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


@cache
def imports(name: str) -> tuple[tuple[str, ast.stmt, str], ...]:
    """The modules that a module imports, the statement, and whether it is for a function or the type checker only."""
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]

    def walk(node: ast.AST, only: str) -> Iterator[tuple[str, ast.stmt, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, child, only) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                source = resolve_name("." * child.level + (child.module or ""), package)
                for alias in child.names:
                    inner = f"{source}.{alias.name}"
                    yield inner if inner in MODULES else source, child, only
            else:
                for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, "types" if for_types else "function" if inside else only)

    return (*walk(ast.parse(MODULES[name].read_text(encoding="utf-8")), ""),)


def path_of(name: str) -> str:
    """A module's file below ``yota_py``, without its ending."""
    path = MODULES[name].relative_to(ROOT).with_suffix("")
    return str(path if path.parts[0] == "rules" else path.relative_to("yota_py"))


def room_of(name: str) -> str:
    """The folder that a module stands in; for those that stand in none, the file. All folders of rules are one room."""
    path = path_of(name)
    return "rules" if path.startswith("rules/") else path.rpartition("/")[0] or path


def where(name: str, statement: ast.stmt) -> str:
    """A statement's place, for messages."""
    return f"{MODULES[name].relative_to(ROOT)}:{statement.lineno}"


def of_package(name: str) -> bool:
    return name.partition(".")[0] == "yota_py"


def test_every_file_has_its_room() -> None:
    assert {room_of(name) for name in MODULES} == set(ROOMS) | BESIDE


def test_imports_go_down() -> None:
    for name in (name for name in MODULES if room_of(name) in FLOOR):
        for target, statement, _ in imports(name):
            if of_package(target):
                room = room_of(target)
                assert room not in BESIDE, f"{where(name, statement)}: {name} is below {target}"
                assert FLOOR[room] <= FLOOR[room_of(name)], f"{where(name, statement)}: {name} is below {target}"


def test_rules_are_made_of_little() -> None:
    for name in (name for name in MODULES if room_of(name) == "rules"):
        for target, statement, _ in imports(name):
            if of_package(target):
                allowed = room_of(target) == "rules" or path_of(target) in FOR_RULES
            else:
                allowed = target.partition(".")[0] in LIGHT - {"optree"}
            assert allowed, f"{where(name, statement)}: rules do not need {target}"


def test_floors() -> None:
    """The longest way down through rooms is short, and no room is above itself."""
    below: dict[str, set[str]] = {}
    for name in MODULES:
        rooms = {room_of(target) for target, _, _ in imports(name) if target in MODULES}
        below.setdefault(room_of(name), set()).update(rooms - {room_of(name)})
    below["__init__"].discard("rules")  # which it loads, so that they register themselves

    def floors(room: str) -> int:
        return 1 + max(map(floors, below[room]), default=0)

    TopologicalSorter(below).prepare()
    assert max(map(floors, below)) <= MAX_FLOORS


def test_modules_are_not_called_like_what_is_public() -> None:
    """``import yota_py.gradient`` would give a function."""
    modules = {part for name in MODULES for part in name.split(".")}
    assert not modules & {*yota_py.__all__}


def test_no_cycles() -> None:
    graph = {name: {target for target, _, _ in imports(name) if target in MODULES} - {name} for name in MODULES}
    for name in MODULES:  # a package's own file lists its modules, and they do not need it
        if MODULES[name].name == "__init__.py":
            for other in graph:
                if other.startswith(name + "."):
                    graph[other].discard(name)
    TopologicalSorter(graph).prepare()


def test_dependencies() -> None:
    for name in MODULES:
        for target, statement, only in imports(name):
            top, place = target.partition(".")[0], where(name, statement)
            if top in HEAVY:
                assert room_of(name).startswith("engine"), f"{place}: {top} belongs to the engine"
            else:
                assert top in LIGHT | {"yota_py"}, f"{place}: {top} is not a dependency"
                assert only != "function" or (name, target) == DOOR, f"{place}: {target} is imported inside a function"


def test_functions_that_have_stand_ins_are_only_called() -> None:
    """Elsewhere than in a call, ``np.where`` may be the stand-in of a thread that traces: ask ``original(np.where)``.

    What is read while ``yota_py`` is imported, before any trace, is what it seems to be.
    """
    names = {name for module, name in patched if module is np}
    late = [node for name, path in MODULES.items() if room_of(name) not in BESIDE
            for node in _read_late(ast.parse(path.read_text(encoding="utf-8")), room_of(name).startswith("engine"))]
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


def test_classes_are_whole_where_they_are_written() -> None:
    """While it is imported, a module sets attributes of its own classes and functions only."""
    for name in MODULES:
        tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        for at, changed in _changed_at_import(tree):
            assert changed in own, f"{where(name, at)}: sets an attribute of {changed}, which another module defines"


def test_changes_at_import_are_seen() -> None:
    changes = """
def install(cls):
    setattr(Other, "f", 1)
install(Other)
for cls in (Tracer, Other):
    cls.f = g
    cls.n += 1
    del cls.x.y
def later():
    Other.f = 1
    """
    assert [changed for _, changed in _changed_at_import(ast.parse(changes))] == ["cls", "cls", "cls", "Other"]


def _changed_at_import(tree: ast.Module) -> Iterator[tuple[Any, str]]:
    """Where a module sets or deletes attributes while it is imported, and of what: the name, or the expression.

    Looked into are its own statements, and its functions that these call.
    """
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    pending: list[ast.AST] = [*tree.body]
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        pending.extend(ast.iter_child_nodes(node))
        changed = None
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            changed = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("setattr", "delattr"):
                changed = node.args[0]
            elif called := functions.pop(node.func.id, None):
                pending.extend(called.body)
        if changed is not None:
            yield node, ast.unparse(changed).partition(".")[0]


def test_import_stays_light() -> None:
    code = """import sys, numpy.fft, numpy.random, optree; old = {*sys.modules}
import yota_py; print(*({*sys.modules} - old), sep="\\n")"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = run.stdout.split()
    heavy = sorted({name.partition(".")[0] for name in loaded} & HEAVY)
    assert not heavy, f"import yota_py loads {', '.join(heavy)}"
    assert len(loaded) <= MAX_MODULES, f"import yota_py loads {len(loaded)} modules"


def test_no_file_is_too_long() -> None:
    for name in MODULES:
        length = len(MODULES[name].read_text(encoding="utf-8").splitlines())
        assert length <= MAX_LINES, f"{MODULES[name].relative_to(ROOT)} has {length} lines; at most {MAX_LINES}"
