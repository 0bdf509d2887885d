"""What a function does besides computing, as operations on tapes: they run again at each call, in their order."""

from __future__ import annotations

import builtins
import logging
import sys
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, NamedTuple

from .records import record
from .unwinding import state


class Text(NamedTuple):
    """A text that is made of ``values``, as by ``template.format(*values)``."""

    template: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return self.template.format(*self.values)

    def __repr__(self) -> str:
        """As an f-string of the values."""
        text, values = "", iter(self.values)
        for part, field, spec, conversion in Formatter().parse(self.template):
            text += part.replace("{", "{{").replace("}", "}}")
            if field is not None:
                converted = f"!{conversion}" if conversion else ""
                text += f"{{{next(values)!r}{converted}{':' + spec if spec else ''}}}"
        return f"f{text!r}"


class Impure:
    """A function that stands on a tape and gives another answer each time, or is called for what it does."""

    __slots__ = ()


@record(eq=False)
class Clock(Impure):
    """A function that tells the time. The ``first`` ones of a tape are read before anything is computed; others
    ``after`` what stands before them."""

    read: Callable[[], Any]
    first: bool

    @property
    def __name__(self) -> str:
        return self.read.__name__

    def __call__(self, *, after: Any = ()) -> Any:
        return self.read()


@record(eq=False)
class Output(Impure):
    """A function that is called for what it tells somebody: ``do(of, *args, **kwargs)``, where ``of`` says to whom: a
    name, or an object that is looked up at each call."""

    name: str
    do: Callable[..., Any]
    of: Any = ""

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.tell(self.of, args, kwargs)

    def tell(self, of: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Tell it, unless an attempt that was taken back has told it already."""
        for block in state.draws:
            block.told.append((args, kwargs))
        if state.untold:
            state.untold -= 1
        else:
            self.do(of, *(str(x) if type(x) is Text else x for x in args), **kwargs)


@record()
class Line:
    """A line of the user's code that logs something: what an ``Output`` does, to a logger or to that of all."""

    level: int
    filename: str
    line: int
    function: str

    def __call__(self, logger: Any, message: Any, *args: Any, extra: Any = None) -> None:
        if logger == "":
            logger = logging.root
            if not logger.handlers:
                logging.basicConfig()
        if logger.isEnabledFor(self.level):
            where = self.filename, self.line
            record = logger.makeRecord(logger.name, self.level, *where, message, args, None, self.function, extra)
            logger.handle(record)


STREAMS = ("stdout", "stderr")


def printing(to: Any, *args: Any, **kwargs: Any) -> None:
    """``print``, to a stream of this name, as ``sys`` has it now, or to a file."""
    if to != "":
        kwargs["file"] = getattr(sys, to) if to in STREAMS else to
    builtins.print(*args, **kwargs)
