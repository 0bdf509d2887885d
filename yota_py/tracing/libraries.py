"""How other libraries' objects take traced operands: tensors, tables, methods that ask nobody.

A column of traced values would be one of objects to pandas, which leaves it out of means and does not round it. Values
without derivative are taken as plain ones, by a decision; those with a derivative are refused, but where they are
looked up.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, KeysView, ValuesView
from functools import partial
from typing import Any

import numpy as np

from ..base.containers import items_of, mapped
from ..base.dispatch import decided, find_traced, is_traced, original, shadow
from ..errors import MutationError, YotaError
from ..registry.patches import finders, patched
from ..tape.operations import user_site
from ..tape.show import name_of
from . import hints
from .foreign import Foreign, meet, refused
from .tracer import Tracer, lost, tracers_in

_WAY_OUT = f"compute with arrays of NumPy (np.array([...]), x.to_numpy()); {hints.PLAIN}"
_VIEWS = (KeysView, ValuesView)  # lists to pandas, as iterators are to its constructors
_IMMUTABLE = 1 << 8  # the flag of classes whose attributes cannot be set: ``object``, and some of C


# ------------------------------------------------- methods of other libraries that do not look who comes


def _defer(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Python asks the other operand next."""
    return NotImplemented


def _dot(self: Any, other: Any) -> Any:
    return meet(lambda x, y: x.dot(y), (self, other), None, ".dot")


def _in_place(self: Any, other: Any, *rest: Any) -> Any:
    raise written_by_library(self)


def written_by_library(x: Any, error: type[YotaError] = MutationError) -> YotaError:
    """The error for an object of another library that traced values are written into."""
    return error(f"{user_site()}: this writes traced values into a {type(x).__name__} in place, which cannot be "
                 "followed. Make a new one: y = y + b")


def _encoded(method: Callable[..., Any], self: Any, o: Any, *rest: Any, **kwargs: Any) -> Any:
    """JSON's encoder goes by the types of objects: traced values without derivative are the plain ones to it."""

    def plain(value: Any) -> Any:
        if isinstance(value, Tracer):
            return value if value._carries() else decided(value)
        return mapped(plain, value)

    return method(self, plain(o), *rest, **kwargs)


def _of_type(method: Callable[..., Any], self: Any, number: Any) -> Any:
    """What knows a number's type by its value."""
    return method(self, shadow(number))


