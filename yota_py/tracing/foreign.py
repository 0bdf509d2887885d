"""Objects of other libraries beside traced values: pandas, xarray, PyTorch, subclasses of ndarray, sparse matrices.

A Series times a traced array is a Series to the user, with methods of its own, and to the tape a product of arrays.
A ``Foreign`` is both. What is done with it is done twice: by the library with plain values, and on the tape with the
numbers alone. Only where both give the same numbers, for these values and for others near them, does it go on.
"""

from __future__ import annotations

import numbers
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ..base.containers import has_gone, with_items
from ..base.dispatch import find_traced, is_traced, shadow
from ..base.ownership import is_decimal, is_library
from ..base.types import ArrayType, is_inexact, is_sequence, says_array, typeof
from ..base.unwinding import Quiet, state
from ..errors import LostDerivativeError, NotDifferentiableError, OutputError, YotaError
from ..registry.contents import is_sparse_class
from ..registry.patches import meeting
from ..registry.registry import methods, properties
from ..tape.operations import user_site
from ..tape.show import name_of
from .operators import Operators
from .stand_ins import suspended
from .tracer import Tracer, tracers_in

_PLAIN = (np.ndarray, np.memmap)
_WAYS_OUT = {
    "pandas": "x.to_numpy()", "xarray": "x.to_numpy()", "polars": "x.to_numpy()", "torch": "x.numpy()",
    "scipy": "x.toarray()",
}  # fmt: skip


