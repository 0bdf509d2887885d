"""A line on a terminal while compiling takes long, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from yota_py import config, grad
from yota_py.cache import notices
from yota_py.cache.modes import Request


class Terminal(io.StringIO):
    """One that shows all that is written."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(notices, "LONG_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def some_function(x: Any) -> Any:
    return x


def shown(terminal: Terminal, call: Request | None = None, seconds: float = 10.0) -> str:
    """What is on the terminal when compiling has gone on until something was, or so long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        with notices.progress(call or Request(some_function, (), {}), 12345):
            end = time.monotonic() + seconds
            while "operations" not in terminal.getvalue() and time.monotonic() < end:
                time.sleep(0.01)
        assert sys.stderr is terminal
    return terminal.getvalue()


def test_it_says_what_is_compiled(terminal: Terminal) -> None:
    before = threading.active_count()
    assert "yota_py compiles some_function: 12,345 operations" in shown(terminal)
    assert terminal.getvalue().endswith("\x1b[2K")  # and the line is taken away
    time.sleep(0.05)
    assert threading.active_count() <= before


def test_names_are_no_markup(terminal: Terminal) -> None:
    def f(x: Any) -> Any:
        return x

    f.__name__ = f.__qualname__ = "f[red]"
    assert "compiles f[red]: 12,345" in shown(terminal, Request(f, (), {}))


def test_not_for_what_is_soon_done(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "LONG_SECONDS", 60.0)
    monkeypatch.setattr(sys, "stderr", terminal)
    grad(lambda x: np.sum(np.sin(x)), np.ones(3))
    assert not terminal.getvalue()
    for thread in [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]:
        thread.join(30)
        assert not thread.is_alive()


def test_an_exception_goes_through(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(KeyboardInterrupt), notices.progress(Request(some_function, (), {}), 1):
        raise KeyboardInterrupt


@pytest.mark.parametrize("off", ["setting", "file", "none", "no rich"])
def test_off(off: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    other: Any = terminal
    if off == "setting":
        monkeypatch.setattr(config, "progress", False)
    elif off == "no rich":
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    else:
        other = io.StringIO() if off == "file" else None
    if other is None:
        monkeypatch.setattr(sys, "stderr", None)
        with notices.progress(Request(some_function, (), {}), 1):
            time.sleep(0.05)
    else:
        assert not shown(other, seconds=0.1)
