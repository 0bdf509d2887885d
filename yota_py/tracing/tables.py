"""Tables of pandas and xarray among traced values: their columns are of plain numbers.

A column of traced values would be one of objects, which pandas leaves out of means and does not round. Values without
derivative are taken as plain ones, by a decision; those with a derivative are refused, but where they are looked up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, KeysView, ValuesView
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from ..base.containers import items_of, mapped
from ..base.dispatch import decided, find_traced, is_traced, original
from ..registry.patches import finders
from . import hints
from .tracer import Tracer, lost

_WAY_OUT = f"compute with arrays of NumPy (np.array([...]), x.to_numpy()); {hints.PLAIN}"
_VIEWS = (KeysView, ValuesView)  # lists to pandas, as iterators are to its constructors
_IMMUTABLE = 1 << 8  # the flag of classes whose attributes cannot be set: ``object``, and some of C
_ARITHMETIC = " ".join(f"{name} r{name}" for name in "add sub mul truediv floordiv mod pow".split())

# Methods that keep what they are given, or compute with it, and functions.
_KEEPING = [
    ("pandas", "DataFrame", "__init__ __setitem__ insert shift combine quantile rename set_axis reindex"),
    ("pandas", "Series", "__init__ __setitem__ combine quantile rename set_axis reindex map"),
    ("pandas", "DataFrame", _ARITHMETIC), ("pandas", "Series", _ARITHMETIC),
    ("pandas", "DataFrame", "fillna where mask clip replace ewm eq ne lt le gt ge"),  # some of them, of both
    ("pandas", "Series", "eq ne lt le gt ge"),
    ("pandas", "Index", "__new__ insert fillna where putmask map shift"), ("pandas", "Categorical", "__init__"),
    ("pandas.core.indexing", "_LocationIndexer", "__setitem__"),
    ("pandas.core.indexing", "_ScalarAccessIndexer", "__setitem__"),
    ("pandas.core.indexing", "_AtIndexer", "__setitem__"),
    ("pandas", "", "cut qcut to_numeric unique factorize"),
    ("pandas", "Timedelta", "__new__"), ("pandas", "Timestamp", "__new__"), ("pandas", "Interval", "__init__"),
    ("xarray", "Variable", "__init__ __setitem__"), ("xarray", "DataArray", "__init__ __setitem__"),
    ("xarray", "Dataset", "__init__ __setitem__"), ("xarray", "", "full_like"),
]  # fmt: skip
# Those that look something up: nothing flows through them.
_LOOKING_UP = [
    ("pandas", "DataFrame", "__getitem__ __contains__ get xs isin"),
    ("pandas", "Series", "__getitem__ get isin searchsorted"),
    ("pandas", "Index", "__getitem__ __contains__ get_loc get_indexer isin searchsorted"),
    ("pandas.core.indexing", "_LocationIndexer", "__getitem__"),
    ("pandas.core.indexing", "_ScalarAccessIndexer", "__getitem__"),
    ("pandas.core.indexing", "_AtIndexer", "__getitem__"),
    ("pandas", "", "isna isnull notna notnull"),
]  # fmt: skip


def stand_ins(library: str, modules: dict[str, ModuleType]) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """The owners, names and stand-ins of a library's methods and functions; ``modules`` are those that are imported."""
    for table, stand_in in ((_KEEPING, _keeping), (_LOOKING_UP, _looking_up)):
        for module, cls, names in table:
            if module.partition(".")[0] != library or (found := modules.get(module)) is None:
                continue
            classes = getattr(getattr(found, cls, None), "__mro__", ()) if cls else (found,)
            for name in names.split():
                owner = next((base for base in classes if name in vars(base)), None)
                if owner is not None and not getattr(owner, "__flags__", 0) & _IMMUTABLE:
                    yield owner, name, _noticing(partial(stand_in, original(getattr(owner, name))), _holds)
    if library == "pandas":
        owner = next((base for base in modules["pandas"].DataFrame.__mro__ if base.__name__ == "NDFrame"), None)
        if owner is not None:
            yield owner, "__init__", _noticing(partial(_of_columns, original(vars(owner)["__init__"])), _has_columns)


def _noticing(stand_in: Callable[..., Any], finder: Callable[..., bool]) -> Callable[..., Any]:
    finders[stand_in] = finder
    return stand_in


def _keeping(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    fn = partial(_plain, _name(method, *args[:1]))
    if method.__name__ in ("__init__", "__new__"):
        args = tuple(list(x) if isinstance(x, Iterator) else x for x in args)
        kwargs = {key: list(x) if isinstance(x, Iterator) else x for key, x in kwargs.items()}
    return method(*map(fn, args), **{key: fn(value) for key, value in kwargs.items()})


def _looking_up(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
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
