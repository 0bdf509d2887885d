"""``einsum`` in pairs: a matrix product where two operands share summed labels, else a product and a sum.

A label is a letter, or ``(".", k)`` for the k-th axis that an ellipsis stands for.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from yota_py.registry.composites import composite
from yota_py.registry.registry import case, nondiff
from yota_py.registry.tangents import as_array, astype, is_inexact

from .linalg import contraction
from .support import dtype_of, operand, shape_of

Labels = tuple[Any, ...]


def parse(subscripts: str, ndims: Sequence[int]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result.

    >>> parse("ij,jk", [2, 2])
    ([('i', 'j'), ('j', 'k')], ('i', 'k'))
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    wide = max(ndim - len(term.replace("...", "")) for term, ndim in zip(terms, ndims, strict=True))

    def labels_of(term: str, dots: int) -> Labels:
        before, ellipsis, after = term.partition("...")
        return (*before, *(((".", k) for k in range(wide - dots, wide)) if ellipsis else ()), *after)

    labels = [labels_of(term, ndim - len(term.replace("...", ""))) for term, ndim in zip(terms, ndims, strict=True)]
    if arrow:
        return labels, labels_of(output, wide)
    count = Counter(label for term in labels for label in term)
    dotted = tuple((".", k) for k in range(wide)) if "..." in inputs else ()
    return labels, (*dotted, *sorted(label for label, n in count.items() if n == 1 and isinstance(label, str)))


_LETTERS = string.ascii_uppercase + string.ascii_lowercase  # in the order of the numbers that stand for them


def labelled(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of ``einsum`` with labels as one text, where each operand is followed by a list of them."""
    if not args or isinstance(args[0], str):
        return args
    pairs = len(args) // 2
    if not all(isinstance(names, list | tuple) for names in args[1 : 2 * pairs : 2]):
        return args
    terms = ["".join("..." if name is Ellipsis else _LETTERS[name] for name in names) for names in args[1::2]]
    text = ",".join(terms[:pairs])
    if len(args) % 2:
        text += "->" + "".join("..." if name is Ellipsis else _LETTERS[name] for name in args[-1])
    return (text, *args[0 : 2 * pairs : 2])


def _with_text(*args: Any, **kwargs: Any) -> Any:
    """What ``einsum`` with lists of labels is recorded as."""
    known = labelled(args)
    return NotImplemented if known is args else np.einsum(*known, **kwargs)


# Each of the following gives a value and its labels.


def _prepared(x: Any, labels: Labels, sizes: dict[Any, int]) -> tuple[Any, Labels]:
    """Diagonals of repeated labels taken, axes that are broadcast dropped."""
    names = list(labels)
    for label in [label for label, n in Counter(labels).items() for _ in range(n - 1)]:
        i = names.index(label)
        k = names.index(label, i + 1)
        x = np.diagonal(x, 0, i, k)
        names = [name for at, name in enumerate(names) if at not in (i, k)] + [label]
    shape = shape_of(x)
    keep = [i for i, (n, name) in enumerate(zip(shape, names, strict=True)) if n == sizes[name]]
    if len(keep) == len(names):
        return x, tuple(names)
    return np.reshape(x, tuple(shape[i] for i in keep)), tuple(names[i] for i in keep)


def _summed(x: Any, labels: Labels, wanted: set[Any]) -> tuple[Any, Labels]:
    """Labels that nobody wants summed over."""
    axes = tuple(i for i, label in enumerate(labels) if label not in wanted)
    if not axes:
        return x, labels
    return np.sum(x, axis=axes), tuple(label for label in labels if label in wanted)


def _ordered(x: Any, labels: Labels, order: Labels) -> Any:
    """The axes in another order, with a 1 for each label that the array does not have."""
    present = [label for label in order if label in labels]
    axes = tuple(labels.index(label) for label in present)
    sizes = dict(zip(labels, shape_of(x), strict=True))
    if axes != tuple(range(len(axes))):
        x = np.transpose(x, axes)
    return x if len(present) == len(order) else np.reshape(x, tuple(sizes.get(label, 1) for label in order))


def _product(a: Any, la: Labels, b: Any, lb: Labels, wanted: set[Any]) -> tuple[Any, Labels]:
    """The product of two operands, summed over the labels that they share and nobody wants."""
    a, la = _summed(a, la, wanted | set(lb))
    b, lb = _summed(b, lb, wanted | set(la))
    shared = [label for label in la if label in lb]
    contracted = tuple(label for label in shared if label not in wanted)
    batch = tuple(label for label in shared if label in wanted)
    free_a = tuple(label for label in la if label not in lb)
    free_b = tuple(label for label in lb if label not in la)
    labels = (*batch, *free_a, *free_b)
    if contracted and not batch:
        over = [la.index(label) for label in contracted], [lb.index(label) for label in contracted]
        return contraction(a, b, over), labels
    if contracted and free_a and free_b:
        return _batched(a, la, b, lb, batch, free_a, free_b, contracted), labels
    wide = (*labels, *contracted)
    return _summed(np.multiply(_ordered(a, la, wide), _ordered(b, lb, wide)), wide, set(labels))[0], labels


