"""How a program hands out its results: numbers and arrays in their containers, made by the driver after a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from ...base.dispatch import original
from ...base.types import ArrayType, Type
from .objects import CALL, FRAME, LIST, NUMBER, OBJECT, OUTPUT, SCALAR, TUPLE

# A number of any dtype: of a frame's address, the word and the type.
Read = Callable[[int, int, ArrayType], Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Instructions and arguments for the driver, the function they may call, and the objects they refer to."""

    words: list[int]
    build: Callable[..., Any] | None
    kept: list[Any]


class _Leaf:
    """One result: the instruction for what the driver makes of it, and an expression of that; ``None`` for itself."""

    def __init__(self, instruction: int, argument: int, text: str | None = None) -> None:
        self.words, self.text = [instruction, argument], text


def make_recipe(results: Sequence[tuple[Any, ...]], spec: optree.PyTreeSpec, read: Read) -> Recipe:
    """The instructions for these results in containers of this structure."""
    names: dict[str, Any] = {"array": original(np.asarray), "copy": original(np.array), "read": read}
    names["unflatten"] = optree.tree_unflatten
    leaves, kept = [], []
    for i, (kind, *rest) in enumerate(results):
        if kind == "output":
            leaf = _Leaf(OUTPUT, rest[0])
        elif kind == "number":
            leaf = _number(rest[0].offset // 8, rest[1], i, names)
        else:
            value, copied = _constant(*rest)
            kept.append(value)
            leaf = _Leaf(OBJECT, id(value), f"copy(a{i})" if copied else None)
        leaves.append(leaf)
    tree = optree.tree_unflatten(spec, leaves)
    if all(leaf.text is None for leaf in leaves) and (words := _instructions(tree)) is not None:
        return Recipe(words, None, kept)
    for i, leaf in enumerate(leaves):
        leaf.text = leaf.text or f"a{i}"
    display = _text(tree)
    if display is None:  # containers of the user's own
        names["spec"] = spec
        display = f"unflatten(spec, ({''.join(f'{leaf.text}, ' for leaf in leaves)}))"
    build = eval(f"lambda {', '.join(f'a{i}' for i in range(len(leaves)))}: {display}", names)
    return Recipe([*(w for leaf in leaves for w in leaf.words), CALL, len(leaves)], build, kept)


def _constant(value: Any, t: Type) -> tuple[Any, bool]:
    """A result that is the same at every call, and whether it is handed out as a copy."""
    if not isinstance(t, ArrayType) or value is None:
        return value, False
    if t.kind == "array":
        return np.asarray(value, t.dtype), True
    return t.dtype.type(value) if t.kind == "scalar" else np.asarray(value).item(), False


def _number(word: int, t: ArrayType, i: int, names: dict[str, Any]) -> _Leaf:
    if t.dtype.name == "float64":
        return _Leaf(SCALAR if t.kind == "scalar" else NUMBER, word, f"array(a{i})" if t.kind == "array" else None)
    names[f"t{i}"] = t
    return _Leaf(FRAME, 0, f"read(a{i}, {word}, t{i})")


def _instructions(tree: Any) -> list[int] | None:
    """Instructions for tuples and lists; ``None`` if there is any other container."""
    if isinstance(tree, _Leaf):
        return tree.words
    if type(tree) not in (tuple, list):
        return None
    items = [_instructions(item) for item in tree]
    inside = [w for item in items if item is not None for w in item]
    return None if None in items else [*inside, TUPLE if type(tree) is tuple else LIST, len(items)]


def _text(tree: Any) -> str | None:
    """A display of tuples, lists and dicts; ``None`` if there is any other container."""
    if isinstance(tree, _Leaf):
        return tree.text
    if type(tree) in (tuple, list):
        items = [_text(item) for item in tree]
        inside = "".join(f"{item}, " for item in items)
        return None if None in items else f"({inside})" if type(tree) is tuple else f"[{inside}]"
    if type(tree) is dict and all(type(key) in (str, int) for key in tree):
        items = [_text(item) for item in tree.values()]
        pairs = ", ".join(f"{key!r}: {item}" for key, item in zip(tree, items, strict=True))
        return None if None in items else "{" + pairs + "}"
    return None
