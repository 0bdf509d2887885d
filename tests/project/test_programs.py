"""Programs as their authors write them, with derivatives: what is printed is what is published, and all is compiled."""

from __future__ import annotations

import re
import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
from numpy.testing import assert_allclose

from yota_py import UncachedWarning, explain, value_and_grad

PROGRAMS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "programs"

PRINTED = {  # numbers, and how far from them is right
    "kalman": ([15099, 1469, -632.55], 1.0),
    "cox": ([1.509, 0.410], 0.001),
    "hmm": ([15.47, 26.13, 342.318], 0.01),
    "gaussian_process": ([2.08, 1.30, 0.105, 0.05], 0.01),
    "finite_elements": ([0.3333, 0.1975], 0.002),
    "deconvolution": ([0.231, 0.173, 0.022], 0.01),
    "spline_fit": ([0.0189, 0.0074], 0.0005),
    "eight_schools": ([7.5, 3.6], 1.0),
    "registration": ([0.1, 2.0, -1.5], 0.001),
    "autoencoder": ([45.3, 19.0], 0.5),
}


def test_every_program_is_run() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == {*PRINTED}


@pytest.mark.parametrize("name", PRINTED)
def test_program(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own run prints the published figures; its gradient is that of finite differences, from compiled code."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncachedWarning)
        program = runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
    numbers = [float(text) for text in re.findall(r"-?\d+\.?\d*", capsys.readouterr().out)]
    want, within = PRINTED[name]
    assert_allclose(numbers, want, rtol=0, atol=within)
    f, point, rest = program["OBJECTIVE"], program["POINT"], program.get("BATCH", ())
    gradient = value_and_grad(f)
    gradient.compile(point, *rest)
    before = explain(gradient)[0].calls
    rng = np.random.default_rng(0)
    for _ in range(3):
        point = optree.tree_map(lambda x: x + 1e-3 * rng.normal(size=np.shape(x)), point)
        way = optree.tree_map(lambda x: rng.normal(size=np.shape(x)), point)
        value, slopes = gradient(point, *rest)
        assert_allclose(value, f(point, *rest), rtol=1e-10)
        assert_allclose(_product(slopes, way), _difference(lambda p: f(p, *rest), point, way), rtol=1e-5, atol=1e-7)
    assert explain(gradient)[0].calls == before + 3, explain(gradient)


def _product(a: Any, b: Any) -> float:
    return float(sum(np.sum(x * y) for x, y in zip(optree.tree_leaves(a), optree.tree_leaves(b), strict=True)))


def _difference(f: Any, point: Any, way: Any) -> float:
    """A central difference of fourth order."""
    at = [f(optree.tree_map(lambda x, v, h=h: x + h * 1e-4 * v, point, way)) for h in (-2, -1, 1, 2)]
    return float((at[0] - 8 * at[1] + 8 * at[2] - at[3]) / 12e-4)
