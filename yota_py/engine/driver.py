"""The driver: one compiled function that takes NumPy's and Python's own objects and runs a program's kernels.

``call(program, frame, *values)`` reads each object's fields directly (the layout of ``PyArrayObject``,
``PyFloatObject`` and NumPy's float64 scalar is part of their C interface), checks type, dtype and shape against the
program's bindings, puts pointers and numbers into the frame, and runs the kernels with the interpreter lock released if
the program asks, up to the first that reports a fault. It answers 0 if all went well, 1 if a value does not fit its
binding (nothing has run), or the fault.

A *program* is a table of 64-bit words: the number of bindings, whether to release the lock, the address and length of
the kernel table, how many calls went well, what to add to it, then the bindings ``kind, slot, descriptor, ndim,
*shape``. The kernel table holds per kernel: its length in words, its address, its own words.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from .codegen import compile_module, new_module
from .emit import ERROR_SLOT, NO_FAULT

PYTHON_FLOAT, ARRAY, FLOAT64_SCALAR = 0, 1, 2

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
PTR, DOUBLE, VOID = ir.PointerType(), ir.DoubleType(), ir.VoidType()

_HEAD = object.__basicsize__  # of every Python object: reference count and type
_TYPE = _HEAD - 8
_DATA, _NDIM, _SHAPE, _DESCRIPTOR, _FLAGS = _HEAD, _HEAD + 8, _HEAD + 16, _HEAD + 40, _HEAD + 48
_WANTED_FLAGS = 0x0001 | 0x0100  # C-contiguous and aligned
OK, MISFIT = 0, 1
COUNT, RELEASE, TABLE, LENGTH, CALLS, ONE, BINDINGS = range(7)  # words of a program


def _const(n: int) -> ir.Constant:
    return ir.Constant(I64, n)


class _Writer:
    """A few shorthands over the builder."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    def load(self, pointer: Any, byte: Any, kind: ir.Type) -> Any:
        offset = _const(byte) if isinstance(byte, int) else byte
        return self.b.load(self.b.gep(pointer, [offset], source_etype=I8), typ=kind, align=1)

    def word(self, pointer: Any, index: Any) -> Any:
        offset = _const(index) if isinstance(index, int) else index
        return self.b.load(self.b.gep(pointer, [offset], source_etype=I64), typ=I64)

    def call(self, name: str, result: ir.Type, *args: Any) -> Any:
        known = self.b.module.globals.get(name)
        fn = known or ir.Function(self.b.module, ir.FunctionType(result, [a.type for a in args]), name)
        return self.b.call(fn, args)

    def require(self, condition: Any, otherwise: ir.Block) -> None:
        go_on = self.function.append_basic_block("good")
        self.b.cbranch(condition, go_on, otherwise)
        self.b.position_at_end(go_on)


def _emit_run(module: ir.Module) -> ir.Function:
    """``void run(int64 *frame, int64 *table, int64 length)``: each kernel of the table in turn, until one reports a
    fault."""
    function = ir.Function(module, ir.FunctionType(VOID, [PTR, PTR, I64]), "run")
    w = _Writer(function)
    frame, table, length = function.args
    w.b.store(_const(NO_FAULT), w.b.gep(frame, [_const(ERROR_SLOT)], source_etype=I64))
    entry = w.b.block
    head, body, done = (function.append_basic_block(n) for n in ("head", "body", "done"))
    w.b.branch(head)
    w.b.position_at_end(head)
    at = w.b.phi(I64)
    at.add_incoming(_const(0), entry)
    w.b.cbranch(w.b.icmp_signed("<", at, length), body, done)
    w.b.position_at_end(body)
    record = w.b.gep(table, [at], source_etype=I64)
    kernel = w.b.inttoptr(w.word(record, 1), ir.FunctionType(VOID, [PTR, PTR]).as_pointer())
    words = w.b.gep(record, [_const(2)], source_etype=I64)
    w.b.call(kernel, [frame, words])
    at.add_incoming(w.b.add(at, w.word(record, 0)), body)
    w.b.cbranch(w.b.icmp_signed("==", w.word(frame, ERROR_SLOT), _const(NO_FAULT)), head, done)
    w.b.position_at_end(done)
    w.b.ret_void()
    return function


