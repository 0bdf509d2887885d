"""The driver: one compiled function that takes NumPy's and Python's own objects, runs a program's kernels, and makes
its results.

It takes a *frame* that no other call is using, checks each value's type, dtype and shape against the program's
bindings, puts pointers and numbers into the frame, makes the output arrays, and runs the kernels with the interpreter
lock released if the program asks, up to the first that reports a fault. Where Python code must help, it is called:

=========  ========================  ==========================================================================
again      ``again(*values)``        with the answer of the call, if a value does not fit its binding, or the program
                                     has reached its limit
MORE       ``more()``                returns the address of another frame
STEPS      ``steps(frame, *values,   Python steps and the kernels behind them; returns the fault, or 0
           *outputs)``
REFUSE     ``refuse(frame, fault)``  with the answer of the call, if a kernel has reported a fault
BUILD      ``build(frame, i)``       returns a result that only Python can make
=========  ========================  ==========================================================================

A *program* is a table of 64-bit words, of which the first are listed below. Then follow, for each value, its *binding*
``kind, slot, identity, ndim, *shape``, with the identity of an array's descriptor or of a number's class. The kernel
table holds per kernel: its length in words, its address, its own words; the table of outputs ``slot, ndim, extents,
descriptor, is_fortran``, of which the third is the address of words and the fourth that of an object; the recipe of the
results is described in ``objects.py``.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from ...base import locks
from ...base.records import record
from ...base.types import ArrayType
from ..kernels import disk
from ..kernels.codegen import EMPTY, compile_module, new_module
from ..kernels.emit import ERROR_SLOT, NO_FAULT
from ..kernels.repeat import run_table
from ..maths.llvm import I32, I64, NULL, PTR, VOID, Value, const, offered
from ..plan.layout import NEXT_SLOT
from .objects import (
    DATA,
    DESCRIPTOR,
    FLAGS,
    ITEMS,
    NDIM,
    SHAPE,
    TYPE,
    VALUE,
    Activation,
    PythonWriter,
    emit_results,
)

# Kinds of binding: to a slot goes a number, its address, or the address of an array, whose kind are the flags of
# one that is aligned and in the order of C or of Fortran.
FLOAT64, NUMBER, ARRAY = 0, 1, 0x0100
IN_ORDER = {"C": ARRAY | 0x0001, "F": ARRAY | 0x0002}
OK = 0

# Words of a program: how many bindings; whether to release the lock; tables and their lengths; how many calls went
# well, and with how many it refuses further ones; the first free frame, of which each leads to the next; functions in
# Python; NumPy's classes. Machine code holds no address of an object.
(
    COUNT, RELEASE, KERNELS, KERNEL_WORDS, OUTPUTS, OUTPUT_COUNT, RECIPE, RECIPE_LENGTH, CALLS, LIMIT, FREE,
    MORE, STEPS, REFUSE, BUILD, ARRAY_CLASS, SCALAR_CLASS, BINDINGS,
) = range(18)  # fmt: skip
UNLIMITED = 2**62


def _emit_run(module: ir.Module) -> ir.Function:
    """``int64 run(int64 *frame, int64 *table, int64 length, int64 release)``: each kernel of the table in turn, until
    one reports a fault. Returns it, or 0."""
    kernels = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR, I64]), "kernels")
    w = PythonWriter(kernels)
    frame, table, length = kernels.args
    w.b.store(const(NO_FAULT), w.at(frame, ERROR_SLOT))
    run_table(w, frame, table, length)
    w.b.ret_void()

    function = ir.Function(module, ir.FunctionType(I64, [PTR, PTR, I64, I64]), "run")
    w = PythonWriter(function)
    frame, table, length, release = function.args
    with w.b.if_else(w.b.icmp_signed("!=", release, const(0))) as (then, otherwise):
        with then:
            state = w.call("PyEval_SaveThread", PTR)
            w.b.call(kernels, [frame, table, length])
            w.call("PyEval_RestoreThread", VOID, state)
        with otherwise:
            w.b.call(kernels, [frame, table, length])
    fault = w.word(frame, ERROR_SLOT)
    w.b.ret(w.b.select(w.b.icmp_signed("==", fault, const(NO_FAULT)), const(OK), fault))
    return function


def _emit_bind(w: PythonWriter, program: Value, frame: Value, values: Value, misfit: ir.Block) -> None:
    """Check the values against the program's bindings and fill the frame."""
    at = w.variable(const(BINDINGS))
    with w.loop(w.word(program, COUNT)) as k:
        binding, value = w.at(program, w.word(at, 0)), w.word(values, k, PTR)
        kind, slot, identity, ndim = (w.word(binding, i) for i in range(4))
        target = w.at(frame, slot)
        with w.b.if_else(w.b.icmp_signed(">=", kind, const(ARRAY))) as (array, number):
            with array:
                w.require(w.b.icmp_signed("==", w.field(value, TYPE, I64), w.word(program, ARRAY_CLASS)), misfit)
                _require_array(w, value, kind, identity, ndim, w.at(binding, 4), misfit)
                w.b.store(w.field(value, DATA, I64), target)
            with number:
                w.require(w.b.icmp_signed("==", w.field(value, TYPE, I64), identity), misfit)
                is_float = w.b.icmp_signed("==", kind, const(FLOAT64))
                address = w.b.add(w.b.ptrtoint(value, I64), const(VALUE))
                w.b.store(w.b.select(is_float, w.field(value, VALUE, I64), address), target)
        w.b.store(w.b.add(w.b.add(w.word(at, 0), ndim), const(4)), at)


