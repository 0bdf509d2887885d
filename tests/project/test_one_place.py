"""A function stands in one place: one statement registers its rule, kernel, methods and cases, and no table elsewhere
has to know it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]

# ----------------------------------------------------------------------------- when the rules are imported

# Writes what ``describe`` is told, by whom: the innermost statement of a module in the folders of rules.
WATCHING = """
import importlib.util, json, runpy, sys
from types import FunctionType

folders, told = sys.argv[1].split(","), []

class Loader:
    def find_spec(self, name, path, target=None):
        if name != "yota_py.registry.registry":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        plain = spec.loader.exec_module

        def exec_module(module):
            plain(module)
            describe, rooms, heard = module.describe, folders, told

            def watched(fn, **options):
                entry = describe(fn, **options)
                frame = sys._getframe(1)
                while frame and not (frame.f_code.co_name == "<module>" and any(
                    frame.f_code.co_filename.startswith(room) for room in rooms
                )):
                    frame = frame.f_back
                given = sorted(key for key, value in options.items() if value not in (None, (), {}, False))
                if frame and given:
                    for known in (fn, *options.get("aliases", ())):
                        name = getattr(known, "__module__", None) or "numpy"
                        heard.append((f"{name}.{entry.name if known is fn else known.__name__}", id(known),
                                      frame.f_code.co_filename, frame.f_lineno, given))
                return entry

            # the registry asks who calls it: with its globals, the frame of this one is not taken for a caller's
            module.describe = FunctionType(watched.__code__, vars(module), closure=watched.__closure__)

        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Loader())
import cmath, numpy.testing
import yota_py, yota_py.rules.scipy
for library in yota_py.rules.scipy.FILES:
    importlib.import_module(f"scipy.{library}")
yota_py.primitives()
for path in sys.argv[2:]:
    runpy.run_path(path)
print(json.dumps(told))
"""


def statements(path: Path) -> dict[int, int]:
    """For each line of a file the first line of the statement that it is in."""
    out: dict[int, int] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        out |= dict.fromkeys(range(first, (node.end_lineno or first) + 1), first)
    return out


def places(*further: Path) -> dict[str, set[str]]:
    """The statements that register a function, of those that several do."""
    folders = [str(ROOT / "rules"), *(str(path.parent) for path in further)]
    run = subprocess.run(
        [sys.executable, "-c", WATCHING, ",".join(folders), *map(str, further)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    known: dict[str, dict[int, int]] = {}
    told = json.loads(run.stdout.splitlines()[-1])
    assert len(told) > 300, "nothing is watched"
    for name, number, path, line, _ in told:
        if path not in known:
            known[path] = statements(Path(path))
        found[name, number].add(f"{Path(path).name}:{known[path][line]}")
    return {name: each for (name, _), each in found.items() if len(each) > 1}


def test_one_statement_registers_a_function() -> None:
    assert places() == {}


def test_a_second_statement_is_found(tmp_path: Path) -> None:
    second = tmp_path / "second.py"
    second.write_text("import numpy as np\nfrom yota_py.registry.registry import describe\n\n"
                      "describe(np.tanh, method='tanh')\n", encoding="utf-8")  # fmt: skip
    (name, found), = places(second).items()  # fmt: skip
    assert name == "numpy.tanh" and "second.py:4" in found and len(found) == 2


# Members of arrays that are no function with a rule, and so are said by themselves.
ALONE = {"methods['view']", "methods['setflags']", "properties['flat']"}


def members(source: str) -> Iterator[str]:
    """What is put into the tables of members beside the statements that register functions."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assign(targets=targets):
                changed = [*map(ast.unparse, targets)]
            case ast.AugAssign(target=target):
                changed = [ast.unparse(target)]
            case ast.Call(func=ast.Attribute(value=owner, attr="update" | "setdefault")):
                changed = [ast.unparse(owner)]
            case _:
                continue
        yield from (text for text in changed if text.startswith(("methods", "properties", "ufunc_methods")))


def test_members_are_said_where_functions_are_registered() -> None:
    found = {text for path in (ROOT / "rules").rglob("*.py") for text in members(path.read_text(encoding="utf-8"))}
    assert found == ALONE


def test_members_beside_are_found() -> None:
    source = """
methods['max'] = np.max
properties |= {'T': np.transpose}
methods.update(sum=np.sum)
y = methods['item'](x)
"""
    assert [*members(source)] == ["methods['max']", "properties", "methods"]


# ---------------------------------------------------------------------------------- tables outside of rules

# Why these need no other row for a function that is added.
TABLES = {
    "base/signatures": "functions in C whose parameters NumPy does not tell",
    "capture/refusals": "functions that look at memory, and are refused",
    "engine/kernels/reductions": "reductions that kernels have",
    "passes/lower": "the parts of a complex number",
    "passes/parts": "the parts of a complex number",
    "passes/rewrite": "functions that are looked through to find one number: without a row, a number is not seen",
    "passes/simplify": "equations between functions",
    "registry/applied": "functions that write files, of which the error says so",
    "tracing/libraries": "what operators of other libraries stand for",
    "tracing/mutation": "functions that write into their first argument",
    "tracing/stand_ins": "functions that make arrays of plain numbers, which is noticed while a trace runs",
}


def functions(names: Sequence[Any]) -> list[str]:
    """Those names under which NumPy has a function."""
    found = [(name, vars(np).get(name)) for name in names if isinstance(name, str)]
    return [name for name, value in found if callable(value) and not isinstance(value, type)]


def tables(source: str) -> Iterator[list[str]]:
    """The functions of NumPy in each container that is written down, in keys, and in texts that are their names."""
    for node in ast.walk(ast.parse(source)):
        keys = node.keys if isinstance(node, ast.Dict) else []
        values = node.values if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        spelled = [ast.unparse(part) for part in (*keys, *values) if isinstance(part, ast.Attribute)]
        named = functions([name.removeprefix("np.") for name in spelled if name.startswith("np.")])
        texts = functions([key.value for key in keys if isinstance(key, ast.Constant)])
        words = str(node.value).split() if isinstance(node, ast.Constant) else []
        if len(words) > 2 and functions(words) == words:
            texts = words
        if len(named) > 1 or len(texts) > 2:
            yield named + texts


FILES = {
    str(path.relative_to(ROOT / "yota_py").with_suffix("")): path for path in sorted((ROOT / "yota_py").rglob("*.py"))
}


def test_no_table_of_functions() -> None:
    for name in FILES:
        found = list(tables(FILES[name].read_text(encoding="utf-8")))
        if name in TABLES:
            assert found, f"{name} has no table any more"
        else:
            assert not found, f"{name} knows functions of NumPy by name: say it where they are registered, in rules/"


def test_tables_are_found() -> None:
    source = """
A = {np.maximum: np.max}
B = {"sum": 1, "prod": 2, "max": 3}
C = "zeros ones full".split()
D = (np.ndarray, np.sum, "zeros")
"""
    assert [*tables(source)] == [["maximum", "max"], ["sum", "prod", "max"], ["zeros", "ones", "full"]]
    assert not set(TABLES) - set(FILES)
