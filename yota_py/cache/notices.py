"""What a cache tells users, at their own line: why functions are not compiled, and that a program was wrong."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ..base.settings import config
from ..errors import AuditWarning, CheckError, CompileError, CompilerWarning, UncachedWarning
from ..tape.operations import levels_to_user, user_site
from ..tape.show import name_of
from .modes import Mode, Request


def uncached(mode: Mode, call: Request, problem: str) -> None:
    """A function that would have been compiled could not be."""
    said = f"{name_of(call.f)} is {mode.otherwise} at each call, because {problem}. "
    warnings.warn(f"{said}yota_py.explain(f) tells what is cached", UncachedWarning, stacklevel=levels_to_user())


def impossible(call: Request, problems: Sequence[str]) -> CompileError:
    """``compile`` was asked for a program that there cannot be."""
    return CompileError(
        f"{user_site()}: {name_of(call.f)} cannot be compiled so that other calls could rely on it: "
        f"{'; '.join(problems)}"
    )


def failed(mode: Mode, call: Request, problem: str) -> None:
    """The compiler has failed."""
    said = f"{name_of(call.f)} is {mode.otherwise} at each call, because {problem}"
    warnings.warn(said, CompilerWarning, stacklevel=levels_to_user())


def wrong(mode: Mode, call: Request, fault: str) -> None:
    """A program was wrong; with ``config.check``, that is an error."""
    said = f"{user_site()}: {name_of(call.f)}: the compiled program is wrong: {fault}"
    if config.check:
        raise CheckError(f'{said}. Please report it; until then, config.compile = "never" is right and slow')
    said += f". This call has the right result; from now on, the function is {mode.otherwise}. Please report it"
    warnings.warn(said, AuditWarning, stacklevel=levels_to_user())
