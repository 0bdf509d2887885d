"""Checks of rules and gradients against NumPy's values and finite differences."""

from .checks import check_cases, check_grads, check_rrule

__all__ = ["check_cases", "check_grads", "check_rrule"]
