"""Print the lowest versions that pyproject.toml admits, as constraints for pip."""

import tomllib
from pathlib import Path


def constraints() -> list[str]:
    """The lower bounds of what the library needs: ``numpy>=2.0,<3`` as ``numpy==2.0``."""
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    return [bound.partition(",")[0].replace(">=", "==") for bound in tomllib.loads(text)["project"]["dependencies"]]


if __name__ == "__main__":
    print(*constraints(), sep="\n")
