"""A memory checker: NumPy's arrays between guard pages, canaries about them and in the gaps of programs' arenas.

All memory of the engine comes from NumPy: frames' heads and arenas, results, inputs and constants. Here its allocator
(NEP 49) gives each array pages of its own that end at one which must not be touched, so that what reads or writes
behind it (or far before it) ends the process; bytes next to it have a pattern that is looked at when it is freed. New
memory has that pattern too. In an arena, buffers stand apart, and what belongs to none of them must keep the pattern.
"""

from __future__ import annotations

import ctypes
import faulthandler
import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from yota_py.base.refusal import Refusal
from yota_py.engine.plan import layout, plan
from yota_py.engine.run import program

PAGE, PATTERN, ALIGNMENT = 4096, 0xA5, 16
NOTE = 64  # bytes before an array that are looked at; before them stands its size
HEAD = NOTE + 8
GAP = 128  # bytes between buffers of an arena

_libc, _word = ctypes.CDLL(None), ctypes.c_size_t
mmap, mprotect, munmap, memset, memmove = (
    getattr(_libc, name) for name in ("mmap", "mprotect", "munmap", "memset", "memmove")
)
mmap.restype, mmap.argtypes = _word, [_word, _word, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
mprotect.restype, mprotect.argtypes = ctypes.c_int, [_word, _word, ctypes.c_int]
munmap.restype, munmap.argtypes = ctypes.c_int, [_word, _word]
memset.restype, memset.argtypes = _word, [_word, ctypes.c_int, _word]
memmove.restype, memmove.argtypes = _word, [_word, _word, _word]
_PRIVATE, _READ_WRITE = 0x22, 3  # MAP_PRIVATE | MAP_ANONYMOUS; PROT_READ | PROT_WRITE

GUARDED = 20_000  # arrays at a time have guard pages: a process has 65,530 pieces of memory, and they take two each

_found = np.zeros(2, np.uintp)  # how many bytes before and behind arrays were not as they were left
_FOUND = _found.ctypes.data
_arrays = np.zeros(1, np.uintp)  # how many there are
_ARRAYS = _arrays.ctypes.data


@intrinsic  # type: ignore[untyped-decorator]
def pointer(context: Any, address: Any) -> Any:
    """A number as the address of words."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uintp)(types.uintp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def bytes_at(context: Any, address: Any) -> Any:
    """A number as the address of bytes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint8)(types.uintp), codegen


# In machine code, as NumPy also frees memory while an exception is on its way.


@njit("uintp(uintp, uintp)")  # type: ignore[untyped-decorator]
def rounded(size: int, unit: int) -> int:
    """The next multiple of a power of two; of nothing, the first."""
    return (max(size, np.uintp(1)) + unit - np.uintp(1)) & ~(unit - np.uintp(1))


@njit("uintp(uintp)")  # type: ignore[untyped-decorator]
def taken(size: int) -> int:
    """Memory that ends at a page which must not be touched; 0 if there is none."""
    inside, arrays = rounded(size, np.uintp(ALIGNMENT)), carray(pointer(np.uintp(_ARRAYS)), (1,))
    room = rounded(inside + np.uintp(HEAD), np.uintp(PAGE))
    about = 0 if arrays[0] < np.uintp(GUARDED) else _READ_WRITE
    start = mmap(np.uintp(0), room + np.uintp(2 * PAGE), about, _PRIVATE, -1, 0) + np.uintp(PAGE)
    if start == np.uintp(PAGE - 1) or mprotect(start, room, _READ_WRITE):
        return np.uintp(0)
    arrays[0] += np.uintp(1)
    memset(start, PATTERN, room)
    address = start + room - inside
    carray(pointer(address - np.uintp(HEAD)), (1,))[0] = size
    return address


