"""Every example in the documentation and in docstrings runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import math
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from registered import own_rules

import yota_py

pytestmark = pytest.mark.audited
ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)")
NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?")
SITE = re.compile(r"(?:<doctest [^>]*>|[\w.-]+\.py):\d+")
SIZE = re.compile(r"\d+\.\d [kM]B")


@pytest.fixture(autouse=True)
def _own_rules() -> Iterator[None]:
    """Examples give functions rules, also functions that have some."""
    with own_rules():
        yield


class Checker(doctest.OutputChecker):
    """Compares up to the places of source lines (``demo.py:4``), sizes in memory, and rounding errors of numbers."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        want, got = (SIZE.sub("1.0 kB", SITE.sub("demo.py", text)) for text in (want, got))
        if super().check_output(want, got, optionflags):
            return True
        if not super().check_output(NUMBER.sub("1.0", want), NUMBER.sub("1.0", got), optionflags):
            return False
        pairs = zip(NUMBER.findall(want), NUMBER.findall(got), strict=True)
        return all(math.isclose(float(a), float(b), rel_tol=1e-9) for a, b in pairs)


class Runner(doctest.DocTestRunner):
    """Fails the test with all reports of one page or docstring."""

    def __init__(self) -> None:
        super().__init__(Checker(), verbose=False)
        self.text: list[str] = []

    def check(self, test: doctest.DocTest) -> None:
        self.run(test, out=self.text.append)
        if self.text:
            pytest.fail("".join(self.text), pytrace=False)


def python_blocks(page: Path) -> str:
    """The page with everything blanked out that is not Python code, so that lines keep their numbers."""
    lines, language = [], None
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = FENCE.match(line)
        if fence:
            language = None if language is not None else fence[1]
        lines.append(line if language == "python" and not fence else "")
    return "\n".join(lines)


def docstrings() -> list[doctest.DocTest]:
    """All docstrings with examples, of the package and of the rules."""
    out: list[doctest.DocTest] = []
    finder = doctest.DocTestFinder()
    for package in (yota_py, yota_py.rules):
        names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
        for name in dict.fromkeys([package.__name__, *names]):
            module = importlib.import_module(name)
            found = finder.find(module, module=module, extraglobs={"__name__": "__main__"})
            out += [test for test in found if test.examples]
    return list({test.name: test for test in out}.values())


def run(page: Path) -> None:
    parser, namespace = doctest.DocTestParser(), {"__name__": "__main__"}
    Runner().check(parser.get_doctest(python_blocks(page), namespace, page.name, str(page), 0))


@pytest.mark.default_policy
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path) -> None:
    run(page)


@pytest.mark.parametrize("name", ["README.md", "docs/extending.md", "docs/tape.md"])
def test_page_compiled_at_once(name: str) -> None:
    run(ROOT / name)


def test_conventions_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call compiles, later ones run compiled code: all conventions hold there too."""
    monkeypatch.setattr(yota_py, "grad", lambda *args, _grad=yota_py.grad, **kwargs: [
        _grad(*args, **kwargs) for _ in range(3)
    ][-1])  # fmt: skip
    run(ROOT / "docs" / "conventions.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_can_be_run(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        assert block.startswith(">>> "), f"{page.name}: this block has no prompt and would not run:\n{block}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target} does not exist"


@pytest.mark.default_policy
@pytest.mark.parametrize("test", docstrings(), ids=lambda test: test.name)
def test_docstring(test: doctest.DocTest) -> None:
    Runner().check(test)


def test_the_checker() -> None:
    agree = Checker().check_output
    assert agree("(1.0, array([0.3]))\n", "(1.0, array([0.30000000000000004]))\n", 0)
    assert agree("Tape f   # demo.py:4\n", "Tape f   # <doctest README.md[1]>:1\n", 0)
    assert agree("2 calls, 1.2 kB\n", "2 calls, 0.9 MB\n", 0)
    assert not agree("(1.0, 2.0)\n", "(1.0, 2.1)\n", 0)
    assert not agree("np.float64(1.0)\n", "1.0\n", 0)
    assert not agree("2 calls, 1.2 kB\n", "3 calls, 1.2 kB\n", 0)