def _require_array(
    w: PythonWriter, value: Value, flags: Value, descriptor: Value, ndim: Value, shape: Value, misfit: ir.Block
) -> None:
    """An array must have these flags, this descriptor and shape."""
    w.require(w.b.icmp_signed("==", w.field(value, DESCRIPTOR, I64), descriptor), misfit)
    w.require(w.b.icmp_signed("==", w.b.sext(w.field(value, NDIM, I32), I64), ndim), misfit)
    wanted = w.b.trunc(flags, I32)
    w.require(w.b.icmp_signed("==", w.b.and_(w.field(value, FLAGS, I32), wanted), wanted), misfit)
    extents = w.field(value, SHAPE, PTR)
    with w.loop(ndim) as d:
        w.require(w.b.icmp_signed("==", w.word(extents, d), w.word(shape, d)), misfit)


def _emit_program(module: ir.Module, run: ir.Function) -> None:
    """The vectorcall entry ``program(*values)``, bound to ``(program, again)``."""
    w = PythonWriter(ir.Function(module, ir.FunctionType(PTR, [PTR, PTR, I64]), "program"))
    me, values, count = w.function.args
    misfit, no_frame = w.block("misfit"), w.block("no_frame")
    program = w.call("PyLong_AsVoidPtr", PTR, w.field(me, ITEMS, PTR))
    frame = _emit_take(w, program, no_frame)
    w.require(w.b.icmp_signed("==", count, w.word(program, COUNT)), misfit)
    w.require(w.b.icmp_signed("<", w.word(program, CALLS), w.word(program, LIMIT)), misfit)
    _emit_bind(w, program, frame, values, misfit)
    _emit_call(w, run, program, frame, values)

    w.b.position_at_end(misfit)
    _emit_give(w, program, frame)
    w.b.ret(w.apply(w.field(me, ITEMS + 8, PTR), values, count))

    w.b.position_at_end(no_frame)
    w.b.ret(NULL)


def _emit_call(w: PythonWriter, run: ir.Function, program: Value, frame: Value, values: Value) -> None:
    """Run a program in a frame that is filled, and return its answer."""
    b, failed, end = w.b, w.block("failed"), w.block("end")
    count, output_count, length = (w.word(program, i) for i in (COUNT, OUTPUT_COUNT, RECIPE_LENGTH))
    outputs = w.room(output_count)
    stack = w.room(b.add(b.add(length, const(2)), b.add(count, output_count)))  # also for arguments of steps, refusals
    made, depth = w.variable(const(0)), w.variable(const(0))
    call = Activation(program, frame, values, count, outputs, output_count, made, stack, depth, failed)
    _emit_outputs(w, call)
    kernels, words, release = w.word(program, KERNELS, PTR), w.word(program, KERNEL_WORDS), w.word(program, RELEASE)
    fault = w.variable(b.call(run, [frame, kernels, words, release]))
    _emit_steps(w, call, fault)
    _emit_answer(w, call, w.word(fault, 0))
    b.branch(end)

    b.position_at_end(failed)
    with w.loop(w.word(depth, 0)) as i:
        w.release(w.word(stack, i, PTR))
    b.store(NULL, stack)
    b.branch(end)

    b.position_at_end(end)
    with w.loop(w.word(made, 0)) as i:
        w.release(w.word(outputs, i, PTR))
    _emit_give(w, program, frame)
    b.ret(w.word(stack, 0, PTR))


