"""The ``cmath`` module: NumPy's functions of Python's complex numbers, which raise where ``cmath`` does."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

import numpy as np

from yota_py.base.dispatch import decided, find_traced
from yota_py.registry.patches import patch

from .casting import item
from .casts import complex_of, to_complex
from .support import shape_of


def _of_one(plain: Callable[..., Any], compute: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function of one number. Where its value is not finite, though the number is, ``cmath`` raises: a decision."""

    def stand_in(*args: Any) -> Any:
        if find_traced(args) is None or len(args) != 1 or shape_of(args[0]):
            return plain(*args)
        z = to_complex(args[0])
        with np.errstate(all="ignore"):
            y = item(compute(z))
        if np.isfinite(z) and not np.isfinite(y):
            return plain(decided(z))
        return y

    return stand_in


def _log(*args: Any) -> Any:
    return _plain_log(args[0]) / _plain_log(args[1]) if len(args) == 2 else _plain_log(*args)


_plain_log = _of_one(cmath.log, np.log)


def _polar(z: Any) -> tuple[Any, Any]:
    return item(np.abs(to_complex(z))), item(np.angle(to_complex(z)))


def _rect(r: Any, phi: Any) -> Any:
    return complex_of(item(r * np.cos(phi)), item(r * np.sin(phi)))


def _decision(plain: Callable[..., Any], test: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda z: plain(z) if find_traced((z,)) is None else bool(test(z))


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> bool:
    if find_traced((a, b, rel_tol, abs_tol)) is None:
        return _plain_isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
    if rel_tol < 0 or abs_tol < 0:
        return _plain_isclose(0, 0, rel_tol=-1.0)  # raises what Python raises
    if a == b:
        return True
    if not (np.isfinite(a) and np.isfinite(b)):
        return False
    return bool(abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol))


_plain_isclose = cmath.isclose
_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
          "atanh": "arctanh"}  # fmt: skip
for _name in "exp log10 sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh".split():
    patch(cmath, _name, _of_one(getattr(cmath, _name), getattr(np, _NAMES.get(_name, _name))))
for _name in ("isnan", "isinf", "isfinite"):
    patch(cmath, _name, _decision(getattr(cmath, _name), getattr(np, _name)))
patch(cmath, "log", _log)
patch(cmath, "phase", lambda z: item(np.angle(to_complex(z))))
patch(cmath, "polar", _polar)
patch(cmath, "rect", _rect)
patch(cmath, "isclose", _isclose)
