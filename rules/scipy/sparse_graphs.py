"""Functions of ``scipy.sparse.csgraph``: the Laplacian of a graph with traced weights; the others find paths and trees,
which is done in C."""

from __future__ import annotations

from functools import wraps
from typing import Any

import numpy as np
from scipy.sparse import csgraph

from yota_py.base.dispatch import is_traced
from yota_py.registry.patches import patch
from yota_py.registry.tangents import astype, conj

from ..support import dtype_of, operand, shape_of, unsupported
from .sparse import Sparse, assembled, is_ours, is_sparse, shape_of_any, sparse_of
from .sparse_places import gathered


def _degrees(w: Any, normed: bool) -> tuple[Any, Any]:
    """What SciPy gives beside the Laplacian, and what is on its diagonal."""
    if not normed:
        return w, w
    alone = np.equal(w, 0)
    return np.where(alone, 1, np.sqrt(np.where(alone, 1, w))), np.where(alone, 0.0, 1.0)


def _of_sparse(m: Sparse, normed: bool, axis: int, symmetrized: bool, like: Any) -> tuple[Any, Any]:
    m = m + m.transpose().conj() if symmetrized else m
    n, between = m.shape[0], np.flatnonzero(m._rows != m._cols)
    values, rows, cols = m._held[between], m._rows[between], m._cols[between]
    w, diagonal = _degrees(gathered(values, rows if axis else cols, n), normed)
    if normed:
        values = values / w[rows] / w[cols]
    at = np.arange(n)
    values, rows, cols = (np.concatenate(pair) for pair in ((-values, diagonal), (rows, at), (cols, at)))
    return assembled(type(like), values, rows, cols, m.shape, like.format), w


def _of_dense(m: Any, normed: bool, axis: int, symmetrized: bool) -> tuple[Any, Any]:
    m = m + np.transpose(conj(m)) if symmetrized else m
    m = np.where(np.eye(shape_of(m)[0], dtype=bool), 0, m)
    w, diagonal = _degrees(np.sum(m, axis), normed)
    return np.diag(diagonal) - (m / w / w[:, None] if normed else m), w


def _laplacian(
    fn: Any, graph: Any, normed: bool = False, return_diag: bool = False, use_out_degree: bool = False, *,
    copy: bool = True, form: str = "array", dtype: Any = None, symmetrized: bool = False,
) -> Any:  # fmt: skip
    if form != "array" or not copy:
        raise unsupported("scipy.sparse.csgraph.laplacian with form or copy", "Leave them out")
    graph = sparse_of(graph) if is_sparse(graph) else operand(graph)
    like = fn(graph._pattern * 1.0 if is_sparse(graph) else np.ones(shape_of_any(graph)))  # raises what it raises
    given = graph.dtype if is_sparse(graph) else dtype_of(graph)
    dtype = np.dtype(float if dtype is None and normed and given.kind in "iu" else dtype or given)
    options = normed, int(use_out_degree), symmetrized
    lap, w = _of_sparse(graph, *options, like) if is_sparse(graph) else _of_dense(graph, *options)
    lap = lap.astype(dtype) if isinstance(lap, Sparse) else astype(lap, dtype)
    return (lap, astype(w, dtype)) if return_diag else lap


def _refused(fn: Any, *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(x, Sparse) or (is_traced(x) and x._carries()) for x in (*args, *kwargs.values())):
        way = "Give it stop_gradient(x) of the values, and add up the weights that it finds"
        raise unsupported(f"scipy.sparse.csgraph.{fn.__name__} of a graph with traced weights", way)
    return fn(*args, **kwargs)


def _patched(name: str) -> None:
    fn, ours = getattr(csgraph, name), _laplacian if name == "laplacian" else _refused

    @wraps(fn)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return ours(fn, *args, **kwargs) if is_ours(*args, *kwargs.values()) else fn(*args, **kwargs)

    patch(csgraph, name, stand_in)


for _name in csgraph.__all__:
    if not isinstance(getattr(csgraph, _name), type):
        _patched(_name)