class Foreign(Operators):
    """A value of another library's type that is made of traced ones: ``array`` is traced, ``plain`` what the user
    would have here if nothing were."""

    __slots__ = ("_array", "_ledger", "_plain")

    def __init__(self, array: Any, plain: Any) -> None:
        self._array, self._ledger, self._plain = array, array._ledger, plain

    @property  # type: ignore[misc]  # object's can be assigned, this one only asked
    def __class__(self) -> Any:
        return type(self._plain)

    def _current(self) -> Any:
        """The variable and the value of its numbers."""
        return self._array._current()

    def _decide(self, test: Callable[[Any], Any]) -> Any:
        test(self._plain)  # raises what it raises
        return self._array._decide(test)

    def __yota_type__(self) -> Any:
        return self._array.__yota_type__()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self._plain, name):
            raise AttributeError(f"{type(self._plain).__name__!r} object has no attribute {name!r}")
        if name in ("to_numpy", "numpy"):
            return lambda *args, **kwargs: meet(
                lambda x: x.copy() if isinstance(x, np.ndarray) else getattr(x, name)(*args, **kwargs), (self,)
            )
        if name == "values" or (name == "data" and type(self._plain).__module__.startswith("xarray.")):
            return meet(lambda x: x if isinstance(x, np.ndarray) else x.values, (self,))
        if name in ("shape", "ndim", "size", "dtype", *properties):
            return meet(operator.attrgetter(name), (self,))
        if name in methods:
            return partial(_method, self, name)
        raise self._unsupported(f".{name}")

    def _unsupported(self, what: str) -> YotaError:
        kind = type(self._plain)
        return LostDerivativeError(
            f"{user_site()}: {what} of a {kind.__name__} that is made of traced values cannot be followed. Take the "
            f"array first: {way_out(kind)}"
        )

    def __getitem__(self, index: Any) -> Any:
        return meet(operator.getitem, (self, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self._unsupported("an assignment to items")

    def __len__(self) -> int:
        return len(self._plain)

    def __iter__(self) -> Any:
        return iter(meet(list, (self,)))

    def __contains__(self, item: Any) -> bool:
        raise self._unsupported("`in`")

    def __bool__(self) -> bool:
        return self._decide(bool)  # type: ignore[no-any-return]

    def __float__(self) -> float:
        float(self._plain)
        return float(self._array)

    def __int__(self) -> int:
        return self._decide(int)  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return hash(self._plain)  # raises, for nearly all of them

    def __repr__(self) -> str:
        return repr(self._array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._array.__array__(dtype, copy)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self._unsupported("a copy")


def _method(x: Foreign, name: str, *args: Any, **kwargs: Any) -> Any:
    return meet(lambda y, *args, **kwargs: getattr(y, name)(*args, **kwargs), (x, *args), kwargs, f".{name}")


# ------------------------------------------------------------------------------------------- who is who


def _kind_of(cls: type) -> str:
    """What an operand of this class is beside a traced value.

    "foreign" for a ``Foreign`` and for classes of libraries that stand for arrays; "rational" for exact fractions;
    "sparse"; "own" for the user's classes that give an array when asked for one, and for lists of Python's library that
    are no ``list``; and "" for everything else.
    """
    if cls is Foreign:
        return "foreign"
    if is_sparse_class(cls):
        return "sparse"
    if cls in _PLAIN or issubclass(cls, (Tracer, np.generic, tuple, list, dict, str, bytes, type)):
        return ""
    if issubclass(cls, np.ndarray):
        return "foreign"
    if issubclass(cls, numbers.Rational) and not issubclass(cls, int):
        return "rational"
    if says_array(cls) or cls in (range, memoryview) or cls.__module__ == "array":
        return "foreign" if is_library(cls.__module__) else "own"
    return "own" if is_sequence(cls) else ""


kind_of: Callable[[type], str] = lru_cache(maxsize=4096)(_kind_of)


def way_out(cls: type) -> str:
    """How to get the numbers of an object as an array."""
    if issubclass(cls, np.ma.MaskedArray):
        return "x.filled(0.0)"
    return _WAYS_OUT.get(cls.__module__.partition(".")[0], "np.asarray(x)")


def foreigners(structure: Any) -> Iterator[Any]:
    """The objects of other libraries among arguments, also in tuples, lists and dicts."""
    pending = [structure]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple | list):
            pending.extend(reversed(item))
        elif type(item) is dict:
            pending.extend(reversed(item.values()))
        elif kind_of(type(item)) not in ("", "sparse"):
            yield item


def is_masked(x: Any) -> bool:
    """Whether a value has masked elements."""
    # The import of numpy.ma would be taken for what the function does.
    return "numpy.ma" in sys.modules and bool(np.ma.is_masked(x))


def masked_output(x: Any, site: Any, name: str) -> OutputError:
    """The error for a result of a function that has masked elements."""
    return OutputError(f"{site}: {name} returned a {type(x).__name__} with masked elements, which have no value; "
                       "return x.compressed() or x.filled(0.0)")


def refused(x: Any, why: str) -> LostDerivativeError:
    """The error for an operand that a derivative would be lost with."""
    cls = type(_plain(x))
    return LostDerivativeError(
        f"{user_site()}: a {cls.__module__.partition('.')[0]} {cls.__name__} meets a traced value: {why}. "
        f"Compute with its numbers: {way_out(cls)}"
    )


def numbers_of(x: Any) -> np.ndarray | None:
    """The numbers of an object as a plain array, exactly; ``None`` if it does not hold numbers only."""
    if isinstance(x, numbers.Rational) and not isinstance(x, int):
        return np.asarray(float(x))
    with suspended:
        try:
            array = np.asarray(x)
        except (TypeError, ValueError, RuntimeError):  # what libraries raise for data that NumPy cannot hold
            return None
    return array if type(array) is np.ndarray and array.dtype.kind in "fcbiu" else None


def holds_floats(x: Any) -> bool:
    """Whether an object that is no array and no container that we know holds numbers with derivatives."""
    if has_gone(x) or type(x) is range:  # NumPy makes floats of an empty one
        return False
    kind = kind_of(type(x))
    if kind == "" and isinstance(x, list | tuple | dict | set | frozenset):  # the user's, or a set
        return any(is_inexact(item) for item in (x.values() if isinstance(x, dict) else x))
    if kind == "rational" or is_decimal(type(x)):
        return True
    if kind not in ("foreign", "sparse") and not hasattr(type(x), "__array__"):
        return False
    if isinstance(dtype := getattr(x, "dtype", None), np.dtype):
        return dtype.kind in "fc"
    if (array := numbers_of(x)) is not None:
        return array.dtype.kind in "fc"
    dtypes = getattr(x, "dtypes", None)  # of columns
    columns = dtypes.values() if isinstance(dtypes, Mapping) else dtypes if isinstance(dtypes, Iterable) else ()
    types = dtype, *columns
    return any(getattr(t, "kind", "") in ("f", "c") or getattr(t, "is_floating_point", False) for t in types)


def unlike_an_array(x: Any, name: str) -> NotDifferentiableError:
    """The error for an argument that a derivative is wanted in."""
    cls = type(_plain(x))
    out = way_out(cls) if kind_of(cls) in ("foreign", "sparse") else "a float, an array, a list, tuple or dict of them"
    return NotDifferentiableError(
        f"{user_site()}: the argument {name} is of type {cls.__name__}, and so would its gradient have to be. Pass "
        f"{out}; or pass it by name, or say in value_and_grad(f, argnums=...) which arguments are to be differentiated"
    )


# ----------------------------------------------------------------------------------------- meeting


def meet(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, what: str = ""
) -> Any:
    """``call(*args, **kwargs)``, among whose arguments there are foreign objects.

    Raises what the library raises, and ``LostDerivativeError`` if it does something else than NumPy with the numbers.
    """
    with state.unwatched:
        return _meet(call, (args, dict(kwargs or {})), what or name_of(call))


def _meet(call: Callable[..., Any], given: tuple[Any, dict[str, Any]], what: str) -> Any:
    first = next(foreigners(given))
    trace = innermost(given)
    if trace.effects:
        raise refused(first, "jit calls such functions as they are")
    standing = {id(x): made for x in foreigners(given) if (made := _stand_in(trace, x)) is not None}
    if standing:
        given = _map(lambda x: standing.get(id(x), x), given)
        return call(*given[0], **given[1])
    python = all(isinstance(shadow(tracer), int | float | complex) for tracer in tracers_in(given))
    arrays = _map(partial(_array, trace, float if python else np.float64), given)
    if all(kind_of(type(x)) in ("own", "rational") for x in foreigners(given)):
        return call(*arrays[0], **arrays[1])  # the user's classes may hold traced values
    plain = _quietly(call, _map(_plain, given))
    try:
        ours = call(*arrays[0], **arrays[1])
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, YotaError):
            raise
        raise refused(first, f"{what} gives a {type(plain).__name__}, and of arrays it raises {error!r}") from error
    result = _paired(plain, ours)
    moved = _map(_moved, given)
    if result is NotImplemented or not _agree_nearby(call, moved):
        masked = " with masked elements, which have no value"
        why = masked if is_masked(plain) else ", which is not what NumPy makes of its numbers"
        raise refused(first, f"{what} gives a {type(plain).__name__}{why}")
    return result


def innermost(structure: Any) -> Any:
    """The innermost trace among those of arguments."""
    return max((tracer._ledger for tracer in tracers_in(structure)), key=lambda trace: trace.level)


def _quietly(call: Callable[..., Any], given: tuple[Any, dict[str, Any]]) -> Any:
    with suspended, Quiet():
        return call(*given[0], **given[1])


def _agree_nearby(call: Callable[..., Any], moved: Any) -> bool:
    """Whether the library and NumPy agree on other values too: at zero, for example, too many functions do."""
    with Quiet(warnings=False):
        try:
            want = _quietly(call, _map(_numbers_or_self, moved))
        except Exception:  # any: these values are not the user's
            return True
        try:
            return _paired(_quietly(call, moved), want) is not NotImplemented
        except Exception:  # any: what the library does with numbers, it does not do with arrays
            return False


def _map(fn: Callable[[Any], Any], structure: Any) -> Any:
    """A structure of arguments with ``fn`` of all that is no tuple, list or dict."""
    if isinstance(structure, tuple | list):
        return with_items(structure, [_map(fn, item) for item in structure])
    if type(structure) is dict:
        return {key: _map(fn, item) for key, item in structure.items()}
    return fn(structure)


def _array(trace: Any, number: Callable[[Any], Any], x: Any) -> Any:
    """An operand as the tape has it; a fraction is a ``number``, which a float32 array does not round."""
    kind = kind_of(type(x))
    if type(x) is Foreign:
        return x._array
    if kind in ("", "sparse"):
        return x
    if kind == "rational":
        return number(x)
    given = x
    if kind == "own":  # its parts may be traced
        given = type(x).__array__(x) if hasattr(type(x), "__array__") else list(x)
        if is_traced(given) or find_traced((given,)) is not None:
            return np.stack(given) if isinstance(given, list) else given
    if (array := numbers_of(given)) is None:
        raise refused(x, f"it holds something else than numbers ({getattr(x, 'dtype', 'no dtype')})")
    return _constant(trace, array)


def _stand_in(trace: Any, x: Any) -> Any:
    """What stands for an object whose arithmetic has rules of its own; ``None`` if there is none."""
    make = next((meeting[cls] for cls in type(x).__mro__ if cls in meeting), None)
    return None if make is None else make(x, partial(_constant, trace))


def _constant(trace: Any, array: np.ndarray) -> Any:
    return trace.tracer(trace.foreign(array))


def _plain(x: Any) -> Any:
    """An operand as plain code has it."""
    return x._plain if type(x) is Foreign else shadow(x) if is_traced(x) else x


def _numbers_or_self(x: Any) -> Any:
    array = None if kind_of(type(x)) in ("", "sparse") else numbers_of(x)
    return x if array is None else array


def _moved(x: Any) -> Any:
    """An operand in double precision, which tells more apart; with other values, if a derivative flows through it."""
    if not is_traced(x):
        return _wide(x)
    value, t = _wide(_plain(x)), typeof(shadow(x))
    if not isinstance(t, ArrayType) or not t.inexact:
        return value
    noise = 0.25 + np.modf(np.arange(1.0, t.size + 1) * 0.6180339887498949)[0].reshape(t.shape)
    return value + (float(noise) if t.kind == "python" else noise[()])


def _wide(x: Any) -> Any:
    array = numbers_of(x) if hasattr(x, "dtype") or hasattr(x, "dtypes") else None
    if array is None or array.dtype.kind not in "fc" or (to := np.result_type(array.dtype, np.float64)) == array.dtype:
        return x
    of_torch = hasattr(type(x), "__torch_function__")
    return x.to(getattr(sys.modules["torch"], to.name)) if of_torch else x.astype(to) if hasattr(x, "astype") else x


def _paired(plain: Any, ours: Any) -> Any:
    """What the library gives beside what the tape gives: ``NotImplemented`` if it is not the same."""
    if isinstance(plain, tuple | list) and isinstance(ours, tuple | list):
        if len(plain) != len(ours):
            return NotImplemented
        items = [_paired(a, b) for a, b in zip(plain, ours, strict=True)]
        return NotImplemented if any(x is NotImplemented for x in items) else with_items(plain, items)
    a, b = numbers_of(plain), numbers_of(shadow(ours))
    if is_masked(plain):  # whatever stands behind a mask: at zero it may be what NumPy makes of the numbers
        return NotImplemented
    if a is None or b is None:
        return plain if not is_traced(ours) and type(plain) is type(ours) and bool(plain == ours) else NotImplemented
    if a.shape != b.shape or a.dtype != b.dtype or not _equal(a, b):
        return NotImplemented
    return Foreign(ours, plain) if kind_of(type(plain)) and is_traced(ours) else ours


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    eps, largest = float(np.finfo(a.dtype).eps), float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    return bool(np.allclose(a, b, rtol=0.0, atol=min(1e4 * eps, eps**0.5) * largest, equal_nan=True))
