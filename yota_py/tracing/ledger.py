"""What a trace knows of itself and of the function that is traced: what tracers ask it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

from ..base import locks
from ..errors import YotaError
from ..tape.operations import Operation, Site, Variable, user_site
from ..tape.recorder import Recorder
from ..tape.tape import Tape

T = TypeVar("T")

_levels = itertools.count()


class Status(IntEnum):
    """What a value depends on: nothing; inputs without derivative; active inputs."""

    CONSTANT = 0
    INACTIVE = 1
    ACTIVE = 2


class Ledger(Recorder):
    """What is known of a recording in progress; ``Trace`` does what is only declared here.

    ``level`` orders nested traces, the innermost has the highest. ``problems`` are reasons why another call might not
    record the same; ``site`` is where operations come from if it is not the running code; ``captured`` counts the
    arrays and numbers that the function reads from elsewhere, ``decisions`` its guards. ``roots`` are the tracers of
    inputs and captured values; with ``effects`` captured arrays may be written as well. ``writes`` counts
    assignments to traced arrays; ``matrices`` are the sparse ones that guards compare; ``lost`` is the last error
    that it has been refused with, whoever was given it, ``refused`` the first one that a line of the user's was
    given; ``sets_errors`` tells whether the function may say what NumPy does about overflow and the like;
    ``heeds_layout`` whether what it does depends on how arrays lie in memory; ``truths`` whether it compares by
    identity what may be True or False (``None`` as long as nothing traced is); ``derived`` whether derivatives are
    wanted, so that what has no rule is refused; ``imports`` is told of modules that it imports,
    ``comparisons`` of functions that may compare numbers by identity; ``hashed`` are what has
    been looked up in dicts and sets or put there (``None`` while that is taken out); ``shown`` are arrays whose memory
    somebody looks at.
    """

    __slots__ = (
        "_foreign", "_status", "alive", "captured", "comparisons", "decisions", "derived", "effects", "hashed",
        "heeds_layout", "imports", "level", "lost", "matrices", "problems", "refused", "roots", "sets_errors", "shown",
        "site", "thread", "truths", "writes",
    )  # fmt: skip

    # What comes of a call with traced values, of NumPy's protocols, of operators (``operators.py``), of assignments.
    call: ClassVar[Callable[..., Any]]
    ufunc: ClassVar[Callable[..., Any]]
    function: ClassVar[Callable[..., Any]]
    torch_function: ClassVar[Callable[..., Any]]
    forward: ClassVar[Callable[..., Any]]
    reflected: ClassVar[Callable[..., Any]]
    in_place: ClassVar[Callable[..., Any]]
    assign: ClassVar[Callable[..., None]]

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        self.level = next(_levels)
        self.alive = True
        self.thread = threading.get_ident()
        self.site: Site | None = None
        self.problems: list[str] = []
        self.matrices: list[Any] = []
        self.shown: list[Any] = []
        self.captured = 0
        self.decisions = 0
        self.effects = False
        self.derived = True
        self.writes = 0
        self.lost: YotaError | None = None
        self.refused: YotaError | None = None
        self.hashed: list[Any] | None = []
        self.imports: Any = None
        self.comparisons: Any = None
        self.sets_errors = self.heeds_layout = False
        self.truths: bool | None = None
        self.roots: dict[Variable, Any] = {}
        self._status: dict[Variable, Status] = {}
        self._foreign: dict[int, tuple[Any, Any, Variable]] = {}

    def refuse(self, what: str) -> None:
        """Note what nobody can follow: this trace is not to be used."""
        self.refused = self.refused or YotaError(f"{user_site()}: {what}, cannot be followed")

    def status(self, var: Variable) -> Status:
        """What the value depends on."""
        return self._status.get(var, Status.CONSTANT)

    def is_active(self, var: Variable) -> bool:
        """Whether the value depends on an input whose derivative is wanted."""
        return self.status(var) == Status.ACTIVE

    def origin(self) -> Site | None:
        """The line of the user's code that the next operation comes from."""
        return self.site or user_site()

    def heed_truths(self) -> None:
        """From now on, what may be True or False may be compared by identity."""
        if self.truths is False:
            self.problems.append("it may ask a traced condition whether it is True itself (x is True)")
        self.truths = True

    def next_decision(self) -> int:
        """The number of the next guard."""
        self.decisions += 1
        return self.decisions - 1

    def append(self, op: Operation, value: Any) -> Variable:
        """Add an operation; worker threads of the traced function may do so at the same time."""
        with locks.tables:
            return super().append(op, value)

    def guard(self, tracer: Any, test: Callable[[Any], T]) -> T:
        """What ``test`` says of the value now, remembered on the tape as a decision that Python took."""
        raise NotImplementedError

    def record(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Compute ``fn(*args, **kwargs)`` on the values and append it to the tape; the results are tracers."""
        raise NotImplementedError

    def tracer(self, var: Variable) -> Any:
        """A tracer for an input or constant of this recording."""
        raise NotImplementedError
