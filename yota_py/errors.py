"""The error tree. Every message names the operation, the types, the user's own line, and a way out."""

from __future__ import annotations

from collections.abc import Callable

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
    "RuleError",
    "SeedError",
    "UncachedWarning",
    "VerifyError",
    "YotaError",
]


listeners: list[Callable[[YotaError], object]] = []  # called with each error when it is made


class YotaError(Exception):
    """Base of all errors that yota_py raises by itself."""

    level: int | None = None  # of the trace in which it is made

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        for heed in listeners:
            heed(self)


class NotDifferentiableError(YotaError, TypeError):
    """No argument is differentiable (floats, complex numbers, arrays of them)."""


class NonScalarOutputError(YotaError, TypeError):
    """The output is not a real scalar and no seed was given."""


class SeedError(YotaError, ValueError):
    """The seed does not have the output's structure, shape or kind."""


class OutputError(YotaError, TypeError):
    """The function returned something that is neither a number nor an array (nor a container of them)."""


class MissingRuleError(YotaError, NotImplementedError):
    """A function met a traced value and there is no rule for it, or not for these keyword arguments."""


class LostDerivativeError(YotaError, TypeError):
    """Something asked a traced value for a plain number or array, which would drop its derivative."""


class MutationError(YotaError, TypeError):
    """An in-place change that cannot be followed."""


class GuardError(YotaError, RuntimeError):
    """A tape was played with inputs for which the traced function would have taken another branch."""

    number = -1  # that of the decision


class RuleError(YotaError, TypeError):
    """A rule breaks its contract: wrong number, shape or kind of cotangents."""


class VerifyError(YotaError, AssertionError):
    """A tape is not well formed: an error in a pass, never in the user's code."""


class CompileError(YotaError, RuntimeError):
    """``compile`` was asked for a function whose calls cannot share a program."""


class CheckError(YotaError, AssertionError):
    """With ``config.check``: a compiled program gave something else than the interpreter."""


class AuditWarning(UserWarning):
    """A compiled program gave something else than the interpreter, whose result is given; the program is dropped."""


class Abandoned(BaseException):
    """Raised in a traced function that cannot be followed any further; users never see it, and their handlers of
    exceptions do not catch it."""


class ObjectsGivenError(Exception):
    """Derivatives are wanted in objects or functions among the arguments: the call is made with what these hold."""


class UntraceableError(Exception):
    """The call cannot be traced with its effects. Nothing has happened: call the function itself. A second argument is
    the module that it will import."""


class CompilerWarning(UserWarning):
    """The compiler has failed on a function, which is interpreted instead: an error in a rule or in yota_py."""


class RulesWarning(UserWarning):
    """Rules for a library cannot be loaded, perhaps since it is newer than they are; its functions have none."""


class UncachedWarning(UserWarning):
    """A function is traced at each call, as its calls cannot share a program."""
