"""Compiled kernels, shared by their structure: in the process, and on disk with other processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from ...base import locks
from ...base.records import record
from ...base.unwinding import Uncollected, go_on
from ...registry.kernels import Routine, text_of
from ..maths.builder import is_unchanged
from . import disk
from .blas import emit_product
from .codegen import Method, compile_module, converts_halves, new_module, vector_bytes
from .emit import emit_kernel
from .ir import KernelSpec, Node
from .lapack import emit_lapack
from .registers import Operation, RegistersSpec, emit_registers
from .repeat import emit_repeat
from .small import emit_small_product
from .sorting import emit_search, emit_sort


@record()
class ProductSpec:
    """A product of matrices (or matrix and vector) by BLAS."""

    dtype: str
    vector: bool


@record()
class SmallProductSpec:
    """Products of a stack of matrices of these sizes (m, n, k), of which the right ones lie ``transposed``."""

    dtype: str
    sizes: tuple[int, int, int]
    transposed: bool


@record()
class LapackSpec:
    """A call of LAPACK for a stack of matrices."""

    dtype: str
    routine: Routine
    upper: bool = False
    finite: bool = False
    turned: bool = False


@record()
class SortSpec:
    """A call of a function of NumPy that sorts, for each line, or finds the ``places`` of what is sorted."""

    dtype: str
    method: Method
    places: bool


@record()
class SearchSpec:
    """A search for numbers in a table that is in order; ``behind`` what is equal."""

    dtype: str
    behind: bool


@record()
class RepeatSpec:
    """A loop over a table of kernels."""


Spec = KernelSpec | ProductSpec | SmallProductSpec | LapackSpec | SortSpec | SearchSpec | RepeatSpec | RegistersSpec

compiled: dict[Spec, int] = {}
_numbers = itertools.count()


def addresses(specs: Iterable[Spec]) -> dict[Spec, int]:
    """Machine code for these structures; those never seen before are compiled in one go."""
    specs = list(specs)
    with locks.kernels:
        missing = list(dict.fromkeys(s for s in specs if s not in compiled))
        if missing:
            keys = {spec: key for spec in missing if (key := _key(spec)) is not None}
            on_disk = disk.find(keys.values())
            compiled.update((spec, on_disk[key]) for spec, key in keys.items() if key in on_disk)
            _compile([spec for spec in missing if spec not in compiled], keys)
        return {spec: compiled[spec] for spec in specs}


def _key(spec: Spec) -> str | None:
    """The same in all processes, and another for each structure; ``None`` if what writes it may be another there."""
    nodes = spec.nodes if isinstance(spec, KernelSpec | RegistersSpec) else ()
    names = [node.emit for node in nodes if isinstance(node, Node | Operation) and node.emit]
    texts = [text_of(name) for name in names if not is_unchanged(name)]
    return None if None in texts else repr((spec, texts))


def _compile(specs: Sequence[Spec], keys: Mapping[Spec, str]) -> None:
    if not specs:
        return
    names = {spec: f"kernel_{next(_numbers)}" for spec in specs}
    with Uncollected():  # building IR makes many objects and no garbage
        module = new_module(f"kernels_{next(_numbers)}")
        for spec, name in names.items():
            go_on()
            if isinstance(spec, KernelSpec):
                emit_kernel(module, name, spec, vector_bytes(), halves=converts_halves())
            elif isinstance(spec, RegistersSpec):
                emit_registers(module, name, spec)
            elif isinstance(spec, RepeatSpec):
                emit_repeat(module, name)
            elif isinstance(spec, LapackSpec):
                how = {"upper": spec.upper, "finite": spec.finite, "turned": spec.turned}
                emit_lapack(module, name, spec.dtype, spec.routine, **how)
            elif isinstance(spec, SortSpec):
                emit_sort(module, name, spec.dtype, spec.method, places=spec.places)
            elif isinstance(spec, SearchSpec):
                emit_search(module, name, spec.dtype, behind=spec.behind)
            elif isinstance(spec, SmallProductSpec):
                emit_small_product(module, name, spec.dtype, spec.sizes, spec.transposed)
            else:
                emit_product(module, name, spec.dtype, spec.vector)
        code = compile_module(module, list(names.values()))
    compiled.update((spec, code.addresses[name]) for spec, name in names.items())
    disk.keep(code, {name: keys[spec] for spec, name in names.items() if spec in keys})


def count() -> int:
    """How many kernels this process has compiled or found on disk."""
    return len(compiled)