def _emit_bind(w: _Writer, program: Any, frame: Any, values: Any, misfit: ir.Block) -> None:
    """Check the values against the program's bindings and fill the frame."""
    b, function = w.b, w.function
    count = w.word(program, COUNT)
    entry = b.block
    head, body, done = (function.append_basic_block(n) for n in ("bind", "bind_one", "bound"))
    b.branch(head)
    b.position_at_end(head)
    k, at = b.phi(I64), b.phi(I64)
    k.add_incoming(_const(0), entry)
    at.add_incoming(_const(BINDINGS), entry)
    b.cbranch(b.icmp_signed("<", k, count), body, done)
    b.position_at_end(body)
    binding = b.gep(program, [at], source_etype=I64)
    kind, slot, ndim = w.word(binding, 0), w.word(binding, 1), w.word(binding, 3)
    value = b.load(b.gep(values, [k], source_etype=PTR), typ=PTR)
    cls = w.load(value, _TYPE, I64)
    target = b.gep(frame, [slot], source_etype=I64)
    number, array, following = (function.append_basic_block(n) for n in ("number", "array", "following"))
    b.cbranch(b.icmp_signed("==", kind, _const(ARRAY)), array, number)

    b.position_at_end(number)
    wanted = b.select(b.icmp_signed("==", kind, _const(PYTHON_FLOAT)), _const(id(float)), _const(id(np.float64)))
    w.require(b.icmp_signed("==", cls, wanted), misfit)
    b.store(w.load(value, _HEAD, DOUBLE), target)
    b.branch(following)

    b.position_at_end(array)
    w.require(b.icmp_signed("==", cls, _const(id(np.ndarray))), misfit)
    w.require(b.icmp_signed("==", w.load(value, _DESCRIPTOR, I64), w.word(binding, 2)), misfit)
    w.require(b.icmp_signed("==", b.sext(w.load(value, _NDIM, I32), I64), ndim), misfit)
    flags = b.and_(w.load(value, _FLAGS, I32), ir.Constant(I32, _WANTED_FLAGS))
    w.require(b.icmp_signed("==", flags, ir.Constant(I32, _WANTED_FLAGS)), misfit)
    shape = w.load(value, _SHAPE, PTR)
    before = b.block
    dim_head, dim_body, dim_done = (function.append_basic_block(n) for n in ("dims", "dim", "dims_done"))
    b.branch(dim_head)
    b.position_at_end(dim_head)
    d = b.phi(I64)
    d.add_incoming(_const(0), before)
    b.cbranch(b.icmp_signed("<", d, ndim), dim_body, dim_done)
    b.position_at_end(dim_body)
    w.require(b.icmp_signed("==", w.word(shape, d), w.word(binding, b.add(d, _const(4)))), misfit)
    d.add_incoming(b.add(d, _const(1)), b.block)
    b.branch(dim_head)
    b.position_at_end(dim_done)
    b.store(w.load(value, _DATA, I64), target)
    b.branch(following)

    b.position_at_end(following)
    k.add_incoming(b.add(k, _const(1)), following)
    at.add_incoming(b.add(b.add(at, ndim), _const(4)), following)
    b.branch(head)
    b.position_at_end(done)


def _emit_call(module: ir.Module, run: ir.Function) -> None:
    """The vectorcall entries ``call(program, frame, *values)`` and ``resume(frame, table, length)``."""
    fastcall = ir.FunctionType(PTR, [PTR, PTR, I64])
    function = ir.Function(module, fastcall, "call")
    w = _Writer(function)
    misfit = function.append_basic_block("misfit")
    _, args, count = function.args
    program, frame = (_address(w, args, i) for i in (0, 1))
    w.require(w.b.icmp_signed("==", w.b.sub(count, _const(2)), w.word(program, COUNT)), misfit)
    _emit_bind(w, program, frame, w.b.gep(args, [_const(2)], source_etype=PTR), misfit)
    table, length = w.b.inttoptr(w.word(program, TABLE), PTR), w.word(program, LENGTH)
    fault = _guarded_run(w, run, frame, table, length, w.word(program, RELEASE))
    good = w.b.icmp_signed("==", fault, _const(OK))
    more = w.b.select(good, w.word(program, ONE), _const(0))
    calls = w.b.gep(program, [_const(CALLS)], source_etype=I64)
    w.b.store(w.b.add(w.b.load(calls, typ=I64), more), calls)
    w.b.ret(w.call("PyLong_FromLong", PTR, fault))
    with w.b.goto_block(misfit):
        w.b.ret(w.call("PyLong_FromLong", PTR, _const(MISFIT)))

    function = ir.Function(module, fastcall, "resume")
    w = _Writer(function)
    frame, table, length = (_address(w, function.args[1], i) for i in range(3))
    fault = _guarded_run(w, run, frame, table, w.b.ptrtoint(length, I64), _const(1))
    w.b.ret(w.call("PyLong_FromLong", PTR, fault))


def _address(w: _Writer, args: Any, index: int) -> Any:
    value = w.b.load(w.b.gep(args, [_const(index)], source_etype=PTR), typ=PTR)
    return w.call("PyLong_AsVoidPtr", PTR, value)


def _guarded_run(w: _Writer, run: ir.Function, frame: Any, table: Any, length: Any, release: Any) -> Any:
    """Run the table, with the interpreter lock released if asked; the status."""
    b = w.b
    releasing = b.icmp_signed("!=", release, _const(0))
    with b.if_else(releasing) as (then, otherwise):
        with then:
            state = w.call("PyEval_SaveThread", PTR)
            b.call(run, [frame, table, length])
            w.call("PyEval_RestoreThread", VOID, state)
        with otherwise:
            b.call(run, [frame, table, length])
    fault = w.word(frame, ERROR_SLOT)
    failed = b.icmp_signed("!=", fault, _const(NO_FAULT))
    return b.select(failed, fault, _const(OK))


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_METH_FASTCALL = 0x0080
_definitions: list[_MethodDef] = []


def _builtin(name: str, address: int) -> Callable[..., int]:
    """A Python builtin that calls machine code: no marshalling in between."""
    definition = _MethodDef(name.encode(), address, _METH_FASTCALL, None)
    _definitions.append(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return make(ctypes.addressof(definition), None, None)  # type: ignore[no-any-return]


@functools.cache
def driver() -> tuple[Callable[..., int], Callable[..., int]]:
    """``(call, resume)``, compiled once a process."""
    module = new_module("driver")
    _emit_call(module, _emit_run(module))
    addresses = compile_module(module, ["call", "resume"])
    return _builtin("call", addresses["call"]), _builtin("resume", addresses["resume"])


def binding_words(kind: int, slot: int, dtype: Any = None, shape: Sequence[int] = ()) -> list[int]:
    """One value's entry in a program."""
    return [kind, slot, 0 if dtype is None else id(np.dtype(dtype)), len(shape), *shape]
