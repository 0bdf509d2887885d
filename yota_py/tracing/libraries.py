"""How other libraries' objects take traced operands: sparse matrices, tensors, methods that ask nobody."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.containers import mapped
from ..base.dispatch import decided, is_traced, original, shadow
from ..base.unwinding import state
from ..errors import MutationError, YotaError
from ..registry.contents import copy_of, parts_of
from ..registry.patches import patched
from ..registry.writes import sparse_matmul
from ..tape.operations import user_site
from ..tape.show import name_of
from . import tables
from .foreign import Foreign, innermost, kind_of, meet, refused
from .tracer import Tracer, tracers_in

_MATMUL, _MULTIPLY = np.matmul, np.multiply


def with_sparse(ufunc: Any, x: Any, y: Any) -> Any:
    """An operator with one of SciPy's sparse matrices or arrays: products with dense vectors and matrices."""
    sparse = x if kind_of(type(x)) == "sparse" else y
    as_matrices = any(base.__name__ == "spmatrix" for base in type(sparse).__mro__)
    dense = y if sparse is x else x
    if ufunc is _MATMUL or (ufunc is _MULTIPLY and as_matrices and np.ndim(dense)):
        return product(sparse, dense) if sparse is x else product_from_left(dense, sparse)
    raise refused(sparse, f"{name_of(ufunc)} of the two is not followed, products are: S @ x, x @ S")


def product(sparse: Any, dense: Any) -> Any:
    """``sparse @ dense``."""
    if kind_of(type(dense)) == "foreign":
        raise refused(dense, "its product with a sparse matrix is not followed")
    if np.ndim(dense) not in (1, 2) or len(sparse.shape) != 2:
        raise refused(sparse, f"a product of shapes {sparse.shape} and {np.shape(dense)} is not followed")
    if not any(sparse is known or _looks_into(sparse, known) for trace in state.traces for known in trace.matrices):
        innermost(dense).problems.append(f"{user_site()}: a sparse matrix comes from somewhere that cannot be followed")
    return sparse_matmul(copy_of(sparse.tocsr() if issubclass(type(sparse), dict) else sparse), dense)


def _looks_into(sparse: Any, known: Any) -> bool:
    """Whether a sparse matrix is another view of what stands in one that guards compare, such as its transpose."""
    mine, theirs = parts_of(sparse), parts_of(known)
    if not mine or len(mine) != len(theirs) or mine[0].shape != theirs[0].shape:
        return False
    return all(any(np.may_share_memory(a, b) for b in theirs) for a in mine)


def product_from_left(dense: Any, sparse: Any) -> Any:
    """``dense @ sparse``."""
    return np.transpose(product(sparse.transpose(), np.transpose(dense)))


# ------------------------------------------------- methods of other libraries that do not look who comes


def _defer(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Python asks the other operand next."""
    return NotImplemented


def _dot(self: Any, other: Any) -> Any:
    return meet(lambda x, y: x.dot(y), (self, other), None, ".dot")


def _in_place(self: Any, other: Any, *rest: Any) -> Any:
    raise written_by_library(self)


def written_by_library(x: Any) -> MutationError:
    """The error for an object of another library that traced values are written into."""
    return MutationError(_in_place_message(x))


def _in_place_message(x: Any) -> str:
    return (f"{user_site()}: this writes traced values into a {type(x).__name__} in place, which cannot be followed. "
            "Make a new one: y = y + b")


def _encoded(self: Any, o: Any, *rest: Any, **kwargs: Any) -> Any:
    """JSON's encoder goes by the types of objects: traced values without derivative are the plain ones to it."""
    return original(sys.modules["json"].JSONEncoder.iterencode)(self, _plain(o), *rest, **kwargs)


def _plain(value: Any) -> Any:
    if isinstance(value, Tracer):
        return value if value._carries() else decided(value)
    return mapped(_plain, value)


def _of_type(method: Callable[..., Any]) -> Callable[..., Any]:
    """What knows a number's type by its value."""
    return lambda self, number: method(self, shadow(number))


_METHODS: list[tuple[str, str, str, Callable[..., Any]]] = [
    ("pandas", "DataFrame", "dot", _dot), ("pandas", "Series", "dot", _dot),
    ("pandas", "Series", "_inplace_method", _in_place),
    *(("xarray", cls, "_binary_op", _defer) for cls in ("DataArray", "Variable", "Dataset")),
    *(("xarray", cls, "_inplace_binary_op", _in_place) for cls in ("DataArray", "Variable", "Dataset")),
    ("xarray", "DataArray", "__array_ufunc__", _defer),
    ("json", "JSONEncoder", "iterencode", _encoded),
    ("numpy", "finfo", "__new__", _of_type(np.finfo.__new__)),
    ("numpy", "iinfo", "__init__", _of_type(np.iinfo.__init__)),
    ("numpy.ma", "MaskedArray", "_delegate_binop", lambda self, other: True),
    *(("scipy.sparse", cls, "_matmul_dispatch", product) for cls in ("csr_array", "coo_array")),
    *(("scipy.sparse", cls, "_rmatmul_dispatch", lambda self, other: product_from_left(other, self))
      for cls in ("csr_array", "coo_array")),
]  # fmt: skip
_adopted: set[str] = set()


def adopt() -> None:
    """Let libraries that have been imported by now notice traced operands."""
    for library in ({entry[0] for entry in _METHODS} | _COPYING.keys()) - _adopted:
        if (module := sys.modules.get(library)) is None or not hasattr(module, "__path__"):
            continue
        if getattr(getattr(module, "__spec__", None), "_initializing", False):  # another thread is importing it
            continue
        for owner, name, stand_in in tables.stand_ins(library, sys.modules):
            patched[owner, name] = stand_in
        for _, cls, name, stand_in in (entry for entry in _METHODS if entry[0] == library):
            owner = next((base for base in getattr(module, cls).__mro__ if name in vars(base)), None)
            if owner is not None:
                patched[owner, name] = stand_in
        for name in _COPYING.get(library, ()):
            patched[module, name] = copying(original(getattr(module, name)))
        _adopted.add(library)  # when the rest is done


# ------------------------------------------------- functions that read the types of C, and copy what they are given

_COPYING = {"torch": ("tensor",), "numpy.random": ("default_rng",), "pandas": ("cut", "qcut", "factorize", "unique")}


def copying(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is given the plain values of traced ones, if all of these are without derivative."""
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        given = tracers_in((args, kwargs))
        if not given or any(tracer._carries() for tracer in given):
            return fn(*args, **kwargs)
        return fn(*_values(args), **_values(kwargs))

    return stand_in


def _values(given: Any) -> Any:
    if isinstance(given, Tracer):
        return given.__array__() if isinstance(given, np.ndarray) else decided(given)
    return mapped(_values, given)


# --------------------------------------------------------------------------------------------- PyTorch

_TORCH = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": operator.pow,
    "matmul": operator.matmul, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "__floordiv__": operator.floordiv, "remainder": operator.mod,
}  # fmt: skip


def torch_function(fn: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """PyTorch's protocol for its functions: operators of a tensor and a traced value."""
    name = getattr(fn, "__name__", "")
    python = _TORCH.get(name)
    if name.endswith("_") and not name.endswith("__"):
        raise YotaError(_in_place_message(args[0]))  # PyTorch takes a TypeError as "let the other operand try"
    if python is None or kwargs or len(args) != 2:
        tensor = next((x for x in args if type(x) is Foreign or not is_traced(x)), args[0])
        raise refused(tensor, f"torch's {name_of(fn)} cannot be followed")
    return meet(python, args)
