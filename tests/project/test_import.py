"""``import yota_py`` is light, and the rules for SciPy come when SciPy does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SETUP = """
import sys
import numpy as np
from yota_py import grad, gradient
x = np.array([0.5, -1.0, 2.0])
shares = np.exp(x) / np.sum(np.exp(x))
def agrees(have, want):
    assert np.allclose(have, want, rtol=1e-12, atol=0), (have, want)
def check(f, *args, want):
    for _ in range(3):  # traced, compiled, from the cache
        agrees(grad(f, *args)[1][0], want)
"""


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_nothing_heavy_is_imported() -> None:
    loaded = set(fresh("import sys, yota_py; print(*sys.modules)").split())
    assert not {name.partition(".")[0] for name in loaded} & {"scipy", "numba", "llvmlite"}


def test_what_a_gradient_imports_is_not_the_functions() -> None:
    code = """
from yota_py import config, explain, jit, value_and_grad
config.compile = "always"
step = jit(lambda w: value_and_grad(lambda w: np.sum(w * w))(w))
for i in range(3):
    step(x)
print(explain(step)[0].calls)
"""
    assert fresh(SETUP + code).split() == ["2"]


def test_tracing_imports_nothing_heavy() -> None:
    loaded = set(fresh(SETUP + "grad(lambda x: np.sum(np.logaddexp(x, np.exp(x))), x); print(*sys.modules)").split())
    assert not {name.partition(".")[0] for name in loaded} & {"scipy", "numba", "llvmlite"}


EXPIT = "check(lambda x: np.sum(special.expit(x)), x, want=special.expit(x) * special.expit(-x))\n"
LOGSUMEXP = "check(lambda x: special.logsumexp(x), x, want=shares)\n"


@pytest.mark.parametrize("first", ["", "import scipy.special\n"], ids=["yota_py first", "SciPy first"])
@pytest.mark.parametrize("use", [EXPIT, LOGSUMEXP], ids=["ufunc", "function"])
def test_scipy_functions_have_rules(first: str, use: str) -> None:
    fresh(first + SETUP + "from scipy import special\n" + use)


def test_scipy_imported_after_a_trace() -> None:
    fresh(SETUP + "check(lambda x: np.sum(x * x), x, want=2 * x)\nfrom scipy import special\n" + EXPIT + LOGSUMEXP)


@pytest.mark.parametrize(
    ("statement", "call", "want"),
    [
        ("from scipy import special", "np.sum(special.expit(x))", "1 / (2 + np.exp(x) + np.exp(-x))"),
        ("from scipy import special", "special.logsumexp(x)", "shares"),
        ("from scipy.special import logsumexp", "logsumexp(x)", "shares"),
        ("from scipy import special", "np.sum(special.expit(0 * x)) + special.logsumexp(x)", "shares"),
    ],
)
def test_scipy_imported_inside_the_function(statement: str, call: str, want: str) -> None:
    fresh(SETUP + f"def f(x):\n    {statement}\n    return {call}\ncheck(f, x, want={want})\n")


def test_scipy_imported_inside_a_differentiated_derivative() -> None:
    code = "def f(x):\n    from scipy.special import logsumexp\n    return logsumexp(np.stack([x, 0 * x]))\n"
    fresh(SETUP + code + "agrees(gradient(gradient(f))(0.3), np.exp(0.3) / (1 + np.exp(0.3)) ** 2)\n")


def test_derivatives_that_need_scipy() -> None:
    """``math.gamma`` and ``np.i0`` are not SciPy's, but what their derivatives are made of is."""
    code = "import math\nassert 'scipy' not in sys.modules\n"
    code += "agrees(grad(lambda t: math.gamma(t) + math.lgamma(t), 1.0)[1][0], -2 * np.euler_gamma)\n"
    fresh(SETUP + code)
    slope = "(np.i0(x + 1e-6) - np.i0(x - 1e-6)) / 2e-6"
    fresh(SETUP.replace("1e-12", "1e-8") + f"check(lambda x: np.sum(np.i0(x)), x, want={slope})\n")


@pytest.mark.parametrize("f", ["math.sin", "special.logsumexp", "special.expit", "np.sin"])
def test_functions_as_objects(f: str) -> None:
    """What does not notice traced arguments by itself is exchanged also if it is ``f`` itself."""
    code = "import math\nfrom scipy import special\n"
    want = {"math.sin": "math.cos(0.5)", "special.logsumexp": "1.0", "np.sin": "math.cos(0.5)"}
    fresh(SETUP + code + f"check({f}, 0.5, want={want.get(f, 'special.expit(0.5) * special.expit(-0.5)')})\n"
          f"check(lambda x: grad({f}, x)[0], 0.5, want=grad({f}, 0.5)[1][0])\n")  # fmt: skip