@njit("void(uintp)")  # type: ignore[untyped-decorator]
def given_back(address: int) -> None:
    """Look at the bytes about an array, and give its pages back."""
    size = carray(pointer(address - np.uintp(HEAD)), (1,))[0]
    carray(pointer(np.uintp(_ARRAYS)), (1,))[0] -= np.uintp(1)
    inside, found = rounded(size, np.uintp(ALIGNMENT)), carray(pointer(np.uintp(_FOUND)), (2,))
    for byte in carray(bytes_at(address - np.uintp(NOTE)), (NOTE,)):
        found[0] += np.uintp(byte != PATTERN)
    for byte in carray(bytes_at(address + size), (np.intp(inside - size),)):
        found[1] += np.uintp(byte != PATTERN)
    room = rounded(inside + np.uintp(HEAD), np.uintp(PAGE))
    munmap(address + inside - room - np.uintp(PAGE), room + np.uintp(2 * PAGE))


@cfunc("uintp(uintp, uintp)")  # type: ignore[untyped-decorator]
def _malloc(context: int, size: int) -> int:
    return taken(size)


@cfunc("uintp(uintp, uintp, uintp)")  # type: ignore[untyped-decorator]
def _calloc(context: int, count: int, size: int) -> int:
    address = taken(count * size)
    if address:
        memset(address, 0, count * size)
    return address


@cfunc("uintp(uintp, uintp, uintp)")  # type: ignore[untyped-decorator]
def _realloc(context: int, address: int, size: int) -> int:
    moved = taken(size)
    if address and moved:
        memmove(moved, address, min(size, carray(pointer(address - np.uintp(HEAD)), (1,))[0]))
        given_back(address)
    return moved


@cfunc("void(uintp, uintp, uintp)")  # type: ignore[untyped-decorator]
def _free(context: int, address: int, size: int) -> None:
    if address:
        given_back(address)


class _Handler(ctypes.Structure):
    """NumPy's ``PyDataMem_Handler``."""

    _fields_ = [
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", _word),
        *((name, _word) for name in ("malloc", "calloc", "realloc", "free")),
    ]  # fmt: skip


_handler = _Handler(b"guarded", 1, 0, _malloc.address, _calloc.address, _realloc.address, _free.address)
faults: list[str] = []


def look_at_bytes() -> None:
    """Whether arrays that are gone had other bytes about them than they were given."""
    for count, name in zip(_found, ("before", "behind"), strict=True):
        if count:
            faults.append(f"{count} bytes written {name} arrays")
    _found[:] = 0


_SET_HANDLER = 304  # in the table of NumPy's C interface


def install() -> None:
    """From now on NumPy's arrays are guarded, in this thread and for good; and what is compiled has gaps."""
    faulthandler.enable()
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = _word, [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_New.restype = ctypes.py_object
    api.PyCapsule_New.argtypes = [_word, ctypes.c_char_p, ctypes.c_void_p]
    table = api.PyCapsule_GetPointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    address = ctypes.cast(table, ctypes.POINTER(_word))[_SET_HANDLER]
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)
    set_handler(api.PyCapsule_New(ctypes.addressof(_handler), b"mem_handler", None))
    plan.Arena = GappedArena  # type: ignore[misc]
    program.make_plan = _make_plan
    program.Program.__init__ = _remembered(program.Program.__init__)  # type: ignore[method-assign]


class GappedArena(layout.Arena):
    """An arena whose buffers stand apart; of every other one, none is used again."""

    _turn = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[int, int]] = []
        self.reuse = next(self._turn) % 2

    def take(self, nbytes: int) -> int:
        """The offset of a buffer with a gap behind it."""
        start = super().take(nbytes + GAP)
        self.taken.append((start, nbytes))
        return start

    def give(self, start: int, nbytes: int) -> None:
        """A buffer is dead."""
        if self.reuse:
            super().give(start, nbytes + GAP)


_gaps: dict[int, np.ndarray] = {}
_programs: list[program.Program] = []


def _make_plan(schedule: Any, turned: Any, over: Any = None) -> plan.Plan:
    planner = plan.Planner(schedule, turned)
    made = planner.run(over or {})
    free = np.ones(made.arena_bytes, bool)
    for start, nbytes in planner.arena.taken:  # type: ignore[attr-defined]
        free[start : start + nbytes] = False
    _gaps[id(made)] = np.flatnonzero(free)
    return made


def _remembered(init: Any) -> Any:
    def wrapped(self: program.Program, *args: Any) -> None:
        init(self, *args)
        _programs.append(self)

    return wrapped


