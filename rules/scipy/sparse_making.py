"""How sparse matrices of ``scipy.sparse`` are made of traced values, and of each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from scipy import sparse

from yota_py.base.dispatch import decided, find_traced
from yota_py.registry.constants import made_of_numbers
from yota_py.registry.patches import makes_constants, patch, show

from ..support import operand, shape_of, stop_gradient, unsupported
from .sparse import Sparse, assembled, is_ours, is_sparse, sparse_of


def _plain(x: Any) -> Any:
    """Indices and shapes, which may be constants of the tape."""
    return decided(stop_gradient(x)) if find_traced((x,)) is not None else x


class _Shown(type):
    """Makes a class look like ``python``, and its calls take traced values."""

    python: Any
    form: str

    def __call__(cls, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **options: Any) -> Any:
        if not is_ours(arg1):
            given = arg1, shape, dtype, *options.values()
            return made_of_numbers(cls.python(arg1, _plain(shape), dtype, copy, **options), given)
        made = _made(cls.python, cls.form, arg1, shape if shape is None else tuple(_plain(shape)), copy)
        return made if dtype is None else made.astype(dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.python)


def _made(cls: Any, form: str, arg1: Any, shape: Any, copy: bool = False) -> Sparse:
    if isinstance(arg1, Sparse):
        moved: Sparse = arg1._moved(lambda p: cls(p, copy=copy))
        return moved
    if not isinstance(arg1, tuple):
        dense = operand(arg1)
        if len(shape_of(dense)) == 1:
            if issubclass(cls, sparse.sparray):
                raise unsupported("a sparse array of one axis", "Give a matrix of one row: x[None]")
            dense = np.reshape(dense, (1, -1))
        rows, cols = np.nonzero(decided(np.not_equal(stop_gradient(dense), 0)))
        return assembled(cls, dense[rows, cols], rows, cols, shape_of(dense), form)
    values = operand(arg1[0])
    if copy or (len(arg1) == 2 and form not in ("coo", "dia")):  # they are sorted, and those in one place added
        values = np.copy(values)
    if len(arg1) == 2 and form != "dia":
        if len(arg1[1]) == 1:
            raise unsupported("a sparse array of one axis", "Give it rows and columns")
        rows, cols = (np.asarray(x) for x in _plain(arg1[1]))
        if shape is None:
            shape = int(rows.max()) + 1, int(cols.max()) + 1
        sparse.coo_array((np.zeros(len(rows)), (rows, cols)), shape=shape)  # raises what it raises
        return assembled(cls, values, rows.astype(np.int64), cols.astype(np.int64), shape, form)
    positions = np.arange(1, int(np.prod(shape_of(values))) + 1).reshape(shape_of(values))
    return Sparse(cls((positions, *map(_plain, arg1[1:])), shape=shape), np.ravel(values))


for _form in ("csr", "csc", "coo", "dia", "bsr"):
    for _kind in ("matrix", "array"):
        _cls = getattr(sparse, f"{_form}_{_kind}")
        show(_cls, _Shown(_cls.__name__, (), {"python": _cls, "form": _form}))


def _patched(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator for what is done in the place of a function of SciPy, if a matrix or value is traced."""

    def register(ours: Callable[..., Any]) -> Callable[..., Any]:
        fn = getattr(sparse, name)

        @wraps(fn)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            return ours(fn, *args, **kwargs) if is_ours(*args, *kwargs.values()) else fn(*args, **kwargs)

        patch(sparse, name, stand_in)
        return ours

    return register


def _hollow(x: Any) -> Any:
    """The same without its values."""
    if isinstance(x, list | tuple):
        return type(x)(map(_hollow, x))
    if isinstance(x, Sparse):
        return x._pattern
    return x if find_traced((x,)) is None else np.zeros(shape_of(x))[()]


