"""Automatic differentiation for people who write plain NumPy.

>>> import numpy as np
>>> from yota_py import grad
>>> def f(x1, x2):
...     return x1 * x2 + np.sin(x1)
>>> grad(f, 2.0, 3.0)
(6.909297426825682, (2.5838531634528574, 2.0))
"""

from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING
from typing import Any as _Any

try:
    _import_module("yota_py.rules")  # the folder rules beside this one: see pyproject.toml
except ModuleNotFoundError as _error:
    if _error.name != "yota_py.rules":
        raise
    raise ImportError(
        "yota_py is not installed: the folder rules/ of a checkout becomes the package yota_py.rules when it is. "
        f"Install it once, in {_Path(__file__).resolve().parents[1]}: pip install -e ."
    ) from None

from .api import grad, gradient, gradtape, pullback, trace, value_and_grad
from .base.settings import config
from .engine.compile import clear_cache
from .errors import (
    AuditWarning,
    CheckError,
    CompileError,
    CompilerWarning,
    GuardError,
    LostDerivativeError,
    MissingRuleError,
    MutationError,
    NonScalarOutputError,
    NotDifferentiableError,
    OutputError,
    RuleError,
    RulesWarning,
    SeedError,
    UncachedWarning,
    VerifyError,
    YotaError,
)
from .loops import turning as _turning  # noqa: F401 - traces ask it how loops end
from .loops import watching as _watching  # noqa: F401 - traces let it look for loops
from .loops.carrying import scan, while_loop
from .registry.patches import patch
from .registry.registry import case, nondiff, primitive, primitives, rrule, scalar_rule
from .tape.tape import Tape
from .tracing.stopping import stop_gradient

if TYPE_CHECKING:
    from .cache.report import explain
    from .cache.whole import jit
    from .jacobians.forward import pushforward
    from .jacobians.transforms import hessian, hvp, jacobian
    from .loops.batching import vmap
    from .loops.checkpointing import checkpoint
    from .reverse.rows import Rows
    from .testing import check_cases, check_grads, check_rrule

__version__ = "0.1.0"

_WHEN_ASKED_FOR = {  # what few programs need
    "Rows": "reverse.rows", "check_cases": "testing", "check_grads": "testing", "check_rrule": "testing",
    "checkpoint": "loops.checkpointing", "explain": "cache.report", "hessian": "jacobians.transforms",
    "hvp": "jacobians.transforms", "jacobian": "jacobians.transforms", "jit": "cache.whole",
    "optim": "optim", "pushforward": "jacobians.forward", "vmap": "loops.batching",
}  # fmt: skip

__all__ = [
    "AuditWarning",
    "CheckError",
    "CompileError",
    "CompilerWarning",
    "GuardError",
    "LostDerivativeError",
    "MissingRuleError",
    "MutationError",
    "NonScalarOutputError",
    "NotDifferentiableError",
    "OutputError",
    "Rows",
    "RuleError",
    "RulesWarning",
    "SeedError",
    "Tape",
    "UncachedWarning",
    "VerifyError",
    "YotaError",
    "case",
    "check_cases",
    "check_grads",
    "check_rrule",
    "checkpoint",
    "clear_cache",
    "config",
    "explain",
    "grad",
    "gradient",
    "gradtape",
    "hessian",
    "hvp",
    "jacobian",
    "jit",
    "nondiff",
    "patch",
    "primitive",
    "primitives",
    "pullback",
    "pushforward",
    "rrule",
    "scalar_rule",
    "scan",
    "stop_gradient",
    "trace",
    "value_and_grad",
    "vmap",
    "while_loop",
]


def __getattr__(name: str) -> _Any:
    if name not in _WHEN_ASKED_FOR:
        raise AttributeError(f"module 'yota_py' has no attribute {name!r}")
    module = _import_module(f"yota_py.{_WHEN_ASKED_FOR[name]}")
    value = globals()[name] = module if _WHEN_ASKED_FOR[name] == name else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
