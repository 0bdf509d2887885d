"""Automatic differentiation for people who write plain NumPy.

>>> import numpy as np
>>> from yota_py import grad
>>> def f(x1, x2):
...     return x1 * x2 + np.sin(x1)
>>> grad(f, 2.0, 3.0)
(6.909297426825682, (2.5838531634528574, 2.0))
"""

from . import errors, rules  # type: ignore[attr-defined]  # the folder rules beside this one: see pyproject.toml
from .explain import explain
from .jit import jit
from .registry import nondiff, primitive, rrule, scalar_rule
from .settings import config
from .tape import Tape
from .transforms import grad, gradient, gradtape, pullback, trace, value_and_grad

__version__ = "0.1.0"

__all__ = [
    "Tape",
    "config",
    "errors",
    "explain",
    "grad",
    "gradient",
    "gradtape",
    "jit",
    "nondiff",
    "primitive",
    "pullback",
    "rrule",
    "rules",
    "scalar_rule",
    "trace",
    "value_and_grad",
]