def _joined(fn: Callable[..., Any], blocks: Any, *args: Any, **kwargs: Any) -> Any:
    """SciPy puts the positions together; values come after each other."""
    fn(_hollow(blocks), *args, **kwargs)  # raises what it raises
    nested = fn in (sparse.bmat, sparse.block_array)
    values: list[Any] = []
    count = 0

    def numbered(block: Any) -> Any:
        nonlocal count
        if isinstance(block, list | tuple) and nested:
            return [numbered(x) for x in block]
        if block is None:
            return None
        block = _made_of(block if is_sparse(block) else np.atleast_2d(operand(block)))
        values.append(block._values)
        pattern = block._pattern.copy()
        pattern.data = pattern.data + count
        count += pattern.data.size
        return pattern

    dtype = kwargs.pop("dtype", None)
    blocks = numbered(blocks) if nested else [numbered(block) for block in blocks]
    out = Sparse(fn(blocks, *args, **kwargs), np.concatenate(values))
    return out if dtype is None else out.astype(dtype)


for _name in ("hstack", "vstack", "bmat", "block_array", "block_diag"):
    _patched(_name)(_joined)
for _name in ("tril", "triu"):
    _patched(_name)(lambda fn, A, *args, **kwargs: _made_of(A)._moved(lambda p: fn(p.copy(), *args, **kwargs)))
for _name in ("swapaxes", "permute_dims"):  # which take no dense arrays
    _patched(_name)(lambda fn, A, *args, **kwargs: sparse_of(A)._moved(
        lambda p: fn(p.copy(), *args, **kwargs)) if is_sparse(A) else fn(A, *args, **kwargs))


def _made_of(A: Any) -> Sparse:
    """As SciPy's functions read it: a dense one as a matrix."""
    return sparse_of(A) if is_sparse(A) else _made(sparse.coo_matrix, "coo", np.atleast_2d(operand(A)), None)


@_patched("kron")
def _kron(fn: Any, A: Any, B: Any, format: Any = None) -> Any:
    """Every value of A times every one of B."""
    cls = sparse.coo_matrix if _is_matrix(A, B) else sparse.coo_array
    kind = fn(cls((1, 1)), cls((1, 1)), format or "coo")
    a, b = _made_of(A), _made_of(B)
    rows = np.add.outer(a._rows.astype(np.int64) * b.shape[0], b._rows).ravel()
    cols = np.add.outer(a._cols.astype(np.int64) * b.shape[1], b._cols).ravel()
    values = np.ravel(np.multiply(a._held[:, None], b._held[None, :]))
    return assembled(type(kind), values, rows, cols, (a.shape[0] * b.shape[0], a.shape[1] * b.shape[1]), kind.format)


def _is_matrix(*given: Any) -> bool:
    patterns = [x._pattern if isinstance(x, Sparse) else x for x in given]
    return not any(isinstance(x, sparse.sparray) for x in patterns)


def _of_diagonals(fn: Any, diagonals: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
    """SciPy puts the positions on the diagonals."""
    if isinstance(diagonals, list | tuple) and any(len(shape_of(operand(d))) for d in diagonals):
        parts = [np.ravel(operand(d)) for d in diagonals]
        sizes = [shape_of(part)[0] for part in parts]
        ends = np.cumsum(sizes)
        places: Any = [np.arange(end - n + 1, end + 1) for n, end in zip(sizes, ends, strict=True)]
        values = np.concatenate(parts)
    else:
        given = operand(diagonals)
        values = np.ravel(given) if fn is sparse.spdiags else np.copy(np.ravel(given))
        places = np.arange(1, int(np.prod(shape_of(given))) + 1).reshape(shape_of(given))
        if len(shape_of(given)) == 1 and args and len(np.atleast_1d(_plain(args[0]))) > 1:
            places = list(places)
    kwargs = {key: _plain(x) for key, x in kwargs.items()} | ({} if fn.__name__ == "spdiags" else {"dtype": int})
    out = Sparse(fn(places, *map(_plain, args), **kwargs), values)
    return out if dtype is None else out.astype(dtype)


for _name in ("diags", "diags_array", "spdiags"):
    _patched(_name)(_of_diagonals)


@_patched("issparse")
def _issparse(fn: Any, x: Any) -> bool:
    return isinstance(x, Sparse) or bool(fn(x))


@_patched("isspmatrix")
def _isspmatrix(fn: Any, x: Any) -> bool:
    return isinstance(x, Sparse) and isinstance(x._pattern, sparse.spmatrix)


makes_constants(sparse, "eye", "eye_array", "identity", "spdiags")