def _copying(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function that reads the types of C and copies: it is given plain values, if none of them has a derivative."""
    given = tracers_in((args, kwargs))
    if not given or any(tracer._carries() for tracer in given):
        return fn(*args, **kwargs)
    return fn(*_values(args), **_values(kwargs))


def _values(given: Any) -> Any:
    if isinstance(given, Tracer):
        return given.__array__() if isinstance(given, np.ndarray) else decided(given)
    return mapped(_values, given)


# ------------------------------------------------- tables of pandas and xarray: their columns are of plain numbers


def _kept(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    fn = partial(_plain, _name(method, *args[:1]))
    if method.__name__ in ("__init__", "__new__"):
        args = tuple(list(x) if isinstance(x, Iterator) else x for x in args)
        kwargs = {key: list(x) if isinstance(x, Iterator) else x for key, x in kwargs.items()}
    return method(*map(fn, args), **{key: fn(value) for key, value in kwargs.items()})


def _looked_up(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What comes after the labels may be a result: ``series.get(label, default)``."""
    fn = partial(_plain, "")
    return method(*map(fn, args[:2]), *args[2:], **{k: v if k == "default" else fn(v) for k, v in kwargs.items()})


def _of_columns(method: Callable[..., Any], self: Any, data: Any) -> None:
    """A new table or column of what pandas has called the user's functions for, or taken out of an iterator."""
    method(self, data.apply(partial(_plain, _name(method, self))))
    method(self, self.infer_objects()._mgr)


def _holds(values: Any) -> bool:
    """Whether there is a traced value among arguments, also in arrays of objects; of iterators it is not known."""
    if find_traced(values) is not None:
        return True
    near = [*values, *(item for value in values for item in items_of(value) or ())]
    return any(isinstance(value, (Iterator, *_VIEWS)) or _is_traced_inside(value) for value in near)


def _is_traced_inside(value: Any) -> bool:
    return type(value) is np.ndarray and value.dtype == object and find_traced(value.flat) is not None


def _has_columns(values: Any) -> bool:
    return any(_is_traced_inside(block.values) for block in getattr(values[0], "blocks", ()))


def _plain(keeper: str, value: Any) -> Any:
    """A structure with plain values for the traced ones. A function of this name keeps them, unless it is empty."""
    if is_traced(value):
        return _number(keeper, value)
    if type(value) is slice:
        return slice(*(_plain(keeper, item) for item in (value.start, value.stop, value.step)))
    if type(value) is np.ndarray:
        return _array(keeper, value) if _is_traced_inside(value) else value
    return mapped(partial(_plain, keeper), list(value) if isinstance(value, _VIEWS) else value)


def _array(keeper: str, objects: np.ndarray) -> Any:
    """An array of objects that functions of the user's have returned to pandas, which finds the type for them."""
    items = np.empty(objects.size, object)
    items[:] = [_plain(keeper, item) for item in objects.flat]
    if objects.ndim != 1:
        return items.reshape(objects.shape)
    return sys.modules["pandas"].Series(items).infer_objects().to_numpy()


def _number(keeper: str, value: Any) -> Any:
    tracer = value if isinstance(value, Tracer) else value._array
    if keeper and tracer._carries():
        raise lost("a conversion to plain numbers" if hints.without_rule() else keeper, tracer, _WAY_OUT)
    if tracer is not value:  # a ``Foreign``
        decided(value)
        return value._plain.copy()
    return np.asarray(value) if keeper and isinstance(value, np.ndarray) else decided(value)


def _name(method: Callable[..., Any], *of: Any) -> str:
    """What the user calls, where no call of a function can be seen."""
    name, cls = method.__name__, next((x if isinstance(x, type) else type(x) for x in of), object)
    library = str(getattr(method, "__module__", cls.__module__)).partition(".")[0]
    if name == "__setitem__":
        table = getattr(of[0], "obj", of[0])  # what an indexer is of
        return f"an assignment to items of a {library} {type(table).__name__}"
    return f"{library}.{cls.__name__}.{name}" if "." in method.__qualname__ else f"{library}.{name}"


# ------------------------------------------------------------------------------- what is exchanged, and for what

Make = Callable[[Callable[..., Any]], Callable[..., Any]]


def _always(stand_in: Callable[..., Any]) -> Make:
    return lambda method: stand_in


def _around(stand_in: Callable[..., Any], finder: Callable[..., bool] | None = None) -> Make:
    """A stand-in that is given the method; ``finder`` tells whether it is needed, by default where arguments are
    traced."""

    def make(method: Callable[..., Any]) -> Callable[..., Any]:
        made = partial(stand_in, method)
        if finder is not None:
            finders[made] = finder
        return made

    return make


_KEEPING = _around(_kept, _holds)  # keep what they are given, or compute with it
_LOOKING_UP = _around(_looked_up, _holds)  # nothing flows through them
_ARITHMETIC = " ".join(f"{name} r{name}" for name in "add sub mul truediv floordiv mod pow".split())
_INDEXERS = [f"core.indexing._{name}Indexer" for name in ("Location", "ScalarAccess", "At")]

# Libraries, their classes ("" for functions), the names of methods, and what stands in for them.
_METHODS: list[tuple[str, str, str, Make]] = [
    ("pandas", "DataFrame", "__init__ __setitem__ insert shift combine quantile rename set_axis reindex", _KEEPING),
    ("pandas", "Series", "__init__ __setitem__ combine quantile rename set_axis reindex map", _KEEPING),
    ("pandas", "DataFrame", _ARITHMETIC, _KEEPING), ("pandas", "Series", _ARITHMETIC, _KEEPING),
    ("pandas", "DataFrame", "fillna where mask clip replace ewm eq ne lt le gt ge", _KEEPING),  # some of them, of both
    ("pandas", "Series", "eq ne lt le gt ge", _KEEPING),
    ("pandas", "Index", "__new__ insert fillna where putmask map shift", _KEEPING),
    ("pandas", "Categorical", "__init__", _KEEPING), ("pandas", "Interval", "__init__", _KEEPING),
    ("pandas", "Timedelta", "__new__", _KEEPING), ("pandas", "Timestamp", "__new__", _KEEPING),
    *(("pandas", indexer, "__setitem__", _KEEPING) for indexer in _INDEXERS),
    ("pandas", "", "to_numeric", _KEEPING),
    ("pandas", "DataFrame", "__getitem__ __contains__ get xs isin", _LOOKING_UP),
    ("pandas", "Series", "__getitem__ get isin searchsorted", _LOOKING_UP),
    ("pandas", "Index", "__getitem__ __contains__ get_loc get_indexer isin searchsorted", _LOOKING_UP),
    *(("pandas", indexer, "__getitem__", _LOOKING_UP) for indexer in _INDEXERS),
    ("pandas", "", "isna isnull notna notnull", _LOOKING_UP),
    ("pandas", "core.generic.NDFrame", "__init__", _around(_of_columns, _has_columns)),
    ("pandas", "DataFrame", "dot", _always(_dot)), ("pandas", "Series", "dot", _always(_dot)),
    ("pandas", "Series", "_inplace_method", _always(_in_place)),
    ("pandas", "", "cut qcut factorize unique", _around(_copying)),
    *(("xarray", cls, "__init__ __setitem__", _KEEPING) for cls in ("Variable", "DataArray", "Dataset")),
    ("xarray", "", "full_like", _KEEPING), ("xarray", "DataArray", "__array_ufunc__", _always(_defer)),
    *(("xarray", cls, "_binary_op", _always(_defer)) for cls in ("DataArray", "Variable", "Dataset")),
    *(("xarray", cls, "_inplace_binary_op", _always(_in_place)) for cls in ("DataArray", "Variable", "Dataset")),
    ("json", "JSONEncoder", "iterencode", _around(_encoded)),
    ("numpy", "finfo", "__new__", _around(_of_type)), ("numpy", "iinfo", "__init__", _around(_of_type)),
    ("numpy.ma", "MaskedArray", "_delegate_binop", _always(lambda self, other: True)),
    ("torch", "", "tensor", _around(_copying)),
]  # fmt: skip
_adopted: set[str] = set()


def adopt() -> None:
    """Let libraries that have been imported by now notice traced operands."""
    for library in {entry[0] for entry in _METHODS} - _adopted:
        if (module := sys.modules.get(library)) is None or not hasattr(module, "__path__"):
            continue
        if getattr(getattr(module, "__spec__", None), "_initializing", False):  # another thread is importing it
            continue
        for _, path, names, make in (entry for entry in _METHODS if entry[0] == library):
            for name in names.split():
                if (owner := _owner(module, path, name)) is not None:
                    patched[owner, name] = make(original(getattr(owner, name)))
        _adopted.add(library)  # when the rest is done


def _owner(module: Any, path: str, name: str) -> Any:
    """What has a name of its own: a module, or among a class and its bases the first; ``None`` if none can lose it."""
    try:
        found = operator.attrgetter(path)(module) if path else module
    except AttributeError:  # another version
        return None
    owner = next((base for base in getattr(found, "__mro__", (found,)) if name in vars(base)), None)
    return None if getattr(owner, "__flags__", 0) & _IMMUTABLE else owner


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
        raise written_by_library(args[0], YotaError)  # PyTorch takes a TypeError as "let the other operand try"
    if python is None or kwargs or len(args) != 2:
        tensor = next((x for x in args if type(x) is Foreign or not is_traced(x)), args[0])
        raise refused(tensor, f"torch's {name_of(fn)} cannot be followed")
    return meet(python, args)
