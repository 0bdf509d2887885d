"""Printing of tapes, for people: compact (rrule and its getfields on one line) or plain (an operation a line, with its
type)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..base.containers import attribute_of
from ..base.impure import Text
from ..base.types import typeof
from .operations import Call, Constant, Guard, Input, Operation, Site, Variable

Style = Literal["compact", "plain"]

_COMMENT_COLUMNS = {"compact": 44, "plain": 58}  # types stand before it

# Python's operators on Python numbers are recorded as such (their results stay weakly typed), and printed by the
# names of the ufuncs that do the same.
_NAMES: dict[Any, str] = {
    operator.mul: "multiply",
    operator.sub: "subtract",
    operator.truediv: "divide",
    operator.neg: "negative",
    operator.pos: "positive",
    operator.floordiv: "floor_divide",
    operator.mod: "remainder",
    operator.pow: "power",
    operator.abs: "absolute",
    operator.lt: "less",
    operator.le: "less_equal",
    operator.gt: "greater",
    operator.ge: "greater_equal",
    operator.eq: "equal",
    operator.ne: "not_equal",
}


def name_of(fn: Any) -> str:
    """A function's short name in printed tapes and in messages."""
    try:
        if fn in _NAMES:
            return _NAMES[fn]
    except TypeError:  # unhashable callables
        pass
    if isinstance(fn, functools.partial):
        return name_of(fn.func)
    return attribute_of(fn, "__name__") or type(fn).__name__


def show(name: str, site: Site | None, ops: Sequence[Operation], results: Sequence[Any], style: Style) -> str:
    """The text of a tape, with the bodies of loops below them. Source lines stand as comments where they change."""
    if style not in ("compact", "plain"):
        raise ValueError(f"style is 'compact' or 'plain', not {style!r}")
    folded = _foldable(ops) if style == "compact" else {}
    hidden = {var for fields in folded.values() for var in fields if var is not None}
    column = _COMMENT_COLUMNS[style]
    lines = [f"Tape {name} {'':<{column - 6 - len(name)}}# {site}" if site else f"Tape {name}"]
    last: Site | None = None
    for i, op in enumerate(ops, 1):
        if i in hidden:
            continue
        if not isinstance(op, Operation):  # what ``verify`` has found on a broken tape
            lines.append(f"  %{i} = {op!r}")
            continue
        comment = op.note or (op.name if isinstance(op, Input) else "")
        if op.site is not None and op.site != last and not comment:
            comment, last = str(op.site), op.site
        kind = "inp " if isinstance(op, Input) else "const " if isinstance(op, Constant) else ""
        t = f":: {op.type} " if style == "plain" and isinstance(op, Call) else ""
        left = f"  {kind}{_left(i, folded.get(i))} {text_of(op)} {t}"
        lines.append(f"{left:<{column}}# {comment}" if comment else left[:-1])
        lines += ["    " + line for line in _within(op, style)]
    lines.append(f"  return {_value(results[0]) if len(results) == 1 else _value(tuple(results))}")
    return "\n".join(lines)


def _foldable(ops: Sequence[Operation]) -> dict[int, list[int | None]]:
    """For each call whose getfields follow at once: the variables of its fields 0, 1, … (None for one not taken)."""
    out: dict[int, list[int | None]] = {}
    shown: set[int] = set()  # on the line of the call that they are fields of
    for i, op in enumerate(ops, 1):
        if not isinstance(op, Call) or i in shown:
            continue
        fields: dict[int, int] = {}
        for j in range(i, len(ops)):
            following = ops[j]
            if not (
                isinstance(following, Call)
                and name_of(following.fn) == "getfield"
                and following.args[0] == Variable(i)
                and isinstance(following.args[1], int)
                and following.args[1] not in fields
            ):
                break
            fields[following.args[1]] = j + 1
        if fields:
            shown.update(fields.values())
            out[i] = [fields.get(k) for k in range(max(fields) + 1)]
    return out


def _within(op: Operation, style: Style) -> list[str]:
    """The lines below an operation that has a body, or whose function has one: of the rule of a loop."""
    if isinstance(op, Call):
        for fn in (op.fn, *op.args[:1]):
            if (within := getattr(type(fn), "__yota_within__", None)) is not None:
                return within(fn, style).splitlines()  # type: ignore[no-any-return]
    return []


def _left(i: int, fields: list[int | None] | None) -> str:
    if fields is None:
        return f"%{i}"
    return f"{', '.join('_' if k is None else f'%{k}' for k in fields)} = [%{i}]"


def text_of(op: Operation) -> str:
    """What stands behind an operation's variable."""
    if isinstance(op, Input):
        return f":: {op.type}"
    if isinstance(op, Constant):
        return f"= {_value(op.value)} :: {op.type}"
    if isinstance(op, Guard):
        return f"= {name_of(op.test)}({op.var}) must be {_value(op.expected)}"
    arguments = [_value(arg) for arg in op.args] + [f"{key}={_value(value)}" for key, value in op.kwargs.items()]
    name = str(op.fn) if isinstance(op.fn, Variable) else name_of(op.fn)
    return f"= {name}({', '.join(arguments)})"


def _value(value: Any) -> str:
    """An argument as printed: variables, small values in full, arrays by their type only."""
    if isinstance(value, Variable):
        return str(value)
    if isinstance(value, Text):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, slice):
        parts = ["" if part is None else _value(part) for part in (value.start, value.stop, value.step)]
        return ":".join(parts if value.step is not None else parts[:2])
    if isinstance(value, np.ndarray):
        return f"<{typeof(value)}>"
    if isinstance(value, np.generic):
        return str(value)
    if value is Ellipsis:
        return "..."
    if isinstance(value, type) or callable(value):
        return name_of(value)
    text = repr(value)
    return text if len(text) <= 40 else f"<{type(value).__name__}>"