def _emit_answer(w: PythonWriter, call: Activation, fault: Value) -> None:
    """Leave the results on the stack, or what a fault means."""
    with w.b.if_else(w.b.icmp_signed("==", fault, const(OK))) as (then, otherwise):
        with then:
            calls = w.at(call.program, CALLS)
            w.b.store(w.b.add(w.b.load(calls, typ=I64), const(1)), calls)
            recipe, build, scalar = (w.word(call.program, i, PTR) for i in (RECIPE, BUILD, SCALAR_CLASS))
            emit_results(w, call, recipe, w.word(call.program, RECIPE_LENGTH), build, scalar)
        with otherwise:
            call.push(w, w.call("PyLong_FromVoidPtr", PTR, call.frame))
            call.push(w, w.call("PyLong_FromLongLong", PTR, fault))
            call.push(w, call.apply(w, w.word(call.program, REFUSE, PTR), const(2)))


def _emit_outputs(w: PythonWriter, call: Activation) -> None:
    """Fresh arrays for the results, in their slots."""
    table, empty = w.word(call.program, OUTPUTS, PTR), offered("numpy", EMPTY)
    with w.loop(call.output_count) as i:
        record = w.at(table, w.b.mul(i, const(5)))
        ndim, is_fortran = (w.b.trunc(w.word(record, k), I32) for k in (1, 4))
        extents, descriptor = (w.word(record, k, PTR) for k in (2, 3))
        w.call("Py_IncRef", VOID, descriptor)  # which it takes
        array = w.some(w.call(empty, PTR, ndim, extents, descriptor, is_fortran), call.failed)
        w.b.store(array, w.at(call.outputs, i))
        w.b.store(w.b.add(i, const(1)), call.made)
        w.b.store(w.field(array, DATA, I64), w.at(call.frame, w.word(record, 0)))


def _emit_steps(w: PythonWriter, call: Activation, fault: Value) -> None:
    """Python steps, if there are any and all went well so far."""
    steps = w.word(call.program, STEPS, PTR)
    good = w.b.icmp_signed("==", w.b.load(fault, typ=I64), const(OK))
    with w.b.if_then(w.b.and_(good, w.b.icmp_unsigned("!=", steps, NULL))):
        call.push(w, w.call("PyLong_FromVoidPtr", PTR, call.frame))
        for array, count in ((call.values, call.count), (call.outputs, call.output_count)):
            with w.loop(count) as i:
                value = w.word(array, i, PTR)
                w.call("Py_IncRef", VOID, value)
                call.push(w, value)
        answer = call.apply(w, steps, w.b.load(call.depth, typ=I64))
        w.b.store(w.call("PyLong_AsLongLong", I64, answer), fault)
        w.release(answer)


def _emit_take(w: PythonWriter, program: Value, no_frame: ir.Block) -> Value:
    """The first free frame, or another."""
    b = w.b
    free, more, taken = w.block("free"), w.block("more"), w.block("taken")
    first = w.word(program, FREE, PTR)
    b.cbranch(b.icmp_unsigned("!=", first, NULL), free, more)
    b.position_at_end(free)
    b.store(w.word(first, NEXT_SLOT), w.at(program, FREE))
    b.branch(taken)
    b.position_at_end(more)
    answer = w.some(w.apply(w.word(program, MORE, PTR), NULL, const(0)), no_frame)
    another = w.call("PyLong_AsVoidPtr", PTR, answer)
    w.release(answer)
    at = b.block
    b.branch(taken)
    b.position_at_end(taken)
    frame = b.phi(PTR)
    frame.add_incoming(first, free)
    frame.add_incoming(another, at)
    return frame


def _emit_give(w: PythonWriter, program: Value, frame: Value) -> None:
    """The frame is free again."""
    w.b.store(w.word(program, FREE), w.at(frame, NEXT_SLOT))
    w.b.store(frame, w.at(program, FREE))


def _emit_resume(module: ir.Module, run: ir.Function) -> None:
    """The vectorcall entry ``resume(frame, table, length)``: runs kernels, returns the fault or 0."""
    function = ir.Function(module, ir.FunctionType(PTR, [PTR, PTR, I64]), "resume")
    w = PythonWriter(function)
    frame, table, length = (
        w.call("PyLong_AsVoidPtr", PTR, w.word(function.args[1], i, PTR)) for i in range(3)
    )
    fault = w.b.call(run, [frame, table, w.b.ptrtoint(length, I64), const(1)])
    w.b.ret(w.call("PyLong_FromLongLong", PTR, fault))


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_METH_FASTCALL = 0x0080


