"""Derivatives of functions with many results: Jacobians, Hessians, and their products with vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Literal

import numpy as np

from ..api import gradient
from ..base.signatures import wraps
from ..base.tracebacks import fold, folded
from ..base.types import ArrayType, is_inexact, typeof
from ..base.unwinding import state
from ..cache.compilable import Compilable
from ..cache.functions import cache_for
from ..cache.modes import Gradient, Request
from ..cache.pulling import pulled
from ..cache.whole import Whole
from ..errors import NotDifferentiableError, SeedError
from ..registry.constants import as_constants
from ..reverse.differentiable import counted, needed_for, out_of_range, positions
from ..reverse.results import settle
from ..tape.operations import user_site
from ..tape.show import name_of
from ..tape.trees import flatten, unflatten
from .forward import forwards, inner_product, tangent_leaves
from .rows import LEAST, Compressed, column_of, compressed, pulled_by, pushed_by, restricted, row_of, stacked, units

SMALL = 10_000_000  # elements of a matrix that has no pattern


@folded
def jacobian(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, sparsity: Literal["auto"] | None = None
) -> Compilable:
    """A function ``(*args, **kwargs) ->`` the derivatives of all that ``f`` returns in the positional arguments
    ``argnums``.

    For an array of shape ``s`` in what ``f`` returns, and one of shape ``t`` in the argument, it is an array of shape
    ``s + t``, with the dtype of the argument; a number counts as shape ``()``. The result has the structure of what
    ``f`` returns and, at each of its leaves, that of the argument; a sequence of ``argnums`` gives a tuple there.
    Integers, texts and the like have ``None``. It is computed row by row, by seeds for the results, or column by
    column, by tangents of the arguments, whichever are fewer; all of them in one batch. Where the tape says that most
    of a matrix is zero, rows that share no column are computed together. It is compiled when that pays;
    ``jacobian(f).compile(*args)`` compiles at once.

    With ``sparsity="auto"`` the Jacobian of one array in another one is a SciPy sparse matrix, by rows, of shape
    ``(size of the result, size of the argument)``, with all elements that may differ from zero, even if they are zero
    here. Time and memory are those of the groups of rows, or columns, that share nothing.

    Raises ``ValueError`` for positions that are no integers; the function raises ``TypeError`` if it is called with
    fewer arguments, ``NotDifferentiableError`` for complex arguments or results, ``ValueError`` with ``sparsity`` where
    there are several arrays, or nothing can be computed together, and what ``pullback`` raises.

    >>> import numpy as np
    >>> jacobian(lambda x: np.array([x[0] * x[1], x[0] + 1.0, x[1] ** 2]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [1., 0.],
           [0., 6.]])
    """
    _check_callable(f, "jacobian")
    _check_sparsity(sparsity)
    wanted = positions(argnums)

    @wraps(f)
    def of_results(*args: Any, **kwargs: Any) -> Any:
        return _jacobian(f, f, wanted, args, kwargs, sparse=sparsity is not None)

    return _compilable(jacobian, f, argnums, of_results, sparsity)


@folded
def hessian(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, sparsity: Literal["auto"] | None = None
) -> Compilable:
    """A function ``(*args, **kwargs) ->`` the second derivatives of ``f``, which returns a real scalar, in the
    positional arguments ``argnums``.

    For arrays of shapes ``s`` and ``t`` in the argument, there is an array of shape ``s + t``: the result has the
    structure of the argument and, at each of its leaves, that structure again; a sequence of ``argnums`` gives a tuple
    of tuples. It is the Jacobian of the gradient, compiled as ``jacobian`` is, and a sparse matrix where that is one.
    Raises what ``jacobian`` raises, and ``NonScalarOutputError`` where ``f`` returns no real scalar.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    """
    _check_callable(f, "hessian")
    _check_sparsity(sparsity)
    wanted = positions(argnums)
    slopes = gradient(f, wanted)

    @wraps(f)
    def of_slopes(*args: Any, **kwargs: Any) -> Any:
        return _jacobian(f, slopes, wanted, args, kwargs, sparse=sparsity is not None)

    return _compilable(hessian, f, argnums, of_slopes, sparsity)


@folded
def hvp(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Compilable:
    """A function ``(*args, v, **kwargs) ->`` the Hessian of ``f`` times ``v``, without the Hessian.

    ``f`` returns a real scalar. ``v`` comes last; it has the structure and shapes of the argument ``argnums``, or is a
    tuple of such for a sequence of them (``None`` stands for zeros, of an argument or of a leaf); so has the result,
    with the dtypes of the argument. It costs a few gradients (B. Pearlmutter, 1994, "Fast exact multiplication by the
    Hessian"), and is compiled when that pays. Raises what ``gradient`` raises, and ``SeedError`` for a vector of
    another structure or shape.

    >>> import numpy as np
    >>> hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    array([  6., 120.])
    """
    _check_callable(f, "hvp")
    wanted = positions(argnums)

    @wraps(f)
    def product(*args: Any, **kwargs: Any) -> Any:
        *xs, v = args or (None,)
        if len(xs) < needed_for(wanted):
            names = "the arguments of the function, and then the vector"
            raise TypeError(f"{user_site()}: hvp of {name_of(f)} wants {names}; got {len(args)} by position")
        at, who = counted(wanted, len(xs)), f"the vector for hvp of {name_of(f)}"
        if isinstance(at, int):
            leaves = tangent_leaves(v, xs[at], who)
        elif not isinstance(v, tuple | list) or len(v) != len(at or ()):
            raise SeedError(f"{user_site()}: {who} is a tuple of {len(at or ())}, one for each of argnums={argnums!r}")
        else:
            leaves = [leaf for i, part in zip(at or (), v, strict=True) for leaf in tangent_leaves(part, xs[i], who)]

        @wraps(f)
        def along(*xs: Any, **named: Any) -> Any:
            return inner_product(flatten(gradient(f, wanted)(*xs, **named))[0], leaves)

        return Gradient(wanted).interpret(Request(along, tuple(xs), kwargs))[1]

    return _compilable(hvp, f, argnums, product)


def _check_callable(f: Any, who: str) -> None:
    if not callable(f):
        raise TypeError(f"{user_site()}: {who} wants a function; got {type(f).__name__}")


def _check_sparsity(sparsity: Any) -> None:
    if sparsity not in (None, "auto"):
        raise ValueError(f'{user_site()}: sparsity is "auto" or None; got {sparsity!r}')


def _compilable(
    transform: Any, f: Callable[..., Any], argnums: Any, run: Callable[..., Any], sparsity: Any = None
) -> Compilable:
    """What a transform makes of a function: ``run``, through the cache."""
    sparse = "" if sparsity is None else f", sparsity={sparsity!r}"
    cache = cache_for(f, Whole(f"{transform.__name__}(argnums={argnums!r}{sparse})"))

    @wraps(f)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        try:
            found = run(*args, **kwargs) if state.traces else cache(run, args, kwargs, None)
            return found if sparsity is None else import_module("scipy.sparse").csr_matrix(found[:3], found[3])
        except BaseException as error:
            fold(error)
            raise

    of: Any = transform if sparsity is None else partial(transform, sparsity=sparsity)
    return Compilable(transformed, cache, of, (f, argnums), lambda args, kwargs: (run, args, kwargs))


def _jacobian(
    of: Callable[..., Any], f: Callable[..., Any], argnums: int | tuple[int, ...], args: tuple[Any, ...],
    kwargs: dict[str, Any], *, sparse: bool = False,
) -> Any:  # fmt: skip
    """The Jacobian of ``f`` at these arguments, for who has asked for something of a function."""
    if len(args) < needed_for(argnums):
        raise out_of_range(of, argnums, len(args))
    at = counted(argnums, len(args))
    places = (at,) if isinstance(at, int) else at or ()
    given = tuple(args[i] for i in places)
    inputs, in_spec = flatten(given)
    _require_real(inputs, f"{name_of(of)} is given")
    others = _copied((tuple(None if i in places else x for i, x in enumerate(args)), kwargs))
    y, back = pulled(restricted(f, places, others), given, {})
    out, out_spec = flatten(y)
    _require_real(out, f"{name_of(of)} returns")
    known = compressed(f, places, given, others, y, back) if _may_be_sparse(inputs, out, sparse=sparse) else None
    if sparse and (known is not None or not _is_small(of, inputs, out)):
        return _by_rows(known)
    rows, columns = (sum(np.size(x) for x in leaves if is_inexact(x)) for leaves in (out, inputs))
    found: list[Any] = [None if not is_inexact(z) else [None] * len(inputs) for z in out]
    if known is not None:
        found[0][0] = known.filled()
    elif rows <= columns or not columns:
        for i, z in enumerate(out):
            if found[i] is not None:
                pulling = partial(pulled_by, back, out, out_spec, i)
                found[i] = stacked(pulling, units(z), row_of(f, places, i), given, others)
    else:
        push = forwards(y, back)
        for j, x in enumerate(inputs):
            if is_inexact(x):
                along = partial(pushed_by, push, len(inputs), j)
                stacks = stacked(along, units(x), column_of(f, places, j), given, others)
                for part, dy in zip(found, stacks, strict=True):
                    if part is not None:
                        part[j] = np.moveaxis(dy, 0, -1) if np.shape(x) else dy

    def tree(part: list[Any], z: Any) -> Any:
        placed = [None if d is None else _placed(d, z, x) for d, x in zip(part, inputs, strict=True)]
        return unflatten(in_spec, placed)[0] if isinstance(at, int) else unflatten(in_spec, placed)

    if sparse:
        return _by_rows(Compressed.of_all(found[0][0], np.size(out[0]), np.size(inputs[0])))
    return unflatten(out_spec, [part and tree(part, z) for part, z in zip(found, out, strict=True)])


def _may_be_sparse(inputs: Sequence[Any], out: Sequence[Any], *, sparse: bool) -> bool:
    """Whether a Jacobian is one matrix, and large enough that it pays to look for zeros."""
    if not all(len(leaves) == 1 and is_inexact(leaves[0]) and np.shape(leaves[0]) for leaves in (inputs, out)):
        return False
    return sparse or min(np.size(inputs[0]), np.size(out[0])) >= LEAST


def _is_small(of: Callable[..., Any], inputs: Sequence[Any], out: Sequence[Any]) -> bool:
    """Whether a Jacobian may be computed without knowing its zeros; raises ``ValueError`` if it cannot be sparse."""
    if not all(len(leaves) == 1 and np.shape(leaves[0]) for leaves in (inputs, out)):
        raise ValueError(f"{user_site()}: sparsity is for the derivatives of one array in another one; {name_of(of)} "
                         f"is given {_kinds(inputs)} and returns {_kinds(out)}: stack them, or leave sparsity out")
    if np.size(inputs[0]) * np.size(out[0]) > SMALL:
        raise ValueError(f"{user_site()}: the Jacobian of {name_of(of)} is not sparse, as far as its operations tell: "
                         "so many elements of the result depend on the same ones of the argument that no rows or "
                         "columns can be computed together")
    return True


def _kinds(leaves: Sequence[Any]) -> str:
    return ", ".join(str(typeof(x)) for x in leaves) or "nothing"


def _by_rows(known: Compressed | None) -> tuple[Any, ...]:
    """A sparse matrix: its elements, their columns, where rows begin, and its shape."""
    assert known is not None
    return known.data, as_constants(known.columns), as_constants(known.starts), known.shape


def _require_real(leaves: Sequence[Any], who: str) -> None:
    if any(np.iscomplexobj(x) for x in leaves if is_inexact(x)):
        raise NotDifferentiableError(
            f"{user_site()}: {who} complex numbers, whose Jacobian is no matrix of numbers: take real and imaginary "
            "parts as two arguments and two results"
        )


def _copied(tree: Any) -> Any:
    """The same, for a function that may write into it, as the tracers of what is differentiated in are."""
    leaves, spec = flatten(tree)
    return unflatten(spec, [np.copy(x, order="K") if isinstance(x, np.ndarray) else x for x in leaves])


def _placed(d: Any, y: Any, x: Any) -> Any:
    """The derivatives of a leaf in another one: an array, or a number as that of the argument is."""
    shape, t = (*np.shape(y), *np.shape(x)), typeof(x)
    assert isinstance(t, ArrayType)
    return settle(np.reshape(np.atleast_1d(d), shape), ArrayType(t.dtype, shape, "array" if shape else t.kind))