def look_at_gaps() -> int:
    """Look at what belongs to no buffer, in the arenas of all programs since the last time; how many there were."""
    for compiled in _programs:
        gaps = _gaps.pop(id(compiled.plan))
        for frame in compiled._frames.values():
            if (frame.arena[gaps] != PATTERN).any():
                faults.append(f"written between the buffers of {compiled.tape}")
    count = len(_programs)
    _programs.clear()
    return count


# ------------------------------------------------------------------------------------------------ what is run


def _of_all_dtypes(seed: int, calls: int) -> Iterator[Any]:
    """Calls of compiled functions of two operands."""
    from operands import OPERANDS, functions, outcome, running
    from operands import program as source_of

    from yota_py import grad, jit

    rng = random.Random(seed)
    a, b = rng.choices([o for o in OPERANDS if o.form == "array" and not o.kind.startswith("complex")], k=2)
    column = bool(rng.randrange(2))
    args = [(a.value(i, seed, column)[: rng.randrange(1, 9) if column else None], b.value(i, seed)) for i in range(3)]
    if not column:
        n = rng.randrange(1, 1 + min(len(y) for x in args for y in x))
        args = [(x[:n].copy(), y[:n].copy()) for x, y in args]
    args = [args[0]] if column else args
    sources = running(rng.sample(functions(2), 12), "a, b", args)
    f = source_of(sources, "a, b")
    fast, each = jit(f), itertools.cycle(args)
    for _ in range(calls):
        yield outcome(fast, *next(each))
    if a.kind in ("float64", "float32") and sources:
        g = source_of([f"np.sum({sources[0]})"], "a, b")
        for _ in range(calls // 4):
            yield outcome(grad, lambda a, b: g(a, b)[0], *next(each))


def _random_programs(seed: int, programs: int, calls: int) -> Iterator[Any]:
    """Calls of compiled gradients of random programs."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from programs import Program
    from programs import programs as some
    from ways import compiled

    found: list[Program] = []

    @given(some())
    def collect(f: Program) -> None:
        found.append(f)

    settings(max_examples=programs, deadline=None, database=None, phases=[Phase.generate],
             suppress_health_check=list(HealthCheck))(seeded(seed)(collect))()  # fmt: skip
    for f in found:
        ways, seeds = compiled(f, *f.draw(0))
        for i in range(calls):
            inputs = ways.fit([*f.draw(i), *seeds])
            if isinstance(ways.program(*inputs, *ways.captured), Refusal):  # a decision comes out otherwise
                ways, seeds = compiled(f, *f.draw(i))
            yield ways.run(inputs)
        yield None


def _random_loops(seed: int, count: int, each: int) -> Iterator[Any]:
    """Calls of gradients of functions with loops, rolled up."""
    import loops

    from yota_py import grad
    from yota_py.passes import repeats, roll

    repeats.LEAST_TURNS, repeats.LEAST_SAVED, roll.LEAST_SAVED = 3, 12, 12
    for number in range(count * seed, count * (seed + 1)):
        f, turns = loops.function(loops.text(number)), random.Random(number).choice(loops.LENGTHS)
        with suppress(np.linalg.LinAlgError):
            grad.compile(f, *loops.arguments(number, turns))
            for call in range(each):
                yield grad(f, *loops.arguments(number + call, turns))
        yield None


def run(calls: int) -> tuple[int, int]:
    """So many calls at least; how many there were, and of how many programs. Raises if memory was written outside."""
    from yota_py import config
    from yota_py.cache import functions as cache

    install()
    config.compile = "always"
    made = programs = 0
    each = 5 if calls < 10_000 else 100
    with np.errstate(all="ignore"):
        for seed in itertools.count():
            for result in itertools.chain(
                _of_all_dtypes(seed, each), _random_programs(seed, 2, each), _random_loops(seed, 2, each)
            ):
                made += result is not None
                if result is None:
                    programs += look_at_gaps()
            programs += look_at_gaps()
            cache.clear_caches()
            look_at_bytes()
            assert not faults, faults
            if made >= calls:
                return made, programs
    raise AssertionError
