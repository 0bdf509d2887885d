"""How a program hands out its results: one expression, compiled once, puts numbers and arrays into their containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..types import ArrayType, Type
from .layout import Place

# Of the frame's numbers, the output arrays and the frame's head: the results in their containers.
Collect = Callable[[Sequence[float], Sequence[np.ndarray], np.ndarray], Any]


class _Leaf:
    """The expression of one result."""

    def __init__(self, text: str) -> None:
        self.text = text


def collector(results: Sequence[tuple[Any, ...]], spec: optree.PyTreeSpec) -> tuple[Collect, slice]:
    """The function that collects the results, and the words of the frame that hold its float64 numbers."""
    words = [r[1].offset // 8 for r in results if r[0] == "number" and r[2].dtype.name == "float64"]
    numbers = slice(words[0], words[-1] + 1) if words else slice(0, 0)
    names: dict[str, Any] = {
        "float64": np.float64,
        "array": np.asarray,
        "read": read_number,
        "unflatten": optree.tree_unflatten,
        "copy": np.array,
    }
    leaves = []
    for i, (kind, *rest) in enumerate(results):
        if kind == "output":
            text = f"o[{rest[0]}]"
        elif kind == "number":
            text = _number(rest[0], rest[1], numbers.start, f"t{i}", names)
        else:
            text, names[f"c{i}"] = _constant(f"c{i}", *rest)
        leaves.append(_Leaf(text))
    display = _text(optree.tree_unflatten(spec, leaves))
    if display is None:  # containers of the user's own
        names["spec"] = spec
        display = f"unflatten(spec, ({''.join(leaf.text + ', ' for leaf in leaves)}))"
    return eval(f"lambda n, o, head: {display}", names), numbers


def _constant(name: str, value: Any, t: Type) -> tuple[str, Any]:
    """A result that is the same at every call; arrays are copied."""
    if not isinstance(t, ArrayType) or value is None:
        return name, value
    if t.kind == "array":
        return f"copy({name})", np.asarray(value, t.dtype)
    return name, t.dtype.type(value) if t.kind == "scalar" else np.asarray(value).item()


def _number(place: Place, t: ArrayType, first: int, name: str, names: dict[str, Any]) -> str:
    word = place.offset // 8
    if t.dtype.name != "float64":
        names[name] = t
        return f"read(head, {word}, {name})"
    text = f"n[{word - first}]"
    return text if t.kind == "python" else f"{'float64' if t.kind == 'scalar' else 'array'}({text})"


def read_number(head: np.ndarray, word: int, t: ArrayType) -> Any:
    """A number of any dtype from the head of a frame."""
    words = -(-t.dtype.itemsize // 8)
    value = head[word : word + words].view(np.uint8)[: t.dtype.itemsize].copy().view(t.dtype).reshape(())
    return value if t.kind == "array" else value[()] if t.kind == "scalar" else value.item()


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