def _definitions() -> dict[str, _MethodDef]:
    """The driver's functions."""
    with locks.kernels:
        return _compiled()


@functools.cache
def _compiled() -> dict[str, _MethodDef]:
    """Once a process, by one thread."""
    keys = {name: f"driver: {name}" for name in ("program", "resume")}
    found = disk.find(keys.values())
    addresses = {name: found[key] for name, key in keys.items() if key in found}
    if len(addresses) < len(keys):
        module = new_module("driver")
        run = _emit_run(module)
        _emit_program(module, run)
        _emit_resume(module, run)
        code = compile_module(module, list(keys))
        addresses = code.addresses
        disk.keep(code, keys)
    definitions = {name: _MethodDef(name.encode(), at, _METH_FASTCALL, None) for name, at in addresses.items()}
    for definition in definitions.values():  # a builtin that lives longer than this module reads it in the end
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))
    return definitions


def _builtin(name: str, owner: Any) -> Callable[..., Any]:
    """A Python builtin, bound to an object, that calls machine code: no marshalling in between."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(_definitions()[name]), owner, None)  # type: ignore[no-any-return]


def caller(table: np.ndarray, again: Callable[..., Any], owner: Any) -> Callable[..., Any]:
    """The function that calls a program. The owner keeps alive what the table refers to."""
    return _builtin("program", (table.ctypes.data, again, table, owner))


def resume(frame: int, table: int, length: int) -> int:
    """Run kernels on a frame; returns their fault, or 0."""
    return _resume()(frame, table, length)  # type: ignore[no-any-return]


@functools.cache
def _resume() -> Callable[..., Any]:
    return _builtin("resume", None)


@record()
class Helpers:
    """The functions in Python that the driver calls."""

    more: Callable[[], int]
    steps: Callable[..., int] | None
    refuse: Callable[[int, int], Any]
    build: Callable[[int, int], Any]


def describe(
    inputs: Sequence[tuple[int, ArrayType]], outputs: Sequence[tuple[int, ArrayType]], turned: set[int],
    kernels: tuple[int, int], recipe: Sequence[int], helpers: Helpers, *, release: bool,
) -> tuple[np.ndarray, list[Any]]:  # fmt: skip
    """A program's table, and what must live as long as it. Inputs and outputs are given with their slots, and the slots
    of those in Fortran's order; kernels by address and length of their table."""
    extents = [np.array(t.shape, np.int64) for _, t in outputs]
    made = [
        w
        for (slot, t), shape in zip(outputs, extents, strict=True)
        for w in (slot, t.ndim, shape.ctypes.data, id(native(t)), slot in turned)
    ]
    tables = [np.array(words, np.int64) for words in (made, recipe)]
    words = [0] * BINDINGS
    words[COUNT], words[RELEASE], words[LIMIT] = len(inputs), int(release), UNLIMITED
    words[KERNELS], words[KERNEL_WORDS] = kernels
    words[OUTPUTS], words[OUTPUT_COUNT] = tables[0].ctypes.data, len(outputs)
    words[RECIPE], words[RECIPE_LENGTH] = tables[1].ctypes.data, len(recipe) // 2
    words[MORE], words[REFUSE], words[BUILD] = id(helpers.more), id(helpers.refuse), id(helpers.build)
    words[ARRAY_CLASS], words[SCALAR_CLASS] = id(np.ndarray), id(np.float64)
    words[STEPS] = id(helpers.steps) if helpers.steps is not None else 0
    bindings = [w for slot, t in inputs for w in _binding(slot, t, "CF"[slot in turned])]
    return np.array([*words, *bindings], np.int64), [*tables, *extents, helpers]


def native(t: ArrayType) -> np.dtype[Any]:
    """The one object that describes nearly all arrays of this dtype; others have equal ones."""
    return np.dtype(t.dtype.type) if t.dtype.kind in "biufc" else t.dtype  # text has a width, time a unit


def _binding(slot: int, t: ArrayType, order: str) -> list[int]:
    """One value's entry in a program; Python's whole numbers come as NumPy's."""
    if t.kind == "array":
        return [IN_ORDER[order], slot, id(native(t)), t.ndim, *t.shape]
    python: dict[str, type] = {"c": complex, "f": float}
    cls = python.get(t.dtype.kind, t.dtype.type) if t.kind == "python" else t.dtype.type
    return [FLOAT64 if t.name == "float64" else NUMBER, slot, id(cls), 0]
