"""Checks of rules and gradients against NumPy's values and finite differences."""

from .checks import check_cases, check_grads, check_rrule
from .finite import numerical_gradient

__all__ = ["check_cases", "check_grads", "check_rrule", "numerical_gradient"]
