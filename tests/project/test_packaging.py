"""What is installed is all that the repository has: an editable installation would hide a package that is left out."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_folder_of_code_is_installed() -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    installed = {said["package-dir"].get(name, name.replace(".", "/")) for name in said["packages"]}
    folders = {
        path.parent.relative_to(ROOT).as_posix()
        for room in ("yota_py", "rules")
        for path in (ROOT / room).rglob("*.py")
    }
    assert installed == folders
