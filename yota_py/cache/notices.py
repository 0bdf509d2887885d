"""What a cache tells users, at their own line: why functions are not compiled, and that a program was wrong."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Lock, Timer
from typing import Any

from ..base.settings import config
from ..errors import AuditWarning, CheckError, CompileError, CompilerWarning, UncachedWarning
from ..tape.operations import levels_to_user, user_site
from ..tape.show import name_of
from .modes import Mode, Request

LONG_SECONDS = 1.0  # after which a terminal shows that something is being compiled


@contextmanager
def progress(call: Request, operations: int) -> Iterator[None]:
    """While compiling in the block takes long, a line on a terminal says what is compiled."""
    terminal = sys.stderr
    if not (config.progress and terminal is not None and terminal.isatty()):
        yield
        return
    shown: list[Any] = []
    showing = Lock()

    def show() -> None:
        with showing:
            if timer.finished.is_set():
                return
            with suppress(Exception):  # a terminal that cannot show it is no reason to fail
                rich = import_module("rich.progress")  # not before: few programs need it
                line = rich.Progress(
                    rich.SpinnerColumn("line"), rich.TextColumn("{task.description}", markup=False),
                    rich.TimeElapsedColumn(), console=rich.Console(file=terminal), transient=True,
                    redirect_stdout=False, redirect_stderr=False,
                )  # fmt: skip
                line.add_task(f"yota_py compiles {name_of(call.f)}: {operations:,} operations", total=None)
                line.start()
                shown.append(line)

    timer = Timer(LONG_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with showing:
            for line in shown:
                line.stop()


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