def _batched(
    a: Any, la: Labels, b: Any, lb: Labels, batch: Labels, free_a: Labels, free_b: Labels, contracted: Labels
) -> Any:
    size = dict(zip((*la, *lb), (*shape_of(a), *shape_of(b)), strict=True))

    def extents(labels: Labels) -> tuple[int, ...]:
        return tuple(size[label] for label in labels)

    m, n, k = (math.prod(extents(labels)) for labels in (free_a, free_b, contracted))
    left = np.reshape(_ordered(a, la, (*batch, *free_a, *contracted)), (*extents(batch), m, k))
    right = np.reshape(_ordered(b, lb, (*batch, *contracted, *free_b)), (*extents(batch), k, n))
    return np.reshape(np.matmul(left, right), (*extents(batch), *extents(free_a), *extents(free_b)))


def _path(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Which operands to multiply next; the result goes to the end of the list."""
    if len(shapes) <= 2:
        return [tuple(range(len(shapes)))]
    return list(np.einsum_path(subscripts, *(np.broadcast_to(0.0, n) for n in shapes), optimize="greedy")[0][1:])


@composite(np.einsum, instead=_with_text, cases=lambda s: [
    case("ij,jk->ik", s(2, 3), s(3, 4)), case("ij,jk", s(2, 3), s(3, 4)), case("ij->ji", s(2, 3)), case("ii", s(3, 3)),
    case("ii->i", s(3, 3)), case("ij->", s(2, 3)), case("ij->j", s(2, 3)), case("i,i->", s(3), s(3)),
    case("i,i", s(3), s(3)), case("i,j->ij", s(3), s(2)), case("ij,ij->i", s(2, 3), s(2, 3)),
    case("bij,bjk->bik", s(2, 3, 4), s(2, 4, 2)), case("bij,bj->bi", s(2, 3, 4), s(2, 4)),
    case("bij,bj->ib", s(2, 3, 4), s(2, 4)), case("...ij,...jk->...ik", s(2, 3, 4), s(4, 2)),
    case("...i,...i->...", s(2, 3), s(3)), case("i...->...", s(2, 3)), case("ij,j,i->", s(2, 3), s(3), s(2)),
    case("ij,jk,kl->il", s(2, 3), s(3, 2), s(2, 4)), case("ij,kl->", s(2, 3), s(2, 2)),
    case("iij,jk->k", s(2, 2, 3), s(3, 2)), case("ij,ij->ij", s(2, 3), s(2, 3)), case("i,i->i", s(1), s(3)),
    case("ij,jk->ik", s(2, 1), s(3, 2)), case("abcd->dbca", s(2, 1, 3, 2)), case(" i j , j -> i ", s(2, 3), s(3)),
    case("ijk,jil->kl", s(2, 3, 2), s(3, 2, 2)), case("iii->i", s(2, 2, 2)),
    case("ij,jk->ik", s(2, 2, dtype=np.complex128), s(2, 2)),
    case("ij,j->i", s(2, 3, dtype=np.float32), s(3, dtype=np.float32)), case("ij,jk->ki", s(3, 2).T, s(6, 2)[::2]),
    case(",i->i", s(), s(3)), case("i->i", s(3)), case("ij,ij->", s(0, 2), s(0, 2)),
    case("ij,jk,kl->il", s(2, 3), s(3, 2), s(2, 4), optimize=True), case("i,i->", s(3), s(3), optimize=True),
    case("ij->", s(2, 3), optimize="greedy"), case("ij,j,i", s(2, 3), s(3), s(2), optimize="optimal"),
])  # fmt: skip
def _einsum(subscripts: Any, *operands: Any, out: None = None, optimize: Any = False) -> Any:
    """Subscripts are a string; complex operands are not conjugated in the product."""
    given = [operand(x) for x in operands]
    common = np.result_type(*(dtype_of(x) for x in given))  # integers and masks take part as what they promote to
    xs = [x if is_inexact(x) or common.kind not in "fc" else astype(x, common) for x in given]
    labels, output = parse(subscripts, [len(shape_of(x)) for x in xs])
    sizes: dict[Any, int] = {}
    for x, names in zip(xs, labels, strict=True):
        for n, name in zip(shape_of(x), names, strict=True):
            sizes[name] = n if sizes.get(name, 1) == 1 else sizes[name]
    waiting = [_prepared(x, names, sizes) for x, names in zip(xs, labels, strict=True)]
    for step in _path(subscripts, [shape_of(x) for x in xs]):
        chosen = [waiting[i] for i in step]
        waiting = [item for i, item in enumerate(waiting) if i not in step]
        value, names = chosen[0]
        for k, (b, lb) in enumerate(chosen[1:], 2):
            wanted = set(output).union(*(names for _, names in (*waiting, *chosen[k:])))
            value, names = _product(value, names, b, lb, wanted)
        waiting.append((value, names))
    (value, names), = waiting  # fmt: skip
    y = _ordered(*_summed(value, names, set(output)), output)
    if any(label not in names for label in output):  # broadcast by nobody: sizes of 1
        y = np.reshape(y, tuple(sizes[label] for label in output))
    if optimize is False or output:
        return y
    zeros = [np.broadcast_to(0.0, shape_of(x)) for x in xs]  # along some paths NumPy gives an array, and not a number
    return as_array(y) if isinstance(np.einsum(subscripts, *zeros, optimize=optimize), np.ndarray) else y


nondiff(np.einsum_path, immediate=True, cases=lambda s: [case("ij,jk->ik", s(2, 3), s(3, 2))])
