"""What the engine may do with a primitive: descriptions, which are data, and what writes elementwise operations.

A primitive without one is called in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import chain, count
from types import FunctionType
from typing import Any, Literal, TypeAlias

from ..base.ownership import PACKAGE
from ..base.records import record

Reduction = Literal["sum", "prod", "max", "min", "any", "all"]
Routine = Literal["solve", "triangular", "factored", "cholesky", "inv", "slogdet", "cofactors"]
Emitter: TypeAlias = Callable[..., Any]  # ``(k, *values) -> value``, with a maths builder ``k``


@record()
class Map:
    """An elementwise operation; ``emit`` is a method of the maths builder or what ``named`` has given, and writes it.

    Without ``emit`` the operand itself is the result. Those that are written for ``integers`` and booleans as well
    cost about as much as a load, unless they are ``heavy``, and so do ``light`` ones; all others count as ten of them.
    """

    emit: str = ""
    integers: bool = False
    light: bool = False
    heavy: bool = False

    @property
    def cost(self) -> int:
        """In loads."""
        return 1 if self.light or (self.integers and not self.heavy) else 10


@record()
class Reduce:
    """A reduction over ``axis``; "any" and "all" are of truth values."""

    mode: Reduction


@record()
class Extremum:
    """The index of the greatest element, or of the least, along one ``axis``; of several the first, and NaN is both."""

    mode: Literal["argmax", "argmin"]


@record()
class Scan:
    """A reduction of each element and all before it along ``axis``."""

    mode: Literal["cumsum", "cumprod"]


@record()
class View:
    """The memory of the first argument, looked at in another way, or a copy of it."""


@record()
class Index:
    """Elements of the first argument, at the index that is the second: a view or a gather."""


@record()
class Unindex:
    """The adjoint of an index: an array of zeros that the first argument is added into."""


@record()
class Assign:
    """A copy of the first argument, with the third at the index that is the second."""


@record()
class Accumulate:
    """A copy of the second argument, with the fourth added at the index that is the third; the first is ``np.add``, or
    there is no kernel."""


@record()
class Product:
    """A product of matrices, or of a matrix and a vector."""


@record()
class Lapack:
    """What LAPACK does with a matrix or a stack of them; where it fails, and if so where an element is not ``finite``,
    the call is interpreted."""

    routine: Routine
    finite: bool = False


@record()
class Sort:
    """The first argument in order along ``axis``; or, of it, the ``places`` of the elements in that order."""

    places: bool = False


@record()
class Search:
    """The indices in the first argument, which is in order, where elements of the second belong, on ``side``."""


@record()
class Join:
    """Complex numbers of their real and imaginary parts."""


@record()
class Concatenate:
    """Arrays behind each other along ``axis``."""


Kernel: TypeAlias = (
    Map | Reduce | Extremum | Scan | View | Index | Unindex | Assign | Accumulate | Product | Lapack | Sort | Search
    | Join | Concatenate
)

_emitters: dict[str, Emitter] = {}


def named(emit: Emitter) -> str:
    """The name under which a function that writes an elementwise operation is known: its own, with a number if another
    has that already."""
    name = f"{emit.__module__}.{getattr(emit, '__qualname__', type(emit).__name__)}"
    names = chain([name], (f"{name}-{i}" for i in count(2)))
    name = next(name for name in names if _emitters.get(name, emit) is emit)
    _emitters[name] = emit
    return name


def text_of(name: str) -> str | None:
    """What tells the operation that was ``named`` so from others of that name in other processes, where the library is
    the same; ``None`` for one that is not the library's own, or is made of more than numbers and text."""
    emit = _emitters.get(name)
    if not isinstance(emit, FunctionType):
        return None
    module = emit.__globals__.get("__name__", "")  # what ``exec`` has made has none
    if module.partition(".")[0] != PACKAGE or vars(sys.modules.get(module, object)) is not emit.__globals__:
        return None
    code, defaults = emit.__code__, [*(emit.__defaults__ or ()), *(emit.__kwdefaults__ or {}).values()]
    made_of = [*(cell.cell_contents for cell in emit.__closure__ or ()), *defaults]
    if not all(isinstance(value, str | int | float | None) for value in made_of):
        return None
    constants = [value for value in code.co_consts if isinstance(value, str | int | float | None)]
    return repr((module, code.co_firstlineno, code.co_code, code.co_names, constants, made_of))


def emitted(k: Any, name: str, *values: Any) -> Any:
    """What the operation of this name is, written with the maths builder ``k``."""
    emit = _emitters.get(name)
    return getattr(k, name)(*values) if emit is None else emit(k, *values)


def kernel_of(given: Kernel | str | Emitter) -> Kernel:
    """A kernel; of a name or of a function that writes an elementwise operation, the ``Map``."""
    if isinstance(given, str):
        return Map(given)
    if isinstance(given, Kernel):
        return given
    if not callable(given) or isinstance(given, type):
        raise TypeError(f"{given!r} is no kernel; give a function (k, *values) -> value, the name of a method of the "
                        "maths builder, or a description, such as View()")
    return Map(named(given))
